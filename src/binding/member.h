/* member.h -- an environment's membership in a fleet: its seat, its doorbell, its mail; and of the
 * supervisor, the sockets that it accepts from.
 *
 * OPEN -> CLOSING -> (handles closed) -> freed
 * The calls, for lib/ only. `seat` and `thread` are numbers; where it says `to`, a number from 0 on
 * is a thread, and -1 - n is seat n (-1: the supervisor). fleetCreate(threads, balance, stuckMs,
 * pingMs, onMail, onAccept | null, keepsCpu) -> handle of the supervisor fleetNumber(handle) ->
 * number fleetJoin(number, seat, onMail) -> handle of a thread fleetTakeSeat(handle, thread) ->
 * seat, or -1 fleetReap(handle, seat), fleetUp(handle), fleetDraining(handle) fleetPost(handle, to,
 * kind, flags, name, callLow, callHigh, data) -> seat, or -rc of base/rc.h data: a string, a
 * Uint8Array, or undefined fleetSeatOf(handle, thread) -> seat, or -1 fleetName(handle, text) ->
 * number, or -rc;  fleetNameText(handle, number) -> text fleetSweep(handle),
 * fleetCloseListeners(handle), fleetEnd(handle) fleetHealth(handle) -> JSON;  fleetMetrics(handle)
 * -> text;  fleetReopenLog(handle) fleetRef(handle, isWanted): whether the doorbell keeps the loop
 * alive nameThread(text), pinThread(cpu) -> boolean;  copies() -> number onMail(count, large):
 * `records` of the handle (Uint32Array, MR_MAIL_WORDS each) and `bytes` (Uint8Array) say what came;
 * messages larger than `bytes` are Buffers in the array `large`, in order. onAccept([fd, ip, port,
 * ...]) -> [thread | -1 (refused) | -2 (next in turn), ...] Thread:  the environment's. */
#ifndef MR_BINDING_MEMBER_H
#define MR_BINDING_MEMBER_H

#include "binding/server.h"
#include "engine/fleet.h"

#define MR_MAIL_WORDS                                                                              \
    8u /* kind, flags, seat | (thread + 1) << 16 of the sender, name, call low, call high, offset, \
          length */
#define MR_MAIL_RECORDS 512u /* of one call up */
#define MR_MAIL_INBOX_BYTES (64u * 1024u)
#define MR_MAIL_IS_LARGE 0xFFFFFFFFu /* as offset */

typedef struct mr_member {
    mr_env *home;
    struct mr_member *next; /* in home->members */
    struct mr_member *
        *handle; /* what the JavaScript handle points at; NULL once it was collected */
    napi_env env;
    mr_fleet *fleet; /* retained */
    uint32_t seat;
    bool is_closing;
    uint32_t open_handles;
    uv_async_t bell;
    uv_timer_t ping;                           /* the supervisor's */
    uv_poll_t watches[MR_FLEET_LISTENERS_MAX]; /* likewise; .data is NULL where none is open */
    bool is_watch_paused;                      /* for want of descriptors */
    napi_ref on_mail, on_accept, holder;
    napi_async_context async;
    uint32_t *records; /* memory of the handle, which `holder` keeps */
    uint8_t *bytes;
    uint32_t record_count;
    size_t byte_count;
    napi_ref large; /* the array of one call up; NULL: none */
    uint32_t large_count;
    uint64_t idle_mark_ns, beat_mark_ns; /* when the utilisation was last taken */
} mr_member;

/* Takes the reference to the fleet. `holder` gets the memory of the inbox as properties. NULL: no
 * memory, or the loop refuses. */
mr_member *mr_member_create(mr_env *home, mr_fleet *fleet, uint32_t seat, napi_value holder,
                            napi_value on_mail, napi_value on_accept, uint32_t ping_ms);
/* Leaves; freed when the loop has let its handles go. Idempotent. */
void mr_member_end(mr_member *member);
/* The supervisor accepts no more. */
void mr_member_stop_watches(mr_member *member);

/* ---- member_calls.c ---- */

napi_status mr_member_export(napi_env env, napi_value exports);

/* ---- series_calls.c ----
 *   seriesDefine(handle, kind, merge, name, help, labelNames, labelValues, bounds) -> its first slot;
 *     throws ERR_MILLRACE_METRIC
 *   seriesValues(handle) -> Float64Array of this thread's slots, once one is defined (series.h has the
 *     layout); ask once, and keep it */
napi_status mr_series_calls_export(napi_env env, napi_value exports);

/* The member of a handle; NULL when it has left, or (with an exception) when it is no handle. */
mr_member *mr_member_of(napi_env env, napi_value handle);
/* All memberships of an environment that ends, after its servers. */
void mr_members_end(mr_env *home);

#endif
