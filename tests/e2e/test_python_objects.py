"""Objects of each CPython of this machine, read from memory as --modules and compilations read them, beside what Python says of them: objects that
share their keys, have dicts of all kinds, none, or 100,000 attributes, and what another thread changes meanwhile. And whether a Python that keeps
them otherwise is noticed."""
import subprocess

import pytest

from conftest import BUILD
from pythons import PYTHONS
from test_stack import HERE


def check(python):
    done = subprocess.run([python, HERE / "python_objects.py", BUILD / "tests/python_objects.so"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and done.stdout.split()[-1] == "another_release", (done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize("version", sorted(PYTHONS))
def test_each_python(version):
    check(PYTHONS[version])


def test_of_torch(torch_newest):
    check(torch_newest)
