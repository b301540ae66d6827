/* load.c -- the load generator: one thread, many connections, every answer checked.
 *
 * Phases: WARMUP -> WINDOW -> DRAIN -> over. Answers are counted in WINDOW only, errors in all;
 * DRAIN sends nothing and waits for what is on its way, so that what the generator counts in all
 * is what the server has answered in all.
 *
 * Closed loop: a connection sends `depth` requests with one send, waits for all their answers and
 * sends again. Fixed rate: request k is due at start + k / rate, whatever became of those before
 * it; latency counts from then, so a server that stalls pays for each request that it kept from
 * being sent.
 *
 * A connection's output is a stream of one request over and over: its position in that stream and
 * the count of bytes to go are all that a partial send leaves behind. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "cpu.h"
#include "hist.h"
#include "idle.h"
#include "options.h"
#include "response.h"

#define EVENTS 512
#define RX_BYTES (1u << 20) /* also the largest response that can be read */
#define TX_BYTES (1u << 20) /* the most that one send is given */
#define DRAIN_NS 2000000000u
#define MAX_ERRORS 10000u /* a server this broken is not worth the rest of the window */

typedef enum { PHASE_WARMUP, PHASE_WINDOW, PHASE_DRAIN } phase;

typedef enum {
    ERROR_CONNECT,
    ERROR_STATUS,
    ERROR_BODY,
    ERROR_MALFORMED,
    ERROR_UNASKED,     /* bytes behind the last answer */
    ERROR_RESET,       /* recv or send failed */
    ERROR_EARLY_CLOSE, /* end of the connection before all answers */
    ERROR_STALLED,     /* no answer, or no close after it, by the end of DRAIN */
    ERROR_KINDS,
} error_kind;

static const char *const error_names[ERROR_KINDS] = {"connect", "status", "body",       "malformed",
                                                     "unasked", "reset",  "earlyClose", "stalled"};

typedef struct conn {
    int fd;               /* owned; -1 while there is none */
    uint32_t outstanding; /* requests without an answer; <= depth */
    uint32_t first_due;   /* index of the oldest in due_ns */
    bool awaits_eof;      /* its last answer is here, the server is to close */
    bool wants_write;
    bool is_queued;   /* in run.queue */
    size_t tx_bytes;  /* to send */
    size_t tx_at;     /* position in run.tx */
    uint64_t *due_ns; /* owned ring of `depth`: when each outstanding request was due */
    uint8_t *carry;   /* owned; start of an answer that is not whole yet */
    size_t carry_bytes;
} conn;

typedef struct run {
    /* constant after start */
    const mr_options *o;
    struct sockaddr_in address;
    int epoll;
    char *tx; /* owned; copies of the request */
    size_t tx_size;
    conn *conns; /* owned */
    uint8_t *rx; /* owned; RX_BYTES */
    /* fixed rate: connections that can take a request, longest waiting first */
    conn **queue; /* owned; ring of `connections` */
    uint32_t queue_first;
    uint32_t queue_count;
    uint64_t scheduled; /* requests taken from the schedule */
    /* changes with every answer */
    phase phase;
    uint64_t start_ns;
    uint64_t phase_end_ns;
    uint64_t progress_ns; /* with a request_limit: when `answered` last grew */
    uint64_t answered_before;
    uint64_t outstanding;
    uint64_t awaiting_eof;
    uint64_t sent; /* in all phases, as answered */
    uint64_t answered;
    uint64_t reconnects;
    uint64_t error_count;
    uint64_t errors[ERROR_KINDS];
    char first_error[200];
    mr_response_cache cache;
    mr_hist hist;
    /* the window */
    uint64_t window_start_ns, window_end_ns;
    uint64_t window_rx_bytes;
    uint64_t unsent; /* were due in the window, found no free connection */
    mr_cpu own_start, own_end, server_start, server_end;
    bool has_server_cpu;
} run;

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void fail(const char *what) {
    fprintf(stderr, "load: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void *must_alloc(size_t count, size_t size) {
    void *p = calloc(count, size);
    if (p == NULL)
        fail("memory");
    return p;
}

__attribute__((format(printf, 4, 5))) static void
note_error(run *r, error_kind kind, uint64_t count, const char *format, ...) {
    va_list args;
    if (count == 0)
        return;
    r->errors[kind] += count;
    if (r->error_count == 0) {
        va_start(args, format);
        vsnprintf(r->first_error, sizeof r->first_error, format, args);
        va_end(args);
    }
    r->error_count += count;
}

static bool may_send(const run *r) {
    return r->phase != PHASE_DRAIN && (r->o->request_limit == 0 || r->sent < r->o->request_limit);
}

/* ---- connections ---- */

static void watch(run *r, conn *c, int operation) {
    struct epoll_event event = {.events = EPOLLIN | (c->wants_write ? EPOLLOUT : 0u),
                                .data.ptr = c};
    if (epoll_ctl(r->epoll, operation, c->fd, &event) != 0)
        fail("epoll_ctl");
}

/* The connection may still be on its way when this returns: the first send then waits for it. */
static bool open_conn(run *r, conn *c) {
    int on = 1;
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (c->fd < 0 || setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0)
        fail("socket");
    if (connect(c->fd, (struct sockaddr *)&r->address, sizeof r->address) != 0 &&
        errno != EINPROGRESS) {
        note_error(r, ERROR_CONNECT, 1, "connect: %s", strerror(errno));
        close(c->fd);
        c->fd = -1;
        return false;
    }
    watch(r, c, EPOLL_CTL_ADD);
    return true;
}

/* Forgets all that belonged to the connection; its unanswered requests are the caller's to count.
 */
static void close_conn(run *r, conn *c) {
    close(c->fd);
    r->outstanding -= c->outstanding;
    r->awaiting_eof -= c->awaits_eof;
    c->fd = -1;
    c->outstanding = 0;
    c->first_due = 0;
    c->awaits_eof = c->wants_write = false;
    c->tx_bytes = c->tx_at = c->carry_bytes = 0;
}

static void enqueue(run *r, conn *c) {
    if (c->is_queued || c->awaits_eof || c->outstanding == r->o->depth)
        return;
    c->is_queued = true;
    r->queue[(r->queue_first + r->queue_count++) % r->o->connections] = c;
}

static conn *dequeue(run *r) {
    conn *c = r->queue[r->queue_first];
    r->queue_first = (r->queue_first + 1) % r->o->connections;
    r->queue_count--;
    c->is_queued = false;
    return c;
}

/* ---- sending ---- */

static void add_request(run *r, conn *c, uint64_t due_ns) {
    c->due_ns[(c->first_due + c->outstanding) % r->o->depth] = due_ns;
    c->outstanding++;
    c->tx_bytes += r->o->request_bytes;
    r->outstanding++;
    r->sent++;
}

/* Sends what it can. False when the connection is broken; the caller drops it. */
static bool flush_conn(run *r, conn *c) {
    bool wanted_write = c->wants_write;
    c->wants_write = false;
    while (c->tx_bytes > 0 && !c->wants_write) {
        size_t size = r->tx_size - c->tx_at;
        if (size > c->tx_bytes)
            size = c->tx_bytes;
        ssize_t sent = send(c->fd, r->tx + c->tx_at, size, MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN)
            return false;
        c->wants_write = sent < 0;
        c->tx_bytes -= sent < 0 ? 0 : (size_t)sent;
        c->tx_at = (c->tx_at + (sent < 0 ? 0 : (size_t)sent)) % r->tx_size;
    }
    if (c->wants_write != wanted_write)
        watch(r, c, EPOLL_CTL_MOD);
    return true;
}

static void drop_conn(run *r, conn *c, error_kind kind, const char *why);

static void send_or_drop(run *r, conn *c) {
    if (!flush_conn(r, c))
        drop_conn(r, c, ERROR_RESET, strerror(errno));
}

/* Closed loop: the next batch. All its requests are due now. */
static void send_batch(run *r, conn *c, uint64_t now) {
    if (c->fd < 0 && !open_conn(r, c))
        return;
    while (c->outstanding < r->o->depth && may_send(r))
        add_request(r, c, now);
    send_or_drop(r, c);
}

/* The connection is ready for more: closed loop sends at once, fixed rate waits for its turn. */
static void go_on(run *r, conn *c, uint64_t now) {
    if (c->awaits_eof || !may_send(r))
        return;
    if (r->o->rate > 0)
        enqueue(r, c);
    else if (c->outstanding == 0)
        send_batch(r, c, now);
}

/* After MAX_ERRORS nothing is tried again: the run is over with the next look at the clock. */
static void drop_conn(run *r, conn *c, error_kind kind, const char *why) {
    note_error(r, kind, c->outstanding > 0 ? c->outstanding : 1, "%s", why);
    close_conn(r, c);
    r->reconnects++;
    if (r->error_count >= MAX_ERRORS)
        return;
    if (r->o->rate > 0)
        go_on(r, c, 0);
    else if (may_send(r) && open_conn(r, c)) {
        /* The batch goes out when the connection reports that it can be written: sending it here
         * would recurse for as long as the server resets. */
        c->wants_write = true;
        watch(r, c, EPOLL_CTL_MOD);
    }
}

static uint64_t due_at(const run *r, uint64_t index) {
    return r->start_ns + (uint64_t)((double)index * 1e9 / r->o->rate);
}

static void send_due(run *r, uint64_t now) {
    while (r->queue_count > 0 && may_send(r) && due_at(r, r->scheduled) <= now) {
        conn *c = dequeue(r);
        if (c->fd < 0 && !open_conn(r, c)) {
            enqueue(r, c);
            return; /* tried again at the next turn, for the same due time */
        }
        add_request(r, c, due_at(r, r->scheduled++));
        enqueue(r, c);
        send_or_drop(r, c);
    }
}

/* ---- receiving ---- */

static void count_answer(run *r, conn *c, const mr_response *answer, const uint8_t *p,
                         uint64_t now) {
    const char *body = r->o->expect_body;
    if (answer->status != r->o->expect_status)
        note_error(r, ERROR_STATUS, 1, "status %d", answer->status);
    else if (body != NULL && !mr_response_body_is(answer, p, body, strlen(body)))
        note_error(r, ERROR_BODY, 1, "a body of %zu octets is not the expected one",
                   answer->body_bytes);
    if (r->phase == PHASE_WINDOW)
        mr_hist_add(&r->hist, now - c->due_ns[c->first_due]);
    c->first_due = (c->first_due + 1) % r->o->depth;
    c->outstanding--;
    r->outstanding--;
    r->answered++;
    if ((r->o->closes || answer->closes) && c->outstanding == 0) {
        c->awaits_eof = true;
        r->awaiting_eof++;
    }
}

/* Takes whole answers from r->rx; sets how many octets they were. */
static mr_response_rc take_answers(run *r, conn *c, size_t size, bool at_eof, uint64_t now,
                                   size_t *used) {
    *used = 0;
    while (*used < size && c->outstanding > 0) {
        mr_response answer;
        const uint8_t *p = r->rx + *used;
        mr_response_rc rc = mr_response_parse(&r->cache, p, size - *used, at_eof, &answer);
        if (rc != MR_RESPONSE_DONE)
            return rc;
        count_answer(r, c, &answer, p, now);
        *used += answer.total_bytes;
    }
    return MR_RESPONSE_DONE;
}

static void keep_rest(conn *c, const uint8_t *p, size_t size) {
    if (size > 0) {
        c->carry = realloc(c->carry, size);
        if (c->carry == NULL)
            fail("memory");
        memcpy(c->carry, p, size);
    }
    c->carry_bytes = size;
}

static void on_eof(run *r, conn *c, uint64_t now) {
    if (c->outstanding > 0 && !c->awaits_eof)
        note_error(r, ERROR_EARLY_CLOSE, c->outstanding, "closed before the answer");
    close_conn(r, c);
    if (!r->o->closes)
        r->reconnects++;
    go_on(r, c, now);
}

/* One recv and the answers in it. True when the connection is worth another look at once: the
 * end of the connection comes right behind the last answer. */
static bool receive(run *r, conn *c) {
    size_t used;
    size_t held = c->carry_bytes;
    if (held > 0)
        memcpy(r->rx, c->carry, held);
    ssize_t got = recv(c->fd, r->rx + held, RX_BYTES - held, 0);
    if (got < 0) {
        if (errno != EAGAIN)
            drop_conn(r, c, ERROR_RESET, strerror(errno));
        return false;
    }
    uint64_t now = now_ns();
    size_t size = held + (size_t)got;
    if (r->phase == PHASE_WINDOW)
        r->window_rx_bytes += (uint64_t)got;
    mr_response_rc rc = take_answers(r, c, size, got == 0, now, &used);
    if (rc == MR_RESPONSE_BAD || (size - used == RX_BYTES)) {
        drop_conn(r, c, ERROR_MALFORMED, "an answer that cannot be delimited");
    } else if (used < size && c->outstanding == 0) {
        drop_conn(r, c, ERROR_UNASKED, "octets behind the last answer");
    } else if (got == 0) {
        on_eof(r, c, now);
    } else {
        keep_rest(c, r->rx + used, size - used);
        go_on(r, c, now);
        return c->awaits_eof;
    }
    return false;
}

static void on_event(run *r, conn *c, uint32_t events) {
    if (c->fd < 0)
        return;
    if ((events & EPOLLOUT) && !(events & EPOLLERR)) {
        if (c->outstanding == 0)
            go_on(r, c, now_ns());
        if (c->fd >= 0)
            send_or_drop(r, c);
    }
    if (events & (EPOLLIN | EPOLLERR | EPOLLHUP))
        while (c->fd >= 0 && receive(r, c)) {
        }
}

/* ---- phases ---- */

static void read_clocks(run *r, mr_cpu *own, mr_cpu *server) {
    mr_cpu_read(getpid(), own);
    r->has_server_cpu = r->o->pid != 0 && mr_cpu_read(r->o->pid, server);
}

static void start_window(run *r, uint64_t now) {
    r->phase = PHASE_WINDOW;
    mr_hist_reset(&r->hist);
    read_clocks(r, &r->own_start, &r->server_start);
    r->window_start_ns = now;
    r->phase_end_ns = now + r->o->window_ns;
    r->progress_ns = now;
}

static void end_window(run *r, uint64_t now) {
    r->phase = PHASE_DRAIN;
    r->window_end_ns = now;
    read_clocks(r, &r->own_end, &r->server_end);
    while (r->o->rate > 0 && due_at(r, r->scheduled + r->unsent) <= now)
        r->unsent++;
}

/* A counted run has no end by the clock, so one that gets no answer for a while ends too. */
static bool window_is_over(run *r, uint64_t now) {
    if (r->o->request_limit == 0)
        return now >= r->phase_end_ns;
    if (r->answered != r->answered_before) {
        r->answered_before = r->answered;
        r->progress_ns = now;
    }
    bool all_answered = !may_send(r) && r->outstanding + r->awaiting_eof == 0;
    return all_answered || now >= r->progress_ns + DRAIN_NS;
}

/* False when all is over. */
static bool step_phase(run *r, uint64_t now) {
    if (r->error_count >= MAX_ERRORS)
        return false;
    if (r->phase == PHASE_WARMUP && now >= r->phase_end_ns)
        start_window(r, now);
    else if (r->phase == PHASE_WINDOW && window_is_over(r, now))
        end_window(r, now);
    if (r->phase != PHASE_DRAIN)
        return true;
    return r->outstanding + r->awaiting_eof > 0 && now < r->window_end_ns + DRAIN_NS;
}

/* Fixed rate wakes for the next due time, and turns on the spot when that is nearer than epoll can
 * wait for: the generator has a CPU of its own. */
static int wait_ms(const run *r, uint64_t now) {
    if (r->o->rate == 0 || r->phase == PHASE_DRAIN)
        return 10;
    uint64_t due = due_at(r, r->scheduled);
    if (r->queue_count == 0)
        return 1;
    return due < now + 1500000u ? 0 : 1;
}

static void start_conns(run *r) {
    r->start_ns = now_ns();
    for (uint32_t i = 0; i < r->o->connections; i++) {
        conn *c = &r->conns[i];
        if (r->o->rate == 0 && may_send(r))
            send_batch(r, c, now_ns());
        else if (r->o->rate > 0 && (r->o->closes || open_conn(r, c)))
            enqueue(r, c);
    }
}

static void drive(run *r) {
    struct epoll_event events[EVENTS];
    uint64_t now = now_ns();
    r->phase_end_ns = now + r->o->warmup_ns;
    if (r->o->warmup_ns == 0 || r->o->request_limit > 0)
        start_window(r, now);
    start_conns(r);
    while (step_phase(r, now)) {
        int count = epoll_wait(r->epoll, events, EVENTS, wait_ms(r, now));
        if (count < 0 && errno != EINTR)
            fail("epoll_wait");
        for (int i = 0; i < count; i++)
            on_event(r, events[i].data.ptr, events[i].events);
        now = now_ns();
        if (r->o->rate > 0)
            send_due(r, now);
        if (r->error_count > 0 && count == 0 && r->outstanding + r->awaiting_eof == 0 &&
            r->o->rate == 0)
            r->error_count = MAX_ERRORS; /* no connection is left that could go on */
    }
    note_error(r, ERROR_STALLED, r->outstanding + r->awaiting_eof, "no answer or no close in time");
}

/* ---- set-up and report ---- */

static void prepare(run *r) {
    const mr_options *o = r->o;
    size_t copies = TX_BYTES / o->request_bytes;
    copies = copies > o->depth ? o->depth : copies == 0 ? 1 : copies;
    r->tx_size = copies * o->request_bytes;
    r->tx = must_alloc(copies, o->request_bytes);
    for (size_t i = 0; i < copies; i++)
        memcpy(r->tx + i * o->request_bytes, o->request, o->request_bytes);
    r->rx = must_alloc(RX_BYTES, 1);
    r->queue = must_alloc(o->connections, sizeof(conn *));
    r->conns = must_alloc(o->connections, sizeof *r->conns);
    for (uint32_t i = 0; i < o->connections; i++)
        r->conns[i] = (conn){.fd = -1, .due_ns = must_alloc(o->depth, sizeof(uint64_t))};
    r->address = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(o->port)};
    if (inet_pton(AF_INET, o->host, &r->address.sin_addr) != 1) {
        fprintf(stderr, "load: --host is no IPv4 address\n");
        exit(2);
    }
    if ((r->epoll = epoll_create1(EPOLL_CLOEXEC)) < 0)
        fail("epoll_create1");
}

static void dispose(run *r) {
    for (uint32_t i = 0; i < r->o->connections; i++) {
        if (r->conns[i].fd >= 0)
            close(r->conns[i].fd);
        free(r->conns[i].due_ns);
        free(r->conns[i].carry);
    }
    close(r->epoll);
    free(r->conns);
    free(r->queue);
    free(r->rx);
    free(r->tx);
}

static void print_cpu(const char *name, const mr_cpu *start, const mr_cpu *end) {
    printf(",\"%s\":{\"totalNs\":%llu,\"ticksNs\":%llu,\"userTicksNs\":%llu}", name,
           (unsigned long long)(end->total_ns - start->total_ns),
           (unsigned long long)(end->ticks_ns - start->ticks_ns),
           (unsigned long long)(end->user_ns - start->user_ns));
}

static void print_errors(const run *r) {
    printf(",\"errors\":%llu,\"errorKinds\":{", (unsigned long long)r->error_count);
    for (int i = 0; i < ERROR_KINDS; i++)
        printf("%s\"%s\":%llu", i > 0 ? "," : "", error_names[i], (unsigned long long)r->errors[i]);
    /* texts of this program and of strerror(): nothing in them needs escaping */
    printf("},\"firstError\":\"%s\"", r->first_error);
}

static void print_latency(const mr_hist *h) {
    double mean = h->count > 0 ? (double)h->sum_ns / (double)h->count : 0;
    printf(",\"latencyUs\":{\"mean\":%.1f,\"p50\":%.1f,\"p90\":%.1f,\"p99\":%.1f,\"p999\":%.1f,"
           "\"max\":%.1f}",
           mean / 1e3, (double)mr_hist_quantile(h, 0.5) / 1e3,
           (double)mr_hist_quantile(h, 0.9) / 1e3, (double)mr_hist_quantile(h, 0.99) / 1e3,
           (double)mr_hist_quantile(h, 0.999) / 1e3, (double)h->max_ns / 1e3);
}

static void report(const run *r) {
    double seconds = (double)(r->window_end_ns - r->window_start_ns) / 1e9;
    if (r->window_end_ns == 0)
        seconds = 0;
    printf("{\"requests\":%llu,\"seconds\":%.6f,\"requestsPerSecond\":%.1f",
           (unsigned long long)r->hist.count, seconds,
           seconds > 0 ? (double)r->hist.count / seconds : 0.0);
    printf(",\"sent\":%llu,\"answered\":%llu,\"reconnects\":%llu,\"unsent\":%llu,\"rxBytes\":%llu",
           (unsigned long long)r->sent, (unsigned long long)r->answered,
           (unsigned long long)r->reconnects, (unsigned long long)r->unsent,
           (unsigned long long)r->window_rx_bytes);
    print_errors(r);
    print_latency(&r->hist);
    print_cpu("generator", &r->own_start, &r->own_end);
    if (r->has_server_cpu && r->window_end_ns != 0)
        print_cpu("server", &r->server_start, &r->server_end);
    printf("}\n");
}

static void raise_descriptor_limit(uint32_t connections) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        fail("getrlimit");
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
        fail("setrlimit");
    if (limit.rlim_max < connections + 16u) {
        fprintf(stderr, "load: %u connections need more descriptors than the hard limit of %llu\n",
                connections, (unsigned long long)limit.rlim_max);
        exit(1);
    }
}

int main(int argc, char **argv) {
    mr_options options;
    mr_options_read(&options, argc, argv);
    if (options.prints_request) {
        printf("{\"requestBytes\":%zu}\n", options.request_bytes);
        return 0;
    }
    raise_descriptor_limit(options.connections);
    if (options.is_idle)
        return mr_idle_run(&options);
    run *r = must_alloc(1, sizeof *r);
    r->o = &options;
    prepare(r);
    drive(r);
    report(r);
    int code = r->error_count > 0 ? 1 : 0;
    dispose(r);
    free(r);
    free(options.request);
    return code;
}
