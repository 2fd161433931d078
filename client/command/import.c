/* import.c - `profd import`: traces that torch.profiler has written become capture files, which every verb that reads takes. */
#include "client/import/import.h"
#include "client/ui/failure.h"
#include "client/ui/json.h"
#include "client/ui/progress.h"
#include "client/ui/text.h"
#include "client/verbs/arguments.h"
#include "client/verbs/commands.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void show_progress(const char *path, unsigned percent)
{
	char line[PATH_MAX + 32];
	char *safe = text_safe(path);
	snprintf(line, sizeof line, "reading %s: %u %%", safe, percent);
	free(safe);
	if (progress_live())
		progress_draw(line);
}

/* run.pt.trace.json.gz becomes run.db, in the folder that we are in. */
static bool name_output(const char *path, char ret[PATH_MAX])
{
	static const char *const suffixes[] = {".gz", ".json", ".trace", ".pt"};
	const char *name = text_base_name(path);
	size_t n = strlen(name);
	for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
		size_t length = strlen(suffixes[i]);
		if (n > length && memcmp(name + n - length, suffixes[i], length) == 0)
			n -= length;
	}
	return snprintf(ret, PATH_MAX, "%.*s.db", (int)n, name) < PATH_MAX;
}

/* "; left out, since a capture has no place for it: 65,313 calls of C from Python, 12 events of other kinds" */
static void say_left_out(const struct build_counts *counts)
{
	const struct {
		uint64_t count;
		const char *what;
	} parts[] = {
		{counts->python, "calls of C from Python"},
		{counts->samples, "events with samples of stacks"},
		{counts->strange, "events of kinds that profd does not know"},
		{counts->untimed, "events without a time that can be"},
	};
	const char *before = "  left out: ";
	char figure[TEXT_FIGURE_BYTES];
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
		if (!parts[i].count)
			continue;
		printf("%s%s %s", before, text_count(figure, (int64_t)parts[i].count), parts[i].what);
		before = ", ";
	}
	if (*before == ',')
		putchar('\n');
}

static cJSON *row_of(const char *path, const char *output, const struct build_counts *counts)
{
	cJSON *row = need(cJSON_CreateObject());
	json_add_text(row, "file", path);
	json_add_text(row, "output", output);
	need(cJSON_AddNumberToObject(row, "steps", (double)counts->steps));
	need(cJSON_AddNumberToObject(row, "events", (double)counts->events));
	need(cJSON_AddNumberToObject(row, "python_frames_left_out", (double)counts->python));
	need(cJSON_AddNumberToObject(row, "samples_left_out", (double)counts->samples));
	need(cJSON_AddNumberToObject(row, "unknown_left_out", (double)counts->strange));
	need(cJSON_AddNumberToObject(row, "untimed_left_out", (double)counts->untimed));
	return row;
}

static void say(const char *output, const struct build_counts *counts)
{
	char steps[TEXT_FIGURE_BYTES], events[TEXT_FIGURE_BYTES];
	char *safe = text_safe(output);
	printf("%s: %s %s, %s events\n", safe, text_count(steps, (int64_t)counts->steps),
	       counts->steps == 1 ? "step" : "steps", text_count(events, (int64_t)counts->events));
	free(safe);
	say_left_out(counts);
}

int command_import(struct arguments *arguments)
{
	const char *output = arguments_text(arguments, "output", NULL);
	bool json = arguments_format(arguments) == FORMAT_JSON, force = arguments_has(arguments, "force");
	cJSON *object = json ? json_new("import") : NULL,
	      *rows = json ? need(cJSON_AddArrayToObject(object, "files")) : NULL;
	int code = EXIT_DONE;
	if (output && arguments->word_count > 1)
		return fail(EXIT_USAGE,
			    "import: --output names one file, and %zu traces were given; without it each gets a name "
			    "of its own",
			    arguments->word_count);
	if (output && strcmp(output, "-") == 0)
		return fail(EXIT_USAGE,
			    "import: a capture file is a database, which is not written to standard output; --output "
			    "names a file (./- is one that is called so)");
	for (size_t i = 0; i < arguments->word_count && !output; i++)
		if (strcmp(arguments->words[i], "-") == 0)
			return fail(EXIT_USAGE,
				    "import: - is standard input, which has no name; --output names the capture file");
	for (size_t i = 0; i < arguments->word_count; i++) {
		const char *path = arguments->words[i];
		char named[PATH_MAX], sentence[IMPORT_SENTENCE_BYTES] = "its name is too long";
		struct build_counts counts;
		int result = EXIT_FAILED;
		if (output || name_output(path, named))
			result = import_file(path, output ? output : named, force,
					     progress_live() ? show_progress : NULL, &counts, sentence);
		if (progress_live())
			progress_clear();
		if (result) {
			char *safe = text_safe(path), *why = text_safe(sentence);
			code = exit_worse(code, fail(result, "%s: %s", safe, why));
			free(safe);
			free(why);
		} else if (json) {
			cJSON_AddItemToArray(rows, row_of(path, output ? output : named, &counts));
		} else {
			say(output ? output : named, &counts);
		}
	}
	if (json)
		json_print(object);
	return code;
}
