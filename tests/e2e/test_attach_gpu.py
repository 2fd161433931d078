"""The GPU of a process that was attached to, simulated: CUDA graphs that were made before (which nodes a real CUPTI tells of is not known), and that `profd
detach` switches all off again."""
import json
import os

import pytest

import gpu
from conftest import wait_for
from proc import agent_threads
from test_attach import bare
from test_gpu_agent import calls, enabled_after
from test_gpu_seen import whole
from test_nvtx_capture import query

pytestmark = pytest.mark.skipif(os.uname().machine != "x86_64", reason="x86-64 alone")
NOTE = "the agent was attached: it is not known how many operations earlier CUDA graphs have; the capture shows the operations that CUPTI reports"


def capture_of(profd, *options, attach, window="300ms"):
    env = {**(bare(profd) if attach else profd.env), **gpu.environment(gpu.MIDDLE)}
    job = profd.job(gpu.WORKLOAD, "--rate=100", "--lines", "--streams=1", *options, agent=not attach, env=env)
    assert job.stdout.readline()  # a step has been made, and the graph before
    if attach:
        profd.run("attach", "--pid", job.pid)
    wait_for(lambda: profd.process(job.pid), what="the agent")
    capture = profd.trigger(job.pid, "--duration", window)
    gpu.finish(job)
    return capture


def test_graphs_that_were_made_before(profd):
    capture = capture_of(profd, "--graph=3", attach=True, window="3s")  # so long no job waits for a processor
    assert capture["simulated"] and NOTE in profd.show(capture["capture_id"])["notes"]
    # The simulator tells of all: three kernels, a set and a copy.
    launches = query(profd, capture, """select count(distinct graph_node) from (select correlation, graph_node from kernels where graph <> 0
                                        union all select correlation, graph_node from copies where graph <> 0
                                        union all select correlation, graph_node from sets where graph <> 0) group by correlation""")
    assert launches and set(launches) == {(5,)}


@pytest.mark.parametrize("options, attach", [(["--graph=3"], False), ([], True)])
def test_nothing_is_said_where_it_is_known(profd, options, attach):
    capture = capture_of(profd, *options, attach=attach)
    assert capture["simulated"] and NOTE not in profd.show(capture["capture_id"])["notes"]


STEPS = "--step-range", "step", "--steps"


# Kinds of everybody's, of which one takes its time to be switched off; and a subscriber's, beside another client of CUPTI.
@pytest.mark.parametrize("release, script", [(gpu.MIDDLE, "unified_off=1s"), (gpu.NEWEST, "subscriber=multiple:another")], ids=["kinds", "subscriber"])
def test_detached(profd, release, script):
    """After a capture and in the middle of one: no kind is on, nobody is subscribed, nothing is called, and the next attachment records as the first."""
    log = profd.folder / "cupti.log"
    job = profd.job(gpu.WORKLOAD, "--rate=100", "--lines", "--streams=2", "--graph=3", "--async-alloc=1", agent=False,
                    env={**bare(profd), **gpu.environment(release, f"{script},log={log}")})
    assert job.stdout.readline()

    def record():
        profd.run("attach", "--pid", job.pid)
        captures.append(profd.trigger(job.pid, *STEPS, 3, "--preset", "full"))
        assert enabled_after(calls(log))[1] == 0

    def detach():
        profd.run("detach", "--pid", job.pid)
        assert not agent_threads(job.pid)
        before = calls(log)
        assert enabled_after(before) == (set(), 0)
        wait_for(lambda: job.stdout.readline() and job.stdout.readline(), what="steps of it")
        assert calls(log) == before
    captures = []
    record()
    detach()
    profd.run("attach", "--pid", job.pid)
    trigger = profd.follow("--pid", job.pid, *STEPS, 90000, "--preset", "full")
    wait_for(lambda: len(enabled_after(calls(log))[0]) > 1, what="CUPTI's kinds")
    profd.wait_recorded(job.pid)
    detach()
    out, err = trigger.communicate(timeout=60)
    (captured,) = json.loads(out)["captures"]
    assert trigger.returncode == 5 and (captured["status"], captured["reason_code"]) == ("incomplete", "detached"), (captured, err)
    record()
    detach()
    said = gpu.finish(job)
    for capture in captures:
        whole(profd, said, capture)


def test_a_thread_that_outlives_the_agent(profd):
    """CUPTI does not come back from switching the last kind off: that is said, and the job goes on."""
    job = profd.job(gpu.WORKLOAD, "--rate=100", "--lines", agent=False, env={**bare(profd), **gpu.environment(gpu.MIDDLE, "unified_off=1s,hang=cuptiActivityDisable/25")})
    assert job.stdout.readline()
    profd.run("attach", "--pid", job.pid)
    assert profd.trigger(job.pid, *STEPS, 3, "--memory")["status"] == "complete"
    done = profd.run("detach", "--pid", job.pid, check=False)
    assert done.returncode == 4 and "its threads have not ended yet" in done.stderr and not done.stdout, done
    said = profd.run("doctor", "--pid", job.pid, check=False).stdout
    assert "the agent was detached, but for a thread that waits for a call of CUPTI's to end" in " ".join(said.split()), said
    gpu.finish(job)
