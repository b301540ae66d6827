/* floor.c -- the least that a server on epoll can do: accept, recv, send of fixed bytes.
 *
 * It parses nothing. It is told how long a request is and answers as many fixed responses as
 * whole requests have come, all of one recv with one send. What a real server costs beyond this
 * is its own; what this costs is the kernel's.
 *
 * State: one remainder per descriptor, the bytes of a request that is not whole yet. */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define EVENTS 512
#define RECV_BYTES 65536
#define MAX_FDS 65536

static const char keep_response[] = "HTTP/1.1 200 OK\r\n"
                                    "Content-Type: text/plain; charset=utf-8\r\n"
                                    "Content-Length: 13\r\n"
                                    "Date: Thu, 01 Jan 2026 00:00:00 GMT\r\n"
                                    "\r\n"
                                    "Hello, World!";
static const char close_response[] = "HTTP/1.1 200 OK\r\n"
                                     "Content-Type: text/plain; charset=utf-8\r\n"
                                     "Content-Length: 13\r\n"
                                     "Date: Thu, 01 Jan 2026 00:00:00 GMT\r\n"
                                     "Connection: close\r\n"
                                     "\r\n"
                                     "Hello, World!";

typedef struct server {
    /* constant once listening */
    int listener;
    int epoll;
    size_t request_bytes;
    size_t response_bytes;
    bool closes;          /* one request per connection */
    char *responses;      /* owned; as many copies as one recv can ask for */
    uint32_t *remainders; /* owned; by descriptor, < request_bytes */
    /* changes with every recv */
    uint64_t request_count;
    uint64_t accept_count;
    char received[RECV_BYTES];
} server;

static void fail(const char *what) {
    fprintf(stderr, "floor: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void watch(server *s, int fd) {
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    if (epoll_ctl(s->epoll, EPOLL_CTL_ADD, fd, &event) != 0)
        fail("epoll_ctl");
}

static void fill_responses(server *s) {
    const char *one = s->closes ? close_response : keep_response;
    size_t copies = RECV_BYTES / s->request_bytes + 2;
    s->response_bytes = strlen(one);
    s->responses = malloc(copies * s->response_bytes);
    s->remainders = calloc(MAX_FDS, sizeof *s->remainders);
    if (s->responses == NULL || s->remainders == NULL)
        fail("malloc");
    for (size_t i = 0; i < copies; i++)
        memcpy(s->responses + i * s->response_bytes, one, s->response_bytes);
}

/* Listens on a free port of 127.0.0.1; accepted sockets inherit TCP_NODELAY from the listener. */
static unsigned start_listening(server *s) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int on = 1;
    s->listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    s->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (s->listener < 0 || s->epoll < 0)
        fail("socket");
    if (setsockopt(s->listener, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0 ||
        bind(s->listener, (struct sockaddr *)&address, size) != 0 ||
        listen(s->listener, 4096) != 0 ||
        getsockname(s->listener, (struct sockaddr *)&address, &size) != 0)
        fail("listen");
    watch(s, s->listener);
    return ntohs(address.sin_port);
}

/* The end of standard input ends the server; a file or /dev/null there cannot be watched, and
 * then only a signal does. */
static void watch_stdin(server *s) {
    struct epoll_event event = {.events = EPOLLIN, .data.fd = STDIN_FILENO};
    if (epoll_ctl(s->epoll, EPOLL_CTL_ADD, STDIN_FILENO, &event) != 0 && errno != EPERM)
        fail("epoll_ctl");
}

static void accept_all(server *s) {
    for (;;) {
        int fd = accept4(s->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0 && errno == ECONNABORTED)
            continue;
        if (fd < 0 && errno == EAGAIN)
            return;
        if (fd < 0 || fd >= MAX_FDS)
            fail("accept");
        s->accept_count++;
        s->remainders[fd] = 0;
        watch(s, fd);
    }
}

static void answer(server *s, int fd) {
    ssize_t got = recv(fd, s->received, sizeof s->received, 0);
    if (got < 0 && errno == EAGAIN)
        return;
    if (got <= 0) {
        close(fd);
        return;
    }
    size_t held = s->remainders[fd] + (size_t)got;
    size_t count = held / s->request_bytes;
    s->remainders[fd] = (uint32_t)(held % s->request_bytes);
    if (count == 0)
        return;
    s->request_count += count;
    size_t size = count * s->response_bytes;
    ssize_t sent = send(fd, s->responses, size, MSG_NOSIGNAL);
    /* A short send would need a queue, which is what this server does without: the depth asked
     * of it is too large for the socket's buffer. A peer that left is no error. */
    if (sent >= 0 && (size_t)sent < size)
        fail("short send");
    if (sent < 0 || s->closes)
        close(fd);
}

static bool stdin_has_ended(void) {
    char byte;
    return read(STDIN_FILENO, &byte, 1) <= 0;
}

static void report(const server *s) {
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    printf("{\"requests\":%llu,\"accepts\":%llu,\"user_us\":%llu,\"system_us\":%llu}\n",
           (unsigned long long)s->request_count, (unsigned long long)s->accept_count,
           (unsigned long long)use.ru_utime.tv_sec * 1000000u +
               (unsigned long long)use.ru_utime.tv_usec,
           (unsigned long long)use.ru_stime.tv_sec * 1000000u +
               (unsigned long long)use.ru_stime.tv_usec);
}

static void serve(server *s) {
    struct epoll_event events[EVENTS];
    for (;;) {
        int count = epoll_wait(s->epoll, events, EVENTS, -1);
        if (count < 0 && errno != EINTR)
            fail("epoll_wait");
        for (int i = 0; i < count; i++) {
            int fd = events[i].data.fd;
            if (fd == s->listener)
                accept_all(s);
            else if (fd != STDIN_FILENO)
                answer(s, fd);
            else if (stdin_has_ended())
                return;
        }
    }
}

static void raise_descriptor_limit(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        fail("getrlimit");
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
        fail("setrlimit");
}

static void read_arguments(server *s, int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--close") == 0)
            s->closes = true;
        else if (strcmp(argv[i], "--request-bytes") == 0 && i + 1 < argc)
            s->request_bytes = strtoul(argv[++i], NULL, 10);
        else
            s->request_bytes = 0;
    }
    if (s->request_bytes == 0 || s->request_bytes > UINT32_MAX) {
        fprintf(stderr, "usage: floor --request-bytes N [--close]\n");
        exit(2);
    }
}

int main(int argc, char **argv) {
    server *s = calloc(1, sizeof *s);
    if (s == NULL)
        fail("malloc");
    read_arguments(s, argc, argv);
    raise_descriptor_limit();
    fill_responses(s);
    printf("{\"port\":%u,\"response_bytes\":%zu}\n", start_listening(s), s->response_bytes);
    fflush(stdout);
    watch_stdin(s);
    serve(s);
    report(s);
    return 0;
}
