/* bell_threads_test.c -- bells between real threads: no wake-up is lost, and nobody is inside
 * ring() once close has returned. Every order that the language allows: bell_litmus_test.c. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 199309L /* clock_gettime */
#endif
#include "engine/bell.h"
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

enum {
    ROUNDS = 200000, /* of each producer; a round ends when what it posted was delivered */
    ROUNDS_TOGETHER = 50000,
    PRODUCERS = 2,
    OPENINGS = 1000,
    SPINS = 200,     /* looks before the other threads get the CPU */
    DEADLINE_S = 60, /* not a measure of speed: a lost wake-up would last for ever */
};

static const unsigned source_of[PRODUCERS] = {0, 128}; /* of two words */

static mr_bell bell;
static uint32_t rounds;
static _Atomic uint32_t posted[PRODUCERS], delivered[PRODUCERS], is_woken, ended;

static time_t seconds(void) {
    struct timespec t;
    MR_ASSERT(clock_gettime(CLOCK_MONOTONIC, &t) == 0);
    return t.tv_sec;
}

static void pause_after(uint32_t *looks) {
    if (++*looks % SPINS == 0)
        sched_yield();
}

/* -- no wake-up is lost -- */

static void wake(void *flag) { atomic_store((_Atomic uint32_t *)flag, 1); }

/* Bursts of one to three, so that rings meet silent bells, rung ones and answers under way. */
static void *produce(void *of) {
    size_t me = (size_t)(uintptr_t)of;
    for (uint32_t round = 0, n = 0, looks = 0; round < rounds; round++) {
        for (uint32_t burst = 1 + round % 3; burst > 0; burst--) {
            atomic_store_explicit(&posted[me], ++n, memory_order_release);
            mr_bell_ring(&bell, source_of[me]);
        }
        while (atomic_load_explicit(&delivered[me], memory_order_acquire) != n)
            pause_after(&looks);
    }
    atomic_fetch_add(&ended, 1);
    return NULL;
}

static void deliver(void) {
    uint64_t mail[MR_BELL_WORDS];
    mr_bell_answer(&bell, mail);
    for (int i = 0; i < PRODUCERS; i++) {
        if ((mail[source_of[i] / 64] >> source_of[i] % 64 & 1) == 0)
            continue;
        uint32_t n = atomic_load_explicit(&posted[i], memory_order_acquire);
        atomic_store_explicit(&delivered[i], n, memory_order_release);
    }
    MR_ASSERT(mail[1] == 0);
}

/* One producer alone: nobody else's ring makes up for one that was lost. */
static void test_no_loss(size_t producers, uint32_t rounds_each) {
    pthread_t threads[PRODUCERS];
    time_t last = seconds();
    rounds = rounds_each;
    atomic_store(&ended, 0);
    mr_bell_open(&bell, wake, (void *)&is_woken);
    for (size_t i = 0; i < producers; i++) {
        posted[i] = delivered[i] = 0;
        MR_ASSERT(pthread_create(&threads[i], NULL, produce, (void *)(uintptr_t)i) == 0);
    }
    for (uint32_t looks = 0; atomic_load(&ended) < producers;) {
        if (atomic_exchange(&is_woken, 0) == 1) {
            deliver();
            last = seconds();
        } else {
            pause_after(&looks);
            MR_ASSERT(looks % 4096 != 0 || seconds() - last < DEADLINE_S); /* a wake-up is lost */
        }
    }
    for (size_t i = 0; i < producers; i++) {
        MR_ASSERT(pthread_join(threads[i], NULL) == 0);
        MR_ASSERT(posted[i] == delivered[i] && posted[i] > rounds);
    }
    mr_bell_close(&bell);
}

/* -- after close -- */

/* What ring() touches is freed after close: the sanitizers see who comes late. */
typedef struct target {
    _Atomic uint32_t inside, rings;
    bool is_open; /* plain on purpose */
} target;

static void touch(void *arg) {
    target *t = arg;
    atomic_fetch_add(&t->inside, 1);
    atomic_fetch_add(&t->rings, 1);
    sched_yield(); /* so that close finds somebody here */
    atomic_fetch_sub(&t->inside, 1);
    MR_ASSERT(t->is_open); /* last: only mr_bell's own exit orders it before what close allows */
}

static _Atomic uint32_t is_over;

static void *ring_on(void *of) {
    unsigned source = (unsigned)(uintptr_t)of;
    while (!atomic_load(&is_over))
        mr_bell_ring(&bell, source);
    return NULL;
}

/* Closes while others may be anywhere in mr_bell_ring(), `others` of them having been inside. */
static void open_once(uint32_t others) {
    uint64_t mail[MR_BELL_WORDS];
    time_t begun = seconds();
    target *t = calloc(1, sizeof(*t));
    MR_ASSERT(t != NULL);
    t->is_open = true;
    mr_bell_open(&bell, touch, t);
    MR_ASSERT(atomic_load(&t->rings) >= 1); /* open rings by itself */
    while (atomic_load(&t->rings) <= others) {
        mr_bell_answer(&bell, mail);
        sched_yield();
        MR_ASSERT(seconds() - begun < DEADLINE_S);
    }
    mr_bell_answer(&bell, mail);
    mr_bell_close(&bell);
    MR_ASSERT(atomic_load(&t->inside) == 0);
    t->is_open = false;
    free(t);
}

static void test_close(void) {
    pthread_t threads[PRODUCERS];
    for (size_t i = 0; i < PRODUCERS; i++)
        MR_ASSERT(pthread_create(&threads[i], NULL, ring_on, (void *)(uintptr_t)(i * 64)) == 0);
    for (uint32_t i = 0; i < OPENINGS; i++)
        open_once(i % 3);
    atomic_store(&is_over, 1);
    for (int i = 0; i < PRODUCERS; i++)
        MR_ASSERT(pthread_join(threads[i], NULL) == 0);
    MR_ASSERT(bell.ringers == 0);
}

/* -- one thread -- */

static void count(void *arg) { ++*(int *)arg; }

static void test_alone(void) {
    static mr_bell own;
    int rings = 0;
    uint64_t mail[MR_BELL_WORDS];
    mr_bell_close(&own); /* closed already */
    mr_bell_ring(&own, 5);
    mr_bell_open(&own, count, &rings);
    MR_ASSERT(rings == 1); /* for the 5 */
    mr_bell_ring(&own, 63);
    mr_bell_ring(&own, 64);
    mr_bell_ring(&own, MR_BELL_SOURCES - 1);
    MR_ASSERT(rings == 1); /* once until it is answered */
    mr_bell_answer(&own, mail);
    MR_ASSERT(mail[0] == (UINT64_C(1) << 63 | 1 << 5) && mail[1] == 1 &&
              mail[2] == UINT64_C(1) << 63);
    mr_bell_answer(&own, mail);
    MR_ASSERT(mail[0] == 0 && mail[1] == 0 && mail[2] == 0);
    mr_bell_ring(&own, 0);
    MR_ASSERT(rings == 2);
    mr_bell_answer(&own, mail);
    mr_bell_close(&own);
    mr_bell_ring(&own, 0);
    MR_ASSERT(rings == 2);
}

int main(void) {
    test_alone();
    test_no_loss(1, ROUNDS);
    test_no_loss(PRODUCERS, ROUNDS_TOGETHER);
    test_close();
    return 0;
}
