/* access_log_threads_test.c -- producers, the writer, a reader of counts and rotation at once:
 * every line that was not counted as dropped is in one of the files, once, and in its thread's
 * order. */
/* link: engine/access_line.c base/mem.c base/text.c base/clock.c */
#include "engine/access_log.c"
#include <stdio.h>
#include <stdlib.h>

enum { PRODUCERS = 2, POSTS = 30000, ROTATIONS = 10 };

static mr_access_log *open_for_all;
static atomic_int running = PRODUCERS;
static _Atomic uint64_t dropped[PRODUCERS];

/* The status says whose line it is, the size which one. */
static void *produce(void *arg) {
    static const mr_peer peer = {.family = 0};
    uintptr_t who = (uintptr_t)arg;
    mr_access_ring *ring = NULL;
    MR_ASSERT(mr_access_ring_open(open_for_all, &ring) == MR_OK);
    mr_access_record record = {.peer = &peer, .status = (uint16_t)(who + 1)};
    for (uint64_t i = 0; i < POSTS; i++) {
        record.bytes_sent = i + 1;
        mr_access_post(ring, &record);
    }
    dropped[who] = mr_access_ring_dropped(ring);
    mr_access_ring_close(ring);
    running--;
    return NULL;
}

static uint64_t seen[PRODUCERS], last[PRODUCERS];

static void read_file(const char *path) {
    char line[MR_ACCESS_LINE_MAX];
    FILE *file = fopen(path, "r");
    MR_ASSERT(file != NULL);
    while (fgets(line, sizeof line, file) != NULL) {
        unsigned who;
        unsigned long long number;
        int end = 0;
        int found = sscanf(line, "- - - [01/Jan/1970:00:00:00 +0000] \"- - HTTP/0.0\" %u %llu%n",
                           &who, &number, &end);
        MR_ASSERT(found == 2 && line[end] == '\n' && who >= 1 && who <= PRODUCERS);
        MR_ASSERT(number > last[who - 1]);
        last[who - 1] = number;
        seen[who - 1]++;
    }
    MR_ASSERT(fclose(file) == 0 && remove(path) == 0);
}

int main(void) {
    char folder[64], path[96], old[ROTATIONS][96];
    const char *parent = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%.40s/mr-log-XXXXXX", parent != NULL ? parent : "/tmp");
    MR_ASSERT(mkdtemp(folder) != NULL);
    snprintf(path, sizeof path, "%s/log", folder);
    const mr_access_options options = {.path = path, .ring_bytes = 64 * 1024};
    MR_ASSERT(mr_access_log_open(&options, &open_for_all) == MR_OK);
    pthread_t threads[PRODUCERS];
    for (uintptr_t i = 0; i < PRODUCERS; i++)
        MR_ASSERT(pthread_create(&threads[i], NULL, produce, (void *)i) == 0);
    mr_access_counts counts = {0}, before;
    int rotated = 0;
    while (running > 0 || rotated < ROTATIONS) {
        before = counts;
        mr_access_log_counts(open_for_all, &counts);
        MR_ASSERT(counts.posted >= before.posted && counts.dropped >= before.dropped);
        MR_ASSERT(counts.written_bytes >= before.written_bytes);
        if (rotated < ROTATIONS && counts.reopens == (uint64_t)rotated) {
            snprintf(old[rotated], sizeof old[0], "%.80s.%d", path, rotated);
            MR_ASSERT(rename(path, old[rotated]) == 0);
            mr_access_log_reopen(open_for_all);
            rotated++;
        }
        poll(NULL, 0, 1);
    }
    for (int i = 0; i < PRODUCERS; i++)
        MR_ASSERT(pthread_join(threads[i], NULL) == 0);
    MR_ASSERT(mr_access_log_close(open_for_all, &counts) == MR_OK);
    MR_ASSERT(counts.reopens == ROTATIONS && counts.errors == 0 && counts.rings == 0);
    for (int i = 0; i < ROTATIONS; i++)
        read_file(old[i]);
    read_file(path);
    for (int i = 0; i < PRODUCERS; i++)
        MR_ASSERT(seen[i] + dropped[i] == POSTS);
    MR_ASSERT(counts.posted == seen[0] + seen[1] && counts.dropped == dropped[0] + dropped[1]);
    MR_ASSERT(rmdir(folder) == 0);
    return 0;
}
