# shellcheck shell=bash
# long.sh - what takes hours (./dev test long), in slices: long_NAME is the whole of one, or, with the word `short`, a few minutes of it, for
# CI. Read by dev, whose functions it uses, and those of parts.sh.

# by_form FORM SHORT WHOLE
by_form() { [ "$1" = short ] && printf '%s' "$2" || printf '%s' "$3"; }

# Tests of torch with other versions than the newest. Few, as each fills 5 GB of the cache.
long_torch() {
	local versions=("$TORCH_OLDEST" 2.8.0) version python status=0
	[ "$1" != short ] || versions=("$(in_turn "${versions[@]}")")
	for version in "${versions[@]}"; do
		say "end to end, with torch $version"
		python=$(torch_venv "$version") || return 1
		# Each folder has a conftest.py of its own: one at a time.
		PROFD_TORCH_OTHER=$python run_pytest tests/e2e -k OTHER || status=1
		PROFD_TORCH_OTHER=$python run_pytest tests/faults -k OTHER || status=1
	done
	return $status
}

# Stacks, modules, compilations, garbage collection, steps, epochs and an attachment with Pythons that this machine's release does not have.
long_pythons() {
	local every=() one python status=0
	[ "$(uname -m)" = x86_64 ] || {
		say "other Pythons are tried on x86-64 alone: skipped"
		return 0
	}
	need mmdebstrap
	for one in $(python_roots | tr ':' ' ') $(pyenv_pythons); do
		every+=("$one")
	done
	[ "$1" != short ] || [ ${#every[@]} = 0 ] || every=("$(in_turn "${every[@]}")")
	for one in "${every[@]}"; do
		say "stacks, modules, compilations, garbage collection, steps, epochs and an attachment, with $one"
		if [[ $one == *=* ]]; then
			python=$(pyenv_torch "$one")
		else
			python=$(root_torch "$one")
		fi || {
			say "torch cannot be had for $one, which is not tried"
			continue
		}
		PYTEST_TORCH=$python run_pytest tests/e2e/test_{python_objects,python_frames,modules,operator_stacks,export_functions,garbage}.py tests/e2e/test_stacks.py::test_torch \
			"tests/e2e/test_compile.py::test_compiled_again[aot_eager]" tests/e2e/test_attach.py::test_torch_is_recorded_as_with_the_agent_from_the_start \
			"tests/e2e/test_epochs.py::test_each_epoch_is_a_step[anew]" || status=1
		PYTEST_TORCH=$python run_pytest tests/faults/test_modules.py tests/faults/test_stacks.py::test_operators || status=1
		PYTEST_TORCH=$python run_pytest tests/steps/test_steps.py -k "turns or gan or hooks or two_adamw" || status=1
	done
	return $status
}

# Every behaviour of the simulated CUPTI, of every release.
long_matrix() { PROFD_MATRIX=all run_pytest tests/e2e/test_gpu_matrix.py; }

# A user who means harm, while another is served.
long_hostile() { PROFD_HOSTILE_SECONDS=$(by_form "$1" 240 1800) run_serial tests/e2e/test_hostile_user.py; }

# Restarts of the service in a row, while jobs are recorded.
long_restarts() { PROFD_RESTARTS=$(by_form "$1" 20 100) run_service -m long; }

# All tests of which ./dev test runs a part; in short the next commit's part.
long_wide() {
	local folder status=0
	fetch_readers || return 1
	if [ "$1" = short ]; then
		PROFD_TURN=$(($(commit_number) + 1))
		export PROFD_TURN
	fi
	# Each folder has a conftest.py of its own: one at a time.
	for folder in e2e faults steps replay; do
		PROFD_PYSPY=$(pyspy) run_pytest "tests/$folder" -m "wide and not serial" || status=1
	done
	[ "$1" = short ] || run_pytest -n 0 tests/e2e -m "wide and serial" || status=1
	return $status
}

long_fuzz() { fuzz_for "$(by_form "$1" 30 300)"; }

long_steps() { test_all_steps "${PYTEST_ARGUMENTS[@]}"; }

# Attachments by the thousand, Python's own slot, and the demo of one; containers and every loop where it is the whole.
long_attach() {
	local folders status=0
	need mmdebstrap
	folders=$(python_roots "$OLD_GLIBC")
	PROFD_PYTHON_ROOTS=$folders PROFD_ATTACHMENTS=$(by_form "$1" 100 1000) run_pytest -n 0 -s -m "" tests/e2e/test_attach_{slot,table}.py || status=1
	[ "$1" = short ] || PROFD_PYTHON_ROOTS=$folders PROFD_ATTACH_LOOPS=all run_pytest -n 0 -s -m "" tests/e2e/test_attach_{containers,loops}.py || status=1
	"$ROOT/dev" demo attach || status=1
	return $status
}

# A job of four ranks, with triggers at random.
long_soak() { PROFD_SOAK_SECONDS=$(by_form "$1" 150 1800) run_serial -s tests/e2e/test_soak_ranks.py; }

# Models of all kinds beside torch.profiler.
long_parity() {
	# shellcheck disable=SC2046
	parity $(by_form "$1" "$(in_turn transformer lstm compile ddp fsdp2 lightning hf timm)" all)
}

# README's commands on a bare machine; in short with the tests' short form.
long_bare() { test_bare "$(by_form "$1" short all)"; }

# Forks beside a recording, by the ten thousand.
long_forks() { PROFD_FORK_SECONDS=$(by_form "$1" 200 1200) run_pytest tests/faults/test_forks.py; }

# Stacks of jobs whose frames come and go, nine kinds of them: an hour in all.
long_stacks() { PROFD_STACK_SECONDS=$(by_form "$1" 60 400) run_pytest tests/faults/test_stacks.py; }

# Every core has a loop beside the fault matrix. In short a fifth of its files, once.
long_faults() (
	files=(tests/faults/test_*.py) times=3 status=0 loops=()
	if [ "$1" = short ]; then
		turn=$(in_turn 0 1 2 3 4) times=1 some=()
		for ((i = turn; i < ${#files[@]}; i += 5)); do some+=("${files[i]}"); done
		files=("${some[@]}")
	fi
	for ((i = 0; i < $(nproc); i++)); do
		(while :; do :; done) &
		loops+=($!)
	done
	trap 'kill "${loops[@]}"' EXIT
	for ((i = 0; i < times; i++)); do run_pytest "${files[@]}" || status=1; done
	exit $status
)

# The daemon and the unit tests under the thread sanitizer.
long_threads() {
	local status=0
	build_sanitized thread >/dev/null || return 1
	run_ctest build-tsan || status=1
	PROFD_DAEMON=$ROOT/build-tsan/bin/profd-daemon run_pytest tests/e2e/test_{faults,capture,cycles,retention}.py || status=1
	return $status
}

# What holds every time, many times.
long_repeats() {
	PROFD_REPEATS=$(by_form "$1" 30 100) run_pytest tests/e2e/test_{capture,gpu_matrix}.py -k "whatever_they_take or every_layout" || return 1
	PROFD_CAPTURES=$(by_form "$1" 1000 3000) run_serial -s tests/e2e/test_scale.py -k many_captures
}
