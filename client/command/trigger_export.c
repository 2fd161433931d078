/* trigger_export.c - see trigger_export.h. */
#include "trigger_export.h"

#include "client/export/folder.h"
#include "client/export/target.h"
#include "client/ui/json.h"
#include "client/ui/text.h"

#include <stdio.h>
#include <string.h>

/* "trace.json.gz" and ".rank3" make "trace.rank3.json.gz". */
static void insert(char *to, size_t bytes, const char *path, const char *mark)
{
	const char *base = text_base_name(path);
	const char *dot = strrchr(base, '.');

	if (dot && strcmp(dot, ".gz") == 0) {
		const char *p = dot;

		while (p > base && p[-1] != '.')
			p--;
		if (p > base)
			dot = p - 1;
	}
	if (!dot)
		dot = base + strlen(base);
	snprintf(to, bytes, "%.*s%s%s", (int)(dot - path), path, mark, dot);
}

static bool same_rank(const struct follow *follow, const struct followed *one)
{
	for (size_t i = 0; i < follow->count; i++)
		if (follow->captures[i].rank == one->rank && follow->captures[i].pid != one->pid)
			return true;
	return false;
}

static bool several_cycles(const struct follow *follow, const struct followed *one)
{
	for (size_t i = 0; i < follow->count; i++)
		if (follow->captures[i].pid == one->pid && &follow->captures[i] != one)
			return true;
	return false;
}

/* The file of this capture: in the folder, under a name of its own, or the file that was named, with a mark if there
 * are several captures. */
static int place(const struct follow *follow, const struct followed *one, struct capture *capture, const char *output,
		 char *path, size_t bytes)
{
	char mark[96] = "";

	if (folder_named(output)) {
		int error = folder_make(output);

		if (error)
			return folder_refuse(output, error);
		folder_file(output, capture, NULL, path, bytes);
		return EXIT_DONE;
	}
	if (follow->count > 1) {
		int n = one->rank >= 0 && !same_rank(follow, one)
				? snprintf(mark, sizeof mark, ".rank%lld", (long long)one->rank)
				: snprintf(mark, sizeof mark, ".%lld", (long long)one->pid);

		if (several_cycles(follow, one))
			snprintf(mark + n, sizeof mark - (size_t)n, ".%s", one->id);
	}
	insert(path, bytes, output, mark);
	return EXIT_DONE;
}

int trigger_export(const struct arguments *a, struct follow *follow)
{
	const char *output = arguments_text(a, "output", NULL);
	bool force = arguments_has(a, "force");
	int code = EXIT_DONE;

	for (size_t i = 0; output && i < follow->count; i++) {
		struct followed *one = &follow->captures[i];
		struct daemons only = {.list = {follow->daemons->list[one->daemon]}, .count = 1};
		struct capture capture;
		char path[4096];
		int own;

		if (!one->captured || follow->open[one->daemon] || strcmp(one->status, "failed") == 0)
			continue;
		own = capture_open_id(&only, one->id, &capture);
		if (own == EXIT_DONE) {
			own = place(follow, one, &capture, output, path, sizeof path);
			if (own == EXIT_DONE)
				own = target_write(&capture, 1, NULL, path, force, NULL);
			capture_close(&capture);
		}
		if (own == EXIT_DONE)
			json_add_text(one->captured, "output", path);
		code = exit_worse(code, own);
	}
	return code;
}
