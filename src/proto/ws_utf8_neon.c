/* ws_utf8_neon.c -- UTF-8 for 64-bit ARM: 16 octets at a step, pairs of octets judged by the
 * look-ups of ws_utf8_pairs.h. */
#include "proto/ws_utf8.h"

#if defined(__aarch64__)

#include "proto/ws_utf8_pairs.h"
#include <arm_neon.h>

#define UTF8_NAME(f) utf8_neon_##f
#define UTF8_TARGET

static inline uint8x16_t utf8_neon_errors(const uint8_t *p) {
    static const uint8_t a_high[16] = {PAIR_A_HIGH}, a_low[16] = {PAIR_A_LOW};
    static const uint8_t b_high[16] = {PAIR_B_HIGH};
    uint8x16_t v = vld1q_u8(p), a = vld1q_u8(p - 1);
    uint8x16_t pair = vandq_u8(vqtbl1q_u8(vld1q_u8(a_high), vshrq_n_u8(a, 4)),
                               vqtbl1q_u8(vld1q_u8(a_low), vandq_u8(a, vdupq_n_u8(0x0f))));
    pair = vandq_u8(pair, vqtbl1q_u8(vld1q_u8(b_high), vshrq_n_u8(v, 4)));
    /* A third octet behind e0 and up, a fourth behind f0 and up. */
    uint8x16_t asked = vorrq_u8(vcgeq_u8(vld1q_u8(p - 2), vdupq_n_u8(0xe0)),
                                vcgeq_u8(vld1q_u8(p - 3), vdupq_n_u8(0xf0)));
    return veorq_u8(pair, vandq_u8(asked, vdupq_n_u8(PAIR_FOLLOWS)));
}

static inline bool utf8_neon_is_good(const uint8_t *p) {
    uint8x16_t bad = vorrq_u8(utf8_neon_errors(p), utf8_neon_errors(p + 16));
    bad = vorrq_u8(bad, vorrq_u8(utf8_neon_errors(p + 32), utf8_neon_errors(p + 48)));
    return vmaxvq_u8(bad) == 0;
}

static inline bool utf8_neon_is_ascii(const uint8_t *p) {
    uint8x16_t any = vorrq_u8(vorrq_u8(vld1q_u8(p), vld1q_u8(p + 16)),
                              vorrq_u8(vld1q_u8(p + 32), vld1q_u8(p + 48)));
    return vmaxvq_u8(any) < 0x80;
}

#include "proto/ws_utf8_body.h"

static bool utf8_neon_is_supported(void) { return true; } /* part of 64-bit ARM */

const mr_ws_utf8_scan mr_ws_utf8_neon = {
    .name = "neon", .is_supported = utf8_neon_is_supported, .skip = utf8_neon_walk};

#endif
