"""Signal handlers that interrupt malloc or the recorder, and may leave it by a jump."""
import sqlite3

import pytest

from house import BUILD, wait_for

HANDLERS = BUILD / "workloads" / "handlers"
JUMPS = BUILD / "workloads" / "jumps"
pytestmark = pytest.mark.skipif(not (HANDLERS.exists() and JUMPS.exists()), reason="workloads with NVTX were not built (PROFD_NVTX_INCLUDE)")


def counted(profd, capture, name):
    """How often a range of this name is in the capture, and the losses as {(loss, kind): count}."""
    with sqlite3.connect(f"file:{profd.file(capture['capture_id'])}?mode=ro", uri=True) as db:
        ranges, = db.execute("SELECT count(*) FROM ranges WHERE name = (SELECT id FROM strings WHERE text = ?)",
                             (name,)).fetchone()
        losses = {(loss, kind): count for loss, kind, count in
                  db.execute("SELECT loss, kind, count FROM losses WHERE is_loss")}
    return ranges, losses


def test_nvtx_in_a_handler_below_malloc(row, profd):
    row.does("calls NVTX first from a signal handler that interrupted malloc")

    def during(job):
        profd.wait_steps(job.pid, 2)
        return profd.trigger(job.pid, "--steps", 20)

    capture = row.twice(profd, [HANDLERS, "--steps=60", "--step-ms=10"], during)
    assert capture["status"] == "complete", capture
    ranges, losses = counted(profd, capture, "in a handler")
    row.counts(ranges, sum(losses.values()), 20)
    assert not losses


def test_a_jump_out_of_a_hook(row, profd):
    row.does("leaves a hook by siglongjmp, in each step")

    def during(job):
        profd.wait_steps(job.pid, 2)
        return [profd.trigger(job.pid, "--steps", 10) for _ in range(2)]

    # It jumps while recording is being switched on, too, which takes a full machine a second: in such steps that is not often.
    captures = row.twice(profd, [JUMPS, "--mode=push", "--steps=60", "--step-ms=60"], during)
    for capture in captures:
        assert capture["status"] == "complete", capture
        ranges, losses = counted(profd, capture, "work")
        # The range whose push was left is lost, and nothing else.
        assert list(losses) == [("left", "range")], losses
        row.counts(ranges, losses["left", "range"], 10 * (10 + 1))


MOST = 64  # jumps that a process gets over


def test_more_jumps_than_it_gets_over(row, profd):
    row.does("leaves a hook by siglongjmp a hundred times")

    def during(job):
        profd.wait_steps(job.pid, 2)
        captures = [profd.trigger(job.pid, "--steps", steps, codes=(0, 5)) for steps in (100, 10)]
        # Its thread records nothing more. The agent does not wait for it, and steps are counted.
        wait_for(lambda: profd.process(job.pid)["state"] == "idle", 5, "the agent to be idle")
        profd.wait_steps(job.pid, profd.process(job.pid)["step"] + 2)
        return captures

    captures = row.twice(profd, [JUMPS, "--mode=push", "--steps=60", "--step-ms=5"], during)
    left = []
    for capture, steps in zip(captures, (100, 10)):
        ranges, losses = counted(profd, capture, "work")
        left.append(losses.get(("left", "range"), 0))
        row.counts(ranges, sum(count for (_, kind), count in losses.items() if kind == "range"), steps * (10 + 1))
    # Those that it gets over, but for what the warm-up had, and the one with which it stays inside for good.
    assert 0 < left[0] <= MOST + 1 and left[1] == 0, left


def test_a_jump_out_of_a_boundary(row, profd):
    row.does("leaves a step's boundary by siglongjmp")

    def during(job):
        profd.wait_steps(job.pid, 2)
        first = profd.trigger(job.pid, "--steps", 100, "--timeout", "5s", codes=(5,))
        wait_for(lambda: profd.process(job.pid)["state"] == "idle", 5, "the agent to be idle")
        return first, profd.trigger(job.pid, "--steps", 3)

    first, second = row.twice(profd, [JUMPS, "--mode=tick", "--steps=60", "--step-ms=10"], during)
    assert first["status"] == "incomplete" and first["reason_code"] == "left", first
    ranges, losses = counted(profd, first, "work")
    assert losses == {("left", "step"): 1}
    # The steps that were recorded, the one that was left, and the one at whose end that was seen: it is part of none.
    row.counts(first["steps_recorded"], losses["left", "step"], ranges // 10 - 1)
    assert second["status"] == "complete", second
