/* ws_frame.h -- frames of RFC 6455: those of a client are parsed where they lie, in whatever pieces
 * they come; those of a server are written.
 * Owns:    nothing.
 * Borrows: the received bytes (and unmasks them in place) and `held`, for the length of one call.
 * Thread:  any; no state outside the arguments.
 * Uses:    proto/ws_mask.h, proto/ws_utf8.h. */
#ifndef MR_PROTO_WS_FRAME_H
#define MR_PROTO_WS_FRAME_H

#include "base/rc.h"
#include "proto/ws_mask.h"
#include "proto/ws_utf8.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum mr_ws_opcode { /* RFC 6455 11.8 */
                            MR_WS_CONTINUATION = 0x0,
                            MR_WS_TEXT = 0x1,
                            MR_WS_BINARY = 0x2,
                            MR_WS_CLOSE = 0x8,
                            MR_WS_PING = 0x9,
                            MR_WS_PONG = 0xa
} mr_ws_opcode;

enum {                             /* close codes, RFC 6455 7.4 */
       MR_WS_CODE_NORMAL = 1000,   /* done */
       MR_WS_CODE_PROTOCOL = 1002, /* the peer broke the protocol */
       MR_WS_CODE_NONE = 1005,     /* never sent: a Close without a code */
       MR_WS_CODE_NOT_UTF8 = 1007, /* a text or a reason that is not UTF-8 */
       MR_WS_CODE_TOO_LARGE = 1009 /* over a limit */
};

#define MR_WS_CONTROL_MAX 125u /* octets of payload of a control frame, RFC 6455 5.5 */
#define MR_WS_REASON_MAX 123u  /* octets of reason in a Close */
#define MR_WS_HEADER_MAX 10u   /* octets of a server's frame header: no mask */
#define MR_WS_CLOSE_MAX (2u + MR_WS_CONTROL_MAX) /* octets of a whole Close frame */

/* ---- frames of a client ---- */

/* What a connection allows: one for all connections of a route, constant while they live. */
typedef struct mr_ws_rules {
    const mr_ws_utf8_scan *utf8; /* mr_ws_utf8_best() */
    uint32_t max_payload;        /* octets of a message, all its fragments together */
    uint32_t max_fragments;      /* frames of a message, empty ones too; at least 1 */
    bool is_deflate;             /* permessage-deflate was agreed on: RSV1 may open a message */
} mr_ws_rules;

/* A compressed message may be larger than what it inflates to, by an eighth where a peer writes
 * nothing but fixed Huffman codes; what it inflates to is the caller's to hold against max_payload.
 * Octets beyond max_payload that are allowed then: max_payload / 8 and this. */
#define MR_WS_DEFLATE_SLACK 64u

/* Parser of one connection. Zeroed: no frame has begun. */
typedef struct mr_ws_frame {
    uint32_t left;          /* payload octets of the current frame still to come; while the header
                               comes, the length as far as it is known */
    mr_ws_mask mask;        /* of the current frame */
    uint32_t message_bytes; /* of the current message, by the headers of its frames so far */
    uint32_t fragments;     /* frames of the current message so far; <= rules->max_fragments */
    uint16_t error;         /* close code to send, 0 while all is well */
    mr_ws_utf8 utf8;        /* of the current message, if it is a text and not compressed */
    uint8_t step;           /* private: which part of a frame comes next */
    uint8_t first;          /* first octet of the current frame */
    uint8_t message;        /* private flags of the current message; 0 between messages */
    uint8_t part;           /* octets of the length, the mask or a held control frame so far */
} mr_ws_frame;
_Static_assert(sizeof(mr_ws_frame) < 32, "stands in every connection");

typedef enum mr_ws_kind {
    MR_WS_ON_DATA,  /* a piece of a message: a frame, or what has come of it */
    MR_WS_ON_PING,  /* answer with a Pong of the same payload */
    MR_WS_ON_PONG,  /* */
    MR_WS_ON_CLOSE, /* the last event: what comes after a Close is dropped */
    MR_WS_ON_HOLD /* a control frame is not all there and `held` was NULL: call again with memory */
} mr_ws_kind;

typedef struct mr_ws_event {
    mr_ws_kind kind;
    bool is_text;       /* data: of a text message, else a binary one */
    bool is_first;      /* data: no piece of this message came before */
    bool is_last;       /* data: the message ends with this piece */
    bool is_compressed; /* data: of a compressed message (RFC 7692); its text is not checked here:
                           the caller takes it through mr_ws_utf8_take() once it is inflated */
    uint16_t code;      /* Close: the code, MR_WS_CODE_NONE without one. After an error: what to
                           close with */
    uint8_t *data;      /* unmasked payload (of a Close: the reason) in `bytes` or in `held` */
    size_t len;         /* 0 in data only when is_last; data may be NULL then */
} mr_ws_event;

/* Consumes from bytes[0..len) up to and including the next event.
 * MR_OK: *consumed octets were taken and *event is filled; call again with the rest. An event is
 * there with its last octet: when all was consumed, nothing more waits.
 * MR_AGAIN: all was taken, more is needed.
 * MR_BADPEER or MR_LIMIT: event->code is what to close with, here and in every call after it. A
 * header is judged octet by octet, before any payload; text fails with the first octet that cannot
 * be.
 * `held`: MR_WS_CONTROL_MAX octets of the connection's own in which a control frame that comes in
 * pieces is put together, or NULL as long as mr_ws_frame_holds() is false. */
mr_rc mr_ws_frame_next(mr_ws_frame *frame, const mr_ws_rules *rules, uint8_t *held, uint8_t *bytes,
                       size_t len, size_t *consumed, mr_ws_event *event) MR_MUST_CHECK;

/* Whether a part of a control frame lies in `held`; else its memory may be taken back. */
bool mr_ws_frame_holds(const mr_ws_frame *frame);

/* ---- frames of a server ---- */

#define MR_WS_FIN 0x80u  /* the last frame of its message */
#define MR_WS_RSV1 0x40u /* with the first frame of a compressed message */

/* Writes the header of a frame with `len` octets of payload; `first` is the opcode with MR_WS_FIN
 * and MR_WS_RSV1. Returns its length, 2 to MR_WS_HEADER_MAX. */
size_t mr_ws_put_header(uint8_t *out, unsigned first, uint64_t len);

/* A message that is sent in frames as it comes into being, such as one that is being compressed. */
typedef struct mr_ws_fragments {
    uint8_t first; /* MR_WS_TEXT or MR_WS_BINARY, with MR_WS_RSV1 if compressed; the writer makes
                      it MR_WS_CONTINUATION once the first frame is out */
} mr_ws_fragments;

/* Header of its next frame, as mr_ws_put_header(). After the last one a new message needs a new
 * state. Control frames may go between. */
size_t mr_ws_put_fragment(mr_ws_fragments *fragments, uint8_t *out, uint64_t len, bool is_last);

/* RFC 7692 7.2: the octets that end the output of a deflate flush. They are not sent, and a
 * receiver puts them behind a message before it inflates it. */
#define MR_WS_DEFLATE_TAIL_BYTES 4u
extern const uint8_t mr_ws_deflate_tail[MR_WS_DEFLATE_TAIL_BYTES];
/* How much of flushed output is to be sent: `len` without the tail, if it ends with it. */
size_t mr_ws_without_tail(const uint8_t *bytes, size_t len);

/* Whether a Close may carry the code: 1000..1003, 1007..1014 and 3000..4999. */
bool mr_ws_is_close_code(uint32_t code);

/* Writes a whole Close frame; MR_WS_CODE_NONE with no reason makes one without payload. Returns its
 * length (2..MR_WS_CLOSE_MAX), or 0 when the code may not be sent, the reason is longer than
 * MR_WS_REASON_MAX or not UTF-8, or there is a reason without a code. */
size_t mr_ws_put_close(uint8_t *out, uint32_t code, const uint8_t *reason, size_t len);

#endif
