/* folded.c - Python stacks as lines of text, a different stack a line: its functions, the outermost first, with ; between, and its
 * microseconds: how long it was seen by samples, or what devices did of what operators launched there, each in its innermost operator
 * only, so that the lines add up to `show --by lines`. flamegraph.pl and speedscope read it. */
#include "export.h"

#include "stack_frames.h"
#include "stream.h"

#include "client/report/recorded.h"
#include "client/ui/text.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MOST 1024

#define HOST_SQL "SELECT stack, sum(duration) FROM samples GROUP BY stack"
#define DEVICE_SQL                                                                                                     \
	"SELECT coalesce(o.stack, 0), min(total(d.self), 9e18) FROM range_devices d JOIN operators o ON o.id = d.id "  \
	"GROUP BY 1"

struct folded {
	const struct reader *reader;
	struct stack_frames stacks;
	int64_t *ns; /* of each stack */
};

export_write folded_write;

static sqlite3_stmt *prepare(const struct folded *folded, const char *sql)
{
	sqlite3_stmt *statement;

	return sqlite3_prepare_v2(folded->reader->db, sql, -1, &statement, NULL) == SQLITE_OK ? statement : NULL;
}

static int load(struct folded *folded, const char *sql)
{
	int code = SQLITE_DONE, error = stack_frames_load(&folded->stacks, folded->reader);
	sqlite3_stmt *row;

	folded->ns = error ? NULL : calloc((size_t)folded->stacks.count + 1, sizeof *folded->ns);
	if (!folded->ns)
		return error ? error : -ENOMEM;
	row = prepare(folded, sql);
	while (row && (code = sqlite3_step(row)) == SQLITE_ROW) {
		int64_t id = sqlite3_column_int64(row, 0), ns = sqlite3_column_int64(row, 1);

		if (id >= 0 && id <= folded->stacks.count && ns > 0)
			folded->ns[id] = ns;
	}
	sqlite3_finalize(row);
	return row && code == SQLITE_DONE ? 0 : -EIO;
}

/* ; parts frames, and a line ends a stack. */
static void put_clean(struct buffer *b, const char *text)
{
	size_t from = b->used;

	buffer_put(b, text, strlen(text));
	for (size_t i = from; i < b->used; i++)
		if (b->bytes[i] == ';' || (unsigned char)b->bytes[i] < ' ')
			b->bytes[i] = '_';
}

static void put_frame(struct buffer *b, const struct stack_frame *frame)
{
	put_clean(b, frame->function);
	BUFFER_PUT(b, " (");
	put_clean(b, text_base_name(frame->file));
	BUFFER_PUT(b, ":");
	buffer_put_int(b, frame->line);
	BUFFER_PUT(b, ")");
}

static void put_stack(const struct folded *folded, struct buffer *b, uint32_t id)
{
	const struct stack_frame *frames = folded->stacks.frames, *chain[DEPTH_MOST];
	size_t depth = 0;

	for (uint32_t at = id; at && frames[at].function && depth < DEPTH_MOST; at = frames[at].parent)
		chain[depth++] = &frames[at];
	if (!depth)
		BUFFER_PUT(b, "(no Python)");
	while (depth > 0) {
		put_frame(b, chain[--depth]);
		if (depth)
			BUFFER_PUT(b, ";");
	}
	BUFFER_PUT(b, " ");
	buffer_put_int(b, folded->ns[id] / 1000 + (folded->ns[id] % 1000 >= 500));
	BUFFER_PUT(b, "\n");
}

/* Why there is nothing of this metric; NULL: there is. */
static const char *missing(const struct reader *reader, bool device)
{
	bool operators = report_ran(reader, "operator_stacks");

	if (!device && report_ran(reader, "python"))
		return NULL;
	if (!device)
		return operators ? "Python stacks were not sampled; device time by the stacks of operators is "
				   "exported with --metric self_device_time_total"
				 : "Python stacks were not recorded: record them with `profd trigger --stacks`";
	if (!operators)
		return "the stacks of operators, from which device work was launched, were not recorded: record them "
		       "with `profd trigger --stacks=operators`";
	if (!report_gpu(reader))
		return "what devices did was not recorded";
	return report_attributed(reader) ? NULL : "the calls that launched the devices' work were not recorded";
}

int folded_write(struct reader *readers, size_t count, const struct export_options *options, struct stream *stream,
		 char *why, size_t why_bytes)
{
	struct folded folded = {.reader = &readers[0]};
	struct block *block = stream_head(stream);
	int error = 0;

	bool device = options->metric == EXPORT_METRIC_DEVICE;
	const char *lacks = missing(folded.reader, device);

	(void)count;
	if (lacks) {
		snprintf(why, why_bytes, "%s", lacks);
		return -ENOTSUP;
	}
	error = load(&folded, device ? DEVICE_SQL : HOST_SQL);
	for (uint32_t id = 0; !error && id <= folded.stacks.count; id++) {
		if (folded.ns[id])
			put_stack(&folded, &block->text, id);
		error = block_flush_full(block);
	}
	if (!error)
		error = block_flush(block);
	if (error)
		snprintf(why, why_bytes, "%s",
			 error == -ENOMEM ? "there is no memory for the stacks" : "the file is damaged");
	free(folded.ns);
	stack_frames_free(&folded.stacks);
	return error;
}
