/* ws_mask.h -- takes the mask of RFC 6455 5.3 off octets where they lie.
 * The key is kept turned so that its first octet is the one for the next octet of payload: a frame
 * may come in pieces of any length, and no count of them is needed.
 * Thread:  any; no state outside the arguments. */
#ifndef MR_PROTO_WS_MASK_H
#define MR_PROTO_WS_MASK_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct mr_ws_mask {
    uint8_t key[4]; /* in the order of the wire, turned */
} mr_ws_mask;

/* The key as it applies `octets` later. */
static inline mr_ws_mask mr_ws_mask_turned(mr_ws_mask mask, size_t octets) {
    mr_ws_mask turned;
    for (size_t i = 0; i < 4; i++)
        turned.key[i] = mask.key[(octets + i) & 3];
    return turned;
}

/* Unmasks len octets and turns the key. By words, four to a step: compilers make vectors of that.
 */
static inline void mr_ws_unmask(mr_ws_mask *mask, uint8_t *bytes, size_t len) {
    uint64_t word[4], twice = 0;
    size_t at = 0;
    memcpy(&twice, mask->key, 4);
    memcpy((uint8_t *)&twice + 4, mask->key, 4);
    for (; len - at >= sizeof word; at += sizeof word) {
        memcpy(word, bytes + at, sizeof word);
        for (size_t i = 0; i < 4; i++)
            word[i] ^= twice;
        memcpy(bytes + at, word, sizeof word);
    }
    for (; len - at >= 8; at += 8) {
        memcpy(word, bytes + at, 8);
        word[0] ^= twice;
        memcpy(bytes + at, word, 8);
    }
    for (; at < len; at++)
        bytes[at] ^= mask->key[at & 3];
    if ((len & 3) != 0)
        *mask = mr_ws_mask_turned(*mask, len);
}

#endif
