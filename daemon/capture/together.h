/* together.h - the ranks of a job record the same steps: chooses one step number for all of them, which none has
 * reached yet, and tells the client of it. Loop's thread. */
#ifndef PROFD_DAEMON_CAPTURE_TOGETHER_H
#define PROFD_DAEMON_CAPTURE_TOGETHER_H

#include "proto/schedule.h"
#include "registry.h"

struct trigger;
struct capture;

/* Processes of one trigger that begin with the same step, or a reason why they do not. */
struct together {
	struct together *next;
	char job[128];
	struct schedule schedule;
	uint64_t at_step, at_multiple; /* as in ARM; at_step 0: each begins with its own next step */
	char why_not[208];	       /* at_step 0: a clause */
	uint64_t missed;	       /* the number that was chosen before; 0 = at_step is the first one */
	/* These three are about the captures whose agents have answered. */
	unsigned armed;
	uint64_t furthest; /* steps that have ended in one of them */
	bool told;
};

/* Sorts the processes into groups, and chooses a step number for each group. ret[i] is the group of processes[i], or
 * NULL. The trigger owns them. */
void together_plan(struct trigger *trigger, struct process **processes, size_t count, struct together **ret);
/* Fills into ARM what the process, with its group or NULL, is to begin with. */
void together_fill(struct trigger *trigger, const struct process *process, const struct together *together,
		   struct message_arm *arm);
/* The first step that would be recorded by this ARM, of a process that counts its steps. */
uint64_t together_first(const struct trigger *trigger, const struct process *process, const struct message_arm *arm);
/* For a dry run: tells of the groups whose processes would be armed. */
void together_foretell(struct trigger *trigger);
/* All agents have answered: a number that has been missed is replaced, once, and the follower is told. */
void together_answered(struct trigger *trigger);
/* Ranks of one job that record are to go on with other collectors. Returns the number of the step with which all of
 * them can, and how many steps pass before it in each. 0: no number means the same step in all of them. */
uint64_t together_switch_at(const struct trigger *trigger, struct process *const *ranks, size_t count,
			    uint32_t *ret_pass);
/* A capture of this trigger has ended: tells the client if it did not begin with the chosen step. */
void together_ended(struct trigger *trigger, const struct capture *capture);
void together_free(struct trigger *trigger);

#endif
