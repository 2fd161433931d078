/* attach.c - see attach.h.
 *
 * A stopped thread makes a memfd, two pages, and one call: Py_AddPendingCall in a Python process, so that its main thread loads the library
 * between two bytecodes; pthread_create in another, so that a new thread does. It never loads anything itself. The loader's code
 * lies in the second page, what it works on in the first. If Python's main thread does not come to the queued call,
 * another page has a new thread load the library: nothing of that takes the interpreter's lock. The first page is
 * claimed before, so that the queued call finds it taken. */
#include "attach.h"

#include "client/ui/clock.h"
#include "client/ui/failure.h"
#include "fill.h"
#include "halt.h"
#include "parts.h"
#include "slot.h"
#include "told.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__)

static const struct parts none = {.fd = -1};

/* How long a main thread gets to see what is queued, before it is queued once more; four times as long from then on. */
#define AGAIN_NS 20000000ll
#define AFTER_CANCEL_NS 1000000000ll
/* How much of the patience it gets in all, before a new thread is taken; and that one gets at least so long. */
#define QUEUED_TENTHS 3
#define START_LEAST_NS 3000000000ll
#define CHOOSE_LEAST_NS 500000000ll
/* How long a main thread gets to come to the script in its slot, before the other way is taken. */
#define SLOT_NS 1000000000ll
#define WAITS_FOR_PYTHON "its main thread to come back to Python, which then loads the agent"

/* In CPython up to 3.12 the main thread looks at queued calls only if it has queued one itself, or when it takes the
 * interpreter's lock next. A main thread that computes while nobody wants the lock does neither. So it is stopped, and
 * queues the call once more; the second run of the call does nothing. */
static void queue_again(struct target *target, uint64_t pages, struct stops *stops)
{
	struct stopped thread;

	if (choose_main(target, CHOOSE_TO_QUEUE, stops, &thread))
		return;
	parts_queue(target, &thread, pages);
	choose_end(stops, &thread);
}

/* Until the library is there. False: it is not, and will not be loaded any more, unless *loading. */
static bool await(struct bringing *bringing, int64_t patience, bool *loading)
{
	struct target *target = bringing->target;
	uint64_t pages = bringing->parts.pages;
	const struct timespec nap = {0, 200000};
	int64_t began = clock_now(), until = began + patience, pause = AGAIN_NS;
	bool told = false;

	*loading = false;
	for (;;) {
		if (parts_word(target, pages, offsetof(struct page, done)))
			return !told || parts_word(target, pages, offsetof(struct page, handle));
		if (!target_same(target))
			return false;
		if (bringing->what == CHOOSE_TO_QUEUE && !told && clock_now() > began + pause &&
		    !parts_word(target, pages, offsetof(struct page, started))) {
			queue_again(target, pages, &bringing->stops);
			pause *= 4;
		}
		if (clock_now() > until && told)
			return false;
		if (!told && (clock_now() > until || halt_asked())) {
			/* Writes the word first, then looks whether it was too late. */
			parts_cancel(target, pages);
			told = true;
			*loading = parts_word(target, pages, offsetof(struct page, started)) != 0;
			if (!*loading)
				return false;
			until = clock_now() + AFTER_CANCEL_NS;
		}
		nanosleep(&nap, NULL);
	}
}

/* By Python's own slot. False: not there, or not in time. */
static bool by_slot(struct target *target, const void *library, size_t needed, const char *socket, int64_t patience,
		    struct attachment *ret, int *code, char *sentence, size_t bytes)
{
	int64_t began = clock_now(), most = patience / 4 < SLOT_NS ? patience / 4 : SLOT_NS;

	ret->waits_for = WAITS_FOR_PYTHON;
	enum slot_result result = slot_attach(target, library, needed, socket, most);

	ret->way = "slot";
	ret->loaded_ns = clock_now() - began;
	if (result == SLOT_LOADING)
		*code = told_of_loading(target->pid, sentence, bytes);
	else
		*code = result == SLOT_IDLE ? told_of_idle(target->pid, sentence, bytes) : 0;
	return result != SLOT_NOT;
}

/* By one stop: 0, or the code of a sentence. */
static int ask(struct bringing *bringing, int64_t most, const struct parts *before, int64_t *asked)
{
	struct stopped thread;

	bringing->ret->waits_for = "a thread of it to come to a place where it can be stopped for a moment";
	int error = choose_thread(bringing->target, bringing->what, most, &bringing->stops, &thread);

	bringing->ret->stood_ns = bringing->stops.ns;
	if (error)
		return halt_asked() && error == -EAGAIN ? told_of_halt(bringing) : told_of_choice(bringing, error);
	error = parts_prepare(bringing, &thread, before);
	int back = choose_end(&bringing->stops, &thread);
	bringing->ret->tid = thread.tid;
	bringing->ret->stood_ns = bringing->stops.ns;
	*asked = thread.until;
	/* The word that it is not to came too late. */
	if (error && bringing->parts.queued &&
	    parts_word(bringing->target, bringing->parts.pages, offsetof(struct page, started)))
		error = 0;
	return error ? told_of_call(bringing, error, &thread, back) : 0;
}

/* What has been asked for comes within this time, or not at all (*not_come). */
static int await_agent(struct bringing *bringing, int64_t patience, int64_t asked, bool *not_come)
{
	struct target *target = bringing->target;
	long long pid = target->pid;
	bool loading;

	bringing->ret->waits_for =
		bringing->what == CHOOSE_TO_QUEUE ? WAITS_FOR_PYTHON : "a new thread of it to load the agent";
	bool there = await(bringing, patience, &loading);

	bringing->ret->stood_ns = bringing->stops.ns;
	bringing->ret->loaded_ns = clock_now() - asked;
	*not_come = !there && !loading;
	if (!there && loading)
		return told_of_loading(pid, bringing->sentence, bringing->sentence_bytes);
	if (!there && target->python && !target_python_runs(target))
		return told_of_end(bringing);
	if (!there && halt_asked() && target_same(target))
		return told_of_halt(bringing);
	if (!there)
		return told_of_waiting(bringing);
	if (!parts_word(target, bringing->parts.pages, offsetof(struct page, handle)))
		return refuse_with(
			bringing->sentence, bringing->sentence_bytes, EXIT_FAILED,
			"the loader of process %lld refused the agent's library; the process goes on as before, with two "
			"pages of memory more: start it with `profd run`",
			pid);
	return parts_word(target, bringing->parts.pages, offsetof(struct page, result))
		       ? 0
		       : told_of_idle(pid, bringing->sentence, bringing->sentence_bytes);
}

/* Python's main thread waits, or computes in one call. Its queued call has been told not to load. So a thread that
 * sleeps starts a new one, which loads. */
static int by_new_thread(struct bringing *bringing, int64_t until)
{
	const struct parts queued = bringing->parts;
	int64_t left = until - clock_now(), asked;
	bool not_come;
	int code;

	bringing->what = CHOOSE_TO_START_ASLEEP;
	code = ask(bringing, left < CHOOSE_LEAST_NS ? CHOOSE_LEAST_NS : left, &queued, &asked);
	if (code == EXIT_BUSY) {
		bringing->what = CHOOSE_TO_QUEUE;
		return told_of_waiting(bringing);
	}
	left = until - clock_now();
	bringing->ret->way = "thread";
	return code ? code : await_agent(bringing, left < START_LEAST_NS ? START_LEAST_NS : left, asked, &not_come);
}

static int by_stop(struct bringing *bringing, int64_t patience)
{
	bool python = bringing->target->python, not_come;
	int64_t asked, until = clock_now() + patience;
	int code;

	bringing->ret->way = python ? "pending call" : "thread";
	code = ask(bringing, patience > CHOOSE_LEAST_NS ? patience : CHOOSE_LEAST_NS, &none, &asked);
	if (code)
		return code;
	if (python)
		patience = patience / 10 * QUEUED_TENTHS;
	code = await_agent(bringing, patience, asked, &not_come);
	if (code == EXIT_TIMED_OUT && not_come && python)
		code = by_new_thread(bringing, until);
	return code;
}

static int load_agent(struct target *target, const void *library, size_t library_bytes, const char *socket,
		      int64_t patience, struct attachment *ret, char *sentence, size_t bytes)
{
	size_t needed = fill_needed(library, library_bytes);
	struct bringing bringing = {.target = target,
				    .image = library,
				    .bytes = needed,
				    .own = -1,
				    .socket = socket,
				    .what = target->python ? CHOOSE_TO_QUEUE : CHOOSE_TO_START,
				    .parts = none,
				    .ret = ret,
				    .sentence = sentence,
				    .sentence_bytes = bytes};
	int code;

	if (!needed || strlen(socket) >= SOCKET_BYTES)
		return refuse_with(
			sentence, bytes, EXIT_FAILED,
			"the agent's library was not built for this machine, or the socket's path is too long");
	if (by_slot(target, library, needed, socket, patience, ret, &code, sentence, bytes))
		return code;
	bringing.own = target->agent ? -1 : fill_own(target->pid, library, needed, PARTS_NAME);
	code = by_stop(&bringing, patience);
	if (bringing.own >= 0)
		close(bringing.own);
	return code;
}

#else

static int load_agent(struct target *target, const void *library, size_t library_bytes, const char *socket,
		      int64_t patience, struct attachment *ret, char *sentence, size_t bytes)
{
	(void)library, (void)library_bytes, (void)socket, (void)patience, (void)ret;
	/* target_open() has refused it already. */
	return refuse_with(sentence, bytes, EXIT_FAILED, "process %lld runs on another machine than x86-64",
			   (long long)target->pid);
}

#endif

int attach(struct target *target, const void *library, size_t library_bytes, const char *socket, int64_t patience,
	   struct attachment *ret, char *sentence, size_t bytes)
{
	return target_told(target, load_agent(target, library, library_bytes, socket, patience, ret, sentence, bytes),
			   sentence, bytes);
}
