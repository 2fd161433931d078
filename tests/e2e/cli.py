"""What the test_cli_* files share: the real client against a fake daemon."""

import os
import pathlib
import tempfile

import pytest

from fake_daemon import Client, FakeDaemon

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROFD = pathlib.Path(os.environ.get("PROFD_BUILD", ROOT / "build")) / "bin" / "profd"


@pytest.fixture
def folder():
    """Short enough for a socket's name, and only ours."""
    with tempfile.TemporaryDirectory(prefix="profd-cli-") as path:
        os.chmod(path, 0o700)
        yield pathlib.Path(path)


@pytest.fixture
def fake(folder):
    daemon = FakeDaemon(folder / "d")
    yield daemon
    daemon.close()


@pytest.fixture
def client(fake, folder):
    return Client(str(PROFD), fake.path, folder)


@pytest.fixture
def lonely(folder):
    """A client that no daemon answers."""
    return Client(str(PROFD), str(folder / "none" / "profd.sock"), folder)
