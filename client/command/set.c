/* set.c - `profd set`: other collectors in mid-recording. Waits until each capture has gone on, or has been refused. */
#include "client/link/collect.h"
#include "client/ui/clock.h"
#include "client/ui/json.h"
#include "client/ui/text.h"
#include "client/verbs/arguments.h"
#include "client/verbs/chosen.h"
#include "client/verbs/commands.h"

#include <limits.h>
#include <stdlib.h>

#define TIMEOUT_NS 120000000000ll

static const char still_waiting[] =
	"the step that runs has not ended in time; once it does, the recording goes on with the other collectors (`profd captures`); "
	"--timeout waits longer";

struct wish {
	uint32_t only, on, off;
	int64_t rate;
};

struct answers {
	cJSON *switched, *kept, *waits; /* waits: ids of triggers */
	int code;
};

static bool is_change(const char *word)
{
	return *word == '+' || *word == '-';
}

static int unknown(const char *word)
{
	char *safe = text_safe(word);
	int code = fail(
		EXIT_USAGE,
		"set knows no %s; the words are stacks, stacks=operators, shapes, memory, modules, gpu, nvtx, torch and "
		"compile, with + or - before them",
		safe);

	free(safe);
	return code;
}

static int read_wish(const struct arguments *a, struct wish *ret)
{
	const char *preset = arguments_text(a, "preset", NULL);

	*ret = (struct wish){.only = preset ? preset_collectors(preset) : 0,
			     .rate = arguments_number(a, "stacks-rate", 0)};
	for (size_t i = 0; i < a->word_count; i++)
		if (is_change(a->words[i]) && !chosen_change(a->words[i], &ret->on, &ret->off))
			return unknown(a->words[i]);
	if (ret->on & ret->off)
		return fail(EXIT_USAGE, "the same is asked for with + and with -; leave one of them out");
	if (!ret->only && !ret->on && !ret->off && !ret->rate)
		return fail(EXIT_USAGE, "record what from now on? Give +WORD or -WORD, such as +stacks or -memory; "
					"`profd set --help` lists the words");
	return EXIT_DONE;
}

static int check(const struct arguments *a, size_t captures)
{
	unsigned kinds = 0u + (captures > 0) + (a->pid_count > 0) + arguments_has(a, "trigger");

	if (kinds == 0)
		return fail(EXIT_USAGE,
			    "of what? Name captures, or give --pid PID or --trigger ID; `profd captures` lists "
			    "what is under way");
	return kinds == 1 ? EXIT_DONE
			  : fail(EXIT_USAGE, "name captures, or give one of --pid and --trigger, not several");
}

static void add_words(cJSON *request, const char *key, uint32_t bits)
{
	cJSON *list = bits ? need(cJSON_AddArrayToObject(request, key)) : NULL;

	for (unsigned bit = 0; bit < COLLECTOR_COUNT; bit++)
		if (bits >> bit & 1)
			cJSON_AddItemToArray(list, need(cJSON_CreateString(collector_word(bit))));
}

static void take_switched(struct answers *answers, const cJSON *row)
{
	cJSON *copy = need(cJSON_Duplicate(row, true));

	cJSON_DeleteItemFromObjectCaseSensitive(copy, "row");
	cJSON_AddItemToArray(answers->switched, copy);
}

static void take_kept(struct answers *answers, const cJSON *row, const struct failure *failure)
{
	static const char *const keys[] = {"capture_id", "pid", "rank"};
	cJSON *kept = need(cJSON_CreateObject());
	int code = failure_print(failure);

	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
		const cJSON *item = row ? cJSON_GetObjectItemCaseSensitive(row, keys[i]) : NULL;

		cJSON_AddItemToObject(kept, keys[i], need(item ? cJSON_Duplicate(item, true) : cJSON_CreateNull()));
	}
	json_add_text(kept, "code", failure->word);
	json_add_text(kept, "message", failure->message);
	cJSON_AddItemToArray(answers->kept, kept);
	answers->code = answers->code ? answers->code : code;
}

/* More processes than one daemon has. */
#define ROWS_MOST 4096

/* Returns whether the packet is the last one; *ret_any: it was about a capture. */
static bool take(struct answers *answers, const cJSON *packet, bool *ret_any, struct failure *ret_failure)
{
	struct failure failure;

	if (reply_is_row(packet, "switched")) {
		take_switched(answers, packet);
		*ret_any = true;
	} else if (reply_is_row(packet, "kept")) {
		reply_error(packet, &failure);
		take_kept(answers, packet, &failure);
		*ret_any = true;
	} else if (reply_is_row(packet, "waits") && json_text(packet, "trigger_id")) {
		cJSON_AddItemToArray(answers->waits, need(cJSON_CreateString(json_text(packet, "trigger_id"))));
		*ret_any = true;
	} else {
		return reply_error(packet, ret_failure) || reply_is_end(packet);
	}
	return false;
}

/* One answer, from its rows to its end. Returns whether this daemon had what is named; else *ret_failure says why not. */
static bool hear(struct daemon *daemon, int64_t until, struct answers *answers, struct failure *ret_failure)
{
	struct kept kept = {0};
	bool any = false, ended = false;

	while (!ended) {
		int64_t left = (until - clock_now()) / 1000000;
		cJSON *packet;
		int received = daemon_receive(daemon, left > 0 ? (int)(left < INT_MAX ? left : INT_MAX) : 0, &packet,
					      NULL, ret_failure);

		if (received == RECEIVE_TIMEOUT)
			failure_set(ret_failure, ERROR_TIMEOUT, still_waiting);
		if (received != RECEIVE_PACKET)
			return false;
		ended = take(answers, packet, &any, ret_failure) ||
			!reply_keep(&kept, ROWS_MOST, packet, daemon, ret_failure);
		cJSON_Delete(packet);
	}
	return any;
}

/* Asks each daemon until one has it. Takes the request. */
static void set(struct daemons *daemons, cJSON *request, const struct wish *wish, int64_t until,
		struct answers *answers)
{
	struct failure best = {0};
	bool done = false;

	add_words(request, "only", wish->only);
	add_words(request, "on", wish->on);
	add_words(request, "off", wish->off);
	cJSON_AddNumberToObject(request, "stacks_rate", (double)wish->rate);
	for (unsigned i = 0; i < daemons->count && !done; i++) {
		struct failure failure = {0};

		done = daemon_send(&daemons->list[i], request, &failure) &&
		       hear(&daemons->list[i], until, answers, &failure);
		failure_merge(&best, &failure);
	}
	if (!done)
		take_kept(answers, NULL, &best);
	cJSON_Delete(request);
}

static void set_all(const struct arguments *a, struct daemons *daemons, const struct wish *wish,
		    struct answers *answers)
{
	int64_t until = clock_now() + arguments_number(a, "timeout", TIMEOUT_NS);
	const char *trigger = arguments_text(a, "trigger", NULL);
	cJSON *request;

	if (trigger) {
		request = request_new("set");
		json_add_text(request, "trigger_id", trigger);
		set(daemons, request, wish, until, answers);
	}
	for (size_t i = 0; i < a->pid_count; i++) {
		request = request_new("set");
		need(cJSON_AddNumberToObject(request, "pid", (double)a->pids[i]));
		set(daemons, request, wish, until, answers);
	}
	for (size_t i = 0; i < a->word_count; i++) {
		if (is_change(a->words[i]))
			continue;
		request = request_new("set");
		json_add_text(request, "capture_id", a->words[i]);
		set(daemons, request, wish, until, answers);
	}
}

static const struct column columns[] = {
	{"capture_id", "CAPTURE", COLUMN_TEXT, 0},	  {"pid", "PID", COLUMN_NUMBER, 0},
	{"rank", "RANK", COLUMN_NUMBER, COLUMN_OPTIONAL}, {"goes_on_as", "GOES ON AS", COLUMN_TEXT, 0},
	{"last_step", "LAST STEP", COLUMN_NUMBER, 0},	  {"first_step", "FIRST STEP", COLUMN_NUMBER, 0},
	{"passed", "PASSED", COLUMN_NUMBER, 0},		  {"changes", "CHANGES", COLUMN_TEXT, 0},
};

static void print(struct answers *answers, enum output_format format)
{
	const cJSON *row;

	if (format == FORMAT_JSON) {
		cJSON *object = json_new("set");

		cJSON_AddItemToObject(object, "switched", answers->switched);
		cJSON_AddItemToObject(object, "kept", answers->kept);
		cJSON_AddItemToObject(object, "waits", answers->waits);
		json_print(object);
		return;
	}
	if (format == FORMAT_CSV) {
		struct table *table = table_new(COUNTED(columns));

		cJSON_ArrayForEach(row, answers->switched)
		{
			table_add(table);
			for (size_t c = 0; c < sizeof columns / sizeof *columns; c++)
				table_set_member(table, c, row, columns[c].key);
		}
		table_csv(table, stdout, 0);
		table_free(table);
	} else {
		cJSON_ArrayForEach(row, answers->switched)
		{
			char *safe = text_safe(json_text(row, "message") ? json_text(row, "message") : "?");

			puts(safe);
			free(safe);
		}
		cJSON_ArrayForEach(row, answers->waits)
			printf("trigger %s waits for processes; they are recorded so\n", row->valuestring);
	}
	cJSON_Delete(answers->waits);
	cJSON_Delete(answers->switched);
	cJSON_Delete(answers->kept);
}

int command_set(struct arguments *arguments)
{
	struct daemons daemons;
	struct answers answers = {0};
	struct wish wish;
	size_t captures = 0;
	int code;

	for (size_t i = 0; i < arguments->word_count; i++)
		captures += !is_change(arguments->words[i]);
	code = check(arguments, captures);
	if (!code)
		code = read_wish(arguments, &wish);
	if (!code)
		code = daemons_need(&daemons);
	if (code)
		return code;
	answers.switched = need(cJSON_CreateArray());
	answers.kept = need(cJSON_CreateArray());
	answers.waits = need(cJSON_CreateArray());
	set_all(arguments, &daemons, &wish, &answers);
	print(&answers, arguments_format(arguments));
	daemons_deinit(&daemons);
	return answers.code;
}
