/* out.h -- the output of one turn: one send per connection, whatever the order of answers.
 * Owns:    an arena that answers are written into, and the list of connections that have some.
 * Borrows: large bodies, until the flush that the same call makes.
 * Thread:  the engine's.
 * Uses:    base/, net/transport.h, engine/conn.h. */
#ifndef MR_ENGINE_OUT_H
#define MR_ENGINE_OUT_H

#include "engine/conn.h"

#define MR_OUT_BYTES (256u * 1024u) /* arena */
#define MR_OUT_PIECES 2048u
#define MR_OUT_COPY_MAX (32u * 1024u) /* larger bodies are sent from where they are */

typedef struct mr_piece {
    mr_piece_out out;
    uint32_t next; /* index + 1; 0: last */
} mr_piece;

typedef struct mr_out {
    uint8_t *arena; /* owned; MR_OUT_BYTES */
    size_t used;
    mr_piece *pieces; /* owned; MR_OUT_PIECES */
    uint32_t piece_count;
    mr_conn *dirty_first, *dirty_last;
} mr_out;

mr_rc mr_out_init(mr_out *out, mr_mem *mem) MR_MUST_CHECK;
void mr_out_dispose(mr_out *out, mr_mem *mem);

/* `bytes` octets (<= MR_OUT_BYTES) behind the connection's output; commit says how many were used.
 * May flush everything to make room. */
uint8_t *mr_out_reserve(struct mr_engine *e, mr_conn *c, size_t bytes);
void mr_out_commit(struct mr_engine *e, mr_conn *c, size_t len);
/* Puts octets behind the connection's output without copying them. With a lease they are taken by
 * reference; without one the caller must flush before they go away. */
void mr_out_refer(struct mr_engine *e, mr_conn *c, const uint8_t *bytes, size_t len,
                  mr_lease *lease);
/* Sends everything. Connections whose last answer is out get their FIN. */
void mr_out_flush(struct mr_engine *e);
/* Puts a connection on the flush list although it has no output: for its FIN. */
void mr_out_mark(struct mr_engine *e, mr_conn *c);

#endif
