/* verbs.c - the table of verbs.def, for those who read it at run time. The manuals' generator is linked with it too. */
#include "verbs.h"

#include "commands.h"

#include "proto/limits.h"

#define WORD(name, sentence) name "\t" sentence "\n"

static const char view_choices[] = "all"
#define VIEW(name, ...) "|" #name
#include "client/report/views.def"
	;

static const char view_meanings[] = WORD("all", "all tables, one below the other")
#define VIEW(name, key, heading, fills, flags, activities, cuts, sentence, json) WORD(#name, sentence)
#include "client/report/views.def"
	;

static const char compare_choices[] = "all|breakdown"
#define KIND(name, ...) "|" #name
#include "client/compare/kinds.def"
	;

static const char compare_meanings[] = WORD("all", "where a step goes, and what has changed in the other tables")
	WORD("breakdown", "where a step goes, in rows that add up to it")
#define KIND(name, key, heading, fills, sql, sentence) WORD(#name, sentence)
#include "client/compare/kinds.def"
	;

/* With a | before each, as formats below. */
static const char preset_choices[] = ""
#define PRESET(word, collectors, sentence) "|" #word
#include "presets.def"
	;

static const char preset_meanings[] = ""
#define PRESET(word, collectors, sentence) WORD(#word, sentence)
#include "presets.def"
	;

static const char activities_meanings[] = WORD("cpu,gpu", "both") WORD(
	"gpu",
	"the device alone, the cheapest: kernels, copies, memsets, and the calls that launched them and waited for them")
	WORD("cpu", "as --no-gpu");

/* With a | before each. */
static const char format_choices[] = ""
#define FORMAT(name, ...) "|" name
#include "client/export/formats.def"
	;

static const char format_meanings[] = ""
#define FORMAT(name, write, suffix, file, gzip, abilities, sentence) WORD(name, sentence)
#include "client/export/formats.def"
	;

#define VERB(name, ...) static const struct option_row name##_options[] = {
#define FLAG(name, letter, help) {name, letter, OPTION_FLAG, NULL, NULL, help, 0, 0},
#define FLAG_OR(name, letter, choices, help) {name, letter, OPTION_FLAG, choices, NULL, help, 0, 0},
#define OPTION(kind, name, letter, argument, help) {name, letter, OPTION_##kind, argument, NULL, help, 0, 0},
#define BOUNDED(kind, name, letter, argument, least, most, help)                                                       \
	{name, letter, OPTION_##kind, argument, NULL, help, least, most},
#define CHOICE(name, letter, choices, meanings, help) {name, letter, OPTION_CHOICE, choices, meanings, help, 0, 0},
#define END_VERB(name)                                                                                                 \
	{                                                                                                              \
	}                                                                                                              \
	}                                                                                                              \
	;
#include "verbs.def"

static const struct verb verbs[] = {
#define VERB(name, summary, synopsis, least, most, flags, description, examples)                                       \
	{#name, summary, synopsis, description, examples, name##_options, least, most, flags, command_##name},
#include "verbs.def"
};

const struct verb *verb_table(size_t *ret_count)
{
	*ret_count = sizeof verbs / sizeof *verbs;
	return verbs;
}
