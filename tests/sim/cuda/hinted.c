/* hinted.c - operations whose times the test program has said (simcuda_hint): one thread finishes each once its end has come,
 * whatever its stream is busy with. A heap by end; hinted_lock guards it, and is never held with work_lock. */
#include "internal.h"

#include <stdio.h>
#include <stdlib.h>

static pthread_mutex_t hinted_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct operation **heap;
static size_t count, room;

static uint64_t end_of(size_t i)
{
	return heap[i]->work.record.end;
}

static void swap(size_t a, size_t b)
{
	struct operation *other = heap[a];
	heap[a] = heap[b];
	heap[b] = other;
}

static void push(struct operation *operation)
{
	size_t i = count++;
	heap[i] = operation;
	for (; i && end_of(i) < end_of((i - 1) / 2); i = (i - 1) / 2)
		swap(i, (i - 1) / 2);
}

static struct operation *pop(void)
{
	struct operation *first = heap[0];
	heap[0] = heap[--count];
	for (size_t i = 0;;) {
		size_t least = i, left = 2 * i + 1, right = left + 1;
		if (left < count && end_of(left) < end_of(least))
			least = left;
		if (right < count && end_of(right) < end_of(least))
			least = right;
		if (least == i)
			return first;
		swap(i, least);
		i = least;
	}
}

static void finish(struct operation *operation)
{
	struct CUstream_st *stream = operation->stream;
	operation_act(operation);
	operation_report(operation);
	pthread_mutex_lock(&work_lock);
	stream->hinted_pending--;
	pthread_cond_broadcast(&stream->done);
	pthread_mutex_unlock(&work_lock);
	free(operation);
}

static void *hinted_main(void *unused)
{
	device_thread_named();
	pthread_mutex_lock(&hinted_lock);
	for (;;) {
		if (!count) {
			pthread_cond_wait(&changed, &hinted_lock);
			continue;
		}
		uint64_t end = end_of(0);
		if (end > now()) {
			struct timespec until = {(time_t)(end / 1000000000u), (long)(end % 1000000000u)};
			pthread_cond_timedwait(&changed, &hinted_lock, &until);
			continue;
		}
		struct operation *operation = pop();
		pthread_mutex_unlock(&hinted_lock);
		finish(operation);
		pthread_mutex_lock(&hinted_lock);
	}
	return unused;
}

static void start(void)
{
	pthread_condattr_t attributes;
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&changed, &attributes);
	pthread_condattr_destroy(&attributes);
	if (device_thread(hinted_main, NULL)) {
		fprintf(stderr, "simcuda: no thread can be started\n");
		abort();
	}
}

void hinted_submit(struct operation *operation)
{
	struct CUstream_st *stream = operation->stream;
	uint64_t end = operation->work.record.end;
	pthread_once(&once, start);
	pthread_mutex_lock(&work_lock);
	stream->hinted_pending++;
	if (end > stream->hinted_latest)
		stream->hinted_latest = end;
	pthread_mutex_unlock(&work_lock);
	pthread_mutex_lock(&hinted_lock);
	if (count == room) {
		size_t wanted = room ? 2 * room : 1024;
		struct operation **grown = realloc(heap, wanted * sizeof *heap);
		if (!grown)
			abort();
		heap = grown;
		room = wanted;
	}
	push(operation);
	if (heap[0] == operation)
		pthread_cond_signal(&changed);
	pthread_mutex_unlock(&hinted_lock);
}
