/* h1_scan_neon.c -- the scanner for 64-bit ARM: 16 octets at a step. */
#include "base/text.h"
#include "proto/h1_scan.h"

#if defined(__aarch64__)

#include <arm_neon.h>
#include <string.h>

#define SCAN_NAME(f) neon_##f
#define SCAN_TARGET
#define SCAN_WIDTH 16

/* One bit per octet: each keeps the bit of its place, then the two halves are added up. */
static inline uint32_t neon_mask(uint8x16_t hit) {
    static const uint8_t places[16] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    uint8x16_t bits = vandq_u8(hit, vld1q_u8(places));
    return (uint32_t)vaddv_u8(vget_low_u8(bits)) | (uint32_t)vaddv_u8(vget_high_u8(bits)) << 8;
}

static inline uint8x16_t neon_is(uint8x16_t v, uint8_t c) { return vceqq_u8(v, vdupq_n_u8(c)); }

static inline uint32_t neon_controls(const uint8_t *p) {
    uint8x16_t v = vld1q_u8(p);
    uint8x16_t low = vbicq_u8(vcltq_u8(v, vdupq_n_u8(0x20)), neon_is(v, '\t'));
    return neon_mask(vorrq_u8(low, neon_is(v, 0x7f)));
}

/* tchar by two look-ups: `columns` has, for each low half of an octet, one bit per high half 2..7
 * that makes it a tchar; `rows` turns the high half into that bit. */
static inline uint32_t neon_not_token(const uint8_t *p) {
    static const uint8_t columns[16] = {58, 63, 62, 63, 63, 63, 63, 63,
                                        62, 62, 61, 21, 52, 21, 61, 28};
    static const uint8_t rows[16] = {0, 0, 1, 2, 4, 8, 16, 32, 0, 0, 0, 0, 0, 0, 0, 0};
    uint8x16_t v = vld1q_u8(p);
    uint8x16_t column = vqtbl1q_u8(vld1q_u8(columns), vandq_u8(v, vdupq_n_u8(0x0f)));
    uint8x16_t row = vqtbl1q_u8(vld1q_u8(rows), vshrq_n_u8(v, 4));
    return neon_mask(vceqzq_u8(vandq_u8(column, row)));
}

static inline uint32_t neon_not_target(const uint8_t *p, uint32_t *queries) {
    uint8x16_t v = vld1q_u8(p);
    uint8x16_t out = vorrq_u8(vcleq_u8(v, vdupq_n_u8(0x20)), vcgeq_u8(v, vdupq_n_u8(0x7f)));
    *queries = neon_mask(neon_is(v, '?'));
    return neon_mask(vorrq_u8(out, neon_is(v, '#')));
}

#include "proto/h1_scan_body.h"

static bool neon_is_supported(void) { return true; } /* part of 64-bit ARM */

const mr_h1_scan mr_h1_scan_neon = {
    .name = "neon", .is_supported = neon_is_supported, .parse = neon_walk};

#endif
