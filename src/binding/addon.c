/* addon.c -- the module: set-up per environment, servers' birth and death, teardown.
 *
 * Nothing here is static and mutable: each environment (the main thread, each worker) has its own
 * mr_env as instance data. Teardown: Node runs the clean-up hook, we close every server's handles,
 * the loop lets them go, the last one removes the hook, and Node goes on. */
#include "binding/calls.h"
#include "binding/host_llhttp.h"
#include "binding/member.h"
#include "binding/shared.h"
#include <stdlib.h>
#include <string.h>

#define INTERFACE_VERSION 2 /* lib/interface.js must name the same */

static const napi_type_tag handle_tag = {0x8f1d2c07b6e94a35u, 0x91c3d0527fe8a46bu};

static const mr_handlers ring_handlers = {.on_request = mr_rings_on_request,
                                          .on_content = mr_rings_on_content,
                                          .on_note = mr_rings_on_note,
                                          .on_leave = mr_server_on_leave};

static napi_value fail(napi_env env, const char *code, const char *message)
{
    bool is_pending = false;
    (void)napi_is_exception_pending(env, &is_pending);
    if (!is_pending)
        (void)napi_throw_error(env, code, message);
    return NULL;
}

/* ---- handles ---- */

mr_server *mr_server_of(napi_env env, napi_value handle)
{
    bool is_ours = false;
    void *box = NULL;
    if (napi_check_object_type_tag(env, handle, &handle_tag, &is_ours) != napi_ok || !is_ours ||
        napi_unwrap(env, handle, &box) != napi_ok) {
        (void)fail(env, "ERR_MILLRACE_INTERNAL_ARGUMENT", "not a server handle");
        return NULL;
    }
    mr_server *s = ((mr_box *)box)->server;
    return s != NULL && !s->is_closing ? s : NULL;
}

static void on_handle_collected(napi_env env, void *data, void *hint)
{
    mr_box *box = data;
    (void)env, (void)hint;
    if (box->server != NULL)
        box->server->box = NULL;
    free(box);
}

/* ---- the host's llhttp ---- */

/* Looked for once in each environment, when it is first asked for. NULL: *refusal says why. */
static mr_h1_llhttp *llhttp_of(mr_env *home, const char **refusal)
{
    mr_llhttp_api api = {0};
    if (home->llhttp == NULL) {
        if ((home->llhttp = malloc(sizeof *home->llhttp)) == NULL) {
            *refusal = "There is no memory for it.";
            return NULL;
        }
        mr_host_llhttp_find(&api);
        if (mr_h1_llhttp_init(home->llhttp, &api, &home->llhttp_refusal) == MR_OK)
            home->llhttp_refusal = NULL;
    }
    *refusal = home->llhttp_refusal;
    return *refusal == NULL ? home->llhttp : NULL;
}

/* ---- birth ---- */

static bool make_async(mr_server *s, napi_value on_batch)
{
    napi_value name, resource;
    return napi_create_string_utf8(s->env, "MillraceBatch", NAPI_AUTO_LENGTH, &name) == napi_ok &&
           napi_create_object(s->env, &resource) == napi_ok &&
           napi_async_init(s->env, resource, name, &s->async) == napi_ok &&
           napi_create_reference(s->env, on_batch, 1, &s->on_batch) == napi_ok;
}

static bool make_handle(mr_server *s, napi_value *handle)
{
    mr_box *box = malloc(sizeof *box);
    if (box == NULL)
        return false;
    box->server = s;
    if (napi_create_object(s->env, handle) != napi_ok ||
        napi_type_tag_object(s->env, *handle, &handle_tag) != napi_ok ||
        napi_wrap(s->env, *handle, box, on_handle_collected, NULL, NULL) != napi_ok) {
        free(box);
        return false;
    }
    s->box = box;
    return mr_rings_init(&s->rings, s->env, *handle) == napi_ok;
}

napi_value mr_server_create(napi_env env, const mr_engine_options *given, napi_value on_batch,
                            mr_fleet *fleet, uint32_t seat)
{
    mr_engine_options options = *given;
    napi_value handle = NULL;
    uv_loop_t *loop = NULL;
    void *home = NULL;
    napi_valuetype type;
    if (napi_typeof(env, on_batch, &type) != napi_ok || type != napi_function)
        return fail(env, "ERR_MILLRACE_INTERNAL_ARGUMENT", "onBatch must be a function");
    if (napi_get_instance_data(env, &home) != napi_ok || home == NULL ||
        napi_get_uv_event_loop(env, &loop) != napi_ok)
        return fail(env, "ERR_MILLRACE_INTERNAL", "the environment is ending");
    const char *refusal = NULL;
    if (options.parser == &mr_h1_parser_llhttp &&
        (options.parser_self = llhttp_of(home, &refusal)) == NULL)
        return fail(env, "ERR_MILLRACE_UNSUPPORTED", refusal);
    mr_server *s = calloc(1, sizeof *s);
    if (s == NULL)
        mr_access_ring_close(options.access);
    if (s == NULL)
        return fail(env, "ERR_MILLRACE_OUT_OF_MEMORY", "no memory for a server");
    s->home = home;
    s->env = env;
    s->next = s->home->servers;
    s->home->servers = s;
    if ((s->fleet = fleet) != NULL)
        mr_fleet_retain(fleet);
    s->seat = seat;
    s->access = options.access;
    options.fleet = fleet;
    options.seat = seat;
    options.handlers = &ring_handlers;
    options.owner = &s->rings;
    mr_pump_prepare_net(s, loop);
    if (options.transport == NULL)
        options.transport = &s->net.ops;
    if (!make_handle(s, &handle) || !make_async(s, on_batch) ||
        mr_engine_create(&options, &s->engine) != MR_OK || mr_pump_start(s, loop) != MR_OK) {
        mr_pump_stop(s);
        return fail(env, "ERR_MILLRACE_OUT_OF_MEMORY", "the engine could not be set up");
    }
    s->rings.engine = s->engine;
    return handle;
}

/* ---- death ---- */

static void unlink_server(mr_server *s)
{
    mr_server **link = &s->home->servers;
    while (*link != s)
        link = &(*link)->next;
    *link = s->next;
}

void mr_env_end_if_empty(mr_env *home)
{
    if (home->is_ending && home->servers == NULL && home->members == NULL && home->hook != NULL) {
        (void)napi_remove_async_cleanup_hook(home->hook);
        home->hook = NULL;
        free(home->llhttp);
        free(home);
    }
}

void mr_server_free(mr_server *s)
{
    mr_env *home = s->home;
    bool is_ending = home->is_ending;
    if (s->box != NULL)
        s->box->server = NULL;
    if (!is_ending) {
        napi_handle_scope scope;
        if (napi_open_handle_scope(s->env, &scope) == napi_ok) {
            if (s->async != NULL)
                (void)napi_async_destroy(s->env, s->async);
            if (s->on_batch != NULL)
                (void)napi_delete_reference(s->env, s->on_batch);
            (void)napi_close_handle_scope(s->env, scope);
        }
    }
    mr_rings_dispose(&s->rings, is_ending);
    unlink_server(s);
    mr_access_ring_close(s->access);
    mr_fleet_release(s->fleet);
    free(s);
    mr_env_end_if_empty(home);
}

static void on_environment_end(napi_async_cleanup_hook_handle hook, void *data)
{
    mr_env *home = data;
    /* Else the last of them ends the hook, and home with it. */
    bool has_members = home->members != NULL;
    bool is_empty = home->servers == NULL && !has_members;
    (void)hook;
    home->is_ending = true;
    /* A server that has no open handle frees itself at once: take the next before. */
    for (mr_server *s = home->servers, *next; s != NULL; s = next) {
        next = s->next;
        s->is_in_turn = false; /* a terminated handler does not come back into its turn */
        mr_pump_stop(s);
    }
    if (has_members)
        mr_members_end(home);
    else if (is_empty)
        mr_env_end_if_empty(home);
}

/* ---- the module ---- */

static napi_value info(napi_env env, napi_callback_info call)
{
    napi_value out, text;
    void *home = NULL;
    const char *refusal = "The environment is ending.";
    (void)call;
    if (napi_create_object(env, &out) != napi_ok)
        return NULL;
    if (napi_get_instance_data(env, &home) == napi_ok && home != NULL)
        (void)llhttp_of(home, &refusal);
    const struct {
        const char *name, *value;
    } rows[] = {{"transport", MR_TRANSPORT_DEFAULT},
                {"transportReason", MR_TRANSPORT_REASON},
                {"transports", MR_TRANSPORTS},
                {"simd", mr_h1_scan_name(mr_h1_scan_best())},
                {"parser", "millrace"},
                {"llhttp", refusal != NULL ? refusal : ""}}; /* why it cannot be used */
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (napi_create_string_utf8(env, rows[i].value, NAPI_AUTO_LENGTH, &text) != napi_ok ||
            napi_set_named_property(env, out, rows[i].name, text) != napi_ok)
            return NULL;
    return out;
}

static napi_value init(napi_env env, napi_value exports)
{
    napi_value version, function;
    mr_env *home = calloc(1, sizeof *home);
    if (home == NULL)
        return fail(env, "ERR_MILLRACE_OUT_OF_MEMORY", "no memory for the module");
    home->env = env;
    if (napi_set_instance_data(env, home, NULL, NULL) != napi_ok ||
        napi_add_async_cleanup_hook(env, on_environment_end, home, &home->hook) != napi_ok) {
        free(home);
        return fail(env, "ERR_MILLRACE_INTERNAL", "the environment takes no clean-up hook");
    }
    if (napi_create_uint32(env, INTERFACE_VERSION, &version) != napi_ok ||
        napi_set_named_property(env, exports, "interfaceVersion", version) != napi_ok ||
        napi_create_function(env, "info", NAPI_AUTO_LENGTH, info, NULL, &function) != napi_ok ||
        napi_set_named_property(env, exports, "info", function) != napi_ok ||
        mr_calls_export(env, exports) != napi_ok || mr_table_export(env, exports) != napi_ok ||
        mr_member_export(env, exports) != napi_ok || mr_shared_export(env, exports) != napi_ok ||
        mr_series_calls_export(env, exports) != napi_ok)
        return fail(env, "ERR_MILLRACE_INTERNAL", "the module's functions could not be set");
    return exports;
}

NAPI_MODULE(NODE_GYP_MODULE_NAME, init)
