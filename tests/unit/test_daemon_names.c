/* test_daemon_names.c - names of kernels are read as the tools read them, and hostile ones take no time and no memory. */
#include "proto/base/clock.h"
#include "daemon/capture/names.h"
#include "store/names_short.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct names names;
static struct names_text text;

static void reads(const char *mangled, const char *whole, const char *brief)
{
	size_t from, n;
	if (!names_demangle(&names, mangled, &text))
		fail_msg("%s is not read", mangled);
	if (text.n != strlen(whole) || memcmp(text.text, whole, text.n) != 0)
		fail_msg("%s: %.*s", mangled, (int)text.n, text.text);
	names_short(text.text, text.n, &from, &n);
	if (n != strlen(brief) || memcmp(text.text + from, brief, n) != 0)
		fail_msg("%s: %.*s", whole, (int)n, text.text + from);
}

/* As for the next capture. */
static void again(void)
{
	names_end(&names);
	names_begin(&names);
}

static void test_names(void **state)
{
	(void)state;
	reads("_Z4gemmPf", "gemm(float*)", "gemm");
	reads("_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEESt5arrayIPcLm1EEEEviT0_T1_",
	      "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, std::array<char*, "
	      "1ul> >(int, "
	      "at::native::FillFunctor<float>, std::array<char*, 1ul>)",
	      "vectorized_elementwise_kernel");
	reads("_ZN2at6native12_GLOBAL__N_16kernelILi4EfEEvT0_",
	      "void at::native::(anonymous namespace)::kernel<4, float>(float)", "kernel");
	reads("_ZN7cutlass6KernelI44cutlass_80_tensorop_s1688gemm_128x64_16x6_tnEEvNT_6ParamsE",
	      "void "
	      "cutlass::Kernel<cutlass_80_tensorop_s1688gemm_128x64_16x6_tn>(cutlass_80_tensorop_s1688gemm_128x64_16x6_"
	      "tn"
	      "::Params)",
	      "cutlass_80_tensorop_s1688gemm_128x64_16x6_tn");
	reads("_Z1fIiESt6vectorIT_SaIS1_EES1_", "std::vector<int, std::allocator<int> > f<int>(int)", "f");
	reads("_ZN1AclEi", "A::operator()(int)", "operator()");
	reads("_ZN1AltERKS_", "A::operator<(A const&)", "operator<");
	reads("_ZNK1AlsIiEEiT_", "int A::operator<< <int>(int) const", "operator<<");
	reads("_ZZN1A1fEvENKUlvE_clEv", "A::f()::{lambda()#1}::operator()() const", "operator()");
	reads("_ZZN2at6native4copyEvENKUlT_E_clIfEEDaS1_",
	      "auto at::native::copy()::{lambda(auto:1)#1}::operator()<float>(float) const", "operator()");
	reads("_ZN1A3fooEv.part.0", "A::foo() [clone .part.0]", "foo");
	reads("_Z1gPFivE", "g(int (*)())", "g");
}

static void test_not_mangled(void **state)
{
	(void)state;
	static const char *const plain[] = {
		"", "_", "_Z", "triton_poi_fused_0", "main", "ampere_sgemm_128x64_tn", "_Zzzz", "_ZN", "_Z\xff\xfe"};
	for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
		assert_false(names_demangle(&names, plain[i], &text));
	size_t from, n;
	names_short("triton_poi_fused_0", 18, &from, &n);
	assert_true(from == 0 && n == 18);
}

static void shortens(const char *whole, const char *brief)
{
	size_t from, n;
	names_short(whole, strlen(whole), &from, &n);
	if (n != strlen(brief) || memcmp(whole + from, brief, n) != 0)
		fail_msg("%s: %.*s", whole, (int)n, whole + from);
}

/* Which of CUTLASS's kernels it is stands in the argument of its template. */
static void test_wrappers(void **state)
{
	(void)state;
	shortens("void cutlass::Kernel2<cutlass_80_simt_sgemm_64x64_8x5_nn_align1>(int)",
		 "cutlass_80_simt_sgemm_64x64_8x5_nn_align1");
	shortens(
		"void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int, long>, float>, int>(int)",
		"GemmUniversal");
	shortens("void cutlass::Kernel2<>(int)", "Kernel2");
	shortens("void cutlass::Kernel2<a", "Kernel2");
	shortens("void mine::Kernel2<int>(int)", "Kernel2");
	shortens("cutlass::Kernel2", "Kernel2");
}

/* Any text whatever has a short form within itself. */
static void test_short_of_anything(void **state)
{
	(void)state;
	static const char letters[] = "ab:<>()[]{} operator(anonymous namespace)const,&*~->";
	char made[64];
	uint32_t seed = 1;
	for (int round = 0; round < 200000; round++) {
		size_t n = (size_t)(seed >> 24) % sizeof made, from, length;
		for (size_t i = 0; i < n; i++) {
			seed = seed * 1664525u + 1013904223u;
			made[i] = letters[(seed >> 8) % (sizeof letters - 1)];
		}
		seed = seed * 1664525u + 1013904223u;
		names_short(made, n, &from, &length);
		assert_true(from <= n && length <= n - from);
	}
}

static void repeat(char *to, size_t n, const char *head, const char *part, const char *tail)
{
	size_t at = (size_t)snprintf(to, n, "%s", head);
	while (at + strlen(part) + strlen(tail) < n)
		at += (size_t)snprintf(to + at, n - at, "%s", part);
	snprintf(to + at, n - at, "%s", tail);
}

/* Read twice on every level: 2^60 steps. */
static void endless(char to[400])
{
	size_t at = (size_t)snprintf(to, 400, "_ZN1AcvT_");
	for (int i = 0; i < 60; i++)
		at += (size_t)snprintf(to + at, 400 - at, "IT_");
	memset(to + at, 'E', 61);
	memcpy(to + at + 61, "v", 2);
}

static void test_endless(void **state)
{
	(void)state;
	char name[400];
	endless(name);
	uint64_t before = names.spent_ns, refused = names.refused;
	assert_false(names_demangle(&names, name, &text));
	uint64_t took = names.spent_ns - before;
	assert_true(took > 5000000 && took < 500000000);
	assert_true(names.refused == refused + 1);
	/* And after it the next is read as ever, by the same reader. */
	reads("_Z4gemmPf", "gemm(float*)", "gemm");
	assert_int_equal(names.readers, 1);
	/* One capture's names have a second in all. */
	for (int i = 0; i < 200 && names.spent_ns < NAMES_BUDGET_NS; i++)
		names_demangle(&names, name, &text);
	assert_true(names.spent_ns < NAMES_BUDGET_NS + 500000000u);
	refused = names.refused;
	assert_false(names_demangle(&names, "_Z4gemmPf", &text));
	assert_true(names.refused == refused + 1);
	again();
}

static void test_deep(void **state)
{
	(void)state;
	static const char *const parts[] = {"P",  "F",	"FP",	"I1aI", "N1aI", "X",   "LZ1f",	"DTcl", "St",
					    "cv", "Dp", "1AIN", "A_",	"nx",	"PFv", "Z1fIJ", "S_",	"ng"};
	static char name[NAMES_MANGLED_BYTES + 100];
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
		repeat(name, NAMES_MANGLED_BYTES, "_Z1f", parts[i], "i");
		names_demangle(&names, name, &text);
		repeat(name, NAMES_MANGLED_BYTES, "_Z1fIX", parts[i], "E");
		names_demangle(&names, name, &text);
		repeat(name, sizeof name, "_Z1f", parts[i], "i");
		assert_false(names_demangle(&names, name, &text));
		again();
	}
}

/* A right name for which the demangler wants an array of (references to template parameters) x (templates) on its stack. The
 * substitution at its end counts all of them twice. */
static void overflowing(char to[NAMES_MANGLED_BYTES], int references, int templates)
{
	static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
	char number[16] = "";
	size_t at = sizeof number - 1;
	for (int rest = 2 * references + 2 * templates; rest; rest /= 36)
		number[--at] = digits[rest % 36];
	struct {
		const char *text;
		int times;
	} parts[] = {{"_Z1fIiEvPFv", 1}, {"RT_", references}, {"1aI", templates}, {"i", 1},
		     {"E", templates},	 {"ES", 1},	      {number + at, 1},	  {"_", 1}};
	size_t n = 0;
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
		for (int k = 0; k < parts[i].times; k++)
			n += (size_t)snprintf(to + n, NAMES_MANGLED_BYTES - n, "%s", parts[i].text);
}

static void test_stack(void **state)
{
	(void)state;
	static char name[NAMES_MANGLED_BYTES];
	overflowing(name, 80, 60);
	assert_true(names_demangle(&names, name, &text));
	static const int sizes[][2] = {{450, 320}, {500, 330}, {633, 475}};
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		uint64_t refused = names.refused;
		unsigned readers = names.readers;
		overflowing(name, sizes[i][0], sizes[i][1]);
		assert_false(names_demangle(&names, name, &text));
		assert_true(names.refused == refused + 1);
		/* It cost a reader, and nothing else. */
		reads("_Z4gemmPf", "gemm(float*)", "gemm");
		assert_int_equal(names.readers, readers + 1);
	}
	/* No capture has readers without end. */
	for (int i = 0; i < 20; i++)
		assert_false(names_demangle(&names, name, &text));
	assert_true(names.readers < 20);
	assert_false(names_demangle(&names, "_Z4gemmPf", &text));
	again();
}

/* A reader that was stopped, or killed, costs time and a name. */
static void test_reader_that_ends(void **state)
{
	(void)state;
	reads("_Z4gemmPf", "gemm(float*)", "gemm");
	kill(names.reader, SIGSTOP);
	uint64_t began = clock_monotonic();
	assert_false(names_demangle(&names, "_Z4gemmPf", &text));
	assert_true(clock_monotonic() - began < 20000000000u);
	reads("_Z4gemmPf", "gemm(float*)", "gemm");
	kill(names.reader, SIGKILL);
	assert_false(names_demangle(&names, "_Z4gemmPf", &text));
	reads("_Z4gemmPf", "gemm(float*)", "gemm");
	again();
}

/* Output that doubles with every six bytes ends where no name is that long. */
static void test_swelling(void **state)
{
	(void)state;
	char name[1024] = "_Z1fI1aS_E";
	size_t at = (size_t)snprintf(name, sizeof name, "_Z1f1BIiiE");
	for (int i = 0; i < 35; i++) {
		static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
		at += (size_t)snprintf(name + at, sizeof name - at, "S_IS%c_S%c_E", digits[i], digits[i]);
	}
	assert_false(names_demangle(&names, name, &text));
}

/* The finish pool's threads block all signals, and several demangle at a time. */
static void *demangler(void *argument)
{
	struct names own;
	struct names_text *mine = malloc(sizeof *mine);
	char name[400];
	sigset_t all;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, NULL);
	endless(name);
	names_begin(&own);
	/* On a busy machine the names may take longer than a capture's may in all: that is not looked at here. */
	own.until = UINT64_MAX;
	intptr_t right = 0;
	for (int i = 0; mine && i < 10; i++)
		right += !names_demangle(&own, name, mine) && names_demangle(&own, "_Z4gemmPf", mine) && mine->n == 12;
	names_end(&own);
	free(mine);
	*(intptr_t *)argument = right;
	return NULL;
}

static void test_threads(void **state)
{
	(void)state;
	pthread_t threads[4];
	intptr_t right[4] = {0};
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, demangler, &right[i]), 0);
	for (int i = 0; i < 4; i++) {
		pthread_join(threads[i], NULL);
		assert_int_equal(right[i], 10);
	}
}

static int begin(void **state)
{
	(void)state;
	names_begin(&names);
	return 0;
}

static int end(void **state)
{
	(void)state;
	names_end(&names);
	return 0;
}

int main(int argc, char **argv)
{
	names_reader(argc, argv);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),	 cmocka_unit_test(test_not_mangled),
		cmocka_unit_test(test_wrappers), cmocka_unit_test(test_short_of_anything),
		cmocka_unit_test(test_endless),	 cmocka_unit_test(test_deep),
		cmocka_unit_test(test_stack),	 cmocka_unit_test(test_reader_that_ends),
		cmocka_unit_test(test_swelling), cmocka_unit_test(test_threads),
	};
#ifdef __SANITIZE_THREAD__
	return 0; /* it holds back the signals by which a name is given up */
#endif
	return cmocka_run_group_tests(tests, begin, end);
}
