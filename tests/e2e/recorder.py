"""Captures at will: a process that answers every ARM by itself with one step and some operators, in a few milliseconds; as any
user, where the test is root. And a system's daemon in a folder of its own."""
import multiprocessing
import os
import signal
import struct

import fake_agent as fake
from conftest import wait_for


def _serve(path, uid, operators, name, job):
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if uid is not None:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    agent = fake.Agent(path, name=name, job=job)
    while True:
        agent.arm()
        per = agent.chunk_bytes // 80 - 1
        chunks = max(1, -(-operators // per))
        begun = agent.begin(min(4, agent.chunk_count))
        left = operators
        for sequence in range(1, chunks + 1):
            count = min(per, left)
            records = b"".join(fake.operator(1, begun + i, 1, 1, operators - left + i + 1, 0, 0) for i in range(count))
            left -= count
            if sequence == chunks:
                records += fake.step(1, begun, 10**6)
            index = sequence % min(4, agent.chunk_count)
            wait_for(lambda: agent.state(index) == fake.FREE, 20, "a free chunk")
            agent.chunk(index, records, sequence)
        struct.pack_into("<QQ", agent.map, fake.BASE + 16, begun, begun + 10**6)
        agent.phase(fake.END, 1, 1)
        agent.done(steps=1)
        agent.map.close()
        os.close(agent.fd)


class Recorder:
    """One such process; `uid` as which user it runs."""

    def __init__(self, profd, uid=None, operators=100, name="recorder", job=""):
        self.profd = profd
        self.process = multiprocessing.get_context("fork").Process(
            target=_serve, args=(str(profd.socket), uid, operators, name, job), daemon=True)
        self.process.start()
        self.pid = self.process.pid
        wait_for(lambda: [row for row in fake.ask(profd.socket, "ps") if row.get("pid") == self.pid], 20, "the recorder")

    def rows(self, connection=None, **more):
        """The rows of one trigger of one step; on a connection that stays open where one is given."""
        own = connection or fake.connect(self.profd.socket, 60)
        schedule = {"skip_first": 0, "wait": 0, "warmup": 1, "active": 1, "repeat": 1}
        fake.send(own, "trigger", **fake.trigger_fields(targets={"pids": [self.pid]}, schedule=schedule, **more))
        try:
            return list(fake.rows(own))
        finally:
            if not connection:
                own.close()

    def capture(self, connection=None, **more):
        """CAPTURE of one."""
        rows = self.rows(connection, **more)
        captured = [row for row in rows if row.get("row") == "captured"]
        assert captured, rows
        return captured[0]

    def close(self):
        self.process.kill()
        self.process.join()
