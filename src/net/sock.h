/* sock.h -- listening sockets and addresses.
 * Thread:  any; no state. */
#ifndef MR_NET_SOCK_H
#define MR_NET_SOCK_H

#include "base/rc.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define MR_SOCK_PATH_MAX 107u /* octets; sockaddr_un has one more, for a NUL */

typedef enum mr_listen_kind {
    MR_LISTEN_TCP,  /* address, port */
    MR_LISTEN_UNIX, /* path */
    MR_LISTEN_FD    /* fd: a socket that somebody else made, and that listens already */
} mr_listen_kind;

typedef struct mr_listen_options {
    mr_listen_kind kind;
    const char *address; /* numeric IPv4 or IPv6, NUL-terminated */
    uint16_t port;       /* 0: the kernel picks */
    int backlog;         /* >= 1; the kernel cuts it to net.core.somaxconn */
    bool is_ipv6_only;
    bool is_shared;   /* SO_REUSEPORT: several sockets on one port */
    const char *path; /* path_len octets; with a NUL in front a name of Linux's abstract space */
    size_t path_len;  /* 1..MR_SOCK_PATH_MAX */
    bool has_mode;
    uint32_t mode; /* of the socket's file, 0..0777; without has_mode what the umask leaves */
    int fd;
} mr_listen_options;

/* A non-blocking listening socket, closed on exec. TCP: with SO_REUSEADDR and TCP_NODELAY (accepted
 * sockets inherit it). The file of a unix socket has its mode before anybody can connect; what is
 * there already is EADDRINUSE. A descriptor is taken on success, and left alone on failure.
 * MR_INVALID: *error is the errno of the step that failed (EINVAL: not a numeric address;
 * ENAMETOOLONG: a path over the limit; see mr_sock_describe() for descriptors). */
mr_rc mr_sock_listen(const mr_listen_options *options, int *fd, int *error) MR_MUST_CHECK;

/* The port that a bound socket has; 0 when it has none. */
uint16_t mr_sock_port(int fd);

/* Where a socket listens. */
typedef struct mr_sock_name {
    uint8_t family; /* 4, 6, or 0: unix */
    uint16_t port;
    size_t text_len;                 /* 0: a unix socket without a name */
    char text[MR_SOCK_PATH_MAX + 2]; /* a numeric address, or a path; NUL-terminated */
} mr_sock_name;

/* MR_INVALID: *error is EBADF (not open), ENOTSOCK, EPROTOTYPE (not a TCP or unix stream socket) or
 * EINVAL (it does not listen). */
mr_rc mr_sock_describe(int fd, mr_sock_name *name, int *error) MR_MUST_CHECK;

/* The file of a unix socket, to be removed when it closes. */
typedef struct mr_sock_file {
    struct mr_sock_file *next;
    uint64_t device, inode;
    char path[MR_SOCK_PATH_MAX + 1];
} mr_sock_file;

/* Whether the socket has a file: kind UNIX, and not an abstract name. */
bool mr_sock_has_file(const mr_listen_options *options);
/* Remembers which file it is; right after mr_sock_listen(). */
void mr_sock_note_file(const mr_listen_options *options, mr_sock_file *file);
/* Unless another one is in its place by now. */
void mr_sock_remove_file(const mr_sock_file *file);

/* A peer's address in 16 octets: IPv6 as it is, IPv4 (also an IPv4-mapped one) in the first 4. */
typedef struct mr_peer {
    uint8_t address[16];
    uint16_t port;
    uint8_t family; /* 4, 6, or 0 for a socket without addresses */
} mr_peer;

void mr_peer_from(const struct sockaddr *from, socklen_t len, mr_peer *peer);

/* Addresses that have their first bits in common; family 0 stands for unix sockets. */
typedef struct mr_range {
    uint8_t family; /* 0, 4, 6 */
    uint8_t bits;   /* 0..32 with family 4, 0..128 with 6 */
    uint8_t address[16];
} mr_range;

bool mr_range_is_valid(const mr_range *range);
bool mr_peer_is_in(const mr_peer *peer, const mr_range *ranges, size_t count);

/* The next connection that waits at a listening socket: non-blocking, closed on exec, the caller's.
 * -1: *error is the errno of accept(2). */
int mr_sock_accept(int listener, mr_peer *peer, int *error) MR_MUST_CHECK;

/* Of `count` sockets on one port (is_shared), a connection goes to the one whose number, in the order
 * in which they began to listen, is that of the CPU it came in on, modulo `count`. Asked of any of
 * them. MR_INVALID: *error is the errno, of a system that cannot do it. */
mr_rc mr_sock_steer_by_cpu(int fd, uint32_t count, int *error) MR_MUST_CHECK;

#endif
