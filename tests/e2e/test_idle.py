"""Idle is free: what the agent does, and does not do, until a trigger comes. Times are in the benches."""
import os
import pathlib
import re
import subprocess
import time

import pytest

from conftest import BUILD, asleep, naps, wait_for
from proc import agent_thread, of_threads, opened

STEPS = BUILD / "workloads" / "steps"


def tasks(pid):
    return {tid: name.strip() for tid, name in of_threads(pid, "comm").items()}


def preloaded(profd, *command):
    return subprocess.run([str(profd.client), "run", "--", *map(str, command)], env=profd.env, capture_output=True,
                          text=True, timeout=30)


def test_a_program_without_gpu_nvtx_torch_has_no_thread_and_no_socket(profd):
    job = profd.job("/bin/sleep", "30")
    proc = pathlib.Path("/proc") / str(job.pid)
    wait_for(lambda: "libprofd_agent" in (proc / "maps").read_text(), what="the agent to be mapped")
    time.sleep(0.3)
    assert len(tasks(job.pid)) == 1
    assert not [fd for fd in opened(proc / "fd").values() if fd.startswith(("socket:", "anon_inode:"))]
    assert profd.process(job.pid) is None
    doctor = profd.run("doctor", "--pid", job.pid, check=False)
    assert doctor.returncode in (0, 3) and "agent" in doctor.stdout + doctor.stderr


def test_ordinary_programs_are_as_they_were(profd):
    for command in (["/bin/ls", "/"], ["/bin/sh", "-c", "echo out; echo err >&2; exit 3"], ["/usr/bin/env", "true"],
                    ["/usr/bin/python3", "-c", "import ctypes, json; print(json.dumps(1))"]):
        with_agent, without = preloaded(profd, *command), subprocess.run(command, capture_output=True, text=True)
        assert (with_agent.returncode, with_agent.stdout, with_agent.stderr) == \
            (without.returncode, without.stdout, without.stderr)


def test_a_musl_program_starts(profd, tmp_path):
    if subprocess.run(["sh", "-c", "command -v musl-gcc"], capture_output=True).returncode:
        pytest.skip("musl-gcc is not installed (package musl-tools)")
    source = tmp_path / "hello.c"
    source.write_text('#include <stdio.h>\nint main(void) { puts("hello"); return 4; }\n')
    subprocess.run(["musl-gcc", "-o", str(tmp_path / "hello"), str(source)], check=True)
    done = preloaded(profd, tmp_path / "hello")
    assert done.returncode == 4 and done.stdout == "hello\n", done.stderr


@pytest.mark.core
def test_the_agents_thread_sleeps_for_a_minute(profd):
    """No voluntary context switch in 60 s, under 2 MB of memory, one thread; after a capture, too."""
    job = profd.job(STEPS, "--step-ms=5")
    profd.wait_steps(job.pid, 20)
    profd.trigger(job.pid)
    thread = agent_thread(job.pid)
    switches = lambda: int(re.search(r"^voluntary_ctxt_switches:\s*(\d+)",
                                     (thread / "status").read_text(), re.M)[1])
    profd.wait_steps(job.pid, profd.process(job.pid)["step"] + 100)  # it watches a few steps after a capture
    wait_for(lambda: asleep(thread, 2), what="the agent's thread to sleep")
    before = switches()
    time.sleep(60)
    assert switches() == before
    assert list(tasks(job.pid).values()).count("profd") == 1


def test_memory(profd):
    """What the agent adds to a process that has never been triggered."""
    def rss(job):
        text = pathlib.Path(f"/proc/{job.pid}/smaps_rollup").read_text()
        return int(re.search(r"^Pss:\s*(\d+)", text, re.M)[1])
    plain, job = profd.job(STEPS, "--step-ms=5", agent=False), profd.job(STEPS, "--step-ms=5")
    profd.wait_steps(job.pid, 20)
    assert rss(job) - rss(plain) < 2048


def test_entering_twice_is_harmless(profd):
    """Every way in at once, from a job script as from `profd run`."""
    script = 'eval "$("$0" env)"; eval "$("$0" env)"; exec "$@"'
    job = profd.job("/bin/sh", "-c", script, profd.client, BUILD / "workloads" / "nvtx_mix", "--step-ms=10")
    row = profd.wait_steps(job.pid, 2)
    assert profd.trigger(job.pid)["status"] == "complete"
    maps = pathlib.Path(f"/proc/{job.pid}/maps").read_text()
    assert len({line.split()[-1] for line in maps.splitlines() if "libprofd_agent" in line}) == 1
    assert list(tasks(job.pid).values()).count("profd") == 1
    assert row["step_source"] == "profd_step"


def test_a_daemon_that_comes_later_is_found(empty_profd):
    profd = empty_profd
    job = profd.job(STEPS, "--step-ms=5")
    wait_for(lambda: naps(job.pid) > 200, what="its steps")
    profd.start_daemon()
    row = profd.wait_steps(job.pid, 2)
    assert row["step"] > 50  # it has counted from its own start
    assert profd.trigger(job.pid)["status"] == "complete"


def test_ps_tells_the_job(profd):
    slurm = {"SLURM_JOB_ID": "4711", "SLURM_PROCID": "3", "SLURM_LOCALID": "1", "SLURM_NTASKS": "8"}
    mpi = {"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_RANK": "0",
           "PMIX_NAMESPACE": "prterun-1"}
    torchrun = {"RANK": "5", "LOCAL_RANK": "1", "WORLD_SIZE": "16", "TORCHELASTIC_RUN_ID": "abc", **slurm}
    torchrun["SLURM_PROCID"] = "0"  # one task a node, which torchrun divides
    rows = []
    for env in (slurm, mpi, torchrun, {"PROFD_NAME": "mine", "PROFD_JOB": "my job"}, {}):
        job = profd.job(STEPS, "--step-ms=5", env=env)
        rows.append(profd.wait_registered(job.pid))
    found = [(r["launcher"] or "", r["job"] or "", r["rank"], r["local_rank"], r["world_size"], r["name"]) for r in rows]
    assert found == [("slurm", "4711", 3, 1, 8, "steps"), ("openmpi", "prterun-1", 2, 0, 4, "steps"),
                     ("torchrun", "4711", 5, 1, 16, "steps"), ("", "my job", None, None, None, "mine"),
                     ("", "", None, None, None, "steps")]
    assert all(r["command"].startswith(str(STEPS)) and r["uid"] == os.getuid() for r in rows)


def test_dlopen_is_the_callers_own(profd, tmp_path):
    """The agent sees dlopen pass, and leaves by a jump: whose RUNPATH is searched, and what dlerror says, is as without it."""
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner.c").write_text("int inner(void) { return 42; }\n")
    (tmp_path / "outer.c").write_text("""#include <dlfcn.h>
        int outer(void) { void *h = dlopen("libinner.so", RTLD_NOW); int (*f)(void) = h ? (int (*)(void))dlsym(h, "inner") : 0;
        return f ? f() : -1; }\n""")
    (tmp_path / "main.c").write_text("""#include <dlfcn.h>
        #include <stdio.h>
        int outer(void);
        int main(void) { printf("%d\\n", outer()); void *h = dlopen("libnowhere.so", RTLD_NOW);
        printf("%p %s\\n", h, dlerror()); return 0; }\n""")
    for line in (["-shared", "-fPIC", "inner.c", "-o", "inner/libinner.so"],
                 ["-shared", "-fPIC", "outer.c", "-o", "libouter.so", "-Wl,--enable-new-dtags,-rpath,$ORIGIN/inner", "-ldl"],
                 ["main.c", "-o", "main", "-L.", "-louter", "-ldl", "-Wl,--enable-new-dtags,-rpath,$ORIGIN"]):
        subprocess.run(["cc", *line], cwd=tmp_path, check=True)
    with_agent = preloaded(profd, tmp_path / "main")
    without = subprocess.run([str(tmp_path / "main")], capture_output=True, text=True)
    assert without.stdout.startswith("42\n")
    assert (with_agent.returncode, with_agent.stdout, with_agent.stderr) == (0, without.stdout, without.stderr)


@pytest.mark.parametrize("compiler,standard,suffix", [("cc", "-std=c99", "c"), ("c++", "-std=c++11", "cc")])
def test_a_program_that_is_linked_with_the_agent(profd, tmp_path, compiler, standard, suffix):
    """No preload, no variable: profd.h and the library are enough."""
    source = tmp_path / f"linked.{suffix}"
    source.write_text("""#include "profd.h"
        #include <unistd.h>
        int main(int argc, char **argv) {
            while (argc > 1 && access(argv[1], F_OK)) {
                profd_range_push("linked"); usleep(2000); profd_range_pop(); profd_mark("tick"); profd_step();
            }
            return profd_version()[0] != '0';
        }\n""")
    root = pathlib.Path(__file__).resolve().parents[2]
    subprocess.run([compiler, standard, "-Wall", "-Werror", "-D_DEFAULT_SOURCE", "-I", str(root / "agent"), str(source),
                    "-o", str(tmp_path / "linked"), str(profd.agent), f"-Wl,-rpath,{profd.agent.parent}"], check=True)
    over = tmp_path / "over"
    job = profd.job(tmp_path / "linked", over, agent=False)
    profd.wait_steps(job.pid, 5)
    shown = profd.show(profd.trigger(job.pid)["capture_id"])
    assert {r["name"]: r["calls"] for r in shown["ranges"]} == {"linked": 3}
    over.touch()
    assert job.wait(30) == 0
