"""`torch.cuda.green_contexts`: parts of a GPU's multiprocessors, for work that leaves the others to other work."""

from __future__ import annotations

from typing import NoReturn

from rushlight import _C
from rushlight._set_module import set_module

from ._devices import index_of, need_driver
from ._streams import Stream, current_stream, set_stream

__all__ = ["GreenContext"]

SUPPORTED = True


def _refuse_queues() -> NoReturn:
    need_driver()
    raise RuntimeError(
        "Green Context workqueue configuration is only supported on CUDA 13.1+!\n"
        "  rushlight calls the functions of CUDA 13.0: leave workqueue_scope and workqueue_concurrency_limit out."
    )


class GreenContext:
    """A part of a GPU's multiprocessors, which `create` makes. Work on a stream of it runs on these alone.

    Raises:
        TypeError: the class is called.
    """

    _context: _C._GreenContext
    #: The stream that was current before `set_context`, and the one that is in its place.
    _outer: Stream | None
    _own: Stream | None

    def __init__(self, *args: object, **kwargs: object) -> None:
        raise TypeError("GreenContext: No constructor defined!\n  torch.cuda.GreenContext.create(num_sms=8) makes one.")

    @staticmethod
    def create(
        *,
        num_sms: int | None = None,
        workqueue_scope: str | None = None,
        workqueue_concurrency_limit: int | None = None,
        device_id: int | None = None,
    ) -> GreenContext:
        """Makes a part of a GPU.

        Args:
            num_sms: the number of multiprocessors. The driver gives parts of a certain size, and rounds up.
            workqueue_scope, workqueue_concurrency_limit: are refused: they need CUDA 13.1.
            device_id: the number of the GPU, by default the current one.

        Raises:
            RuntimeError: no number of multiprocessors is given, or the driver cannot make such a part.

        >>> if torch.cuda.is_available():
        ...     part = torch.cuda.GreenContext.create(num_sms=2)
        ...     with torch.cuda.stream(part.Stream()):
        ...         x = torch.ones(3, device="cuda")
        """
        if workqueue_scope is not None or workqueue_concurrency_limit is not None:
            _refuse_queues()
        if num_sms is None:
            raise RuntimeError(
                "At least one of num_sms or workqueue_scope must be specified\n  Give the number of multiprocessors, num_sms=8."
            )
        need_driver()
        self = object.__new__(GreenContext)
        self._context = _C._GreenContext(index_of(device_id), num_sms)
        self._outer = self._own = None
        return self

    @staticmethod
    def max_workqueue_concurrency(device_id: int | None = None) -> NoReturn:
        """Is refused: it needs CUDA 13.1.

        Raises:
            RuntimeError: always.
        """
        _refuse_queues()

    def set_context(self) -> None:
        """Makes a stream of the part current, which comes after the work of the stream that is current now.

        torch has the default stream of the part in this place, which the driver does not tell from that of the whole GPU.

        Raises:
            RuntimeError: it is current already.
        """
        if self._outer is not None:
            raise RuntimeError("the green context is current already\n  pop_context() ends this first.")
        outer, own = current_stream(self._context.device), self.Stream()
        own.wait_stream(outer)
        set_stream(own)
        self._outer, self._own = outer, own

    def pop_context(self) -> None:
        """Makes the stream current again that was current at `set_context`; it comes after the work of the part.

        Raises:
            RuntimeError: the part is not current.
        """
        outer, own = self._outer, self._own
        if outer is None or own is None or current_stream(self._context.device) != own:
            raise RuntimeError(
                "expected popped context to be the current ctx\n  The stream of set_context() is not the current one of this thread."
            )
        outer.wait_stream(own)
        set_stream(outer)
        self._outer = self._own = None

    def Stream(self) -> Stream:
        """A stream whose work runs on the multiprocessors of the part."""
        return Stream._of(self._context.stream())


set_module("rushlight.cuda.green_contexts", GreenContext)


def __dir__() -> list[str]:
    return __all__
