/* epoll.c -- the transport on epoll(7), level-triggered, with a descriptor of its own.
 *
 * A link's interest in the kernel (EPOLLIN, EPOLLOUT) changes only when what we want changes:
 * EPOLLOUT is there only while a write is short, EPOLLIN goes away while data is not wanted or the
 * peer has ended. Bytes are received into one buffer per transport, lent out for one callback, so a
 * quiet connection owns no receive memory. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "base/check.h"
#include "net/transport.h"
#include "net/unsent.h"
#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/uio.h>
#include <unistd.h>

#define RECV_BYTES (128u * 1024u)
#define EVENT_COUNT 512
#define POLLS_PER_TURN 4      /* full event arrays taken before others get their turn */
#define READS_PER_EVENT 4     /* full receive buffers taken from one link in one event */
#define ACCEPTS_PER_EVENT 256 /* a burst; the rest waits one poll */
#define LISTENERS_MAX 16

enum {
    LINK_WANTS_DATA = 1u << 0,
    LINK_WANTS_ROOM = 1u << 1, /* EPOLLOUT: bytes are queued */
    LINK_SAW_EOF = 1u << 2,
    LINK_FIN_QUEUED = 1u << 3, /* shut down once the queue is empty */
    LINK_IS_DEAD = 1u << 4     /* on_gone was delivered */
};

struct mr_transport {
    mr_mem *mem; /* borrowed */
    const mr_link_events *events;
    void *owner;
    int epoll_fd;
    bool is_accept_paused;
    uint32_t listener_count;
    /* A listener is told apart from a link in epoll's data by its address inside this array. */
    int listeners[LISTENERS_MAX];
    struct epoll_event ready[EVENT_COUNT];
    uint8_t received[RECV_BYTES];
};

static void epoll_destroy(mr_transport *t)
{
    if (t == NULL)
        return;
    for (uint32_t i = 0; i < t->listener_count; i++)
        close(t->listeners[i]);
    if (t->epoll_fd >= 0)
        close(t->epoll_fd);
    mr_mem_free(t->mem, t, sizeof *t);
}

static mr_rc epoll_create_transport(const mr_transport_ops *self, mr_mem *mem,
                                    const mr_link_events *events, void *owner, mr_transport **out)
{
    (void)self;
    mr_transport *t = mr_mem_alloc(mem, sizeof *t);
    if (t == NULL)
        return MR_NOMEM;
    t->mem = mem;
    t->events = events;
    t->owner = owner;
    t->is_accept_paused = false;
    t->listener_count = 0;
    t->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (t->epoll_fd < 0) {
        epoll_destroy(t);
        return MR_FATAL;
    }
    *out = t;
    return MR_OK;
}

static int epoll_backend_fd(const mr_transport *t) { return t->epoll_fd; }

/* ---- interest ---- */

static uint32_t interest_of(const mr_link *link)
{
    uint32_t mask = 0;
    if ((link->flags & LINK_WANTS_DATA) && !(link->flags & LINK_SAW_EOF))
        mask |= EPOLLIN | EPOLLRDHUP;
    if (link->flags & LINK_WANTS_ROOM)
        mask |= EPOLLOUT;
    return mask;
}

static void change_flags(mr_link *link, uint32_t set, uint32_t clear)
{
    uint32_t before = interest_of(link);
    link->flags = (link->flags | set) & ~clear;
    uint32_t now = interest_of(link);
    if (before == now || link->fd < 0)
        return;
    struct epoll_event event = {.events = now, .data.ptr = link};
    /* Cannot fail for a descriptor that is in the set, save for kernel memory: then the link stays
     * as it was and its time-out ends it. */
    (void)epoll_ctl(link->transport->epoll_fd, EPOLL_CTL_MOD, link->fd, &event);
}

static void epoll_want_data(mr_link *link, bool is_wanted)
{
    change_flags(link, is_wanted ? LINK_WANTS_DATA : 0, is_wanted ? 0 : LINK_WANTS_DATA);
}

static mr_rc epoll_attach(mr_transport *t, mr_link *link, int fd)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP, .data.ptr = link};
    *link = (mr_link){.transport = t, .fd = fd, .flags = LINK_WANTS_DATA};
    if (epoll_ctl(t->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0)
        return MR_OK;
    close(fd);
    link->fd = -1;
    return MR_NOMEM;
}

/* ---- sending ---- */

static void epoll_close(mr_link *link)
{
    if (link->fd < 0)
        return;
    close(link->fd); /* leaves the epoll set with it: nobody else holds the description */
    link->fd = -1;
    mr_unsent_clear(link->transport->mem, link);
}

static int epoll_detach(mr_link *link)
{
    int fd = link->fd;
    if (fd < 0 || link->unsent != NULL)
        return -1;
    (void)epoll_ctl(link->transport->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
    link->fd = -1;
    return fd;
}

static bool epoll_has_input(mr_link *link)
{
    uint8_t octet;
    return link->fd >= 0 && recv(link->fd, &octet, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

static mr_rc queue_rest(mr_link *link, const mr_piece_out *pieces, int count, size_t sent,
                        unsigned flags)
{
    mr_rc rc = mr_unsent_add(link->transport->mem, link, pieces, count, sent);
    if (rc != MR_OK)
        return rc;
    change_flags(link, LINK_WANTS_ROOM | ((flags & MR_SEND_FIN) ? LINK_FIN_QUEUED : 0), 0);
    return MR_AGAIN;
}

/* What the socket takes of the vectors: octets, 0 when it is full, -1 when the peer is gone. */
static ssize_t send_vectors(int fd, struct iovec *vectors, int count, size_t total, int how)
{
    ssize_t sent;
    do {
        if (count == 1) {
            sent = send(fd, vectors[0].iov_base, total, how);
        } else {
            struct msghdr message = {.msg_iov = vectors, .msg_iovlen = (size_t)count};
            sent = sendmsg(fd, &message, how);
        }
    } while (sent < 0 && errno == EINTR);
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS || errno == ENOMEM))
        return 0;
    return sent;
}

/* False when a lease is void. */
static bool to_vectors(const mr_piece_out *pieces, int count, struct iovec *vectors, size_t *sum)
{
    size_t total = 0;
    for (int i = 0; i < count; i++) {
        if (!mr_lease_is_valid(pieces[i].lease))
            return false;
        vectors[i].iov_base = (void *)(uintptr_t)pieces[i].bytes;
        vectors[i].iov_len = pieces[i].len;
        total += pieces[i].len;
    }
    *sum = total;
    return true;
}

static mr_rc epoll_send(mr_link *link, const mr_piece_out *pieces, int count, unsigned flags)
{
    /* MSG_MORE holds the last segment back until shutdown() puts the FIN on it. */
    int how = MSG_NOSIGNAL | MSG_DONTWAIT | ((flags & MR_SEND_FIN) ? MSG_MORE : 0);
    struct iovec vectors[MR_SEND_PIECES];
    ssize_t sent = 0;
    if (link->fd < 0)
        return MR_CLOSED;
    if (link->unsent != NULL)
        return queue_rest(link, pieces, count, 0, flags);
    size_t total;
    if (!to_vectors(pieces, count, vectors, &total))
        return MR_CLOSED;
    if (total > 0 && (sent = send_vectors(link->fd, vectors, count, total, how)) < 0)
        return MR_CLOSED;
    if ((size_t)sent < total)
        return queue_rest(link, pieces, count, (size_t)sent, flags);
    if (flags & MR_SEND_FIN)
        (void)shutdown(link->fd, SHUT_WR); /* fails only for a peer that is gone: seen on read */
    return MR_OK;
}

/* ---- events ---- */

static void report_gone(mr_link *link)
{
    if (link->fd < 0 || (link->flags & LINK_IS_DEAD))
        return;
    link->flags |= LINK_IS_DEAD;
    link->transport->events->on_gone(link->transport->owner, link);
}

static bool queued_vectors(const mr_link *link, struct iovec *vectors, int *count, size_t *sum)
{
    size_t total = 0;
    *count = 0;
    for (const mr_unsent *b = link->unsent; b != NULL && *count < MR_SEND_PIECES; b = b->next) {
        if (!mr_lease_is_valid(b->lease))
            return false;
        vectors[*count].iov_base = (void *)(uintptr_t)(b->bytes + b->off);
        vectors[*count].iov_len = b->len - b->off;
        total += b->len - b->off;
        (*count)++;
    }
    *sum = total;
    return true;
}

static void send_queued(mr_link *link)
{
    struct iovec vectors[MR_SEND_PIECES];
    int count;
    size_t total;
    if (link->unsent == NULL)
        return;
    if (!queued_vectors(link, vectors, &count, &total)) {
        report_gone(link);
        return;
    }
    ssize_t sent = send_vectors(link->fd, vectors, count, total, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
        report_gone(link);
        return;
    }
    if (sent > 0)
        mr_unsent_take(link->transport->mem, link, (size_t)sent);
    if (link->unsent != NULL)
        return;
    if (link->flags & LINK_FIN_QUEUED)
        (void)shutdown(link->fd, SHUT_WR);
    change_flags(link, 0, LINK_WANTS_ROOM | LINK_FIN_QUEUED);
    link->transport->events->on_drained(link->transport->owner, link);
}

static void report_eof(mr_link *link)
{
    change_flags(link, LINK_SAW_EOF, 0);
    link->transport->events->on_eof(link->transport->owner, link);
}

static void receive(mr_link *link)
{
    mr_transport *t = link->transport;
    for (int reads = 0; reads < READS_PER_EVENT; reads++) {
        ssize_t got = recv(link->fd, t->received, RECV_BYTES, MSG_DONTWAIT);
        if (got > 0) {
            t->events->on_data(t->owner, link, t->received, (size_t)got);
            /* A short read has most likely emptied the socket: no second call to learn it. */
            if ((size_t)got < RECV_BYTES || link->fd < 0 || !(link->flags & LINK_WANTS_DATA))
                return;
            continue;
        }
        if (got == 0)
            report_eof(link);
        else if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
            report_gone(link);
        return;
    }
}

static void serve_link(mr_link *link, uint32_t events)
{
    if (link->fd < 0)
        return; /* closed by an earlier event of this poll */
    if (events & EPOLLOUT)
        send_queued(link);
    if (link->fd >= 0 && (events & (EPOLLIN | EPOLLRDHUP)) && (link->flags & LINK_WANTS_DATA) &&
        !(link->flags & LINK_SAW_EOF))
        receive(link);
    /* EPOLLHUP: both directions have ended, EPOLLERR: reset. Either shows even without interest;
     * data that came before was read above, unless nobody wants it. */
    if (link->fd >= 0 && (events & (EPOLLERR | EPOLLHUP)))
        report_gone(link);
}

/* ---- accepting ---- */

static bool is_descriptor_shortage(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

/* Returns whether another accept may find something. */
static bool accept_one(mr_transport *t, int listener)
{
    struct sockaddr_storage peer;
    socklen_t len = sizeof peer;
    int fd = accept4(listener, (struct sockaddr *)&peer, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
        t->events->on_accept(t->owner, fd, (struct sockaddr *)&peer, len);
        return true;
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK)
        return false;
    if (is_descriptor_shortage(errno)) {
        t->events->on_accept_problem(t->owner, MR_ACCEPT_NO_DESCRIPTORS);
        return false;
    }
    if (errno != EINTR && errno != ECONNABORTED)
        t->events->on_accept_problem(t->owner, MR_ACCEPT_OTHER);
    return errno == EINTR || errno == ECONNABORTED;
}

static void set_listener_interest(mr_transport *t, uint32_t i, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = &t->listeners[i]};
    (void)epoll_ctl(t->epoll_fd, EPOLL_CTL_MOD, t->listeners[i], &event);
}

static void epoll_pause_accept(mr_transport *t, bool is_paused)
{
    t->is_accept_paused = is_paused;
    for (uint32_t i = 0; i < t->listener_count; i++)
        set_listener_interest(t, i, is_paused ? 0 : EPOLLIN);
}

static mr_rc epoll_listen(mr_transport *t, int fd)
{
    if (t->listener_count < LISTENERS_MAX) {
        int *slot = &t->listeners[t->listener_count];
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = slot};
        if (epoll_ctl(t->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0) {
            *slot = fd;
            t->listener_count++;
            return MR_OK;
        }
    }
    close(fd);
    return MR_INVALID;
}

static void epoll_unlisten(mr_transport *t)
{
    while (t->listener_count > 0) {
        int fd = t->listeners[t->listener_count - 1];
        /* Closing a listener resets what waits in its queue: take those in first. */
        for (int i = 0; i < INT_MAX && accept_one(t, fd); i++)
            ;
        /* The socket may live on under another descriptor, and would go on to report here. */
        (void)epoll_ctl(t->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
        close(fd);
        t->listener_count--;
    }
}

static bool is_listener(const mr_transport *t, const void *pointer)
{
    return (uintptr_t)pointer >= (uintptr_t)t->listeners &&
           (uintptr_t)pointer < (uintptr_t)(t->listeners + LISTENERS_MAX);
}

static void serve_listener(mr_transport *t, int *listener)
{
    if (listener >= t->listeners + t->listener_count)
        return; /* closed by an earlier event of this poll */
    for (int i = 0; i < ACCEPTS_PER_EVENT && !t->is_accept_paused; i++)
        if (!accept_one(t, *listener))
            return;
}

static mr_rc epoll_poll(mr_transport *t, int timeout_ms)
{
    for (int polls = 0; polls < POLLS_PER_TURN; polls++) {
        int count = epoll_wait(t->epoll_fd, t->ready, EVENT_COUNT, polls == 0 ? timeout_ms : 0);
        if (count < 0)
            return errno == EINTR ? MR_OK : MR_FATAL;
        for (int i = 0; i < count; i++) {
            void *pointer = t->ready[i].data.ptr;
            if (is_listener(t, pointer))
                serve_listener(t, pointer);
            else
                serve_link(pointer, t->ready[i].events);
        }
        if (count < EVENT_COUNT)
            break;
    }
    return MR_OK;
}

const mr_transport_ops mr_transport_epoll = {
    .name = "epoll",
    .create = epoll_create_transport,
    .destroy = epoll_destroy,
    .backend_fd = epoll_backend_fd,
    .poll = epoll_poll,
    .listen = epoll_listen,
    .pause_accept = epoll_pause_accept,
    .unlisten = epoll_unlisten,
    .attach = epoll_attach,
    .want_data = epoll_want_data,
    .send = epoll_send,
    .detach = epoll_detach,
    .has_input = epoll_has_input,
    .close = epoll_close,
};
