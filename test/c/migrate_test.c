/* migrate_test.c -- connections that leave an engine for another one of the fleet, and are adopted
 * there: two engines, one thread, the transport in memory. */
/* link: engine/h1.c engine/conn.c engine/out.c engine/route.c engine/reply.c net/sock.c */
/* link: engine/answer.c engine/content.c net/unsent.c proto/proxy.c */
/* link: proto/url.c proto/h1_write.c proto/h1_parse.c proto/h1_chunked.c proto/h1_scan.c */
/* link: proto/h1_scan_avx2.c proto/h1_scan_sse2.c proto/h1_scan_neon.c proto/h1_scan_scalar.c */
/* link: base/mem.c base/buf.c base/text.c base/slab.c base/wheel.c */
/* link: engine/journal.c engine/gate.c engine/fleet.c engine/balance.c engine/permits.c */
/* link: engine/fleet_show.c engine/mailbox.c engine/meter.c engine/series.c engine/rate.c */
/* link: engine/access_log.c engine/access_line.c engine/metrics_text.c engine/metrics_put.c */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "engine/engine.c"

#include "engine_rig.h"
#include <arpa/inet.h>

static mr_fleet *fleet;
static struct {
    mr_engine *engine;
    mr_transport *transport;
    mr_seat *seat;
} side[2]; /* 0 is left, 1 is come to */

static void use(int which) {
    rig.engine = side[which].engine;
    rig.transport = side[which].transport;
}

static void open_sides(const char *name, const mr_engine_options *given) {
    mr_fleet_options in = {.thread_count = 2, .stuck_ms = 1000};
    mr_engine_options o = given != NULL ? *given : rig_options();
    rig_reset();
    rig.at_case = name;
    CHECK(mr_fleet_create(&in, &fleet) == MR_OK);
    o.fleet = fleet;
    for (uint32_t i = 0; i < 2; i++) {
        CHECK(mr_fleet_take_seat(fleet, i, &o.seat) == MR_OK);
        CHECK(mr_engine_create(&o, &rig.engine) == MR_OK);
        mr_engine_set_routes(rig.engine, NULL, 7, 0);
        side[i].engine = rig.engine;
        side[i].transport = rig.transport;
        side[i].seat = &fleet->seats[o.seat];
    }
    use(0);
}

static uint32_t counted(void) { return atomic_load(&fleet->connections); }
static uint32_t load(int which) { return atomic_load(&side[which].seat->load); }
static uint32_t open_at(int which) { return mr_engine_connections(side[which].engine); }

static void close_sides(void) {
    mr_engine_destroy(side[0].engine);
    rig.engine = side[1].engine;
    rig_close();
    CHECK(counted() == 0 && load(0) == 0 && load(1) == 0);
    for (int i = 0; i < 2; i++) {
        const mr_meter *m = &side[i].seat->meter;
        CHECK(mr_meter_get(&m->accepted) == mr_meter_get(&m->closed));
        CHECK(mr_meter_get(&m->connections) == 0 && mr_meter_get(&m->exchanges) == 0);
    }
    mr_fleet_release(fleet);
}

/* As a socket comes out of the mail. */
static void adopt(int which, uint32_t line, const mr_peer *peer, bool is_counted) {
    mr_handed_socket s = {.fd = RIG_FD_BASE + (int)line, .is_counted = is_counted, .peer = *peer};
    atomic_fetch_add(&side[which].seat->load, 1);
    use(which);
    mr_engine_adopt(rig.engine, &s);
}

/* All that left since `from` goes on at the other side. */
static void carry_over(uint32_t from) {
    for (uint32_t n = from; n < rig.left_count; n++)
        adopt(1, rig.left[n].line, &rig.left[n].peer, true);
    rig_settle();
}

static bool has_left(uint32_t line) {
    for (uint32_t n = 0; n < rig.left_count; n++)
        if (rig.left[n].line == line)
            return true;
    return false;
}

/* ---- who leaves, and when ---- */

static void idle_ones_leave(void) {
    open_sides("idle ones leave", NULL);
    uint32_t fresh = rig_connect(), served = rig_connect(), busy = rig_connect();
    rig_send(served, RIG_GET);
    rig_send(busy, RIG_GET);
    rig_turn();
    CHECK(rig_answer(0, "one") == MR_OK);
    rig_settle();
    CHECK(rig_got(served, rig_ok("one", false)));
    CHECK(rig.left_count == 0 && counted() == 3 && load(0) == 3);
    mr_engine_migrate(rig.engine);
    CHECK(rig.is_unlistened && rig.left_count == 0); /* not in the middle of a turn */
    rig_turn();
    CHECK(rig.left_count == 2 && has_left(fresh) && has_left(served) && !has_left(busy));
    CHECK(open_at(0) == 1 && load(0) == 1 && counted() == 3); /* they are on their way */
    CHECK(!rig.lines[fresh].has_fin && !rig.lines[served].has_fin);
    carry_over(0);
    CHECK(open_at(1) == 2 && load(1) == 2 && counted() == 3);
    CHECK(mr_meter_get(&side[1].seat->meter.handed_in) == 2);
    use(0);
    rig_turn();
    CHECK(open_at(0) == 1);
    CHECK(rig_answer(1, "two") == MR_OK);
    rig_settle(); /* at the end of the turn of its answer */
    CHECK(rig_got(busy, rig_ok("two", false)) && has_left(busy) && open_at(0) == 0);
    carry_over(2);
    CHECK(open_at(1) == 3 && counted() == 3 && load(0) == 0 && load(1) == 3);
    for (uint32_t i = 0; i < 3; i++)
        rig_send(i, RIG_GET);
    rig_turn();
    for (uint32_t i = 0; i < 3; i++) {
        CHECK(rig.requests[2 + i].handler == 7 && rig_answer(2 + i, "there") == MR_OK);
        rig_settle();
        CHECK(rig_got(i, rig_ok("there", false))); /* nobody noticed */
    }
    close_sides();
}

static void what_came_before_goes_along(void) {
    open_sides("what came before goes along", NULL);
    uint32_t i = rig_connect();
    rig_turn();
    mr_engine_migrate(rig.engine);
    mr_engine_end(rig.engine);
    CHECK(has_left(i));
    rig_send(i, RIG_GET); /* while it is nobody's */
    carry_over(0);
    rig_turn();
    CHECK(rig.request_count == 1 && rig_answer(0, "x") == MR_OK);
    rig_settle();
    CHECK(rig_got(i, rig_ok("x", false)));
    close_sides();
}

static void half_a_head_stays(void) {
    open_sides("half a head stays", NULL);
    uint32_t i = rig_connect();
    rig_send(i, "GET /a HTTP/1.1\r\nHo");
    rig_turn();
    mr_engine_migrate(rig.engine);
    rig_turn(), rig_turn();
    CHECK(rig.left_count == 0 && open_at(0) == 1);
    rig_send(i, "st: h\r\n\r\n");
    rig_turn();
    CHECK(rig.request_count == 1 && rig.left_count == 0);
    CHECK(rig_answer(0, "x") == MR_OK);
    rig_settle();
    CHECK(rig_got(i, rig_ok("x", false)) && has_left(i)); /* no Connection: close */
    carry_over(0);
    close_sides();
}

static void pipelined_requests_stay(void) {
    open_sides("pipelined requests stay", NULL);
    uint32_t i = rig_connect();
    rig_send(i, RIG_GET RIG_GET "GET /b HT");
    rig_turn();
    mr_engine_migrate(rig.engine);
    CHECK(rig.request_count == 2 && rig_answer(0, "0") == MR_OK);
    rig_settle();
    CHECK(rig.left_count == 0 && rig_answer(1, "1") == MR_OK);
    rig_settle();
    CHECK(rig.left_count == 0); /* the beginning of the third is here */
    rig_send(i, "TP/1.1\r\nHost: h\r\n\r\n");
    rig_turn();
    CHECK(rig.request_count == 3 && rig.left_count == 0 && rig_answer(2, "2") == MR_OK);
    rig_settle();
    CHECK(has_left(i) && rig.left_count == 1 && counted() == 1);
    carry_over(0);
    close_sides();
}

static void who_waits_for_room_stays(void) {
    open_sides("who waits for room stays", NULL);
    uint32_t i = rig_connect();
    rig.request_room = 0;
    rig_send(i, RIG_GET);
    rig_turn();
    mr_engine_migrate(rig.engine);
    rig_turn();
    CHECK(rig.left_count == 0 && rig.request_count == 0);
    rig.request_room = 1;
    rig_turn();
    CHECK(rig.request_count == 1 && rig_answer(0, "x") == MR_OK);
    rig_settle();
    CHECK(has_left(i));
    carry_over(0);
    close_sides();
}

static void content_stays(void) {
    open_sides("content stays", NULL);
    uint32_t i = rig_connect();
    rig_send(i, "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 6\r\n\r\nabc");
    rig_turn();
    mr_engine_migrate(rig.engine);
    rig_turn();
    CHECK(rig.left_count == 0 && rig.requests[0].body_len == 3);
    rig_send(i, "def");
    rig_turn();
    CHECK(rig.left_count == 0 && rig.requests[0].is_complete && rig_answer(0, "x") == MR_OK);
    rig_settle();
    CHECK(has_left(i));
    carry_over(0);
    close_sides();
}

static void unsent_octets_stay(void) {
    open_sides("unsent octets stay", NULL);
    uint32_t i = rig_connect();
    rig_send(i, RIG_GET);
    rig_turn();
    mr_engine_migrate(rig.engine);
    rig.lines[i].room = 10;
    CHECK(rig_answer(0, "slow reader") == MR_OK);
    rig_settle();
    CHECK(rig.left_count == 0 && open_at(0) == 1);
    rig.lines[i].room = SIZE_MAX;
    rig_turn();
    CHECK(rig_got(i, rig_ok("slow reader", false)) && has_left(i));
    carry_over(0);
    close_sides();
}

static void who_has_ended_stays(void) {
    open_sides("who has ended stays", NULL);
    uint32_t i = rig_connect();
    rig_send(i, RIG_GET);
    rig_end_input(i);
    rig_turn();
    mr_engine_migrate(rig.engine);
    rig_turn();
    CHECK(rig.left_count == 0 && rig_answer(0, "x") == MR_OK);
    rig_settle();
    rig_turn();
    CHECK(rig.left_count == 0 && rig.lines[i].has_fin && counted() == 0);
    close_sides();
}

static void proxied_ones(void) {
    mr_engine_options o = rig_options();
    mr_range any = {.family = 0};
    o.proxy_sources = &any;
    o.proxy_source_count = 1;
    open_sides("proxied ones", &o);
    uint32_t i = rig_connect();
    rig_turn();
    mr_engine_migrate(rig.engine);
    rig_turn();
    CHECK(rig.left_count == 0); /* whose it is, is not known yet */
    rig_send(i, "PROXY TCP4 192.0.2.9 198.51.100.1 4321 80\r\n");
    rig_turn();
    CHECK(has_left(i) && rig.left[0].peer.family == 4 && rig.left[0].peer.port == 4321);
    CHECK(rig.left[0].peer.address[3] == 9);
    carry_over(0);
    rig_send(i, RIG_GET); /* no second header is waited for */
    rig_turn();
    CHECK(rig.request_count == 1);
    close_sides();
}

/* ---- when it cannot go ---- */

static void refused_hand_over(void) {
    open_sides("refused hand-over", NULL);
    uint32_t i = rig_connect();
    rig_turn();
    CHECK(counted() == 1);
    rig.takes_leavers = false;
    mr_engine_migrate(rig.engine);
    rig_turn();
    CHECK(rig.lines[i].link == NULL && rig.left_count == 0 && open_at(0) == 0);
    CHECK(counted() == 0 && load(0) == 0);
    close_sides();
}

static int given_fd;

static int detach_given(mr_link *link) {
    (void)sim_detach(link);
    return given_fd;
}

/* A true descriptor in the place of a line's, to see it close. */
static void refused_hand_over_closes(void) {
    mr_transport_ops ops = sim_transport;
    mr_engine_options o = rig_options();
    int pair[2];
    char octet;
    ops.detach = detach_given;
    o.transport = &ops;
    open_sides("refused hand-over closes", &o);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    given_fd = pair[0];
    (void)rig_connect();
    rig.takes_leavers = false;
    mr_engine_migrate(rig.engine);
    rig_turn();
    CHECK(recv(pair[1], &octet, 1, MSG_DONTWAIT) == 0 && counted() == 0);
    close(pair[1]);
    close_sides();
}

static void transport_that_keeps_it(void) {
    open_sides("transport that keeps it", NULL);
    uint32_t i = rig_connect();
    rig_turn();
    rig.fails_detach = true;
    mr_engine_migrate(rig.engine);
    rig_turn();
    CHECK(rig.left_count == 0 && rig.lines[i].has_fin); /* it ends as an idle one does */
    CHECK(rig_conn_state(i) == MR_CONN_LINGERING && counted() == 0);
    rig_pass(2000);
    CHECK(rig.lines[i].link == NULL);
    close_sides();
}

static void migrating_and_draining(void) {
    open_sides("migrating and draining", NULL);
    uint32_t busy = rig_connect();
    rig_send(busy, RIG_GET);
    rig_turn();
    mr_engine_migrate(rig.engine);
    rig.is_unlistened = false;
    mr_engine_migrate(rig.engine);
    CHECK(!rig.is_unlistened);        /* once */
    mr_engine_drain(rig.engine, 100); /* it lasted too long */
    CHECK(rig.is_unlistened && rig_answer(0, "x") == MR_OK);
    rig_settle();
    CHECK(rig_got(busy, rig_ok("x", true)) && rig.left_count == 0);
    use(1);
    uint32_t idle = rig_connect();
    mr_engine_drain(rig.engine, 100);
    mr_engine_migrate(rig.engine); /* no way back */
    rig_turn();
    CHECK(rig.left_count == 0 && rig.lines[idle].link != NULL);
    rig_pass(100);
    CHECK(rig.lines[idle].has_fin && rig.left_count == 0);
    close_sides();
}

/* ---- adopting ---- */

static const mr_peer anybody = {.family = 4, .port = 99, .address = {192, 0, 2, 1}};

static uint32_t free_line(void) {
    rig.lines[rig.line_count] = (rig_line){.room = SIZE_MAX};
    return rig.line_count++;
}

static void the_limit_holds(void) {
    mr_engine_options o = rig_options();
    o.limits.connections = 2;
    open_sides("the limit holds", &o);
    uint32_t first = rig_connect();
    adopt(1, free_line(), &anybody, false);
    CHECK(counted() == 2 && load(0) == 1 && load(1) == 1);
    uint32_t over = free_line();
    adopt(1, over, &anybody, false); /* the fleet is full, whoever has the connections */
    rig_settle();
    CHECK(rig_got(over, rig_plain("503 Service Unavailable", true)) && counted() == 2);
    CHECK(mr_meter_get(&side[1].seat->meter.refused_limit) == 1);
    rig_end_input(over);
    rig_turn();
    use(0);
    mr_engine_migrate(rig.engine);
    rig_turn();
    CHECK(has_left(first) && counted() == 2); /* its place is kept for it */
    uint32_t again = free_line();
    adopt(1, again, &anybody, false);
    rig_settle();
    CHECK(rig_got(again, rig_plain("503 Service Unavailable", true)));
    carry_over(0);
    CHECK(rig.lines[first].got.len == 0 && counted() == 2 && open_at(1) == 2);
    close_sides();
}

static void deadlines(void) {
    mr_engine_options o = rig_options();
    o.timeouts.header_ms = 1000;
    o.timeouts.keep_alive_ms = 5000;
    open_sides("deadlines", &o);
    uint32_t fresh = free_line(), idle = free_line();
    adopt(1, fresh, &anybody, false);
    adopt(1, idle, &anybody, true);
    CHECK(mr_fleet_admit(fleet, 0)); /* as whoever served it had counted it */
    rig_settle();
    rig_pass(1000);
    CHECK(rig.lines[fresh].has_fin && !rig.lines[idle].has_fin);
    rig_pass(3999);
    CHECK(!rig.lines[idle].has_fin);
    rig_pass(1);
    CHECK(rig.lines[idle].has_fin);
    close_sides();
}

static void without_memory(void) {
    for (int is_counted = 0; is_counted < 2; is_counted++) {
        open_sides("without memory", NULL);
        side[1].engine->mem.fail_after = -1; /* no slot */
        CHECK(!is_counted || mr_fleet_admit(fleet, 0));
        adopt(1, free_line(), &anybody, is_counted != 0);
        side[1].engine->mem.fail_after = 0;
        CHECK(counted() == 0 && load(1) == 0 && open_at(1) == 0);
        rig.fails_attach = true;
        CHECK(!is_counted || mr_fleet_admit(fleet, 0));
        adopt(1, free_line(), &anybody, is_counted != 0);
        rig.fails_attach = false;
        CHECK(counted() == 0 && load(1) == 0 && open_at(1) == 0);
        CHECK(side[1].engine->stats.accept_failures == 2);
        close_sides();
    }
}

/* To and fro: no count drifts. */
static void many_times(void) {
    open_sides("many times", NULL);
    for (uint32_t n = 0; n < 8; n++)
        (void)rig_connect();
    for (uint32_t round = 0; round < 50; round++) {
        int from = (int)(round % 2);
        use(from);
        rig.engine->is_migrating = true;
        rig.left_count = 0;
        rig_turn();
        rig.engine->is_migrating = false;
        CHECK(rig.left_count == 8 && counted() == 8 && load(from) == 0 && open_at(from) == 0);
        for (uint32_t n = 0; n < 8; n++)
            adopt(1 - from, rig.left[n].line, &rig.left[n].peer, true);
        CHECK(counted() == 8 && load(1 - from) == 8 && open_at(1 - from) == 8);
    }
    close_sides();
}

int main(void) {
    idle_ones_leave();
    what_came_before_goes_along();
    half_a_head_stays();
    pipelined_requests_stay();
    who_waits_for_room_stays();
    content_stays();
    unsent_octets_stay();
    who_has_ended_stays();
    proxied_ones();
    refused_hand_over();
    refused_hand_over_closes();
    transport_that_keeps_it();
    migrating_and_draining();
    the_limit_holds();
    deadlines();
    without_memory();
    many_times();
    return 0;
}
