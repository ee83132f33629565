"""Streams and events of `torch.cuda`: queues of work on a GPU, and places in them."""

from __future__ import annotations

import weakref
from threading import local

from rushlight import _C, _streams
from rushlight._text import kind_of

from . import _observer
from ._devices import index_of, need_driver

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self


class _Entered(local):
    """The streams whose ``with`` blocks this thread is in."""

    def __init__(self) -> None:
        self.contexts: list[Any] = []


_entered = _Entered()


class Stream(_streams.Stream):
    """A queue of work on a GPU. Work of one stream runs in order, work of several streams may overlap.

    As a context manager it is the current stream of a ``with`` block.

    Args:
        device: the GPU, by default the current one.
        priority: a lower number means a higher priority.
        stream_id, device_index, device_type: those of an existing stream, in place of a new one.

    >>> if torch.cuda.is_available():
    ...     x = torch.ones(3, device="cuda")
    ...     stream = torch.cuda.Stream()
    ...     stream.wait_stream(torch.cuda.current_stream())
    ...     with torch.cuda.stream(stream):
    ...         y = x * 2
    ...     torch.cuda.current_stream().wait_stream(stream)
    """

    def __new__(cls, device: Any = None, priority: int = 0, **kwargs: Any) -> Stream:
        return object.__new__(cls)

    def __init__(
        self,
        device: Any = None,
        priority: int = 0,
        *,
        stream_id: int | None = None,
        device_index: int | None = None,
        device_type: int | None = None,
    ) -> None:
        need_driver()
        if stream_id is None:
            self._stream = _C._CudaStream(index_of(device), priority)
            if _observer.observer is not None:
                _observer.observer.stream_created(self.cuda_stream)
        else:
            self._stream = _C._CudaStream.external(index_of(device_index), stream_id)

    @classmethod
    def _of(cls, stream: _C._CudaStream) -> Stream:
        self = cls.__new__(cls)
        self._stream = stream
        return self

    @property
    def device(self) -> _C.device:
        """The GPU."""
        return _C.device("cuda", self._stream.device)

    @property
    def device_index(self) -> int:
        """The number of the GPU."""
        return self._stream.device

    @property
    def cuda_stream(self) -> int:
        """The driver's handle of the stream, 0 for the default one."""
        return self._stream.handle

    @property
    def native_handle(self) -> int:
        """The same as `cuda_stream`."""
        return self._stream.handle

    def is_capturing(self) -> bool:
        """Whether the work of the stream is being recorded in a graph."""
        return self._stream.is_capturing

    @property
    def stream_id(self) -> int:
        """A number that identifies the stream."""
        return self._stream.handle

    @property
    def device_type(self) -> int:
        """The number of the device type CUDA."""
        return 1

    @property
    def priority(self) -> int:
        """A lower number means a higher priority."""
        return self._stream.priority

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """The lowest and the highest priority of streams."""
        return _C._cuda_priority_range()

    def query(self) -> bool:
        """Whether all work that was enqueued has run."""
        return self._stream.query()

    def synchronize(self) -> None:
        """Waits until all work that was enqueued has run."""
        self._stream.synchronize()
        if _observer.observer is not None:
            _observer.observer.stream_synchronized(self.cuda_stream)

    def wait_event(self, event: Any) -> None:
        """Makes later work of the stream wait for an event. An event that was not recorded has no effect."""
        event.wait(self)

    def wait_stream(self, stream: Stream) -> None:
        """Makes later work of the stream wait for all work that was enqueued on another one."""
        self.wait_event(stream.record_event())

    def record_event(self, event: Event | None = None) -> Event:
        """Records the work that was enqueued so far in an event, by default a new one."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def __enter__(self) -> Self:
        from ._contexts import StreamContext

        context = StreamContext(self)
        context.__enter__()
        _entered.contexts.append(context)
        return self

    def __exit__(self, *exception: object) -> None:
        _entered.contexts.pop().__exit__(*exception)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Stream):
            return False
        return (self.device_index, self.cuda_stream) == (other.device_index, other.cuda_stream)

    def __hash__(self) -> int:
        return hash((self.device_index, self.cuda_stream))

    def __repr__(self) -> str:
        return f"<torch.cuda.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"


class ExternalStream(Stream):
    """A stream that another library has made, by the driver's handle. The library must keep it alive.

    Args:
        stream_ptr: the handle, an integer.
        device: the GPU of the stream, by default the current one.

    >>> if torch.cuda.is_available():
    ...     own = torch.cuda.Stream()
    ...     assert torch.cuda.ExternalStream(own.cuda_stream) == own
    """

    def __init__(self, stream_ptr: int, device: Any = None, **kwargs: Any) -> None:
        need_driver()
        self._stream = _C._CudaStream.external(index_of(device), stream_ptr)


class Event(_streams.Event):
    """A place in a stream, for which other streams and the host can wait.

    Args:
        enable_timing: whether `elapsed_time` can use the event.
        blocking: accepted; it has no effect.
        interprocess: whether other processes can use the event, through `ipc_handle` or `torch.multiprocessing`. Such an event cannot
            be timed.
        external: accepted; it has no effect.

    >>> if torch.cuda.is_available():
    ...     begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    ...     begin.record()
    ...     x = torch.ones(3, device="cuda") * 2
    ...     end.record()
    ...     end.synchronize()
    ...     assert begin.elapsed_time(end) >= 0
    """

    def __init__(
        self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False, external: bool = False
    ) -> None:
        self._timed, self._shared = enable_timing, interprocess
        self._event: _C._CudaEvent | None = None
        self._recorded = None

    @property
    def cuda_event(self) -> int:
        """The driver's handle of the event, 0 until it is recorded."""
        return 0 if self._event is None else self._event.handle

    @property
    def event_id(self) -> int:
        """A number that identifies the event."""
        return self.cuda_event

    @classmethod
    def from_ipc_handle(cls, device: Any, handle: bytes) -> Self:
        """The event of another process.

        Args:
            device: the GPU of the event.
            handle: what `ipc_handle` returned there.
        """
        event = cls(interprocess=True)
        event._event = _C._CudaEvent.open(index_of(device), handle)
        return event

    def _on(self, device: int) -> _C._CudaEvent:
        """The driver's event, which is made when it is first needed."""
        if self._event is None:
            self._event = _C._CudaEvent(device, self._timed, self._shared)
            if _observer.observer is not None:
                _observer.observer.event_created(self.cuda_event)
                weakref.finalize(self, _deleted, self.cuda_event).atexit = False
        return self._event

    def ipc_handle(self) -> bytes:
        """The name of the event for `from_ipc_handle` in another process, 64 bytes.

        Raises:
            AcceleratorError: the event was not made with ``interprocess=True``, or is timed.
        """
        return self._on(index_of(None)).name()

    @property
    def device(self) -> _C.device | None:
        """The GPU; None until the event is recorded."""
        return None if self._event is None else _C.device("cuda", self._event.device)

    def record(self, stream: Stream | None = None) -> None:
        """Records the work that was enqueued so far on a stream, by default the current one."""
        stream = _given(stream, "record")
        event = self._on(stream.device_index)
        if event.device != stream.device_index:
            raise RuntimeError(
                f"Event device {event.device} does not match recording stream's device {stream.device_index}."
            )
        event.record(stream._stream)
        if _observer.observer is not None:
            _observer.observer.event_recorded(self.cuda_event, stream.cuda_stream)

    def wait(self, stream: Stream | None = None) -> None:
        """Makes later work of a stream wait for the event; of the current stream by default."""
        stream = _given(stream, "wait")
        if self._event is not None:
            stream._stream.wait_event(self._event)
            if _observer.observer is not None:
                _observer.observer.event_waited_for(self.cuda_event, stream.cuda_stream)

    def query(self) -> bool:
        """Whether the recorded work has run; True if there is none."""
        return self._event is None or self._event.query()

    def synchronize(self) -> None:
        """Waits until the recorded work has run."""
        if self._event is not None:
            self._event.synchronize()
            if _observer.observer is not None:
                _observer.observer.event_synchronized(self.cuda_event)

    def elapsed_time(self, end_event: Event) -> float:
        """The milliseconds from this event to a later one."""
        if not isinstance(end_event, Event):
            raise TypeError(f"elapsed_time(): argument 'end_event' must be torch.cuda.Event, not {kind_of(end_event)}")
        if not self._timed or not end_event._timed:
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self._event is None or end_event._event is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        if not self._event.query() or not end_event._event.query():
            raise RuntimeError("Both events must be completed before calculating elapsed time.")
        return self._event.elapsed_time(end_event._event)

    def __repr__(self) -> str:
        return f"<torch.cuda.Event {'uninitialized' if self._event is None else self._event.device}>"


def _deleted(event: int) -> None:
    if _observer.observer is not None:
        _observer.observer.event_deleted(event)


def _given(stream: Any, function: str) -> Stream:
    """The stream that a function was given, by default the current one.

    Raises:
        TypeError: it is something else.
    """
    if stream is None:
        return current_stream()
    if not isinstance(stream, Stream):
        raise TypeError(f"{function}(): argument 'stream' must be torch.cuda.Stream, not {kind_of(stream)}")
    return stream


def current_stream(device: Any = None) -> Stream:
    """This thread's current stream of a GPU.

    >>> if torch.cuda.is_available():
    ...     with torch.cuda.stream(torch.cuda.Stream()):
    ...         assert torch.cuda.current_stream() != torch.cuda.default_stream()
    """
    return Stream._of(_C._cuda_current_stream(index_of(device)))


def default_stream(device: Any = None) -> Stream:
    """The stream of a GPU that is current until a program sets another one.

    >>> if torch.cuda.is_available():
    ...     assert torch.cuda.default_stream() == torch.cuda.current_stream()
    """
    return Stream._of(_C._cuda_default_stream(index_of(device)))


def set_stream(stream: Stream | None) -> None:
    """Makes a stream the current one of its GPU in this thread; None has no effect. See `stream` for a ``with`` block.

    >>> if torch.cuda.is_available():
    ...     torch.cuda.set_stream(torch.cuda.default_stream())
    """
    if stream is not None:
        _given(stream, "set_stream")._stream.set_current()


def get_stream_from_external(data_ptr: int, device: Any = None) -> Stream:
    """A stream that another library has made, by the driver's handle. See `ExternalStream`."""
    return ExternalStream(data_ptr, device)


def is_current_stream_capturing() -> bool:
    """Whether the work of the current stream is being recorded in a graph.

    >>> torch.cuda.is_current_stream_capturing()
    False
    """
    return _C._cuda_is_initialized() and current_stream()._stream.is_capturing
