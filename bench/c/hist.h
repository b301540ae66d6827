/* hist.h -- a histogram of durations with a bounded relative error.
 * Owns:    its counters, inside the struct; no heap.
 * Borrows: nothing.
 * Thread:  whichever one owns the struct.
 * Uses:    libc. */
#ifndef BENCH_HIST_H
#define BENCH_HIST_H

#include <stdint.h>

/* 128 linear steps to each power of two: a reported value is within 0.4 % of the recorded one. */
#define MR_HIST_STEP_BITS 7
#define MR_HIST_SLOTS ((64 - MR_HIST_STEP_BITS + 1) << MR_HIST_STEP_BITS)

typedef struct mr_hist {
    uint64_t count;
    uint64_t sum_ns;
    uint64_t max_ns; /* exact */
    uint64_t slots[MR_HIST_SLOTS];
} mr_hist;

/* All counters to zero. Cannot fail. */
void mr_hist_reset(mr_hist *h);

/* Adds one duration. Any value is accepted. */
void mr_hist_add(mr_hist *h, uint64_t ns);

/* The duration that `share` (0..1) of all are at or below; 0 when there are none. */
uint64_t mr_hist_quantile(const mr_hist *h, double share);

#endif
