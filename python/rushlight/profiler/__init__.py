"""Profiling of programs: the time and the memory of each operator, as tables and as traces for a browser.

with torch.profiler.profile(record_shapes=True) as profiled:
    model(inputs)
print(profiled.key_averages().table(sort_by="self_cpu_time_total", row_limit=10))
profiled.export_chrome_trace("trace.json")
"""

from __future__ import annotations

import gzip
import os
import shutil
import socket
import time
from enum import Enum

from rushlight import _C
from rushlight._warnings import warn
from rushlight.autograd.profiler import can_record_devices, record_function
from rushlight.autograd.profiler import profile as _Recording
from rushlight.autograd.profiler_util import EventList

from . import _names, itt
from ._names import *  # noqa: F403

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType
    from typing import Any, Self

__all__ = [
    "ProfilerAction",
    "ProfilerActivity",
    "itt",
    "kineto_available",
    "profile",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
    *_names.__all__,
]


def kineto_available():
    """Whether torch's library for traces of GPUs is there: always False. `profile` works without it.

    >>> torch.profiler.kineto_available()
    False
    """
    return False


class ProfilerActivity(Enum):
    """The kinds of activities to profile.

    >>> torch.profiler.ProfilerActivity.CPU in torch.profiler.supported_activities()
    True
    """

    CPU = 0
    XPU = 1
    CUDA = 2
    HPU = 3
    MTIA = 4
    PrivateUse1 = 5


class ProfilerAction(Enum):
    """The action of a profiler in a step.

    >>> torch.profiler.schedule(wait=1, warmup=0, active=1)(0)
    <ProfilerAction.NONE: 0>
    """

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


_RECORDS = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)


def supported_activities() -> set[ProfilerActivity]:
    """The activities that can be profiled.

    >>> torch.profiler.ProfilerActivity.CPU in torch.profiler.supported_activities()
    True
    """
    return {ProfilerActivity.CPU, ProfilerActivity.CUDA} if _C._cuda_device_count() > 0 else {ProfilerActivity.CPU}


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, skip_first_wait: int = 0
) -> Callable[[int], ProfilerAction]:
    """A schedule: after `skip_first` steps, it repeats `wait`, `warmup` and `active` steps.

    Args:
        wait: the number of steps without profiling.
        warmup: the number of steps before the recorded ones.
        active: the number of recorded steps. The recording is complete after the last one.
        repeat: the number of repetitions; zero for no limit.
        skip_first: the number of steps before the first repetition.
        skip_first_wait: if not zero, the first repetition has no `wait`.

    Raises:
        AssertionError: a number is negative, or `active` is zero.

    >>> steps = torch.profiler.schedule(wait=1, warmup=1, active=1, repeat=1)
    >>> [steps(step).name for step in range(4)]
    ['NONE', 'WARMUP', 'RECORD_AND_SAVE', 'NONE']
    """
    if wait < 0 or warmup < 0 or active <= 0 or repeat < 0 or skip_first < 0:
        raise AssertionError(
            f"Invalid profiler schedule arguments. Got wait={wait} (need >= 0), warmup={warmup} (need >= 0), "
            f"active={active} (need > 0), repeat={repeat} (need >= 0), skip_first={skip_first} (need >= 0)."
        )
    if warmup == 0:
        warn("Profiler won't be using warmup, this can skew profiler results")
    length = wait + warmup + active

    def action(step: int) -> ProfilerAction:
        if step < 0:
            raise AssertionError(f"Step must be non-negative. Got {step}.")
        if step < skip_first:
            return ProfilerAction.NONE
        step -= skip_first
        if skip_first_wait != 0:
            step += wait
        if repeat > 0 and step // length >= repeat:
            return ProfilerAction.NONE
        place = step % length
        if place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD_AND_SAVE if place == length - 1 else ProfilerAction.RECORD

    return action


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False
) -> Callable[[profile], None]:
    """An `on_trace_ready` function that writes each trace to a new file in a folder.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with torch.profiler.profile(on_trace_ready=torch.profiler.tensorboard_trace_handler(folder, "me")):
    ...         _ = torch.ones(2)
    ...     [name.split(".")[0] for name in os.listdir(folder)]
    ['me']
    """

    def write(profiled: profile) -> None:
        os.makedirs(dir_name, exist_ok=True)
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        name = f"{worker}.{time.time_ns()}.pt.trace.json" + (".gz" if use_gzip else "")
        profiled.export_chrome_trace(os.path.join(dir_name, name))

    return write


class profile:
    """Records the operators that run inside the context, on all threads, in all steps or in those of a schedule.

    Args:
        activities: what to record: ``ProfilerActivity.CPU``, and with ``ProfilerActivity.CUDA`` the kernels and copies of GPUs. By default
            both, as far as there are GPUs.
        schedule: the action for each step, from `torch.profiler.schedule`; by default everything is recorded.
        on_trace_ready: a function that is called with the profiler when a recording is complete.
        record_shapes: whether to record the shapes of arguments.
        profile_memory: whether to record the memory that tensors take and give back: `cpu_memory_usage` and `self_cpu_memory_usage` of
            events, and columns of tables.
        with_stack: whether to record calls of Python functions, which are events too, and the functions around each event (`stack`).
            Everything takes longer then.
        with_flops: whether to count the floating point operations of products, of `conv2d` and of sums and products of elements
            (`flops`). It records the shapes too.
        with_modules: accepted; it has no effect, as in torch for modules that are not TorchScript. `with_stack` tells modules.
        use_cuda: adds ``ProfilerActivity.CUDA``.
        experimental_config, execution_trace_observer, acc_events, custom_trace_id_callback, post_processing_timeout_s:
            accepted; they have no effect.

    Raises:
        AssertionError: results are read before it was started.

    >>> with torch.profiler.profile(record_shapes=True) as profiled:
    ...     _ = torch.ones(2) @ torch.ones(2)
    >>> [entry.count for entry in profiled.key_averages() if entry.key == "aten::ones"]
    [2]
    >>> with torch.profiler.profile(profile_memory=True, with_flops=True) as profiled:
    ...     product = torch.ones(8, 16) @ torch.ones(16, 4)
    >>> [(e.self_cpu_memory_usage, e.flops) for e in profiled.key_averages() if e.key == "aten::mm"]
    [(128, 1024)]
    """

    def __init__(
        self,
        *,
        activities: Iterable[ProfilerActivity] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[..., Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: object = None,
        execution_trace_observer: object = None,
        acc_events: bool = False,
        use_cuda: bool | None = None,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
    ) -> None:
        self.activities = supported_activities() if activities is None else set(activities)
        if not self.activities & set(ProfilerActivity):
            raise AssertionError("No valid profiler activities found")
        self.schedule = schedule
        self.on_trace_ready = on_trace_ready
        self.with_flops = with_flops
        self.record_shapes = record_shapes or with_flops
        self.profile_memory = profile_memory
        self.with_stack = with_stack
        self.with_modules = with_modules
        self.step_num = 0
        if schedule is not None:
            schedule(self.step_num)
        self.current_action = ProfilerAction.NONE
        self.profiler: _Recording | None = None
        self._step: record_function | None = None
        if use_cuda:
            self.activities.add(ProfilerActivity.CUDA)
        self._on_devices = can_record_devices(ProfilerActivity.CUDA in self.activities)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def _action(self) -> ProfilerAction:
        return ProfilerAction.RECORD if self.schedule is None else self.schedule(self.step_num)

    def start(self) -> None:
        """Starts the first step."""
        self._go_on(self._action())

    def stop(self) -> None:
        """Ends the current recording, if there is one, and calls `on_trace_ready`.

        Raises:
            AssertionError: the profiler was not started.
        """
        if self.profiler is None and self.schedule is None:
            raise AssertionError("Profiler must be initialized before stopping trace\nCall start() first.")
        self._go_on(ProfilerAction.NONE, ended=True)

    def step(self) -> None:
        """Starts the next step."""
        self.step_num += 1
        self._go_on(self._action())

    def _go_on(self, action: ProfilerAction, ended: bool = False) -> None:
        """Changes from the previous action to the current one."""
        before, self.current_action = self.current_action, action
        if self._step is not None:
            self._step.__exit__(None, None, None)
            self._step = None
        if before in _RECORDS and (before is ProfilerAction.RECORD_AND_SAVE or action not in _RECORDS):
            if self.profiler is not None:
                self.profiler.__exit__(None, None, None)
            if before is ProfilerAction.RECORD and not ended:
                warn(f"Incorrect schedule: RECORD followed by {action.name}")
            elif self.on_trace_ready is not None:
                self.on_trace_ready(self)
            before = ProfilerAction.NONE
        if action in _RECORDS and before not in _RECORDS:
            self.profiler = _Recording(
                record_shapes=self.record_shapes,
                with_flops=self.with_flops,
                profile_memory=self.profile_memory,
                with_stack=self.with_stack,
                with_modules=self.with_modules,
                use_cuda=self._on_devices,
                use_cpu=ProfilerActivity.CPU in self.activities,
                use_kineto=True,
            )
            self.profiler.__enter__()
        if self.schedule is not None and not ended:
            self._step = record_function(f"ProfilerStep#{self.step_num}")
            self._step.__enter__()

    def _recorded(self, purpose: str) -> _Recording:
        if self.profiler is None:
            raise AssertionError(f"Profiler must be initialized before {purpose}")
        return self.profiler

    def events(self) -> EventList:
        """All events of the last recording, in the order in which they began."""
        found = self._recorded("accessing events").function_events
        if found is None:
            raise AssertionError("Profiler didn't finish running")
        return found

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0, group_by_overload_name: bool = False
    ) -> EventList:
        """The events grouped by name. See `EventList.key_averages`."""
        recorded = self._recorded("getting key averages")
        return recorded.key_averages(group_by_input_shape, group_by_stack_n, group_by_overload_name)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Writes the Python functions around each event and its metric, for programs that draw flame graphs.

        Raises:
            AssertionError: `with_stack` is not set, or the profiler was not started.
            ValueError: the metric is unknown.
        """
        self._recorded("exporting stacks").export_stacks(path, metric)

    def export_chrome_trace(self, path: str) -> None:
        """Writes a trace for chrome://tracing and https://ui.perfetto.dev, compressed if the name ends in `.gz`."""
        recorded = self._recorded("exporting chrome trace")
        if not path.endswith(".gz"):
            recorded.export_chrome_trace(path)
            return
        plain = path[: -len(".gz")]
        recorded.export_chrome_trace(plain)
        with open(plain, "rb") as source, gzip.open(path, "wb") as target:
            shutil.copyfileobj(source, target)
        os.remove(plain)


def __dir__() -> list[str]:
    return __all__
