/* epoll_test.c -- the epoll transport on real sockets, alone and with an engine on top. */
/* link: engine/engine.c engine/h1.c engine/conn.c engine/out.c engine/route.c engine/reply.c */
/* link: net/sock.c base/clock.c */
/* link: engine/answer.c engine/content.c net/unsent.c proto/proxy.c */
/* link: proto/url.c proto/h1_write.c proto/h1_parse.c proto/h1_chunked.c proto/h1_scan.c */
/* link: proto/h1_scan_avx2.c proto/h1_scan_sse2.c proto/h1_scan_neon.c proto/h1_scan_scalar.c */
/* link: base/mem.c base/buf.c base/text.c base/slab.c base/wheel.c */
/* link: engine/journal.c engine/gate.c engine/fleet.c engine/balance.c engine/permits.c */
/* link: engine/fleet_show.c engine/mailbox.c engine/meter.c engine/series.c engine/rate.c */
/* link: engine/access_log.c engine/access_line.c engine/metrics_text.c engine/metrics_put.c */
#include "net/epoll.c"

#include "engine/engine.h"
#include "net/sock.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define CHECK(claim)                                                                               \
    do {                                                                                           \
        if (!(claim)) {                                                                            \
            fprintf(stderr, "%s:%d: %s (in %s)\n", __FILE__, __LINE__, #claim, at_case);           \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static const char *at_case = "start";

/* ---- an owner that notes what happens ---- */

typedef struct seen {
    mr_transport *transport;
    mr_mem mem;
    mr_link links[64]; /* accepted or attached */
    int link_count;
    size_t data_bytes;
    uint32_t sum; /* of the octets that came */
    int data_calls, eofs, drains, goners, problems;
    bool closes_on_data, pauses_on_data;
} seen;

static void on_accept(void *owner, int fd, const struct sockaddr *peer, socklen_t len) {
    seen *s = owner;
    CHECK(peer->sa_family == AF_INET && len == sizeof(struct sockaddr_in));
    CHECK(s->link_count < 64);
    CHECK(epoll_attach(s->transport, &s->links[s->link_count++], fd) == MR_OK);
}

static void on_accept_problem(void *owner, mr_accept_problem problem) {
    seen *s = owner;
    CHECK(problem == MR_ACCEPT_NO_DESCRIPTORS);
    s->problems++;
    epoll_pause_accept(s->transport, true);
}

static void on_data(void *owner, mr_link *link, const uint8_t *bytes, size_t len) {
    seen *s = owner;
    CHECK(len > 0 && link->fd >= 0);
    s->data_calls++;
    s->data_bytes += len;
    for (size_t i = 0; i < len; i++)
        s->sum += bytes[i];
    if (s->closes_on_data)
        epoll_close(link);
    else if (s->pauses_on_data)
        epoll_want_data(link, false);
}

static void on_eof(void *owner, mr_link *link) {
    CHECK(link->fd >= 0);
    ((seen *)owner)->eofs++;
}

static void on_drained(void *owner, mr_link *link) {
    CHECK(link->unsent == NULL);
    ((seen *)owner)->drains++;
}

static void on_gone(void *owner, mr_link *link) {
    CHECK(link->fd >= 0);
    ((seen *)owner)->goners++;
    epoll_close(link);
}

static const mr_link_events events = {.on_accept = on_accept,
                                      .on_accept_problem = on_accept_problem,
                                      .on_data = on_data,
                                      .on_eof = on_eof,
                                      .on_drained = on_drained,
                                      .on_gone = on_gone};

static void open_transport(const char *name, seen *s) {
    at_case = name;
    *s = (seen){0};
    CHECK(epoll_create_transport(&mr_transport_epoll, &s->mem, &events, s, &s->transport) == MR_OK);
    CHECK(epoll_backend_fd(s->transport) >= 0);
}

static void close_transport(seen *s) {
    for (int i = 0; i < s->link_count; i++)
        epoll_close(&s->links[i]);
    epoll_destroy(s->transport);
    CHECK(s->mem.used_bytes == 0);
}

static void poll_once(seen *s) { CHECK(epoll_poll(s->transport, 0) == MR_OK); }

/* A link on one end of a socket pair; returns the other end. */
static int attach_pair(seen *s, mr_link **link) {
    int pair[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) == 0);
    *link = &s->links[s->link_count++];
    CHECK(epoll_attach(s->transport, *link, pair[0]) == MR_OK);
    return pair[1];
}

/* A listener with its port; connect_to() gives clients whose connection waits in its queue. */
static int listen_on(uint16_t *port) {
    mr_listen_options o = {.address = "127.0.0.1", .backlog = 64};
    int fd, error;
    CHECK(mr_sock_listen(&o, &fd, &error) == MR_OK);
    *port = mr_sock_port(fd);
    return fd;
}

static int connect_to(uint16_t port) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CHECK(fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) == 0);
    return fd;
}

static void close_with_reset(int fd) {
    struct linger now = {.l_onoff = 1, .l_linger = 0};
    CHECK(setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now) == 0);
    close(fd);
}

static int open_fds(void) {
    int count = 0;
    for (int fd = 0; fd < 1024; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

/* ---- receiving ---- */

static void receiving(void) {
    seen s;
    mr_link *link;
    open_transport("receiving", &s);
    int peer = attach_pair(&s, &link);
    poll_once(&s);
    CHECK(s.data_calls == 0 && s.eofs == 0);
    CHECK(write(peer, "abc", 3) == 3);
    poll_once(&s);
    CHECK(s.data_bytes == 3 && s.sum == 'a' + 'b' + 'c');
    epoll_want_data(link, false);
    CHECK(write(peer, "def", 3) == 3);
    CHECK(shutdown(peer, SHUT_WR) == 0);
    poll_once(&s);
    CHECK(s.data_bytes == 3 && s.eofs == 0 && s.goners == 0); /* unwanted: it waits */
    epoll_want_data(link, true);
    poll_once(&s);
    poll_once(&s);
    CHECK(s.data_bytes == 6 && s.eofs == 1);
    poll_once(&s);
    CHECK(s.eofs == 1 && s.goners == 0); /* told once; we may still send */
    char text[8];
    mr_piece_out piece = {.bytes = (const uint8_t *)"hi", .len = 2};
    CHECK(epoll_send(link, &piece, 1, 0) == MR_OK && read(peer, text, sizeof text) == 2);
    close(peer);
    poll_once(&s);
    CHECK(s.goners == 1 && link->fd == -1); /* both ways are shut */
    CHECK(epoll_send(link, &piece, 1, 0) == MR_CLOSED);
    epoll_close(link);
    close_transport(&s);
}

/* What a callback does to its link holds at once, with more in the kernel. */
static void acting_in_callbacks(void) {
    static uint8_t much[RECV_BYTES + 100];
    seen s;
    mr_link *link;
    for (int how = 0; how < 2; how++) {
        open_transport("acting in callbacks", &s);
        int peer = attach_pair(&s, &link);
        int size = 1 << 20;
        CHECK(setsockopt(peer, SOL_SOCKET, SO_SNDBUF, &size, sizeof size) == 0);
        ssize_t wrote = write(peer, much, sizeof much);
        CHECK(wrote > 0);
        close(peer);
        s.closes_on_data = how == 0;
        s.pauses_on_data = how == 1;
        poll_once(&s);
        CHECK(s.data_calls == 1 && s.eofs == 0 && s.data_bytes <= RECV_BYTES);
        /* Paused, the peer's end shows as a hang-up all the same. */
        CHECK(s.goners == how);
        close_transport(&s);
    }
}

static void resets(void) {
    seen s;
    uint16_t port;
    open_transport("resets", &s);
    CHECK(epoll_listen(s.transport, listen_on(&port)) == MR_OK);
    int wanted = connect_to(port), unwanted = connect_to(port);
    poll_once(&s);
    CHECK(s.link_count == 2);
    epoll_want_data(&s.links[0], false);
    epoll_want_data(&s.links[1], false);
    epoll_want_data(&s.links[0], true);
    close_with_reset(wanted);
    close_with_reset(unwanted);
    poll_once(&s);
    CHECK(s.goners == 2 && s.data_calls == 0);
    close_transport(&s);
}

/* ---- sending ---- */

static size_t read_all(int fd, uint8_t *into, size_t most, bool *is_end) {
    size_t len = 0;
    ssize_t got;
    *is_end = false;
    while (len < most && (got = recv(fd, into + len, most - len, MSG_DONTWAIT)) >= 0) {
        *is_end = got == 0;
        if (got == 0)
            break;
        len += (size_t)got;
    }
    return len;
}

/* More than the kernel takes: the rest is queued, follows in order, and then the FIN. */
static void short_writes(void) {
    enum { SIZE = 3000000 };
    seen s;
    mr_link *link;
    uint8_t *sent = malloc(SIZE), *got = malloc(SIZE + 1);
    CHECK(sent != NULL && got != NULL);
    for (size_t i = 0; i < SIZE; i++)
        sent[i] = (uint8_t)(i * 13 + i / 257);
    open_transport("short writes", &s);
    int peer = attach_pair(&s, &link);
    mr_piece_out pieces[3] = {{.bytes = sent, .len = 1},
                              {.bytes = sent + 1, .len = 0},
                              {.bytes = sent + 1, .len = 999999}};
    CHECK(epoll_send(link, pieces, 3, 0) == MR_AGAIN);
    size_t queued = mr_link_unsent_bytes(link);
    CHECK(queued > 0 && queued < 1000000 && s.mem.used_bytes > queued);
    mr_piece_out second = {.bytes = sent + 1000000, .len = 1000000};
    CHECK(epoll_send(link, &second, 1, 0) == MR_AGAIN);
    CHECK(mr_link_unsent_bytes(link) == queued + 1000000); /* nothing overtakes the queue */
    second.bytes = sent + 2000000;
    CHECK(epoll_send(link, &second, 1, MR_SEND_FIN) == MR_AGAIN);
    memset(sent, 0, SIZE); /* borrowed for the call only */
    size_t len = 0;
    bool is_end = false;
    uint32_t mark = 0;
    for (int i = 0; i < 100000 && !is_end; i++) {
        len += read_all(peer, got + len, SIZE + 1 - len, &is_end);
        poll_once(&s);
        CHECK(link->sent_mark >= mark);
        mark = link->sent_mark;
    }
    CHECK(is_end && len == SIZE && s.drains == 1 && link->unsent == NULL && mark > 0);
    for (size_t i = 0; i < SIZE; i++)
        CHECK(got[i] == (uint8_t)(i * 13 + i / 257));
    poll_once(&s);
    CHECK(s.drains == 1);
    close(peer);
    close_transport(&s);
    free(sent);
    free(got);
}

static void fin(void) {
    seen s;
    mr_link *link;
    char text[8];
    open_transport("fin", &s);
    for (int has_bytes = 0; has_bytes < 2; has_bytes++) {
        int peer = attach_pair(&s, &link);
        mr_piece_out piece = {.bytes = (const uint8_t *)"bye", .len = 3};
        CHECK(epoll_send(link, &piece, has_bytes, MR_SEND_FIN) == MR_OK);
        CHECK(!has_bytes || read(peer, text, sizeof text) == 3);
        CHECK(read(peer, text, sizeof text) == 0);
        CHECK(write(peer, "more", 4) == 4); /* the other way is open */
        poll_once(&s);
        CHECK(s.data_bytes == 4u * (unsigned)(has_bytes + 1));
        close(peer);
    }
    close_transport(&s);
}

/* Without memory for the queue the rest is lost, and said to be; nothing leaks. */
static void queue_without_memory(void) {
    static uint8_t much[2000000];
    seen s;
    mr_link *link;
    for (int second = 0; second < 2; second++) {
        open_transport("queue without memory", &s);
        int peer = attach_pair(&s, &link);
        mr_piece_out piece = {.bytes = much, .len = sizeof much};
        if (second)
            CHECK(epoll_send(link, &piece, 1, 0) == MR_AGAIN);
        s.mem.fail_after = -1;
        CHECK(epoll_send(link, &piece, 1, 0) == MR_NOMEM);
        s.mem.fail_after = 0;
        close(peer);
        close_transport(&s);
    }
    seen none = {.mem.fail_after = -1};
    CHECK(epoll_create_transport(&mr_transport_epoll, &none.mem, &events, &none, &none.transport) ==
          MR_NOMEM);
    epoll_destroy(NULL);
}

static void sending_to_nobody(void) {
    static uint8_t much[2000000];
    seen s;
    mr_link *link;
    open_transport("sending to nobody", &s);
    int peer = attach_pair(&s, &link);
    mr_piece_out piece = {.bytes = much, .len = 10};
    close(peer);
    CHECK(epoll_send(link, &piece, 1, 0) == MR_CLOSED); /* and no SIGPIPE */
    epoll_close(link);
    peer = attach_pair(&s, &link);
    piece.len = sizeof much;
    CHECK(epoll_send(link, &piece, 1, 0) == MR_AGAIN);
    close(peer);
    poll_once(&s);
    CHECK(s.goners == 1 && s.drains == 0 && link->fd == -1 && link->unsent == NULL);
    close_transport(&s);
}

/* ---- letting go ---- */

/* What came and was not received goes along, to another transport. */
static void detaching(void) {
    static struct epoll_event ready[4];
    int before = open_fds();
    seen s, t;
    mr_link *link, *other;
    open_transport("detaching", &t);
    open_transport("detaching", &s);
    int peer = attach_pair(&s, &link);
    CHECK(write(peer, "abc", 3) == 3);
    int fd = epoll_detach(link);
    CHECK(fd >= 0 && link->fd == -1 && epoll_detach(link) == -1);
    epoll_close(link); /* it is closed, the descriptor is not */
    CHECK(fcntl(fd, F_GETFD) >= 0);
    CHECK(epoll_wait(epoll_backend_fd(s.transport), ready, 4, 0) == 0); /* nothing wakes it */
    poll_once(&s);
    CHECK(s.data_calls == 0 && s.goners == 0);
    mr_piece_out piece = {.bytes = (const uint8_t *)"hi", .len = 2};
    CHECK(epoll_send(link, &piece, 1, 0) == MR_CLOSED);
    epoll_want_data(link, true);
    other = &t.links[t.link_count++];
    CHECK(epoll_attach(t.transport, other, fd) == MR_OK);
    poll_once(&t);
    CHECK(t.data_bytes == 3 && t.sum == 'a' + 'b' + 'c' && s.data_calls == 0);
    char text[8];
    CHECK(epoll_send(other, &piece, 1, 0) == MR_OK && read(peer, text, sizeof text) == 2);
    close(peer);
    poll_once(&t);
    CHECK(t.goners == 1 || t.eofs == 1);
    close_transport(&s);
    close_transport(&t);
    CHECK(open_fds() == before);
}

static void detaching_with_a_queue(void) {
    enum { SIZE = 4000000 };
    uint8_t *bytes = calloc(1, SIZE), *got = malloc(SIZE);
    seen s;
    mr_link *link;
    bool is_end;
    open_transport("detaching with a queue", &s);
    int peer = attach_pair(&s, &link);
    mr_piece_out piece = {.bytes = bytes, .len = SIZE};
    CHECK(bytes != NULL && got != NULL && epoll_send(link, &piece, 1, 0) == MR_AGAIN);
    int fd = link->fd;
    CHECK(epoll_detach(link) == -1 && link->fd == fd); /* nothing happened */
    size_t len = 0;
    for (int i = 0; i < 3000 && len < SIZE; i++) {
        len += read_all(peer, got + len, SIZE - len, &is_end);
        poll_once(&s);
    }
    CHECK(len == SIZE && s.drains == 1 && epoll_detach(link) == fd);
    close(fd), close(peer);
    close_transport(&s);
    free(bytes);
    free(got);
}

/* ---- accepting ---- */

static void accepting(void) {
    seen s;
    uint16_t port;
    int clients[6];
    open_transport("accepting", &s);
    CHECK(epoll_listen(s.transport, listen_on(&port)) == MR_OK);
    clients[0] = connect_to(port);
    clients[1] = connect_to(port);
    poll_once(&s);
    CHECK(s.link_count == 2);
    epoll_pause_accept(s.transport, true);
    clients[2] = connect_to(port);
    poll_once(&s);
    CHECK(s.link_count == 2);
    epoll_pause_accept(s.transport, false);
    poll_once(&s);
    CHECK(s.link_count == 3);
    for (int i = 3; i < 6; i++)
        clients[i] = connect_to(port);
    epoll_unlisten(s.transport); /* who is in the queue is not reset */
    CHECK(s.link_count == 6);
    epoll_unlisten(s.transport);
    CHECK(write(clients[5], "x", 1) == 1);
    poll_once(&s);
    CHECK(s.data_bytes == 1 && s.goners == 0);
    for (int i = 0; i < 6; i++)
        close(clients[i]);
    close_transport(&s);
}

static void too_many_listeners(void) {
    seen s;
    uint16_t port;
    open_transport("too many listeners", &s);
    for (int i = 0; i < LISTENERS_MAX; i++)
        CHECK(epoll_listen(s.transport, listen_on(&port)) == MR_OK);
    int extra = listen_on(&port);
    CHECK(epoll_listen(s.transport, extra) == MR_INVALID);
    CHECK(fcntl(extra, F_GETFD) == -1); /* taken all the same */
    close_transport(&s);
    open_transport("a file is no link", &s);
    FILE *file = tmpfile();
    CHECK(file != NULL);
    int fd = dup(fileno(file));
    CHECK(epoll_attach(s.transport, &s.links[0], fd) == MR_NOMEM && s.links[0].fd == -1);
    CHECK(fcntl(fd, F_GETFD) == -1);
    fclose(file);
    close_transport(&s);
}

/* In a child, as the limit is the process's. */
static void without_descriptors(void) {
    at_case = "without descriptors";
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        seen s;
        uint16_t port;
        open_transport("without descriptors", &s);
        CHECK(epoll_listen(s.transport, listen_on(&port)) == MR_OK);
        int client = connect_to(port);
        struct rlimit limit = {.rlim_cur = 0, .rlim_max = 1024};
        CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
        poll_once(&s);
        poll_once(&s);
        CHECK(s.problems == 1 && s.link_count == 0); /* paused: it does not spin */
        limit.rlim_cur = 1024;
        CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
        epoll_pause_accept(s.transport, false);
        poll_once(&s);
        CHECK(s.link_count == 1);
        close(client);
        close_transport(&s);
        exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* ---- an engine on top ---- */

typedef struct asked {
    uint64_t connections[8];
    uint32_t seqs[8];
    int count;
} asked;

static mr_rc on_request(void *owner, const mr_request *q) {
    asked *a = owner;
    CHECK(a->count < 8 && q->peer->family == 4 && q->peer->address[0] == 127);
    a->connections[a->count] = q->connection;
    a->seqs[a->count++] = q->seq;
    return MR_OK;
}

static void on_note(void *owner, uint64_t connection, uint32_t seq, mr_note note) {
    (void)owner, (void)connection, (void)seq, (void)note;
}

static void turn(mr_engine *e) {
    CHECK(mr_engine_poll(e, 10) == MR_OK);
    while (mr_engine_resume(e))
        ;
    mr_engine_end(e);
}

/* Reads to the end of the stream while the engine turns. */
static size_t converse(mr_engine *e, int fd, uint8_t *into, size_t most) {
    size_t len = 0;
    bool is_end = false;
    for (int i = 0; i < 3000 && !is_end; i++) {
        turn(e);
        len += read_all(fd, into + len, most - len, &is_end);
    }
    CHECK(is_end);
    return len;
}

static void with_an_engine(void) {
    enum { SIZE = 6000000 };
    static const mr_handlers handlers = {.on_request = on_request, .on_note = on_note};
    static const char text[] = "GET /1 HTTP/1.1\r\nHost: h\r\n\r\n"
                               "GET /2 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
                               "GET /3 HTTP/1.1\r\nHost: h\r\n\r\n";
    asked a = {.count = 0};
    mr_engine_options o = {
        .limits = {.head = {4096, 20, 1024}, .body_bytes = 1000, .held_bytes = SIZE},
        .timeouts = {10000, 10000, 10000, 10000, 10000},
        .transport = &mr_transport_epoll,
        .handlers = &handlers,
        .owner = &a};
    mr_listen_options where = {.address = "127.0.0.1", .backlog = 8};
    uint8_t *body = calloc(1, SIZE), *got = malloc(SIZE + 4096);
    mr_engine *e;
    uint16_t port;
    int error;
    at_case = "with an engine";
    CHECK(body != NULL && got != NULL && mr_engine_create(&o, &e) == MR_OK);
    mr_engine_set_routes(e, NULL, 1, 0);
    CHECK(mr_engine_listen(e, &where, &port, &error) == MR_OK);
    CHECK(mr_engine_listen(e,
                           &(mr_listen_options){.address = "127.0.0.1", .port = port, .backlog = 8},
                           &port, &error) == MR_INVALID &&
          error == EADDRINUSE);
    int client = connect_to(port);
    CHECK(write(client, text, sizeof text - 1) == sizeof text - 1);
    for (int i = 0; i < 3000 && a.count < 2; i++)
        turn(e);
    CHECK(a.count == 2); /* not the one behind the last */
    mr_response r = {.head = (const uint8_t *)"HTTP/1.1 200 OK\r\n",
                     .head_len = 17,
                     .body = body,
                     .body_len = SIZE / 2,
                     .status = 200};
    for (int i = 2; i-- > 0;)
        CHECK(mr_engine_respond(e, a.connections[i], a.seqs[i], &r) == MR_OK);
    size_t len = converse(e, client, got, SIZE + 4096); /* FIN, and no reset, behind all of it */
    CHECK(len > SIZE && len < SIZE + 400);
    close(client);
    for (int i = 0; i < 3000; i++) {
        mr_engine_stats stats;
        mr_engine_get_stats(e, &stats);
        if (stats.connections == 0)
            break;
        turn(e);
    }
    mr_engine_stats stats;
    mr_engine_get_stats(e, &stats);
    CHECK(stats.connections == 0 && stats.accepted == 1 && stats.requests == 2);
    client = connect_to(port); /* in the queue, and drained */
    mr_engine_drain(e, 0);
    CHECK(converse(e, client, got, 10) == 0 && mr_engine_connections(e) == 0);
    mr_engine_destroy(e);
    close(client);
    free(body);
    free(got);
}

int main(void) {
    receiving();
    acting_in_callbacks();
    resets();
    short_writes();
    fin();
    queue_without_memory();
    sending_to_nobody();
    detaching();
    detaching_with_a_queue();
    accepting();
    too_many_listeners();
    without_descriptors();
    with_an_engine();
    return 0;
}
