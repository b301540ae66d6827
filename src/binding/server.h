/* server.h -- one engine inside one Node environment: rings, handles of its loop, the call up.
 *
 * OPEN -> CLOSING -> (handles closed) -> freed
 * Owns:    the engine, the rings, three libuv handles, those of a transport on libuv streams,
 *          references to the JavaScript callback.
 * Thread:  the environment's. */
#ifndef MR_BINDING_SERVER_H
#define MR_BINDING_SERVER_H

#include "binding/rings.h"
#include "net/uv_stream.h"
#include <stdbool.h>
#include <uv.h>

/* The transports of this system. */
#ifdef __linux__
#define MR_TRANSPORT_NATIVE (&mr_transport_epoll)
#define MR_TRANSPORT_DEFAULT "epoll"
#define MR_TRANSPORT_REASON "It is the native one of this system."
#define MR_TRANSPORTS "epoll uv"
#else
#define MR_TRANSPORT_NATIVE ((const mr_transport_ops *)NULL)
#define MR_TRANSPORT_DEFAULT "uv"
#define MR_TRANSPORT_REASON "This system has no native one yet."
#define MR_TRANSPORTS "uv"
#endif
#define MR_TRANSPORT_UV "uv"

/* Per environment (main thread or worker). Lives until the environment's clean-up is through. */
typedef struct mr_env {
    napi_env env;
    napi_async_cleanup_hook_handle hook; /* NULL once removed */
    struct mr_server *servers;           /* all that are not freed yet */
    struct mr_member *members;           /* likewise */
    bool is_ending;
    mr_h1_llhttp *llhttp;       /* owned; NULL until somebody asks for it */
    const char *llhttp_refusal; /* static: why it cannot be used; NULL: it can */
} mr_env;

/* What a JavaScript handle points at; outlives the server it names. */
typedef struct mr_box {
    struct mr_server *server; /* NULL once closed */
} mr_box;

typedef struct mr_server {
    mr_env *home;
    struct mr_server *next; /* in home->servers */
    mr_box *box;            /* NULL once its handle was collected */
    napi_env env;
    mr_engine *engine;
    struct mr_fleet *fleet; /* retained; NULL: it is on its own */
    uint32_t seat;
    uint32_t listeners; /* of the fleet that it serves, a bit each */
    struct mr_access_ring *access; /* owned; closed behind the engine */
    uint64_t polled_ns, idle_ns;   /* at the last poll: the time, and all idle time until then */
    uint32_t heir;      /* the seat to which its connections go when it migrates */
    mr_rings rings;
    mr_routes *new_routes; /* a table being built; NULL between reloads */
    mr_uv_net net;         /* in use when the engine has no descriptor of its own */
    uv_poll_t poll;        /* its descriptor; keeps the loop alive */
    uv_check_t check;      /* or, without one: the loop has delivered its events; likewise */
    uv_prepare_t prepare; /* answers given later leave before the loop blocks */
    uv_timer_t timer;     /* the wheel's next expiry */
    uint64_t timer_ms;    /* what it is armed for, on the engine clock; UINT64_MAX: not armed */
    uint32_t open_handles;
    napi_ref on_batch;
    napi_async_context async;
    bool is_in_turn;
    bool needs_turn; /* the engine was used outside a turn */
    bool has_events; /* the loop has delivered some since the last turn */
    bool is_timer_due;
    bool is_closing;
    bool is_close_wanted; /* asked for inside a turn: done at its end */
    bool is_draining;
    bool is_drained_told;
} mr_server;

/* ---- member.c ---- */

/* Handler of engines in a fleet: a connection goes on at the heir's. */
bool mr_server_on_leave(void *rings, int fd, const mr_peer *peer);
/* No more connections of its listeners are for it. */
void mr_server_unlisten(mr_server *server);

/* ---- pump.c ---- */

/* Readies server->net for an engine to be created on. */
void mr_pump_prepare_net(mr_server *server, uv_loop_t *loop);
/* Starts the handles. MR_FATAL: libuv refused. */
mr_rc mr_pump_start(mr_server *server, uv_loop_t *loop) MR_MUST_CHECK;
/* Closes connections and handles; the server is freed when the loop has let the handles go. */
void mr_pump_stop(mr_server *server);
/* Sends answers that were given outside a turn. */
void mr_pump_flush(mr_server *server);

/* ---- addon.c ---- */

/* An exception that JavaScript let out; none when the environment is being terminated. */
void mr_report_exception(napi_env env);
/* Ends the clean-up hook of an environment that has no servers and members left. */
void mr_env_end_if_empty(mr_env *home);
/* Called by the pump when the last handle is closed. Frees the server. */
void mr_server_free(mr_server *server);

#endif
