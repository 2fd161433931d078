/* script.h - what the simulator is told to do: keys and values, from the environment variable SIMCUDA.
 *
 * SIMCUDA is "key=value,key,...", or "@FILE" whose lines are key=value or key, # comments. Read once, at the first question;
 * any thread may ask. Times are a number with ns, us, ms or s (ns where nothing stands), numbers may be followed by k, m or g
 * (thousands). A key that stands twice has its last value.
 *
 * Keys of the driver (tests/sim/cuda):
 *   driver=12.4           release that cuDriverGetVersion says; the newest where it is not there
 *   devices=N             how many, 1 to 16 (1)
 *   no_device             cuInit answers CUDA_ERROR_NO_DEVICE
 *   kernel=20us           how long a kernel takes (20us). One whose name begins with "spin", plain or mangled, takes its first
 *                         parameter (u64, ns); one whose name begins with "trap" is the last that the driver does
 *   empty=1us             how long a kernel takes whose name begins with "empty" (1us)
 *   set=2us               how long a set takes (2us)
 *   copy=2us              how long a copy takes at the least (2us), beside its bytes by
 *   bandwidth=25g         bytes a second of copies between host and device (25g)
 *   device_bandwidth=1000g   and inside of a device or between two (1000g)
 *   call=0ns              how long a launching call spins before it returns (0)
 *   NAME=20ms             the driver's calls of that name (cuMemAlloc, without _v2) spin so long
 *   correlation=N         the first correlation id (1); it wraps after 4294967295, and 0 is left out
 *   fatal=N               from the N-th launch (kernel, copy, set or graph) on every call answers CUDA_ERROR_LAUNCH_FAILED
 *   no_injection          CUDA_INJECTION64_PATH is left alone
 *   graph_copy_kernel=1   a copy inside of the device that is a node of a graph is done by a kernel, memcpy32_post, in each launch of
 *                         the graph, and there is no copy
 *
 * Keys of CUPTI (tests/sim/cupti). NAME is an exported function's, ARGUMENT its kind, callback id or flag. Of lists the parts
 * are joined by +.
 *   fail=NAME[/ARGUMENT][@N]:CODE+...  the call answers CODE, with @N from the N-th such call on: fail=cuptiActivityEnable/38:14
 *   hang=..., crash=...     as above without a code: it never returns; it dies of SIGSEGV
 *   slow=NAME...:500ms      it takes so much longer
 *   log=FILE                a line for each call (but the walk through a buffer and the time): when it ended (CLOCK_MONOTONIC
 *                           ns), thread, NAME, ARGUMENT, result; and one before when a slow one begins: slow
 *   lenient                 what CUPTI forbids (a used or unzeroed buffer given, a flush inside of a callback) goes by unseen;
 *                           else the program is aborted with a line on stderr
 *   version=N | overflow    what cuptiGetVersion answers | it overflows the stack where no driver is up, as 13.2 always does
 *   subscriber=NAME         somebody has subscribed: error 39, and cuptiSubscribe_v2 gives NAME; multiple:NAME lets others in,
 *                           and shuts the older calls out
 *   enabled_kinds=MASK      others have these kinds enabled, a bit each (cuptiActivityGetEnabledKinds)
 *   late=50ms               buffers are handed out so long after they are complete, and flushes do not wait for them
 *   deliver=caller          a flush hands buffers out itself (else the worker thread does, and the flush waits)
 *   shuffle, seed=N         records inside of a buffer, and buffers, come in another order
 *   dropped=N               each N-th request for a buffer is not made: its record is dropped and counted
 *   refuse_crash            a client that gives no buffer is sent SIGSEGV, as by releases before 12.9
 *   replace=N | 200ms       from the N-th request or completion on (or so long after the first) another client has registered its
 *                           callbacks: buffers that were ours go to it
 *   foreign=N               before each N-th buffer one is handed out that the client never gave
 *   streams=N               EnableAndDump tells of N streams more than there are
 *   device_records=N        how many operations may be unfinished: others get start = end = 0
 *   zero=N                  each N-th kernel has start = end = 0
 *   early=N, early_by=5us   each N-th kernel begins so long before the call that launches it
 *   lose_api=N              each N-th record of an API call is missing
 *   null_name=N, long_name=N, byte_name=N   each N-th kernel's name is NULL, 10 KB long, not UTF-8
 *   grow=KIND:BYTES+...     records of a kind are longer than the headers say (the walk through a buffer knows it)
 *   unknown=N               before each N-th record one of kind 200, 48 bytes, as of a later release
 *   invalid=N               before each N-th record one of a kind that ends the walk through the buffer
 *   clock=tsc               CUPTI's time is ticks at 2.894123 a ns, from 7e17 on, instead of CLOCK_REALTIME ns
 *   clock=step, step=2s, step_after=200ms   it jumps by `step` (may be negative) so long after the first kind is enabled
 *   drift=N                 it gains N us a second from then on (may be negative)
 *   skew=200us              times of devices are so much later than those of calls (may be negative)
 *   dump=FOLDER             each buffer's valid bytes to PID-N.buffer, what was put into it to PID-N.records
 *
 * And what a real GPU was seen to do (H200, driver 580.159, CUPTI 130001); tests/sim/cupti/seen.c:
 *   marked=0 | 1            an incomplete record in a buffer has bit 31 of its kind set, until it is complete or handed out; one
 *                           that a forced flush hands out has start = end = 0, also where it runs (1 from 13.0 on, else 0)
 *   unified_off=2s          there are counters of managed memory (none of which ever counts), and cuptiActivityDisable of
 *                           UNIFIED_MEMORY_COUNTER takes so long
 *   graph_trace_late=crash  SIGSEGV at the launch of a graph with GRAPH_TRACE on, which was off when the graph was instantiated
 *   toggle_mid_launch=1     a kind of calls or kernels that is switched on while a thread is in cuLaunchKernel makes a number of
 *                           the thread one less, one that is switched off there one more; while it is below 0, kernels of the
 *                           thread have no records, over all sessions, until cuptiFinalize. call=200us makes that likely
 *                           (the real one: not by the kinds 10 and 5 alone; which of the others it is is not known)
 *   first_call=20ms         the first cuptiActivityRegisterCallbacks waits until all that the devices have to do at that time is
 *                           done, and then so long
 *   after=2us               from the first kind that is enabled on, each launch of a kernel or graph takes so much longer, until
 *                           cuptiFinalize
 */
#ifndef PROFD_TESTS_SIM_SCRIPT_H
#define PROFD_TESTS_SIM_SCRIPT_H

#include <stdint.h>

/* The key's value, "" for one without a value, NULL where the key is not there. Lives as long as the process. */
const char *script_value(const char *key);

/* As above, read as a number, or as ns; `otherwise` where the key is not there or its value is none. */
uint64_t script_number(const char *key, uint64_t otherwise);
uint64_t script_time(const char *key, uint64_t otherwise);

#endif
