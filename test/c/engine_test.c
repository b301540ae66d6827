/* engine_test.c -- an engine as a whole: making and unmaking it, turns, draining, templates. */
/* link: engine/h1.c engine/conn.c engine/out.c engine/route.c engine/reply.c net/sock.c */
/* link: engine/answer.c engine/content.c net/unsent.c proto/proxy.c */
/* link: proto/url.c proto/h1_write.c proto/h1_parse.c proto/h1_chunked.c proto/h1_scan.c */
/* link: proto/h1_scan_avx2.c proto/h1_scan_sse2.c proto/h1_scan_neon.c proto/h1_scan_scalar.c */
/* link: base/mem.c base/buf.c base/text.c base/slab.c base/wheel.c */
/* link: engine/journal.c engine/gate.c engine/fleet.c engine/balance.c engine/permits.c */
/* link: engine/fleet_show.c engine/mailbox.c engine/meter.c engine/series.c engine/rate.c */
/* link: engine/access_log.c engine/access_line.c engine/metrics_text.c engine/metrics_put.c */
#include "engine/engine.c"

#include "engine_rig.h"

static void create(void) {
    mr_engine_options o = rig_options();
    rig_reset();
    rig.at_case = "create";
    rig.fails_create = true;
    CHECK(mr_engine_create(&o, &rig.engine) == MR_NOMEM);
    rig.fails_create = false;
    mr_engine_destroy(NULL);
    CHECK(mr_engine_create(&o, &rig.engine) == MR_OK);
    CHECK(mr_engine_connections(rig.engine) == 0 && mr_engine_backend_fd(rig.engine) == -1);
    CHECK(mr_engine_scan_name(rig.engine)[0] != 0);
    CHECK(mr_engine_next_ms(rig.engine) == UINT64_MAX && !mr_engine_resume(rig.engine));
    rig.now_ms += 5;
    CHECK(mr_engine_update_clock(rig.engine) == rig.now_ms);
    rig_close();
}

/* Also when the transport will not have the listener there is an errno to show. */
static void listen_fails(void) {
    uint16_t port = 0;
    int error = 0;
    mr_listen_options bad = {.address = "not an address", .backlog = 1};
    mr_listen_options good = {.address = "127.0.0.1", .backlog = 1};
    rig_open("listen fails", NULL);
    CHECK(mr_engine_listen(rig.engine, &bad, &port, &error) == MR_INVALID && error == EINVAL);
    CHECK(mr_engine_listen(rig.engine, &good, &port, &error) == MR_INVALID && error != 0);
    rig_close();
}

/* Everything is in flight: nothing may leak, nobody is called. */
static void destroy_in_flight(void) {
    static uint8_t body[100000];
    rig_open("destroy in flight", NULL);
    for (uint32_t i = 0; i < 8; i++)
        (void)rig_connect();
    rig.lines[0].room = 100;
    rig_send(0, RIG_GET RIG_GET RIG_GET);
    rig_send(1, "POST /p HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n123");
    rig_send(2, "POST /p HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n123");
    rig_send(3, "GET / HT");
    rig_send(4, "bad\r\n\r\n");
    rig_turn();
    CHECK(rig_answer_with(0, body, sizeof body, 0) == MR_OK);
    CHECK(rig_answer_with(2, body, sizeof body, 0) == MR_OK);
    CHECK(mr_engine_watch(rig.engine, rig.requests[1].connection, 1) == MR_OK);
    rig.request_room = 0;
    rig_send(5, RIG_GET);
    rig_send(6, "POST /p HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\n");
    rig_turn();
    rig_send(6, "1");
    rig_poll(); /* 5 and 6 are listed, */
    rig.transport->events->on_gone(rig.transport->owner, rig.lines[5].link); /* one of them dead, */
    CHECK(rig_answer(1, "x") == MR_OK); /* output is gathered */
    rig.done_count = 0;
    mr_engine_destroy(rig.engine);
    CHECK(rig.done_count == 0);
    for (uint32_t i = 0; i < rig.line_count; i++)
        CHECK(rig.lines[i].link == NULL);
    rig_reset();
}

/* Nothing of a connection is left in the books when it has gone. */
static void books_balance(void) {
    rig_open("books balance", NULL);
    rig_send(rig_connect(), RIG_GET "bad\r\n\r\n");
    rig_send(rig_connect(),
             "POST /p HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12345"
             "\r\n?"); /* the engine keeps what it decodes into */
    rig_turn();
    CHECK(rig_answer(0, "x") == MR_OK);
    rig_pass(0);
    rig_pass(2000);
    mr_engine_stats before, after;
    mr_engine_get_stats(rig.engine, &before);
    for (int round = 0; round < 3; round++) {
        uint32_t a = rig_connect(), b = rig_connect(), c = rig_connect();
        uint32_t first = rig.request_count;
        rig.lines[a].room = 20;
        rig_send(a, RIG_GET RIG_GET "GET /");
        rig_send(b, "POST /p HTTP/1.1\r\nHost: h\r\nContent-Length: 99\r\n\r\n123");
        rig_send(
            c, "POST /p HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n?");
        rig_turn();
        CHECK(rig_answer(first + 1, "held") == MR_OK && rig_answer(first, "x") == MR_OK);
        rig_turn();
        CHECK(rig.lines[a].link->unsent != NULL);
        for (uint32_t i = a; i <= c; i++)
            if (rig.lines[i].link != NULL)
                rig.transport->events->on_gone(rig.transport->owner, rig.lines[i].link);
        rig_turn();
        mr_engine_get_stats(rig.engine, &after);
        CHECK(after.connections == 0 && after.used_bytes == before.used_bytes);
    }
    CHECK(after.accepted == 11 && after.requests == 14);
    rig_close();
}

/* ---- resuming ---- */

/* A connection that must wait again is for the next round; the dead in between do no harm. */
static void resume_again(void) {
    rig_open("resume again", NULL);
    rig.request_room = 0;
    for (uint32_t i = 0; i < 5; i++)
        rig_send(rig_connect(), RIG_GET RIG_GET);
    rig_poll();
    rig.request_room = 3;
    CHECK(mr_engine_resume(rig.engine));
    CHECK(rig.request_count == 3); /* two of the first, one of the second */
    rig.transport->events->on_gone(rig.transport->owner, rig.lines[3].link);
    rig.transport->events->on_gone(rig.transport->owner, rig.lines[1].link);
    mr_engine_end(rig.engine);
    rig.request_room = UINT32_MAX;
    CHECK(mr_engine_resume(rig.engine) && rig.request_count == 7);
    CHECK(!mr_engine_resume(rig.engine));
    rig_settle();
    CHECK(mr_slab_count(rig.engine->conns) == 3);
    rig_close();
}

/* ---- draining ---- */

static void drain(void) {
    rig_open("drain", NULL);
    uint32_t idle = rig_connect(), asked = rig_connect(), head = rig_connect(),
             body = rig_connect();
    uint32_t unread = rig_connect(), held = rig_connect();
    rig_send(asked, RIG_GET);
    rig_send(head, "GET /a HTTP/1.1\r\n");
    rig_send(body, "POST /p HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n1");
    rig.lines[unread].room = 10;
    rig_send(unread, RIG_GET);
    rig_send(held, RIG_GET RIG_GET);
    rig_turn();
    CHECK(rig.request_count == 5); /* asked, body, unread, held twice */
    CHECK(rig_answer(2, "unread") == MR_OK && rig_answer(4, "held") == MR_OK);
    rig_turn();
    rig.queued_accepts = 2;
    mr_engine_drain(rig.engine, 0);
    CHECK(rig.is_unlistened && rig.line_count == 8);
    rig_settle();
    CHECK(rig_conn_state(idle) == MR_CONN_LINGERING && rig.lines[idle].has_fin);
    CHECK(rig_conn_state(unread) == MR_CONN_LINGERING && !rig.lines[unread].has_fin);
    CHECK(rig_conn_state(asked) == MR_CONN_CLOSING && rig_conn_state(head) == MR_CONN_OPEN);
    CHECK(mr_engine_connections(rig.engine) == 4);
    mr_engine_drain(rig.engine, 0); /* idempotent */
    rig_send(head, "Host: h\r\n\r\n" RIG_GET);
    rig_send(body, "2");
    rig.lines[unread].room = SIZE_MAX;
    rig_turn();
    CHECK(rig.request_count == 6 && rig.requests[1].is_complete);
    CHECK(rig_answer(0, "a") == MR_OK && rig_answer(5, "b") == MR_OK &&
          rig_answer(1, "c") == MR_OK);
    CHECK(rig_answer(3, "d") == MR_OK);
    rig_turn();
    CHECK(rig_got(asked, rig_ok("a", true)) && rig_got(head, rig_ok("b", true)));
    CHECK(rig_got(body, rig_ok("c", true)) && rig_got(unread, rig_ok("unread", false)));
    char text[1024];
    snprintf(text, sizeof text, "%s%s", rig_ok("d", false), rig_ok("held", false));
    CHECK(rig_got(held, text) && rig.lines[held].has_fin && rig.lines[unread].has_fin);
    CHECK(mr_engine_connections(rig.engine) == 0);
    rig_pass(2000);
    CHECK(mr_slab_count(rig.engine->conns) == 0);
    rig_close();
}

/* Who is idle has a grace for the request that may be on its way; who still reads is not hurried.
 */
static void drain_with_grace(void) {
    rig_open("drain with grace", NULL);
    uint32_t idle = rig_connect(), asks = rig_connect(), late = rig_connect();
    uint32_t reads = rig_connect();
    rig.lines[reads].room = 10;
    rig_send(reads, RIG_GET);
    rig_turn();
    CHECK(rig_answer(0, "x") == MR_OK);
    rig_turn();
    mr_engine_drain(rig.engine, 1000);
    CHECK(mr_engine_connections(rig.engine) == 3); /* nothing more is taken from the reader */
    rig_send(late, "GET /a HTTP/1.1\r\n");
    rig_pass(999);
    rig_send(asks, RIG_GET);
    rig_turn();
    CHECK(rig.request_count == 2 && rig_conn_state(idle) == MR_CONN_OPEN);
    rig_pass(1);
    CHECK(rig_conn_state(idle) == MR_CONN_LINGERING && rig.lines[idle].has_fin);
    CHECK(rig_conn_state(late) == MR_CONN_OPEN && rig_conn_state(asks) == MR_CONN_CLOSING);
    rig_send(late, "Host: h\r\n\r\n");
    rig_turn();
    CHECK(rig_answer(1, "y") == MR_OK && rig_answer(2, "z") == MR_OK);
    rig_pass(5000);
    CHECK(rig_got(asks, rig_ok("y", true)) && rig_got(late, rig_ok("z", true)));
    CHECK(rig_conn_state(reads) == MR_CONN_LINGERING);
    rig.lines[reads].room = SIZE_MAX;
    rig_turn();
    CHECK(rig_got(reads, rig_ok("x", false)) && rig.lines[reads].has_fin);
    CHECK(mr_engine_connections(rig.engine) == 0);
    rig_close();
}

/* While accepting is paused for want of descriptors. */
static void drain_while_paused(void) {
    rig_open("drain while paused", NULL);
    rig.transport->events->on_accept_problem(rig.transport->owner, MR_ACCEPT_NO_DESCRIPTORS);
    mr_engine_drain(rig.engine, 0);
    rig_pass(5000);
    CHECK(rig.is_accept_paused && mr_engine_next_ms(rig.engine) == UINT64_MAX);
    rig_close();
}

/* ---- replies without a handler ---- */

static void set_template(void) {
    static const char head[] = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n";
    mr_mem *mem = mr_engine_mem(rig.engine);
    mr_routes *routes = mr_routes_create(mem);
    mr_reply *reply = mr_reply_create(mem, 200, 0, (const uint8_t *)head, sizeof head - 1, NULL, 0);
    CHECK(routes != NULL && reply != NULL);
    reply->escape = MR_ESCAPE_HTML;
    CHECK(mr_reply_add_part(reply, MR_PART_LITERAL, 0, (const uint8_t *)"<b>", 3, NULL, 0) ==
          MR_OK);
    for (int i = 0; i < 40; i++)
        CHECK(mr_reply_add_part(reply, MR_PART_PARAM, 0, NULL, 0, NULL, 0) == MR_OK);
    mr_action action = {.reply = reply};
    CHECK(mr_routes_add(routes, (const uint8_t *)"/t/:x", 5, MR_METHOD_BIT(MR_METHOD_GET),
                        &action) == MR_OK);
    mr_engine_set_routes(rig.engine, routes, 7, 0);
}

/* Content made for the request, small and larger than what is copied, in turn and held. */
static void templates(void) {
    rig_open("templates", NULL);
    set_template();
    for (size_t params = 1; params <= 1000; params += 999) {
        uint32_t a = rig_connect(), first = rig.request_count;
        rig_bytes body = {0}, want = {0};
        rig_append(&body, "<b>", 3);
        for (size_t i = 0; i < 40 * params; i++)
            rig_append(&body, "&amp;", 5);
        CHECK((body.len > MR_OUT_COPY_MAX) == (params > 1));
        rig_send(a, RIG_GET "GET /t/");
        for (size_t i = 0; i < params; i++)
            rig_send(a, "&");
        rig_send(a, " HTTP/1.1\r\nHost: h\r\n\r\nPOST /t/x HTTP/1.1\r\nHost: h\r\n\r\nGET /t/%zz "
                    "HTTP/1.1\r\nHost: h\r\n\r\n");
        rig_turn();
        CHECK(rig.request_count == first + 1 && rig_got(a, ""));
        CHECK(rig_answer(first, "x") == MR_OK);
        rig_turn();
        const char *text = rig_ok("x", false);
        char head[256];
        rig_append(&want, text, strlen(text));
        int head_len = snprintf(head, sizeof head,
                                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
                                "Content-Length: %zu\r\n" RIG_DATE "\r\n",
                                body.len);
        rig_append(&want, head, (size_t)head_len);
        rig_append(&want, body.data, body.len);
        text = "HTTP/1.1 405 Method Not Allowed\r\n" RIG_TYPE "Allow: GET, HEAD, OPTIONS\r\n"
               "Content-Length: 18\r\n" RIG_DATE "\r\nMethod Not Allowed";
        rig_append(&want, text, strlen(text));
        text = rig_plain("400 Bad Request", false);
        rig_append(&want, text, strlen(text));
        CHECK(rig_got_bytes(a, want.data, want.len));
        free(body.data);
        free(want.data);
    }
    rig_close();
}

int main(void) {
    create();
    listen_fails();
    destroy_in_flight();
    books_balance();
    resume_again();
    drain();
    drain_with_grace();
    drain_while_paused();
    templates();
    return 0;
}
