/* balance.c -- where connections go: the fleet's listening sockets, and the supervisor's hand-over
 * of connections that it accepted. See fleet.h.
 *
 * One owner of a descriptor at any time: accept -> mr_handed_socket -> the mailbox -> the engine
 * that reads it. Whoever fails to pass it on closes it. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L /* F_DUPFD_CLOEXEC, clock_gettime */
#endif
#include "base/check.h"
#include "engine/fleet.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define RESCUES_PER_PING 256u /* connections of one socket, before the next one gets its turn */

/* ---- listening ---- */

static bool is_open(const mr_listener *l)
{
    return atomic_load_explicit(&l->is_open, memory_order_acquire);
}

static mr_listener *find(mr_fleet *f, const char *key)
{
    for (uint32_t i = 0; i < MR_FLEET_LISTENERS_MAX; i++)
        if (is_open(&f->listeners[i]) && strcmp(f->listeners[i].key, key) == 0)
            return &f->listeners[i];
    return NULL;
}

static mr_listener *find_room(mr_fleet *f)
{
    for (uint32_t i = 0; i < MR_FLEET_LISTENERS_MAX; i++)
        if (!is_open(&f->listeners[i]))
            return &f->listeners[i];
    return NULL;
}

static void close_all(mr_listener *l)
{
    atomic_store_explicit(&l->is_open, false, memory_order_release);
    if (l->has_file)
        mr_sock_remove_file(&l->file);
    l->has_file = false;
    while (l->fd_count > 0)
        close(l->fds[--l->fd_count]);
}

/* Port 0 is settled by the first socket. */
static mr_rc open_sockets(mr_listener *l, const mr_listen_options *options, uint32_t count,
                          int *error)
{
    mr_listen_options each = *options;
    each.is_shared = count > 1 || options->is_shared;
    while (l->fd_count < count) {
        mr_rc rc = mr_sock_listen(&each, &l->fds[l->fd_count], error);
        if (rc != MR_OK) {
            close_all(l);
            return rc;
        }
        if (l->fd_count++ == 0) {
            l->has_file = mr_sock_has_file(options);
            if (l->has_file)
                mr_sock_note_file(options, &l->file);
            each.port = l->port = mr_sock_port(l->fds[0]);
        }
    }
    return MR_OK;
}

static mr_rc open_listener(mr_fleet *f, const char *key, const mr_listen_options *options,
                           mr_listener **out, int *error)
{
    mr_listener *l = find_room(f);
    bool is_spread = f->balance == MR_BALANCE_REUSEPORT && options->kind == MR_LISTEN_TCP;
    if (l == NULL || strlen(key) >= sizeof l->key) {
        *error = ENOSPC;
        return MR_LIMIT;
    }
    l->balance = is_spread                            ? MR_BALANCE_REUSEPORT
                 : f->balance == MR_BALANCE_REUSEPORT ? MR_BALANCE_ROTATE
                                                      : f->balance;
    mr_rc rc = open_sockets(l, options, is_spread ? f->thread_count : 1, error);
    if (rc == MR_OK && is_spread && f->keeps_cpu &&
        (rc = mr_sock_steer_by_cpu(l->fds[0], l->fd_count, error)) != MR_OK)
        close_all(l);
    if (rc != MR_OK)
        return rc;
    strcpy(l->key, key); /* its length was checked above */
    atomic_store_explicit(&l->is_open, true, memory_order_release);
    *out = l;
    return MR_OK;
}

static bool is_user(const mr_listener *l, uint32_t seat)
{
    return atomic_load_explicit(&l->users[seat >> 6], memory_order_acquire) >> (seat & 63u) & 1u;
}

static mr_rc duplicate(const mr_listener *l, uint32_t thread, int *fd, int *error)
{
    *fd = -1;
    if (l->balance != MR_BALANCE_REUSEPORT)
        return MR_OK;
    *fd = fcntl(l->fds[thread], F_DUPFD_CLOEXEC, 3);
    if (*fd >= 0)
        return MR_OK;
    *error = errno;
    return MR_INVALID;
}

static mr_rc join(mr_fleet *f, uint32_t seat, mr_listener *l, int *fd, int *error)
{
    uint32_t thread = atomic_load_explicit(&f->seats[seat].thread, memory_order_relaxed);
    if (is_user(l, seat)) {
        *error = EADDRINUSE;
        return MR_INVALID;
    }
    mr_rc rc = duplicate(l, thread, fd, error);
    if (rc == MR_OK)
        atomic_fetch_or_explicit(&l->users[seat >> 6], UINT64_C(1) << (seat & 63u),
                                 memory_order_release);
    return rc;
}

mr_rc mr_fleet_listen(mr_fleet *f, uint32_t seat, const char *key, const mr_listen_options *options,
                      uint32_t *listener, uint16_t *port, int *fd, int *error)
{
    mr_rc rc = MR_OK;
    *error = ENOMEM;
    mr_fleet_lock(f);
    mr_listener *l = find(f, key);
    if (atomic_load_explicit(&f->is_ending, memory_order_relaxed)) {
        *error = ECANCELED;
        rc = MR_INVALID;
    } else if (l == NULL) {
        rc = open_listener(f, key, options, &l, error);
    }
    if (rc == MR_OK && (rc = join(f, seat, l, fd, error)) == MR_OK) {
        *listener = (uint32_t)(l - f->listeners);
        *port = l->port;
        mr_bell_ring(&f->seats[MR_SUPERVISOR].bell, seat); /* it may have a socket to watch */
    }
    mr_fleet_unlock(f);
    return rc;
}

int mr_fleet_watched_fd(mr_fleet *f, uint32_t listener)
{
    if (listener >= MR_FLEET_LISTENERS_MAX)
        return -1;
    const mr_listener *l = &f->listeners[listener];
    return is_open(l) && l->balance != MR_BALANCE_REUSEPORT ? l->fds[0] : -1;
}

void mr_fleet_unlisten(mr_fleet *f, uint32_t seat, uint32_t listener)
{
    if (listener < MR_FLEET_LISTENERS_MAX)
        atomic_fetch_and_explicit(&f->listeners[listener].users[seat >> 6],
                                  ~(UINT64_C(1) << (seat & 63u)), memory_order_relaxed);
}

void mr_fleet_sweep_listeners(mr_fleet *f)
{
    mr_fleet_lock(f);
    for (uint32_t i = 0; i < MR_FLEET_LISTENERS_MAX; i++) {
        mr_listener *l = &f->listeners[i];
        uint64_t users = 0;
        for (uint32_t w = 0; w < MR_BELL_WORDS; w++)
            users |= atomic_load_explicit(&l->users[w], memory_order_relaxed);
        if (is_open(l) && users == 0)
            close_all(l);
    }
    mr_fleet_unlock(f);
}

/* Accepts until nothing waits; each connection goes to somebody or is closed. */
static void empty_queue(mr_fleet *f, uint32_t listener, uint32_t which, uint32_t most)
{
    mr_handed_socket socket;
    for (uint32_t i = 0; i < most; i++) {
        mr_rc rc = mr_fleet_accept(f, listener, which, &socket);
        if (rc == MR_AGAIN || rc == MR_LIMIT)
            return;
        if (rc == MR_OK)
            (void)!mr_fleet_hand_over(f, MR_NO_SEAT, &socket); /* else closed, and counted there */
    }
}

void mr_fleet_close_listeners(mr_fleet *f)
{
    atomic_store_explicit(&f->is_ending, true, memory_order_relaxed);
    for (uint32_t i = 0; i < MR_FLEET_LISTENERS_MAX; i++) {
        mr_listener *l = &f->listeners[i];
        if (!is_open(l))
            continue;
        if (l->balance != MR_BALANCE_REUSEPORT)
            empty_queue(f, i, 0, UINT32_MAX);
        mr_fleet_lock(f);
        close_all(l);
        mr_fleet_unlock(f);
    }
}

/* ---- accepting ---- */

mr_rc mr_fleet_accept(mr_fleet *f, uint32_t listener, uint32_t which, mr_handed_socket *out)
{
    int error = 0;
    if (listener >= MR_FLEET_LISTENERS_MAX)
        return MR_AGAIN;
    const mr_listener *l = &f->listeners[listener];
    if (!is_open(l) || which >= l->fd_count)
        return MR_AGAIN;
    *out = (mr_handed_socket){.listener = listener};
    if ((out->fd = mr_sock_accept(l->fds[which], &out->peer, &error)) >= 0)
        return MR_OK;
    switch (error) {
    case EAGAIN:
    case EINVAL: /* it listens no more: whoever gave us the socket has shut it down */
        return MR_AGAIN;
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOMEM:
        return MR_LIMIT;
    default: /* ECONNABORTED and what else concerns this one (accept(2)) */
        return MR_CLOSED;
    }
}

/* ---- handing over ---- */

static bool takes(const mr_fleet *f, uint32_t thread, uint32_t listener, uint64_t now_ns)
{
    uint32_t seat = mr_fleet_seat_of(f, thread);
    return seat != MR_NO_SEAT && listener < MR_FLEET_LISTENERS_MAX &&
           mr_seat_state_of(&f->seats[seat]) == MR_SEAT_UP &&
           is_user(&f->listeners[listener], seat) && !mr_fleet_is_stuck(f, seat, now_ns);
}

static uint32_t next_in_turn(mr_fleet *f, uint32_t listener, uint64_t now_ns)
{
    for (uint32_t i = 0; i < f->thread_count; i++) {
        uint32_t thread = f->next_turn++ % f->thread_count;
        if (takes(f, thread, listener, now_ns))
            return thread;
    }
    return MR_NO_SEAT;
}

static uint32_t least_loaded(mr_fleet *f, uint32_t listener, uint64_t now_ns)
{
    uint32_t best = MR_NO_SEAT, best_load = UINT32_MAX;
    uint32_t first = f->next_turn++;
    for (uint32_t i = 0; i < f->thread_count; i++) {
        uint32_t thread = (first + i) % f->thread_count;
        if (!takes(f, thread, listener, now_ns))
            continue;
        uint32_t seat = mr_fleet_seat_of(f, thread);
        uint32_t load = atomic_load_explicit(&f->seats[seat].load, memory_order_relaxed);
        if (load < best_load) {
            best = thread;
            best_load = load;
        }
    }
    return best;
}

static bool deliver(mr_fleet *f, uint32_t thread, const mr_handed_socket *socket)
{
    uint32_t seat = mr_fleet_seat_of(f, thread);
    return seat != MR_NO_SEAT && mr_fleet_send_socket(f, MR_SUPERVISOR, seat, socket) == MR_OK;
}

static uint64_t now_ns(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* The one that is asked for, then whoever is next in turn, each at most once. */
mr_rc mr_fleet_hand_over(mr_fleet *f, uint32_t thread, const mr_handed_socket *socket)
{
    uint64_t now = now_ns();
    uint32_t listener = socket->listener;
    if (thread != MR_NO_SEAT && !takes(f, thread, listener, now))
        thread = MR_NO_SEAT;
    if (thread == MR_NO_SEAT)
        thread = f->balance == MR_BALANCE_LEAST ? least_loaded(f, listener, now)
                                                : next_in_turn(f, listener, now);
    for (uint32_t tries = 0; thread != MR_NO_SEAT && tries <= f->thread_count; tries++) {
        if (deliver(f, thread, socket)) {
            mr_meter_add(&f->seats[MR_SUPERVISOR].meter.handed_over, 1);
            atomic_fetch_add_explicit(&f->sockets_handed, 1, memory_order_relaxed);
            return MR_OK;
        }
        thread = next_in_turn(f, listener, now); /* its mailbox is full, or it has just left */
    }
    mr_fleet_drop_socket(f, socket);
    return MR_GONE;
}

static bool is_anybody_well(const mr_fleet *f, uint32_t listener, uint64_t now)
{
    for (uint32_t thread = 0; thread < f->thread_count; thread++)
        if (takes(f, thread, listener, now))
            return true;
    return false;
}

/* Where nobody is well, the queue is the best place to wait. */
void mr_fleet_rescue(mr_fleet *f, uint64_t now)
{
    for (uint32_t i = 0; i < MR_FLEET_LISTENERS_MAX; i++) {
        const mr_listener *l = &f->listeners[i];
        if (!is_open(l) || l->balance != MR_BALANCE_REUSEPORT || !is_anybody_well(f, i, now))
            continue;
        for (uint32_t thread = 0; thread < f->thread_count; thread++)
            if (!takes(f, thread, i, now))
                empty_queue(f, i, thread, RESCUES_PER_PING);
    }
}
