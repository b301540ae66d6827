/* slab_test.c -- ids, reuse, memory given back, and a random run against a plain array. */
/* link: base/mem.c */
#include "base/slab.c"
#include <stdint.h>

typedef struct thing {
    uint64_t id;
    uint32_t mark;
} thing;

static uint64_t seed = 1;
static uint32_t roll(uint32_t below) {
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(seed >> 33) % below;
}

static thing *take(mr_slab *slab, uint64_t *id) {
    thing *t = mr_slab_alloc(slab, id);
    if (t != NULL) {
        MR_ASSERT(t->id == 0 && t->mark == 0);
        MR_ASSERT((uintptr_t)t % 16 == 0);
        t->id = *id;
        t->mark = UINT32_MAX; /* so that the next user would see what is not zeroed */
    }
    return t;
}

static void stale_and_made_up_ids(void) {
    mr_mem mem = {0};
    mr_slab *slab = mr_slab_create(&mem, sizeof(thing), 1000);
    MR_ASSERT(slab != NULL);
    static const uint64_t made_up[] = {0,
                                       1,
                                       63,
                                       64,
                                       UINT32_MAX,
                                       UINT64_MAX,
                                       UINT64_C(1) << 32,
                                       UINT64_C(2) << 32,
                                       UINT64_C(3),
                                       1000,
                                       UINT64_C(0xffff) << 32};
    for (size_t i = 0; i < sizeof made_up / sizeof *made_up; i++)
        MR_ASSERT(mr_slab_get(slab, made_up[i]) == NULL);
    uint64_t first, second;
    thing *t = take(slab, &first);
    MR_ASSERT(t != NULL && first == UINT64_C(1) << 32 && mr_slab_get(slab, first) == t);
    mr_slab_free(slab, first);
    MR_ASSERT(mr_slab_get(slab, first) == NULL);
    /* The generation of a free slot is even; an id that carries it must not find the slot. */
    MR_ASSERT(mr_slab_get(slab, UINT64_C(2) << 32) == NULL);
    t = take(slab, &second);
    MR_ASSERT(t != NULL && second == UINT64_C(3) << 32);
    MR_ASSERT(mr_slab_get(slab, first) == NULL && mr_slab_get(slab, second) == t);
    mr_slab_free(slab, 0);
    MR_ASSERT(mr_slab_count(slab) == 1);
    mr_slab_destroy(slab); /* with an object in use */
    mr_slab_destroy(NULL);
    MR_ASSERT(mem.used_bytes == 0);
}

static void bound_and_cut_last_block(uint32_t most) {
    mr_mem mem = {0};
    uint64_t ids[200];
    mr_slab *slab = mr_slab_create(&mem, 24, most);
    MR_ASSERT(slab != NULL);
    for (int round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < most; i++) {
            MR_ASSERT(mr_slab_alloc(slab, &ids[i]) != NULL);
            MR_ASSERT((uint32_t)ids[i] == i);
        }
        uint64_t none = 77;
        MR_ASSERT(mr_slab_alloc(slab, &none) == NULL && none == 77);
        MR_ASSERT(mr_slab_count(slab) == most);
        for (uint32_t i = most; i-- > 0;)
            mr_slab_free(slab, ids[i]);
        MR_ASSERT(mr_slab_count(slab) == 0);
    }
    mr_slab_destroy(slab);
    MR_ASSERT(mem.used_bytes == 0);
}

static void a_crowd_gives_its_memory_back(void) {
    enum { CROWD = 8000 };
    static uint64_t ids[CROWD];
    mr_mem mem = {0};
    mr_slab *slab = mr_slab_create(&mem, 160, 1u << 20);
    MR_ASSERT(slab != NULL);
    for (int i = 0; i < CROWD; i++)
        MR_ASSERT(mr_slab_alloc(slab, &ids[i]) != NULL);
    /* Overhead beside the objects, at most 12 bytes for each. */
    MR_ASSERT(mem.used_bytes <= CROWD * (160 + 12));
    size_t full = mem.used_bytes;
    /* Every second one leaves: all blocks stay. Then newcomers fill the low ones. */
    for (int i = 0; i < CROWD; i += 2)
        mr_slab_free(slab, ids[i]);
    MR_ASSERT(mem.used_bytes == full);
    for (int i = 0; i < CROWD / 4; i++) {
        MR_ASSERT(mr_slab_alloc(slab, &ids[2 * i]) != NULL);
        MR_ASSERT((uint32_t)ids[2 * i] == (uint32_t)(2 * i));
    }
    for (int i = CROWD / 2; i < CROWD; i++)
        if (mr_slab_get(slab, ids[i]) != NULL)
            mr_slab_free(slab, ids[i]);
    MR_ASSERT(mr_slab_count(slab) == CROWD / 2);
    MR_ASSERT(mem.used_bytes < full / 2 + 64 * 160 * 2 + CROWD * 8);
    /* Old ids stay stale when their block has come back. */
    for (int i = 0; i < CROWD / 2; i++) {
        uint64_t id;
        MR_ASSERT(mr_slab_alloc(slab, &id) != NULL);
        MR_ASSERT((uint32_t)id == (uint32_t)(CROWD / 2 + i));
        MR_ASSERT(mr_slab_get(slab, ids[CROWD / 2 + i]) == NULL);
    }
    mr_slab_destroy(slab);
    MR_ASSERT(mem.used_bytes == 0);
}

static void one_free_block_is_kept(void) {
    mr_mem mem = {0};
    uint64_t ids[129];
    mr_slab *slab = mr_slab_create(&mem, 16, 1000);
    MR_ASSERT(slab != NULL);
    for (int i = 0; i < 129; i++)
        MR_ASSERT(mr_slab_alloc(slab, &ids[i]) != NULL);
    size_t three = mem.used_bytes;
    mr_slab_free(slab, ids[128]);
    MR_ASSERT(mem.used_bytes == three);
    mem.fail_after = -1; /* the kept block serves the next one */
    MR_ASSERT(mr_slab_alloc(slab, &ids[128]) != NULL);
    mr_slab_free(slab, ids[128]);
    for (int i = 0; i < 64; i++)
        mr_slab_free(slab, ids[i]);
    MR_ASSERT(mem.used_bytes == three - 64 * 16);
    for (int i = 0; i < 64; i++)
        MR_ASSERT(mr_slab_alloc(slab, &ids[i]) != NULL);
    MR_ASSERT((uint32_t)ids[63] == 63); /* of two free blocks the lower was kept */
    MR_ASSERT(mr_slab_alloc(slab, &ids[128]) == NULL);
    mem.fail_after = 0;
    MR_ASSERT(mr_slab_alloc(slab, &ids[128]) != NULL && (uint32_t)ids[128] == 128);
    mr_slab_destroy(slab);
    MR_ASSERT(mem.used_bytes == 0);
}

/* Each of the first allocations fails once; the slab must be whole afterwards. */
static void failing_memory(void) {
    for (int fail = 0; fail < 8; fail++) {
        mr_mem mem = {.fail_after = fail == 0 ? -1 : fail};
        mr_slab *slab = mr_slab_create(&mem, 16, 1000);
        MR_ASSERT((slab == NULL) == (fail == 0));
        if (slab == NULL)
            continue;
        uint64_t id;
        uint32_t got = 0;
        while (mr_slab_alloc(slab, &id) != NULL)
            got++;
        MR_ASSERT(got < 1000 && mr_slab_count(slab) == got);
        mem.fail_after = 0;
        while (mr_slab_alloc(slab, &id) != NULL)
            got++;
        MR_ASSERT(got == 1000);
        mr_slab_destroy(slab);
        MR_ASSERT(mem.used_bytes == 0);
    }
}

static void check_slab(const mr_slab *slab) {
    uint32_t free_blocks = 0;
    for (uint32_t b = 0; b < slab->block_count; b++) {
        const mr_slab_block *block = &slab->blocks[b];
        uint64_t all = all_slots(slab, b);
        int open = (slab->open[b / 64] >> (b % 64) & 1) != 0;
        MR_ASSERT(open == (block->objects != NULL && block->free != 0));
        MR_ASSERT(block->objects != NULL || block->free == all);
        MR_ASSERT(block->objects != NULL || b >= slab->absent_from);
        MR_ASSERT(!open || b / 64 >= slab->open_from);
        if (block->objects != NULL && block->free == all) {
            free_blocks++;
            MR_ASSERT(slab->spare == b);
        }
        for (uint32_t i = 0; i < 64; i++)
            MR_ASSERT((block->generations[i] % 2 == 1) == ((all & ~block->free) >> i & 1));
    }
    MR_ASSERT(free_blocks == (slab->spare != MR_SLAB_NONE));
}

static void walk(mr_slab *slab, uint32_t expected, int free_each) {
    uint32_t cursor = 0, seen = 0;
    uint64_t id, last = 0;
    for (thing *t; (t = mr_slab_next(slab, &cursor, &id)) != NULL; seen++) {
        MR_ASSERT(t->id == id && mr_slab_get(slab, id) == t);
        MR_ASSERT(seen == 0 || (uint32_t)id > (uint32_t)last);
        last = id;
        if (free_each)
            mr_slab_free(slab, id);
    }
    MR_ASSERT(seen == expected);
}

static void random_against_model(uint32_t most) {
    enum { LIVE = 20000 };
    static uint64_t live[LIVE], dead[LIVE];
    static thing *where[LIVE];
    uint32_t live_count = 0, dead_count = 0;
    mr_mem mem = {0};
    mr_slab *slab = mr_slab_create(&mem, sizeof(thing), most);
    MR_ASSERT(slab != NULL && most <= LIVE);
    for (int step = 0; step < 60000; step++) {
        /* The crowd swells and shrinks, so that blocks come and go. */
        uint32_t wish = step / 6000 % 2 == 0 ? 75 : 25;
        if (roll(100) < wish) {
            uint64_t id = 0;
            thing *t = take(slab, &id);
            MR_ASSERT((t == NULL) == (live_count == most));
            if (t != NULL) {
                MR_ASSERT((uint32_t)id < most);
                where[live_count] = t;
                live[live_count++] = id;
            }
        } else if (live_count > 0) {
            uint32_t i = roll(live_count);
            MR_ASSERT(mr_slab_get(slab, live[i]) == where[i] && where[i]->id == live[i]);
            mr_slab_free(slab, live[i]);
            dead[dead_count++ % LIVE] = live[i];
            live[i] = live[--live_count];
            where[i] = where[live_count];
        }
        MR_ASSERT(mr_slab_count(slab) == live_count);
        if (dead_count > 0)
            MR_ASSERT(mr_slab_get(slab, dead[roll(dead_count < LIVE ? dead_count : LIVE)]) == NULL);
        MR_ASSERT(mr_slab_get(slab, (uint64_t)roll(1u << 31) << 20) == NULL);
        if (step % 997 == 0) {
            check_slab(slab);
            walk(slab, live_count, 0);
        }
    }
    walk(slab, live_count, 1);
    check_slab(slab);
    MR_ASSERT(mr_slab_count(slab) == 0);
    mr_slab_destroy(slab);
    MR_ASSERT(mem.used_bytes == 0);
}

int main(void) {
    stale_and_made_up_ids();
    bound_and_cut_last_block(1);
    bound_and_cut_last_block(63);
    bound_and_cut_last_block(64);
    bound_and_cut_last_block(65);
    bound_and_cut_last_block(130);
    a_crowd_gives_its_memory_back();
    one_free_block_is_kept();
    failing_memory();
    random_against_model(130);
    random_against_model(2000);
    random_against_model(20000);
    return 0;
}
