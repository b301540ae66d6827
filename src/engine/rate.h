/* rate.h -- one rate limit for all threads: so many requests a second for each key.
 * GCRA: of a key one time is kept, the theoretical arrival time of its next request ("tat"); a
 * request is admitted while that time is at most burst - 1 intervals ahead, and puts it one
 * interval further. `burst` requests pass at once, after that one for each 1 / per_second.
 *
 * Bounded: the table never grows. 8 octets for an entry and 64 entries at least, so 512 KiB with
 * the default of 65,536. Each bucket of 8 entries (one cache line) holds 7 keys and one entry that
 * is shared: a key that finds its bucket full of keys with a budget in use is counted on the shared
 * entry, against the same limit, together with every other such key of that bucket. The verdict
 * says so (is_shared). A key that moves from there to an entry of its own starts afresh: at worst
 * it had `burst` twice.
 * A key is known by its bucket and 20 further bits of its hash: in a full bucket a new key is taken
 * for another with a chance of 7 in 2^20 and shares its budget. Nobody can aim at that, or at a
 * bucket, without the seed.
 * An entry whose tat has passed says nothing that a new one would not: it is reused in place, so
 * reuse never admits one request more.
 *
 * Owns:    its table, from the mr_mem that create was given.
 * Borrows: the mr_mem, for create and destroy only.
 * Thread:  any for take and the keys, without locks; create and destroy are the mr_mem's.
 * Uses:    base/mem.h, net/sock.h (mr_peer). */
#ifndef MR_ENGINE_RATE_H
#define MR_ENGINE_RATE_H

#include "base/mem.h"
#include "net/sock.h"
#include <stdbool.h>

#define MR_RATE_ENTRIES 65536u /* default */
#define MR_RATE_ENTRIES_MIN 64u
#define MR_RATE_ENTRIES_MAX (1u << 24) /* 128 MiB */
#define MR_RATE_PER_SECOND_MIN 1e-6
#define MR_RATE_PER_SECOND_MAX 1e6
#define MR_RATE_BURST_MAX 1000000u
#define MR_RATE_WAYS 7u /* keys of one bucket */

typedef struct mr_rate mr_rate;

typedef struct mr_rate_options {
    double per_second; /* MR_RATE_PER_SECOND_MIN .. _MAX */
    uint32_t burst;    /* 1 .. MR_RATE_BURST_MAX */
    uint32_t entries;  /* a power of two, MR_RATE_ENTRIES_MIN .. _MAX; 0: the default */
    uint64_t seed[2];  /* random and secret, or clients choose whom they collide with */
} mr_rate_options;

/* What the caller may count and say; no shared counter is touched. */
typedef struct mr_rate_verdict {
    uint64_t retry_after_ns; /* MR_LIMIT: how long until this key has room for one; else 0 */
    uint32_t remaining;      /* how many more would be admitted at this instant */
    bool is_shared;          /* the bucket was full: judged on its shared entry */
} mr_rate_verdict;

/* MR_INVALID: an option out of its range. MR_NOMEM. On failure *out is NULL. */
mr_rc mr_rate_create(mr_mem *mem, const mr_rate_options *options, mr_rate **out) MR_MUST_CHECK;
/* Accepts NULL. No other thread may be inside a call, or begin one. */
void mr_rate_destroy(mr_mem *mem, mr_rate *rate);
/* All memory of the limit, constant. */
size_t mr_rate_bytes(const mr_rate *rate);

/* Any thread. The key of a client: all four octets with IPv4, the first 64 bits (what one customer
 * is given) with IPv6. Peers without an address, unix sockets, are one key together. */
uint64_t mr_rate_key_address(const mr_rate *rate, const mr_peer *peer);
/* Any thread. The key of a field's value, say. `bytes` may be NULL when len is 0. */
uint64_t mr_rate_key_bytes(const mr_rate *rate, const void *bytes, size_t len);

/* Any thread. One request of `key` at now_ns, on a monotonic clock that all callers share (from any
 * zero). MR_OK: admitted, and counted against the key. MR_LIMIT: not admitted, nothing changed. A
 * thread whose now_ns is behind the others' is judged more strictly, never less. */
mr_rc mr_rate_take(mr_rate *rate, uint64_t key, uint64_t now_ns,
                   mr_rate_verdict *verdict) MR_MUST_CHECK;

#endif
