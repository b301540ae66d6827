/* clock_test.c -- the calendar against libc's, and the cache. */
#include "base/clock.c"
#include "base/check.h"
#include <stdio.h>

/* Names by hand: strftime would ask the locale. */
static void expect_like_libc(int64_t unix_s) {
    static const char *days[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    static const char *months[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                   "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    char expected[100], got[MR_DATE_FIELD_BYTES + 1];
    struct tm tm;
    time_t t = (time_t)unix_s;
    MR_ASSERT(gmtime_r(&t, &tm) != NULL);
    int len = snprintf(expected, sizeof expected, "Date: %s, %02d %s %04d %02d:%02d:%02d GMT\r\n",
                       days[tm.tm_wday], tm.tm_mday, months[tm.tm_mon], tm.tm_year + 1900,
                       tm.tm_hour, tm.tm_min, tm.tm_sec);
    MR_ASSERT(len == MR_DATE_FIELD_BYTES);
    got[MR_DATE_FIELD_BYTES] = '#';
    mr_clock_render_date(unix_s, got);
    MR_ASSERT(memcmp(got, expected, MR_DATE_FIELD_BYTES) == 0 && got[MR_DATE_FIELD_BYTES] == '#');
}

static void dates(void) {
    expect_like_libc(784111777); /* the example of RFC 9110 */
    expect_like_libc(LAST_SECOND);
    /* Every day of 530 years, then every 17th to year 9999, at a second that moves. */
    for (int64_t day = 0; day * DAY_S <= LAST_SECOND; day += day < 193600 ? 1 : 17)
        expect_like_libc(day * DAY_S + day * 7919 % DAY_S);
    /* Every second around the turn of a day, a year, a leap day, a century. */
    static const int64_t turns[] = {0,         DAY_S,      951782400,  951868800,  978307200,
                                    946684800, 1709164800, 1709251200, 4107542400, 13574563200};
    for (size_t i = 0; i < sizeof turns / sizeof *turns; i++)
        for (int64_t s = turns[i] < 5 ? 0 : turns[i] - 5; s <= turns[i] + 5; s++)
            expect_like_libc(s);
    for (int64_t s = 0; s < DAY_S; s += 59)
        expect_like_libc(1000000 * (int64_t)DAY_S + s);
}

static void out_of_range(void) {
    char low[MR_DATE_FIELD_BYTES], high[MR_DATE_FIELD_BYTES];
    mr_clock_render_date(INT64_MIN, low);
    mr_clock_render_date(INT64_MAX, high);
    MR_ASSERT(memcmp(low, "Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n", MR_DATE_FIELD_BYTES) == 0);
    MR_ASSERT(memcmp(high, "Date: Fri, 31 Dec 9999 23:59:59 GMT\r\n", MR_DATE_FIELD_BYTES) == 0);
}

static void update(void) {
    mr_clock clock = {0};
    char expected[MR_DATE_FIELD_BYTES];
    mr_clock_update(&clock);
    MR_ASSERT(clock.now_ms > 0 && clock.date_s > 1500000000);
    mr_clock_render_date(clock.date_s, expected);
    MR_ASSERT(memcmp(clock.date_field, expected, MR_DATE_FIELD_BYTES) == 0);
    /* A changed second is rendered; whatever stood there goes. */
    uint64_t before_ms = clock.now_ms;
    clock.date_s -= 100;
    memset(clock.date_field, 'x', MR_DATE_FIELD_BYTES);
    mr_clock_update(&clock);
    mr_clock_render_date(clock.date_s, expected);
    MR_ASSERT(memcmp(clock.date_field, expected, MR_DATE_FIELD_BYTES) == 0);
    MR_ASSERT(clock.now_ms >= before_ms);
}

/* The second in which the first update falls may be 0, the value of a zeroed clock. */
static void first_update_renders(void) {
    mr_clock clock = {0};
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    clock.date_s = now.tv_sec;
    mr_clock_update(&clock);
    MR_ASSERT(memcmp(clock.date_field, "Date: ", 6) == 0);
}

int main(void) {
    dates();
    out_of_range();
    update();
    first_update_renders();
    return 0;
}
