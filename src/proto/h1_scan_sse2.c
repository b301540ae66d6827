/* h1_scan_sse2.c -- the scanner for every x86-64: 16 octets at a step. */
#include "base/text.h"
#include "proto/h1_scan.h"

#if defined(__x86_64__)

#include <emmintrin.h>
#include <string.h>

#define SCAN_NAME(f) sse2_##f
#define SCAN_TARGET
#define SCAN_WIDTH 16

static inline __m128i sse2_load(const uint8_t *p) { return _mm_loadu_si128((const void *)p); }

static inline __m128i sse2_is(__m128i v, char c) { return _mm_cmpeq_epi8(v, _mm_set1_epi8(c)); }

/* Octets from `low` to `high`, both in ASCII: signed comparison keeps 0x80..0xff out. */
static inline __m128i sse2_within(__m128i v, char low, char high) {
    return _mm_and_si128(_mm_cmpgt_epi8(v, _mm_set1_epi8((char)(low - 1))),
                         _mm_cmpgt_epi8(_mm_set1_epi8((char)(high + 1)), v));
}

static inline uint32_t sse2_controls(const uint8_t *p) {
    __m128i v = sse2_load(p);
    __m128i low = _mm_cmpeq_epi8(_mm_min_epu8(v, _mm_set1_epi8(0x1f)), v);
    __m128i bad = _mm_or_si128(_mm_andnot_si128(sse2_is(v, '\t'), low), sse2_is(v, 0x7f));
    return (uint32_t)_mm_movemask_epi8(bad);
}

/* Without a byte shuffle the set is written out: SP and below and 0x80 and above (signed), then the
 * delimiters of RFC 9110 5.6.2 and DEL. */
static inline uint32_t sse2_not_token(const uint8_t *p) {
    __m128i v = sse2_load(p);
    __m128i low = _mm_cmpgt_epi8(_mm_set1_epi8(0x21), v);
    __m128i a = _mm_or_si128(sse2_is(v, '"'), sse2_is(_mm_or_si128(v, _mm_set1_epi8(1)), ')'));
    __m128i b = _mm_or_si128(sse2_is(v, ','), sse2_is(v, '/'));
    __m128i c = _mm_or_si128(sse2_within(v, ':', '@'), sse2_within(v, '[', ']'));
    /* '{' | 4 is DEL, and so is DEL | 4 */
    __m128i d = _mm_or_si128(sse2_is(v, '}'), sse2_is(_mm_or_si128(v, _mm_set1_epi8(4)), 0x7f));
    __m128i bad = _mm_or_si128(_mm_or_si128(low, _mm_or_si128(a, b)), _mm_or_si128(c, d));
    return (uint32_t)_mm_movemask_epi8(bad);
}

static inline uint32_t sse2_not_target(const uint8_t *p, uint32_t *queries) {
    __m128i v = sse2_load(p);
    __m128i low = _mm_cmpgt_epi8(_mm_set1_epi8(0x21), v);
    __m128i bad = _mm_or_si128(low, _mm_or_si128(sse2_is(v, 0x7f), sse2_is(v, '#')));
    *queries = (uint32_t)_mm_movemask_epi8(sse2_is(v, '?'));
    return (uint32_t)_mm_movemask_epi8(bad);
}

#include "proto/h1_scan_body.h"

static bool sse2_is_supported(void) { return true; } /* part of x86-64 */

const mr_h1_scan mr_h1_scan_sse2 = {
    .name = "sse2", .is_supported = sse2_is_supported, .parse = sse2_walk};

#endif
