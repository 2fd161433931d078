#!/usr/bin/env bash
# demo.sh - the main job, as a person would do it by hand: where do the next steps of a running job go, and why? A torch training loop
# on the CPU that waits for its data; the same, mended, and what that changed; its lines, layers and memory; a trace of a real A100;
# and the GPU work of a training job as it was recorded on an A100 (tests/data), performed again on a simulated GPU. Called by
# `./dev demo`. With the word attach: a torch job that nobody prepared.
# PROFD_TORCH_NEWEST is a python that has torch, PROFD_BUILD the build folder, PROFD_DEMO_RELEASE the CUDA release that is simulated.
set -euo pipefail
python=${PROFD_TORCH_NEWEST:?names a python with torch; ./dev demo sets it}
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${PROFD_BUILD:-$root/build}
release=${PROFD_DEMO_RELEASE:?names a CUDA release; ./dev demo sets it}
out=$build/demo
PATH=$build/bin:$build/workloads:$PATH
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

# wait_for_steps N: until the job has ended so many.
wait_for_steps() {
	for _ in $(seq 1200); do
		kill -0 "$job" 2>/dev/null || { tail -n 5 "$out"/*.log >&2; exit 1; }
		profd ps --format csv 2>/dev/null | awk -F, -v pid="$job" -v steps="$1" '
			NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i; next }
			$column["pid"] == pid && $column["step"] >= steps { found = 1 }
			END { exit !found }' && return
		sleep 0.1
	done
	printf 'the job has shown no steps\n' >&2
	exit 1
}

printf '$ profd daemon --user &\n'
profd daemon --user --dir "$dir/store" 2>"$out/daemon.log" &
daemon=$!
for _ in $(seq 100); do
	profd status >/dev/null 2>&1 && break
	sleep 0.05
done

# start OPTION...: the training job, with the agent in it; until its steps are known.
start() {
	printf '$ profd run -- python3 train.py %s &\n' "$*"
	profd run -- "$python" "$root/tests/workloads/train.py" "$@" --steps 0 >"$out/job.log" 2>&1 &
	job=$!
	# Importing torch takes a while; then a few steps, so that it is known how fast they go.
	wait_for_steps 20
}

stop() {
	kill "$job"
	wait "$job" 2>/dev/null || true
	job=
}

# A job that nobody prepared.
if [ "${1:-}" = attach ]; then
	printf '\n==== A torch job that was started without anything\n\n$ python3 train.py --steps 0 &\n'
	"$python" "$root/tests/workloads/train.py" --model transformer --batch 16 --steps 0 >"$out/job.log" 2>&1 &
	job=$!
	for _ in $(seq 1200); do
		grep -q libtorch_cpu "/proc/$job/maps" && [ -s "$out/job.log" ] && break
		sleep 0.1
	done
	printf '\n$ profd trigger --pid %s\n' "$job"
	profd trigger --pid "$job" && exit 1
	show profd stack --pid "$job"
	show profd attach --pid "$job"
	wait_for_steps 5
	show profd ps
	show profd trigger --pid "$job" --steps 5 --shapes
	show profd detach --pid "$job"
	threads=$(cat /proc/"$job"/task/*/comm)
	case $threads in *profd*) exit 1 ;; esac
	printf '\nIts threads: %s\n' "$(printf '%s\n' "$threads" | sort | uniq -c | tr -s ' \n' ' ')"
	show profd audit
	printf '\nThe job has gone on meanwhile: %s\n' "$(tail -n 1 "$out/job.log")"
	stop
	exit 0
fi

printf '\n==== 1. A torch job on the CPU. Its data comes from a slow disk: each sample takes 3 ms\n\n'
start --model transformer --ranges --batch 16 --loader --load-ms 3
show profd ps
show profd doctor --pid "$job"
show profd trigger --pid "$job" --steps 8 --shapes --output "$out/trace.json.gz"
printf '\nThe job has gone on meanwhile: %s\n' "$(tail -n 1 "$out/job.log")"
stop

printf '\n==== 2. The same job, mended as the verdict says: workers load\n\n'
start --model transformer --ranges --batch 16 --loader --load-ms 3 --workers 4
show profd trigger --pid "$job" --steps 8 --shapes
show profd diff u1 u2

printf '\n==== 3. The same job once more: by line of code, by layer, and its memory\n'
show profd trigger --pid "$job" --steps 4 --stacks=operators --modules --memory
show profd show u3 --by lines --limit 8
show profd show u3 --by modules --limit 20
show profd show u3 --by peak --limit 8
stop

printf '\n==== 4. A trace that torch.profiler wrote on an A100\n'
show profd import "$root/tests/data/traces/a100_ddp_rank0of2_nccl_data.json.gz" --output "$out/a100.db"
show profd show "$out/a100.db"

printf '\n==== 5. A live GPU: SIMULATED. One rank of a training job, as it was recorded on an A100, performed again\n\n'
recording=a100_ddp_rank0of2_nccl_data.timeline
timeline=$out/$recording
gzip -dc "$root/tests/data/$recording.gz" >"$timeline"
# shellcheck disable=SC2016 # it is shown, not run
printf '$ eval "$(./dev sim %s)"      # a simulated driver, and the CUPTI of CUDA %s\n' "$release" "$release"
printf '$ profd run -- replay --timeline=%s --repeat=0 &\n' "$recording"
SIMCUDA="driver=$release" LD_LIBRARY_PATH="$build/sim/$release${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" \
	profd run -- replay --timeline="$timeline" --repeat=0 >"$out/replay.log" 2>&1 &
job=$!
wait_for_steps 4

show profd trigger --pid "$job" --steps 3 --output "$out/gpu.json.gz"
show profd show --by streams
show profd report --output "$out/gpu.html"
stop

cp "$(find "$dir/store/captures" -name '*.db' | sort -V | head -n 1)" "$out/capture.db"
printf '\nThe capture of the first job:  %s show %s   (or query it with any SQLite)\n' "$build/bin/profd" "$out/capture.db"
printf 'Traces to open in https://ui.perfetto.dev or chrome://tracing (the second one is of the simulated GPU):\n%s\n%s\n' \
	"$out/trace.json.gz" "$out/gpu.json.gz"
printf 'The page of the simulated GPU, for a browser: %s\n' "$out/gpu.html"
