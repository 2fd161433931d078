"""NVTX in real programs: every kind of call arrives as it was made, whatever loads, unloads, runs in parallel or is lost."""
import collections
import json
import os
import signal
import sqlite3
import struct

import pytest

from conftest import BUILD

MIX = BUILD / "workloads" / "nvtx_mix"
pytestmark = pytest.mark.skipif(not MIX.exists(), reason="workloads with NVTX were not built (PROFD_NVTX_INCLUDE)")


def workload(name):
    return BUILD / "workloads" / name


def finish(job, how=signal.SIGTERM):
    """Ends a workload; what it printed."""
    job.send_signal(how)
    out, err = job.communicate(timeout=30)
    assert job.returncode == 0, (job.returncode, err)
    return json.loads(out)


def query(profd, capture, sql):
    with sqlite3.connect(f"file:{profd.file(capture['capture_id'])}?mode=ro", uri=True) as db:
        return db.execute(sql).fetchall()


RANGES = """select n.text, count(*) from ranges r left join strings n on n.id = r.name
            where r.step > 0 and r.source in (1, 2) group by 1"""
MARKS = """select n.text, count(*) from marks m left join strings n on n.id = m.name
           where m.step > 0 and m.source = 1 group by 1"""


@pytest.fixture
def mix(profd):
    job = profd.job(MIX, "--step-ms=5")
    profd.wait_steps(job.pid)
    capture = profd.trigger(job.pid, "--steps", 3)
    facts = finish(job)
    assert capture["status"] == "complete" and capture["steps_recorded"] == 3
    return profd, capture, facts


def test_every_call_arrives(mix):
    profd, capture, facts = mix
    got = collections.Counter()
    for name, n in query(profd, capture, RANGES):
        got[name or ""] += n  # a range without a message, and one with an empty one
    want = {name: 3 * n for name, n in facts["per_step"]["ranges"].items()}
    assert got == want
    got = {name or "": n for name, n in query(profd, capture, MARKS)}
    assert got == {name: 3 * n for name, n in facts["per_step"]["marks"].items()}
    assert capture["lost"] == 0


# A filter of seccomp that answers EPERM to one system call, as containers have one; then another program takes this one's place.
REFUSES = """
import ctypes, os, struct, sys
code = (0x20, 0, 0, 0), (0x15, 0, 1, int(sys.argv[1])), (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7fff0000)
text = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *one) for one in code))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(code), ctypes.addressof(text)))
prctl = ctypes.CDLL(None).prctl
assert prctl(38, 1, 0, 0, 0) == 0 and prctl(22, 2, program) == 0
os.execv(sys.argv[2], sys.argv[2:])
"""


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="numbers of system calls are x86-64's")
def test_a_container_that_refuses_what_the_agent_asks(profd):
    """process_vm_readv. Whether memory may be touched is not known there: it is believed to be as the object says."""
    job = profd.job("/usr/bin/python3", "-c", REFUSES, 310, MIX, "--step-ms=5")
    profd.wait_steps(job.pid)
    capture = profd.trigger(job.pid, "--steps", 3)
    facts = finish(job)
    assert capture["status"] == "complete"
    got = {name or "": n for name, n in query(profd, capture, MARKS)}
    assert got == {name: 3 * n for name, n in facts["per_step"]["marks"].items()}


def test_attributes(mix):
    profd, capture, _ = mix
    rows = query(profd, capture, """
        select n.text, d.text, c.text, r.color, r.payload_type, r.payload, r.source, r.end_thread is not null and r.end_thread
        from ranges r left join strings n on n.id = r.name left join strings d on d.id = r.domain
        left join strings c on c.id = r.category where r.step > 0""")
    by_name = {}
    for name, *rest in rows:
        by_name.setdefault(name, rest)
    assert by_name["coloured"][1] == "green"
    assert by_name["coloured"][2] & 0xffffffff == 0xff76b900
    assert by_name["registered"][0] == "library"
    assert by_name["registered"][1] == "c\u00f6pies"
    assert by_name["registered w\u00efde"][1] == "8"
    payloads = {"u64": 2**64 - 2, "i64": -2 % 2**64, "f64": struct.unpack("Q", struct.pack("d", 0.5))[0],
                "u32": 4000000000, "i32": -3 % 2**32, "f32": struct.unpack("I", struct.pack("f", 0.25))[0]}
    for kind, (name, value) in enumerate(payloads.items(), 1):
        assert by_name[name][3] == kind
        mask = 0xffffffff if kind > 3 else 2**64 - 1
        assert by_name[name][4] & mask == value, name
    assert by_name["started"][5] == 2
    assert not by_name["started"][6]
    assert by_name["started elsewhere"][6]


def test_thread_name(mix):
    profd, capture, facts = mix
    names = query(profd, capture, f"""select n.text from threads t join strings n on n.id = t.name
                                      where t.thread = {facts['thread']}""")
    assert ("the mixer",) in names


def test_domains_have_stacks_of_their_own(mix):
    """`registered` wide closes in its domain while `across`, opened later in the default one, is still open."""
    profd, capture, _ = mix
    rows = query(profd, capture, """select n.text, r.start, r.start + r.duration from ranges r
                                    join strings n on n.id = r.name where r.step = 1 order by r.start""")
    across = next(r for r in rows if r[0] == "across")
    crossed = [r for r in rows if r[0] == "registered w\u00efde" and r[1] < across[1] < r[2] < across[2]]
    assert len(crossed) == 1


def test_range_as_step(profd):
    """--step-range wins over the program's own profd_step() for the capture that asks for it."""
    job = profd.job(MIX, "--step-ms=5")
    profd.wait_registered(job.pid)
    capture = profd.trigger(job.pid, "--step-range", "st?p", "--steps", 3)
    finish(job)
    assert capture["steps_recorded"] == 3
    count = dict(query(profd, capture, RANGES))
    assert count["started"] == 3


@pytest.mark.parametrize("limit", [None, 1 << 20])
def test_threads_are_counted_exactly(profd, limit):
    job = profd.job(workload("nvtx_threads"), "--threads=8", "--pairs=20000", "--pause-us=1000")
    profd.wait_steps(job.pid)
    capture = profd.trigger(job.pid, "--steps", 2, *(["--max-bytes", limit] if limit else []), codes=(0, 5))
    facts = finish(job)
    recorded = query(profd, capture, "select count(*) from ranges where step > 0")[0][0]
    lost = query(profd, capture, "select coalesce(sum(count), 0) from losses where kind = 'range' and is_loss")[0][0]
    assert recorded + lost == 2 * facts["ranges_per_step"]
    # How much is lost is a matter of the machine's speed; that it is counted is not.
    assert recorded > 0


def test_a_moderate_rate_loses_nothing(profd):
    """Eight threads with 500 pairs each in a step: far below what the daemon takes in, on any machine."""
    job = profd.job(workload("nvtx_threads"), "--threads=8", "--pairs=500", "--pause-us=10000")
    profd.wait_steps(job.pid)
    capture = profd.trigger(job.pid, "--steps", 5)
    facts = finish(job)
    assert capture["lost"] == 0
    recorded = query(profd, capture, "select count(*) from ranges where step > 0")[0][0]
    assert recorded == 5 * facts["ranges_per_step"]


def test_library_that_comes_and_goes(profd):
    job = profd.job(workload("nvtx_dlclose"), "--step-ms=2", "--pairs=10")
    profd.wait_steps(job.pid, 5)
    for _ in range(5):
        capture = profd.trigger(job.pid, "--steps", 5)
        assert capture["status"] == "complete"
        assert dict(query(profd, capture, RANGES)) == {"whole": 5, "part": 50}
    facts = finish(job)
    assert facts["unmapped"] == facts["steps"]


def test_old_library(profd, torch):
    """libnvToolsExt.so.1, which torch before 2.5 used, asks for the same entry point."""
    folder = os.path.join(os.path.dirname(os.path.dirname(torch)), "lib")
    found = [os.path.join(where, f) for where, _, files in os.walk(folder) for f in files if f == "libnvToolsExt.so.1"]
    if not found:
        pytest.skip("this torch came without libnvToolsExt")
    job = profd.job(torch, "-c", f"""
import ctypes, time
library = ctypes.CDLL({found[0]!r})
end = time.time() + 20
while time.time() < end:
    library.nvtxRangePushA(b"old")
    time.sleep(0.002)
    library.nvtxRangePop()
""")
    profd.wait_registered(job.pid)
    capture = profd.trigger(job.pid, "--step-range", "old", "--steps", 3)
    assert dict(query(profd, capture, RANGES)) == {"old": 3}
