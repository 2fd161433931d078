# shellcheck shell=bash
# parts.sh - what ./dev test runs. A part is a function test_PART, which prints its runner's own summary and returns its verdict. Read by dev,
# whose functions it uses.

PYTEST_ARGUMENTS=() # the caller's own, after --
# A test that takes longer hangs: it fails with the place where it stands, and all that it started is ended. What takes long is given longer.
TEST_SECONDS=1200

# A number that is another one for each commit: what takes turns so meets every commit in the long run.
commit_number() {
	local commit
	commit=$(git rev-parse --short=6 HEAD 2>/dev/null) || commit=0
	printf '%d\n' $((16#$commit))
}

# in_turn WORD...: prints the word that the commit draws.
in_turn() {
	shift $(($(commit_number) % $#))
	printf '%s\n' "$1"
}

# ---- runners

# run_pytest ARGUMENT...: the system's pytest, told where the builds and torch are. Runs those tests that may share the machine, more
# at a time than there are cores: most of them wait most of the time.
run_pytest() {
	local torch jobs=${PROFD_JOBS:-$(($(nproc) * 3))} status=0
	# shellcheck disable=SC2086
	need $PYTEST_PACKAGES
	torch=${PYTEST_TORCH:-$(torch_venv "$TORCH_NEWEST")} || return 1
	PROFD_BUILD=${PROFD_BUILD:-$ROOT/build} PROFD_TORCH_NEWEST=$torch PROFD_TORCH_DEBIAN=/usr/bin/python3 PYTHONDONTWRITEBYTECODE=1 \
		/usr/bin/python3 -m pytest -ra -p no:cacheprovider --timeout "$TEST_SECONDS" -n "$jobs" -m "not serial" "$@" || status=$?
	# Nothing to run is an error, unless somebody chose tests by hand, which need not be in each part.
	[ $status != 5 ] || [ ${#PYTEST_ARGUMENTS[@]} = 0 ] || status=0
	return $status
}

# Those that measure, or fill the machine; alone.
run_serial() { run_pytest -n 0 -m serial "$@"; }

# run_ctest FOLDER
run_ctest() {
	ctest --test-dir "$1" --output-on-failure --no-tests=error -j "$(($(nproc) * 2))"
}

# at_once COUNT FUNCTION WORD...: FUNCTION for each word, so many at a time. What one of them prints comes as a whole when it has
# ended; of one word alone, as it is printed. Adds to `failed` the words whose function failed, and to `times`.
at_once() {
	local count=$1 function=$2 logs word
	shift 2
	logs=$(mktemp -d)
	for word in "$@"; do
		while [ "$(jobs -rp | wc -l)" -ge "$count" ]; do
			wait -n || true
			print_ended "$logs" "$@"
		done
		run_one "$function" "$word" "$logs" $# &
	done
	wait
	print_ended "$logs" "$@"
	rm -rf "$logs"
}

# processor_seconds FILE: of what the shell that has written `times` into it had started and waited for. A shell's own `times` only,
# without a pipe: a subshell has none yet.
processor_seconds() {
	awk 'NR == 2 { for (i = 1; i <= 2; i++) { split($i, t, /[ms]/); sum += 60 * t[1] + t[2] } printf "%.0f", sum }' "$1"
}

# A word of at_once: in a shell of its own, since `die` ends it.
run_one() {
	local function=$1 word=$2 logs=$3 status=0 since=$SECONDS
	if [ "$4" = 1 ]; then
		("$function" "$word") || status=$?
	else
		("$function" "$word") >"$logs/$word.log" 2>&1 || status=$?
	fi
	times >"$logs/$word.times"
	printf '%s %s %s\n' $status $((SECONDS - since)) "$(processor_seconds "$logs/$word.times")" >"$logs/$word.part"
	mv "$logs/$word.part" "$logs/$word.end"
}

# print_ended LOGS WORD...
print_ended() {
	local logs=$1 word status seconds processor
	shift
	for word in "$@"; do
		[ -e "$logs/$word.end" ] || continue
		read -r status seconds processor <"$logs/$word.end"
		rm "$logs/$word.end"
		[ ! -e "$logs/$word.log" ] || cat "$logs/$word.log"
		[ "$status" = 0 ] || failed+=("$word")
		times+=("$(printf '%4d s %4d s  %s' "$seconds" "$processor" "$word")")
	done
}

# ---- parts

test_unit() {
	say "unit and compat tests"
	run_ctest build
}

test_e2e() {
	say "end to end"
	(fetch_readers && PROFD_PYSPY=$(pyspy) run_pytest tests/e2e "$@")
}

# What jobs do to us and what is done to them and to the daemon, a row each; prints the table.
test_faults() {
	say "the fault matrix"
	run_pytest tests/faults "$@"
}

# What is tested under address and undefined sanitizers: sanitized WHAT.
sanitized() {
	export UBSAN_OPTIONS=print_stacktrace=1
	case $1 in
	unit)
		say "unit and compat tests under address and undefined sanitizers"
		run_ctest build-asan
		;;
	daemon)
		say "faults and hostile peers, with a daemon under these sanitizers" # no test that has none
		PROFD_DAEMON=$ROOT/build-asan/bin/profd-daemon run_pytest tests/e2e/test_{faults,hostile}.py \
			tests/e2e/test_hostile_{capture,config,descriptors,segment,user}.py
		;;
	client)
		say "the command line under these sanitizers; what it leaks has an exit code of its own"
		LSAN_OPTIONS=exitcode=23 PROFD_BUILD=$ROOT/build-asan run_pytest tests/e2e/test_whole_client.py
		;;
	sim)
		say "the simulated GPU, with all programs under these sanitizers"
		# What leaks in a job that is ended by force is nobody's fault.
		PROFD_MATRIX=12.4 ASAN_OPTIONS=detect_leaks=0:verify_asan_link_order=0 PROFD_BUILD=$ROOT/build-asan \
			run_pytest tests/e2e/test_gpu_matrix.py -k "12.4 and not hung and not crash"
		;;
	esac
}

test_sanitize() {
	local failed=() times=()
	build_sanitized address,undefined >/dev/null || return 1
	at_once 1 sanitized unit daemon client sim
	[ ${#failed[@]} = 0 ]
}

# fuzz_one TARGET: for FUZZ_SECONDS, from the seeds, the inputs kept in tests/fuzz/corpus, and what this machine found before. An input may take
# 10 s of an idle machine: four times as long, as in the tests (BUSY), on one that has other work.
fuzz_one() {
	local name=$1 folders=("build-fuzz/found/$1")
	mkdir -p "${folders[0]}"
	mapfile -t -O 1 folders < <(fuzz_folders build-fuzz "$name")
	fuzz_log build-fuzz "$name" 's/^stat::number_of_executed_units: *//p' "-max_total_time=$FUZZ_SECONDS" -timeout=40 -rss_limit_mb=2048 \
		-max_len=65536 -print_final_stats=1 -artifact_prefix="build-fuzz/$name-" "${folders[@]}"
}

# fuzz_kept TARGET: the seeds and the kept inputs alone, each once, in the build that has the sanitizers anyway (tests/fuzz/once.c).
fuzz_kept() {
	local folders
	mapfile -t folders < <(fuzz_folders build-asan "$1")
	ASAN_OPTIONS=max_allocation_size_mb=2048:hard_rss_limit_mb=2048 fuzz_log build-asan "$1" 's/^\([0-9]*\) inputs$/\1/p' "${folders[@]}"
}

# fuzz_folders BUILD TARGET: prints those that have inputs for it.
fuzz_folders() {
	find "$1/corpus/$2" "tests/fuzz/corpus/$2" -maxdepth 0 2>/dev/null || true
}

# fuzz_log BUILD TARGET COUNT ARGUMENT...: runs it; COUNT is sed's script that finds in its output how many inputs it had.
fuzz_log() {
	local where=$1 name=$2 count=$3 log=$1/$2.log
	shift 3
	if "$where/fuzz/$name" "$@" >"$log" 2>&1; then
		printf '%-28s ok   %s inputs\n' "$name" "$(sed -n "$count" "$log")"
	else
		tail -n 40 "$log" >&2
		printf '%-28s FAILED (%s, and %s/%s-*)\n' "$name" "$log" "$where" "$name"
		return 1
	fi
}

# fuzz_all BUILD FUNCTION [TARGET]: a target on each core.
fuzz_all() {
	local where=$1 function=$2 only=${3:-} target names=() failed=() times=()
	for target in "$where"/fuzz/fuzz_*; do
		target=${target##*/}
		[ "$target" != fuzz_seeds ] || continue
		[ -z "$only" ] || [ "$target" = "$only" ] || [ "$target" = "fuzz_$only" ] || continue
		names+=("$target")
	done
	[ ${#names[@]} -gt 0 ] || die "there is no fuzz target ${only}"
	at_once "$(nproc)" "$function" "${names[@]}"
	printf 'fuzz: %d targets, %d failed, %s\n' ${#names[@]} ${#failed[@]} "$([ "$function" = fuzz_kept ] && echo "each input once" || echo "$FUZZ_SECONDS s each")"
	[ ${#failed[@]} = 0 ]
}

# fuzz_for SECONDS [TARGET]
fuzz_for() {
	FUZZ_SECONDS=$1
	build_fuzz
	fuzz_all build-fuzz fuzz_one "${2:-}"
}

test_fuzz() {
	say "fuzz targets: every seed and every input that is kept, once"
	build_sanitized address,undefined >/dev/null || return 1
	fuzz_seeds build-asan
	fuzz_all build-asan fuzz_kept
}

# What a new machine most likely lacks something for, with one torch and without the readers of other people.
test_short() {
	test_unit || return 1
	say "the tests' short form"
	run_pytest tests/cuda tests/e2e/test_{capture,cli_run,cli_trigger,cli_show,errors,hostile,metrics,retention}.py "$@" &&
		run_pytest tests/faults/test_ends.py "$@"
}

# Part of e2e; here with the whole table of targets: the way, how long a thread stood, whether the job's end was the same; with Pythons
# in containers; and beside py-spy.
test_attach() {
	local folders
	need mmdebstrap
	folders=$(python_roots "$OLD_GLIBC")
	PROFD_PYSPY=$(pyspy)
	export PROFD_PYSPY
	say "attach: processes that were started without anything"
	PROFD_PYTHON_ROOTS=$folders PROFD_ATTACH_LOOPS=all PROFD_ATTACHMENTS=200 run_pytest -n 0 -s -m ""  tests/e2e/test_attach*.py tests/e2e/test_detach.py tests/e2e/test_stack.py \
		tests/e2e/test_stack_ranks.py tests/e2e/test_stack_native.py tests/e2e/test_stack_pyspy.py "$@"
}

# Some loops of torch alone, and some models beside torch.profiler.
test_steps() {
	say "steps: training loops beside what profd counts; models beside torch.profiler"
	PROFD_STEPS_SHORT=1 run_pytest tests/steps "$@" && run_pytest tests/parity "$@"
}

# All training loops, those of frameworks too.
test_all_steps() {
	local loops
	loops=$(loops_python) || die "the frameworks could not be fetched from PyPI"
	say "steps: all training loops beside what profd counts; some models beside torch.profiler"
	PROFD_LOOPS=$loops run_pytest tests/steps "$@" && run_pytest tests/parity "$@"
}

# parity MODEL...: profd beside torch.profiler, one model at a time, as times are compared; "all" are all models.
parity() {
	local loops models=$*
	loops=$(loops_python) || die "the frameworks could not be fetched from PyPI"
	PROFD_LOOPS=$loops PROFD_PARITY=$models run_pytest -n 0 -q tests/parity "${PYTEST_ARGUMENTS[@]}"
}

test_cuda() {
	say "layouts of CUPTI's records against every release's headers and library"
	run_pytest tests/cuda tests/sim "$@"
}

# What ./dev gpu tests on a real GPU, on a simulated one of a release that the commit draws.
test_sim() {
	local release
	# shellcheck disable=SC2046
	release=$(in_turn $(known_cuda | tr ';' '\n' | cut -d= -f1))
	say "the GPU's tests on a simulated one, CUDA $release"
	PROFD_SIM=$release run_pytest tests/gpu/test_gpu_workloads.py "$@" && test_gpu_rehearsal "$@"
}

# Those with PyTorch, without a GPU: what is left of them then, so that they run where there is one.
test_gpu_rehearsal() {
	local torch
	torch=${PYTEST_TORCH:-$(torch_venv "$TORCH_NEWEST")} || return 1
	say "the GPU's tests with PyTorch, rehearsed on the CPU"
	PROFD_GPU_TORCH_DEVICE=cpu PROFD_GPU_PYTHON=$torch run_pytest tests/gpu/test_gpu_pack.py tests/gpu/test_gpu_torch.py tests/gpu/test_gpu_jobs.py \
		-k "whole or lstm or before_during or rows or (goes_on and (plain or workers)) or return" "$@"
}

# The traces of real GPUs in tests/data, performed against the simulated one; PROFD_TRACES names a folder of further ones.
test_replay() {
	say "replay of recorded timelines"
	run_pytest tests/replay "$@"
}

# Scenarios in a real systemd: those that take seconds.
test_service() {
	say "the daemon in a real systemd"
	run_service -m "not long" "$@"
}

run_service() {
	PROFD_BUILD=$ROOT/build PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 -m pytest -ra -p no:cacheprovider --timeout "$TEST_SECONDS" \
		tests/service "$@"
}

# Those that measure, or fill the machine.
test_serial() {
	say "tests that run alone"
	run_serial tests/e2e "$@"
}

test_serial_sanitized() {
	say "hostile captures that run alone, with a daemon under address and undefined sanitizers"
	UBSAN_OPTIONS=print_stacktrace=1 PROFD_DAEMON=$ROOT/build-asan/bin/profd-daemon run_serial tests/e2e/test_hostile_capture.py "$@"
}

# The recipes of CONTRIBUTING.md, followed in a copy; one build, so one process.
test_recipes() {
	say "recipes"
	run_pytest -n 0 tests/recipes "$@"
}

test_torch() { test_e2e -k torch "$@"; }
test_matrix() { test_e2e -k gpu_matrix "$@"; }
