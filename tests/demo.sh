#!/usr/bin/env bash
# demo.sh - the main job, as a person would do it by hand: a torch training loop runs; where do its next three steps go?
# Called by `./dev demo`. PROFD_TORCH_NEWEST is a python that has torch, PROFD_BUILD the build folder.
set -euo pipefail
python=${PROFD_TORCH_NEWEST:?names a python with torch; ./dev demo sets it}
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${PROFD_BUILD:-$root/build}
out=$build/demo
PATH=$build/bin:$PATH
rm -rf "$out"
mkdir -p "$out"
dir=$(mktemp -d "${TMPDIR:-/tmp}/profd-demo.XXXXXX")
export PROFD_SOCKET=$dir/profd.sock

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

printf '$ profd run -- python3 train.py --model transformer --ranges &      # torch, on the CPU: no GPU is needed\n'
profd run -- "$python" "$root/tests/workloads/train.py" --model transformer --ranges --batch 16 --steps 0 \
	>"$out/job.log" 2>&1 &
job=$!

# Importing torch takes a while; then a few steps, so that it is known how fast they go.
for _ in $(seq 1200); do
	kill -0 "$job" 2>/dev/null || { cat "$out/job.log" >&2; exit 1; }
	grep -q '^step 20 ' "$out/job.log" && break
	sleep 0.1
done

show profd ps
show profd doctor --pid "$job"
show profd trigger --pid "$job" --steps 3 --shapes --output "$out/trace.json.gz"

cp "$dir"/store/captures/*.db "$out/capture.db"
printf '\nThe job has gone on meanwhile: %s\n' "$(tail -n 1 "$out/job.log")"
printf 'What it printed:       %s\n' "$out/job.log"
printf 'The capture itself:    %s show %s   (or query it with any SQLite)\n' "$build/bin/profd" "$out/capture.db"
printf 'Its three steps, as a trace to open in https://ui.perfetto.dev or chrome://tracing:\n%s\n' "$out/trace.json.gz"
