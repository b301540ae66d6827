/* h1_chunked_test.c -- chunked bodies: octets, the content they carry, and what is left behind
 * them. Every case runs whole, cut in two at each place and octet by octet. */
#include "base/text.c"
#include "proto/h1_chunked.c"
#include "base/check.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BODY_MAX = 20000 };

static const mr_h1_limits usual = {16384, 100, 8192};
static unsigned passed, failed;

static void check(bool is_good, const char *what, const char *detail) {
    if (is_good) {
        passed++;
        return;
    }
    failed++;
    if (failed <= 40)
        printf("not ok - %s: %s\n", what, detail);
}

/* ---- one body, however it is cut ---- */

typedef struct outcome {
    mr_rc rc; /* MR_OK: done */
    uint16_t status;
    size_t taken;
    size_t content_len;
    uint8_t content[BODY_MAX];
} outcome;

/* Takes in bytes[from..to); false when there is a verdict. */
static bool take(mr_h1_chunked *ch, const mr_h1_limits *limits, const uint8_t *bytes, size_t from,
                 size_t to, outcome *out) {
    while (from < to) {
        const uint8_t *data;
        size_t consumed, data_len;
        bool is_done;
        out->rc = mr_h1_chunked_next(ch, limits, bytes + from, to - from, &consumed, &data,
                                     &data_len, &is_done);
        MR_ASSERT(consumed <= to - from);
        if (out->rc == MR_OK && !is_done) {
            MR_ASSERT(data_len > 0 && data >= bytes + from &&
                      data + data_len == bytes + from + consumed);
            memcpy(out->content + out->content_len, data, data_len);
            out->content_len += data_len;
        } else {
            MR_ASSERT(data_len == 0);
        }
        MR_ASSERT(is_done == (out->rc == MR_OK && data_len == 0));
        MR_ASSERT(out->rc != MR_AGAIN || consumed == to - from);
        from += consumed;
        out->taken = from;
        if (out->rc != MR_OK || is_done)
            break;
    }
    return from == to && out->rc <= MR_AGAIN && ch->state != DONE;
}

static void feed(outcome *out, const mr_h1_limits *limits, const uint8_t *bytes, size_t len,
                 size_t first, size_t step) {
    mr_h1_chunked ch = {0};
    size_t from = 0, to = first < len ? first : len;
    *out = (outcome){.rc = MR_AGAIN};
    while (take(&ch, limits, bytes, from, to, out) && to < len) {
        from = to;
        to = len - to > step ? to + step : len;
    }
    if (out->rc == MR_OK && ch.state != DONE)
        out->rc = MR_AGAIN; /* the last piece was content */
    out->status = ch.status;
}

static bool is_same(const outcome *a, const outcome *b) {
    return a->rc == b->rc && a->status == b->status && a->taken == b->taken &&
           a->content_len == b->content_len && memcmp(a->content, b->content, a->content_len) == 0;
}

static void check_cuts(const char *what, const mr_h1_limits *limits, const uint8_t *bytes,
                       size_t len, const outcome *whole) {
    static outcome cut;
    char detail[60];
    bool is_good = true;
    feed(&cut, limits, bytes, len, 1, 1);
    check(is_same(&cut, whole), what, "octet by octet");
    feed(&cut, limits, bytes, len, 5, 3);
    check(is_same(&cut, whole), what, "five, then by three");
    for (size_t at = 0; is_good && at <= len; at += len > 500 ? 61 : 1) {
        feed(&cut, limits, bytes, len, at, len);
        is_good = is_same(&cut, whole);
        snprintf(detail, sizeof detail, "cut at %zu", at);
    }
    check(is_good, what, detail);
}

/* ---- bodies that are complete ---- */

typedef struct good_case {
    const char *body;
    const char *content;
} good_case;

static const good_case good_cases[] = {
    {"0\r\n\r\n", ""},
    {"00000\r\n\r\n", ""},
    {"1\r\na\r\n0\r\n\r\n", "a"},
    {"5\r\nhello\r\n0\r\n\r\n", "hello"},
    {"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", "abcde"},
    {"a\r\n0123456789\r\n0\r\n\r\n", "0123456789"},
    {"A\r\n0123456789\r\n0\r\n\r\n", "0123456789"},
    {"0A\r\n0123456789\r\n0\r\n\r\n", "0123456789"},
    {"1a\r\nabcdefghijklmnopqrstuvwxyz\r\n0\r\n\r\n", "abcdefghijklmnopqrstuvwxyz"},
    {"1F\r\nabcdefghijklmnopqrstuvwxyz01234\r\n0\r\n\r\n", "abcdefghijklmnopqrstuvwxyz01234"},
    {"00000000000000000000000000000003\r\nabc\r\n0\r\n\r\n", "abc"},
    {"2\r\n\r\n\r\n0\r\n\r\n", "\r\n"},
    {"5\r\n0\r\n\r\n\r\n0\r\n\r\n", "0\r\n\r\n"},
    {"3\r\n\x80\xff\x7f\r\n0\r\n\r\n", "\x80\xff\x7f"},
    /* extensions */
    {"1;a\r\nx\r\n0\r\n\r\n", "x"},
    {"1;a=b\r\nx\r\n0\r\n\r\n", "x"},
    {"1;a=b;c;d=e\r\nx\r\n0;f\r\n\r\n", "x"},
    {"1;a=\"\"\r\nx\r\n0\r\n\r\n", "x"},
    {"1;a=\"b c;d=e, \x80\xff\t\"\r\nx\r\n0\r\n\r\n", "x"},
    {"1;a=\"\\\"\\\\\\a\\ \\\t\\\xe9\"\r\nx\r\n0\r\n\r\n", "x"},
    {"1;a=\"b\";c\r\nx\r\n0;d=\"e\"\r\n\r\n", "x"},
    {"1 ;a\r\nx\r\n0\r\n\r\n", "x"},
    {"1\t ; \ta \t= \tb \t; c\r\nx\r\n0\r\n\r\n", "x"},
    {"1;a=\"b\" ;c\r\nx\r\n0\r\n\r\n", "x"},
    {"1;a ;b\r\nx\r\n0\r\n\r\n", "x"},
    {"1;!#$%&'*+-.^_`|~09=~\r\nx\r\n0\r\n\r\n", "x"},
    {"0;a=1\r\n\r\n", ""},
    /* trailers */
    {"0\r\nA: b\r\n\r\n", ""},
    {"0\r\nA:\r\nB: \t \r\nC:d\te \x80\r\n\r\n", ""},
    {"0\r\n!#$%&'*+-.^_`|~09azAZ: v\r\n\r\n", ""},
    {"0\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\nHost: b\r\n\r\n", ""},
    {"1\r\nx\r\n0;y=z\r\nA: b:c\r\n\r\n", "x"},
};

/* ---- bodies that are not ---- */

typedef struct bad_case {
    uint16_t status; /* 0: MR_AGAIN */
    uint16_t len;
    const char *body;
} bad_case;

#define CASE(status, text)                                                                         \
    { status, sizeof(text) - 1, text }
#define BAD(text) CASE(400, text)
#define SIZE_LINE(text) CASE(400, text "\r\nhello\r\n0\r\n\r\n")
#define TRAILER(text) CASE(400, "0\r\n" text "\r\n\r\n")

static const bad_case bad_cases[] = {
    /* not all there */
    CASE(0, ""),
    CASE(0, "5"),
    CASE(0, "0"),
    CASE(0, "5 "),
    CASE(0, "5;"),
    CASE(0, "5;a"),
    CASE(0, "5;a="),
    CASE(0, "5;a=\"b"),
    CASE(0, "5;a=\"\\"),
    CASE(0, "5\r"),
    CASE(0, "5\r\n"),
    CASE(0, "5\r\nhell"),
    CASE(0, "5\r\nhello"),
    CASE(0, "5\r\nhello\r"),
    CASE(0, "5\r\nhello\r\n"),
    CASE(0, "5\r\nhello\r\n0"),
    CASE(0, "0\r\n"),
    CASE(0, "0\r\n\r"),
    CASE(0, "0\r\nAA"),
    CASE(0, "0\r\nA: b\r\n"),
    CASE(0, "0\r\nA: b\r\n\r"),
    CASE(0, "7fffffffffffffff\r\nx"),
    CASE(0, "00007fffffffffffffff\r\nx"),
    CASE(0, "100000005\r\nhello\r\n0\r\n\r\n"),
    /* sizes */
    SIZE_LINE(""),
    SIZE_LINE("x"),
    SIZE_LINE("g"),
    SIZE_LINE("0x5"),
    SIZE_LINE("+5"),
    SIZE_LINE("-5"),
    SIZE_LINE(" 5"),
    SIZE_LINE("\t5"),
    SIZE_LINE("5 "),
    SIZE_LINE("5\t"),
    SIZE_LINE("5 5"),
    SIZE_LINE("5g"),
    SIZE_LINE("5_0"),
    SIZE_LINE("5,"),
    SIZE_LINE("5."),
    SIZE_LINE("5h"),
    SIZE_LINE("\"5\""),
    SIZE_LINE("5:"),
    SIZE_LINE("5/"),
    SIZE_LINE("5@"),
    SIZE_LINE("5G"),
    SIZE_LINE("5`"),
    SIZE_LINE("5\0"),
    SIZE_LINE("\0"),
    SIZE_LINE("5\x7f"),
    SIZE_LINE("5\x80"),
    SIZE_LINE("\xb5"),
    SIZE_LINE("-0"),
    SIZE_LINE(";a"),
    SIZE_LINE("8000000000000000"),
    SIZE_LINE("ffffffffffffffff"),
    SIZE_LINE("10000000000000000"),
    SIZE_LINE("10000000000000005"),
    SIZE_LINE("0000000000000000010000000000000005"),
    SIZE_LINE("ffffffffffffffffffffffffffffffff"),
    BAD("\r\n\r\n"),
    /* line ends of sizes */
    BAD("5\nhello\r\n0\r\n\r\n"),
    BAD("5\rhello\r\n0\r\n\r\n"),
    BAD("5\r\r\nhello\r\n0\r\n\r\n"),
    BAD("\n5\r\nhello\r\n0\r\n\r\n"),
    BAD("0\n\n"),
    BAD("0\r\r\n\r\n"),
    BAD("5 \nhello"),
    /* data and its end */
    BAD("5\r\nhello0\r\n\r\n"),
    BAD("5\r\nhelloXX0\r\n\r\n"),
    BAD("5\r\nhello\n0\r\n\r\n"),
    BAD("5\r\nhello\r0\r\n\r\n"),
    BAD("5\r\nhello\r\r\n0\r\n\r\n"),
    BAD("5\r\nhello\r\n\r\n0\r\n\r\n"),
    BAD("3\r\nhello\r\n0\r\n\r\n"),
    BAD("8\r\nhello\r\n0\r\n\r\n"),
    BAD("5\r\nhello \r\n0\r\n\r\n"),
    /* extensions */
    SIZE_LINE("5;"),
    SIZE_LINE("5; "),
    SIZE_LINE("5;;"),
    SIZE_LINE("5;a;"),
    SIZE_LINE("5;a;;b"),
    SIZE_LINE("5;=a"),
    SIZE_LINE("5;a="),
    SIZE_LINE("5;a= "),
    SIZE_LINE("5;a=;b"),
    SIZE_LINE("5;a==b"),
    SIZE_LINE("5;a=b=c"),
    SIZE_LINE("5;a=b c"),
    SIZE_LINE("5;a b"),
    SIZE_LINE("5;a "),
    SIZE_LINE("5;a=b "),
    SIZE_LINE("5;a=\"b\" "),
    SIZE_LINE("5 a"),
    SIZE_LINE("5 =a"),
    SIZE_LINE("5=a"),
    SIZE_LINE("5;a="
              "\""),
    SIZE_LINE("5;a=\"b"),
    SIZE_LINE("5;a=\"b\\\""),
    SIZE_LINE("5;a=\"b\"c"),
    SIZE_LINE("5;a=b\"c\""),
    SIZE_LINE("5;\"a\"=b"),
    SIZE_LINE("5;a=\"\x01\""),
    SIZE_LINE("5;a=\"\x7f\""),
    SIZE_LINE("5;a=\"\0\""),
    SIZE_LINE("5;a=\"\\\x01\""),
    SIZE_LINE("5;a=\"\\\0\""),
    SIZE_LINE("5;a=\"\n\""),
    SIZE_LINE("5;a=\"\\\n\""),
    SIZE_LINE("5;a=\"\r\""),
    SIZE_LINE("5;a=\0"),
    SIZE_LINE("5;a\0"),
    SIZE_LINE("5;\0"),
    SIZE_LINE("5;a\rb"),
    SIZE_LINE("5;a\nb"),
    SIZE_LINE("5;a=b\nc"),
    SIZE_LINE("5;\xe9"),
    SIZE_LINE("5;a=\xe9"),
    SIZE_LINE("5;a,b"),
    SIZE_LINE("5;a(b)"),
    SIZE_LINE("5;a=b,c"),
    SIZE_LINE("5,a=b"),
    BAD("5;a\nhello\r\n0\r\n\r\n"),
    BAD("5;a=b\nhello\r\n0\r\n\r\n"),
    BAD("5;\nhello\r\n0\r\n\r\n"),
    BAD("5;a=\"b\"\nhello\r\n0\r\n\r\n"),
    BAD("0;\r\n\r\n"),
    /* trailers */
    BAD("0\r\nXX\r\n"),
    BAD("0\r\n\n"),
    BAD("0\r\n\rX"),
    BAD("0\r\n\r\r\n"),
    TRAILER(": b"),
    TRAILER(":"),
    TRAILER("A"),
    TRAILER("A : b"),
    TRAILER("A\t: b"),
    TRAILER(" A: b"),
    TRAILER("A B: c"),
    TRAILER("A(: b"),
    TRAILER("A\x80: b"),
    TRAILER("A\0: b"),
    TRAILER("A: b\0c"),
    TRAILER("A: b\x01"),
    TRAILER("A: b\x7f"),
    TRAILER("A: b\x0b"),
    TRAILER("A: b\rc"),
    TRAILER("A: b\nC: d"),
    TRAILER("A: b\r\n c"),
    TRAILER("A: b\r\n\tc"),
    TRAILER("A: b\r\nC"),
    TRAILER("GET / HTTP/1.1"),
};

static void run_good_cases(void) {
    static const char next[] = "GET / HTTP/1.1\r\n";
    static outcome out;
    static uint8_t bytes[1024];
    for (size_t i = 0; i < sizeof good_cases / sizeof good_cases[0]; i++) {
        const good_case *c = &good_cases[i];
        size_t len = strlen(c->body);
        memcpy(bytes, c->body, len);
        memcpy(bytes + len, next, sizeof next);
        for (size_t behind = 0; behind < sizeof next; behind += sizeof next - 1) {
            feed(&out, &usual, bytes, len + behind, len + behind, 1);
            check(out.rc == MR_OK && out.taken == len, c->body, "is not taken as it should");
            check(out.content_len == strlen(c->content) &&
                      memcmp(out.content, c->content, out.content_len) == 0,
                  c->body, "other content");
            check_cuts(c->body, &usual, bytes, len + behind, &out);
        }
    }
}

static void run_bad_cases(void) {
    static outcome out;
    for (size_t i = 0; i < sizeof bad_cases / sizeof bad_cases[0]; i++) {
        const bad_case *c = &bad_cases[i];
        const uint8_t *bytes = (const uint8_t *)c->body;
        feed(&out, &usual, bytes, c->len, c->len, 1);
        check(out.status == c->status && out.rc == (c->status ? MR_BADPEER : MR_AGAIN), c->body,
              "other verdict");
        check_cuts(c->body, &usual, bytes, c->len, &out);
    }
}

/* ---- limits, both sides of each ---- */

static uint8_t text[BODY_MAX];

static size_t put(size_t at, const char *string) {
    memcpy(text + at, string, strlen(string));
    return at + strlen(string);
}

static size_t fill(size_t at, char c, size_t count) {
    memset(text + at, c, count);
    return at + count;
}

static void expect(const char *what, const mr_h1_limits *limits, size_t len, mr_rc rc,
                   uint16_t status) {
    static outcome out;
    feed(&out, limits, text, len, len, 1);
    check(out.rc == rc && out.status == status, what, "other verdict");
    check_cuts(what, limits, text, len, &out);
}

static void run_line_limits(void) {
    for (size_t over = 0; over < 2; over++) {
        mr_rc rc = over ? MR_BADPEER : MR_OK;
        uint16_t status = over ? 400 : 0;
        size_t at = put(fill(0, '0', MR_CHUNK_LINE_MAX - 1 + over), "1");
        expect("zeros before a size", &usual, put(at, "\r\nx\r\n0\r\n\r\n"), rc, status);
        at = fill(put(0, "1;a="), 'b', MR_CHUNK_LINE_MAX - 4 + over);
        expect("an extension", &usual, put(at, "\r\nx\r\n0\r\n\r\n"), rc, status);
        at = fill(put(0, "0;a=\""), 'b', MR_CHUNK_LINE_MAX - 6 + over);
        expect("a quoted extension of the last chunk", &usual, put(at, "\"\r\n\r\n"), rc, status);
        at = put(put(fill(0, '0', MR_CHUNK_LINE_MAX - 1), "1\r\nx\r\n"), over ? "0" : "");
        at = put(fill(at, '0', MR_CHUNK_LINE_MAX - 1), "1\r\ny\r\n0\r\n\r\n");
        expect("each line anew", &usual, at, rc, status);
    }
}

static void run_trailer_limits(void) {
    static const uint32_t sizes[] = {2, 6, 64, 1000};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        mr_h1_limits limits = {sizes[i], 2, 100};
        for (size_t over = 0; over < 2; over++) {
            size_t at = put(0, "0\r\n");
            if (sizes[i] >= 6)
                at = put(fill(put(at, "A:"), 'v', sizes[i] - 6 + over), "\r\n");
            else if (over)
                at = put(at, "A:");
            expect("trailer section", &limits, put(at, "\r\n"), over ? MR_LIMIT : MR_OK,
                   over ? 431 : 0);
        }
        size_t at = fill(put(0, "0\r\nA:"), 'v', sizes[i] + 10);
        expect("a trailer without an end", &limits, at, MR_LIMIT, 431);
    }
    for (uint32_t count = 0; count < 4; count++) {
        mr_h1_limits limits = {1000, count, 100};
        size_t at = put(0, "0\r\n");
        for (uint32_t i = 0; i < count; i++)
            at = put(at, "A:\r\n");
        expect("trailer lines up to the limit", &limits, put(at, "\r\n"), MR_OK, 0);
        expect("one more", &limits, put(at, "A"), MR_LIMIT, 431);
        expect("one more, wrong", &limits, put(at, " "), MR_LIMIT, 431);
    }
}

/* ---- the calls themselves ---- */

/* Content is given as pieces of the input itself, a call never goes past one piece. */
static void run_calls(void) {
    static const char body[] = "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\nrest";
    const uint8_t *bytes = (const uint8_t *)body, *data;
    mr_h1_chunked ch = {0};
    size_t consumed, data_len;
    bool is_done;
    mr_rc rc = mr_h1_chunked_next(&ch, &usual, bytes, 4, &consumed, &data, &data_len, &is_done);
    check(rc == MR_OK && !is_done && consumed == 4 && data == bytes + 3 && data_len == 1, "calls",
          "part of a chunk");
    check(ch.left == 2, "calls", "left");
    rc = mr_h1_chunked_next(&ch, &usual, bytes + 4, 0, &consumed, &data, &data_len, &is_done);
    check(rc == MR_AGAIN && !is_done && consumed == 0 && data_len == 0, "calls", "nothing new");
    rc = mr_h1_chunked_next(&ch, &usual, bytes + 4, 20, &consumed, &data, &data_len, &is_done);
    check(rc == MR_OK && !is_done && consumed == 2 && data == bytes + 4 && data_len == 2, "calls",
          "the rest of a chunk");
    rc = mr_h1_chunked_next(&ch, &usual, bytes + 6, 20, &consumed, &data, &data_len, &is_done);
    check(rc == MR_OK && !is_done && consumed == 7 && data == bytes + 11 && data_len == 2, "calls",
          "the next chunk");
    rc = mr_h1_chunked_next(&ch, &usual, bytes + 13, 11, &consumed, &data, &data_len, &is_done);
    check(rc == MR_OK && is_done && consumed == 7 && data_len == 0, "calls", "the end");
    rc = mr_h1_chunked_next(&ch, &usual, bytes + 20, 4, &consumed, &data, &data_len, &is_done);
    check(rc == MR_OK && is_done && consumed == 0 && data_len == 0, "calls", "behind the end");
}

static void run_calls_after_error(void) {
    mr_h1_chunked ch = {0};
    const uint8_t *data;
    size_t consumed, data_len;
    bool is_done;
    for (int i = 0; i < 2; i++) {
        mr_rc rc = mr_h1_chunked_next(&ch, &usual, (const uint8_t *)(i ? "5\r\n" : "x"), 1,
                                      &consumed, &data, &data_len, &is_done);
        check(rc == MR_BADPEER && ch.status == 400 && !is_done, "calls", "after an error");
    }
}

/* ---- generated bodies ---- */

static uint32_t random_state = 88172645u;

static uint32_t random_below(uint32_t bound) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 17;
    random_state ^= random_state << 5;
    return random_state % bound;
}

/* Writes a right body of random chunks to text and its content to `content`. */
static size_t generate(uint8_t *content, size_t *content_len) {
    static const char *const extensions[] = {"", "", ";a", ";a=b", " ; a = \"b\\\"c\""};
    size_t at = 0;
    *content_len = 0;
    for (uint32_t chunks = random_below(8); chunks > 0; chunks--) {
        size_t size = 1 + random_below(random_below(4) ? 20 : 700);
        at += (size_t)sprintf((char *)text + at, random_below(2) ? "%zx%s\r\n" : "%03zX%s\r\n",
                              size, extensions[random_below(5)]);
        for (size_t i = 0; i < size; i++)
            content[(*content_len)++] = text[at++] = (uint8_t)random_below(256);
        at = put(at, "\r\n");
    }
    return put(at, random_below(2) ? "0\r\n\r\n" : "00;x\r\nA: b\r\nC:\r\n\r\n");
}

static void run_generated(void) {
    static uint8_t content[BODY_MAX];
    static outcome whole, cut;
    for (unsigned round = 0; round < 3000; round++) {
        size_t content_len, len = generate(content, &content_len);
        bool is_changed = random_below(3) == 0;
        if (is_changed)
            text[random_below((uint32_t)len)] = (uint8_t)random_below(256);
        feed(&whole, &usual, text, len, len, 1);
        if (!is_changed)
            check(whole.rc == MR_OK && whole.taken == len && whole.content_len == content_len &&
                      memcmp(whole.content, content, content_len) == 0,
                  "generated body", "other content");
        feed(&cut, &usual, text, len, random_below((uint32_t)len + 1), 1 + random_below(40));
        check(is_same(&cut, &whole), "generated body", "in pieces");
        feed(&cut, &usual, text, len, 1, 1);
        check(is_same(&cut, &whole), "generated body", "octet by octet");
    }
}

int main(void) {
    run_good_cases();
    run_bad_cases();
    run_line_limits();
    run_trailer_limits();
    run_calls();
    run_calls_after_error();
    run_generated();
    printf("%u passed, %u failed\n", passed, failed);
    return failed == 0 ? 0 : 1;
}
