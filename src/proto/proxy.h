/* proxy.h -- the header of the PROXY protocol, versions 1 (text) and 2 (binary): the first octets
 * of a connection that a proxy opened, naming whose connection it stands for.
 * Owns:    nothing; a function from octets to addresses.
 * Thread:  any; no state. */
#ifndef MR_PROTO_PROXY_H
#define MR_PROTO_PROXY_H

#include "base/rc.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MR_PROXY_V1_MAX 107u       /* octets of a line, its CRLF included */
#define MR_PROXY_V2_FIXED 16u      /* octets in front of the addresses */
#define MR_PROXY_V2_REST_MAX 2048u /* addresses and TLVs together: a limit of ours */
#define MR_PROXY_MAX (MR_PROXY_V2_FIXED + MR_PROXY_V2_REST_MAX)

typedef struct mr_proxy {
    size_t len;      /* octets of the header; what follows is the connection's own */
    bool has_source; /* false (LOCAL, UNKNOWN, not a stream): the socket's own address holds */
    uint8_t family;  /* of the source: 4, 6, or 0 for a unix socket */
    uint16_t port;
    uint8_t address[16]; /* IPv4 (also an IPv4-mapped one) in the first 4 */
} mr_proxy;

/* `bytes` are the connection's first, as far as they have come: called again with more until it
 * does not say MR_AGAIN. MR_BADPEER: this is no such header, and no more octets can make it one.
 * MR_AGAIN is never said of MR_PROXY_MAX octets or more. */
mr_rc mr_proxy_parse(const uint8_t *bytes, size_t len, mr_proxy *out) MR_MUST_CHECK;

#endif
