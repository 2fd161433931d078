/* header.c - agent/profd.h's own comments as parts of profd.h(3). A comment without blank line before the functions
 * below it is theirs; the first one is the page's introduction. */
#include "mdoc.h"
#include "parts.h"

#include <stdlib.h>
#include <string.h>

static const char *header = "";

void header_set(const char *text)
{
	header = text;
}

/* A comment's text without its stars; what follows the comment. NULL where there is none. */
static const char *comment(const char *at, char *text, size_t bytes)
{
	const char *start = strstr(at, "/*");
	const char *end = start ? strstr(start, "*/") : NULL;
	size_t n = 0;

	if (!end)
		return NULL;
	start += 2;
	while (start < end && n + 2 < bytes) {
		/* " * text", and the first line's " text". */
		size_t length = strcspn(start, "\n");
		size_t strip = strspn(start, " ");

		if (start[strip] == '*')
			strip++;
		if (strip < length && start[strip] == ' ')
			strip++;
		if (start + length > end)
			length = (size_t)(end - start);
		for (size_t i = strip < length ? strip : length; i < length && n + 2 < bytes; i++)
			text[n++] = start[i];
		text[n++] = '\n';
		start += length + (start[length] == '\n');
	}
	text[n] = 0;
	return end + 2;
}

/* Paragraphs that are filled, and lines indented by blanks as they stand. */
static void print_comment(FILE *file, const char *text)
{
	while (*text) {
		const char *end = strstr(text, "\n\n");
		size_t length = end ? (size_t)(end - text) + 1 : strlen(text);
		char block[8000];

		snprintf(block, sizeof block, "%.*s", (int)length, text);
		if (*block == ' ')
			mdoc_literal(file, block, 4);
		else
			mdoc_text(file, block, "NULL");
		text += length + (end ? 1 : 0);
		if (*text && *text != ' ' && *block != ' ')
			fputs(".Pp\n", file);
	}
}

/* The introduction behind "profd.h - for ...". */
static void print_introduction(FILE *file)
{
	char text[8000];
	const char *rest;

	if (!comment(header, text, sizeof text))
		return;
	rest = strchr(text, '\n');
	if (rest)
		print_comment(file, rest + strspn(rest, "\n"));
}

/* Calls `each` for every function declared between two places, in order. */
static void each_function(const char *from, const char *to, FILE *file,
			  void (*each)(FILE *file, const char *line, size_t length))
{
	while (from < to) {
		size_t length = strcspn(from, "\n");

		if (length && memchr(from, '(', length) && from[length - 1] == ';' && strchr("vcui", *from))
			each(file, from, length);
		from += length + (from[length] == '\n');
	}
}

/* Where the name of a declared function starts, and how long it is. */
static const char *function_name(const char *line, size_t length, size_t *ret_length)
{
	const char *parenthesis = memchr(line, '(', length);
	const char *name = parenthesis;

	while (name > line && name[-1] != ' ' && name[-1] != '*')
		name--;
	*ret_length = (size_t)(parenthesis - name);
	return name;
}

static void print_prototype(FILE *file, const char *line, size_t length)
{
	size_t name_length;
	const char *name = function_name(line, length, &name_length);
	const char *arguments = name + name_length + 1;

	fprintf(file, ".Ft \"%.*s\"\n.Fn %.*s \"%.*s\"\n", (int)(name - line - (name[-1] == ' ')), line,
		(int)name_length, name, (int)(line + length - 2 - arguments), arguments);
}

static void print_item(FILE *file, const char *line, size_t length)
{
	size_t name_length;
	const char *name = function_name(line, length, &name_length);

	fprintf(file, ".It Fn %.*s\n", (int)name_length, name);
}

static void print_synopsis(FILE *file)
{
	each_function(header, header + strlen(header), file, print_prototype);
}

static void print_functions(FILE *file)
{
	char text[8000];
	const char *at = comment(header, text, sizeof text);

	fputs(".Bl -tag -width Ds\n", file);
	while (at && (at = comment(at, text, sizeof text))) {
		const char *start = at + strspn(at, "\n");
		const char *end = strstr(start, "\n\n");

		if (!end)
			break;
		if (!strchr("vcui", *start))
			continue;
		each_function(start, end + 1, file, print_item);
		print_comment(file, text);
		at = end;
	}
	fputs(".El\n", file);
}

const struct part header_parts[] = {
	{"header-introduction", print_introduction},
	{"header-synopsis", print_synopsis},
	{"header-functions", print_functions},
	{NULL, NULL},
};
