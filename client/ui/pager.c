/* pager.c - see pager.h. The pager is a child that reads from a pipe. A user who leaves it early ends this program, as SIGPIPE
 * does in every pipe. */
#include "pager.h"

#include "text.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t child;

static const char *chosen(void)
{
	const char *own = getenv("PROFD_PAGER"), *general = getenv("PAGER");

	return own ? own : general ? general : "less";
}

/* Is the first word a program that can be run? What a shell is needed for is left to the shell. */
static bool can_run(const char *command)
{
	const char *path = getenv("PATH");
	size_t word = strcspn(command, " \t");
	bool found = false;

	if (strcspn(command, "/'\"$\\=") < word)
		return true;
	for (const char *at = path ? path : "/usr/bin:/bin"; !found && *at;) {
		size_t n = strcspn(at, ":");
		char *file;

		if (asprintf(&file, "%.*s/%.*s", (int)n, at, (int)word, command) < 0)
			need(NULL);
		found = access(file, X_OK) == 0;
		free(file);
		at += n + (at[n] == ':');
	}
	return found;
}

/* In the child. */
static _Noreturn void become(const char *command, int from)
{
	/* F: what fits is printed, R: with its colours, X: the screen stays as it is afterwards. */
	(void)setenv("LESS", "FRX", 0);
	(void)setenv("LV", "-c", 0);
	(void)signal(SIGPIPE, SIG_DFL);
	if (dup2(from, STDIN_FILENO) >= 0)
		execl("/bin/sh", "sh", "-c", command, (char *)NULL);
	_exit(127);
}

void pager_begin(void)
{
	const char *command = chosen();
	int ends[2];

	/* Without a keyboard nobody could leave it. */
	if (child || !isatty(STDOUT_FILENO) || !isatty(STDIN_FILENO) || !*command || strcmp(command, "cat") == 0 ||
	    !can_run(command))
		return;
	(void)fflush(stdout);
	if (pipe(ends) < 0)
		return;
	child = fork();
	if (child == 0) {
		close(ends[1]);
		become(command, ends[0]);
	}
	close(ends[0]);
	if (child > 0 && dup2(ends[1], STDOUT_FILENO) >= 0) {
		(void)signal(SIGPIPE, SIG_DFL);
		/* A Ctrl-C is for the pager. */
		(void)signal(SIGINT, SIG_IGN);
		(void)atexit(pager_end);
	} else {
		child = 0;
	}
	close(ends[1]);
}

void pager_end(void)
{
	if (child <= 0)
		return;
	(void)fflush(stdout);
	/* The pager learns by it that there is no more. */
	close(STDOUT_FILENO);
	while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
		;
	child = 0;
}
