#!/usr/bin/env bash
# demo.sh - the main job, as a person would do it by hand: a torch training loop runs; it is slow; where do its next
# three steps go? Called by `./dev demo`. PROFD_TORCH_NEWEST is a
# python that has torch, PROFD_BUILD the build folder.
set -euo pipefail
python=${PROFD_TORCH_NEWEST:?names a python with torch; ./dev demo sets it}
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${PROFD_BUILD:-$root/build}
out=$build/demo
PATH=$build/bin:$PATH
rm -rf "$out"
mkdir -p "$out"
dir=$(mktemp -d "${TMPDIR:-/tmp}/profd-demo.XXXXXX")
export PROFD_SOCKET=$dir/profd.sock NO_COLOR=1

# A command as a person would type it; the answer below it.
show() {
	printf '\n$ %s\n' "$*"
	"$@"
}

job=
daemon=
cleanup() {
	[ -z "$job" ] || kill "$job" 2>/dev/null || true
	[ -z "$daemon" ] || kill "$daemon" 2>/dev/null || true
	wait 2>/dev/null || true
	rm -rf "$dir"
}
trap cleanup EXIT

printf '$ profd daemon --user &\n'
profd daemon --user --dir "$dir/store" 2>"$out/daemon.log" &
daemon=$!
for _ in $(seq 100); do
	profd status >/dev/null 2>&1 && break
	sleep 0.05
done

printf '$ profd run -- python transformer.py --steps 1000000 &      # a training loop of torch on the CPU\n'
profd run -- "$python" "$root/tests/workloads/transformer.py" --steps 1000000 >"$out/job.log" 2>&1 &
job=$!

# Its first steps: importing torch takes a while.
for _ in $(seq 600); do
	kill -0 "$job" 2>/dev/null || { cat "$out/job.log" >&2; exit 1; }
	profd ps --format csv 2>/dev/null | grep -q optimizer && break
	sleep 0.1
done

show profd ps
show profd doctor --pid "$job"
show profd trigger --pid "$job" --steps 3 --shapes --output "$out/trace.json.gz"
show profd show --limit 12
printf '\nThe trace of these three steps: %s (open it in https://ui.perfetto.dev or chrome://tracing)\n' "$out/trace.json.gz"
