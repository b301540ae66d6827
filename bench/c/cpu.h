/* cpu.h -- CPU time of a process, all its threads, those that ended included.
 * Owns:    nothing.
 * Borrows: nothing.
 * Thread:  any.
 * Uses:    libc; the numbering of per-process clocks, which is kernel ABI. */
#ifndef BENCH_CPU_H
#define BENCH_CPU_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct mr_cpu {
    uint64_t total_ns; /* by the scheduler: exact, but for a running thread as of its last tick */
    uint64_t ticks_ns; /* user + system as the kernel counts them, by ticks on most kernels */
    uint64_t user_ns;  /* the user part of ticks_ns */
} mr_cpu;

/* Reads the three clocks of a process; false when it is gone. */
bool mr_cpu_read(pid_t pid, mr_cpu *out);

#endif
