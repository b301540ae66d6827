/* unsent_test.c -- the queue of a link, at the sizes of its blocks, in copies and on loan. */
/* link: base/mem.c */
#include "net/unsent.c"

#include "base/check.h"
#include <stdlib.h>

typedef struct loan {
    mr_lease lease; /* first */
    int returns;
} loan;

static void on_return(mr_lease *lease) { ((loan *)lease)->returns++; }

static void lend(loan *l) { *l = (loan){.lease = {.borrowers = 1, .on_return = on_return}}; }

static uint8_t octets[3 * BLOCK_BYTES];

static void fill_octets(void) {
    for (size_t i = 0; i < sizeof octets; i++)
        octets[i] = (uint8_t)(i * 5 + i / 249);
}

static uint32_t count_blocks(const mr_link *link) {
    uint32_t count = 0;
    size_t bytes = 0;
    const mr_unsent *last = NULL;
    for (const mr_unsent *b = link->unsent; b != NULL; last = b, b = b->next, count++) {
        MR_ASSERT(b->off < b->len && (b->lease != NULL ? b->cap == 0 : b->len <= b->cap));
        bytes += b->len - b->off;
    }
    MR_ASSERT(link->unsent_last == last && bytes == link->unsent_bytes);
    return count;
}

/* Takes everything off, `step` octets at a time, and looks at each. */
static void take_all(mr_mem *mem, mr_link *link, size_t step) {
    size_t at = 0;
    while (link->unsent != NULL) {
        const mr_unsent *b = link->unsent;
        uint32_t mark = link->sent_mark;
        size_t left = link->unsent_bytes, part = step < left ? step : left;
        size_t here = b->len - b->off < part ? b->len - b->off : part;
        MR_ASSERT(memcmp(b->bytes + b->off, octets + at, here) == 0);
        mr_unsent_take(mem, link, part);
        MR_ASSERT(link->sent_mark == mark + 1 && link->unsent_bytes == left - part);
        (void)count_blocks(link);
        at += part;
    }
    MR_ASSERT(link->unsent_bytes == 0 && link->unsent_last == NULL && mem->used_bytes == 0);
}

static mr_rc add(mr_mem *mem, mr_link *link, size_t from, size_t to, mr_lease *lease) {
    mr_piece_out piece = {.bytes = octets + from, .len = to - from, .lease = lease};
    return mr_unsent_add(mem, link, &piece, 1, 0);
}

/* Small pieces share a block for as long as they fit into it. */
static void sharing(void) {
    static const struct {
        size_t first, second;
        uint32_t blocks;
    } cases[] = {{1, 1, 1},
                 {1, BLOCK_BYTES - 1, 1},
                 {1, BLOCK_BYTES, 2},
                 {BLOCK_BYTES - 1, 1, 1},
                 {BLOCK_BYTES - 1, 2, 2},
                 {BLOCK_BYTES, 1, 2},
                 {BLOCK_BYTES + 1, 1, 2},
                 {1, BLOCK_BYTES + 1, 2},
                 {BLOCK_BYTES + 1, BLOCK_BYTES + 1, 2}};
    static const size_t steps[] = {1, 7, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1, SIZE_MAX};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (size_t s = 0; s < sizeof steps / sizeof steps[0]; s++) {
            mr_mem mem = {0};
            mr_link link = {0};
            size_t end = cases[i].first + cases[i].second;
            MR_ASSERT(add(&mem, &link, 0, cases[i].first, NULL) == MR_OK);
            MR_ASSERT(add(&mem, &link, cases[i].first, end, NULL) == MR_OK);
            MR_ASSERT(count_blocks(&link) == cases[i].blocks && link.unsent_bytes == end);
            take_all(&mem, &link, steps[s]);
        }
}

/* Octets that were sent make no room: what follows goes behind. */
static void adding_to_a_begun_block(void) {
    mr_mem mem = {0};
    mr_link link = {0};
    MR_ASSERT(add(&mem, &link, 0, BLOCK_BYTES - 10, NULL) == MR_OK);
    mr_unsent_take(&mem, &link, BLOCK_BYTES - 20);
    MR_ASSERT(add(&mem, &link, 0, 10, NULL) == MR_OK && count_blocks(&link) == 1);
    MR_ASSERT(add(&mem, &link, 0, 1, NULL) == MR_OK && count_blocks(&link) == 2);
    MR_ASSERT(link.unsent_bytes == 21);
    mr_unsent_clear(&mem, &link);
    MR_ASSERT(mem.used_bytes == 0 && link.unsent_bytes == 0 && link.unsent_last == NULL);
    mr_unsent_clear(&mem, &link);
}

/* A loan is never copied nor joined, and comes back when its last octet has gone, not before. */
static void loans(void) {
    for (size_t step = 1; step < 3000; step = step * 3 + 1) {
        mr_mem mem = {0};
        mr_link link = {0};
        loan one, two;
        lend(&one);
        lend(&two);
        MR_ASSERT(add(&mem, &link, 0, 100, NULL) == MR_OK);
        MR_ASSERT(add(&mem, &link, 100, 600, &one.lease) == MR_OK);
        MR_ASSERT(add(&mem, &link, 600, 700, &one.lease) == MR_OK);
        MR_ASSERT(add(&mem, &link, 700, 800, NULL) == MR_OK);
        MR_ASSERT(add(&mem, &link, 800, 900, &two.lease) == MR_OK);
        MR_ASSERT(count_blocks(&link) == 5 && link.unsent_bytes == 900);
        MR_ASSERT(one.lease.borrowers == 3 && two.lease.borrowers == 2);
        MR_ASSERT(link.unsent->next->bytes == octets + 100);
        mr_lease_return(&one.lease);
        mr_lease_return(&two.lease);
        mr_unsent_take(&mem, &link, 699);
        MR_ASSERT(one.returns == 0 && one.lease.borrowers == 1);
        mr_unsent_take(&mem, &link, 1);
        MR_ASSERT(one.returns == 1 && two.returns == 0);
        size_t at = 700;
        while (link.unsent != NULL) {
            size_t part = step < link.unsent_bytes ? step : link.unsent_bytes;
            at += part;
            mr_unsent_take(&mem, &link, part);
            MR_ASSERT(two.returns == (at == 900));
        }
        MR_ASSERT(one.returns == 1 && two.returns == 1 && mem.used_bytes == 0);
    }
}

static void clearing_loans(void) {
    mr_mem mem = {0};
    mr_link link = {0};
    loan one;
    lend(&one);
    for (size_t i = 0; i < 10; i++)
        MR_ASSERT(add(&mem, &link, i, i + 10, i % 2 ? &one.lease : NULL) == MR_OK);
    mr_lease_return(&one.lease);
    mr_unsent_take(&mem, &link, 15);
    MR_ASSERT(one.returns == 0);
    mr_unsent_clear(&mem, &link);
    MR_ASSERT(one.returns == 1 && mem.used_bytes == 0 && link.unsent_bytes == 0);
}

/* What the socket took of the first pieces is left out, wherever it ends. */
static void skipping(void) {
    for (size_t skip = 0; skip <= 60; skip++) {
        mr_mem mem = {0};
        mr_link link = {0};
        loan one;
        lend(&one);
        mr_piece_out pieces[4] = {{.bytes = octets, .len = 10},
                                  {.bytes = octets + 10, .len = 20, .lease = &one.lease},
                                  {.bytes = octets + 30, .len = 0},
                                  {.bytes = octets + 30, .len = 30}};
        MR_ASSERT(mr_unsent_add(&mem, &link, pieces, 4, skip) == MR_OK);
        MR_ASSERT(link.unsent_bytes == 60 - skip && (link.unsent == NULL) == (skip == 60));
        MR_ASSERT(one.lease.borrowers == (skip < 30 ? 2 : 1));
        size_t at = skip;
        for (const mr_unsent *b = link.unsent; b != NULL; at += b->len, b = b->next)
            MR_ASSERT(memcmp(b->bytes, octets + at, b->len) == 0);
        MR_ASSERT(at == 60);
        mr_unsent_clear(&mem, &link);
        MR_ASSERT(one.lease.borrowers == 1 && one.returns == 0 && mem.used_bytes == 0);
    }
}

/* Some of it is queued when memory is short; all of it is given back. */
static void without_memory(void) {
    for (int64_t n = 1; n < 4; n++) {
        mr_mem mem = {0};
        mr_link link = {0};
        loan one;
        lend(&one);
        mr_piece_out pieces[3] = {{.bytes = octets, .len = BLOCK_BYTES},
                                  {.bytes = octets, .len = 20, .lease = &one.lease},
                                  {.bytes = octets, .len = 30}};
        mem.fail_after = n;
        mr_rc rc = mr_unsent_add(&mem, &link, pieces, 3, 0);
        MR_ASSERT(rc == (n < 3 ? MR_NOMEM : MR_OK) && count_blocks(&link) == (uint32_t)n);
        MR_ASSERT(one.lease.borrowers == (n > 1 ? 2 : 1));
        mr_unsent_clear(&mem, &link);
        MR_ASSERT(one.lease.borrowers == 1 && mem.used_bytes == 0);
    }
}

int main(void) {
    fill_octets();
    sharing();
    adding_to_a_begun_block();
    loans();
    clearing_loans();
    skipping();
    without_memory();
    return 0;
}
