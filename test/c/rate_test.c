/* rate_test.c -- the rate limit in one thread: against a model, at its bounds, over years. */
/* link: base/mem.c */
#include "engine/rate.c"
#include <math.h>

/* 15,625 a second: an interval of 64,000 ns, so that a granule is 1000 ns and the model is exact.
 */
#define EXACT_RATE 15625.0
#define GRANULE_NS UINT64_C(1000)
#define INTERVAL_NS (INTERVAL * GRANULE_NS)

static uint64_t random_state = 1;
static uint64_t roll(uint64_t below) {
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (random_state >> 33) % below;
}

static mr_mem mem;

static mr_rate *make(double per_second, uint32_t burst, uint32_t entries) {
    mr_rate *rate = NULL;
    const mr_rate_options options = {
        .per_second = per_second, .burst = burst, .entries = entries, .seed = {1, 2}};
    MR_ASSERT(mr_rate_create(&mem, &options, &rate) == MR_OK && rate != NULL);
    return rate;
}

static void drop(mr_rate *rate) {
    mr_rate_destroy(&mem, rate);
    MR_ASSERT(mem.used_bytes == 0);
}

/* A key of a certain bucket; the number tells it from others. */
static uint64_t key_in(uint64_t bucket_number, uint64_t number) {
    return number << TAG_SHIFT | bucket_number;
}

static bool admits(mr_rate *rate, uint64_t key, uint64_t now_ns) {
    mr_rate_verdict verdict;
    mr_rc rc = mr_rate_take(rate, key, now_ns, &verdict);
    MR_ASSERT(rc == MR_OK || rc == MR_LIMIT);
    MR_ASSERT((rc == MR_LIMIT) == (verdict.retry_after_ns != 0));
    return rc == MR_OK;
}

/* How many are admitted at one instant; `shared` says how many verdicts were. */
static uint32_t admitted(mr_rate *rate, uint64_t key, uint64_t now_ns, uint32_t *shared) {
    mr_rate_verdict verdict;
    uint32_t count = 0;
    *shared = 0;
    for (;; count++) {
        mr_rc rc = mr_rate_take(rate, key, now_ns, &verdict);
        *shared += verdict.is_shared;
        if (rc == MR_LIMIT)
            return count;
        MR_ASSERT(rc == MR_OK);
    }
}

static void options_have_ranges(void) {
    const double past = 1.0000001;
    const mr_rate_options good = {.per_second = 1, .burst = 1};
    struct {
        double per_second;
        uint32_t burst, entries;
        mr_rc rc;
    } cases[] = {
        {MR_RATE_PER_SECOND_MIN, 1, 64, MR_OK},
        {MR_RATE_PER_SECOND_MIN / past, 1, 64, MR_INVALID},
        {MR_RATE_PER_SECOND_MAX, 1, 64, MR_OK},
        {MR_RATE_PER_SECOND_MAX * past, 1, 64, MR_INVALID},
        {0, 1, 64, MR_INVALID},
        {-1, 1, 64, MR_INVALID},
        {(double)NAN, 1, 64, MR_INVALID},
        {(double)INFINITY, 1, 64, MR_INVALID},
        {1, 0, 64, MR_INVALID},
        {1, MR_RATE_BURST_MAX, 64, MR_OK},
        {1, MR_RATE_BURST_MAX + 1, 64, MR_INVALID},
        {1, 1, MR_RATE_ENTRIES_MIN / 2, MR_INVALID},
        {1, 1, 96, MR_INVALID},
        {1, 1, MR_RATE_ENTRIES_MAX * 2, MR_INVALID},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mr_rate *rate = (mr_rate *)1;
        mr_rate_options options = {cases[i].per_second, cases[i].burst, cases[i].entries, {0, 0}};
        MR_ASSERT(mr_rate_create(&mem, &options, &rate) == cases[i].rc);
        MR_ASSERT((rate != NULL) == (cases[i].rc == MR_OK));
        drop(rate);
    }
    mr_rate *rate = NULL;
    MR_ASSERT(mr_rate_create(&mem, &good, &rate) == MR_OK);
    MR_ASSERT(mr_rate_bytes(rate) == mem.used_bytes);
    MR_ASSERT(mem.used_bytes >= 65536 * 8 && mem.used_bytes < 65536 * 8 + 512);
    MR_ASSERT((uintptr_t)rate->buckets % LINE_BYTES == 0);
    MR_ASSERT((uintptr_t)(rate->buckets + 8192) <= (uintptr_t)rate + rate->bytes);
    drop(rate);
    mem.fail_after = -1;
    rate = (mr_rate *)1;
    MR_ASSERT(mr_rate_create(&mem, &good, &rate) == MR_NOMEM && rate == NULL);
    mem.fail_after = 0;
    drop(NULL);
}

/* Against another implementation of SipHash-1-3 (the one of CPython's hash(), with a zero seed). */
static void hashes_as_others_do(void) {
    const uint64_t zero[2] = {0, 0};
    char sixty_three[63];
    memset(sixty_three, 'x', sizeof sixty_three);
    MR_ASSERT(sip_hash(zero, (const uint8_t *)"a", 1) == UINT64_C(0x407448d2b89b1813));
    MR_ASSERT(sip_hash(zero, (const uint8_t *)"abcdefg", 7) == UINT64_C(0x6db12aae9070f506));
    MR_ASSERT(sip_hash(zero, (const uint8_t *)"abcdefgh", 8) == UINT64_C(0x3f7b849c0b8e35ea));
    MR_ASSERT(sip_hash(zero, (const uint8_t *)"abcdefghi", 9) == UINT64_C(0xf89b34a3d11eb6e5));
    MR_ASSERT(sip_hash(zero, (const uint8_t *)sixty_three, 63) == UINT64_C(0x1c308a9f11b6a742));
}

static void keys_tell_clients_apart(void) {
    mr_rate *rate = make(1, 1, 64);
    mr_peer a = {.family = 4, .address = {192, 0, 2, 1}, .port = 1};
    mr_peer b = a;
    b.port = 2;
    b.address[4] = 9; /* not part of an IPv4 address */
    MR_ASSERT(mr_rate_key_address(rate, &a) == mr_rate_key_address(rate, &b));
    for (int i = 0; i < 4; i++) {
        b = a;
        b.address[i] ^= 1;
        MR_ASSERT(mr_rate_key_address(rate, &a) != mr_rate_key_address(rate, &b));
    }
    a = (mr_peer){.family = 6, .address = {0x20, 1, 0xd, 0xb8, 1, 2, 3, 4, 5, 6}};
    for (int i = 0; i < 16; i++) {
        b = a;
        b.address[i] ^= 1;
        bool same = mr_rate_key_address(rate, &a) == mr_rate_key_address(rate, &b);
        MR_ASSERT(same == (i >= 8)); /* the same /64, and another */
    }
    const mr_peer none = {.family = 0, .address = {7}}, four = {.family = 4}, six = {.family = 6};
    uint64_t keys[] = {mr_rate_key_address(rate, &none), mr_rate_key_address(rate, &four),
                       mr_rate_key_address(rate, &six), mr_rate_key_bytes(rate, NULL, 0),
                       mr_rate_key_bytes(rate, "\0\0\0", 4)};
    for (size_t i = 0; i < 5; i++)
        for (size_t j = 0; j < i; j++)
            MR_ASSERT(keys[i] != keys[j]);
    drop(rate);
    mr_rate_options options = {.per_second = 1, .burst = 1, .entries = 64, .seed = {1, 3}};
    MR_ASSERT(mr_rate_create(&mem, &options, &rate) == MR_OK);
    MR_ASSERT(mr_rate_key_address(rate, &none) != keys[0]);
    MR_ASSERT(mr_rate_key_bytes(rate, NULL, 0) != keys[3]);
    drop(rate);
}

static void burst_then_rate(void) {
    static const uint32_t bursts[] = {1, 2, 20, 1000};
    for (size_t i = 0; i < sizeof bursts / sizeof *bursts; i++) {
        mr_rate *rate = make(EXACT_RATE, bursts[i], 64);
        uint32_t shared;
        uint64_t now = i * 123456789; /* 0 among them */
        MR_ASSERT(admitted(rate, 5, now, &shared) == bursts[i] && shared == 0);
        for (int n = 0; n < 100; n++) {
            now += INTERVAL_NS;
            MR_ASSERT(!admits(rate, 5, now - GRANULE_NS));
            MR_ASSERT(admits(rate, 5, now) && !admits(rate, 5, now));
        }
        now += bursts[i] * INTERVAL_NS - GRANULE_NS;
        MR_ASSERT(admitted(rate, 5, now, &shared) == bursts[i] - 1);
        now += 1000 * bursts[i] * INTERVAL_NS; /* what is not used does not add up */
        MR_ASSERT(admitted(rate, 5, now, &shared) == bursts[i]);
        drop(rate);
    }
}

/* The model is a bucket of tokens, counted in granules. */
static void agrees_with_the_model(void) {
    enum { KEYS = 200, BURST = 5 };
    static uint64_t level[KEYS], seen[KEYS];
    mr_rate *rate = make(EXACT_RATE, BURST, 4096);
    uint64_t now = 0;
    for (int k = 0; k < KEYS; k++)
        level[k] = BURST * INTERVAL;
    for (int n = 0; n < 400000; n++) {
        now += roll(8) == 0 ? roll(20) : 0;
        uint64_t k = roll(2) == 0 ? roll(4) : roll(KEYS); /* a few are busy */
        uint64_t full = BURST * INTERVAL, gained = level[k] + (now - seen[k]);
        level[k] = gained < full ? gained : full;
        seen[k] = now;
        mr_rate_verdict verdict;
        uint64_t key = key_in(k % 512, k + 1);
        mr_rc rc = mr_rate_take(rate, key, now * GRANULE_NS + roll(GRANULE_NS), &verdict);
        MR_ASSERT(!verdict.is_shared);
        MR_ASSERT(rc == (level[k] >= INTERVAL ? MR_OK : MR_LIMIT));
        level[k] -= rc == MR_OK ? INTERVAL : 0;
        MR_ASSERT(verdict.remaining == level[k] / INTERVAL);
    }
    drop(rate);
}

static void retry_after_is_right(void) {
    static const double rates[] = {1e-6, 1.0 / 60, 0.3, 1, 3, 7.77, 1000, 99999.9, 1e6};
    static const uint64_t times[] = {0, 1, 999999937, UINT64_C(86400000000000),
                                     UINT64_C(3153600000000000001)};
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++)
        for (size_t t = 0; t < sizeof times / sizeof *times; t++) {
            uint32_t burst = (uint32_t)(1 + i % 3), shared;
            mr_rate *rate = make(rates[i], burst, 64);
            uint64_t now = times[t];
            MR_ASSERT(admitted(rate, 9, now, &shared) == burst);
            for (int n = 0; n < 20; n++) {
                mr_rate_verdict verdict;
                MR_ASSERT(mr_rate_take(rate, 9, now, &verdict) == MR_LIMIT);
                uint64_t wait = verdict.retry_after_ns;
                double granule = 1e9 / rates[i] / (double)INTERVAL;
                MR_ASSERT((double)wait <= 1e9 / rates[i] + granule + 4096);
                /* A little earlier is too early: a granule, and what a double loses this late. */
                uint64_t early = (uint64_t)granule + 4096;
                if (early < wait)
                    MR_ASSERT(!admits(rate, 9, now + wait - early));
                now += wait;
                MR_ASSERT(admits(rate, 9, now));
                now += n % 2 == 0 ? roll(1000) : 0;
                if (admits(rate, 9, now))
                    MR_ASSERT(rates[i] >= 99999 || t == 4);
            }
            drop(rate);
        }
}

static void years_go_by(void) {
    /* A granule of 1000 ns: the words' 43 bits come round every 8,796,093 seconds. */
    const uint64_t period_ns = PERIOD * GRANULE_NS;
    const uint64_t steps[] = {
        period_ns,       period_ns + 1,          period_ns - GRANULE_NS, period_ns / 2,
        period_ns / 4,   3 * period_ns / 4,      period_ns / 2 + 999,    7 * period_ns,
        100 * period_ns, 3 * INTERVAL_NS + 1000, 300 * period_ns + 123,  period_ns / 2 - 1000};
    mr_rate *rate = make(EXACT_RATE, 3, 64);
    uint64_t now = 0;
    uint32_t shared;
    for (int round = 0; round < 3; round++)
        for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
            /* (The double behind the granules is good for half a microsecond this late.)
             * One key that stays away for the whole step, and a bucket full of them. */
            for (uint64_t k = 1; k <= MR_RATE_WAYS + 1; k++)
                MR_ASSERT(admitted(rate, key_in(1, k), now, &shared) == 3);
            MR_ASSERT(shared == 4);
            now += steps[i];
        }
    MR_ASSERT(admitted(rate, key_in(1, 1), UINT64_MAX, &shared) == 3);
    drop(rate);
}

/* Moving the base on must neither forget who has used up his budget nor bring anything back. */
static void rebase_keeps_live_entries(void) {
    mr_rate *rate = make(EXACT_RATE, 1000, 64);
    const uint64_t half_ns = PERIOD / 2 * GRANULE_NS;
    uint32_t shared;
    MR_ASSERT(admitted(rate, key_in(2, 1), 0, &shared) == 1000); /* left to expire */
    MR_ASSERT(admitted(rate, key_in(2, 2), half_ns - 2 * INTERVAL_NS, &shared) == 1000);
    MR_ASSERT(atomic_load(&rate->base) == 0);
    MR_ASSERT(admitted(rate, key_in(2, 2), half_ns, &shared) == 2);
    MR_ASSERT(admitted(rate, key_in(2, 3), half_ns, &shared) == 1000);
    MR_ASSERT(atomic_load(&rate->base) != 0);
    MR_ASSERT(admitted(rate, key_in(2, 2), half_ns, &shared) == 0);
    MR_ASSERT(rate->buckets[2].words[0] >> TAG_SHIFT != 1); /* freed, or another's */
    MR_ASSERT(admitted(rate, key_in(2, 2), half_ns + 5 * INTERVAL_NS, &shared) == 5);
    drop(rate);
}

static void a_clock_from_behind_is_stricter(void) {
    mr_rate *rate = make(EXACT_RATE, 4, 64);
    const uint64_t year = UINT64_C(31536000000000000);
    uint32_t shared;
    MR_ASSERT(admitted(rate, 3, year, &shared) == 4);
    MR_ASSERT(!admits(rate, 3, year - 1) && !admits(rate, 3, year - 10 * INTERVAL_NS));
    MR_ASSERT(!admits(rate, 3, year / 2) && !admits(rate, 3, 0));
    MR_ASSERT(admitted(rate, 3, year + INTERVAL_NS, &shared) == 1);
    MR_ASSERT(admitted(rate, 4, 0, &shared) <= 4);
    drop(rate);
}

static void a_full_bucket_shares(void) {
    mr_rate *rate = make(EXACT_RATE, 3, 64);
    uint32_t shared;
    for (uint64_t k = 1; k <= MR_RATE_WAYS; k++)
        MR_ASSERT(admitted(rate, key_in(6, k), 0, &shared) == 3 && shared == 0);
    mr_rate_verdict verdict; /* one past the bound */
    MR_ASSERT(mr_rate_take(rate, key_in(6, 8), 0, &verdict) == MR_OK && verdict.is_shared);
    MR_ASSERT(verdict.remaining == 2);
    /* Two more keys, one budget. */
    MR_ASSERT(mr_rate_take(rate, key_in(6, 9), 0, &verdict) == MR_OK && verdict.is_shared);
    MR_ASSERT(mr_rate_take(rate, key_in(6, 8), 0, &verdict) == MR_OK && verdict.is_shared);
    MR_ASSERT(mr_rate_take(rate, key_in(6, 10), 0, &verdict) == MR_LIMIT && verdict.is_shared);
    MR_ASSERT(verdict.retry_after_ns == INTERVAL_NS);
    /* Those with an entry do not notice, nor do other buckets. */
    MR_ASSERT(admitted(rate, key_in(6, 7), INTERVAL_NS, &shared) == 1 && shared == 0);
    MR_ASSERT(admitted(rate, key_in(7, 8), 0, &shared) == 3 && shared == 0);
    /* The six that made no request are free once their time has passed, not at it. */
    MR_ASSERT(mr_rate_take(rate, key_in(6, 8), 3 * INTERVAL_NS, &verdict) == MR_OK);
    MR_ASSERT(verdict.is_shared);
    uint64_t later = 3 * INTERVAL_NS + GRANULE_NS;
    for (uint64_t k = 8; k < 14; k++)
        MR_ASSERT(admitted(rate, key_in(6, k), later, &shared) == 3 && shared == 0);
    MR_ASSERT(admits(rate, key_in(6, 14), later));
    MR_ASSERT(rate->buckets[6].words[6] >> TAG_SHIFT == 7);
    drop(rate);
}

/* Claims that a thread left behind at any point: the next one brings them to an end. */
static void claims_are_settled_by_anyone(void) {
    mr_rate *rate = make(EXACT_RATE, 2, 64);
    _Atomic uint64_t *words = rate->buckets[0].words;
    uint64_t now = FIRST_GRANULE + 1000, now_ns = 1000 * GRANULE_NS;
    uint32_t shared;
    atomic_store(&words[2], make_word(1, TENTATIVE, now));
    atomic_store(&words[4], make_word(1, TENTATIVE, now));
    MR_ASSERT(admitted(rate, key_in(0, 1), now_ns, &shared) == 2);
    MR_ASSERT(atomic_load(&words[2]) == make_word(1, 0, now + 2 * INTERVAL));
    MR_ASSERT(atomic_load(&words[4]) == make_word(0, 0, now + 1));
    /* A settled word wins, wherever it stands; the claim is anyone's in the next granule. */
    atomic_store(&words[0], make_word(1, TENTATIVE, now));
    MR_ASSERT(admitted(rate, key_in(0, 1), now_ns, &shared) == 0);
    MR_ASSERT(admitted(rate, key_in(0, 2), now_ns + GRANULE_NS, &shared) == 2 && shared == 0);
    MR_ASSERT(atomic_load(&words[0]) >> TAG_SHIFT == 2);
    drop(rate);
}

static void tag_zero_is_a_key_too(void) {
    mr_rate *rate = make(EXACT_RATE, 2, 64);
    uint32_t shared;
    MR_ASSERT(admitted(rate, 0, 0, &shared) == 2 && shared == 0);
    MR_ASSERT(admitted(rate, 0, 0, &shared) == 0);
    drop(rate);
}

int main(void) {
    options_have_ranges();
    hashes_as_others_do();
    keys_tell_clients_apart();
    burst_then_rate();
    agrees_with_the_model();
    retry_after_is_right();
    years_go_by();
    rebase_keeps_live_entries();
    a_clock_from_behind_is_stricter();
    a_full_bucket_shares();
    claims_are_settled_by_anyone();
    tag_zero_is_a_key_too();
    return 0;
}
