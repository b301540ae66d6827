/* hist.c -- slot numbers grow with the value: below 128 one slot per ns, above it the position of
 * the highest bit picks a group of 128 slots and the next seven bits pick the slot in it. */
#include "hist.h"

#include <string.h>

static unsigned slot_of(uint64_t ns) {
    if (ns < (1u << MR_HIST_STEP_BITS))
        return (unsigned)ns;
    unsigned shift = 63u - (unsigned)__builtin_clzll(ns) - MR_HIST_STEP_BITS;
    unsigned step = (unsigned)(ns >> shift) & ((1u << MR_HIST_STEP_BITS) - 1);
    return ((shift + 1) << MR_HIST_STEP_BITS) | step;
}

/* The middle of a slot: the largest error is then half a step. */
static uint64_t value_of(unsigned slot) {
    if (slot < (1u << MR_HIST_STEP_BITS))
        return slot;
    unsigned shift = (slot >> MR_HIST_STEP_BITS) - 1;
    uint64_t step = slot & ((1u << MR_HIST_STEP_BITS) - 1);
    uint64_t low = ((1u << MR_HIST_STEP_BITS) | step) << shift;
    return low + ((1ull << shift) >> 1);
}

void mr_hist_reset(mr_hist *h) { memset(h, 0, sizeof *h); }

void mr_hist_add(mr_hist *h, uint64_t ns) {
    h->count++;
    h->sum_ns += ns;
    if (ns > h->max_ns)
        h->max_ns = ns;
    h->slots[slot_of(ns)]++;
}

uint64_t mr_hist_quantile(const mr_hist *h, double share) {
    uint64_t wanted = (uint64_t)(share * (double)h->count);
    uint64_t seen = 0;
    if (h->count == 0)
        return 0;
    if (wanted >= h->count)
        return h->max_ns;
    if (wanted == 0)
        wanted = 1;
    for (unsigned i = 0; i < MR_HIST_SLOTS; i++) {
        seen += h->slots[i];
        if (seen >= wanted) {
            uint64_t value = value_of(i);
            return value < h->max_ns ? value : h->max_ns;
        }
    }
    return h->max_ns;
}
