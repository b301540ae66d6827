/* mem.c -- invariant: used_bytes is the sum of the sizes of all live blocks, and never more than
 * peak_bytes. A failed call changes neither. */
#include "base/mem.h"
#include "base/check.h"
#include <stdlib.h>

/* Whether this allocation may go on to malloc. Sizes beyond PTRDIFF_MAX are an arithmetic slip
 * further up; malloc would refuse them as well, but the sanitizers' malloc ends the process. */
static int may_allocate(mr_mem *mem, size_t bytes) {
    if (MR_UNLIKELY(bytes > PTRDIFF_MAX))
        return 0;
    if (MR_LIKELY(mem->fail_after == 0))
        return 1;
    if (mem->fail_after < 0)
        return 0;
    if (--mem->fail_after == 0)
        mem->fail_after = -1;
    return 1;
}

static void count_up(mr_mem *mem, size_t bytes) {
    mem->used_bytes += bytes;
    if (mem->used_bytes > mem->peak_bytes)
        mem->peak_bytes = mem->used_bytes;
}

/* malloc(0) may give NULL, which would read as a shortage. */
static size_t at_least_one(size_t bytes) { return bytes != 0 ? bytes : 1; }

void *mr_mem_alloc(mr_mem *mem, size_t bytes) {
    void *block = may_allocate(mem, bytes) ? malloc(at_least_one(bytes)) : NULL;
    if (MR_LIKELY(block != NULL))
        count_up(mem, bytes);
    return block;
}

void *mr_mem_zalloc(mr_mem *mem, size_t bytes) {
    /* calloc, not memset: fresh pages from the kernel are zero already and stay untouched. */
    void *block = may_allocate(mem, bytes) ? calloc(1, at_least_one(bytes)) : NULL;
    if (MR_LIKELY(block != NULL))
        count_up(mem, bytes);
    return block;
}

void *mr_mem_resize(mr_mem *mem, void *block, size_t old_bytes, size_t new_bytes) {
    MR_ASSERT(old_bytes <= mem->used_bytes);
    void *moved = may_allocate(mem, new_bytes) ? realloc(block, at_least_one(new_bytes)) : NULL;
    if (MR_LIKELY(moved != NULL)) {
        mem->used_bytes -= old_bytes;
        count_up(mem, new_bytes);
    }
    return moved;
}

void mr_mem_free(mr_mem *mem, void *block, size_t bytes) {
    if (block == NULL)
        return;
    MR_ASSERT(bytes <= mem->used_bytes);
    mem->used_bytes -= bytes;
    free(block);
}
