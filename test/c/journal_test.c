/* journal_test.c -- what an engine in a fleet notes about exchanges: counts, routes, times, lines
 * of the access log. */
/* link: engine/engine.c engine/h1.c engine/conn.c engine/out.c engine/route.c engine/reply.c */
/* link: engine/answer.c engine/content.c net/sock.c net/unsent.c proto/proxy.c */
/* link: proto/url.c proto/h1_write.c proto/h1_parse.c proto/h1_chunked.c proto/h1_scan.c */
/* link: proto/h1_scan_avx2.c proto/h1_scan_sse2.c proto/h1_scan_neon.c proto/h1_scan_scalar.c */
/* link: base/mem.c base/buf.c base/text.c base/slab.c base/wheel.c */
/* link: engine/gate.c engine/fleet.c engine/balance.c engine/permits.c */
/* link: engine/fleet_show.c engine/mailbox.c engine/meter.c engine/series.c engine/rate.c */
/* link: engine/access_log.c engine/access_line.c engine/metrics_text.c engine/metrics_put.c */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "engine/journal.c"

#include "engine_rig.h"
#include <arpa/inet.h>
#include <unistd.h>

static mr_fleet *fleet;
static mr_meter *meter;
static mr_access_log *access_log;
static mr_access_ring *ring;
static char log_path[96], log_folder[64];

enum { FIXED = 3, HANDLED = 5 }; /* rows of the meter */

static mr_reply *fixed_reply(mr_mem *mem, const char *text) {
    static const char head[] = "HTTP/1.1 200 OK\r\n";
    mr_reply *reply = mr_reply_create(mem, 200, 0, (const uint8_t *)head, sizeof head - 1,
                                      (const uint8_t *)text, strlen(text));
    CHECK(reply != NULL);
    return reply;
}

static void add_route(mr_routes *routes, const char *pattern, const mr_action *action) {
    CHECK(mr_routes_add(routes, (const uint8_t *)pattern, strlen(pattern), MR_ANY_METHOD, action) ==
          MR_OK);
}

/* /fixed and /handled; all else is 404. */
static void open_engine(const char *name, mr_engine_options *o) {
    mr_fleet_options in = {.thread_count = 1, .stuck_ms = 1000};
    uint32_t seat;
    rig_reset();
    rig.at_case = name;
    CHECK(mr_fleet_create(&in, &fleet) == MR_OK && mr_fleet_take_seat(fleet, 0, &seat) == MR_OK);
    o->fleet = fleet;
    o->seat = seat;
    o->access = ring;
    meter = &fleet->seats[seat].meter;
    CHECK(mr_engine_create(o, &rig.engine) == MR_OK);
    mr_mem *mem = mr_engine_mem(rig.engine);
    mr_routes *routes = mr_routes_create(mem);
    CHECK(routes != NULL);
    add_route(routes, "/fixed", &(mr_action){.reply = fixed_reply(mem, "hello"), .route = FIXED});
    add_route(routes, "/handled", &(mr_action){.handler = 1, .route = HANDLED});
    mr_engine_set_routes(rig.engine, routes, MR_NO_HANDLER, 0);
}

static void open_usual(const char *name) {
    mr_engine_options o = rig_options();
    open_engine(name, &o);
}

static void close_engine(void) {
    rig_close();
    CHECK(mr_meter_get(&meter->exchanges) == 0); /* whatever was cut short */
    CHECK(atomic_load(&fleet->connections) == 0 && atomic_load(&fleet->seats[1].load) == 0);
    mr_fleet_release(fleet);
}

static uint64_t in_flight(void) { return mr_meter_get(&meter->exchanges); }
static uint64_t row(uint32_t route, unsigned status) {
    return mr_meter_get(&meter->routes[mr_meter_route(route)][mr_meter_class(status)]);
}
static uint64_t none(unsigned status) { return row(MR_METER_NO_ROUTE, status); }

static uint64_t times(void) {
    uint64_t count = 0;
    for (unsigned i = 0; i < MR_HISTOGRAM_SLOTS; i++)
        count += mr_meter_get(&meter->handler.slots[i]);
    return count;
}

#define GET(path) "GET " path " HTTP/1.1\r\nHost: h\r\n\r\n"

/* ---- counts ---- */

static void counting(void) {
    open_usual("counting");
    uint32_t i = rig_connect();
    rig_send(i, GET("/fixed"));
    rig_turn();
    CHECK(in_flight() == 0 && row(FIXED, 200) == 1 && mr_meter_get(&meter->by_engine) == 1);
    CHECK(mr_meter_get(&meter->by_handler) == 0 && times() == 0);
    rig_send(i, GET("/handled") GET("/handled"));
    rig_turn();
    CHECK(in_flight() == 2 && row(HANDLED, 200) == 0 && rig.request_count == 2);
    rig_pass(3);
    CHECK(rig_answer(1, "b") == MR_OK); /* given, and held: it is over for us */
    rig_settle();
    CHECK(in_flight() == 1 && row(HANDLED, 200) == 1 && mr_meter_get(&meter->by_handler) == 1);
    CHECK(mr_meter_get(&meter->handler.sum_ns) == 3000000);
    rig_pass(2);
    CHECK(rig_answer(0, "a") == MR_OK);
    rig_settle();
    CHECK(in_flight() == 0 && row(HANDLED, 200) == 2 && times() == 2);
    CHECK(mr_meter_get(&meter->handler.sum_ns) == 8000000);
    CHECK(rig_answer(0, "again") == MR_GONE && row(HANDLED, 200) == 2);
    rig_send(i, GET("/nothing"));
    rig_turn();
    CHECK(none(404) == 1 && in_flight() == 0 && mr_meter_get(&meter->by_engine) == 2);
    rig_send(i, "no request\r\n\r\n");
    rig_turn();
    CHECK(none(400) == 2 && in_flight() == 0); /* classes: 404 is one of them */
    close_engine();
}

static void status_classes(void) {
    static const uint16_t statuses[] = {204, 301, 404, 500, 599};
    open_usual("status classes");
    for (uint32_t n = 0; n < 5; n++) {
        uint32_t i = rig_connect();
        char head[64];
        rig_send(i, GET("/handled"));
        rig_turn();
        int len = snprintf(head, sizeof head, "HTTP/1.1 %u x\r\n", statuses[n]);
        mr_response r = {.head = (uint8_t *)head, .head_len = (size_t)len, .status = statuses[n]};
        CHECK(mr_engine_respond(rig.engine, rig.requests[n].connection, rig.requests[n].seq, &r) ==
              MR_OK);
        rig_settle();
    }
    CHECK(row(HANDLED, 200) == 1 && row(HANDLED, 300) == 1 && row(HANDLED, 400) == 1);
    CHECK(row(HANDLED, 500) == 2 && row(HANDLED, 100) == 0 && in_flight() == 0);
    close_engine();
}

static void dropped_connections(void) {
    open_usual("dropped connections");
    uint32_t i = rig_connect();
    rig_send(i, GET("/handled") GET("/handled") GET("/handled"));
    rig_turn();
    CHECK(rig_answer(1, "held") == MR_OK && in_flight() == 2);
    rig.lines[i].is_broken = true;
    CHECK(rig_answer(0, "x") == MR_OK);
    rig_settle();
    CHECK(in_flight() == 0 && rig.lines[i].link == NULL && row(HANDLED, 200) == 2);
    CHECK(mr_meter_get(&meter->closed) == 1 && mr_meter_get(&meter->connections) == 0);
    i = rig_connect(); /* and with the engine */
    rig_send(i, GET("/handled"));
    rig_turn();
    CHECK(in_flight() == 1);
    close_engine();
}

static void streams(void) {
    open_usual("streams");
    uint32_t i = rig_connect();
    rig_send(i, GET("/handled") GET("/handled"));
    rig_turn();
    CHECK(rig_answer_with(0, NULL, 0, MR_RESPONSE_STREAM) == MR_OK);
    rig_settle();
    CHECK(in_flight() == 2 && row(HANDLED, 200) == 1); /* the answer is known, its end is not */
    const rig_request *q = &rig.requests[0];
    CHECK(mr_engine_write(rig.engine, q->connection, q->seq, (const uint8_t *)"abc", 3, NULL) ==
          MR_OK);
    CHECK(mr_engine_finish(rig.engine, q->connection, q->seq, NULL, 0) == MR_OK);
    rig_settle();
    CHECK(in_flight() == 1 && row(HANDLED, 200) == 1);
    q = &rig.requests[1];
    CHECK(mr_engine_abort(rig.engine, q->connection, q->seq) == MR_OK);
    rig_settle();
    CHECK(in_flight() == 0 && row(HANDLED, 200) == 1 && rig.lines[i].link == NULL);
    close_engine();
}

/* Without a fleet nothing is noted. */
static void alone(void) {
    rig_open("alone", NULL);
    uint32_t i = rig_connect();
    rig_send(i, RIG_GET);
    rig_turn();
    const mr_conn *c = (const mr_conn *)rig.lines[i].link;
    CHECK(c->notes == NULL && rig_answer(0, "x") == MR_OK);
    rig_settle();
    CHECK(rig_got(i, rig_ok("x", false)) && rig.engine->free_notes == NULL);
    rig_close();
}

/* ---- notes ---- */

static void notes_are_kept(void) {
    enum { LINES = MR_NOTES_KEPT_MAX / MR_PIPELINE_MAX };
    open_usual("notes are kept");
    for (uint32_t i = 0; i <= LINES; i++) {
        (void)rig_connect();
        for (uint32_t n = 0; n < (i == LINES ? 1 : MR_PIPELINE_MAX); n++)
            rig_send(i, GET("/handled"));
    }
    rig_turn();
    CHECK(rig.request_count == MR_NOTES_KEPT_MAX + 1 && in_flight() == MR_NOTES_KEPT_MAX + 1);
    CHECK(rig.engine->free_note_count == 0);
    for (uint32_t n = 0; n < MR_NOTES_KEPT_MAX; n++)
        CHECK(rig_answer(n, "x") == MR_OK);
    CHECK(rig.engine->free_note_count == MR_NOTES_KEPT_MAX);
    size_t used = rig.engine->mem.used_bytes;
    CHECK(rig_answer(MR_NOTES_KEPT_MAX, "x") == MR_OK);
    CHECK(rig.engine->free_note_count == MR_NOTES_KEPT_MAX); /* one past is freed */
    CHECK(rig.engine->mem.used_bytes == used - sizeof(mr_note_block));
    rig_settle();
    rig_send(0, GET("/handled"));
    used = rig.engine->mem.used_bytes;
    rig_turn();
    CHECK(rig.engine->free_note_count == MR_NOTES_KEPT_MAX - 1); /* and used again */
    CHECK(rig_answer(MR_NOTES_KEPT_MAX + 1, "x") == MR_OK);
    rig_settle();
    CHECK(rig.engine->mem.used_bytes == used);
    close_engine();
}

/* An exchange without a note is answered and counted; the gauge stays even. */
static void without_memory(void) {
    open_usual("without memory");
    uint32_t i = rig_connect();
    rig_send(i, GET("/handled") GET("/handled"));
    rig.engine->mem.fail_after = -1;
    rig_turn();
    rig.engine->mem.fail_after = 0;
    CHECK(rig.request_count == 2 && in_flight() == 0);
    CHECK(((mr_conn *)rig.lines[i].link)->notes == NULL);
    CHECK(rig_answer(0, "x") == MR_OK);
    rig_settle();
    CHECK(rig_got(i, rig_ok("x", false)) && in_flight() == 0 && none(200) == 1);
    rig.lines[i].is_broken = true; /* the other one never ends */
    CHECK(rig_answer(1, "x") == MR_OK);
    rig_settle();
    i = rig_connect();
    rig_send(i, GET("/handled"));
    rig.engine->mem.fail_after = -1;
    rig_turn();
    rig.engine->mem.fail_after = 0;
    close_engine(); /* looks at the gauge */
}

/* ---- the access log ---- */

static void open_log(void) {
    const char *parent = getenv("TMPDIR");
    snprintf(log_folder, sizeof log_folder, "%.40s/mr-journal-XXXXXX",
             parent != NULL ? parent : "/tmp");
    CHECK(mkdtemp(log_folder) != NULL);
    snprintf(log_path, sizeof log_path, "%s/log", log_folder);
    const mr_access_options o = {.path = log_path, .style = MR_ACCESS_JSON};
    CHECK(mr_access_log_open(&o, &access_log) == MR_OK);
    CHECK(mr_access_ring_open(access_log, &ring) == MR_OK);
}

/* All lines so far; ends the log. */
static const char *close_log(void) {
    static char text[64 * 1024];
    mr_access_ring_close(ring);
    ring = NULL;
    CHECK(mr_access_log_close(access_log, NULL) == MR_OK);
    FILE *file = fopen(log_path, "r");
    CHECK(file != NULL);
    size_t len = fread(text, 1, sizeof text - 1, file);
    text[len] = '\0';
    fclose(file);
    CHECK(remove(log_path) == 0 && rmdir(log_folder) == 0);
    return text;
}

#define LINE(method, target, minor, status, bytes, us, host, referer, agent)                       \
    "{\"time\":\"1994-11-06T08:49:37.000Z\",\"remote\":\"192.0.2.7\",\"user\":null,\"method\":"    \
    "\"" method "\",\"target\":\"" target "\",\"protocol\":\"HTTP/1." minor                        \
    "\",\"status\":" status ",\"bytes\":" bytes ",\"duration_us\":" us ",\"host\":" host           \
    ",\"referer\":" referer ",\"user_agent\":" agent "}\n"

static void records(void) {
    open_log();
    open_usual("records");
    struct sockaddr_in from = {.sin_family = AF_INET, .sin_port = htons(80)};
    CHECK(inet_pton(AF_INET, "192.0.2.7", &from.sin_addr) == 1);
    memcpy(&rig.peer, &from, sizeof from);
    uint32_t i = rig_connect();
    rig_send(i, "GET /fixed?q=1 HTTP/1.1\r\nHost: a.example\r\nReferer: http://r/\r\n"
                "User-Agent: me/1\r\n\r\n");
    rig_turn();
    rig_send(i, "HEAD /fixed HTTP/1.1\r\nHost: h\r\n\r\n");
    rig_turn();
    rig_send(i, GET("/handled") "POST /handled HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n"
                                "GET /handled HTTP/1.1\r\nHost: h\r\n\r\n");
    rig_turn();
    rig.now_ms += 2;
    (void)mr_engine_update_clock(rig.engine);
    CHECK(rig_answer_with(0, NULL, 0, MR_RESPONSE_STREAM) == MR_OK);
    const rig_request *q = &rig.requests[0];
    for (int n = 0; n < 2; n++)
        CHECK(mr_engine_write(rig.engine, q->connection, q->seq, (const uint8_t *)"abcd", 4,
                              NULL) == MR_OK);
    rig.now_ms += 3;
    (void)mr_engine_update_clock(rig.engine);
    CHECK(mr_engine_finish(rig.engine, q->connection, q->seq, NULL, 0) == MR_OK);
    CHECK(rig_answer(1, "xyz") == MR_OK);
    rig_settle();
    rig.lines[i].is_broken = true; /* the third is never answered */
    rig_end_input(i);
    CHECK(mr_engine_abort(rig.engine, q->connection, rig.requests[2].seq) == MR_OK);
    rig_settle();
    rig_turn();
    close_engine();
    CHECK(strcmp(
              close_log(),
              LINE("GET", "/fixed?q=1", "1", "200", "5", "0", "\"a.example\"", "\"http://r/\"",
                   "\"me/1\"") LINE("HEAD", "/fixed", "1", "200", "0", "0", "\"h\"", "null", "null")
                  LINE("GET", "/handled", "1", "200", "8", "5000", "\"h\"", "null", "null")
                      LINE("POST", "/handled", "1", "200", "3", "5000", "\"h\"", "null", "null")
                          LINE("GET", "/handled", "1", "0", "0", "5000", "\"h\"", "null",
                               "null")) == 0);
}

/* What is longer than a line shows ends in dots; exactly as long does not. */
static void long_texts(void) {
    static char request[4096], want[2048];
    static const size_t lengths[] = {MR_ACCESS_AGENT_MAX, MR_ACCESS_AGENT_MAX + 1};
    for (int n = 0; n < 2; n++) {
        mr_engine_options o = rig_options();
        open_log();
        open_engine("long texts", &o);
        uint32_t i = rig_connect();
        char agent[MR_ACCESS_AGENT_MAX + 2];
        memset(agent, 'a', lengths[n]);
        agent[lengths[n]] = '\0';
        snprintf(request, sizeof request,
                 "GET /fixed HTTP/1.1\r\nHost: h\r\nUser-Agent: %s\r\n\r\n", agent);
        rig_send(i, request);
        rig_turn();
        close_engine();
        if (n == 1)
            memcpy(agent + MR_ACCESS_AGENT_MAX - 3, "...", 4);
        snprintf(want, sizeof want, "\"user_agent\":\"%s\"}\n", agent);
        const char *text = close_log();
        CHECK(strlen(text) > strlen(want));
        CHECK(strcmp(text + strlen(text) - strlen(want), want) == 0);
    }
}

static void no_line_without_a_request(void) {
    open_log();
    open_usual("no line without a request");
    uint32_t i = rig_connect();
    rig_send(i, "no request\r\n\r\n");
    rig_turn();
    CHECK(none(400) == 1);
    close_engine();
    CHECK(close_log()[0] == '\0');
}

/* The line is lost, not the request. */
static void no_memory_for_a_line(void) {
    open_log();
    open_usual("no memory for a line");
    uint32_t i = rig_connect();
    rig_send(i, GET("/handled"));
    rig.engine->mem.fail_after = 1; /* the note, but not its text */
    rig_turn();
    rig.engine->mem.fail_after = 0;
    CHECK(rig.request_count == 1 && in_flight() == 1 && rig_answer(0, "x") == MR_OK);
    rig_settle();
    CHECK(rig_got(i, rig_ok("x", false)) && row(HANDLED, 200) == 1);
    close_engine();
    CHECK(close_log()[0] == '\0');
}

int main(void) {
    counting();
    status_classes();
    dropped_connections();
    streams();
    alone();
    notes_are_kept();
    without_memory();
    records();
    long_texts();
    no_line_without_a_request();
    no_memory_for_a_line();
    return 0;
}
