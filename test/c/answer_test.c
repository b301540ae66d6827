/* answer_test.c -- answers whole and in pieces, in and out of turn: framing, order, ends, and the
 * loans that come back exactly once whatever happens. */
/* link: engine/engine.c engine/h1.c engine/conn.c engine/out.c engine/route.c engine/reply.c */
/* link: engine/content.c net/sock.c net/unsent.c proto/proxy.c */
/* link: proto/url.c proto/h1_write.c proto/h1_parse.c proto/h1_chunked.c proto/h1_scan.c */
/* link: proto/h1_scan_avx2.c proto/h1_scan_sse2.c proto/h1_scan_neon.c proto/h1_scan_scalar.c */
/* link: base/mem.c base/buf.c base/text.c base/slab.c base/wheel.c */
/* link: engine/journal.c engine/gate.c engine/fleet.c engine/balance.c engine/permits.c */
/* link: engine/fleet_show.c engine/mailbox.c engine/meter.c engine/series.c engine/rate.c */
/* link: engine/access_log.c engine/access_line.c engine/metrics_text.c engine/metrics_put.c */
#include "engine/answer.c"

#include "engine_rig.h"

#define LINGERS(line) (rig_conn_state(line) == MR_CONN_LINGERING && rig.lines[line].has_fin)
#define CHUNKED "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n" RIG_DATE
#define GET_CLOSE "GET /a HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
#define NAME(index) rig.requests[index].connection, rig.requests[index].seq

static mr_rc begin(uint32_t index, const char *head, uint16_t status, uint16_t flags) {
    mr_response r = {.head = (const uint8_t *)head,
                     .head_len = strlen(head),
                     .status = status,
                     .flags = flags | MR_RESPONSE_STREAM | MR_RESPONSE_IS_UNCHECKED};
    return mr_engine_respond(rig.engine, NAME(index), &r);
}

static mr_rc stream(uint32_t index, uint16_t flags) {
    return begin(index, "HTTP/1.1 200 OK\r\n", 200, flags);
}

static mr_rc put_text(uint32_t index, const char *text) {
    return mr_engine_write(rig.engine, NAME(index), (const uint8_t *)text, strlen(text), NULL);
}

static mr_rc finish_with(uint32_t index, const char *trailers) {
    return mr_engine_finish(rig.engine, NAME(index), (const uint8_t *)trailers, strlen(trailers));
}

static mr_rc finish(uint32_t index) { return mr_engine_finish(rig.engine, NAME(index), NULL, 0); }

static mr_rc cut(uint32_t index) { return mr_engine_abort(rig.engine, NAME(index)); }

static mr_rc inform(uint32_t index, unsigned status, const char *fields) {
    return mr_engine_inform(rig.engine, NAME(index), status, (const uint8_t *)fields,
                            strlen(fields));
}

static uint64_t queued(uint32_t index) { return mr_engine_queued_bytes(rig.engine, NAME(index)); }

static mr_rc watch_drain(uint32_t index) { return mr_engine_watch_drain(rig.engine, NAME(index)); }

/* ---- one stream ---- */

/* Everything that is too late, or too early, finds nothing. */
static void expect_gone(uint32_t index) {
    CHECK(put_text(index, "z") == MR_GONE && finish(index) == MR_GONE && cut(index) == MR_GONE);
    CHECK(rig_answer(index, "z") == MR_GONE && stream(index, 0) == MR_GONE);
    CHECK(inform(index, 103, "") == MR_GONE && watch_drain(index) == MR_GONE);
    CHECK(finish_with(index, "bad") == MR_GONE);
}

static void in_turn(void) {
    rig_open("in turn", NULL);
    uint32_t a = rig_connect();
    rig_send(a, RIG_GET RIG_GET);
    rig_turn();
    CHECK(put_text(0, "early") == MR_GONE && finish(0) == MR_GONE && watch_drain(0) == MR_GONE);
    CHECK(stream(0, 0) == MR_OK);
    CHECK(stream(0, 0) == MR_GONE && rig_answer(0, "x") == MR_GONE);
    CHECK(inform(0, 103, "") == MR_GONE);
    rig_turn();
    CHECK(rig_got(a, CHUNKED "\r\n"));
    CHECK(put_text(0, "hello") == MR_OK && put_text(0, "") == MR_OK);
    CHECK(put_text(0, "0123456789abcdef") == MR_OK);
    CHECK(mr_engine_is_waiting(rig.engine, NAME(0)) == MR_IS_WAITING);
    rig_turn();
    CHECK(rig_got(a, "5\r\nhello\r\n10\r\n0123456789abcdef\r\n"));
    CHECK(mr_engine_watch(rig.engine, NAME(0)) == MR_OK);
    CHECK(put_text(0, "end") == MR_OK && finish(0) == MR_OK && rig.done_count == 0);
    CHECK(mr_engine_is_waiting(rig.engine, NAME(0)) == MR_IS_OVER);
    expect_gone(0);
    CHECK(rig_answer(1, "x") == MR_OK);
    rig_turn();
    char text[1024];
    snprintf(text, sizeof text, "3\r\nend\r\n0\r\n\r\n%s", rig_ok("x", false));
    CHECK(rig_got(a, text) && rig_conn_state(a) == MR_CONN_OPEN);
    CHECK(rig.done_count == 1 && rig.done[0].is_answered); /* told when it has left */
    rig_close();
}

/* Pieces of three streams, come in any order: each in its turn, what is held and what is not. */
static void out_of_turn(uint32_t held) {
    char text[1024];
    rig_open("out of turn", NULL);
    uint32_t a = rig_connect();
    rig_send(a, RIG_GET RIG_GET RIG_GET);
    rig_turn();
    for (uint32_t i = 3; i-- > 1;) { /* `held` of four steps before it is their turn */
        if (held > 0)
            CHECK(stream(i, 0) == MR_OK);
        if (held > 1)
            CHECK(put_text(i, i == 1 ? "one" : "two") == MR_OK);
        if (held > 2)
            CHECK(put_text(i, "more") == MR_OK);
        if (held > 3)
            CHECK(finish(i) == MR_OK && finish(i) == MR_GONE && put_text(i, "z") == MR_GONE);
        rig_turn();
        CHECK(rig_got(a, ""));
    }
    CHECK(rig_answer(0, "first") == MR_OK);
    for (uint32_t i = 1; i < 3; i++) {
        if (held < 1)
            CHECK(stream(i, 0) == MR_OK);
        if (held < 2)
            CHECK(put_text(i, i == 1 ? "one" : "two") == MR_OK);
        if (held < 3)
            CHECK(put_text(i, "more") == MR_OK);
        if (held < 4)
            CHECK(finish(i) == MR_OK);
        expect_gone(i);
    }
    rig_turn();
    snprintf(text, sizeof text,
             "%s" CHUNKED "\r\n3\r\none\r\n4\r\nmore\r\n0\r\n\r\n" CHUNKED
             "\r\n3\r\ntwo\r\n4\r\nmore\r\n0\r\n\r\n",
             rig_ok("first", false));
    CHECK(rig_got(a, text) && ((mr_conn *)rig.lines[a].link)->held_bytes == 0);
    rig_close();
}

/* ---- framing ---- */

static void framing(const char *request, const char *head, uint16_t status, uint16_t flags,
                    const char *want) {
    for (int is_held = 0; is_held < 2; is_held++) {
        char text[2048];
        rig_open(request, NULL);
        uint32_t a = rig_connect(), mine = is_held ? 1 : 0;
        if (is_held)
            rig_send(a, RIG_GET);
        rig_send(a, request);
        rig_send(a, RIG_GET);
        rig_turn();
        CHECK(begin(mine, head, status, flags) == MR_OK && put_text(mine, "abc") == MR_OK);
        CHECK(put_text(mine, "d") == MR_OK && finish_with(mine, "T: u\r\n") == MR_OK);
        if (is_held)
            CHECK(rig_answer(0, "x") == MR_OK);
        rig_turn();
        snprintf(text, sizeof text, "%s%s", is_held ? rig_ok("x", false) : "", want);
        CHECK(rig_got(a, text));
        bool is_last = strstr(want, "Connection: close") != NULL;
        CHECK(rig.lines[a].has_fin == is_last);
        if (!is_last) {
            CHECK(rig_answer(mine + 1, "next") == MR_OK);
            rig_turn();
            CHECK(rig_got(a, rig_ok("next", false)));
        }
        rig_close();
    }
}

#define OK_HEAD "HTTP/1.1 200 OK\r\n"
#define GET_1_0 "GET /a HTTP/1.0\r\n"

static void all_framings(void) {
    static const char head_request[] = "HEAD /a HTTP/1.1\r\nHost: h\r\n\r\n";
    const uint16_t has_length = MR_RESPONSE_HAS_LENGTH;
    framing(RIG_GET, OK_HEAD, 200, 0, CHUNKED "\r\n3\r\nabc\r\n1\r\nd\r\n0\r\nT: u\r\n\r\n");
    framing(RIG_GET, OK_HEAD, 200, MR_RESPONSE_HAS_DATE,
            OK_HEAD "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n1\r\nd\r\n0\r\nT: u\r\n\r\n");
    framing(RIG_GET, OK_HEAD "Content-Length: 4\r\n", 200, has_length,
            OK_HEAD "Content-Length: 4\r\n" RIG_DATE "\r\nabcd");
    framing(RIG_GET, OK_HEAD, 200, MR_RESPONSE_CLOSE,
            CHUNKED RIG_CLOSE "\r\n3\r\nabc\r\n1\r\nd\r\n0\r\nT: u\r\n\r\n");
    framing(GET_CLOSE, OK_HEAD, 200, 0,
            CHUNKED RIG_CLOSE "\r\n3\r\nabc\r\n1\r\nd\r\n0\r\nT: u\r\n\r\n");
    framing(GET_1_0 "\r\n", OK_HEAD, 200, 0, OK_HEAD RIG_DATE RIG_CLOSE "\r\nabcd");
    framing(GET_1_0 "Connection: keep-alive\r\n\r\n", OK_HEAD, 200, 0,
            OK_HEAD RIG_DATE RIG_CLOSE "\r\nabcd");
    framing(GET_1_0 "Connection: keep-alive\r\n\r\n", OK_HEAD "Content-Length: 4\r\n", 200,
            has_length,
            OK_HEAD "Content-Length: 4\r\n" RIG_DATE "Connection: keep-alive\r\n\r\nabcd");
    framing(head_request, OK_HEAD, 200, 0, CHUNKED "\r\n");
    framing(head_request, OK_HEAD "Content-Length: 4\r\n", 200, has_length,
            OK_HEAD "Content-Length: 4\r\n" RIG_DATE "\r\n");
    framing("HEAD /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", OK_HEAD, 200, 0,
            OK_HEAD RIG_DATE "Connection: keep-alive\r\n\r\n");
    framing(RIG_GET, "HTTP/1.1 204 No Content\r\n", 204, 0,
            "HTTP/1.1 204 No Content\r\n" RIG_DATE "\r\n");
    framing(RIG_GET, "HTTP/1.1 304 Not Modified\r\n", 304, 0,
            "HTTP/1.1 304 Not Modified\r\n" RIG_DATE "\r\n");
    framing(RIG_GET, "HTTP/1.1 205 Reset Content\r\n", 205, 0,
            "HTTP/1.1 205 Reset Content\r\nContent-Length: 0\r\n" RIG_DATE "\r\n");
}

static void unsound(void) {
    static char huge[MR_RESPONSE_HEAD_MAX + 16];
    rig_open("unsound", NULL);
    uint32_t a = rig_connect();
    rig_send(a, RIG_GET);
    rig_turn();
    CHECK(begin(0, OK_HEAD "A: b\n", 200, 0) == MR_INVALID);
    CHECK(begin(0, OK_HEAD, 204, 0) == MR_INVALID);
    CHECK(inform(0, 100, "") == MR_INVALID && inform(0, 101, "") == MR_INVALID);
    CHECK(inform(0, 200, "") == MR_INVALID && inform(0, 103, "A: b") == MR_INVALID);
    CHECK(inform(0, 103, "A: b\r\n\r\n") == MR_INVALID);
    CHECK(stream(0, 0) == MR_OK);
    CHECK(finish_with(0, "T: u") == MR_INVALID && finish_with(0, "T: u\r\n\r\n") == MR_INVALID);
    CHECK(finish_with(0, " T: u\r\n") == MR_INVALID &&
          finish_with(0, "T: u\nV: w\r\n") == MR_INVALID);
    memset(huge, 'a', sizeof huge - 1);
    memcpy(huge + MR_RESPONSE_HEAD_MAX - 1, "\r\n", 3);
    CHECK(finish_with(0, huge) == MR_INVALID && put_text(0, "y") == MR_OK);
    memcpy(huge + MR_RESPONSE_HEAD_MAX - 2, "\r\n", 3);
    CHECK(finish_with(0, huge) == MR_OK);
    memset(huge, 0, sizeof huge); /* borrowed for the call only */
    rig_turn();
    const rig_line *l = &rig.lines[a];
    const char *end = "aaa\r\n\r\n", *start = CHUNKED "\r\n1\r\ny\r\n0\r\naaa";
    CHECK(l->got.len == strlen(start) - 3 + MR_RESPONSE_HEAD_MAX + 2);
    CHECK(memcmp(l->got.data, start, strlen(start)) == 0);
    CHECK(memcmp(l->got.data + l->got.len - strlen(end), end, strlen(end)) == 0);
    rig_close();
}

/* ---- interim answers ---- */

static void interim(void) {
    char text[2048];
    rig_open("interim", NULL);
    uint32_t a = rig_connect();
    rig_send(a, RIG_GET "POST /p HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n"
                        "Expect: 100-continue\r\n\r\n");
    rig_turn();
    CHECK(inform(1, 103, "B: 1\r\n") == MR_OK && rig_ask(1, 100) == MR_OK);
    CHECK(inform(1, 102, "") == MR_OK && inform(0, 103, "A: 1\r\nA: 2\r\n") == MR_OK);
    rig_turn();
    CHECK(rig_got(a, "HTTP/1.1 103 Early Hints\r\nA: 1\r\nA: 2\r\n\r\n"));
    CHECK(inform(0, 199, "") == MR_OK && rig_answer(0, "x") == MR_OK);
    CHECK(inform(0, 103, "") == MR_GONE);
    rig_turn();
    snprintf(text, sizeof text,
             "HTTP/1.1 199 Unknown\r\n\r\n%sHTTP/1.1 103 Early Hints\r\nB: 1\r\n\r\n"
             "HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n",
             rig_ok("x", false));
    CHECK(rig_got(a, text));
    rig_send(a, "ab");
    rig_turn();
    CHECK(inform(1, 103, "") == MR_OK && rig_answer(1, "y") == MR_OK);
    rig_turn();
    snprintf(text, sizeof text, "HTTP/1.1 103 Early Hints\r\n\r\n%s", rig_ok("y", false));
    CHECK(rig_got(a, text));
    /* Not to HTTP/1.0 (RFC 9110 15.2), and the answer is as ever. */
    rig_send(a, "GET /a HTTP/1.0\r\n\r\n");
    rig_turn();
    CHECK(inform(2, 103, "") == MR_OK && inform(2, 103, "bad") == MR_INVALID);
    CHECK(rig_answer(2, "z") == MR_OK);
    rig_turn();
    CHECK(rig_got(a, rig_ok("z", true)));
    rig_close();
}

/* ---- cutting short ---- */

static void abort_in_turn(int is_begun) {
    rig_open("abort in turn", NULL);
    uint32_t a = rig_connect(), b = rig_connect();
    rig_send(a, RIG_GET RIG_GET);
    rig_send(b, RIG_GET);
    rig_turn();
    CHECK(mr_engine_watch(rig.engine, NAME(0)) == MR_OK);
    if (is_begun)
        CHECK(stream(0, 0) == MR_OK && put_text(0, "abc") == MR_OK);
    CHECK(rig_answer(1, "held") == MR_OK && rig_answer(2, "other") == MR_OK);
    CHECK(cut(0) == MR_OK);
    expect_gone(0);
    rig_turn();
    CHECK(rig_got(a, is_begun ? CHUNKED "\r\n3\r\nabc\r\n" : "")); /* no last chunk */
    CHECK(rig_conn_state(a) == MR_CONN_DEAD && !rig.lines[a].has_fin);
    CHECK(rig.done_count == 1 && !rig.done[0].is_answered);
    CHECK(rig_got(b, rig_ok("other", false)));
    rig_close();
}

static void abort_out_of_turn(int is_begun) {
    rig_open("abort out of turn", NULL);
    uint32_t a = rig_connect();
    rig_send(a, RIG_GET RIG_GET RIG_GET);
    rig_turn();
    if (is_begun)
        CHECK(stream(1, 0) == MR_OK && put_text(1, "abc") == MR_OK);
    CHECK(rig_answer(2, "never") == MR_OK);
    CHECK(cut(1) == MR_OK);
    expect_gone(1);
    rig_turn();
    CHECK(rig_conn_state(a) == MR_CONN_OPEN && rig_got(a, ""));
    CHECK(rig_answer(0, "first") == MR_OK);
    rig_turn();
    char text[1024];
    snprintf(text, sizeof text, "%s%s", rig_ok("first", false),
             is_begun ? CHUNKED "\r\n3\r\nabc\r\n" : "");
    CHECK(rig_got(a, text) && rig_conn_state(a) == MR_CONN_DEAD && !rig.lines[a].has_fin);
    rig_close();
}

/* ---- the last answer ---- */

/* Once a stream has said that it is the last, nothing more is taken. */
static void last_stream(bool is_held) {
    rig_open("last stream", NULL);
    uint32_t a = rig_connect(), mine = is_held ? 1 : 0;
    rig_send(a, is_held ? RIG_GET RIG_GET RIG_GET : RIG_GET RIG_GET);
    rig_turn();
    CHECK(mr_engine_watch(rig.engine, NAME(mine + 1)) == MR_OK);
    CHECK(stream(mine, MR_RESPONSE_CLOSE) == MR_OK);
    rig_send(a, RIG_GET);
    rig_turn();
    CHECK(rig.request_count == mine + 2);
    CHECK(rig_answer(mine + 1, "never") == MR_OK && put_text(mine, "x") == MR_OK);
    CHECK(finish(mine) == MR_OK);
    if (is_held)
        CHECK(rig_got(a, "") && rig_answer(0, "first") == MR_OK);
    CHECK(rig.done_count == 1 && !rig.done[0].is_answered);
    rig_turn();
    char text[1024];
    snprintf(text, sizeof text, "%s" CHUNKED RIG_CLOSE "\r\n1\r\nx\r\n0\r\n\r\n",
             is_held ? rig_ok("first", false) : "");
    CHECK(rig_got(a, text) && LINGERS(a));
    rig_close();
}

/* A stream that was not the last when it began. */
static void drained_engine(void) {
    rig_open("drained engine", NULL);
    uint32_t a = rig_connect(), b = rig_connect();
    rig_send(a, RIG_GET);
    rig_send(b, RIG_GET);
    rig_turn();
    CHECK(stream(0, 0) == MR_OK &&
          begin(1, OK_HEAD "Content-Length: 0\r\n", 200, MR_RESPONSE_HAS_LENGTH) == MR_OK);
    rig_turn();
    mr_engine_drain(rig.engine, 1000);
    rig_turn();
    CHECK(mr_engine_connections(rig.engine) == 2);
    CHECK(finish(0) == MR_OK && finish(1) == MR_OK); /* of the second not an octet is left */
    rig_turn();
    CHECK(rig_got(a, CHUNKED "\r\n0\r\n\r\n") && LINGERS(a) && LINGERS(b));
    rig_close();
}

/* An end without an octet: the idle time begins all the same. */
static void idle_behind_stream(void) {
    rig_open("idle behind stream", NULL);
    uint32_t a = rig_connect(), b = rig_connect();
    rig_send(a, RIG_GET);
    rig_send(b, "HEAD /a HTTP/1.1\r\nHost: h\r\n\r\n");
    rig_turn();
    CHECK(begin(0, OK_HEAD "Content-Length: 2\r\n", 200, MR_RESPONSE_HAS_LENGTH) == MR_OK);
    CHECK(put_text(0, "ab") == MR_OK && stream(1, 0) == MR_OK);
    rig_pass(500000); /* ours */
    CHECK(finish(0) == MR_OK && finish(1) == MR_OK);
    rig_turn();
    rig_pass(74999);
    CHECK(rig_conn_state(a) == MR_CONN_OPEN && rig_conn_state(b) == MR_CONN_OPEN);
    rig_pass(1);
    CHECK(LINGERS(a) && LINGERS(b));
    rig_close();
}

/* ---- bounds ---- */

/* Pieces that wait for an earlier answer: more than one only below the limit. */
static void held_limit(void) {
    mr_engine_options o = rig_options();
    static const uint8_t bytes[5000];
    o.limits.held_bytes = 2000;
    for (int over = 0; over < 2; over++) {
        rig_open("held limit", &o);
        uint32_t a = rig_connect();
        rig_send(a, RIG_GET RIG_GET);
        rig_turn();
        CHECK(mr_engine_watch(rig.engine, NAME(1)) == MR_OK && stream(1, 0) == MR_OK);
        CHECK(mr_engine_write(rig.engine, NAME(1), bytes, 1000, NULL) == MR_OK);
        uint64_t held = queued(1);
        CHECK(held > 1000 && held < 2000 && queued(0) == held);
        mr_rc rc = mr_engine_write(rig.engine, NAME(1), bytes, 2000 - held + (uint64_t)over, NULL);
        CHECK(rc == (over ? MR_NOMEM : MR_OK));
        rig_turn();
        CHECK(rig_conn_state(a) == (over ? MR_CONN_DEAD : MR_CONN_OPEN));
        CHECK(rig.done_count == (uint32_t)over);
        rig_close();
    }
}

/* ---- drained ---- */

static void drained(void) {
    static uint8_t bytes[50000];
    rig_open("drained", NULL);
    uint32_t a = rig_connect();
    rig_send(a, RIG_GET RIG_GET);
    rig_turn();
    CHECK(watch_drain(0) == MR_GONE && stream(0, 0) == MR_OK && stream(1, 0) == MR_OK);
    /* What is gathered has not left. */
    CHECK(watch_drain(0) == MR_OK && rig.note_count == 0);
    rig_turn();
    CHECK(rig_notes(0, MR_NOTE_DRAINED) == 1);
    CHECK(watch_drain(0) == MR_OK && rig_notes(0, MR_NOTE_DRAINED) == 2); /* at once */
    uint64_t of_other = queued(0);
    rig.lines[a].room = 100;
    CHECK(mr_engine_write(rig.engine, NAME(0), bytes, sizeof bytes, NULL) == MR_OK);
    rig_turn();
    CHECK(queued(0) == of_other + sizeof bytes + 8 - 100);
    CHECK(watch_drain(0) == MR_OK && watch_drain(1) == MR_OK);
    rig.lines[a].room = sizeof bytes + 7 - 100;
    rig_turn();
    CHECK(queued(0) == of_other + 1 && rig.note_count == 2);
    rig.lines[a].room = 1;
    rig_turn();
    CHECK(rig_notes(0, MR_NOTE_DRAINED) == 3 && rig.note_count == 3 && queued(0) == of_other);
    /* The other's turn. */
    rig.lines[a].room = SIZE_MAX;
    CHECK(finish(0) == MR_OK && rig_notes(1, MR_NOTE_DRAINED) == 0);
    rig_turn();
    CHECK(rig_notes(1, MR_NOTE_DRAINED) == 1 && queued(1) == 0 && queued(0) == 0);
    /* By a queue that empties while it is the other's turn. */
    rig.lines[a].room = 0;
    CHECK(put_text(1, "x") == MR_OK);
    rig_turn();
    CHECK(watch_drain(1) == MR_OK && rig_notes(1, MR_NOTE_DRAINED) == 1);
    rig.transport->events->on_gone(rig.transport->owner, rig.lines[a].link);
    rig_settle();
    CHECK(rig.note_count == 4 && queued(1) == 0 && watch_drain(1) == MR_GONE);
    rig_close();
}

/* ---- loans ---- */

typedef enum loan_end {
    IS_SENT,
    IS_QUEUED, /* and then sent, with little room each time */
    IS_GONE,   /* while it is queued, held, or gathered */
    IS_DESTROYED,
    IS_VOID, /* its octets are given away before the first use */
    IS_VOID_LATER
} loan_end;

typedef enum loan_way { WHOLE, IN_STREAM, IN_CHUNKS } loan_way;

static mr_rc give(uint32_t index, loan_way way, rig_lease *l) {
    mr_response r = {.head = (const uint8_t *)OK_HEAD,
                     .head_len = sizeof OK_HEAD - 1,
                     .body = l->bytes,
                     .body_len = l->len,
                     .lease = &l->lease,
                     .status = 200};
    if (way == WHOLE)
        return mr_engine_respond(rig.engine, NAME(index), &r);
    return mr_engine_write(rig.engine, NAME(index), l->bytes, l->len, &l->lease);
}

static void append_head(rig_bytes *to, loan_way way, size_t len) {
    char text[256];
    int size = way == IN_CHUNKS ? snprintf(text, sizeof text, CHUNKED "\r\n%zx\r\n", len)
                                : snprintf(text, sizeof text,
                                           OK_HEAD "Content-Length: %zu\r\n" RIG_DATE "\r\n", len);
    rig_append(to, text, (size_t)size);
}

static void begin_way(uint32_t index, loan_way way, size_t len) {
    char head[128];
    snprintf(head, sizeof head, OK_HEAD "Content-Length: %zu\r\n", len);
    if (way == IN_CHUNKS)
        CHECK(stream(index, 0) == MR_OK);
    if (way == IN_STREAM)
        CHECK(begin(index, head, 200, MR_RESPONSE_HAS_LENGTH) == MR_OK);
}

static bool takes_loan(size_t len) { return len > MR_OUT_COPY_MAX; }

static void loan_path(size_t len, loan_way way, loan_end end, bool is_held) {
    static char name[64];
    rig_lease l;
    rig_bytes want = {0};
    uint32_t mine = is_held ? 1 : 0;
    rig_open("loan", NULL);
    snprintf(name, sizeof name, "loan of %zu, way %d, end %d, held %d", len, way, end, is_held);
    rig.at_case = name;
    uint32_t a = rig_connect();
    rig_send(a, is_held ? RIG_GET RIG_GET : RIG_GET);
    rig_turn();
    if (is_held)
        rig_append(&want, rig_ok("x", false), strlen(rig_ok("x", false)));
    append_head(&want, way, len);
    rig_lend(&l, len);
    rig_append(&want, l.bytes, len);
    if (way == IN_CHUNKS)
        rig_append(&want, "\r\n", 2);
    begin_way(mine, way, len);
    rig.lines[a].room = end == IS_SENT ? SIZE_MAX : 200;
    CHECK(give(mine, way, &l) == MR_OK);
    CHECK(l.lease.borrowers == (takes_loan(len) ? 2 : 1));
    mr_lease_return(&l.lease);
    CHECK(l.is_returned == !takes_loan(len));
    if (end == IS_GONE && is_held) {
        rig.transport->events->on_gone(rig.transport->owner, rig.lines[a].link);
        rig_settle(); /* in held */
        CHECK(l.is_returned);
    } else if (end == IS_DESTROYED) {
        mr_engine_destroy(rig.engine); /* gathered, or held */
        CHECK(l.is_returned);
        free(want.data);
        rig_reset();
        return;
    }
    if (end == IS_VOID && !l.is_returned)
        rig_revoke(&l);
    if (is_held && rig.lines[a].link != NULL)
        CHECK(rig_answer(0, "x") == MR_OK);
    if (end == IS_GONE && !is_held && way == WHOLE)
        rig.transport->events->on_gone(rig.transport->owner, rig.lines[a].link); /* gathered */
    rig_settle();
    if (end == IS_VOID_LATER && !l.is_returned)
        rig_revoke(&l);
    if (end == IS_GONE && rig.lines[a].link != NULL) {
        CHECK(l.is_returned == !takes_loan(len)); /* queued */
        rig.transport->events->on_gone(rig.transport->owner, rig.lines[a].link);
        CHECK(l.is_returned);
        rig_settle();
    }
    for (int i = 0; i < 1000 && rig.lines[a].link != NULL && rig.lines[a].link->unsent != NULL;
         i++) {
        rig.lines[a].room = 7919;
        rig_turn();
    }
    rig_turn();
    CHECK(l.is_returned);
    bool is_read = end == IS_SENT || end == IS_QUEUED || !takes_loan(len);
    CHECK(end == IS_GONE || (rig_conn_state(a) == MR_CONN_OPEN) == is_read);
    if (end != IS_GONE && is_read)
        CHECK(rig_got_bytes(a, want.data, want.len));
    CHECK(!takes_loan(len) || end != IS_SENT || l.asked > 0);
    free(want.data);
    rig_close();
}

static void all_loan_paths(void) {
    static const size_t sizes[] = {MR_OUT_COPY_MAX, MR_OUT_COPY_MAX + 1, 3 * MR_OUT_BYTES};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (loan_way way = WHOLE; way <= IN_CHUNKS; way++)
            for (loan_end end = IS_SENT; end <= IS_VOID_LATER; end++)
                for (int is_held = 0; is_held < 2; is_held++)
                    loan_path(sizes[i], way, end, is_held != 0);
}

/* Who is refused, or needs no octets, borrows nothing. */
static void loans_not_taken(void) {
    rig_lease l;
    rig_open("loans not taken", NULL);
    uint32_t a = rig_connect();
    rig_send(a, "HEAD /a HTTP/1.1\r\nHost: h\r\n\r\nHEAD /a HTTP/1.1\r\nHost: h\r\n\r\n" RIG_GET);
    rig_turn();
    rig_lend(&l, 100000);
    CHECK(give(1, IN_CHUNKS, &l) == MR_GONE && give(0, WHOLE, &l) == MR_OK);
    CHECK(give(0, WHOLE, &l) == MR_GONE && stream(1, 0) == MR_OK);
    CHECK(give(1, IN_CHUNKS, &l) == MR_OK && give(1, WHOLE, &l) == MR_GONE);
    CHECK(l.lease.borrowers == 1 && finish(1) == MR_OK);
    rig_turn();
    CHECK(rig_got(a, OK_HEAD "Content-Length: 100000\r\n" RIG_DATE "\r\n" CHUNKED "\r\n"));
    rig.lines[a].is_broken = true;
    CHECK(give(2, WHOLE, &l) == MR_OK && l.lease.borrowers == 2);
    rig_turn();
    CHECK(l.lease.borrowers == 1 && rig_conn_state(a) == MR_CONN_DEAD);
    CHECK(give(2, WHOLE, &l) == MR_GONE && l.lease.borrowers == 1);
    mr_lease_return(&l.lease);
    CHECK(l.is_returned);
    rig_close();
}

/* A held answer whose head alone is more than what is copied, before octets on loan. */
static void large_head_and_loan(size_t head_len) {
    rig_lease l;
    rig_bytes want = {0};
    rig_open("large head and loan", NULL);
    uint32_t a = rig_connect();
    char *head = malloc(head_len);
    CHECK(head != NULL);
    memset(head, 'h', head_len);
    memcpy(head, OK_HEAD "X: ", sizeof OK_HEAD - 1 + 3);
    memcpy(head + head_len - 2, "\r\n", 2);
    rig_send(a, RIG_GET RIG_GET RIG_GET);
    rig_turn();
    rig_lend(&l, 100000);
    mr_response r = {.head = (uint8_t *)head,
                     .head_len = head_len,
                     .body = l.bytes,
                     .body_len = l.len,
                     .lease = &l.lease,
                     .status = 200,
                     .flags = MR_RESPONSE_IS_UNCHECKED};
    CHECK(mr_engine_respond(rig.engine, NAME(1), &r) == MR_OK && rig_answer(2, "y") == MR_OK);
    rig_append(&want, rig_ok("x", false), strlen(rig_ok("x", false)));
    rig_append(&want, head, head_len);
    rig_append(&want, "Content-Length: 100000\r\n" RIG_DATE "\r\n", 24 + sizeof RIG_DATE - 1 + 2);
    rig_append(&want, l.bytes, l.len);
    rig_append(&want, rig_ok("y", false), strlen(rig_ok("y", false)));
    free(head);
    mr_lease_return(&l.lease);
    CHECK(rig_answer(0, "x") == MR_OK);
    rig_turn();
    CHECK(rig_got_bytes(a, want.data, want.len) && l.is_returned);
    free(want.data);
    rig_close();
}

/* One buffer in the pieces of many streams at once; more pieces than one send takes. */
static void shared_loan(void) {
    enum { LINES = 20, PIECES = 30, SIZE = 40000 };
    rig_lease l;
    rig_open("shared loan", NULL);
    for (uint32_t i = 0; i < LINES; i++)
        rig_send(rig_connect(), RIG_GET);
    rig_turn();
    rig_lend(&l, SIZE);
    for (uint32_t i = 0; i < LINES; i++)
        CHECK(stream(i, 0) == MR_OK);
    for (uint32_t k = 0; k < PIECES; k++)
        for (uint32_t i = 0; i < LINES; i++)
            CHECK(give(i, IN_CHUNKS, &l) == MR_OK);
    for (uint32_t i = 0; i < LINES; i++)
        CHECK(finish(i) == MR_OK);
    mr_lease_return(&l.lease);
    rig_turn();
    CHECK(l.is_returned);
    for (uint32_t i = 0; i < LINES; i++)
        CHECK(rig.lines[i].got.len ==
              strlen(CHUNKED "\r\n") + PIECES * (SIZE + strlen("9c40\r\n\r\n")) + 5);
    rig_close();
}

int main(void) {
    in_turn();
    for (uint32_t held = 0; held <= 4; held++)
        out_of_turn(held);
    all_framings();
    unsound();
    interim();
    for (int i = 0; i < 2; i++) {
        abort_in_turn(i);
        abort_out_of_turn(i);
        last_stream(i != 0);
    }
    drained_engine();
    idle_behind_stream();
    held_limit();
    drained();
    all_loan_paths();
    loans_not_taken();
    large_head_and_loan(MR_OUT_COPY_MAX + 1);
    large_head_and_loan(MR_RESPONSE_HEAD_MAX);
    shared_loan();
    return 0;
}
