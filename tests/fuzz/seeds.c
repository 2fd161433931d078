/* seeds.c - writes what the fuzz targets of proto/ start from: one well-formed input of each kind. `fuzz_seeds FOLDER` makes
 * FOLDER/TARGET/NAME. Targets that are not here keep theirs in tests/fuzz/corpus/TARGET. */
#include "proto/events.h"
#include "proto/inputs.h"
#include "proto/limits.h"
#include "proto/message.h"
#include "proto/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *folder;
static int failed;

static void seed(const char *target, const char *name, const void *bytes, size_t n)
{
	char path[4096];
	snprintf(path, sizeof path, "%s/%s", folder, target);
	if (mkdir(path, 0755) < 0 && errno != EEXIST) {
		perror(path);
		failed = 1;
		return;
	}
	snprintf(path, sizeof path, "%s/%s/%s", folder, target, name);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd < 0 || write(fd, bytes, n) != (ssize_t)n) {
		perror(path);
		failed = 1;
	}
	if (fd >= 0)
		close(fd);
}

static void events(void)
{
	_Alignas(8) unsigned char all[4096];
	size_t n = 0;
#define EVENT(number, NAME, name, table, min_size, side, place, description)                                           \
	{                                                                                                              \
		struct event_##name record = {.head = {sizeof record, number, 0, 1}};                                  \
		seed("fuzz_event", #name, &record, sizeof record);                                                     \
		memcpy(all + n, &record, sizeof record);                                                               \
		n += sizeof record;                                                                                    \
	}
#include "proto/events.def"
	seed("fuzz_event", "all", all, n);
}

/* Each thing that is done with a capture file, done once with one that is as it should be. */
static void files(void)
{
	for (unsigned i = 0; i < 64; i++) {
		unsigned char bytes[] = {(unsigned char)i, 0, 0};
		char name[16];
		snprintf(name, sizeof name, "%u", i);
		seed("fuzz_file", name, bytes, sizeof bytes);
	}
}

static void messages(void)
{
	enum { DAEMON = 0, AGENT = 1 };
	unsigned char bytes[1 + sizeof(union message_any)];
#define MESSAGE(number, NAME, name, from, fds, description)                                                            \
	{                                                                                                              \
		struct message_##name record = MESSAGE_INIT(NAME, name);                                               \
		bytes[0] = from;
#define TEXT(name, member, bytes, description) memcpy(record.member, #member "\xc3\xa9", sizeof #member "\xc3\xa9");
#define END_MESSAGE(NAME, name, first, size)                                                                           \
	memcpy(bytes + 1, &record, sizeof record);                                                                     \
	seed("fuzz_message", #name, bytes, 1 + sizeof record);                                                         \
	}
#include "proto/messages.def"
}

static size_t patch(unsigned char *to, size_t at, unsigned part, size_t offset, const void *bytes, size_t n)
{
	unsigned char head[4] = {(unsigned char)part, (unsigned char)offset, (unsigned char)(offset >> 8),
				 (unsigned char)n};
	memcpy(to + at, head, sizeof head);
	memcpy(to + at + sizeof head, bytes, n);
	return at + sizeof head + n;
}

static void segments(void)
{
	unsigned char bytes[1024];
	struct segment_string entry = {.bytes = 4, .type = STRING_TEXT};
	uint32_t used = SEGMENT_STRINGS_FIRST + SEGMENT_STRING_SIZE(4);
	struct event_thread record = {.head = {sizeof record, EVENT_THREAD, 0, 0}, .thread = 7, .name = 1};
	const uint32_t chunk[4] = {CHUNK_FULL, sizeof record, 1, 7};
	size_t n = patch(bytes, 0, 2, SEGMENT_STRINGS_FIRST, &entry, sizeof entry);
	n = patch(bytes, n, 2, SEGMENT_STRINGS_FIRST + 8, "main", 4);
	n = patch(bytes, n, 0, offsetof(struct segment_header, strings_used), &used, sizeof used);
	n = patch(bytes, n, 3, 0, &record, sizeof record);
	n = patch(bytes, n, 1, 0, chunk, sizeof chunk);
	seed("fuzz_segment", "one", bytes, n);
	seed("fuzz_segment", "fresh", bytes, 0);
	/* Places that the fuzzer should know of: each member of the header. */
	static const size_t members[] = {
		offsetof(struct segment_header, magic),		offsetof(struct segment_header, version),
		offsetof(struct segment_header, total_bytes),	offsetof(struct segment_header, chunk_bytes),
		offsetof(struct segment_header, chunk_count),	offsetof(struct segment_header, table_at),
		offsetof(struct segment_header, strings_at),	offsetof(struct segment_header, chunks_at),
		offsetof(struct segment_header, strings_bytes), offsetof(struct segment_header, chunks_ready),
		offsetof(struct segment_header, strings_ready), offsetof(struct segment_header, strings_used),
	};
	for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
		char name[32];
		snprintf(name, sizeof name, "header-%zu", members[i]);
		n = patch(bytes, 0, 0, members[i], "\0\0\1\0", 4);
		seed("fuzz_segment", name, bytes, n);
	}
}

static void inputs(void)
{
	static const int64_t sizes[] = {64, 3, 224, 224}, strides[] = {150528, 50176, 224, 1}, wide[] = {1ll << 40};
	uint32_t words[LIMIT_INPUTS_WORDS];
	struct inputs_writer writer;
	inputs_init(&writer, words, LIMIT_INPUTS_WORDS);
	inputs_put_tensor(&writer, 6, 0, 4, sizes, NULL);
	inputs_put_tensor(&writer, 6, 0, 4, sizes, strides);
	inputs_put_tensor(&writer, 4, 1, 1, wide, NULL);
	inputs_put_none(&writer);
	inputs_put_opaque(&writer, 6);
	inputs_put_int(&writer, -1);
	inputs_put_int(&writer, INT64_MIN);
	inputs_put_double(&writer, 1e-5);
	inputs_put_bool(&writer, 1);
	inputs_put_other(&writer, 3);
	uint32_t *list = inputs_list_begin(&writer);
	inputs_put_tensor(&writer, 6, 0, 4, sizes, strides);
	inputs_put_tensor(&writer, 6, 0, 4, sizes, NULL);
	inputs_list_end(list, INPUTS_LIST_TENSORS, 2, 1);
	list = inputs_list_begin(&writer);
	inputs_put_int(&writer, 1);
	inputs_put_double(&writer, 2.5);
	inputs_list_end(list, INPUTS_LIST_SCALARS, 2, 0);
	list = inputs_list_begin(&writer);
	inputs_list_end(list, INPUTS_LIST_TENSORS, 0, 1);
	seed("fuzz_inputs", "all", words, inputs_finish(&writer) * sizeof words[0]);
}

int main(int argc, char **argv)
{
	if (argc != 2) {
		fprintf(stderr, "usage: fuzz_seeds FOLDER\n");
		return 2;
	}
	folder = argv[1];
	events();
	messages();
	files();
	segments();
	inputs();
	return failed;
}
