"""A profiler: records the duration, the thread, the caller and the memory of each operator."""

from __future__ import annotations

from functools import wraps

from rushlight import _C
from rushlight._warnings import warn
from rushlight.autograd import _profiler_events, _profiler_steps
from rushlight.autograd._profiler_steps import *  # noqa: F403
from rushlight.autograd._python_frames import Frames
from rushlight.autograd.profiler_util import EventList as EventList
from rushlight.autograd.profiler_util import FunctionEvent as FunctionEvent
from rushlight.autograd.profiler_util import FunctionEventAvg as FunctionEventAvg

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Any, ParamSpec, Self, TypeVar

    _P = ParamSpec("_P")
    _R = TypeVar("_R")

__all__ = [
    "EventList",
    "FunctionEvent",
    "emit_itt",
    "emit_nvtx",
    "profile",
    "record_function",
    *_profiler_steps.__all__,
]


def can_record_devices(asked: bool) -> bool:
    """Whether GPUs are to be recorded and can be; warns if there are none."""
    can = _C._cuda_device_count() > 0
    if asked and not can:
        warn("CUDA is not available, disabling CUDA profiling")
    return asked and can


def _profiler_enabled() -> bool:
    """Whether a profiler is recording, or `emit_nvtx` makes ranges.

    >>> with torch.profiler.profile():
    ...     torch.autograd._profiler_enabled()
    True
    """
    return _C._profile_is_on()


class profile:
    """Records the operators that run inside the context, on all threads. `torch.profiler.profile` is the newer form.

    Events are operators, nodes of backward passes, and ranges named with `record_function`. The profiler records up to
    a million events. A warning has the number of events after these.

    Args:
        enabled: False disables the profiler.
        use_cuda, use_device: whether to record the kernels and copies of GPUs too (``use_device="cuda"``). They run a little slower
            then, and leaving the context waits for them.
        record_shapes: whether to record the shapes of arguments.
        with_flops: whether to count the floating point operations of products, of `conv2d` and of sums and products of elements. It
            records the shapes too.
        profile_memory: whether to record the memory that tensors take and give back.
        with_stack: whether to record calls of Python functions, which are events too, and the functions around each event. Everything
            takes longer then.
        with_modules: accepted; it has no effect, as in torch for modules that are not TorchScript. `with_stack` tells modules.
        use_cpu: whether to list the operators; without it ``use_kineto`` must be set, and the work of GPUs is listed alone.
        use_kineto, experimental_config, acc_events, custom_trace_id_callback: accepted; they have no effect.

    Raises:
        RuntimeError: it is entered a second time.
        AssertionError: results are read before it was entered, or neither operators nor GPUs are to be recorded.

    >>> with torch.autograd.profiler.profile() as profiled:
    ...     _ = torch.ones(2) + 1
    >>> [event.name for event in profiled.function_events][-1]
    'aten::add'
    """

    def __init__(
        self,
        enabled: bool = True,
        *,
        use_cuda: bool = False,
        use_device: str | None = None,
        record_shapes: bool = False,
        with_flops: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_modules: bool = False,
        use_kineto: bool = False,
        use_cpu: bool = True,
        experimental_config: object = None,
        acc_events: bool = False,
        custom_trace_id_callback: Callable[[], str] | None = None,
    ) -> None:
        self._on_devices = can_record_devices(use_cuda or use_device not in (None, "cpu"))
        self._on_host = use_cpu
        if enabled and not use_cpu and not use_kineto:
            raise AssertionError("Device-only events supported only with Kineto (use_kineto=True)")
        if enabled and not use_cpu and not self._on_devices:
            raise AssertionError("No activities specified for the profiler")
        self.enabled = enabled
        self.with_flops = with_flops
        self.record_shapes = record_shapes or with_flops
        self.profile_memory = profile_memory
        self.with_stack = with_stack
        self.with_modules = with_modules
        self.function_events: EventList | None = None
        self.entered = False
        self._since = 0
        self._frames = Frames()

    def __enter__(self) -> Self:
        if self.enabled:
            if self.entered:
                raise RuntimeError("Profiler context manager is not reentrant")
            self.entered = True
            self._since = _C._profile_start(self.record_shapes, self._on_devices, self.profile_memory)
            if self.with_stack:
                self._frames.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not self.enabled:
            return
        self._frames.stop()
        until, _ = _C._profile_moment()
        work = _C._profile_stop_devices(self._since) if self._on_devices else []
        changes, dropped_changes = _C._profile_stop_memory(self._since) if self.profile_memory else (None, 0)
        recorded, dropped = _C._profile_stop(self._since)
        self.function_events = _profiler_events.read(
            recorded if self._on_host else [],
            self._since,
            work=work,
            changes=changes,
            frames=self._frames.intervals(until) if self._on_host else (),
            with_flops=self.with_flops,
            use_device="cuda" if self._on_devices else None,
        )
        if dropped:
            warn(f"{dropped} events exceed the limit of the profiler and were not recorded")
        if dropped_changes:
            warn(f"{dropped_changes} changes of memory exceed the limit of the profiler and were not recorded")
        if self._frames.is_cut:
            warn("Calls of Python functions exceed the limit of the profiler and were not recorded")

    def _events(self) -> EventList:
        if self.function_events is None:
            raise AssertionError("Profiler didn't finish running" if self.entered else "Profiler didn't run")
        return self.function_events

    def __repr__(self) -> str:
        return "<unfinished torch.autograd.profile>" if self.function_events is None else repr(self.function_events)

    def __str__(self) -> str:
        return "<unfinished torch.autograd.profile>" if self.function_events is None else str(self.function_events)

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int = 75,
        max_name_column_width: int = 55,
        max_shapes_column_width: int = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
    ) -> str:
        """See `EventList.table`."""
        return self._events().table(
            sort_by,
            row_limit,
            max_src_column_width,
            max_name_column_width,
            max_shapes_column_width,
            header,
            top_level_events_only,
        )

    def export_chrome_trace(self, path: str) -> None:
        """See `EventList.export_chrome_trace`."""
        self._events().export_chrome_trace(path)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """See `EventList.export_stacks`.

        Raises:
            AssertionError: `with_stack` is not set.
            ValueError: the metric is unknown.
        """
        if not self.with_stack:
            raise AssertionError("export_stacks() requires with_stack=True")
        self._events().export_stacks(path, metric)

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0, group_by_overload_name: bool = False
    ) -> EventList:
        """See `EventList.key_averages`."""
        return self._events().key_averages(group_by_input_shape, group_by_stack_n, group_by_overload_name)

    def total_average(self) -> FunctionEventAvg:
        """See `EventList.total_average`."""
        return self._events().total_average()

    @property
    def self_cpu_time_total(self) -> float:
        """The time of all events without their children."""
        return self._events().self_cpu_time_total


class _Emit:
    """A context manager that sends the events of operators to a profiler of a vendor.

    Args:
        enabled: False does nothing.
        record_shapes: whether to send the sizes of arguments.
    """

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        self.enabled, self.record_shapes = enabled, record_shapes
        self.entered = False

    def _begin(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self | None:
        if not self.enabled:
            return None
        if self.entered:
            raise RuntimeError("emit context manager is not reentrant")
        self._begin()
        self.entered = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        pass


class emit_nvtx(_Emit):
    """Makes a range of each operator and each node of a backward pass, for NVIDIA's profilers; see `torch.cuda.nvtx`.

    Raises:
        RuntimeError: on entry, if there is no driver or it is entered twice, unless ``enabled`` is False.

    >>> with torch.autograd.profiler.emit_nvtx(enabled=False):
    ...     torch.ones(1)
    tensor([1.])
    """

    def _begin(self) -> None:
        _C._cuda_init()
        _C._cuda_synchronize(_C._cuda_current_device())
        _C._nvtx_emit(True, self.record_shapes)

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.enabled:
            _C._cuda_synchronize(_C._cuda_current_device())
            _C._nvtx_emit(False, self.record_shapes)


class emit_itt(_Emit):
    """A context manager that sends the events of operators to Intel's profilers. There is no support for them.

    Raises:
        RuntimeError: on entry, unless ``enabled`` is False.

    >>> with torch.autograd.profiler.emit_itt(enabled=False):
    ...     torch.ones(1)
    tensor([1.])
    """

    def _begin(self) -> None:
        raise RuntimeError("ITT functions not installed. Are you sure you have a ITT build?")


class record_function:
    """A context manager or decorator for a named range in a profile. Without a profiler it does nothing.

    >>> with torch.profiler.profile() as profiled:
    ...     with torch.profiler.record_function("loading"):
    ...         _ = torch.ones(2)
    >>> [event.name for event in profiled.events()][0]
    'loading'
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name = name
        self.args = args
        self._began: list[tuple[int, bool] | None] = []

    def __enter__(self) -> Self:
        for place, kind, value in (("name", "str", self.name), ("args", "Optional[str]", self.args)):
            if not isinstance(value, str) and (place == "name" or value is not None):
                raise RuntimeError(
                    f"profiler::_record_function_enter_new() Expected a value of type '{kind}' for argument '{place}' but "
                    f"instead found type '{type(value).__name__}'."
                )
        self._began.append(_C._profile_begin(self.name))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        began = self._began.pop()
        if began is not None:
            _C._profile_end(began, self.name)

    def __call__(self, function: Callable[_P, _R]) -> Callable[_P, _R]:
        @wraps(function)
        def recorded(*args: Any, **kwargs: Any) -> _R:
            with record_function(self.name, self.args):
                return function(*args, **kwargs)

        return recorded


def __dir__() -> list[str]:
    return __all__
