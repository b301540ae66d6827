/* buf_test.c -- growth, consumption, and what a failed growth leaves behind. */
/* link: base/mem.c */
#include "base/buf.c"

static void grows_by_doubling(void) {
    mr_mem mem = {0};
    mr_buf buf = {0};
    MR_ASSERT(mr_buf_reserve(&mem, &buf, 0) == MR_OK && buf.cap == 0);
    MR_ASSERT(mr_buf_reserve(&mem, &buf, 1) == MR_OK && buf.cap == 256 && buf.len == 0);
    buf.len = 256;
    memset(buf.data, 'a', 256);
    MR_ASSERT(mr_buf_append(&mem, &buf, "b", 1) == MR_OK && buf.cap == 512 && buf.len == 257);
    MR_ASSERT(buf.data[0] == 'a' && buf.data[255] == 'a' && buf.data[256] == 'b');
    MR_ASSERT(mr_buf_reserve(&mem, &buf, 5000) == MR_OK && buf.cap == 5257);
    MR_ASSERT(mem.used_bytes == 5257);
    mr_buf_dispose(&mem, &buf);
    MR_ASSERT(mem.used_bytes == 0 && buf.data == NULL && buf.len == 0 && buf.cap == 0);
    mr_buf_dispose(&mem, &buf);
}

static void room_that_is_there_costs_nothing(void) {
    mr_mem mem = {0};
    mr_buf buf = {0};
    MR_ASSERT(mr_buf_append(&mem, &buf, "abc", 3) == MR_OK);
    mem.fail_after = -1;
    MR_ASSERT(mr_buf_reserve(&mem, &buf, 253) == MR_OK);
    MR_ASSERT(mr_buf_append(&mem, &buf, NULL, 0) == MR_OK);
    MR_ASSERT(mr_buf_reserve(&mem, &buf, 254) == MR_NOMEM);
    mr_buf_dispose(&mem, &buf);
}

static void consume_moves_the_rest(void) {
    mr_mem mem = {0};
    mr_buf buf = {0};
    mr_buf_consume(&buf, 0);
    MR_ASSERT(mr_buf_append(&mem, &buf, "hello world", 11) == MR_OK);
    mr_buf_consume(&buf, 0);
    MR_ASSERT(buf.len == 11);
    mr_buf_consume(&buf, 6);
    MR_ASSERT(buf.len == 5 && memcmp(buf.data, "world", 5) == 0);
    mr_buf_consume(&buf, 5);
    MR_ASSERT(buf.len == 0 && buf.cap == 256);
    mr_buf_dispose(&mem, &buf);
}

static void failure_leaves_the_buffer(void) {
    mr_mem mem = {0};
    mr_buf buf = {0};
    char big[1000];
    memset(big, 'x', sizeof big);
    MR_ASSERT(mr_buf_append(&mem, &buf, "abc", 3) == MR_OK);
    mr_buf before = buf;
    mem.fail_after = -1;
    MR_ASSERT(mr_buf_append(&mem, &buf, big, sizeof big) == MR_NOMEM);
    MR_ASSERT(buf.data == before.data && buf.len == 3 && buf.cap == before.cap);
    mem.fail_after = 0;
    /* A sum that wraps around must not pass for a small one. */
    MR_ASSERT(mr_buf_reserve(&mem, &buf, SIZE_MAX) == MR_NOMEM);
    MR_ASSERT(mr_buf_reserve(&mem, &buf, SIZE_MAX - 3) == MR_NOMEM);
    MR_ASSERT(buf.data == before.data && memcmp(buf.data, "abc", 3) == 0);
    MR_ASSERT(mr_buf_append(&mem, &buf, big, sizeof big) == MR_OK && buf.len == 1003);
    mr_buf_dispose(&mem, &buf);
    MR_ASSERT(mem.used_bytes == 0);
}

int main(void) {
    grows_by_doubling();
    room_that_is_there_costs_nothing();
    consume_moves_the_rest();
    failure_leaves_the_buffer();
    return 0;
}
