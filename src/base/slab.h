/* slab.h -- fixed-size objects with stable addresses and 64-bit ids.
 * An id is slot | generation << 32. A generation is odd while the slot is in use and grows by one
 * at each alloc and free, so an old id never finds a newer object (before 2^31 reuses of one slot).
 * No id is 0.
 * Owns:    blocks of MR_SLAB_BLOCK objects each; a block is given back when all of it is free and
 *          another free block exists (so that a closing crowd returns its memory). What stays are
 *          the generations, 4 bytes for each slot ever used: ids remain stale for good.
 * Cost:    beside the objects themselves (rounded up to 16 bytes) 4.3 to 6.5 bytes for each.
 * Thread:  the engine's.
 * Uses:    base/mem.h. */
#ifndef MR_BASE_SLAB_H
#define MR_BASE_SLAB_H

#include "base/mem.h"

#define MR_SLAB_BLOCK 64u /* objects in a block: one bit each in a word */

/* Exposed for mr_slab_get only; everybody else goes through the functions. */
typedef struct mr_slab_block {
    uint8_t *objects;                    /* owned; NULL while the block is given back */
    uint64_t free;                       /* bit i: slot i may be handed out */
    uint32_t generations[MR_SLAB_BLOCK]; /* survive the memory of the block */
} mr_slab_block;

typedef struct mr_slab {
    /* constant after create */
    mr_mem *mem;          /* borrowed; outlives the slab */
    size_t object_bytes;  /* as asked for: what alloc zeroes */
    size_t stride_bytes;  /* object_bytes rounded up to 16 */
    uint32_t max_objects; /* bound of count, and of every slot number */
    /* changes with alloc and free */
    uint32_t slot_count;   /* slots with a generation: MR_SLAB_BLOCK * block_count */
    mr_slab_block *blocks; /* owned; block_cap entries, block_count of them live */
    uint64_t *open;        /* owned; bit b: block b has memory and a free slot */
    uint32_t block_count;
    uint32_t block_cap;
    uint32_t word_cap;    /* words in `open` */
    uint32_t open_from;   /* words of `open` before this one are 0 */
    uint32_t absent_from; /* blocks before this one all have memory */
    uint32_t spare;       /* the one wholly free block that is kept, or MR_SLAB_NONE */
    uint32_t count;       /* objects in use, <= max_objects */
} mr_slab;

#define MR_SLAB_NONE UINT32_MAX
#define MR_SLAB_MOST (UINT32_C(1) << 31) /* objects in any slab */

/* `max_objects` (>= 1; above MR_SLAB_MOST is taken as that) bounds the slab: alloc gives NULL
 * beyond it, and slot numbers stay below it. NULL when memory is short. */
mr_slab *mr_slab_create(mr_mem *mem, size_t object_bytes, uint32_t max_objects) MR_MUST_CHECK;
/* Accepts NULL. Objects still in use are released with their blocks. */
void mr_slab_destroy(mr_slab *slab);
/* A zeroed object, or NULL (memory short, or max_objects in use). 16-byte aligned; its address
 * holds until it is freed. */
void *mr_slab_alloc(mr_slab *slab, uint64_t *id) MR_MUST_CHECK;
/* Accepts 0. Any other id must be of an object in use: freeing twice is our bug and asserted. */
void mr_slab_free(mr_slab *slab, uint64_t id);
/* Walks objects in use: start with *cursor = 0, NULL at the end. The object just returned may be
 * freed before the next call; one that is allocated during the walk may or may not be met. */
void *mr_slab_next(const mr_slab *slab, uint32_t *cursor, uint64_t *id);

/* The object, or NULL for a stale or made-up id; any 64-bit value is safe. */
static inline void *mr_slab_get(const mr_slab *slab, uint64_t id) {
    uint32_t slot = (uint32_t)id;
    uint32_t generation = (uint32_t)(id >> 32);
    if (MR_UNLIKELY(slot >= slab->slot_count))
        return NULL;
    const mr_slab_block *block = &slab->blocks[slot / MR_SLAB_BLOCK];
    /* An even generation is that of a free slot: it would compare equal and find no object. */
    if (MR_UNLIKELY(block->generations[slot % MR_SLAB_BLOCK] != generation || generation % 2 == 0))
        return NULL;
    return block->objects + (slot % MR_SLAB_BLOCK) * slab->stride_bytes;
}

static inline uint32_t mr_slab_count(const mr_slab *slab) { return slab->count; }

#endif
