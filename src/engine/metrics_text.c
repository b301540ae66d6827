/* metrics_text.c -- a family of metrics is written whole: its HELP and TYPE, then all of its lines,
 * each with another set of labels. The tables below name the families and where their figures lie.
 */
#include "engine/metrics_text.h"
#include "base/text.h"

static const char *const class_names[MR_CLASS_COUNT] = {"1xx", "2xx", "3xx", "4xx", "5xx", "other"};

/* ---- families ---- */

static void put_head(mr_text *t, const char *name, const char *type, const char *help) {
    mr_text_string(t, "# HELP millrace_");
    mr_text_string(t, name);
    mr_text_string(t, " ");
    mr_text_string(t, help);
    mr_text_string(t, "\n# TYPE millrace_");
    mr_text_string(t, name);
    mr_text_string(t, " ");
    mr_text_string(t, type);
    mr_text_string(t, "\n");
}

static void put_name(mr_text *t, const char *name) {
    mr_text_string(t, "millrace_");
    mr_text_string(t, name);
}

/* {key="value"}, of texts that need no escapes; without a key nothing. */
static void put_label(mr_text *t, const char *key, const char *value) {
    if (key != NULL) {
        mr_text_string(t, "{");
        mr_text_string(t, key);
        mr_text_string(t, "=\"");
        mr_text_string(t, value);
        mr_text_string(t, "\"}");
    }
}

static void put_thread(mr_text *t, uint32_t thread) {
    mr_text_string(t, "{thread=\"");
    if (thread == MR_METER_NO_THREAD)
        mr_text_string(t, "main");
    else
        mr_text_decimal(t, thread);
    mr_text_string(t, "\"}");
}

/* places: 9 for nanoseconds shown as seconds, else 0. */
static void put_value(mr_text *t, uint64_t value, unsigned places) {
    mr_text_string(t, " ");
    mr_text_fixed(t, value, places);
    mr_text_string(t, "\n");
}

/* ---- totals ---- */

typedef struct total {
    const char *name; /* NULL: one more line of the family above */
    const char *help, *key, *value;
    size_t offset; /* in mr_meter_totals */
    unsigned places;
} total;

#define AT(field) offsetof(mr_meter_totals, field)

static const total totals[] = {
    {"connections_accepted_total", "Connections accepted.", NULL, NULL, AT(accepted), 0},
    {"connections_closed_total", "Connections closed.", NULL, NULL, AT(closed), 0},
    {"connections_handed_over_total", "Connections given to another thread after accept.", NULL,
     NULL, AT(handed_over), 0},
    {"connections_handed_in_total", "Connections taken over from another thread.", NULL, NULL,
     AT(handed_in), 0},
    {"refused_total", "Connections and requests turned away.", "reason", "limit", AT(refused_limit),
     0},
    {NULL, NULL, "reason", "admit", AT(refused_admit), 0},
    {NULL, NULL, "reason", "rate", AT(refused_rate), 0},
    {NULL, NULL, "reason", "overload", AT(refused_overload), 0},
    {NULL, NULL, "reason", "memory", AT(refused_memory), 0},
    {"requests_answered_total", "Requests by who answered them.", "by", "engine", AT(by_engine), 0},
    {NULL, NULL, "by", "handler", AT(by_handler), 0},
    {"received_bytes_total", "Octets received.", NULL, NULL, AT(received_bytes), 0},
    {"sent_bytes_total", "Octets sent.", NULL, NULL, AT(sent_bytes), 0},
    {"tls_handshakes_total", "TLS handshakes by their end.", "result", "done", AT(handshakes), 0},
    {NULL, NULL, "result", "failed", AT(handshakes_failed), 0},
    {"timeouts_total", "Time-outs by kind.", "kind", "header", AT(timeout_header), 0},
    {NULL, NULL, "kind", "body", AT(timeout_body), 0},
    {NULL, NULL, "kind", "keep_alive", AT(timeout_keep_alive), 0},
    {NULL, NULL, "kind", "send", AT(timeout_send), 0},
    {NULL, NULL, "kind", "linger", AT(timeout_linger), 0},
    {NULL, NULL, "kind", "handshake", AT(timeout_handshake), 0},
    {"access_log_dropped_total", "Lines of the access log that were dropped.", NULL, NULL,
     AT(log_dropped), 0},
    {"mail_posted_total", "Messages sent to other threads.", NULL, NULL, AT(mail_posted), 0},
    {"mail_delivered_total", "Messages taken out of mailboxes.", NULL, NULL, AT(mail_delivered), 0},
    {"mail_dropped_total", "Messages that could not be delivered.", NULL, NULL, AT(mail_dropped),
     0},
    {"loop_turns_total", "Turns of the event loops.", NULL, NULL, AT(turns), 0},
    {"loop_busy_seconds_total", "Time spent in turns.", NULL, NULL, AT(busy_ns), 9},
    {"loop_idle_seconds_total", "Time spent waiting for events.", NULL, NULL, AT(idle_ns), 9},
    {"requests_total", "Requests answered, by class of status.", "class", "1xx", AT(requests[0]),
     0},
    {NULL, NULL, "class", "2xx", AT(requests[1]), 0},
    {NULL, NULL, "class", "3xx", AT(requests[2]), 0},
    {NULL, NULL, "class", "4xx", AT(requests[3]), 0},
    {NULL, NULL, "class", "5xx", AT(requests[4]), 0},
    {NULL, NULL, "class", "other", AT(requests[5]), 0},
};

static uint64_t field_at(const void *start, size_t offset) {
    uint64_t value;
    memcpy(&value, (const uint8_t *)start + offset, sizeof value);
    return value;
}

static void put_totals(mr_text *t, const mr_meter_totals *from) {
    const char *name = NULL;
    for (size_t i = 0; i < sizeof totals / sizeof totals[0]; i++) {
        const total *at = &totals[i];
        if (at->name != NULL) {
            name = at->name;
            put_head(t, name, "counter", at->help);
        }
        put_name(t, name);
        put_label(t, at->key, at->value);
        put_value(t, field_at(from, at->offset), at->places);
    }
}

/* ---- routes ---- */

/* Cut between two characters of UTF-8. */
static mr_span cut(mr_span name) {
    if (name.len > MR_METRICS_ROUTE_MAX) {
        name.len = MR_METRICS_ROUTE_MAX;
        while (name.len > 0 && ((uint8_t)name.bytes[name.len] & 0xC0) == 0x80)
            name.len--;
    }
    return name;
}

/* The classes that a final answer can have are there from the start, so that the first one is seen
 * as an increase; the two others only when there was one. */
static void put_route(mr_text *t, mr_span route, const uint64_t counts[MR_CLASS_COUNT]) {
    for (unsigned class = 0; class < MR_CLASS_COUNT; class ++) {
        if (counts[class] == 0 && (class == 0 || class == MR_CLASS_OTHER))
            continue;
        mr_text_string(t, "millrace_route_requests_total{route=\"");
        mr_text_escaped(t, cut(route), true);
        mr_text_string(t, "\",class=\"");
        mr_text_string(t, class_names[class]);
        mr_text_string(t, "\"}");
        put_value(t, counts[class], 0);
    }
}

/* All rows that have no name, also those of routes that are gone: the lines add up to
 * requests_total. A route's name begins with a method or '/', so the two words are nobody's name.
 */
static void put_nameless(mr_text *t, const mr_meter_totals *from, size_t named) {
    uint64_t other[MR_CLASS_COUNT] = {0}, sum = 0;
    for (size_t row = named; row <= MR_METER_ROW_OTHER; row++)
        for (unsigned class = 0; class < MR_CLASS_COUNT; class ++) {
            other[class] += from->routes[row][class];
            sum += from->routes[row][class];
        }
    if (sum != 0)
        put_route(t, (mr_span){"other", 5}, other);
    put_route(t, (mr_span){"none", 4}, from->routes[MR_METER_ROW_NONE]);
}

static void put_routes(mr_text *t, const mr_metrics *m) {
    size_t named = m->route_count < MR_METER_ROUTES_MAX ? m->route_count : MR_METER_ROUTES_MAX;
    put_head(t, "route_requests_total", "counter",
             "Requests answered, by route and class of status; none: answered without a route.");
    for (size_t i = 0; i < named; i++)
        put_route(t, m->routes[i], m->totals->routes[i]);
    put_nameless(t, m->totals, named);
}

/* ---- histograms ---- */

/* Of 105 edges these powers of two are shown: each from 16 us to 1 s, every other one outside. They
 * are edges of slots, so the counts are exact. */
static const uint8_t shown_bits[] = {10, 12, 14, 15, 16, 17, 18, 19, 20, 21, 22,
                                     23, 24, 25, 26, 27, 28, 29, 30, 32, 34, 36};

static void put_bucket(mr_text *t, const char *name, uint64_t edge_ns, uint64_t count) {
    put_name(t, name);
    mr_text_string(t, "_bucket{le=\"");
    if (edge_ns == UINT64_MAX)
        mr_text_string(t, "+Inf");
    else
        mr_text_fixed(t, edge_ns, 9);
    mr_text_string(t, "\"}");
    put_value(t, count, 0);
}

static void put_histogram(mr_text *t, const char *name, const char *help,
                          const mr_histogram_totals *h) {
    uint64_t count = 0;
    unsigned slot = 0;
    put_head(t, name, "histogram", help);
    for (size_t i = 0; i < sizeof shown_bits; i++) {
        uint64_t edge = UINT64_C(1) << shown_bits[i];
        while (mr_histogram_edge(slot) <= edge)
            count += h->slots[slot++];
        put_bucket(t, name, edge, count);
    }
    while (slot < MR_HISTOGRAM_SLOTS)
        count += h->slots[slot++];
    put_bucket(t, name, UINT64_MAX, count);
    put_name(t, name);
    mr_text_string(t, "_sum");
    put_value(t, h->sum_ns, 9);
    put_name(t, name);
    mr_text_string(t, "_count");
    put_value(t, count, 0);
}

/* ---- by thread ---- */

typedef struct column {
    const char *name, *type, *help;
    size_t offset; /* in mr_meter_row */
    unsigned places;
} column;

#define OF(field) offsetof(mr_meter_row, field)

static const column columns[] = {
    {"connections", "gauge", "Connections open.", OF(connections), 0},
    {"requests_in_flight", "gauge", "Requests begun and not yet answered.", OF(exchanges), 0},
    {"mailbox_depth", "gauge", "Messages that wait for the thread.", OF(mailbox_depth), 0},
    {"memory_used_bytes", "gauge", "Native memory handed out and in use.", OF(used_bytes), 0},
    {"memory_peak_bytes", "gauge", "Highest memory_used_bytes so far.", OF(peak_bytes), 0},
    {"memory_reserved_bytes", "gauge", "Native memory taken from the system, in use or not.",
     OF(reserved_bytes), 0},
    {"memory_retired_bytes", "gauge", "Native memory out of use but not yet safe to free.",
     OF(retired_bytes), 0},
    {"thread_heartbeat_age_seconds", "gauge", "Length of the turn that goes on; 0: none does.",
     OF(age_ns), 9},
    {"thread_lag_seconds", "gauge", "Recent lag of the event loop.", OF(lag_ns), 9},
    {"thread_accepted_total", "counter", "Connections accepted by the thread.", OF(accepted), 0},
    {"thread_requests_total", "counter", "Requests answered by the thread.", OF(requests), 0},
    {"thread_busy_seconds_total", "counter", "Time the thread spent in turns.", OF(busy_ns), 9},
    {"thread_idle_seconds_total", "counter", "Time the thread spent waiting.", OF(idle_ns), 9},
};

static void put_columns(mr_text *t, const mr_metrics *m) {
    for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++) {
        const column *c = &columns[i];
        put_head(t, c->name, c->type, c->help);
        for (size_t row = 0; row < m->row_count; row++) {
            put_name(t, c->name);
            put_thread(t, m->rows[row].thread);
            put_value(t, field_at(&m->rows[row], c->offset), c->places);
        }
    }
}

/* 0 .. 1000. */
static uint64_t thousandths(double share) {
    return share > 0 ? share < 1 ? (uint64_t)(share * 1000 + 0.5) : 1000 : 0;
}

static void put_states(mr_text *t, const mr_metrics *m) {
    put_head(t, "thread_up", "gauge", "1: the thread serves and is not stuck.");
    for (size_t i = 0; i < m->row_count; i++) {
        put_name(t, "thread_up");
        put_thread(t, m->rows[i].thread);
        put_value(t, m->rows[i].state == MR_THREAD_UP, 0);
    }
    put_head(t, "thread_utilisation_ratio", "gauge", "Recent share of time spent in turns.");
    for (size_t i = 0; i < m->row_count; i++) {
        put_name(t, "thread_utilisation_ratio");
        put_thread(t, m->rows[i].thread);
        put_value(t, thousandths(m->rows[i].utilisation), 3);
    }
}

static void put_series(mr_text *t, const mr_metrics *m) {
    mr_series_stats stats = mr_series_get_stats(m->series);
    put_head(t, "user_series", "gauge", "Series that the program has defined.");
    put_name(t, "user_series");
    put_value(t, stats.series, 0);
    put_head(t, "user_series_refused_total", "counter", "Definitions of series over a limit.");
    put_name(t, "user_series_refused_total");
    put_value(t, stats.refused, 0);
    mr_series_text(m->series, m->seats, m->seat_count, t);
}

/* All or nothing. */
static mr_rc end_text(const mr_text *t, size_t before) {
    if (t->rc != MR_OK)
        t->buf->len = before;
    return t->rc;
}

static mr_text begin_text(mr_mem *mem, mr_buf *buf) {
    return (mr_text){mem, buf, buf->len + MR_METRICS_TEXT_MAX, MR_OK};
}

mr_rc mr_metrics_text(mr_mem *mem, mr_buf *buf, const mr_metrics *m) {
    size_t before = buf->len;
    mr_text t = begin_text(mem, buf);
    put_totals(&t, m->totals);
    put_routes(&t, m);
    put_histogram(&t, "request_queue_seconds", "From a parsed head to its handler's call.",
                  &m->totals->queue);
    put_histogram(&t, "handler_seconds", "From a handler's call to its answer.",
                  &m->totals->handler);
    put_histogram(&t, "loop_lag_seconds", "How late the event loops were.", &m->totals->loop_lag);
    put_columns(&t, m);
    put_states(&t, m);
    if (m->series != NULL)
        put_series(&t, m);
    return end_text(&t, before);
}

/* ---- health ---- */

mr_health mr_health_of(const mr_meter_row *rows, size_t row_count) {
    size_t up = 0, broken = 0;
    for (size_t i = 0; i < row_count; i++) {
        if (rows[i].thread == MR_METER_NO_THREAD)
            continue;
        up += rows[i].state == MR_THREAD_UP;
        broken += rows[i].state == MR_THREAD_STUCK || rows[i].state == MR_THREAD_DOWN;
    }
    if (up == 0)
        return MR_HEALTH_DOWN;
    return broken == 0 ? MR_HEALTH_OK : MR_HEALTH_DEGRADED;
}

static void put_health(mr_text *t, const mr_meter_row *row) {
    static const char *const states[] = {[MR_THREAD_DOWN] = "down",
                                         [MR_THREAD_STARTING] = "starting",
                                         [MR_THREAD_UP] = "up",
                                         [MR_THREAD_DRAINING] = "draining",
                                         [MR_THREAD_STUCK] = "stuck"};
    mr_text_string(t, "{\"thread\":");
    mr_text_decimal(t, row->thread);
    mr_text_string(t, ",\"state\":\"");
    mr_text_string(t, states[row->state]);
    mr_text_string(t, "\",\"heartbeatAge\":");
    mr_text_decimal(t, row->age_ns / 1000000);
    mr_text_string(t, ",\"lag\":");
    mr_text_fixed(t, row->lag_ns / 1000, 3);
    mr_text_string(t, ",\"utilisation\":");
    mr_text_fixed(t, thousandths(row->utilisation), 3);
    mr_text_string(t, ",\"mailboxDepth\":");
    mr_text_decimal(t, row->mailbox_depth);
    mr_text_string(t, ",\"connections\":");
    mr_text_decimal(t, row->connections);
    mr_text_string(t, "}");
}

mr_rc mr_health_text(mr_mem *mem, mr_buf *buf, const mr_meter_row *rows, size_t row_count) {
    static const char *const words[] = {"ok", "degraded", "down"};
    size_t before = buf->len;
    mr_text t = begin_text(mem, buf);
    mr_text_string(&t, "{\"status\":\"");
    mr_text_string(&t, words[mr_health_of(rows, row_count)]);
    mr_text_string(&t, "\",\"threads\":[");
    bool is_first = true;
    for (size_t i = 0; i < row_count; i++) {
        if (rows[i].thread == MR_METER_NO_THREAD)
            continue;
        mr_text_string(&t, is_first ? "" : ",");
        is_first = false;
        put_health(&t, &rows[i]);
    }
    mr_text_string(&t, "]}");
    return end_text(&t, before);
}
