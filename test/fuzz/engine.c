/* engine.c -- octets to one connection of an engine, whole and in pieces.
 * Input:  octet 0: bit 0: no handler, all is answered 404; bit 1: the ring is full now and then;
 *                  bit 2: the client ends its side at the end; bit 3: answers are streamed; bit 4:
 *                  content is asked for in small parts; bit 5: content of answers is lent
 *         octet 1: size of the pieces, plus one; octets 2 and 3: seed of the order of answers and
 * of the room in the kernel; then what the client sends. Must agree: the requests handed up and the
 * octets that come back, but for 100 (Continue), which only those get who seem to wait; who expects
 * one and gets a 404 is closed without being read, or not when the content is there already, so
 * these are not compared. A request is answered when its content is complete; of others the content
 * is not compared, as how much of it was handed up depends on the pieces. Between turns the
 * invariants of engine_rig.h hold. */
/* link: engine/answer.c engine/content.c net/unsent.c proto/proxy.c */
/* link: engine/engine.c engine/h1.c engine/conn.c engine/out.c engine/route.c engine/reply.c */
/* link: net/sock.c proto/url.c proto/h1_write.c proto/h1_parse.c proto/h1_chunked.c */
/* link: proto/h1_scan.c proto/h1_scan_avx2.c proto/h1_scan_sse2.c proto/h1_scan_neon.c */
/* link: proto/h1_scan_scalar.c base/mem.c base/buf.c base/text.c base/slab.c base/wheel.c */
/* link: engine/journal.c engine/gate.c engine/fleet.c engine/balance.c engine/permits.c */
/* link: engine/fleet_show.c engine/mailbox.c engine/meter.c engine/series.c engine/rate.c */
/* link: engine/access_log.c engine/access_line.c engine/metrics_text.c engine/metrics_put.c */
#include "../c/engine_rig.h"

#include "base/text.h"

static const char interim[] = "HTTP/1.1 100 Continue\r\n\r\n";

typedef struct script {
    uint8_t how;
    size_t piece;
    uint32_t seed;
    const uint8_t *bytes;
    size_t len;
} script;

static uint32_t next(uint32_t *seed, uint32_t below) {
    *seed = *seed * 1103515245u + 12345u;
    return (*seed >> 16) % below;
}

enum { BODY = 40000, LOANS = 600 };

static struct {
    rig_lease loans[LOANS];
    uint32_t loan_count;
} answers;

static mr_rc write_part(const script *s, uint32_t index, size_t len) {
    static uint8_t body[BODY];
    const rig_request *q = &rig.requests[index];
    memset(body, 'x', len);
    if (!(s->how & 32) || answers.loan_count == LOANS)
        return mr_engine_write(rig.engine, q->connection, q->seq, body, len, NULL);
    rig_lease *l = &answers.loans[answers.loan_count++];
    rig_lend(l, len);
    memcpy(l->bytes, body, len);
    mr_rc rc = mr_engine_write(rig.engine, q->connection, q->seq, l->bytes, len, &l->lease);
    mr_lease_return(&l->lease);
    return rc;
}

/* The next step of the answer; what comes of all of them depends on the request alone. */
static void answer_one(const script *s, uint32_t index) {
    rig_request *q = &rig.requests[index];
    bool has_length = q->minor == 0 || q->seq % 2;
    char head[96];
    mr_response r = {.head = (const uint8_t *)head, .status = 200, .flags = MR_RESPONSE_STREAM};
    if (!(s->how & 8)) {
        q->is_answered = true;
        (void)rig_answer(index, "x");
        return;
    }
    switch (q->handler++ - 7) { /* counts its steps */
    case 0:
        r.head_len = (size_t)snprintf(head, sizeof head, "HTTP/1.1 200 OK\r\n%s",
                                      has_length ? "Content-Length: 40007\r\n" : "");
        r.flags |= has_length ? MR_RESPONSE_HAS_LENGTH : 0;
        rig_ignore(mr_engine_respond(rig.engine, q->connection, q->seq, &r));
        break;
    case 1:
        (void)write_part(s, index, 7);
        rig_ignore(mr_engine_watch_drain(rig.engine, q->connection, q->seq));
        break;
    case 2:
        (void)write_part(s, index, BODY);
        break;
    default:
        rig_ignore(mr_engine_finish(rig.engine, q->connection, q->seq, NULL, 0));
        q->is_answered = true;
    }
}

/* Answers open requests; with a seed: some of them, in its order. */
static void answer_some(const script *s, uint32_t *seed, bool is_ended) {
    for (uint32_t n = 0; n < rig.request_count; n++) {
        uint32_t i = seed != NULL ? next(seed, rig.request_count) : n;
        const rig_request *q = &rig.requests[i];
        bool is_due = q->is_complete || is_ended;
        while (is_due && !q->is_answered && (seed == NULL || next(seed, 3) != 0))
            answer_one(s, i);
    }
}

/* As the seed has it, for all content or for a few octets. */
static void ask_some(const script *s, uint32_t *seed) {
    for (uint32_t i = 0; i < rig.request_count; i++)
        if (rig.requests[i].is_streamed && !rig.requests[i].is_complete)
            (void)rig_ask(i, (s->how & 16) && seed != NULL ? 1 + next(seed, 20) : MR_WINDOW_MAX);
}

static void set_room(const script *s, uint32_t *seed) {
    rig.request_room = (s->how & 2) && next(seed, 3) == 0 ? next(seed, 3) : UINT32_MAX;
    rig.content_room = (s->how & 2) && next(seed, 3) == 0 ? next(seed, 3) : UINT32_MAX;
    rig.lines[0].room = next(seed, 2) ? SIZE_MAX : next(seed, 300);
}

/* Everything is answered and sent; then the client may end. */
static void finish(const script *s) {
    rig.request_room = rig.content_room = UINT32_MAX;
    rig.lines[0].room = SIZE_MAX;
    rig.piece = SIZE_MAX;
    for (int end = 0; end < 2; end++) {
        bool is_ended = (s->how & 4) && end == 1;
        for (uint32_t before = UINT32_MAX; before != rig.request_count;) {
            before = rig.request_count;
            ask_some(s, NULL);
            rig_turn();
            answer_some(s, NULL, is_ended);
            rig_turn();
            rig_turn();
        }
        const mr_conn *c = (const mr_conn *)rig.lines[0].link;
        CHECK(c == NULL || mr_conn_in_flight(c) == 0 || (c->incoming != NULL && !is_ended));
        if (s->how & 4)
            rig_end_input(0);
    }
    CHECK(!(s->how & 4) || rig.lines[0].link == NULL);
    rig_pass(400000);
    rig_pass(400000);
    CHECK(mr_slab_count(rig.engine->conns) == 0); /* no time-out is missing */
}

static void run(const script *s, bool is_whole) {
    uint32_t seed = s->seed;
    mr_engine_options o = rig_options();
    o.limits.held_bytes = 1u << 30; /* so that the order of answers closes no connection */
    rig_open(is_whole ? "whole" : "in pieces", &o);
    if (s->how & 1)
        mr_engine_set_routes(rig.engine, NULL, MR_NO_HANDLER, 0);
    (void)rig_connect();
    for (size_t at = 0; at < s->len;) {
        size_t part = is_whole || s->len - at < s->piece ? s->len - at : s->piece;
        rig_send_bytes(0, s->bytes + at, part);
        at += part;
        if (is_whole) {
            rig_turn();
        } else {
            set_room(s, &seed);
            rig_poll();
            if (next(&seed, 2))
                ask_some(s, &seed);
            answer_some(s, &seed, false);
            if (next(&seed, 3) > 0)
                rig_settle();
        }
    }
    finish(s);
}

/* What came of a run: the requests and the octets, as one text. */
static rig_bytes take_result(void) {
    rig_bytes all = {0};
    const rig_line *l = &rig.lines[0];
    for (uint32_t i = 0; i < rig.request_count; i++) {
        const rig_request *q = &rig.requests[i];
        rig_append(&all, &q->method, 1);
        rig_append(&all, q->path, sizeof q->path);
        rig_append(&all, &q->is_complete, sizeof q->is_complete);
        if (!q->is_complete)
            continue;
        rig_append(&all, &q->body_len, sizeof q->body_len);
        rig_append(&all, q->body, q->body_len);
        rig_append(&all, q->trailers.data, q->trailers.len);
    }
    for (size_t at = 0; at < l->got.len; at++) {
        size_t len = sizeof interim - 1;
        if (l->got.len - at >= len && memcmp(l->got.data + at, interim, len) == 0)
            at += len - 1;
        else
            rig_append(&all, l->got.data + at, 1);
    }
    return all;
}

/* An Expect that no handler will honour: what happens depends on when the content comes. */
static bool is_timing(const script *s) {
    static const char word[] = "100-continue";
    for (size_t at = 0; (s->how & 1) && at + sizeof word - 1 <= s->len; at++)
        if (mr_equals_lower(s->bytes + at, word, sizeof word - 1))
            return true;
    return false;
}

static rig_bytes result_of(const script *s, bool is_whole) {
    answers.loan_count = 0;
    run(s, is_whole);
    rig_bytes result = take_result();
    rig_close();
    for (uint32_t i = 0; i < answers.loan_count; i++)
        CHECK(answers.loans[i].is_returned);
    return result;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 4 || size > 20000)
        return 0;
    script s = {.how = data[0],
                .piece = (size_t)data[1] + 1,
                .seed = (uint32_t)data[2] << 8 | data[3],
                .bytes = data + 4,
                .len = size - 4};
    rig_bytes whole = result_of(&s, true), pieces = result_of(&s, false);
    CHECK(whole.len == pieces.len || is_timing(&s));
    CHECK(whole.len == 0 || is_timing(&s) || memcmp(whole.data, pieces.data, whole.len) == 0);
    free(whole.data);
    free(pieces.data);
    return 0;
}
