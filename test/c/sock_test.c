/* sock_test.c -- listening sockets and addresses. */
#include "net/sock.c"

#include <stdio.h>
#include <stdlib.h>

#define CHECK(claim)                                                                               \
    do {                                                                                           \
        if (!(claim)) {                                                                            \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #claim);                            \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static mr_rc try_listen(const char *address, uint16_t port, bool is_shared, int *fd, int *error) {
    mr_listen_options o = {.address = address,
                           .port = port,
                           .backlog = 4,
                           .is_ipv6_only = true,
                           .is_shared = is_shared};
    *fd = -1;
    return mr_sock_listen(&o, fd, error);
}

static void listening(void) {
    int a, b, error, value = 0;
    socklen_t len = sizeof value;
    CHECK(try_listen("127.0.0.1", 0, false, &a, &error) == MR_OK && error == 0);
    uint16_t port = mr_sock_port(a);
    CHECK(port != 0);
    CHECK(getsockopt(a, IPPROTO_TCP, TCP_NODELAY, &value, &len) == 0 && value != 0);
    CHECK(accept(a, NULL, NULL) == -1 && (errno == EAGAIN || errno == EWOULDBLOCK));
    CHECK(try_listen("127.0.0.1", port, false, &b, &error) == MR_INVALID && error == EADDRINUSE);
    CHECK(try_listen("127.0.0.1", port, true, &b, &error) == MR_INVALID); /* both must agree */
    CHECK(b == -1);
    close(a);
    CHECK(try_listen("127.0.0.1", 0, true, &a, &error) == MR_OK);
    CHECK(try_listen("127.0.0.1", mr_sock_port(a), true, &b, &error) == MR_OK);
    close(a);
    close(b);
    if (try_listen("::1", 0, false, &a, &error) == MR_OK) { /* where there is IPv6 */
        CHECK(mr_sock_port(a) != 0);
        close(a);
    }
}

static void bad_addresses(void) {
    static const char *const texts[] = {"",         "localhost", "127.0.0", "256.0.0.1",
                                        "1.2.3.4 ", "::g",       "[::1]"};
    int fd, error;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        CHECK(try_listen(texts[i], 0, false, &fd, &error) == MR_INVALID && error == EINVAL);
    CHECK(mr_sock_port(-1) == 0);
    int pair[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0 && mr_sock_port(pair[0]) == 0);
    close(pair[0]);
    close(pair[1]);
}

static void peers(void) {
    static const uint8_t zero[16];
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(1234)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(4321)};
    struct sockaddr other = {.sa_family = AF_UNIX};
    mr_peer peer;
    CHECK(inet_pton(AF_INET, "192.0.2.7", &v4.sin_addr) == 1);
    mr_peer_from((struct sockaddr *)&v4, sizeof v4, &peer);
    CHECK(peer.family == 4 && peer.port == 1234 && memcmp(peer.address, "\xc0\0\2\7", 4) == 0);
    CHECK(memcmp(peer.address + 4, zero, 12) == 0);
    mr_peer_from((struct sockaddr *)&v4, sizeof v4 - 1, &peer);
    CHECK(peer.family == 0);
    CHECK(inet_pton(AF_INET6, "::ffff:192.0.2.7", &v6.sin6_addr) == 1);
    mr_peer_from((struct sockaddr *)&v6, sizeof v6, &peer);
    CHECK(peer.family == 4 && peer.port == 4321 && memcmp(peer.address, "\xc0\0\2\7", 4) == 0);
    CHECK(memcmp(peer.address + 4, zero, 12) == 0);
    CHECK(inet_pton(AF_INET6, "2001:db8::1", &v6.sin6_addr) == 1);
    mr_peer_from((struct sockaddr *)&v6, sizeof v6, &peer);
    CHECK(peer.family == 6 && memcmp(peer.address, &v6.sin6_addr, 16) == 0);
    mr_peer_from((struct sockaddr *)&v6, sizeof v6 - 1, &peer);
    CHECK(peer.family == 0);
    mr_peer_from(&other, 2, &peer);
    CHECK(peer.family == 0 && peer.port == 0);
}

int main(void) {
    listening();
    bad_addresses();
    peers();
    return 0;
}
