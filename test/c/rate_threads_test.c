/* rate_threads_test.c -- many threads on one limit: never one request more than allowed. */
/* link: base/mem.c */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L /* barriers */
#endif
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Every look at a word and every change of one may be where another thread goes on; see below. */
static void step(void);
static uint64_t stepped_load(_Atomic uint64_t *at) {
    step();
    return atomic_load(at);
}
static bool stepped_exchange(_Atomic uint64_t *at, uint64_t *old, uint64_t new) {
    step();
    return atomic_compare_exchange_strong(at, old, new);
}
#undef atomic_load
#undef atomic_compare_exchange_strong
#define atomic_load(at) stepped_load(at)
#define atomic_compare_exchange_strong(at, old, new) stepped_exchange(at, old, new)

#include "engine/rate.c"
#include <pthread.h>
#include <semaphore.h>

enum { THREADS = 4, BURST = 3, ROUNDS = 400, KEYS = 24, TAKES = BURST + 1 };

#define EXACT_RATE 15625.0 /* a granule is 1000 ns */
#define GRANULE_NS UINT64_C(1000)

static mr_rate *rate;
static pthread_barrier_t barrier;
static atomic_uint own[KEYS], shared[KEYS], limited[KEYS]; /* of the round */

static mr_rate *make(mr_mem *mem, double per_second, uint32_t burst, uint32_t entries) {
    mr_rate *made;
    const mr_rate_options options = {
        .per_second = per_second, .burst = burst, .entries = entries, .seed = {1, 2}};
    MR_ASSERT(mr_rate_create(mem, &options, &made) == MR_OK);
    return made;
}

static void run(void *(*work)(void *)) {
    pthread_t threads[THREADS];
    MR_ASSERT(pthread_barrier_init(&barrier, NULL, THREADS) == 0);
    for (uintptr_t i = 0; i < THREADS; i++)
        MR_ASSERT(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
    for (int i = 0; i < THREADS; i++)
        MR_ASSERT(pthread_join(threads[i], NULL) == 0);
    MR_ASSERT(pthread_barrier_destroy(&barrier) == 0);
}

static void take(uint64_t k, uint64_t key, uint64_t now_ns) {
    mr_rate_verdict verdict;
    mr_rc rc = mr_rate_take(rate, key, now_ns, &verdict);
    atomic_fetch_add(rc == MR_LIMIT ? &limited[k] : verdict.is_shared ? &shared[k] : &own[k], 1);
}

/* One key, one instant after the other: each interval lets exactly one more pass. */
static void *one_key(void *arg) {
    (void)arg;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        for (int n = 0; n < 50; n++)
            take(0, 77, round * INTERVAL * GRANULE_NS);
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

static void one_key_is_counted_exactly(void) {
    mr_mem mem = {0};
    rate = make(&mem, EXACT_RATE, 100, 64);
    run(one_key);
    MR_ASSERT(own[0] == 100 + ROUNDS - 1 && shared[0] == 0);
    MR_ASSERT(own[0] + limited[0] == ROUNDS * THREADS * 50);
    mr_rate_destroy(&mem, rate);
}

/* The threads' clocks differ by a few granules, in which entries of the last round expire: they
 * disagree on which word is free, so one key is claimed in several words at once. */
static void *many_keys(void *arg) {
    uintptr_t thread = (uintptr_t)arg;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        if (pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD)
            for (int k = 0; k < KEYS; k++)
                own[k] = shared[k] = limited[k] = 0;
        pthread_barrier_wait(&barrier);
        uint64_t now = round * (BURST * INTERVAL + 2) + (thread + round) % THREADS;
        for (uint64_t k = 0; k < KEYS; k++)
            for (int n = 0; n < TAKES; n++)
                take(k, (round * KEYS + k + 1) << TAG_SHIFT | k / 6, now * GRANULE_NS);
        pthread_barrier_wait(&barrier);
        for (int k = 0; thread == 0 && k < KEYS; k++) {
            /* Fewer on its own entry only where the bucket was full for some of the threads. */
            MR_ASSERT(own[k] <= BURST && own[k] + shared[k] >= BURST);
            MR_ASSERT(own[k] + shared[k] + limited[k] == THREADS * TAKES);
        }
    }
    return NULL;
}

static void claims_never_double_a_budget(void) {
    mr_mem mem = {0};
    rate = make(&mem, EXACT_RATE, BURST, 64);
    run(many_keys);
    mr_rate_destroy(&mem, rate);
}

/* All threads find the base too old at once, with keys that go on being limited across it. */
static void *over_the_years(void *arg) {
    (void)arg;
    for (uint64_t round = 0; round < 20; round++) {
        if (pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD)
            for (int k = 0; k < KEYS; k++)
                own[k] = shared[k] = limited[k] = 0;
        pthread_barrier_wait(&barrier);
        uint64_t now = round * (PERIOD * 5 / 8);
        for (uint64_t k = 0; k < KEYS; k++)
            for (int n = 0; n < TAKES; n++)
                take(k, (k + 1) << TAG_SHIFT | k % 8, now * GRANULE_NS);
        if (pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD)
            for (int k = 0; k < KEYS; k++)
                MR_ASSERT(own[k] == BURST && shared[k] == 0);
    }
    return NULL;
}

static void rebasing_together_is_exact(void) {
    mr_mem mem = {0};
    rate = make(&mem, EXACT_RATE, BURST, 64);
    run(over_the_years);
    mr_rate_destroy(&mem, rate);
}

/* Interleavings that two cores would hardly ever show: of three threads one runs at a time, and a
 * generator says at every step which. */
enum { PLAYERS = 3, PLAYS = 20000 };

static sem_t turns[PLAYERS], play_over;
static bool is_done[PLAYERS], is_closing;
static uint64_t random_state = 1;
static _Thread_local int self = -1; /* a player's number; others do not step */
static struct { uint64_t key, now; } parts[PLAYERS];

static uint32_t roll(uint32_t below) {
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(random_state >> 33) % below;
}

static int next_player(void) {
    int open[PLAYERS], count = 0;
    for (int i = 0; i < PLAYERS; i++)
        if (!is_done[i])
            open[count++] = i;
    return count == 0 ? -1 : open[roll((uint32_t)count)];
}

static void step(void) {
    int next = self < 0 ? -1 : next_player();
    if (next == self || next < 0)
        return;
    sem_post(&turns[next]);
    while (sem_wait(&turns[self]) != 0)
        ;
}

static void *player(void *arg) {
    self = (int)(uintptr_t)arg;
    for (;;) {
        while (sem_wait(&turns[self]) != 0)
            ;
        if (is_closing)
            return NULL;
        for (int n = 0; n < BURST; n++)
            take(parts[self].key, parts[self].key << TAG_SHIFT, parts[self].now * GRANULE_NS);
        is_done[self] = true;
        int next = next_player();
        sem_post(next < 0 ? &play_over : &turns[next]);
    }
}

/* One bucket whose words expire about now, some before one player's time and after another's; the
 * players bring one key, or two. */
static void play(void) {
    const uint64_t now = 5000;
    for (uint32_t i = 0; i < MR_RATE_WAYS; i++) {
        uint64_t tat = roll(3) == 0 ? now + 1000 : now + roll(4);
        atomic_store(&rate->buckets[0].words[i],
                     make_word(10 + i, roll(4) == 0 ? TENTATIVE : 0, tat + FIRST_GRANULE));
    }
    atomic_store(&rate->buckets[0].words[SHARED_WORD], 0);
    for (int i = 0; i < PLAYERS; i++) {
        parts[i].key = 1 + roll(8) / 6;
        parts[i].now = now + roll(4);
        is_done[i] = false;
        own[1 + i % 2] = shared[1 + i % 2] = limited[1 + i % 2] = 0;
    }
    sem_post(&turns[next_player()]);
    while (sem_wait(&play_over) != 0)
        ;
    uint32_t settled[3] = {0};
    for (uint32_t i = 0; i < MR_RATE_WAYS; i++) {
        uint64_t word = atomic_load(&rate->buckets[0].words[i]);
        if (word >> TAG_SHIFT <= 2 && (word & TENTATIVE) == 0)
            settled[word >> TAG_SHIFT]++;
    }
    for (int k = 1; k <= 2; k++)
        MR_ASSERT(own[k] <= BURST && settled[k] <= 1 && (own[k] == 0 || settled[k] == 1));
}

static void any_order_of_steps_is_exact(void) {
    mr_mem mem = {0};
    pthread_t threads[PLAYERS];
    rate = make(&mem, EXACT_RATE, BURST, 64);
    MR_ASSERT(sem_init(&play_over, 0, 0) == 0);
    for (uintptr_t i = 0; i < PLAYERS; i++) {
        MR_ASSERT(sem_init(&turns[i], 0, 0) == 0);
        MR_ASSERT(pthread_create(&threads[i], NULL, player, (void *)i) == 0);
    }
    for (int n = 0; n < PLAYS; n++)
        play();
    is_closing = true;
    for (int i = 0; i < PLAYERS; i++) {
        sem_post(&turns[i]);
        MR_ASSERT(pthread_join(threads[i], NULL) == 0);
    }
    mr_rate_destroy(&mem, rate);
}

int main(void) {
    any_order_of_steps_is_exact();
    one_key_is_counted_exactly();
    claims_never_double_a_budget();
    rebasing_together_is_exact();
    return 0;
}
