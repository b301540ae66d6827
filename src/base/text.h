/* text.h -- octet classes and numbers as text.
 * Thread:  any; no state. */
#ifndef MR_BASE_TEXT_H
#define MR_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

extern const uint8_t mr_token_table[256]; /* 1 for tchar, RFC 9110 5.6.2 */

static inline bool mr_is_tchar(uint8_t c) { return mr_token_table[c] != 0; }
static inline uint8_t mr_lower(uint8_t c) { return (uint8_t)(c >= 'A' && c <= 'Z' ? c | 0x20 : c); }
/* 0..15, or -1. */
static inline int mr_hex_value(uint8_t c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    uint8_t low = c | 0x20;
    return low >= 'a' && low <= 'f' ? low - 'a' + 10 : -1;
}

#define MR_DECIMAL_BYTES 20 /* digits of the longest uint64_t */
/* Writes decimal digits without leading zeros, returns how many (1..MR_DECIMAL_BYTES). */
size_t mr_put_decimal(uint8_t *out, uint64_t value);
/* ASCII case-insensitive comparison of equal-length octets; `lower` is already in lower case. */
bool mr_equals_lower(const uint8_t *bytes, const char *lower, size_t len);
/* Whether the octets are well-formed UTF-8 (RFC 3629: no surrogates, no overlong forms). */
bool mr_utf8_valid(const uint8_t *bytes, size_t len);

#endif
