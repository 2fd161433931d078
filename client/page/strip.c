/* strip.c - see strip.h. */
#include "strip.h"

#include "client/export/buffer.h"
#include "client/ui/text.h"

#include <stdlib.h>
#include <string.h>

/* Rows of a device's side: those of work, then the causes of idle time. */
#define MOST_ROWS 24
_Static_assert((int)DEVICE_IDLE + (int)IDLE_ROWS <= MOST_ROWS && HOST_ROWS <= MOST_ROWS, "a letter for each row");

struct stretch {
	int64_t length;
	int8_t row; /* -1: in no piece */
};

struct side {
	int64_t device, start, end;
	struct stretch *stretches;
	size_t count, room;
};

struct strip {
	struct side *sides;
	size_t count;
};

struct strip *strip_new(void)
{
	return need(calloc(1, sizeof(struct strip)));
}

struct strip *strip_free(struct strip *strip)
{
	for (size_t i = 0; strip && i < strip->count; i++)
		free(strip->sides[i].stretches);
	if (strip)
		free(strip->sides);
	free(strip);
	return NULL;
}

static struct side *side_of(struct strip *strip, int64_t device)
{
	for (size_t i = strip->count; i > 0; i--)
		if (strip->sides[i - 1].device == device)
			return &strip->sides[i - 1];
	strip->sides = need(reallocarray(strip->sides, strip->count + 1, sizeof *strip->sides));
	strip->sides[strip->count] = (struct side){.device = device};
	return &strip->sides[strip->count++];
}

static void append(struct side *side, int64_t length, int row)
{
	if (length <= 0)
		return;
	side->end += length;
	if (side->count && side->stretches[side->count - 1].row == row) {
		side->stretches[side->count - 1].length += length;
		return;
	}
	NEED_ROOM(side->stretches, side->count, side->room);
	side->stretches[side->count++] = (struct stretch){length, (int8_t)row};
}

void strip_take(void *context, const struct breakdown_piece *piece)
{
	struct side *side = side_of(context, piece->device);
	int row = piece->idle >= 0 ? DEVICE_IDLE + piece->idle : piece->row;
	if (!side->count)
		side->start = side->end = piece->start;
	if (piece->start > side->end)
		append(side, piece->start - side->end, -1);
	/* Pieces come in order. Of a piece that does not, only the part behind the others counts. */
	append(side, piece->end - (piece->start < side->end ? side->end : piece->start), row);
}

bool strip_bounds(const struct strip *strip, int64_t *ret_start, int64_t *ret_end)
{
	bool any = false;
	for (size_t i = 0; i < strip->count; i++) {
		const struct side *side = &strip->sides[i];
		if (!side->count)
			continue;
		*ret_start = !any || side->start < *ret_start ? side->start : *ret_start;
		*ret_end = !any || side->end > *ret_end ? side->end : *ret_end;
		any = true;
	}
	return any;
}

/* Writes stretches, or counts them where there is no buffer. */
struct writer {
	struct buffer *to;
	size_t count;
	int64_t sums[MOST_ROWS + 1]; /* what is gathered; the last: in no piece */
	int64_t gathered;
};

static void write_stretch(struct writer *writer, int64_t length, int row)
{
	static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyz";
	char text[16];
	size_t at = sizeof text;
	writer->count++;
	if (!writer->to)
		return;
	for (int64_t rest = length; at > 1 && (rest || at == sizeof text); rest /= 36)
		text[--at] = digits[rest % 36];
	text[--at] = row < 0 ? '_' : (char)('A' + row);
	buffer_put(writer->to, text + at, sizeof text - at);
}

static void write_gathered(struct writer *writer)
{
	for (int row = 0; writer->gathered && row <= MOST_ROWS; row++) {
		if (writer->sums[row])
			write_stretch(writer, writer->sums[row], row == MOST_ROWS ? -1 : row);
		writer->sums[row] = 0;
	}
	writer->gathered = 0;
}

static size_t write_side(const struct side *side, int64_t fine, struct buffer *to)
{
	struct writer writer = {.to = to};
	for (size_t i = 0; i < side->count; i++) {
		const struct stretch *stretch = &side->stretches[i];
		if (stretch->length >= fine) {
			write_gathered(&writer);
			write_stretch(&writer, stretch->length, stretch->row);
			continue;
		}
		writer.sums[stretch->row < 0 ? MOST_ROWS : stretch->row] += stretch->length;
		writer.gathered += stretch->length;
		if (writer.gathered >= fine)
			write_gathered(&writer);
	}
	write_gathered(&writer);
	return writer.count;
}

char *strip_text(const struct strip *strip, int64_t device, size_t most, int64_t *ret_start, int64_t *ret_gathered)
{
	const struct side *side = NULL;
	struct buffer text = {0};
	for (size_t i = 0; i < strip->count; i++)
		if (strip->sides[i].device == device && strip->sides[i].count)
			side = &strip->sides[i];
	if (!side)
		return NULL;
	int64_t fine = 0;
	while (write_side(side, fine, NULL) > most && fine < INT64_MAX / 4)
		fine = fine ? 2 * fine : 500;
	write_side(side, fine, &text);
	buffer_put(&text, "", 1);
	if (text.failed)
		need(NULL);
	*ret_start = side->start;
	*ret_gathered = fine;
	return text.bytes;
}
