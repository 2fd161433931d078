/* arguments.c - see arguments.h. */
#include "arguments.h"

#include "recipe.h"

#include "client/ui/failure.h"
#include "proto/quantity.h"
#include "client/ui/text.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* How many letters may be wrong: two in a long word, one in a short one. */
static unsigned tolerance(const char *word)
{
	return strlen(word) >= 5 ? 2 : 1;
}

const struct verb *verb_find(const char *name)
{
	size_t count;
	const struct verb *verbs = verb_table(&count);

	for (size_t i = 0; i < count; i++)
		if (strcmp(verbs[i].name, name) == 0)
			return &verbs[i];
	return NULL;
}

const struct option_row *verb_option(const struct verb *verb, const char *name)
{
	for (const struct option_row *row = verb->options; row->name; row++)
		if (strcmp(row->name, name) == 0)
			return row;
	return NULL;
}

const char *verb_nearest(const char *name)
{
	const char *nearest = NULL;
	unsigned best = tolerance(name) + 1;
	size_t count;
	const struct verb *verbs = verb_table(&count);

	for (size_t i = 0; i < count; i++) {
		unsigned distance = word_distance(name, verbs[i].name, best);

		if (distance < best) {
			best = distance;
			nearest = verbs[i].name;
		}
	}
	return nearest;
}

static const struct option_row *nearest_option(const struct verb *verb, const char *name)
{
	const struct option_row *nearest = NULL;
	unsigned best = tolerance(name) + 1;

	for (const struct option_row *row = verb->options; row->name; row++) {
		unsigned distance = word_distance(name, row->name, best);

		/* --step for --steps, --max-event for --max-events, --dur for --duration. */
		if (strlen(name) >= 3 && strncmp(name, row->name, strlen(name)) == 0)
			distance = 0;
		if (distance < best) {
			best = distance;
			nearest = row;
		}
	}
	return nearest;
}

static int unknown(const struct verb *verb, const char *word, const char *name)
{
	const struct option_row *nearest = nearest_option(verb, name);
	char *safe = text_safe(word);

	if (nearest)
		fail(EXIT_USAGE, "%s has no option %s; did you mean --%s?", verb->name, safe, nearest->name);
	else
		fail(EXIT_USAGE, "%s has no option %s", verb->name, safe);
	free(safe);
	return ARGUMENTS_USAGE;
}

static int bad_value(const struct arguments *a, const struct option_row *row, const char *text, const char *wanted)
{
	char *safe = text_safe(text);

	fail(EXIT_USAGE, "%s--%s %s: %s", a->where ? a->where : "", row->name, safe, wanted);
	free(safe);
	return ARGUMENTS_USAGE;
}

static bool is_choice(const char *choices, const char *word)
{
	size_t n = strlen(word);

	for (const char *at = choices; at && n && !strchr(word, '|'); at = strchr(at, '|')) {
		at += *at == '|';
		if (strncmp(at, word, n) == 0 && (at[n] == 0 || at[n] == '|'))
			return true;
	}
	return false;
}

static int add_pids(struct arguments *a, const struct option_row *row, const char *text)
{
	char *list = need(strdup(text));
	char *rest = list;
	char *one;
	int error = ARGUMENTS_OK;

	while (error == ARGUMENTS_OK && (one = strsep(&rest, ","))) {
		int64_t pid;

		if (!quantity_number(one, &pid) || pid < 1 || pid > INT32_MAX) {
			error = bad_value(a, row, one, "a process id is wanted, as `profd ps` lists them");
			break;
		}
		for (size_t i = 0; i < a->pid_count; i++)
			if (a->pids[i] == pid)
				pid = 0;
		if (!pid)
			continue;
		a->pids = need(reallocarray(a->pids, a->pid_count + 1, sizeof *a->pids));
		a->pids[a->pid_count++] = pid;
	}
	free(list);
	return error;
}

static void add(struct arguments *a, const struct given *given)
{
	a->given = need(reallocarray(a->given, a->given_count + 1, sizeof *a->given));
	a->given[a->given_count++] = *given;
}

void arguments_add_off(struct arguments *a, const struct option_row *row)
{
	add(a, &(struct given){.row = row, .off = true});
}

int arguments_add(struct arguments *a, const struct option_row *row, const char *text)
{
	struct given given = {.row = row, .text = text};
	char sentence[400];
	bool ok = true;

	switch (row->kind) {
	case OPTION_FLAG:
		if (text && !is_choice(row->argument, text)) {
			snprintf(sentence, sizeof sentence, "--%s alone is wanted, or with =%s", row->name,
				 row->argument);
			return bad_value(a, row, text, sentence);
		}
		break;
	case OPTION_TEXT:
		break;
	case OPTION_NUMBER:
		ok = quantity_number(text, &given.number);
		if (!ok)
			return bad_value(a, row, text, "a whole number is wanted");
		break;
	case OPTION_DURATION:
		ok = quantity_duration(text, &given.number);
		if (!ok)
			return bad_value(a, row, text,
					 "a duration with its unit is wanted, such as 2s, 500ms or 1m30s");
		break;
	case OPTION_SIZE:
		ok = quantity_size(text, &given.number);
		if (!ok)
			return bad_value(a, row, text, "a size is wanted, such as 64M or 1G");
		break;
	case OPTION_PIDS:
		if (add_pids(a, row, text) != ARGUMENTS_OK)
			return ARGUMENTS_USAGE;
		break;
	case OPTION_CHOICE:
		if (!is_choice(row->argument, text)) {
			snprintf(sentence, sizeof sentence, "one of %s is wanted", row->argument);
			return bad_value(a, row, text, sentence);
		}
		break;
	}
	if (row->kind == OPTION_NUMBER || row->kind == OPTION_DURATION || row->kind == OPTION_SIZE) {
		char bound[TEXT_FIGURE_BYTES];
		int64_t limit = given.number < row->least ? row->least : row->most;

		if (given.number < row->least || (row->most && given.number > row->most)) {
			if (row->kind == OPTION_DURATION)
				text_duration(bound, limit);
			else if (row->kind == OPTION_SIZE)
				text_bytes(bound, limit);
			else
				snprintf(bound, sizeof bound, "%lld", (long long)limit);
			snprintf(sentence, sizeof sentence, "%s %s is wanted",
				 given.number < row->least ? "at least" : "at most", bound);
			return bad_value(a, row, text, sentence);
		}
	}
	add(a, &given);
	return ARGUMENTS_OK;
}

/* One option that starts at argv[*i]; moves *i to the last word that it took. */
static int long_option(struct arguments *a, int argc, char **argv, int *i)
{
	const char *name = argv[*i] + 2;
	const char *equals = strchr(name, '=');
	size_t n = equals ? (size_t)(equals - name) : strlen(name);

	for (const struct option_row *row = a->verb->options; row->name; row++) {
		if (strlen(row->name) != n || strncmp(row->name, name, n) != 0)
			continue;
		if (row->kind == OPTION_FLAG) {
			if (equals && !row->argument) {
				fail(EXIT_USAGE, "--%s takes no value", row->name);
				return ARGUMENTS_USAGE;
			}
			return arguments_add(a, row, equals ? equals + 1 : NULL);
		}
		if (equals)
			return arguments_add(a, row, equals + 1);
		if (*i + 1 >= argc) {
			fail(EXIT_USAGE, "--%s wants a value: --%s %s", row->name, row->name, row->argument);
			return ARGUMENTS_USAGE;
		}
		return arguments_add(a, row, argv[++*i]);
	}
	if (n == 4 && strncmp(name, "help", 4) == 0)
		return ARGUMENTS_HELP;
	{
		char *bare = need(strndup(name, n));
		int error = unknown(a->verb, argv[*i], bare);

		free(bare);
		return error;
	}
}

static int short_options(struct arguments *a, int argc, char **argv, int *i)
{
	for (const char *p = argv[*i] + 1; *p; p++) {
		const struct option_row *row = a->verb->options;
		int error;

		while (row->name && row->letter != *p)
			row++;
		if (!row->name)
			return *p == 'h' ? ARGUMENTS_HELP : unknown(a->verb, argv[*i], argv[*i] + 1);
		if (row->kind == OPTION_FLAG) {
			error = arguments_add(a, row, NULL);
			if (error)
				return error;
			continue;
		}
		if (p[1])
			return arguments_add(a, row, p + 1);
		if (*i + 1 >= argc) {
			fail(EXIT_USAGE, "-%c wants a value: -%c %s", *p, *p, row->argument);
			return ARGUMENTS_USAGE;
		}
		return arguments_add(a, row, argv[++*i]);
	}
	return ARGUMENTS_OK;
}

int arguments_init(struct arguments *a, const struct verb *verb, int argc, char **argv)
{
	bool options = true;

	*a = (struct arguments){.verb = verb};
	a->words = need(calloc((size_t)argc + 1, sizeof *a->words));
	if (verb->flags & VERB_RAW) {
		for (int i = 0; i < argc; i++) {
			if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
				return ARGUMENTS_HELP;
			a->words[a->word_count++] = argv[i];
		}
		return ARGUMENTS_OK;
	}
	for (int i = 0; i < argc; i++) {
		int error = ARGUMENTS_OK;

		bool word = argv[i][0] != '-' || !argv[i][1];

		word = word || (verb->flags & VERB_SIGNED && argv[i][1] != '-' && strcmp(argv[i], "-h") != 0);
		if (!options || word) {
			a->words[a->word_count++] = argv[i];
			if (verb->flags & VERB_COMMAND)
				options = false;
		} else if (strcmp(argv[i], "--") == 0) {
			options = false;
		} else if (argv[i][1] == '-') {
			error = long_option(a, argc, argv, &i);
		} else {
			error = short_options(a, argc, argv, &i);
		}
		if (error)
			return error;
	}
	if (!(verb->flags & VERB_COMMAND) && a->word_count > verb->most) {
		char *safe = text_safe(a->words[verb->most]);

		fail(EXIT_USAGE, "%s: \"%s\" is one word too many; usage: profd %s%s%s", verb->name, safe, verb->name,
		     *verb->synopsis ? " " : "", verb->synopsis);
		free(safe);
		return ARGUMENTS_USAGE;
	}
	if (a->word_count < verb->least) {
		fail(EXIT_USAGE, "%s: something is missing; usage: profd %s %s", verb->name, verb->name,
		     verb->synopsis);
		return ARGUMENTS_USAGE;
	}
	if (verb_option(verb, "recipe") && arguments_has(a, "recipe"))
		return recipe_add(a, arguments_text(a, "recipe", ""));
	return ARGUMENTS_OK;
}

void arguments_deinit(struct arguments *a)
{
	for (size_t i = 0; i < a->owned_count; i++)
		free(a->owned[i]);
	free(a->owned);
	free(a->given);
	free(a->pids);
	free(a->words);
	*a = (struct arguments){0};
}

static const struct given *find(const struct arguments *a, const char *name)
{
	const struct option_row *row = verb_option(a->verb, name);

	assert(row);
	for (size_t i = a->given_count; i > 0; i--)
		if (a->given[i - 1].row == row && !a->given[i - 1].off)
			return &a->given[i - 1];
	return NULL;
}

bool arguments_has(const struct arguments *a, const char *name)
{
	return find(a, name) != NULL;
}

const char *arguments_text(const struct arguments *a, const char *name, const char *otherwise)
{
	const struct given *given = find(a, name);

	return given ? given->text : otherwise;
}

int64_t arguments_number(const struct arguments *a, const char *name, int64_t otherwise)
{
	const struct given *given = find(a, name);

	return given ? given->number : otherwise;
}

enum output_format arguments_format(const struct arguments *a)
{
	const char *word = arguments_text(a, "format", "table");

	return strcmp(word, "json") == 0 ? FORMAT_JSON : strcmp(word, "csv") == 0 ? FORMAT_CSV : FORMAT_TABLE;
}
