"""Automatic differentiation: backward passes, custom functions, checks of gradients."""

from __future__ import annotations

from operator import index
from threading import local

from rushlight import _C
from rushlight._C import _queue_callback as _queue_callback
from rushlight._overridable import call_override, mark_overridable
from rushlight._text import with_shapes
from rushlight._warnings import warn
from rushlight.autograd.function import Function

# Imported here, because otherwise importing the module of the same name would replace the function.
from rushlight.autograd.gradcheck import gradcheck, gradgradcheck

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, TypeAlias

    from rushlight import Tensor
    from rushlight import enable_grad as enable_grad
    from rushlight import inference_mode as inference_mode
    from rushlight import no_grad as no_grad
    from rushlight import set_grad_enabled as set_grad_enabled
    from rushlight._C import SavedTensor as SavedTensor
    from rushlight.autograd import forward_ad as forward_ad
    from rushlight.autograd import function as function
    from rushlight.autograd import functional as functional
    from rushlight.autograd import grad_mode as grad_mode
    from rushlight.autograd import graph as graph
    from rushlight.autograd import profiler as profiler
    from rushlight.autograd import profiler_util as profiler_util
    from rushlight.autograd.anomaly_mode import detect_anomaly as detect_anomaly
    from rushlight.autograd.anomaly_mode import set_detect_anomaly as set_detect_anomaly
    from rushlight.autograd.grad_mode import enforce_grad_layout_policy as enforce_grad_layout_policy
    from rushlight.autograd.grad_mode import is_multithreading_enabled as is_multithreading_enabled
    from rushlight.autograd.grad_mode import set_multithreading_enabled as set_multithreading_enabled
    from rushlight.autograd.variable import Variable as Variable

    _Tensors: TypeAlias = Tensor | graph.GradientEdge | Iterable[Tensor | graph.GradientEdge]
    _Gradients: TypeAlias = Tensor | Iterable[Tensor | None] | None

__all__ = [
    "Function",
    "SavedTensor",
    "Variable",
    "backward",
    "enable_grad",
    "detect_anomaly",
    "enforce_grad_layout_policy",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "inference_mode",
    "no_grad",
    "set_detect_anomaly",
    "set_grad_enabled",
    "set_multithreading_enabled",
]

_LAZY = {
    "DeviceType": ("rushlight.profiler._names", "DeviceType"),
    "_profiler_enabled": ("rushlight.autograd.profiler", "_profiler_enabled"),
    "SavedTensor": ("rushlight._C", "SavedTensor"),
    "Variable": ("rushlight.autograd.variable", "Variable"),
    "detect_anomaly": ("rushlight.autograd.anomaly_mode", "detect_anomaly"),
    "set_detect_anomaly": ("rushlight.autograd.anomaly_mode", "set_detect_anomaly"),
    "no_grad": ("rushlight", "no_grad"),
    "enable_grad": ("rushlight", "enable_grad"),
    "set_grad_enabled": ("rushlight", "set_grad_enabled"),
    "inference_mode": ("rushlight", "inference_mode"),
    "is_multithreading_enabled": ("rushlight.autograd.grad_mode", "is_multithreading_enabled"),
    "set_multithreading_enabled": ("rushlight.autograd.grad_mode", "set_multithreading_enabled"),
    "enforce_grad_layout_policy": ("rushlight.autograd.grad_mode", "enforce_grad_layout_policy"),
    "anomaly_mode": ("rushlight.autograd.anomaly_mode", None),
    "grad_mode": ("rushlight.autograd.grad_mode", None),
    "graph": ("rushlight.autograd.graph", None),
    "profiler": ("rushlight.autograd.profiler", None),
    "profiler_util": ("rushlight.autograd.profiler_util", None),
    "forward_ad": ("rushlight.autograd.forward_ad", None),
    "function": ("rushlight.autograd.function", None),
    "functional": ("rushlight.autograd.functional", None),
}


if not TYPE_CHECKING:

    def __getattr__(name):
        from rushlight._loading import load

        if name not in _LAZY:
            from rushlight._missing_names import missing_from

            raise missing_from("torch.autograd", name, lambda: [*__all__, *_LAZY])
        module, attribute = _LAZY[name]
        found = load(module)
        value = found if attribute is None else getattr(found, attribute)
        globals()[name] = value
        return value


def _sequence(value: Any) -> tuple[Any, ...]:
    """A tensor by itself, or the items of any other iterable (a list, a generator, the values of a dict)."""
    return (value,) if isinstance(value, _C.Tensor) else tuple(value)


def _is_edge(value: Any) -> bool:
    return isinstance(value, tuple) and hasattr(value, "output_nr")


def _places(value: Any) -> tuple[Any, ...]:
    """The tensors at which a backward pass begins or ends. An edge of the graph is replaced by a tensor for it."""
    several = (value,) if _is_edge(value) else _sequence(value)
    return tuple(x.node._result(x.output_nr) if _is_edge(x) else x for x in several)


def _inputs(value: Any) -> tuple[Any, ...]:
    places = _places(value)
    for place in places:
        if not isinstance(place, _C.Tensor):
            raise RuntimeError(f"all inputs have to be Tensors or GradientEdges, but got {type(place).__name__}")
    return places


def _flag(value: Any) -> bool:
    """A switch of a backward pass, for which torch takes whole numbers too (``retain_graph=1``)."""
    return value if type(value) is bool else bool(index(value))


def _weights(outputs: tuple[Any, ...], grads: Any) -> tuple[Any, ...]:
    """The initial gradients, one per output. The engine checks their shapes and dtypes."""
    if grads is None:
        for output in outputs:
            if not isinstance(output, _C.Tensor):
                raise AssertionError("Expected output to be a torch.Tensor")
        return _ones(outputs) if _C._overridden(outputs) else (None,) * len(outputs)
    grads = _sequence(grads)
    if len(grads) != len(outputs):
        raise RuntimeError(f"got {len(outputs)} tensors and {len(grads)} gradients")
    for grad in grads:
        if grad is not None and not isinstance(grad, _C.Tensor):
            raise TypeError(f"gradients can be either Tensors or None, but got {type(grad).__name__}")
    return grads


def _ones(outputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The gradients of numbers, made by an operator that a mode sees. The engine makes them where there is none."""
    from rushlight import ones_like

    return tuple(
        ones_like(x) if x.numel() == 1 and x.is_floating_point() and x.requires_grad else None for x in outputs
    )


def _batches(outputs: tuple[Any, ...], grads: Any) -> tuple[Any, ...]:
    """The initial gradients as batches of the same size."""
    batches = _weights(outputs, grads)
    for place, (output, batch) in enumerate(zip(outputs, batches)):
        if batch is None and not _is_edge(output) and output.numel() != 1:
            raise RuntimeError("grad can be implicitly created only for scalar outputs")
        if batch is not None and not _is_edge(output) and batch.shape[1:] != output.shape:
            raise RuntimeError(
                "If `is_grads_batched=True`, we interpret the first dimension of each grad_output as the batch dimension. "
                "The sizes of the remaining dimensions are expected to match the shape of corresponding output, but a "
                f"mismatch was detected: grad_output[{place}] has a shape of {batch.shape[1:]} and output[{place}] has a "
                f"shape of {output.shape}. If you only want some tensors in `grad_output` to be considered batched, consider "
                "using vmap."
            )
        if batch is None or batch.dim() == 0:
            raise ValueError(
                "vmap(vjp, in_dims=0, ...)(<inputs>): Got in_dim=0 for some input, but that input is a Tensor of "
                "dimensionality 0 so expected in_dim to satisfy 0 <= in_dim < 0."
            )
    sizes = [batch.size(0) for batch in batches]
    if len(set(sizes)) > 1:
        sentence = (
            "vmap: Expected all tensors to have the same size in the mapped dimension, "
            f"got sizes {sizes} for the mapped dimension"
        )
        raise ValueError(with_shapes(sentence, "vmap", *(batch.shape for batch in batches)))
    return batches


class _Selective(local):
    """How many passes of this thread compute the gradients of given inputs only. A reentrant checkpoint cannot be part of
    them, because its own backward pass accumulates the gradients of all leaves."""

    depth = 0


_selective = _Selective()


def backward(
    tensors: _Tensors,
    grad_tensors: _Gradients = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: _Gradients = None,
    inputs: _Tensors | None = None,
) -> None:
    """Adds the gradients of `tensors` to the `.grad` of the leaves that they depend on.

    `grad_tensors` are the vectors of the vector-Jacobian products, with the shapes of `tensors`. They can be omitted
    for tensors with one element. The graph is freed unless `retain_graph`, and the backward pass itself is recorded if
    `create_graph`. With `inputs`, only their gradients are accumulated.

    Raises:
        RuntimeError: a tensor with several elements has no gradient, a gradient has the wrong shape, a tensor does not
            require gradients, the graph was freed, a saved tensor was changed, or `inputs` is empty.
        TypeError: a gradient is not a tensor.

    >>> x = torch.tensor([1., 2.], requires_grad=True)
    >>> torch.autograd.backward((x * x).sum())
    >>> x.grad
    tensor([2., 4.])
    """
    if _C._overridden((tensors, grad_tensors)):
        options = {"retain_graph": retain_graph, "create_graph": create_graph, "inputs": inputs}
        return call_override(backward, (tensors, grad_tensors), options)
    return _run_backward(tensors, grad_tensors, retain_graph, create_graph, grad_variables, inputs)


def _run_backward(
    tensors: _Tensors,
    grad_tensors: _Gradients = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: _Gradients = None,
    inputs: _Tensors | None = None,
) -> None:
    if grad_variables is not None:
        warn("`grad_variables` is deprecated. Use `grad_tensors` instead.", FutureWarning)
        if grad_tensors is not None:
            raise RuntimeError(
                "`grad_tensors` and `grad_variables` (deprecated) arguments both passed to `backward()`. Please only use `grad_tensors`."
            )
        grad_tensors = grad_variables
    if inputs is not None:
        inputs = _inputs(inputs)
    keep = _flag(create_graph if retain_graph is None else retain_graph)
    create_graph = _flag(create_graph)
    if create_graph:
        warn(
            "Using backward() with create_graph=True will create a reference cycle between the parameter and its gradient which can cause a memory leak. We recommend using autograd.grad when creating the graph to avoid this. If you have to use this function, make sure to reset the .grad fields of your parameters to None after use to break the cycle and avoid the leak.",
        )
    if _C._vmap_levels() or _C._transforms():
        raise RuntimeError(
            "backward() called inside a functorch transform. This is not supported, please use functorch.grad or functorch.vjp "
            "instead or call backward() outside of functorch transforms."
        )
    outputs = _places(tensors)
    weights = _weights(outputs, grad_tensors)
    if inputs is None:
        _C._backward(outputs, weights, keep, create_graph, inputs)
    else:
        _selective.depth += 1
        try:
            _C._backward(outputs, weights, keep, create_graph, inputs)
        finally:
            _selective.depth -= 1


def grad(
    outputs: _Tensors,
    inputs: _Tensors,
    grad_outputs: _Gradients = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Any, ...]:
    """Computes the gradients of `outputs` with respect to `inputs` as a tuple, without changing any `.grad`.

    With ``is_grads_batched`` each of `grad_outputs` is a batch of gradients along its first dimension, and so are the
    results. Edges of the graph (`graph.get_gradient_edge`) are accepted in place of tensors, and any iterable in place
    of a sequence. Unused inputs are an error, unless `allow_unused` (their gradient is None) or `materialize_grads` (it
    is zero).

    Raises:
        RuntimeError: as in `backward`, or an input was not used or does not require gradients.
        ValueError: `materialize_grads` with `allow_unused=False`, or batches of different sizes or without a dimension.
        TypeError: an argument is not a tensor.

    >>> x = torch.tensor(3., requires_grad=True)
    >>> (g,) = torch.autograd.grad(x ** 3, x, create_graph=True)
    >>> g, torch.autograd.grad(g, x)
    (tensor(27., grad_fn=<MulBackward0>), (tensor(18.),))
    """
    if _C._overridden((outputs, inputs)):
        options = {
            "retain_graph": retain_graph,
            "create_graph": create_graph,
            "only_inputs": only_inputs,
            "allow_unused": allow_unused,
            "is_grads_batched": is_grads_batched,
            "materialize_grads": materialize_grads,
        }
        made: tuple[Any, ...] = call_override(grad, (outputs, inputs, grad_outputs), options)
        return made
    return _run_grad(
        outputs, inputs, grad_outputs, retain_graph, create_graph, only_inputs, allow_unused, is_grads_batched,
        materialize_grads,
    )  # fmt: skip


def _run_grad(
    outputs: _Tensors,
    inputs: _Tensors,
    grad_outputs: _Gradients = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Any, ...]:
    if not only_inputs:
        warn(
            "only_inputs argument is deprecated and is ignored now (defaults to True). To accumulate gradient for other "
            "parts of the graph, please use torch.autograd.backward.",
            FutureWarning,
        )
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False."
        )
    allow_unused = _flag(materialize_grads if allow_unused is None else allow_unused)
    keep = _flag(create_graph if retain_graph is None else retain_graph)
    create_graph = _flag(create_graph)
    outputs = _places(outputs)
    asked = (inputs,) if _is_edge(inputs) else _sequence(inputs)
    inputs = _inputs(asked)
    found: tuple[Any, ...]  # None for an unused input
    if is_grads_batched:
        from rushlight.autograd._vmap_levels import Level

        batches = _batches(outputs, grad_outputs)
        with Level(batches[0].size(0)) as level:
            row = tuple(level.hide(batch, 0) for batch in batches)
            _selective.depth += 1
            try:
                found = _C._grad(outputs, inputs, row, keep, create_graph, allow_unused)
            finally:
                _selective.depth -= 1
            found = tuple(None if g is None else level.show(g) for g in found)
    else:
        weights = _weights(outputs, grad_outputs)
        _selective.depth += 1
        try:
            found = _C._grad(outputs, inputs, weights, keep, create_graph, allow_unused)
        finally:
            _selective.depth -= 1
    if materialize_grads:
        if any(g is None and _is_edge(x) for g, x in zip(found, asked)):
            raise RuntimeError("materialize_grads cannot be used when the given input is a GradientEdge")
        from rushlight import zeros_like

        found = tuple(zeros_like(x, requires_grad=create_graph) if g is None else g for g, x in zip(found, inputs))
    return found


for _function, _inner in ((backward, _run_backward), (grad, _run_grad)):
    mark_overridable(_function)
    # What modes of `__torch_dispatch__` see the operators of.
    _function.__wrapped__ = _inner  # type: ignore[union-attr]


def variable(*args: Any, **kwargs: Any) -> Any:
    """Removed from torch. The error shows the replacement.

    >>> try:
    ...     torch.autograd.variable(1)
    ... except RuntimeError as error:
    ...     print(error)
    torch.autograd.variable(...) is deprecated, use torch.tensor(...) instead
    """
    raise RuntimeError("torch.autograd.variable(...) is deprecated, use torch.tensor(...) instead")


def __dir__() -> list[str]:
    return [*__all__, "function"]
