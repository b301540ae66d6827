/* sock.h -- listening sockets and addresses.
 * Thread:  any; no state. */
#ifndef MR_NET_SOCK_H
#define MR_NET_SOCK_H

#include "base/rc.h"
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

typedef struct mr_listen_options {
    const char *address; /* numeric IPv4 or IPv6, NUL-terminated */
    uint16_t port;       /* 0: the kernel picks */
    int backlog;         /* >= 1; the kernel cuts it to net.core.somaxconn */
    bool is_ipv6_only;
    bool is_shared;      /* SO_REUSEPORT: several sockets on one port */
} mr_listen_options;

/* A non-blocking listening TCP socket with SO_REUSEADDR and TCP_NODELAY (accepted sockets inherit
 * it). MR_INVALID: *error is the errno of the step that failed (EINVAL: not a numeric address). */
mr_rc mr_sock_listen(const mr_listen_options *options, int *fd, int *error) MR_MUST_CHECK;

/* The port that a bound socket has; 0 when it has none. */
uint16_t mr_sock_port(int fd);

/* A peer's address in 16 octets: IPv6 as it is, IPv4 (also an IPv4-mapped one) in the first 4. */
typedef struct mr_peer {
    uint8_t address[16];
    uint16_t port;
    uint8_t family; /* 4, 6, or 0 for a socket without addresses */
} mr_peer;

void mr_peer_from(const struct sockaddr *from, socklen_t len, mr_peer *peer);

#endif
