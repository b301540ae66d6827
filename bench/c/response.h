/* response.h -- finds where one HTTP/1.1 response ends, and what it says, for a client that
 * knows what it asked for. Not a validator: it reads what servers under test send.
 * Owns:    nothing on the heap; the cache is embedded by its user.
 * Borrows: the received bytes, for the length of a call.
 * Thread:  any, one at a time per cache.
 * Uses:    libc. */
#ifndef BENCH_RESPONSE_H
#define BENCH_RESPONSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum {
    MR_RESPONSE_DONE, /* out is complete */
    MR_RESPONSE_MORE, /* call again with the same bytes and more */
    MR_RESPONSE_BAD,  /* no response that this client can delimit */
} mr_response_rc;

typedef struct mr_response {
    int status;
    bool is_chunked;
    bool is_until_eof; /* delimited by the end of the connection alone */
    bool closes;       /* Connection: close */
    size_t head_bytes;
    size_t body_bytes;  /* as sent: chunk framing counts */
    size_t total_bytes; /* head and body */
} mr_response;

/* Remembers the last head, so that the next one, which differs in its Date at most, costs two
 * compares and no scan. A generator must cost less than what it measures. */
#define MR_RESPONSE_CACHED_BYTES 1024
typedef struct mr_response_cache {
    mr_response parsed; /* of the remembered head; its head_bytes is 0 when there is none */
    size_t date_at;     /* value of Date; equals date_end when there is none */
    size_t date_end;
    uint8_t head[MR_RESPONSE_CACHED_BYTES];
} mr_response_cache;

/* Reads the response that starts at p. `at_eof` says that no byte will follow. Answers MORE or
 * BAD without touching out's meaning: read it after DONE only. 1xx responses are BAD. */
mr_response_rc mr_response_parse(mr_response_cache *cache, const uint8_t *p, size_t size,
                                 bool at_eof, mr_response *out);

/* True when the body, taken out of its chunks, is exactly these bytes. */
bool mr_response_body_is(const mr_response *r, const uint8_t *p, const void *body, size_t size);

#endif
