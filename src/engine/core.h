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
    struct mr_fleet *fleet; /* NULL: a server on its own */
    struct mr_seat *seat;
    struct mr_rate *rate;          /* the fleet's; NULL: no limit */
    struct mr_access_ring *access; /* this thread's; NULL: no log */
    uint64_t lag_limit_ns;         /* JavaScript later than this: its requests get 503; 0: never */
    const mr_h1_scan *scan;
    const mr_h1_parser *parser;
    void *parser_self; /* the scanner's, or borrowed */
    pthread_t thread;
    /* owned */
    mr_mem mem;
    mr_transport *transport;
    mr_slab *conns;
    mr_sock_file *files;     /* of the unix sockets that it listens on */
    mr_range *proxy_sources; /* constant after create */
    size_t proxy_source_count;
    mr_routes *routes;
    mr_h1_field *fields; /* of the head being parsed; limits.head.header_count */
    mr_buf rendered;     /* a template's content */
    mr_buf decoded;      /* chunked content, while it is handed up */
    mr_out out;
    mr_wheel wheel;
    mr_clock clock;
    uint32_t fallback; /* handler for unmatched paths, or MR_NO_HANDLER */
    uint32_t fallback_flags;
    /* state */
    bool is_draining;
    uint32_t grace_ms; /* of the drain */
    bool is_migrating; /* connections leave for another thread as they become idle */
    uint32_t live_count; /* conns neither lingering nor dead */
    mr_conn *listed_first, *listed_last; /* to be resumed */
    mr_conn *dead;                       /* to be released */
    mr_timer accept_timer;               /* set while accepting is paused for want of descriptors */
    uint32_t accept_pause_ms;            /* 0: not paused */
    mr_engine_stats stats;
    uint64_t late_ns; /* how long what comes now may have waited for this thread */
    struct mr_note_block *free_notes;
    uint32_t free_note_count;
    uint8_t *rate_field; /* owned: name of the field that is the key of the rate limit; NULL: the address */
    size_t rate_field_len;
};

#define MR_ON_THREAD(e) MR_ASSERT(pthread_equal((e)->thread, pthread_self()))

#define MR_ACCEPT_PAUSE_MIN_MS 5u
#define MR_ACCEPT_PAUSE_MAX_MS 1000u
/* How many linger time-outs a peer may have that goes on sending after our FIN. */
#define MR_LINGER_PERIODS 15u
/* Connections over limits.connections that may be told 503 at the same time; more are just closed. */
#define MR_REFUSALS_MAX 256u

/* Puts a waiting connection on the resume list. */
void mr_engine_list(mr_conn *c);

/* ---- h1.c: the requests of one connection ---- */

/* Bytes came (borrowed). */
void mr_h1_receive(mr_conn *c, const uint8_t *bytes, size_t len);
/* Goes on with kept input, after a wait. */
void mr_h1_resume(mr_conn *c);
/* Answers with a plain text of the status and stops parsing. */
void mr_h1_refuse(mr_conn *c, unsigned status);
/* The peer has ended and no input is left to parse. */
void mr_h1_end_of_input(mr_conn *c);

/* ---- answer.c: its answers ---- */

/* MR_OK, or MR_NOMEM: the connection was shed. */
mr_rc mr_h1_answer(mr_conn *c, uint32_t seq, const mr_response *response);
/* Status, reason as content, an Allow field unless `allow` is 0. */
void mr_h1_answer_plainly(mr_conn *c, uint32_t seq, unsigned status, uint32_t allow, bool is_last);
/* Likewise, with Retry-After in seconds (RFC 9110 10.2.3). */
void mr_h1_answer_later(mr_conn *c, uint32_t seq, unsigned status, uint32_t retry_s, bool is_last);

/* ---- content.c: the content of its current request ---- */

mr_rc mr_h1_begin_content(mr_conn *c, const mr_h1_head *head, uint64_t body_bytes) MR_MUST_CHECK;
/* Copies the head, whose octets will not stay. */
mr_rc mr_h1_keep_head(mr_conn *c, const uint8_t *bytes) MR_MUST_CHECK;
/* MR_OK: the content is complete. MR_CLOSED: more is to come. MR_AGAIN: it must wait (nothing of the
 * rest was taken). MR_LIMIT: it failed and was answered. */
mr_rc mr_h1_take_content(mr_conn *c, const uint8_t *bytes, size_t len, size_t *taken) MR_MUST_CHECK;
/* Sends a 100 (Continue) that is owed, if it is this exchange's turn. */
void mr_h1_continue_in_turn(mr_conn *c);
/* The exchange has its answer: what is left of its content is read past. */
void mr_h1_answered(mr_conn *c, uint32_t seq);
/* Whether the answer to `seq` must end the connection for what is left of the content. */
bool mr_h1_leaves_content(const mr_conn *c, uint32_t seq);
/* Gives the content up with 400, 408, 413 or 503, answering the request if nobody has yet. */
void mr_h1_fail_content(mr_conn *c, unsigned status);
/* Tells JavaScript that the rest will not come. */
void mr_h1_lose_content(mr_conn *c, mr_note note);
uint64_t mr_h1_content_deadline_ms(const mr_conn *c);
void mr_h1_check_content_time(mr_conn *c);
/* Whether it is not the peer that is waited for: it has not been asked to go on. Since when:
 * waiting_since_ms. */
bool mr_h1_holds_content_back(const mr_conn *c);
/* The content goes on after a wait that began at waiting_since_ms. */
void mr_h1_content_resumed(mr_conn *c);

#endif
