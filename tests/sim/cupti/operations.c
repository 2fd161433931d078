/* operations.c - what the driver tells becomes records: calls when they end, operations when they are launched (incomplete, in the
 * launching thread's buffer) and again when they have finished. In the program's threads and the driver's; sim_lock guards all. */
#include "simcupti.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BUCKETS = 4096, BYTES_OF_DEVICE_RECORD = 32 };

/* One launch of a graph while GRAPH_TRACE hides its nodes. */
struct graph {
	struct graph *next;
	uint64_t key;
	struct sim_operation operation; /* its first node */
	struct thread *thread;
	unsigned outstanding;
	bool sealed; /* no more nodes are to come */
	uint64_t start, end;
	struct place places[CLIENTS_MAX];
};

struct pending {
	struct pending *next;
	struct sim_operation operation;
	struct graph *graph;
	uint64_t call_start; /* of the call that launched it, 0 = not known */
	bool busy;	     /* still being put into buffers */
	bool finished;
	bool untimed; /* the device's buffers were full */
	struct place places[CLIENTS_MAX];
};

static struct pending *pendings[BUCKETS];
static uint64_t outstanding;
static struct graph *graphs;
/* In operations_dump: for whom the driver tells what exists. */
static _Thread_local struct client *dumped_client;
static _Thread_local uint32_t dumped_kind;

static bool anyone(void)
{
	for (const struct client *c = sim_clients; c < sim_clients + CLIENTS_MAX; c++)
		if (c->live)
			return true;
	return false;
}

static bool of_device(const struct sim_operation *operation)
{
	return operation->kind >= SIM_KERNEL && operation->kind <= SIM_SET;
}

static struct pending **pending_link(uint64_t id)
{
	struct pending **link = &pendings[id % BUCKETS];
	while (*link && (*link)->operation.id != id)
		link = &(*link)->next;
	return link;
}

uint64_t operation_begun(const struct sim_operation *operation)
{
	if (!of_device(operation))
		return 0;
	if (operation->start)
		return operation->start <= sim_monotonic() ? operation->start : 0;
	for (size_t i = 0; i < BUCKETS; i++)
		for (const struct pending *p = pendings[i]; p; p = p->next)
			if (of_device(&p->operation) && p->operation.context == operation->context &&
			    p->operation.stream == operation->stream && p->operation.id < operation->id && !p->finished)
				return 0;
	return operation->submitted;
}

static void graph_finish(struct graph *graph)
{
	uint8_t record[RECORD_MAX];
	for (unsigned i = 0; i < CLIENTS_MAX; i++) {
		if (!graph->places[i].buffer)
			continue;
		record_graph(record, &graph->operation, graph->start, graph->end);
		place_finish(&graph->places[i], record);
	}
	for (struct graph **link = &graphs; *link; link = &(*link)->next)
		if (*link == graph) {
			*link = graph->next;
			break;
		}
	free(graph);
}

/* The launch that the node belongs to; made where it is the first. */
static struct graph *graph_of(const struct sim_operation *operation, struct thread *thread)
{
	uint64_t key = operation->graph_launch ? operation->graph_launch : (uint64_t)operation->correlation << 32;
	for (struct graph *g = graphs; g; g = g->next)
		if (g->key == key)
			return g;
	struct graph *graph = calloc(1, sizeof *graph);
	if (!graph)
		abort();
	graph->key = key;
	graph->operation = *operation;
	graph->thread = thread;
	graph->sealed = thread->depth == 0;
	graph->next = graphs;
	graphs = graph;
	return graph;
}

static void seal_graphs(const struct thread *thread, uint32_t correlation)
{
	for (struct graph *g = graphs, *next; g; g = next) {
		next = g->next;
		if (g->thread != thread || g->operation.correlation != correlation)
			continue;
		g->sealed = true;
		if (!g->outstanding)
			graph_finish(g);
	}
}

/* Writes its final record wherever it has a place, and forgets the operation. */
static void pending_finish(struct pending *pending)
{
	struct sim_operation *o = &pending->operation;
	uint8_t record[RECORD_MAX];
	uint64_t start = o->start, end = o->end;
	if (pending->untimed)
		start = end = 0;
	else if (o->kind == SIM_KERNEL && pending->call_start && every("early"))
		start = pending->call_start - script_time("early_by", 5000);
	for (unsigned i = 0; i < CLIENTS_MAX; i++) {
		if (!pending->places[i].buffer)
			continue;
		uint32_t kind = record_operation(record, &sim_clients[i], o, start, end);
		trouble_record(record, kind);
		place_finish(&pending->places[i], record);
	}
	struct graph *graph = pending->graph;
	if (graph) {
		if (!graph->start || o->start < graph->start)
			graph->start = o->start;
		if (o->end > graph->end)
			graph->end = o->end;
		if (--graph->outstanding == 0 && graph->sealed)
			graph_finish(graph);
	}
	*pending_link(o->id) = pending->next;
	if (of_device(o))
		outstanding--;
	free(pending);
}

/* A node of a graph that the client sees as a whole. */
static void put_graph(struct client *client, struct pending *pending, struct thread *thread)
{
	uint8_t record[RECORD_MAX];
	if (!pending->graph) {
		pending->graph = graph_of(&pending->operation, thread);
		pending->graph->outstanding++;
	}
	struct graph *graph = pending->graph;
	unsigned i = client_number(client);
	if (graph->places[i].buffer || graph->operation.id != pending->operation.id)
		return;
	record_graph(record, &graph->operation, 0, 0);
	buffer_put(client, record, &graph->places[i]);
}

static bool in_graph_trace(const struct client *client, const struct sim_operation *operation)
{
	return operation->graph && of_device(operation) &&
	       client_wants(client, CUPTI_ACTIVITY_KIND_GRAPH_TRACE, operation->context);
}

static bool device_full(void)
{
	uint64_t most = UINT64_MAX;
	for (const struct client *c = sim_clients; c < sim_clients + CLIENTS_MAX; c++) {
		uint64_t room = (uint64_t)c->attributes[CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE] /
				BYTES_OF_DEVICE_RECORD * c->attributes[CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_POOL_LIMIT];
		if (c->live && room < most)
			most = room;
	}
	return outstanding > script_number("device_records", most);
}

static void submitted(const struct sim_operation *operation)
{
	pthread_mutex_lock(&sim_lock);
	struct thread *thread = sim_thread();
	if (!anyone()) {
		pthread_mutex_unlock(&sim_lock);
		return;
	}
	struct pending *pending = calloc(1, sizeof *pending);
	if (!pending)
		abort();
	pending->operation = *operation;
	pending->busy = true;
	for (unsigned i = 0; i < thread->depth && i < CALL_DEPTH; i++)
		if (!pending->call_start && thread->calls[i].correlation == operation->correlation)
			pending->call_start = thread->calls[i].start;
	struct pending **bucket = &pendings[operation->id % BUCKETS];
	pending->next = *bucket;
	*bucket = pending;
	if (of_device(operation)) {
		outstanding++;
		pending->untimed = device_full();
	}
	uint8_t record[RECORD_MAX];
	for (struct client *c = sim_clients; c < sim_clients + CLIENTS_MAX; c++) {
		uint32_t kind = operation_kind(c, operation);
		if (!c->live)
			continue;
		if (in_graph_trace(c, operation)) {
			seen_graph_launched(operation);
			put_graph(c, pending, thread);
		} else if (operation->kind != SIM_SYNC && client_wants(c, kind, operation->context) &&
			   !seen_silent(thread, operation)) {
			struct place *place = &pending->places[client_number(c)];
			place->operation = &pending->operation;
			record_operation(record, c, operation, 0, 0);
			buffer_put(c, record, operation->kind == SIM_EVENT && !c->event_times ? NULL : place);
		}
	}
	pending->busy = false;
	if (pending->finished)
		pending_finish(pending);
	pthread_mutex_unlock(&sim_lock);
}

static void finished(const struct sim_operation *operation)
{
	uint8_t record[RECORD_MAX];
	pthread_mutex_lock(&sim_lock);
	struct pending *pending = *pending_link(operation->id);
	if (operation->kind == SIM_SYNC) {
		for (struct client *c = sim_clients; c < sim_clients + CLIENTS_MAX; c++)
			if (client_wants(c, CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, operation->context)) {
				record_operation(record, c, operation, operation->start, operation->end);
				buffer_put(c, record, NULL);
			}
		pending = *pending_link(operation->id);
	}
	if (pending) {
		pending->operation = *operation;
		pending->finished = true;
		if (!pending->busy)
			pending_finish(pending);
	}
	pthread_mutex_unlock(&sim_lock);
}

static void call_begin(const struct sim_call *call)
{
	seen_launch(call->name);
	pthread_mutex_lock(&sim_lock);
	struct thread *thread = sim_thread();
	sim_forbid(thread->in_callback > 0, "a CUDA call in a callback for buffers");
	seen_enter(thread, call);
	unsigned depth = thread->depth++;
	if (depth < CALL_DEPTH) {
		uint32_t id = sim_callback_id(call->domain, call->symbol ? call->symbol : call->name, call->name);
		thread->calls[depth].correlation = call->correlation;
		thread->calls[depth].callback = id;
		thread->calls[depth].start = call->start;
		thread->calls[depth].wanted = 0;
		for (struct client *c = sim_clients; c < sim_clients + CLIENTS_MAX; c++)
			if (id && id < CALLBACKS_MAX && c->callbacks[call->domain][id / 64] >> id % 64 & 1)
				thread->calls[depth].wanted |= 1u << client_number(c);
		if (id)
			subscribers_call(thread, depth, call, CUPTI_API_ENTER);
	}
	pthread_mutex_unlock(&sim_lock);
}

static void put_call(struct client *client, struct thread *thread, const struct sim_call *call, uint32_t id)
{
	uint8_t record[RECORD_MAX];
	if (client_wants(client, CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, 0))
		for (uint32_t kind = 1; kind < EXTERNAL_KINDS_MAX; kind++) {
			unsigned depth = thread->external[client_number(client)][kind].depth;
			if (!depth)
				continue;
			record_external(record, kind, thread->external[client_number(client)][kind].ids[depth - 1],
					call->correlation);
			buffer_put(client, record, NULL);
		}
	record_call(record, client, call, id);
	buffer_put(client, record, NULL);
}

static void call_end(const struct sim_call *call)
{
	pthread_mutex_lock(&sim_lock);
	struct thread *thread = sim_thread();
	if (thread->depth == 0) { /* we were told of nothing as it began */
		pthread_mutex_unlock(&sim_lock);
		return;
	}
	seen_leave(thread, call);
	unsigned depth = thread->depth - 1;
	if (depth < CALL_DEPTH && thread->calls[depth].callback) {
		uint32_t id = thread->calls[depth].callback;
		if (thread->calls[depth].wanted && !every("lose_api"))
			for (struct client *c = sim_clients; c < sim_clients + CLIENTS_MAX; c++)
				if (thread->calls[depth].wanted >> client_number(c) & 1 &&
				    c->callbacks[call->domain][id / 64] >> id % 64 & 1)
					put_call(c, thread, call, id);
		subscribers_call(thread, depth, call, CUPTI_API_EXIT);
	}
	thread->depth = depth;
	seal_graphs(thread, call->correlation);
	pthread_mutex_unlock(&sim_lock);
}

static void memory(const struct sim_memory *event)
{
	uint8_t record[RECORD_MAX];
	pthread_mutex_lock(&sim_lock);
	for (struct client *c = sim_clients; c < sim_clients + CLIENTS_MAX; c++) {
		if (event->pooled && client_wants(c, CUPTI_ACTIVITY_KIND_MEMORY_POOL, event->context)) {
			unsigned i = 0;
			while (i < 64 && c->pools[i] && c->pools[i] != event->pool)
				i++;
			if (i < 64 && !c->pools[i]) {
				c->pools[i] = event->pool;
				record_pool(record, event, (uint32_t)getpid());
				buffer_put(c, record, NULL);
			}
		}
		if (client_wants(c, CUPTI_ACTIVITY_KIND_MEMORY2, event->context)) {
			record_memory(record, event, (uint32_t)getpid());
			buffer_put(c, record, NULL);
		}
	}
	pthread_mutex_unlock(&sim_lock);
}

/* A record about a thing that came to be, or that exists while the driver tells what does. */
static void put_thing(const uint8_t *made, uint32_t kind, uint32_t context)
{
	uint8_t record[RECORD_MAX];
	pthread_mutex_lock(&sim_lock);
	for (struct client *c = sim_clients; c < sim_clients + CLIENTS_MAX; c++)
		if (dumped_client ? dumped_client == c && dumped_kind == kind : client_wants(c, kind, context)) {
			memcpy(record, made, sizeof record);
			buffer_put(c, record, NULL);
		}
	pthread_mutex_unlock(&sim_lock);
}

static void context(const struct sim_context *context, int created)
{
	uint8_t record[RECORD_MAX];
	if (created)
		put_thing(record, record_context(record, context), context->id);
}

static void stream(const struct sim_stream *stream, int created)
{
	uint8_t record[RECORD_MAX];
	if (created)
		put_thing(record, record_stream(record, stream), stream->context);
}

static void module(const struct sim_module *module, int loaded)
{
	uint8_t record[RECORD_MAX];
	if (loaded)
		put_thing(record, record_module(record, module), module->context);
}

static void device(const struct sim_device *device)
{
	uint8_t record[RECORD_MAX];
	put_thing(record, record_device(record, device), 0);
}

static void graph(uint32_t id)
{
	pthread_mutex_lock(&sim_lock);
	seen_graph_made(id);
	pthread_mutex_unlock(&sim_lock);
}

static void exiting(void)
{
	sim_driver_gone();
}

const struct sim_observer sim_observer = {
	.call_begin = call_begin,
	.call_end = call_end,
	.submitted = submitted,
	.finished = finished,
	.memory = memory,
	.context = context,
	.stream = stream,
	.module = module,
	.exiting = exiting,
	.graph = graph,
};

void operations_dump(struct client *client, uint32_t kind)
{
	simcuda_dump_fn *dump = sim_dump_function();
	if (!dump)
		return;
	dumped_client = client;
	dumped_kind = kind;
	pthread_mutex_unlock(&sim_lock);
	dump(device);
	/* Streams of a program that makes very many. */
	for (uint32_t n = (uint32_t)script_number("streams", 0); n > 0 && kind == CUPTI_ACTIVITY_KIND_STREAM; n--)
		stream(&(struct sim_stream){.id = 100000 + n, .context = 1}, 1);
	pthread_mutex_lock(&sim_lock);
	dumped_client = NULL;
}

void operations_forget(void)
{
	for (size_t i = 0; i < BUCKETS; i++)
		for (struct pending *p = pendings[i], *next; p; p = next) {
			next = p->next;
			if (p->busy)
				continue;
			*pending_link(p->operation.id) = next;
			if (of_device(&p->operation))
				outstanding--;
			if (p->graph && --p->graph->outstanding == 0 && p->graph->sealed)
				graph_finish(p->graph);
			free(p);
		}
}
