/* h1_parse.h -- HTTP/1.1 request heads and chunked bodies, strictly by RFC 9112.
 * Stateless for heads: the caller keeps the bytes and calls again when more have come. Split
 * delivery gives the same verdict as whole delivery by construction.
 * Owns:    nothing.
 * Borrows: the bytes, for the length of one call.
 * Thread:  any; no state outside the arguments. */
#ifndef MR_PROTO_H1_PARSE_H
#define MR_PROTO_H1_PARSE_H

#include "base/rc.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Methods with a number of their own; the order is a contract with lib/. MR_METHOD_OTHER is any
 * other token: well-formed, known to nobody but the application. */
typedef enum mr_method {
    MR_METHOD_OTHER = 0,
    MR_METHOD_GET,
    MR_METHOD_HEAD,
    MR_METHOD_POST,
    MR_METHOD_PUT,
    MR_METHOD_DELETE,
    MR_METHOD_PATCH,
    MR_METHOD_OPTIONS,
    MR_METHOD_CONNECT,
    MR_METHOD_TRACE,
    MR_METHOD_QUERY,
    MR_METHOD_PROPFIND,
    MR_METHOD_PROPPATCH,
    MR_METHOD_MKCOL,
    MR_METHOD_COPY,
    MR_METHOD_MOVE,
    MR_METHOD_LOCK,
    MR_METHOD_UNLOCK,
    MR_METHOD_REPORT,
    MR_METHOD_SEARCH,
    MR_METHOD_PURGE,
    MR_METHOD_LINK,
    MR_METHOD_UNLINK,
    MR_METHOD_COUNT
} mr_method;

extern const char *const mr_method_names[MR_METHOD_COUNT]; /* [0] is "" */

/* One field line. Offsets count from the first byte given to the parser. The value has no
 * whitespace around it. JavaScript reads this layout. */
typedef struct mr_h1_field {
    uint16_t name_off, name_len, value_off, value_len;
} mr_h1_field;
_Static_assert(sizeof(mr_h1_field) == 8, "lib/request.js reads this layout");

typedef enum mr_h1_form { /* RFC 9112 3.2 */
                          MR_FORM_ORIGIN,
                          MR_FORM_ABSOLUTE,
                          MR_FORM_AUTHORITY,
                          MR_FORM_ASTERISK
} mr_h1_form;

enum {                             /* mr_h1_head.flags */
       MR_H1_HAS_LENGTH = 1u << 0, /* a valid Content-Length: content_length holds it */
       MR_H1_CHUNKED = 1u << 1,    /* Transfer-Encoding: chunked, alone */
       MR_H1_KEEP_ALIVE = 1u << 2, /* the connection persists after this exchange (RFC 9112 9.3) */
       MR_H1_EXPECT_100 = 1u << 3, /* Expect: 100-continue, HTTP/1.1 only */
       MR_H1_UPGRADE = 1u << 4, /* HTTP/1.1, Connection lists upgrade, an Upgrade field is there */
       MR_H1_SAID_KEEP_ALIVE = 1u << 5 /* HTTP/1.0 with Connection: keep-alive: answer likewise */
};

typedef struct mr_h1_limits {
    uint32_t header_bytes; /* whole head, request line and final CRLF included; <= 65535 */
    uint32_t header_count; /* field lines; capacity of the fields array; <= 65535 */
    uint32_t target_bytes; /* request-target; passing header_bytes first is a 431 */
} mr_h1_limits;

typedef struct mr_h1_head {
    uint32_t head_len; /* bytes consumed: skipped empty line, request line, fields, final CRLF */
    uint32_t flags;
    uint64_t content_length;
    uint16_t status; /* 0, or after MR_BADPEER: 400 417 501 505, after MR_LIMIT: 414 431 */
    uint8_t method;  /* mr_method */
    uint8_t minor;   /* 0 or 1; a higher 1.x counts as 1 */
    uint8_t form;    /* mr_h1_form */
    uint16_t method_off, method_len;
    uint16_t target_off, target_len; /* as received */
    uint16_t path_off, path_len;     /* origin or absolute form, without the query. path_len 0 (an
                                        absolute form without a path) means "/" */
    uint16_t query_off, query_len;   /* behind the '?'; both 0 without one */
    uint16_t host_off, host_len;     /* authority of an absolute form, else the Host value; len 0
                                        when there is none */
    uint16_t field_count;
} mr_h1_head;

typedef struct mr_h1_scan mr_h1_scan; /* one set of scanning functions */

/* The fastest scanner that this CPU runs: "avx2", "sse2", "neon" or "scalar". Ask once and keep it.
 */
const mr_h1_scan *mr_h1_scan_best(void);
/* A scanner by name, NULL when this CPU or build has none: for tests. */
const mr_h1_scan *mr_h1_scan_named(const char *name);
const char *mr_h1_scan_name(const mr_h1_scan *scan);

/* Parses the head at the start of bytes[0..len). `seen` is how many of these bytes an earlier call
 * that returned MR_AGAIN was given (0 on the first): when no line has ended since, it returns at
 * once. Returns MR_OK (head and fields filled), MR_AGAIN (more bytes needed), or MR_BADPEER /
 * MR_LIMIT with head->status; after those the connection must be closed. A line is judged when its
 * LF is there, limits as soon as they are certainly passed. `fields` has room for
 * limits->header_count entries. The bytes behind len are never read.
 * After MR_BADPEER or MR_LIMIT only status is sure. method, minor, form, target and path are those
 * of the request line when the error came behind it, and 0 when it came in the request line. */
mr_rc mr_h1_parse_head(const mr_h1_scan *scan, const mr_h1_limits *limits, const uint8_t *bytes,
                       size_t len, size_t seen, mr_h1_head *head,
                       mr_h1_field *fields) MR_MUST_CHECK;

/* One way to parse heads, by the contract of mr_h1_parse_head(); which one an engine uses is its
 * option. A table of pointers beyond the budget of src/STYLE.md: the host's llhttp must stand in for
 * our own parser whole. Chunked content is decoded by mr_h1_chunked_next() with either, because the
 * engine copies and restores that state (docs/parsers.md). */
typedef struct mr_h1_parser {
    const char *name; /* "millrace" or "llhttp" */
    mr_rc (*parse_head)(void *self, const mr_h1_limits *limits, const uint8_t *bytes, size_t len,
                        size_t seen, mr_h1_head *head, mr_h1_field *fields);
} mr_h1_parser;

extern const mr_h1_parser mr_h1_parser_millrace; /* self: the const mr_h1_scan */

/* Finds a field by lower-case name from index `from` on; field_count when there is none. */
uint16_t mr_h1_find_field(const uint8_t *bytes, const mr_h1_head *head, const mr_h1_field *fields,
                          const char *lower_name, size_t name_len, uint16_t from);

/* ---- chunked transfer coding, RFC 9112 7.1 ---- */

/* Size line with its extensions, without the CRLF; over it: 400. */
#define MR_CHUNK_LINE_MAX 1024u

typedef struct mr_h1_chunked { /* zeroed: at the start of a body */
    uint64_t left;             /* bytes of the current chunk still to come */
    uint32_t line_bytes;       /* of the current size line */
    uint32_t trailer_bytes;    /* of the trailer section so far, its final CRLF included, against
                                  limits->header_bytes */
    uint16_t trailer_count;    /* trailer lines so far, against limits->header_count */
    uint16_t status;           /* 400 or 431 after an error */
    uint8_t state;             /* private */
} mr_h1_chunked;

/* Consumes from bytes[0..len) up to and including the next piece of content.
 * MR_OK: *consumed bytes were taken; *data with *data_len is content inside `bytes` (empty only
 * when *is_done: otherwise call again with the rest). MR_AGAIN: all of it was taken and more is
 * needed. MR_BADPEER / MR_LIMIT: ch->status, and the same answer ever after. Behind the last chunk
 * and the trailer section *is_done is set, and bytes behind *consumed belong to the next request.
 * Trailer fields are checked and dropped. */
mr_rc mr_h1_chunked_next(mr_h1_chunked *ch, const mr_h1_limits *limits, const uint8_t *bytes,
                         size_t len, size_t *consumed, const uint8_t **data, size_t *data_len,
                         bool *is_done) MR_MUST_CHECK;

#endif
