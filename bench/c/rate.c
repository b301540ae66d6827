/* rate.c -- nanoseconds per request judged by the rate limit.
 * Build and run from the top of the repository:
 *   cc -O3 -std=c11 -I src bench/c/rate.c -o /tmp/rate -lpthread && /tmp/rate [rounds]
 * Each figure is the median of the rounds (9), with the lowest and highest in brackets: time per
 * take of one thread, so twice as many are done where there are two threads. `key` is the hash of
 * an IPv4 address alone. `hot` is one key that is admitted each time (a compare-and-swap), `over`
 * one that has used up its budget (reads only), `spread` 40,000 keys in turn in the default table,
 * `new` keys never seen before, which replace expired ones. With two threads each has its own
 * clock, as fast as it gets on: the one behind is refused, which costs it the swap but not the
 * shared line. */
#define _POSIX_C_SOURCE 200809L
#include "base/mem.c"
#include "engine/rate.c"
#include <pthread.h>
#include <stdio.h>
#include <time.h>

enum { TAKES = 1000000, SPREAD = 40000, ROUNDS_MAX = 101, THREADS_MAX = 2 };

typedef enum kind { KEY, HOT, OVER, SPREAD_KEYS, NEW } kind;

typedef struct job {
    mr_rate *rate;
    kind mode;
    uint64_t number;   /* of the thread */
    uint64_t start_ns; /* of the limit's clock */
    pthread_barrier_t *barrier;
    double ns_per_take;
    uint64_t admitted;
} job;

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t key_of(const job *j, uint64_t i) {
    uint64_t client = j->mode == SPREAD_KEYS ? i % SPREAD
                      : j->mode == NEW       ? j->start_ns + j->number * TAKES + i
                                             : 1;
    mr_peer peer = {.family = 4};
    memcpy(peer.address, &client, 4);
    return mr_rate_key_address(j->rate, &peer);
}

static void *work(void *arg) {
    job *j = arg;
    mr_rate_verdict verdict;
    uint64_t fixed = key_of(j, 0);
    pthread_barrier_wait(j->barrier);
    uint64_t begun = now_ns();
    for (uint64_t i = 0; i < TAKES; i++) {
        /* The limit's clock goes fast, so that budgets come back within the round. */
        uint64_t at = j->start_ns + i * (j->mode == OVER ? 0 : 20000);
        if (j->mode == KEY)
            j->admitted += key_of(j, i) & 1;
        else
            j->admitted += mr_rate_take(j->rate, j->mode >= SPREAD_KEYS ? key_of(j, i) : fixed, at,
                                        &verdict) == MR_OK;
    }
    j->ns_per_take = (double)(now_ns() - begun) / TAKES;
    return NULL;
}

static double one_round(mr_rate *rate, kind mode, int threads, uint64_t round, double *share) {
    job jobs[THREADS_MAX];
    pthread_t ids[THREADS_MAX];
    pthread_barrier_t barrier;
    double slowest = 0;
    *share = 0;
    pthread_barrier_init(&barrier, NULL, (unsigned)threads);
    for (int i = 0; i < threads; i++) {
        jobs[i] = (job){.rate = rate,
                        .mode = mode,
                        .number = (uint64_t)i,
                        .start_ns = round * 1000000000000u,
                        .barrier = &barrier};
        if (pthread_create(&ids[i], NULL, work, &jobs[i]) != 0)
            exit(1);
    }
    for (int i = 0; i < threads; i++) {
        pthread_join(ids[i], NULL);
        slowest = jobs[i].ns_per_take > slowest ? jobs[i].ns_per_take : slowest;
        *share += (double)jobs[i].admitted / TAKES / threads;
    }
    pthread_barrier_destroy(&barrier);
    return slowest;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    static const char *const names[] = {"key", "hot", "over", "spread", "new"};
    int rounds = argc > 1 ? atoi(argv[1]) : 9;
    if (rounds < 1 || rounds > ROUNDS_MAX) {
        fprintf(stderr, "usage: rate [rounds, 1 to %d]\n", ROUNDS_MAX);
        return 2;
    }
    for (int m = KEY; m <= NEW; m++)
        for (int threads = 1; threads <= THREADS_MAX; threads++) {
            mr_mem mem = {0};
            mr_rate *rate;
            /* As many a second as one key is asked for: `hot` and `spread` are admitted. */
            const mr_rate_options options = {.per_second = 500000, .burst = 100, .seed = {1, 2}};
            double times[ROUNDS_MAX], share = 0;
            if (mr_rate_create(&mem, &options, &rate) != MR_OK)
                return 1;
            for (int r = 0; r < rounds; r++)
                times[r] = one_round(rate, (kind)m, threads, (uint64_t)r + 1, &share);
            qsort(times, (size_t)rounds, sizeof times[0], by_value);
            printf("%-7s %d thread%s %7.1f ns  [%.1f .. %.1f]", names[m], threads,
                   threads == 1 ? " " : "s", times[rounds / 2], times[0], times[rounds - 1]);
            if (m != KEY)
                printf("  %.0f%% admitted", 100 * share);
            printf("\n");
            mr_rate_destroy(&mem, rate);
        }
    return 0;
}
