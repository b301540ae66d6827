/* host_llhttp.h -- the addresses of the llhttp functions that the node executable exports.
 * Owns:    nothing.
 * Thread:  any.
 * Uses:    the dynamic linker, engine/engine.h. */
#ifndef MR_BINDING_HOST_LLHTTP_H
#define MR_BINDING_HOST_LLHTTP_H

#include "engine/engine.h"

/* Those that the process does not export stay NULL: mr_h1_llhttp_init() then says so. */
void mr_host_llhttp_find(mr_llhttp_api *api);

#endif
