"""The Python functions that run while a profiler records, as intervals of threads."""

from __future__ import annotations

import os
import sys
import threading
from collections import Counter

from rushlight import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import CodeType, FrameType
    from typing import Any

    #: A time with the name of a function that was running, or with the code and module of one that begins; a time alone at an end.
    _Record = tuple[int, str | CodeType | None, str | None]

__all__ = ["Frames", "Interval"]

#: More calls and returns of a thread are not recorded.
_LIMIT = 1 << 21


class Interval:
    """A call of a Python function: its name, its thread, and when it began and ended in nanoseconds of the profiler's clock.

    `id` counts the calls, `parent` is that of its caller, and `module` the number of a module among those of its class.
    """

    __slots__ = ("end", "id", "module", "name", "parent", "start", "thread")

    def __init__(self, name: str, thread: int, start: int, id: int, parent: int, module: int) -> None:
        self.name, self.thread, self.start, self.end = name, thread, start, start
        self.id, self.parent, self.module = id, parent, module


class Frames:
    """Records calls of Python functions, on this thread and on those that begin later, from `start` to `stop`."""

    def __init__(self) -> None:
        self._of_threads: list[tuple[int, list[_Record]]] = []
        self._modules: dict[tuple[int, type], str] = {}
        self._of_class: Counter[str] = Counter()
        self._is_on = False
        #: Whether a thread made more calls than are recorded.
        self.is_cut = False

    def start(self) -> None:
        """Begins with the functions that are running now."""
        from rushlight.nn import Module

        self._call = Module.__call__.__code__
        self._process = os.getpid()
        self._before, self._before_in_threads = sys.getprofile(), threading.getprofile()
        self._is_on = True
        time, thread = _C._profile_moment()
        running: list[_Record] = []
        frame: FrameType | None = sys._getframe()
        while frame is not None:
            running.append((time, _name(frame.f_code, frame.f_lineno), None))
            frame = frame.f_back
        records = running[::-1]
        self._of_threads.append((thread, records))
        threading.setprofile(self._begin)
        sys.setprofile(self._follow(records))

    def stop(self) -> None:
        if self._is_on:
            self._is_on = False
            sys.setprofile(self._before)
            threading.setprofile(self._before_in_threads)

    def _begin(self, frame: FrameType, kind: str, argument: Any) -> None:
        """The first call of a thread."""
        records: list[_Record] = []
        self._of_threads.append((_C._profile_moment()[1], records))
        follow = self._follow(records)
        sys.setprofile(follow)
        follow(frame, kind, argument)

    def _follow(self, records: list[_Record]) -> Callable[[FrameType, str, Any], None]:
        moment, call, add, process = _C._profile_moment, self._call, records.append, os.getpid

        def follow(frame: FrameType, kind: str, argument: Any) -> None:
            if kind == "call":
                code = frame.f_code
                add((moment()[0], code, self._module(frame) if code is call else None))
            elif kind == "return":
                add((moment()[0], None, None))
            else:
                return
            self.is_cut |= len(records) >= _LIMIT
            if not self._is_on or len(records) >= _LIMIT or process() != self._process:
                sys.setprofile(None)

        return follow

    def _module(self, frame: FrameType) -> str:
        """torch's name of the module whose `__call__` begins: its class, and its number among those that were called."""
        module = frame.f_locals["self"]
        key = id(module), type(module)
        found = self._modules.get(key)
        if found is None:
            kind = type(module).__name__
            found = self._modules[key] = f"nn.Module: {kind}_{self._of_class[kind]}"
            self._of_class[kind] += 1
        return found

    def intervals(self, until: int) -> Iterator[Interval]:
        """The calls, each before those that it made. Those that have not returned end at `until`; the profiler's own are left out."""
        count = 0
        for thread, records in self._of_threads:
            running: list[Interval | None] = []
            found: list[Interval] = []
            for time, what, module in records:
                if what is None:
                    # Functions that ran before a thread was followed have no beginning.
                    ended = running.pop() if running else None
                    if ended is not None:
                        ended.end = time
                    continue
                name = module or (what if isinstance(what, str) else _name(what, what.co_firstlineno))
                if not name:
                    running.append(None)
                    continue
                count += 1
                parent = next((other.id for other in reversed(running) if other is not None), -1)
                number = int(module.rpartition("_")[2]) if module else -1
                began = Interval(name, thread, time, count, parent, number)
                running.append(began)
                found.append(began)
            for open_one in running:
                if open_one is not None:
                    open_one.end = max(until, open_one.start)
            yield from found


def _name(code: CodeType, line: int) -> str:
    """``file(line): function``, where the file is told from the place in which Python finds modules; empty for the profiler's own."""
    if code.co_filename in _OWN:
        return ""
    file = code.co_filename
    if file not in _short:
        inside = (path for path in sys.path if path and file.startswith(path.rstrip(os.sep) + os.sep))
        longest = max(inside, key=len, default="")
        _short[file] = file[len(longest.rstrip(os.sep)) + 1 :] if longest else file
    return f"{_short[file]}({line}): {code.co_name}"


_short: dict[str, str] = {}
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_OWN = {
    os.path.join(_PACKAGE, *path.split("/"))
    for path in ("autograd/profiler.py", "autograd/_python_frames.py", "profiler/__init__.py")
}
