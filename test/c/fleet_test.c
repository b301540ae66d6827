/* fleet_test.c -- seats and their tenants, messages, names, beats, what a thread leaves behind. The
 * malloc under base/mem.c is replaced, so that memory runs short inside create as well. */
/* link: engine/balance.c engine/permits.c engine/fleet_show.c engine/mailbox.c engine/meter.c */
/* link: engine/series.c engine/rate.c engine/access_log.c engine/access_line.c */
/* link: engine/metrics_text.c engine/metrics_put.c net/sock.c base/buf.c base/text.c */
/* link: base/clock.c */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

static struct {
    int64_t left; /* allocations before all fail; negative: none fails */
    int64_t live; /* blocks */
    bool has_failed;
} heap = {.left = -1};

static bool heap_fails(void) {
    if (heap.left < 0)
        return false;
    if (heap.left > 0) {
        heap.left--;
        return false;
    }
    heap.has_failed = true;
    return true;
}

static void *heap_malloc(size_t bytes) {
    void *block = heap_fails() ? NULL : malloc(bytes);
    heap.live += block != NULL;
    return block;
}

static void *heap_calloc(size_t count, size_t bytes) {
    void *block = heap_fails() ? NULL : calloc(count, bytes);
    heap.live += block != NULL;
    return block;
}

static void *heap_realloc(void *old, size_t bytes) {
    void *block = heap_fails() ? NULL : realloc(old, bytes);
    heap.live += block != NULL && old == NULL;
    return block;
}

static void heap_free(void *block) {
    heap.live -= block != NULL;
    free(block);
}

#define malloc heap_malloc
#define calloc heap_calloc
#define realloc heap_realloc
#define free heap_free
#include "base/mem.c"
#undef malloc
#undef calloc
#undef realloc
#undef free

#include "engine/fleet.c"
#include "base/buf.h"
#include <dirent.h>
#include <fcntl.h>
#include <sys/socket.h>

#define CHECK(claim)                                                                               \
    do {                                                                                           \
        if (!(claim)) {                                                                            \
            fprintf(stderr, "%s:%d: %s (in %s)\n", __FILE__, __LINE__, #claim, at_case);           \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static const char *at_case = "start";
static int fds_before;

static int count_fds(void) {
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");
    CHECK(folder != NULL);
    while (readdir(folder) != NULL)
        count++;
    closedir(folder);
    return count;
}

static mr_fleet *open_fleet(const char *name, uint32_t threads) {
    mr_fleet_options o = {
        .id = 9, .thread_count = threads, .balance = MR_BALANCE_ROTATE, .stuck_ms = 100};
    mr_fleet *f;
    at_case = name;
    fds_before = count_fds();
    CHECK(heap.live == 0 && mr_fleet_create(&o, &f) == MR_OK);
    return f;
}

static void close_fleet(mr_fleet *f) {
    mr_fleet_release(f);
    CHECK(heap.live == 0); /* whatever happened to it */
    CHECK(count_fds() == fds_before);
}

static uint32_t take_seat(mr_fleet *f, uint32_t thread) {
    uint32_t seat;
    CHECK(mr_fleet_take_seat(f, thread, &seat) == MR_OK && seat != MR_SUPERVISOR &&
          seat < f->seat_count);
    return seat;
}

static void count_ring(void *arg) { ++*(int *)arg; }

static uint32_t seat_up(mr_fleet *f, uint32_t thread, int *rings) {
    uint32_t seat = take_seat(f, thread);
    *rings = 0;
    mr_fleet_arrive(f, seat, count_ring, rings);
    mr_fleet_up(f, seat);
    return seat;
}

static mr_seat_state state_of(const mr_fleet *f, uint32_t at) {
    return mr_seat_state_of(&f->seats[at]);
}

static uint64_t lost(const mr_fleet *f) { return atomic_load(&f->mail_lost); }
static uint64_t dropped(const mr_fleet *f) { return atomic_load(&f->sockets_dropped); }
static uint32_t load_of(const mr_fleet *f, uint32_t at) { return atomic_load(&f->seats[at].load); }

static bool is_open_fd(int fd) { return fcntl(fd, F_GETFD) >= 0; }

/* A descriptor to hand around; nobody is on the other end. */
static int any_socket(void) {
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    return fd;
}

static mr_rc post(mr_fleet *f, uint32_t from, uint32_t to, uint64_t number) {
    mr_mail mail = {.kind = MR_MAIL_POST,
                    .call = number,
                    .generation = 77, /* filled in by post */
                    .bytes = (const uint8_t *)&number,
                    .len = sizeof number};
    return mr_fleet_post(f, from, to, &mail);
}

/* What a reader saw. */
typedef struct reader {
    uint64_t numbers[4096];
    uint32_t froms[4096], count, room;
    int fds[16];
    uint32_t fd_count;
} reader;

static reader seen;

static bool take_mail(void *arg, uint32_t from, const mr_mail *mail) {
    reader *r = arg;
    if (r->room == 0)
        return false;
    r->room--;
    if (mail->kind == MR_MAIL_SOCKET) {
        mr_handed_socket socket;
        CHECK(mail->len == sizeof socket && r->fd_count < 16);
        memcpy(&socket, mail->bytes, sizeof socket);
        r->fds[r->fd_count++] = socket.fd;
        return true;
    }
    CHECK(r->count < 4096 && mail->len == 8 && memcmp(mail->bytes, &mail->call, 8) == 0);
    r->froms[r->count] = from;
    r->numbers[r->count++] = mail->call;
    return true;
}

static bool read_mail(mr_fleet *f, uint32_t at, uint32_t room) {
    seen.count = seen.fd_count = 0;
    seen.room = room;
    return mr_fleet_read(f, at, take_mail, &seen);
}

/* ---- birth and death ---- */

static void creating(void) {
    mr_fleet_options o = {.thread_count = 0};
    mr_fleet *f;
    at_case = "creating";
    CHECK(mr_fleet_create(&o, &f) == MR_INVALID);
    o.thread_count = MR_FLEET_THREADS_MAX + 1;
    CHECK(mr_fleet_create(&o, &f) == MR_INVALID && heap.live == 0);
    f = open_fleet("as many as can be", MR_FLEET_THREADS_MAX);
    CHECK(f->id == 9 && f->seat_count == MR_FLEET_SEATS_MAX && f->stuck_ns == 100000000u);
    CHECK((uintptr_t)f->seats % CACHE_LINE == 0 && sizeof(mr_seat) % CACHE_LINE == 0);
    CHECK(state_of(f, MR_SUPERVISOR) == MR_SEAT_UP);
    for (uint32_t i = 0; i <= MR_FLEET_THREADS_MAX; i++)
        CHECK(mr_fleet_seat_of(f, i) == MR_NO_SEAT);
    mr_fleet_retain(f);
    mr_fleet_release(f);
    CHECK(state_of(f, 1) == MR_SEAT_FREE && heap.live > 0); /* one is still there */
    close_fleet(f);
    mr_fleet_release(NULL);
}

/* ---- seats ---- */

static void states(void) {
    mr_fleet *f = open_fleet("states", 2);
    uint32_t at = take_seat(f, 1), other;
    CHECK(mr_fleet_take_seat(f, 2, &other) == MR_INVALID);
    CHECK(state_of(f, at) == MR_SEAT_STARTING && mr_fleet_seat_of(f, 1) == at);
    mr_fleet_up(f, at);
    CHECK(state_of(f, at) == MR_SEAT_UP && mr_fleet_seat_of(f, 1) == at);
    mr_fleet_draining(f, at);
    CHECK(state_of(f, at) == MR_SEAT_DRAINING);
    mr_fleet_up(f, at); /* undone is nothing */
    CHECK(state_of(f, at) == MR_SEAT_DRAINING && mr_fleet_seat_of(f, 1) == at);
    mr_fleet_leave(f, at);
    CHECK(state_of(f, at) == MR_SEAT_GONE && mr_fleet_seat_of(f, 1) == MR_NO_SEAT);
    mr_fleet_up(f, at);
    mr_fleet_draining(f, at);
    CHECK(state_of(f, at) == MR_SEAT_GONE && mr_fleet_seat_of(f, 1) == MR_NO_SEAT);
    mr_fleet_reap(f, at);
    CHECK(state_of(f, at) == MR_SEAT_FREE);
    mr_fleet_draining(f, at);
    mr_fleet_up(f, at);
    CHECK(state_of(f, at) == MR_SEAT_FREE && mr_fleet_seat_of(f, 1) == MR_NO_SEAT);
    at = take_seat(f, 0); /* steps may be skipped */
    mr_fleet_draining(f, at);
    CHECK(state_of(f, at) == MR_SEAT_DRAINING);
    mr_fleet_leave(f, at);
    mr_fleet_reap(f, at);
    at = take_seat(f, 0); /* it could not be started */
    mr_fleet_reap(f, at);
    CHECK(state_of(f, at) == MR_SEAT_FREE && mr_fleet_seat_of(f, 0) == MR_NO_SEAT);
    close_fleet(f);
}

static void two_tenants(void) {
    mr_fleet *f = open_fleet("two tenants", 1);
    uint32_t old = take_seat(f, 0), new, third;
    uint32_t generation = atomic_load(&f->seats[old].generation);
    mr_fleet_up(f, old);
    new = take_seat(f, 0);
    CHECK(new != old &&mr_fleet_seat_of(f, 0) == old); /* messages go to who is there */
    CHECK(mr_fleet_take_seat(f, 0, &third) == MR_LIMIT && third == MR_NO_SEAT);
    mr_fleet_up(f, new);
    CHECK(mr_fleet_seat_of(f, 0) == new);
    mr_fleet_draining(f, old);
    mr_fleet_leave(f, old);
    CHECK(mr_fleet_seat_of(f, 0) == new); /* it is not the old one's to give up */
    CHECK(mr_fleet_take_seat(f, 0, &third) ==
          MR_LIMIT); /* the place is not free before the reaping */
    mr_fleet_reap(f, old);
    third = take_seat(f, 0);
    CHECK(third == old && atomic_load(&f->seats[old].generation) == generation + 1);
    CHECK(mr_fleet_seat_of(f, 0) == new);
    close_fleet(f);
}

static void two_for_each_thread(void) {
    mr_fleet *f = open_fleet("two for each thread", MR_FLEET_THREADS_MAX);
    uint32_t seat;
    for (uint32_t i = 0; i < 2 * MR_FLEET_THREADS_MAX; i++)
        (void)take_seat(f, i / 2);
    for (uint32_t i = 0; i < MR_FLEET_THREADS_MAX; i++)
        CHECK(mr_fleet_take_seat(f, i, &seat) == MR_LIMIT);
    close_fleet(f);
    f = open_fleet("no more for one", 3); /* free seats are the other threads' */
    (void)take_seat(f, 0), (void)take_seat(f, 0);
    CHECK(mr_fleet_take_seat(f, 0, &seat) == MR_LIMIT);
    for (uint32_t i = 0; i < 4; i++)
        (void)take_seat(f, 1 + i / 2);
    close_fleet(f);
}

static void a_new_tenant_starts_afresh(void) {
    int rings;
    mr_fleet *f = open_fleet("a new tenant", 1);
    uint32_t at = seat_up(f, 0, &rings);
    mr_fleet_ping(f, 5);
    CHECK(mr_fleet_beat(f, at, 7) == 2);
    mr_fleet_ping(f, 9);
    mr_meter_add(&f->seats[at].meter.accepted, 3);
    mr_meter_set(&f->seats[at].meter.connections, 3);
    mr_fleet_leave(f, at);
    mr_fleet_reap(f, at);
    CHECK(f->retired.accepted == 3);
    CHECK(mr_meter_get(&f->seats[at].meter.accepted) == 0);
    CHECK(take_seat(f, 0) == at);
    CHECK(atomic_load(&f->seats[at].pinged_ns) == 0 && atomic_load(&f->seats[at].beat_ns) == 0);
    CHECK(mr_meter_get(&f->seats[at].meter.connections) == 0);
    close_fleet(f);
}

/* ---- messages ---- */

static void posting(void) {
    int rings;
    mr_fleet *f = open_fleet("posting", 2);
    CHECK(post(f, MR_SUPERVISOR, 1, 1) == MR_GONE); /* free */
    CHECK(post(f, MR_SUPERVISOR, f->seat_count, 1) == MR_GONE);
    CHECK(post(f, f->seat_count, MR_SUPERVISOR, 1) == MR_GONE);
    CHECK(post(f, MR_NO_SEAT, MR_NO_SEAT, 1) == MR_GONE);
    uint32_t a = seat_up(f, 0, &rings), b = take_seat(f, 1);
    CHECK(rings == 1 && !read_mail(f, a, 9) && seen.count == 0);
    CHECK(post(f, b, a, 10) == MR_OK && post(f, MR_SUPERVISOR, a, 11) == MR_OK);
    CHECK(post(f, b, a, 12) == MR_OK && post(f, a, a, 13) == MR_OK);
    CHECK(rings == 2 && mr_fleet_mail_depth(f, a) == 4); /* one for all of them */
    CHECK(!read_mail(f, a, 9) && seen.count == 4 && mr_fleet_mail_depth(f, a) == 0);
    CHECK(seen.numbers[0] == 11 && seen.froms[0] == MR_SUPERVISOR);
    CHECK(seen.numbers[1] == 13 && seen.froms[1] == a);
    CHECK(seen.numbers[2] == 10 && seen.numbers[3] == 12 && seen.froms[3] == b);
    CHECK(post(f, a, b, 1) == MR_OK);             /* who is starting finds it */
    CHECK(post(f, b, MR_SUPERVISOR, 2) == MR_OK); /* it is always there */
    CHECK(!read_mail(f, MR_SUPERVISOR, 9) && seen.count == 1);
    mr_fleet_draining(f, a);
    CHECK(post(f, b, a, 1) == MR_OK);
    mr_fleet_leave(f, a);
    CHECK(post(f, b, a, 1) == MR_GONE && rings == 3);
    close_fleet(f);
}

static void mailbox_bounds(void) {
    int rings;
    mr_fleet *f = open_fleet("mailbox bounds", 1);
    uint32_t at = seat_up(f, 0, &rings);
    mr_mail huge = {.kind = MR_MAIL_POST, .bytes = (const uint8_t *)"", .len = MR_MAIL_MAX + 1ull};
    CHECK(mr_fleet_post(f, MR_SUPERVISOR, at, &huge) == MR_INVALID);
    uint32_t taken = MR_FLEET_MAILBOX_BYTES / (MR_MAIL_HEAD_BYTES + 8);
    for (uint32_t i = 0; i < taken; i++)
        CHECK(post(f, MR_SUPERVISOR, at, i) == MR_OK);
    CHECK(post(f, MR_SUPERVISOR, at, 1) == MR_LIMIT);
    CHECK(post(f, at, at, 2) == MR_OK); /* each pair has its own */
    CHECK(mr_fleet_mail_depth(f, at) == taken + 1);
    CHECK(read_mail(f, at, 1) && post(f, MR_SUPERVISOR, at, taken) == MR_OK);
    close_fleet(f);
}

static void reading_in_turns(void) {
    int rings;
    mr_fleet *f = open_fleet("reading in turns", 2);
    uint32_t at = seat_up(f, 0, &rings), other = take_seat(f, 1);
    for (uint32_t i = 0; i < READS_PER_TURN; i++)
        CHECK(post(f, MR_SUPERVISOR, at, i) == MR_OK);
    CHECK(!read_mail(f, at, 4096) &&
          seen.count == READS_PER_TURN); /* just as many as one turn takes */
    for (uint32_t i = 0; i < READS_PER_TURN + 1; i++)
        CHECK(post(f, MR_SUPERVISOR, at, i) == MR_OK);
    CHECK(post(f, other, at, 5000) == MR_OK);
    rings = 0;
    CHECK(read_mail(f, at, 4096) && seen.count == READS_PER_TURN);
    CHECK(rings == 1); /* for what stayed */
    CHECK(!read_mail(f, at, 4096) && seen.count == 2);
    CHECK(seen.numbers[0] == READS_PER_TURN && seen.numbers[1] == 5000);
    for (uint32_t i = 0; i < 5; i++)
        CHECK(post(f, MR_SUPERVISOR, at, i) == MR_OK);
    rings = 0;
    CHECK(read_mail(f, at, 3) && seen.count == 3 && rings == 1); /* the reader had enough */
    CHECK(read_mail(f, at, 0) && rings == 2);
    CHECK(!read_mail(f, at, 9) && seen.count == 2 && seen.numbers[0] == 3 && seen.numbers[1] == 4);
    close_fleet(f);
}

/* ---- sockets in the mail ---- */

static void sending_sockets(void) {
    int rings;
    mr_fleet *f = open_fleet("sending sockets", 1);
    mr_handed_socket s = {.fd = any_socket(), .listener = 3};
    uint32_t at = seat_up(f, 0, &rings);
    CHECK(mr_fleet_send_socket(f, MR_SUPERVISOR, f->seat_count, &s) == MR_GONE);
    CHECK(mr_fleet_send_socket(f, MR_SUPERVISOR, at + 1, &s) == MR_GONE);
    CHECK(load_of(f, at + 1) == 0 && is_open_fd(s.fd)); /* it is still the sender's */
    CHECK(mr_fleet_send_socket(f, MR_SUPERVISOR, at, &s) == MR_OK && load_of(f, at) == 1);
    while (post(f, MR_SUPERVISOR, at, 1) == MR_OK)
        ;
    CHECK(mr_fleet_send_socket(f, MR_SUPERVISOR, at, &s) == MR_LIMIT && load_of(f, at) == 1);
    (void)read_mail(f, at, 1);
    CHECK(seen.fd_count == 1 && seen.fds[0] == s.fd && load_of(f, at) == 1); /* on its way in */
    close(s.fd);
    close_fleet(f);
}

/* A thread that looked before the seat changed hands may post after it. */
static void post_late(mr_fleet *f, uint32_t from, uint32_t to, uint32_t generation, int fd) {
    mr_handed_socket s = {.fd = fd, .is_counted = true};
    mr_mail mail = {.kind = fd >= 0 ? MR_MAIL_SOCKET : MR_MAIL_POST,
                    .generation = generation,
                    .bytes = (const uint8_t *)&s,
                    .len = sizeof s};
    mr_mailbox *box;
    CHECK(mailbox_of(f, from, to, &box) == MR_OK && mr_mailbox_post(box, &mail) == MR_OK);
    if (fd >= 0) {
        CHECK(mr_fleet_admit(f, 0));
        atomic_fetch_add(&f->seats[to].load, 1);
    }
    mr_bell_ring(&f->seats[to].bell, from);
}

static void stale_mail(void) {
    int rings, fd;
    mr_fleet *f = open_fleet("stale mail", 1);
    uint32_t at = seat_up(f, 0, &rings);
    uint32_t old = atomic_load(&f->seats[at].generation);
    mr_fleet_leave(f, at);
    mr_fleet_reap(f, at);
    post_late(f, MR_SUPERVISOR, at, old, -1);
    post_late(f, MR_SUPERVISOR, at, old, fd = any_socket());
    CHECK(take_seat(f, 0) == at);
    mr_fleet_arrive(f, at, count_ring, &rings);
    CHECK(post(f, MR_SUPERVISOR, at, 5) == MR_OK);
    CHECK(!read_mail(f, at, 1) && seen.count == 1 && seen.numbers[0] == 5);
    CHECK(lost(f) == 1 && dropped(f) == 1 && !is_open_fd(fd));
    CHECK(atomic_load(&f->connections) == 0 && load_of(f, at) == 0);
    close_fleet(f);
}

static uint32_t listen_at(mr_fleet *f, uint32_t seat) {
    mr_listen_options o = {.address = "127.0.0.1", .backlog = 16};
    uint32_t listener;
    uint16_t port;
    int fd, error;
    CHECK(mr_fleet_listen(f, seat, "one", &o, &listener, &port, &fd, &error) == MR_OK && fd == -1);
    return listener;
}

static void what_is_left_behind(void) {
    int rings[2];
    mr_fleet *f = open_fleet("what is left behind", 2);
    uint32_t a = seat_up(f, 0, &rings[0]), b = seat_up(f, 1, &rings[1]);
    uint32_t listener = listen_at(f, a);
    CHECK(listen_at(f, b) == listener);
    mr_handed_socket s = {.listener = listener, .is_counted = true};
    for (int i = 0; i < 3; i++) {
        s.fd = any_socket();
        CHECK(mr_fleet_admit(f, 0) && mr_fleet_send_socket(f, MR_SUPERVISOR, a, &s) == MR_OK);
    }
    s.fd = any_socket();
    CHECK(mr_fleet_admit(f, 0) && mr_fleet_send_socket(f, b, a, &s) == MR_OK);
    CHECK(post(f, MR_SUPERVISOR, a, 1) == MR_OK && post(f, b, a, 2) == MR_OK);
    mr_fleet_leave(f, a);
    CHECK(load_of(f, a) == 4 && lost(f) == 0);
    mr_fleet_reap(f, a);
    CHECK(load_of(f, a) == 0 && load_of(f, b) == 4 && lost(f) == 2 && dropped(f) == 0);
    CHECK(mr_fleet_mail_depth(f, a) == 0);
    CHECK(!read_mail(f, b, 9) && seen.fd_count == 4 && seen.fds[3] == s.fd && is_open_fd(s.fd));
    for (int i = 0; i < 4; i++) {
        mr_fleet_drop_socket(f, &(mr_handed_socket){.fd = seen.fds[i], .is_counted = true});
        atomic_fetch_sub(&f->seats[b].load, 1);
    }
    CHECK(dropped(f) == 4 && atomic_load(&f->connections) == 0);
    /* Nobody is left to hand it to. */
    s.fd = any_socket();
    CHECK(mr_fleet_admit(f, 0) && mr_fleet_send_socket(f, MR_SUPERVISOR, b, &s) == MR_OK);
    mr_fleet_reap(f, b);
    CHECK(dropped(f) == 5 && !is_open_fd(s.fd) && load_of(f, b) == 0);
    CHECK(atomic_load(&f->connections) == 0);
    close_fleet(f);
}

static void releasing_with_mail(void) {
    int rings;
    mr_fleet *f = open_fleet("releasing with mail", 1);
    uint32_t at = seat_up(f, 0, &rings);
    mr_handed_socket s = {.fd = any_socket(), .listener = listen_at(f, at)};
    CHECK(mr_fleet_send_socket(f, MR_SUPERVISOR, at, &s) == MR_OK);
    CHECK(post(f, at, MR_SUPERVISOR, 1) == MR_OK);
    close_fleet(f); /* counts descriptors and blocks */
}

static void leaving_stops_serving(void) {
    int rings;
    mr_fleet *f = open_fleet("leaving stops serving", MR_FLEET_THREADS_MAX);
    uint32_t last = 0;
    for (uint32_t i = 0; i < 2 * MR_FLEET_THREADS_MAX; i++)
        last = take_seat(f, i / 2); /* seat 128 is in the third word */
    CHECK(last == MR_FLEET_SEATS_MAX - 1);
    uint32_t listener = listen_at(f, last);
    CHECK(listen_at(f, 1) == listener);
    CHECK(atomic_load(&f->listeners[listener].users[2]) == 1);
    mr_fleet_arrive(f, last, count_ring, &rings);
    mr_fleet_leave(f, last);
    CHECK(atomic_load(&f->listeners[listener].users[2]) == 0);
    CHECK(atomic_load(&f->listeners[listener].users[0]) == 2);
    close_fleet(f);
}

/* ---- beats ---- */

static void beats(void) {
    int rings, more;
    mr_fleet *f = open_fleet("beats", 3);
    uint32_t at = seat_up(f, 0, &rings), starting = take_seat(f, 1),
             draining = seat_up(f, 2, &more);
    mr_fleet_draining(f, draining);
    CHECK(!mr_fleet_is_stuck(f, at, UINT64_MAX) && mr_fleet_beat(f, at, 500) == 0);
    CHECK(!read_mail(f, at, 1));
    rings = 0;
    mr_fleet_ping(f, 1000);
    CHECK(rings == 1 && atomic_load(&f->seats[at].pinged_ns) == 1000);
    CHECK(atomic_load(&f->seats[starting].pinged_ns) == 0);
    CHECK(atomic_load(&f->seats[draining].pinged_ns) == 1000);
    mr_fleet_ping(f, 2000);
    CHECK(atomic_load(&f->seats[at].pinged_ns) == 1000); /* the first one counts */
    CHECK(!mr_fleet_is_stuck(f, at, 900) && !mr_fleet_is_stuck(f, at, 1000));
    CHECK(!mr_fleet_is_stuck(f, at, 1000 + f->stuck_ns - 1));
    CHECK(mr_fleet_is_stuck(f, at, 1000 + f->stuck_ns));
    CHECK(mr_fleet_beat(f, at, 4000) == 3000 && !mr_fleet_is_stuck(f, at, UINT64_MAX));
    CHECK(atomic_load(&f->seats[at].beat_ns) == 4000 && mr_fleet_beat(f, at, 5000) == 0);
    mr_fleet_ping(f, 6000);
    CHECK(mr_fleet_beat(f, at, 5900) == 0); /* clocks of two threads */
    close_fleet(f);
}

/* ---- names ---- */

static void names(void) {
    mr_fleet *f = open_fleet("names", 1);
    char text[MR_FLEET_NAME_BYTES + 2], back[MR_FLEET_NAME_BYTES + 1];
    uint32_t number;
    memset(text, 'n', sizeof text);
    CHECK(mr_fleet_name(f, text, 0, &number) == MR_INVALID);
    CHECK(mr_fleet_name(f, text, MR_FLEET_NAME_BYTES + 1, &number) == MR_INVALID);
    CHECK(mr_fleet_name(f, "a\0b", 3, &number) == MR_INVALID);
    CHECK(mr_fleet_name_text(f, 0, back) == 0);
    CHECK(mr_fleet_name(f, text, MR_FLEET_NAME_BYTES, &number) == MR_OK && number == 0);
    CHECK(mr_fleet_name(f, text, 3, &number) == MR_OK && number == 1); /* no prefix of another */
    CHECK(mr_fleet_name(f, text, MR_FLEET_NAME_BYTES, &number) == MR_OK && number == 0);
    CHECK(mr_fleet_name_text(f, 0, back) == MR_FLEET_NAME_BYTES && memcmp(back, text, 256) == 0);
    CHECK(mr_fleet_name_text(f, 1, back) == 3 && strcmp(back, "nnn") == 0);
    for (uint32_t i = 2; i < MR_FLEET_NAMES_MAX; i++) {
        size_t len = (size_t)snprintf(text, sizeof text, "name-%u", i);
        CHECK(mr_fleet_name(f, text, len, &number) == MR_OK && number == i);
    }
    CHECK(mr_fleet_name(f, "one more", 8, &number) == MR_LIMIT);
    CHECK(mr_fleet_name(f, "name-4095", 9, &number) == MR_OK && number == 4095);
    CHECK(mr_fleet_name_text(f, 4095, back) == 9 && mr_fleet_name_text(f, 4096, back) == 0);
    close_fleet(f);
}

/* ---- the limit of all threads ---- */

static void admitting(void) {
    mr_fleet *f = open_fleet("admitting", 1);
    CHECK(mr_fleet_admit(f, 2) && mr_fleet_admit(f, 2));
    CHECK(!mr_fleet_admit(f, 2) && !mr_fleet_admit(f, 1) && atomic_load(&f->connections) == 2);
    mr_fleet_dismiss(f);
    CHECK(mr_fleet_admit(f, 2) && !mr_fleet_admit(f, 2));
    CHECK(mr_fleet_admit(f, 0) && atomic_load(&f->connections) == 3); /* any number */
    close_fleet(f);
}

/* ---- memory ---- */

/* One of each that allocates. Returns whether all of it went well. */
static bool live_once(void) {
    static const mr_series_def def = {.kind = MR_SERIES_COUNTER, .name = {"c", 1}};
    static const mr_rate_options rate = {.per_second = 1, .burst = 1, .entries = 64};
    mr_fleet_options o = {.thread_count = 1, .balance = MR_BALANCE_ROTATE, .stuck_ms = 1};
    mr_series_place place;
    mr_buf text = {0};
    mr_mem mem = {0};
    mr_rate *shared;
    const char *problem;
    mr_fleet *f;
    uint32_t at, number;
    bool is_well, is_all = true;
    uint8_t large[10000] = {0};
    mr_mail block = {.kind = MR_MAIL_POST, .bytes = large, .len = sizeof large};
    if (mr_fleet_create(&o, &f) != MR_OK)
        return false;
    at = take_seat(f, 0);
    mr_handed_socket s = {.fd = any_socket(), .listener = listen_at(f, at)};
    mr_fleet_up(f, at);
    is_all &= mr_fleet_name(f, "a", 1, &number) == MR_OK;
    is_all &= mr_fleet_route(f, "/a", 2) == 0;
    is_all &= mr_fleet_define(f, at, &def, &place, &problem) == MR_OK;
    is_all &= mr_fleet_get_rate(f, &rate, &shared) == MR_OK;
    CHECK((shared != NULL) == (f->rate != NULL));
    is_all &= post(f, at, MR_SUPERVISOR, 1) == MR_OK;
    is_all &= mr_fleet_post(f, at, MR_SUPERVISOR, &block) == MR_OK;
    is_all &= mr_fleet_hand_over(f, MR_NO_SEAT, &s) == MR_OK; /* closed if not */
    is_all &= mr_fleet_metrics_text(f, &mem, &text, 1) == MR_OK;
    is_all &= mr_fleet_health_text(f, &mem, &text, 1, false, &is_well) == MR_OK;
    mr_buf_dispose(&mem, &text);
    CHECK(mem.used_bytes == 0);
    mr_fleet_reap(f, at);
    mr_fleet_release(f);
    return is_all;
}

static void short_memory(void) {
    int64_t allowed = 0;
    at_case = "short memory";
    fds_before = count_fds();
    for (bool is_all = false; !is_all; allowed++) {
        CHECK(allowed < 200);
        heap.left = allowed;
        heap.has_failed = false;
        is_all = live_once();
        CHECK(is_all != heap.has_failed); /* a shortage shows, and nothing else does */
        CHECK(heap.live == 0 && count_fds() == fds_before);
    }
    heap.left = -1;
    CHECK(allowed > 10); /* the loop did run short at many places */
}

int main(void) {
    creating();
    states();
    two_tenants();
    two_for_each_thread();
    a_new_tenant_starts_afresh();
    posting();
    mailbox_bounds();
    reading_in_turns();
    sending_sockets();
    stale_mail();
    what_is_left_behind();
    releasing_with_mail();
    leaving_stops_serving();
    beats();
    names();
    admitting();
    short_memory();
    return 0;
}
