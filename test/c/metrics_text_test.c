/* metrics_text_test.c -- the text is read back by a small parser of its own, which holds it to the
 * format: one HELP and TYPE before a family's lines, no set of labels twice, buckets that rise. */
/* link: engine/metrics_put.c engine/meter.c engine/series.c base/mem.c base/buf.c base/text.c */
#include "engine/metrics_text.c"
#include "base/check.h"
#include <stdio.h>
#include <stdlib.h>

/* ---- the reader ---- */

enum { SAMPLES_MAX = 16000, FAMILIES_MAX = 200 };

typedef struct sample {
    char *
        key; /* name{labels}, unescaped, labels in their order, a control character between parts */
    double value;
} sample;

typedef struct page {
    char *text;
    sample samples[SAMPLES_MAX];
    size_t count;
    char families[FAMILIES_MAX][160], types[FAMILIES_MAX][16];
    size_t family_count;
    char *keys, *keys_end;
} page;

static page read_page;

static bool is_word_char(char c, bool is_first) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == ':' ||
           (!is_first && c >= '0' && c <= '9');
}

static const char *read_word(page *p, const char *at) {
    MR_ASSERT(is_word_char(*at, true));
    for (bool is_first = true; is_word_char(*at, is_first); is_first = false)
        *p->keys_end++ = *at++;
    return at;
}

static const char *read_quoted(page *p, const char *at) {
    MR_ASSERT(*at++ == '"');
    while (*at != '"') {
        MR_ASSERT(*at != '\n' && *at != '\0');
        if (*at != '\\') {
            *p->keys_end++ = *at++;
            continue;
        }
        at++;
        MR_ASSERT(*at == '\\' || *at == '"' || *at == 'n');
        *p->keys_end++ = *at == 'n' ? '\n' : *at;
        at++;
    }
    return at + 1;
}

static const char *read_labels(page *p, const char *at) {
    do {
        at++;
        *p->keys_end++ = '\1';
        at = read_word(p, at);
        MR_ASSERT(*at == '=');
        *p->keys_end++ = '\2';
        at = read_quoted(p, at + 1);
    } while (*at == ',');
    MR_ASSERT(*at == '}');
    return at + 1;
}

/* The sample must be of the last family that was announced. */
static void check_family(const page *p, const char *key) {
    MR_ASSERT(p->family_count > 0);
    const char *family = p->families[p->family_count - 1];
    const char *type = p->types[p->family_count - 1];
    size_t len = strlen(family), word = strcspn(key, "\1");
    MR_ASSERT(word >= len && memcmp(key, family, len) == 0);
    if (strcmp(type, "histogram") != 0) {
        MR_ASSERT(word == len);
        return;
    }
    static const char *const ends[] = {"_bucket", "_sum", "_count"};
    bool is_part = false;
    for (int i = 0; i < 3; i++)
        is_part |= word - len == strlen(ends[i]) && memcmp(key + len, ends[i], word - len) == 0;
    MR_ASSERT(is_part);
}

static const char *read_sample(page *p, const char *at) {
    MR_ASSERT(p->count < SAMPLES_MAX);
    char *key = p->keys_end, *end;
    at = read_word(p, at);
    if (*at == '{')
        at = read_labels(p, at);
    *p->keys_end++ = '\0';
    MR_ASSERT(*at == ' ');
    p->samples[p->count++] = (sample){key, strtod(at + 1, &end)};
    MR_ASSERT(end != at + 1 && *end == '\n');
    check_family(p, key);
    return end + 1;
}

static const char *read_comment(page *p, const char *at) {
    char kind[8], name[160], rest[2000];
    int used = 0;
    MR_ASSERT(sscanf(at, "# %7s %159s%n", kind, name, &used) == 2);
    size_t len = strcspn(at + used, "\n");
    MR_ASSERT(at[used] == ' ' && len < sizeof rest && at[(size_t)used + len] == '\n');
    memcpy(rest, at + used + 1, len - 1);
    rest[len - 1] = '\0';
    if (strcmp(kind, "TYPE") == 0) {
        for (size_t i = 0; i < p->family_count; i++)
            MR_ASSERT(strcmp(p->families[i], name) != 0);
        MR_ASSERT(p->family_count < FAMILIES_MAX);
        MR_ASSERT(!strcmp(rest, "counter") || !strcmp(rest, "gauge") || !strcmp(rest, "histogram"));
        strcpy(p->families[p->family_count], name);
        strcpy(p->types[p->family_count++], rest);
    } else {
        MR_ASSERT(strcmp(kind, "HELP") == 0);
        MR_ASSERT(strncmp(strchr(at, '\n') + 1, "# TYPE ", 7) == 0);
    }
    return at + (size_t)used + len + 1;
}

static int by_key(const void *a, const void *b) {
    return strcmp(((const sample *)a)->key, ((const sample *)b)->key);
}

/* Buckets follow one another: each at least the one before, the last +Inf and the same as _count.
 */
static void check_buckets(const page *p) {
    double before = 0;
    for (size_t i = 0; i < p->count; i++) {
        const char *le = strstr(p->samples[i].key, "\1le\2");
        if (le == NULL)
            continue;
        MR_ASSERT(p->samples[i].value >= before);
        before = p->samples[i].value;
        if (strcmp(le + 4, "+Inf") == 0) {
            MR_ASSERT(strstr(p->samples[i + 2].key, "_count") != NULL);
            MR_ASSERT(p->samples[i + 2].value == before);
            before = 0;
        }
    }
}

static void read_back(const mr_buf *buf) {
    page *p = &read_page;
    free(p->text);
    free(p->keys);
    p->count = p->family_count = 0;
    p->text = malloc(buf->len + 1);
    p->keys = p->keys_end = malloc(buf->len + 1);
    MR_ASSERT(p->text != NULL && p->keys != NULL);
    memcpy(p->text, buf->data, buf->len);
    p->text[buf->len] = '\0';
    MR_ASSERT(strlen(p->text) == buf->len);
    for (const char *at = p->text; *at != '\0';)
        at = *at == '#' ? read_comment(p, at) : read_sample(p, at);
    check_buckets(p);
    qsort(p->samples, p->count, sizeof p->samples[0], by_key);
    for (size_t i = 1; i < p->count; i++)
        MR_ASSERT(strcmp(p->samples[i - 1].key, p->samples[i].key) != 0);
}

static bool has(const char *key) {
    sample wanted = {(char *)key, 0};
    return bsearch(&wanted, read_page.samples, read_page.count, sizeof wanted, by_key) != NULL;
}

static double value(const char *key) {
    sample wanted = {(char *)key, 0};
    sample *found = bsearch(&wanted, read_page.samples, read_page.count, sizeof wanted, by_key);
    if (found == NULL)
        fprintf(stderr, "no sample %s\n", key);
    MR_ASSERT(found != NULL);
    return found->value;
}

/* ---- the page ---- */

static mr_mem mem;
static mr_buf buf;
static mr_meter meter;
static mr_meter_totals all;

#define SPAN(text) ((mr_span){text, strlen(text)})

static void begin(void) {
    buf.len = 0;
    memset(&meter, 0, sizeof meter);
    memset(&all, 0, sizeof all);
}

static void write_and_read(const mr_metrics *metrics) {
    buf.len = 0;
    MR_ASSERT(mr_metrics_text(&mem, &buf, metrics) == MR_OK);
    read_back(&buf);
}

static void totals_have_their_names(void) {
    begin();
    uint64_t figure = 1;
#define FILL(name) mr_meter_set(&meter.name, figure++);
    MR_METER_COUNTERS(FILL)
#undef FILL
    mr_meter_set(&meter.busy_ns, 1500000000);
    mr_meter_request(&meter, MR_METER_NO_ROUTE, 404);
    mr_meter_sum(&all, &meter);
    write_and_read(&(mr_metrics){.totals = &all});
    MR_ASSERT(value("millrace_connections_accepted_total") == 1);
    MR_ASSERT(value("millrace_connections_closed_total") == 2);
    MR_ASSERT(value("millrace_refused_total\1reason\2limit") == 3);
    MR_ASSERT(value("millrace_refused_total\1reason\2admit") == 4);
    MR_ASSERT(value("millrace_refused_total\1reason\2rate") == 5);
    MR_ASSERT(value("millrace_refused_total\1reason\2overload") == 6);
    MR_ASSERT(value("millrace_refused_total\1reason\2memory") == 7);
    MR_ASSERT(value("millrace_connections_handed_over_total") == 8);
    MR_ASSERT(value("millrace_connections_handed_in_total") == 9);
    MR_ASSERT(value("millrace_requests_answered_total\1by\2engine") == 10);
    MR_ASSERT(value("millrace_requests_answered_total\1by\2handler") == 11);
    MR_ASSERT(value("millrace_received_bytes_total") == 12);
    MR_ASSERT(value("millrace_sent_bytes_total") == 13);
    MR_ASSERT(value("millrace_tls_handshakes_total\1result\2done") == 14);
    MR_ASSERT(value("millrace_tls_handshakes_total\1result\2failed") == 15);
    MR_ASSERT(value("millrace_timeouts_total\1kind\2header") == 16);
    MR_ASSERT(value("millrace_timeouts_total\1kind\2handshake") == 21);
    MR_ASSERT(value("millrace_access_log_dropped_total") == 22);
    MR_ASSERT(value("millrace_mail_posted_total") == 23);
    MR_ASSERT(value("millrace_mail_delivered_total") == 24);
    MR_ASSERT(value("millrace_mail_dropped_total") == 25);
    MR_ASSERT(value("millrace_loop_turns_total") == 26);
    MR_ASSERT(value("millrace_loop_busy_seconds_total") == 1.5);
    MR_ASSERT(value("millrace_requests_total\1class\0024xx") == 1);
    MR_ASSERT(value("millrace_route_requests_total\1route\2none\1class\0024xx") == 1);
    /* Each counter of the meter is on the page. */
    size_t shown = 0, counters = 0;
    for (size_t i = 0; i < sizeof totals / sizeof totals[0]; i++)
        shown += totals[i].offset < AT(requests);
#define COUNT(name) counters++;
    MR_METER_COUNTERS(COUNT)
#undef COUNT
    MR_ASSERT(shown == counters);
}

static void routes_at_the_bound_and_past_it(void) {
    static char names[MR_METER_ROUTES_MAX + 1][16];
    static mr_span routes[MR_METER_ROUTES_MAX + 1];
    begin();
    for (uint32_t i = 0; i <= MR_METER_ROUTES_MAX; i++) {
        snprintf(names[i], sizeof names[i], "/r%u", (unsigned)i);
        routes[i] = SPAN(names[i]);
        if (i < MR_METER_ROUTES_MAX)
            mr_meter_request(&meter, i, 200);
    }
    mr_meter_sum(&all, &meter);
    mr_metrics m = {.totals = &all, .routes = routes, .route_count = MR_METER_ROUTES_MAX};
    write_and_read(&m);
    MR_ASSERT(value("millrace_route_requests_total\1route\2/r255\1class\0022xx") == 1);
    MR_ASSERT(value("millrace_route_requests_total\1route\2/r255\1class\0025xx") == 0);
    MR_ASSERT(!has("millrace_route_requests_total\1route\2other\1class\0022xx"));
    MR_ASSERT(!has("millrace_route_requests_total\1route\2/r0\1class\0021xx"));
    mr_meter_request(&meter, MR_METER_ROUTES_MAX, 200);
    memset(&all, 0, sizeof all);
    mr_meter_sum(&all, &meter);
    m.route_count++;
    write_and_read(&m);
    MR_ASSERT(value("millrace_route_requests_total\1route\2other\1class\0022xx") == 1);
    MR_ASSERT(!has("millrace_route_requests_total\1route\2/r256\1class\0022xx"));
    m.route_count = 2; /* the others are routes of a table that was replaced */
    write_and_read(&m);
    MR_ASSERT(value("millrace_route_requests_total\1route\2other\1class\0022xx") == 255);
}

static void names_of_routes(void) {
    static char longest[MR_METRICS_ROUTE_MAX + 8], key[MR_METRICS_ROUTE_MAX + 80];
    begin();
    memset(longest, 'x', MR_METRICS_ROUTE_MAX - 1);
    memcpy(longest + MR_METRICS_ROUTE_MAX - 1, "\xC3\xA4z", 4); /* the bound is inside of it */
    mr_span routes[] = {SPAN("GET /a\"b\\c\nd"), SPAN(longest)};
    write_and_read(&(mr_metrics){.totals = &all, .routes = routes, .route_count = 2});
    MR_ASSERT(has("millrace_route_requests_total\1route\2GET /a\"b\\c\nd\1class\0022xx"));
    snprintf(key, sizeof key, "millrace_route_requests_total\1route\2%.*s\1class\0022xx",
             (int)MR_METRICS_ROUTE_MAX - 1, longest);
    MR_ASSERT(has(key));
    longest[MR_METRICS_ROUTE_MAX - 1] = 'y';
    longest[MR_METRICS_ROUTE_MAX] = '\0'; /* at the bound: whole */
    routes[1] = SPAN(longest);
    write_and_read(&(mr_metrics){.totals = &all, .routes = routes, .route_count = 2});
    snprintf(key, sizeof key, "millrace_route_requests_total\1route\2%s\1class\0022xx", longest);
    MR_ASSERT(has(key));
}

static void buckets_count_what_they_say(void) {
    begin();
    static const uint64_t ns[] = {0,
                                  1024,
                                  1025,
                                  4096,
                                  16384,
                                  16385,
                                  1u << 30,
                                  (1u << 30) + 1,
                                  UINT64_C(1) << 36,
                                  (UINT64_C(1) << 36) + 1};
    for (size_t i = 0; i < sizeof ns / sizeof ns[0]; i++)
        mr_histogram_record(&meter.handler, ns[i]);
    mr_meter_sum(&all, &meter);
    write_and_read(&(mr_metrics){.totals = &all});
    MR_ASSERT(value("millrace_handler_seconds_bucket\1le\0020.000001024") == 2);
    MR_ASSERT(value("millrace_handler_seconds_bucket\1le\0020.000004096") == 4);
    MR_ASSERT(value("millrace_handler_seconds_bucket\1le\0020.000016384") == 5);
    MR_ASSERT(value("millrace_handler_seconds_bucket\1le\0020.000032768") == 6);
    MR_ASSERT(value("millrace_handler_seconds_bucket\1le\0021.073741824") == 7);
    MR_ASSERT(value("millrace_handler_seconds_bucket\1le\0024.294967296") == 8);
    MR_ASSERT(value("millrace_handler_seconds_bucket\1le\00268.719476736") == 9);
    MR_ASSERT(value("millrace_handler_seconds_bucket\1le\2+Inf") == 10);
    MR_ASSERT(value("millrace_handler_seconds_count") == 10);
    double sum = 0;
    for (size_t i = 0; i < sizeof ns / sizeof ns[0]; i++)
        sum += (double)ns[i] / 1e9;
    MR_ASSERT(value("millrace_handler_seconds_sum") > sum - 1e-6);
    MR_ASSERT(value("millrace_handler_seconds_sum") < sum + 1e-6);
    MR_ASSERT(value("millrace_request_queue_seconds_count") == 0);
}

static void threads_have_rows(void) {
    begin();
    mr_meter_row rows[] = {{.thread = MR_METER_NO_THREAD, .state = MR_THREAD_UP, .connections = 1},
                           {.thread = 0,
                            .state = MR_THREAD_UP,
                            .connections = 7,
                            .used_bytes = 10,
                            .peak_bytes = 11,
                            .reserved_bytes = 12,
                            .retired_bytes = 13,
                            .requests = 5,
                            .utilisation = 0.25},
                           {.thread = 11,
                            .state = MR_THREAD_STUCK,
                            .age_ns = 2500000000,
                            .lag_ns = 1,
                            .mailbox_depth = 3,
                            .exchanges = 2,
                            .utilisation = 7}};
    write_and_read(&(mr_metrics){.totals = &all, .rows = rows, .row_count = 3});
    MR_ASSERT(value("millrace_connections\1thread\2main") == 1);
    MR_ASSERT(value("millrace_connections\1thread\0020") == 7);
    MR_ASSERT(value("millrace_memory_used_bytes\1thread\0020") == 10);
    MR_ASSERT(value("millrace_memory_peak_bytes\1thread\0020") == 11);
    MR_ASSERT(value("millrace_memory_reserved_bytes\1thread\0020") == 12);
    MR_ASSERT(value("millrace_memory_retired_bytes\1thread\0020") == 13);
    MR_ASSERT(value("millrace_thread_requests_total\1thread\0020") == 5);
    MR_ASSERT(value("millrace_thread_utilisation_ratio\1thread\0020") == 0.25);
    MR_ASSERT(value("millrace_thread_utilisation_ratio\1thread\00211") == 1);
    MR_ASSERT(value("millrace_thread_heartbeat_age_seconds\1thread\00211") == 2.5);
    MR_ASSERT(value("millrace_thread_lag_seconds\1thread\00211") == 1e-9);
    MR_ASSERT(value("millrace_mailbox_depth\1thread\00211") == 3);
    MR_ASSERT(value("millrace_requests_in_flight\1thread\00211") == 2);
    MR_ASSERT(value("millrace_thread_up\1thread\0020") == 1);
    MR_ASSERT(value("millrace_thread_up\1thread\00211") == 0);
}

static mr_series_place define(mr_series *series, mr_series_def def) {
    mr_series_place place;
    const char *problem;
    MR_ASSERT(mr_series_define(series, &def, &place, &problem) == MR_OK);
    return place;
}

static void series_of_the_program(void) {
    static const double bounds[] = {0.25, 1e-7, 3};
    mr_series_limits limits = {.series = 3};
    mr_series *series = mr_series_create(&mem, &limits);
    mr_values values;
    MR_ASSERT(series != NULL && mr_values_init(series, &values) == MR_OK);
    mr_span label = SPAN("shop"), shop = SPAN("a\\\"\nb");
    mr_series_place c = define(series, (mr_series_def){.name = SPAN("orders_total"),
                                                       .help = SPAN("Orders.\nAll \\ of \"them\"."),
                                                       .label_names = &label,
                                                       .label_values = &shop,
                                                       .label_count = 1});
    mr_series_place h = define(series, (mr_series_def){.kind = MR_SERIES_HISTOGRAM,
                                                       .name = SPAN("price"),
                                                       .help = SPAN("Prices."),
                                                       .bounds = bounds + 1,
                                                       .bound_count = 2});
    mr_series_place g = define(series, (mr_series_def){.kind = MR_SERIES_GAUGE,
                                                       .merge = MR_MERGE_THREAD,
                                                       .name = SPAN("depth"),
                                                       .label_names = &label,
                                                       .label_values = &shop,
                                                       .label_count = 1});
    mr_series_def more = {.name = SPAN("more")};
    const char *problem;
    MR_ASSERT(mr_series_define(series, &more, &c, &problem) == MR_LIMIT);
    MR_ASSERT(mr_series_add(&values, &c, 4.5) && mr_series_observe(&values, &h, 2));
    mr_series_set(&values, &g, 9);
    begin();
    mr_series_seat seat = {6, &values};
    mr_metrics m = {.totals = &all, .series = series, .seats = &seat, .seat_count = 1};
    write_and_read(&m);
    MR_ASSERT(value("orders_total\1shop\2a\\\"\nb") == 4.5);
    MR_ASSERT(value("price_bucket\1le\0021e-07") == 0 && value("price_bucket\1le\0023") == 1);
    MR_ASSERT(value("depth\1shop\2a\\\"\nb\1thread\0026") == 9);
    MR_ASSERT(strstr(read_page.text, "# HELP orders_total Orders.\\nAll \\\\ of \"them\".\n"));
    MR_ASSERT(value("millrace_user_series") == 3);
    MR_ASSERT(value("millrace_user_series_refused_total") == 1);
    mr_values_dispose(series, &values);
    mr_series_destroy(series);
}

/* ---- bounds, memory ---- */

static void all_or_nothing(void) {
    begin();
    static char name[MR_METRICS_ROUTE_MAX + 1];
    memset(name, '"', MR_METRICS_ROUTE_MAX);
    static mr_meter_row rows[3000];
    mr_span routes[] = {SPAN(name)};
    mr_metrics m = {.totals = &all, .routes = routes, .route_count = 1};
    for (uint32_t i = 0; i < 3000; i++)
        rows[i].thread = i;
    mr_mem small = {0};
    mr_buf out = {0};
    MR_ASSERT(mr_buf_append(&small, &out, "before", 6) == MR_OK);
    small.fail_after = 2; /* the text needs more steps than that */
    MR_ASSERT(mr_metrics_text(&small, &out, &m) == MR_NOMEM && out.len == 6);
    MR_ASSERT(mr_health_text(&small, &out, rows, 3000) == MR_NOMEM && out.len == 6);
    small.fail_after = 0;
    MR_ASSERT(mr_health_text(&small, &out, rows, 3000) == MR_OK && out.len > 6);
    MR_ASSERT(memcmp(out.data, "before{\"status\"", 15) == 0);
    mr_buf_dispose(&small, &out);
}

/* A text that is exactly as long as allowed, and one octet more. */
static void the_bound_of_a_text(void) {
    mr_buf out = {0};
    mr_text t = {&mem, &out, 10, MR_OK};
    mr_text_string(&t, "0123456789");
    MR_ASSERT(t.rc == MR_OK && out.len == 10);
    mr_text_string(&t, "0");
    MR_ASSERT(t.rc == MR_LIMIT && out.len == 10);
    mr_text_string(&t, "");
    MR_ASSERT(t.rc == MR_LIMIT);
    mr_buf_dispose(&mem, &out);
    /* And of a scrape: enough rows to pass it. */
    enum { ROWS = 40000 };
    mr_meter_row *rows = calloc(ROWS, sizeof *rows);
    MR_ASSERT(rows != NULL);
    mr_metrics m = {.totals = &all, .rows = rows, .row_count = ROWS};
    MR_ASSERT(mr_metrics_text(&mem, &out, &m) == MR_LIMIT && out.len == 0);
    m.row_count = 1;
    MR_ASSERT(mr_metrics_text(&mem, &out, &m) == MR_OK);
    free(rows);
    mr_buf_dispose(&mem, &out);
}

/* ---- health ---- */

static void expect_health(const mr_meter_row *rows, size_t count, const char *text) {
    mr_buf out = {0};
    MR_ASSERT(mr_health_text(&mem, &out, rows, count) == MR_OK);
    if (out.len != strlen(text) || memcmp(out.data, text, out.len) != 0)
        fprintf(stderr, "%.*s\n%s\n", (int)out.len, (char *)out.data, text);
    MR_ASSERT(out.len == strlen(text) && memcmp(out.data, text, out.len) == 0);
    mr_buf_dispose(&mem, &out);
}

static void health(void) {
    mr_meter_row rows[] = {{.thread = MR_METER_NO_THREAD, .state = MR_THREAD_UP},
                           {.thread = 0,
                            .state = MR_THREAD_UP,
                            .lag_ns = 250999,
                            .utilisation = 0.0312,
                            .connections = 12},
                           {.thread = 1,
                            .state = MR_THREAD_STUCK,
                            .age_ns = 61999999,
                            .lag_ns = 62000000,
                            .utilisation = 1,
                            .mailbox_depth = 4}};
    expect_health(rows, 2,
                  "{\"status\":\"ok\",\"threads\":[{\"thread\":0,\"state\":\"up\",\"heartbeatAge\":"
                  "0,\"lag\":0.25,\"utilisation\":0.031,\"mailboxDepth\":0,\"connections\":12}]}");
    expect_health(rows + 2, 1,
                  "{\"status\":\"down\",\"threads\":[{\"thread\":1,\"state\":\"stuck\","
                  "\"heartbeatAge\":61,\"lag\":62,\"utilisation\":1,\"mailboxDepth\":4,"
                  "\"connections\":0}]}");
    expect_health(rows, 1, "{\"status\":\"down\",\"threads\":[]}");
    MR_ASSERT(mr_health_of(rows, 3) == MR_HEALTH_DEGRADED);
    static const mr_health with[] = {[MR_THREAD_DOWN] = MR_HEALTH_DEGRADED,
                                     [MR_THREAD_STARTING] = MR_HEALTH_OK,
                                     [MR_THREAD_UP] = MR_HEALTH_OK,
                                     [MR_THREAD_DRAINING] = MR_HEALTH_OK,
                                     [MR_THREAD_STUCK] = MR_HEALTH_DEGRADED};
    for (unsigned s = 0; s <= MR_THREAD_STUCK; s++) {
        rows[2].state = (mr_thread_state)s;
        MR_ASSERT(mr_health_of(rows, 3) == with[s]);
        MR_ASSERT(mr_health_of(rows + 2, 1) == (s == MR_THREAD_UP ? MR_HEALTH_OK : MR_HEALTH_DOWN));
    }
}

int main(void) {
    totals_have_their_names();
    routes_at_the_bound_and_past_it();
    names_of_routes();
    buckets_count_what_they_say();
    threads_have_rows();
    series_of_the_program();
    all_or_nothing();
    the_bound_of_a_text();
    health();
    free(read_page.text);
    free(read_page.keys);
    mr_buf_dispose(&mem, &buf);
    MR_ASSERT(mem.used_bytes == 0);
    return 0;
}
