/* mailbox.h -- messages from one thread to one other: a ring of octets with one producer and one
 * consumer, no locks, first in first out. Whoever posts rings the consumer's bell afterwards
 * (engine/bell.h).
 *
 * Owns:    the ring, and the blocks of large messages from post to pop.
 * Borrows: a posted message for the length of the call (it is copied); `mem` until destroy.
 * Thread:  post: the producer's. peek and pop: the consumer's. Either role may pass to another
 * thread under a lock, so that what the old thread did happens before what the new one does. create
 * and destroy: whoever holds the lock of `mem`, with neither role in use. The rest: any thread.
 * Uses:    base/. */
#ifndef MR_ENGINE_MAILBOX_H
#define MR_ENGINE_MAILBOX_H

#include "base/mem.h"
#include "base/rc.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MR_MAIL_MAX (64u << 20)            /* octets of content of one message */
#define MR_MAIL_HEAD_BYTES 24u             /* of the ring, before the content of each message */
#define MR_MAILBOX_CAPACITY_MIN 4096u      /* octets */
#define MR_MAILBOX_CAPACITY_MAX (1u << 30) /* octets */
#define MR_MAILBOX_INLINE_PART 8u          /* a record over capacity / 8 goes as a block */

/* One message. All but the length and the content is the owner's, passed through as it is. */
typedef struct mr_mail {
    uint16_t kind; /* post, call, answer, descriptor, ... */
    uint16_t flags;
    uint32_t generation;  /* of the seat it was meant for; a later tenant drops it */
    uint32_t name;        /* interned name of the handler */
    uint64_t call;        /* correlation id; 0: nobody waits for an answer */
    const uint8_t *bytes; /* borrowed; may be NULL when len is 0. Peeked: never NULL, 8-aligned */
    size_t len;           /* octets; <= MR_MAIL_MAX */
} mr_mail;

typedef struct mr_mailbox mr_mailbox;

/* `capacity`: octets of the ring, a power of two from CAPACITY_MIN to CAPACITY_MAX; pages that no
 * message has reached yet stay untouched. `large_bytes_max`: the bound of the blocks outside of the
 * ring, together; 0 means that all has to fit into the ring. MR_INVALID | MR_NOMEM. */
mr_rc mr_mailbox_create(mr_mem *mem, size_t capacity, size_t large_bytes_max,
                        mr_mailbox **out) MR_MUST_CHECK;
/* Frees what was not read as well; look at mr_mailbox_depth() before, to count it. Accepts NULL. */
void mr_mailbox_destroy(mr_mailbox *box);

/* Producer. A message takes MR_MAIL_HEAD_BYTES + len octets of the ring, rounded up to 8; over
 * capacity / 8 of them it goes as a block of its own and its record says where.
 * MR_OK: the consumer will find it, also if the producer ends now.
 * MR_LIMIT: the ring or the sum of blocks is full; later may do. MR_NOMEM: no memory for the block.
 * Both are counted. MR_INVALID: can never pass: over MR_MAIL_MAX, or it needs a block and is over
 * large_bytes_max. Nothing of a message that was not taken remains. */
mr_rc mr_mailbox_post(mr_mailbox *box, const mr_mail *mail) MR_MUST_CHECK;

/* Consumer. The oldest message, valid until mr_mailbox_pop(); the same one again until then. False:
 * there is none. */
bool mr_mailbox_peek(mr_mailbox *box, mr_mail *out);
/* Consumer. Only after a peek that was true. */
void mr_mailbox_pop(mr_mailbox *box);

/* Any thread. What waits: messages, and the octets they hold (ring and blocks). Approximate while
 * one of the two threads works, exact when neither does; never below 0. */
size_t mr_mailbox_depth(const mr_mailbox *box);
size_t mr_mailbox_bytes(const mr_mailbox *box);
/* Any thread. Messages that post answered with MR_LIMIT or MR_NOMEM, since create. */
uint64_t mr_mailbox_refused(const mr_mailbox *box);

#endif
