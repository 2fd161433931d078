"""Writes capture files without a job, an agent or a daemon: what reads captures is tested on what is in them.

The build's own store makes the tables, so they stand in one place. Use as a module:

    with Capture(path, rank=0) as c:
        name = c.string("aten::addmm")
        c.add("operators", start=0, duration=10, id=1, name=name, thread=4242, depth=0, scope=0, sequence=-1)

    with Capture(path) as c:
        c.kernel("_Z4gemmPf", start=400, duration=300, correlation=1)
        c.call("cudaLaunchKernel", start=100, duration=10, correlation=1, thread=4242, step=1)
        c.derive_device()

or as a program: make_capture.py OUT.db [--operators N] [--shapes] [--gpu]  writes a training loop of about N operators, or
the small capture of a GPU whose figures test_cli_gpu.py has by hand.
"""
import argparse
import os
import pathlib
import random
import sqlite3
import subprocess

BUILD = pathlib.Path(os.environ.get("PROFD_BUILD", pathlib.Path(__file__).resolve().parents[2] / "build"))


def empty_capture(path):
    """A capture file with all tables and no rows, as this build makes them, in place of what was there. Returns (connection,
    schema version, {table: [columns]})."""
    subprocess.run([BUILD / "tests" / "empty_capture", path], check=True, stdin=subprocess.DEVNULL)
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode = OFF")
    db.execute("PRAGMA synchronous = OFF")
    tables = {name: [column[1] for column in db.execute('PRAGMA table_info("%s")' % name)]
              for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()}
    return db, db.execute("PRAGMA user_version").fetchone()[0], tables


class Capture:
    """One capture file in the making. Keyword arguments are entries of `meta` over the usual ones; None: no entry."""

    def __init__(self, path, **meta):
        self.db, self.version, self.tables = empty_capture(path)
        self.db.execute("BEGIN")
        self.meta = {
            "schema": self.version, "profd_version": "0.1.0", "agent_version": "0.1.0", "capture_id": 7,
            "trigger_id": 3, "cycle": 0, "base_monotonic": 123456789000, "base_realtime": 1767225600123456789,
            "record_start": 0, "record_end": 0, "pid": 4242, "uid": 1000, "start_time": 99, "host": "node-1",
            "name": "python3", "command": "python3 train.py --lr 0.1", "status": "complete", "steps_wanted": 3,
            "step_source": 2, "other_thread_steps": 0, "late_steps": 0, "enable": 1000, "drain": 1000,
            "agent_cpu": 1000, "agent_bytes": 4096, "events": 0, "lost": 0, "derive": 1000,
        }
        self.meta.update(meta)
        self.strings = {}
        self.events = 0

    def string(self, text):
        """Id of an interned text; `bytes` go in as they are, valid UTF-8 or not."""
        if text not in self.strings:
            self.strings[text] = 8 + len(self.strings)
            value = "CAST(? AS TEXT)" if isinstance(text, bytes) else "?"
            self.db.execute("INSERT INTO strings VALUES (?, %s)" % value, (self.strings[text], text))
        return self.strings[text]

    def inputs(self, identity, dims, types, strides, concrete):
        self.db.execute("INSERT INTO inputs VALUES (?, ?, ?, ?, ?)", (identity, dims, types, strides, concrete))
        return identity

    def add(self, table, /, **columns):
        """One event; columns that are not named are NULL, flags 0."""
        columns.setdefault("flags", 0)
        self.db.execute(
            "INSERT INTO %s (%s) VALUES (%s)"
            % (table, ", ".join('"%s"' % c for c in columns), ", ".join("?" * len(columns))),
            tuple(columns.values()),
        )
        self.events += 1

    def add_operators(self, rows):
        """Many operators; a row has the first columns of the table, in its order, up to end_thread, without `entered`."""
        columns = [column for column in self.tables["operators"] if column != "entered"][:15]
        assert columns[-1] == "end_thread", columns
        cursor = self.db.executemany("INSERT INTO operators (%s) VALUES (%s)" % (", ".join(columns), ", ".join("?" * 15)), rows)
        self.events += cursor.rowcount

    def kernel(self, name, start, duration, correlation, **columns):
        """One kernel; name: as CUPTI has it. Columns that are not named are those of a plain kernel on stream 7."""
        plain = dict(name=self.string(name), start=start, duration=duration, correlation=correlation, device=0, context=1, stream=7,
                     graph=0, graph_node=0, grid_x=108, grid_y=1, grid_z=1, block_x=256, block_y=1, block_z=1, static_shared=0,
                     dynamic_shared=0, shared_executed=0, local_per_thread=0, local_total=0, channel=0, priority=0, cluster_x=0,
                     cluster_y=0, cluster_z=0, registers=32, launch_type=0, cache_config=0)
        self.add("kernel_records", **{**plain, **columns})

    def copy(self, kind, source_kind, target_kind, bytes, start, duration, correlation, **columns):
        """One copy; the kinds are CUPTI's numbers."""
        plain = dict(kind=kind, source_kind=source_kind, target_kind=target_kind, bytes=bytes, start=start, duration=duration,
                     correlation=correlation, device=0, context=1, stream=7, graph=0, graph_node=0, asynchronous=1,
                     source_device=0, source_context=0, target_device=0, target_context=0)
        self.add("copy_records", **{**plain, **columns})

    def set(self, memory_kind, bytes, start, duration, correlation, **columns):
        plain = dict(memory_kind=memory_kind, bytes=bytes, value=0, start=start, duration=duration, correlation=correlation,
                     device=0, context=1, stream=7, graph=0, graph_node=0, asynchronous=1)
        self.add("set_records", **{**plain, **columns})

    def graph_launch(self, graph, start, duration, correlation, **columns):
        plain = dict(graph=graph, start=start, duration=duration, correlation=correlation, device=0, context=1, stream=7)
        self.add("graph_records", **{**plain, **columns})

    def call(self, name, start, duration, correlation, **columns):
        """One call of the runtime API (domain=1: of the driver API)."""
        plain = dict(name=self.string(name), start=start, duration=duration, correlation=correlation, thread=4242, cbid=211,
                     result=0, domain=2)
        self.add("api_calls", **{**plain, **columns})

    def device(self, identity=0, name="NVIDIA A100-SXM4-40GB", **columns):
        plain = dict(id=identity, name=self.string(name), uuid_low=0x0706050403020100, uuid_high=0x0f0e0d0c0b0a0908,
                     memory=40 << 30, bandwidth=1555 * 10**9, multiprocessors=108, capability_major=8, capability_minor=0,
                     warp=32, max_threads_block=1024, max_threads_multiprocessor=2048, max_blocks_multiprocessor=32,
                     registers_block=65536, registers_multiprocessor=65536, shared_block=49152,
                     shared_multiprocessor=167936, clock=1410000)
        self.add("device_records", **{**plain, **columns})

    def session(self, **columns):
        plain = dict(clock_error=800, records=0, buffer_bytes=4 << 20, foreign_buffers=0, astray_buffers=0, early=0, enable=1000, drain=1000,
                     cupti_version=24, driver_version=12040, library=self.string("/usr/lib/libcupti.so.12"), options=0,
                     kinds=9, runtime_version=12040)
        self.add("sessions", **{**plain, **columns})

    def derive_device(self, demangled=None):
        """What derive makes of the device's records, in the plainest way: launches, attribution, totals, busy times.
        demangled: {mangled: (whole name, short name)}."""
        query = self.db.execute
        for mangled, (name, short) in (demangled or {}).items():
            query("INSERT INTO kernel_names VALUES (?, ?, ?)", (self.string(mangled), self.string(name), self.string(short)))
        names = dict(query("SELECT mangled, name FROM kernel_names").fetchall())
        operations = []
        for word, table in (("kernels", "kernel_records"), ("copies", "copy_records"), ("sets", "set_records"),
                            ("graphs", "graph_records")):
            cursor = query("SELECT * FROM " + table)
            columns = [c[0] for c in cursor.description]
            operations += [dict(zip(columns, row), what=word) for row in cursor.fetchall()]
        by_correlation = {}
        for o in operations:
            by_correlation.setdefault(o["correlation"], []).append(o)
        nodes = {row[0]: row for row in query(
            "SELECT id, parent, thread, start, duration, step FROM operators UNION ALL "
            "SELECT id, parent, thread, start, duration, step FROM ranges").fetchall()}
        devices = {}
        for rowid, correlation, step, thread, start, duration in query(
                "SELECT rowid, correlation, step, thread, start, duration FROM api_calls WHERE correlation > 0").fetchall():
            done = by_correlation.get(correlation)
            if not done:
                continue
            around = [n for n in nodes.values() if n[2] == thread and n[3] <= start < n[3] + n[4]]
            inner = max(around, key=lambda n: (n[3], n[0]))[0] if around else None
            time = sum(o["duration"] for o in done)
            query("INSERT INTO launches VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                  (correlation, rowid, step, thread, inner, start, duration, time, len(done)))
            for o in done:
                o["step"] = step
            first, last = min(o["start"] for o in done), max(o["start"] + o["duration"] for o in done)
            own = True
            while inner:
                node = devices.setdefault(inner, [0, 0, 0, first, last])
                node[0] += time if own else 0
                node[1] += time
                node[2] += len(done)
                node[3], node[4] = min(node[3], first), max(node[4], last)
                own, inner = False, nodes[inner][1]
        for identity, node in devices.items():
            query("INSERT INTO range_devices VALUES (?, ?, ?, ?, ?, ?)", (identity, *node))
        for table, totals, keys in (("operators", "operator_totals", "name"), ("ranges", "range_totals", "name, domain, source")):
            query("DELETE FROM " + totals)
            query("INSERT INTO {1} ({2}, step, calls, self, total, min, max, self_device, device) SELECT {2}, step, count(*), "
                  "sum(t.self), sum(duration), min(duration), max(duration), coalesce(sum(d.self), 0), coalesce(sum(d.total), 0) "
                  "FROM {0} t LEFT JOIN range_devices d ON d.id = t.id GROUP BY {2}, step".format(table, totals, keys))
        sums = {}
        for o in operations:
            key = {"kernels": ("kernel_totals", names.get(o.get("name"), o.get("name"))),
                   "copies": ("copy_totals", o.get("kind"), o.get("source_kind"), o.get("target_kind")),
                   "sets": ("set_totals", o.get("memory_kind")), "graphs": ("graph_totals", o.get("graph"))}[o["what"]]
            sums.setdefault(key + (o["device"], o["stream"], o["step"]), []).append(o)
        for (table, *key), group in sums.items():
            times = [o["duration"] for o in group]
            moved = [sum(o["bytes"] for o in group)] if table in ("copy_totals", "set_totals") else []
            row = [*key, len(group), *moved, sum(times), min(times), max(times)]
            query("INSERT INTO %s VALUES (%s)" % (table, ", ".join("?" * len(row))), row)
        query("INSERT INTO api_totals SELECT name, domain, step, count(*), sum(duration), min(duration), max(duration), "
              "sum(result <> 0) FROM api_calls GROUP BY name, domain, step")
        groups = {}
        for o in operations:
            for stream in (o["stream"], -1) if o["step"] is not None else ():
                groups.setdefault((o["step"], o["device"], stream), []).append(o)
        for (step, device, stream), group in groups.items():
            def union(of):
                busy, gap, gap_start, end = 0, 0, None, None
                for o in sorted(of, key=lambda o: o["start"]):
                    start, stop = o["start"], o["start"] + o["duration"]
                    if end is None:
                        end = start
                    if start - end > gap:
                        gap, gap_start = start - end, end
                    busy += max(0, stop - max(start, end))
                    end = max(end, stop)
                return busy, gap, gap_start
            busy, gap, gap_start = union(group)
            kernel_busy = union([o for o in group if o["what"] in ("kernels", "graphs")])[0]
            counts = [sum(o["what"] == word for o in group) for word in ("kernels", "copies", "sets", "graphs")]
            query("INSERT INTO step_devices VALUES (%s)" % ", ".join("?" * 14),
                  (step, device, stream, None if stream < 0 else group[0]["context"], busy, kernel_busy, gap, gap_start,
                   min(o["start"] for o in group), max(o["start"] + o["duration"] for o in group), *counts))

    def loss(self, kind, loss, count, is_loss=1, sentence="dropped"):
        self.db.execute("INSERT INTO losses VALUES (?, ?, ?, ?, ?)", (kind, loss, count, is_loss, sentence))

    def collector(self, word, wanted=1, ran=1, sentence=""):
        self.db.execute("INSERT INTO collectors VALUES (?, ?, ?, NULL, ?)", (word, wanted, ran, sentence))

    def close(self):
        if not self.meta.get("events"):
            self.meta["events"] = self.events
        rows = [(k, v) for k, v in self.meta.items() if v is not None]
        self.db.executemany("INSERT INTO meta VALUES (?, ?)", rows)
        self.db.execute("DROP TABLE ingested")
        self.db.execute("COMMIT")
        self.db.close()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()


def training_loop(path, operators=1000, shapes=False, steps=3, **meta):
    """About `operators` operators in `steps` steps of a loop as torch writes them: forward and optimizer on the thread
    that steps, backward on the engine's thread, records in the order in which they close. Returns their number."""
    main, engine = 4242, 4250
    ops = ["aten::linear", "aten::addmm", "aten::relu", "aten::conv2d", "aten::convolution", "aten::batch_norm",
           "aten::native_batch_norm", "aten::empty", "aten::add_", "aten::mul", "aten::sum", "aten::copy_"]
    chooser = random.Random(1)
    with Capture(path, **meta) as c:
        c.collector("steps")
        c.collector("torch")
        c.collector("shapes", wanted=int(shapes), ran=int(shapes))
        c.add("threads", thread=main, name=c.string("python3"), torch_id=1, pthread=1)
        c.add("threads", thread=engine, name=c.string("pt_autograd_0"), torch_id=2, pthread=2)
        names = [c.string(n) for n in ops]
        nodes = [c.string(n[6:].title() + "Backward0") for n in ops]
        engines = [c.string("autograd::engine::evaluate_function: " + n[6:].title() + "Backward0") for n in ops]
        optimizer = c.string("Optimizer.step#SGD.step")
        inputs = None
        if shapes:
            inputs = c.inputs(1, "[[64, 3, 224, 224], [], [[2, 3]]]", '["float", "Scalar", "TensorList"]',
                              "[[150528, 50176, 224, 1], [], [[3, 1]]]", '["", "1", ""]')
        now, identity, sequence, rows, made = 1000, 0, 0, [], 0

        def operator(start, end, own, name, thread, depth, parent, seq=-1, forward=None, scope=0):
            nonlocal made
            made += 1
            rows.append((step, 0, start, end - start, own, identity, parent, name, thread, depth, scope, inputs,
                         seq, forward, None))

        layers = max(1, operators // steps // 6)
        for step in range(1, steps + 1):
            opened = now
            forward = []
            for _ in range(layers):  # two operators a layer
                kind = chooser.randrange(len(ops))
                sequence += 1
                identity += 2
                outer = identity
                inner_start, inner_end = now + 900, now + 900 + chooser.randrange(2000, 9000)
                identity += 1
                operator(inner_start, inner_end, inner_end - inner_start, names[kind], main, 1, outer, sequence)
                identity = outer
                operator(now, inner_end + 700, 1600, names[kind - 1], main, 0, None, sequence)
                identity += 1
                forward.append((sequence, kind))
                now = inner_end + 1200
            for seq, kind in reversed(forward):  # three a layer
                start, end = now, now + chooser.randrange(8000, 20000)
                identity += 3
                top = identity - 2
                for depth in (2, 1, 0):
                    identity = top + depth
                    node = depth == 1  # which alone has the number
                    operator(start + 300 * depth, end - 300 * depth, 600, (engines, nodes, names)[depth][kind], engine,
                             depth, top + depth - 1 if depth else None, seq if node else -1, 1 if node else None,
                             int(node))
                identity = top + 2
                now = end + 500
            start = now
            now += 100
            update = identity + 1
            identity += 1
            for _ in range(layers):  # one a layer
                identity += 1
                operator(now, now + 1500, 1500, names[8], main, 1, update)
                now += 1600
            c.add("ranges", step=step, start=start, duration=now - start, self=100 + 100 * layers, id=update,
                  name=optimizer, thread=main, depth=0, source=4)
            c.add("steps", step=step, start=opened, duration=now - opened, number=100 + step, thread=main, source=2,
                  collectors=7)
            if len(rows) > 20000:
                c.add_operators(rows)
                rows.clear()
        c.add_operators(rows)
        c.meta["record_start"], c.meta["record_end"] = 1000, now
    return made


GEMM = "_ZN7cutlass6KernelI42cutlass_80_tensorop_s1688gemm_128x64_16x6_tnEEvNT_6ParamsE"
GEMM_NAME = "void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_128x64_16x6_tn>(cutlass_80_tensorop_s1688gemm_128x64_16x6_tn::Params)"
RELU = "_Z4reluPfi"


def gpu_capture(path, graphs=None, memory=False, device="NVIDIA A100-SXM4-40GB", **meta):
    """Two steps of a process with a GPU, small enough to be computed by hand; see test_cli_gpu.py. graphs: None, "nodes" or
    "whole": a CUDA graph is launched in step 2, too."""
    main, engine, ms, us = 4242, 4250, 1_000_000, 1_000
    with Capture(path, **{"steps_wanted": 2, "record_end": 22 * ms, **meta}) as c:
        for word in ("steps", "nvtx", "torch", "cupti"):
            c.collector(word, sentence="records " + word)
        c.collector("shapes", wanted=0, ran=0, sentence="not asked for (--shapes)")
        c.collector("memory", wanted=int(memory), ran=int(memory), sentence="" if memory else "not asked for (--memory)")
        c.add("threads", thread=main, name=c.string("python3"), torch_id=1, pthread=1)
        c.add("threads", thread=engine, name=c.string("pt_autograd_0"), torch_id=2, pthread=2)
        c.device(name=device)
        c.session(options=1 if graphs == "whole" else 0)
        c.add("context_records", id=1, device=0, default_stream=7, api=1)
        c.add("stream_records", id=7, context=1, priority=0, kind=1)
        c.add("stream_records", id=20, context=1, priority=-5, kind=2, name=c.string("loader"))
        bits = 0b10111 | (0b100000 if memory else 0)
        c.add("steps", step=1, start=0, duration=10 * ms, number=101, thread=main, source=2, collectors=bits)
        c.add("steps", step=2, start=10 * ms, duration=12 * ms, number=102, thread=main, source=2, collectors=bits)

        def operator(step, identity, parent, name, start, duration, own, thread=main, depth=0):
            c.add("operators", step=step, id=identity, parent=parent, name=c.string(name), start=start, duration=duration, self=own,
                  thread=thread, depth=depth, scope=0, sequence=-1)

        c.add("ranges", step=1, id=10, name=c.string("forward"), start=50 * us, duration=1500 * us, self=300 * us, thread=main,
              depth=0, source=1)
        operator(1, 1, 10, "aten::linear", 100 * us, 900 * us, 200 * us, depth=1)
        operator(1, 2, 1, "aten::addmm", 200 * us, 700 * us, 700 * us, depth=2)
        operator(1, 3, 10, "aten::relu", 1100 * us, 300 * us, 300 * us, depth=1)
        operator(1, 4, None, "autograd::engine::evaluate_function: AddmmBackward0", 2 * ms, 1 * ms, 1 * ms, engine)
        operator(2, 5, None, "aten::relu", 11 * ms, 500 * us, 500 * us)
        operator(2, 6, None, "aten::empty", 11 * ms + 600 * us, 4 * us, 4 * us)

        c.call("cudaLaunchKernel", 300 * us, 10 * us, 1, step=1)
        c.kernel(GEMM, 400 * us, 3 * ms, 1)
        c.call("cudaLaunchKernel", 1150 * us, 8 * us, 2, step=1)
        c.kernel(RELU, 3400 * us, 600 * us, 2)
        c.call("cudaMemcpyAsync", 1450 * us, 20 * us, 3, step=1, cbid=41)
        c.copy(1, 2, 3, 12_000_000, 4 * ms, 1 * ms, 3, stream=20)
        c.call("cudaLaunchKernel", 2100 * us, 6 * us, 4, step=1, thread=engine)
        c.kernel(GEMM, 4200 * us, 2 * ms, 4)
        c.call("cudaMemsetAsync", 2500 * us, 4 * us, 5, step=1, thread=engine, cbid=51)
        c.set(3, 4096, 7 * ms, 2 * us, 5)
        c.call("cuLaunchKernel", 11100 * us, 10 * us, 6, step=2, domain=1, cbid=307)
        c.kernel(RELU, 11500 * us, 600 * us, 6)
        c.call("cudaMemcpyAsync", 11700 * us, 30 * us, 7, step=2, cbid=41)
        c.copy(2, 3, 1, 1_000_000, 12100 * us, 500 * us, 7)
        c.call("cudaStreamSynchronize", 11800 * us, 900 * us, 8, step=2, cbid=131)
        c.call("cudaMalloc", 13 * ms, 100 * us, 9, step=2, cbid=20, result=2)
        c.add("syncs", step=2, kind=3, start=11800 * us, duration=900 * us, correlation=8, context=1, stream=7, event=0, event_sync=0, result=0)
        c.add("syncs", step=1, kind=4, start=9 * ms, duration=100 * us, correlation=0, context=1, stream=0xffffffff, event=0, event_sync=0,
              result=0)
        if graphs:
            c.call("cudaGraphLaunch", 14 * ms, 40 * us, 10, step=2, cbid=311)
            if graphs == "whole":
                c.graph_launch(3, 15 * ms, 5 * ms, 10)
            else:
                for node, name, start, duration in ((1, GEMM, 15 * ms, 2 * ms), (2, RELU, 17 * ms, 1 * ms), (3, GEMM, 18 * ms, 2 * ms)):
                    c.kernel(name, start, duration, 10, graph=3, graph_node=(3 << 32) + node)
        if memory:
            for time, operation, size in ((1 * ms, 1, 1000), (2 * ms, 1, 3000), (3 * ms, 2, 1000), (12 * ms, 1, 500)):
                c.add("allocations", step=1 if time < 10 * ms else 2, time=time, address=4096, bytes=size, total=0, reserved=0, pool=0, correlation=0, device=0,
                      context=1, stream=7, thread=main, source=1, operation=operation, memory_kind=3, asynchronous=0)
        c.derive_device({GEMM: (GEMM_NAME, "Kernel"), RELU: ("relu(float*, int)", "relu")})


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("path")
    parser.add_argument("--operators", type=int, default=1000)
    parser.add_argument("--shapes", action="store_true")
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--graphs", choices=("nodes", "whole"))
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--device", default="NVIDIA A100-SXM4-40GB")
    given = parser.parse_args()
    if given.gpu:
        gpu_capture(given.path, given.graphs, given.memory, given.device)
    else:
        print(training_loop(given.path, given.operators, given.shapes), "operators")
