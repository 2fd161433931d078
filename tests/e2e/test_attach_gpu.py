"""CUDA graphs that were made before `profd attach`, on the simulated GPU: which nodes a real CUPTI tells of is not known."""
import os

import pytest

import gpu
from conftest import wait_for
from test_attach import bare
from test_nvtx_capture import query

pytestmark = pytest.mark.skipif(os.uname().machine != "x86_64", reason="x86-64 alone")
NOTE = "the agent was attached: how many operations CUDA graphs have that were made before is not known; shown are those that CUPTI tells of"


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
