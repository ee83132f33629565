"""Calls that run side by side, and the decorators of TorchScript for programs that carry them.

`fork` really runs the call on another thread: kernels release the interpreter's lock, so long calls overlap. Programs run
eagerly and need no compiler, so `script` and `trace` give back what they are given: any valid Python is accepted.
"""

import atexit

from rushlight import _C
from rushlight._C import _Future as Future

__all__ = [
    "Attribute",
    "Final",
    "Future",
    "ScriptModule",
    "annotate",
    "export",
    "fork",
    "freeze",
    "ignore",
    "interface",
    "is_scripting",
    "is_tracing",
    "isinstance",
    "optimize_for_inference",
    "script",
    "script_if_tracing",
    "script_method",
    "trace",
    "trace_module",
    "unused",
    "wait",
]

# A thread that is in the middle of a call must not outlive the interpreter.
atexit.register(_C._close)


def fork(func, *args, **kwargs):
    """Calls `func(*args, **kwargs)` on another thread and returns its `Future` at once.

    `func` may be a function, a method or a module. The call records gradients if the caller does, and may fork and wait
    itself; no number of nested waits can starve.

    >>> future = torch.jit.fork(torch.add, torch.ones(2), 1)
    >>> torch.jit.wait(future)
    tensor([2., 2.])
    """
    if not callable(func):
        raise TypeError(f"fork expects something to call, got {type(func).__name__}")
    return _C._fork(func, args, kwargs)


def wait(future):
    """The value of a forked call, as soon as there is one; raises what the call raised.

    >>> torch.jit.wait(torch.jit.fork(sum, [1, 2, 3]))
    6
    """
    if type(future) is not Future:
        from rushlight import futures

        if not _builtin_isinstance(future, futures.Future):
            raise TypeError(f"wait expects a torch.jit.Future, got {type(future).__name__}")
    return future.wait()


def script(obj, optimize=None, _frames_up=0, _rcb=None, example_inputs=None):
    """Gives ``obj`` back, a function, class or module: it runs eagerly. The other arguments are accepted.

    >>> @torch.jit.script
    ... def double(x):
    ...     return x * 2
    >>> double(torch.tensor(2))
    tensor(4)
    """
    return obj


def trace(
    func,
    example_inputs=None,
    optimize=None,
    check_trace=True,
    check_inputs=None,
    check_tolerance=1e-5,
    strict=True,
    *,
    example_kwarg_inputs=None,
):
    """Gives ``func`` back after one call with the examples, which shows mistakes as early as a trace would.

    Args:
        func: a function or a module.
        example_inputs: a tensor, or the arguments of one call.
        example_kwarg_inputs: its arguments by name.
        optimize, check_trace, check_inputs, check_tolerance, strict: accepted; there is nothing to check.

    >>> torch.jit.trace(torch.nn.ReLU(), torch.tensor([-1.0]))(torch.tensor([-2.0, 2.0]))
    tensor([0., 2.])
    """
    if example_inputs is not None or example_kwarg_inputs is not None:
        examples = (example_inputs,) if _builtin_isinstance(example_inputs, _C.Tensor) else tuple(example_inputs or ())
        func(*examples, **(example_kwarg_inputs or {}))
    return func


def trace_module(mod, inputs, optimize=None, check_trace=True, check_inputs=None, check_tolerance=1e-5, strict=True):
    """Gives the module back after one call of each named method with its examples.

    >>> linear = torch.nn.Linear(2, 1)
    >>> torch.jit.trace_module(linear, {"forward": torch.zeros(1, 2)})(torch.zeros(3, 2)).shape
    torch.Size([3, 1])
    """
    for name, example in inputs.items():
        examples = (example,) if _builtin_isinstance(example, _C.Tensor) else tuple(example)
        getattr(mod, name)(*examples)
    return mod


def _as_it_is(obj):
    """Gives back what it decorates: `export`, `interface`, `script_method` and `script_if_tracing`.

    >>> @torch.jit.export
    ... def double(x):
    ...     return x * 2
    >>> double(2)
    4
    """
    return obj


script_method = script_if_tracing = export = interface = _as_it_is


def ignore(drop=False, **kwargs):
    """Marks a method that a compiler would leave alone; here all are.

    >>> @torch.jit.ignore
    ... def double(x):
    ...     return x * 2
    >>> double(2)
    4
    """
    return drop if callable(drop) else _as_it_is


def unused(fn):
    """Marks a method that a compiler would replace by an error; here it runs.

    >>> @torch.jit.unused
    ... def double(x):
    ...     return x * 2
    >>> double(2)
    4
    """
    return fn


def freeze(mod, preserved_attrs=None, optimize_numerics=True):
    """Gives a module in evaluation mode back.

    Raises:
        RuntimeError: the module is in training.

    >>> torch.jit.freeze(torch.jit.script(torch.nn.ReLU().eval()))(torch.tensor([-1.0]))
    tensor([0.])
    """
    if mod.training:
        raise RuntimeError(
            "Freezing is currently only implemented for modules in eval mode. Please call .eval() on your module before freezing."
        )
    return mod


def optimize_for_inference(mod, other_methods=None):
    """Gives the module back.

    >>> torch.jit.optimize_for_inference(torch.jit.script(torch.nn.ReLU().eval()))(torch.tensor([-1.0]))
    tensor([0.])
    """
    return mod


def is_scripting():
    """Whether the calling code is being compiled: never.

    >>> torch.jit.is_scripting()
    False
    """
    return False


def is_tracing():
    """Whether the calling code is being traced: never.

    >>> torch.jit.is_tracing()
    False
    """
    return False


def annotate(the_type, the_value):
    """``the_value``, whose type is written down for readers.

    >>> from typing import List
    >>> torch.jit.annotate(List[int], [])
    []
    """
    return the_value


_builtin_isinstance = isinstance


def isinstance(obj, target_type):
    """`isinstance`, which also takes types such as ``List[int]``, whose elements it does not look at.

    >>> from typing import List
    >>> torch.jit.isinstance([1], List[int])
    True
    """
    from typing import get_origin

    kinds = target_type if _builtin_isinstance(target_type, tuple) else (target_type,)
    return _builtin_isinstance(obj, tuple(get_origin(kind) or kind for kind in kinds))


class Attribute:
    """A value with the type that a compiler would give it.

    >>> torch.jit.Attribute(3, int).value
    3
    """

    __slots__ = ("type", "value")

    def __init__(self, value, type):
        self.value, self.type = value, type


def __getattr__(name):
    if name == "Final":
        from typing import Final

        return Final
    if name == "ScriptModule":
        from rushlight.nn import Module

        return Module
    from rushlight._names import missing_from

    raise missing_from("torch.jit", name, lambda: __all__)


def __dir__() -> list[str]:
    return __all__
