/* journal.h -- what is noted about an exchange from its request to its answer, for metrics and the
 * access log. Only engines in a fleet keep one.
 * Owns:    the notes of exchanges in flight, one small block each, recycled by the engine.
 * Borrows: heads, for the call.
 * Thread:  the engine's.
 * Uses:    engine/core.h, engine/fleet.h. */
#ifndef MR_ENGINE_JOURNAL_H
#define MR_ENGINE_JOURNAL_H

#include "engine/core.h"

#define MR_NOTES_KEPT_MAX 1024u /* free notes that the engine keeps for the next exchanges */

typedef struct mr_note_block {
    struct mr_note_block *next; /* of the connection, by rising seq; or of the free ones */
    uint64_t start_ns;
    uint8_t *access; /* owned: what the access log will say of the request; NULL: nothing */
    uint32_t access_len;
    uint32_t seq;
    uint32_t route;    /* its row in the meter */
    bool is_handed_up; /* JavaScript answers */
} mr_note_block;

/* A request has its number. `head` NULL: it never became one (400, 408, ...). */
void mr_journal_begin(mr_conn *c, uint32_t seq, uint32_t route, bool is_handed_up,
                      const uint8_t *bytes, const mr_h1_head *head, const mr_h1_field *fields);
/* Its final answer is given. */
void mr_journal_answer(mr_conn *c, uint32_t seq, unsigned status, uint64_t content_bytes);
/* Content of a stream, and its end. */
void mr_journal_content(mr_conn *c, uint32_t seq, uint64_t bytes);
void mr_journal_end(mr_conn *c, uint32_t seq);
/* The connection is gone: forgets all of its exchanges. */
void mr_journal_drop(mr_conn *c);
/* Frees the notes that are kept. */
void mr_journal_dispose(mr_engine *e);

#endif
