/* server.h -- one engine inside one Node environment: rings, handles of its loop, the call up.
 *
 * OPEN -> CLOSING -> (handles closed) -> freed
 * Owns:    the engine, the rings, three libuv handles, references to the JavaScript callback.
 * Thread:  the environment's. */
#ifndef MR_BINDING_SERVER_H
#define MR_BINDING_SERVER_H

#include "binding/rings.h"
#include <stdbool.h>
#include <uv.h>

/* Per environment (main thread or worker). Lives until the environment's clean-up is through. */
typedef struct mr_env {
    napi_env env;
    napi_async_cleanup_hook_handle hook; /* NULL once removed */
    struct mr_server *servers;           /* all that are not freed yet */
    bool is_ending;
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
    mr_rings rings;
    mr_routes *new_routes; /* a table being built; NULL between reloads */
    uv_poll_t poll;       /* the engine's descriptor; keeps the loop alive */
    uv_prepare_t prepare; /* answers given later leave before the loop blocks */
    uv_timer_t timer;     /* the wheel's next expiry */
    uint64_t timer_ms;    /* what it is armed for, on the engine clock; UINT64_MAX: not armed */
    uint32_t open_handles;
    napi_ref on_batch;
    napi_async_context async;
    bool is_in_turn;
    bool needs_turn; /* the engine was used outside a turn */
    bool is_timer_due;
    bool is_closing;
    bool is_close_wanted; /* asked for inside a turn: done at its end */
    bool is_draining;
    bool is_drained_told;
} mr_server;

/* ---- pump.c ---- */

/* Starts the handles. MR_FATAL: libuv refused. */
mr_rc mr_pump_start(mr_server *server, uv_loop_t *loop) MR_MUST_CHECK;
/* Closes connections and handles; the server is freed when the loop has let the handles go. */
void mr_pump_stop(mr_server *server);
/* Sends answers that were given outside a turn. */
void mr_pump_flush(mr_server *server);

/* ---- addon.c ---- */

/* Called by the pump when the last handle is closed. Frees the server. */
void mr_server_free(mr_server *server);

#endif
