/* transport.h -- the seam between descriptors and connections: operations down, events up.
 * The seam is completion-shaped: "these bytes came", "what was queued has left". Readiness (epoll)
 * imitates completion; io_uring has it by nature, libuv streams nearly.
 * Owns:    the poller, the listening sockets, each link's descriptor and its unsent bytes.
 * Borrows: links, which live inside their owners (slab memory with stable addresses). A link may be
 *          freed by its owner once it is closed and the poll that closed it has returned.
 * Thread:  the engine's.
 * Uses:    base/. */
#ifndef MR_NET_TRANSPORT_H
#define MR_NET_TRANSPORT_H

#include "base/mem.h"
#include <stdbool.h>
#include <sys/socket.h>

typedef struct mr_transport mr_transport;
typedef struct mr_link mr_link;

/* Octets that stay where they are until they have left: whoever lends them counts the borrowers and
 * learns by on_return when the last one is done. */
typedef struct mr_lease {
    uint32_t borrowers;
    /* Whether the octets are still there; asked before each use. A lender that lost them (memory that
     * JavaScript gave away) makes the link fail, never a read of freed memory. */
    bool (*is_valid)(const struct mr_lease *lease);
    void (*on_return)(struct mr_lease *lease); /* at zero; may free the lease */
} mr_lease;

static inline bool mr_lease_is_valid(const mr_lease *lease)
{
    return lease == NULL || lease->is_valid(lease);
}

static inline void mr_lease_return(mr_lease *lease)
{
    if (lease != NULL && --lease->borrowers == 0)
        lease->on_return(lease);
}

/* What is to be sent. Without a lease the octets are borrowed for the call and copied when they must
 * wait; with one they are taken by reference. */
typedef struct mr_piece_out {
    const uint8_t *bytes;
    size_t len;
    mr_lease *lease; /* NULL: copy */
} mr_piece_out;

/* One stretch of a link's queue; allocated only while a write is short. */
typedef struct mr_unsent {
    struct mr_unsent *next;
    const uint8_t *bytes; /* copy[], or what the lease stands for */
    size_t off, len;      /* bytes [off, len) are still to be sent */
    size_t cap;           /* of copy[]; 0 with a lease */
    mr_lease *lease;
    uint8_t copy[];
} mr_unsent;

struct mr_link {
    mr_transport *transport; /* borrowed; NULL before attach */
    mr_unsent *unsent;       /* owned; NULL when nothing is queued */
    mr_unsent *unsent_last;
    size_t unsent_bytes;   /* in the queue */
    uint32_t sent_mark;    /* counts the queue's sends: a stalled peer shows by no change */
    uint32_t flags;        /* private to the transport */
    union {                /* private to the transport, too */
        int fd;                      /* epoll; owned; -1 once closed */
        struct mr_uv_stream *stream; /* uv; NULL once closed */
    };
};

typedef enum mr_accept_problem {
    MR_ACCEPT_NO_DESCRIPTORS, /* EMFILE, ENFILE, ENOBUFS, ENOMEM: accepting is paused; resume later */
    MR_ACCEPT_OTHER           /* this one connection only */
} mr_accept_problem;

/* Events up. `owner` is what create() was given. None is delivered for a closed link. */
typedef struct mr_link_events {
    /* A connection came. Takes fd, also when it refuses. */
    void (*on_accept)(void *owner, int fd, const struct sockaddr *peer, socklen_t peer_len);
    void (*on_accept_problem)(void *owner, mr_accept_problem problem);
    /* bytes are borrowed until the callback returns; they are never empty. */
    void (*on_data)(void *owner, mr_link *link, const uint8_t *bytes, size_t len);
    void (*on_eof)(void *owner, mr_link *link);     /* the peer has finished sending */
    void (*on_drained)(void *owner, mr_link *link); /* all that was queued has left */
    void (*on_gone)(void *owner, mr_link *link);    /* reset or failed; the owner closes it */
} mr_link_events;

#define MR_SEND_PIECES 64
#define MR_SEND_FIN 1u /* shut the sending side down right behind the last byte */

typedef struct mr_transport_ops mr_transport_ops;
struct mr_transport_ops {
    const char *name;
    /* `self` is the table that was asked: a transport that needs more than memory (a loop to live
     * in) finds it behind its own copy of the table. */
    mr_rc (*create)(const mr_transport_ops *self, mr_mem *mem, const mr_link_events *events,
                    void *owner, mr_transport **out);
    void (*destroy)(mr_transport *transport); /* accepts NULL; closes the listeners */
    /* The descriptor that a surrounding loop watches for readability, or -1 (driven otherwise). */
    int (*backend_fd)(const mr_transport *transport);
    /* Delivers what is pending, waiting up to timeout_ms (0: not at all, -1: for ever). Nothing
     * where a loop delivers by itself. */
    mr_rc (*poll)(mr_transport *transport, int timeout_ms);

    mr_rc (*listen)(mr_transport *transport, int fd); /* takes fd, also on failure */
    void (*pause_accept)(mr_transport *transport, bool is_paused);
    /* Accepts all that waits in the queues (on_accept is called), then closes the listeners. */
    void (*unlisten)(mr_transport *transport);

    mr_rc (*attach)(mr_transport *transport, mr_link *link, int fd); /* takes fd, also on failure */
    /* Whether data is wanted. Off: the kernel's buffer fills and the peer waits. Resets still show
     * on epoll; on uv streams only to a link that reads or writes. */
    void (*want_data)(mr_link *link, bool is_wanted);
    /* Sends now what the socket takes and queues the rest. At most MR_SEND_PIECES. MR_OK: all of it left; MR_AGAIN:
     * some is queued, on_drained follows; MR_CLOSED: the peer is gone; MR_NOMEM: the rest is lost.
     * After the last two the owner closes the link. Empty input with MR_SEND_FIN just ends. */
    mr_rc (*send)(mr_link *link, const mr_piece_out *pieces, int count, unsigned flags);
    /* Lets go of a link with an empty queue, which is closed then, and gives its descriptor to the
     * caller. -1: no descriptor is to be had, nothing happened. */
    int (*detach)(mr_link *link);
    /* Whether octets have come that were not received yet. */
    bool (*has_input)(mr_link *link);
    /* Closes at once; unread input makes the kernel reset the peer. Idempotent. */
    void (*close)(mr_link *link);
};

extern const mr_transport_ops mr_transport_epoll; /* Linux; the one on uv streams is in uv_stream.h */

/* Bytes queued and not yet taken by the socket. */
static inline size_t mr_link_unsent_bytes(const mr_link *link) { return link->unsent_bytes; }

#endif
