/* ws_utf8_test.c -- every scanner of this machine against a verdict of the test's own (a decoder of
 * whole code points, written from the table of RFC 3629 3), whole, cut and octet by octet. */
#include "proto/ws_utf8.c"
#include "proto/ws_utf8_avx2.c"
#include "proto/ws_utf8_neon.c"
#include "proto/ws_utf8_sse2.c"
#include <stdio.h>
#include <stdlib.h>

#define CHECK(claim)                                                                               \
    do {                                                                                           \
        if (!(claim)) {                                                                            \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #claim);                            \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

enum { LONGEST = 400 };

static const char *const names[] = {"scalar", "sse2", "avx2", "neon"};
static const mr_ws_utf8_scan *found[4];
static size_t found_count;

typedef struct verdict {
    size_t stop; /* first bad octet, or the length */
    bool is_whole;
} verdict;

/* ---- the other way to say it ---- */

/* Whether some code point has an encoding that begins with these octets: asked of the smallest and
 * the largest code point that they leave open. */
static bool can_begin(const uint8_t *p, size_t len, bool *is_complete) {
    static const uint32_t smallest[5] = {0, 0, 0x80, 0x800, 0x10000};
    size_t size = p[0] < 0x80       ? 1
                  : p[0] >> 5 == 6  ? 2
                  : p[0] >> 4 == 14 ? 3
                  : p[0] >> 3 == 30 ? 4
                                    : 0;
    if (size == 0)
        return false;
    uint32_t low = size == 1 ? p[0] : p[0] & (0x7fu >> size);
    for (size_t i = 1; i < len; i++) {
        if (p[i] >> 6 != 2)
            return false;
        low = low << 6 | (p[i] & 0x3fu);
    }
    uint32_t open = (uint32_t)(6 * (size - len)), high = ((low + 1) << open) - 1;
    low <<= open;
    *is_complete = len == size;
    return high >= smallest[size] && low <= 0x10ffff && !(low >= 0xd800 && high <= 0xdfff);
}

static verdict expect(const uint8_t *bytes, size_t len) {
    size_t start = 0;
    bool is_complete = true;
    for (size_t i = 0; i < len; i++) {
        if (is_complete)
            start = i;
        if (!can_begin(bytes + start, i + 1 - start, &is_complete))
            return (verdict){i, start == i};
    }
    return (verdict){len, is_complete};
}

/* ---- feeding ---- */

/* In a block of its exact size, so that a read behind or before it shows. */
static size_t take_copy(const mr_ws_utf8_scan *scan, mr_ws_utf8 *state, const uint8_t *bytes,
                        size_t len) {
    uint8_t *copy = malloc(len > 0 ? len : 1);
    CHECK(copy != NULL);
    if (len > 0)
        memcpy(copy, bytes, len);
    size_t stop = mr_ws_utf8_take(scan, state, copy, len);
    free(copy);
    return stop;
}

static void check_cut(const mr_ws_utf8_scan *scan, const uint8_t *bytes, size_t len, size_t first,
                      size_t step, verdict want) {
    mr_ws_utf8 state = {0};
    size_t at = 0, piece = first;
    while (at < len) {
        if (piece > len - at)
            piece = len - at;
        size_t stop = take_copy(scan, &state, bytes + at, piece);
        CHECK(stop <= piece && (want.stop >= at + piece ? stop == piece : stop == want.stop - at));
        at += stop;
        if (stop < piece)
            break;
        piece = step;
    }
    CHECK(at == want.stop);
    CHECK(mr_ws_utf8_is_whole(&state) == (want.stop < len ? state.need == 0 : want.is_whole));
}

static void check_whole(const uint8_t *bytes, size_t len) {
    verdict want = expect(bytes, len);
    for (size_t s = 0; s < found_count; s++)
        check_cut(found[s], bytes, len, len, len, want);
}

static void check_all_ways(const uint8_t *bytes, size_t len) {
    verdict want = expect(bytes, len);
    for (size_t s = 0; s < found_count; s++) {
        check_cut(found[s], bytes, len, 1, 1, want);
        check_cut(found[s], bytes, len, 70, 70, want);
        for (size_t cut = 0; cut <= len; cut++)
            check_cut(found[s], bytes, len, cut > 0 ? cut : len, len, want);
    }
}

/* ---- what is looked at ---- */

/* Every sequence of up to three octets stands where a scanner sees it: behind text and before text,
 * across the edge between two of its steps. */
static void all_short_sequences(void) {
    uint8_t text[192];
    const mr_ws_utf8 zero = {0};
    memset(text, 'a', sizeof text);
    for (unsigned n = 0; n < 0x1000000; n++) {
        uint8_t *p = text + 126; /* over the edge at 3 + 64 + 64 - 3 too */
        /* Third octets in one class behave alike: only the edges of the classes, except behind the
         * leads whose second octet decides. */
        uint8_t a = (uint8_t)(n >> 16), b = (uint8_t)(n >> 8), c = (uint8_t)n;
        if ((c & 0x3f) != 0 && (c & 0x3f) != 0x3f && c != 0x90 && c != 0x8f && c != 0xc1 &&
            c != 0xc2 && c != 0xf4 && c != 0xf5 && c != 0xed)
            continue;
        p[3] = a, p[4] = b, p[5] = c;
        verdict want = expect(p + 3, 6);
        for (size_t s = 0; s < found_count; s++) {
            mr_ws_utf8 state = zero;
            CHECK(mr_ws_utf8_take(found[s], &state, text, sizeof text) ==
                  (want.stop < 6 ? 129 + want.stop : sizeof text));
        }
    }
}

static void all_alone(void) {
    for (unsigned n = 0; n < 256; n++)
        check_all_ways((const uint8_t[]){(uint8_t)n}, 1);
    for (unsigned n = 0; n < 0x10000; n++)
        check_whole((const uint8_t[]){(uint8_t)(n >> 8), (uint8_t)n}, 2);
    mr_ws_utf8 state;
    for (unsigned n = 0; n < 0x1000000; n++) {
        const uint8_t three[3] = {(uint8_t)(n >> 16), (uint8_t)(n >> 8), (uint8_t)n};
        verdict want = expect(three, 3);
        state = (mr_ws_utf8){0};
        CHECK(mr_ws_utf8_take(&mr_ws_utf8_scalar, &state, three, 3) == want.stop);
        CHECK(want.stop < 3 || mr_ws_utf8_is_whole(&state) == want.is_whole);
    }
}

/* Octets at the edges of every range of RFC 3629, all sequences of four. */
static void four_octet_edges(void) {
    static const uint8_t leads[] = {0x7f, 0xbf, 0xe0, 0xec, 0xed, 0xee, 0xef, 0xf0,
                                    0xf1, 0xf3, 0xf4, 0xf5, 0xf7, 0xf8, 0xff};
    static const uint8_t others[] = {0x00, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0,
                                     0xbf, 0xc0, 0xc2, 0xe1, 0xf1, 0xff};
    enum { OTHERS = sizeof others };
    uint8_t text[LONGEST];
    memset(text, 'a', sizeof text);
    for (size_t n = 0; n < sizeof leads * OTHERS * OTHERS * OTHERS; n++) {
        const uint8_t four[4] = {leads[n / (OTHERS * OTHERS * OTHERS)],
                                 others[n / (OTHERS * OTHERS) % OTHERS],
                                 others[n / OTHERS % OTHERS], others[n % OTHERS]};
        check_whole(four, 4);
        size_t place = 60 + n % 12; /* in front of, over and behind the edge of a step */
        memcpy(text + place, four, 4);
        check_whole(text, 150);
        memset(text + place, 'a', 4);
    }
}

static uint32_t next_random(uint32_t *seed) {
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

static size_t put_code_point(uint8_t *out, uint32_t c) {
    size_t size = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = size; i-- > 1; c >>= 6)
        out[i] = (uint8_t)(0x80 | (c & 0x3f));
    out[0] = (uint8_t)(size == 1 ? c : (0xf00u >> size & 0xff) | c);
    return size;
}

/* Texts of `widths` sizes of characters, long enough for several steps, good and with a few octets
 * changed or cut off. */
static void random_texts(void) {
    static const uint32_t tops[4] = {0x80, 0x800, 0x10000, 0x110000};
    uint32_t seed = 2024;
    uint8_t text[LONGEST + 4];
    for (int round = 0; round < 60000; round++) {
        size_t len = 0, end = next_random(&seed) % LONGEST;
        unsigned widths = 1 + next_random(&seed) % 4;
        while (len < end) {
            uint32_t c = next_random(&seed) % tops[next_random(&seed) % widths];
            if (c >= 0xd800 && c < 0xe000)
                c = 'x';
            len += put_code_point(text + len, c);
        }
        mr_ws_utf8 state = {0};
        CHECK(mr_ws_utf8_take(mr_ws_utf8_best(), &state, text, len) == len && state.need == 0);
        for (unsigned changes = next_random(&seed) % 3; changes > 0 && len > 0; changes--)
            text[next_random(&seed) % len] = (uint8_t)next_random(&seed);
        if (len > 0)
            len -= next_random(&seed) % (len < 4 ? len : 4);
        if (round % 300 == 0)
            check_all_ways(text, len);
        else
            check_whole(text, len);
    }
}

/* A text that is cut off at the end of a step, with nothing but ASCII behind: both looks at a block
 * must see it. */
static void cut_at_steps(void) {
    static const char *const cut[] = {"\xc3",         "\xe2\x82", "\xe2",
                                      "\xf0\x9f\x98", "\xf0\x9f", "\xf0"};
    uint8_t text[LONGEST];
    for (size_t i = 0; i < sizeof cut / sizeof cut[0]; i++)
        for (size_t end = 3; end < 200; end++) {
            size_t len = strlen(cut[i]);
            memset(text, 'a', sizeof text);
            memcpy(text + end - len, cut[i], len);
            check_whole(text, end);
            check_whole(text, end + 130);
            memcpy(text, "\xc3\xa4\xe2\x82\xac", 5);
            check_whole(text, end + 130);
        }
}

static void skips_for_sure(void) {
    uint8_t text[3 + 640];
    for (size_t i = 0; i < sizeof text - 1; i += 2)
        memcpy(text + i + 1, "\xc3\xa4", 2);
    text[0] = 'a';
    for (size_t s = 0; s < found_count; s++) /* no scanner but the twin leaves all to step() */
        CHECK(found[s]->skip(text, 3, sizeof text) ==
              (found[s] == &mr_ws_utf8_scalar ? 3 : sizeof text));
}

int main(void) {
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (mr_ws_utf8_named(names[i]) != NULL)
            found[found_count++] = mr_ws_utf8_named(names[i]);
    CHECK(found_count > 0 && mr_ws_utf8_named("none") == NULL);
    CHECK(mr_ws_utf8_best() == found[found_count - 1]);
    skips_for_sure();
    all_alone();
    all_short_sequences();
    four_octet_edges();
    cut_at_steps();
    random_texts();
    printf("%zu scanners agree\n", found_count);
    return 0;
}
