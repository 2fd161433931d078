/* flops.h - floating point operations of one call of a torch operator, by the shapes and scalars of its inputs. */
#ifndef PROFD_STORE_FLOPS_H
#define PROFD_STORE_FLOPS_H

#include <stdbool.h>
#include <stdint.h>

/* Is there a formula for operators of this name? */
bool flops_known(const char *name);

/* Does it add to a total? It does not if another operator, which it calls, does its work and is counted. */
bool flops_counted(const char *name);

/* Do other operators with a formula call this one for their work? If one of them called it, it does not count again. */
bool flops_inner(const char *name);

/* Is it a product, a convolution or attention? The formula of its caller counts the same work, or less if the caller
 * saw one sample of many (torch.func.vmap). So the caller does not add to a total. */
bool flops_work(const char *name);

/* `dims` and `concrete` are as in the columns of the table `inputs`: JSON lists with one member for each input.
 * False: the operator has no formula here, or the formula needs other inputs.
 * The formulas are those of torch.profiler (with_flops: conv2d, mm, addmm, bmm, baddbmm, add, mul), and those of
 * torch.utils.flop_counter for attention, products of scaled numbers, convolutions of any dimension, and the
 * backwards of attention and convolutions. They also hold for operators that these call, where a program calls them
 * itself. torch.utils.flop_counter takes places for heads in _efficient_attention_forward and its backward, and takes
 * cudnn_convolution with `benchmark` for a transposed one; here both are counted as what they are. Unlike there, the
 * backward of a grouped convolution is divided by its groups, and operators inside of composite ones are counted: on
 * the CPU, _scaled_mm calls mm, and mm of a sparse matrix calls addmm. A result beyond int64_t counts as none. */
bool flops_of(const char *name, const char *dims, const char *concrete, int64_t *ret_flops);

#endif
