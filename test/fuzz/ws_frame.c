/* ws_frame.c -- fuzzes the frames of a WebSocket client: whole, cut and octet by octet must tell
 * the same messages and the same error; and the scanners of UTF-8, which must agree on the same
 * octets. Input: one octet that picks the rules (the low three bits), one that picks the cuts, then
 * the bytes received. */
#include "proto/ws_frame.c"
#include "proto/ws_utf8.c"
#include "proto/ws_utf8_avx2.c"
#include "proto/ws_utf8_neon.c"
#include "proto/ws_utf8_sse2.c"
#include <stdlib.h>
#include "replay.h"

enum { FED_MAX = 1 << 18, LOG_MAX = 4 * FED_MAX };

typedef struct outcome {
    mr_rc rc;
    uint16_t error;
    size_t len, open_len; /* octets of log and of open */
    bool is_open;         /* a message has begun */
    uint8_t log[LOG_MAX]; /* events in order, messages where they end */
    uint8_t open[FED_MAX];
} outcome;

static const mr_ws_rules rules_table[4] = {
    {.max_payload = UINT32_MAX, .max_fragments = UINT32_MAX},
    {.max_payload = 1 << 20, .max_fragments = 1000, .is_deflate = true},
    {.max_payload = 40, .max_fragments = 3, .is_deflate = true},
    {.max_payload = 200, .max_fragments = 1}};

static void put(outcome *out, const void *bytes, size_t len) {
    MR_ASSERT(len <= LOG_MAX - out->len);
    if (len > 0)
        memcpy(out->log + out->len, bytes, len);
    out->len += len;
}

static void note_data(outcome *out, const mr_ws_event *e) {
    MR_ASSERT(e->is_first == !out->is_open && (e->len > 0 || e->is_last));
    if (e->is_first)
        out->open_len = 0;
    MR_ASSERT(e->len <= FED_MAX - out->open_len);
    memcpy(out->open + out->open_len, e->data, e->len);
    out->open_len += e->len;
    out->is_open = !e->is_last;
    if (out->is_open)
        return;
    uint8_t kind[2] = {e->is_text, e->is_compressed};
    if (e->is_text && !e->is_compressed) {
        mr_ws_utf8 text = {0};
        MR_ASSERT(mr_ws_utf8_take(&mr_ws_utf8_scalar, &text, out->open, out->open_len) ==
                  out->open_len);
        MR_ASSERT(mr_ws_utf8_is_whole(&text));
    }
    put(out, kind, sizeof kind);
    put(out, &out->open_len, sizeof out->open_len);
    put(out, out->open, out->open_len);
}

static void note(outcome *out, const mr_ws_event *e) {
    uint8_t head[5] = {(uint8_t)e->kind, 0xee, (uint8_t)(e->code >> 8), (uint8_t)e->code,
                       (uint8_t)e->len};
    if (e->kind == MR_WS_ON_DATA) {
        note_data(out, e);
        return;
    }
    MR_ASSERT(e->len <= MR_WS_CONTROL_MAX);
    put(out, head, sizeof head);
    put(out, e->data, e->len);
}

/* One received piece, in memory of exactly its size. Returns false when the connection is over. */
static bool feed_piece(outcome *out, mr_ws_frame *frame, const mr_ws_rules *rules, uint8_t **held,
                       const uint8_t *piece, size_t len) {
    uint8_t *copy = malloc(len);
    size_t at = 0, consumed;
    mr_ws_event e;
    MR_ASSERT(copy != NULL);
    memcpy(copy, piece, len);
    do {
        if (!mr_ws_frame_holds(frame) && *held != NULL && frame->left == 0) {
            free(*held);
            *held = NULL;
        }
        out->rc = mr_ws_frame_next(frame, rules, *held, copy + at, len - at, &consumed, &e);
        MR_ASSERT(consumed <= len - at && (out->rc != MR_AGAIN || consumed == len - at));
        at += consumed;
        if (out->rc == MR_OK && e.kind == MR_WS_ON_HOLD) {
            MR_ASSERT(*held == NULL && at < len);
            MR_ASSERT((*held = malloc(MR_WS_CONTROL_MAX)) != NULL);
        } else if (out->rc == MR_OK) {
            note(out, &e);
        }
    } while (out->rc == MR_OK);
    out->error = out->rc > MR_AGAIN ? e.code : 0;
    free(copy);
    return out->rc == MR_AGAIN;
}

static void feed(outcome *out, const mr_ws_rules *rules, const uint8_t *bytes, size_t len,
                 size_t step) {
    mr_ws_frame frame = {0};
    uint8_t *held = NULL;
    out->rc = MR_AGAIN;
    out->len = out->open_len = 0;
    out->is_open = false;
    for (size_t at = 0; at < len; at += step)
        if (!feed_piece(out, &frame, rules, &held, bytes + at, len - at < step ? len - at : step))
            break;
    MR_ASSERT(out->rc == MR_AGAIN || out->error == 1002 || out->error == 1007 ||
              out->error == 1009);
    free(held);
}

static void check_equal(const outcome *a, const outcome *b) {
    MR_ASSERT(a->rc == b->rc && a->error == b->error && a->len == b->len);
    MR_ASSERT(memcmp(a->log, b->log, a->len) == 0);
    if (a->rc != MR_AGAIN) /* what of an unfinished message came before the error is open */
        return;
    MR_ASSERT(a->is_open == b->is_open);
    MR_ASSERT(!a->is_open ||
              (a->open_len == b->open_len && memcmp(a->open, b->open, a->open_len) == 0));
}

/* ---- UTF-8 ---- */

static size_t take(const mr_ws_utf8_scan *scan, mr_ws_utf8 *state, const uint8_t *bytes, size_t len,
                   size_t step) {
    *state = (mr_ws_utf8){0};
    for (size_t at = 0; at < len; at += step) {
        size_t piece = len - at < step ? len - at : step;
        size_t stop = mr_ws_utf8_take(scan, state, bytes + at, piece);
        MR_ASSERT(stop <= piece);
        if (stop < piece)
            return at + stop;
    }
    return len;
}

static void check_utf8(const uint8_t *bytes, size_t len, size_t step) {
    static const char *const names[] = {"scalar", "sse2", "avx2", "neon"};
    mr_ws_utf8 state, twin;
    size_t stop = take(&mr_ws_utf8_scalar, &twin, bytes, len, 1);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const mr_ws_utf8_scan *scan = mr_ws_utf8_named(names[i]);
        for (int whole = 0; scan != NULL && whole < 2; whole++) {
            MR_ASSERT(take(scan, &state, bytes, len, whole ? len : step) == stop);
            MR_ASSERT(state.need == twin.need);
            MR_ASSERT(state.need == 0 || (state.low == twin.low && state.high == twin.high));
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size) {
    static outcome whole, cut;
    if (size < 3 || size - 2 > FED_MAX)
        return 0;
    mr_ws_rules rules = rules_table[input[0] & 3];
    rules.utf8 = (input[0] & 4) != 0 ? &mr_ws_utf8_scalar : mr_ws_utf8_best();
    feed(&whole, &rules, input + 2, size - 2, size - 2);
    feed(&cut, &rules, input + 2, size - 2, input[1] + 1u);
    check_equal(&cut, &whole);
    rules.utf8 = &mr_ws_utf8_scalar;
    feed(&cut, &rules, input + 2, size - 2, 1);
    check_equal(&cut, &whole);
    check_utf8(input + 2, size - 2, input[1] + 1u);
    return 0;
}
