/* clock.c -- invariant: once updated, date_field shows date_s.
 * The calendar is computed here: gmtime_r takes a lock in some libcs, strftime reads the locale. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L /* clock_gettime under -std=c11 */
#endif
#include "base/clock.h"
#include <string.h>
#include <time.h>

#define LAST_SECOND INT64_C(253402300799) /* 9999-12-31T23:59:59Z */
#define DAY_S 86400

typedef struct civil_date {
    int year;  /* 1970..9999 */
    int month; /* 0..11, January is 0 */
    int day;   /* 1..31 */
} civil_date;

static int64_t clamp_second(int64_t unix_s) {
    return unix_s < 0 ? 0 : unix_s > LAST_SECOND ? LAST_SECOND : unix_s;
}

/* Counts years from 1 March, so that the leap day is the last of its year and of each longer
 * cycle: the fourth century and the fourth year of a cycle are one day longer, hence the caps. */
static civil_date date_of_day(int64_t unix_day) {
    int day = (int)unix_day + 719468; /* days since 0000-03-01 */
    int era = day / 146097;           /* of 400 years */
    day %= 146097;
    int century = day / 36524 > 3 ? 3 : day / 36524;
    day -= century * 36524;
    int cycle = day / 1461; /* of 4 years */
    day %= 1461;
    int year = day / 365 > 3 ? 3 : day / 365;
    day -= year * 365;
    /* March to July and August to December both run 31 30 31 30 31 days: 153 in five months. */
    int month = (5 * day + 2) / 153; /* March is 0 */
    day -= (153 * month + 2) / 5;
    year += era * 400 + century * 100 + cycle * 4;
    if (month >= 10) /* January and February belong to the next civil year */
        return (civil_date){.year = year + 1, .month = month - 10, .day = day + 1};
    return (civil_date){.year = year, .month = month + 2, .day = day + 1};
}

static void put_two(char *out, int value) {
    out[0] = (char)('0' + value / 10);
    out[1] = (char)('0' + value % 10);
}

void mr_clock_render_date(int64_t unix_s, char out[MR_DATE_FIELD_BYTES]) {
    static const char days[] = "ThuFriSatSunMonTueWed"; /* 1970-01-01 was a Thursday */
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    unix_s = clamp_second(unix_s);
    int64_t unix_day = unix_s / DAY_S;
    int second = (int)(unix_s % DAY_S);
    civil_date date = date_of_day(unix_day);
    memcpy(out, "Date: ***, 00 *** 0000 00:00:00 GMT\r\n", MR_DATE_FIELD_BYTES);
    memcpy(out + 6, days + 3 * (unix_day % 7), 3);
    put_two(out + 11, date.day);
    memcpy(out + 14, months + 3 * date.month, 3);
    put_two(out + 18, date.year / 100);
    put_two(out + 20, date.year % 100);
    put_two(out + 23, second / 3600);
    put_two(out + 26, second / 60 % 60);
    put_two(out + 29, second % 60);
}

void mr_clock_update(mr_clock *clock) {
    /* Neither call can fail: both clocks exist wherever POSIX does, and the address is good. */
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    clock->now_ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
    clock->now_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
    clock_gettime(CLOCK_REALTIME, &now);
    clock->unix_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    int64_t second = clamp_second((int64_t)now.tv_sec);
    if (second == clock->date_s && clock->date_field[0] != '\0')
        return;
    mr_clock_render_date(second, clock->date_field);
    clock->date_s = second;
}
