/* response.c -- stateless: a response that arrives in pieces is read again from its start, which
 * is cheap for the small ones that a bench asks for. Only the cache outlives a call. */
#define _GNU_SOURCE
#include "response.h"

#include <string.h>
#include <strings.h>

/* One chunk at p: sets the place of its data. A size of zero is the last chunk. */
typedef struct chunk {
    size_t data_at; /* from p */
    size_t data_bytes;
    size_t total_bytes; /* line, data and the CRLF behind it */
} chunk;

static int hex_value(uint8_t c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static mr_response_rc read_chunk(const uint8_t *p, size_t size, chunk *out) {
    const uint8_t *eol = memmem(p, size, "\r\n", 2);
    size_t value = 0;
    size_t i = 0;
    if (eol == NULL)
        return size > 256 ? MR_RESPONSE_BAD : MR_RESPONSE_MORE;
    for (int digit; (digit = hex_value(p[i])) >= 0; i++) {
        if (i == 8)
            return MR_RESPONSE_BAD;
        value = value << 4 | (size_t)digit;
    }
    if (i == 0 || (p[i] != '\r' && p[i] != ';' && p[i] != ' '))
        return MR_RESPONSE_BAD;
    size_t data_at = (size_t)(eol - p) + 2;
    *out = (chunk){.data_at = data_at, .data_bytes = value, .total_bytes = data_at + value + 2};
    if (value == 0)
        return MR_RESPONSE_DONE; /* trailers follow, the caller knows */
    if (size < out->total_bytes)
        return MR_RESPONSE_MORE;
    return memcmp(p + data_at + value, "\r\n", 2) == 0 ? MR_RESPONSE_DONE : MR_RESPONSE_BAD;
}

/* The length of a whole chunked body, trailers and last empty line included. */
static mr_response_rc chunked_length(const uint8_t *p, size_t size, size_t *out) {
    size_t at = 0;
    for (;;) {
        chunk c;
        mr_response_rc rc = read_chunk(p + at, size - at, &c);
        if (rc != MR_RESPONSE_DONE)
            return rc;
        if (c.data_bytes == 0)
            break;
        at += c.total_bytes;
    }
    /* "0\r\n" then "\r\n", or trailer lines that end in an empty one */
    const uint8_t *last = memmem(p + at, size - at, "\r\n", 2);
    const uint8_t *end = memmem(last, size - (size_t)(last - p), "\r\n\r\n", 4);
    if (end == NULL)
        return MR_RESPONSE_MORE;
    *out = (size_t)(end - p) + 4;
    return MR_RESPONSE_DONE;
}

static bool name_is(const uint8_t *line, size_t size, const char *name) {
    size_t length = strlen(name);
    return size > length && line[length] == ':' &&
           strncasecmp((const char *)line, name, length) == 0;
}

static bool value_has(const uint8_t *value, size_t size, const char *word) {
    size_t length = strlen(word);
    for (size_t i = 0; i + length <= size; i++)
        if (strncasecmp((const char *)value + i, word, length) == 0)
            return true;
    return false;
}

static bool read_length(const uint8_t *value, size_t size, size_t *out) {
    size_t sum = 0;
    if (size == 0 || size > 12)
        return false;
    for (size_t i = 0; i < size; i++) {
        if (value[i] < '0' || value[i] > '9')
            return false;
        sum = sum * 10 + (size_t)(value[i] - '0');
    }
    *out = sum;
    return true;
}

/* Takes what matters of one field line; false when it makes the response unreadable. */
static bool read_field(mr_response_cache *cache, mr_response *r, const uint8_t *head, size_t at,
                       size_t size) {
    const uint8_t *line = head + at;
    const uint8_t *colon = memchr(line, ':', size);
    if (colon == NULL)
        return false;
    const uint8_t *value = colon + 1;
    while (value < line + size && (*value == ' ' || *value == '\t'))
        value++;
    size_t value_size = (size_t)(line + size - value);
    if (name_is(line, size, "content-length")) {
        r->is_until_eof = false;
        return read_length(value, value_size, &r->body_bytes);
    }
    if (name_is(line, size, "transfer-encoding") && value_has(value, value_size, "chunked"))
        r->is_chunked = true;
    else if (name_is(line, size, "connection") && value_has(value, value_size, "close"))
        r->closes = true;
    else if (name_is(line, size, "date")) {
        cache->date_at = (size_t)(value - head);
        cache->date_end = (size_t)(line + size - head);
    }
    return true;
}

static bool read_status(const uint8_t *p, size_t size, int *out) {
    if (size < 13 || memcmp(p, "HTTP/1.", 7) != 0 || p[8] != ' ')
        return false;
    *out = 0;
    for (int i = 9; i < 12; i++) {
        if (p[i] < '0' || p[i] > '9')
            return false;
        *out = *out * 10 + (p[i] - '0');
    }
    return *out >= 200;
}

static mr_response_rc read_head(mr_response_cache *cache, const uint8_t *p, size_t size,
                                mr_response *r) {
    const uint8_t *end = memmem(p, size, "\r\n\r\n", 4);
    if (end == NULL)
        return MR_RESPONSE_MORE;
    *r = (mr_response){.head_bytes = (size_t)(end - p) + 4, .is_until_eof = true};
    cache->date_at = cache->date_end = 0;
    if (!read_status(p, r->head_bytes, &r->status))
        return MR_RESPONSE_BAD;
    const uint8_t *eol = memmem(p, r->head_bytes, "\r\n", 2);
    while (eol < end) {
        size_t at = (size_t)(eol - p) + 2;
        eol = memmem(p + at, r->head_bytes - at, "\r\n", 2);
        if (!read_field(cache, r, p, at, (size_t)(eol - p) - at))
            return MR_RESPONSE_BAD;
    }
    if (r->is_chunked || r->status == 204 || r->status == 304)
        r->is_until_eof = false;
    return MR_RESPONSE_DONE;
}

static void remember(mr_response_cache *cache, const uint8_t *p, const mr_response *r) {
    bool fits = r->head_bytes <= sizeof cache->head && !r->is_chunked && !r->is_until_eof;
    cache->parsed = fits ? *r : (mr_response){.head_bytes = 0};
    if (fits)
        memcpy(cache->head, p, r->head_bytes);
}

static bool is_remembered(const mr_response_cache *cache, const uint8_t *p, size_t size) {
    size_t head = cache->parsed.head_bytes;
    size_t date_end = cache->date_end;
    return head != 0 && size >= head && memcmp(p, cache->head, cache->date_at) == 0 &&
           memcmp(p + date_end, cache->head + date_end, head - date_end) == 0;
}

static mr_response_rc read_body(const uint8_t *p, size_t size, bool at_eof, mr_response *r) {
    size_t got = size - r->head_bytes;
    if (r->is_chunked) {
        mr_response_rc rc = chunked_length(p + r->head_bytes, got, &r->body_bytes);
        if (rc != MR_RESPONSE_DONE)
            return rc;
    } else if (r->is_until_eof) {
        if (!at_eof)
            return MR_RESPONSE_MORE;
        r->body_bytes = got;
    } else if (got < r->body_bytes) {
        return MR_RESPONSE_MORE;
    }
    r->total_bytes = r->head_bytes + r->body_bytes;
    return MR_RESPONSE_DONE;
}

mr_response_rc mr_response_parse(mr_response_cache *cache, const uint8_t *p, size_t size,
                                 bool at_eof, mr_response *out) {
    if (is_remembered(cache, p, size)) {
        *out = cache->parsed;
        return read_body(p, size, at_eof, out);
    }
    mr_response_rc rc = read_head(cache, p, size, out);
    if (rc != MR_RESPONSE_DONE) {
        cache->parsed.head_bytes = 0; /* read_head moved the Date under the remembered head */
        return rc;
    }
    remember(cache, p, out);
    return read_body(p, size, at_eof, out);
}

bool mr_response_body_is(const mr_response *r, const uint8_t *p, const void *body, size_t size) {
    const uint8_t *wanted = body;
    size_t at = r->head_bytes;
    if (!r->is_chunked)
        return r->body_bytes == size && memcmp(p + at, wanted, size) == 0;
    for (size_t done = 0;;) {
        chunk c;
        if (read_chunk(p + at, r->total_bytes - at, &c) != MR_RESPONSE_DONE)
            return false;
        if (c.data_bytes == 0)
            return done == size;
        if (c.data_bytes > size - done ||
            memcmp(p + at + c.data_at, wanted + done, c.data_bytes) != 0)
            return false;
        done += c.data_bytes;
        at += c.total_bytes;
    }
}
