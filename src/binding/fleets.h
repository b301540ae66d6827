/* fleets.h -- what this copy of the addon shares between the environments of its process: the
 * fleets, by their numbers. The only mutable statics of the binding, because nothing else reaches
 * from one environment to another; and how many copies of the addon there are, because each has its
 * own. Thread:  any. */
#ifndef MR_BINDING_FLEETS_H
#define MR_BINDING_FLEETS_H

#include "engine/fleet.h"

#define MR_FLEETS_MAX 256u /* of one process, at one time */

/* Creates a fleet under a number of its own. MR_LIMIT: MR_FLEETS_MAX; MR_INVALID, MR_NOMEM. */
mr_rc mr_fleets_create(mr_fleet_options options, mr_fleet **out) MR_MUST_CHECK;
/* The fleet, retained; NULL: this copy of the addon knows no such fleet. */
mr_fleet *mr_fleets_find(uint32_t id);
/* No environment finds it any more. */
void mr_fleets_forget(mr_fleet *fleet);

/* Copies of the addon that are loaded into the process now, this one included. */
uint32_t mr_fleets_copies(void);

#endif
