/* gate.h -- what stands between a request and its answer when the fleet is busy: the rate limit and
 * the overload of this thread's JavaScript; and the answers about the fleet itself, which pass.
 * Thread:  the engine's.
 * Uses:    engine/core.h, engine/fleet.h. */
#ifndef MR_ENGINE_GATE_H
#define MR_ENGINE_GATE_H

#include "engine/core.h"
#include "engine/fleet.h"

typedef struct mr_gate {
    unsigned status; /* 0: go on; 429 or 503 */
    uint32_t retry_s;
} mr_gate;

/* Asked for each request, and again when it has had to wait for room; counted once. */
mr_gate mr_gate_ask(mr_conn *c, const uint8_t *bytes, const mr_h1_head *head,
                    const mr_h1_field *fields, bool is_live, bool is_for_handler);

/* Answers with the fleet's metrics, health or readiness. */
void mr_live_answer(mr_conn *c, uint32_t seq, uint32_t action_flags);

#endif
