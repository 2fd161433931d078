"""Training loops with a cause in them, loops that are well, and loops that only look ill: for test_findings.py.

A loop is a function of a findings_machine.Machine and does one step. What it does only where `m.planted` is the cause; how much of
a step that costs is the difference to the same loop without it. `finding` is the word of the finding that names it.
"""
from findings_machine import MS, US

CAUSES, HEALTHY, DECOYS = [], [], []


def cause(finding, size=None, **more):
    """`size`: the share of a step that is at stake, where that is not the time that the loop is shorter without it."""
    def add(loop):
        CAUSES.append((loop.__name__, finding, loop, more, size))
        return loop
    return add


def well(**more):
    def add(loop):
        HEALTHY.append((loop.__name__, loop, more))
        return loop
    return add


def decoy(**more):
    def add(loop):
        DECOYS.append((loop.__name__, loop, more))
        return loop
    return add


def train(m, layers=20, ns=200 * US, **more):
    """Forward, backward and the optimizer of a step that keeps the device busy."""
    m.layers(layers, ns, **more)
    m.backward(layers, 2 * ns, **more)
    m.fused_optimizer()
    with m.mark("Optimizer.zero_grad#AdamW.zero_grad"):
        m.work(10 * US)


# ---------------------------------------------------------------- causes

@cause("input")
def loader_sleeps(m):
    with m.mark("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"):
        m.work(9 * MS if m.planted else 20 * US)
    train(m, 10, 150 * US)
    m.item()


@cause("input")
def loader_computes_itself(m):
    """The training thread decodes and transforms by operators of its own."""
    with m.mark("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"):
        for _ in range(40 if m.planted else 1):
            m.plain("aten::to", 150 * US)
            m.work(20 * US)
    train(m, 10, 150 * US)
    m.item()


@cause("input")
def loader_partly_hidden(m):
    """The device still works on the step before for a part of the loader's time: only the rest is lost."""
    with m.mark("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"):
        m.work(14 * MS if m.planted else 20 * US)
    train(m, 15, 200 * US)


@cause("input")
def users_own_range_for_data(m):
    with m.mark("data loading"):
        m.work(4 * MS if m.planted else 10 * US)
    train(m, 10, 100 * US)
    m.item()


@cause("launch_bound")
def slow_python_around_small_operators(m):
    for _ in range(120):
        m.layers(1, 20 * US, host=10 * US, stream=7)
        m.work(60 * US if m.planted else 0)
    m.item()


@cause("launch_bound")
def launches_are_slow(m):
    m.layers(100, 30 * US, host=10 * US)
    for _ in range(100):
        with m.op("aten::mul", 8 * US):
            m.kernel(20 * US, host=80 * US if m.planted else 4 * US)
    m.item()


@cause("launch_bound")
def slow_backward(m):
    m.layers(60, 60 * US, host=10 * US)
    m.backward(60, 60 * US, host=190 * US if m.planted else 20 * US)
    m.fused_optimizer()


@cause("sync")
def item_in_every_step(m):
    """The host would be ahead; it waits, and the device waits for its next launches."""
    for _ in range(6):
        m.layers(6, 120 * US, host=60 * US)
        if m.planted:
            m.item()
        m.work(80 * US)


@cause("sync")
def synchronize_after_each_layer(m):
    for _ in range(15):
        with m.op("my::layer", 40 * US):
            m.kernel(200 * US)
        m.work(60 * US)
        if m.planted:
            m.wait("cudaDeviceSynchronize")
    m.fused_optimizer()


@cause("sync")
def waits_for_an_event_to_log(m):
    for _ in range(4):
        m.layers(10, 100 * US, host=15 * US)
        if m.planted:
            m.wait("cudaEventSynchronize")
            m.work(400 * US)
        else:
            m.work(400 * US)


@cause("pageable_copy")
def pageable_batch(m):
    if m.planted:
        with m.op("aten::copy_", 20 * US):
            m.copy(4 * MS, memory="Pageable", size=48 << 20)
    train(m, 10, 150 * US)
    m.item()


@cause("pageable_copy")
def results_are_copied_back(m):
    train(m, 10, 150 * US)
    if m.planted:
        for _ in range(4):
            with m.op("aten::to", 10 * US):
                m.copy(900 * US, "DtoH", "Pageable", size=10 << 20)


@cause("pageable_copy")
def pinned_copy_that_blocks(m):
    """.to(device) of pinned memory, without non_blocking=True."""
    if m.planted:
        with m.op("aten::copy_", 20 * US):
            m.copy(5 * MS, size=120 << 20, wait=True)
    train(m, 10, 150 * US)
    m.item()


@cause("exposed_copies")
def pinned_copy_in_the_same_stream(m):
    if m.planted:
        with m.op("aten::copy_", 20 * US):
            m.copy(5 * MS, size=120 << 20)
    train(m, 20, 200 * US)


@cause("exposed_copies")
def offload_to_the_host(m):
    for _ in range(10):
        m.layers(4, 200 * US)
        if m.planted:
            with m.op("aten::copy_", 20 * US):
                m.copy(300 * US, "DtoH", size=7 << 20)


@cause("communication")
def allreduce_behind_the_backward(m):
    m.layers(20, 200 * US)
    m.backward(20, 400 * US)
    if m.planted:
        with m.op("c10d::allreduce_", 20 * US):
            m.kernel(6 * MS, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", stream=20, after=m.streams[7])
        m.streams[7] = max(m.streams[7], m.streams[20])
    m.fused_optimizer()


@cause("communication")
def allgather_before_each_layer(m):
    for _ in range(12):
        if m.planted:
            with m.op("c10d::_allgather_base_", 15 * US):
                m.kernel(250 * US, "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", stream=20, after=m.streams.get(7))
            m.streams[7] = max(m.streams.get(7, 0), m.streams[20])
        m.layers(3, 250 * US)


@cause("communication")
def allreduce_half_hidden(m):
    m.layers(20, 200 * US)
    m.backward(10, 400 * US)
    if m.planted:
        with m.op("c10d::allreduce_", 20 * US):
            m.kernel(9 * MS, "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", stream=20, after=m.streams[7])
    m.backward(10, 400 * US)
    if m.planted:
        m.streams[7] = max(m.streams[7], m.streams[20])
    m.fused_optimizer()


@cause("allocation")
def cache_is_emptied_in_each_step(m):
    train(m, 10, 150 * US)
    m.item()
    if m.planted:
        for _ in range(6):
            m.call("cudaFree", 300 * US)
        for _ in range(6):
            with m.op("aten::empty", 6 * US):
                m.call("cudaMalloc", 250 * US)


@cause("allocation")
def pins_memory_for_each_batch(m):
    if m.planted:
        with m.op("aten::pin_memory", 20 * US):
            m.call("cudaHostAlloc", 2500 * US)
    m.copy(100 * US)
    train(m, 10, 150 * US)
    m.item()
    if m.planted:
        m.call("cudaFreeHost", 800 * US)


@cause("compilation")
def loads_a_module_in_each_step(m):
    if m.planted:
        m.call("cuModuleLoadData", 3 * MS)
    train(m, 10, 150 * US)
    m.item()


@cause("optimizer_per_tensor")
def optimizer_of_a_loop_over_tensors(m):
    m.layers(10, 50 * US)
    m.backward(10, 100 * US)
    with m.optimizer("Adam"):
        if m.planted:
            for _ in range(80):
                for name in ("aten::mul_", "aten::lerp_", "aten::addcmul_", "aten::sqrt", "aten::addcdiv_"):
                    with m.op(name, 12 * US):
                        m.kernel(2 * US, "vectorized_elementwise_kernel")
                    m.work(4 * US)
        else:
            with m.op("aten::_foreach_addcdiv_", 20 * US):
                m.kernel(800 * US, "multi_tensor_apply_kernel")


@cause("small_kernels", gap=1500, queue=4)
def two_thousand_tiny_kernels(m):
    """Launched at once by a graph, and yet the device rests between them."""
    for _ in range(4):
        m.graph([2500] * 500 if m.planted else [2500 * 500])


@cause("stall")
def python_between_two_steps(m):
    """A tokenizer, a log file: nothing of it is in an operator."""
    train(m, 10, 150 * US)
    if m.planted:
        m.work(9 * MS)


@cause("garbage_collection")
def garbage_is_collected_in_each_step(m):
    train(m, 10, 150 * US)
    if m.planted:
        m.garbage(9 * MS)
    m.item()


@cause("garbage_collection", steps=9)
def garbage_is_collected_in_every_other_step(m):
    train(m, 10, 150 * US)
    if m.planted and m.step % 2:
        m.garbage(12 * MS)
    m.item()


@cause("garbage_collection")
def garbage_is_collected_while_the_next_batch_is_made(m):
    """By the training thread: what the loader takes otherwise is little."""
    with m.mark("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"):
        m.plain("aten::stack", 20 * US)
        if m.planted:
            m.garbage(6 * MS)
    train(m, 10, 150 * US)
    m.item()


@cause("stall")
def an_operator_that_launches_nothing(m):
    m.layers(10, 150 * US)
    if m.planted:
        m.plain("torchvision::nms_on_the_host", 11 * MS)
    m.backward(10, 300 * US)
    m.fused_optimizer()


@cause("step_unlike", steps=10)
def checkpoint_in_one_step(m):
    train(m, 10, 150 * US)
    m.item()
    if m.planted and m.step == 6:
        m.work(60 * MS)


@cause("step_unlike", steps=10)
def evaluation_in_one_step(m):
    train(m, 10, 150 * US)
    m.item()
    if m.planted and m.step == 4:
        for _ in range(12):
            m.layers(10, 150 * US)
            m.item()


@cause("setup")
def creates_a_handle_in_each_step(m):
    train(m, 10, 150 * US)
    m.item()
    if m.planted:
        m.call("cudaStreamCreateWithPriority", 4 * MS)


@cause("few_blocks", size=lambda m: 2.0 * MS * 20 * (1 - 27 / 108))
def kernels_with_few_blocks(m):
    m.layers(20, 200 * US)
    m.layers(20, 2 * MS if m.planted else 2 * MS * 27 // 108, blocks=27)


# ---------------------------------------------------------------- without a device

def host_train(m, ns=300 * US):
    for _ in range(15):
        m.sequence += 1
        m.plain("aten::addmm", ns, **{"Sequence number": m.sequence, "Fwd thread id": 0})
        m.work(5 * US)
    # Without a device the backward pass runs on the thread that asks for it.
    for i in range(15):
        with m.op("autograd::engine::evaluate_function: AddmmBackward0", 4 * US), m.op(
                "AddmmBackward0", 4 * US, **{"Sequence number": m.sequence - i, "Fwd thread id": 1}):
            m.plain("aten::mm", 2 * ns)
    with m.optimizer("SGD"):
        m.plain("aten::_foreach_add_", 200 * US)


@cause("garbage_collection", steps=9)
def garbage_of_a_job_on_the_host(m):
    host_train(m)
    if m.planted and m.step % 3:
        m.garbage(10 * MS)


@cause("input")
def loader_of_a_job_on_the_host(m):
    with m.mark("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"):
        m.work(8 * MS if m.planted else 10 * US)
    host_train(m)


@cause("stall")
def python_of_a_job_on_the_host(m):
    host_train(m)
    if m.planted:
        m.work(12 * MS)


@cause("step_unlike", steps=12)
def checkpoint_of_a_job_on_the_host(m):
    host_train(m)
    if m.planted and m.step == 7:
        m.work(150 * MS)


# ---------------------------------------------------------------- nothing to find

@well()
def device_bound(m):
    train(m)


@well()
def device_bound_with_a_loader(m):
    with m.mark("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"):
        m.work(300 * US)
    train(m)


@well(queue=2)
def graph_replays(m):
    with m.op("my::replay", 10 * US):
        m.graph([400 * US] * 20)


@well()
def hidden_communication(m):
    m.layers(20, 200 * US)
    for _ in range(4):
        m.backward(5, 400 * US)
        with m.op("c10d::allreduce_", 20 * US):
            m.kernel(1200 * US, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", stream=20, after=m.streams[7])
    m.fused_optimizer(4 * MS)
    m.streams[7] = max(m.streams[7], m.streams[20])


@well()
def batch_is_copied_beside(m):
    with m.op("aten::copy_", 20 * US):
        m.copy(3 * MS, stream=22, after=m.streams.get(7, 0) - 8 * MS)
    train(m)


@well()
def one_stream_beside_another(m):
    for _ in range(20):
        m.layers(1, 400 * US)
        with m.op("aten::linear", 15 * US):
            m.kernel(300 * US, stream=21)


@well()
def per_step_scalar_at_the_end(m):
    """One wait a step, behind much work: less than a twentieth is lost."""
    train(m, 30, 500 * US)
    m.item()


@well()
def steps_differ_a_little(m):
    train(m, 20 + m.step % 3, 200 * US)


@well()
def gradient_accumulation(m):
    for _ in range(3):
        m.layers(8, 200 * US)
        m.backward(8, 400 * US)
    m.fused_optimizer()


@well(steps=3)
def three_steps_only(m):
    train(m, 20, 300 * US)


@well()
def large_optimizer(m):
    m.layers(10, 200 * US)
    m.backward(10, 400 * US)
    m.fused_optimizer(9 * MS, 6)


@well()
def host_compute(m):
    host_train(m)


@well()
def host_with_a_quick_loader(m):
    with m.mark("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"):
        m.work(400 * US)
    host_train(m)


@well()
def forward_only(m):
    m.layers(60, 300 * US, host=15 * US)


@well()
def many_middling_kernels(m):
    m.layers(200, 60 * US, host=14 * US)
    m.backward(100, 60 * US, host=14 * US)
    m.fused_optimizer()


# ---------------------------------------------------------------- what only looks like a cause

@decoy()
def loader_behind_a_busy_device(m):
    """A third of the step's thread waits for input, and the device loses nothing."""
    with m.mark("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"):
        m.work(5 * MS)
    train(m, 20, 300 * US)


@decoy()
def wait_that_costs_nothing(m):
    """The host waits for most of the step, for an event that lies before work which the device goes on with."""
    train(m, 20, 300 * US)
    start = m.now
    m.now = max(m.now, m.streams[7] - 4 * MS)
    m.correlation += 1
    m.write("cuda_runtime", "cudaEventSynchronize", start, m.now + 2 * US, correlation=m.correlation, cbid=137)
    m.now += 2 * US


@decoy()
def one_big_gemm(m):
    m.layers(1, 30 * MS)
    m.layers(4, 300 * US)


@decoy()
def wait_at_the_end_of_the_window(m):
    """As profilers wait before they stop."""
    train(m, 20, 300 * US)
    if m.step == 7:
        m.wait("cudaDeviceSynchronize")


@decoy()
def allocation_behind_a_busy_device(m):
    train(m, 20, 300 * US)
    with m.op("aten::empty", 6 * US):
        m.call("cudaMalloc", 3 * MS)


@decoy()
def pageable_scalar(m):
    """A few bytes of pageable memory go to the device: staged, and nobody waits long."""
    train(m, 20, 400 * US)
    with m.op("aten::copy_", 10 * US):
        m.give("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 1 * US, 7, 8 * US, "cudaMemcpyAsync", bytes=8)


@decoy()
def launches_that_wait_for_the_queue(m):
    """Hundreds of launches ahead: each call takes long because the queue is full, and each kernel begins long after its launch."""
    m.layers(300, 100 * US, host=12 * US)


@decoy()
def optimizer_per_tensor_behind_a_busy_device(m):
    m.layers(20, 400 * US)
    m.backward(20, 800 * US)
    with m.optimizer("Adam"):
        for _ in range(60):
            for name in ("aten::mul_", "aten::addcmul_", "aten::addcdiv_"):
                with m.op(name, 12 * US):
                    m.kernel(12 * US, "vectorized_elementwise_kernel")


@decoy()
def tiny_kernels_in_a_full_queue(m):
    """Small, but without gaps between them that add up to anything."""
    m.layers(20, 500 * US)
    for _ in range(100):
        with m.op("aten::add", 8 * US):
            m.kernel(4 * US, "vectorized_elementwise_kernel")


@decoy()
def python_behind_a_busy_device(m):
    train(m, 20, 400 * US)
    m.work(8 * MS)


@decoy()
def communication_under_computing(m):
    """Half of the step, but hidden."""
    m.layers(5, 200 * US)
    with m.op("c10d::allreduce_", 20 * US):
        m.kernel(9 * MS, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", stream=20, after=m.streams[7])
    m.backward(30, 400 * US)
    m.streams[7] = max(m.streams[7], m.streams[20])


@decoy(steps=10)
def a_step_a_little_longer(m):
    train(m, 20, 200 * US)
    if m.step == 5:
        m.layers(6, 150 * US)
