/* bell.h -- wakes the one consumer of many mailboxes, once for as much as came meanwhile.
 *
 * A producer posts (engine/mailbox.h) and rings. The consumer, woken, answers: it learns which
 * sources have rung since, and reads each of their boxes until it is empty (or remembers by itself
 * that it did not).
 *
 * Why no wake-up is lost, and why there is no fence. A ring is, in this order,
 *      F  mail[source] |= bit    (release)
 *      X  is_rung <- 1           (acquire and release); if it was 0, wake the consumer
 * an answer is
 *      A  is_rung <- 0           (acquire and release)
 *      T  mail[*] <- 0           (acquire)
 * All four are read-modify-writes, and those of one location stand in one order, each reading what
 * the one before it wrote: no X or A can see a stale is_rung. Take any X.
 *  - An A follows it. Between X and the next A there are only other X's, a release sequence, so
 * this A synchronises with X: F happens before T, and T, or the T of an earlier answer, takes the
 * bit. Whichever it is reads from F or from a later |= in F's release sequence: what was posted
 * before F is visible. So the answer that follows X, or one before it, has delivered the message.
 *  - That an A follows: the first X after an A (or at all) reads 0 and wakes; the consumer answers
 *    each wake-up. Later X's before that A read 1, and the wake-up they rely on is still due.
 * A plain load in place of X ("is_rung is 1 already") breaks this: F orders nothing that comes
 * after it, so the load may give a 1 from before the last A, while T has missed F. The usual remedy
 * is a sequentially consistent fence between them; the exchange makes it unnecessary. Tests check
 * all this by exhaustion, with this file's code under a weak memory model.
 *
 * Why nobody is inside ring() after close: entry counts up, and looks at MR_BELL_OPEN, in one
 * read-modify-write of `ringers`; close clears the bit with another. Who came before is in the
 * count, and close waits for it; who comes after sees the bit gone.
 *
 * A ring of a closed bell leaves is_rung at 1, and nobody would wake the one who opens it: so open
 * wakes always. Entry and open are both release and acquire, so a ring that saw the bell closed
 * happens before what the consumer does after open, its next A included.
 *
 * Owns:    nothing; a bell is embedded by value where its memory is aligned to 64 bytes, and
 *          outlives every producer. Zeroed, it is closed.
 * Thread:  ring: any. answer, open and close: the consumer's.
 * Uses:    base/check.h. */
#ifndef MR_ENGINE_BELL_H
#define MR_ENGINE_BELL_H

#include "base/check.h"
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>

#define MR_BELL_WORDS 3u
#define MR_BELL_SOURCES (MR_BELL_WORDS * 64u) /* sources are 0 .. MR_BELL_SOURCES - 1 */
#define MR_BELL_OPEN (UINT32_C(1) << 31)      /* of ringers; the others count who is inside */

typedef struct mr_bell {
    /* written at each ring and answer */
    _Atomic uint64_t mail[MR_BELL_WORDS]; /* a bit per source: has posted since the last answer */
    _Atomic uint32_t is_rung;             /* 1: a wake-up is due or under way */
    _Atomic uint32_t ringers;             /* threads at or in ring() | MR_BELL_OPEN */
    /* constant while open */
    void (*ring)(void *arg); /* any thread, several at once; must lead to an answer */
    void *arg;               /* borrowed from open to close */
} mr_bell;

/* Only who finds the bell silent comes here: as seldom as the consumer wakes up. */
static inline void mr_bell_enter(mr_bell *bell) {
    uint32_t was = atomic_fetch_add_explicit(&bell->ringers, 1, memory_order_acq_rel);
    if ((was & MR_BELL_OPEN) != 0)
        bell->ring(bell->arg);
    atomic_fetch_sub_explicit(&bell->ringers, 1, memory_order_release);
}

/* Any thread. After the post. Of a closed bell: harmless, and found when it is opened. */
static inline void mr_bell_ring(mr_bell *bell, unsigned source) {
    uint64_t bit = UINT64_C(1) << (source % 64u);
    MR_DEBUG_ASSERT(source < MR_BELL_SOURCES);
    atomic_fetch_or_explicit(&bell->mail[source / 64u], bit, memory_order_release);
    if (atomic_exchange_explicit(&bell->is_rung, 1, memory_order_acq_rel) == 0)
        mr_bell_enter(bell);
}

/* Consumer. Who has rung since, before an answer: nobody wakes a consumer that has not answered, so one
 * that looks again and again until it finds nothing, and answers then, is woken less often. Each look
 * only takes bits that an answer's T would have taken. */
static inline void mr_bell_look(mr_bell *bell, uint64_t mail[MR_BELL_WORDS]) {
    for (unsigned i = 0; i < MR_BELL_WORDS; i++)
        mail[i] = atomic_load_explicit(&bell->mail[i], memory_order_relaxed) == 0
                      ? 0
                      : atomic_exchange_explicit(&bell->mail[i], 0, memory_order_acquire);
}

/* Consumer. Who has rung since the last answer; all zero is possible. */
static inline void mr_bell_answer(mr_bell *bell, uint64_t mail[MR_BELL_WORDS]) {
    /* First this: who rings from now on wakes again, even if its bit is still taken below. */
    (void)atomic_exchange_explicit(&bell->is_rung, 0, memory_order_acq_rel);
    for (unsigned i = 0; i < MR_BELL_WORDS; i++)
        mail[i] = atomic_exchange_explicit(&bell->mail[i], 0, memory_order_acquire);
}

/* Consumer. Of a closed bell only. Calls ring(arg) once, for what was posted while it was closed.
 */
static inline void mr_bell_open(mr_bell *bell, void (*ring)(void *), void *arg) {
    bell->ring = ring;
    bell->arg = arg;
    atomic_fetch_or_explicit(&bell->ringers, MR_BELL_OPEN, memory_order_acq_rel);
    ring(arg);
}

/* Consumer. When it returns, nobody is inside ring() and nobody will enter; closed already: nothing
 * happens. Waits for those inside, so not from ring() itself. */
static inline void mr_bell_close(mr_bell *bell) {
    uint32_t mask = ~MR_BELL_OPEN;
    atomic_fetch_and_explicit(&bell->ringers, mask, memory_order_relaxed);
    while ((atomic_load_explicit(&bell->ringers, memory_order_acquire) & mask) != 0)
        sched_yield();
}

#endif
