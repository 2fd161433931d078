/* collective.c - records what torch tells about a collective operation. While NCCL's or UCC's process group calls one,
 * an object of the class torch::ParamCommsDebugInfo lies in a thread-local slot. torch's callback reads it by offsets:
 * any thread, no locks, no allocation.
 *
 * The mangled name of the class's constructor tells the members' types. Their offsets are proved: the constructor makes
 * an object of known values, and each must be read back. An object in the slot is read only if it has the same
 * vtable. */
#include "internal.h"

#define KIND_NUMBER 4 /* c10::DebugInfoKind::PARAM_COMMS_INFO, where it is a number */
#define OBJECT_BYTES 512
#define NOT_WRITTEN 0x5a
/* Longer texts are not real names; sink_string cuts texts earlier. */
#define TEXT_MOST (1u << 20)
#define NUMBERS_MOST (1u << 20)
/* A longer list is cut to this many numbers. */
#define NUMBERS_TOLD 30
#define NUMBER_BYTES 24 /* with the separator */

static const char *const dtypes[] = {
#define DTYPE(type, word) word,
#include "../../proto/dtypes.def"
};
#define DTYPES (sizeof dtypes / sizeof *dtypes)

/* What each form of the constructor tells about the class (torch_symbols.comms). */
static const struct form {
	uint32_t text_bytes;	/* of std::string; 8 = the one before C++11 */
	uint32_t element_bytes; /* of a number of elements */
	uint32_t has_tail;	/* members after the ranks */
} forms[TORCH_COMMS_FORMS] = {{32, 8, 1}, {32, 8, 0}, {32, 4, 0}, {8, 8, 0}, {8, 4, 0}};

/* C++ passes a value that has a destructor by its address. A constructor with fewer arguments does not look at the last
 * ones, which are on the stack. */
typedef void make_info(void *self, void *names, int32_t rank, void *name, int64_t in, int64_t out, int32_t dtype,
		       void *in_splits, void *out_splits, int32_t start, int32_t stride, int32_t size,
		       int32_t asynchronous);

static struct form form;

/* Byte offsets into the object, once they are proved. */
static struct {
	const void *vtable; /* NULL: nothing is recorded */
	uint32_t description, group, rank, size, name, in, out, dtype, in_splits, out_splits, start, ranks;
	uint32_t asynchronous, sequence, is_single; /* 0: there is none */
} at;

/* ---------------------------------------------------------------- where it lies */

/* A std::string, in either form. The older form is the address of its text; length, capacity and count of owners lie
 * before the text. */
union text {
	struct {
		const char *text;
		uint64_t bytes;
		char local[16];
	} newer;
	const char *older;
};
struct older_text {
	uint64_t bytes, capacity;
	int32_t owners, padding;
	char text[16];
};

/* A text of at most 15 bytes, so that it is not allocated. */
static void make_text(union text *to, struct older_text *older, const char *text)
{
	size_t bytes = strlen(text);
	if (form.text_bytes == sizeof to->newer) {
		to->newer.text = memcpy(to->newer.local, text, bytes + 1);
		to->newer.bytes = bytes;
		return;
	}
	/* So many owners that nobody frees the text. */
	*older = (struct older_text){.bytes = bytes, .capacity = bytes, .owners = 1000};
	to->older = memcpy(older->text, text, bytes + 1);
}

/* Has the object this text at the offset? The text is read only if its address is the expected one. */
static int has_text(const char *object, uint32_t offset, const struct older_text *older, const char *text)
{
	const char *there = TORCH_AT(const char *, object, offset);
	if (form.text_bytes == sizeof(char *))
		return there == older->text;
	return there == object + offset + 16 && TORCH_AT(uint64_t, object, offset + 8) == strlen(text) &&
	       !strcmp(there, text);
}

/* std::vector<int64_t> */
struct numbers {
	const int64_t *first, *end, *end_of_room;
};

static int64_t elements(const void *object, uint32_t offset)
{
	return form.element_bytes == 4 ? TORCH_AT(int32_t, object, offset) : TORCH_AT(int64_t, object, offset);
}

/* The members' offsets if there are no other members. libstdc++ stores a tuple's last element first. */
static void place(void)
{
	uint32_t text = form.text_bytes, element = form.element_bytes;
	at.description = sizeof(void *);
	at.group = at.description + text;
	at.rank = at.group + text;
	at.size = at.rank + 4;
	at.name = at.size + 4;
	at.in = at.name + text;
	at.out = at.in + element;
	at.dtype = at.out + element;
	at.in_splits = at.dtype + 8;
	at.out_splits = at.in_splits + sizeof(struct numbers);
	at.start = at.out_splits + sizeof(struct numbers);
	at.ranks = at.start + 8; /* after the stride */
}

#define PROBE_RANK 314159
#define PROBE_SIZE 271828
#define PROBE_IN 1618033988
#define PROBE_OUT 1414213562
#define PROBE_DTYPE 15
#define PROBE_START 577215
#define PROBE_STRIDE                                                                                                   \
	(-662607) /* not above 0, so that the constructor does not list the members of the group, and allocates
		   * nothing */

/* Lists whose memory passes to the object; the object is never destroyed. */
static const int64_t probe_splits[3];
static const struct numbers probe_in = {probe_splits, probe_splits + 1, probe_splits + 1},
			    probe_out = {probe_splits + 1, probe_splits + 3, probe_splits + 3}, no_numbers;

static int is_proved(const char *object, const struct older_text *older)
{
	return has_text(object, at.description, older, "description") &&
	       has_text(object, at.group, older + 1, "group") && has_text(object, at.name, older + 2, "name") &&
	       TORCH_AT(int32_t, object, at.rank) == PROBE_RANK && TORCH_AT(int32_t, object, at.size) == PROBE_SIZE &&
	       elements(object, at.in) == PROBE_IN && elements(object, at.out) == PROBE_OUT &&
	       TORCH_AT(uint8_t, object, at.dtype) == PROBE_DTYPE &&
	       !memcmp(object + at.in_splits, &probe_in, sizeof probe_in) &&
	       !memcmp(object + at.out_splits, &probe_out, sizeof probe_out) &&
	       TORCH_AT(int32_t, object, at.start) == PROBE_START &&
	       TORCH_AT(int32_t, object, at.start + 4) == PROBE_STRIDE &&
	       !memcmp(object + at.ranks, &no_numbers, sizeof no_numbers);
}

/* After the ranks comes whether the operation is asynchronous. Newer releases, which the constructor's name does not
 * show, add the sequence number (-1: not given) and whether the operation is point to point. */
static void place_tail(const char *object)
{
	uint32_t tail = at.ranks + sizeof(struct numbers);
	if (!form.has_tail || TORCH_AT(uint8_t, object, tail) != 1)
		return;
	at.asynchronous = tail;
	if (TORCH_AT(int64_t, object, tail + 8) == -1 && TORCH_AT(uint8_t, object, tail + 16) == 0) {
		at.sequence = tail + 8;
		at.is_single = tail + 16;
	}
}

static make_info *constructor(void)
{
	make_info *make = NULL;
	for (uint32_t i = 0; i < TORCH_COMMS_FORMS && !make; i++) {
		form = forms[i];
		memcpy(&make, &torch_symbols.comms[i], sizeof make);
	}
	return make;
}

void torch_collective_prove(void)
{
	/* The object is never destroyed. */
	static _Alignas(16) char object[OBJECT_BYTES];
	static struct older_text older[3];
	_Alignas(union text) char names[2 * sizeof(union text)];
	union text name;
	struct numbers in = probe_in, out = probe_out;
	make_info *make = constructor();
	if (!make || !torch_symbols.debug_info)
		return;
	memset(object, NOT_WRITTEN, sizeof object);
	place();
	make_text((union text *)(void *)names, &older[0], "description");
	make_text((union text *)(void *)(names + form.text_bytes), &older[1], "group");
	make_text(&name, &older[2], "name");
	make(object, names, PROBE_RANK, &name, PROBE_IN, PROBE_OUT, PROBE_DTYPE, &in, &out, PROBE_START, PROBE_STRIDE,
	     PROBE_SIZE, 1);
	if (!is_proved(object, older))
		return;
	place_tail(object);
	at.vtable = TORCH_AT(const void *, object, 0);
}

/* ---------------------------------------------------------------- what it says */

static uint32_t put_text(struct sink_thread *thread, const char *text, uint64_t bytes)
{
	return bytes && bytes < TEXT_MOST ? sink_string(thread, text, bytes, EVENT_COLLECTIVE) : 0;
}

static const char *text_at(const void *object, uint32_t offset, uint64_t *ret_bytes)
{
	const char *text = TORCH_AT(const char *, object, offset);
	*ret_bytes = form.text_bytes == sizeof(char *) ? TORCH_AT(uint64_t, text, -24)
						       : TORCH_AT(uint64_t, object, offset + 8);
	return text;
}

static uint32_t put_text_at(struct sink_thread *thread, const void *object, uint32_t offset)
{
	uint64_t bytes;
	const char *text = text_at(object, offset, &bytes);
	return put_text(thread, text, bytes);
}

static char *put_number(char *to, int64_t value)
{
	char digits[NUMBER_BYTES];
	uint32_t n = 0;
	uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
	do
		digits[n++] = (char)('0' + rest % 10);
	while (rest /= 10);
	if (value < 0)
		*to++ = '-';
	while (n)
		*to++ = digits[--n];
	return to;
}

/* The caller has made sure that there is room. */
static char *put_part(char *to, const char *part)
{
	size_t bytes = strlen(part);
	return (char *)memcpy(to, part, bytes) + bytes;
}

/* "[0, 1]": JSON, as Kineto writes short lists. */
static uint32_t put_numbers(struct sink_thread *thread, const int64_t *numbers, size_t count)
{
	char text[(NUMBERS_TOLD + 1) * NUMBER_BYTES], *to = put_part(text, "[");
	for (size_t i = 0; i < count && i < NUMBERS_TOLD; i++)
		to = put_number(i ? put_part(to, ", ") : to, numbers[i]);
	to = put_part(to, "]");
	return put_text(thread, text, (size_t)(to - text));
}

/* How many numbers the list has; NUMBERS_MOST where it is no valid list. */
static size_t numbers_at(const void *object, uint32_t offset, const int64_t **ret_first)
{
	const struct numbers *list = (const void *)((const char *)object + offset);
	uintptr_t bytes = (uintptr_t)list->end - (uintptr_t)list->first;
	*ret_first = list->first;
	return bytes % sizeof **ret_first == 0 && bytes / sizeof **ret_first < NUMBERS_MOST ? bytes / sizeof **ret_first
											    : NUMBERS_MOST;
}

static uint32_t put_numbers_at(struct sink_thread *thread, const void *object, uint32_t offset)
{
	const int64_t *first;
	size_t count = numbers_at(object, offset, &first);
	return count < NUMBERS_MOST ? put_numbers(thread, first, count) : 0;
}

static int is(const char *text, uint64_t bytes, const char *word)
{
	return bytes == strlen(word) && !memcmp(text, word, bytes);
}

/* 0 where it is no operation (only the wait for one), or its values are impossible. */
static int describe(struct sink_thread *thread, const void *object, struct event_collective *record)
{
	const int64_t *first;
	uint64_t bytes;
	size_t ranks = numbers_at(object, at.ranks, &first);
	int64_t in = elements(object, at.in), out = elements(object, at.out);
	int32_t rank = TORCH_AT(int32_t, object, at.rank), size = TORCH_AT(int32_t, object, at.size);
	uint8_t dtype = TORCH_AT(uint8_t, object, at.dtype);
	const char *name = text_at(object, at.name, &bytes);
	if (is(name, bytes, "wait") || in < 0 || out < 0 || rank < 0 || size < 0 || (ranks && ranks != (size_t)size))
		return 0;
	*record = (struct event_collective){
		.in_elements = (uint64_t)in,
		.out_elements = (uint64_t)out,
		.sequence = at.sequence ? TORCH_AT(int64_t, object, at.sequence) : -1,
		.name = put_text(thread, name, bytes),
		.group_name = put_text_at(thread, object, at.group),
		.description = put_text_at(thread, object, at.description),
		.ranks = ranks ? put_numbers(thread, first, ranks) : 0,
		.dtype = dtype < DTYPES ? put_text(thread, dtypes[dtype], strlen(dtypes[dtype])) : 0,
		.group_size = (uint32_t)size,
		.rank = (uint32_t)rank,
		.in_split = put_numbers_at(thread, object, at.in_splits),
		.out_split = put_numbers_at(thread, object, at.out_splits),
	};
	if (at.asynchronous)
		record->asynchronous = TORCH_AT(uint8_t, object, at.asynchronous) ? COLLECTIVE_IS_ASYNCHRONOUS
										  : COLLECTIVE_IS_WAITED_FOR;
	record->point_to_point = record->sequence >= 0 ? TORCH_AT(uint8_t, object, at.is_single) & 1
						       : is(name, bytes, "send") || is(name, bytes, "recv");
	return 1;
}

void torch_collective(struct sink_thread *thread, struct sink_frame *frame)
{
	struct event_collective record;
	uintptr_t kind = torch_symbols.comms_kind ? *torch_symbols.comms_kind : KIND_NUMBER;
	const void *object = at.vtable ? torch_symbols.debug_info(kind) : NULL;
	int is_known = object && TORCH_AT(const void *, object, 0) == at.vtable && describe(thread, object, &record);
	uint64_t now = sink_stamp();
	if (frame)
		frame->start = now;
	if (!is_known)
		return;
	record.head = (struct event_head){sizeof record, EVENT_COLLECTIVE, 0, frame ? frame->step : sink_step()};
	record.time = now;
	record.operator= frame ? frame->id : 0;
	sink_write(thread, &record);
}
