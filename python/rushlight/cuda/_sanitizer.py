"""A check of programs with several streams: whether accesses to a tensor from two streams have an order.

`enable_cuda_sanitizer`, or the variable ``TORCH_CUDA_SANITIZER`` in the environment, turns it on. An operator that reads or writes a
tensor while work of another stream may still write or read it is described on the standard error, and raises
`CUDASanitizerErrors`.

Each operator has a number. Each stream knows, for each other stream, the highest number that it comes after; events carry this
knowledge from stream to stream. Of each tensor the last write and the reads since then are kept.
"""

from __future__ import annotations

import enum
import sys
import weakref
from dataclasses import dataclass, field

import rushlight as torch
from rushlight import Tensor
from rushlight.utils._python_dispatch import TorchDispatchMode
from rushlight.utils._tensors import tensors_in

from . import _observer
from ._streams import current_stream

TYPE_CHECKING = False
if TYPE_CHECKING:
    import traceback
    from collections.abc import Iterator
    from typing import Any


class AccessType(enum.Enum):
    """How an operator uses a tensor."""

    READ = enum.auto()
    WRITE = enum.auto()

    def __str__(self) -> str:
        return "reading from" if self is AccessType.READ else "writing to"


@dataclass
class Access:
    """An operator's use of a tensor."""

    type: AccessType
    #: The number of the operator.
    seq_num: int
    stream: int
    #: The operator's schema.
    operator: str
    #: The names of the arguments that are the tensor.
    aliases: list[str]
    is_output: bool
    stack_trace: traceback.StackSummary

    def _described(self) -> str:
        to = [f" argument(s) {', '.join(self.aliases)}"] if self.aliases else []
        to += [" the output"] if self.is_output else []
        lines = "".join(self.stack_trace.format())
        return f"{self.operator}\n{self.type}{', and to'.join(to)}\nWith stack trace:\n{lines}\n"


class SynchronizationError(Exception):
    """What the sanitizer has found."""


class UnsynchronizedAccessError(SynchronizationError):
    """Two uses of a tensor without an order."""

    def __init__(
        self,
        data_ptr: int,
        allocation_stack_trace: traceback.StackSummary | None,
        current_access: Access,
        previous_access: Access,
    ) -> None:
        super().__init__(data_ptr, allocation_stack_trace, current_access, previous_access)
        self.data_ptr, self.allocation_stack_trace = data_ptr, allocation_stack_trace
        self.current_access, self.previous_access = current_access, previous_access

    def __str__(self) -> str:
        current, previous, made = self.current_access, self.previous_access, self.allocation_stack_trace
        parts = [
            "============================\n",
            f"CSAN detected a possible data race on tensor with data pointer {self.data_ptr}\n",
            f"Access by stream {current.stream} during kernel:\n{current._described()}",
            f"Previous access by stream {previous.stream} during kernel:\n{previous._described()}",
        ]
        if made is None:
            parts.append("Trace for tensor allocation not found.")
        else:
            parts.append(f"Tensor was allocated with stack trace:\n{''.join(made.format())}")
        return "".join(parts)


class CUDASanitizerErrors(Exception):
    """All that the sanitizer has found in one call."""

    def __init__(self, errors: list[SynchronizationError]) -> None:
        super().__init__(errors)
        self.errors = errors

    def __str__(self) -> str:
        return f"detected {len(self.errors)} errors"


@dataclass
class TensorInfo:
    """The last uses of a tensor."""

    allocation_stack_trace: traceback.StackSummary | None
    reads: list[Access] = field(default_factory=list)
    write: Access | None = None


#: The highest number of each stream that something comes after.
_Knowledge = dict[int, int]


def _learn(own: _Knowledge, other: _Knowledge) -> None:
    for stream, number in other.items():
        own[stream] = max(own.get(stream, -1), number)


class StreamSynchronizations:
    """What each stream, each event and the host come after."""

    def __init__(self) -> None:
        self.streams: dict[int, _Knowledge] = {}
        self.events: dict[int, _Knowledge] = {}
        self.host: _Knowledge = {}

    def stream(self, stream: int) -> _Knowledge:
        """What a stream comes after; a new one comes after what the host has waited for."""
        return self.streams.setdefault(stream, {**self.host, stream: self.host.get(stream, 0)})

    def record(self, event: int, stream: int) -> None:
        """An event is recorded on a stream."""
        self.events[event] = dict(self.stream(stream))

    def wait(self, event: int, stream: int) -> None:
        """A stream waits for an event."""
        _learn(self.stream(stream), self.events.get(event, {}))

    def wait_on_host(self, knowledge: _Knowledge) -> None:
        """The host waits, so that all that it enqueues later comes after."""
        for own in (self.host, *self.streams.values()):
            _learn(own, dict(knowledge))

    def is_ordered_after(self, stream: int, number: int, other: int) -> bool:
        """Whether what a stream does next comes after an operator of another one."""
        return number <= self.stream(stream).get(other, -1)


def _stack() -> traceback.StackSummary:
    """The lines of the program that are running, outside of this package."""
    import os
    import traceback

    package = os.path.dirname(os.path.dirname(__file__)) + os.sep
    frames = traceback.extract_stack(sys._getframe(1), limit=None)
    return traceback.StackSummary.from_list([frame for frame in frames if not frame.filename.startswith(package)])


class EventHandler(_observer.Observer):
    """Follows streams, events and tensors, and finds uses without an order."""

    def __init__(self) -> None:
        self.syncs = StreamSynchronizations()
        self.tensors: dict[int, TensorInfo] = {}
        self.seq_num = 0
        #: The tensors in each memory, and what notices that it is given up.
        self._inside: dict[int, set[int]] = {}
        self._memories: dict[int, weakref.ref[Any]] = {}

    def event_created(self, event: int) -> None:
        """An event of the driver is made."""
        self.syncs.events[event] = {}

    def event_recorded(self, event: int, stream: int) -> None:
        """An event is recorded on a stream."""
        self.syncs.record(event, stream)

    def event_waited_for(self, event: int, stream: int) -> None:
        """A stream waits for an event."""
        self.syncs.wait(event, stream)

    def event_synchronized(self, event: int) -> None:
        """The host waits for an event."""
        self.syncs.wait_on_host(self.syncs.events.get(event, {}))

    def stream_synchronized(self, stream: int) -> None:
        """The host waits for a stream."""
        self.syncs.wait_on_host(self.syncs.stream(stream))

    def device_synchronized(self) -> None:
        """The host waits for everything."""
        for own in [dict(own) for own in self.syncs.streams.values()]:
            self.syncs.wait_on_host(own)

    def follow(self, tensor: Tensor, made: traceback.StackSummary | None) -> int:
        """The number of a tensor, whose memory is forgotten when the program gives it up."""
        storage = tensor.untyped_storage()
        address = storage.data_ptr()
        pointer = tensor.data_ptr() or id(tensor)
        if address not in self._memories:
            self._memories[address] = weakref.ref(storage, lambda _: self._forget(address))
            self._inside[address] = set()
        self._inside[address].add(pointer)
        self.tensors.setdefault(pointer, TensorInfo(made))
        return pointer

    def _forget(self, address: int) -> None:
        self._memories.pop(address, None)
        for pointer in self._inside.pop(address, ()):
            self.tensors.pop(pointer, None)

    def launch(self, stream: int, operator: str, uses: dict[int, _Use]) -> list[SynchronizationError]:
        """An operator is enqueued on a stream: the uses of its tensors that have no order."""
        self.seq_num += 1
        self.syncs.stream(stream)[stream] = self.seq_num
        lines = _stack()
        errors: list[SynchronizationError] = []
        for pointer, use in uses.items():
            if use.type is None:
                continue
            # The call may have given the memory up.
            info = self.tensors.get(pointer)
            if info is None:
                continue
            access = Access(use.type, self.seq_num, stream, operator, use.names, use.is_output, lines)
            if use.type is AccessType.READ:
                before = [info.write]
                info.reads.append(access)
            else:
                before = [*info.reads] or [info.write]
                info.reads, info.write = [], access
            errors += [
                UnsynchronizedAccessError(pointer, info.allocation_stack_trace, access, other)
                for other in before
                if other is not None and not self.syncs.is_ordered_after(stream, other.seq_num, other.stream)
            ]
        return errors


@dataclass
class _Use:
    """How an operator uses a tensor; not at all if it only makes a view of it or takes its shape."""

    type: AccessType | None = None
    names: list[str] = field(default_factory=list)
    is_output: bool = False


def _arguments(schema: Any, args: Any, kwargs: Any) -> Iterator[tuple[Any, Any]]:
    """The arguments of a call with their descriptions."""
    yield from zip(schema.arguments, args, strict=False)
    for argument in schema.arguments[len(args) :]:
        if argument.name in kwargs:
            yield argument, kwargs[argument.name]


class CUDASanitizerDispatchMode(TorchDispatchMode):
    """Shows each operator to an `EventHandler`."""

    def __init__(self) -> None:
        super().__init__()
        self.event_handler = EventHandler()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        schema = func._schema
        name = schema.name.removeprefix("aten::")
        if name == "record_stream":
            return func(*args, **kwargs)
        # These take nothing of their tensor but its shape.
        is_factory = name.startswith("new_") or name.endswith("_like")
        uses: dict[int, _Use] = {}

        def note(value: Any, alias: Any, label: str | None, made: traceback.StackSummary | None) -> None:
            is_write = alias.is_write if alias is not None else label is None
            for tensor in tensors_in(value):
                # Sparse tensors have no memory of their own.
                if tensor.is_cuda and tensor.layout == torch.strided:
                    use = uses.setdefault(self.event_handler.follow(tensor, made), _Use())
                    if is_write and not (label is None and is_factory):
                        use.type = AccessType.WRITE
                    elif alias is None and not is_factory and use.type is None:
                        use.type = AccessType.READ
                    use.names += [] if label is None else [label]
                    use.is_output = use.is_output or label is None

        for argument, value in _arguments(schema, args, kwargs):
            note(value, argument.alias_info, argument.name, None)
        result = func(*args, **kwargs)
        results = result if len(schema.returns) > 1 else (result,)
        made = _stack()
        for returned, value in zip(schema.returns, results, strict=False):
            note(value, returned.alias_info, None, made)
        if not uses:
            return result
        stream = current_stream().cuda_stream
        errors = self.event_handler.launch(stream, str(schema), uses)
        given = {argument.name: value for argument, value in _arguments(schema, args, kwargs)}
        on_host = isinstance(result, (bool, int, float, complex)) or not all(one.is_cuda for one in tensors_in(result))
        if on_host and not given.get("non_blocking"):
            # The host has waited for a result of its own.
            self.event_handler.stream_synchronized(stream)
        if errors:
            for error in errors:
                print(error, file=sys.stderr)
            raise CUDASanitizerErrors(errors)
        return result


class CUDASanitizer:
    """Turns the check on and off."""

    def __init__(self) -> None:
        self.dispatch = CUDASanitizerDispatchMode()
        self.enabled = False

    def enable(self) -> None:
        """Checks what this thread does from now on."""
        if self.enabled:
            return
        self.dispatch.__enter__()
        _observer.add(self.dispatch.event_handler)
        self.enabled = True

    def disable(self) -> None:
        """Ends the check."""
        if not self.enabled:
            return
        self.dispatch.__exit__(None, None, None)
        _observer.remove(self.dispatch.event_handler)
        self.enabled = False


def enable_cuda_sanitizer() -> None:
    """Checks all operators of this thread from now on; best called at the beginning of a program.

    What a kernel of the program does, and what runs in other threads, is not seen.
    """
    cuda_sanitizer.enable()


cuda_sanitizer = CUDASanitizer()
