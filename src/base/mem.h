/* mem.h -- the only malloc of the core, counted per engine.
 * Owns:    nothing; the counters live in a struct mr_mem that the engine embeds.
 * Thread:  the engine's.
 * Uses:    libc. */
#ifndef MR_BASE_MEM_H
#define MR_BASE_MEM_H

#include "base/rc.h"
#include <stddef.h>
#include <stdint.h>

/* A zeroed mr_mem is ready to use. */
typedef struct mr_mem {
    size_t used_bytes; /* handed out and not yet freed, as asked for (without malloc's own) */
    size_t peak_bytes; /* highest used_bytes so far */
    /* Tests only. 0: never fail. n > 0: n more allocations succeed, then every one fails. Negative:
     * every one fails from now on. What counts as an allocation: alloc, zalloc, resize (shrinking
     * too). Stays negative until it is set to 0 again. */
    int64_t fail_after;
} mr_mem;

/* All three return NULL when memory is short. Sizes are the caller's to remember: free and
 * resize take the size that was asked for, so that the count stays exact. 0 bytes is a size like
 * any other: the block is real, may not be written, and must be freed. */
void *mr_mem_alloc(mr_mem *mem, size_t bytes) MR_MUST_CHECK;  /* not zeroed */
void *mr_mem_zalloc(mr_mem *mem, size_t bytes) MR_MUST_CHECK; /* zeroed */
/* Like realloc: accepts NULL with 0 old bytes; on failure the old block stays valid and owned by
 * the caller. What grows is not zeroed. */
void *mr_mem_resize(mr_mem *mem, void *block, size_t old_bytes, size_t new_bytes) MR_MUST_CHECK;
/* Accepts NULL. */
void mr_mem_free(mr_mem *mem, void *block, size_t bytes);

#endif
