"""Captures of jobs in the machine, and those who follow them."""
import json


def follow(machine, job, *arguments, user="root"):
    """`profd trigger` that goes on until its captures are finished."""
    return machine.popen(["profd", "trigger", "--pid", str(job.pid), *arguments, "--format", "json"], user=user)


def captured(client, codes=(0,), timeout=120):
    """Waits for the end of a trigger: its captures, and what it said on the standard error."""
    code, out, err = client.finish(timeout)
    assert code in codes, f"{code}\n{out}\n{err}"
    return json.loads(out)["captures"], err


def wait_recording(machine, jobs):
    wanted = {job.pid for job in jobs}

    def look():
        return wanted <= {row["pid"] for row in machine.processes() if row["state"] == "recording"}

    machine.wait(look, 30, "the recordings to begin")
