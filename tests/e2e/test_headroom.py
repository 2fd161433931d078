"""How much of a device's memory was unused (`show --by memory`, `memory_steps`, `peak`, `memory_use`), of a trace and of a capture that are written here."""
import json
import sqlite3

from make_capture import Capture
from test_import import imported, run, show
from test_screen import on_terminal

GIB = 1 << 30


def memory_trace(path, devices):
    """Two steps of 100 us. Of device 0 the allocator holds at most 3 and then 5 GiB, of device 1 1 GiB."""
    def block(ts, device, number, size, total, reserved, type_=1):
        return {"ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[memory]", "pid": 9, "tid": 9, "ts": ts, "args": {
            "Device Type": type_, "Device Id": device, "Addr": 4096 * number, "Bytes": size, "Total Allocated": total, "Total Reserved": reserved}}

    steps = [{"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{n + 1}", "pid": 9, "tid": 9, "ts": 100 * n, "dur": 100} for n in range(2)]
    operators = [{"ph": "X", "cat": "cpu_op", "name": "aten::empty", "pid": 9, "tid": 9, "ts": 100 * n + 5, "dur": 90, "args": {"External id": n + 1}}
                 for n in range(2)]
    blocks = [block(10, 0, 1, GIB, 2 * GIB, 3 * GIB), block(20, 0, 1, -GIB, GIB, 2 * GIB), block(110, 0, 2, 2 * GIB, 3 * GIB, 4 * GIB),
              block(120, 0, 2, -2 * GIB, GIB, 5 * GIB), block(30, 1, 1, 512, 512, GIB), block(40, -1, 3, 1024, 1024, 0, type_=0)]
    path.write_text(json.dumps({"schemaVersion": 1, "profile_memory": 1, "deviceProperties": devices, "traceEvents": steps + operators + blocks}))
    return path


def test_headroom(tmp_path):
    """Of each step and each device; what the trace does not tell of a device is not known."""
    capture = imported(memory_trace(tmp_path / "t.json", [{"id": 0, "name": "a device", "totalGlobalMem": 16 * GIB}, {"id": 1, "name": "another"}]),
                       tmp_path)
    rows = [(row["device"], row["step"], row["reserved_bytes"], row["cached_bytes"], row["capacity_bytes"], row["unused_bytes"]) for row in show(capture, "memory_steps")]
    # In step 2 most is held after most was given out: what counts for CACHED is the cache at the peak.
    assert rows == [("cpu", "1", "", "", "", ""), ("cuda:0", "1", str(3 * GIB), str(GIB), str(16 * GIB), str(13 * GIB)),
                    ("cuda:0", "2", str(5 * GIB), str(GIB), str(16 * GIB), str(11 * GIB)), ("cuda:1", "1", str(GIB), str(GIB - 512), "", "")], rows
    told = "cuda:0 has 16.00 GiB: torch's allocator held 5.000 GiB at most, and did not use 11.00 GiB."
    unknown = "cuda:1: it is not known how much memory it has, and how much of that was unused."
    for view in ("memory", "memory_steps", "peak", "memory_use"):
        text = run("show", capture, "--by", view).stdout
        assert told in text and unknown in text and "cpu has" not in text and "cpu:" not in text, (view, text)
    # What there is most to say of stays where the terminal is narrow.
    lines = on_terminal(80, "show", capture, "--by", "memory_steps").splitlines()
    assert max(map(len, lines)) <= 80, lines
    (heading,) = [line for line in lines if line.startswith("STEP")]
    assert heading.split() == "STEP DEVICE PEAK AT THE END OF ALL RESERVED CACHED UNUSED".split(), heading
    first = run("show", capture, "--by", "memory_steps", "--step", 1).stdout
    assert "torch's allocator held 3.000 GiB at most, and did not use 13.00 GiB." in first, first


def test_headroom_that_is_not_told(tmp_path):
    """The device is known, and what the allocator held is not; and more was held than it has."""
    path = tmp_path / "c.db"
    with Capture(path) as c:
        for word in ("steps", "cupti", "allocations"):
            c.collector(word)
        c.device(memory=GIB)
        c.device(1, memory=GIB)
        for device, absolute, reserved in ((0, 0, None), (1, 1, 3 * GIB)):
            c.db.execute("INSERT INTO memory_steps VALUES (1, 1, ?, ?, 1, 512, 0, 0, 0, 512, 512, 5, ?, ?)", (device, absolute, reserved, reserved))
    assert [(row["cached_bytes"], row["capacity_bytes"], row["unused_bytes"]) for row in show(path, "memory_steps")] == [
        ("", str(GIB), ""), (str(3 * GIB - 512), str(GIB), "0")]
    text = run("show", path, "--by", "memory_steps").stdout
    assert "cuda:0 has 1.000 GiB; it is not known how much of that was unused." in text and "and did not use 0 B." in text, text
    # A capture of a release that did not keep what the allocator held at the peak.
    with sqlite3.connect(path) as db:
        db.execute("ALTER TABLE memory_steps DROP COLUMN peak_reserved")
    assert [(row["cached_bytes"], row["reserved_bytes"]) for row in show(path, "memory_steps")] == [("", ""), ("", str(3 * GIB))]
