/* ws_accept.h -- the opening handshake of RFC 6455 from the server's side, with the negotiation of
 * permessage-deflate (RFC 7692): from a parsed request head to what the answer has to say.
 * Owns:    nothing.
 * Borrows: the head, its fields and bytes; the spans of the result point there.
 * Thread:  any; no state outside the arguments.
 * Uses:    proto/h1_parse.h. */
#ifndef MR_PROTO_WS_ACCEPT_H
#define MR_PROTO_WS_ACCEPT_H

#include "proto/h1_parse.h"

#define MR_WS_KEY_BYTES 24u      /* base64 of the 16 octets of a Sec-WebSocket-Key */
#define MR_WS_ACCEPT_BYTES 28u   /* base64 of a SHA-1 */
#define MR_WS_PROTOCOLS_MAX 32u  /* subprotocols that a request may offer; with more it is 400 */
#define MR_WS_EXTENSION_MAX 136u /* octets of the answer's extension text, all parameters in it */

#define MR_WS_BITS_LEAST 8u /* of a window, RFC 7692 7.1.2: 256 octets */
#define MR_WS_BITS_MOST 15u /* 32 KiB, and what holds when nothing is said */

/* What a route wants of permessage-deflate. */
typedef struct mr_ws_deflate_wishes {
    bool is_wanted;            /* false: all offers are declined */
    bool server_takeover;      /* our side may keep its window from message to message */
    bool client_takeover;      /* the client may */
    uint8_t server_bits;       /* our window at most, 8..15 */
    uint8_t server_bits_least; /* our window at least: an offer that asks for less is declined. zlib
                                  cannot compress with 8 */
    uint8_t client_bits;       /* the client's window at most, 8..15; only a client that offers
                                  client_max_window_bits can be told */
} mr_ws_deflate_wishes;

/* What was agreed on. */
typedef struct mr_ws_deflate {
    bool is_on;
    bool server_takeover; /* false: our window is emptied after each message */
    bool client_takeover; /* false: so is the client's */
    uint8_t server_bits;  /* our window, 8..15 */
    uint8_t client_bits;  /* the window that its messages need at most, 8..15; may be more than was
                             wished */
} mr_ws_deflate;

typedef struct mr_ws_span { /* of the bytes that the head was parsed from */
    uint16_t off, len;
} mr_ws_span;

typedef struct mr_ws_accept {
    uint16_t status; /* 101, 400, or 426: then the answer has Sec-WebSocket-Version: 13 and
                        Upgrade: websocket */
    const char *why; /* what is wrong with the request, for people; NULL with 101 */
    uint8_t accept[MR_WS_ACCEPT_BYTES]; /* value of Sec-WebSocket-Accept */
    uint8_t protocol_count;
    mr_ws_span protocols[MR_WS_PROTOCOLS_MAX]; /* offered, in the client's order */
    mr_ws_deflate deflate;
    uint8_t extension_len;                  /* 0: the answer has no Sec-WebSocket-Extensions */
    uint8_t extension[MR_WS_EXTENSION_MAX]; /* its value */
} mr_ws_accept;

/* Judges a request by RFC 6455 4.2.1. Of the offers of permessage-deflate the first acceptable one
 * is taken; those with unknown, repeated or bad parameters are declined (RFC 7692 7), and a field
 * that is no list of extensions at all is 400 (RFC 6455 9.1). Status 101 means the request is
 * sound: whether it is welcome is for the caller to say. */
void mr_ws_judge(const uint8_t *bytes, const mr_h1_head *head, const mr_h1_field *fields,
                 const mr_ws_deflate_wishes *wishes, mr_ws_accept *out);

/* Index in out->protocols of a subprotocol, compared octet by octet, or -1. */
int mr_ws_find_protocol(const uint8_t *bytes, const mr_ws_accept *accept, const char *name,
                        size_t len);

#endif
