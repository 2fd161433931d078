"""Runs in a Python that has HolisticTraceAnalysis: hta_answers.py TRACE RANK prints what it says of the trace, as JSON. It is
told not to round times to microseconds, and to take the last step too."""
import collections
import json
import os
import sys
import warnings

os.environ["HTA_DISABLE_NS_ROUNDING"] = "1"
warnings.simplefilter("ignore")

from hta.trace_analysis import TraceAnalysis  # noqa: E402

path, rank = sys.argv[1], int(sys.argv[2])
analysis = TraceAnalysis(trace_files={rank: path}, include_last_profiler_step=True)


def rows(frame):
    return json.loads(frame.reset_index().to_json(orient="records"))


idle, _ = analysis.get_idle_time_breakdown(ranks=[rank], visualize=False)
kinds, kernels = analysis.get_gpu_kernel_breakdown(visualize=False, num_kernels=1000, duration_ratio=1.0,
                                                   include_memory_kernels=True)
queue = analysis.get_queue_length_summary(ranks=[rank])
queue.columns = [column[-1] for column in queue.columns]
answers = {
    "idle": rows(idle),
    "kinds": rows(kinds),
    "kernels": rows(kernels),
    "temporal": rows(analysis.get_temporal_breakdown(visualize=False)),
    "launches": rows(analysis.get_cuda_kernel_launch_stats(ranks=[rank], visualize=False)[rank]),
    "queue": rows(queue),
}
if len(sys.argv) > 3:
    graph, found = analysis.critical_path_analysis(rank=rank, annotation=sys.argv[3], instance_id=0)
    edges = collections.Counter(data["object"].type.name for _, _, data in graph.edges(data=True))
    answers["critical"] = {"found": bool(found), "edges": edges}
print(json.dumps(answers))
