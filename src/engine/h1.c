/* h1.c -- the requests of one HTTP/1.1 connection.
 *
 *   input -> begin (head) -> no content, or all of it here -> act
 *                         -> content that is wanted        -> act, then hand it up as it comes
 *                         -> content that is not           -> read past it, then act
 *   act -> answered here at once, or handed up to JavaScript
 *
 * Invariants: an exchange has its number (seq) from act() on and in_seq - out_seq <=
 * MR_PIPELINE_MAX; nothing is parsed while content is being taken. */
#include "engine/core.h"
#include "engine/gate.h"
#include "engine/journal.h"
#include <string.h>

static void set_bit(uint64_t *bits, uint64_t bit, bool is_on)
{
    *bits = is_on ? *bits | bit : *bits & ~bit;
}

static uint32_t new_exchange(mr_conn *c, const mr_h1_head *head)
{
    uint32_t seq = c->in_seq++;
    uint64_t bit = mr_conn_bit(seq);
    c->is_answered &= ~bit;
    c->is_watched &= ~bit;
    c->is_streaming &= ~bit;
    c->is_final &= ~bit;
    c->is_thirsty &= ~bit;
    set_bit(&c->is_head, bit, head != NULL && head->method == MR_METHOD_HEAD);
    set_bit(&c->is_http10, bit, head != NULL && (head->flags & MR_H1_SAID_KEEP_ALIVE));
    set_bit(&c->is_minor0, bit, head != NULL && head->minor == 0);
    return seq;
}

void mr_h1_refuse(mr_conn *c, unsigned status)
{
    if (c->state != MR_CONN_OPEN)
        return;
    c->state = MR_CONN_CLOSING;
    mr_conn_free_incoming(c);
    uint32_t seq = new_exchange(c, NULL);
    mr_journal_begin(c, seq, MR_METER_NO_ROUTE, false, NULL, NULL, NULL);
    mr_h1_answer_plainly(c, seq, status, 0, true);
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
        mr_rc rendered = mr_reply_render(reply, input, &e->mem, &e->rendered);
        if (rendered != MR_OK) {
            mr_h1_answer_plainly(c, seq, rendered == MR_NOMEM ? 503 : 400, 0, rendered == MR_NOMEM);
            return;
        }
        r.body = e->rendered.data;
        r.body_len = e->rendered.len;
    }
    mr_rc rc = mr_h1_answer(c, seq, &r);
    (void)rc; /* out of memory: the connection was shed */
}

/* ---- acting on a complete request ---- */

typedef struct mr_exchange { /* a complete request; everything is borrowed */
    const uint8_t *bytes;
    const mr_h1_head *head;
    const mr_h1_field *fields;
    const uint8_t *body;
    size_t body_len;
    bool is_streamed; /* the content follows */
    bool is_bodiless; /* it had content, which was not kept */
    uint32_t route;   /* row of the meter */
    bool is_handed_up;
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
                          .is_streamed = x->is_streamed,
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

static uint32_t start_exchange(mr_conn *c, const mr_exchange *x)
{
    c->request_count++;
    c->engine->stats.requests++;
    bool is_last = is_final(c, x->head);
    uint32_t seq = new_exchange(c, x->head);
    c->flags &= (uint16_t)~MR_CONN_IS_RATED;
    mr_journal_begin(c, seq, x->route, x->is_handed_up, x->bytes, x->head, x->fields);
    if (is_last && x->is_streamed)
        c->is_final |= mr_conn_bit(seq); /* its content must still be read */
    else if (is_last)
        c->state = MR_CONN_CLOSING;
    return seq;
}

static uint32_t js_handler(const mr_engine *e, const mr_match *m, uint32_t *flags)
{
    if (m->kind == MR_MATCH_ACTION && (m->action->flags & MR_ACTION_LIVE))
        return MR_NO_HANDLER;
    if (m->kind == MR_MATCH_ACTION && m->action->reply == NULL) {
        *flags = m->action->flags;
        return m->action->handler;
    }
    *flags = e->fallback_flags;
    return m->kind == MR_MATCH_NONE ? e->fallback : MR_NO_HANDLER;
}

/* MR_AGAIN: no room above; the request was not taken and must be offered again. */
static mr_rc act(mr_conn *c, mr_exchange *x)
{
    mr_engine *e = c->engine;
    mr_match m;
    uint32_t flags;
    x->route = MR_METER_NO_ROUTE;
    if (x->head->form == MR_FORM_ASTERISK || x->head->form == MR_FORM_AUTHORITY) {
        /* OPTIONS * asks about the server, CONNECT for a tunnel that we do not make. */
        bool is_options = x->head->form == MR_FORM_ASTERISK;
        mr_h1_answer_plainly(c, start_exchange(c, x), is_options ? 204 : 501, 0, !is_options);
        return MR_OK;
    }
    match(c, x->bytes, x->head, &m);
    uint32_t handler = js_handler(e, &m, &flags);
    if (m.kind == MR_MATCH_ACTION)
        x->route = m.action->route;
    mr_gate gate = mr_gate_ask(c, x->bytes, x->head, x->fields,
                               m.kind == MR_MATCH_ACTION && (m.action->flags & MR_ACTION_LIVE),
                               handler != MR_NO_HANDLER);
    if (gate.status != 0) {
        uint32_t seq = start_exchange(c, x);
        if (c->incoming != NULL)
            c->incoming->is_discarded = true; /* nobody above is to hear of it */
        bool is_last = c->incoming != NULL && !c->incoming->is_complete;
        mr_h1_answer_later(c, seq, gate.status, gate.retry_s, is_last);
        return MR_OK;
    }
    if (handler != MR_NO_HANDLER && x->is_bodiless) {
        /* The routes were swapped while content came that the old ones had no use for. */
        mr_h1_answer_plainly(c, start_exchange(c, x), 503, 0, false);
        return MR_OK;
    }
    if (handler != MR_NO_HANDLER) {
        mr_rc rc = hand_up(c, x, &m, handler, flags);
        if (rc == MR_AGAIN)
            return rc;
        x->is_handed_up = rc == MR_OK;
        uint32_t seq = start_exchange(c, x);
        if (rc != MR_OK && c->incoming != NULL)
            c->incoming->is_discarded = true; /* nobody above is to hear of it */
        if (rc != MR_OK)
            mr_h1_answer_plainly(c, seq, 503, 0, true);
        return MR_OK;
    }
    uint32_t seq = start_exchange(c, x);
    switch (m.kind) {
    case MR_MATCH_ACTION: {
        if (m.action->flags & MR_ACTION_LIVE) {
            mr_live_answer(c, seq, m.action->flags);
            break;
        }
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
        mr_h1_answer_plainly(c, seq, 404, 0, false);
        break;
    case MR_MATCH_METHODS:
        mr_h1_answer_plainly(c, seq, 405, m.allow, false);
        break;
    case MR_MATCH_OPTIONS:
        mr_h1_answer_plainly(c, seq, 204, m.allow, false);
        break;
    case MR_MATCH_BAD_PATH:
        mr_h1_answer_plainly(c, seq, 400, 0, false);
        break;
    }
    return MR_OK;
}

/* The request whose content was read past: act on it. */
static mr_rc act_on_incoming(mr_conn *c)
{
    mr_incoming *in = c->incoming;
    mr_exchange x = {
        .bytes = in->bytes, .head = &in->head, .fields = in->fields, .is_bodiless = true};
    in->is_complete = true;
    mr_rc rc = act(c, &x);
    if (rc == MR_AGAIN) {
        c->flags |= MR_CONN_IS_READY;
        return rc;
    }
    c->flags &= (uint16_t)~MR_CONN_IS_READY;
    mr_conn_free_incoming(c);
    return rc;
}

/* ---- requests with content ---- */

/* Who will have the content: the limit that holds, and whether it is JavaScript. */
static uint64_t content_limit(const mr_conn *c, const uint8_t *bytes, const mr_h1_head *head,
                              bool *is_wanted)
{
    mr_match m = {.kind = MR_MATCH_NONE};
    uint32_t flags;
    uint64_t limit = c->engine->limits.body_bytes;
    *is_wanted = false;
    if (head->form == MR_FORM_ASTERISK || head->form == MR_FORM_AUTHORITY)
        return limit;
    match(c, bytes, head, &m);
    *is_wanted = js_handler(c->engine, &m, &flags) != MR_NO_HANDLER;
    return m.kind == MR_MATCH_ACTION && m.action->body_bytes ? m.action->body_bytes : limit;
}

static bool has_body(const mr_h1_head *head)
{
    return (head->flags & MR_H1_CHUNKED) || head->content_length > 0;
}

/* The head goes up now, the content as it comes. */
static mr_rc begin_streamed(mr_conn *c, const uint8_t *bytes, const mr_h1_head *head,
                            uint64_t limit)
{
    mr_exchange x = {.bytes = bytes, .head = head, .fields = c->engine->fields,
                     .is_streamed = true};
    mr_incoming *in;
    if (mr_h1_begin_content(c, head, limit) != MR_OK) {
        mr_h1_refuse(c, 503);
        return MR_OK;
    }
    in = c->incoming;
    in->is_handed_up = true;
    in->seq = c->in_seq;
    in->window = in->wants_continue ? 0 : MR_WINDOW_BYTES;
    mr_rc rc = act(c, &x);
    if (rc == MR_AGAIN)
        mr_conn_free_incoming(c); /* the head is offered again */
    return rc;
}

/* Nobody wants the content: the answer comes when it has been read past. */
static mr_rc begin_unwanted(mr_conn *c, const uint8_t *bytes, const mr_h1_head *head,
                            uint64_t limit)
{
    if (mr_h1_begin_content(c, head, limit) != MR_OK || mr_h1_keep_head(c, bytes) != MR_OK) {
        mr_conn_free_incoming(c);
        mr_h1_refuse(c, 503);
        return MR_OK;
    }
    c->incoming->is_discarded = true;
    if (!c->incoming->wants_continue)
        return MR_OK;
    /* The final answer is known: the client need not send what nobody will read. */
    c->incoming->head.flags &= ~(uint32_t)MR_H1_KEEP_ALIVE;
    return act_on_incoming(c);
}

/* The common case, all of it in these very bytes with a Content-Length, costs no copy. */
static mr_rc begin_with_body(mr_conn *c, const uint8_t *bytes, size_t len, const mr_h1_head *head,
                             size_t *taken)
{
    bool is_wanted;
    uint64_t limit = content_limit(c, bytes, head, &is_wanted);
    mr_rc rc;
    if (head->content_length > limit) {
        *taken = len;
        mr_h1_refuse(c, 413);
        return MR_OK;
    }
    if (!(head->flags & MR_H1_CHUNKED) && head->content_length <= len - head->head_len) {
        mr_exchange x = {.bytes = bytes, .head = head, .fields = c->engine->fields,
                         .body = bytes + head->head_len, .body_len = (size_t)head->content_length};
        rc = act(c, &x);
        if (rc == MR_OK)
            *taken = head->head_len + (size_t)head->content_length;
        return rc;
    }
    rc = is_wanted ? begin_streamed(c, bytes, head, limit) : begin_unwanted(c, bytes, head, limit);
    if (rc == MR_OK)
        *taken = head->head_len;
    return rc;
}

/* Content goes on; MR_AGAIN: it must wait. */
static mr_rc go_on_with_content(mr_conn *c, const uint8_t *bytes, size_t len, size_t *taken)
{
    mr_rc rc = mr_h1_take_content(c, bytes, len, taken);
    if (rc != MR_OK)
        return rc == MR_AGAIN ? rc : MR_OK; /* more to come, or failed: the loop sees which */
    if (!c->incoming->is_handed_up)
        return act_on_incoming(c);
    uint32_t seq = c->incoming->seq;
    mr_conn_free_incoming(c);
    if (c->is_final & mr_conn_bit(seq))
        mr_conn_finish(c);
    return MR_OK;
}

static mr_rc begin(mr_conn *c, const uint8_t *bytes, size_t len, size_t seen, size_t *taken)
{
    mr_engine *e = c->engine;
    mr_h1_head head;
    mr_rc rc = e->parser->parse_head(e->parser_self, &e->limits.head, bytes, len, seen, &head,
                                     e->fields);
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
    const mr_incoming *in = c->incoming;
    if (in != NULL && in->is_handed_up)
        return !in->is_discarded && in->window == 0; /* until JavaScript asks for more */
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
            rc = go_on_with_content(c, bytes + at, len - at, &taken);
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
    if (!mr_h1_holds_content_back(c))
        c->waiting_since_ms = e->clock.now_ms;
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
    if (c->state == MR_CONN_OPEN && now != before)
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
    if ((c->flags & MR_CONN_IS_WAITING) && c->incoming != NULL)
        mr_h1_content_resumed(c);
    c->flags &= (uint16_t)~MR_CONN_IS_WAITING;
    c->engine->net->want_data(&c->link, true);
    if (c->input != NULL)
        parse_kept(c);
    else
        (void)parse(c, NULL, 0, &seen);
    after_parse(c, UINT64_MAX); /* whatever it is: a new deadline */
}

void mr_h1_end_of_input(mr_conn *c)
{
    if (c->state == MR_CONN_DEAD || c->state == MR_CONN_LINGERING)
        return;
    /* A head or content that was cut short is nobody's request (RFC 9112 8). */
    if (c->incoming != NULL) {
        mr_h1_lose_content(c, MR_NOTE_CONTENT_ABORTED);
        mr_conn_free_incoming(c);
    }
    if (mr_conn_in_flight(c) == 0 && c->link.unsent == NULL && !(c->flags & MR_CONN_IS_DIRTY))
        mr_conn_kill(c);
    else
        mr_conn_finish(c);
}
