/* names.c - see names.h. The names are those of torch 1.8 to 2.15 and of CUDA 11 to 13. */
#include "names.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static bool begins(const char *name, const char *with)
{
	return strncmp(name, with, strlen(with)) == 0;
}

static bool begins_with_one(const char *name, const char *const *list, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (begins(name, list[i]))
			return true;
	return false;
}

static bool contains_one(const char *name, const char *const *list, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (strstr(name, list[i]))
			return true;
	return false;
}

/* What people call the phases of their loops, without blanks, punctuation and capitals. */
static const struct {
	const char *word;
	enum phase phase;
} user_words[] = {
	{"data", PHASE_INPUT},
	{"dataload", PHASE_INPUT},
	{"dataloader", PHASE_INPUT},
	{"dataloading", PHASE_INPUT},
	{"datatime", PHASE_INPUT},
	{"loaddata", PHASE_INPUT},
	{"loadbatch", PHASE_INPUT},
	{"getbatch", PHASE_INPUT},
	{"getdata", PHASE_INPUT},
	{"fetchbatch", PHASE_INPUT},
	{"fetchdata", PHASE_INPUT},
	{"nextbatch", PHASE_INPUT},
	{"batchload", PHASE_INPUT},
	{"batchloading", PHASE_INPUT},
	{"input", PHASE_INPUT},
	{"forward", PHASE_FORWARD},
	{"forwardpass", PHASE_FORWARD},
	{"fwd", PHASE_FORWARD},
	{"modelforward", PHASE_FORWARD},
	{"backward", PHASE_BACKWARD},
	{"backwardpass", PHASE_BACKWARD},
	{"bwd", PHASE_BACKWARD},
	{"lossbackward", PHASE_BACKWARD},
	{"optimizer", PHASE_OPTIMIZER},
	{"optimizerstep", PHASE_OPTIMIZER},
	{"optim", PHASE_OPTIMIZER},
	{"optimstep", PHASE_OPTIMIZER},
	{"optstep", PHASE_OPTIMIZER},
	{"zerograd", PHASE_ZERO_GRAD},
	{"optimizerzerograd", PHASE_ZERO_GRAD},
	{"validation", PHASE_VALIDATION},
	{"validate", PHASE_VALIDATION},
	{"valid", PHASE_VALIDATION},
	{"val", PHASE_VALIDATION},
	{"validationstep", PHASE_VALIDATION},
	{"valstep", PHASE_VALIDATION},
	{"validationloop", PHASE_VALIDATION},
	{"eval", PHASE_EVALUATION},
	{"evaluate", PHASE_EVALUATION},
	{"evaluation", PHASE_EVALUATION},
	{"evalstep", PHASE_EVALUATION},
	{"evaluationstep", PHASE_EVALUATION},
	{"evalloop", PHASE_EVALUATION},
	{"test", PHASE_TEST},
	{"teststep", PHASE_TEST},
	{"testing", PHASE_TEST},
	{"inference", PHASE_INFERENCE},
	{"infer", PHASE_INFERENCE},
	{"predict", PHASE_INFERENCE},
	{"prediction", PHASE_INFERENCE},
};

static enum phase user_phase(const char *name)
{
	char plain[24];
	size_t n = 0;
	for (; *name; name++) {
		if (!isalnum((unsigned char)*name))
			continue;
		if (n == sizeof plain - 1)
			return PHASE_NONE;
		plain[n++] = (char)tolower((unsigned char)*name);
	}
	plain[n] = '\0';
	for (size_t i = 0; i < COUNT(user_words); i++)
		if (strcmp(plain, user_words[i].word) == 0)
			return user_words[i].phase;
	return PHASE_NONE;
}

static bool ends(const char *name, const char *with)
{
	size_t n = strlen(name), m = strlen(with);
	return n >= m && strcmp(name + n - m, with) == 0;
}

/* PyTorch Lightning's profiler calls its steps so: "[pl][profile][Strategy]SingleDeviceStrategy.validation_step". */
static enum phase lightning_phase(const char *name)
{
	if (ends(name, ".validation_step"))
		return PHASE_VALIDATION;
	if (ends(name, ".test_step"))
		return PHASE_TEST;
	return ends(name, ".predict_step") ? PHASE_INFERENCE : PHASE_NONE;
}

bool names_searches_compiled(const char *name)
{
	return strcmp(name, "TorchDynamo Cache Lookup") == 0;
}

bool names_runs_compiled(const char *name)
{
	return begins(name, "CompiledFunction") || begins(name, "Torch-Compiled Region");
}

bool names_module(const char *name)
{
	return begins(name, "nn.Module: ");
}

enum phase names_phase(const char *name)
{
	if (begins(name, "[pl][profile]"))
		return lightning_phase(name);
	if (begins(name, "enumerate(DataLoader)") || strstr(name, "DataLoaderIter.__next__"))
		return PHASE_INPUT;
	if (begins(name, "Optimizer.step#"))
		return PHASE_OPTIMIZER;
	if (begins(name, "Optimizer.zero_grad#"))
		return PHASE_ZERO_GRAD;
	if (names_module(name))
		return PHASE_FORWARD;
	return user_phase(name);
}

/* Matrix products come first. Last comes what torch runs instead of whole layers where there is no gradient. */
#define PRODUCTS 6
#define FAST 2
static const char *const network_names[] = {
	"aten::matmul",
	"aten::mm",
	"aten::bmm",
	"aten::addmm",
	"aten::baddbmm",
	"aten::einsum",
	"aten::linear",
	"mkl::_mkl_linear",
	"mkldnn::_linear_pointwise",
	"aten::bilinear",
	"aten::conv1d",
	"aten::conv2d",
	"aten::conv3d",
	"aten::conv_transpose1d",
	"aten::conv_transpose2d",
	"aten::conv_transpose3d",
	"aten::convolution",
	"mkldnn::_convolution_pointwise",
	"aten::embedding",
	"aten::embedding_bag",
	"aten::batch_norm",
	"aten::layer_norm",
	"aten::group_norm",
	"aten::instance_norm",
	"aten::rms_norm",
	"aten::lstm",
	"aten::gru",
	"aten::rnn_tanh",
	"aten::rnn_relu",
	"aten::lstm_cell",
	"aten::gru_cell",
	"aten::scaled_dot_product_attention",
	"aten::_transformer_encoder_layer_fwd",
	"aten::_native_multi_head_attention",
};
_Static_assert(COUNT(network_names) <= NAMES_NETWORK_MOST, "a bit for each");

int names_network(const char *name)
{
	for (size_t i = 0; i < COUNT(network_names); i++)
		if (strcmp(name, network_names[i]) == 0)
			return (int)i + 1;
	return 0;
}

bool names_network_product(int network)
{
	return network > 0 && network <= PRODUCTS;
}

bool names_network_fast(int network)
{
	return network > (int)COUNT(network_names) - FAST;
}

bool names_takes_tensor(const char *name)
{
	static const char *const makers[] = {"aten::empty", "aten::zeros",  "aten::ones",     "aten::full",
					     "aten::rand",  "aten::arange", "aten::linspace", "aten::eye",
					     "aten::range", "aten::normal", "aten::scalar_",  "aten::from_file",
					     "aten::lift",  "aten::tri",    "aten::detach"};
	return begins(name, "aten::") && !begins_with_one(name, makers, COUNT(makers));
}

bool names_backward(const char *name)
{
	static const char suffix[] = "Backward";
	size_t n = strlen(name);
	if (begins(name, "autograd::engine::evaluate_function"))
		return true;
	while (n && isdigit((unsigned char)name[n - 1]))
		n--;
	return n >= sizeof suffix - 1 && memcmp(name + n - (sizeof suffix - 1), suffix, sizeof suffix - 1) == 0 &&
	       user_phase(name) == PHASE_NONE;
}

enum doing names_operator(const char *name)
{
	static const char *const comm[] = {
		"c10d::", "_c10d_functional::", "nccl:", "gloo:", "mpi:", "ucc:", "record_param_comms"};
	static const char *const compile[] = {"TorchDynamo",	 "torch._dynamo", "Inductor",
					      "torch._inductor", "Triton",	  "AOTAutograd"};
	/* The outermost ranges that torch itself sets: a forward's compilation, a backward's. */
	static const char *const torch_compile[] = {"_compile.compile_inner (dynamo_timed)",
						    "backward._backward_impl (dynamo_timed)"};
	if (begins_with_one(name, comm, COUNT(comm)))
		return DOING_COMM;
	if (begins_with_one(name, torch_compile, COUNT(torch_compile)))
		return DOING_TORCH_COMPILE;
	if (begins_with_one(name, compile, COUNT(compile)) || strstr(name, "(dynamo_timed)"))
		return DOING_COMPILE;
	return DOING_OPERATOR;
}

/* What follows the API's prefix: "cuda" is the runtime, "cu" the driver, "hip" both of ROCm. NULL: the call is of
 * another API. */
static const char *behind_api(const char *name)
{
	static const char *const apis[] = {"cuda", "cu", "hip"};
	for (size_t i = 0; i < COUNT(apis); i++)
		if (begins(name, apis[i]) && isupper((unsigned char)name[strlen(apis[i])]))
			return name + strlen(apis[i]);
	return NULL;
}

enum doing names_call(const char *name)
{
	static const char *const compile[] = {"ModuleLoad", "LibraryLoad",  "GraphInstantiate",
					      "LinkAdd",    "LinkComplete", "ModuleGetLoading"};
	static const char *const sync[] = {"DeviceSynchronize", "StreamSynchronize", "EventSynchronize",
					   "ThreadSynchronize", "CtxSynchronize"};
	static const char *const alloc[] = {"Malloc",
					    "Free",
					    "HostAlloc",
					    "HostMalloc",
					    "HostFree",
					    "HostRegister",
					    "HostUnregister",
					    "ExtMalloc",
					    "MemAlloc",
					    "MemFree",
					    "MemHostAlloc",
					    "MemHostRegister",
					    "MemHostUnregister",
					    "MemCreate",
					    "MemRelease",
					    "MemMap",
					    "MemUnmap",
					    "MemAddressReserve",
					    "MemAddressFree",
					    "MemSetAccess",
					    "MemPool"};
	static const char *const copies[] = {"Memcpy", "DrvMemcpy"};
	static const char *const fills[] = {"Memset", "MemPrefetch"};
	const char *call = behind_api(name);
	if (begins(name, "nvrtcCompile") || begins(name, "hiprtcCompile"))
		return DOING_COMPILE;
	if (!call)
		return DOING_CALL;
	if (begins_with_one(call, compile, COUNT(compile)))
		return DOING_COMPILE;
	if (begins_with_one(call, sync, COUNT(sync)))
		return DOING_SYNC;
	if (begins_with_one(call, alloc, COUNT(alloc)))
		return DOING_ALLOC;
	if (begins_with_one(call, copies, COUNT(copies)))
		return strstr(call, "Async") ? DOING_LAUNCH : DOING_SYNC;
	return strstr(call, "Launch") || begins_with_one(call, fills, COUNT(fills)) ? DOING_LAUNCH : DOING_CALL;
}

bool names_communicates(const char *kernel)
{
	static const char *const parts[] = {
		"ncclKernel",	       "ncclDevKernel",	      "nccl_Kernel",   "rcclKernel", "rcclDevKernel",
		"rccl_main_kernel",    "ncclBcast",	      "ncclAllReduce", "multimem_",  "one_shot_all_reduce",
		"two_shot_all_reduce", "cross_device_reduce", "nvshmem"};
	return contains_one(kernel, parts, COUNT(parts)) || (begins(kernel, "nccl") && strstr(kernel, "Kernel"));
}

bool names_half_precision(const char *kernel)
{
	static const char *const half[] = {"hgemm", "hcudnn", "_simt_h"};
	return contains_one(kernel, half, COUNT(half));
}

/* xmma kernels of cuBLAS and cuDNN name the types that they multiply and the instruction: "f32f32_f32f32_f32" and
 * "ffma" are FP32, "tf32f32" and "tensor16x8x8" are tensor cores. */
bool names_without_tensor_cores(const char *kernel)
{
	static const char *const slow[] = {"sgemm",
					   "scudnn",
					   "_simt_s",
					   "_ffma",
					   "f32f32_f32f32",
					   "dgrad_engine<float",
					   "wgrad_alg0_engine<float"};
	static const char *const fast[] = {"tensor", "tf32", "884",  "1688", "16816",
					   "hmma",   "bf16", "gmma", "wmma", "dgemm"};
	return (contains_one(kernel, slow, COUNT(slow)) || names_half_precision(kernel)) &&
	       !contains_one(kernel, fast, COUNT(fast));
}

/* Kernels of cuBLAS, cuDNN and CUTLASS have the instruction in their name. */
int names_tensor_cores(const char *kernel)
{
	static const char *const parts[] = {"884",
					    "1688",
					    "16816",
					    "i8816",
					    "hmma",
					    "imma",
					    "dmma",
					    "gmma",
					    "nvjet",
					    "tensorop",
					    "tensor16x8",
					    "xmma_gemm",
					    "xmma_sparse",
					    "xmma_implicit_gemm",
					    "xmma_warp_specialized",
					    "conv1x1",
					    "conv2d_c1_k1",
					    "direct_group",
					    "dgrad_1x1_stride_2x2",
					    "first_layer_wgrad_kernel"};

	if (names_without_tensor_cores(kernel))
		return 0;
	return contains_one(kernel, parts, COUNT(parts)) ? 1 : -1;
}

bool names_per_tensor(const char *name)
{
	static const char *const updates[] = {"aten::add_",    "aten::addcmul_", "aten::addcdiv_", "aten::mul_",
					      "aten::lerp_",   "aten::sqrt",	 "aten::div",	   "aten::add",
					      "aten::addcmul", "aten::addcdiv",	 "aten::mul",	   "aten::zero_",
					      "aten::sub_",    "aten::copy_"};
	for (size_t i = 0; i < COUNT(updates); i++)
		if (strcmp(name, updates[i]) == 0)
			return true;
	return false;
}

enum names_update names_update(const char *name)
{
	static const char mark[] = "Optimizer.step#", end[] = ".step";
	static const char *const fuse[] = {"Adam", "AdamW", "SGD", "Adagrad"};
	static const char *const alone[] = {"LBFGS", "SparseAdam", "Muon"};
	if (begins(name, "aten::_fused_ada") || begins(name, "aten::_fused_sgd"))
		return NAMES_FUSED;
	if (!begins(name, mark))
		return NAMES_NO_UPDATE;
	const char *class = name + sizeof mark - 1;
	size_t bytes = strlen(class);
	if (bytes >= sizeof end && strcmp(class + bytes - sizeof end + 1, end) == 0)
		bytes -= sizeof end - 1;
	for (size_t i = 0; i < COUNT(fuse); i++)
		if (strlen(fuse[i]) == bytes && memcmp(class, fuse[i], bytes) == 0)
			return NAMES_FUSES;
	for (size_t i = 0; i < COUNT(alone); i++)
		if (strlen(alone[i]) == bytes && memcmp(class, alone[i], bytes) == 0)
			return NAMES_ALONE;
	return NAMES_FOREACH;
}

enum doing names_overhead(int64_t kind)
{
	enum { DRIVER_COMPILER = 1, MODULE_LOADING = 4 << 16, LAZY_LOADING = 5 << 16, COMMAND_BUFFER_FULL = 6 << 16 };
	switch (kind) {
	case DRIVER_COMPILER:
	case MODULE_LOADING:
	case LAZY_LOADING:
		return DOING_COMPILE;
	case 0:
	case COMMAND_BUFFER_FULL: /* waits for the device inside of a launch */
		return DOING_OUTSIDE;
	default:
		return DOING_CAPTURE;
	}
}
