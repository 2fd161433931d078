"""Completion of the command line in real shells: bash by its completion variables, zsh at a terminal, fish by `complete -C`.

What is offered comes from the program's own table, so every verb and option of `profd help` is asked for here."""
import os
import pty
import re
import select
import shlex
import shutil
import signal
import subprocess
import time

import pytest

from conftest import BUILD, Profd, wait_for

MADE = BUILD / "manual"


class Bash:
    """One bash for each question, without bash-completion's own functions."""

    def __init__(self, profd):
        self.profd = profd

    def complete(self, line, check_silent=True):
        words = shlex.split(line) + ([""] if line.endswith(" ") else [])
        # As bash splits them: "=" is a word of its own.
        words = [part for word in words for part in (re.split("(=)", word) if word.startswith("--") and "=" in word else [word])]
        if words[-1] == "" and words[-2] == "=":
            words.pop()
        words[0] = str(self.profd.client)
        script = (f"source {MADE / 'profd'}\ncomplete -p profd >/dev/null || exit 9\nCOMP_WORDS=({shlex.join(words)})\n"
                  "COMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_profd profd \"${COMP_WORDS[COMP_CWORD]}\"\n"
                  "printf '%s\\n' \"${COMPREPLY[@]}\"\n")
        done = subprocess.run(["bash", "--norc", "-c", script], env=self.profd.env, cwd=self.profd.folder,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30)
        assert done.returncode == 0 and (not check_silent or not done.stderr), done.stderr
        return done.stdout.split("\n")[:-1] if done.stdout.strip() else []

    def close(self):
        pass


class Fish(Bash):
    def complete(self, line, check_silent=True):
        script = f"set -p fish_complete_path {MADE}; set -p PATH {BUILD / 'bin'}; complete -C {shlex.quote(line)}"
        done = subprocess.run(["fish", "-c", script], env={**self.profd.env, "HOME": str(self.profd.folder)},
                              cwd=self.profd.folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30)
        assert done.returncode == 0 and (not check_silent or not done.stderr), done.stderr
        return [row.split("\t")[0] for row in done.stdout.splitlines()]


# Every match that the completion system is given goes to a file; "END" says that it has come to its end.
ZSH = r"""
unsetopt zle_bracketed_paste prompt_sp 2>/dev/null
PS1='ready> '
fpath=(%(made)s $fpath)
autoload -Uz compinit && compinit -u -D
compadd() {
	if [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]]; then builtin compadd "$@"; return; fi
	local -a hits
	builtin compadd -A hits "$@"
	print -rl -- $hits >>%(out)s
	builtin compadd "$@"
}
finish() { print END >>%(out)s }
ask() { comppostfuncs=(finish); zle complete-word }
zle -N ask
bindkey '^I' ask
bindkey '^U' kill-whole-line
setopt no_list_beep
LISTMAX=100000
zstyle ':completion:*' menu no
path=(%(bin)s $path)
print STARTED >>%(out)s
"""


class Zsh:
    """An interactive zsh at a terminal of its own."""

    def __init__(self, profd):
        self.out = profd.folder / "zsh.out"
        self.out.write_text("")
        rc = profd.folder / "zsh.rc"
        rc.write_text(ZSH % {"made": MADE, "out": self.out, "bin": BUILD / "bin"})
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.chdir(profd.folder)
            os.execvpe("zsh", ["zsh", "-f", "-i"], {**profd.env, "TERM": "dumb", "HOME": str(profd.folder)})
        os.write(self.terminal, f"source {rc}\n".encode())
        self.wait("STARTED")

    def wait(self, word):
        def look():
            while select.select([self.terminal], [], [], 0)[0]:
                os.read(self.terminal, 65536)
            return word in self.out.read_text().split("\n")
        wait_for(look, 30, f"zsh to say {word}")

    def complete(self, line, check_silent=True):
        self.out.write_text("")
        os.write(self.terminal, b"\x15" + line.encode() + b"\t")
        self.wait("END")
        # A message of a completion would stand in the terminal; what was offered stands in the file.
        return [row for row in self.out.read_text().split("\n") if row and row != "END"]

    def close(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.terminal)


@pytest.fixture(params=["bash", "zsh", "fish"])
def shell(request, empty_profd):
    if not shutil.which(request.param):
        pytest.skip(f"{request.param} is not installed; ./dev test installs it")
    profd = empty_profd
    # A daemon of the person who runs the tests is nobody's business here.
    profd.env["XDG_RUNTIME_DIR"] = str(profd.folder)
    one = {"bash": Bash, "zsh": Zsh, "fish": Fish}[request.param](profd)
    yield one
    one.close()


def values(offered):
    """Without what zsh and fish put before a value that is typed as --name=VALUE, or behind a comma."""
    return {word.split("=", 1)[-1].split(",")[-1].rstrip("/") for word in offered}


def verbs(profd):
    text = profd.run("help").stdout
    return re.findall(r"^  ([a-z]+) {2,}", text.split("Verbs:")[1].split("Topics:")[0], re.M)


def test_the_scripts_are_clean():
    if not shutil.which("shellcheck"):
        pytest.skip("shellcheck is not installed")
    done = subprocess.run(["shellcheck", "-s", "bash", str(MADE / "profd")], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_every_verb_and_option_is_offered(shell, empty_profd):
    names = verbs(empty_profd)
    assert len(names) >= 14
    assert set(names) <= set(shell.complete("profd "))
    for name in names:
        # Of its own options, not of the daemon's, which it passes on.
        options = set(re.findall(r"^  (?:-\w, |    )(--[a-z-]+)", empty_profd.run(name, "--help").stdout, re.M))
        offered = set(re.sub("=$", "", word) for word in shell.complete(f"profd {name} --"))
        assert options <= offered, name
    daemon = subprocess.run([str(BUILD / "bin" / "profd-daemon"), "--help"], capture_output=True, text=True).stdout
    offered = set(re.sub("=$", "", word) for word in shell.complete("profd daemon --"))
    assert set(re.findall(r"^  (--[a-z-]+)", daemon, re.M)) <= offered


def test_beginnings_and_choices(shell, empty_profd):
    assert set(shell.complete("profd tri")) == {"trigger"}
    assert {re.sub("=$", "", w) for w in shell.complete("profd trigger --step")} == {"--steps", "--step-range", "--step-op", "--step-optimizer"}
    assert {"table", "json", "csv"} == values(shell.complete("profd ps --format "))
    assert {"kernels"} == values(shell.complete("profd show --by ker"))
    assert {"kernels"} == values(shell.complete("profd show --by=ker"))
    assert {"device_time_total", "device_time"} <= values(shell.complete("profd show --by kernels -s "))
    assert {"json", "exit-codes", "trigger"} <= set(shell.complete("profd help "))


def test_files_folders_and_commands(shell, empty_profd):
    (empty_profd.folder / "trace one.json").write_text("")
    (empty_profd.folder / "traces").mkdir()
    offered = values(shell.complete("profd export --output tr"))
    assert {"traces"} < offered and any("one.json" in word for word in offered), offered
    assert values(shell.complete("profd daemon --user --dir tr")) == {"traces"}
    (empty_profd.folder / "copied.db").write_text("")
    assert "copied.db" in values(shell.complete("profd show copi"))
    assert "mkfifo" in shell.complete("profd run mkfif")
    assert "mkfifo" in shell.complete("profd run --name x -- mkfif")
    # Behind the command it is the command's own line.
    assert not any("--no-daemon-start" in word for word in shell.complete("profd run ls --no-d"))
    assert "copied.db" in values(shell.complete("profd run ls copi"))


def test_values_come_from_the_daemon(shell, empty_profd):
    empty_profd.start_daemon()
    command = [BUILD / "workloads" / "steps", "1000000", "5"]
    job = subprocess.Popen([str(empty_profd.client), "run", "--name", "the llama", "--job", "77", "--", *map(str, command)],
                           env=empty_profd.env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    empty_profd.jobs.append(job)
    empty_profd.wait_steps(job.pid)
    capture = empty_profd.trigger(job.pid, "--steps", "1", "--label", "before")
    pid = str(job.pid)
    assert pid in values(shell.complete("profd trigger --pid "))
    assert pid in values(shell.complete("profd ps -p "))
    assert pid in values(shell.complete("profd doctor --pid "))
    assert pid in values(shell.complete("profd trigger --pid 1,"))
    assert {word.replace("\\", "").strip("'") for word in values(shell.complete("profd ps --name "))} == {"the llama"}
    assert values(shell.complete("profd trigger --job ")) == {"77"}
    assert capture["capture_id"] in shell.complete("profd show ")
    assert capture["capture_id"] in shell.complete("profd rm ")
    assert capture["trigger_id"] in shell.complete("profd cancel --trigger ")
    assert "before" in values(shell.complete("profd captures --label "))


def test_without_a_daemon_it_is_silent_and_soon_over(shell):
    start = time.monotonic()
    assert shell.complete("profd rm ") == []
    assert shell.complete("profd trigger --pid ") == []
    assert time.monotonic() - start < 10
