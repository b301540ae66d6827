/* ws_frame.c -- one frame after the other:
 *
 *   FIRST -> SECOND -> [LENGTH] -> MASK -> PAYLOAD -> FIRST ...       CLOSED: after a Close
 *
 * Each octet of a header is judged when it comes, by the same lines whether it comes alone or with
 * all others, so a split cannot change the verdict. An error is kept and told for good. */
#include "proto/ws_frame.h"
#include "base/check.h"

enum {
    STEP_FIRST,
    STEP_SECOND,
    STEP_LENGTH_2,
    STEP_LENGTH_8,
    STEP_MASK,
    STEP_PAYLOAD,
    STEP_CLOSED
};

enum { /* mr_ws_frame.message */
       IN_MESSAGE = 1u << 0,
       IS_TEXT = 1u << 1,
       IS_COMPRESSED = 1u << 2,
       HAS_BEGUN = 1u << 3 /* a piece of it was told of */
};

enum { RSV = 0x70, RSV1 = 0x40, FIN = 0x80, OPCODE = 0x0f, CONTROL = 0x08, MASKED = 0x80 };

static mr_rc fail(mr_ws_frame *frame, uint16_t code) {
    frame->error = code;
    return code == MR_WS_CODE_TOO_LARGE ? MR_LIMIT : MR_BADPEER;
}

static bool is_control(const mr_ws_frame *frame) { return (frame->first & CONTROL) != 0; }

/* ---- the header ---- */

static mr_rc begin_message(mr_ws_frame *frame, const mr_ws_rules *rules, uint8_t octet) {
    unsigned opcode = octet & OPCODE, rsv = octet & RSV;
    if (frame->message != 0 || (rsv != 0 && !(rsv == RSV1 && rules->is_deflate)))
        return fail(frame, MR_WS_CODE_PROTOCOL);
    frame->message = (uint8_t)(IN_MESSAGE | (opcode == MR_WS_TEXT ? IS_TEXT : 0) |
                               (rsv == RSV1 ? IS_COMPRESSED : 0));
    frame->message_bytes = 0;
    frame->fragments = 0;
    return MR_OK; /* utf8 is at a start: a text that ended was whole */
}

static mr_rc take_first(mr_ws_frame *frame, const mr_ws_rules *rules, uint8_t octet) {
    unsigned opcode = octet & OPCODE;
    frame->first = octet;
    if (opcode >= MR_WS_CLOSE)
        return opcode > MR_WS_PONG || (octet & RSV) != 0 || (octet & FIN) == 0
                   ? fail(frame, MR_WS_CODE_PROTOCOL)
                   : MR_OK;
    if (opcode > MR_WS_BINARY ||
        (opcode == MR_WS_CONTINUATION && (frame->message == 0 || (octet & RSV) != 0)))
        return fail(frame, MR_WS_CODE_PROTOCOL);
    mr_rc rc = opcode == MR_WS_CONTINUATION ? MR_OK : begin_message(frame, rules, octet);
    if (rc != MR_OK)
        return rc;
    if (frame->fragments >= rules->max_fragments)
        return fail(frame, MR_WS_CODE_TOO_LARGE);
    frame->fragments++;
    return MR_OK;
}

/* Octets of a message that its frames may announce. */
static uint64_t payload_limit(const mr_ws_frame *frame, const mr_ws_rules *rules) {
    uint64_t limit = rules->max_payload;
    if ((frame->message & IS_COMPRESSED) != 0)
        limit += limit / 8 + MR_WS_DEFLATE_SLACK;
    return limit < UINT32_MAX ? limit : UINT32_MAX;
}

static mr_rc take_length(mr_ws_frame *frame, const mr_ws_rules *rules, uint32_t length) {
    frame->left = length;
    frame->part = 0;
    frame->step = STEP_MASK;
    if (is_control(frame))
        return MR_OK;
    if (length > payload_limit(frame, rules) - frame->message_bytes)
        return fail(frame, MR_WS_CODE_TOO_LARGE);
    frame->message_bytes += length;
    return MR_OK;
}

static mr_rc take_second(mr_ws_frame *frame, const mr_ws_rules *rules, uint8_t octet) {
    uint8_t length = octet & 0x7f;
    if ((octet & MASKED) == 0 || (is_control(frame) && length > MR_WS_CONTROL_MAX))
        return fail(frame, MR_WS_CODE_PROTOCOL);
    if (length < 126)
        return take_length(frame, rules, length);
    frame->left = 0;
    frame->part = 0;
    frame->step = length == 126 ? STEP_LENGTH_2 : STEP_LENGTH_8;
    return MR_OK;
}

static mr_rc take_length_2(mr_ws_frame *frame, const mr_ws_rules *rules, uint8_t octet) {
    frame->left = frame->left << 8 | octet;
    if (++frame->part < 2)
        return MR_OK;
    return frame->left < 126 ? fail(frame, MR_WS_CODE_PROTOCOL)
                             : take_length(frame, rules, frame->left);
}

/* The upper four octets must be 0: no limit reaches further. Only a length with the top bit is not
 * just too large but no length at all. */
static mr_rc take_length_8(mr_ws_frame *frame, const mr_ws_rules *rules, uint8_t octet) {
    if (frame->part < 4 && octet != 0)
        return fail(frame,
                    frame->part == 0 && octet >= 0x80 ? MR_WS_CODE_PROTOCOL : MR_WS_CODE_TOO_LARGE);
    frame->left = frame->left << 8 | octet;
    if (++frame->part < 8)
        return MR_OK;
    return frame->left <= UINT16_MAX ? fail(frame, MR_WS_CODE_PROTOCOL)
                                     : take_length(frame, rules, frame->left);
}

static void take_mask(mr_ws_frame *frame, uint8_t octet) {
    frame->mask.key[frame->part++] = octet;
    if (frame->part == sizeof frame->mask.key) {
        frame->part = 0;
        frame->step = STEP_PAYLOAD;
    }
}

static mr_rc take_header_octet(mr_ws_frame *frame, const mr_ws_rules *rules, uint8_t octet) {
    switch (frame->step) {
    case STEP_FIRST:
        frame->step = STEP_SECOND;
        return take_first(frame, rules, octet);
    case STEP_SECOND:
        return take_second(frame, rules, octet);
    case STEP_LENGTH_2:
        return take_length_2(frame, rules, octet);
    case STEP_LENGTH_8:
        return take_length_8(frame, rules, octet);
    default:
        take_mask(frame, octet);
        return MR_OK;
    }
}

/* ---- the payload ---- */

static mr_rc check_text(mr_ws_frame *frame, const mr_ws_rules *rules, const uint8_t *bytes,
                        size_t len, bool is_last) {
    if (mr_ws_utf8_take(rules->utf8, &frame->utf8, bytes, len) != len ||
        (is_last && !mr_ws_utf8_is_whole(&frame->utf8)))
        return fail(frame, MR_WS_CODE_NOT_UTF8);
    return MR_OK;
}

/* `len` octets of the frame are there; false in *is_event when there is nothing to tell of. */
static mr_rc take_data(mr_ws_frame *frame, const mr_ws_rules *rules, uint8_t *bytes, size_t len,
                       mr_ws_event *event, bool *is_event) {
    uint8_t message = frame->message;
    mr_ws_unmask(&frame->mask, bytes, len);
    frame->left -= (uint32_t)len;
    bool is_last = frame->left == 0 && (frame->first & FIN) != 0;
    if ((message & (IS_TEXT | IS_COMPRESSED)) == IS_TEXT) {
        mr_rc rc = check_text(frame, rules, bytes, len, is_last);
        if (rc != MR_OK)
            return rc;
    }
    if (frame->left == 0)
        frame->step = STEP_FIRST;
    *is_event = len > 0 || is_last;
    if (!*is_event)
        return MR_OK;
    frame->message = is_last ? 0 : message | HAS_BEGUN;
    *event = (mr_ws_event){.kind = MR_WS_ON_DATA,
                           .is_text = (message & IS_TEXT) != 0,
                           .is_first = (message & HAS_BEGUN) == 0,
                           .is_last = is_last,
                           .is_compressed = (message & IS_COMPRESSED) != 0,
                           .data = bytes,
                           .len = len};
    return MR_OK;
}

static mr_rc read_close(mr_ws_frame *frame, const mr_ws_rules *rules, mr_ws_event *event) {
    mr_ws_utf8 reason = {0};
    frame->step = STEP_CLOSED;
    event->code = MR_WS_CODE_NONE;
    if (event->len == 0)
        return MR_OK;
    if (event->len == 1)
        return fail(frame, MR_WS_CODE_PROTOCOL);
    event->code = (uint16_t)(event->data[0] << 8 | event->data[1]);
    event->data += 2;
    event->len -= 2;
    if (!mr_ws_is_close_code(event->code))
        return fail(frame, MR_WS_CODE_PROTOCOL);
    if (mr_ws_utf8_take(rules->utf8, &reason, event->data, event->len) != event->len ||
        !mr_ws_utf8_is_whole(&reason))
        return fail(frame, MR_WS_CODE_NOT_UTF8);
    return MR_OK;
}

/* The control frame is whole, and unmasked at `bytes`. */
static mr_rc take_control(mr_ws_frame *frame, const mr_ws_rules *rules, uint8_t *bytes, size_t len,
                          mr_ws_event *event) {
    unsigned opcode = frame->first & OPCODE;
    frame->left = 0;
    frame->part = 0;
    frame->step = STEP_FIRST;
    *event = (mr_ws_event){
        .kind = opcode == MR_WS_PING ? MR_WS_ON_PING : MR_WS_ON_PONG, .data = bytes, .len = len};
    if (opcode != MR_WS_CLOSE)
        return MR_OK;
    event->kind = MR_WS_ON_CLOSE;
    return read_close(frame, rules, event);
}

/* ---- one call ---- */

/* `len` octets are there, perhaps none. */
static mr_rc control_payload(mr_ws_frame *frame, const mr_ws_rules *rules, uint8_t *held,
                             uint8_t *bytes, size_t len, size_t *taken, mr_ws_event *event,
                             bool *is_event) {
    size_t here = len < frame->left ? len : frame->left;
    bool is_whole = here == frame->left;
    *taken = here;
    *is_event = is_whole;
    if (frame->part == 0 && is_whole) {
        mr_ws_unmask(&frame->mask, bytes, here);
        return take_control(frame, rules, bytes, here, event);
    }
    if (here == 0)
        return MR_OK;
    if (held == NULL) {
        MR_ASSERT(frame->part == 0); /* else the caller lost what it was to keep */
        *taken = 0;
        *is_event = true;
        *event = (mr_ws_event){.kind = MR_WS_ON_HOLD};
        return MR_OK;
    }
    mr_ws_unmask(&frame->mask, bytes, here);
    memcpy(held + frame->part, bytes, here);
    frame->part = (uint8_t)(frame->part + here);
    frame->left -= (uint32_t)here;
    return is_whole ? take_control(frame, rules, held, frame->part, event) : MR_OK;
}

/* An empty payload is all there as soon as the header is. */
static mr_rc take_payload(mr_ws_frame *frame, const mr_ws_rules *rules, uint8_t *held,
                          uint8_t *bytes, size_t len, size_t *taken, mr_ws_event *event,
                          bool *is_event) {
    if (is_control(frame))
        return control_payload(frame, rules, held, bytes, len, taken, event, is_event);
    *taken = len < frame->left ? len : frame->left;
    *is_event = false;
    if (*taken == 0 && frame->left != 0)
        return MR_OK;
    return take_data(frame, rules, bytes, *taken, event, is_event);
}

mr_rc mr_ws_frame_next(mr_ws_frame *frame, const mr_ws_rules *rules, uint8_t *held, uint8_t *bytes,
                       size_t len, size_t *consumed, mr_ws_event *event) {
    mr_rc rc = frame->error != 0 ? fail(frame, frame->error) : MR_OK;
    bool is_event = false;
    size_t at = 0;
    while (rc == MR_OK && !is_event) {
        if (frame->step == STEP_PAYLOAD) {
            size_t taken = 0;
            rc = take_payload(frame, rules, held, bytes + at, len - at, &taken, event, &is_event);
            at += taken;
            if (rc == MR_OK && !is_event && at == len)
                rc = MR_AGAIN;
        } else if (at == len || frame->step == STEP_CLOSED) {
            at = len; /* RFC 6455 1.4: what follows a Close is not looked at */
            rc = MR_AGAIN;
        } else {
            rc = take_header_octet(frame, rules, bytes[at++]);
        }
    }
    *consumed = at;
    if (rc > MR_AGAIN)
        *event = (mr_ws_event){.kind = MR_WS_ON_CLOSE, .code = frame->error};
    return rc;
}

bool mr_ws_frame_holds(const mr_ws_frame *frame) {
    return frame->step == STEP_PAYLOAD && is_control(frame) && frame->part > 0;
}

/* ---- writing ---- */

static size_t put_big_endian(uint8_t *out, uint64_t value, size_t octets) {
    for (size_t i = 0; i < octets; i++)
        out[i] = (uint8_t)(value >> 8 * (octets - 1 - i));
    return octets;
}

size_t mr_ws_put_header(uint8_t *out, unsigned first, uint64_t len) {
    out[0] = (uint8_t)first;
    out[1] = (uint8_t)(len < 126 ? len : len <= UINT16_MAX ? 126 : 127);
    return 2 + (len < 126           ? 0
                : len <= UINT16_MAX ? put_big_endian(out + 2, len, 2)
                                    : put_big_endian(out + 2, len, 8));
}

size_t mr_ws_put_fragment(mr_ws_fragments *fragments, uint8_t *out, uint64_t len, bool is_last) {
    unsigned first = fragments->first | (is_last ? MR_WS_FIN : 0u);
    fragments->first = MR_WS_CONTINUATION;
    return mr_ws_put_header(out, first, len);
}

const uint8_t mr_ws_deflate_tail[MR_WS_DEFLATE_TAIL_BYTES] = {0x00, 0x00, 0xff, 0xff};

size_t mr_ws_without_tail(const uint8_t *bytes, size_t len) {
    const size_t tail = MR_WS_DEFLATE_TAIL_BYTES;
    bool has_tail = len >= tail && memcmp(bytes + len - tail, mr_ws_deflate_tail, tail) == 0;
    return has_tail ? len - tail : len;
}

/* 1004 is reserved, 1005, 1006 and 1015 are never sent, 1012 to 1014 stand in IANA's registry. */
bool mr_ws_is_close_code(uint32_t code) {
    return (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014) ||
           (code >= 3000 && code <= 4999);
}

size_t mr_ws_put_close(uint8_t *out, uint32_t code, const uint8_t *reason, size_t len) {
    mr_ws_utf8 text = {0};
    if (code == MR_WS_CODE_NONE)
        return len == 0 ? mr_ws_put_header(out, MR_WS_FIN | MR_WS_CLOSE, 0) : 0;
    if (!mr_ws_is_close_code(code) || len > MR_WS_REASON_MAX)
        return 0;
    if (mr_ws_utf8_take(&mr_ws_utf8_scalar, &text, reason, len) != len ||
        !mr_ws_utf8_is_whole(&text))
        return 0;
    size_t at = mr_ws_put_header(out, MR_WS_FIN | MR_WS_CLOSE, 2 + len);
    at += put_big_endian(out + at, code, 2);
    if (len > 0)
        memcpy(out + at, reason, len);
    return at + len;
}
