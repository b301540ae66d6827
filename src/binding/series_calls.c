/* series_calls.c -- the calls for a program's own metrics; see member.h. */
#include "binding/args.h"
#include "binding/member.h"
#include <string.h>

#define TEXTS_BYTES (8u * 1024u) /* all texts of one definition */

typedef struct text_room {
    char bytes[TEXTS_BYTES];
    size_t used;
} text_room;

/* A string, copied into the room. */
static bool read_text(napi_env env, napi_value value, text_room *room, mr_span *out)
{
    size_t len, left = sizeof room->bytes - room->used;
    char *to = room->bytes + room->used;
    if (napi_get_value_string_utf8(env, value, NULL, 0, &len) != napi_ok || len + 1 > left ||
        napi_get_value_string_utf8(env, value, to, left, &len) != napi_ok)
        return mr_arg_fail(env, "a text of a metric");
    *out = (mr_span){to, len};
    room->used += len + 1;
    return true;
}

static bool read_texts(napi_env env, napi_value list, text_room *room, mr_span *out, uint32_t *count)
{
    napi_value item;
    if (napi_get_array_length(env, list, count) != napi_ok || *count > MR_SERIES_LABELS_MAX)
        return mr_arg_fail(env, "labels of a metric");
    for (uint32_t i = 0; i < *count; i++)
        if (napi_get_element(env, list, i, &item) != napi_ok || !read_text(env, item, room, &out[i]))
            return false;
    return true;
}

static bool read_bounds(napi_env env, napi_value list, double *out, uint32_t *count)
{
    napi_value item;
    if (napi_get_array_length(env, list, count) != napi_ok || *count > MR_SERIES_BOUNDS_MAX)
        return mr_arg_fail(env, "bounds of a histogram");
    for (uint32_t i = 0; i < *count; i++)
        if (napi_get_element(env, list, i, &item) != napi_ok ||
            napi_get_value_double(env, item, &out[i]) != napi_ok)
            return mr_arg_fail(env, "bounds of a histogram");
    return true;
}

static napi_value call_define(napi_env env, napi_callback_info info)
{
    napi_value args[8];
    mr_span names[MR_SERIES_LABELS_MAX], values[MR_SERIES_LABELS_MAX];
    double bounds[MR_SERIES_BOUNDS_MAX];
    text_room room = {.used = 0};
    uint32_t kind, merge, value_count;
    mr_series_def def = {.label_names = names, .label_values = values, .bounds = bounds};
    mr_series_place place;
    const char *problem = "there are too many metrics";
    mr_member *m = mr_args(env, info, 8, args) ? mr_member_of(env, args[0]) : NULL;
    if (m == NULL || !mr_arg_u32(env, args[1], "kind", &kind) ||
        !mr_arg_u32(env, args[2], "merge", &merge) || !read_text(env, args[3], &room, &def.name) ||
        !read_text(env, args[4], &room, &def.help) ||
        !read_texts(env, args[5], &room, names, &def.label_count) ||
        !read_texts(env, args[6], &room, values, &value_count) ||
        !read_bounds(env, args[7], bounds, &def.bound_count))
        return NULL;
    if (kind > MR_SERIES_HISTOGRAM || merge > MR_MERGE_THREAD || value_count != def.label_count) {
        mr_arg_fail(env, "kind, merge or labels of a metric");
        return NULL;
    }
    def.kind = (mr_series_kind)kind;
    def.merge = (mr_series_merge)merge;
    mr_rc rc = mr_fleet_define(m->fleet, m->seat, &def, &place, &problem);
    if (rc == MR_OK)
        return mr_number(env, place.slot);
    (void)napi_throw_error(env, rc == MR_NOMEM ? "ERR_MILLRACE_OUT_OF_MEMORY" : "ERR_MILLRACE_METRIC",
                           rc == MR_NOMEM ? "no memory for a metric" : problem);
    return NULL;
}

static void on_values_collected(napi_env env, void *data, void *fleet)
{
    (void)env, (void)data;
    mr_fleet_release(fleet);
}

/* The memory is the fleet's, which lives as long as JavaScript may write there. */
static napi_value call_values(napi_env env, napi_callback_info info)
{
    napi_value args[1], memory, view = NULL;
    mr_member *m = mr_args(env, info, 1, args) ? mr_member_of(env, args[0]) : NULL;
    if (m == NULL)
        return NULL;
    const mr_values *values = &m->fleet->seats[m->seat].values;
    if (values->slots == NULL)
        return NULL;
    mr_fleet_retain(m->fleet);
    if (napi_create_external_arraybuffer(env, (void *)(uintptr_t)values->slots,
                                         MR_SERIES_SLOTS_MAX * sizeof(double), on_values_collected,
                                         m->fleet, &memory) != napi_ok) {
        mr_fleet_release(m->fleet);
        return NULL;
    }
    (void)napi_create_typedarray(env, napi_float64_array, MR_SERIES_SLOTS_MAX, memory, 0, &view);
    return view;
}

napi_status mr_series_calls_export(napi_env env, napi_value exports)
{
    static const mr_call calls[] = {{"seriesDefine", call_define}, {"seriesValues", call_values}};
    return mr_calls_set(env, exports, calls, sizeof calls / sizeof calls[0]);
}
