/* fuzz_client_recipe.c - a recipe: the first byte says for which verb, and whether the command line has options of its own; then the text. */
#include "client/verbs/chosen.h"
#include "client/verbs/recipe.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerInitialize(int *argc, char ***argv);

/* libFuzzer has kept the real one. */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc, (void)argv;
	stderr = fopen("/dev/null", "w");
	return stderr ? 0 : 1;
}

/* Whatever is taken is within the bounds of its row, and a word of its choices; the command line's own stays. */
static void check(const struct arguments *arguments, bool own)
{
	uint32_t bits = chosen_collectors(arguments);
	for (size_t i = 0; i < arguments->given_count; i++) {
		const struct given *given = &arguments->given[i];
		const struct option_row *row = given->row;
		bool counts = row->kind == OPTION_NUMBER || row->kind == OPTION_DURATION || row->kind == OPTION_SIZE;
		if (given->off ? row->kind != OPTION_FLAG || given->text : row->kind != OPTION_FLAG && !given->text)
			abort();
		if (counts && (given->number < row->least || (row->most && given->number > row->most)))
			abort();
		if (row->kind == OPTION_CHOICE && !strstr(row->argument, given->text))
			abort();
	}
	for (size_t i = 0; i < arguments->pid_count; i++)
		if (arguments->pids[i] < 1 || arguments->pids[i] > INT32_MAX)
			abort();
	if (own && (arguments_number(arguments, "steps", 0) != 7 ||
		    strcmp(arguments_text(arguments, "preset", ""), "light") != 0))
		abort();
	/* Steps always; of the GPU's memory nothing without the GPU; nothing that nobody can record. */
	if (!(bits >> COLLECTOR_STEPS & 1) || (bits >> COLLECTOR_MEMORY & 1 && !(bits >> COLLECTOR_CUPTI & 1)))
		abort();
	for (unsigned bit = 0; bit < 32; bit++)
		if (bits >> bit & 1 && !collector_facts(bit))
			abort();
	chosen_check(arguments);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	char *words[] = {"--steps", "7", "--preset", "light"}, *text;
	struct arguments arguments;
	if (!n || n > RECIPE_BYTES_MAX || !(text = malloc(n)))
		return 0;
	memcpy(text, data + 1, n - 1);
	text[n - 1] = 0;
	bool own = data[0] & 2;
	if (arguments_init(&arguments, verb_find(data[0] & 1 ? "snapshot" : "trigger"), own ? 4 : 0, words) !=
	    ARGUMENTS_OK)
		abort();
	if (recipe_parse(&arguments, "r.json", text, n - 1) == ARGUMENTS_OK)
		check(&arguments, own);
	arguments_deinit(&arguments);
	free(text);
	return 0;
}
