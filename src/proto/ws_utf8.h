/* ws_utf8.h -- whether text is UTF-8 (RFC 3629), told octet for octet as it comes in pieces.
 * The pieces may be cut anywhere, inside a sequence too. An octet that no continuation could make
 * good is found at once, not at the end of its sequence (RFC 6455 8.1).
 * Owns:    nothing.
 * Borrows: the bytes, for the length of one call.
 * Thread:  any; no state outside the arguments. */
#ifndef MR_PROTO_WS_UTF8_H
#define MR_PROTO_WS_UTF8_H

#include "base/rc.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where in a sequence the text stands. Zeroed: at the start of a text. `low` and `high` bound the
 * next octet and hold only while `need` is not 0: overlong forms, surrogates and what is past
 * U+10FFFF all show in the second octet of their sequence. */
typedef struct mr_ws_utf8 {
    uint8_t need; /* octets that the open sequence still lacks: 0..3 */
    uint8_t low, high;
} mr_ws_utf8;
_Static_assert(sizeof(mr_ws_utf8) <= 8, "stands in every connection");

/* One way to look: like mr_h1_scan, a table of pointers beyond the budget of src/STYLE.md, because
 * the instruction sets differ and the CPU is known only at run time. */
typedef struct mr_ws_utf8_scan {
    const char *name;
    bool (*is_supported)(void); /* by this CPU */
    /* `at` is between two characters, and 3 octets or more lie before it. Returns a place p in
     * at..end, up to which nothing is wrong but that a sequence may be cut off there; what is
     * between p and `end` is not judged. */
    size_t (*skip)(const uint8_t *bytes, size_t at, size_t end);
} mr_ws_utf8_scan;

/* The fastest of this CPU: "avx2", "sse2", "neon" or "scalar". Ask once and keep it. */
const mr_ws_utf8_scan *mr_ws_utf8_best(void);
/* One by name, NULL when this CPU or build has none: for tests. */
const mr_ws_utf8_scan *mr_ws_utf8_named(const char *name);

/* Takes the next octets of a text. Returns len, or the index of the first octet with which the text
 * can no longer become UTF-8; the state is then the one before that octet. */
size_t mr_ws_utf8_take(const mr_ws_utf8_scan *scan, mr_ws_utf8 *state, const uint8_t *bytes,
                       size_t len) MR_MUST_CHECK;

/* Whether the text may end here. */
static inline bool mr_ws_utf8_is_whole(const mr_ws_utf8 *state) { return state->need == 0; }

extern const mr_ws_utf8_scan mr_ws_utf8_scalar;
#if defined(__x86_64__)
extern const mr_ws_utf8_scan mr_ws_utf8_sse2;
extern const mr_ws_utf8_scan mr_ws_utf8_avx2;
#elif defined(__aarch64__)
extern const mr_ws_utf8_scan mr_ws_utf8_neon;
#endif

#endif
