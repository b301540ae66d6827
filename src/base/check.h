/* check.h -- assertions on what WE promise. They stay on in release builds.
 * Input from a peer or from JavaScript is never asserted: it is answered. */
#ifndef MR_BASE_CHECK_H
#define MR_BASE_CHECK_H

#include <stdio.h>
#include <stdlib.h>

#define MR_ASSERT(claim)                                                                           \
    do {                                                                                           \
        if (__builtin_expect(!(claim), 0)) {                                                       \
            fprintf(stderr, "millrace: broken invariant: %s (%s:%d)\n", #claim, __FILE__,          \
                    __LINE__);                                                                     \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

/* Checks that cost more than they find in production run in debug builds only. */
#ifdef MR_DEBUG
#define MR_DEBUG_ASSERT(claim) MR_ASSERT(claim)
#else
#define MR_DEBUG_ASSERT(claim) ((void)0)
#endif

#endif
