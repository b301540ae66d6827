/* bell_litmus_test.c -- engine/bell.h in every order that C11 allows, and the proof that this finds
 * the errors it is for.
 *
 * The atomic operations of bell.h are taken by a model of memory. Each location keeps all that was
 * ever written to it; each thread knows of each location from which write on it may still read; a
 * write with release carries what its thread knew, a read with acquire takes that over. So a plain
 * load may give something old, as on machines weaker than x86, unless the orders forbid it. (What
 * the model leaves out are loads that see a write which depends on them.) From each state every
 * thread is tried with everything its next operation may read, until no new state is found.
 *
 * Threads are plain functions, run again from the start for each step: what their operations gave
 * so far is played back, one more is carried out, and the next one leaves by longjmp. */
#include <stdatomic.h>
#include <stdint.h>
#include <sched.h>

static uint64_t model_load(const volatile void *at, memory_order order);
static void model_store(const volatile void *at, uint64_t value, memory_order order);
static uint64_t model_or(const volatile void *at, uint64_t value, memory_order order);
static uint64_t model_and(const volatile void *at, uint64_t value, memory_order order);
static uint64_t model_add(const volatile void *at, uint64_t value, memory_order order);
static uint64_t model_exchange(const volatile void *at, uint64_t value, memory_order order);
static int model_yield(void);

#undef atomic_load_explicit
#undef atomic_store_explicit
#undef atomic_fetch_or_explicit
#undef atomic_fetch_and_explicit
#undef atomic_fetch_add_explicit
#undef atomic_fetch_sub_explicit
#undef atomic_exchange_explicit
/* Back to the type that the real one gives. */
static inline uint32_t narrow(uint64_t value) { return (uint32_t)value; }
static inline uint64_t wide(uint64_t value) { return value; }
#define AS(at, value) _Generic((at), _Atomic uint32_t * : narrow, default : wide)(value)
#define atomic_load_explicit(at, order) AS(at, model_load(at, order))
#define atomic_store_explicit(at, value, order) model_store(at, value, order)
#define atomic_fetch_or_explicit(at, value, order) AS(at, model_or(at, value, order))
#define atomic_fetch_and_explicit(at, value, order) AS(at, model_and(at, value, order))
#define atomic_fetch_add_explicit(at, value, order) AS(at, model_add(at, value, order))
#define atomic_fetch_sub_explicit(at, value, order)                                                \
    AS(at, model_add(at, 0 - (uint64_t)(value), order))
#define atomic_exchange_explicit(at, value, order) AS(at, model_exchange(at, value, order))
#define sched_yield() model_yield()

#include "engine/bell.h"
#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PRODUCERS_MAX = 2,
    THREADS_MAX = PRODUCERS_MAX + 1, /* the last one in use is the consumer */
    PLACES = MR_BELL_WORDS + 2 + PRODUCERS_MAX,
    WRITES_MAX = 22, /* to one place */
    STEPS_MAX = 72,  /* of one thread */
    DEPTH_MAX = STEPS_MAX * THREADS_MAX,
    SEEN_MAX = 1 << 21 /* states; a power of two */
};

/* How many writes of each place are known: those before are out of reach. */
typedef struct view {
    uint8_t from[8];
} view;

_Static_assert(PLACES <= 8, "a view has them all, and a write no padding");

typedef struct write {
    uint32_t value;
    view carried;
} write;

typedef struct thread {
    uint32_t results[STEPS_MAX];
    uint8_t steps;
    view known;
} thread;

typedef struct state {
    write writes[PLACES][WRITES_MAX];
    uint8_t counts[PLACES];
    thread threads[THREADS_MAX];
    uint8_t is_woken; /* the consumer's loop has to run once more */
    uint8_t inside;   /* threads within wake() */
    uint8_t is_shut;  /* close has returned */
} state;

typedef enum verdict { CLEAN, LOST, INSIDE, STUCK } verdict;

typedef struct protocol {
    const char *name;
    void (*ring)(mr_bell *, unsigned);
    void (*answer)(mr_bell *, uint64_t *);
    void (*open)(mr_bell *, void (*)(void *), void *);
    void (*close)(mr_bell *);
} protocol;

typedef struct scenario {
    const char *name;
    int producers, messages; /* of the first producer; each further one posts one less */
    bool is_open;            /* from the beginning */
    bool reopens;            /* open, one wake-up, close, open */
} scenario;

/* What is being explored. */
static const protocol *by;
static const scenario *now;
static mr_bell bell;
static _Atomic uint32_t boxes[PRODUCERS_MAX]; /* number of messages posted */
static uint64_t *seen_states;
static size_t seen_count, end_count;
static verdict found;

/* One step. */
typedef enum step_result { STEPPED, BLOCKED, NO_SUCH_CHOICE } step_result;
static state *world;
static thread *self;
static int cursor, choice;
static bool is_done, spins;
static jmp_buf leave;
static uint32_t delivered[PRODUCERS_MAX]; /* as the consumer's run so far has seen it */

/* -- the memory -- */

static int place_of(const volatile void *at) {
    for (int i = 0; i < (int)MR_BELL_WORDS; i++)
        if (at == (const volatile void *)&bell.mail[i])
            return i;
    if (at == (const volatile void *)&bell.is_rung)
        return MR_BELL_WORDS;
    if (at == (const volatile void *)&bell.ringers)
        return MR_BELL_WORDS + 1;
    int box = at == (const volatile void *)&boxes[0] ? 0 : 1;
    MR_ASSERT(at == (const volatile void *)&boxes[box]);
    return (int)MR_BELL_WORDS + 2 + box;
}

static bool acquires(memory_order o) {
    return o != memory_order_relaxed && o != memory_order_release;
}
static bool releases(memory_order o) {
    return o != memory_order_relaxed && o != memory_order_acquire;
}

static void join(view *to, const view *from) {
    for (int i = 0; i < PLACES; i++)
        if (from->from[i] > to->from[i])
            to->from[i] = from->from[i];
}

static const write *look(int place, int index, memory_order order) {
    const write *w = &world->writes[place][index];
    self->known.from[place] = (uint8_t)index;
    if (acquires(order))
        join(&self->known, &w->carried);
    return w;
}

/* `before`: the write that a read-modify-write has read, whose release sequence it goes on with. */
static void append(int place, uint64_t value, memory_order order, const write *before) {
    MR_ASSERT(world->counts[place] < WRITES_MAX && value <= UINT32_MAX);
    uint8_t index = world->counts[place]++;
    write *w = &world->writes[place][index];
    *w = (write){.value = (uint32_t)value};
    self->known.from[place] = index;
    if (before != NULL)
        w->carried = before->carried;
    if (releases(order))
        join(&w->carried, &self->known);
    w->carried.from[place] = index;
}

/* -- steps: true when the operation is to be carried out now -- */

static bool play(uint64_t *result) {
    if (cursor < self->steps) {
        *result = self->results[cursor++];
        return false;
    }
    if (is_done)
        longjmp(leave, STEPPED + 1);
    return true;
}

static uint64_t did(uint64_t result) {
    MR_ASSERT(self->steps < STEPS_MAX && result <= UINT32_MAX);
    self->results[self->steps++] = (uint32_t)result;
    cursor++;
    is_done = true;
    return result;
}

static void only_choice(void) {
    if (choice > 0)
        longjmp(leave, NO_SUCH_CHOICE + 1);
}

static uint64_t model_load(const volatile void *at, memory_order order) {
    uint64_t result;
    if (!play(&result))
        return result;
    int place = place_of(at), index = world->counts[place] - 1 - choice;
    if (index < self->known.from[place])
        longjmp(leave, NO_SUCH_CHOICE + 1);
    return did(look(place, index, order)->value);
}

static void model_store(const volatile void *at, uint64_t value, memory_order order) {
    uint64_t result;
    if (!play(&result))
        return;
    only_choice();
    append(place_of(at), value, order, NULL);
    did(0);
}

/* new = (old & keep | set) + more, at the end of the place's order: all writes of such a place but
 * the first are read-modify-writes, so each reads the one before it. */
static uint64_t change(const volatile void *at, uint64_t keep, uint64_t set, uint64_t more,
                       memory_order order) {
    uint64_t result;
    if (!play(&result))
        return result;
    only_choice();
    int place = place_of(at);
    const write *old = look(place, world->counts[place] - 1, order);
    append(place, (uint32_t)(((old->value & keep) | set) + more), order, old);
    return did(old->value);
}

static uint64_t model_or(const volatile void *at, uint64_t value, memory_order order) {
    return change(at, UINT64_MAX, value, 0, order);
}
static uint64_t model_and(const volatile void *at, uint64_t value, memory_order order) {
    return change(at, value, 0, 0, order);
}
static uint64_t model_add(const volatile void *at, uint64_t value, memory_order order) {
    return change(at, UINT64_MAX, 0, value, order);
}
static uint64_t model_exchange(const volatile void *at, uint64_t value, memory_order order) {
    return change(at, 0, value, 0, order);
}

/* Who spins is where it was before it looked: that state is known already. */
static int model_yield(void) {
    spins = true;
    longjmp(leave, BLOCKED + 1);
}

/* What is not memory: seen by all at once, but it orders nothing. */
typedef enum outside { ENTER, WAKE, LEAVE, WAIT, SHUT, UNSHUT } outside;

static void act(outside what) {
    uint64_t result;
    if (!play(&result))
        return;
    only_choice();
    if (what == WAIT && !world->is_woken)
        longjmp(leave, BLOCKED + 1);
    if ((what == ENTER && world->is_shut) || (what == SHUT && world->inside > 0))
        found = INSIDE;
    if (what == ENTER)
        world->inside++;
    else if (what == LEAVE)
        world->inside--;
    else if (what == SHUT || what == UNSHUT)
        world->is_shut = what == SHUT;
    else
        world->is_woken = what == WAKE;
    did(0);
}

/* -- the threads -- */

static void wake(void *arg) {
    MR_ASSERT(arg == &bell);
    act(ENTER);
    act(WAKE);
    act(LEAVE);
}

/* By the consumer itself, who cannot be inside while it closes. */
static void wake_self(void *arg) {
    MR_ASSERT(arg == &bell);
    act(WAKE);
}

static uint32_t messages_of(int producer) { return (uint32_t)(now->messages - producer); }

static void produce(int producer) {
    for (uint32_t i = 1; i <= messages_of(producer); i++) {
        atomic_store_explicit(&boxes[producer], i, memory_order_release);
        by->ring(&bell, (unsigned)producer);
    }
}

static void take_mail(void) {
    uint64_t mail[MR_BELL_WORDS];
    by->answer(&bell, mail);
    for (int i = 0; i < now->producers; i++)
        if ((mail[0] & UINT64_C(1) << i) != 0)
            delivered[i] = atomic_load_explicit(&boxes[i], memory_order_acquire);
}

/* open writes the plain fields, which the model does not follow: both are there from the start. */
static void open_bell(void) {
    by->open(&bell, wake_self, &bell);
    bell.ring = wake;
}

static void consume(void) {
    if (!now->is_open)
        open_bell();
    if (now->reopens) {
        act(WAIT);
        take_mail();
        by->close(&bell);
        act(SHUT);
        act(UNSHUT);
        open_bell();
    }
    for (;;) {
        act(WAIT);
        take_mail();
    }
}

/* One more step of thread t in `s`, with the n-th of what it may read. */
static step_result attempt(state *s, int t, int n) {
    world = s;
    self = &s->threads[t];
    cursor = 0;
    choice = n;
    is_done = false;
    bell.ring = wake;
    bell.arg = &bell;
    memset(delivered, 0, sizeof(delivered));
    int left = setjmp(leave);
    if (left != 0)
        return (step_result)(left - 1);
    if (t == now->producers)
        consume();
    else
        produce(t);
    return is_done ? STEPPED : BLOCKED;
}

/* -- all states -- */

/* Two states with one hash of 64 bits would pass for one: with a million of them, one chance in ten
 * million that some are missed. */
static uint64_t hash_of(const state *s) {
    uint64_t hash = 0, word = 0;
    for (size_t at = 0; at < sizeof(*s); at += sizeof(word)) {
        memcpy(&word, (const uint8_t *)s + at,
               sizeof(*s) - at < sizeof(word) ? sizeof(*s) - at : sizeof(word));
        hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 29;
    }
    return hash != 0 ? hash : 1;
}

static bool is_new(const state *s) {
    uint64_t hash = hash_of(s);
    size_t at = (size_t)hash & (SEEN_MAX - 1);
    while (seen_states[at] != 0) {
        if (seen_states[at] == hash)
            return false;
        at = (at + 1) & (SEEN_MAX - 1);
    }
    seen_states[at] = hash;
    seen_count++;
    MR_ASSERT(seen_count < SEEN_MAX / 4 * 3);
    return true;
}

/* Nobody can go on: all has to be posted and delivered. The consumer was the last one to run. */
static void check_end(void) {
    end_count++;
    if (spins) {
        found = STUCK;
        return;
    }
    for (int i = 0; i < now->producers; i++)
        if (delivered[i] != messages_of(i))
            found = LOST;
}

static void explore(const state *s) {
    bool is_end = true, has_spun = false;
    for (int t = 0; t <= now->producers && found == CLEAN; t++) {
        step_result result = STEPPED;
        for (int n = 0; result != NO_SUCH_CHOICE && found == CLEAN; n++) {
            state next;
            memcpy(&next, s, sizeof(next));
            spins = false;
            result = attempt(&next, t, n);
            has_spun |= spins;
            if (result == STEPPED) {
                is_end = false;
                if (found == CLEAN && is_new(&next))
                    explore(&next);
            } else if (result == BLOCKED && !spins) {
                break; /* it has ended or waits, with any choice */
            }
        }
    }
    spins = has_spun;
    if (is_end && found == CLEAN)
        check_end();
}

static verdict judge(const protocol *how, const scenario *what) {
    static state first;
    by = how;
    now = what;
    memset(&first, 0, sizeof(first));
    memset(seen_states, 0, SEEN_MAX * sizeof(*seen_states));
    memset(first.counts, 1, sizeof(first.counts)); /* the zeros of the beginning */
    if (what->is_open)
        first.writes[MR_BELL_WORDS + 1][0].value = MR_BELL_OPEN;
    found = CLEAN;
    seen_count = end_count = 0;
    explore(&first);
    return found;
}

/* -- what has to be found -- */

/* Asks first whether somebody has rung already. */
static void ring_by_look(mr_bell *b, unsigned source) {
    (void)atomic_fetch_or_explicit(&b->mail[0], UINT64_C(1) << source, memory_order_release);
    if (atomic_load_explicit(&b->is_rung, memory_order_relaxed) != 0)
        return;
    if (atomic_exchange_explicit(&b->is_rung, 1, memory_order_acq_rel) == 0)
        mr_bell_enter(b);
}

/* Rings before it says who. */
static void ring_early(mr_bell *b, unsigned source) {
    if (atomic_exchange_explicit(&b->is_rung, 1, memory_order_acq_rel) == 0)
        mr_bell_enter(b);
    (void)atomic_fetch_or_explicit(&b->mail[0], UINT64_C(1) << source, memory_order_release);
}

/* The bit may be seen before the message. */
static void ring_relaxed(mr_bell *b, unsigned source) {
    (void)atomic_fetch_or_explicit(&b->mail[0], UINT64_C(1) << source, memory_order_relaxed);
    if (atomic_exchange_explicit(&b->is_rung, 1, memory_order_acq_rel) == 0)
        mr_bell_enter(b);
}

static void answer_relaxed(mr_bell *b, uint64_t *mail) {
    (void)atomic_exchange_explicit(&b->is_rung, 0, memory_order_acq_rel);
    for (unsigned i = 0; i < MR_BELL_WORDS; i++)
        mail[i] = atomic_exchange_explicit(&b->mail[i], 0, memory_order_relaxed);
}

/* Who rings between the two finds it rung, and its bit is left. */
static void answer_late(mr_bell *b, uint64_t *mail) {
    for (unsigned i = 0; i < MR_BELL_WORDS; i++)
        mail[i] = atomic_exchange_explicit(&b->mail[i], 0, memory_order_acq_rel);
    (void)atomic_exchange_explicit(&b->is_rung, 0, memory_order_acq_rel);
}

static void open_silent(mr_bell *b, void (*ring)(void *), void *arg) {
    b->ring = ring;
    b->arg = arg;
    (void)atomic_fetch_or_explicit(&b->ringers, MR_BELL_OPEN, memory_order_acq_rel);
}

static void close_at_once(mr_bell *b) {
    (void)atomic_fetch_and_explicit(&b->ringers, ~MR_BELL_OPEN, memory_order_acq_rel);
}

#define OURS                                                                                       \
    .ring = mr_bell_ring, .answer = mr_bell_answer, .open = mr_bell_open, .close = mr_bell_close

static const protocol ours = {.name = "bell.h", OURS};

static const scenario two_producers = {"two producers", 2, 2, true, false};
static const scenario one_producer = {"one producer", 1, 4, true, false};
static const scenario opened = {"opened late", 2, 2, false, false};
static const scenario reopened = {"closed and opened again", 1, 3, false, true};

static void expect(const protocol *how, const scenario *what, verdict wanted) {
    static const char *const names[] = {"clean", "LOST", "INSIDE after close", "STUCK"};
    verdict got = judge(how, what);
    printf("%-20s %-26s %8zu states, %6zu ends: %s\n", how->name, what->name, seen_count, end_count,
           names[got]);
    fflush(stdout);
    MR_ASSERT(got == wanted);
    /* An exploration that goes nowhere finds nothing either. */
    MR_ASSERT(wanted != CLEAN || (end_count > 0 && seen_count > 100));
}

int main(void) {
    seen_states = malloc(SEEN_MAX * sizeof(*seen_states));
    MR_ASSERT(seen_states != NULL);
    expect(&ours, &one_producer, CLEAN);
    expect(&ours, &two_producers, CLEAN);
    expect(&ours, &opened, CLEAN);
    expect(&ours, &reopened, CLEAN);
#define BROKEN(field, function, scenario, verdict)                                                 \
    do {                                                                                           \
        protocol broken = ours;                                                                    \
        broken.name = #function;                                                                   \
        broken.field = function;                                                                   \
        expect(&broken, &scenario, verdict);                                                       \
    } while (0)
    BROKEN(ring, ring_by_look, one_producer, LOST);
    BROKEN(ring, ring_early, one_producer, LOST);
    BROKEN(ring, ring_relaxed, one_producer, LOST);
    BROKEN(answer, answer_relaxed, one_producer, LOST);
    BROKEN(answer, answer_late, one_producer, LOST);
    BROKEN(open, open_silent, opened, LOST);
    BROKEN(close, close_at_once, reopened, INSIDE);
    free(seen_states);
    return 0;
}
