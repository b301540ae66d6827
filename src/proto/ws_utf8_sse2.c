/* ws_utf8_sse2.c -- UTF-8 for every x86-64: 16 octets at a step. SSE2 cannot look octets up in a
 * table, so the ranges of RFC 3629 are compared one by one. */
#include "proto/ws_utf8.h"

#if defined(__x86_64__)

#include <emmintrin.h>

#define UTF8_NAME(f) utf8_sse2_##f
#define UTF8_TARGET

static inline __m128i utf8_sse2_load(const uint8_t *p) { return _mm_loadu_si128((const void *)p); }

static inline __m128i utf8_sse2_all(uint8_t octet) { return _mm_set1_epi8((char)octet); }

static inline __m128i utf8_sse2_is(__m128i v, uint8_t octet) {
    return _mm_cmpeq_epi8(v, utf8_sse2_all(octet));
}

/* Unsigned v >= octet; SSE2 compares signed octets only. */
static inline __m128i utf8_sse2_from(__m128i v, uint8_t octet) {
    return _mm_cmpeq_epi8(_mm_max_epu8(v, utf8_sse2_all(octet)), v);
}

/* Second octets that their lead does not allow. Only asked of continuations: the rest is wrong
 * already. */
static inline __m128i utf8_sse2_bad_second(__m128i lead, __m128i v) {
    __m128i from_90 = utf8_sse2_from(v, 0x90), from_a0 = utf8_sse2_from(v, 0xa0);
    __m128i overlong = _mm_or_si128(_mm_andnot_si128(from_a0, utf8_sse2_is(lead, 0xe0)),
                                    _mm_andnot_si128(from_90, utf8_sse2_is(lead, 0xf0)));
    __m128i beyond = _mm_or_si128(_mm_and_si128(from_a0, utf8_sse2_is(lead, 0xed)),
                                  _mm_and_si128(from_90, utf8_sse2_is(lead, 0xf4)));
    return _mm_or_si128(overlong, beyond);
}

static inline __m128i utf8_sse2_errors(const uint8_t *p) {
    __m128i v = utf8_sse2_load(p), before = utf8_sse2_load(p - 1);
    __m128i asked = _mm_or_si128(utf8_sse2_from(before, 0xc0),
                                 _mm_or_si128(utf8_sse2_from(utf8_sse2_load(p - 2), 0xe0),
                                              utf8_sse2_from(utf8_sse2_load(p - 3), 0xf0)));
    __m128i follows = _mm_cmplt_epi8(v, utf8_sse2_all(0xc0)); /* signed: 0x80..0xbf */
    __m128i no_lead = _mm_or_si128(utf8_sse2_from(v, 0xf5),
                                   _mm_or_si128(utf8_sse2_is(v, 0xc0), utf8_sse2_is(v, 0xc1)));
    return _mm_or_si128(_mm_or_si128(_mm_xor_si128(asked, follows), no_lead),
                        utf8_sse2_bad_second(before, v));
}

static inline bool utf8_sse2_is_good(const uint8_t *p) {
    __m128i bad = _mm_or_si128(utf8_sse2_errors(p), utf8_sse2_errors(p + 16));
    bad = _mm_or_si128(bad, _mm_or_si128(utf8_sse2_errors(p + 32), utf8_sse2_errors(p + 48)));
    return _mm_movemask_epi8(bad) == 0;
}

static inline bool utf8_sse2_is_ascii(const uint8_t *p) {
    __m128i a = _mm_or_si128(utf8_sse2_load(p), utf8_sse2_load(p + 16));
    __m128i b = _mm_or_si128(utf8_sse2_load(p + 32), utf8_sse2_load(p + 48));
    return _mm_movemask_epi8(_mm_or_si128(a, b)) == 0;
}

#include "proto/ws_utf8_body.h"

static bool utf8_sse2_is_supported(void) { return true; } /* part of x86-64 */

const mr_ws_utf8_scan mr_ws_utf8_sse2 = {
    .name = "sse2", .is_supported = utf8_sse2_is_supported, .skip = utf8_sse2_walk};

#endif
