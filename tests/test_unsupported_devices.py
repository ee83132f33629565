"""Devices that rushlight does not support: their modules answer questions, and refuse calls with torch's errors."""

import inspect
import io
import pickle

import pytest

import rushlight as torch
from rushlight import _unsupported
from rushlight.profiler import itt


@pytest.mark.parametrize("name", ["cuda", "mps", "mtia", "xpu"])
def test_questions_are_answered_with_no(name):
    module = getattr(torch, name)
    assert module.is_available() is False
    module.manual_seed(0)
    if name == "mps":
        return
    assert module.is_initialized() is False
    assert module.memory_allocated() == module.max_memory_allocated() == 0 and dict(module.memory_stats()) == {}
    assert module.get_rng_state_all() == [] and module.manual_seed_all(0) is None
    assert module.memory_stats() is not module.memory_stats()


@pytest.mark.parametrize("module", [torch.mps, torch.mtia, torch.xpu])
def test_there_are_no_devices(module):
    assert module.device_count() == 0


@pytest.mark.parametrize(
    "call, error, sentence",
    [
        (lambda: torch.xpu.current_device(), AssertionError, "Torch not compiled with XPU enabled"),
        (lambda: torch.xpu.set_device(0), AssertionError, "Torch not compiled with XPU enabled"),
        (lambda: torch.xpu.Event(), RuntimeError, "Tried to instantiate dummy base class Event"),
        (lambda: torch.xpu.Stream(0, priority=1), RuntimeError, "Tried to instantiate dummy base class Stream"),
        (lambda: torch.mps.synchronize(), RuntimeError, "Cannot execute deviceSynchronize() without MPS backend."),
        (lambda: torch.mps.seed(), RuntimeError, "Cannot execute getDefaultGenerator() without MPS backend."),
        (lambda: torch.mps.compile_shader(""), RuntimeError, "MPS is not available"),
        (lambda: torch.mtia.current_device(), RuntimeError, "Cannot execute getCurrentDevice() without MTIA backend."),
        (lambda: torch.mtia.snapshot(), RuntimeError, "Cannot execute memorySnapshot() without MTIA backend."),
        (lambda: torch.mtia.init(), AssertionError, "Torch not compiled with MTIA enabled."),
        (lambda: itt.mark("a"), RuntimeError, "ITT functions not installed."),
        (
            lambda: torch.accelerator.get_memory_info(),
            RuntimeError,
            "Cannot access accelerator device when none is available.",
        ),
    ],
)
def test_calls_are_refused_with_torchs_errors(call, error, sentence):
    with pytest.raises(error) as caught:
        call()
    assert type(caught.value) is error and str(caught.value).startswith(sentence)


def test_calls_of_cuda_are_refused_alike():
    with pytest.raises((AssertionError, RuntimeError)) as first:
        torch.cuda.current_device()
    for call in (torch.cuda.mem_get_info, torch.cuda.current_stream, torch.cuda.get_device_capability):
        with pytest.raises(type(first.value)) as caught:
            call()
        assert str(caught.value) == str(first.value)
    with pytest.raises(type(first.value)), torch.cuda.device(0):
        pass


def test_streams_and_graphs_of_no_device_say_so():
    with pytest.raises((AssertionError, RuntimeError)) as reason:
        torch.cuda.current_device()
    for make in (torch.cuda.Stream, torch.cuda.CUDAGraph):
        with pytest.raises(torch.AcceleratorError, match="^CUDA error: CUDA driver version is insufficient") as caught:
            make()
        assert str(caught.value).endswith(str(reason.value))
    event = torch.cuda.Event()
    assert event.query() and event.synchronize() is None
    with pytest.raises(type(reason.value)):
        event.record()


def test_context_managers_for_no_device_do_nothing():
    with torch.cuda.device(None), torch.cuda.device(-1), torch.cuda.device_of(torch.ones(1)), torch.cuda.stream(None):
        pass
    with torch.accelerator.device_index(None):
        pass


def test_streams_of_the_cpu():
    first, second = torch.cpu.current_stream(), torch.cpu.Stream()
    with torch.cpu.stream(second), torch.cpu.stream(None):
        assert torch.cpu.current_stream() is second
    assert torch.cpu.current_stream() is first and torch.cpu.is_initialized()
    event = torch.cpu.Event()
    event.record()
    assert event.query() is True and second.wait_event(event) is None


def test_settings_of_unsupported_libraries():
    backends = torch.backends
    libraries = ("nnpack", "kleidiai", "cusparselt", "mkldnn", "openmp", "mps")
    assert not any(getattr(backends, name).is_available() for name in libraries)
    assert backends.quantized.engine in backends.quantized.supported_engines
    before = backends.mha.get_fastpath_enabled()
    backends.mha.set_fastpath_enabled(False)
    assert backends.mha.get_fastpath_enabled() is False
    backends.mha.set_fastpath_enabled(before)
    with backends.nnpack.flags(enabled=False):
        assert backends.nnpack.set_flags(False) == (False,)
    assert backends.nnpack.set_flags(True) == (True,)
    with backends.miopen.flags(immediate=True):
        assert backends.miopen.immediate is True
    assert backends.miopen.immediate is False
    with pytest.raises(RuntimeError, match="expected 0 <= device index < 0, but got device with index 0"):
        backends.cuda.cufft_plan_cache[0]


def test_declared_names_are_functions_and_classes_of_their_module():
    names = {"__name__": "rushlight.example", "_refuse": lambda text: LookupError(text)}
    declared = _unsupported.declare(
        names,
        "it isn't there",
        """
        count(device=None) = 0
        place(device, *, fast=False)
        wait() : told
        class Thing(size=3)
        """,
    )
    assert declared == ["count", "place", "wait", "Thing"]
    assert names["count"]() == names["count"]("a device") == 0
    assert str(inspect.signature(names["place"])) == "(device, *, fast=False)"
    for call, text in (
        (lambda: names["place"](1, fast=True), "place"),
        (names["wait"], "told"),
        (names["Thing"], "Thing"),
    ):
        with pytest.raises(LookupError, match=f"^'?{text}'?$"):
            call()
    with pytest.raises(TypeError):
        names["place"]()
    assert names["Thing"].__module__ == names["place"].__module__ == "rushlight.example"
    assert names["Thing"].__doc__ == "Cannot be instantiated, because it isn't there."
    assert names["count"].__doc__.startswith("Returns ``0``, because it isn't there.\n\n>>> torch.example.count()\n0")


KINDS = "ipu xpu mkldnn opengl opencl ideep hip ve fpga maia xla lazy vulkan mps hpu mtia privateuseone".split()


@pytest.mark.parametrize("kind", KINDS)
def test_names_of_torchs_devices_are_devices(kind):
    device, numbered = torch.device(kind), torch.device(f"{kind}:3")
    assert (device.type, device.index, str(device)) == (kind, None, kind)
    assert (numbered.type, numbered.index, str(numbered)) == (kind, 3, f"{kind}:3")
    assert device == torch.device(device) and hash(device) == hash(torch.device(kind)) and device != torch.device("cpu")
    assert (
        torch.device(kind, 3) == numbered == pickle.loads(pickle.dumps(numbered))
        and repr(device) == f"device(type='{kind}')"
    )


@pytest.mark.parametrize(
    "kind, error, sentence",
    [
        (
            "mps",
            NotImplementedError,
            "Could not run 'aten::empty.memory_format' with arguments from the 'MPS' backend.",
        ),
        (
            "vulkan:1",
            NotImplementedError,
            "Could not run 'aten::empty.memory_format' with arguments from the 'Vulkan' backend",
        ),
        ("xpu", AssertionError, "Torch not compiled with XPU enabled"),
        ("mtia:1", AssertionError, "Torch not compiled with MTIA enabled. Ensure you have"),
        ("hpu", ModuleNotFoundError, "No module named 'torch.hpu'"),
        ("privateuseone", ModuleNotFoundError, "No module named 'torch.privateuseone'"),
        ("opencl", RuntimeError, "This is a grandfathered Caffe2 device type opencl, it shouldn't ever convert"),
    ],
)
def test_tensors_on_unsupported_devices_are_refused(kind, error, sentence):
    x = torch.ones(2)
    before = torch.get_default_device()
    for call in (
        lambda device: torch.empty(2, device=device),
        lambda device: torch.rand(2, device=device),
        lambda device: torch.arange(2, device=device),
        lambda device: torch.eye(2, device=device),
        lambda device: x.new_zeros(2, device=device),
        lambda device: torch.nn.Linear(1, 1, device=device),
    ):
        with pytest.raises(error) as caught:
            call(kind)
        assert type(caught.value) is error and str(caught.value).startswith(sentence)
    with pytest.raises(error), torch.device(kind):
        torch.ones(2)
    assert torch.get_default_device() == before


@pytest.mark.parametrize(
    "kind, error, sentence",
    [
        ("mps", RuntimeError, "PyTorch is not linked with support for mps devices"),
        ("mps:0", NotImplementedError, "Could not run 'aten::empty_strided' with arguments from the 'MPS' backend."),
        (
            "lazy",
            NotImplementedError,
            "Could not run 'aten::empty.memory_format' with arguments from the 'Lazy' backend.",
        ),
        ("xla:1", NotImplementedError, "Could not run 'aten::empty_strided' with arguments from the 'XLA' backend."),
        ("xpu:1", AssertionError, "Torch not compiled with XPU enabled"),
        ("hpu", ModuleNotFoundError, "No module named 'torch.hpu'"),
    ],
)
def test_nothing_moves_to_unsupported_devices(kind, error, sentence):
    x, layer = torch.ones(2), torch.nn.Linear(1, 1)
    for call in (
        x.to,
        lambda device: torch.tensor([1], device=device),
        lambda device: torch.as_tensor([1], device=device),
        lambda device: torch.asarray([1], device=device),
        lambda device: x.new_tensor([1], device=device),
        layer.to,
    ):
        with pytest.raises(error) as caught:
            call(kind)
        assert type(caught.value) is error and str(caught.value).startswith(sentence)
    with pytest.raises((NotImplementedError, error), match="empty_strided|Torch not compiled|No module named"):
        torch.zeros_like(x, device=kind)
    assert layer.weight.device == torch.device("cpu")


@pytest.mark.parametrize(
    "call, error, sentence",
    [
        (lambda: torch.Generator("mps"), RuntimeError, "Cannot execute getNewGenerator() without MPS backend."),
        (lambda: torch.Generator("xpu"), RuntimeError, "Cannot get XPU generator without ATen_xpu library."),
        (lambda: torch.Generator("hip"), RuntimeError, "Backend doesn`t support getNewGenerator()"),
        (lambda: torch.Generator("meta"), RuntimeError, "META device type not an accelerator."),
        (
            lambda: torch.UntypedStorage(2, device="mps"),
            RuntimeError,
            "torch.UntypedStorage(): Storage device not recognized: mps",
        ),
        (lambda: torch.UntypedStorage(2, device="xpu"), AssertionError, "Torch not compiled with XPU enabled"),
        (
            lambda: torch.Tensor(2, device="mps"),
            RuntimeError,
            "legacy constructor expects device type: cpu but device type: mps",
        ),
        (lambda: loaded("mps"), RuntimeError, "torch.UntypedStorage(): Storage device not recognized: mps"),
        (
            lambda: loaded("xpu:1"),
            RuntimeError,
            "Attempting to deserialize object on a XPU device but torch.xpu.is_available()",
        ),
        (lambda: loaded("mtia"), RuntimeError, "Cannot execute getCurrentDevice() without MTIA backend."),
        (lambda: loaded("hpu"), RuntimeError, "The HPU device module is not registered."),
        (
            lambda: loaded("xla"),
            RuntimeError,
            "don't know how to restore data location of torch.storage.UntypedStorage (tagged with xla)",
        ),
    ],
)
def test_what_else_is_refused_on_unsupported_devices(call, error, sentence):
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value).startswith(sentence)


def loaded(device):
    file = io.BytesIO()
    torch.save(torch.ones(2), file)
    file.seek(0)
    return torch.load(file, map_location=device)
