/* next.h - the cycle that follows the present one: by the schedule, or with other collectors (ARM_SWITCH). The agent's thread only. */
#ifndef PROFD_AGENT_NEXT_H
#define PROFD_AGENT_NEXT_H

#include "../proto/message.h"
#include "../proto/segment.h"

#include <stdbool.h>
#include <stdint.h>

/* An ARM's collectors and options become those of the cycle that begins. */
void next_take_wishes(const struct message_arm *arm);

/* ARM_SWITCH has come: the recording under way goes on with other collectors, as another capture. Takes the segment. */
void next_switch(const struct message_arm *arm, struct segment *segment);
/* If such another capture has begun in this phase, the daemon is told. */
void next_tell(uint32_t phase);

/* A cycle has ended: sets the number of the next one. `switches`: sets its other collectors, too. */
void next_number(bool switches);
/* No cycle follows: gives back the next cycle's segment, if it has come. */
void next_drop(void);

#endif
