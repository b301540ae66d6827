/* route.c -- a trie of segments, and one hash table that holds all of its static edges.
 * The table also knows every pattern without params as a whole, so the common request costs one
 * hash and one comparison. That short cut is exact: a static pattern comes before all others that
 * match its path, so when it has the method, the walk would choose it too.
 * A path fixes which of its segments a node at depth d looks at. Therefore a walk sees each node
 * at most once, however the patterns overlap: backtracking is bounded by the number of nodes.
 * The hash has no secret: its keys are the application's patterns, and no path adds one. */
#include "engine/route.h"

#include "base/check.h"
#include "proto/url.h"
#include <string.h>

#define WHOLE_PATH UINT32_MAX /* the parent of a whole static pattern; never a node's index */
#define NO_ROUTE UINT32_MAX
#define KNOWN_METHODS ((1u << MR_METHOD_COUNT) - 1u)

_Static_assert(MR_METHOD_COUNT < 32, "a method mask has 32 bits");

typedef struct route {
    mr_action action;
    uint32_t mask; /* methods; disjoint from those of the other routes of the list */
    uint32_t next; /* of the same pattern, or NO_ROUTE */
} route;

typedef struct leaf { /* one pattern's end */
    uint32_t mask;    /* union over its routes; 0: nothing ends here */
    uint32_t first;   /* index into routes; meaningless while mask is 0 */
} leaf;

typedef struct node {
    uint32_t static_count; /* edges in the table that start here */
    uint32_t param; /* index of the node behind the param; 0: none, as the root is no child */
    leaf end;       /* the path ends at this node */
    leaf rest;      /* a wildcard takes what follows */
} node;

typedef struct edge { /* a slot of the table */
    uint32_t hash;
    uint32_t parent;   /* index into nodes, or WHOLE_PATH */
    uint32_t text_off; /* into text */
    uint32_t text_len;
    uint32_t child; /* index into nodes; 0: the slot is empty */
} edge;

struct mr_routes {
    mr_mem *mem; /* borrowed */
    node *nodes; /* owned; [0] is the root */
    uint32_t node_count, node_cap;
    edge *edges;                   /* owned; open addressing, at most half full */
    uint32_t edge_count, edge_cap; /* the capacity is a power of two */
    route *routes;                 /* owned, with the replies */
    uint32_t route_count, route_cap;
    uint8_t *text; /* owned; the patterns, one behind the other */
    uint32_t text_len, text_cap;
    /* No hash is taken of what is longer than any key: a path may have 65535 octets. */
    uint32_t longest_path;    /* of the static patterns; 0: there are none */
    uint32_t longest_segment; /* of the static segments */
};

/* ---- segments ---- */

typedef enum segment_kind { SEGMENT_STATIC, SEGMENT_PARAM, SEGMENT_REST } segment_kind;

/* Where the segment that starts at `from` ends: at the next '/', or with the text. */
static size_t segment_end(const uint8_t *text, size_t len, size_t from) {
    const uint8_t *slash = from < len ? memchr(text + from, '/', len - from) : NULL;
    return slash != NULL ? (size_t)(slash - text) : len;
}

static segment_kind kind_of(const uint8_t *segment, size_t len) {
    if (len != 0 && segment[0] == ':')
        return SEGMENT_PARAM;
    return len == 1 && segment[0] == '*' ? SEGMENT_REST : SEGMENT_STATIC;
}

/* ---- the table of edges ---- */

static uint64_t load64(const uint8_t *from) {
    uint64_t word;
    memcpy(&word, from, sizeof word);
    return word;
}

static uint64_t load32(const uint8_t *from) {
    uint32_t word;
    memcpy(&word, from, sizeof word);
    return word;
}

/* The last 0..8 octets as one word, without reading behind them. The reads may overlap: the length
 * is hashed too, so two texts of one length still differ when their words do. */
static uint64_t load_tail(const uint8_t *from, size_t len) {
    if (len >= 4)
        return load32(from) | load32(from + len - 4) << 32;
    if (len == 0)
        return 0;
    return (uint64_t)from[0] | (uint64_t)from[len / 2] << 8 | (uint64_t)from[len - 1] << 16;
}

static uint64_t mix(uint64_t word) {
    word *= 0x9E3779B97F4A7C15u; /* 2^64 divided by the golden ratio, odd: loses nothing */
    return word ^ word >> 32;
}

static uint32_t hash_key(uint32_t parent, const uint8_t *text, size_t len) {
    uint64_t hash = (uint64_t)parent << 32 ^ len;
    for (; len > 8; text += 8, len -= 8)
        hash = mix(hash ^ load64(text));
    return (uint32_t)mix(hash ^ load_tail(text, len));
}

/* The node behind an edge, 0 when there is none. */
static uint32_t find_edge(const mr_routes *r, uint32_t parent, const uint8_t *text, size_t len) {
    uint32_t hash = hash_key(parent, text, len);
    for (uint32_t i = hash & (r->edge_cap - 1);; i = (i + 1) & (r->edge_cap - 1)) {
        const edge *e = &r->edges[i];
        if (e->child == 0)
            return 0;
        if (e->hash == hash && e->parent == parent && e->text_len == len &&
            memcmp(r->text + e->text_off, text, len) == 0)
            return e->child;
    }
}

static void place_edge(edge *edges, uint32_t cap, const edge *added) {
    uint32_t i = added->hash & (cap - 1);
    while (edges[i].child != 0)
        i = (i + 1) & (cap - 1);
    edges[i] = *added;
}

/* ---- building ---- */

/* An array with room for one more item: the old one, or a larger one that replaces it. */
static void *room_for_one(mr_mem *mem, void *array, uint32_t count, uint32_t *cap,
                          size_t item_bytes) {
    uint32_t larger = *cap == 0 ? 8 : *cap * 2;
    if (count < *cap)
        return array;
    if (*cap > UINT32_MAX / 4)
        return NULL;
    array = mr_mem_resize(mem, array, *cap * item_bytes, larger * item_bytes);
    if (array != NULL)
        *cap = larger;
    return array;
}

static mr_rc reserve_edge(mr_routes *r) {
    uint32_t cap = r->edge_cap == 0 ? 8 : r->edge_cap * 2;
    edge *edges;
    if (r->edge_count < r->edge_cap / 2)
        return MR_OK;
    if (r->edge_cap > UINT32_MAX / 4 ||
        (edges = mr_mem_zalloc(r->mem, cap * sizeof *edges)) == NULL)
        return MR_NOMEM;
    for (uint32_t i = 0; i < r->edge_cap; i++) {
        if (r->edges[i].child != 0)
            place_edge(edges, cap, &r->edges[i]);
    }
    mr_mem_free(r->mem, r->edges, r->edge_cap * sizeof *edges);
    r->edges = edges;
    r->edge_cap = cap;
    return MR_OK;
}

/* Room must have been reserved. */
static void add_edge(mr_routes *r, uint32_t parent, uint32_t text_off, uint32_t text_len,
                     uint32_t child) {
    edge added = {.hash = hash_key(parent, r->text + text_off, text_len),
                  .parent = parent,
                  .text_off = text_off,
                  .text_len = text_len,
                  .child = child};
    place_edge(r->edges, r->edge_cap, &added);
    r->edge_count++;
}

static mr_rc reserve_node(mr_routes *r) {
    node *nodes = room_for_one(r->mem, r->nodes, r->node_count, &r->node_cap, sizeof *nodes);
    if (nodes == NULL)
        return MR_NOMEM;
    r->nodes = nodes;
    return MR_OK;
}

static mr_rc reserve_route(mr_routes *r) {
    route *routes = room_for_one(r->mem, r->routes, r->route_count, &r->route_cap, sizeof *routes);
    if (routes == NULL)
        return MR_NOMEM;
    r->routes = routes;
    return MR_OK;
}

/* Room must have been reserved. */
static uint32_t add_node(mr_routes *r) {
    r->nodes[r->node_count] = (node){.param = 0};
    return r->node_count++;
}

/* Keeps a copy of the pattern that edges can point into; *off is where it starts. */
static mr_rc keep_text(mr_routes *r, const uint8_t *pattern, size_t len, uint32_t *off) {
    uint32_t cap = r->text_cap == 0 ? 256 : r->text_cap;
    uint8_t *text = r->text;
    if (r->text_len > UINT32_MAX / 4)
        return MR_NOMEM;
    while (cap - r->text_len < len)
        cap *= 2;
    if (cap != r->text_cap && (text = mr_mem_resize(r->mem, text, r->text_cap, cap)) == NULL)
        return MR_NOMEM;
    r->text = text;
    r->text_cap = cap;
    memcpy(text + r->text_len, pattern, len);
    *off = r->text_len;
    r->text_len += (uint32_t)len;
    return MR_OK;
}

/* The child by a static segment, made when it is new; 0: memory short. */
static uint32_t static_child(mr_routes *r, uint32_t parent, uint32_t text_off, uint32_t len) {
    uint32_t child = find_edge(r, parent, r->text + text_off, len);
    if (child != 0)
        return child;
    if (reserve_node(r) != MR_OK || reserve_edge(r) != MR_OK)
        return 0;
    child = add_node(r);
    add_edge(r, parent, text_off, len, child);
    r->nodes[parent].static_count++;
    if (len > r->longest_segment)
        r->longest_segment = len;
    return child;
}

/* The child by a param, made when it is new; 0: memory short. */
static uint32_t param_child(mr_routes *r, uint32_t parent) {
    if (r->nodes[parent].param == 0) {
        if (reserve_node(r) != MR_OK)
            return 0;
        r->nodes[parent].param = add_node(r);
    }
    return r->nodes[parent].param;
}

typedef struct shape { /* what a checked pattern consists of */
    uint32_t segment_count;
    uint32_t param_count; /* the wildcard included */
    bool has_rest;
} shape;

/* Finds or makes the nodes of a checked pattern. *at is the node where it ends, or which its
 * wildcard hangs on. Nodes that stay behind after a failure lead nowhere and do no harm. */
static mr_rc make_nodes(mr_routes *r, uint32_t text_off, uint32_t len, uint32_t *at) {
    uint32_t parent = 0, child, end;
    for (uint32_t from = 1; from <= len; from = end + 1, parent = child) {
        end = (uint32_t)segment_end(r->text + text_off, len, from);
        switch (kind_of(r->text + text_off + from, end - from)) {
        case SEGMENT_REST:
            *at = parent;
            return MR_OK;
        case SEGMENT_PARAM:
            child = param_child(r, parent);
            break;
        default:
            child = static_child(r, parent, text_off + from, end - from);
            break;
        }
        if (child == 0)
            return MR_NOMEM;
    }
    *at = parent;
    return MR_OK;
}

/* ---- what may be a pattern ---- */

/* Whether a request path can hold the octet at all. A pattern that could never match is a mistake
 * that its author wants to hear of; a star elsewhere would promise what it does not do. */
static bool is_literal(const uint8_t *text, size_t len) {
    for (size_t i = 0; i < len; i++) {
        if (text[i] <= ' ' || text[i] >= 0x7F || text[i] == '?' || text[i] == '#' || text[i] == '*')
            return false;
    }
    return true;
}

/* Names are letters, digits, '_', '$', '-' and anything beyond ASCII. What other routers read as a
 * suffix or a regular expression (":id.json", ":id(\\d+)", ":a:b") is refused, not taken for a
 * strange name. */
static bool is_name(const uint8_t *text, size_t len) {
    for (size_t i = 0; i < len; i++) {
        uint8_t c = text[i], lower = c | 0x20;
        bool is_word = (lower >= 'a' && lower <= 'z') || (c >= '0' && c <= '9') || c >= 0x80;
        if (!is_word && c != '_' && c != '$' && c != '-')
            return false;
    }
    return len != 0;
}

/* Whether an earlier segment of the pattern, before `from`, is the same param. */
static bool is_repeated(const uint8_t *pattern, size_t from, const uint8_t *segment, size_t len) {
    size_t end;
    for (size_t at = 1; at < from; at = end + 1) {
        end = segment_end(pattern, from, at);
        if (end - at == len && memcmp(pattern + at, segment, len) == 0)
            return true;
    }
    return false;
}

static bool check_segment(const uint8_t *pattern, size_t len, size_t from, size_t end, shape *s) {
    const uint8_t *segment = pattern + from;
    segment_kind kind = kind_of(segment, end - from);
    s->segment_count++;
    if (kind == SEGMENT_STATIC)
        return is_literal(segment, end - from);
    s->param_count++;
    if (kind == SEGMENT_PARAM)
        return is_name(segment + 1, end - from - 1) &&
               !is_repeated(pattern, from, segment, end - from);
    s->has_rest = true;
    return end == len;
}

static mr_rc check_pattern(const uint8_t *pattern, size_t len, shape *s) {
    size_t end;
    *s = (shape){.segment_count = 0};
    if (len == 0 || len > MR_PATTERN_MAX || pattern[0] != '/')
        return MR_INVALID;
    for (size_t from = 1; from <= len; from = end + 1) {
        end = segment_end(pattern, len, from);
        if (!check_segment(pattern, len, from, end, s))
            return MR_INVALID;
    }
    return s->segment_count <= MR_SEGMENTS_MAX && s->param_count <= MR_PARAMS_MAX ? MR_OK
                                                                                  : MR_INVALID;
}

static mr_rc check_mask(uint32_t mask) {
    bool is_good = mask == MR_ANY_METHOD || (mask != 0 && (mask & ~KNOWN_METHODS) == 0);
    return is_good ? MR_OK : MR_INVALID;
}

/* ---- the table ---- */

mr_routes *mr_routes_create(mr_mem *mem) {
    mr_routes *r = mr_mem_zalloc(mem, sizeof *r);
    if (r == NULL)
        return NULL;
    r->mem = mem;
    if (reserve_node(r) != MR_OK || reserve_edge(r) != MR_OK) {
        mr_routes_destroy(r);
        return NULL;
    }
    add_node(r);
    return r;
}

void mr_routes_destroy(mr_routes *r) {
    if (r == NULL)
        return;
    for (uint32_t i = 0; i < r->route_count; i++)
        mr_reply_release(r->routes[i].action.reply);
    mr_mem_free(r->mem, r->text, r->text_cap);
    mr_mem_free(r->mem, r->routes, r->route_cap * sizeof *r->routes);
    mr_mem_free(r->mem, r->edges, r->edge_cap * sizeof *r->edges);
    mr_mem_free(r->mem, r->nodes, r->node_cap * sizeof *r->nodes);
    mr_mem_free(r->mem, r, sizeof *r);
}

/* Hangs the route on its leaf. Room must have been reserved. */
static void add_route(mr_routes *r, leaf *l, uint32_t mask, const mr_action *action) {
    r->routes[r->route_count] =
        (route){.action = *action, .mask = mask, .next = l->mask != 0 ? l->first : NO_ROUTE};
    l->first = r->route_count++;
    l->mask |= mask;
}

static mr_rc add_checked(mr_routes *r, const uint8_t *pattern, uint32_t len, const shape *s,
                         uint32_t mask, const mr_action *action) {
    uint32_t text_off, at;
    mr_rc rc = keep_text(r, pattern, len, &text_off);
    if (rc != MR_OK || (rc = make_nodes(r, text_off, len, &at)) != MR_OK)
        return rc;
    leaf *l = s->has_rest ? &r->nodes[at].rest : &r->nodes[at].end;
    if ((l->mask & mask) != 0)
        return MR_INVALID;
    if ((rc = reserve_route(r)) != MR_OK || (rc = reserve_edge(r)) != MR_OK)
        return rc;
    if (s->param_count == 0 && l->mask == 0) {
        add_edge(r, WHOLE_PATH, text_off, len, at);
        if (len > r->longest_path)
            r->longest_path = len;
    }
    add_route(r, l, mask, action);
    return MR_OK;
}

mr_rc mr_routes_add(mr_routes *r, const uint8_t *pattern, size_t len, uint32_t method_mask,
                    const mr_action *action) {
    shape s;
    mr_rc rc = check_mask(method_mask);
    if (rc == MR_OK)
        rc = check_pattern(pattern, len, &s);
    if (rc == MR_OK)
        rc = add_checked(r, pattern, (uint32_t)len, &s, method_mask, action);
    if (rc != MR_OK)
        mr_reply_release(action->reply);
    return rc;
}

/* ---- matching ---- */

/* One step of the walk: a node, and how far its alternatives have been tried. */
typedef enum stage { TRY_STATIC, TRY_PARAM, TRY_REST } stage;

typedef struct frame {
    uint32_t node;
    uint16_t begin, end; /* the segment this node's children are tried on: fixed by the depth */
    uint8_t stage;
    uint8_t param_count; /* bound before this segment */
} frame;

typedef struct walk {
    const mr_routes *routes;
    const uint8_t *path;
    size_t len;
    uint32_t method;  /* mr_method */
    uint32_t scanned; /* depths whose segments are known: overlapping patterns scan no path twice */
    frame frames[MR_SEGMENTS_MAX];
} walk;

/* The action for a method at the end of a pattern; HEAD is answered by GET's unless it has its
 * own. NULL: none. */
static const mr_action *action_of(const mr_routes *r, const leaf *l, uint32_t method) {
    uint32_t bit = MR_METHOD_BIT(method);
    if ((l->mask & bit) == 0) {
        bit = method == MR_METHOD_HEAD ? MR_METHOD_BIT(MR_METHOD_GET) : 0;
        if ((l->mask & bit) == 0)
            return NULL;
    }
    const route *found = &r->routes[l->first];
    while ((found->mask & bit) == 0)
        found = &r->routes[found->next];
    return &found->action;
}

/* Whether the pattern that ends in this leaf is the answer. When only the method is missing, its
 * methods count for Allow. */
static bool accept_leaf(const walk *w, const leaf *l, uint32_t param_count, mr_match *match) {
    if (l->mask == 0)
        return false;
    match->action = action_of(w->routes, l, w->method);
    match->param_count = param_count;
    match->allow |= l->mask;
    return match->action != NULL;
}

static void bind_param(const frame *f, size_t end, mr_match *match) {
    match->params[f->param_count] = (mr_param){.off = f->begin, .len = (uint16_t)(end - f->begin)};
}

/* The next child of the frame's node that takes the segment; 0 when there is no more. */
static uint32_t next_child(const walk *w, frame *f, mr_match *match) {
    const node *n = &w->routes->nodes[f->node];
    uint32_t len = (uint32_t)f->end - f->begin, child;
    if (f->stage == TRY_STATIC) {
        f->stage = TRY_PARAM;
        if (n->static_count != 0 && len <= w->routes->longest_segment &&
            (child = find_edge(w->routes, f->node, w->path + f->begin, len)) != 0)
            return child;
    }
    if (f->stage == TRY_PARAM) {
        f->stage = TRY_REST;
        if (n->param != 0 && len != 0) {
            bind_param(f, f->end, match);
            return n->param;
        }
    }
    return 0;
}

/* Opens a frame at `depth` for a node that the segment before `begin` led to. */
static void open_frame(walk *w, uint32_t depth, uint32_t index, size_t begin,
                       uint32_t param_count) {
    frame *f = &w->frames[depth];
    MR_DEBUG_ASSERT(depth < MR_SEGMENTS_MAX);
    if (depth >= w->scanned) {
        f->begin = (uint16_t)begin;
        f->end = (uint16_t)segment_end(w->path, w->len, begin);
        w->scanned = depth + 1;
    }
    f->node = index;
    f->stage = TRY_STATIC;
    f->param_count = (uint8_t)param_count;
}

/* Nodes at the deepest level have no children, so the frames suffice for any path. */
static bool has_children(const node *n) { return (n->static_count | n->param | n->rest.mask) != 0; }

/* Depth first, the more specific child first; true when match->action is the answer. */
static bool walk_trie(walk *w, mr_match *match) {
    uint32_t depth = 0;
    open_frame(w, 0, 0, 1, 0);
    for (;;) {
        frame *f = &w->frames[depth];
        uint32_t child = next_child(w, f, match);
        if (child != 0) {
            const node *n = &w->routes->nodes[child];
            uint32_t bound =
                f->param_count + (f->stage == TRY_REST ? 1u : 0u); /* it was the param */
            if (f->end == w->len) {
                if (accept_leaf(w, &n->end, bound, match))
                    return true;
            } else if (has_children(n)) {
                open_frame(w, ++depth, child, (size_t)f->end + 1, bound);
            }
            continue;
        }
        if (accept_leaf(w, &w->routes->nodes[f->node].rest, f->param_count + 1u, match)) {
            bind_param(f, w->len, match);
            return true;
        }
        if (depth-- == 0)
            return false;
    }
}

/* The leaf is chosen; a param that cannot be decoded is the client's mistake all the same. */
static void check_params(const uint8_t *path, mr_match *match) {
    match->kind = MR_MATCH_ACTION;
    for (uint32_t i = 0; i < match->param_count; i++) {
        if (!mr_url_param_valid(path + match->params[i].off, match->params[i].len)) {
            match->kind = MR_MATCH_BAD_PATH;
            match->action = NULL;
            match->param_count = 0;
        }
    }
}

/* No pattern that matches has the method. */
static void match_methods(uint32_t method, mr_match *match) {
    match->param_count = 0;
    if (match->allow == 0) {
        match->kind = MR_MATCH_NONE;
        return;
    }
    match->kind = method == MR_METHOD_OPTIONS ? MR_MATCH_OPTIONS : MR_MATCH_METHODS;
    if ((match->allow & MR_METHOD_BIT(MR_METHOD_GET)) != 0)
        match->allow |= MR_METHOD_BIT(MR_METHOD_HEAD);
    match->allow |= MR_METHOD_BIT(MR_METHOD_OPTIONS);
}

static void match_trie(const mr_routes *r, uint32_t method, const uint8_t *path, size_t len,
                       mr_match *match) {
    walk w; /* not initialised as a whole: frames are written when they are opened */
    w.routes = r;
    w.path = path;
    w.len = len;
    w.method = method;
    w.scanned = 0;
    if (len <= UINT16_MAX && path[0] == '/' && walk_trie(&w, match))
        check_params(path, match);
    else
        match_methods(method, match);
}

void mr_routes_match(const mr_routes *r, uint8_t method, const uint8_t *path, size_t len,
                     mr_match *match) {
    uint32_t known = method < MR_METHOD_COUNT ? method : MR_METHOD_OTHER, at;
    if (len == 0) {
        mr_routes_match(r, method, (const uint8_t *)"/", 1, match);
        match->params[0].off = 0; /* the root's wildcard alone can bind here: nothing, at 0 */
        return;
    }
    match->allow = 0;
    match->action = NULL;
    match->param_count = 0;
    if (len <= r->longest_path && (at = find_edge(r, WHOLE_PATH, path, len)) != 0 &&
        (match->action = action_of(r, &r->nodes[at].end, known)) != NULL)
        match->kind = MR_MATCH_ACTION;
    else
        match_trie(r, known, path, len, match);
}

size_t mr_allow_text(uint32_t mask, uint8_t *out) {
    size_t len = 0;
    for (uint32_t method = MR_METHOD_OTHER + 1; method < MR_METHOD_COUNT; method++) {
        size_t name_len = strlen(mr_method_names[method]);
        if ((mask & MR_METHOD_BIT(method)) == 0)
            continue;
        MR_ASSERT(len + 2 + name_len <= MR_ALLOW_MAX);
        if (len != 0) {
            memcpy(out + len, ", ", 2);
            len += 2;
        }
        memcpy(out + len, mr_method_names[method], name_len);
        len += name_len;
    }
    return len;
}
