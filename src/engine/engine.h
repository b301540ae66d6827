/* engine.h -- all that the binding sees of the core: one engine, its turn, its answers.
 *
 * A turn:   mr_engine_poll()    bytes in; answers known without JavaScript go out at once; requests
 *                               for JavaScript go to handlers->on_request
 *           (the owner runs JavaScript and calls mr_engine_respond() for each answer)
 *           mr_engine_resume()  connections that had to wait for room go on; repeat from here
 *           mr_engine_end()     what is still unsent goes out, time-outs, the dead are freed
 * Owns:    connections, routes, transport, timers.
 * Thread:  the one that created it, every function.
 * Uses:    base/, net/, proto/. */
#ifndef MR_ENGINE_ENGINE_H
#define MR_ENGINE_ENGINE_H

#include "base/rc.h"
#include "engine/route.h"
#include "net/sock.h"
#include "net/transport.h"
#include "proto/h1_parse.h"

typedef struct mr_engine mr_engine;

typedef struct mr_limits {
    mr_h1_limits head;           /* over it: 431, 414 */
    uint64_t body_bytes;         /* over it: 413 */
    uint32_t connections;        /* over it: 503 and close; 0: none */
    uint32_t requests_per_connection; /* then Connection: close; 0: none */
    uint64_t held_bytes;         /* answers of one connection that wait for an earlier one, and its
                                    unsent bytes: over it the connection is closed */
} mr_limits;

typedef struct mr_timeouts { /* milliseconds; 0: none */
    uint32_t header_ms;      /* from the first octet of a head (or from accept) to its end: 408 */
    uint32_t body_ms;        /* one whole body: 408 */
    uint32_t keep_alive_ms;  /* idle between requests: FIN */
    uint32_t send_ms;        /* queued bytes without progress: close */
    uint32_t linger_ms;      /* after our FIN: close */
} mr_timeouts;

/* A request for JavaScript. Everything is borrowed for the call. */
typedef struct mr_request {
    uint64_t connection; /* slab id */
    uint32_t seq;        /* number of the exchange on its connection */
    uint32_t handler;
    uint32_t action_flags; /* MR_ACTION_... */
    const uint8_t *bytes;  /* what the head's offsets count from */
    const mr_h1_head *head;
    const mr_h1_field *fields;
    const mr_param *params; /* offsets count from the path */
    uint32_t param_count;
    const uint8_t *body; /* NULL without content */
    size_t body_len;
    const mr_peer *peer;
} mr_request;

/* Calls up. They must not call back into the engine. */
typedef struct mr_handlers {
    /* MR_OK: taken. MR_AGAIN: no room now; offered again in mr_engine_resume(). Anything else: the
     * request is answered 500. */
    mr_rc (*on_request)(void *owner, const mr_request *request);
    /* An exchange that mr_engine_watch() named ended: answered, or its connection is gone. */
    void (*on_done)(void *owner, uint64_t connection, uint32_t seq, bool is_answered);
    /* The client of a watched exchange closed its side; most leave so, some still read. */
    void (*on_peer_ended)(void *owner, uint64_t connection, uint32_t seq);
} mr_handlers;

typedef struct mr_engine_options {
    mr_limits limits;
    mr_timeouts timeouts;
    const mr_transport_ops *transport;
    const mr_h1_scan *scan; /* NULL: the best of this machine */
    const mr_handlers *handlers;
    void *owner;
} mr_engine_options;

/* An answer. Everything is borrowed for the call. */
typedef struct mr_response {
    const uint8_t *head; /* status line and fields, each with its CRLF, without the last three */
    size_t head_len;
    const uint8_t *body;
    size_t body_len;
    uint16_t status; /* 200..599 */
    uint16_t flags;  /* MR_RESPONSE_... */
} mr_response;

enum {
    MR_RESPONSE_HAS_DATE = 1u << 0,   /* the head brings its own Date */
    MR_RESPONSE_HAS_LENGTH = 1u << 1, /* the head brings its own Content-Length: HEAD and 304 only */
    MR_RESPONSE_CLOSE = 1u << 2,      /* say Connection: close, and close */
    MR_RESPONSE_IS_UNCHECKED = 1u << 3 /* status and head come from outside: check them */
};

#define MR_RESPONSE_HEAD_MAX (64u * 1024u)

typedef struct mr_engine_stats {
    uint64_t accepted, requests, refused, stale_answers, accept_failures;
    uint32_t connections; /* open now, lingering ones included */
    size_t used_bytes, peak_bytes;
} mr_engine_stats;

/* MR_NOMEM, MR_FATAL (no poller). */
mr_rc mr_engine_create(const mr_engine_options *options, mr_engine **out) MR_MUST_CHECK;
/* Closes everything at once, without a word to peers or handlers. Accepts NULL. */
void mr_engine_destroy(mr_engine *engine);

/* MR_INVALID with *error = errno. *port is the one that was bound. */
mr_rc mr_engine_listen(mr_engine *engine, const mr_listen_options *options, uint16_t *port,
                       int *error) MR_MUST_CHECK;
int mr_engine_backend_fd(const mr_engine *engine);

/* The counted allocator, for what the engine is about to take (routes, replies). */
mr_mem *mr_engine_mem(mr_engine *engine);

#define MR_NO_HANDLER 0xFFFFFFFFu
/* Swaps the table between two requests; takes `routes`. `fallback` is the handler for paths that no
 * route matches, or MR_NO_HANDLER for a plain 404. */
void mr_engine_set_routes(mr_engine *engine, mr_routes *routes, uint32_t fallback,
                          uint32_t fallback_flags);

mr_rc mr_engine_poll(mr_engine *engine, int timeout_ms) MR_MUST_CHECK;
/* Returns whether anything was resumed (requests may have been handed up). */
bool mr_engine_resume(mr_engine *engine);
void mr_engine_end(mr_engine *engine);
/* When mr_engine_poll() is wanted at the latest, on the clock of mr_engine_now_ms(); UINT64_MAX:
 * only when the descriptor is readable. */
uint64_t mr_engine_next_ms(const mr_engine *engine);
/* Reads the clock: before answers that come outside a poll. */
uint64_t mr_engine_update_clock(mr_engine *engine);

/* Answers an exchange. MR_GONE: the id is stale, unknown, or answered already: nothing happened.
 * MR_INVALID: an unchecked head is unsound; the exchange still waits. MR_NOMEM: the connection was
 * shed. */
mr_rc mr_engine_respond(mr_engine *engine, uint64_t connection, uint32_t seq,
                        const mr_response *response) MR_MUST_CHECK;
/* Sends what mr_engine_respond() has gathered; mr_engine_end() does it too. */
void mr_engine_flush(mr_engine *engine);

typedef enum mr_waiting { MR_IS_OVER, MR_IS_WAITING, MR_IS_WAITING_ENDED } mr_waiting;
/* Whether the exchange still waits for its answer and its client is there; _ENDED: the client has
 * closed its side. */
mr_waiting mr_engine_is_waiting(const mr_engine *engine, uint64_t connection, uint32_t seq);
/* Asks for on_done. MR_GONE: it is over already. */
mr_rc mr_engine_watch(mr_engine *engine, uint64_t connection, uint32_t seq) MR_MUST_CHECK;

/* Stops accepting (after emptying the queues), closes idle connections, says Connection: close on
 * the answers in flight. Idempotent. Over when mr_engine_connections() is 0. */
void mr_engine_drain(mr_engine *engine);
/* Connections that still matter: open and not merely lingering after our FIN. */
uint32_t mr_engine_connections(const mr_engine *engine);
void mr_engine_get_stats(const mr_engine *engine, mr_engine_stats *stats);
const char *mr_engine_scan_name(const mr_engine *engine);

#endif
