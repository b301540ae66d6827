/* h1_scan.h -- what h1_parse.c, the scanners and h1_llhttp.c share; nobody else includes it.
 * A scanner is h1_scan_body.h compiled for one instruction set. It walks lines and finds their ends
 * fast, on the assumption that all is well; whatever is not goes to the mr_h1_refuse_* functions,
 * which look again, slowly, and alone decide between "refused" and "not all there yet".
 * Owns:    nothing.
 * Borrows: the bytes, for the length of one call.
 * Thread:  any; no state outside the job. */
#ifndef MR_PROTO_H1_SCAN_H
#define MR_PROTO_H1_SCAN_H

#include "proto/h1_parse.h"

#define MR_H1_METHOD_MAX 64u /* octets; a longer method is 501 */

/* One call of mr_h1_parse_head. */
typedef struct mr_h1_job {
    const uint8_t *bytes; /* borrowed */
    size_t end;           /* bytes that count: the smaller of len and limits->header_bytes */
    const mr_h1_limits *limits;
    mr_h1_head *head;
    mr_h1_field *fields;
    uint32_t noted; /* private to h1_parse.c: what the fields have said so far */
} mr_h1_job;

struct mr_h1_scan {
    const char *name;
    bool (*is_supported)(void); /* by this CPU */
    mr_rc (*parse)(mr_h1_job *job);
};

extern const mr_h1_scan mr_h1_scan_scalar;
#if defined(__x86_64__)
extern const mr_h1_scan mr_h1_scan_sse2;
extern const mr_h1_scan mr_h1_scan_avx2;
#elif defined(__aarch64__)
extern const mr_h1_scan mr_h1_scan_neon;
#endif

/* First lower-case letter of the one field name of that length that the parser itself heeds, 0 for
 * other lengths: enough to pass by nearly all other names. */
#define MR_H1_HEEDED_MAX 18u
extern const uint8_t mr_h1_heeded_initial[MR_H1_HEEDED_MAX];

/* The request line is complete and its version is HTTP/1.`minor`. `query` is the place of the first
 * '?' in the target, or target_end. Sets the head; MR_BADPEER for a target that does not fit. */
mr_rc mr_h1_note_request_line(mr_h1_job *job, size_t start, size_t method_end, size_t target_end,
                              size_t query) MR_MUST_CHECK;
/* A field whose name passed mr_h1_heeded_initial. MR_BADPEER when its value is wrong. */
mr_rc mr_h1_note_field(mr_h1_job *job, mr_h1_field field) MR_MUST_CHECK;
/* The empty line has come, `head_len` bytes with it: what only the whole head can tell. */
mr_rc mr_h1_finish(mr_h1_job *job, size_t head_len, size_t field_count) MR_MUST_CHECK;
/* The request line at `start` is not a good one, or not all of it is there. */
mr_rc mr_h1_refuse_request_line(mr_h1_job *job, size_t start) MR_MUST_CHECK;
/* The same for a field line; `status` is the answer when the line is complete. */
mr_rc mr_h1_refuse_field_line(mr_h1_job *job, size_t line, uint16_t status) MR_MUST_CHECK;

#endif
