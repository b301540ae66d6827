/* out_test.c -- the output of a turn: one send for each connection, short writes, large content by
 * reference, and the bounds of all of it. */
/* link: engine/engine.c engine/h1.c engine/conn.c engine/route.c engine/reply.c net/sock.c */
/* link: engine/answer.c engine/content.c net/unsent.c proto/proxy.c */
/* link: proto/url.c proto/h1_write.c proto/h1_parse.c proto/h1_chunked.c proto/h1_scan.c */
/* link: proto/h1_scan_avx2.c proto/h1_scan_sse2.c proto/h1_scan_neon.c proto/h1_scan_scalar.c */
/* link: base/mem.c base/buf.c base/text.c base/slab.c base/wheel.c */
/* link: engine/journal.c engine/gate.c engine/fleet.c engine/balance.c engine/permits.c */
/* link: engine/fleet_show.c engine/mailbox.c engine/meter.c engine/series.c engine/rate.c */
/* link: engine/access_log.c engine/access_line.c engine/metrics_text.c engine/metrics_put.c */
#include "engine/out.c"

#include "engine_rig.h"

/* Content whose octets tell their place. */
static uint8_t *pattern(size_t len) {
    uint8_t *bytes = malloc(len);
    CHECK(bytes != NULL);
    for (size_t i = 0; i < len; i++)
        bytes[i] = (uint8_t)(i * 7 + i / 251);
    return bytes;
}

static void append_ok(rig_bytes *to, const uint8_t *body, size_t len) {
    char head[256];
    int head_len = snprintf(head, sizeof head,
                            "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n" RIG_DATE "\r\n", len);
    rig_append(to, head, (size_t)head_len);
    rig_append(to, body, len);
}

/* Answers in any order over many connections leave in one send each. */
static void one_send(void) {
    rig_open("one send", NULL);
    for (uint32_t i = 0; i < 50; i++)
        rig_send(rig_connect(), RIG_GET RIG_GET RIG_GET);
    rig_turn();
    CHECK(rig.request_count == 150);
    for (uint32_t k = 0; k < 150; k++)
        CHECK(rig_answer(k * 49 % 150, "x") == MR_OK);
    rig_turn();
    for (uint32_t i = 0; i < 50; i++) {
        char text[1024];
        snprintf(text, sizeof text, "%s%s%s", rig_ok("x", false), rig_ok("x", false),
                 rig_ok("x", false));
        CHECK(rig_got(i, text) && rig.lines[i].send_calls == 1);
    }
    rig_close();
}

/* Content of `len` octets, the kernel taking `room` at a time, in or out of turn. */
static void short_writes(size_t len, size_t room, bool is_held, bool is_last) {
    uint8_t *body = pattern(len);
    rig_bytes want = {0};
    rig_open("short writes", NULL);
    uint32_t a = rig_connect();
    rig.lines[a].room = room;
    rig_send(a, RIG_GET);
    rig_send(a, is_last ? "GET /a HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n" : RIG_GET);
    rig_turn();
    CHECK(rig_answer_with(is_held ? 1 : 0, body, len, 0) == MR_OK);
    CHECK(rig_answer_with(is_held ? 0 : 1, body, len, 0) == MR_OK);
    memset(body, 0, len); /* it was borrowed for the call only */
    free(body);
    rig_turn();
    while (rig.lines[a].link != NULL && rig.lines[a].link->unsent != NULL) {
        CHECK(!rig.lines[a].has_fin);
        rig.lines[a].room = room;
        rig_turn();
    }
    body = pattern(len);
    append_ok(&want, body, len);
    if (!is_last) {
        append_ok(&want, body, len);
    } else {
        char head[256];
        int head_len =
            snprintf(head, sizeof head,
                     "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n" RIG_DATE RIG_CLOSE "\r\n", len);
        rig_append(&want, head, (size_t)head_len);
        rig_append(&want, body, len);
    }
    CHECK(rig_got_bytes(a, want.data, want.len));
    CHECK(rig.lines[a].has_fin == is_last);
    free(body);
    free(want.data);
    rig_close();
}

static void all_short_writes(void) {
    static const size_t sizes[] = {1, 100, MR_OUT_COPY_MAX, MR_OUT_COPY_MAX + 1,
                                   3 * MR_OUT_BYTES / 2};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int how = 0; how < 4; how++) {
            short_writes(sizes[i], SIZE_MAX, how & 1, how & 2);
            short_writes(sizes[i], sizes[i] > 1000 ? 7919 : 1, how & 1, how & 2);
            short_writes(sizes[i], sizes[i] / 2 + 1, how & 1, how & 2);
        }
}

/* More than the arena holds, in one turn, spread over connections. */
static void arena_overflows(void) {
    enum { LINES = 40 };
    uint8_t *body = pattern(MR_OUT_COPY_MAX);
    rig_open("arena overflows", NULL);
    for (uint32_t i = 0; i < LINES; i++)
        rig_send(rig_connect(), RIG_GET RIG_GET);
    rig_turn();
    for (uint32_t k = 0; k < 2; k++) /* each connection twice, far apart */
        for (uint32_t i = 0; i < LINES; i++)
            CHECK(rig_answer_with(2 * i + k, body + k, MR_OUT_COPY_MAX - 1000 - i, 0) == MR_OK);
    rig_turn();
    for (uint32_t i = 0; i < LINES; i++) {
        rig_bytes want = {0};
        for (uint32_t k = 0; k < 2; k++)
            append_ok(&want, body + k, MR_OUT_COPY_MAX - 1000 - i);
        CHECK(rig_got_bytes(i, want.data, want.len));
        free(want.data);
    }
    free(body);
    rig_close();
}

/* More pieces than there is room for: two connections take turns. */
static void pieces_overflow(void) {
    rig_open("pieces overflow", NULL);
    uint32_t a = rig_connect(), b = rig_connect();
    rig_bytes want = {0};
    uint8_t *big = pattern(MR_OUT_COPY_MAX + 1);
    for (uint32_t round = 0; round < 40; round++) {
        for (uint32_t i = 0; i < MR_PIPELINE_MAX; i++) {
            rig_send(a, RIG_GET);
            rig_send(b, RIG_GET);
        }
        rig_poll();
        uint32_t base = rig.request_count - 2 * MR_PIPELINE_MAX;
        for (uint32_t i = 0; i < MR_PIPELINE_MAX; i++) {
            CHECK(rig_answer(base + i, "x") == MR_OK);
            CHECK(rig_answer(base + MR_PIPELINE_MAX + i, "x") == MR_OK);
            append_ok(&want, (const uint8_t *)"x", 1);
        }
        /* No flush in between: the pieces of the rounds add up. */
        CHECK(rig.engine->out.piece_count <= MR_OUT_PIECES);
        for (uint32_t i = 0; i < rig.request_count; i++)
            rig_forget_request(i);
        rig.request_count = 0;
    }
    /* With the pieces as full as they get, a borrowed one still fits. */
    for (uint32_t spare = 1; spare <= 2; spare++) {
        rig_send(a, RIG_GET RIG_GET);
        rig_poll();
        mr_out_flush(rig.engine);
        rig.engine->out.piece_count = MR_OUT_PIECES - spare;
        uint32_t at = rig.request_count - 2;
        CHECK(rig_answer_with(at, big, MR_OUT_COPY_MAX + 1, 0) == MR_OK);
        append_ok(&want, big, MR_OUT_COPY_MAX + 1);
        CHECK(rig_answer(at + 1, "x") == MR_OK);
        append_ok(&want, (const uint8_t *)"x", 1);
    }
    rig_settle();
    CHECK(rig_got_bytes(a, want.data, want.len));
    free(want.data);
    free(big);
    rig_close();
}

/* More pieces for one connection than one send takes: the FIN is behind the last of them. */
static void many_pieces_then_fin(void) {
    rig_open("many pieces, then FIN", NULL);
    uint32_t a = rig_connect(), b = rig_connect();
    for (uint32_t i = 0; i < MR_PIPELINE_MAX; i++) {
        rig_send(a, RIG_GET);
        rig_send(b, RIG_GET);
    }
    rig_turn();
    for (uint32_t i = 0; i < MR_PIPELINE_MAX; i++) { /* in turns, so that no two pieces are one */
        CHECK(rig_answer(i, "x") == MR_OK);
        CHECK(rig_answer(MR_PIPELINE_MAX + i, "x") == MR_OK);
    }
    rig_send(a, "bad\r\n\r\n");
    rig_poll(); /* not flushed in between */
    rig_settle();
    const char *last = rig_plain("400 Bad Request", true);
    size_t len = MR_SEND_PIECES * strlen(rig_ok("x", false)) + strlen(last);
    CHECK(MR_SEND_PIECES == MR_PIPELINE_MAX && rig.lines[a].send_calls == 2);
    CHECK(rig.lines[a].has_fin && rig.lines[a].got.len == len);
    CHECK(memcmp(rig.lines[a].got.data + len - strlen(last), last, strlen(last)) == 0);
    rig_close();
}

/* A peer that asks and does not read: it is not read either, beyond the mark, and goes on later. */
static void unsent_pauses(void) {
    static uint8_t body[MR_OUT_COPY_MAX];
    mr_reply *reply;
    rig_open("unsent pauses", NULL);
    mr_routes *routes = mr_routes_create(&rig.engine->mem);
    static const char head[] = "HTTP/1.1 200 OK\r\n";
    reply = mr_reply_create(&rig.engine->mem, 200, 0, (const uint8_t *)head, sizeof head - 1, body,
                            sizeof body);
    CHECK(routes != NULL && reply != NULL);
    mr_action action = {.reply = reply};
    CHECK(mr_routes_add(routes, (const uint8_t *)"/a", 2, MR_ANY_METHOD, &action) == MR_OK);
    mr_engine_set_routes(rig.engine, routes, 7, 0);
    uint32_t a = rig_connect();
    rig.lines[a].room = 0;
    rig.piece = 4 * strlen(RIG_GET);
    for (int i = 0; i < 400; i++)
        rig_send(a, RIG_GET);
    rig_turn();
    rig_turn();
    size_t unsent = mr_link_unsent_bytes(rig.lines[a].link);
    CHECK(unsent > MR_UNSENT_PAUSE && unsent < MR_UNSENT_PAUSE + 2 * MR_OUT_BYTES);
    CHECK(!rig.lines[a].wants_data && rig.engine->stats.requests < 20);
    for (int i = 0; i < 1000 && rig.engine->stats.requests < 400; i++) {
        rig.lines[a].room = 300000;
        rig_turn();
        CHECK(mr_link_unsent_bytes(rig.lines[a].link) < MR_UNSENT_PAUSE + 2 * MR_OUT_BYTES);
    }
    rig.lines[a].room = SIZE_MAX;
    rig_turn();
    size_t each =
        sizeof head - 1 + strlen("Content-Length: 32768\r\n" RIG_DATE "\r\n") + sizeof body;
    CHECK(rig.engine->stats.requests == 400 && rig.lines[a].got.len == 400 * each);
    CHECK(rig_conn_state(a) == MR_CONN_OPEN && rig.lines[a].wants_data);
    rig_close();
}

/* Unsent octets: one answer may be of any size, a queue beyond the limit closes the connection. */
static void unsent_limit(void) {
    mr_engine_options o = rig_options();
    static uint8_t body[5000];
    o.limits.held_bytes = 4000;
    for (int over = 0; over < 2; over++) {
        rig_open("unsent limit", &o);
        uint32_t a = rig_connect();
        size_t head = strlen("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n" RIG_DATE "\r\n");
        rig.lines[a].room = 0;
        rig_send(a, RIG_GET RIG_GET);
        rig_turn();
        CHECK(rig_answer_with(0, body, 1000, 0) == MR_OK);
        rig_turn();
        CHECK(rig_answer_with(1, body, 3000 - 2 * head + (size_t)over, 0) == MR_OK);
        rig_turn();
        CHECK(rig_conn_state(a) == (over ? MR_CONN_DEAD : MR_CONN_OPEN));
        CHECK(over || mr_link_unsent_bytes(rig.lines[a].link) == 4000);
        uint32_t b = rig_connect();
        rig.lines[b].room = 0;
        rig_send(b, RIG_GET);
        rig_turn();
        CHECK(rig_answer_with(2, body, sizeof body, 0) == MR_OK);
        rig_turn();
        CHECK(rig_conn_state(b) == MR_CONN_OPEN);
        rig_close();
    }
}

/* The peer is found gone while its answers are being written, also by a flush that only makes room.
 */
static void broken_while_writing(void) {
    uint8_t *body = pattern(MR_OUT_COPY_MAX + 1);
    for (uint32_t first = 0; first < 12; first++) {
        rig_open("broken while writing", NULL);
        uint32_t a = rig_connect(), b = rig_connect();
        for (int i = 0; i < 12; i++)
            rig_send(a, RIG_GET);
        rig_send(b, RIG_GET);
        rig_turn();
        CHECK(mr_engine_watch(rig.engine, rig.requests[11].connection, 11) == MR_OK);
        rig.lines[a].is_broken = true;
        for (uint32_t i = 12; i-- > 0;)
            if (i != first)
                (void)rig_answer_with(i, body, MR_OUT_COPY_MAX + (i & 1),
                                      i == 10 ? MR_RESPONSE_CLOSE : 0);
        (void)rig_answer_with(first, body, MR_OUT_COPY_MAX, 0);
        CHECK(rig_answer(12, "x") == MR_OK);
        rig_settle();
        CHECK(rig_conn_state(a) == MR_CONN_DEAD && rig.lines[a].got.len == 0);
        CHECK(rig_got(b, rig_ok("x", false)) && rig.done_count == 1);
        CHECK(mr_engine_connections(rig.engine) == 1);
        rig_close();
    }
    free(body);
}

int main(void) {
    one_send();
    all_short_writes();
    arena_overflows();
    pieces_overflow();
    many_pieces_then_fin();
    unsent_pauses();
    unsent_limit();
    broken_while_writing();
    return 0;
}
