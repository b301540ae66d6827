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
#include "proto/h1_llhttp.h"
#include "proto/h1_parse.h"

struct mr_fleet;
struct mr_handed_socket;

typedef struct mr_engine mr_engine;

typedef struct mr_limits {
    mr_h1_limits head;           /* over it: 431, 414 */
    uint64_t body_bytes;         /* over it: 413; a route may have its own */
    uint64_t body_bytes_per_second; /* least throughput of content: 408; 0: any */
    uint32_t connections;        /* of the whole fleet; over it: 503 and close; 0: none */
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
    const uint8_t *body; /* the whole content; NULL without, or when it comes by on_content */
    size_t body_len;
    bool is_streamed; /* the content comes by on_content */
    const mr_peer *peer;
} mr_request;

/* A piece of a request's content. Everything is borrowed for the call. */
typedef struct mr_content {
    uint64_t connection;
    uint32_t seq;
    const uint8_t *bytes;
    size_t len;
    bool is_end;
    const uint8_t *trailers; /* with is_end: the trailer section's field lines, each with its CRLF */
    size_t trailers_len;
} mr_content;

/* What may happen to an exchange that JavaScript holds. */
typedef enum mr_note {
    MR_NOTE_LOST,     /* watched: it ended without its answer: the client went */
    MR_NOTE_ANSWERED, /* watched: its answer is out */
    MR_NOTE_DRAINED,  /* what its stream had queued has left */
    /* the rest of its content will not come: */
    MR_NOTE_CONTENT_ABORTED,   /* the client went */
    MR_NOTE_CONTENT_TOO_LARGE, /* over the limit; answered 413 unless an answer had begun */
    MR_NOTE_CONTENT_BAD,       /* the chunked coding is broken; likewise 400 */
    MR_NOTE_CONTENT_LATE,      /* over a time-out; likewise 408 */
    MR_NOTE_CONTENT_UNREAD,    /* the answer was complete first */
    MR_NOTE_PEER_ENDED /* watched: the client closed its side; most leave so, some still read */
} mr_note;

/* Calls up. They must not call back into the engine. */
typedef struct mr_handlers {
    /* MR_OK: taken. MR_AGAIN: no room now; offered again in mr_engine_resume(). Anything else: the
     * request is answered 503. */
    mr_rc (*on_request)(void *owner, const mr_request *request);
    /* MR_OK or MR_AGAIN, as above; MR_NOMEM: the content is given up. */
    mr_rc (*on_content)(void *owner, const mr_content *content);
    /* MR_NOTE_LOST and _ANSWERED come only for exchanges that mr_engine_watch() named. */
    void (*on_note)(void *owner, uint64_t connection, uint32_t seq, mr_note note);
    /* mr_engine_migrate(): an idle connection is to go on elsewhere. Returns whether it was taken, and
     * with it the descriptor; else it is closed. */
    bool (*on_leave)(void *owner, int fd, const mr_peer *peer);
} mr_handlers;

#define MR_PROXY_SOURCES_MAX 256u

typedef struct mr_engine_options {
    mr_limits limits;
    mr_timeouts timeouts;
    const mr_transport_ops *transport;
    const mr_h1_scan *scan; /* NULL: the best of this machine */
    const mr_h1_parser *parser; /* NULL: our own */
    void *parser_self;          /* borrowed; of a parser that is not our own */
    /* Copied. Connections from there must begin with a PROXY header, and are the client's that it
     * names; without one they are closed. */
    const mr_range *proxy_sources;
    size_t proxy_source_count; /* <= MR_PROXY_SOURCES_MAX */
    const mr_handlers *handlers;
    void *owner;
    struct mr_fleet *fleet; /* borrowed; NULL: a server on its own */
    uint32_t seat;          /* of this thread in it */
    /* Only with a fleet. */
    struct mr_rate *rate;      /* borrowed; NULL: no limit */
    const char *rate_field;    /* copied: lower-case name of the field that is the key; NULL: the address */
    size_t rate_field_len;
    struct mr_access_ring *access; /* borrowed; NULL: no log */
    uint32_t lag_limit_ms;     /* JavaScript later than this: requests for it get 503; 0: never */
} mr_engine_options;

/* An answer. Everything is borrowed for the call. */
typedef struct mr_response {
    const uint8_t *head; /* status line and fields, each with its CRLF, without the last three */
    size_t head_len;
    const uint8_t *body;
    size_t body_len;
    mr_lease *lease; /* of the body: it stays where it is until it has left; NULL: copied */
    uint16_t status; /* 200..599 */
    uint16_t flags;  /* MR_RESPONSE_... */
} mr_response;

enum {
    MR_RESPONSE_HAS_DATE = 1u << 0,   /* the head brings its own Date */
    MR_RESPONSE_HAS_LENGTH = 1u << 1, /* the head brings its own Content-Length: HEAD, 304, streams */
    MR_RESPONSE_CLOSE = 1u << 2,      /* say Connection: close, and close */
    MR_RESPONSE_IS_UNCHECKED = 1u << 3, /* status and head come from outside: check them */
    MR_RESPONSE_STREAM = 1u << 4       /* the content follows by mr_engine_write(); body is NULL */
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

/* MR_INVALID with *error = errno. *port is the one that was bound. The file of a unix socket is
 * removed when the engine stops accepting. */
mr_rc mr_engine_listen(mr_engine *engine, const mr_listen_options *options, uint16_t *port,
                       int *error) MR_MUST_CHECK;
/* A connection that was accepted elsewhere, and counted as on its way to this seat. Takes fd. */
void mr_engine_adopt(mr_engine *engine, const struct mr_handed_socket *socket);
/* Serves a listening socket. Takes fd, also on failure: MR_NOMEM, MR_LIMIT. */
mr_rc mr_engine_serve(mr_engine *engine, int fd) MR_MUST_CHECK;
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
/* Before a poll: for how long the thread was busy since the last one, so that what comes now may have
 * waited as long. */
void mr_engine_set_late(mr_engine *engine, uint64_t late_ns);
/* Sends what mr_engine_respond() has gathered; mr_engine_end() does it too. */
void mr_engine_flush(mr_engine *engine);

typedef enum mr_waiting { MR_IS_OVER, MR_IS_WAITING, MR_IS_WAITING_ENDED } mr_waiting;
/* Whether the exchange still waits for the end of its answer and the client is there; _ENDED: it has
 * closed its side. */
mr_waiting mr_engine_is_waiting(const mr_engine *engine, uint64_t connection, uint32_t seq);
/* Asks for MR_NOTE_LOST or MR_NOTE_ANSWERED (all of the answer was given to the system), and before it
 * MR_NOTE_PEER_ENDED. MR_GONE: it is over already. */
mr_rc mr_engine_watch(mr_engine *engine, uint64_t connection, uint32_t seq) MR_MUST_CHECK;

/* ---- streamed answers: after mr_engine_respond() with MR_RESPONSE_STREAM ---- */

/* A piece of content, framed as the head said; dropped where there is none (HEAD, 204, 304). With a
 * lease it is not copied. MR_GONE: no such stream. MR_NOMEM: the connection was shed. */
mr_rc mr_engine_write(mr_engine *engine, uint64_t connection, uint32_t seq, const uint8_t *bytes,
                      size_t len, mr_lease *lease) MR_MUST_CHECK;
/* The end; `trailers` are field lines with their CRLF, sent in the chunked coding only.
 * MR_INVALID: they are unsound; the stream still waits. */
mr_rc mr_engine_finish(mr_engine *engine, uint64_t connection, uint32_t seq,
                       const uint8_t *trailers, size_t len) MR_MUST_CHECK;
/* Closes the connection when it is this answer's turn: the client sees that it was cut short. */
mr_rc mr_engine_abort(mr_engine *engine, uint64_t connection, uint32_t seq) MR_MUST_CHECK;
/* An interim answer, 102..199 (RFC 9110 15.2), before the final one's head. MR_INVALID: unsound. */
mr_rc mr_engine_inform(mr_engine *engine, uint64_t connection, uint32_t seq, unsigned status,
                       const uint8_t *fields, size_t len) MR_MUST_CHECK;
/* Octets of its connection that wait for the socket or for earlier answers. Flush first. */
uint64_t mr_engine_queued_bytes(const mr_engine *engine, uint64_t connection, uint32_t seq);
/* Asks for MR_NOTE_DRAINED (at once when nothing is queued). MR_GONE: no such stream. */
mr_rc mr_engine_watch_drain(mr_engine *engine, uint64_t connection, uint32_t seq) MR_MUST_CHECK;

/* ---- content that comes by on_content ---- */

#define MR_WINDOW_BYTES (128u * 1024u) /* handed up unasked; nothing with Expect: 100-continue */
#define MR_WINDOW_MAX (64u * 1024u * 1024u)
#define MR_READ_PAST_MAX (256u * 1024u) /* unwanted content that is read for the next request's sake */
#define MR_RATE_PERIOD_MS 10000u        /* over which body_bytes_per_second is looked at */

/* Lets `bytes` more be handed up; the first call also sends the 100 (Continue) that is owed.
 * MR_GONE: nothing more will come. */
mr_rc mr_engine_ask(mr_engine *engine, uint64_t connection, uint32_t seq,
                    uint64_t bytes) MR_MUST_CHECK;

/* Stops accepting (after emptying the queues), closes idle connections after grace_ms, says
 * Connection: close on all answers. Idempotent. Over when mr_engine_connections() is 0. */
void mr_engine_drain(mr_engine *engine, uint32_t grace_ms);
/* For a thread that is replaced: stops accepting, and gives each connection to on_leave at the end of
 * a turn that finds it idle; no connection is closed for it. A drain may follow. Idempotent. */
void mr_engine_migrate(mr_engine *engine);
/* Connections that still matter: open and not merely lingering after our FIN. */
uint32_t mr_engine_connections(const mr_engine *engine);
void mr_engine_get_stats(const mr_engine *engine, mr_engine_stats *stats);
const char *mr_engine_scan_name(const mr_engine *engine);

#endif
