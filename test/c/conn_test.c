/* conn_test.c -- one connection's time-outs and ends, with the clock in the test's hand. */
/* link: engine/engine.c engine/h1.c engine/out.c engine/route.c engine/reply.c net/sock.c */
/* link: engine/answer.c engine/content.c net/unsent.c proto/proxy.c */
/* link: proto/url.c proto/h1_write.c proto/h1_parse.c proto/h1_chunked.c proto/h1_scan.c */
/* link: proto/h1_scan_avx2.c proto/h1_scan_sse2.c proto/h1_scan_neon.c proto/h1_scan_scalar.c */
/* link: base/mem.c base/buf.c base/text.c base/slab.c base/wheel.c */
/* link: engine/journal.c engine/gate.c engine/fleet.c engine/balance.c engine/permits.c */
/* link: engine/fleet_show.c engine/mailbox.c engine/meter.c engine/series.c engine/rate.c */
/* link: engine/access_log.c engine/access_line.c engine/metrics_text.c engine/metrics_put.c */
#include "engine/conn.c"

#include "engine_rig.h"

#define POST_HEAD "POST /p HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n"
#define LINGERS(line) (rig_conn_state(line) == MR_CONN_LINGERING && rig.lines[line].has_fin)

/* ---- time ---- */

static void header_timeout(void) {
    rig_open("header time-out", NULL);
    uint32_t silent = rig_connect(), slow = rig_connect();
    rig_turn();
    for (int i = 0; i < 10; i++) { /* octet by octet gains no time */
        rig_send(slow, i == 0 ? "G" : "E");
        rig_pass(999);
    }
    CHECK(rig_got(slow, "") && rig_conn_state(silent) == MR_CONN_OPEN);
    rig_pass(9);
    CHECK(rig_conn_state(silent) == MR_CONN_OPEN && rig_conn_state(slow) == MR_CONN_OPEN);
    rig_pass(1);
    CHECK(LINGERS(silent) && rig_got(silent, "")); /* nothing was asked: nothing is said */
    rig_pass(0);
    CHECK(rig_conn_state(slow) != MR_CONN_DEAD);
    rig_pass(1000);
    CHECK(LINGERS(slow) && rig_got(slow, rig_plain("408 Request Timeout", true)));
    CHECK(((mr_conn *)rig.lines[slow].link)->input == NULL);
    rig_pass(2000);
    CHECK(rig_conn_state(silent) == MR_CONN_DEAD && rig_conn_state(slow) == MR_CONN_DEAD);
    CHECK(mr_slab_count(rig.engine->conns) == 0);
    rig_close();
}

/* A head in two pieces: the content behind it has the content's time, not the head's. */
static void body_timeout(bool is_head_split) {
    rig_open("body time-out", NULL);
    uint32_t a = rig_connect();
    rig_turn();
    if (is_head_split) {
        rig_send(a, "POST /p HTTP/1.1\r\n");
        rig_turn();
        rig_send(a, "Host: h\r\nContent-Length: 9\r\n\r\n");
    } else {
        rig_send(a, POST_HEAD);
    }
    rig_turn();
    for (int i = 0; i < 5; i++) {
        rig_send(a, "x");
        rig_pass(50000);
    }
    CHECK(rig_conn_state(a) == MR_CONN_OPEN);
    rig_pass(49999);
    CHECK(rig_conn_state(a) == MR_CONN_OPEN && rig_got(a, ""));
    rig_pass(1); /* the whole of it has this time, not each piece */
    CHECK(LINGERS(a) && rig_got(a, rig_plain("408 Request Timeout", true)));
    CHECK(((mr_conn *)rig.lines[a].link)->incoming == NULL);
    rig_close();
}

static void keep_alive_timeout(void) {
    rig_open("keep-alive time-out", NULL);
    uint32_t a = rig_connect(), b = rig_connect();
    rig_send(a, RIG_GET);
    rig_send(b, RIG_GET);
    rig_turn();
    CHECK(rig_answer(0, "x") == MR_OK && rig_answer(1, "x") == MR_OK);
    rig_turn();
    rig_pass(74999);
    CHECK(rig_conn_state(a) == MR_CONN_OPEN);
    rig_send(b, "GET /b HTTP/1.1\r\n"); /* from here on it is a head */
    rig_pass(1);
    CHECK(LINGERS(a) && rig_got(a, rig_ok("x", false)));
    rig_pass(9998);
    CHECK(rig_conn_state(b) == MR_CONN_OPEN);
    rig_pass(1000);
    CHECK(LINGERS(b));
    rig_close();
}

/* While the handler thinks, no time-out runs, and its answer starts the next one, also when the
 * old one ends in that very turn. */
static void thinking(uint64_t ms) {
    rig_open("thinking", NULL);
    uint32_t a = rig_connect();
    rig_turn();
    rig_send(a, RIG_GET);
    rig_turn();
    rig.now_ms += ms;
    rig_poll();
    CHECK(rig_answer(0, "x") == MR_OK);
    rig_settle();
    CHECK(rig_conn_state(a) == MR_CONN_OPEN && rig_got(a, rig_ok("x", false)));
    rig_pass(74999);
    CHECK(rig_conn_state(a) == MR_CONN_OPEN);
    rig_pass(1);
    CHECK(LINGERS(a));
    rig_close();
}

/* A request that waits for room above is ours to act on, however its head came. */
static void waiting_for_room(void) {
    rig_open("waiting for room", NULL);
    uint32_t a = rig_connect(), b = rig_connect();
    rig.request_room = 0;
    rig_send(a, "GET /a HTTP/1.1\r\n");
    rig_send(b, POST_HEAD "12345678");
    rig_turn();
    rig_send(a, "Host: h\r\n\r\n");
    rig_send(b, "9");
    rig_turn();
    rig_pass(400000);
    CHECK(rig_conn_state(a) == MR_CONN_OPEN && rig_conn_state(b) == MR_CONN_OPEN);
    rig.request_room = 2;
    rig_turn();
    CHECK(rig.request_count == 2 && rig_got(a, "") && rig_got(b, ""));
    /* Its time is up in the turn in which it came whole, before it was offered again. */
    uint32_t c = rig_connect();
    rig_send(c, "GET /c HTTP/1.1\r\n");
    rig_turn();
    rig_send(c, "Host: h\r\n\r\n");
    rig.now_ms += 10000;
    rig_poll();
    mr_engine_end(rig.engine);
    rig.request_room = 1;
    rig_turn();
    CHECK(rig.request_count == 3 && rig_got(c, ""));
    rig_close();
}

static void send_timeout(void) {
    static uint8_t body[50000];
    rig_open("send time-out", NULL);
    uint32_t a = rig_connect(), b = rig_connect();
    rig.lines[a].room = 1000;
    rig.lines[b].room = 1000;
    rig_send(a, RIG_GET);
    rig_send(b, RIG_GET);
    rig_turn();
    CHECK(rig_answer_with(0, body, sizeof body, 0) == MR_OK);
    CHECK(rig_answer_with(1, body, sizeof body, 0) == MR_OK);
    rig_turn();
    for (int i = 0; i < 5; i++) { /* a slow reader is no dead one */
        rig_pass(199999);
        rig.lines[a].room = 1;
        rig_turn();
        CHECK(rig_conn_state(a) == MR_CONN_OPEN);
        rig_pass(1);
        CHECK(rig_conn_state(b) == MR_CONN_DEAD && rig_conn_state(a) == MR_CONN_OPEN);
    }
    rig_pass(200000);
    CHECK(rig_conn_state(a) == MR_CONN_DEAD);
    rig_close();
}

/* The linger time begins when the FIN is out, not when it is queued. */
static void linger(void) {
    rig_open("linger", NULL);
    uint32_t a = rig_connect();
    rig.lines[a].room = 10;
    rig_send(a, "GET /a HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    rig_turn();
    CHECK(rig_answer(0, "x") == MR_OK);
    rig_turn();
    CHECK(rig_conn_state(a) == MR_CONN_LINGERING && !rig.lines[a].has_fin);
    CHECK(mr_engine_connections(rig.engine) == 0);
    rig_send(a, RIG_GET RIG_GET); /* thrown away */
    rig_pass(5000);
    CHECK(rig_conn_state(a) == MR_CONN_LINGERING && rig.request_count == 1);
    rig.lines[a].room = SIZE_MAX;
    rig_turn();
    CHECK(LINGERS(a) && rig_got(a, rig_ok("x", true)));
    rig_pass(1999);
    CHECK(LINGERS(a));
    rig_pass(1);
    CHECK(rig_conn_state(a) == MR_CONN_DEAD);
    rig_close();
}

/* Who goes on sending behind our FIN gains time by it, but not for ever. */
static void linger_on_data(void) {
    rig_open("linger on data", NULL);
    uint32_t a = rig_connect();
    rig_send(a, "bad\r\n\r\n");
    rig_turn();
    CHECK(LINGERS(a));
    for (uint64_t ms = 1999; ms < 2000 * MR_LINGER_PERIODS; ms += 1999) {
        rig_send(a, RIG_GET);
        rig_pass(1999);
        CHECK(LINGERS(a));
    }
    rig_send(a, RIG_GET); /* within the last period */
    rig_pass(5);
    CHECK(LINGERS(a));
    rig_send(a, RIG_GET); /* behind it: gains nothing more */
    rig_pass(1999);
    CHECK(LINGERS(a));
    rig_pass(1);
    CHECK(rig_conn_state(a) == MR_CONN_DEAD && rig.request_count == 0);
    rig_close();
}

static void no_timeouts(void) {
    mr_engine_options o = rig_options();
    o.timeouts = (mr_timeouts){0};
    rig_reset();
    CHECK(mr_engine_create(&o, &rig.engine) == MR_OK);
    rig.at_case = "no time-outs";
    (void)rig_connect();
    CHECK(mr_engine_poll(rig.engine, 0) == MR_OK);
    mr_engine_end(rig.engine);
    CHECK(mr_engine_next_ms(rig.engine) == UINT64_MAX);
    rig_close();
}

/* ---- the peer ends ---- */

static void half_close(void) {
    rig_open("half-close", NULL);
    uint32_t idle = rig_connect(), head = rig_connect(), body = rig_connect();
    uint32_t asked = rig_connect(), both = rig_connect(), last = rig_connect();
    rig_send(head, "GET /a HT");
    rig_send(body, POST_HEAD "1234");
    rig_send(asked, "GET /1 HTTP/1.1\r\nHost: h\r\n\r\n" RIG_GET);
    rig_send(both, RIG_GET POST_HEAD "1234");
    rig_send(last, "GET /a HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    rig_turn();
    CHECK(rig.request_count == 6);
    for (uint32_t i = 0; i < rig.line_count; i++)
        rig_end_input(i);
    rig_turn();
    CHECK(rig_conn_state(idle) == MR_CONN_DEAD && rig_conn_state(head) == MR_CONN_DEAD);
    /* Cut short: the handler is told, and its answer may still be wanted. */
    CHECK(rig_conn_state(body) == MR_CONN_CLOSING && !rig.requests[0].is_complete);
    CHECK(rig_notes(0, MR_NOTE_CONTENT_ABORTED) == 1 && rig.note_count == 2);
    CHECK(rig_got(idle, "") && rig_got(head, "") && rig_got(body, ""));
    CHECK(rig_conn_state(asked) == MR_CONN_CLOSING && rig_conn_state(both) == MR_CONN_CLOSING);
    for (uint32_t i = 0; i < 6; i++)
        CHECK(rig_answer(i, "x") == MR_OK);
    rig_turn();
    char text[1024];
    snprintf(text, sizeof text, "%s%s", rig_ok("x", false), rig_ok("x", true));
    CHECK(rig_got(asked, text) && rig.lines[asked].has_fin);
    CHECK(rig_got(both, text) && rig.lines[both].has_fin);
    CHECK(rig_got(body, rig_ok("x", true)) && rig.lines[body].has_fin);
    CHECK(rig_got(last, rig_ok("x", true)) && rig.lines[last].has_fin);
    CHECK(mr_slab_count(rig.engine->conns) == 0); /* both ends are done: no lingering */
    rig_close();
}

/* The end of input comes with the request, before anything is answered or while it is on its way.
 */
static void half_close_while_sending(void) {
    rig_open("half-close while sending", NULL);
    mr_engine_set_routes(rig.engine, NULL, MR_NO_HANDLER, 0);
    uint32_t a = rig_connect(), b = rig_connect();
    rig.lines[a].room = 10;
    rig_send(a, RIG_GET);
    rig_send(b, RIG_GET "GET");
    rig_end_input(a);
    rig_end_input(b);
    rig_turn();
    CHECK(rig_conn_state(a) == MR_CONN_LINGERING && rig_conn_state(b) == MR_CONN_DEAD);
    CHECK(rig_got(b, rig_plain("404 Not Found", false)));
    rig.lines[a].room = SIZE_MAX;
    rig_turn();
    CHECK(rig_got(a, rig_plain("404 Not Found", false)) && rig.lines[a].has_fin);
    CHECK(rig_conn_state(a) == MR_CONN_DEAD);
    rig_close();
}

/* With the pipeline full the end of input is not lost. */
static void half_close_while_waiting(void) {
    rig_open("half-close while waiting", NULL);
    uint32_t a = rig_connect();
    for (uint32_t i = 0; i < MR_PIPELINE_MAX + 1; i++)
        rig_send(a, RIG_GET);
    rig_end_input(a);
    rig_turn();
    CHECK(rig.request_count == MR_PIPELINE_MAX && rig_conn_state(a) == MR_CONN_OPEN);
    for (uint32_t i = 0; i < MR_PIPELINE_MAX; i++)
        CHECK(rig_answer(i, "x") == MR_OK);
    rig_turn();
    rig_turn();
    CHECK(rig.request_count == MR_PIPELINE_MAX + 1);
    CHECK(rig_answer(MR_PIPELINE_MAX, "last") == MR_OK);
    rig.lines[a].got_off = rig.lines[a].got.len;
    rig_turn();
    const char *last = rig_ok("last", true);
    CHECK(rig.lines[a].got.len > strlen(last));
    CHECK(memcmp(rig.lines[a].got.data + rig.lines[a].got.len - strlen(last), last, strlen(last)) ==
          0);
    CHECK(rig.lines[a].has_fin && rig_conn_state(a) == MR_CONN_DEAD);
    rig_close();
}

/* Those who watch hear it, before or after; the answer still goes out. */
static void half_close_watched(void) {
    rig_open("half-close, watched", NULL);
    uint32_t a = rig_connect();
    rig_send(a, RIG_GET RIG_GET);
    rig_turn();
    uint64_t id = rig.requests[0].connection;
    CHECK(mr_engine_watch(rig.engine, id, 0) == MR_OK);
    CHECK(mr_engine_is_waiting(rig.engine, id, 1) == MR_IS_WAITING);
    rig_end_input(a);
    rig_turn();
    CHECK(rig_notes(0, MR_NOTE_PEER_ENDED) == 1 && rig.note_count == 1);
    CHECK(mr_engine_is_waiting(rig.engine, id, 1) == MR_IS_WAITING_ENDED);
    CHECK(mr_engine_watch(rig.engine, id, 1) == MR_OK);
    CHECK(rig_notes(1, MR_NOTE_PEER_ENDED) == 1 && rig.note_count == 2);
    CHECK(rig_answer(0, "x") == MR_OK && rig_answer(1, "y") == MR_OK && rig.done_count == 0);
    rig_turn();
    char text[1024];
    snprintf(text, sizeof text, "%s%s", rig_ok("x", false), rig_ok("y", true));
    CHECK(rig_got(a, text) && rig.done_count == 2);
    CHECK(rig.done[0].is_answered && rig.done[1].is_answered);
    CHECK(rig.note_count == 2 && rig_conn_state(a) == MR_CONN_DEAD);
    rig_close();
}

/* A reset in every state, and the answers that come too late. */
static void reset(void) {
    rig_open("reset", NULL);
    uint32_t idle = rig_connect(), asked = rig_connect(), lingering = rig_connect();
    uint32_t body = rig_connect(), listed = rig_connect();
    rig_send(asked, RIG_GET RIG_GET);
    rig_send(lingering, "bad\r\n\r\n");
    rig_send(body, POST_HEAD "123");
    rig_turn();
    CHECK(rig_answer(1, "held") == MR_OK);
    CHECK(LINGERS(lingering));
    rig.request_room = 0;
    rig_send(listed, RIG_GET);
    rig_poll();
    for (uint32_t i = 0; i < rig.line_count; i++)
        rig.transport->events->on_gone(rig.transport->owner, rig.lines[i].link);
    CHECK(rig_answer(0, "x") == MR_GONE && rig_answer(1, "x") == MR_GONE);
    CHECK(mr_engine_connections(rig.engine) == 0);
    CHECK(mr_slab_count(rig.engine->conns) == 5); /* until the end of the turn */
    mr_engine_end(rig.engine);
    CHECK(mr_slab_count(rig.engine->conns) == 1); /* the one that a list names */
    rig_settle();
    rig_turn();
    CHECK(mr_slab_count(rig.engine->conns) == 0);
    CHECK(rig_got(idle, ""));
    rig_close();
}

/* Whoever is not looked at any more is not read either, until the FIN is out. */
static void closing_is_not_read(void) {
    rig_open("closing is not read", NULL);
    uint32_t a = rig_connect();
    rig_send(a, "GET /a HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    rig_turn();
    rig_send(a, RIG_GET);
    rig_turn();
    size_t off = rig.lines[a].sent_off;
    rig_send(a, RIG_GET);
    rig_turn();
    CHECK(!rig.lines[a].wants_data && rig.lines[a].sent_off == off);
    CHECK(((mr_conn *)rig.lines[a].link)->input == NULL && rig.request_count == 1);
    CHECK(rig_answer(0, "x") == MR_OK);
    rig_turn();
    rig_turn();
    CHECK(LINGERS(a) && rig.lines[a].sent_off == rig.lines[a].sent.len);
    rig_end_input(a);
    rig_turn();
    CHECK(rig_conn_state(a) == MR_CONN_DEAD && rig_got(a, rig_ok("x", true)));
    rig_close();
}

/* ---- accepting ---- */

static void accept_fails(void) {
    rig_open("accept fails", NULL);
    rig.fails_attach = true;
    (void)rig_connect();
    rig_turn();
    CHECK(mr_engine_connections(rig.engine) == 0 && mr_slab_count(rig.engine->conns) == 0);
    CHECK(rig.engine->stats.accept_failures == 1 && rig.engine->stats.accepted == 0);
    rig_close();
}

static void no_descriptors(void) {
    uint64_t pause = MR_ACCEPT_PAUSE_MIN_MS;
    rig_open("no descriptors", NULL);
    const mr_link_events *up = rig.transport->events;
    for (int i = 0; i < 12; i++) {
        up->on_accept_problem(rig.transport->owner, MR_ACCEPT_NO_DESCRIPTORS);
        up->on_accept_problem(rig.transport->owner,
                              MR_ACCEPT_NO_DESCRIPTORS); /* another listener */
        CHECK(rig.is_accept_paused);
        if (pause > 1)
            rig_pass(pause - 1);
        CHECK(rig.is_accept_paused);
        rig_pass(1);
        CHECK(!rig.is_accept_paused);
        pause = pause * 2 > MR_ACCEPT_PAUSE_MAX_MS ? MR_ACCEPT_PAUSE_MAX_MS : pause * 2;
    }
    (void)rig_connect(); /* one that succeeds: from the start again */
    up->on_accept_problem(rig.transport->owner, MR_ACCEPT_NO_DESCRIPTORS);
    rig_pass(MR_ACCEPT_PAUSE_MIN_MS);
    CHECK(!rig.is_accept_paused);
    up->on_accept_problem(rig.transport->owner, MR_ACCEPT_OTHER);
    CHECK(!rig.is_accept_paused);
    CHECK(rig.engine->stats.accept_failures == 26);
    rig_close();
}

static void connection_limit(void) {
    mr_engine_options o = rig_options();
    o.limits.connections = 2;
    rig_open("connection limit", &o);
    uint32_t a = rig_connect(), b = rig_connect(), c = rig_connect();
    rig_send(c, RIG_GET);
    rig_turn();
    CHECK(rig_got(a, "") && rig_got(b, "") && rig_conn_state(b) == MR_CONN_OPEN);
    CHECK(rig_got(c, rig_plain("503 Service Unavailable", true)) && LINGERS(c));
    CHECK(rig.request_count == 0 && mr_engine_connections(rig.engine) == 2);
    rig_end_input(a);
    rig_turn();
    uint32_t d = rig_connect();
    rig_send(d, RIG_GET);
    rig_turn();
    CHECK(rig.request_count == 1);
    /* Those who linger after a refusal hold a descriptor: their number is bounded too. */
    uint32_t told = 0, cut = 0;
    for (uint32_t i = 0; i < MR_REFUSALS_MAX + 50; i++) {
        uint32_t x = rig_connect();
        rig_turn();
        told += LINGERS(x);
        cut += rig_conn_state(x) == MR_CONN_DEAD && rig.lines[x].got.len == 0;
    }
    CHECK(told == MR_REFUSALS_MAX - 1 && cut == 51); /* c is among them */
    rig_pass(2000);
    CHECK(mr_slab_count(rig.engine->conns) == 2);
    rig_close();
}

int main(void) {
    header_timeout();
    body_timeout(false);
    body_timeout(true);
    keep_alive_timeout();
    thinking(1);
    thinking(10000);
    thinking(400000);
    waiting_for_room();
    send_timeout();
    linger();
    linger_on_data();
    no_timeouts();
    half_close();
    half_close_while_sending();
    half_close_while_waiting();
    half_close_watched();
    reset();
    closing_is_not_read();
    accept_fails();
    no_descriptors();
    connection_limit();
    return 0;
}
