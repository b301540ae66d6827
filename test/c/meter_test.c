/* meter_test.c -- cells, edges and quantiles of histograms, folding, and what others make of a
 * thread's beat. */
#include "engine/meter.c"
#include "base/check.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static mr_meter m; /* aligned; each case begins with a fresh one */
static mr_meter_totals totals, retired;

static void begin(void) {
    memset(&m, 0, sizeof m);
    memset(&totals, 0, sizeof totals);
    memset(&retired, 0, sizeof retired);
}

static uint64_t state = 88172645463325252u;
static uint64_t random_word(void) {
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

static void lines_are_its_own(void) {
    static mr_meter pair[2];
    MR_ASSERT((uintptr_t)&pair[0] % 64 == 0 && (uintptr_t)&pair[1] % 64 == 0);
}

/* Each cell has another value: a field that is forgotten, or taken for another, shows. */
static void each_cell_is_summed(void) {
    begin();
    uint64_t value = 1;
#define FILL(name) mr_meter_add(&m.name, value++);
    MR_METER_GAUGES(FILL)
    MR_METER_COUNTERS(FILL)
#undef FILL
    mr_meter_sum(&totals, &m);
    mr_meter_sum(&totals, &m);
    value = 1;
#define SEE(name) MR_ASSERT(totals.name == 2 * value++);
    MR_METER_GAUGES(SEE)
    MR_METER_COUNTERS(SEE)
#undef SEE
    mr_meter_row row;
    mr_meter_read(&m, 0, 0, &row);
    value = 1;
#define SEE(name) MR_ASSERT(row.name == value++);
    MR_METER_GAUGES(SEE)
    MR_METER_COUNTERS(SEE)
#undef SEE
}

static void retiring_keeps_counters_only(void) {
    begin();
#define FILL(name) mr_meter_set(&m.name, 5);
    MR_METER_STATUS(FILL)
    MR_METER_GAUGES(FILL)
    MR_METER_COUNTERS(FILL)
#undef FILL
    mr_histogram_record(&m.queue, 2000);
    mr_histogram_record(&m.handler, 3000);
    mr_histogram_record(&m.loop_lag, 4000);
    mr_meter_request(&m, 7, 204);
    mr_meter_retire(&retired, &m);
    static const mr_meter zero;
    MR_ASSERT(memcmp(&m, &zero, sizeof m) == 0);
#define SEE(name) MR_ASSERT(retired.name == 0);
    MR_METER_GAUGES(SEE)
#undef SEE
#define SEE(name) MR_ASSERT(retired.name == 5);
    MR_METER_COUNTERS(SEE)
#undef SEE
    MR_ASSERT(retired.routes[7][1] == 1 && retired.requests[1] == 1);
    MR_ASSERT(mr_histogram_count(&retired.queue) == 1 && retired.queue.sum_ns == 2000);
    MR_ASSERT(mr_histogram_count(&retired.handler) == 1 && retired.handler.sum_ns == 3000);
    MR_ASSERT(mr_histogram_count(&retired.loop_lag) == 1 && retired.loop_lag.sum_ns == 4000);
    /* The next tenant adds to what the last one left. */
    mr_meter_add(&m.accepted, 2);
    totals = retired;
    mr_meter_sum(&totals, &m);
    MR_ASSERT(totals.accepted == 7);
}

static void requests_by_route_and_class(void) {
    begin();
    mr_meter_request(&m, 0, 200);
    mr_meter_request(&m, MR_METER_ROUTES_MAX - 1, 299); /* the last with a row of its own */
    mr_meter_request(&m, MR_METER_ROUTES_MAX, 301);     /* one past it */
    mr_meter_request(&m, 4000000000u, 399);
    mr_meter_request(&m, MR_METER_NO_ROUTE, 404);
    static const unsigned odd[] = {0, 99, 600, 99999};
    for (unsigned i = 0; i < 4; i++)
        mr_meter_request(&m, 1, odd[i]);
    mr_meter_request(&m, 1, 100);
    mr_meter_request(&m, 1, 599);
    mr_meter_sum(&totals, &m);
    MR_ASSERT(totals.routes[0][1] == 1 && totals.routes[255][1] == 1);
    MR_ASSERT(totals.routes[MR_METER_ROW_OTHER][2] == 2);
    MR_ASSERT(totals.routes[MR_METER_ROW_NONE][3] == 1);
    MR_ASSERT(totals.routes[1][MR_CLASS_OTHER] == 4);
    MR_ASSERT(totals.routes[1][0] == 1 && totals.routes[1][4] == 1);
    static const uint64_t all[MR_CLASS_COUNT] = {1, 2, 2, 1, 1, 4};
    MR_ASSERT(memcmp(totals.requests, all, sizeof all) == 0);
    mr_meter_row row;
    mr_meter_read(&m, 0, 0, &row);
    MR_ASSERT(row.requests == 11);
}

static void edges_of_slots(void) {
    MR_ASSERT(mr_histogram_slot(0) == 0 && mr_histogram_slot(1024) == 0);
    MR_ASSERT(mr_histogram_slot(1025) == 1 && mr_histogram_slot(1280) == 1);
    MR_ASSERT(mr_histogram_slot(1281) == 2);
    MR_ASSERT(mr_histogram_slot(UINT64_C(1) << 36) == MR_HISTOGRAM_SLOTS - 2);
    MR_ASSERT(mr_histogram_slot((UINT64_C(1) << 36) + 1) == MR_HISTOGRAM_SLOTS - 1);
    MR_ASSERT(mr_histogram_slot(UINT64_MAX) == MR_HISTOGRAM_SLOTS - 1);
    MR_ASSERT(mr_histogram_edge(MR_HISTOGRAM_SLOTS - 1) == UINT64_MAX);
    for (unsigned slot = 0; slot < MR_HISTOGRAM_SLOTS - 1; slot++) {
        uint64_t edge = mr_histogram_edge(slot);
        MR_ASSERT(mr_histogram_slot(edge) == slot && mr_histogram_slot(edge + 1) == slot + 1);
    }
    for (unsigned bit = 10; bit <= 36; bit++) { /* what is shown as `le` */
        unsigned slot = mr_histogram_slot(UINT64_C(1) << bit);
        MR_ASSERT(mr_histogram_edge(slot) == UINT64_C(1) << bit);
    }
}

static int by_value(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

enum { VALUES = 20000 };

/* Against the exact quantile of the same values, spread over all powers of two. */
static void quantiles_are_within_an_eighth(void) {
    static uint64_t values[VALUES];
    static const double shares[] = {0, 0.001, 0.01, 0.1, 0.25, 0.5, 0.9, 0.99, 0.999, 0.9999, 1};
    begin();
    for (unsigned i = 0; i < VALUES; i++) {
        unsigned bits = 10 + (unsigned)(random_word() % 26);
        values[i] = (UINT64_C(1) << bits) + 1 + random_word() % (UINT64_C(1) << bits);
        mr_histogram_record(&m.queue, values[i]);
    }
    qsort(values, VALUES, sizeof values[0], by_value);
    mr_meter_sum(&totals, &m);
    for (unsigned i = 0; i < sizeof shares / sizeof shares[0]; i++) {
        size_t rank = shares[i] == 0 ? 1 : (size_t)ceil(shares[i] * VALUES);
        double exact = (double)values[rank - 1];
        double found = (double)mr_histogram_quantile(&totals.queue, shares[i]);
        MR_ASSERT(fabs(found - exact) <= exact / 8 + 1);
    }
    MR_ASSERT(mr_histogram_count(&totals.queue) == VALUES);
}

static void quantiles_outside(void) {
    begin();
    MR_ASSERT(mr_histogram_quantile(&totals.queue, 0.5) == 0);
    totals.queue.slots[0] = 1;
    MR_ASSERT(mr_histogram_quantile(&totals.queue, 0.5) == 512);
    totals.queue.slots[MR_HISTOGRAM_SLOTS - 1] = 1;
    MR_ASSERT(mr_histogram_quantile(&totals.queue, 0.5) == 512);
    MR_ASSERT(mr_histogram_quantile(&totals.queue, 0.51) == UINT64_C(1) << 36);
    MR_ASSERT(mr_histogram_quantile(&totals.queue, 1) == UINT64_C(1) << 36);
    MR_ASSERT(mr_histogram_quantile(&totals.queue, 7) == UINT64_C(1) << 36);
}

enum { STUCK = 500 };

static mr_meter_row look(uint64_t now) {
    mr_meter_row row = {0};
    mr_meter_read(&m, now, STUCK, &row);
    return row;
}

static void who_is_stuck(void) {
    begin();
    MR_ASSERT(look(1000000).state == MR_THREAD_DOWN);
    mr_meter_set(&m.state, MR_THREAD_STARTING);
    mr_meter_turn_begin(&m, 100);
    MR_ASSERT(look(100000).state == MR_THREAD_STARTING); /* loading may take its time */
    mr_meter_set(&m.state, MR_THREAD_UP);
    MR_ASSERT(look(100 + STUCK).state == MR_THREAD_UP && look(100 + STUCK).age_ns == STUCK);
    MR_ASSERT(look(100 + STUCK + 1).state == MR_THREAD_STUCK);
    MR_ASSERT(look(100 + STUCK + 1).lag_ns == STUCK + 1);
    mr_meter_set(&m.state, MR_THREAD_DRAINING);
    MR_ASSERT(look(100 + STUCK + 1).state == MR_THREAD_STUCK);
    mr_meter_turn_end(&m, 800);
    MR_ASSERT(look(1000000).state == MR_THREAD_DRAINING); /* it sleeps: nothing happened */
    MR_ASSERT(look(1000000).age_ns == 0 && look(1000000).asleep_ns == 1000000 - 800);
    MR_ASSERT(look(700).asleep_ns == 0); /* a clock that was read before the beat */
    mr_meter_set(&m.state, 77);
    MR_ASSERT(look(900).state == MR_THREAD_DOWN);
}

static void busy_and_idle(void) {
    begin();
    mr_meter_turn_begin(&m, 1000);
    mr_meter_turn_end(&m, 1300);
    mr_meter_turn_begin(&m, 2000);
    mr_meter_turn_end(&m, 2001);
    mr_meter_turn_begin(&m, 2000); /* back in time: no huge difference */
    MR_ASSERT(look(2000).busy_ns == 301 && look(2000).idle_ns == 700 && look(2000).turns == 3);
}

static void lag_fades(void) {
    begin();
    mr_meter_lag(&m, 8000);
    mr_meter_lag(&m, 10);
    MR_ASSERT(look(0).lag_ns == 7000);
    for (int i = 0; i < 200; i++)
        mr_meter_lag(&m, 10);
    MR_ASSERT(look(0).lag_ns == 10);
    mr_meter_sum(&totals, &m);
    MR_ASSERT(mr_histogram_count(&totals.loop_lag) == 202);
}

static double utilisation(mr_meter_window *w, uint64_t now) {
    mr_meter_row row = look(now);
    mr_meter_utilisation(w, &row, now);
    return row.utilisation;
}

static void utilisation_of_the_last_windows(void) {
    const uint64_t s = MR_METER_WINDOW_NS;
    mr_meter_window w = {0};
    begin();
    MR_ASSERT(utilisation(&w, s) == 0); /* it has not begun */
    mr_meter_turn_begin(&m, s);
    mr_meter_turn_end(&m, s + s / 4);
    MR_ASSERT(fabs(utilisation(&w, 2 * s) - 0.25) < 1e-9); /* a quarter, then asleep */
    MR_ASSERT(fabs(utilisation(&w, 3 * s) - 0) < 1e-9);
    mr_meter_turn_begin(&m, 3 * s);
    MR_ASSERT(fabs(utilisation(&w, 3 * s + s / 2) - 1.0 / 3) <
              1e-9);                                    /* a turn that goes on counts */
    MR_ASSERT(fabs(utilisation(&w, 5 * s) - 1) < 1e-9); /* it does not come back */
    /* A new tenant that has turned less often than the last one. */
    begin();
    mr_meter_turn_begin(&m, 6 * s);
    mr_meter_turn_end(&m, 6 * s + s / 2);
    mr_meter_turn_begin(&m, 7 * s);
    w.newer.turns = 9;
    MR_ASSERT(fabs(utilisation(&w, 7 * s) - 0.5) < 1e-9);
}

static void two_seats_of_one_thread(void) {
    mr_meter_row rows[4] = {
        {.thread = 0, .state = MR_THREAD_UP, .connections = 1},
        {.thread = 1, .state = MR_THREAD_DRAINING, .connections = 2, .accepted = 5, .lag_ns = 9},
        {.thread = 2, .state = MR_THREAD_DOWN},
        {.thread = 1, .state = MR_THREAD_UP, .connections = 4, .accepted = 1, .lag_ns = 3}};
    MR_ASSERT(mr_meter_merge(rows, 4) == 3);
    MR_ASSERT(rows[0].connections == 1 && rows[2].thread == 2);
    MR_ASSERT(rows[1].thread == 1 && rows[1].state == MR_THREAD_UP && rows[1].lag_ns == 3);
    MR_ASSERT(rows[1].connections == 6 && rows[1].accepted == 6);
    mr_meter_row stuck[2] = {{.state = MR_THREAD_STUCK, .age_ns = 7},
                             {.state = MR_THREAD_STARTING}};
    MR_ASSERT(mr_meter_merge(stuck, 2) == 1 && stuck[0].state == MR_THREAD_STUCK);
    MR_ASSERT(stuck[0].age_ns == 7 && mr_meter_merge(stuck, 0) == 0);
}

int main(void) {
    lines_are_its_own();
    each_cell_is_summed();
    retiring_keeps_counters_only();
    requests_by_route_and_class();
    edges_of_slots();
    quantiles_are_within_an_eighth();
    quantiles_outside();
    who_is_stuck();
    busy_and_idle();
    lag_fades();
    utilisation_of_the_last_windows();
    two_seats_of_one_thread();
    return 0;
}
