/* ws_utf8.c -- the verdict is always that of step(), one octet at a time. The scanners only skip
 * what is certainly good; behind the place where they stop, the last characters are walked again,
 * so that the state and the index of the first bad octet are those of step() alone. */
#include "proto/ws_utf8.h"
#include <string.h>

#if defined(__x86_64__)
static const mr_ws_utf8_scan *const scans[] = {&mr_ws_utf8_avx2, &mr_ws_utf8_sse2,
                                               &mr_ws_utf8_scalar};
#elif defined(__aarch64__)
static const mr_ws_utf8_scan *const scans[] = {&mr_ws_utf8_neon, &mr_ws_utf8_scalar};
#else
static const mr_ws_utf8_scan *const scans[] = {&mr_ws_utf8_scalar};
#endif

#define SCAN_COUNT (sizeof scans / sizeof scans[0])
#define SKIP_MIN 64u /* octets: below, a scanner has nothing to skip */
#define BEFORE 3u    /* octets that a scanner looks back */

const mr_ws_utf8_scan *mr_ws_utf8_best(void) {
    size_t i = 0;
    while (i + 1 < SCAN_COUNT && !scans[i]->is_supported())
        i++;
    return scans[i];
}

const mr_ws_utf8_scan *mr_ws_utf8_named(const char *name) {
    for (size_t i = 0; i < SCAN_COUNT; i++)
        if (strcmp(scans[i]->name, name) == 0)
            return scans[i]->is_supported() ? scans[i] : NULL;
    return NULL;
}

static bool open_sequence(mr_ws_utf8 *state, uint8_t lead) {
    if (lead < 0xc2 || lead > 0xf4)
        return false;
    state->need = lead < 0xe0 ? 1 : lead < 0xf0 ? 2 : 3;
    state->low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    state->high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
    return true;
}

/* False, and nothing changed, when the octet cannot stand here. */
static inline bool step(mr_ws_utf8 *state, uint8_t octet) {
    if (state->need == 0)
        return octet < 0x80 || open_sequence(state, octet);
    if (octet < state->low || octet > state->high)
        return false;
    state->need--;
    state->low = 0x80;
    state->high = 0xbf;
    return true;
}

static inline bool is_ascii_word(const uint8_t *p) {
    uint64_t word;
    memcpy(&word, p, sizeof word);
    return (word & UINT64_C(0x8080808080808080)) == 0;
}

/* Where step() has to begin again when a scanner stopped at `at`: the start of the character that
 * ends or is cut off there. Three continuations end a character of four octets: nothing is open. */
static size_t last_start(const uint8_t *bytes, size_t from, size_t at) {
    for (size_t back = 1; back <= BEFORE && at - from >= back; back++)
        if ((bytes[at - back] & 0xc0) != 0x80)
            return at - back;
    return at;
}

static size_t skip(const mr_ws_utf8_scan *scan, mr_ws_utf8 *state, const uint8_t *bytes, size_t at,
                   size_t len) {
    while (at < len && (at < BEFORE || state->need != 0)) {
        if (!step(state, bytes[at]))
            return at;
        at++;
    }
    return at < len ? last_start(bytes, at, scan->skip(bytes, at, len)) : at;
}

size_t mr_ws_utf8_take(const mr_ws_utf8_scan *scan, mr_ws_utf8 *state, const uint8_t *bytes,
                       size_t len) {
    size_t at = len < SKIP_MIN ? 0 : skip(scan, state, bytes, 0, len);
    while (at < len) {
        if (state->need == 0 && len - at >= 8 && is_ascii_word(bytes + at)) {
            at += 8;
            continue;
        }
        if (!step(state, bytes[at]))
            return at;
        at++;
    }
    return len;
}

/* The twin that the others are held against: skips nothing. */
static size_t scalar_skip(const uint8_t *bytes, size_t at, size_t end) {
    (void)bytes;
    (void)end;
    return at;
}

static bool scalar_is_supported(void) { return true; }

const mr_ws_utf8_scan mr_ws_utf8_scalar = {
    .name = "scalar", .is_supported = scalar_is_supported, .skip = scalar_skip};
