/* rate.c -- a bucket is 8 words of 64 bits, and one word is all there is of a key:
 *
 *      63 .. 44   43          42 .. 0
 *      tag        tentative   tat, in granules, its low 43 bits
 *
 * so that each step is one compare-and-swap and none is ever half done. Tag 0 is no key.
 *
 * Time is counted in granules of 1/64 of the interval between two requests: whole numbers, and the
 * rate is exact over any time. 43 bits of that last for 2^37 intervals (4 years at 1000 a second);
 * `base` tells which: every tat lies in [base, base + 2^43), and rebase() moves both on at half
 * time. (No call is assumed to take half of that.)
 *
 * Invariant 1: the tat of a word grows with every write, whoever writes. Therefore no word comes
 * back, and a compare-and-swap that succeeds has seen everything since its load (no ABA).
 *
 * Invariant 2: of a key at most one word of a bucket is settled (not tentative); only settled words
 * admit. A key enters in two steps: a free word is claimed as tentative, then, after a look at the
 * whole bucket that began when the claim stood already, settled by the admission of the first
 * request, whichever thread's. Of two claims of one key at least one look sees the other's claim
 * (both claims precede both looks, in one total order): the look that sees a settled word uses that
 * one; of tentative words it settles the first, having voided the others by compare-and-swap, which
 * a word that was settled meanwhile does not let happen. */
#include "engine/rate.h"
#include "base/check.h"
#include <stdatomic.h>
#include <string.h>

#define BUCKET_WORDS 8u
#define SHARED_WORD MR_RATE_WAYS /* the last one */
#define LINE_BYTES 64u

#define TAG_SHIFT 44
#define TENTATIVE (UINT64_C(1) << 43)
#define TIME_MASK (TENTATIVE - 1)
#define PERIOD (TIME_MASK + 1)
#define INTERVAL UINT64_C(64) /* granules between two requests at the rate */
#define FIRST_GRANULE 1u      /* words start with tat 0, which has to have passed at time 0 */

_Static_assert(MR_RATE_WAYS + 1 == BUCKET_WORDS, "seven keys and the shared word");
_Static_assert(MR_RATE_BURST_MAX *INTERVAL < PERIOD / 8, "a burst is short beside the period");

typedef struct bucket {
    _Atomic uint64_t words[BUCKET_WORDS];
} bucket;

_Static_assert(sizeof(bucket) == LINE_BYTES, "one cache line");
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "words of 64 bits need no lock");

struct mr_rate {
    /* constant after create */
    double granules_per_ns;
    uint64_t ahead_max; /* granules that a tat may be ahead when a request is admitted */
    uint64_t bucket_mask;
    uint64_t seed[2];
    size_t bytes;    /* of this block */
    bucket *buckets; /* inside this block, on a cache line */
    /* changes once in half a period, so it may share the line of the constants */
    _Atomic uint64_t base; /* granules; see above */
};

/* -- keys: SipHash-1-3 -- */

typedef struct sip {
    uint64_t a, b, c, d;
} sip;

static uint64_t rotate(uint64_t x, int bits) { return x << bits | x >> (64 - bits); }

static void sip_round(sip *s) {
    s->a += s->b;
    s->c += s->d;
    s->b = rotate(s->b, 13) ^ s->a;
    s->d = rotate(s->d, 16) ^ s->c;
    s->a = rotate(s->a, 32) + s->d;
    s->c += s->b;
    s->d = rotate(s->d, 21) ^ s->a;
    s->b = rotate(s->b, 17) ^ s->c;
    s->c = rotate(s->c, 32);
}

static void sip_word(sip *s, uint64_t word) {
    s->d ^= word;
    sip_round(s);
    s->a ^= word;
}

/* The octets as a little-endian number, on any machine. */
static uint64_t little_endian(const uint8_t *bytes, size_t count) {
    uint64_t word = 0;
    for (size_t i = 0; i < count; i++)
        word |= (uint64_t)bytes[i] << (8 * i);
    return word;
}

static uint64_t sip_hash(const uint64_t seed[2], const uint8_t *bytes, size_t len) {
    sip s = {seed[0] ^ UINT64_C(0x736f6d6570736575), seed[1] ^ UINT64_C(0x646f72616e646f6d),
             seed[0] ^ UINT64_C(0x6c7967656e657261), seed[1] ^ UINT64_C(0x7465646279746573)};
    size_t whole = len & ~(size_t)7;
    for (size_t i = 0; i < whole; i += 8)
        sip_word(&s, little_endian(bytes + i, 8));
    sip_word(&s, (uint64_t)len << 56 | (len == whole ? 0 : little_endian(bytes + whole, len & 7)));
    s.c ^= 0xff;
    for (int i = 0; i < 3; i++)
        sip_round(&s);
    return s.a ^ s.b ^ s.c ^ s.d;
}

uint64_t mr_rate_key_bytes(const mr_rate *rate, const void *bytes, size_t len) {
    return sip_hash(rate->seed, bytes, len);
}

uint64_t mr_rate_key_address(const mr_rate *rate, const mr_peer *peer) {
    size_t len = peer->family == 4 ? 4 : peer->family == 6 ? 8 : 0;
    /* Another function than that of key_bytes, so that no value of a field is somebody's address.
     */
    const uint64_t seed[2] = {~rate->seed[0], rate->seed[1]};
    return sip_hash(seed, peer->address, len);
}

/* -- create and destroy -- */

static bool is_valid(const mr_rate_options *o, uint32_t entries) {
    return o->per_second >= MR_RATE_PER_SECOND_MIN && o->per_second <= MR_RATE_PER_SECOND_MAX &&
           o->burst >= 1 && o->burst <= MR_RATE_BURST_MAX && entries >= MR_RATE_ENTRIES_MIN &&
           entries <= MR_RATE_ENTRIES_MAX && (entries & (entries - 1)) == 0;
}

mr_rc mr_rate_create(mr_mem *mem, const mr_rate_options *options, mr_rate **out) {
    *out = NULL;
    uint32_t entries = options->entries != 0 ? options->entries : MR_RATE_ENTRIES;
    if (!is_valid(options, entries))
        return MR_INVALID;
    size_t bytes = sizeof(mr_rate) + LINE_BYTES + (size_t)entries * sizeof(uint64_t);
    /* Fresh zeros: pages that no key falls into stay untouched. Zero is a free word. */
    mr_rate *rate = mr_mem_zalloc(mem, bytes);
    if (rate == NULL)
        return MR_NOMEM;
    uintptr_t table = ((uintptr_t)(rate + 1) + LINE_BYTES - 1) & ~(uintptr_t)(LINE_BYTES - 1);
    rate->granules_per_ns = options->per_second * (double)INTERVAL / 1e9;
    rate->ahead_max = (options->burst - 1) * INTERVAL;
    rate->bucket_mask = entries / BUCKET_WORDS - 1;
    rate->seed[0] = options->seed[0];
    rate->seed[1] = options->seed[1];
    rate->bytes = bytes;
    rate->buckets = (bucket *)table;
    *out = rate;
    return MR_OK;
}

void mr_rate_destroy(mr_mem *mem, mr_rate *rate) {
    if (rate != NULL)
        mr_mem_free(mem, rate, rate->bytes);
}

size_t mr_rate_bytes(const mr_rate *rate) { return rate->bytes; }

/* -- time -- */

/* Monotone: each step of it is, rounding included. At most 2^64 * 0.064, which fits. */
static uint64_t granules_of(const mr_rate *rate, uint64_t now_ns) {
    return (uint64_t)((double)now_ns * rate->granules_per_ns) + FIRST_GRANULE;
}

/* How long from now_ns until the clock shows `granule`. */
static uint64_t wait_ns(const mr_rate *rate, uint64_t now_ns, uint64_t granule) {
    double at_ns = (double)(granule - FIRST_GRANULE) / rate->granules_per_ns;
    if (at_ns >= 18e18) /* beyond what the clock can show: half a millennium */
        return UINT64_MAX - now_ns;
    uint64_t at = (uint64_t)at_ns > now_ns ? (uint64_t)at_ns : now_ns + 1;
    /* The quotient is rounded, and far from zero so is the clock: on by growing steps, until it is
     * right as granules_of() sees it. */
    for (uint64_t step = 1; granules_of(rate, at) < granule; step *= 2)
        at += step;
    return at - now_ns;
}

/* -- words -- */

static uint64_t tag_of(uint64_t key) {
    uint64_t tag = key >> TAG_SHIFT; /* the bucket's number is from the other end */
    return tag != 0 ? tag : 1;
}

static uint64_t make_word(uint64_t tag, uint64_t flag, uint64_t tat) {
    return tag << TAG_SHIFT | flag | (tat & TIME_MASK);
}

static uint64_t tat_of(uint64_t word, uint64_t base) { return base + ((word - base) & TIME_MASK); }

static bool replace(_Atomic uint64_t *at, uint64_t old, uint64_t new) {
    return atomic_compare_exchange_strong(at, &old, new);
}

/* Words that would fall out of the new period are freed. A word is believed only if base was still
 * the old one after it was read: nobody writes beyond the old period before base has moved. Any
 * number of threads may do this at once: the last one finds nothing left to do. */
static void rebase(mr_rate *rate, uint64_t old, uint64_t now) {
    uint64_t base = now - PERIOD / 4;
    for (uint64_t b = 0; b <= rate->bucket_mask; b++)
        for (uint32_t i = 0; i < BUCKET_WORDS; i++) {
            _Atomic uint64_t *at = &rate->buckets[b].words[i];
            uint64_t word = atomic_load(at);
            while (atomic_load(&rate->base) == old && tat_of(word, old) < base)
                if (replace(at, word, make_word(0, 0, base)))
                    break;
                else
                    word = atomic_load(at);
        }
    replace(&rate->base, old, base);
}

/* A base that suits `now`. A clock from far behind is taken forward to it. */
static uint64_t base_for(mr_rate *rate, uint64_t *now) {
    uint64_t base = atomic_load_explicit(&rate->base, memory_order_acquire);
    while (MR_UNLIKELY(*now > base + PERIOD / 2)) {
        rebase(rate, base, *now);
        base = atomic_load(&rate->base);
    }
    if (MR_UNLIKELY(*now < base))
        *now = base;
    return base;
}

/* -- one request -- */

typedef struct request {
    const mr_rate *rate;
    uint64_t tag, now, base, now_ns;
    mr_rate_verdict *verdict;
} request;

/* GCRA on one word. MR_AGAIN: the word is no longer what it was. */
static mr_rc charge(const request *r, _Atomic uint64_t *at, uint64_t word, uint64_t tag) {
    uint64_t tat = tat_of(word, r->base);
    uint64_t from = tat > r->now ? tat : r->now;
    uint64_t ahead = from - r->now;
    if (ahead > r->rate->ahead_max) {
        r->verdict->remaining = 0;
        r->verdict->retry_after_ns = wait_ns(r->rate, r->now_ns, from - r->rate->ahead_max);
        return MR_LIMIT;
    }
    if (!replace(at, word, make_word(tag, 0, from + INTERVAL)))
        return MR_AGAIN;
    r->verdict->remaining = (uint32_t)((r->rate->ahead_max - ahead) / INTERVAL);
    return MR_OK;
}

/* What a look at the bucket found: places, or NONE. */
enum { NONE = BUCKET_WORDS };
typedef struct look {
    uint32_t settled;   /* of this key */
    uint32_t tentative; /* of this key, the first */
    uint32_t free;      /* of anyone, expired */
    uint64_t words[MR_RATE_WAYS];
} look;

/* Loads are in the one total order that invariant 2 needs. */
static void look_at(const request *r, bucket *b, look *l) {
    l->settled = l->tentative = l->free = NONE;
    for (uint32_t i = 0; i < MR_RATE_WAYS; i++) {
        uint64_t word = l->words[i] = atomic_load(&b->words[i]);
        if (word >> TAG_SHIFT != r->tag) {
            if (l->free == NONE && tat_of(word, r->base) < r->now)
                l->free = i;
        } else if ((word & TENTATIVE) == 0) {
            l->settled = i;
            return;
        } else if (l->tentative == NONE) {
            l->tentative = i;
        }
    }
}

/* Takes this key's claims behind the first away. False: one of them has changed; look again. */
static bool void_others(const request *r, bucket *b, const look *l) {
    for (uint32_t i = l->tentative + 1; i < MR_RATE_WAYS; i++)
        if (l->words[i] >> TAG_SHIFT == r->tag &&
            !replace(&b->words[i], l->words[i], make_word(0, 0, tat_of(l->words[i], r->base) + 1)))
            return false;
    return true;
}

/* Each MR_AGAIN inside means that another thread got further. */
static mr_rc take_in(const request *r, bucket *b) {
    look l;
    uint32_t claim_at = NONE; /* the claim that stood before this look began */
    uint64_t claim = 0;
    for (;;) {
        mr_rc rc = MR_AGAIN;
        look_at(r, b, &l);
        if (MR_LIKELY(l.settled != NONE)) {
            rc = charge(r, &b->words[l.settled], l.words[l.settled], r->tag);
        } else if (l.tentative != NONE) {
            if (l.tentative == claim_at && l.words[l.tentative] == claim) {
                if (void_others(r, b, &l))
                    rc = charge(r, &b->words[claim_at], claim, r->tag);
            } else {
                claim_at = l.tentative;
                claim = l.words[claim_at];
            }
        } else if (l.free != NONE) {
            /* Dated now, so it is nobody's to take again within this granule. */
            claim = make_word(r->tag, TENTATIVE, r->now);
            claim_at = replace(&b->words[l.free], l.words[l.free], claim) ? l.free : NONE;
        } else {
            r->verdict->is_shared = true;
            rc = charge(r, &b->words[SHARED_WORD], atomic_load(&b->words[SHARED_WORD]), 0);
        }
        if (rc != MR_AGAIN)
            return rc;
    }
}

mr_rc mr_rate_take(mr_rate *rate, uint64_t key, uint64_t now_ns, mr_rate_verdict *verdict) {
    *verdict = (mr_rate_verdict){0};
    request r = {.rate = rate,
                 .tag = tag_of(key),
                 .now = granules_of(rate, now_ns),
                 .now_ns = now_ns,
                 .verdict = verdict};
    r.base = base_for(rate, &r.now);
    return take_in(&r, &rate->buckets[key & rate->bucket_mask]);
}
