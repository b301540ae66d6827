/* text.c -- tables and small conversions. No function here allocates or fails. */
#include "base/text.h"
#include <string.h>

/* Letters, digits and ! # $ % & ' * + - . ^ _ ` | ~ (RFC 9110 5.6.2). */
const uint8_t mr_token_table[256] = {
    ['!'] = 1, ['#'] = 1, ['$'] = 1, ['%'] = 1, ['&'] = 1, ['\''] = 1, ['*'] = 1, ['+'] = 1,
    ['-'] = 1, ['.'] = 1, ['^'] = 1, ['_'] = 1, ['`'] = 1, ['|'] = 1,  ['~'] = 1, ['0'] = 1,
    ['1'] = 1, ['2'] = 1, ['3'] = 1, ['4'] = 1, ['5'] = 1, ['6'] = 1,  ['7'] = 1, ['8'] = 1,
    ['9'] = 1, ['A'] = 1, ['B'] = 1, ['C'] = 1, ['D'] = 1, ['E'] = 1,  ['F'] = 1, ['G'] = 1,
    ['H'] = 1, ['I'] = 1, ['J'] = 1, ['K'] = 1, ['L'] = 1, ['M'] = 1,  ['N'] = 1, ['O'] = 1,
    ['P'] = 1, ['Q'] = 1, ['R'] = 1, ['S'] = 1, ['T'] = 1, ['U'] = 1,  ['V'] = 1, ['W'] = 1,
    ['X'] = 1, ['Y'] = 1, ['Z'] = 1, ['a'] = 1, ['b'] = 1, ['c'] = 1,  ['d'] = 1, ['e'] = 1,
    ['f'] = 1, ['g'] = 1, ['h'] = 1, ['i'] = 1, ['j'] = 1, ['k'] = 1,  ['l'] = 1, ['m'] = 1,
    ['n'] = 1, ['o'] = 1, ['p'] = 1, ['q'] = 1, ['r'] = 1, ['s'] = 1,  ['t'] = 1, ['u'] = 1,
    ['v'] = 1, ['w'] = 1, ['x'] = 1, ['y'] = 1, ['z'] = 1,
};

size_t mr_put_decimal(uint8_t *out, uint64_t value) {
    uint8_t digits[MR_DECIMAL_BYTES];
    size_t at = sizeof digits;
    do {
        digits[--at] = (uint8_t)('0' + value % 10);
        value /= 10;
    } while (value != 0);
    memcpy(out, digits + at, sizeof digits - at);
    return sizeof digits - at;
}

bool mr_equals_lower(const uint8_t *bytes, const char *lower, size_t len) {
    for (size_t i = 0; i < len; i++)
        if (mr_lower(bytes[i]) != (uint8_t)lower[i])
            return false;
    return true;
}

static bool in_range(uint8_t octet, uint8_t low, uint8_t high) {
    return octet >= low && octet <= high;
}

/* Length of the well-formed sequence of two or more octets that starts at p, or 0. The second
 * octet's range shuts out overlong forms (E0, F0), surrogates (ED) and what is past U+10FFFF (F4).
 */
static size_t multibyte_length(const uint8_t *p, size_t left) {
    uint8_t lead = p[0];
    size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    if (!in_range(lead, 0xC2, 0xF4) || left < length)
        return 0;
    uint8_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    uint8_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    if (!in_range(p[1], low, high))
        return 0;
    for (size_t i = 2; i < length; i++)
        if (!in_range(p[i], 0x80, 0xBF))
            return 0;
    return length;
}

bool mr_utf8_valid(const uint8_t *bytes, size_t len) {
    size_t i = 0;
    while (i < len) {
        uint64_t eight;
        if (len - i >= sizeof eight) {
            memcpy(&eight, bytes + i, sizeof eight);
            if ((eight & UINT64_C(0x8080808080808080)) == 0) {
                i += sizeof eight;
                continue;
            }
        }
        size_t step = bytes[i] < 0x80 ? 1 : multibyte_length(bytes + i, len - i);
        if (step == 0)
            return false;
        i += step;
    }
    return true;
}
