/* slab.c -- where the objects are, and which slot is handed out next.
 *
 * Invariants, for block b < block_count:
 *   objects is NULL     =>  no slot of b is in use, and bit b of `open` is 0
 *   bit b of `open`     <=> objects is not NULL and `free` is not 0
 *   slot i is in use    <=> bit i of `free` is 0 (and i is below max_objects)
 *                       <=> its generation is odd
 *   at most one block with memory is wholly free: `spare`.
 *
 * The next slot is always the lowest free one of the lowest block with memory. So after a crowd
 * has left, those that stay and those that come gather in the low blocks, the high ones run empty,
 * and an empty block can go back to malloc. A free list in order of release would spread the
 * survivors over all blocks and give none back. */
#include "base/slab.h"
#include "base/check.h"
#include <string.h>

/* Under AddressSanitizer a freed slot reads as freed memory, though its block lives on. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SLAB_POISONS 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define SLAB_POISONS 1
#endif
#ifdef SLAB_POISONS
#include <sanitizer/asan_interface.h>
#define POISON(at, bytes) __asan_poison_memory_region(at, bytes)
#define UNPOISON(at, bytes) __asan_unpoison_memory_region(at, bytes)
#else
#define POISON(at, bytes) ((void)(at), (void)(bytes))
#define UNPOISON(at, bytes) ((void)(at), (void)(bytes))
#endif

#define WORD_BITS 64u

static uint32_t lowest_bit(uint64_t word) { return (uint32_t)__builtin_ctzll(word); }

/* The slots of a block that may ever be used: all, except in a last block cut by max_objects. */
static uint64_t all_slots(const mr_slab *slab, uint32_t block) {
    uint32_t left = slab->max_objects - block * MR_SLAB_BLOCK;
    return left >= MR_SLAB_BLOCK ? UINT64_MAX : (UINT64_C(1) << left) - 1;
}

static size_t block_bytes(const mr_slab *slab) { return slab->stride_bytes * MR_SLAB_BLOCK; }

static void mark_open(mr_slab *slab, uint32_t block) {
    uint32_t word = block / WORD_BITS;
    slab->open[word] |= UINT64_C(1) << (block % WORD_BITS);
    if (word < slab->open_from)
        slab->open_from = word;
}

static void mark_shut(mr_slab *slab, uint32_t block) {
    slab->open[block / WORD_BITS] &= ~(UINT64_C(1) << (block % WORD_BITS));
}

mr_slab *mr_slab_create(mr_mem *mem, size_t object_bytes, uint32_t max_objects) {
    MR_ASSERT(object_bytes > 0 && object_bytes <= PTRDIFF_MAX / MR_SLAB_BLOCK - 15);
    MR_ASSERT(max_objects > 0);
    mr_slab *slab = mr_mem_alloc(mem, sizeof *slab);
    if (slab == NULL)
        return NULL;
    *slab = (mr_slab){.mem = mem,
                      .object_bytes = object_bytes,
                      .stride_bytes = (object_bytes + 15) & ~(size_t)15,
                      .max_objects = max_objects < MR_SLAB_MOST ? max_objects : MR_SLAB_MOST,
                      .spare = MR_SLAB_NONE};
    return slab;
}

void mr_slab_destroy(mr_slab *slab) {
    if (slab == NULL)
        return;
    for (uint32_t b = 0; b < slab->block_count; b++)
        mr_mem_free(slab->mem, slab->blocks[b].objects, block_bytes(slab));
    mr_mem_free(slab->mem, slab->blocks, slab->block_cap * sizeof *slab->blocks);
    mr_mem_free(slab->mem, slab->open, slab->word_cap * sizeof *slab->open);
    mr_mem_free(slab->mem, slab, sizeof *slab);
}

/* Room for one more entry in `open`. */
static mr_rc grow_words(mr_slab *slab) {
    if (slab->block_count < slab->word_cap * WORD_BITS)
        return MR_OK;
    uint32_t cap = slab->word_cap == 0 ? 1 : slab->word_cap * 2;
    uint64_t *open =
        mr_mem_resize(slab->mem, slab->open, slab->word_cap * sizeof *open, cap * sizeof *open);
    if (open == NULL)
        return MR_NOMEM;
    memset(open + slab->word_cap, 0, (cap - slab->word_cap) * sizeof *open);
    slab->open = open;
    slab->word_cap = cap;
    return MR_OK;
}

/* Room for one more block entry. By half, not by doubling: the slack counts in bytes per object. */
static mr_rc grow_blocks(mr_slab *slab) {
    if (slab->block_count < slab->block_cap)
        return MR_OK;
    uint32_t most = (slab->max_objects - 1) / MR_SLAB_BLOCK + 1;
    uint32_t cap = slab->block_cap + slab->block_cap / 2 + 4;
    if (cap > most)
        cap = most;
    mr_slab_block *blocks = mr_mem_resize(slab->mem, slab->blocks, slab->block_cap * sizeof *blocks,
                                          cap * sizeof *blocks);
    if (blocks == NULL)
        return MR_NOMEM;
    slab->blocks = blocks;
    slab->block_cap = cap;
    return MR_OK;
}

/* The lowest block without memory; a new entry if there is none. The caller has checked that
 * max_objects leaves room. */
static mr_rc find_absent(mr_slab *slab, uint32_t *out) {
    while (slab->absent_from < slab->block_count && slab->blocks[slab->absent_from].objects != NULL)
        slab->absent_from++;
    *out = slab->absent_from;
    if (slab->absent_from < slab->block_count)
        return MR_OK;
    if (grow_words(slab) != MR_OK || grow_blocks(slab) != MR_OK)
        return MR_NOMEM;
    slab->blocks[*out] = (mr_slab_block){.free = all_slots(slab, *out)};
    slab->block_count++;
    slab->slot_count += MR_SLAB_BLOCK;
    return MR_OK;
}

static mr_rc add_memory(mr_slab *slab, uint32_t *out) {
    uint32_t block;
    if (find_absent(slab, &block) != MR_OK)
        return MR_NOMEM;
    uint8_t *objects = mr_mem_alloc(slab->mem, block_bytes(slab));
    if (objects == NULL)
        return MR_NOMEM;
    POISON(objects, block_bytes(slab));
    slab->blocks[block].objects = objects;
    mark_open(slab, block);
    *out = block;
    return MR_OK;
}

/* The lowest block with memory and a free slot, or MR_SLAB_NONE. */
static uint32_t find_open(mr_slab *slab) {
    uint32_t words = (slab->block_count + WORD_BITS - 1) / WORD_BITS;
    for (uint32_t w = slab->open_from; w < words; w++) {
        slab->open_from = w;
        if (slab->open[w] != 0)
            return w * WORD_BITS + lowest_bit(slab->open[w]);
    }
    return MR_SLAB_NONE;
}

void *mr_slab_alloc(mr_slab *slab, uint64_t *id) {
    if (slab->count >= slab->max_objects)
        return NULL;
    uint32_t b = find_open(slab);
    if (b == MR_SLAB_NONE && add_memory(slab, &b) != MR_OK)
        return NULL;
    mr_slab_block *block = &slab->blocks[b];
    uint32_t i = lowest_bit(block->free);
    block->free &= block->free - 1;
    if (block->free == 0)
        mark_shut(slab, b);
    if (slab->spare == b)
        slab->spare = MR_SLAB_NONE;
    uint32_t generation = ++block->generations[i];
    MR_DEBUG_ASSERT(generation % 2 == 1);
    slab->count++;
    uint8_t *object = block->objects + i * slab->stride_bytes;
    UNPOISON(object, slab->object_bytes);
    memset(object, 0, slab->object_bytes);
    *id = (b * MR_SLAB_BLOCK + i) | (uint64_t)generation << 32;
    return object;
}

static void drop_memory(mr_slab *slab, uint32_t b) {
    mr_slab_block *block = &slab->blocks[b];
    mr_mem_free(slab->mem, block->objects, block_bytes(slab));
    block->objects = NULL;
    mark_shut(slab, b);
    if (b < slab->absent_from)
        slab->absent_from = b;
}

/* Block b is wholly free. One such block is kept, or a load that swings around a multiple of
 * MR_SLAB_BLOCK would go to malloc each time; of two, the lower stays. */
static void settle_free_block(mr_slab *slab, uint32_t b) {
    if (slab->spare == MR_SLAB_NONE) {
        slab->spare = b;
        return;
    }
    uint32_t higher = slab->spare > b ? slab->spare : b;
    slab->spare = slab->spare > b ? b : slab->spare;
    drop_memory(slab, higher);
}

void mr_slab_free(mr_slab *slab, uint64_t id) {
    if (id == 0)
        return;
    void *object = mr_slab_get(slab, id);
    MR_ASSERT(object != NULL);
    uint32_t slot = (uint32_t)id;
    uint32_t b = slot / MR_SLAB_BLOCK;
    mr_slab_block *block = &slab->blocks[b];
    block->generations[slot % MR_SLAB_BLOCK]++;
    if (block->free == 0)
        mark_open(slab, b);
    block->free |= UINT64_C(1) << (slot % MR_SLAB_BLOCK);
    slab->count--;
    POISON(object, slab->stride_bytes);
    if (block->free == all_slots(slab, b))
        settle_free_block(slab, b);
}

void *mr_slab_next(const mr_slab *slab, uint32_t *cursor, uint64_t *id) {
    while (*cursor < slab->slot_count) {
        uint32_t b = *cursor / MR_SLAB_BLOCK;
        const mr_slab_block *block = &slab->blocks[b];
        uint64_t in_use = ~block->free & all_slots(slab, b);
        uint64_t ahead = in_use >> (*cursor % MR_SLAB_BLOCK);
        if (ahead != 0) {
            uint32_t slot = *cursor + lowest_bit(ahead);
            *cursor = slot + 1;
            *id = slot | (uint64_t)block->generations[slot % MR_SLAB_BLOCK] << 32;
            return block->objects + (slot % MR_SLAB_BLOCK) * slab->stride_bytes;
        }
        *cursor = (b + 1) * MR_SLAB_BLOCK;
    }
    return NULL;
}
