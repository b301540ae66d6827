/* content_test.c -- content of requests as it comes: windows, limits, time, and every way in which
 * it may end before its end. */
/* link: engine/engine.c engine/h1.c engine/conn.c engine/out.c engine/route.c engine/reply.c */
/* link: engine/answer.c net/sock.c net/unsent.c proto/proxy.c */
/* link: proto/url.c proto/h1_write.c proto/h1_parse.c proto/h1_chunked.c proto/h1_scan.c */
/* link: proto/h1_scan_avx2.c proto/h1_scan_sse2.c proto/h1_scan_neon.c proto/h1_scan_scalar.c */
/* link: base/mem.c base/buf.c base/text.c base/slab.c base/wheel.c */
/* link: engine/journal.c engine/gate.c engine/fleet.c engine/balance.c engine/permits.c */
/* link: engine/fleet_show.c engine/mailbox.c engine/meter.c engine/series.c engine/rate.c */
/* link: engine/access_log.c engine/access_line.c engine/metrics_text.c engine/metrics_put.c */
#include "engine/content.c"

#include "engine_rig.h"

#define POST_HEAD "POST /p HTTP/1.1\r\nHost: h\r\n"
#define CHUNKED_HEAD POST_HEAD "Transfer-Encoding: chunked\r\n\r\n"
#define CONTINUE "HTTP/1.1 100 Continue\r\n\r\n"
#define LINGERS(line) (rig_conn_state(line) == MR_CONN_LINGERING && rig.lines[line].has_fin)

static void open_wide(const char *at_case) {
    mr_engine_options o = rig_options();
    o.limits.body_bytes = 64 * 1024 * 1024;
    rig_open(at_case, &o);
}

static void send_head(uint32_t line, size_t length, const char *fields) {
    char text[256];
    snprintf(text, sizeof text, POST_HEAD "Content-Length: %zu\r\n%s\r\n", length, fields);
    rig_send(line, text);
}

static uint8_t octet_at(size_t i) { return (uint8_t)(i * 11 + i / 253); }

/* Octets [from, to) of the content. */
static void send_part(uint32_t line, size_t from, size_t to) {
    for (size_t i = from; i < to; i++) {
        uint8_t octet = octet_at(i);
        rig_send_bytes(line, &octet, 1);
    }
}

static void send_chunk(uint32_t line, size_t from, size_t to) {
    char text[32];
    snprintf(text, sizeof text, "%zx\r\n", to - from);
    rig_send(line, text);
    send_part(line, from, to);
    rig_send(line, "\r\n");
}

static bool is_whole(uint32_t index, size_t len) {
    const rig_request *r = &rig.requests[index];
    for (size_t i = 0; i < r->body_len; i++)
        if (r->body[i] != octet_at(i))
            return false;
    return r->is_complete && r->body_len == len;
}

/* The head of a stream, as an answer to request `index`. */
static mr_rc stream(uint32_t index, uint16_t flags) {
    return rig_answer_with(index, NULL, 0, flags | MR_RESPONSE_STREAM);
}

static mr_rc finish(uint32_t index) {
    return mr_engine_finish(rig.engine, rig.requests[index].connection, rig.requests[index].seq,
                            NULL, 0);
}

#define STREAM_HEAD "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n" RIG_DATE
#define STREAM_END "0\r\n\r\n"

/* ---- windows ---- */

static void window(bool is_chunked, size_t piece) {
    enum { SIZE = 300000, CHUNK = 1000 };
    open_wide("window");
    uint32_t a = rig_connect();
    const rig_request *r = &rig.requests[0];
    rig.piece = piece;
    if (is_chunked) {
        rig_send(a, CHUNKED_HEAD);
        for (size_t i = 0; i < SIZE; i += CHUNK)
            send_chunk(a, i, i + CHUNK);
        rig_send(a, STREAM_END RIG_GET);
    } else {
        send_head(a, SIZE, "");
        send_part(a, 0, SIZE);
        rig_send(a, RIG_GET);
    }
    rig_turn();
    CHECK(rig.request_count == 1 && r->is_streamed);
    CHECK(r->body_len == MR_WINDOW_BYTES && !r->is_complete);
    size_t off = rig.lines[a].sent_off;
    CHECK(piece > 100000 || (!rig.lines[a].wants_data && off < MR_WINDOW_BYTES * 3 / 2));
    rig_turn();
    CHECK(rig.lines[a].sent_off == off && r->body_len == MR_WINDOW_BYTES);
    for (size_t more = 1; more < 3000; more *= 7) { /* just what is asked, whatever the chunks */
        size_t before = r->body_len;
        CHECK(rig_ask(0, more - 1) == MR_OK && rig_ask(0, 1) == MR_OK);
        rig_turn();
        rig_turn();
        CHECK(r->body_len == before + more);
    }
    CHECK(rig_ask(0, UINT64_MAX) == MR_OK && rig_ask(0, UINT64_MAX) == MR_OK);
    CHECK(((mr_conn *)rig.lines[a].link)->incoming->window == MR_WINDOW_MAX);
    rig_turn();
    rig_turn();
    CHECK(is_whole(0, SIZE) && rig.request_count == 2 && rig.note_count == 0);
    CHECK(rig_ask(0, 1) == MR_GONE && rig.lines[a].wants_data);
    rig_close();
}

/* At the window and around it: the end of a plain content comes with its last octet, that of a
 * chunked one when more is asked. */
static void window_edge(bool is_chunked) {
    for (size_t size = MR_WINDOW_BYTES - 1; size <= MR_WINDOW_BYTES + 1; size++) {
        open_wide("window edge");
        uint32_t a = rig_connect();
        if (is_chunked) {
            rig_send(a, CHUNKED_HEAD);
            send_chunk(a, 0, size);
            rig_turn();
            rig_send(a, STREAM_END RIG_GET);
        } else {
            send_head(a, size, "");
            rig_turn();
            send_part(a, 0, size);
            rig_send(a, RIG_GET);
        }
        rig_turn();
        size_t free_size = MR_WINDOW_BYTES - (is_chunked ? 1 : 0);
        CHECK(rig.requests[0].is_complete == (size <= free_size));
        CHECK(rig_ask(0, 2) == (size <= free_size ? MR_GONE : MR_OK));
        rig_turn();
        rig_turn(); /* what is not read yet */
        CHECK(is_whole(0, size) && rig.request_count == 2);
        rig_close();
    }
}

static void stale_asks(void) {
    rig_open("stale asks", NULL);
    uint32_t a = rig_connect();
    rig_send(a, RIG_GET);
    send_head(a, 9, "");
    rig_send(a, "123");
    rig_turn();
    uint64_t id = rig.requests[1].connection;
    CHECK(rig_ask(0, 1) == MR_GONE); /* it has none */
    CHECK(mr_engine_ask(rig.engine, id, 2, 1) == MR_GONE);
    CHECK(mr_engine_ask(rig.engine, id + (1ull << 32), 1, 1) == MR_GONE);
    CHECK(mr_engine_ask(rig.engine, UINT64_MAX, 1, 1) == MR_GONE);
    CHECK(rig_ask(1, 0) == MR_OK);
    rig.transport->events->on_gone(rig.transport->owner, rig.lines[a].link);
    CHECK(rig_ask(1, 1) == MR_GONE);
    rig_settle();
    CHECK(rig_ask(1, 1) == MR_GONE);
    rig_close();
}

/* ---- 100 (Continue) ---- */

/* Content that came without it, before it was asked for or after, is not answered by one. */
static void unasked_content(bool is_chunked) {
    open_wide("unasked content");
    uint32_t a = rig_connect();
    if (is_chunked)
        rig_send(a, POST_HEAD "Expect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n");
    else
        send_head(a, 9, "Expect: 100-continue\r\n");
    rig_turn();
    rig_send(a, is_chunked ? "3\r\n" : "123");
    rig_turn();
    CHECK(rig.request_count == 1 && rig.requests[0].body_len == 0 && rig_got(a, ""));
    CHECK(!rig.lines[a].wants_data); /* not without being asked for */
    CHECK(rig_ask(0, 100) == MR_OK);
    rig_turn();
    CHECK(rig_got(a, "") && rig.lines[a].wants_data);
    rig_send(a, is_chunked ? "123\r\n6\r\n456789\r\n0\r\n\r\n" : "456789");
    rig_turn();
    CHECK(rig.requests[0].is_complete && rig.requests[0].body_len == 9 && rig_got(a, ""));
    CHECK(rig_answer(0, "x") == MR_OK);
    rig_turn();
    CHECK(rig_got(a, rig_ok("x", false)) && rig_conn_state(a) == MR_CONN_OPEN);
    rig_close();
}

/* The final answer comes without it: the client will not send, or not know whether to. */
static void answered_instead(void) {
    rig_open("answered instead", NULL);
    uint32_t a = rig_connect(), b = rig_connect();
    send_head(a, 9, "Expect: 100-continue\r\n");
    rig_turn();
    CHECK(rig_answer(0, "no") == MR_OK && rig_notes(0, MR_NOTE_CONTENT_UNREAD) == 1);
    CHECK(rig_ask(0, 9) == MR_GONE);
    rig_turn();
    CHECK(rig_got(a, rig_ok("no", true)) && LINGERS(a));
    /* Sent and then answered: the content is on its way. */
    send_head(b, 9, "Expect: 100-continue\r\n");
    rig_turn();
    CHECK(rig_ask(1, 9) == MR_OK && rig_answer(1, "no") == MR_OK);
    rig_turn();
    CHECK(rig_got(b, CONTINUE "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n" RIG_DATE "\r\nno"));
    rig_send(b, "123456789" RIG_GET);
    rig_turn();
    CHECK(rig.request_count == 3 && rig.requests[1].body_len == 0);
    rig_close();
}

/* An earlier answer ends the connection: the content behind it is lost, and nothing asks for it. */
static void behind_the_last(bool is_asked) {
    rig_open("behind the last", NULL);
    uint32_t a = rig_connect();
    rig_send(a, RIG_GET);
    send_head(a, 9, "Expect: 100-continue\r\n");
    rig_turn();
    CHECK(rig.request_count == 2);
    if (is_asked)
        CHECK(rig_ask(1, 100) == MR_OK);
    CHECK(rig_answer_with(0, (const uint8_t *)"x", 1, MR_RESPONSE_CLOSE) == MR_OK);
    CHECK(rig_notes(1, MR_NOTE_CONTENT_ABORTED) == 1);
    CHECK(rig_ask(1, 100) == MR_GONE);
    rig_turn();
    CHECK(rig_ask(1, 100) == MR_GONE);
    rig_send(a, "123456789");
    rig_turn();
    CHECK(rig_got(a, rig_ok("x", true)) && LINGERS(a) && rig.requests[1].body_len == 0);
    rig_pass(40000);
    CHECK(rig_conn_state(a) == MR_CONN_DEAD && rig_notes(1, MR_NOTE_CONTENT_ABORTED) == 1);
    rig_close();
}

/* ---- trailers ---- */

static void trailers(void) {
    static const char text[] =
        CHUNKED_HEAD "3;a\r\nabc\r\n0\r\nX: y\r\nLonger-Name: \tw \r\n\r\n" RIG_GET;
    for (size_t cut = sizeof CHUNKED_HEAD - 1; cut <= sizeof text - 1; cut++)
        for (int is_full = 0; is_full < 2; is_full++) {
            rig_open("trailers", NULL);
            uint32_t a = rig_connect();
            rig_send_bytes(a, text, cut);
            rig.content_room = is_full ? 0 : UINT32_MAX; /* decoded again later */
            rig_turn();
            rig_send(a, text + cut);
            rig_turn();
            rig.content_room = UINT32_MAX;
            rig_turn();
            rig_turn();
            const rig_request *r = &rig.requests[0];
            CHECK(rig.request_count == 2 && r->is_complete && r->body_len == 3);
            static const char want[] = "X: y\r\nLonger-Name: \tw \r\n";
            CHECK(r->trailers.len == sizeof want - 1);
            CHECK(memcmp(r->trailers.data, want, sizeof want - 1) == 0);
            rig_close();
        }
    rig_open("no trailers", NULL);
    rig_send(rig_connect(), CHUNKED_HEAD "3\r\nabc\r\n0\r\n\r\n");
    rig_turn();
    CHECK(rig.requests[0].is_complete && rig.requests[0].trailers.len == 0);
    mr_engine_set_routes(rig.engine, NULL, MR_NO_HANDLER, 0);
    uint32_t b = rig_connect(); /* nobody's: not kept */
    rig_send(b, CHUNKED_HEAD "3\r\nabc\r\n0\r\nX: y\r\n");
    rig_turn();
    CHECK(((mr_conn *)rig.lines[b].link)->incoming->trailers.data == NULL);
    rig_close();
}

/* ---- limits ---- */

/* Content that is read past is counted as well, and so is what came before it was answered. */
static void limit_behind_answer(size_t size) {
    rig_open("limit behind answer", NULL);
    uint32_t a = rig_connect();
    rig_send(a, CHUNKED_HEAD);
    send_chunk(a, 0, 500);
    rig_turn();
    CHECK(stream(0, 0) == MR_OK);
    send_chunk(a, 500, size);
    rig_turn();
    CHECK(rig_got(a, STREAM_HEAD "\r\n")); /* begun: no other answer is given */
    CHECK(rig_notes(0, MR_NOTE_CONTENT_TOO_LARGE) == (size > 1000));
    CHECK(rig_ask(0, 1) == (size > 1000 ? MR_GONE : MR_OK));
    rig_send(a, STREAM_END RIG_GET);
    rig_turn();
    CHECK(rig.request_count == (size > 1000 ? 1 : 2));
    CHECK(mr_engine_write(rig.engine, rig.requests[0].connection, 0, (const uint8_t *)"x", 1,
                          NULL) == MR_OK);
    CHECK(finish(0) == MR_OK);
    rig_turn();
    CHECK(rig_got(a, "1\r\nx\r\n" STREAM_END));
    CHECK(rig_conn_state(a) == (size > 1000 ? MR_CONN_LINGERING : MR_CONN_OPEN));
    rig_close();
}

/* The refusal waits for its turn. */
static void limit_out_of_turn(void) {
    rig_open("limit out of turn", NULL);
    uint32_t a = rig_connect();
    rig_send(a, RIG_GET CHUNKED_HEAD);
    rig_turn();
    send_chunk(a, 0, 1001);
    rig_turn();
    CHECK(rig_got(a, "") && rig_notes(1, MR_NOTE_CONTENT_TOO_LARGE) == 1);
    CHECK(rig_answer(1, "late") == MR_GONE && rig_answer(0, "x") == MR_OK);
    rig_turn();
    char text[1024];
    snprintf(text, sizeof text, "%s%s", rig_ok("x", false),
             rig_plain("413 Content Too Large", true));
    CHECK(rig_got(a, text) && LINGERS(a));
    rig_close();
}

/* The handler will not have it. */
static void given_up_above(bool is_chunked) {
    rig_open("given up above", NULL);
    uint32_t a = rig_connect();
    if (is_chunked)
        rig_send(a, CHUNKED_HEAD);
    else
        send_head(a, 9, "");
    rig_turn();
    rig.content_rc = MR_NOMEM;
    rig_send(a, is_chunked ? "3\r\nabc\r\n" : "abc");
    rig_turn();
    CHECK(rig_got(a, rig_plain("503 Service Unavailable", true)) && LINGERS(a));
    CHECK(rig_notes(0, MR_NOTE_CONTENT_ABORTED) == 1);
    /* Nor the request: then nobody is told of its content. */
    rig.request_rc = MR_NOMEM;
    uint32_t b = rig_connect();
    send_head(b, 9, "");
    rig_send(b, "1");
    rig_turn();
    CHECK(rig_got(b, rig_plain("503 Service Unavailable", true)) && LINGERS(b));
    rig_close();
}

/* ---- time ---- */

static void whole_time(bool is_streaming) {
    rig_open("whole time", NULL);
    uint32_t a = rig_connect();
    rig_turn();
    send_head(a, 9, "");
    rig_turn();
    if (is_streaming)
        CHECK(stream(0, 0) == MR_OK);
    rig_send(a, "1");
    rig_pass(299999);
    CHECK(rig.note_count == 0 && rig_conn_state(a) == MR_CONN_OPEN);
    rig_pass(1);
    CHECK(rig_notes(0, MR_NOTE_CONTENT_LATE) == 1 && rig_ask(0, 1) == MR_GONE);
    if (is_streaming) {
        CHECK(rig_conn_state(a) == MR_CONN_CLOSING && finish(0) == MR_OK);
        rig_turn();
        CHECK(rig_got(a, STREAM_HEAD "\r\n" STREAM_END) && LINGERS(a));
    } else {
        CHECK(rig_got(a, rig_plain("408 Request Timeout", true)) && LINGERS(a));
    }
    rig_close();
}

static void open_with_rate(const char *at_case) {
    mr_engine_options o = rig_options();
    o.limits.body_bytes = 1000000;
    o.limits.body_bytes_per_second = 100;
    rig_open(at_case, &o);
}

/* In each period as much as is asked, or one octet less in the second. */
static void throughput(bool is_chunked, size_t missing) {
    const size_t period = MR_RATE_PERIOD_MS / 1000 * 100;
    open_with_rate("throughput");
    uint32_t a = rig_connect();
    if (is_chunked)
        rig_send(a, CHUNKED_HEAD);
    else
        send_head(a, 5 * period, "");
    rig_turn();
    for (size_t i = 0; i < 2; i++) {
        size_t part = i == 1 ? period - missing : period;
        rig_pass(MR_RATE_PERIOD_MS - 1);
        if (is_chunked)
            send_chunk(a, 0, part);
        else
            send_part(a, 0, part);
        rig_turn();
        CHECK(rig.note_count == 0);
        rig_pass(1);
        CHECK(rig_notes(0, MR_NOTE_CONTENT_LATE) == (i == 1 && missing > 0));
    }
    CHECK(rig_got(a, missing > 0 ? rig_plain("408 Request Timeout", true) : ""));
    rig_pass(MR_RATE_PERIOD_MS - 1); /* and nothing in the third */
    CHECK(missing > 0 || rig_conn_state(a) == MR_CONN_OPEN);
    rig_pass(1);
    CHECK(rig_conn_state(a) == (missing > 0 ? MR_CONN_DEAD : MR_CONN_LINGERING));
    rig_close();
}

typedef enum wait_kind {
    WINDOW_IS_USED,
    DATA_WAITS,
    RING_IS_FULL,
    NOT_ASKED,
    NOT_IN_TURN,
    NOT_IN_TURN_AND_SENT, /* the client did not wait for the 100 after all */
    DATA_COMES
} wait_kind;

/* For as long as it is we who hold the content back, neither time runs; then each goes on. */
static void our_time(wait_kind kind) {
    enum { SIZE = 200000 };
    open_with_rate("our time");
    uint32_t a = rig_connect(), mine = kind >= NOT_IN_TURN ? 1 : 0;
    bool is_expecting = kind >= NOT_ASKED;
    rig_turn();
    if (kind >= NOT_IN_TURN)
        rig_send(a, RIG_GET);
    send_head(a, SIZE, is_expecting ? "Expect: 100-continue\r\n" : "");
    rig_turn();
    CHECK(rig.request_count == mine + 1);
    rig_pass(5000); /* the peer's, or ours when it waits for the 100 */
    if (kind == RING_IS_FULL)
        rig.content_room = 0;
    if (!is_expecting)
        send_part(a, 0, kind == WINDOW_IS_USED ? MR_WINDOW_BYTES : MR_WINDOW_BYTES + 1);
    if (kind >= NOT_IN_TURN)
        CHECK(rig_ask(mine, 1000) == MR_OK);
    rig_turn();
    CHECK(rig_got(a, ""));
    for (int i = 0; i < 8; i++)
        rig_pass(100000);
    CHECK(rig.note_count == 0 && rig_conn_state(a) == MR_CONN_OPEN);
    rig.content_room = UINT32_MAX;
    if (kind == NOT_IN_TURN)
        CHECK(rig_answer(0, "x") == MR_OK);
    else if (kind == NOT_IN_TURN_AND_SENT)
        send_part(a, 0, 1);
    else
        CHECK(rig_ask(mine, 100) == MR_OK);
    rig_turn();
    /* It is the peer's turn: its period begins. What waited in the ring counts in the first. */
    if (kind == RING_IS_FULL)
        rig_pass(MR_RATE_PERIOD_MS);
    rig_pass(MR_RATE_PERIOD_MS - 1);
    CHECK(rig.note_count == 0);
    rig_pass(1);
    CHECK(rig_notes(mine, MR_NOTE_CONTENT_LATE) == 1);
    rig_close();
}

/* The time for the whole moves by as long as we made the peer wait, once. */
static void our_time_is_added(wait_kind kind) {
    open_wide("our time is added");
    uint32_t a = rig_connect();
    rig_turn();
    send_head(a, 200000, kind == NOT_ASKED ? "Expect: 100-continue\r\n" : "");
    rig_turn();
    uint64_t used = 0;
    if (kind != NOT_ASKED) {
        rig_pass(1000);
        used = 1000;
        send_part(a, 0, MR_WINDOW_BYTES + (kind == DATA_WAITS));
        rig_turn();
    }
    rig_pass(3000);
    if (kind == DATA_COMES) { /* only now does it wait with input: it was held back before */
        rig_pass(250000);
        send_part(a, MR_WINDOW_BYTES, MR_WINDOW_BYTES + 1);
        rig_turn();
    }
    if (kind == DATA_WAITS) { /* a wake-up that changes nothing is not counted twice */
        mr_engine_list((mr_conn *)rig.lines[a].link);
        rig_settle();
    }
    rig_pass(500000);
    CHECK(rig_ask(0, 5) == MR_OK && rig_ask(0, 5) == MR_OK);
    rig_turn();
    rig_pass(300000 - used - 1);
    CHECK(rig.note_count == 0);
    rig_pass(1);
    CHECK(rig_notes(0, MR_NOTE_CONTENT_LATE) == 1);
    rig_close();
}

/* Answered while held back: what is read past has a period of its own. */
static void read_past_in_time(void) {
    open_with_rate("read past in time");
    uint32_t a = rig_connect();
    send_head(a, 200000, "");
    send_part(a, 0, MR_WINDOW_BYTES);
    rig_turn();
    rig_pass(2000000); /* more than the window would have done for */
    CHECK(rig_answer(0, "x") == MR_OK);
    rig_turn();
    rig_pass(MR_RATE_PERIOD_MS - 1);
    CHECK(rig_conn_state(a) == MR_CONN_OPEN);
    send_part(a, MR_WINDOW_BYTES, 200000);
    rig_send(a, RIG_GET);
    rig_turn();
    CHECK(rig.request_count == 2);
    /* And who does not send is closed, without another word. */
    CHECK(rig_answer(1, "y") == MR_OK);
    send_head(a, 10, "");
    rig_turn();
    CHECK(rig_answer(2, "z") == MR_OK);
    rig_turn();
    rig_pass(MR_RATE_PERIOD_MS);
    char text[1024];
    snprintf(text, sizeof text, "%s%s%s", rig_ok("x", false), rig_ok("y", false),
             rig_ok("z", false));
    CHECK(rig_got(a, text) && LINGERS(a) && rig_notes(2, MR_NOTE_CONTENT_UNREAD) == 1);
    rig_close();
}

/* ---- answered before the end of the content ---- */

static void answered_early(size_t left, bool is_stream) {
    open_wide("answered early");
    uint32_t a = rig_connect();
    bool is_read_past = left <= MR_READ_PAST_MAX;
    send_head(a, 10 + left, "");
    rig_send(a, "0123456789");
    rig_turn();
    CHECK(rig.requests[0].body_len == 10);
    if (is_stream)
        CHECK(stream(0, 0) == MR_OK && rig.note_count == 0 && finish(0) == MR_OK);
    else
        CHECK(rig_answer(0, "x") == MR_OK);
    CHECK(rig_notes(0, MR_NOTE_CONTENT_UNREAD) == 1 && rig_ask(0, 1) == MR_GONE);
    rig_turn();
    CHECK(rig_got(a, is_stream ? STREAM_HEAD "\r\n" STREAM_END : rig_ok("x", !is_read_past)));
    CHECK(rig_conn_state(a) == (is_read_past ? MR_CONN_OPEN : MR_CONN_LINGERING));
    send_part(a, 0, left);
    rig_send(a, RIG_GET);
    rig_turn();
    CHECK(rig.request_count == (is_read_past ? 2 : 1) && rig.requests[0].body_len == 10);
    CHECK(rig.note_count == 1);
    rig_close();
}

static void answered_early_chunked(void) {
    rig_open("answered early, chunked", NULL);
    uint32_t a = rig_connect();
    rig_send(a, CHUNKED_HEAD "3\r\nabc\r\n");
    rig_turn();
    CHECK(rig_answer(0, "x") == MR_OK && rig_notes(0, MR_NOTE_CONTENT_UNREAD) == 1);
    rig_send(a, STREAM_END RIG_GET);
    rig_turn();
    CHECK(rig_got(a, rig_ok("x", true)) && LINGERS(a) && rig.request_count == 1);
    rig_close();
}

/* With the window used up and data waiting: it goes on by itself. */
static void answered_while_waiting(void) {
    open_wide("answered while waiting");
    uint32_t a = rig_connect();
    rig.piece = 50000;
    send_head(a, 300000, "");
    send_part(a, 0, 300000);
    rig_send(a, RIG_GET);
    rig_turn();
    CHECK(!rig.lines[a].wants_data && rig.requests[0].body_len == MR_WINDOW_BYTES);
    CHECK(rig_answer(0, "x") == MR_OK);
    rig_turn();
    rig_turn();
    CHECK(rig.request_count == 2 && rig_got(a, rig_ok("x", false)) && rig.note_count == 1);
    rig_close();
}

/* The idle time begins when the content has been read past, also where content has no time. */
static void idle_behind_content(bool is_waiting) {
    mr_engine_options o = rig_options();
    o.limits.body_bytes = 1000000;
    o.timeouts.body_ms = 0;
    rig_open("idle behind content", &o);
    uint32_t a = rig_connect();
    send_head(a, 200000, "");
    rig_turn();
    if (is_waiting)
        send_part(a, 0, 200000);
    rig_turn();
    CHECK(rig_answer(0, "x") == MR_OK);
    mr_engine_flush(rig.engine);
    rig_turn();
    rig_pass(500);
    if (!is_waiting)
        send_part(a, 0, 200000);
    rig_turn();
    CHECK(((mr_conn *)rig.lines[a].link)->incoming == NULL);
    rig_pass(74999 - (is_waiting ? 500 : 0));
    CHECK(rig_conn_state(a) == MR_CONN_OPEN);
    rig_pass(1);
    CHECK(LINGERS(a));
    rig_close();
}

/* ---- the peer goes ---- */

typedef enum peer_stage {
    AT_HEAD,
    IN_CONTENT,
    AT_WINDOW,
    IN_RING_FULL,
    IS_STREAMING,
    IS_READ_PAST
} peer_stage;

static void come_to(uint32_t line, peer_stage stage) {
    send_head(line, 200000, "");
    if (stage != AT_HEAD)
        send_part(line, 0, stage == AT_WINDOW ? MR_WINDOW_BYTES + 10 : 10);
    rig_turn();
    if (stage == IN_RING_FULL) {
        rig.content_room = 0;
        send_part(line, 10, 20);
        rig_turn();
    }
    if (stage == IS_STREAMING)
        CHECK(stream(0, 0) == MR_OK);
    if (stage == IS_READ_PAST)
        CHECK(rig_answer(0, "x") == MR_OK);
    rig_turn();
}

static void reset_at(peer_stage stage) {
    open_wide("reset");
    uint32_t a = rig_connect();
    come_to(a, stage);
    CHECK(mr_engine_watch(rig.engine, rig.requests[0].connection, 0) ==
          (stage == IS_READ_PAST ? MR_GONE : MR_OK));
    rig.transport->events->on_gone(rig.transport->owner, rig.lines[a].link);
    CHECK(rig_notes(0, MR_NOTE_CONTENT_ABORTED) == (stage != IS_READ_PAST));
    CHECK(rig.done_count == (stage != IS_READ_PAST) && rig_ask(0, 1) == MR_GONE);
    CHECK(rig_answer(0, "x") == MR_GONE && finish(0) == MR_GONE);
    rig_settle();
    rig_turn();
    CHECK(rig.note_count == 1 && mr_slab_count(rig.engine->conns) == 0);
    rig_close();
}

static void eof_at(peer_stage stage) {
    open_wide("end of input");
    uint32_t a = rig_connect();
    come_to(a, stage);
    rig_end_input(a);
    rig_turn();
    if (stage == AT_WINDOW) { /* behind what waits; not seen before that is asked for */
        CHECK(rig.note_count == 0 && rig_ask(0, 100) == MR_OK);
        rig_turn();
        rig_turn();
        CHECK(rig.requests[0].body_len == MR_WINDOW_BYTES + 10);
    }
    if (stage == IN_RING_FULL) {
        CHECK(rig.note_count == 0 && rig.requests[0].body_len == 10);
        rig.content_room = UINT32_MAX;
        rig_turn();
        rig_turn();
        CHECK(rig.requests[0].body_len == 20);
    }
    CHECK(rig_notes(0, MR_NOTE_CONTENT_ABORTED) == (stage != IS_READ_PAST));
    CHECK(rig_ask(0, 1) == MR_GONE);
    if (stage == IS_READ_PAST) {
        CHECK(rig_conn_state(a) == MR_CONN_DEAD && rig_got(a, rig_ok("x", false)));
    } else if (stage == IS_STREAMING) {
        CHECK(finish(0) == MR_OK);
        rig_turn();
        CHECK(rig_got(a, STREAM_HEAD "\r\n" STREAM_END) && rig.lines[a].has_fin);
    } else {
        CHECK(rig_conn_state(a) == MR_CONN_CLOSING && rig_answer(0, "sorry") == MR_OK);
        rig_turn();
        CHECK(rig_got(a, rig_ok("sorry", true)) && rig.lines[a].has_fin);
    }
    CHECK(rig.note_count == 1);
    rig_close();
}

/* ---- no room above ---- */

/* Now and then, at every piece: what was offered in vain is offered again, the same. */
static void ring_full(bool is_chunked, size_t piece) {
    enum { SIZE = 40 };
    rig_open("ring full", NULL);
    uint32_t a = rig_connect();
    const rig_request *r = &rig.requests[0];
    rig.piece = piece;
    if (is_chunked) {
        rig_send(a, CHUNKED_HEAD);
        for (size_t i = 0; i < SIZE; i += 10)
            send_chunk(a, i, i + 10);
        rig_send(a, "0\r\nX: y\r\n\r\n" RIG_GET);
    } else {
        send_head(a, SIZE, "");
        send_part(a, 0, SIZE);
        rig_send(a, RIG_GET);
    }
    if (piece == SIZE_MAX && !is_chunked)
        rig.piece = rig.lines[a].sent.len - SIZE - sizeof RIG_GET + 1; /* the head alone */
    for (int i = 0; i < 500 && rig.request_count < 2; i++) {
        rig.content_room = i % 3 == 2 ? 1 : 0;
        size_t before = r->body_len;
        rig_turn();
        CHECK(i % 3 == 2 || r->body_len == before);
    }
    CHECK(rig.request_count == 2 && is_whole(0, SIZE) && rig.note_count == 0);
    CHECK(r->trailers.len == (is_chunked ? 6 : 0));
    rig_close();
}

/* ---- the last request ---- */

static void connection_close(bool is_early, bool is_minor0) {
    rig_open("connection close", NULL);
    uint32_t a = rig_connect();
    rig_send(a, is_minor0 ? "POST /p HTTP/1.0\r\nContent-Length: 9\r\n\r\n"
                          : POST_HEAD "Connection: close\r\nContent-Length: 9\r\n\r\n");
    rig_send(a, "1234");
    rig_turn();
    CHECK(rig_conn_state(a) == MR_CONN_OPEN && rig.requests[0].body_len == 4);
    if (!is_early) {
        rig_send(a, "56789" RIG_GET);
        rig_turn();
        CHECK(rig.requests[0].is_complete && rig_conn_state(a) == MR_CONN_CLOSING);
    }
    CHECK(rig_answer(0, "x") == MR_OK);
    rig_turn();
    CHECK(rig_got(a, rig_ok("x", true)) && LINGERS(a) && rig.request_count == 1);
    CHECK(rig.note_count == is_early);
    rig_close();
}

/* A stream that ends the connection began before the content had ended: both go on. */
static void both_ways_at_the_end(void) {
    rig_open("both ways at the end", NULL);
    uint32_t a = rig_connect(), b = rig_connect();
    for (int i = 0; i < 2; i++) {
        uint32_t line = i == 0 ? a : b;
        send_head(line, 9, "");
        rig_turn();
        CHECK(stream((uint32_t)i, MR_RESPONSE_CLOSE) == MR_OK);
        rig_send(line, "1234");
        rig_turn();
        CHECK(rig.requests[i].body_len == 4 && rig_conn_state(line) == MR_CONN_OPEN);
        if (i == 0)
            CHECK(finish(0) == MR_OK);
        rig_send(line, "56789" RIG_GET);
        rig_turn();
        CHECK(rig.request_count == (uint32_t)i + 1 && rig.requests[i].is_complete == (i == 1));
        CHECK(finish((uint32_t)i) == (i == 0 ? MR_GONE : MR_OK));
        rig_turn();
        CHECK(rig_got(line, STREAM_HEAD RIG_CLOSE "\r\n" STREAM_END) && LINGERS(line));
    }
    rig_close();
}

static void drain(void) {
    rig_open("drain", NULL);
    mr_engine_set_routes(rig.engine, NULL, MR_NO_HANDLER, 0);
    uint32_t unwanted = rig_connect();
    send_head(unwanted, 9, "");
    rig_turn();
    mr_engine_set_routes(rig.engine, NULL, 7, 0);
    uint32_t coming = rig_connect(), answered = rig_connect(), behind = rig_connect();
    send_head(coming, 9, "");
    send_head(answered, 9, "");
    rig_send(behind, RIG_GET);
    send_head(behind, 9, "");
    rig_turn();
    CHECK(rig.request_count == 4 && rig_answer(1, "early") == MR_OK);
    rig_turn();
    mr_engine_set_routes(rig.engine, NULL, MR_NO_HANDLER, 0);
    mr_engine_drain(rig.engine, 0);
    rig_settle();
    CHECK(mr_engine_connections(rig.engine) == 4 && rig.note_count == 1);
    for (uint32_t i = 0; i < 4; i++)
        rig_send(i, "123456789" RIG_GET);
    rig_turn();
    CHECK(rig.request_count == 4 && rig.requests[0].is_complete && rig.requests[3].is_complete);
    CHECK(rig_got(unwanted, rig_plain("404 Not Found", true)) && LINGERS(unwanted));
    CHECK(rig_got(answered, rig_ok("early", false)) && LINGERS(answered));
    CHECK(rig_answer(0, "x") == MR_OK && rig_answer(3, "z") == MR_OK &&
          rig_answer(2, "y") == MR_OK);
    rig_turn();
    char text[1024];
    snprintf(text, sizeof text, "%s%s", rig_ok("y", false), rig_ok("z", true));
    CHECK(rig_got(coming, rig_ok("x", true)) && LINGERS(coming));
    CHECK(rig_got(behind, text) && LINGERS(behind));
    CHECK(mr_engine_connections(rig.engine) == 0);
    rig_close();
}

int main(void) {
    for (int chunked = 0; chunked < 2; chunked++) {
        window(chunked != 0, 200000);
        window(chunked != 0, 50000);
        window(chunked != 0, 1777);
        window_edge(chunked != 0);
        unasked_content(chunked != 0);
        given_up_above(chunked != 0);
        throughput(chunked != 0, 0);
        throughput(chunked != 0, 1);
        ring_full(chunked != 0, SIZE_MAX);
        for (size_t piece = 1; piece < 60; piece += 1 + piece / 8)
            ring_full(chunked != 0, piece);
    }
    stale_asks();
    answered_instead();
    behind_the_last(false);
    behind_the_last(true);
    trailers();
    limit_behind_answer(1000);
    limit_behind_answer(1001);
    limit_out_of_turn();
    whole_time(false);
    whole_time(true);
    for (wait_kind kind = WINDOW_IS_USED; kind <= NOT_IN_TURN_AND_SENT; kind++)
        our_time(kind);
    our_time_is_added(WINDOW_IS_USED);
    our_time_is_added(DATA_WAITS);
    our_time_is_added(NOT_ASKED);
    our_time_is_added(DATA_COMES);
    read_past_in_time();
    for (int is_stream = 0; is_stream < 2; is_stream++) {
        answered_early(5, is_stream != 0);
        answered_early(MR_READ_PAST_MAX, is_stream != 0);
        answered_early(MR_READ_PAST_MAX + 1, is_stream != 0);
    }
    answered_early_chunked();
    answered_while_waiting();
    idle_behind_content(false);
    idle_behind_content(true);
    for (peer_stage stage = AT_HEAD; stage <= IS_READ_PAST; stage++) {
        reset_at(stage);
        eof_at(stage);
    }
    for (int i = 0; i < 4; i++)
        connection_close(i & 1, i & 2);
    both_ways_at_the_end();
    drain();
    return 0;
}
