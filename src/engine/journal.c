/* journal.c -- see journal.h. */
#include "engine/journal.h"
#include "engine/access_log.h"
#include "engine/fleet.h"
#include <string.h>

/* ---- notes ---- */

static mr_note_block *take_note(mr_engine *e)
{
    mr_note_block *n = e->free_notes;
    if (n == NULL)
        return mr_mem_alloc(&e->mem, sizeof *n);
    e->free_notes = n->next;
    e->free_note_count--;
    return n;
}

static void drop_note(mr_engine *e, mr_note_block *n)
{
    mr_mem_free(&e->mem, n->access, n->access_len);
    if (e->free_note_count >= MR_NOTES_KEPT_MAX) {
        mr_mem_free(&e->mem, n, sizeof *n);
        return;
    }
    n->next = e->free_notes;
    e->free_notes = n;
    e->free_note_count++;
}

/* Most answers are given in the order of the requests: it is the first. */
static mr_note_block **find_note(mr_conn *c, uint32_t seq)
{
    mr_note_block **at = &c->notes;
    while (*at != NULL && (*at)->seq != seq)
        at = &(*at)->next;
    return at;
}

void mr_journal_dispose(mr_engine *e)
{
    while (e->free_notes != NULL) {
        mr_note_block *n = e->free_notes;
        e->free_notes = n->next;
        mr_mem_free(&e->mem, n, sizeof *n);
    }
    e->free_note_count = 0;
}

/* ---- the access log ---- */

enum { METHOD, TARGET, REFERER, USER_AGENT, HOST, TEXT_COUNT };

/* What is kept of a request: its texts, one behind the other. */
typedef struct kept_access {
    int64_t received_ms;
    uint64_t sent_bytes;
    uint16_t status;
    uint8_t minor;
    uint32_t len[TEXT_COUNT];
    uint8_t bytes[];
} kept_access;

/* One octet more than a line shows, so that it tells where something is cut off. */
static mr_access_text cut(const uint8_t *bytes, size_t len, size_t max)
{
    return (mr_access_text){bytes, len <= max ? len : max + 1};
}

static mr_access_text field_text(const uint8_t *bytes, const mr_h1_head *head,
                                 const mr_h1_field *fields, const char *name, size_t max)
{
    uint32_t i = mr_h1_find_field(bytes, head, fields, name, strlen(name), 0);
    if (i >= head->field_count)
        return (mr_access_text){NULL, 0};
    return cut(bytes + fields[i].value_off, fields[i].value_len, max);
}

static void keep_access(mr_engine *e, mr_note_block *n, const uint8_t *bytes,
                        const mr_h1_head *head, const mr_h1_field *fields)
{
    mr_access_text texts[TEXT_COUNT] = {
        [METHOD] = cut(bytes + head->method_off, head->method_len, MR_ACCESS_METHOD_MAX),
        [TARGET] = cut(bytes + head->target_off, head->target_len, MR_ACCESS_TARGET_MAX),
        [REFERER] = field_text(bytes, head, fields, "referer", MR_ACCESS_REFERER_MAX),
        [USER_AGENT] = field_text(bytes, head, fields, "user-agent", MR_ACCESS_AGENT_MAX),
        [HOST] = field_text(bytes, head, fields, "host", MR_ACCESS_HOST_MAX)};
    size_t sum = sizeof(kept_access);
    for (int i = 0; i < TEXT_COUNT; i++)
        sum += texts[i].len;
    kept_access *kept = mr_mem_alloc(&e->mem, sum);
    if (kept == NULL)
        return; /* the line is lost, not the request */
    *kept = (kept_access){.received_ms = e->clock.unix_ms, .minor = head->minor};
    uint8_t *to = kept->bytes;
    for (int i = 0; i < TEXT_COUNT; i++) {
        kept->len[i] = (uint32_t)texts[i].len;
        if (texts[i].len > 0)
            memcpy(to, texts[i].bytes, texts[i].len);
        to += texts[i].len;
    }
    n->access = (uint8_t *)kept;
    n->access_len = (uint32_t)sum;
}

static void post_access(mr_conn *c, const mr_note_block *n)
{
    const mr_engine *e = c->engine;
    const kept_access *kept = (const kept_access *)n->access;
    if (kept == NULL || e->access == NULL)
        return;
    mr_access_text texts[TEXT_COUNT];
    const uint8_t *at = kept->bytes;
    for (int i = 0; i < TEXT_COUNT; i++) {
        texts[i] = (mr_access_text){at, kept->len[i]};
        at += kept->len[i];
    }
    mr_access_record record = {.peer = &c->peer,
                               .method = texts[METHOD],
                               .target = texts[TARGET],
                               .referer = texts[REFERER],
                               .user_agent = texts[USER_AGENT],
                               .host = texts[HOST],
                               .received_ms = kept->received_ms,
                               .duration_us = (e->clock.now_ns - n->start_ns) / 1000,
                               .bytes_sent = kept->sent_bytes,
                               .status = kept->status,
                               .http_major = 1,
                               .http_minor = kept->minor};
    mr_access_post(e->access, &record);
}

/* ---- the life of an exchange ---- */

void mr_journal_begin(mr_conn *c, uint32_t seq, uint32_t route, bool is_handed_up,
                      const uint8_t *bytes, const mr_h1_head *head, const mr_h1_field *fields)
{
    mr_engine *e = c->engine;
    mr_note_block **at = &c->notes;
    mr_note_block *n;
    if (e->seat == NULL)
        return;
    if ((n = take_note(e)) == NULL)
        return; /* its answer is counted, without a route and a time */
    mr_meter_add(&e->seat->meter.exchanges, 1); /* as often as there are notes: see the end */
    *n = (mr_note_block){
        .start_ns = e->clock.now_ns, .seq = seq, .route = route, .is_handed_up = is_handed_up};
    if (e->access != NULL && head != NULL)
        keep_access(e, n, bytes, head, fields);
    while (*at != NULL)
        at = &(*at)->next;
    *at = n;
}

void mr_journal_answer(mr_conn *c, uint32_t seq, unsigned status, uint64_t content_bytes)
{
    mr_engine *e = c->engine;
    if (e->seat == NULL)
        return;
    mr_meter *meter = &e->seat->meter;
    mr_note_block *n = *find_note(c, seq);
    mr_meter_request(meter, n != NULL ? n->route : MR_METER_NO_ROUTE, status);
    if (n != NULL && n->is_handed_up) {
        mr_meter_add(&meter->by_handler, 1);
        mr_histogram_record(&meter->handler, e->clock.now_ns - n->start_ns);
    } else {
        mr_meter_add(&meter->by_engine, 1);
    }
    if (n != NULL && n->access != NULL) {
        ((kept_access *)n->access)->status = (uint16_t)status;
        ((kept_access *)n->access)->sent_bytes = content_bytes;
    }
}

void mr_journal_content(mr_conn *c, uint32_t seq, uint64_t bytes)
{
    const mr_note_block *n = c->notes == NULL ? NULL : *find_note(c, seq);
    if (n != NULL && n->access != NULL)
        ((kept_access *)n->access)->sent_bytes += bytes;
}

void mr_journal_end(mr_conn *c, uint32_t seq)
{
    mr_engine *e = c->engine;
    if (e->seat == NULL)
        return;
    mr_note_block **at = find_note(c, seq), *n = *at;
    if (n == NULL)
        return;
    mr_meter_sub(&e->seat->meter.exchanges, 1);
    post_access(c, n);
    *at = n->next;
    drop_note(e, n);
}

void mr_journal_drop(mr_conn *c)
{
    mr_engine *e = c->engine;
    while (c->notes != NULL) {
        mr_note_block *n = c->notes;
        c->notes = n->next;
        mr_meter_sub(&e->seat->meter.exchanges, 1);
        post_access(c, n);
        drop_note(e, n);
    }
}
