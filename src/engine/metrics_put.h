/* metrics_put.h -- pieces of the Prometheus text format (0.0.4), appended to a buffer with a bound.
 * Owns:    nothing.
 * Borrows: the buffer and its memory, as long as a mr_text is in use.
 * Thread:  the one that owns the buffer.
 * Uses:    base/buf.h, base/text.h. */
#ifndef MR_ENGINE_METRICS_PUT_H
#define MR_ENGINE_METRICS_PUT_H

#include "base/buf.h"
#include <stdbool.h>

/* Octets of somebody else's; need not end in NUL. */
typedef struct mr_span {
    const char *bytes;
    size_t len;
} mr_span;

/* Where text goes; the first failure stays, and nothing is written after it. */
typedef struct mr_text {
    mr_mem *mem;
    mr_buf *buf;
    size_t max_len; /* of buf; over it: MR_LIMIT */
    mr_rc rc;
} mr_text;

void mr_text_put(mr_text *text, const void *bytes, size_t len);
void mr_text_string(mr_text *text, const char *string);
void mr_text_decimal(mr_text *text, uint64_t value);
/* A number of units of 10^-places each (places <= 9), exactly and without trailing zeros: 1500 of 3
 * places is 1.5. */
void mr_text_fixed(mr_text *text, uint64_t value, unsigned places);
/* The shortest of 15 to 17 digits that reads back as the same double; NaN, +Inf, -Inf. */
void mr_text_double(mr_text *text, double value);
/* With the escapes of the Prometheus format for a label's value; for a help text, without that of
 * the quotation mark. */
void mr_text_escaped(mr_text *text, mr_span value, bool is_label);

#endif
