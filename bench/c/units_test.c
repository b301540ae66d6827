/* units_test.c -- the histogram and the response reader, apart from the generator. Run by
 * selftest.mjs; prints what went wrong and exits 1. */
#define _GNU_SOURCE /* before the first system header, as response.c wants it */
#include "hist.c"
#include "response.c"

#include <stdio.h>
#include <stdlib.h>

static int failures;

#define CHECK(claim)                                                                               \
    do {                                                                                           \
        if (!(claim)) {                                                                            \
            printf("%s:%d: %s\n", __FILE__, __LINE__, #claim);                                     \
            failures++;                                                                            \
        }                                                                                          \
    } while (0)

static mr_hist hist;

static void test_every_size_is_within_its_step(void) {
    for (uint64_t value = 1; value < 1ull << 62; value += value / 3 + 1) {
        uint64_t shown = value_of(slot_of(value));
        uint64_t off = shown > value ? shown - value : value - shown;
        CHECK(off <= value / 128);
        CHECK(slot_of(value) < MR_HIST_SLOTS);
    }
    CHECK(slot_of(UINT64_MAX) < MR_HIST_SLOTS);
}

static void test_quantiles(void) {
    mr_hist_reset(&hist);
    CHECK(mr_hist_quantile(&hist, 0.5) == 0);
    for (uint64_t i = 1; i <= 100000; i++)
        mr_hist_add(&hist, i * 1000);
    uint64_t half = mr_hist_quantile(&hist, 0.5);
    uint64_t most = mr_hist_quantile(&hist, 0.99);
    CHECK(half > 49700000 && half < 50300000);
    CHECK(most > 98400000 && most < 99600000);
    CHECK(mr_hist_quantile(&hist, 1) == hist.max_ns && hist.max_ns == 100000000);
    CHECK(hist.count == 100000);
}

typedef struct sample {
    const char *bytes;
    const char *body; /* NULL: malformed */
    bool needs_eof;
} sample;

static const sample samples[] = {
    {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "hello", false},
    {"HTTP/1.1 200 OK\r\nDate: Thu\r\nContent-Length: 0\r\n\r\n", "", false},
    {"HTTP/1.1 204 No Content\r\n\r\n", "", false},
    {"HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\n\r\n",
     "hello", false},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nA\r\n0123456789\r\n0\r\nT: 1\r\n\r\n",
     "0123456789", false},
    {"HTTP/1.0 200 OK\r\nServer: x\r\n\r\nhello", "hello", true},
    {"HTTP/1.1 200 OK\r\nContent-Length: five\r\n\r\n", NULL, false},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", NULL, false},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n", NULL, false},
    {"HTPT/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", NULL, false},
    {"HTTP/1.1 100 Continue\r\n\r\n", NULL, false},
};

/* A prefix must never be taken for the whole, nor read past its end: each is a heap block of its
 * exact length, for the address sanitizer. */
static void try_sample(mr_response_cache *cache, const sample *s) {
    size_t size = strlen(s->bytes);
    mr_response r;
    for (size_t cut = 0; cut <= size; cut++) {
        uint8_t *copy = malloc(cut + (cut == 0));
        memcpy(copy, s->bytes, cut);
        bool at_eof = s->needs_eof && cut == size;
        mr_response_rc rc = mr_response_parse(cache, copy, cut, at_eof, &r);
        if (s->body != NULL)
            CHECK(rc == (cut == size ? MR_RESPONSE_DONE : MR_RESPONSE_MORE));
        else if (cut == size)
            CHECK(rc == MR_RESPONSE_BAD);
        if (s->body != NULL && rc == MR_RESPONSE_DONE) {
            CHECK(r.total_bytes == size);
            CHECK(mr_response_body_is(&r, copy, s->body, strlen(s->body)));
            CHECK(!mr_response_body_is(&r, copy, "other", 5));
        }
        free(copy);
    }
}

static void test_responses_split_everywhere(void) {
    mr_response_cache shared = {.date_at = 0};
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
        mr_response_cache own = {.date_at = 0};
        try_sample(&own, &samples[i]);
        try_sample(&own, &samples[i]);
        try_sample(&shared, &samples[i]);
    }
}

static void test_the_cache_sees_every_change_but_the_date(void) {
    static const char first[] = "HTTP/1.1 200 OK\r\nDate: A\r\nContent-Length: 1\r\n\r\nx";
    static const char dated[] = "HTTP/1.1 200 OK\r\nDate: B\r\nContent-Length: 1\r\n\r\ny";
    static const char other[] = "HTTP/1.1 500 OK\r\nDate: B\r\nContent-Length: 1\r\n\r\ny";
    static const char longer[] = "HTTP/1.1 200 OK\r\nDate: A\r\nContent-Length: 2\r\n\r\nxy";
    const char *all[] = {first, dated, other, longer};
    mr_response_cache cache = {.date_at = 0};
    mr_response r;
    for (size_t i = 0; i < 4; i++) {
        const uint8_t *p = (const uint8_t *)all[i];
        CHECK(mr_response_parse(&cache, p, strlen(all[i]), false, &r) == MR_RESPONSE_DONE);
        CHECK(r.status == (i == 2 ? 500 : 200));
        CHECK(r.body_bytes == (i == 3 ? 2u : 1u));
        CHECK(r.total_bytes == strlen(all[i]));
    }
}

int main(void) {
    test_every_size_is_within_its_step();
    test_quantiles();
    test_responses_split_everywhere();
    test_the_cache_sees_every_change_but_the_date();
    return failures > 0 ? 1 : 0;
}
