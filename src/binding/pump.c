/* pump.c -- drives an engine from the libuv loop of its environment.
 *
 * One turn: poll the engine; call JavaScript once for all requests (promise jobs and nextTick run as
 * that call returns); drain the answers; resume connections that waited for room, and again while
 * that brings requests; send, fire time-outs, free the dead. The prepare handle runs a turn without
 * the poll when answers were given in between, right before the loop would block. Whatever uses the
 * engine outside a turn asks for one (needs_turn): only turns look at timers and lists.
 *
 * A transport on libuv streams is not polled: the loop delivers its events one by one, which is C
 * alone and fills the rings, and the check handle runs the turn for all of them once they are
 * through. Events of another phase of the loop find theirs at the prepare handle. */
#include "binding/member.h"

#define ROUNDS_PER_TURN 16 /* calls of JavaScript before the loop's other work gets its turn */

/* ---- the call up ---- */

static napi_value note_words(mr_rings *r)
{
    napi_value words = NULL;
    void *data;
    size_t bytes = r->notes.len;
    if (bytes == 0 || napi_create_arraybuffer(r->env, bytes, &data, &words) != napi_ok)
        return NULL;
    for (size_t i = 0; i < bytes; i++)
        ((uint8_t *)data)[i] = r->notes.data[i];
    r->notes.len = 0;
    return words;
}

/* The callback catches what handlers throw, so an exception here is ours, or the environment is
 * being terminated: then there is nothing to report it to. */
void mr_report_exception(napi_env env)
{
    bool is_pending = false;
    napi_value error;
    if (napi_is_exception_pending(env, &is_pending) == napi_ok && is_pending &&
        napi_get_and_clear_last_exception(env, &error) == napi_ok)
        (void)napi_fatal_exception(env, error);
}

/* What a batch of requests has waited, and when its handlers began. */
static void note_queue(mr_server *s, uint32_t count)
{
    mr_meter *meter = &s->fleet->seats[s->seat].meter;
    uint64_t ns = uv_hrtime() - s->polled_ns;
    unsigned slot = mr_histogram_slot(ns);
    mr_meter_add(&meter->queue.slots[slot], count);
    mr_meter_add(&meter->queue.sum_ns, ns * count);
}

static void enter_js(mr_server *s)
{
    mr_rings *r = &s->rings;
    napi_value holder, callback, args[3];
    uint32_t count = r->request_count;
    napi_value notes = note_words(r);
    bool is_drained = s->is_draining && !s->is_drained_told;
    mr_engine_stats stats;
    mr_engine_get_stats(s->engine, &stats);
    is_drained = is_drained && stats.connections == 0;
    r->request_count = 0;
    if (napi_get_reference_value(s->env, r->holder, &holder) != napi_ok ||
        napi_get_reference_value(s->env, s->on_batch, &callback) != napi_ok ||
        napi_create_uint32(s->env, count, &args[0]) != napi_ok ||
        (notes == NULL && napi_get_undefined(s->env, &notes) != napi_ok) ||
        napi_get_boolean(s->env, is_drained, &args[2]) != napi_ok)
        return;
    args[1] = notes;
    if (s->fleet != NULL && count > 0)
        note_queue(s, count);
    s->is_drained_told = s->is_drained_told || is_drained;
    if (napi_make_callback(s->env, s->async, holder, callback, 3, args, NULL) != napi_ok)
        mr_report_exception(s->env);
    r->batch_serial = r->chunk_serial;
    if (s->home->is_ending)
        return;
    if (s->fleet != NULL)
        (void)mr_engine_update_clock(s->engine); /* for how long handlers took */
    mr_rings_drain(r);
}

static bool has_news(const mr_server *s)
{
    if (s->rings.request_count > 0 || s->rings.notes.len > 0)
        return true;
    if (!s->is_draining || s->is_drained_told)
        return false;
    mr_engine_stats stats;
    mr_engine_get_stats(s->engine, &stats);
    return stats.connections == 0;
}

/* ---- the turn ---- */

/* Whether something waits for a turn that no event will bring. */
static bool wants_turn(const mr_server *s)
{
    return s->needs_turn || s->is_timer_due || s->rings.control[0] > 0 || has_news(s);
}

static void rearm_timer(mr_server *s);

static void finish_turn(mr_server *s)
{
    mr_engine_end(s->engine);
    /* Ending may have closed the last connection, or a watched one. */
    if (has_news(s) && !s->is_close_wanted) {
        enter_js(s);
        mr_engine_end(s->engine);
    }
    s->is_in_turn = false;
    if (s->is_close_wanted)
        mr_pump_stop(s);
    else
        rearm_timer(s);
}

/* What comes now has waited at most as long as this thread was busy since the last poll. */
static void note_lateness(mr_server *s)
{
    uint64_t now_ns = uv_hrtime();
    uint64_t idle_ns = uv_metrics_idle_time(s->prepare.loop);
    uint64_t away_ns = now_ns - s->polled_ns, idle_since_ns = idle_ns - s->idle_ns;
    mr_engine_set_late(s->engine, away_ns > idle_since_ns ? away_ns - idle_since_ns : 0);
    s->idle_ns = idle_ns;
}

static void run_turn(mr_server *s, bool is_polling)
{
    napi_handle_scope scope;
    if (s->is_closing || s->is_in_turn || napi_open_handle_scope(s->env, &scope) != napi_ok)
        return;
    s->is_in_turn = true;
    s->needs_turn = s->has_events = false;
    if (s->fleet != NULL)
        mr_meter_add(&s->fleet->seats[s->seat].meter.turns, 1);
    if (is_polling && s->fleet != NULL)
        note_lateness(s);
    if (!is_polling)
        (void)mr_engine_update_clock(s->engine);
    else if (mr_engine_poll(s->engine, 0) != MR_OK)
        s->is_close_wanted = true;
    if (is_polling && s->fleet != NULL)
        s->polled_ns = uv_hrtime();
    mr_rings_drain(&s->rings);
    for (int round = 0; round < ROUNDS_PER_TURN && !s->is_close_wanted; round++) {
        bool is_resumed;
        if (has_news(s))
            enter_js(s);
        is_resumed = !s->is_close_wanted && mr_engine_resume(s->engine);
        if (!is_resumed && !has_news(s))
            break;
    }
    if (s->rings.request_count > 0 && !s->is_close_wanted)
        enter_js(s);
    finish_turn(s);
    (void)napi_close_handle_scope(s->env, scope);
}

void mr_pump_flush(mr_server *s)
{
    if (s->is_in_turn || s->is_closing)
        return;
    mr_engine_flush(s->engine);
    s->needs_turn = true; /* for time-outs that were set, connections that may go on, the dead */
}

/* ---- handles ---- */

static void on_readable(uv_poll_t *handle, int status, int events)
{
    (void)status, (void)events;
    run_turn(handle->data, true);
}

static void on_timer(uv_timer_t *handle);

/* All events of a round share one reading of the clock, as those of a poll do. */
static void on_net_event(void *owner)
{
    mr_server *s = owner;
    if (s->has_events)
        return;
    s->has_events = s->needs_turn = true;
    (void)mr_engine_update_clock(s->engine);
}

static void on_check(uv_check_t *handle)
{
    mr_server *s = handle->data;
    if (!s->has_events && !s->is_timer_due)
        return;
    if (s->is_timer_due) {
        (void)uv_timer_stop(&s->timer);
        s->timer_ms = UINT64_MAX;
        s->is_timer_due = false;
    }
    run_turn(s, true);
}

/* Where the loop polls for us, time-outs wait until it has; it must not block then. */
static bool leaves_turn_to_check(mr_server *s)
{
    if (!s->is_timer_due || s->check.data != s)
        return false;
    s->timer_ms = 0;
    return uv_timer_start(&s->timer, on_timer, 0, 0) == 0;
}

static void on_prepare(uv_prepare_t *handle)
{
    mr_server *s = handle->data;
    mr_env *home = s->home;
    if (!wants_turn(s) || leaves_turn_to_check(s))
        return;
    bool is_polling = s->is_timer_due; /* what has come counts before it is found to be late */
    s->is_timer_due = false;
    run_turn(s, is_polling);
    /* What ran may have answered for servers whose prepare is behind us: the loop must not block. */
    for (mr_server *other = home->servers; other != NULL; other = other->next)
        if (!other->is_closing && wants_turn(other))
            rearm_timer(other);
}

/* The turn is run by the prepare handle, which is next: libuv fires a timer that is set again at once
 * in its own callback for ever, without getting to anything else. */
static void on_timer(uv_timer_t *handle)
{
    mr_server *s = handle->data;
    s->timer_ms = UINT64_MAX;
    s->is_timer_due = true;
}

/* A timer that fires too early costs one turn; one that is moved at each request costs more. */
static void rearm_timer(mr_server *s)
{
    uint64_t next_ms = wants_turn(s) ? 0 : mr_engine_next_ms(s->engine);
    if (next_ms >= s->timer_ms)
        return;
    uint64_t now_ms = mr_engine_update_clock(s->engine);
    /* One more: libuv's clock is cut to milliseconds as ours is, and may be behind by one. */
    if (uv_timer_start(&s->timer, on_timer, next_ms > now_ms ? next_ms - now_ms + 1 : 0, 0) == 0)
        s->timer_ms = next_ms;
}

static void free_if_over(mr_server *s)
{
    if (s->is_closing && s->open_handles == 0 && s->net.handle_count == 0)
        mr_server_free(s);
}

static void on_net_empty(void *owner) { free_if_over(owner); }

static void on_handle_closed(uv_handle_t *handle)
{
    mr_server *s = handle->data;
    s->open_handles--;
    free_if_over(s);
}

static void close_handle(mr_server *s, void *handle)
{
    uv_handle_t *h = handle;
    if (h->data == s && !uv_is_closing(h))
        uv_close(h, on_handle_closed);
}

void mr_pump_prepare_net(mr_server *s, uv_loop_t *loop)
{
    mr_uv_net_init(&s->net, loop, on_net_event, on_net_empty, s);
}

static mr_rc start_poll(mr_server *s, uv_loop_t *loop, int fd)
{
    if (uv_poll_init(loop, &s->poll, fd) != 0)
        return MR_FATAL;
    s->poll.data = s;
    s->open_handles++;
    return uv_poll_start(&s->poll, UV_READABLE, on_readable) == 0 ? MR_OK : MR_FATAL;
}

static mr_rc start_check(mr_server *s, uv_loop_t *loop)
{
    (void)uv_check_init(loop, &s->check); /* cannot fail */
    s->check.data = s;
    s->open_handles++;
    return uv_check_start(&s->check, on_check) == 0 ? MR_OK : MR_FATAL;
}

mr_rc mr_pump_start(mr_server *s, uv_loop_t *loop)
{
    int fd = mr_engine_backend_fd(s->engine);
    s->timer_ms = UINT64_MAX;
    mr_rc rc = fd >= 0 ? start_poll(s, loop, fd) : start_check(s, loop);
    if (rc != MR_OK)
        return rc;
    (void)uv_prepare_init(loop, &s->prepare); /* cannot fail */
    (void)uv_timer_init(loop, &s->timer);
    s->prepare.data = s->timer.data = s;
    s->open_handles += 2;
    uv_unref((uv_handle_t *)&s->prepare);
    uv_unref((uv_handle_t *)&s->timer);
    if (uv_prepare_start(&s->prepare, on_prepare) != 0)
        return MR_FATAL;
    rearm_timer(s);
    return MR_OK;
}

void mr_pump_stop(mr_server *s)
{
    s->is_close_wanted = true;
    if (s->is_in_turn || s->is_closing)
        return;
    s->is_closing = true;
    mr_server_unlisten(s);
    /* The poll handle goes before the descriptor that it watches. */
    if (s->poll.data == s)
        (void)uv_poll_stop(&s->poll);
    mr_routes_destroy(s->new_routes);
    mr_rings_free_replies(&s->rings); /* they are in the engine's books */
    mr_engine_destroy(s->engine);
    s->new_routes = NULL;
    s->engine = NULL;
    if (s->open_handles == 0) {
        free_if_over(s);
        return;
    }
    close_handle(s, &s->poll);
    close_handle(s, &s->check);
    close_handle(s, &s->prepare);
    close_handle(s, &s->timer);
}
