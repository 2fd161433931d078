"""The verdict on real traces, and its evidence: intervals, SQL that runs, what is stored and what is computed."""
import json
import os
import pathlib
import re
import shutil
import sqlite3

import pytest
import verdict_numbers
from test_import import PROFD, TRACES, imported, run, show  # noqa: F401

# What the traces are known for: the first finding, and its share of a step in %.
KNOWN = {
    "a100_alexnet_critical_path": [("setup", 73, 82), ("allocation", 17, 22)],
    "gp100_gpu_user_annotation": [("launch_bound", 65, 80)],
    "v100_resnet50_nw0": [("input", 32, 40)],
    "google_owlv2": [("input", 46, 56)],
    "v100_rank0_ns_resolution": [("no_tensor_cores", 40, 55)],
    "a100_ddp_rank0of2_nccl_data": [("launch_bound", 47, 57), ("stall", 20, 26)],
    "a100_rank3of8_control": [("communication", 15, 23)],
}


def verdict(capture, *more):
    return json.loads(run("show", capture, "--format", "json", *more).stdout)


@pytest.fixture(params=TRACES, ids=[trace.name for trace in TRACES])
def trace(request):
    return request.param


def test_real_traces_have_the_findings_that_they_are_known_for(trace, tmp_path):
    capture = imported(trace, tmp_path)
    answer = verdict(capture)
    known = next((rows for name, rows in KNOWN.items() if trace.name.startswith(name)), [])
    found = [(f["finding"], f["share"] * 100) for f in answer["findings"]]
    for (kind, low, high), (got, share) in zip(known, found):
        assert got == kind and low <= share <= high, (known, found)
    assert len(found) >= len(known) and len(found) <= 3
    wins = [f["win_ns"] for f in answer["findings"] if f["finding"] not in ("no_tensor_cores", "few_blocks", "capture")]
    assert wins == sorted(wins, reverse=True)
    assert sum(f["ns"] for f in answer["findings"] if f["finding"] != "step_unlike") <= answer["verdict"]["step_ns"]
    with sqlite3.connect(capture) as db:
        for number, finding in enumerate(answer["findings"], 1):
            assert finding["what"] and finding["evidence"] and finding["try"]
            assert finding["min"] <= finding["share"] <= finding["max"] + 1e-9 and finding["win"] <= finding["share"] + 1e-9
            assert db.execute(finding["sql"]).fetchall(), finding["sql"]
            for interval in finding["intervals"]:
                assert interval["start_ns"] < interval["end_ns"] and interval["line"] is None
            listed = run("show", capture, "--finding", number).stdout
            assert finding["what"] in listed and finding["sql"][:40] in listed
    assert "there is no finding" in run("show", capture, "--finding", 3, code=3).stderr if len(found) < 3 else True
    assert verdict_numbers.check(capture) == {one["finding"]: one["evidence"] for one in answer["findings"]}


def test_what_is_stored_is_what_is_computed(trace, tmp_path):
    capture = imported(trace, tmp_path)
    without = tmp_path / "older.db"
    shutil.copy(capture, without)
    with sqlite3.connect(without) as db:
        db.executescript("DELETE FROM breakdown; DELETE FROM findings; DELETE FROM finding_intervals; "
                         "DELETE FROM meta WHERE key GLOB 'verdict*' OR key = 'breakdown_doubt'")
    stored, computed = verdict(capture), verdict(without)
    for key in ("findings", "breakdown", "verdict"):
        assert stored[key] == computed[key]
    with sqlite3.connect(capture) as db:
        rows = db.execute("SELECT step, sum(ns) FROM breakdown WHERE side = 'host' GROUP BY step").fetchall()
        assert rows == db.execute("SELECT step, duration FROM steps ORDER BY step").fetchall()
        assert db.execute("SELECT count(*) FROM findings").fetchone()[0] == len(stored["findings"])


def test_a_damaged_table_is_said_to_be_damaged(tmp_path):
    capture = imported(TRACES[0], tmp_path)
    for change in ("UPDATE breakdown SET ns = -1", "UPDATE breakdown SET step = 1000000", "UPDATE findings SET finding = 'x'",
                   "UPDATE finding_intervals SET duration = -5", "UPDATE breakdown SET row = 'x'"):
        copy = tmp_path / "damaged.db"
        shutil.copy(capture, copy)
        with sqlite3.connect(copy) as db:
            db.execute(change)
        assert run("show", copy, "--by", "findings", code=1).stderr.startswith("profd: "), change


def test_idle_intervals_add_up_to_the_breakdown(trace, tmp_path):
    capture = imported(trace, tmp_path)
    steps = verdict(capture)["breakdown"]["steps"]
    with sqlite3.connect(capture) as db:
        bounds = {step: (start, start + duration) for step, start, duration in db.execute("SELECT step, start, duration FROM steps")}
    # Intervals are not cut at steps; of very many the longest are shown.
    rows, whole = set(), True
    for step in bounds:
        shown = show(capture, "idle", "--step", step)
        whole = whole and len(shown) < 10000
        rows |= {(int(row["device"]), row["row"], int(row["start_ns"]), int(row["end_ns"])) for row in shown}
    assert rows
    for step in steps:
        start, end = bounds[step["step"]]
        sums = {}
        for device, row, begun, ended in rows:
            if begun < end and ended > start:
                sums[device, row] = sums.get((device, row), 0) + min(ended, end) - max(begun, start)
        wanted = {(device["device"], row): ns for device in step["devices"] for row, ns in device["idle"].items()}
        assert sums == wanted if whole else all(ns <= wanted[key] for key, ns in sums.items()), step["step"]


def test_a_cpu_job_with_a_slow_loader_waits_for_input(tmp_path):
    """A trace as torch.profiler writes it of a CPU job: half of each step is in the loader."""
    events = []
    for step in range(3):
        at = step * 10000
        events += [{"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "pid": 1, "tid": 1, "ts": at, "dur": 10000},
                   {"ph": "X", "cat": "user_annotation", "pid": 1, "tid": 1, "ts": at + 10, "dur": 5000,
                    "name": "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"},
                   {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": at + 5100, "dur": 4800}]
    (tmp_path / "cpu.json").write_text(json.dumps({"traceEvents": events}))
    capture = imported(tmp_path / "cpu.json", tmp_path)
    answer = verdict(capture)
    assert [f["finding"] for f in answer["findings"]] == ["input"]
    assert abs(answer["findings"][0]["share"] - 0.5) < 0.01 and "num_workers" in answer["findings"][0]["try"]
    loader = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    assert {(one["name"], one["operator"]) for one in answer["findings"][0]["intervals"]} == {(loader, loader)}
    assert run("show", capture, "--finding", 1).stdout.count("LoaderIter.__next__") == 6
    # The table has sentences, too: what, how that is known, what to try.
    for what in (["--by", "findings"], ["--by", "all"]):
        text = " ".join(run("show", capture, *what).stdout.split())
        assert " 1 The step's thread waits for input. The step's thread loads the batches itself: " in text and "Try DataLoader(num_workers=2)" in text, text
    # The first of them is ProfilerStep#0: a step all the same, not a window.
    assert not answer["verdict"]["window"] and (answer["verdict"]["first_step"], answer["verdict"]["last_step"]) == (1, 3)
    verdict_numbers.check(capture)
    assert answer["verdict"]["device"] is None and answer["verdict"]["verdict"].startswith("The step's thread waits for input")


UPDATES = {("Adam", "aten::mul_", False): "fused=True", ("Adagrad", "aten::addcdiv_", False): "fused=True",
           # The same by one operator; and what has no such operator on the CPU, or none at all: foreach=True would be no faster, or refused.
           ("Adam", "aten::_fused_adam_", False): None, ("Adadelta", "aten::mul_", False): None, ("LBFGS", "aten::mul_", False): None,
           ("LBFGS", "aten::mul_", True): None, ("Adadelta", "aten::mul_", True): "foreach=True"}


@pytest.mark.parametrize("case", UPDATES, ids=lambda case: "-".join(map(str, case)))
def test_one_operator_for_all_tensors_is_advised_to_who_has_it(tmp_path, case):
    """Half of each step updates 60 tensors, one by one (the first by an operator of its own)."""
    name, first, device = case
    events = []
    for step in range(4):
        at = step * 10000
        events += [{"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "pid": 1, "tid": 1, "ts": at, "dur": 10000},
                   {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": at + 10, "dur": 3900},
                   {"ph": "X", "cat": "user_annotation", "pid": 1, "tid": 1, "ts": at + 4000, "dur": 5900,
                    "name": f"Optimizer.step#{name}.step"}]
        for i in range(60):
            begin, number = at + 4020 + 90 * i, 1 + 60 * step + i
            events.append({"ph": "X", "cat": "cpu_op", "name": "aten::mul_" if i else first, "pid": 1, "tid": 1, "ts": begin, "dur": 80})
            if device:
                events += [{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": begin + 60, "dur": 10,
                            "args": {"correlation": number}},
                           {"ph": "X", "cat": "kernel", "name": "elementwise_kernel", "pid": 0, "tid": 7, "ts": begin + 72, "dur": 5,
                            "args": {"device": 0, "stream": 7, "correlation": number}}]
    (tmp_path / "update.json").write_text(json.dumps({"traceEvents": events}))
    capture = imported(tmp_path / "update.json", tmp_path)
    found = {f["finding"]: f for f in verdict(capture)["findings"]}
    assert ("optimizer_per_tensor" in found) == bool(UPDATES[case]), found
    if UPDATES[case]:
        assert UPDATES[case] in found["optimizer_per_tensor"]["try"]
    verdict_numbers.check(capture)


# What torch's profiler calls a call on a GPU of AMD's, and on one of NVIDIA's.
CALLS = {"hipLaunchKernel": "cudaLaunchKernel", "hipExtModuleLaunchKernel": "cuLaunchKernel", "hipModuleLaunchKernel": "cuLaunchKernelEx",
         "hipMemcpyWithStream": "cudaMemcpy", "hipMemcpyAsync": "cudaMemcpyAsync", "hipMemsetAsync": "cudaMemsetAsync", "hipGraphLaunch": "cudaGraphLaunch",
         "hipStreamSynchronize": "cudaStreamSynchronize", "hipEventSynchronize": "cudaEventSynchronize", "hipDeviceSynchronize": "cudaDeviceSynchronize",
         "hipMalloc": "cudaMalloc", "hipFree": "cudaFree", "hipHostMalloc": "cudaHostAlloc", "hipHostFree": "cudaFreeHost",
         "hipModuleLoadData": "cuModuleLoadData", "hipStreamCreateWithPriority": "cudaStreamCreateWithPriority"}


def rocm_step(at, call, spent):
    """Launches, copies and a wait for them; then `call` for `spent` us, in which nothing runs."""
    events, number = [], [at]

    def add(category, name, start, duration, **args):
        events.append({"ph": "X", "cat": category, "name": name, "pid": int(category != "kernel"), "tid": 7, "ts": at + start, "dur": duration, "args": args})

    def launch(category, by, start, begins, takes):
        number[0] += 1
        add("cuda_runtime", by, start, 8, correlation=number[0])
        add(category, "Cijk_gemm" if category == "kernel" else "Memcpy DtoH (Device -> Pinned)", begins, takes, device=0, stream=0, correlation=number[0])
    add("user_annotation", f"ProfilerStep#{at // 10000}", 0, 10000)
    for i, by in enumerate(["hipLaunchKernel", "hipExtModuleLaunchKernel", "hipModuleLaunchKernel", "hipGraphLaunch"] * 2):
        add("cpu_op", "aten::mm", 50 + 20 * i, 15)
        launch("kernel", by, 52 + 20 * i, 100 + 400 * i, 400)
    launch("gpu_memcpy", "hipMemcpyAsync", 250, 3300, 100)
    add("cpu_op", "aten::item", 300, 3200)
    launch("gpu_memcpy", "hipMemcpyWithStream", 302, 3410, 50)
    for i, by in enumerate(["hipStreamSynchronize", "hipEventSynchronize", "hipDeviceSynchronize"]):
        add("cuda_runtime", by, 312 + 1050 * i, 1045, correlation=number[0] + 10 + i)
    add("cuda_runtime", call, 4300, spent, correlation=number[0] + 20)
    return events


@pytest.mark.parametrize("call, finding", [("hipMalloc", "allocation"), ("hipFree", "allocation"), ("hipHostMalloc", "allocation"), ("hipHostFree", "allocation"),
                                           ("hipModuleLoadData", "compilation"), ("hipStreamCreateWithPriority", "setup"), ("hipDeviceSynchronize", "sync")])
def test_calls_of_rocm_are_judged_as_those_of_cuda(tmp_path, call, finding):
    text = json.dumps({"traceEvents": [event for step in range(4) for event in rocm_step(10000 * step, call, 4000)]})
    as_cuda = text
    for name, other in CALLS.items():
        as_cuda = as_cuda.replace(f'"{name}"', f'"{other}"')
    answers = []
    for maker, trace in (("rocm", text), ("cuda", as_cuda)):
        (tmp_path / maker).mkdir()
        (tmp_path / maker / "trace.json").write_text(trace)
        capture = imported(tmp_path / maker / "trace.json", tmp_path / maker)
        answer = verdict(capture)
        waits = [(row["kind"], row["operator"], int(row["calls"]), int(row["total_ns"])) for row in show(capture, "syncs")]
        taken = [(row["call"], int(row["calls"])) for row in show(capture, "memory_calls")]
        assert bool(taken) == (finding == "allocation")
        with sqlite3.connect(capture) as db:
            records = [len(db.execute(one["sql"]).fetchall()) for one in answer["findings"]]
            for one in answer["findings"]:
                del one["sql"]
        if maker == "rocm":
            verdict_numbers.check(capture)
            assert finding in [one["finding"] for one in answer["findings"]] and sum(row[3] for row in waits) >= 12_000_000, (answer, waits)
        told = json.dumps([answer["verdict"], answer["breakdown"], answer["findings"], records, waits, taken])
        for name, other in CALLS.items():
            told = re.sub(rf"\b{name}\b", other, told)
        answers.append(json.loads(told))
    assert answers[0] == answers[1]


XMMA = "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x128x8_stage3_warpsize2x2x1_ffma_aligna4_alignc4_execute_kernel__5x_cublas"
CONVOLUTION = "sm80_xmma_fprop_implicit_gemm_indexed_f32f32_f32f32_f32_nhwckrsc_nchw_tilesize128x64x8_stage3_warpsize2x2x1_g1_ffma_execute_kernel__5x_cudnn"
SIMT = "void cutlass::Kernel2<cutlass_80_simt_sgemm_128x128_8x4_nn_align1>(cutlass_80_simt_sgemm_128x128_8x4_nn_align1::Params)"
HIGH, AUTOCAST, CONVOLUTIONS, HALF, SIZES = ('Allow TF32 (torch.set_float32_matmul_precision("high")) or use torch.autocast', "Use torch.autocast with float16",
                                             "torch.backends.cudnn.allow_tf32 = True", "It is half precision already", "multiples of 8")
# Kernel, name and capability of the device: what is advised; None: they are tensor cores, or there are none.
CORES = [(XMMA, "A100", 8, 0, HIGH), (XMMA.split("_ffma")[0], "A100", 8, 0, HIGH), (CONVOLUTION, "A100", 8, 0, CONVOLUTIONS), (SIMT, "H100", 9, 0, HIGH),
         ("ampere_sgemm_128x64_nn", "A100", 8, 0, HIGH), ("cutlass3x_sm100_simt_sgemm_f32_f32_f32_f32_f32_64x64x16_1x1x1_3_nnn_align1", "B200", 10, 0, HIGH),
         ("cutlass_80_simt_hgemm_128x128_32x2_nn_align1", "A100", 8, 0, HALF), ("volta_hgemm_128x64_nn", "Tesla V100", 7, 0, HALF),
         ("volta_sgemm_128x64_nn", "Tesla V100", 7, 0, AUTOCAST), ("volta_scudnn_128x64_relu_small_nn_v1", "Tesla V100", 7, 0, AUTOCAST),
         ("void cudnn::detail::dgrad_engine<float, 512, 6, 5, 3, 3, 3, false>(int, int)", "Tesla V100", 7, 0, AUTOCAST),
         ("volta_sgemm_128x64_nn", "NVIDIA GeForce GTX 1660", 7, 5, None), ("volta_sgemm_128x64_nn", "NVIDIA GeForce RTX 2080", 7, 5, AUTOCAST),
         ("maxwell_sgemm_128x64_nn", "Tesla P100", 6, 0, None), ("volta_sgemm_128x64_nn", "unheard of", None, None, None),
         (XMMA.replace("f32f32_f32f32", "f32f32_tf32f32").replace("ffma", "tensor16x8x8"), "A100", 8, 0, None),
         (CONVOLUTION.replace("f32f32_f32f32", "tf32f32_tf32f32").replace("ffma", "tensor16x8x8"), "A100", 8, 0, None),
         ("sm80_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize128x128x32_stage4_warpsize2x2x1_tensor16x8x16_execute_kernel__5x_cublas", "A100", 8, 0, None),
         ("sm90_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize128x128x32_cgasize1x1x1_stage4_hgmma64x128x8_execute_kernel", "H100", 9, 0, None),
         ("void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x256_16x3_nn_align4>(Params)", "A100", 8, 0, None), ("volta_fp16_s884gemm_fp16_128x64_nn", "V100", 7, 0, None),
         ("cutlass_80_simt_igemm_s8_128x128_32x2_nn_align1", "A100", 8, 0, None), ("nvjet_hsh_256x128_64x4_1x2_h_bz_coopA_NNT", "H100", 9, 0, None)]


def test_tensor_cores_are_told_by_kernel_and_device(tmp_path):
    for i, (kernel, name, major, minor, advice) in enumerate(CORES):
        events = []
        for step in range(4):
            at = 10000 * step
            events += [{"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "pid": 1, "tid": 1, "ts": at, "dur": 10000},
                       {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": at + 10, "dur": 30},
                       {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": at + 20, "dur": 10, "args": {"correlation": 1 + step}},
                       {"ph": "X", "cat": "kernel", "name": kernel, "pid": 0, "tid": 7, "ts": at + 40, "dur": 9950,
                        "args": {"device": 0, "stream": 7, "correlation": 1 + step, "grid": [2048, 1, 1]}}]
        device = {"id": 0, "name": name, "numSms": 80, **({"computeMajor": major, "computeMinor": minor} if major else {})}
        (tmp_path / str(i)).mkdir()
        (tmp_path / str(i) / "cores.json").write_text(json.dumps({"deviceProperties": [device], "traceEvents": events}))
        capture = imported(tmp_path / str(i) / "cores.json", tmp_path / str(i))
        found = verdict(capture)["findings"]
        verdict_numbers.check(capture)
        assert [one["finding"] for one in found] == (["no_tensor_cores"] if advice else []), (kernel, name, found)
        if advice:
            times = {7: 8, 8: 16, 9: 16, 10: 32}[major]
            assert advice in found[0]["try"] and SIZES in found[0]["try"] and abs(found[0]["win"] - found[0]["share"] * (1 - 1 / times)) < 1e-6, found[0]
            assert ("TF32" in found[0]["try"]) == (advice in (HIGH, CONVOLUTIONS)), found[0]["try"]


def test_a_mean_is_rounded_once(tmp_path):
    """42,550.33 ns are 42.6 us. Cut to whole ns before, they were printed as 42.5: once in a run of all tests."""
    events = []
    for step in range(3):
        at = step * 10000
        events += [{"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "pid": 1, "tid": 1, "ts": at, "dur": 10000},
                   {"ph": "X", "cat": "user_annotation", "pid": 1, "tid": 1, "ts": at + 10, "dur": 5000.001 if step == 1 else 5000,
                    "name": "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"},
                   {"ph": "X", "cat": "cpu_op", "name": "aten::stack", "pid": 1, "tid": 1, "ts": at + 20, "dur": 42.551 if step == 1 else 42.55},
                   {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": at + 5100, "dur": 4800}]
    (tmp_path / "cpu.json").write_text(json.dumps({"traceEvents": events}))
    capture = imported(tmp_path / "cpu.json", tmp_path)
    verdict_numbers.check(capture)
    assert "42.6 us of that in operators" in verdict(capture)["findings"][0]["evidence"]


def test_a_first_step_with_the_number_0_is_told_by_it(tmp_path):
    events = []
    for number in range(10):
        at = number * 10000 + (40000 if number else 0)
        events += [{"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{number}", "pid": 1, "tid": 1, "ts": at,
                    "dur": 10000 if number else 50000},
                   {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": at + 100, "dur": 9800 if number else 49800}]
    (tmp_path / "zero.json").write_text(json.dumps({"traceEvents": events}))
    capture = imported(tmp_path / "zero.json", tmp_path)
    told = [one for one in verdict(capture)["findings"] if one["finding"] == "step_unlike"]
    assert [(one["step"], one["what"]) for one in told] == [(1, "Step 0 takes 50.0 ms, the others 10.0 ms")]
    slowest = json.loads(run("show", capture, "--by", "steps", "--format", "json").stdout)["steps"][0]
    assert (slowest["step"], slowest["number"]) == (1, 0)
    verdict_numbers.check(capture)


def test_which_steps_were_judged_and_a_window(tmp_path):
    """Of ten steps one is unlike the others: it is left out, and that is said. A trace without steps is judged as a window."""
    events = []
    for step in range(10):
        at, long = step * 10000 + (40000 if step > 6 else 0), 50000 if step == 6 else 10000
        events += [{"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step + 3}", "pid": 1, "tid": 1, "ts": at, "dur": long},
                   {"ph": "X", "cat": "user_annotation", "pid": 1, "tid": 1, "ts": at + 10, "dur": 5000,
                    "name": "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"},
                   {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": at + 5100, "dur": 4800}]
    (tmp_path / "steps.json").write_text(json.dumps({"traceEvents": events}))
    capture = imported(tmp_path / "steps.json", tmp_path)
    answer = verdict(capture)["verdict"]
    assert (answer["steps"], answer["first_step"], answer["last_step"], answer["steps_recorded"], answer["window"]) == (9, 1, 10, 10, False)
    assert "Judged: steps 1 to 10 of 10, without 1 that is unlike the others." in run("show", capture).stdout
    verdict_numbers.check(capture)
    events = [event for event in events if not event["name"].startswith("ProfilerStep")]
    (tmp_path / "window").mkdir()
    (tmp_path / "window" / "window.json").write_text(json.dumps({"traceEvents": events}))
    capture = imported(tmp_path / "window" / "window.json", tmp_path / "window")
    answer, text = verdict(capture), run("show", capture).stdout
    assert answer["verdict"]["window"] and answer["verdict"]["steps"] == 1
    assert " of the window" in answer["verdict"]["verdict"] and "of the window." in text and "of a step" not in text and "Judged:" not in text
    assert "in the DataLoader" in answer["findings"][0]["evidence"] and "of a step" not in answer["findings"][0]["evidence"]
    verdict_numbers.check(capture)
