"""The threads of another process and what it has open, as /proc has them. The process goes on meanwhile: a thread that ends, and a descriptor that
is closed, while it is looked at is left out, and one that is over has none."""
import os
import pathlib

OVER = FileNotFoundError, ProcessLookupError


def of_threads(pid, name):
    """{tid: text} of /proc/PID/task/TID/NAME, the main thread first."""
    found = {}
    for path in pathlib.Path(f"/proc/{pid}/task").glob(f"*/{name}"):
        try:
            found[int(path.parent.name)] = path.read_text()
        except OVER:
            pass
    return dict(sorted(found.items(), key=lambda row: (row[0] != pid, row[0])))


def _agents(pid):
    """(folder, name). The main thread is called so as long as it is `profd run`."""
    return [(pathlib.Path(f"/proc/{pid}/task/{tid}"), name) for tid, name in of_threads(pid, "comm").items() if name.startswith("profd") and tid != pid]


def agent_threads(pid):
    """The folders of the agent's, its helpers' (profd-keeper, profd-cupti) among them."""
    return [folder for folder, _ in _agents(pid)]


def agent_thread(pid):
    """The folder of the one that talks to the daemon; None."""
    return next((folder for folder, name in _agents(pid) if name == "profd\n"), None)


def processor_seconds(folder):
    """Time that a process or a thread of this folder in /proc has had a processor: on a busy machine it says what the wall's clock does not."""
    fields = (pathlib.Path(folder) / "stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def opened(folder):
    """{number: what it leads to} of a folder in /proc: fd of a process or a thread."""
    found = {}
    for path in pathlib.Path(folder).glob("*"):
        try:
            found[int(path.name)] = os.readlink(path)
        except OVER:
            pass
    return found


def holding(what):
    """[(pid, command)] of the processes that have one of these open: names as /proc/PID/fd tells them."""
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if not what.isdisjoint(opened(folder / "fd").values()):
                found.append((int(folder.name), (folder / "cmdline").read_text(errors="replace").replace("\0", " ").strip()))
        except (*OVER, PermissionError):
            pass
    return found


def second(threads, pid):
    """Of two threads, as `profd stack` lists them, the one that is not the main thread. Its tid may be the smaller one: the kernel's numbers begin again."""
    thread, = [thread for thread in threads if thread["tid"] != pid]
    return thread
