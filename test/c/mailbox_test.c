/* mailbox_test.c -- one thread on both sides: against a plain queue, at every bound, at every place
 * of the ring. */
/* link: base/mem.c */
#include "engine/mailbox.c"
#include <stdlib.h>

enum { SMALL = MR_MAILBOX_CAPACITY_MIN, EIGHTH = SMALL / MR_MAILBOX_INLINE_PART };

#define INLINE_LEN ((size_t)EIGHTH - MR_MAIL_HEAD_BYTES) /* the longest content in the ring */

static uint8_t content[1 << 20];

static mr_mailbox *make(mr_mem *mem, size_t capacity, size_t large_bytes_max) {
    mr_mailbox *box;
    MR_ASSERT(mr_mailbox_create(mem, capacity, large_bytes_max, &box) == MR_OK);
    MR_ASSERT(((uintptr_t)box & 127) == 0 && ((uintptr_t)box->ring & 63) == 0);
    return box;
}

static void finish(mr_mem *mem, mr_mailbox *box) {
    mr_mailbox_destroy(box);
    MR_ASSERT(mem->used_bytes == 0);
}

/* A message that tells its own number in each of its fields and its content. */
static mr_mail numbered(uint32_t n, size_t len) {
    return (mr_mail){.kind = (uint16_t)n,
                     .flags = (uint16_t)~n,
                     .generation = n * 7u + 1u,
                     .name = n ^ 0xf0f0f0f0u,
                     .call = (uint64_t)n << 33 | n,
                     .bytes = content + n % 251u,
                     .len = len};
}

static void check_same(const mr_mail *got, const mr_mail *wanted) {
    MR_ASSERT(got->kind == wanted->kind && got->flags == wanted->flags);
    MR_ASSERT(got->generation == wanted->generation && got->name == wanted->name);
    MR_ASSERT(got->call == wanted->call && got->len == wanted->len);
    MR_ASSERT(got->bytes != NULL && ((uintptr_t)got->bytes & 7) == 0);
    MR_ASSERT(got->len == 0 || memcmp(got->bytes, wanted->bytes, got->len) == 0);
}

static mr_rc post(mr_mailbox *box, uint32_t n, size_t len) {
    const mr_mail mail = numbered(n, len);
    return mr_mailbox_post(box, &mail);
}

static void expect(mr_mailbox *box, uint32_t n, size_t len) {
    const mr_mail wanted = numbered(n, len);
    mr_mail got, again;
    MR_ASSERT(mr_mailbox_peek(box, &got));
    check_same(&got, &wanted);
    MR_ASSERT(mr_mailbox_peek(box, &again) && again.bytes == got.bytes);
    mr_mailbox_pop(box);
}

/* As if so many octets had passed already. */
static void begin_at(mr_mailbox *box, uint64_t at) {
    box->in.tail = at;
    box->in.seen_head = at;
    box->out.head = at;
    box->out.seen_tail = at;
}

static void expect_none(mr_mailbox *box) {
    mr_mail got;
    MR_ASSERT(!mr_mailbox_peek(box, &got));
    MR_ASSERT(mr_mailbox_depth(box) == 0 && mr_mailbox_bytes(box) == 0);
}

static void test_create(void) {
    mr_mem mem = {0};
    mr_mailbox *box;
    static const size_t bad[] = {
        0,       1, SMALL / 2, SMALL - 1, SMALL + 1, SMALL * 3, (size_t)MR_MAILBOX_CAPACITY_MAX * 2,
        SIZE_MAX};
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        MR_ASSERT(mr_mailbox_create(&mem, bad[i], 0, &box) == MR_INVALID && box == NULL);
    finish(&mem, make(&mem, SMALL, 0));
    finish(&mem, make(&mem, MR_MAILBOX_CAPACITY_MAX, 0));
    mem.fail_after = -1;
    MR_ASSERT(mr_mailbox_create(&mem, SMALL, 0, &box) == MR_NOMEM && box == NULL);
    mr_mailbox_destroy(NULL);
}

static void test_first(void) {
    mr_mem mem = {0};
    mr_mailbox *box = make(&mem, SMALL, 0);
    const mr_mail bare = {.kind = 3, .generation = 9, .bytes = NULL, .len = 0};
    mr_mail got;
    expect_none(box);
    MR_ASSERT(mr_mailbox_post(box, &bare) == MR_OK);
    MR_ASSERT(mr_mailbox_depth(box) == 1 && mr_mailbox_bytes(box) == MR_MAIL_HEAD_BYTES);
    MR_ASSERT(mr_mailbox_peek(box, &got) && got.kind == 3 && got.generation == 9 && got.len == 0);
    MR_ASSERT(got.bytes != NULL);
    mr_mailbox_pop(box);
    expect_none(box);
    finish(&mem, box);
}

/* Each record an eighth: exactly eight fill the ring, wherever they begin. */
static void test_full(void) {
    mr_mem mem = {0};
    mr_mailbox *box = make(&mem, SMALL, 0);
    for (uint32_t round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < 8; i++)
            MR_ASSERT(post(box, i, INLINE_LEN) == MR_OK);
        MR_ASSERT(mr_mailbox_depth(box) == 8 && mr_mailbox_bytes(box) == SMALL);
        MR_ASSERT(mr_mailbox_refused(box) == round * 3);
        MR_ASSERT(post(box, 8, 0) == MR_LIMIT);
        MR_ASSERT(post(box, 8, INLINE_LEN) == MR_LIMIT);
        MR_ASSERT(mr_mailbox_refused(box) == round * 3 + 2);
        /* One goes, one of exactly its size comes; not one word more. */
        expect(box, 0, INLINE_LEN);
        MR_ASSERT(post(box, 8, INLINE_LEN) == MR_OK);
        MR_ASSERT(post(box, 9, 0) == MR_LIMIT);
        for (uint32_t i = 1; i < 9; i++)
            expect(box, i, INLINE_LEN);
        expect_none(box);
    }
    finish(&mem, box);
}

/* The room that is left is 8 less than asked for, or just enough. */
static void test_last_word(void) {
    mr_mem mem = {0};
    for (size_t spare = 0; spare < 2; spare++) {
        mr_mailbox *box = make(&mem, SMALL, 0);
        for (uint32_t i = 0; i < 7; i++)
            MR_ASSERT(post(box, i, INLINE_LEN) == MR_OK);
        MR_ASSERT(post(box, 7, 200 - MR_MAIL_HEAD_BYTES) == MR_OK);
        MR_ASSERT(post(box, 8, EIGHTH - 200 - MR_MAIL_HEAD_BYTES + spare) ==
                  (spare == 0 ? MR_OK : MR_LIMIT));
        MR_ASSERT(mr_mailbox_bytes(box) == SMALL - (spare == 0 ? 0 : EIGHTH - 200));
        finish(&mem, box);
    }
}

/* Without blocks the longest record is an eighth, and one octet more can never pass. */
static void test_longest_inline(void) {
    mr_mem mem = {0};
    mr_mailbox *box = make(&mem, SMALL, 0);
    MR_ASSERT(post(box, 1, INLINE_LEN) == MR_OK);
    MR_ASSERT(post(box, 2, INLINE_LEN + 1) == MR_INVALID);
    MR_ASSERT(mr_mailbox_refused(box) == 0 && mr_mailbox_depth(box) == 1);
    expect(box, 1, INLINE_LEN);
    finish(&mem, box);
}

/* From each place of the ring, a record of each length: padding of all sizes, none included. */
static void test_every_wrap(void) {
    mr_mem mem = {0};
    static const size_t lengths[] = {0, 1, 8, 9, 100, INLINE_LEN - 8, INLINE_LEN};
    for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
        mr_mailbox *box = make(&mem, SMALL, 0);
        for (uint32_t at = 0; at < SMALL; at += ALIGN) {
            begin_at(box, at);
            for (uint32_t n = 0; n < 3; n++)
                MR_ASSERT(post(box, n, lengths[i]) == MR_OK);
            for (uint32_t n = 0; n < 3; n++)
                expect(box, n, lengths[i]);
            expect_none(box);
        }
        finish(&mem, box);
    }
}

/* A record that needs padding is refused as long as both do not fit, and taken when they do. */
static void test_padding_counts(void) {
    mr_mem mem = {0};
    mr_mailbox *box = make(&mem, SMALL, 0);
    for (uint32_t i = 0; i < 7; i++)
        MR_ASSERT(post(box, i, INLINE_LEN) == MR_OK);
    MR_ASSERT(post(box, 7, INLINE_LEN - 8) == MR_OK); /* 8 octets are left before the end */
    expect(box, 0, INLINE_LEN);
    MR_ASSERT(post(box, 8, INLINE_LEN) == MR_OK); /* 8 of padding and all that was given back */
    MR_ASSERT(mr_mailbox_bytes(box) == SMALL);
    for (uint32_t i = 1; i < 7; i++)
        expect(box, i, INLINE_LEN);
    expect(box, 7, INLINE_LEN - 8);
    expect(box, 8, INLINE_LEN);
    expect_none(box);
    finish(&mem, box);
}

static void test_large(void) {
    mr_mem mem = {0};
    mr_mailbox *box = make(&mem, SMALL, 3000);
    MR_ASSERT(post(box, 0, INLINE_LEN + 1) == MR_OK); /* the shortest block: 489 octets */
    MR_ASSERT(mr_mailbox_bytes(box) == BLOCK_RECORD_BYTES + INLINE_LEN + 1);
    MR_ASSERT(post(box, 1, 3001) == MR_INVALID); /* can never pass, so it is not counted */
    MR_ASSERT(post(box, 1, 3000) == MR_LIMIT);   /* could, if it were alone */
    MR_ASSERT(post(box, 1, 3000 - INLINE_LEN - 1) == MR_OK); /* the bound exactly */
    MR_ASSERT(post(box, 2, INLINE_LEN + 1) == MR_LIMIT);
    MR_ASSERT(mr_mailbox_refused(box) == 2 && mr_mailbox_depth(box) == 2);
    MR_ASSERT(post(box, 2, INLINE_LEN) == MR_OK); /* what needs no block still passes */
    expect(box, 0, INLINE_LEN + 1);
    MR_ASSERT(post(box, 3, INLINE_LEN + 2) == MR_LIMIT); /* one octet too many */
    MR_ASSERT(post(box, 3, INLINE_LEN + 1) == MR_OK);
    expect(box, 1, 3000 - INLINE_LEN - 1);
    expect(box, 2, INLINE_LEN);
    expect(box, 3, INLINE_LEN + 1);
    MR_ASSERT(post(box, 4, 3000) == MR_OK);
    expect(box, 4, 3000);
    expect_none(box);
    finish(&mem, box);
}

static void test_largest(void) {
    mr_mem mem = {0};
    mr_mailbox *box = make(&mem, SMALL, SIZE_MAX);
    uint8_t *bytes = calloc(1, (size_t)MR_MAIL_MAX + 1);
    MR_ASSERT(bytes != NULL);
    mr_mail mail = {.bytes = bytes, .len = (size_t)MR_MAIL_MAX + 1}, got;
    bytes[MR_MAIL_MAX - 1] = 77;
    MR_ASSERT(mr_mailbox_post(box, &mail) == MR_INVALID);
    mail.len = SIZE_MAX;
    MR_ASSERT(mr_mailbox_post(box, &mail) == MR_INVALID);
    mail.len = MR_MAIL_MAX;
    MR_ASSERT(mr_mailbox_post(box, &mail) == MR_OK);
    free(bytes);
    MR_ASSERT(mr_mailbox_peek(box, &got) && got.len == MR_MAIL_MAX);
    MR_ASSERT(got.bytes[0] == 0 && got.bytes[MR_MAIL_MAX - 1] == 77);
    mr_mailbox_pop(box);
    MR_ASSERT(mr_mailbox_refused(box) == 0);
    expect_none(box);
    finish(&mem, box);
}

/* A refused block leaves nothing behind, whatever it was refused for. */
static void test_large_refused(void) {
    mr_mem mem = {0};
    mr_mailbox *box = make(&mem, SMALL, 100000);
    box->in.door.fail_after = -1;
    MR_ASSERT(post(box, 0, 1000) == MR_NOMEM);
    MR_ASSERT(mr_mailbox_refused(box) == 1);
    expect_none(box);
    box->in.door.fail_after = 0;
    for (uint32_t i = 0; i < SMALL / BLOCK_RECORD_BYTES - 1; i++)
        MR_ASSERT(post(box, i, 500) == MR_OK);
    MR_ASSERT(post(box, 0, 0) == MR_OK);      /* 24 of the last 32 octets */
    MR_ASSERT(post(box, 0, 500) == MR_LIMIT); /* the ring is full, not the sum */
    MR_ASSERT(mr_mailbox_refused(box) == 2);
    MR_ASSERT(mr_mailbox_bytes(box) == SMALL - 8 + 500 * (SMALL / BLOCK_RECORD_BYTES - 1));
    finish(&mem, box); /* unread blocks and all: LeakSanitizer looks */
}

/* -- against a plain queue -- */

typedef struct model {
    uint32_t first, last; /* numbers of the messages that wait */
    size_t lengths[4096]; /* by number, modulo */
    uint64_t tail, head;  /* as the ring's, by the rules of the header */
    size_t large;
    uint64_t refused;
} model;

static uint32_t random_below(uint64_t *seed, uint32_t bound) {
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((*seed >> 33) % bound);
}

static size_t random_length(uint64_t *seed, size_t eighth) {
    size_t edge = eighth - MR_MAIL_HEAD_BYTES;
    switch (random_below(seed, 6)) {
    case 0:
        return random_below(seed, 9);
    case 1:
        return edge - 8 + random_below(seed, 17); /* around the longest in the ring */
    case 2:
        return edge + random_below(seed, (uint32_t)eighth * 4);
    default:
        return random_below(seed, (uint32_t)edge);
    }
}

static mr_rc model_post(model *m, size_t capacity, size_t large_max, size_t len) {
    size_t bytes = (MR_MAIL_HEAD_BYTES + len + 7) / 8 * 8;
    bool is_large = bytes > capacity / 8;
    if (is_large && len > large_max)
        return MR_INVALID;
    if (is_large)
        bytes = 32;
    size_t rest = capacity - (size_t)(m->tail % capacity);
    uint64_t tail = m->tail + bytes + (bytes > rest ? rest : 0);
    if (tail - m->head > capacity || (is_large && m->large + len > large_max)) {
        m->refused++;
        return MR_LIMIT;
    }
    m->tail = tail;
    m->large += is_large ? len : 0;
    m->lengths[m->last++ % 4096] = len;
    return MR_OK;
}

static void model_take(model *m, size_t capacity, mr_mailbox *box) {
    size_t len = m->lengths[m->first % 4096];
    size_t bytes = (MR_MAIL_HEAD_BYTES + len + 7) / 8 * 8;
    bool is_large = bytes > capacity / 8;
    bytes = is_large ? 32 : bytes;
    size_t rest = capacity - (size_t)(m->head % capacity);
    expect(box, m->first++, len);
    m->head += bytes + (bytes > rest ? rest : 0);
    m->large -= is_large ? len : 0;
}

static void check_counts(const model *m, const mr_mailbox *box) {
    MR_ASSERT(mr_mailbox_depth(box) == m->last - m->first);
    MR_ASSERT(mr_mailbox_bytes(box) == m->tail - m->head + m->large);
    MR_ASSERT(mr_mailbox_refused(box) == m->refused);
    MR_ASSERT(m->tail - m->head <= box->mask + 1 && m->large <= box->large_max);
}

/* Turns in which one side has the upper hand, so that the box is often full and often empty. */
static void test_model(size_t capacity, size_t large_max, uint64_t seed) {
    mr_mem mem = {0};
    mr_mailbox *box = make(&mem, capacity, large_max);
    static model m;
    m = (model){0};
    for (int turn = 0; turn < 400; turn++) {
        uint32_t posts = random_below(&seed, 8);
        for (int i = 0; i < 100; i++) {
            if (random_below(&seed, 7) < posts) {
                size_t len = random_length(&seed, capacity / 8);
                uint32_t number = m.last;
                MR_ASSERT(post(box, number, len) == model_post(&m, capacity, large_max, len));
            } else if (m.first != m.last) {
                model_take(&m, capacity, box);
            } else {
                expect_none(box);
            }
            check_counts(&m, box);
        }
    }
    finish(&mem, box);
}

/* Nothing special happens where the 32 low bits of the counters run over. */
static void test_far(void) {
    mr_mem mem = {0};
    mr_mailbox *box = make(&mem, SMALL, 0);
    uint64_t at = (UINT64_C(1) << 32) - 2 * EIGHTH;
    begin_at(box, at);
    for (uint32_t i = 0; i < 40; i++) {
        MR_ASSERT(post(box, i, INLINE_LEN - i) == MR_OK);
        MR_ASSERT(post(box, i + 1, i) == MR_OK);
        expect(box, i, INLINE_LEN - i);
        expect(box, i + 1, i);
    }
    expect_none(box);
    finish(&mem, box);
}

int main(void) {
    for (size_t i = 0; i < sizeof(content); i++)
        content[i] = (uint8_t)(i * 31 + i / 256 * 17);
    test_create();
    test_first();
    test_full();
    test_last_word();
    test_longest_inline();
    test_every_wrap();
    test_padding_counts();
    test_large();
    test_largest();
    test_large_refused();
    for (uint64_t seed = 1; seed <= 6; seed++) {
        test_model(SMALL, seed % 2 == 0 ? 0 : 6000, seed);
        test_model(SMALL * 4, 40000, seed + 100);
    }
    test_far();
    return 0;
}
