#!/usr/bin/env bash
# run [FOLDER] - profd's tests and measurements on this machine's GPU, from the folder that ./dev gpu --pack made. Needs no network;
# Python 3.8 or newer with torch and pytest (PROFD_GPU_PYTHON names it, else it is looked for). Writes FOLDER/gpu.json, gpu.txt and
# recorded jobs (default: ./profd-gpu), within 8 minutes. Exit code 0: all tests passed; 1: not; 3: no GPU.
set -u
start=$SECONDS
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
out=${1:-profd-gpu}
mkdir -p "$out" || exit 1
out=$(cd "$out" && pwd)
build=$here
work=
# Called by the trap.
# shellcheck disable=SC2317
clean() { [ -z "$work" ] || rm -rf "$work"; }
trap clean EXIT

python=${PROFD_GPU_PYTHON:-}
for candidate in python3 python /opt/conda/bin/python3; do
	[ -n "$python" ] || ! command -v "$candidate" >/dev/null || python=$candidate
done
if [ -z "$python" ]; then
	echo "run: no python was found; PROFD_GPU_PYTHON names one" | tee "$out/gpu.txt" >&2
	exit 1
fi

# The packed programs want the glibc of where they were built, or a newer one.
starts() { "$1/bin/profd" version >/dev/null 2>&1 && "$1/bin/profd-daemon" --version >/dev/null 2>&1; }
if ! starts "$here" || [ "${PROFD_GPU_BUILD:-}" = 1 ]; then
	work=$(mktemp -d)
	echo "== building from the sources: $("$here/bin/profd" version 2>&1 >/dev/null | head -n 1)"
	if ! sh "$here/sources/build.sh" "$work" >"$work.log" 2>&1 || ! starts "$work"; then
		{
			echo "run: the packed programs do not start here, and building them failed:"
			tail -n 30 "$work.log"
		} | tee "$out/gpu.txt" >&2
		rm -f "$work.log"
		exit 1
	fi
	rm -f "$work.log"
	build=$work
fi

unset PROFD_SOCKET PROFD_DEBUG
PROFD_BUILD=$build PYTHONDONTWRITEBYTECODE=1 "$python" "$here/tests/gpu/suite.py" --out "$out" --deadline $((460 - (SECONDS - start)))
