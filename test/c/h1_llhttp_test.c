/* h1_llhttp_test.c -- finding out how an llhttp looks, refusing one that looks wrong, and making
 * heads of its callbacks. The real one lives in node; here a stand-in of our own plays its part,
 * whose slots can be put anywhere and which can be told to misbehave. */
/* link: base/text.c proto/h1_parse.c proto/h1_scan.c proto/h1_scan_avx2.c proto/h1_scan_neon.c */
/* link: proto/h1_scan_scalar.c proto/h1_scan_sse2.c */
#include "proto/h1_llhttp.c"
#include <stdio.h>
#include <stdlib.h>

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

/* ---- the stand-in ---- */

enum { SLOTS = 25, NUMBER_PAUSED = 7, NUMBER_WRONG = 3 };

typedef enum flaw {
    NO_FLAW,
    CLEARS_PART, /* of the settings */
    TOO_MANY_SLOTS,
    SKIPS_OCTETS, /* of the parser: they stay as they were */
    LARGE_PARSER,
    OTHER_PAUSE, /* pause leads to another number */
    REFUSES_ALL,
    URL_AND_FIELD_ONE, /* one slot for both */
    BODY_TWICE,        /* two slots for it */
    IGNORES_PAUSE,     /* of a callback */
    SHORT_VALUES,      /* one octet too few */
    WRONG_END,         /* of the head */
    TAKES_GZIP,        /* as the last coding */
    TAKES_BLANK_COLON,
    WRONG_METHOD,
    NEVER_KEEPS_ALIVE,
    WRONG_CONTENT,
    FLAWS
} flaw;

static const char *const reasons[FLAWS] = {[CLEARS_PART] = "does not clear a struct",
                                           [TOO_MANY_SLOTS] = "more callbacks",
                                           [SKIPS_OCTETS] = "does not set up a struct",
                                           [LARGE_PARSER] = "larger than was ever seen",
                                           [OTHER_PAUSE] = "HPE_PAUSED",
                                           [REFUSES_ALL] = "nothing wrong",
                                           [URL_AND_FIELD_ONE] = "cannot be told apart",
                                           [BODY_TWICE] = "cannot be told apart",
                                           [IGNORES_PAUSE] = "known request head",
                                           [SHORT_VALUES] = "known request head",
                                           [WRONG_END] = "known request head",
                                           [TAKES_GZIP] = "known request head",
                                           [TAKES_BLANK_COLON] = "known request head",
                                           [WRONG_METHOD] = "known request head",
                                           [NEVER_KEEPS_ALIVE] = "known request head",
                                           [WRONG_CONTENT] = "known chunked body"};

static flaw has;                        /* what the stand-in does wrong just now */
static uint8_t places[MR_LLHTTP_ROLES]; /* where it has its slots */

enum state {
    METHOD,
    URL,
    VERSION,
    VERSION_LF,
    LINE,
    FIELD,
    VALUE_FIRST,
    VALUE,
    VALUE_LF,
    HEAD_LF,
    AFTER_HEAD,
    SIZE,
    EXTENSION,
    SIZE_LF,
    DATA,
    DATA_CR,
    DATA_LF
};

typedef struct stand_in {
    const uint8_t *settings;
    const char *error_pos;
    const char *span;
    uint64_t size, length;
    int error;
    uint8_t type, state, text_len, minor;
    bool in_trailers, has_length, has_coding, is_chunked, is_close;
    char text[23], name[24]; /* method, version or value; name of the field */
} stand_in;

static int call(stand_in *p, mr_llhttp_role role, const char *at, size_t len) {
    if (has == URL_AND_FIELD_ONE && role == MR_LLHTTP_FIELD)
        role = MR_LLHTTP_URL;
    span_fn span;
    event_fn event;
    memcpy(&span, p->settings + places[role] * sizeof span, sizeof span);
    memcpy(&event, p->settings + places[role] * sizeof event, sizeof event);
    if (span == NULL)
        return 0;
    int rc = at != NULL ? span(p, at, len) : event(p);
    if (has == BODY_TWICE && role == MR_LLHTTP_BODY)
        (void)call(p, MR_LLHTTP_URL, at, len);
    return has == IGNORES_PAUSE ? 0 : rc;
}

static void stand_in_settings_init(void *settings) {
    size_t slots = has == TOO_MANY_SLOTS ? MR_LLHTTP_SLOTS_MAX + 1 : SLOTS;
    memset(settings, 0, slots * sizeof(span_fn) - (has == CLEARS_PART ? 3 : 0));
}

static void stand_in_init(void *parser, int type, const void *settings) {
    if (has == LARGE_PARSER)
        memset(parser, 0, MR_LLHTTP_PARSER_MAX - 8);
    stand_in *p = parser;
    stand_in fresh = {.settings = settings, .type = (uint8_t)type};
    size_t kept = has == SKIPS_OCTETS ? offsetof(stand_in, name) : sizeof fresh;
    memset(parser, 0, kept);
    memcpy(parser, &fresh, kept);
    if (has == SKIPS_OCTETS)
        memset(&p->name[8], 0, sizeof p->name - 8);
}

static void note(stand_in *p, char c) {
    if (p->text_len < sizeof p->text - 1)
        p->text[p->text_len++] = c;
    p->text[p->text_len] = 0;
}

static bool is_word_in(const char *text, const char *word) {
    size_t len = strlen(word);
    return strlen(text) == len && mr_equals_lower((const uint8_t *)text, word, len);
}

/* The value of a field is complete. */
static bool take_field(stand_in *p) {
    if (p->in_trailers)
        return true;
    if (is_word_in(p->name, "connection"))
        p->is_close = is_word_in(p->text, "close");
    if (is_word_in(p->name, "transfer-encoding")) {
        p->has_coding = true;
        p->is_chunked = is_word_in(p->text, "chunked") || has == TAKES_GZIP;
    }
    if (is_word_in(p->name, "content-length")) {
        p->has_length = true;
        p->length = strtoull(p->text, NULL, 10);
    }
    return !(p->has_coding && p->has_length);
}

static int give_span(stand_in *p, const char *end) {
    static const mr_llhttp_role roles[] = {[URL] = MR_LLHTTP_URL,
                                           [FIELD] = MR_LLHTTP_FIELD,
                                           [VALUE] = MR_LLHTTP_VALUE,
                                           [DATA] = MR_LLHTTP_BODY};
    const char *at = p->span;
    p->span = NULL;
    if (at == NULL)
        return 0;
    size_t len =
        (size_t)(end - at) - (has == SHORT_VALUES && p->state == VALUE && end > at ? 1 : 0);
    return call(p, roles[p->state], at, len);
}

static int end_head(stand_in *p) {
    p->state = p->in_trailers ? METHOD : AFTER_HEAD;
    return call(p, p->in_trailers ? MR_LLHTTP_MESSAGE_COMPLETE : MR_LLHTTP_HEADERS_COMPLETE, NULL,
                0);
}

static int end_size(stand_in *p) {
    p->in_trailers = p->size == 0;
    p->state = p->size == 0 ? LINE : DATA;
    return call(p, MR_LLHTTP_CHUNK_HEADER, NULL, 0);
}

static int after_head(stand_in *p) {
    if (p->has_coding && !p->is_chunked)
        return NUMBER_WRONG;
    p->state = p->is_chunked ? SIZE : METHOD;
    p->size = 0;
    return p->is_chunked ? 0 : call(p, MR_LLHTTP_MESSAGE_COMPLETE, NULL, 0);
}

static int begin_text(stand_in *p, enum state state, const char *span) {
    p->state = (uint8_t)state;
    p->text_len = 0;
    p->text[0] = 0;
    p->span = span;
    return 0;
}

static int step_request_line(stand_in *p, const char *at) {
    int rc = 0;
    if (p->state == METHOD) {
        if (*at == ' ')
            p->state = URL;
        else
            note(p, *at);
        return *at == ' ' || mr_is_tchar((uint8_t)*at) ? 0 : NUMBER_WRONG;
    }
    if (p->state == URL) {
        if (*at == ' ') {
            rc = give_span(p, at);
            memcpy(p->name, p->text, sizeof p->text); /* the method */
            (void)begin_text(p, VERSION, NULL);
        } else if (p->span == NULL)
            p->span = at;
        return *at < ' ' ? NUMBER_WRONG : rc;
    }
    if (*at != '\r') {
        note(p, *at);
        return 0;
    }
    p->state = VERSION_LF;
    p->minor = p->text[7] == '1';
    return strncmp(p->text, "HTTP/1.", 7) == 0 ? 0 : NUMBER_WRONG;
}

static int step_field(stand_in *p, const char *at) {
    uint8_t c = (uint8_t)*at;
    if (p->state == FIELD && c == ':') {
        int rc = give_span(p, at);
        memcpy(p->name, p->text, sizeof p->text);
        (void)begin_text(p, VALUE_FIRST, NULL);
        return rc;
    }
    if (p->state == FIELD) {
        if (p->span == NULL)
            p->span = at;
        note(p, *at);
        return mr_is_tchar(c) || (has == TAKES_BLANK_COLON && c == ' ') ? 0 : NUMBER_WRONG;
    }
    if (p->state == VALUE_FIRST && is_blank(c))
        return 0;
    if (p->state == VALUE_FIRST || p->span == NULL) {
        p->state = VALUE;
        p->span = at;
    }
    if (c != '\r') {
        note(p, *at);
        return c >= ' ' || c == '\t' ? 0 : NUMBER_WRONG;
    }
    int rc = give_span(p, at);
    p->state = VALUE_LF;
    return take_field(p) ? rc : NUMBER_WRONG;
}

static int step_size(stand_in *p, const char *at) {
    if (*at == '\r')
        p->state = SIZE_LF;
    else if (*at == ';')
        p->state = EXTENSION;
    else if (p->state == SIZE && mr_hex_value((uint8_t)*at) >= 0)
        p->size = p->size * 16 + (uint64_t)mr_hex_value((uint8_t)*at);
    else if (p->state == SIZE)
        return NUMBER_WRONG;
    return 0;
}

static int step_data(stand_in *p, const char *at) {
    if (p->state != DATA) {
        bool is_cr = p->state == DATA_CR;
        p->state = is_cr ? DATA_LF : SIZE;
        p->size = 0;
        return *at == (is_cr ? '\r' : '\n') ? 0 : NUMBER_WRONG;
    }
    if (p->span == NULL)
        p->span = at;
    if (--p->size > 0)
        return 0;
    int rc = give_span(p, at + (has == WRONG_CONTENT ? 0 : 1));
    p->state = DATA_CR;
    return rc;
}

static int step_line(stand_in *p, const char *at) {
    if (p->state == LINE && *at == '\r') {
        p->state = HEAD_LF;
        return 0;
    }
    if (p->state == LINE) {
        (void)begin_text(p, FIELD, NULL);
        return step_field(p, at);
    }
    if (*at != '\n')
        return NUMBER_WRONG;
    if (p->state == HEAD_LF)
        return end_head(p);
    if (p->state == SIZE_LF)
        return end_size(p);
    p->state = LINE;
    return 0;
}

static int step_any(stand_in *p, const char *at) {
    switch (p->state) {
    case METHOD:
    case URL:
    case VERSION:
        return step_request_line(p, at);
    case FIELD:
    case VALUE_FIRST:
    case VALUE:
        return step_field(p, at);
    case SIZE:
    case EXTENSION:
        return step_size(p, at);
    case DATA:
    case DATA_CR:
    case DATA_LF:
        return step_data(p, at);
    default:
        return step_line(p, at);
    }
}

static int stand_in_execute(void *parser, const char *data, size_t len) {
    stand_in *p = parser;
    const char *at = data, *end = data + len;
    if (has == REFUSES_ALL || p->type != TYPE_REQUEST)
        return NUMBER_WRONG;
    while (p->error == 0 && at < end) {
        if (p->state == AFTER_HEAD && (p->error = after_head(p)) != 0)
            break;
        p->error = step_any(p, at++);
    }
    if (p->error == 0)
        p->error = give_span(p, end);
    p->error_pos = at + (has == WRONG_END);
    return p->error;
}

static void stand_in_pause(void *parser) {
    ((stand_in *)parser)->error = has == OTHER_PAUSE ? NUMBER_WRONG : NUMBER_PAUSED;
}

static void stand_in_resume(void *parser) { ((stand_in *)parser)->error = 0; }

static int stand_in_get_errno(const void *parser) { return ((const stand_in *)parser)->error; }

static const char *stand_in_errno_name(int number) {
    return number == NUMBER_PAUSED ? "HPE_PAUSED" : "HPE_WRONG";
}

static const char *stand_in_get_error_pos(const void *parser) {
    return ((const stand_in *)parser)->error_pos;
}

/* The name of the method is gone by the end of the head: the test finds it where the job has it. */
static uint8_t stand_in_get_method(void *parser) {
    const mr_llhttp_job *job = owner_of(parser)->job;
    for (uint8_t i = 1; i < MR_METHOD_COUNT; i++)
        if (strncmp((const char *)job->h1.bytes, mr_method_names[i], strlen(mr_method_names[i])) ==
            0)
            return has == WRONG_METHOD ? (uint8_t)(i % 3 + 1) : i;
    return MR_METHOD_GET;
}

static const char *stand_in_method_name(int number) { return mr_method_names[number]; }

static uint8_t stand_in_get_http_major(void *parser) {
    (void)parser;
    return 1;
}

static uint8_t stand_in_get_http_minor(void *parser) { return ((stand_in *)parser)->minor; }

static int stand_in_should_keep_alive(const void *parser) {
    const stand_in *p = parser;
    return has != NEVER_KEEPS_ALIVE && p->minor == 1 && !p->is_close;
}

static const mr_llhttp_api stand_in_api = {.settings_init = stand_in_settings_init,
                                           .init = stand_in_init,
                                           .execute = stand_in_execute,
                                           .pause = stand_in_pause,
                                           .resume = stand_in_resume,
                                           .get_errno = stand_in_get_errno,
                                           .errno_name = stand_in_errno_name,
                                           .get_error_pos = stand_in_get_error_pos,
                                           .get_method = stand_in_get_method,
                                           .method_name = stand_in_method_name,
                                           .get_http_major = stand_in_get_http_major,
                                           .get_http_minor = stand_in_get_http_minor,
                                           .should_keep_alive = stand_in_should_keep_alive};

/* ---- finding out ---- */

static mr_h1_llhttp llhttp;

static void place(unsigned first, unsigned step) {
    for (unsigned role = 0; role < MR_LLHTTP_ROLES; role++)
        places[role] = (uint8_t)((first + role * step) % SLOTS);
}

static void open_sound(void) {
    const char *reason = NULL;
    has = NO_FLAW;
    mr_rc rc = mr_h1_llhttp_init(&llhttp, &stand_in_api, &reason);
    check(rc == MR_OK && reason == NULL, "a sound llhttp is taken", reason != NULL ? reason : "");
}

static void test_slots(void) {
    for (unsigned first = 0; first < SLOTS; first++) {
        place(first, 3);
        open_sound();
        check(memcmp(llhttp.slots, places, sizeof places) == 0, "slots",
              "are found where they are");
    }
    check(llhttp.settings_bytes == SLOTS * sizeof(span_fn), "sizes", "settings");
    check(llhttp.parser_bytes == sizeof(stand_in), "sizes", "parser");
    check(llhttp.paused == NUMBER_PAUSED, "paused", "its number");
}

static void test_flaws(void) {
    for (int i = NO_FLAW + 1; i < FLAWS; i++) {
        const char *reason = NULL;
        has = (flaw)i;
        mr_rc rc = mr_h1_llhttp_init(&llhttp, &stand_in_api, &reason);
        check(rc == MR_INVALID && reason != NULL && strstr(reason, reasons[i]) != NULL, reasons[i],
              reason != NULL ? reason : "a flaw is not seen");
    }
    has = NO_FLAW;
}

/* Each function in turn is not exported. */
static void test_missing(void) {
    for (size_t at = 0; at < sizeof stand_in_api; at += sizeof(event_fn)) {
        mr_llhttp_api api = stand_in_api;
        const char *reason = NULL;
        memset((uint8_t *)&api + at, 0, sizeof(event_fn));
        mr_rc rc = mr_h1_llhttp_init(&llhttp, &api, &reason);
        check(rc == MR_INVALID && reason != NULL && strstr(reason, "export") != NULL,
              "a missing function", "is told");
    }
}

/* ---- heads ---- */

enum { FIELDS_MAX = 4 };

typedef struct outcome {
    mr_rc rc;
    mr_h1_head head;
    mr_h1_field fields[FIELDS_MAX];
} outcome;

static const mr_h1_limits usual = {400, FIELDS_MAX, 64};

static void parse(const mr_h1_parser *parser, void *self, const mr_h1_limits *limits,
                  const char *text, size_t len, outcome *out) {
    uint8_t *copy = malloc(len + (len == 0));
    MR_ASSERT(copy != NULL);
    memcpy(copy, text, len);
    memset(out, 0, sizeof *out);
    out->rc = parser->parse_head(self, limits, copy, len, 0, &out->head, out->fields);
    free(copy);
}

static bool is_equal(const outcome *a, const outcome *b) {
    return a->rc == b->rc && a->head.status == b->head.status &&
           (a->rc != MR_OK || (memcmp(&a->head, &b->head, sizeof a->head) == 0 &&
                               memcmp(a->fields, b->fields, sizeof a->fields) == 0));
}

/* The verdict on each prefix is "more", or that on the whole. */
static void check_prefixes(const mr_h1_limits *limits, const char *text, const outcome *whole) {
    outcome out;
    for (size_t len = 0; len <= strlen(text); len++) {
        parse(&mr_h1_parser_llhttp, &llhttp, limits, text, len, &out);
        if (out.rc != MR_AGAIN && !is_equal(&out, whole)) {
            check(false, "a prefix has another verdict", text);
            return;
        }
    }
    check(true, "", "");
}

static void test_like_ours(void) {
    static const char *const heads[] = {
        "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /p/q?r=s?t HTTP/1.1\r\nHost: a:80\r\nEmpty:\r\nBlank: \t \r\nX: a  b \t\r\n\r\nGET",
        "PUT /? HTTP/1.1\r\nhOST: a\r\nContent-Length: 00012\r\nConnection: close\r\n\r\n",
        "POST / HTTP/1.1\r\nHost:\r\nTransfer-Encoding: chunked\r\nExpect: 100-Continue\r\n\r\n3",
        "DELETE http://u.v:1/w?x HTTP/1.1\r\nHost: a\r\n\r\n",
        "OPTIONS * HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: b\r\n\r\n",
        "OPTIONS https://u HTTP/1.1\r\nHost: a\r\n\r\n",
        "CONNECT u:443 HTTP/1.1\r\nHost: u:443\r\n\r\n",
        "GET / HTTP/1.0\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a",
        "GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nExpect: b\r\n\r\n",
        "OPTIONS *a HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET * HTTP/1.1\r\nHost: a\r\n\r\n"};
    outcome ours, theirs;
    void *scan = (void *)(uintptr_t)mr_h1_scan_named("scalar");
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        parse(&mr_h1_parser_millrace, scan, &usual, heads[i], strlen(heads[i]), &ours);
        parse(&mr_h1_parser_llhttp, &llhttp, &usual, heads[i], strlen(heads[i]), &theirs);
        check(is_equal(&ours, &theirs), "the same as by our own parser", heads[i]);
        check_prefixes(&usual, heads[i], &theirs);
    }
}

static void expect(const mr_h1_limits *limits, const char *text, unsigned status) {
    outcome out;
    parse(&mr_h1_parser_llhttp, &llhttp, limits, text, strlen(text), &out);
    check(out.head.status == status && (status == 0) == (out.rc <= MR_AGAIN), "status", text);
    check_prefixes(limits, text, &out);
}

static void test_limits(void) {
    static const mr_h1_limits two = {400, 2, 64}, short_target = {400, 2, 5},
                              short_head = {40, 2, 64};
    expect(&two, "GET / HTTP/1.1\r\nHost: a\r\nB:\r\n\r\n", 0);
    expect(&two, "GET / HTTP/1.1\r\nHost: a\r\nB:\r\nC:\r\n\r\n", 431);
    expect(&two, "GET / HTTP/1.1\r\nHost: a\r\nB:\r\nC", 0);
    expect(&two, "GET / HTTP/1.1\r\nHost: a\r\nB:\r\nC(:\r\n\r\n", 400);
    expect(&short_target, "GET /1234 HTTP/1.1\r\nHost: a\r\n\r\n", 0);
    expect(&short_target, "GET /12345 HTTP/1.1\r\nHost: a\r\n\r\n", 414);
    expect(&short_target, "GET /12\001345 HTTP/1.1\r\nHost: a\r\n\r\n", 400);
    expect(&short_target, "GET /12345\001 HTTP/1.1\r\nHost: a\r\n\r\n", 414);
    expect(&short_head, "GET / HTTP/1.1\r\nHost: 23456789 12345\r\n\r\n", 0);
    expect(&short_head, "GET / HTTP/1.1\r\nHost: 23456789 123456\r\n\r\n", 431);
}

/* What node:http takes and our own parser refuses. */
static void test_parity(void) {
    outcome out;
    const char *twice = "GET / HTTP/1.1\r\nHost: a b\r\nHost: c\r\n\r\n";
    const char *user = "GET http://u@h/p HTTP/1.1\r\nHost: a\r\n\r\n";
    const char *scheme = "GET ftp://h/p?q HTTP/1.1\r\nHost: a\r\n\r\n";
    const char *length =
        "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 18446744073709551615\r\n\r\n";
    parse(&mr_h1_parser_llhttp, &llhttp, &usual, twice, strlen(twice), &out);
    check(out.rc == MR_OK && out.head.host_len == 3 && out.head.host_off == 22, "first Host",
          twice);
    parse(&mr_h1_parser_llhttp, &llhttp, &usual, user, strlen(user), &out);
    check(out.rc == MR_OK && out.head.host_len == 1 && user[out.head.host_off] == 'h', "user",
          user);
    parse(&mr_h1_parser_llhttp, &llhttp, &usual, scheme, strlen(scheme), &out);
    check(out.rc == MR_OK && out.head.path_len == 9 && out.head.host_len == 0, "scheme", scheme);
    parse(&mr_h1_parser_llhttp, &llhttp, &usual, length, strlen(length), &out);
    check(out.rc == MR_OK && out.head.content_length == UINT64_MAX, "64 bits", length);
}

int main(void) {
    place(2, 3);
    test_slots();
    test_flaws();
    test_missing();
    open_sound();
    test_like_ours();
    test_limits();
    test_parity();
    printf("%u passed, %u failed\n", passed, failed);
    return failed == 0 ? 0 : 1;
}
