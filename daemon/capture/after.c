/* after.c - some steps after a capture its agent tells whether the job is as fast as before. Thread: the loop's;
 * after_run has the catalogue's. No locks. */
#include "after.h"
#include "capture.h"
#include "daemon/catalogue/catalogue.h"
#include "daemon/core/server.h"
#include "live.h"
#include "daemon/catalogue/captures.h"

#include <stdlib.h>

struct after_work {
	struct work work;
	struct server *server;
	uint64_t number, step_after;
	uid_t uid;
};

static int64_t after_run(struct work *work)
{
	struct after_work *after = (struct after_work *)work;
	struct capture_facts facts;
	if (catalogue_get(catalogue_of(after->server), after->number, &facts) == 1 && facts.who.uid == after->uid)
		catalogue_put_after(catalogue_of(after->server), after->number, after->step_after);
	free(after);
	return WORK_DONE;
}

void capture_after(struct process *process, const struct message_after *message)
{
	/* One for each schedule that has ended, and one for a schedule of an earlier daemon. */
	if (process->afters == 0)
		return;
	process->afters--;
	struct capture *capture = capture_find(process->server, message->capture);
	if (capture && capture->facts.who.uid == process->who.uid)
		capture->facts.step_after = message->step_after & INT64_MAX;
	struct after_work *after = calloc(1, sizeof *after);
	if (!after)
		return;
	*after = (struct after_work){.work.run = after_run,
				     .server = process->server,
				     .number = message->capture,
				     .step_after = message->step_after,
				     .uid = process->who.uid};
	if (!catalogue_submit(catalogue_of(process->server), &after->work))
		free(after);
}
