/* wheel.h -- a hierarchical timer wheel in milliseconds, with intrusive nodes.
 * 6 levels of 64 slots, one occupancy word per level. Never early: a timer fires in the first
 * advance whose now_ms >= its expiry. Lazy re-arm is the user's: keep the true deadline beside the
 * node, and when the node fires early, set it again.
 * Cost:    set, clear and take_due O(1); advance O(levels + timers that expire or move down),
 *          however far time jumps. A timer moves down at most once per level below its first.
 * Owns:    nothing; the nodes live inside their users. Neither a wheel nor a timer that is set may
 *          move in memory.
 * Thread:  the engine's. */
#ifndef MR_BASE_WHEEL_H
#define MR_BASE_WHEEL_H

#include <stdbool.h>
#include <stdint.h>

/* A zeroed timer is not set. */
typedef struct mr_timer {
    struct mr_timer *next, **link; /* link is NULL while the timer is not set */
    uint64_t expiry_ms;            /* on the engine clock */
} mr_timer;

#define MR_WHEEL_LEVELS 6
#define MR_WHEEL_SLOTS 64

typedef struct mr_wheel {
    uint64_t now_ms;
    uint64_t occupied[MR_WHEEL_LEVELS]; /* bit s: slots[level][s] is not empty */
    mr_timer *slots[MR_WHEEL_LEVELS][MR_WHEEL_SLOTS];
    mr_timer *due;       /* expired, not yet handed out */
    mr_timer **due_tail; /* the NULL at the end of due */
} mr_wheel;

void mr_wheel_init(mr_wheel *wheel, uint64_t now_ms);
/* Sets or moves a timer. An expiry at or before now is due at the next advance, even one that does
 * not move time: a timer that is set again from its own expiry cannot be handed out twice in one
 * turn. Any expiry is fine; beyond the range of the wheel (2^36 ms, two years) costs a step more.
 */
void mr_wheel_set(mr_wheel *wheel, mr_timer *timer, uint64_t expiry_ms);
/* Accepts a timer that is not set. A timer that is due and not yet taken is cleared as well. */
void mr_wheel_clear(mr_wheel *wheel, mr_timer *timer);
static inline bool mr_timer_is_set(const mr_timer *timer) { return timer->link != 0; }
/* Moves time forward (a now_ms in the past is taken as no move) and collects what is due. */
void mr_wheel_advance(mr_wheel *wheel, uint64_t now_ms);
/* The next due timer, unlinked, or NULL; in no promised order. Timers may be set and cleared
 * between calls. */
mr_timer *mr_wheel_take_due(mr_wheel *wheel);
/* When to wake up: a time <= the earliest expiry (exact on level 0, a lower bound above it; the
 * caller then advances and asks again), now_ms when a timer is due already, or UINT64_MAX when
 * nothing is set. */
uint64_t mr_wheel_next_ms(const mr_wheel *wheel);

#endif
