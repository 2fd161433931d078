/* progress.c - see progress.h. */
#include "progress.h"

#include "text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static bool drawn;

bool progress_live(void)
{
	const char *terminal = getenv("TERM");

	return isatty(STDERR_FILENO) && !(terminal && strcmp(terminal, "dumb") == 0);
}

void progress_draw(const char *text)
{
	struct winsize size;
	size_t width = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 20 ? size.ws_col : 80u;
	char *safe = text_safe(text);
	char *cut = text_cut(safe, width - 1);

	fprintf(stderr, "\r%s\033[K", cut);
	fflush(stderr);
	drawn = true;
	free(cut);
	free(safe);
}

void progress_clear(void)
{
	if (!drawn)
		return;
	fputs("\r\033[K", stderr);
	fflush(stderr);
	drawn = false;
}
