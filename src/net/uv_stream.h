/* uv_stream.h -- the transport on libuv's TCP streams, inside a loop that somebody else runs.
 * There is no descriptor to watch and nothing to poll: the loop's callbacks deliver the events, and
 * the owner of the loop runs the rest of the turn once they are through.
 * Owns:    the libuv handles of listeners and links, until their close callbacks have run.
 * Borrows: the loop; it outlives the net.
 * Thread:  the loop's.
 * Uses:    base/, net/transport.h, libuv. */
#ifndef MR_NET_UV_STREAM_H
#define MR_NET_UV_STREAM_H

#include "net/transport.h"

struct uv_loop_s; /* uv.h stays out of the headers: the core has none */

/* One per engine. Outlives the transport that is made of it: libuv lets handles go a turn later, so
 * their memory is in books of their own, and this may be freed only while handle_count is 0. */
typedef struct mr_uv_net {
    mr_transport_ops ops; /* first: its address is what an engine is given */
    struct uv_loop_s *loop;
    /* Before each event that the loop delivers: a turn has to follow in this round of the loop. */
    void (*on_event)(void *owner);
    void (*on_empty)(void *owner); /* the last handle is closed; may free the net */
    void *owner;
    mr_mem mem;            /* of handles and writes in flight */
    uint32_t handle_count; /* open or closing */
} mr_uv_net;

void mr_uv_net_init(mr_uv_net *net, struct uv_loop_s *loop, void (*on_event)(void *owner),
                    void (*on_empty)(void *owner), void *owner);

#endif
