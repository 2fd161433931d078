"""Frames of each CPython of this machine, read where they lie and by copies, beside what Python says of them: of generators, coroutines and
exceptions on their way, in finalizers, traces and signals, over 512 frames deep, and while other threads look at them."""
import subprocess

import pytest

from conftest import BUILD
from pythons import PYTHONS
from test_stack import HERE


def check(python):
    done = subprocess.run([python, HERE / "python_frames.py", BUILD / "tests/python_frames.so"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and " looks" in done.stdout, (done.returncode, done.stdout, done.stderr)
    return done.stdout


@pytest.mark.parametrize("version", sorted(PYTHONS))
def test_each_python(version):
    check(PYTHONS[version])


def test_greenlets():
    system = "/usr/bin/python3"
    if subprocess.run([system, "-c", "import greenlet"], capture_output=True).returncode:
        pytest.skip("the system's Python has no greenlet (python3-greenlet)")
    assert "greenlets" in check(system)


def test_of_torch(torch_newest):
    check(torch_newest)
