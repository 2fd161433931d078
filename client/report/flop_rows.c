/* flop_rows.c - see flop_rows.h. */
#include "flop_rows.h"

#include "client/ui/figure.h"
#include "client/ui/text.h"

#include "store/flops.h"

#include <sqlite3.h>

static void flops(sqlite3_context *context, int count, sqlite3_value **values)
{
	const char *texts[3];
	int64_t result;
	(void)count;
	for (int i = 0; i < 3; i++) {
		texts[i] = (const char *)sqlite3_value_text(values[i]);
		if (!texts[i])
			return;
	}
	if (flops_of(texts[0], texts[1], texts[2], &result))
		sqlite3_result_int64(context, figure_time(result));
}

static const struct question {
	const char *function;
	bool (*ask)(const char *name);
} questions[] = {{"profd_has_formula", flops_known},
		 {"profd_counted", flops_counted},
		 {"profd_inner", flops_inner},
		 {"profd_work", flops_work}};

static void ask_of_name(sqlite3_context *context, int count, sqlite3_value **values)
{
	const char *name = (const char *)sqlite3_value_text(values[0]);
	const struct question *question = sqlite3_user_data(context);
	(void)count;
	sqlite3_result_int(context, name && question->ask(name));
}

void flop_functions(const struct reader *reader)
{
	const int flags = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_DIRECTONLY;
	int error = sqlite3_create_function_v2(reader->db, "profd_flops", 3, flags, NULL, flops, NULL, NULL, NULL);
	for (size_t i = 0; i < sizeof questions / sizeof *questions && !error; i++)
		error = sqlite3_create_function_v2(reader->db, questions[i].function, 1, flags, (void *)&questions[i],
						   ask_of_name, NULL, NULL, NULL);
	if (error)
		need(NULL);
}
