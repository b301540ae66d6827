/* calls.c -- see calls.h. */
#include "binding/calls.h"
#include "binding/args.h"
#include "binding/member.h"
#include "binding/shared.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ADDRESS_MAX 64u
#define MR_LEND_MIN (32u * 1024u) /* octets; less is copied */
#define FIELDS_MAX 4096u /* a head's block counts the octets before the head's in 16 bits */

/* ---- create, listen ---- */

static bool read_limits(napi_env env, napi_value o, mr_limits *l)
{
    return mr_prop_u32(env, o, "headerBytes", &l->head.header_bytes) &&
           mr_prop_u32(env, o, "headerCount", &l->head.header_count) &&
           mr_prop_u32(env, o, "targetBytes", &l->head.target_bytes) &&
           mr_prop_u64(env, o, "bodyBytes", &l->body_bytes) &&
           mr_prop_u64(env, o, "bodyBytesPerSecond", &l->body_bytes_per_second) &&
           mr_prop_u32(env, o, "connections", &l->connections) &&
           mr_prop_u32(env, o, "requestsPerConnection", &l->requests_per_connection) &&
           mr_prop_u64(env, o, "heldBytes", &l->held_bytes);
}

static bool read_timeouts(napi_env env, napi_value o, mr_timeouts *t)
{
    return mr_prop_u32(env, o, "header", &t->header_ms) &&
           mr_prop_u32(env, o, "body", &t->body_ms) &&
           mr_prop_u32(env, o, "keepAlive", &t->keep_alive_ms) &&
           mr_prop_u32(env, o, "send", &t->send_ms) && mr_prop_u32(env, o, "linger", &t->linger_ms);
}

/* NULL stands for libuv streams, which need the server's loop. */
static bool read_transport(napi_env env, napi_value o, const mr_transport_ops **transport)
{
    const mr_transport_ops *native = MR_TRANSPORT_NATIVE;
    char name[16] = "";
    napi_value value;
    if (napi_get_named_property(env, o, "transport", &value) != napi_ok ||
        napi_get_value_string_latin1(env, value, name, sizeof name, NULL) != napi_ok)
        return mr_arg_fail(env, "transport");
    bool is_native = native != NULL && strcmp(name, native->name) == 0;
    *transport = is_native ? native : NULL;
    return is_native || strcmp(name, MR_TRANSPORT_UV) == 0 || mr_arg_fail(env, "transport");
}

/* Bytes: for each range its family, its bits, and 16 octets of address. */
static bool read_ranges(napi_env env, napi_value o, mr_range *ranges, mr_engine_options *options)
{
    enum { RANGE_BYTES = 18 };
    napi_value value;
    const uint8_t *bytes;
    size_t len;
    if (napi_get_named_property(env, o, "proxySources", &value) != napi_ok ||
        !mr_arg_bytes(env, value, "proxySources", &bytes, &len))
        return false;
    if (len % RANGE_BYTES != 0 || len / RANGE_BYTES > MR_PROXY_SOURCES_MAX)
        return mr_arg_fail(env, "proxySources");
    options->proxy_sources = ranges;
    options->proxy_source_count = len / RANGE_BYTES;
    for (size_t i = 0; i < options->proxy_source_count; i++, bytes += RANGE_BYTES) {
        ranges[i] = (mr_range){.family = bytes[0], .bits = bytes[1]};
        memcpy(ranges[i].address, bytes + 2, sizeof ranges[i].address);
        if (!mr_range_is_valid(&ranges[i]))
            return mr_arg_fail(env, "proxySources");
    }
    return true;
}

static napi_value call_create(napi_env env, napi_callback_info info)
{
    mr_range ranges[MR_PROXY_SOURCES_MAX];
    napi_value args[3];
    napi_valuetype type = napi_undefined;
    uint32_t wants_llhttp;
    mr_engine_options options = {0};
    if (!mr_args(env, info, 3, args) || !read_limits(env, args[0], &options.limits) ||
        !read_timeouts(env, args[0], &options.timeouts) ||
        !read_transport(env, args[0], &options.transport) ||
        !read_ranges(env, args[0], ranges, &options) ||
        !mr_prop_u32(env, args[0], "wantsLlhttp", &wants_llhttp))
        return NULL;
    if (wants_llhttp != 0)
        options.parser = &mr_h1_parser_llhttp;
    if (options.limits.head.header_bytes > 65535 || options.limits.head.header_count < 1 ||
        options.limits.head.header_count > FIELDS_MAX)
        return mr_throw_rc(env, MR_INVALID, "limits are outside of what the parser can do");
    (void)napi_typeof(env, args[2], &type);
    mr_member *m = type == napi_object ? mr_member_of(env, args[2]) : NULL;
    if (m == NULL && type == napi_object)
        return mr_throw_rc(env, MR_INVALID, "this thread has left its fleet");
    mr_shared_room room;
    if (m != NULL && !mr_shared_read(env, args[0], m, &room, &options))
        return NULL;
    return mr_server_create(env, &options, args[1], m ? m->fleet : NULL, m ? m->seat : 0);
}

/* ---- listening ---- */

/* A string is an address, bytes are a path, a number is a descriptor. `address` is room for
 * ADDRESS_MAX octets, which the options will point at. */
static bool read_where(napi_env env, napi_value where, char *address, mr_listen_options *o)
{
    napi_valuetype type = napi_undefined;
    const uint8_t *path;
    size_t len;
    int32_t fd;
    (void)napi_typeof(env, where, &type);
    if (type == napi_string) {
        o->kind = MR_LISTEN_TCP;
        o->address = address;
        return napi_get_value_string_latin1(env, where, address, ADDRESS_MAX, &len) == napi_ok ||
               mr_arg_fail(env, "address");
    }
    if (type == napi_number) {
        o->kind = MR_LISTEN_FD;
        if (napi_get_value_int32(env, where, &fd) != napi_ok)
            return mr_arg_fail(env, "fd");
        o->fd = fd;
        return true;
    }
    o->kind = MR_LISTEN_UNIX;
    if (!mr_arg_bytes(env, where, "where", &path, &len))
        return false;
    o->path = (const char *)path;
    o->path_len = len;
    return len > 0 || mr_arg_fail(env, "path");
}

/* undefined: what the umask leaves. */
static bool read_mode(napi_env env, napi_value value, mr_listen_options *o)
{
    napi_valuetype type = napi_undefined;
    (void)napi_typeof(env, value, &type);
    o->has_mode = type != napi_undefined;
    return !o->has_mode || mr_arg_u32(env, value, "mode", &o->mode);
}

/* A listener of the fleet; where the supervisor accepts, the engine has nothing to listen on. */
static mr_rc listen_in_fleet(mr_server *s, const char *key, const mr_listen_options *options,
                             uint16_t *bound, int *error)
{
    uint32_t listener;
    int fd;
    mr_rc rc = mr_fleet_listen(s->fleet, s->seat, key, options, &listener, bound, &fd, error);
    if (rc == MR_OK && fd >= 0 && (rc = mr_engine_serve(s->engine, fd)) != MR_OK) {
        *error = ENOSPC; /* too many listeners, or the poller takes no more */
        mr_fleet_unlisten(s->fleet, s->seat, listener);
    }
    if (rc == MR_OK)
        s->listeners |= 1u << listener;
    return rc;
}

static napi_value call_listen(napi_env env, napi_callback_info info)
{
    napi_value args[8];
    napi_valuetype type = napi_undefined;
    uint32_t port, backlog;
    char address[ADDRESS_MAX], key[MR_LISTENER_KEY_BYTES];
    size_t key_len;
    mr_listen_options options = {.backlog = 1};
    uint16_t bound = 0;
    int error = 0;
    if (!mr_args(env, info, 8, args))
        return NULL;
    mr_server *s = mr_server_of(env, args[0]);
    if (s == NULL || !read_where(env, args[1], address, &options) ||
        !mr_arg_u32(env, args[2], "port", &port) ||
        !mr_arg_u32(env, args[3], "backlog", &backlog) || !read_mode(env, args[6], &options))
        return NULL;
    options.port = (uint16_t)port;
    options.backlog = backlog < 1 ? 1 : backlog > 65535 ? 65535 : (int)backlog;
    if (napi_get_value_bool(env, args[4], &options.is_ipv6_only) != napi_ok ||
        napi_get_value_bool(env, args[5], &options.is_shared) != napi_ok) {
        mr_arg_fail(env, "isV6Only and isShared");
        return NULL;
    }
    (void)napi_typeof(env, args[7], &type);
    bool is_shared = s->fleet != NULL && type == napi_string;
    if (is_shared && napi_get_value_string_utf8(env, args[7], key, sizeof key, &key_len) != napi_ok) {
        mr_arg_fail(env, "key");
        return NULL;
    }
    mr_rc rc = is_shared ? listen_in_fleet(s, key, &options, &bound, &error)
                         : mr_engine_listen(s->engine, &options, &bound, &error);
    if (rc != MR_OK)
        return mr_number(env, -(error ? error : 5));
    return mr_number(env, bound);
}

static napi_value call_describe(napi_env env, napi_callback_info info)
{
    napi_value args[1], row, text;
    int32_t fd;
    mr_sock_name name;
    int error;
    if (!mr_args(env, info, 1, args))
        return NULL;
    if (napi_get_value_int32(env, args[0], &fd) != napi_ok) {
        mr_arg_fail(env, "fd");
        return NULL;
    }
    if (mr_sock_describe(fd, &name, &error) != MR_OK)
        return mr_number(env, -error);
    if (napi_create_array_with_length(env, 3, &row) != napi_ok ||
        napi_create_string_utf8(env, name.text, name.text_len, &text) != napi_ok ||
        napi_set_element(env, row, 0, mr_number(env, name.family)) != napi_ok ||
        napi_set_element(env, row, 1, mr_number(env, name.port)) != napi_ok ||
        napi_set_element(env, row, 2, text) != napi_ok)
        return NULL;
    return row;
}

/* ---- answers ---- */

static napi_value call_drain(napi_env env, napi_callback_info info)
{
    napi_value args[1];
    mr_server *s = mr_args(env, info, 1, args) ? mr_server_of(env, args[0]) : NULL;
    if (s == NULL)
        return NULL;
    if (!s->is_in_turn)
        (void)mr_engine_update_clock(s->engine);
    mr_rings_drain(&s->rings);
    mr_pump_flush(s);
    return NULL;
}

/* ---- content that stays where it is ---- */

/* A JavaScript buffer whose octets are on their way out. */
typedef struct buffer_lease {
    mr_lease lease; /* first */
    mr_server *server;
    napi_ref buffer;
    const uint8_t *bytes;
} buffer_lease;

/* JavaScript may have transferred the memory away since. */
static bool buffer_is_valid(const mr_lease *lease)
{
    const buffer_lease *l = (const buffer_lease *)lease;
    napi_env env = l->server->env;
    napi_handle_scope scope;
    napi_value buffer;
    void *data = NULL;
    bool is_there = false;
    if (l->server->home->is_ending || napi_open_handle_scope(env, &scope) != napi_ok)
        return false;
    if (napi_get_reference_value(env, l->buffer, &buffer) == napi_ok && buffer != NULL &&
        napi_get_typedarray_info(env, buffer, NULL, NULL, &data, NULL, NULL) == napi_ok)
        is_there = data == l->bytes;
    (void)napi_close_handle_scope(env, scope);
    return is_there;
}

static void buffer_returned(mr_lease *lease)
{
    buffer_lease *l = (buffer_lease *)lease;
    if (!l->server->home->is_ending)
        (void)napi_delete_reference(l->server->env, l->buffer);
    free(l);
}

/* NULL: memory short, or nothing to lend; the content is copied then. */
static mr_lease *lend_buffer(mr_server *s, napi_value buffer, const uint8_t *bytes, size_t len)
{
    buffer_lease *l = len > MR_LEND_MIN ? malloc(sizeof *l) : NULL;
    if (l == NULL)
        return NULL;
    *l = (buffer_lease){.lease = {.borrowers = 1,
                                  .is_valid = buffer_is_valid,
                                  .on_return = buffer_returned},
                        .server = s,
                        .bytes = bytes};
    if (napi_create_reference(s->env, buffer, 1, &l->buffer) != napi_ok) {
        free(l);
        return NULL;
    }
    return &l->lease;
}

static napi_value call_send(napi_env env, napi_callback_info info)
{
    napi_value args[4];
    const uint8_t *bytes, *head, *body;
    size_t len, head_len, body_len;
    uint32_t record[MR_RECORD_WORDS];
    if (!mr_args(env, info, 4, args))
        return NULL;
    mr_server *s = mr_server_of(env, args[0]);
    if (s == NULL || !mr_arg_bytes(env, args[1], "record", &bytes, &len) ||
        !mr_arg_bytes(env, args[2], "head", &head, &head_len) ||
        !mr_arg_bytes(env, args[3], "body", &body, &body_len))
        return NULL;
    if (len != sizeof record) {
        mr_arg_fail(env, "record");
        return NULL;
    }
    memcpy(record, bytes, sizeof record);
    if (!s->is_in_turn)
        (void)mr_engine_update_clock(s->engine);
    mr_lease *lease = lend_buffer(s, args[3], body, body_len);
    mr_rings_carry_out(&s->rings, record, head, head_len, body, body_len, lease);
    /* At once, also inside a turn: the sooner octets that are only lent have left, the better. */
    if (lease != NULL)
        mr_engine_flush(s->engine);
    mr_lease_return(lease);
    mr_pump_flush(s);
    return NULL;
}

static mr_server *exchange_args(napi_env env, napi_callback_info info, uint64_t *connection,
                                uint32_t *seq)
{
    napi_value args[4];
    uint32_t slot, generation;
    if (!mr_args(env, info, 4, args))
        return NULL;
    mr_server *s = mr_server_of(env, args[0]);
    if (s == NULL || !mr_arg_u32(env, args[1], "slot", &slot) ||
        !mr_arg_u32(env, args[2], "generation", &generation) ||
        !mr_arg_u32(env, args[3], "seq", seq))
        return NULL;
    *connection = (uint64_t)slot | (uint64_t)generation << 32;
    return s;
}

static napi_value call_is_waiting(napi_env env, napi_callback_info info)
{
    uint64_t connection;
    uint32_t seq;
    mr_server *s = exchange_args(env, info, &connection, &seq);
    return mr_number(env, s ? (int)mr_engine_is_waiting(s->engine, connection, seq) : MR_IS_OVER);
}

static napi_value call_watch(napi_env env, napi_callback_info info)
{
    uint64_t connection;
    uint32_t seq;
    mr_server *s = exchange_args(env, info, &connection, &seq);
    return mr_boolean(env, s != NULL && mr_engine_watch(s->engine, connection, seq) == MR_OK);
}

static napi_value call_queued_bytes(napi_env env, napi_callback_info info)
{
    uint64_t connection;
    uint32_t seq;
    mr_server *s = exchange_args(env, info, &connection, &seq);
    if (s == NULL)
        return mr_number(env, 0);
    if (!s->is_in_turn)
        (void)mr_engine_update_clock(s->engine);
    mr_rings_drain(&s->rings);
    mr_engine_flush(s->engine);
    s->needs_turn = true;
    return mr_number(env, (double)mr_engine_queued_bytes(s->engine, connection, seq));
}

static napi_value call_watch_drain(napi_env env, napi_callback_info info)
{
    uint64_t connection;
    uint32_t seq;
    mr_server *s = exchange_args(env, info, &connection, &seq);
    return mr_boolean(env, s != NULL && mr_engine_watch_drain(s->engine, connection, seq) == MR_OK);
}

/* ---- ending ---- */

static napi_value call_shutdown(napi_env env, napi_callback_info info)
{
    napi_value args[2];
    uint32_t grace_ms;
    mr_server *s = mr_args(env, info, 2, args) ? mr_server_of(env, args[0]) : NULL;
    if (s == NULL || !mr_arg_u32(env, args[1], "grace", &grace_ms))
        return NULL;
    s->is_draining = true;
    mr_server_unlisten(s);
    mr_engine_drain(s->engine, grace_ms);
    s->needs_turn = true; /* to set the time-outs of those that linger now, or to tell the end */
    return NULL;
}

static napi_value call_migrate(napi_env env, napi_callback_info info)
{
    napi_value args[2];
    mr_server *s = mr_args(env, info, 2, args) ? mr_server_of(env, args[0]) : NULL;
    uint32_t heir;
    if (s == NULL || !mr_arg_u32(env, args[1], "seat", &heir))
        return NULL;
    if (s->fleet == NULL || heir == MR_SUPERVISOR || heir >= s->fleet->seat_count) {
        mr_arg_fail(env, "seat");
        return NULL;
    }
    s->heir = heir;
    mr_server_unlisten(s);
    s->is_draining = true;
    mr_engine_migrate(s->engine);
    s->needs_turn = true; /* its end sends the idle ones away */
    return NULL;
}

static napi_value call_destroy(napi_env env, napi_callback_info info)
{
    napi_value args[1];
    mr_server *s = mr_args(env, info, 1, args) ? mr_server_of(env, args[0]) : NULL;
    if (s != NULL)
        mr_pump_stop(s);
    return NULL;
}

static napi_value call_stats(napi_env env, napi_callback_info info)
{
    napi_value args[1], out;
    mr_engine_stats stats;
    if (!mr_args(env, info, 1, args) || napi_create_object(env, &out) != napi_ok)
        return NULL;
    mr_server *s = mr_server_of(env, args[0]);
    if (s == NULL)
        return NULL;
    mr_engine_get_stats(s->engine, &stats);
    const struct {
        const char *name;
        double value;
    } rows[] = {
        {"accepted", (double)stats.accepted},
        {"requests", (double)stats.requests},
        {"refused", (double)stats.refused},
        {"staleAnswers", (double)stats.stale_answers},
        {"acceptFailures", (double)stats.accept_failures},
        {"connections", stats.connections},
        {"usedBytes", (double)(stats.used_bytes + s->net.mem.used_bytes)},
        /* The two need not have been at their peaks together: at most. */
        {"peakBytes", (double)(stats.peak_bytes + s->net.mem.peak_bytes)},
        {"badRecords", (double)s->rings.bad_records},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (napi_set_named_property(env, out, rows[i].name, mr_number(env, rows[i].value)) != napi_ok)
            return NULL;
    return out;
}

napi_status mr_calls_export(napi_env env, napi_value exports)
{
    static const mr_call calls[] = {
        {"create", call_create},
        {"listen", call_listen},
        {"describe", call_describe},
        {"drain", call_drain},
        {"send", call_send},
        {"isWaiting", call_is_waiting},
        {"watch", call_watch},
        {"queuedBytes", call_queued_bytes},
        {"watchDrain", call_watch_drain},
        {"shutdown", call_shutdown},
        {"migrate", call_migrate},
        {"destroy", call_destroy},
        {"stats", call_stats},
    };
    return mr_calls_set(env, exports, calls, sizeof calls / sizeof calls[0]);
}
