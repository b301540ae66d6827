/* meter.c -- invariant: under the lock, retired + the sum of the live blocks is what has been
 * counted since the process began. A cell is read at most once for one sum, and the same cell never
 * reads lower later on (coherence of atomics), so no total goes down. */
#include "engine/meter.h"

uint64_t mr_histogram_edge(unsigned slot) {
    if (slot == 0)
        return UINT64_C(1) << MR_HISTOGRAM_LOW_BIT;
    if (slot >= MR_HISTOGRAM_SLOTS - 1)
        return UINT64_MAX;
    unsigned octave = (slot - 1) / 4, quarter = (slot - 1) % 4;
    return (UINT64_C(5) + quarter) << (octave + MR_HISTOGRAM_LOW_BIT - 2);
}

uint64_t mr_histogram_count(const mr_histogram_totals *h) {
    uint64_t count = 0;
    for (unsigned i = 0; i < MR_HISTOGRAM_SLOTS; i++)
        count += h->slots[i];
    return count;
}

static uint64_t middle_of(unsigned slot) {
    if (slot >= MR_HISTOGRAM_SLOTS - 1)
        return UINT64_C(1) << MR_HISTOGRAM_HIGH_BIT;
    uint64_t low = slot == 0 ? 0 : mr_histogram_edge(slot - 1);
    return low + (mr_histogram_edge(slot) - low) / 2;
}

uint64_t mr_histogram_quantile(const mr_histogram_totals *h, double share) {
    uint64_t count = mr_histogram_count(h);
    if (count == 0)
        return 0;
    /* The rank of the exact quantile, from 1: the smallest value that `share` of all do not exceed.
     */
    uint64_t rank = share <= 0 ? 1 : share >= 1 ? count : (uint64_t)(share * (double)count);
    if (share > 0 && share < 1 && (double)rank < share * (double)count)
        rank++;
    unsigned slot = 0;
    for (uint64_t seen = h->slots[0]; seen < rank && slot < MR_HISTOGRAM_SLOTS - 1;)
        seen += h->slots[++slot];
    return middle_of(slot);
}

static void sum_histogram(mr_histogram_totals *out, const mr_histogram *h) {
    out->sum_ns += mr_meter_get(&h->sum_ns);
    for (unsigned i = 0; i < MR_HISTOGRAM_SLOTS; i++)
        out->slots[i] += mr_meter_get(&h->slots[i]);
}

static void sum_counters(mr_meter_totals *out, const mr_meter *m) {
#define ADD(name) out->name += mr_meter_get(&m->name);
    MR_METER_COUNTERS(ADD)
#undef ADD
    sum_histogram(&out->queue, &m->queue);
    sum_histogram(&out->handler, &m->handler);
    sum_histogram(&out->loop_lag, &m->loop_lag);
    for (unsigned row = 0; row < MR_METER_ROWS; row++)
        for (unsigned class = 0; class < MR_CLASS_COUNT; class ++) {
            uint64_t count = mr_meter_get(&m->routes[row][class]);
            out->routes[row][class] += count;
            out->requests[class] += count;
        }
}

void mr_meter_sum(mr_meter_totals *totals, const mr_meter *m) {
#define ADD(name) totals->name += mr_meter_get(&m->name);
    MR_METER_GAUGES(ADD)
#undef ADD
    sum_counters(totals, m);
}

static void clear_histogram(mr_histogram *h) {
    mr_meter_set(&h->sum_ns, 0);
    for (unsigned i = 0; i < MR_HISTOGRAM_SLOTS; i++)
        mr_meter_set(&h->slots[i], 0);
}

/* Cell by cell: a memset would be a plain write to what others may read without the lock. */
static void clear(mr_meter *m) {
#define CLEAR(name) mr_meter_set(&m->name, 0);
    MR_METER_STATUS(CLEAR)
    MR_METER_GAUGES(CLEAR)
    MR_METER_COUNTERS(CLEAR)
#undef CLEAR
    clear_histogram(&m->queue);
    clear_histogram(&m->handler);
    clear_histogram(&m->loop_lag);
    for (unsigned row = 0; row < MR_METER_ROWS; row++)
        for (unsigned class = 0; class < MR_CLASS_COUNT; class ++)
            mr_meter_set(&m->routes[row][class], 0);
}

void mr_meter_retire(mr_meter_totals *retired, mr_meter *m) {
    sum_counters(retired, m);
    clear(m);
}

static mr_thread_state judge(uint64_t state, uint64_t age_ns, uint64_t stuck_ns) {
    bool serves = state == MR_THREAD_UP || state == MR_THREAD_DRAINING;
    if (serves && age_ns > stuck_ns)
        return MR_THREAD_STUCK;
    return state <= MR_THREAD_DRAINING ? (mr_thread_state)state : MR_THREAD_DOWN;
}

void mr_meter_read(const mr_meter *m, uint64_t now_ns, uint64_t stuck_ns, mr_meter_row *row) {
    /* Asleep first: see mr_meter_turn_begin(). */
    bool is_asleep = atomic_load_explicit(&m->is_asleep, memory_order_acquire) != 0;
    uint64_t beat_ns = mr_meter_get(&m->beat_ns);
    uint64_t since_ns = beat_ns != 0 && now_ns > beat_ns ? now_ns - beat_ns : 0;
#define READ(name) row->name = mr_meter_get(&m->name);
    MR_METER_GAUGES(READ)
    MR_METER_COUNTERS(READ)
    READ(lag_ns)
#undef READ
    row->age_ns = is_asleep ? 0 : since_ns;
    row->asleep_ns = is_asleep ? since_ns : 0;
    if (row->lag_ns < row->age_ns)
        row->lag_ns = row->age_ns;
    row->state = judge(mr_meter_get(&m->state), row->age_ns, stuck_ns);
    row->requests = 0;
    for (unsigned i = 0; i < MR_METER_ROWS; i++)
        for (unsigned class = 0; class < MR_CLASS_COUNT; class ++)
            row->requests += mr_meter_get(&m->routes[i][class]);
}

static unsigned rank_of(mr_thread_state state) {
    static const uint8_t ranks[] = {[MR_THREAD_DOWN] = 0,
                                    [MR_THREAD_DRAINING] = 1,
                                    [MR_THREAD_STARTING] = 2,
                                    [MR_THREAD_STUCK] = 3,
                                    [MR_THREAD_UP] = 4};
    return ranks[state];
}

static void merge_into(mr_meter_row *to, const mr_meter_row *from) {
#define ADD(name) to->name += from->name;
    MR_METER_GAUGES(ADD)
    MR_METER_COUNTERS(ADD)
    ADD(requests)
#undef ADD
    if (rank_of(from->state) <= rank_of(to->state))
        return;
    to->state = from->state;
    to->age_ns = from->age_ns;
    to->lag_ns = from->lag_ns;
    to->utilisation = from->utilisation;
}

size_t mr_meter_merge(mr_meter_row *rows, size_t count) {
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        size_t at = 0;
        while (at < kept && rows[at].thread != rows[i].thread)
            at++;
        if (at < kept)
            merge_into(&rows[at], &rows[i]);
        else
            rows[kept++] = rows[i];
    }
    return kept;
}

void mr_meter_utilisation(mr_meter_window *w, mr_meter_row *row, uint64_t now_ns) {
    uint64_t busy = row->busy_ns + row->age_ns, idle = row->idle_ns + row->asleep_ns;
    if (row->turns < w->newer.turns)
        *w = (mr_meter_window){0};
    if (w->newer.at_ns == 0 || now_ns - w->newer.at_ns >= MR_METER_WINDOW_NS) {
        w->older = w->newer;
        w->newer.at_ns = now_ns;
        w->newer.busy_ns = busy;
        w->newer.idle_ns = idle;
        w->newer.turns = row->turns;
    }
    /* The cells are read at different instants: a turn that ends meanwhile may be missed or counted
     * twice, so the differences are kept from falling below 0. */
    busy = busy > w->older.busy_ns ? busy - w->older.busy_ns : 0;
    idle = idle > w->older.idle_ns ? idle - w->older.idle_ns : 0;
    row->utilisation = busy + idle == 0 ? 0 : (double)busy / (double)(busy + idle);
}
