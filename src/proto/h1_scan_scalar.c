/* h1_scan_scalar.c -- the scanner in plain C: for CPUs without one of their own, and the twin that
 * the others are compared with. */
#include "base/text.h"
#include "proto/h1_scan.h"
#include <string.h>

#define SCAN_NAME(f) scalar_##f
#define SCAN_TARGET
#define SCAN_WIDTH 16

static inline uint32_t scalar_controls(const uint8_t *p) {
    uint32_t mask = 0;
    for (unsigned i = 0; i < 16; i++)
        mask |= (uint32_t)(((p[i] < 0x20) & (p[i] != '\t')) | (p[i] == 0x7f)) << i;
    return mask;
}

static inline uint32_t scalar_not_token(const uint8_t *p) {
    uint32_t mask = 0;
    for (unsigned i = 0; i < 16; i++)
        mask |= (uint32_t)(1 ^ mr_token_table[p[i]]) << i;
    return mask;
}

static inline uint32_t scalar_not_target(const uint8_t *p, uint32_t *queries) {
    uint32_t mask = 0;
    *queries = 0;
    for (unsigned i = 0; i < 16; i++) {
        mask |= (uint32_t)((p[i] <= 0x20) | (p[i] >= 0x7f) | (p[i] == '#')) << i;
        *queries |= (uint32_t)(p[i] == '?') << i;
    }
    return mask;
}

#include "proto/h1_scan_body.h"

static bool scalar_is_supported(void) { return true; }

const mr_h1_scan mr_h1_scan_scalar = {
    .name = "scalar", .is_supported = scalar_is_supported, .parse = scalar_walk};
