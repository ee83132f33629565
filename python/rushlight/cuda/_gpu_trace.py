"""`torch.cuda._gpu_trace`: functions of a program that are called as it uses events, streams and memory of GPUs.

They are called from `torch._C._activate_gpu_trace` on. Blocks of memory come and go on any thread: the main thread tells of them soon
after.
"""

from __future__ import annotations

import logging

from rushlight import _C

from . import _observer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_logger = logging.getLogger(__name__)


class CallbackRegistry:
    """Functions for one kind of event. What one raises is logged, and the others are called.

    >>> from rushlight.cuda._gpu_trace import CallbackRegistry
    >>> registry = CallbackRegistry("example")
    >>> registry.add_callback(print)
    >>> registry.fire_callbacks(3)
    3
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.callback_list: list[Callable[..., None]] = []

    def add_callback(self, cb: Callable[..., None]) -> None:
        """Adds a function."""
        self.callback_list.append(cb)

    def fire_callbacks(self, *args: Any, **kwargs: Any) -> None:
        """Calls all functions."""
        for function in self.callback_list:
            try:
                function(*args, **kwargs)
            except Exception:
                _logger.exception("Exception in callback for %s registered with gpu trace", self.name)


EventCreationCallbacks = CallbackRegistry("CUDA event creation")
EventDeletionCallbacks = CallbackRegistry("CUDA event deletion")
EventRecordCallbacks = CallbackRegistry("CUDA event record")
EventWaitCallbacks = CallbackRegistry("CUDA event wait")
MemoryAllocationCallbacks = CallbackRegistry("CUDA memory allocation")
MemoryDeallocationCallbacks = CallbackRegistry("CUDA memory deallocation")
StreamCreationCallbacks = CallbackRegistry("CUDA stream creation")
DeviceSynchronizationCallbacks = CallbackRegistry("CUDA device synchronization")
StreamSynchronizationCallbacks = CallbackRegistry("CUDA stream synchronization")
EventSynchronizationCallbacks = CallbackRegistry("CUDA event synchronization")


def register_callback_for_event_creation(cb: Callable[[int], None]) -> None:
    """Calls a function with the handle of each new event."""
    EventCreationCallbacks.add_callback(cb)


def register_callback_for_event_deletion(cb: Callable[[int], None]) -> None:
    """Calls a function with the handle of each event that is given up."""
    EventDeletionCallbacks.add_callback(cb)


def register_callback_for_event_record(cb: Callable[[int, int], None]) -> None:
    """Calls a function with the handles of an event and of the stream whose work it marks."""
    EventRecordCallbacks.add_callback(cb)


def register_callback_for_event_wait(cb: Callable[[int, int], None]) -> None:
    """Calls a function with the handles of an event and of the stream that waits for it."""
    EventWaitCallbacks.add_callback(cb)


def register_callback_for_memory_allocation(cb: Callable[[int], None]) -> None:
    """Calls a function with the address of each new block of memory."""
    MemoryAllocationCallbacks.add_callback(cb)


def register_callback_for_memory_deallocation(cb: Callable[[int], None]) -> None:
    """Calls a function with the address of each block of memory that is given up."""
    MemoryDeallocationCallbacks.add_callback(cb)


def register_callback_for_stream_creation(cb: Callable[[int], None]) -> None:
    """Calls a function with the handle of each new stream."""
    StreamCreationCallbacks.add_callback(cb)


def register_callback_for_device_synchronization(cb: Callable[[], None]) -> None:
    """Calls a function after the host has waited for a GPU."""
    DeviceSynchronizationCallbacks.add_callback(cb)


def register_callback_for_stream_synchronization(cb: Callable[[int], None]) -> None:
    """Calls a function with the handle of a stream for which the host has waited."""
    StreamSynchronizationCallbacks.add_callback(cb)


def register_callback_for_event_synchronization(cb: Callable[[int], None]) -> None:
    """Calls a function with the handle of an event for which the host has waited."""
    EventSynchronizationCallbacks.add_callback(cb)


def _tell() -> None:
    """Tells of the blocks of memory that have come and gone."""
    for is_taken, address in _C._cuda_traced_memory():
        (MemoryAllocationCallbacks if is_taken else MemoryDeallocationCallbacks).fire_callbacks(address)


class _Tracer(_observer.Observer):
    """Calls the functions of the program, of memory before what comes later."""

    def event_created(self, event: int) -> None:
        _tell()
        EventCreationCallbacks.fire_callbacks(event)

    def event_deleted(self, event: int) -> None:
        _tell()
        EventDeletionCallbacks.fire_callbacks(event)

    def event_recorded(self, event: int, stream: int) -> None:
        _tell()
        EventRecordCallbacks.fire_callbacks(event, stream)

    def event_waited_for(self, event: int, stream: int) -> None:
        _tell()
        EventWaitCallbacks.fire_callbacks(event, stream)

    def stream_created(self, stream: int) -> None:
        _tell()
        StreamCreationCallbacks.fire_callbacks(stream)

    def stream_synchronized(self, stream: int) -> None:
        _tell()
        StreamSynchronizationCallbacks.fire_callbacks(stream)

    def event_synchronized(self, event: int) -> None:
        _tell()
        EventSynchronizationCallbacks.fire_callbacks(event)

    def device_synchronized(self) -> None:
        _tell()
        DeviceSynchronizationCallbacks.fire_callbacks()


_tracer = _Tracer()


def _activate() -> None:
    """Calls the functions from now on."""
    if _tracer not in _observer._all:
        _observer.add(_tracer)
        _C._cuda_trace_memory()
