"""Traces of torch.profiler of the ranks of one job, with planted times; and what `profd ranks` has to say of them, worked out again, slowly.

All times are ns of one true clock; each rank's trace has them by a clock of its own.
"""
import collections
import dataclasses
import json

MS = 1_000_000
MARGIN = 50_000
FACTORS = {"all_reduce": lambda n: 2 * (n - 1) / n, "all_gather": lambda n: (n - 1) / n, "reduce_scatter": lambda n: (n - 1) / n, "broadcast": lambda n: 1}
# torch's operator, and its word in record_param_comms
OPERATORS = {"all_reduce": ("c10d::allreduce_", "allreduce"), "all_gather": ("c10d::_allgather_base_", "_allgather_base"),
             "reduce_scatter": ("c10d::_reduce_scatter_base_", "_reduce_scatter_base"), "broadcast": ("c10d::broadcast_", "broadcast"),
             "send": ("c10d::send", "send"), "recv": ("c10d::recv_", "recv")}


@dataclasses.dataclass
class Call:
    operation: str
    begin: int  # of its kernel; None: it was lost
    end: int
    members: tuple
    elements: int = 1 << 20
    description: str = "default_pg"
    stream: int = 20


@dataclasses.dataclass
class Step:
    number: int
    start: int
    wall: int
    calls: list = dataclasses.field(default_factory=list)
    compute: list = dataclasses.field(default_factory=list)  # (begin, end)


@dataclasses.dataclass
class Rank:
    rank: int
    steps: list
    offset: int = 0  # of its clock
    world_size: int = None


# ---------------------------------------------------------------- the traces


def trace(rank, world_size, collectives=True, windows=False):
    """What torch.profiler would write."""
    events, correlation = [], [0]

    def add(category, name, start, end, where, args=None):
        events.append({"ph": "X", "cat": category, "name": name, "pid": where[0], "tid": where[1],
                       "ts": (start + rank.offset) / 1000, "dur": (end - start) / 1000, "args": args or {}})

    def kernel(name, at, begin, end, stream):
        correlation[0] += 1
        add("cuda_runtime", "cudaLaunchKernel", at, at + 1000, (70, 70), {"correlation": correlation[0], "cbid": 211})
        if begin is not None:
            add("kernel", name, begin, end, (0, stream), {"correlation": correlation[0], "device": 0, "context": 1, "stream": stream, "grid": [500, 1, 1],
                                                         "block": [256, 1, 1], "registers per thread": 32, "shared memory": 0})

    for step in rank.steps:
        if not windows:
            add("user_annotation", f"ProfilerStep#{step.number}", step.start, step.start + step.wall, (70, 70))
        at = step.start + 1000
        for begin, end in step.compute:
            add("cpu_op", "aten::mm", at, at + 3000, (70, 70))
            kernel("ampere_sgemm_128x64_nn", at + 1000, begin, end, 7)
            at += 5000
        for call in step.calls:
            operator, word = OPERATORS[call.operation]
            size, parts = len(call.members), call.elements // len(call.members)
            if collectives:
                add("cpu_op", operator, at, at + 9000, (70, 70))
                add("cpu_op", "record_param_comms", at + 1000, at + 8000, (70, 70), {
                    "Collective name": word, "In msg nelems": parts if call.operation == "all_gather" else call.elements,
                    "Out msg nelems": parts if call.operation == "reduce_scatter" else call.elements, "Group size": size, "dtype": "Float",
                    "Process Group Name": f"group {call.members}", "Process Group Description": call.description,
                    "Process Group Ranks": json.dumps(list(call.members)), "In split size": "[]", "Out split size": "[]"})
            kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", at + 3000, call.begin, call.end, call.stream)
            at += 10000
    told = {"backend": "nccl", "rank": rank.rank, "world_size": rank.world_size or world_size}
    return {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA H100", "numSms": 132, "warpSize": 32}], "distributedInfo": told,
            "displayTimeUnit": "ms", "baseTimeNanoseconds": 0, "traceEvents": events}


# ---------------------------------------------------------------- the same figures again


def union(intervals):
    merged = []
    for begin, end in sorted(intervals):
        if merged and begin <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([begin, end])
    return merged


def length(intervals, begin, end):
    """Of what of these lies in [begin, end)."""
    return sum(max(0, min(e, end) - max(b, begin)) for b, e in union(intervals))


def outside_of(intervals, begin, end):
    """The parts of [begin, end) that are in none of these."""
    left, at = [], begin
    for b, e in union(intervals):
        if b > at:
            left.append((at, min(b, end)))
        at = max(at, e)
    return [(b, e) for b, e in left + [(at, end)] if b < e]


def common(ranks):
    """The numbers of steps that every rank has."""
    return sorted(set.intersection(*({step.number for step in rank.steps} for rank in ranks)))


class Reference:
    """Its members are named as those of the JSON."""

    def __init__(self, ranks):
        self.ranks = sorted(ranks, key=lambda rank: rank.rank)
        self.numbers = common(ranks)
        self.alone = self.unknown = 0
        self.operations = collections.defaultdict(list)
        self.waits = {rank.rank: [] for rank in ranks}  # (begin, end, for whom)
        self.last = collections.Counter()
        self.calls = collections.Counter()
        for number in self.numbers:
            self.match(number)
        self.kept = collections.Counter()  # (number, for whom)
        self.waited = collections.Counter()
        for rank in self.ranks:
            self.count(rank)

    def steps(self, rank):
        return {step.number: step for step in rank.steps if step.number in self.numbers}

    def match(self, number):
        keyed = collections.defaultdict(lambda: collections.defaultdict(list))
        for rank in self.ranks:
            for call in self.steps(rank)[number].calls:
                if call.operation not in ("send", "recv", "broadcast"):
                    keyed[call.members, call.operation][rank.rank].append(call)
        for (members, _), of in keyed.items():
            counts = {len(calls) for calls in of.values()}
            if len(of) != len(members) or len(counts) != 1 or len(of) < 2:
                self.alone += sum(map(len, of.values()))
                continue
            for n in range(counts.pop()):
                self.compare({rank: calls[n] for rank, calls in of.items()})

    def compare(self, calls):
        if any(call.begin is None for call in calls.values()):
            self.unknown += len(calls)
            return
        flight = {rank: call.end - call.begin for rank, call in calls.items()}
        transfer = min(flight.values())
        last = min(flight, key=lambda rank: (flight[rank], rank))
        for rank, call in calls.items():
            self.calls[rank] += 1
            if rank != last and flight[rank] > transfer:
                self.waits[rank].append((call.begin, call.begin + flight[rank] - transfer, last))
        self.last[last] += max(flight.values()) - transfer > MARGIN
        first = next(iter(calls.values()))
        key = first.operation, first.description, len(first.members), first.elements * 4
        self.operations[key].append((transfer, sum(flight.values()) / len(flight) - transfer, max(flight.values()) - transfer))

    def count(self, rank):
        compute = [piece for step in rank.steps for piece in step.compute]
        until = 0
        for begin, end, last in sorted(self.waits[rank.rank]):
            begin, until = max(begin, until), max(until, end)
            for piece in outside_of(compute, begin, end):
                for number, step in self.steps(rank).items():
                    ns = length([piece], step.start, step.start + step.wall)
                    self.waited[rank.rank] += ns
                    self.kept[number, last] += ns / (len(self.ranks) - 1)

    def wall(self, rank):
        return sum(step.wall for step in self.steps(rank).values()) / len(self.numbers)

    def row(self, rank, which):
        kernels = [piece for step in rank.steps for piece in step.compute]
        every = kernels + [(call.begin, call.end) for step in rank.steps for call in step.calls if call.begin is not None]
        sums = [(length(kernels, s.start, s.start + s.wall), s.wall - length(every, s.start, s.start + s.wall)) for s in self.steps(rank).values()]
        return sum(pair[which == "idle"] for pair in sums) / len(self.numbers)

    def named(self):
        """The rank, the row and its times; None: there is none."""
        n, wall = len(self.numbers), sum(map(self.wall, self.ranks)) / len(self.ranks)
        keeps, wins = collections.Counter(), collections.Counter()
        for number in self.numbers:
            of = {rank.rank: self.kept[number, rank.rank] for rank in self.ranks}
            wins[max(of, key=lambda rank: (of[rank], -rank))] += max(of.values()) > 0
        for (_, rank), ns in self.kept.items():
            keeps[rank] += ns
        if not keeps:
            return None
        last = max(keeps, key=lambda rank: keeps[rank])
        if keeps[last] / n < 0.02 * wall or keeps[last] < 0.5 * sum(keeps.values()) or wins[last] <= n / 2:
            return None
        rows = []
        for which in ("compute", "idle"):
            own = next(self.row(rank, which) for rank in self.ranks if rank.rank == last)
            others = [self.row(rank, which) for rank in self.ranks if rank.rank != last]
            rows.append((own - sum(others) / len(others), which, own, sum(others) / len(others)))
        row = max(rows, key=lambda row: row[0])
        parts = [self.kept[number, last] / (sum(self.steps(rank)[number].wall for rank in self.ranks) / len(self.ranks)) for number in self.numbers]
        return {"rank": last, "waited_for_ns": keeps[last] / n, "min": min(parts), "max": max(parts),
                **dict(zip(("row", "row_ns", "others_row_ns"), row[1:] if row[0] > keeps[last] / n / 4 else (None,) * 3))}


def near(found, expected, what):
    """The same, but for rounding."""
    assert (found is None) == (expected is None), (what, found, expected)
    if isinstance(expected, (int, float)):
        assert abs(found - expected) <= 0.51 + abs(expected) * 1e-9, (what, found, expected)
    else:
        assert found == expected, (what, found, expected)


def check(answer, ranks):
    """The JSON has what the reference has, and returns the reference."""
    reference = Reference(ranks)
    n = len(reference.numbers)
    near(answer["steps"], n, "steps")
    near(answer["step_ns"], sum(map(reference.wall, reference.ranks)) / len(ranks), "step_ns")
    near(answer["alone"], reference.alone, "alone")
    near(answer["unknown"], reference.unknown, "unknown")
    known = bool(reference.operations)
    assert [row["rank"] for row in answer["ranks"]] == [rank.rank for rank in reference.ranks]
    for row, rank in zip(answer["ranks"], reference.ranks):
        waited = reference.waited[rank.rank]
        part = known and reference.calls[rank.rank] > 0
        expected = {"steps": n, "step_ns": reference.wall(rank), "waits_ns": waited / n if part else None,
                    "waits_percent": waited / n / reference.wall(rank) * 100 if part else None,
                    "waited_for_ns": sum(reference.kept[number, rank.rank] for number in reference.numbers) / n if part else None,
                    "last": reference.last[rank.rank] if part else None, "operations": reference.calls[rank.rank] if part else None}
        percent = expected.pop("waits_percent")
        assert row["waits_percent"] == percent or abs(row["waits_percent"] - percent) < 0.006
        for key, value in expected.items():
            near(row[key], value, (rank.rank, key))
    named = reference.named()
    if named is None:
        assert answer["last"] is None, answer["last"]
    else:
        for key, value in named.items():
            near(answer["last"][key], value, key)
        assert abs(answer["last"]["min"] - named["min"]) < 1e-9 and abs(answer["last"]["max"] - named["max"]) < 1e-9
    check_operations(answer, reference)
    return reference


def check_operations(answer, reference):
    found = {(row["operation"], row["group"], row["group_size"], row["bytes"]): row for row in answer["operations"]}
    assert found.keys() == reference.operations.keys() and len(found) == len(answer["operations"])
    for key, calls in reference.operations.items():
        row, transfer = found[key], sum(call[0] for call in calls) / len(calls)
        near(row["calls"], len(calls), key)
        near(row["transfer_ns"], transfer, key)
        near(row["wait_ns"], sum(call[1] for call in calls) / len(calls), key)
        near(row["max_wait_ns"], max(call[2] for call in calls), key)
        assert row["dtype"] == "float32"
        for name, rate in (("bandwidth_gb_s", key[3] / transfer), ("bus_gb_s", FACTORS[key[0]](key[2]) * key[3] / transfer)):
            assert abs(row[name] - rate) < 0.001 + 1e-6 * rate, (name, row[name], rate)
