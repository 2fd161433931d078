/* help.c - `profd help [VERB | TOPIC]`. */
#include "client/ui/failure.h"
#include "client/ui/text.h"
#include "client/verbs/arguments.h"
#include "client/verbs/commands.h"
#include "client/verbs/help.h"

#include <stdlib.h>
#include <string.h>

int command_help(struct arguments *arguments)
{
	const char *word = arguments->words[0];
	const struct verb *verb;
	const struct topic *topics;
	size_t count;
	char *safe;

	if (!word) {
		help_print_all(stdout);
		return EXIT_DONE;
	}
	verb = verb_find(word);
	if (verb) {
		help_print_verb(verb, stdout);
		return EXIT_DONE;
	}
	topics = topic_table(&count);
	for (size_t i = 0; i < count; i++) {
		if (strcmp(topics[i].name, word) != 0)
			continue;
		help_print_topic(&topics[i], stdout);
		return EXIT_DONE;
	}
	safe = text_safe(word);
	fail(EXIT_USAGE, "there is no verb or topic \"%s\"; `profd help` lists them", safe);
	free(safe);
	return EXIT_USAGE;
}
