/* daemon.c - `profd daemon`: becomes profd-daemon. */
#include "client/start/install.h"
#include "client/ui/failure.h"
#include "client/ui/text.h"
#include "client/verbs/arguments.h"
#include "client/verbs/commands.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int command_daemon(struct arguments *arguments)
{
	char path[PATH_MAX];
	char **words;

	if (arguments->word_count == 0)
		return fail(EXIT_USAGE, "daemon: the system's daemon is started by systemd (systemctl start "
					"profd.socket); your own by `profd daemon --user`");
	if (!install_daemon(path))
		return fail(EXIT_FAILED, "profd-daemon is neither beside this program nor in PATH; install profd's "
					 "daemon, or add its folder to PATH");
	words = need(calloc(arguments->word_count + 2, sizeof *words));
	words[0] = path;
	for (size_t i = 0; i < arguments->word_count; i++)
		words[i + 1] = arguments->words[i];
	execv(path, words);
	fail(EXIT_FAILED, "%s cannot be run: %s", path, strerror(errno));
	free(words);
	return EXIT_FAILED;
}
