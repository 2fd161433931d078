/* screen.c - see screen.h. */
#include "screen.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* Terminals of today show UTF-8, unless somebody says that this one does not. */
static bool shows_blocks(void)
{
	static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};

	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		const char *locale = getenv(names[i]);

		if (locale && *locale)
			return strcasestr(locale, "utf-8") || strcasestr(locale, "utf8");
	}
	return true;
}

struct screen screen_output(void)
{
	struct screen screen = {.file = stdout, .width = SCREEN_PIPED};
	const char *plain = getenv("NO_COLOR");
	const char *terminal = getenv("TERM");
	struct winsize size;

	if (!isatty(STDOUT_FILENO))
		return screen;
	screen.terminal = true;
	screen.blocks = shows_blocks();
	screen.width = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 20 ? size.ws_col : 80;
	screen.color = !(plain && *plain) && !(terminal && strcmp(terminal, "dumb") == 0);
	return screen;
}

unsigned screen_bar(const struct screen *screen, char to[SCREEN_BAR_BYTES], double percent, unsigned cells)
{
	static const char *const parts[] = {"", "\u258f", "\u258e", "\u258d", "\u258c", "\u258b", "\u258a", "\u2589"};
	double length = (percent < 0 ? 0 : percent > 100 ? 100 : percent) * cells / 100;
	unsigned whole = (unsigned)(screen->blocks ? length : length + 0.5);
	const char *rest = screen->blocks && whole < cells ? parts[(unsigned)((length - whole) * 8)] : "";
	const char *full = screen->blocks ? "\u2588" : "#";
	size_t n = 0;

	for (unsigned i = 0; i < whole; i++)
		n += (size_t)snprintf(to + n, SCREEN_BAR_BYTES - n, "%s", full);
	snprintf(to + n, SCREEN_BAR_BYTES - n, "%s", rest);
	return whole + (*rest != '\0');
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

const char *screen_good(const struct screen *screen)
{
	return screen->color ? "\033[32m" : "";
}

const char *screen_bad(const struct screen *screen)
{
	return screen->color ? "\033[31m" : "";
}

const char *screen_other(const struct screen *screen)
{
	return screen->color ? "\033[36m" : "";
}

const char *screen_plain(const struct screen *screen)
{
	return screen->color ? "\033[0m" : "";
}
