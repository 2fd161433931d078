"""Jobs in containers: their own pid, mount and user namespaces, another root, with the socket's folder mounted in. The
daemon runs as the service does: a user of its own, its socket in a folder of root's."""
import concurrent.futures
import json
import os
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time

import pytest

import fake_agent as fake
from conftest import BUILD, WORKLOADS, wait_for
from container import Container, make_root

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make another user's containers")

SERVICE = 64321  # the uid that stands for user profd
ANN, BEN = 100000, 200000  # first of 65536 host uids of two people's containers
AGENT = "/usr/lib/profd/libprofd_agent.so"


@pytest.fixture(scope="module")
def root():
    """The containers' root file system, and the client for other users outside."""
    folder = tempfile.mkdtemp(prefix="profd-root-")
    os.chmod(folder, 0o755)
    made = make_root(folder, BUILD, [BUILD / "workloads" / "steps"])
    shutil.copy(os.environ.get("PROFD_DAEMON", BUILD / "bin" / "profd-daemon"), made / "profd-daemon")
    yield made
    shutil.rmtree(folder, ignore_errors=True)


class Service:
    """The daemon, its folder, its containers, and callers outside of them."""

    def __init__(self, root, prefix=()):
        self.root = root
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="profd-service-"))
        os.chmod(self.folder, 0o755)
        self.run_folder, self.store = self.folder / "run", self.folder / "store"
        for path in (self.run_folder, self.store):
            path.mkdir()
            os.chown(path, SERVICE, SERVICE)
        self.socket = self.run_folder / "profd.sock"
        self.log_path = self.folder / "daemon.log"
        self.containers = []
        self.start(prefix)

    def start(self, prefix=()):
        env = {k: v for k, v in os.environ.items() if not k.startswith("PROFD_")}
        with open(self.log_path, "ab") as log:
            self.daemon = subprocess.Popen([*prefix, "setpriv", "--reuid", str(SERVICE), "--regid", str(SERVICE), "--clear-groups",
                                            str(self.root / "profd-daemon"), "--dir", str(self.store), "--socket", str(self.socket),
                                            "--verbose"], env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_for(lambda: self.profd("status", code=None) is not None, 10, "the daemon")
        os.chown(self.run_folder, 0, 0)

    def log(self):
        return self.log_path.read_text(errors="replace")

    def profd(self, *arguments, uid=0, code=0):
        """`profd ARGUMENTS --format json` outside, as `uid`. With code None: None where it fails."""
        who = ["setpriv", "--reuid", str(uid), "--regid", str(uid), "--clear-groups"] if uid else []
        done = subprocess.run([*who, str(self.root / "usr/bin/profd"), *map(str, arguments), "--format", "json"],
                              env={"PROFD_SOCKET": str(self.socket), "PATH": os.environ["PATH"], "HOME": "/nonexistent"},
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
        if code is None:
            return json.loads(done.stdout) if done.returncode == 0 else None
        assert done.returncode == code, (arguments, done)
        return json.loads(done.stdout) if done.stdout else {"err": done.stderr}

    def container(self, uids=ANN, at="/run/profd", **more):
        container = Container(self.root, [(self.run_folder, at), *more.pop("binds", ())], uids=uids, **more)
        self.containers.append(container)
        return container

    def rows(self, uid=0):
        return self.profd("ps", uid=uid)["processes"]

    def row(self, name, uid=0, seconds=15):
        """The row of the process of that name once it has stepped."""
        def look():
            return next((row for row in self.rows(uid) if row["name"] == name and row["step"] > 1), None)
        return wait_for(look, seconds, f"{name} to step\n{self.log()}")

    def close(self):
        for container in self.containers:
            container.close()
        self.daemon.send_signal(signal.SIGTERM)
        # Whoever ran it in a namespace of its own passes no signal on.
        try:
            self.daemon.wait(10)
        except subprocess.TimeoutExpired:
            self.daemon.kill()
            self.daemon.wait(10)
        log = self.log()
        shutil.rmtree(self.folder, ignore_errors=True)
        assert "ERROR: AddressSanitizer" not in log and "runtime error:" not in log, log


@pytest.fixture
def service(root):
    service = Service(root)
    yield service
    service.close()


def job(container, name, *arguments, uid=None, env=None):
    """A job that steps, by `profd run` inside; its pid inside."""
    return container.start("/usr/bin/profd", "run", "--no-daemon-start", "--name", name, "--", "/job/steps", "--step-ms=5", *arguments,
                           uid=uid, env=env)


def pids_of(pid):
    """All pids of a process, from outside inwards."""
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("NSpid:"):
            return list(map(int, line.split()[1:]))
    raise AssertionError


def captures(answer):
    return [(c["pid"], c["status"], c["steps_recorded"], c["lost"]) for c in answer["captures"]]


def test_registered_and_triggered_from_both_sides(service):
    """A user's job in a container of that user: the kernel's own word for pid and uid, and each caller's own pid."""
    container = service.container()
    container.skip(5)
    inner = job(container, "ann")
    row = service.row("ann")
    assert pids_of(row["pid"]) == [row["pid"], inner] and inner > 5
    assert row["uid"] == ANN and row["command"] == "/job/steps --step-ms=5"
    assert "steps" in os.readlink(f"/proc/{row['pid']}/exe")

    answer = service.profd("trigger", "--pid", row["pid"], "--steps", 3, uid=ANN)
    assert captures(answer) == [(row["pid"], "complete", 3, 0)]
    first = answer["captures"][0]["capture_id"]
    answer = container.profd("trigger", "--pid", inner, "--steps", 4)
    assert captures(answer) == [(inner, "complete", 4, 0)]
    second = answer["captures"][0]["capture_id"]

    # All that is listed is in the words of who asks.
    assert [r["pid"] for r in container.profd("ps")["processes"]] == [inner]
    assert [r["pid"] for r in container.profd("ps", "--pid", inner)["processes"]] == [inner]
    assert [c["capture_id"] for c in container.profd("captures", "--pid", inner)["captures"]] == [second, first]
    assert {c["pid"] for c in container.profd("captures")["captures"]} == {inner}
    assert [c["capture_id"] for c in service.profd("captures", "--pid", row["pid"], uid=ANN)["captures"]] == [second, first]
    assert container.profd("show", first)["capture"]["pid"] == inner
    assert service.profd("show", second)["capture"]["pid"] == row["pid"]
    assert container.profd("doctor", "--pid", inner)["process"]["pid"] == inner
    assert service.profd("doctor", "--pid", row["pid"], uid=ANN)["process"]["pid"] == row["pid"]
    assert [t["thread"] for t in service.profd("show", first)["threads"] if t["ranges"]] == [inner]

    # What the other side calls so means nothing here.
    assert container.run("/usr/bin/profd", "trigger", "--pid", row["pid"])["code"] == 3
    assert container.profd("captures", "--pid", row["pid"], codes=(3,))["captures"] == []
    service.profd("trigger", "--pid", inner, uid=ANN, code=6 if pathlib.Path(f"/proc/{inner}").exists() else 3)
    said = container.run("/usr/bin/profd", "trigger", "--pid", row["pid"])["err"]
    assert f"no registered process matches pid {row['pid']}" in said and "profd ps" in said

    # Cancelled by the pid of who cancels.
    container.profd("trigger", "--pid", inner, "--steps", 10000, "--no-wait")
    wait_for(lambda: service.row("ann")["state"] == "recording", 10, "the recording")
    container.profd("cancel", "--pid", row["pid"], codes=(3,))
    assert len(container.profd("cancel", "--pid", inner)["cancelled"]) == 1
    last = wait_for(lambda: next((c for c in container.profd("captures")["captures"] if c["status"] == "incomplete"), None), 10, "its end")
    assert last["pid"] == inner and last["reason_code"] == "cancelled" and last["lost"] == 0


def test_two_containers_with_the_same_pid_inside(service):
    """One user, two containers, one pid: each caller means its own."""
    one, two = service.container(), service.container()
    pid = job(one, "one")
    assert job(two, "two") == pid
    rows = {name: service.row(name) for name in ("one", "two")}
    assert rows["one"]["pid"] != rows["two"]["pid"]
    for container, name in ((one, "one"), (two, "two")):
        seen = {row["name"]: row["pid"] for row in container.profd("ps")["processes"]}
        other = "two" if name == "one" else "one"
        assert seen == {name: pid, other: None}
        answer = container.profd("trigger", "--pid", pid, "--steps", 2)
        assert captures(answer) == [(pid, "complete", 2, 0)] and answer["captures"][0]["name"] == name
        # By name what has no pid here can be had all the same.
        answer = container.profd("trigger", "--name", other, "--steps", 2)
        assert captures(answer) == [(None, "complete", 2, 0)]
        said = container.run("/usr/bin/profd", "trigger", "--name", other, "--steps", "2")
        assert said["code"] == 0 and "pid not seen from here" in said["out"] and "pid 0" not in said["out"] + said["err"], said
        table = container.run("/usr/bin/profd", "ps")
        assert "outside of this container" in table["err"], table
    answer = service.profd("trigger", "--pid", f"{rows['one']['pid']},{rows['two']['pid']}", "--steps", 2)
    assert sorted(c["name"] for c in answer["captures"]) == ["one", "two"]


def test_a_container_in_a_container(service):
    """Three levels: each caller means by a pid what it is called on its own."""
    middle = service.container()
    inner = middle.nest(uid_map="0 0 65536")
    sibling = middle.nest(uid_map="0 0 65536")
    deep = job(inner, "deep")
    assert job(sibling, "beside") == deep
    row = service.row("deep")
    pids = pids_of(row["pid"])
    assert len(pids) == 3 and pids[2] == deep and len(set(pids)) == 3
    assert row["uid"] == ANN
    answers = [service.profd("trigger", "--pid", pids[0], "--steps", 2, uid=ANN),
               middle.profd("trigger", "--pid", pids[1], "--steps", 2),
               inner.profd("trigger", "--pid", pids[2], "--steps", 2)]
    assert [captures(answer) for answer in answers] == [[(pid, "complete", 2, 0)] for pid in pids]
    assert {answer["captures"][0]["name"] for answer in answers} == {"deep"}
    beside = pids_of(service.row("beside")["pid"])
    assert {r["name"]: r["pid"] for r in middle.profd("ps")["processes"]} == {"deep": pids[1], "beside": beside[1]}
    assert {r["name"]: r["pid"] for r in inner.profd("ps")["processes"]} == {"deep": pids[2], "beside": None}
    assert len(middle.profd("captures", "--pid", pids[1])["captures"]) == 3
    assert middle.profd("captures", "--pid", beside[1], codes=(3,))["captures"] == []
    assert middle.profd("doctor", "--pid", pids[1])["process"]["name"] == "deep"


def test_another_users_container(service):
    """Neither seen nor touched, by inner pid, by outer pid or by name; not even told apart from nothing."""
    ann, ben = service.container(), service.container(uids=BEN)
    pid = job(ann, "ann")
    job(ben, "ben")
    row = service.row("ann")
    assert {service.row("ben")["uid"], row["uid"]} == {ANN, BEN}
    ben.skip(3)
    for arguments in (("ps",), ("captures",)):
        assert all(r["name"] == "ben" for rows in ben.profd(*arguments).values() if isinstance(rows, list) for r in rows)
    assert ben.run("/usr/bin/profd", "trigger", "--name", "ann")["code"] == 3
    assert ben.profd("trigger", "--pid", pid, "--steps", 2)["captures"][0]["name"] == "ben"
    nobody = ben.run("/usr/bin/profd", "trigger", "--pid", "4000000")
    assert ben.run("/usr/bin/profd", "trigger", "--pid", str(row["pid"]))["code"] == nobody["code"] == 3
    # Outside, where both can be seen, the refusal says whose it is.
    service.profd("trigger", "--pid", row["pid"], uid=BEN, code=6)
    service.profd("doctor", "--pid", row["pid"], uid=BEN, code=6)
    captured = service.profd("trigger", "--pid", row["pid"], "--steps", 2, uid=ANN)["captures"][0]["capture_id"]
    assert ben.run("/usr/bin/profd", "show", captured)["code"] == 6
    # A root that is one only in its own container is no administrator; the machine's is.
    assert {r["name"] for r in service.rows()} == {"ann", "ben"}


def test_users_inside(service):
    """A job of a container's own user is a subordinate uid's, which is what the machine knows of it."""
    container = service.container()
    pid = job(container, "app", uid=1000)
    row = service.row("app")
    assert row["uid"] == ANN + 1000 and pids_of(row["pid"])[1] == pid
    assert service.rows(uid=ANN) == []
    assert container.profd("ps")["processes"] == []
    answer = container.profd("trigger", "--pid", pid, "--steps", 2, uid=1000)
    assert captures(answer) == [(pid, "complete", 2, 0)]


@pytest.mark.parametrize("proc", ["hidepid", "none"])
def test_without_proc(service, proc):
    """A container whose /proc hides other processes, or that has none: outside all is as ever; inside what can be known."""
    container = service.container(proc=proc)
    environment = {"LD_PRELOAD": AGENT, "PROFD_NAME": "job" if proc == "hidepid" else ""}
    pid = container.start("/job/steps", "--step-ms=5", env=environment)
    row = service.row("job" if proc == "hidepid" else "steps")
    assert pids_of(row["pid"])[1] == pid and row["uid"] == ANN
    assert captures(service.profd("trigger", "--pid", row["pid"], "--steps", 3)) == [(row["pid"], "complete", 3, 0)]
    if proc == "hidepid":
        assert row["command"] == "/job/steps --step-ms=5"
        assert captures(container.profd("trigger", "--pid", pid, "--steps", 3)) == [(pid, "complete", 3, 0)]
    else:
        assert row["command"] == ""
        assert container.profd("ps")["processes"][0]["pid"] is None
        assert container.run("/usr/bin/profd", "trigger", "--pid", str(pid))["code"] == 3
        assert container.run("/usr/bin/profd", "trigger", "--pid", str(row["pid"]))["code"] == 3
        assert captures(container.profd("trigger", "--name", "steps", "--steps", 3)) == [(None, "complete", 3, 0)]


def test_the_machine_hides_processes(root):
    """/proc of the machine itself is mounted hidepid=2, and the daemon may not look: pids at both ends are known."""
    service = Service(root, prefix=["unshare", "--mount", "sh", "-c", "mount -t proc -o hidepid=2 proc /proc && exec \"$@\"", "sh"])
    try:
        container = service.container()
        pid = job(container, "ann")
        row = service.row("ann")
        assert pids_of(row["pid"])[1] == pid
        assert captures(service.profd("trigger", "--pid", row["pid"], "--steps", 2, uid=ANN)) == [(row["pid"], "complete", 2, 0)]
        assert captures(container.profd("trigger", "--pid", pid, "--steps", 2)) == [(pid, "complete", 2, 0)]
    finally:
        service.close()


def test_another_place_for_the_socket(service):
    """PROFD_SOCKET and PROFD_AGENT inside: the folder is mounted elsewhere, and so is the agent."""
    elsewhere = service.folder / "agent"
    elsewhere.mkdir()
    shutil.copy(BUILD / "lib" / "libprofd_agent.so", elsewhere / "agent.so")
    container = service.container(at="/mnt/profd", binds=[(elsewhere, "/mnt/agent")],
                                  env={"PROFD_SOCKET": "/mnt/profd/profd.sock", "PROFD_AGENT": "/mnt/agent/agent.so"})
    lines = container.run("/usr/bin/profd", "env")
    assert "export LD_PRELOAD='/mnt/agent/agent.so'" in lines["out"], lines
    lines = container.run("/usr/bin/profd", "env", "--shell", "file", "--name", "a b")["out"].splitlines()
    assert "LD_PRELOAD=/mnt/agent/agent.so" in lines and "PROFD_NAME=a b" in lines and all("=" in line for line in lines)
    assert container.run("/usr/bin/profd", "env", "--shell", "file", "--name", "a\nb")["code"] == 2
    pid = job(container, "ann")
    row = service.row("ann")
    assert "/mnt/agent/agent.so" in pathlib.Path(f"/proc/{row['pid']}/maps").read_text()
    assert captures(container.profd("trigger", "--pid", pid, "--steps", 2)) == [(pid, "complete", 2, 0)]
    missing = container.run("/usr/bin/profd", "run", "--", "/job/steps", "--steps=1", env={"PROFD_AGENT": "/nowhere/agent.so"})
    assert missing["code"] == 1 and "PROFD_AGENT names /nowhere/agent.so" in missing["err"], missing


def seen(process, pid, *texts):
    """Is the folder in /proc that of `pid` in some container, with these texts in its environment? Other tests have containers, too."""
    try:
        return pids_of(process.name)[1:] == [pid] and all(text in (process / "environ").read_text() for text in texts)
    except (OSError, AssertionError):
        return False


def test_the_agent_is_not_in_the_container(service):
    """The variables of outside, but not the library: the loader complains and the job runs."""
    container = service.container()
    done = container.run("/job/steps", "--steps=3", env={"LD_PRELOAD": "/opt/profd/libprofd_agent.so"})
    assert done["code"] == 0 and json.loads(done["out"])["steps"] == 3
    assert "cannot be preloaded" in done["err"]
    here = str(service.folder)
    pid = container.start("/job/steps", "--step-ms=5", env={"LD_PRELOAD": "/opt/profd/libprofd_agent.so", "HERE": here})
    outside = wait_for(lambda: next((int(p.name) for p in pathlib.Path("/proc").glob("[0-9]*") if seen(p, pid, here, "/opt/profd/")), None), 10, "the job")

    def checks():
        rows = service.profd("doctor", "--pid", outside, code=3)["checks"]
        return {row["check"]: (row["result"], row["sentence"]) for row in rows}
    found = wait_for(lambda: (lambda c: c if "preload" in c else None)(checks()), 10, "its environment")
    assert found["preload"][0] == "failed" and "/opt/profd/libprofd_agent.so" in found["preload"][1]
    assert found["container"] == ("ok", "the process lives in a container, and the daemon's socket is there: /run/profd/profd.sock")
    pid = service.container(at="/mnt").start("/job/steps", "--step-ms=5", env={"LD_PRELOAD": AGENT, "HERE": here})
    outside = wait_for(lambda: next((int(p.name) for p in pathlib.Path("/proc").glob("[0-9]*") if seen(p, pid, here, AGENT)), None), 10, "the job")
    found = checks()
    assert found["container"][0] == "failed" and "mount the folder" in found["container"][1] and "preload" not in found


def test_a_service_that_comes_later_and_goes(service):
    """The folder is what is mounted: a daemon that starts anew is found, and a capture before it is still there."""
    container = service.container()
    pid = job(container, "ann")
    service.row("ann")
    container.profd("trigger", "--pid", pid, "--steps", 2)
    service.daemon.terminate()
    assert service.daemon.wait(20) == 0
    assert container.run("/usr/bin/profd", "ps")["code"] == 7
    os.chown(service.run_folder, SERVICE, SERVICE)
    service.start()
    service.row("ann")
    assert captures(container.profd("trigger", "--pid", pid, "--steps", 2)) == [(pid, "complete", 2, 0)]
    assert [c["pid"] for c in container.profd("captures", "--pid", pid)["captures"]] == [pid, pid]


def own_memory_cgroup():
    """The folder of this process's memory cgroup and the name of the file that counts, None where there is none."""
    for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            return pathlib.Path("/sys/fs/cgroup/memory" + path), "memory.usage_in_bytes"
    path = pathlib.Path("/sys/fs/cgroup" + line.split(":", 2)[2])
    if "memory" in (path / "cgroup.subtree_control").read_text() if (path / "cgroup.subtree_control").exists() else "":
        return path, "memory.current"
    return None, None


def test_events_are_not_the_jobs_memory(service):
    """A capture's events wait in the daemon's memory: what the container's memory limit counts hardly grows."""
    folder, file = own_memory_cgroup()
    if not folder or not os.access(folder, os.W_OK):
        pytest.skip("there is no memory cgroup that one could be made below")
    cgroup = folder / f"profd-{os.getpid()}"
    try:
        cgroup.mkdir()
    except OSError as error:
        pytest.skip(f"no memory cgroup can be made: {error}")
    try:
        container = service.container(cgroup=cgroup)
        used = lambda: int((cgroup / file).read_text())
        job(container, "ann", "--step-ms=20", "--ranges=5000")
        pid = service.row("ann")["pid"]
        # The client is outside: what it takes to print the answer is no part of what is looked at.
        service.profd("trigger", "--pid", pid, "--steps", 1)
        before, most = used(), 0
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            answer = pool.submit(service.profd, "trigger", "--pid", pid, "--steps", 30)
            while not answer.done():
                most = max(most, used())
                time.sleep(0.01)
            (last,) = answer.result()["captures"]
        assert last["events"] * 64 > 9 << 20 and last["steps_recorded"] == 30 and last["lost"] == 0
        assert most - before < 2 << 20, (before, most, last["events"])
    finally:
        for container in service.containers:
            container.close()
        wait_for(lambda: not (cgroup / "cgroup.procs").read_text(), 10, "the cgroup to empty")
        cgroup.rmdir()


def until(told, stay, command, environment):
    """The output of a job that steps until it is told: its agent may come to the daemon late."""
    stay.touch()
    with subprocess.Popen(command, env={**environment, "STAY": str(stay)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as job:
        try:
            wait_for(lambda: told() or job.poll() is not None, what="the daemon's word")
        finally:
            stay.unlink()
        out, err = job.communicate(timeout=60)
    assert told() and job.returncode == 0, err
    return out


def test_the_daemon_in_a_container(root, service):
    """A daemon that cannot see who speaks to it says so, and so does the client that nobody knows."""
    inside = service.folder / "inside"
    for name in ("run", "store"):
        (inside / name).mkdir(parents=True)
    log = service.folder / "inside.log"
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PROFD_")}
    # Of all namespaces of a container the pid namespace: SO_PEERCRED has no pid for who is outside of it.
    with open(log, "wb") as to:
        daemon = subprocess.Popen(["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", str(root / "profd-daemon"), "--dir",
                                   str(inside / "store"), "--socket", str(inside / "run/profd.sock")], env=environment, stdout=to, stderr=to)
    told = service.folder / "agent.log"
    environment.update(PROFD_SOCKET=str(inside / "run/profd.sock"), PROFD_DEBUG=str(told), LD_PRELOAD=str(root / AGENT[1:]))
    try:
        wait_for(lambda: (inside / "run/profd.sock").exists(), 10, "the daemon")
        out = until(lambda: "cannot be seen" in log.read_text() and told.exists() and "run the daemon on the host" in told.read_text(),
                    service.folder / "stay", [str(root / "job/steps"), "--steps=100", "--step-ms=5"], environment)
        assert json.loads(out)["steps"] == 100
        environment.pop("LD_PRELOAD")
        status = json.loads(subprocess.run([str(root / "usr/bin/profd"), "status", "--format", "json"], env=environment, text=True,
                                           capture_output=True, check=True).stdout)
        assert status["daemons"][0]["pid"] is None and status["daemons"][0]["processes"] == 0
    finally:
        daemon.kill()
        daemon.wait(10)


def test_a_daemon_in_a_user_namespace(root, service):
    """It sees all strangers as one nobody: neither their jobs nor their questions are taken."""
    inside = service.folder / "inside"
    for name in ("run", "store"):
        (inside / name).mkdir(parents=True)
    log = service.folder / "inside.log"
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PROFD_")}
    with open(log, "wb") as to:
        daemon = subprocess.Popen(["unshare", "--user", "--map-root-user", str(root / "profd-daemon"), "--dir", str(inside / "store"),
                                   "--socket", str(inside / "run/profd.sock")], env=environment, stdout=to, stderr=to)
    environment.update(PROFD_SOCKET=str(inside / "run/profd.sock"))
    stranger = ["setpriv", "--reuid", "5000", "--regid", "5000", "--clear-groups"]
    try:
        ask = lambda: subprocess.run([*stranger, str(root / "usr/bin/profd"), "ps"], env=environment, capture_output=True, text=True)
        asked = wait_for(lambda: (said := ask()).returncode != 7 and said, 10, "the daemon")
        assert asked.returncode == 1 and "cannot tell you from others" in asked.stderr, asked
        assert subprocess.run([str(root / "usr/bin/profd"), "ps"], env=environment, capture_output=True).returncode == 0
        environment["LD_PRELOAD"] = str(root / AGENT[1:])
        done = subprocess.run([*stranger, str(root / "job/steps"), "--steps=100", "--step-ms=5"], env=environment, capture_output=True,
                              text=True, timeout=60)
        assert json.loads(done.stdout)["steps"] == 100 and "cannot tell you from others" in log.read_text()
    finally:
        daemon.kill()
        daemon.wait(10)


def test_a_time_namespace(service):
    """Its clocks are not the daemon's: said, not recorded with wrong times."""
    try:
        container = service.container(time="boottime 100000 0\nmonotonic 100000 0\n")
    except AssertionError:
        pytest.skip("this kernel has no time namespaces")

    def told():
        """Where the job has ended before its agent came to the daemon, not yet."""
        done = container.run("/usr/bin/profd", "run", "--no-daemon-start", "--", "/job/steps", "--steps=100", "--step-ms=5")
        assert json.loads(done["out"])["steps"] == 100
        return "lives in a time namespace" in service.log()
    wait_for(told, what="the daemon's word")
    assert service.rows() == []


def test_root_of_a_container_is_no_administrator(service):
    """Without a user namespace it is uid 0: it has what is root's, and not what is others'. In the machine's own pid namespace
    it is the machine's root."""
    ann, plain, machine = service.container(), service.container(uids=None), service.container(uids=None, pids=False)
    job(ann, "ann"), job(plain, "root")
    outside = {name: service.row(name)["pid"] for name in ("ann", "root")}
    assert [row["name"] for row in plain.profd("ps")["processes"]] == ["root"]
    assert plain.run("/usr/bin/profd", "trigger", "--name", "ann")["code"] == 3
    assert {row["name"]: row["pid"] for row in machine.profd("ps")["processes"]} == outside
    assert captures(machine.profd("trigger", "--pid", outside["ann"], "--steps", 2)) == [(outside["ann"], "complete", 2, 0)]
    assert [c["name"] for c in machine.profd("captures")["captures"]] == ["ann"]
    assert plain.profd("captures")["captures"] == []


def test_descriptors_that_show_nothing(service, tmp_path):
    """What a client sends for its namespace is looked at by name alone; what is none leaves it where the kernel says it is."""
    job(service.container(), "ann")
    row = service.row("ann")
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "pid:[1]").touch()
    pair = socket.socketpair()
    nothing = [os.memfd_create("pid:[1]"), os.open(tmp_path / "pid:[1]", os.O_RDONLY), os.open(tmp_path / "fifo", os.O_RDWR),
               os.open("/proc/self/ns/user", os.O_RDONLY), os.open("/proc/self/ns", os.O_RDONLY | os.O_DIRECTORY), pair[0].fileno(),
               os.open("/dev/null", os.O_RDONLY), os.open(tmp_path, os.O_PATH), os.pidfd_open(os.getpid())]
    for fd in nothing:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
            client.settimeout(60)
            client.connect(str(service.socket))
            socket.send_fds(client, [b'{"op":"ps","major":1,"minor":0}'], [fd])
            assert json.loads(client.recv(65536))["pid"] == row["pid"]
    # One of a namespace that the caller is not in is its own choice: it is told the pids from there, of what it may see.
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
        client.settimeout(60)
        client.connect(str(service.socket))
        socket.send_fds(client, [b'{"op":"ps","major":1,"minor":0}'], [os.open(f"/proc/{row['pid']}/ns/pid", os.O_RDONLY)])
        answer = json.loads(client.recv(65536))
        assert answer.get("end") or answer["pid"] == pids_of(row["pid"])[1]
    for fd in nothing:
        if fd != pair[0].fileno():
            os.close(fd)
    assert service.row("ann")


def test_agents_that_claim_to_be_elsewhere(service):
    """Neither a pid that is not one's own nor another's namespace: nobody in a container is led to a process outside."""
    container = service.container()
    inner = job(container, "ann")
    row = service.row("ann")
    for pid in (os.getpid() + 1, inner, 1):
        with fake.connect(service.socket) as agent:
            packet = bytearray(fake.hello())
            struct.pack_into("<i", packet, 12, pid)
            agent.send(packet)
            answer = agent.recv(4096)
            assert struct.unpack_from("<IHH", answer)[1] == fake.REFUSE and b"not the one that says hello" in answer
    for namespace in (os.open(f"/proc/{row['pid']}/ns/pid", os.O_RDONLY), os.open("/proc/self/ns/mnt", os.O_RDONLY), os.memfd_create("x")):
        with fake.connect(service.socket) as agent:
            socket.send_fds(agent, [fake.hello(name="liar")], [namespace])
            assert struct.unpack_from("<IHH", agent.recv(4096))[1] == fake.WELCOME
            assert {r["name"]: r["pid"] for r in service.rows()} == {"ann": row["pid"], "liar": os.getpid()}
            assert {r["name"]: r["pid"] for r in container.profd("ps")["processes"]} == {"ann": inner}
            assert container.run("/usr/bin/profd", "doctor", "--pid", str(os.getpid()))["code"] == 3
        os.close(namespace)
    assert captures(container.profd("trigger", "--pid", inner, "--steps", 2)) == [(inner, "complete", 2, 0)]


PROGRAM = '#include <stdio.h>\n#include <stdlib.h>\nint main(void) { puts(getenv("LD_PRELOAD") ? "hello" : "bare"); return 7; }\n'


@pytest.mark.parametrize("compiler, said", [("musl-gcc", ""), ("gcc -static", ""), ("gcc -m32", "wrong ELF class"), ("gcc", "")])
def test_programs_that_a_preload_reaches(tmp_path, compiler, said):
    """Whatever a job script starts gets LD_PRELOAD too: it starts, and at most the loader has a word on it."""
    (tmp_path / "hello.c").write_text(PROGRAM)
    words = compiler.split()
    if not shutil.which(words[0]) or subprocess.run([*words, "-o", tmp_path / "hello", tmp_path / "hello.c"], capture_output=True).returncode:
        pytest.skip(f"{compiler} makes no programs here")
    done = subprocess.run([tmp_path / "hello"], env={**os.environ, "LD_PRELOAD": str(BUILD / "lib" / "libprofd_agent.so")},
                          capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (7, "hello\n")
    assert said in done.stderr and (said or not done.stderr)
