/* mem_test.c -- counting, and injected failure. */
#include "base/mem.c"
#include <string.h>

static void counts_what_is_asked_for(void) {
    mr_mem mem = {0};
    void *a = mr_mem_alloc(&mem, 100);
    uint8_t *b = mr_mem_zalloc(&mem, 50);
    MR_ASSERT(a != NULL && b != NULL);
    for (int i = 0; i < 50; i++)
        MR_ASSERT(b[i] == 0);
    MR_ASSERT(mem.used_bytes == 150 && mem.peak_bytes == 150);
    mr_mem_free(&mem, a, 100);
    MR_ASSERT(mem.used_bytes == 50 && mem.peak_bytes == 150);
    mr_mem_free(&mem, NULL, 0);
    mr_mem_free(&mem, b, 50);
    MR_ASSERT(mem.used_bytes == 0 && mem.peak_bytes == 150);
}

static void resize_keeps_bytes_and_count(void) {
    mr_mem mem = {0};
    char *block = mr_mem_resize(&mem, NULL, 0, 4);
    MR_ASSERT(block != NULL);
    memcpy(block, "abcd", 4);
    block = mr_mem_resize(&mem, block, 4, 4000);
    MR_ASSERT(block != NULL && memcmp(block, "abcd", 4) == 0 && mem.used_bytes == 4000);
    block = mr_mem_resize(&mem, block, 4000, 2);
    MR_ASSERT(block != NULL && memcmp(block, "ab", 2) == 0 && mem.used_bytes == 2);
    MR_ASSERT(mem.peak_bytes == 4000);
    mr_mem_free(&mem, block, 2);
    MR_ASSERT(mem.used_bytes == 0);
}

static void nothing_is_a_size(void) {
    mr_mem mem = {0};
    void *a = mr_mem_alloc(&mem, 0);
    void *b = mr_mem_zalloc(&mem, 0);
    MR_ASSERT(a != NULL && b != NULL && a != b && mem.used_bytes == 0);
    a = mr_mem_resize(&mem, a, 0, 0);
    MR_ASSERT(a != NULL);
    mr_mem_free(&mem, a, 0);
    mr_mem_free(&mem, b, 0);
}

static void absurd_sizes_fail(void) {
    mr_mem mem = {0};
    volatile size_t absurd = (size_t)PTRDIFF_MAX + 1;
    char *block = mr_mem_alloc(&mem, 8);
    MR_ASSERT(block != NULL);
    MR_ASSERT(mr_mem_alloc(&mem, absurd) == NULL);
    MR_ASSERT(mr_mem_zalloc(&mem, SIZE_MAX) == NULL);
    MR_ASSERT(mr_mem_resize(&mem, block, 8, absurd) == NULL);
    MR_ASSERT(mem.used_bytes == 8 && mem.peak_bytes == 8);
    mr_mem_free(&mem, block, 8);
}

static void fails_after_n_and_stays_failing(void) {
    mr_mem mem = {.fail_after = 2};
    char *a = mr_mem_alloc(&mem, 1);
    char *b = mr_mem_zalloc(&mem, 1);
    MR_ASSERT(a != NULL && b != NULL);
    for (int i = 0; i < 3; i++) {
        MR_ASSERT(mr_mem_alloc(&mem, 1) == NULL);
        MR_ASSERT(mr_mem_zalloc(&mem, 1) == NULL);
        MR_ASSERT(mr_mem_resize(&mem, a, 1, 9) == NULL);
    }
    a[0] = 'x'; /* a failed resize leaves the block */
    MR_ASSERT(mem.used_bytes == 2);
    mem.fail_after = 0;
    a = mr_mem_resize(&mem, a, 1, 9);
    MR_ASSERT(a != NULL && a[0] == 'x');
    mem.fail_after = -1;
    MR_ASSERT(mr_mem_alloc(&mem, 1) == NULL);
    mr_mem_free(&mem, a, 9);
    mr_mem_free(&mem, b, 1);
    MR_ASSERT(mem.used_bytes == 0);
}

int main(void) {
    counts_what_is_asked_for();
    resize_keeps_bytes_and_count();
    nothing_is_a_size();
    absurd_sizes_fail();
    fails_after_n_and_stays_failing();
    return 0;
}
