/* main.c - profd-daemon: its options; what they ask for is run.c's. */
#include "proto/base/hash.h"
#include "daemon/ops/ops.h"
#include "daemon/run.h"
#include "daemon/setup/config_file.h"
#include "daemon/setup/options.h"
#include "proto/version.h"
#include "daemon/capture/names_reader.h"

#include <getopt.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>

/* The rows of options.def, broken at blanks. */
static void print_help(void)
{
	enum { INDENT = 20, WIDTH = 100 };

	puts("usage: profd-daemon [OPTIONS]\n\n"
	     "Keeps the registry of processes that carry the profd agent, records their steps when a\n"
	     "user triggers it, and stores the captures.\n");
	for (size_t i = 0; i < DAEMON_OPTION_COUNT; i++) {
		const struct daemon_option *row = &daemon_options[i];
		int column =
			printf("  --%s%s%s", row->name, row->argument ? " " : "", row->argument ? row->argument : "");
		column += printf("%*s", column < INDENT ? INDENT - column : 2, "");
		for (const char *word = row->help; *word; word += strspn(word, " ")) {
			int n = (int)strcspn(word, " ");
			if (word > row->help && column + 1 + n > WIDTH)
				column = printf("\n%*s", INDENT, "") - 1;
			else if (word > row->help)
				column += printf(" ");
			column += printf("%.*s", n, word);
			word += n;
		}
		putchar('\n');
	}
}

struct chosen {
	struct run_options run;
	bool check_config, print_config;
};

/* Returns the exit code where there is nothing more to do; -1: go on. */
static int take_options(int argc, char **argv, struct chosen *ret)
{
	/* One more, for the tests: --print-ops. */
	struct option options[DAEMON_OPTION_COUNT + 2] = {0};
	for (size_t i = 0; i < DAEMON_OPTION_COUNT; i++)
		options[i] = (struct option){daemon_options[i].name,
					     daemon_options[i].argument ? required_argument : no_argument, NULL,
					     daemon_options[i].code};
	options[DAEMON_OPTION_COUNT] = (struct option){"print-ops", no_argument, NULL, 'O'};
	int option;
	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (option) {
		case 'u':
			ret->run.user = true;
			break;
		case 'd':
			ret->run.directory = optarg;
			break;
		case 's':
			ret->run.socket_path = optarg;
			break;
		case 'f':
			break;
		case 'c':
			ret->run.config_file = optarg;
			break;
		case 'C':
			ret->check_config = true;
			break;
		case 'P':
			ret->print_config = true;
			break;
		case 'v':
			ret->run.verbose = true;
			break;
		case 'O':
			ops_print(stdout);
			return 0;
		case 'V':
			puts("profd-daemon " PROFD_VERSION);
			return 0;
		case 'h':
			print_help();
			return 0;
		default:
			fputs("profd-daemon --help lists the options\n", stderr);
			return 2;
		}
	}
	if (optind < argc) {
		fprintf(stderr, "profd-daemon: what is %s? profd-daemon --help lists the options\n", argv[optind]);
		return 2;
	}
	return -1;
}

int main(int argc, char **argv)
{
	names_reader(argc, argv);
	struct chosen chosen = {0};
	int status = take_options(argc, argv, &chosen);
	if (status >= 0)
		return status;
	struct config config;
	char sentence[CONFIG_SENTENCE_BYTES];
	if (config_load(&config, chosen.run.user, chosen.run.config_file, sentence)) {
		fprintf(stderr, "profd-daemon: %s\n", sentence);
		return 1;
	}
	if (chosen.print_config)
		config_print(&config, stdout);
	if (chosen.check_config || chosen.print_config)
		return 0;
	/* Large blocks go back to the system as soon as they are freed. Without this call glibc raises the threshold by
	 * itself. */
	mallopt(M_MMAP_THRESHOLD, 1 << 20);
	hash_init();
	return run(&chosen.run, &config);
}
