/* test_nvtx_abi.c - agent/nvtx/nvtx_abi.h against NVIDIA's own headers, where they are at hand: by static asserts, so
 * that a difference does not compile. Without them there is nothing to compare with, and the test says so. */
#include "agent/nvtx/nvtx_abi.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#ifdef __has_include
#if __has_include(<nvtx3/nvToolsExt.h>)
#define NVTX_NO_IMPL
#include <nvtx3/nvToolsExt.h>
#define HAVE_NVTX 1
#endif
#endif

#ifdef HAVE_NVTX
#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #ours)
#define CORE(name) SAME(NVTX_ABI_CORE_##name, NVTX_CBID_CORE_##name)
#define CORE2(name) SAME(NVTX_ABI_CORE2_##name, NVTX_CBID_CORE2_##name)
#define FIELD(ours, theirs)                                                                                            \
	_Static_assert(offsetof(struct nvtx_abi_attributes, ours) == offsetof(nvtxEventAttributes_t, theirs), #ours);  \
	_Static_assert(sizeof(((struct nvtx_abi_attributes *)0)->ours) ==                                              \
			       sizeof(((nvtxEventAttributes_t *)0)->theirs),                                           \
		       #ours)

SAME(NVTX_ABI_NO_TRACKING, NVTX_NO_PUSH_POP_TRACKING);
SAME(NVTX_ABI_ETID_CALLBACKS, NVTX_ETID_CALLBACKS);
SAME(NVTX_ABI_MODULE_CORE, NVTX_CB_MODULE_CORE);
SAME(NVTX_ABI_MODULE_CORE2, NVTX_CB_MODULE_CORE2);
CORE(MarkEx);
CORE(MarkA);
CORE(MarkW);
CORE(RangeStartEx);
CORE(RangeStartA);
CORE(RangeStartW);
CORE(RangeEnd);
CORE(RangePushEx);
CORE(RangePushA);
CORE(RangePushW);
CORE(RangePop);
CORE(NameCategoryA);
CORE(NameCategoryW);
CORE(NameOsThreadA);
CORE(NameOsThreadW);
CORE2(DomainMarkEx);
CORE2(DomainRangeStartEx);
CORE2(DomainRangeEnd);
CORE2(DomainRangePushEx);
CORE2(DomainRangePop);
CORE2(DomainNameCategoryA);
CORE2(DomainNameCategoryW);
CORE2(DomainRegisterStringA);
CORE2(DomainRegisterStringW);
CORE2(DomainCreateA);
CORE2(DomainCreateW);
CORE2(DomainDestroy);
SAME(NVTX_ABI_MESSAGE_ASCII, NVTX_MESSAGE_TYPE_ASCII);
SAME(NVTX_ABI_MESSAGE_UNICODE, NVTX_MESSAGE_TYPE_UNICODE);
SAME(NVTX_ABI_MESSAGE_REGISTERED, NVTX_MESSAGE_TYPE_REGISTERED);
SAME(NVTX_ABI_COLOR_ARGB, NVTX_COLOR_ARGB);
SAME(NVTX_ABI_PAYLOAD_LAST, NVTX_PAYLOAD_TYPE_FLOAT);
_Static_assert(sizeof(struct nvtx_abi_attributes) == sizeof(nvtxEventAttributes_t), "attributes");
FIELD(version, version);
FIELD(size, size);
FIELD(category, category);
FIELD(color_type, colorType);
FIELD(color, color);
FIELD(payload_type, payloadType);
FIELD(payload, payload);
FIELD(message_type, messageType);
FIELD(message, message);
_Static_assert(sizeof(struct nvtx_abi_callbacks) == sizeof(NvtxExportTableCallbacks), "callbacks");
_Static_assert(offsetof(struct nvtx_abi_callbacks, get_module_function_table) ==
		       offsetof(NvtxExportTableCallbacks, GetModuleFunctionTable),
	       "callbacks");
_Static_assert(sizeof(nvtx_abi_table) == sizeof(NvtxFunctionTable), "function table");
_Static_assert(sizeof(uint64_t) == sizeof(nvtxRangeId_t), "range id");
#endif

static void test_same_as_headers(void **state)
{
	(void)state;
#ifndef HAVE_NVTX
	print_message("nvtx3/nvToolsExt.h was not found: nothing was compared\n");
	skip();
#endif
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_as_headers)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
