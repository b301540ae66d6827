/* member.c -- see member.h: birth, mail up to JavaScript, pings, sockets, end. */
#include "binding/member.h"
#include "binding/fleets.h"
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ACCEPTS_PER_EVENT 64 /* so that accepting never starves the loop's other work */
#define ACCEPT_REFUSED (-1)
#define READS_PER_BELL 16 /* calls of JavaScript, before the loop's other work gets its turn */

/* ---- mail up ---- */

static bool add_large(mr_member *m, const mr_mail *mail)
{
    napi_value list, buffer;
    if (m->large == NULL && (napi_create_array(m->env, &list) != napi_ok ||
                             napi_create_reference(m->env, list, 1, &m->large) != napi_ok))
        return false;
    return napi_get_reference_value(m->env, m->large, &list) == napi_ok &&
           napi_create_buffer_copy(m->env, mail->len, mail->bytes, NULL, &buffer) == napi_ok &&
           napi_set_element(m->env, list, m->large_count, buffer) == napi_ok;
}

static void write_record(mr_member *m, uint32_t from, const mr_mail *mail, uint32_t offset)
{
    uint32_t *r = m->records + (size_t)m->record_count++ * MR_MAIL_WORDS;
    r[0] = mail->kind;
    r[1] = mail->flags;
    uint32_t thread = atomic_load_explicit(&m->fleet->seats[from].thread, memory_order_relaxed);
    r[2] = from | (thread + 1) << 16; /* the supervisor's is MR_NO_SEAT: 0 */
    r[3] = mail->name;
    r[4] = (uint32_t)mail->call;
    r[5] = (uint32_t)(mail->call >> 32);
    r[6] = offset;
    r[7] = (uint32_t)mail->len;
}

/* A message that does not fit beside the others waits for the next call; one that never fits goes
 * as a Buffer of its own, and where there is no memory for that, it is lost and counted. */
static bool take_message(mr_member *m, uint32_t from, const mr_mail *mail)
{
    if (m->record_count == MR_MAIL_RECORDS)
        return false;
    if (mail->len > MR_MAIL_INBOX_BYTES) {
        if (add_large(m, mail)) {
            m->large_count++;
            write_record(m, from, mail, MR_MAIL_IS_LARGE);
        } else {
            atomic_fetch_add_explicit(&m->fleet->mail_lost, 1, memory_order_relaxed);
        }
        return true;
    }
    if (mail->len > MR_MAIL_INBOX_BYTES - m->byte_count)
        return false;
    if (mail->len > 0)
        memcpy(m->bytes + m->byte_count, mail->bytes, mail->len);
    write_record(m, from, mail, (uint32_t)m->byte_count);
    m->byte_count += mail->len;
    return true;
}

static void adopt(mr_member *m, const mr_mail *mail)
{
    mr_handed_socket given;
    if (mail->len != sizeof given)
        return;
    memcpy(&given, mail->bytes, sizeof given);
    for (mr_server *s = m->home->servers; s != NULL; s = s->next) {
        if (s->is_closing || s->fleet != m->fleet || !(s->listeners >> given.listener & 1u))
            continue;
        mr_engine_adopt(s->engine, &given);
        s->needs_turn = true;
        return;
    }
    atomic_fetch_sub_explicit(&m->fleet->seats[m->seat].load, 1, memory_order_relaxed);
    mr_fleet_drop_socket(m->fleet, &given);
}

static bool on_message(void *arg, uint32_t from, const mr_mail *mail)
{
    mr_member *m = arg;
    if (mail->kind != MR_MAIL_SOCKET)
        return take_message(m, from, mail);
    adopt(m, mail);
    return true;
}

static void enter_js(mr_member *m)
{
    napi_value holder, callback, args[2];
    uint32_t count = m->record_count;
    m->record_count = 0;
    m->byte_count = 0;
    m->large_count = 0;
    if (napi_get_reference_value(m->env, m->holder, &holder) != napi_ok ||
        napi_get_reference_value(m->env, m->on_mail, &callback) != napi_ok ||
        napi_create_uint32(m->env, count, &args[0]) != napi_ok ||
        napi_get_undefined(m->env, &args[1]) != napi_ok)
        return;
    if (m->large != NULL) {
        (void)napi_get_reference_value(m->env, m->large, &args[1]);
        (void)napi_delete_reference(m->env, m->large);
        m->large = NULL;
    }
    if (napi_make_callback(m->env, m->async, holder, callback, 2, args, NULL) != napi_ok)
        mr_report_exception(m->env);
}

/* ---- servers in a fleet ---- */

bool mr_server_on_leave(void *rings, int fd, const mr_peer *peer)
{
    const mr_server *s = (mr_server *)((char *)rings - offsetof(mr_server, rings));
    mr_handed_socket socket = {.fd = fd, .is_counted = true, .peer = *peer};
    uint32_t lowest = s->listeners & (0u - s->listeners);
    while (lowest >> socket.listener > 1u)
        socket.listener++;
    if (mr_fleet_send_socket(s->fleet, s->seat, s->heir, &socket) != MR_OK)
        return false;
    mr_meter_add(&s->fleet->seats[s->seat].meter.handed_over, 1);
    return true;
}

void mr_server_unlisten(mr_server *s)
{
    for (uint32_t i = 0; s->fleet != NULL && i < MR_FLEET_LISTENERS_MAX; i++)
        if (s->listeners >> i & 1u)
            mr_fleet_unlisten(s->fleet, s->seat, i);
    /* The bits stay: connections that are on their way here are still taken in. */
}

static void deliver(mr_member *m)
{
    if (m->record_count > 0 && !m->is_closing)
        enter_js(m);
}

/* ---- beats ---- */

static void beat(mr_member *m, uv_loop_t *loop)
{
    mr_meter *meter = &m->fleet->seats[m->seat].meter;
    uint64_t now_ns = uv_hrtime();
    uint64_t late_ns = mr_fleet_beat(m->fleet, m->seat, now_ns);
    uint64_t idle_ns = uv_metrics_idle_time(loop);
    mr_meter_set(&meter->beat_ns, now_ns);
    if (late_ns == 0)
        return;
    mr_meter_lag(meter, late_ns);
    mr_meter_add(&meter->idle_ns, idle_ns - m->idle_mark_ns);
    mr_meter_add(&meter->busy_ns, now_ns - m->beat_mark_ns - (idle_ns - m->idle_mark_ns));
    m->idle_mark_ns = idle_ns;
    m->beat_mark_ns = now_ns;
}

static void sync_watches(mr_member *m, uv_loop_t *loop);

/* A thread that is being terminated still turns its loop: what has come for it is left for others. */
static bool is_terminating(const mr_member *m)
{
    napi_value holder;
    bool has = false;
    return napi_get_reference_value(m->env, m->holder, &holder) != napi_ok ||
           napi_has_named_property(m->env, holder, "records", &has) != napi_ok;
}

static void on_bell(uv_async_t *handle)
{
    mr_member *m = handle->data;
    napi_handle_scope scope;
    if (m->is_closing || napi_open_handle_scope(m->env, &scope) != napi_ok)
        return;
    if (is_terminating(m)) {
        (void)napi_close_handle_scope(m->env, scope);
        return;
    }
    beat(m, handle->loop);
    if (m->seat == MR_SUPERVISOR)
        sync_watches(m, handle->loop);
    bool is_over = false;
    for (int i = 0; i < READS_PER_BELL && !is_over; i++) {
        if (!mr_fleet_read_more(m->fleet, m->seat, on_message, m))
            break;
        deliver(m);
        is_over = m->is_closing || is_terminating(m); /* in the middle of a handler, perhaps */
    }
    if (!is_over)
        (void)mr_fleet_read(m->fleet, m->seat, on_message, m); /* rings again for what stayed */
    if (!is_over)
        deliver(m);
    (void)napi_close_handle_scope(m->env, scope);
}

/* Any thread. */
static void ring(void *async) { (void)uv_async_send(async); }

/* ---- the supervisor's sockets ---- */

static uint32_t gather(mr_member *m, uint32_t listener, mr_handed_socket *sockets, uint32_t most)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < most; i++) {
        mr_rc rc = mr_fleet_accept(m->fleet, listener, 0, &sockets[count]);
        if (rc == MR_LIMIT)
            m->is_watch_paused = true;
        if (rc == MR_LIMIT || rc == MR_AGAIN)
            break;
        count += rc == MR_OK;
    }
    return count;
}

static napi_value peer_list(mr_member *m, const mr_handed_socket *sockets, uint32_t count)
{
    napi_value list, item;
    if (napi_create_array_with_length(m->env, count * 3, &list) != napi_ok)
        return NULL;
    for (uint32_t i = 0; i < count; i++) {
        char text[INET6_ADDRSTRLEN] = "";
        const mr_peer *peer = &sockets[i].peer;
        if (peer->family != 0)
            (void)inet_ntop(peer->family == 4 ? AF_INET : AF_INET6, peer->address, text,
                            sizeof text);
        if (napi_create_int32(m->env, sockets[i].fd, &item) != napi_ok ||
            napi_set_element(m->env, list, i * 3, item) != napi_ok ||
            napi_create_string_latin1(m->env, text, NAPI_AUTO_LENGTH, &item) != napi_ok ||
            napi_set_element(m->env, list, i * 3 + 1, item) != napi_ok ||
            napi_create_uint32(m->env, peer->port, &item) != napi_ok ||
            napi_set_element(m->env, list, i * 3 + 2, item) != napi_ok)
            return NULL;
    }
    return list;
}

/* What the program's functions say; without an answer each is the next in turn's. */
static void ask(mr_member *m, const mr_handed_socket *sockets, uint32_t count, int32_t *threads)
{
    napi_value holder, callback, list, said, item;
    for (uint32_t i = 0; i < count; i++)
        threads[i] = -2;
    if ((list = peer_list(m, sockets, count)) == NULL ||
        napi_get_reference_value(m->env, m->holder, &holder) != napi_ok ||
        napi_get_reference_value(m->env, m->on_accept, &callback) != napi_ok)
        return;
    if (napi_make_callback(m->env, m->async, holder, callback, 1, &list, &said) != napi_ok) {
        mr_report_exception(m->env);
        return;
    }
    for (uint32_t i = 0; i < count; i++)
        if (napi_get_element(m->env, said, i, &item) == napi_ok)
            (void)napi_get_value_int32(m->env, item, &threads[i]);
}

static void place(mr_member *m, mr_handed_socket *socket, int32_t thread)
{
    if (thread == ACCEPT_REFUSED) {
        close(socket->fd);
        mr_meter_add(&m->fleet->seats[m->seat].meter.refused_admit, 1);
        return;
    }
    uint32_t wanted = thread < 0 ? MR_NO_SEAT : (uint32_t)thread;
    (void)!mr_fleet_hand_over(m->fleet, wanted, socket); /* else it is closed, and counted there */
}

static void on_connections(uv_poll_t *handle, int status, int events)
{
    mr_member *m = handle->data;
    mr_handed_socket sockets[ACCEPTS_PER_EVENT];
    int32_t threads[ACCEPTS_PER_EVENT];
    napi_handle_scope scope;
    (void)status, (void)events;
    if (m->is_closing || napi_open_handle_scope(m->env, &scope) != napi_ok)
        return;
    uint32_t count = gather(m, (uint32_t)(handle - m->watches), sockets, ACCEPTS_PER_EVENT);
    for (uint32_t i = 0; i < count; i++)
        threads[i] = -2;
    if (count > 0 && m->on_accept != NULL)
        ask(m, sockets, count, threads);
    for (uint32_t i = 0; i < count; i++)
        place(m, &sockets[i], threads[i]);
    if (m->is_watch_paused)
        (void)uv_poll_stop(handle); /* the next ping tries again */
    (void)napi_close_handle_scope(m->env, scope);
}

static void on_handle_closed(uv_handle_t *handle);

/* Watches what the supervisor has to accept from and does not watch yet. */
static void sync_watches(mr_member *m, uv_loop_t *loop)
{
    for (uint32_t i = 0; i < MR_FLEET_LISTENERS_MAX; i++) {
        int fd = mr_fleet_watched_fd(m->fleet, i);
        if (fd < 0 || m->watches[i].data != NULL || uv_poll_init(loop, &m->watches[i], fd) != 0)
            continue;
        m->watches[i].data = m;
        m->open_handles++;
        (void)uv_poll_start(&m->watches[i], UV_READABLE, on_connections);
    }
}

static void resume_watches(mr_member *m)
{
    m->is_watch_paused = false;
    for (uint32_t i = 0; i < MR_FLEET_LISTENERS_MAX; i++)
        if (m->watches[i].data != NULL && !uv_is_closing((uv_handle_t *)&m->watches[i]))
            (void)uv_poll_start(&m->watches[i], UV_READABLE, on_connections);
}

void mr_member_stop_watches(mr_member *m)
{
    for (uint32_t i = 0; i < MR_FLEET_LISTENERS_MAX; i++)
        if (m->watches[i].data != NULL && !uv_is_closing((uv_handle_t *)&m->watches[i]))
            uv_close((uv_handle_t *)&m->watches[i], on_handle_closed);
}

static void on_ping(uv_timer_t *timer)
{
    mr_member *m = timer->data;
    uint64_t now_ns = uv_hrtime();
    (void)mr_fleet_beat(m->fleet, MR_SUPERVISOR, now_ns);
    mr_fleet_ping(m->fleet, now_ns);
    mr_fleet_rescue(m->fleet, now_ns);
    if (m->is_watch_paused)
        resume_watches(m);
}

/* ---- birth ---- */

static bool make_inbox(mr_member *m, napi_value holder)
{
    napi_value memory, view;
    void *data;
    size_t record_bytes = MR_MAIL_RECORDS * MR_MAIL_WORDS * sizeof(uint32_t);
    if (napi_create_arraybuffer(m->env, record_bytes + MR_MAIL_INBOX_BYTES, &data, &memory) !=
        napi_ok)
        return false;
    m->records = data;
    m->bytes = (uint8_t *)data + record_bytes;
    return napi_create_typedarray(m->env, napi_uint32_array, MR_MAIL_RECORDS * MR_MAIL_WORDS,
                                  memory, 0, &view) == napi_ok &&
           napi_set_named_property(m->env, holder, "records", view) == napi_ok &&
           napi_create_typedarray(m->env, napi_uint8_array, MR_MAIL_INBOX_BYTES, memory,
                                  record_bytes, &view) == napi_ok &&
           napi_set_named_property(m->env, holder, "bytes", view) == napi_ok;
}

static bool make_references(mr_member *m, napi_value holder, napi_value on_mail,
                            napi_value on_accept)
{
    napi_value name;
    napi_valuetype type;
    if (napi_create_string_utf8(m->env, "MillraceMail", NAPI_AUTO_LENGTH, &name) != napi_ok ||
        napi_async_init(m->env, NULL, name, &m->async) != napi_ok ||
        napi_create_reference(m->env, holder, 1, &m->holder) != napi_ok ||
        napi_create_reference(m->env, on_mail, 1, &m->on_mail) != napi_ok ||
        napi_typeof(m->env, on_accept, &type) != napi_ok)
        return false;
    return type != napi_function ||
           napi_create_reference(m->env, on_accept, 1, &m->on_accept) == napi_ok;
}

static bool start_handles(mr_member *m, uv_loop_t *loop, uint32_t ping_ms)
{
    if (uv_async_init(loop, &m->bell, on_bell) != 0)
        return false;
    m->bell.data = m;
    m->open_handles++;
    uv_unref((uv_handle_t *)&m->bell);
    m->beat_mark_ns = uv_hrtime();
    m->idle_mark_ns = uv_metrics_idle_time(loop);
    mr_fleet_arrive(m->fleet, m->seat, ring, &m->bell);
    ring(&m->bell); /* for what was posted before */
    if (m->seat != MR_SUPERVISOR)
        return true;
    (void)uv_timer_init(loop, &m->ping); /* cannot fail */
    m->ping.data = m;
    m->open_handles++;
    uv_unref((uv_handle_t *)&m->ping);
    return uv_timer_start(&m->ping, on_ping, ping_ms, ping_ms) == 0;
}

mr_member *mr_member_create(mr_env *home, mr_fleet *fleet, uint32_t seat, napi_value holder,
                            napi_value on_mail, napi_value on_accept, uint32_t ping_ms)
{
    uv_loop_t *loop = NULL;
    mr_member *m = calloc(1, sizeof *m);
    if (m == NULL || napi_get_uv_event_loop(home->env, &loop) != napi_ok) {
        free(m);
        mr_fleet_release(fleet);
        return NULL;
    }
    m->home = home;
    m->env = home->env;
    m->fleet = fleet;
    m->seat = seat;
    m->next = home->members;
    home->members = m;
    if (make_inbox(m, holder) && make_references(m, holder, on_mail, on_accept) &&
        start_handles(m, loop, ping_ms))
        return m;
    mr_member_end(m);
    return NULL;
}

/* ---- end ---- */

static void free_member(mr_member *m)
{
    mr_env *home = m->home;
    mr_member **link = &home->members;
    napi_ref refs[] = {m->on_mail, m->on_accept, m->holder, m->large};
    napi_handle_scope scope;
    while (*link != m)
        link = &(*link)->next;
    *link = m->next;
    if (!home->is_ending && napi_open_handle_scope(m->env, &scope) == napi_ok) {
        if (m->async != NULL)
            (void)napi_async_destroy(m->env, m->async);
        for (size_t i = 0; i < sizeof refs / sizeof refs[0]; i++)
            if (refs[i] != NULL)
                (void)napi_delete_reference(m->env, refs[i]);
        (void)napi_close_handle_scope(m->env, scope);
    }
    mr_fleet_release(m->fleet);
    free(m);
    mr_env_end_if_empty(home);
}

static void on_handle_closed(uv_handle_t *handle)
{
    mr_member *m = handle->data;
    handle->data = NULL;
    if (--m->open_handles == 0 && m->is_closing)
        free_member(m);
}

void mr_member_end(mr_member *m)
{
    if (m->is_closing)
        return;
    m->is_closing = true;
    if (m->handle != NULL)
        *m->handle = NULL;
    if (m->seat == MR_SUPERVISOR) {
        mr_fleets_forget(m->fleet);
        mr_bell_close(&m->fleet->seats[MR_SUPERVISOR].bell);
        mr_member_stop_watches(m);
        mr_fleet_close_listeners(m->fleet);
    } else {
        mr_fleet_leave(m->fleet, m->seat);
    }
    if (m->open_handles == 0) {
        free_member(m);
        return;
    }
    if (m->bell.data != NULL)
        uv_close((uv_handle_t *)&m->bell, on_handle_closed);
    if (m->ping.data != NULL)
        uv_close((uv_handle_t *)&m->ping, on_handle_closed);
}

/* One that has no open handle frees itself at once: take the next before. */
void mr_members_end(mr_env *home)
{
    for (mr_member *m = home->members, *next; m != NULL; m = next) {
        next = m->next;
        mr_member_end(m);
    }
}
