/* ws_utf8_avx2.c -- UTF-8 for x86-64 with AVX2: 32 octets at a step, pairs of octets judged by the
 * look-ups of ws_utf8_pairs.h. The attribute turns the instructions on for these functions alone.
 */
#include "proto/ws_utf8.h"

#if defined(__x86_64__)

#include "proto/ws_utf8_pairs.h"
#include <immintrin.h>

#define UTF8_NAME(f) utf8_avx2_##f
#define UTF8_TARGET __attribute__((target("avx2")))

static const uint8_t utf8_avx2_tables[3][16] = {{PAIR_A_HIGH}, {PAIR_A_LOW}, {PAIR_B_HIGH}};

UTF8_TARGET static inline __m256i utf8_avx2_load(const uint8_t *p) {
    return _mm256_loadu_si256((const void *)p);
}

/* Both halves of the register hold the table: the shuffle does not cross them. */
UTF8_TARGET static inline __m256i utf8_avx2_find(int table, __m256i half) {
    const void *row = utf8_avx2_tables[table];
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128(row)), half);
}

UTF8_TARGET static inline __m256i utf8_avx2_low(__m256i v) {
    return _mm256_and_si256(v, _mm256_set1_epi8(0x0f));
}

UTF8_TARGET static inline __m256i utf8_avx2_high(__m256i v) {
    return utf8_avx2_low(_mm256_srli_epi16(v, 4));
}

UTF8_TARGET static inline __m256i utf8_avx2_errors(const uint8_t *p) {
    __m256i v = utf8_avx2_load(p), a = utf8_avx2_load(p - 1);
    __m256i pair = _mm256_and_si256(
        _mm256_and_si256(utf8_avx2_find(0, utf8_avx2_high(a)), utf8_avx2_find(1, utf8_avx2_low(a))),
        utf8_avx2_find(2, utf8_avx2_high(v)));
    /* The top bit of each: a third octet behind e0 and up, a fourth behind f0 and up. */
    __m256i third = _mm256_subs_epu8(utf8_avx2_load(p - 2), _mm256_set1_epi8(0xe0 - 0x80));
    __m256i fourth = _mm256_subs_epu8(utf8_avx2_load(p - 3), _mm256_set1_epi8(0xf0 - 0x80));
    __m256i asked =
        _mm256_and_si256(_mm256_or_si256(third, fourth), _mm256_set1_epi8((char)PAIR_FOLLOWS));
    return _mm256_xor_si256(pair, asked);
}

UTF8_TARGET static inline bool utf8_avx2_is_good(const uint8_t *p) {
    __m256i bad = _mm256_or_si256(utf8_avx2_errors(p), utf8_avx2_errors(p + 32));
    return _mm256_testz_si256(bad, bad) != 0;
}

UTF8_TARGET static inline bool utf8_avx2_is_ascii(const uint8_t *p) {
    __m256i any = _mm256_or_si256(utf8_avx2_load(p), utf8_avx2_load(p + 32));
    return _mm256_movemask_epi8(any) == 0;
}

#include "proto/ws_utf8_body.h"

static bool utf8_avx2_is_supported(void) { return __builtin_cpu_supports("avx2") != 0; }

/* By hand, for the reason in h1_scan_avx2.c. */
__attribute__((target("avx2"))) static size_t utf8_avx2_skip(const uint8_t *bytes, size_t at,
                                                             size_t end) {
    size_t place = utf8_avx2_walk(bytes, at, end);
    _mm256_zeroupper();
    return place;
}

const mr_ws_utf8_scan mr_ws_utf8_avx2 = {
    .name = "avx2", .is_supported = utf8_avx2_is_supported, .skip = utf8_avx2_skip};

#endif
