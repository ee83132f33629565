"""Parallel calls (`fork`, `wait`), and TorchScript's decorators, which have no effect.

`fork` runs the call on another thread. Kernels release the GIL, so that long calls overlap. Programs run eagerly and
are not compiled, so that `script` and `trace` return their argument and accept any Python code.
"""

import atexit
import operator
import sys

from rushlight import _C
from rushlight._C import _Future as Future
from rushlight._unsupported import declare
from rushlight._warnings import warn
from rushlight.jit import annotations as annotations
from rushlight.jit._state import _enabled as _enabled

__all__ = [
    *declare(
        globals(),
        "programs run eagerly, and files of compiled ones are neither written nor read",
        """
        class CompilationUnit ScriptFunction
        export_opnames load save
        """,
    ),
    "Attribute",
    "Error",
    "Final",
    "Future",
    "ScriptModule",
    "TracerWarning",
    "annotate",
    "enable_onednn_fusion",
    "export",
    "fork",
    "freeze",
    "ignore",
    "interface",
    "is_scripting",
    "is_tracing",
    "isinstance",
    "onednn_fusion_enabled",
    "optimize_for_inference",
    "script",
    "script_if_tracing",
    "script_method",
    "set_fusion_strategy",
    "strict_fusion",
    "trace",
    "trace_module",
    "unused",
    "wait",
]

#: How long the interpreter waits, when it exits, for calls that still run.
_PATIENCE = 30.0


def _close():
    """Waits for the calls that run. Those that do not return end with the process."""
    if not _C._close(_PATIENCE):
        print(
            f"jit.fork: calls still run {_PATIENCE:g} seconds after the end of the program, and end with the process",
            file=sys.stderr,
        )


atexit.register(_close)


def fork(func, *args, **kwargs):
    """Calls `func(*args, **kwargs)` on another thread and immediately returns its `Future`.

    `func` may be a function, a method or a module. The call records gradients if the caller does. It may call `fork`
    and `wait` itself; nested waits cannot deadlock.

    >>> future = torch.jit.fork(torch.add, torch.ones(2), 1)
    >>> torch.jit.wait(future)
    tensor([2., 2.])
    """
    if not callable(func):
        raise TypeError(f"fork expects something to call, got {type(func).__name__}")
    return _C._fork(func, args, kwargs)


def wait(future):
    """Waits for a forked call and returns its value. Raises the exception of the call.

    >>> torch.jit.wait(torch.jit.fork(sum, [1, 2, 3]))
    6
    """
    if type(future) is not Future:
        from rushlight import futures

        if not _builtin_isinstance(future, futures.Future):
            raise TypeError(f"wait expects a torch.jit.Future, got {type(future).__name__}")
    return future.wait()


def script(obj, optimize=None, _frames_up=0, _rcb=None, example_inputs=None):
    """Returns ``obj``, a function, class or module, which runs eagerly. The other arguments are accepted.

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
    """Returns ``func`` after calling it once with the example inputs, so that errors appear as early as in a trace.

    Args:
        func: a function or a module.
        example_inputs: a tensor, or a tuple of arguments.
        example_kwarg_inputs: keyword arguments.
        optimize, check_trace, check_inputs, check_tolerance, strict: accepted; they have no effect.

    >>> torch.jit.trace(torch.nn.ReLU(), torch.tensor([-1.0]))(torch.tensor([-2.0, 2.0]))
    tensor([0., 2.])
    """
    if example_inputs is not None or example_kwarg_inputs is not None:
        examples = (example_inputs,) if _builtin_isinstance(example_inputs, _C.Tensor) else tuple(example_inputs or ())
        func(*examples, **(example_kwarg_inputs or {}))
    return func


def trace_module(mod, inputs, optimize=None, check_trace=True, check_inputs=None, check_tolerance=1e-5, strict=True):
    """Returns the module after calling each named method once with its example inputs.

    >>> linear = torch.nn.Linear(2, 1)
    >>> torch.jit.trace_module(linear, {"forward": torch.zeros(1, 2)})(torch.zeros(3, 2)).shape
    torch.Size([3, 1])
    """
    for name, example in inputs.items():
        examples = (example,) if _builtin_isinstance(example, _C.Tensor) else tuple(example)
        getattr(mod, name)(*examples)
    return mod


def _as_it_is(obj):
    """Returns its argument. Used for `export`, `interface`, `script_method` and `script_if_tracing`.

    >>> @torch.jit.export
    ... def double(x):
    ...     return x * 2
    >>> double(2)
    4
    """
    return obj


class Error(Exception):
    """The error of a compiled program. It is never raised, because nothing is compiled.

    >>> issubclass(torch.jit.Error, Exception)
    True
    """


# Its name at the top level of torch.
JITException = Error

_settings = {"strategy": [("STATIC", 2), ("DYNAMIC", 10)], "onednn": False}


def set_fusion_strategy(strategy):
    """Sets how a compiler would fuse operators, and returns the former setting. It has no effect.

    Args:
        strategy: pairs of ``"STATIC"`` or ``"DYNAMIC"`` and a number.

    >>> torch.jit.set_fusion_strategy([("STATIC", 2), ("DYNAMIC", 10)])
    [('STATIC', 2), ('DYNAMIC', 10)]
    """
    pairs = [(kind, operator.index(depth)) for kind, depth in strategy]
    for kind, _ in pairs:
        if kind not in ("STATIC", "DYNAMIC"):
            raise ValueError(f"FusionBehavior only supported 'STATIC' or 'DYNAMIC', got: {kind}")
    before, _settings["strategy"] = _settings["strategy"], pairs
    return before


def enable_onednn_fusion(enabled):
    """Sets whether a compiler would use oneDNN. It has no effect.

    >>> torch.jit.enable_onednn_fusion(False)
    """
    _settings["onednn"] = bool(enabled)


def onednn_fusion_enabled():
    """The setting of `enable_onednn_fusion`.

    >>> torch.jit.onednn_fusion_enabled()
    False
    """
    return _settings["onednn"]


class strict_fusion:
    """A context manager inside of which a compiled program would have to be fused. It only gives a warning, as in torch.

    >>> import warnings
    >>> with warnings.catch_warnings(action="ignore"), torch.jit.strict_fusion():
    ...     torch.ones(1)
    tensor([1.])
    """

    def __init__(self):
        warn("Only works in script mode")

    def __enter__(self):
        pass

    def __exit__(self, kind, value, traceback):
        pass


script_method = script_if_tracing = _script_if_tracing = export = interface = _overload = _overload_method = _as_it_is


class TracerWarning(Warning):
    """A warning of the tracer about values that a trace would not see. It is never given, because nothing is traced.

    >>> issubclass(torch.jit.TracerWarning, Warning)
    True
    """


def ignore(drop=False, **kwargs):
    """Marks a method that a compiler would not compile. It has no effect.

    >>> @torch.jit.ignore
    ... def double(x):
    ...     return x * 2
    >>> double(2)
    4
    """
    return drop if callable(drop) else _as_it_is


def unused(fn):
    """Marks a method that a compiler would replace by an error. It has no effect.

    >>> @torch.jit.unused
    ... def double(x):
    ...     return x * 2
    >>> double(2)
    4
    """
    return fn


def freeze(mod, preserved_attrs=None, optimize_numerics=True):
    """Returns a module in evaluation mode unchanged.

    Raises:
        RuntimeError: the module is in training mode.

    >>> torch.jit.freeze(torch.jit.script(torch.nn.ReLU().eval()))(torch.tensor([-1.0]))
    tensor([0.])
    """
    if mod.training:
        raise RuntimeError(
            "Freezing is currently only implemented for modules in eval mode. Please call .eval() on your module before freezing."
        )
    return mod


def optimize_for_inference(mod, other_methods=None):
    """Returns the module unchanged.

    >>> torch.jit.optimize_for_inference(torch.jit.script(torch.nn.ReLU().eval()))(torch.tensor([-1.0]))
    tensor([0.])
    """
    return mod


def is_scripting():
    """Whether the calling code is being compiled: always False.

    >>> torch.jit.is_scripting()
    False
    """
    return False


def is_tracing():
    """Whether the calling code is being traced: always False.

    >>> torch.jit.is_tracing()
    False
    """
    return False


def annotate(the_type, the_value):
    """Returns ``the_value``. The type is documentation only.

    >>> from typing import List
    >>> torch.jit.annotate(List[int], [])
    []
    """
    return the_value


_builtin_isinstance = isinstance


def isinstance(obj, target_type):
    """`isinstance` that also accepts types such as ``List[int]``, without checking the elements.

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
    if name == "_get_trace_graph":
        from ._trace_graph import _get_trace_graph

        return _get_trace_graph
    if name == "ScriptModule":
        from ._script_module import ScriptModule

        globals()[name] = ScriptModule
        return ScriptModule
    from rushlight._missing_names import missing_from

    raise missing_from("torch.jit", name, lambda: __all__)


def __dir__() -> list[str]:
    return __all__
