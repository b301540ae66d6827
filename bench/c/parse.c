/* parse.c -- nanoseconds per request head, by scanner.
 * Build and run from the top of the repository:
 *   cc -O3 -std=c11 -I src bench/c/parse.c -o /tmp/parse && /tmp/parse [rounds]
 * Each figure is the median of the rounds (15), with the lowest and highest in brackets. The heads
 * stand in one buffer and are parsed from it again and again, so caches and branch predictors are
 * warm: compare figures of one run with one another. `mixed` walks 64 different browser heads and
 * shows what less regular input costs. */
#define _POSIX_C_SOURCE 199309L
#include "base/text.c"
#include "proto/h1_parse.c"
#include "proto/h1_scan.c"
#include "proto/h1_scan_avx2.c"
#include "proto/h1_scan_neon.c"
#include "proto/h1_scan_scalar.c"
#include "proto/h1_scan_sse2.c"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { FIELDS_MAX = 100, ROUNDS_MAX = 101, HEADS = 64, HEAD_MAX = 1024 };

static const char short_head[] = "GET /a HTTP/1.1\r\nHost: localhost:800\r\n\r\n";

static const char curl_head[] = "GET /files/report.txt?lang=en HTTP/1.1\r\n"
                                "Host: files.example.org:8080\r\n"
                                "User-Agent: curl/8.5.0\r\n"
                                "Accept: */*\r\n"
                                "\r\n";

static const char browser_head[] =
    "GET /shop/garden/tools?page=2&sort=price&view=grid HTTP/1.1\r\n"
    "Host: www.shop.example\r\n"
    "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0\r\n"
    "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8\r\n"
    "Accept-Language: en-GB,en;q=0.7,de;q=0.3\r\n"
    "Accept-Encoding: gzip, deflate, br, zstd\r\n"
    "Referer: https://www.shop.example/shop/garden\r\n"
    "Connection: keep-alive\r\n"
    "Cookie: session=0f4e2d9c8b7a6f5e; theme=day; basket=3; seen=12%2C44%2C71%2C8%2C9; lang=en; "
    "cart=full; a=1\r\n"
    "Upgrade-Insecure-Requests: 1\r\n"
    "Sec-Fetch-Dest: document\r\n"
    "Sec-Fetch-Mode: navigate\r\n"
    "Sec-Fetch-Site: same-origin\r\n"
    "Sec-Fetch-User: ?1\r\n"
    "Priority: u=0, i\r\n"
    "\r\n";

typedef struct heads {
    const char *name;
    uint32_t count;
    uint32_t offsets[HEADS + 1]; /* head i is bytes[offsets[i] .. offsets[i + 1]) */
    uint8_t bytes[HEADS * HEAD_MAX];
} heads;

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void add_head(heads *set, const char *text, size_t len) {
    uint32_t at = set->offsets[set->count];
    memcpy(set->bytes + at, text, len);
    set->offsets[++set->count] = at + (uint32_t)len;
}

/* Browser heads with cookies and paths of changing length: line ends fall elsewhere each time. */
static void add_mixed(heads *set) {
    uint32_t random = 12345;
    for (int i = 0; i < HEADS; i++) {
        char text[HEAD_MAX], filler[80];
        memset(filler, 'x', sizeof filler);
        size_t len = 0;
        for (const char *line = browser_head; *line != '\0';) {
            size_t line_len = (size_t)(strstr(line, "\r\n") - line);
            random = random * 1664525u + 1013904223u;
            int extra = line_len == 0 || line == browser_head ? 0 : (int)(random >> 27);
            /* now and then a field is missing, as it is in life */
            if (line_len == 0 || line == browser_head || line[0] == 'H' || random >> 22 & 7)
                len += (size_t)snprintf(text + len, sizeof text - len, "%.*s%.*s\r\n",
                                        (int)line_len, line, line[0] == 'H' ? 0 : extra, filler);
            line += line_len + 2;
        }
        add_head(set, text, len);
    }
}

static double time_round(const mr_h1_scan *scan, const heads *set, uint32_t loops) {
    static const mr_h1_limits limits = {16384, FIELDS_MAX, 8192};
    mr_h1_field fields[FIELDS_MAX];
    mr_h1_head head;
    uint64_t start = now_ns();
    for (uint32_t i = 0; i < loops; i++) {
        uint32_t n = i % set->count;
        const uint8_t *bytes = set->bytes + set->offsets[n];
        size_t len = set->offsets[n + 1] - set->offsets[n];
        mr_rc rc = mr_h1_parse_head(scan, &limits, bytes, len, 0, &head, fields);
        if (rc != MR_OK || head.head_len != len) {
            fprintf(stderr, "%s: head %" PRIu32 " refused with %u\n", set->name, n, head.status);
            exit(1);
        }
    }
    return (double)(now_ns() - start) / loops;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void report(const mr_h1_scan *scan, const heads *set, int rounds) {
    double times[ROUNDS_MAX];
    uint32_t loops = 100000;
    time_round(scan, set, loops / 10);
    for (int i = 0; i < rounds; i++)
        times[i] = time_round(scan, set, loops);
    qsort(times, (size_t)rounds, sizeof times[0], by_value);
    printf("%-8s %-8s %6" PRIu32 " bytes  %7.1f ns  [%.1f .. %.1f]\n", mr_h1_scan_name(scan),
           set->name, set->offsets[set->count] / set->count, times[rounds / 2], times[0],
           times[rounds - 1]);
}

int main(int argc, char **argv) {
    static heads sets[4];
    static const char *const names[] = {"avx2", "sse2", "neon", "scalar"};
    int rounds = argc > 1 ? atoi(argv[1]) : 15;
    if (rounds < 1 || rounds > ROUNDS_MAX) {
        fprintf(stderr, "usage: parse [rounds, 1 to %d]\n", ROUNDS_MAX);
        return 2;
    }
    sets[0].name = "short";
    add_head(&sets[0], short_head, sizeof short_head - 1);
    sets[1].name = "curl";
    add_head(&sets[1], curl_head, sizeof curl_head - 1);
    sets[2].name = "browser";
    add_head(&sets[2], browser_head, sizeof browser_head - 1);
    sets[3].name = "mixed";
    add_mixed(&sets[3]);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        for (size_t s = 0; s < 4 && mr_h1_scan_named(names[i]) != NULL; s++)
            report(mr_h1_scan_named(names[i]), &sets[s], rounds);
    return 0;
}
