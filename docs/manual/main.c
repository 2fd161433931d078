/* main.c - profd-manual HEADER TEMPLATE OUTPUT: a program of the build that fills manuals and completions from the
 * tables that the programs themselves read (client/verbs/verbs.c, daemon/setup/options.def, proto/errors.def) and from
 * agent/profd.h. A line of the template that is one @word@ is replaced by the part of that name (parts.h). */
#include "parts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct part *const lists[] = {client_parts, daemon_parts, completion_parts, header_parts};

/* The whole file as a text; ends the program where it cannot be read. */
static char *read_file(const char *path)
{
	FILE *file = fopen(path, "r");
	char *text = NULL;
	size_t length = 0, room = 0;

	while (file && !feof(file) && !ferror(file)) {
		if (room - length < 4096) {
			room = room * 2 + 8192;
			text = realloc(text, room);
			if (!text)
				exit(1);
		}
		length += fread(text + length, 1, room - length - 1, file);
	}
	if (!file || ferror(file)) {
		fprintf(stderr, "profd-manual: %s cannot be read: %s\n", path, strerror(errno));
		exit(1);
	}
	fclose(file);
	text[length] = 0;
	return text;
}

/* Whether the line is @name@; prints the part. */
static int print_part(FILE *file, const char *line, size_t length, const char *path)
{
	if (length < 3 || line[0] != '@' || line[length - 1] != '@' || memchr(line, ' ', length))
		return 0;
	for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
		for (const struct part *part = lists[i]; part->name; part++) {
			if (strlen(part->name) == length - 2 && strncmp(part->name, line + 1, length - 2) == 0) {
				part->print(file);
				return 1;
			}
		}
	}
	fprintf(stderr, "profd-manual: %s asks for %.*s, which nothing prints\n", path, (int)length, line);
	exit(1);
}

int main(int argc, char **argv)
{
	char *header, *template;
	FILE *file;

	if (argc != 4) {
		fputs("usage: profd-manual HEADER TEMPLATE OUTPUT\n", stderr);
		return 2;
	}
	header = read_file(argv[1]);
	template = read_file(argv[2]);
	header_set(header);
	file = fopen(argv[3], "w");
	if (!file) {
		fprintf(stderr, "profd-manual: %s cannot be written: %s\n", argv[3], strerror(errno));
		return 1;
	}
	for (const char *line = template; *line;) {
		size_t length = strcspn(line, "\n");

		if (!print_part(file, line, length, argv[2]))
			fprintf(file, "%.*s\n", (int)length, line);
		line += length + (line[length] == '\n');
	}
	free(header);
	free(template);
	if (ferror(file) || fclose(file)) {
		fprintf(stderr, "profd-manual: %s cannot be written\n", argv[3]);
		return 1;
	}
	return 0;
}
