/* meter_threads_test.c -- threads count, end and are replaced, while another reads: no total ever
 * goes down, and in the end each count is there once. */
#include "engine/meter.c"
#include "base/check.h"
#include <pthread.h>
#include <string.h>

enum { SEATS = 3, TENANTS = 12, STEPS = 4000 };

/* What the lock guards in a fleet. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static mr_meter seats[SEATS];
static mr_meter_totals retired;
static _Atomic int is_over;

static void *work(void *seat) {
    mr_meter *m = seat;
    mr_meter_set(&m->state, MR_THREAD_UP);
    for (uint32_t i = 0; i < STEPS; i++) {
        mr_meter_turn_begin(m, i + 1);
        mr_meter_add(&m->accepted, 1);
        mr_meter_set(&m->connections, i % 7);
        mr_meter_request(m, i % 300, 200 + i % 400);
        mr_histogram_record(&m->queue, (uint64_t)i * i);
        mr_meter_lag(m, i);
        mr_meter_turn_end(m, i + 1);
    }
    return NULL;
}

static void check_not_below(const mr_meter_totals *now, const mr_meter_totals *before) {
#define SEE(name) MR_ASSERT(now->name >= before->name);
    MR_METER_COUNTERS(SEE)
#undef SEE
    for (unsigned i = 0; i < MR_HISTOGRAM_SLOTS; i++)
        MR_ASSERT(now->queue.slots[i] >= before->queue.slots[i] &&
                  now->loop_lag.slots[i] >= before->loop_lag.slots[i]);
    MR_ASSERT(now->queue.sum_ns >= before->queue.sum_ns);
    for (unsigned row = 0; row < MR_METER_ROWS; row++)
        for (unsigned class = 0; class < MR_CLASS_COUNT; class ++)
            MR_ASSERT(now->routes[row][class] >= before->routes[row][class]);
}

static void scrape(mr_meter_totals *totals) {
    pthread_mutex_lock(&lock);
    *totals = retired;
    for (int i = 0; i < SEATS; i++) {
        mr_meter_row row;
        mr_meter_read(&seats[i], STEPS, STEPS, &row);
        MR_ASSERT(row.connections < 7);
        mr_meter_sum(totals, &seats[i]);
    }
    pthread_mutex_unlock(&lock);
}

static void *scrape_on(void *unused) {
    static mr_meter_totals before, now;
    (void)unused;
    while (!atomic_load(&is_over)) {
        scrape(&now);
        check_not_below(&now, &before);
        before = now;
    }
    return NULL;
}

int main(void) {
    pthread_t threads[SEATS], observer;
    MR_ASSERT(pthread_create(&observer, NULL, scrape_on, NULL) == 0);
    for (int tenant = 0; tenant < TENANTS; tenant++) {
        for (int i = 0; i < SEATS; i++)
            MR_ASSERT(pthread_create(&threads[i], NULL, work, &seats[i]) == 0);
        for (int i = 0; i < SEATS; i++) {
            MR_ASSERT(pthread_join(threads[i], NULL) == 0);
            pthread_mutex_lock(&lock);
            mr_meter_retire(&retired, &seats[i]);
            pthread_mutex_unlock(&lock);
        }
    }
    atomic_store(&is_over, 1);
    MR_ASSERT(pthread_join(observer, NULL) == 0);
    static mr_meter_totals totals;
    scrape(&totals);
    uint64_t all = (uint64_t)SEATS * TENANTS * STEPS, requests = 0;
    for (unsigned class = 0; class < MR_CLASS_COUNT; class ++)
        requests += totals.requests[class];
    MR_ASSERT(totals.accepted == all && totals.turns == all && requests == all);
    MR_ASSERT(mr_histogram_count(&totals.queue) == all && totals.connections == 0);
    return 0;
}
