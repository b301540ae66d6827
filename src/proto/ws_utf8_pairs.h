/* ws_utf8_pairs.h -- the three look-ups by which ws_utf8_avx2.c and ws_utf8_neon.c judge a pair of
 * neighbouring octets, `a` and then `b`. A table each for the high half of a, the low half of a and
 * the high half of b gives the faults that this half leaves possible; what all three leave is so.
 * PAIR_FOLLOWS is no fault if an octet further back asks for it: the top bit, so that it can be set
 * against the comparison of those octets. */
#ifndef MR_PROTO_WS_UTF8_PAIRS_H
#define MR_PROTO_WS_UTF8_PAIRS_H

enum {
    PAIR_CUT = 0x01,       /* a lead, then no continuation */
    PAIR_STRAY = 0x02,     /* ASCII, then a continuation */
    PAIR_LONG_2 = 0x04,    /* c0, c1: an overlong form of two octets */
    PAIR_LONG_3 = 0x08,    /* e0 80..9f: of three */
    PAIR_SURROGATE = 0x10, /* ed a0..bf */
    PAIR_PAST = 0x20,      /* f4 90..bf and f5..ff 90..bf: past U+10FFFF */
    PAIR_EDGE = 0x40,      /* f0 80..8f: overlong; f5..ff 80..8f: past U+10FFFF */
    PAIR_FOLLOWS = 0x80    /* two continuations */
};

/* Every low half has these: they hang on the high halves alone. */
#define PAIR_ANY (PAIR_CUT | PAIR_STRAY | PAIR_FOLLOWS)
#define PAIR_HIGH (PAIR_ANY | PAIR_PAST | PAIR_EDGE)

#define PAIR_A_HIGH                                                                                \
    PAIR_STRAY, PAIR_STRAY, PAIR_STRAY, PAIR_STRAY, PAIR_STRAY, PAIR_STRAY, PAIR_STRAY,            \
        PAIR_STRAY, PAIR_FOLLOWS, PAIR_FOLLOWS, PAIR_FOLLOWS, PAIR_FOLLOWS,                        \
        PAIR_CUT | PAIR_LONG_2, PAIR_CUT, PAIR_CUT | PAIR_LONG_3 | PAIR_SURROGATE,                 \
        PAIR_CUT | PAIR_PAST | PAIR_EDGE

#define PAIR_A_LOW                                                                                 \
    PAIR_ANY | PAIR_LONG_2 | PAIR_LONG_3 | PAIR_EDGE, PAIR_ANY | PAIR_LONG_2, PAIR_ANY, PAIR_ANY,  \
        PAIR_ANY | PAIR_PAST, PAIR_HIGH, PAIR_HIGH, PAIR_HIGH, PAIR_HIGH, PAIR_HIGH, PAIR_HIGH,    \
        PAIR_HIGH, PAIR_HIGH, PAIR_HIGH | PAIR_SURROGATE, PAIR_HIGH, PAIR_HIGH

#define PAIR_B_8 (PAIR_STRAY | PAIR_FOLLOWS | PAIR_LONG_2 | PAIR_LONG_3 | PAIR_EDGE)
#define PAIR_B_9 (PAIR_STRAY | PAIR_FOLLOWS | PAIR_LONG_2 | PAIR_LONG_3 | PAIR_PAST)
#define PAIR_B_A (PAIR_STRAY | PAIR_FOLLOWS | PAIR_LONG_2 | PAIR_SURROGATE | PAIR_PAST)

#define PAIR_B_HIGH                                                                                \
    PAIR_CUT, PAIR_CUT, PAIR_CUT, PAIR_CUT, PAIR_CUT, PAIR_CUT, PAIR_CUT, PAIR_CUT, PAIR_B_8,      \
        PAIR_B_9, PAIR_B_A, PAIR_B_A, PAIR_CUT, PAIR_CUT, PAIR_CUT, PAIR_CUT

#endif
