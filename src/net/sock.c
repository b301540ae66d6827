/* sock.c -- see sock.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "net/sock.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

_Static_assert(MR_SOCK_PATH_MAX < sizeof((struct sockaddr_un *)0)->sun_path, "room for a NUL");
_Static_assert(INET6_ADDRSTRLEN <= sizeof((mr_sock_name *)0)->text, "room for an address");

/* ---- addresses ---- */

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

/* The length counts: an abstract name has no end of its own, and may hold NULs. */
static socklen_t path_address(const mr_listen_options *options, struct sockaddr_storage *out)
{
    struct sockaddr_un *un = (struct sockaddr_un *)out;
    bool is_abstract = options->path[0] == '\0';
    memset(out, 0, sizeof *out);
    un->sun_family = AF_UNIX;
    memcpy(un->sun_path, options->path, options->path_len);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + options->path_len +
                       (is_abstract ? 0 : 1));
}

/* 0, or the errno that stands for what is wrong with a path. */
static int path_problem(const mr_listen_options *options)
{
    if (options->path_len > MR_SOCK_PATH_MAX)
        return ENAMETOOLONG;
    if (options->path_len == 0 || (options->path[0] == '\0' && options->path_len == 1))
        return EINVAL;
    bool has_nul = options->path[0] != '\0' && memchr(options->path, '\0', options->path_len);
    return has_nul ? EINVAL : 0;
}

/* ---- listening ---- */

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

static mr_rc listen_tcp(const mr_listen_options *options, int *out, int *error)
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

static mr_rc listen_unix(const mr_listen_options *options, int *out, int *error)
{
    struct sockaddr_storage address;
    const char *path = ((struct sockaddr_un *)&address)->sun_path;
    socklen_t len;
    bool is_bound = false;
    int fd;
    if ((*error = path_problem(options)) != 0)
        return MR_INVALID;
    len = path_address(options, &address);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, len) != 0)
        goto fail;
    is_bound = mr_sock_has_file(options);
    /* Nobody can connect before listen(): the mode of the umask never holds. */
    if (is_bound && options->has_mode && chmod(path, options->mode) != 0)
        goto fail;
    if (listen(fd, options->backlog) != 0)
        goto fail;
    *out = fd;
    return MR_OK;
fail:
    *error = errno;
    if (is_bound)
        (void)unlink(path);
    if (fd >= 0)
        close(fd);
    return MR_INVALID;
}

static mr_rc take_fd(const mr_listen_options *options, int *out, int *error)
{
    mr_sock_name name;
    mr_rc rc = mr_sock_describe(options->fd, &name, error);
    if (rc != MR_OK)
        return rc;
    int flags = fcntl(options->fd, F_GETFL);
    if (flags < 0 || fcntl(options->fd, F_SETFL, flags | O_NONBLOCK) != 0 ||
        fcntl(options->fd, F_SETFD, FD_CLOEXEC) != 0) {
        *error = errno;
        return MR_INVALID;
    }
    if (name.family != 0)
        (void)set_option(options->fd, IPPROTO_TCP, TCP_NODELAY, 1); /* does not matter so much */
    *out = options->fd;
    return MR_OK;
}

mr_rc mr_sock_listen(const mr_listen_options *options, int *out, int *error)
{
    switch (options->kind) {
    case MR_LISTEN_UNIX:
        return listen_unix(options, out, error);
    case MR_LISTEN_FD:
        return take_fd(options, out, error);
    default:
        return listen_tcp(options, out, error);
    }
}

/* ---- what a socket is ---- */

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

static bool has_option(int fd, int name, int wanted)
{
    int value = 0;
    socklen_t len = sizeof value;
    return getsockopt(fd, SOL_SOCKET, name, &value, &len) == 0 && value == wanted;
}

static void name_unix(const struct sockaddr_un *un, socklen_t len, mr_sock_name *name)
{
    size_t start = offsetof(struct sockaddr_un, sun_path);
    size_t count = len > start ? len - start : 0;
    if (count > sizeof un->sun_path)
        count = sizeof un->sun_path;
    if (count > 0 && un->sun_path[0] != '\0')
        count = strnlen(un->sun_path, count);
    memcpy(name->text, un->sun_path, count);
    name->text_len = count;
}

static bool name_socket(const struct sockaddr_storage *address, socklen_t len, mr_sock_name *name)
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)address;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)address;
    const void *octets = NULL;
    memset(name, 0, sizeof *name);
    if (address->ss_family == AF_UNIX) {
        name_unix((const struct sockaddr_un *)address, len, name);
        return true;
    }
    if (address->ss_family == AF_INET) {
        name->family = 4;
        name->port = ntohs(v4->sin_port);
        octets = &v4->sin_addr;
    } else if (address->ss_family == AF_INET6) {
        name->family = 6;
        name->port = ntohs(v6->sin6_port);
        octets = &v6->sin6_addr;
    }
    if (octets == NULL || !inet_ntop(address->ss_family, octets, name->text, sizeof name->text))
        return false;
    name->text_len = strlen(name->text);
    return true;
}

mr_rc mr_sock_describe(int fd, mr_sock_name *name, int *error)
{
    struct sockaddr_storage address;
    socklen_t len = sizeof address;
    memset(&address, 0, sizeof address);
    *error = 0;
    if (getsockname(fd, (struct sockaddr *)&address, &len) != 0)
        *error = errno;
    else if (!has_option(fd, SO_TYPE, SOCK_STREAM) || !name_socket(&address, len, name))
        *error = EPROTOTYPE;
    else if (!has_option(fd, SO_ACCEPTCONN, 1))
        *error = EINVAL;
    return *error == 0 ? MR_OK : MR_INVALID;
}

/* ---- files ---- */

bool mr_sock_has_file(const mr_listen_options *options)
{
    return options->kind == MR_LISTEN_UNIX && options->path[0] != '\0';
}

static bool identify(const char *path, uint64_t *device, uint64_t *inode)
{
    struct stat info;
    if (lstat(path, &info) != 0 || !S_ISSOCK(info.st_mode))
        return false;
    *device = (uint64_t)info.st_dev;
    *inode = (uint64_t)info.st_ino;
    return true;
}

void mr_sock_note_file(const mr_listen_options *options, mr_sock_file *file)
{
    *file = (mr_sock_file){0};
    memcpy(file->path, options->path, options->path_len);
    if (!identify(file->path, &file->device, &file->inode))
        file->path[0] = '\0'; /* gone already: not ours any more */
}

void mr_sock_remove_file(const mr_sock_file *file)
{
    uint64_t device, inode;
    if (file->path[0] != '\0' && identify(file->path, &device, &inode) && device == file->device &&
        inode == file->inode)
        (void)unlink(file->path);
}

/* ---- peers ---- */

void mr_peer_from(const struct sockaddr *from, socklen_t len, mr_peer *peer)
{
    memset(peer, 0, sizeof *peer);
    if (len < sizeof from->sa_family)
        return; /* unix sockets of some systems have no address at all */
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

bool mr_range_is_valid(const mr_range *range)
{
    switch (range->family) {
    case 0:
        return true;
    case 4:
        return range->bits <= 32;
    case 6:
        return range->bits <= 128;
    default:
        return false;
    }
}

static bool is_in(const mr_peer *peer, const mr_range *range)
{
    size_t whole = range->bits / 8;
    if (peer->family != range->family)
        return false;
    if (peer->family == 0)
        return true;
    if (memcmp(peer->address, range->address, whole) != 0)
        return false;
    uint8_t mask = (uint8_t)(0xff00 >> range->bits % 8);
    return range->bits % 8 == 0 || ((peer->address[whole] ^ range->address[whole]) & mask) == 0;
}

bool mr_peer_is_in(const mr_peer *peer, const mr_range *ranges, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (is_in(peer, &ranges[i]))
            return true;
    return false;
}

/* ---- accepting ---- */

/* A program of the kernel's (socket(7), SO_ATTACH_REUSEPORT_CBPF): the socket's number is the CPU's
 * modulo their count. It is attached to one and holds for all of the port. */
mr_rc mr_sock_steer_by_cpu(int fd, uint32_t count, int *error)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)(SKF_AD_OFF + SKF_AD_CPU)),
        BPF_STMT(BPF_ALU | BPF_MOD | BPF_K, count),
        BPF_STMT(BPF_RET | BPF_A, 0),
    };
    struct sock_fprog program = {.len = sizeof code / sizeof code[0], .filter = code};
    if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof program) == 0)
        return MR_OK;
    *error = errno;
    return MR_INVALID;
}

int mr_sock_accept(int listener, mr_peer *peer, int *error)
{
    struct sockaddr_storage from;
    socklen_t len = sizeof from;
    int fd = accept4(listener, (struct sockaddr *)&from, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0)
        mr_peer_from((struct sockaddr *)&from, len, peer);
    else
        *error = errno;
    return fd;
}
