/* ws_frame_test.c -- frames of clients: what they say, whole and cut at every place, and which
 * close code each fault has. */
#include "proto/ws_frame.c"
#include "proto/ws_utf8.c"
#include "proto/ws_utf8_avx2.c"
#include "proto/ws_utf8_neon.c"
#include "proto/ws_utf8_sse2.c"
#include <stdio.h>
#include <stdlib.h>

#define CHECK(claim)                                                                               \
    do {                                                                                           \
        if (!(claim)) {                                                                            \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #claim);                            \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

enum { WIRE_MAX = 400000, LOG_MAX = 600000, NO_FIN = 0x100, NO_MASK = 0x200 };

static mr_ws_rules rules;

/* ---- the client's side ---- */

typedef struct wire {
    size_t len;
    uint8_t bytes[WIRE_MAX];
} wire;

static wire sent;

static void put_octet(unsigned octet) {
    CHECK(sent.len < WIRE_MAX);
    sent.bytes[sent.len++] = (uint8_t)octet;
}

/* The header with the length in the form of `form` octets, 0 being the shortest. */
static void put_head(unsigned first, uint64_t len, unsigned form) {
    unsigned octets = form != 0 ? form : len < 126 ? 1 : len < 65536 ? 2 : 8;
    unsigned mask = (first & NO_MASK) != 0 ? 0 : 0x80;
    put_octet((first & 0xff) | ((first & NO_FIN) != 0 ? 0 : 0x80));
    put_octet(mask | (octets == 1 ? (unsigned)len : octets == 2 ? 126 : 127));
    for (unsigned i = octets == 1 ? 0 : octets; i-- > 0;)
        put_octet((unsigned)(len >> 8 * i) & 0xff);
}

static void put_frame(unsigned first, const void *payload, size_t len) {
    static const uint8_t masks[4][4] = {
        {0x37, 0xfa, 0x21, 0x3d}, {0, 0, 0, 0}, {0xff, 0, 0x80, 0x7f}, {1, 2, 3, 4}};
    const uint8_t *mask = masks[(len + sent.len) & 3], *bytes = payload;
    put_head(first, len, 0);
    for (size_t i = 0; i < 4 && (first & NO_MASK) == 0; i++)
        put_octet(mask[i]);
    for (size_t i = 0; i < len; i++)
        put_octet((first & NO_MASK) != 0 ? bytes[i] : bytes[i] ^ mask[i & 3]);
}

static void put_text_frame(unsigned first, const char *text) {
    put_frame(first, text, strlen(text));
}

/* ---- what is told, as text: pieces of a message are joined ---- */

typedef struct record {
    char text[LOG_MAX];
    size_t len, message; /* octets; where the current message begins, SIZE_MAX without one */
} record;

static void put_record(record *r, const char *text, size_t len) {
    CHECK(r->len + len < LOG_MAX);
    memcpy(r->text + r->len, text, len);
    r->len += len;
    r->text[r->len] = '\0';
}

/* Controls come between the pieces of a message, so a message is written where it ends. */
static void note_data(record *r, record *open, const mr_ws_event *e) {
    const char *name = e->is_compressed ? (e->is_text ? "tz:" : "bz:") : (e->is_text ? "t:" : "b:");
    CHECK(e->is_first == (open->message == SIZE_MAX) && (e->len > 0 || e->is_last));
    if (e->is_first) {
        open->message = open->len = 0;
        put_record(open, name, strlen(name));
    }
    CHECK(memcmp(open->text, name, strlen(name)) == 0);
    put_record(open, (const char *)e->data, e->len);
    if (!e->is_last)
        return;
    put_record(r, open->text, open->len);
    put_record(r, "\n", 1);
    open->message = SIZE_MAX;
}

static void note(record *r, record *open, const mr_ws_event *e) {
    char code[16];
    if (e->kind == MR_WS_ON_DATA) {
        note_data(r, open, e);
        return;
    }
    snprintf(code, sizeof code, "close %u ", e->code);
    const char *name = e->kind == MR_WS_ON_PING   ? "ping "
                       : e->kind == MR_WS_ON_PONG ? "pong "
                                                  : code;
    put_record(r, name, strlen(name));
    put_record(r, (const char *)e->data, e->len);
    put_record(r, "\n", 1);
}

typedef struct feed {
    mr_ws_frame frame;
    uint8_t *held; /* NULL until asked for */
    record *record, *open;
    mr_rc rc;
} feed;

/* One received piece, in memory of exactly its size. */
static void feed_piece(feed *f, const uint8_t *bytes, size_t len) {
    uint8_t *copy = malloc(len > 0 ? len : 1);
    size_t at = 0, consumed;
    mr_ws_event e;
    CHECK(copy != NULL);
    memcpy(copy, bytes, len);
    do {
        if (!mr_ws_frame_holds(&f->frame)) {
            free(f->held);
            f->held = NULL;
        }
        f->rc = mr_ws_frame_next(&f->frame, &rules, f->held, copy + at, len - at, &consumed, &e);
        at += consumed;
        CHECK(at <= len && (f->rc != MR_AGAIN || at == len));
        if (f->rc == MR_OK && e.kind == MR_WS_ON_HOLD) {
            CHECK(f->held == NULL && (f->held = malloc(MR_WS_CONTROL_MAX)) != NULL);
            f->rc =
                mr_ws_frame_next(&f->frame, &rules, f->held, copy + at, len - at, &consumed, &e);
            CHECK(f->rc == MR_AGAIN && at + consumed == len && mr_ws_frame_holds(&f->frame));
            break;
        }
        if (f->rc == MR_OK)
            note(f->record, f->open, &e);
    } while (f->rc == MR_OK);
    if (f->rc > MR_AGAIN) {
        char text[32];
        snprintf(text, sizeof text, "error %u\n", e.code);
        put_record(f->record, text, strlen(text));
        CHECK((f->rc == MR_LIMIT) == (e.code == MR_WS_CODE_TOO_LARGE));
        CHECK(mr_ws_frame_next(&f->frame, &rules, f->held, copy, 0, &consumed, &e) == f->rc);
        CHECK(consumed == 0 && e.code == f->frame.error);
    }
    free(copy);
}

/* Feeds what was sent: `first` octets, then `step` at a time. Returns how much was fed. */
static size_t feed_cut(record *r, size_t first, size_t step) {
    static record open;
    feed f = {.record = r, .open = &open};
    size_t at = 0, piece = first;
    r->len = 0;
    r->text[0] = '\0';
    open.message = SIZE_MAX;
    while (at < sent.len && f.rc <= MR_AGAIN) {
        piece = piece < sent.len - at ? piece : sent.len - at;
        feed_piece(&f, sent.bytes + at, piece);
        at += piece;
        piece = step;
    }
    free(f.held);
    return at;
}

static record whole, cut;

static bool is_same(const record *a, const record *b) {
    return a->len == b->len && memcmp(a->text, b->text, a->len) == 0;
}

/* All ways to cut in two, and small pieces. Empties the wire. */
static void expect_record(const char *text, size_t len, int line) {
    feed_cut(&whole, sent.len, sent.len);
    if (whole.len != len || memcmp(whole.text, text, len) != 0) {
        fprintf(stderr, "line %d: wanted:\n%s\ngot:\n%s\n", line, text, whole.text);
        exit(1);
    }
    for (size_t step = 1; step <= 9; step += step < 5 ? 1 : 2) {
        feed_cut(&cut, step, step);
        CHECK(is_same(&cut, &whole));
    }
    size_t stride = sent.len > 2000 ? sent.len / 200 : 1;
    for (size_t first = 1; first < sent.len; first += stride) {
        feed_cut(&cut, first, sent.len);
        CHECK(is_same(&cut, &whole));
    }
    sent.len = 0;
}

#define EXPECT(text) expect_record(text, sizeof(text) - 1, __LINE__)

/* The same, and that octet `last` (from 1) is the one that fails. */
static void expect_error_at(size_t last, const char *text, int line) {
    CHECK(feed_cut(&whole, 1, 1) == last);
    expect_record(text, strlen(text), line);
}

#define EXPECT_AT(last, text) expect_error_at(last, text, __LINE__)

static void reset_rules(void) {
    rules = (mr_ws_rules){.utf8 = mr_ws_utf8_best(), .max_payload = 200000, .max_fragments = 1000};
}

/* ---- what is taken ---- */

static void messages(void) {
    put_text_frame(MR_WS_TEXT, "Hello");
    put_text_frame(MR_WS_BINARY, "\xff\xfe");
    put_text_frame(MR_WS_TEXT, "");
    put_text_frame(MR_WS_BINARY, "");
    put_text_frame(MR_WS_TEXT, "gr\xc3\xbc\xc3\x9f \xe4\xbd\xa0 \xf0\x9f\x98\x80");
    EXPECT("t:Hello\nb:\xff\xfe\nt:\nb:\nt:gr\xc3\xbc\xc3\x9f \xe4\xbd\xa0 \xf0\x9f\x98\x80\n");
    CHECK(sizeof(mr_ws_frame) < 32 && sizeof(mr_ws_utf8) <= 8);
}

static void fragments(void) {
    put_text_frame(MR_WS_TEXT | NO_FIN, "Hel");
    put_text_frame(MR_WS_PING, "now?");
    put_text_frame(MR_WS_CONTINUATION | NO_FIN, "");
    put_text_frame(MR_WS_PONG, "");
    put_text_frame(MR_WS_CONTINUATION, "lo");
    put_text_frame(MR_WS_BINARY | NO_FIN, "");
    put_text_frame(MR_WS_CONTINUATION | NO_FIN, "");
    put_text_frame(MR_WS_CONTINUATION, "");
    put_text_frame(MR_WS_TEXT | NO_FIN, "\xf0\x9f"); /* characters over fragments */
    put_text_frame(MR_WS_PING, "\xff");
    put_text_frame(MR_WS_CONTINUATION | NO_FIN, "\x98");
    put_text_frame(MR_WS_CONTINUATION, "\x80");
    EXPECT("ping now?\npong \nt:Hello\nb:\nping \xff\nt:\xf0\x9f\x98\x80\n");
}

static void lengths(void) {
    static const size_t sizes[] = {1, 124, 125, 126, 127, 65535, 65536, 65537};
    static char text[70000];
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        memcpy(text, "b:", 2);
        for (size_t n = 0; n < sizes[i]; n++)
            text[2 + n] = (char)(n * 7 + n / 251);
        put_frame(MR_WS_BINARY, text + 2, sizes[i]);
        text[2 + sizes[i]] = '\n';
        expect_record(text, sizes[i] + 3, __LINE__);
    }
}

/* Every length up to 300 in one piece: each alignment of words and mask. */
static void masks(void) {
    static uint8_t plain[300], bytes[308];
    for (size_t len = 0; len <= sizeof plain; len++)
        for (size_t offset = 0; offset < 8; offset++) {
            mr_ws_mask mask = {{0x11, 0x22, 0x44, 0x88}};
            for (size_t i = 0; i < len; i++)
                bytes[offset + i] = (uint8_t)((plain[i] = (uint8_t)(i * 31)) ^ mask.key[i & 3]);
            size_t half = len * offset / 8;
            mr_ws_unmask(&mask, bytes + offset, half);
            mr_ws_unmask(&mask, bytes + offset + half, len - half);
            CHECK(memcmp(bytes + offset, plain, len) == 0);
            CHECK(mask.key[0] == (uint8_t)(0x11 << (len & 3)));
        }
}

static void closes(void) {
    char longest[MR_WS_CONTROL_MAX], expected[160];
    put_text_frame(MR_WS_CLOSE, "");
    put_text_frame(MR_WS_TEXT, "dropped");
    put_octet(0xff); /* and what is no frame */
    EXPECT("close 1005 \n");
    put_text_frame(MR_WS_TEXT | NO_FIN, "a");
    put_text_frame(MR_WS_CLOSE, "\x03\xe8");
    EXPECT("close 1000 \n");
    put_text_frame(MR_WS_CLOSE, "\x0f\xa0 gr\xc3\xbc\xc3\x9f");
    EXPECT("close 4000  gr\xc3\xbc\xc3\x9f\n");
    memset(longest, 'x', sizeof longest);
    memcpy(longest, "\x03\xe9", 2);
    put_frame(MR_WS_CLOSE, longest, sizeof longest);
    int len = snprintf(expected, sizeof expected, "close 1001 %.123s\n", longest + 2);
    expect_record(expected, (size_t)len, __LINE__);
}

static bool is_allowed(unsigned code) {
    static const unsigned allowed[] = {1000, 1001, 1002, 1003, 1007, 1008,
                                       1009, 1010, 1011, 1012, 1013, 1014};
    for (size_t i = 0; i < sizeof allowed / sizeof allowed[0]; i++)
        if (code == allowed[i])
            return true;
    return code / 1000 == 3 || code / 1000 == 4;
}

static void close_codes(void) {
    for (unsigned code = 0; code < 65536; code++) {
        char expected[32];
        const uint8_t payload[2] = {(uint8_t)(code >> 8), (uint8_t)code};
        CHECK(mr_ws_is_close_code(code) == is_allowed(code));
        sent.len = 0;
        put_frame(MR_WS_CLOSE, payload, 2);
        feed_cut(&whole, sent.len, sent.len);
        snprintf(expected, sizeof expected, is_allowed(code) ? "close %u \n" : "error 1002\n",
                 code);
        CHECK(strcmp(whole.text, expected) == 0);
    }
    sent.len = 0;
    CHECK(!mr_ws_is_close_code(65536 + 1000));
}

/* ---- what is refused: 1002 ---- */

static void bad_first_octets(void) {
    for (unsigned octet = 0; octet < 256; octet++)
        for (int is_deflate = 0; is_deflate < 2; is_deflate++) {
            unsigned opcode = octet & 15, rsv = octet & 0x70;
            bool is_data = opcode == 1 || opcode == 2;
            bool is_good = is_data ? rsv == 0 || (rsv == 0x40 && is_deflate)
                                   : opcode >= 8 && opcode <= 10 && rsv == 0 && octet >= 0x80;
            rules.is_deflate = is_deflate;
            put_octet(octet);
            if (is_good)
                EXPECT("");
            else
                EXPECT_AT(1, "error 1002\n");
        }
    reset_rules();
}

static void bad_sequences(void) {
    put_text_frame(MR_WS_CONTINUATION, "x");
    EXPECT_AT(1, "error 1002\n");
    put_text_frame(MR_WS_TEXT, "done");
    put_text_frame(MR_WS_CONTINUATION, "x");
    EXPECT_AT(11, "t:done\nerror 1002\n");
    put_text_frame(MR_WS_TEXT | NO_FIN, "a");
    put_text_frame(MR_WS_PING, "");
    put_text_frame(MR_WS_BINARY, "b");
    EXPECT_AT(14, "ping \nerror 1002\n");
    put_text_frame(MR_WS_BINARY | NO_FIN, ""); /* an empty beginning is one */
    put_text_frame(MR_WS_TEXT, "b");
    EXPECT_AT(7, "error 1002\n");
    rules.is_deflate = true; /* RSV1 in a later frame */
    put_text_frame(MR_WS_TEXT | MR_WS_RSV1 | NO_FIN, "a");
    put_text_frame(MR_WS_CONTINUATION | MR_WS_RSV1, "b");
    EXPECT_AT(8, "error 1002\n");
    reset_rules();
}

static void bad_second_octets(void) {
    static const unsigned opcodes[] = {MR_WS_TEXT, MR_WS_BINARY, MR_WS_CLOSE, MR_WS_PING,
                                       MR_WS_PONG};
    for (size_t i = 0; i < 5; i++)
        for (unsigned octet = 0; octet < 256; octet++) {
            bool is_good = octet >= 0x80 && (opcodes[i] < 8 || octet <= 0x80 + 125);
            put_octet(0x80 | opcodes[i]);
            put_octet(octet);
            if (is_good)
                EXPECT("");
            else
                EXPECT_AT(2, "error 1002\n");
        }
    put_text_frame(MR_WS_TEXT | NO_FIN, "a");
    put_text_frame(MR_WS_CONTINUATION | NO_MASK, "b");
    EXPECT_AT(9, "error 1002\n");
}

static void bad_lengths(void) {
    static const struct {
        uint64_t len;
        unsigned form;
        size_t last;
        const char *text;
    } cases[] = {
        {0, 2, 4, "error 1002\n"},
        {125, 2, 4, "error 1002\n"},
        {126, 2, 4, ""},
        {65535, 2, 4, ""},
        {0, 8, 10, "error 1002\n"},
        {65535, 8, 10, "error 1002\n"},
        {65536, 8, 10, ""},
        {200000, 8, 10, ""},
        {200001, 8, 10, "error 1009\n"},
        {UINT32_MAX, 8, 10, "error 1009\n"},
        {UINT64_C(1) << 32, 8, 6, "error 1009\n"},
        {(UINT64_C(1) << 32) + 5, 8, 6, "error 1009\n"},
        {(UINT64_C(1) << 63) - 1, 8, 3, "error 1009\n"},
        {UINT64_C(1) << 63, 8, 3, "error 1002\n"},
        {UINT64_MAX, 8, 3, "error 1002\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        put_head(MR_WS_BINARY, cases[i].len, cases[i].form);
        expect_error_at(cases[i].last, cases[i].text, __LINE__);
    }
    put_text_frame(MR_WS_CLOSE, "\x03");
    EXPECT("error 1002\n");
}

/* ---- 1007 ---- */

static void bad_text(void) {
    put_text_frame(MR_WS_TEXT, "ab\xff"
                               "cd");
    EXPECT_AT(9, "error 1007\n");
    put_text_frame(MR_WS_TEXT, "\xf4\x90\x80\x80"); /* the second octet cannot be */
    EXPECT_AT(8, "error 1007\n");
    put_text_frame(MR_WS_TEXT, "\xed\xa0\x80");
    EXPECT_AT(8, "error 1007\n");
    put_text_frame(MR_WS_TEXT, "a\xe2\x82"); /* cut off at the end */
    EXPECT_AT(9, "error 1007\n");
    put_text_frame(MR_WS_TEXT | NO_FIN, "\xe2\x82");
    put_text_frame(MR_WS_CONTINUATION, "(");
    EXPECT_AT(15, "error 1007\n");
    put_text_frame(MR_WS_TEXT | NO_FIN, "\xe2\x82"); /* ended by an empty frame */
    put_text_frame(MR_WS_CONTINUATION, "");
    EXPECT_AT(14, "error 1007\n");
    put_text_frame(MR_WS_TEXT | NO_FIN, "\xc3"); /* the next message begins anew */
    put_text_frame(MR_WS_CONTINUATION, "\xa4");
    put_text_frame(MR_WS_TEXT, "\xa4");
    EXPECT("t:\xc3\xa4\nerror 1007\n");
    put_text_frame(MR_WS_CLOSE, "\x03\xe8ok \xc3(");
    EXPECT("error 1007\n");
    put_text_frame(MR_WS_CLOSE, "\x03\xe8\xe2\x82");
    EXPECT("error 1007\n");
}

/* Fails at the octet, in a frame that announces far more than ever comes. */
static void bad_text_early(void) {
    static const uint8_t mask[4] = {9, 8, 7, 6};
    put_head(MR_WS_TEXT, 100000, 0);
    for (size_t i = 0; i < 4; i++)
        put_octet(mask[i]);
    for (size_t i = 0; i < 500; i++)
        put_octet((i == 400 ? 0xc0u : 'a') ^ mask[i & 3]);
    EXPECT_AT(10 + 4 + 401, "error 1007\n");
}

/* ---- 1009 ---- */

static void too_large(void) {
    rules.max_payload = 10;
    put_text_frame(MR_WS_TEXT, "0123456789");
    EXPECT("t:0123456789\n");
    put_text_frame(MR_WS_TEXT, "0123456789a");
    EXPECT_AT(2, "error 1009\n");
    put_text_frame(MR_WS_TEXT | NO_FIN, "01234");
    put_text_frame(MR_WS_PING, "more than ten octets of a ping");
    put_text_frame(MR_WS_CONTINUATION | NO_FIN, "5678");
    put_text_frame(MR_WS_CONTINUATION, "9");
    put_text_frame(MR_WS_BINARY, "0123456789"); /* counted anew */
    EXPECT("ping more than ten octets of a ping\nt:0123456789\nb:0123456789\n");
    put_text_frame(MR_WS_BINARY | NO_FIN, "0123456789");
    put_text_frame(MR_WS_CONTINUATION, "a");
    EXPECT_AT(18, "error 1009\n");
    rules.max_payload = 0;
    put_text_frame(MR_WS_BINARY, "");
    put_text_frame(MR_WS_BINARY, "a");
    EXPECT_AT(8, "b:\nerror 1009\n");
    reset_rules();
}

static void too_many_fragments(void) {
    for (uint32_t limit = 1; limit < 5; limit++)
        for (uint32_t count = limit; count <= limit + 1; count++) {
            rules.max_fragments = limit;
            for (uint32_t i = 0; i < count; i++) {
                unsigned opcode = i == 0 ? MR_WS_BINARY : MR_WS_CONTINUATION;
                put_text_frame(opcode | (i + 1 < count ? NO_FIN : 0u), "");
                if (i + 1 < count)
                    put_text_frame(MR_WS_PONG, ""); /* no fragment */
            }
            feed_cut(&whole, sent.len, sent.len);
            CHECK(strstr(whole.text, count == limit ? "b:\n" : "error 1009\n") != NULL);
            CHECK((strstr(whole.text, "error") != NULL) == (count > limit));
            sent.len = 0;
        }
    rules.max_fragments = 1; /* each message counts for itself */
    put_text_frame(MR_WS_TEXT, "a");
    put_text_frame(MR_WS_TEXT, "b");
    EXPECT("t:a\nt:b\n");
    reset_rules();
}

static void compressed(void) {
    rules.is_deflate = true;
    put_text_frame(MR_WS_TEXT | MR_WS_RSV1 | NO_FIN, "\xff\xfe"); /* text is not looked at */
    put_text_frame(MR_WS_PING, "p");
    put_text_frame(MR_WS_CONTINUATION, "\xff");
    put_text_frame(MR_WS_BINARY | MR_WS_RSV1, "z");
    put_text_frame(MR_WS_TEXT, "plain");
    EXPECT("ping p\ntz:\xff\xfe\xff\nbz:z\nt:plain\n");
    put_text_frame(MR_WS_TEXT, "\xff");
    EXPECT("error 1007\n");
    rules.max_payload = 800;
    put_head(MR_WS_BINARY | MR_WS_RSV1, 800 + 100 + MR_WS_DEFLATE_SLACK, 0);
    EXPECT("");
    put_head(MR_WS_BINARY | MR_WS_RSV1, 800 + 101 + MR_WS_DEFLATE_SLACK, 0);
    EXPECT_AT(4, "error 1009\n");
    put_head(MR_WS_BINARY, 801, 0); /* no slack where nothing is compressed */
    EXPECT_AT(4, "error 1009\n");
    rules.max_payload = UINT32_MAX;
    put_head(MR_WS_BINARY | MR_WS_RSV1, UINT32_MAX, 0);
    EXPECT("");
    reset_rules();
}

/* The count of a message must not wrap, though slack would let it: near the top by hand, rather
 * than with 4 GiB. */
static void compressed_to_the_top(void) {
    rules.is_deflate = true;
    rules.max_payload = UINT32_MAX;
    for (uint32_t len = 5; len <= 6; len++) {
        uint8_t bytes[2] = {MR_WS_FIN | MR_WS_CONTINUATION, (uint8_t)(0x80 | len)};
        mr_ws_frame f = {.message = IN_MESSAGE | IS_COMPRESSED | HAS_BEGUN,
                         .message_bytes = UINT32_MAX - 5,
                         .fragments = 1};
        mr_ws_event e;
        size_t consumed;
        mr_rc rc = mr_ws_frame_next(&f, &rules, NULL, bytes, 2, &consumed, &e);
        CHECK(rc == (len == 5 ? MR_AGAIN : MR_LIMIT));
    }
    reset_rules();
}

/* ---- memory for a control frame in pieces ---- */

static void holding(void) {
    uint8_t held[MR_WS_CONTROL_MAX], bytes[64];
    mr_ws_frame f = {0};
    mr_ws_event e;
    size_t consumed;
    put_text_frame(MR_WS_PING, "abcdef");
    memcpy(bytes, sent.bytes, sent.len);
    sent.len = 0;
    CHECK(mr_ws_frame_next(&f, &rules, NULL, bytes, 6, &consumed, &e) == MR_AGAIN); /* header */
    CHECK(consumed == 6 && !mr_ws_frame_holds(&f));
    CHECK(mr_ws_frame_next(&f, &rules, NULL, bytes + 6, 2, &consumed, &e) == MR_OK);
    CHECK(e.kind == MR_WS_ON_HOLD && consumed == 0 && !mr_ws_frame_holds(&f));
    CHECK(mr_ws_frame_next(&f, &rules, held, bytes + 6, 2, &consumed, &e) == MR_AGAIN);
    CHECK(consumed == 2 && mr_ws_frame_holds(&f));
    CHECK(mr_ws_frame_next(&f, &rules, held, bytes + 8, 4, &consumed, &e) == MR_OK);
    CHECK(e.kind == MR_WS_ON_PING && e.data == held && e.len == 6 && !mr_ws_frame_holds(&f));
    CHECK(memcmp(held, "abcdef", 6) == 0);
}

int main(void) {
    reset_rules();
    messages();
    fragments();
    lengths();
    masks();
    closes();
    close_codes();
    bad_first_octets();
    bad_sequences();
    bad_second_octets();
    bad_lengths();
    bad_text();
    bad_text_early();
    too_large();
    too_many_fragments();
    compressed();
    compressed_to_the_top();
    holding();
    return 0;
}
