/* access_log_test.c -- what is posted arrives, or is counted: at the ring's bound, with pipes that
 * are stuck or broken, full disks, rotation, and at close. */
/* link: engine/access_line.c base/mem.c base/text.c base/clock.c */
#include "engine/access_log.c"
#include <stdio.h>
#include <stdlib.h>

static const mr_peer peer = {.family = 4, .address = {127, 0, 0, 1}};
static char folder[64];

static const char *in_folder(const char *name) {
    static char paths[4][96];
    static int turn;
    char *path = paths[turn++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static mr_access_log *open_log(const char *path, int fd, uint32_t ring_bytes) {
    mr_access_log *log = NULL;
    const mr_access_options options = {.path = path, .fd = fd, .ring_bytes = ring_bytes};
    MR_ASSERT(mr_access_log_open(&options, &log) == MR_OK && log != NULL);
    return log;
}

static mr_access_ring *open_ring(mr_access_log *log) {
    mr_access_ring *ring = NULL;
    MR_ASSERT(mr_access_ring_open(log, &ring) == MR_OK && ring != NULL);
    return ring;
}

/* Requests are told apart by a number in the target. */
static void post(mr_access_ring *ring, int number) {
    char target[32];
    int len = snprintf(target, sizeof target, "/%d", number);
    const mr_access_record record = {.peer = &peer,
                                     .method = {(const uint8_t *)"GET", 3},
                                     .target = {(const uint8_t *)target, (size_t)len},
                                     .status = 200,
                                     .http_major = 1,
                                     .http_minor = 1};
    mr_access_post(ring, &record);
}

/* Numbers of the lines in a text, each of which must be whole, and higher than the one before. */
static int numbers_in(const char *text, size_t len, int *last) {
    int count = 0;
    for (const char *at = text; at < text + len; count++) {
        const char *end = memchr(at, '\n', (size_t)(text + len - at));
        const char *target = "127.0.0.1 - - [01/Jan/1970:00:00:00 +0000] \"GET /";
        MR_ASSERT(end != NULL && memcmp(at, target, strlen(target)) == 0);
        MR_ASSERT(memcmp(end - 16, " HTTP/1.1\" 200 -", 16) == 0);
        int number = atoi(at + strlen(target));
        MR_ASSERT(number > *last);
        *last = number;
        at = end + 1;
    }
    return count;
}

static int numbers_in_file(const char *path, int *last) {
    static char text[4 << 20];
    FILE *file = fopen(path, "r");
    MR_ASSERT(file != NULL);
    size_t len = fread(text, 1, sizeof text, file);
    MR_ASSERT(len < sizeof text && fclose(file) == 0);
    return numbers_in(text, len, last);
}

/* Until the writers of a pipe have closed it. */
static int numbers_in_pipe(int fd, int *last) {
    static char text[4 << 20];
    size_t len = 0;
    for (ssize_t n; (n = read(fd, text + len, sizeof text - len)) > 0;)
        len += (size_t)n;
    MR_ASSERT(close(fd) == 0);
    return numbers_in(text, len, last);
}

static void wait_until(mr_access_log *log, bool (*holds)(const mr_access_counts *)) {
    mr_access_counts counts;
    for (mr_access_log_counts(log, &counts); !holds(&counts); mr_access_log_counts(log, &counts))
        poll(NULL, 0, 1);
}

static void options_have_ranges(void) {
    static const struct {
        uint32_t ring_bytes;
        int style;
        const char *path;
        mr_rc rc;
    } cases[] = {{0, MR_ACCESS_JSON, NULL, MR_OK},
                 {0, MR_ACCESS_JSON + 1, NULL, MR_INVALID},
                 {MR_ACCESS_RING_BYTES_MIN, 0, NULL, MR_OK},
                 {MR_ACCESS_RING_BYTES_MIN / 2, 0, NULL, MR_INVALID},
                 {MR_ACCESS_RING_BYTES_MIN + 1, 0, NULL, MR_INVALID},
                 {MR_ACCESS_RING_BYTES_MAX, 0, NULL, MR_OK},
                 {MR_ACCESS_RING_BYTES_MAX * 2, 0, NULL, MR_INVALID},
                 {0, 0, "/dev/null/no/such", MR_INVALID}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mr_access_log *log = (mr_access_log *)1;
        mr_access_options options = {cases[i].path, 1, (mr_access_style)cases[i].style,
                                     cases[i].ring_bytes};
        MR_ASSERT(mr_access_log_open(&options, &log) == cases[i].rc);
        MR_ASSERT((log != NULL) == (cases[i].rc == MR_OK));
        MR_ASSERT(mr_access_log_close(log, NULL) == MR_OK);
    }
    mr_access_log *log;
    const mr_access_options closed = {.fd = -1};
    MR_ASSERT(mr_access_log_open(&closed, &log) == MR_INVALID && log == NULL);
}

static void lines_arrive_in_order(void) {
    const char *path = in_folder("order");
    mr_access_counts counts;
    int last = -1;
    mr_access_log *log = open_log(path, -1, 0);
    mr_access_ring *ring = open_ring(log);
    for (int i = 0; i < 1000; i++)
        post(ring, i);
    MR_ASSERT(mr_access_log_close(log, &counts) == MR_OK);
    MR_ASSERT(counts.posted == 1000 && counts.dropped == 0 && counts.errors == 0);
    MR_ASSERT(numbers_in_file(path, &last) == 1000);
    log = open_log(path, -1, 0); /* appends */
    post(open_ring(log), 1000);
    MR_ASSERT(mr_access_log_close(log, NULL) == MR_OK);
    last = -1;
    MR_ASSERT(numbers_in_file(path, &last) == 1001);
}

static bool has_written(const mr_access_counts *counts) { return counts->written_bytes > 0; }

static void a_line_needs_no_second_one(void) {
    mr_access_log *log = open_log(in_folder("single"), -1, 0);
    post(open_ring(log), 1);
    wait_until(log, has_written); /* without close, and far from half a ring */
    MR_ASSERT(mr_access_log_close(log, NULL) == MR_OK);
}

/* A log without its thread: the steps one by one. */
static mr_access_log *still_log(uint32_t ring_bytes) {
    mr_mem mem = {0};
    mr_access_log *log = mr_mem_zalloc(&mem, sizeof *log);
    MR_ASSERT(log != NULL);
    log->mem = mem;
    log->ring_bytes = ring_bytes;
    log->fd = log->wake_read = log->wake_write = -1;
    MR_ASSERT(pthread_mutex_init(&log->mutex, NULL) == 0);
    MR_ASSERT(pthread_cond_init(&log->ended, NULL) == 0);
    return log;
}

static void the_ring_at_its_bound_and_one_past(void) {
    mr_access_log *log = still_log(MR_ACCESS_RING_BYTES_MIN);
    mr_access_ring *ring = open_ring(log);
    int ends[2];
    uint8_t octets[16], line[MR_ACCESS_LINE_MAX];
    MR_ASSERT(make_pipe(ends));
    log->wake_read = ends[0];
    log->wake_write = ends[1];
    memset(line, 'x', sizeof line);
    line[sizeof line - 1] = '\n';
    for (int turn = 0; turn < 5; turn++) { /* other places of the ring each time */
        for (int i = 0; i < 5; i++)
            push(ring, line + sizeof line - 1000, 1000);
        MR_ASSERT(read(ends[0], octets, sizeof octets) == 1); /* half full */
        atomic_store(&log->is_woken, false);
        for (int i = 0; i < 2; i++)
            push(ring, line + sizeof line - 1000, 1000);
        push(ring, line + sizeof line - 1192, 1192); /* full to the octet */
        MR_ASSERT(ring->dropped == (uint64_t)turn);
        push(ring, line + sizeof line - 1, 1); /* one past */
        MR_ASSERT(mr_access_ring_dropped(ring) == (uint64_t)turn + 1);
        MR_ASSERT(read(ends[0], octets, sizeof octets) == -1); /* woken once */
        gather(log);
        MR_ASSERT(log->batch_len == 8192);
        for (size_t i = 0; i < 8192; i++)
            MR_ASSERT(log->batch[i] == ((i % 1000 == 999 && i < 7000) || i == 8191 ? '\n' : 'x'));
        push(ring, line + sizeof line - 333, 333); /* moves the places on */
        gather(log);
        MR_ASSERT(log->batch_len == 333);
    }
    mr_access_counts counts;
    mr_access_log_counts(log, &counts);
    MR_ASSERT(counts.posted == 5 * 9 && counts.dropped == 5);
    destroy(log);
}

static void the_batch_takes_whole_lines(void) {
    mr_access_log *log = still_log(2 * MR_ACCESS_BATCH_BYTES);
    mr_access_ring *rings[] = {open_ring(log), open_ring(log)};
    uint8_t lines[2][1000];
    for (int r = 0; r < 2; r++) {
        memset(lines[r], 'a' + r, sizeof lines[r]);
        lines[r][sizeof lines[r] - 1] = '\n';
        for (int i = 0; i < 60; i++)
            push(rings[r], lines[r], sizeof lines[r]);
    }
    mr_access_ring_close(rings[1]);
    gather(log); /* 60 of the first, and what is left is room for 5 more */
    MR_ASSERT(log->batch_len == 65000 && log->batch[64999] == '\n');
    MR_ASSERT(log->batch[59000] == 'a' && log->batch[60000] == 'b');
    MR_ASSERT(log->ring_count == 2); /* closed, but not written */
    for (int i = 0; i < 60; i++)
        push(rings[0], lines[0], sizeof lines[0]);
    gather(log); /* begins with the other one, so that a busy ring starves nobody */
    MR_ASSERT(log->batch_len == 65000 && log->ring_count == 1);
    MR_ASSERT(log->batch[54000] == 'b' && log->batch[55000] == 'a');
    gather(log);
    MR_ASSERT(log->batch_len == 50000);
    gather(log);
    mr_access_counts counts;
    mr_access_log_counts(log, &counts);
    MR_ASSERT(log->batch_len == 0 && counts.posted == 180 && counts.dropped == 0);
    destroy(log);
}

static void a_torn_line_is_whole_in_the_new_file(void) {
    mr_access_log *log = still_log(8192);
    const char *path = in_folder("torn");
    MR_ASSERT(keep_path(log, path));
    log->fd = open("/dev/null", O_WRONLY);
    memcpy(log->batch, "one\ntwo\nthree\n", 14);
    log->batch_len = 14;
    log->batch_off = 10;
    reopen(log);
    MR_ASSERT(log->batch_off == 8 && log->reopens == 1 && log->is_regular);
    MR_ASSERT(write(log->fd, "thr", 3) == 3);
    log->batch_off = 11;
    reopen(log); /* the same file, which has the beginning already */
    MR_ASSERT(log->batch_off == 11 && log->reopens == 2);
    MR_ASSERT(write_batch(log));
    char text[16];
    FILE *file = fopen(path, "r");
    MR_ASSERT(file != NULL && fread(text, 1, sizeof text, file) == 6 && fclose(file) == 0);
    MR_ASSERT(memcmp(text, "three\n", 6) == 0);
    destroy(log);
}

static void rings_have_a_bound(void) {
    mr_access_log *log = open_log(NULL, 1, MR_ACCESS_RING_BYTES_MIN);
    static mr_access_ring *rings[MR_ACCESS_RINGS_MAX];
    mr_access_ring *past = (mr_access_ring *)1;
    log->mem.fail_after = -1;
    MR_ASSERT(mr_access_ring_open(log, &past) == MR_NOMEM && past == NULL);
    log->mem.fail_after = 0;
    for (uint32_t i = 0; i < MR_ACCESS_RINGS_MAX; i++)
        rings[i] = open_ring(log);
    past = (mr_access_ring *)1;
    MR_ASSERT(mr_access_ring_open(log, &past) == MR_LIMIT && past == NULL);
    mr_access_ring_close(rings[7]);
    while (mr_access_ring_open(log, &past) == MR_LIMIT) /* until the writer has come by */
        poll(NULL, 0, 1);
    MR_ASSERT(past != NULL);
    mr_access_ring_close(NULL);
    MR_ASSERT(mr_access_log_close(log, NULL) == MR_OK); /* frees those that are open */
}

static bool has_no_ring(const mr_access_counts *counts) { return counts->rings == 0; }

static void a_closed_ring_is_written_and_counted(void) {
    const char *path = in_folder("closed");
    mr_access_log *log = open_log(path, -1, MR_ACCESS_RING_BYTES_MIN);
    for (int i = 0; i < 50; i++) {
        mr_access_ring *ring = open_ring(log);
        post(ring, i);
        mr_access_ring_close(ring);
    }
    wait_until(log, has_no_ring);
    mr_access_counts counts;
    MR_ASSERT(mr_access_log_close(log, &counts) == MR_OK && counts.posted == 50);
    /* Rings are not ordered among each other: only how many. */
    FILE *file = fopen(path, "r");
    int lines = 0;
    for (int c; (c = fgetc(file)) != EOF;)
        lines += c == '\n';
    MR_ASSERT(lines == 50 && fclose(file) == 0);
}

/* A pipe that nobody reads, with no room left; `filled` is how many octets are in it. */
static void stuck_pipe(int ends[2], size_t *filled) {
    MR_ASSERT(pipe(ends) == 0);
    int flags = fcntl(ends[1], F_GETFL);
    uint8_t octet[4096] = {0};
    *filled = 0;
    MR_ASSERT(fcntl(ends[1], F_SETFL, flags | O_NONBLOCK) == 0);
    for (ssize_t n; (n = write(ends[1], octet, sizeof octet)) > 0;)
        *filled += (size_t)n;
    MR_ASSERT(fcntl(ends[1], F_SETFL, flags) == 0); /* blocking, as most are */
}

static void empty_pipe(int fd, size_t filled) {
    uint8_t octets[4096];
    for (ssize_t n; filled > 0; filled -= (size_t)n) {
        n = read(fd, octets, filled < sizeof octets ? filled : sizeof octets);
        MR_ASSERT(n > 0);
    }
}

static void a_stuck_pipe_stops_nobody(void) {
    enum { POSTS = 5000 };
    int ends[2], last = -1;
    size_t filled;
    stuck_pipe(ends, &filled);
    mr_access_log *log = open_log(NULL, ends[1], MR_ACCESS_RING_BYTES_MIN);
    MR_ASSERT((fcntl(ends[1], F_GETFL) & O_NONBLOCK) == 0); /* the caller's, left alone */
    MR_ASSERT(close(ends[1]) == 0);
    mr_access_ring *ring = open_ring(log);
    for (int i = 0; i < POSTS; i++) /* far more than ring and batch hold */
        post(ring, i);
    mr_access_counts counts;
    mr_access_log_counts(log, &counts);
    MR_ASSERT(counts.posted + counts.dropped == POSTS && counts.dropped > 0);
    MR_ASSERT(counts.written_bytes == 0 && counts.dropped == mr_access_ring_dropped(ring));
    empty_pipe(ends[0], filled); /* somebody reads again: what was kept comes */
    MR_ASSERT(mr_access_log_close(log, &counts) == MR_OK);
    MR_ASSERT(counts.posted + counts.dropped == POSTS && counts.errors == 0);
    MR_ASSERT(numbers_in_pipe(ends[0], &last) == (int)counts.posted);
}

static void close_gives_up_a_stuck_pipe(void) {
    int ends[2];
    size_t filled;
    stuck_pipe(ends, &filled);
    mr_access_log *log = open_log(NULL, ends[1], 0);
    mr_access_ring *ring = open_ring(log);
    for (int i = 0; i < 3000; i++) /* more than a batch: some in the ring as well */
        post(ring, i);
    mr_access_counts counts;
    MR_ASSERT(mr_access_log_close(log, &counts) == MR_LIMIT);
    MR_ASSERT(counts.posted == 3000 && counts.dropped == 3000 && counts.written_bytes == 0);
    MR_ASSERT(close(ends[0]) == 0 && close(ends[1]) == 0);
}

/* As if the kernel did not come back from write: close goes, the thread frees the log later. */
static void close_leaves_a_hanging_writer(void) {
    int ends[2], last = -1;
    size_t filled;
    stuck_pipe(ends, &filled);
    mr_access_log *log = open_log(NULL, ends[1], 0);
    MR_ASSERT(close(ends[1]) == 0);
    pthread_mutex_lock(&log->mutex);
    log->is_regular = true; /* so it is not asked whether it has room */
    pthread_mutex_unlock(&log->mutex);
    mr_access_ring *ring = open_ring(log);
    for (int i = 0; i < 10; i++)
        post(ring, i);
    MR_ASSERT(mr_access_log_close(log, NULL) == MR_LIMIT);
    empty_pipe(ends[0], filled);
    MR_ASSERT(numbers_in_pipe(ends[0], &last) == 10); /* its end: the descriptor is closed */
}

static bool has_failed(const mr_access_counts *counts) { return counts->errors >= 2; }

static void broken_pipes_and_full_disks(void) {
    int ends[2];
    mr_access_counts counts;
    MR_ASSERT(pipe(ends) == 0 && close(ends[0]) == 0);
    mr_access_log *log = open_log(NULL, ends[1], 0); /* no SIGPIPE */
    post(open_ring(log), 1);
    wait_until(log, has_failed); /* tried again */
    MR_ASSERT(mr_access_log_close(log, &counts) == MR_LIMIT);
    MR_ASSERT(counts.posted == 1 && counts.dropped == 1 && close(ends[1]) == 0);
    if (access("/dev/full", W_OK) != 0)
        return;
    log = open_log("/dev/full", -1, 0);
    post(open_ring(log), 1);
    wait_until(log, has_failed);
    MR_ASSERT(mr_access_log_close(log, &counts) == MR_LIMIT);
    MR_ASSERT(counts.posted == 1 && counts.dropped == 1 && counts.written_bytes == 0);
}

static bool has_reopened(const mr_access_counts *counts) { return counts->reopens == 1; }
static bool has_one_error(const mr_access_counts *counts) { return counts->errors == 1; }

static void rotation_loses_nothing(void) {
    const char *path = in_folder("log"), *old = in_folder("log.1");
    mr_access_log *log = open_log(path, -1, 0);
    mr_access_ring *ring = open_ring(log);
    int last = -1, i = 0;
    for (; i < 500; i++)
        post(ring, i);
    MR_ASSERT(rename(path, old) == 0);
    for (; i < 600; i++)
        post(ring, i);
    mr_access_log_reopen(log);
    wait_until(log, has_reopened);
    for (; i < 800; i++)
        post(ring, i);
    mr_access_counts counts;
    MR_ASSERT(mr_access_log_close(log, &counts) == MR_OK && counts.posted == 800);
    int before = numbers_in_file(old, &last);
    MR_ASSERT(before <= 600 && before + numbers_in_file(path, &last) == 800 && last == 799);
}

static void a_reopen_that_fails_keeps_the_file(void) {
    const char *inner = in_folder("inner"), *path = in_folder("inner/log");
    int last = -1;
    MR_ASSERT(mkdir(inner, 0700) == 0);
    mr_access_log *log = open_log(path, -1, 0);
    const char *moved = in_folder("moved");
    MR_ASSERT(rename(inner, moved) == 0);
    mr_access_log_reopen(log);
    wait_until(log, has_one_error);
    post(open_ring(log), 1);
    MR_ASSERT(mr_access_log_close(log, NULL) == MR_OK);
    MR_ASSERT(numbers_in_file(in_folder("moved/log"), &last) == 1);
    int ends[2];
    MR_ASSERT(pipe(ends) == 0);
    log = open_log(NULL, ends[1], 0);
    mr_access_log_reopen(log); /* without a path: nothing */
    post(open_ring(log), 2);
    mr_access_counts counts;
    MR_ASSERT(mr_access_log_close(log, &counts) == MR_OK && counts.errors + counts.reopens == 0);
    MR_ASSERT(close(ends[1]) == 0 && numbers_in_pipe(ends[0], &last) == 1);
}

int main(void) {
    const char *parent = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%.40s/mr-log-XXXXXX", parent != NULL ? parent : "/tmp");
    MR_ASSERT(mkdtemp(folder) != NULL);
    options_have_ranges();
    lines_arrive_in_order();
    a_line_needs_no_second_one();
    the_ring_at_its_bound_and_one_past();
    the_batch_takes_whole_lines();
    a_torn_line_is_whole_in_the_new_file();
    rings_have_a_bound();
    a_closed_ring_is_written_and_counted();
    a_stuck_pipe_stops_nobody();
    close_gives_up_a_stuck_pipe();
    close_leaves_a_hanging_writer();
    broken_pipes_and_full_disks();
    rotation_loses_nothing();
    a_reopen_that_fails_keeps_the_file();
    static const char *const left[] = {"order", "single", "torn",      "closed",
                                       "log",   "log.1",  "moved/log", "moved"};
    for (size_t i = 0; i < sizeof left / sizeof *left; i++)
        MR_ASSERT(remove(in_folder(left[i])) == 0);
    MR_ASSERT(rmdir(folder) == 0);
    return 0;
}
