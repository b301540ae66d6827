/* out.c -- see out.h.
 * Invariant: a connection is on the dirty list exactly while MR_CONN_IS_DIRTY is set; its pieces are
 * a chain in the order of its answers. Two answers that follow each other in the arena are one
 * piece. The arena and the pieces start anew when the list has been flushed. */
#include "engine/out.h"
#include "engine/core.h"
#include "engine/fleet.h"
#include <string.h>

mr_rc mr_out_init(mr_out *out, mr_mem *mem)
{
    *out = (mr_out){.arena = mr_mem_alloc(mem, MR_OUT_BYTES),
                    .pieces = mr_mem_alloc(mem, MR_OUT_PIECES * sizeof(mr_piece))};
    if (out->arena != NULL && out->pieces != NULL)
        return MR_OK;
    mr_out_dispose(out, mem);
    return MR_NOMEM;
}

void mr_out_dispose(mr_out *out, mr_mem *mem)
{
    mr_mem_free(mem, out->arena, MR_OUT_BYTES);
    mr_mem_free(mem, out->pieces, MR_OUT_PIECES * sizeof(mr_piece));
    *out = (mr_out){0};
}

void mr_out_mark(mr_engine *e, mr_conn *c)
{
    mr_out *out = &e->out;
    if (c->flags & MR_CONN_IS_DIRTY)
        return;
    c->flags |= MR_CONN_IS_DIRTY;
    c->next_dirty = NULL;
    if (out->dirty_last != NULL)
        out->dirty_last->next_dirty = c;
    else
        out->dirty_first = c;
    out->dirty_last = c;
}

static void add_piece(mr_engine *e, mr_conn *c, const uint8_t *bytes, size_t len, mr_lease *lease)
{
    mr_out *out = &e->out;
    mr_piece *last = c->last_piece ? &out->pieces[c->last_piece - 1] : NULL;
    if (last != NULL && last->out.bytes + last->out.len == bytes && !last->out.lease && !lease) {
        last->out.len += len;
        return;
    }
    uint32_t index = ++out->piece_count;
    out->pieces[index - 1] = (mr_piece){.out = {.bytes = bytes, .len = len, .lease = lease}};
    if (lease != NULL)
        lease->borrowers++;
    if (last != NULL)
        last->next = index;
    else
        c->first_piece = index;
    c->last_piece = index;
    mr_out_mark(e, c);
}

uint8_t *mr_out_reserve(mr_engine *e, mr_conn *c, size_t bytes)
{
    mr_out *out = &e->out;
    (void)c;
    MR_ASSERT(bytes <= MR_OUT_BYTES);
    if (out->used + bytes > MR_OUT_BYTES || out->piece_count == MR_OUT_PIECES)
        mr_out_flush(e);
    return out->arena + out->used;
}

void mr_out_commit(mr_engine *e, mr_conn *c, size_t len)
{
    const uint8_t *bytes = e->out.arena + e->out.used;
    e->out.used += len;
    if (c->state != MR_CONN_DEAD && len > 0)
        add_piece(e, c, bytes, len, NULL);
}

void mr_out_refer(mr_engine *e, mr_conn *c, const uint8_t *bytes, size_t len, mr_lease *lease)
{
    if (e->out.piece_count == MR_OUT_PIECES)
        mr_out_flush(e);
    if (c->state != MR_CONN_DEAD && len > 0)
        add_piece(e, c, bytes, len, lease);
}

static int gather(const mr_out *out, uint32_t *piece, mr_piece_out *pieces)
{
    int count = 0;
    while (*piece != 0 && count < MR_SEND_PIECES) {
        const mr_piece *p = &out->pieces[*piece - 1];
        pieces[count++] = p->out;
        *piece = p->next;
    }
    return count;
}

static void return_leases(const mr_out *out, uint32_t piece)
{
    for (; piece != 0; piece = out->pieces[piece - 1].next)
        mr_lease_return(out->pieces[piece - 1].out.lease);
}

/* Whether the connection's last answer is in what is being sent. */
static bool is_last_flush(const mr_conn *c)
{
    return c->state == MR_CONN_CLOSING && mr_conn_in_flight(c) == 0;
}

static void after_fin(mr_engine *e, mr_conn *c)
{
    c->state = MR_CONN_LINGERING;
    mr_conn_uncount(c);
    if ((c->flags & MR_CONN_SAW_EOF) && c->link.unsent == NULL) {
        mr_conn_kill(c);
        return;
    }
    c->waiting_since_ms = e->clock.now_ms;
    e->net->want_data(&c->link, true);
    mr_conn_touch(c);
}

static mr_rc send_pieces(mr_engine *e, mr_conn *c, uint32_t piece, bool is_last)
{
    mr_piece_out pieces[MR_SEND_PIECES];
    mr_rc rc;
    do {
        int count = gather(&e->out, &piece, pieces);
        for (int i = 0; e->seat != NULL && i < count; i++)
            mr_meter_add(&e->seat->meter.sent_bytes, pieces[i].len);
        rc = e->net->send(&c->link, pieces, count, is_last && piece == 0 ? MR_SEND_FIN : 0);
    } while (piece != 0 && (rc == MR_OK || rc == MR_AGAIN));
    return rc;
}

static void flush_conn(mr_engine *e, mr_conn *c)
{
    uint32_t first = c->first_piece;
    bool is_last = is_last_flush(c);
    size_t queued_before = mr_link_unsent_bytes(&c->link);
    c->first_piece = c->last_piece = 0;
    c->flags &= (uint16_t)~MR_CONN_IS_DIRTY;
    mr_rc rc = c->state == MR_CONN_DEAD ? MR_CLOSED : send_pieces(e, c, first, is_last);
    return_leases(&e->out, first);
    if (rc == MR_OK && c->is_leaving != 0 && c->link.unsent == NULL)
        mr_conn_tell_left(c);
    /* One answer may be of any size (its maker had it in memory whole); a queue that grows may not. */
    bool is_over = queued_before > 0 && mr_link_unsent_bytes(&c->link) > e->limits.held_bytes;
    if ((rc != MR_OK && rc != MR_AGAIN) || is_over)
        mr_conn_kill(c);
    else if (is_last)
        after_fin(e, c);
    else
        mr_conn_touch(c);
    if (rc == MR_OK && c->is_thirsty != 0)
        mr_conn_tell_drained(c);
}

void mr_out_flush(mr_engine *e)
{
    mr_out *out = &e->out;
    while (out->dirty_first != NULL) {
        mr_conn *c = out->dirty_first;
        out->dirty_first = c->next_dirty;
        if (out->dirty_first == NULL)
            out->dirty_last = NULL;
        flush_conn(e, c);
    }
    out->used = 0;
    out->piece_count = 0;
}
