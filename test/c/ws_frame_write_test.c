/* ws_frame_write_test.c -- frames of a server, octet for octet. */
#include "proto/ws_frame.c"
#include "proto/ws_utf8.c"
#include "proto/ws_utf8_avx2.c"
#include "proto/ws_utf8_neon.c"
#include "proto/ws_utf8_sse2.c"
#include <stdio.h>
#include <stdlib.h>

#define CHECK(claim)                                                                               \
    do {                                                                                           \
        if (!(claim)) {                                                                            \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #claim);                            \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static void headers(void) {
    uint8_t out[MR_WS_HEADER_MAX];
    CHECK(mr_ws_put_header(out, MR_WS_FIN | MR_WS_TEXT, 0) == 2 && memcmp(out, "\x81\0", 2) == 0);
    CHECK(mr_ws_put_header(out, MR_WS_FIN | MR_WS_PONG, 125) == 2 &&
          memcmp(out, "\x8a\x7d", 2) == 0);
    CHECK(mr_ws_put_header(out, MR_WS_BINARY, 126) == 4 && memcmp(out, "\x02\x7e\0\x7e", 4) == 0);
    CHECK(mr_ws_put_header(out, MR_WS_FIN | MR_WS_RSV1 | MR_WS_BINARY, 65535) == 4 &&
          memcmp(out, "\xc2\x7e\xff\xff", 4) == 0);
    CHECK(mr_ws_put_header(out, MR_WS_CONTINUATION, 65536) == 10 &&
          memcmp(out, "\0\x7f\0\0\0\0\0\1\0\0", 10) == 0);
    CHECK(mr_ws_put_header(out, 0, UINT64_C(0x0102030405060708)) == 10 &&
          memcmp(out + 2, "\1\2\3\4\5\6\7\x08", 8) == 0);
}

static void fragments_written(void) {
    uint8_t out[MR_WS_HEADER_MAX];
    mr_ws_fragments w = {MR_WS_TEXT | MR_WS_RSV1};
    CHECK(mr_ws_put_fragment(&w, out, 5, false) == 2 && memcmp(out, "\x41\5", 2) == 0);
    CHECK(mr_ws_put_fragment(&w, out, 0, false) == 2 && memcmp(out, "\0\0", 2) == 0);
    CHECK(mr_ws_put_fragment(&w, out, 300, true) == 4 && memcmp(out, "\x80\x7e\1\x2c", 4) == 0);
    w = (mr_ws_fragments){MR_WS_BINARY | MR_WS_RSV1};
    CHECK(mr_ws_put_fragment(&w, out, 5, true) == 2 && memcmp(out, "\xc2\5", 2) == 0);
    CHECK(mr_ws_without_tail((const uint8_t *)"a\0\0\xff\xff", 5) == 1);
    CHECK(mr_ws_without_tail((const uint8_t *)"\0\0\xff\xff", 4) == 0);
    CHECK(mr_ws_without_tail((const uint8_t *)"\0\xff\xff", 3) == 3);
    CHECK(mr_ws_without_tail((const uint8_t *)"a\0\1\xff\xff", 5) == 5);
}

static void closes_written(void) {
    uint8_t out[MR_WS_CLOSE_MAX], reason[MR_WS_REASON_MAX + 1];
    memset(reason, 'r', sizeof reason);
    CHECK(mr_ws_put_close(out, MR_WS_CODE_NONE, NULL, 0) == 2 && memcmp(out, "\x88\0", 2) == 0);
    CHECK(mr_ws_put_close(out, 1000, NULL, 0) == 4 && memcmp(out, "\x88\2\x03\xe8", 4) == 0);
    CHECK(mr_ws_put_close(out, 4999, reason, 2) == 6 && memcmp(out, "\x88\4\x13\x87rr", 6) == 0);
    CHECK(mr_ws_put_close(out, 1001, reason, MR_WS_REASON_MAX) == MR_WS_CLOSE_MAX);
    CHECK(out[1] == MR_WS_CONTROL_MAX && memcmp(out + 4, reason, MR_WS_REASON_MAX) == 0);
    CHECK(mr_ws_put_close(out, 1001, reason, MR_WS_REASON_MAX + 1) == 0);
    CHECK(mr_ws_put_close(out, MR_WS_CODE_NONE, reason, 1) == 0);
    CHECK(mr_ws_put_close(out, 1006, NULL, 0) == 0 && mr_ws_put_close(out, 999, NULL, 0) == 0);
    CHECK(mr_ws_put_close(out, 1000, (const uint8_t *)"\xc3", 1) == 0);
    CHECK(mr_ws_put_close(out, 1000, (const uint8_t *)"\xff", 1) == 0);
}

int main(void) {
    headers();
    fragments_written();
    closes_written();
    return 0;
}
