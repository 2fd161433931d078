/* main.c - finds the verb, reads its options, runs it. Everything else is in command/. */
#include "client/ui/failure.h"
#include "client/ui/text.h"
#include "client/verbs/arguments.h"
#include "client/verbs/commands.h"
#include "client/verbs/help.h"

#include "proto/base/hash.h"
#include "proto/version.h"

#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int unknown_verb(const char *word)
{
	const char *nearest = verb_nearest(word);
	char *safe = text_safe(word);

	if (nearest)
		fail(EXIT_USAGE, "there is no verb \"%s\"; did you mean `profd %s`? `profd help` lists them all", safe,
		     nearest);
	else
		fail(EXIT_USAGE, "there is no verb \"%s\"; `profd help` lists them", safe);
	free(safe);
	return EXIT_USAGE;
}

/* What was printed may still sit in the buffer, and the disk be full. */
static int flushed(int code)
{
	int broken = ferror(stdout);

	if (fflush(stdout) == 0 && !broken)
		return code;
	return fail(EXIT_FAILED, "standard output could not be written: %s", strerror(errno));
}

int main(int argc, char **argv)
{
	struct arguments arguments;
	const struct verb *verb;
	int code;

	/* Only the widths of characters; numbers and messages stay as they are. */
	if (!setlocale(LC_CTYPE, "C.UTF-8"))
		(void)setlocale(LC_CTYPE, "");
	if (argc < 2) {
		help_print_all(stdout);
		return flushed(EXIT_DONE);
	}
	if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
		puts("profd " PROFD_VERSION);
		return flushed(EXIT_DONE);
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
		help_print_all(stdout);
		return flushed(EXIT_DONE);
	}
	/* Files that it reads may be hostile. */
	hash_init();
	verb = verb_find(argv[1]);
	if (!verb)
		return unknown_verb(argv[1]);
	switch (arguments_init(&arguments, verb, argc - 2, argv + 2)) {
	case ARGUMENTS_OK:
		code = verb->run(&arguments);
		break;
	case ARGUMENTS_HELP:
		help_print_verb(verb, stdout);
		code = EXIT_DONE;
		break;
	default:
		code = EXIT_USAGE;
		break;
	}
	/* The sentence before this one has said what is wrong. */
	if (code == EXIT_USAGE && verb->run != command_help)
		note("`profd %s --help` says how it is used", verb->name);
	arguments_deinit(&arguments);
	return flushed(code);
}
