/* buf.h -- growable bytes. A zeroed mr_buf is empty and owns nothing.
 * Owns:    data, from the mr_mem that every call names (always the same one for one buf).
 * Thread:  the engine's.
 * Uses:    base/mem.h. */
#ifndef MR_BASE_BUF_H
#define MR_BASE_BUF_H

#include "base/mem.h"
#include <string.h>

typedef struct mr_buf {
    uint8_t *data; /* owned; NULL when cap is 0 */
    size_t len;    /* bytes in use, <= cap */
    size_t cap;    /* bytes allocated */
} mr_buf;

/* The slow half of mr_buf_reserve. Grows by doubling, at least 256. */
mr_rc mr_buf_grow(mr_mem *mem, mr_buf *buf, size_t more) MR_MUST_CHECK;
/* Drops the first `count` bytes (<= len), moving the rest to the front. Keeps the memory. */
void mr_buf_consume(mr_buf *buf, size_t count);
/* Frees the memory; the buf is empty and reusable afterwards. */
void mr_buf_dispose(mr_mem *mem, mr_buf *buf);

/* Makes room for `more` bytes behind len. MR_NOMEM (memory short, or a sum beyond size_t) leaves
 * the buffer as it was. */
MR_MUST_CHECK static inline mr_rc mr_buf_reserve(mr_mem *mem, mr_buf *buf, size_t more) {
    return MR_LIKELY(buf->cap - buf->len >= more) ? MR_OK : mr_buf_grow(mem, buf, more);
}

/* `bytes` may not point into the buffer itself, and may be NULL when len is 0. MR_NOMEM as above.
 */
MR_MUST_CHECK static inline mr_rc mr_buf_append(mr_mem *mem, mr_buf *buf, const void *bytes,
                                                size_t len) {
    mr_rc rc = mr_buf_reserve(mem, buf, len);
    if (rc == MR_OK && len != 0) {
        memcpy(buf->data + buf->len, bytes, len);
        buf->len += len;
    }
    return rc;
}

#endif
