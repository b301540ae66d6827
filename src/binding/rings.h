/* rings.h -- the memory that C and JavaScript share: requests up, answers down.
 *
 * requests   records of 8 words, written by C, read by JavaScript within one call
 *              0 slot, 1 generation, 2 seq, 3 handler (MR_RECORD_CONTENT: a piece of content)
 *              4 bits 0-7 method, 8 minor version, 9 content inside the chunk, 10 content in
 *                bodies[record], 11 content will follow, 14 when a 100
 *                (Continue) is owed, 12 the content ends here, 13 what is inside
 *                the chunk are trailers
 *              5 chunk serial (MR_NO_CHUNK: nothing was copied)
 *              6 offset in the chunk: of the head's block, or of a piece of content
 *              7 content octets
 * chunks     ArrayBuffers that JavaScript owns; a head's block, at an 8-octet boundary, is
 *              u16 [0] field count, [1] offset of the head's octets from the block, [2] [3] method,
 *              [4] [5] target, [6] [7] path, [8] [9] query, [10] [11] host (offset, length each,
 *              within the octets), [12] peer's port, [13] peer's family, [14] head length,
 *              [15] param count, [16..23] peer's address, then (offset, length) per param within
 *              the path, then mr_h1_field per field, the octets, and small content behind them
 *            A chunk is replaced, not reused, when it is full: request objects may point into it.
 * responses  records of 8 words, written by JavaScript, read (and distrusted) by C
 *              0 slot, 1 generation, 2 seq, 3 status | flags << 16 | kind << 28,
 *              4 reply number, 5 offset in output, 6 head octets there, 7 content octets behind
 *              them (kind ASK: how many octets of content are wanted)
 * output     the octets that responses name
 * control    word 0: response records, word 1: output octets in use; written by JavaScript, set to
 *            zero by C when it has drained them
 * notes      slot, generation, seq, mr_note; words
 *
 * Owns:    a reference to each ArrayBuffer.
 * Thread:  the environment's.
 * Uses:    engine/engine.h, node_api.h. */
#ifndef MR_BINDING_RINGS_H
#define MR_BINDING_RINGS_H

#include "base/buf.h"
#include "engine/engine.h"
#include <node_api.h>

#define MR_RECORD_WORDS 8u
#define MR_REQUESTS_MAX 2048u
#define MR_RESPONSES_MAX 2048u
#define MR_OUTPUT_BYTES (256u * 1024u)
#define MR_CHUNK_BYTES (32u * 1024u)
#define MR_CHUNKS_PER_BATCH 64u
#define MR_BODY_INLINE_MAX (8u * 1024u)
#define MR_NO_CHUNK 0xFFFFFFFFu
#define MR_REPLIES_MAX 65535u

enum {                                  /* flags of a response record */
    MR_RECORD_HEAD_INLINE = 1u << 0,    /* the head is in output; else it is the reply's */
    MR_RECORD_HAS_DATE = 1u << 1,
    MR_RECORD_HAS_LENGTH = 1u << 2,
    MR_RECORD_CLOSE = 1u << 3,
    MR_RECORD_STREAM = 1u << 4          /* content follows by kinds WRITE and FINISH */
};

typedef enum mr_record_kind {
    MR_RECORD_RESPOND,
    MR_RECORD_WRITE,  /* content octets */
    MR_RECORD_FINISH, /* content octets are trailers */
    MR_RECORD_ABORT,
    MR_RECORD_INFORM, /* content octets are the fields of an interim answer */
    MR_RECORD_ASK
} mr_record_kind;

#define MR_RECORD_CONTENT 0xFFFFFFFEu

typedef struct mr_rings {
    napi_env env;
    mr_engine *engine; /* borrowed */
    uint32_t *requests, *responses, *control;
    uint8_t *output;
    uint32_t request_count;
    uint8_t *chunk; /* the one being filled */
    size_t chunk_bytes, chunk_used;
    uint32_t chunk_serial;   /* of the one being filled */
    uint32_t batch_serial;   /* of the first chunk that this batch may use */
    napi_ref chunk_ref;      /* keeps it alive */
    napi_ref holder;         /* the object with all the ArrayBuffers, chunks[] and bodies[] */
    mr_reply **replies;      /* owned; numbered by JavaScript's records */
    uint32_t reply_count, reply_cap, free_replies;
    mr_mem mem;              /* books of what the binding itself allocates */
    mr_buf notes;            /* words */
    size_t body_bytes;       /* in ArrayBuffers since the collector was last made to look */
    uint64_t bad_records;    /* records that C refused */
} mr_rings;

/* Makes the shared memory and sets it as properties of `holder`. napi_ok, or a status to throw. */
napi_status mr_rings_init(mr_rings *rings, napi_env env, napi_value holder);
/* Lets the replies go, while the engine whose memory they are still lives. */
void mr_rings_free_replies(mr_rings *rings);
/* Frees what is C's. With is_env_ending, references are left to the environment. */
void mr_rings_dispose(mr_rings *rings, bool is_env_ending);

/* mr_handlers, with the rings as owner. */
mr_rc mr_rings_on_request(void *rings, const mr_request *request);
mr_rc mr_rings_on_content(void *rings, const mr_content *content);
void mr_rings_on_note(void *rings, uint64_t connection, uint32_t seq, mr_note note);

/* Hands the answers in the ring to the engine and empties it. */
void mr_rings_drain(mr_rings *rings);
/* What one record says; `head` and `body` are already bounded. With a lease the body stays where it
 * is until it has left. */
void mr_rings_carry_out(mr_rings *rings, const uint32_t *record, const uint8_t *head,
                        size_t head_len, const uint8_t *body, size_t body_len, mr_lease *lease);

/* Keeps a reply for records to name. Takes it, also on failure. */
mr_rc mr_rings_add_reply(mr_rings *rings, mr_reply *reply, uint32_t *number) MR_MUST_CHECK;

/* Lets a number go, to be used again. An unknown one is ignored. */
void mr_rings_drop_reply(mr_rings *rings, uint32_t number);

#endif
