/* conn.h -- one TCP connection, from accept to release.
 * Owns:    the link (and through it the descriptor), bytes of an unfinished request, answers that
 *          wait for an earlier one.
 * Borrows: received bytes, for the length of one callback.
 * Thread:  the engine's.
 * Uses:    base/, net/transport.h, proto/h1_parse.h. */
#ifndef MR_ENGINE_CONN_H
#define MR_ENGINE_CONN_H

#include "base/buf.h"
#include "base/wheel.h"
#include "net/sock.h"
#include "net/transport.h"
#include "proto/h1_parse.h"

struct mr_engine;

/* Exchanges of one connection that are parsed and not yet answered on the wire; beyond it the
 * connection is not read. */
#define MR_PIPELINE_MAX 64u

/* Unsent octets beyond which a connection's requests wait, so that a peer that asks and does not
 * read costs no memory. */
#define MR_UNSENT_PAUSE (64u * 1024u)

/* OPEN -> CLOSING -> LINGERING -> DEAD; steps may be skipped, none is undone.
 *   OPEN       requests are parsed
 *   CLOSING    none is parsed any more; answers in flight still go out, then FIN
 *   LINGERING  FIN is sent (or queued); input is thrown away until the peer ends or time is up
 *   DEAD       the descriptor is closed; freed at the end of the turn */
typedef enum mr_conn_state {
    MR_CONN_OPEN,
    MR_CONN_CLOSING,
    MR_CONN_LINGERING,
    MR_CONN_DEAD
} mr_conn_state;

enum {                            /* mr_conn.flags */
    MR_CONN_SAW_EOF = 1u << 0,    /* the peer has finished sending */
    MR_CONN_IS_WAITING = 1u << 1, /* input waits: the pipeline or the request ring is full */
    MR_CONN_IS_LISTED = 1u << 2,  /* in the engine's resume list */
    MR_CONN_IS_DIRTY = 1u << 3,   /* in the engine's flush list */
    MR_CONN_IS_READY = 1u << 4,   /* `incoming` is complete but could not be handed up yet */
    MR_CONN_AWAITS_PROXY = 1u << 5, /* a PROXY header must come first; `input` has its beginning */
    MR_CONN_IS_COUNTED = 1u << 6,   /* among the fleet's connections */
    MR_CONN_IS_RATED = 1u << 7,     /* its next request was counted against the rate limit already */
    MR_CONN_IS_SENDING = 1u << 8    /* its deadline is for progress of the queue, from sent_mark on */
};

/* A piece of an answer that waits for earlier answers: octets of our own around octets that are
 * copied in too or leased. */
typedef struct mr_held {
    struct mr_held *next; /* by rising seq; pieces of one seq in their order */
    uint32_t seq;
    uint8_t ends;    /* part_end of answer.c */
    mr_lease *lease; /* borrowed once; NULL: everything is in bytes[] */
    const uint8_t *leased;
    size_t leased_len;
    size_t before; /* octets of bytes[] in front of what is leased */
    size_t len;    /* octets of bytes[] */
    size_t counted; /* against held_bytes */
    uint8_t bytes[];
} mr_held;

/* A request whose head has come and whose content is still coming. */
typedef struct mr_incoming {
    uint8_t *bytes;      /* owned: the head, head.head_len octets; NULL once it is handed up */
    mr_h1_field *fields; /* owned: head.field_count; NULL once it is handed up */
    mr_h1_head head;
    uint32_t seq;        /* once the request was handed up */
    bool is_handed_up;   /* JavaScript has the head and gets the content piece by piece */
    bool is_discarded;   /* the content is read past: nobody will see it */
    bool wants_continue; /* a 100 (Continue) is owed when the content is asked for */
    bool is_asked_for;   /* JavaScript wants the content */
    bool is_chunked;
    bool is_complete;    /* all of it was taken off the wire; its end could not be handed up yet */
    uint64_t left;       /* content still to come, when not chunked */
    uint64_t taken;      /* content that came, <= body_bytes */
    uint64_t body_bytes; /* the limit that holds for this request */
    uint64_t window;     /* octets that may be handed up before more are asked for */
    uint64_t rate_mark;  /* taken, when throughput was last looked at */
    uint64_t rate_ms;    /* when that was */
    uint64_t body_deadline_ms; /* for the whole content; moved by as long as we made the peer wait */
    mr_h1_chunked chunked;
    mr_buf trailers; /* owned: field lines so far, <= limits.head.header_bytes */
} mr_incoming;

typedef struct mr_conn {
    mr_link link; /* first: a link's address is its connection's */
    struct mr_engine *engine; /* borrowed; outlives every conn */
    uint64_t id;              /* of the slab; constant */
    /* what every exchange touches comes first: two cache lines with the above */
    uint8_t state;  /* mr_conn_state */
    uint16_t flags; /* MR_CONN_... */
    uint32_t request_count;
    uint32_t in_seq;  /* number of the next request */
    uint32_t out_seq; /* the exchange whose answer goes out next; in_seq - out_seq are in flight */
    uint32_t first_piece, last_piece; /* this turn's output: indices + 1 into the engine's pieces;
                                         0: none */
    uint64_t is_head;     /* bits at seq % MR_PIPELINE_MAX: HEAD, no content on the wire */
    uint64_t is_http10;   /* HTTP/1.0 that asked for keep-alive */
    uint64_t is_answered; /* answered, and held */
    uint64_t is_watched;
    uint64_t is_minor0;    /* HTTP/1.0 */
    uint64_t is_streaming; /* the head is given, the end is not */
    uint64_t is_chunked;   /* of a stream: in the chunked coding */
    uint64_t is_final;     /* of a stream: the connection ends behind it */
    uint64_t is_thirsty;   /* its writer waits for the queue to empty */
    uint64_t is_leaving;   /* watched, behind out_seq: answered, but not all of it has left */
    uint64_t deadline_ms; /* the true one; the timer may fire earlier. UINT64_MAX: none */
    struct mr_conn *next_dirty;
    mr_buf *input;         /* owned: octets not yet parsed; NULL when there are none */
    mr_incoming *incoming; /* owned; NULL between requests */
    mr_held *held;         /* owned */
    struct mr_note_block *notes; /* owned: of exchanges in flight, in a fleet (journal.h) */
    mr_timer timer;
    /* what few need */
    uint64_t waiting_since_ms; /* when it began to wait, or to linger */
    size_t input_seen;    /* of input, how much the parser has seen */
    size_t held_bytes;    /* <= limits.held_bytes */
    uint32_t sent_mark;   /* transport's progress when the send time-out was last set */
    struct mr_conn *next_listed; /* resume list */
    struct mr_conn *next_dead;
    mr_peer peer; /* constant, once a PROXY header that is awaited has come */
} mr_conn;

static inline uint64_t mr_conn_bit(uint32_t seq) { return 1ull << (seq % MR_PIPELINE_MAX); }
static inline uint32_t mr_conn_in_flight(const mr_conn *c) { return c->in_seq - c->out_seq; }

extern const mr_link_events mr_conn_events;

/* Closes the descriptor and marks the connection for release at the end of the turn. Idempotent. */
void mr_conn_kill(mr_conn *c);
/* A connection that another thread accepted, and perhaps served. Takes fd. NULL: it is closed. */
mr_conn *mr_conn_adopt(struct mr_engine *engine, int fd, const mr_peer *peer, bool is_counted);
/* It is no longer one of the open connections; once for each. */
void mr_conn_uncount(mr_conn *c);
/* No more requests: FIN once the answers in flight are out (at once when there are none). */
void mr_conn_finish(mr_conn *c);
/* Tells the writer whose turn it is that all it wrote has left. */
void mr_conn_tell_drained(mr_conn *c);
/* Tells who watched answers that all of them has left. */
void mr_conn_tell_left(mr_conn *c);
/* Forgets the exchanges that are still in flight: their answers will be stale. */
void mr_conn_drop_exchanges(mr_conn *c);
/* Ends `ms` from now unless moved; 0: never. */
void mr_conn_set_deadline(mr_conn *c, uint32_t ms);
/* Sets the deadline that the connection's state asks for. */
void mr_conn_touch(mr_conn *c);
void mr_conn_on_timer(mr_conn *c);
/* Releases the memory of a dead connection. */
void mr_conn_release(mr_conn *c);
/* Keeps octets for later, behind those that are there. */
mr_rc mr_conn_keep_input(mr_conn *c, const uint8_t *bytes, size_t len) MR_MUST_CHECK;
void mr_conn_free_input(mr_conn *c);
void mr_conn_free_incoming(mr_conn *c);
/* The head alone: JavaScript has its copy. */
void mr_incoming_free_head(mr_conn *c);
void mr_held_free(mr_conn *c, mr_held *held);

#endif
