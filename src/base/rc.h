/* rc.h -- the one result type of the core.
 * A code names what the CALLER does next. Why it happened goes to the engine's fault record;
 * errno never leaves the file that saw it. */
#ifndef MR_BASE_RC_H
#define MR_BASE_RC_H

typedef enum mr_rc {
    MR_OK = 0,  /* done */
    MR_AGAIN,   /* not yet: wait for more bytes or for readiness */
    MR_CLOSED,  /* the peer is gone: release quietly */
    MR_GONE,    /* stale id: ignore */
    MR_LIMIT,   /* over a named limit: 4xx */
    MR_BADPEER, /* the peer broke the protocol: answer 400 (or what `status` says), then close */
    MR_NOMEM,   /* shed this connection, keep the engine */
    MR_INVALID, /* the caller passed something wrong: the binding throws */
    MR_FATAL    /* the engine cannot go on: the binding throws */
} mr_rc;

#if defined(__GNUC__) || defined(__clang__)
#define MR_MUST_CHECK __attribute__((warn_unused_result))
#define MR_LIKELY(x) __builtin_expect(!!(x), 1)
#define MR_UNLIKELY(x) __builtin_expect(!!(x), 0)
#else
#define MR_MUST_CHECK
#define MR_LIKELY(x) (x)
#define MR_UNLIKELY(x) (x)
#endif

#endif
