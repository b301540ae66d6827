/* proxy_test.c -- PROXY headers: what is taken, what is refused, and at which octet. */
#include "proto/proxy.c"

#include <stdio.h>
#include <stdlib.h>

#define CHECK(claim)                                                                               \
    do {                                                                                           \
        if (!(claim)) {                                                                            \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #claim);                            \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* In a block of its exact size, so that a read behind it shows. */
static mr_rc parse_copy(const uint8_t *bytes, size_t len, mr_proxy *out)
{
    uint8_t *copy = malloc(len > 0 ? len : 1);
    CHECK(copy != NULL);
    if (len > 0)
        memcpy(copy, bytes, len);
    mr_rc rc = mr_proxy_parse(copy, len, out);
    free(copy);
    return rc;
}

/* What the whole says must be what some beginning says first, and stay so: never OK and then not.
 */
static mr_rc parse(const void *bytes, size_t len, mr_proxy *out)
{
    mr_proxy early;
    mr_rc rc = parse_copy(bytes, len, out), first = MR_AGAIN;
    for (size_t n = 0; n <= len && first == MR_AGAIN; n++) {
        first = parse_copy(bytes, n, &early);
        if (first == MR_OK)
            CHECK(early.len == n && memcmp(&early, out, sizeof early) == 0);
    }
    CHECK(first == rc);
    return rc;
}

static mr_rc parse_text(const char *text, mr_proxy *out) { return parse(text, strlen(text), out); }

static void text_sources(void)
{
    static const uint8_t six[16] = {0x20, 0x01, 0x0d, 0xb8, [15] = 1};
    mr_proxy p;
    const char *v4 = "PROXY TCP4 192.0.2.1 198.51.100.2 56324 443\r\nGET / HTTP/1.1\r\n";
    CHECK(parse_text(v4, &p) == MR_OK && p.has_source && p.family == 4 && p.port == 56324);
    CHECK(memcmp(p.address, "\300\0\2\1", 4) == 0);
    CHECK(strncmp(v4 + p.len, "GET ", 4) == 0);
    CHECK(parse_text("PROXY TCP6 2001:db8::1 2001:db8::2 0 65535\r\n", &p) == MR_OK);
    CHECK(p.family == 6 && p.port == 0 && memcmp(p.address, six, 16) == 0);
    CHECK(parse_text("PROXY TCP6 ::ffff:192.0.2.1 ::1 65535 0\r\n", &p) == MR_OK);
    CHECK(p.family == 4 && p.port == 65535 && memcmp(p.address, "\300\0\2\1\0\0\0", 7) == 0);
}

static void text_unknown(void)
{
    mr_proxy p;
    CHECK(parse_text("PROXY UNKNOWN\r\n", &p) == MR_OK && !p.has_source && p.len == 15);
    CHECK(parse_text("PROXY UNKNOWN ffff::1 whatever it  is\r\nx", &p) == MR_OK && !p.has_source);
}

static void text_refused(void)
{
    static const char *const texts[] = {
        "GET / HTTP/1.1\r\n",
        "proxy TCP4 192.0.2.1 192.0.2.2 1 2\r\n",
        "PROXY\tTCP4 192.0.2.1 192.0.2.2 1 2\r\n",
        "PROXY  TCP4 192.0.2.1 192.0.2.2 1 2\r\n",
        "PROXY \r\n",
        "PROXY TCP4\r\n",
        "PROXY TCP4 \r\n",
        "PROXY TCP5 192.0.2.1 192.0.2.2 1 2\r\n",
        "PROXY UNKNOWNX\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 1\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 1 2 \r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 1 2 3\r\n",
        "PROXY TCP4 192.0.2.1  192.0.2.2 1 2\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 1 2\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 1 65536\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 65536 2\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 01 2\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 +1 2\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 1 -2\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2  2\r\n",
        "PROXY TCP4 192.0.2.1 192.0.2.2 123456 2\r\n",
        "PROXY TCP4 192.0.2.256 192.0.2.2 1 2\r\n",
        "PROXY TCP4 192.0.2 192.0.2.2 1 2\r\n",
        "PROXY TCP4 192.0.2.1 ::1 1 2\r\n",
        "PROXY TCP4 ::1 ::1 1 2\r\n",
        "PROXY TCP6 192.0.2.1 192.0.2.2 1 2\r\n",
        "PROXY TCP6 2001:db8::g ::1 1 2\r\n",
        "PROXY TCP6 [::1] ::1 1 2\r\n",
    };
    mr_proxy p;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        CHECK(parse_text(texts[i], &p) == MR_BADPEER);
    CHECK(parse("PROXY TCP4 192.0.2.1\0 192.0.2.2 1 2\r\n", 38, &p) == MR_BADPEER);
}

/* A line of `len` octets with its CRLF. */
static size_t long_line(char *line, size_t len)
{
    memset(line, 'x', len);
    memcpy(line, "PROXY UNKNOWN ", 14);
    memcpy(line + len - 2, "\r\n", 2);
    return len;
}

static void text_limit(void)
{
    char line[MR_PROXY_V1_MAX + 8];
    mr_proxy p;
    CHECK(parse(line, long_line(line, MR_PROXY_V1_MAX), &p) == MR_OK && p.len == MR_PROXY_V1_MAX);
    CHECK(parse(line, long_line(line, MR_PROXY_V1_MAX + 1), &p) == MR_BADPEER);
    memset(line, 'x', sizeof line);
    memcpy(line, "PROXY UNKNOWN ", 14);
    CHECK(parse_copy((uint8_t *)line, MR_PROXY_V1_MAX - 2, &p) == MR_AGAIN);
    CHECK(parse_copy((uint8_t *)line, MR_PROXY_V1_MAX - 1, &p) == MR_BADPEER);
}

/* ---- version 2 ---- */

typedef struct packet {
    uint8_t bytes[MR_PROXY_MAX + 64];
    size_t len;
} packet;

static packet binary(uint8_t command, uint8_t kind, size_t rest)
{
    packet k = {.len = MR_PROXY_V2_FIXED + rest};
    memcpy(k.bytes, "\r\n\r\n\0\r\nQUIT\n", 12);
    k.bytes[12] = command;
    k.bytes[13] = kind;
    k.bytes[14] = (uint8_t)(rest >> 8);
    k.bytes[15] = (uint8_t)rest;
    for (size_t i = 0; i < rest; i++)
        k.bytes[MR_PROXY_V2_FIXED + i] = (uint8_t)(i + 1);
    return k;
}

static mr_rc try_binary(uint8_t command, uint8_t kind, size_t rest, mr_proxy *p)
{
    packet k = binary(command, kind, rest);
    mr_rc rc = parse(k.bytes, k.len, p);
    if (rc == MR_OK)
        CHECK(p->len == k.len);
    return rc;
}

static void binary_sources(void)
{
    mr_proxy p;
    CHECK(try_binary(0x21, 0x11, 12, &p) == MR_OK && p.has_source && p.family == 4);
    CHECK(memcmp(p.address, "\1\2\3\4\0", 5) == 0 && p.port == 0x090a);
    CHECK(try_binary(0x21, 0x11, 11, &p) == MR_BADPEER);
    CHECK(try_binary(0x21, 0x21, 36, &p) == MR_OK && p.has_source && p.family == 6);
    CHECK(p.address[0] == 1 && p.address[15] == 16 && p.port == 0x2122);
    CHECK(try_binary(0x21, 0x21, 35, &p) == MR_BADPEER);
    CHECK(try_binary(0x21, 0x31, 216, &p) == MR_OK && p.has_source && p.family == 0 && p.port == 0);
    CHECK(try_binary(0x21, 0x31, 215, &p) == MR_BADPEER);
    packet k = binary(0x21, 0x21, 36);
    memcpy(k.bytes + MR_PROXY_V2_FIXED, "\0\0\0\0\0\0\0\0\0\0\xff\xff\xc0\0\2\1", 16);
    CHECK(parse(k.bytes, k.len, &p) == MR_OK && p.family == 4 && p.address[0] == 192);
}

static void binary_without_source(void)
{
    mr_proxy p;
    static const uint8_t own[] = {0x00, 0x01, 0x02, 0x10, 0x12, 0x20, 0x22, 0x30, 0x32};
    for (size_t i = 0; i < sizeof own; i++)
        CHECK(try_binary(0x21, own[i], 216, &p) == MR_OK && !p.has_source);
    CHECK(try_binary(0x21, 0x00, 0, &p) == MR_OK && !p.has_source);
    CHECK(try_binary(0x20, 0x00, 0, &p) == MR_OK && !p.has_source);
    CHECK(try_binary(0x20, 0x11, 12, &p) == MR_OK && !p.has_source);
    CHECK(try_binary(0x20, 0xff, 3, &p) == MR_OK && !p.has_source); /* not looked at */
}

static void binary_refused(void)
{
    static const uint8_t commands[] = {0x00, 0x11, 0x22, 0x2f, 0x31};
    static const uint8_t kinds[] = {0x13, 0x1f, 0x41, 0xf1};
    mr_proxy p;
    for (size_t i = 0; i < sizeof commands; i++)
        CHECK(try_binary(commands[i], 0x11, 12, &p) == MR_BADPEER);
    for (size_t i = 0; i < sizeof kinds; i++)
        CHECK(try_binary(0x21, kinds[i], 216, &p) == MR_BADPEER);
    for (size_t i = 0; i < 12; i++) {
        packet k = binary(0x21, 0x11, 12);
        k.bytes[i] ^= 1;
        CHECK(parse(k.bytes, k.len, &p) == MR_BADPEER);
    }
}

static void binary_limit(void)
{
    mr_proxy p;
    CHECK(try_binary(0x21, 0x11, MR_PROXY_V2_REST_MAX, &p) == MR_OK && p.len == MR_PROXY_MAX);
    CHECK(try_binary(0x21, 0x11, MR_PROXY_V2_REST_MAX + 1, &p) == MR_BADPEER);
    packet k = binary(0x20, 0, 0xffff & MR_PROXY_V2_REST_MAX);
    k.bytes[14] = 0xff;
    CHECK(parse(k.bytes, MR_PROXY_V2_FIXED, &p) == MR_BADPEER);
}

int main(void)
{
    text_sources();
    text_unknown();
    text_refused();
    text_limit();
    binary_sources();
    binary_without_source();
    binary_refused();
    binary_limit();
    return 0;
}
