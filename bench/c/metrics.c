/* metrics.c -- nanoseconds to count something, microseconds to answer a scrape.
 * Build and run from the top of the repository:
 *   cc -O2 -std=c11 -I src bench/c/metrics.c src/engine/met*.c src/engine/series.c \
 *     src/base/buf.c src/base/mem.c src/base/text.c -o build-test/metrics -lpthread
 *   build-test/metrics [rounds]
 * Each figure is the median of the rounds (21), with the lowest and highest in brackets. A scrape
 * is of 4 threads and 50 routes, all of whose classes have counts, without series of the program
 * and with 100 counters and 20 histograms of 10 bounds: reading the meters, writing the text, into
 * a buffer that has its size already. "busy" is the same while two threads write their meters as
 * fast as they can, so that the lines that are read come from other cores' caches; they share the
 * CPUs with the reader, which may have to wait for its turn: the lowest figure says most there. */
#define _POSIX_C_SOURCE 199309L
#include "base/check.h"
#include "engine/metrics_text.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { THREADS = 4, ROUTES = 50, ROUNDS_MAX = 101, COUNTS = 1000000, SCRAPES = 200, WRITERS = 2 };

static mr_meter meters[THREADS];
static mr_meter_totals retired, totals;
static mr_values values[THREADS];
static _Atomic int is_over;

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void print(const char *name, double *of, int rounds, const char *unit) {
    qsort(of, (size_t)rounds, sizeof of[0], by_value);
    printf("%-28s %8.2f %s [%.2f..%.2f]\n", name, of[rounds / 2], unit, of[0], of[rounds - 1]);
}

/* ---- counting ---- */

static void count_add(uint32_t i) {
    (void)i;
    mr_meter_add(&meters[0].received_bytes, 100);
}
static void count_request(uint32_t i) { mr_meter_request(&meters[0], i % ROUTES, 200); }
static void count_record(uint32_t i) { mr_histogram_record(&meters[0].handler, i * 16u); }

#define MEASURE(name, what)                                                                        \
    do {                                                                                           \
        for (int round = 0; round < rounds; round++) {                                             \
            uint64_t begun = now_ns();                                                             \
            for (uint32_t i = 0; i < COUNTS; i++) {                                                \
                what(i);                                                                           \
                __asm__ volatile("" ::: "memory"); /* each one is stored */                        \
            }                                                                                      \
            figures[round] = (double)(now_ns() - begun) / COUNTS;                                  \
        }                                                                                          \
        print(name, figures, rounds, "ns");                                                        \
    } while (0)

/* ---- scrapes ---- */

static void fill(void) {
    for (int i = 0; i < THREADS; i++) {
        mr_meter_set(&meters[i].state, MR_THREAD_UP);
        for (uint32_t n = 0; n < 100000; n++) {
            mr_meter_request(&meters[i], n % ROUTES, 200 + n % 400);
            mr_histogram_record(&meters[i].queue, n);
            mr_histogram_record(&meters[i].handler, (uint64_t)n * n);
            mr_meter_lag(&meters[i], n);
        }
    }
}

static void define(mr_series *series, mr_series_kind kind, const char *name, unsigned count) {
    static const double bounds[10] = {0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5};
    mr_span label = {"shop", 4};
    for (unsigned i = 0; i < count; i++) {
        char value[16];
        mr_span shop = {value, (size_t)snprintf(value, sizeof value, "number-%u", i)};
        mr_series_def def = {.kind = kind,
                             .name = {name, strlen(name)},
                             .help = {"Some help.", 10},
                             .label_names = &label,
                             .label_values = &shop,
                             .label_count = 1,
                             .bounds = bounds,
                             .bound_count = kind == MR_SERIES_HISTOGRAM ? 10 : 0};
        mr_series_place place;
        const char *problem;
        MR_ASSERT(mr_series_define(series, &def, &place, &problem) == MR_OK);
        for (int t = 0; t < THREADS; t++)
            MR_ASSERT(kind == MR_SERIES_HISTOGRAM ? mr_series_observe(&values[t], &place, 0.3)
                                                  : mr_series_add(&values[t], &place, 1234));
    }
}

static void scrape(mr_mem *mem, mr_buf *buf, mr_metrics *m, mr_meter_row *rows) {
    totals = retired;
    for (uint32_t i = 0; i < THREADS; i++) {
        mr_meter_read(&meters[i], now_ns(), UINT64_MAX, &rows[i]);
        rows[i].thread = i;
        mr_meter_sum(&totals, &meters[i]);
    }
    m->row_count = mr_meter_merge(rows, THREADS);
    buf->len = 0;
    MR_ASSERT(mr_metrics_text(mem, buf, m) == MR_OK);
}

static void measure_scrapes(const char *name, mr_mem *mem, mr_metrics *m, int rounds) {
    mr_buf buf = {0};
    mr_meter_row rows[THREADS] = {0};
    double figures[ROUNDS_MAX];
    m->rows = rows;
    scrape(mem, &buf, m, rows);
    for (int round = 0; round < rounds; round++) {
        uint64_t begun = now_ns();
        for (int i = 0; i < SCRAPES; i++)
            scrape(mem, &buf, m, rows);
        figures[round] = (double)(now_ns() - begun) / SCRAPES / 1000;
    }
    print(name, figures, rounds, "us");
    printf("%-28s %8zu octets\n", "", buf.len);
    mr_buf_dispose(mem, &buf);
}

static void *write_on(void *meter) {
    mr_meter *m = meter;
    for (uint32_t i = 0; !atomic_load_explicit(&is_over, memory_order_relaxed); i++) {
        mr_meter_request(m, i % ROUTES, 200);
        mr_histogram_record(&m->handler, i);
    }
    return NULL;
}

int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 21;
    double figures[ROUNDS_MAX];
    if (rounds < 1 || rounds > ROUNDS_MAX)
        return 2;
    MEASURE("add", count_add);
    MEASURE("request", count_request);
    MEASURE("histogram", count_record);

    static char names[ROUTES][32];
    static mr_span routes[ROUTES];
    for (int i = 0; i < ROUTES; i++)
        routes[i] =
            (mr_span){names[i], (size_t)snprintf(names[i], sizeof names[i], "/shop/%d/:item", i)};
    mr_mem mem = {0};
    mr_metrics m = {.totals = &totals, .routes = routes, .route_count = ROUTES};
    fill();
    measure_scrapes("scrape", &mem, &m, rounds);

    mr_series_limits none = {0};
    mr_series_seat seats[THREADS];
    m.series = mr_series_create(&mem, &none);
    MR_ASSERT(m.series != NULL);
    for (uint32_t i = 0; i < THREADS; i++) {
        MR_ASSERT(mr_values_init(m.series, &values[i]) == MR_OK);
        seats[i] = (mr_series_seat){i, &values[i]};
    }
    m.seats = seats;
    m.seat_count = THREADS;
    define(m.series, MR_SERIES_COUNTER, "orders_total", 100);
    define(m.series, MR_SERIES_HISTOGRAM, "price", 20);
    measure_scrapes("scrape, with series", &mem, &m, rounds);

    pthread_t writers[WRITERS];
    for (int i = 0; i < WRITERS; i++)
        MR_ASSERT(pthread_create(&writers[i], NULL, write_on, &meters[i]) == 0);
    measure_scrapes("scrape, with series, busy", &mem, &m, rounds);
    atomic_store(&is_over, 1);
    for (int i = 0; i < WRITERS; i++)
        pthread_join(writers[i], NULL);
    for (int i = 0; i < THREADS; i++)
        mr_values_dispose(m.series, &values[i]);
    mr_series_destroy(m.series);
    return 0;
}
