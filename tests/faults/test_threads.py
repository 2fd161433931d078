"""What the agent's thread finds in the job, or inherits from the thread that starts it."""
import os

import pytest

from house import BUILD
from proc import agent_threads
from pythons import PYTHONS

TLS = BUILD / "workloads" / "tls"


def test_static_thread_local_storage(row, profd):
    row.does("has 480 KB to 5 MB of static thread-local storage")
    row.nothing_recorded("no capture")
    for more in [*range(0, 49152, 4096), 1 << 20, 5 << 20]:
        row.twice(profd, [TLS], env={"GLIBC_TUNABLES": f"glibc.rtld.optional_static_tls={512 + more}"})
    # And it is not that nothing runs there.
    for more in 24 << 10, 5 << 20:
        job = profd.job(TLS, "--after=2000", env={"GLIBC_TUNABLES": f"glibc.rtld.optional_static_tls={more}"})
        profd.wait_steps(job.pid)
        assert profd.trigger(job.pid, "--steps", "3")["status"] == "complete"
        assert job.poll() is None


JOB = """
import ctypes, os, sys, time
{habit}
step = getattr(ctypes.CDLL(None), "profd_step", lambda: None)
for _ in range(100):
    time.sleep(0.01)
    step()
while os.path.exists(os.environ.get("STAY", "")):
    time.sleep(0.01)
    step()
print("policy", os.sched_getscheduler(0), "processors", len(os.sched_getaffinity(0)), "nice", os.nice(0))
"""

# sched_setattr(2) is 314 on x86-64 and 274 elsewhere: {size, policy 6, flags, nice, priority, runtime, deadline, period}
DEADLINE = """
import platform, struct
attributes = struct.pack("<IIQiIQQQ", 48, 6, 0, 0, 0, 1000000, 10000000, 10000000)
number = 314 if platform.machine() == "x86_64" else 274
try:
    done = ctypes.CDLL(None, use_errno=True).syscall(number, 0, attributes, 0) == 0
except OSError:
    done = False
"""

HABITS = {
    "pins its main thread": "os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})",
    "runs its main thread SCHED_FIFO": "os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))",
    "runs its main thread SCHED_RR": "os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(10))",
    "runs its main thread SCHED_BATCH": "os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))",
    "runs its main thread SCHED_IDLE": "os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))",
    "gives its main thread nice 7": "os.setpriority(os.PRIO_PROCESS, 0, 7)",
    "gives its main thread nice -5": "os.setpriority(os.PRIO_PROCESS, 0, -5)",
}


def agent_tids(pid):
    found = [int(folder.name) for folder in agent_threads(pid)]
    assert found
    return found


@pytest.mark.parametrize("habit", HABITS)
def test_thread_is_as_the_process_began(row, profd, habit):
    row.does(habit)
    row.nothing_recorded("no capture")
    if os.geteuid() != 0:
        pytest.skip("priorities above the usual need root")
    launch = os.sched_getaffinity(0), os.getpriority(os.PRIO_PROCESS, 0)

    def during(job):
        profd.wait_steps(job.pid)
        for thread in agent_tids(job.pid):
            assert os.sched_getscheduler(thread) == os.SCHED_OTHER
            assert (os.sched_getaffinity(thread), os.getpriority(os.PRIO_PROCESS, thread)) == launch

    row.twice(profd, ["/usr/bin/python3", "-c", JOB.format(habit=HABITS[habit])], during)


def test_thread_stays_where_the_process_was_put(row, profd):
    row.does("is started on one processor, with nice 3, and takes all itself")
    row.nothing_recorded("no capture")
    one = {min(os.sched_getaffinity(0))}

    def during(job):
        profd.wait_steps(job.pid)
        for thread in agent_tids(job.pid):
            assert (os.sched_getaffinity(thread), os.getpriority(os.PRIO_PROCESS, thread)) == (one, 3)

    def put():
        os.sched_setaffinity(0, one)
        os.setpriority(os.PRIO_PROCESS, 0, 3)

    row.twice(profd, ["/usr/bin/python3", "-c", JOB.format(habit="os.sched_setaffinity(0, range(os.cpu_count()))")], during,
              preexec_fn=put)


def test_thread_of_a_deadline_thread(row, profd):
    row.does("runs its main thread SCHED_DEADLINE, which may start no thread")
    row.nothing_recorded("no capture")
    row.twice(profd, ["/usr/bin/python3", "-c", JOB.format(habit=DEADLINE)])


FORKS = """
import os, sys, ctypes
if sys.argv[1] == "torch":
    try:
        ctypes.CDLL("/nonexistent/libtorch_none.so")
    except OSError:
        pass
print("threads", len(os.listdir("/proc/self/task")) if sys.argv[1] != "torch" else "", flush=True)
pid = os.fork()
if pid == 0:
    os._exit(0)
os.waitpid(pid, 0)
print("forked", flush=True)
"""


@pytest.fixture
def warning_python():
    """A Python that warns of a fork beside threads: 3.12 and newer."""
    newest = max((int(version[2:]) for version in PYTHONS), default=0)
    if newest < 12:
        pytest.skip("no Python here warns of a fork beside threads: that takes 3.12 or newer")
    return PYTHONS[f"3.{newest}"]


def warned(ended):
    """Did the fork of this job give a warning? The job itself came to its end."""
    assert ended[0] == 0 and ended[1].endswith("forked\n"), ended
    return "DeprecationWarning" in ended[2] and "os.fork()" in ended[2]


def test_python_with_one_thread_forks(row, profd, warning_python):
    row.does("a Python script with one thread that forks, and uses nothing of torch or CUDA")
    row.nothing_recorded("no agent's thread")
    row.twice(profd, [warning_python, "-W", "always", "-c", FORKS, "none"])
    assert not warned(row.bare) and not warned(row.watched)


def test_python_with_one_thread_and_torch_forks(row, profd, warning_python):
    row.does("the same, and loads torch: Python 3.12 and newer warn (docs/job.md)")
    row.nothing_recorded("no capture")

    def mask(text):
        return [line for line in text.splitlines() if "DeprecationWarning" not in line and "os.fork()" not in line]

    row.twice(profd, [warning_python, "-W", "always", "-c", FORKS, "torch"], mask=mask)
    assert not warned(row.bare) and warned(row.watched)
