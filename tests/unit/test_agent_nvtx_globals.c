/* test_agent_nvtx_globals.c - finding NVTX's data by its form (agent/nvtx/globals.h), on that of this very program, which is compiled with
 * NVIDIA's headers where they are at hand. */
#include "agent/core/object.h"
#include "agent/core/peek.h"
#include "agent/nvtx/globals.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#ifdef __has_include
#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define HAVE_NVTX 1
#endif
#endif

#ifdef HAVE_NVTX
#define FIELD(ours, theirs)                                                                                            \
	_Static_assert(offsetof(struct nvtx_abi_globals, ours) == offsetof(nvtxGlobals_t, theirs), #ours)
_Static_assert(sizeof(struct nvtx_abi_globals) == sizeof(nvtxGlobals_t), "its size");
_Static_assert((int)NVTX_ABI_STATE_FRESH == NVTX_INIT_STATE_FRESH, "its first state");
_Static_assert((int)NVTX_ABI_STATE_STARTED == NVTX_INIT_STATE_STARTED, "the state of its first call");
_Static_assert((int)NVTX_ABI_STATE_COMPLETE == NVTX_INIT_STATE_COMPLETE, "its last state");
FIELD(state, initState);
FIELD(callbacks, etblCallbacks);
FIELD(version, etblVersionInfo);
FIELD(slots, nvtxMarkEx_impl_fnptr);
FIELD(slots[NVTX_ABI_CORE2_SLOT], nvtxDomainMarkEx_impl_fnptr);
FIELD(tables, functionTable_CORE);
FIELD(tables[NVTX_ABI_CORE2_TABLE], functionTable_CORE2);
_Static_assert(NVTX_ABI_CORE_COUNT == NVTX_CBID_CORE_SIZE, "ids of the module core");
_Static_assert(NVTX_ABI_CORE2_COUNT == NVTX_CBID_CORE2_SIZE, "ids of the module core2");

/* Is a copy of it, with one word put another way, taken for the real thing at its place? */
static int proved(struct dl_phdr_info *info, size_t word, uint64_t changed)
{
	struct nvtx_abi_globals copy;
	assert_int_equal(peek_bytes((uintptr_t)&nvtxGlobals_v3, &copy, sizeof copy), sizeof copy);
	uint64_t words[sizeof copy / sizeof(uint64_t)];
	memcpy(words, &copy, sizeof copy);
	words[word] += changed;
	memcpy(&copy, words, sizeof copy);
	return globals_likely(words) && globals_prove(info, &copy, (uintptr_t)&nvtxGlobals_v3);
}

static int look(struct dl_phdr_info *info, size_t size, void *found)
{
	const size_t slots = offsetof(struct nvtx_abi_globals, slots) / 8,
		     tables = offsetof(struct nvtx_abi_globals, tables) / 8;
	(void)size;
	if (!object_has(info, &nvtxGlobals_v3, sizeof nvtxGlobals_v3, PF_W)) {
		assert_false(proved(info, 0, 0));
		return 0;
	}
	*(int *)found = 1;
	assert_true(proved(info, 0, 0));
	for (size_t w = 0; w < sizeof(struct nvtx_abi_globals) / 8; w++) {
		/* Slots change, and whose functions they are is looked at by who takes it. */
		int is_slot = w >= slots && w < tables;
		assert_int_equal(proved(info, w, 1ull << 60), is_slot);
		if (w >= tables)
			assert_false(proved(info, w, 8));
	}
	return 0;
}

static void test_the_real_thing_alone(void **unused)
{
	(void)unused;
	int found = 0;
	dl_iterate_phdr(look, &found);
	assert_true(found);
	nvtxMarkA("the first call");
	found = 0;
	dl_iterate_phdr(look, &found);
	assert_true(found);
}
#else
static void test_the_real_thing_alone(void **unused)
{
	(void)unused;
	skip();
}
#endif

static void test_what_is_not_there(void **unused)
{
	(void)unused;
	uint64_t word;
	assert_true(peek_bytes(8, &word, sizeof word) < 0);
	assert_int_equal(peek_bytes((uintptr_t)&unused, &word, sizeof word), sizeof word);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_real_thing_alone),
		cmocka_unit_test(test_what_is_not_there),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
