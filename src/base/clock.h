/* clock.h -- monotonic milliseconds and the cached Date field.
 * Thread:  the engine's. */
#ifndef MR_BASE_CLOCK_H
#define MR_BASE_CLOCK_H

#include <stdint.h>

/* "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n" (RFC 9110 5.6.7), without a NUL. */
#define MR_DATE_FIELD_BYTES 37

/* A zeroed mr_clock is ready for its first update. */
typedef struct mr_clock {
    uint64_t now_ms; /* CLOCK_MONOTONIC, read once per turn */
    uint64_t now_ns; /* the same reading */
    int64_t unix_ms; /* CLOCK_REALTIME, read with it */
    int64_t date_s;  /* the Unix second that date_field shows */
    /* Set by the first update; rounded up so that it may be copied in whole words. */
    char date_field[MR_DATE_FIELD_BYTES + 3];
} mr_clock;

/* Reads both clocks; renders the Date field anew when the second has changed. */
void mr_clock_update(mr_clock *clock);
/* Renders `unix_s` as an IMF-fixdate Date field line. Seconds outside 0 .. 253402300799 (the end
 * of year 9999) are taken as the nearer bound: a wrong system clock is no reason to stop. */
void mr_clock_render_date(int64_t unix_s, char out[MR_DATE_FIELD_BYTES]);

#endif
