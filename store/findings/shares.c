/* shares.c - see shares.h. No state, no locks. */
#include "shares.h"

void shares_add(struct shares *shares, const struct share *what, int64_t ns)
{
	size_t i = 0;
	/* A hostile file's times that no capture can have are left out. */
	if (ns <= 0 || ns > INT64_MAX / 4 - shares->ns)
		return;
	shares->ns += ns;
	while (i < shares->count && (shares->list[i].file != what->file || shares->list[i].line != what->line ||
				     shares->list[i].module != what->module))
		i++;
	if (i == SHARES_MOST)
		return;
	if (i == shares->count) {
		shares->list[shares->count++] = *what;
		shares->list[i].ns = 0;
	}
	shares->list[i].ns += ns;
}

struct share shares_most(const struct shares *shares)
{
	struct share best = {0};
	for (size_t i = 0; i < shares->count; i++)
		if (shares->list[i].ns > best.ns)
			best = shares->list[i];
	return best;
}

struct share shares_line(sqlite3_stmt *row)
{
	return (struct share){.file = sqlite3_column_int64(row, 3),
			      .line = sqlite3_column_int64(row, 4),
			      .function = sqlite3_column_int64(row, 5)};
}
