/* engine.c -- see engine.h for the turn. */
#include "engine/engine.h"
#include "engine/core.h"
#include "engine/fleet.h"
#include "engine/journal.h"
#include <errno.h>
#include <string.h>
#include <unistd.h>

/* More connections than this never exist at once, whatever the limits say: slots are 32 bits wide
 * and a descriptor table is smaller still. */
#define CONNECTIONS_MAX (4u * 1024u * 1024u)

static mr_rc create_parts(mr_engine *e)
{
    mr_rc rc;
    e->conns = mr_slab_create(&e->mem, sizeof(mr_conn), CONNECTIONS_MAX);
    e->fields = mr_mem_alloc(&e->mem, e->limits.head.header_count * sizeof *e->fields);
    if (e->conns == NULL || e->fields == NULL)
        return MR_NOMEM;
    if ((rc = mr_out_init(&e->out, &e->mem)) != MR_OK)
        return rc;
    return e->net->create(e->net, &e->mem, &mr_conn_events, e, &e->transport);
}

static mr_rc copy_proxy_sources(mr_engine *e, const mr_engine_options *options)
{
    size_t count = options->proxy_source_count;
    if (count == 0)
        return MR_OK;
    if (count > MR_PROXY_SOURCES_MAX)
        return MR_INVALID;
    for (size_t i = 0; i < count; i++)
        if (!mr_range_is_valid(&options->proxy_sources[i]))
            return MR_INVALID;
    e->proxy_sources = mr_mem_alloc(&e->mem, count * sizeof *e->proxy_sources);
    if (e->proxy_sources == NULL)
        return MR_NOMEM;
    memcpy(e->proxy_sources, options->proxy_sources, count * sizeof *e->proxy_sources);
    e->proxy_source_count = count;
    return MR_OK;
}

static mr_rc copy_rate_field(mr_engine *e, const mr_engine_options *options)
{
    if (options->rate_field == NULL || options->rate_field_len == 0)
        return MR_OK;
    if ((e->rate_field = mr_mem_alloc(&e->mem, options->rate_field_len)) == NULL)
        return MR_NOMEM;
    memcpy(e->rate_field, options->rate_field, options->rate_field_len);
    e->rate_field_len = options->rate_field_len;
    return MR_OK;
}

static void choose_parser(mr_engine *e, const mr_engine_options *options)
{
    bool is_own = options->parser == NULL;
    e->parser = is_own ? &mr_h1_parser_millrace : options->parser;
    e->parser_self = is_own ? (void *)(uintptr_t)e->scan : options->parser_self;
}

mr_rc mr_engine_create(const mr_engine_options *options, mr_engine **out)
{
    mr_mem mem = {0};
    mr_engine *e = mr_mem_zalloc(&mem, sizeof *e);
    if (e == NULL)
        return MR_NOMEM;
    *e = (mr_engine){.mem = mem,
                     .limits = options->limits,
                     .timeouts = options->timeouts,
                     .net = options->transport,
                     .handlers = options->handlers,
                     .owner = options->owner,
                     .fleet = options->fleet,
                     .rate = options->fleet ? options->rate : NULL,
                     .access = options->fleet ? options->access : NULL,
                     .lag_limit_ns = (uint64_t)options->lag_limit_ms * 1000000u,
                     .seat = options->fleet ? &options->fleet->seats[options->seat] : NULL,
                     .scan = options->scan ? options->scan : mr_h1_scan_best(),
                     .fallback = MR_NO_HANDLER,
                     .thread = pthread_self()};
    choose_parser(e, options);
    mr_clock_update(&e->clock);
    mr_wheel_init(&e->wheel, e->clock.now_ms);
    mr_rc rc = copy_proxy_sources(e, options);
    if (rc == MR_OK)
        rc = copy_rate_field(e, options);
    if (rc == MR_OK)
        rc = create_parts(e);
    if (rc != MR_OK) {
        mr_engine_destroy(e);
        return rc;
    }
    *out = e;
    return MR_OK;
}

/* The dead that the resume list still names stay for another turn. */
static void release_dead(mr_engine *e)
{
    mr_conn *c = e->dead;
    e->dead = NULL;
    while (c != NULL) {
        mr_conn *next = c->next_dead;
        if (c->flags & MR_CONN_IS_LISTED) {
            c->next_dead = e->dead;
            e->dead = c;
        } else {
            mr_conn_release(c);
        }
        c = next;
    }
}

static void forget(void *owner, uint64_t connection, uint32_t seq, mr_note note)
{
    (void)owner, (void)connection, (void)seq, (void)note;
}

/* Before the sockets close: from then on, who connects is told so at once. */
static void remove_files(mr_engine *e)
{
    while (e->files != NULL) {
        mr_sock_file *file = e->files;
        e->files = file->next;
        mr_sock_remove_file(file);
        mr_mem_free(&e->mem, file, sizeof *file);
    }
}

void mr_engine_destroy(mr_engine *e)
{
    static const mr_handlers silent = {.on_note = forget};
    uint32_t cursor = 0;
    uint64_t id;
    mr_conn *c;
    if (e == NULL)
        return;
    MR_ON_THREAD(e);
    e->handlers = &silent;
    while (e->conns != NULL && (c = mr_slab_next(e->conns, &cursor, &id)) != NULL) {
        mr_conn_kill(c);
        c->flags &= (uint16_t)~MR_CONN_IS_LISTED;
    }
    e->listed_first = e->listed_last = NULL;
    mr_out_flush(e); /* sends nothing any more, but returns leases */
    release_dead(e);
    remove_files(e);
    if (e->transport != NULL)
        e->net->destroy(e->transport);
    mr_mem_free(&e->mem, e->proxy_sources, e->proxy_source_count * sizeof *e->proxy_sources);
    mr_routes_destroy(e->routes);
    mr_journal_dispose(e);
    mr_mem_free(&e->mem, e->rate_field, e->rate_field_len);
    mr_out_dispose(&e->out, &e->mem);
    mr_buf_dispose(&e->mem, &e->rendered);
    mr_buf_dispose(&e->mem, &e->decoded);
    mr_mem_free(&e->mem, e->fields, e->limits.head.header_count * sizeof *e->fields);
    mr_slab_destroy(e->conns);
    mr_mem mem = e->mem; /* the engine is in its own books */
    mr_mem_free(&mem, e, sizeof *e);
}

mr_rc mr_engine_listen(mr_engine *e, const mr_listen_options *options, uint16_t *port, int *error)
{
    int fd;
    mr_sock_file *file = NULL;
    MR_ON_THREAD(e);
    *error = ENOMEM;
    if (mr_sock_has_file(options) && (file = mr_mem_alloc(&e->mem, sizeof *file)) == NULL)
        return MR_INVALID;
    mr_rc rc = mr_sock_listen(options, &fd, error);
    if (rc != MR_OK) {
        mr_mem_free(&e->mem, file, sizeof *file);
        return rc;
    }
    if (file != NULL) {
        mr_sock_note_file(options, file);
        file->next = e->files;
        e->files = file;
    }
    *port = mr_sock_port(fd);
    rc = mr_engine_serve(e, fd);
    if (rc != MR_OK)
        *error = ENOSPC; /* too many listeners, or the poller takes no more */
    return rc;
}

/* A connection in the middle of a request may finish it; its answer will say close. An idle one has a
 * grace: a request that is on its way already must not be lost. */
static void drain_conn(mr_conn *c, uint32_t grace_ms)
{
    if (c->state != MR_CONN_OPEN)
        return;
    if (c->incoming != NULL && c->incoming->is_handed_up)
        c->is_final |= mr_conn_bit(c->incoming->seq);
    else if (mr_conn_in_flight(c) > 0)
        mr_conn_finish(c);
    else if (c->input == NULL && c->incoming == NULL && c->link.unsent == NULL && grace_ms > 0)
        mr_conn_set_deadline(c, grace_ms);
    else if (c->input == NULL && c->incoming == NULL)
        mr_conn_finish(c);
}

void mr_engine_migrate(mr_engine *e)
{
    MR_ON_THREAD(e);
    if (e->is_migrating || e->is_draining)
        return;
    mr_clock_update(&e->clock);
    e->is_migrating = true;
    e->net->unlisten(e->transport);
    mr_wheel_clear(&e->wheel, &e->accept_timer);
}

void mr_engine_adopt(mr_engine *e, const mr_handed_socket *socket)
{
    MR_ON_THREAD(e);
    mr_conn *c = mr_conn_adopt(e, socket->fd, &socket->peer, socket->is_counted);
    if (c != NULL && e->is_draining)
        drain_conn(c, e->grace_ms); /* it was on its way when the drain began */
    /* Whoever sent it has counted it, and so was it here. */
    atomic_fetch_sub_explicit(&e->seat->load, 1, memory_order_relaxed);
    mr_meter_add(&e->seat->meter.handed_in, 1);
}

mr_rc mr_engine_serve(mr_engine *e, int fd)
{
    MR_ON_THREAD(e);
    return e->net->listen(e->transport, fd);
}

int mr_engine_backend_fd(const mr_engine *e) { return e->net->backend_fd(e->transport); }

mr_mem *mr_engine_mem(mr_engine *e) { return &e->mem; }

void mr_engine_set_routes(mr_engine *e, mr_routes *routes, uint32_t fallback,
                          uint32_t fallback_flags)
{
    MR_ON_THREAD(e);
    mr_routes_destroy(e->routes);
    e->routes = routes;
    e->fallback = fallback;
    e->fallback_flags = fallback_flags;
}

uint64_t mr_engine_update_clock(mr_engine *e)
{
    mr_clock_update(&e->clock);
    return e->clock.now_ms;
}

mr_rc mr_engine_poll(mr_engine *e, int timeout_ms)
{
    MR_ON_THREAD(e);
    mr_clock_update(&e->clock);
    return e->net->poll(e->transport, timeout_ms);
}

void mr_engine_set_late(mr_engine *e, uint64_t late_ns) { e->late_ns = late_ns; }

void mr_engine_list(mr_conn *c)
{
    mr_engine *e = c->engine;
    if (c->flags & MR_CONN_IS_LISTED)
        return;
    c->flags |= MR_CONN_IS_LISTED;
    c->next_listed = NULL;
    if (e->listed_last != NULL)
        e->listed_last->next_listed = c;
    else
        e->listed_first = c;
    e->listed_last = c;
}

bool mr_engine_resume(mr_engine *e)
{
    /* Only those that are listed now: one that must wait again is for the next round. */
    mr_conn *c = e->listed_first;
    bool is_any = c != NULL;
    MR_ON_THREAD(e);
    e->listed_first = e->listed_last = NULL;
    while (c != NULL) {
        mr_conn *next = c->next_listed;
        c->flags &= (uint16_t)~MR_CONN_IS_LISTED;
        mr_h1_resume(c);
        c = next;
    }
    return is_any;
}

static void fire_timers(mr_engine *e)
{
    mr_timer *timer;
    mr_wheel_advance(&e->wheel, e->clock.now_ms);
    while ((timer = mr_wheel_take_due(&e->wheel)) != NULL) {
        if (timer == &e->accept_timer)
            e->net->pause_accept(e->transport, false);
        else
            mr_conn_on_timer((mr_conn *)((char *)timer - offsetof(mr_conn, timer)));
    }
}

void mr_engine_flush(mr_engine *e)
{
    MR_ON_THREAD(e);
    mr_out_flush(e);
}

/* Nothing of it is under way, on either side as far as anybody can know here. */
static bool is_idle(const mr_conn *c)
{
    return c->state == MR_CONN_OPEN && mr_conn_in_flight(c) == 0 && c->input == NULL &&
           c->incoming == NULL && c->link.unsent == NULL &&
           !(c->flags & (MR_CONN_IS_WAITING | MR_CONN_IS_LISTED | MR_CONN_IS_DIRTY |
                         MR_CONN_SAW_EOF | MR_CONN_AWAITS_PROXY));
}

static void migrate(mr_conn *c)
{
    mr_engine *e = c->engine;
    int fd = e->net->detach(&c->link);
    if (fd < 0) {
        mr_conn_finish(c);
        return;
    }
    if (e->handlers->on_leave(e->owner, fd, &c->peer))
        c->flags &= (uint16_t)~MR_CONN_IS_COUNTED; /* the count goes with it */
    else
        close(fd);
    mr_conn_kill(c);
}

static void migrate_idle(mr_engine *e)
{
    uint32_t cursor = 0;
    uint64_t id;
    mr_conn *c;
    while ((c = mr_slab_next(e->conns, &cursor, &id)) != NULL)
        if (is_idle(c))
            migrate(c);
}

void mr_engine_end(mr_engine *e)
{
    MR_ON_THREAD(e);
    /* First what is gathered: an answer moves its connection's deadline when it goes out. */
    mr_out_flush(e);
    fire_timers(e);
    mr_out_flush(e);
    if (e->is_migrating) {
        migrate_idle(e);
        mr_out_flush(e);
    }
    release_dead(e);
}

uint64_t mr_engine_next_ms(const mr_engine *e)
{
    return e->listed_first != NULL ? e->clock.now_ms : mr_wheel_next_ms(&e->wheel);
}

mr_waiting mr_engine_is_waiting(const mr_engine *e, uint64_t connection, uint32_t seq)
{
    const mr_conn *c = mr_slab_get(e->conns, connection);
    if (c == NULL || c->state == MR_CONN_DEAD || seq - c->out_seq >= mr_conn_in_flight(c) ||
        (c->is_answered & mr_conn_bit(seq)))
        return MR_IS_OVER;
    return (c->flags & MR_CONN_SAW_EOF) ? MR_IS_WAITING_ENDED : MR_IS_WAITING;
}

mr_rc mr_engine_watch(mr_engine *e, uint64_t connection, uint32_t seq)
{
    mr_conn *c = mr_slab_get(e->conns, connection);
    MR_ON_THREAD(e);
    if (c == NULL || c->state == MR_CONN_DEAD)
        return MR_GONE;
    if (c->out_seq - seq - 1 < MR_PIPELINE_MAX && (c->link.unsent || (c->flags & MR_CONN_IS_DIRTY))) {
        c->is_leaving |= mr_conn_bit(seq); /* answered already, but it may still be lost */
        return MR_OK;
    }
    if (seq - c->out_seq >= mr_conn_in_flight(c))
        return MR_GONE;
    c->is_watched |= mr_conn_bit(seq);
    if (c->flags & MR_CONN_SAW_EOF)
        e->handlers->on_note(e->owner, c->id, seq, MR_NOTE_PEER_ENDED);
    return MR_OK;
}

void mr_engine_drain(mr_engine *e, uint32_t grace_ms)
{
    uint32_t cursor = 0;
    uint64_t id;
    mr_conn *c;
    MR_ON_THREAD(e);
    if (e->is_draining)
        return;
    mr_clock_update(&e->clock);
    remove_files(e);
    e->net->unlisten(e->transport);
    mr_wheel_clear(&e->wheel, &e->accept_timer);
    e->is_draining = true;
    e->grace_ms = grace_ms;
    while ((c = mr_slab_next(e->conns, &cursor, &id)) != NULL)
        drain_conn(c, grace_ms);
    mr_out_flush(e);
}

uint32_t mr_engine_connections(const mr_engine *e) { return e->live_count; }

void mr_engine_get_stats(const mr_engine *e, mr_engine_stats *stats)
{
    *stats = e->stats;
    stats->connections = mr_slab_count(e->conns);
    stats->used_bytes = e->mem.used_bytes;
    stats->peak_bytes = e->mem.peak_bytes;
}

const char *mr_engine_scan_name(const mr_engine *e) { return mr_h1_scan_name(e->scan); }
