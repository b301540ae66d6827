/* buf.c -- invariant: len <= cap, and data is NULL exactly when cap is 0. */
#include "base/buf.h"
#include "base/check.h"

/* One engine answers many small things: a first step of 256 holds a usual head. */
#define FIRST_CAP 256u

mr_rc mr_buf_grow(mr_mem *mem, mr_buf *buf, size_t more) {
    MR_DEBUG_ASSERT(buf->len <= buf->cap);
    if (more > SIZE_MAX - buf->len)
        return MR_NOMEM;
    size_t need = buf->len + more;
    size_t cap = buf->cap > SIZE_MAX / 2 ? SIZE_MAX : buf->cap * 2;
    if (cap < FIRST_CAP)
        cap = FIRST_CAP;
    if (cap < need)
        cap = need;
    uint8_t *data = mr_mem_resize(mem, buf->data, buf->cap, cap);
    if (data == NULL)
        return MR_NOMEM;
    buf->data = data;
    buf->cap = cap;
    return MR_OK;
}

void mr_buf_consume(mr_buf *buf, size_t count) {
    MR_ASSERT(count <= buf->len);
    buf->len -= count;
    if (count != 0 && buf->len != 0)
        memmove(buf->data, buf->data + count, buf->len);
}

void mr_buf_dispose(mr_mem *mem, mr_buf *buf) {
    mr_mem_free(mem, buf->data, buf->cap);
    *buf = (mr_buf){0};
}
