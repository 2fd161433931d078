/* capture.c - stream capture: what would be submitted becomes nodes of a graph. Any thread; graph_lock guards captures, which
 * streams and events belong to them, and what their next nodes depend on. Captures are never freed: events may name them. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

struct capture {
	uint64_t id;
	struct CUgraph_st *graph;
	struct CUstream_st *origin;
	struct capture *next;
	int over;
};

static uint64_t capture_ids;
static struct capture *captures;

/* The capture of a stream; NULL: none. graph_lock held. */
static struct capture *capture_of(const struct CUstream_st *stream)
{
	return stream->capture && !stream->capture->over ? stream->capture : NULL;
}

int stream_capturing(struct CUstream_st *stream)
{
	pthread_mutex_lock(&graph_lock);
	int capturing = capture_of(stream) != NULL;
	pthread_mutex_unlock(&graph_lock);
	return capturing;
}

/* Adds nodes to a list, each once. */
static int add_nodes(struct CUgraphNode_st ***list, size_t *count, struct CUgraphNode_st *const *more,
		     size_t more_count)
{
	struct CUgraphNode_st **grown = realloc(*list, (*count + more_count + 1) * sizeof **list);
	if (!grown)
		return -1;
	*list = grown;
	for (size_t i = 0; i < more_count; i++) {
		size_t at = 0;
		while (at < *count && grown[at] != more[i])
			at++;
		if (at == *count)
			grown[(*count)++] = more[i];
	}
	return 0;
}

static CUgraphNodeType type_of(const struct work *work)
{
	switch (work->record.kind) {
	case SIM_KERNEL:
		return CU_GRAPH_NODE_TYPE_KERNEL;
	case SIM_COPY:
	case SIM_PEER_COPY:
		return CU_GRAPH_NODE_TYPE_MEMCPY;
	case SIM_SET:
		return CU_GRAPH_NODE_TYPE_MEMSET;
	default:
		return work->action == ACTION_HOST ? CU_GRAPH_NODE_TYPE_HOST : CU_GRAPH_NODE_TYPE_EMPTY;
	}
}

CUresult capture_add(struct CUstream_st *stream, const struct work *work)
{
	pthread_mutex_lock(&graph_lock);
	struct capture *capture = capture_of(stream);
	CUresult result = CUDA_ERROR_NOT_READY;
	if (capture) {
		struct CUgraphNode_st *node =
			graph_add(capture->graph, type_of(work), work, stream->tail_nodes, stream->tail_count);
		stream->tail_count = 0;
		result = node && !add_nodes(&stream->tail_nodes, &stream->tail_count, &node, 1)
				 ? CUDA_SUCCESS
				 : CUDA_ERROR_OUT_OF_MEMORY;
	}
	pthread_mutex_unlock(&graph_lock);
	return result;
}

CUresult capture_event(struct CUstream_st *stream, struct CUevent_st *event)
{
	pthread_mutex_lock(&graph_lock);
	struct capture *capture = capture_of(stream);
	CUresult result = CUDA_ERROR_NOT_READY;
	event->capture = capture;
	if (capture) {
		event->capture_count = 0;
		result = add_nodes(&event->capture_nodes, &event->capture_count, stream->tail_nodes, stream->tail_count)
				 ? CUDA_ERROR_OUT_OF_MEMORY
				 : CUDA_SUCCESS;
	}
	pthread_mutex_unlock(&graph_lock);
	return result;
}

CUresult capture_wait(struct CUstream_st *stream, struct CUevent_st *event)
{
	pthread_mutex_lock(&graph_lock);
	struct capture *capture = event->capture && !event->capture->over ? event->capture : NULL;
	CUresult result = CUDA_ERROR_NOT_READY;
	if (capture && capture_of(stream) && capture_of(stream) != capture) {
		result = CUDA_ERROR_STREAM_CAPTURE_MERGE;
	} else if (capture) {
		if (!capture_of(stream))
			stream->tail_count = 0;
		stream->capture = capture;
		result = add_nodes(&stream->tail_nodes, &stream->tail_count, event->capture_nodes, event->capture_count)
				 ? CUDA_ERROR_OUT_OF_MEMORY
				 : CUDA_SUCCESS;
	} else if (capture_of(stream)) {
		result = CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
	}
	pthread_mutex_unlock(&graph_lock);
	return result;
}

static CUresult begin(struct CUstream_st *stream)
{
	if (!stream)
		return CUDA_ERROR_INVALID_HANDLE;
	if (stream == stream->context->legacy)
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	struct capture *capture = calloc(1, sizeof *capture);
	struct CUgraph_st *graph = graph_new();
	if (!capture || !graph) {
		free(capture);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	pthread_mutex_lock(&graph_lock);
	CUresult result = CUDA_ERROR_ILLEGAL_STATE;
	if (!capture_of(stream)) {
		*capture = (struct capture){.id = ++capture_ids, .graph = graph, .origin = stream, .next = captures};
		captures = capture;
		stream->capture = capture;
		stream->tail_count = 0;
		result = CUDA_SUCCESS;
	}
	pthread_mutex_unlock(&graph_lock);
	if (result != CUDA_SUCCESS) {
		graph_free(graph);
		free(capture);
	}
	return result;
}

CUresult cuStreamBeginCapture(CUstream stream)
{
	CALL(cuStreamBeginCapture, );
	RETURN(begin(stream_of(&scope, stream)));
}

CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode)
{
	CALL(cuStreamBeginCapture, _v2);
	(void)mode;
	RETURN(begin(stream_of(&scope, stream)));
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph *graph)
{
	CALL(cuStreamEndCapture, );
	struct CUstream_st *stream = stream_of(&scope, handle);
	CHECK(stream, CUDA_ERROR_INVALID_HANDLE);
	pthread_mutex_lock(&graph_lock);
	struct capture *capture = capture_of(stream);
	CUresult result = !capture		      ? CUDA_ERROR_ILLEGAL_STATE
			  : capture->origin != stream ? CUDA_ERROR_STREAM_CAPTURE_UNMATCHED
						      : CUDA_SUCCESS;
	if (result == CUDA_SUCCESS) {
		capture->over = 1;
		*graph = capture->graph;
	}
	pthread_mutex_unlock(&graph_lock);
	RETURN(result);
}

CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus *status)
{
	CALL(cuStreamIsCapturing, );
	struct CUstream_st *stream = stream_of(&scope, handle);
	CHECK(stream, CUDA_ERROR_INVALID_HANDLE);
	*status = stream_capturing(stream) ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
	RETURN(CUDA_SUCCESS);
}

static CUresult capture_info(struct CUstream_st *stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
			     const CUgraphNode **nodes, size_t *count)
{
	if (!stream)
		return CUDA_ERROR_INVALID_HANDLE;
	pthread_mutex_lock(&graph_lock);
	struct capture *capture = capture_of(stream);
	*status = capture ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
	if (capture && id)
		*id = capture->id;
	if (capture && graph)
		*graph = capture->graph;
	if (capture && nodes)
		*nodes = stream->tail_nodes;
	if (capture && count)
		*count = stream->tail_count;
	pthread_mutex_unlock(&graph_lock);
	return CUDA_SUCCESS;
}

CUresult cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id)
{
	CALL(cuStreamGetCaptureInfo, );
	RETURN(capture_info(stream_of(&scope, stream), status, id, NULL, NULL, NULL));
}

CUresult cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
				   const CUgraphNode **nodes, size_t *count)
{
	CALL(cuStreamGetCaptureInfo, _v2);
	RETURN(capture_info(stream_of(&scope, stream), status, id, graph, nodes, count));
}

CUresult cuStreamGetCaptureInfo_v3(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
				   const CUgraphNode **nodes, const CUgraphEdgeData **edges, size_t *count)
{
	CALL(cuStreamGetCaptureInfo, _v3);
	if (edges)
		*edges = NULL;
	RETURN(capture_info(stream_of(&scope, stream), status, id, graph, nodes, count));
}

static CUresult update_dependencies(struct CUstream_st *stream, CUgraphNode *nodes, size_t count, unsigned flags)
{
	if (!stream)
		return CUDA_ERROR_INVALID_HANDLE;
	pthread_mutex_lock(&graph_lock);
	CUresult result = CUDA_ERROR_ILLEGAL_STATE;
	if (capture_of(stream)) {
		if (flags & CU_STREAM_SET_CAPTURE_DEPENDENCIES)
			stream->tail_count = 0;
		result = add_nodes(&stream->tail_nodes, &stream->tail_count, nodes, count) ? CUDA_ERROR_OUT_OF_MEMORY
											   : CUDA_SUCCESS;
	}
	pthread_mutex_unlock(&graph_lock);
	return result;
}

CUresult cuStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode *nodes, size_t count, unsigned int flags)
{
	CALL(cuStreamUpdateCaptureDependencies, );
	RETURN(update_dependencies(stream_of(&scope, stream), nodes, count, flags));
}

CUresult cuStreamUpdateCaptureDependencies_v2(CUstream stream, CUgraphNode *nodes, const CUgraphEdgeData *edges,
					      size_t count, unsigned int flags)
{
	CALL(cuStreamUpdateCaptureDependencies, _v2);
	(void)edges;
	RETURN(update_dependencies(stream_of(&scope, stream), nodes, count, flags));
}

/* The modes differ only in what they forbid. */
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
	static __thread CUstreamCaptureMode own = CU_STREAM_CAPTURE_MODE_GLOBAL;
	CALL(cuThreadExchangeStreamCaptureMode, );
	CUstreamCaptureMode before = own;
	own = *mode;
	*mode = before;
	RETURN(CUDA_SUCCESS);
}
