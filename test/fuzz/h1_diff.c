/* h1_diff.c -- gives the same bytes to our parser and to the host's llhttp and compares what they
 * say: accepted or refused, every span, framing, persistence, and what a chunked body decodes to;
 * each whole and cut.
 * llhttp lives in the node executable, so this is an addon that node loads (-DMR_DIFF_ADDON); what
 * may differ, and why, is known to h1_diff.mjs beside it. As a plain harness, without an llhttp in
 * the process, it only holds our own parser against itself.
 * Input: one octet that picks the limits, one that picks the cuts, then the bytes received. */
/* link: base/text.c proto/h1_parse.c proto/h1_chunked.c proto/h1_llhttp.c proto/h1_scan.c */
/* link: proto/h1_scan_avx2.c proto/h1_scan_neon.c proto/h1_scan_scalar.c proto/h1_scan_sse2.c */
/* link: binding/host_llhttp.c */
#include "base/check.h"
#include "binding/host_llhttp.h"
#include "proto/h1_llhttp.h"
#include <stdlib.h>
#include <string.h>

enum { FIELDS_MAX = 100, INPUT_MAX = 65536 };

enum { /* what differs; h1_diff.mjs names them */
       DIFFERS_VERDICT = 1 << 0,
       DIFFERS_METHOD = 1 << 1,
       DIFFERS_TARGET = 1 << 2,
       DIFFERS_FIELDS = 1 << 3,
       DIFFERS_FRAMING = 1 << 4,
       DIFFERS_PERSISTENCE = 1 << 5,
       DIFFERS_REST = 1 << 6,
       DIFFERS_OURS_CUT = 1 << 7,
       DIFFERS_THEIRS_CUT = 1 << 8,
       DIFFERS_BODY = 1 << 9
};

typedef struct outcome {
    mr_rc rc;
    mr_h1_head head;
    mr_h1_field fields[FIELDS_MAX];
} outcome;

typedef struct body { /* what a decoder made of the bytes behind a head */
    mr_rc rc;
    size_t end; /* from the first byte of the message */
    size_t content_len;
    uint8_t content[INPUT_MAX];
} body;

typedef struct input {
    const mr_h1_limits *limits;
    size_t step;
    const uint8_t *bytes;
    size_t len;
} input;

static const mr_h1_limits limits_table[4] = {
    {16384, 100, 8192}, {16384, 3, 8192}, {200, 100, 40}, {90, 4, 200}};

/* Tests may have globals; one process runs one thread of this. */
static mr_h1_llhttp llhttp;
static const char *refusal = "not looked for yet";
static outcome ours, theirs;

static void *scanner(void) { return (void *)(uintptr_t)mr_h1_scan_best(); }

/* A copy of exactly the bytes so far, so that a read behind them is seen by a sanitizer. */
static void parse(const mr_h1_parser *parser, void *self, const input *in, size_t len, size_t seen,
                  outcome *out) {
    uint8_t *copy = malloc(len + (len == 0));
    MR_ASSERT(copy != NULL);
    memcpy(copy, in->bytes, len);
    memset(out, 0, sizeof *out);
    out->rc = parser->parse_head(self, in->limits, copy, len, seen, &out->head, out->fields);
    free(copy);
}

static bool is_equal(const outcome *a, const outcome *b) {
    if (a->rc != b->rc || a->head.status != b->head.status)
        return false;
    return a->rc != MR_OK || (memcmp(&a->head, &b->head, sizeof a->head) == 0 &&
                              memcmp(a->fields, b->fields, sizeof a->fields) == 0);
}

/* Whether delivery in pieces comes to the same end. */
static bool is_same_cut(const mr_h1_parser *parser, void *self, const input *in,
                        const outcome *whole) {
    static outcome out;
    size_t seen = 0, now = in->step < in->len ? in->step : in->len;
    for (;;) {
        parse(parser, self, in, now, seen, &out);
        if (out.rc != MR_AGAIN || now == in->len)
            return is_equal(&out, whole);
        seen = now;
        now = in->len - now > in->step ? now + in->step : in->len;
    }
}

static unsigned compare_heads(void) {
    const mr_h1_head *a = &ours.head, *b = &theirs.head;
    const uint32_t framing = MR_H1_HAS_LENGTH | MR_H1_CHUNKED;
    const uint32_t persistence = MR_H1_KEEP_ALIVE | MR_H1_SAID_KEEP_ALIVE;
    unsigned found = 0;
    if (a->method != b->method || a->method_off != b->method_off || a->method_len != b->method_len)
        found |= DIFFERS_METHOD;
    if (a->target_off != b->target_off || a->target_len != b->target_len || a->form != b->form ||
        a->path_off != b->path_off || a->path_len != b->path_len || a->query_off != b->query_off ||
        a->query_len != b->query_len || a->host_off != b->host_off || a->host_len != b->host_len)
        found |= DIFFERS_TARGET;
    if (a->field_count != b->field_count ||
        memcmp(ours.fields, theirs.fields, sizeof ours.fields[0] * a->field_count) != 0)
        found |= DIFFERS_FIELDS;
    if ((a->flags & framing) != (b->flags & framing) || a->content_length != b->content_length)
        found |= DIFFERS_FRAMING;
    if ((a->flags & persistence) != (b->flags & persistence))
        found |= DIFFERS_PERSISTENCE;
    if (a->head_len != b->head_len || a->minor != b->minor ||
        (a->flags & ~(framing | persistence)) != (b->flags & ~(framing | persistence)))
        found |= DIFFERS_REST;
    return found;
}

static void decode(const input *in, body *out) {
    mr_h1_chunked ch = {0};
    size_t at = ours.head.head_len;
    bool is_done = false;
    out->content_len = 0;
    out->rc = MR_OK;
    while (!is_done && out->rc == MR_OK) {
        const uint8_t *data;
        size_t used, data_len;
        out->rc = mr_h1_chunked_next(&ch, in->limits, in->bytes + at, in->len - at, &used, &data,
                                     &data_len, &is_done);
        memcpy(out->content + out->content_len, data, data_len);
        out->content_len += data_len;
        at += used;
        if (out->rc == MR_OK && !is_done && at == in->len)
            out->rc = MR_AGAIN;
    }
    out->end = at;
}

static bool is_same_body(const input *in) {
    static body a, b;
    decode(in, &a);
    b.rc =
        mr_h1_llhttp_read_message(&llhttp, in->bytes, in->len, b.content, &b.content_len, &b.end);
    if (a.rc != MR_OK || b.rc != MR_OK)
        return (a.rc == MR_LIMIT ? MR_BADPEER : a.rc) == b.rc;
    return a.end == b.end && a.content_len == b.content_len &&
           memcmp(a.content, b.content, a.content_len) == 0;
}

static unsigned compare(const input *in) {
    unsigned found = 0;
    parse(&mr_h1_parser_millrace, scanner(), in, in->len, 0, &ours);
    parse(&mr_h1_parser_llhttp, &llhttp, in, in->len, 0, &theirs);
    if (!is_same_cut(&mr_h1_parser_millrace, scanner(), in, &ours))
        found |= DIFFERS_OURS_CUT;
    if (!is_same_cut(&mr_h1_parser_llhttp, &llhttp, in, &theirs))
        found |= DIFFERS_THEIRS_CUT;
    bool is_same = ours.rc == theirs.rc || (ours.rc >= MR_LIMIT && theirs.rc >= MR_LIMIT);
    if (!is_same)
        return found | DIFFERS_VERDICT;
    if (ours.rc != MR_OK)
        return found;
    found |= compare_heads();
    if ((ours.head.flags & theirs.head.flags & MR_H1_CHUNKED) != 0 && !is_same_body(in))
        found |= DIFFERS_BODY;
    return found;
}

static bool read_input(const uint8_t *bytes, size_t size, input *in) {
    if (size < 2 || size > INPUT_MAX)
        return false;
    *in = (input){&limits_table[bytes[0] & 3], bytes[1] + 1u, bytes + 2, size - 2};
    return true;
}

static bool find_llhttp(void) {
    mr_llhttp_api api = {0};
    mr_host_llhttp_find(&api);
    return mr_h1_llhttp_init(&llhttp, &api, &refusal) == MR_OK;
}

/* The stand-alone harness. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    input in;
    if (!read_input(bytes, size, &in))
        return 0;
    parse(&mr_h1_parser_millrace, scanner(), &in, in.len, 0, &ours);
    MR_ASSERT(is_same_cut(&mr_h1_parser_millrace, scanner(), &in, &ours));
    return 0;
}

#ifdef MR_DIFF_ADDON

#include <node_api.h>

static bool bytes_of(napi_env env, napi_callback_info info, input *in) {
    size_t count = 1, size = 0;
    napi_value value;
    void *bytes = NULL;
    return napi_get_cb_info(env, info, &count, &value, NULL, NULL) == napi_ok && count == 1 &&
           napi_get_buffer_info(env, value, &bytes, &size) == napi_ok &&
           read_input(bytes, size, in);
}

static napi_value number(napi_env env, double value) {
    napi_value out = NULL;
    (void)napi_create_double(env, value, &out);
    return out;
}

/* compare(input) -> bits of what differs */
static napi_value call_compare(napi_env env, napi_callback_info info) {
    input in;
    return bytes_of(env, info, &in) ? number(env, compare(&in)) : NULL;
}

/* verdicts(input) -> Uint32Array of both sides' rc, status, flags, head_len, target_off,
 * target_len, method_off, method_len; after compare() of the same input */
static napi_value call_verdicts(napi_env env, napi_callback_info info) {
    napi_value list, out = NULL;
    void *data;
    (void)info;
    if (napi_create_arraybuffer(env, 16 * sizeof(uint32_t), &data, &list) != napi_ok ||
        napi_create_typedarray(env, napi_uint32_array, 16, list, 0, &out) != napi_ok)
        return NULL;
    for (int side = 0; side < 2; side++) {
        const outcome *o = side == 0 ? &ours : &theirs;
        uint32_t row[8] = {o->rc,
                           o->head.status,
                           o->head.flags,
                           o->head.head_len,
                           o->head.target_off,
                           o->head.target_len,
                           o->head.method_off,
                           o->head.method_len};
        memcpy((uint8_t *)data + (size_t)side * sizeof row, row, sizeof row);
    }
    return out;
}

/* open() -> why llhttp cannot be used, '' when it can */
static napi_value call_open(napi_env env, napi_callback_info info) {
    napi_value out = NULL;
    (void)info;
    (void)napi_create_string_utf8(env, find_llhttp() ? "" : refusal, NAPI_AUTO_LENGTH, &out);
    return out;
}

/* sizes() -> [settings, parser] */
static napi_value call_layout(napi_env env, napi_callback_info info) {
    napi_value out = NULL;
    (void)info;
    if (napi_create_array(env, &out) != napi_ok)
        return NULL;
    (void)napi_set_element(env, out, 0, number(env, (double)llhttp.settings_bytes));
    (void)napi_set_element(env, out, 1, number(env, (double)llhttp.parser_bytes));
    for (uint32_t role = 0; role < MR_LLHTTP_ROLES; role++)
        (void)napi_set_element(env, out, 2 + role, number(env, llhttp.slots[role]));
    return out;
}

NAPI_MODULE_INIT() {
    static const struct {
        const char *name;
        napi_callback call;
    } calls[] = {{"open", call_open},
                 {"compare", call_compare},
                 {"verdicts", call_verdicts},
                 {"layout", call_layout}};
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        napi_value function;
        if (napi_create_function(env, calls[i].name, NAPI_AUTO_LENGTH, calls[i].call, NULL,
                                 &function) != napi_ok ||
            napi_set_named_property(env, exports, calls[i].name, function) != napi_ok)
            return NULL;
    }
    return exports;
}

#endif
