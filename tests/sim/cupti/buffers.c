/* buffers.c - the clients' buffers: requested in the thread whose record does not fit any more, filled, and handed out by one
 * worker thread when full and complete, or by a flush. Everything with sim_lock held; it is let go of around callbacks. */
#include "simcupti.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

pthread_mutex_t sim_lock = PTHREAD_MUTEX_INITIALIZER;
struct client sim_clients[CLIENTS_MAX];

static struct {
	struct buffer *first, **last; /* finished, in the order in which they became so */
	uint64_t finished, given;     /* how many ever */
	pthread_cond_t changed;
	bool running;
} queue = {.last = &queue.first};
static pthread_once_t queue_once = PTHREAD_ONCE_INIT;
struct thread *sim_threads;
static _Thread_local struct thread *self;

struct thread *sim_thread(void)
{
	if (!self) {
		self = calloc(1, sizeof *self);
		if (!self)
			abort();
		self->next = sim_threads;
		sim_threads = self;
	}
	return self;
}

unsigned client_number(const struct client *client)
{
	return (unsigned)(client - sim_clients);
}

static void queue_init(void)
{
	pthread_condattr_t attribute;
	pthread_condattr_init(&attribute);
	pthread_condattr_setclock(&attribute, CLOCK_MONOTONIC);
	pthread_cond_init(&queue.changed, &attribute);
	pthread_condattr_destroy(&attribute);
}

/* Until something changed or `until` (CLOCK_MONOTONIC ns; 0 = for ever). */
static void queue_wait(uint64_t until)
{
	struct timespec time = {.tv_sec = (time_t)(until / 1000000000u), .tv_nsec = (long)(until % 1000000000u)};
	if (until)
		pthread_cond_timedwait(&queue.changed, &sim_lock, &time);
	else
		pthread_cond_wait(&queue.changed, &sim_lock);
}

/* Takes the next buffer that is due off the queue; else NULL, and when the next one is in *due (0: there is none). */
static struct buffer *queue_take(uint64_t *due)
{
	uint64_t now = sim_monotonic();
	size_t ready = 0;
	*due = 0;
	for (struct buffer *b = queue.first; b; b = b->next) {
		if (b->due <= now)
			ready++;
		else if (!*due || b->due < *due)
			*due = b->due;
	}
	if (!ready)
		return NULL;
	size_t wanted = script_value("shuffle") ? trouble_random(ready) : 0;
	for (struct buffer **link = &queue.first; *link; link = &(*link)->next) {
		struct buffer *b = *link;
		if (b->due > now || wanted-- > 0)
			continue;
		*link = b->next;
		if (queue.last == &b->next)
			queue.last = link;
		return b;
	}
	return NULL;
}

/* Gives the buffer to the client; sim_lock is let go of meanwhile. */
static void queue_give(struct buffer *buffer)
{
	pthread_mutex_unlock(&sim_lock);
	buffer_give(buffer);
	pthread_mutex_lock(&sim_lock);
	queue.given++;
	pthread_cond_broadcast(&queue.changed);
}

static void *worker(void *unused)
{
	(void)unused;
	pthread_setname_np(pthread_self(), "simcupti");
	pthread_mutex_lock(&sim_lock);
	for (;;) {
		uint64_t due;
		struct buffer *buffer = queue_take(&due);
		if (buffer)
			queue_give(buffer);
		else
			queue_wait(due);
	}
	return NULL;
}

static void worker_start(void)
{
	if (queue.running)
		return;
	pthread_once(&queue_once, queue_init);
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pthread_t thread;
	if (pthread_create(&thread, NULL, worker, NULL) == 0) {
		pthread_detach(thread);
		queue.running = true;
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* No thread writes into it any more. */
static void buffer_close(struct buffer *buffer)
{
	struct client *client = buffer->client;
	unsigned number = client_number(client);
	buffer->closed = true;
	if (client->shared == buffer)
		client->shared = NULL;
	if (client->spare == buffer)
		client->spare = NULL;
	if (buffer->owner && buffer->owner->current[number] == buffer)
		buffer->owner->current[number] = NULL;
}

static void buffer_queue(struct buffer *buffer)
{
	for (struct buffer **link = &buffer->client->buffers; *link; link = &(*link)->next)
		if (*link == buffer) {
			*link = buffer->next;
			break;
		}
	buffer->next = NULL;
	buffer->due = sim_monotonic() + script_time("late", 0);
	*queue.last = buffer;
	queue.last = &buffer->next;
	queue.finished++;
	pthread_cond_broadcast(&queue.changed);
}

static void place_remove(struct place *place)
{
	*place->link = place->next;
	if (place->next)
		place->next->link = place->link;
	place->buffer = NULL;
}

void buffer_give(struct buffer *buffer)
{
	struct client *client = buffer->client;
	struct buffer foreign = {.data = NULL};
	pthread_mutex_lock(&sim_lock);
	struct thread *thread = sim_thread();
	trouble_replace(client);
	trouble_shuffle(buffer);
	trouble_dump(buffer);
	if (every("foreign"))
		trouble_foreign(&foreign, client);
	CUpti_BuffersCallbackCompleteFunc completed = client->completed;
#ifdef HAS_cuptiActivityRegisterCallbacks_v2
	CUpti_BuffersCallbackCompleteFunc_v2 completed_v2 = client->completed_v2;
#endif
	thread->in_callback++;
	pthread_mutex_unlock(&sim_lock);
	if (foreign.data && completed)
		completed(NULL, 0, foreign.data, foreign.size, foreign.used);
#ifdef HAS_cuptiActivityRegisterCallbacks_v2
	if (completed_v2) {
		CUpti_BufferCallbackCompleteInfo info = {.structSize = sizeof info, .threadId = buffer->thread_id};
		completed_v2(buffer->data, buffer->size, buffer->used, &info);
	} else
#endif
		if (completed)
		completed(NULL, 0, buffer->data, buffer->size, buffer->used);
	pthread_mutex_lock(&sim_lock);
	thread->in_callback--;
	pthread_mutex_unlock(&sim_lock);
	free(buffer);
}

/* What a client has to keep of the contract on buffers. */
static void check_buffer(const uint8_t *data, size_t size, bool zeroed)
{
	sim_forbid((uintptr_t)data % 8 != 0, "a buffer that is not aligned to 8 bytes");
	for (const struct client *c = sim_clients; c < sim_clients + CLIENTS_MAX; c++)
		for (const struct buffer *b = c->buffers; b; b = b->next)
			sim_forbid(data < b->data + b->size && b->data < data + size,
				   "a buffer that CUPTI has already");
	for (const struct buffer *b = queue.first; b; b = b->next)
		sim_forbid(data < b->data + b->size && b->data < data + size, "a buffer that CUPTI has yet");
	/* All bytes are equal to their neighbours, and the first one is 0: quick, for it is a launching thread that waits. */
	sim_forbid(zeroed && size && (data[0] != 0 || memcmp(data, data + 1, size - 1) != 0),
		   "a buffer with something in it, in spite of ZEROED_OUT_ACTIVITY_BUFFER");
}

/* Asks the client for a buffer; NULL where it has none, or is not to be asked. sim_lock is let go of. */
static struct buffer *request(struct client *client, struct thread *thread)
{
	trouble_replace(client);
	CUpti_BuffersCallbackRequestFunc requested = client->requested;
#ifdef HAS_cuptiActivityRegisterCallbacks_v2
	CUpti_BuffersCallbackRequestFunc_v2 requested_v2 = client->requested_v2;
	if (!requested && !requested_v2)
		return NULL;
#else
	if (!requested)
		return NULL;
#endif
	if (every("dropped"))
		return NULL;
	uint8_t *data = NULL;
	size_t size = 0, records_max = 0;
	thread->in_callback++;
	pthread_mutex_unlock(&sim_lock);
#ifdef HAS_cuptiActivityRegisterCallbacks_v2
	if (requested_v2) {
		CUpti_BufferCallbackRequestInfo info = {.structSize = sizeof info};
		requested_v2(&data, &size, &records_max, &info);
	} else
#endif
		requested(&data, &size, &records_max);
	pthread_mutex_lock(&sim_lock);
	thread->in_callback--;
	if (!data || !size) {
		if (script_value("refuse_crash"))
			raise(SIGSEGV);
		return NULL;
	}
	bool zeroed = client->attributes[CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER] != 0;
	check_buffer(data, size, zeroed);
	if (!zeroed)
		memset(data, 0, size);
	struct buffer *buffer = calloc(1, sizeof *buffer);
	if (!buffer)
		abort();
	buffer->client = client;
	buffer->data = data;
	buffer->size = size;
	buffer->records_max = records_max;
	buffer->next = client->buffers;
	client->buffers = buffer;
	worker_start();
	return buffer;
}

static bool fits(const struct buffer *buffer, size_t size)
{
	return buffer && !buffer->closed && buffer->used + size <= buffer->size &&
	       (!buffer->records_max || buffer->records < buffer->records_max);
}

static bool per_thread(const struct client *client)
{
#ifdef HAS_CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER
	return client->attributes[CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER] != 0;
#else
	(void)client;
	return false;
#endif
}

static void append(struct buffer *buffer, const uint8_t *record, size_t size)
{
	memcpy(buffer->data + buffer->used, record, size);
	buffer->used += size;
	buffer->records++;
}

/* The buffer that the calling thread writes to, with room for `size` bytes; NULL: there is none. */
static struct buffer *buffer_for(struct client *client, struct thread *thread, size_t size)
{
	bool own = per_thread(client);
	struct buffer **current = own ? &thread->current[client_number(client)] : &client->shared;
	if (fits(*current, size))
		return *current;
	if (*current) {
		struct buffer *full = *current;
		buffer_close(full);
		if (!full->places)
			buffer_queue(full);
	}
	if (fits(client->spare, size)) {
		*current = client->spare;
		client->spare = NULL;
		return *current;
	}
	uint64_t start = sim_monotonic();
	struct buffer *fresh = request(client, thread);
	if (!fresh)
		return NULL;
	if (!fits(fresh, size)) {
		buffer_close(fresh);
		buffer_queue(fresh);
		return NULL;
	}
	fresh->thread_id = (uint64_t)pthread_self();
	if (fits(*current, size)) { /* another thread was faster */
		if (client->spare)
			buffer_close(client->spare);
		client->spare = fresh;
		return *current;
	}
	*current = fresh;
	fresh->owner = own ? thread : NULL;
	uint8_t overhead[RECORD_MAX];
	if (client_wants(client, CUPTI_ACTIVITY_KIND_OVERHEAD, 0)) {
		record_overhead(overhead, client, start, sim_monotonic());
		size_t more = sim_record_size(CUPTI_ACTIVITY_KIND_OVERHEAD);
		if (fits(fresh, size + more))
			append(fresh, overhead, more);
	}
	return fresh;
}

/* As incomplete, or no longer. */
static void mark(const struct place *place, bool incomplete)
{
	enum { KIND_MARK_SHIFT = 31 };
	uint32_t kind;
	memcpy(&kind, place->buffer->data + place->offset, sizeof kind);
	kind = (kind & ~(1u << KIND_MARK_SHIFT)) | (uint32_t)incomplete << KIND_MARK_SHIFT;
	memcpy(place->buffer->data + place->offset, &kind, sizeof kind);
}

bool buffer_put(struct client *client, uint8_t *record, struct place *place)
{
	struct thread *thread = sim_thread();
	uint8_t unknown[RECORD_MAX];
	if (trouble_unknown(unknown)) {
		size_t more = sim_record_size(((CUpti_Activity *)unknown)->kind);
		if (!more)
			more = 32; /* the walk through the buffer ends here */
		struct buffer *buffer = buffer_for(client, thread, more);
		if (buffer)
			append(buffer, unknown, more);
	}
	size_t size = sim_record_size(((CUpti_Activity *)record)->kind);
	struct buffer *buffer = buffer_for(client, thread, size);
	if (!buffer) {
		client->dropped++;
		return false;
	}
	if (place) {
		place->buffer = buffer;
		place->offset = buffer->used;
		place->next = buffer->places;
		place->link = &buffer->places;
		if (place->next)
			place->next->link = &place->next;
		buffer->places = place;
	}
	append(buffer, record, size);
	if (place)
		mark(place, seen_marked());
	return true;
}

void place_finish(struct place *place, const uint8_t *record)
{
	struct buffer *buffer = place->buffer;
	memcpy(buffer->data + place->offset, record, sim_record_size(((const CUpti_Activity *)record)->kind));
	place_remove(place);
	if (buffer->closed && !buffer->places)
		buffer_queue(buffer);
}

/* What has not finished yet keeps its record as it is: without an end, and with a start if it has begun; where incomplete records
 * are marked, without. */
static void truncate_places(struct buffer *buffer)
{
	while (buffer->places) {
		struct place *place = buffer->places;
		mark(place, false);
		uint64_t begun = place->operation && !seen_marked() ? operation_begun(place->operation) : 0;
		if (begun) {
			uint8_t record[RECORD_MAX];
			uint32_t kind = record_operation(record, buffer->client, place->operation, begun, 0);
			memcpy(buffer->data + place->offset, record, sim_record_size(kind));
		}
		place_remove(place);
	}
}

void buffers_flush(bool forced)
{
	for (struct client *c = sim_clients; c < sim_clients + CLIENTS_MAX; c++)
		for (struct buffer *b = c->buffers, *next; b; b = next) {
			next = b->next;
			if (!forced && (b->places || b->used == 0))
				continue;
			truncate_places(b);
			buffer_close(b);
			buffer_queue(b);
		}
	const char *who = script_value("deliver");
	uint64_t target = queue.finished, due;
	if (who && strcmp(who, "caller") == 0)
		for (struct buffer *b; (b = queue_take(&due));)
			queue_give(b);
	if (!script_value("late"))
		while (queue.given < target)
			queue_wait(0);
}

void buffers_forget(struct client *client)
{
	while (client->buffers) {
		struct buffer *buffer = client->buffers;
		while (buffer->places)
			place_remove(buffer->places);
		buffer_close(buffer);
		client->buffers = buffer->next;
		free(buffer);
	}
}

void client_reset(struct client *client)
{
	unsigned number = client_number(client);
	buffers_forget(client);
	for (struct thread *t = sim_threads; t; t = t->next)
		memset(t->external[number], 0, sizeof t->external[number]);
	memset(client, 0, sizeof *client);
	client->attributes[CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE] = 3200000;
	client->attributes[CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_POOL_LIMIT] = 250;
	client->attributes[CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_PRE_ALLOCATE_VALUE] = 3;
#ifdef HAS_CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER
	client->attributes[CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER] = 1;
#endif
	client->thread_id_type = CUPTI_ACTIVITY_THREAD_ID_TYPE_DEFAULT;
}
