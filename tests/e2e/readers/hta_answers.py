"""Runs in a Python that has HolisticTraceAnalysis: hta_answers.py TRACE RANK prints what it says of the trace, as JSON. It is
told not to round times to microseconds, and to take the last step too."""
import collections
import json
import os
import sys
import warnings

os.environ["HTA_DISABLE_NS_ROUNDING"] = "1"
warnings.simplefilter("ignore")

from hta.common.trace_parser import parse_trace_dataframe  # noqa: E402
from hta.configs.event_args_yaml_parser import YamlVersion, parse_event_args_yaml  # noqa: E402
from hta.configs.parser_config import ParserConfig  # noqa: E402
from hta.trace_analysis import TraceAnalysis  # noqa: E402

# What it knows of collective operations; names of groups are numbers in traces of torch 2.3.
COLLECTIVE = ("collective_name", "in_msg_nelems", "out_msg_nelems", "group_size", "in_split_size", "out_split_size", "process_group_ranks")

path, rank = sys.argv[1], int(sys.argv[2])
analysis = TraceAnalysis(trace_files={rank: path}, include_last_profiler_step=True)


def rows(frame):
    return json.loads(frame.reset_index().to_json(orient="records"))


def collectives(path):
    """[[its values..., how often]] of record_param_comms and kernels."""
    known = parse_event_args_yaml(YamlVersion(1, 0, 0)).AVAILABLE_ARGS
    _, frame, *_ = parse_trace_dataframe(path, ParserConfig(ParserConfig.get_minimum_args() + [known[name] for name in known if name.startswith("nccl::")]))
    columns = [name for name in COLLECTIVE if name in frame.columns]
    if "in_msg_nelems" not in columns:
        return []
    told = collections.Counter(tuple(map(str, row)) for row in frame[frame["in_msg_nelems"] > 0][columns].itertuples(index=False))
    return sorted([*row, count] for row, count in told.items())


idle, _ = analysis.get_idle_time_breakdown(ranks=[rank], visualize=False)
kinds, kernels = analysis.get_gpu_kernel_breakdown(visualize=False, num_kernels=1000, duration_ratio=1.0,
                                                   include_memory_kernels=True)
# Of a trace without communication it would divide by nothing.
communicates = "COMMUNICATION" in set(kinds["kernel_type"])
overlap = rows(analysis.get_comm_comp_overlap(visualize=False)) if communicates else []
queue = analysis.get_queue_length_summary(ranks=[rank])
queue.columns = [column[-1] for column in queue.columns]
answers = {
    "idle": rows(idle),
    "kinds": rows(kinds),
    "kernels": rows(kernels),
    "temporal": rows(analysis.get_temporal_breakdown(visualize=False)),
    "launches": rows(analysis.get_cuda_kernel_launch_stats(ranks=[rank], visualize=False)[rank]),
    "queue": rows(queue),
    "overlap": overlap,
    "collectives": collectives(path),
}
if len(sys.argv) > 3:
    graph, found = analysis.critical_path_analysis(rank=rank, annotation=sys.argv[3], instance_id=0)
    edges = collections.Counter(data["object"].type.name for _, _, data in graph.edges(data=True))
    answers["critical"] = {"found": bool(found), "edges": edges}
print(json.dumps(answers))
