/* idle.c -- connections are opened in groups: the server meets a burst, as it would from real
 * clients, and its backlog never overflows. Blocking sockets with a time limit keep this short. */
#define _GNU_SOURCE
#include "idle.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "response.h"

#define GROUP 64
#define ANSWER_BYTES 65536
#define PATIENCE_S 5

static bool report_failure(uint32_t index, const char *what) {
    fprintf(stderr, "load: idle connection %u: %s: %s\n", index, what, strerror(errno));
    return false;
}

static bool open_and_ask(const mr_options *o, uint32_t index, int *fd) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(o->port)};
    struct timeval patience = {.tv_sec = PATIENCE_S};
    inet_pton(AF_INET, o->host, &address.sin_addr);
    *fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (*fd < 0 || setsockopt(*fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) != 0)
        return report_failure(index, "socket");
    if (connect(*fd, (struct sockaddr *)&address, sizeof address) != 0)
        return report_failure(index, "connect");
    if (send(*fd, o->request, o->request_bytes, MSG_NOSIGNAL) != (ssize_t)o->request_bytes)
        return report_failure(index, "send");
    return true;
}

static bool is_right(const mr_options *o, const mr_response *r, const uint8_t *p) {
    if (r->status != o->expect_status || r->closes)
        return false;
    return o->expect_body == NULL ||
           mr_response_body_is(r, p, o->expect_body, strlen(o->expect_body));
}

static bool read_answer(const mr_options *o, uint32_t index, int fd) {
    uint8_t bytes[ANSWER_BYTES];
    mr_response_cache cache = {.date_at = 0};
    mr_response r;
    for (size_t size = 0; size < sizeof bytes;) {
        ssize_t got = recv(fd, bytes + size, sizeof bytes - size, 0);
        if (got <= 0)
            return report_failure(index, "recv");
        size += (size_t)got;
        mr_response_rc rc = mr_response_parse(&cache, bytes, size, false, &r);
        if (rc == MR_RESPONSE_MORE)
            continue;
        errno = 0;
        return (rc == MR_RESPONSE_DONE && r.total_bytes == size && is_right(o, &r, bytes)) ||
               report_failure(index, "wrong answer");
    }
    return report_failure(index, "endless answer");
}

static bool open_group(const mr_options *o, int *fds, uint32_t first, uint32_t end) {
    for (uint32_t i = first; i < end; i++)
        if (!open_and_ask(o, i, &fds[i]))
            return false;
    for (uint32_t i = first; i < end; i++)
        if (!read_answer(o, i, fds[i]))
            return false;
    return true;
}

static uint32_t count_held(const int *fds, uint32_t count) {
    uint32_t held = 0;
    char byte;
    for (uint32_t i = 0; i < count; i++)
        held += recv(fds[i], &byte, 1, MSG_DONTWAIT | MSG_PEEK) < 0 && errno == EAGAIN;
    return held;
}

int mr_idle_run(const mr_options *o) {
    int *fds = calloc(o->connections, sizeof *fds);
    if (fds == NULL)
        return 1;
    for (uint32_t i = 0; i < o->connections; i += GROUP) {
        uint32_t end = i + GROUP < o->connections ? i + GROUP : o->connections;
        if (!open_group(o, fds, i, end)) {
            free(fds);
            return 1;
        }
    }
    printf("{\"ready\":%u}\n", o->connections);
    fflush(stdout);
    while (getchar() != EOF) {
    }
    uint32_t held = count_held(fds, o->connections);
    printf("{\"held\":%u}\n", held);
    free(fds);
    return held == o->connections ? 0 : 1;
}
