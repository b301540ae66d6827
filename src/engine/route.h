/* route.h -- which action answers a method and a path.
 * Patterns: '/a/:b/c', a trailing '/' '*' (the wildcard). Static before param before wildcard,
 * whatever the order of adding; a candidate that lacks the method gives way to a less specific one
 * that has it. Paths are compared octet by octet, percent-encoding included.
 * Owns:    its nodes and the actions' replies (released with the table).
 * Thread:  the engine's.
 * Uses:    base/, proto/h1_parse.h (method numbers), proto/url.h, engine/reply.h. */
#ifndef MR_ENGINE_ROUTE_H
#define MR_ENGINE_ROUTE_H

#include "base/mem.h"
#include "engine/reply.h"
#include "proto/h1_parse.h"

#define MR_PARAMS_MAX 16u        /* params of one pattern */
#define MR_PATTERN_MAX 2048u     /* octets of one pattern */
#define MR_SEGMENTS_MAX 64u      /* segments of one pattern, its wildcard included */
#define MR_ANY_METHOD 0xFFFFFFFFu /* a method mask: every method, unknown ones included */
#define MR_METHOD_BIT(m) (1u << (m))

typedef struct mr_action {
    mr_reply *reply;  /* owned by the table; NULL: JavaScript answers */
    uint32_t handler; /* JavaScript's number for the handler */
    uint32_t flags;   /* MR_ACTION_... */
    uint64_t body_bytes; /* this route's limit on content; 0: the server's */
    uint32_t route;      /* its row in the meter */
} mr_action;

enum {
    MR_ACTION_LEAN = 1u << 0,    /* the handler never looks at the request: no head is copied */
    MR_ACTION_METRICS = 1u << 1, /* answered by the core: live.c; no handler, no reply */
    MR_ACTION_HEALTH = 1u << 2,
    MR_ACTION_READY = 1u << 3,
    MR_ACTION_LIVE = MR_ACTION_METRICS | MR_ACTION_HEALTH | MR_ACTION_READY
};

typedef enum mr_match_kind {
    MR_MATCH_ACTION,   /* action, params */
    MR_MATCH_NONE,     /* 404 */
    MR_MATCH_METHODS,  /* 405; allow */
    MR_MATCH_OPTIONS,  /* an OPTIONS that no route takes itself: 204; allow */
    MR_MATCH_BAD_PATH  /* a param's percent-encoding is broken: 400 */
} mr_match_kind;

typedef struct mr_param {
    uint16_t off, len; /* raw octets within the path; the wildcard's rest is the last param */
} mr_param;

typedef struct mr_match {
    mr_match_kind kind;
    uint32_t allow;          /* METHODS and OPTIONS: mask for the Allow field, the union over all
                                patterns that match the path: HEAD with GET, OPTIONS always */
    const mr_action *action; /* borrowed from the table until a route is added; NULL: not ACTION */
    uint32_t param_count;
    mr_param params[MR_PARAMS_MAX];
} mr_match;

typedef struct mr_routes mr_routes;

mr_routes *mr_routes_create(mr_mem *mem) MR_MUST_CHECK; /* NULL: memory short */
void mr_routes_destroy(mr_routes *routes);              /* accepts NULL */

/* Adds one route. Takes action->reply, also on failure. MR_INVALID: a bad pattern (must start with
 * '/', '*' only as a whole last segment, a param has a name of letters, digits, '_', '$', '-' or
 * octets above 0x7F, names differ within the pattern, at most MR_PARAMS_MAX, the wildcard included,
 * literals hold printable ASCII without '?', '#', '*'), a bad mask, or this pattern (params compared
 * by place, not by name) already has one of these methods. MR_NOMEM leaves the table as it was for
 * every path. A GET route answers HEAD too unless HEAD has its own; so the mask says GET only. */
mr_rc mr_routes_add(mr_routes *routes, const uint8_t *pattern, size_t len, uint32_t method_mask,
                    const mr_action *action) MR_MUST_CHECK;

/* Never fails; `path` is the parser's (len 0 stands for "/"). */
void mr_routes_match(const mr_routes *routes, uint8_t method, const uint8_t *path, size_t len,
                     mr_match *match);

/* Writes "GET, HEAD, OPTIONS" for a mask, in the order of mr_method; returns the length. `out` has
 * MR_ALLOW_MAX octets. */
#define MR_ALLOW_MAX 256u
size_t mr_allow_text(uint32_t mask, uint8_t *out);

#endif
