"""A container: user, pid and mount namespaces around a small root file system, made by system calls alone, as runtimes make
theirs. Root only.

As a module: Container starts one and runs things in it. As a program: its first process, which does what lines of JSON on
standard input say, and answers each with a line:

    {"do": "start", "argv", "env", "uid"}        -> {"pid": inside}
    {"do": "run", "argv", "env", "uid"}          -> {"code", "out", "err"}
    {"do": "skip", "n"}                          -> {}         lets so many pids pass
    {"do": "nest", "proc", "map"}                -> {"n": k}   a container in the container, on the same root
    {"do": "in", "n": k, "message": {...}}       -> what the nested one answers
"""
import ctypes
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys

libc = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNS, CLONE_NEWTIME, CLONE_NEWUSER, CLONE_NEWPID = 0x20000, 0x80, 0x10000000, 0x20000000
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 32, 4096, 16384, 1 << 18
MNT_DETACH = 2
PR_SET_DUMPABLE = 4
PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}[os.uname().machine]


def check(result, what):
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{what}: {os.strerror(error)}")


def mount(source, target, kind="", flags=0, options=None):
    check(libc.mount(source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags),
                     options.encode() if options else None), f"mount {source} on {target}")


def mount_proc(how):
    if how == "none":
        return
    mount("proc", "/proc", "proc", 0, "hidepid=2" if how == "hidepid" else None)


def enter(root, binds, proc):
    """The mounts of a container, then its root, as runc does it."""
    mount("none", "/", flags=MS_REC | MS_PRIVATE)
    mount(root, root, flags=MS_BIND | MS_REC)
    for source, target in [*binds, ("/dev/null", "/dev/null")]:
        mount(source, root + target, flags=MS_BIND)
    mount("tmp", root + "/tmp", "tmpfs", 0, "mode=1777")
    os.chdir(root)
    check(libc.syscall(PIVOT_ROOT, b".", b"old"), "pivot_root")
    os.chdir("/")
    mount_proc(proc)
    check(libc.umount2(b"/old", MNT_DETACH), "umount")


class Init:
    def __init__(self, lines, answers):
        self.lines, self.answers = lines, answers
        self.started, self.nested = [], []

    def spawn(self, message, **more):
        uid = message.get("uid")
        ids = {} if uid is None else {"user": uid, "group": uid, "extra_groups": []}
        return subprocess.Popen(message["argv"], env=message["env"], stdin=subprocess.DEVNULL, close_fds=True, **ids, **more)

    def nest(self, message):
        to, line = os.pipe()
        answer, back = os.pipe()
        sync, go = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(line), os.close(answer)
            flags = CLONE_NEWPID | CLONE_NEWNS | (CLONE_NEWUSER if "map" in message else 0)
            check(libc.unshare(flags), "unshare")
            os.write(go, b"x")
            os.read(to, 1)
            first = os.fork()
            if first:
                os.waitpid(first, 0)
                os._exit(0)
            mount("none", "/", flags=MS_REC | MS_PRIVATE)
            mount_proc(message["proc"])
            Init(os.fdopen(to), os.fdopen(back, "w")).serve()
            os._exit(0)
        os.close(to), os.close(back)
        os.read(sync, 1)
        for name in ("uid_map", "gid_map") if "map" in message else ():
            pathlib.Path(f"/proc/{child}/{name}").write_text(message["map"])
        os.write(line, b"x")
        self.nested.append((os.fdopen(line, "w"), os.fdopen(answer)))
        return {"n": len(self.nested) - 1}

    def do(self, message):
        if message["do"] == "start":
            out = open("/tmp/out", "ab")
            self.started.append(self.spawn(message, stdout=out, stderr=out))
            return {"pid": self.started[-1].pid}
        if message["do"] == "run":
            child = self.spawn(message, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            out, err = child.communicate()
            return {"code": child.returncode, "out": out.decode(), "err": err.decode()}
        if message["do"] == "skip":
            for _ in range(message["n"]):
                child = os.fork()
                if child == 0:
                    os._exit(0)
                os.waitpid(child, 0)
            return {}
        if message["do"] == "nest":
            return self.nest(message)
        line, answer = self.nested[message["n"]]
        print(json.dumps(message["message"]), file=line, flush=True)
        return json.loads(answer.readline())

    def serve(self):
        for line in iter(self.lines.readline, ""):
            try:
                answer = self.do(json.loads(line))
            except Exception as error:
                answer = {"error": str(error)}
            print(json.dumps(answer), file=self.answers, flush=True)


def make_root(folder, build, programs):
    """A root file system with the client, the agent and these programs, and the libraries that they need: no shell, no
    /etc, nothing else."""
    root = pathlib.Path(folder)
    for name in ("proc", "old", "tmp", "dev", "usr/bin", "usr/lib/profd", "job"):
        (root / name).mkdir(parents=True, exist_ok=True)
    (root / "tmp").chmod(0o1777)
    (root / "dev/null").touch()
    shutil.copy(build / "lib" / "libprofd_agent.so", root / "usr/lib/profd")
    copied = [shutil.copy(build / "bin" / "profd", root / "usr/bin")]
    copied += [shutil.copy(program, root / "job") for program in programs]
    for program in copied:
        for word in subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout.split():
            if word.startswith("/") and not (root / word[1:]).exists():
                (root / word[1:]).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(word, root / word[1:])
    for path in root.rglob("*"):
        if path.is_dir() and path != root / "tmp":
            path.chmod(0o755)
    return root


class Container:
    """A running container on `root`. `uids`: the host's first of 65536 uids, None without a user namespace."""

    def __init__(self, root, binds=(), uids=None, proc="own", env=None, cgroup=None, pids=True, time=None):
        spec = {"root": str(root), "binds": [[str(a), b] for a, b in binds], "uids": uids, "proc": proc, "pids": pids,
                "cgroup": str(cgroup) if cgroup else None, "time": time}
        for _, target in spec["binds"]:
            (pathlib.Path(root) / target[1:]).mkdir(parents=True, exist_ok=True)
        self.env = {"PATH": "/usr/bin", "NO_COLOR": "1", **(env or {})}
        self.process = subprocess.Popen([sys.executable, __file__, json.dumps(spec)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, bufsize=1)
        self.n = None
        self.parent = None
        ready = json.loads(self.process.stdout.readline() or "{}")
        assert ready.get("ready"), ready
        self.init = ready["init"]

    def ask(self, message):
        if self.parent:
            answer = self.parent.ask({"do": "in", "n": self.n, "message": message})
        else:
            print(json.dumps(message), file=self.process.stdin, flush=True)
            answer = json.loads(self.process.stdout.readline())
        assert "error" not in answer, answer
        return answer

    def start(self, *argv, env=None, uid=None):
        """Starts a program; returns its pid inside."""
        return self.ask({"do": "start", "argv": list(map(str, argv)), "env": {**self.env, **(env or {})}, "uid": uid})["pid"]

    def run(self, *argv, env=None, uid=None):
        """Runs a program to its end; {"code", "out", "err"}."""
        return self.ask({"do": "run", "argv": list(map(str, argv)), "env": {**self.env, **(env or {})}, "uid": uid})

    def profd(self, *arguments, codes=(0,), env=None, uid=None):
        """`profd ARGUMENTS --format json` inside."""
        done = self.run("/usr/bin/profd", *arguments, "--format", "json", env=env, uid=uid)
        assert done["code"] in codes, done
        return json.loads(done["out"])

    def skip(self, n):
        self.ask({"do": "skip", "n": n})

    def nest(self, proc="own", uid_map=None):
        nested = Container.__new__(Container)
        message = {"do": "nest", "proc": proc}
        if uid_map:
            message["map"] = uid_map
        nested.n, nested.parent, nested.env = self.ask(message)["n"], self, self.env
        return nested

    def close(self):
        try:
            os.kill(self.init, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.stdin.close()
        self.process.wait(20)


def main():
    """Stage by stage: a process in the new namespaces, its maps written from outside, its child the first process."""
    spec = json.loads(sys.argv[1])
    if spec["cgroup"]:
        pathlib.Path(spec["cgroup"], "cgroup.procs").write_text(str(os.getpid()))
    sync, go = os.pipe()
    mapped, done = os.pipe()
    child = os.fork()
    if child == 0:
        if spec["uids"] is not None:
            check(libc.unshare(CLONE_NEWUSER), "unshare")
            os.write(go, b"x")
            os.read(mapped, 1)
            os.setresgid(0, 0, 0)
            os.setresuid(0, 0, 0)
            libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)  # as after an exec: who changes its uid hides in /proc
        flags = CLONE_NEWNS | (CLONE_NEWPID if spec["pids"] else 0) | (CLONE_NEWTIME if spec["time"] else 0)
        check(libc.unshare(flags), "unshare")
        if spec["time"]:
            pathlib.Path("/proc/self/timens_offsets").write_text(spec["time"])
        reader, writer = os.pipe()
        first = os.fork()
        if first == 0:
            os.close(writer)
            init = os.read(reader, 32).decode()
            enter(spec["root"], spec["binds"], spec["proc"])
            print(json.dumps({"ready": True, "init": int(init)}), flush=True)
            Init(sys.stdin, sys.stdout).serve()
            os._exit(0)
        # This process is still outside, and its child's pid here the one from outside.
        os.write(writer, str(first).encode())
        _, status = os.waitpid(first, 0)
        os._exit(status >> 8)
    if spec["uids"] is not None:
        os.read(sync, 1)
        for name in ("uid_map", "gid_map"):
            pathlib.Path(f"/proc/{child}/{name}").write_text(f"0 {spec['uids']} 65536\n")
        os.write(done, b"x")
    _, status = os.waitpid(child, 0)
    sys.exit(status >> 8)


if __name__ == "__main__":
    main()
