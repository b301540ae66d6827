/* args.h -- checked readers of what JavaScript passes. Each throws a TypeError with a code and
 * returns false when the value is not what it must be. */
#ifndef MR_BINDING_ARGS_H
#define MR_BINDING_ARGS_H

#include "base/rc.h"
#include <node_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool mr_arg_fail(napi_env env, const char *what)
{
    (void)napi_throw_type_error(env, "ERR_MILLRACE_INTERNAL_ARGUMENT", what);
    return false;
}

/* Up to `count` arguments; missing ones are undefined. */
static inline bool mr_args(napi_env env, napi_callback_info info, size_t count, napi_value *values)
{
    size_t got = count;
    return napi_get_cb_info(env, info, &got, values, NULL, NULL) == napi_ok ||
           mr_arg_fail(env, "the call's arguments cannot be read");
}

static inline bool mr_arg_u32(napi_env env, napi_value value, const char *what, uint32_t *out)
{
    double number;
    if (napi_get_value_double(env, value, &number) != napi_ok || !(number >= 0) ||
        number > 4294967295.0)
        return mr_arg_fail(env, what);
    *out = (uint32_t)number;
    return true;
}

static inline bool mr_arg_u64(napi_env env, napi_value value, const char *what, uint64_t *out)
{
    double number;
    if (napi_get_value_double(env, value, &number) != napi_ok || !(number >= 0) ||
        number > 9007199254740991.0)
        return mr_arg_fail(env, what);
    *out = (uint64_t)number;
    return true;
}

/* A number property of an object. */
static inline bool mr_prop_u64(napi_env env, napi_value object, const char *name, uint64_t *out)
{
    napi_value value;
    if (napi_get_named_property(env, object, name, &value) != napi_ok)
        return mr_arg_fail(env, name);
    return mr_arg_u64(env, value, name, out);
}

static inline bool mr_prop_u32(napi_env env, napi_value object, const char *name, uint32_t *out)
{
    napi_value value;
    if (napi_get_named_property(env, object, name, &value) != napi_ok)
        return mr_arg_fail(env, name);
    return mr_arg_u32(env, value, name, out);
}

/* The octets of a Uint8Array (Buffer); null and undefined give NULL and 0. Valid until JavaScript
 * runs again. */
static inline bool mr_arg_bytes(napi_env env, napi_value value, const char *what,
                                const uint8_t **bytes, size_t *len)
{
    napi_valuetype type;
    napi_typedarray_type element;
    void *data = NULL;
    bool is_array = false;
    *bytes = NULL;
    *len = 0;
    if (napi_typeof(env, value, &type) == napi_ok && (type == napi_undefined || type == napi_null))
        return true;
    if (napi_is_typedarray(env, value, &is_array) != napi_ok || !is_array ||
        napi_get_typedarray_info(env, value, &element, len, &data, NULL, NULL) != napi_ok ||
        element != napi_uint8_array)
        return mr_arg_fail(env, what);
    *bytes = data;
    if (data == NULL)
        *len = 0; /* detached */
    return true;
}

/* ---- results ---- */

static inline napi_value mr_number(napi_env env, double value)
{
    napi_value out = NULL;
    (void)napi_create_double(env, value, &out);
    return out;
}

static inline napi_value mr_boolean(napi_env env, bool value)
{
    napi_value out = NULL;
    (void)napi_get_boolean(env, value, &out);
    return out;
}

static inline napi_value mr_throw_rc(napi_env env, mr_rc rc, const char *what)
{
    (void)napi_throw_error(
        env, rc == MR_NOMEM ? "ERR_MILLRACE_OUT_OF_MEMORY" : "ERR_MILLRACE_INTERNAL", what);
    return NULL;
}

/* ---- functions ---- */

typedef struct mr_call {
    const char *name;
    napi_callback call;
} mr_call;

/* Sets them as properties of `exports`. */
static inline napi_status mr_calls_set(napi_env env, napi_value exports, const mr_call *calls,
                                       size_t count)
{
    for (size_t i = 0; i < count; i++) {
        napi_value function;
        napi_status status = napi_create_function(env, calls[i].name, NAPI_AUTO_LENGTH,
                                                  calls[i].call, NULL, &function);
        if (status == napi_ok)
            status = napi_set_named_property(env, exports, calls[i].name, function);
        if (status != napi_ok)
            return status;
    }
    return napi_ok;
}

#endif
