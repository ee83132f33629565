"""`torch.futures`: futures that are set by the program, chained and collected. `torch.jit.fork` has its own class."""

from __future__ import annotations

import threading
from typing import Any, Generic, TypeVar

from rushlight import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["Future", "collect_all", "wait_all"]

_Result = TypeVar("_Result")


class _Source:
    """Work that completes a future, on the thread that waits for it or asks whether it is done.

    Callbacks of `then` run on that thread too, in the order in which the program waits. Callbacks that make collective calls
    therefore make them in the same order on every rank.
    """

    def __init__(self, run: Callable[[], None], is_ready: Callable[[], bool]) -> None:
        self._run, self.is_ready = run, is_ready
        self._lock, self._done = threading.RLock(), False

    def complete(self) -> None:
        with self._lock:
            if not self._done:
                self._done = True
                self._run()


class Future(Generic[_Result]):
    """A value or an exception that is set once. Other threads can wait for it.

    Args:
        devices: accepted; the numbered devices of the value.

    Raises:
        ValueError: a device has no number.

    >>> future = torch.futures.Future()
    >>> chained = future.then(lambda done: done.value() + 1)
    >>> future.set_result(2)
    >>> chained.wait()
    3
    """

    def __init__(self, *, devices: Sequence[Any] | None = None) -> None:
        for device in () if devices is None else devices:
            if _C.device(device).index is None:
                raise ValueError(f"Expected devices to have indices, got {device}")
        self._complete = threading.Event()
        self._setting = threading.Lock()
        self._result: Any = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[], None]] = []
        self._source: _Source | None = None

    def done(self) -> bool:
        """Whether the value or the exception is set."""
        if self._source is not None and not self._complete.is_set() and self._source.is_ready():
            self._source.complete()
        return self._complete.is_set()

    def value(self) -> _Result:
        """The value. Raises the exception if one was set.

        Raises:
            RuntimeError: neither is set.
        """
        if not self.done():
            raise RuntimeError("value() was called on a Future that is not complete; use wait()")
        if self._error is not None:
            raise self._error
        return self._result

    def wait(self) -> _Result:
        """Waits for the value and returns it. Raises the exception if one was set."""
        if self._source is not None and not self._complete.is_set():
            self._source.complete()
        self._complete.wait()
        return self.value()

    def set_result(self, result: _Result) -> None:
        """Sets the value and runs the callbacks on this thread.

        Raises:
            RuntimeError: the future is already complete.
        """
        self._set(result, None)

    def set_exception(self, result: BaseException) -> None:
        """Sets the exception that waiting threads will get.

        Raises:
            RuntimeError: the future is already complete.
        """
        if not isinstance(result, Exception):
            raise AssertionError(f"{result} is of type {type(result)}, not an Exception.")
        self._set(None, result)

    def _set(self, result: Any, error: BaseException | None) -> None:
        with self._setting:
            if self._complete.is_set():
                raise RuntimeError(
                    "Attempting to mark a completed Future as complete again. Note that a Future can only be marked "
                    "completed once."
                )
            self._result, self._error = result, error
            self._complete.set()
            waiting, self._callbacks = self._callbacks, []
        for callback in waiting:
            callback()

    def _when_done(self, callback: Callable[[], None]) -> None:
        with self._setting:
            if not self._complete.is_set():
                self._callbacks.append(callback)
                return
        callback()

    def then(self, callback: Callable[[Future[_Result]], Any]) -> Future[Any]:
        """A future for the result of ``callback``, which is called with this future when it is complete."""
        _check_callable("then", callback)
        following: Future[Any] = Future()
        following._source = self._source

        def run() -> None:
            try:
                made = callback(self)
            except Exception as error:
                following._set(None, _failed(error))
            else:
                following.set_result(made)

        self._when_done(run)
        return following

    def add_done_callback(self, callback: Callable[[Future[_Result]], None]) -> None:
        """Calls ``callback`` with this future when it is complete. Exceptions in the callback are reported and ignored."""
        _check_callable("add_done_callback", callback)

        def run() -> None:
            try:
                callback(self)
            except Exception as error:
                from rushlight._warnings import warn

                warn(str(_failed(error)))

        self._when_done(run)
        if self._source is not None and not self._complete.is_set():
            threading.Thread(target=self._source.complete, daemon=True).start()

    def __reduce__(self) -> Any:
        raise TypeError("a Future cannot be pickled: it belongs to one process")


def _check_callable(name: str, callback: object) -> None:
    if not callable(callback):
        raise TypeError(f"{name}(): the callback must be callable, got {type(callback).__name__}")


def _failed(error: Exception) -> RuntimeError:
    failure = RuntimeError(f"Got the following error when running the callback: {type(error).__name__}: {error}")
    failure.__cause__ = error
    return failure


def _check_futures(futures: Any) -> list[Any]:
    if not isinstance(futures, (list, tuple)) or not all(isinstance(one, (Future, _C._Future)) for one in futures):
        raise TypeError("collect_all(): expected a list of futures")
    return list(futures)


def collect_all(futures: Sequence[Any]) -> Future[list[Any]]:
    """A future for a list of futures. It completes when all of them are complete; their exceptions stay in them.

    Raises:
        TypeError: an element is not a future.

    >>> later = torch.jit.fork(torch.add, torch.ones(1), 1)
    >>> [one.wait() for one in torch.futures.collect_all([later]).wait()]
    [tensor([2.])]
    """
    futures = _check_futures(futures)
    collected: Future[list[Any]] = Future()
    lock = threading.Lock()
    # One more than the number of futures: the list must not complete before all callbacks are registered.
    left = [len(futures) + 1]

    def one_done() -> None:
        with lock:
            left[0] -= 1
            last = left[0] == 0
        if last:
            collected.set_result(futures)

    sources = [one._source for one in futures if isinstance(one, Future) and one._source is not None]
    if sources:

        def complete_all() -> None:
            for source in sources:
                source.complete()

        collected._source = _Source(complete_all, lambda: all(source.is_ready() for source in sources))
    forked = [one for one in futures if isinstance(one, _C._Future)]
    if forked:
        # These futures have no callbacks, so a call waits for them.
        _C._fork(_wait_for, (forked, one_done), {})
    for one in futures:
        if isinstance(one, Future):
            one._when_done(one_done)
    one_done()
    return collected


def _wait_for(forked: list[Any], one_done: Callable[[], None]) -> None:
    for one in forked:
        try:
            one.wait()
        except Exception:
            pass  # callers of that future's `value` get the exception
        one_done()


def wait_all(futures: Sequence[Any]) -> list[Any]:
    """Waits for all futures and returns their values. Raises the first exception among them.

    Raises:
        TypeError: an element is not a future.

    >>> torch.futures.wait_all([torch.jit.fork(sum, [1, 2]), torch.jit.fork(max, [1, 2])])
    [3, 2]
    """
    return [one.wait() for one in collect_all(futures).wait()]


def __dir__() -> list[str]:
    return __all__
