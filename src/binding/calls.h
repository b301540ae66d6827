/* calls.h -- every call that JavaScript makes down.
 * Each takes the handle that create() gave as its first argument; a handle whose server is closed
 * makes the call a no-op.
 *   create(options, onBatch)                          -> handle
 *   listen(handle, where, port, backlog, isV6Only, isShared, mode, key) -> port, or -errno
 *                                                     where: address, bytes of a path, descriptor
 *   describe(fd)              (no handle)             -> [family, port, address or path], or -errno
 *   addReply(handle, status, flags, head, body, escape, parts) -> number
 *   dropReply(handle, number)
 *   beginRoutes(handle), addRoute(handle, pattern, mask, handler, reply, flags, bodyBytes),
 *   commitRoutes(handle, fallback, flags)
 *   drain(handle)                                     hands the response ring over now
 *   send(handle, record, head, body)                  one answer whose content is not in the ring
 *   isWaiting(handle, slot, generation, seq) -> 0 it is over, 1 yes, 2 the client closed its side
 *   watch(handle, slot, generation, seq) -> boolean   false: it is over already
 *   queuedBytes(handle, slot, generation, seq) -> octets that wait (the ring is drained first)
 *   watchDrain(handle, slot, generation, seq) -> boolean: a note will come when nothing waits
 *   shutdown(handle, graceMs) begins to drain
 *   migrate(handle, seat) gives connections to another seat as they become idle
 *   destroy(handle)                                   closes everything at once
 *   stats(handle) -> object
 * Thread:  the environment's.
 * Uses:    binding/server.h, node_api.h. */
#ifndef MR_BINDING_CALLS_H
#define MR_BINDING_CALLS_H

#include "binding/server.h"

/* Sets the calls as properties of `exports`. */
napi_status mr_calls_export(napi_env env, napi_value exports);
napi_status mr_table_export(napi_env env, napi_value exports); /* table_calls.c */

/* ---- addon.c ---- */

/* The server of a handle; NULL when it is closed, or (with an exception) when it is no handle. */
mr_server *mr_server_of(napi_env env, napi_value handle);
/* Makes a server and its handle, the object with the shared memory. NULL with an exception. Without
 * options->transport it runs on libuv streams, in the loop of its environment. */
napi_value mr_server_create(napi_env env, const mr_engine_options *options, napi_value on_batch,
                            struct mr_fleet *fleet, uint32_t seat);

#endif
