/* h1_parse.c -- what the lines of a request head mean.
 * The scanners (h1_scan_*.c) split a head into lines and spans; this file judges them.
 * Invariant: a verdict depends on bytes[0..end) and on limits alone, and the first line in order
 * that is wrong decides it. So the verdict on a prefix is either MR_AGAIN or that on the whole. */
#include "base/check.h"
#include "base/text.h"
#include "proto/h1_scan.h"
#include <string.h>

enum { /* mr_h1_job.noted */
       SAW_HOST = 1u << 0,
       SAW_UPGRADE = 1u << 1,
       SAW_TRANSFER_ENCODING = 1u << 2,
       SAID_CLOSE = 1u << 3,
       SAID_KEEP_ALIVE = 1u << 4,
       SAID_UPGRADE = 1u << 5,
       CODED_CHUNKED = 1u << 6, /* some coding so far was chunked */
       CODED_OTHER = 1u << 7,   /* some coding so far was not */
       CHUNKED_IS_LAST = 1u << 8,
       UNKNOWN_EXPECTATION = 1u << 9
};

typedef struct span { /* octets of a value */
    const uint8_t *at;
    size_t len;
} span;

const char *const mr_method_names[MR_METHOD_COUNT] = {[MR_METHOD_OTHER] = "",
                                                      [MR_METHOD_GET] = "GET",
                                                      [MR_METHOD_HEAD] = "HEAD",
                                                      [MR_METHOD_POST] = "POST",
                                                      [MR_METHOD_PUT] = "PUT",
                                                      [MR_METHOD_DELETE] = "DELETE",
                                                      [MR_METHOD_PATCH] = "PATCH",
                                                      [MR_METHOD_OPTIONS] = "OPTIONS",
                                                      [MR_METHOD_CONNECT] = "CONNECT",
                                                      [MR_METHOD_TRACE] = "TRACE",
                                                      [MR_METHOD_QUERY] = "QUERY",
                                                      [MR_METHOD_PROPFIND] = "PROPFIND",
                                                      [MR_METHOD_PROPPATCH] = "PROPPATCH",
                                                      [MR_METHOD_MKCOL] = "MKCOL",
                                                      [MR_METHOD_COPY] = "COPY",
                                                      [MR_METHOD_MOVE] = "MOVE",
                                                      [MR_METHOD_LOCK] = "LOCK",
                                                      [MR_METHOD_UNLOCK] = "UNLOCK",
                                                      [MR_METHOD_REPORT] = "REPORT",
                                                      [MR_METHOD_SEARCH] = "SEARCH",
                                                      [MR_METHOD_PURGE] = "PURGE",
                                                      [MR_METHOD_LINK] = "LINK",
                                                      [MR_METHOD_UNLINK] = "UNLINK"};

const uint8_t mr_h1_heeded_initial[MR_H1_HEEDED_MAX] = {
    [4] = 'h',  /* host */
    [6] = 'e',  /* expect */
    [7] = 'u',  /* upgrade */
    [10] = 'c', /* connection */
    [14] = 'c', /* content-length */
    [17] = 't'  /* transfer-encoding */
};

static mr_rc refuse(mr_h1_job *job, uint16_t status) {
    job->head->status = status;
    return status == 414 || status == 431 ? MR_LIMIT : MR_BADPEER;
}

static uint64_t load_lower(const uint8_t *at, size_t len) {
    uint64_t word = 0;
    memcpy(&word, at, len);
    return word | 0x2020202020202020u;
}

/* ASCII case-insensitive comparison with a lower-case literal of 4 to 24 octets, by the word. Sound
 * only because `text` comes from a checked head: setting 0x20 maps nothing but control octets onto
 * '-', ':', '/' and digits, and nothing but capitals onto letters. */
static inline bool is_word(span text, const char *lower, size_t len) {
    const uint8_t *wanted = (const uint8_t *)lower;
    size_t step = len < 8 ? 4 : 8;
    if (text.len != len || load_lower(text.at, step) != load_lower(wanted, step))
        return false;
    return load_lower(text.at + len - step, step) == load_lower(wanted + len - step, step) &&
           (len <= 16 || load_lower(text.at + 8, 8) == load_lower(wanted + 8, 8));
}

/* ---- what is not there yet, or not right ---- */

/* No verdict on the bytes so far: wait, unless the head has used up its room. */
static mr_rc wait_for_more(mr_h1_job *job) {
    return job->end >= job->limits->header_bytes ? refuse(job, 431) : MR_AGAIN;
}

static size_t request_line_start(const mr_h1_job *job) {
    return job->end >= 2 && job->bytes[0] == '\r' && job->bytes[1] == '\n' ? 2 : 0;
}

/* The first octet behind the SP that follows a fit method; 0 when there is no such place. */
static size_t target_start(const mr_h1_job *job, size_t start) {
    size_t at = start;
    while (at < job->end && at - start <= MR_H1_METHOD_MAX && mr_is_tchar(job->bytes[at]))
        at++;
    bool is_fit = at > start && at - start <= MR_H1_METHOD_MAX && at < job->end;
    return is_fit && job->bytes[at] == ' ' ? at + 1 : 0;
}

/* Whether what stands in the place of the target, up to SP or the end of the line, is too long. It
 * is looked at before all else behind the method, because it is known before the line ends. */
static bool is_target_too_long(const mr_h1_job *job, size_t target) {
    size_t room = job->end - target, at = 0;
    if (room <= job->limits->target_bytes)
        return false;
    for (; at <= job->limits->target_bytes; at++) {
        uint8_t c = job->bytes[target + at];
        if (c == ' ' || c == '\r' || c == '\n')
            return false;
    }
    return true;
}

/* 400, 501 or 505 for a request line whose LF is at `lf`. */
static uint16_t judge_request_line(const mr_h1_job *job, size_t start, size_t lf) {
    const uint8_t *bytes = job->bytes;
    size_t at = start;
    while (mr_is_tchar(bytes[at]))
        at++;
    if (at == start || bytes[at] != ' ')
        return 400;
    if (at - start > MR_H1_METHOD_MAX)
        return 501;
    const uint8_t *target = bytes + at + 1;
    const uint8_t *space = memchr(target, ' ', (size_t)(bytes + lf - target));
    if (space == NULL || space == target || bytes + lf - space != 10)
        return 400;
    bool is_version = memcmp(space, " HTTP/", 6) == 0 && (uint8_t)(space[6] - '0') <= 9 &&
                      space[7] == '.' && (uint8_t)(space[8] - '0') <= 9 && space[9] == '\r';
    return is_version && space[6] != '1' ? 505 : 400;
}

mr_rc mr_h1_refuse_request_line(mr_h1_job *job, size_t start) {
    size_t target = target_start(job, start);
    if (target != 0 && is_target_too_long(job, target))
        return refuse(job, 414);
    const uint8_t *lf = memchr(job->bytes + start, '\n', job->end - start);
    if (lf == NULL)
        return wait_for_more(job);
    return refuse(job, judge_request_line(job, start, (size_t)(lf - job->bytes)));
}

mr_rc mr_h1_refuse_field_line(mr_h1_job *job, size_t line, uint16_t status) {
    if (memchr(job->bytes + line, '\n', job->end - line) == NULL)
        return wait_for_more(job);
    return refuse(job, status);
}

/* ---- authority: host and port, RFC 3986 3.2 ---- */

/* unreserved and sub-delims, without the comma: a list of hosts is nobody's host. */
static bool is_host_octet(uint8_t c) {
    static const uint64_t set[4] = {0x2bff6fd200000000u, 0x47fffffe87fffffeu, 0, 0};
    return set[c >> 6] >> (c & 63) & 1;
}

static bool is_digit(uint8_t c) { return (uint8_t)(c - '0') <= 9; }

/* Four numbers 0..255 without leading zeros. */
static bool is_ipv4(span text) {
    size_t at = 0;
    for (int part = 0; part < 4; part++) {
        unsigned value = 0;
        size_t first = at;
        while (at < text.len && at - first < 3 && is_digit(text.at[at]))
            value = value * 10 + (unsigned)(text.at[at++] - '0');
        if (at == first || value > 255 || (at - first > 1 && text.at[first] == '0'))
            return false;
        if (part < 3 && (at == text.len || text.at[at++] != '.'))
            return false;
    }
    return at == text.len;
}

/* Groups of one to four hex digits, one "::" for at least one of them, dotted quad for the last
 * two: the nine alternatives of RFC 3986 3.2.2 as a count. */
static bool is_ipv6(span text) {
    const uint8_t *s = text.at;
    size_t at = 0;
    int groups = 0;
    bool has_gap = text.len >= 2 && s[0] == ':' && s[1] == ':';
    if (has_gap)
        at = 2;
    while (at < text.len || !has_gap) {
        size_t first = at;
        while (at < text.len && at - first < 4 && mr_hex_value(s[at]) >= 0)
            at++;
        if (at == first || ++groups > 8)
            return false;
        if (at < text.len && s[at] == '.') {
            if (!is_ipv4((span){s + first, text.len - first}))
                return false;
            groups++;
            break;
        }
        if (at == text.len)
            break;
        if (s[at++] != ':' || at == text.len)
            return false;
        if (s[at] == ':') {
            if (has_gap)
                return false;
            has_gap = true;
            if (++at == text.len)
                break;
        }
    }
    return has_gap ? groups <= 7 : groups == 8;
}

/* "v" 1*HEXDIG "." 1*( unreserved / sub-delims / ":" ) */
static bool is_ip_future(span text) {
    size_t at = 1;
    if (text.len == 0 || (text.at[0] | 0x20) != 'v')
        return false;
    while (at < text.len && mr_hex_value(text.at[at]) >= 0)
        at++;
    if (at == 1 || at + 1 >= text.len || text.at[at++] != '.')
        return false;
    while (at < text.len && (is_host_octet(text.at[at]) || text.at[at] == ':'))
        at++;
    return at == text.len;
}

/* Length of the host at the front of the text; SIZE_MAX when it is none. */
static size_t host_length(span text) {
    size_t at = 0;
    if (text.len > 0 && text.at[0] == '[') {
        const uint8_t *close = memchr(text.at, ']', text.len);
        if (close == NULL)
            return SIZE_MAX;
        span literal = {text.at + 1, (size_t)(close - text.at) - 1};
        return is_ipv6(literal) || is_ip_future(literal) ? literal.len + 2 : SIZE_MAX;
    }
    for (; at < text.len && text.at[at] != ':'; at++) {
        if (MR_LIKELY(is_host_octet(text.at[at])))
            continue;
        if (text.at[at] != '%' || text.len - at < 3 || mr_hex_value(text.at[at + 1]) < 0 ||
            mr_hex_value(text.at[at + 2]) < 0)
            return SIZE_MAX;
        at += 2;
    }
    return at;
}

/* Host, optionally with a port of at most 65535. An empty text is fine, a port alone is not.
 * Gives the number of port digits. */
static bool is_authority(span text, size_t *port_len) {
    size_t at = host_length(text);
    *port_len = 0;
    if (at == text.len)
        return true;
    if (at == SIZE_MAX || at == 0 || text.at[at] != ':')
        return false;
    uint32_t port = 0;
    *port_len = text.len - at - 1;
    while (++at < text.len) {
        if (!is_digit(text.at[at]))
            return false;
        port = port * 10 + (uint32_t)(text.at[at] - '0');
        if (port > 65535)
            return false;
    }
    return true;
}

/* ---- request line ---- */

static uint8_t method_number(span name) {
    if (MR_LIKELY(name.len == 3 && memcmp(name.at, "GET", 3) == 0))
        return MR_METHOD_GET;
    for (uint8_t i = MR_METHOD_HEAD; i < MR_METHOD_COUNT; i++)
        if (mr_method_names[i][0] == name.at[0] && strlen(mr_method_names[i]) == name.len &&
            memcmp(mr_method_names[i], name.at, name.len) == 0)
            return i;
    return MR_METHOD_OTHER;
}

/* Path from `path` up to the query. */
static void set_path(mr_h1_head *head, size_t path, size_t target_end, size_t query) {
    head->path_off = (uint16_t)path;
    head->path_len = (uint16_t)(query - path);
    if (query < target_end) {
        head->query_off = (uint16_t)(query + 1);
        head->query_len = (uint16_t)(target_end - query - 1);
    }
}

/* scheme "://" authority, then a path, a query, both or nothing. */
static bool set_absolute_form(mr_h1_job *job, size_t target, size_t target_end, size_t query) {
    const uint8_t *bytes = job->bytes;
    size_t len = target_end - target, port_len;
    size_t scheme = len >= 7 && is_word((span){bytes + target, 7}, "http://", 7)    ? 7
                    : len >= 8 && is_word((span){bytes + target, 8}, "https://", 8) ? 8
                                                                                    : 0;
    if (scheme == 0)
        return false;
    size_t host = target + scheme;
    const uint8_t *slash = memchr(bytes + host, '/', query - host);
    size_t host_end = slash != NULL ? (size_t)(slash - bytes) : query;
    if (host_end == host || !is_authority((span){bytes + host, host_end - host}, &port_len))
        return false;
    job->head->form = MR_FORM_ABSOLUTE;
    job->head->host_off = (uint16_t)host;
    job->head->host_len = (uint16_t)(host_end - host);
    set_path(job->head, host_end, target_end, query);
    return true;
}

static bool set_authority_form(mr_h1_job *job, span target) {
    size_t port_len;
    job->head->form = MR_FORM_AUTHORITY;
    return is_authority(target, &port_len) && port_len >= 1 && port_len <= 5;
}

/* RFC 9112 3.2: the first octet and the method tell the form. */
static bool set_target(mr_h1_job *job, size_t target, size_t target_end, size_t query) {
    mr_h1_head *head = job->head;
    const uint8_t *first = job->bytes + target;
    if (MR_UNLIKELY(head->method == MR_METHOD_CONNECT))
        return set_authority_form(job, (span){first, target_end - target});
    if (MR_LIKELY(*first == '/')) {
        set_path(head, target, target_end, query);
        return true;
    }
    if (*first == '*') {
        head->form = MR_FORM_ASTERISK;
        return head->method == MR_METHOD_OPTIONS && target_end - target == 1;
    }
    return set_absolute_form(job, target, target_end, query);
}

mr_rc mr_h1_note_request_line(mr_h1_job *job, size_t start, size_t method_end, size_t target_end,
                              size_t query) {
    mr_h1_head *head = job->head;
    head->method = method_number((span){job->bytes + start, method_end - start});
    head->method_off = (uint16_t)start;
    head->method_len = (uint16_t)(method_end - start);
    head->target_off = (uint16_t)(method_end + 1);
    head->target_len = (uint16_t)(target_end - method_end - 1);
    if (set_target(job, method_end + 1, target_end, query))
        return MR_OK;
    *head = (mr_h1_head){0};
    return refuse(job, 400);
}

/* ---- fields ---- */

/* Takes the next element off a comma-separated list, without the whitespace around it. */
static bool next_element(span *list, bool *is_first, span *element) {
    if (!*is_first) {
        if (list->len == 0)
            return false;
        list->at++; /* the comma */
        list->len--;
    }
    *is_first = false;
    const uint8_t *comma = memchr(list->at, ',', list->len);
    span found = {list->at, comma != NULL ? (size_t)(comma - list->at) : list->len};
    list->at += found.len;
    list->len -= found.len;
    while (found.len > 0 && (*found.at == ' ' || *found.at == '\t')) {
        found.at++;
        found.len--;
    }
    while (found.len > 0 && (found.at[found.len - 1] == ' ' || found.at[found.len - 1] == '\t'))
        found.len--;
    *element = found;
    return true;
}

static void note_connection(mr_h1_job *job, span value) {
    span option;
    bool is_first = true;
    if (MR_LIKELY(is_word(value, "keep-alive", 10))) {
        job->noted |= SAID_KEEP_ALIVE;
        return;
    }
    while (next_element(&value, &is_first, &option)) {
        if (is_word(option, "keep-alive", 10))
            job->noted |= SAID_KEEP_ALIVE;
        else if (is_word(option, "close", 5))
            job->noted |= SAID_CLOSE;
        else if (is_word(option, "upgrade", 7))
            job->noted |= SAID_UPGRADE;
    }
}

static uint16_t note_host(mr_h1_job *job, mr_h1_field field, span value) {
    size_t port_len;
    if ((job->noted & SAW_HOST) != 0 || !is_authority(value, &port_len))
        return 400;
    job->noted |= SAW_HOST;
    if (job->head->form != MR_FORM_ABSOLUTE && value.len > 0) {
        job->head->host_off = field.value_off;
        job->head->host_len = field.value_len;
    }
    return 0;
}

static uint16_t note_content_length(mr_h1_job *job, span value) {
    uint64_t length = 0;
    if (value.len == 0 || (job->head->flags & MR_H1_HAS_LENGTH) != 0 ||
        (job->noted & SAW_TRANSFER_ENCODING) != 0)
        return 400;
    for (size_t i = 0; i < value.len; i++) {
        unsigned digit = (unsigned)(value.at[i] - '0');
        if (!is_digit(value.at[i]) || length > ((uint64_t)INT64_MAX - digit) / 10)
            return 400;
        length = length * 10 + digit;
    }
    job->head->flags |= MR_H1_HAS_LENGTH;
    job->head->content_length = length;
    return 0;
}

/* One coding: a token, with parameters or without. Chunked has none. */
static bool note_coding(mr_h1_job *job, span coding) {
    size_t name_len = 0, at;
    while (name_len < coding.len && mr_is_tchar(coding.at[name_len]))
        name_len++;
    for (at = name_len; at < coding.len && (coding.at[at] == ' ' || coding.at[at] == '\t');)
        at++;
    if (name_len == 0 || (at < coding.len && coding.at[at] != ';'))
        return false;
    job->noted &= ~(uint32_t)CHUNKED_IS_LAST;
    if (!is_word((span){coding.at, name_len}, "chunked", 7)) {
        job->noted |= CODED_OTHER;
        return true;
    }
    if (name_len < coding.len || (job->noted & CODED_CHUNKED) != 0)
        return false;
    job->noted |= CODED_CHUNKED | CHUNKED_IS_LAST;
    return true;
}

static uint16_t note_transfer_encoding(mr_h1_job *job, span value) {
    span coding;
    bool is_first = true;
    if (job->head->minor == 0 || (job->head->flags & MR_H1_HAS_LENGTH) != 0)
        return 400;
    job->noted |= SAW_TRANSFER_ENCODING;
    while (next_element(&value, &is_first, &coding))
        if (!note_coding(job, coding))
            return 400;
    return 0;
}

static void note_expect(mr_h1_job *job, span value) {
    if (job->head->minor == 0 || value.len == 0)
        return;
    if (is_word(value, "100-continue", 12))
        job->head->flags |= MR_H1_EXPECT_100;
    else
        job->noted |= UNKNOWN_EXPECTATION;
}

mr_rc mr_h1_note_field(mr_h1_job *job, mr_h1_field field) {
    span name = {job->bytes + field.name_off, field.name_len};
    span value = {job->bytes + field.value_off, field.value_len};
    uint16_t status = 0;
    if (is_word(name, "host", 4))
        status = note_host(job, field, value);
    else if (is_word(name, "connection", 10))
        note_connection(job, value);
    else if (is_word(name, "content-length", 14))
        status = note_content_length(job, value);
    else if (is_word(name, "transfer-encoding", 17))
        status = note_transfer_encoding(job, value);
    else if (is_word(name, "expect", 6))
        note_expect(job, value);
    else if (is_word(name, "upgrade", 7))
        job->noted |= SAW_UPGRADE;
    return status == 0 ? MR_OK : refuse(job, status);
}

/* RFC 9112 9.3: close wins; 1.1 persists by itself, 1.0 only when asked. An Upgrade in 1.0 is
 * ignored (RFC 9110 7.8). */
static uint32_t connection_flags(const mr_h1_job *job) {
    const uint32_t both = SAID_UPGRADE | SAW_UPGRADE;
    uint32_t flags = 0;
    if (job->head->minor != 0 && (job->noted & both) == both)
        flags |= MR_H1_UPGRADE;
    if ((job->noted & SAID_CLOSE) != 0)
        return flags;
    if (job->head->minor != 0)
        return flags | MR_H1_KEEP_ALIVE;
    return (job->noted & SAID_KEEP_ALIVE) != 0 ? MR_H1_KEEP_ALIVE | MR_H1_SAID_KEEP_ALIVE : 0;
}

mr_rc mr_h1_finish(mr_h1_job *job, size_t head_len, size_t field_count) {
    mr_h1_head *head = job->head;
    uint32_t noted = job->noted;
    if (MR_UNLIKELY((noted & SAW_HOST) == 0 && head->minor != 0))
        return refuse(job, 400);
    if (MR_UNLIKELY((noted & SAW_TRANSFER_ENCODING) != 0)) {
        if ((noted & CHUNKED_IS_LAST) == 0)
            return refuse(job, 400);
        if ((noted & CODED_OTHER) != 0)
            return refuse(job, 501);
        head->flags |= MR_H1_CHUNKED;
    }
    if (MR_UNLIKELY((noted & UNKNOWN_EXPECTATION) != 0))
        return refuse(job, 417);
    head->flags |= connection_flags(job);
    head->head_len = (uint32_t)head_len;
    head->field_count = (uint16_t)field_count;
    return MR_OK;
}

/* ---- entry points ---- */

/* An earlier call has said MR_AGAIN and no line has ended since: only limits can have been passed.
 * A target is known to be too long, or not, once its limit and the longest method are there. */
static mr_rc wait_in_line(mr_h1_job *job, size_t seen) {
    size_t start = request_line_start(job);
    if (job->end > job->limits->target_bytes &&
        seen <= start + MR_H1_METHOD_MAX + 1 + job->limits->target_bytes) {
        size_t target = target_start(job, start);
        if (target != 0 && is_target_too_long(job, target))
            return refuse(job, 414);
    }
    return wait_for_more(job);
}

mr_rc mr_h1_parse_head(const mr_h1_scan *scan, const mr_h1_limits *limits, const uint8_t *bytes,
                       size_t len, size_t seen, mr_h1_head *head, mr_h1_field *fields) {
    MR_ASSERT(limits->header_bytes <= UINT16_MAX && limits->header_count <= UINT16_MAX);
    mr_h1_job job = {.bytes = bytes,
                     .end = len < limits->header_bytes ? len : limits->header_bytes,
                     .limits = limits,
                     .head = head,
                     .fields = fields};
    *head = (mr_h1_head){0};
    if (seen > 0 && seen <= job.end && memchr(bytes + seen, '\n', job.end - seen) == NULL)
        return wait_in_line(&job, seen);
    return scan->parse(&job);
}

static mr_rc parse_head(void *self, const mr_h1_limits *limits, const uint8_t *bytes, size_t len,
                        size_t seen, mr_h1_head *head, mr_h1_field *fields) {
    return mr_h1_parse_head(self, limits, bytes, len, seen, head, fields);
}

const mr_h1_parser mr_h1_parser_millrace = {.name = "millrace", .parse_head = parse_head};

uint16_t mr_h1_find_field(const uint8_t *bytes, const mr_h1_head *head, const mr_h1_field *fields,
                          const char *lower_name, size_t name_len, uint16_t from) {
    for (uint16_t i = from; i < head->field_count; i++)
        if (fields[i].name_len == name_len &&
            mr_equals_lower(bytes + fields[i].name_off, lower_name, name_len))
            return i;
    return head->field_count;
}
