# shellcheck shell=bash
# verbs.sh - ./dev test, readers, parity, service, fuzz and coverage. Read by dev, whose functions it uses.
#
# Parts run two at a time, since most tests wait most of the time; tests that measure or fill the machine are marked serial and run alone,
# last.

# The parts of ./dev test, the longest first.
PARTS=(e2e faults sanitize service fuzz replay steps cuda recipes unit sim)
# What takes long: ./dev test long runs each as a whole, CI one of them, in short, on each commit.
SLICES=(torch pythons matrix hostile restarts fuzz steps forks stacks faults threads repeats attach parity soak wide bare)

# Recorded traces, imported and exported again, in every program that reads them.
verb_readers() {
	# shellcheck disable=SC2086
	need $BUILD_PACKAGES python3 python3-venv nodejs
	want chromium
	build_plain
	fetch_readers
	PROFD_BUILD=$ROOT/build exec /usr/bin/python3 tests/e2e/readers/readers.py "$@"
}

test_packages() {
	# shellcheck disable=SC2086
	need $BUILD_PACKAGES $TEST_PACKAGES
	want ccache
	use_ccache
}

build_for_tests() {
	local nvtx cuda used since=$SECONDS
	nvtx=$(nvtx_include)
	cuda=$(cuda_headers)
	build_plain "$nvtx" "$cuda"
	used=$(mktemp)
	times >"$used"
	built=$(printf '%4d s %4d s  build' $((SECONDS - since)) "$(processor_seconds "$used")")
	rm "$used"
}

# test_long FORM [SLICE]...
test_long() {
	local form=$1 slice bad=() TEST_SECONDS=$TEST_SECONDS
	shift
	[ "$form" = short ] || TEST_SECONDS=7200
	for slice in "$@"; do
		say "long: $slice"
		(long_"$slice" "$form") || bad+=("$slice")
	done
	printf 'long: %d of %d slices passed (%s)\n' $(($# - ${#bad[@]})) $# "$*"
	[ ${#bad[@]} = 0 ] || say "failed: ${bad[*]}"
	[ ${#bad[@]} = 0 ]
}

# Of lines as tests/conftest.py writes them: seconds, processor time and number of tests of each file.
sums_by_file() {
	awk '{ file = $5; sub(/::.*/, "", file); seconds[file] += $1; processor[file] += $3; tests[file]++ }
		END { for (file in tests) printf "%7.1f s %7.1f s  %s (%d)\n", seconds[file], processor[file], file, tests[file] }'
}

run_part() { "test_$1" "${PYTEST_ARGUMENTS[@]}"; }

verb_test() {
	local wanted=() alone=() failed=() times=() built
	case ${1:-} in
	bare)
		shift
		test_bare "$@" || die "failed: bare"
		return
		;;
	long | slice)
		local form=whole slice
		[ "$1" = long ] || form=short
		shift
		for slice in "$@"; do
			[[ " ${SLICES[*]} " == *" $slice "* ]] || die "there is no slice $slice: ./dev test long [${SLICES[*]}]..."
		done
		if [ $# = 0 ]; then
			set -- "${SLICES[@]}"
			[ $form = whole ] || set -- "$(in_turn "${SLICES[@]}")"
		fi
		test_packages
		# shellcheck disable=SC2086
		want $TEST_PACKAGES_WANTED $SERVICE_PACKAGES
		build_for_tests
		test_long $form "$@" || die "failed: long"
		return
		;;
	esac
	while [ $# -gt 0 ]; do
		case $1 in
		compat) wanted+=(unit) ;;
		steps) wanted+=(all_steps) ;;
		unit | recipes | sanitize | fuzz | cuda | sim | e2e | attach | faults | torch | matrix | replay | service | short | aarch64) wanted+=("$1") ;;
		--)
			shift
			PYTEST_ARGUMENTS=("$@")
			break
			;;
		*) die "unknown part $1; ./dev help" ;;
		esac
		shift
	done
	if [ "${wanted[*]}" = aarch64 ]; then
		test_aarch64
		return
	fi
	if [ ${#wanted[@]} = 0 ]; then
		wanted=("${PARTS[@]}")
		PROFD_TURN=$(commit_number)
		export PROFD_TURN
	fi
	[[ " ${wanted[*]} " != *" e2e "* ]] || alone+=(serial)
	[[ " ${wanted[*]} " != *" sanitize "* ]] || alone+=(serial_sanitized)
	test_packages
	# shellcheck disable=SC2086
	[ "${wanted[*]}" = short ] || want $TEST_PACKAGES_WANTED
	# shellcheck disable=SC2086
	[[ " ${wanted[*]} " != *" service "* ]] || want $SERVICE_PACKAGES
	build_for_tests
	PROFD_TEST_TIMES=$(mktemp -d)
	export PROFD_TEST_TIMES
	at_once 2 run_part "${wanted[@]}"
	at_once 1 run_part "${alone[@]}"
	if [ -n "$(ls -A "$PROFD_TEST_TIMES")" ]; then
		say "the slowest tests, and their processor time" && cat "$PROFD_TEST_TIMES"/* | sort -rn | sed -n 1,20p # head would end sort by a signal
		say "files of tests, by their processor time" && cat "$PROFD_TEST_TIMES"/* | sums_by_file | sort -rn -k3 | sed -n 1,15p
		say "others that need much of a processor" && cat "$PROFD_TEST_TIMES"/* | sort -rn | sed 1,20d | sort -rn -k3 | sed -n 1,10p
	fi
	say "how long each part took, and its processor time" && printf '%s\n' "$built" "${times[@]}"
	rm -rf "$PROFD_TEST_TIMES"
	[ ${#failed[@]} = 0 ] || die "failed: ${failed[*]}"
}

# verb_parity [MODEL]...
verb_parity() {
	# shellcheck disable=SC2086
	need $BUILD_PACKAGES $PYTEST_PACKAGES python3-venv
	build_plain
	parity "${@:-all}"
}

verb_service() {
	# shellcheck disable=SC2086
	need $BUILD_PACKAGES $SERVICE_PACKAGES
	build_plain "$(nvtx_include)"
	run_service --durations=10 "$@"
}

# verb_coverage [TEST]...: what unit tests, e2e and faults reach, or the tests named. clang counts into a file that is mapped into the
# process, so what a job counts is there however it ends, and a fork counts with its parent; gcc's counters are written at exit.
verb_coverage() {
	local counters status=0
	test_packages
	need_clang_runtime
	[ $# -gt 0 ] || set -- tests/e2e tests/faults
	CC=clang CFLAGS="-fprofile-instr-generate -fcoverage-mapping -mllvm -runtime-counter-relocation" configure build-coverage \
		"-DPROFD_NVTX_INCLUDE=$(nvtx_include)" "-DPROFD_CUDA_HEADERS=$(cuda_headers)"
	compile build-coverage
	counters=$(mktemp -d)
	chmod 1777 "$counters" # programs of other users count too
	export LLVM_PROFILE_FILE=$counters/%p.%m%c.profraw
	run_ctest build-coverage || status=1
	PROFD_BUILD=$ROOT/build-coverage run_pytest "$@" || status=1
	PROFD_BUILD=$ROOT/build-coverage run_serial "$@" || [ $? = 5 ] || status=1
	python3 tests/coverage.py --build build-coverage "$counters" || status=1
	rm -rf "$counters"
	return $status
}

verb_fuzz() {
	test_packages
	case ${1:-} in
	"" | *[!0-9]*) fuzz_for "${2:-60}" "${1:-}" ;;
	*) fuzz_for "$1" ;;
	esac
}
