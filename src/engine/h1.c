/* h1.c -- the exchanges of one HTTP/1.1 connection.
 *
 *   input -> parse_next -> begin (head) -> [collect content] -> act -> reply now, or hand up
 *   answer (mr_engine_respond) -> write now when it is its turn, else hold -> advance
 *
 * Invariants: answers leave in the order of requests; an exchange has its number (seq) from act() on
 * and in_seq - out_seq <= MR_PIPELINE_MAX; nothing is parsed while content is being collected. */
#include "engine/core.h"
#include "proto/h1_write.h"
#include <stdio.h>
#include <string.h>

/* ---- writing answers ---- */

static unsigned tail_of(const mr_conn *c, uint32_t seq, const mr_response *r, bool is_last)
{
    unsigned tail = 0;
    if (!mr_h1_is_bodyless(r->status) && !(r->flags & MR_RESPONSE_HAS_LENGTH))
        tail |= MR_TAIL_LENGTH;
    if (!(r->flags & MR_RESPONSE_HAS_DATE))
        tail |= MR_TAIL_DATE;
    if (is_last)
        tail |= MR_TAIL_CLOSE;
    else if (c->is_http10 & mr_conn_bit(seq))
        tail |= MR_TAIL_KEEP_ALIVE;
    return tail;
}

static bool has_content(const mr_conn *c, uint32_t seq, const mr_response *r)
{
    return r->body_len > 0 && !(c->is_head & mr_conn_bit(seq)) && !mr_h1_is_bodyless(r->status) &&
           r->status != 205;
}

static size_t put_head(const mr_conn *c, uint32_t seq, const mr_response *r, bool is_last,
                       uint8_t *out)
{
    uint64_t length = r->status == 205 ? 0 : r->body_len;
    memcpy(out, r->head, r->head_len);
    return r->head_len + mr_h1_put_tail(out + r->head_len, tail_of(c, seq, r, is_last), length,
                                        &c->engine->clock);
}

static void write_now(mr_conn *c, uint32_t seq, const mr_response *r, bool is_last)
{
    mr_engine *e = c->engine;
    bool is_copied = has_content(c, seq, r) && r->body_len <= MR_OUT_COPY_MAX;
    size_t room = r->head_len + MR_TAIL_MAX + (is_copied ? r->body_len : 0);
    uint8_t *out = mr_out_reserve(e, c, room);
    size_t len = put_head(c, seq, r, is_last, out);
    if (is_copied) {
        memcpy(out + len, r->body, r->body_len);
        len += r->body_len;
    }
    mr_out_commit(e, c, len);
}

/* Keeps an answer until the earlier ones have gone. */
static mr_rc hold(mr_conn *c, uint32_t seq, const mr_response *r, bool is_last)
{
    mr_engine *e = c->engine;
    size_t body_len = has_content(c, seq, r) ? r->body_len : 0;
    size_t room = r->head_len + MR_TAIL_MAX + body_len;
    mr_held **link = &c->held;
    if (c->held_bytes + room > e->limits.held_bytes && c->held != NULL)
        return MR_LIMIT;
    mr_held *held = mr_mem_alloc(&e->mem, sizeof *held + room);
    if (held == NULL)
        return MR_NOMEM;
    size_t len = put_head(c, seq, r, is_last, held->bytes);
    if (body_len > 0)
        memcpy(held->bytes + len, r->body, body_len);
    held->seq = seq;
    held->is_last = is_last;
    held->len = len + body_len;
    held->cap = room;
    while (*link != NULL && (int32_t)((*link)->seq - seq) < 0)
        link = &(*link)->next;
    held->next = *link;
    *link = held;
    c->held_bytes += room;
    c->is_answered |= mr_conn_bit(seq);
    if (is_last)
        mr_conn_finish(c); /* what is asked from now on would never be answered */
    return MR_OK;
}

/* The exchange at out_seq is on its way out. */
static void step_out(mr_conn *c, bool is_last)
{
    uint64_t bit = mr_conn_bit(c->out_seq);
    uint32_t seq = c->out_seq++;
    c->is_answered &= ~bit;
    if (c->is_watched & bit) {
        c->is_watched &= ~bit;
        c->engine->handlers->on_done(c->engine->owner, c->id, seq, true);
    }
    if (is_last) {
        /* What was asked behind a last answer is not processed (RFC 9112 9.6). */
        mr_conn_drop_exchanges(c);
        mr_conn_finish(c);
    }
}

static void release_held(mr_conn *c)
{
    while (c->held != NULL && c->held->seq == c->out_seq && mr_conn_in_flight(c) > 0 &&
           c->state != MR_CONN_DEAD) {
        mr_held *held = c->held;
        mr_engine *e = c->engine;
        if (held->len <= MR_OUT_COPY_MAX) {
            memcpy(mr_out_reserve(e, c, held->len), held->bytes, held->len);
            mr_out_commit(e, c, held->len);
            step_out(c, held->is_last);
        } else {
            (void)mr_out_reserve(e, c, 0);
            step_out(c, held->is_last);
            mr_out_send_borrowed(e, c, held->bytes, held->len);
        }
        c->held = held->next;
        c->held_bytes -= held->cap;
        mr_mem_free(&e->mem, held, sizeof *held + held->cap);
    }
}

static void send_continue(mr_conn *c)
{
    static const char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
    memcpy(mr_out_reserve(c->engine, c, sizeof text - 1), text, sizeof text - 1);
    mr_out_commit(c->engine, c, sizeof text - 1);
    c->incoming->wants_continue = false;
}

/* After answers have gone out: whatever waited for that. */
static void after_answers(mr_conn *c)
{
    uint32_t in_flight = mr_conn_in_flight(c);
    if (c->state == MR_CONN_CLOSING && in_flight == 0)
        mr_out_mark(c->engine, c);
    if (c->state == MR_CONN_OPEN && in_flight == 0 && c->incoming && c->incoming->wants_continue)
        send_continue(c);
    if ((c->flags & MR_CONN_IS_WAITING) && in_flight < MR_PIPELINE_MAX)
        mr_engine_list(c);
}

/* Whether the answer to `seq` ends the connection. */
static bool ends_connection(const mr_conn *c, uint32_t seq, const mr_response *r)
{
    return (r->flags & MR_RESPONSE_CLOSE) ||
           (c->state == MR_CONN_CLOSING && seq + 1 == c->in_seq);
}

static mr_rc answer(mr_conn *c, uint32_t seq, const mr_response *r)
{
    mr_engine *e = c->engine;
    bool is_last = ends_connection(c, seq, r);
    if (seq != c->out_seq) {
        mr_rc rc = hold(c, seq, r, is_last);
        if (rc != MR_OK)
            mr_conn_kill(c);
        return rc == MR_OK ? MR_OK : MR_NOMEM;
    }
    bool is_borrowed = has_content(c, seq, r) && r->body_len > MR_OUT_COPY_MAX;
    write_now(c, seq, r, is_last);
    step_out(c, is_last);
    if (is_borrowed)
        mr_out_send_borrowed(e, c, r->body, r->body_len);
    release_held(c);
    after_answers(c);
    return MR_OK;
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
    /* A length of its own, before content, could disagree with it. */
    if ((r->flags & MR_RESPONSE_HAS_LENGTH) && has_content(c, seq, r))
        return false;
    return r->status >= 200 && r->status <= 599 && r->head_len <= MR_RESPONSE_HEAD_MAX &&
           mr_h1_head_is_sound(r->head, r->head_len) && says_status(r);
}

mr_rc mr_engine_respond(mr_engine *e, uint64_t connection, uint32_t seq, const mr_response *r)
{
    mr_conn *c = mr_slab_get(e->conns, connection);
    MR_ON_THREAD(e);
    if (c == NULL || c->state == MR_CONN_DEAD || seq - c->out_seq >= mr_conn_in_flight(c) ||
        (c->is_answered & mr_conn_bit(seq))) {
        e->stats.stale_answers++;
        return MR_GONE;
    }
    if ((r->flags & MR_RESPONSE_IS_UNCHECKED) && !is_sound(c, seq, r))
        return MR_INVALID;
    return answer(c, seq, r);
}

/* ---- answers made here ---- */

/* "HTTP/1.1 404 Not Found\r\nContent-Type: ...\r\n[Allow: ...\r\n]" and the reason as content. */
static void answer_plainly(mr_conn *c, uint32_t seq, unsigned status, uint32_t allow, bool is_last)
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
    mr_response r = {.head = (uint8_t *)head,
                     .head_len = len,
                     .body = (const uint8_t *)reason,
                     .body_len = strlen(reason),
                     .status = (uint16_t)status,
                     .flags = is_last ? MR_RESPONSE_CLOSE : 0};
    (void)answer(c, seq, &r); /* out of memory: the connection is shed */
}

static uint32_t new_exchange(mr_conn *c, bool is_head, bool is_http10)
{
    uint32_t seq = c->in_seq++;
    uint64_t bit = mr_conn_bit(seq);
    c->is_answered &= ~bit;
    c->is_watched &= ~bit;
    c->is_head = is_head ? c->is_head | bit : c->is_head & ~bit;
    c->is_http10 = is_http10 ? c->is_http10 | bit : c->is_http10 & ~bit;
    return seq;
}

void mr_h1_refuse(mr_conn *c, unsigned status)
{
    if (c->state != MR_CONN_OPEN)
        return;
    c->state = MR_CONN_CLOSING;
    mr_conn_free_incoming(c); /* up to limits.body_bytes that nobody will see */
    answer_plainly(c, new_exchange(c, false, false), status, 0, true);
}

static void answer_reply(mr_conn *c, uint32_t seq, const mr_reply *reply,
                         const mr_reply_input *input)
{
    mr_engine *e = c->engine;
    mr_response r = {.head = reply->head,
                     .head_len = reply->head_len,
                     .body = reply->body,
                     .body_len = reply->body_len,
                     .status = reply->status,
                     .flags = (reply->flags & MR_REPLY_HAS_DATE) ? MR_RESPONSE_HAS_DATE : 0};
    if (reply->parts != NULL) {
        e->rendered.len = 0;
        mr_rc rc = mr_reply_render(reply, input, &e->mem, &e->rendered);
        if (rc != MR_OK) {
            answer_plainly(c, seq, rc == MR_NOMEM ? 503 : 400, 0, rc == MR_NOMEM);
            return;
        }
        r.body = e->rendered.data;
        r.body_len = e->rendered.len;
    }
    (void)answer(c, seq, &r); /* out of memory: the connection is shed */
}

/* ---- acting on a complete request ---- */

typedef struct mr_exchange { /* a complete request; everything is borrowed */
    const uint8_t *bytes;
    const mr_h1_head *head;
    const mr_h1_field *fields;
    const uint8_t *body;
    size_t body_len;
    bool is_bodiless; /* it had content, which was not kept */
} mr_exchange;

static void match(const mr_conn *c, const uint8_t *bytes, const mr_h1_head *head, mr_match *m)
{
    const mr_engine *e = c->engine;
    m->kind = MR_MATCH_NONE;
    m->param_count = 0;
    if (e->routes != NULL)
        mr_routes_match(e->routes, head->method, bytes + head->path_off, head->path_len, m);
}

static mr_rc hand_up(mr_conn *c, const mr_exchange *x, const mr_match *m, uint32_t handler,
                     uint32_t flags)
{
    mr_engine *e = c->engine;
    mr_request request = {.connection = c->id,
                          .seq = c->in_seq,
                          .handler = handler,
                          .action_flags = flags,
                          .bytes = x->bytes,
                          .head = x->head,
                          .fields = x->fields,
                          .params = m->params,
                          .param_count = m->param_count,
                          .body = x->body,
                          .body_len = x->body_len,
                          .peer = &c->peer};
    return e->handlers->on_request(e->owner, &request);
}

/* Whether the connection ends behind this exchange. */
static bool is_final(const mr_conn *c, const mr_h1_head *head)
{
    uint32_t most = c->engine->limits.requests_per_connection;
    return !(head->flags & MR_H1_KEEP_ALIVE) || c->engine->is_draining ||
           (most != 0 && c->request_count >= most);
}

static uint32_t start_exchange(mr_conn *c, const mr_h1_head *head)
{
    c->request_count++;
    c->engine->stats.requests++;
    if (is_final(c, head))
        c->state = MR_CONN_CLOSING;
    return new_exchange(c, head->method == MR_METHOD_HEAD,
                        (head->flags & MR_H1_SAID_KEEP_ALIVE) != 0);
}

static uint32_t js_handler(const mr_engine *e, const mr_match *m, uint32_t *flags)
{
    if (m->kind == MR_MATCH_ACTION && m->action->reply == NULL) {
        *flags = m->action->flags;
        return m->action->handler;
    }
    *flags = e->fallback_flags;
    return m->kind == MR_MATCH_NONE ? e->fallback : MR_NO_HANDLER;
}

/* MR_AGAIN: no room above; the request was not taken and must be offered again. */
static mr_rc act(mr_conn *c, const mr_exchange *x)
{
    mr_engine *e = c->engine;
    mr_match m;
    uint32_t flags;
    if (x->head->form == MR_FORM_ASTERISK || x->head->form == MR_FORM_AUTHORITY) {
        /* OPTIONS * asks about the server, CONNECT for a tunnel that we do not make. */
        bool is_options = x->head->form == MR_FORM_ASTERISK;
        answer_plainly(c, start_exchange(c, x->head), is_options ? 204 : 501, 0, !is_options);
        return MR_OK;
    }
    match(c, x->bytes, x->head, &m);
    uint32_t handler = js_handler(e, &m, &flags);
    if (handler != MR_NO_HANDLER && x->is_bodiless) {
        /* The routes were swapped while content came that the old ones had no use for. */
        answer_plainly(c, start_exchange(c, x->head), 503, 0, false);
        return MR_OK;
    }
    if (handler != MR_NO_HANDLER) {
        mr_rc rc = hand_up(c, x, &m, handler, flags);
        if (rc == MR_AGAIN)
            return rc;
        uint32_t seq = start_exchange(c, x->head);
        if (rc != MR_OK)
            answer_plainly(c, seq, 503, 0, true);
        return MR_OK;
    }
    uint32_t seq = start_exchange(c, x->head);
    switch (m.kind) {
    case MR_MATCH_ACTION: {
        mr_reply_input input = {.bytes = x->bytes,
                                .head = x->head,
                                .fields = x->fields,
                                .path = x->bytes + x->head->path_off,
                                .params = m.params,
                                .param_count = m.param_count};
        answer_reply(c, seq, m.action->reply, &input);
        break;
    }
    case MR_MATCH_NONE:
        answer_plainly(c, seq, 404, 0, false);
        break;
    case MR_MATCH_METHODS:
        answer_plainly(c, seq, 405, m.allow, false);
        break;
    case MR_MATCH_OPTIONS:
        answer_plainly(c, seq, 204, m.allow, false);
        break;
    case MR_MATCH_BAD_PATH:
        answer_plainly(c, seq, 400, 0, false);
        break;
    }
    return MR_OK;
}

/* ---- content ---- */

static bool will_be_read(const mr_conn *c, const uint8_t *bytes, const mr_h1_head *head)
{
    mr_match m;
    uint32_t flags;
    if (head->form == MR_FORM_ASTERISK || head->form == MR_FORM_AUTHORITY)
        return false;
    match(c, bytes, head, &m);
    return js_handler(c->engine, &m, &flags) != MR_NO_HANDLER;
}

static void *copy_of(mr_mem *mem, const void *bytes, size_t len)
{
    void *copy = mr_mem_alloc(mem, len);
    if (copy != NULL)
        memcpy(copy, bytes, len);
    return copy;
}

static mr_rc begin_content(mr_conn *c, const uint8_t *bytes, const mr_h1_head *head)
{
    mr_engine *e = c->engine;
    mr_incoming *in = mr_mem_zalloc(&e->mem, sizeof *in);
    if (in == NULL)
        return MR_NOMEM;
    c->incoming = in;
    in->head = *head;
    in->bytes = copy_of(&e->mem, bytes, head->head_len);
    in->fields = copy_of(&e->mem, e->fields, head->field_count * sizeof *in->fields);
    if (in->bytes == NULL || (in->fields == NULL && head->field_count > 0)) {
        if (in->bytes == NULL)
            in->head.head_len = 0;
        mr_conn_free_incoming(c);
        return MR_NOMEM;
    }
    in->is_chunked = (head->flags & MR_H1_CHUNKED) != 0;
    in->left = head->content_length;
    in->is_discarded = !will_be_read(c, bytes, head);
    in->wants_continue = (head->flags & MR_H1_EXPECT_100) != 0;
    return MR_OK;
}

static mr_rc take_content(mr_conn *c, const uint8_t *bytes, size_t len)
{
    mr_incoming *in = c->incoming;
    if (in->body.len + len > c->engine->limits.body_bytes)
        return MR_LIMIT;
    if (in->is_discarded) {
        in->body.len += len; /* counted against the limit, kept nowhere */
        return MR_OK;
    }
    return mr_buf_append(&c->engine->mem, &in->body, bytes, len);
}

/* MR_OK: the content is complete. MR_AGAIN: more is to come. Else: the connection was refused. */
static mr_rc collect_chunked(mr_conn *c, const uint8_t *bytes, size_t len, size_t *taken)
{
    mr_incoming *in = c->incoming;
    bool is_done = false;
    while (!is_done) {
        const uint8_t *data = NULL;
        size_t used = 0, data_len = 0;
        mr_rc rc = mr_h1_chunked_next(&in->chunked, &c->engine->limits.head, bytes + *taken,
                                      len - *taken, &used, &data, &data_len, &is_done);
        *taken += used;
        if (rc == MR_AGAIN)
            return rc;
        unsigned status = in->chunked.status;
        if (rc == MR_OK && data_len > 0) {
            rc = take_content(c, data, data_len);
            status = rc == MR_LIMIT ? 413 : 503;
        }
        if (rc != MR_OK) {
            mr_h1_refuse(c, status);
            return rc;
        }
    }
    return MR_OK;
}

static mr_rc collect(mr_conn *c, const uint8_t *bytes, size_t len, size_t *taken)
{
    mr_incoming *in = c->incoming;
    in->wants_continue = false; /* it did not wait for one */
    if (in->is_chunked)
        return collect_chunked(c, bytes, len, taken);
    size_t part = len < in->left ? len : (size_t)in->left;
    mr_rc rc = take_content(c, bytes, part);
    if (rc != MR_OK) {
        mr_h1_refuse(c, rc == MR_LIMIT ? 413 : 503);
        return rc;
    }
    in->left -= part;
    *taken += part;
    return in->left == 0 ? MR_OK : MR_AGAIN;
}

/* The collected request is whole: act on it. */
static mr_rc act_on_incoming(mr_conn *c)
{
    mr_incoming *in = c->incoming;
    mr_exchange x = {.bytes = in->bytes,
                     .head = &in->head,
                     .fields = in->fields,
                     .body = in->is_discarded ? NULL : in->body.data,
                     .body_len = in->is_discarded ? 0 : in->body.len,
                     .is_bodiless = in->is_discarded};
    if (in->is_discarded)
        in->body.len = 0;
    mr_rc rc = act(c, &x);
    if (rc == MR_AGAIN) {
        c->flags |= MR_CONN_IS_READY;
        return rc;
    }
    c->flags &= (uint8_t)~MR_CONN_IS_READY;
    mr_conn_free_incoming(c);
    return rc;
}

/* ---- parsing ---- */

static bool has_body(const mr_h1_head *head)
{
    return (head->flags & MR_H1_CHUNKED) || head->content_length > 0;
}

/* A request with content. The common case, all of it in these very bytes with a Content-Length,
 * costs no copy. */
static mr_rc begin_with_body(mr_conn *c, const uint8_t *bytes, size_t len, const mr_h1_head *head,
                             size_t *taken)
{
    mr_engine *e = c->engine;
    if (head->content_length > e->limits.body_bytes) {
        *taken = len;
        mr_h1_refuse(c, 413);
        return MR_OK;
    }
    if (!(head->flags & MR_H1_CHUNKED) && head->content_length <= len - head->head_len) {
        mr_exchange x = {.bytes = bytes, .head = head, .fields = e->fields,
                         .body = bytes + head->head_len, .body_len = (size_t)head->content_length};
        mr_rc rc = act(c, &x);
        if (rc == MR_OK)
            *taken = head->head_len + (size_t)head->content_length;
        return rc;
    }
    if (begin_content(c, bytes, head) != MR_OK) {
        *taken = len;
        mr_h1_refuse(c, 503);
        return MR_OK;
    }
    *taken = head->head_len;
    if (c->incoming->wants_continue && c->incoming->is_discarded) {
        /* The final answer is known: the client need not send what nobody will read. */
        c->incoming->head.flags &= ~(uint32_t)MR_H1_KEEP_ALIVE;
        return act_on_incoming(c);
    }
    if (c->incoming->wants_continue && len == head->head_len && mr_conn_in_flight(c) == 0)
        send_continue(c);
    return MR_OK;
}

static mr_rc begin(mr_conn *c, const uint8_t *bytes, size_t len, size_t seen, size_t *taken)
{
    mr_engine *e = c->engine;
    mr_h1_head head;
    mr_rc rc = mr_h1_parse_head(e->scan, &e->limits.head, bytes, len, seen, &head, e->fields);
    if (rc == MR_AGAIN)
        return MR_CLOSED; /* not whole: wait for input (MR_AGAIN means: wait for room) */
    if (rc != MR_OK) {
        *taken = len;
        mr_h1_refuse(c, head.status);
        return MR_OK;
    }
    if (has_body(&head))
        return begin_with_body(c, bytes, len, &head, taken);
    mr_exchange x = {.bytes = bytes, .head = &head, .fields = e->fields};
    rc = act(c, &x);
    if (rc == MR_OK)
        *taken = head.head_len;
    return rc;
}

static bool must_wait(const mr_conn *c)
{
    return mr_conn_in_flight(c) >= MR_PIPELINE_MAX ||
           mr_link_unsent_bytes(&c->link) > MR_UNSENT_PAUSE;
}

/* Parses until the bytes end, or the connection must wait, or no more is wanted. Returns how many
 * were used; *seen is what the parser has looked at of the rest. */
static size_t parse(mr_conn *c, const uint8_t *bytes, size_t len, size_t *seen)
{
    size_t at = 0;
    while (c->state == MR_CONN_OPEN) {
        size_t taken = 0;
        mr_rc rc;
        if (at == len && !(c->flags & MR_CONN_IS_READY))
            break;
        if (must_wait(c)) {
            c->flags |= MR_CONN_IS_WAITING;
            break;
        }
        if (c->flags & MR_CONN_IS_READY) {
            rc = act_on_incoming(c);
        } else if (c->incoming != NULL) {
            rc = collect(c, bytes + at, len - at, &taken);
            if (rc == MR_OK)
                rc = act_on_incoming(c);
            else
                rc = MR_OK; /* more to come, or refused: the loop sees which */
        } else {
            rc = begin(c, bytes + at, len - at, at == 0 ? *seen : 0, &taken);
        }
        at += taken;
        if (rc == MR_AGAIN)
            c->flags |= MR_CONN_IS_WAITING;
        if (rc != MR_OK) {
            *seen = rc == MR_AGAIN ? 0 : len - at;
            return at;
        }
    }
    *seen = 0;
    return c->state == MR_CONN_OPEN ? at : len;
}

/* A waiting connection whose turn may come within this very turn is listed at once. */
static void settle_wait(mr_conn *c)
{
    mr_engine *e = c->engine;
    if (!(c->flags & MR_CONN_IS_WAITING) || c->state != MR_CONN_OPEN)
        return;
    if (must_wait(c))
        e->net->want_data(&c->link, false); /* its answers, or its peer, must come first */
    else
        mr_engine_list(c);
}

/* Names what the peer is in the middle of sending: the head or the content of which request. 0:
 * nothing. Each gets a deadline of its own when it begins, and no other by coming in pieces. */
static uint64_t reception(const mr_conn *c)
{
    if (c->incoming == NULL && c->input == NULL)
        return 0;
    return (uint64_t)c->request_count << 2 | (c->incoming != NULL ? 2u : 1u);
}

/* Common end of receive and resume; `before` is what was being received at their start. */
static void after_parse(mr_conn *c, uint64_t before)
{
    uint64_t now;
    if (c->state == MR_CONN_CLOSING || c->state == MR_CONN_LINGERING)
        mr_conn_free_input(c);
    if (c->state == MR_CONN_DEAD)
        return;
    settle_wait(c);
    now = reception(c);
    if (c->state == MR_CONN_OPEN && now != 0 && now != before)
        mr_conn_touch(c);
    if ((c->flags & MR_CONN_SAW_EOF) && !(c->flags & MR_CONN_IS_WAITING))
        mr_h1_end_of_input(c);
    /* Answers that are known leave before JavaScript runs. */
    if (c->flags & MR_CONN_IS_DIRTY)
        mr_out_flush(c->engine);
}

static void parse_kept(mr_conn *c)
{
    size_t used = parse(c, c->input->data, c->input->len, &c->input_seen);
    if (c->state == MR_CONN_DEAD)
        return;
    mr_buf_consume(c->input, used);
    if (c->input->len == 0)
        mr_conn_free_input(c);
}

void mr_h1_receive(mr_conn *c, const uint8_t *bytes, size_t len)
{
    uint64_t before = reception(c);
    if (c->input != NULL) {
        if (mr_conn_keep_input(c, bytes, len) != MR_OK) {
            mr_conn_kill(c);
            return;
        }
        if (c->flags & MR_CONN_IS_WAITING) {
            c->engine->net->want_data(&c->link, false);
            return;
        }
        parse_kept(c);
    } else {
        size_t seen = 0;
        size_t used = parse(c, bytes, len, &seen);
        if (c->state == MR_CONN_OPEN && used < len) {
            if (mr_conn_keep_input(c, bytes + used, len - used) != MR_OK) {
                mr_conn_kill(c);
                return;
            }
            c->input_seen = seen;
        }
    }
    after_parse(c, before);
}

void mr_h1_resume(mr_conn *c)
{
    size_t seen = 0;
    if (c->state != MR_CONN_OPEN)
        return;
    c->flags &= (uint8_t)~MR_CONN_IS_WAITING;
    c->engine->net->want_data(&c->link, true);
    if (c->input != NULL)
        parse_kept(c);
    else
        (void)parse(c, NULL, 0, &seen);
    after_parse(c, 0);
}

void mr_h1_end_of_input(mr_conn *c)
{
    if (c->state == MR_CONN_DEAD || c->state == MR_CONN_LINGERING)
        return;
    /* A head or content that was cut short is nobody's request (RFC 9112 8). */
    if (mr_conn_in_flight(c) == 0 && c->link.unsent == NULL && !(c->flags & MR_CONN_IS_DIRTY))
        mr_conn_kill(c);
    else
        mr_conn_finish(c);
}
