/* conn.c -- see conn.h for the states. Nothing is freed inside a callback: mr_conn_kill() closes and
 * marks, the engine releases at the end of the turn. */
#include "engine/conn.h"
#include "engine/core.h"
#include "engine/fleet.h"
#include "engine/journal.h"
#include "proto/proxy.h"
#include <string.h>
#include <unistd.h>

/* ---- counting ---- */

/* Whether it is within the limit, which is the whole fleet's. */
static bool count(mr_conn *c, bool is_counted)
{
    mr_engine *e = c->engine;
    e->live_count++;
    if (e->seat == NULL)
        return e->limits.connections == 0 || e->live_count <= e->limits.connections;
    mr_meter_add(&e->seat->meter.accepted, 1);
    mr_meter_set(&e->seat->meter.connections, e->live_count);
    atomic_fetch_add_explicit(&e->seat->load, 1, memory_order_relaxed);
    if (e->seat == &e->fleet->seats[MR_SUPERVISOR])
        return true; /* who looks at the fleet takes no client's place */
    if (!is_counted && !mr_fleet_admit(e->fleet, e->limits.connections))
        return false;
    c->flags |= MR_CONN_IS_COUNTED;
    return true;
}

void mr_conn_uncount(mr_conn *c)
{
    mr_engine *e = c->engine;
    e->live_count--;
    if (e->seat == NULL)
        return;
    mr_meter_add(&e->seat->meter.closed, 1);
    mr_meter_set(&e->seat->meter.connections, e->live_count);
    atomic_fetch_sub_explicit(&e->seat->load, 1, memory_order_relaxed);
    if (c->flags & MR_CONN_IS_COUNTED)
        mr_fleet_dismiss(e->fleet);
    c->flags &= (uint16_t)~MR_CONN_IS_COUNTED;
}

/* ---- ending ---- */

void mr_conn_drop_exchanges(mr_conn *c)
{
    if (c->incoming != NULL && c->incoming->seq - c->out_seq < mr_conn_in_flight(c))
        mr_h1_lose_content(c, MR_NOTE_CONTENT_ABORTED);
    for (uint32_t seq = c->out_seq; c->is_watched != 0 && seq != c->in_seq; seq++) {
        if (c->is_watched & mr_conn_bit(seq))
            c->engine->handlers->on_note(c->engine->owner, c->id, seq, MR_NOTE_LOST);
        c->is_watched &= ~mr_conn_bit(seq);
    }
    c->in_seq = c->out_seq;
    mr_journal_drop(c);
}

void mr_conn_tell_drained(mr_conn *c)
{
    uint64_t bit = mr_conn_bit(c->out_seq);
    if (!(c->is_thirsty & bit) || mr_conn_in_flight(c) == 0)
        return;
    c->is_thirsty &= ~bit;
    c->engine->handlers->on_note(c->engine->owner, c->id, c->out_seq, MR_NOTE_DRAINED);
}

/* The exchanges behind out_seq whose watchers are still to be told. */
static void tell_leaving(mr_conn *c, mr_note note)
{
    for (uint32_t back = MR_PIPELINE_MAX; c->is_leaving != 0 && back > 0; back--) {
        uint64_t bit = mr_conn_bit(c->out_seq - back);
        if (!(c->is_leaving & bit))
            continue;
        c->is_leaving &= ~bit;
        c->engine->handlers->on_note(c->engine->owner, c->id, c->out_seq - back, note);
    }
}

void mr_conn_tell_left(mr_conn *c) { tell_leaving(c, MR_NOTE_ANSWERED); }

void mr_conn_kill(mr_conn *c)
{
    mr_engine *e = c->engine;
    if (c->state == MR_CONN_DEAD)
        return;
    if (c->state != MR_CONN_LINGERING)
        mr_conn_uncount(c);
    c->state = MR_CONN_DEAD;
    e->net->close(&c->link);
    mr_wheel_clear(&e->wheel, &c->timer);
    tell_leaving(c, MR_NOTE_LOST);
    mr_conn_drop_exchanges(c);
    c->next_dead = e->dead;
    e->dead = c;
}

void mr_conn_finish(mr_conn *c)
{
    if (c->state != MR_CONN_OPEN)
        return;
    c->state = MR_CONN_CLOSING;
    if (mr_conn_in_flight(c) == 0)
        mr_out_mark(c->engine, c);
}

static void free_held(mr_conn *c)
{
    while (c->held != NULL) {
        mr_held *held = c->held;
        c->held = held->next;
        mr_held_free(c, held);
    }
}

void mr_held_free(mr_conn *c, mr_held *held)
{
    c->held_bytes -= held->counted;
    mr_lease_return(held->lease);
    mr_mem_free(&c->engine->mem, held, sizeof *held + held->len);
}

void mr_conn_free_input(mr_conn *c)
{
    if (c->input == NULL)
        return;
    mr_buf_dispose(&c->engine->mem, c->input);
    mr_mem_free(&c->engine->mem, c->input, sizeof *c->input);
    c->input = NULL;
    c->input_seen = 0;
}

void mr_incoming_free_head(mr_conn *c)
{
    mr_incoming *in = c->incoming;
    if (in->bytes != NULL)
        mr_mem_free(&c->engine->mem, in->bytes, in->head.head_len);
    if (in->fields != NULL)
        mr_mem_free(&c->engine->mem, in->fields, in->head.field_count * sizeof *in->fields);
    in->bytes = NULL;
    in->fields = NULL;
}

void mr_conn_free_incoming(mr_conn *c)
{
    mr_incoming *in = c->incoming;
    mr_mem *mem = &c->engine->mem;
    if (in == NULL)
        return;
    mr_incoming_free_head(c);
    mr_buf_dispose(mem, &in->trailers);
    mr_mem_free(mem, in, sizeof *in);
    c->incoming = NULL;
}

void mr_conn_release(mr_conn *c)
{
    mr_conn_free_input(c);
    mr_conn_free_incoming(c);
    free_held(c);
    mr_slab_free(c->engine->conns, c->id);
}

/* ---- input ---- */

mr_rc mr_conn_keep_input(mr_conn *c, const uint8_t *bytes, size_t len)
{
    mr_mem *mem = &c->engine->mem;
    if (c->input == NULL) {
        c->input = mr_mem_zalloc(mem, sizeof *c->input);
        if (c->input == NULL)
            return MR_NOMEM;
    }
    return mr_buf_append(mem, c->input, bytes, len);
}

/* ---- time ---- */

void mr_conn_set_deadline(mr_conn *c, uint32_t ms)
{
    mr_engine *e = c->engine;
    if (ms == 0) {
        c->deadline_ms = UINT64_MAX;
        return;
    }
    c->deadline_ms = e->clock.now_ms + ms;
    /* Lazy: a timer that fires before the deadline is set again then. */
    if (!mr_timer_is_set(&c->timer) || c->timer.expiry_ms > c->deadline_ms)
        mr_wheel_set(&e->wheel, &c->timer, c->deadline_ms);
}

static void set_deadline_at(mr_conn *c, uint64_t at_ms)
{
    c->deadline_ms = at_ms;
    if (at_ms != UINT64_MAX && (!mr_timer_is_set(&c->timer) || c->timer.expiry_ms > at_ms))
        mr_wheel_set(&c->engine->wheel, &c->timer, at_ms);
}

static bool is_taking_content(const mr_conn *c)
{
    return c->incoming != NULL && !c->incoming->is_complete && c->state == MR_CONN_OPEN &&
           !(c->flags & MR_CONN_IS_WAITING) && !mr_h1_holds_content_back(c);
}

/* More that is queued is no progress. */
static void touch_sending(mr_conn *c)
{
    if ((c->flags & MR_CONN_IS_SENDING) && c->sent_mark == c->link.sent_mark)
        return;
    c->flags |= MR_CONN_IS_SENDING;
    c->sent_mark = c->link.sent_mark;
    mr_conn_set_deadline(c, c->engine->timeouts.send_ms);
}

void mr_conn_touch(mr_conn *c)
{
    const mr_timeouts *t = &c->engine->timeouts;
    if (c->link.unsent != NULL) {
        touch_sending(c);
        return;
    }
    c->flags &= (uint16_t)~MR_CONN_IS_SENDING;
    if (c->state == MR_CONN_LINGERING) {
        mr_conn_set_deadline(c, t->linger_ms > 0 ? t->linger_ms : 1); /* 0 is not "never" here */
    } else if (is_taking_content(c)) {
        set_deadline_at(c, mr_h1_content_deadline_ms(c));
    } else if (mr_conn_in_flight(c) > 0 || (c->flags & MR_CONN_IS_WAITING)) {
        c->deadline_ms = UINT64_MAX; /* our turn to act */
    } else if (c->input != NULL) {
        mr_conn_set_deadline(c, t->header_ms);
    } else {
        mr_conn_set_deadline(c, c->request_count == 0 ? t->header_ms : t->keep_alive_ms);
    }
}

void mr_conn_on_timer(mr_conn *c)
{
    mr_engine *e = c->engine;
    if (e->clock.now_ms < c->deadline_ms) {
        if (c->deadline_ms != UINT64_MAX)
            mr_wheel_set(&e->wheel, &c->timer, c->deadline_ms);
        return;
    }
    if (c->link.unsent != NULL && c->link.sent_mark != c->sent_mark)
        mr_conn_touch(c); /* slow, but moving */
    else if (c->link.unsent != NULL || c->state == MR_CONN_LINGERING)
        mr_conn_kill(c);
    else if (is_taking_content(c))
        mr_h1_check_content_time(c);
    else if (mr_conn_in_flight(c) > 0 || (c->flags & MR_CONN_IS_WAITING))
        c->deadline_ms = UINT64_MAX; /* our turn to act; the answer sets the next deadline */
    else if (c->flags & MR_CONN_AWAITS_PROXY)
        mr_conn_kill(c);
    else if (c->input == NULL && e->net->has_input(&c->link))
        mr_conn_set_deadline(c, 1); /* it came in time: read it first */
    else if (c->input == NULL)
        mr_conn_finish(c);
    else {
        mr_h1_refuse(c, 408);
        mr_conn_free_input(c);
    }
}

/* ---- events from the transport ---- */

static void refuse_connection(mr_engine *e, mr_conn *c)
{
    e->stats.refused++;
    if (e->seat != NULL)
        mr_meter_add(&e->seat->meter.refused_limit, 1);
    /* A crowd beyond the crowd is not even told: every refusal costs a descriptor for as long as
     * it lingers. */
    if (mr_slab_count(e->conns) - 1 >= (uint64_t)e->limits.connections + MR_REFUSALS_MAX)
        mr_conn_kill(c);
    else
        mr_h1_refuse(c, 503);
}

/* Takes fd. NULL: it is closed. */
static mr_conn *open_conn(mr_engine *e, int fd, const mr_peer *peer)
{
    uint64_t id;
    mr_conn *c = mr_slab_alloc(e->conns, &id);
    if (c == NULL) {
        e->stats.accept_failures++;
        close(fd);
        return NULL;
    }
    *c = (mr_conn){.engine = e, .id = id, .state = MR_CONN_OPEN, .deadline_ms = UINT64_MAX,
                   .peer = *peer, .link = {.fd = -1}};
    if (e->net->attach(e->transport, &c->link, fd) != MR_OK) {
        e->stats.accept_failures++;
        mr_slab_free(e->conns, id);
        return NULL;
    }
    e->stats.accepted++;
    return c;
}

static mr_conn *begin_conn(mr_engine *e, int fd, const mr_peer *peer)
{
    mr_conn *c = open_conn(e, fd, peer);
    if (c == NULL)
        return NULL;
    bool is_admitted = count(c, false);
    e->accept_pause_ms = 0;
    if (mr_peer_is_in(&c->peer, e->proxy_sources, e->proxy_source_count))
        c->flags |= MR_CONN_AWAITS_PROXY;
    mr_conn_touch(c);
    if (!is_admitted)
        refuse_connection(e, c);
    return c;
}

static void on_accept(void *owner, int fd, const struct sockaddr *from, socklen_t len)
{
    mr_peer peer;
    mr_peer_from(from, len, &peer);
    (void)begin_conn(owner, fd, &peer);
}

mr_conn *mr_conn_adopt(mr_engine *e, int fd, const mr_peer *peer, bool is_counted)
{
    mr_conn *c;
    if (!is_counted)
        return begin_conn(e, fd, peer);
    if ((c = open_conn(e, fd, peer)) == NULL) {
        mr_fleet_dismiss(e->fleet);
        return NULL;
    }
    (void)count(c, true);
    c->request_count = 1; /* it has had one elsewhere: it is idle, not new */
    mr_conn_touch(c);
    return c;
}

static void on_accept_problem(void *owner, mr_accept_problem problem)
{
    mr_engine *e = owner;
    e->stats.accept_failures++;
    if (problem != MR_ACCEPT_NO_DESCRIPTORS || mr_timer_is_set(&e->accept_timer))
        return;
    uint32_t pause = e->accept_pause_ms * 2;
    if (pause < MR_ACCEPT_PAUSE_MIN_MS)
        pause = MR_ACCEPT_PAUSE_MIN_MS;
    e->accept_pause_ms = pause > MR_ACCEPT_PAUSE_MAX_MS ? MR_ACCEPT_PAUSE_MAX_MS : pause;
    e->net->pause_accept(e->transport, true);
    mr_wheel_set(&e->wheel, &e->accept_timer, e->clock.now_ms + e->accept_pause_ms);
}

/* A peer that still sends may still be reading: closing now would reset it. */
static void linger_on(mr_conn *c)
{
    const mr_engine *e = c->engine;
    uint64_t total_ms = (uint64_t)e->timeouts.linger_ms * MR_LINGER_PERIODS;
    if (e->clock.now_ms - c->waiting_since_ms < total_ms)
        mr_conn_touch(c);
}

/* ---- the PROXY header ---- */

static void use_proxy_header(mr_conn *c, const mr_proxy *header)
{
    c->flags &= (uint16_t)~MR_CONN_AWAITS_PROXY;
    if (!header->has_source)
        return;
    c->peer = (mr_peer){.family = header->family, .port = header->port};
    memcpy(c->peer.address, header->address, sizeof c->peer.address);
}

/* It came in pieces: what is kept behind it is the first request's. */
static void receive_behind_kept(mr_conn *c, size_t header_len)
{
    mr_buf_consume(c->input, header_len);
    if (c->input->len == 0)
        mr_conn_free_input(c);
    else
        mr_h1_receive(c, NULL, 0);
}

/* The deadline is the head's, set at accept: the header has no time of its own. */
static void receive_proxy(mr_conn *c, const uint8_t *bytes, size_t len)
{
    mr_proxy header;
    bool is_kept = c->input != NULL;
    if (is_kept && mr_conn_keep_input(c, bytes, len) != MR_OK) {
        mr_conn_kill(c);
        return;
    }
    const uint8_t *all = is_kept ? c->input->data : bytes;
    size_t all_len = is_kept ? c->input->len : len;
    mr_rc rc = mr_proxy_parse(all, all_len, &header);
    if (rc == MR_AGAIN && (is_kept || mr_conn_keep_input(c, bytes, len) == MR_OK))
        return;
    if (rc != MR_OK) {
        mr_conn_kill(c); /* who may speak for others and does not is told nothing */
        return;
    }
    use_proxy_header(c, &header);
    if (is_kept)
        receive_behind_kept(c, header.len);
    else if (len > header.len)
        mr_h1_receive(c, bytes + header.len, len - header.len);
}

/* ---- data ---- */

static void on_data(void *owner, mr_link *link, const uint8_t *bytes, size_t len)
{
    mr_conn *c = (mr_conn *)link;
    (void)owner;
    if (c->engine->seat != NULL)
        mr_meter_add(&c->engine->seat->meter.received_bytes, len);
    if (c->state == MR_CONN_OPEN && (c->flags & MR_CONN_AWAITS_PROXY))
        receive_proxy(c, bytes, len);
    else if (c->state == MR_CONN_OPEN)
        mr_h1_receive(c, bytes, len);
    else if (c->state == MR_CONN_CLOSING)
        c->engine->net->want_data(link, false); /* nobody will look at it: let the peer wait */
    else
        linger_on(c);
}

static void tell_peer_ended(mr_conn *c)
{
    const mr_engine *e = c->engine;
    for (uint32_t seq = c->out_seq; c->is_watched != 0 && seq != c->in_seq; seq++)
        if (c->is_watched & mr_conn_bit(seq))
            e->handlers->on_note(e->owner, c->id, seq, MR_NOTE_PEER_ENDED);
}

static void on_eof(void *owner, mr_link *link)
{
    mr_conn *c = (mr_conn *)link;
    (void)owner;
    c->flags |= MR_CONN_SAW_EOF;
    tell_peer_ended(c);
    if (c->state == MR_CONN_LINGERING) {
        if (link->unsent == NULL)
            mr_conn_kill(c);
    } else if (!(c->flags & MR_CONN_IS_WAITING)) {
        mr_h1_end_of_input(c);
    }
}

static void on_drained(void *owner, mr_link *link)
{
    mr_conn *c = (mr_conn *)link;
    (void)owner;
    mr_conn_tell_left(c);
    if (c->state == MR_CONN_LINGERING && (c->flags & MR_CONN_SAW_EOF)) {
        mr_conn_kill(c);
        return;
    }
    mr_conn_touch(c);
    mr_conn_tell_drained(c);
    if (c->flags & MR_CONN_IS_WAITING)
        mr_engine_list(c);
}

static void on_gone(void *owner, mr_link *link)
{
    (void)owner;
    mr_conn_kill((mr_conn *)link);
}

const mr_link_events mr_conn_events = {
    .on_accept = on_accept,
    .on_accept_problem = on_accept_problem,
    .on_data = on_data,
    .on_eof = on_eof,
    .on_drained = on_drained,
    .on_gone = on_gone,
};
