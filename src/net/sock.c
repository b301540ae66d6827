/* sock.c -- see sock.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "net/sock.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <unistd.h>

static socklen_t parse_address(const mr_listen_options *options, struct sockaddr_storage *out)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)out;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)out;
    memset(out, 0, sizeof *out);
    if (inet_pton(AF_INET, options->address, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons(options->port);
        return sizeof *v4;
    }
    if (inet_pton(AF_INET6, options->address, &v6->sin6_addr) == 1) {
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons(options->port);
        return sizeof *v6;
    }
    return 0;
}

static bool set_option(int fd, int level, int name, int value)
{
    return setsockopt(fd, level, name, &value, sizeof value) == 0;
}

static bool set_options(int fd, const mr_listen_options *options, bool is_ipv6)
{
    if (!set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1))
        return false;
    if (is_ipv6 && !set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, options->is_ipv6_only))
        return false;
    if (options->is_shared && !set_option(fd, SOL_SOCKET, SO_REUSEPORT, 1))
        return false;
    return set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
}

mr_rc mr_sock_listen(const mr_listen_options *options, int *out, int *error)
{
    struct sockaddr_storage address;
    socklen_t len = parse_address(options, &address);
    int fd;
    *error = EINVAL;
    if (len == 0)
        return MR_INVALID;
    fd = socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        goto fail;
    if (!set_options(fd, options, address.ss_family == AF_INET6))
        goto fail;
    if (bind(fd, (struct sockaddr *)&address, len) != 0 || listen(fd, options->backlog) != 0)
        goto fail;
    *out = fd;
    *error = 0;
    return MR_OK;
fail:
    *error = errno;
    if (fd >= 0)
        close(fd);
    return MR_INVALID;
}

uint16_t mr_sock_port(int fd)
{
    struct sockaddr_storage address;
    socklen_t len = sizeof address;
    memset(&address, 0, sizeof address);
    if (getsockname(fd, (struct sockaddr *)&address, &len) != 0)
        return 0;
    if (address.ss_family == AF_INET)
        return ntohs(((struct sockaddr_in *)&address)->sin_port);
    if (address.ss_family == AF_INET6)
        return ntohs(((struct sockaddr_in6 *)&address)->sin6_port);
    return 0;
}

void mr_peer_from(const struct sockaddr *from, socklen_t len, mr_peer *peer)
{
    memset(peer, 0, sizeof *peer);
    if (from->sa_family == AF_INET && len >= sizeof(struct sockaddr_in)) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)from;
        memcpy(peer->address, &v4->sin_addr, 4);
        peer->port = ntohs(v4->sin_port);
        peer->family = 4;
    } else if (from->sa_family == AF_INET6 && len >= sizeof(struct sockaddr_in6)) {
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)from;
        bool is_mapped = IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr);
        memcpy(peer->address, (const uint8_t *)&v6->sin6_addr + (is_mapped ? 12 : 0),
               is_mapped ? 4 : 16);
        peer->port = ntohs(v6->sin6_port);
        peer->family = is_mapped ? 4 : 6;
    }
}
