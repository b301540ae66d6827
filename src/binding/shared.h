/* shared.h -- what a server takes part in because it is in a fleet: the rate limit, the access log,
 * overload.
 * Thread:  the environment's.
 * Uses:    binding/member.h. */
#ifndef MR_BINDING_SHARED_H
#define MR_BINDING_SHARED_H

#include "binding/member.h"

#define MR_RATE_FIELD_MAX 256u

/* Room for what the options point at, during one call. */
typedef struct mr_shared_room {
    char rate_field[MR_RATE_FIELD_MAX];
} mr_shared_room;

/* Reads `ratePerSecond` (0: none), `rateBurst`, `rateEntries`, `rateField` (empty: the address),
 * `lagLimit`, `accessStyle` (0: no log; 1 common, 2 combined, 3 JSON), `accessPath` (bytes, or null
 * for `accessFd`) of the object. False with an exception. The ring of the log is the caller's to
 * close. */
bool mr_shared_read(napi_env env, napi_value object, mr_member *member, mr_shared_room *room,
                    mr_engine_options *options);

/* The calls, for lib/ only:
 *   routeRow(member, name) -> the row of a route of this name, for permits
 *   takePermit(member, row, most) -> boolean, awaitPermit(member, row)
 *   givePermit(member, row), passPermit(member, row) -> a seat to be told, or -1
 */
napi_status mr_shared_export(napi_env env, napi_value exports);

#endif
