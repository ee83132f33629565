"""Devices, memory and drivers that do not exist: torch's exceptions, and their first sentences."""

import pytest
from soft_card import RAISES, needs_soft_card, run

pytestmark = needs_soft_card

ABSENT = "CUDA error: invalid device ordinal"
NO_DRIVER = "Found no NVIDIA driver on your system."

#: A class of exceptions, the beginning of its message, and calls on the third of two devices.
ABSENT_DEVICES = [
    (
        "torch.AcceleratorError",
        ABSENT,
        [
            "torch.ones(1, device='cuda:2')",
            "torch.cuda.set_device(2)",
            "torch.ones(1).cuda(2)",
            "torch.cuda.synchronize(2)",
            "torch.cuda.Stream(device=2)",
            "torch.cuda.current_stream(2)",
            "torch.cuda.mem_get_info(2)",
            "torch.cuda.FloatTensor(2, device='cuda:2')",
        ],
    ),
    (
        "RuntimeError",
        "Device index is out of range",
        [
            "torch.cuda.set_device(300)",
            "torch.cuda.synchronize(300)",
            "torch.cuda.Stream(device=300)",
            "torch.cuda.mem_get_info(2**40)",
            "torch.cuda.device(300).__enter__()",
            "torch.accelerator.device_index(300).__enter__()",
        ],
    ),
    (
        "ValueError",
        "Expected a torch.device with a specified index or an integer, but got:1.0",
        ["torch.cuda.set_device(1.0)", "torch.cuda.synchronize(1.0)", "torch.cuda.current_stream(1.0)"],
    ),
    (
        "AssertionError",
        "Invalid device id",
        [
            "torch.cuda.get_device_properties(2)",
            "torch.cuda.get_device_name(2)",
            "torch.cuda.get_device_capability(-3)",
            "torch.cuda.can_device_access_peer(2, 0)",
            "torch.nn.DataParallel(torch.nn.Linear(2, 2), device_ids=[0, 2])",
        ],
    ),
    ("AssertionError", "Invalid peer device id", ["torch.cuda.can_device_access_peer(0, 2)"]),
    (
        "RuntimeError",
        "Invalid device argument 2: did you call init?",
        ["torch.cuda.memory_stats(2)", "torch.cuda.reset_peak_memory_stats(2)", "torch.cuda.memory_allocated(2)"],
    ),
    ("RuntimeError", "The device_index is invalid.", ["torch.Generator(device='cuda:2')"]),
    (
        "IndexError",
        "tuple index out of range",
        [
            "torch.cuda.get_rng_state('cuda:2')",
            "torch.cuda.get_rng_state(-3)",
            "torch.cuda.set_rng_state(torch.cuda.get_rng_state(), 2)",
        ],
    ),
    (
        "ValueError",
        "Expected a cuda device, but got: cpu",
        ["torch.cuda.set_device('cpu')", "torch.cuda.device('cpu')"],
    ),
    (
        "ValueError",
        "Invalid fraction value: 1.5. Allowed range: 0~1",
        ["torch.cuda.set_per_process_memory_fraction(1.5)"],
    ),
    (
        "ValueError",
        "Invalid fraction value: nan. Allowed range: 0~1",
        ["torch.cuda.set_per_process_memory_fraction(float('nan'))"],
    ),
    (
        "TypeError",
        "Invalid type for fraction argument, must be `float`",
        ["torch.cuda.set_per_process_memory_fraction(1)"],
    ),
    (
        "TypeError",
        "cuda(): argument 'device' (position 1) must be torch.device, not float",
        ["torch.ones(1).cuda(1.0)", "torch.nn.Linear(2, 2).cuda(1.0)"],
    ),
    (
        "TypeError",
        "cuda(): argument 'non_blocking' must be bool, not int",
        ["torch.ones(1).cuda(non_blocking=1)"],
    ),
    (
        "NotImplementedError",
        "\"frac_cuda\" not implemented for 'Long'",
        ["torch.ones(1, dtype=torch.int64, device='cuda').frac()"],
    ),
    ("NotImplementedError", "\"frac_cpu\" not implemented for 'Long'", ["torch.ones(1, dtype=torch.int64).frac()"]),
    ("RuntimeError", "PyTorch is not linked with support for mps devices", ["torch.ones(1, device='cuda').to('mps')"]),
]


def test_absent_devices():
    checks = [
        f"raises({kind}, {sentence!r}, lambda: {call})" for kind, sentence, calls in ABSENT_DEVICES for call in calls
    ]
    run(
        RAISES
        + "\ntorch.cuda.init()\n"
        + "\n".join(checks)
        + """
error = raises(torch.AcceleratorError, "CUDA error: invalid device ordinal", lambda: torch.ones(1, device="cuda:2"))
assert "cuda:0 to cuda:1" in str(error)
assert torch.ones(2, device="cuda").sum() == 2 and torch.cuda.can_device_access_peer(0, 1)
""",
        SOFTCUDA_DEVICES=2,
    )


def test_negative_numbers_mean_the_current_device():
    run(
        """
torch.cuda.set_device(1)
torch.cuda.set_device(-1)
with torch.cuda.device(-1), torch.accelerator.device_index(-1):
    assert torch.cuda.current_device() == 1
torch.cuda.synchronize(-1)
assert torch.cuda.current_stream(-1) == torch.cuda.current_stream(1) and torch.cuda.Stream(-1).device.index == 1
assert torch.equal(torch.cuda.get_rng_state(-1), torch.cuda.get_rng_state(1))
""",
        SOFTCUDA_DEVICES=2,
    )


def test_what_is_no_stream_or_event():
    """The error names what was expected, and the current stream stays. Events of `torch.Event` are events."""
    run(
        RAISES
        + """
x, stream, event, host = torch.ones(2, device="cuda"), torch.cuda.Stream(), torch.cuda.Event(), torch.Stream("cpu")
for call, function, argument in (
    (torch.cuda.set_stream, "set_stream", "stream"), (event.record, "record", "stream"), (event.wait, "wait", "stream"),
    (lambda value: torch.cuda.stream(value).__enter__(), "stream", "stream"),
):
    for value in ("x", 3, host, event):
        raises(TypeError, f"{function}(): argument '{argument}' must be torch.cuda.Stream, not", lambda: call(value))
for value in ("x", 3, stream):
    raises(TypeError, "elapsed_time(): argument 'end_event' must be torch.cuda.Event, not", lambda: event.elapsed_time(value))
for value in ("x", None, host):
    raises(TypeError, "record_stream(): argument 's' must be torch.cuda.Stream, not", lambda: x.record_stream(value))
assert torch.cuda.current_stream() == torch.cuda.default_stream()
either = torch.Event("cuda")
stream.wait_event(either)
either.record(stream)
torch.cuda.current_stream().wait_event(either)
torch.cuda.current_stream().synchronize()
assert either.query()
"""
    )


def test_legacy_types_have_the_device_that_is_named():
    run(
        RAISES
        + """
here, there = torch.ones(2), torch.ones(2, device="cuda:1")
assert torch.cuda.FloatTensor(2, device="cuda:1").device == torch.cuda.FloatTensor([1], device="cuda:1").device == there.device
assert torch.cuda.FloatTensor(2).device.index == 0 and there.new(2, device="cuda:0").device.index == 0
for make, expected, got in (
    (lambda: torch.cuda.FloatTensor(here), "cuda", "cpu"), (lambda: torch.FloatTensor(there), "cpu", "cuda:1"), (lambda: here.new(there), "cpu", "cuda:1"),
):
    error = raises(TypeError, f"expected TensorOptions(dtype=float, device={expected}, ", make)
    assert f"(got TensorOptions(dtype=float, device={got}, " in str(error), error
assert there.new(there.untyped_storage()).tolist() == [1, 1] and torch.Tensor(there).device == there.device
""",
        SOFTCUDA_DEVICES=2,
    )


def test_files_of_devices_that_are_not_there():
    run(
        RAISES
        + """
import io
file = io.BytesIO()
torch.save(torch.ones(2, device="cuda"), file)
sentence = (
    "Attempting to deserialize object on CUDA device 5 but torch.cuda.device_count() is 1. Please use torch.load with map_location"
)
for place in ("cuda:5", torch.device("cuda:5"), {"cuda:0": "cuda:5"}):
    raises(RuntimeError, sentence, lambda: (file.seek(0), torch.load(file, map_location=place)))
"""
    )


def test_operands_of_several_devices():
    """The error names both; numbers without dimensions are exceptions."""
    run(
        RAISES
        + """
here, near, far = torch.ones(3), torch.ones(3, device="cuda:0"), torch.ones(3, device="cuda:1")
sentence = "Expected all tensors to be on the same device, but found at least two devices, "
index = torch.tensor([0, 2])
for call, names in (
    (lambda: near + far, "cuda:0 and cuda:1!"), (lambda: near + here, "cuda:0 and cpu!"), (lambda: here * far, "cuda:1 and cpu!"),
    (lambda: near.addcmul_(near, far), "cuda:0 and cuda:1!"), (lambda: torch.where(near > 0, near, far), "cuda:0 and cuda:1!"),
):
    raises(RuntimeError, sentence + names, call)
assert (near * torch.tensor(2.0)).tolist() == (torch.tensor(2.0) * near).tolist() == [2.0] * 3
assert (far + torch.tensor(1)).device == far.device
assert near[index].tolist() == [1.0, 1.0] and near[here > 0].tolist() == [1.0] * 3
raises(
    RuntimeError,
    "value cannot be converted to type int64_t without overflow",
    lambda: near.long().masked_fill(near > 2, torch.tensor(1j, device="cuda:0")),
)
raises(TypeError, "can't convert cuda:1 device type tensor to numpy.", far.numpy)
""",
        SOFTCUDA_DEVICES=2,
    )


def test_operators_name_the_tensor_that_is_elsewhere():
    """Most operators name a function of torch's backend, the first tensor that differs, and both devices; some have their own sentence."""
    run(
        RAISES
        + """
F = torch.nn.functional
line, square, batch = (torch.ones(*shape, device="cuda") for shape in ((3,), (3, 3), (2, 3, 3)))
here, rows, index, mask = torch.ones(3), torch.ones(3, 3), torch.tensor([0, 2]), torch.tensor([True, False, True])
SENTENCE = "Expected all tensors to be on the same device, but got {} is on {}, different from other tensors on {} (when checking argument in method wrapper_CUDA_{})"
for call, name, method in (
    (lambda: square @ rows, "mat2", "mm"), (lambda: batch @ rows.expand(2, 3, 3), "mat2", "bmm"), (lambda: line @ here, "tensor", "_dot"),
    (lambda: square.mv(here), "mat", "addmv_out_out"), (lambda: F.linear(square, rows), "mat2", "mm"),
    (lambda: F.linear(square, rows, here), "mat1", "addmm"), (lambda: F.linear(square, rows, line), "mat2", "addmm"),
    (lambda: F.embedding(index, square), "index", "_index_select"), (lambda: line.index_select(0, index), "index", "_index_select"),
    (lambda: line.gather(0, index), "index", "gather"), (lambda: torch.cat([line, here]), "tensors", "cat"),
    (lambda: torch.stack([line, here]), "tensors", "cat"), (lambda: line.scatter(0, index, line), "index", "scatter_src"),
    (lambda: line.scatter_(0, index, 1.0), "index", "scatter__value"), (lambda: line.index_add_(0, index, line[:2]), "index", "index_add_"),
    (lambda: square.addmm_(rows, square), "mat1", "addmm_"), (lambda: F.nll_loss(square, torch.tensor([0, 1, 2])), "target", "nll_loss_forward"),
    (lambda: F.layer_norm(square, (3,), here), "weight", "_native_layer_norm"), (lambda: F.huber_loss(line, here), "target", "_huber_loss"),
    (lambda: F.batch_norm(square, None, None, here, line, True), "weight", "_cudnn_batch_norm"),
    (lambda: F.batch_norm(square, here, line, training=True), "running_mean", "_native_batch_norm"),
    (lambda: F.embedding_bag(index[None], square), "indices", "__embedding_bag_forward_only"),
    (lambda: F.embedding_bag(index[None], square.clone().requires_grad_()), "indices", "__embedding_bag"),
    (lambda: F.grid_sample(batch[None], torch.ones(1, 1, 1, 2), align_corners=True), "grid", "_grid_sampler_2d"),
    (lambda: line.masked_scatter_(mask, line), "mask", "_masked_scatter_"), (lambda: torch.linalg.solve(square, here), "B", "_linalg_solve_ex"),
    (lambda: line.clamp(here, line), "min", "clamp_Tensor"), (lambda: line.clamp_(here, line), "min", "clamp__Tensor"),
    (lambda: square.addbmm_(rows[None], square[None]), "batch1", "_addbmm_"), (lambda: square.addr(here, line), "vec1", "_addr"), (lambda: line.repeat_interleave(torch.tensor([1, 0, 2])), "index", "_index_select"),
):
    places = ("cuda:0", "cpu") if name == "mat1" and method == "addmm" or name == "mat" else ("cpu", "cuda:0")
    raises(RuntimeError, SENTENCE.format(name, *places, method), call)
for call, sentence in (
    (lambda: line.masked_fill(mask, 1.0), "expected self and mask to be on the same device, but got mask on cpu and self on cuda:0"),
    (lambda: line.__setitem__(index, here[:2]), "expected device cuda:0 but got device cpu for value tensor"),
    (lambda: here[index.cuda()], "indices should be either on cpu or on the same device as the indexed tensor (cpu)"),
    (lambda: here[mask.cuda()], "indices should be either on cpu or on the same device as the indexed tensor (cpu)"),
    (lambda: torch.cdist(square, rows), "X1 and X2 must have the same device type. X1: cuda X2: cpu"),
    (lambda: torch.stft(line, 2, window=here[:2], return_complex=True), "stft input and window must be on the same device but got self on cuda:0 and window on cpu"),
):
    raises(RuntimeError, sentence, call)
"""
    )


@pytest.mark.parametrize(
    "variables, sentence",
    [
        ({"CUDA_VISIBLE_DEVICES": ""}, NO_DRIVER),
        ({"LD_LIBRARY_PATH": ""}, NO_DRIVER),
        ({"SOFTCUDA_VERSION": 11080}, "The NVIDIA driver on your system is too old (found version 11080)."),
    ],
)
def test_without_a_driver_that_can_be_used(variables, sentence):
    run(
        RAISES
        + f"""
assert not torch.cuda.is_available() and torch.cuda.device_count() == 0 and torch.cuda.memory_stats() == {{}}
for call in (
    lambda: torch.ones(1, device="cuda"), torch.cuda.init, lambda: torch.cuda.set_device(0), torch.cuda.current_device,
    lambda: torch.Generator(device="cuda"), lambda: torch.cuda.get_device_properties(0), torch.cuda.synchronize, torch.ones(1).cuda,
):
    error = raises(RuntimeError, {sentence!r}, call)
    assert "12.8" in str(error) or "too old" not in str(error), error
for make in (torch.cuda.Stream, torch.cuda.CUDAGraph, lambda: torch.cuda.ExternalStream(1), lambda: torch.Stream("cuda")):
    error = raises(torch.AcceleratorError, "CUDA error: CUDA driver version is insufficient for CUDA runtime version", make)
    assert {sentence!r} in str(error), error
event = torch.cuda.Event()
assert event.query() and event.synchronize() is None
raises(RuntimeError, {sentence!r}, event.record)
""",
        **variables,
    )


def test_memory_that_does_not_suffice():
    run(
        RAISES
        + """
sentence = "CUDA out of memory. Tried to allocate 4.00 GiB. GPU 0 has a total capacity of 64.00 MiB"
raises(torch.OutOfMemoryError, sentence, lambda: torch.ones(1 << 30, device="cuda"))
raises(RuntimeError, "Storage size calculation overflowed with sizes=[4611686018427387904]", lambda: torch.empty(1 << 62, device="cuda"))
torch.cuda.set_per_process_memory_fraction(0.1)
raises(torch.OutOfMemoryError, "CUDA out of memory. Tried to allocate 256.00 MiB.", lambda: torch.ones(1 << 26, device="cuda"))
stats = torch.cuda.memory_stats()
assert stats["num_ooms"] == 2 and stats["allocated_bytes.all.current"] == stats["reserved_bytes.all.current"] == 0
# Half of the memory is taken: what fails in the middle of a call leaves nothing behind, and blocks kept for reuse are given up first.
torch.cuda.set_per_process_memory_fraction(1.0)
half = torch.empty(37 << 20, dtype=torch.uint8, device="cuda")
taken = torch.cuda.memory_allocated()
error = raises(torch.OutOfMemoryError, "CUDA out of memory. Tried to allocate", lambda: half.to(torch.float32))
assert "torch.cuda.empty_cache()" in str(error) and torch.cuda.memory_allocated() == taken
del half
assert torch.empty(44 << 20, dtype=torch.uint8, device="cuda").numel() == 44 << 20
assert torch.ones(2, device="cuda").tolist() == [1.0, 1.0] and torch.cuda.memory_allocated() == 0
""",
        SOFTCUDA_MEMORY=64 << 20,
    )


def test_a_kernel_that_fails_stops_the_device():
    """A kernel of another library writes outside of memory: every later call tells it, and nothing hangs or crashes."""
    run(
        RAISES
        + """
import ctypes
x = torch.ones(4, device="cuda")
x + 1
torch.cuda.synchronize()
cuda, nvrtc, P, N = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL("libnvrtc.so.13"), ctypes.c_void_p, ctypes.c_size_t
def new(function, *arguments):
    made = P()
    assert function(ctypes.byref(made), *arguments) == 0
    return made
program, size = new(nvrtc.nvrtcCreateProgram, b'extern "C" __global__ void k(int* x) { x[1 << 28] = 1; }', b"k.cu", 0, None, None), N()
assert nvrtc.nvrtcCompileProgram(program, 0, None) == 0 == nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size))
image = ctypes.create_string_buffer(size.value)
nvrtc.nvrtcGetCUBIN(program, image)
function = new(cuda.cuModuleGetFunction, new(cuda.cuModuleLoadData, image), b"k")
argument = P(x.data_ptr())
assert cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, (P * 1)(ctypes.addressof(argument)), None) == 0
sentence = "CUDA error: an illegal memory access was encountered"
raises(torch.AcceleratorError, sentence, torch.cuda.synchronize)
error = raises(torch.AcceleratorError, sentence, torch.cuda.synchronize)
assert "CUDA_LAUNCH_BLOCKING=1" in str(error), error
for call in (x.cpu, lambda: x + 1, x.sum, lambda: torch.empty(4, device="cuda").fill_(1), torch.cuda.Event().record, x.tolist, lambda: torch.empty(1 << 20, device="cuda")):
    raises(torch.AcceleratorError, sentence, call)
del x
torch.cuda.memory_allocated()
"""
    )


def test_a_forked_child():
    """Requirement MUL-12: every use names `spawn`; what does not use the device works, and the parent is unharmed."""
    shown = run(
        """
        import os, pickle
        x = torch.ones(3, device="cuda")
        stream, event, generator = torch.cuda.Stream(), torch.cuda.Event(), torch.Generator(device="cuda")
        graph, recorded, pool = torch.cuda.CUDAGraph(), torch.cuda.Event(enable_timing=True), torch.cuda.MemPool()
        recorded.record()
        if os.fork() == 0:
            sentence = "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the 'spawn' start method"
            for call in (
                lambda: x + 1, x.cpu, x.tolist, lambda: torch.ones(1, device="cuda"), torch.cuda.synchronize, torch.cuda.Stream,
                stream.synchronize, event.record, lambda: torch.rand(1, device="cuda"), torch.cuda.init, lambda: torch.cuda.set_device(0),
                torch.cuda.current_device, lambda: torch.cuda.get_device_properties(0), lambda: pickle.dumps(x), graph.capture_begin,
                torch.cuda.get_rng_state, lambda: torch.ones(1).cuda(), lambda: repr(x), lambda: f"{x}", lambda: bool(x[0]), recorded.query,
                recorded.synchronize, recorded.record, lambda: recorded.wait(stream), lambda: stream.wait_event(recorded), stream.query,
                lambda: torch.cuda.use_mem_pool(pool).__enter__(), torch.cuda.MemPool, torch.cuda.mem_get_info,
                x.zero_, lambda: torch.ones(1).pin_memory(),
            ):
                try:
                    call()
                except RuntimeError as error:
                    assert str(error).startswith(sentence), error
                else:
                    os._exit(3)
            assert x.shape == (3,) and x.device.index == 0 and torch.cuda.is_available() and (torch.ones(2) + 1).tolist() == [2.0, 2.0]
            del x, stream, event, generator, graph, recorded, pool
            print("child", flush=True)
            os._exit(0)
        assert os.wait()[1] == 0
        print((x + 1).tolist())
        """
    )
    assert shown == "child\n[2.0, 2.0, 2.0]\n"
