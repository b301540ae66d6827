/* engine_rig.h -- an engine on a bench: a transport in memory, a clock that the test moves,
 * handlers that note what they are given. Used by the tests of the engine layer and by the fuzzer.
 * Owns:    one static rig, the engine in it, and both ends of every connection.
 * Thread:  one.
 * A test links everything but base/clock.c, whose update is replaced here. */
#ifndef MR_TEST_ENGINE_RIG_H
#define MR_TEST_ENGINE_RIG_H

#include "engine/core.h"
#include "net/unsent.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(claim)                                                                               \
    do {                                                                                           \
        if (!(claim)) {                                                                            \
            fprintf(stderr, "%s:%d: %s (in %s)\n", __FILE__, __LINE__, #claim, rig.at_case);       \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

#define RIG_DATE "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
#define RIG_TYPE "Content-Type: text/plain; charset=utf-8\r\n"
#define RIG_CLOSE "Connection: close\r\n"
#define RIG_START_MS 1000000u
#define RIG_UNIX_MS INT64_C(784111777000)
#define RIG_LINES 1024
#define RIG_REQUESTS 4096
#define RIG_FD_BASE (1 << 24) /* no descriptor of this process: close() on it does nothing */
#define RIG_UNUSED __attribute__((unused))

typedef struct rig_bytes { /* growable, of the test's own memory */
    uint8_t *data;
    size_t len, cap;
} rig_bytes;

/* One connection as the network and its client see it. */
typedef struct rig_line {
    mr_link *link;   /* NULL once the engine has closed it */
    rig_bytes sent;  /* by the client; [off, len) is not delivered yet */
    size_t sent_off; /* of these, how many the engine was given */
    rig_bytes got;   /* by the client */
    size_t got_off;  /* of these, how many the test has looked at */
    size_t room;     /* octets that the kernel takes now; SIZE_MAX: any */
    bool is_ended;   /* the client has finished sending */
    bool is_eof_told;
    bool is_broken;    /* sending fails: the peer is gone */
    bool is_fin_ahead; /* FIN follows the queue */
    bool has_fin;      /* the client saw our FIN */
    bool wants_data;
    bool has_unread; /* octets wait that no on_data has brought */
    uint32_t send_calls;
} rig_line;

/* What a handler was given, copied. */
typedef struct rig_request {
    uint64_t connection;
    uint32_t seq, handler;
    uint8_t method, minor;
    char path[64];
    uint8_t *body; /* NULL without content; what came of it, when it is streamed */
    size_t body_len;
    bool is_streamed;
    bool is_complete; /* all of the content is here */
    bool is_asked;    /* by rig.asks_at_once */
    uint32_t pieces;  /* calls of on_content */
    rig_bytes trailers;
    bool is_answered; /* the test's own note */
} rig_request;

/* A lease on octets of the test's own, freed when it comes back: who reads on shows. */
typedef struct rig_lease {
    mr_lease lease; /* first */
    uint8_t *bytes;
    size_t len;
    bool is_void;     /* the octets were given away */
    bool is_returned; /* on_return came */
    uint32_t asked;   /* calls of is_valid */
} rig_lease;

struct mr_transport {
    mr_mem *mem;
    const mr_link_events *events;
    void *owner;
};

typedef struct rig_state {
    const char *at_case;
    mr_engine *engine;
    mr_transport *transport;
    uint64_t now_ms;
    rig_line lines[RIG_LINES];
    uint32_t line_count;
    size_t piece; /* most octets in one on_data */
    bool fails_attach, fails_create, is_accept_paused, is_unlistened;
    uint32_t queued_accepts; /* connections that unlisten() finds in the queue */
    rig_request requests[RIG_REQUESTS];
    uint32_t request_count;
    uint32_t request_room; /* requests that on_request still takes */
    mr_rc request_rc;      /* what it says to those it has room for */
    uint32_t content_room; /* pieces that on_content still takes */
    mr_rc content_rc;      /* what it says to those it has room for */
    bool asks_at_once; /* rig_settle() asks for all content of each request, as most handlers do */
    struct {
        uint64_t connection;
        uint32_t seq;
        bool is_answered;
    } done[RIG_REQUESTS]; /* MR_NOTE_LOST and _ANSWERED */
    uint32_t done_count;
    struct {
        uint64_t connection;
        uint32_t seq;
        mr_note note;
    } notes[RIG_REQUESTS]; /* all others */
    uint32_t note_count;
    struct sockaddr_storage peer; /* of whoever connects; zeroed: a unix socket */
    bool takes_leavers, fails_detach;
    struct {
        uint32_t line;
        mr_peer peer;
    } left[RIG_LINES]; /* what on_leave took */
    uint32_t left_count;
} rig_state;

static rig_state rig = {.at_case = "start"};

void mr_clock_update(mr_clock *clock) {
    clock->now_ms = rig.now_ms;
    clock->now_ns = rig.now_ms * 1000000;
    clock->unix_ms = RIG_UNIX_MS + (int64_t)(rig.now_ms - RIG_START_MS);
    memcpy(clock->date_field, RIG_DATE, MR_DATE_FIELD_BYTES);
}

/* For the access log: it is always the same second. */
void mr_clock_render_date(int64_t unix_s, char out[MR_DATE_FIELD_BYTES]) {
    (void)unix_s;
    memcpy(out, RIG_DATE, MR_DATE_FIELD_BYTES);
}

static void rig_append(rig_bytes *to, const void *bytes, size_t len) {
    if (to->cap - to->len < len) {
        size_t cap = (to->cap + len) * 2;
        uint8_t *data = realloc(to->data, cap);
        CHECK(data != NULL);
        to->data = data;
        to->cap = cap;
    }
    if (len != 0)
        memcpy(to->data + to->len, bytes, len);
    to->len += len;
}

/* ---- the transport ---- */

static rig_line *line_of(const mr_link *link) { return &rig.lines[link->fd - RIG_FD_BASE]; }

static mr_rc sim_create(const mr_transport_ops *self, mr_mem *mem, const mr_link_events *events,
                        void *owner, mr_transport **out) {
    (void)self;
    mr_transport *t = rig.fails_create ? NULL : mr_mem_alloc(mem, sizeof *t);
    if (t == NULL)
        return MR_NOMEM;
    *t = (mr_transport){.mem = mem, .events = events, .owner = owner};
    rig.transport = *out = t;
    return MR_OK;
}

static void sim_destroy(mr_transport *t) {
    if (t != NULL)
        mr_mem_free(t->mem, t, sizeof *t);
}

static int sim_backend_fd(const mr_transport *t) {
    (void)t;
    return -1;
}

static size_t sim_take(rig_line *l, const uint8_t *bytes, size_t len) {
    size_t amount = len < l->room ? len : l->room;
    rig_append(&l->got, bytes, amount);
    if (l->room != SIZE_MAX)
        l->room -= amount;
    return amount;
}

/* The queue moves on as far as there is room. */
static void sim_drain(rig_line *l) {
    mr_link *link = l->link;
    while (link->unsent != NULL && l->room > 0) {
        const mr_unsent *q = link->unsent;
        CHECK(q->off < q->len && q->len - q->off <= mr_link_unsent_bytes(link));
        if (!mr_lease_is_valid(q->lease)) {
            rig.transport->events->on_gone(rig.transport->owner, link);
            return;
        }
        mr_unsent_take(rig.transport->mem, link, sim_take(l, q->bytes + q->off, q->len - q->off));
        if (link->unsent == NULL) {
            CHECK(mr_link_unsent_bytes(link) == 0);
            l->has_fin = l->has_fin || l->is_fin_ahead;
            rig.transport->events->on_drained(rig.transport->owner, link);
            return;
        }
    }
}

/* Gives the engine what is pending, for as long as it wants it. */
static void sim_deliver(rig_line *l) {
    mr_transport *t = rig.transport;
    while (l->link != NULL && l->wants_data && l->sent_off < l->sent.len) {
        size_t amount = l->sent.len - l->sent_off;
        if (amount > rig.piece)
            amount = rig.piece;
        /* An exact copy, freed at once: what is borrowed too long shows. */
        uint8_t *copy = malloc(amount);
        CHECK(copy != NULL);
        memcpy(copy, l->sent.data + l->sent_off, amount);
        l->sent_off += amount;
        t->events->on_data(t->owner, l->link, copy, amount);
        free(copy);
    }
    if (l->link != NULL && l->wants_data && l->is_ended && !l->is_eof_told) {
        l->is_eof_told = true;
        t->events->on_eof(t->owner, l->link);
    }
}

static mr_rc sim_poll(mr_transport *t, int timeout_ms) {
    (void)timeout_ms;
    for (uint32_t i = 0; i < rig.line_count; i++) {
        rig_line *l = &rig.lines[i];
        if (l->link != NULL && l->link->transport == t)
            sim_drain(l);
        if (l->link != NULL && l->link->transport == t)
            sim_deliver(l);
    }
    return MR_OK;
}

static mr_rc sim_listen(mr_transport *t, int fd) {
    (void)t, (void)fd;
    return MR_INVALID;
}

static void sim_pause_accept(mr_transport *t, bool is_paused) {
    (void)t;
    rig.is_accept_paused = is_paused;
}

static mr_rc sim_attach(mr_transport *t, mr_link *link, int fd) {
    rig_line *l = &rig.lines[fd - RIG_FD_BASE];
    if (rig.fails_attach)
        return MR_NOMEM;
    *link = (mr_link){.transport = t, .fd = fd};
    l->link = link;
    l->wants_data = true;
    return MR_OK;
}

static void sim_want_data(mr_link *link, bool is_wanted) {
    if (link->fd >= 0)
        line_of(link)->wants_data = is_wanted;
}

static mr_rc sim_send(mr_link *link, const mr_piece_out *pieces, int count, unsigned flags) {
    size_t sent = 0;
    if (link->fd < 0)
        return MR_CLOSED;
    rig_line *l = line_of(link);
    l->send_calls++;
    if (l->is_broken)
        return MR_CLOSED;
    CHECK(!l->has_fin && !l->is_fin_ahead); /* nothing may follow a FIN */
    CHECK(count >= 0 && count <= MR_SEND_PIECES);
    for (int i = 0; i < count; i++)
        if (link->unsent == NULL && !mr_lease_is_valid(pieces[i].lease))
            return MR_CLOSED;
    for (int i = 0; i < count && link->unsent == NULL; i++) {
        size_t amount = sim_take(l, pieces[i].bytes, pieces[i].len);
        sent += amount;
        if (amount < pieces[i].len)
            break;
    }
    if (mr_unsent_add(rig.transport->mem, link, pieces, count, sent) != MR_OK)
        return MR_NOMEM;
    if (flags & MR_SEND_FIN)
        *(link->unsent != NULL ? &l->is_fin_ahead : &l->has_fin) = true;
    return link->unsent != NULL ? MR_AGAIN : MR_OK;
}

static bool sim_has_input(mr_link *link) { return link->fd >= 0 && line_of(link)->has_unread; }

static int sim_detach(mr_link *link) {
    int fd = link->fd;
    if (fd < 0 || link->unsent != NULL || rig.fails_detach)
        return -1;
    line_of(link)->link = NULL;
    link->fd = -1;
    return fd;
}

static void sim_close(mr_link *link) {
    if (link->fd < 0)
        return;
    mr_unsent_clear(rig.transport->mem, link);
    line_of(link)->link = NULL;
    link->fd = -1;
}

static uint32_t rig_connect(void);

static void sim_unlisten(mr_transport *t) {
    (void)t;
    rig.is_unlistened = true;
    for (; rig.queued_accepts > 0; rig.queued_accepts--)
        (void)rig_connect();
}

static const mr_transport_ops sim_transport = {.name = "memory",
                                               .create = sim_create,
                                               .destroy = sim_destroy,
                                               .backend_fd = sim_backend_fd,
                                               .poll = sim_poll,
                                               .listen = sim_listen,
                                               .pause_accept = sim_pause_accept,
                                               .unlisten = sim_unlisten,
                                               .attach = sim_attach,
                                               .want_data = sim_want_data,
                                               .send = sim_send,
                                               .detach = sim_detach,
                                               .has_input = sim_has_input,
                                               .close = sim_close};

/* ---- handlers ---- */

static mr_rc note_request(void *owner, const mr_request *q) {
    CHECK(owner == &rig);
    if (rig.request_room == 0)
        return MR_AGAIN;
    rig.request_room--;
    if (rig.request_rc != MR_OK)
        return rig.request_rc;
    CHECK(rig.request_count < RIG_REQUESTS);
    rig_request *r = &rig.requests[rig.request_count++];
    size_t path_len = q->head->path_len < sizeof r->path ? q->head->path_len : sizeof r->path - 1;
    *r = (rig_request){.connection = q->connection,
                       .seq = q->seq,
                       .handler = q->handler,
                       .method = q->head->method,
                       .minor = q->head->minor,
                       .body_len = q->body_len,
                       .is_streamed = q->is_streamed,
                       .is_complete = !q->is_streamed};
    CHECK(!q->is_streamed || q->body == NULL);
    memcpy(r->path, q->bytes + q->head->path_off, path_len);
    if (q->body != NULL) {
        r->body = malloc(q->body_len != 0 ? q->body_len : 1);
        CHECK(r->body != NULL);
        memcpy(r->body, q->body, q->body_len);
    }
    return MR_OK;
}

/* The request of that name that came last: slots come again, generations go round. */
static rig_request *rig_find(uint64_t connection, uint32_t seq) {
    for (uint32_t i = rig.request_count; i-- > 0;)
        if (rig.requests[i].connection == connection && rig.requests[i].seq == seq)
            return &rig.requests[i];
    return NULL;
}

static mr_rc note_content(void *owner, const mr_content *content) {
    CHECK(owner == &rig);
    rig_request *r = rig_find(content->connection, content->seq);
    CHECK(r != NULL && r->is_streamed && !r->is_complete);
    CHECK(content->len > 0 || content->is_end);
    CHECK(content->is_end || content->trailers_len == 0);
    if (rig.content_room == 0)
        return MR_AGAIN;
    rig.content_room--;
    if (rig.content_rc != MR_OK)
        return rig.content_rc;
    if (content->len > 0) {
        r->body = realloc(r->body, r->body_len + content->len);
        CHECK(r->body != NULL);
        memcpy(r->body + r->body_len, content->bytes, content->len);
    }
    r->body_len += content->len;
    r->pieces++;
    r->is_complete = content->is_end;
    rig_append(&r->trailers, content->trailers, content->trailers_len);
    return MR_OK;
}

static void note_note(void *owner, uint64_t connection, uint32_t seq, mr_note note) {
    CHECK(owner == &rig);
    CHECK(rig.done_count < RIG_REQUESTS && rig.note_count < RIG_REQUESTS);
    if (note == MR_NOTE_LOST || note == MR_NOTE_ANSWERED) {
        rig.done[rig.done_count].connection = connection;
        rig.done[rig.done_count].seq = seq;
        rig.done[rig.done_count++].is_answered = note == MR_NOTE_ANSWERED;
        return;
    }
    const rig_request *r = rig_find(connection, seq);
    CHECK(r != NULL); /* only what was handed up is spoken of */
    if (note != MR_NOTE_DRAINED && note != MR_NOTE_PEER_ENDED) {
        CHECK(r->is_streamed && !r->is_complete);
        for (uint32_t i = 0; i < rig.note_count; i++) /* its content ends once */
            CHECK(rig.notes[i].connection != connection || rig.notes[i].seq != seq ||
                  rig.notes[i].note == MR_NOTE_DRAINED || rig.notes[i].note == MR_NOTE_PEER_ENDED);
    }
    rig.notes[rig.note_count].connection = connection;
    rig.notes[rig.note_count].seq = seq;
    rig.notes[rig.note_count++].note = note;
}

static bool note_leave(void *owner, int fd, const mr_peer *peer) {
    CHECK(owner == &rig);
    if (!rig.takes_leavers)
        return false;
    CHECK(fd >= RIG_FD_BASE && rig.left_count < RIG_LINES);
    rig.left[rig.left_count].line = (uint32_t)(fd - RIG_FD_BASE);
    rig.left[rig.left_count++].peer = *peer;
    return true;
}

/* How often this note came about the request that came as number `index`. */
RIG_UNUSED static uint32_t rig_notes(uint32_t index, mr_note note) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < rig.note_count; i++)
        count += rig.notes[i].connection == rig.requests[index].connection &&
                 rig.notes[i].seq == rig.requests[index].seq && rig.notes[i].note == note;
    return count;
}

static const mr_handlers rig_handlers = {.on_request = note_request,
                                         .on_content = note_content,
                                         .on_note = note_note,
                                         .on_leave = note_leave};

/* ---- leases ---- */

static bool rig_lease_is_valid(const mr_lease *lease) {
    rig_lease *l = (rig_lease *)(uintptr_t)lease;
    CHECK(!l->is_returned && l->lease.borrowers > 0);
    l->asked++;
    return !l->is_void;
}

static void rig_lease_returned(mr_lease *lease) {
    rig_lease *l = (rig_lease *)lease;
    CHECK(!l->is_returned && l->lease.borrowers == 0);
    l->is_returned = true;
    free(l->bytes);
    l->bytes = NULL;
}

/* The test is the first borrower; octets tell their place. */
RIG_UNUSED static void rig_lend(rig_lease *l, size_t len) {
    *l = (rig_lease){
        .lease = {.borrowers = 1, .is_valid = rig_lease_is_valid, .on_return = rig_lease_returned},
        .bytes = malloc(len),
        .len = len};
    CHECK(l->bytes != NULL);
    for (size_t i = 0; i < len; i++)
        l->bytes[i] = (uint8_t)(i * 7 + i / 251);
}

/* The octets go away; a read of them from here on is one of freed memory. */
RIG_UNUSED static void rig_revoke(rig_lease *l) {
    l->is_void = true;
    free(l->bytes);
    l->bytes = NULL;
}

/* ---- set-up ---- */

static void rig_forget_request(uint32_t i) {
    free(rig.requests[i].body);
    free(rig.requests[i].trailers.data);
    rig.requests[i] = (rig_request){0};
}

static void rig_reset(void) {
    for (uint32_t i = 0; i < rig.line_count; i++) {
        free(rig.lines[i].sent.data);
        free(rig.lines[i].got.data);
        rig.lines[i] = (rig_line){0};
    }
    for (uint32_t i = 0; i < rig.request_count; i++)
        rig_forget_request(i);
    rig.line_count = rig.request_count = rig.done_count = rig.queued_accepts = 0;
    rig.note_count = rig.left_count = 0;
    rig.peer = (struct sockaddr_storage){0};
    rig.takes_leavers = true;
    rig.fails_detach = false;
    rig.engine = NULL;
    rig.transport = NULL;
    rig.now_ms = RIG_START_MS;
    rig.piece = SIZE_MAX;
    rig.request_room = UINT32_MAX;
    rig.content_room = UINT32_MAX;
    rig.request_rc = rig.content_rc = MR_OK;
    rig.asks_at_once = false;
    rig.fails_attach = rig.fails_create = rig.is_accept_paused = rig.is_unlistened = false;
}

static mr_engine_options rig_options(void) {
    return (mr_engine_options){
        .limits = {.head = {.header_bytes = 2048, .header_count = 20, .target_bytes = 1024},
                   .body_bytes = 1000,
                   .held_bytes = 1024 * 1024},
        .timeouts = {.header_ms = 10000,
                     .body_ms = 300000,
                     .keep_alive_ms = 75000,
                     .send_ms = 200000,
                     .linger_ms = 2000},
        .transport = &sim_transport,
        .handlers = &rig_handlers,
        .owner = &rig};
}

/* Starts an engine; `options` NULL: the usual ones. Everything goes to handler 7. */
RIG_UNUSED static void rig_open(const char *at_case, const mr_engine_options *options) {
    mr_engine_options usual = rig_options();
    rig_reset();
    rig.at_case = at_case;
    CHECK(mr_engine_create(options != NULL ? options : &usual, &rig.engine) == MR_OK);
    mr_engine_set_routes(rig.engine, NULL, 7, 0);
}

static void rig_close(void) {
    mr_engine_destroy(rig.engine);
    for (uint32_t i = 0; i < rig.line_count; i++)
        CHECK(rig.lines[i].link == NULL);
    rig_reset();
}

/* ---- invariants ---- */

static uint64_t live_bits(const mr_conn *c) {
    uint64_t live = 0;
    for (uint32_t seq = c->out_seq; seq != c->in_seq; seq++)
        live |= mr_conn_bit(seq);
    return live;
}

static void check_held(const mr_conn *c) {
    size_t bytes = 0;
    uint64_t ended = 0, held = 0, live = live_bits(c);
    uint32_t after = c->out_seq, in_flight = mr_conn_in_flight(c);
    for (const mr_held *h = c->held; h != NULL; h = h->next) {
        bytes += h->counted;
        CHECK(h->before <= h->len && (h->lease != NULL) == (h->leased != NULL));
        CHECK(h->lease == NULL || h->lease->borrowers > 0);
        CHECK(h == c->held || (int32_t)(h->seq - after) >= 0);
        CHECK(h == c->held || h->seq != after || !(ended & mr_conn_bit(after)));
        after = h->seq;
        held |= mr_conn_bit(h->seq);
        if (h->ends != 0) /* the last piece of its exchange */
            ended |= mr_conn_bit(h->seq);
        CHECK(in_flight == 0 || h->seq - c->out_seq < in_flight);
    }
    CHECK(bytes == c->held_bytes);
    CHECK((c->is_answered & live) == (ended & live));
    CHECK(in_flight == 0 || !(held & mr_conn_bit(c->out_seq)));
    CHECK(in_flight == 0 || !(c->is_answered & mr_conn_bit(c->out_seq)));
    CHECK((c->is_watched & ~live) == 0);
}

/* Nobody may wait for a wake-up that does not come. */
static void check_wakeups(const mr_conn *c) {
    const rig_line *l = line_of(&c->link);
    const mr_incoming *in = c->incoming;
    bool is_waiting = (c->flags & MR_CONN_IS_WAITING) != 0;
    bool is_unasked = in != NULL && in->is_handed_up && !in->is_discarded && in->window == 0;
    CHECK(!(c->flags & MR_CONN_IS_READY) || (c->incoming != NULL && is_waiting));
    if (c->state == MR_CONN_OPEN && is_waiting)
        CHECK((c->flags & MR_CONN_IS_LISTED) || mr_conn_in_flight(c) == MR_PIPELINE_MAX ||
              c->link.unsent != NULL || is_unasked);
    if (c->state == MR_CONN_OPEN && !is_waiting)
        CHECK(l->wants_data);
    if (c->state == MR_CONN_LINGERING)
        CHECK(l->wants_data && (l->has_fin || l->is_fin_ahead));
    if (c->state == MR_CONN_CLOSING)
        CHECK(mr_conn_in_flight(c) > 0);
    CHECK(c->deadline_ms == UINT64_MAX ||
          (mr_timer_is_set(&c->timer) && c->timer.expiry_ms <= c->deadline_ms));
    /* It is the peer's turn: then a time-out must be running. */
    bool is_peers_turn = c->state == MR_CONN_OPEN && !is_waiting &&
                         (mr_conn_in_flight(c) == 0 || (in != NULL && in->is_discarded));
    if (in != NULL && mr_h1_content_deadline_ms(c) == UINT64_MAX)
        is_peers_turn = false; /* content has no time-out here */
    if (c->state == MR_CONN_LINGERING || is_peers_turn || c->link.unsent != NULL)
        CHECK(c->deadline_ms != UINT64_MAX);
    if (c->link.unsent == NULL && mr_conn_in_flight(c) > 0)
        CHECK(!(c->is_thirsty & mr_conn_bit(c->out_seq)));
}

static void check_incoming(const mr_conn *c) {
    const mr_incoming *in = c->incoming;
    if (in == NULL)
        return;
    CHECK(in->taken <= in->body_bytes && in->window <= MR_WINDOW_MAX);
    CHECK(in->trailers.len <= rig.engine->limits.head.header_bytes);
    CHECK(in->is_handed_up || in->is_discarded);
    CHECK((in->bytes == NULL) == in->is_handed_up && (in->fields == NULL) == in->is_handed_up);
}

/* What must hold between turns. */
static void rig_check(void) {
    mr_engine *e = rig.engine;
    uint32_t cursor = 0, live = 0;
    uint64_t id;
    const mr_conn *c;
    CHECK(e->out.used == 0 && e->out.piece_count == 0 && e->out.dirty_first == NULL);
    while ((c = mr_slab_next(e->conns, &cursor, &id)) != NULL) {
        CHECK(c->id == id);
        CHECK((c->state == MR_CONN_DEAD) == (c->link.fd < 0));
        if (c->state == MR_CONN_DEAD) {
            CHECK(c->flags & MR_CONN_IS_LISTED); /* else it would have been released */
            continue;
        }
        live += c->state != MR_CONN_LINGERING;
        CHECK(mr_conn_in_flight(c) <= MR_PIPELINE_MAX);
        CHECK(c->first_piece == 0 && !(c->flags & MR_CONN_IS_DIRTY));
        CHECK(c->input == NULL || c->input->len > 0);
        check_incoming(c);
        check_held(c);
        check_wakeups(c);
    }
    CHECK(live == mr_engine_connections(e));
}

/* ---- acting ---- */

/* Of calls that may succeed or not: gcc heeds no cast to void. */
RIG_UNUSED static void rig_ignore(mr_rc rc) { (void)rc; }

static uint32_t rig_connect(void) {
    struct sockaddr_storage peer = rig.peer;
    socklen_t peer_len = peer.ss_family == 0 ? 2 : sizeof peer;
    if (peer.ss_family == 0)
        peer.ss_family = AF_UNIX;
    CHECK(rig.line_count < RIG_LINES);
    uint32_t i = rig.line_count++;
    rig.lines[i] = (rig_line){.room = SIZE_MAX};
    rig.transport->events->on_accept(rig.transport->owner, RIG_FD_BASE + (int)i,
                                     (struct sockaddr *)&peer, peer_len);
    return i;
}

static void rig_send_bytes(uint32_t i, const void *bytes, size_t len) {
    rig_append(&rig.lines[i].sent, bytes, len);
}

RIG_UNUSED static void rig_send(uint32_t i, const char *text) {
    rig_send_bytes(i, text, strlen(text));
}

RIG_UNUSED static void rig_end_input(uint32_t i) { rig.lines[i].is_ended = true; }

static void rig_poll(void) { CHECK(mr_engine_poll(rig.engine, 0) == MR_OK); }

/* Lets `bytes` more of the content come to the request that came as number `index`. */
RIG_UNUSED static mr_rc rig_ask(uint32_t index, uint64_t bytes) {
    CHECK(index < rig.request_count);
    return mr_engine_ask(rig.engine, rig.requests[index].connection, rig.requests[index].seq,
                         bytes);
}

static void ask_for_all(void) {
    for (uint32_t i = 0; rig.asks_at_once && i < rig.request_count; i++) {
        if (rig.requests[i].is_streamed && !rig.requests[i].is_asked)
            (void)rig_ask(i, MR_WINDOW_MAX);
        rig.requests[i].is_asked = true;
    }
}

static void rig_settle(void) {
    ask_for_all();
    for (int round = 0; round < 16 && mr_engine_resume(rig.engine); round++)
        ask_for_all();
    mr_engine_end(rig.engine);
    rig_check();
}

static void rig_turn(void) {
    rig_poll();
    rig_settle();
}

RIG_UNUSED static void rig_pass(uint64_t ms) {
    rig.now_ms += ms;
    rig_turn();
}

/* Answers the request that came as number `index`; says what the engine said. */
RIG_UNUSED static mr_rc rig_answer_with(uint32_t index, const uint8_t *body, size_t len,
                                        uint16_t flags) {
    static const char head[] = "HTTP/1.1 200 OK\r\n";
    CHECK(index < rig.request_count);
    mr_response r = {.head = (const uint8_t *)head,
                     .head_len = sizeof head - 1,
                     .body = body,
                     .body_len = len,
                     .status = 200,
                     .flags = flags};
    return mr_engine_respond(rig.engine, rig.requests[index].connection, rig.requests[index].seq,
                             &r);
}

RIG_UNUSED static mr_rc rig_answer(uint32_t index, const char *body) {
    return rig_answer_with(index, (const uint8_t *)body, strlen(body), 0);
}

/* Whether the client got exactly these octets since the last look; all of them are looked at. */
static bool rig_got_bytes(uint32_t i, const void *bytes, size_t len) {
    rig_line *l = &rig.lines[i];
    bool is_same = l->got.len - l->got_off == len &&
                   (len == 0 || memcmp(l->got.data + l->got_off, bytes, len) == 0);
    if (!is_same)
        fprintf(stderr, "line %u got %zu octets, want %zu:\n%.*s\n---- want\n%.*s\n----\n", i,
                l->got.len - l->got_off, len,
                (int)(l->got.len - l->got_off > 4000 ? 4000 : l->got.len - l->got_off),
                l->got.data != NULL ? (char *)l->got.data + l->got_off : "",
                (int)(len > 4000 ? 4000 : len), (const char *)bytes);
    l->got_off = l->got.len;
    return is_same;
}

RIG_UNUSED static bool rig_got(uint32_t i, const char *text) {
    return rig_got_bytes(i, text, strlen(text));
}

/* The text of a 200 with this body. `close` adds the field. */
RIG_UNUSED static const char *rig_ok(const char *body, bool close) {
    static char texts[4][4096];
    static unsigned at;
    char *text = texts[at++ % 4];
    (void)snprintf(text, sizeof texts[0], "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n%s%s\r\n%s",
                   strlen(body), RIG_DATE, close ? RIG_CLOSE : "", body);
    return text;
}

/* The text of an error made in C. */
RIG_UNUSED static const char *rig_plain(const char *status, bool close) {
    static char texts[4][512];
    static unsigned at;
    char *text = texts[at++ % 4];
    (void)snprintf(text, sizeof texts[0], "HTTP/1.1 %s\r\n%sContent-Length: %zu\r\n%s%s\r\n%s",
                   status, RIG_TYPE, strlen(status) - 4, RIG_DATE, close ? RIG_CLOSE : "",
                   status + 4);
    return text;
}

#define RIG_GET "GET /a HTTP/1.1\r\nHost: h\r\n\r\n"

/* State of the connection at the other end of a line; DEAD when there is none. */
RIG_UNUSED static mr_conn_state rig_conn_state(uint32_t i) {
    const mr_conn *c = (const mr_conn *)rig.lines[i].link;
    return c != NULL ? (mr_conn_state)c->state : MR_CONN_DEAD;
}

#endif
