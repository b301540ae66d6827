/* ws_accept.c -- lists are walked by one cursor over the value of a field; what it has passed was
 * well-formed. SHA-1 is written out here rather than taken from OpenSSL: Sec-WebSocket-Accept keeps
 * no secret (RFC 6455 10.8), its input is 60 octets long, and proto/ needs nothing but libc, so
 * that it is built and tested without Node. */
#include "proto/ws_accept.h"
#include "base/text.h"
#include <string.h>

typedef struct span {
    const uint8_t *at, *end;
} span;

static span value_of(const uint8_t *bytes, const mr_h1_field *field) {
    const uint8_t *at = bytes + field->value_off;
    return (span){at, at + field->value_len};
}

static size_t length(span s) { return (size_t)(s.end - s.at); }

static bool is_word(span s, const char *lower) {
    return length(s) == strlen(lower) && mr_equals_lower(s.at, lower, length(s));
}

static void skip_space(span *s) {
    while (s->at < s->end && (*s->at == ' ' || *s->at == '\t'))
        s->at++;
}

/* Takes a token off the front; it is empty when there is none. */
static span take_token(span *s) {
    span token = {s->at, s->at};
    while (s->at < s->end && mr_is_tchar(*s->at))
        s->at++;
    token.end = s->at;
    return token;
}

static bool take_octet(span *s, uint8_t octet) {
    skip_space(s);
    if (s->at == s->end || *s->at != octet)
        return false;
    s->at++;
    skip_space(s);
    return true;
}

/* Empty members of a list are passed over (RFC 9110 5.6.1.2). */
static void skip_commas(span *s) {
    skip_space(s);
    while (take_octet(s, ','))
        continue;
}

/* Nothing or a comma must follow a member. */
static bool ends_member(span *s) {
    skip_space(s);
    return s->at == s->end || *s->at == ',';
}

/* ---- SHA-1 (RFC 3174) and base64 (RFC 4648 4) ---- */

enum { SHA1_BYTES = 20, SHA1_BLOCK = 64 };

static uint32_t turn_left(uint32_t word, unsigned bits) {
    return word << bits | word >> (32 - bits);
}

static uint32_t sha1_mix(unsigned round, uint32_t b, uint32_t c, uint32_t d) {
    static const uint32_t constants[4] = {0x5a827999, 0x6ed9eba1, 0x8f1bbcdc, 0xca62c1d6};
    uint32_t mixed = round < 20                  ? (b & c) | (~b & d)
                     : round < 40 || round >= 60 ? b ^ c ^ d
                                                 : (b & c) | (b & d) | (c & d);
    return mixed + constants[round / 20];
}

static void sha1_block(uint32_t state[5], const uint8_t *block) {
    uint32_t w[80], v[5];
    for (size_t i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
               (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
    for (size_t i = 16; i < 80; i++)
        w[i] = turn_left(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    memcpy(v, state, sizeof v);
    for (unsigned i = 0; i < 80; i++) {
        uint32_t next = turn_left(v[0], 5) + sha1_mix(i, v[1], v[2], v[3]) + v[4] + w[i];
        memmove(v + 1, v, 4 * sizeof v[0]);
        v[0] = next;
        v[2] = turn_left(v[2], 30);
    }
    for (size_t i = 0; i < 5; i++)
        state[i] += v[i];
}

/* Of up to 119 octets: two blocks with the padding. */
static void sha1(const uint8_t *bytes, size_t len, uint8_t out[SHA1_BYTES]) {
    uint32_t state[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
    uint8_t blocks[2 * SHA1_BLOCK] = {0};
    size_t end = len + 9 <= SHA1_BLOCK ? SHA1_BLOCK : 2 * SHA1_BLOCK;
    memcpy(blocks, bytes, len);
    blocks[len] = 0x80;
    blocks[end - 2] = (uint8_t)(len >> 5); /* length in bits, below 2^16 */
    blocks[end - 1] = (uint8_t)(len << 3);
    for (size_t at = 0; at < end; at += SHA1_BLOCK)
        sha1_block(state, blocks + at);
    for (size_t i = 0; i < SHA1_BYTES; i++)
        out[i] = (uint8_t)(state[i / 4] >> (24 - 8 * (i % 4)));
}

static const char base64_digits[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static void put_base64(uint8_t *out, const uint8_t *bytes, size_t len) {
    for (size_t i = 0; i < len; i += 3) {
        uint32_t three = (uint32_t)bytes[i] << 16;
        three |= i + 1 < len ? (uint32_t)bytes[i + 1] << 8 : 0;
        three |= i + 2 < len ? bytes[i + 2] : 0;
        *out++ = (uint8_t)base64_digits[three >> 18];
        *out++ = (uint8_t)base64_digits[three >> 12 & 63];
        *out++ = i + 1 < len ? (uint8_t)base64_digits[three >> 6 & 63] : '=';
        *out++ = i + 2 < len ? (uint8_t)base64_digits[three & 63] : '=';
    }
}

static void make_accept(span key, uint8_t out[MR_WS_ACCEPT_BYTES]) {
    static const char guid[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"; /* RFC 6455 1.3 */
    uint8_t text[MR_WS_KEY_BYTES + sizeof guid - 1], digest[SHA1_BYTES];
    memcpy(text, key.at, MR_WS_KEY_BYTES);
    memcpy(text + MR_WS_KEY_BYTES, guid, sizeof guid - 1);
    sha1(text, sizeof text, digest);
    put_base64(out, digest, sizeof digest);
}

/* 22 digits and two pads are 16 octets. The four bits that the last digit has over may be anything:
 * RFC 6455 asks only what the key decodes to. */
static bool is_key(span key) {
    if (length(key) != MR_WS_KEY_BYTES || key.end[-1] != '=' || key.end[-2] != '=')
        return false;
    for (const uint8_t *at = key.at; at < key.end - 2; at++)
        if (*at == '\0' || strchr(base64_digits, *at) == NULL)
            return false;
    return true;
}

/* ---- permessage-deflate ---- */

enum { /* parameters of an offer that were seen */
       P_SERVER_NO_TAKEOVER = 1u << 0,
       P_CLIENT_NO_TAKEOVER = 1u << 1,
       P_SERVER_BITS = 1u << 2,
       P_CLIENT_BITS = 1u << 3
};

typedef struct offer {
    unsigned seen;
    uint8_t server_bits, client_bits; /* 15 where nothing is said */
    bool is_bad;                      /* well-formed, but to be declined */
} offer;

typedef struct parameter {
    span name, value;
    bool has_value;
} parameter;

/* RFC 6455 9.1: what a quoted string says must be a token. A token needs no escapes, so one with a
 * backslash is malformed here. */
static bool take_value(span *s, parameter *p) {
    bool is_quoted = s->at < s->end && *s->at == '"';
    if (is_quoted)
        s->at++;
    p->has_value = true;
    p->value = take_token(s);
    if (length(p->value) == 0)
        return false;
    if (!is_quoted)
        return true;
    if (s->at == s->end || *s->at != '"')
        return false;
    s->at++;
    return true;
}

static bool take_parameter(span *s, parameter *p) {
    *p = (parameter){.name = take_token(s)};
    if (length(p->name) == 0)
        return false;
    return take_octet(s, '=') ? take_value(s, p) : true;
}

/* "8" to "15", without a leading zero (RFC 7692 7.1.2); 0 for all else. */
static uint8_t read_bits(span value) {
    unsigned bits = 0;
    if (length(value) == 1 && (*value.at == '8' || *value.at == '9'))
        return (uint8_t)(*value.at - '0');
    if (length(value) == 2 && value.at[0] == '1' && value.at[1] >= '0' && value.at[1] <= '9')
        bits = 10u + value.at[1] - '0';
    return bits <= MR_WS_BITS_MOST ? (uint8_t)bits : 0;
}

static void note_parameter(offer *o, const parameter *p) {
    unsigned which = is_word(p->name, "server_no_context_takeover")   ? P_SERVER_NO_TAKEOVER
                     : is_word(p->name, "client_no_context_takeover") ? P_CLIENT_NO_TAKEOVER
                     : is_word(p->name, "server_max_window_bits")     ? P_SERVER_BITS
                     : is_word(p->name, "client_max_window_bits")     ? P_CLIENT_BITS
                                                                      : 0;
    bool takes_value = (which & (P_SERVER_BITS | P_CLIENT_BITS)) != 0;
    uint8_t bits = p->has_value ? read_bits(p->value) : 0;
    if (which == 0 || (o->seen & which) != 0 || (p->has_value && (!takes_value || bits == 0)) ||
        (which == P_SERVER_BITS && !p->has_value))
        o->is_bad = true;
    o->seen |= which;
    if (which == P_SERVER_BITS)
        o->server_bits = bits;
    if (which == P_CLIENT_BITS && p->has_value)
        o->client_bits = bits;
}

static size_t put_text(uint8_t *out, size_t at, const char *text) {
    size_t len = strlen(text);
    memcpy(out + at, text, len);
    return at + len;
}

static size_t put_bits(uint8_t *out, size_t at, const char *text, uint8_t bits) {
    at = put_text(out, at, text);
    return at + mr_put_decimal(out + at, bits);
}

/* Only what departs from the default is said, and what the client asked for. */
static void write_extension(mr_ws_accept *out, const offer *o) {
    const mr_ws_deflate *d = &out->deflate;
    uint8_t *text = out->extension;
    size_t at = put_text(text, 0, "permessage-deflate");
    if (!d->server_takeover)
        at = put_text(text, at, "; server_no_context_takeover");
    if (!d->client_takeover)
        at = put_text(text, at, "; client_no_context_takeover");
    if ((o->seen & P_SERVER_BITS) != 0 || d->server_bits < MR_WS_BITS_MOST)
        at = put_bits(text, at, "; server_max_window_bits=", d->server_bits);
    if (d->client_bits < MR_WS_BITS_MOST)
        at = put_bits(text, at, "; client_max_window_bits=", d->client_bits);
    out->extension_len = (uint8_t)at;
}
_Static_assert(sizeof "permessage-deflate; server_no_context_takeover; client_no_context_takeover"
                      "; server_max_window_bits=15; client_max_window_bits=15" -
                           1 <=
                       MR_WS_EXTENSION_MAX &&
                   MR_WS_EXTENSION_MAX <= UINT8_MAX,
               "all parameters fit");

static uint8_t least(uint8_t a, uint8_t b) { return a < b ? a : b; }

/* RFC 7692 7.1: the first good offer wins. What a client says of its own side it keeps to in any
 * case; said back, it is agreed on. */
static void consider(mr_ws_accept *out, const mr_ws_deflate_wishes *wishes, const offer *o) {
    uint8_t server_bits = least(o->server_bits, wishes->server_bits);
    if (out->deflate.is_on || !wishes->is_wanted || o->is_bad ||
        server_bits < wishes->server_bits_least)
        return;
    bool can_tell = (o->seen & P_CLIENT_BITS) != 0;
    out->deflate = (mr_ws_deflate){
        .is_on = true,
        .server_takeover = wishes->server_takeover && (o->seen & P_SERVER_NO_TAKEOVER) == 0,
        .client_takeover = wishes->client_takeover && (o->seen & P_CLIENT_NO_TAKEOVER) == 0,
        .server_bits = server_bits,
        .client_bits = can_tell ? least(o->client_bits, wishes->client_bits) : MR_WS_BITS_MOST};
    write_extension(out, o);
}

/* One extension with its parameters; false when it is malformed. */
static bool take_extension(span *s, mr_ws_accept *out, const mr_ws_deflate_wishes *wishes) {
    offer o = {.server_bits = MR_WS_BITS_MOST, .client_bits = MR_WS_BITS_MOST};
    span name = take_token(s);
    parameter p;
    while (length(name) > 0 && take_octet(s, ';')) {
        if (!take_parameter(s, &p))
            return false;
        note_parameter(&o, &p);
    }
    if (length(name) == 0 || !ends_member(s))
        return false;
    if (is_word(name, "permessage-deflate"))
        consider(out, wishes, &o);
    return true;
}

/* ---- the request ---- */

typedef struct request {
    const uint8_t *bytes;
    const mr_h1_head *head;
    const mr_h1_field *fields;
    const mr_ws_deflate_wishes *wishes;
} request;

static uint16_t find(const request *r, const char *name, uint16_t from) {
    return mr_h1_find_field(r->bytes, r->head, r->fields, name, strlen(name), from);
}

/* The value of a field that must be there once, and once only. */
static bool find_only(const request *r, const char *name, span *value) {
    uint16_t index = find(r, name, 0);
    if (index == r->head->field_count ||
        find(r, name, (uint16_t)(index + 1)) < r->head->field_count)
        return false;
    *value = value_of(r->bytes, &r->fields[index]);
    return true;
}

/* Whether a field, over all its lines, lists "websocket" without a version (RFC 9110 7.8). */
static bool asks_for_websocket(const request *r) {
    for (uint16_t i = find(r, "upgrade", 0); i < r->head->field_count;
         i = find(r, "upgrade", (uint16_t)(i + 1))) {
        span s = value_of(r->bytes, &r->fields[i]);
        for (skip_commas(&s); s.at < s.end; skip_commas(&s)) {
            span name = take_token(&s);
            if (ends_member(&s) && is_word(name, "websocket"))
                return true;
            while (s.at < s.end && *s.at != ',')
                s.at++;
        }
    }
    return false;
}

static bool is_same(const uint8_t *bytes, mr_ws_span a, mr_ws_span b) {
    return a.len == b.len && memcmp(bytes + a.off, bytes + b.off, a.len) == 0;
}

/* RFC 6455 4.1: tokens, each once. */
static const char *add_protocol(const request *r, span token, mr_ws_accept *out) {
    mr_ws_span name = {(uint16_t)(token.at - r->bytes), (uint16_t)length(token)};
    if (out->protocol_count == MR_WS_PROTOCOLS_MAX)
        return "too many subprotocols";
    for (size_t i = 0; i < out->protocol_count; i++)
        if (is_same(r->bytes, out->protocols[i], name))
            return "a subprotocol is offered twice";
    out->protocols[out->protocol_count++] = name;
    return NULL;
}

static const char *read_protocols(const request *r, mr_ws_accept *out) {
    static const char field[] = "sec-websocket-protocol";
    for (uint16_t i = find(r, field, 0); i < r->head->field_count;
         i = find(r, field, (uint16_t)(i + 1))) {
        span s = value_of(r->bytes, &r->fields[i]);
        for (skip_commas(&s); s.at < s.end; skip_commas(&s)) {
            span token = take_token(&s);
            if (length(token) == 0 || !ends_member(&s))
                return "Sec-WebSocket-Protocol is malformed";
            const char *why = add_protocol(r, token, out);
            if (why != NULL)
                return why;
        }
    }
    return NULL;
}

static const char *read_extensions(const request *r, mr_ws_accept *out) {
    static const char field[] = "sec-websocket-extensions";
    for (uint16_t i = find(r, field, 0); i < r->head->field_count;
         i = find(r, field, (uint16_t)(i + 1))) {
        span s = value_of(r->bytes, &r->fields[i]);
        for (skip_commas(&s); s.at < s.end; skip_commas(&s))
            if (!take_extension(&s, out, r->wishes))
                return "Sec-WebSocket-Extensions is malformed";
    }
    return NULL;
}

/* The connection becomes the WebSocket's behind the head, so there can be no content. */
static const char *check_request(const request *r) {
    const mr_h1_head *head = r->head;
    if (head->method != MR_METHOD_GET)
        return "the method is not GET";
    if (head->minor == 0)
        return "the version is not HTTP/1.1";
    if (head->host_len == 0)
        return "there is no Host";
    if ((head->flags & MR_H1_CHUNKED) != 0 || head->content_length != 0)
        return "the request has content";
    if ((head->flags & MR_H1_UPGRADE) == 0)
        return "Connection and Upgrade do not ask for an upgrade";
    return asks_for_websocket(r) ? NULL : "Upgrade does not list websocket";
}

static bool is_version_13(const request *r) {
    span version;
    return find_only(r, "sec-websocket-version", &version) && is_word(version, "13");
}

static void refuse(mr_ws_accept *out, uint16_t status, const char *why) {
    *out = (mr_ws_accept){.status = status, .why = why};
}

void mr_ws_judge(const uint8_t *bytes, const mr_h1_head *head, const mr_h1_field *fields,
                 const mr_ws_deflate_wishes *wishes, mr_ws_accept *out) {
    request r = {bytes, head, fields, wishes};
    span key;
    const char *why = check_request(&r);
    *out = (mr_ws_accept){.status = 101};
    if (why != NULL) {
        refuse(out, 400, why);
        return;
    }
    if (!is_version_13(&r)) {
        refuse(out, 426, "Sec-WebSocket-Version is not 13");
        return;
    }
    if (!find_only(&r, "sec-websocket-key", &key) || !is_key(key)) {
        refuse(out, 400, "Sec-WebSocket-Key is not one key of 16 octets");
        return;
    }
    if ((why = read_protocols(&r, out)) != NULL || (why = read_extensions(&r, out)) != NULL) {
        refuse(out, 400, why);
        return;
    }
    make_accept(key, out->accept);
}

int mr_ws_find_protocol(const uint8_t *bytes, const mr_ws_accept *accept, const char *name,
                        size_t len) {
    for (int i = 0; i < accept->protocol_count; i++)
        if (accept->protocols[i].len == len &&
            memcmp(bytes + accept->protocols[i].off, name, len) == 0)
            return i;
    return -1;
}
