/* setup.c - see setup.h. */
#include "setup.h"

#include "client/report/query.h"
#include "client/report/recorded.h"
#include "client/ui/json.h"
#include "client/ui/text.h"
#include "store/breakdown/breakdown.h"

#include <search.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Input shapes beyond so many are not looked at. */
#define SHAPES_MOST 20000
#define FACT_BYTES 256

/* A capture's session tells it, or the imported trace itself. */
#define VERSION(key)                                                                                                   \
	"SELECT coalesce((SELECT nullif(" key ", 0) FROM sessions ORDER BY rowid DESC LIMIT 1), (SELECT value FROM "   \
	"meta WHERE key = '" key "'))"

/* What is compared: a key of `meta`, or a query of one column. `device`: only of files that have the device's tables. */
static const struct fact {
	const char *key, *what, *meta, *sql;
	bool device;
} facts[] = {
	{"gpu", "the GPU", NULL,
	 "SELECT DISTINCT s.text FROM devices d JOIN strings s ON s.id = d.name WHERE d.id IN (SELECT device FROM step_devices) ORDER "
	 "BY 1",
	 true},
	{"gpus", "the number of GPUs of a process", NULL, "SELECT count(DISTINCT device) FROM step_devices", true},
	{"driver_version", "the driver", NULL, VERSION("driver_version"), true},
	{"cupti_version", "CUPTI", NULL, VERSION("cupti_version"), true},
	{"runtime_version", "the CUDA runtime", NULL, VERSION("runtime_version"), true},
	{"torch_version", "torch", "torch_version", NULL, false},
	{"world_size", "the world size", "world_size", NULL, false},
	{"host", "the host", "host", NULL, false},
	{"name", "the program", "name", NULL, false},
	{"command", "the command", "command", NULL, false},
	{"collectors", "what was recorded", NULL, "SELECT collector FROM collectors WHERE ran ORDER BY collector",
	 false},
	{"step_source", "what a step is told by", "step_source", NULL, false},
};

/* Adds a value, with a comma before it, unless it is there already. */
static void add_value(char *to, const char *value)
{
	size_t n = strlen(to), length = strlen(value);
	for (const char *at = to; *at; at += strcspn(at, ",") + (at[strcspn(at, ",")] ? 2 : 0))
		if (strcspn(at, ",") == length && strncmp(at, value, length) == 0)
			return;
	if (!*value || n + length + 3 > FACT_BYTES)
		return;
	snprintf(to + n, FACT_BYTES - n, "%s%s", n ? ", " : "", value);
}

static void read_fact(struct reader *reader, const struct fact *fact, char *to)
{
	if (fact->meta) {
		const char *text = reader_meta_text(reader, fact->meta);
		add_value(to, text ? text : "");
		return;
	}
	if (fact->device && !report_gpu(reader))
		return;
	sqlite3_stmt *statement = report_prepare(reader, fact->sql);
	while (report_next(reader, statement)) {
		const char *text = (const char *)sqlite3_column_text(statement, 0);
		add_value(to, text ? text : "");
	}
}

cJSON *setup_facts(const struct side *side)
{
	cJSON *object = need(cJSON_CreateObject());
	for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) {
		char text[FACT_BYTES] = "";
		for (size_t c = 0; c < side->count; c++)
			read_fact(&side->captures[c].capture.reader, &facts[i], text);
		json_add_text(object, facts[i].key, *text ? text : NULL);
	}
	return object;
}

static void add_difference(cJSON *to, const char *key, const char *a, const char *b, const char *sentence)
{
	cJSON *row = need(cJSON_CreateObject());
	json_add_text(row, "what", key);
	json_add_text(row, "a", a);
	json_add_text(row, "b", b);
	json_add_text(row, "sentence", sentence);
	cJSON_AddItemToArray(to, row);
}

/* --- input shapes --- */

struct shapes {
	void *tree;  /* of "operator\tshapes" */
	void *names; /* of the operators */
	size_t count;
};

static int by_text(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* Adds a text, which it takes over, unless it is there. */
static bool add_text(void **tree, char *text)
{
	char **found = need(tsearch(text, tree, by_text));
	if (*found == text)
		return true;
	free(text);
	return false;
}

static bool read_shapes(const struct side *side, struct shapes *ret)
{
	for (size_t c = 0; c < side->count; c++) {
		const struct reader *reader = &side->captures[c].capture.reader;
		if (!report_ran(reader, "shapes"))
			return false;
		sqlite3_stmt *statement = report_prepare(
			reader,
			"SELECT DISTINCT s.text, i.dims FROM operators o JOIN strings s ON s.id = o.name JOIN inputs i ON i.id "
			"= o.inputs WHERE i.dims <> '' AND i.dims <> '[]'");
		while (report_next(reader, statement)) {
			const char *name = (const char *)sqlite3_column_text(statement, 0);
			const char *dims = (const char *)sqlite3_column_text(statement, 1);
			char *text = NULL;
			if (ret->count == SHAPES_MOST || !name || !dims)
				continue;
			if (asprintf(&text, "%s\t%s", name, dims) < 0)
				need(NULL);
			ret->count += add_text(&ret->tree, text);
			add_text(&ret->names, need(strdup(name)));
		}
	}
	return true;
}

/* twalk(3) has no context. */
static struct {
	const struct shapes *other;
	char only[FACT_BYTES]; /* the first that the other side has not */
	size_t count;
} walk;

/* An operator that the other side has not at all is no matter of shapes. */
static bool is_known(const char *text)
{
	char *name = need(strndup(text, strcspn(text, "\t")));
	bool known = tfind(name, &walk.other->names, by_text) != NULL;
	free(name);
	return known;
}

static void look_at(const void *node, VISIT visit, int level)
{
	const char *text = *(char *const *)node;
	(void)level;
	if ((visit != postorder && visit != leaf) || tfind(text, &walk.other->tree, by_text) || !is_known(text))
		return;
	if (walk.count++ == 0)
		snprintf(walk.only, sizeof walk.only, "%s", text);
}

/* How many shapes one side has alone; an example of them. */
static size_t alone(const struct shapes *one, const struct shapes *other, char *example)
{
	memset(&walk, 0, sizeof walk);
	walk.other = other;
	twalk(one->tree, look_at);
	snprintf(example, FACT_BYTES, "%s", walk.only);
	example[strcspn(example, "\t")] = ' ';
	return walk.count;
}

static void compare_shapes(const struct side *a, const struct side *b, cJSON *to)
{
	struct shapes of_a = {0}, of_b = {0};
	char example_a[FACT_BYTES] = "", example_b[FACT_BYTES] = "", sentence[4 * FACT_BYTES];
	if (read_shapes(a, &of_a) && read_shapes(b, &of_b)) {
		size_t only_a = alone(&of_a, &of_b, example_a), only_b = alone(&of_b, &of_a, example_b);
		if (only_a || only_b) {
			snprintf(sentence, sizeof sentence,
				 "input shapes of operators differ: %zu in A alone%s%s%s, %zu in B alone%s%s%s", only_a,
				 only_a ? " (" : "", example_a, only_a ? ")" : "", only_b, only_b ? " (" : "",
				 example_b, only_b ? ")" : "");
			add_difference(to, "input_shapes", only_a ? example_a : NULL, only_b ? example_b : NULL,
				       sentence);
		}
	}
	tdestroy(of_a.tree, free);
	tdestroy(of_b.tree, free);
	tdestroy(of_a.names, free);
	tdestroy(of_b.names, free);
}

/* --- what makes figures doubtful --- */

static void add_doubts(const struct side *side, const char *letter, cJSON *to)
{
	size_t incomplete = 0, losing = 0, simulated = 0;
	char sentence[FACT_BYTES];
	for (size_t i = 0; i < side->count; i++) {
		struct reader *reader = &side->captures[i].capture.reader;
		const char *status = reader_meta_text(reader, "status");
		incomplete += !status || strcmp(status, "complete") != 0;
		losing += reader_count(reader, "SELECT count(*) FROM losses WHERE is_loss AND count > 0", 0) > 0;
		simulated += report_simulated(reader);
	}
	if (incomplete) {
		snprintf(sentence, sizeof sentence, "%s is incomplete: it ended before all steps were recorded",
			 letter);
		add_difference(to, "incomplete", NULL, NULL, sentence);
	}
	if (losing) {
		snprintf(sentence, sizeof sentence, "events of %s were dropped: `profd show --by dropped` says which",
			 letter);
		add_difference(to, "dropped", NULL, NULL, sentence);
	}
	if (simulated) {
		snprintf(sentence, sizeof sentence, "the GPU of %s was simulated", letter);
		add_difference(to, "simulated", NULL, NULL, sentence);
	}
	if (side->left_out) {
		snprintf(sentence, sizeof sentence, "%zu step%s of %s %s %s, and %s left out", side->left_out,
			 side->left_out == 1 ? "" : "s", letter, side->left_out == 1 ? "holds" : "hold",
			 side->held == HOLDS_EVALUATION ? "an evaluation or inference"
			 : side->held == HOLDS_COMPILATION
				 ? "a compilation by torch.compile"
				 : "an evaluation, inference or a compilation by torch.compile",
			 side->left_out == 1 ? "is" : "are");
		add_difference(to, side->held == HOLDS_COMPILATION ? "compilation" : "evaluation", NULL, NULL,
			       sentence);
	}
	if (side->window) {
		snprintf(sentence, sizeof sentence, "%s is a window of time, which stands for one step here", letter);
		add_difference(to, "window", NULL, NULL, sentence);
	}
}

cJSON *setup_differences(const struct side *a, const struct side *b)
{
	cJSON *of_a = setup_facts(a), *of_b = setup_facts(b), *list = need(cJSON_CreateArray());
	for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) {
		const char *one = json_text(of_a, facts[i].key), *other = json_text(of_b, facts[i].key);
		char sentence[3 * FACT_BYTES];
		if (!one || !other || strcmp(one, other) == 0)
			continue;
		snprintf(sentence, sizeof sentence, "%s differs: %s in A, %s in B", facts[i].what, one, other);
		add_difference(list, facts[i].key, one, other, sentence);
	}
	compare_shapes(a, b, list);
	add_doubts(a, "A", list);
	add_doubts(b, "B", list);
	cJSON_Delete(of_a);
	cJSON_Delete(of_b);
	return list;
}
