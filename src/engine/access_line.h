/* access_line.h -- what one request looks like in the access log: Common, Combined or JSON.
 * In the first two what a client sent is escaped as \xhh: quotes, backslashes, control characters
 * and all from 0x7f on; in JSON as RFC 8259 has it, with U+FFFD for what is not UTF-8. So one
 * request is one line, whatever it said.
 * Borrows: a record, for the call.
 * Thread:  any; all state is the caller's.
 * Uses:    base/, net/sock.h (mr_peer). */
#ifndef MR_ENGINE_ACCESS_LINE_H
#define MR_ENGINE_ACCESS_LINE_H

#include "net/sock.h"
#include <stddef.h>
#include <stdint.h>

#define MR_ACCESS_LINE_MAX                                                                         \
    4096u /* octets of a line with its LF: what a pipe takes in one piece                          \
           */
/* Octets that a field may take in a line, escapes included; what is longer ends in "...". */
#define MR_ACCESS_METHOD_MAX 32u
#define MR_ACCESS_TARGET_MAX 1536u
#define MR_ACCESS_REFERER_MAX 896u
#define MR_ACCESS_AGENT_MAX 640u
#define MR_ACCESS_HOST_MAX 256u
#define MR_ACCESS_USER_MAX 128u

typedef enum mr_access_style {
    MR_ACCESS_COMMON,   /* peer - user [time] "method target HTTP/1.1" status bytes */
    MR_ACCESS_COMBINED, /* and "referer" "user agent" */
    /* {"time","remote","user","method","target","protocol","status","bytes","duration_us","host",
     * "referer","user_agent"}, always all of them and in this order; null for what there is not */
    MR_ACCESS_JSON
} mr_access_style;

/* Absent when bytes is NULL or len 0. */
typedef struct mr_access_text {
    const uint8_t *bytes;
    size_t len;
} mr_access_text;

typedef struct mr_access_record {
    const mr_peer *peer;
    mr_access_text method, target, referer, user_agent, host, user;
    int64_t received_ms; /* Unix time; 0 .. the end of year 9999, or the nearer bound is shown */
    uint64_t duration_us;
    uint64_t bytes_sent; /* of content */
    uint16_t status;     /* 0 where no answer was sent */
    uint8_t http_major, http_minor;
} mr_access_record;

/* A time as text, rendered once a second; one for each thread, zeroed at first. */
typedef struct mr_access_time {
    int64_t second;
    char common[29]; /* [06/Nov/1994:08:49:37 +0000]; empty: not rendered yet */
    char iso[24];    /* 1994-11-06T08:49:37 and room for .123Z */
} mr_access_time;

/* Any thread, with its own `time`. The line with its LF; returns its length. */
size_t mr_access_format(uint8_t out[MR_ACCESS_LINE_MAX], mr_access_style style,
                        const mr_access_record *record, mr_access_time *time);

#endif
