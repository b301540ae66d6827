/* mailbox_threads_test.c -- two threads and a mailbox: all arrives once, in order, undamaged; and
 * both roles may pass to other threads under a lock. */
/* link: base/mem.c */
#include "engine/mailbox.c"
#include "engine/bell.h"
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

enum {
    CAPACITY = 16384,
    LARGE_MAX = 40000,
    LEN_MAX = 6000,
    MESSAGES = 1500000,
    HANDED_MESSAGES = 60000,
    TURN = 37, /* messages until a role passes on */
    SEED = 12345
};

typedef struct side {
    uint32_t next; /* number of the message */
    uint64_t seed; /* of its length and content: both sides draw the same */
} side;

typedef struct rig {
    mr_mem mem;
    mr_mailbox *box;
    mr_bell bell;
    uint32_t messages;
    side in, out;
    uint64_t refused;
    pthread_mutex_t in_lock, out_lock; /* of the tests in which a role passes on */
    _Atomic uint32_t is_woken, is_over;
} rig;

static uint32_t draw(side *s) {
    s->seed = s->seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(s->seed >> 33);
}

/* Mostly short, some around the longest in the ring, a few blocks. */
static size_t draw_length(side *s) {
    uint32_t kind = draw(s) % 256;
    return kind == 0 ? draw(s) % LEN_MAX : kind < 16 ? 2010 + draw(s) % 32 : draw(s) % 100;
}

static void fill(side *s, uint8_t *bytes, size_t len) {
    uint64_t word = draw(s);
    for (size_t i = 0; i < len; i++)
        bytes[i] = (uint8_t)(word >> i % 4 * 8) ^ (uint8_t)i;
}

static mr_mail make_mail(side *s, uint8_t *bytes) {
    size_t len = draw_length(s);
    fill(s, bytes, len);
    uint32_t n = s->next++;
    return (mr_mail){.kind = (uint16_t)n,
                     .flags = (uint16_t)(n >> 16),
                     .generation = n ^ 0x5555u,
                     .name = n + 1,
                     .call = (uint64_t)n * n,
                     .bytes = bytes,
                     .len = len};
}

static void post_one(rig *r) {
    uint8_t bytes[LEN_MAX];
    mr_mail mail = make_mail(&r->in, bytes);
    mr_rc rc;
    while ((rc = mr_mailbox_post(r->box, &mail)) == MR_LIMIT) {
        r->refused++;
        sched_yield();
    }
    MR_ASSERT(rc == MR_OK);
    memset(bytes, 0, mail.len); /* the box has its own */
}

static bool take_one(rig *r) {
    uint8_t bytes[LEN_MAX];
    mr_mail got;
    if (!mr_mailbox_peek(r->box, &got))
        return false;
    mr_mail wanted = make_mail(&r->out, bytes);
    MR_ASSERT(got.kind == wanted.kind && got.flags == wanted.flags && got.call == wanted.call);
    MR_ASSERT(got.generation == wanted.generation && got.name == wanted.name);
    MR_ASSERT(got.len == wanted.len && memcmp(got.bytes, bytes, got.len) == 0);
    mr_mailbox_pop(r->box);
    return true;
}

static void begin(rig *r, uint32_t messages) {
    *r = (rig){.messages = messages, .in.seed = SEED, .out.seed = SEED};
    MR_ASSERT(pthread_mutex_init(&r->in_lock, NULL) == 0);
    MR_ASSERT(pthread_mutex_init(&r->out_lock, NULL) == 0);
    MR_ASSERT(mr_mailbox_create(&r->mem, CAPACITY, LARGE_MAX, &r->box) == MR_OK);
}

static void finish(rig *r) {
    MR_ASSERT(r->in.next == r->messages && r->out.next == r->messages);
    MR_ASSERT(mr_mailbox_depth(r->box) == 0 && mr_mailbox_bytes(r->box) == 0);
    MR_ASSERT(mr_mailbox_refused(r->box) == r->refused);
    mr_mailbox_destroy(r->box);
    MR_ASSERT(r->mem.used_bytes == 0);
    MR_ASSERT(pthread_mutex_destroy(&r->in_lock) == 0);
    MR_ASSERT(pthread_mutex_destroy(&r->out_lock) == 0);
}

static pthread_t start(void *(*work)(void *), rig *r) {
    pthread_t thread;
    MR_ASSERT(pthread_create(&thread, NULL, work, r) == 0);
    return thread;
}

static void join(pthread_t thread) { MR_ASSERT(pthread_join(thread, NULL) == 0); }

/* -- one producer, one consumer, and one who looks -- */

static void *post_all(void *arg) {
    rig *r = arg;
    while (r->in.next < r->messages)
        post_one(r);
    return NULL;
}

/* Approximate, but never below zero: far below any wrapped difference. */
static void *watch(void *arg) {
    rig *r = arg;
    uint64_t refused = 0;
    while (!atomic_load(&r->is_over)) {
        MR_ASSERT(mr_mailbox_depth(r->box) <= r->messages);
        MR_ASSERT(mr_mailbox_bytes(r->box) <= (size_t)r->messages * LEN_MAX);
        uint64_t seen = mr_mailbox_refused(r->box);
        MR_ASSERT(seen >= refused);
        refused = seen;
        sched_yield();
    }
    return NULL;
}

static void test_stream(void) {
    static rig r;
    begin(&r, MESSAGES);
    pthread_t watcher = start(watch, &r), poster = start(post_all, &r);
    while (r.out.next < r.messages)
        if (!take_one(&r))
            sched_yield();
    join(poster);
    atomic_store(&r.is_over, 1);
    join(watcher);
    finish(&r);
}

/* -- the same, by bell: the consumer looks only when it was woken -- */

static void wake(void *arg) { atomic_store(&((rig *)arg)->is_woken, 1); }

static void *post_and_ring(void *arg) {
    rig *r = arg;
    while (r->in.next < r->messages) {
        post_one(r);
        mr_bell_ring(&r->bell, 70);
    }
    return NULL;
}

static void test_bell(void) {
    static rig r;
    uint64_t mail[MR_BELL_WORDS];
    begin(&r, MESSAGES / 2);
    mr_bell_open(&r.bell, wake, &r);
    pthread_t poster = start(post_and_ring, &r);
    while (r.out.next < r.messages) {
        if (atomic_exchange(&r.is_woken, 0) == 0) {
            sched_yield();
            continue;
        }
        mr_bell_answer(&r.bell, mail);
        if ((mail[1] >> 6 & 1) != 0)
            while (take_one(&r))
                continue;
    }
    join(poster);
    mr_bell_close(&r.bell);
    finish(&r);
}

/* -- roles that pass on -- */

static void *post_in_turns(void *arg) {
    rig *r = arg;
    for (bool is_last = false; !is_last; sched_yield()) {
        MR_ASSERT(pthread_mutex_lock(&r->in_lock) == 0);
        for (int i = 0; i < TURN && r->in.next < r->messages; i++)
            post_one(r);
        is_last = r->in.next == r->messages;
        MR_ASSERT(pthread_mutex_unlock(&r->in_lock) == 0);
    }
    return NULL;
}

static void *take_in_turns(void *arg) {
    rig *r = arg;
    for (bool is_last = false; !is_last; sched_yield()) {
        MR_ASSERT(pthread_mutex_lock(&r->out_lock) == 0);
        for (int i = 0; i < TURN && take_one(r); i++)
            continue;
        is_last = r->out.next == r->messages;
        MR_ASSERT(pthread_mutex_unlock(&r->out_lock) == 0);
    }
    return NULL;
}

static void test_handed_over(void) {
    static rig r;
    pthread_t threads[4];
    begin(&r, HANDED_MESSAGES);
    for (int i = 0; i < 4; i++)
        threads[i] = start(i < 2 ? post_in_turns : take_in_turns, &r);
    for (int i = 0; i < 4; i++)
        join(threads[i]);
    finish(&r);
}

int main(void) {
    test_stream();
    test_bell();
    test_handed_over();
    return 0;
}
