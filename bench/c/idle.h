/* idle.h -- holds many idle keep-alive connections, for measuring what one costs the server.
 * Owns:    the descriptors, until the process ends.
 * Borrows: the options.
 * Thread:  the main one; blocking calls.
 * Uses:    options.h, response.h. */
#ifndef BENCH_IDLE_H
#define BENCH_IDLE_H

#include "options.h"

/* Opens the connections, gets one checked answer on each, prints {"ready":N}, waits for the end of
 * standard input and prints how many the server still holds. The exit code: 0 when all went well.
 */
int mr_idle_run(const mr_options *o);

#endif
