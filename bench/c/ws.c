/* ws.c -- WebSocket frames and UTF-8: nanoseconds per masked frame, and gigabytes per second.
 * Build and run from the top of the repository:
 *   cc -O3 -std=c11 -I src bench/c/ws.c -o ws-bench && ./ws-bench [rounds]
 * Each figure is the median of the rounds (15), with the lowest and highest in brackets. Frames
 * stand one behind the other in 64 KiB, as one recv may bring them, and are parsed and unmasked in
 * place; the copy that puts the masked octets back is outside of the time. All is warm: compare
 * figures of one run with one another. */
#define _POSIX_C_SOURCE 199309L
#include "proto/ws_frame.c"
#include "proto/ws_utf8.c"
#include "proto/ws_utf8_avx2.c"
#include "proto/ws_utf8_neon.c"
#include "proto/ws_utf8_sse2.c"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ROUNDS_MAX = 101, WIRE_BYTES = 65536, LOOPS = 300 };

typedef struct sample {
    const char *name;
    size_t len; /* octets of bytes that are filled */
    size_t frames;
    uint8_t bytes[WIRE_BYTES];
} sample;

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* `text` again and again, never a part of it. */
static void fill(sample *s, const char *name, const char *text) {
    size_t len = strlen(text);
    s->name = name;
    for (s->len = 0; s->len + len <= sizeof s->bytes; s->len += len)
        memcpy(s->bytes + s->len, text, len);
}

static void fill_frames(sample *s, const char *name, unsigned opcode, size_t payload) {
    s->name = name;
    for (uint32_t key = 12345;; s->frames++) {
        uint8_t head[MR_WS_HEADER_MAX], mask[4];
        size_t head_len = mr_ws_put_header(head, MR_WS_FIN | opcode, payload);
        if (s->len + head_len + 4 + payload > sizeof s->bytes)
            return;
        head[1] |= 0x80;
        key = key * 1664525u + 1013904223u;
        memcpy(mask, &key, sizeof mask);
        memcpy(s->bytes + s->len, head, head_len);
        memcpy(s->bytes + s->len + head_len, mask, sizeof mask);
        s->len += head_len + sizeof mask;
        for (size_t i = 0; i < payload; i++)
            s->bytes[s->len++] = (uint8_t)('a' + i % 26) ^ mask[i & 3];
    }
}

static double time_frames(const mr_ws_utf8_scan *scan, const sample *s) {
    static uint8_t wire[WIRE_BYTES];
    const mr_ws_rules rules = {.utf8 = scan, .max_payload = 1 << 20, .max_fragments = 1};
    uint64_t spent = 0, frames = 0;
    for (int loop = 0; loop < LOOPS; loop++) {
        mr_ws_frame frame = {0};
        mr_ws_event event;
        size_t at = 0, consumed;
        memcpy(wire, s->bytes, s->len);
        uint64_t start = now_ns();
        while (mr_ws_frame_next(&frame, &rules, NULL, wire + at, s->len - at, &consumed, &event) ==
               MR_OK) {
            at += consumed;
            frames += event.is_last;
        }
        spent += now_ns() - start;
    }
    if (frames != (uint64_t)LOOPS * s->frames)
        exit(1);
    return (double)spent / (double)frames;
}

static double time_text(const mr_ws_utf8_scan *scan, const sample *s) {
    uint64_t start = now_ns();
    for (int loop = 0; loop < LOOPS; loop++) {
        mr_ws_utf8 state = {0};
        if (mr_ws_utf8_take(scan, &state, s->bytes, s->len) != s->len || state.need != 0)
            exit(1);
    }
    return (double)s->len * LOOPS / (double)(now_ns() - start);
}

static void report(double (*measure)(const mr_ws_utf8_scan *, const sample *),
                   const mr_ws_utf8_scan *scan, const sample *s, int rounds, const char *unit) {
    double values[ROUNDS_MAX];
    (void)measure(scan, s);
    for (int i = 0; i < rounds; i++)
        values[i] = measure(scan, s);
    qsort(values, (size_t)rounds, sizeof values[0], by_value);
    printf("%-7s %-20s %8.2f %s  [%.2f .. %.2f]\n", scan->name, s->name, values[rounds / 2], unit,
           values[0], values[rounds - 1]);
}

int main(int argc, char **argv) {
    static sample frames[4], texts[4];
    static const char *const names[] = {"avx2", "sse2", "neon", "scalar"};
    int rounds = argc > 1 ? atoi(argv[1]) : 15;
    if (rounds < 1 || rounds > ROUNDS_MAX) {
        fprintf(stderr, "usage: ws [rounds, 1 to %d]\n", ROUNDS_MAX);
        return 2;
    }
    fill_frames(&frames[0], "binary 16 B", MR_WS_BINARY, 16);
    fill_frames(&frames[1], "text 16 B", MR_WS_TEXT, 16);
    fill_frames(&frames[2], "binary 1 KiB", MR_WS_BINARY, 1024);
    fill_frames(&frames[3], "text 1 KiB", MR_WS_TEXT, 1024);
    fill(&texts[0], "ASCII", "plain text, nothing but letters and the like; ");
    fill(&texts[1], "mixed",
         "Gr\xc3\xbc\xc3\x9f"
         "e, \xe4\xbd\xa0\xe5\xa5\xbd: 5 \xe2\x82\xac \xf0\x9f\x98\x80 ");
    fill(&texts[2], "three octets each", "\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e");
    fill(&texts[3], "one in 170 not ASCII",
         "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
         "aa"
         "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\xc3"
         "\xa4");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const mr_ws_utf8_scan *scan = mr_ws_utf8_named(names[i]);
        for (size_t k = 0; scan != NULL && k < 4; k++)
            report(time_frames, scan, &frames[k], rounds, "ns  ");
        for (size_t k = 0; scan != NULL && k < 4; k++)
            report(time_text, scan, &texts[k], rounds, "GB/s");
    }
    return 0;
}
