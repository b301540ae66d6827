/* core.h -- the engine's own struct, for the files of this layer.
 * Owns:    everything that hangs off an engine.
 * Thread:  the engine's. */
#ifndef MR_ENGINE_CORE_H
#define MR_ENGINE_CORE_H

#include "base/check.h"
#include "base/clock.h"
#include "base/slab.h"
#include "engine/conn.h"
#include "engine/engine.h"
#include "engine/out.h"
#include <pthread.h>

struct mr_engine {
    /* constant after create */
    mr_limits limits;
    mr_timeouts timeouts;
    const mr_transport_ops *net;
    const mr_handlers *handlers;
    void *owner;
    const mr_h1_scan *scan;
    pthread_t thread;
    /* owned */
    mr_mem mem;
    mr_transport *transport;
    mr_slab *conns;
    mr_routes *routes;
    mr_h1_field *fields; /* of the head being parsed; limits.head.header_count */
    mr_buf rendered;     /* a template's content */
    mr_out out;
    mr_wheel wheel;
    mr_clock clock;
    uint32_t fallback; /* handler for unmatched paths, or MR_NO_HANDLER */
    uint32_t fallback_flags;
    /* state */
    bool is_draining;
    uint32_t live_count; /* conns neither lingering nor dead */
    mr_conn *listed_first, *listed_last; /* to be resumed */
    mr_conn *dead;                       /* to be released */
    mr_timer accept_timer;               /* set while accepting is paused for want of descriptors */
    uint32_t accept_pause_ms;            /* 0: not paused */
    mr_engine_stats stats;
};

#define MR_ON_THREAD(e) MR_ASSERT(pthread_equal((e)->thread, pthread_self()))

#define MR_ACCEPT_PAUSE_MIN_MS 5u
#define MR_ACCEPT_PAUSE_MAX_MS 1000u
/* Connections over limits.connections that may be told 503 at the same time; more are just closed. */
#define MR_REFUSALS_MAX 256u

/* Puts a waiting connection on the resume list. */
void mr_engine_list(mr_conn *c);

/* ---- h1.c: the exchanges of one connection ---- */

/* Bytes came (borrowed). */
void mr_h1_receive(mr_conn *c, const uint8_t *bytes, size_t len);
/* Goes on with kept input, after a wait. */
void mr_h1_resume(mr_conn *c);
/* Answers with a plain text of the status and stops parsing. */
void mr_h1_refuse(mr_conn *c, unsigned status);
/* The peer has ended and no input is left to parse. */
void mr_h1_end_of_input(mr_conn *c);

#endif
