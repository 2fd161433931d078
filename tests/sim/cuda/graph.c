/* graph.c - CUDA graphs: made node by node or by capture, instantiated into a list of work in an order that keeps every edge,
 * and launched: each node is an operation of the launching stream, one after another, under the launch's one correlation id.
 *
 * Any thread; graph_lock guards graphs and executable graphs. Nodes and graphs are freed with cuGraphDestroy. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

pthread_mutex_t graph_lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t graph_ids, executable_ids;

/* An instantiated graph: what is to be done, in order; `source` is the node that it was made from. */
struct CUgraphExec_st {
	uint32_t id;
	struct step {
		const struct CUgraphNode_st *source;
		struct work work;
	} * steps;
	size_t count;
};

struct CUgraph_st *graph_new(void)
{
	struct CUgraph_st *graph = calloc(1, sizeof *graph);
	if (graph) {
		graph->id = __atomic_add_fetch(&graph_ids, 1, __ATOMIC_RELAXED);
		graph->last = &graph->first;
	}
	return graph;
}

void graph_free(struct CUgraph_st *graph)
{
	for (struct CUgraphNode_st *node = graph->first, *next; node; node = next) {
		next = node->next;
		if (node->child)
			graph_free(node->child);
		free(node->dependencies);
		free(node);
	}
	free(graph);
}

struct CUgraphNode_st *graph_add(struct CUgraph_st *graph, CUgraphNodeType type, const struct work *work,
				 struct CUgraphNode_st *const *dependencies, size_t count)
{
	struct CUgraphNode_st *node = calloc(1, sizeof *node);
	if (!node)
		return NULL;
	if (count && !(node->dependencies = malloc(count * sizeof *node->dependencies))) {
		free(node);
		return NULL;
	}
	if (count)
		memcpy(node->dependencies, dependencies, count * sizeof *node->dependencies);
	node->dependency_count = count;
	node->type = type;
	if (work)
		node->work = *work;
	node->graph = graph;
	node->id = graph->count++;
	*graph->last = node;
	graph->last = &node->next;
	return node;
}

/* The nodes in an order that keeps every edge, as an array for the caller to free; NULL: a circle, or out of memory. */
static struct CUgraphNode_st **in_order(struct CUgraph_st *graph)
{
	struct CUgraphNode_st **order = malloc((graph->count + 1) * sizeof *order);
	size_t placed = 0, before;
	if (!order)
		return NULL;
	for (struct CUgraphNode_st *node = graph->first; node; node = node->next)
		node->placed = 0;
	do {
		before = placed;
		for (struct CUgraphNode_st *node = graph->first; node; node = node->next) {
			size_t ready = 0;
			while (ready < node->dependency_count && node->dependencies[ready]->placed)
				ready++;
			if (!node->placed && ready == node->dependency_count) {
				node->placed = 1;
				order[placed++] = node;
			}
		}
	} while (placed > before);
	if (placed == graph->count)
		return order;
	free(order);
	return NULL;
}

/* A copy of a graph, edges and children too; NULL: out of memory or a circle. graph_lock held. */
static struct CUgraph_st *graph_clone(struct CUgraph_st *graph)
{
	struct CUgraph_st *copy = graph_new();
	struct CUgraphNode_st **order = in_order(graph);
	for (size_t i = 0; copy && order && i < graph->count; i++) {
		struct CUgraphNode_st *from = order[i];
		struct CUgraphNode_st *to =
			graph_add(copy, from->type, &from->work, from->dependencies, from->dependency_count);
		if (!to)
			break;
		to->parameters = from->parameters;
		to->child = from->child ? graph_clone(from->child) : NULL;
		from->copied = to;
		for (size_t d = 0; d < to->dependency_count; d++)
			to->dependencies[d] = to->dependencies[d]->copied;
	}
	int whole = copy && order && copy->count == graph->count;
	free(order);
	if (whole)
		return copy;
	if (copy)
		graph_free(copy);
	return NULL;
}

/* ---- making graphs */

CUresult cuGraphCreate(CUgraph *graph, unsigned int flags)
{
	CALL(cuGraphCreate, );
	CHECK(graph && !flags, CUDA_ERROR_INVALID_VALUE);
	*graph = graph_new();
	RETURN(*graph ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

CUresult cuGraphDestroy(CUgraph graph)
{
	CALL(cuGraphDestroy, );
	CHECK(graph, CUDA_ERROR_INVALID_VALUE);
	pthread_mutex_lock(&graph_lock);
	graph_free(graph);
	pthread_mutex_unlock(&graph_lock);
	RETURN(CUDA_SUCCESS);
}

CUresult cuGraphClone(CUgraph *copy, CUgraph graph)
{
	CALL(cuGraphClone, );
	CHECK(copy && graph, CUDA_ERROR_INVALID_VALUE);
	pthread_mutex_lock(&graph_lock);
	*copy = graph_clone(graph);
	pthread_mutex_unlock(&graph_lock);
	RETURN(*copy ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

static struct CUgraphNode_st *add(struct CUgraph_st *graph, CUgraphNodeType type, const struct work *work,
				  const CUgraphNode *dependencies, size_t count)
{
	pthread_mutex_lock(&graph_lock);
	struct CUgraphNode_st *node = graph_add(graph, type, work, dependencies, count);
	pthread_mutex_unlock(&graph_lock);
	return node;
}

static CUresult node_work(struct work *work, const CUDA_KERNEL_NODE_PARAMS *parameters)
{
	unsigned grid[3] = {parameters->gridDimX, parameters->gridDimY, parameters->gridDimZ};
	unsigned block[3] = {parameters->blockDimX, parameters->blockDimY, parameters->blockDimZ};
	CUfunction function = parameters->func ? parameters->func : (CUfunction)parameters->kern;
	return kernel_work(work, function, grid, block, parameters->sharedMemBytes, parameters->kernelParams,
			   parameters->extra);
}

/* The parameters of before 12.0, in the words of after. */
static CUDA_KERNEL_NODE_PARAMS newer(const CUDA_KERNEL_NODE_PARAMS_v1 *p)
{
	return (CUDA_KERNEL_NODE_PARAMS){.func = p->func,
					 .gridDimX = p->gridDimX,
					 .gridDimY = p->gridDimY,
					 .gridDimZ = p->gridDimZ,
					 .blockDimX = p->blockDimX,
					 .blockDimY = p->blockDimY,
					 .blockDimZ = p->blockDimZ,
					 .sharedMemBytes = p->sharedMemBytes,
					 .kernelParams = p->kernelParams,
					 .extra = p->extra};
}

static CUresult add_kernel(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count,
			   const CUDA_KERNEL_NODE_PARAMS *parameters)
{
	struct work work;
	CUresult result = node_work(&work, parameters);
	if (result != CUDA_SUCCESS)
		return result;
	*node = add(graph, CU_GRAPH_NODE_TYPE_KERNEL, &work, dependencies, count);
	if (!*node)
		return CUDA_ERROR_OUT_OF_MEMORY;
	(*node)->parameters.kernel = *parameters;
	return CUDA_SUCCESS;
}

CUresult cuGraphAddKernelNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count,
			      const CUDA_KERNEL_NODE_PARAMS_v1 *parameters)
{
	CALL(cuGraphAddKernelNode, );
	CHECK(node && graph && parameters, CUDA_ERROR_INVALID_VALUE);
	CUDA_KERNEL_NODE_PARAMS all = newer(parameters);
	RETURN(add_kernel(node, graph, dependencies, count, &all));
}

CUresult cuGraphAddKernelNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count,
				 const CUDA_KERNEL_NODE_PARAMS *parameters)
{
	CALL(cuGraphAddKernelNode, _v2);
	CHECK(node && graph && parameters, CUDA_ERROR_INVALID_VALUE);
	RETURN(add_kernel(node, graph, dependencies, count, parameters));
}

CUresult cuGraphAddMemcpyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count,
			      const CUDA_MEMCPY3D *parameters, CUcontext context)
{
	CALL(cuGraphAddMemcpyNode, );
	(void)context;
	struct work work;
	CHECK(node && graph && parameters, CUDA_ERROR_INVALID_VALUE);
	CUresult result = copy_work(&work, parameters, 1);
	if (result == CUDA_SUCCESS) {
		*node = add(graph, CU_GRAPH_NODE_TYPE_MEMCPY, &work, dependencies, count);
		CHECK(*node, CUDA_ERROR_OUT_OF_MEMORY);
		(*node)->parameters.copy = *parameters;
	}
	RETURN(result);
}

CUresult cuGraphAddMemsetNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count,
			      const CUDA_MEMSET_NODE_PARAMS *parameters, CUcontext context)
{
	CALL(cuGraphAddMemsetNode, );
	(void)context;
	struct work work;
	CHECK(node && graph && parameters, CUDA_ERROR_INVALID_VALUE);
	set_work(&work, parameters->dst, parameters->pitch, parameters->value, parameters->elementSize,
		 parameters->width, parameters->height, 1);
	CHECK(work.record.target_kind != MEMORY_PAGEABLE, CUDA_ERROR_INVALID_VALUE);
	*node = add(graph, CU_GRAPH_NODE_TYPE_MEMSET, &work, dependencies, count);
	CHECK(*node, CUDA_ERROR_OUT_OF_MEMORY);
	(*node)->parameters.set = *parameters;
	RETURN(CUDA_SUCCESS);
}

CUresult cuGraphAddHostNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count,
			    const CUDA_HOST_NODE_PARAMS *parameters)
{
	CALL(cuGraphAddHostNode, );
	CHECK(node && graph && parameters && parameters->fn, CUDA_ERROR_INVALID_VALUE);
	struct work work = {.action = ACTION_HOST, .host = {.function = parameters->fn, .data = parameters->userData}};
	*node = add(graph, CU_GRAPH_NODE_TYPE_HOST, &work, dependencies, count);
	CHECK(*node, CUDA_ERROR_OUT_OF_MEMORY);
	(*node)->parameters.host = *parameters;
	RETURN(CUDA_SUCCESS);
}

CUresult cuGraphAddEmptyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count)
{
	CALL(cuGraphAddEmptyNode, );
	CHECK(node && graph, CUDA_ERROR_INVALID_VALUE);
	*node = add(graph, CU_GRAPH_NODE_TYPE_EMPTY, NULL, dependencies, count);
	RETURN(*node ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

CUresult cuGraphAddEventRecordNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count,
				   CUevent event)
{
	CALL(cuGraphAddEventRecordNode, );
	CHECK(node && graph && event, CUDA_ERROR_INVALID_VALUE);
	struct work work = {.record = {.kind = SIM_EVENT, .event = event->id}, .event = event};
	*node = add(graph, CU_GRAPH_NODE_TYPE_EVENT_RECORD, &work, dependencies, count);
	RETURN(*node ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

CUresult cuGraphAddEventWaitNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count,
				 CUevent event)
{
	CALL(cuGraphAddEventWaitNode, );
	CHECK(node && graph && event, CUDA_ERROR_INVALID_VALUE);
	struct work work = {.after = event};
	*node = add(graph, CU_GRAPH_NODE_TYPE_WAIT_EVENT, &work, dependencies, count);
	RETURN(*node ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

CUresult cuGraphAddChildGraphNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count,
				  CUgraph child)
{
	CALL(cuGraphAddChildGraphNode, );
	CHECK(node && graph && child && child != graph, CUDA_ERROR_INVALID_VALUE);
	pthread_mutex_lock(&graph_lock);
	struct CUgraph_st *copy = graph_clone(child);
	*node = copy ? graph_add(graph, CU_GRAPH_NODE_TYPE_GRAPH, NULL, dependencies, count) : NULL;
	if (*node)
		(*node)->child = copy;
	else if (copy)
		graph_free(copy);
	pthread_mutex_unlock(&graph_lock);
	RETURN(*node ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

static CUresult add_edges(const CUgraphNode *from, const CUgraphNode *to, size_t count)
{
	CUresult result = CUDA_SUCCESS;
	pthread_mutex_lock(&graph_lock);
	for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++) {
		struct CUgraphNode_st **grown =
			realloc(to[i]->dependencies, (to[i]->dependency_count + 1) * sizeof *to[i]->dependencies);
		if (grown) {
			to[i]->dependencies = grown;
			grown[to[i]->dependency_count++] = from[i];
		} else {
			result = CUDA_ERROR_OUT_OF_MEMORY;
		}
	}
	pthread_mutex_unlock(&graph_lock);
	return result;
}

CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count)
{
	CALL(cuGraphAddDependencies, );
	CHECK(graph, CUDA_ERROR_INVALID_VALUE);
	RETURN(add_edges(from, to, count));
}

CUresult cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
				   const CUgraphEdgeData *edges, size_t count)
{
	CALL(cuGraphAddDependencies, _v2);
	(void)edges;
	CHECK(graph, CUDA_ERROR_INVALID_VALUE);
	RETURN(add_edges(from, to, count));
}

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count)
{
	CALL(cuGraphGetNodes, );
	CHECK(graph && count, CUDA_ERROR_INVALID_VALUE);
	size_t n = 0, room = *count;
	pthread_mutex_lock(&graph_lock);
	for (struct CUgraphNode_st *node = graph->first; node; node = node->next, n++)
		if (nodes && n < room)
			nodes[n] = node;
	pthread_mutex_unlock(&graph_lock);
	*count = nodes && n > room ? room : n;
	RETURN(CUDA_SUCCESS);
}

CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type)
{
	CALL(cuGraphNodeGetType, );
	CHECK(node && type, CUDA_ERROR_INVALID_VALUE);
	*type = node->type;
	RETURN(CUDA_SUCCESS);
}

/* Those without dependencies. */
CUresult cuGraphGetRootNodes(CUgraph graph, CUgraphNode *nodes, size_t *count)
{
	CALL(cuGraphGetRootNodes, );
	CHECK(graph && count, CUDA_ERROR_INVALID_VALUE);
	size_t n = 0, room = *count;
	pthread_mutex_lock(&graph_lock);
	for (struct CUgraphNode_st *node = graph->first; node; node = node->next)
		if (!node->dependency_count) {
			if (nodes && n < room)
				nodes[n] = node;
			n++;
		}
	pthread_mutex_unlock(&graph_lock);
	*count = nodes && n > room ? room : n;
	RETURN(CUDA_SUCCESS);
}

static void get_dependencies(const struct CUgraphNode_st *node, CUgraphNode *dependencies, size_t *count)
{
	pthread_mutex_lock(&graph_lock);
	size_t n = node->dependency_count;
	for (size_t i = 0; dependencies && i < n && i < *count; i++)
		dependencies[i] = node->dependencies[i];
	if (!dependencies || n < *count)
		*count = n;
	pthread_mutex_unlock(&graph_lock);
}

CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *dependencies, size_t *count)
{
	CALL(cuGraphNodeGetDependencies, );
	CHECK(node && count, CUDA_ERROR_INVALID_VALUE);
	get_dependencies(node, dependencies, count);
	RETURN(CUDA_SUCCESS);
}

CUresult cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode *dependencies, CUgraphEdgeData *edges,
				       size_t *count)
{
	CALL(cuGraphNodeGetDependencies, _v2);
	CHECK(node && count, CUDA_ERROR_INVALID_VALUE);
	get_dependencies(node, dependencies, count);
	if (edges && dependencies)
		memset(edges, 0, *count * sizeof *edges);
	RETURN(CUDA_SUCCESS);
}

CUresult cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v1 *parameters)
{
	CALL(cuGraphKernelNodeGetParams, );
	CHECK(node && node->type == CU_GRAPH_NODE_TYPE_KERNEL, CUDA_ERROR_INVALID_VALUE);
	memcpy(parameters, &node->parameters.kernel, sizeof *parameters); /* the newer one begins as the older one is */
	RETURN(CUDA_SUCCESS);
}

CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *parameters)
{
	CALL(cuGraphKernelNodeGetParams, _v2);
	CHECK(node && node->type == CU_GRAPH_NODE_TYPE_KERNEL, CUDA_ERROR_INVALID_VALUE);
	*parameters = node->parameters.kernel;
	RETURN(CUDA_SUCCESS);
}

/* ---- executable graphs */

/* How many steps a graph has, children's included. */
static size_t step_count(const struct CUgraph_st *graph)
{
	size_t n = 0;
	for (const struct CUgraphNode_st *node = graph->first; node; node = node->next)
		n += node->child ? step_count(node->child) : 1;
	return n;
}

static int fill_steps(struct CUgraphExec_st *executable, struct CUgraph_st *graph)
{
	struct CUgraphNode_st **order = in_order(graph);
	if (!order)
		return -1;
	int error = 0;
	for (size_t i = 0; i < graph->count && !error; i++) {
		if (order[i]->child) {
			error = fill_steps(executable, order[i]->child);
			continue;
		}
		struct step *step = &executable->steps[executable->count++];
		step->source = order[i];
		step->work = order[i]->work;
		step->work.record.graph = executable->id;
		step->work.record.graph_node = (uint64_t)executable->id << 32 | executable->count;
	}
	free(order);
	return error;
}

/* No lock held. */
static void tell(const struct CUgraphExec_st *executable)
{
	const struct sim_observer *who = observer();
	if (who && who->graph)
		who->graph(executable->id);
}

static CUresult instantiate(CUgraphExec *result, CUgraph graph)
{
	if (!result || !graph)
		return CUDA_ERROR_INVALID_VALUE;
	struct CUgraphExec_st *executable = calloc(1, sizeof *executable);
	if (!executable)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_lock(&graph_lock);
	executable->id = ++executable_ids;
	executable->steps = calloc(step_count(graph) + 1, sizeof *executable->steps);
	int error = !executable->steps || fill_steps(executable, graph);
	pthread_mutex_unlock(&graph_lock);
	if (error) {
		free(executable->steps);
		free(executable);
		return CUDA_ERROR_INVALID_VALUE;
	}
	*result = executable;
	tell(executable);
	return CUDA_SUCCESS;
}

CUresult cuGraphInstantiate(CUgraphExec *executable, CUgraph graph, CUgraphNode *bad, char *log, size_t size)
{
	CALL(cuGraphInstantiate, );
	(void)bad, (void)log, (void)size;
	RETURN(instantiate(executable, graph));
}

CUresult cuGraphInstantiate_v2(CUgraphExec *executable, CUgraph graph, CUgraphNode *bad, char *log, size_t size)
{
	CALL(cuGraphInstantiate, _v2);
	(void)bad, (void)log, (void)size;
	RETURN(instantiate(executable, graph));
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *executable, CUgraph graph, unsigned long long flags)
{
	CALL(cuGraphInstantiateWithFlags, );
	(void)flags;
	RETURN(instantiate(executable, graph));
}

CUresult cuGraphInstantiateWithParams(CUgraphExec *executable, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *parameters)
{
	CALL(cuGraphInstantiateWithParams, );
	CUresult result = instantiate(executable, graph);
	parameters->result_out = result == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS : CUDA_GRAPH_INSTANTIATE_ERROR;
	RETURN(result);
}

CUresult cuGraphExecDestroy(CUgraphExec executable)
{
	CALL(cuGraphExecDestroy, );
	CHECK(executable, CUDA_ERROR_INVALID_VALUE);
	free(executable->steps);
	free(executable);
	RETURN(CUDA_SUCCESS);
}

CUresult cuGraphUpload(CUgraphExec executable, CUstream stream)
{
	CALL(cuGraphUpload, );
	CHECK(executable && stream_of(&scope, stream), CUDA_ERROR_INVALID_VALUE);
	RETURN(CUDA_SUCCESS);
}

/* The driver copies inside of the device by a kernel of its own, and then there is no copy. */
static void copy_by_kernel(struct work *work)
{
	if (work->record.kind != SIM_COPY || work->record.copy_kind != COPY_DTOD ||
	    !script_number("graph_copy_kernel", 0))
		return;
	work->record = (struct sim_operation){.kind = SIM_KERNEL,
					      .name = "memcpy32_post",
					      .grid = {1, 1, 1},
					      .block = {1, 1, 1},
					      .registers = FUNCTION_REGISTERS,
					      .asynchronous = 1,
					      .graph = work->record.graph,
					      .graph_node = work->record.graph_node,
					      .graph_launch = work->record.graph_launch};
}

CUresult cuGraphLaunch(CUgraphExec executable, CUstream handle)
{
	CALL(cuGraphLaunch, );
	CONTEXT(context);
	(void)context;
	struct CUstream_st *stream = stream_of(&scope, handle);
	CHECK(executable && stream, CUDA_ERROR_INVALID_HANDLE);
	CHECK(!stream_capturing(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	CHECK(!count_launch(), CUDA_ERROR_LAUNCH_FAILED);
	uint64_t launch = next_id();
	CUresult result = CUDA_SUCCESS;
	for (size_t i = 0; i < executable->count && result == CUDA_SUCCESS; i++) {
		struct work work = executable->steps[i].work;
		work.record.graph_launch = launch;
		copy_by_kernel(&work);
		result = submit_node(&scope, stream, &work);
	}
	RETURN(result);
}

static CUresult set_kernel(CUgraphExec executable, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *parameters)
{
	struct work work;
	CUresult result = node_work(&work, parameters);
	for (size_t i = 0; i < executable->count && result == CUDA_SUCCESS; i++)
		if (executable->steps[i].source == node) {
			work.record.graph = executable->id;
			work.record.graph_node = executable->steps[i].work.record.graph_node;
			executable->steps[i].work = work;
			return CUDA_SUCCESS;
		}
	return result == CUDA_SUCCESS ? CUDA_ERROR_INVALID_VALUE : result;
}

CUresult cuGraphExecKernelNodeSetParams(CUgraphExec executable, CUgraphNode node,
					const CUDA_KERNEL_NODE_PARAMS_v1 *parameters)
{
	CALL(cuGraphExecKernelNodeSetParams, );
	CHECK(executable && node && parameters, CUDA_ERROR_INVALID_VALUE);
	CUDA_KERNEL_NODE_PARAMS all = newer(parameters);
	RETURN(set_kernel(executable, node, &all));
}

CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec executable, CUgraphNode node,
					   const CUDA_KERNEL_NODE_PARAMS *parameters)
{
	CALL(cuGraphExecKernelNodeSetParams, _v2);
	CHECK(executable && node && parameters, CUDA_ERROR_INVALID_VALUE);
	RETURN(set_kernel(executable, node, parameters));
}

/* Takes the work of another graph of the same shape: as many steps, of the same kinds, in the same order. */
static CUresult update(CUgraphExec executable, CUgraph graph)
{
	struct CUgraphExec_st other = {.id = executable->id};
	pthread_mutex_lock(&graph_lock);
	other.steps = calloc(step_count(graph) + 1, sizeof *other.steps);
	int error = !other.steps || fill_steps(&other, graph) || other.count != executable->count;
	for (size_t i = 0; !error && i < other.count; i++)
		error = other.steps[i].work.record.kind != executable->steps[i].work.record.kind;
	if (!error) {
		struct step *before = executable->steps;
		executable->steps = other.steps;
		other.steps = before;
	}
	pthread_mutex_unlock(&graph_lock);
	free(other.steps);
	return error ? CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE : CUDA_SUCCESS;
}

CUresult cuGraphExecUpdate(CUgraphExec executable, CUgraph graph, CUgraphNode *bad, CUgraphExecUpdateResult *why)
{
	CALL(cuGraphExecUpdate, );
	CHECK(executable && graph, CUDA_ERROR_INVALID_VALUE);
	CUresult result = update(executable, graph);
	if (bad)
		*bad = NULL;
	if (why)
		*why = result == CUDA_SUCCESS ? CU_GRAPH_EXEC_UPDATE_SUCCESS
					      : CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
	RETURN(result);
}

CUresult cuGraphExecUpdate_v2(CUgraphExec executable, CUgraph graph, CUgraphExecUpdateResultInfo *info)
{
	CALL(cuGraphExecUpdate, _v2);
	CHECK(executable && graph && info, CUDA_ERROR_INVALID_VALUE);
	CUresult result = update(executable, graph);
	memset(info, 0, sizeof *info);
	info->result =
		result == CUDA_SUCCESS ? CU_GRAPH_EXEC_UPDATE_SUCCESS : CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
	RETURN(result);
}
