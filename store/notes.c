/* notes.c - see notes.h. No locks. */
#include "notes.h"

#include "proto/events.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define NOTES_BYTES 2048

void notes_find(struct notes *ret, struct store *store)
{
	*ret = (struct notes){.known_from = -1, .missing_from = -1};
	sqlite3_stmt *statement = store_prepare(
		store, "SELECT refused, options, coalesce(known_from, -1), coalesce(missing_from, -1) FROM sessions "
		       "ORDER BY rowid DESC LIMIT 1");
	if (statement && sqlite3_step(statement) == SQLITE_ROW) {
		ret->any = true;
		ret->refused = (uint64_t)sqlite3_column_int64(statement, 0);
		ret->options = (uint64_t)sqlite3_column_int64(statement, 1);
		ret->known_from = sqlite3_column_int64(statement, 2);
		ret->missing_from = sqlite3_column_int64(statement, 3);
	}
	sqlite3_finalize(statement);
	if (ret->missing_from < 0)
		return;
	statement = store_prepare(store, "SELECT step FROM steps WHERE start + duration > ?1 ORDER BY start LIMIT 1");
	if (statement) {
		sqlite3_bind_int64(statement, 1, ret->missing_from);
		if (sqlite3_step(statement) == SQLITE_ROW)
			ret->missing_step = (uint32_t)sqlite3_column_int64(statement, 0);
	}
	sqlite3_finalize(statement);
	_Static_assert(COLLECTOR_CUPTI == 4, "as the statement below has it");
	statement = store_prepare(store, "UPDATE steps SET collectors = collectors & ~16 WHERE start >= ?1");
	if (statement) {
		sqlite3_bind_int64(statement, 1, ret->missing_from);
		if (sqlite3_step(statement) != SQLITE_DONE)
			store_fail(store, "writing");
	}
	sqlite3_finalize(statement);
}

void notes_missing(const struct notes *notes, char *to, size_t bytes)
{
	*to = 0;
	if (!notes->missing_step)
		return;
	snprintf(to, bytes, "from %.1f ms on (step %" PRIu32 ") the GPU was not recorded: %s",
		 (double)notes->missing_from / 1e6, notes->missing_step,
		 notes->options & SESSION_EXHAUSTED ? "CUPTI held all of the agent's buffers"
						    : "another client of CUPTI in the process took its records over");
}

static void say(char *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(char *text, const char *format, ...)
{
	va_list arguments;
	size_t n = strlen(text);
	if (n && n < NOTES_BYTES - 1)
		text[n++] = '\n';
	va_start(arguments, format);
	vsnprintf(text + n, NOTES_BYTES - n, format, arguments);
	va_end(arguments);
}

static void say_refused(const struct notes *notes, char *text)
{
	const uint64_t device = 1ull << ACTIVITY_COPY | 1ull << ACTIVITY_PEER_COPY | 1ull << ACTIVITY_SET;
	char list[160] = "";
	const char *word;
	uint64_t kinds;
	size_t n = 0;
	for (unsigned i = 0; (word = activity_word(i, &kinds)); i++)
		if (notes->refused & kinds)
			n += (size_t)snprintf(list + n, sizeof list - n, "%s%s", n ? ", " : "", word);
	if (n)
		say(text, "not recorded, since CUPTI refuses it: %s%s", list,
		    notes->refused & device ? "; busy time does not include that" : "");
}

/* Were CUDA graphs launched, as far as the records of the device tell? */
static bool has_graphs(struct store *store)
{
	sqlite3_stmt *statement = store_prepare(
		store, "SELECT EXISTS (SELECT 1 FROM kernel_records WHERE graph <> 0) OR EXISTS (SELECT 1 "
		       "FROM copy_records WHERE graph <> 0) OR EXISTS (SELECT 1 FROM set_records WHERE "
		       "graph <> 0) OR EXISTS (SELECT 1 FROM graph_records)");
	bool any = statement && sqlite3_step(statement) == SQLITE_ROW && sqlite3_column_int(statement, 0);
	sqlite3_finalize(statement);
	return any;
}

void notes_write(const struct notes *notes, struct store *store)
{
	char text[NOTES_BYTES] = "", missing[256], first[32] = "";
	if (!notes->any)
		return;
	say_refused(notes, text);
	/* Less than a microsecond comes from the clocks. */
	if (notes->known_from >= 1000 && notes->known_from < 1000000)
		snprintf(first, sizeof first, "%lld us", (long long)notes->known_from / 1000);
	else if (notes->known_from >= 1000000)
		snprintf(first, sizeof first, "%.1f ms", (double)notes->known_from / 1e6);
	if (*first)
		say(text,
		    "for the first %s of the recording the device may have been busy with what was launched "
		    "before CUPTI was switched on",
		    first);
	notes_missing(notes, missing, sizeof missing);
	if (*missing)
		say(text, "%s", missing);
	if (notes->options & SESSION_ATTACHED && has_graphs(store))
		say(text, "the agent was attached: it is not known how many operations earlier CUDA graphs have; "
			  "the capture shows the operations that CUPTI reports");
	if (notes->options & SESSION_LEFT_ON)
		say(text,
		    "CUPTI refused to switch the recording off again: that may cost the job time until the job ends");
	if (notes->options & SESSION_CLOCK_SILENT)
		say(text, "CUPTI's clock ceased to answer: times of the device may be off by the clock error");
	if (*text)
		store_meta_text(store, "notes", text);
}

void notes_add(struct store *store, const char *sentence)
{
	char text[NOTES_BYTES] = "";
	sqlite3_stmt *statement = store_prepare(store, "SELECT value FROM meta WHERE key = 'notes'");
	if (statement && sqlite3_step(statement) == SQLITE_ROW)
		text_copy(text, sizeof text, (const char *)sqlite3_column_text(statement, 0));
	sqlite3_finalize(statement);
	say(text, "%s", sentence);
	store_meta_text(store, "notes", text);
}

void notes_nvtx(const struct store_collector *nvtx, struct store *store)
{
	char sentence[sizeof nvtx->sentence + 32];
	if (!nvtx->wanted || !nvtx->told || !*nvtx->sentence)
		return;
	snprintf(sentence, sizeof sentence, "%s: %s", nvtx->ran ? "NVTX" : "NVTX not recorded", nvtx->sentence);
	notes_add(store, sentence);
}
