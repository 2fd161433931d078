/* kineto.c - see kineto.h. yajl parses; here its tokens are put into the fields of one event after the other. */
#include "kineto.h"

#include "decimal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>
#include <yajl/yajl_parse.h>
#include <zlib.h>

#define READ_BYTES (256u << 10)
/* Nothing that torch writes comes near: not an event, and not a text in it. */
#define EVENT_BYTES_MAX (64u << 20)

/* Where the parser is. What is not listed is passed over, whatever it holds. */
enum place { OUTSIDE, TOP, EVENTS, EVENT, ARGUMENTS, NUMBERS, DEVICES, DEVICE, DISTRIBUTED };

#define DEPTH 8

/* Fields of an event, of its arguments, of a device, of the file. */
enum field {
	FIELD_NONE,
	FIELD_PHASE,
	FIELD_CATEGORY,
	FIELD_NAME,
	FIELD_START,
	FIELD_DURATION,
	FIELD_TEXT,   /* struct kineto_text at `offset` */
	FIELD_NUMBER, /* int64_t at `offset` */
	FIELD_THREE,  /* int64_t[3] at `offset` */
	FIELD_JSON,   /* what stands there, as it stands there */
	FIELD_PLACE,  /* something of its own: `place` */
	FIELD_HOST,
	FIELD_TORCH
};

struct known {
	const char *word;
	enum field field;
	size_t offset;
	enum place place;
};

#define AT(member) offsetof(struct kineto_event, member), OUTSIDE
#define DEVICE_AT(member) offsetof(struct kineto_device, member), OUTSIDE
#define ABOUT(member) offsetof(struct kineto_about, member), OUTSIDE

static const struct known top_words[] = {
	{"traceEvents", FIELD_PLACE, 0, EVENTS},
	{"deviceProperties", FIELD_PLACE, 0, DEVICES},
	{"distributedInfo", FIELD_PLACE, 0, DISTRIBUTED},
	{"baseTimeNanoseconds", FIELD_NUMBER, ABOUT(base)},
	{"host_name", FIELD_HOST, 0, OUTSIDE},
	{"hostname", FIELD_HOST, 0, OUTSIDE},
	{"torch_version", FIELD_TORCH, 0, OUTSIDE},
	{"PT_VERSION", FIELD_TORCH, 0, OUTSIDE},
};
static const struct known distributed_words[] = {
	{"rank", FIELD_NUMBER, ABOUT(rank)},
	{"world_size", FIELD_NUMBER, ABOUT(world_size)},
};
static const struct known device_words[] = {
	{"id", FIELD_NUMBER, DEVICE_AT(id)},
	{"name", FIELD_TEXT, DEVICE_AT(name)},
	{"totalGlobalMem", FIELD_NUMBER, DEVICE_AT(memory)},
	{"computeMajor", FIELD_NUMBER, DEVICE_AT(major)},
	{"computeMinor", FIELD_NUMBER, DEVICE_AT(minor)},
	{"maxThreadsPerBlock", FIELD_NUMBER, DEVICE_AT(threads_block)},
	{"maxThreadsPerMultiprocessor", FIELD_NUMBER, DEVICE_AT(threads_multiprocessor)},
	{"regsPerBlock", FIELD_NUMBER, DEVICE_AT(registers_block)},
	{"regsPerMultiprocessor", FIELD_NUMBER, DEVICE_AT(registers_multiprocessor)},
	{"warpSize", FIELD_NUMBER, DEVICE_AT(warp)},
	{"sharedMemPerBlock", FIELD_NUMBER, DEVICE_AT(shared_block)},
	{"sharedMemPerMultiprocessor", FIELD_NUMBER, DEVICE_AT(shared_multiprocessor)},
	{"numSms", FIELD_NUMBER, DEVICE_AT(multiprocessors)},
};
static const struct known event_words[] = {
	{"ph", FIELD_PHASE, 0, OUTSIDE},   {"cat", FIELD_CATEGORY, 0, OUTSIDE}, {"name", FIELD_NAME, 0, OUTSIDE},
	{"ts", FIELD_START, 0, OUTSIDE},   {"dur", FIELD_DURATION, 0, OUTSIDE}, {"pid", FIELD_NUMBER, AT(pid)},
	{"tid", FIELD_NUMBER, AT(thread)}, {"args", FIELD_PLACE, 0, ARGUMENTS},
};
static const struct known argument_words[] = {
	{"correlation", FIELD_NUMBER, AT(correlation)},
	{"device", FIELD_NUMBER, AT(device)},
	{"context", FIELD_NUMBER, AT(context)},
	{"stream", FIELD_NUMBER, AT(stream)},
	{"bytes", FIELD_NUMBER, AT(bytes)},
	{"Bytes", FIELD_NUMBER, AT(bytes)},
	{"Addr", FIELD_NUMBER, AT(address)},
	{"Device Id", FIELD_NUMBER, AT(device)},
	{"Device Type", FIELD_NUMBER, AT(device_type)},
	{"Total Allocated", FIELD_NUMBER, AT(allocated)},
	{"Total Reserved", FIELD_NUMBER, AT(reserved)},
	{"Sequence number", FIELD_NUMBER, AT(sequence)},
	{"Fwd thread id", FIELD_NUMBER, AT(forward_thread)},
	{"cbid", FIELD_NUMBER, AT(cbid)},
	{"registers per thread", FIELD_NUMBER, AT(registers)},
	{"shared memory", FIELD_NUMBER, AT(shared)},
	{"graph id", FIELD_NUMBER, AT(graph)},
	{"graph node id", FIELD_NUMBER, AT(graph_node)},
	{"priority", FIELD_NUMBER, AT(priority)},
	{"wait_on_stream", FIELD_NUMBER, AT(waits_for)},
	{"wait_on_cuda_event_id", FIELD_NUMBER, AT(event)},
	{"grid", FIELD_THREE, AT(grid)},
	{"block", FIELD_THREE, AT(block)},
	{"name", FIELD_TEXT, AT(label)},
	{"Input Dims", FIELD_JSON, AT(dims)},
	{"Input type", FIELD_JSON, AT(types)},
	{"Input Strides", FIELD_JSON, AT(strides)},
	{"Concrete Inputs", FIELD_JSON, AT(concrete)},
};

/* The event's texts, one after the other; they point into it once the event is whole. */
struct texts {
	char *bytes;
	size_t n, room;
};

/* A text of the event by its place in `texts`. */
struct place_of_text {
	size_t offset; /* of a struct kineto_text in the event or the device */
	size_t at, n;
};
#define TEXTS 8

struct parser {
	const struct kineto_reader *reader;
	struct kineto_about *about;
	enum place places[DEPTH];
	unsigned depth;
	unsigned passing; /* brackets that are open in what is passed over */
	struct known key; /* what the next value is */
	char phase;
	char category[32];
	struct kineto_event event;
	struct kineto_device device;
	bool has_start, bad_time;
	unsigned numbers; /* of a list of three */
	struct texts texts;
	struct place_of_text text_places[TEXTS];
	unsigned text_count;
	unsigned copying;	     /* brackets that are open in JSON that is copied */
	bool after_value, after_key; /* in that, a comma or nothing comes next */
	bool stopped, no_memory;
	size_t quiet; /* bytes since the last token: a text that does not end */
};

static enum place place(const struct parser *parser)
{
	return parser->depth ? parser->places[parser->depth - 1] : OUTSIDE;
}

static bool append(struct parser *parser, const char *bytes, size_t n)
{
	struct texts *texts = &parser->texts;
	if (texts->n + n + 1 > texts->room) {
		size_t room = texts->room * 2 > texts->n + n + 1 ? texts->room * 2 : texts->n + n + 4096;
		char *grown = realloc(texts->bytes, room);
		if (!grown) {
			parser->no_memory = true;
			return false;
		}
		texts->bytes = grown;
		texts->room = room;
	}
	memcpy(texts->bytes + texts->n, bytes, n);
	texts->n += n;
	return true;
}

/* Begins a text that belongs to the member at `offset`. */
static struct place_of_text *begin_text(struct parser *parser, size_t offset)
{
	if (parser->text_count == TEXTS)
		return NULL;
	struct place_of_text *text = &parser->text_places[parser->text_count++];
	*text = (struct place_of_text){.offset = offset, .at = parser->texts.n};
	return text;
}

static bool end_text(struct parser *parser, struct place_of_text *text)
{
	text->n = parser->texts.n - text->at;
	return append(parser, "", 1);
}

static bool put_text(struct parser *parser, size_t offset, const char *bytes, size_t n)
{
	struct place_of_text *text = begin_text(parser, offset);
	return !text || (append(parser, bytes, n) && end_text(parser, text));
}

/* The texts' addresses are known only now. */
static void settle_texts(struct parser *parser, void *thing)
{
	for (unsigned i = 0; i < parser->text_count; i++) {
		struct place_of_text *text = &parser->text_places[i];
		struct kineto_text *to = (struct kineto_text *)(void *)((char *)thing + text->offset);
		*to = (struct kineto_text){.text = parser->texts.bytes + text->at, .n = text->n};
	}
}

static const struct known *find(const struct known *words, size_t count, const char *key, size_t n)
{
	for (size_t i = 0; i < count; i++)
		if (strlen(words[i].word) == n && memcmp(words[i].word, key, n) == 0)
			return &words[i];
	return NULL;
}

#define FIND(words, key, n) find(words, sizeof(words) / sizeof *(words), key, n)

/* --- events --- */

static void clear_event(struct parser *parser)
{
	static const struct kineto_event nothing = {
		.pid = -1,
		.thread = -1,
		.correlation = -1,
		.device = -1,
		.context = -1,
		.stream = -1,
		.bytes = -1,
		.sequence = -1,
		.forward_thread = -1,
		.cbid = -1,
		.registers = -1,
		.shared = -1,
		.graph = -1,
		.graph_node = -1,
		.address = -1,
		.allocated = -1,
		.reserved = -1,
		.device_type = -1,
		.priority = -1,
		.waits_for = -1,
		.event = -1,
	};
	parser->event = nothing;
	parser->phase = '\0';
	parser->category[0] = '\0';
	parser->has_start = parser->bad_time = false;
	parser->texts.n = 0;
	parser->text_count = 0;
}

static enum kineto_kind kind_of(const struct parser *parser)
{
	static const struct {
		const char *category;
		enum kineto_kind kind;
	} kinds[] = {
		{"cpu_op", KINETO_OPERATOR},
		{"Operator", KINETO_OPERATOR},
		{"user_annotation", KINETO_ANNOTATION},
		{"python_function", KINETO_PYTHON},
		{"cuda_runtime", KINETO_RUNTIME},
		{"Runtime", KINETO_RUNTIME},
		{"cuda_driver", KINETO_DRIVER},
		{"kernel", KINETO_KERNEL},
		{"Kernel", KINETO_KERNEL},
		{"concurrent_kernel", KINETO_KERNEL},
		{"gpu_memcpy", KINETO_COPY},
		{"Memcpy", KINETO_COPY},
		{"gpu_memset", KINETO_SET},
		{"Memset", KINETO_SET},
		{"cuda_sync", KINETO_SYNC},
		{"overhead", KINETO_OVERHEAD},
		{"Trace", KINETO_WINDOW},
		{"gpu_user_annotation", KINETO_NONE},
	};
	const char *name = parser->event.name.text ? parser->event.name.text : "";
	if (parser->phase == 'M') {
		if (strcmp(name, "process_name") == 0)
			return KINETO_PROCESS_NAME;
		return strcmp(name, "thread_name") == 0 ? KINETO_THREAD_NAME : KINETO_NONE;
	}
	if (parser->phase == 'i' || parser->phase == 'I')
		return strcmp(name, "[memory]") == 0 ? KINETO_MEMORY : KINETO_NONE;
	if (parser->phase != 'X')
		return KINETO_NONE;
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		if (strcmp(kinds[i].category, parser->category) == 0)
			return kinds[i].kind;
	return KINETO_STRANGE;
}

static bool finish_event(struct parser *parser)
{
	struct kineto_event *event = &parser->event;
	settle_texts(parser, event);
	/* In files of before 1.12 a step is an operator. */
	event->kind = kind_of(parser);
	if (event->kind == KINETO_OPERATOR && event->name.text && strncmp(event->name.text, "ProfilerStep#", 13) == 0)
		event->kind = KINETO_ANNOTATION;
	event->timed = parser->has_start && !parser->bad_time && event->duration >= 0 &&
		       event->start <= INT64_MAX / 2 - event->duration && event->start >= -(INT64_MAX / 4);
	if (event->kind != KINETO_NONE && !parser->reader->event(parser->reader->context, event))
		parser->stopped = true;
	return !parser->stopped;
}

static bool finish_device(struct parser *parser)
{
	settle_texts(parser, &parser->device);
	if (!parser->reader->device(parser->reader->context, &parser->device))
		parser->stopped = true;
	return !parser->stopped;
}

/* --- JSON that is kept as it is --- */

static bool copy_separator(struct parser *parser)
{
	bool comma = parser->after_value && !parser->after_key;
	parser->after_value = true;
	parser->after_key = false;
	return !comma || append(parser, ", ", 2);
}

static bool copy_string(struct parser *parser, const unsigned char *text, size_t n)
{
	if (!copy_separator(parser) || !append(parser, "\"", 1))
		return false;
	for (size_t i = 0; i < n; i++) {
		char escaped[8];
		int length = 0;
		if (text[i] == '"' || text[i] == '\\')
			length = snprintf(escaped, sizeof escaped, "\\%c", text[i]);
		else if (text[i] < 0x20)
			length = snprintf(escaped, sizeof escaped, "\\u%04x", text[i]);
		if (length ? !append(parser, escaped, (size_t)length) : !append(parser, (const char *)&text[i], 1))
			return false;
	}
	return append(parser, "\"", 1);
}

static bool copy_open(struct parser *parser, const char *bracket)
{
	if (!copy_separator(parser) || !append(parser, bracket, 1))
		return false;
	parser->copying++;
	parser->after_value = false;
	return true;
}

static bool copy_close(struct parser *parser, const char *bracket)
{
	if (!append(parser, bracket, 1))
		return false;
	parser->after_value = true;
	if (--parser->copying)
		return true;
	return end_text(parser, &parser->text_places[parser->text_count - 1]);
}

/* --- yajl's callbacks: 0 ends the parsing --- */

static int on_number(void *context, const char *text, size_t n)
{
	struct parser *parser = context;
	parser->quiet = 0;
	if (parser->passing)
		return 1;
	if (parser->copying)
		return copy_separator(parser) && append(parser, text, n);
	int64_t value;
	if (place(parser) == NUMBERS) {
		if (parser->numbers < 3 && decimal_read(text, n, 0, &value))
			((int64_t *)(void *)((char *)&parser->event + parser->key.offset))[parser->numbers++] = value;
		return 1;
	}
	struct known key = parser->key;
	parser->key.field = FIELD_NONE;
	switch (key.field) {
	case FIELD_START:
		parser->has_start = decimal_read(text, n, 3, &parser->event.start);
		break;
	case FIELD_DURATION:
		parser->bad_time |= !decimal_read(text, n, 3, &parser->event.duration);
		break;
	case FIELD_NUMBER:
		if (decimal_read(text, n, 0, &value)) {
			void *thing = place(parser) == DEVICE				     ? (void *)&parser->device
				      : place(parser) == TOP || place(parser) == DISTRIBUTED ? (void *)parser->about
											     : (void *)&parser->event;
			*(int64_t *)(void *)((char *)thing + key.offset) = value;
		}
		break;
	default:
		break;
	}
	return 1;
}

/* "stream 7", "25738": numbers that some releases write as texts. */
static void number_in_text(struct parser *parser, size_t offset, const unsigned char *text, size_t n)
{
	int64_t value;
	if (n > 7 && memcmp(text, "stream ", 7) == 0) {
		text += 7;
		n -= 7;
	}
	if (decimal_read((const char *)text, n, 0, &value))
		*(int64_t *)(void *)((char *)&parser->event + offset) = value;
}

static void keep(char *to, size_t room, const unsigned char *text, size_t n)
{
	n = n < room ? n : room - 1;
	memcpy(to, text, n);
	to[n] = '\0';
}

static int on_string(void *context, const unsigned char *text, size_t n)
{
	struct parser *parser = context;
	parser->quiet = 0;
	if (parser->passing)
		return 1;
	if (parser->copying)
		return copy_string(parser, text, n);
	struct known key = parser->key;
	parser->key.field = FIELD_NONE;
	switch (key.field) {
	case FIELD_PHASE:
		parser->phase = n ? (char)text[0] : '\0';
		break;
	case FIELD_CATEGORY:
		keep(parser->category, sizeof parser->category, text, n);
		break;
	case FIELD_NAME:
		return put_text(parser, offsetof(struct kineto_event, name), (const char *)text, n);
	case FIELD_TEXT:
		return put_text(parser, key.offset, (const char *)text, n);
	case FIELD_NUMBER:
		if (place(parser) == EVENT || place(parser) == ARGUMENTS)
			number_in_text(parser, key.offset, text, n);
		break;
	case FIELD_HOST:
		keep(parser->about->host, sizeof parser->about->host, text, n);
		break;
	case FIELD_TORCH:
		keep(parser->about->torch, sizeof parser->about->torch, text, n);
		break;
	default:
		break;
	}
	return 1;
}

static int on_null(void *context)
{
	struct parser *parser = context;
	if (parser->passing)
		return 1;
	if (parser->copying)
		return copy_separator(parser) && append(parser, "null", 4);
	parser->key.field = FIELD_NONE;
	return 1;
}

static int on_boolean(void *context, int value)
{
	struct parser *parser = context;
	if (!parser->passing && parser->copying)
		return copy_separator(parser) && append(parser, value ? "true" : "false", value ? 4 : 5);
	return on_null(context);
}

static int on_key(void *context, const unsigned char *text, size_t n)
{
	struct parser *parser = context;
	const struct known *known = NULL;
	const char *key = (const char *)text;
	parser->quiet = 0;
	if (parser->passing)
		return 1;
	if (parser->copying) {
		if (!copy_string(parser, text, n) || !append(parser, ": ", 2))
			return 0;
		parser->after_key = true;
		return 1;
	}
	switch (place(parser)) {
	case TOP:
		known = FIND(top_words, key, n);
		break;
	case DISTRIBUTED:
		known = FIND(distributed_words, key, n);
		break;
	case DEVICE:
		known = FIND(device_words, key, n);
		break;
	case EVENT:
		known = FIND(event_words, key, n);
		break;
	case ARGUMENTS:
		known = FIND(argument_words, key, n);
		break;
	default:
		break;
	}
	parser->key = known ? *known : (struct known){.field = FIELD_NONE};
	return 1;
}

static void enter(struct parser *parser, enum place where)
{
	parser->places[parser->depth++] = where;
	parser->key.field = FIELD_NONE;
}

static int on_map(void *context)
{
	struct parser *parser = context;
	if (parser->passing)
		return parser->passing++ < UINT32_MAX;
	if (parser->copying)
		return copy_open(parser, "{");
	enum place inside = OUTSIDE;
	if (parser->depth == 0) {
		inside = TOP;
	} else if (place(parser) == EVENTS) {
		clear_event(parser);
		inside = EVENT;
	} else if (place(parser) == DEVICES) {
		static const struct kineto_device nothing = {.id = -1,
							     .memory = -1,
							     .major = -1,
							     .minor = -1,
							     .warp = -1,
							     .multiprocessors = -1,
							     .threads_block = -1,
							     .threads_multiprocessor = -1,
							     .registers_block = -1,
							     .registers_multiprocessor = -1,
							     .shared_block = -1,
							     .shared_multiprocessor = -1};
		clear_event(parser);
		parser->device = nothing;
		inside = DEVICE;
	} else if (parser->key.field == FIELD_PLACE &&
		   (parser->key.place == ARGUMENTS || parser->key.place == DISTRIBUTED)) {
		inside = parser->key.place;
	}
	if (inside == OUTSIDE) {
		parser->passing = 1;
		parser->key.field = FIELD_NONE;
	} else {
		enter(parser, inside);
	}
	return 1;
}

static int on_map_end(void *context)
{
	struct parser *parser = context;
	if (parser->passing) {
		parser->passing--;
		return 1;
	}
	if (parser->copying)
		return copy_close(parser, "}");
	enum place left = place(parser);
	parser->depth--;
	if (left == EVENT)
		return finish_event(parser);
	return left != DEVICE || finish_device(parser);
}

static int on_array(void *context)
{
	struct parser *parser = context;
	if (parser->passing)
		return parser->passing++ < UINT32_MAX;
	if (parser->copying)
		return copy_open(parser, "[");
	if (place(parser) == NUMBERS) {
		parser->passing = 1;
	} else if (parser->depth == 0) {
		/* Some tools write the events alone. */
		enter(parser, EVENTS);
	} else if (parser->key.field == FIELD_PLACE && (parser->key.place == EVENTS || parser->key.place == DEVICES)) {
		enter(parser, parser->key.place);
	} else if (parser->key.field == FIELD_THREE) {
		struct known key = parser->key;
		enter(parser, NUMBERS);
		parser->key = key;
		parser->numbers = 0;
	} else if (parser->key.field == FIELD_JSON) {
		if (!begin_text(parser, parser->key.offset)) {
			parser->passing = 1;
			return 1;
		}
		parser->after_value = parser->after_key = false;
		return copy_open(parser, "[");
	} else {
		parser->passing = 1;
	}
	return 1;
}

static int on_array_end(void *context)
{
	struct parser *parser = context;
	if (parser->passing) {
		parser->passing--;
		return 1;
	}
	if (parser->copying)
		return copy_close(parser, "]");
	parser->depth--;
	parser->key.field = FIELD_NONE;
	return 1;
}

static const yajl_callbacks callbacks = {on_null, on_boolean, NULL,	  NULL,	    on_number,	 on_string,
					 on_map,  on_key,     on_map_end, on_array, on_array_end};

/* --- the file --- */

/* yajl's own message, without the drawing that it adds. */
static void explain(yajl_handle handle, const unsigned char *chunk, size_t n, uint64_t before,
		    char sentence[KINETO_SENTENCE_BYTES])
{
	unsigned char *message = yajl_get_error(handle, 0, chunk, n);
	char *text = (char *)message;
	text[strcspn(text, "\n")] = '\0';
	const char *what = strncmp(text, "lexical error: ", 15) == 0 ? text + 15
			   : strncmp(text, "parse error: ", 13) == 0 ? text + 13
								     : text;
	snprintf(sentence, KINETO_SENTENCE_BYTES, "at byte %llu of its JSON: %s",
		 (unsigned long long)before + yajl_get_bytes_consumed(handle), what);
	yajl_free_error(handle, message);
}

static enum kineto_result read_all(struct parser *parser, yajl_handle handle, gzFile file, int fd,
				   char sentence[KINETO_SENTENCE_BYTES])
{
	static unsigned char chunk[READ_BYTES];
	uint64_t before = 0;
	off_t whole = lseek(fd, 0, SEEK_END);
	lseek(fd, 0, SEEK_SET);
	for (;;) {
		int n = gzread(file, chunk, sizeof chunk);
		if (n < 0) {
			int number;
			const char *why = gzerror(file, &number);
			snprintf(sentence, KINETO_SENTENCE_BYTES,
				 "behind byte %llu of its JSON it cannot be unpacked: %s", (unsigned long long)before,
				 number == Z_ERRNO ? strerror(errno) : why);
			return KINETO_BAD;
		}
		if (n == 0 && !before) {
			snprintf(sentence, KINETO_SENTENCE_BYTES, "it is empty");
			return KINETO_BAD;
		}
		yajl_status status = n ? yajl_parse(handle, chunk, (size_t)n) : yajl_complete_parse(handle);
		if (parser->stopped)
			return KINETO_STOPPED;
		if (parser->no_memory) {
			snprintf(sentence, KINETO_SENTENCE_BYTES,
				 "there is no memory for the event at byte %llu of its JSON",
				 (unsigned long long)before);
			return KINETO_BAD;
		}
		if (status != yajl_status_ok) {
			explain(handle, chunk, (size_t)n, before, sentence);
			return KINETO_BAD;
		}
		if (n == 0)
			break;
		before += (uint64_t)n;
		parser->quiet += (size_t)n;
		if (parser->texts.n > EVENT_BYTES_MAX || parser->quiet > EVENT_BYTES_MAX) {
			snprintf(sentence, KINETO_SENTENCE_BYTES, "at byte %llu of its JSON one event has over %u MiB",
				 (unsigned long long)before, EVENT_BYTES_MAX >> 20);
			return KINETO_BAD;
		}
		if (parser->reader->progress && whole > 0)
			parser->reader->progress(parser->reader->context, (uint64_t)gzoffset(file), (uint64_t)whole);
	}
	return KINETO_OK;
}

enum kineto_result kineto_read(int fd, const struct kineto_reader *reader, struct kineto_about *about,
			       char sentence[KINETO_SENTENCE_BYTES])
{
	struct parser parser = {.reader = reader, .about = about};
	enum kineto_result result = KINETO_BAD;
	int copy = dup(fd);
	gzFile file = copy < 0 ? NULL : gzdopen(copy, "rb");
	yajl_handle handle = yajl_alloc(&callbacks, NULL, &parser);
	*about = (struct kineto_about){.base = -1, .rank = -1, .world_size = -1};
	sentence[0] = '\0';
	if (!file || !handle) {
		snprintf(sentence, KINETO_SENTENCE_BYTES, "there is no memory to read it");
	} else {
		gzbuffer(file, READ_BYTES);
		/* torch has written names that are not UTF-8. */
		yajl_config(handle, yajl_dont_validate_strings, 1);
		result = read_all(&parser, handle, file, copy, sentence);
	}
	if (handle)
		yajl_free(handle);
	if (file && gzclose(file) == Z_BUF_ERROR && result == KINETO_OK) {
		snprintf(sentence, KINETO_SENTENCE_BYTES, "the compressed file ends too early");
		result = KINETO_BAD;
	}
	if (!file && copy >= 0)
		close(copy);
	free(parser.texts.bytes);
	return result;
}
