/* names.h - what a name tells: of an operator or a range, of a call of CUDA's APIs or of ROCm's, of a kernel. */
#ifndef PROFD_STORE_BREAKDOWN_NAMES_H
#define PROFD_STORE_BREAKDOWN_NAMES_H

#include "activity.h"

/* The phase that a range or an operator of this name marks; PHASE_NONE: none. A user's own range counts by its whole name, without
 * regard to case, blanks and punctuation: "## forward ##", "[backward]", "data_loading". */
enum phase names_phase(const char *name);
/* A call of a module, as traces with Python frames have it: PHASE_FORWARD. */
/* torch.compile looks whether it has compiled this already; if not, it compiles next. */
bool names_searches_compiled(const char *name);
/* Code runs that torch.compile has compiled. */
bool names_runs_compiled(const char *name);
bool names_module(const char *name);
/* An operator that is a part of a neural network: 1 to NAMES_NETWORK_MOST; 0: it is none. */
int names_network(const char *name);
#define NAMES_NETWORK_MOST 64
/* Of these: a matrix product, which other things are made of, too. */
bool names_network_product(int network);
/* Of these: one that torch runs instead of a whole layer, and only without gradient. */
bool names_network_fast(int network);
/* An operator of torch's that takes a tensor: with gradient switched on it has a sequence number. */
bool names_takes_tensor(const char *name);
/* Is it an operator of autograd's? */
bool names_backward(const char *name);
/* DOING_COMM, DOING_COMPILE, or DOING_OPERATOR. */
enum doing names_operator(const char *name);
/* DOING_COMPILE, DOING_SYNC, DOING_ALLOC, DOING_LAUNCH, or DOING_CALL. */
enum doing names_call(const char *name);
/* What the profiler did for itself (CUpti_ActivityOverheadKind): DOING_CAPTURE; DOING_COMPILE: what it saw the driver load or compile;
 * DOING_OUTSIDE: neither. */
enum doing names_overhead(int64_t kind);
/* Does the kernel move data between devices or processes? NCCL's and RCCL's, NVSHMEM's, torch's symmetric memory, vLLM's reduction. */
bool names_communicates(const char *kernel);

/* Is it a matrix product or a convolution in floating point of 32 or 16 bits that computes without tensor cores? */
bool names_without_tensor_cores(const char *kernel);
/* 1: tensor cores do its work; 0: the one above; -1: its name says neither. */
int names_tensor_cores(const char *kernel);
/* Of those without: one in 16 bits. */
bool names_half_precision(const char *kernel);
/* An operator that updates one tensor, or two, where there are others that take all tensors of an optimizer at once. */
bool names_per_tensor(const char *name);
/* What torch's mark of an Optimizer.step, or an operator, tells of how tensors could be updated, or are. */
enum names_update {
	NAMES_NO_UPDATE, /* the text tells nothing of it */
	NAMES_FUSES,	 /* the mark of a class that takes fused=True, on the CPU as well, and foreach=True */
	NAMES_FOREACH, /* of one that takes foreach=True, which gains on devices alone; or of one that torch does not have */
	NAMES_ALONE, /* of one that takes neither */
	NAMES_FUSED, /* an operator that updates all tensors at once */
};
enum names_update names_update(const char *name);

#endif
