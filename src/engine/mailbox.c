/* mailbox.c -- head and tail count octets since create and never wrap (2^64); the place in the ring
 * is their low bits.
 *
 *      0 <= tail - head <= capacity
 *      [head, tail) is a row of whole records, each 8-aligned and in one piece
 *
 * A record is a head of 24 octets and the content, or the address of the content's block. Where a
 * record would not fit before the end of the ring, a padding of one word fills the rest.
 *
 * One store publishes a record: the tail's, with release, after head and content are written. One
 * store gives its octets back: the head's, with release, after the consumer has done with them. So
 * neither side reads what the other one writes, and no word of the ring has to be atomic, or
 * cleared after use as it would with a length that publishes itself.
 *
 * Each side keeps a copy of the other's counter, on its own cache line, and looks at the real one
 * only when the copy does not do: a copy is never ahead, so it can only err towards full or empty.
 *
 * Blocks: the producer allocates and the consumer frees, and an mr_mem is not for two threads. So a
 * block leaves the producer's account when it is posted and is counted here: large_posted is
 * written by the producer alone, large_popped by the consumer alone, and their difference is what
 * is out. */
#include "engine/mailbox.h"
#include "base/check.h"
#include <stdatomic.h>
#include <string.h>

#define LINE_BYTES 64u
#define ALIGN 8u

/* The two highest bits of a record's first word; the others are the length of its content. */
#define FORM_MASK (UINT32_C(3) << 30)
#define FORM_INLINE (UINT32_C(0) << 30)
#define FORM_BLOCK (UINT32_C(1) << 30)
#define FORM_PADDING (UINT32_C(2) << 30) /* to the end of the ring; only this word is there */

typedef struct record {
    uint32_t word; /* form | len */
    uint16_t kind;
    uint16_t flags;
    uint32_t generation;
    uint32_t name;
    uint64_t call;
} record;

/* Of the record of a block: the address is its content. */
#define BLOCK_RECORD_BYTES ((sizeof(record) + sizeof(void *) + ALIGN - 1) & ~(size_t)(ALIGN - 1))

_Static_assert(sizeof(record) == MR_MAIL_HEAD_BYTES, "content is 8-aligned behind it");
_Static_assert(MR_MAIL_MAX < (UINT32_C(1) << 30), "a length leaves the form's bits alone");
_Static_assert(MR_MAILBOX_CAPACITY_MIN / MR_MAILBOX_INLINE_PART >= BLOCK_RECORD_BYTES,
               "the record of a block is never large itself");
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "counters of 64 bits need no lock");

typedef _Atomic uint64_t counter;

/* What the producer writes. Counters are atomic because others read them. */
typedef struct producer {
    counter tail;
    counter posted;       /* messages */
    counter refused;      /* messages */
    counter large_posted; /* octets of blocks */
    uint64_t seen_head;   /* <= head */
    uint64_t seen_large_popped;
    mr_mem door; /* of blocks that are being made; its counts are 0 between calls */
} producer;

typedef struct consumer {
    counter head;
    counter popped;       /* messages */
    counter large_popped; /* octets of blocks */
    uint64_t seen_tail;   /* <= tail */
} consumer;

struct mr_mailbox {
    /* constant after create */
    uint64_t mask; /* capacity - 1 */
    uint64_t large_max;
    size_t inline_max; /* octets of a record */
    uint8_t *ring;     /* behind this struct, on a cache line */
    mr_mem *mem;       /* borrowed; create and destroy only */
    void *block;       /* what mem gave; this struct lies in it, on a cache line */
    size_t block_bytes;
    /* Two lines between the sides: CPUs fetch lines in pairs. */
    _Alignas(2 * LINE_BYTES) producer in;
    _Alignas(2 * LINE_BYTES) consumer out;
};

/* Its only writer adds to a counter: no locked instruction is needed. */
static void add(counter *to, uint64_t n, memory_order order) {
    atomic_store_explicit(to, atomic_load_explicit(to, memory_order_relaxed) + n, order);
}

static size_t round_up(size_t bytes, size_t to) { return (bytes + to - 1) & ~(to - 1); }

/* -- create and destroy -- */

static bool is_capacity(size_t n) {
    return n >= MR_MAILBOX_CAPACITY_MIN && n <= MR_MAILBOX_CAPACITY_MAX && (n & (n - 1)) == 0;
}

mr_rc mr_mailbox_create(mr_mem *mem, size_t capacity, size_t large_bytes_max, mr_mailbox **out) {
    *out = NULL;
    if (!is_capacity(capacity))
        return MR_INVALID;
    size_t bytes = _Alignof(mr_mailbox) + sizeof(mr_mailbox) + capacity;
    void *block = mr_mem_zalloc(mem, bytes);
    if (block == NULL)
        return MR_NOMEM;
    mr_mailbox *box = (mr_mailbox *)round_up((uintptr_t)block, _Alignof(mr_mailbox));
    box->mask = capacity - 1;
    box->large_max = large_bytes_max;
    box->inline_max = capacity / MR_MAILBOX_INLINE_PART;
    box->ring = (uint8_t *)(box + 1);
    box->mem = mem;
    box->block = block;
    box->block_bytes = bytes;
    *out = box;
    return MR_OK;
}

void mr_mailbox_destroy(mr_mailbox *box) {
    mr_mail mail;
    if (box == NULL)
        return;
    while (mr_mailbox_peek(box, &mail))
        mr_mailbox_pop(box);
    mr_mem_free(box->mem, box->block, box->block_bytes);
}

/* -- producer -- */

/* Octets of the ring from `at` to its end. */
static size_t to_end(const mr_mailbox *box, uint64_t at) {
    return (size_t)(box->mask + 1 - (at & box->mask));
}

/* Whether n octets more than `tail` stay within the capacity. */
static bool has_room(mr_mailbox *box, uint64_t tail, size_t n) {
    producer *in = &box->in;
    if (MR_LIKELY(tail + n - in->seen_head <= box->mask + 1))
        return true;
    in->seen_head = atomic_load_explicit(&box->out.head, memory_order_acquire);
    return tail + n - in->seen_head <= box->mask + 1;
}

static bool has_large_room(mr_mailbox *box, size_t len) {
    producer *in = &box->in;
    uint64_t posted = atomic_load_explicit(&in->large_posted, memory_order_relaxed);
    if (posted + len - in->seen_large_popped <= box->large_max)
        return true;
    /* Acquire: the old block is freed before the new one is made. */
    in->seen_large_popped = atomic_load_explicit(&box->out.large_popped, memory_order_acquire);
    return posted + len - in->seen_large_popped <= box->large_max;
}

/* A copy in a block that no account holds any more: the consumer frees it. */
static void *make_block(mr_mailbox *box, const mr_mail *mail) {
    mr_mem *door = &box->in.door;
    void *block = mr_mem_alloc(door, mail->len);
    if (block == NULL)
        return NULL;
    memcpy(block, mail->bytes, mail->len);
    door->used_bytes = door->peak_bytes = 0;
    add(&box->in.large_posted, mail->len, memory_order_relaxed);
    return block;
}

static void free_block(void *block, size_t len) {
    mr_mem account = {.used_bytes = len};
    mr_mem_free(&account, block, len);
}

/* Where the next record of `bytes` goes, which is reserved but not yet published; NULL: no room. */
static uint8_t *reserve(mr_mailbox *box, size_t bytes, uint64_t *new_tail) {
    uint64_t tail = atomic_load_explicit(&box->in.tail, memory_order_relaxed);
    size_t rest = to_end(box, tail);
    size_t padding = bytes <= rest ? 0 : rest;
    if (MR_UNLIKELY(!has_room(box, tail, padding + bytes)))
        return NULL;
    if (padding != 0) {
        const uint32_t word = FORM_PADDING;
        memcpy(box->ring + (tail & box->mask), &word, sizeof(word));
    }
    *new_tail = tail + padding + bytes;
    return box->ring + ((tail + padding) & box->mask);
}

static void write_head(uint8_t *at, const mr_mail *mail, uint32_t form) {
    const record r = {.word = form | (uint32_t)mail->len,
                      .kind = mail->kind,
                      .flags = mail->flags,
                      .generation = mail->generation,
                      .name = mail->name,
                      .call = mail->call};
    memcpy(at, &r, sizeof(r));
}

/* Counted before it can be seen, so that no reader finds more popped than posted. */
static mr_rc publish(mr_mailbox *box, uint64_t new_tail) {
    add(&box->in.posted, 1, memory_order_relaxed);
    atomic_store_explicit(&box->in.tail, new_tail, memory_order_release);
    return MR_OK;
}

static mr_rc refuse(mr_mailbox *box, mr_rc why) {
    add(&box->in.refused, 1, memory_order_relaxed);
    return why;
}

static mr_rc post_block(mr_mailbox *box, const mr_mail *mail) {
    uint64_t new_tail;
    if (mail->len > box->large_max)
        return MR_INVALID;
    uint8_t *at = reserve(box, BLOCK_RECORD_BYTES, &new_tail);
    if (at == NULL || !has_large_room(box, mail->len))
        return refuse(box, MR_LIMIT);
    void *block = make_block(box, mail);
    if (block == NULL)
        return refuse(box, MR_NOMEM);
    write_head(at, mail, FORM_BLOCK);
    memcpy(at + sizeof(record), &block, sizeof(block));
    return publish(box, new_tail);
}

mr_rc mr_mailbox_post(mr_mailbox *box, const mr_mail *mail) {
    uint64_t new_tail;
    if (MR_UNLIKELY(mail->len > MR_MAIL_MAX))
        return MR_INVALID;
    size_t bytes = round_up(sizeof(record) + mail->len, ALIGN);
    if (MR_UNLIKELY(bytes > box->inline_max))
        return post_block(box, mail);
    uint8_t *at = reserve(box, bytes, &new_tail);
    if (MR_UNLIKELY(at == NULL))
        return refuse(box, MR_LIMIT);
    write_head(at, mail, FORM_INLINE);
    if (mail->len != 0)
        memcpy(at + sizeof(record), mail->bytes, mail->len);
    return publish(box, new_tail);
}

/* -- consumer -- */

static bool has_more(mr_mailbox *box, uint64_t head) {
    consumer *out = &box->out;
    if (head == out->seen_tail)
        out->seen_tail = atomic_load_explicit(&box->in.tail, memory_order_acquire);
    return head != out->seen_tail;
}

static uint32_t word_at(const mr_mailbox *box, uint64_t head) {
    uint32_t word;
    memcpy(&word, box->ring + (head & box->mask), sizeof(word));
    return word;
}

static void *block_at(const uint8_t *at) {
    void *block;
    memcpy(&block, at + sizeof(record), sizeof(block));
    return block;
}

static void read_record(const uint8_t *at, mr_mail *out) {
    record r;
    memcpy(&r, at, sizeof(r));
    *out = (mr_mail){.kind = r.kind,
                     .flags = r.flags,
                     .generation = r.generation,
                     .name = r.name,
                     .call = r.call,
                     .bytes = (r.word & FORM_MASK) == FORM_BLOCK ? block_at(at) : at + sizeof(r),
                     .len = r.word & ~FORM_MASK};
}

bool mr_mailbox_peek(mr_mailbox *box, mr_mail *out) {
    uint64_t head = atomic_load_explicit(&box->out.head, memory_order_relaxed);
    if (!has_more(box, head))
        return false;
    if ((word_at(box, head) & FORM_MASK) == FORM_PADDING) {
        head += to_end(box, head);
        atomic_store_explicit(&box->out.head, head, memory_order_release);
        /* A padding is published together with the record behind it. */
        MR_ASSERT(head != box->out.seen_tail);
    }
    read_record(box->ring + (head & box->mask), out);
    return true;
}

void mr_mailbox_pop(mr_mailbox *box) {
    consumer *out = &box->out;
    uint64_t head = atomic_load_explicit(&out->head, memory_order_relaxed);
    MR_ASSERT(head != out->seen_tail);
    uint32_t word = word_at(box, head);
    size_t len = word & ~FORM_MASK, bytes = round_up(sizeof(record) + len, ALIGN);
    MR_DEBUG_ASSERT((word & FORM_MASK) != FORM_PADDING);
    if (MR_UNLIKELY((word & FORM_MASK) == FORM_BLOCK)) {
        free_block(block_at(box->ring + (head & box->mask)), len);
        add(&out->large_popped, len, memory_order_release);
        bytes = BLOCK_RECORD_BYTES;
    }
    add(&out->popped, 1, memory_order_release);
    atomic_store_explicit(&out->head, head + bytes, memory_order_release);
}

/* -- any thread --
 * The consumer's counter first, with acquire: whatever it counts was posted before, so the
 * producer's, read after it, is not below. */

static uint64_t between(const counter *produced, const counter *consumed) {
    uint64_t less = atomic_load_explicit(consumed, memory_order_acquire);
    return atomic_load_explicit(produced, memory_order_relaxed) - less;
}

size_t mr_mailbox_depth(const mr_mailbox *box) {
    return (size_t)between(&box->in.posted, &box->out.popped);
}

size_t mr_mailbox_bytes(const mr_mailbox *box) {
    return (size_t)(between(&box->in.tail, &box->out.head) +
                    between(&box->in.large_posted, &box->out.large_popped));
}

uint64_t mr_mailbox_refused(const mr_mailbox *box) {
    return atomic_load_explicit(&box->in.refused, memory_order_relaxed);
}
