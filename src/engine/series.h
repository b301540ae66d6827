/* series.h -- the metrics that a program defines for itself: counters, gauges, histograms.
 *
 * A definition gives a series its slots: places in an array of doubles that each thread has for
 * itself (mr_values), the same places in every thread's. A thread writes its own array only, by
 * plain single-writer stores, so JavaScript may as well write them through a Float64Array; readers
 * add the arrays up. Arrays never move nor grow: a registry has a fixed number of slots, and memory
 * that no series uses is never touched.
 *
 *     counter    1 slot:  the count
 *     gauge      2 slots: the value; 1 once it has been set (in this order)
 *     histogram  bound_count + 1 slots: observations by the first bound they do not exceed, the
 * last for those above all; then 2: the sum of those >= 0, and of the others, negated. All of them
 * only ever rise.
 *
 * Owns:    names, labels, bounds, what threads that ended have counted.
 * Thread:  any, under the one lock that the caller holds (the fleet's), for all but the
 * mr_series_add, _set and _observe: those are the thread's that owns the values, without a lock.
 * Uses:    base/, engine/metrics_put.h. */
#ifndef MR_ENGINE_SERIES_H
#define MR_ENGINE_SERIES_H

#include "engine/metrics_put.h"
#include <stdatomic.h>

#define MR_SERIES_LABELS_MAX 8u
#define MR_SERIES_BOUNDS_MAX 32u
#define MR_SERIES_NAME_MAX 128u  /* octets of a name, a metric's or a label's */
#define MR_SERIES_VALUE_MAX 256u /* octets of a label's value */
#define MR_SERIES_HELP_MAX 1024u
/* The defaults of mr_series_limits. */
#define MR_SERIES_COUNT_MAX 1000u
#define MR_SERIES_SLOTS_MAX 8192u
#define MR_SERIES_TEXT_MAX (256u * 1024u)

typedef enum mr_series_kind {
    MR_SERIES_COUNTER,
    MR_SERIES_GAUGE,
    MR_SERIES_HISTOGRAM
} mr_series_kind;

/* What becomes of a gauge's values in several threads. Threads that never set it do not take part,
 * and a gauge that none has set is not shown. */
typedef enum mr_series_merge {
    MR_MERGE_SUM,   /* what is spread over threads: open sessions, cached entries */
    MR_MERGE_MAX,   /* a high-water mark, or what is the same everywhere */
    MR_MERGE_THREAD /* one line for each, with the label thread="n" */
} mr_series_merge;

typedef struct mr_series_def {
    mr_series_kind kind;
    mr_series_merge merge; /* of gauges */
    /* [a-zA-Z_:][a-zA-Z0-9_:]*, not beginning with millrace_. Shown as it is: that a counter's ends
     * in _total is a custom, which the caller may keep. */
    mr_span name;
    mr_span help; /* UTF-8; empty: the one that the name has already */
    /* [a-zA-Z_][a-zA-Z0-9_]*, not beginning with __; not "le" nor "thread". Of one name's series
     * all have the same labels in the same order. */
    const mr_span *label_names;
    const mr_span *label_values; /* UTF-8 */
    uint32_t label_count;        /* <= MR_SERIES_LABELS_MAX */
    const double *bounds;        /* of histograms: finite, ascending; +Inf is implied */
    uint32_t bound_count;        /* 1..MR_SERIES_BOUNDS_MAX */
} mr_series_def;

typedef struct mr_series_place {
    uint32_t id; /* counts up from 0 */
    uint32_t slot, slot_count;
    mr_series_kind kind;
    const double *bounds; /* the registry's, as long as it lives; of histograms */
    uint32_t bound_count;
} mr_series_place;

typedef struct mr_series_limits { /* 0: the default */
    uint32_t series;              /* label sets, however many lines each has */
    uint32_t slots;               /* <= 1 << 20 */
    uint32_t text_bytes;          /* names, help and labels, as they are shown */
} mr_series_limits;

typedef struct mr_series mr_series; /* the registry */

mr_series *mr_series_create(mr_mem *mem,
                            const mr_series_limits *limits) MR_MUST_CHECK; /* or NULL */
void mr_series_destroy(mr_series *registry);                               /* accepts NULL */

/* The same definition again gives the same place. MR_INVALID: it breaks a rule, or differs from
 * what the name stands for already; *problem says how, in a constant text. MR_LIMIT: over one of
 * the limits, and counted. MR_NOMEM. On failure the registry is as before. */
mr_rc mr_series_define(mr_series *registry, const mr_series_def *def, mr_series_place *place,
                       const char **problem) MR_MUST_CHECK;

typedef struct mr_series_stats {
    uint32_t series, slots, text_bytes;
    uint64_t refused; /* definitions that were over a limit */
} mr_series_stats;
mr_series_stats mr_series_get_stats(const mr_series *registry);

/* ---- values ---- */

typedef _Atomic double mr_value;
_Static_assert(sizeof(mr_value) == sizeof(double), "JavaScript sees a Float64Array");

/* One thread's; zeroed: none yet. */
typedef struct mr_values {
    mr_value *slots; /* as many as the registry has; aligned to 64; in block */
    void *block;
    size_t block_bytes;
} mr_values;

/* MR_NOMEM. The memory is the registry's. */
mr_rc mr_values_init(const mr_series *registry, mr_values *values) MR_MUST_CHECK;
void mr_values_dispose(const mr_series *registry, mr_values *values);
/* The thread has ended: counters and histograms live on in the totals, gauges are dropped, and the
 * values are zero for the next tenant. Accepts values that were never made. */
void mr_series_retire(mr_series *registry, mr_values *values);

static inline double mr_value_get(const mr_value *value) {
    return atomic_load_explicit(value, memory_order_relaxed);
}
static inline void mr_value_set(mr_value *value, double x) {
    atomic_store_explicit(value, x, memory_order_relaxed);
}
static inline bool mr_value_is_finite(double x) { return x - x == 0; }

/* Counters. False, and nothing done: less than 0, or not finite. */
static inline bool mr_series_add(const mr_values *v, const mr_series_place *place, double more) {
    if (!(more >= 0) || !mr_value_is_finite(more))
        return false;
    mr_value *value = &v->slots[place->slot];
    mr_value_set(value, mr_value_get(value) + more);
    return true;
}
/* Gauges; any value. */
static inline void mr_series_set(const mr_values *v, const mr_series_place *place, double x) {
    mr_value_set(&v->slots[place->slot], x);
    atomic_store_explicit(&v->slots[place->slot + 1], 1, memory_order_release);
}
/* Histograms. False, and nothing done: not finite. */
static inline bool mr_series_observe(const mr_values *v, const mr_series_place *place, double x) {
    if (!mr_value_is_finite(x))
        return false;
    uint32_t i = 0;
    while (i < place->bound_count && x > place->bounds[i])
        i++;
    mr_value *bucket = &v->slots[place->slot + i];
    mr_value *sum = &v->slots[place->slot + place->bound_count + 1 + (x < 0)];
    mr_value_set(bucket, mr_value_get(bucket) + 1);
    mr_value_set(sum, mr_value_get(sum) + (x < 0 ? -x : x));
    return true;
}

/* ---- text ---- */

/* One thread's values; two seats may have the same thread number while it is being replaced: for
 * gauges by thread, the later one that has set it counts. */
typedef struct mr_series_seat {
    uint32_t thread; /* UINT32_MAX: thread="main" */
    const mr_values *values;
} mr_series_seat;

/* Writes all series in the Prometheus text format. What may not go down does not, even by the
 * rounding of another order of adding: hence the registry is not const. */
void mr_series_text(mr_series *registry, const mr_series_seat *seats, size_t seat_count,
                    mr_text *text);
/* What is shown for one slot of a counter or histogram: the sum over all threads, ended ones too.
 */
double mr_series_total(mr_series *registry, const mr_series_seat *seats, size_t seat_count,
                       uint32_t slot);

#endif
