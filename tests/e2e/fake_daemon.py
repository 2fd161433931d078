"""A daemon that says what a test tells it to, for the client's sake: errors, races and hostile answers that a real one
gives rarely or never. It speaks the contract of docs/protocol.md over a real SEQPACKET socket, and hands out
capture files whose tables the build's own store makes."""

import array
import json
import os
import socket
import subprocess
import threading
import time

from make_capture import empty_capture


class CaptureFile:
    """A finished capture file, row by row. Names are given as texts."""

    def __init__(self, path, **meta):
        self.path = str(path)
        self.db, version, _ = empty_capture(self.path)
        self.db.execute("DROP TABLE ingested")
        self.db.execute("BEGIN")
        self.strings = {}
        self.ids = 0
        facts = {
            "schema": version, "profd_version": "0.1.0", "capture_id": "17", "trigger_id": "9", "cycle": 0, "pid": 4242,
            "uid": 1000, "host": "node1", "name": "train.py", "command": "python3 train.py", "status": "complete",
            "steps_wanted": 3, "step_source": 2, "base_monotonic": 1000, "base_realtime": 1795000000000000000,
            "record_start": 0, "record_end": 30000000, "step_before": 10000000, "step_during": 10100000,
            "enable": 50000, "drain": 70000, "agent_cpu": 300000, "agent_bytes": 65536, "late_steps": 0, "events": 0,
            "lost": 0, "derive": 1000000, "simulated": 0,
        }
        facts.update(meta)
        for key, value in facts.items():
            if value is not None:
                self.db.execute("INSERT INTO meta VALUES (?, ?)", (key, value))

    def string(self, text):
        if text not in self.strings:
            self.strings[text] = len(self.strings) + 1
            self.db.execute("INSERT INTO strings VALUES (?, CAST(? AS TEXT))", (self.strings[text], text))
        return self.strings[text]

    def collector(self, name, ran=True, sentence="", enable=10000):
        self.db.execute("INSERT INTO collectors VALUES (?, 1, ?, ?, ?)", (name, int(ran), enable if ran else None, sentence))

    def step(self, step, number, start, duration, collectors=0b111, thread=4242):
        self.db.execute(
            'INSERT INTO steps (step, flags, start, duration, number, thread, source, collectors) VALUES (?, 0, ?, ?, ?, ?, 2, ?)',
            (step, start, duration, number, thread, collectors))

    def operator(self, name, start, duration, self_time, step=1, parent=None, inputs=None, thread=4242):
        self.ids += 1
        self.db.execute(
            "INSERT INTO operators (step, flags, start, duration, self, id, parent, name, thread, depth, scope, inputs, sequence)"
            " VALUES (?, 0, ?, ?, ?, ?, ?, ?, ?, 0, 0, ?, -1)",
            (step, start, duration, self_time, self.ids, parent, self.string(name), thread, inputs))
        return self.ids

    def range(self, name, start, duration, step=1, domain=None, source=1, thread=4242, parent=None):
        self.ids += 1
        self.db.execute(
            "INSERT INTO ranges (step, flags, start, duration, self, id, name, thread, depth, source, domain, parent)"
            " VALUES (?, 0, ?, ?, ?, ?, ?, ?, 0, ?, ?, ?)",
            (step, start, duration, duration, self.ids, self.string(name), thread, source,
             self.string(domain) if domain else None, parent))

    def inputs(self, dims):
        return self.db.execute("INSERT INTO inputs (dims, types, strides, concrete) VALUES (?, '[]', '[]', '[]')", (dims,)).lastrowid

    def thread(self, tid, name):
        self.db.execute("INSERT INTO threads (step, flags, thread, name) VALUES (NULL, 0, ?, ?)", (tid, self.string(name)))

    def loss(self, kind, loss, count, is_loss, sentence):
        self.db.execute("INSERT INTO losses VALUES (?, ?, ?, ?, ?)", (kind, loss, count, is_loss, sentence))

    def finish(self):
        self.db.execute(
            "INSERT INTO operator_totals (name, step, calls, self, total, min, max) SELECT name, step, count(*), sum(self), sum(duration), min(duration), max(duration)"
            " FROM operators GROUP BY name, step")
        self.db.execute(
            "INSERT INTO range_totals (name, domain, source, step, calls, self, total, min, max) SELECT name, domain, source,"
            " step, count(*), sum(self), sum(duration), min(duration), max(duration) FROM ranges"
            " GROUP BY name, domain, source, step")
        self.db.commit()
        self.db.close()
        return self.path


def process_row(pid=4242, **changes):
    row = {
        "row": "process", "pid": pid, "uid": 1000, "user": "ann", "name": "train.py", "command": "python3 train.py",
        "host": "node1", "job": None, "launcher": None, "rank": None, "local_rank": None, "world_size": None,
        "torch_version": "2.15.0", "libraries": ["torch"], "step": 100, "step_source": "optimizer", "step_ns": 10000000,
        "last_step_at": "2026-11-21T14:00:00.000000Z", "registered_at": "2026-11-21T13:00:00.000000Z", "state": "idle",
        "capture_id": None, "agent_version": "0.1.0",
    }
    row.update(changes)
    return row


def capture_row(capture_id="17", **changes):
    row = {
        "row": "capture", "capture_id": capture_id, "trigger_id": "9", "cycle": 0, "pid": 4242, "uid": 1000, "user": "ann",
        "name": "train.py", "command": "python3 train.py", "job": None, "rank": None, "world_size": None, "host": "node1",
        "label": "", "status": "complete", "reason": None, "reason_code": "none", "started_at": "2026-11-21T14:00:00.000000Z",
        "finished_at": "2026-11-21T14:00:01.000000Z", "steps_recorded": 3, "steps_wanted": 3, "events": 300, "lost": 0,
        "bytes": 40960, "step_ns": 10100000, "simulated": False,
    }
    row.update(changes)
    return row


def summary_row(capture=None, **changes):
    row = {
        "row": "summary", "capture": capture or capture_row(),
        "steps": [{"step": 1, "number": 101, "wall_ns": 10000000}, {"step": 2, "number": 102, "wall_ns": 10300000},
                  {"step": 3, "number": 103, "wall_ns": 10100000}],
        "steps_total": 3,
        "operators": [{"name": "aten::addmm", "calls": 30, "self_cpu_ns": 9000000, "cpu_ns": 9500000}], "operators_total": 1,
        "ranges": [{"name": "forward", "calls": 3, "total_ns": 12000000, "self_ns": 2000000}], "ranges_total": 1,
        "losses": [], "collectors": [{"collector": "torch", "on": True, "sentence": "", "enable_ns": 1000}],
        "cost": {"step_before_ns": 10000000, "step_during_ns": 10100000, "step_after_ns": 10000000, "enable_ns": 50000,
                 "drain_ns": 70000, "agent_cpu_ns": 300000, "agent_bytes": 65536, "late_steps": 0},
        "derive_ns": 1000000,
    }
    row.update(changes)
    return row


def error(code, message, pid=None):
    body = {"code": code, "message": message}
    if pid:
        body["pid"] = pid
    return {"error": body, "end": True}


END = {"end": True}


class Connection:
    def __init__(self, sock, log):
        self.sock = sock
        self.log = log

    def send(self, packet, fds=()):
        data = packet if isinstance(packet, bytes) else json.dumps(packet).encode()
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        self.sock.sendmsg([data], ancillary)

    def close(self):
        """What a daemon that is killed looks like."""
        self.sock.shutdown(socket.SHUT_RDWR)


class FakeDaemon:
    """answers: {op: function(connection, request) or a list of packets}. An op without one gets the error "usage"."""

    def __init__(self, folder, answers=None):
        os.makedirs(folder, mode=0o700, exist_ok=True)
        self.path = os.path.join(str(folder), "profd.sock")
        self.answers = answers or {}
        self.requests = []
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(self.path)
        self.listener.listen(16)
        self.accepting = threading.Thread(target=self._accept, daemon=True)
        self.accepting.start()

    def _accept(self):
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock):
        connection = Connection(sock, self.requests)
        with sock:
            while True:
                try:
                    data = sock.recv(65536)
                except OSError:
                    return
                if not data:
                    return
                request = json.loads(data)
                self.requests.append(request)
                answer = self.answers.get(request["op"], [error("usage", "this fake daemon knows no " + request["op"])])
                try:
                    if callable(answer):
                        answer(connection, request)
                    else:
                        for packet in answer:
                            connection.send(packet)
                except OSError:
                    return

    def of(self, op):
        return [request for request in self.requests if request["op"] == op]

    def wait_for(self, op, count=1, seconds=40):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if len(self.of(op)) >= count:
                return self.of(op)[count - 1]
            time.sleep(0.01)
        raise AssertionError("no request %s came" % op)

    def serve_file(self, path, row=None):
        """Answers `open` with a descriptor of a file, and `summary` with a plain one."""
        def give(connection, request):
            fd = os.open(path, os.O_RDONLY)
            try:
                connection.send(dict(row or capture_row(), row="file"), [fd])
            finally:
                os.close(fd)
            connection.send(END)
        self.answers["open"] = give
        self.answers.setdefault("summary", [summary_row(), END])

    def close(self):
        # Not before nobody accepts any more: the next test's listener may get the same descriptor.
        self.listener.shutdown(socket.SHUT_RDWR)
        self.accepting.join()
        self.listener.close()


class Client:
    """Runs the real profd against one socket."""

    def __init__(self, executable, sock, home):
        self.executable = executable
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith(("PROFD_", "LD_PRELOAD", "CUDA_INJ", "NVTX_INJ"))}
        self.environment.setdefault("ASAN_OPTIONS", "verify_asan_link_order=0")
        self.environment.update(PROFD_SOCKET=sock, HOME=str(home), XDG_RUNTIME_DIR=str(home), TERM="xterm")

    def run(self, *words, timeout=120, **environment):
        return subprocess.run([self.executable, *map(str, words)], env={**self.environment, **environment}, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, timeout=timeout)

    def start(self, *words, **environment):
        return subprocess.Popen([self.executable, *map(str, words)], env={**self.environment, **environment}, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
