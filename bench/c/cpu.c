/* cpu.c -- why clocks and not /proc: /proc/PID/stat has the split in hundredths of a second, and
 * bends it so that it never runs backwards over the whole life of the process, so a window's split
 * depends on what came before it. /proc/PID/schedstat is the first thread's alone. The clocks have
 * nanoseconds for the total and plain counts of ticks (CONFIG_HZ, often 4 ms) for the split. */
#define _GNU_SOURCE
#include "cpu.h"

#include <time.h>

/* The kinds of per-process clocks; clock_getcpuclockid() gives SCHED and has no way to ask for
 * the others. */
enum { CLOCK_OF_ALL_TICKS = 0, CLOCK_OF_USER_TICKS = 1, CLOCK_OF_SCHEDULER = 2 };

static bool read_clock(pid_t pid, unsigned kind, uint64_t *ns) {
    struct timespec t;
    if (clock_gettime((clockid_t)(~(unsigned)pid << 3 | kind), &t) != 0)
        return false;
    *ns = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
    return true;
}

bool mr_cpu_read(pid_t pid, mr_cpu *out) {
    return read_clock(pid, CLOCK_OF_SCHEDULER, &out->total_ns) &&
           read_clock(pid, CLOCK_OF_ALL_TICKS, &out->ticks_ns) &&
           read_clock(pid, CLOCK_OF_USER_TICKS, &out->user_ns);
}
