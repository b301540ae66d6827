/* answer.c -- answers of one connection, whole and in pieces, in the order of the requests.
 *
 *   whole:   respond ----------------------------------------> step out
 *   stream:  respond(STREAM) -> write* -> finish ------------> step out
 *                                      -> abort -------------> the connection is closed
 *
 * What belongs to the exchange at out_seq goes straight into this turn's output; what belongs to a
 * later one is held until its turn. A stream's framing is settled by its head: a declared length,
 * the chunked coding, or (HTTP/1.0) the end of the connection. */
#include "engine/core.h"
#include "engine/journal.h"
#include "proto/h1_write.h"
#include <stdio.h>
#include <string.h>

/* How a piece leaves its exchange. */
typedef enum part_end {
    GOES_ON,
    ENDS_EXCHANGE,
    ENDS_CONNECTION, /* and the exchange */
    ABORTS           /* the connection, after what was sent before */
} part_end;

typedef struct part {
    const uint8_t *before; /* small: head, chunk size */
    size_t before_len;
    const uint8_t *body;
    size_t body_len;
    mr_lease *lease;      /* of the body; NULL: borrowed for the call */
    const char *after;    /* small: the end of a chunk */
    size_t after_len;
    part_end end;
} part;

/* ---- stepping ---- */

/* The exchange at out_seq is on its way out. */
static void step_out(mr_conn *c, bool is_last)
{
    uint64_t bit = mr_conn_bit(c->out_seq);
    uint32_t seq = c->out_seq++;
    c->is_answered &= ~bit;
    c->is_thirsty &= ~bit;
    if (c->is_watched & bit) {
        if (c->is_leaving & bit) /* so far behind that its bit is needed */
            c->engine->handlers->on_note(c->engine->owner, c->id, seq - MR_PIPELINE_MAX,
                                         MR_NOTE_ANSWERED);
        c->is_watched &= ~bit;
        c->is_leaving |= bit; /* told when the queue has left */
    }
    if (is_last) {
        /* What was asked behind a last answer is not processed (RFC 9112 9.6). */
        mr_conn_drop_exchanges(c);
        mr_conn_finish(c);
    }
}

/* After answers have gone out: whatever waited for that. */
static void after_answers(mr_conn *c)
{
    uint32_t in_flight = mr_conn_in_flight(c);
    if (c->is_leaving != 0 && !(c->flags & MR_CONN_IS_DIRTY) && c->link.unsent == NULL)
        mr_conn_tell_left(c); /* its end was no octet: no flush will */
    if (c->state == MR_CONN_CLOSING && in_flight == 0)
        mr_out_mark(c->engine, c);
    else if (in_flight == 0 && !(c->flags & MR_CONN_IS_DIRTY) && c->state == MR_CONN_OPEN)
        mr_conn_touch(c); /* its end was no octet: no flush will set the next deadline */
    mr_h1_continue_in_turn(c);
    if ((c->flags & MR_CONN_IS_WAITING) && in_flight < MR_PIPELINE_MAX)
        mr_engine_list(c);
}

/* ---- emitting and holding ---- */

static uint8_t *put(uint8_t *at, const void *bytes, size_t len)
{
    if (len > 0)
        memcpy(at, bytes, len);
    return at + len;
}

static void emit_small(mr_conn *c, const void *bytes, size_t len)
{
    put(mr_out_reserve(c->engine, c, len), bytes, len);
    mr_out_commit(c->engine, c, len);
}

/* Returns whether the body must be flushed before the call returns. */
static bool emit(mr_conn *c, const part *p)
{
    mr_engine *e = c->engine;
    if (p->body_len <= MR_OUT_COPY_MAX) {
        size_t len = p->before_len + p->body_len + p->after_len;
        uint8_t *at = put(mr_out_reserve(e, c, len), p->before, p->before_len);
        put(put(at, p->body, p->body_len), p->after, p->after_len);
        mr_out_commit(e, c, len);
        return false;
    }
    emit_small(c, p->before, p->before_len);
    mr_out_refer(e, c, p->body, p->body_len, p->lease);
    emit_small(c, p->after, p->after_len);
    return p->lease == NULL;
}

static mr_held *make_held(mr_conn *c, uint32_t seq, const part *p)
{
    bool is_copied = p->lease == NULL || p->body_len <= MR_OUT_COPY_MAX;
    size_t len = p->before_len + p->after_len + (is_copied ? p->body_len : 0);
    mr_held *held = mr_mem_alloc(&c->engine->mem, sizeof *held + len);
    if (held == NULL)
        return NULL;
    *held = (mr_held){.seq = seq,
                      .ends = (uint8_t)p->end,
                      .before = p->before_len + (is_copied ? p->body_len : 0),
                      .len = len,
                      .counted = sizeof *held + len + (is_copied ? 0 : p->body_len)};
    uint8_t *at = put(held->bytes, p->before, p->before_len);
    if (is_copied) {
        at = put(at, p->body, p->body_len);
    } else {
        held->lease = p->lease;
        held->leased = p->body;
        held->leased_len = p->body_len;
        p->lease->borrowers++;
    }
    put(at, p->after, p->after_len);
    return held;
}

static mr_rc hold(mr_conn *c, uint32_t seq, const part *p)
{
    mr_held **link = &c->held;
    if (c->held != NULL && c->held_bytes + p->body_len > c->engine->limits.held_bytes)
        return MR_LIMIT;
    mr_held *held = make_held(c, seq, p);
    if (held == NULL)
        return MR_NOMEM;
    while (*link != NULL && (int32_t)((*link)->seq - seq) <= 0)
        link = &(*link)->next;
    held->next = *link;
    *link = held;
    c->held_bytes += held->counted;
    if (p->end == ENDS_CONNECTION)
        mr_conn_finish(c); /* what is asked from now on would never be answered */
    return MR_OK;
}

static void end_part(mr_conn *c, part_end end)
{
    if (end == ABORTS) {
        mr_out_flush(c->engine);
        mr_conn_kill(c);
    } else if (end != GOES_ON) {
        step_out(c, end == ENDS_CONNECTION);
    }
}

static void release_one(mr_conn *c, mr_held *held)
{
    part p = {.before = held->bytes,
              .before_len = held->before,
              .body = held->leased,
              .body_len = held->leased_len,
              .lease = held->lease,
              .after = (const char *)held->bytes + held->before,
              .after_len = held->len - held->before};
    if (p.before_len > MR_OUT_COPY_MAX) { /* a large copy: sent from where it is */
        mr_out_refer(c->engine, c, p.before, p.before_len, NULL);
        mr_out_refer(c->engine, c, p.body, p.body_len, p.lease);
        emit_small(c, p.after, p.after_len);
        end_part(c, (part_end)held->ends);
        mr_out_flush(c->engine);
        return;
    }
    (void)emit(c, &p); /* leased or small: needs no flush */
    end_part(c, (part_end)held->ends);
}

static void release_held(mr_conn *c)
{
    while (c->held != NULL && c->held->seq == c->out_seq && mr_conn_in_flight(c) > 0 &&
           c->state != MR_CONN_DEAD) {
        mr_held *held = c->held;
        c->held = held->next;
        release_one(c, held);
        mr_held_free(c, held);
    }
}

/* Emits or holds one piece. MR_NOMEM: the connection was shed. */
static mr_rc place(mr_conn *c, uint32_t seq, const part *p)
{
    if (seq != c->out_seq) {
        if (hold(c, seq, p) == MR_OK)
            return MR_OK;
        mr_conn_kill(c);
        return MR_NOMEM;
    }
    bool must_flush = emit(c, p);
    end_part(c, p->end);
    if (must_flush)
        mr_out_flush(c->engine);
    if (p->end != GOES_ON) {
        release_held(c);
        after_answers(c);
    }
    return MR_OK;
}

/* ---- whole answers, and the heads of streams ---- */

static bool has_content(const mr_conn *c, uint32_t seq, const mr_response *r)
{
    return !(c->is_head & mr_conn_bit(seq)) && !mr_h1_is_bodyless(r->status) && r->status != 205;
}

/* Whether the answer to `seq` ends the connection. */
static bool ends_connection(const mr_conn *c, uint32_t seq, const mr_response *r)
{
    bool is_stream = (r->flags & MR_RESPONSE_STREAM) != 0;
    bool is_delimited_by_close = is_stream && (c->is_minor0 & mr_conn_bit(seq)) &&
                                 !(r->flags & MR_RESPONSE_HAS_LENGTH) && has_content(c, seq, r);
    return (r->flags & MR_RESPONSE_CLOSE) || is_delimited_by_close ||
           (c->is_final & mr_conn_bit(seq)) ||
           (c->state == MR_CONN_CLOSING && seq + 1 == c->in_seq) ||
           (!is_stream && mr_h1_leaves_content(c, seq));
}

static unsigned framing_of(const mr_conn *c, uint32_t seq, const mr_response *r)
{
    bool is_stream = (r->flags & MR_RESPONSE_STREAM) != 0;
    if (mr_h1_is_bodyless(r->status) || (r->flags & MR_RESPONSE_HAS_LENGTH))
        return 0;
    if (!is_stream || r->status == 205)
        return MR_TAIL_LENGTH;
    return (c->is_minor0 & mr_conn_bit(seq)) ? 0 : MR_TAIL_CHUNKED;
}

static unsigned tail_of(const mr_conn *c, uint32_t seq, const mr_response *r, bool is_last)
{
    unsigned tail = framing_of(c, seq, r);
    if (!(r->flags & MR_RESPONSE_HAS_DATE))
        tail |= MR_TAIL_DATE;
    if (is_last)
        tail |= MR_TAIL_CLOSE;
    else if (c->is_http10 & mr_conn_bit(seq))
        tail |= MR_TAIL_KEEP_ALIVE;
    return tail;
}

/* The common case, written at once: it is its turn, and the content is small. */
static mr_rc answer_small(mr_conn *c, uint32_t seq, const mr_response *r, bool is_last)
{
    mr_engine *e = c->engine;
    size_t body_len = has_content(c, seq, r) ? r->body_len : 0;
    uint8_t *out = mr_out_reserve(e, c, r->head_len + MR_TAIL_MAX + body_len);
    uint8_t *at = put(out, r->head, r->head_len);
    at += mr_h1_put_tail(at, tail_of(c, seq, r, is_last), r->status == 205 ? 0 : r->body_len,
                         &e->clock);
    at = put(at, r->body, body_len);
    mr_out_commit(e, c, (size_t)(at - out));
    step_out(c, is_last);
    if (c->held != NULL)
        release_held(c);
    after_answers(c);
    return MR_OK;
}

static mr_rc answer_parts(mr_conn *c, uint32_t seq, const mr_response *r, bool is_last)
{
    bool is_stream = (r->flags & MR_RESPONSE_STREAM) != 0;
    uint8_t head[MR_RESPONSE_HEAD_MAX + MR_TAIL_MAX];
    uint8_t *at = put(head, r->head, r->head_len);
    at += mr_h1_put_tail(at, tail_of(c, seq, r, is_last), r->status == 205 ? 0 : r->body_len,
                         &c->engine->clock);
    part p = {.before = head, .before_len = (size_t)(at - head)};
    if (!is_stream)
        p.end = is_last ? ENDS_CONNECTION : ENDS_EXCHANGE;
    if (!is_stream && has_content(c, seq, r)) {
        p.body = r->body;
        p.body_len = r->body_len;
        p.lease = r->lease;
    }
    return place(c, seq, &p);
}

/* Remembers how a stream's pieces are to be framed. */
static void begin_stream(mr_conn *c, uint32_t seq, const mr_response *r, bool is_last)
{
    uint64_t bit = mr_conn_bit(seq);
    bool is_chunked = (framing_of(c, seq, r) & MR_TAIL_CHUNKED) && has_content(c, seq, r);
    c->is_streaming |= bit;
    c->is_chunked = is_chunked ? c->is_chunked | bit : c->is_chunked & ~bit;
    c->is_final = is_last ? c->is_final | bit : c->is_final & ~bit;
    if (!has_content(c, seq, r))
        c->is_head |= bit; /* pieces of content are dropped as they are for HEAD */
    bool is_read = c->incoming == NULL || c->incoming->seq != seq;
    if (is_last && is_read)
        mr_conn_finish(c); /* what is asked from now on would never be answered */
}

mr_rc mr_h1_answer(mr_conn *c, uint32_t seq, const mr_response *r)
{
    bool is_last = ends_connection(c, seq, r);
    bool is_stream = (r->flags & MR_RESPONSE_STREAM) != 0;
    if (is_stream)
        begin_stream(c, seq, r, is_last);
    else
        c->is_answered |= mr_conn_bit(seq);
    mr_journal_answer(c, seq, r->status, has_content(c, seq, r) ? r->body_len : 0);
    if (!is_stream)
        mr_journal_end(c, seq);
    if (!is_stream && c->incoming != NULL)
        mr_h1_answered(c, seq);
    if (seq == c->out_seq && !is_stream && r->body_len <= MR_OUT_COPY_MAX)
        return answer_small(c, seq, r, is_last);
    return answer_parts(c, seq, r, is_last);
}

static void answer_text(mr_conn *c, uint32_t seq, unsigned status, uint32_t allow,
                        uint32_t retry_s, bool is_last)
{
    static const char type[] = "Content-Type: text/plain; charset=utf-8\r\n";
    const char *reason = mr_h1_reason(status);
    char head[512];
    size_t len = (size_t)snprintf(head, sizeof head, "HTTP/1.1 %u %s\r\n", status, reason);
    if (!mr_h1_is_bodyless(status)) {
        memcpy(head + len, type, sizeof type - 1);
        len += sizeof type - 1;
    }
    if (allow != 0) {
        memcpy(head + len, "Allow: ", 7);
        len += 7 + mr_allow_text(allow, (uint8_t *)head + len + 7);
        memcpy(head + len, "\r\n", 2);
        len += 2;
    }
    if (retry_s != 0)
        len += (size_t)snprintf(head + len, sizeof head - len, "Retry-After: %u\r\n", retry_s);
    mr_response r = {.head = (uint8_t *)head,
                     .head_len = len,
                     .body = (const uint8_t *)reason,
                     .body_len = strlen(reason),
                     .status = (uint16_t)status,
                     .flags = is_last ? MR_RESPONSE_CLOSE : 0};
    mr_rc rc = mr_h1_answer(c, seq, &r);
    (void)rc; /* out of memory: the connection was shed */
}

void mr_h1_answer_plainly(mr_conn *c, uint32_t seq, unsigned status, uint32_t allow, bool is_last)
{
    answer_text(c, seq, status, allow, 0, is_last);
}

void mr_h1_answer_later(mr_conn *c, uint32_t seq, unsigned status, uint32_t retry_s, bool is_last)
{
    answer_text(c, seq, status, 0, retry_s, is_last);
}

/* ---- calls from above ---- */

/* The connection of an exchange in flight that has not had its end yet, or NULL. */
static mr_conn *find(mr_engine *e, uint64_t connection, uint32_t seq)
{
    mr_conn *c = mr_slab_get(e->conns, connection);
    MR_ON_THREAD(e);
    if (c != NULL && c->state != MR_CONN_DEAD && seq - c->out_seq < mr_conn_in_flight(c) &&
        !(c->is_answered & mr_conn_bit(seq)))
        return c;
    e->stats.stale_answers++;
    return NULL;
}

static mr_conn *find_stream(mr_engine *e, uint64_t connection, uint32_t seq)
{
    mr_conn *c = find(e, connection, seq);
    return c != NULL && (c->is_streaming & mr_conn_bit(seq)) ? c : NULL;
}

/* Whether the status line says the status that the framing goes by. */
static bool says_status(const mr_response *r)
{
    const uint8_t *digits = r->head + sizeof "HTTP/1.1 " - 1;
    return digits[0] == '0' + r->status / 100 && digits[1] == '0' + r->status / 10 % 10 &&
           digits[2] == '0' + r->status % 10 && digits[3] == ' ';
}

static bool is_sound(const mr_conn *c, uint32_t seq, const mr_response *r)
{
    /* A length of its own, before whole content, could disagree with it. */
    if ((r->flags & MR_RESPONSE_HAS_LENGTH) && !(r->flags & MR_RESPONSE_STREAM) &&
        has_content(c, seq, r))
        return false;
    return r->status >= 200 && r->status <= 599 && r->head_len <= MR_RESPONSE_HEAD_MAX &&
           mr_h1_head_is_sound(r->head, r->head_len) && says_status(r);
}

mr_rc mr_engine_respond(mr_engine *e, uint64_t connection, uint32_t seq, const mr_response *r)
{
    mr_conn *c = find(e, connection, seq);
    if (c == NULL || (c->is_streaming & mr_conn_bit(seq)))
        return MR_GONE;
    if ((r->flags & MR_RESPONSE_IS_UNCHECKED) && !is_sound(c, seq, r))
        return MR_INVALID;
    return mr_h1_answer(c, seq, r);
}

mr_rc mr_engine_write(mr_engine *e, uint64_t connection, uint32_t seq, const uint8_t *bytes,
                      size_t len, mr_lease *lease)
{
    mr_conn *c = find_stream(e, connection, seq);
    uint8_t size[24];
    if (c == NULL)
        return MR_GONE;
    if (len == 0 || (c->is_head & mr_conn_bit(seq)))
        return MR_OK;
    part p = {.body = bytes, .body_len = len, .lease = lease};
    mr_journal_content(c, seq, len);
    if (c->is_chunked & mr_conn_bit(seq)) {
        p.before = size;
        p.before_len = (size_t)snprintf((char *)size, sizeof size, "%zx\r\n", len);
        p.after = "\r\n";
        p.after_len = 2;
    }
    return place(c, seq, &p);
}

mr_rc mr_engine_finish(mr_engine *e, uint64_t connection, uint32_t seq, const uint8_t *trailers,
                       size_t len)
{
    mr_conn *c = find_stream(e, connection, seq);
    uint64_t bit = mr_conn_bit(seq);
    if (c == NULL)
        return MR_GONE;
    if (len > MR_RESPONSE_HEAD_MAX || (len > 0 && !mr_h1_fields_are_sound(trailers, len)))
        return MR_INVALID;
    bool is_last = (c->is_final & bit) || (c->state == MR_CONN_CLOSING && seq + 1 == c->in_seq) ||
                   mr_h1_leaves_content(c, seq);
    part p = {.end = is_last ? ENDS_CONNECTION : ENDS_EXCHANGE};
    if (c->is_chunked & bit) {
        p.before = (const uint8_t *)"0\r\n";
        p.before_len = 3;
        p.body = trailers;
        p.body_len = len;
        p.after = "\r\n";
        p.after_len = 2;
    }
    c->is_answered |= bit;
    c->is_streaming &= ~bit;
    mr_journal_end(c, seq);
    if (c->incoming != NULL)
        mr_h1_answered(c, seq);
    return place(c, seq, &p);
}

mr_rc mr_engine_abort(mr_engine *e, uint64_t connection, uint32_t seq)
{
    mr_conn *c = find(e, connection, seq);
    if (c == NULL)
        return MR_GONE;
    c->is_answered |= mr_conn_bit(seq);
    mr_journal_end(c, seq);
    part p = {.end = ABORTS};
    return place(c, seq, &p);
}

mr_rc mr_engine_inform(mr_engine *e, uint64_t connection, uint32_t seq, unsigned status,
                       const uint8_t *fields, size_t len)
{
    mr_conn *c = find(e, connection, seq);
    char line[64];
    if (c == NULL || (c->is_streaming & mr_conn_bit(seq)))
        return MR_GONE;
    if (status < 102 || status > 199 || len > MR_RESPONSE_HEAD_MAX ||
        (len > 0 && !mr_h1_fields_are_sound(fields, len)))
        return MR_INVALID;
    if (c->is_minor0 & mr_conn_bit(seq))
        return MR_OK; /* RFC 9110 15.2: not to HTTP/1.0 */
    part p = {.before = (const uint8_t *)line,
              .body = fields,
              .body_len = len,
              .after = "\r\n",
              .after_len = 2};
    p.before_len = (size_t)snprintf(line, sizeof line, "HTTP/1.1 %u %s\r\n", status,
                                    mr_h1_reason(status));
    return place(c, seq, &p);
}

uint64_t mr_engine_queued_bytes(const mr_engine *e, uint64_t connection, uint32_t seq)
{
    const mr_conn *c = mr_slab_get(e->conns, connection);
    if (c == NULL || c->state == MR_CONN_DEAD || seq - c->out_seq >= mr_conn_in_flight(c))
        return 0;
    return mr_link_unsent_bytes(&c->link) + c->held_bytes;
}

mr_rc mr_engine_watch_drain(mr_engine *e, uint64_t connection, uint32_t seq)
{
    mr_conn *c = find_stream(e, connection, seq);
    if (c == NULL)
        return MR_GONE;
    c->is_thirsty |= mr_conn_bit(seq);
    if (seq == c->out_seq && c->link.unsent == NULL && !(c->flags & MR_CONN_IS_DIRTY))
        mr_conn_tell_drained(c);
    return MR_OK;
}
