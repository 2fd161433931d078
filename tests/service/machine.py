"""A machine of its own: systemd as PID 1 of fresh namespaces over a throw-away copy of /, with profd installed as a package
would install it, and the users alice, bob and carol (an administrator: she is in the group profd).

    with Machine() as machine:
        machine.run("profd ps", user="alice").stdout
        job = machine.popen(["profd", "run", "--", "python3", "train.py"], user="alice")
        machine.wait(lambda: machine.process(job.pid), 10, "the job to register")

Needs root, and packages systemd, systemd-sysv and dbus. Nothing of this machine is changed, and what is left over goes with
the namespaces.
"""
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "e2e"))

from house import BUSY  # noqa: E402
BUILD = pathlib.Path(os.environ.get("PROFD_BUILD", ROOT / "build"))
HERE = pathlib.Path(__file__).resolve().parent

USERS = {"alice": 7001, "bob": 7002, "carol": 7003}
ADMINISTRATORS = ["carol"]
NAMESPACES = ["--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup"]
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def unavailable():
    """Why no machine can be made here; None where one can."""
    if os.geteuid() != 0:
        return "only root can make namespaces with users of their own"
    for program in ("/lib/systemd/systemd", "/usr/bin/dbus-daemon"):
        if not os.path.exists(program):
            return f"{program} is missing: install systemd, systemd-sysv and dbus"
    for program in ("unshare", "nsenter", "setpriv"):
        if not shutil.which(program):
            return f"{program} is missing: install util-linux"
    if not cgroup_folder():
        return "there is no cgroup2 file system"
    trial = subprocess.run(["unshare", *NAMESPACES, "--fork", "sh", "-ec",
                            "mount --make-rprivate /; mount -t tmpfs t /mnt; mkdir /mnt/u /mnt/w /mnt/m;"
                            "mount -t overlay -o lowerdir=/etc,upperdir=/mnt/u,workdir=/mnt/w o /mnt/m"],
                           capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if trial.returncode != 0:
        return f"namespaces with mounts of their own cannot be made here: {trial.stderr.strip()}"
    return None


def cgroup_folder():
    """Our own folder in the cgroup2 hierarchy, None where there is none."""
    own = next((line[3:] for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines()
                if line.startswith("0::")), None)
    for base in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified"):
        if own is not None and os.path.exists(base + "/cgroup.controllers" if base.endswith("cgroup")
                                              else base + "/cgroup.procs"):
            return pathlib.Path(base + own)
    return None


class Job:
    """A command that runs in the machine. `pid` is its pid there."""

    def __init__(self, machine, popen, pid):
        self.machine, self.popen, self.pid = machine, popen, pid

    def running(self):
        return self.popen.poll() is None

    def signal(self, number=signal.SIGTERM):
        self.machine.run(f"kill -{int(number)} {self.pid}", check=False)

    def hurry(self):
        """From now on the workload `steps` does its steps quickly: what was to come before they were over has come."""
        self.signal(signal.SIGUSR2)

    def naps(self):
        """A number that rises with each step of a job that sleeps in each, whether or not a daemon counts them."""
        return int(re.search(r"^voluntary_ctxt_switches:\s*(\d+)", self.machine.run(["cat", f"/proc/{self.pid}/status"]).stdout, re.M)[1])

    def finish(self, timeout=60):
        """Waits for its end: (exit status, standard output, standard error)."""
        out, err = self.popen.communicate(timeout=BUSY * timeout)
        return self.popen.returncode, out, err

    def kill(self):
        if self.running():
            self.signal(signal.SIGKILL)
            try:
                self.popen.communicate(timeout=BUSY * 10)
            except subprocess.TimeoutExpired:
                self.popen.kill()


class Machine:
    def __init__(self, install=True, root=None, binds=()):
        """`install`: with this build of profd in /usr, its users made and its socket enabled; else bare. `root`: a tarball
        that becomes /, instead of this machine's own. `binds`: (folder, where it is seen in the machine, read-only)."""
        self.installs = install
        self.root, self.binds = root, binds
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="profd-machine-"))
        self.folder.chmod(0o755)
        self.cgroup = None
        self.unshare = None
        self.init = None
        self.jobs = []
        # Where build and source are seen by all users of the machine.
        self.build = pathlib.Path("/opt/profd-test/build")
        self.source = pathlib.Path("/opt/profd-test/source")

    # ---- life

    def __enter__(self):
        try:
            self.boot()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_):
        self.close()

    def boot(self):
        for name in ("root", "disk", "stage"):
            (self.folder / name).mkdir()
        (self.folder / "console").touch()
        binds = [*self.binds] if self.root else [(BUILD, self.build), (ROOT, self.source), *self.binds]
        (self.folder / "binds").write_text("".join(f"{source} {target}\n" for source, target in binds))
        if self.root:
            (self.folder / "tarball").symlink_to(self.root)
        if self.installs:
            # Not into this machine: `stage` is laid over the other one's /.
            self.host(["cmake", "--install", BUILD, "--prefix", "/usr"], DESTDIR=self.folder / "stage")
        self.cgroup = cgroup_folder() / f"profd-machine-{os.getpid()}-{self.folder.name[-8:]}"
        self.cgroup.mkdir()
        with open(self.folder / "boot.log", "wb") as log:
            self.unshare = subprocess.Popen(
                ["sh", "-c", 'echo $$ >"$1/cgroup.procs"; shift; exec "$@"', "boot", self.cgroup, "unshare",
                 *NAMESPACES, "--fork", "--kill-child=SIGKILL", "--", "bash", HERE / "boot.sh", self.folder],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        self.wait(self.find_init, 20, "the namespaces")
        state = self.wait(self.state, 60, "systemd to come up")
        if state != "running":
            raise RuntimeError(f"the machine is {state}: " + self.run("systemctl --failed --no-pager", check=False).stdout)
        for name, uid in USERS.items():
            self.run(["useradd", "--uid", str(uid), "--create-home", "--shell", "/bin/bash", name])
        if self.installs:
            self.run("systemd-sysusers && systemd-tmpfiles --create")
            for name in ADMINISTRATORS:
                self.run(["usermod", "--append", "--groups", "profd", name])
            self.run("systemctl enable --now profd.socket")

    def host(self, command, **env):
        done = subprocess.run([str(c) for c in command], env={**os.environ, **{k: str(v) for k, v in env.items()}},
                              capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            raise RuntimeError(f"{shlex.join(map(str, command))}: {done.stdout}{done.stderr}")
        return done

    def boot_log(self):
        return "".join((self.folder / name).read_text(errors="replace") for name in ("boot.log", "console"))

    def find_init(self):
        if self.unshare.poll() is not None:
            raise RuntimeError(f"the machine did not boot: {self.boot_log()}")
        children = pathlib.Path(f"/proc/{self.unshare.pid}/task/{self.unshare.pid}/children").read_text().split()
        self.init = int(children[0]) if children else None
        return self.init

    def state(self):
        if self.unshare.poll() is not None:
            raise RuntimeError(f"the machine did not boot: {self.boot_log()}")
        state = self.run("systemctl is-system-running", check=False).stdout.strip()
        return state if state in ("running", "degraded", "maintenance") else None

    def close(self):
        """Ends everything in it. Takes a machine that never came up."""
        for job in self.jobs:
            if job.popen.poll() is None:
                job.popen.kill()
        if self.unshare and self.unshare.poll() is None:
            self.unshare.kill()  # takes PID 1 along, and that all the rest
            self.unshare.wait(BUSY * 20)
        for job in self.jobs:
            job.popen.communicate()
        if self.cgroup:
            deadline = time.monotonic() + BUSY * 10
            while True:
                try:
                    for folder, _, _ in os.walk(self.cgroup, topdown=False):
                        os.rmdir(folder)
                    break
                except OSError:
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(0.05)
        shutil.rmtree(self.folder, ignore_errors=True)

    # ---- work in it

    def command(self, command, user, env):
        words = ["bash", "-c", command] if isinstance(command, str) else [str(word) for word in command]
        settings = [f"{key}={value}" for key, value in (env or {}).items()]
        inside = ["nsenter", "--target", str(self.init), *NAMESPACES, "--", "env", "-i", f"PATH={PATH}",
                  "HOME=/root", "USER=root", "LANG=C.UTF-8"]
        if user and user != "root":
            inside += ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups", "--reset-env"]
            inside += ["env", f"PATH={PATH}", "LANG=C.UTF-8"]
        return inside + settings + words

    def run(self, command, user="root", check=True, timeout=60, env=None, input=None):
        """Runs a command (a list, or a line for bash) and returns it with its output as text. `check`: it must end with 0."""
        more = {"input": input} if input is not None else {"stdin": subprocess.DEVNULL}
        done = subprocess.run(self.command(command, user, env), capture_output=True, text=True, timeout=BUSY * timeout, cwd="/",
                              **more)
        if check:
            assert done.returncode == 0, f"{user}: {command}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def popen(self, command, user="root", env=None):
        """Starts a command that goes on: a Job. The machine ends it at the latest."""
        words = ["bash", "-c", command] if isinstance(command, str) else [str(word) for word in command]
        # The pid is told by the process itself, which then becomes the command.
        line = self.command(["sh", "-c", 'echo $$; exec "$@" 1>&3 3>&-', "popen", *words], user, env)
        out_read, out_write = os.pipe()
        popen = subprocess.Popen(["bash", "-c", f'exec "$@" 3>&{out_write} {out_write}>&-', "popen", *line], pass_fds=[out_write],
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd="/", text=True)
        os.close(out_write)
        pid = popen.stdout.readline().strip()
        popen.stdout.close()
        popen.stdout = os.fdopen(out_read)
        if not pid:
            raise RuntimeError(f"{command}: {popen.communicate()[1]}")
        job = Job(self, popen, int(pid))
        self.jobs.append(job)
        return job

    def wait(self, condition, seconds=20.0, what="condition"):
        """The condition's first true value, within so many seconds of an idle machine."""
        deadline = time.monotonic() + BUSY * seconds
        while True:
            value = condition()
            if value:
                return value
            assert time.monotonic() < deadline, f"waited {BUSY * seconds:.0f} s for {what}"
            time.sleep(0.05)

    def write(self, path, text, mode=0o644):
        self.run(f"install -D -m {mode:o} /dev/stdin {shlex.quote(str(path))}", input=text)

    # ---- profd and systemd in it

    def json(self, *arguments, user="root", codes=(0,), timeout=120, env=None):
        """What `profd ARGUMENTS --format json` answers."""
        done = self.run(["profd", *arguments, "--format", "json"], user=user, check=False, timeout=timeout, env=env)
        assert done.returncode in codes, f"profd {arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return json.loads(done.stdout)

    def processes(self, user="root"):
        return self.json("ps", user=user, codes=(0, 3))["processes"]

    def process(self, pid, user="root"):
        """The row of `profd ps` for a pid; None where the user does not see it."""
        return next((row for row in self.processes(user) if row["pid"] == pid), None)

    def workload(self, name):
        """A program of tests/workloads."""
        return str(self.build / "workloads" / name)

    def job(self, *command, user="root", env=None):
        """A job under `profd run`, registered and stepping."""
        job = self.popen(["profd", "run", "--", *command], user=user, env=env)

        def steps():
            assert job.running(), job.finish()
            row = self.process(job.pid)
            return row and row["step"] >= 2

        self.wait(steps, 30, f"{command} to step")
        return job

    def unit(self, *properties, name="profd.service"):
        """Properties of a unit as systemd shows them: one as a text, several as a dictionary."""
        shown = self.run(["systemctl", "show", name, "--property", ",".join(properties)]).stdout
        values = dict(line.split("=", 1) for line in shown.splitlines() if "=" in line)
        return values[properties[0]] if len(properties) == 1 else values

    def journal(self, unit="profd.service", since=None):
        """What a unit has said, one line after the other, without times."""
        line = ["journalctl", "--quiet", "--output=cat", f"--unit={unit}"]
        if since:
            line.append(f"--since=@{since:.6f}")
        return self.run(line).stdout

    def clean(self):
        """Between two tests: no jobs, no captures, no settings but the defaults, the socket there and no daemon."""
        for job in self.jobs:
            job.kill()
        self.jobs.clear()
        if self.installs:
            self.run("systemctl stop profd.socket profd.service;"
                     "rm -rf /etc/profd /var/lib/profd/* /run/systemd/system/profd.service.d;"
                     "systemctl daemon-reload; systemctl reset-failed; systemctl start profd.socket", check=False)
