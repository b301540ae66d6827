/* access_line.c -- invariant: no field takes more than its MR_ACCESS_..._MAX, so a line fits. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include "engine/access_line.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/text.h"
#include <arpa/inet.h>
#include <string.h>

typedef struct line {
    uint8_t *out;
    size_t len;
} line;

/* All else that a line has, generously: punctuation, names, address, time, numbers. */
#define FIXED_MAX 520u

_Static_assert(FIXED_MAX + MR_ACCESS_METHOD_MAX + MR_ACCESS_TARGET_MAX + MR_ACCESS_REFERER_MAX +
                       MR_ACCESS_AGENT_MAX + MR_ACCESS_HOST_MAX + MR_ACCESS_USER_MAX <=
                   MR_ACCESS_LINE_MAX,
               "the longest line fits");

/* As it is in every style. */
static bool is_plain(uint8_t c, bool is_word) {
    return c >= 0x20 && c < 0x7f && c != '"' && c != '\\' && !(is_word && c == ' ');
}

static void put(line *l, const char *text, size_t len) {
    memcpy(l->out + l->len, text, len);
    l->len += len;
}

static void put_text(line *l, const char *text) { put(l, text, strlen(text)); }

static void put_number(line *l, uint64_t value) {
    l->len += mr_put_decimal(l->out + l->len, value);
}

static void put_hex(uint8_t *out, uint8_t c) {
    static const char digits[] = "0123456789abcdef";
    out[0] = (uint8_t)digits[c >> 4];
    out[1] = (uint8_t)digits[c & 15];
}

/* Octet p[0] for a text line; returns the length of what is in `out`, and takes one octet. */
static size_t escape_text(const uint8_t *p, uint8_t out[8]) {
    memcpy(out, "\\x", 2);
    put_hex(out + 2, *p);
    return 4;
}

static size_t escape_json_octet(uint8_t c, uint8_t out[8]) {
    if (c == '"' || c == '\\') {
        out[0] = '\\';
        out[1] = c;
        return 2;
    }
    memcpy(out, "\\u00", 4);
    put_hex(out + 4, c);
    return 6;
}

/* A character for a JSON string; *taken says how many octets it is. */
static size_t escape_json(const uint8_t *p, size_t left, uint8_t out[8], size_t *taken) {
    size_t want = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
    if (p[0] < 0x80)
        return escape_json_octet(p[0], out);
    if (left < want || !mr_utf8_valid(p, want)) {
        memcpy(out, "\xef\xbf\xbd", 3);
        return 3;
    }
    *taken = want;
    if (p[0] == 0xc2 && p[1] < 0xa0) /* U+0080 .. U+009F steer terminals */
        return escape_json_octet(p[1], out);
    memcpy(out, p, want);
    return want;
}

static size_t plain_run(mr_access_text text, size_t from, bool is_word) {
    size_t i = from;
    while (i < text.len && is_plain(text.bytes[i], is_word))
        i++;
    return i - from;
}

/* At most `max` octets of output, "..." at its end where there was more. A space is escaped where
 * it would end the field. */
static void put_escaped(line *l, mr_access_text text, size_t max, bool is_json, bool is_word) {
    uint8_t *start = l->out + l->len, *end = start + max, *to = start;
    uint8_t *cut = start; /* the last end of a character that leaves room for the dots */
    for (size_t i = 0; i < text.len;) {
        size_t run = plain_run(text, i, is_word), room = (size_t)(end - to);
        memcpy(to, text.bytes + i, run < room ? run : room);
        to += run < room ? run : room;
        i += run;
        if (to <= end - 3)
            cut = to;
        else if (to - (run < room ? run : room) <= end - 3)
            cut = end - 3; /* inside the run, where each octet is a character */
        uint8_t piece[8];
        size_t taken = 1, len = 0;
        if (i < text.len && run <= room)
            len = is_json ? escape_json(text.bytes + i, text.len - i, piece, &taken)
                          : escape_text(text.bytes + i, piece);
        if (run > room || len > (size_t)(end - to)) {
            memcpy(cut, "...", 3);
            to = cut + 3;
            break;
        }
        memcpy(to, piece, len);
        to += len;
        i += len > 0 ? taken : 0;
        if (to <= end - 3)
            cut = to;
    }
    l->len = (size_t)(to - l->out);
}

static bool is_absent(mr_access_text text) { return text.bytes == NULL || text.len == 0; }

static void put_peer(line *l, const mr_peer *peer, const char *none) {
    char text[INET6_ADDRSTRLEN];
    int family = peer->family == 4 ? AF_INET : AF_INET6;
    if (peer->family == 0 || inet_ntop(family, peer->address, text, sizeof text) == NULL)
        put_text(l, none);
    else
        put_text(l, text);
}

static void put_protocol(line *l, const mr_access_record *r) {
    put_text(l, "HTTP/");
    put_number(l, r->http_major);
    put_text(l, ".");
    put_number(l, r->http_minor);
}

/* From "Date: Sun, 06 Nov 1994 08:49:37 GMT": the calendar is in base/clock.c. */
static void render_time(mr_access_time *time, int64_t second) {
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    char date[MR_DATE_FIELD_BYTES];
    mr_clock_render_date(second, date);
    int month = 1;
    while (memcmp(months + 3 * (month - 1), date + 14, 3) != 0)
        month++;
    memcpy(time->common, "[../.../....:........ +0000]", sizeof time->common);
    memcpy(time->common + 1, date + 11, 2);
    memcpy(time->common + 4, date + 14, 3);
    memcpy(time->common + 8, date + 18, 4);
    memcpy(time->common + 13, date + 23, 8);
    memcpy(time->iso, date + 18, 4);
    time->iso[4] = time->iso[7] = '-';
    time->iso[5] = (char)('0' + month / 10);
    time->iso[6] = (char)('0' + month % 10);
    memcpy(time->iso + 8, date + 11, 2);
    time->iso[10] = 'T';
    memcpy(time->iso + 11, date + 23, 8);
    time->second = second;
}

static void update_time(mr_access_time *time, const mr_access_record *r) {
    int64_t ms = r->received_ms < 0 ? 0 : r->received_ms;
    int thousandth = (int)(ms % 1000);
    if (time->common[0] == '\0' || time->second != ms / 1000)
        render_time(time, ms / 1000);
    time->iso[19] = '.';
    time->iso[20] = (char)('0' + thousandth / 100);
    time->iso[21] = (char)('0' + thousandth / 10 % 10);
    time->iso[22] = (char)('0' + thousandth % 10);
    time->iso[23] = 'Z';
}

static void put_field(line *l, mr_access_text text, size_t max, bool is_word) {
    if (is_absent(text))
        put_text(l, "-");
    else
        put_escaped(l, text, max, false, is_word);
}

static void put_common(line *l, const mr_access_record *r, const mr_access_time *time) {
    put_peer(l, r->peer, "-");
    put_text(l, " - ");
    put_field(l, r->user, MR_ACCESS_USER_MAX, true);
    put_text(l, " ");
    put(l, time->common, sizeof time->common - 1);
    put_text(l, " \"");
    put_field(l, r->method, MR_ACCESS_METHOD_MAX, true);
    put_text(l, " ");
    put_field(l, r->target, MR_ACCESS_TARGET_MAX, true);
    put_text(l, " ");
    put_protocol(l, r);
    put_text(l, "\" ");
    put_number(l, r->status);
    put_text(l, " ");
    if (r->bytes_sent == 0)
        put_text(l, "-");
    else
        put_number(l, r->bytes_sent);
}

static void put_combined(line *l, const mr_access_record *r) {
    put_text(l, " \"");
    put_field(l, r->referer, MR_ACCESS_REFERER_MAX, false);
    put_text(l, "\" \"");
    put_field(l, r->user_agent, MR_ACCESS_AGENT_MAX, false);
    put_text(l, "\"");
}

/* `name` brings its punctuation: ,"name": */
static void put_json_field(line *l, const char *name, mr_access_text text, size_t max) {
    put_text(l, name);
    if (is_absent(text)) {
        put_text(l, "null");
        return;
    }
    put_text(l, "\"");
    put_escaped(l, text, max, true, false);
    put_text(l, "\"");
}

static void put_json_number(line *l, const char *name, uint64_t value) {
    put_text(l, name);
    put_number(l, value);
}

static void put_json(line *l, const mr_access_record *r, const mr_access_time *time) {
    put_text(l, "{\"time\":\"");
    put(l, time->iso, sizeof time->iso);
    put_text(l, "\",\"remote\":");
    put_text(l, r->peer->family == 0 ? "" : "\"");
    put_peer(l, r->peer, "null");
    put_text(l, r->peer->family == 0 ? "" : "\"");
    put_json_field(l, ",\"user\":", r->user, MR_ACCESS_USER_MAX);
    put_json_field(l, ",\"method\":", r->method, MR_ACCESS_METHOD_MAX);
    put_json_field(l, ",\"target\":", r->target, MR_ACCESS_TARGET_MAX);
    put_text(l, ",\"protocol\":\"");
    put_protocol(l, r);
    put_json_number(l, "\",\"status\":", r->status);
    put_json_number(l, ",\"bytes\":", r->bytes_sent);
    put_json_number(l, ",\"duration_us\":", r->duration_us);
    put_json_field(l, ",\"host\":", r->host, MR_ACCESS_HOST_MAX);
    put_json_field(l, ",\"referer\":", r->referer, MR_ACCESS_REFERER_MAX);
    put_json_field(l, ",\"user_agent\":", r->user_agent, MR_ACCESS_AGENT_MAX);
    put_text(l, "}");
}

size_t mr_access_format(uint8_t out[MR_ACCESS_LINE_MAX], mr_access_style style,
                        const mr_access_record *record, mr_access_time *time) {
    line l = {.out = out};
    update_time(time, record);
    if (style == MR_ACCESS_JSON)
        put_json(&l, record, time);
    else
        put_common(&l, record, time);
    if (style == MR_ACCESS_COMBINED)
        put_combined(&l, record);
    put_text(&l, "\n");
    MR_ASSERT(l.len <= MR_ACCESS_LINE_MAX);
    return l.len;
}
