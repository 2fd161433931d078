"""`./dev test bare` on a machine where it cannot be tried."""
import subprocess

import pytest

from conftest import ROOT

# What it uses of dev. No namespace can be made: `as_root unshare` fails.
DEV = """
need() { :; }
say() { printf '== %s\\n' "$*"; }
die() { say "$*"; exit 1; }
as_root() { return 1; }
. tests/bare/verbs.sh
test_bare demo
"""


@pytest.mark.parametrize("ci, code", [("1", 1), ("", 0)])
def test_without_namespaces(ci, code):
    """It says that it was skipped, in the line that CI looks for; in CI that is a failure."""
    done = subprocess.run(["bash", "-c", DEV], cwd=ROOT, env={"PATH": "/usr/bin:/bin", "CI": ci}, capture_output=True, text=True)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (code, "bare: 0 passed, 0 failed, 1 skipped"), done
