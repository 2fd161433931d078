/* main.c - profd-daemon: its options; what they ask for is run.c's. */
#include "base/hash.h"
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

int main(int argc, char **argv)
{
	names_reader(argc, argv);
	/* One more, for the tests: --print-ops. */
	struct option options[DAEMON_OPTION_COUNT + 2] = {0};
	for (size_t i = 0; i < DAEMON_OPTION_COUNT; i++)
		options[i] = (struct option){daemon_options[i].name,
					     daemon_options[i].argument ? required_argument : no_argument, NULL,
					     daemon_options[i].code};
	options[DAEMON_OPTION_COUNT] = (struct option){"print-ops", no_argument, NULL, 'O'};
	struct run_options chosen = {0};
	bool check_config = false, print_config = false;
	int option;
	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (option) {
		case 'u':
			chosen.user = true;
			break;
		case 'd':
			chosen.directory = optarg;
			break;
		case 's':
			chosen.socket_path = optarg;
			break;
		case 'f':
			break;
		case 'c':
			chosen.config_file = optarg;
			break;
		case 'C':
			check_config = true;
			break;
		case 'P':
			print_config = true;
			break;
		case 'v':
			chosen.verbose = true;
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
	struct config config;
	char sentence[CONFIG_SENTENCE_BYTES];
	if (config_load(&config, chosen.user, chosen.config_file, sentence)) {
		fprintf(stderr, "profd-daemon: %s\n", sentence);
		return 1;
	}
	if (print_config)
		config_print(&config, stdout);
	if (check_config || print_config)
		return 0;
	/* What is large goes back to the system as soon as it is freed; the threshold would grow by itself otherwise. */
	mallopt(M_MMAP_THRESHOLD, 1 << 20);
	hash_init();
	return run(&chosen, &config);
}
