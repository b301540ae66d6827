/* gate.c -- see gate.h. */
#include "engine/gate.h"
#include "engine/metrics_text.h"
#include "engine/rate.h"
#include "proto/h1_write.h"
#include <stdio.h>
#include <string.h>

#define OVERLOAD_RETRY_S 1u

static uint64_t key_of(const mr_conn *c, const uint8_t *bytes, const mr_h1_head *head,
                       const mr_h1_field *fields)
{
    const mr_engine *e = c->engine;
    if (e->rate_field == NULL)
        return mr_rate_key_address(e->rate, &c->peer);
    uint32_t i =
        mr_h1_find_field(bytes, head, fields, (const char *)e->rate_field, e->rate_field_len, 0);
    if (i >= head->field_count) /* who shows no key has one budget with all who show none */
        return mr_rate_key_bytes(e->rate, NULL, 0);
    return mr_rate_key_bytes(e->rate, bytes + fields[i].value_off, fields[i].value_len);
}

static mr_gate ask_rate(mr_conn *c, const uint8_t *bytes, const mr_h1_head *head,
                        const mr_h1_field *fields)
{
    mr_engine *e = c->engine;
    mr_rate_verdict verdict;
    if (c->flags & MR_CONN_IS_RATED)
        return (mr_gate){0};
    uint64_t key = key_of(c, bytes, head, fields);
    if (mr_rate_take(e->rate, key, e->clock.now_ns, &verdict) == MR_OK) {
        c->flags |= MR_CONN_IS_RATED;
        return (mr_gate){0};
    }
    mr_meter_add(&e->seat->meter.refused_rate, 1);
    /* Rounded up: who waits that long is let in. */
    uint64_t retry_s = (verdict.retry_after_ns + 999999999u) / 1000000000u;
    return (mr_gate){429, retry_s > UINT32_MAX ? UINT32_MAX : (uint32_t)retry_s};
}

mr_gate mr_gate_ask(mr_conn *c, const uint8_t *bytes, const mr_h1_head *head,
                    const mr_h1_field *fields, bool is_live, bool is_for_handler)
{
    mr_engine *e = c->engine;
    mr_gate gate = {0};
    if (e->seat == NULL || is_live)
        return gate;
    if (e->rate != NULL)
        gate = ask_rate(c, bytes, head, fields);
    if (gate.status == 0 && is_for_handler && e->lag_limit_ns != 0 &&
        e->late_ns > e->lag_limit_ns) {
        mr_meter_add(&e->seat->meter.refused_overload, 1);
        return (mr_gate){503, OVERLOAD_RETRY_S};
    }
    return gate;
}

/* ---- answers about the fleet ---- */

void mr_live_answer(mr_conn *c, uint32_t seq, uint32_t flags)
{
    mr_engine *e = c->engine;
    bool is_metrics = (flags & MR_ACTION_METRICS) != 0;
    bool is_well = true;
    char head[256];
    mr_rc rc = MR_GONE;
    e->rendered.len = 0;
    if (e->fleet != NULL)
        rc = is_metrics ? mr_fleet_metrics_text(e->fleet, &e->mem, &e->rendered, e->clock.now_ns)
                        : mr_fleet_health_text(e->fleet, &e->mem, &e->rendered, e->clock.now_ns,
                                               (flags & MR_ACTION_READY) != 0, &is_well);
    if (rc != MR_OK) {
        mr_h1_answer_plainly(c, seq, 503, 0, false);
        return;
    }
    unsigned status = is_well ? 200 : 503;
    int len = snprintf(head, sizeof head,
                       "HTTP/1.1 %u %s\r\nContent-Type: %s\r\nCache-Control: no-store\r\n", status,
                       mr_h1_reason(status), is_metrics ? MR_METRICS_TYPE : MR_HEALTH_TYPE);
    mr_response r = {.head = (const uint8_t *)head,
                     .head_len = (size_t)len,
                     .body = e->rendered.data,
                     .body_len = e->rendered.len,
                     .status = (uint16_t)status};
    rc = mr_h1_answer(c, seq, &r); /* out of memory: the connection was shed */
    (void)rc;
}
