/* ws_accept_test.c -- opening handshakes: what is sound, what is refused and how, and what is
 * agreed on for each offer of permessage-deflate. */
/* link: base/text.c proto/h1_parse.c proto/h1_scan.c proto/h1_scan_scalar.c proto/h1_scan_sse2.c */
/* link: proto/h1_scan_avx2.c proto/h1_scan_neon.c */
#include "proto/ws_accept.c"
#include <stdio.h>
#include <stdlib.h>

#define CHECK(claim)                                                                               \
    do {                                                                                           \
        if (!(claim)) {                                                                            \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #claim);                            \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

enum { TEXT_MAX = 8192, FIELDS_MAX = 60 };

#define KEY "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
#define VERSION "Sec-WebSocket-Version: 13\r\n"
#define UPGRADE "Connection: Upgrade\r\nUpgrade: websocket\r\n"
#define GET "GET /chat HTTP/1.1\r\nHost: example.org\r\n"
#define SOUND GET UPGRADE VERSION KEY
#define PMD "permessage-deflate"

static const mr_ws_deflate_wishes generous = {.is_wanted = true,
                                              .server_takeover = true,
                                              .client_takeover = true,
                                              .server_bits = 15,
                                              .server_bits_least = 9,
                                              .client_bits = 15};
static mr_ws_deflate_wishes wishes;
static mr_ws_accept accept_;
static uint8_t *request_bytes; /* of the last judge(), in a block of its exact size */

static void judge(const char *text) {
    static const mr_h1_limits limits = {TEXT_MAX, FIELDS_MAX, 1000};
    mr_h1_field fields[FIELDS_MAX];
    mr_h1_head head;
    size_t len = strlen(text);
    free(request_bytes);
    CHECK((request_bytes = malloc(len + 2)) != NULL);
    memcpy(request_bytes, text, len);
    memcpy(request_bytes + len, "\r\n", 2);
    CHECK(mr_h1_parse_head(mr_h1_scan_best(), &limits, request_bytes, len + 2, 0, &head, fields) ==
          MR_OK);
    memset(&accept_, 0xee, sizeof accept_);
    mr_ws_judge(request_bytes, &head, fields, &wishes, &accept_);
    CHECK((accept_.why == NULL) == (accept_.status == 101));
    CHECK(accept_.status == 101 ||
          (accept_.protocol_count == 0 && accept_.extension_len == 0 && !accept_.deflate.is_on));
}

static void expect_status(const char *text, uint16_t status, int line) {
    judge(text);
    if (accept_.status == status)
        return;
    fprintf(stderr, "line %d: %u (%s), not %u:\n%s", line, accept_.status,
            accept_.why ? accept_.why : "", status, text);
    exit(1);
}

#define SOUND_IS(text) expect_status(text, 101, __LINE__)
#define BAD(text) expect_status(text, 400, __LINE__)
#define OLD(text) expect_status(text, 426, __LINE__)

/* ---- the request ---- */

static void sound(void) {
    SOUND_IS(SOUND); /* the sample of RFC 6455 1.3 */
    CHECK(memcmp(accept_.accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=", MR_WS_ACCEPT_BYTES) == 0);
    CHECK(accept_.protocol_count == 0 && accept_.extension_len == 0 && !accept_.deflate.is_on);
    SOUND_IS(GET "connection: keep-alive, uPGRADE\r\nupgrade: WebSocket\r\n" VERSION KEY);
    SOUND_IS(GET
             "Connection: keep-alive\r\nConnection: upgrade\r\nUpgrade: websocket\r\n" VERSION KEY);
    SOUND_IS(GET "Connection: Upgrade\r\nUpgrade: h2c, a/1 ,, websocket,x\r\n" VERSION KEY);
    SOUND_IS(GET "Connection: Upgrade\r\nUpgrade: h2c\r\nUpgrade: websocket\r\n" VERSION KEY);
    SOUND_IS(GET UPGRADE "Sec-WebSocket-Version: \t 13 \r\n" KEY);
    SOUND_IS("GET http://example.org/chat HTTP/1.1\r\nHost: example.org\r\n" UPGRADE VERSION KEY);
    SOUND_IS(SOUND "Content-Length: 0\r\n");
}

static void not_sound(void) {
    BAD("POST / HTTP/1.1\r\nHost: a\r\n" UPGRADE VERSION KEY);
    BAD("get / HTTP/1.1\r\nHost: a\r\n" UPGRADE VERSION KEY);
    BAD("GET / HTTP/1.0\r\nHost: a\r\n" UPGRADE VERSION KEY);
    CHECK(strstr(accept_.why, "HTTP/1.1") != NULL);
    BAD("GET / HTTP/1.1\r\nHost:\r\n" UPGRADE VERSION KEY);
    BAD(GET "Upgrade: websocket\r\n" VERSION KEY);
    BAD(GET "Connection: keep-alive\r\nUpgrade: websocket\r\n" VERSION KEY);
    BAD(GET "Connection: Upgrade\r\n" VERSION KEY);
    BAD(GET "Connection: Upgrade\r\nUpgrade: h2c\r\n" VERSION KEY);
    BAD(GET "Connection: Upgrade\r\nUpgrade: websocket/13\r\n" VERSION KEY);
    BAD(GET "Connection: Upgrade\r\nUpgrade: websocket2\r\n" VERSION KEY);
    BAD(GET "Connection: Upgrade\r\nUpgrade: web socket\r\n" VERSION KEY);
    BAD(GET "Connection: Upgrade\r\nUpgrade:\r\n" VERSION KEY);
    BAD(SOUND "Content-Length: 1\r\n");
    BAD(SOUND "Transfer-Encoding: chunked\r\n");
}

static void versions(void) {
    OLD(GET UPGRADE KEY);
    OLD(GET UPGRADE KEY "Sec-WebSocket-Version: 8\r\n");
    OLD(GET UPGRADE KEY "Sec-WebSocket-Version: 12\r\n");
    OLD(GET UPGRADE KEY "Sec-WebSocket-Version: 14\r\n");
    OLD(GET UPGRADE KEY "Sec-WebSocket-Version: 013\r\n");
    OLD(GET UPGRADE KEY "Sec-WebSocket-Version: 13, 8\r\n");
    OLD(GET UPGRADE KEY "Sec-WebSocket-Version: abc\r\n");
    OLD(GET UPGRADE KEY VERSION VERSION);
}

static void keys(void) {
#define WITH(key) GET UPGRADE VERSION "Sec-WebSocket-Key: " key "\r\n"
    SOUND_IS(WITH("AAAAAAAAAAAAAAAAAAAAAA=="));
    SOUND_IS(WITH("+/+/+/+/+/+/+/+/+/+/+/=="));
    SOUND_IS(WITH("AAAAAAAAAAAAAAAAAAAAAB==")); /* bits left over decode to the same */
    BAD(GET UPGRADE VERSION);
    BAD(WITH(""));
    BAD(WITH("AAAAAAAAAAAAAAAAAAAA"));    /* 15 octets */
    BAD(WITH("AAAAAAAAAAAAAAAAAA=="));    /* 13 */
    BAD(WITH("AAAAAAAAAAAAAAAAAAAAA==")); /* no whole number */
    BAD(WITH("AAAAAAAAAAAAAAAAAAAAAAA=="));
    BAD(WITH("AAAAAAAAAAAAAAAAAAAAAAAAAA==")); /* 19 */
    BAD(WITH("AAAAAAAAAAAAAAAAAAAAAAA="));     /* 17 */
    BAD(WITH("AAAAAAAAAAAAAAAAAAAAAAAA"));     /* 18 */
    BAD(WITH("AAAAAAAAAAAAAAAAAAAAAA"));       /* no pads */
    BAD(WITH("AAAAAAAAAAAAAAAAAAAAAA="));      /* one */
    BAD(WITH("AAAAAAAAAAAAAAAAAAAAA==="));     /* three */
    BAD(WITH("AAAAAAAAAAAAAAAAAAAAAA==="));    /* behind all */
    BAD(WITH("AAAAAAAAAAAAAAAAAAAA-_=="));     /* digits of another alphabet */
    BAD(WITH("AAAAAAAAAA AAAAAAAAAAA=="));
    BAD(WITH("!!!!!!!!!!!!!!!!!!!!!!=="));
    BAD(WITH("AAAAAAAAAAAAAAAAAAAAAA==") KEY); /* two of them */
    BAD(SOUND KEY);
#undef WITH
}

static void digests(void) {
    static const struct {
        size_t
            len; /* of as many letters a: around one block, the longest that fits, and the usual */
        const char *base64; /* made with another implementation */
    } known[] = {{0, "2jmj7l5rSw0yVb/vlWAYkK/YBwk="},
                 {55, "wci73CJ5bijA4VFj0giZtlYh1lo="},
                 {56, "wtszD2CDhUyZ1LW/tujynyAb5pk="},
                 {60, "E9lWAz2a9Em/4sTveMF8IEacS/E="},
                 {119, "7pcQZaqgF+BjKoymx3uzv4sd/FY="}};
    uint8_t digest[SHA1_BYTES], text[MR_WS_ACCEPT_BYTES + 4], letters[119];
    memset(letters, 'a', sizeof letters);
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        sha1(letters, known[i].len, digest);
        put_base64(text, digest, sizeof digest);
        CHECK(memcmp(text, known[i].base64, MR_WS_ACCEPT_BYTES) == 0);
    }
    put_base64(text, (const uint8_t *)"fooba", 5);
    CHECK(memcmp(text, "Zm9vYmE=", 8) == 0);
    put_base64(text, (const uint8_t *)"foob", 4);
    CHECK(memcmp(text, "Zm9vYg==", 8) == 0);
}

/* ---- subprotocols ---- */

static bool protocol_is(int index, const char *name) {
    return accept_.protocols[index].len == strlen(name) &&
           memcmp(request_bytes + accept_.protocols[index].off, name, strlen(name)) == 0;
}

static void protocols(void) {
    SOUND_IS(SOUND "Sec-WebSocket-Protocol: chat , superchat\r\nsec-websocket-protocol:,v2.x,\r\n");
    CHECK(accept_.protocol_count == 3 && protocol_is(0, "chat") && protocol_is(1, "superchat") &&
          protocol_is(2, "v2.x"));
    CHECK(mr_ws_find_protocol(request_bytes, &accept_, "superchat", 9) == 1);
    CHECK(mr_ws_find_protocol(request_bytes, &accept_, "Chat", 4) == -1);
    CHECK(mr_ws_find_protocol(request_bytes, &accept_, "cha", 3) == -1);
    SOUND_IS(SOUND "Sec-WebSocket-Protocol: a, A\r\n"); /* not the same */
    SOUND_IS(SOUND "Sec-WebSocket-Protocol:\r\n");
    CHECK(accept_.protocol_count == 0);
    BAD(SOUND "Sec-WebSocket-Protocol: a b\r\n");
    BAD(SOUND "Sec-WebSocket-Protocol: a/b\r\n");
    BAD(SOUND "Sec-WebSocket-Protocol: \"a\"\r\n");
    BAD(SOUND "Sec-WebSocket-Protocol: a, b, a\r\n");
}

static void protocols_at_the_bound(void) {
    for (unsigned count = MR_WS_PROTOCOLS_MAX; count <= MR_WS_PROTOCOLS_MAX + 1; count++) {
        char text[TEXT_MAX];
        size_t len = (size_t)snprintf(text, sizeof text, SOUND "Sec-WebSocket-Protocol: ");
        for (unsigned i = 0; i < count; i++)
            len += (size_t)snprintf(text + len, sizeof text - len, "p%u,", i);
        snprintf(text + len, sizeof text - len, "\r\n");
        expect_status(text, count <= MR_WS_PROTOCOLS_MAX ? 101 : 400, __LINE__);
        CHECK(accept_.status != 101 || accept_.protocol_count == MR_WS_PROTOCOLS_MAX);
    }
}

/* ---- permessage-deflate ---- */

static void expect_extension(const char *list, const char *answer, int line) {
    char text[TEXT_MAX];
    snprintf(text, sizeof text, SOUND "Sec-WebSocket-Extensions: %s\r\n", list);
    expect_status(text, 101, line);
    CHECK(accept_.deflate.is_on == (accept_.extension_len > 0));
    if (accept_.extension_len == strlen(answer) &&
        memcmp(accept_.extension, answer, accept_.extension_len) == 0)
        return;
    fprintf(stderr, "line %d: %s\nwas answered: %.*s\nnot: %s\n", line, list, accept_.extension_len,
            (const char *)accept_.extension, answer);
    exit(1);
}

#define OFFER(list, answer) expect_extension(list, answer, __LINE__)
#define DECLINED(list) expect_extension(list, "", __LINE__)

static bool agreed(bool server_takeover, bool client_takeover, unsigned server_bits,
                   unsigned client_bits) {
    const mr_ws_deflate *d = &accept_.deflate;
    return d->is_on && d->server_takeover == server_takeover &&
           d->client_takeover == client_takeover && d->server_bits == server_bits &&
           d->client_bits == client_bits;
}

static void offers(void) {
    wishes = generous;
    OFFER(PMD, PMD);
    CHECK(agreed(true, true, 15, 15));
    OFFER("Permessage-Deflate", PMD);
    OFFER(PMD "; client_max_window_bits", PMD);
    CHECK(agreed(true, true, 15, 15));
    OFFER(PMD "; client_max_window_bits=15", PMD);
    OFFER(PMD "; client_max_window_bits=10", PMD "; client_max_window_bits=10");
    CHECK(agreed(true, true, 15, 10));
    OFFER(PMD "; client_max_window_bits=8", PMD "; client_max_window_bits=8");
    OFFER(PMD "; server_max_window_bits=15", PMD "; server_max_window_bits=15");
    OFFER(PMD "; server_max_window_bits=9", PMD "; server_max_window_bits=9");
    CHECK(agreed(true, true, 9, 15));
    OFFER(PMD "; server_max_window_bits=\"12\"", PMD "; server_max_window_bits=12");
    OFFER(PMD "; server_no_context_takeover", PMD "; server_no_context_takeover");
    CHECK(agreed(false, true, 15, 15));
    OFFER(PMD ";client_no_context_takeover", PMD "; client_no_context_takeover");
    CHECK(agreed(true, false, 15, 15));
    OFFER(PMD " ;\tclient_max_window_bits = 12 ; SERVER_MAX_WINDOW_BITS=11;"
              "server_no_context_takeover;client_no_context_takeover",
          PMD "; server_no_context_takeover; client_no_context_takeover"
              "; server_max_window_bits=11; client_max_window_bits=12");
    CHECK(agreed(false, false, 11, 12));
}

static void wishes_kept(void) {
    wishes = generous;
    wishes.server_takeover = wishes.client_takeover = false;
    OFFER(PMD, PMD "; server_no_context_takeover; client_no_context_takeover");
    CHECK(agreed(false, false, 15, 15));
    wishes.server_bits = wishes.client_bits = 11;
    OFFER(PMD, PMD "; server_no_context_takeover; client_no_context_takeover"
                   "; server_max_window_bits=11");
    CHECK(agreed(false, false, 11, 15)); /* a client that did not offer it cannot be told */
    OFFER(PMD "; client_max_window_bits; server_max_window_bits=12",
          PMD "; server_no_context_takeover; client_no_context_takeover"
              "; server_max_window_bits=11; client_max_window_bits=11");
    CHECK(agreed(false, false, 11, 11));
    OFFER(PMD "; client_max_window_bits=10; server_max_window_bits=10",
          PMD "; server_no_context_takeover; client_no_context_takeover"
              "; server_max_window_bits=10; client_max_window_bits=10");
    wishes.is_wanted = false;
    DECLINED(PMD);
}

static void declined(void) {
    static const char *const bad[] = {"unknown",
                                      "unknown=1",
                                      "server_no_context_takeover=1",
                                      "server_no_context_takeover=10",
                                      "client_no_context_takeover=10",
                                      "client_no_context_takeover=true",
                                      "server_no_context_takeover; server_no_context_takeover",
                                      "client_no_context_takeover; client_no_context_takeover",
                                      "server_max_window_bits",
                                      "server_max_window_bits=0",
                                      "server_max_window_bits=7",
                                      "server_max_window_bits=8", /* below the wish's least */
                                      "server_max_window_bits=16",
                                      "server_max_window_bits=010",
                                      "server_max_window_bits=09",
                                      "server_max_window_bits=115",
                                      "server_max_window_bits=ten",
                                      "server_max_window_bits=1x",
                                      "server_max_window_bits=-9",
                                      "server_max_window_bits=12; server_max_window_bits=12",
                                      "client_max_window_bits=7",
                                      "client_max_window_bits=16",
                                      "client_max_window_bits=09",
                                      "client_max_window_bits; client_max_window_bits=10"};
    wishes = generous;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char list[400];
        snprintf(list, sizeof list, PMD "; %s", bad[i]);
        DECLINED(list);
        snprintf(list, sizeof list, PMD "; %s, " PMD "; server_max_window_bits=12", bad[i]);
        OFFER(list, PMD "; server_max_window_bits=12"); /* the next one may do */
    }
    DECLINED("x-webkit-deflate-frame");
    DECLINED("permessage-deflat, permessage-deflate2; a=b");
    OFFER("foo; a=\"b\"; c, " PMD, PMD);
    wishes.server_bits_least = 0;
    DECLINED(PMD "; server_max_window_bits");
    wishes.server_bits_least = 8;
    OFFER(PMD "; server_max_window_bits=8", PMD "; server_max_window_bits=8");
}

static void first_good_one(void) {
    wishes = generous;
    OFFER(PMD "; server_max_window_bits=10, " PMD, PMD "; server_max_window_bits=10");
    OFFER(PMD "\r\nSec-WebSocket-Extensions: " PMD "; server_max_window_bits=10", PMD);
    OFFER("," PMD "; server_max_window_bits=7 ,\r\nSec-WebSocket-Extensions: ,, " PMD, PMD);
    OFFER("", "");
}

static void malformed(void) {
    static const char *const bad[] = {"perm@ssage deflate",
                                      PMD ";",
                                      PMD "; ;",
                                      PMD "; a=",
                                      PMD "; =1",
                                      PMD "; a b",
                                      PMD "; a=\"\"",
                                      PMD "; a=\"b",
                                      PMD "; a=\"b c\"",
                                      PMD "; a=\"b\"c",
                                      PMD " x",
                                      "\"" PMD "\"",
                                      ";a",
                                      "a/b",
                                      PMD ", ;",
                                      PMD "; a=b=c"};
    for (int is_wanted = 0; is_wanted < 2; is_wanted++)
        for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
            char text[TEXT_MAX];
            wishes.is_wanted = is_wanted;
            snprintf(text, sizeof text, SOUND "Sec-WebSocket-Extensions: %s\r\n", bad[i]);
            BAD(text);
        }
}

int main(void) {
    sound();
    not_sound();
    versions();
    keys();
    digests();
    protocols();
    protocols_at_the_bound();
    offers();
    wishes_kept();
    declined();
    first_good_one();
    malformed();
    free(request_bytes);
    return 0;
}
