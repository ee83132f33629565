"""Switches of recording: context managers that also decorate functions."""

from rushlight import _C


class _Mode:
    """A state of the thread that holds inside a ``with`` block or a decorated function."""

    __slots__ = ("_before",)

    def __call__(self, function):
        import functools
        import inspect

        if inspect.isclass(function):
            raise TypeError("a class cannot be decorated with a gradient mode; decorate its methods")
        if inspect.isgeneratorfunction(function):
            return self._around_generator(function)

        @functools.wraps(function)
        def wrapped(*args, **kwargs):
            with self._clone():
                return function(*args, **kwargs)

        return wrapped

    def _around_generator(self, function):
        """The mode holds while the generator runs, and not between its steps."""
        import functools

        @functools.wraps(function)
        def wrapped(*args, **kwargs):
            generator = function(*args, **kwargs)
            step, argument = generator.send, None
            while True:
                try:
                    with self._clone():
                        value = step(argument)
                except StopIteration as stop:
                    return stop.value
                try:
                    step, argument = generator.send, (yield value)
                except GeneratorExit:
                    with self._clone():
                        generator.close()
                    raise
                except BaseException as error:
                    step, argument = generator.throw, error

        return wrapped

    def _clone(self):
        return type(self)()


class _GradMode(_Mode):
    __slots__ = ()

    def __exit__(self, *exception):
        _C._set_grad_enabled(self._before)


class no_grad(_GradMode):
    """Nothing is recorded inside.

    >>> x = torch.ones(1, requires_grad=True)
    >>> with torch.no_grad():
    ...     y = x * 2
    >>> y.requires_grad
    False
    """

    __slots__ = ()

    def __new__(cls, orig_func=None):
        mode = object.__new__(cls)
        return mode if orig_func is None else mode(orig_func)

    def __enter__(self):
        self._before = _C._set_grad_enabled(False)


class enable_grad(_GradMode):
    """Recording is on inside, also within `no_grad`."""

    __slots__ = ()

    def __new__(cls, orig_func=None):
        mode = object.__new__(cls)
        return mode if orig_func is None else mode(orig_func)

    def __enter__(self):
        self._before = _C._set_grad_enabled(True)


class set_grad_enabled(_GradMode):
    """Recording on or off: at once, or inside a ``with`` block."""

    __slots__ = ("mode",)

    def __init__(self, mode):
        self.mode = mode
        self._before = _C._set_grad_enabled(mode)

    def __call__(self, function):
        _C._set_grad_enabled(self._before)
        return super().__call__(function)

    def __enter__(self):
        _C._set_grad_enabled(self.mode)

    def _clone(self):
        return set_grad_enabled(self.mode)


class inference_mode(_Mode):
    """Nothing is recorded inside, and tensors made there never take part in recording."""

    __slots__ = ("_grad_before", "mode")

    def __new__(cls, mode=True):
        made = object.__new__(cls)
        if not isinstance(mode, bool):
            made.mode = True
            return made(mode)
        made.mode = mode
        return made

    def __enter__(self):
        self._before = _C._set_inference_enabled(self.mode)
        self._grad_before = _C._set_grad_enabled(not self.mode)

    def __exit__(self, *exception):
        _C._set_grad_enabled(self._grad_before)
        _C._set_inference_enabled(self._before)

    def _clone(self):
        return inference_mode(self.mode)
