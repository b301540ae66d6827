/* h1_chunked.c -- fuzzes the chunked decoder: whole, cut and octet by octet must agree.
 * Input: one octet that picks the limits, one that picks the cuts, then the bytes received. */
#include "base/text.c"
#include "proto/h1_chunked.c"
#include "base/check.h"
#include <stdlib.h>
#include <string.h>
#include "replay.h"

enum { CONTENT_MAX = 1 << 20 };

typedef struct outcome {
    mr_rc rc;
    uint16_t status;
    bool is_done;
    size_t taken, content_len;
    uint8_t content[CONTENT_MAX];
} outcome;

static const mr_h1_limits limits_table[4] = {
    {16384, 100, 8192}, {16384, 2, 8192}, {40, 100, 40}, {2, 0, 200}};

/* One received piece, in memory of exactly its size. */
static void feed_piece(mr_h1_chunked *ch, const mr_h1_limits *limits, const uint8_t *piece,
                       size_t len, outcome *out) {
    uint8_t *copy = malloc(len);
    size_t at = 0;
    MR_ASSERT(copy != NULL);
    memcpy(copy, piece, len);
    do {
        const uint8_t *data;
        size_t consumed, data_len;
        uint64_t left = ch->left;
        out->rc = mr_h1_chunked_next(ch, limits, copy + at, len - at, &consumed, &data, &data_len,
                                     &out->is_done);
        MR_ASSERT(consumed <= len - at && data_len <= consumed);
        MR_ASSERT(data_len == 0 || (data >= copy + at && data + data_len == copy + at + consumed));
        MR_ASSERT(out->rc != MR_OK || out->is_done || data_len > 0);
        MR_ASSERT(out->rc != MR_AGAIN || (consumed == len - at && data_len == 0));
        MR_ASSERT(ch->left <= INT64_MAX && (left == 0 || data_len == 0 || consumed > 0));
        memcpy(out->content + out->content_len, data, data_len);
        out->content_len += data_len;
        at += consumed;
        out->taken += consumed;
    } while (out->rc == MR_OK && !out->is_done && at < len);
    free(copy);
}

static void feed(outcome *out, const mr_h1_limits *limits, const uint8_t *bytes, size_t len,
                 size_t step) {
    mr_h1_chunked ch = {0};
    *out = (outcome){.rc = MR_AGAIN};
    for (size_t at = 0; at < len; at += step) {
        feed_piece(&ch, limits, bytes + at, len - at < step ? len - at : step, out);
        if (out->rc > MR_AGAIN || out->is_done)
            break;
    }
    if (out->rc == MR_OK && !out->is_done)
        out->rc = MR_AGAIN; /* the last piece was content */
    out->status = ch.status;
    MR_ASSERT((out->rc > MR_AGAIN) == (out->status != 0));
    MR_ASSERT(!out->is_done || memcmp(bytes + out->taken - 2, "\r\n", 2) == 0);
}

static void check_equal(const outcome *a, const outcome *b) {
    MR_ASSERT(a->rc == b->rc && a->status == b->status && a->is_done == b->is_done);
    MR_ASSERT(a->taken == b->taken && a->content_len == b->content_len);
    MR_ASSERT(memcmp(a->content, b->content, a->content_len) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size) {
    static outcome whole, cut;
    if (size < 3 || size > CONTENT_MAX)
        return 0;
    const mr_h1_limits *limits = &limits_table[input[0] & 3];
    feed(&whole, limits, input + 2, size - 2, size - 2);
    feed(&cut, limits, input + 2, size - 2, input[1] + 1u);
    check_equal(&cut, &whole);
    feed(&cut, limits, input + 2, size - 2, 1);
    check_equal(&cut, &whole);
    return 0;
}
