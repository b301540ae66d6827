/* metrics_text.h -- what the meters say, for Prometheus (text format 0.0.4) and for health checks
(JSON).
 *
 * Counters and histograms are shown as totals over all threads, those that ended included: they
never
 * go down. What belongs to one thread has a label thread="n" (thread="main": the supervisor) and
names
 * that begin with millrace_thread_, or is a gauge; the counters among them
(millrace_thread_..._total)
 * start over when the thread is replaced. Seconds are exact to the nanosecond, sizes are in bytes.
 *
 * What a scrape costs: nothing on the observed threads but the cache lines that are read. The
thread
 * that answers reads about 15 KiB of cells for each seat and writes the text: 46 us and 27 KB for 4
 * threads and 50 routes, 120 us and 42 KB with 100 counters and 20 histograms of the program, 190
to
 * 490 us while two threads on the same two CPUs count as fast as they can. Counting is 0.3 ns (a
cell),
 * 0.9 ns (a request), 1.4 ns (a histogram). By bench/c/metrics.c, which has the command; gcc 12
-O2,
 * AMD EPYC, 2 CPUs shared with other work (load 4), Linux 6.18; medians of 21, two runs, which
differed
 * by a third.
 *
 * Owns:    nothing.
 * Borrows: all of its input, for the call; the buffer grows in the memory that the caller names,
and
 *          nothing else is allocated.
 * Thread:  any, under the lock of the registry of series.
 * Uses:    engine/meter.h, engine/series.h. */
#ifndef MR_ENGINE_METRICS_TEXT_H
#define MR_ENGINE_METRICS_TEXT_H

#include "engine/meter.h"
#include "engine/series.h"

#define MR_METRICS_TEXT_MAX (16u * 1024u * 1024u) /* of one scrape; over it: MR_LIMIT */
#define MR_METRICS_ROUTE_MAX                                                                       \
    512u /* octets of a route's name that are shown; what is beyond, is cut */
#define MR_METRICS_TYPE "text/plain; version=0.0.4; charset=utf-8"
#define MR_HEALTH_TYPE "application/json"

typedef struct mr_metrics {
    const mr_meter_row *rows; /* one for each thread number: see mr_meter_merge() */
    size_t row_count;
    const mr_meter_totals *totals;
    const mr_span *routes; /* by the numbers that mr_meter_request() had; UTF-8, different from one
                              another */
    size_t route_count;    /* those over MR_METER_ROUTES_MAX have no names of their own */
    mr_series *series;     /* NULL: none */
    const mr_series_seat *seats;
    size_t seat_count;
} mr_metrics;

/* Appends to buf. MR_NOMEM, MR_LIMIT: nothing is appended. */
mr_rc mr_metrics_text(mr_mem *mem, mr_buf *buf, const mr_metrics *metrics) MR_MUST_CHECK;

typedef enum mr_health {
    MR_HEALTH_OK, /* at least one thread is up, none is stuck or down; starting and draining are
                     planned and take nothing away from it */
    MR_HEALTH_DEGRADED, /* at least one is up, but another is stuck or down */
    MR_HEALTH_DOWN      /* none is up: not ready */
} mr_health;

/* Rows of MR_METER_NO_THREAD do not count. */
mr_health mr_health_of(const mr_meter_row *rows, size_t row_count);

/* Appends {"status":"ok","threads":[{"thread":0,"state":"up","heartbeatAge":0,"lag":0.25,
 * "utilisation":0.031,"mailboxDepth":0,"connections":12}]}. heartbeatAge (ms) is for how long the
 * thread has not come back to wait for events: 0 while it waits; lag is in ms as well. MR_NOMEM,
 * MR_LIMIT: nothing is appended. */
mr_rc mr_health_text(mr_mem *mem, mr_buf *buf, const mr_meter_row *rows,
                     size_t row_count) MR_MUST_CHECK;

#endif
