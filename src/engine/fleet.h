/* fleet.h -- the threads of one process that behave as one server: who is there, messages between
 * them, what they share.
 *
 * A thread's place in the fleet is its number, 0 .. thread_count - 1. Whoever fills it sits on a
 * seat: while a thread is being replaced the old and the new one live side by side, so there are
 * twice as many seats as threads, and one for the supervisor. A seat goes FREE -> STARTING -> UP ->
 * DRAINING -> GONE -> FREE and steps may be skipped, never undone. STARTING to GONE is the thread's
 * own doing, the last step the supervisor's: it hands on what the thread left behind.
 *
 * Owns:    seats, mailboxes, names, listening sockets, the counters that all threads share.
 * Thread:  any, where nothing else is said; what changes seldom is under one lock, which is never
 *          taken for a request or a message.
 * Uses:    base/, net/sock.h. */
#ifndef MR_ENGINE_FLEET_H
#define MR_ENGINE_FLEET_H

#include "base/mem.h"
#include "engine/bell.h"
#include "engine/mailbox.h"
#include "engine/access_log.h"
#include "engine/meter.h"
#include "engine/rate.h"
#include "engine/series.h"
#include "net/sock.h"
#include <pthread.h>
#include <stdatomic.h>

#define MR_FLEET_THREADS_MAX 64u
#define MR_FLEET_SEATS_MAX (2u * MR_FLEET_THREADS_MAX + 1u)
#define MR_SUPERVISOR 0u /* its seat */
#define MR_NO_SEAT 0xFFFFFFFFu
#define MR_FLEET_NAMES_MAX 4096u /* names of handlers of messages */
#define MR_FLEET_NAME_BYTES 256u /* of one */
#define MR_FLEET_LISTENERS_MAX 16u
#define MR_LISTENER_KEY_BYTES 320u
#define MR_FLEET_ROUTE_BYTES 255u /* of a route's name in the metrics; longer ones are cut */
#define MR_FLEET_MAILBOX_BYTES (64u * 1024u)
#define MR_FLEET_LARGE_BYTES                                                                       \
    (64u * 1024u * 1024u) /* messages of one pair that are too large for the ring */

typedef enum mr_seat_state {
    MR_SEAT_FREE,
    MR_SEAT_STARTING,
    MR_SEAT_UP,       /* it listens */
    MR_SEAT_DRAINING, /* it accepts no more */
    MR_SEAT_GONE      /* its thread has left */
} mr_seat_state;

/* Of one route, by its row in the meters. */
typedef struct mr_permits {
    _Atomic uint32_t used;
    _Atomic uint64_t waiting[MR_BELL_WORDS]; /* seats that want one, a bit each */
} mr_permits;

typedef struct mr_seat {
    mr_meter meter; /* first: it is aligned to cache lines; written by the seat's thread alone */
    mr_bell bell;
    /* By the seat of the sender; made when it first writes, freed with the fleet. */
    _Atomic(mr_mailbox *) inbox[MR_FLEET_SEATS_MAX];
    _Atomic uint32_t state;      /* mr_seat_state */
    _Atomic uint32_t generation; /* counts its tenants */
    _Atomic uint32_t thread;     /* whose place this is */
    _Atomic uint32_t load;       /* connections on their way to it or open there */
    _Atomic uint64_t pinged_ns;  /* since when it has not answered the supervisor; 0: it has */
    _Atomic uint64_t beat_ns;    /* when its loop last turned */
    mr_values values;            /* of the program's own metrics; made at the first definition */
    uint32_t permits[MR_METER_ROUTES_MAX]; /* that it holds; its thread's, then the supervisor's */
    mr_meter_window window;                /* under the lock: whoever looks at its utilisation */
} mr_seat;

/* What a message is; the flags belong to whoever sends that kind. */
typedef enum mr_mail_kind {
    MR_MAIL_POST = 1,
    MR_MAIL_CALL,
    MR_MAIL_ANSWER,
    MR_MAIL_CONTROL, /* between the supervisor and a thread */
    MR_MAIL_SOCKET   /* mr_handed_socket: a connection that was accepted elsewhere */
} mr_mail_kind;

typedef struct mr_handed_socket {
    int fd;
    uint32_t listener;
    bool is_counted; /* among the fleet's connections: it was served by another thread before */
    mr_peer peer;
} mr_handed_socket;

typedef enum mr_balance {
    MR_BALANCE_REUSEPORT, /* the kernel spreads: a listening socket for each thread */
    MR_BALANCE_ROTATE,    /* the supervisor accepts and hands over, in turn */
    MR_BALANCE_LEAST,     /* to the thread with the fewest connections */
    MR_BALANCE_SELECT     /* to the thread that a function names */
} mr_balance;

/* A listening socket, or one for each thread. It belongs to the fleet, not to the thread that
 * serves it: connections that wait in its queue survive the thread. */
typedef struct mr_listener {
    char key[MR_LISTENER_KEY_BYTES]; /* what it was asked for by, and a NUL */
    mr_balance balance;
    uint16_t port;
    _Atomic bool is_open;          /* the rest is set before it and constant then */
    int fds[MR_FLEET_THREADS_MAX]; /* owned; one each under REUSEPORT, else the first only */
    uint32_t fd_count;
    _Atomic uint64_t users[MR_BELL_WORDS]; /* seats that serve it now, a bit each */
    mr_sock_file file;
    bool has_file;
} mr_listener;

typedef struct mr_fleet {
    /* constant */
    uint32_t id;
    uint32_t thread_count, seat_count;
    mr_balance balance;
    bool keeps_cpu;
    uint64_t stuck_ns; /* a thread whose loop has not turned for so long gets no new connections */
    /* shared, hot */
    uint8_t line_before[64]; /* a cache line of its own for what is written for each connection */
    _Atomic uint32_t connections; /* of all threads, against limits.connections */
    uint8_t line_behind[64];
    _Atomic uint32_t refs;
    _Atomic bool is_ending;                           /* no thread is replaced any more */
    _Atomic uint32_t current[MR_FLEET_THREADS_MAX];   /* seat of each thread, or MR_NO_SEAT */
    _Atomic uint64_t sockets_handed, sockets_dropped; /* by the supervisor */
    _Atomic uint64_t mail_lost; /* posted to threads that left before they read it */
    mr_permits permits[MR_METER_ROUTES_MAX];
    pthread_mutex_t lock;
    /* under the lock */
    mr_mem mem;
    char (*names)[MR_FLEET_NAME_BYTES + 1];
    uint32_t name_count, name_cap;
    mr_listener listeners[MR_FLEET_LISTENERS_MAX];
    mr_meter_totals retired; /* of threads that are gone */
    mr_series *series;       /* the program's own metrics; made at the first definition */
    mr_rate *rate;           /* made by the first engine that asks for a limit */
    mr_access_log *access;   /* made by the first engine that asks for a log */
    char (*routes)[MR_FLEET_ROUTE_BYTES + 1]; /* names of the rows of the meters */
    uint32_t route_count;                     /* <= MR_METER_ROUTES_MAX */
    /* the supervisor's */
    uint32_t next_turn;
    mr_seat *seats; /* seat_count; in seat_block, aligned to cache lines */
    void *seat_block;
} mr_fleet;

typedef struct mr_fleet_options {
    uint32_t id;
    uint32_t thread_count; /* 1..MR_FLEET_THREADS_MAX */
    mr_balance balance;
    uint32_t stuck_ms;
    bool keeps_cpu; /* REUSEPORT: a connection goes to the thread of the CPU that it came in on, by
                       number, modulo the threads (Linux 4.5) */
} mr_fleet_options;

/* MR_INVALID, MR_NOMEM. */
mr_rc mr_fleet_create(const mr_fleet_options *options, mr_fleet **out) MR_MUST_CHECK;
void mr_fleet_retain(mr_fleet *fleet);
/* The last one closes the listening sockets and frees everything. Accepts NULL. */
void mr_fleet_release(mr_fleet *fleet);

/* ---- seats ---- */

/* A place for a thread that is about to start. MR_LIMIT: two are there already. */
mr_rc mr_fleet_take_seat(mr_fleet *fleet, uint32_t thread, uint32_t *seat) MR_MUST_CHECK;
/* The seat's thread: from now on it is rung. */
void mr_fleet_arrive(mr_fleet *fleet, uint32_t seat, void (*ring)(void *), void *arg);
/* The seat's thread: it listens; from now on messages for its thread number go to it. */
void mr_fleet_up(mr_fleet *fleet, uint32_t seat);
void mr_fleet_draining(mr_fleet *fleet, uint32_t seat);
/* The seat's thread, last of all: nobody rings it any more. */
void mr_fleet_leave(mr_fleet *fleet, uint32_t seat);
/* The supervisor, once the thread has ended or could not be started: connections on their way to it
 * go to others, messages are counted as lost, its counters live on in the totals, the seat is free.
 */
void mr_fleet_reap(mr_fleet *fleet, uint32_t seat);
/* The seat of a thread, or MR_NO_SEAT. */
uint32_t mr_fleet_seat_of(const mr_fleet *fleet, uint32_t thread);
static inline mr_seat_state mr_seat_state_of(const mr_seat *seat)
{
    return (mr_seat_state)atomic_load_explicit(&seat->state, memory_order_acquire);
}
/* Whether the loop of a seat has not turned for stuck_ns. */
bool mr_fleet_is_stuck(const mr_fleet *fleet, uint32_t seat, uint64_t now_ns);
/* The supervisor, some times a second: asks the loops that have not turned since to show that they
 * do. */
void mr_fleet_ping(mr_fleet *fleet, uint64_t now_ns);
/* The seat's thread: its loop turns. Returns how late the answer to a ping is, or 0. */
uint64_t mr_fleet_beat(mr_fleet *fleet, uint32_t seat, uint64_t now_ns);

/* ---- messages ---- */

/* From a seat's own thread to any seat. FIFO for each pair. `generation` is filled in.
 * MR_GONE: nobody sits there. MR_LIMIT: its mailbox is full. MR_INVALID: too large. MR_NOMEM. */
mr_rc mr_fleet_post(mr_fleet *fleet, uint32_t from, uint32_t to, mr_mail *mail) MR_MUST_CHECK;
/* The seat's thread reads: for each message `take` is called until it returns false; the rest
 * stays, and the seat is rung again. Returns whether anything stayed. Messages for an earlier
 * tenant are dropped and counted. */
bool mr_fleet_read(mr_fleet *fleet, uint32_t seat,
                   bool (*take)(void *, uint32_t from, const mr_mail *), void *arg);
/* Gives a connection to another seat, counting it there; takes the descriptor unless it fails. */
mr_rc mr_fleet_send_socket(mr_fleet *fleet, uint32_t from, uint32_t to,
                           const mr_handed_socket *socket) MR_MUST_CHECK;
/* Closes a connection that nobody takes, and counts it. */
void mr_fleet_drop_socket(mr_fleet *fleet, const mr_handed_socket *socket);
/* Likewise, but the seat is not rung for what comes meanwhile: mr_fleet_read() must follow. Returns
 * whether there was any. */
bool mr_fleet_read_more(mr_fleet *fleet, uint32_t seat,
                        bool (*take)(void *, uint32_t from, const mr_mail *), void *arg);
/* Messages that wait for a seat; approximate. */
size_t mr_fleet_mail_depth(const mr_fleet *fleet, uint32_t seat);

/* The number of a name, new or known. MR_LIMIT: MR_FLEET_NAMES_MAX, MR_INVALID: empty or too long.
 */
mr_rc mr_fleet_name(mr_fleet *fleet, const char *bytes, size_t len, uint32_t *number) MR_MUST_CHECK;
/* Copies its text; returns the length, or 0: no such number. */
size_t mr_fleet_name_text(mr_fleet *fleet, uint32_t number, char out[MR_FLEET_NAME_BYTES + 1]);

/* ---- balance.c: listening and handing over ---- */

/* The seat's thread wants to listen. *fd is a duplicate for it to serve, or -1 where the supervisor
 * accepts. The first to ask makes the sockets, the others must ask for the same.
 * MR_LIMIT: too many listeners. MR_INVALID: *error says why (EADDRINUSE: this seat serves it already). */
mr_rc mr_fleet_listen(mr_fleet *fleet, uint32_t seat, const char *key,
                      const mr_listen_options *options, uint32_t *listener, uint16_t *port, int *fd,
                      int *error) MR_MUST_CHECK;
/* The socket of a listener that the supervisor accepts from, or -1. */
int mr_fleet_watched_fd(mr_fleet *fleet, uint32_t listener);
/* The seat's thread serves it no more. */
void mr_fleet_unlisten(mr_fleet *fleet, uint32_t seat, uint32_t listener);
/* The supervisor: closes the fleet's own descriptors, so that each queue ends with the thread that
 * empties it. What waits at sockets that the supervisor itself serves is accepted and handed over.
 */
void mr_fleet_close_listeners(mr_fleet *fleet);
/* The supervisor, when all threads run new code: closes what none of them serves any more. */
void mr_fleet_sweep_listeners(mr_fleet *fleet);
/* The supervisor: the next connection that waits at socket `which` of a listener. MR_AGAIN: none;
 * MR_LIMIT: no descriptors are left, MR_CLOSED: that one went again, or the socket is closed. */
mr_rc mr_fleet_accept(mr_fleet *fleet, uint32_t listener, uint32_t which,
                      mr_handed_socket *out) MR_MUST_CHECK;
/* The supervisor hands a connection to `thread`, or where its place is empty or stuck to the next
 * in turn; MR_NO_SEAT as thread: as the fleet's balance says. Takes fd. MR_GONE: closed, nobody is
 * there. */
mr_rc mr_fleet_hand_over(mr_fleet *fleet, uint32_t thread, const mr_handed_socket *socket);
/* The supervisor: accepts for threads that are stuck or gone, from sockets of their own. */
void mr_fleet_rescue(mr_fleet *fleet, uint64_t now_ns);

/* ---- fleet_show.c: what is shown of it; any thread ---- */

/* The row of the meters for a route of this name; names beyond MR_METER_ROUTES_MAX share one. */
uint32_t mr_fleet_route(mr_fleet *fleet, const char *name, size_t len);
/* The text of all metrics, for Prometheus. MR_NOMEM, MR_LIMIT: nothing is appended. */
mr_rc mr_fleet_metrics_text(mr_fleet *fleet, mr_mem *mem, mr_buf *out,
                            uint64_t now_ns) MR_MUST_CHECK;
/* JSON. *is_well: alive (some thread is up), or with `is_for_ready` ready for more (and the fleet
 * is not about to end). */
mr_rc mr_fleet_health_text(mr_fleet *fleet, mr_mem *mem, mr_buf *out, uint64_t now_ns,
                           bool is_for_ready, bool *is_well) MR_MUST_CHECK;
/* Fills one row for each thread number, rows[MR_FLEET_THREADS_MAX]; returns how many. */
size_t mr_fleet_rows(mr_fleet *fleet, uint64_t now_ns, mr_meter_row *rows);
/* Defines a metric of the program's, and gives the seat's thread its values. */
mr_rc mr_fleet_define(mr_fleet *fleet, uint32_t seat, const mr_series_def *def,
                      mr_series_place *place, const char **problem) MR_MUST_CHECK;

/* ---- permits.c: concurrency of a route over all threads ---- */

/* The seat's thread. Whether fewer than `most` are in use; then one more is, and the seat's. Routes
 * beyond MR_METER_ROUTES_MAX have no limit. */
bool mr_fleet_take_permit(mr_fleet *fleet, uint32_t seat, uint32_t row, uint32_t most);
/* The seat's thread wants one when there is one; it tries again after this call, and when told. */
void mr_fleet_await_permit(mr_fleet *fleet, uint32_t seat, uint32_t row);
/* Gives one back. Returns a seat that waits, which the caller tells, or MR_NO_SEAT. */
uint32_t mr_fleet_give_permit(mr_fleet *fleet, uint32_t seat, uint32_t row);
/* A thread that was told has no use for it: another seat to be told, or MR_NO_SEAT. */
uint32_t mr_fleet_pass_permit(mr_fleet *fleet, uint32_t row);
/* The supervisor, of a seat whose thread has ended: what it held is free. Whoever waits is told by
 * the caller. */
void mr_fleet_reap_permits(mr_fleet *fleet, uint32_t seat);

/* ---- what all threads share ---- */

/* The one rate limit, or access log; the first to ask makes it by its options, and later ones get
 * the same whatever theirs say. */
mr_rc mr_fleet_get_rate(mr_fleet *fleet, const mr_rate_options *options,
                        mr_rate **out) MR_MUST_CHECK;
/* Opens the access log's path again, if there is one. */
void mr_fleet_reopen_access(mr_fleet *fleet);
mr_rc mr_fleet_get_access(mr_fleet *fleet, const mr_access_options *options,
                          mr_access_log **out) MR_MUST_CHECK;

static inline void mr_fleet_lock(mr_fleet *fleet) { (void)pthread_mutex_lock(&fleet->lock); }
static inline void mr_fleet_unlock(mr_fleet *fleet) { (void)pthread_mutex_unlock(&fleet->lock); }

/* Whether one more connection fits under `limit` (0: any number); counted if so. */
static inline bool mr_fleet_admit(mr_fleet *fleet, uint32_t limit)
{
    uint32_t used = atomic_load_explicit(&fleet->connections, memory_order_relaxed);
    do {
        if (limit != 0 && used >= limit)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&fleet->connections, &used, used + 1,
                                                    memory_order_relaxed, memory_order_relaxed));
    return true;
}

static inline void mr_fleet_dismiss(mr_fleet *fleet)
{
    atomic_fetch_sub_explicit(&fleet->connections, 1, memory_order_relaxed);
}

#endif
