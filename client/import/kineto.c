/* kineto.c - see kineto.h. yajl parses; here its tokens are put into the fields of one event after the other. */
#include "kineto.h"

#include "decimal.h"
#include "foreign.h"
#include "kineto_texts.h"
#include "kineto_words.h"

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
/* Places that lie in each other. */
#define DEPTH 8

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
	struct kineto_texts texts;
	bool stopped;
	size_t quiet; /* bytes since the last token: a text that does not end */
};

static enum place place(const struct parser *parser)
{
	return parser->depth ? parser->places[parser->depth - 1] : OUTSIDE;
}

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
		.collective = {.in_elements = -1,
			       .out_elements = -1,
			       .group_size = -1,
			       .rank = -1,
			       .sequence = -1,
			       .asynchronous = -1},
	};
	parser->event = nothing;
	parser->phase = '\0';
	parser->category[0] = '\0';
	parser->has_start = parser->bad_time = false;
	texts_clear(&parser->texts);
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
	if (parser->phase == 'P')
		return strcmp(name, "ProfileChunk") == 0 ? KINETO_SAMPLES : KINETO_NONE;
	if (parser->phase != 'X')
		return KINETO_NONE;
	if (strcmp(parser->category, "python_function") == 0 && strcmp(name, KINETO_GARBAGE_NAME) == 0)
		return KINETO_GARBAGE;
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		if (strcmp(kinds[i].category, parser->category) == 0)
			return kinds[i].kind;
	return KINETO_STRANGE;
}

static bool finish_event(struct parser *parser)
{
	struct kineto_event *event = &parser->event;
	texts_settle(&parser->texts, event);
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
	texts_settle(&parser->texts, &parser->device);
	if (!parser->reader->device(parser->reader->context, &parser->device))
		parser->stopped = true;
	return !parser->stopped;
}

/* --- yajl's callbacks: 0 ends the parsing --- */

static int on_number(void *context, const char *text, size_t n)
{
	struct parser *parser = context;
	parser->quiet = 0;
	if (parser->passing)
		return 1;
	if (parser->texts.copying)
		return texts_word(&parser->texts, text, n);
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
			void *thing = place(parser) == DEVICE ? (void *)&parser->device
				      : place(parser) == TOP  ? (void *)parser->about
							      : (void *)&parser->event;
			*(int64_t *)(void *)((char *)thing + key.offset) = value;
		}
		break;
	case FIELD_WORD:
		return texts_put(&parser->texts, key.offset, text, n);
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
	if (parser->texts.copying)
		return texts_string(&parser->texts, text, n);
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
		return texts_put(&parser->texts, offsetof(struct kineto_event, name), (const char *)text, n);
	case FIELD_TEXT:
	case FIELD_WORD:
	case FIELD_LIST:
		return texts_put(&parser->texts, key.offset, (const char *)text, n);
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
	if (parser->texts.copying)
		return texts_word(&parser->texts, "null", 4);
	parser->key.field = FIELD_NONE;
	return 1;
}

static int on_boolean(void *context, int value)
{
	struct parser *parser = context;
	if (!parser->passing && parser->texts.copying)
		return texts_word(&parser->texts, value ? "true" : "false", value ? 4 : 5);
	return on_null(context);
}

static int on_key(void *context, const unsigned char *text, size_t n)
{
	struct parser *parser = context;
	parser->quiet = 0;
	if (parser->passing)
		return 1;
	if (parser->texts.copying)
		return texts_key(&parser->texts, text, n);
	const struct known *known = kineto_word(place(parser), (const char *)text, n);
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
	if (parser->texts.copying)
		return texts_open(&parser->texts, "{");
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
	} else if (parser->key.field == FIELD_PLACE && parser->key.place == ARGUMENTS) {
		inside = ARGUMENTS;
	} else if (parser->key.field == FIELD_OBJECT) {
		bool taken;
		texts_clear(&parser->texts);
		return texts_begin_json(&parser->texts, 0, "{", &taken);
	}
	if (inside == OUTSIDE) {
		parser->passing = 1;
		parser->key.field = FIELD_NONE;
	} else {
		enter(parser, inside);
	}
	return 1;
}

/* A copy of the JSON that stands beside the events; a second one of the key takes the first one's place. */
static bool take_object(struct parser *parser)
{
	struct kineto_text text;
	char **to = (char **)(void *)((char *)parser->about + parser->key.offset);
	texts_settle(&parser->texts, &text);
	free(*to);
	*to = strndup(text.text, text.n);
	parser->key.field = FIELD_NONE;
	parser->texts.no_memory |= !*to;
	return *to;
}

static int on_map_end(void *context)
{
	struct parser *parser = context;
	if (parser->passing) {
		parser->passing--;
		return 1;
	}
	if (parser->texts.copying)
		return texts_close(&parser->texts, "}") &&
		       (place(parser) != TOP || parser->texts.copying || take_object(parser));
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
	if (parser->texts.copying)
		return texts_open(&parser->texts, "[");
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
	} else if (parser->key.field == FIELD_JSON || parser->key.field == FIELD_LIST) {
		bool taken;
		if (!texts_begin_json(&parser->texts, parser->key.offset, "[", &taken))
			return 0;
		parser->passing = !taken;
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
	if (parser->texts.copying)
		return texts_close(&parser->texts, "]");
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

/* A packed file whose end is missing: its text may be whole all the same. */
static bool ends_too_early(gzFile file, uint64_t before, char sentence[KINETO_SENTENCE_BYTES])
{
	char at[48] = "";
	int number;
	gzerror(file, &number);
	if (number != Z_BUF_ERROR)
		return false;
	/* Nobody knows it of a pipe. */
	long long packed = (long long)gzoffset(file);
	if (packed > 0)
		snprintf(at, sizeof at, ", at its byte %lld", packed);
	snprintf(sentence, KINETO_SENTENCE_BYTES, "the compressed file ends too early%s, behind byte %llu of its JSON",
		 at, (unsigned long long)before);
	return true;
}

static enum kineto_result read_all(struct parser *parser, yajl_handle handle, gzFile file, int fd,
				   char sentence[KINETO_SENTENCE_BYTES])
{
	static unsigned char chunk[READ_BYTES];
	uint64_t before = 0;
	off_t at = lseek(fd, 0, SEEK_CUR), whole = at < 0 ? -1 : lseek(fd, 0, SEEK_END);
	if (at >= 0)
		lseek(fd, at, SEEK_SET);
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
		if (n == 0 && ends_too_early(file, before, sentence))
			return KINETO_BAD;
		if (n == 0 && !before) {
			snprintf(sentence, KINETO_SENTENCE_BYTES, "it is empty");
			return KINETO_BAD;
		}
		if (!before && foreign_tell(parser->reader->path, chunk, (size_t)n, sentence, KINETO_SENTENCE_BYTES))
			return KINETO_BAD;
		yajl_status status = n ? yajl_parse(handle, chunk, (size_t)n) : yajl_complete_parse(handle);
		if (parser->stopped)
			return KINETO_STOPPED;
		if (parser->texts.no_memory) {
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
	*about = (struct kineto_about){
		.base = -1, .rank = -1, .world_size = -1, .driver = -1, .cupti = -1, .runtime = -1};
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
	if (file)
		gzclose(file);
	if (!file && copy >= 0)
		close(copy);
	free(parser.texts.bytes);
	return result;
}
