"""Functions that torch composes of operators, by the operators that `__torch_dispatch__` sees of them.

Each function here takes the arguments of the public one. NotImplemented says that the call is one operator, under its
own name.
"""

from __future__ import annotations

from operator import index as as_index
from typing import Any

import rushlight as torch
from rushlight import ops
from rushlight._C import Tensor
from rushlight._loading import load
from rushlight._override_order import without_handlers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ATTRIBUTES", "DECOMPOSITIONS"]

aten = ops.aten


def _narrow(input: Tensor, dim: int, start: Any, length: int) -> Any:
    size = input.size(dim)
    start = int(start)
    if not -size <= start <= size or length < 0 or (start + size if start < 0 else start) + length > size:
        return NotImplemented  # The operator refuses it.
    start = start + size if start < 0 else start
    return aten.slice.Tensor(input, dim, start, start + length)


def _reshape(input: Tensor, *shape: Any, **kwargs: Any) -> Any:
    shape = shape or (kwargs["shape"],)
    sizes = list(shape[0]) if len(shape) == 1 and isinstance(shape[0], (list, tuple)) else list(shape)
    if not _is_viewable(input, sizes):
        input = aten.clone.default(input, memory_format=torch.contiguous_format)
        return aten._unsafe_view.default(input, sizes)
    return aten.view.default(input, sizes)


def _is_viewable(input: Tensor, sizes: list[int]) -> bool:
    """Whether a tensor has a view of these sizes, or none that could be made of a copy either."""
    if input.is_contiguous():
        return True
    try:
        without_handlers(Tensor.view, (input, sizes), {})
    except RuntimeError as error:
        return "view size is not compatible" not in str(error)
    return True


def _chunk(input: Tensor, chunks: int, dim: int = 0) -> Any:
    if chunks < 1:
        return NotImplemented
    return aten.split.Tensor(input, max(1, -(-input.size(dim) // chunks)), dim)


def _matmul(input: Any, other: Any, **kwargs: Any) -> Any:
    if kwargs or not (isinstance(input, Tensor) and isinstance(other, Tensor)):
        return NotImplemented
    name = {(2, 2): "mm", (2, 1): "mv", (1, 1): "dot"}.get((input.dim(), other.dim()))
    return NotImplemented if name is None else getattr(aten, name).default(input, other)


def _to(input: Tensor, *args: Any, **kwargs: Any) -> Any:
    copy = kwargs.pop("copy", False)
    device, dtype, non_blocking, memory_format = load("rushlight.nn.modules._convert").parse_to(*args, **kwargs)
    if device is not None and device.type == "cuda" and device.index is None:
        device = torch.device("cuda", torch.cuda.current_device())
    options = {
        **({"dtype": dtype} if dtype is not None and (dtype != input.dtype or copy) else {}),
        **({"device": device} if device is not None and (device != input.device or copy) else {}),
        **({} if memory_format is None else {"memory_format": memory_format}),
    }
    if not (options or copy):
        return input
    return aten._to_copy.default(input, **options, **({"non_blocking": True} if non_blocking else {}))


def _cuda(input: Tensor, device: Any = None, non_blocking: bool = False, **kwargs: Any) -> Any:
    if "async" in kwargs:
        return NotImplemented  # The method has the other name for it.
    device = torch.device("cuda" if device is None else device)
    if device.type != "cuda":
        return without_handlers(Tensor.cuda, (input, device), {})  # It is refused.
    return _to(input, device=device, non_blocking=non_blocking, **kwargs)


def _conversion(**options: Any) -> Callable[..., Any]:
    """A method that is `Tensor.to` with these options."""

    def convert(input: Tensor, memory_format: Any = torch.preserve_format) -> Any:
        given = {} if memory_format == torch.preserve_format else {"memory_format": memory_format}
        return _to(input, **options, **given)

    return convert


def _type_as(input: Tensor, other: Tensor) -> Any:
    return _to(input, dtype=other.dtype, device=other.device)


def _contiguous(input: Tensor, memory_format: Any = torch.contiguous_format) -> Any:
    if input.is_contiguous(memory_format=memory_format):
        return input
    return aten.clone.default(input, memory_format=memory_format)


def _number(name: str, kind: Callable[[Any], Any]) -> Callable[[Tensor], Any]:
    """A method that makes a Python number of the only element."""

    def convert(input: Tensor) -> Any:
        if input.numel() != 1:
            return without_handlers(getattr(Tensor, name), (input,), {})  # It is refused.
        return kind(aten._local_scalar_dense.default(input))

    return convert


def _contains(input: Tensor, element: Any) -> Any:
    if not isinstance(element, (Tensor, int, float, complex)):
        return NotImplemented
    return bool(aten.any.default(input == element))


def _reversed(name: str) -> Callable[..., Any]:
    """A method for the right operand of one of Python's operators."""

    def run(input: Tensor, other: Any) -> Any:
        overload = "default" if name == "floor_divide" else "Scalar" if name == "pow" else "Scalar_Tensor"
        return getattr(getattr(aten, name), overload)(other, input)

    return run


def _divide_number(input: Tensor, other: Any) -> Any:
    return aten.mul.Tensor(aten.reciprocal.default(input), other)


def _where(condition: Tensor, *operands: Any, **named: Any) -> Any:
    if not operands and not named:
        return aten.unbind.int(aten.nonzero.default(condition), 1)
    if named.get("out") is not None:
        return NotImplemented
    input, other = (*operands, *(named[name] for name in ("input", "self", "other") if name in named))
    tensors = [one for one in (input, other) if isinstance(one, Tensor)]
    kind = torch.result_type(input, other)
    device = tensors[0].device if tensors else condition.device

    def made(value: Any) -> Any:
        if isinstance(value, Tensor):
            return value
        return aten.scalar_tensor.default(value, dtype=kind, layout=torch.strided, device=device)

    other, input = made(other), made(input)  # in torch's order
    return aten.where.self(condition, _to(input, dtype=kind), _to(other, dtype=kind))


def _method_where(input: Tensor, condition: Tensor, other: Any) -> Any:
    return _where(condition, input, other)


def _type(input: Tensor, dtype: Any = None, non_blocking: bool = False, **kwargs: Any) -> Any:
    if kwargs or dtype is None:
        return without_handlers(Tensor.type, (input, dtype), kwargs)
    if isinstance(dtype, torch.dtype):
        return _to(input, dtype=dtype, non_blocking=non_blocking)
    # A class or its name means a device too: the method says which, and does what it refuses.
    made = without_handlers(lambda: torch.empty(0, dtype=input.dtype, device=input.device).type(dtype), (), {})
    if (made.dtype, made.device) == (input.dtype, input.device):
        return input
    more = {"non_blocking": True} if non_blocking else {}
    return aten._to_copy.default(input, dtype=made.dtype, device=torch.device(made.device.type), **more)


def _polygamma(input: Tensor, n: int) -> Any:
    return aten.polygamma.default(n, input)


def _relu(input: Tensor, inplace: bool = False) -> Any:
    return aten.relu_.default(input) if inplace else aten.relu.default(input)


def _softmax(name: str) -> Callable[..., Any]:
    def run(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
        if dim is None:
            return NotImplemented  # The function chooses one, and warns.
        if dtype is not None:
            input = _to(input, dtype=dtype)
        return getattr(aten, name).default(input, dim, False)

    return run


def _method_softmax(name: str) -> Callable[..., Any]:
    function = _softmax(name)

    def run(input: Tensor, dim: int, dtype: Any = None, **kwargs: Any) -> Any:
        return NotImplemented if kwargs else function(input, dim, dtype=dtype)

    return run


def _dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    if not 0 < p < 1:
        return NotImplemented
    if not training:
        return input
    noise = aten.div_.Scalar(aten.bernoulli_.float(aten.empty_like.default(input), 1 - p), 1 - p)
    return aten.mul_.Tensor(input, noise) if inplace else aten.mul.Tensor(input, noise)


def _einsum(*args: Any) -> Any:
    if not args or not isinstance(args[0], str):
        return NotImplemented
    operands = args[1] if len(args) == 2 and isinstance(args[1], (list, tuple)) else args[1:]
    return aten.einsum.default(args[0], list(operands))


def _embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Any:
    if max_norm is not None or (padding_idx is not None and not 0 <= padding_idx < weight.size(0)):
        return NotImplemented
    return aten.embedding.default(weight, input, -1 if padding_idx is None else padding_idx, scale_grad_by_freq, sparse)


def _norm(
    input: Tensor, p: Any = "fro", dim: Any = None, keepdim: bool = False, out: Any = None, dtype: Any = None
) -> Any:
    if out is not None or (isinstance(p, str) and p != "fro"):
        return NotImplemented
    order = 2 if p is None or p == "fro" else p
    return aten.linalg_vector_norm.default(input, order, dim, keepdim, dtype=dtype)


def _normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Any = None) -> Any:
    if out is not None:
        return NotImplemented
    length = aten.clamp_min.default(aten.linalg_vector_norm.default(input, p, [dim], True), eps)
    return aten.div.Tensor(input, aten.expand.default(length, list(input.shape)))


def _pad(input: Tensor, pad: Any, mode: str = "constant", value: float | None = None) -> Any:
    if mode != "constant":
        return NotImplemented
    return aten.constant_pad_nd.default(input, list(pad), 0 if value is None else value)


def _batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    if not training and (running_mean is None or running_var is None):
        return NotImplemented
    if training and input.numel() == input.size(1):
        return NotImplemented  # One value for each channel is refused.
    found = aten.native_batch_norm.default(
        input, weight, bias, running_mean, running_var, training, momentum, eps
    )  # fmt: skip
    return found[0]


def _pair(value: Any) -> list[int]:
    """A size for both dimensions of an image."""
    values = [int(one) for one in value] if isinstance(value, (list, tuple)) else [int(value)]
    return values * 2 if len(values) == 1 else values


def _unfold(input: Tensor, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Any:
    return aten.im2col.default(input, *map(_pair, (kernel_size, dilation, padding, stride)))


def _fold(
    input: Tensor, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Any:
    return aten.col2im.default(input, *map(_pair, (output_size, kernel_size, dilation, padding, stride)))


def _tensor(data: Any, **kwargs: Any) -> Any:
    made = without_handlers(torch.tensor, (data,), kwargs)
    return aten.lift_fresh.default(made)


def _width(part: Any) -> int:
    """How many dimensions a part of an index takes."""
    if part is None or part is Ellipsis or isinstance(part, bool):
        return 0
    return part.dim() if isinstance(part, Tensor) and part.dtype in (torch.bool, torch.uint8) else 1


def _taken(input: Tensor, index: Any) -> tuple[Tensor, list[Tensor | None]]:
    """The selections and slices of an index, taken, and its tensors, for the dimensions of the result."""
    parts = list(index) if isinstance(index, tuple) else [index]
    parts = [torch.tensor(part) if isinstance(part, (list, range)) else part for part in parts]
    if sum(map(_width, parts)) > input.dim():
        raise IndexError(f"too many indices for tensor of dimension {input.dim()}")
    dim, result, reached = 0, input, 0
    tensors: list[Tensor | None] = []
    for part in parts:
        if part is Ellipsis:
            dim += input.dim() - sum(map(_width, parts))
        elif part is None:
            result = aten.unsqueeze.default(result, dim)
            dim += 1
        elif isinstance(part, slice):
            if part != slice(None):
                start, stop, step = (
                    None if one is None else as_index(one) for one in (part.start, part.stop, part.step)
                )
                end = 2**63 - 1 if stop is None else stop
                result = aten.slice.Tensor(result, dim, 0 if start is None else start, end, 1 if step is None else step)
            dim += 1
        elif isinstance(part, int) and not isinstance(part, bool):
            result = aten.select.int(result, dim, part)
        else:
            if isinstance(part, bool):
                result, part, width = aten.unsqueeze.default(result, dim), torch.full((1,), part), 1
            else:
                part = part if isinstance(part, Tensor) else torch.tensor(part)
                width = _width(part)
            tensors += [None] * (dim - reached)
            tensors.append(part)
            dim += width
            reached = dim
    return result, tensors


def _getitem(input: Tensor, index: Any) -> Any:
    result, tensors = _taken(input, index)
    if tensors:
        return aten.index.Tensor(result, tensors)
    if result is not input:
        return result
    return aten.slice.Tensor(input, 0, 0, 2**63 - 1) if isinstance(index, slice) else aten.alias.default(input)


def _setitem(input: Tensor, index: Any, value: Any) -> None:
    value = value if isinstance(value, Tensor) else torch.tensor(value, dtype=input.dtype, device=input.device)
    target, tensors = _taken(input, index)
    if tensors:
        aten.index_put_.default(target, tensors, value)
    elif value.dim() == 0 and value.device == target.device:
        aten.fill_.Tensor(target, value)
    else:
        while value.dim() > target.dim() and value.size(0) == 1:
            value = aten.squeeze.dim(value, 0)
        aten.copy_.default(target, value)


def _set(input: Tensor, source: Any = None, *form: Any) -> Any:
    if isinstance(source, Tensor) and not form:
        aten.set_.source_Tensor(input, source)
    else:
        given = (input,) if source is None else (input, source, *form)
        without_handlers(Tensor.set_, given, {})
    return input


#: Public functions and methods, by their names, with the namespace or the class where a name means several.
DECOMPOSITIONS: dict[str, Callable[..., Any]] = {
    "narrow": _narrow,
    "reshape": _reshape,
    "chunk": _chunk,
    "matmul": _matmul,
    "__matmul__": _matmul,
    "__rmatmul__": lambda input, other: _matmul(other, input),
    "to": _to,
    "type_as": _type_as,
    "cpu": _conversion(device="cpu"),
    "cuda": _cuda,
    "char": _conversion(dtype=torch.int8),
    "byte": _conversion(dtype=torch.uint8),
    **{
        name: _conversion(dtype=getattr(torch, name))
        for name in "float double half bfloat16 long int short bool cfloat cdouble".split()
    },
    "contiguous": _contiguous,
    "item": _number("item", lambda number: number),
    "is_nonzero": _number("is_nonzero", bool),
    "__int__": _number("__int__", int),
    "__float__": _number("__float__", float),
    "__bool__": _number("__bool__", bool),
    "__index__": _number("__index__", as_index),
    "__complex__": _number("__complex__", complex),
    "__contains__": _contains,
    "__rtruediv__": _divide_number,
    "__rpow__": _reversed("pow"),
    "__rfloordiv__": _reversed("floor_divide"),
    "__rmod__": _reversed("remainder"),
    "__rlshift__": _reversed("bitwise_left_shift"),
    "__rrshift__": _reversed("bitwise_right_shift"),
    "Tensor.polygamma": _polygamma,
    "Tensor.where": _method_where,
    "where": _where,
    "type": _type,
    "set_": _set,
    "softmax": _method_softmax("_softmax"),
    "log_softmax": _method_softmax("_log_softmax"),
    "dropout": lambda input, p, train: _dropout(input, p, train),
    "einsum": _einsum,
    "norm": _norm,
    "tensor": _tensor,
    "__getitem__": _getitem,
    "__setitem__": _setitem,
    "nn.functional.fold": _fold,
    "nn.functional.unfold": _unfold,
    "nn.functional.relu": _relu,
    "nn.functional.softmax": _softmax("_softmax"),
    "nn.functional.log_softmax": _softmax("_log_softmax"),
    "nn.functional.dropout": _dropout,
    "nn.functional.embedding": _embedding,
    "nn.functional.normalize": _normalize,
    "nn.functional.pad": _pad,
    "nn.functional.batch_norm": _batch_norm,
}


def _reverse(input: Tensor) -> Any:
    return aten.permute.default(input, list(range(input.dim()))[::-1])


def _transpose(input: Tensor) -> Any:
    return aten.transpose.int(input, -2, -1)


def _adjoint(input: Tensor) -> Any:
    turned = _transpose(input) if input.dim() else input
    return aten._conj.default(turned) if input.is_complex() else turned


def _data(input: Tensor) -> Any:
    detached = aten.detach.default(input)
    # What is written to it is no change of the input.
    return without_handlers(Tensor.data.__get__, (detached,), {})  # type: ignore[attr-defined]


#: Attributes that are operators.
ATTRIBUTES: dict[str, Callable[[Tensor], Any]] = {
    "T": _reverse,
    "mT": _transpose,
    "H": _adjoint,
    "mH": _adjoint,
    "data": _data,
}
