/* nvtx_abi.h - the part of NVTX's binary interface that the collector uses. It stands here because the agent is built
 * without NVIDIA's headers. All numbers and layouts come from nvToolsExt.h and nvtxDetail/nvtxTypes.h of NVTX v3
 * (headers of the PyPI wheel nvidia-nvtx under nvidia/nvtx/include/nvtx3), and most names, too. The older
 * libnvToolsExt.so.1 has the same interface. tests/unit/test_nvtx_abi.c compares this file with the real headers. */
#ifndef PROFD_AGENT_NVTX_NVTX_ABI_H
#define PROFD_AGENT_NVTX_NVTX_ABI_H

#include <stddef.h>
#include <stdint.h>

/* nvToolsExt.h: NVTX_NO_PUSH_POP_TRACKING, which push and pop return without a tool. */
#define NVTX_ABI_NO_TRACKING (-2)

/* nvtxTypes.h: NvtxExportTableID. */
#define NVTX_ABI_ETID_CALLBACKS 1u

/* nvtxTypes.h: NvtxCallbackModule. */
enum nvtx_abi_module {
	NVTX_ABI_MODULE_CORE = 1,
	NVTX_ABI_MODULE_CORE2 = 5,
};

/* nvtxTypes.h: NvtxCallbackIdCore. */
enum nvtx_abi_core {
	NVTX_ABI_CORE_MarkEx = 1,
	NVTX_ABI_CORE_MarkA = 2,
	NVTX_ABI_CORE_MarkW = 3,
	NVTX_ABI_CORE_RangeStartEx = 4,
	NVTX_ABI_CORE_RangeStartA = 5,
	NVTX_ABI_CORE_RangeStartW = 6,
	NVTX_ABI_CORE_RangeEnd = 7,
	NVTX_ABI_CORE_RangePushEx = 8,
	NVTX_ABI_CORE_RangePushA = 9,
	NVTX_ABI_CORE_RangePushW = 10,
	NVTX_ABI_CORE_RangePop = 11,
	NVTX_ABI_CORE_NameCategoryA = 12,
	NVTX_ABI_CORE_NameCategoryW = 13,
	NVTX_ABI_CORE_NameOsThreadA = 14,
	NVTX_ABI_CORE_NameOsThreadW = 15,
};

/* nvtxTypes.h: NvtxCallbackIdCore2. */
enum nvtx_abi_core2 {
	NVTX_ABI_CORE2_DomainMarkEx = 1,
	NVTX_ABI_CORE2_DomainRangeStartEx = 2,
	NVTX_ABI_CORE2_DomainRangeEnd = 3,
	NVTX_ABI_CORE2_DomainRangePushEx = 4,
	NVTX_ABI_CORE2_DomainRangePop = 5,
	NVTX_ABI_CORE2_DomainNameCategoryA = 8,
	NVTX_ABI_CORE2_DomainNameCategoryW = 9,
	NVTX_ABI_CORE2_DomainRegisterStringA = 10,
	NVTX_ABI_CORE2_DomainRegisterStringW = 11,
	NVTX_ABI_CORE2_DomainCreateA = 12,
	NVTX_ABI_CORE2_DomainCreateW = 13,
	NVTX_ABI_CORE2_DomainDestroy = 14,
};

/* nvToolsExt.h: nvtxMessageType_t. */
enum nvtx_abi_message {
	NVTX_ABI_MESSAGE_ASCII = 1,
	NVTX_ABI_MESSAGE_UNICODE = 2,
	NVTX_ABI_MESSAGE_REGISTERED = 3,
};

/* nvToolsExt.h: nvtxColorType_t, and the last nvtxPayloadType_t whose value is in the attributes themselves (extended
 * payloads are pointers). */
#define NVTX_ABI_COLOR_ARGB 1
#define NVTX_ABI_PAYLOAD_LAST 6

/* nvToolsExt.h: nvtxEventAttributes_v2. `size` says how many bytes of it the caller has given. */
struct nvtx_abi_attributes {
	uint16_t version;
	uint16_t size;
	uint32_t category;
	int32_t color_type;
	uint32_t color;
	int32_t payload_type;
	int32_t reserved0;
	uint64_t payload;
	int32_t message_type;
	int32_t padding;
	const void *message; /* const char *, const wchar_t * or a registered string */
};
_Static_assert(sizeof(struct nvtx_abi_attributes) == 48, "nvtxEventAttributes_v2 is 48 bytes long on 64-bit machines");

/* nvtxTypes.h: NvtxFunctionPointer (always cast before it is called) and NvtxFunctionTable: table[id] is the address of
 * the object's variable that holds the function to call, which is NULL where there is none. */
typedef void (*nvtx_abi_function)(void);
typedef nvtx_abi_function **nvtx_abi_table;

/* nvtxTypes.h: NvtxExportTableCallbacks. The function returns 1 where it knows the module; *size is the number of
 * entries. */
struct nvtx_abi_callbacks {
	size_t struct_size;
	int (*get_module_function_table)(int module, nvtx_abi_table *table, unsigned int *size);
};

/* nvtxTypes.h: NvtxGetExportTableFunc_t. */
typedef const void *(*nvtx_abi_get_export_table)(uint32_t id);

/* nvtxImpl.h: NVTX_INIT_STATE_. */
enum nvtx_abi_state {
	NVTX_ABI_STATE_FRESH = 0,
	NVTX_ABI_STATE_STARTED = 1,
	NVTX_ABI_STATE_COMPLETE = 2,
};

/* nvtxTypes.h: NvtxExportTableVersionInfo. */
struct nvtx_abi_version {
	size_t struct_size;
	uint32_t version, reserved0;
	void (*set_injection_version)(uint32_t version);
};

/* nvtxImpl.h: nvtxGlobals_t, the same in all releases that the wheels have, of CUDA 11.7 to 13.0. First the functions
 * of the modules core, CUDA, OpenCL, CUDA runtime, core2 and sync, then a table for each module: NULL, the addresses of
 * its function pointers, NULL. */
#define NVTX_ABI_MODULES                                                                                               \
	{                                                                                                              \
		15, 8, 14, 6, 15, 6                                                                                    \
	}
#define NVTX_ABI_SLOTS 64
#define NVTX_ABI_CORE_SLOT 0   /* index of id 1 in `slots` */
#define NVTX_ABI_CORE2_SLOT 43 /* index of id 1 in `slots` */
#define NVTX_ABI_CORE_COUNT 16 /* the size that a table gives: its ids, and 0 */
#define NVTX_ABI_CORE2_COUNT 16
#define NVTX_ABI_CORE_TABLE 0 /* index of the table's first entry in `tables` */
#define NVTX_ABI_CORE2_TABLE 51
struct nvtx_abi_globals {
	uint32_t state, padding;
	struct nvtx_abi_callbacks callbacks;
	struct nvtx_abi_version version;
	nvtx_abi_function slots[NVTX_ABI_SLOTS];
	nvtx_abi_function *tables[NVTX_ABI_SLOTS + 12];
};
_Static_assert(sizeof(struct nvtx_abi_globals) == 1168, "nvtxGlobals_t is 1168 bytes long on 64-bit machines");

#endif
