"""What ./dev gpu --pack carries to another machine is enough to collect the tests there."""
import os
import subprocess
import sys

import pack


def test_the_tests_are_whole(tmp_path):
    for name in pack.TESTS:
        pack.copy(pack.ROOT / "tests" / name, tmp_path / "tests" / name)
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(tmp_path / "tests" / "gpu"),
           "PROFD_GPU_RECORD": str(tmp_path / "record")}
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "record", "-p", "no:cacheprovider", "--rootdir",
                           tmp_path / "tests" / "gpu", tmp_path / "tests" / "gpu"], env=env, capture_output=True, text=True, timeout=120,
                          cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    for name in ("workloads", "torch", "jobs"):
        assert f"test_gpu_{name}.py" in done.stdout
