/* permits.c -- how many requests of one route may be with handlers at one time, over all threads.
 * See fleet.h.
 *
 * A permit that is given back goes to whoever takes it first; a thread that has found none sets its
 * bit and tries once more, and who gives one back afterwards names a thread whose bit is set. Both
 * sides write one word and then read the other's (sequentially consistent), so that at least one of
 * them sees the other: no permit lies idle while somebody waits. */
#include "engine/fleet.h"

static mr_permits *row_of(mr_fleet *f, uint32_t row)
{
    return row < MR_METER_ROUTES_MAX ? &f->permits[row] : NULL;
}

bool mr_fleet_take_permit(mr_fleet *f, uint32_t seat, uint32_t row, uint32_t most)
{
    mr_permits *p = row_of(f, row);
    if (p == NULL)
        return true;
    uint32_t used = atomic_load(&p->used);
    do {
        if (used >= most)
            return false;
    } while (!atomic_compare_exchange_weak(&p->used, &used, used + 1));
    f->seats[seat].permits[row]++;
    return true;
}

void mr_fleet_await_permit(mr_fleet *f, uint32_t seat, uint32_t row)
{
    mr_permits *p = row_of(f, row);
    if (p != NULL)
        atomic_fetch_or(&p->waiting[seat >> 6], UINT64_C(1) << (seat & 63u));
}

static uint32_t next_waiting(mr_permits *p)
{
    for (uint32_t w = 0; w < MR_BELL_WORDS; w++) {
        uint64_t bits = atomic_load(&p->waiting[w]);
        while (bits != 0) {
            uint64_t lowest = bits & (0u - bits);
            if (atomic_fetch_and(&p->waiting[w], ~lowest) & lowest)
                return w * 64 + (uint32_t)__builtin_ctzll(lowest);
            bits = atomic_load(&p->waiting[w]);
        }
    }
    return MR_NO_SEAT;
}

uint32_t mr_fleet_give_permit(mr_fleet *f, uint32_t seat, uint32_t row)
{
    mr_permits *p = row_of(f, row);
    if (p == NULL || f->seats[seat].permits[row] == 0)
        return MR_NO_SEAT;
    f->seats[seat].permits[row]--;
    atomic_fetch_sub(&p->used, 1);
    return next_waiting(p);
}

uint32_t mr_fleet_pass_permit(mr_fleet *f, uint32_t row)
{
    mr_permits *p = row_of(f, row);
    return p != NULL ? next_waiting(p) : MR_NO_SEAT;
}

void mr_fleet_reap_permits(mr_fleet *f, uint32_t seat)
{
    for (uint32_t row = 0; row < MR_METER_ROUTES_MAX; row++) {
        mr_permits *p = &f->permits[row];
        atomic_fetch_sub(&p->used, f->seats[seat].permits[row]);
        f->seats[seat].permits[row] = 0;
        atomic_fetch_and(&p->waiting[seat >> 6], ~(UINT64_C(1) << (seat & 63u)));
    }
}
