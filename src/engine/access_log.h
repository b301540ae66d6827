/* access_log.h -- one line for each request, from every thread into one file or descriptor.
 * A thread posts into a byte ring of its own (one producer, one consumer, no locks, no system call
 * but one when the ring gets half full); one writer thread empties all rings five times a second,
 * or when it is woken. (So it wakes five times a second when there is nothing to do, too.) Nothing
 * that happens to the file (full disk, stuck pipe) reaches the thread that posts: a line that finds
 * no room in its ring is dropped and counted.
 *
 * Owns:    its memory, the rings, the thread, the descriptor (a duplicate of one that was given).
 * Borrows: a record, for the call.
 * Thread:  starts one, all signals blocked in it. Each call says who may make it.
 * Uses:    base/, engine/access_line.h. */
#ifndef MR_ENGINE_ACCESS_LOG_H
#define MR_ENGINE_ACCESS_LOG_H

#include "base/rc.h"
#include "engine/access_line.h"

#define MR_ACCESS_RING_BYTES (256u * 1024) /* default */
#define MR_ACCESS_RING_BYTES_MIN 8192u
#define MR_ACCESS_RING_BYTES_MAX (64u * 1024 * 1024)
#define MR_ACCESS_RINGS_MAX 1024u
#define MR_ACCESS_BATCH_BYTES (64u * 1024) /* taken out of the rings, being written */
#define MR_ACCESS_WAKE_MS 200              /* a line is written at most this late, if it can be */
#define MR_ACCESS_CLOSE_MS 1000            /* what cannot be written in this time is given up */

typedef struct mr_access_log mr_access_log;
typedef struct mr_access_ring mr_access_ring;

typedef struct mr_access_options {
    const char *path; /* appended to, made if need be; NULL: fd */
    int fd;           /* duplicated; its flags are left alone */
    mr_access_style style;
    uint32_t ring_bytes; /* of each thread's; a power of two; 0: the default */
} mr_access_options;

typedef struct mr_access_counts {
    uint64_t posted;  /* lines taken into a ring */
    uint64_t dropped; /* lines that found no room, and those given up at close */
    uint64_t written_bytes;
    uint64_t errors;  /* failed writes and reopens; a write is tried again, so not lines */
    uint64_t reopens; /* that succeeded */
    uint32_t rings;   /* open now */
} mr_access_counts;

/* MR_INVALID: an option, or the file cannot be opened. MR_NOMEM: memory, descriptors or threads are
 * short. On failure *out is NULL. */
mr_rc mr_access_log_open(const mr_access_options *options, mr_access_log **out) MR_MUST_CHECK;
/* Any thread. Opens the path again, soon, in the writer's thread: the old file gets no line that is
 * posted after the reopen is counted. If it cannot be opened, the old one stays. Without a path it
 * does nothing. */
void mr_access_log_reopen(mr_access_log *log);
/* Any thread. */
void mr_access_log_counts(mr_access_log *log, mr_access_counts *out);
/* Writes what is left, ends the thread, frees log and rings; accepts NULL. Nobody may post any
 * more, or use the log. Waits MR_ACCESS_CLOSE_MS for a file that does not take the lines, and half
 * as long again for a writer that hangs in a call of the kernel (then that thread frees the log
 * when it comes back). MR_LIMIT: lines were given up; they count as dropped, except when the writer
 * hangs. `last` may be NULL. */
mr_rc mr_access_log_close(mr_access_log *log, mr_access_counts *last) MR_MUST_CHECK;

/* Any thread. The ring is for one thread. MR_LIMIT: MR_ACCESS_RINGS_MAX are open. MR_NOMEM. */
mr_rc mr_access_ring_open(mr_access_log *log, mr_access_ring **out) MR_MUST_CHECK;
/* The ring's thread; or any, once that thread has ended. What it holds will still be written, and
 * its counts stay in the log's. Accepts NULL. */
void mr_access_ring_close(mr_access_ring *ring);
/* The ring's thread. Never waits. */
void mr_access_post(mr_access_ring *ring, const mr_access_record *record);
/* Any thread, while the ring is open. Lines of this ring that found no room. */
uint64_t mr_access_ring_dropped(const mr_access_ring *ring);

#endif
