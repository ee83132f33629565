"""`torch.Stream` and `torch.Event`, which are not of one kind of device. Those of `torch.cuda` are derived from them."""

from __future__ import annotations

from rushlight import _C
from rushlight._loading import load
from rushlight._set_module import set_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

_HOST = ("cpu", "meta")
# torch's numbers of these kinds of devices.
_KINDS = {"cpu": 0, "cuda": 1, "meta": 14}


def _kind(device: Any) -> str:
    """The kind of a device; numbers and None mean a GPU."""
    if device is None or isinstance(device, int):
        return "cuda"
    kind = _C.device(device).type
    if kind not in _KINDS:
        raise RuntimeError(f"PyTorch is not linked with support for {kind} devices")
    return kind


def _no_events(kind: str) -> NoReturn:
    raise RuntimeError(
        f"{kind} backend doesn't support events.\n  Calls on this device are synchronous: there is nothing to wait for."
    )


class Stream:
    """A queue of work on a device. The CPU has one, whose work has always run.

    Args:
        device: the device; by default the current GPU, for which a `torch.cuda.Stream` is returned.
        priority: for GPUs: a lower number means a higher priority.

    Raises:
        RuntimeError: there is no such device.

    >>> torch.Stream("cpu").query()
    True
    """

    _kind: str

    def __new__(cls, device: Any = None, *, priority: int = 0) -> Stream:
        kind = _kind(device)
        if cls is Stream and kind == "cuda":
            return load("rushlight.cuda").Stream(device, priority)
        self = super().__new__(cls)
        self._kind = kind
        return self

    @property
    def device(self) -> _C.device:
        """The device."""
        return _C.device(self._kind)

    @property
    def device_index(self) -> int:
        """The number of the device, -1 if there is only one."""
        return -1

    @property
    def device_type(self) -> int:
        """torch's number of the kind of device."""
        return _KINDS[self.device.type]

    @property
    def stream_id(self) -> int:
        """A number that identifies the stream."""
        return 0

    def query(self) -> bool:
        """Whether all work that was enqueued has run."""
        return True

    def synchronize(self) -> None:
        """Waits until all work that was enqueued has run."""

    def wait_event(self, event: Any) -> None:
        """Makes later work of the stream wait for an event. An event that was not recorded has no effect."""

    def wait_stream(self, stream: Any) -> None:
        """Makes later work of the stream wait for all work that was enqueued on another one."""
        self.wait_event(stream.record_event())

    def record_event(self, event: Any = None) -> Any:
        """Records the work that was enqueued so far in an event, by default a new one."""
        event = Event(self.device) if event is None else event
        event.record(self)
        return event

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *exception: object) -> None:
        pass

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and self.device == other.device and self.stream_id == other.stream_id

    def __hash__(self) -> int:
        return hash((self.device, self.stream_id))

    def __repr__(self) -> str:
        return (
            f"torch.Stream device_type={self.device.type}, device_index={self.device_index}, stream_id={self.stream_id}"
        )


class Event:
    """A place in a stream, for which other streams and the host can wait. Only streams of GPUs can be recorded.

    Args:
        device: the device of the stream; by default a GPU.
        enable_timing: whether `elapsed_time` can use the event.
        blocking: accepted; it has no effect.
        interprocess: events that other processes can use are not available.

    Raises:
        RuntimeError: there is no such device.

    >>> torch.Event("cpu").query()
    True
    """

    def __init__(
        self, device: Any = None, *, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False
    ) -> None:
        given = {"enable_timing": enable_timing, "blocking": blocking, "interprocess": interprocess}
        for name, value in given.items():
            if not isinstance(value, bool):
                raise TypeError(f"Event(): argument '{name}' must be bool, not {type(value).__name__}")
        self._kind = _kind(device)
        self._timed = enable_timing
        self._recorded: Any = None

    @property
    def device(self) -> _C.device | None:
        """The device."""
        return _C.device(self._kind) if self._recorded is None else self._recorded.device

    @property
    def event_id(self) -> int:
        """A number that identifies the event, 0 until it is recorded."""
        return 0 if self._recorded is None else id(self._recorded)

    def record(self, stream: Any = None) -> None:
        """Records the work that was enqueued so far on a stream, by default the current one."""
        if self._kind in _HOST:
            _no_events(self._kind)
        if self._recorded is None:
            self._recorded = load("rushlight.cuda").Event(self._timed)
        self._recorded.record(stream)

    def wait(self, stream: Any = None) -> None:
        """Makes later work of a stream wait for the event; of the current stream by default."""
        if self._recorded is not None:
            self._recorded.wait(stream)

    def query(self) -> bool:
        """Whether the recorded work has run; True if there is none."""
        return self._recorded is None or self._recorded.query()

    def synchronize(self) -> None:
        """Waits until the recorded work has run."""
        if self._recorded is not None:
            self._recorded.synchronize()

    def elapsed_time(self, end_event: Any) -> float:
        """The milliseconds from this event to a later one.

        Raises:
            ValueError: an event does not measure time, or was not recorded.
        """
        if not self._timed or not end_event._timed:
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self._recorded is None or end_event._recorded is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        return self._recorded.elapsed_time(end_event._recorded)

    def ipc_handle(self) -> bytes:
        """A handle for other processes, as in torch not available.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("torch.Event ipc is not supported yet, please open an issue if you need this!")

    def __repr__(self) -> str:
        return (
            f"torch.Event device_type={self._kind}, device_index=-1, event_flag={int(self._timed)}, "
            f"event_id={self.event_id}"
        )


set_module("rushlight", Stream, Event)
