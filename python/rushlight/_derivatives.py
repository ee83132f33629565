"""What the engine asks handlers of ``__torch_dispatch__`` for.

It calls `call` for the operators of derivatives and of the parts of composite operators, and `gradients` for the derivatives that
torch computes by one operator. Operators that only the engine has are divided into torch's here, where these do the same work. The
others keep the engine's names.
"""

from __future__ import annotations

import rushlight as torch
from rushlight import _C, ops
from rushlight._torch_dispatch import divide, plainly

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


def _index_put(
    input: Tensor, indices: list[Tensor], dims: tuple[int, ...], values: Tensor, accumulate: bool = False
) -> Any:
    places: list[Tensor | None] = [None] * (max(dims, default=-1) + 1)
    for dim, index in zip(dims, indices):
        places[dim] = index
    return aten.index_put.default(input, places, values, accumulate)


#: The engine's operators, by the operators of torch that do the same.
_DIVIDED: dict[str, Callable[..., Any]] = {
    "_matmul": _matmul,
    "_slice": _slice,
    "_index_put": _index_put,
    "_gelu_backward": lambda grad, input: aten.gelu_backward.default(grad, input),
    "_gelu_tanh_backward": lambda grad, input: aten.gelu_backward.default(grad, input, approximate="tanh"),
    "_nll_loss_backward": lambda grad, target, weight, reduction, ignored, total, like: aten.nll_loss_backward.default(
        grad, like, target, weight, reduction, ignored, total
    ),
    "_silu_backward": lambda grad, input: aten.silu_backward.default(grad, input),
    "_affine": _affine,
    # The functions of these names are composed of them.
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


def call(
    namespace: str, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], in_place: bool, is_function: bool
) -> Any:
    """The results of an operator that the engine calls, from the handlers of this thread and of the operands."""
    if isinstance(kwargs.get("memory_format"), str):
        kwargs["memory_format"] = getattr(torch, kwargs["memory_format"])
    divided = None if in_place or namespace else _DIVIDED.get(name)
    if divided is not None:
        return divided(*args, **kwargs)
    if in_place:
        function = getattr(torch.Tensor, f"{name}_")
    else:
        function = _C._functions[namespace].get(name) if is_function else getattr(torch.Tensor, name, None)
    if function is None:
        # Such as those that begin and end the batches of `vmap`.
        return plainly(getattr(_C, name), args, kwargs)
    return divide(function, args, kwargs)


def gradients(
    name: str, grad: Tensor, tensors: dict[str, _Saved], values: dict[str, Any], wanted: tuple[bool, ...]
) -> list[Tensor | None] | None:
    """The gradients of a convolution's operands, by one operator; None if torch does not compute them so."""
    transposed = name == "_conv_input"
    space = grad.dim() - 2
    before, after = values["padding"][:space], values["padding"][space:]
    if before != after and not transposed:
        return None
    saved = dict(tensors)
    input, sizes = saved["grad" if transposed else "input"]
    weight, weight_sizes = saved["weight"]
    # A tensor that no gradient reads is not saved; its sizes stand for it.
    input = grad.new_empty(1).expand(sizes) if input is None else input
    weight = grad.new_empty(1).expand(weight_sizes) if weight is None else weight
    has_bias = "bias" in saved
    # The part of a transposed convolution's result that no window reaches is less padding behind.
    extra = [first - last for first, last in zip(before, after)]
    channels = [grad.size(1)] if has_bias else None
    mask = [*wanted[:2], has_bias and wanted[2]]
    found = ops.aten.convolution_backward.default(
        grad, input, weight, channels, list(values["stride"]), list(before), list(values["dilation"]), transposed, extra,
        values["groups"], mask,
    )  # fmt: skip
    return list(found[: len(wanted)])


def convolution_backward(
    grad_output: Tensor,
    input: Tensor,
    weight: Tensor,
    bias_sizes: list[int] | None,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    transposed: bool,
    output_padding: list[int],
    groups: int,
    output_mask: list[bool],
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """The gradients of a convolution's input, weight and bias, of which ``output_mask`` says whether they are computed.

    >>> grad, x, w = torch.ones(1, 1, 2), torch.arange(3.0).reshape(1, 1, 3), torch.ones(1, 1, 2)
    >>> torch.ops.aten.convolution_backward(grad, x, w, [1], [1], [0], [1], False, [0], 1, [False, False, True])
    (None, None, tensor([2.]))
    """
    space = grad_output.dim() - 2
    steps, edges, reach, extra = (
        list(one) * (space // len(one)) for one in (stride, padding, dilation, output_padding)
    )
    behind = [edge - more for edge, more in zip(edges, extra)] if transposed else edges
    options = (steps, [*edges, *behind], reach, groups)
    of_input = of_weight = of_bias = None
    if output_mask[0]:
        if transposed:
            of_input = _C._conv(grad_output, weight.conj(), None, *options)
        else:
            of_input = _C._conv_input(grad_output, weight.conj(), list(input.shape), *options)
    if output_mask[1]:
        image, moved = (grad_output, input.conj()) if transposed else (input.conj(), grad_output)
        of_weight = _C._conv_weight(image, moved, list(weight.shape), *options)
    if output_mask[2]:
        of_bias = grad_output.sum([0, *range(2, grad_output.dim())])
    return of_input, of_weight, of_bias


def gelu_backward(grad_output: Tensor, self: Tensor, *, approximate: str = "none") -> Tensor:
    """The gradient of `gelu`.

    >>> torch.ops.aten.gelu_backward(torch.ones(1), torch.zeros(1))
    tensor([0.5000])
    """
    return (_C._gelu_tanh_backward if approximate == "tanh" else _C._gelu_backward)(grad_output, self)


def silu_backward(grad_output: Tensor, self: Tensor) -> Tensor:
    """The gradient of `silu`.

    >>> torch.ops.aten.silu_backward(torch.ones(1), torch.zeros(1))
    tensor([0.5000])
    """
    return _C._silu_backward(grad_output, self)


def nll_loss_forward(
    self: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore_index: int
) -> tuple[Tensor, Tensor]:
    """The negative log likelihood, and the sum of the weights of its targets. The reduction is a number: 0 for none, 1 for the
    mean, 2 for the sum.

    >>> torch.ops.aten.nll_loss_forward(torch.zeros(1, 2), torch.tensor([1]), None, 2, -100)
    (tensor(0.), tensor(1.))
    """
    loss, total = _C._nll_loss(self, target, weight, reduction, ignore_index)
    return loss, total


def _scaled_dot_product_flash_attention_for_cpu(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: Tensor | None = None,
    scale: float | None = None,
) -> tuple[Tensor, Tensor]:
    """The attention of queries to keys, and the logarithms of the sums of its weights.

    >>> x = torch.zeros(1, 1, 2, 1)
    >>> torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(x, x, x)[0].shape
    torch.Size([1, 1, 2, 1])
    """
    factor = query.size(-1) ** -0.5 if scale is None else scale
    return _C._attention(query, key, value, attn_mask, is_causal, factor)


def nll_loss_backward(
    grad_output: Tensor,
    self: Tensor,
    target: Tensor,
    weight: Tensor | None,
    reduction: int,
    ignore_index: int,
    total_weight: Tensor,
) -> Tensor:
    """The gradient of `nll_loss`, whose reduction is a number: 0 for none, 1 for the mean, 2 for the sum.

    >>> logs, target = torch.zeros(1, 2), torch.tensor([1])
    >>> torch.ops.aten.nll_loss_backward(torch.tensor(1.0), logs, target, None, 2, -100, torch.tensor(1.0))
    tensor([[ 0., -1.]])
    """
    return _C._nll_loss_backward(grad_output, target, weight, reduction, ignore_index, total_weight, self)
