/* trigger_targets.h - finds the processes that a trigger means, and those of them that can be recorded; sends ARMs in
 * portions. Loop's thread. */
#ifndef PROFD_DAEMON_CAPTURE_TRIGGER_TARGETS_H
#define PROFD_DAEMON_CAPTURE_TRIGGER_TARGETS_H

#include "trigger.h"

/* Arms those that the request names by pid, refuses those that are not there. */
void targets_arm_pids(struct trigger *trigger, const struct conn *conn);
/* Arms those that match the request and have not been tried. */
void targets_arm_matching(struct trigger *trigger);
/* For a trigger on what a process starts: is that process, or something registered that it has started, alive? */
bool targets_may_come(const struct trigger *trigger);
/* How many processes are still to be sent an ARM. */
size_t targets_to_arm(const struct trigger *trigger);
/* May an ARM be sent now? */
bool targets_may_arm(const struct trigger *trigger);
/* Sends as many ARMs as there is time for in one turn of the loop; the rest follow in later turns, or when agents have
 * answered. */
void targets_arm_some(struct trigger *trigger);
/* A process has registered, or tells something new: does a waiting trigger want it? */
void targets_offer(struct process *process);
/* The process is gone: it must not be armed any more. */
void targets_process_gone(const struct process *process);
/* No further process is armed. */
void targets_stop(struct trigger *trigger);

#endif
