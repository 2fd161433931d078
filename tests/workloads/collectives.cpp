/* collectives.cpp - opens what torch's process group of NCCL opens around a collective operation, by torch's own macro, where there is no
 * NCCL; and what may be taken for it. A test compiles it with the headers of its torch. SEQUENCE: of one that tells a sequence number. */
#include <torch/csrc/distributed/c10d/ParamCommsUtils.hpp>

#include <memory>
#include <string>
#include <tuple>
#include <vector>

struct Operation {
	const char *group, *description, *name;
	int64_t in, out, sequence;
	int rank, size, start, stride, dtype, single, splits, waited;
};

struct Other : c10::DebugInfoBase {
	char text[8] = "another";
};

struct Derived : torch::ParamCommsDebugInfo {
	int more = 1;
};

extern "C" void collective(const Operation *o)
{
	std::vector<at::Tensor> none;
	std::vector<int64_t> in, out;
	for (int i = 0; i < o->splits; i++) {
		in.push_back(i);
		out.push_back(i - 1000);
	}
#ifdef SEQUENCE
	auto sequence = std::make_tuple(o->sequence, o->single != 0);
#else
	int64_t sequence = o->sequence;
#endif
	auto group = std::make_tuple(std::string(o->group), std::string(o->description));
#ifdef RECORD_PARAM_COMMS_DATA_WITH_ASYNC_OP
	RECORD_PARAM_COMMS_DATA_WITH_ASYNC_OP(sequence, group, none, none, o->rank, std::string(o->name), o->in, o->out, static_cast<at::ScalarType>(o->dtype),
					      in, out, o->start, o->stride, o->size, !o->waited);
#else
	RECORD_PARAM_COMMS_DATA(sequence, group, none, none, o->rank, std::string(o->name), o->in, o->out, static_cast<at::ScalarType>(o->dtype), in, out,
				o->start, o->stride, o->size);
#endif
}

static void with(std::shared_ptr<c10::DebugInfoBase> info)
{
	c10::DebugInfoGuard slot(c10::DebugInfoKind::PARAM_COMMS_INFO, info);
	RECORD_FUNCTION("record_param_comms", {});
}

static void with_nothing()
{
	RECORD_FUNCTION("record_param_comms", {});
}

static void as_range()
{
	c10::DebugInfoGuard slot(c10::DebugInfoKind::PARAM_COMMS_INFO, std::make_shared<torch::ParamCommsDebugInfo>(
		std::make_tuple("0", "range"), 0, "range", 1, 1, at::kFloat, std::vector<int64_t>(), std::vector<int64_t>(), 0, 1, 2));
	RECORD_USER_SCOPE("record_param_comms");
}

/* Operators of that name of which nothing is known: the slot has an object of another class, or of one that is derived, or is empty. And a range of
 * that name, of which something is. */
extern "C" void others()
{
	with(std::make_shared<Other>());
	with(std::make_shared<Derived>());
	with_nothing();
	as_range();
}
