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

/* ---- unix sockets ---- */

static char folder[64];

static mr_listen_options unix_options(const char *path, size_t len) {
    return (mr_listen_options){
        .kind = MR_LISTEN_UNIX, .path = path, .path_len = len, .backlog = 4};
}

static int try_unix(const char *path, size_t len, int *fd) {
    mr_listen_options o = unix_options(path, len);
    int error = -1;
    *fd = -1;
    mr_rc rc = mr_sock_listen(&o, fd, &error);
    CHECK((rc == MR_OK) == (error == 0) && (rc == MR_OK) == (*fd >= 0));
    return error;
}

static void in_folder(char *path, size_t size, const char *name) {
    CHECK((size_t)snprintf(path, size, "%s/%s", folder, name) < size);
}

static bool can_connect(const char *path, size_t len) {
    struct sockaddr_storage address;
    mr_listen_options o = unix_options(path, len);
    socklen_t address_len = path_address(&o, &address);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    bool is_through = connect(fd, (struct sockaddr *)&address, address_len) == 0;
    close(fd);
    return is_through;
}

static void unix_sockets(void) {
    char path[128], name[8] = "\0mr-";
    struct stat info;
    mr_sock_name told;
    mr_sock_file file;
    int a, b, error;
    in_folder(path, sizeof path, "a.sock");
    mr_listen_options o = unix_options(path, strlen(path));
    CHECK(mr_sock_has_file(&o));
    CHECK(try_unix(path, strlen(path), &a) == 0 && can_connect(path, strlen(path)));
    mr_sock_note_file(&o, &file);
    CHECK(accept(a, NULL, NULL) >= 0 && accept(a, NULL, NULL) == -1 && errno == EAGAIN);
    CHECK(mr_sock_describe(a, &told, &error) == MR_OK && told.family == 0 && told.port == 0);
    CHECK(told.text_len == strlen(path) && strcmp(told.text, path) == 0);
    CHECK(try_unix(path, strlen(path), &b) == EADDRINUSE);
    close(a);
    CHECK(!can_connect(path, strlen(path)) && try_unix(path, strlen(path), &b) == EADDRINUSE);
    mr_sock_remove_file(&file);
    CHECK(lstat(path, &info) != 0);
    mr_sock_remove_file(&file); /* nothing there: nothing happens */
    o.has_mode = true;
    o.mode = 0604;
    CHECK(mr_sock_listen(&o, &a, &error) == MR_OK);
    CHECK(lstat(path, &info) == 0 && (info.st_mode & 0777) == 0604);
    mr_sock_remove_file(&file); /* another file by now, unless the number was given out again */
    close(a);
    (void)unlink(path);
    memcpy(name + 4, &(int){getpid()}, 3);
    o = unix_options(name, 7);
    CHECK(!mr_sock_has_file(&o));
    CHECK(try_unix(name, 7, &a) == 0 && can_connect(name, 7) && !can_connect(name, 6));
    CHECK(mr_sock_describe(a, &told, &error) == MR_OK && told.text_len == 7);
    CHECK(memcmp(told.text, name, 7) == 0);
    close(a);
}

/* The file of another server that took the path over stays. */
static void files_of_others(void) {
    char path[128], other[128];
    struct stat info;
    mr_sock_file file;
    int a, b;
    in_folder(path, sizeof path, "mine.sock");
    in_folder(other, sizeof other, "other.sock");
    mr_listen_options o = unix_options(path, strlen(path));
    CHECK(try_unix(path, strlen(path), &a) == 0);
    mr_sock_note_file(&o, &file);
    CHECK(try_unix(other, strlen(other), &b) == 0 && rename(other, path) == 0);
    mr_sock_remove_file(&file);
    CHECK(lstat(path, &info) == 0);
    CHECK(unlink(path) == 0);
    mr_sock_note_file(&o, &file); /* gone before it was noted */
    FILE *plain = fopen(path, "w");
    CHECK(plain != NULL && fclose(plain) == 0);
    mr_sock_remove_file(&file);
    mr_sock_note_file(&o, &file); /* no socket */
    mr_sock_remove_file(&file);
    CHECK(lstat(path, &info) == 0 && unlink(path) == 0);
    close(a);
    close(b);
}

static void bad_paths(void) {
    char path[MR_SOCK_PATH_MAX + 2];
    struct stat info;
    int fd;
    size_t len = strlen(folder);
    memset(path, 'x', sizeof path);
    memcpy(path, folder, len);
    path[len] = '/';
    CHECK(try_unix(path, MR_SOCK_PATH_MAX + 1, &fd) == ENAMETOOLONG);
    path[MR_SOCK_PATH_MAX] = '\0';
    CHECK(try_unix(path, MR_SOCK_PATH_MAX, &fd) == 0);
    CHECK(lstat(path, &info) == 0 && unlink(path) == 0);
    close(fd);
    CHECK(try_unix("", 0, &fd) == EINVAL && try_unix("\0", 1, &fd) == EINVAL);
    CHECK(try_unix("a\0b", 3, &fd) == EINVAL);
    in_folder(path, sizeof path, "no/such");
    CHECK(try_unix(path, strlen(path), &fd) == ENOENT);
}

/* ---- descriptors ---- */

static int try_fd(int fd) {
    mr_listen_options o = {.kind = MR_LISTEN_FD, .fd = fd, .backlog = 1};
    int taken = -1, error = -1;
    mr_rc rc = mr_sock_listen(&o, &taken, &error);
    CHECK((rc == MR_OK) == (error == 0) && taken == (rc == MR_OK ? fd : -1));
    return error;
}

static void descriptors(void) {
    int fd, error, pair[2];
    mr_sock_name told;
    CHECK(try_listen("127.0.0.1", 0, false, &fd, &error) == MR_OK);
    CHECK(fcntl(fd, F_SETFL, 0) == 0 && fcntl(fd, F_SETFD, 0) == 0);
    CHECK(try_fd(fd) == 0);
    CHECK((fcntl(fd, F_GETFL) & O_NONBLOCK) != 0 && fcntl(fd, F_GETFD) == FD_CLOEXEC);
    CHECK(mr_sock_describe(fd, &told, &error) == MR_OK && told.family == 4);
    CHECK(strcmp(told.text, "127.0.0.1") == 0 && told.port == mr_sock_port(fd));
    close(fd);
    CHECK(try_fd(fd) == EBADF && try_fd(-1) == EBADF);
    CHECK(pipe(pair) == 0 && try_fd(pair[0]) == ENOTSOCK);
    close(pair[0]);
    close(pair[1]);
    fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(try_fd(fd) == EINVAL && fcntl(fd, F_GETFD) == 0); /* and left as it was */
    close(fd);
    fd = socket(AF_INET, SOCK_DGRAM, 0);
    CHECK(try_fd(fd) == EPROTOTYPE);
    close(fd);
    if (try_listen("::1", 0, false, &fd, &error) == MR_OK) {
        CHECK(mr_sock_describe(fd, &told, &error) == MR_OK && told.family == 6);
        CHECK(strcmp(told.text, "::1") == 0);
        close(fd);
    }
}

/* ---- ranges ---- */

static bool is_covered(const char *address, const char *first, unsigned bits) {
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    mr_range range = {.family = strchr(first, ':') ? 6 : 4, .bits = (uint8_t)bits};
    mr_peer peer;
    char mapped[64];
    CHECK(inet_pton(range.family == 6 ? AF_INET6 : AF_INET, first, range.address) == 1);
    (void)snprintf(mapped, sizeof mapped, "%s%s", strchr(address, ':') ? "" : "::ffff:", address);
    CHECK(inet_pton(AF_INET6, mapped, &v6.sin6_addr) == 1);
    mr_peer_from((struct sockaddr *)&v6, sizeof v6, &peer);
    CHECK(mr_range_is_valid(&range));
    return mr_peer_is_in(&peer, &range, 1);
}

static void ranges(void) {
    static const mr_range both[] = {{.family = 6, .bits = 128}, {.family = 0}};
    mr_peer unix_peer = {0}, v4 = {.family = 4};
    CHECK(is_covered("10.255.0.1", "10.0.0.0", 8) && !is_covered("11.0.0.1", "10.0.0.0", 8));
    CHECK(is_covered("10.0.0.1", "10.0.0.1", 32) && !is_covered("10.0.0.0", "10.0.0.1", 32));
    CHECK(is_covered("10.0.0.0", "10.0.0.1", 31) && !is_covered("10.0.0.2", "10.0.0.1", 31));
    CHECK(is_covered("172.31.9.9", "172.16.0.0", 12));
    CHECK(!is_covered("172.32.0.0", "172.16.0.0", 12));
    CHECK(is_covered("9.9.9.9", "0.0.0.0", 0) && !is_covered("::1", "0.0.0.0", 0));
    CHECK(is_covered("::1", "::1", 128) && !is_covered("::2", "::1", 128));
    CHECK(is_covered("fdff::1", "fc00::", 7) && !is_covered("fe00::1", "fc00::", 7));
    CHECK(is_covered("2001::1", "::", 0) && !is_covered("1.2.3.4", "::", 0));
    CHECK(mr_peer_is_in(&unix_peer, both, 2) && !mr_peer_is_in(&unix_peer, both, 1));
    CHECK(!mr_peer_is_in(&v4, both, 2) && !mr_peer_is_in(&v4, NULL, 0));
    CHECK(!mr_range_is_valid(&(mr_range){.family = 4, .bits = 33}));
    CHECK(!mr_range_is_valid(&(mr_range){.family = 6, .bits = 129}));
    CHECK(!mr_range_is_valid(&(mr_range){.family = 5}));
}

int main(void) {
    const char *parent = getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp";
    CHECK((size_t)snprintf(folder, sizeof folder, "%s/mr-sock-XXXXXX", parent) < sizeof folder);
    CHECK(mkdtemp(folder) != NULL);
    unix_sockets();
    files_of_others();
    bad_paths();
    descriptors();
    ranges();
    CHECK(rmdir(folder) == 0);
    listening();
    bad_addresses();
    peers();
    return 0;
}
