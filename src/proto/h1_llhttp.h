/* h1_llhttp.h -- the llhttp that Node itself is built with, behind the parser interface.
 * Nothing of llhttp is compiled in: the binding hands over the addresses of its functions, and what
 * else must be known (sizes, which callback slot is which, the number that stands for "paused") is
 * found out by watching it parse known messages. What is seen differs from what is expected: the
 * parser is refused, with a sentence that says why.
 * Accepts and refuses what node:http does, with the exceptions that docs/parsers.md lists.
 * Owns:    nothing; the struct is the whole state. One serves all engines of one thread.
 * Borrows: the api's functions for ever; the bytes for the length of one call.
 * Thread:  one at a time; not re-entrant.
 * Uses:    base/, proto/h1_parse.h. */
#ifndef MR_PROTO_H1_LLHTTP_H
#define MR_PROTO_H1_LLHTTP_H

#include "proto/h1_parse.h"

/* llhttp's functions, as their names say behind "llhttp_". Parser and settings are memory of a size
 * and layout that only llhttp knows. */
typedef struct mr_llhttp_api {
    void (*settings_init)(void *settings);
    void (*init)(void *parser, int type, const void *settings);
    int (*execute)(void *parser, const char *data, size_t len);
    void (*pause)(void *parser);
    void (*resume)(void *parser);
    int (*get_errno)(const void *parser);
    const char *(*errno_name)(int number);
    const char *(*get_error_pos)(const void *parser);
    uint8_t (*get_method)(void *parser);
    const char *(*method_name)(int number);
    uint8_t (*get_http_major)(void *parser);
    uint8_t (*get_http_minor)(void *parser);
    int (*should_keep_alive)(const void *parser);
} mr_llhttp_api;

/* Callbacks that are wanted; where each has its slot is found out. */
typedef enum mr_llhttp_role {
    MR_LLHTTP_URL,
    MR_LLHTTP_FIELD,
    MR_LLHTTP_VALUE,
    MR_LLHTTP_HEADERS_COMPLETE,
    MR_LLHTTP_CHUNK_HEADER,
    MR_LLHTTP_BODY,
    MR_LLHTTP_MESSAGE_COMPLETE,
    MR_LLHTTP_ROLES
} mr_llhttp_role;

#define MR_LLHTTP_SLOTS_MAX 40u      /* 25 in llhttp 9.3 and 9.4 */
#define MR_LLHTTP_SETTINGS_MAX 1024u /* room for the first look; a tenth of it is used */
#define MR_LLHTTP_PARSER_MAX 512u    /* likewise; 96 are used */

struct mr_llhttp_job;

/* All of it private to h1_llhttp.c, but for the sizes and slots: read-only, for tests. Must not be
 * moved: llhttp keeps addresses of its parts, and a callback finds the struct by that of `parser`.
 */
typedef struct mr_h1_llhttp {
    mr_llhttp_api api;
    size_t settings_bytes, parser_bytes;
    uint8_t slots[MR_LLHTTP_ROLES]; /* index of each role's slot */
    int paused;                     /* llhttp's number for it: a callback that returns it stops */
    uint64_t fired;                 /* while slots are told apart: one bit each */
    struct mr_llhttp_job *job;      /* NULL between calls */
    _Alignas(16) uint8_t settings[MR_LLHTTP_SETTINGS_MAX];
    _Alignas(16) uint8_t parser[MR_LLHTTP_PARSER_MAX];
} mr_h1_llhttp;

/* Finds llhttp's layout and proves it on known messages. MR_INVALID: *reason is a sentence (static)
 * that says what is not as expected, and the struct may not be used. */
mr_rc mr_h1_llhttp_init(mr_h1_llhttp *llhttp, const mr_llhttp_api *api,
                        const char **reason) MR_MUST_CHECK;

/* The interface; its `self` is a mr_h1_llhttp. All bytes are looked at anew in every call. */
extern const mr_h1_parser mr_h1_parser_llhttp;

/* A whole message with its content as llhttp reads it by itself: the oracle for our own chunked
 * decoder. MR_OK: *end is where the next message begins. MR_AGAIN: it is not all there. MR_BADPEER:
 * llhttp refused it. `content` has room for len octets. */
mr_rc mr_h1_llhttp_read_message(mr_h1_llhttp *llhttp, const uint8_t *bytes, size_t len,
                                uint8_t *content, size_t *content_len, size_t *end) MR_MUST_CHECK;

#endif
