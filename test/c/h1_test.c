/* h1_test.c -- exchanges of a connection: order, pipelining, content, refusals, ends. */
/* link: engine/engine.c engine/conn.c engine/out.c engine/route.c engine/reply.c net/sock.c */
/* link: engine/answer.c engine/content.c net/unsent.c proto/proxy.c */
/* link: proto/url.c proto/h1_write.c proto/h1_parse.c proto/h1_chunked.c proto/h1_scan.c */
/* link: proto/h1_scan_avx2.c proto/h1_scan_sse2.c proto/h1_scan_neon.c proto/h1_scan_scalar.c */
/* link: base/mem.c base/buf.c base/text.c base/slab.c base/wheel.c */
/* link: engine/journal.c engine/gate.c engine/fleet.c engine/balance.c engine/permits.c */
/* link: engine/fleet_show.c engine/mailbox.c engine/meter.c engine/series.c engine/rate.c */
/* link: engine/access_log.c engine/access_line.c engine/metrics_text.c engine/metrics_put.c */
#include "engine/h1.c"

#include "engine_rig.h"

/* ---- one exchange ---- */

static void one_exchange(void) {
    rig_open("one exchange", NULL);
    uint32_t a = rig_connect();
    rig_send(a, RIG_GET);
    rig_turn();
    CHECK(rig.request_count == 1 && rig.requests[0].handler == 7);
    CHECK(strcmp(rig.requests[0].path, "/a") == 0 && rig.requests[0].body == NULL);
    CHECK(mr_engine_is_waiting(rig.engine, rig.requests[0].connection, 0) == MR_IS_WAITING);
    CHECK(rig_answer(0, "hello") == MR_OK);
    CHECK(mr_engine_is_waiting(rig.engine, rig.requests[0].connection, 0) == MR_IS_OVER);
    CHECK(rig_got(a, "")); /* gathered, not sent */
    rig_turn();
    CHECK(rig_got(a, rig_ok("hello", false)));
    CHECK(rig_conn_state(a) == MR_CONN_OPEN && rig.lines[a].send_calls == 1);
    rig_close();
}

static void stale_answers(void) {
    rig_open("stale answers", NULL);
    uint32_t a = rig_connect();
    rig_send(a, RIG_GET RIG_GET RIG_GET);
    rig_turn();
    CHECK(rig.request_count == 3);
    uint64_t id = rig.requests[0].connection;
    mr_response r = {.head = (const uint8_t *)"HTTP/1.1 200 OK\r\n", .head_len = 17, .status = 200};
    CHECK(rig_answer(1, "b") == MR_OK);
    CHECK(rig_answer(1, "again") == MR_GONE); /* held already */
    CHECK(mr_engine_respond(rig.engine, id, 3, &r) == MR_GONE);
    CHECK(mr_engine_respond(rig.engine, id, UINT32_MAX, &r) == MR_GONE);
    CHECK(mr_engine_respond(rig.engine, id + (1ull << 32), 0, &r) == MR_GONE);
    CHECK(mr_engine_respond(rig.engine, 0, 0, &r) == MR_GONE);
    CHECK(mr_engine_respond(rig.engine, UINT64_MAX, 0, &r) == MR_GONE);
    CHECK(rig_answer(0, "a") == MR_OK);
    CHECK(rig_answer(0, "again") == MR_GONE); /* gathered already */
    CHECK(rig_answer(1, "again") == MR_GONE);
    rig_turn();
    CHECK(rig_answer(0, "again") == MR_GONE);
    char both[1024];
    snprintf(both, sizeof both, "%s%s", rig_ok("a", false), rig_ok("b", false));
    CHECK(rig_got(a, both));
    CHECK(rig.engine->stats.stale_answers == 9);
    rig.lines[a].is_broken = true;
    CHECK(rig_answer(2, "c") == MR_OK);
    rig_turn();
    CHECK(rig_conn_state(a) == MR_CONN_DEAD);
    CHECK(rig_answer(2, "c") == MR_GONE);
    rig_close();
}

static mr_rc answer_raw(uint32_t index, const char *head, uint16_t status, uint16_t flags,
                        size_t body_len) {
    static const uint8_t body[4] = "body";
    mr_response r = {.head = (const uint8_t *)head,
                     .head_len = strlen(head),
                     .body = body,
                     .body_len = body_len,
                     .status = status,
                     .flags = flags | MR_RESPONSE_IS_UNCHECKED};
    return mr_engine_respond(rig.engine, rig.requests[index].connection, rig.requests[index].seq,
                             &r);
}

static void unsound_answers(void) {
    rig_open("unsound answers", NULL);
    uint32_t a = rig_connect();
    rig_send(a, RIG_GET "HEAD /a HTTP/1.1\r\nHost: h\r\n\r\n");
    rig_turn();
    CHECK(answer_raw(0, "HTTP/1.1 199 OK\r\n", 199, 0, 0) == MR_INVALID);
    CHECK(answer_raw(0, "HTTP/1.1 600 OK\r\n", 600, 0, 0) == MR_INVALID);
    CHECK(answer_raw(0, "HTTP/1.1 200 OK\r\nA: b\nC: d\r\n", 200, 0, 0) == MR_INVALID);
    CHECK(answer_raw(0, "HTTP/1.1 200 OK\r\n", 204, 0, 0) == MR_INVALID); /* says another */
    CHECK(answer_raw(0, "HTTP/1.1 204 No Content\r\n", 200, 0, 0) == MR_INVALID);
    CHECK(answer_raw(0, "HTTP/1.1 2000 OK\r\n", 200, 0, 0) == MR_INVALID);
    CHECK(answer_raw(0, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n", 200, MR_RESPONSE_HAS_LENGTH,
                     4) == MR_INVALID);
    CHECK(mr_engine_is_waiting(rig.engine, rig.requests[0].connection, 0) == MR_IS_WAITING);
    CHECK(answer_raw(0, "HTTP/1.1 200 OK\r\n", 200, 0, 4) == MR_OK);
    CHECK(answer_raw(1, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n", 200,
                     MR_RESPONSE_HAS_LENGTH | MR_RESPONSE_HAS_DATE, 0) == MR_OK);
    rig_turn();
    char both[1024];
    snprintf(both, sizeof both, "%s%s", rig_ok("body", false),
             "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n");
    CHECK(rig_got(a, both));
    char *huge = malloc(MR_RESPONSE_HEAD_MAX + 64);
    CHECK(huge != NULL);
    memset(huge, 'a', MR_RESPONSE_HEAD_MAX + 64);
    memcpy(huge, "HTTP/1.1 200 OK\r\nX: ", 20);
    memcpy(huge + MR_RESPONSE_HEAD_MAX - 1, "\r\n", 3);
    rig_send(a, RIG_GET);
    rig_turn();
    CHECK(strlen(huge) == MR_RESPONSE_HEAD_MAX + 1);
    CHECK(answer_raw(2, huge, 200, 0, 0) == MR_INVALID);
    memcpy(huge + MR_RESPONSE_HEAD_MAX - 2, "\r\n", 3);
    CHECK(answer_raw(2, huge, 200, 0, 0) == MR_OK);
    rig_turn();
    CHECK(rig.lines[a].got.len - rig.lines[a].got_off ==
          MR_RESPONSE_HEAD_MAX + strlen("Content-Length: 0\r\n" RIG_DATE "\r\n"));
    free(huge);
    rig_close();
}

/* Content never follows a HEAD, a 204, a 304 or a 205. */
static void no_content(void) {
    rig_open("no content", NULL);
    uint32_t a = rig_connect();
    rig_send(a, "HEAD /a HTTP/1.1\r\nHost: h\r\n\r\n" RIG_GET RIG_GET RIG_GET);
    rig_turn();
    CHECK(answer_raw(3, "HTTP/1.1 205 Reset Content\r\n", 205, 0, 4) == MR_OK);
    CHECK(answer_raw(2, "HTTP/1.1 304 Not Modified\r\n", 304, 0, 4) == MR_OK);
    CHECK(answer_raw(1, "HTTP/1.1 204 No Content\r\n", 204, 0, 4) == MR_OK);
    CHECK(answer_raw(0, "HTTP/1.1 200 OK\r\n", 200, 0, 4) == MR_OK);
    rig_turn();
    CHECK(rig_got(a, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n" RIG_DATE "\r\n"
                     "HTTP/1.1 204 No Content\r\n" RIG_DATE "\r\n"
                     "HTTP/1.1 304 Not Modified\r\n" RIG_DATE "\r\n"
                     "HTTP/1.1 205 Reset Content\r\nContent-Length: 0\r\n" RIG_DATE "\r\n"));
    rig_close();
}

/* ---- pipelining ---- */

static void send_many(uint32_t line, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        char text[64];
        snprintf(text, sizeof text, "GET /%u HTTP/1.1\r\nHost: h\r\n\r\n", i);
        rig_send(line, text);
    }
}

static void expect_many(uint32_t line, uint32_t from, uint32_t to) {
    rig_bytes want = {0};
    for (uint32_t i = from; i < to; i++) {
        char body[16];
        snprintf(body, sizeof body, "%u", i);
        const char *text = rig_ok(body, false);
        rig_append(&want, text, strlen(text));
    }
    CHECK(rig_got_bytes(line, want.data, want.len));
    free(want.data);
}

static void answer_number(uint32_t index) {
    CHECK(rig_answer(index, rig.requests[index].path + 1) == MR_OK);
}

/* The first is answered last, at the limit and beyond it. */
static void pipeline(uint32_t count) {
    rig_open("pipeline", NULL);
    uint32_t a = rig_connect(), first = count < MR_PIPELINE_MAX ? count : MR_PIPELINE_MAX;
    send_many(a, count);
    rig_turn();
    CHECK(rig.request_count == first);
    CHECK(rig.lines[a].wants_data == (count <= MR_PIPELINE_MAX));
    rig_turn();
    CHECK(rig.request_count == first);
    for (uint32_t i = first; i-- > 1;)
        answer_number(i);
    rig_turn();
    CHECK(rig_got(a, "") && rig.request_count == first);
    answer_number(0);
    rig_turn();
    expect_many(a, 0, first);
    CHECK(rig.request_count == count && rig.lines[a].wants_data);
    for (uint32_t i = count; i-- > first;)
        answer_number(i);
    rig_turn();
    expect_many(a, first, count);
    rig_close();
}

/* Of a connection that is not read any more, the input stays where it is. */
static void pipeline_bounds_input(void) {
    rig_open("pipeline bounds input", NULL);
    uint32_t a = rig_connect();
    rig.piece = 1000;
    send_many(a, 5000);
    rig_turn();
    CHECK(rig.request_count == MR_PIPELINE_MAX);
    CHECK(rig.lines[a].sent_off < 8000);
    size_t before = rig.lines[a].sent_off;
    rig_turn();
    CHECK(rig.lines[a].sent_off == before);
    rig_close();
}

static void ring_full(void) {
    rig_open("ring full", NULL);
    uint32_t a = rig_connect(), b = rig_connect();
    send_many(a, 5);
    rig_send(b, "POST /p HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nab");
    rig_turn();
    CHECK(rig.request_count == 6);
    rig.request_room = rig.content_room = 0;
    send_many(a, 3);
    rig_send(b, "cd");
    rig_poll();
    CHECK(rig.request_count == 6);
    CHECK(mr_engine_resume(rig.engine) && rig.request_count == 6);
    rig_settle();
    CHECK(mr_engine_next_ms(rig.engine) == rig.now_ms); /* it does not sleep on them */
    send_many(a, 1);
    rig_send(b, RIG_GET);
    rig_turn();
    CHECK(rig.request_count == 6);
    rig.request_room = 1;
    rig_turn();
    CHECK(rig.request_count == 7);
    rig.request_room = rig.content_room = UINT32_MAX;
    rig_turn();
    CHECK(rig.request_count == 11);
    uint32_t posts = 0;
    for (uint32_t i = 0; i < 11; i++)
        posts += rig.requests[i].is_complete && rig.requests[i].body_len == 4 &&
                 memcmp(rig.requests[i].body, "abcd", 4) == 0;
    CHECK(posts == 1);
    CHECK(mr_engine_next_ms(rig.engine) > rig.now_ms);
    rig_close();
}

/* A request that came complete while there was no room, and octets behind it before there is. */
static void ring_full_then_data(void) {
    rig_open("ring full, then data", NULL);
    uint32_t a = rig_connect();
    rig_send(a, "POST /p HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\na");
    rig_turn();
    rig.content_room = 0;
    rig_send(a, "b");
    rig_poll();
    rig.content_room = UINT32_MAX;
    rig_send(a, "GET /q HTTP/1.1\r\nHost: h\r\n");
    rig_poll();
    rig_send(a, "\r\n");
    rig_turn();
    rig_turn(); /* what came while it waited is read only now */
    CHECK(rig.request_count == 2 && rig.requests[0].body_len == 2);
    CHECK(rig.requests[0].is_complete && rig.requests[0].pieces == 2);
    CHECK(strcmp(rig.requests[1].path, "/q") == 0);
    /* And with the end of input behind it. */
    rig.request_room = 0;
    rig_send(a, RIG_GET);
    rig_end_input(a);
    rig_turn();
    CHECK(rig_conn_state(a) == MR_CONN_OPEN && rig.request_count == 2);
    rig.request_room = UINT32_MAX;
    rig_turn();
    CHECK(rig.request_count == 3 && rig_conn_state(a) == MR_CONN_CLOSING);
    rig_close();
}

static void handler_refuses(void) {
    rig_open("handler refuses", NULL);
    uint32_t a = rig_connect();
    rig.request_rc = MR_NOMEM;
    rig_send(a, RIG_GET RIG_GET);
    rig_turn();
    CHECK(rig_got(a, rig_plain("503 Service Unavailable", true)));
    CHECK(rig.lines[a].has_fin && rig.request_count == 0);
    rig_close();
}

/* ---- content ---- */

#define POST_HEAD "POST /p HTTP/1.1\r\nHost: h\r\n"

static const char *const posts[] = {
    POST_HEAD "Content-Length: 11\r\n\r\nhello world" RIG_GET,
    POST_HEAD
    "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6;a=b\r\n world\r\n0\r\nX: y\r\n\r\n" RIG_GET,
    "\r\n" POST_HEAD "Content-Length: 11\r\nExpect: 100-continue\r\n\r\nhello world" RIG_GET,
};

static void content_split(const char *text, size_t cut, size_t piece) {
    rig_open("content split", NULL);
    uint32_t a = rig_connect();
    rig.piece = piece;
    rig.asks_at_once = true;
    rig_send_bytes(a, text, cut);
    rig_turn();
    rig_send(a, text + cut);
    rig_turn();
    CHECK(rig.request_count == 2);
    CHECK(rig.requests[0].is_complete && rig.requests[0].body_len == 11 &&
          memcmp(rig.requests[0].body, "hello world", 11) == 0);
    CHECK(rig.requests[1].body == NULL && strcmp(rig.requests[1].path, "/a") == 0);
    CHECK(rig_answer(0, "x") == MR_OK && rig_answer(1, "y") == MR_OK);
    rig_turn();
    size_t got = rig.lines[a].got.len;
    CHECK(got > 150 && memcmp(rig.lines[a].got.data + got - 1, "y", 1) == 0);
    CHECK(rig_conn_state(a) == MR_CONN_OPEN);
    rig_close();
}

static void content(void) {
    for (size_t i = 0; i < sizeof posts / sizeof posts[0]; i++) {
        for (size_t cut = 0; cut <= strlen(posts[i]); cut++)
            content_split(posts[i], cut, SIZE_MAX);
        for (size_t piece = 1; piece < 12; piece++)
            content_split(posts[i], strlen(posts[i]), piece);
    }
}

/* 1000 octets are taken, 1001 are not, however they come. */
static void content_over_limit(bool is_chunked, size_t piece, size_t size) {
    char text[2000];
    int at = is_chunked
                 ? snprintf(text, sizeof text,
                            POST_HEAD "Transfer-Encoding: chunked\r\n\r\n%zx\r\n", size)
                 : snprintf(text, sizeof text, POST_HEAD "Content-Length: %zu\r\n\r\n", size);
    rig_open("content limit", NULL);
    uint32_t a = rig_connect();
    rig.piece = piece;
    memset(text + at, 'x', size);
    rig_send_bytes(a, text, (size_t)at + size);
    if (is_chunked)
        rig_send(a, "\r\n0\r\n\r\n");
    rig_send(a, RIG_GET);
    rig_turn();
    if (size <= 1000) {
        CHECK(rig.request_count == 2 && rig.requests[0].body_len == size);
        CHECK(rig.requests[0].is_complete);
    } else if (is_chunked) { /* the handler has it already when it proves too long */
        CHECK(rig.request_count == 1 && rig_notes(0, MR_NOTE_CONTENT_TOO_LARGE) == 1);
        CHECK(rig_answer(0, "late") == MR_GONE && !rig.requests[0].is_complete);
        CHECK(rig_got(a, rig_plain("413 Content Too Large", true)) && rig.lines[a].has_fin);
    } else {
        CHECK(rig.request_count == 0);
        CHECK(rig_got(a, rig_plain("413 Content Too Large", true)) && rig.lines[a].has_fin);
    }
    rig_close();
}

/* Content that nobody will see is counted as well. */
static void discarded_content(void) {
    mr_engine_options o = rig_options();
    for (size_t size = 1000; size <= 1001; size++) {
        rig_open("discarded content", &o);
        mr_engine_set_routes(rig.engine, NULL, MR_NO_HANDLER, 0);
        uint32_t a = rig_connect();
        rig_send(a, POST_HEAD "Transfer-Encoding: chunked\r\n\r\n");
        rig_turn();
        for (size_t i = 0; i < size; i++)
            rig_send(a, "1\r\nx\r\n");
        rig_send(a, "0\r\n\r\n" RIG_GET);
        rig_turn();
        char both[1024];
        snprintf(both, sizeof both, "%s%s", rig_plain("404 Not Found", false),
                 rig_plain("404 Not Found", false));
        CHECK(rig_got(a, size == 1000 ? both : rig_plain("413 Content Too Large", true)));
        rig_close();
    }
}

/* The routes were swapped between a head and the end of its content. */
static void reload_in_content(void) {
    rig_open("reload in content", NULL);
    mr_engine_set_routes(rig.engine, NULL, MR_NO_HANDLER, 0);
    uint32_t a = rig_connect(), b = rig_connect();
    rig_send(a, POST_HEAD "Content-Length: 2\r\n\r\na");
    rig_turn();
    mr_engine_set_routes(rig.engine, NULL, 9, 0);
    rig_send(b, POST_HEAD "Content-Length: 2\r\n\r\na");
    rig_turn();
    CHECK(rig.request_count == 1); /* b's head */
    rig_send(a, "b");
    rig_turn();
    CHECK(rig.request_count == 1); /* not without its content */
    CHECK(rig_got(a, rig_plain("503 Service Unavailable", false)));
    mr_engine_set_routes(rig.engine, NULL, MR_NO_HANDLER, 0);
    rig_send(b, "b" RIG_GET); /* who has the head keeps the request */
    rig_turn();
    CHECK(rig.request_count == 1 && rig.requests[0].is_complete && rig.requests[0].handler == 9);
    CHECK(rig_answer(0, "x") == MR_OK);
    rig_turn();
    char both[1024];
    snprintf(both, sizeof both, "%s%s", rig_ok("x", false), rig_plain("404 Not Found", false));
    CHECK(rig_got(b, both));
    rig_close();
}

/* ---- Expect: 100-continue ---- */

#define CONTINUE "HTTP/1.1 100 Continue\r\n\r\n"
#define EXPECT_HEAD POST_HEAD "Content-Length: 2\r\nExpect: 100-continue\r\n\r\n"

static void expect_continue(void) {
    char text[1024];
    rig_open("expect, its turn", NULL);
    uint32_t a = rig_connect();
    rig_send(a, EXPECT_HEAD);
    rig_turn();
    CHECK(rig.request_count == 1 && rig_got(a, "")); /* nobody has asked yet */
    CHECK(rig_ask(0, 1) == MR_OK && rig_ask(0, 1) == MR_OK);
    rig_turn();
    CHECK(rig_got(a, CONTINUE)); /* once */
    rig_send(a, "ab");
    rig_turn();
    CHECK(rig.requests[0].is_complete && rig_got(a, ""));
    /* Out of turn: two earlier exchanges are open. */
    rig_send(a, RIG_GET EXPECT_HEAD);
    rig_turn();
    CHECK(rig_got(a, "") && rig.request_count == 3 && rig_ask(2, 100) == MR_OK);
    CHECK(rig_answer(1, "second") == MR_OK);
    rig_turn();
    CHECK(rig_got(a, ""));
    CHECK(rig_answer(0, "first") == MR_OK);
    rig_turn();
    snprintf(text, sizeof text, "%s%s" CONTINUE, rig_ok("first", false), rig_ok("second", false));
    CHECK(rig_got(a, text));
    rig_turn();
    CHECK(rig_got(a, "")); /* once */
    rig_send(a, "cd");
    rig_turn();
    CHECK(rig.requests[2].is_complete && memcmp(rig.requests[2].body, "cd", 2) == 0);
    /* Out of turn, and the client does not wait: none is owed. */
    rig_send(a, EXPECT_HEAD);
    rig_turn();
    CHECK(rig_ask(3, 100) == MR_OK);
    rig_send(a, "e");
    rig_turn();
    CHECK(rig_answer(2, "third") == MR_OK);
    rig_turn();
    CHECK(rig_got(a, rig_ok("third", false)));
    rig_send(a, "f");
    rig_turn();
    CHECK(rig.request_count == 4 && rig.requests[3].is_complete);
    rig_close();
}

/* The answer is known without the content: no 100, and the connection ends behind it. */
static void expect_refused(void) {
    rig_open("expect refused", NULL);
    mr_engine_set_routes(rig.engine, NULL, MR_NO_HANDLER, 0);
    uint32_t a = rig_connect(), b = rig_connect();
    rig_send(a, EXPECT_HEAD);
    rig_send(b, POST_HEAD "Content-Length: 1001\r\nExpect: 100-continue\r\n\r\n");
    rig_turn();
    CHECK(rig_got(a, rig_plain("404 Not Found", true)) && rig.lines[a].has_fin);
    CHECK(rig_got(b, rig_plain("413 Content Too Large", true)) && rig.lines[b].has_fin);
    rig_close();
}

/* ---- ends ---- */

/* What is asked behind a last request or a last answer is not processed. */
static void connection_close(void) {
    rig_open("connection close", NULL);
    uint32_t a = rig_connect(), b = rig_connect(), c = rig_connect();
    rig_send(a, RIG_GET "GET /last HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n" RIG_GET);
    rig_turn();
    CHECK(rig.request_count == 2 && rig_conn_state(a) == MR_CONN_CLOSING);
    CHECK(rig_answer(1, "last") == MR_OK && rig_answer(0, "first") == MR_OK);
    rig_turn();
    char text[1024];
    snprintf(text, sizeof text, "%s%s", rig_ok("first", false), rig_ok("last", true));
    CHECK(rig_got(a, text) && rig.lines[a].has_fin && rig_conn_state(a) == MR_CONN_LINGERING);
    /* The handler says so: the answer that is held ends it, in its turn. */
    rig_send(b, RIG_GET RIG_GET RIG_GET);
    rig_turn();
    CHECK(rig.request_count == 5);
    CHECK(mr_engine_watch(rig.engine, rig.requests[4].connection, 2) == MR_OK);
    CHECK(rig_answer_with(3, (const uint8_t *)"x", 1, MR_RESPONSE_CLOSE) == MR_OK);
    rig_send(b, RIG_GET);
    rig_turn();
    CHECK(rig.request_count == 5 && rig_got(b, "")); /* nor is any taken from then on */
    CHECK(rig_answer(4, "never") == MR_OK);
    CHECK(rig_answer(2, "y") == MR_OK);
    rig_turn();
    snprintf(text, sizeof text, "%s%s", rig_ok("y", false), rig_ok("x", true));
    CHECK(rig_got(b, text) && rig.lines[b].has_fin);
    CHECK(rig.done_count == 1 && !rig.done[0].is_answered && rig.done[0].seq == 2);
    /* At once. */
    rig_send(c, RIG_GET RIG_GET);
    rig_turn();
    CHECK(rig_answer_with(5, (const uint8_t *)"z", 1, MR_RESPONSE_CLOSE) == MR_OK);
    CHECK(rig_answer(6, "never") == MR_GONE);
    rig_turn();
    CHECK(rig_got(c, rig_ok("z", true)) && rig.lines[c].has_fin);
    rig_close();
}

static void http10(void) {
    rig_open("http/1.0", NULL);
    uint32_t a = rig_connect(), b = rig_connect();
    rig_send(a, "GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET /a HTTP/1.0\r\n\r\n" RIG_GET);
    rig_send(b, "GET /a HTTP/1.0\r\n\r\n");
    rig_turn();
    CHECK(rig.request_count == 3);
    for (uint32_t i = 3; i-- > 0;)
        CHECK(rig_answer(i, "x") == MR_OK);
    rig_turn();
    char text[1024];
    snprintf(text, sizeof text,
             "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n" RIG_DATE
             "Connection: keep-alive\r\n\r\nx%s",
             rig_ok("x", true));
    CHECK(rig_got(a, text) && rig.lines[a].has_fin);
    CHECK(rig_got(b, rig_ok("x", true)) && rig.lines[b].has_fin);
    rig_close();
}

static void requests_per_connection(void) {
    mr_engine_options o = rig_options();
    o.limits.requests_per_connection = 2;
    rig_open("requests per connection", &o);
    uint32_t a = rig_connect();
    rig_send(a, RIG_GET RIG_GET RIG_GET);
    rig_turn();
    CHECK(rig.request_count == 2);
    CHECK(rig_answer(0, "x") == MR_OK && rig_answer(1, "y") == MR_OK);
    rig_turn();
    char text[1024];
    snprintf(text, sizeof text, "%s%s", rig_ok("x", false), rig_ok("y", true));
    CHECK(rig_got(a, text) && rig.lines[a].has_fin);
    rig_close();
}

/* A bad request waits for its turn; what is behind it is lost. */
static void refusals(void) {
    rig_open("refusals", NULL);
    uint32_t a = rig_connect(), b = rig_connect(), c = rig_connect();
    rig_send(a, RIG_GET "GET /a HTTP/1.1\r\n\r\n" RIG_GET);
    rig_send(b, "OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\nCONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n");
    rig_send(c, POST_HEAD "Transfer-Encoding: chunked\r\n\r\n5\r\nhel");
    rig_turn();
    CHECK(rig.request_count == 2 && rig_got(a, "")); /* c's head is up, its content on its way */
    CHECK(rig_answer(0, "x") == MR_OK);
    rig_send(c, "lo?");
    rig_turn();
    char text[1024];
    snprintf(text, sizeof text, "%s%s", rig_ok("x", false), rig_plain("400 Bad Request", true));
    CHECK(rig_got(a, text) && rig.lines[a].has_fin && rig.request_count == 2);
    CHECK(rig_notes(1, MR_NOTE_CONTENT_BAD) == 1 && rig.note_count == 1);
    snprintf(text, sizeof text, "HTTP/1.1 204 No Content\r\n" RIG_DATE "\r\n%s",
             rig_plain("501 Not Implemented", true));
    CHECK(rig_got(b, text) && rig.lines[b].has_fin);
    CHECK(rig_got(c, rig_plain("400 Bad Request", true)) && rig.lines[c].has_fin);
    rig_close();
}

/* The bound of what waits for an earlier answer: one of any size, more only below it. */
static void held_limit(void) {
    mr_engine_options o = rig_options();
    o.limits.held_bytes = 1000;
    static const uint8_t body[3000] = "x";
    for (int over = 0; over < 2; over++) {
        rig_open("held limit", &o);
        uint32_t a = rig_connect();
        rig_send(a, RIG_GET RIG_GET RIG_GET);
        rig_turn();
        CHECK(mr_engine_watch(rig.engine, rig.requests[0].connection, 0) == MR_OK);
        CHECK(rig_answer_with(2, body, 400, 0) == MR_OK);
        const mr_conn *c = (const mr_conn *)rig.lines[a].link;
        CHECK(c->held_bytes > 400 && c->held_bytes < 1000); /* with what holding costs */
        mr_rc rc = rig_answer_with(1, body, 1000 - c->held_bytes + (size_t)over, 0);
        CHECK(rc == (over ? MR_NOMEM : MR_OK));
        rig_turn();
        CHECK(rig_conn_state(a) == (over ? MR_CONN_DEAD : MR_CONN_OPEN));
        CHECK(rig.done_count == (uint32_t)over);
        if (!over) {
            CHECK(rig_answer(0, "x") == MR_OK);
            rig_turn();
            CHECK(((mr_conn *)rig.lines[a].link)->held_bytes == 0);
        }
        uint32_t b = rig_connect(), at = rig.request_count;
        rig_send(b, RIG_GET RIG_GET);
        rig_turn();
        CHECK(rig_answer_with(at + 1, body, sizeof body, 0) == MR_OK); /* the first: any size */
        CHECK(rig_answer(at, "x") == MR_OK);
        rig_turn();
        CHECK(rig_conn_state(b) == MR_CONN_OPEN);
        rig_close();
    }
}

/* MR_NOTE_ANSWERED or _LOST comes once, with the truth, and never for those who did not ask. */
static void watching(void) {
    rig_open("watching", NULL);
    uint32_t a = rig_connect();
    rig_send(a, RIG_GET RIG_GET RIG_GET);
    rig_turn();
    uint64_t id = rig.requests[0].connection;
    CHECK(mr_engine_watch(rig.engine, id, 1) == MR_OK &&
          mr_engine_watch(rig.engine, id, 2) == MR_OK);
    CHECK(mr_engine_watch(rig.engine, id, 3) == MR_GONE);
    CHECK(rig_answer(1, "x") == MR_OK && rig.done_count == 0);
    CHECK(rig_answer(0, "x") == MR_OK && rig.done_count == 0); /* nothing has left yet */
    rig_turn();
    CHECK(rig.done_count == 1);
    CHECK(rig.done[0].seq == 1 && rig.done[0].is_answered && rig.done[0].connection == id);
    CHECK(mr_engine_watch(rig.engine, id, 1) == MR_GONE);
    rig_turn();
    rig.transport->events->on_gone(rig.transport->owner, rig.lines[a].link);
    CHECK(rig.done_count == 2 && rig.done[1].seq == 2 && !rig.done[1].is_answered);
    rig_settle();
    CHECK(mr_engine_watch(rig.engine, id, 2) == MR_GONE);
    rig_close();
    CHECK(rig.done_count == 0); /* destroy() is silent */
}

/* ... and ANSWERED only when the socket has taken all of it. */
static void watching_slow(bool is_read_in_the_end) {
    rig_open("watching a slow reader", NULL);
    uint32_t a = rig_connect();
    rig_send(a, RIG_GET RIG_GET);
    rig_turn();
    uint64_t id = rig.requests[0].connection;
    rig.lines[a].room = 10;
    CHECK(mr_engine_watch(rig.engine, id, 0) == MR_OK);
    CHECK(rig_answer(0, "x") == MR_OK && rig_answer(1, "y") == MR_OK);
    CHECK(mr_engine_watch(rig.engine, id, 1) == MR_OK); /* answered, not yet gone */
    rig_turn();
    CHECK(rig.done_count == 0);
    if (is_read_in_the_end) {
        rig.lines[a].room = SIZE_MAX;
        rig_turn();
    } else {
        rig.transport->events->on_gone(rig.transport->owner, rig.lines[a].link);
    }
    CHECK(rig.done_count == 2 && rig.done[0].seq == 0 && rig.done[1].seq == 1);
    CHECK(rig.done[0].is_answered == is_read_in_the_end && rig.done[1].is_answered == is_read_in_the_end);
    rig_close();
}

/* A request that is there when the idle time-out fires is read. */
static void idle_with_input(void) {
    rig_open("input at the idle time-out", NULL);
    uint32_t a = rig_connect();
    rig_send(a, RIG_GET);
    rig_turn();
    CHECK(rig_answer(0, "x") == MR_OK);
    rig_turn();
    rig.lines[a].has_unread = true;
    rig_pass(80000);
    CHECK(rig_conn_state(a) == MR_CONN_OPEN);
    rig.lines[a].has_unread = false;
    rig_pass(2);
    CHECK(rig_conn_state(a) != MR_CONN_OPEN);
    rig_close();
}

/* Numbers of exchanges go round. */
static void numbers_wrap(void) {
    rig_open("numbers wrap", NULL);
    uint32_t a = rig_connect();
    mr_conn *c = (mr_conn *)rig.lines[a].link;
    c->in_seq = c->out_seq = UINT32_MAX - 2;
    send_many(a, 6);
    rig_turn();
    CHECK(rig.request_count == 6 && rig.requests[5].seq == 2);
    static const uint32_t order[] = {4, 5, 1, 3, 2, 0};
    for (int i = 0; i < 6; i++)
        answer_number(order[i]);
    rig_turn();
    expect_many(a, 0, 6);
    rig_close();
}

int main(void) {
    one_exchange();
    stale_answers();
    unsound_answers();
    no_content();
    pipeline(2);
    pipeline(MR_PIPELINE_MAX);
    pipeline(MR_PIPELINE_MAX + 1);
    pipeline(2 * MR_PIPELINE_MAX);
    pipeline_bounds_input();
    ring_full();
    ring_full_then_data();
    handler_refuses();
    content();
    for (int chunked = 0; chunked < 2; chunked++)
        for (size_t size = 1000; size <= 1001; size++) {
            content_over_limit(chunked != 0, SIZE_MAX, size);
            content_over_limit(chunked != 0, 7, size);
        }
    discarded_content();
    reload_in_content();
    expect_continue();
    expect_refused();
    connection_close();
    http10();
    requests_per_connection();
    refusals();
    held_limit();
    watching();
    watching_slow(true);
    watching_slow(false);
    idle_with_input();
    numbers_wrap();
    return 0;
}
