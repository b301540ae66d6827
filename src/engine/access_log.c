/* access_log.c -- invariant: a ring and the batch hold whole lines only; the batch alone may have
 * been written in part, and then the next octet written is the one after.
 *
 * Of a ring, head belongs to its thread and tail to the writer: both only grow, tail <= head <=
 * tail + cap. The list of rings, and freeing one, are under the mutex, which no post takes. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include "engine/access_log.h"
#include "base/check.h"
#include "base/mem.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LINE_BYTES 64 /* of the cache */
#define RETRY_MS 50   /* between attempts at close */

struct mr_access_ring {
    /* constant */
    mr_access_log *log;
    uint8_t *bytes; /* owned */
    uint64_t cap;   /* a power of two */
    /* its thread's */
    _Alignas(LINE_BYTES) _Atomic uint64_t head;
    uint64_t tail_seen; /* <= tail */
    _Atomic uint64_t posted, dropped;
    atomic_bool is_closed;
    mr_access_time time;
    /* the writer's */
    _Alignas(LINE_BYTES) _Atomic uint64_t tail;
    void *block; /* what was allocated */
};

struct mr_access_log {
    /* constant */
    mr_access_style style;
    uint32_t ring_bytes;
    char *path; /* owned; NULL with a descriptor */
    int wake_read, wake_write;
    pthread_t thread;
    /* any thread */
    atomic_bool wants_reopen, is_closing, is_woken;
    _Atomic uint64_t written_bytes, errors, reopens;
    /* under the mutex */
    pthread_mutex_t mutex;
    pthread_cond_t ended;
    mr_mem mem;
    mr_access_ring *rings[MR_ACCESS_RINGS_MAX]; /* the first ring_count */
    uint32_t ring_count;
    uint64_t posted, dropped; /* of rings that are gone, and of lines given up */
    bool has_ended, is_abandoned;
    /* the writer's */
    int fd;
    bool is_regular; /* else it may be full, and takes a line at a time whole */
    bool is_full;    /* the descriptor: worth a poll */
    bool has_failed; /* the last write: worth another try, later */
    uint32_t first;  /* the ring to begin with */
    size_t batch_len, batch_off;
    uint8_t batch[MR_ACCESS_BATCH_BYTES];
};

_Static_assert(MR_ACCESS_LINE_MAX <= MR_ACCESS_RING_BYTES_MIN / 2, "a ring holds lines");

/* -- posting -- */

/* One octet in the pipe is enough. It cannot be full, then, and a failure costs a WAKE_MS. */
static void wake(mr_access_log *log) {
    if (!atomic_exchange(&log->is_woken, true) && write(log->wake_write, "", 1) < 0)
        atomic_store(&log->is_woken, false);
}

static void add_one(_Atomic uint64_t *count) { /* of which this thread is the only writer */
    uint64_t value = atomic_load_explicit(count, memory_order_relaxed);
    atomic_store_explicit(count, value + 1, memory_order_relaxed);
}

static void copy_in(mr_access_ring *ring, uint64_t at, const uint8_t *bytes, size_t len) {
    size_t off = (size_t)(at & (ring->cap - 1)), behind = (size_t)ring->cap - off;
    size_t part = len < behind ? len : behind;
    memcpy(ring->bytes + off, bytes, part);
    memcpy(ring->bytes, bytes + part, len - part);
}

static void push(mr_access_ring *ring, const uint8_t *bytes, size_t len) {
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    uint64_t half = ring->cap / 2;
    /* The tail is asked for only where it matters: it is another CPU's cache line. */
    if (head + len - ring->tail_seen >= half)
        ring->tail_seen = atomic_load_explicit(&ring->tail, memory_order_acquire);
    uint64_t used = head - ring->tail_seen;
    if (ring->cap - used < len) {
        add_one(&ring->dropped);
        return;
    }
    copy_in(ring, head, bytes, len);
    atomic_store_explicit(&ring->head, head + len, memory_order_release);
    add_one(&ring->posted);
    if (used < half && used + len >= half) /* once, not for each line beyond it */
        wake(ring->log);
}

void mr_access_post(mr_access_ring *ring, const mr_access_record *record) {
    uint8_t bytes[MR_ACCESS_LINE_MAX];
    push(ring, bytes, mr_access_format(bytes, ring->log->style, record, &ring->time));
}

uint64_t mr_access_ring_dropped(const mr_access_ring *ring) {
    return atomic_load_explicit(&ring->dropped, memory_order_relaxed);
}

/* -- rings -- */

static size_t ring_block_bytes(const mr_access_log *log) {
    return sizeof(mr_access_ring) + LINE_BYTES + log->ring_bytes;
}

/* Under the mutex. */
static mr_rc add_ring(mr_access_log *log, mr_access_ring **out) {
    if (log->ring_count == MR_ACCESS_RINGS_MAX)
        return MR_LIMIT;
    void *block = mr_mem_zalloc(&log->mem, ring_block_bytes(log));
    if (block == NULL)
        return MR_NOMEM;
    mr_access_ring *ring =
        (mr_access_ring *)(((uintptr_t)block + LINE_BYTES - 1) & ~(uintptr_t)(LINE_BYTES - 1));
    ring->log = log;
    ring->block = block;
    ring->bytes = (uint8_t *)(ring + 1);
    ring->cap = log->ring_bytes;
    log->rings[log->ring_count++] = ring;
    *out = ring;
    return MR_OK;
}

mr_rc mr_access_ring_open(mr_access_log *log, mr_access_ring **out) {
    *out = NULL;
    pthread_mutex_lock(&log->mutex);
    mr_rc rc = add_ring(log, out);
    pthread_mutex_unlock(&log->mutex);
    return rc;
}

void mr_access_ring_close(mr_access_ring *ring) {
    if (ring != NULL)
        atomic_store_explicit(&ring->is_closed, true, memory_order_release);
}

/* Under the mutex. */
static void remove_ring(mr_access_log *log, uint32_t at) {
    mr_access_ring *ring = log->rings[at];
    log->posted += atomic_load_explicit(&ring->posted, memory_order_relaxed);
    log->dropped += atomic_load_explicit(&ring->dropped, memory_order_relaxed);
    log->rings[at] = log->rings[--log->ring_count];
    mr_mem_free(&log->mem, ring->block, ring_block_bytes(log));
}

/* Under the mutex. */
static void count(mr_access_log *log, mr_access_counts *out) {
    *out = (mr_access_counts){
        .posted = log->posted, .dropped = log->dropped, .rings = log->ring_count};
    for (uint32_t i = 0; i < log->ring_count; i++) {
        out->posted += atomic_load_explicit(&log->rings[i]->posted, memory_order_relaxed);
        out->dropped += atomic_load_explicit(&log->rings[i]->dropped, memory_order_relaxed);
    }
    out->written_bytes = atomic_load(&log->written_bytes);
    out->errors = atomic_load(&log->errors);
    out->reopens = atomic_load(&log->reopens);
}

void mr_access_log_counts(mr_access_log *log, mr_access_counts *out) {
    pthread_mutex_lock(&log->mutex);
    count(log, out);
    pthread_mutex_unlock(&log->mutex);
}

/* -- the writer -- */

/* Whole lines from one ring, as many as the batch has room for. */
static void take_lines(mr_access_log *log, mr_access_ring *ring) {
    uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    size_t len = (size_t)(atomic_load_explicit(&ring->head, memory_order_acquire) - tail);
    size_t room = MR_ACCESS_BATCH_BYTES - log->batch_len;
    size_t off = (size_t)(tail & (ring->cap - 1)), behind = (size_t)ring->cap - off;
    uint8_t *to = log->batch + log->batch_len;
    len = len < room ? len : room;
    memcpy(to, ring->bytes + off, len < behind ? len : behind);
    if (len > behind)
        memcpy(to + behind, ring->bytes, len - behind);
    while (len > 0 && to[len - 1] != '\n')
        len--;
    log->batch_len += len;
    atomic_store_explicit(&ring->tail, tail + len, memory_order_release);
}

static bool is_spent(mr_access_ring *ring) {
    /* closed first: what was posted before it is in head, then */
    return atomic_load_explicit(&ring->is_closed, memory_order_acquire) &&
           atomic_load_explicit(&ring->head, memory_order_acquire) ==
               atomic_load_explicit(&ring->tail, memory_order_relaxed);
}

/* An empty batch is filled, beginning with another ring each time. */
static void gather(mr_access_log *log) {
    log->batch_len = log->batch_off = 0;
    pthread_mutex_lock(&log->mutex);
    for (uint32_t i = 0; i < log->ring_count; i++)
        take_lines(log, log->rings[(log->first + i) % log->ring_count]);
    log->first++;
    for (uint32_t i = log->ring_count; i-- > 0;)
        if (is_spent(log->rings[i]))
            remove_ring(log, i);
    pthread_mutex_unlock(&log->mutex);
}

/* What may be written at once. A pipe, say, gets at most PIPE_BUF octets in whole lines, and only
 * when it has room: then the call does not block even if the descriptor would, and no other
 * writer's octets come between. */
static size_t portion(const mr_access_log *log) {
    size_t len = log->batch_len - log->batch_off;
    if (log->is_regular || len <= MR_ACCESS_LINE_MAX)
        return len;
    len = MR_ACCESS_LINE_MAX;
    while (len > 0 && log->batch[log->batch_off + len - 1] != '\n')
        len--;
    return len > 0 ? len : MR_ACCESS_LINE_MAX;
}

static bool has_room(const mr_access_log *log) {
    struct pollfd out = {.fd = log->fd, .events = POLLOUT};
    return log->is_regular || poll(&out, 1, 0) > 0;
}

/* False: the descriptor is full or fails. The batch stays what it is. */
static bool write_batch(mr_access_log *log) {
    log->is_full = log->has_failed = false;
    while (log->batch_off < log->batch_len) {
        ssize_t n = -1;
        errno = EAGAIN;
        if (has_room(log))
            n = write(log->fd, log->batch + log->batch_off, portion(log));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            log->is_full = n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
            log->has_failed = !log->is_full;
            if (log->has_failed)
                atomic_fetch_add(&log->errors, 1);
            return false;
        }
        log->batch_off += (size_t)n;
        atomic_fetch_add(&log->written_bytes, (uint64_t)n);
    }
    return true;
}

/* Not blocking: the path may be a FIFO. */
static int open_path(const char *path) {
    return open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0640);
}

static bool is_regular_file(int fd) {
    struct stat about;
    return fstat(fd, &about) == 0 && S_ISREG(about.st_mode);
}

static bool is_same_file(int a, int b) {
    struct stat one, other;
    return fstat(a, &one) == 0 && fstat(b, &other) == 0 && one.st_dev == other.st_dev &&
           one.st_ino == other.st_ino;
}

/* A line of which the old file has the beginning comes whole into the new one. */
static void reopen(mr_access_log *log) {
    int fd = log->path != NULL ? open_path(log->path) : -1;
    if (fd < 0) {
        if (log->path != NULL)
            atomic_fetch_add(&log->errors, 1);
        return;
    }
    if (!is_same_file(log->fd, fd))
        while (log->batch_off > 0 && log->batch[log->batch_off - 1] != '\n')
            log->batch_off--;
    close(log->fd);
    log->fd = fd;
    log->is_regular = is_regular_file(fd);
    atomic_fetch_add(&log->reopens, 1);
}

/* True: everything that there was is written. */
static bool drain(mr_access_log *log) {
    while (write_batch(log)) {
        gather(log);
        if (log->batch_len == 0)
            return true;
        if (atomic_exchange(&log->wants_reopen, false))
            reopen(log);
    }
    return false;
}

static uint64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void rest(mr_access_log *log, int timeout_ms) {
    struct pollfd fds[2] = {{.fd = log->wake_read, .events = POLLIN},
                            {.fd = log->is_full ? log->fd : -1, .events = POLLOUT}};
    uint8_t octets[16];
    if (poll(fds, 2, timeout_ms) > 0 && fds[0].revents != 0) {
        while (read(log->wake_read, octets, sizeof octets) == (ssize_t)sizeof octets)
            ;
        /* Read and written in one, before the rings are looked at: who found it set is seen. */
        atomic_exchange(&log->is_woken, false);
    }
}

/* Lines in the rings and the batch that nobody will write. */
static void give_up(mr_access_log *log) {
    uint64_t lines = 0;
    do {
        for (size_t i = log->batch_off; i < log->batch_len; i++)
            lines += log->batch[i] == '\n';
        gather(log);
    } while (log->batch_len != 0);
    pthread_mutex_lock(&log->mutex);
    log->dropped += lines;
    pthread_mutex_unlock(&log->mutex);
}

static void destroy(mr_access_log *log) {
    while (log->ring_count > 0)
        remove_ring(log, log->ring_count - 1);
    if (log->fd >= 0)
        close(log->fd);
    if (log->wake_read >= 0)
        close(log->wake_read);
    if (log->wake_write >= 0)
        close(log->wake_write);
    pthread_cond_destroy(&log->ended);
    pthread_mutex_destroy(&log->mutex);
    mr_mem mem = log->mem;
    mr_mem_free(&mem, log->path, log->path != NULL ? strlen(log->path) + 1 : 0);
    mr_mem_free(&mem, log, sizeof *log);
    MR_ASSERT(mem.used_bytes == 0);
}

static void *write_lines(void *arg) {
    mr_access_log *log = arg;
    uint64_t deadline_ms = 0; /* 0: not closing */
    for (;;) {
        if (atomic_exchange(&log->wants_reopen, false))
            reopen(log);
        bool is_closing = atomic_load(&log->is_closing); /* before the last look */
        bool is_done = drain(log);
        if (is_closing && deadline_ms == 0)
            deadline_ms = now_ms() + MR_ACCESS_CLOSE_MS;
        if (is_closing && (is_done || now_ms() >= deadline_ms))
            break;
        rest(log, is_closing ? RETRY_MS : MR_ACCESS_WAKE_MS);
    }
    give_up(log);
    pthread_mutex_lock(&log->mutex);
    log->has_ended = true;
    bool is_abandoned = log->is_abandoned;
    pthread_cond_signal(&log->ended);
    pthread_mutex_unlock(&log->mutex);
    if (is_abandoned)
        destroy(log);
    return NULL;
}

/* -- open and close -- */

static bool make_pipe(int ends[2]) {
    if (pipe(ends) != 0)
        return false;
    for (int i = 0; i < 2; i++) {
        (void)fcntl(ends[i], F_SETFD, FD_CLOEXEC);
        (void)fcntl(ends[i], F_SETFL, O_NONBLOCK);
    }
    return true;
}

/* Without signals: a SIGPIPE would end the process, and handlers are other threads' business. */
static bool start(mr_access_log *log) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool is_started = pthread_create(&log->thread, NULL, write_lines, log) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return is_started;
}

static bool keep_path(mr_access_log *log, const char *path) {
    size_t bytes = path != NULL ? strlen(path) + 1 : 0;
    if (path == NULL)
        return true;
    log->path = mr_mem_alloc(&log->mem, bytes);
    if (log->path != NULL)
        memcpy(log->path, path, bytes);
    return log->path != NULL;
}

static bool is_valid(const mr_access_options *o, uint32_t ring_bytes) {
    return o->style >= MR_ACCESS_COMMON && o->style <= MR_ACCESS_JSON &&
           ring_bytes >= MR_ACCESS_RING_BYTES_MIN && ring_bytes <= MR_ACCESS_RING_BYTES_MAX &&
           (ring_bytes & (ring_bytes - 1)) == 0;
}

mr_rc mr_access_log_open(const mr_access_options *options, mr_access_log **out) {
    *out = NULL;
    uint32_t ring_bytes = options->ring_bytes != 0 ? options->ring_bytes : MR_ACCESS_RING_BYTES;
    if (!is_valid(options, ring_bytes))
        return MR_INVALID;
    mr_mem mem = {0};
    mr_access_log *log = mr_mem_zalloc(&mem, sizeof *log);
    if (log == NULL)
        return MR_NOMEM;
    mr_rc rc = MR_NOMEM;
    int ends[2] = {-1, -1};
    log->mem = mem;
    log->style = options->style;
    log->ring_bytes = ring_bytes;
    log->fd = log->wake_read = log->wake_write = -1;
    pthread_mutex_init(&log->mutex, NULL);
    pthread_cond_init(&log->ended, NULL);
    if (!keep_path(log, options->path) || !make_pipe(ends))
        goto fail;
    log->wake_read = ends[0];
    log->wake_write = ends[1];
    log->fd =
        options->path != NULL ? open_path(options->path) : fcntl(options->fd, F_DUPFD_CLOEXEC, 0);
    if (log->fd < 0) {
        rc = errno == EMFILE || errno == ENFILE || errno == ENOMEM ? MR_NOMEM : MR_INVALID;
        goto fail;
    }
    log->is_regular = is_regular_file(log->fd);
    if (!start(log))
        goto fail;
    *out = log;
    return MR_OK;
fail:
    destroy(log);
    return rc;
}

void mr_access_log_reopen(mr_access_log *log) {
    atomic_store(&log->wants_reopen, true);
    wake(log);
}

/* Under the mutex. False: the writer is hanging in the kernel. */
static bool await_end(mr_access_log *log) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until); /* the condition's clock */
    long ns = until.tv_nsec + (MR_ACCESS_CLOSE_MS * 3 / 2 % 1000) * 1000000L;
    until.tv_sec += MR_ACCESS_CLOSE_MS * 3 / 2 / 1000 + ns / 1000000000;
    until.tv_nsec = ns % 1000000000;
    while (!log->has_ended)
        if (pthread_cond_timedwait(&log->ended, &log->mutex, &until) == ETIMEDOUT)
            break;
    return log->has_ended;
}

mr_rc mr_access_log_close(mr_access_log *log, mr_access_counts *last) {
    mr_access_counts before, after;
    if (log == NULL)
        return MR_OK;
    mr_access_log_counts(log, &before);
    atomic_store(&log->is_closing, true);
    wake(log);
    pthread_mutex_lock(&log->mutex);
    bool has_ended = await_end(log);
    log->is_abandoned = !has_ended;
    count(log, &after);
    pthread_t thread = log->thread;
    pthread_mutex_unlock(&log->mutex); /* from here on an abandoned log may be gone */
    if (has_ended) {
        pthread_join(thread, NULL);
        destroy(log);
    } else {
        pthread_detach(thread);
    }
    if (last != NULL)
        *last = after;
    return has_ended && after.dropped == before.dropped ? MR_OK : MR_LIMIT;
}
