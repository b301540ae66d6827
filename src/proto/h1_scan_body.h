/* h1_scan_body.h -- the walk over a request head, included once by each scanner.
 * The includer defines, and this file undefines again, leaving SCAN_NAME(walk):
 *   SCAN_NAME(f)   the name of f in this scanner: all scanners can share one translation unit
 *   SCAN_TARGET    function attribute that turns the instruction set on, or nothing
 *   SCAN_WIDTH     octets looked at by one step: 16 or 32
 * and the steps, each giving a mask with one bit per octet, the first octet in bit 0:
 *   SCAN_NAME(controls)(p)          CTL except HTAB
 *   SCAN_NAME(not_token)(p)         no tchar (RFC 9110 5.6.2)
 *   SCAN_NAME(not_target)(p, &q)    no octet of a request-target; in q the '?'
 * Nothing behind job->end is read: the last step of a run is moved back so that it ends there, and
 * its mask is shifted. Only an input shorter than one step goes octet by octet. */

#define WIDTH ((size_t)SCAN_WIDTH)

typedef struct SCAN_NAME(marks) {
    uint64_t bits; /* control octets of the block that are not yet consumed */
    size_t base;   /* where the block begins */
} SCAN_NAME(marks);

SCAN_TARGET static inline uint32_t SCAN_NAME(controls_at)(const uint8_t *bytes, size_t at,
                                                          size_t end) {
    if (at + WIDTH <= end)
        return SCAN_NAME(controls)(bytes + at);
    if (end >= WIDTH)
        return SCAN_NAME(controls)(bytes + end - WIDTH) >> (at + WIDTH - end);
    uint32_t mask = 0;
    for (size_t i = at; i < end; i++)
        mask |= (uint32_t)((bytes[i] < 0x20 && bytes[i] != '\t') || bytes[i] == 0x7f) << (i - at);
    return mask;
}

SCAN_TARGET static inline uint64_t SCAN_NAME(block)(const uint8_t *bytes, size_t base, size_t end) {
    uint64_t bits = 0;
    if (MR_LIKELY(base + 64 <= end)) {
        for (size_t i = 0; i < 64; i += WIDTH)
            bits |= (uint64_t)SCAN_NAME(controls)(bytes + base + i) << i;
        return bits;
    }
    for (size_t i = 0; base + i < end; i += WIDTH)
        bits |= (uint64_t)SCAN_NAME(controls_at)(bytes, base + i, end) << i;
    return bits;
}

/* The next control octet, or `end`. */
SCAN_TARGET static inline size_t SCAN_NAME(next_mark)(SCAN_NAME(marks) * marks,
                                                      const uint8_t *bytes, size_t end) {
    while (marks->bits == 0) {
        marks->base += 64;
        if (marks->base >= end)
            return end;
        marks->bits = SCAN_NAME(block)(bytes, marks->base, end);
    }
    size_t at = marks->base + (size_t)__builtin_ctzll(marks->bits);
    marks->bits &= marks->bits - 1;
    return at;
}

/* First octet from `at` on that is no tchar, or `end`. */
SCAN_TARGET static inline size_t SCAN_NAME(token_end)(const uint8_t *bytes, size_t at, size_t end) {
    for (; MR_LIKELY(at + WIDTH <= end); at += WIDTH) {
        uint32_t stop = SCAN_NAME(not_token)(bytes + at);
        if (MR_LIKELY(stop != 0))
            return at + (size_t)__builtin_ctz(stop);
    }
    if (at < end && end >= WIDTH) {
        uint32_t stop = SCAN_NAME(not_token)(bytes + end - WIDTH) >> (at + WIDTH - end);
        return stop != 0 ? at + (size_t)__builtin_ctz(stop) : end;
    }
    while (at < end && mr_is_tchar(bytes[at]))
        at++;
    return at;
}

/* First octet from `at` on that a request-target cannot have, or `end`. *query is the first '?'
 * before it, or the same place. */
SCAN_TARGET static inline size_t SCAN_NAME(target_end)(const uint8_t *bytes, size_t at, size_t end,
                                                       size_t *query) {
    size_t found = SIZE_MAX, stop_at = end;
    while (at < end) {
        size_t back = at + WIDTH <= end ? 0 : at + WIDTH - end;
        uint32_t stop, marks;
        if (MR_UNLIKELY(end < WIDTH)) {
            stop = (uint32_t)(bytes[at] <= 0x20 || bytes[at] >= 0x7f || bytes[at] == '#');
            marks = (uint32_t)(bytes[at] == '?');
        } else {
            stop = SCAN_NAME(not_target)(bytes + at - back, &marks) >> back;
            marks >>= back;
        }
        if (marks != 0 && found == SIZE_MAX)
            found = at + (size_t)__builtin_ctz(marks);
        if (stop != 0) {
            stop_at = at + (size_t)__builtin_ctz(stop);
            break;
        }
        at += MR_UNLIKELY(end < WIDTH) ? 1 : WIDTH;
    }
    *query = found < stop_at ? found : stop_at;
    return stop_at;
}

/* The request line; *next is where the field lines begin. */
SCAN_TARGET static inline mr_rc SCAN_NAME(request_line)(mr_h1_job *job, size_t *next) {
    const uint8_t *bytes = job->bytes;
    size_t end = job->end, query;
    size_t start = end >= 2 && bytes[0] == '\r' && bytes[1] == '\n' ? 2 : 0;
    size_t method_end = SCAN_NAME(token_end)(bytes, start, end);
    if (MR_UNLIKELY(method_end >= end || bytes[method_end] != ' ' || method_end == start ||
                    method_end - start > MR_H1_METHOD_MAX))
        return mr_h1_refuse_request_line(job, start);
    size_t target_end = SCAN_NAME(target_end)(bytes, method_end + 1, end, &query);
    const uint8_t *tail = bytes + target_end; /* " HTTP/1.1\r\n" */
    if (MR_UNLIKELY(target_end + 11 > end || target_end - method_end == 1 ||
                    target_end - method_end - 1 > job->limits->target_bytes ||
                    memcmp(tail, " HTTP/1.", 8) != 0 || (uint8_t)(tail[8] - '0') > 9 ||
                    tail[9] != '\r' || tail[10] != '\n'))
        return mr_h1_refuse_request_line(job, start);
    *next = target_end + 11;
    job->head->minor = tail[8] != '0';
    return mr_h1_note_request_line(job, start, method_end, target_end, query);
}

static inline mr_h1_field SCAN_NAME(make_field)(const uint8_t *bytes, size_t line, size_t colon,
                                                size_t cr) {
    size_t value = colon + 1;
    while (bytes[value] == ' ' || bytes[value] == '\t') /* the CR stops it */
        value++;
    while (cr > value && (bytes[cr - 1] == ' ' || bytes[cr - 1] == '\t'))
        cr--;
    return (mr_h1_field){.name_off = (uint16_t)line,
                         .name_len = (uint16_t)(colon - line),
                         .value_off = (uint16_t)value,
                         .value_len = (uint16_t)(cr - value)};
}

SCAN_TARGET static mr_rc SCAN_NAME(walk)(mr_h1_job *job) {
    const uint8_t *bytes = job->bytes;
    size_t end = job->end, line = 0, count = 0;
    mr_rc rc = SCAN_NAME(request_line)(job, &line);
    if (MR_UNLIKELY(rc != MR_OK))
        return rc;
    SCAN_NAME(marks) marks = {.bits = 0, .base = line - 64};
    for (;; count++) {
        if (line + 2 <= end && bytes[line] == '\r' && bytes[line + 1] == '\n')
            return mr_h1_finish(job, line + 2, count);
        if (MR_UNLIKELY(count >= job->limits->header_count))
            return mr_h1_refuse_field_line(job, line, 431);
        size_t colon = SCAN_NAME(token_end)(bytes, line, end);
        if (MR_UNLIKELY(colon == line || colon >= end || bytes[colon] != ':'))
            return mr_h1_refuse_field_line(job, line, 400);
        /* A name has no control octets, so the next one is behind the colon. */
        size_t cr = SCAN_NAME(next_mark)(&marks, bytes, end);
        if (MR_UNLIKELY(cr + 2 > end || bytes[cr] != '\r' || bytes[cr + 1] != '\n'))
            return mr_h1_refuse_field_line(job, line, 400);
        (void)SCAN_NAME(next_mark)(&marks, bytes, end); /* the LF */
        mr_h1_field field = SCAN_NAME(make_field)(bytes, line, colon, cr);
        job->fields[count] = field;
        if (field.name_len < MR_H1_HEEDED_MAX &&
            mr_h1_heeded_initial[field.name_len] == (bytes[line] | 0x20) &&
            (rc = mr_h1_note_field(job, field)) != MR_OK)
            return rc;
        line = cr + 2;
    }
}

#undef WIDTH
#undef SCAN_NAME
#undef SCAN_TARGET
#undef SCAN_WIDTH
