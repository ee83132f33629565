"""Properties of jagged tensors, their copies, and their gradients."""

from __future__ import annotations

import rushlight as torch
from rushlight import Tensor
from rushlight._answers import own_node
from rushlight._C import DisableTorchFunctionSubclass

from .elementwise import in_place
from .nested_tensor import NestedTensor, is_contiguous, like, size_of, values_of, without_holes
from .registry import answers, dimension, same_parts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


@answers("shape")
def _shape(func: Any, input: NestedTensor) -> Any:
    return size_of(input)


@answers("size")
def _size(func: Any, input: NestedTensor, dim: int | None = None) -> Any:
    return size_of(input) if dim is None else size_of(input)[dimension(input, dim)]


@answers("dim", "ndim", "ndimension")
def _dim(func: Any, input: NestedTensor) -> int:
    return values_of(input).dim() + 1


@answers("__len__")
def _len(func: Any, input: NestedTensor) -> int:
    return len(input._ragged)


@answers("stride")
def _stride(func: Any, input: NestedTensor, dim: int | None = None) -> Any:
    own = values_of(input).stride()
    strides = (input._ragged.size * own[input._ragged_idx - 1], *own)
    return strides if dim is None else strides[dimension(input, dim)]


@answers("numel", "nelement")
def _numel(func: Any, input: NestedTensor) -> int:
    values = values_of(input)
    if input._ragged.lengths is None:
        return values.numel()
    rows = values.shape[input._ragged_idx - 1]
    return values.numel() // max(rows, 1) * sum(input._ragged.counts)


@answers("layout")
def _layout(func: Any, input: NestedTensor) -> Any:
    return torch.jagged


@answers("is_nested")
def _is_nested(func: Any, input: NestedTensor) -> bool:
    return True


@answers("_base", "names")
def _no_base(func: Any, input: NestedTensor) -> Any:
    if func.__self__.__name__ == "names":
        raise AttributeError("'NestedTensor' object has no attribute 'names'")
    return None


@answers("data_ptr")
def _data_ptr(func: Any, input: NestedTensor) -> int:
    return 0


@answers("is_contiguous")
def _is_contiguous(func: Any, input: NestedTensor, memory_format: Any = torch.contiguous_format) -> bool:
    return is_contiguous(input)


@answers("is_same_size")
def _is_same_size(func: Any, input: NestedTensor, other: Tensor) -> bool:
    return isinstance(other, NestedTensor) and size_of(input) == size_of(other)


@answers("tolist")
def _tolist(func: Any, input: NestedTensor) -> Any:
    raise RuntimeError(".tolist() is not supported for tensor subclasses, got NestedTensor")


@answers("numpy", "__array__", "__array_interface__")
def _numpy(func: Any, input: NestedTensor, *args: Any, **kwargs: Any) -> Any:
    raise RuntimeError(".numpy() is not supported for tensor subclasses.")


@answers("item", "__bool__", "__float__", "__int__", "__index__", "__complex__", "is_nonzero")
def _number(func: Any, input: NestedTensor) -> Any:
    with DisableTorchFunctionSubclass():
        return func(input)


@answers("grad_fn")
def _grad_fn(func: Any, input: NestedTensor) -> Any:
    with DisableTorchFunctionSubclass():
        return own_node(func(input))


@answers("grad", "_grad")
def _grad(func: Any, input: NestedTensor) -> Any:
    with DisableTorchFunctionSubclass():
        own = func(input)
    return None if own is None else like(own, input)


@answers("data", "detach")
def _detached(func: Any, input: NestedTensor) -> NestedTensor:
    return like(values_of(input).detach(), input)


@answers("detach_", "requires_grad_", "zero_", "fill_", "share_memory_", "normal_", "uniform_", "random_", "bernoulli_")
def _changed(func: Any, input: NestedTensor, *args: Any, **kwargs: Any) -> NestedTensor:
    if func.__name__ in ("requires_grad_", "detach_", "share_memory_"):
        with DisableTorchFunctionSubclass():
            func(input, *args, **kwargs)
        return input
    return in_place(func, input, (input, *args), kwargs)


@answers("fill")
def _filled(func: Any, input: NestedTensor, value: Any) -> NestedTensor:
    return like(func(values_of(input), value), input)


@answers("copy_")
def _copied(func: Any, input: NestedTensor, src: Any, non_blocking: bool = False) -> NestedTensor:
    if not isinstance(src, NestedTensor):
        raise ValueError(
            "NestedTensor copy_default(self: jt_all, src: jt_all, non_blocking: any?): expected src to be a jagged layout "
            "NestedTensor"
        )
    if not same_parts(input, src) and size_of(input)[: input._ragged_idx] != size_of(src)[: input._ragged_idx]:
        raise RuntimeError("copy_ only supports Nested Tensors that have same size and the exact same offset tensor.")
    if not same_parts(input, src):
        raise RuntimeError("copy_ only supports Nested Tensors that have same size and the exact same offset tensor.")
    return in_place(func, input, (input, src, non_blocking), {})


@answers("clone")
def _clone(func: Any, input: NestedTensor, **kwargs: Any) -> NestedTensor:
    return like(func(values_of(input), **kwargs), input)


@answers("contiguous")
def _contiguous(func: Any, input: NestedTensor, **kwargs: Any) -> NestedTensor:
    if is_contiguous(input):
        return input
    compact = without_holes(input)
    return like(values_of(compact).contiguous(), compact)


@answers(
    *"to cpu cuda xpu float double half bfloat16 int long short char byte bool cfloat cdouble chalf type type_as "
    "to_device _to_copy".split()
)
def _to(func: Any, input: Any, *args: Any, **kwargs: Any) -> Any:
    if not isinstance(input, NestedTensor):
        return func(input, *(values_of(one) if isinstance(one, NestedTensor) else one for one in args), **kwargs)
    values = values_of(input)
    made = func(values, *(values_of(one) if isinstance(one, NestedTensor) else one for one in args), **kwargs)
    if made is values:
        return input
    return like(made, input) if isinstance(made, Tensor) else made


@answers("pin_memory")
def _pinned(func: Any, input: NestedTensor, *args: Any, **kwargs: Any) -> NestedTensor:
    return like(func(values_of(input), *args, **kwargs), input)


# Derivatives


@answers("backward")
def _backward(func: Any, *args: Any, **kwargs: Any) -> Any:
    if func is Tensor.backward:
        check_gradients([args[0]], [args[1] if len(args) > 1 else kwargs.get("gradient")])
    else:
        check_gradients(args[0], args[1] if len(args) > 1 else kwargs.get("grad_tensors"))
    with DisableTorchFunctionSubclass():
        return func(*args, **kwargs)


def check_gradients(outputs: Any, gradients: Any) -> None:
    """Checks that gradients of jagged tensors have their parts.

    Raises:
        RuntimeError: the shape of a gradient is another one.
    """
    outputs = outputs if isinstance(outputs, (list, tuple)) else [outputs]
    if isinstance(gradients, Tensor):
        gradients = [gradients]
    for place, (output, gradient) in enumerate(zip(outputs, gradients or ())):
        if isinstance(output, Tensor) and isinstance(gradient, Tensor) and output.is_nested | gradient.is_nested:
            same = output.is_nested and gradient.is_nested and output.is_same_size(gradient)
            if not same:
                raise RuntimeError(
                    f"Mismatch in shape: grad_output[{place}] has a shape of {gradient.shape} and output[{place}] has a "
                    f"shape of {output.shape}."
                )


@answers("grad_of")
def grad_of(func: Any, outputs: Any, inputs: Any, grad_outputs: Any = None, *args: Any, **kwargs: Any) -> Any:
    """`autograd.grad`, with gradients of the same parts as the inputs."""
    check_gradients(outputs, grad_outputs)
    with DisableTorchFunctionSubclass():
        made = func(outputs, inputs, grad_outputs, *args, **kwargs)
    inputs = inputs if isinstance(inputs, (list, tuple)) else [inputs]
    return tuple(
        like(one, own) if isinstance(own, NestedTensor) and one is not None else one for one, own in zip(made, inputs)
    )


@answers("register_hook")
def _register_hook(func: Any, input: NestedTensor, hook: Any) -> Any:
    def inside(gradient: Tensor) -> Any:
        made = hook(like(gradient, input))
        return values_of(made) if isinstance(made, NestedTensor) else made

    with DisableTorchFunctionSubclass():
        return func(input, inside)


@answers("register_post_accumulate_grad_hook")
def _register_post_hook(func: Any, input: NestedTensor, hook: Any) -> Any:
    with DisableTorchFunctionSubclass():
        return func(input, lambda _: hook(input))
