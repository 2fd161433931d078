/* mdoc.c - see mdoc.h. */
#include "mdoc.h"

#include <ctype.h>
#include <string.h>

#define LINE_WIDTH 76

struct flow {
	FILE *file;
	const char *arguments;
	int column; /* of a line of plain words, 0 = none is open */
};

static void end_line(struct flow *flow)
{
	if (flow->column)
		fputc('\n', flow->file);
	flow->column = 0;
}

void mdoc_word(FILE *file, const char *word, size_t length)
{
	/* A word that is a delimiter or a macro's name would be taken for one. */
	if (length == 1 && strchr(".,:;()[]?!|", *word))
		fputs("\\&", file);
	for (size_t i = 0; i < length; i++) {
		if (word[i] == '\\')
			fputs("\\e", file);
		else if (word[i] == '"')
			fputs("\\(dq", file);
		else if (word[i] == '-')
			fputs("\\-", file);
		else
			fputc(word[i], file);
	}
}

/* A line that begins with a dot or an apostrophe would be a request. */
static void plain(struct flow *flow, const char *word, size_t length)
{
	if (flow->column && flow->column + (int)length >= LINE_WIDTH)
		end_line(flow);
	if (flow->column)
		flow->column += fputc(' ', flow->file) != EOF;
	else if (*word == '.' || *word == '\'')
		fputs("\\&", flow->file);
	for (size_t i = 0; i < length; i++) {
		if (word[i] == '\\')
			fputs("\\e", flow->file);
		else if (word[i] == '-' && (i == 0 || !islower((unsigned char)word[i - 1])))
			fputs("\\-", flow->file);
		else
			fputc(word[i], flow->file);
	}
	flow->column += (int)length;
}

/* ".Fl \-steps ," for "--steps,": what stands before and behind the word are arguments of their own. */
static void macro(struct flow *flow, const char *name, const char *before, size_t before_length, const char *word,
		  size_t length, const char *behind, size_t behind_length)
{
	end_line(flow);
	fprintf(flow->file, ".%s", name);
	for (size_t i = 0; i < before_length; i++)
		fprintf(flow->file, " %c", before[i]);
	fputc(' ', flow->file);
	mdoc_word(flow->file, word, length);
	for (size_t i = 0; i < behind_length; i++) {
		if (!strchr(".,:;)]?!", behind[i])) {
			fputs(" Ns ", flow->file);
			mdoc_word(flow->file, behind + i, behind_length - i);
			break;
		}
		fprintf(flow->file, " %c", behind[i]);
	}
	fputc('\n', flow->file);
}

static bool is_listed(const char *list, const char *word, size_t length)
{
	for (const char *at = list; at && *at; at += strspn(at, " ")) {
		size_t n = strcspn(at, " ");

		if (n == length && strncmp(at, word, n) == 0)
			return true;
		at += n;
	}
	return false;
}

static bool ends_sentence(const char *word, size_t length)
{
	while (length && strchr(")\"'`]", word[length - 1]))
		length--;
	return length && strchr(".!?", word[length - 1]);
}

/* Prints one word with the punctuation around it; a span in backticks is one word. Returns what follows it. */
static const char *one_word(struct flow *flow, const char *at)
{
	size_t before = strspn(at, "([");
	const char *word = at + before;
	const char *end;
	size_t length;

	if (*word == '`' && (end = strchr(word + 1, '`'))) {
		size_t behind = strcspn(end + 1, " \n");

		macro(flow, "Ql", at, before, word + 1, (size_t)(end - word - 1), end + 1, behind);
		return end + 1 + behind;
	}
	end = word + strcspn(word, " \n");
	for (length = 0; isupper((unsigned char)word[length]); length++)
		;
	if (length && is_listed(flow->arguments, word, length) && !isalnum((unsigned char)word[length]) &&
	    !strchr("_[=/", word[length] ? word[length] : ' ')) {
		macro(flow, "Ar", at, before, word, length, word + length, (size_t)(end - word) - length);
		return end;
	}
	if (strncmp(word, "--", 2) == 0 && islower((unsigned char)word[2])) {
		for (length = 2; islower((unsigned char)word[length]) || word[length] == '-'; length++)
			;
		macro(flow, "Fl", at, before, word + 1, length - 1, word + length, (size_t)(end - word) - length);
		return end;
	}
	for (length = 0; isalnum((unsigned char)word[length]) || word[length] == '_'; length++)
		;
	if (length && strncmp(word + length, "()", 2) == 0) {
		macro(flow, "Fn", at, before, word, length, word + length + 2, (size_t)(end - word) - length - 2);
		return end;
	}
	plain(flow, at, (size_t)(end - at));
	if (ends_sentence(at, (size_t)(end - at))) {
		const char *next = end + strspn(end, " \n");

		if (*next && !isupper((unsigned char)*next) && !strchr("`-(\"", *next))
			fputs("\\&", flow->file);
		end_line(flow);
	}
	return end;
}

static void flow_text(struct flow *flow, const char *text)
{
	text += strspn(text, " \n");
	while (*text) {
		text = one_word(flow, text);
		size_t gap = strspn(text, " \n");

		if (text[gap] && gap > 1 && strstr(text, "\n\n") && strstr(text, "\n\n") < text + gap) {
			end_line(flow);
			fputs(".Pp\n", flow->file);
		}
		text += gap;
	}
	end_line(flow);
}

void mdoc_text(FILE *file, const char *text, const char *arguments)
{
	struct flow flow = {file, arguments, 0};

	flow_text(&flow, text);
}

void mdoc_phrase(FILE *file, const char *phrase, const char *arguments)
{
	char text[2000];
	size_t n = strlen(phrase);
	size_t first = strcspn(phrase, " ");
	bool bare = true;

	for (size_t i = 0; i < first; i++)
		bare = bare && (islower((unsigned char)phrase[i]) || strchr(",;:'", phrase[i]));
	snprintf(text, sizeof text, "%s%s", phrase, n && strchr(".:!?", phrase[n - 1]) ? "" : ".");
	if (bare)
		text[0] = (char)toupper((unsigned char)text[0]);
	mdoc_text(file, text, arguments);
}

void mdoc_choices(FILE *file, const char *choices, const char *between)
{
	fputs(" Cm", file);
	for (const char *at = choices; *at; at += *at == '|') {
		size_t n = strcspn(at, "|");

		fprintf(file, "%s%s ", at == choices ? "" : " ", at == choices ? "" : between);
		mdoc_word(file, at, n);
		at += n;
	}
}

/* A word of a usage line: an option, a choice, or what stands for a value. */
static void usage_word(FILE *file, const char *word, size_t length)
{
	size_t dots = length > 3 && strncmp(word + length - 3, "...", 3) == 0 ? 3 : 0;
	char text[200];

	length -= dots;
	if (*word == '-') {
		fputs(" Fl ", file);
		mdoc_word(file, word + 1, length - 1);
	} else if (memchr(word, '|', length)) {
		snprintf(text, sizeof text, "%.*s", (int)length, word);
		mdoc_choices(file, text, "|");
	} else {
		fputs(islower((unsigned char)*word) ? " Cm " : " Ar ", file);
		mdoc_word(file, word, length);
	}
	if (dots)
		fputs(" Ns ...", file);
}

void mdoc_usage(FILE *file, const char *usage)
{
	for (const char *at = usage; *at;) {
		size_t n = strcspn(at, " []()");

		if (*at == ' ') {
			at++;
		} else if (*at == '[' || *at == ']') {
			fputs(*at++ == '[' ? " Oo" : " Oc", file);
		} else if (*at == '(' || *at == ')' || (*at == '|' && n == 1)) {
			fprintf(file, " %c", *at++);
		} else {
			usage_word(file, at, n);
			at += n;
		}
	}
	fputc('\n', file);
}

/* Columns that a literal line has on a terminal of 80. */
#define LITERAL_WIDTH 62

/* Where a shell's line that is too long can be continued on the next one; its own length where it fits, or cannot. */
static size_t continued(const char *line, size_t length)
{
	size_t at = LITERAL_WIDTH - 2;

	if (length <= LITERAL_WIDTH || memchr(line, '\'', length))
		return length;
	while (at && line[at] != ' ')
		at--;
	return at ? at : length;
}

void mdoc_literal(FILE *file, const char *text, unsigned strip)
{
	fputs(".Bd -literal -offset indent\n", file);
	while (*text) {
		const char *end = strchr(text, '\n');
		size_t length = end ? (size_t)(end - text) : strlen(text);
		size_t blanks = strspn(text, " ");

		blanks = blanks > strip ? strip : blanks;
		if (blanks < length && (text[blanks] == '.' || text[blanks] == '\''))
			fputs("\\&", file);
		size_t part = blanks + continued(text + blanks, length - blanks);
		for (size_t i = blanks; i < length; i++) {
			if (i == part) {
				fputs(" \\e\n    ", file);
				part = i + 1 + continued(text + i + 1, length - i - 1);
				continue;
			}
			if (text[i] == '\\')
				fputs("\\e", file);
			else if (text[i] == '-')
				fputs("\\-", file);
			else if (text[i] == '\'')
				fputs("\\(aq", file);
			else if (text[i] == '`')
				fputs("\\(ga", file);
			else
				fputc(text[i], file);
		}
		fputc('\n', file);
		text += length + (end ? 1 : 0);
	}
	fputs(".Ed\n", file);
}
