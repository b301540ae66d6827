/* ws_utf8_body.h -- the walk of a UTF-8 scanner, included once by each of them.
 * The includer defines, and this file undefines again, leaving UTF8_NAME(walk):
 *   UTF8_NAME(f)   the name of f in this scanner: all scanners can share one translation unit
 *   UTF8_TARGET    function attribute that turns the instruction set on, or nothing
 * and two looks at the 64 octets at p:
 *   UTF8_NAME(is_ascii)(p)
 *   UTF8_NAME(is_good)(p)   no octet is wrong behind the (up to 3) octets before it, which lie
 *                           before p; the last sequence may be cut off
 * Octets before p are read again rather than carried from block to block: they are in the cache. */

/* Whether a sequence is cut off right before p. */
static inline bool UTF8_NAME(is_cut)(const uint8_t *p) {
    return p[-1] >= 0xc0 || p[-2] >= 0xe0 || p[-3] >= 0xf0;
}

UTF8_TARGET static inline size_t UTF8_NAME(walk)(const uint8_t *bytes, size_t at, size_t end) {
    for (; end - at >= 64; at += 64) {
        if (MR_LIKELY(UTF8_NAME(is_ascii)(bytes + at))) {
            if (MR_UNLIKELY(UTF8_NAME(is_cut)(bytes + at)))
                break;
        } else if (MR_UNLIKELY(!UTF8_NAME(is_good)(bytes + at))) {
            break;
        }
    }
    return at;
}

#undef UTF8_NAME
#undef UTF8_TARGET
