/* fuzz/route.c -- any table, any path: the router's verdict against one pattern matched at a time.
 * Input: lines. All but the last are routes: a letter for the methods, then the pattern. The last
 * is the request: a letter for the method, then the path. */
/* link: engine/route.c engine/reply.c proto/url.c proto/h1_parse.c proto/h1_scan.c */
/* link: proto/h1_scan_avx2.c proto/h1_scan_sse2.c proto/h1_scan_neon.c proto/h1_scan_scalar.c */
/* link: base/mem.c base/buf.c base/text.c */
#include "base/check.h"
#include "engine/route.h"
#include "proto/url.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ROWS_MAX 24u
#define RANK_MAX (MR_SEGMENTS_MAX + 1)

typedef struct row {
    const uint8_t *pattern;
    size_t len;
    uint32_t mask;
} row;

typedef struct table {
    mr_routes *routes;
    row rows[ROWS_MAX]; /* those that were added */
    uint32_t count;
} table;

static size_t span_to(const uint8_t *text, size_t len, uint8_t end) {
    const uint8_t *found = len != 0 ? memchr(text, end, len) : NULL;
    return found != NULL ? (size_t)(found - text) : len;
}

static uint32_t mask_of(uint8_t letter) {
    static const uint32_t masks[] = {1u << MR_METHOD_GET,
                                     1u << MR_METHOD_POST,
                                     1u << MR_METHOD_GET | 1u << MR_METHOD_PUT,
                                     1u << MR_METHOD_HEAD,
                                     1u << MR_METHOD_OPTIONS,
                                     1u << MR_METHOD_OTHER,
                                     MR_ANY_METHOD,
                                     0};
    return masks[letter % 8];
}

/* Matches one pattern. `rank` gets a digit per segment, the smaller the more specific: of two
 * patterns that match, the smaller rank wins, so it is compared like text. */
static bool matches(const row *p, const uint8_t *path, size_t len, char *rank) {
    size_t i = 0, j = 0; /* at a '/' of each, or at their ends */
    while (i < p->len && j < len) {
        size_t want = span_to(p->pattern + i + 1, p->len - i - 1, '/');
        size_t have = span_to(path + j + 1, len - j - 1, '/');
        const uint8_t *segment = p->pattern + i + 1;
        *rank++ = want != 0 && segment[0] == '*' ? '2' : want != 0 && segment[0] == ':' ? '1' : '0';
        *rank = 0;
        if (rank[-1] == '2')
            return true;
        if (rank[-1] == '1' ? have == 0 : want != have || memcmp(segment, path + j + 1, want) != 0)
            return false;
        i += 1 + want;
        j += 1 + have;
    }
    return i >= p->len && j >= len;
}

static void add_row(table *t, const uint8_t *line, size_t len) {
    mr_action action = {.handler = t->count};
    if (len == 0 || t->count == ROWS_MAX)
        return;
    uint32_t mask = mask_of(line[0]);
    if (mr_routes_add(t->routes, line + 1, len - 1, mask, &action) == MR_OK)
        t->rows[t->count++] = (row){.pattern = line + 1, .len = len - 1, .mask = mask};
}

static bool takes(uint32_t mask, uint32_t method) {
    return (mask >> method & 1) != 0 ||
           (method == MR_METHOD_HEAD && (mask >> MR_METHOD_GET & 1) != 0);
}

static void check_params(const mr_match *m, const uint8_t *path, size_t len) {
    uint32_t end = 0;
    MR_ASSERT(m->param_count <= MR_PARAMS_MAX);
    for (uint32_t i = 0; i < m->param_count; i++) {
        MR_ASSERT(m->params[i].off > end || (len == 0 && m->params[i].off == 0));
        end = (uint32_t)m->params[i].off + m->params[i].len;
        MR_ASSERT(end <= len);
        MR_ASSERT(mr_url_param_valid(path + m->params[i].off, m->params[i].len));
    }
}

/* What one pattern at a time says: the union of methods, and the best rank that takes the method.
 */
static uint32_t survey(const table *t, uint32_t method, const uint8_t *path, size_t len,
                       char *best) {
    char rank[RANK_MAX];
    uint32_t allow = 0;
    memcpy(best, "9", 2);
    for (uint32_t i = 0; i < t->count; i++) {
        if (!matches(&t->rows[i], path, len, rank))
            continue;
        allow |= t->rows[i].mask;
        if (takes(t->rows[i].mask, method) && strcmp(rank, best) < 0)
            memcpy(best, rank, sizeof rank);
    }
    return allow;
}

static void check_match(const table *t, uint32_t method, const uint8_t *path, size_t len) {
    char best[RANK_MAX], rank[RANK_MAX];
    const uint8_t *whole = len == 0 ? (const uint8_t *)"/" : path;
    uint32_t allow = survey(t, method, whole, len == 0 ? 1 : len, best);
    bool has_slash = whole[0] == '/';
    mr_match m;
    mr_routes_match(t->routes, (uint8_t)method, path, len, &m);
    if (m.kind == MR_MATCH_ACTION) {
        const row *chosen = &t->rows[m.action->handler];
        MR_ASSERT(has_slash && matches(chosen, whole, len == 0 ? 1 : len, rank));
        MR_ASSERT(takes(chosen->mask, method) && strcmp(rank, best) == 0);
        check_params(&m, path, len);
    } else if (m.kind == MR_MATCH_BAD_PATH) {
        MR_ASSERT(best[0] != '9' && memchr(path, '%', len) != NULL);
    } else {
        MR_ASSERT(!has_slash || best[0] == '9');
        MR_ASSERT(!has_slash || (m.kind == MR_MATCH_NONE) == (allow == 0));
        MR_ASSERT((m.allow & allow) == (has_slash ? allow : 0));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    mr_mem mem = {0};
    table t = {.routes = mr_routes_create(&mem)};
    size_t line;
    MR_ASSERT(t.routes != NULL);
    while ((line = span_to(data, size, '\n')) < size) {
        add_row(&t, data, line);
        data += line + 1;
        size -= line + 1;
    }
    if (size != 0 && size - 1 <= UINT16_MAX)
        check_match(&t, data[0] % MR_METHOD_COUNT, data + 1, size - 1);
    mr_routes_destroy(t.routes);
    MR_ASSERT(mem.used_bytes == 0);
    return 0;
}
