/* shared.c -- see shared.h. */
#include "binding/shared.h"
#include "binding/args.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

static bool fail(napi_env env, const char *code, const char *message)
{
    (void)napi_throw_error(env, code, message);
    return false;
}

static bool read_rate(napi_env env, napi_value o, mr_member *m, mr_shared_room *room,
                      mr_engine_options *options)
{
    mr_rate_options rate = {0};
    napi_value value;
    if (napi_get_named_property(env, o, "ratePerSecond", &value) != napi_ok ||
        napi_get_value_double(env, value, &rate.per_second) != napi_ok)
        return mr_arg_fail(env, "ratePerSecond");
    if (rate.per_second <= 0)
        return true;
    if (!mr_prop_u32(env, o, "rateBurst", &rate.burst) ||
        !mr_prop_u32(env, o, "rateEntries", &rate.entries) ||
        napi_get_named_property(env, o, "rateField", &value) != napi_ok ||
        napi_get_value_string_latin1(env, value, room->rate_field, sizeof room->rate_field,
                                     &options->rate_field_len) != napi_ok)
        return mr_arg_fail(env, "rateField");
    options->rate_field = room->rate_field;
    if (getrandom(rate.seed, sizeof rate.seed, 0) != (ssize_t)sizeof rate.seed)
        return fail(env, "ERR_MILLRACE_INTERNAL", "the system gives no random octets");
    mr_rc rc = mr_fleet_get_rate(m->fleet, &rate, &options->rate);
    if (rc == MR_INVALID)
        return mr_arg_fail(env, "a rate limit out of its range");
    return rc == MR_OK || fail(env, "ERR_MILLRACE_OUT_OF_MEMORY", "no memory for the rate limit");
}

static bool open_ring(napi_env env, mr_access_log *log, mr_engine_options *options)
{
    if (mr_access_ring_open(log, &options->access) == MR_OK)
        return true;
    return fail(env, "ERR_MILLRACE_OUT_OF_MEMORY", "no memory for the access log");
}

static bool read_access(napi_env env, napi_value o, mr_member *m, mr_engine_options *options)
{
    char path[4096];
    const uint8_t *bytes;
    size_t len;
    uint32_t style, fd;
    napi_value value;
    mr_access_options access = {0};
    mr_access_log *log;
    if (!mr_prop_u32(env, o, "accessStyle", &style))
        return false;
    if (style == 0)
        return true;
    if (!mr_prop_u32(env, o, "accessFd", &fd) ||
        napi_get_named_property(env, o, "accessPath", &value) != napi_ok ||
        !mr_arg_bytes(env, value, "accessPath", &bytes, &len) || len >= sizeof path)
        return mr_arg_fail(env, "accessPath");
    if (len > 0)
        memcpy(path, bytes, len);
    path[len] = '\0';
    access.path = len > 0 ? path : NULL;
    access.fd = (int)fd;
    access.style = (mr_access_style)(style - 1);
    mr_rc rc = mr_fleet_get_access(m->fleet, &access, &log);
    if (rc == MR_INVALID)
        return fail(env, "ERR_MILLRACE_ACCESS_LOG", "The access log cannot be opened.");
    if (rc != MR_OK)
        return fail(env, "ERR_MILLRACE_OUT_OF_MEMORY", "no memory or thread for the access log");
    return open_ring(env, log, options);
}

bool mr_shared_read(napi_env env, napi_value o, mr_member *m, mr_shared_room *room,
                    mr_engine_options *options)
{
    return mr_prop_u32(env, o, "lagLimit", &options->lag_limit_ms) &&
           read_rate(env, o, m, room, options) && read_access(env, o, m, options);
}

/* ---- permits ---- */

static mr_member *permit_args(napi_env env, napi_callback_info info, uint32_t *row, uint32_t *most)
{
    napi_value args[3];
    mr_member *m = mr_args(env, info, 3, args) ? mr_member_of(env, args[0]) : NULL;
    if (m == NULL || !mr_arg_u32(env, args[1], "row", row) ||
        (most != NULL && !mr_arg_u32(env, args[2], "most", most)))
        return NULL;
    return m;
}

static napi_value call_route_row(napi_env env, napi_callback_info info)
{
    napi_value args[2];
    const uint8_t *name;
    size_t len;
    mr_member *m = mr_args(env, info, 2, args) ? mr_member_of(env, args[0]) : NULL;
    if (m == NULL || !mr_arg_bytes(env, args[1], "name", &name, &len) || len == 0)
        return NULL;
    return mr_number(env, mr_fleet_route(m->fleet, (const char *)name, len));
}

static napi_value call_take_permit(napi_env env, napi_callback_info info)
{
    uint32_t row, most;
    const mr_member *m = permit_args(env, info, &row, &most);
    return m != NULL ? mr_boolean(env, mr_fleet_take_permit(m->fleet, m->seat, row, most)) : NULL;
}

static napi_value call_await_permit(napi_env env, napi_callback_info info)
{
    uint32_t row;
    const mr_member *m = permit_args(env, info, &row, NULL);
    if (m != NULL)
        mr_fleet_await_permit(m->fleet, m->seat, row);
    return NULL;
}

static napi_value seat_number(napi_env env, uint32_t seat)
{
    return mr_number(env, seat == MR_NO_SEAT ? -1 : (double)seat);
}

static napi_value call_give_permit(napi_env env, napi_callback_info info)
{
    uint32_t row;
    const mr_member *m = permit_args(env, info, &row, NULL);
    return m != NULL ? seat_number(env, mr_fleet_give_permit(m->fleet, m->seat, row)) : NULL;
}

static napi_value call_pass_permit(napi_env env, napi_callback_info info)
{
    uint32_t row;
    const mr_member *m = permit_args(env, info, &row, NULL);
    return m != NULL ? seat_number(env, mr_fleet_pass_permit(m->fleet, row)) : NULL;
}

napi_status mr_shared_export(napi_env env, napi_value exports)
{
    static const mr_call calls[] = {{"routeRow", call_route_row},
                 {"takePermit", call_take_permit},
                 {"awaitPermit", call_await_permit},
                 {"givePermit", call_give_permit},
                 {"passPermit", call_pass_permit}};
    return mr_calls_set(env, exports, calls, sizeof calls / sizeof calls[0]);
}
