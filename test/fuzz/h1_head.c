/* h1_head.c -- fuzzes the request head parser: every scanner, whole and cut, must agree.
 * Input: one octet that picks the limits, one that picks the cuts, then the bytes received. */
#include "base/text.c"
#include "proto/h1_parse.c"
#include "proto/h1_scan.c"
#include "proto/h1_scan_avx2.c"
#include "proto/h1_scan_neon.c"
#include "proto/h1_scan_scalar.c"
#include "proto/h1_scan_sse2.c"
#include <stdlib.h>
#include "replay.h"

enum { FIELDS_MAX = 100 };

typedef struct outcome {
    mr_rc rc;
    mr_h1_head head;
    mr_h1_field fields[FIELDS_MAX];
} outcome;

static const mr_h1_limits limits_table[4] = {
    {16384, 100, 8192}, {16384, 3, 8192}, {200, 100, 40}, {90, 4, 200}};

static void check_equal(const outcome *a, const outcome *b) {
    MR_ASSERT(a->rc == b->rc && a->head.status == b->head.status);
    if (a->rc != MR_OK)
        return;
    MR_ASSERT(memcmp(&a->head, &b->head, sizeof a->head) == 0);
    for (unsigned i = 0; i < a->head.field_count; i++)
        MR_ASSERT(memcmp(&a->fields[i], &b->fields[i], sizeof a->fields[i]) == 0);
}

/* A copy of exactly the bytes so far, so that a read behind them is seen. */
static void parse(outcome *out, const mr_h1_scan *scan, const mr_h1_limits *limits,
                  const uint8_t *bytes, size_t len, size_t seen) {
    uint8_t *copy = malloc(len + (len == 0));
    MR_ASSERT(copy != NULL);
    memcpy(copy, bytes, len);
    memset(out, 0, sizeof *out);
    out->rc = mr_h1_parse_head(scan, limits, copy, len, seen, &out->head, out->fields);
    free(copy);
}

static void check_span(const uint8_t *bytes, const mr_h1_head *head, size_t off, size_t len) {
    MR_ASSERT(off + len <= head->head_len);
    for (size_t i = off; i < off + len; i++)
        MR_ASSERT((bytes[i] >= 0x20 && bytes[i] != 0x7f) || bytes[i] == '\t');
}

static void check_fields(const uint8_t *bytes, const outcome *out) {
    const mr_h1_head *head = &out->head;
    for (unsigned i = 0; i < head->field_count; i++) {
        const mr_h1_field *f = &out->fields[i];
        check_span(bytes, head, f->name_off, f->name_len);
        check_span(bytes, head, f->value_off, f->value_len);
        MR_ASSERT(f->name_len > 0 && f->value_off > f->name_off + f->name_len);
        MR_ASSERT(bytes[f->name_off + f->name_len] == ':');
        MR_ASSERT(memcmp(bytes + f->name_off - 2, "\r\n", 2) == 0);
        for (unsigned n = 0; n < f->name_len; n++)
            MR_ASSERT(mr_is_tchar(bytes[f->name_off + n]));
        if (f->value_len == 0)
            continue;
        uint8_t first = bytes[f->value_off], last = bytes[f->value_off + f->value_len - 1];
        MR_ASSERT(first != ' ' && first != '\t' && last != ' ' && last != '\t');
    }
}

static void check_ok(const uint8_t *bytes, const mr_h1_limits *limits, const outcome *out) {
    const mr_h1_head *head = &out->head;
    MR_ASSERT(head->status == 0 && head->head_len >= 16 && head->head_len <= limits->header_bytes);
    MR_ASSERT(memcmp(bytes + head->head_len - 4, "\r\n\r\n", 4) == 0);
    MR_ASSERT(head->method < MR_METHOD_COUNT && head->minor <= 1 && head->form <= MR_FORM_ASTERISK);
    MR_ASSERT(head->method_len > 0 && head->target_len > 0);
    MR_ASSERT(head->target_len <= limits->target_bytes);
    MR_ASSERT(head->field_count <= limits->header_count);
    MR_ASSERT((head->flags & MR_H1_HAS_LENGTH) == 0 || (head->flags & MR_H1_CHUNKED) == 0);
    MR_ASSERT((head->flags & MR_H1_HAS_LENGTH) != 0 || head->content_length == 0);
    MR_ASSERT(head->content_length <= INT64_MAX);
    check_span(bytes, head, head->method_off, head->method_len);
    check_span(bytes, head, head->target_off, head->target_len);
    check_span(bytes, head, head->path_off, head->path_len);
    check_span(bytes, head, head->query_off, head->query_len);
    check_span(bytes, head, head->host_off, head->host_len);
    MR_ASSERT(head->path_len == 0 || bytes[head->path_off] == '/');
    MR_ASSERT(head->query_off == 0 || bytes[head->query_off - 1] == '?');
    check_fields(bytes, out);
}

static void check_cut(const mr_h1_scan *scan, const mr_h1_limits *limits, const uint8_t *bytes,
                      size_t len, size_t step, const outcome *whole) {
    static outcome out;
    size_t seen = 0, now = step < len ? step : len;
    for (;;) {
        parse(&out, scan, limits, bytes, now, seen);
        if (out.rc != MR_AGAIN || now == len)
            break;
        seen = now;
        now = len - now > step ? now + step : len;
    }
    check_equal(&out, whole);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size) {
    static const char *const names[] = {"sse2", "avx2", "neon"};
    static outcome wanted, out;
    if (size < 2)
        return 0;
    const mr_h1_limits *limits = &limits_table[input[0] & 3];
    const uint8_t *bytes = input + 2;
    size_t len = size - 2, step = input[1] + 1u;
    const mr_h1_scan *scalar = mr_h1_scan_named("scalar");
    parse(&wanted, scalar, limits, bytes, len, 0);
    MR_ASSERT(wanted.rc == MR_OK || wanted.rc == MR_AGAIN ||
              wanted.rc ==
                  (wanted.head.status == 414 || wanted.head.status == 431 ? MR_LIMIT : MR_BADPEER));
    if (wanted.rc == MR_OK)
        check_ok(bytes, limits, &wanted);
    check_cut(scalar, limits, bytes, len, step, &wanted);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const mr_h1_scan *scan = mr_h1_scan_named(names[i]);
        if (scan == NULL)
            continue;
        parse(&out, scan, limits, bytes, len, 0);
        check_equal(&out, &wanted);
        check_cut(scan, limits, bytes, len, step, &wanted);
        if (len < 600)
            check_cut(scan, limits, bytes, len, 1, &wanted);
    }
    return 0;
}
