/* top.c - `profd top`: the jobs of this machine, live. */
#include "client/ui/json.h"
#include "client/ui/live.h"
#include "client/ui/print.h"
#include "client/ui/text.h"
#include "client/verbs/arguments.h"
#include "client/verbs/commands.h"
#include "top_rows.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define INTERVAL_NS 1000000000

struct top {
	struct daemons daemons;
	struct top_memory memory;
	enum top_order order;
};

static enum top_order order_of(const char *word)
{
	static const char *const words[] = {
		[TOP_BY_JOB] = "job", [TOP_BY_TIME] = "time", [TOP_BY_RATE] = "rate", [TOP_BY_NAME] = "name"};
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (strcmp(words[i], word) == 0)
			return (enum top_order)i;
	return TOP_BY_JOB;
}

static int print_once(struct top *top, enum output_format format)
{
	struct screen screen = screen_output();
	struct failure failure = {0};
	struct table *table;
	cJSON *jobs;
	int code = top_look(&top->daemons, &top->memory, &jobs, &failure);
	if (code) {
		cJSON_Delete(jobs);
		return failure_print(&failure);
	}
	top_sort(jobs, top->order);
	if (format == FORMAT_JSON) {
		cJSON *object = json_new("top");
		cJSON_AddItemToObject(object, "jobs", jobs);
		return json_print(object);
	}
	table = top_table(jobs);
	if (format == FORMAT_CSV)
		table_csv(table, stdout, 0);
	else if (table_rows(table))
		table_print(table, &screen, 0);
	else
		note("no process is registered; start one with `profd run -- COMMAND`, or put `eval \"$(profd env)\"` into its job "
		     "script");
	table_free(table);
	cJSON_Delete(jobs);
	return EXIT_DONE;
}

static void head(const struct screen *screen, size_t jobs)
{
	time_t now = time(NULL);
	struct tm parts;
	char clock[16] = "";
	if (!localtime_r(&now, &parts) || !strftime(clock, sizeof clock, "%H:%M:%S", &parts))
		*clock = '\0';
	fprintf(screen->file, "%sprofd top%s  %s  %zu job%s\n\n", screen_bold(screen), screen_plain(screen), clock,
		jobs, jobs == 1 ? "" : "s");
}

/* What stands on the terminal now; to be freed. */
static char *frame(struct top *top)
{
	struct screen screen = screen_output();
	struct failure failure = {0};
	char *text = NULL;
	size_t bytes;
	cJSON *jobs;
	screen.file = need(open_memstream(&text, &bytes));
	if (!top->daemons.count)
		daemons_open(&top->daemons);
	if (top_look(&top->daemons, &top->memory, &jobs, &failure) == EXIT_DONE) {
		struct table *table;
		top_sort(jobs, top->order);
		table = top_table(jobs);
		head(&screen, table_rows(table));
		if (table_rows(table))
			table_print(table, &screen, 0);
		else
			fputs("no process is registered; `profd run -- COMMAND` starts one with the agent\n",
			      screen.file);
		table_free(table);
	} else {
		char *safe;
		/* It may come back: the next look connects anew. */
		daemons_deinit(&top->daemons);
		daemons_open(&top->daemons);
		if (failure.error == ERROR_NONE)
			daemons_none(&top->daemons, &failure);
		safe = text_safe(failure.message);
		head(&screen, 0);
		fprintf(screen.file, "%s\n", safe);
		free(safe);
	}
	fprintf(screen.file, "\n%sq ends; j, t, r, n: by job, step time, rate, name%s\n", screen_dim(&screen),
		screen_plain(&screen));
	if (fclose(screen.file))
		need(NULL);
	cJSON_Delete(jobs);
	return need(text);
}

/* False where the key ends it. */
static bool take_key(struct top *top, int key)
{
	switch (key) {
	case 'j':
		top->order = TOP_BY_JOB;
		break;
	case 't':
		top->order = TOP_BY_TIME;
		break;
	case 'r':
		top->order = TOP_BY_RATE;
		break;
	case 'n':
		top->order = TOP_BY_NAME;
		break;
	default:
		break;
	}
	return key != 'q' && key != 'Q' && key >= 0;
}

static int watch(struct top *top, int64_t interval)
{
	bool going = true;
	live_begin();
	while (going) {
		char *text = frame(top);
		going = live_draw(text);
		free(text);
		if (going)
			going = take_key(top, live_wait(interval));
	}
	live_end();
	return EXIT_DONE;
}

int command_top(struct arguments *arguments)
{
	enum output_format format = arguments_format(arguments);
	struct top top = {.order = order_of(arguments_text(arguments, "sort", "job"))};
	int code = daemons_need(&top.daemons);
	if (code)
		return code;
	if (format != FORMAT_TABLE || arguments_has(arguments, "once") || !live_possible())
		code = print_once(&top, format);
	else
		code = watch(&top, arguments_number(arguments, "interval", INTERVAL_NS));
	top_forget(&top.memory);
	daemons_deinit(&top.daemons);
	return code;
}
