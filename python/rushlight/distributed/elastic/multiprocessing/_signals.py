"""The signals that end a launcher, and with it the processes that it started."""

import contextlib
import signal
import threading


class SignalException(Exception):
    """A signal ends the launcher, and is passed on to its processes.

    Args:
        msg: a text.
        sigval: the signal, which the attribute of this name has.

    >>> import signal
    >>> torch.distributed.elastic.multiprocessing.SignalException("ended", signal.SIGTERM).sigval
    <Signals.SIGTERM: 15>
    """

    def __init__(self, msg, sigval):
        super().__init__(msg)
        self.sigval = sigval


class Signals:
    """The signals that end a launcher.

    One that comes in a `held` block is raised at its end. There, an exception would leave a process that nobody ends or
    waits for, or a lock of `subprocess` that nobody releases. Only the first one is raised at once: another one comes while
    that is handled, and would keep the processes from being ended.
    """

    def __init__(self):
        self._number, self._is_held, self._is_ending = None, False, False

    def __call__(self, number, frame):
        is_first, self._number = self._number is None, self._number or number
        if is_first and not self._is_held:
            self._raise()

    def _raise(self):
        if self._number is not None and not self._is_ending:
            number = signal.Signals(self._number)
            raise SignalException(f"the launcher got {number.name}", number)

    def end(self):
        """The launcher ends anyway; signals raise nothing from now on."""
        self._is_ending = True

    @contextlib.contextmanager
    def held(self):
        """Holds signals until the end of a block. Python loses what a handler raises in some callbacks; that is raised then, too."""
        self._is_held = True
        try:
            yield
        finally:
            self._is_held = False
        self._raise()


_current: Signals | None = None


def numbers(text):
    """The signals of a list of names.

    Raises:
        ValueError: there is no such signal.
    """
    try:
        return [signal.Signals[name.strip()] for name in text.split(",") if name.strip()]
    except KeyError as error:
        raise ValueError(f"--signals-to-handle {text}: {error.args[0]} is no signal") from None


@contextlib.contextmanager
def handled(text):
    """Within the block, signals of a list of names are raised. Python has handlers in the main thread alone."""
    global _current
    found, before = numbers(text), {}
    if _current is not None or threading.current_thread() is not threading.main_thread():
        yield
        return
    _current = Signals()
    try:
        # A signal that is ignored, as SIGHUP under nohup, stays so.
        for number in found:
            if signal.getsignal(number) is not signal.SIG_IGN:
                before[number] = signal.signal(number, _current)
        yield
    finally:
        _current = None
        for number, handler in before.items():
            signal.signal(number, handler)


def held():
    """A block in which signals wait for its end."""
    here = _current is not None and threading.current_thread() is threading.main_thread()
    return _current.held() if here else contextlib.nullcontext()


def end():
    """The launcher ends anyway; signals raise nothing from now on."""
    if _current is not None:
        _current.end()
