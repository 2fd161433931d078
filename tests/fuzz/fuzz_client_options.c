/* fuzz_client_options.c - a command line: the first byte is the verb, then words, with a NUL between. */
#include "client/verbs/arguments.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerInitialize(int *argc, char ***argv);

#define WORDS 64

/* libFuzzer has kept the real one. */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc, (void)argv;
	stderr = fopen("/dev/null", "w");
	return stderr ? 0 : 1;
}

/* Every value is within the bounds of its row. */
static void check(const struct arguments *arguments)
{
	for (size_t i = 0; i < arguments->given_count; i++) {
		const struct option_row *row = arguments->given[i].row;
		int64_t number = arguments->given[i].number;
		if (row->kind != OPTION_NUMBER && row->kind != OPTION_DURATION && row->kind != OPTION_SIZE)
			continue;
		if (number < row->least || (row->most && number > row->most) || !arguments_has(arguments, row->name))
			abort();
	}
	for (size_t i = 0; i < arguments->pid_count; i++)
		if (arguments->pids[i] < 1 || arguments->pids[i] > INT32_MAX)
			abort();
	for (size_t i = 0; i < arguments->word_count; i++)
		if (!arguments->words[i])
			abort();
	if (arguments->words && arguments->words[arguments->word_count])
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	char *words[WORDS + 1] = {NULL}, *text;
	struct arguments arguments;
	size_t verbs;
	const struct verb *table = verb_table(&verbs);
	int count = 0;
	if (!n || !(text = malloc(n)))
		return 0;
	memcpy(text, data + 1, n - 1);
	text[n - 1] = 0;
	for (char *at = text; at < text + n && count < WORDS; at += strlen(at) + 1)
		words[count++] = at;
	if (arguments_init(&arguments, &table[data[0] % verbs], count, words) == ARGUMENTS_OK)
		check(&arguments);
	arguments_deinit(&arguments);
	verb_find(text);
	verb_nearest(text);
	free(text);
	return 0;
}
