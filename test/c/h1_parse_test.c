/* h1_parse_test.c -- request heads: tables of octets and verdicts. Every case runs on every scanner
 * of this machine, whole, cut in two at each place and octet by octet through `seen`, with octets
 * of a next request behind it, and (generated heads too) right in front of a page nobody may read.
 */
#define _DEFAULT_SOURCE
#include "base/text.c"
#include "proto/h1_parse.c"
#include "proto/h1_scan.c"
#include "proto/h1_scan_avx2.c"
#include "proto/h1_scan_neon.c"
#include "proto/h1_scan_scalar.c"
#include "proto/h1_scan_sse2.c"
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { FIELDS_MAX = 100, TEXT_MAX = 70000 };

static const mr_h1_limits usual = {16384, FIELDS_MAX, 8192};
static const char *const scan_names[] = {"scalar", "sse2", "avx2", "neon"};
static unsigned passed, failed;

static void check(bool is_good, const char *what, const char *scan, const char *detail) {
    if (is_good) {
        passed++;
        return;
    }
    failed++;
    if (failed <= 40)
        printf("not ok - %s [%s] %s\n", what, scan, detail);
}

/* ---- one parse, and all that came of it as text ---- */

typedef struct outcome {
    mr_rc rc;
    mr_h1_head head;
    mr_h1_field fields[FIELDS_MAX + 1];
} outcome;

static const mr_h1_field canary = {0xabcd, 0xabcd, 0xabcd, 0xabcd};

static void parse(outcome *out, const mr_h1_scan *scan, const mr_h1_limits *limits,
                  const uint8_t *bytes, size_t len, size_t seen) {
    out->fields[limits->header_count] = canary;
    out->rc = mr_h1_parse_head(scan, limits, bytes, len, seen, &out->head, out->fields);
    MR_ASSERT(memcmp(&out->fields[limits->header_count], &canary, sizeof canary) == 0);
}

static bool is_same(const outcome *a, const outcome *b) {
    if (a->rc != b->rc || a->head.status != b->head.status)
        return false;
    if (a->rc != MR_OK)
        return true;
    return memcmp(&a->head, &b->head, sizeof a->head) == 0 &&
           memcmp(a->fields, b->fields, a->head.field_count * sizeof a->fields[0]) == 0;
}

/* Feeds `step` octets at a time, the first time `first`, until there is a verdict. */
static void feed(outcome *out, const mr_h1_scan *scan, const mr_h1_limits *limits,
                 const uint8_t *bytes, size_t len, size_t first, size_t step) {
    size_t seen = 0, now = first < len ? first : len;
    for (;;) {
        parse(out, scan, limits, bytes, now, seen);
        if (out->rc != MR_AGAIN || now == len)
            return;
        seen = now;
        now = len - now > step ? now + step : len;
    }
}

static void check_all_ways(const char *what, const mr_h1_limits *limits, const uint8_t *bytes,
                           size_t len, const outcome *wanted) {
    static outcome got;
    char detail[80];
    for (size_t i = 0; i < sizeof scan_names / sizeof scan_names[0]; i++) {
        const mr_h1_scan *scan = mr_h1_scan_named(scan_names[i]);
        bool is_good = true;
        if (scan == NULL)
            continue;
        parse(&got, scan, limits, bytes, len, 0);
        check(is_same(&got, wanted), what, scan_names[i], "whole");
        feed(&got, scan, limits, bytes, len, 1, 1);
        check(is_same(&got, wanted), what, scan_names[i], "octet by octet");
        feed(&got, scan, limits, bytes, len, 7, 7);
        check(is_same(&got, wanted), what, scan_names[i], "seven at a time");
        size_t stride = len > 2000 ? 997 : 1; /* long ones: some places */
        for (size_t cut = 0; is_good && cut <= len; cut += stride) {
            feed(&got, scan, limits, bytes, len, cut, len);
            is_good = is_same(&got, wanted);
            snprintf(detail, sizeof detail, "cut at %zu: rc %d status %u", cut, got.rc,
                     got.head.status);
        }
        check(is_good, what, scan_names[i], detail);
    }
}

static const char *slice(const uint8_t *bytes, size_t off, size_t len) {
    static char texts[8][300];
    static unsigned turn;
    char *text = texts[turn++ % 8];
    snprintf(text, sizeof texts[0], "%.*s", (int)len, (const char *)bytes + off);
    return text;
}

static void describe(char *text, size_t room, const uint8_t *bytes, const outcome *out) {
    static const char letters[] = "LCKEUS"; /* mr_h1_head.flags, lowest first */
    static const char *const forms[] = {"origin", "absolute", "authority", "asterisk"};
    const mr_h1_head *h = &out->head;
    size_t at = (size_t)snprintf(text, room, "%u.%u %s %s t=%s p=%s", h->method, h->minor,
                                 forms[h->form], slice(bytes, h->method_off, h->method_len),
                                 slice(bytes, h->target_off, h->target_len),
                                 slice(bytes, h->path_off, h->path_len));
    if (h->query_off != 0)
        at += (size_t)snprintf(text + at, room - at, " q=%s",
                               slice(bytes, h->query_off, h->query_len));
    at += (size_t)snprintf(text + at, room - at, " h=%s ", slice(bytes, h->host_off, h->host_len));
    for (unsigned i = 0; letters[i] != '\0'; i++)
        if ((h->flags >> i & 1) != 0)
            text[at++] = letters[i];
    if ((h->flags & MR_H1_HAS_LENGTH) != 0)
        at +=
            (size_t)snprintf(text + at, room - at, "=%llu", (unsigned long long)h->content_length);
    for (unsigned i = 0; i < h->field_count; i++)
        at += (size_t)snprintf(text + at, room - at, "|%s:%s",
                               slice(bytes, out->fields[i].name_off, out->fields[i].name_len),
                               slice(bytes, out->fields[i].value_off, out->fields[i].value_len));
    text[at] = '\0';
}

/* ---- heads that pass ---- */

typedef struct good_case {
    const char *head;
    const char *wanted; /* see describe() */
} good_case;

static const good_case good_cases[] = {
    /* request line */
    {"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "1.1 origin GET t=/ p=/ h=a K|Host:a"},
    {"HEAD /x HTTP/1.1\r\nhost:a\r\n\r\n", "2.1 origin HEAD t=/x p=/x h=a K|host:a"},
    {"POST /p HTTP/1.1\r\nHOST: a\r\nContent-Length: 3\r\n\r\n",
     "3.1 origin POST t=/p p=/p h=a LK=3|HOST:a|Content-Length:3"},
    {"PUT / HTTP/1.0\r\n\r\n", "4.0 origin PUT t=/ p=/ h= "},
    {"DELETE / HTTP/1.0\r\n\r\n", "5.0 origin DELETE t=/ p=/ h= "},
    {"PATCH / HTTP/1.0\r\n\r\n", "6.0 origin PATCH t=/ p=/ h= "},
    {"OPTIONS / HTTP/1.0\r\n\r\n", "7.0 origin OPTIONS t=/ p=/ h= "},
    {"TRACE / HTTP/1.0\r\n\r\n", "9.0 origin TRACE t=/ p=/ h= "},
    {"QUERY / HTTP/1.0\r\n\r\n", "10.0 origin QUERY t=/ p=/ h= "},
    {"PROPFIND / HTTP/1.0\r\n\r\n", "11.0 origin PROPFIND t=/ p=/ h= "},
    {"PROPPATCH / HTTP/1.0\r\n\r\n", "12.0 origin PROPPATCH t=/ p=/ h= "},
    {"MKCOL / HTTP/1.0\r\n\r\n", "13.0 origin MKCOL t=/ p=/ h= "},
    {"COPY / HTTP/1.0\r\n\r\n", "14.0 origin COPY t=/ p=/ h= "},
    {"MOVE / HTTP/1.0\r\n\r\n", "15.0 origin MOVE t=/ p=/ h= "},
    {"LOCK / HTTP/1.0\r\n\r\n", "16.0 origin LOCK t=/ p=/ h= "},
    {"UNLOCK / HTTP/1.0\r\n\r\n", "17.0 origin UNLOCK t=/ p=/ h= "},
    {"REPORT / HTTP/1.0\r\n\r\n", "18.0 origin REPORT t=/ p=/ h= "},
    {"SEARCH / HTTP/1.0\r\n\r\n", "19.0 origin SEARCH t=/ p=/ h= "},
    {"PURGE / HTTP/1.0\r\n\r\n", "20.0 origin PURGE t=/ p=/ h= "},
    {"LINK / HTTP/1.0\r\n\r\n", "21.0 origin LINK t=/ p=/ h= "},
    {"UNLINK / HTTP/1.0\r\n\r\n", "22.0 origin UNLINK t=/ p=/ h= "},
    {"get / HTTP/1.0\r\n\r\n", "0.0 origin get t=/ p=/ h= "},
    {"GETS / HTTP/1.0\r\n\r\n", "0.0 origin GETS t=/ p=/ h= "},
    {"GE / HTTP/1.0\r\n\r\n", "0.0 origin GE t=/ p=/ h= "},
    {"PoST / HTTP/1.0\r\n\r\n", "0.0 origin PoST t=/ p=/ h= "},
    {"~z!#$%&'*+-.^_`|0 / HTTP/1.0\r\n\r\n", "0.0 origin ~z!#$%&'*+-.^_`|0 t=/ p=/ h= "},
    {"\r\nGET /e HTTP/1.1\r\nHost: a\r\n\r\n", "1.1 origin GET t=/e p=/e h=a K|Host:a"},
    {"GET / HTTP/1.9\r\nHost: a\r\n\r\n", "1.1 origin GET t=/ p=/ h=a K|Host:a"},
    {"GET / HTTP/1.2\r\nHost: a\r\n\r\n", "1.1 origin GET t=/ p=/ h=a K|Host:a"},
    {"GET /a/b;c=1/../%zz%00?x=/?y HTTP/1.0\r\n\r\n",
     "1.0 origin GET t=/a/b;c=1/../%zz%00?x=/?y p=/a/b;c=1/../%zz%00 q=x=/?y h= "},
    {"GET /? HTTP/1.0\r\n\r\n", "1.0 origin GET t=/? p=/ q= h= "},
    {"GET //x//?? HTTP/1.0\r\n\r\n", "1.0 origin GET t=//x//?? p=//x// q=? h= "},
    {"GET /\"<>\\^`{|}~!$&'()*+,;=:@[] HTTP/1.0\r\n\r\n",
     "1.0 origin GET t=/\"<>\\^`{|}~!$&'()*+,;=:@[] p=/\"<>\\^`{|}~!$&'()*+,;=:@[] h= "},
    /* a query that begins at each side of a 16 and a 32 octet step */
    {"GET /abcdefghijklm?q HTTP/1.0\r\n\r\n",
     "1.0 origin GET t=/abcdefghijklm?q p=/abcdefghijklm q=q h= "},
    {"GET /abcdefghijklmno?q HTTP/1.0\r\n\r\n",
     "1.0 origin GET t=/abcdefghijklmno?q p=/abcdefghijklmno q=q h= "},
    {"GET /abcdefghijklmnop?q HTTP/1.0\r\n\r\n",
     "1.0 origin GET t=/abcdefghijklmnop?q p=/abcdefghijklmnop q=q h= "},
    {"GET /abcdefghijklmnopqrstuvwxyzabcde?q=? HTTP/1.0\r\n\r\n",
     "1.0 origin GET t=/abcdefghijklmnopqrstuvwxyzabcde?q=? p=/abcdefghijklmnopqrstuvwxyzabcde "
     "q=q=? h= "},
    {"GET /abcdefghijklmnopqrstuvwxyzabcdef?q HTTP/1.0\r\nQ: ?\r\n\r\n",
     "1.0 origin GET t=/abcdefghijklmnopqrstuvwxyzabcdef?q p=/abcdefghijklmnopqrstuvwxyzabcdef q=q "
     "h= |Q:?"},
    /* forms */
    {"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", "7.1 asterisk OPTIONS t=* p= h=a K|Host:a"},
    {"CONNECT h.example:443 HTTP/1.1\r\nHost: h.example\r\n\r\n",
     "8.1 authority CONNECT t=h.example:443 p= h=h.example K|Host:h.example"},
    {"CONNECT [::1]:65535 HTTP/1.0\r\n\r\n", "8.0 authority CONNECT t=[::1]:65535 p= h= "},
    {"CONNECT 10.0.0.1:00080 HTTP/1.0\r\n\r\n", "8.0 authority CONNECT t=10.0.0.1:00080 p= h= "},
    {"GET http://b/c?d HTTP/1.1\r\nHost: a\r\n\r\n",
     "1.1 absolute GET t=http://b/c?d p=/c q=d h=b K|Host:a"},
    {"GET HttpS://B.example:8443/ HTTP/1.1\r\nHost: a\r\n\r\n",
     "1.1 absolute GET t=HttpS://B.example:8443/ p=/ h=B.example:8443 K|Host:a"},
    {"GET http://b HTTP/1.1\r\nHost: a\r\n\r\n", "1.1 absolute GET t=http://b p= h=b K|Host:a"},
    {"GET http://b:?q HTTP/1.1\r\nHost: a\r\n\r\n",
     "1.1 absolute GET t=http://b:?q p= q=q h=b: K|Host:a"},
    {"GET http://[2001:db8::2]:80?q=/x HTTP/1.1\r\nHost:\r\n\r\n",
     "1.1 absolute GET t=http://[2001:db8::2]:80?q=/x p= q=q=/x h=[2001:db8::2]:80 K|Host:"},
    {"GET http://b/@:? HTTP/1.0\r\n\r\n", "1.0 absolute GET t=http://b/@:? p=/@: q= h=b "},
    {"OPTIONS http://b HTTP/1.0\r\n\r\n", "7.0 absolute OPTIONS t=http://b p= h=b "},
    /* fields */
    {"GET / HTTP/1.0\r\nA: b\r\nA:\tc \t\r\n\r\n", "1.0 origin GET t=/ p=/ h= |A:b|A:c"},
    {"GET / HTTP/1.0\r\nA:\r\nB: \t \r\nC:d\r\n\r\n", "1.0 origin GET t=/ p=/ h= |A:|B:|C:d"},
    {"GET / HTTP/1.0\r\nA: b:c: d\r\n\r\n", "1.0 origin GET t=/ p=/ h= |A:b:c: d"},
    {"GET / HTTP/1.0\r\nA: b\tc  d\r\n\r\n", "1.0 origin GET t=/ p=/ h= |A:b\tc  d"},
    {"GET / HTTP/1.0\r\nA: \x80\xff\xc3\xa9\r\n\r\n",
     "1.0 origin GET t=/ p=/ h= |A:\x80\xff\xc3\xa9"},
    {"GET / HTTP/1.0\r\n!#$%&'*+-.^_`|~09azAZ: \"(),/:;<=>?@[\\]{}\r\n\r\n",
     "1.0 origin GET t=/ p=/ h= |!#$%&'*+-.^_`|~09azAZ:\"(),/:;<=>?@[\\]{}"},
    {"GET / HTTP/1.0\r\nContent_Length: 4\r\nHosts: x\r\nHos: y\r\nGost: z\r\n\r\n",
     "1.0 origin GET t=/ p=/ h= |Content_Length:4|Hosts:x|Hos:y|Gost:z"},
    {"GET / HTTP/1.0\r\nA-name-of-more-than-thirty-two-octets-in-all: v\r\n\r\n",
     "1.0 origin GET t=/ p=/ h= |A-name-of-more-than-thirty-two-octets-in-all:v"},
    {"GET / HTTP/1.0\r\nA-name-of-15-oc: v\r\nA-name-of-16-oct: "
     "v\r\nA-name-of-31-octets-in-all-xyz: "
     "v\r\n\r\n",
     "1.0 origin GET t=/ p=/ h= |A-name-of-15-oc:v|A-name-of-16-oct:v|"
     "A-name-of-31-octets-in-all-xyz:v"},
    /* Host */
    {"GET / HTTP/1.1\r\nHost:\r\n\r\n", "1.1 origin GET t=/ p=/ h= K|Host:"},
    {"GET / HTTP/1.1\r\nHost: \t www.a-b.example:8080 \r\n\r\n",
     "1.1 origin GET t=/ p=/ h=www.a-b.example:8080 K|Host:www.a-b.example:8080"},
    {"GET / HTTP/1.1\r\nHost: my_host~!$&'()*+;=%4a:\r\n\r\n",
     "1.1 origin GET t=/ p=/ h=my_host~!$&'()*+;=%4a: K|Host:my_host~!$&'()*+;=%4a:"},
    {"GET / HTTP/1.1\r\nHost: a:65535\r\n\r\n", "1.1 origin GET t=/ p=/ h=a:65535 K|Host:a:65535"},
    {"GET / HTTP/1.1\r\nHost: a:000080\r\n\r\n",
     "1.1 origin GET t=/ p=/ h=a:000080 K|Host:a:000080"},
    {"GET / HTTP/1.1\r\nHost: [::]:1\r\n\r\n", "1.1 origin GET t=/ p=/ h=[::]:1 K|Host:[::]:1"},
    {"GET / HTTP/1.0\r\nHost: z\r\n\r\n", "1.0 origin GET t=/ p=/ h=z |Host:z"},
    /* framing */
    {"P / HTTP/1.0\r\nContent-Length: 0\r\n\r\n", "0.0 origin P t=/ p=/ h= L=0|Content-Length:0"},
    {"P / HTTP/1.0\r\nCONTENT-length:\t007 \r\n\r\n",
     "0.0 origin P t=/ p=/ h= L=7|CONTENT-length:007"},
    {"P / HTTP/1.0\r\nContent-Length: 9223372036854775807\r\n\r\n",
     "0.0 origin P t=/ p=/ h= L=9223372036854775807|Content-Length:9223372036854775807"},
    {"P / HTTP/1.0\r\nContent-Length: 00000000000000000000000000012\r\n\r\n",
     "0.0 origin P t=/ p=/ h= L=12|Content-Length:00000000000000000000000000012"},
    {"P / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
     "0.1 origin P t=/ p=/ h=a CK|Host:a|Transfer-Encoding:chunked"},
    {"P / HTTP/1.1\r\nHost: a\r\ntransfer-ENCODING:\tChunKED \r\n\r\n",
     "0.1 origin P t=/ p=/ h=a CK|Host:a|transfer-ENCODING:ChunKED"},
    {"P / HTTP/1.1\r\nHost: a\r\nTransfer_Encoding: chunked\r\n\r\n",
     "0.1 origin P t=/ p=/ h=a K|Host:a|Transfer_Encoding:chunked"},
    /* persistence */
    {"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
     "1.1 origin GET t=/ p=/ h=a |Host:a|Connection:close"},
    {"GET / HTTP/1.1\r\nHost: a\r\nConnection: CLOSE\r\n\r\n",
     "1.1 origin GET t=/ p=/ h=a |Host:a|Connection:CLOSE"},
    {"GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, x , Close\r\n\r\n",
     "1.1 origin GET t=/ p=/ h=a |Host:a|Connection:keep-alive, x , Close"},
    {"GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\nconnection: close\r\n\r\n",
     "1.1 origin GET t=/ p=/ h=a |Host:a|Connection:keep-alive|connection:close"},
    {"GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\n\r\n",
     "1.1 origin GET t=/ p=/ h=a K|Host:a|Connection:keep-alive"},
    {"GET / HTTP/1.1\r\nHost: a\r\nConnection: closed, \"close\", close;x,,\r\n\r\n",
     "1.1 origin GET t=/ p=/ h=a K|Host:a|Connection:closed, \"close\", close;x,,"},
    {"GET / HTTP/1.1\r\nHost: a\r\nConnection:\r\n\r\n",
     "1.1 origin GET t=/ p=/ h=a K|Host:a|Connection:"},
    {"GET / HTTP/1.1\r\nHost: a\r\nConnection:,close\r\n\r\n",
     "1.1 origin GET t=/ p=/ h=a |Host:a|Connection:,close"},
    {"GET / HTTP/1.1\r\nHost: a\r\nConnectiox: close\r\n\r\n",
     "1.1 origin GET t=/ p=/ h=a K|Host:a|Connectiox:close"},
    {"GET / HTTP/1.1\r\nHost: a\r\nProxy-Connection: close\r\n\r\n",
     "1.1 origin GET t=/ p=/ h=a K|Host:a|Proxy-Connection:close"},
    {"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
     "1.0 origin GET t=/ p=/ h= KS|Connection:keep-alive"},
    {"GET / HTTP/1.0\r\nConnection: Keep-Alive,\tTE\r\n\r\n",
     "1.0 origin GET t=/ p=/ h= KS|Connection:Keep-Alive,\tTE"},
    {"GET / HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n",
     "1.0 origin GET t=/ p=/ h= |Connection:keep-alive, close"},
    {"GET / HTTP/1.0\r\nConnection: keep alive\r\n\r\n",
     "1.0 origin GET t=/ p=/ h= |Connection:keep alive"},
    /* upgrade and expectations */
    {"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
     "1.1 origin GET t=/ p=/ h=a KU|Host:a|Connection:Upgrade|Upgrade:websocket"},
    {"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: x, upgrade\r\n\r\n",
     "1.1 origin GET t=/ p=/ h=a KU|Host:a|Upgrade:websocket|Connection:x, upgrade"},
    {"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n\r\n",
     "1.1 origin GET t=/ p=/ h=a K|Host:a|Upgrade:websocket"},
    {"GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\n\r\n",
     "1.1 origin GET t=/ p=/ h=a K|Host:a|Connection:upgrade"},
    {"GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade, close\r\nUpgrade: x\r\n\r\n",
     "1.1 origin GET t=/ p=/ h=a U|Host:a|Connection:upgrade, close|Upgrade:x"},
    {"GET / HTTP/1.0\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
     "1.0 origin GET t=/ p=/ h= |Connection:upgrade|Upgrade:x"},
    {"P / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n",
     "0.1 origin P t=/ p=/ h=a LKE=1|Host:a|Expect:100-continue|Content-Length:1"},
    {"P / HTTP/1.1\r\nHost: a\r\nEXPECT:100-CONTINUE\r\n\r\n",
     "0.1 origin P t=/ p=/ h=a KE|Host:a|EXPECT:100-CONTINUE"},
    {"P / HTTP/1.1\r\nHost: a\r\nExpect:\r\n\r\n", "0.1 origin P t=/ p=/ h=a K|Host:a|Expect:"},
    {"P / HTTP/1.0\r\nExpect: 100-continue\r\n\r\n",
     "0.0 origin P t=/ p=/ h= |Expect:100-continue"},
    {"P / HTTP/1.0\r\nExpect: miracles\r\n\r\n", "0.0 origin P t=/ p=/ h= |Expect:miracles"},
};

/* ---- heads that do not ---- */

typedef struct bad_case {
    uint16_t status; /* 0: MR_AGAIN */
    uint16_t len;
    const char *head;
} bad_case;

#define BAD(status, text)                                                                          \
    { status, sizeof(text) - 1, text }
#define LINE(status, text) BAD(status, text "\r\nHost: a\r\n\r\n")
#define FIELD(status, text) BAD(status, "GET / HTTP/1.1\r\nHost: a\r\n" text "\r\n\r\n")
#define FIELD10(status, text) BAD(status, "GET / HTTP/1.0\r\n" text "\r\n\r\n")
#define HOST(text) BAD(400, "GET / HTTP/1.1\r\nHost:" text "\r\n\r\n")

static const bad_case bad_cases[] = {
    /* not all there */
    BAD(0, ""),
    BAD(0, "\r"),
    BAD(0, "\r\n"),
    BAD(0, "\r\n\r"),
    BAD(0, "G"),
    BAD(0, "GET / HTTP/1.1\r"),
    BAD(0, "GET / HTTP/1.1\r\n"),
    BAD(0, "GET / HTTP/1.1\r\nHost: a"),
    BAD(0, "GET / HTTP/1.1\r\nHost: a\r"),
    BAD(0, "GET / HTTP/1.1\r\nHost: a\r\n"),
    BAD(0, "GET / HTTP/1.1\r\nHost: a\r\n\r"),
    BAD(0, "GET / HTTP/1.1\r\nHost: a\r\nX"),
    /* wrong, but the line has not ended */
    BAD(0, "\0\0\0"),
    BAD(0, "GET  / HTT"),
    BAD(0, "GET / HTTP/3.0\r"),
    BAD(0, "GET / HTTP/1.1\r\n X"),
    BAD(0, "GET / HTTP/1.1\r\nA b\rc\0"),
    /* empty lines */
    BAD(400, "\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"),
    BAD(400, "\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"),
    BAD(400, "\r\rGET / HTTP/1.1\r\nHost: a\r\n\r\n"),
    BAD(400, "\r\n\n"),
    BAD(400, " \r\n"),
    BAD(400, " \r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"),
    /* method */
    LINE(400, "G(T / HTTP/1.1"),
    LINE(400, "G@T / HTTP/1.1"),
    LINE(400, "G:T / HTTP/1.1"),
    LINE(400, "G\"T / HTTP/1.1"),
    LINE(400, "G\xe9T / HTTP/1.1"),
    LINE(400, "G\0T / HTTP/1.1"),
    LINE(400, "\0GET / HTTP/1.1"),
    LINE(400, " GET / HTTP/1.1"),
    LINE(400, " / HTTP/1.1"),
    LINE(400, "GET\t/ HTTP/1.1"),
    LINE(400, "GET"),
    LINE(400, "GET "),
    LINE(400, "GET\r/ HTTP/1.1"),
    LINE(400, "\x16\x03\x01"),
    BAD(501,
        "ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFGHIJKLM / HTTP/1.0\r\n\r\n"),
    BAD(501, "ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFGHIJKLM / x\n"),
    BAD(400,
        "ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFGHIJKLM(/ HTTP/1.0\r\n\r\n"),
    /* spaces and line ends */
    LINE(400, "GET  / HTTP/1.1"),
    LINE(400, "GET /  HTTP/1.1"),
    LINE(400, "GET / HTTP/1.1 "),
    LINE(400, "GET / HTTP/1.1\t"),
    LINE(400, "GET / HTTP/1.1 x"),
    LINE(400, "GET /\tHTTP/1.1"),
    LINE(400, "GET /a b HTTP/1.1"),
    LINE(400, "GET /a\rb HTTP/1.1"),
    LINE(400, "GET /a\rHTTP/1.1"),
    LINE(400, "GET / HTTP/1.1\r"),
    LINE(400, "GET / \rHTTP/1.1"),
    LINE(400, "GET HTTP/1.1"),
    LINE(400, "GET  HTTP/1.1"),
    LINE(400, "GET /"),
    LINE(400, "GET / "),
    BAD(400, "GET / HTTP/1.1\nHost: a\r\n\r\n"),
    BAD(400, "GET / HTTP/1.1\n\n"),
    BAD(400, "GET / HTTP/1.0\n\n"),
    BAD(400, "GET /\n"),
    BAD(400, "GET / HTTP/1.1\r\r\nHost: a\r\n\r\n"),
    BAD(400, "GET / HTTP/1.1\rHost: a\r\n\r\n"),
    /* version */
    LINE(400, "GET / http/1.1"),
    LINE(400, "GET / Http/1.1"),
    LINE(400, "GET / HTTP/1.10"),
    LINE(400, "GET / HTTP/1."),
    LINE(400, "GET / HTTP/1"),
    LINE(400, "GET / HTTP/"),
    LINE(400, "GET / HTTP"),
    LINE(400, "GET / HTTP/01.1"),
    LINE(400, "GET / HTTP/1,1"),
    LINE(400, "GET / HTTP/1.x"),
    LINE(400, "GET / HTTP/1:1"),
    LINE(400, "GET / HTTP/1.1.1"),
    LINE(400, "GET / HTTP/11.1"),
    LINE(400, "GET / HTTP/-1.1"),
    LINE(400, "GET / HTTPS/1.1"),
    LINE(400, "GET / FTTP/1.1"),
    LINE(400, "GET / HTTP/x.1"),
    LINE(400, "HTTP/1.1 200 OK"),
    LINE(505, "GET / HTTP/2.0"),
    LINE(505, "GET / HTTP/0.9"),
    LINE(505, "GET / HTTP/3.0"),
    LINE(505, "GET / HTTP/9.9"),
    LINE(505, "GET nonsense HTTP/2.0"),
    BAD(505, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    BAD(400, "GET / HTTP/2.0\n"),
    /* target */
    LINE(400, "GET /\x01 HTTP/1.1"),
    LINE(400, "GET /a\0b HTTP/1.1"),
    LINE(400, "GET /\x1f HTTP/1.1"),
    LINE(400, "GET /\x7f HTTP/1.1"),
    LINE(400, "GET /\x80 HTTP/1.1"),
    LINE(400, "GET /\xc3\xa9 HTTP/1.1"),
    LINE(400, "GET /a?\xff HTTP/1.1"),
    LINE(400, "GET /a#b HTTP/1.1"),
    LINE(400, "GET # HTTP/1.1"),
    LINE(400, "GET /# HTTP/1.1"),
    LINE(400, "GET http://a/#b HTTP/1.1"),
    LINE(400, "GET * HTTP/1.1"),
    LINE(400, "options * HTTP/1.1"),
    LINE(400, "OPTIONS ** HTTP/1.1"),
    LINE(400, "OPTIONS */ HTTP/1.1"),
    LINE(400, "OPTIONS *?a HTTP/1.1"),
    LINE(400, "CONNECT * HTTP/1.1"),
    LINE(400, "CONNECT / HTTP/1.1"),
    LINE(400, "CONNECT a HTTP/1.1"),
    LINE(400, "CONNECT a: HTTP/1.1"),
    LINE(400, "CONNECT :80 HTTP/1.1"),
    LINE(400, "CONNECT a:80/ HTTP/1.1"),
    LINE(400, "CONNECT a:65536 HTTP/1.1"),
    LINE(400, "CONNECT a:000080 HTTP/1.1"),
    LINE(400, "CONNECT a:8x HTTP/1.1"),
    LINE(400, "CONNECT u@a:80 HTTP/1.1"),
    LINE(400, "CONNECT a:80:80 HTTP/1.1"),
    LINE(400, "CONNECT http://a:80/ HTTP/1.1"),
    LINE(400, "CONNECT a,b:80 HTTP/1.1"),
    LINE(400, "GET a:80 HTTP/1.1"),
    LINE(400, "GET a HTTP/1.1"),
    LINE(400, "GET ?a HTTP/1.1"),
    LINE(400, "GET \\a HTTP/1.1"),
    LINE(400, "GET ftp://a/ HTTP/1.1"),
    LINE(400, "GET http:/a HTTP/1.1"),
    LINE(400, "GET http:a HTTP/1.1"),
    LINE(400, "GET http:// HTTP/1.1"),
    LINE(400, "GET https:// HTTP/1.1"),
    LINE(400, "GET http:/// HTTP/1.1"),
    LINE(400, "GET http://?a HTTP/1.1"),
    LINE(400, "GET http://:80/ HTTP/1.1"),
    LINE(400, "GET http://u@a/ HTTP/1.1"),
    LINE(400, "GET http://u:p@a/ HTTP/1.1"),
    LINE(400, "GET http://a:x/ HTTP/1.1"),
    LINE(400, "GET http://a:99999/ HTTP/1.1"),
    LINE(400, "GET http://[::1/ HTTP/1.1"),
    LINE(400, "GET http://a\\b/ HTTP/1.1"),
    LINE(400, "GET http://a,b/ HTTP/1.1"),
    LINE(400, "GET httpx://a/ HTTP/1.1"),
    LINE(400, "GET httpss://a/ HTTP/1.1"),
    /* field names */
    FIELD(400, ": v"),
    FIELD(400, ":"),
    FIELD(400, "X"),
    FIELD(400, "X v"),
    FIELD(400, "X : v"),
    FIELD(400, "X\t: v"),
    FIELD(400, "X Y: v"),
    FIELD(400, "X(: v"),
    FIELD(400, "X): v"),
    FIELD(400, "X,: v"),
    FIELD(400, "X/: v"),
    FIELD(400, "X;: v"),
    FIELD(400, "X<: v"),
    FIELD(400, "X=: v"),
    FIELD(400, "X>: v"),
    FIELD(400, "X?: v"),
    FIELD(400, "X@: v"),
    FIELD(400, "X[: v"),
    FIELD(400, "X\\: v"),
    FIELD(400, "X]: v"),
    FIELD(400, "X{: v"),
    FIELD(400, "X}: v"),
    FIELD(400, "X\": v"),
    FIELD(400, "X\x7f: v"),
    FIELD(400, "X\x80: v"),
    FIELD(400, "X\xa0: v"),
    FIELD(400, "X\0: v"),
    FIELD(400, "X\x01: v"),
    FIELD(400, "X\rY: v"),
    FIELD(400, "X\nY: v"),
    FIELD(400, "A-long-name-with-its-space-behind-32 : v"),
    FIELD(400, "Transfer-\r\nEncoding: chunked"),
    /* folds */
    FIELD(400, "X: v\r\n w"),
    FIELD(400, "X: v\r\n\tw"),
    FIELD(400, "X: v\r\n w: x\r\nY: z"),
    FIELD(400, "X:\r\n v"),
    FIELD(400, "X: v\r\n "),
    BAD(400, "GET / HTTP/1.1\r\n Host: a\r\n\r\n"),
    BAD(400, "GET / HTTP/1.1\r\n\tX: v\r\nHost: a\r\n\r\n"),
    BAD(400, "GET / HTTP/1.0\r\n \r\n"),
    BAD(400, "GET / HTTP/1.1\r\nHost: a\r\n b\r\n\r\n"),
    /* field values and line ends */
    FIELD(400, "X: a\0b"),
    FIELD(400, "X: a\0"),
    FIELD(400, "X:\0"),
    FIELD(400, "X: \x01"),
    FIELD(400, "X: \x08"),
    FIELD(400, "X: a\x0b"),
    FIELD(400, "X: \x0c"),
    FIELD(400, "X: a\x0e z"),
    FIELD(400, "X: a\x1f z"),
    FIELD(400, "X: a\x7f z"),
    FIELD(400, "X: \x1b[0m"),
    FIELD(400, "X: a\rb"),
    FIELD(400, "X: a\r"),
    FIELD(400, "X: a\r\rY: b"),
    FIELD(400, "X: a\nY: b"),
    FIELD(400, "X: a\n"),
    FIELD(400, "X: a\n\nY: b"),
    FIELD(400, "X: a\0\nY: b"),
    FIELD(400, "X: a\x7f\nY: b"),
    FIELD(400, "X: a\rY: b"),
    BAD(400, "GET / HTTP/1.1\r\nHost: a\n\r\n"),
    BAD(400, "GET / HTTP/1.1\r\nHost: a\r\n\n"),
    BAD(400, "GET / HTTP/1.1\r\nHost: a\r\n\rX\r\n\r\n"),
    BAD(400, "GET / HTTP/1.1\r\nHost: a\r\n\r\r\n"),
    /* the first wrong line decides */
    FIELD(400, "X Y: v\r\nExpect: x"),
    BAD(505, "GET / HTTP/2.0\r\nX Y: z\r\n\r\n"),
    /* Host */
    BAD(400, "GET / HTTP/1.1\r\n\r\n"),
    BAD(400, "GET / HTTP/1.1\r\nAccept: x\r\nX-Host: a\r\n\r\n"),
    BAD(400, "GET http://a/ HTTP/1.1\r\n\r\n"),
    BAD(400, "CONNECT a:1 HTTP/1.1\r\n\r\n"),
    BAD(400, "OPTIONS * HTTP/1.1\r\n\r\n"),
    FIELD(400, "Host: a"),
    FIELD(400, "hOST: b"),
    FIELD(400, "X: y\r\nHost:"),
    FIELD10(400, "Host: a\r\nHost: a"),
    FIELD10(400, "Host:\r\nHost:"),
    FIELD10(400, "Host: a b"),
    HOST(" a b"),
    HOST(" a,b"),
    HOST(" a, b"),
    HOST(" a/b"),
    HOST(" http://a"),
    HOST(" u@a"),
    HOST(" a?b"),
    HOST(" a#b"),
    HOST(" a\\b"),
    HOST(" a\"b"),
    HOST(" a<b"),
    HOST(" a|b"),
    HOST(" a^b"),
    HOST(" a`b"),
    HOST(" {a}"),
    HOST(" \xe4"),
    HOST(" a\tb"),
    HOST(" a%"),
    HOST(" a%4"),
    HOST(" a%4g"),
    HOST(" a%g4"),
    HOST(" :80"),
    HOST(" :"),
    HOST(" a:x"),
    HOST(" a:8x"),
    HOST(" a:-1"),
    HOST(" a:+1"),
    HOST(" a: 1"),
    HOST(" a:65536"),
    HOST(" a:99999999999999999999"),
    HOST(" a:1:2"),
    HOST(" ::1"),
    HOST(" a]"),
    HOST(" a[::1]"),
    HOST(" ["),
    HOST(" []"),
    HOST(" [::1"),
    HOST(" [::1]x"),
    HOST(" [::1]x:1"),
    HOST(" [::1]:x"),
    HOST(" [::1%25eth0]"),
    /* Content-Length */
    FIELD(400, "Content-Length:"),
    FIELD(400, "Content-Length: "),
    FIELD(400, "Content-Length: x"),
    FIELD(400, "Content-Length: +1"),
    FIELD(400, "Content-Length: -1"),
    FIELD(400, "Content-Length: -0"),
    FIELD(400, "Content-Length: 1x"),
    FIELD(400, "Content-Length: 0x1"),
    FIELD(400, "Content-Length: 1.0"),
    FIELD(400, "Content-Length: 1e0"),
    FIELD(400, "Content-Length: 1 1"),
    FIELD(400, "Content-Length: 1\t1"),
    FIELD(400, "Content-Length: 1,1"),
    FIELD(400, "Content-Length: 1, 2"),
    FIELD(400, "Content-Length: 1,"),
    FIELD(400, "Content-Length: \"1\""),
    FIELD(400, "Content-Length: 9223372036854775808"),
    FIELD(400, "Content-Length: 18446744073709551616"),
    FIELD(400, "Content-Length: 18446744073709551621"),
    FIELD(400, "Content-Length: 99999999999999999999999999"),
    FIELD(400, "Content-Length: 1\r\nContent-Length: 1"),
    FIELD(400, "Content-Length: 1\r\nContent-Length: 2"),
    FIELD(400, "Content-Length: 0\r\ncontent-length:"),
    FIELD(400, "Content-Length : 1"),
    FIELD10(400, "Content-Length: 1\r\nContent-Length: 1"),
    /* Transfer-Encoding */
    FIELD(400, "Transfer-Encoding:"),
    FIELD(400, "Transfer-Encoding: identity"),
    FIELD(400, "Transfer-Encoding: gzip"),
    FIELD(400, "Transfer-Encoding: chunked, gzip"),
    FIELD(400, "Transfer-Encoding: chunked, chunked"),
    FIELD(400, "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked"),
    FIELD(400, "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity"),
    FIELD(400, "Transfer-Encoding: chunked\r\nTransfer-Encoding:"),
    FIELD(400, "Transfer-Encoding:\r\nTransfer-Encoding: chunked"),
    FIELD(400, "Transfer-Encoding: ,chunked"),
    FIELD(400, "Transfer-Encoding: chunked,"),
    FIELD(400, "Transfer-Encoding: ,"),
    FIELD(400, "Transfer-Encoding: gzip,,chunked"),
    FIELD(400, "Transfer-Encoding: chunked;q=1"),
    FIELD(400, "Transfer-Encoding: chunked ;"),
    FIELD(400, "Transfer-Encoding: chunked;q=1, chunked"),
    FIELD(400, "Transfer-Encoding: xchunked"),
    FIELD(400, "Transfer-Encoding: chunkedx"),
    FIELD(400, "Transfer-Encoding: chunke"),
    FIELD(400, "Transfer-Encoding: chunked x"),
    FIELD(400, "Transfer-Encoding: \"chunked\""),
    FIELD(400, "Transfer-Encoding: \"chunked\", chunked"),
    FIELD(400, "Transfer-Encoding: \xa0"
               "chunked"),
    FIELD(400, "Transfer-Encoding: \x0b"
               "chunked"),
    FIELD(400, "Transfer-Encoding: chunked\0"),
    FIELD(400, "Transfer-Encoding: chunked\rX: y"),
    FIELD(400, "Transfer-Encoding : chunked"),
    FIELD(400, "Transfer-Encoding:\r\n chunked"),
    FIELD(400, "Transfer-Encoding: chunked\r\nContent-Length: 1"),
    FIELD(400, "Content-Length: 1\r\nTransfer-Encoding: chunked"),
    FIELD(400, "Content-Length: 1\r\nTransfer-Encoding: gzip, chunked"),
    FIELD10(400, "Transfer-Encoding: chunked"),
    FIELD10(400, "Connection: keep-alive\r\nTransfer-Encoding: chunked"),
    FIELD(501, "Transfer-Encoding: gzip, chunked"),
    FIELD(501, "Transfer-Encoding: gzip;level=1 , chunked"),
    FIELD(501, "Transfer-Encoding: x-unheard-of,chunked"),
    FIELD(501, "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked"),
    FIELD(501, "Expect: x\r\nTransfer-Encoding: gzip, chunked"),
    /* Expect */
    FIELD(417, "Expect: miracles"),
    FIELD(417, "Expect: 100-continue, miracles"),
    FIELD(417, "Expect: 100-continued"),
    FIELD(417, "Expect: 100-continue;x"),
    FIELD(417, "Expect: 200-ok\r\nExpect: 100-continue"),
    FIELD(417, "Expect: 100-continue\r\nExpect: x"),
};

static const char *const good_literals[] = {"::",
                                            "::1",
                                            "1::",
                                            "1:2:3:4:5:6:7:8",
                                            "1:2:3:4:5:6:7::",
                                            "::2:3:4:5:6:7:8",
                                            "1::8",
                                            "fe80::aB:Cd",
                                            "1:2:3:4:5:6:1.2.3.4",
                                            "::1.2.3.4",
                                            "::255.255.255.255",
                                            "1:2::3:4:5.6.7.8",
                                            "::2:3:4:5:6:1.2.3.4",
                                            "0:0:0:0:0:0:0:0",
                                            "ffff::0000",
                                            "v1.a",
                                            "vF0.a:b~!$&'()*+;=",
                                            "V9.x"};

static const char *const bad_literals[] = {"",
                                           ":",
                                           ":::",
                                           "1",
                                           "1:2",
                                           "1:2:3:4:5:6:7",
                                           "1:2:3:4:5:6:7:8:9",
                                           "1:",
                                           ":1",
                                           "1::2::3",
                                           "12345::",
                                           "g::",
                                           "1:2:3:4:5:6:7:8::",
                                           "::1:2:3:4:5:6:7:8",
                                           "::1:",
                                           "1.2.3.4",
                                           "::1.2.3",
                                           "::1.2.3.256",
                                           "::01.2.3.4",
                                           "::1.2.3.4.5",
                                           "::1.2.3.4:5",
                                           "::1.2.3.",
                                           "::1..2.3",
                                           "1:2:3:4:5:6:7:1.2.3.4",
                                           "::a.1.1.1",
                                           "::1.2.3.1000",
                                           ":1:2:3:4:5:6:7:8",
                                           "v.a",
                                           "v1.",
                                           "v1",
                                           "vg.a",
                                           "v1.a/b",
                                           "v1.a,b",
                                           "x1.a",
                                           "::1 "};

static void run_good_cases(void) {
    static const char next[] = "GET /next HTTP/1.1\r\nHost: n\r\n\r\n";
    static outcome out;
    static uint8_t bytes[2048];
    char text[2048];
    for (size_t i = 0; i < sizeof good_cases / sizeof good_cases[0]; i++) {
        const good_case *c = &good_cases[i];
        size_t len = strlen(c->head);
        memcpy(bytes, c->head, len);
        memcpy(bytes + len, next, sizeof next - 1);
        parse(&out, mr_h1_scan_named("scalar"), &usual, bytes, len, 0);
        check(out.rc == MR_OK && out.head.head_len == len, c->head, "scalar", "is not taken");
        if (out.rc != MR_OK)
            continue;
        describe(text, sizeof text, bytes, &out);
        check(strcmp(text, c->wanted) == 0, c->head, "scalar", text);
        check_all_ways(c->head, &usual, bytes, len, &out);
        check_all_ways(c->head, &usual, bytes, len + sizeof next - 1, &out);
    }
}

static void run_bad_cases(void) {
    static outcome wanted;
    for (size_t i = 0; i < sizeof bad_cases / sizeof bad_cases[0]; i++) {
        const bad_case *c = &bad_cases[i];
        wanted.head.status = c->status;
        wanted.rc = c->status == 0 ? MR_AGAIN : MR_BADPEER;
        check_all_ways(c->head, &usual, (const uint8_t *)c->head, c->len, &wanted);
    }
}

static void check_literal(const char *literal, bool is_good) {
    char head[200];
    outcome out;
    int len = snprintf(head, sizeof head, "GET / HTTP/1.1\r\nHost: [%s]:8\r\n\r\n", literal);
    parse(&out, mr_h1_scan_best(), &usual, (const uint8_t *)head, (size_t)len, 0);
    check((out.rc == MR_OK) == is_good, head, "best", is_good ? "refused" : "taken");
}

/* ---- limits, both sides of each ---- */

static uint8_t text[TEXT_MAX];

static size_t put(size_t at, const char *string) {
    memcpy(text + at, string, strlen(string));
    return at + strlen(string);
}

static size_t fill(size_t at, char c, size_t count) {
    memset(text + at, c, count);
    return at + count;
}

static void expect(const char *what, const mr_h1_limits *limits, size_t len, mr_rc rc,
                   uint16_t status) {
    static outcome out;
    parse(&out, mr_h1_scan_named("scalar"), limits, text, len, 0);
    check(out.rc == rc && out.head.status == status, what, "scalar", "other verdict");
    check_all_ways(what, limits, text, len, &out);
}

static void run_target_limits(void) {
    static const size_t limits_tried[] = {1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100};
    for (size_t i = 0; i < sizeof limits_tried / sizeof limits_tried[0]; i++) {
        mr_h1_limits limits = {4096, 10, (uint32_t)limits_tried[i]};
        for (size_t over = 0; over < 2; over++) {
            mr_rc rc = over ? MR_LIMIT : MR_OK;
            uint16_t status = over ? 414 : 0;
            size_t start = put(put(0, over ? "\r\n" : ""), "PURGE ");
            size_t at = fill(put(start, "/"), 'a', limits_tried[i] - 1 + over);
            expect("target in an unfinished line", &limits, at, over ? rc : MR_AGAIN, status);
            expect("target", &limits, put(at, " HTTP/1.0\r\n\r\n"), rc, status);
            expect("target with bare LF", &limits, put(at, "\n"), over ? rc : MR_BADPEER,
                   over ? 414 : 400);
            expect("target with CRLF", &limits, put(at, "\r\n"), over ? rc : MR_BADPEER,
                   over ? 414 : 400);
            expect("target of another version", &limits, put(at, " HTTP/2.0\r\n"),
                   over ? rc : MR_BADPEER, over ? 414 : 505);
            text[at - 1] = '#';
            expect("target with a bad octet", &limits, put(at, " HTTP/1.0\r\n"),
                   over ? rc : MR_BADPEER, over ? 414 : 400);
            text[0] = '(';
            expect("target behind a bad method", &limits, put(at, " HTTP/1.0\r\n"), MR_BADPEER,
                   400);
        }
    }
}

static void run_method_limits(void) {
    const mr_h1_limits small_target = {4096, 10, 40};
    size_t at = put(fill(0, 'M', 64), " /");
    expect("method of 64", &usual, put(at, " HTTP/1.0\r\n\r\n"), MR_OK, 0);
    expect("target behind a method of 64", &small_target, fill(at, 'a', 40), MR_LIMIT, 414);
    at = put(fill(0, 'M', 65), " /");
    expect("method of 65", &usual, put(at, " HTTP/1.0\r\n\r\n"), MR_BADPEER, 501);
    expect("method of 65, no line end", &usual, at, MR_AGAIN, 0);
    at = fill(at, 'a', 40);
    expect("target behind a method of 65", &small_target, at, MR_AGAIN, 0);
    expect("target behind a method of 65", &small_target, put(at, "\r\n"), MR_BADPEER, 501);
}

static void run_head_limits(void) {
    static const uint32_t sizes[] = {64, 100, 127, 128, 129, 1000, 65535};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        mr_h1_limits limits = {sizes[i], 10, 70000};
        for (size_t over = 0; over < 2; over++) {
            mr_rc rc = over ? MR_LIMIT : MR_OK;
            uint16_t status = over ? 431 : 0;
            size_t at = put(0, "GET / HTTP/1.0\r\nX: ");
            at = fill(at, 'v', sizes[i] - at - 4 + over);
            expect("head with a long value", &limits, put(at, "\r\n\r\n"), rc, status);
            expect("head without its end", &limits, at, MR_AGAIN, 0);
            at = put(0, "GET / HTTP/1.0\r\n");
            at = fill(at, 'n', sizes[i] - at - 5 + over);
            expect("head with a long name", &limits, put(at, ":\r\n\r\n"), rc, status);
            at = fill(put(0, "GET /"), 'u', sizes[i] - 18 + over);
            expect("head with a long target", &limits, put(at, " HTTP/1.0\r\n\r\n"), rc, status);
        }
        size_t at = fill(put(0, "GET / HTTP/1.0\r\nX: "), 'v', sizes[i] + 100);
        expect("a line without an end", &limits, at, MR_LIMIT, 431);
        expect("a method without an end", &limits, fill(0, 'M', sizes[i] + 100), MR_LIMIT, 431);
        expect("nothing but NUL", &limits, fill(0, '\0', sizes[i] + 100), MR_LIMIT, 431);
        limits.target_bytes = 30;
        expect("a target without an end", &limits, fill(put(0, "GET /"), 'u', sizes[i] + 100),
               MR_LIMIT, 414);
        at = put(fill(put(0, "GET / HTTP/1.0\r\nX Y: "), 'v', sizes[i] + 100), "\r\n\r\n");
        expect("a wrong line too long", &limits, at, MR_LIMIT, 431);
    }
}

static void run_count_limits(void) {
    for (uint32_t count = 0; count <= FIELDS_MAX; count += count < 4 ? 1 : 32) {
        mr_h1_limits limits = {16384, count, 100};
        size_t at = put(0, "GET / HTTP/1.0\r\n");
        for (uint32_t i = 0; i < count; i++)
            at = put(at, "a:b\r\n");
        expect("fields up to the limit", &limits, put(at, "\r\n"), MR_OK, 0);
        expect("one more, unfinished", &limits, put(at, "a:b"), MR_AGAIN, 0);
        expect("one more", &limits, put(at, "a:\r\n"), MR_LIMIT, 431);
        expect("one more, wrong", &limits, put(at, "a\r\n"), MR_LIMIT, 431);
        expect("a bare LF behind the last", &limits, put(at, "\nx\r\n"), MR_LIMIT, 431);
        expect("a fold behind the last", &limits, put(at, " a\r\n"), MR_LIMIT, 431);
    }
}

/* ---- every octet in every place ---- */

static bool is_target_octet(unsigned c) { return c > 0x20 && c < 0x7f && c != '#'; }

static bool is_value_octet(unsigned c) { return (c >= 0x20 && c != 0x7f) || c == '\t'; }

static void check_octet(size_t at, unsigned c, size_t len, bool is_good, const char *what) {
    outcome out;
    uint8_t old = text[at];
    text[at] = (uint8_t)c;
    for (size_t i = 0; i < sizeof scan_names / sizeof scan_names[0]; i++) {
        const mr_h1_scan *scan = mr_h1_scan_named(scan_names[i]);
        char detail[40];
        if (scan == NULL)
            continue;
        parse(&out, scan, &usual, text, len, 0);
        snprintf(detail, sizeof detail, "octet %02x at %zu", c, at);
        check((out.rc == MR_OK) == is_good, what, scan_names[i], detail);
    }
    text[at] = old;
}

/* `behind` moves the place of the octet within the steps at the end of the input. */
static void run_octet(unsigned c, size_t lead, const char *behind) {
    size_t at = fill(put(0, "P /"), 'p', lead);
    size_t len = put(put(put(at, "pp HTTP/1.0\r\n"), behind), "\r\n");
    check_octet(at, c, len, is_target_octet(c), "target");
    at = fill(put(0, "P / HTTP/1.0\r\nN"), 'n', lead);
    len = put(put(put(at, "nn: v\r\n"), behind), "\r\n");
    check_octet(at, c, len, c == ':' || mr_is_tchar((uint8_t)c), "name");
    at = fill(put(0, "P / HTTP/1.0\r\nN: v"), 'v', lead * 2);
    len = put(put(put(at, "vv\r\nM: w\r\n"), behind), "\r\n");
    check_octet(at, c, len, is_value_octet(c), "value");
}

static void run_octets(void) {
    static const char line[] = "Z: a line that fills a step of thirty-two octets and more\r\n";
    for (unsigned c = 0; c < 256; c++) {
        for (size_t lead = 0; lead < 40; lead++) {
            run_octet(c, lead, "");
            run_octet(c, lead, line);
        }
        size_t at = put(0, "P");
        size_t len = put(at, "P / HTTP/1.0\r\n\r\n");
        check_octet(at, c, len, mr_is_tchar((uint8_t)c), "method");
        at = put(0, "P / HTTP/1.1\r\nHost: hh");
        len = put(at, "h1\r\n\r\n");
        bool is_host = c < 0x80 && c != 0 && strchr("-._~!$&'()*+;=", (int)c) != NULL;
        is_host = is_host || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z');
        is_host = is_host || (c >= 'a' && c <= 'z') || c == ':'; /* then "1" is a port */
        check_octet(at, c, len, is_host, "host");
    }
}

/* ---- generated heads: all scanners against the scalar one ---- */

static uint32_t random_state = 2463534242u;

static uint32_t random_below(uint32_t bound) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 17;
    random_state ^= random_state << 5;
    return random_state % bound;
}

static const char *const pieces[] = {
    "GET ",
    "POST ",
    "OPTIONS ",
    "CONNECT ",
    "/",
    "/path?query",
    "*",
    "a:1",
    "http://h",
    " HTTP/1.1\r\n",
    " HTTP/1.1\r\n",
    " HTTP/1.0\r\n",
    " HTTP/2.0\r\n",
    "Host: h\r\n",
    "Host: h\r\n",
    "\r\n",
    "\r\n",
    "\r",
    "\n",
    " ",
    "\t",
    ":",
    ",",
    "X: y\r\n",
    "Content-Length: 5\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Transfer-Encoding: ",
    "chunked",
    "Connection: close\r\n",
    "Connection: keep-alive\r\n",
    "Expect: 100-continue\r\n",
    "?",
    "#",
    "A-quite-long-field-name-that-spans-blocks: and a value that is longer than one block is\r\n"};

/* Mostly a right head, then some octets of it changed; or pieces in any order. */
static size_t generate(uint8_t *out) {
    size_t at = 0;
    uint32_t lines = random_below(12);
    if (random_below(4) != 0) {
        at += (size_t)sprintf(
            (char *)out, "GET /%.*s HTTP/1.1\r\nHost: example\r\n", (int)random_below(70),
            "abcdefghijklmnopqrstuvwxyz?abcdefghijklmnopqrstuvwxyz?0123456789abcdefghi");
        for (uint32_t i = 0; i < lines; i++) {
            for (uint32_t n = 1 + random_below(40); n > 0; n--)
                out[at++] = (uint8_t)('a' + random_below(26));
            out[at++] = ':';
            for (uint32_t n = random_below(90); n > 0; n--)
                out[at++] = (uint8_t)(random_below(8) == 0 ? ' ' : 0x21 + random_below(94));
            memcpy(out + at, "\r\n", 2);
            at += 2;
        }
        memcpy(out + at, "\r\n", 2);
        at += 2;
    } else {
        for (uint32_t i = 0; i < 4 + lines * 2; i++) {
            const char *piece = pieces[random_below(sizeof pieces / sizeof pieces[0])];
            memcpy(out + at, piece, strlen(piece));
            at += strlen(piece);
        }
    }
    for (uint32_t n = random_below(3) == 0 ? 1 + random_below(3) : 0; n > 0; n--)
        out[random_below((uint32_t)at)] =
            (uint8_t)(random_below(2) ? (int)random_below(256) : "\r\n :\t\0"[random_below(6)]);
    return at;
}

/* The head ends where readable memory ends, so its start takes every alignment as well. */
static void run_generated(uint8_t *page_end) {
    static uint8_t head[4096];
    static outcome wanted, got;
    const mr_h1_scan *scalar = mr_h1_scan_named("scalar");
    unsigned verdicts[3] = {0, 0, 0};
    for (unsigned round = 0; round < 6000; round++) {
        size_t whole = generate(head);
        size_t len = random_below(3) != 0 ? whole : random_below((uint32_t)whole + 1);
        uint8_t *bytes = page_end - len;
        memcpy(bytes, head, len);
        mr_h1_limits limits = {random_below(6) ? 16384 : 40 + random_below(400),
                               random_below(6) ? 100 : random_below(9),
                               random_below(6) ? 8192 : random_below(60)};
        parse(&wanted, scalar, &limits, bytes, len, 0);
        verdicts[wanted.rc == MR_OK ? 0 : wanted.rc == MR_AGAIN ? 1 : 2]++;
        size_t cut = random_below((uint32_t)len + 1), step = 1 + random_below(50);
        for (size_t i = 0; i < sizeof scan_names / sizeof scan_names[0]; i++) {
            const mr_h1_scan *scan = mr_h1_scan_named(scan_names[i]);
            if (scan == NULL)
                continue;
            parse(&got, scan, &limits, bytes, len, 0);
            check(is_same(&got, &wanted), "generated head", scan_names[i], "whole");
            feed(&got, scan, &limits, bytes, len, cut, step);
            check(is_same(&got, &wanted), "generated head", scan_names[i], "in pieces");
        }
    }
    check(verdicts[0] > 500 && verdicts[1] > 500 && verdicts[2] > 500, "generated heads", "all",
          "one verdict hardly ever came");
}

static uint8_t *map_guarded_page(void) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint8_t *area =
        mmap(NULL, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MR_ASSERT(area != MAP_FAILED && mprotect(area + 2 * page, page, PROT_NONE) == 0);
    return area + 2 * page;
}

/* A head cut off at each length in front of the forbidden page. */
static void run_page_boundary(uint8_t *page_end) {
    outcome out;
    for (size_t i = 0; i < sizeof scan_names / sizeof scan_names[0]; i++) {
        const mr_h1_scan *scan = mr_h1_scan_named(scan_names[i]);
        for (size_t c = 0; scan != NULL && c < sizeof good_cases / sizeof good_cases[0]; c++) {
            size_t whole = strlen(good_cases[c].head);
            for (size_t len = 0; len <= whole; len++) {
                memcpy(page_end - len, good_cases[c].head, len);
                parse(&out, scan, &usual, page_end - len, len, 0);
                check(out.rc == (len == whole ? MR_OK : MR_AGAIN), good_cases[c].head,
                      scan_names[i], "at the end of a page");
            }
        }
    }
}

/* ---- the rest of the interface ---- */

static void run_lookups(void) {
    static const char head[] =
        "GET / HTTP/1.1\r\nHost: a\r\nX-One: 1\r\nx-ONE: 2\r\nX-On: 3\r\n\r\n";
    const uint8_t *bytes = (const uint8_t *)head;
    outcome out;
    parse(&out, mr_h1_scan_best(), &usual, bytes, sizeof head - 1, 0);
    check(out.rc == MR_OK && out.head.field_count == 4, "find_field", "best", "head");
    const struct {
        const char *name;
        uint16_t from, wanted;
    } cases[] = {{"host", 0, 0}, {"x-one", 0, 1}, {"x-one", 2, 2}, {"x-one", 3, 4},
                 {"x-on", 0, 3}, {"x", 0, 4},     {"host", 1, 4},  {"host", 9, 4}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        check(mr_h1_find_field(bytes, &out.head, out.fields, cases[i].name, strlen(cases[i].name),
                               cases[i].from) == cases[i].wanted,
              "find_field", "best", cases[i].name);
}

/* What the header promises about a refused head. */
static void run_refused(void) {
    static const char in_line[] = "GET nowhere HTTP/1.1\r\n", behind[] = "PUT /p HTTP/1.1\r\nX\r\n";
    outcome out;
    parse(&out, mr_h1_scan_best(), &usual, (const uint8_t *)in_line, sizeof in_line - 1, 0);
    check(out.head.method == 0 && out.head.minor == 0 && out.head.target_len == 0, "refused",
          "best", "in the request line");
    parse(&out, mr_h1_scan_best(), &usual, (const uint8_t *)behind, sizeof behind - 1, 0);
    check(out.head.method == MR_METHOD_PUT && out.head.minor == 1 && out.head.path_len == 2,
          "refused", "best", "behind the request line");
}

static void run_scanners(void) {
    check(mr_h1_scan_named("scalar") != NULL, "scanner", "scalar", "is missing");
    check(mr_h1_scan_named("") == NULL && mr_h1_scan_named("SCALAR") == NULL, "scanner", "-",
          "made-up name");
    check(mr_h1_scan_named(mr_h1_scan_name(mr_h1_scan_best())) == mr_h1_scan_best(), "scanner",
          "best", "is not found by its name");
}

static void run_methods(void) {
    outcome out;
    for (unsigned i = 1; i < MR_METHOD_COUNT; i++) {
        const char *target = i == MR_METHOD_CONNECT ? "a:1" : "/";
        size_t len =
            (size_t)sprintf((char *)text, "%s %s HTTP/1.0\r\n\r\n", mr_method_names[i], target);
        parse(&out, mr_h1_scan_best(), &usual, text, len, 0);
        check(out.rc == MR_OK && out.head.method == i, "method", "best", mr_method_names[i]);
    }
}

int main(void) {
    uint8_t *page_end = map_guarded_page();
    run_scanners();
    run_good_cases();
    run_bad_cases();
    for (size_t i = 0; i < sizeof good_literals / sizeof good_literals[0]; i++)
        check_literal(good_literals[i], true);
    for (size_t i = 0; i < sizeof bad_literals / sizeof bad_literals[0]; i++)
        check_literal(bad_literals[i], false);
    run_target_limits();
    run_method_limits();
    run_head_limits();
    run_count_limits();
    run_octets();
    run_methods();
    run_lookups();
    run_refused();
    run_page_boundary(page_end);
    run_generated(page_end);
    printf("%u passed, %u failed (best scanner: %s)\n", passed, failed,
           mr_h1_scan_name(mr_h1_scan_best()));
    return failed == 0 ? 0 : 1;
}
