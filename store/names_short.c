/* names_short.c - see names_short.h. */
#include "names_short.h"

#include <stdbool.h>
#include <string.h>

/* Where the bracket at `at` ends: after its partner, or n. */
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

/* The end of an operator's name, which may have brackets. `at` is after the word "operator". */
static size_t behind_operator(const char *text, size_t n, size_t at)
{
	if (follows(text, n, at, "()") || follows(text, n, at, "[]"))
		return at + 2;
	if (at < n && text[at] == ' ') {
		/* "operator new", "operator delete", or a conversion to a type. */
		while (at < n && text[at] != '(' && text[at] != '<')
			at++;
		return at;
	}
	while (at < n && text[at] && strchr("+-*/%^&|~!=<>,", text[at]))
		at++;
	return at;
}

/* Where the first argument of the list that begins at `at` ends. */
static size_t behind_argument(const char *text, size_t n, size_t at)
{
	size_t end = behind_bracket(text, n, at) - 1;
	for (at++; at < end && text[at] != ',';)
		at = strchr("<([{", text[at]) ? behind_bracket(text, end, at) : at + 1;
	return at < end ? at : end;
}

static void shorten(const char *text, size_t n, size_t *ret_from, size_t *ret_n)
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
			/* A return type ends here; or the name ends, and "[clone ...]" or "const" follows. */
			if (end < at && end > from)
				break;
			at++;
			from = end = at;
		} else if (text[at] == '<' || text[at] == '[' || text[at] == '(') {
			char bracket = text[at];
			size_t behind = behind_bracket(text, n, at);
			/* Parameters end the name, unless the name continues inside of that function. */
			if (bracket == '(' && !follows(text, n, behind, "::") && !follows(text, n, behind, " const::"))
				break;
			at = bracket == '(' && follows(text, n, behind, " const") ? behind + 6 : behind;
			if (bracket == '<' && at < n && text[at] == ' ' && end > from) {
				/* The template was a return type. */
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

/* All CUTLASS kernels are of a few templates: the name of the argument says what the kernel does. */
static bool is_wrapper(const char *text, size_t n, size_t from, size_t length)
{
	static const char space[] = "cutlass::";
	static const char *const wrappers[] = {"Kernel", "Kernel2", "device_kernel"};
	if (from < sizeof space - 1 || !follows(text, n, from - (sizeof space - 1), space) ||
	    !follows(text, n, from + length, "<"))
		return false;
	for (size_t i = 0; i < sizeof wrappers / sizeof *wrappers; i++)
		if (length == strlen(wrappers[i]) && memcmp(text + from, wrappers[i], length) == 0)
			return true;
	return false;
}

void names_short(const char *text, size_t n, size_t *ret_from, size_t *ret_n)
{
	shorten(text, n, ret_from, ret_n);
	if (!is_wrapper(text, n, *ret_from, *ret_n))
		return;
	size_t argument = *ret_from + *ret_n + 1, inner, length, end = behind_argument(text, n, argument - 1);
	if (end <= argument)
		return;
	shorten(text + argument, end - argument, &inner, &length);
	*ret_from = argument + inner;
	*ret_n = length;
}
