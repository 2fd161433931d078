"""What a capture file holds of its breakdown adds up: every side of each step to the step, every device's idle time to its causes. And what
profd finds in the file is what a slow reference finds there, row by row, if the file is small."""
import contextlib
import os
import pathlib
import sqlite3
import stat

import breakdown_reference

FILES = 40  # of one folder, those that are looked at
ROWS = 20000  # of one file
THINGS = 1500  # in a file that is judged by the reference, which needs about a tenth of a second for them
JUDGED = 3  # files of one folder
BREAKDOWN_ROWS = pathlib.Path(os.environ.get("PROFD_BUILD", pathlib.Path(__file__).resolve().parents[2] / "build")) / "tests" / "breakdown_rows"


def walls(db):
    """[ns] of the steps that have a breakdown. Of two that overlap, the later one begins where the earlier one ends."""
    found, reached = [], None
    for start, duration in db.execute("SELECT start, duration FROM steps ORDER BY start"):
        if not (isinstance(start, int) and isinstance(duration, int) and 0 <= start <= start + duration < 1 << 62):
            return []  # times that nobody's clock says
        begin, end = max(start, reached or start), start + duration
        if end > begin:
            found.append(end - begin)
            reached = end
    return found


def added_up(path, things=THINGS):
    """(steps whose rows stand in the file, those of them that were judged by the reference). Fails where they do not add up to the nanosecond, or
    are others. 0: none is recorded, or it is no capture (any more)."""
    with contextlib.suppress(OSError, sqlite3.DatabaseError):
        if not stat.S_ISREG(path.lstat().st_mode):
            return 0, 0
        with contextlib.closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as db:
            if not db.execute("SELECT 1 FROM meta WHERE key = 'verdict'").fetchone():
                return 0, 0
            rows = db.execute("SELECT step, side, device, row, ns FROM breakdown LIMIT ?", (ROWS,)).fetchall()
            steps = walls(db) if len(rows) < ROWS else []
            if not compare(path, steps, rows):
                return 0, 0
            judged = breakdown_reference.judge(BREAKDOWN_ROWS, path, db, steps, things) if things and BREAKDOWN_ROWS.exists() else 0
            return len(steps), judged
    return 0, 0


def compare(path, steps, rows):
    if not steps or not rows:
        return False
    sides, idle, causes = {}, {}, {}
    for step, side, device, row, ns in rows:
        assert ns > 0 and 1 <= step <= len(steps), (path, step, side, row, ns)
        if side in ("host", "device"):
            sides[device, step] = sides.get((device, step), 0) + ns
        if (side, row) == ("device", "idle"):
            idle[device, step] = ns
        elif side == "idle":
            causes[device, step] = causes.get((device, step), 0) + ns
    for device in {None} | {device for device, _ in sides}:
        for step, wall in enumerate(steps, 1):
            assert sides.get((device, step)) == wall, (path, "host" if device is None else f"device {device}", step, sides.get((device, step)), wall)
    assert causes == idle, path
    return True


def all_added_up(folder):
    """(files, steps, steps judged by the reference) of the captures in the folder that have a breakdown."""
    found, left = [], JUDGED
    for path in sorted(folder.glob("*.db"))[:FILES]:
        found.append(added_up(path, THINGS if left else 0))
        left -= found[-1][1] > 0
    return sum(steps > 0 for steps, _ in found), sum(steps for steps, _ in found), sum(judged for _, judged in found)
