/* fleet_show.c -- what a fleet shows of itself, without asking the threads that it shows. See
 * fleet.h.
 *
 * All of it is under the fleet's lock, and so is the folding of a thread that has ended: a count is
 * seen in the one place or the other, never in both or in none. */
#include "engine/fleet.h"
#include "engine/metrics_text.h"
#include <stdio.h>
#include <string.h>

/* ---- rows ---- */

static mr_thread_state state_of(const mr_fleet *f, uint32_t at, uint64_t now_ns)
{
    switch (mr_seat_state_of(&f->seats[at])) {
    case MR_SEAT_STARTING:
        return MR_THREAD_STARTING;
    case MR_SEAT_UP:
        return mr_fleet_is_stuck(f, at, now_ns) ? MR_THREAD_STUCK : MR_THREAD_UP;
    case MR_SEAT_DRAINING:
        return mr_fleet_is_stuck(f, at, now_ns) ? MR_THREAD_STUCK : MR_THREAD_DRAINING;
    default:
        return MR_THREAD_DOWN;
    }
}

/* The loop tells by answering pings, not by its turns: an unanswered one is its present lag. */
static void read_row(mr_fleet *f, uint32_t at, uint64_t now_ns, mr_meter_row *row)
{
    mr_seat *seat = &f->seats[at];
    uint64_t since = atomic_load_explicit(&seat->pinged_ns, memory_order_relaxed);
    uint64_t age_ns = since != 0 && now_ns > since ? now_ns - since : 0;
    mr_meter_read(&seat->meter, now_ns, UINT64_MAX, row);
    row->thread = atomic_load_explicit(&seat->thread, memory_order_relaxed);
    row->state = state_of(f, at, now_ns);
    row->mailbox_depth = mr_fleet_mail_depth(f, at);
    mr_meter_utilisation(&seat->window, row, now_ns);
    row->age_ns = age_ns;
    if (age_ns > row->lag_ns)
        row->lag_ns = age_ns;
    if (row->state == MR_THREAD_STUCK)
        row->utilisation = 1;
}

static size_t gather(mr_fleet *f, uint64_t now_ns, mr_meter_row *rows)
{
    size_t count = 0;
    /* A place that nobody has is a thread that is down. */
    for (uint32_t thread = 0; thread < f->thread_count; thread++)
        if (mr_fleet_seat_of(f, thread) == MR_NO_SEAT)
            rows[count++] = (mr_meter_row){.thread = thread, .state = MR_THREAD_DOWN};
    for (uint32_t at = 1; at < f->seat_count; at++) {
        mr_seat_state state = mr_seat_state_of(&f->seats[at]);
        if (state != MR_SEAT_FREE && state != MR_SEAT_GONE)
            read_row(f, at, now_ns, &rows[count++]);
    }
    return mr_meter_merge(rows, count);
}

size_t mr_fleet_rows(mr_fleet *f, uint64_t now_ns, mr_meter_row *out)
{
    mr_meter_row rows[MR_FLEET_SEATS_MAX + MR_FLEET_THREADS_MAX];
    mr_fleet_lock(f);
    size_t count = gather(f, now_ns, rows);
    mr_fleet_unlock(f);
    memcpy(out, rows, count * sizeof *out);
    return count;
}

/* ---- routes ---- */

uint32_t mr_fleet_route(mr_fleet *f, const char *name, size_t len)
{
    uint32_t row = 0;
    if (len > MR_FLEET_ROUTE_BYTES)
        len = MR_FLEET_ROUTE_BYTES;
    mr_fleet_lock(f);
    if (f->routes == NULL)
        f->routes = mr_mem_zalloc(&f->mem, MR_METER_ROUTES_MAX * sizeof *f->routes);
    while (row < f->route_count &&
           (memcmp(f->routes[row], name, len) != 0 || f->routes[row][len] != '\0'))
        row++;
    if (f->routes == NULL || row >= MR_METER_ROUTES_MAX) {
        row = MR_METER_ROUTES_MAX;
    } else if (row == f->route_count) {
        memcpy(f->routes[row], name, len);
        f->route_count++;
    }
    mr_fleet_unlock(f);
    return row;
}

/* ---- texts ---- */

static mr_rc put_metrics(mr_fleet *f, mr_mem *mem, mr_buf *out, const mr_meter_row *rows,
                         size_t row_count, mr_meter_totals *totals)
{
    mr_span routes[MR_METER_ROUTES_MAX];
    mr_series_seat seats[MR_FLEET_SEATS_MAX];
    size_t seat_count = 0;
    *totals = f->retired;
    for (uint32_t at = 0; at < f->seat_count; at++) {
        mr_meter_sum(totals, &f->seats[at].meter);
        if (f->seats[at].values.slots == NULL)
            continue;
        uint32_t thread = atomic_load_explicit(&f->seats[at].thread, memory_order_relaxed);
        seats[seat_count++] = (mr_series_seat){thread, &f->seats[at].values};
    }
    for (uint32_t i = 0; i < f->route_count; i++)
        routes[i] = (mr_span){f->routes[i], strlen(f->routes[i])};
    mr_metrics metrics = {.rows = rows,
                          .row_count = row_count,
                          .totals = totals,
                          .routes = routes,
                          .route_count = f->route_count,
                          .series = f->series,
                          .seats = seats,
                          .seat_count = seat_count};
    return mr_metrics_text(mem, out, &metrics);
}

/* What went lost between threads, which no thread could count. */
static mr_rc put_losses(mr_fleet *f, mr_mem *mem, mr_buf *out)
{
    char text[512];
    int len = snprintf(text, sizeof text,
                       "# HELP millrace_mail_lost_total Messages for threads that ended before they read them.\n"
                       "# TYPE millrace_mail_lost_total counter\nmillrace_mail_lost_total %llu\n"
                       "# HELP millrace_connections_dropped_total Connections that no thread could take.\n"
                       "# TYPE millrace_connections_dropped_total counter\n"
                       "millrace_connections_dropped_total %llu\n",
                       (unsigned long long)atomic_load_explicit(&f->mail_lost, memory_order_relaxed),
                       (unsigned long long)atomic_load_explicit(&f->sockets_dropped,
                                                                memory_order_relaxed));
    return mr_buf_append(mem, out, (const uint8_t *)text, (size_t)len);
}

mr_rc mr_fleet_metrics_text(mr_fleet *f, mr_mem *mem, mr_buf *out, uint64_t now_ns)
{
    mr_meter_row rows[MR_FLEET_SEATS_MAX + MR_FLEET_THREADS_MAX];
    mr_meter_totals *totals = mr_mem_alloc(mem, sizeof *totals);
    if (totals == NULL)
        return MR_NOMEM;
    mr_fleet_lock(f);
    size_t count = gather(f, now_ns, rows);
    mr_rc rc = put_metrics(f, mem, out, rows, count, totals);
    if (rc == MR_OK)
        rc = put_losses(f, mem, out);
    mr_fleet_unlock(f);
    mr_mem_free(mem, totals, sizeof *totals);
    return rc;
}

mr_rc mr_fleet_health_text(mr_fleet *f, mr_mem *mem, mr_buf *out, uint64_t now_ns,
                           bool is_for_ready, bool *is_well)
{
    mr_meter_row rows[MR_FLEET_THREADS_MAX];
    size_t count = mr_fleet_rows(f, now_ns, rows);
    *is_well = mr_health_of(rows, count) != MR_HEALTH_DOWN;
    if (is_for_ready && atomic_load_explicit(&f->is_ending, memory_order_relaxed))
        *is_well = false;
    return mr_health_text(mem, out, rows, count);
}

/* ---- what is made by the first who asks ---- */

mr_rc mr_fleet_define(mr_fleet *f, uint32_t seat, const mr_series_def *def, mr_series_place *place,
                      const char **problem)
{
    static const mr_series_limits usual = {0};
    mr_rc rc = MR_OK;
    mr_fleet_lock(f);
    if (f->series == NULL && (f->series = mr_series_create(&f->mem, &usual)) == NULL)
        rc = MR_NOMEM;
    if (rc == MR_OK && f->seats[seat].values.slots == NULL)
        rc = mr_values_init(f->series, &f->seats[seat].values);
    if (rc == MR_OK)
        rc = mr_series_define(f->series, def, place, problem);
    mr_fleet_unlock(f);
    return rc;
}

mr_rc mr_fleet_get_rate(mr_fleet *f, const mr_rate_options *options, mr_rate **out)
{
    mr_rc rc = MR_OK;
    mr_fleet_lock(f);
    if (f->rate == NULL)
        rc = mr_rate_create(&f->mem, options, &f->rate);
    *out = f->rate;
    mr_fleet_unlock(f);
    return rc;
}

mr_rc mr_fleet_get_access(mr_fleet *f, const mr_access_options *options, mr_access_log **out)
{
    mr_rc rc = MR_OK;
    mr_fleet_lock(f);
    if (f->access == NULL)
        rc = mr_access_log_open(options, &f->access);
    *out = f->access;
    mr_fleet_unlock(f);
    return rc;
}

void mr_fleet_reopen_access(mr_fleet *f)
{
    mr_fleet_lock(f);
    if (f->access != NULL)
        mr_access_log_reopen(f->access);
    mr_fleet_unlock(f);
}
