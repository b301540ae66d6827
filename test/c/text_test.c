/* text_test.c -- the tables against their definitions, UTF-8 against a decoder of its own. */
#include "base/text.c"
#include "base/check.h"
#include <inttypes.h>
#include <stdio.h>

static void classes(void) {
    for (int c = 0; c < 256; c++) {
        bool alnum = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        bool mark = c != 0 && c < 128 && strchr("!#$%&'*+-.^_`|~", c) != NULL;
        MR_ASSERT(mr_is_tchar((uint8_t)c) == (alnum || mark));
        MR_ASSERT(mr_lower((uint8_t)c) == (c >= 'A' && c <= 'Z' ? c + 32 : c));
        const char *digits = "0123456789abcdef0123456789ABCDEF";
        const char *at = c != 0 ? strchr(digits, c) : NULL;
        MR_ASSERT(mr_hex_value((uint8_t)c) == (at != NULL ? (int)((at - digits) % 16) : -1));
    }
}

static void decimal(uint64_t value) {
    char expected[32];
    uint8_t got[MR_DECIMAL_BYTES + 1];
    memset(got, '#', sizeof got);
    int len = snprintf(expected, sizeof expected, "%" PRIu64, value);
    MR_ASSERT(mr_put_decimal(got, value) == (size_t)len);
    MR_ASSERT(memcmp(got, expected, (size_t)len) == 0 && got[len] == '#');
}

static void decimals(void) {
    decimal(0);
    decimal(UINT64_MAX);
    for (uint64_t power = 1, i = 0; i < 20; i++, power *= 10) {
        decimal(power - 1);
        decimal(power);
        decimal(power + 1);
    }
}

static void equality(void) {
    MR_ASSERT(mr_equals_lower((const uint8_t *)"Content-LENGTH", "content-length", 14));
    MR_ASSERT(!mr_equals_lower((const uint8_t *)"Content_Length", "content-length", 14));
    MR_ASSERT(!mr_equals_lower((const uint8_t *)"\x0d", "-", 1)); /* '-' without bit 5 */
    MR_ASSERT(!mr_equals_lower((const uint8_t *)"@", "`", 1));    /* not letters */
    MR_ASSERT(mr_equals_lower(NULL, "", 0));
}

static size_t encode(uint32_t code, uint8_t *out) {
    if (code < 0x80) {
        out[0] = (uint8_t)code;
        return 1;
    }
    size_t len = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = len; i-- > 1; code >>= 6)
        out[i] = (uint8_t)(0x80 | (code & 0x3F));
    out[0] = (uint8_t)((0xF00u >> len & 0xFF) | code);
    return len;
}

/* Well-formed is what the encoder produces for some scalar value: decode without any check, encode
 * again, compare. */
static bool well_formed(const uint8_t *bytes, size_t len) {
    for (size_t i = 0; i < len;) {
        uint8_t lead = bytes[i];
        size_t n = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
        uint32_t code = n == 1 ? lead : lead & (0x7Fu >> n);
        uint8_t again[8];
        if (n > len - i)
            return false;
        for (size_t k = 1; k < n; k++)
            code = code << 6 | (bytes[i + k] & 0x3F);
        if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000))
            return false;
        if (encode(code, again) != n || memcmp(again, bytes + i, n) != 0)
            return false;
        i += n;
    }
    return true;
}

static void utf8_every_code_point(void) {
    for (uint32_t code = 0; code < 0x200000; code++) {
        uint8_t bytes[4];
        size_t len = encode(code, bytes);
        bool scalar = code <= 0x10FFFF && !(code >= 0xD800 && code < 0xE000);
        MR_ASSERT(mr_utf8_valid(bytes, len) == scalar);
    }
}

/* All strings of up to 4 octets whose octets are the ends of ranges that the rules name. */
static void utf8_borders(void) {
    static const uint8_t ends[] = {0x00, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0,
                                   0xC1, 0xC2, 0xDF, 0xE0, 0xE1, 0xEC, 0xED, 0xEE, 0xEF,
                                   0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xF8, 0xFF};
    enum { ENDS = sizeof ends };
    for (size_t len = 1; len <= 4; len++) {
        size_t strings = 1;
        for (size_t i = 0; i < len; i++)
            strings *= ENDS;
        for (size_t s = 0; s < strings; s++) {
            uint8_t bytes[4];
            size_t rest = s;
            for (size_t i = 0; i < len; i++, rest /= ENDS)
                bytes[i] = ends[rest % ENDS];
            MR_ASSERT(mr_utf8_valid(bytes, len) == well_formed(bytes, len));
        }
    }
}

/* The step of eight octets must not hide a bad one, wherever it stands. */
static void utf8_in_long_text(void) {
    uint8_t text[40];
    memset(text, 'a', sizeof text);
    MR_ASSERT(mr_utf8_valid(text, sizeof text) && mr_utf8_valid(NULL, 0));
    for (size_t at = 0; at < sizeof text; at++) {
        text[at] = 0x80;
        MR_ASSERT(!mr_utf8_valid(text, sizeof text));
        text[at] = 0xC3;
        MR_ASSERT(!mr_utf8_valid(text, sizeof text));
        if (at + 1 < sizeof text) {
            text[at + 1] = 0xA9;
            MR_ASSERT(mr_utf8_valid(text, sizeof text));
            MR_ASSERT(!mr_utf8_valid(text, at + 1));
            text[at + 1] = 'a';
        }
        text[at] = 'a';
    }
}

int main(void) {
    classes();
    decimals();
    equality();
    utf8_every_code_point();
    utf8_borders();
    utf8_in_long_text();
    return 0;
}
