/* live.c - see live.h. Signals are blocked but while it waits. */
#include "live.h"

#include "clock.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

/* The other screen, no cursor, lines that are too long are cut; and back. */
#define ENTER "\033[?1049h\033[?25l\033[?7l"
#define LEAVE "\033[?7h\033[?25h\033[?1049l"

static const int watched[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT, SIGWINCH, SIGPIPE};
#define WATCHED (sizeof watched / sizeof *watched)

static volatile sig_atomic_t ended, stopped, changed;
static struct termios before;
static bool has_keys, taken;
static sigset_t mask_before;
static struct sigaction actions_before[WATCHED];

static void on_signal(int number)
{
	if (number == SIGTSTP)
		stopped = 1;
	else if (number == SIGCONT || number == SIGWINCH)
		changed = 1;
	else
		ended = number;
}

bool live_possible(void)
{
	const char *terminal = getenv("TERM");
	return isatty(STDOUT_FILENO) && terminal && *terminal && strcmp(terminal, "dumb") != 0;
}

/* False where the terminal is gone. */
static bool put(const char *text, size_t n)
{
	while (n > 0) {
		ssize_t written = write(STDOUT_FILENO, text, n);
		if (written < 0 && errno == EINTR)
			continue;
		if (written <= 0)
			return false;
		text += written;
		n -= (size_t)written;
	}
	return true;
}

static void take(void)
{
	struct termios raw;
	has_keys =
		isatty(STDIN_FILENO) && tcgetpgrp(STDIN_FILENO) == getpgrp() && tcgetattr(STDIN_FILENO, &before) == 0;
	if (has_keys) {
		raw = before;
		raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
		raw.c_cc[VMIN] = 0;
		raw.c_cc[VTIME] = 0;
		tcsetattr(STDIN_FILENO, TCSANOW, &raw);
	}
	put(ENTER, strlen(ENTER));
	taken = true;
}

/* Also where the program ends in the middle, such as without memory. */
static void give(void)
{
	if (!taken)
		return;
	taken = false;
	put(LEAVE, strlen(LEAVE));
	if (has_keys)
		tcsetattr(STDIN_FILENO, TCSANOW, &before);
}

void live_begin(void)
{
	struct sigaction action = {.sa_handler = on_signal};
	sigset_t mask;
	sigemptyset(&mask);
	sigemptyset(&action.sa_mask);
	for (size_t i = 0; i < WATCHED; i++)
		sigaddset(&mask, watched[i]);
	(void)fflush(stdout);
	(void)atexit(give);
	sigprocmask(SIG_BLOCK, &mask, &mask_before);
	for (size_t i = 0; i < WATCHED; i++) {
		sigaction(watched[i], &action, &actions_before[i]);
		/* What its starter ignores is ignored. */
		if (actions_before[i].sa_handler == SIG_IGN)
			sigaction(watched[i], &actions_before[i], NULL);
	}
	take();
}

/* Ctrl-Z: the shell gets its terminal as it was, and we ours when it goes on. */
static void stop(void)
{
	stopped = 0;
	give();
	(void)raise(SIGSTOP);
	take();
}

bool live_draw(const char *text)
{
	struct winsize size;
	size_t rows = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 1 ? size.ws_row : 24;
	bool there = put("\033[H", 3);
	for (size_t row = 0; there && *text && row + 1 < rows; row++) {
		size_t n = strcspn(text, "\n");
		there = put(text, n) && put("\033[K\r\n", 5);
		text += n + (text[n] == '\n');
	}
	return there && put("\033[J", 3);
}

int live_wait(int64_t ns)
{
	int64_t until = clock_now() + ns;
	struct pollfd keys = {.fd = has_keys ? STDIN_FILENO : -1, .events = POLLIN};
	for (;;) {
		int64_t left = until - clock_now();
		struct timespec time = {.tv_sec = left / 1000000000, .tv_nsec = left % 1000000000};
		unsigned char key = 0;
		if (left <= 0)
			return 0;
		int ready = ppoll(&keys, 1, &time, &mask_before);
		if (ended)
			return -1;
		if (stopped)
			stop();
		if (changed || stopped) {
			changed = 0;
			return 0;
		}
		if (ready <= 0)
			continue;
		if (read(STDIN_FILENO, &key, 1) == 1)
			return key;
		/* The terminal has gone. */
		return -1;
	}
}

void live_end(void)
{
	give();
	for (size_t i = 0; i < WATCHED; i++)
		sigaction(watched[i], &actions_before[i], NULL);
	if (ended)
		(void)raise(ended);
	sigprocmask(SIG_SETMASK, &mask_before, NULL);
}
