/* h1_scan_avx2.c -- the scanner for x86-64 with AVX2: 32 octets at a step. The attribute turns the
 * instructions on for these functions alone, so the rest of the build stays plain x86-64. */
#include "base/text.h"
#include "proto/h1_scan.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <string.h>

#define SCAN_NAME(f) avx2_##f
#define SCAN_TARGET __attribute__((target("avx2,bmi,bmi2")))
#define SCAN_WIDTH 32

SCAN_TARGET static inline __m256i avx2_load(const uint8_t *p) {
    return _mm256_loadu_si256((const void *)p);
}

SCAN_TARGET static inline __m256i avx2_is(__m256i v, char c) {
    return _mm256_cmpeq_epi8(v, _mm256_set1_epi8(c));
}

SCAN_TARGET static inline uint32_t avx2_controls(const uint8_t *p) {
    __m256i v = avx2_load(p);
    __m256i low = _mm256_cmpeq_epi8(_mm256_min_epu8(v, _mm256_set1_epi8(0x1f)), v);
    __m256i bad = _mm256_or_si256(_mm256_andnot_si256(avx2_is(v, '\t'), low), avx2_is(v, 0x7f));
    return (uint32_t)_mm256_movemask_epi8(bad);
}

/* tchar by two look-ups: `columns` has, for each low half of an octet, one bit per high half 2..7
 * that makes it a tchar; `rows` turns the high half into that bit. A set top bit makes the shuffle
 * give 0, so 0x80..0xff are out by themselves. */
SCAN_TARGET static inline uint32_t avx2_not_token(const uint8_t *p) {
    const __m256i columns =
        _mm256_setr_epi8(58, 63, 62, 63, 63, 63, 63, 63, 62, 62, 61, 21, 52, 21, 61, 28, 58, 63, 62,
                         63, 63, 63, 63, 63, 62, 62, 61, 21, 52, 21, 61, 28);
    const __m256i rows = _mm256_setr_epi8(0, 0, 1, 2, 4, 8, 16, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1,
                                          2, 4, 8, 16, 32, 0, 0, 0, 0, 0, 0, 0, 0);
    __m256i v = avx2_load(p);
    __m256i high = _mm256_and_si256(_mm256_srli_epi16(v, 4), _mm256_set1_epi8(0x0f));
    __m256i hit =
        _mm256_and_si256(_mm256_shuffle_epi8(columns, v), _mm256_shuffle_epi8(rows, high));
    return (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(hit, _mm256_setzero_si256()));
}

SCAN_TARGET static inline uint32_t avx2_not_target(const uint8_t *p, uint32_t *queries) {
    __m256i v = avx2_load(p);
    __m256i low = _mm256_cmpgt_epi8(_mm256_set1_epi8(0x21), v); /* signed: 0x80..0xff too */
    __m256i bad = _mm256_or_si256(low, _mm256_or_si256(avx2_is(v, 0x7f), avx2_is(v, '#')));
    *queries = (uint32_t)_mm256_movemask_epi8(avx2_is(v, '?'));
    return (uint32_t)_mm256_movemask_epi8(bad);
}

#include "proto/h1_scan_body.h"

static bool avx2_is_supported(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
           __builtin_cpu_supports("bmi2");
}

/* Compilers clear the upper halves of the registers before they leave code with AVX, but gcc 12
 * does not when it leaves for a function that it sees in the same unit. Half of the speed of all
 * SSE code that runs later hangs on it (measured), so it is done by hand. */
__attribute__((target("avx2,bmi,bmi2"))) static mr_rc avx2_parse(mr_h1_job *job) {
    mr_rc rc = avx2_walk(job);
    _mm256_zeroupper();
    return rc;
}

const mr_h1_scan mr_h1_scan_avx2 = {
    .name = "avx2", .is_supported = avx2_is_supported, .parse = avx2_parse};

#endif
