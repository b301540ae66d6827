/* url.c -- two readers of percent-encoding and three writers.
 *
 * The readers share one rule table for UTF-8: a lead octet says how many octets follow and which
 * range the next one must be in; all later ones are 80..BF. The strict reader (a path) stops at the
 * first breach. The lenient one (a query) writes U+FFFD and takes the offending octet as a new
 * start, which is what "maximal subpart" means.
 *
 * The writers never write past `capacity`: each step asks `put` for room. */
#include "proto/url.h"
#include "base/text.h"
#include <string.h>

typedef struct utf8_state {
    uint8_t need; /* octets that must follow; 0: between characters */
    uint8_t low;  /* range of the next one */
    uint8_t high;
} utf8_state;

/* The state after a lead octet of 0x80 or more; need is 0 when no character starts so. The narrow
 * ranges shut out overlong forms, surrogates and what is past U+10FFFF. */
static utf8_state after_lead(uint8_t lead) {
    utf8_state state = {.need = 0, .low = 0x80, .high = 0xBF};
    if (lead < 0xC2 || lead > 0xF4)
        return state;
    state.need = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1;
    if (lead == 0xE0)
        state.low = 0xA0;
    else if (lead == 0xED)
        state.high = 0x9F;
    else if (lead == 0xF0)
        state.low = 0x90;
    else if (lead == 0xF4)
        state.high = 0x8F;
    return state;
}

static bool takes(utf8_state state, uint8_t octet) {
    return octet >= state.low && octet <= state.high;
}

/* The octet that %XY stands for, or -1. */
static int escaped_octet(const uint8_t *percent, size_t left) {
    if (left < 3)
        return -1;
    int high = mr_hex_value(percent[1]);
    int low = mr_hex_value(percent[2]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

/* Reads a param; `out` may be NULL. One loop for both entry points, so that they cannot disagree.
 */
static mr_rc read_param(const uint8_t *in, size_t len, uint8_t *out, size_t *out_len) {
    utf8_state state = {0};
    size_t written = 0;
    for (size_t i = 0; i < len; written++) {
        int octet = in[i];
        if (octet != '%') {
            i++;
        } else {
            octet = escaped_octet(in + i, len - i);
            if (octet < 0)
                return MR_BADPEER;
            i += 3;
        }
        if (state.need > 0) {
            if (!takes(state, (uint8_t)octet))
                return MR_BADPEER;
            state = (utf8_state){.need = (uint8_t)(state.need - 1), .low = 0x80, .high = 0xBF};
        } else if (octet >= 0x80) {
            state = after_lead((uint8_t)octet);
            if (state.need == 0)
                return MR_BADPEER;
        }
        if (out != NULL)
            out[written] = (uint8_t)octet;
    }
    if (state.need > 0)
        return MR_BADPEER;
    *out_len = written;
    return MR_OK;
}

mr_rc mr_url_decode_param(const uint8_t *in, size_t len, uint8_t *out, size_t *out_len) {
    return read_param(in, len, out, out_len);
}

bool mr_url_param_valid(const uint8_t *in, size_t len) {
    size_t ignored;
    if (len == 0 || memchr(in, '%', len) == NULL)
        return true;
    return read_param(in, len, NULL, &ignored) == MR_OK;
}

/* The octet at `at` of a query, and through `width` how many octets of input it took. */
static uint8_t query_octet(const uint8_t *at, const uint8_t *end, size_t *width) {
    *width = 1;
    if (*at == '+')
        return ' ';
    if (*at != '%')
        return *at;
    int octet = escaped_octet(at, (size_t)(end - at));
    if (octet < 0)
        return '%';
    *width = 3;
    return (uint8_t)octet;
}

/* Reads one character, or the maximal subpart of one, from *at (before `end`) and moves *at behind
 * it. Writes its UTF-8, or U+FFFD; returns how many octets that is. */
static size_t query_character(const uint8_t **at, const uint8_t *end, uint8_t out[4]) {
    size_t width, written = 1;
    out[0] = query_octet(*at, end, &width);
    *at += width;
    if (out[0] < 0x80)
        return 1;
    utf8_state state = after_lead(out[0]);
    bool whole = state.need > 0;
    while (state.need > 0) {
        uint8_t octet = *at < end ? query_octet(*at, end, &width) : 0;
        if (!takes(state, octet)) {
            whole = false;
            break;
        }
        *at += width;
        out[written++] = octet;
        state = (utf8_state){.need = (uint8_t)(state.need - 1), .low = 0x80, .high = 0xBF};
    }
    if (whole)
        return written;
    memcpy(out, "\xEF\xBF\xBD", 3);
    return 3;
}

static bool query_equals(const uint8_t *at, const uint8_t *end, const uint8_t *text, size_t len) {
    uint8_t character[4];
    while (at < end) {
        size_t size = query_character(&at, end, character);
        if (size > len || memcmp(character, text, size) != 0)
            return false;
        text += size;
        len -= size;
    }
    return len == 0;
}

/* The first `octet` from `at`, or `end`. */
static const uint8_t *find_octet(const uint8_t *at, const uint8_t *end, uint8_t octet) {
    const uint8_t *found = at < end ? memchr(at, octet, (size_t)(end - at)) : NULL;
    return found != NULL ? found : end;
}

bool mr_url_query_get(const uint8_t *query, size_t len, const uint8_t *name, size_t name_len,
                      const uint8_t **value, size_t *value_len) {
    if (len == 0)
        return false;
    const uint8_t *end = query + len;
    for (const uint8_t *at = query; at < end;) {
        const uint8_t *pair_end = find_octet(at, end, '&');
        const uint8_t *name_end = find_octet(at, pair_end, '=');
        /* "&&" holds no pair, not one with an empty name; "&=&" does. */
        if (at < pair_end && query_equals(at, name_end, name, name_len)) {
            *value = name_end < pair_end ? name_end + 1 : pair_end;
            *value_len = (size_t)(pair_end - *value);
            return true;
        }
        at = pair_end < end ? pair_end + 1 : end;
    }
    return false;
}

typedef struct writer {
    uint8_t *at;
    size_t left;
} writer;

static bool put(writer *w, const void *bytes, size_t len) {
    if (len > w->left)
        return false;
    if (len == 0) /* `at` or `bytes` may be NULL then */
        return true;
    memcpy(w->at, bytes, len);
    w->at += len;
    w->left -= len;
    return true;
}

mr_rc mr_url_query_decode(const uint8_t *in, size_t len, uint8_t *out, size_t capacity,
                          size_t *out_len) {
    writer w = {.at = out, .left = capacity};
    const uint8_t *at = in, *end = len > 0 ? in + len : in;
    uint8_t character[4];
    while (at < end) {
        size_t size = query_character(&at, end, character);
        if (!put(&w, character, size))
            return MR_LIMIT;
    }
    *out_len = capacity - w.left;
    return MR_OK;
}

/* What an escaper writes for an octet; len 0: the octet itself. */
typedef struct escape {
    size_t len;
    char text[6];
} escape;

/* Copies `in`, with `escape_of` asked about each octet. Plain runs are copied as a whole. The
 * function pointer is a constant at each call and gone once this is inlined: no table of them. */
static inline mr_rc write_escaped(const uint8_t *in, size_t len, uint8_t *out, size_t capacity,
                                  size_t *out_len, escape (*escape_of)(uint8_t)) {
    writer w = {.at = out, .left = capacity};
    size_t run = 0; /* where the plain run began */
    for (size_t i = 0; i < len; i++) {
        escape e = escape_of(in[i]);
        if (e.len == 0)
            continue;
        if (!put(&w, in + run, i - run) || !put(&w, e.text, e.len))
            return MR_LIMIT;
        run = i + 1;
    }
    if (len > 0 && !put(&w, in + run, len - run))
        return MR_LIMIT;
    *out_len = capacity - w.left;
    return MR_OK;
}

static inline escape html_escape(uint8_t c) {
    switch (c) {
    case '&':
        return (escape){5, "&amp;"};
    case '<':
        return (escape){4, "&lt;"};
    case '>':
        return (escape){4, "&gt;"};
    case '"':
        return (escape){6, {'&', 'q', 'u', 'o', 't', ';'}};
    case '\'':
        return (escape){5, "&#39;"};
    default:
        return (escape){.len = 0};
    }
}

static inline escape json_escape(uint8_t c) {
    static const char short_forms[] = "btn?fr"; /* of 0x08..0x0D; 0x0B has none */
    static const char digits[] = "0123456789abcdef";
    if (c == '"' || c == '\\')
        return (escape){2, {'\\', (char)c}};
    if (c >= 0x20)
        return (escape){.len = 0};
    if (c >= 0x08 && c <= 0x0D && c != 0x0B)
        return (escape){2, {'\\', short_forms[c - 0x08]}};
    return (escape){6, {'\\', 'u', '0', '0', digits[c >> 4], digits[c & 15]}};
}

mr_rc mr_escape_html(const uint8_t *in, size_t len, uint8_t *out, size_t capacity,
                     size_t *out_len) {
    return write_escaped(in, len, out, capacity, out_len, html_escape);
}

mr_rc mr_escape_json(const uint8_t *in, size_t len, uint8_t *out, size_t capacity,
                     size_t *out_len) {
    return write_escaped(in, len, out, capacity, out_len, json_escape);
}

static inline escape latin1_escape(uint8_t c) {
    if (c < 0x80)
        return (escape){.len = 0};
    return (escape){2, {(char)(0xC0 | c >> 6), (char)(0x80 | (c & 0x3F))}};
}

mr_rc mr_latin1_to_utf8(const uint8_t *in, size_t len, uint8_t *out, size_t capacity,
                        size_t *out_len) {
    return write_escaped(in, len, out, capacity, out_len, latin1_escape);
}
