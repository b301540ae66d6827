/* wheel.c -- which slot a timer hangs in, and what a step of time does.
 *
 * Read now_ms and an expiry as digits of 6 bits. A timer hangs on the level of the highest digit in
 * which the two differ, in the slot of the expiry's digit there. Hence, below the top level:
 *   every slot in use is above now's digit of its level (level 0: at or above, see below);
 *   whatever hangs on a level expires before whatever hangs on a higher one.
 * The top level is a ring instead: its slots are 1 to 63 steps of 2^30 ms ahead of now, an expiry
 * further off hangs 63 steps ahead and is looked at again there.
 *
 * When time moves, each level gives up the slots that now's digit passed or reached. A timer in a
 * slot that was passed is due; in one that was reached, it is due or moves down. A level whose
 * digit did not move ends the search, since no higher one moved either.
 *
 * Now's own slot of level 0 would stay empty by these rules. It takes the timers that are set at or
 * before now, and every advance empties it. */
#include "base/wheel.h"
#include "base/check.h"
#include <stddef.h>

#define DIGIT_BITS 6
#define DIGIT_MASK 63u
#define TOP (MR_WHEEL_LEVELS - 1)
#define TOP_SHIFT (TOP * DIGIT_BITS)

_Static_assert(MR_WHEEL_SLOTS == 1 << DIGIT_BITS, "a digit is a slot number");

static uint64_t rotate_left(uint64_t word, unsigned by) {
    return by == 0 ? word : word << by | word >> (64 - by);
}

static unsigned lowest_bit(uint64_t word) { return (unsigned)__builtin_ctzll(word); }

void mr_wheel_init(mr_wheel *wheel, uint64_t now_ms) {
    *wheel = (mr_wheel){.now_ms = now_ms};
    wheel->due_tail = &wheel->due;
}

/* Hangs a timer into the slot of its expiry. */
static void file_timer(mr_wheel *wheel, mr_timer *timer) {
    uint64_t now = wheel->now_ms;
    uint64_t at = timer->expiry_ms > now ? timer->expiry_ms : now;
    uint64_t differ = at ^ now;
    unsigned level = TOP;
    uint64_t place = at >> TOP_SHIFT;
    if (differ >> TOP_SHIFT == 0) {
        /* | 1: no difference at all is level 0 as well. */
        level = (63 - (unsigned)__builtin_clzll(differ | 1)) / DIGIT_BITS;
        place = at >> (level * DIGIT_BITS);
    } else if (place - (now >> TOP_SHIFT) > DIGIT_MASK) {
        place = (now >> TOP_SHIFT) + DIGIT_MASK;
    }
    unsigned slot = (unsigned)place & DIGIT_MASK;
    mr_timer **head = &wheel->slots[level][slot];
    timer->next = *head;
    timer->link = head;
    if (*head != NULL)
        (*head)->link = &timer->next;
    *head = timer;
    wheel->occupied[level] |= UINT64_C(1) << slot;
}

/* `head` has just become empty: if it is a slot, its bit goes too. */
static void note_empty(mr_wheel *wheel, mr_timer **head) {
    /* As integers: `head` may well lie inside some timer, outside of the array. */
    uintptr_t offset = (uintptr_t)head - (uintptr_t)wheel->slots;
    if (offset >= sizeof wheel->slots)
        return;
    size_t index = offset / sizeof *head;
    wheel->occupied[index / MR_WHEEL_SLOTS] &= ~(UINT64_C(1) << (index % MR_WHEEL_SLOTS));
}

void mr_wheel_clear(mr_wheel *wheel, mr_timer *timer) {
    mr_timer **link = timer->link;
    if (link == NULL)
        return;
    *link = timer->next;
    if (timer->next != NULL)
        timer->next->link = link;
    else if (wheel->due_tail == &timer->next)
        wheel->due_tail = link;
    else
        note_empty(wheel, link);
    timer->next = NULL;
    timer->link = NULL;
}

void mr_wheel_set(mr_wheel *wheel, mr_timer *timer, uint64_t expiry_ms) {
    mr_wheel_clear(wheel, timer);
    timer->expiry_ms = expiry_ms;
    file_timer(wheel, timer);
}

static void append_due(mr_wheel *wheel, mr_timer *timer) {
    timer->next = NULL;
    timer->link = wheel->due_tail;
    *wheel->due_tail = timer;
    wheel->due_tail = &timer->next;
}

/* Empties the slots in `mask`. Timers that are not due move to a lower level, or, on the top level
 * only, into a slot that this loop may meet once more: it files them there again, and ends. */
static void collect(mr_wheel *wheel, unsigned level, uint64_t mask) {
    for (uint64_t left = wheel->occupied[level] & mask; left != 0; left &= left - 1) {
        unsigned slot = lowest_bit(left);
        mr_timer *timer = wheel->slots[level][slot];
        wheel->slots[level][slot] = NULL;
        wheel->occupied[level] &= ~(UINT64_C(1) << slot);
        while (timer != NULL) {
            mr_timer *next = timer->next;
            if (timer->expiry_ms <= wheel->now_ms)
                append_due(wheel, timer);
            else
                file_timer(wheel, timer);
            timer = next;
        }
    }
}

/* The slots from `digit` to `steps` after it, around the ring. */
static uint64_t slots_from(unsigned digit, uint64_t steps) {
    if (steps >= DIGIT_MASK)
        return UINT64_MAX;
    return rotate_left((UINT64_C(2) << steps) - 1, digit);
}

void mr_wheel_advance(mr_wheel *wheel, uint64_t now_ms) {
    uint64_t was = wheel->now_ms;
    if (now_ms < was)
        now_ms = was;
    wheel->now_ms = now_ms;
    for (unsigned level = 0; level < MR_WHEEL_LEVELS; level++) {
        unsigned shift = level * DIGIT_BITS;
        uint64_t steps = (now_ms >> shift) - (was >> shift);
        if (level > 0 && steps == 0)
            break;
        collect(wheel, level, slots_from((unsigned)(was >> shift) & DIGIT_MASK, steps));
    }
}

mr_timer *mr_wheel_take_due(mr_wheel *wheel) {
    mr_timer *timer = wheel->due;
    if (timer != NULL)
        mr_wheel_clear(wheel, timer);
    return timer;
}

uint64_t mr_wheel_next_ms(const mr_wheel *wheel) {
    uint64_t now = wheel->now_ms;
    if (wheel->due != NULL)
        return now;
    for (unsigned level = 0; level < TOP; level++) {
        if (wheel->occupied[level] == 0)
            continue;
        unsigned shift = level * DIGIT_BITS;
        uint64_t place =
            (now >> shift & ~(uint64_t)DIGIT_MASK) | lowest_bit(wheel->occupied[level]);
        return place << shift;
    }
    if (wheel->occupied[TOP] == 0)
        return UINT64_MAX;
    uint64_t place = now >> TOP_SHIFT;
    unsigned digit = (unsigned)place & DIGIT_MASK;
    place += lowest_bit(rotate_left(wheel->occupied[TOP], (64 - digit) & DIGIT_MASK));
    return place << TOP_SHIFT;
}
