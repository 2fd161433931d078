"""What the simulated CUPTI does right, and what it does wrong on demand: facts of the headers and of the real library."""
import re

import pytest

from simulator import RELEASES, feed, headers_have, number

KERNEL, RUNTIME, DRIVER, GRAPH = 10, 5, 4, 51
SOME = [r for r in ("11.7", "12.4", "13.0", "13.5") if r in RELEASES]
NEWEST = RELEASES[-1]
START = "up register 65536 0 "


@pytest.fixture(params=SOME)
def release(request):
    return request.param


def good(out):
    assert out.returncode == 0, out.error
    return out


def test_calls_and_kernels(release):
    out = good(feed(release, START + "enable 10 enable 5 enable 4 kernel 3 flush 0"))
    kernels, runtime, driver = out.records(KERNEL), out.records(RUNTIME), out.records(DRIVER)
    assert len(kernels) == len(runtime) == len(driver) == 3
    ids = headers_have(release, r"CUPTI_RUNTIME_TRACE_CBID_(?:__)?cudaLaunchKernel_v\d+ *= *(\d+)")
    assert {r.cbid for r in runtime} == {max(map(int, ids))}
    assert {r.cbid for r in driver} == {307}
    for kernel, outer, inner in zip(kernels, runtime, driver):
        assert kernel.correlation == outer.correlation == inner.correlation
        assert outer.start <= inner.start < inner.end <= outer.end and inner.start < kernel.start < kernel.end
        assert kernel.name == len("a_kernel") and kernel.stream == 7


def test_clock_is_realtime(release):
    (_, answer, mine, _, real), = good(feed(release, "up time")).all("time")
    assert answer == "0" and abs(int(mine) - int(real)) < 50_000_000


def test_nothing_enabled_nothing_recorded(release):
    out = good(feed(release, START + "kernel 3 flush 1"))
    assert not out.records() and not out.all("buffer")


def test_flush_without_callbacks(release):
    assert feed(release, "up enable 10 kernel 1 flush 0").result("cuptiActivityFlushAll") == [7]


def test_unknown_kind(release):
    assert feed(release, "up enable 4000 enable 0 disable 63").result("cuptiActivityEnable") == [21, 21]


def test_incomplete_is_held_back(release):
    out = good(feed(release, START + "enable 10 begin 2 flush 0 dropped finish flush 0"))
    before, after = out.text.split("dropped 0 0\n")
    assert "record" not in before
    assert len(re.findall("^record 10", after, re.M)) == 2
    assert all(r.end > r.start > 0 for r in out.records(KERNEL))


def test_forced_has_no_end_and_comes_once(release):
    out = good(feed(release, START + "enable 10 kernel 1 begin 2 flush 1 finish flush 0 flush 1"))
    done, running, waiting = out.records(KERNEL)
    assert done.end > done.start
    assert (running.start > 0) == (number(release) < 1300) and running.end == 0
    assert waiting.start == 0 and waiting.end == 0


def test_full_buffers_come_by_themselves(release):
    out = good(feed(release, "up register 1024 0 enable 10 kernel 11 sleep 100"))
    assert len(out.all("buffer")) == 2
    assert len({line[2] for line in out.all("buffer")}) == 1  # one worker thread


def test_maximum_of_records(release):
    out = good(feed(release, "up register 65536 2 enable 10 kernel 5 flush 0"))
    assert [b.count("\n") for b in re.findall(r"buffer[^\n]*\n((?:record[^\n]*\n)*)", out.text)] == [2, 2, 1]


def test_buffers_of_threads():
    out = good(feed(NEWEST, START + "enable 10 threads 3 4 flush 0"))
    assert len(out.all("buffer")) == 3 and len(out.records(KERNEL)) == 12
    out = good(feed(NEWEST, "up attribute 9 0 register 65536 0 enable 10 threads 3 4 flush 0"))
    assert len(out.all("buffer")) == 1 and len(out.records(KERNEL)) == 12


def test_refused_buffers_are_counted_once(release):
    out = good(feed(release, START + "refuse enable 10 kernel 3 dropped dropped accept kernel 2 flush 0 dropped"))
    assert [line[2] for line in out.all("dropped")] == ["3", "0", "0"]
    assert len(out.records(KERNEL)) == 2
    assert feed(release, START + "refuse enable 10 kernel 1", "refuse_crash").returncode == -11


def test_buffer_too_small_is_given_back(release):
    out = good(feed(release, "up register 64 0 enable 10 kernel 1 flush 0 dropped"))
    assert [line[1] for line in out.all("buffer")] == ["0"] and out.all("dropped") == [["dropped", "0", "1"]]


def test_requests_that_fail(release):
    out = good(feed(release, "up register 1024 0 enable 10 kernel 20 flush 0 dropped", "dropped=3"))
    dropped = int(out.all("dropped")[0][2])
    assert dropped > 0 and len(out.records(KERNEL)) == 20 - dropped


def test_graphs(release):
    nodes = good(feed(release, START + "enable 10 graph 5 flush 0"))
    assert len(nodes.records(KERNEL)) == 5 and len({r.correlation for r in nodes.records(KERNEL)}) == 1
    whole = good(feed(release, START + "enable 10 enable 51 graph 5 kernel 1 graph 2 flush 0"))
    graphs = whole.records(GRAPH)
    assert len(whole.records(KERNEL)) == 1 and len(graphs) == 2
    assert all(g.end - g.start >= 5000 for g in graphs)


def test_external_correlation(release):
    out = good(feed(release, START + "enable 39 enable 5 push 7 push 8 kernel 1 pop kernel 1 pop pop kernel 1 flush 0"))
    assert [r.external for r in out.records(39)] == [8, 7]
    assert out.all("popped") == [["popped", "0", "8"], ["popped", "0", "7"], ["popped", "18", "0"]]
    kinds = [r.kind for r in out.records()]
    assert kinds == [39, 5, 39, 5, 5]


def test_thread_ids(release):
    default = good(feed(release, START + "self enable 5 kernel 1 flush 0"))
    system = good(feed(release, START + "self thread_id 1 enable 5 kernel 1 flush 0"))
    assert default.records(RUNTIME)[0].tid == int(default.all("self")[0][2])  # pthread_self's low word
    assert system.records(RUNTIME)[0].tid == int(system.all("self")[0][1])  # gettid


def test_chosen_calls():
    out = good(feed(NEWEST, START + "enable 4 enable 5 call cuptiActivityEnableDriverApi 307 kernel 1 flush 0"))
    assert len(out.records(DRIVER)) == 0 and len(out.records(RUNTIME)) == 1


def test_absent_function():
    out = feed("11.7", START + "call cuptiActivityEnableRuntimeApi 1")
    assert ["call", "cuptiActivityEnableRuntimeApi", "absent"] in out.lines


def test_finalize(release):
    out = good(feed(release, START + "enable 10 begin 1 finalize finish flush 0 register 4096 0 enable 10 kernel 1 flush 0"))
    assert out.result("cuptiFinalize") == [0] and out.result("cuptiActivityFlushAll") == [7, 0]
    assert len(out.records(KERNEL)) == 1


def test_subscribers(release):
    one = good(feed(release, "up subscribe subscribe kernel 1"))
    assert [line[1] for line in one.all("subscribed")] == ["0", "39"]
    sites = [line[1:] for line in one.all("callback")]
    assert [s[0] for s in sites] == ["2", "1", "1", "2"] and [s[2] for s in sites] == ["0", "0", "1", "1"]
    other = feed(release, "up subscribe", "subscriber=Nsight Systems")
    assert other.all("subscribed")[0][1] == "39"
    if number(release) >= 1300:
        assert one.all("subscribed")[1] == ["subscribed", "39", "CUPTI", "for", "feed"]
        assert other.all("subscribed")[0][2:] == ["Nsight", "Systems"]


def test_several_subscribers():
    out = good(feed(NEWEST, "up multiple multiple enable 10"))
    assert [line[1] for line in out.all("subscribed")] == ["0", "0"]
    assert out.result("cuptiActivityEnable") == [14]
    assert feed(NEWEST, "up multiple", "driver=12.4").all("subscribed")[0][1] == "39"


def test_failures(release):
    out = good(feed(release, START + "enable 1 enable 10 enable 10 flush 0 flush 1",
                    "fail=cuptiActivityEnable/1:14+cuptiActivityEnable/10@2:35+cuptiActivityFlushAll/1:999"))
    assert out.result("cuptiActivityEnable") == [14, 0, 35] and out.result("cuptiActivityFlushAll") == [0, 999]


def test_crash_and_hang(release):
    assert feed(release, START + "enable 10", "crash=cuptiActivityEnable/10").returncode == -11
    with pytest.raises(Exception, match="timed out"):
        feed(release, START + "enable 10", "hang=cuptiActivityEnable", seconds=1)


def test_slow_and_log(release, tmp_path):
    good(feed(release, "up time enable 10 call cuptiActivityDisable 10 enable 10",
              f"slow=cuptiActivityDisable:200ms,log={tmp_path}/log"))
    lines = [line.split() for line in (tmp_path / "log").read_text().splitlines()]
    assert [line[2:] for line in lines] == [["cuptiActivityEnable", "10", "0"], ["cuptiActivityDisable", "10", "slow"],
                                            ["cuptiActivityDisable", "10", "0"], ["cuptiActivityEnable", "10", "0"]]
    assert int(lines[2][0]) - int(lines[1][0]) > 190_000_000


def test_version_overflows_without_driver():
    if "13.2" in RELEASES:
        assert feed("13.2", "version").returncode == -11
        assert feed("13.2", "up version").returncode == 0
    assert feed("12.4", "version", "version=overflow").returncode == -11
    assert feed("12.4", "up version", "version=overflow").all("version") == [["version", "0", "22"]]
    assert feed("12.4", "up version", "version=23").all("version") == [["version", "0", "23"]]


def test_late_buffers(release):
    out = good(feed(release, START + "enable 10 kernel 2 flush 0 disable 10 sleep 400", "late=100ms"))
    order = [line[0] for line in out.lines]
    assert order.index("buffer") > max(i for i, line in enumerate(out.lines) if line[:2] == ["call", "cuptiActivityDisable"])


def test_caller_hands_out(release):
    out = good(feed(release, START + "enable 5 thread_id 1 enable 10 kernel 2 flush 0", "deliver=caller"))
    assert int(out.all("buffer")[0][2]) == out.records(RUNTIME)[0].tid


def test_shuffled(release):
    out = good(feed(release, START + "enable 10 kernel 50 flush 0", "shuffle"))
    order = [r.correlation for r in out.records(KERNEL)]
    assert sorted(order) == list(range(1, 51)) != order


def test_broken_records(release):
    script = "zero=3,null_name=4,long_name=5,byte_name=7"
    kernels = good(feed(release, START + "enable 10 kernel 60 flush 0", script)).records(KERNEL)
    assert sum(k.start == k.end == 0 for k in kernels) == 20
    assert {0, 10240, len("a_kernel")} < {k.name for k in kernels}


def test_device_buffers_full(release):
    out = good(feed(release, START + "enable 10 begin 6 finish flush 0", "device_records=4"))
    assert [k.start == 0 for k in sorted(out.records(KERNEL), key=lambda k: k.correlation)] == [False] * 4 + [True] * 2


def test_early_kernels_and_lost_calls(release):
    out = good(feed(release, START + "enable 10 enable 5 kernel 12 flush 0", "early=4,lose_api=3"))
    calls = {r.correlation: r for r in out.records(RUNTIME)}
    early = [k for k in out.records(KERNEL) if k.correlation in calls and k.start < calls[k.correlation].start]
    assert len(calls) == 8 and early
    assert all(calls[k.correlation].start - k.start == 5000 for k in early)


def test_unknown_records(release):
    plain = good(feed(release, START + "enable 10 kernel 6 flush 0"))
    size = plain.records(KERNEL)[0].size
    longer = good(feed(release, START + "enable 10 enable 5 kernel 6 flush 0", "grow=10:16+5:8"))
    assert {r.size for r in longer.records(KERNEL)} == {size + 16} and {r.size for r in longer.records(RUNTIME)} == {48}
    unknown = good(feed(release, START + "enable 10 kernel 6 flush 0", "unknown=2"))
    assert len(unknown.records(200)) == 3 and len(unknown.records(KERNEL)) == 6
    invalid = good(feed(release, START + "enable 10 kernel 6 flush 0", "invalid=4"))
    assert len(invalid.records(KERNEL)) == 3 and invalid.all("end")[0][1] in ("21", "999")


def test_replaced_callbacks(release):
    out = good(feed(release, "up register 1024 0 enable 10 kernel 3 flush 0 kernel 3 flush 0 kernel 40 flush 1", "replace=7"))
    assert 6 <= len(out.records(KERNEL)) < 30
    # Who registers again gets what is the other's.
    out = good(feed(release, "up register 1024 0 enable 10 kernel 3 flush 0 register 2048 0 kernel 9 flush 1", "replace=1"))
    assert len(out.records(KERNEL)) > 0


def test_foreign_buffers(release):
    out = good(feed(release, START + "enable 10 kernel 2 flush 0 kernel 2 flush 0", "foreign=2"))
    assert [r.correlation for r in out.records(KERNEL)] == [1, 2, 4000000000, 3, 4] and len(out.all("foreign")) == 1


def test_clocks(release):
    out = good(feed(release, "up time sleep 100 time", "clock=tsc"))
    (_, _, first, before, _), (_, _, second, after, _) = out.all("time")
    assert int(first) > 7e17
    assert (int(second) - int(first)) / (int(after) - int(before)) == pytest.approx(2.894, rel=0.01)
    out = good(feed(release, "up enable 10 time sleep 900 time", "clock=step,step=-3s,step_after=800ms"))
    (_, _, first, _, _), (_, _, second, _, _) = out.all("time")
    assert -3_000_000_000 < int(second) - int(first) < -2_000_000_000
    out = good(feed(release, START + "enable 10 enable 5 kernel 1 flush 0", "skew=300ms"))
    assert 295_000_000 < out.records(KERNEL)[0].start - out.records(RUNTIME)[0].start < 400_000_000
    out = good(feed(release, "up enable 10 time sleep 200 time", "drift=100000"))
    (_, _, first, before, _), (_, _, second, after, _) = out.all("time")
    assert (int(second) - int(first)) / (int(after) - int(before)) == pytest.approx(1.1, rel=0.01)


def test_contract_on_buffers(release):
    odd = feed(release, "up odd register 65528 0 enable 10 kernel 1")
    assert odd.returncode == -6 and "aligned" in odd.error
    dirty = feed(release, "up dirty register 65536 0 attribute 5 1 enable 10 kernel 1")
    assert dirty.returncode == -6 and "ZEROED_OUT" in dirty.error
    assert feed(release, "up dirty register 65536 0 attribute 5 1 enable 10 kernel 1 flush 0", "lenient").returncode == 0
    flush = feed(release, "up flushing register 65536 0 enable 10 kernel 1 flush 0")
    assert flush.returncode == -6 and "flush" in flush.error


def test_many_threads(release):
    out = good(feed(release, "up register 4096 0 enable 10 enable 5 enable 4 threads 8 100 flush 0", "shuffle"))
    for kind in (KERNEL, RUNTIME, DRIVER):
        assert sorted(r.correlation for r in out.records(kind)) == list(range(1, 801))


# ---- what a real GPU was seen to do: seen.c

def size_of_kernels(release):
    return good(feed(release, START + "enable 10 kernel 1 flush 0")).records(KERNEL)[0].size


@pytest.mark.parametrize("script", ["", "marked=0", "marked=1"])
def test_incomplete_records_are_marked(release, script):
    size = size_of_kernels(release)
    marked = script[-1] == "1" if script else number(release) >= 1300
    out = good(feed(release, START + f"enable 10 kernel 1 begin 2 peek {size} finish peek {size} begin 1 flush 1", script))
    before, after = out.all("peek")
    assert before[1:] == ["0xa"] + 2 * ["0x8000000a" if marked else "0xa"] and after[1:] == 3 * ["0xa"]
    *done, forced = out.records(KERNEL)
    assert len(done) == 3 and all(k.end > k.start > 0 for k in done)
    assert forced.end == 0 and (forced.start == 0) == marked
    graph = feed(release, START + "enable 51 disable 51", script)
    assert good(graph).result("cuptiActivityEnable") == [0]


def test_a_kind_that_is_slow_to_disable(release):
    out = good(feed(release, "up enable 25 enable 10 time disable 10 time disable 25 time", "unified_off=200ms"))
    first, second, third = (int(line[3]) for line in out.all("time"))
    assert third - second >= 200_000_000 and second > first and out.result("cuptiActivityDisable") == [0, 0]


def test_late_graph_trace(release):
    crash = "graph_trace_late=crash"
    before, after = START + "enable 10 instantiate graph 2 enable 51 ", START + "enable 51 instantiate graph 2 "
    assert good(feed(release, before + "graph 2 flush 0")).records(GRAPH)
    assert feed(release, before + "graph 2 flush 0", crash).returncode == -11
    good(feed(release, before + "disable 51 graph 2 flush 0", crash))
    assert len(good(feed(release, before + "instantiate graph 2 flush 0", crash)).records(GRAPH)) == 1
    assert len(good(feed(release, after + "disable 51 enable 51 graph 2 flush 0", crash)).records(GRAPH)) == 2


def test_switched_within_a_launch(release):
    """Kernels of the thread are missing from then on, in later sessions too, until a switch the other way."""
    script, session = "toggle_mid_launch=1", "kernel 3 flush 0 "
    words = START + "enable 5 inside 10 1 " + session + "disable 10 disable 5 enable 10 enable 5 threads 1 2 " + session
    plain = good(feed(release, words))
    assert len(plain.records(KERNEL)) == 1 + 3 + 2 + 3 and len(plain.records(RUNTIME)) == 8
    out = good(feed(release, words + "inside 10 0 enable 10 " + session, script))
    assert sorted(r.correlation for r in out.records(KERNEL)) == [5, 6, 11, 12, 13]  # of another thread, and after that switch
    assert sorted(r.correlation for r in out.records(RUNTIME)) == list(range(2, 10)) + [11, 12, 13]
    assert len(good(feed(release, words + "finalize register 65536 0 enable 10 " + session, script)).records(KERNEL)) == 2 + 3
    outside = good(feed(release, START + "enable 10 inside 12 1 " + session, script))
    assert len(outside.records(KERNEL)) == 4  # a kind that is neither of calls nor of kernels


def test_the_first_registration_waits(release):
    out = good(feed(release, "up time register 65536 0 time register 65536 0 time", "first_call=200ms"))
    first, second, third = (int(line[3]) for line in out.all("time"))
    assert second - first >= 200_000_000 and third > second


def test_launches_are_slower_ever_after(release):
    launch = "time kernel 1 graph 3 time copy 1 "
    words = START + launch + "enable 10 disable 10 " + launch + "finalize " + launch

    def times(script):
        found = [int(line[3]) for line in good(feed(release, words, script)).all("time")]
        return [b - a for a, b in zip(found[::2], found[1::2])]

    assert len(times("")) == 3
    slow = times("after=300ms")
    assert slow[1] >= 600_000_000 and min(slow[0], slow[2]) < slow[1]
