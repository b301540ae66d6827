/* content.c -- the content of one request, as it comes.
 *
 * Content that is wanted by JavaScript is handed up piece by piece, never more than its window ahead
 * of what was asked for; then the connection waits and the peer with it. Content that nobody wants
 * is read past. Either obeys the same limits on size, time and throughput.
 *
 *   begin -> piece* -> complete                  -> the next request is parsed
 *                   -> failed (408, 413, 400)    -> answered, the connection closes
 *                   -> lost (the peer went)
 *                   -> answered before its end   -> read past, or the connection closes */
#include "engine/core.h"
#include <string.h>

static void *copy_of(mr_mem *mem, const void *bytes, size_t len)
{
    void *copy = mr_mem_alloc(mem, len);
    if (copy != NULL)
        memcpy(copy, bytes, len);
    return copy;
}

/* ---- beginning ---- */

mr_rc mr_h1_begin_content(mr_conn *c, const mr_h1_head *head, uint64_t body_bytes)
{
    mr_engine *e = c->engine;
    mr_incoming *in = mr_mem_zalloc(&e->mem, sizeof *in);
    if (in == NULL)
        return MR_NOMEM;
    c->incoming = in;
    in->head = *head;
    in->body_bytes = body_bytes;
    in->is_chunked = (head->flags & MR_H1_CHUNKED) != 0;
    in->left = head->content_length;
    in->wants_continue = (head->flags & MR_H1_EXPECT_100) != 0;
    in->rate_ms = c->waiting_since_ms = e->clock.now_ms;
    in->body_deadline_ms =
        e->timeouts.body_ms ? e->clock.now_ms + e->timeouts.body_ms : UINT64_MAX;
    return MR_OK;
}

mr_rc mr_h1_keep_head(mr_conn *c, const uint8_t *bytes)
{
    mr_engine *e = c->engine;
    mr_incoming *in = c->incoming;
    in->bytes = copy_of(&e->mem, bytes, in->head.head_len);
    in->fields = copy_of(&e->mem, e->fields, in->head.field_count * sizeof *in->fields);
    return in->bytes != NULL && in->fields != NULL ? MR_OK : MR_NOMEM;
}

/* ---- whose turn it is ---- */

bool mr_h1_holds_content_back(const mr_conn *c)
{
    const mr_incoming *in = c->incoming;
    return in != NULL && in->is_handed_up && !in->is_discarded &&
           (in->window == 0 || in->wants_continue);
}

/* After what may have let a peer go on that was held back before. */
static void let_go_on(mr_conn *c, bool was_held_back)
{
    if (!was_held_back || mr_h1_holds_content_back(c))
        return;
    mr_h1_content_resumed(c);
    mr_conn_touch(c);
}

/* ---- 100 (Continue) ---- */

void mr_h1_continue_in_turn(mr_conn *c)
{
    static const char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
    mr_incoming *in = c->incoming;
    if (in == NULL || !in->wants_continue || !in->is_asked_for || in->is_discarded ||
        c->state == MR_CONN_DEAD || in->seq != c->out_seq)
        return;
    bool was_held_back = mr_h1_holds_content_back(c);
    in->wants_continue = false;
    if (!(c->is_streaming & mr_conn_bit(in->seq))) { /* behind a head it would be content */
        memcpy(mr_out_reserve(c->engine, c, sizeof text - 1), text, sizeof text - 1);
        mr_out_commit(c->engine, c, sizeof text - 1);
    }
    let_go_on(c, was_held_back);
}

/* ---- ends that are not the content's own ---- */

void mr_h1_lose_content(mr_conn *c, mr_note note)
{
    mr_incoming *in = c->incoming;
    if (in->is_handed_up && !in->is_discarded)
        c->engine->handlers->on_note(c->engine->owner, c->id, in->seq, note);
    in->is_discarded = true;
}

static mr_note note_of(unsigned status)
{
    return status == 413   ? MR_NOTE_CONTENT_TOO_LARGE
           : status == 408 ? MR_NOTE_CONTENT_LATE
           : status == 503 ? MR_NOTE_CONTENT_ABORTED
                           : MR_NOTE_CONTENT_BAD;
}

void mr_h1_fail_content(mr_conn *c, unsigned status)
{
    mr_incoming *in = c->incoming;
    if (c->state != MR_CONN_OPEN && c->state != MR_CONN_CLOSING)
        return;
    bool is_handed_up = in->is_handed_up;
    uint32_t seq = in->seq;
    mr_h1_lose_content(c, note_of(status));
    mr_conn_free_incoming(c);
    c->flags &= (uint16_t)~(MR_CONN_IS_WAITING | MR_CONN_IS_READY);
    if (!is_handed_up) {
        mr_h1_refuse(c, status);
        return;
    }
    c->state = MR_CONN_CLOSING;
    bool is_open = seq - c->out_seq < mr_conn_in_flight(c) &&
                   !((c->is_answered | c->is_streaming) & mr_conn_bit(seq));
    if (is_open)
        mr_h1_answer_plainly(c, seq, status, 0, true);
    else if (mr_conn_in_flight(c) == 0)
        mr_out_mark(c->engine, c);
}

/* Too much is left to be read past for the sake of the next request. */
bool mr_h1_leaves_content(const mr_conn *c, uint32_t seq)
{
    const mr_incoming *in = c->incoming;
    if (in == NULL || !in->is_handed_up || in->seq != seq || in->is_complete)
        return false;
    return in->is_chunked || in->left > MR_READ_PAST_MAX || in->wants_continue;
}

void mr_h1_answered(mr_conn *c, uint32_t seq)
{
    mr_incoming *in = c->incoming;
    if (!in->is_handed_up || in->seq != seq || in->is_complete)
        return;
    bool was_held_back = mr_h1_holds_content_back(c);
    mr_h1_lose_content(c, MR_NOTE_CONTENT_UNREAD);
    in->wants_continue = false;
    let_go_on(c, was_held_back);
    if (c->flags & MR_CONN_IS_WAITING)
        mr_engine_list(c);
}

/* ---- taking ---- */

/* Counts content against its limit. */
static bool fits(const mr_incoming *in, size_t len)
{
    return len <= in->body_bytes && in->taken <= in->body_bytes - len;
}

/* MR_OK: taken (the window is smaller now). MR_AGAIN: no room above. */
static mr_rc hand_up(mr_conn *c, const uint8_t *bytes, size_t len, bool is_end)
{
    mr_engine *e = c->engine;
    mr_incoming *in = c->incoming;
    if (in->is_discarded || !in->is_handed_up || (len == 0 && !is_end))
        return MR_OK;
    /* What the decoder counts ends with the empty line, which is no field's. */
    size_t trailers_len = is_end && in->is_chunked ? in->trailers.len - 2 : 0;
    mr_content content = {.connection = c->id,
                          .seq = in->seq,
                          .bytes = bytes,
                          .len = len,
                          .is_end = is_end,
                          .trailers = in->trailers.data,
                          .trailers_len = trailers_len};
    mr_rc rc = e->handlers->on_content(e->owner, &content);
    if (rc == MR_OK && len > 0) {
        in->window -= len < in->window ? len : in->window;
        if (in->window == 0)
            c->waiting_since_ms = e->clock.now_ms;
    }
    return rc;
}

static mr_rc take_plain(mr_conn *c, const uint8_t *bytes, size_t len, size_t *taken)
{
    mr_incoming *in = c->incoming;
    size_t part = len < in->left ? len : (size_t)in->left;
    if (!in->is_discarded && part > in->window)
        part = (size_t)in->window;
    mr_rc rc = hand_up(c, bytes, part, part == in->left);
    if (rc != MR_OK)
        return rc;
    in->left -= part;
    in->taken += part;
    *taken += part;
    return in->left == 0 ? MR_OK : MR_CLOSED;
}

/* Trailer octets stand at the end of what the decoder took. */
static mr_rc keep_trailers(mr_conn *c, const uint8_t *end, uint32_t before)
{
    mr_incoming *in = c->incoming;
    size_t len = in->chunked.trailer_bytes - before;
    if (len == 0 || in->is_discarded)
        return MR_OK;
    return mr_buf_append(&c->engine->mem, &in->trailers, end - len, len);
}

/* Decodes what is there, up to the window, into e->decoded. MR_OK: the content ended; MR_CLOSED:
 * more is to come. */
static mr_rc decode(mr_conn *c, const uint8_t *bytes, size_t len, size_t *used)
{
    mr_engine *e = c->engine;
    mr_incoming *in = c->incoming;
    bool is_done = false;
    e->decoded.len = 0;
    while (!is_done) {
        const uint8_t *data = NULL;
        size_t step = 0, data_len = 0, most = len - *used;
        size_t room = in->is_discarded ? SIZE_MAX : (size_t)in->window - e->decoded.len;
        if (room == 0)
            return MR_CLOSED;
        if (most > room)
            most = room; /* data is never longer than its octets */
        uint32_t trailer_bytes = in->chunked.trailer_bytes;
        mr_rc rc = mr_h1_chunked_next(&in->chunked, &e->limits.head, bytes + *used, most, &step,
                                      &data, &data_len, &is_done);
        *used += step;
        if (keep_trailers(c, bytes + *used, trailer_bytes) != MR_OK)
            return MR_NOMEM;
        if (rc == MR_AGAIN) {
            if (*used == len)
                return MR_CLOSED;
            continue;
        }
        if (rc != MR_OK)
            return rc;
        if (!fits(in, data_len + (in->is_discarded ? 0 : e->decoded.len)))
            return MR_LIMIT;
        if (in->is_discarded)
            in->taken += data_len;
        else if (mr_buf_append(&e->mem, &e->decoded, data, data_len) != MR_OK)
            return MR_NOMEM;
    }
    return MR_OK;
}

static unsigned status_of(const mr_incoming *in, mr_rc rc)
{
    if (rc == MR_NOMEM)
        return 503;
    return in->chunked.status ? in->chunked.status : 413;
}

static mr_rc take_chunked(mr_conn *c, const uint8_t *bytes, size_t len, size_t *taken)
{
    mr_engine *e = c->engine;
    mr_incoming *in = c->incoming;
    mr_h1_chunked before = in->chunked;
    size_t used = 0, trailers_before = in->trailers.len;
    mr_rc end = decode(c, bytes, len, &used);
    if (end != MR_OK && end != MR_CLOSED) {
        *taken = len;
        mr_h1_fail_content(c, status_of(in, end));
        return MR_LIMIT;
    }
    mr_rc rc = hand_up(c, e->decoded.data, e->decoded.len, end == MR_OK);
    if (rc != MR_OK) {
        in->chunked = before; /* offered again later, decoded anew */
        in->trailers.len = trailers_before;
        return rc;
    }
    in->taken += e->decoded.len;
    e->decoded.len = 0;
    *taken += used;
    return end;
}

mr_rc mr_h1_take_content(mr_conn *c, const uint8_t *bytes, size_t len, size_t *taken)
{
    mr_incoming *in = c->incoming;
    if (!in->is_discarded && in->window == 0 && in->is_handed_up)
        return MR_AGAIN; /* nobody has asked for more */
    bool was_held_back = mr_h1_holds_content_back(c);
    in->wants_continue = false; /* the peer did not wait for one */
    let_go_on(c, was_held_back);
    mr_rc rc = in->is_chunked ? take_chunked(c, bytes, len, taken)
                              : take_plain(c, bytes, len, taken);
    if (rc == MR_NOMEM) {
        *taken = len;
        mr_h1_fail_content(c, 503);
        return MR_LIMIT;
    }
    return rc;
}

/* ---- time ---- */

uint64_t mr_h1_content_deadline_ms(const mr_conn *c)
{
    const mr_incoming *in = c->incoming;
    uint64_t rate_ms =
        c->engine->limits.body_bytes_per_second ? in->rate_ms + MR_RATE_PERIOD_MS : UINT64_MAX;
    return rate_ms < in->body_deadline_ms ? rate_ms : in->body_deadline_ms;
}

void mr_h1_check_content_time(mr_conn *c)
{
    mr_engine *e = c->engine;
    mr_incoming *in = c->incoming;
    uint64_t now_ms = e->clock.now_ms, spent_ms = now_ms - in->rate_ms;
    uint64_t least = e->limits.body_bytes_per_second * spent_ms / 1000;
    bool is_slow = spent_ms >= MR_RATE_PERIOD_MS && in->taken - in->rate_mark < least;
    if (now_ms >= in->body_deadline_ms || is_slow) {
        mr_h1_fail_content(c, 408);
        if (c->state != MR_CONN_DEAD)
            mr_conn_touch(c); /* a stream that goes on has no deadline of the content any more */
        return;
    }
    if (spent_ms >= MR_RATE_PERIOD_MS) {
        in->rate_mark = in->taken;
        in->rate_ms = now_ms;
    }
    mr_conn_touch(c);
}

/* Time in which we made the peer wait is not its own. */
void mr_h1_content_resumed(mr_conn *c)
{
    mr_incoming *in = c->incoming;
    uint64_t waited_ms = c->engine->clock.now_ms - c->waiting_since_ms;
    if (in->body_deadline_ms != UINT64_MAX)
        in->body_deadline_ms += waited_ms;
    in->rate_ms = c->waiting_since_ms = c->engine->clock.now_ms;
    in->rate_mark = in->taken;
}

/* ---- calls from above ---- */

mr_rc mr_engine_ask(mr_engine *e, uint64_t connection, uint32_t seq, uint64_t bytes)
{
    mr_conn *c = mr_slab_get(e->conns, connection);
    MR_ON_THREAD(e);
    if (c == NULL || c->state == MR_CONN_DEAD || c->incoming == NULL ||
        !c->incoming->is_handed_up || c->incoming->seq != seq || c->incoming->is_discarded)
        return MR_GONE;
    mr_incoming *in = c->incoming;
    bool was_held_back = mr_h1_holds_content_back(c);
    in->window = bytes < MR_WINDOW_MAX - in->window ? in->window + bytes : MR_WINDOW_MAX;
    in->is_asked_for = true;
    if (c->input != NULL)
        in->wants_continue = false; /* the peer did not wait for one */
    if (in->wants_continue)
        mr_h1_continue_in_turn(c);
    else
        let_go_on(c, was_held_back);
    if (c->flags & MR_CONN_IS_WAITING)
        mr_engine_list(c);
    return MR_OK;
}
