/* interrupt.c - see interrupt.h. */
#include "interrupt.h"

#include <stddef.h>

static volatile sig_atomic_t interrupts;

static void interrupted(int signal)
{
	(void)signal;
	interrupts++;
}

void interrupt_begin(struct interrupt *interrupt)
{
	struct sigaction action = {.sa_handler = interrupted};
	sigset_t held;

	sigemptyset(&action.sa_mask);
	sigemptyset(&held);
	sigaddset(&held, SIGINT);
	sigprocmask(SIG_BLOCK, &held, &interrupt->waiting);
	sigaction(SIGINT, NULL, &interrupt->before);
	/* In the background of a shell without job control Ctrl-C is meant for another program. */
	if (interrupt->before.sa_handler != SIG_IGN)
		sigaction(SIGINT, &action, NULL);
}

int interrupt_count(void)
{
	return interrupts;
}

void interrupt_end(const struct interrupt *interrupt)
{
	sigaction(SIGINT, &interrupt->before, NULL);
	sigprocmask(SIG_SETMASK, &interrupt->waiting, NULL);
}
