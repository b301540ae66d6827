/* access_line_test.c -- the three styles to the octet, and clients that would like to write lines
 * of their own. */
/* link: base/text.c base/clock.c */
#include "engine/access_line.c"
#include <stdio.h>

#define TEXT(s)                                                                                    \
    { (const uint8_t *)(s), sizeof(s) - 1 }

static uint64_t random_state = 1;
static uint32_t roll(uint32_t below) {
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(random_state >> 33) % below;
}

static const mr_peer four = {.family = 4, .address = {192, 0, 2, 7}, .port = 4711};
static const mr_peer six = {.family = 6, .address = {0x20, 1, 0xd, 0xb8, [15] = 1}};
static const mr_peer none = {.family = 0};

/* 784111777 is the second that RFC 9110 has for an example. */
static const mr_access_record usual = {.peer = &four,
                                       .method = TEXT("GET"),
                                       .target = TEXT("/a?b=c"),
                                       .referer = TEXT("http://x.example/"),
                                       .user_agent = TEXT("Some Agent/1.0 (x; y)"),
                                       .host = TEXT("shop.example"),
                                       .user = TEXT("eve"),
                                       .received_ms = INT64_C(784111777042),
                                       .duration_us = 1234,
                                       .bytes_sent = 2326,
                                       .status = 200,
                                       .http_major = 1,
                                       .http_minor = 1};

static void check(mr_access_style style, const mr_access_record *record, const char *expected) {
    uint8_t out[MR_ACCESS_LINE_MAX];
    mr_access_time time = {0};
    size_t len = mr_access_format(out, style, record, &time);
    if (len != strlen(expected) || memcmp(out, expected, len) != 0)
        printf("got      %.*sexpected %s", (int)len, (const char *)out, expected);
    MR_ASSERT(len == strlen(expected) && memcmp(out, expected, len) == 0);
}

static void the_usual_request(void) {
    check(MR_ACCESS_COMMON, &usual,
          "192.0.2.7 - eve [06/Nov/1994:08:49:37 +0000] \"GET /a?b=c HTTP/1.1\" 200 2326\n");
    check(MR_ACCESS_COMBINED, &usual,
          "192.0.2.7 - eve [06/Nov/1994:08:49:37 +0000] \"GET /a?b=c HTTP/1.1\" 200 2326 "
          "\"http://x.example/\" \"Some Agent/1.0 (x; y)\"\n");
    check(MR_ACCESS_JSON, &usual,
          "{\"time\":\"1994-11-06T08:49:37.042Z\",\"remote\":\"192.0.2.7\",\"user\":\"eve\","
          "\"method\":\"GET\",\"target\":\"/a?b=c\",\"protocol\":\"HTTP/1.1\",\"status\":200,"
          "\"bytes\":2326,\"duration_us\":1234,\"host\":\"shop.example\","
          "\"referer\":\"http://x.example/\",\"user_agent\":\"Some Agent/1.0 (x; y)\"}\n");
}

static void what_there_is_not(void) {
    static const uint8_t octet = 'x';
    mr_access_record bare = {.peer = &none, .http_major = 1, .target = {&octet, 0}};
    check(MR_ACCESS_COMBINED, &bare,
          "- - - [01/Jan/1970:00:00:00 +0000] \"- - HTTP/1.0\" 0 - \"-\" \"-\"\n");
    check(MR_ACCESS_JSON, &bare,
          "{\"time\":\"1970-01-01T00:00:00.000Z\",\"remote\":null,\"user\":null,\"method\":null,"
          "\"target\":null,\"protocol\":\"HTTP/1.0\",\"status\":0,\"bytes\":0,\"duration_us\":0,"
          "\"host\":null,\"referer\":null,\"user_agent\":null}\n");
    bare = usual;
    bare.peer = &six;
    bare.http_major = 2;
    bare.http_minor = 0;
    bare.received_ms = INT64_MAX;
    check(MR_ACCESS_COMMON, &bare,
          "2001:db8::1 - eve [31/Dec/9999:23:59:59 +0000] \"GET /a?b=c HTTP/2.0\" 200 2326\n");
    bare.received_ms = INT64_MIN;
    check(MR_ACCESS_COMMON, &bare,
          "2001:db8::1 - eve [01/Jan/1970:00:00:00 +0000] \"GET /a?b=c HTTP/2.0\" 200 2326\n");
}

static void every_month_and_the_cache(void) {
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    mr_access_time time = {0};
    uint8_t out[MR_ACCESS_LINE_MAX];
    mr_access_record record = usual;
    char expected[64];
    int64_t day = 0;
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    for (int m = 0; m < 12; day += days[m++]) {
        record.received_ms = day * 86400000 + 999;
        mr_access_format(out, MR_ACCESS_JSON, &record, &time);
        snprintf(expected, sizeof expected, "{\"time\":\"1970-%02d-01T00:00:00.999Z\"", m + 1);
        MR_ASSERT(memcmp(out, expected, strlen(expected)) == 0);
        mr_access_format(out, MR_ACCESS_COMMON, &record, &time);
        snprintf(expected, sizeof expected, "192.0.2.7 - eve [01/%.3s/1970:", months + 3 * m);
        MR_ASSERT(memcmp(out, expected, strlen(expected)) == 0);
    }
    time.common[1] = '#'; /* the same second again: the cached text */
    mr_access_format(out, MR_ACCESS_COMMON, &record, &time);
    MR_ASSERT(out[17] == '#');
    record.received_ms += 1;
    mr_access_format(out, MR_ACCESS_COMMON, &record, &time);
    MR_ASSERT(out[17] == '0');
}

static void nobody_writes_a_second_line(void) {
    mr_access_record r = usual;
    r.user = (mr_access_text)TEXT("a b\"[");
    r.method = (mr_access_text)TEXT("G E\n");
    r.target = (mr_access_text)TEXT("/\" 200 1\r\n10.0.0.1 - \\x\x7f\x80\xff\t");
    r.referer = (mr_access_text)TEXT("a\0b");
    r.user_agent = (mr_access_text)TEXT("\x1b[2J\"\xc2\x9b c");
    check(MR_ACCESS_COMBINED, &r,
          "192.0.2.7 - a\\x20b\\x22[ [06/Nov/1994:08:49:37 +0000] \"G\\x20E\\x0a "
          "/\\x22\\x20200\\x201\\x0d\\x0a10.0.0.1\\x20-\\x20\\x5cx\\x7f\\x80\\xff\\x09 HTTP/1.1\" "
          "200 2326 \"a\\x00b\" \"\\x1b[2J\\x22\\xc2\\x9b c\"\n");
    r.host = (mr_access_text)TEXT("\",\"status\":1,\"");
    r.referer = (mr_access_text)TEXT("\xc3\xbc \xf0\x9f\x98\x80 \xc3 \xed\xa0\x80 \xe2\x82");
    check(
        MR_ACCESS_JSON, &r,
        "{\"time\":\"1994-11-06T08:49:37.042Z\",\"remote\":\"192.0.2.7\",\"user\":\"a "
        "b\\\"[\",\"method\":\"G E\\u000a\",\"target\":\"/\\\" 200 1\\u000d\\u000a10.0.0.1 - "
        "\\\\x\\u007f\xef\xbf\xbd\xef\xbf\xbd\\u0009\",\"protocol\":\"HTTP/1.1\",\"status\":200,"
        "\"bytes\":2326,\"duration_us\":1234,\"host\":\"\\\",\\\"status\\\":1,\\\"\","
        "\"referer\":\"\xc3\xbc \xf0\x9f\x98\x80 \xef\xbf\xbd \xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd "
        "\xef\xbf\xbd\xef\xbf\xbd\",\"user_agent\":\"\\u001b[2J\\\"\\u009b c\"}\n");
}

static size_t field(uint8_t *out, const uint8_t *bytes, size_t len, size_t max, bool is_json) {
    line l = {.out = out};
    put_escaped(&l, (mr_access_text){bytes, len}, max, is_json, false);
    return l.len;
}

static void the_bound_and_one_past(void) {
    uint8_t out[64], in[64];
    memset(in, 'a', sizeof in);
    MR_ASSERT(field(out, in, 32, 32, false) == 32 && memcmp(out, in, 32) == 0);
    MR_ASSERT(field(out, in, 33, 32, false) == 32);
    MR_ASSERT(memcmp(out, in, 29) == 0 && memcmp(out + 29, "...", 3) == 0);
    /* Escapes are not cut in two. */
    memcpy(in + 28, "\"", 1);
    MR_ASSERT(field(out, in, 29, 32, false) == 32 && memcmp(out + 28, "\\x22", 4) == 0);
    MR_ASSERT(field(out, in, 30, 32, false) == 31 && memcmp(out + 28, "...", 3) == 0);
    memcpy(in + 27, "\"", 1);
    in[28] = 'a';
    MR_ASSERT(field(out, in, 28, 32, false) == 31 && memcmp(out + 27, "\\x22", 4) == 0);
    MR_ASSERT(field(out, in, 30, 32, false) == 30 && memcmp(out + 27, "...", 3) == 0);
    memcpy(in + 26, "\xf0\x9f\x98\x80", 4);
    MR_ASSERT(field(out, in, 30, 30, true) == 30 && memcmp(out, in, 30) == 0);
    MR_ASSERT(field(out, in, 31, 30, true) == 29 && memcmp(out + 26, "...", 3) == 0);
}

static int unhex(const uint8_t *two) { return mr_hex_value(two[0]) << 4 | mr_hex_value(two[1]); }

/* What is written reads back as what came, or as its beginning where the dots stand. */
static void random_octets_read_back(void) {
    enum { MAX = 40 };
    for (int n = 0; n < 200000; n++) {
        uint8_t in[48], out[MAX + 8], back[MAX + 8];
        size_t len = roll(sizeof in + 1), got = 0;
        for (size_t i = 0; i < len; i++)
            in[i] = roll(3) == 0 ? (uint8_t)roll(256) : 'k';
        size_t wrote = field(out, in, len, MAX, false);
        bool is_cut = wrote >= 3 && memcmp(out + wrote - 3, "...", 3) == 0;
        MR_ASSERT(wrote <= MAX);
        for (size_t i = 0; i < wrote - (is_cut ? 3 : 0); got++) {
            MR_ASSERT(out[i] >= 0x20 && out[i] < 0x7f && out[i] != '"');
            back[got] = out[i] == '\\' ? (uint8_t)unhex(out + i + 2) : out[i];
            i += out[i] == '\\' ? 4 : 1;
        }
        MR_ASSERT(memcmp(back, in, got) == 0 && (is_cut ? wrote >= MAX - 6 : got == len));
    }
}

static void json_stays_json(void) {
    for (int n = 0; n < 200000; n++) {
        uint8_t in[48], out[48];
        size_t len = roll(sizeof in + 1);
        for (size_t i = 0; i < len; i++)
            in[i] = roll(2) == 0 ? (uint8_t)(0x80 + roll(128)) : (uint8_t)roll(256);
        size_t wrote = field(out, in, len, 40, true);
        MR_ASSERT(wrote <= 40 && mr_utf8_valid(out, wrote));
        for (size_t i = 0; i < wrote; i++) {
            MR_ASSERT(out[i] >= 0x20 && out[i] != 0x7f && out[i] != '"');
            if (out[i] == '\\') {
                MR_ASSERT(i + 1 < wrote && strchr("\"\\u", out[i + 1]) != NULL);
                MR_ASSERT(out[i + 1] != 'u' || (i + 6 <= wrote && out[i + 2] == '0'));
                i++;
            }
        }
    }
}

static void the_longest_line_fits(void) {
    static uint8_t bytes[3][70000];
    memset(bytes[0], '\n', sizeof bytes[0]);
    memset(bytes[1], 'x', sizeof bytes[1]);
    memset(bytes[2], 0xff, sizeof bytes[2]);
    for (int i = 0; i < 3; i++) {
        uint8_t out[MR_ACCESS_LINE_MAX];
        mr_access_time time = {0};
        mr_access_text text = {bytes[i], sizeof bytes[i]};
        mr_peer peer = {.family = 6};
        memset(peer.address, 0xfe, sizeof peer.address);
        mr_access_record r = {&peer,     text,       text,       text,       text, text, text,
                              INT64_MAX, UINT64_MAX, UINT64_MAX, UINT16_MAX, 255,  255};
        for (int style = MR_ACCESS_COMMON; style <= MR_ACCESS_JSON; style++) {
            size_t len = mr_access_format(out, (mr_access_style)style, &r, &time);
            MR_ASSERT(len <= MR_ACCESS_LINE_MAX && memchr(out, '\n', len) == out + len - 1);
            MR_ASSERT(len > (style == MR_ACCESS_COMMON ? 1700u : 3200u));
        }
    }
}

int main(void) {
    the_usual_request();
    what_there_is_not();
    every_month_and_the_cache();
    nobody_writes_a_second_line();
    the_bound_and_one_past();
    random_octets_read_back();
    json_stays_json();
    the_longest_line_fits();
    return 0;
}
