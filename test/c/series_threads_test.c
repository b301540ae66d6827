/* series_threads_test.c -- threads count in their own arrays, end and are replaced, and define
 * series meanwhile; another thread reads: nothing goes down, and in the end each count is there
 * once. */
/* link: engine/metrics_put.c base/mem.c base/buf.c base/text.c */
#include "engine/series.c"
#include "base/check.h"
#include <pthread.h>
#include <stdio.h>

enum { SEATS = 3, TENANTS = 8, STEPS = 3000 };

/* What the lock of a fleet guards: the registry and its memory. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static mr_mem mem;
static mr_series *registry;
static mr_values values[SEATS];
static mr_series_seat seats[SEATS];
static const double bounds[] = {1, 10, 100};
static _Atomic int is_over;

static mr_series_place define(mr_series_kind kind, const char *name) {
    mr_series_def def = {.kind = kind,
                         .name = {name, strlen(name)},
                         .bounds = bounds,
                         .bound_count = kind == MR_SERIES_HISTOGRAM ? 3 : 0};
    mr_series_place place;
    const char *problem;
    pthread_mutex_lock(&lock);
    MR_ASSERT(mr_series_define(registry, &def, &place, &problem) == MR_OK);
    pthread_mutex_unlock(&lock);
    return place;
}

static void *work(void *seat) {
    const mr_values *v = seat;
    mr_series_place c = define(MR_SERIES_COUNTER, "c"), h = define(MR_SERIES_HISTOGRAM, "h");
    mr_series_place g = define(MR_SERIES_GAUGE, "g");
    for (int i = 0; i < STEPS; i++) {
        MR_ASSERT(mr_series_add(v, &c, 0.1));
        MR_ASSERT(mr_series_observe(v, &h, i % 200));
        mr_series_set(v, &g, i);
        if (i % 500 == 0) {
            char name[32];
            snprintf(name, sizeof name, "later_%d", i);
            mr_series_place later = define(MR_SERIES_COUNTER, name);
            MR_ASSERT(mr_series_add(v, &later, 1));
        }
    }
    return NULL;
}

static void scrape(double totals[], uint32_t count) {
    static mr_buf buf;
    mr_text t = {&mem, &buf, SIZE_MAX, MR_OK};
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < count; i++)
        totals[i] = mr_series_total(registry, seats, SEATS, i);
    mr_series_text(registry, seats, SEATS, &t);
    MR_ASSERT(t.rc == MR_OK);
    mr_buf_dispose(&mem, &buf);
    pthread_mutex_unlock(&lock);
}

static void *scrape_on(void *unused) {
    double before[7] = {0}, now[7];
    (void)unused;
    while (!atomic_load(&is_over)) {
        scrape(now, 7);
        for (int i = 0; i < 7; i++)
            MR_ASSERT(now[i] >= before[i]);
        memcpy(before, now, sizeof before);
    }
    return NULL;
}

int main(void) {
    mr_series_limits none = {0};
    registry = mr_series_create(&mem, &none);
    MR_ASSERT(registry != NULL);
    /* The first seven slots: a counter, and a histogram with its three bounds. */
    mr_series_place c = define(MR_SERIES_COUNTER, "c"), h = define(MR_SERIES_HISTOGRAM, "h");
    MR_ASSERT(c.slot == 0 && h.slot == 1 && h.slot_count == 6);
    for (uint32_t i = 0; i < SEATS; i++) {
        MR_ASSERT(mr_values_init(registry, &values[i]) == MR_OK);
        seats[i] = (mr_series_seat){i, &values[i]};
    }
    pthread_t threads[SEATS], observer;
    MR_ASSERT(pthread_create(&observer, NULL, scrape_on, NULL) == 0);
    for (int tenant = 0; tenant < TENANTS; tenant++) {
        for (int i = 0; i < SEATS; i++)
            MR_ASSERT(pthread_create(&threads[i], NULL, work, &values[i]) == 0);
        for (int i = 0; i < SEATS; i++) {
            MR_ASSERT(pthread_join(threads[i], NULL) == 0);
            pthread_mutex_lock(&lock);
            mr_series_retire(registry, &values[i]);
            pthread_mutex_unlock(&lock);
        }
    }
    atomic_store(&is_over, 1);
    MR_ASSERT(pthread_join(observer, NULL) == 0);
    double totals[7], all = (double)SEATS * TENANTS * STEPS;
    scrape(totals, 7);
    MR_ASSERT(totals[0] > all / 10 - 0.01 && totals[0] < all / 10 + 0.01);
    MR_ASSERT(totals[1] + totals[2] + totals[3] + totals[4] == all);
    MR_ASSERT(mr_series_get_stats(registry).series == 3 + STEPS / 500);
    for (uint32_t i = 0; i < SEATS; i++)
        mr_values_dispose(registry, &values[i]);
    mr_series_destroy(registry);
    MR_ASSERT(mem.used_bytes == 0);
    return 0;
}
