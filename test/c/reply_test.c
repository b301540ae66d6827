/* reply_test.c -- constants, templates filled from real request heads, and memory that runs short
 * at every allocation. */
/* link: proto/url.c proto/h1_parse.c proto/h1_scan.c proto/h1_scan_avx2.c proto/h1_scan_sse2.c */
/* link: proto/h1_scan_neon.c proto/h1_scan_scalar.c base/mem.c base/buf.c base/text.c */
#include "engine/reply.c"

#include <stdio.h>
#include <stdlib.h>

#define CHECK(claim)                                                                               \
    do {                                                                                           \
        if (!(claim)) {                                                                            \
            fprintf(stderr, "%s:%d: %s (in %s)\n", __FILE__, __LINE__, #claim, at_case);           \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static const char *at_case = "start";

#define FIELDS_MAX 32u

static const uint8_t *octets(const char *text) { return (const uint8_t *)text; }

static mr_reply *template_of(mr_mem *mem, mr_escape escape) {
    mr_reply *reply = mr_reply_create(mem, 200, 0, octets("HTTP/1.1 200 OK\r\n"), 17, NULL, 0);
    if (reply != NULL)
        reply->escape = (uint8_t)escape;
    return reply;
}

static mr_rc part(mr_reply *reply, mr_part_kind kind, uint32_t index, const char *text,
                  const char *fallback) {
    return mr_reply_add_part(reply, kind, index, octets(text), strlen(text), octets(fallback),
                             fallback == NULL ? 0 : strlen(fallback));
}

/* A request: its text, parsed, with its params named by offset and length within the path. */
typedef struct request {
    char *text; /* an exact copy, so that the sanitizer sees a read behind it */
    mr_h1_head head;
    mr_h1_field fields[FIELDS_MAX];
    mr_param params[MR_PARAMS_MAX];
    mr_reply_input input;
} request;

static void open_request(request *q, const char *text) {
    static const mr_h1_limits limits = {
        .header_bytes = 65535, .header_count = FIELDS_MAX, .target_bytes = 65000};
    size_t len = strlen(text);
    *q = (request){.text = malloc(len)};
    CHECK(q->text != NULL);
    memcpy(q->text, text, len);
    CHECK(mr_h1_parse_head(mr_h1_scan_best(), &limits, octets(q->text), len, 0, &q->head,
                           q->fields) == MR_OK);
    q->input = (mr_reply_input){.bytes = octets(q->text),
                                .head = &q->head,
                                .fields = q->fields,
                                .path = octets(q->text) + q->head.path_off,
                                .params = q->params};
}

/* Every segment of the path becomes a param: what a route of params only would bind. */
static void bind_segments(request *q) {
    size_t from = 1, len = q->head.path_len;
    while (from <= len) {
        const uint8_t *slash = memchr(q->input.path + from, '/', len - from);
        size_t end = slash != NULL ? (size_t)(slash - q->input.path) : len;
        q->params[q->input.param_count++] =
            (mr_param){.off = (uint16_t)from, .len = (uint16_t)(end - from)};
        from = end + 1;
    }
}

static void close_request(request *q) { free(q->text); }

/* Renders behind content that was there before, and compares. */
static void expect_text(const mr_reply *reply, const mr_reply_input *input, const char *want) {
    mr_mem mem = {0};
    mr_buf out = {0};
    at_case = want;
    CHECK(mr_buf_append(&mem, &out, "head", 4) == MR_OK);
    CHECK(mr_reply_render(reply, input, &mem, &out) == MR_OK);
    if (out.len != 4 + strlen(want) || memcmp(out.data + 4, want, out.len - 4) != 0)
        fprintf(stderr, "got: %.*s\n", (int)out.len, (const char *)out.data);
    CHECK(out.len == 4 + strlen(want) && memcmp(out.data, "head", 4) == 0);
    CHECK(memcmp(out.data + 4, want, strlen(want)) == 0);
    mr_buf_dispose(&mem, &out);
    CHECK(mem.used_bytes == 0);
}

/* One template of one placeholder between brackets, one request. */
static void expect_one(mr_escape escape, mr_part_kind kind, const char *name, const char *fallback,
                       const char *head, const char *want) {
    mr_mem mem = {0};
    mr_reply *reply = template_of(&mem, escape);
    request q;
    at_case = want;
    CHECK(reply != NULL);
    CHECK(part(reply, MR_PART_LITERAL, 0, "<\"", NULL) == MR_OK); /* a literal is never escaped */
    CHECK(part(reply, kind, 0, name, fallback) == MR_OK);
    CHECK(part(reply, MR_PART_LITERAL, 0, "\">", NULL) == MR_OK);
    open_request(&q, head);
    bind_segments(&q);
    expect_text(reply, &q.input, want);
    close_request(&q);
    mr_reply_release(reply);
    CHECK(mem.used_bytes == 0);
}

#define REQUEST(target) "GET " target " HTTP/1.1\r\nHost: h\r\n\r\n"
#define FIELD(lines) "GET / HTTP/1.1\r\nHost: h\r\n" lines "\r\n"

static void test_params(void) {
    static const mr_part_kind kind = MR_PART_PARAM;
    expect_one(MR_ESCAPE_NONE, kind, "", NULL, REQUEST("/42"), "<\"42\">");
    expect_one(MR_ESCAPE_NONE, kind, "", NULL, REQUEST("/"), "<\"\">");
    expect_one(MR_ESCAPE_NONE, kind, "", NULL, REQUEST("/%C3%A4+%26"), "<\"\xC3\xA4+&\">");
    expect_one(MR_ESCAPE_HTML, kind, "", NULL, REQUEST("/%3Cb%3E%26%22%27x"),
               "<\"&lt;b&gt;&amp;&quot;&#39;x\">");
    expect_one(MR_ESCAPE_HTML, kind, "", NULL, REQUEST("/plain"), "<\"plain\">");
    expect_one(MR_ESCAPE_HTML, kind, "", NULL, REQUEST("/"), "<\"\">");
    expect_one(MR_ESCAPE_JSON, kind, "", NULL, REQUEST("/a%22%5C%0A%01"),
               "<\"\"a\\\"\\\\\\n\\u0001\"\">");
    expect_one(MR_ESCAPE_JSON, kind, "", NULL, REQUEST("/"), "<\"\"\"\">");
    expect_one(MR_ESCAPE_JSON, kind, "", NULL, REQUEST("/%F0%9F%98%80"),
               "<\"\"\xF0\x9F\x98\x80\"\">");
}

static void test_queries(void) {
    static const mr_part_kind kind = MR_PART_QUERY;
    expect_one(MR_ESCAPE_NONE, kind, "n", "you", REQUEST("/?n=me"), "<\"me\">");
    expect_one(MR_ESCAPE_NONE, kind, "n", "you", REQUEST("/?m=1&n=a+b%2B&n=c"), "<\"a b+\">");
    expect_one(MR_ESCAPE_NONE, kind, "n", "you", REQUEST("/?n=%ff%zz"), "<\"\xEF\xBF\xBD%zz\">");
    expect_one(MR_ESCAPE_NONE, kind, "n", "you", REQUEST("/?n"), "<\"\">");
    expect_one(MR_ESCAPE_NONE, kind, "n", "you", REQUEST("/?n="), "<\"\">");
    expect_one(MR_ESCAPE_NONE, kind, "n", "you", REQUEST("/?N=1"), "<\"you\">");
    expect_one(MR_ESCAPE_NONE, kind, "n", "you", REQUEST("/"), "<\"you\">");
    expect_one(MR_ESCAPE_NONE, kind, "n", NULL, REQUEST("/?"), "<\"\">");
    expect_one(MR_ESCAPE_HTML, kind, "n", "<i>", REQUEST("/"), "<\"&lt;i&gt;\">");
    expect_one(MR_ESCAPE_HTML, kind, "n", "<i>", REQUEST("/?n=%3Cb%3E"), "<\"&lt;b&gt;\">");
    expect_one(MR_ESCAPE_HTML, kind, "n", NULL, REQUEST("/"), "<\"\">");
    expect_one(MR_ESCAPE_JSON, kind, "n", "y\"u", REQUEST("/"), "<\"\"y\\\"u\"\">");
    expect_one(MR_ESCAPE_JSON, kind, "n", "", REQUEST("/"), "<\"\"\"\">");
    expect_one(MR_ESCAPE_JSON, kind, "n", NULL, REQUEST("/"), "<\"\"\"\">"); /* still JSON */
    expect_one(MR_ESCAPE_JSON, kind, "n", "you", REQUEST("/?n=%ff"), "<\"\"\xEF\xBF\xBD\"\">");
}

static void test_headers(void) {
    static const mr_part_kind kind = MR_PART_HEADER;
    expect_one(MR_ESCAPE_NONE, kind, "x-a", "none", FIELD("X-A: 1\r\n"), "<\"1\">");
    expect_one(MR_ESCAPE_NONE, kind, "x-a", "none", FIELD("X-B: 1\r\n"), "<\"none\">");
    expect_one(MR_ESCAPE_NONE, kind, "x-a", "none", FIELD("X-A:\r\n"), "<\"\">");
    expect_one(MR_ESCAPE_NONE, kind, "x-a", "none", FIELD("x-a: 1\r\nX-B: 2\r\nX-A: 3\r\n"),
               "<\"1, 3\">");
    expect_one(MR_ESCAPE_NONE, kind, "x-a", NULL, FIELD("x-a:\r\nX-A: b\r\n"), "<\", b\">");
    expect_one(MR_ESCAPE_NONE, kind, "cookie", "none", FIELD("Cookie: a=1\r\nCookie: b=2\r\n"),
               "<\"a=1; b=2\">");
    expect_one(MR_ESCAPE_NONE, kind, "accept", "none", FIELD("Accept: a\r\nAccept: b\r\n"),
               "<\"a, b\">");
    expect_one(MR_ESCAPE_NONE, kind, "x-a", "none", FIELD("X-A: \xE4\xFF\r\n"),
               "<\"\xC3\xA4\xC3\xBF\">");
    expect_one(MR_ESCAPE_HTML, kind, "x-a", "none", FIELD("X-A: <\r\nX-A: \xE4\r\n"),
               "<\"&lt;, \xC3\xA4\">");
    expect_one(MR_ESCAPE_JSON, kind, "x-a", "none", FIELD("X-A: \"a\"\r\n"), "<\"\"\\\"a\\\"\"\">");
}

/* Each name that is kept single, twice in one request, beside one that is joined. */
static void test_single(void) {
    static const char *const names[] = {"age",
                                        "authorization",
                                        "content-type",
                                        "etag",
                                        "expires",
                                        "from",
                                        "if-modified-since",
                                        "if-unmodified-since",
                                        "last-modified",
                                        "location",
                                        "max-forwards",
                                        "proxy-authorization",
                                        "referer",
                                        "retry-after",
                                        "server",
                                        "user-agent"};
    char head[256];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(head, sizeof head, FIELD("%s: 1\r\nX: y\r\n%s: 2\r\n"), names[i], names[i]);
        expect_one(MR_ESCAPE_NONE, MR_PART_HEADER, names[i], NULL, head, "<\"1\">");
    }
    CHECK(is_single(octets("host"), 4) && is_single(octets("content-length"), 14));
    CHECK(!is_single(octets("hosts"), 5) && !is_single(octets("hos"), 3));
}

static void test_many_parts(void) {
    mr_mem mem = {0};
    mr_reply *reply = template_of(&mem, MR_ESCAPE_NONE);
    request q;
    CHECK(reply != NULL);
    at_case = "many parts";
    for (uint32_t i = 0; i < MR_REPLY_PARTS_MAX; i++)
        CHECK(part(reply, MR_PART_PARAM, i % 3, "", NULL) == MR_OK);
    CHECK(part(reply, MR_PART_PARAM, 0, "", NULL) == MR_INVALID);
    CHECK(reply->part_count == MR_REPLY_PARTS_MAX);
    open_request(&q, REQUEST("/a/b"));
    bind_segments(&q);
    /* The third param is not there and has no fallback. */
    expect_text(reply, &q.input, "abababababababababababababababababababababa");
    close_request(&q);
    mr_reply_release(reply);
}

/* Text whose escaped form is as long as can be, far beyond the buffer's first size. */
static void test_growth(void) {
    mr_mem mem = {0};
    mr_reply *reply = template_of(&mem, MR_ESCAPE_JSON);
    char head[3 * 5000 + 64] = "GET /", want[6 * 5000 + 3] = "\"";
    request q;
    CHECK(reply != NULL);
    for (int i = 0; i < 5000; i++) {
        memcpy(head + 5 + 3 * i, "%1f", 3);
        memcpy(want + 1 + 6 * i, "\\u001f", 6);
    }
    strcpy(head + 5 + 3 * 5000, " HTTP/1.1\r\nHost: h\r\n\r\n");
    strcpy(want + 1 + 6 * 5000, "\"");
    CHECK(part(reply, MR_PART_PARAM, 0, "", NULL) == MR_OK);
    open_request(&q, head);
    bind_segments(&q);
    expect_text(reply, &q.input, want);
    close_request(&q);
    mr_reply_release(reply);
}

/* A param that the route does not bind: nothing is read behind those it does. */
static void test_missing_param(void) {
    mr_mem mem = {0};
    mr_reply *reply = template_of(&mem, MR_ESCAPE_HTML);
    request q;
    CHECK(reply != NULL);
    CHECK(part(reply, MR_PART_PARAM, 1, "", "<none>") == MR_OK);
    open_request(&q, REQUEST("/a"));
    bind_segments(&q);
    expect_text(reply, &q.input, "&lt;none&gt;");
    close_request(&q);
    mr_reply_release(reply);
}

static void test_bad_param(void) {
    mr_mem mem = {0};
    mr_buf out = {0};
    mr_reply *reply = template_of(&mem, MR_ESCAPE_NONE);
    request q;
    CHECK(reply != NULL);
    at_case = "bad param";
    CHECK(part(reply, MR_PART_LITERAL, 0, "text", NULL) == MR_OK);
    CHECK(part(reply, MR_PART_PARAM, 0, "", NULL) == MR_OK);
    open_request(&q, REQUEST("/%zz"));
    bind_segments(&q);
    CHECK(mr_buf_append(&mem, &out, "before", 6) == MR_OK);
    CHECK(mr_reply_render(reply, &q.input, &mem, &out) == MR_BADPEER);
    CHECK(out.len == 6 && memcmp(out.data, "before", 6) == 0);
    close_request(&q);
    mr_buf_dispose(&mem, &out);
    mr_reply_release(reply);
    CHECK(mem.used_bytes == 0);
}

static void test_constant(void) {
    mr_mem mem = {0};
    char head[] = "HTTP/1.1 201 Created\r\n", body[] = "hi";
    mr_reply *reply =
        mr_reply_create(&mem, 201, MR_REPLY_HAS_DATE, octets(head), strlen(head), octets(body), 2);
    at_case = "constant";
    CHECK(reply != NULL);
    head[0] = body[0] = '!'; /* copies were made */
    CHECK(reply->status == 201 && reply->flags == MR_REPLY_HAS_DATE && reply->references == 1);
    CHECK(reply->head_len == strlen(head) && memcmp(reply->head, "HTTP", 4) == 0);
    CHECK(reply->body_len == 2 && memcmp(reply->body, "hi", 2) == 0);
    CHECK(reply->parts == NULL && reply->part_count == 0);
    CHECK(part(reply, MR_PART_LITERAL, 0, "x", NULL) == MR_INVALID);
    mr_reply_retain(reply);
    mr_reply_release(reply);
    CHECK(mem.used_bytes != 0);
    mr_reply_release(reply);
    CHECK(mem.used_bytes == 0);
    mr_reply_release(NULL);
}

/* ---- memory ---- */

static mr_rc make(mr_mem *mem, mr_reply **out) {
    mr_reply *reply = *out = template_of(mem, MR_ESCAPE_JSON);
    mr_rc rc = reply == NULL ? MR_NOMEM : MR_OK;
    for (uint32_t i = 0; rc == MR_OK && i < 5; i++) {
        rc = part(reply, MR_PART_LITERAL, 0, "text", NULL);
        if (rc == MR_OK)
            rc = part(reply, MR_PART_QUERY, 0, "n", "fallback");
        if (rc == MR_OK)
            rc = part(reply, MR_PART_HEADER, 0, "x-a", NULL);
    }
    return rc;
}

static void test_memory_making(void) {
    mr_rc rc = MR_NOMEM;
    int64_t allowed;
    at_case = "memory, making";
    for (allowed = 1; rc != MR_OK; allowed++) {
        mr_mem mem = {.fail_after = allowed};
        mr_reply *reply;
        rc = make(&mem, &reply);
        CHECK(rc == MR_OK || rc == MR_NOMEM);
        mr_reply_release(reply);
        CHECK(mem.used_bytes == 0 && allowed < 1000);
    }
    CHECK(allowed > 30);
    mr_mem none = {.fail_after = -1};
    CHECK(mr_reply_create(&none, 200, 0, octets("h"), 1, octets("b"), 1) == NULL);
    mr_mem two = {.fail_after = 2};
    CHECK(mr_reply_create(&two, 200, 0, octets("h"), 1, octets("b"), 1) == NULL);
    CHECK(two.used_bytes == 0);
}

static void test_memory_rendering(void) {
    mr_mem making = {0};
    mr_reply *reply;
    char head[1200], value[1001] = {0};
    mr_rc rc = MR_NOMEM;
    request q;
    int64_t allowed;
    memset(value, '"', 1000);
    snprintf(head, sizeof head, FIELD("X-A: %s\r\n"), value);
    CHECK(make(&making, &reply) == MR_OK);
    open_request(&q, head);
    at_case = "memory, rendering";
    for (allowed = -1; rc != MR_OK; allowed = allowed < 0 ? 1 : allowed + 1) {
        mr_mem mem = {.fail_after = allowed};
        mr_buf out = {0};
        rc = mr_reply_render(reply, &q.input, &mem, &out);
        CHECK(rc == MR_OK ? out.len > 10000 : rc == MR_NOMEM && out.len == 0);
        mr_buf_dispose(&mem, &out);
        CHECK(mem.used_bytes == 0 && allowed < 1000);
    }
    CHECK(allowed > 3);
    close_request(&q);
    mr_reply_release(reply);
}

int main(void) {
    test_params();
    test_queries();
    test_headers();
    test_single();
    test_many_parts();
    test_growth();
    test_missing_param();
    test_bad_param();
    test_constant();
    test_memory_making();
    test_memory_rendering();
    puts("reply: ok");
    return 0;
}
