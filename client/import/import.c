/* import.c - see import.h. */
#include "import.h"

#include "distributed.h"

#include "client/ui/failure.h"
#include "client/ui/text.h"
#include "proto/base/large.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* From so many bytes on, an array lies in a file. */
#define LARGE_LEAST_BYTES ((size_t)2 << 20)

struct import {
	struct build *build;
	const char *path;
	void (*progress)(const char *path, unsigned percent);
	unsigned percent;
};

static bool on_event(void *context, const struct kineto_event *event)
{
	return build_event(((struct import *)context)->build, event);
}

static bool on_device(void *context, const struct kineto_device *device)
{
	return build_device(((struct import *)context)->build, device);
}

static void on_progress(void *context, uint64_t done, uint64_t whole)
{
	struct import *import = context;
	unsigned percent = (unsigned)(done * 100 / whole);
	if (!import->progress || percent == import->percent)
		return;
	import->percent = percent;
	import->progress(import->path, percent);
}

/* "-": whatever standard input is, but no terminal. Else a regular file that can be read: what is none could keep us waiting for ever. */
static int open_trace(const char *path, char sentence[IMPORT_SENTENCE_BYTES])
{
	struct stat status;
	if (strcmp(path, "-") == 0) {
		int input = isatty(STDIN_FILENO) ? -1 : fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
		if (input < 0)
			snprintf(sentence, IMPORT_SENTENCE_BYTES,
				 "standard input holds no trace: it is %s; a file or a pipe does",
				 isatty(STDIN_FILENO) ? "a terminal" : "closed");
		return input;
	}
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0) {
		snprintf(sentence, IMPORT_SENTENCE_BYTES, "cannot be opened: %s", strerror(errno));
		return -1;
	}
	if (fstat(fd, &status) || !S_ISREG(status.st_mode)) {
		snprintf(
			sentence, IMPORT_SENTENCE_BYTES,
			"is no regular file; copy the trace into one, or let `profd import - --output NAME.db` read it from a pipe");
		close(fd);
		return -1;
	}
	return fd;
}

/* The folder that `output` is to lie in. */
static int open_folder(const char *output)
{
	char folder[PATH_MAX];
	const char *slash = strrchr(output, '/');
	size_t n = slash ? (size_t)(slash - output) + (slash == output) : 0;
	if (n >= sizeof folder)
		return -ENAMETOOLONG;
	memcpy(folder, n ? output : ".", n ? n : 1);
	folder[n ? n : 1] = '\0';
	int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* What the store calls itself: in the same folder, so that it can take the name of `output` at once. */
static int beside(const char *output, char ret[PATH_MAX])
{
	int n = snprintf(ret, PATH_MAX, "%s.import-%d", output, (int)getpid());
	return n < 0 || n >= PATH_MAX ? -ENAMETOOLONG : 0;
}

static int convert(struct import *import, struct store *store, int fd, int folder, struct build_counts *ret,
		   char sentence[IMPORT_SENTENCE_BYTES])
{
	const struct kineto_reader reader = {import, import->path, on_event, on_device, on_progress};
	struct capture_facts facts = {.number = 1, .trigger = 1};
	struct kineto_about about = {0};
	char why[KINETO_SENTENCE_BYTES];
	struct store_finished finished;
	/* It is large. */
	struct store_ending *ending = calloc(1, sizeof *ending);
	int code = EXIT_FAILED;
	import->build = build_new(store, folder);
	if (!ending || !import->build) {
		snprintf(sentence, IMPORT_SENTENCE_BYTES, "there is no memory left");
		goto end;
	}
	store_expect_device(store);
	store_begin(store);
	if (kineto_read(fd, &reader, &about, why) == KINETO_BAD) {
		snprintf(sentence, IMPORT_SENTENCE_BYTES, "is no trace of torch.profiler: %s", why);
		goto end;
	}
	distributed_read(&about);
	if (strcmp(import->path, "-") != 0)
		text_copy(facts.label, sizeof facts.label, text_base_name(import->path));
	text_clean(facts.label, strlen(facts.label));
	text_copy(ending->id, sizeof ending->id, "import");
	if (build_finish(import->build, &about, &facts, ending, ret)) {
		snprintf(sentence, IMPORT_SENTENCE_BYTES, "%s", store_sentence(store));
		goto end;
	}
	if (store_finish(store, ending, &facts, NULL, &finished) || !finished.kept)
		snprintf(sentence, IMPORT_SENTENCE_BYTES, "%s", *facts.reason ? facts.reason : store_sentence(store));
	else
		code = EXIT_DONE;
	/* Counted as by every verb that reads the file: without calls outside of all steps, which are not kept. */
	ret->events = facts.events;
end:
	build_free(import->build);
	free(about.distributed);
	free(ending);
	return code;
}

/* Whatever the length of the trace: what grows with it lies in files beside the output. */
static int convert_bounded(struct import *import, struct store *store, int fd, int folder, struct build_counts *ret,
			   char sentence[IMPORT_SENTENCE_BYTES])
{
	large_begin(folder, LARGE_LEAST_BYTES);
	int code = convert(import, store, fd, folder, ret, sentence), error = large_end();
	if (!error || code != EXIT_DONE)
		return code;
	/* The capture is there, without its verdict; it would not be what the same trace becomes elsewhere. */
	snprintf(
		sentence, IMPORT_SENTENCE_BYTES,
		"the disk takes no more of what is set aside while it is read, in the folder of the output: %s; make room there, or "
		"let --output name a file elsewhere",
		strerror(-error));
	return EXIT_FAILED;
}

int import_file(const char *path, const char *output, bool force, void (*progress)(const char *path, unsigned percent),
		struct build_counts *ret, char sentence[IMPORT_SENTENCE_BYTES])
{
	struct import import = {.path = path, .progress = progress, .percent = UINT_MAX};
	char made[PATH_MAX];
	int code = EXIT_FAILED;
	memset(ret, 0, sizeof *ret);
	sentence[0] = '\0';
	if (!force && access(output, F_OK) == 0) {
		snprintf(sentence, IMPORT_SENTENCE_BYTES,
			 "%s is there already; --force replaces it, --output names another file", output);
		return EXIT_USAGE;
	}
	int fd = open_trace(path, sentence);
	if (fd < 0)
		return EXIT_FAILED;
	int folder = open_folder(output), error = folder < 0 ? folder : beside(output, made);
	struct store *store = error ? NULL : store_new(NULL);
	if (error) {
		snprintf(sentence, IMPORT_SENTENCE_BYTES, "%s cannot be written: %s", output, strerror(-error));
	} else if (!store || store_create_at(store, made)) {
		snprintf(sentence, IMPORT_SENTENCE_BYTES, "%s cannot be written: %s", output,
			 store ? store_sentence(store) : "there is no memory left");
	} else {
		code = convert_bounded(&import, store, fd, folder, ret, sentence);
		if (code) {
			store_discard(store);
			unlink(made);
		} else if (force ? rename(made, output) : link(made, output)) {
			snprintf(sentence, IMPORT_SENTENCE_BYTES, "%s cannot be written: %s", output, strerror(errno));
			unlink(made);
			code = EXIT_FAILED;
		} else if (!force) {
			unlink(made);
		}
	}
	store_free(store);
	if (folder >= 0)
		close(folder);
	close(fd);
	return code;
}
