/* dummy.c - a format that says how many steps there are. The test of the recipes. */
#include "export.h"
#include "stream.h"

int dummy_write(struct reader *readers, size_t count, const struct export_options *options, struct stream *stream,
		char *why, size_t why_bytes)
{
	struct block *head = stream_head(stream);

	(void)count, (void)options, (void)why, (void)why_bytes;
	BUFFER_PUT(&head->text, "dummy of ");
	buffer_put_int(&head->text, reader_count(readers, "SELECT count(*) FROM steps", 0));
	BUFFER_PUT(&head->text, " steps\n");
	return block_flush(head);
}
