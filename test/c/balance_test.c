/* balance_test.c -- listening sockets that belong to the fleet, and connections that the supervisor
 * accepts and hands over, on real sockets. */
/* link: engine/fleet.c engine/permits.c engine/fleet_show.c engine/mailbox.c engine/meter.c */
/* link: engine/series.c engine/rate.c engine/access_log.c engine/access_line.c */
/* link: engine/metrics_text.c engine/metrics_put.c net/sock.c base/mem.c base/buf.c base/text.c */
/* link: base/clock.c */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "engine/balance.c"
#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/stat.h>

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

static mr_fleet *open_fleet(const char *name, uint32_t threads, mr_balance balance) {
    mr_fleet_options o = {.thread_count = threads, .balance = balance, .stuck_ms = 100};
    mr_fleet *f;
    at_case = name;
    fds_before = count_fds();
    CHECK(mr_fleet_create(&o, &f) == MR_OK);
    return f;
}

static void close_fleet(mr_fleet *f) {
    mr_fleet_release(f);
    CHECK(count_fds() == fds_before);
}

static uint32_t seat_up(mr_fleet *f, uint32_t thread) {
    uint32_t seat;
    CHECK(mr_fleet_take_seat(f, thread, &seat) == MR_OK);
    mr_fleet_up(f, seat);
    return seat;
}

static const mr_listen_options any_port = {.address = "127.0.0.1", .backlog = 512};

typedef struct listening {
    uint32_t listener;
    uint16_t port;
    int fd, error;
} listening;

static mr_rc listen_by(mr_fleet *f, uint32_t seat, const char *key, listening *l) {
    return mr_fleet_listen(f, seat, key, &any_port, &l->listener, &l->port, &l->fd, &l->error);
}

/* Threads 0 .. count - 1 are up and serve one listener. Their seats are thread + 1. */
static listening all_listen(mr_fleet *f, uint32_t count) {
    listening l = {0};
    for (uint32_t i = 0; i < count; i++) {
        CHECK(seat_up(f, i) == i + 1);
        CHECK(listen_by(f, i + 1, "all", &l) == MR_OK);
    }
    return l;
}

static int connect_to(uint16_t port) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CHECK(fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) == 0);
    return fd;
}

static mr_handed_socket any_socket(uint32_t listener) {
    mr_handed_socket s = {.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0),
                          .listener = listener};
    CHECK(s.fd >= 0);
    return s;
}

static bool is_open_fd(int fd) { return fcntl(fd, F_GETFD) >= 0; }

/* Takes sockets out of a seat's mail, closes them, and counts. */
static bool close_socket(void *arg, uint32_t from, const mr_mail *mail) {
    mr_handed_socket s;
    CHECK(from == MR_SUPERVISOR && mail->kind == MR_MAIL_SOCKET && mail->len == sizeof s);
    memcpy(&s, mail->bytes, sizeof s);
    CHECK(close(s.fd) == 0);
    ++*(uint32_t *)arg;
    return true;
}

static uint32_t got(mr_fleet *f, uint32_t seat) {
    uint32_t count = 0;
    CHECK(!mr_fleet_read(f, seat, close_socket, &count));
    return count;
}

static uint32_t hand(mr_fleet *f, uint32_t thread, uint32_t listener, uint32_t count) {
    uint32_t taken = 0;
    for (uint32_t i = 0; i < count; i++) {
        mr_handed_socket s = any_socket(listener);
        taken += mr_fleet_hand_over(f, thread, &s) == MR_OK;
    }
    return taken;
}

/* The loop of this seat was asked long ago. */
static void make_stuck(mr_fleet *f, uint32_t seat, bool is_stuck) {
    atomic_store(&f->seats[seat].pinged_ns, is_stuck ? 1 : 0);
}

static uint32_t load_of(const mr_fleet *f, uint32_t at) { return atomic_load(&f->seats[at].load); }
static uint64_t dropped(const mr_fleet *f) { return atomic_load(&f->sockets_dropped); }
static uint64_t handed(const mr_fleet *f) { return atomic_load(&f->sockets_handed); }

/* ---- listening ---- */

static void shared_keys(void) {
    mr_fleet *f = open_fleet("shared keys", 3, MR_BALANCE_REUSEPORT);
    listening a, b, c, again;
    uint32_t first = seat_up(f, 0), second = seat_up(f, 1), heir = seat_up(f, 0);
    CHECK(listen_by(f, first, "here", &a) == MR_OK && a.port != 0 && a.fd >= 0);
    const mr_listener *l = &f->listeners[a.listener];
    CHECK(l->fd_count == 3 && l->balance == MR_BALANCE_REUSEPORT);
    for (uint32_t i = 0; i < 3; i++) /* port 0 is settled once */
        CHECK(mr_sock_port(l->fds[i]) == a.port);
    int made = count_fds();
    CHECK(listen_by(f, second, "here", &b) == MR_OK && b.listener == a.listener);
    CHECK(b.port == a.port && b.fd != a.fd && count_fds() == made + 1); /* its duplicate */
    CHECK(listen_by(f, heir, "here", &again) == MR_OK && again.listener == a.listener);
    struct stat one, two, three;
    CHECK(fstat(a.fd, &one) == 0 && fstat(b.fd, &two) == 0 && fstat(again.fd, &three) == 0);
    CHECK(one.st_ino == three.st_ino && one.st_ino != two.st_ino); /* one queue for each thread */
    CHECK(fcntl(a.fd, F_GETFD) == FD_CLOEXEC && mr_fleet_watched_fd(f, a.listener) == -1);
    CHECK(listen_by(f, first, "here", &c) == MR_INVALID && c.error == EADDRINUSE);
    CHECK(listen_by(f, first, "her", &c) == MR_OK && c.listener != a.listener); /* whole keys */
    CHECK(c.port != a.port);
    mr_fleet_unlisten(f, first, a.listener);
    close(a.fd);
    CHECK(listen_by(f, first, "here", &a) == MR_OK && a.port == b.port);
    mr_fleet_unlisten(f, first, MR_FLEET_LISTENERS_MAX); /* no such one */
    close(a.fd), close(b.fd), close(c.fd), close(again.fd);
    close_fleet(f);
}

static void supervised(void) {
    mr_fleet *f = open_fleet("supervised", 2, MR_BALANCE_LEAST);
    listening a, b;
    uint32_t first = seat_up(f, 0), second = seat_up(f, 1);
    uint64_t mail[MR_BELL_WORDS];
    CHECK(listen_by(f, first, "here", &a) == MR_OK && a.fd == -1);
    mr_bell_answer(&f->seats[MR_SUPERVISOR].bell, mail);
    CHECK(mail[0] == UINT64_C(1) << first); /* it is told that there is something to watch */
    CHECK(listen_by(f, second, "here", &b) == MR_OK && b.fd == -1 && b.port == a.port);
    CHECK(f->listeners[a.listener].fd_count == 1);
    CHECK(f->listeners[a.listener].balance == MR_BALANCE_LEAST);
    CHECK(mr_fleet_watched_fd(f, a.listener) == f->listeners[a.listener].fds[0]);
    CHECK(mr_fleet_watched_fd(f, a.listener + 1) == -1);
    CHECK(mr_fleet_watched_fd(f, MR_FLEET_LISTENERS_MAX) == -1);
    close_fleet(f);
}

/* Unix sockets have no SO_REUSEPORT that spreads. */
static void unix_sockets(void) {
    mr_fleet *f = open_fleet("unix sockets", 2, MR_BALANCE_REUSEPORT);
    char folder[64], path[96];
    const char *parent = getenv("TMPDIR");
    listening a;
    snprintf(folder, sizeof folder, "%.40s/mr-fleet-XXXXXX", parent != NULL ? parent : "/tmp");
    CHECK(mkdtemp(folder) != NULL);
    snprintf(path, sizeof path, "%s/sock", folder);
    mr_listen_options o = {
        .kind = MR_LISTEN_UNIX, .path = path, .path_len = strlen(path), .backlog = 8};
    uint32_t first = seat_up(f, 0);
    CHECK(mr_fleet_listen(f, first, path, &o, &a.listener, &a.port, &a.fd, &a.error) == MR_OK);
    CHECK(a.fd == -1 && f->listeners[a.listener].balance == MR_BALANCE_ROTATE);
    CHECK(mr_fleet_watched_fd(f, a.listener) >= 0 && access(path, F_OK) == 0);
    mr_fleet_sweep_listeners(f);
    CHECK(access(path, F_OK) == 0); /* it is served */
    mr_fleet_unlisten(f, first, a.listener);
    mr_fleet_sweep_listeners(f);
    CHECK(access(path, F_OK) != 0 && mr_fleet_watched_fd(f, a.listener) == -1);
    CHECK(mr_fleet_listen(f, first, path, &o, &a.listener, &a.port, &a.fd, &a.error) == MR_OK);
    close_fleet(f);
    CHECK(access(path, F_OK) != 0 && rmdir(folder) == 0);
}

static void bounds(void) {
    mr_fleet *f = open_fleet("bounds", 1, MR_BALANCE_ROTATE);
    uint32_t first = seat_up(f, 0);
    listening l, last;
    char key[sizeof f->listeners[0].key + 1];
    memset(key, 'k', sizeof key);
    key[sizeof key - 1] = '\0';
    CHECK(listen_by(f, first, key, &l) == MR_LIMIT && l.error == ENOSPC);
    key[sizeof key - 2] = '\0';
    CHECK(listen_by(f, first, key, &last) == MR_OK);
    for (uint32_t i = 1; i < MR_FLEET_LISTENERS_MAX; i++) {
        snprintf(key, sizeof key, "%u", i);
        CHECK(listen_by(f, first, key, &l) == MR_OK);
    }
    int full = count_fds();
    CHECK(listen_by(f, first, "one more", &l) == MR_LIMIT && l.error == ENOSPC);
    mr_fleet_unlisten(f, first, last.listener);
    CHECK(listen_by(f, first, "one more", &l) == MR_LIMIT); /* its socket is there until swept */
    mr_fleet_sweep_listeners(f);
    CHECK(count_fds() == full - 1);
    CHECK(listen_by(f, first, "one more", &l) == MR_OK && l.listener == last.listener);
    mr_fleet_sweep_listeners(f); /* takes nothing that is served */
    CHECK(count_fds() == full);
    close_fleet(f);
}

static void failing_to_listen(void) {
    mr_fleet *f = open_fleet("failing to listen", 2, MR_BALANCE_REUSEPORT);
    uint32_t first = seat_up(f, 0);
    listening l, m;
    mr_listen_options o = {.address = "nowhere", .backlog = 1};
    int before = count_fds();
    CHECK(mr_fleet_listen(f, first, "a", &o, &l.listener, &l.port, &l.fd, &l.error) == MR_INVALID);
    CHECK(l.error == EINVAL && count_fds() == before);
    CHECK(listen_by(f, first, "a", &l) == MR_OK); /* the key is not used up */
    int taken, error;
    CHECK(mr_sock_listen(&any_port, &taken, &error) == MR_OK);
    o = (mr_listen_options){.address = "127.0.0.1", .port = mr_sock_port(taken), .backlog = 1};
    before = count_fds();
    CHECK(mr_fleet_listen(f, first, "b", &o, &m.listener, &m.port, &m.fd, &m.error) == MR_INVALID);
    CHECK(m.error == EADDRINUSE && count_fds() == before);
    close(taken), close(l.fd);
    close_fleet(f);
}

static void without_descriptors(void) {
    mr_fleet *f = open_fleet("without descriptors", 2, MR_BALANCE_REUSEPORT);
    uint32_t first = seat_up(f, 0);
    struct rlimit old, few;
    listening l;
    CHECK(getrlimit(RLIMIT_NOFILE, &old) == 0);
    for (rlim_t more = 0; more <= 3; more++) { /* two sockets and a duplicate are wanted */
        int probe = dup(0);
        CHECK(probe >= 0 && close(probe) == 0);
        few = old;
        few.rlim_cur = (rlim_t)probe + more;
        CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0);
        mr_rc rc = listen_by(f, first, "few", &l);
        CHECK(setrlimit(RLIMIT_NOFILE, &old) == 0);
        CHECK(rc == (more == 3 ? MR_OK : MR_INVALID) && (rc == MR_OK || l.error == EMFILE));
        CHECK(rc == MR_OK || !is_user(&f->listeners[0], first));
        if (rc != MR_OK)
            mr_fleet_sweep_listeners(f);
    }
    close(l.fd);
    close_fleet(f);
}

/* ---- accepting ---- */

static void accepting(void) {
    mr_fleet *f = open_fleet("accepting", 1, MR_BALANCE_ROTATE);
    listening l = all_listen(f, 1);
    mr_handed_socket s = {.fd = -1};
    CHECK(mr_fleet_accept(f, l.listener, 0, &s) == MR_AGAIN);
    CHECK(mr_fleet_accept(f, l.listener, 1, &s) == MR_AGAIN);
    CHECK(mr_fleet_accept(f, l.listener + 1, 0, &s) == MR_AGAIN);
    CHECK(mr_fleet_accept(f, MR_FLEET_LISTENERS_MAX, 0, &s) == MR_AGAIN);
    int client = connect_to(l.port);
    struct sockaddr_in own;
    socklen_t len = sizeof own;
    CHECK(getsockname(client, (struct sockaddr *)&own, &len) == 0);
    CHECK(mr_fleet_accept(f, l.listener, 0, &s) == MR_OK && s.listener == l.listener);
    CHECK(s.peer.family == 4 && s.peer.port == ntohs(own.sin_port) && !s.is_counted);
    CHECK(s.peer.address[0] == 127 && s.peer.address[3] == 1);
    CHECK(fcntl(s.fd, F_GETFD) == FD_CLOEXEC && (fcntl(s.fd, F_GETFL) & O_NONBLOCK));
    close(client), close(s.fd);
    client = connect_to(l.port);
    struct rlimit old, none;
    CHECK(getrlimit(RLIMIT_NOFILE, &old) == 0);
    none = old;
    none.rlim_cur = 0;
    CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
    mr_rc rc = mr_fleet_accept(f, l.listener, 0, &s);
    CHECK(setrlimit(RLIMIT_NOFILE, &old) == 0);
    CHECK(rc == MR_LIMIT && mr_fleet_accept(f, l.listener, 0, &s) == MR_OK); /* it waited */
    close(client), close(s.fd);
    /* Who gave us the socket may end it: that is no endless row of failed accepts. */
    CHECK(shutdown(f->listeners[l.listener].fds[0], SHUT_RDWR) == 0);
    CHECK(mr_fleet_accept(f, l.listener, 0, &s) == MR_AGAIN);
    close_fleet(f);
}

/* ---- handing over ---- */

static void rotate(void) {
    mr_fleet *f = open_fleet("rotate", 3, MR_BALANCE_ROTATE);
    listening l = all_listen(f, 3);
    CHECK(hand(f, MR_NO_SEAT, l.listener, 9) == 9 && handed(f) == 9);
    for (uint32_t seat = 1; seat <= 3; seat++)
        CHECK(load_of(f, seat) == 3 && got(f, seat) == 3);
    make_stuck(f, 2, true);
    CHECK(hand(f, MR_NO_SEAT, l.listener, 4) == 4);
    CHECK(got(f, 1) == 2 && got(f, 2) == 0 && got(f, 3) == 2);
    make_stuck(f, 2, false);
    mr_fleet_draining(f, 3);
    CHECK(hand(f, MR_NO_SEAT, l.listener, 4) == 4);
    CHECK(got(f, 1) == 2 && got(f, 2) == 2 && got(f, 3) == 0);
    mr_fleet_unlisten(f, 1, l.listener);
    CHECK(hand(f, MR_NO_SEAT, l.listener, 2) == 2 && got(f, 2) == 2);
    CHECK(hand(f, MR_NO_SEAT, l.listener + 1, 2) == 0); /* nobody serves that one */
    CHECK(hand(f, MR_NO_SEAT, MR_FLEET_LISTENERS_MAX, 1) == 0 && dropped(f) == 3);
    mr_fleet_leave(f, 2);
    mr_handed_socket s = any_socket(l.listener);
    CHECK(mr_fleet_hand_over(f, MR_NO_SEAT, &s) == MR_GONE && !is_open_fd(s.fd));
    CHECK(dropped(f) == 4 && handed(f) == 19);
    close_fleet(f);
}

/* A thread that starts is no place for a connection, and neither is nobody's. */
static void who_is_not_up(void) {
    mr_fleet *f = open_fleet("who is not up", 3, MR_BALANCE_ROTATE);
    uint32_t starting, up = seat_up(f, 1);
    listening l;
    CHECK(mr_fleet_take_seat(f, 0, &starting) == MR_OK);
    CHECK(listen_by(f, starting, "all", &l) == MR_OK && listen_by(f, up, "all", &l) == MR_OK);
    CHECK(hand(f, MR_NO_SEAT, l.listener, 6) == 6 && got(f, up) == 6 && got(f, starting) == 0);
    CHECK(hand(f, 0, l.listener, 1) == 1 && hand(f, 2, l.listener, 1) == 1 && got(f, up) == 2);
    mr_fleet_up(f, starting);
    CHECK(hand(f, MR_NO_SEAT, l.listener, 6) == 6 && got(f, up) == 3 && got(f, starting) == 3);
    close_fleet(f);
}

static void least(void) {
    mr_fleet *f = open_fleet("least", 3, MR_BALANCE_LEAST);
    listening l = all_listen(f, 3);
    static const uint32_t loads[] = {5, 2, 4};
    for (uint32_t i = 0; i < 3; i++)
        atomic_store(&f->seats[i + 1].load, loads[i]);
    CHECK(hand(f, MR_NO_SEAT, l.listener, 2) == 2);
    CHECK(got(f, 2) == 2 && load_of(f, 2) == 4); /* on their way they count */
    CHECK(hand(f, MR_NO_SEAT, l.listener, 2) == 2 && got(f, 2) == 1 && got(f, 3) == 1);
    CHECK(hand(f, MR_NO_SEAT, l.listener, 3) == 3); /* all have five now: in turn */
    CHECK(got(f, 1) == 1 && got(f, 2) == 1 && got(f, 3) == 1);
    atomic_store(&f->seats[1].load, 0);
    make_stuck(f, 1, true);
    CHECK(hand(f, MR_NO_SEAT, l.listener, 2) == 2 && got(f, 1) == 0);
    close_fleet(f);
}

static void by_name(void) {
    mr_fleet *f = open_fleet("select", 3, MR_BALANCE_SELECT);
    listening l = all_listen(f, 3);
    CHECK(hand(f, 2, l.listener, 4) == 4 && got(f, 3) == 4);
    CHECK(hand(f, 0, l.listener, 1) == 1 && got(f, 1) == 1);
    CHECK(hand(f, 3, l.listener, 1) == 1 && hand(f, 77777, l.listener, 1) == 1); /* no such one */
    CHECK(got(f, 1) + got(f, 2) + got(f, 3) == 2);
    make_stuck(f, 3, true);
    CHECK(hand(f, 2, l.listener, 4) == 4 && got(f, 3) == 0);
    CHECK(got(f, 1) == 2 && got(f, 2) == 2);
    make_stuck(f, 1, true), make_stuck(f, 2, true);
    CHECK(hand(f, 2, l.listener, 1) == 0 && dropped(f) == 1); /* all are stuck */
    close_fleet(f);
}

static void fill(mr_fleet *f, uint32_t seat) {
    uint8_t bytes[8] = {0};
    mr_mail mail = {.kind = MR_MAIL_POST, .bytes = bytes, .len = sizeof bytes};
    while (mr_fleet_post(f, MR_SUPERVISOR, seat, &mail) == MR_OK)
        ;
}

static void full_mailboxes(void) {
    mr_fleet *f = open_fleet("full mailboxes", 3, MR_BALANCE_SELECT);
    listening l = all_listen(f, 3);
    fill(f, 2);
    CHECK(hand(f, 1, l.listener, 4) == 4 && load_of(f, 2) == 0);
    CHECK(load_of(f, 1) == 2 && load_of(f, 3) == 2 && handed(f) == 4);
    fill(f, 1), fill(f, 3);
    mr_handed_socket s = any_socket(l.listener);
    s.is_counted = true;
    CHECK(mr_fleet_admit(f, 1) && mr_fleet_hand_over(f, 1, &s) == MR_GONE);
    CHECK(!is_open_fd(s.fd) && dropped(f) == 1 && atomic_load(&f->connections) == 0);
    CHECK(load_of(f, 1) == 2 && load_of(f, 2) == 0 && load_of(f, 3) == 2);
    close_fleet(f);
}

/* ---- rescue ---- */

static uint32_t waiting_at(const mr_listener *l, uint32_t which) {
    uint32_t count = 0;
    for (int fd; (fd = accept4(l->fds[which], NULL, NULL, SOCK_NONBLOCK)) >= 0; count++)
        close(fd);
    CHECK(errno == EAGAIN);
    return count;
}

static void rescue(void) {
    enum { CLIENTS = 40 };
    mr_fleet *f = open_fleet("rescue", 2, MR_BALANCE_REUSEPORT);
    int clients[CLIENTS], duplicates[2];
    listening l;
    for (uint32_t i = 0; i < 2; i++) {
        CHECK(seat_up(f, i) == i + 1 && listen_by(f, i + 1, "all", &l) == MR_OK);
        duplicates[i] = l.fd;
    }
    const mr_listener *it = &f->listeners[l.listener];
    for (int i = 0; i < CLIENTS; i++)
        clients[i] = connect_to(l.port);
    mr_fleet_rescue(f, now_ns());
    CHECK(handed(f) == 0); /* both are well: each queue is its thread's */
    make_stuck(f, 1, true), make_stuck(f, 2, true);
    mr_fleet_rescue(f, now_ns());
    CHECK(handed(f) == 0 && dropped(f) == 0); /* nobody is: the queue is the best place */
    make_stuck(f, 2, false);
    mr_fleet_rescue(f, now_ns());
    uint32_t rescued = got(f, 2);
    CHECK(got(f, 1) == 0 && waiting_at(it, 0) == 0 && rescued == handed(f));
    CHECK(rescued + waiting_at(it, 1) == CLIENTS && dropped(f) == 0);
    for (int i = 0; i < CLIENTS; i++)
        close(clients[i]);
    close(duplicates[0]), close(duplicates[1]);
    close_fleet(f);
}

static void rescue_has_a_bound(void) {
    enum { CLIENTS = RESCUES_PER_PING + 1 };
    mr_fleet *f = open_fleet("rescue has a bound", 2, MR_BALANCE_REUSEPORT);
    int clients[CLIENTS];
    listening l;
    for (uint32_t i = 0; i < 2; i++) {
        CHECK(seat_up(f, i) == i + 1 && listen_by(f, i + 1, "all", &l) == MR_OK);
        close(l.fd);
    }
    mr_listener *it = &f->listeners[l.listener];
    CHECK(dup2(it->fds[0], it->fds[1]) == it->fds[1]); /* all wait at the first one */
    make_stuck(f, 1, true);
    for (int i = 0; i < CLIENTS; i++)
        clients[i] = connect_to(l.port);
    mr_fleet_rescue(f, now_ns());
    CHECK(got(f, 2) == RESCUES_PER_PING);
    mr_fleet_rescue(f, now_ns());
    CHECK(got(f, 2) == 1 && dropped(f) == 0);
    for (int i = 0; i < CLIENTS; i++)
        close(clients[i]);
    close_fleet(f);
}

/* A thread that has left, or is starting, has a queue as well. */
static void rescue_of_the_absent(void) {
    mr_fleet *f = open_fleet("rescue of the absent", 2, MR_BALANCE_REUSEPORT);
    listening l;
    for (uint32_t i = 0; i < 2; i++) {
        CHECK(seat_up(f, i) == i + 1 && listen_by(f, i + 1, "all", &l) == MR_OK);
        close(l.fd);
    }
    int client = connect_to(l.port);
    mr_listener *it = &f->listeners[l.listener];
    mr_fleet_leave(f, 1);
    mr_fleet_reap(f, 1);
    mr_fleet_rescue(f, now_ns());
    CHECK(waiting_at(it, 0) == 0 && got(f, 2) + waiting_at(it, 1) == 1);
    close(client);
    close_fleet(f);
}

/* ---- ending ---- */

static void close_with_a_queue(void) {
    enum { CLIENTS = 5 };
    mr_fleet *f = open_fleet("close with a queue", 2, MR_BALANCE_ROTATE);
    listening l = all_listen(f, 2), more;
    int clients[CLIENTS];
    for (int i = 0; i < CLIENTS; i++)
        clients[i] = connect_to(l.port);
    mr_fleet_close_listeners(f);
    CHECK(atomic_load(&f->is_ending) && handed(f) == CLIENTS && dropped(f) == 0);
    CHECK(mr_fleet_watched_fd(f, l.listener) == -1);
    CHECK(load_of(f, 1) + load_of(f, 2) == CLIENTS && load_of(f, 1) >= 2 && load_of(f, 2) >= 2);
    CHECK(got(f, 1) + got(f, 2) == CLIENTS);
    CHECK(listen_by(f, 1, "all", &more) == MR_INVALID && more.error == ECANCELED);
    CHECK(listen_by(f, 1, "new", &more) == MR_INVALID && more.error == ECANCELED);
    for (int i = 0; i < CLIENTS; i++)
        close(clients[i]);
    mr_fleet_close_listeners(f);
    close_fleet(f);
}

/* Each queue ends with the thread that empties it: only the fleet's own descriptors are closed. */
static void close_reuseport(void) {
    mr_fleet *f = open_fleet("close reuseport", 1, MR_BALANCE_REUSEPORT);
    listening l = all_listen(f, 1);
    int client = connect_to(l.port), fd;
    mr_fleet_close_listeners(f);
    CHECK(handed(f) == 0 && f->listeners[l.listener].fd_count == 0);
    CHECK((fd = accept4(l.fd, NULL, NULL, SOCK_NONBLOCK)) >= 0); /* it still waited there */
    close(fd), close(client), close(l.fd);
    close_fleet(f);
}

int main(void) {
    shared_keys();
    supervised();
    unix_sockets();
    bounds();
    failing_to_listen();
    without_descriptors();
    accepting();
    rotate();
    who_is_not_up();
    least();
    by_name();
    full_mailboxes();
    rescue();
    rescue_has_a_bound();
    rescue_of_the_absent();
    close_with_a_queue();
    close_reuseport();
    return 0;
}
