/* names.c - see names.h. Thread: one of the finish pool. No locks.
 *
 * The demangler is libiberty's: it is that of the tools people compare with, and its callback form takes no memory from the
 * heap. Its time is not bounded: there are names of 120 bytes that it reads for minutes ("cvT_IT_I..." is read twice on
 * every level). So a clock of the thread's own time ends it by a jump out of a signal's handler, which is safe here
 * because it holds nothing: no memory, no lock. Its stack is bounded by the length of the name (1 MB at 4 KiB). */
#include "names.h"
#include "log.h"

#include <libiberty/demangle.h>

#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

/* Longer names stay as they are. */
#define MANGLED_BYTES 4096u
#define ONE_NAME_NS 20000000u

static __thread sigjmp_buf out;
static __thread volatile sig_atomic_t inside;

static void on_timer(int signal_number)
{
	(void)signal_number;
	if (inside) {
		inside = 0;
		siglongjmp(out, 1);
	}
}

static int timer_signal(void)
{
	return SIGRTMIN + 1;
}

void names_begin(struct names *names)
{
	memset(names, 0, sizeof *names);
	struct sigaction action = {.sa_handler = on_timer};
	struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = timer_signal()};
	event.sigev_notify_thread_id = (pid_t)syscall(SYS_gettid);
	timer_t *timer = malloc(sizeof *timer);
	sigemptyset(&action.sa_mask);
	if (!timer || sigaction(timer_signal(), &action, NULL) ||
	    timer_create(CLOCK_THREAD_CPUTIME_ID, &event, timer)) {
		free(timer);
		log_line("names of kernels stay mangled: no timer can be had");
		return;
	}
	names->timer = timer;
}

void names_end(struct names *names)
{
	if (names->timer)
		timer_delete(*(timer_t *)names->timer);
	free(names->timer);
	names->timer = NULL;
}

static void take(const char *part, size_t n, void *context)
{
	struct names_text *text = context;
	if (n > sizeof text->text - text->n) {
		/* Longer than any name that could be shown. */
		inside = 0;
		siglongjmp(out, 1);
	}
	memcpy(text->text + text->n, part, n);
	text->n += n;
}

static bool run(const char *mangled, struct names_text *ret)
{
	/* The limit of the library's own would refuse names of 1 KiB; ours is MANGLED_BYTES. */
	const int options = DMGL_PARAMS | DMGL_ANSI | DMGL_NO_RECURSE_LIMIT;
	bool read = false;
	ret->n = 0;
	if (sigsetjmp(out, 1) == 0) {
		inside = 1;
		read = cplus_demangle_v3_callback(mangled, options, take, ret) != 0;
		inside = 0;
		return read;
	}
	return false;
}

bool names_demangle(struct names *names, const char *mangled, struct names_text *ret)
{
	size_t n = strnlen(mangled, MANGLED_BYTES + 1);
	if (!names->timer || n > MANGLED_BYTES || n < 3 || memcmp(mangled, "_Z", 2) != 0 ||
	    names->spent_ns >= NAMES_BUDGET_NS)
		return false;
	const struct itimerspec limit = {.it_value = {.tv_nsec = ONE_NAME_NS}}, none = {0};
	uint64_t began = clock_thread();
	sigset_t mask, before;
	sigemptyset(&mask);
	sigaddset(&mask, timer_signal());
	timer_settime(*(timer_t *)names->timer, 0, &limit, NULL);
	pthread_sigmask(SIG_UNBLOCK, &mask, &before);
	bool read = run(mangled, ret);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	timer_settime(*(timer_t *)names->timer, 0, &none, NULL);
	names->spent_ns += clock_thread() - began;
	return read && ret->n > 0;
}

/* The end of what begins with a bracket at `at`: behind its partner, or n. */
static size_t behind_bracket(const char *text, size_t n, size_t at)
{
	size_t depth = 0;
	for (; at < n; at++) {
		if (strchr("<([{", text[at]))
			depth++;
		else if (strchr(">)]}", text[at]) && !(text[at] == '>' && at && text[at - 1] == '-') && --depth == 0)
			return at + 1;
	}
	return n;
}

static bool follows(const char *text, size_t n, size_t at, const char *word)
{
	size_t length = strlen(word);
	return n - at >= length && memcmp(text + at, word, length) == 0;
}

/* The end of an operator's name, whose brackets are part of it; `at` is behind the word. */
static size_t behind_operator(const char *text, size_t n, size_t at)
{
	if (follows(text, n, at, "()") || follows(text, n, at, "[]"))
		return at + 2;
	if (at < n && text[at] == ' ') {
		/* new, delete, or the type of a conversion. */
		while (at < n && text[at] != '(' && text[at] != '<')
			at++;
		return at;
	}
	while (at < n && text[at] && strchr("+-*/%^&|~!=<>,", text[at]))
		at++;
	return at;
}

void names_short(const char *text, size_t n, size_t *ret_from, size_t *ret_n)
{
	static const char unnamed[] = "(anonymous namespace)";
	size_t from = 0, end = 0, at = 0;
	while (at < n) {
		if (follows(text, n, at, "operator")) {
			at = behind_operator(text, n, at + strlen("operator"));
			end = at;
		} else if (follows(text, n, at, "::")) {
			at += 2;
			from = end = at;
		} else if (follows(text, n, at, unnamed)) {
			at += sizeof unnamed - 1;
			end = at;
		} else if (text[at] == '{') {
			at = behind_bracket(text, n, at);
			end = at;
		} else if (follows(text, n, at, " <")) {
			at++; /* between an operator and its template arguments */
		} else if (text[at] == ' ') {
			/* Behind a return type; before "[clone ...]" or "const" the name is over. */
			if (end < at && end > from)
				break;
			at++;
			from = end = at;
		} else if (text[at] == '<' || text[at] == '[' || text[at] == '(') {
			char bracket = text[at];
			size_t behind = behind_bracket(text, n, at);
			/* Parameters end a name, unless they are those of a function that it lies in. */
			if (bracket == '(' && !follows(text, n, behind, "::") && !follows(text, n, behind, " const::"))
				break;
			at = bracket == '(' && follows(text, n, behind, " const") ? behind + 6 : behind;
			if (bracket == '<' && at < n && text[at] == ' ' && end > from) {
				/* A template as a return type. */
				at++;
				from = end = at;
			}
		} else {
			at++;
			end = at;
		}
	}
	*ret_from = from;
	*ret_n = end - from;
	if (end <= from) {
		*ret_from = 0;
		*ret_n = n;
	}
}
