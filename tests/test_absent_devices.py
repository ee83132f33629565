"""Devices that rushlight does not support: their modules answer questions, and refuse calls with torch's errors."""

import inspect

import pytest

import rushlight as torch
from rushlight import _absent
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
    "call, error, told",
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
        (lambda: torch.cuda.Stream(), RuntimeError, "Tried to instantiate dummy base class Stream"),
        (lambda: torch.cuda.nvtx.range_push("a"), RuntimeError, "NVTX functions not installed."),
        (lambda: itt.mark("a"), RuntimeError, "ITT functions not installed."),
        (
            lambda: torch.accelerator.get_memory_info(),
            RuntimeError,
            "Cannot access accelerator device when none is available.",
        ),
    ],
)
def test_calls_are_refused_with_torchs_errors(call, error, told):
    with pytest.raises(error) as caught:
        call()
    assert type(caught.value) is error and str(caught.value).startswith(told)


def test_calls_of_cuda_are_refused_alike():
    with pytest.raises((AssertionError, RuntimeError)) as first:
        torch.cuda.current_device()
    for call in (torch.cuda.mem_get_info, torch.cuda.current_stream, torch.cuda.get_device_capability):
        with pytest.raises(type(first.value)) as caught:
            call()
        assert str(caught.value) == str(first.value)
    with pytest.raises(type(first.value)), torch.cuda.device(0):
        pass


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


def test_settings_of_absent_libraries():
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
    declared = _absent.declare(
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
