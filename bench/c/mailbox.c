/* mailbox.c -- nanoseconds per message of 32 octets, through a mailbox and by bell.
 * Build and run from the top of the repository:
 *   cc -O3 -std=c11 -I src bench/c/mailbox.c -o /tmp/mailbox -lpthread && /tmp/mailbox [rounds]
 * Each figure is the median of the rounds (9), with the lowest and highest in brackets.
 *   one thread    posts 64, then takes 64, again and again: what the operations cost with all in
 * the cache of one CPU. two threads   one posts as fast as it can, the other takes: wall time over
 * messages. Who finds the box full or empty yields its CPU. bell          the same with a ring
 * after each post; the consumer looks only when woken, by a flag that it polls (one thread: after
 * each 64). What the kernel takes to wake a loop that sleeps is not in it. bell per 64   each 64
 * posts ring once, as a producer does that posts a batch in one turn. */
#define _POSIX_C_SOURCE 199309L
#include "base/mem.c"
#include "engine/bell.h"
#include "engine/mailbox.c"
#include <inttypes.h>
#include <pthread.h>
#include <time.h>

enum { BATCH = 64, CAPACITY = 1 << 16, MESSAGES = 1 << 21, ROUNDS = 9, ROUNDS_MAX = 101 };

typedef enum ringing { NO_BELL, EACH, PER_BATCH } ringing;

typedef struct setup {
    mr_mailbox *box;
    mr_bell bell;
    ringing ringing;
    _Atomic uint32_t is_woken;
} setup;

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void wake(void *arg) {
    atomic_store_explicit(&((setup *)arg)->is_woken, 1, memory_order_release);
}

static void post(setup *s, uint32_t n) {
    static const uint8_t bytes[32] = {1, 2, 3};
    const mr_mail mail = {.kind = 1, .name = 7, .call = n, .bytes = bytes, .len = sizeof(bytes)};
    while (mr_mailbox_post(s->box, &mail) != MR_OK)
        sched_yield();
    if (s->ringing == EACH || (s->ringing == PER_BATCH && n % BATCH == BATCH - 1))
        mr_bell_ring(&s->bell, 1);
}

static uint64_t sum; /* read from each message, so that none is skipped */

static uint32_t take_all(setup *s) {
    mr_mail mail;
    uint32_t count = 0;
    for (; mr_mailbox_peek(s->box, &mail); count++) {
        sum += mail.bytes[1] + mail.call;
        mr_mailbox_pop(s->box);
    }
    return count;
}

static uint32_t take(setup *s) {
    uint64_t mail[MR_BELL_WORDS];
    if (s->ringing == NO_BELL)
        return take_all(s);
    if (atomic_load_explicit(&s->is_woken, memory_order_acquire) == 0)
        return 0;
    atomic_store_explicit(&s->is_woken, 0, memory_order_relaxed);
    mr_bell_answer(&s->bell, mail);
    return (mail[0] & 2) != 0 ? take_all(s) : 0;
}

static void one_thread(setup *s) {
    for (uint32_t n = 0; n < MESSAGES;) {
        for (int i = 0; i < BATCH; i++)
            post(s, n++);
        MR_ASSERT(take(s) == BATCH);
    }
}

static void *post_all(void *arg) {
    for (uint32_t n = 0; n < MESSAGES; n++)
        post(arg, n);
    return NULL;
}

static void two_threads(setup *s) {
    pthread_t thread;
    MR_ASSERT(pthread_create(&thread, NULL, post_all, s) == 0);
    for (uint32_t n = 0; n < MESSAGES;) {
        uint32_t count = take(s);
        n += count;
        if (count == 0)
            sched_yield();
    }
    MR_ASSERT(pthread_join(thread, NULL) == 0);
}

static double measure(void (*work)(setup *), ringing how) {
    static setup s;
    mr_mem mem = {0};
    s = (setup){.ringing = how};
    MR_ASSERT(mr_mailbox_create(&mem, CAPACITY, 0, &s.box) == MR_OK);
    mr_bell_open(&s.bell, wake, &s);
    uint64_t begun = now_ns();
    work(&s);
    uint64_t ended = now_ns();
    mr_bell_close(&s.bell);
    mr_mailbox_destroy(s.box);
    return (double)(ended - begun) / MESSAGES;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void report(const char *name, void (*work)(setup *), ringing how, int rounds) {
    double ns[ROUNDS_MAX];
    measure(work, how); /* warm */
    for (int i = 0; i < rounds; i++)
        ns[i] = measure(work, how);
    qsort(ns, (size_t)rounds, sizeof(*ns), by_value);
    printf("%-34s %7.1f ns  [%.1f .. %.1f]\n", name, ns[rounds / 2], ns[0], ns[rounds - 1]);
}

int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : ROUNDS;
    rounds = rounds < 1 ? 1 : rounds > ROUNDS_MAX ? ROUNDS_MAX : rounds;
    report("one thread", one_thread, NO_BELL, rounds);
    report("one thread, bell", one_thread, EACH, rounds);
    report("one thread, bell per 64", one_thread, PER_BATCH, rounds);
    report("two threads", two_threads, NO_BELL, rounds);
    report("two threads, bell", two_threads, EACH, rounds);
    report("two threads, bell per 64", two_threads, PER_BATCH, rounds);
    printf("(%d messages of 32 octets a round; sum %" PRIu64 ")\n", MESSAGES, sum);
    return 0;
}
