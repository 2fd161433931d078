/* told.c - see told.h. */
#include "told.h"

#include "client/ui/failure.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#if defined(__x86_64__)

/* What of it is left in the process. */
static const char *left_of(const struct parts *parts, char *text, size_t bytes)
{
	int pages = (parts->pages ? 2 : 0) + (parts->earlier ? 2 : 0);

	/* The call under way may have made it, or not. */
	if (!parts->usable && (!pages || parts->fd < 0))
		return "two pages of memory and a memory file may be left there";
	if (!pages && parts->fd < 0)
		return "nothing of it is left there";
	if (!pages)
		return "a memory file (a descriptor) is left there";
	snprintf(text, bytes, "%s pages of memory%s are left there", pages == 4 ? "four" : "two",
		 parts->fd < 0 ? "" : " and a memory file (a descriptor)");
	return text;
}

/* Nothing has been called. */
int told_of_choice(const struct bringing *bringing, int error)
{
	long long pid = bringing->target->pid;
	char *sentence = bringing->sentence;
	size_t bytes = bringing->sentence_bytes;

	switch (error) {
	case -EPERM:
		return refuse_with(
			sentence, bytes, EXIT_NOT_PERMITTED,
			"the kernel does not let you trace process %lld: somebody traces it, or a rule forbids it",
			pid);
	case -ESRCH:
		return refuse_with(sentence, bytes, EXIT_NO_TARGET, "process %lld has ended", pid);
	case -EAGAIN:
		return refuse_with(
			sentence, bytes, EXIT_BUSY,
			"process %lld came to no place where it can be made to load the agent; nothing was changed: try again",
			pid);
	case -ETIME:
		return refuse_with(
			sentence, bytes, EXIT_TIMED_OUT,
			"a thread of process %lld could not be stopped in time, as it does not get the processor; nothing was "
			"changed: try again",
			pid);
	default:
		return refuse_with(sentence, bytes, EXIT_FAILED,
				   "process %lld could not be prepared: %s; nothing was changed", pid,
				   strerror(-error));
	}
}

/* `back`: what came of putting the thread back. */
int told_of_call(const struct bringing *bringing, int error, const struct stopped *thread, int back)
{
	const struct parts *parts = &bringing->parts;
	long long pid = bringing->target->pid;
	char *sentence = bringing->sentence, text[128];
	size_t bytes = bringing->sentence_bytes;
	const char *left = left_of(parts, text, sizeof text);

	if (error == -ESRCH)
		return refuse_with(sentence, bytes, EXIT_NO_TARGET, "process %lld has ended", pid);
	if (error == -ECANCELED)
		return refuse_with(sentence, bytes, EXIT_NO_TARGET, "the Python of process %lld has ended", pid);
	if (error == -ENOTRECOVERABLE && bringing->what == CHOOSE_TO_QUEUE)
		return refuse_with(sentence, bytes, EXIT_BUSY,
				   "the Python of process %lld has too many calls queued already; %s: try again", pid,
				   left);
	if (error == -ENOTRECOVERABLE)
		return refuse_with(
			sentence, bytes, EXIT_FAILED,
			"process %lld can start no thread (%s: a limit of threads or of memory?), and the agent is one; %s",
			pid, strerror(parts->refused), left);
	if (error == -ETIMEDOUT && (back == -ETIMEDOUT || thread->left))
		return refuse_with(
			sentence, bytes, EXIT_TIMED_OUT,
			"a thread of process %lld did not come back in time from what it was made to call, and is not stopped "
			"in the middle of it; it goes on where it was as soon as it comes out of it; %s",
			pid, left);
	if (error == -ETIMEDOUT)
		return refuse_with(
			sentence, bytes, EXIT_TIMED_OUT,
			"a thread of process %lld did not come back in time from what it was made to call; it was put "
			"back to where it was; %s",
			pid, left);
	return refuse_with(sentence, bytes, EXIT_FAILED,
			   "process %lld could not be prepared: %s; it goes on as before, %s", pid, strerror(-error),
			   left);
}

int told_of_halt(const struct bringing *bringing)
{
	return refuse_with(
		bringing->sentence, bringing->sentence_bytes, EXIT_CANCELLED,
		"interrupted: process %lld does not get the agent; what it was asked to do is taken back, and it goes on as before",
		(long long)bringing->target->pid);
}

int told_of_loading(int64_t pid, char *sentence, size_t bytes)
{
	return refuse_with(sentence, bytes, EXIT_TIMED_OUT,
			   "process %lld is still loading the agent: `profd ps` shows when it is there",
			   (long long)pid);
}

int told_of_idle(int64_t pid, char *sentence, size_t bytes)
{
	return refuse_with(
		sentence, bytes, EXIT_FAILED,
		"the agent cannot run in process %lld (another copy of it works there?); it stays idle there",
		(long long)pid);
}

/* The main thread has not come to the call. */
int told_of_waiting(const struct bringing *bringing)
{
	return refuse_with(
		bringing->sentence, bringing->sentence_bytes, EXIT_TIMED_OUT,
		bringing->what == CHOOSE_TO_QUEUE
			? "the main thread of process %lld did not come back to Python in time (it waits, or "
			  "computes in one call), and no thread sleeps where it can be made to start another one; it was told not to load "
			  "the agent any more, and two pages of memory are left there: try again"
			: "the thread that process %lld was made to start did not load the agent in time; it was told not "
			  "to any more: try again",
		(long long)bringing->target->pid);
}

int told_of_end(const struct bringing *bringing)
{
	return refuse_with(bringing->sentence, bringing->sentence_bytes, EXIT_NO_TARGET,
			   "the Python of process %lld has ended", (long long)bringing->target->pid);
}

#endif
