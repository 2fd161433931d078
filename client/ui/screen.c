/* screen.c - see screen.h. */
#include "screen.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

struct screen screen_output(void)
{
	struct screen screen = {.file = stdout};
	const char *plain = getenv("NO_COLOR");
	const char *terminal = getenv("TERM");
	struct winsize size;

	if (!isatty(STDOUT_FILENO))
		return screen;
	screen.width = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 20 ? size.ws_col : 80;
	screen.color = !(plain && *plain) && !(terminal && strcmp(terminal, "dumb") == 0);
	return screen;
}

const char *screen_bold(const struct screen *screen)
{
	return screen->color ? "\033[1m" : "";
}

const char *screen_warn(const struct screen *screen)
{
	return screen->color ? "\033[33m" : "";
}

const char *screen_dim(const struct screen *screen)
{
	return screen->color ? "\033[2m" : "";
}

const char *screen_plain(const struct screen *screen)
{
	return screen->color ? "\033[0m" : "";
}
