"""Derivatives of functions: vector-Jacobian and Jacobian-vector products, Jacobians, Hessians.

A Jacobian-vector product is computed as the gradient of a gradient, also for the forward mode of `jacobian`. If an
output does not depend on an input, the derivative is zero, or an error with ``strict``.
"""

from __future__ import annotations

import rushlight as torch
from rushlight import autograd
from rushlight.autograd._forward_levels import ForwardLevel, jacobian_by_columns
from rushlight.autograd._tangents import basis, differentiable, forward_recording

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rushlight import Tensor

    Tensors = tuple[Tensor, ...]

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

_OUTPUTS = "outputs of the user-provided function"


def _as_tuple(given: Any, what: str, caller: str) -> tuple[bool, Tensors]:
    alone = not isinstance(given, tuple)
    tensors = (given,) if alone else given
    for place, tensor in enumerate(tensors):
        if not isinstance(tensor, torch.Tensor):
            which = f"given {what}" if alone else f"value at index {place}"
            raise TypeError(
                f"The {what} given to {caller} must be either a Tensor or a tuple of Tensors but the {which} has type "
                f"{type(tensor)}."
            )
    return not alone, tensors


def _fresh(tensors: Tensors, create_graph: bool, need_graph: bool = True) -> Tensors:
    """The inputs to differentiate with respect to. They stay connected to their graph only with ``create_graph``."""
    return tuple(
        tensor.view_as(tensor) if create_graph and tensor.requires_grad else tensor.detach().requires_grad_(need_graph)
        for tensor in tensors
    )


def _finished(tensors: Any, create_graph: bool) -> Any:
    if create_graph:
        return tensors
    if isinstance(tensors, torch.Tensor):
        return tensors.detach()
    return tuple(_finished(tensor, create_graph) for tensor in tensors)


def _unpacked(tensors: Any, is_tuple: bool) -> Any:
    return tensors if is_tuple else tensors[0]


def _check_vector(v: Tensors, other: Tensors, is_tuple: bool) -> None:
    if len(other) != len(v):
        if is_tuple:
            raise RuntimeError(f"v is a tuple of invalid length: should be {len(other)} but got {len(v)}.")
        raise RuntimeError("The given v should contain a single Tensor.")
    for place, (own, wanted) in enumerate(zip(v, other)):
        if own.size() != wanted.size():
            entry = f"Entry {place} in " if is_tuple else ""
            raise RuntimeError(f"{entry}v has invalid size: should be {wanted.size()} but got {own.size()}.")


def _vector(v: Any, other: Tensors, is_tuple: bool, create_graph: bool, caller: str, alone: str) -> Tensors | None:
    """The vector of the product, which can be omitted if there is one number."""
    if v is None:
        if len(other) != 1 or other[0].numel() != 1:
            raise RuntimeError(f"The vector v can only be None if {alone}.")
        return None
    _, v = _as_tuple(v, "v", caller)
    v = _fresh(v, create_graph, need_graph=False)
    _check_vector(v, other, is_tuple)
    return v


_STRICT = {
    "outputs": (
        "Output {} of the user-provided function does not require gradients. The outputs must be computed in a "
        "differentiable manner from the input when running in strict mode."
    ),
    "grad_inputs": (
        "The gradient with respect to input {} is independent of the inputs of the user-provided function. This is not "
        "allowed in strict mode."
    ),
    "jacobian": (
        "While computing the hessian, found that the jacobian of the user-provided function with respect to input {} is "
        "independent of the input. This is not allowed in strict mode. You should ensure that your function is twice "
        "differentiable and that the jacobian depends on the inputs (this would be violated by a linear function for "
        "example)."
    ),
}


def _check_depends(tensors: Any, what: str, strict: bool) -> None:
    if not strict:
        return
    for place, tensor in enumerate(tensors):
        if tensor is None:
            raise RuntimeError(
                f"The output of the user-provided function is independent of input {place}. This is not allowed in strict "
                "mode."
            )
        if not tensor.requires_grad:
            raise RuntimeError(_STRICT[what].format(place))


def _grad(outputs: Any, inputs: Tensors, weights: Any = None, create_graph: bool = False, keep: bool = False) -> Any:
    """The gradients; None for inputs on which no output depends."""
    weights = (None,) * len(outputs) if weights is None else weights
    pairs = [(out, weight) for out, weight in zip(outputs, weights) if out is not None and out.requires_grad]
    if not pairs:
        return (None,) * len(inputs)
    outputs, weights = zip(*pairs)
    return autograd.grad(
        outputs, inputs, weights, retain_graph=keep or create_graph, create_graph=create_graph, allow_unused=True
    )


_INDEPENDENT = {
    "back": "The output of the user-provided function is independent of input {}. This is not allowed in strict mode.",
    "back_trick": (
        "The gradient with respect to the input is independent of entry {} in the grad_outputs when using the double "
        "backward trick to compute forward mode gradients. This is not allowed in strict mode."
    ),
    "double_back": (
        "The jacobian of the user-provided function is independent of input {}. This is not allowed in strict mode."
    ),
    "double_back_trick": (
        "The hessian of the user-provided function is independent of entry {} in the grad_jacobian. This is not allowed "
        "in strict mode as it prevents from using the double backward trick to replace forward mode AD."
    ),
}


def _filled(grads: Any, like: Tensors, strict: bool, create_graph: bool, stage: str) -> Tensors:
    """Replaces missing gradients by zeros, or raises an error with ``strict``."""
    for place, grad in enumerate(grads):
        if strict and grad is None:
            raise RuntimeError(_INDEPENDENT[stage].format(place))
        if strict and create_graph and not grad.requires_grad:
            which = "hessian" if stage.startswith("double") else "jacobian"
            raise RuntimeError(
                f"The {which} of the user-provided function is independent of input {place}. This is not allowed in strict "
                "mode when create_graph=True."
            )
    return tuple(torch.zeros_like(own) if grad is None else grad for grad, own in zip(grads, like))


def vjp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """The result of a function, and its vector-Jacobian product.

    Args:
        func: a function that takes tensors and returns a tensor or a tuple of tensors.
        inputs: a tensor or a tuple of tensors.
        v: the vector, with the shapes of the outputs; can be omitted for a single number.
        create_graph: whether the result is differentiable.
        strict: whether to raise an error if an output does not depend on an input.

    Raises:
        TypeError: an argument is not a tensor.
        RuntimeError: the shape of the vector is wrong, or ``strict`` is set and an output does not depend on an input.

    >>> torch.autograd.functional.vjp(lambda x: x.exp(), torch.zeros(2), torch.tensor([1.0, 2.0]))
    (tensor([1., 1.]), tensor([1., 2.]))
    """
    with torch.enable_grad():
        inputs_tuple, inputs = _as_tuple(inputs, "inputs", "vjp")
        inputs = _fresh(inputs, create_graph)
        outputs_tuple, outputs = _as_tuple(func(*inputs), _OUTPUTS, "vjp")
        _check_depends(outputs, "outputs", strict)
        alone = "the user-provided function returns a single Tensor with a single element"
        v = _vector(v, outputs, outputs_tuple, create_graph, "vjp", alone)
        product = _filled(_grad(outputs, inputs, v, create_graph), inputs, strict, create_graph, "back")
    return (
        _unpacked(_finished(outputs, create_graph), outputs_tuple),
        _unpacked(_finished(product, create_graph), inputs_tuple),
    )


def jvp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """The result of a function, and its Jacobian-vector product. As `vjp`, but ``v`` has the shapes of the inputs.

    >>> torch.autograd.functional.jvp(lambda x: x.exp(), torch.zeros(2), torch.tensor([1.0, 2.0]))
    (tensor([1., 1.]), tensor([1., 2.]))
    """
    with torch.enable_grad():
        inputs_tuple, inputs = _as_tuple(inputs, "inputs", "jvp")
        inputs = _fresh(inputs, create_graph)
        alone = "the input to the user-provided function is a single Tensor with a single element"
        v = _vector(v, inputs, inputs_tuple, create_graph, "jvp", alone)
        outputs_tuple, outputs = _as_tuple(func(*inputs), _OUTPUTS, "jvp")
        _check_depends(outputs, "outputs", strict)
        # The gradient is linear in these vectors, and its derivative with respect to them is the product.
        weights = tuple(torch.zeros_like(out, requires_grad=True) for out in outputs)
        grads = _grad(outputs, inputs, weights, create_graph=True)
        _check_depends(grads, "grad_inputs", strict)
        product = _filled(_grad(grads, weights, v, create_graph), outputs, strict, create_graph, "back_trick")
    return (
        _unpacked(_finished(outputs, create_graph), outputs_tuple),
        _unpacked(_finished(product, create_graph), outputs_tuple),
    )


def jacobian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """The derivatives of all elements of a function's outputs with respect to all elements of its inputs.

    Args:
        vectorize: whether to use one batched pass (`torch.func.vmap`) instead of one pass per element.
        strategy: ``"reverse-mode"``, with one pass per element of the outputs, or ``"forward-mode"``, with one per
            element of the inputs, which requires ``vectorize=True``.

    The other arguments are those of `vjp`. For one output and one input the result is a tensor of shape
    ``(*output, *input)``. Otherwise it is a nested tuple, by outputs and then by inputs.

    Raises:
        TypeError: an argument is not a tensor.
        RuntimeError: ``strict`` is set and an output does not depend on an input.
        NotImplementedError: forward mode is used with ``create_graph``, or without ``vectorize``.

    >>> torch.autograd.functional.jacobian(lambda x: x**2, torch.tensor([1.0, 3.0]))
    tensor([[2., 0.],
            [0., 6.]])
    """
    if strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError(
            'Expected strategy to be either "forward-mode" or "reverse-mode". Hint: If your function has more outputs than '
            'inputs, "forward-mode" tends to be more performant. Otherwise, prefer to use "reverse-mode".'
        )
    if strategy == "forward-mode":
        return _jacobian_forward(func, inputs, create_graph, strict, vectorize)
    with torch.enable_grad():
        inputs_tuple, inputs = _as_tuple(inputs, "inputs", "jacobian")
        inputs = _fresh(inputs, create_graph)
        outputs_tuple, outputs = _as_tuple(func(*inputs), _OUTPUTS, "jacobian")
        _check_depends(outputs, "outputs", strict)
        if strict and vectorize:
            raise RuntimeError(
                "torch.autograd.functional.jacobian: `strict=True` and `vectorized=True` are not supported together. Please "
                "either set `strict=False` or `vectorize=False`."
            )
        if vectorize:
            rows = [_all_rows(out, inputs, create_graph) for out in outputs]
        else:
            rows = [_rows(number, out, inputs, create_graph, strict) for number, out in enumerate(outputs)]
    found = _finished(tuple(_unpacked(row, inputs_tuple) for row in rows), create_graph)
    return _unpacked(found, outputs_tuple)


def _jacobian_forward(func: Callable[..., Any], inputs: Any, create_graph: bool, strict: bool, vectorize: bool) -> Any:
    what = (
        'torch.autograd.functional.jacobian: `{}=True` and `strategy="forward-mode"` are not supported together (yet).'
    )
    if create_graph:
        raise NotImplementedError(
            what.format("create_graph") + ' Please either set `create_graph=False` or `strategy="reverse-mode"`.'
        )
    if strict:
        raise RuntimeError(what.format("strict") + ' Please either set `strict=False` or `strategy="reverse-mode"`.')
    if not vectorize:
        raise NotImplementedError(
            "Computing Jacobian using forward-AD or forward-over-reverse Hessian isonly implemented for `vectorize=True`."
        )
    inputs_tuple, inputs = _as_tuple(inputs, "inputs", "jacobian")
    for given in inputs:
        if not differentiable(given):
            raise ValueError(f"Expected primal to be floating point or complex, but got: {given.dtype}")
    with torch.enable_grad(), forward_recording():
        inputs = _fresh(inputs, create_graph)
        with ForwardLevel(inputs, samples=sum(given.numel() for given in inputs)) as level:
            outputs_tuple, outputs = _as_tuple(func(*inputs), _OUTPUTS, "jacobian")
        rows = jacobian_by_columns(level, inputs, outputs)
    found = _finished(tuple(_unpacked(tuple(row), inputs_tuple) for row in rows), create_graph)
    return _unpacked(found, outputs_tuple)


def _all_rows(out: Tensor, inputs: Tensors, create_graph: bool) -> Tensors:
    """The derivatives of all elements of one output with respect to the inputs, in one batched pass."""
    shapes = [out.shape + own.shape for own in inputs]
    if not out.requires_grad:
        return tuple(own.new_zeros(shape) for own, shape in zip(inputs, shapes))
    found = autograd.grad(
        (out,),
        inputs,
        (basis(out.detach()),),
        retain_graph=True,
        create_graph=create_graph,
        allow_unused=True,
        is_grads_batched=True,
    )
    return tuple(
        own.new_zeros(shape) if grad is None else grad.reshape(shape) for grad, own, shape in zip(found, inputs, shapes)
    )


def _rows(number: int, out: Tensor, inputs: Tensors, create_graph: bool, strict: bool) -> Tensors:
    """The derivatives of each element of one output with respect to the inputs."""
    rows: list[list[Tensor]] = [[] for _ in inputs]
    for element in out.reshape(-1):
        for place, grad in enumerate(_grad((element,), inputs, None, create_graph, keep=True)):
            if strict and grad is None:
                raise RuntimeError(
                    f"Output {number} of the user-provided function is independent of input {place}. This is not allowed in "
                    "strict mode."
                )
            if strict and create_graph and not grad.requires_grad:
                raise RuntimeError(
                    # torch's message has the number of the output here.
                    f"The jacobian of the user-provided function is independent of input {number}. This is not allowed "
                    "in strict mode when create_graph=True."
                )
            rows[place].append(torch.zeros_like(inputs[place]) if grad is None else grad)
    return tuple(
        torch.stack(row).reshape(out.shape + own.shape) if row else own.new_zeros(out.shape + own.shape)
        for row, own in zip(rows, inputs)
    )


def _scalar(func: Callable[..., Any], inputs: Tensors, caller: str, strict: bool) -> tuple[Tensors, bool]:
    is_tuple, outputs = _as_tuple(func(*inputs), _OUTPUTS, caller)
    _check_depends(outputs, "outputs", strict)
    if is_tuple or not isinstance(outputs[0], torch.Tensor):
        raise RuntimeError(f"The function given to {caller} should return a single Tensor")
    if outputs[0].numel() != 1:
        raise RuntimeError(f"The Tensor returned by the function given to {caller} should contain a single element")
    return outputs, is_tuple


def hessian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The second derivatives of a function that returns one number. Arguments and errors as in `jacobian`.

    >>> torch.autograd.functional.hessian(lambda x: (x**3).sum(), torch.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    inputs_tuple, inputs = _as_tuple(inputs, "inputs", "hessian")
    if outer_jacobian_strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError('Expected strategy to be either "forward-mode" or "reverse-mode".')

    def one_number(*given: Tensor) -> Tensor:
        is_tuple, outputs = _as_tuple(func(*given), _OUTPUTS, "hessian")
        _check_depends(outputs, "outputs", strict)
        if is_tuple:
            raise RuntimeError("The function given to hessian should return a single Tensor")
        if outputs[0].numel() != 1:
            raise RuntimeError("The Tensor returned by the function given to hessian should contain a single element")
        return outputs[0].squeeze()

    def slopes(*given: Tensor) -> Any:
        found = jacobian(one_number, given, create_graph=True)
        _check_depends(found, "jacobian", strict)
        return found

    found = jacobian(slopes, inputs, create_graph, strict, vectorize, outer_jacobian_strategy)
    return found if inputs_tuple else found[0][0]


def vhp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """The result (one number) of a function, and its vector-Hessian product. As `vjp`, with ``v`` shaped like the inputs.

    >>> torch.autograd.functional.vhp(lambda x: (x**3).sum(), torch.tensor([1.0, 2.0]), torch.ones(2))
    (tensor(9.), tensor([ 6., 12.]))
    """
    with torch.enable_grad():
        inputs_tuple, inputs = _as_tuple(inputs, "inputs", "vhp")
        inputs = _fresh(inputs, create_graph)
        alone = "the input to the user-provided function is a single Tensor with a single element"
        v = _vector(v, inputs, inputs_tuple, create_graph, "vhp", alone)
        outputs, is_tuple = _scalar(func, inputs, "vhp", strict)
        slopes = _filled(_grad(outputs, inputs, create_graph=True), inputs, strict, False, "back")
        _check_depends(slopes, "jacobian", strict)
        product = _filled(_grad(slopes, inputs, v, create_graph), inputs, strict, create_graph, "double_back")
    return (
        _unpacked(_finished(outputs, create_graph), is_tuple),
        _unpacked(_finished(product, create_graph), inputs_tuple),
    )


def hvp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """The result (one number) of a function, and its Hessian-vector product. `vhp` computes the same faster.

    >>> torch.autograd.functional.hvp(lambda x: (x**3).sum(), torch.tensor([1.0, 2.0]), torch.ones(2))
    (tensor(9.), tensor([ 6., 12.]))
    """
    with torch.enable_grad():
        inputs_tuple, inputs = _as_tuple(inputs, "inputs", "hvp")
        inputs = _fresh(inputs, create_graph)
        alone = "the input to the user-provided function is a single Tensor with a single element"
        v = _vector(v, inputs, inputs_tuple, create_graph, "hvp", alone)
        outputs, is_tuple = _scalar(func, inputs, "hvp", strict)
        slopes = _filled(_grad(outputs, inputs, create_graph=True), inputs, strict, False, "back")
        _check_depends(slopes, "jacobian", strict)
        weights = tuple(torch.zeros_like(own, requires_grad=True) for own in inputs)
        double = _filled(_grad(slopes, inputs, weights, create_graph=True), inputs, strict, False, "double_back")
        product = _filled(_grad(double, weights, v, create_graph), inputs, strict, create_graph, "double_back_trick")
    return (
        _unpacked(_finished(outputs, create_graph), is_tuple),
        _unpacked(_finished(product, create_graph), inputs_tuple),
    )


def __dir__() -> list[str]:
    return __all__
