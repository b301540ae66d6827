/* table_calls.c -- the calls for replies and route tables; see calls.h. */
#include "binding/args.h"
#include "binding/calls.h"
#include "binding/member.h"

/* ---- replies and routes ---- */

static bool add_part(napi_env env, mr_reply *reply, napi_value part)
{
    static const char *const names[] = {"kind", "index", "text", "fallback"};
    napi_value values[4];
    uint32_t kind, index;
    const uint8_t *text, *fallback;
    size_t text_len, fallback_len;
    for (int i = 0; i < 4; i++)
        if (napi_get_named_property(env, part, names[i], &values[i]) != napi_ok)
            return mr_arg_fail(env, names[i]);
    if (!mr_arg_u32(env, values[0], "kind", &kind) || !mr_arg_u32(env, values[1], "index", &index) ||
        !mr_arg_bytes(env, values[2], "text", &text, &text_len) ||
        !mr_arg_bytes(env, values[3], "fallback", &fallback, &fallback_len))
        return false;
    if (kind > MR_PART_HEADER)
        return mr_arg_fail(env, "kind");
    mr_rc rc = mr_reply_add_part(reply, (mr_part_kind)kind, index, text, text_len, fallback,
                                 fallback_len);
    if (rc != MR_OK)
        (void)mr_throw_rc(env, rc, "a template with too many parts, or no memory for it");
    return rc == MR_OK;
}

static bool add_parts(napi_env env, mr_reply *reply, napi_value parts)
{
    bool is_array = false;
    uint32_t count = 0;
    if (napi_is_array(env, parts, &is_array) != napi_ok || !is_array)
        return true;
    if (napi_get_array_length(env, parts, &count) != napi_ok)
        return mr_arg_fail(env, "parts");
    for (uint32_t i = 0; i < count; i++) {
        napi_value part;
        if (napi_get_element(env, parts, i, &part) != napi_ok || !add_part(env, reply, part))
            return false;
    }
    return true;
}

static napi_value call_add_reply(napi_env env, napi_callback_info info)
{
    napi_value args[7];
    uint32_t status, flags, escape, index;
    const uint8_t *head, *body;
    size_t head_len, body_len;
    if (!mr_args(env, info, 7, args))
        return NULL;
    mr_server *s = mr_server_of(env, args[0]);
    if (s == NULL || !mr_arg_u32(env, args[1], "status", &status) ||
        !mr_arg_u32(env, args[2], "flags", &flags) ||
        !mr_arg_bytes(env, args[3], "head", &head, &head_len) ||
        !mr_arg_bytes(env, args[4], "body", &body, &body_len) ||
        !mr_arg_u32(env, args[5], "escape", &escape))
        return NULL;
    if (status < 200 || status > 599 || head_len == 0 || head_len > MR_RESPONSE_HEAD_MAX ||
        escape > MR_ESCAPE_JSON)
        return mr_throw_rc(env, MR_INVALID, "status, head or escape of a reply");
    mr_reply *reply = mr_reply_create(mr_engine_mem(s->engine), (uint16_t)status,
                                      (flags & 1) ? MR_REPLY_HAS_DATE : 0, head, head_len, body,
                                      body_len);
    if (reply == NULL)
        return mr_throw_rc(env, MR_NOMEM, "no memory for a reply");
    reply->escape = (uint8_t)escape;
    if (!add_parts(env, reply, args[6])) {
        mr_reply_release(reply);
        return NULL;
    }
    mr_rc rc = mr_rings_add_reply(&s->rings, reply, &index);
    return rc == MR_OK ? mr_number(env, index) : mr_throw_rc(env, rc, "too many replies and templates");
}

static napi_value call_drop_reply(napi_env env, napi_callback_info info)
{
    napi_value args[2];
    uint32_t index;
    if (!mr_args(env, info, 2, args))
        return NULL;
    mr_server *s = mr_server_of(env, args[0]);
    if (s != NULL && mr_arg_u32(env, args[1], "number", &index))
        mr_rings_drop_reply(&s->rings, index);
    return NULL;
}

static napi_value call_begin_routes(napi_env env, napi_callback_info info)
{
    napi_value args[1];
    if (!mr_args(env, info, 1, args))
        return NULL;
    mr_server *s = mr_server_of(env, args[0]);
    if (s == NULL)
        return NULL;
    mr_routes_destroy(s->new_routes);
    s->new_routes = mr_routes_create(mr_engine_mem(s->engine));
    return s->new_routes ? NULL : mr_throw_rc(env, MR_NOMEM, "no memory for a route table");
}

static napi_value call_add_route(napi_env env, napi_callback_info info)
{
    napi_value args[8];
    const uint8_t *bytes, *name;
    size_t len, name_len;
    uint32_t mask, handler, reply, flags;
    mr_action action = {.route = MR_METER_NO_ROUTE};
    if (!mr_args(env, info, 8, args))
        return NULL;
    mr_server *s = mr_server_of(env, args[0]);
    if (s == NULL || s->new_routes == NULL || !mr_arg_bytes(env, args[1], "pattern", &bytes, &len) ||
        !mr_arg_u32(env, args[2], "mask", &mask) ||
        !mr_arg_u32(env, args[3], "handler", &handler) ||
        !mr_arg_u32(env, args[4], "reply", &reply) || !mr_arg_u32(env, args[5], "flags", &flags) ||
        !mr_arg_u64(env, args[6], "bodyBytes", &action.body_bytes) ||
        !mr_arg_bytes(env, args[7], "name", &name, &name_len))
        return NULL;
    action.handler = handler;
    action.flags = flags;
    if (s->fleet != NULL && name_len > 0)
        action.route = mr_fleet_route(s->fleet, (const char *)name, name_len);
    if (handler == MR_NO_HANDLER && !(flags & MR_ACTION_LIVE)) {
        if (reply >= s->rings.reply_count || s->rings.replies[reply] == NULL)
            return mr_throw_rc(env, MR_INVALID, "a route names a reply that is not there");
        action.reply = s->rings.replies[reply];
        mr_reply_retain(action.reply);
    }
    mr_rc rc = mr_routes_add(s->new_routes, bytes, len, mask, &action);
    return rc == MR_OK ? NULL : mr_throw_rc(env, rc, "a route that the table does not take");
}

static napi_value call_commit_routes(napi_env env, napi_callback_info info)
{
    napi_value args[3];
    uint32_t fallback, flags;
    if (!mr_args(env, info, 3, args))
        return NULL;
    mr_server *s = mr_server_of(env, args[0]);
    if (s == NULL || s->new_routes == NULL ||
        !mr_arg_u32(env, args[1], "fallback", &fallback) ||
        !mr_arg_u32(env, args[2], "flags", &flags))
        return NULL;
    mr_engine_set_routes(s->engine, s->new_routes, fallback, flags);
    s->new_routes = NULL;
    return mr_number(env, s->rings.request_count); /* that wait, matched by the table before */
}

napi_status mr_table_export(napi_env env, napi_value exports)
{
    static const mr_call calls[] = {
        {"addReply", call_add_reply},
        {"dropReply", call_drop_reply},
        {"beginRoutes", call_begin_routes},
        {"addRoute", call_add_route},
        {"commitRoutes", call_commit_routes},
    };
    return mr_calls_set(env, exports, calls, sizeof calls / sizeof calls[0]);
}
