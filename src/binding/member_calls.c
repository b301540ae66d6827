/* member_calls.c -- the calls of a fleet; see member.h. */
#include "binding/args.h"
#include "binding/fleets.h"
#include "binding/member.h"
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define THREAD_NAME_MAX 15u /* pthread_setname_np(3) */
#define POST_STACK_BYTES 1024u

static const napi_type_tag member_tag = {0x3b90f6a8d1c24e57u, 0xa74c1e8802d95b13u};

static napi_value fail(napi_env env, const char *code, const char *message)
{
    (void)napi_throw_error(env, code, message);
    return NULL;
}

/* ---- handles ---- */

mr_member *mr_member_of(napi_env env, napi_value handle)
{
    bool is_ours = false;
    void *box = NULL;
    if (napi_check_object_type_tag(env, handle, &member_tag, &is_ours) != napi_ok || !is_ours ||
        napi_unwrap(env, handle, &box) != napi_ok) {
        (void)mr_arg_fail(env, "not a handle of a fleet");
        return NULL;
    }
    return *(mr_member **)box;
}

static void on_handle_collected(napi_env env, void *data, void *hint)
{
    mr_member **box = data;
    (void)env, (void)hint;
    if (*box != NULL)
        (*box)->handle = NULL;
    free(box);
}

/* Takes the reference to the fleet. */
static napi_value make_member(napi_env env, mr_fleet *fleet, uint32_t seat, napi_value on_mail,
                              napi_value on_accept, uint32_t ping_ms)
{
    napi_value holder;
    void *home = NULL;
    mr_member **box = malloc(sizeof *box);
    if (box == NULL || napi_get_instance_data(env, &home) != napi_ok || home == NULL ||
        napi_create_object(env, &holder) != napi_ok ||
        napi_type_tag_object(env, holder, &member_tag) != napi_ok) {
        free(box);
        mr_fleet_release(fleet);
        return fail(env, "ERR_MILLRACE_OUT_OF_MEMORY", "no memory for a member of a fleet");
    }
    *box = NULL;
    if (napi_wrap(env, holder, box, on_handle_collected, NULL, NULL) != napi_ok) {
        free(box);
        mr_fleet_release(fleet);
        return fail(env, "ERR_MILLRACE_OUT_OF_MEMORY", "no memory for a member of a fleet");
    }
    mr_member *m = mr_member_create(home, fleet, seat, holder, on_mail, on_accept, ping_ms);
    if (m == NULL)
        return fail(env, "ERR_MILLRACE_OUT_OF_MEMORY", "no memory for a member of a fleet");
    *box = m;
    m->handle = box;
    return holder;
}

static mr_member *member_arg(napi_env env, napi_callback_info info, size_t count, napi_value *args)
{
    return mr_args(env, info, count, args) ? mr_member_of(env, args[0]) : NULL;
}

/* ---- birth ---- */

static napi_value call_create(napi_env env, napi_callback_info info)
{
    napi_value args[7];
    mr_fleet_options options = {0};
    uint32_t balance, ping_ms;
    mr_fleet *fleet = NULL;
    if (!mr_args(env, info, 7, args) ||
        !mr_arg_u32(env, args[0], "threads", &options.thread_count) ||
        !mr_arg_u32(env, args[1], "balance", &balance) ||
        !mr_arg_u32(env, args[2], "stuckMs", &options.stuck_ms) ||
        !mr_arg_u32(env, args[3], "pingMs", &ping_ms))
        return NULL;
    options.balance = (mr_balance)(balance & 3u);
    if (napi_get_value_bool(env, args[6], &options.keeps_cpu) != napi_ok)
        options.keeps_cpu = false;
    mr_rc rc = mr_fleets_create(options, &fleet);
    if (rc == MR_LIMIT)
        return fail(env, "ERR_MILLRACE_UNSUPPORTED",
                    "There are 256 fleets, or servers with metrics, limits or logs of their own, in this process already.");
    if (rc != MR_OK)
        return fail(
            env, rc == MR_INVALID ? "ERR_MILLRACE_INTERNAL_ARGUMENT" : "ERR_MILLRACE_OUT_OF_MEMORY",
            "the fleet could not be made");
    return make_member(env, fleet, MR_SUPERVISOR, args[4], args[5], ping_ms);
}

static napi_value call_join(napi_env env, napi_callback_info info)
{
    napi_value args[3], nothing;
    uint32_t id, seat;
    if (!mr_args(env, info, 3, args) || !mr_arg_u32(env, args[0], "number", &id) ||
        !mr_arg_u32(env, args[1], "seat", &seat) || napi_get_undefined(env, &nothing) != napi_ok)
        return NULL;
    mr_fleet *fleet = mr_fleets_find(id);
    if (fleet == NULL)
        return fail(env, "ERR_MILLRACE_COPIES",
                    "This thread has loaded another copy of the addon than its supervisor.");
    if (seat == MR_SUPERVISOR || seat >= fleet->seat_count) {
        mr_fleet_release(fleet);
        return fail(env, "ERR_MILLRACE_INTERNAL_ARGUMENT", "seat");
    }
    return make_member(env, fleet, seat, args[2], nothing, 0);
}

/* ---- seats ---- */

static napi_value call_number(napi_env env, napi_callback_info info)
{
    napi_value args[1];
    const mr_member *m = member_arg(env, info, 1, args);
    return m != NULL ? mr_number(env, m->fleet->id) : NULL;
}

static napi_value call_take_seat(napi_env env, napi_callback_info info)
{
    napi_value args[2];
    uint32_t thread, seat;
    const mr_member *m = member_arg(env, info, 2, args);
    if (m == NULL || !mr_arg_u32(env, args[1], "thread", &thread))
        return NULL;
    return mr_number(env, mr_fleet_take_seat(m->fleet, thread, &seat) == MR_OK ? (double)seat : -1);
}

static napi_value call_reap(napi_env env, napi_callback_info info)
{
    napi_value args[2];
    uint32_t seat;
    mr_member *m = member_arg(env, info, 2, args);
    if (m == NULL || !mr_arg_u32(env, args[1], "seat", &seat))
        return NULL;
    if (m->seat != MR_SUPERVISOR || seat == MR_SUPERVISOR || seat >= m->fleet->seat_count) {
        mr_arg_fail(env, "seat");
        return NULL;
    }
    mr_fleet_reap(m->fleet, seat);
    return NULL;
}

static napi_value call_up(napi_env env, napi_callback_info info)
{
    napi_value args[1];
    mr_member *m = member_arg(env, info, 1, args);
    if (m != NULL)
        mr_fleet_up(m->fleet, m->seat);
    return NULL;
}

static napi_value call_draining(napi_env env, napi_callback_info info)
{
    napi_value args[1];
    mr_member *m = member_arg(env, info, 1, args);
    if (m != NULL)
        mr_fleet_draining(m->fleet, m->seat);
    return NULL;
}

static napi_value call_ref(napi_env env, napi_callback_info info)
{
    napi_value args[2];
    bool is_wanted = false;
    mr_member *m = member_arg(env, info, 2, args);
    if (m == NULL || napi_get_value_bool(env, args[1], &is_wanted) != napi_ok)
        return NULL;
    if (is_wanted)
        uv_ref((uv_handle_t *)&m->bell);
    else
        uv_unref((uv_handle_t *)&m->bell);
    return NULL;
}

static napi_value call_seat_of(napi_env env, napi_callback_info info)
{
    napi_value args[2];
    uint32_t thread;
    const mr_member *m = member_arg(env, info, 2, args);
    if (m == NULL || !mr_arg_u32(env, args[1], "thread", &thread))
        return NULL;
    uint32_t seat = mr_fleet_seat_of(m->fleet, thread);
    return mr_number(env, seat == MR_NO_SEAT ? -1 : (double)seat);
}

/* ---- messages ---- */

/* The octets of a string (as UTF-8) or a Uint8Array. *own is to be freed, or NULL. */
static bool read_data(napi_env env, napi_value value, uint8_t *stack, const uint8_t **bytes,
                      size_t *len, uint8_t **own)
{
    napi_valuetype type;
    *own = NULL;
    if (napi_typeof(env, value, &type) != napi_ok || type != napi_string)
        return mr_arg_bytes(env, value, "data", bytes, len);
    uint8_t *to = stack;
    size_t cap = POST_STACK_BYTES;
    /* Shorter than what the stack holds means that it was not cut. */
    if (napi_get_value_string_utf8(env, value, (char *)to, cap, len) != napi_ok)
        return mr_arg_fail(env, "data");
    if (*len + 4 >= cap) {
        if (napi_get_value_string_utf8(env, value, NULL, 0, len) != napi_ok)
            return mr_arg_fail(env, "data");
        if ((to = *own = malloc(*len + 1)) == NULL)
            return false;
        if (napi_get_value_string_utf8(env, value, (char *)to, *len + 1, len) != napi_ok)
            return mr_arg_fail(env, "data");
    }
    *bytes = to;
    return true;
}

static uint32_t seat_named(const mr_member *m, int32_t to)
{
    return to < 0 ? (uint32_t)(-(to + 1)) : mr_fleet_seat_of(m->fleet, (uint32_t)to);
}

static napi_value call_post(napi_env env, napi_callback_info info)
{
    napi_value args[8];
    int32_t to;
    uint32_t kind, flags, low, high;
    uint8_t stack[POST_STACK_BYTES], *own = NULL;
    mr_mail mail = {0};
    mr_member *m = member_arg(env, info, 8, args);
    if (m == NULL || napi_get_value_int32(env, args[1], &to) != napi_ok ||
        !mr_arg_u32(env, args[2], "kind", &kind) || !mr_arg_u32(env, args[3], "flags", &flags) ||
        !mr_arg_u32(env, args[4], "name", &mail.name) || !mr_arg_u32(env, args[5], "call", &low) ||
        !mr_arg_u32(env, args[6], "call", &high))
        return NULL;
    if (kind < MR_MAIL_POST || kind >= MR_MAIL_SOCKET) {
        mr_arg_fail(env, "kind");
        return NULL;
    }
    mr_rc rc = MR_NOMEM;
    uint32_t seat = seat_named(m, to);
    if (read_data(env, args[7], stack, &mail.bytes, &mail.len, &own)) {
        mail.kind = (uint16_t)kind;
        mail.flags = (uint16_t)flags;
        mail.call = (uint64_t)high << 32 | low;
        rc = mr_fleet_post(m->fleet, m->seat, seat, &mail);
    }
    free(own);
    return mr_number(env, rc == MR_OK ? (double)seat : -(double)rc);
}

static napi_value call_name(napi_env env, napi_callback_info info)
{
    napi_value args[2];
    uint32_t name;
    char text[MR_FLEET_NAME_BYTES + 8];
    size_t len;
    mr_member *m = member_arg(env, info, 2, args);
    if (m == NULL)
        return NULL;
    if (napi_get_value_string_utf8(env, args[1], text, sizeof text, &len) != napi_ok) {
        mr_arg_fail(env, "name");
        return NULL;
    }
    mr_rc rc = mr_fleet_name(m->fleet, text, len, &name);
    return mr_number(env, rc == MR_OK ? (double)name : -(double)rc);
}

static napi_value call_name_text(napi_env env, napi_callback_info info)
{
    napi_value args[2], text = NULL;
    uint32_t name;
    char bytes[MR_FLEET_NAME_BYTES + 1];
    mr_member *m = member_arg(env, info, 2, args);
    if (m == NULL || !mr_arg_u32(env, args[1], "name", &name))
        return NULL;
    size_t len = mr_fleet_name_text(m->fleet, name, bytes);
    (void)napi_create_string_utf8(env, bytes, len, &text);
    return text;
}

/* ---- what is shown ---- */

static napi_value show(napi_env env, const mr_member *m, bool is_metrics)
{
    napi_value text = NULL;
    mr_mem mem = {0};
    mr_buf out = {0};
    bool is_well;
    uint64_t now_ns = uv_hrtime();
    mr_rc rc = is_metrics ? mr_fleet_metrics_text(m->fleet, &mem, &out, now_ns)
                          : mr_fleet_health_text(m->fleet, &mem, &out, now_ns, false, &is_well);
    if (rc == MR_OK)
        (void)napi_create_string_utf8(env, (const char *)out.data, out.len, &text);
    else
        (void)fail(env, "ERR_MILLRACE_OUT_OF_MEMORY", "no memory for the text of the metrics");
    mr_buf_dispose(&mem, &out);
    return text;
}

static napi_value call_metrics(napi_env env, napi_callback_info info)
{
    napi_value args[1];
    const mr_member *m = member_arg(env, info, 1, args);
    return m != NULL ? show(env, m, true) : NULL;
}

static napi_value call_health(napi_env env, napi_callback_info info)
{
    napi_value args[1];
    const mr_member *m = member_arg(env, info, 1, args);
    return m != NULL ? show(env, m, false) : NULL;
}

static napi_value call_reopen_log(napi_env env, napi_callback_info info)
{
    napi_value args[1];
    const mr_member *m = member_arg(env, info, 1, args);
    if (m != NULL)
        mr_fleet_reopen_access(m->fleet);
    return NULL;
}

/* ---- ends ---- */

static napi_value call_sweep(napi_env env, napi_callback_info info)
{
    napi_value args[1];
    mr_member *m = member_arg(env, info, 1, args);
    if (m != NULL)
        mr_fleet_sweep_listeners(m->fleet);
    return NULL;
}

static napi_value call_close_listeners(napi_env env, napi_callback_info info)
{
    napi_value args[1];
    mr_member *m = member_arg(env, info, 1, args);
    if (m == NULL)
        return NULL;
    mr_fleet_rescue(m->fleet, uv_hrtime());
    mr_member_stop_watches(m);
    mr_fleet_close_listeners(m->fleet);
    return NULL;
}

static napi_value call_end(napi_env env, napi_callback_info info)
{
    napi_value args[1];
    mr_member *m = member_arg(env, info, 1, args);
    if (m != NULL)
        mr_member_end(m);
    return NULL;
}

/* ---- threads of the system ---- */

static napi_value call_name_thread(napi_env env, napi_callback_info info)
{
    napi_value args[1], out = NULL;
    char text[THREAD_NAME_MAX + 1];
    size_t len;
    if (!mr_args(env, info, 1, args))
        return NULL;
    if (napi_get_value_string_utf8(env, args[0], text, sizeof text, &len) != napi_ok) {
        mr_arg_fail(env, "name");
        return NULL;
    }
    (void)napi_get_boolean(env, pthread_setname_np(pthread_self(), text) == 0, &out);
    return out;
}

/* Of those that the process may use, counted round. */
static size_t nth_cpu(const cpu_set_t *allowed, uint32_t n)
{
    size_t cpu = 0;
    uint32_t skip = n % (uint32_t)CPU_COUNT(allowed);
    for (; !CPU_ISSET(cpu, allowed) || skip-- > 0; cpu++)
        ;
    return cpu;
}

static napi_value call_pin_thread(napi_env env, napi_callback_info info)
{
    napi_value args[1], out = NULL;
    uint32_t cpu;
    cpu_set_t set, allowed;
    if (!mr_args(env, info, 1, args) || !mr_arg_u32(env, args[0], "cpu", &cpu))
        return NULL;
    CPU_ZERO(&set);
    if (sched_getaffinity(getpid(), sizeof allowed, &allowed) == 0)
        CPU_SET(nth_cpu(&allowed, cpu), &set);
    (void)napi_get_boolean(env, pthread_setaffinity_np(pthread_self(), sizeof set, &set) == 0,
                           &out);
    return out;
}

static napi_value call_copies(napi_env env, napi_callback_info info)
{
    (void)info;
    return mr_number(env, mr_fleets_copies());
}

napi_status mr_member_export(napi_env env, napi_value exports)
{
    static const mr_call calls[] = {
        {"fleetCreate", call_create},
        {"fleetJoin", call_join},
        {"fleetNumber", call_number},
        {"fleetTakeSeat", call_take_seat},
        {"fleetReap", call_reap},
        {"fleetUp", call_up},
        {"fleetDraining", call_draining},
        {"fleetRef", call_ref},
        {"fleetSeatOf", call_seat_of},
        {"fleetPost", call_post},
        {"fleetName", call_name},
        {"fleetNameText", call_name_text},
        {"fleetMetrics", call_metrics},
        {"fleetHealth", call_health},
        {"fleetReopenLog", call_reopen_log},
        {"fleetSweep", call_sweep},
        {"fleetCloseListeners", call_close_listeners},
        {"fleetEnd", call_end},
        {"nameThread", call_name_thread},
        {"pinThread", call_pin_thread},
        {"copies", call_copies},
    };
    return mr_calls_set(env, exports, calls, sizeof calls / sizeof calls[0]);
}
