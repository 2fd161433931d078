"""`profd attach` harms no job: each is compared with the same one that nobody touched (output, standard error, exit code), several at a time, so
that the machine is full. PROFD_ATTACHMENTS says how many attachments the table has, PROFD_PYTHON_ROOTS as in test_attach_containers.py."""
import collections
import concurrent.futures
import contextlib
import glob
import json
import os
import pathlib
import random
import re
import shutil
import statistics
import subprocess
import tempfile
import threading
import time
from typing import NamedTuple, Optional

import pytest

import gpu
from conftest import BUILD, WORKLOADS, line_of, wait_for
from test_attach import bare
from test_attach_containers import JOB, PERL, contained, perls, pythons
from pythons import PYTHONS

ATTACHMENTS = int(os.environ.get("PROFD_ATTACHMENTS", "12"))
AT_ONCE = 2 * (os.cpu_count() or 1)
TORCH = os.environ.get("PROFD_TORCH_NEWEST")
STEADY = BUILD / "workloads" / "steady"
JEMALLOC = glob.glob("/usr/lib/*/libjemalloc.so.2")
pytestmark = pytest.mark.skipif(os.uname().machine != "x86_64", reason="x86-64 alone")

# Does what it is called for, and goes on so until its input ends: it is there as long as somebody attaches to it, on a slow machine, too.
WORK = """
import sys, hashlib, select, threading, time
def over():
    return bool(select.select([0], [], [], 0)[0])
def work(n):
    h, x, i = hashlib.sha256(), 0, 0
    while i < n or not over():
        texts = []
        for j in range(2000):
            x = (x * 31 + j) % 1000003
            texts.append(str(x))
        if i < n:
            h.update("".join(texts).encode())
        i += 1
    return h.hexdigest()
print("ready", flush=True)
how = sys.argv[1]
if how == "busy":
    r = work(300)
elif how == "threads":
    r = []
    threads = [threading.Thread(target=lambda: r.append(work(100))) for _ in range(3)]
    for t in threads:
        t.start()
    threading.Thread(target=threading.Event().wait, daemon=True).start()
    for t in threads:
        t.join()
elif how == "crowd":
    threading.stack_size(256 << 10)
    for _ in range(200):
        threading.Thread(target=threading.Event().wait, daemon=True).start()
    r = work(250)
elif how == "fork":
    import multiprocessing
    # The input of those that are forked is no pipe: they end by themselves.
    with multiprocessing.get_context("fork").Pool(2) as pool:
        r = pool.map(work, [600] * 6)
    work(0)
elif how == "sleepy":
    while not over():
        time.sleep(0.02)
    r = work(100)
print(r, flush=True)
sys.exit(7)
"""

# Exceptions are thrown and caught, strings and maps come and go, by threads beside one that waits for a condition.
CPLUSPLUS = r"""
#include <condition_variable>
#include <cstdint>
#include <iostream>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>
static std::mutex lock;
static std::condition_variable over;
static bool done;
static void work(std::uint64_t *digest)
{
	std::map<std::uint64_t, std::string> held;
	for (int i = 0; i < 2000000; i++) {
		*digest = *digest * 6364136223846793005u + 1442695040888963407u;
		held[*digest >> 56] = std::to_string(*digest) + " is longer than what a string holds in itself";
		try {
			if (*digest >> 60 == 7)
				throw std::runtime_error(held.begin()->second);
		} catch (const std::exception &e) {
			*digest += static_cast<unsigned char>(e.what()[0]);
		}
	}
}
int main()
{
	std::cout << "ready" << std::endl;
	std::uint64_t digests[2] = {1, 2};
	std::thread waits([] { std::unique_lock<std::mutex> held(lock); over.wait(held, [] { return done; }); });
	std::vector<std::thread> threads;
	for (auto &digest : digests)
		threads.emplace_back(work, &digest);
	for (auto &thread : threads)
		thread.join();
	{ std::lock_guard<std::mutex> held(lock); done = true; }
	over.notify_one();
	waits.join();
	std::cout << digests[0] << " " << digests[1] << std::endl;
	return 7;
}
"""
# Until its input ends.
HELLO = """
#include <stdio.h>
int main(void) { puts("ready"); fflush(stdout); while (getchar() != EOF) {} puts("the end"); return 7; }
"""
# The same without a library, as few machines have one of 32 bits (gcc-multilib): by the system calls of i386.
HELLO_32 = """
static int call(int number, int a, const void *b, int c)
{
	int result;
	__asm__ volatile("int $0x80" : "=a"(result) : "0"(number), "b"(a), "c"(b), "d"(c) : "memory");
	return result;
}
void _start(void)
{
	static char input;
	call(4, 1, "ready\\n", 6);
	while (call(3, 0, &input, 1) == 1) {}
	call(4, 1, "the end\\n", 8);
	call(1, 7, 0, 0);
}
"""
# What the client refuses, and the words that it says so with.
REFUSED = {"C, musl": (["musl-gcc"], HELLO, "is built with musl"), "C, static": (["cc", "-static"], HELLO, "profd run"),
           "C, of 32 bits": (["cc", "-m32", "-nostdlib", "-static", "-fno-pic", "-no-pie", "-fno-stack-protector"], HELLO_32, "another architecture"),
           "C, of 32 bits, with libraries": (["cc", "-m32"], HELLO, "another architecture")}


def compiled(folder, name, command, source):
    """The program, None where the machine has no such compiler."""
    (folder / name).write_text(source)
    if not shutil.which(command[0]):
        return None
    done = subprocess.run([*command, "-o", folder / f"{name}.out", folder / name], capture_output=True, check=False)
    return folder / f"{name}.out" if done.returncode == 0 else None


class Target:
    """A job that can be started as often as one likes, each time with the same end."""

    def __init__(self, command, env=None, child=False):
        self.command, self.env, self.child = list(map(str, command)), env or {}, child

    @contextlib.contextmanager
    def running(self, profd):
        """Yields (the job, which has said its first line, and the pid to attach to)."""
        job = subprocess.Popen(self.command, env={**bare(profd), **self.env}, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
        try:
            assert line_of(job.stdout), job.communicate()
            yield job, self.worker(job.pid) if self.child else job.pid
        finally:
            job.kill()
            job.communicate()

    @staticmethod
    def worker(pid):
        path = pathlib.Path(f"/proc/{pid}/task/{pid}/children")
        return int(wait_for(lambda: path.read_text().split(), what="a worker")[0])

    def end(self, job):
        out, err = (text.decode() for text in job.communicate(timeout=300))
        return job.returncode, re.sub(r'"pid": \d+', "", out), err


class Contained:
    def __init__(self, root, program, users, code=JOB):
        self.how = root, program, users, code

    @contextlib.contextmanager
    def running(self, profd):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="attach-", dir=profd.folder.parent))
        with contained(profd, folder, *self.how) as (job, pid, self_end):
            job.over = self_end
            yield job, pid

    def end(self, job):
        job.over.write_text("")
        out, err = job.communicate(timeout=300)
        return job.returncode, out, err


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    path = tmp_path_factory.mktemp("attach") / "work.py"
    path.write_text(WORK)
    compiled(path.parent, "work.cc", ["c++", "-O1", "-pthread"], CPLUSPLUS)
    return path


def targets(work):
    found = {f"C, {how}": Target([STEADY, how, "0.3", "input"]) for how in ("mixed", "crowd", "sleep")}
    cplusplus = work.parent / "work.cc.out"
    if cplusplus.exists():
        found["C++, with exceptions"] = Target([cplusplus])
    for version, path in PYTHONS.items():
        for how in ("busy", "threads", "crowd", "fork", "sleepy"):
            found[f"Python {version}, {how}"] = Target([path, work, how])
    if JEMALLOC:
        found["C, jemalloc"] = Target([STEADY, "mixed", "0.3", "input"], {"LD_PRELOAD": JEMALLOC[0]})
        found["Python, jemalloc"] = Target(["/usr/bin/python3", work, "threads"], {"LD_PRELOAD": JEMALLOC[0]})
    if (BUILD / "sim" / gpu.MIDDLE).exists():
        found["C, simulated GPU"] = Target([gpu.WORKLOAD, "--steps=300", "--rate=100", "--lines", "--streams=2", "--graph=3"],
                                           gpu.environment(gpu.MIDDLE))
    if TORCH:
        train = [TORCH, WORKLOADS / "train.py", "--steps", "150"]
        found["torch, training"] = Target([*train, "--model", "transformer", "--pad-ms", "3"])
        found["torch, training by 3 threads"] = Target([*train, "--model", "cnn", "--threads", "3", "--batch", "16"])
        loader = [*train, "--loader", "--workers", "1", "--load-ms", "1"]
        found["torch, with DataLoader workers"] = Target(loader)
        found["torch, a DataLoader worker"] = Target(loader, child=True)
    if os.geteuid() == 0:
        for name, (root, python) in pythons().items():
            found[f"{name}, contained"] = Contained(root, python, "")
            found[f"{name}, user namespace"] = Contained(root, python, "--user --map-root-user")
        for name, (root, perl) in perls().items():
            found[f"C, {name}, contained"] = Contained(root, perl, "", PERL)
    return found


def normal(ended):
    return ended[0], re.sub(r"ready \d+", "ready", ended[1]), ended[2]


class Untouched:
    """How each target ends if nobody touches it."""

    def __init__(self, profd, all_targets):
        self.profd, self.targets = profd, all_targets
        self.known, self.locks = {}, {name: threading.Lock() for name in all_targets}

    def __call__(self, name):
        with self.locks[name]:
            if name not in self.known:
                with self.targets[name].running(self.profd) as (job, _):
                    self.known[name] = normal(self.targets[name].end(job))
            return self.known[name]


class Row(NamedTuple):
    """An attachment, and what it did to the job."""
    name: str
    way: str  # "refused (CODE)" where it was
    stood: Optional[int] = None  # ns that a thread stood
    took: float = 0  # seconds of the client
    same: bool = True  # the job's end was that of the job that nobody touched
    said: str = ""
    fault: str = ""  # what should not be, besides a job that was harmed

    def line(self):
        stood = "-" if self.stood is None else f"{self.stood / 1e3:.0f}"
        return f"{self.name:44} {self.way:14} {stood:>15} {self.took:>9.2f}  {'yes' if self.same else 'NO':9}  {self.said} {self.fault}".rstrip()


HEAD = f"{'TARGET':44} {'WAY':14} {'STOOD FOR (us)':>15} {'TOOK (s)':>9}  IDENTICAL"
# Of the jobs here each has a place where it can be made to load the agent: nothing but its end, which comes when it comes, is a reason not to be
# attached to.
ENDED = "has ended", "is ending", "has not started yet, or has ended"


def attached(profd, untouched, name, pause, refusal=None):
    wanted, unforeseen = untouched(name), ""
    with untouched.targets[name].running(profd) as (job, pid):
        time.sleep(pause)  # where in its life it is met
        if refusal:  # the doctor says so beforehand
            seen = [row for row in profd.json("doctor", "--pid", pid, codes=range(10))["checks"] if row["check"] == "attach"]
            unforeseen = "" if [row["result"] for row in seen if refusal in row["sentence"]] == ["failed"] else f"the doctor does not say so: {seen}"
        since = time.monotonic()
        done = profd.run("attach", "--pid", pid, "--format", "json", check=False)
        took = time.monotonic() - since
        ended = normal(untouched.targets[name].end(job))
    said = done.stderr.strip()
    if done.returncode == 0:
        told = json.loads(done.stdout)
        return Row(name, told["way"], told["stood_ns"] if told["tid"] else None, took, ended == wanted, said, difference(wanted, ended))
    expected = any(words in said for words in ((refusal,) if refusal else ENDED))
    fault = "" if expected and said.startswith("profd: ") else f"not a refusal of this job: {done}"
    return Row(name, f"refused ({done.returncode})", None, took, ended == wanted, said, fault or unforeseen or difference(wanted, ended))


def difference(wanted, ended):
    """What of the end is another one: where it begins to be."""
    told = []
    for part, was, now in zip(("exit code", "output", "standard error"), map(str, wanted), map(str, ended)):
        first = max(0, len(os.path.commonprefix([was, now])) - 100)
        if was != now:
            told.append(f"{part}: {was[first:first + 400]!r}, now {now[first:first + 400]!r}")
    return "; ".join(told)


def tried(profd, untouched, name, pause):
    """The row, whatever happens: one that fails is no reason to know nothing of the others. It is printed as it comes, as the table is only there once
    all are over."""
    try:
        row = attached(profd, untouched, name, pause)
    except Exception as error:  # pylint: disable=broad-except
        row = Row(name, "failed", fault=repr(error))
    print(row.line(), flush=True)
    return row


def reasons(rows):
    """How often each was said, without what differs from process to process."""
    said = collections.Counter(re.sub(r"\d{2,}", "N", row.said) for row in rows if row.way.startswith("refused"))
    return [f"{count:>5} times: {text}" for text, count in said.most_common()]


def print_table(rows):
    print(f"\n{HEAD}", *(row.line() for row in sorted(rows, key=lambda row: row.name)), sep="\n")
    print(f"\n{'TARGET':44} {'DONE':>9} {'MEDIAN (us)':>15} {'WORST (us)':>15} {'HARMED':>9}")
    for name in sorted({row.name for row in rows}):
        mine = [row for row in rows if row.name == name]
        stood = [row.stood / 1e3 for row in mine if row.stood is not None]
        figures = (f"{statistics.median(stood):.0f}", f"{max(stood):.0f}") if stood else ("-", "-")
        print(f"{name:44} {f'{sum(is_done(row) for row in mine)}/{len(mine)}':>9} {figures[0]:>15} {figures[1]:>15} {sum(not row.same for row in mine):>9}")


def is_done(row):
    return row.way != "failed" and not row.way.startswith("refused")


def print_sums(rows, seconds):
    stood = sorted(row.stood / 1e3 for row in rows if row.stood is not None)
    print(f"{len(rows)} attachments, {AT_ONCE} at a time, in {seconds:.0f} s: {sum(map(is_done, rows))} done, {len(rows) - sum(map(is_done, rows))} not, "
          f"{sum(not row.same for row in rows)} harmed")
    print(f"a thread stood in {len(stood)}: median {statistics.median(stood):.0f} us, of 20 the slowest {stood[-len(stood) // 20]:.0f} us or more, "
          f"worst {stood[-1]:.0f} us")
    for what, those in (("done", [row.took for row in rows if is_done(row)]), ("refused", [row.took for row in rows if row.way.startswith("refused")])):
        if those:
            print(f"the client took, {what}: median {statistics.median(those):.2f} s, worst {max(those):.2f} s")
    print(*reasons(rows), sep="\n")


def test_every_line_of_a_job_is_compared(profd):
    """Also of one that says its second line before its first one is read, and where they differ is said."""
    lines = "".join(f"{number}\n" for number in range(1, 5001))
    target = Target(["/bin/sh", "-c", "seq 5000; exit 7"])
    with target.running(profd) as (job, _):
        ended = target.end(job)
    assert ended == (7, lines.removeprefix("1\n"), "")
    assert difference(ended, ended) == "" and r"3999\n4\n4001\n" in difference(ended, (7, ended[1].replace("4000\n", "4\n"), ""))


@pytest.mark.core
@pytest.mark.serial
def test_no_job_is_harmed(profd, work):
    rng, found, since = random.Random(13), targets(work), time.monotonic()
    untouched, names = Untouched(profd, found), sorted(found, key=lambda name: "torch" in name)
    if ATTACHMENTS >= 200:
        kinds = ["Python 3.11,", "torch,", "jemalloc"] + (["3.13", "3.14", "contained"] if os.geteuid() == 0 else [])
        missing = [kind for kind in kinds if not any(kind in name for name in names)]
        assert not missing, f"the whole table has all kinds; PROFD_PYTHON_ROOTS, PROFD_TORCH_NEWEST and libjemalloc2 bring them: {missing}"
    if ATTACHMENTS < len(names):  # some of each kind
        names = [names[number * len(names) // ATTACHMENTS] for number in range(ATTACHMENTS)]
    print(f"\nas they come:\n{HEAD}")
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        asked = [pool.submit(tried, profd, untouched, names[number % len(names)], rng.random() * 0.3) for number in range(ATTACHMENTS)]
        rows = [one.result() for one in asked]
    print_table(rows)
    print_sums(rows, time.monotonic() - since)
    wrong = [row for row in rows if not row.same or row.fault]
    assert not wrong, wrong
    assert sum(map(is_done, rows)) >= 0.9 * len(rows)


def test_what_is_refused_is_left_alone(profd, tmp_path):
    rows = []
    for number, (name, (command, source, words)) in enumerate(REFUSED.items()):
        program = compiled(tmp_path, f"hello{number}.c", command, source)
        if not program:
            print(f"{name}: not tried, {' '.join(command[:2])} makes no program here")
            continue
        target = Target([program])
        try:
            row = attached(profd, Untouched(profd, {name: target}), name, 0, words)
        except OSError as error:  # a kernel that runs no programs of 32 bits
            print(f"{name}: not tried, {error}")
            continue
        assert words in row.said and row.way.startswith("refused") and not row.fault, row
        rows.append(row)
    print_table(rows)
    assert rows and all(row.same for row in rows), rows


# What the client asks the kernel for, of what touches a process on its way: each is a step.
STEPS = "ptrace", "pwrite64", "process_vm_readv", "mkdirat"
# What becomes of the client in a step, in strace's words: it is killed; held up for longer than the thread waits for it; told that it may not. Another
# way leaves what it would do undone.
FATES = {"killed": "signal=SIGKILL", "held up": "delay_exit=400000", "refused": "error=EIO"}


def steps_of(profd, target, folder):
    """How often each comes where nothing happens."""
    with target.running(profd) as (_, pid):
        done = subprocess.run(["strace", "-f", "-qq", "-o", folder / "steps", "-e", f"trace={','.join(STEPS)}", profd.client, "attach", "--pid", str(pid)],
                              env=profd.env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done
    return collections.Counter(re.findall(r"^\d+ +(\w+)\(", (folder / "steps").read_text(), re.M))


def met(profd, untouched, name, step, fate):
    """What is left of the client in that step; says whether it came so far."""
    (call, number), wanted = step, untouched(name)
    with untouched.targets[name].running(profd) as (job, pid):
        done = subprocess.run(["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={call}", "-e", f"inject={call}:{FATES[fate]}:when={number}",
                               profd.client, "attach", "--pid", str(pid)], env=profd.env, capture_output=True, text=True, timeout=120, check=False)
        ended = normal(untouched.targets[name].end(job))
        assert ended == wanted, (name, step, fate, difference(wanted, ended), done)
    assert fate == "killed" or done.returncode == 0 or "profd: " in done.stderr, (name, step, fate, done)
    return done.returncode in (-9, 137)


@pytest.mark.wide
def test_every_step_of_the_way(profd, work, tmp_path):
    """kill -9 of the client in each of its steps, one that takes its time in each, and one that is refused in each: the job goes on, and ends as ever. All of
    them are for PROFD_ATTACHMENTS=100; else each eighth is killed, and one of the others in each job."""
    if not shutil.which("strace"):
        pytest.skip("strace counts the system calls; it is not installed")
    found, whole = targets(work), ATTACHMENTS >= 100
    some = [name for name in ("C, crowd", f"Python {min(PYTHONS)}, busy", "Python 3.11, threads") if name in found]
    by_slot = [name for name in found if name.startswith("python3.14 ") and name.endswith("contained")]  # which makes a folder, and stops nothing
    some += by_slot
    untouched = Untouched(profd, found)
    tried_at = {}
    for name in some:
        counts = steps_of(profd, found[name], tmp_path)
        steps = [(call, number) for call in STEPS for number in range(1, counts[call] + 1)]
        for part, fate in enumerate(FATES if name in (some[0], some[1], *by_slot) else ["killed"]):
            tried_at[name, fate] = steps if whole else steps[(part + 2 * some.index(name)) % len(steps)::8 if fate == "killed" else len(steps)]
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        asked = {(*key, step): pool.submit(met, profd, untouched, key[0], step, key[1]) for key, steps in tried_at.items() for step in steps}
        killed = [(name, step) for (name, fate, step), one in asked.items() if one.result() and fate == "killed"]
    print(f"\n{len(asked)} times in a step of the way, 0 harmed; killed in:")
    for name in some:
        places = {call: [number for there, (what, number) in killed if there == name and what == call] for call in STEPS}
        print(f"{name}: {', '.join(f'{call} {numbers}' for call, numbers in places.items() if numbers)}")
        if name in by_slot:
            assert not whole or places["mkdirat"], places
        # So many an attachment makes at least; what comes after that may be another try.
        elif whole:
            assert places["ptrace"][:20] == list(range(1, 21)) and places["pwrite64"][:3] == [1, 2, 3] and places["process_vm_readv"], places
        else:
            assert len(places["ptrace"]) >= 2, places
