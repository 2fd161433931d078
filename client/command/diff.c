/* diff.c - `profd diff`: what a step of B takes more, or less, than one of A, and what has moved. */
#include "client/compare/setup.h"
#include "client/ui/text.h"
#include "client/verbs/arguments.h"
#include "client/verbs/commands.h"
#include "diff_print.h"

#include <math.h>
#include <string.h>

#define ROWS_EACH 5
#define ROWS_ALONE 15

static void compare(struct diff *diff)
{
	bool all = strcmp(diff->by, "all") == 0;
	side_pair(&diff->a, &diff->b);
	diff->wall_a = side_wall(&diff->a);
	diff->wall_b = side_wall(&diff->b);
	diff->wall_p = compare_wall_p(&diff->a, &diff->b, SHIFT_EITHER);
	diff->differences = setup_differences(&diff->a, &diff->b);
	/* The answer is made of it. */
	compare_breakdown(&diff->a, &diff->b, &diff->breakdown);
	for (size_t i = 0; i < COMPARE_KINDS; i++)
		if (all || strcmp(diff->by, compare_kinds[i].name) == 0)
			compare_names(&diff->a, &diff->b, &compare_kinds[i], &diff->kinds[i]);
}

/* --fail-if-slower: is a step of B slower by more than that, and not by chance? */
static int judge(const struct diff *diff, int64_t percent)
{
	double p = compare_wall_p(&diff->a, &diff->b, SHIFT_UP);
	double more = diff->wall_a > 0 ? (diff->wall_b / diff->wall_a - 1) * 100 : 0;
	if (isnan(p))
		return fail(
			EXIT_FAILED,
			"%zu and %zu steps are too few to show that a step takes longer: 3 of each are enough, 5 are better "
			"(`profd trigger --steps 5`)",
			diff->a.blocks.count, diff->b.blocks.count);
	if (p > SHIFT_LEVEL_ONE || more <= (double)percent)
		return EXIT_DONE;
	return fail(EXIT_DIFFERS, "a step of %s takes %.1f %% longer than one of %s, more than %lld %%", diff->b.word,
		    more, diff->a.word, (long long)percent);
}

static int run(struct diff *diff, const struct arguments *arguments)
{
	int code = side_open(arguments->words[0], &diff->a);
	if (code == EXIT_DONE)
		code = side_open(arguments->words[1], &diff->b);
	if (code)
		return code;
	compare(diff);
	switch (arguments_format(arguments)) {
	case FORMAT_TABLE:
		diff_print_text(diff);
		break;
	case FORMAT_JSON:
		diff_print_json(diff);
		break;
	case FORMAT_CSV:
		diff_print_csv(diff);
		break;
	}
	if (arguments_has(arguments, "fail-if-slower"))
		code = judge(diff, arguments_number(arguments, "fail-if-slower", 0));
	return code;
}

int command_diff(struct arguments *arguments)
{
	enum output_format format = arguments_format(arguments);
	struct diff diff = {.by = arguments_text(arguments, "by", format == FORMAT_CSV ? "breakdown" : "all")};
	bool all = strcmp(diff.by, "all") == 0;
	if (format == FORMAT_CSV && all)
		return fail(EXIT_USAGE, "CSV holds one table; name it with --by (breakdown, operators, kernels, ...)");
	diff.limit = (size_t)arguments_number(arguments, "limit",
					      format != FORMAT_TABLE ? 0
					      : all		     ? ROWS_EACH
								     : ROWS_ALONE);
	diff.full_names = arguments_has(arguments, "full-names");
	int code = run(&diff, arguments);
	cJSON_Delete(diff.differences);
	compare_free(&diff.breakdown);
	for (size_t i = 0; i < COMPARE_KINDS; i++)
		compare_free(&diff.kinds[i]);
	side_close(&diff.a);
	side_close(&diff.b);
	return code;
}
