/* name.c - see name.h. C++ names are read by their brackets alone: what compilers and demanglers write follows no
 * single grammar. */
#include "name.h"

#include "text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Deeper brackets are read as if they stood at this depth. */
#define DEPTH_MAX 64
/* What stands for what was left out in the middle. */
#define GAP "..."
/* Where names differ behind what they have in common, so much of that is shown. */
#define CONTEXT_MAX 12

static bool opens(char c)
{
	return c == '<' || c == '(' || c == '{' || c == '[';
}

static bool closes(char c)
{
	return c == '>' || c == ')' || c == '}' || c == ']';
}

static bool begins(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

/* The '(' of the arguments with which the name ends, or NULL. */
static const char *arguments_of(const char *name)
{
	size_t n = strlen(name);
	int depth = 0;

	if (n > 6 && strcmp(name + n - 6, " const") == 0)
		n -= 6;
	if (!n || name[n - 1] != ')')
		return NULL;
	while (n-- > 0) {
		depth += closes(name[n]) - opens(name[n]);
		if (depth == 0)
			break;
	}
	if (depth || n == 0 || begins(name + n, "(anonymous namespace)"))
		return NULL;
	/* The brackets are the operator's own name. */
	if (n >= 8 && begins(name + n - 8, "operator"))
		return NULL;
	return name + n;
}

static char *bare(const char *name)
{
	const char *arguments = arguments_of(name);
	size_t skip = arguments && begins(name, "void ") ? 5 : 0;
	size_t n = arguments ? (size_t)(arguments - name) : strlen(name);

	while (n > skip && name[n - 1] == ' ')
		n--;
	return n > skip ? need(strndup(name + skip, n - skip)) : need(strdup(name));
}

/* The end of a bracket that opens at `at`: behind its partner, or the end of the text. */
static const char *behind(const char *at)
{
	int depth = 0;

	for (; *at; at++) {
		depth += opens(*at) - closes(*at);
		if (depth <= 0)
			return at + 1;
	}
	return at;
}

/* The place behind a part that lies inside of a function: "::{lambda(float)#1}::operator()() const". `at` is at "::";
 * if something else stands there, `at` is returned. */
static const char *skip_inner(const char *at)
{
	for (;;) {
		const char *part = at + 2;

		if (!begins(at, "::"))
			return at;
		if (*part == '{')
			at = behind(part);
		else if (begins(part, "operator()"))
			at = part + 10;
		else
			return at;
		while (*at == '(' || *at == '[')
			at = behind(at);
		if (begins(at, " const"))
			at += 6;
	}
}

/* Leaves namespaces out, at each depth of brackets. */
static char *local(const char *name)
{
	char *to = need(malloc(strlen(name) + 1));
	size_t starts[DEPTH_MAX] = {0}, n = 0;
	int depth = 0;

	for (const char *at = name; *at;) {
		if (*at == '(' && begins(at, "(anonymous namespace)::")) {
			at += 23;
			continue;
		}
		if (begins(at, "::")) {
			const char *inner = skip_inner(at);

			/* The function without its arguments and what lies inside of it: of f(int)::{lambda()#1} that
			 * is f. */
			if (inner != at) {
				if (n && to[n - 1] == ')') {
					int back = 0;

					while (n > starts[depth]) {
						back += closes(to[n - 1]) - opens(to[n - 1]);
						n--;
						if (!back)
							break;
					}
				}
				at = inner;
				continue;
			}
			n = starts[depth];
			at += 2;
			continue;
		}
		to[n++] = *at;
		if (opens(*at) && depth + 1 < DEPTH_MAX)
			starts[++depth] = n;
		else if (closes(*at) && depth > 0 && !(n > 1 && to[n - 2] == '-'))
			depth--;
		else if (*at == ',' || *at == ' ' || *at == '*' || *at == '&')
			starts[depth] = n;
		at++;
	}
	to[n] = '\0';
	return to;
}

/* Leaves out what stands in brackets of templates deeper than this. */
static char *shallow(const char *name, int deepest)
{
	char *to = need(malloc(strlen(name) + 1));
	size_t n = 0;
	int depth = 0;

	for (const char *at = name; *at; at++) {
		bool arrow = at > name && at[-1] == '-', shift = begins(at, "<<") || (at > name && at[-1] == '<');

		if (*at == '<' && !shift && ++depth > deepest)
			continue;
		if (*at == '>' && !arrow && depth > 0 && depth-- > deepest)
			continue;
		if (depth <= deepest)
			to[n++] = *at;
	}
	to[n] = '\0';
	/* "a<b >" was "a<b<c> >". */
	for (char *blank; (blank = strstr(to, " >"));)
		memmove(blank, blank + 1, strlen(blank));
	return to;
}

char *name_form(const char *name, enum name_form form)
{
	char *to = need(strdup(name)), *next;

	if (form >= NAME_BARE) {
		next = bare(to);
		free(to);
		to = next;
	}
	if (form >= NAME_LOCAL) {
		next = local(to);
		free(to);
		to = next;
	}
	if (form >= NAME_FLAT) {
		next = shallow(to, form == NAME_FLAT ? 1 : 0);
		free(to);
		to = next;
	}
	if (!*to) {
		free(to);
		to = need(strdup(name));
	}
	return to;
}

struct entry {
	const char *whole;
	char *fitted;
	size_t place; /* among the texts */
};

static int by_fitted(const void *a, const void *b)
{
	const struct entry *one = a, *other = b;
	int order = strcmp(one->fitted, other->fitted);

	order = order ? order : strcmp(one->whole, other->whole);
	return order ? order : (one->place > other->place) - (one->place < other->place);
}

static char *fit(const char *whole, size_t width, bool names)
{
	char *to = NULL, *cut;

	if (!names || text_width(whole) <= width)
		return text_cut(whole, width);
	for (int form = NAME_BARE; form <= NAME_PLAINEST; form++) {
		free(to);
		to = name_form(whole, (enum name_form)form);
		if (text_width(to) <= width)
			return to;
		/* The arguments of a template say more than the rest of its name, if nearly all of them can be shown. */
		if (form == NAME_FLAT && text_width(to) <= width + width / 2)
			break;
	}
	cut = text_cut(to, width);
	free(to);
	return cut;
}

/* The first `cells` cells of a text, in bytes. */
static size_t head_bytes(const char *text, size_t cells)
{
	const char *at = text;

	while (*at) {
		const char *next = at;
		char *part;
		size_t own;

		text_decode(&next);
		part = need(strndup(text, (size_t)(next - text)));
		own = text_width(part);
		free(part);
		if (own > cells)
			break;
		at = next;
	}
	return (size_t)(at - text);
}

/* A text of which the part from byte `from` on is to be seen, and what leads to it. */
static char *cut_at(const char *text, size_t from, size_t width)
{
	size_t head = (width - 2 * (sizeof GAP - 1)) / 3, start = from, tail;
	char *to;
	bool more;

	if (text_width(text) <= width || width < 4 * sizeof GAP)
		return text_cut(text, width);
	/* From the beginning of a word on, if that is near. */
	while (start > 0 && from - start < CONTEXT_MAX && !strchr("<,(: ", text[start - 1]))
		start--;
	while (start < from && ((unsigned char)text[start] & 0xc0) == 0x80)
		start++;
	head = head_bytes(text, head);
	if (start <= head + sizeof GAP)
		return text_cut(text, width);
	tail = width - text_width(GAP) - head;
	more = text_width(text + start) > tail;
	tail = head_bytes(text + start, more ? tail - (sizeof GAP - 1) : tail);
	if (asprintf(&to, "%.*s" GAP "%.*s%s", (int)head, text, (int)tail, text + start, more ? GAP : "") < 0)
		need(NULL);
	return to;
}

/* How many bytes at their beginning all forms have in common. */
static size_t common(char *const *forms, size_t count)
{
	size_t n = strlen(forms[0]);

	for (size_t i = 1; i < count; i++) {
		size_t same = 0;

		while (same < n && forms[i][same] == forms[0][same])
			same++;
		n = same;
	}
	while (n > 0 && ((unsigned char)forms[0][n] & 0xc0) == 0x80)
		n--;
	return n;
}

/* Do different names have different forms? The names are sorted by their whole text. */
static bool distinct(const struct entry *group, char *const *forms, size_t count)
{
	for (size_t i = 0; i < count; i++)
		for (size_t j = i + 1; j < count && j < i + 64; j++)
			if (strcmp(forms[i], forms[j]) == 0 && strcmp(group[i].whole, group[j].whole) != 0)
				return false;
	return true;
}

/* A group of names that came out alike: shown at the place where they differ, in the shortest form that tells them apart. */
static void tell_apart(struct entry *group, size_t count, size_t width, bool names)
{
	char **forms = need(calloc(count, sizeof *forms));
	size_t from;

	for (int form = names ? NAME_PLAINEST : NAME_WHOLE; form >= NAME_WHOLE; form--) {
		for (size_t i = 0; i < count; i++) {
			free(forms[i]);
			forms[i] = name_form(group[i].whole, (enum name_form)form);
		}
		if (distinct(group, forms, count))
			break;
	}
	from = common(forms, count);
	for (size_t i = 0; i < count; i++) {
		free(group[i].fitted);
		group[i].fitted = cut_at(forms[i], from, width);
		free(forms[i]);
	}
	free(forms);
}

/* The last means: a number at the end. */
static void number(struct entry *group, size_t count, size_t width, size_t *last)
{
	for (size_t i = 0; i < count; i++) {
		char mark[24], *cut;
		bool same = i > 0 && strcmp(group[i].whole, group[i - 1].whole) == 0;

		if (!same)
			++*last;
		snprintf(mark, sizeof mark, "~%zu", *last);
		cut = text_cut(group[i].fitted, width > strlen(mark) ? width - strlen(mark) : 1);
		free(group[i].fitted);
		if (asprintf(&group[i].fitted, "%s%s", cut, mark) < 0)
			need(NULL);
		free(cut);
	}
}

/* One round over all groups of names that are alike. False: there are none. */
static bool separate(struct entry *entries, size_t count, size_t width, bool names, size_t *last)
{
	bool any = false;

	qsort(entries, count, sizeof *entries, by_fitted);
	for (size_t from = 0, to; from < count; from = to) {
		for (to = from + 1; to < count && strcmp(entries[to].fitted, entries[from].fitted) == 0;)
			to++;
		/* Within a group they are sorted by their whole names. */
		if (strcmp(entries[from].whole, entries[to - 1].whole) == 0)
			continue;
		any = true;
		if (last)
			number(entries + from, to - from, width, last);
		else
			tell_apart(entries + from, to - from, width, names);
	}
	return any;
}

void names_fit(char **texts, size_t count, size_t width, bool names)
{
	struct entry *entries = need(calloc(count + 1, sizeof *entries));
	size_t last = 0;

	for (size_t i = 0; i < count; i++)
		entries[i] = (struct entry){texts[i], fit(texts[i], width, names), i};
	if (separate(entries, count, width, names, NULL))
		while (separate(entries, count, width, names, &last))
			;
	for (size_t i = 0; i < count; i++) {
		char *old = texts[entries[i].place];

		texts[entries[i].place] = entries[i].fitted;
		entries[i].whole = NULL;
		free(old);
	}
	free(entries);
}
