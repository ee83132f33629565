"""What is under way in a group."""

from rushlight._set_module import set_module


class Work:
    """A call that was begun. `wait` returns once it is done, and raises its error.

    The tensors of the call are in use until then.
    """

    def __init__(self, parts, finish=None, source=None, result=()):
        self._parts, self._finish, self._source, self._result = parts, finish, source, result

    def _complete(self):
        finish, self._finish = self._finish, None
        if finish is not None:
            finish()

    def wait(self, timeout=None):
        """Waits for the call, at most for `timeout` (a timedelta) if it is given. Returns True."""
        seconds = None if timeout is None else timeout.total_seconds()
        for part in self._parts:
            sender = part.wait(seconds)
            if sender is not None:
                self._sender = sender
        self._complete()
        return True

    def is_completed(self):
        """Whether the call is over, with or without success."""
        if not all(part.is_completed() for part in self._parts):
            return False
        if self.is_success():
            self._complete()
        return True

    def is_success(self):
        """Whether the call is over and has not failed."""
        return all(part.is_success() for part in self._parts)

    def exception(self):
        """The error of the call, if it has failed."""
        return next((error for error in (part.exception() for part in self._parts) if error is not None), None)

    def source_rank(self):
        """The rank whose message was received."""
        return self._source(self._sender) if self._source is not None else self._sender

    _sender = None

    def result(self):
        """The tensors that the call writes."""
        self.wait()
        return list(self._result)

    def synchronize(self):
        """The same as `wait`."""
        self.wait()

    def get_future(self):
        """A future of the tensors that the call writes. Its callbacks run when somebody waits for it."""
        from rushlight.futures import Future, _Source

        future = Future()

        def run():
            try:
                result = self.result()
            except Exception as error:
                future.set_exception(error)
            else:
                future.set_result(result)

        future._source = _Source(run, self.is_completed)
        return future


set_module("rushlight.distributed", Work)
