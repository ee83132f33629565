"""Functions of masked tensors: `answer` finds the one that a call needs by its name."""

from __future__ import annotations

import rushlight as torch
from rushlight import Tensor, masked
from rushlight._answers import OF_THE_ELEMENTS, fits, name_of, own_node, registering, where_operands, write_attribute
from rushlight._aten_names import aten_name
from rushlight._C import DisableTorchFunctionSubclass

from .core import MaskedTensor, data_of, wrap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

#: What answers a call, by the name of the function.
ANSWERS: dict[str, Callable[..., Any]] = {}
answers = registering(ANSWERS)

_UNARY = set(
    """abs absolute acos arccos acosh arccosh angle asin arcsin asinh arcsinh atan arctan atanh arctanh bitwise_not ceil
    clamp clip conj_physical cos cosh deg2rad digamma erf erfc erfinv exp exp2 expm1 fix floor frac lgamma log log10 log1p
    log2 logit i0 isnan nan_to_num neg negative positive pow rad2deg reciprocal round rsqrt sigmoid sign sgn signbit sin sinc
    sinh sqrt square tan tanh trunc __pow__ __neg__ __abs__ __invert__ __pos__""".split()
)
_BINARY = set(
    """add atan2 arctan2 bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift div divide floor_divide
    fmod logaddexp logaddexp2 mul multiply nextafter remainder sub subtract true_divide eq ne le ge greater greater_equal
    gt less_equal lt less maximum minimum fmax fmin not_equal __add__ __radd__ __mul__ __rmul__ __sub__ __truediv__
    __floordiv__ __mod__ __and__ __or__ __xor__ __rand__ __ror__ __rxor__ __lshift__ __rshift__ __lt__ __le__ __gt__
    __ge__""".split()
)
#: In-place forms that torch leaves out.
_NOT_IN_PLACE = {"angle_", "isnan_", "positive_", "signbit_", "logaddexp_", "logaddexp2_", "maximum_", "minimum_"}
# Functions that only move elements: they move those of the mask too.
_MOVING = set(
    """select transpose split t slice expand view _unsafe_view unsqueeze unfold reshape flatten chunk narrow __getitem__
    swapaxes swapdims mT split_with_sizes tensor_split broadcast_to expand_as view_as reshape_as unflatten ravel contiguous
    hsplit vsplit dsplit""".split()
)
_OF_THE_DATA = OF_THE_ELEMENTS | set(
    "shape size stride dim ndim ndimension numel nelement layout is_nested is_contiguous __len__ _base names".split()
)


def answer(cls: type, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result of a call that has a masked tensor among its arguments.

    Raises:
        TypeError: the function has no form for masked tensors.
    """
    name, writes = name_of(func)
    if writes:
        return write_attribute(func, *args)
    if name in _OF_THE_DATA:
        with DisableTorchFunctionSubclass():
            return func(*args, **kwargs)
    if "self" in kwargs:
        kwargs = {"input" if key == "self" else key: value for key, value in kwargs.items()}
    found = ANSWERS.get(name)
    if found is not None and fits(found, args, MaskedTensor):
        return found(func, *args, **kwargs)
    changes = name.endswith("_") and not name.endswith("__")
    plain = name[:-1] if changes else name
    if name not in _NOT_IN_PLACE:
        if plain in _UNARY:
            return _unary(func, changes, *args, **kwargs)
        if plain in _BINARY:
            return _binary(func, changes, args, kwargs)
    if name in _MOVING:
        return _moved(func, args, kwargs)
    raise _refused(cls, aten_name(name, args, kwargs))


def _refused(cls: type, operator: str) -> TypeError:
    return TypeError(
        f"Multiple dispatch failed for 'torch._ops.aten.{operator}'; all __torch_dispatch__ handlers returned "
        f"NotImplemented:\n\n  - tensor subclass {cls!r}\n"
    )


def _data(one: Any) -> Any:
    """The data of a masked tensor, anything else as it is."""
    if isinstance(one, MaskedTensor):
        return data_of(one)
    return type(one)(map(_data, one)) if type(one) in (list, tuple) else one


def _mask(one: Any) -> Any:
    """The mask of a masked tensor, anything else as it is."""
    if isinstance(one, MaskedTensor):
        return one._masked_mask
    return type(one)(map(_mask, one)) if type(one) in (list, tuple) else one


def _unary(func: Any, changes: bool, input: MaskedTensor, *args: Any, **kwargs: Any) -> Any:
    if not isinstance(input, MaskedTensor) or any(isinstance(one, Tensor) for one in args):
        raise TypeError("MaskedTensor unary ops do not support additional Tensor arguments")
    if kwargs and func.__name__ == "round":
        raise ValueError("MaskedTensor unary ops require that len(kwargs) == 0")
    if changes:
        with DisableTorchFunctionSubclass():
            func(input, *args, **kwargs)
        return input
    made = func(data_of(input), *args, **kwargs)
    return wrap(made, input._masked_mask) if isinstance(made, Tensor) else made


def _binary(func: Any, changes: bool, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if kwargs.keys() - {"input", "other"}:
        raise ValueError("len(kwargs) must equal 0")
    args = (*args, *kwargs.values())
    own = [one for one in args if isinstance(one, MaskedTensor)]
    if any(not _same_masks(own[0]._masked_mask, one._masked_mask) for one in own[1:]):
        raise ValueError("Input masks must match. If you need support for this, please open an issue on Github.")
    if changes:
        with DisableTorchFunctionSubclass():
            func(*args)
        return args[0]
    made = func(*map(_data, args))
    if not isinstance(made, Tensor):
        return made  # NotImplemented, of Python's operators
    mask = own[0]._masked_mask
    return wrap(made, mask if made.shape == mask.shape else mask.expand(made.shape))


def _same_masks(first: Tensor, second: Tensor) -> bool:
    if first is second:
        return True
    if first.layout is not second.layout:
        return False
    if first.layout is not torch.strided:
        first, second = first.to_dense(), second.to_dense()
    return torch.equal(first, second)


def _moved(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    data = func(*map(_data, args), **{key: _data(value) for key, value in kwargs.items()})
    mask = func(*map(_mask, args), **{key: _mask(value) for key, value in kwargs.items()})
    if isinstance(data, Tensor):
        return wrap(data, mask)
    return type(data)(wrap(*pair) for pair in zip(data, mask))


@answers("__rtruediv__", "__rdiv__")
def _divided(func: Any, input: MaskedTensor, other: Any) -> MaskedTensor:
    return wrap(func(data_of(input), other), input._masked_mask)


@answers("cat", "concat", "concatenate", "stack", "hstack", "vstack")
def _joined(func: Any, tensors: Any, *args: Any, **kwargs: Any) -> MaskedTensor:
    if not all(isinstance(one, MaskedTensor) for one in tensors):
        raise TypeError("mask must have dtype bool.")
    masks = func([one._masked_mask for one in tensors], *args, **kwargs)
    return wrap(func([data_of(one) for one in tensors], *args, **kwargs), masks)


@answers("where")
def _where(func: Any, *args: Any, **kwargs: Any) -> MaskedTensor:
    condition, first, second = where_operands(func, args, kwargs)
    if isinstance(condition, MaskedTensor) or not all(isinstance(one, Tensor) for one in (first, second)):
        raise TypeError("where() of masked tensors takes a plain condition and two tensors")
    masks = [
        one._masked_mask if isinstance(one, MaskedTensor) else torch.ones_like(one, dtype=torch.bool)
        for one in (first, second)
    ]
    return wrap(torch.where(condition, _data(first), _data(second)), torch.where(condition, *masks))


# Reductions


@answers("sum", "mean", "amin", "amax", "argmin", "argmax", "prod", "all", "norm", "var", "std")
def _reduced(func: Any, input: MaskedTensor, *args: Any, **kwargs: Any) -> MaskedTensor:
    name = func.__name__
    if func is torch.linalg.norm:
        raise _refused(type(input), "linalg_vector_norm.default")
    if kwargs and not args and "dim" not in kwargs and name != "norm":
        raise TypeError("_reduce_dim_args() missing 1 required positional argument: 'dim'")
    unknown = [key for key in kwargs if key not in ("dim", "keepdim", "dtype")]
    if name == "norm":
        unknown = ["p"]
    if unknown:
        raise TypeError(f"_reduce_dim_args() got an unexpected keyword argument '{unknown[0]}'")
    given = {**dict(zip(("dim", "keepdim", "dtype"), args)), **kwargs}
    dim, keepdim, dtype = given.get("dim"), bool(given.get("keepdim", False)), given.get("dtype")
    data, mask = data_of(input), input._masked_mask
    if data.layout is not torch.strided:
        data, mask = data.to_dense(), mask.to_dense()
    if name == "all":
        made = _all(data, mask, dim, keepdim)
    else:
        made = getattr(masked, name)(data, dim, keepdim=keepdim, dtype=dtype, mask=mask)
    return wrap(made, _any(mask, dim, keepdim))


def _all(data: Tensor, mask: Tensor, dim: Any, keepdim: bool) -> Tensor:
    shown = torch.where(mask, data, torch.ones_like(data)).bool()
    return shown.all() if dim is None else shown.all(dim, keepdim)


def _any(mask: Tensor, dim: Any, keepdim: bool) -> Tensor:
    if dim is None:
        return mask.any().reshape([1] * mask.dim() if keepdim else [])
    return mask.any(dim, keepdim)


@answers("softmax", "_softmax")
def _softmax(func: Any, input: MaskedTensor, dim: int, *args: Any, **kwargs: Any) -> MaskedTensor:
    filled = data_of(input).masked_fill(~input._masked_mask, -float("inf"))
    return wrap(func(filled, dim, *args, **kwargs), input._masked_mask)


# Copies and conversions


@answers("detach", "data", "clone", "ones_like")
def _alike(func: Any, input: MaskedTensor, *args: Any, **kwargs: Any) -> MaskedTensor:
    return wrap(func(data_of(input), *args, **kwargs), input._masked_mask)


@answers(
    *"to cpu cuda xpu float double half bfloat16 int long short char byte bool type type_as pin_memory _to_copy".split()
)
def _to(func: Any, input: Any, *args: Any, **kwargs: Any) -> Any:
    plain = [_data(one) for one in (input, *args)]
    made = func(*plain, **kwargs)
    if not isinstance(input, MaskedTensor) or not isinstance(made, Tensor):
        return made
    return input if made is plain[0] else wrap(made, input._masked_mask.to(made.device))


@answers("to_dense", "to_sparse", "to_sparse_coo", "to_sparse_csr")
def _laid_out(func: Any, input: MaskedTensor, *args: Any, **kwargs: Any) -> MaskedTensor:
    data, mask = data_of(input), input._masked_mask
    if func.__name__ == "to_dense":
        if data.layout is torch.strided:
            return input
        return wrap(data.to_dense(), mask.to_dense())
    if data.layout is not torch.strided:
        data, mask = data.to_dense(), mask.to_dense()
    layout = torch.sparse_csr if func.__name__ == "to_sparse_csr" else torch.sparse_coo
    sparse = mask.to_sparse(layout=layout)
    return wrap(data.sparse_mask(sparse), sparse)


@answers("copy_")
def _copied(func: Any, input: MaskedTensor, src: Any, *args: Any) -> MaskedTensor:
    with DisableTorchFunctionSubclass():
        func(input, _data(src), *args)
    return input


@answers("requires_grad_", "detach_", "share_memory_")
def _changed(func: Any, input: MaskedTensor, *args: Any, **kwargs: Any) -> MaskedTensor:
    with DisableTorchFunctionSubclass():
        func(input, *args, **kwargs)
    return input


@answers("item", "__bool__", "__float__", "__int__", "__index__", "is_nonzero")
def _number(func: Any, input: MaskedTensor) -> Any:
    if input._masked_mask.numel() == 1 and not input._masked_mask.item():
        raise ValueError("__torch_dispatch__, aten._local_scalar_dense: expected a mask tensor")
    return func(data_of(input))


@answers("tolist")
def _tolist(func: Any, input: MaskedTensor) -> Any:
    raise RuntimeError(".tolist() is not supported for tensor subclasses, got MaskedTensor")


@answers("numpy", "__array__", "__array_interface__")
def _numpy(func: Any, input: MaskedTensor, *args: Any, **kwargs: Any) -> Any:
    raise RuntimeError(".numpy() is not supported for tensor subclasses.")


@answers("data_ptr")
def _data_ptr(func: Any, input: MaskedTensor) -> int:
    return 0


@answers("is_same_size")
def _is_same_size(func: Any, input: Tensor, other: Tensor) -> bool:
    return input.shape == other.shape


# Derivatives


@answers("grad_fn")
def _grad_fn(func: Any, input: MaskedTensor) -> Any:
    with DisableTorchFunctionSubclass():
        return own_node(func(input))


@answers("grad", "_grad")
def _grad(func: Any, input: MaskedTensor) -> Any:
    with DisableTorchFunctionSubclass():
        own = func(input)
    return None if own is None else wrap(own, input._masked_mask)


@answers("backward")
def _backward(func: Any, *args: Any, **kwargs: Any) -> Any:
    with DisableTorchFunctionSubclass():
        return func(*args, **kwargs)


@answers("grad_of")
def _grad_of(func: Any, outputs: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
    with DisableTorchFunctionSubclass():
        made = func(outputs, inputs, *args, **kwargs)
    inputs = inputs if isinstance(inputs, (list, tuple)) else [inputs]
    return tuple(
        wrap(one, own._masked_mask) if isinstance(own, MaskedTensor) and one is not None else one
        for one, own in zip(made, inputs)
    )


@answers("register_hook")
def _register_hook(func: Any, input: MaskedTensor, hook: Any) -> Any:
    with DisableTorchFunctionSubclass():
        return func(input, lambda gradient: _data(hook(wrap(gradient, input._masked_mask))))
