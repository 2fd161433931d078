/* daemon.c - the daemon's options as parts of profd-daemon(8), its configuration as one of profd.conf(5). */
#include "daemon/setup/options.h"
#include "figure.h"
#include "mdoc.h"
#include "parts.h"

#include <stdbool.h>
#include <string.h>

static void print_synopsis(FILE *file)
{
	for (size_t i = 0; i < DAEMON_OPTION_COUNT; i++) {
		const struct daemon_option *row = &daemon_options[i];

		fputs(".Op Fl \\-", file);
		mdoc_word(file, row->name, strlen(row->name));
		if (row->argument) {
			fputs(" Ar ", file);
			mdoc_word(file, row->argument, strlen(row->argument));
		}
		fputc('\n', file);
	}
}

static void print_options(FILE *file)
{
	fputs(".Bl -tag -width Ds\n", file);
	for (size_t i = 0; i < DAEMON_OPTION_COUNT; i++) {
		const struct daemon_option *row = &daemon_options[i];

		fputs(".It Fl \\-", file);
		mdoc_word(file, row->name, strlen(row->name));
		if (row->argument) {
			fputs(" Ar ", file);
			mdoc_word(file, row->argument, strlen(row->argument));
		}
		fputc('\n', file);
		mdoc_phrase(file, row->help, row->argument);
	}
	fputs(".El\n", file);
}

struct key {
	const char *name;  /* of a group: its title */
	const char *value; /* what stands for it; NULL: a group */
	enum figure_unit unit;
	const char *initial;
	int64_t least, most; /* both 0: no bounds */
	bool live;
	const char *help;
};

static const struct key keys[] = {
#define CONFIG_NUMBER(key, initial, least, most, live, help)                                                           \
	{#key, "N", FIGURE_COUNT, initial, least, most, live, help},
#define CONFIG_SIZE(key, initial, least, most, live, help)                                                             \
	{#key, "SIZE", FIGURE_BYTES, initial, least, most, live, help},
#define CONFIG_DURATION(key, initial, least, most, live, help)                                                         \
	{#key, "TIME", FIGURE_DURATION, initial, least, most, live, help},
#define CONFIG_FLAG(key, initial, live, help) {#key, "yes|no", FIGURE_COUNT, initial, 0, 0, live, help},
#define CONFIG_PATH(key, initial, live, help) {#key, "PATH", FIGURE_COUNT, initial, 0, 0, live, help},
#define CONFIG_GROUP(title) {title, NULL, FIGURE_COUNT, "", 0, 0, false, ""},
#include "daemon/core/config.def"
};

/* "Title: what is to be known about the keys" */
static void print_group(FILE *file, const char *title)
{
	size_t head = strcspn(title, ":;");

	fprintf(file, ".Ss %.*s\n", (int)head, title);
	if (title[head])
		mdoc_phrase(file, title + head + 1 + strspn(title + head + 1, " "), NULL);
	fputs(".Bl -tag -width Ds\n", file);
}

static void print_key(FILE *file, const struct key *key)
{
	char least[32], most[32];

	fprintf(file, ".It Ic %s No = ", key->name);
	if (strchr(key->value, '|'))
		mdoc_choices(file, key->value, "|");
	else
		fprintf(file, "Ar %s", key->value);
	fputc('\n', file);
	mdoc_phrase(file, key->help, NULL);
	if (*key->initial)
		fprintf(file, "Default:\n.Ql %s .\n", key->initial);
	figure(least, sizeof least, key->unit, key->least);
	figure(most, sizeof most, key->unit, key->most);
	if (key->most && key->most < INT64_MAX)
		fprintf(file, "From %s to %s.\n", least, most);
	else if (key->most && key->least)
		fprintf(file, "At least %s.\n", least);
	if (!key->live)
		fputs("A change needs a restart.\n", file);
}

static void print_keys(FILE *file)
{
	bool open = false;

	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
		if (keys[i].value) {
			print_key(file, &keys[i]);
			continue;
		}
		if (open)
			fputs(".El\n", file);
		open = true;
		print_group(file, keys[i].name);
	}
	if (open)
		fputs(".El\n", file);
}

const struct part daemon_parts[] = {
	{"daemon-synopsis", print_synopsis},
	{"daemon-options", print_options},
	{"config-keys", print_keys},
	{NULL, NULL},
};
