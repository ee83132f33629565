"""The tensors that the work of a graph reads: whether the program still has them when the graph runs again."""

from __future__ import annotations

import weakref

from rushlight._C import Tensor
from rushlight.utils._python_dispatch import TorchDispatchMode
from rushlight.utils._tensors import tensors_in

from ._memory import memory_snapshot
from ._streams import is_current_stream_capturing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: How many tensors an error describes.
_SHOWN = 5


def _place() -> str:
    """The line of the program that is running, outside of this package."""
    import os
    import sys
    import traceback

    package = os.path.dirname(os.path.dirname(__file__)) + os.sep
    lines = [line for line in traceback.extract_stack(sys._getframe(1)) if not line.filename.startswith(package)]
    return f"{lines[-1].filename}:{lines[-1].lineno}, in {lines[-1].name}" if lines else "an unknown line"


class _Read:
    """Memory that recorded work reads and that is not the graph's own."""

    def __init__(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        self.device, self.shape, self.address = tensor.device, tuple(tensor.shape), storage.data_ptr()
        self.recorded, self.dropped = _place(), ""
        self._storage = weakref.ref(storage, self._drop)

    def _drop(self, _: object) -> None:
        self.dropped = _place()

    def is_alive(self) -> bool:
        storage = self._storage()
        return storage is not None and storage.data_ptr() == self.address

    def is_kept(self, pool: tuple[int, int]) -> bool:
        """Whether the memory is a used block of a pool, which stays where it is."""
        blocks = (
            block
            for segment in memory_snapshot(pool, include_traces=False)
            if segment["device"] == self.device.index
            for block in segment["blocks"]
        )
        return any(
            "active" in block["state"] and 0 <= self.address - block["address"] < block["size"] for block in blocks
        )

    def __str__(self) -> str:
        dropped = self.dropped or "a change of its size"
        return f"  shape {self.shape} on {self.device}: read at {self.recorded}, freed at {dropped}"


class Watch(TorchDispatchMode):
    """Sees the calls that are recorded between `begin` and `end`.

    Kernels that other libraries enqueue are not seen.
    """

    def __init__(self) -> None:
        self._read: dict[int, _Read] = {}
        # The addresses of what recorded work made.
        self._made: set[int] = set()
        self._is_active = False

    def begin(self) -> None:
        self.__enter__()
        self._is_active = True

    def end(self) -> None:
        if self._is_active:
            self._is_active = False
            self.__exit__(None, None, None)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        given, made = tensors_in((args, kwargs)), tensors_in(result)
        if any(one.is_cuda for one in (*given, *made)) and is_current_stream_capturing():
            for tensor in given:
                # Other memory of the CPU was read while the work was recorded.
                if tensor.numel() and (tensor.is_cuda or tensor.is_pinned()):
                    self._see(tensor)
            addresses = {one.untyped_storage().data_ptr() for one in made if one.is_cuda}
            self._made |= addresses - self._read.keys()
        return result

    def _see(self, tensor: Tensor) -> None:
        address = tensor.untyped_storage().data_ptr()
        if address not in self._made and address not in self._read:
            self._read[address] = _Read(tensor)

    def check(self, pool: tuple[int, int]) -> None:
        """Raises an error if memory that the work reads was freed."""
        dead = [one for one in self._read.values() if not (one.is_alive() or one.is_kept(pool))]
        if not dead:
            return
        rest = [f"  and {len(dead) - _SHOWN} more"] if len(dead) > _SHOWN else []
        lines = [*map(str, dead[:_SHOWN]), *rest]
        raise RuntimeError(
            f"CUDA graph replay detected {len(dead)} dead tensor(s).\n"
            + "\n".join(lines)
            + "\nKeep what the graph reads as long as the graph, and copy new values into it."
        )
