/* where.c - see where.h. A condition is a tree: its leaves are tests, which are bound to a table's columns when it is used. */
#include "where.h"

#include "text.h"

#include "proto/quantity.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* Brackets in brackets. */
#define DEPTH_MAX 50

enum node_kind { NODE_TEST, NODE_AND, NODE_OR, NODE_NOT };
enum test { TEST_SAME, TEST_OTHER, TEST_LESS, TEST_MOST, TEST_MORE, TEST_LEAST, TEST_LIKE, TEST_UNLIKE };

/* The longer ones first. */
static const struct {
	const char *sign;
	enum test test;
} signs[] = {{"!=", TEST_OTHER}, {"<=", TEST_MOST}, {">=", TEST_LEAST}, {"!~", TEST_UNLIKE}, {"==", TEST_SAME},
	     {"=", TEST_SAME},	 {"<", TEST_LESS},  {">", TEST_MORE},	{"~", TEST_LIKE}};

struct where {
	enum node_kind kind;
	struct where *left, *right; /* NOT has a left one */
	enum test test;
	char *column, *value;
	/* Bound to a table. */
	size_t place;
	double number;
	char *pattern; /* of ~, in small letters */
};

struct parser {
	const char *at;
	char *why;
	size_t why_bytes;
	int depth;
};

static struct where *condition(struct parser *parser);

void where_free(struct where *where)
{
	if (!where)
		return;
	where_free(where->left);
	where_free(where->right);
	free(where->column);
	free(where->value);
	free(where->pattern);
	free(where);
}

static struct where *node(enum node_kind kind, struct where *left, struct where *right)
{
	struct where *new = need(calloc(1, sizeof *new));

	new->kind = kind;
	new->left = left;
	new->right = right;
	return new;
}

static void skip_blanks(struct parser *parser)
{
	parser->at += strspn(parser->at, " \t");
}

static struct where *refuse(struct parser *parser, const char *what)
{
	snprintf(parser->why, parser->why_bytes,
		 "--where: %s at \"%.40s\"; it is written like 'name~gemm and calls>10'", what, parser->at);
	return NULL;
}

/* "and", "or", "not", "&&" ... */
static bool taken(struct parser *parser, const char *word, const char *sign)
{
	size_t n = strlen(word);

	skip_blanks(parser);
	if (strncmp(parser->at, sign, strlen(sign)) == 0) {
		parser->at += strlen(sign);
		return true;
	}
	if (strncasecmp(parser->at, word, n) != 0 || isalnum((unsigned char)parser->at[n]) || parser->at[n] == '_')
		return false;
	parser->at += n;
	return true;
}

static bool column_sign(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '%';
}

static char *read_value(struct parser *parser)
{
	char quote = *parser->at;
	size_t n;

	if (quote == '"' || quote == '\'') {
		const char *end = strchr(parser->at + 1, quote);
		char *value;

		if (!end)
			return NULL;
		value = need(strndup(parser->at + 1, (size_t)(end - parser->at - 1)));
		parser->at = end + 1;
		return value;
	}
	n = strcspn(parser->at, " \t()");
	if (!n)
		return NULL;
	parser->at += n;
	return need(strndup(parser->at - n, n));
}

static struct where *read_test(struct parser *parser)
{
	const char *from = parser->at;
	struct where *new;
	size_t n = 0, sign = 0;

	while (column_sign(from[n]))
		n++;
	if (!n)
		return refuse(parser, "the name of a column is missing");
	parser->at += n;
	skip_blanks(parser);
	while (sign < sizeof signs / sizeof *signs &&
	       strncmp(parser->at, signs[sign].sign, strlen(signs[sign].sign)) != 0)
		sign++;
	if (sign == sizeof signs / sizeof *signs)
		return refuse(parser, "one of = != < <= > >= ~ !~ is missing");
	parser->at += strlen(signs[sign].sign);
	skip_blanks(parser);
	new = node(NODE_TEST, NULL, NULL);
	new->test = signs[sign].test;
	new->column = need(strndup(from, n));
	new->value = read_value(parser);
	if (new->value)
		return new;
	where_free(new);
	return refuse(parser, "a value is missing, or its second quote");
}

static struct where *factor(struct parser *parser)
{
	struct where *inner;

	if (++parser->depth > DEPTH_MAX)
		return refuse(parser, "there are too many brackets");
	skip_blanks(parser);
	if (taken(parser, "not", "!")) {
		inner = factor(parser);
		inner = inner ? node(NODE_NOT, inner, NULL) : NULL;
	} else if (*parser->at == '(') {
		parser->at++;
		inner = condition(parser);
		skip_blanks(parser);
		if (inner && *parser->at != ')') {
			where_free(inner);
			return refuse(parser, "a ) is missing");
		}
		parser->at += inner ? 1 : 0;
	} else {
		inner = read_test(parser);
	}
	parser->depth--;
	return inner;
}

static struct where *term(struct parser *parser)
{
	struct where *left = factor(parser);

	while (left && taken(parser, "and", "&&")) {
		struct where *right = factor(parser);

		if (!right) {
			where_free(left);
			return NULL;
		}
		left = node(NODE_AND, left, right);
	}
	return left;
}

static struct where *condition(struct parser *parser)
{
	struct where *left = term(parser);

	while (left && taken(parser, "or", "||")) {
		struct where *right = term(parser);

		if (!right) {
			where_free(left);
			return NULL;
		}
		left = node(NODE_OR, left, right);
	}
	return left;
}

struct where *where_read(const char *text, char *why, size_t why_bytes)
{
	struct parser parser = {.at = text, .why = why, .why_bytes = why_bytes};
	struct where *where = condition(&parser);

	skip_blanks(&parser);
	if (where && *parser.at) {
		where_free(where);
		return refuse(&parser, "\"and\" or \"or\" is missing");
	}
	return where;
}

/* --- a table --- */

/* Is this the key, or the key without its unit? */
static bool is_column(const char *key, const char *name)
{
	static const char *const units[] = {"_ns", "_bytes", "_percent", "_gb_s"};
	size_t n = strlen(name);

	if (!*key || strncasecmp(key, name, n) != 0)
		return false;
	for (size_t i = 0; i < sizeof units / sizeof *units; i++)
		if (strcmp(key + n, units[i]) == 0)
			return true;
	return key[n] == '\0';
}

static bool find_column(struct where *test, const struct table *table)
{
	size_t whole = table_find(table, test->column);

	/* A key as it is goes before one without its unit. */
	for (size_t c = 0; whole == table_columns(table) && c < table_columns(table); c++)
		if (is_column(table_column(table, c)->key, test->column))
			whole = c;
	test->place = whole;
	return whole < table_columns(table);
}

static bool is_text(enum column_kind kind)
{
	return kind == COLUMN_TEXT || kind == COLUMN_LIST;
}

static bool read_plain(const char *text, double *ret)
{
	char *end;

	*ret = strtod(text, &end);
	return end != text && (*end == '\0' || strcmp(end, "%") == 0);
}

static bool read_number(struct where *test, enum column_kind kind)
{
	const char *text = test->value;
	int64_t number = 0;
	bool minus = *text == '-';

	if (kind == COLUMN_FLAG) {
		bool yes = strcmp(text, "yes") == 0 || strcmp(text, "true") == 0 || strcmp(text, "1") == 0;

		test->number = yes;
		return yes || strcmp(text, "no") == 0 || strcmp(text, "false") == 0 || strcmp(text, "0") == 0;
	}
	if (read_plain(text, &test->number))
		return true;
	if (kind == COLUMN_DURATION ? !quantity_duration(text + minus, &number)
				    : kind != COLUMN_BYTES || !quantity_size(text + minus, &number))
		return false;
	test->number = minus ? -(double)number : (double)number;
	return true;
}

static void small_letters(char *text)
{
	for (; *text; text++)
		*text = (char)tolower((unsigned char)*text);
}

static bool bind_text(struct where *test, char *why, size_t why_bytes)
{
	bool pattern = strpbrk(test->value, "*?");

	if (test->test >= TEST_LESS && test->test <= TEST_LEAST) {
		snprintf(why, why_bytes, "--where: %.40s is a text; it is compared by =, !=, ~ and !~", test->column);
		return false;
	}
	free(test->pattern);
	if (asprintf(&test->pattern, pattern ? "%s" : "*%s*", test->value) < 0)
		need(NULL);
	small_letters(test->pattern);
	return true;
}

static bool bind_number(struct where *test, enum column_kind kind, char *why, size_t why_bytes)
{
	if (test->test >= TEST_LIKE) {
		snprintf(why, why_bytes, "--where: %.40s is a number; ~ and !~ are for texts", test->column);
		return false;
	}
	if (read_number(test, kind))
		return true;
	snprintf(why, why_bytes, "--where: \"%.40s\" is no %s, which %.40s is compared with", test->value,
		 kind == COLUMN_DURATION ? "duration such as 20us"
		 : kind == COLUMN_BYTES	 ? "size such as 4M"
		 : kind == COLUMN_FLAG	 ? "yes or no"
					 : "number",
		 test->column);
	return false;
}

static void name_columns(const struct table *table, char *to, size_t bytes)
{
	size_t n = strlen(to);

	for (size_t c = 0; c < table_columns(table) && n + 1 < bytes; c++)
		if (table_column(table, c)->key[0])
			n += (size_t)snprintf(to + n, bytes - n, "%s%s", c ? ", " : "", table_column(table, c)->key);
}

static bool bind(struct where *where, const struct table *table, char *why, size_t why_bytes)
{
	enum column_kind kind;

	if (where->kind != NODE_TEST)
		return bind(where->left, table, why, why_bytes) &&
		       (!where->right || bind(where->right, table, why, why_bytes));
	if (!find_column(where, table)) {
		snprintf(why, why_bytes, "--where: this table has no column %.40s; it has ", where->column);
		name_columns(table, why, why_bytes);
		return false;
	}
	kind = table_column(table, where->place)->kind;
	return is_text(kind) ? bind_text(where, why, why_bytes) : bind_number(where, kind, why, why_bytes);
}

static bool text_meets(const struct where *test, const char *text)
{
	char *small;
	bool like;

	if (test->test == TEST_SAME || test->test == TEST_OTHER)
		return (strcmp(text, test->value) == 0) == (test->test == TEST_SAME);
	small = need(strdup(text));
	small_letters(small);
	like = glob_matches(test->pattern, small);
	free(small);
	return like == (test->test == TEST_LIKE);
}

static bool number_meets(const struct where *test, double number)
{
	switch (test->test) {
	case TEST_SAME:
		return number == test->number;
	case TEST_OTHER:
		return number != test->number;
	case TEST_LESS:
		return number < test->number;
	case TEST_MOST:
		return number <= test->number;
	case TEST_MORE:
		return number > test->number;
	default:
		return number >= test->number;
	}
}

static bool meets(const struct where *where, const struct table *table, size_t row)
{
	const char *text;
	double number;

	switch (where->kind) {
	case NODE_AND:
		return meets(where->left, table, row) && meets(where->right, table, row);
	case NODE_OR:
		return meets(where->left, table, row) || meets(where->right, table, row);
	case NODE_NOT:
		return !meets(where->left, table, row);
	case NODE_TEST:
		break;
	}
	text = table_text(table, row, where->place);
	if (text && where->pattern)
		return text_meets(where, text);
	if (!text && table_figure(table, row, where->place, &number))
		return number_meets(where, number);
	return where->test == TEST_OTHER || where->test == TEST_UNLIKE;
}

static bool keeps(const struct table *table, size_t row, void *context)
{
	return meets(context, table, row);
}

bool where_keep(struct where *where, struct table *table, char *why, size_t why_bytes)
{
	if (!bind(where, table, why, why_bytes))
		return false;
	table_keep(table, keeps, where);
	return true;
}
