/* h1_chunked.c -- the chunked transfer coding, RFC 9112 7.1, octet by octet outside the data.
 *
 *   SIZE_FIRST -> SIZE -> [extension states] -> SIZE_LF -> DATA -> DATA_CR -> DATA_LF -> SIZE_FIRST
 *                                                 `-> (size 0) LINE_FIRST <-> trailer states
 *                                                        `-> LAST_LF -> DONE
 *
 * A step looks at one octet and names the next state; FAILED is final. Nothing is remembered but
 * the state and the counters, so a split cannot change the verdict. */
#include "base/text.h"
#include "proto/h1_parse.h"

enum { /* mr_h1_chunked.state */
       SIZE_FIRST = 0,
       SIZE,
       SIZE_SPACE, /* behind the size or an extension value: only an extension may follow */
       NAME_FIRST, /* behind the ";" */
       NAME,
       NAME_SPACE,
       VALUE_FIRST, /* behind the "=" */
       VALUE,
       QUOTED,
       QUOTED_PAIR,
       QUOTED_END,
       SIZE_LF, /* the last state of a size line */
       DATA,
       DATA_CR,
       DATA_LF,
       LINE_FIRST, /* of a trailer line */
       LINE_NAME,
       LINE_VALUE,
       LINE_LF,
       LAST_LF, /* the last state of the trailer section */
       DONE,
       FAILED
};

static bool is_blank(uint8_t c) { return c == ' ' || c == '\t'; }

/* Field content and quoted text: anything but control octets; HTAB is fine. */
static bool is_text(uint8_t c) { return (c >= 0x20 && c != 0x7f) || c == '\t'; }

/* What may follow a size or a complete extension. */
static uint8_t step_behind(uint8_t c) {
    if (c == '\r')
        return SIZE_LF;
    if (c == ';')
        return NAME_FIRST;
    return is_blank(c) ? SIZE_SPACE : FAILED;
}

static uint8_t step_size(mr_h1_chunked *ch, uint8_t c) {
    int digit = mr_hex_value(c);
    if (digit < 0)
        return ch->state == SIZE ? step_behind(c) : FAILED;
    if (ch->left > (uint64_t)INT64_MAX >> 4)
        return FAILED;
    ch->left = ch->left << 4 | (uint64_t)digit;
    return SIZE;
}

/* Behind the size: *( BWS ";" BWS token [ BWS "=" BWS ( token / quoted-string ) ] ) CRLF */
static uint8_t step_extension(const mr_h1_chunked *ch, uint8_t c) {
    switch (ch->state) {
    case SIZE_SPACE:
        return is_blank(c) ? SIZE_SPACE : c == ';' ? NAME_FIRST : FAILED;
    case NAME_FIRST:
        return is_blank(c) ? NAME_FIRST : mr_is_tchar(c) ? NAME : FAILED;
    case NAME:
        if (mr_is_tchar(c))
            return NAME;
        return c == '=' ? VALUE_FIRST : is_blank(c) ? NAME_SPACE : step_behind(c);
    case NAME_SPACE:
        if (is_blank(c))
            return NAME_SPACE;
        return c == '=' ? VALUE_FIRST : c == ';' ? NAME_FIRST : FAILED;
    case VALUE_FIRST:
        if (mr_is_tchar(c))
            return VALUE;
        return is_blank(c) ? VALUE_FIRST : c == '"' ? QUOTED : FAILED;
    case VALUE:
        return mr_is_tchar(c) ? VALUE : step_behind(c);
    case QUOTED:
        return c == '"' ? QUOTED_END : c == '\\' ? QUOTED_PAIR : is_text(c) ? QUOTED : FAILED;
    case QUOTED_PAIR:
        return is_text(c) ? QUOTED : FAILED;
    default: /* QUOTED_END */
        return step_behind(c);
    }
}

static uint8_t step_size_line(mr_h1_chunked *ch, uint8_t c) {
    if (ch->state == SIZE_LF)
        return c != '\n' ? FAILED : ch->left > 0 ? DATA : LINE_FIRST;
    if (c != '\r' && ++ch->line_bytes > MR_CHUNK_LINE_MAX)
        return FAILED;
    return ch->state <= SIZE ? step_size(ch, c) : step_extension(ch, c);
}

static uint8_t step_data_end(mr_h1_chunked *ch, uint8_t c) {
    if (ch->state == DATA_CR)
        return c == '\r' ? DATA_LF : FAILED;
    if (c != '\n')
        return FAILED;
    ch->line_bytes = 0;
    return SIZE_FIRST;
}

static uint8_t step_trailer(mr_h1_chunked *ch, const mr_h1_limits *limits, uint8_t c) {
    bool begins_field = ch->state == LINE_FIRST && c != '\r';
    if (++ch->trailer_bytes > limits->header_bytes ||
        (begins_field && ch->trailer_count >= limits->header_count)) {
        ch->status = 431;
        return FAILED;
    }
    switch (ch->state) {
    case LINE_FIRST:
        if (c == '\r')
            return LAST_LF;
        ch->trailer_count++;
        return mr_is_tchar(c) ? LINE_NAME : FAILED;
    case LINE_NAME:
        return c == ':' ? LINE_VALUE : mr_is_tchar(c) ? LINE_NAME : FAILED;
    case LINE_VALUE:
        return c == '\r' ? LINE_LF : is_text(c) ? LINE_VALUE : FAILED;
    case LINE_LF:
        return c == '\n' ? LINE_FIRST : FAILED;
    default: /* LAST_LF */
        return c == '\n' ? DONE : FAILED;
    }
}

/* One octet outside the chunk data. */
static void step(mr_h1_chunked *ch, const mr_h1_limits *limits, uint8_t c) {
    if (ch->state <= SIZE_LF)
        ch->state = step_size_line(ch, c);
    else if (ch->state <= DATA_LF)
        ch->state = step_data_end(ch, c);
    else
        ch->state = step_trailer(ch, limits, c);
}

/* Gives what there is of the current chunk. */
static size_t take_data(mr_h1_chunked *ch, size_t room) {
    size_t len = ch->left < room ? (size_t)ch->left : room;
    ch->left -= len;
    if (ch->left == 0)
        ch->state = DATA_CR;
    return len;
}

mr_rc mr_h1_chunked_next(mr_h1_chunked *ch, const mr_h1_limits *limits, const uint8_t *bytes,
                         size_t len, size_t *consumed, const uint8_t **data, size_t *data_len,
                         bool *is_done) {
    size_t at = 0;
    *data = bytes;
    *data_len = 0;
    while (at < len && ch->state != DATA && ch->state < DONE)
        step(ch, limits, bytes[at++]);
    *is_done = ch->state == DONE;
    if (ch->state == DATA && at < len) {
        *data = bytes + at;
        *data_len = take_data(ch, len - at);
        *consumed = at + *data_len;
        return MR_OK;
    }
    *consumed = at;
    if (ch->state != FAILED)
        return *is_done ? MR_OK : MR_AGAIN;
    if (ch->status == 0)
        ch->status = 400;
    return ch->status == 431 ? MR_LIMIT : MR_BADPEER;
}
