"""Operators of torch's registry that are no public functions, such as `torch.ops.aten.slice`, with torch's arguments.

Handlers of ``__torch_dispatch__`` and traces meet these names. What `torch`, `torch.nn.functional` or `torch.Tensor` has under the
operator's name is not repeated here.
"""

from __future__ import annotations

from math import prod
from typing import Any

import rushlight as torch
from rushlight import _C
from rushlight._loading import load

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import NoReturn

    from rushlight import Tensor

__all__ = ["SEVERAL_OPERATORS", "FUNCTIONS"]


def alias(self: Tensor) -> Tensor:
    """Another view of the same elements.

    >>> torch.ops.aten.alias(torch.tensor([1, 2]))
    tensor([1, 2])
    """
    return self.view_as(self)


def lift_fresh(self: Tensor) -> Tensor:
    """The tensor itself, which Python code has just made.

    >>> torch.ops.aten.lift_fresh(torch.tensor(1))
    tensor(1)
    """
    return self


def _to_copy(self: Tensor, *, pin_memory: Any = None, layout: Any = None, **options: Any) -> Tensor:
    """A copy in another dtype, on another device or in another order.

    >>> torch.ops.aten._to_copy(torch.tensor([1, 2]), dtype=torch.float32)
    tensor([1., 2.])
    """
    given = {name: value for name, value in options.items() if value is not None}
    return self.to(**given, copy=True)


def _slice(self: Tensor, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Tensor:
    """Every `step`-th element along a dimension, from `start` to before `end`.

    >>> torch.ops.aten.slice(torch.arange(5), 0, 1, 4, 2)
    tensor([1, 3])
    """
    return self[(slice(None),) * (dim % self.dim()) + (slice(start, end, step),)]


def slice_backward(
    grad_output: Tensor, input_sizes: Sequence[int], dim: int, start: int, end: int, step: int
) -> Tensor:
    """The gradient of `slice`: zeros of the input's sizes, but for the slice.

    >>> torch.ops.aten.slice_backward(torch.ones(2), [5], 0, 1, 4, 2)
    tensor([0., 1., 0., 1., 0.])
    """
    sizes, strides = list(input_sizes), _row_major(input_sizes)
    dim = _dimension(dim, sizes)
    if step <= 0:
        raise RuntimeError(f"slice step must be positive\nIt is {step}.")
    places = range(*slice(start, end, step).indices(sizes[dim]))
    grad = _filling(grad_output, [*sizes[:dim], len(places), *sizes[dim + 1 :]])
    strides[dim], offset = strides[dim] * step, places.start * strides[dim]
    return _C._embed(grad, sizes, strides, offset)


def select_backward(grad_output: Tensor, input_sizes: Sequence[int], dim: int, index: int) -> Tensor:
    """The gradient of `select`: zeros of the input's sizes, but for one index.

    >>> torch.ops.aten.select_backward(torch.ones(2), [2, 2], 0, 1)
    tensor([[0., 0.],
            [1., 1.]])
    """
    sizes, strides = list(input_sizes), _row_major(input_sizes)
    dim = _dimension(dim, sizes)
    if not -sizes[dim] <= index < sizes[dim]:
        raise IndexError(f"select(): index {index} out of range for tensor of size {sizes} at dimension {dim}")
    grad = _filling(grad_output, sizes[:dim] + sizes[dim + 1 :])
    return _C._embed(grad, sizes, strides[:dim] + strides[dim + 1 :], index % sizes[dim] * strides[dim])


def _dimension(dim: int, sizes: Sequence[int]) -> int:
    """The dimension, which may be negative, as an index."""
    if not -len(sizes) <= dim < len(sizes):
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-len(sizes)}, {len(sizes) - 1}], but got {dim})"
        )
    return dim % len(sizes)


def _filling(grad: Tensor, part: list[int]) -> Tensor:
    """The gradient, expanded to the part of the input that it fills."""
    if list(grad.shape) == part:
        return grad
    # In torch it is copied there, with that function's errors.
    torch.empty(part, device="meta").copy_(torch.empty(grad.shape, device="meta"))
    return grad.expand(part)


def _row_major(sizes: Sequence[int]) -> list[int]:
    """The strides of a contiguous tensor."""
    return [prod(sizes[dim + 1 :]) for dim in range(len(sizes))]


def index(self: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
    """The elements at indices, of which each takes a dimension; None takes all of it.

    >>> torch.ops.aten.index(torch.arange(6).reshape(2, 3), [None, torch.tensor([2, 0])])
    tensor([[2, 0],
            [5, 3]])
    """
    return self[tuple(slice(None) if one is None else one for one in indices)]


def index_put(self: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool = False) -> Tensor:
    """A copy with values written or added at indices, of which each takes a dimension; None takes all of it.

    >>> torch.ops.aten.index_put(torch.zeros(2, 2), [None, torch.tensor([1])], torch.tensor(3.0))
    tensor([[0., 3.],
            [0., 3.]])
    """
    given = [one for one in indices if one is not None]
    if len(given) == len(indices):
        return torch.index_put(self, given, values, accumulate)
    return _C._index_put(self, *_places(indices), values, accumulate)


def index_put_(self: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool = False) -> Tensor:
    """`index_put` in place.

    >>> torch.ops.aten.index_put_(torch.zeros(2), [torch.tensor([0, 0])], torch.ones(2), True)
    tensor([2., 0.])
    """
    given = [one for one in indices if one is not None]
    if len(given) == len(indices):
        return torch.index_put_(self, given, values, accumulate)
    return self._index_put_(*_places(indices), values, accumulate)


def im2col(
    self: Tensor, kernel_size: Sequence[int], dilation: Sequence[int], padding: Sequence[int], stride: Sequence[int]
) -> Tensor:
    """`torch.nn.functional.unfold`.

    >>> torch.ops.aten.im2col(torch.arange(4.0).reshape(1, 1, 2, 2), [1, 2], [1, 1], [0, 0], [1, 1])
    tensor([[[0., 2.],
             [1., 3.]]])
    """
    return torch.nn.functional.unfold(self, tuple(kernel_size), tuple(dilation), tuple(padding), tuple(stride))


def col2im(
    self: Tensor,
    output_size: Sequence[int],
    kernel_size: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
) -> Tensor:
    """`torch.nn.functional.fold`.

    >>> torch.ops.aten.col2im(torch.ones(1, 2, 2), [2, 2], [1, 2], [1, 1], [0, 0], [1, 1])
    tensor([[[[1., 1.],
              [1., 1.]]]])
    """
    geometry = (tuple(kernel_size), tuple(dilation), tuple(padding), tuple(stride))
    return torch.nn.functional.fold(self, tuple(output_size), *geometry)


def _convolution(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
    benchmark: bool,
    deterministic: bool,
    cudnn_enabled: bool,
    allow_tf32: bool = True,
) -> Tensor:
    """`torch.convolution`; the rest tells cuDNN how.

    >>> x, w = torch.arange(3.0).reshape(1, 1, 3), torch.ones(1, 1, 2)
    >>> torch.ops.aten._convolution(x, w, None, [1], [0], [1], False, [0], 1, False, False, True)
    tensor([[[1., 3.]]])
    """
    return torch.convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)


def _softmax(self: Tensor, dim: int, half_to_float: bool) -> Tensor:
    """`torch.softmax`.

    >>> torch.ops.aten._softmax(torch.zeros(2), 0, False)
    tensor([0.5000, 0.5000])
    """
    return self.softmax(dim)


def _log_softmax(self: Tensor, dim: int, half_to_float: bool) -> Tensor:
    """`torch.log_softmax`.

    >>> torch.ops.aten._log_softmax(torch.zeros(1), 0, False)
    tensor([0.])
    """
    return self.log_softmax(dim)


def _sparse_mm_reduce_impl(self: Tensor, other: Tensor, reduce: str) -> NoReturn:
    raise NotImplementedError(
        "aten::_sparse_mm_reduce_impl has no form of its own: call torch.sparse.mm with a tensor in the layout sparse CSR."
    )


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
    if len(output_mask) != 3:
        raise RuntimeError(f"Tried to convert a List with {len(output_mask)} elements to a fixed-size array of size 3")
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


def _places(indices: Sequence[Tensor | None]) -> tuple[list[Tensor], list[int]]:
    """The index tensors and their dimensions. A mask is replaced by the places of its true elements."""
    found: list[Tensor] = []
    dims: list[int] = []
    dim = 0
    for one in indices:
        if one is None:
            dim += 1
            continue
        is_mask = one.dtype in (torch.bool, torch.uint8)
        for place in one.nonzero().unbind(1) if is_mask else [one]:
            found.append(place)
            dims.append(dim)
            dim += 1
    return found, dims


#: The operators by their names.
FUNCTIONS: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (
        _convolution, _log_softmax, _scaled_dot_product_flash_attention_for_cpu, _softmax, _sparse_mm_reduce_impl, _to_copy, alias,
        col2im, convolution_backward, gelu_backward, im2col, index, index_put, index_put_, lift_fresh, nll_loss_backward,
        nll_loss_forward, select_backward, silu_backward, slice_backward,
    )
} | {
    "_local_scalar_dense": torch.Tensor.item,
    "_pin_memory": torch.Tensor.pin_memory,
    "_sparse_addmm": load("rushlight.sparse").addmm,
    "_unsafe_view": torch.Tensor.view,
    "slice": _slice,
    "unfold": torch.Tensor.unfold,
}  # fmt: skip
#: Those that call several operators of the engine.
SEVERAL_OPERATORS = frozenset({"convolution_backward"})
