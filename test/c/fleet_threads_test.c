/* fleet_threads_test.c -- threads that come and go on their seats, post to each other and hand over
 * connections while a supervisor reaps, pings and looks: every message and every descriptor is
 * accounted for, and the one limit is never exceeded by one. */
/* link: engine/balance.c engine/permits.c engine/fleet_show.c engine/mailbox.c engine/meter.c */
/* link: engine/series.c engine/rate.c engine/access_log.c engine/access_line.c */
/* link: engine/metrics_text.c engine/metrics_put.c net/sock.c base/mem.c base/buf.c base/text.c */
/* link: base/clock.c */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "engine/fleet.c"
#include "base/buf.h"
#include <dirent.h>
#include <sys/socket.h>

enum { THREADS = 3, LIVES = 40, POSTS = 60, LIMIT = 2, ADMITS = 20000 };

static mr_fleet *fleet;
static _Atomic uint64_t posted, delivered, refused, sockets_sent, sockets_got;

static int count_fds(void) {
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");
    MR_ASSERT(folder != NULL);
    while (readdir(folder) != NULL)
        count++;
    closedir(folder);
    return count;
}

static void *in_new_thread(pthread_t *thread, void *(*work)(void *), void *arg) {
    MR_ASSERT(pthread_create(thread, NULL, work, arg) == 0);
    return arg;
}

/* ---- the one limit ---- */

static atomic_uint inside;
static _Atomic uint64_t let_in;

static void *go_in_and_out(void *arg) {
    (void)arg;
    for (int i = 0; i < ADMITS; i++) {
        if (!mr_fleet_admit(fleet, LIMIT))
            continue;
        MR_ASSERT(atomic_fetch_add(&inside, 1) < LIMIT);
        atomic_fetch_add(&let_in, 1);
        atomic_fetch_sub(&inside, 1);
        mr_fleet_dismiss(fleet);
    }
    return NULL;
}

static void *stay(void *arg) {
    for (int i = 0; i < ADMITS; i++)
        *(uint32_t *)arg += mr_fleet_admit(fleet, ADMITS);
    return NULL;
}

static void the_limit_is_exact(void) {
    pthread_t threads[THREADS];
    uint32_t admitted[THREADS] = {0};
    for (int i = 0; i < THREADS; i++)
        (void)in_new_thread(&threads[i], go_in_and_out, NULL);
    for (int i = 0; i < THREADS; i++)
        MR_ASSERT(pthread_join(threads[i], NULL) == 0);
    MR_ASSERT(atomic_load(&fleet->connections) == 0 && let_in >= LIMIT);
    for (int i = 0; i < THREADS; i++)
        (void)in_new_thread(&threads[i], stay, &admitted[i]);
    for (int i = 0; i < THREADS; i++)
        MR_ASSERT(pthread_join(threads[i], NULL) == 0);
    /* Of three times as many as fit. Who is turned away counts for a moment, so it may turn another
     * one away; but never more than the limit are in. */
    uint32_t in = admitted[0] + admitted[1] + admitted[2];
    MR_ASSERT(in == atomic_load(&fleet->connections) && in <= ADMITS);
    while (in-- > 0)
        mr_fleet_dismiss(fleet);
}

/* ---- a thread's life ---- */

typedef struct life {
    pthread_t thread;
    uint32_t seat, listener;
    atomic_uint rung; /* as a loop would be woken */
    atomic_bool has_ended;
    uint64_t next[MR_FLEET_SEATS_MAX]; /* of each sender: numbers rise */
    uint32_t seed;
} life;

static bool take(void *arg, uint32_t from, const mr_mail *mail) {
    life *l = arg;
    if (mail->kind == MR_MAIL_SOCKET) {
        mr_handed_socket s;
        MR_ASSERT(mail->len == sizeof s);
        memcpy(&s, mail->bytes, sizeof s);
        MR_ASSERT(close(s.fd) == 0);
        mr_fleet_dismiss(fleet);
        atomic_fetch_sub(&fleet->seats[l->seat].load, 1);
        atomic_fetch_add(&sockets_got, 1);
        return true;
    }
    MR_ASSERT(mail->call >= l->next[from]);
    l->next[from] = mail->call + 1;
    atomic_fetch_add(&delivered, 1);
    return true;
}

static void ring(void *arg) { atomic_store(&((life *)arg)->rung, 1); }

static _Atomic uint64_t number; /* rises for all, so for each pair */

static void post_one(uint32_t from, uint32_t to) {
    mr_mail mail = {.kind = MR_MAIL_POST, .call = atomic_fetch_add(&number, 1)};
    if (mr_fleet_post(fleet, from, to, &mail) == MR_OK)
        atomic_fetch_add(&posted, 1);
    else
        atomic_fetch_add(&refused, 1);
}

static void send_one(uint32_t from, uint32_t to, uint32_t listener) {
    mr_handed_socket s = {.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0),
                          .listener = listener,
                          .is_counted = true};
    MR_ASSERT(s.fd >= 0 && mr_fleet_admit(fleet, 0));
    if (mr_fleet_send_socket(fleet, from, to, &s) == MR_OK) {
        atomic_fetch_add(&sockets_sent, 1);
        return;
    }
    close(s.fd);
    mr_fleet_dismiss(fleet);
}

static void *live(void *arg) {
    life *l = arg;
    mr_meter *meter = &fleet->seats[l->seat].meter;
    mr_fleet_arrive(fleet, l->seat, ring, l);
    mr_fleet_up(fleet, l->seat);
    for (uint32_t i = 0; i < POSTS; i++) {
        l->seed = l->seed * 1103515245u + 12345u;
        uint32_t to = (l->seed >> 16) % fleet->seat_count;
        post_one(l->seat, to);
        if (i % 8 == 0 && to != MR_SUPERVISOR)
            send_one(l->seat, to, l->listener);
        (void)mr_fleet_beat(fleet, l->seat, 1 + i);
        mr_meter_add(&meter->accepted, 1);
        if (atomic_exchange(&l->rung, 0) != 0)
            while (mr_fleet_read(fleet, l->seat, take, l))
                ;
    }
    mr_fleet_draining(fleet, l->seat);
    mr_fleet_unlisten(fleet, l->seat, l->listener);
    mr_fleet_leave(fleet, l->seat); /* what came since stays behind */
    atomic_store(&l->has_ended, true);
    return NULL;
}

static void begin_life(life *l, uint32_t thread, uint32_t nth) {
    mr_listen_options o = {.address = "127.0.0.1", .backlog = 4};
    uint16_t port;
    int fd, error;
    *l = (life){.seed = nth * 77 + thread};
    MR_ASSERT(mr_fleet_take_seat(fleet, thread, &l->seat) == MR_OK);
    MR_ASSERT(mr_fleet_listen(fleet, l->seat, "all", &o, &l->listener, &port, &fd, &error) ==
                  MR_OK &&
              fd == -1);
    (void)in_new_thread(&l->thread, live, l);
}

/* What the supervisor does meanwhile. */
static void look(life *me, uint32_t turn) {
    mr_meter_row rows[MR_FLEET_THREADS_MAX];
    mr_mem mem = {0};
    mr_buf text = {0};
    MR_ASSERT(mr_fleet_rows(fleet, turn, rows) == THREADS);
    mr_fleet_ping(fleet, turn);
    if (turn % 16 == 0)
        MR_ASSERT(mr_fleet_metrics_text(fleet, &mem, &text, turn) == MR_OK);
    mr_buf_dispose(&mem, &text);
    while (mr_fleet_read(fleet, MR_SUPERVISOR, take, me))
        ;
}

static void coming_and_going(void) {
    static life lives[THREADS], me;
    uint32_t begun[THREADS] = {0}, running = THREADS;
    int fds = count_fds();
    mr_fleet_arrive(fleet, MR_SUPERVISOR, ring, &me);
    for (uint32_t i = 0; i < THREADS; i++)
        begin_life(&lives[i], i, begun[i]++);
    for (uint32_t turn = 1; running > 0; turn++) {
        look(&me, turn);
        post_one(MR_SUPERVISOR, 1 + turn % (fleet->seat_count - 1));
        for (uint32_t i = 0; i < THREADS; i++) {
            if (begun[i] > LIVES || !atomic_load(&lives[i].has_ended))
                continue;
            MR_ASSERT(pthread_join(lives[i].thread, NULL) == 0);
            mr_fleet_reap(fleet, lives[i].seat);
            if (begun[i]++ < LIVES)
                begin_life(&lives[i], i, begun[i]);
            else
                running--;
        }
    }
    look(&me, 16);
    /* Stale mail, which was posted after the reaping, is found by the next tenants. */
    for (uint32_t i = 0; i < 2 * THREADS; i++) {
        uint32_t seat;
        MR_ASSERT(mr_fleet_take_seat(fleet, i / 2, &seat) == MR_OK);
        me.seat = seat;
        for (uint32_t from = 0; from < fleet->seat_count; from++)
            mr_bell_ring(&fleet->seats[seat].bell, from);
        MR_ASSERT(!mr_fleet_read(fleet, seat, take, &me));
        MR_ASSERT(atomic_load(&fleet->seats[seat].load) == 0);
    }
    MR_ASSERT(posted == delivered + atomic_load(&fleet->mail_lost) && delivered > 0);
    MR_ASSERT(sockets_sent == sockets_got + atomic_load(&fleet->sockets_dropped));
    MR_ASSERT(atomic_load(&fleet->connections) == 0);
    MR_ASSERT(fleet->retired.accepted == THREADS * LIVES * POSTS);
    MR_ASSERT(count_fds() == fds + 1); /* the listening one */
}

/* ---- what all find by name ---- */

static void *define_names(void *arg) {
    uint32_t *numbers = arg;
    char text[32];
    for (uint32_t i = 0; i < 200; i++) {
        int len = snprintf(text, sizeof text, "n%u", i);
        MR_ASSERT(mr_fleet_name(fleet, text, (size_t)len, &numbers[i]) == MR_OK);
    }
    return NULL;
}

static void one_number_for_a_name(void) {
    static uint32_t numbers[THREADS][200];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        (void)in_new_thread(&threads[i], define_names, numbers[i]);
    for (int i = 0; i < THREADS; i++)
        MR_ASSERT(pthread_join(threads[i], NULL) == 0);
    MR_ASSERT(memcmp(numbers[0], numbers[1], sizeof numbers[0]) == 0);
    MR_ASSERT(memcmp(numbers[0], numbers[2], sizeof numbers[0]) == 0);
    MR_ASSERT(fleet->name_count == 200);
}

int main(void) {
    mr_fleet_options o = {.thread_count = THREADS, .balance = MR_BALANCE_ROTATE, .stuck_ms = 60000};
    MR_ASSERT(mr_fleet_create(&o, &fleet) == MR_OK);
    the_limit_is_exact();
    coming_and_going();
    one_number_for_a_name();
    mr_fleet_release(fleet);
    return 0;
}
