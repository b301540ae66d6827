/* reply.h -- a response whose fixed part was made once: constants and compiled templates.
 * Owns:    the head, the body or the parts.
 * Thread:  the engine's.
 * Uses:    base/, proto/h1_parse.h, proto/url.h, engine/route.h (mr_param). */
#ifndef MR_ENGINE_REPLY_H
#define MR_ENGINE_REPLY_H

#include "base/buf.h"
#include "proto/h1_parse.h"

typedef enum mr_escape { /* how a placeholder's decoded text is written */
    MR_ESCAPE_NONE,
    MR_ESCAPE_HTML, /* & < > " ' as entities */
    MR_ESCAPE_JSON  /* a whole JSON string literal, quotes included */
} mr_escape;

typedef enum mr_part_kind {
    MR_PART_LITERAL, /* text as it is */
    MR_PART_PARAM,   /* decodeURIComponent of a route param */
    MR_PART_QUERY,   /* URLSearchParams.get(name), or the fallback */
    MR_PART_HEADER   /* a request field, or the fallback; latin1 made UTF-8; several field lines
                        of a name joined by ", " ("; " for cookie), but the first only of those
                        that node:http keeps single (content-type, user-agent, ...) */
} mr_part_kind;

typedef struct mr_part {
    mr_part_kind kind;
    uint32_t param_index; /* PARAM */
    uint8_t *text;        /* owned; LITERAL: octets; QUERY: name; HEADER: lower-case name */
    size_t text_len;
    uint8_t *fallback; /* owned, already escaped; NULL: nothing (JSON always has one: "") */
    size_t fallback_len;
} mr_part;

#define MR_REPLY_PARTS_MAX 64u

typedef struct mr_reply {
    mr_mem *mem;         /* borrowed */
    uint32_t references; /* the route table's, and those of JavaScript's templates */
    uint16_t status;
    uint8_t flags;     /* MR_REPLY_HAS_DATE: the head brings its own Date field */
    uint8_t escape;    /* mr_escape, for all placeholders; NONE from create: the maker of a template
                          sets it before the first part, as fallbacks are escaped when added */
    uint8_t *head;     /* owned: status line and fields, each line with its CRLF; no Content-Length,
                          Connection, and (without HAS_DATE) Date */
    size_t head_len;
    uint8_t *body; /* owned; a constant's content; NULL for a template */
    size_t body_len;
    mr_part *parts; /* owned; NULL for a constant */
    uint32_t part_count;
    uint32_t part_cap;
} mr_reply;

enum { MR_REPLY_HAS_DATE = 1u << 0 };

/* What placeholders are filled from; all borrowed for the call. */
typedef struct mr_reply_input {
    const uint8_t *bytes; /* the request head */
    const mr_h1_head *head;
    const mr_h1_field *fields;
    const uint8_t *path;      /* what param offsets count from */
    const struct mr_param *params; /* of route.h */
    uint32_t param_count;
} mr_reply_input;

/* References start at one. Copies what it is given; `body` NULL: none (yet). NULL: memory short. */
mr_reply *mr_reply_create(mr_mem *mem, uint16_t status, uint8_t flags, const uint8_t *head,
                          size_t head_len, const uint8_t *body, size_t body_len) MR_MUST_CHECK;
void mr_reply_retain(mr_reply *reply);
void mr_reply_release(mr_reply *reply); /* accepts NULL; frees at zero */

/* Turns the reply into a template by its first part. `text` and `fallback` are copied; the fallback
 * (NULL: none) is escaped here, once; a LITERAL has none. MR_INVALID: over MR_REPLY_PARTS_MAX, or
 * the reply has a body. MR_NOMEM leaves the reply as it was. */
mr_rc mr_reply_add_part(mr_reply *reply, mr_part_kind kind, uint32_t param_index,
                        const uint8_t *text, size_t text_len, const uint8_t *fallback,
                        size_t fallback_len) MR_MUST_CHECK;

/* Appends a template's content for one request to `out`; nothing for a constant. A field or query
 * name that is there with an empty value is there: no fallback. A param beyond param_count is not.
 * MR_NOMEM, or MR_BADPEER for a param that does not decode (the router has refused those already);
 * both leave the content of `out` as it was. */
mr_rc mr_reply_render(const mr_reply *reply, const mr_reply_input *input, mr_mem *mem,
                      mr_buf *out) MR_MUST_CHECK;

#endif
