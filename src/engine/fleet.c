/* fleet.c -- see fleet.h for the states of a seat.
 *
 * What makes the hand-over of a seat safe: a tenant's last act (mr_fleet_leave) and the
 * supervisor's reaping are under the lock, and so is the next tenant's mr_fleet_take_seat(). Each
 * side of each mailbox therefore has one thread at a time, with an order between them. */
#include "engine/fleet.h"
#include <stdalign.h>
#include <string.h>
#include <unistd.h>

#define CACHE_LINE 64u
#define READS_PER_TURN 1024u /* messages, before the loop's other work gets its turn */

/* ---- birth and death ---- */

static mr_rc make_seats(mr_fleet *f)
{
    size_t bytes = f->seat_count * sizeof(mr_seat) + CACHE_LINE;
    f->seat_block = mr_mem_zalloc(&f->mem, bytes);
    if (f->seat_block == NULL)
        return MR_NOMEM;
    uintptr_t at = ((uintptr_t)f->seat_block + CACHE_LINE - 1) & ~(uintptr_t)(CACHE_LINE - 1);
    f->seats = (mr_seat *)at;
    for (uint32_t i = 0; i < MR_FLEET_THREADS_MAX; i++)
        atomic_init(&f->current[i], MR_NO_SEAT);
    atomic_init(&f->seats[MR_SUPERVISOR].state, MR_SEAT_UP);
    atomic_init(&f->seats[MR_SUPERVISOR].thread, MR_NO_SEAT);
    return MR_OK;
}

mr_rc mr_fleet_create(const mr_fleet_options *options, mr_fleet **out)
{
    mr_mem mem = {0};
    if (options->thread_count < 1 || options->thread_count > MR_FLEET_THREADS_MAX)
        return MR_INVALID;
    mr_fleet *f = mr_mem_zalloc(&mem, sizeof *f);
    if (f == NULL)
        return MR_NOMEM;
    f->mem = mem;
    f->id = options->id;
    f->thread_count = options->thread_count;
    f->seat_count = 2 * options->thread_count + 1;
    f->balance = options->balance;
    f->keeps_cpu = options->keeps_cpu;
    f->stuck_ns = (uint64_t)options->stuck_ms * 1000000u;
    atomic_init(&f->refs, 1);
    (void)pthread_mutex_init(&f->lock, NULL); /* cannot fail without attributes on our systems */
    if (make_seats(f) != MR_OK) {
        mr_fleet_release(f);
        return MR_NOMEM;
    }
    *out = f;
    return MR_OK;
}

void mr_fleet_retain(mr_fleet *f) { atomic_fetch_add_explicit(&f->refs, 1, memory_order_relaxed); }

void mr_fleet_drop_socket(mr_fleet *f, const mr_handed_socket *socket)
{
    close(socket->fd);
    if (socket->is_counted)
        mr_fleet_dismiss(f);
    atomic_fetch_add_explicit(&f->sockets_dropped, 1, memory_order_relaxed);
}

static bool read_socket(const mr_mail *mail, mr_handed_socket *socket)
{
    if (mail->kind != MR_MAIL_SOCKET || mail->len != sizeof *socket)
        return false;
    memcpy(socket, mail->bytes, sizeof *socket);
    return true;
}

static void close_left_sockets(mr_fleet *f, mr_mailbox *box)
{
    mr_mail mail;
    mr_handed_socket socket;
    for (; mr_mailbox_peek(box, &mail); mr_mailbox_pop(box))
        if (read_socket(&mail, &socket))
            mr_fleet_drop_socket(f, &socket);
}

static void free_seat(mr_fleet *f, mr_seat *seat)
{
    if (f->series != NULL)
        mr_values_dispose(f->series, &seat->values);
    for (uint32_t from = 0; from < MR_FLEET_SEATS_MAX; from++) {
        mr_mailbox *box = atomic_load_explicit(&seat->inbox[from], memory_order_relaxed);
        if (box == NULL)
            continue;
        close_left_sockets(f, box);
        mr_mailbox_destroy(box);
    }
}

void mr_fleet_release(mr_fleet *f)
{
    if (f == NULL || atomic_fetch_sub_explicit(&f->refs, 1, memory_order_acq_rel) != 1)
        return;
    mr_fleet_close_listeners(f);
    (void)!mr_access_log_close(f->access, NULL);
    mr_rate_destroy(&f->mem, f->rate);
    for (uint32_t i = 0; f->seats != NULL && i < f->seat_count; i++)
        free_seat(f, &f->seats[i]);
    mr_mem_free(&f->mem, f->seat_block, f->seat_count * sizeof(mr_seat) + CACHE_LINE);
    mr_series_destroy(f->series);
    mr_mem_free(&f->mem, f->routes, MR_METER_ROUTES_MAX * sizeof *f->routes);
    mr_mem_free(&f->mem, f->names, f->name_cap * sizeof *f->names);
    (void)pthread_mutex_destroy(&f->lock);
    mr_mem mem = f->mem; /* the fleet is in its own books */
    mr_mem_free(&mem, f, sizeof *f);
}

/* ---- seats ---- */

static void set_state(mr_seat *seat, mr_seat_state state)
{
    atomic_store_explicit(&seat->state, state, memory_order_release);
}

uint32_t mr_fleet_seat_of(const mr_fleet *f, uint32_t thread)
{
    if (thread >= f->thread_count)
        return MR_NO_SEAT;
    return atomic_load_explicit(&f->current[thread], memory_order_acquire);
}

static uint32_t find_free(const mr_fleet *f, uint32_t thread)
{
    uint32_t found = MR_NO_SEAT, tenants = 0;
    for (uint32_t i = 1; i < f->seat_count; i++) {
        const mr_seat *seat = &f->seats[i];
        if (mr_seat_state_of(seat) == MR_SEAT_FREE)
            found = found == MR_NO_SEAT ? i : found;
        else if (atomic_load_explicit(&seat->thread, memory_order_relaxed) == thread)
            tenants++;
    }
    return tenants < 2 ? found : MR_NO_SEAT;
}

mr_rc mr_fleet_take_seat(mr_fleet *f, uint32_t thread, uint32_t *out)
{
    if (thread >= f->thread_count)
        return MR_INVALID;
    mr_fleet_lock(f);
    uint32_t at = find_free(f, thread);
    if (at != MR_NO_SEAT) {
        mr_seat *seat = &f->seats[at];
        atomic_store_explicit(&seat->thread, thread, memory_order_relaxed);
        atomic_fetch_add_explicit(&seat->generation, 1, memory_order_relaxed);
        atomic_store_explicit(&seat->pinged_ns, 0, memory_order_relaxed);
        atomic_store_explicit(&seat->beat_ns, 0, memory_order_relaxed);
        set_state(seat, MR_SEAT_STARTING);
        /* Where nobody is yet, messages may wait for whoever comes. */
        if (mr_fleet_seat_of(f, thread) == MR_NO_SEAT)
            atomic_store_explicit(&f->current[thread], at, memory_order_release);
    }
    mr_fleet_unlock(f);
    *out = at;
    return at != MR_NO_SEAT ? MR_OK : MR_LIMIT;
}

void mr_fleet_arrive(mr_fleet *f, uint32_t at, void (*ring)(void *), void *arg)
{
    mr_bell_open(&f->seats[at].bell, ring, arg);
}

void mr_fleet_up(mr_fleet *f, uint32_t at)
{
    mr_seat *seat = &f->seats[at];
    mr_fleet_lock(f);
    if (mr_seat_state_of(seat) == MR_SEAT_STARTING) {
        uint32_t thread = atomic_load_explicit(&seat->thread, memory_order_relaxed);
        set_state(seat, MR_SEAT_UP);
        atomic_store_explicit(&f->current[thread], at, memory_order_release);
    }
    mr_fleet_unlock(f);
}

void mr_fleet_draining(mr_fleet *f, uint32_t at)
{
    mr_seat *seat = &f->seats[at];
    mr_fleet_lock(f);
    if (mr_seat_state_of(seat) == MR_SEAT_STARTING || mr_seat_state_of(seat) == MR_SEAT_UP)
        set_state(seat, MR_SEAT_DRAINING);
    mr_fleet_unlock(f);
}

static void forget_listeners(mr_fleet *f, uint32_t at)
{
    uint64_t bit = UINT64_C(1) << (at & 63u);
    for (uint32_t i = 0; i < MR_FLEET_LISTENERS_MAX; i++)
        atomic_fetch_and_explicit(&f->listeners[i].users[at >> 6], ~bit, memory_order_relaxed);
}

void mr_fleet_leave(mr_fleet *f, uint32_t at)
{
    mr_seat *seat = &f->seats[at];
    mr_bell_close(&seat->bell);
    mr_fleet_lock(f);
    uint32_t thread = atomic_load_explicit(&seat->thread, memory_order_relaxed);
    forget_listeners(f, at);
    if (mr_fleet_seat_of(f, thread) == at)
        atomic_store_explicit(&f->current[thread], MR_NO_SEAT, memory_order_release);
    set_state(seat, MR_SEAT_GONE);
    mr_fleet_unlock(f);
}

/* ---- what a thread leaves behind ---- */

/* A connection that was on its way to a seat is not any more; whoever sent it has counted it. Never
 * set to 0 instead: a sender may be between counting and finding that nobody is there. */
static void uncount_on_way(mr_seat *seat)
{
    atomic_fetch_sub_explicit(&seat->load, 1, memory_order_relaxed);
}

static void hand_on(mr_fleet *f, mr_seat *seat, const mr_mail *mail)
{
    mr_handed_socket socket;
    if (!read_socket(mail, &socket)) {
        atomic_fetch_add_explicit(&f->mail_lost, 1, memory_order_relaxed);
        return;
    }
    uncount_on_way(seat);
    (void)!mr_fleet_hand_over(f, MR_NO_SEAT, &socket); /* else closed, and counted there */
}

void mr_fleet_reap(mr_fleet *f, uint32_t at)
{
    mr_seat *seat = &f->seats[at];
    if (mr_seat_state_of(seat) != MR_SEAT_GONE)
        mr_fleet_leave(f, at); /* it never arrived */
    mr_fleet_lock(f);                   /* after the tenant's own leaving: its reading is before ours */
    mr_fleet_reap_permits(f, at);
    mr_meter_retire(&f->retired, &seat->meter);
    if (f->series != NULL)
        mr_series_retire(f->series, &seat->values);
    seat->window = (mr_meter_window){0};
    mr_fleet_unlock(f);
    for (uint32_t from = 0; from < f->seat_count; from++) {
        mr_mailbox *box = atomic_load_explicit(&seat->inbox[from], memory_order_acquire);
        mr_mail mail;
        while (box != NULL && mr_mailbox_peek(box, &mail)) {
            hand_on(f, seat, &mail);
            mr_mailbox_pop(box);
        }
    }
    mr_fleet_lock(f);
    set_state(seat, MR_SEAT_FREE);
    mr_fleet_unlock(f);
}

/* ---- beats ---- */

bool mr_fleet_is_stuck(const mr_fleet *f, uint32_t at, uint64_t now_ns)
{
    uint64_t since = atomic_load_explicit(&f->seats[at].pinged_ns, memory_order_relaxed);
    return since != 0 && now_ns > since && now_ns - since >= f->stuck_ns;
}

/* One ping at a time: its age is what tells a loop that is late. */
void mr_fleet_ping(mr_fleet *f, uint64_t now_ns)
{
    for (uint32_t i = 1; i < f->seat_count; i++) {
        mr_seat *seat = &f->seats[i];
        mr_seat_state state = mr_seat_state_of(seat);
        if (state != MR_SEAT_UP && state != MR_SEAT_DRAINING)
            continue;
        if (atomic_load_explicit(&seat->pinged_ns, memory_order_relaxed) == 0)
            atomic_store_explicit(&seat->pinged_ns, now_ns, memory_order_relaxed);
        mr_bell_ring(&seat->bell, MR_SUPERVISOR);
    }
}

uint64_t mr_fleet_beat(mr_fleet *f, uint32_t at, uint64_t now_ns)
{
    mr_seat *seat = &f->seats[at];
    uint64_t since = atomic_load_explicit(&seat->pinged_ns, memory_order_relaxed);
    atomic_store_explicit(&seat->beat_ns, now_ns, memory_order_relaxed);
    if (since == 0)
        return 0;
    atomic_store_explicit(&seat->pinged_ns, 0, memory_order_relaxed);
    return now_ns > since ? now_ns - since : 0;
}

/* ---- messages ---- */

/* Only the sender makes it, so that there is no race for it but the allocator's. */
static mr_rc mailbox_of(mr_fleet *f, uint32_t from, uint32_t to, mr_mailbox **out)
{
    _Atomic(mr_mailbox *) *place = &f->seats[to].inbox[from];
    mr_rc rc = MR_OK;
    *out = atomic_load_explicit(place, memory_order_relaxed);
    if (*out != NULL)
        return MR_OK;
    mr_fleet_lock(f);
    rc = mr_mailbox_create(&f->mem, MR_FLEET_MAILBOX_BYTES, MR_FLEET_LARGE_BYTES, out);
    mr_fleet_unlock(f);
    if (rc == MR_OK)
        atomic_store_explicit(place, *out, memory_order_release);
    return rc;
}

mr_rc mr_fleet_post(mr_fleet *f, uint32_t from, uint32_t to, mr_mail *mail)
{
    mr_mailbox *box;
    mr_rc rc;
    if (from >= f->seat_count || to >= f->seat_count)
        return MR_GONE;
    mr_seat *seat = &f->seats[to];
    mr_seat_state state = mr_seat_state_of(seat);
    if (state == MR_SEAT_FREE || state == MR_SEAT_GONE)
        return MR_GONE;
    mail->generation = atomic_load_explicit(&seat->generation, memory_order_relaxed);
    if ((rc = mailbox_of(f, from, to, &box)) != MR_OK)
        return rc;
    if ((rc = mr_mailbox_post(box, mail)) == MR_OK)
        mr_bell_ring(&seat->bell, from);
    mr_meter *meter = &f->seats[from].meter;
    mr_meter_add(rc == MR_OK ? &meter->mail_posted : &meter->mail_dropped, 1);
    return rc;
}

mr_rc mr_fleet_send_socket(mr_fleet *f, uint32_t from, uint32_t to, const mr_handed_socket *socket)
{
    mr_mail mail = {
        .kind = MR_MAIL_SOCKET, .bytes = (const uint8_t *)socket, .len = sizeof *socket};
    if (to >= f->seat_count)
        return MR_GONE;
    atomic_fetch_add_explicit(&f->seats[to].load, 1, memory_order_relaxed);
    mr_rc rc = mr_fleet_post(f, from, to, &mail);
    if (rc != MR_OK)
        atomic_fetch_sub_explicit(&f->seats[to].load, 1, memory_order_relaxed);
    return rc;
}

static void drop_stale(mr_fleet *f, mr_seat *seat, const mr_mail *mail)
{
    mr_handed_socket socket;
    if (!read_socket(mail, &socket)) {
        atomic_fetch_add_explicit(&f->mail_lost, 1, memory_order_relaxed);
        return;
    }
    uncount_on_way(seat);
    mr_fleet_drop_socket(f, &socket);
}

/* Returns false when the reader has enough. */
static bool read_box(mr_fleet *f, mr_seat *seat, uint32_t from, uint32_t *left,
                     bool (*take)(void *, uint32_t, const mr_mail *), void *arg)
{
    mr_mailbox *box = atomic_load_explicit(&seat->inbox[from], memory_order_acquire);
    uint32_t generation = atomic_load_explicit(&seat->generation, memory_order_relaxed);
    mr_mail mail;
    while (box != NULL && mr_mailbox_peek(box, &mail)) {
        if (mail.generation != generation)
            drop_stale(f, seat, &mail);
        else if (*left == 0 || !take(arg, from, &mail))
            return false;
        else
            (*left)--, mr_meter_add(&seat->meter.mail_delivered, 1);
        mr_mailbox_pop(box);
    }
    return true;
}

static bool read_boxes(mr_fleet *f, uint32_t at, const uint64_t *words,
                       bool (*take)(void *, uint32_t, const mr_mail *), void *arg)
{
    mr_seat *seat = &f->seats[at];
    uint32_t left = READS_PER_TURN;
    bool is_more = false;
    for (uint32_t from = 0; from < f->seat_count; from++) {
        if (!(words[from >> 6] >> (from & 63u) & 1u) || read_box(f, seat, from, &left, take, arg))
            continue;
        is_more = true;
        mr_bell_ring(&seat->bell, from);
    }
    return is_more;
}

bool mr_fleet_read(mr_fleet *f, uint32_t at, bool (*take)(void *, uint32_t, const mr_mail *),
                   void *arg)
{
    uint64_t words[MR_BELL_WORDS];
    mr_bell_answer(&f->seats[at].bell, words);
    return read_boxes(f, at, words, take, arg);
}

bool mr_fleet_read_more(mr_fleet *f, uint32_t at, bool (*take)(void *, uint32_t, const mr_mail *),
                        void *arg)
{
    uint64_t words[MR_BELL_WORDS];
    mr_bell_look(&f->seats[at].bell, words);
    if ((words[0] | words[1] | words[2]) == 0)
        return false;
    (void)read_boxes(f, at, words, take, arg);
    return true;
}

size_t mr_fleet_mail_depth(const mr_fleet *f, uint32_t at)
{
    size_t depth = 0;
    for (uint32_t from = 0; from < f->seat_count; from++) {
        const mr_mailbox *box =
            atomic_load_explicit(&f->seats[at].inbox[from], memory_order_acquire);
        depth += box != NULL ? mr_mailbox_depth(box) : 0;
    }
    return depth;
}

/* ---- names ---- */

static mr_rc grow_names(mr_fleet *f)
{
    uint32_t cap = f->name_cap == 0 ? 64 : f->name_cap * 2;
    if (f->name_count < f->name_cap)
        return MR_OK;
    if (f->name_count >= MR_FLEET_NAMES_MAX)
        return MR_LIMIT;
    void *grown =
        mr_mem_resize(&f->mem, f->names, f->name_cap * sizeof *f->names, cap * sizeof *f->names);
    if (grown == NULL)
        return MR_NOMEM;
    f->names = grown;
    f->name_cap = cap;
    return MR_OK;
}

static bool find_name(const mr_fleet *f, const char *bytes, size_t len, uint32_t *number)
{
    for (uint32_t i = 0; i < f->name_count; i++) {
        if (memcmp(f->names[i], bytes, len) != 0 || f->names[i][len] != '\0')
            continue;
        *number = i;
        return true;
    }
    return false;
}

mr_rc mr_fleet_name(mr_fleet *f, const char *bytes, size_t len, uint32_t *number)
{
    mr_rc rc = MR_OK;
    if (len == 0 || len > MR_FLEET_NAME_BYTES || memchr(bytes, '\0', len) != NULL)
        return MR_INVALID;
    mr_fleet_lock(f);
    if (!find_name(f, bytes, len, number) && (rc = grow_names(f)) == MR_OK) {
        *number = f->name_count++;
        memset(f->names[*number], 0, sizeof f->names[0]);
        memcpy(f->names[*number], bytes, len);
    }
    mr_fleet_unlock(f);
    return rc;
}

size_t mr_fleet_name_text(mr_fleet *f, uint32_t number, char out[MR_FLEET_NAME_BYTES + 1])
{
    size_t len = 0;
    mr_fleet_lock(f);
    if (number < f->name_count) {
        len = strlen(f->names[number]);
        memcpy(out, f->names[number], len + 1);
    }
    mr_fleet_unlock(f);
    return len;
}
