/* gate_test.c -- the rate limit and the overload of a thread, before any handler; answers about the
 * fleet, which pass both. */
/* link: engine/engine.c engine/h1.c engine/conn.c engine/out.c engine/route.c engine/reply.c */
/* link: engine/answer.c engine/content.c net/sock.c net/unsent.c proto/proxy.c */
/* link: proto/url.c proto/h1_write.c proto/h1_parse.c proto/h1_chunked.c proto/h1_scan.c */
/* link: proto/h1_scan_avx2.c proto/h1_scan_sse2.c proto/h1_scan_neon.c proto/h1_scan_scalar.c */
/* link: base/mem.c base/buf.c base/text.c base/slab.c base/wheel.c */
/* link: engine/journal.c engine/fleet.c engine/balance.c engine/permits.c */
/* link: engine/fleet_show.c engine/mailbox.c engine/meter.c engine/series.c engine/rate.c */
/* link: engine/access_log.c engine/access_line.c engine/metrics_text.c engine/metrics_put.c */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "engine/gate.c"

#include "engine_rig.h"
#include <arpa/inet.h>

static mr_fleet *fleet;
static mr_meter *meter;

#define GET(path) "GET " path " HTTP/1.1\r\nHost: h\r\n\r\n"
#define HEAD(path) "HEAD " path " HTTP/1.1\r\nHost: h\r\n\r\n"

typedef struct setting {
    uint32_t burst; /* 0: no limit; else one a second after the burst */
    double per_second;
    const char *field;
    uint32_t lag_limit_ms;
    bool is_alone; /* without a fleet */
} setting;

static void add_route(mr_routes *routes, const char *pattern, const mr_action *action) {
    CHECK(mr_routes_add(routes, (const uint8_t *)pattern, strlen(pattern), MR_ANY_METHOD, action) ==
          MR_OK);
}

static void set_routes(void) {
    static const char head[] = "HTTP/1.1 200 OK\r\n";
    mr_mem *mem = mr_engine_mem(rig.engine);
    mr_routes *routes = mr_routes_create(mem);
    mr_reply *reply = mr_reply_create(mem, 200, 0, (const uint8_t *)head, sizeof head - 1,
                                      (const uint8_t *)"fixed", 5);
    CHECK(routes != NULL && reply != NULL);
    add_route(routes, "/fixed", &(mr_action){.reply = reply, .route = MR_METER_NO_ROUTE});
    add_route(routes, "/metrics", &(mr_action){.flags = MR_ACTION_METRICS});
    add_route(routes, "/health", &(mr_action){.flags = MR_ACTION_HEALTH});
    add_route(routes, "/ready", &(mr_action){.flags = MR_ACTION_READY});
    mr_engine_set_routes(rig.engine, routes, 7, 0); /* all else is handed up */
}

static void open_gate(const char *name, const setting *s) {
    mr_engine_options o = rig_options();
    mr_fleet_options in = {.thread_count = 2, .stuck_ms = 1000};
    mr_rate_options rate = {
        .per_second = s->per_second != 0 ? s->per_second : 1, .burst = s->burst, .entries = 64};
    uint32_t seat;
    rig_reset();
    rig.at_case = name;
    CHECK(mr_fleet_create(&in, &fleet) == MR_OK && mr_fleet_take_seat(fleet, 0, &seat) == MR_OK);
    mr_fleet_up(fleet, seat);
    meter = &fleet->seats[seat].meter;
    o.fleet = s->is_alone ? NULL : fleet;
    o.seat = seat;
    o.lag_limit_ms = s->lag_limit_ms;
    if (s->burst != 0)
        CHECK(mr_fleet_get_rate(fleet, &rate, &o.rate) == MR_OK);
    if (s->field != NULL) {
        o.rate_field = s->field;
        o.rate_field_len = strlen(s->field);
    }
    CHECK(mr_engine_create(&o, &rig.engine) == MR_OK);
    set_routes();
}

static void close_gate(void) {
    rig_close();
    CHECK(mr_meter_get(&meter->exchanges) == 0);
    mr_fleet_release(fleet);
}

static uint64_t refused(void) { return mr_meter_get(&meter->refused_rate); }
static uint64_t overloads(void) { return mr_meter_get(&meter->refused_overload); }

/* The answers since the last look begin with these statuses, one behind the other; 0 ends. */
static bool got_statuses(uint32_t i, const unsigned *want) {
    rig_line *l = &rig.lines[i];
    rig_append(&l->got, "", 1);
    l->got.len--;
    const char *at = (const char *)l->got.data + l->got_off;
    l->got_off = l->got.len;
    for (; *want != 0; want++) {
        unsigned status;
        at = strstr(at, "HTTP/1.1 ");
        if (at == NULL || sscanf(at, "HTTP/1.1 %u", &status) != 1 || status != *want)
            return false;
        at += 9;
    }
    return strstr(at, "HTTP/1.1 ") == NULL;
}
#define STATUSES(...) ((const unsigned[]){__VA_ARGS__, 0})

static const char *last_answer(uint32_t i) {
    rig_line *l = &rig.lines[i];
    rig_append(&l->got, "", 1);
    l->got.len--;
    return (const char *)l->got.data + l->got_off;
}

static void ask(uint32_t i, const char *text) {
    rig_send(i, text);
    rig_turn();
}

static uint32_t connect_from(const char *address) {
    if (strchr(address, ':') != NULL) {
        struct sockaddr_in6 six = {.sin6_family = AF_INET6};
        CHECK(inet_pton(AF_INET6, address, &six.sin6_addr) == 1);
        memcpy(&rig.peer, &six, sizeof six);
    } else {
        struct sockaddr_in four = {.sin_family = AF_INET};
        CHECK(inet_pton(AF_INET, address, &four.sin_addr) == 1);
        memcpy(&rig.peer, &four, sizeof four);
    }
    return rig_connect();
}

/* ---- the rate limit ---- */

static void exactly_the_burst(void) {
    open_gate("exactly the burst", &(setting){.burst = 3});
    uint32_t i = connect_from("192.0.2.1");
    ask(i, GET("/fixed") GET("/fixed") GET("/fixed"));
    CHECK(got_statuses(i, STATUSES(200, 200, 200)) && refused() == 0);
    ask(i, GET("/fixed"));
    CHECK(rig_got(i, "HTTP/1.1 429 Too Many Requests\r\n" RIG_TYPE "Retry-After: 1\r\n"
                     "Content-Length: 17\r\n" RIG_DATE "\r\nToo Many Requests"));
    CHECK(refused() == 1 && mr_meter_get(&meter->routes[MR_METER_ROW_NONE][3]) == 1);
    ask(i, GET("/fixed")); /* the connection goes on, and refusals cost nothing */
    CHECK(got_statuses(i, STATUSES(429)) && refused() == 2);
    rig_pass(999);
    ask(i, GET("/fixed"));
    CHECK(got_statuses(i, STATUSES(429)));
    rig_pass(1); /* as long as it was told to wait */
    ask(i, GET("/fixed") GET("/fixed"));
    CHECK(got_statuses(i, STATUSES(200, 429)));
    uint32_t other = connect_from("192.0.2.2");
    ask(other, GET("/a"));
    CHECK(rig.request_count == 1);             /* each address has its own */
    uint32_t same = connect_from("192.0.2.1"); /* and all connections of one share it */
    ask(same, GET("/fixed"));
    CHECK(got_statuses(same, STATUSES(429)));
    close_gate();
}

static void retry_after_is_rounded_up(void) {
    open_gate("retry after", &(setting){.burst = 1, .per_second = 0.4}); /* one in 2.5 s */
    uint32_t i = connect_from("192.0.2.1");
    ask(i, GET("/fixed") GET("/fixed"));
    CHECK(strstr(last_answer(i), "Retry-After: 3\r\n") != NULL);
    CHECK(got_statuses(i, STATUSES(200, 429)));
    rig_pass(2000);
    ask(i, GET("/fixed"));
    CHECK(strstr(last_answer(i), "Retry-After: 1\r\n") != NULL);
    close_gate();
}

static void networks(void) {
    open_gate("networks", &(setting){.burst = 1});
    uint32_t a = connect_from("2001:db8:1:2::1"), b = connect_from("2001:db8:1:2:ffff::9");
    uint32_t c = connect_from("2001:db8:1:3::1"), d = connect_from("::ffff:192.0.2.1");
    uint32_t e = connect_from("192.0.2.1");
    ask(a, GET("/fixed")), ask(b, GET("/fixed")), ask(c, GET("/fixed"));
    CHECK(got_statuses(a, STATUSES(200)) && got_statuses(b, STATUSES(429))); /* one /64 */
    CHECK(got_statuses(c, STATUSES(200)));
    ask(d, GET("/fixed")), ask(e, GET("/fixed")); /* one address in two notations */
    CHECK(got_statuses(d, STATUSES(200)) && got_statuses(e, STATUSES(429)));
    close_gate();
}

#define KEYED(key) "GET /fixed HTTP/1.1\r\nHost: h\r\nX-Key: " key "\r\n\r\n"

static void by_field(void) {
    open_gate("by field", &(setting){.burst = 1, .field = "x-key"});
    uint32_t i = connect_from("192.0.2.1"), other = connect_from("192.0.2.2");
    ask(i, KEYED("one") KEYED("two") KEYED("one") KEYED("on"));
    CHECK(got_statuses(i, STATUSES(200, 200, 429, 200)));
    ask(other, KEYED("one")); /* the address does not matter */
    CHECK(got_statuses(other, STATUSES(429)));
    ask(i, GET("/fixed")), ask(other, GET("/fixed")); /* who shows none shares one */
    CHECK(got_statuses(i, STATUSES(200)) && got_statuses(other, STATUSES(429)));
    close_gate();
}

/* A request that has to wait for room is counted when it came, not each time it is offered. */
static void counted_once(void) {
    open_gate("counted once", &(setting){.burst = 2});
    uint32_t i = connect_from("192.0.2.1");
    rig.request_room = 0;
    ask(i, GET("/a"));
    for (int n = 0; n < 5; n++)
        rig_turn();
    CHECK(rig.request_count == 0 && refused() == 0 && got_statuses(i, STATUSES(0)));
    rig.request_room = UINT32_MAX;
    rig_turn();
    CHECK(rig.request_count == 1 && rig_answer(0, "x") == MR_OK);
    rig_settle();
    ask(i, GET("/fixed") GET("/fixed")); /* and the next one by itself again */
    CHECK(got_statuses(i, STATUSES(200, 200, 429)) && refused() == 1);
    close_gate();
}

static void with_content(void) {
    open_gate("with content", &(setting){.burst = 1});
    uint32_t i = connect_from("192.0.2.1");
    ask(i, GET("/fixed") "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc");
    CHECK(rig.request_count == 0 && got_statuses(i, STATUSES(200, 429)));
    CHECK(rig_conn_state(i) == MR_CONN_OPEN);
    ask(i,
        "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 500\r\n\r\nabc"); /* the rest is not read */
    CHECK(rig.request_count == 0 && got_statuses(i, STATUSES(429)));
    CHECK(rig_conn_state(i) != MR_CONN_OPEN && rig.note_count == 0);
    close_gate();
}

static void no_limit_without_a_fleet(void) {
    open_gate("alone", &(setting){.burst = 1, .lag_limit_ms = 1, .is_alone = true});
    uint32_t i = connect_from("192.0.2.1");
    mr_engine_set_late(rig.engine, UINT64_MAX);
    ask(i, GET("/fixed") GET("/fixed") GET("/health"));
    CHECK(got_statuses(i, STATUSES(200, 200, 503))); /* there is no fleet to tell of */
    ask(i, GET("/a"));
    CHECK(rig.request_count == 1);
    close_gate();
}

/* ---- overload ---- */

static void overload(void) {
    open_gate("overload", &(setting){.lag_limit_ms = 50});
    uint32_t i = connect_from("192.0.2.1");
    mr_engine_set_late(rig.engine, 50000000); /* as late as may be */
    ask(i, GET("/a"));
    CHECK(rig.request_count == 1 && overloads() == 0 && rig_answer(0, "x") == MR_OK);
    rig_settle();
    CHECK(got_statuses(i, STATUSES(200)));
    mr_engine_set_late(rig.engine, 50000001);
    ask(i, GET("/a"));
    CHECK(rig_got(i, "HTTP/1.1 503 Service Unavailable\r\n" RIG_TYPE "Retry-After: 1\r\n"
                     "Content-Length: 19\r\n" RIG_DATE "\r\nService Unavailable"));
    CHECK(overloads() == 1 && rig.request_count == 1 && mr_meter_get(&meter->by_engine) == 1);
    ask(i, GET("/fixed") GET("/health") GET("/metrics") GET("/ready")); /* nobody waits for it */
    CHECK(got_statuses(i, STATUSES(200, 200, 200, 200)) && overloads() == 1);
    ask(i, "OPTIONS /fixed HTTP/1.1\r\nHost: h\r\n\r\n");
    CHECK(got_statuses(i, STATUSES(200)));
    mr_engine_set_late(rig.engine, 0);
    ask(i, GET("/a"));
    CHECK(rig.request_count == 2 && overloads() == 1);
    close_gate();
    open_gate("no overload", &(setting){.lag_limit_ms = 0});
    i = connect_from("192.0.2.1");
    mr_engine_set_late(rig.engine, UINT64_MAX);
    ask(i, GET("/a"));
    CHECK(rig.request_count == 1 && overloads() == 0);
    close_gate();
}

/* Over both limits: one refusal, by the first. */
static void rate_before_overload(void) {
    open_gate("rate before overload", &(setting){.burst = 1, .lag_limit_ms = 1});
    uint32_t i = connect_from("192.0.2.1");
    mr_engine_set_late(rig.engine, 1000000000);
    ask(i, GET("/a") GET("/a"));
    CHECK(got_statuses(i, STATUSES(503, 429)) && overloads() == 1 && refused() == 1);
    close_gate();
}

/* ---- answers about the fleet ---- */

/* Splits the last answer; returns its content. */
static const char *content_of(uint32_t i, const char *head, size_t *said_len) {
    const char *text = last_answer(i), *length = strstr(text, "Content-Length: ");
    const char *content = strstr(text, "\r\n\r\n");
    CHECK(strncmp(text, head, strlen(head)) == 0 && length != NULL && content != NULL);
    CHECK(strstr(text, "Cache-Control: no-store\r\n") != NULL && strstr(text, "Date: ") != NULL);
    *said_len = (size_t)strtoul(length + 16, NULL, 10);
    return content + 4;
}

static void skip_answers(uint32_t i) { rig.lines[i].got_off = rig.lines[i].got.len; }

static void live_answers(void) {
    size_t len, head_len;
    open_gate("live answers", &(setting){.burst = 1});
    uint32_t i = connect_from("192.0.2.1");
    ask(i, GET("/fixed")); /* the budget is spent: what follows is exempt */
    skip_answers(i);
    ask(i, GET("/metrics"));
    const char *text = content_of(
        i, "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n", &len);
    CHECK(strlen(text) == len && strstr(text, "\nmillrace_") != NULL && text[len - 1] == '\n');
    skip_answers(i);
    ask(i, HEAD("/health"));
    text = content_of(i, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n", &head_len);
    CHECK(text[0] == '\0' && head_len > 0);
    skip_answers(i);
    ask(i, GET("/health"));
    text = content_of(i, "HTTP/1.1 200 OK\r\n", &len);
    CHECK(strlen(text) == len && len == head_len);
    CHECK(strstr(text, "\"status\":\"degraded\"") != NULL); /* thread 1 never came */
    CHECK(strstr(text, "{\"thread\":0,\"state\":\"up\"") != NULL);
    CHECK(strstr(text, "{\"thread\":1,\"state\":\"down\"") != NULL);
    skip_answers(i);
    ask(i, GET("/ready"));
    CHECK(strcmp(content_of(i, "HTTP/1.1 200 OK\r\n", &len), text) == 0 || len == head_len);
    skip_answers(i);
    CHECK(refused() == 0);
    atomic_store(&fleet->is_ending, true);
    ask(i, GET("/ready") GET("/health"));
    CHECK(got_statuses(i, STATUSES(503, 200))); /* alive, but not for more */
    mr_fleet_draining(fleet, 1);
    ask(i, GET("/health") HEAD("/ready"));
    CHECK(got_statuses(i, STATUSES(503, 503))); /* none is up */
    CHECK(mr_meter_get(&meter->by_engine) == 9 && mr_meter_get(&meter->by_handler) == 0);
    close_gate();
}

static void stuck_is_told(void) {
    size_t len;
    open_gate("stuck is told", &(setting){.burst = 0});
    uint32_t i = connect_from("192.0.2.1");
    uint32_t other;
    CHECK(mr_fleet_take_seat(fleet, 1, &other) == MR_OK);
    mr_fleet_up(fleet, other);
    mr_fleet_ping(fleet, rig.now_ms * 1000000);
    CHECK(mr_fleet_beat(fleet, 1, rig.now_ms * 1000000 + 1) == 1);
    rig_pass(999);
    ask(i, GET("/health"));
    CHECK(strstr(content_of(i, "HTTP/1.1 200", &len), "\"status\":\"ok\"") != NULL);
    skip_answers(i);
    rig_pass(1);
    ask(i, GET("/health"));
    const char *text = content_of(i, "HTTP/1.1 200", &len);
    CHECK(strstr(text, "{\"thread\":1,\"state\":\"stuck\"") != NULL);
    CHECK(strstr(text, "\"status\":\"degraded\"") != NULL);
    CHECK(mr_fleet_beat(fleet, other, rig.now_ms * 1000000) == UINT64_C(1000000000));
    skip_answers(i);
    ask(i, GET("/health"));
    CHECK(strstr(content_of(i, "HTTP/1.1 200", &len), "\"status\":\"ok\"") != NULL);
    close_gate();
}

static void live_without_memory(void) {
    open_gate("live without memory", &(setting){.burst = 0});
    uint32_t i = connect_from("192.0.2.1");
    ask(i, GET("/fixed")); /* the note is there, and room for output */
    skip_answers(i);
    for (int64_t allowed = 1; allowed <= 8; allowed++) {
        rig.engine->mem.fail_after = -1;
        if (allowed > 1)
            rig.engine->mem.fail_after = allowed;
        ask(i, GET("/metrics"));
        rig.engine->mem.fail_after = 0;
        if (rig.lines[i].link == NULL)
            i = connect_from("192.0.2.1");
        else
            CHECK(allowed > 1 || got_statuses(i, STATUSES(503)));
        skip_answers(i);
    }
    ask(i, GET("/metrics"));
    CHECK(got_statuses(i, STATUSES(200)));
    close_gate();
}

int main(void) {
    exactly_the_burst();
    retry_after_is_rounded_up();
    networks();
    by_field();
    counted_once();
    with_content();
    no_limit_without_a_fleet();
    overload();
    rate_before_overload();
    live_answers();
    stuck_is_told();
    live_without_memory();
    return 0;
}
