/* main.c - profd-daemon: options, then server.c. */
#include "daemon/capture/capture.h"
#include "base/hash.h"
#include "base/clock.h"
#include "base/log.h"
#include "daemon/capture/names_reader.h"
#include "daemon/core/namespaces.h"
#include "daemon/setup/config_file.h"
#include "daemon/setup/options.h"
#include "daemon/setup/places.h"
#include "daemon/catalogue/captures.h"
#include "daemon/catalogue/history.h"
#include "daemon/catalogue/open.h"
#include "daemon/catalogue/recovery.h"
#include "proto/version.h"

#include <errno.h>
#include <getopt.h>
#include <grp.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

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

static void raise_descriptor_limit(void)
{
	/* A segment and a status page for each process, a descriptor for each connection and file. */
	struct rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
		limit.rlim_cur = limit.rlim_max < 65536 ? limit.rlim_max : 65536;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

static void count_owner(void *context, const struct usage_owner *owner)
{
	struct server *server = context;
	usage_add(&server->usage, owner->uid, owner->captures, owner->bytes);
	usage_pin(&server->usage, owner->uid, owner->pinned_captures, owner->pinned_bytes, true);
}

static int serve(struct server *server, const char *directory, const char *socket_path)
{
	char sentence[PLACES_SENTENCE_BYTES], handed_path[MANAGER_SENTENCE_BYTES];
	int handed = manager_init(&server->manager, handed_path, sentence);
	if (handed < 0 && handed != -ENOENT) {
		log_line("%s", sentence);
		return 1;
	}
	if (handed >= 0)
		socket_path = handed_path;
	umask(server->user ? 077 : 027);
	(void)signal(SIGPIPE, SIG_IGN);
	raise_descriptor_limit();
	server->pid_namespace = namespace_own(sentence, sizeof sentence);
	if (!server->pid_namespace) {
		log_line("%s", sentence);
		return 1;
	}
	int lock = places_take(server, directory, socket_path, sentence);
	if (lock < 0) {
		log_line("%s", sentence);
		return 1;
	}
	store_temporary_folder(server->folder_path);
	service_starting(server, "Opening the catalogue");
	space_reserve_take(server->directory);
	if (catalogue_open(&server->catalogue, server->directory, server->folder, server->folder_path, sentence,
			   sizeof sentence)) {
		log_line("%s", sentence);
		return 1;
	}
	const struct group *group = getgrnam("profd");
	server->group = !server->user && group ? group->gr_gid : (gid_t)-1;
	server->started_at = clock_realtime();
	server->next_serial = 1;
	server->next_capture = catalogue_last_capture(&server->catalogue) + 1;
	recovery_run(server);
	server->next_trigger = catalogue_last_trigger(&server->catalogue) + 1;
	orphans_scan(server);
	catalogue_each_owner(&server->catalogue, count_owner, server);
	server->listen_fd = handed >= 0 ? handed : places_listen(server, sentence);
	if (server->listen_fd < 0) {
		log_line("%s", sentence);
		return 1;
	}
	int error = server_init(server);
	if (error) {
		log_line("cannot start: %s", strerror(-error));
		return 1;
	}
	log_line("profd %s listens on %s, captures in %s", PROFD_VERSION, server->socket_path, server->directory);
	server_run(server);
	server_deinit(server);
	usage_deinit(&server->usage);
	close(server->folder);
	close(lock);
	log_line("ended");
	return 0;
}

int main(int argc, char **argv)
{
	names_reader(argc, argv);
	struct option options[DAEMON_OPTION_COUNT + 1] = {0};
	for (size_t i = 0; i < DAEMON_OPTION_COUNT; i++)
		options[i] = (struct option){daemon_options[i].name,
					     daemon_options[i].argument ? required_argument : no_argument, NULL,
					     daemon_options[i].code};
	const char *directory = NULL, *socket_path = NULL, *config_file = NULL;
	bool user = false, check_config = false, print_config = false;
	int option;
	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (option) {
		case 'u':
			user = true;
			break;
		case 'd':
			directory = optarg;
			break;
		case 's':
			socket_path = optarg;
			break;
		case 'f':
			break;
		case 'c':
			config_file = optarg;
			break;
		case 'C':
			check_config = true;
			break;
		case 'P':
			print_config = true;
			break;
		case 'v':
			log_is_verbose = 1;
			break;
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
	if (config_load(&config, user, config_file, sentence)) {
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
	struct server *server = calloc(1, sizeof *server);
	if (!server)
		return 1;
	server->user = user;
	server->config = config;
	server->config_file = config_file;
	server->folder = -1;
	server->verbose = log_is_verbose;
	log_is_verbose = server->verbose || config.verbose;
	int status = serve(server, directory, socket_path);
	free(server);
	return status;
}
