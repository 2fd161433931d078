"""What the tests of packages share: bare machines (tests/service/machine.py, with a root file system of its own), and where dev has
put what is to be tested."""
import contextlib
import os
import pathlib
import shutil
import sys
import tempfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "service"))

import machine as machines  # noqa: E402

OUTSIDE = "/srv/outside"


def wanted(variable):
    """A path that dev names."""
    value = os.environ.get(variable)
    assert value, f"{variable} is not set: ./dev package and ./dev static run these tests"
    return pathlib.Path(value).resolve()


@pytest.fixture
def bare():
    """Makes machines with a bare root file system and a real systemd in it; bare(FILE...) shows these files in /srv/outside. All
    users can run what is executable there. They have no network, no compiler and no Python."""
    reason = machines.unavailable()
    if reason:
        pytest.skip(reason)
    with contextlib.ExitStack() as stack:
        def make(*files):
            folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="profd-bare-")))
            folder.chmod(0o755)
            for file in files:
                shutil.copy2(file, folder)
            return stack.enter_context(machines.Machine(install=False, root=wanted("PROFD_BARE_ROOT"), binds=[(folder, OUTSIDE)]))

        yield make
