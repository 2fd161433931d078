/* collector.c - the NVTX collector's vtable and the body of NVTX's injection entry point. The agent's thread, but for
 * nvtx_inject. */
#include "../core/collector.h"
#include "../core/sentence.h"
#include "hooks.h"
#include "names.h"
#include "nvtx.h"
#include "objects.h"
#include "opened.h"
#include "step_range.h"

#include "agent/sink/sink.h"

#include <errno.h>
#include <string.h>

/* What NVTX_INJECTION64_PATH held at load. */
static enum { PATH_UNKNOWN, PATH_NONE, PATH_OURS, PATH_OTHER } path_state;
static char path_name[64];

static uint64_t stopped_at;

int nvtx_inject(void *get_export_table)
{
	int saved = errno;
	/* Without memory for handles the object stays as it is without a tool. */
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

/* What is said of slots that another tool holds; returns their number. */
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

static int nvtx_probe(char *sentence, size_t bytes)
{
	struct sentence s = sentence_begin(sentence, bytes);
	unsigned count = nvtx_object_count(), refused = nvtx_objects_refused();
	if (count) {
		sentence_add(&s, "ranges and marks of ");
		sentence_add_number(&s, count);
		sentence_add(&s, count == 1 ? " loaded object that uses NVTX" : " loaded objects that use NVTX");
		if (!say_foreign(&s, "; ") && refused) {
			sentence_add(&s, "; ");
			sentence_add_number(&s, refused);
			sentence_add(&s, " more could not be taken in");
		}
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
	int r = nvtx_opened_init();
	if (r == 0)
		r = nvtx_names_init();
	if (r < 0) {
		struct sentence s = sentence_begin(sentence, bytes);
		sentence_add(&s, "no memory for open ranges");
		return r;
	}
	nvtx_hooks_prepare();
	return 0;
}

static int nvtx_start(const struct collector_request *request, char *sentence, size_t bytes)
{
	struct sentence s = sentence_begin(sentence, bytes);
	step_range_set(request->step_range);
	nvtx_objects_set(1);
	say_foreign(&s, "");
	return 0;
}

static void nvtx_stop(void)
{
	nvtx_objects_set(0);
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
	/* Nothing: a late hook may still look at all of it. */
}

const struct collector_ops collector_nvtx = {
	.bit = COLLECTOR_NVTX,
	.probe = nvtx_probe,
	.others = nvtx_others,
	.arm = nvtx_arm,
	.start = nvtx_start,
	.stop = nvtx_stop,
	.drain = nvtx_drain,
	.disarm = nvtx_disarm,
};
