/* collector.c - the functions of the NVTX collector, and nvtx_inject, which NVTX's injection calls. The agent's thread,
 * except for nvtx_inject. */
#include "../core/collector.h"
#include "../core/room.h"
#include "../core/sentence.h"
#include "hooks.h"
#include "names.h"
#include "nvtx.h"
#include "objects.h"
#include "opened.h"
#include "search.h"
#include "step_range.h"

#include "agent/sink/sink.h"

#include <errno.h>
#include <string.h>

/* What NVTX_INJECTION64_PATH held at load. */
static enum { PATH_UNKNOWN, PATH_NONE, PATH_OURS, PATH_OTHER } path_state;
static char path_name[64];

/* The agent has come to a process that ran already (`profd attach`): it searches for objects. */
static int late;
/* During the recording objects were loaded whose first ranges may be missing. */
static int missed;
#define SEARCH_EVERY 100000000ull
static uint64_t search_at;

static uint64_t stopped_at;

int nvtx_inject(void *get_export_table)
{
	int saved = errno;
	/* Without memory for handles the object goes on without a tool. */
	if (nvtx_names_init() == 0)
		nvtx_objects_add((nvtx_abi_get_export_table)get_export_table);
	errno = saved;
	return 1;
}

void nvtx_environment(const char *path, int ours)
{
	const char *slash = path ? strrchr(path, '/') : NULL;
	path_state = !path || !*path ? PATH_NONE : ours ? PATH_OURS : PATH_OTHER;
	if (path_state == PATH_OTHER) {
		const char *name = slash && slash[1] ? slash + 1 : path;
		size_t n = strnlen(name, sizeof path_name - 1);
		memcpy(path_name, name, n);
		path_name[n] = 0;
	}
}

void nvtx_attached(void)
{
	late = 1;
	nvtx_objects_set(NVTX_HOOKED_NAMES);
	if (nvtx_names_init() == 0)
		nvtx_search();
}

void nvtx_release(void)
{
	nvtx_objects_set(NVTX_HOOKED_NOTHING);
}

/* Adds the sentence about slots that another tool holds; returns their number. */
static unsigned say_foreign(struct sentence *s, const char *before)
{
	char holder[64];
	unsigned foreign;
	nvtx_objects_describe(&foreign, holder, sizeof holder);
	if (foreign) {
		sentence_add(s, before);
		sentence_add_number(s, foreign);
		sentence_add(s, " NVTX functions are held by another tool (");
		sentence_add(s, *holder ? holder : "unknown");
		sentence_add(s, ") and left to it");
	}
	return foreign;
}

static void say_number(struct sentence *s, const char *before, uint32_t n, const char *one, const char *more)
{
	sentence_add(s, before);
	sentence_add_number(s, n);
	sentence_add(s, n == 1 ? one : more);
}

/* Adds the sentence about objects that cannot be switched; returns their number. */
static unsigned say_shut(struct sentence *s, const char *before)
{
	unsigned shut = nvtx_objects_shut();
	if (shut)
		say_number(s, before, shut, " object's NVTX lies in data that the job has protected since",
			   " objects' NVTX lies in data that the job has protected since");
	return shut;
}

/* Adds the sentence about objects that were found and not taken in, with the reasons. Returns whether there are any. */
static int say_not_taken(struct sentence *s, const char *before)
{
	const struct nvtx_searched *searched = nvtx_searched();
	const char *holder = *searched->holder ? searched->holder : "unknown";
	const struct {
		uint32_t count;
		const char *one, *more; /* NULL: the sentence has no number */
		const char *why, *who, *end;
	} reasons[] = {
		{searched->others, " object's NVTX is", " objects' NVTX is", " held by another tool (", holder,
		 ") and left to it"},
		{searched->left, " object's NVTX", " objects' NVTX",
		 " is left to the tool that NVTX_INJECTION64_PATH names (", searched->variable, ")"},
		{searched->old_library != 0, NULL, NULL,
		 "libnvToolsExt.so (NVTX before version 3) cannot be given a tool any more", "", ""},
		{searched->fixed, " object's NVTX", " objects' NVTX", " could not be taken in", "", ""},
		{searched->unread, NULL, NULL, "the process's memory cannot be read", "", ""},
	};
	int said = 0;
	for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) {
		if (!reasons[i].count)
			continue;
		sentence_add(s, said++ ? "; " : before);
		if (reasons[i].one)
			say_number(s, "", reasons[i].count, reasons[i].one, reasons[i].more);
		sentence_add(s, reasons[i].why);
		sentence_add(s, reasons[i].who);
		sentence_add(s, reasons[i].end);
	}
	return said;
}

/* nvtx_probe() for a process that ran already when the agent came. */
static int probe_late(struct sentence *s)
{
	nvtx_search();
	unsigned count = nvtx_object_count();
	if (count) {
		say_number(s, "ranges and marks of ", count, " loaded object that uses NVTX",
			   " loaded objects that use NVTX");
		say_foreign(s, "; ");
		say_shut(s, "; ");
		say_not_taken(s, "; ");
		return 1;
	}
	if (!say_not_taken(s, ""))
		sentence_add(s, "no object that is loaded carries NVTX (version 3)");
	return 0;
}

static int nvtx_probe(char *sentence, size_t bytes)
{
	struct sentence s = sentence_begin(sentence, bytes);
	if (late)
		return probe_late(&s);
	unsigned count = nvtx_object_count(), refused = nvtx_objects_refused();
	if (count) {
		say_number(&s, "ranges and marks of ", count, " loaded object that uses NVTX",
			   " loaded objects that use NVTX");
		say_shut(&s, "; ");
		if (!say_foreign(&s, "; ") && refused)
			say_number(&s, "; ", refused, " more could not be taken in", " more could not be taken in");
		return 1;
	}
	if (path_state == PATH_OTHER) {
		sentence_add(&s, "NVTX_INJECTION64_PATH names another tool (");
		sentence_add(&s, path_name);
		sentence_add(&s, "), which gets this process's ranges");
		return 0;
	}
	if (path_state == PATH_NONE) {
		sentence_add(&s,
			     "NVTX_INJECTION64_PATH was not set when the process started: start it with `profd run`");
		return 0;
	}
	sentence_add(&s, "no code that uses NVTX has run so far; ranges are recorded as soon as one does");
	return 1;
}

static int nvtx_others(char *sentence, size_t bytes)
{
	struct sentence s = sentence_begin(sentence, bytes);
	if (say_foreign(&s, ""))
		return 1;
	if (late) {
		const struct nvtx_searched *searched = nvtx_searched();
		return searched->others || searched->left ? say_not_taken(&s, "") : 0;
	}
	if (path_state != PATH_OTHER)
		return 0;
	sentence_add(&s, "NVTX_INJECTION64_PATH names another tool there (");
	sentence_add(&s, path_name);
	sentence_add(&s, ")");
	return 1;
}

static int nvtx_arm(const struct collector_request *request, char *sentence, size_t bytes)
{
	(void)request;
	int r = nvtx_names_arm();
	if (r == 0)
		r = nvtx_opened_init();
	if (r < 0) {
		struct sentence s = sentence_begin(sentence, bytes);
		sentence_add(&s, "no memory for open ranges" ROOM_NEAR_LIMIT);
		return r;
	}
	/* If ranges cannot be recorded the collector fails here; otherwise the job would look like one without
	 * ranges. */
	if (late && !nvtx_probe(sentence, bytes))
		return -ENODATA;
	nvtx_hooks_prepare();
	return 0;
}

static int nvtx_start(const struct collector_request *request, char *sentence, size_t bytes)
{
	struct sentence s = sentence_begin(sentence, bytes);
	step_range_set(request->step_range);
	missed = 0;
	search_at = 0;
	nvtx_objects_set(NVTX_HOOKED_ALL);
	int said = say_foreign(&s, "") != 0;
	said |= say_shut(&s, said ? "; " : "") != 0;
	if (late)
		say_not_taken(&s, said ? "; " : "");
	return 0;
}

static uint64_t nvtx_poll(uint64_t now, uint32_t step_thread)
{
	(void)step_thread;
	if (!late)
		return UINT64_MAX;
	if (now >= search_at) {
		missed |= nvtx_search_again();
		search_at = now + SEARCH_EVERY;
	}
	return search_at;
}

static int nvtx_note(char *sentence, size_t bytes)
{
	struct sentence s = sentence_begin(sentence, bytes);
	if (!late)
		return 0;
	missed |= nvtx_search_again();
	if (!missed)
		return 0;
	sentence_add(
		&s,
		"libraries were loaded in the recording; their NVTX ranges are missing until they were noticed, a tenth "
		"of a second later at most");
	return 1;
}

static void nvtx_stop(void)
{
	nvtx_objects_set(NVTX_HOOKED_NAMES);
	step_range_set(NULL);
	stopped_at = sink_now();
}

static void nvtx_drain(uint64_t deadline)
{
	(void)deadline; /* some ms at most */
	nvtx_hooks_clip(stopped_at);
}

static void nvtx_disarm(void)
{
	/* Keeps everything, because a late hook may still use it. */
}

const struct collector_ops collector_nvtx = {
	.bit = COLLECTOR_NVTX,
	.probe = nvtx_probe,
	.others = nvtx_others,
	.arm = nvtx_arm,
	.start = nvtx_start,
	.poll = nvtx_poll,
	.note = nvtx_note,
	.stop = nvtx_stop,
	.drain = nvtx_drain,
	.disarm = nvtx_disarm,
};
