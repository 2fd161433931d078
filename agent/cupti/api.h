/* api.h - the functions of libcupti and libcuda that the collector calls, and where libcupti was found. All functions
 * are looked up by name: the agent does not link the libraries, and builds without their headers.
 *
 * load.c fills `cupti_api` on the agent's thread, once in a process; afterwards it is only read, by any thread. */
#ifndef PROFD_AGENT_CUPTI_API_H
#define PROFD_AGENT_CUPTI_API_H

#include "agent/core/own.h"
#include <stddef.h>
#include <stdint.h>

typedef void *cupti_subscriber;
typedef void (*cupti_requested)(uint8_t **buffer, size_t *bytes, size_t *most_records);
typedef void (*cupti_completed)(void *context, uint32_t stream, uint8_t *buffer, size_t bytes, size_t valid);
typedef void (*cupti_requested_v2)(uint8_t **buffer, size_t *bytes, size_t *most_records, void *info);
typedef void (*cupti_completed_v2)(uint8_t *buffer, size_t bytes, size_t valid, void *info);
typedef void (*cupti_callback)(void *user, unsigned domain, uint32_t cbid, const void *data);

/* CUpti_SubscriberParams; up to 13.1 it ends before `multiple`. */
struct cupti_subscription {
	size_t bytes;
	const char *name;
	char *other;
	size_t other_bytes;
	uint8_t multiple;
	uint8_t padding[7];
};

/* CUpti_ActivityUnifiedMemoryCounterConfig */
struct cupti_unified_counter {
	uint32_t scope, kind, device, enable;
};

enum cupti_result {
	CUPTI_RESULT_OK = 0,
	CUPTI_RESULT_NO_MORE = 12,
	CUPTI_RESULT_NOT_COMPATIBLE = 14,
	CUPTI_RESULT_NOT_INITIALIZED = 15,
	CUPTI_RESULT_INVALID_KIND = 21,
	CUPTI_RESULT_TAKEN = 39, /* another subscriber is there */
	CUPTI_RESULT_UNKNOWN = 999,
};
enum cupti_attribute {
	CUPTI_ATTRIBUTE_ZEROED_OUT = 5,
	CUPTI_ATTRIBUTE_MULTIPLE = 12, /* CUPTI_ACTIVITY_ATTR_MULTIPLE_SUBSCRIBER_STATE, since 13.2 */
	CUPTI_ATTRIBUTE_THREAD_ID_TYPE = 21,
};
enum { CUPTI_MULTIPLE_ALLOWED = 1 };
enum { CUPTI_THREAD_ID_SYSTEM = 1 };
enum { CUPTI_FLUSH_FORCED = 1 };

/* X(needed, member, symbol, parameters); each returns a CUptiResult. A function that is not needed is NULL in a release
 * that lacks it. */
#define CUPTI_FUNCTIONS(X)                                                                                             \
	X(1, version, cuptiGetVersion, (uint32_t * ret))                                                               \
	X(1, timestamp, cuptiGetTimestamp, (uint64_t * ret))                                                           \
	X(1, unsubscribe, cuptiUnsubscribe, (cupti_subscriber))                                                        \
	X(1, callback_name, cuptiGetCallbackName, (unsigned domain, uint32_t cbid, const char **ret))                  \
	X(1, enable, cuptiActivityEnable, (uint32_t kind))                                                             \
	X(1, disable, cuptiActivityDisable, (uint32_t kind))                                                           \
	X(1, register_callbacks, cuptiActivityRegisterCallbacks, (cupti_requested, cupti_completed))                   \
	X(1, next_record, cuptiActivityGetNextRecord, (uint8_t *, size_t valid, void **record))                        \
	X(1, flush, cuptiActivityFlushAll, (uint32_t flags))                                                           \
	X(1, dropped, cuptiActivityGetNumDroppedRecords, (void *context, uint32_t stream, size_t *ret))                \
	X(0, enable_dump, cuptiActivityEnableAndDump, (uint32_t kind))                                                 \
	X(0, attribute_get, cuptiActivityGetAttribute, (uint32_t attribute, size_t * bytes, void *value))              \
	X(0, attribute_set, cuptiActivitySetAttribute, (uint32_t attribute, size_t * bytes, void *value))              \
	X(0, thread_type_get, cuptiGetThreadIdType, (uint32_t * ret))                                                  \
	X(0, thread_type_set, cuptiSetThreadIdType, (uint32_t type))                                                   \
	X(0, enable_runtime, cuptiActivityEnableRuntimeApi, (uint32_t cbid, uint8_t on))                               \
	X(0, enable_driver, cuptiActivityEnableDriverApi, (uint32_t cbid, uint8_t on))                                 \
	X(0, unified_counters, cuptiActivityConfigureUnifiedMemoryCounter, (struct cupti_unified_counter *, uint32_t)) \
	X(0, struct_size, cuptiActivityGetStructSize, (unsigned kind, uint32_t version, size_t *ret))                  \
	X(0, enabled_kinds, cuptiActivityGetEnabledKinds,                                                              \
	  (cupti_subscriber, uint32_t *, uint32_t *, uint32_t * count))                                                \
	X(0, subscribe_v2, cuptiSubscribe_v2,                                                                          \
	  (cupti_subscriber * ret, cupti_callback, void *user, struct cupti_subscription *))                           \
	X(0, timestamp_v2, cuptiGetTimestamp_v2, (cupti_subscriber, uint64_t * ret))                                   \
	X(0, enable_v2, cuptiActivityEnable_v2, (cupti_subscriber, uint32_t kind, void *config))                       \
	X(0, disable_v2, cuptiActivityDisable_v2, (cupti_subscriber, uint32_t kind, void *config))                     \
	X(0, enable_dump_v2, cuptiActivityEnableAndDump_v2, (cupti_subscriber, uint32_t kind, void *config))           \
	X(0, register_callbacks_v2, cuptiActivityRegisterCallbacks_v2,                                                 \
	  (cupti_subscriber, cupti_requested_v2, cupti_completed_v2))                                                  \
	X(0, next_record_v2, cuptiActivityGetNextRecord_v2,                                                            \
	  (cupti_subscriber, uint8_t *, size_t valid, void **record))                                                  \
	X(0, dropped_v2, cuptiActivityGetNumDroppedRecords_v2,                                                         \
	  (cupti_subscriber, void *context, uint32_t stream, size_t *ret))                                             \
	X(0, attribute_get_v2, cuptiActivityGetAttribute_v2,                                                           \
	  (cupti_subscriber, uint32_t attribute, size_t * bytes, void *value))                                         \
	X(0, attribute_set_v2, cuptiActivitySetAttribute_v2,                                                           \
	  (cupti_subscriber, uint32_t attribute, size_t * bytes, void *value))                                         \
	X(0, enable_runtime_v2, cuptiActivityEnableRuntimeApi_v2, (cupti_subscriber, uint32_t cbid, uint8_t on))       \
	X(0, enable_driver_v2, cuptiActivityEnableDriverApi_v2, (cupti_subscriber, uint32_t cbid, uint8_t on))

struct cupti_api {
#define CUPTI_MEMBER(needed, member, symbol, parameters) int(*member) parameters;
	CUPTI_FUNCTIONS(CUPTI_MEMBER)
#undef CUPTI_MEMBER
	int (*driver_version)(int *ret); /* cuDriverGetVersion */
	int (*device_count)(int *ret);	 /* cuDeviceGetCount: answers 3 before cuInit, and initialises nothing */
	char path[512];			 /* of libcupti */
	int32_t runtime; /* release of the libcudart that is mapped, 1000 x major + 10 x minor; 0 = none, or not told */
};
OWN struct cupti_api cupti_api;

/* Is a CUDA driver mapped into this process? Looks only. */
int cupti_driver_mapped(void);
/* Name of a tool, for users, if a library is mapped by which it uses CUPTI, or the driver's hooks, alone. NULL: there
 * is none. */
const char *cupti_other_tool(void);
/* Is CUPTI mapped, but no torch? Torch links CUPTI even if it never records, so CUPTI beside torch shows no
 * profiler. */
int cupti_without_torch(void);
/* The driver's functions above. 0, or -ENOENT. */
int cupti_load_driver(void);
/* Loads libcupti: the copy that is mapped already, else the one beside the mapped libcudart or beside torch, else the
 * one that the loader finds, first for this driver's release (as cuDriverGetVersion gives it). The driver must be up.
 * 0, also for each later call; -ENOENT: there is none; -ENOSYS: the one at `path` lacks a needed function. */
int cupti_load(int driver);

#endif
