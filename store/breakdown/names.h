/* names.h - what a name tells: the name of an operator or a range, of a call of CUDA's or ROCm's APIs, of a kernel. */
#ifndef PROFD_STORE_BREAKDOWN_NAMES_H
#define PROFD_STORE_BREAKDOWN_NAMES_H

#include "activity.h"

/* The phase that a range or an operator of this name marks; PHASE_NONE: none. The whole name of a user's own range
 * has to match, without regard to case, blanks and punctuation: "## forward ##", "[backward]", "data_loading". */
enum phase names_phase(const char *name);
/* With this name torch.compile searches for code that it has compiled already. If it finds none, it compiles next. */
/* torch.compile looks whether it has compiled this already; if not, it compiles next. */
bool names_searches_compiled(const char *name);
/* With this name code runs that torch.compile has compiled. */
bool names_runs_compiled(const char *name);
bool names_module(const char *name);
/* Which part of a neural network the operator is: 1 to NAMES_NETWORK_MOST; 0: it is none. */
int names_network(const char *name);
#define NAMES_NETWORK_MOST 64
/* Is it a matrix product? Other programs than networks have these, too. */
bool names_network_product(int network);
/* Does torch run it instead of a whole layer, and only without gradient? */
bool names_network_fast(int network);
/* Is it an operator of torch that takes a tensor? With gradient switched on, such an operator has a sequence number. */
bool names_takes_tensor(const char *name);
/* Is it an operator of autograd? */
bool names_backward(const char *name);
/* DOING_COMM, DOING_COMPILE, or DOING_OPERATOR. */
enum doing names_operator(const char *name);
/* DOING_COMPILE, DOING_SYNC, DOING_ALLOC, DOING_LAUNCH, or DOING_CALL. */
enum doing names_call(const char *name);
/* What the profiler did (CUpti_ActivityOverheadKind). DOING_CAPTURE: work of its own; DOING_COMPILE: it saw the
 * driver load or compile; DOING_OUTSIDE: neither. */
enum doing names_overhead(int64_t kind);
/* Does the kernel move data between devices or processes? NCCL's and RCCL's, NVSHMEM's, torch's symmetric memory, vLLM's reduction. */
bool names_communicates(const char *kernel);

/* Is it a matrix product or a convolution in floating point of 32 or 16 bits that computes without tensor cores? */
bool names_without_tensor_cores(const char *kernel);
/* 1: it uses tensor cores; 0: the function above is true; -1: its name tells neither. */
int names_tensor_cores(const char *kernel);
/* For a kernel without tensor cores: does it compute in 16 bits? */
bool names_half_precision(const char *kernel);
/* An operator that updates one tensor, or two, although there are operators that update all tensors of an optimizer
 * at once. */
bool names_per_tensor(const char *name);
/* What an operator, or torch's mark of an Optimizer.step, tells of the way in which tensors are updated, or could
 * be. */
enum names_update {
	NAMES_NO_UPDATE, /* the text tells nothing of it */
	NAMES_FUSES,	 /* the mark of a class that takes fused=True, also on the CPU, and foreach=True */
	NAMES_FOREACH, /* of a class that takes foreach=True, which helps only on devices; or of a class that is not torch's */
	NAMES_ALONE, /* of a class that takes neither */
	NAMES_FUSED, /* an operator that updates all tensors at once */
};
enum names_update names_update(const char *name);

#endif
