/* unsent.h -- the queue of octets that a link could not send yet; shared by the transports.
 * Owns:    copies, and its share of each lease.
 * Thread:  the engine's.
 * Uses:    net/transport.h. */
#ifndef MR_NET_UNSENT_H
#define MR_NET_UNSENT_H

#include "net/transport.h"

/* Queues pieces from their `skip`th octet on. MR_NOMEM: some may be queued; close the link. */
mr_rc mr_unsent_add(mr_mem *mem, mr_link *link, const mr_piece_out *pieces, int count,
                    size_t skip) MR_MUST_CHECK;
/* Takes `sent` octets off the front. */
void mr_unsent_take(mr_mem *mem, mr_link *link, size_t sent);
void mr_unsent_clear(mr_mem *mem, mr_link *link);

#endif
