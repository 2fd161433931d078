/* recipe.c - see recipe.h. A value becomes the text that would stand on a command line, so that the table of options alone says what is
 * right. */
#include "recipe.h"

#include "client/ui/failure.h"
#include "client/ui/json.h"
#include "client/ui/text.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Whole numbers are exact in JSON up to here. */
#define NUMBER_MOST 9007199254740992.0

/* The words of torch.profiler that are not profd's own, with - for _. With stacks, torch records one for each operator; FLOP are
 * computed from shapes. */
static const struct {
	const char *torch, *option, *value;
} torch_words[] = {
	{"wait", "wait-steps", NULL},	       {"active", "steps", NULL},	   {"record-shapes", "shapes", NULL},
	{"with-flops", "shapes", NULL},	       {"profile-memory", "memory", NULL}, {"with-modules", "modules", NULL},
	{"with-stack", "stacks", "operators"},
};

struct recipe {
	struct arguments *arguments;
	const char *path, *text;
	size_t on_line; /* options that the command line has */
};

/* The file's text with a zero behind it, and its length; NULL and a sentence where it cannot be had. Nothing is waited for: it may be a
 * FIFO. */
static char *read_file(const char *path, size_t *ret_bytes, const char **ret_why)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat facts;
	char *text = NULL;
	size_t n = 0;
	ssize_t got = 1;

	*ret_why = NULL;
	if (fd < 0 || fstat(fd, &facts) < 0)
		*ret_why = strerror(errno);
	else if (!S_ISREG(facts.st_mode))
		*ret_why = "it is no regular file";
	else
		text = need(malloc(RECIPE_BYTES_MAX + 2));
	while (text && n <= RECIPE_BYTES_MAX && got > 0) {
		got = read(fd, text + n, RECIPE_BYTES_MAX + 1 - n);
		n += got > 0 ? (size_t)got : 0;
	}
	if (text && got < 0)
		*ret_why = strerror(errno);
	else if (n > RECIPE_BYTES_MAX)
		*ret_why = "it has more than 64 KiB";
	if (fd >= 0)
		close(fd);
	if (*ret_why || !text) {
		free(text);
		return NULL;
	}
	text[n] = 0;
	*ret_bytes = n;
	return text;
}

static unsigned line_of(const char *text, const char *at)
{
	unsigned line = 1;

	for (; text < at; text++)
		line += *text == '\n';
	return line;
}

/* Where a key stands; a key that is written with escapes is not found: line 1. */
static unsigned line_of_key(const char *text, const char *key)
{
	size_t n = strlen(key);

	/* A key may be empty, which is found at the end of the text, too. */
	for (const char *at = text; (at = strstr(at, key)) && *at; at++)
		if (at > text && at[-1] == '"' && at[n] == '"' && at[n + 1 + strspn(at + n + 1, " \t\r\n")] == ':')
			return line_of(text, at);
	return 1;
}

static int refuse(const struct recipe *r, const cJSON *item, const char *why)
{
	char *path = text_safe(r->path), *key = text_safe(item->string);

	fail(EXIT_USAGE, "recipe %s, line %u: \"%s\": %s", path, line_of_key(r->text, item->string), key, why);
	free(path);
	free(key);
	return ARGUMENTS_USAGE;
}

/* Takes over `text`. What the command line has, too, is read all the same: a mistake in a recipe is always told. */
static int put(struct recipe *r, const cJSON *item, const struct option_row *row, char *text)
{
	struct arguments *a = r->arguments;
	size_t given = a->given_count, pids = a->pid_count;
	char *path = text_safe(r->path), *where = NULL;
	int error;

	if (text) {
		a->owned = need(reallocarray(a->owned, a->owned_count + 1, sizeof *a->owned));
		a->owned[a->owned_count++] = text;
	}
	if (asprintf(&where, "recipe %s, line %u: ", path, line_of_key(r->text, item->string)) < 0)
		where = need(NULL);
	a->where = where;
	error = arguments_add(a, row, text);
	a->where = NULL;
	for (size_t i = 0; i < r->on_line; i++)
		if (a->given[i].row == row) {
			a->given_count = given;
			a->pid_count = pids;
			break;
		}
	free(where);
	free(path);
	return error;
}

/* What the command line has goes before it. */
static void put_off(struct recipe *r, const struct option_row *row)
{
	for (size_t i = 0; i < r->on_line; i++)
		if (r->arguments->given[i].row == row)
			return;
	arguments_add_off(r->arguments, row);
}

/* torch.profiler's activities, as words of a list. */
static int put_activities(struct recipe *r, const cJSON *item)
{
	const struct option_row *row = verb_option(r->arguments->verb, "activities");
	bool host = false, device = false;
	const cJSON *word;

	cJSON_ArrayForEach(word, item)
	{
		const char *text = cJSON_IsString(word) ? word->valuestring : "";

		if (strcmp(text, "cpu") == 0)
			host = true;
		else if (strcmp(text, "gpu") == 0 || strcmp(text, "cuda") == 0)
			device = true;
		else
			return refuse(r, item, "a list of \"cpu\" and \"cuda\" (or \"gpu\") is wanted");
	}
	if (!cJSON_IsArray(item) || !(host || device))
		return refuse(r, item, "a list of \"cpu\" and \"cuda\" (or \"gpu\") is wanted");
	return put(r, item, row, need(strdup(!device ? "cpu" : host ? "cpu,gpu" : "gpu")));
}

static int put_flag(struct recipe *r, const cJSON *item, const struct option_row *row, const char *value)
{
	if (cJSON_IsTrue(item))
		return put(r, item, row, value ? need(strdup(value)) : NULL);
	if (cJSON_IsFalse(item)) {
		put_off(r, row);
		return ARGUMENTS_OK;
	}
	if (cJSON_IsString(item) && row->argument && !value)
		return put(r, item, row, need(strdup(item->valuestring)));
	return refuse(r, item,
		      row->argument && !value ? "true, false or one of its words is wanted"
					      : "true or false is wanted");
}

static int put_value(struct recipe *r, const cJSON *item, const struct option_row *row)
{
	bool number = row->kind == OPTION_NUMBER || row->kind == OPTION_PIDS;
	char text[32];

	if (number != cJSON_IsNumber(item) || (!number && !cJSON_IsString(item)))
		return refuse(r, item, number ? "a whole number is wanted" : "a text in quotes is wanted");
	if (!number)
		return put(r, item, row, need(strdup(item->valuestring)));
	if (!(fabs(item->valuedouble) <= NUMBER_MOST) || floor(item->valuedouble) != item->valuedouble)
		return refuse(r, item, "a whole number is wanted");
	snprintf(text, sizeof text, "%.0f", item->valuedouble);
	return put(r, item, row, need(strdup(text)));
}

static int put_item(struct recipe *r, const cJSON *object, const cJSON *item)
{
	const struct option_row *row;
	const char *value = NULL;
	char name[64], why[128];

	if (cJSON_GetObjectItemCaseSensitive(object, item->string) != item)
		return refuse(r, item, "it is there twice");
	snprintf(name, sizeof name, "%s", item->string);
	for (char *at = name; *at; at++)
		*at = *at == '_' ? '-' : *at;
	if (strcmp(name, "activities") == 0 && verb_option(r->arguments->verb, name) && !cJSON_IsString(item))
		return put_activities(r, item);
	for (size_t i = 0; i < sizeof torch_words / sizeof *torch_words; i++)
		if (strcmp(name, torch_words[i].torch) == 0) {
			snprintf(name, sizeof name, "%s", torch_words[i].option);
			value = torch_words[i].value;
			break;
		}
	row = verb_option(r->arguments->verb, name);
	if (!row || strcmp(name, "recipe") == 0) {
		snprintf(why, sizeof why, "a recipe for `profd %s` has no such key", r->arguments->verb->name);
		return refuse(r, item, why);
	}
	return row->kind == OPTION_FLAG ? put_flag(r, item, row, value) : put_value(r, item, row);
}

int recipe_parse(struct arguments *a, const char *path, const char *text, size_t bytes)
{
	const char *end = NULL;
	char *safe = text_safe(path);
	cJSON *object = cJSON_ParseWithLengthOpts(text, bytes + 1, &end, 1);
	struct recipe r = {a, path, text, a->given_count};
	int error = ARGUMENTS_USAGE;

	if (!object)
		fail(EXIT_USAGE, "recipe %s, line %u: this is not JSON", safe, line_of(text, end ? end : text));
	else if (!cJSON_IsObject(object))
		fail(EXIT_USAGE, "recipe %s: a JSON object is wanted, such as {\"steps\": 5}", safe);
	else
		error = ARGUMENTS_OK;
	for (const cJSON *item = error ? NULL : object->child; item && !error; item = item->next)
		error = put_item(&r, object, item);
	cJSON_Delete(object);
	free(safe);
	return error;
}

int recipe_add(struct arguments *a, const char *path)
{
	size_t bytes = 0;
	const char *why;
	char *text = read_file(path, &bytes, &why), *safe = text_safe(path);
	int error = text ? recipe_parse(a, path, text, bytes) : ARGUMENTS_USAGE;

	if (!text)
		fail(EXIT_USAGE, "recipe %s: it cannot be read: %s", safe, why);
	free(text);
	free(safe);
	return error;
}
