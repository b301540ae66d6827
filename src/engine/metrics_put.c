/* metrics_put.c -- no call writes anything once one has failed, so only the end has to be checked.
 */
#include "engine/metrics_put.h"
#include "base/text.h"
#include <stdio.h>
#include <stdlib.h>

#define NUMBER_BYTES 40u /* more than "%.17g" of any double has */

void mr_text_put(mr_text *t, const void *bytes, size_t len) {
    if (t->rc != MR_OK)
        return;
    if (t->buf->len > t->max_len || len > t->max_len - t->buf->len)
        t->rc = MR_LIMIT;
    else
        t->rc = mr_buf_append(t->mem, t->buf, bytes, len);
}

void mr_text_string(mr_text *t, const char *string) { mr_text_put(t, string, strlen(string)); }

void mr_text_decimal(mr_text *t, uint64_t value) {
    uint8_t digits[MR_DECIMAL_BYTES];
    mr_text_put(t, digits, mr_put_decimal(digits, value));
}

void mr_text_fixed(mr_text *t, uint64_t value, unsigned places) {
    uint64_t unit = 1;
    for (unsigned i = 0; i < places; i++)
        unit *= 10;
    mr_text_decimal(t, value / unit);
    uint64_t rest = value % unit;
    char digits[10] = ".";
    size_t len = 1;
    while (rest != 0) {
        unit /= 10;
        digits[len++] = (char)('0' + rest / unit);
        rest %= unit;
    }
    if (len > 1)
        mr_text_put(t, digits, len);
}

static bool is_finite(double value) { return value - value == 0; }

/* printf writes the decimal sign of the process's locale, which may be several octets. */
static size_t without_locale(char *number) {
    size_t len = 0;
    for (const char *p = number; *p != '\0'; p++) {
        bool is_plain = (*p >= '0' && *p <= '9') || *p == '-' || *p == '+' || *p == 'e';
        if (is_plain)
            number[len++] = *p;
        else if (len == 0 || number[len - 1] != '.')
            number[len++] = '.';
    }
    return len;
}

void mr_text_double(mr_text *t, double value) {
    if (value != value) {
        mr_text_string(t, "NaN");
    } else if (!is_finite(value)) {
        mr_text_string(t, value > 0 ? "+Inf" : "-Inf");
    } else if (value >= 0 && value < 9007199254740992.0 && value == (double)(uint64_t)value) {
        mr_text_decimal(t, (uint64_t)value);
    } else {
        char number[NUMBER_BYTES];
        for (int digits = 15; digits <= 17; digits++) {
            snprintf(number, sizeof number, "%.*g", digits, value);
            if (strtod(number, NULL) == value)
                break;
        }
        mr_text_put(t, number, without_locale(number));
    }
}

void mr_text_escaped(mr_text *t, mr_span value, bool is_label) {
    size_t from = 0;
    for (size_t i = 0; i < value.len; i++) {
        char c = value.bytes[i];
        if (c != '\\' && c != '\n' && !(is_label && c == '"'))
            continue;
        mr_text_put(t, value.bytes + from, i - from);
        mr_text_string(t, c == '\n' ? "\\n" : c == '"' ? "\\\"" : "\\\\");
        from = i + 1;
    }
    if (from < value.len)
        mr_text_put(t, value.bytes + from, value.len - from);
}
