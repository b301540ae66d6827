/* engine_nomem_test.c -- memory runs short at every allocation of a scripted life, once or for
 * good: connections may die, the engine may not, and nothing leaks. The malloc under base/mem.c is
 * replaced, so that creating the engine is covered too. */
/* link: engine/engine.c engine/h1.c engine/conn.c engine/out.c engine/route.c engine/reply.c */
/* link: net/sock.c */
/* link: engine/answer.c engine/content.c net/unsent.c proto/proxy.c */
/* link: proto/url.c proto/h1_write.c proto/h1_parse.c proto/h1_chunked.c proto/h1_scan.c */
/* link: proto/h1_scan_avx2.c proto/h1_scan_sse2.c proto/h1_scan_neon.c proto/h1_scan_scalar.c */
/* link: base/buf.c base/text.c base/slab.c base/wheel.c */
/* link: engine/journal.c engine/gate.c engine/fleet.c engine/balance.c engine/permits.c */
/* link: engine/fleet_show.c engine/mailbox.c engine/meter.c engine/series.c engine/rate.c */
/* link: engine/access_log.c engine/access_line.c engine/metrics_text.c engine/metrics_put.c */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

static struct {
    int64_t left; /* allocations before one fails; negative: none fails */
    bool is_once;
    int64_t live; /* blocks */
    bool has_failed;
} heap = {.left = -1};

static bool heap_fails(void) {
    if (heap.left < 0)
        return false;
    if (heap.left > 0) {
        heap.left--;
        return false;
    }
    if (heap.is_once)
        heap.left = -1;
    heap.has_failed = true;
    return true;
}

static void *heap_malloc(size_t bytes) {
    void *block = heap_fails() ? NULL : malloc(bytes);
    heap.live += block != NULL;
    return block;
}

static void *heap_calloc(size_t count, size_t bytes) {
    void *block = heap_fails() ? NULL : calloc(count, bytes);
    heap.live += block != NULL;
    return block;
}

static void *heap_realloc(void *old, size_t bytes) {
    void *block = heap_fails() ? NULL : realloc(old, bytes);
    heap.live += block != NULL && old == NULL;
    return block;
}

static void heap_free(void *block) {
    heap.live -= block != NULL;
    free(block);
}

#define malloc heap_malloc
#define calloc heap_calloc
#define realloc heap_realloc
#define free heap_free
#include "base/mem.c"
#undef malloc
#undef calloc
#undef realloc
#undef free

#include "engine_rig.h"

static uint8_t large[100000];

/* GET /t/:x by a template; all else by handler 7. Without memory: no table. */
static mr_routes *make_routes(mr_mem *mem) {
    static const char head[] = "HTTP/1.1 200 OK\r\n";
    mr_routes *routes = mr_routes_create(mem);
    mr_reply *reply = mr_reply_create(mem, 200, 0, (const uint8_t *)head, sizeof head - 1, NULL, 0);
    mr_action action = {.reply = reply};
    if (routes == NULL || reply == NULL ||
        mr_reply_add_part(reply, MR_PART_PARAM, 0, NULL, 0, NULL, 0) != MR_OK) {
        mr_reply_release(reply);
        mr_routes_destroy(routes);
        return NULL;
    }
    if (mr_routes_add(routes, (const uint8_t *)"/t/:x", 5, MR_ANY_METHOD, &action) != MR_OK) {
        mr_routes_destroy(routes);
        return NULL;
    }
    return routes;
}

static rig_lease loan;

static void answer_open(void) {
    for (uint32_t i = rig.request_count; i-- > 0;) {
        rig_request *q = &rig.requests[i];
        if (!q->is_answered)
            (void)rig_answer_with(i, large, q->seq % 2 == 0 ? sizeof large : 50, 0);
        q->is_answered = true;
    }
}

/* Streams in and out of turn, copied and on loan, with interim answers, trailers and a short write;
 * content with trailers that is asked for by and by, while it is held back, given up and read past;
 * one answer that is cut short. */
static void live_streams(void) {
    static const uint8_t fields[] = "X: y\r\n";
    const size_t fields_len = sizeof fields - 1;
    uint32_t a = rig_connect(), b = rig_connect(), c = rig_connect(), at = rig.request_count;
    rig_send(a, RIG_GET RIG_GET RIG_GET);
    rig_send(b, "POST /b HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n"
                "Expect: 100-continue\r\n\r\n");
    rig_send(c, "POST /c HTTP/1.1\r\nHost: h\r\nContent-Length: 300\r\n\r\n12345");
    rig.lines[a].room = 1000;
    rig_turn();
    rig_send(b, "3\r\n123\r\n100\r\n");
    rig_send_bytes(b, large, 256);
    rig_send(b, "\r\n0\r\nSome: trailer\r\n\r\n" RIG_GET);
    rig_turn();
    rig_lend(&loan, 50000);
    for (uint32_t i = rig.request_count; i-- > at;) {
        const rig_request *q = &rig.requests[i];
        rig_ignore(mr_engine_watch(rig.engine, q->connection, q->seq));
        (void)rig_ask(i, 2);
        rig_ignore(mr_engine_inform(rig.engine, q->connection, q->seq, 103, fields, fields_len));
        (void)rig_answer_with(i, NULL, 0, MR_RESPONSE_STREAM);
        rig_ignore(mr_engine_write(rig.engine, q->connection, q->seq, large, 40000, NULL));
        rig_ignore(
            mr_engine_write(rig.engine, q->connection, q->seq, loan.bytes, loan.len, &loan.lease));
        rig_ignore(mr_engine_write(rig.engine, q->connection, q->seq, large, 10, NULL));
        rig_ignore(mr_engine_watch_drain(rig.engine, q->connection, q->seq));
        (void)rig_ask(i, 2);
    }
    mr_lease_return(&loan.lease);
    rig_turn();
    for (uint32_t i = at; i < rig.request_count; i++)
        (void)rig_ask(i, MR_WINDOW_MAX);
    rig_turn();
    for (uint32_t i = rig.request_count; i-- > at;) {
        rig_request *q = &rig.requests[i];
        if (q->seq == 2)
            rig_ignore(mr_engine_abort(rig.engine, q->connection, q->seq));
        rig_ignore(mr_engine_finish(rig.engine, q->connection, q->seq, fields, fields_len));
        q->is_answered = true;
    }
    rig_turn();
    rig.lines[a].room = SIZE_MAX;
    rig_turn();
    rig_turn();
    answer_open();
    rig_turn();
}

/* Split heads, content of both framings, a template, held answers, short writes, large content, an
 * Expect, a refusal, a full ring, a close. */
static void live(void) {
    uint32_t a = rig_connect(), b = rig_connect(), c = rig_connect(), d = rig_connect();
    for (uint32_t i = 0; i < 70; i++) /* slab blocks */
        (void)rig_connect();
    rig_send(a, "GET /a HTTP/1.1\r\nHo");
    rig_send(b, "POST /b HTTP/1.1\r\nHost: h\r\nContent-Length: 900\r\n\r\n");
    rig_send(c, "POST /c HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n"
                "Expect: 100-continue\r\n\r\n");
    rig.lines[d].room = 3000;
    rig_turn();
    rig_send(a, "st: h\r\n\r\n" RIG_GET "GET /t/abc HTTP/1.1\r\nHost: h\r\n\r\n" RIG_GET
                "oops\r\n\r\n");
    rig_send_bytes(b, large, 450);
    rig_send(c, "12c\r\n");
    rig_send_bytes(c, large, 300);
    rig_send(d, RIG_GET RIG_GET RIG_GET);
    rig_turn();
    rig.request_room = 1;
    rig_send_bytes(b, large, 450);
    rig_send(c, "\r\n0\r\n\r\n");
    rig_turn();
    rig.request_room = UINT32_MAX;
    rig_turn();
    answer_open();
    rig_turn();
    rig_turn();
    rig.lines[d].room = SIZE_MAX;
    rig_send(d, "GET /t/abc HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    rig_turn();
    rig_turn();
}

static void still_serves(void) {
    uint32_t a = rig_connect(), at = rig.request_count;
    rig_send(a, "POST /p HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\n");
    rig_turn();
    rig_send(a, "abc");
    rig_turn();
    CHECK(rig.request_count == at + 1 && rig.requests[at].body_len == 3);
    CHECK(rig_answer(at, "fresh") == MR_OK);
    rig_turn();
    CHECK(rig_got(a, rig_ok("fresh", false)));
}

/* Returns whether any allocation failed. */
static bool run(int64_t fail_at, bool is_once) {
    mr_engine_options o = rig_options();
    rig_reset();
    rig.at_case = is_once ? "failing once" : "failing from here on";
    heap.left = fail_at;
    heap.is_once = is_once;
    heap.has_failed = false;
    mr_rc rc = mr_engine_create(&o, &rig.engine);
    if (rc == MR_OK) {
        mr_engine_set_routes(rig.engine, make_routes(&rig.engine->mem), 7, 0);
        live();
        live_streams();
        heap.left = -1;
        CHECK(heap.has_failed || rig.request_count == 14); /* the script went all the way */
        still_serves();
        rig_close();
    } else {
        CHECK(rc == MR_NOMEM && heap.has_failed);
        heap.left = -1;
    }
    CHECK(heap.live == 0 && (rc != MR_OK || loan.is_returned));
    return heap.has_failed;
}

int main(void) {
    int64_t n = 0;
    CHECK(!run(-1, false));
    while (run(n, true)) {
        CHECK(run(n, false));
        n++;
    }
    CHECK(n >= 35); /* the script does allocate */
    rig_reset();
    return 0;
}
