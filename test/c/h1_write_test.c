/* h1_write_test.c -- the texts of responses. */
/* link: base/text.c base/clock.c */
#include "proto/h1_write.c"

#include <stdio.h>
#include <stdlib.h>

#define CHECK(claim)                                                                               \
    do {                                                                                           \
        if (!(claim)) {                                                                            \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #claim);                            \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static void reason_phrases(void) {
    CHECK(strcmp(mr_h1_reason(200), "OK") == 0);
    CHECK(strcmp(mr_h1_reason(413), "Content Too Large") == 0);
    CHECK(strcmp(mr_h1_reason(511), "Network Authentication Required") == 0);
    CHECK(strcmp(mr_h1_reason(0), "Unknown") == 0 && strcmp(mr_h1_reason(299), "Unknown") == 0);
    for (size_t i = 1; i < sizeof reasons / sizeof reasons[0]; i++)
        CHECK(reasons[i].status > reasons[i - 1].status); /* none twice */
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++)
        for (const char *c = reasons[i].reason; *c != 0; c++)
            CHECK(*c >= ' ' && *c <= '~');
}

static void bodyless(void) {
    CHECK(mr_h1_is_bodyless(100) && mr_h1_is_bodyless(199) && mr_h1_is_bodyless(204) &&
          mr_h1_is_bodyless(304));
    CHECK(!mr_h1_is_bodyless(200) && !mr_h1_is_bodyless(205) && !mr_h1_is_bodyless(303));
}

static void expect_tail(unsigned tail, uint64_t length, const char *want) {
    mr_clock clock = {0};
    uint8_t out[MR_TAIL_MAX + 1];
    mr_clock_render_date(784111777, clock.date_field);
    memset(out, '?', sizeof out);
    size_t len = mr_h1_put_tail(out, tail, length, &clock);
    CHECK(len <= MR_TAIL_MAX && len == strlen(want) && memcmp(out, want, len) == 0);
    CHECK(out[len] == '?');
}

static void tails(void) {
#define DATE "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
    expect_tail(0, 5, "\r\n");
    expect_tail(MR_TAIL_LENGTH, 0, "Content-Length: 0\r\n\r\n");
    expect_tail(MR_TAIL_DATE, 5, DATE "\r\n");
    expect_tail(MR_TAIL_CLOSE | MR_TAIL_KEEP_ALIVE, 5, "Connection: close\r\n\r\n");
    /* The longest there is fills MR_TAIL_MAX to the octet. */
    expect_tail(MR_TAIL_LENGTH | MR_TAIL_DATE | MR_TAIL_KEEP_ALIVE, UINT64_MAX,
                "Content-Length: 18446744073709551615\r\n" DATE "Connection: keep-alive\r\n\r\n");
    CHECK(strlen("Content-Length: 18446744073709551615\r\n" DATE
                 "Connection: keep-alive\r\n\r\n") == MR_TAIL_MAX);
}

static bool sound(const char *text, size_t len) {
    uint8_t *copy = malloc(len != 0 ? len : 1); /* exact: a read behind it shows */
    CHECK(copy != NULL);
    memcpy(copy, text, len);
    bool is_sound = mr_h1_head_is_sound(copy, len);
    free(copy);
    return is_sound;
}

#define SOUND(text) sound(text, sizeof(text) - 1)

static void soundness(void) {
    static const char good[] = "HTTP/1.1 200 OK\r\nA: b\r\nC:\r\n";
    CHECK(SOUND("HTTP/1.1 200 OK\r\n") && SOUND("HTTP/1.1 404 Not Found\r\nA: \xe4\tb\r\n"));
    CHECK(sound(good, sizeof good - 1));
    for (size_t len = 0; len < sizeof good - 1; len++) /* only whole lines */
        CHECK(sound(good, len) == (len == 17 || len == 23));
    CHECK(!SOUND("HTTP/1.0 200 OK\r\n") && !SOUND("http/1.1 200 OK\r\n"));
    CHECK(!SOUND("HTTP/1.1 200 OK\r\n\r\n") && !SOUND("HTTP/1.1 200 OK\r\n\r\nA: b\r\n"));
    CHECK(!SOUND("HTTP/1.1 200 OK\r\nA: b\n") && !SOUND("HTTP/1.1 200 OK\nA: b\r\n"));
    CHECK(!SOUND("HTTP/1.1 200 OK\r\nA: b\rC: d\r\n") && !SOUND("HTTP/1.1 200 OK\r\nA: b\0c\r\n"));
    CHECK(!SOUND("HTTP/1.1 200 OK\r\nA: b\r\n c\r\n") && !SOUND("HTTP/1.1 200 OK\r\n\tA: b\r\n"));
    CHECK(!SOUND("HTTP/1.1 200 OK\r\nA: b\r\r\n"));
}

int main(void) {
    reason_phrases();
    bodyless();
    tails();
    soundness();
    return 0;
}
