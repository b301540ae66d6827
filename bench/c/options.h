/* options.h -- what the load generator is asked to do, and the bytes of its request.
 * Owns:    the request's bytes, for the life of the process.
 * Borrows: argv.
 * Thread:  read once at start, constant after.
 * Uses:    libc. */
#ifndef BENCH_OPTIONS_H
#define BENCH_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct mr_options {
    const char *host; /* an IPv4 address */
    uint16_t port;
    uint32_t connections;
    uint32_t depth;         /* requests in flight per connection; 1 with `closes` */
    bool closes;            /* one request per connection */
    bool is_idle;           /* open, ask once each, hold until standard input ends */
    double rate;            /* requests per second on a fixed schedule; 0: closed loop */
    uint64_t warmup_ns;     /* not counted */
    uint64_t window_ns;     /* counted */
    uint64_t request_limit; /* stop after so many instead; 0: by time */
    pid_t pid;              /* whose CPU time to read at both ends of the window; 0: nobody's */
    int expect_status;
    const char *expect_body; /* NULL: any */
    char *request;           /* owned; one whole request */
    size_t request_bytes;
    bool prints_request; /* print its length and leave */
} mr_options;

/* Reads the command line. Prints what is wrong, or the help, and exits. */
void mr_options_read(mr_options *o, int argc, char **argv);

#endif
