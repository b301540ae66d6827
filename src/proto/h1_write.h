/* h1_write.h -- the constant texts of HTTP/1.1 responses.
 * Owns:    nothing; writes into the caller's bytes.
 * Thread:  any; no state.
 * Uses:    base/text.h. */
#ifndef MR_PROTO_H1_WRITE_H
#define MR_PROTO_H1_WRITE_H

#include "base/clock.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The reason phrase of a status (RFC 9110 15 and the IANA registry), "Unknown" for another. */
const char *mr_h1_reason(unsigned status);

/* Whether a response of this status never has content (RFC 9110 6.4.1): 1xx, 204, 304. */
static inline bool mr_h1_is_bodyless(unsigned status) {
    return status < 200 || status == 204 || status == 304;
}

enum {                              /* mr_h1_put_tail */
       MR_TAIL_LENGTH = 1u << 0,    /* Content-Length */
       MR_TAIL_DATE = 1u << 1,      /* Date, from the clock */
       MR_TAIL_CLOSE = 1u << 2,     /* Connection: close */
       MR_TAIL_KEEP_ALIVE = 1u << 3, /* Connection: keep-alive, for HTTP/1.0 */
    MR_TAIL_CHUNKED = 1u << 4     /* Transfer-Encoding: chunked, in place of a length */
};

/* Bytes that mr_h1_put_tail writes at most. */
#define MR_TAIL_MAX (16u + 20u + 2u + MR_DATE_FIELD_BYTES + 24u + 2u)

/* Writes the last fields of a head in their fixed order (Content-Length or Transfer-Encoding, Date,
 * Connection) and the
 * empty line. Returns the bytes written. */
size_t mr_h1_put_tail(uint8_t *out, unsigned tail, uint64_t content_length, const mr_clock *clock);

/* Whether `head` is a status line and field lines, each ended by CRLF, without an empty line, bare
 * CR or LF, NUL, or obs-fold: what JavaScript hands over is checked before it goes out. */
bool mr_h1_head_is_sound(const uint8_t *head, size_t len);
/* The same for field lines alone. */
bool mr_h1_fields_are_sound(const uint8_t *fields, size_t len);

#endif
