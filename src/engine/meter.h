/* meter.h -- what one thread counts about itself, readable by any other thread without its help.
 *
 * A thread writes its own mr_meter and no other; every write is a relaxed load, an addition and a
 * relaxed store: no locked instruction, no shared line. Whoever wants to know reads the cells while
 * the thread goes on, or while it is stuck. Counters that belong together (accepted and closed,
 * say) are read at slightly different instants; each one alone never goes down.
 *
 * Owns:    nothing; a meter is embedded by value where its memory is aligned to 64 bytes.
 * Thread:  writers: the meter's thread. mr_meter_read, _sum and _retire: any, under the one lock
 * that the caller holds for all of them (the fleet's). Writers never take it. Uses:    libc. Times
 * come from the caller: monotonic nanoseconds, the same clock everywhere. */
#ifndef MR_ENGINE_METER_H
#define MR_ENGINE_METER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MR_METER_ALIGN 64
#define MR_METER_ROUTES_MAX 256u                     /* routes with a row of their own */
#define MR_METER_ROW_OTHER MR_METER_ROUTES_MAX       /* all routes beyond */
#define MR_METER_ROW_NONE (MR_METER_ROUTES_MAX + 1u) /* answered before or without a route */
#define MR_METER_ROWS (MR_METER_ROUTES_MAX + 2u)
#define MR_METER_NO_ROUTE UINT32_MAX
#define MR_METER_NO_THREAD UINT32_MAX /* the supervisor, which serves no requests */

enum {
    MR_CLASS_OTHER = 5,
    MR_CLASS_COUNT = 6
}; /* 1xx is 0 .. 5xx is 4; what is no status: other */

typedef _Atomic uint64_t mr_cell;
_Static_assert(sizeof(mr_cell) == sizeof(uint64_t), "a cell is one plain word");

/* ---- histograms of durations ----
 * Slot 0 holds all up to 2^10 ns (about 1 us), the last one all above 2^36 ns (about 69 s). Between
 * them each power of two has four slots of equal width. A slot's upper edge belongs to it, as with
 * the `le` of Prometheus. There is no counter of all: it is the sum of the slots, so the two cannot
 * disagree. */
#define MR_HISTOGRAM_LOW_BIT 10u
#define MR_HISTOGRAM_HIGH_BIT 36u
#define MR_HISTOGRAM_SLOTS ((MR_HISTOGRAM_HIGH_BIT - MR_HISTOGRAM_LOW_BIT) * 4u + 2u)

typedef struct mr_histogram {
    mr_cell sum_ns;
    mr_cell slots[MR_HISTOGRAM_SLOTS];
} mr_histogram;

/* ---- the cells ----
 * Each list is used for the meter, for what is read from it, and for folding. */

/* Since the thread began; folded into the totals when it ends. */
#define MR_METER_COUNTERS(X)                                                                       \
    X(accepted)                                                                                    \
    X(closed)                                                                                      \
    X(refused_limit)    /* connections over limits.connections */                                  \
    X(refused_admit)    /* connections that the admit hook turned away */                          \
    X(refused_rate)     /* requests over the rate limit: 429 */                                    \
    X(refused_overload) /* requests while JavaScript was late: 503 */                              \
    X(refused_memory)   /* connections for which memory was short */                               \
    X(handed_over)      /* accepted here, given to another thread */                               \
    X(handed_in)        /* accepted elsewhere, served here */                                      \
    X(by_engine)        /* requests answered without JavaScript */                                 \
    X(by_handler)       /* requests answered by JavaScript */                                      \
    X(received_bytes)                                                                              \
    X(sent_bytes)                                                                                  \
    X(handshakes) /* of TLS, completed */                                                          \
    X(handshakes_failed)                                                                           \
    X(timeout_header)                                                                              \
    X(timeout_body)                                                                                \
    X(timeout_keep_alive)                                                                          \
    X(timeout_send)                                                                                \
    X(timeout_linger)                                                                              \
    X(timeout_handshake)                                                                           \
    X(log_dropped)    /* lines of the access log that its ring had no room for */                  \
    X(mail_posted)    /* counted by the sender */                                                  \
    X(mail_delivered) /* counted by the receiver */                                                \
    X(mail_dropped)   /* counted by the sender: full, or the receiver is gone */                   \
    X(turns)          /* of the loop */                                                            \
    X(busy_ns)        /* whole turns, from waking to the next wait */                              \
    X(idle_ns)        /* waiting for events */

/* Of this instant; dropped when the thread ends. */
#define MR_METER_GAUGES(X)                                                                         \
    X(connections)    /* open now */                                                               \
    X(exchanges)      /* requests in flight: begun, their answer not yet complete */               \
    X(mailbox_depth)  /* messages that wait for this thread */                                     \
    X(used_bytes)     /* memory handed out and in use */                                           \
    X(peak_bytes)     /* the highest used_bytes so far; a sum over threads is an upper bound */    \
    X(reserved_bytes) /* taken from the system, whether used or not */                             \
    X(retired_bytes)  /* no longer in use, but not yet safe to free */

/* About the loop; of no use added up. beat_ns is when a turn last began or ended, 0: never. */
#define MR_METER_STATUS(X)                                                                         \
    X(state)     /* mr_thread_state, but never STUCK: that is for others to tell */                \
    X(is_asleep) /* 1: it waits for events, for as long as it likes */                             \
    X(beat_ns)                                                                                     \
    X(lag_ns) /* recent lag, see mr_meter_lag() */

typedef enum mr_thread_state {
    MR_THREAD_DOWN, /* 0: a zeroed meter has no tenant */
    MR_THREAD_STARTING,
    MR_THREAD_UP,
    MR_THREAD_DRAINING,
    MR_THREAD_STUCK /* UP or DRAINING, but its turn has lasted too long */
} mr_thread_state;

typedef struct mr_meter {
    _Alignas(MR_METER_ALIGN) mr_histogram queue; /* head parsed -> JavaScript entered */
    mr_histogram handler;                        /* JavaScript entered -> answer given */
    mr_histogram loop_lag;                       /* how late a turn began */
#define MR_CELL(name) mr_cell name;
    MR_METER_STATUS(MR_CELL)
    MR_METER_GAUGES(MR_CELL)
    MR_METER_COUNTERS(MR_CELL)
#undef MR_CELL
    mr_cell routes[MR_METER_ROWS][MR_CLASS_COUNT];
} mr_meter;

_Static_assert(sizeof(mr_meter) % MR_METER_ALIGN == 0, "no line is shared with a neighbour");

/* ---- writers: the meter's thread, a few instructions each ---- */

static inline uint64_t mr_meter_get(const mr_cell *cell) {
    return atomic_load_explicit(cell, memory_order_relaxed);
}
static inline void mr_meter_set(mr_cell *cell, uint64_t value) {
    atomic_store_explicit(cell, value, memory_order_relaxed);
}
/* Not an atomic addition: the only writer needs none. */
static inline void mr_meter_add(mr_cell *cell, uint64_t more) {
    mr_meter_set(cell, mr_meter_get(cell) + more);
}
/* Gauges only. */
static inline void mr_meter_sub(mr_cell *cell, uint64_t less) {
    mr_meter_set(cell, mr_meter_get(cell) - less);
}

static inline unsigned mr_histogram_slot(uint64_t ns) {
    uint64_t below = ns - (ns != 0); /* so that an upper edge stays in its slot */
    if (below < (UINT64_C(1) << MR_HISTOGRAM_LOW_BIT))
        return 0;
    if (below >> MR_HISTOGRAM_HIGH_BIT != 0)
        return MR_HISTOGRAM_SLOTS - 1;
    unsigned top = 63u - (unsigned)__builtin_clzll(below);
    return 1 + (top - MR_HISTOGRAM_LOW_BIT) * 4 + (unsigned)(below >> (top - 2) & 3);
}
static inline void mr_histogram_record(mr_histogram *h, uint64_t ns) {
    mr_meter_add(&h->slots[mr_histogram_slot(ns)], 1);
    mr_meter_add(&h->sum_ns, ns);
}

static inline unsigned mr_meter_route(uint32_t route) {
    if (route < MR_METER_ROUTES_MAX)
        return route;
    return route == MR_METER_NO_ROUTE ? MR_METER_ROW_NONE : MR_METER_ROW_OTHER;
}
static inline unsigned mr_meter_class(unsigned status) {
    return status >= 100 && status < 600 ? status / 100 - 1 : MR_CLASS_OTHER;
}
/* One answered request. The totals by class are the sums over the rows. */
static inline void mr_meter_request(mr_meter *m, uint32_t route, unsigned status) {
    mr_meter_add(&m->routes[mr_meter_route(route)][mr_meter_class(status)], 1);
}

/* How late the loop was. What is kept as recent falls by an eighth with each better reading. */
static inline void mr_meter_lag(mr_meter *m, uint64_t ns) {
    uint64_t faded = mr_meter_get(&m->lag_ns);
    faded -= (faded + 7) / 8;
    mr_meter_set(&m->lag_ns, ns > faded ? ns : faded);
    mr_histogram_record(&m->loop_lag, ns);
}

/* Around all that the loop does between two waits. The beat is set before the sleep ends (release),
 * so nobody sees a thread that is awake and last beat before it slept. */
static inline void mr_meter_turn_begin(mr_meter *m, uint64_t now_ns) {
    uint64_t since = mr_meter_get(&m->beat_ns);
    if (since != 0 && now_ns > since && mr_meter_get(&m->is_asleep) != 0)
        mr_meter_add(&m->idle_ns, now_ns - since);
    mr_meter_set(&m->beat_ns, now_ns);
    atomic_store_explicit(&m->is_asleep, 0, memory_order_release);
    mr_meter_add(&m->turns, 1);
}
static inline void mr_meter_turn_end(mr_meter *m, uint64_t now_ns) {
    uint64_t since = mr_meter_get(&m->beat_ns);
    if (since != 0 && now_ns > since && mr_meter_get(&m->is_asleep) == 0)
        mr_meter_add(&m->busy_ns, now_ns - since);
    mr_meter_set(&m->beat_ns, now_ns);
    mr_meter_set(&m->is_asleep, 1);
}

/* ---- readers: under the caller's lock ---- */

typedef struct mr_histogram_totals {
    uint64_t sum_ns;
    uint64_t slots[MR_HISTOGRAM_SLOTS];
} mr_histogram_totals;

#define MR_PLAIN(name) uint64_t name;
typedef struct mr_meter_totals {
    MR_METER_GAUGES(MR_PLAIN) /* of the live threads only */
    MR_METER_COUNTERS(MR_PLAIN)
    uint64_t requests[MR_CLASS_COUNT];
    mr_histogram_totals queue, handler, loop_lag;
    uint64_t routes[MR_METER_ROWS][MR_CLASS_COUNT];
} mr_meter_totals;

/* One thread as others see it. */
typedef struct mr_meter_row {
    uint32_t thread; /* its number, or MR_METER_NO_THREAD; the caller's to set */
    mr_thread_state state;
    uint64_t age_ns;    /* how long its present turn has lasted; 0: asleep, or never began */
    uint64_t asleep_ns; /* how long it has been asleep; one of the two is 0 */
    uint64_t lag_ns;    /* the recent lag, or age_ns if that is more */
    double utilisation; /* 0..1; set by mr_meter_utilisation() */
    uint64_t requests;  /* answered, of all classes */
    MR_METER_GAUGES(MR_PLAIN)
    MR_METER_COUNTERS(MR_PLAIN) /* busy_ns and idle_ns: without the turn or sleep that goes on */
} mr_meter_row;
#undef MR_PLAIN

/* Fills all of *row but `thread` and `utilisation`. A turn longer than stuck_ns makes it STUCK. */
void mr_meter_read(const mr_meter *m, uint64_t now_ns, uint64_t stuck_ns, mr_meter_row *row);
/* Adds one live block to *totals, which began as a copy of the retired ones:
 *     totals = fleet->retired;  for each seat: mr_meter_sum(&totals, &seat->meter); */
void mr_meter_sum(mr_meter_totals *totals, const mr_meter *m);
/* The thread has ended (its last write happens before this call): its counters and histograms are
 * added to *retired, its gauges dropped, and the block is zero for the next tenant. A reader that
 * holds the lock sees each count in the one place or the other, never in both or in none. */
void mr_meter_retire(mr_meter_totals *retired, mr_meter *m);
/* Makes one row of those with the same thread number (while a thread is replaced there are two):
 * the gauges and counters are added, the rest is that of the row whose state comes first of UP,
 * STUCK, STARTING, DRAINING, DOWN. Returns how many remain, in their first order. */
size_t mr_meter_merge(mr_meter_row *rows, size_t count);

/* The inclusive upper edge of a slot in ns; UINT64_MAX for the last. */
uint64_t mr_histogram_edge(unsigned slot);
uint64_t mr_histogram_count(const mr_histogram_totals *h);
/* The middle of the slot in which the exact quantile lies: off by an eighth of it at most, above
 * 2^10 and up to 2^36 ns; below, by 512 ns at most; beyond, 2^36 is the answer. `share` is 0..1. 0:
 * empty. */
uint64_t mr_histogram_quantile(const mr_histogram_totals *h, double share);

/* The observer's memory of a thread's busy time, one for each seat. Zeroed to begin with and for a
 * new tenant; one that has turned less often than the last is noticed. */
typedef struct mr_meter_window {
    struct {
        uint64_t at_ns, busy_ns, idle_ns, turns;
    } older, newer;
} mr_meter_window;

#define MR_METER_WINDOW_NS UINT64_C(1000000000)

/* Called at each look at the thread, best once a window or more often: sets row->utilisation, the
 * busy share of the last one to two windows. The turn or sleep that goes on counts, so a thread in
 * an endless loop nears 1. */
void mr_meter_utilisation(mr_meter_window *window, mr_meter_row *row, uint64_t now_ns);

#endif
