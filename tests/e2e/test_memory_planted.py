"""Ten ways to need much memory for a moment, and ten to keep it, planted into a job of real torch: the line stands first, and the layer."""
import pytest

from conftest import WORKLOADS, wait_for

SCRIPT = WORKLOADS / "planted_memory.py"
LINES = SCRIPT.read_text().splitlines()
# Where a layer, or a phase, is known; in the others it is not.
MODULES = {"peak_0": "wide", "peak_9": "table", "leak_4": "first.down"}
PHASES = {"peak_2": "optimizer", "peak_3": "backward", "peak_8": "input", "peak_9": "backward", "leak_7": "optimizer"}


def line_of(way):
    return next(number for number, line in enumerate(LINES, 1) if line.endswith(f"# {way}"))


@pytest.mark.parametrize("kind, table", [("peak", "memory_peak"), ("leak", "memory_leaks")])
def test_the_culprit_stands_first(profd, torch_newest, kind, table):
    word, following, out = (profd.folder / name for name in ("word", "following", "out"))
    word.write_text("none")
    with open(out, "w") as file:
        job = profd.job(torch_newest, SCRIPT, word, stdout=file)
    profd.wait_steps(job.pid, 3)
    ways, found = [f"{kind}_{number}" for number in range(10)], {}
    for way in ways:
        following.write_text(way)
        following.rename(word)
        wait_for(lambda: way in out.read_text().splitlines() or job.poll() is not None, 60, f"{way} to begin")
        capture = profd.trigger(job.pid, "--steps", 6, "--memory", "--stacks=operators", "--modules", "--stacks-rate", 1)
        assert capture["status"] == "complete", capture
        first = found[way] = profd.show(capture["capture_id"])[table][0]
        assert first["file"].endswith(SCRIPT.name) and (kind == "peak" or first["steps"] == first["of_steps"] == 4), (way, first)
    assert {way: (row["line"], row["module"], row["phase"]) for way, row in found.items()} == {
        way: (line_of(way), MODULES.get(way), PHASES.get(way)) for way in ways}
