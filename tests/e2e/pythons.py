"""The CPythons of this machine that profd reads."""
import glob
import os
import subprocess


def pythons():
    """{"3.N": path}: the system's, those of PATH, and those that pyenv has built."""
    found = {}
    places = ["/usr/bin/python3"] + [f"{folder}/python3.{n}" for folder in os.environ["PATH"].split(":") for n in range(9, 15)]
    for path in places + sorted(glob.glob(os.path.expanduser("~/.pyenv/versions/3.*/bin/python3"))):
        if not os.access(path, os.X_OK):
            continue
        said = subprocess.run([path, "-c", "import sys; print('%d.%d' % sys.version_info[:2], hasattr(sys, '_is_gil_enabled') and "
                               "not sys._is_gil_enabled())"], capture_output=True, text=True, env={"PATH": "/usr/bin:/bin"})
        if said.returncode == 0 and said.stdout.split()[1] == "False" and 9 <= int(said.stdout.split()[0][2:]) <= 14:
            found.setdefault(said.stdout.split()[0], path)
    return found


PYTHONS = pythons()
