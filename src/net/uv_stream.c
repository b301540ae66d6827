/* uv_stream.c -- see uv_stream.h.
 *
 * open -> closing (the link is forgotten) -> closed (the memory is freed)
 * A link lives inside a connection that is freed at the end of the turn, a libuv handle until its
 * close callback, one round of the loop later. So the handle is an allocation of its own; link and
 * stream point at each other while both are open, and nothing is delivered afterwards.
 *
 * Sending. libuv tells when a write is done, never when a socket is writable, and it reads the
 * octets of a write later, from its own code. Leased octets may be gone by then (JavaScript can
 * transfer their memory away between two rounds), so they are never left with libuv: what is queued
 * leaves by uv_try_write(), which reads them at once, right after their leases were asked. Only a
 * pilot, a copy of the queue's first octets, goes by uv_write(): that it is through says that there
 * is room again. The pilot's octets stay in the queue until then, so that its length is the truth.
 *
 * Accepting is done here and not by uv_listen(): that takes one connection in advance, out of the
 * queue that unlisten() has to empty, and when descriptors are short it accepts and closes what
 * waits instead of leaving it in the queue for better times. A poll handle on the listening socket
 * does neither.
 *
 * No handle keeps the loop alive: that is for its owner to decide. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "net/uv_stream.h"
#include "base/check.h"
#include "net/unsent.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#define RECV_BYTES (128u * 1024u)
#define PILOT_BYTES 4096u
#define ACCEPTS_PER_EVENT 256 /* a burst; the rest waits one round */
#define LISTENERS_MAX 16

enum {
    LINK_IS_OPEN = 1u << 0,
    LINK_WANTS_DATA = 1u << 1,
    LINK_SAW_EOF = 1u << 2,
    LINK_FIN_QUEUED = 1u << 3, /* shut down once the queue is empty */
    LINK_IS_DEAD = 1u << 4     /* on_gone was delivered */
};

/* The write that tells when there is room. */
typedef struct pilot {
    uv_write_t request; /* first */
    size_t len;         /* octets in flight; 0: none */
    uint8_t bytes[PILOT_BYTES];
} pilot;

typedef struct mr_uv_stream {
    uv_tcp_t tcp;   /* first */
    mr_uv_net *net; /* borrowed */
    mr_link *link;  /* borrowed; NULL once closed */
    pilot *pilot;   /* owned; NULL while nothing is queued */
    uv_shutdown_t shutdown;
} mr_uv_stream;

typedef struct listener {
    uv_poll_t poll; /* first */
    mr_uv_net *net; /* borrowed */
    mr_transport *transport;
    int fd; /* owned */
} listener;

struct mr_transport {
    mr_uv_net *net; /* borrowed */
    mr_mem *mem;    /* borrowed; of this and of the links' queues */
    const mr_link_events *events;
    void *owner;
    bool is_accept_paused;
    uint32_t listener_count;
    listener *listeners[LISTENERS_MAX];
    /* One for all: libuv asks for it right before it reads, and the reader gives it back at once.
     * (On Windows too: TCP reads wait there without a buffer.) */
    uint8_t received[RECV_BYTES];
};

static uv_handle_t *handle_of(mr_uv_stream *s) { return (uv_handle_t *)&s->tcp; }
static uv_stream_t *stream_of(mr_uv_stream *s) { return (uv_stream_t *)&s->tcp; }

static void announce(const mr_transport *t) { t->net->on_event(t->net->owner); }

static void count_handle(mr_uv_net *net, uv_handle_t *handle)
{
    net->handle_count++;
    uv_unref(handle);
}

static void uncount_handle(mr_uv_net *net)
{
    MR_ASSERT(net->handle_count > 0);
    if (--net->handle_count == 0)
        net->on_empty(net->owner);
}

/* ---- closing ---- */

/* libuv has called back what was in flight, as cancelled, before this. */
static void on_stream_closed(uv_handle_t *handle)
{
    mr_uv_stream *s = (mr_uv_stream *)handle;
    mr_uv_net *net = s->net;
    mr_mem_free(&net->mem, s->pilot, sizeof *s->pilot);
    mr_mem_free(&net->mem, s, sizeof *s);
    uncount_handle(net);
}

static void uv_link_close(mr_link *link)
{
    if (!(link->flags & LINK_IS_OPEN))
        return;
    mr_uv_stream *s = link->stream;
    link->flags &= ~(uint32_t)LINK_IS_OPEN;
    link->stream = NULL;
    s->link = NULL;
    uv_close(handle_of(s), on_stream_closed); /* the descriptor goes now, the memory later */
    mr_unsent_clear(link->transport->mem, link);
}

/* libuv closes what it has opened: the caller gets a duplicate. */
static int uv_detach(mr_link *link)
{
    uv_os_fd_t fd;
    int copy;
    if (!(link->flags & LINK_IS_OPEN) || link->unsent != NULL ||
        uv_fileno(handle_of(link->stream), &fd) != 0 ||
        (copy = fcntl(fd, F_DUPFD_CLOEXEC, 3)) < 0)
        return -1;
    uv_link_close(link);
    return copy;
}

static bool uv_has_input(mr_link *link)
{
    uv_os_fd_t fd;
    uint8_t octet;
    return (link->flags & LINK_IS_OPEN) && uv_fileno(handle_of(link->stream), &fd) == 0 &&
           recv(fd, &octet, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

static void report_gone(mr_link *link)
{
    if (!(link->flags & LINK_IS_OPEN) || (link->flags & LINK_IS_DEAD))
        return;
    link->flags |= LINK_IS_DEAD;
    link->transport->events->on_gone(link->transport->owner, link);
}

/* ---- receiving ---- */

static void on_wants_buffer(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer)
{
    mr_transport *t = ((mr_uv_stream *)handle)->link->transport;
    (void)suggested;
    *buffer = uv_buf_init((char *)t->received, RECV_BYTES);
}

static void on_read(uv_stream_t *handle, ssize_t got, const uv_buf_t *buffer)
{
    mr_link *link = ((mr_uv_stream *)handle)->link;
    mr_transport *t = link->transport;
    (void)buffer;
    if (got == 0)
        return; /* nothing there, after all */
    announce(t);
    if (got > 0) {
        t->events->on_data(t->owner, link, t->received, (size_t)got);
    } else if (got == UV_EOF) {
        link->flags |= LINK_SAW_EOF;
        t->events->on_eof(t->owner, link);
    } else {
        report_gone(link);
    }
}

static bool is_reading(uint32_t flags)
{
    return (flags & LINK_WANTS_DATA) && !(flags & LINK_SAW_EOF);
}

static void uv_want_data(mr_link *link, bool is_wanted)
{
    bool was_reading = is_reading(link->flags);
    if (!(link->flags & LINK_IS_OPEN))
        return;
    link->flags =
        is_wanted ? link->flags | LINK_WANTS_DATA : link->flags & ~(uint32_t)LINK_WANTS_DATA;
    if (was_reading == is_reading(link->flags))
        return;
    /* Neither fails for an open stream, save that reading cannot start on one that failed: then its
     * time-out ends it. */
    if (is_wanted)
        (void)uv_read_start(stream_of(link->stream), on_wants_buffer, on_read);
    else
        (void)uv_read_stop(stream_of(link->stream));
}

static mr_rc uv_attach(mr_transport *t, mr_link *link, int fd)
{
    mr_uv_stream *s = mr_mem_zalloc(&t->net->mem, sizeof *s);
    if (s == NULL) {
        close(fd);
        return MR_NOMEM;
    }
    s->net = t->net;
    (void)uv_tcp_init(t->net->loop, &s->tcp); /* makes no socket yet: cannot fail */
    count_handle(t->net, handle_of(s));
    if (uv_tcp_open(&s->tcp, fd) != 0) {
        close(fd);
        uv_close(handle_of(s), on_stream_closed);
        return MR_NOMEM;
    }
    *link = (mr_link){.transport = t, .stream = s, .flags = LINK_IS_OPEN | LINK_WANTS_DATA};
    s->link = link;
    if (uv_read_start(stream_of(s), on_wants_buffer, on_read) == 0)
        return MR_OK;
    uv_link_close(link);
    return MR_NOMEM;
}

/* ---- sending ---- */

/* False when a lease is void. */
static bool gather_pieces(const mr_piece_out *pieces, int count, uv_buf_t *buffers, size_t *sum)
{
    *sum = 0;
    for (int i = 0; i < count; i++) {
        if (!mr_lease_is_valid(pieces[i].lease))
            return false;
        buffers[i].base = (char *)(uintptr_t)pieces[i].bytes;
        buffers[i].len = pieces[i].len;
        *sum += pieces[i].len;
    }
    return true;
}

static bool gather_queue(const mr_link *link, uv_buf_t *buffers, unsigned *count, size_t *sum)
{
    *sum = 0;
    *count = 0;
    for (const mr_unsent *b = link->unsent; b != NULL && *count < MR_SEND_PIECES; b = b->next) {
        if (!mr_lease_is_valid(b->lease))
            return false;
        buffers[*count].base = (char *)(uintptr_t)(b->bytes + b->off);
        buffers[*count].len = b->len - b->off;
        *sum += b->len - b->off;
        (*count)++;
    }
    return true;
}

/* What the socket takes of the buffers: octets, 0 when it is full, -1 when the peer is gone. */
static ssize_t try_write(mr_uv_stream *s, const uv_buf_t *buffers, unsigned count)
{
    int sent = uv_try_write(stream_of(s), buffers, count);
    if (sent >= 0)
        return sent;
    return sent == UV_EAGAIN || sent == UV_ENOBUFS || sent == UV_ENOMEM ? 0 : -1;
}

static void on_shut_down(uv_shutdown_t *request, int status)
{
    (void)request, (void)status; /* fails only for a peer that is gone: seen on read */
}

/* libuv does it in the loop's next round, or uv_close() before: either way behind the last octet.
 */
static void shut_down(mr_uv_stream *s)
{
    (void)uv_shutdown(&s->shutdown, stream_of(s), on_shut_down);
}

/* Copies the queue's front; 0 when a lease there is void. */
static size_t fill_pilot(const mr_link *link, uint8_t *bytes)
{
    size_t len = 0;
    for (const mr_unsent *b = link->unsent; b != NULL && len < PILOT_BYTES; b = b->next) {
        size_t part = b->len - b->off;
        if (!mr_lease_is_valid(b->lease))
            return 0;
        if (part > PILOT_BYTES - len)
            part = PILOT_BYTES - len;
        memcpy(bytes + len, b->bytes + b->off, part);
        len += part;
    }
    return len;
}

static void on_pilot_through(uv_write_t *request, int status);

/* MR_OK: on_pilot_through() follows. */
static mr_rc send_pilot(mr_link *link)
{
    mr_uv_stream *s = link->stream;
    if (s->pilot == NULL && (s->pilot = mr_mem_zalloc(&s->net->mem, sizeof *s->pilot)) == NULL)
        return MR_NOMEM;
    if (s->pilot->len > 0)
        return MR_OK; /* it is on its way */
    size_t len = fill_pilot(link, s->pilot->bytes);
    uv_buf_t buffer = uv_buf_init((char *)s->pilot->bytes, (unsigned)len);
    if (len == 0 || uv_write(&s->pilot->request, stream_of(s), &buffer, 1, on_pilot_through) != 0)
        return MR_CLOSED;
    s->pilot->len = len;
    return MR_OK;
}

static mr_rc queue_rest(mr_link *link, const mr_piece_out *pieces, int count, size_t sent,
                        unsigned flags)
{
    mr_rc rc = mr_unsent_add(link->transport->mem, link, pieces, count, sent);
    if (rc == MR_OK)
        rc = send_pilot(link);
    if (rc != MR_OK)
        return rc;
    if (flags & MR_SEND_FIN)
        link->flags |= LINK_FIN_QUEUED;
    return MR_AGAIN;
}

static mr_rc uv_send(mr_link *link, const mr_piece_out *pieces, int count, unsigned flags)
{
    uv_buf_t buffers[MR_SEND_PIECES];
    size_t total;
    ssize_t sent = 0;
    if (!(link->flags & LINK_IS_OPEN))
        return MR_CLOSED;
    if (link->unsent != NULL)
        return queue_rest(link, pieces, count, 0, flags);
    if (!gather_pieces(pieces, count, buffers, &total))
        return MR_CLOSED;
    if (total > 0 && (sent = try_write(link->stream, buffers, (unsigned)count)) < 0)
        return MR_CLOSED;
    if ((size_t)sent < total)
        return queue_rest(link, pieces, count, (size_t)sent, flags);
    if (flags & MR_SEND_FIN)
        shut_down(link->stream);
    return MR_OK;
}

static void end_queue(mr_link *link)
{
    mr_uv_stream *s = link->stream;
    mr_mem_free(&s->net->mem, s->pilot, sizeof *s->pilot);
    s->pilot = NULL;
    if (link->flags & LINK_FIN_QUEUED)
        shut_down(s);
    link->flags &= ~(uint32_t)LINK_FIN_QUEUED;
    link->transport->events->on_drained(link->transport->owner, link);
}

static void send_queued(mr_link *link)
{
    uv_buf_t buffers[MR_SEND_PIECES];
    unsigned count;
    size_t total;
    ssize_t sent = -1;
    if (gather_queue(link, buffers, &count, &total))
        sent = count == 0 ? 0 : try_write(link->stream, buffers, count);
    if (sent > 0)
        mr_unsent_take(link->transport->mem, link, (size_t)sent);
    if (sent >= 0 && link->unsent == NULL)
        end_queue(link);
    else if (sent < 0 || send_pilot(link) != MR_OK)
        report_gone(link);
}

static void on_pilot_through(uv_write_t *request, int status)
{
    mr_uv_stream *s = (mr_uv_stream *)request->handle;
    mr_link *link = s->link;
    if (link == NULL)
        return; /* closed: cancelled, or through in the same moment */
    size_t len = s->pilot->len;
    s->pilot->len = 0;
    announce(link->transport);
    if (status != 0) {
        report_gone(link);
        return;
    }
    mr_unsent_take(link->transport->mem, link, len);
    send_queued(link);
}

/* ---- accepting ---- */

#ifdef __linux__
static int accept_fd(int fd, struct sockaddr *peer, socklen_t *len)
{
    return accept4(fd, peer, len, SOCK_CLOEXEC); /* uv_tcp_open() makes it non-blocking */
}
#else
static int accept_fd(int fd, struct sockaddr *peer, socklen_t *len)
{
    int accepted = accept(fd, peer, len);
    if (accepted >= 0)
        (void)fcntl(accepted, F_SETFD, FD_CLOEXEC);
    return accepted;
}
#endif

static bool is_descriptor_shortage(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

/* Returns whether another accept may find something. */
static bool accept_one(mr_transport *t, int fd)
{
    struct sockaddr_storage peer;
    socklen_t len = sizeof peer;
    int accepted = accept_fd(fd, (struct sockaddr *)&peer, &len);
    if (accepted >= 0) {
        t->events->on_accept(t->owner, accepted, (struct sockaddr *)&peer, len);
        return true;
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK)
        return false;
    if (errno == EINTR || errno == ECONNABORTED)
        return true;
    t->events->on_accept_problem(t->owner, is_descriptor_shortage(errno) ? MR_ACCEPT_NO_DESCRIPTORS
                                                                         : MR_ACCEPT_OTHER);
    return false;
}

static void on_acceptable(uv_poll_t *poll, int status, int events)
{
    listener *l = (listener *)poll;
    mr_transport *t = l->transport;
    (void)status, (void)events; /* what is wrong with a listener, accept says too */
    announce(t);
    for (int i = 0; i < ACCEPTS_PER_EVENT && !t->is_accept_paused; i++)
        if (!accept_one(t, l->fd))
            return;
}

static void uv_pause_accept(mr_transport *t, bool is_paused)
{
    t->is_accept_paused = is_paused;
    for (uint32_t i = 0; i < t->listener_count; i++) {
        if (is_paused)
            (void)uv_poll_stop(&t->listeners[i]->poll);
        else
            (void)uv_poll_start(&t->listeners[i]->poll, UV_READABLE, on_acceptable);
    }
}

static void on_listener_closed(uv_handle_t *handle)
{
    listener *l = (listener *)handle;
    mr_uv_net *net = l->net;
    mr_mem_free(&net->mem, l, sizeof *l);
    uncount_handle(net);
}

static void close_listener(listener *l)
{
    int fd = l->fd;
    uv_close((uv_handle_t *)&l->poll, on_listener_closed);
    close(fd); /* after libuv has let go of it */
}

static mr_rc uv_take_listener(mr_transport *t, int fd)
{
    listener *l = NULL;
    if (t->listener_count < LISTENERS_MAX)
        l = mr_mem_zalloc(&t->net->mem, sizeof *l);
    if (l == NULL)
        goto fail;
    l->net = t->net;
    l->transport = t;
    l->fd = fd;
    if (uv_poll_init(t->net->loop, &l->poll, fd) != 0)
        goto fail;
    count_handle(t->net, (uv_handle_t *)&l->poll);
    if (uv_poll_start(&l->poll, UV_READABLE, on_acceptable) != 0) {
        close_listener(l);
        return MR_INVALID;
    }
    t->listeners[t->listener_count++] = l;
    return MR_OK;
fail:
    mr_mem_free(&t->net->mem, l, sizeof *l);
    close(fd);
    return MR_INVALID;
}

static void uv_unlisten(mr_transport *t)
{
    while (t->listener_count > 0) {
        listener *l = t->listeners[t->listener_count - 1];
        /* Closing a listener resets what waits in its queue: take those in first. */
        for (int i = 0; i < INT_MAX && accept_one(t, l->fd); i++)
            ;
        close_listener(l);
        t->listener_count--;
    }
}

/* ---- the transport ---- */

static mr_rc uv_create_transport(const mr_transport_ops *self, mr_mem *mem,
                                 const mr_link_events *events, void *owner, mr_transport **out)
{
    mr_transport *t = mr_mem_alloc(mem, sizeof *t);
    if (t == NULL)
        return MR_NOMEM;
    t->net = (mr_uv_net *)(uintptr_t)self;
    t->mem = mem;
    t->events = events;
    t->owner = owner;
    t->is_accept_paused = false;
    t->listener_count = 0;
    *out = t;
    return MR_OK;
}

/* All links are closed by their owner; the handles that still close know only the net. */
static void uv_destroy_transport(mr_transport *t)
{
    if (t == NULL)
        return;
    while (t->listener_count > 0)
        close_listener(t->listeners[--t->listener_count]);
    mr_mem_free(t->mem, t, sizeof *t);
}

static int uv_no_descriptor(const mr_transport *t)
{
    (void)t;
    return -1;
}

static mr_rc uv_no_poll(mr_transport *t, int timeout_ms)
{
    (void)t, (void)timeout_ms;
    return MR_OK;
}

void mr_uv_net_init(mr_uv_net *net, struct uv_loop_s *loop, void (*on_event)(void *owner),
                    void (*on_empty)(void *owner), void *owner)
{
    *net = (mr_uv_net){.ops = {.name = "uv",
                               .create = uv_create_transport,
                               .destroy = uv_destroy_transport,
                               .backend_fd = uv_no_descriptor,
                               .poll = uv_no_poll,
                               .listen = uv_take_listener,
                               .pause_accept = uv_pause_accept,
                               .unlisten = uv_unlisten,
                               .attach = uv_attach,
                               .want_data = uv_want_data,
                               .send = uv_send,
                               .detach = uv_detach,
                               .has_input = uv_has_input,
                               .close = uv_link_close},
                       .loop = loop,
                       .on_event = on_event,
                       .on_empty = on_empty,
                       .owner = owner};
}
