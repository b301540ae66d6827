/* route_test.c -- the router: named cases, a brute-force matcher over random tables, and memory
 * that runs short at every allocation. */
/* link: engine/reply.c proto/url.c proto/h1_parse.c proto/h1_scan.c proto/h1_scan_avx2.c */
/* link: proto/h1_scan_sse2.c proto/h1_scan_neon.c proto/h1_scan_scalar.c base/mem.c base/buf.c */
/* link: base/text.c */
#include "engine/route.c"

#include <stdio.h>
#include <stdlib.h>

#define CHECK(claim)                                                                               \
    do {                                                                                           \
        if (!(claim)) {                                                                            \
            fprintf(stderr, "%s:%d: %s (in %s)\n", __FILE__, __LINE__, #claim, at_case);           \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static const char *at_case = "start";

#define BIT(name) MR_METHOD_BIT(MR_METHOD_##name)
#define GET BIT(GET)
#define POST BIT(POST)

static const uint8_t *octets(const char *text) { return (const uint8_t *)text; }

static mr_rc add(mr_routes *r, const char *pattern, uint32_t mask, uint32_t handler) {
    mr_action action = {.handler = handler};
    return mr_routes_add(r, octets(pattern), strlen(pattern), mask, &action);
}

static mr_match match(const mr_routes *r, uint8_t method, const char *path) {
    mr_match m;
    memset(&m, 0xAA, sizeof m); /* what the router does not write must not be relied on */
    /* An exact copy lets the sanitizer see a read behind the path. */
    size_t len = strlen(path);
    uint8_t *copy = malloc(len == 0 ? 1 : len);
    CHECK(copy != NULL);
    memcpy(copy, path, len);
    mr_routes_match(r, method, copy, len, &m);
    free(copy);
    return m;
}

static bool is_param(const mr_match *m, uint32_t index, const char *path, const char *want) {
    return index < m->param_count && m->params[index].len == strlen(want) &&
           m->params[index].off + strlen(want) <= strlen(path) &&
           memcmp(path + m->params[index].off, want, strlen(want)) == 0;
}

/* Expects the handler and its params, NULL-terminated. */
static void expect_action(const mr_routes *r, uint8_t method, const char *path, uint32_t handler,
                          const char *const *params) {
    mr_match m = match(r, method, path);
    uint32_t count = 0;
    at_case = path;
    CHECK(m.kind == MR_MATCH_ACTION);
    CHECK(m.action != NULL && m.action->handler == handler);
    for (; params != NULL && params[count] != NULL; count++)
        CHECK(is_param(&m, count, path, params[count]));
    CHECK(m.param_count == count);
}

#define PARAMS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void expect_kind(const mr_routes *r, uint8_t method, const char *path, mr_match_kind kind) {
    mr_match m = match(r, method, path);
    at_case = path;
    CHECK(m.kind == kind);
    CHECK(m.action == NULL);
    CHECK(m.param_count == 0);
}

static void expect_allow(const mr_routes *r, uint8_t method, const char *path, mr_match_kind kind,
                         uint32_t allow) {
    expect_kind(r, method, path, kind);
    CHECK(match(r, method, path).allow == allow);
}

/* ---- named cases ---- */

static void test_order(mr_mem *mem) {
    mr_routes *r = mr_routes_create(mem);
    CHECK(r != NULL);
    /* The least specific is added first: order of adding must not matter. */
    CHECK(add(r, "/*", GET, 1) == MR_OK);
    CHECK(add(r, "/user/*", GET, 2) == MR_OK);
    CHECK(add(r, "/user/:id", GET, 3) == MR_OK);
    CHECK(add(r, "/user/me", GET, 4) == MR_OK);
    CHECK(add(r, "/user/:id/posts/:post", GET, 5) == MR_OK);
    CHECK(add(r, "/user/me/x", GET, 6) == MR_OK);
    CHECK(add(r, "/:a/:b", GET, 7) == MR_OK);
    expect_action(r, MR_METHOD_GET, "/user/me", 4, NULL);
    expect_action(r, MR_METHOD_GET, "/user/you", 3, PARAMS("you"));
    expect_action(r, MR_METHOD_GET, "/user/me/x", 6, NULL);
    /* Into the static branch, out again, and down the param's. */
    expect_action(r, MR_METHOD_GET, "/user/me/posts/9", 5, PARAMS("me", "9"));
    expect_action(r, MR_METHOD_GET, "/user/me/y", 2, PARAMS("me/y"));
    expect_action(r, MR_METHOD_GET, "/user/", 2, PARAMS(""));
    expect_action(r, MR_METHOD_GET, "/user", 1, PARAMS("user"));
    expect_action(r, MR_METHOD_GET, "/shop/7", 7, PARAMS("shop", "7"));
    expect_action(r, MR_METHOD_GET, "/shop/7/", 1, PARAMS("shop/7/"));
    expect_action(r, MR_METHOD_GET, "/", 1, PARAMS(""));
    expect_action(r, MR_METHOD_GET, "", 1, PARAMS(""));
    mr_routes_destroy(r);
}

static void test_segments(mr_mem *mem) {
    mr_routes *r = mr_routes_create(mem);
    CHECK(r != NULL);
    CHECK(add(r, "/", GET, 1) == MR_OK);
    CHECK(add(r, "/a", GET, 2) == MR_OK);
    CHECK(add(r, "/a/", GET, 3) == MR_OK);
    CHECK(add(r, "/a//b", GET, 4) == MR_OK);
    CHECK(add(r, "/w/*", GET, 5) == MR_OK);
    CHECK(add(r, "/p/:x/q", GET, 6) == MR_OK);
    CHECK(add(r, "/v1/items:batch", GET, 7) == MR_OK); /* a colon inside is a literal */
    expect_action(r, MR_METHOD_GET, "/", 1, NULL);
    expect_action(r, MR_METHOD_GET, "", 1, NULL);
    expect_action(r, MR_METHOD_GET, "/a", 2, NULL);
    expect_action(r, MR_METHOD_GET, "/a/", 3, NULL);
    expect_action(r, MR_METHOD_GET, "/a//b", 4, NULL);
    expect_action(r, MR_METHOD_GET, "/w/", 5, PARAMS(""));
    expect_action(r, MR_METHOD_GET, "/w//", 5, PARAMS("/"));
    expect_action(r, MR_METHOD_GET, "/w/x/y", 5, PARAMS("x/y"));
    expect_action(r, MR_METHOD_GET, "/p/%41/q", 6, PARAMS("%41"));
    expect_action(r, MR_METHOD_GET, "/v1/items:batch", 7, NULL);
    expect_kind(r, MR_METHOD_GET, "/w", MR_MATCH_NONE);
    expect_kind(r, MR_METHOD_GET, "/a/b", MR_MATCH_NONE);
    expect_kind(r, MR_METHOD_GET, "//", MR_MATCH_NONE);
    expect_kind(r, MR_METHOD_GET, "/a//", MR_MATCH_NONE);
    expect_kind(r, MR_METHOD_GET, "/p//q", MR_MATCH_NONE); /* no param is empty */
    expect_kind(r, MR_METHOD_GET, "/A", MR_MATCH_NONE);
    expect_kind(r, MR_METHOD_GET, "/%61", MR_MATCH_NONE); /* octet by octet, not decoded */
    expect_kind(r, MR_METHOD_GET, "a", MR_MATCH_NONE);
    mr_routes_destroy(r);
}

static void test_methods(mr_mem *mem) {
    mr_routes *r = mr_routes_create(mem);
    CHECK(r != NULL);
    CHECK(add(r, "/x", GET | POST, 1) == MR_OK);
    CHECK(add(r, "/:p", BIT(PUT), 2) == MR_OK);
    CHECK(add(r, "/*", BIT(DELETE), 3) == MR_OK);
    CHECK(add(r, "/h", GET, 4) == MR_OK);
    CHECK(add(r, "/h", BIT(HEAD), 5) == MR_OK);
    CHECK(add(r, "/any/:p", MR_ANY_METHOD, 6) == MR_OK);
    CHECK(add(r, "/o", BIT(OPTIONS), 7) == MR_OK);
    CHECK(add(r, "/odd", BIT(OTHER) | GET, 8) == MR_OK);
    expect_action(r, MR_METHOD_POST, "/x", 1, NULL);
    expect_action(r, MR_METHOD_HEAD, "/x", 1, NULL);
    expect_action(r, MR_METHOD_HEAD, "/h", 5, NULL);
    expect_action(r, MR_METHOD_GET, "/h", 4, NULL);
    /* What lacks the method gives way to the less specific. */
    expect_action(r, MR_METHOD_PUT, "/x", 2, PARAMS("x"));
    expect_action(r, MR_METHOD_DELETE, "/x", 3, PARAMS("x"));
    expect_action(r, MR_METHOD_OPTIONS, "/any/1", 6, PARAMS("1"));
    expect_action(r, MR_METHOD_OTHER, "/any/1", 6, PARAMS("1"));
    expect_action(r, 200, "/any/1", 6, PARAMS("1")); /* a number of no method is an unknown one */
    expect_action(r, MR_METHOD_OPTIONS, "/o", 7, NULL);
    expect_action(r, MR_METHOD_OTHER, "/odd", 8, NULL);
    expect_allow(r, MR_METHOD_PATCH, "/x", MR_MATCH_METHODS,
                 GET | BIT(HEAD) | POST | BIT(PUT) | BIT(DELETE) | BIT(OPTIONS));
    expect_allow(r, MR_METHOD_OPTIONS, "/x", MR_MATCH_OPTIONS,
                 GET | BIT(HEAD) | POST | BIT(PUT) | BIT(DELETE) | BIT(OPTIONS));
    expect_allow(r, MR_METHOD_OTHER, "/y", MR_MATCH_METHODS, BIT(PUT) | BIT(DELETE) | BIT(OPTIONS));
    expect_allow(r, MR_METHOD_HEAD, "/y/z", MR_MATCH_METHODS, BIT(DELETE) | BIT(OPTIONS));
    mr_routes_destroy(r);
}

static void test_bad_escapes(mr_mem *mem) {
    mr_routes *r = mr_routes_create(mem);
    CHECK(r != NULL);
    CHECK(add(r, "/u/:id", GET, 1) == MR_OK);
    CHECK(add(r, "/u/*", POST, 2) == MR_OK);
    CHECK(add(r, "/s/%zz", GET, 3) == MR_OK);
    expect_action(r, MR_METHOD_GET, "/u/%C3%A4", 1, PARAMS("%C3%A4"));
    expect_action(r, MR_METHOD_GET, "/s/%zz", 3, NULL); /* nothing is decoded there */
    expect_kind(r, MR_METHOD_GET, "/u/%", MR_MATCH_BAD_PATH);
    expect_kind(r, MR_METHOD_GET, "/u/%4", MR_MATCH_BAD_PATH);
    expect_kind(r, MR_METHOD_GET, "/u/%ff", MR_MATCH_BAD_PATH);
    expect_kind(r, MR_METHOD_POST, "/u/a/%zz", MR_MATCH_BAD_PATH);
    /* A broken escape matters only to the route that would have been chosen. */
    expect_kind(r, MR_METHOD_GET, "/nowhere/%zz", MR_MATCH_NONE);
    expect_allow(r, MR_METHOD_PUT, "/u/%zz", MR_MATCH_METHODS,
                 GET | BIT(HEAD) | POST | BIT(OPTIONS));
    mr_routes_destroy(r);
}

static void expect_bad(mr_routes *r, const char *pattern) {
    at_case = pattern;
    CHECK(add(r, pattern, GET, 0) == MR_INVALID);
}

/* "/" and then `count` segments, each `segment`, with "/" between. */
static char *repeated(const char *segment, size_t count, const char *tail) {
    char *text = calloc(1, count * (strlen(segment) + 1) + strlen(tail) + 1), *at = text;
    CHECK(text != NULL);
    for (size_t i = 0; i < count; i++) {
        *at++ = '/';
        memcpy(at, segment, strlen(segment));
        at += strlen(segment);
    }
    memcpy(at, tail, strlen(tail));
    return text;
}

static void test_bad_patterns(mr_mem *mem) {
    static const char *const bad[] = {
        "",     "a",         "*",     ":a",     "/*/",        "/a*",      "/*a",    "/**",
        "/*/a", "/:",        "/:/a",  "/:a/:a", "/:a/b/:a/c", "/:a*",     "/a?b",   "/a#b",
        "/a b", "/\xC3\xA4", "/\x7F", "/\t",    "/:a?",       "/:a.json", "/:a(x)", "/:a:b"};
    mr_routes *r = mr_routes_create(mem);
    CHECK(r != NULL);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        expect_bad(r, bad[i]);
    at_case = "masks and duplicates";
    CHECK(add(r, "/a", 0, 1) == MR_INVALID);
    CHECK(add(r, "/a", 1u << MR_METHOD_COUNT, 1) == MR_INVALID);
    CHECK(add(r, "/a/:x", GET, 1) == MR_OK);
    CHECK(add(r, "/a/:y", GET | POST, 1) == MR_INVALID); /* by place, not by name */
    CHECK(add(r, "/a/:y", POST, 1) == MR_OK);
    CHECK(add(r, "/a/:y", MR_ANY_METHOD, 1) == MR_INVALID);
    CHECK(add(r, "/a/*", GET, 1) == MR_OK);
    CHECK(add(r, "/a/*", GET, 1) == MR_INVALID);
    CHECK(add(r, "/:a/:b/:\xC3\xA4", GET, 1) == MR_OK); /* names may be any word */
    mr_routes_destroy(r);
}

static void test_bounds(mr_mem *mem) {
    mr_routes *r = mr_routes_create(mem);
    char *pattern, *path;
    CHECK(r != NULL);
    at_case = "bounds";
    pattern = repeated("a", MR_SEGMENTS_MAX, "");
    CHECK(add(r, pattern, GET, 1) == MR_OK);
    expect_action(r, MR_METHOD_GET, pattern, 1, NULL);
    free(pattern);
    pattern = repeated("a", MR_SEGMENTS_MAX + 1, "");
    CHECK(add(r, pattern, GET, 2) == MR_INVALID);
    free(pattern);
    pattern = repeated("a", MR_SEGMENTS_MAX - 1, "/*");
    CHECK(add(r, pattern, GET, 3) == MR_OK);
    free(pattern);
    pattern = repeated("a", MR_SEGMENTS_MAX, "/*");
    CHECK(add(r, pattern, GET, 4) == MR_INVALID);
    free(pattern);
    path = repeated("a", 32767, "");
    mr_match m = match(r, MR_METHOD_GET, path);
    CHECK(m.kind == MR_MATCH_ACTION && m.action->handler == 3 && m.param_count == 1);
    CHECK(m.params[0].off + m.params[0].len == 2 * 32767);
    free(path);
    mr_routes_destroy(r);
}

static void test_param_bounds(mr_mem *mem) {
    mr_routes *r = mr_routes_create(mem);
    const char *most = "/:a/:b/:c/:d/:e/:f/:g/:h/:i/:j/:k/:l/:m/:n/:o/:p";
    const char *rest = "/x/:b/:c/:d/:e/:f/:g/:h/:i/:j/:k/:l/:m/:n/:o/:p/*";
    CHECK(r != NULL);
    CHECK(add(r, most, GET, 1) == MR_OK);
    CHECK(add(r, rest, GET, 2) == MR_OK);
    CHECK(add(r, "/:a/:b/:c/:d/:e/:f/:g/:h/:i/:j/:k/:l/:m/:n/:o/:p/*", GET, 3) == MR_INVALID);
    expect_action(
        r, MR_METHOD_GET, "/1/2/3/4/5/6/7/8/9/a/b/c/d/e/f/g", 1,
        PARAMS("1", "2", "3", "4", "5", "6", "7", "8", "9", "a", "b", "c", "d", "e", "f", "g"));
    expect_action(
        r, MR_METHOD_GET, "/x/2/3/4/5/6/7/8/9/a/b/c/d/e/f/g/h/i", 2,
        PARAMS("2", "3", "4", "5", "6", "7", "8", "9", "a", "b", "c", "d", "e", "f", "g", "h/i"));
    mr_routes_destroy(r);
}

/* Patterns and paths of the longest kind: no number may be cut off. */
static void test_lengths(mr_mem *mem) {
    mr_routes *r = mr_routes_create(mem);
    char *path = malloc(65536);
    CHECK(r != NULL && path != NULL);
    at_case = "lengths";
    memset(path, 'a', 65535);
    path[0] = '/';
    path[MR_PATTERN_MAX] = 0;
    CHECK(add(r, path, GET, 1) == MR_OK);
    expect_action(r, MR_METHOD_GET, path, 1, NULL);
    path[MR_PATTERN_MAX] = 'a';
    path[MR_PATTERN_MAX + 1] = 0;
    CHECK(add(r, path, GET, 2) == MR_INVALID);
    CHECK(add(r, "/:p", GET, 3) == MR_OK);
    path[MR_PATTERN_MAX + 1] = 'a';
    path[65535] = 0;
    mr_match m = match(r, MR_METHOD_GET, path);
    CHECK(m.kind == MR_MATCH_ACTION && m.action->handler == 3);
    CHECK(m.params[0].off == 1 && m.params[0].len == 65534);
    free(path);
    mr_routes_destroy(r);
}

/* Many routes: the table grows, and every one is found again. */
static void test_many(mr_mem *mem) {
    mr_routes *r = mr_routes_create(mem);
    char text[64];
    CHECK(r != NULL);
    for (uint32_t i = 0; i < 3000; i++) {
        snprintf(text, sizeof text, i % 2 ? "/api/v%u/thing" : "/api/v%u/:id", i);
        CHECK(add(r, text, GET, i) == MR_OK);
    }
    for (uint32_t i = 0; i < 3000; i++) {
        snprintf(text, sizeof text, "/api/v%u/thing", i);
        expect_action(r, MR_METHOD_GET, text, i, i % 2 ? NULL : PARAMS("thing"));
    }
    expect_kind(r, MR_METHOD_GET, "/api/v3000/thing", MR_MATCH_NONE);
    mr_routes_destroy(r);
}

static void test_allow_text(void) {
    uint8_t out[MR_ALLOW_MAX];
    size_t len = mr_allow_text(GET | BIT(OPTIONS) | BIT(HEAD) | BIT(OTHER), out);
    at_case = "allow text";
    CHECK(len == 18 && memcmp(out, "GET, HEAD, OPTIONS", 18) == 0);
    CHECK(mr_allow_text(0, out) == 0);
    len = mr_allow_text(MR_ANY_METHOD, out);
    CHECK(len < MR_ALLOW_MAX && memcmp(out + len - 8, ", UNLINK", 8) == 0);
}

/* ---- the brute-force matcher ---- */

#define TABLE_MAX 12

typedef struct pattern_row {
    char text[64];
    uint32_t mask;
    bool is_added;
} pattern_row;

static uint32_t random_below(uint64_t *state, uint32_t bound) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33) % bound;
}

/* Writes "static 0, param 1, rest 2" per segment: of two patterns that match a path, the one whose
 * rank sorts first is the more specific. Says whether the pattern matches at all. */
static bool brute_match(const char *pattern, const char *path, char *rank, uint32_t *param_count,
                        const char **param, size_t *param_len) {
    *param_count = 0;
    for (;;) {
        pattern++;
        path++;
        size_t want = strcspn(pattern, "/"), have = strcspn(path, "/");
        if (pattern[0] == '*') {
            *rank++ = '2';
            *rank = 0;
            param[*param_count] = path;
            param_len[(*param_count)++] = strlen(path);
            return true;
        }
        if (pattern[0] == ':') {
            if (have == 0)
                return false;
            *rank++ = '1';
            param[*param_count] = path;
            param_len[(*param_count)++] = have;
        } else {
            if (want != have || memcmp(pattern, path, want) != 0)
                return false;
            *rank++ = '0';
        }
        pattern += want;
        path += have;
        if (*pattern == 0 || *path == 0) {
            *rank = 0;
            return *pattern == *path;
        }
    }
}

static bool brute_takes(uint32_t mask, uint8_t method) { return (mask >> method & 1) != 0; }

/* The best pattern that takes the method; TABLE_MAX: none. HEAD: a row of the same pattern that
 * names HEAD wins over the row with GET. */
static uint32_t brute_choose(const pattern_row *rows, const char *path, uint8_t method,
                             uint32_t *allow) {
    const char *param[MR_PARAMS_MAX];
    size_t param_len[MR_PARAMS_MAX];
    char rank[70], best_rank[70] = "9";
    uint32_t best = TABLE_MAX, count;
    *allow = 0;
    for (uint32_t i = 0; i < TABLE_MAX; i++) {
        if (!rows[i].is_added || !brute_match(rows[i].text, path, rank, &count, param, param_len))
            continue;
        *allow |= rows[i].mask;
        bool is_own = brute_takes(rows[i].mask, method);
        bool is_get = method == MR_METHOD_HEAD && brute_takes(rows[i].mask, MR_METHOD_GET);
        int order = strcmp(rank, best_rank);
        if ((is_own && order <= 0) || (is_get && order < 0)) {
            best = i;
            memcpy(best_rank, rank, sizeof rank);
        }
    }
    return best;
}

/* Segments from a tiny alphabet, so that patterns overlap and paths hit them. */
static void random_pattern(uint64_t *state, char *text) {
    static const char *const pieces[] = {"", "a", "b", "ab", ":x", ":y", ":z", "*"};
    uint32_t segments = 1 + random_below(state, 4);
    text[0] = 0;
    for (uint32_t i = 0; i < segments; i++) {
        uint32_t kind = random_below(state, i + 1 == segments ? 8 : 7);
        strcat(text, "/");
        strcat(text, kind >= 4 && kind < 7 ? (const char *const[]){":x", ":y", ":z", ":w"}[i]
                                           : pieces[kind]);
    }
}

static void random_path(uint64_t *state, char *text) {
    static const char *const pieces[] = {"", "a", "b", "ab", "c", "%41", "%4"};
    uint32_t segments = 1 + random_below(state, 5);
    text[0] = 0;
    for (uint32_t i = 0; i < segments; i++) {
        strcat(text, "/");
        strcat(text, pieces[random_below(state, random_below(state, 4) == 0 ? 7 : 4)]);
    }
}

static uint32_t random_mask(uint64_t *state) {
    static const uint32_t masks[] = {GET, POST, GET | POST, BIT(HEAD), BIT(OPTIONS), MR_ANY_METHOD};
    return masks[random_below(state, 6)];
}

static void compare_params(const pattern_row *row, const char *path, const mr_match *m) {
    const char *param[MR_PARAMS_MAX];
    size_t param_len[MR_PARAMS_MAX];
    char rank[70];
    uint32_t count;
    CHECK(brute_match(row->text, path, rank, &count, param, param_len));
    CHECK(m->param_count == count);
    for (uint32_t i = 0; i < count; i++)
        CHECK(m->params[i].off == (size_t)(param[i] - path) && m->params[i].len == param_len[i]);
}

/* Whether a param of the chosen row holds the one broken escape that random_path makes. */
static bool brute_is_bad(const pattern_row *row, const char *path) {
    const char *param[MR_PARAMS_MAX];
    size_t param_len[MR_PARAMS_MAX];
    char rank[70];
    uint32_t count;
    bool is_bad = false;
    CHECK(brute_match(row->text, path, rank, &count, param, param_len));
    for (uint32_t i = 0; i < count; i++) {
        for (size_t at = 0; at < param_len[i]; at++)
            is_bad |= param[i][at] == '%' && (at + 2 >= param_len[i] || param[i][at + 2] != '1');
    }
    return is_bad;
}

static void compare_one(const mr_routes *r, const pattern_row *rows, uint8_t method,
                        const char *path, uint32_t seen[5]) {
    uint32_t allow, best = brute_choose(rows, path, method, &allow);
    mr_match m = match(r, method, path);
    at_case = path;
    seen[m.kind]++;
    if (best == TABLE_MAX) {
        CHECK(m.kind == (allow == 0                    ? MR_MATCH_NONE
                         : method == MR_METHOD_OPTIONS ? MR_MATCH_OPTIONS
                                                       : MR_MATCH_METHODS));
        if (allow != 0)
            CHECK(m.allow == (allow | BIT(OPTIONS) | (allow & GET ? BIT(HEAD) : 0)));
    } else if (brute_is_bad(&rows[best], path)) {
        CHECK(m.kind == MR_MATCH_BAD_PATH);
    } else {
        CHECK(m.kind == MR_MATCH_ACTION && m.action->handler == best);
        compare_params(&rows[best], path, &m);
    }
}

static bool same_place(const char *a, const char *b) {
    for (;; a += strcspn(a, "/"), b += strcspn(b, "/")) {
        if (*a != *b)
            return false;
        if (*a == 0)
            return true;
        size_t len = strcspn(++a, "/"), other = strcspn(++b, "/");
        bool are_params = *a == ':' && *b == ':';
        if (!are_params && (len != other || memcmp(a, b, len) != 0))
            return false;
    }
}

/* Fills a row and adds it; whether that may succeed is known from the rows before. */
static void add_random(mr_routes *r, pattern_row *rows, uint32_t index, uint64_t *state) {
    pattern_row *row = &rows[index];
    bool is_taken = false;
    random_pattern(state, row->text);
    row->mask = random_mask(state);
    row->is_added = false;
    for (uint32_t i = 0; i < index; i++)
        is_taken |= rows[i].is_added && (rows[i].mask & row->mask) != 0 &&
                    same_place(rows[i].text, row->text);
    at_case = row->text;
    CHECK(add(r, row->text, row->mask, index) == (is_taken ? MR_INVALID : MR_OK));
    row->is_added = !is_taken;
}

static void test_random(mr_mem *mem) {
    static const uint8_t methods[] = {MR_METHOD_GET,     MR_METHOD_HEAD,  MR_METHOD_POST,
                                      MR_METHOD_OPTIONS, MR_METHOD_OTHER, MR_METHOD_PUT};
    pattern_row rows[TABLE_MAX];
    uint64_t state = 20240607;
    uint32_t seen[5] = {0};
    char path[64];
    for (int table = 0; table < 1500; table++) {
        mr_routes *r = mr_routes_create(mem);
        uint32_t count = 1 + random_below(&state, TABLE_MAX);
        CHECK(r != NULL);
        memset(rows, 0, sizeof rows);
        for (uint32_t i = 0; i < count; i++)
            add_random(r, rows, i, &state);
        for (int i = 0; i < 60; i++) {
            random_path(&state, path);
            compare_one(r, rows, methods[random_below(&state, 6)], path, seen);
        }
        mr_routes_destroy(r);
    }
    at_case = "every kind of verdict was met";
    for (int i = 0; i < 5; i++)
        CHECK(seen[i] > 100);
}

/* ---- memory ---- */

static mr_reply *some_reply(mr_mem *mem) {
    return mr_reply_create(mem, 200, 0, octets("HTTP/1.1 200 OK\r\n"), 17, octets("hi"), 2);
}

/* Builds a table with replies until memory runs out; whatever failed, all of it is released, and
 * what was added before still works. */
static mr_rc build(mr_mem *mem, mr_routes **out) {
    static const char *const patterns[] = {
        "/a", "/b/:x", "/c/*", "/d/e/f/g/h/i/j", "/a/b/c", "/k/:l/m", "/n", "/o", "/p", "/:q"};
    mr_rc rc = MR_NOMEM;
    mr_routes *r = mr_routes_create(mem);
    for (size_t i = 0; r != NULL && i < sizeof patterns / sizeof patterns[0]; i++) {
        mr_action action = {.reply = some_reply(mem), .handler = (uint32_t)i};
        if (action.reply == NULL)
            break;
        rc = mr_routes_add(r, octets(patterns[i]), strlen(patterns[i]), GET, &action);
        if (rc != MR_OK)
            break;
        if (i + 1 < sizeof patterns / sizeof patterns[0])
            rc = MR_NOMEM;
    }
    *out = r;
    return rc;
}

static void test_memory(void) {
    mr_rc rc = MR_NOMEM;
    int64_t allowed;
    at_case = "memory";
    for (allowed = 1; rc != MR_OK; allowed++) {
        mr_mem mem = {.fail_after = allowed};
        mr_routes *r;
        rc = build(&mem, &r);
        CHECK(rc == MR_OK || rc == MR_NOMEM);
        if (r != NULL && r->route_count != 0)
            expect_action(r, MR_METHOD_GET, "/a", 0, NULL);
        mr_routes_destroy(r);
        CHECK(mem.used_bytes == 0);
        CHECK(allowed < 1000);
    }
    CHECK(allowed > 30); /* the table has grown on the way */
    mr_mem none = {.fail_after = -1};
    CHECK(mr_routes_create(&none) == NULL);
}

/* A refused route takes its reply with it. */
static void test_reply_taken(mr_mem *mem) {
    mr_routes *r = mr_routes_create(mem);
    mr_action action = {.reply = some_reply(mem)};
    size_t before;
    CHECK(r != NULL && action.reply != NULL);
    mr_reply_retain(action.reply);
    CHECK(mr_routes_add(r, octets("bad"), 3, GET, &action) == MR_INVALID);
    CHECK(action.reply->references == 1);
    mr_reply_retain(action.reply);
    CHECK(mr_routes_add(r, octets("/a"), 2, GET, &action) == MR_OK);
    CHECK(action.reply->references == 2);
    before = mem->used_bytes;
    mr_routes_destroy(r);
    CHECK(action.reply->references == 1 && mem->used_bytes < before);
    mr_reply_release(action.reply);
}

int main(void) {
    mr_mem mem = {0};
    test_order(&mem);
    test_segments(&mem);
    test_methods(&mem);
    test_bad_escapes(&mem);
    test_bad_patterns(&mem);
    test_bounds(&mem);
    test_param_bounds(&mem);
    test_lengths(&mem);
    test_many(&mem);
    test_allow_text();
    test_random(&mem);
    test_memory();
    test_reply_taken(&mem);
    mr_routes_destroy(NULL);
    CHECK(mem.used_bytes == 0);
    puts("route: ok");
    return 0;
}
