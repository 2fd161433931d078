/* halt.c - see halt.h. */
#include "halt.h"

#include <signal.h>
#include <stddef.h>

#define SIGNALS 3

static const int signals[SIGNALS] = {SIGINT, SIGTERM, SIGHUP};
static struct sigaction before[SIGNALS];
static volatile sig_atomic_t asked;

static void halt(int signal)
{
	(void)signal;
	asked = 1;
}

void halt_begin(void)
{
	struct sigaction action = {.sa_handler = halt, .sa_flags = SA_RESTART | (int)SA_RESETHAND};

	sigemptyset(&action.sa_mask);
	asked = 0;
	for (int i = 0; i < SIGNALS; i++) {
		sigaction(signals[i], NULL, &before[i]);
		/* nohup, and the background of a shell without job control, want it to go on. */
		if (before[i].sa_handler != SIG_IGN)
			sigaction(signals[i], &action, NULL);
	}
}

bool halt_asked(void)
{
	return asked != 0;
}

void halt_end(void)
{
	for (int i = 0; i < SIGNALS; i++)
		sigaction(signals[i], &before[i], NULL);
}
