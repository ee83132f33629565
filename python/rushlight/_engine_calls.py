"""Calls of the engine that handlers of ``__torch_dispatch__`` handle.

The engine calls `call` for the operators of derivatives and of composite operators, and `gradients` for the derivatives that torch
computes by one operator. Operators that only the engine has are decomposed into torch's here, where these do the same work. The
others keep the engine's names.
"""

from __future__ import annotations

from functools import partial

import rushlight as torch
from rushlight import _C, ops
from rushlight._override_order import without_handlers
from rushlight._torch_dispatch import decompose

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from rushlight import Tensor

    #: A saved tensor, if it was saved, and its sizes.
    _Saved = tuple[Tensor | None, tuple[int, ...]]

aten = ops.aten


def _matmul(input: Tensor, other: Tensor) -> Any:
    """The product of batches of matrices, which torch computes for one batch dimension."""
    batch = torch.broadcast_shapes(input.shape[:-2], other.shape[:-2])
    sizes = [*batch, input.size(-2), other.size(-1)]
    wide = [x if x.shape[:-2] == batch else x.expand(*batch, *x.shape[-2:]) for x in (input, other)]
    product = aten.bmm.default(*(x if x.dim() == 3 else x.reshape(-1, *x.shape[-2:]) for x in wide))
    return product if list(product.shape) == sizes else aten.view.default(product, sizes)


def _linear(input: Tensor, weight: Tensor) -> Any:
    across = aten.t.default(weight)
    if input.dim() == 1:
        return aten.squeeze.dim(aten.mm.default(aten.unsqueeze.default(input, 0), across), 0)
    product = aten.mm.default(_rows(input), across)
    return product if input.dim() == 2 else aten._unsafe_view.default(product, [*input.shape[:-1], weight.size(0)])


def _affine(bias: Tensor, input: Tensor, weight: Tensor) -> Any:
    product = aten.addmm.default(bias, _rows(input), aten.t.default(weight))
    return product if input.dim() == 2 else aten.view.default(product, [*input.shape[:-1], weight.size(0)])


def _rows(input: Tensor) -> Any:
    """A sequence of batches as one batch."""
    return input if input.dim() == 2 else aten.view.default(input, [-1, input.size(-1)])


def _conv(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Any:
    space = input.dim() - 2
    before, after = list(padding[:space]), list(padding[space:])
    if before != after:
        return aten._conv.default(input, weight, bias, stride, padding, dilation, groups)
    options = (list(stride), before, list(dilation), False, [0] * space, groups)
    return aten.convolution.default(input, weight, bias, *options)


def _attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None, is_causal: bool, scale: float
) -> Any:
    mask = {} if attn_mask is None else {"attn_mask": attn_mask}
    attend = aten._scaled_dot_product_flash_attention_for_cpu.default
    return attend(query, key, value, 0.0, is_causal, **mask, scale=scale)


def _slice(input: Tensor, dim: int, start: int, length: int, step: int = 1) -> Any:
    if step < 0 and length:
        # torch's slices go forward only.
        return aten.flip.default(_slice(input, dim, start + (length - 1) * step, length, -step), [dim])
    return aten.slice.Tensor(input, dim, start, start + (length - 1) * step + 1 if length else start, step)


def _index(input: Tensor, indices: list[Tensor], dims: tuple[int, ...]) -> Any:
    return aten.index.Tensor(input, _at(indices, dims))


def _index_put(
    input: Tensor, indices: list[Tensor], dims: tuple[int, ...], values: Tensor, accumulate: bool = False
) -> Any:
    return aten.index_put.default(input, _at(indices, dims), values, accumulate)


def _at(indices: list[Tensor], dims: tuple[int, ...]) -> list[Tensor | None]:
    """Index tensors at the places of their dimensions."""
    places: list[Tensor | None] = [None] * (max(dims, default=-1) + 1)
    for dim, index in zip(dims, indices):
        places[dim] = index
    return places


#: The engine's operators, by torch's operators that do the same.
_DECOMPOSITIONS: dict[str, Callable[..., Any]] = {
    "_matmul": _matmul,
    "_slice": _slice,
    "_index": _index,
    "_index_put": _index_put,
    "_gelu_backward": lambda grad, input: aten.gelu_backward.default(grad, input),
    "_gelu_tanh_backward": lambda grad, input: aten.gelu_backward.default(grad, input, approximate="tanh"),
    "_nll_loss_backward": lambda grad, target, weight, reduction, ignored, total, like: aten.nll_loss_backward.default(
        grad, like, target, weight, reduction, ignored, total
    ),
    "_silu_backward": lambda grad, input: aten.silu_backward.default(grad, input),
    "_affine": _affine,
    # torch's operators of the following names change a copy.
    "masked_fill": lambda input, mask, value: torch.clone(input).masked_fill_(mask, value),
    "masked_scatter": lambda input, mask, source: torch.clone(input).masked_scatter_(mask, source),
    "_linear": _linear,
    "_conv": _conv,
    "_attention": _attention,
    "_gelu": lambda input: aten.gelu.default(input),
    "_gelu_tanh": lambda input: aten.gelu.default(input, approximate="tanh"),
    "_nll_loss": lambda *args: aten.nll_loss_forward.default(*args),
}


def detach(tensor: Tensor) -> Any:
    """The same elements without history, from the class of a tensor that handles operators."""
    return aten.detach.default(tensor)


def item(tensor: Tensor) -> Any:
    """The only element, from the class of a tensor that handles operators."""
    return aten._local_scalar_dense.default(tensor)


def elements(tensor: Tensor) -> list[Any]:
    """The elements in row-major order, from the class of a tensor that handles operators."""
    return [item(one) for one in torch.reshape(tensor, [-1]).unbind()]


def call(
    namespace: str, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], in_place: bool, is_function: bool
) -> Any:
    """The results of an operator that the engine calls, from the handlers of this thread and of the operands."""
    if isinstance(kwargs.get("memory_format"), str):
        kwargs["memory_format"] = getattr(torch, kwargs["memory_format"])
    composed = None if in_place or namespace else _DECOMPOSITIONS.get(name)
    if composed is not None:
        return composed(*args, **kwargs)
    if in_place:
        function = getattr(torch.Tensor, f"{name}_")
    else:
        function = _C._functions[namespace].get(name) if is_function else getattr(torch.Tensor, name, None)
    if function is None:
        # Such as those that begin and end the batches of `vmap`.
        return without_handlers(getattr(_C, name), args, kwargs)
    return decompose(function, args, kwargs)


def gradients(
    name: str, grad: Tensor, tensors: dict[str, _Saved], values: dict[str, Any], wanted: tuple[bool, ...]
) -> list[Tensor | None] | None:
    """The gradients of an operator's operands, by the one operator that computes them in torch; None if there is none."""
    return _GRADIENTS[name](grad, tensors, values, wanted)


def _select_gradient(grad: Tensor, tensors: dict[str, _Saved], values: dict[str, Any], wanted: Any) -> Any:
    sizes = next(iter(tensors.values()))[1]
    return [aten.select_backward.default(grad, list(sizes), values["dim"], values["index"])]


def _slice_gradient(grad: Tensor, tensors: dict[str, _Saved], values: dict[str, Any], wanted: Any) -> Any:
    sizes, dim = next(iter(tensors.values()))[1], values["dim"]
    start, length, step = values["start"], values["length"], values["step"]
    if step < 1:
        return None  # torch's slices go forward only.
    end = start + (length - 1) * step + 1 if length else start
    return [aten.slice_backward.default(grad, list(sizes), dim, start, end, step)]


def _convolution_gradients(
    grad: Tensor, tensors: dict[str, _Saved], values: dict[str, Any], wanted: tuple[bool, ...], transposed: bool = False
) -> list[Tensor | None] | None:
    space = grad.dim() - 2
    before, after = values["padding"][:space], values["padding"][space:]
    if before != after and not transposed:
        return None
    input, sizes = tensors["grad" if transposed else "input"]
    weight, weight_sizes = tensors["weight"]
    # A tensor that no gradient reads is not saved; its sizes stand for it.
    input = grad.new_empty(1).expand(sizes) if input is None else input
    weight = grad.new_empty(1).expand(weight_sizes) if weight is None else weight
    has_bias = "bias" in tensors
    # The part of a transposed convolution's result that no window reaches is less padding behind.
    extra = [first - last for first, last in zip(before, after)]
    channels = [grad.size(1)] if has_bias else None
    mask = [*wanted[:2], has_bias and wanted[2]]
    found = aten.convolution_backward.default(
        grad, input, weight, channels, list(values["stride"]), list(before), list(values["dilation"]), transposed, extra,
        values["groups"], mask,
    )  # fmt: skip
    return list(found[: len(wanted)])


#: The functions of operators whose gradients torch computes together. The engine calls `gradients` for no others.
_GRADIENTS: dict[str, Callable[..., list[Tensor | None] | None]] = {
    "_conv": _convolution_gradients,
    "_conv_input": partial(_convolution_gradients, transposed=True),
    "_slice": _slice_gradient,
    "select": _select_gradient,
}
