"""Properties of strided nested tensors, their copies, and their gradients."""

from __future__ import annotations

import rushlight as torch
from rushlight import Tensor
from rushlight._answers import own_node
from rushlight._C import DisableTorchFunctionSubclass

from .elementwise import in_place
from .registry import answers, dimension, like, packed
from .tensor import NO_SIZES, StridedNestedTensor, buffer_of, refusal, samples_of, wrap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .tensor import StridedNestedTensor as Nested

_NO_STRIDES = "Internal error: NestedTensorImpl doesn't support strides. Please file an issue."


@answers("shape", "__len__", "__iter__", "numpy", "__array__", "flatten", "unflatten", "mse_loss")
def _no_sizes(func: Any, *args: Any, **kwargs: Any) -> Any:
    raise RuntimeError(NO_SIZES)


@answers("stride", "tolist")
def _no_strides(func: Any, *args: Any, **kwargs: Any) -> Any:
    raise RuntimeError(_NO_STRIDES)


@answers("names")
def _no_names(func: Any, input: Nested) -> Any:
    raise AttributeError("'Tensor' object has no attribute 'names'")


@answers("size")
def _size(func: Any, input: Nested, dim: int | None = None) -> int:
    if dim is None:
        raise RuntimeError(NO_SIZES)
    place = dimension(input, dim)
    if place == 0:
        return len(input._geometry.shapes)
    sizes = {shape[place - 1] for shape in input._geometry.shapes}
    if len(sizes) > 1:
        raise RuntimeError(f"Given dimension {place} is irregular and does not have a size.")
    return sizes.pop()


@answers("dim", "ndim", "ndimension")
def _dim(func: Any, input: Nested) -> int:
    return input._geometry.rank


@answers("is_nested")
def _is_nested(func: Any, input: Nested) -> bool:
    return True


@answers("is_contiguous")
def _is_contiguous(func: Any, input: Nested, memory_format: Any = None) -> bool:
    return input._geometry.is_packed()


@answers("is_same_size")
def _is_same_size(func: Any, input: Nested, other: Any) -> bool:
    if not isinstance(other, StridedNestedTensor) or not isinstance(input, StridedNestedTensor):
        raise RuntimeError(
            "Expected both self and other to be nested tensors. "
            f"Self {'is' if input.is_nested else 'is not'} nested. While Other {'is' if other.is_nested else 'is not'} nested."
        )
    return input._geometry.shapes == other._geometry.shapes


@answers("item", "__bool__", "__float__", "__int__", "__index__", "__complex__", "is_nonzero")
def _number(func: Any, input: Nested) -> Any:
    if input.numel() == 1:
        raise refusal("_local_scalar_dense")
    with DisableTorchFunctionSubclass():
        return func(input)


@answers("grad_fn")
def _grad_fn(func: Any, input: Nested) -> Any:
    with DisableTorchFunctionSubclass():
        return own_node(func(input))


@answers("grad", "_grad")
def _grad(func: Any, input: Nested) -> Any:
    with DisableTorchFunctionSubclass():
        own = func(input)
    return None if own is None else wrap(own, input._geometry)


@answers("data", "detach")
def _detached(func: Any, input: Nested) -> Nested:
    return like(buffer_of(input).detach(), input)


@answers("requires_grad_", "detach_", "share_memory_")
def _changed(func: Any, input: Nested, *args: Any, **kwargs: Any) -> Nested:
    with DisableTorchFunctionSubclass():
        func(input, *args, **kwargs)
    return input


@answers("clone")
def _clone(func: Any, input: Nested, **kwargs: Any) -> Nested:
    return like(func(buffer_of(input), **kwargs), input)


@answers("contiguous")
def _contiguous(func: Any, input: Nested, **kwargs: Any) -> Nested:
    return packed(input)


@answers("copy_")
def _copied(func: Any, input: Nested, src: Any, non_blocking: bool = False) -> Nested:
    if not isinstance(src, StridedNestedTensor):
        raise RuntimeError("get_nested_tensor_impl requires a NestedTensor.")
    if input._geometry.shapes != src._geometry.shapes:
        raise RuntimeError("copy_ only supports tensors that are the same size for Nested implementations")
    return in_place(func, input, buffer_of(packed(src)), non_blocking)


@answers(
    *"to cpu cuda xpu float double half bfloat16 int long short char byte bool cfloat cdouble chalf type type_as "
    "pin_memory _to_copy".split()
)
def _to(func: Any, input: Any, *args: Any, **kwargs: Any) -> Any:
    plain = [buffer_of(one) if isinstance(one, StridedNestedTensor) else one for one in (input, *args)]
    made = func(*plain, **kwargs)
    if not isinstance(input, StridedNestedTensor) or not isinstance(made, Tensor):
        return made
    if made.device.type == "meta":
        raise refusal("_to_copy")
    return input if made is plain[0] else like(made, input)


# Derivatives


@answers("backward")
def _backward(func: Any, *args: Any, **kwargs: Any) -> Any:
    names = ("tensors", "gradient" if func is Tensor.backward else "grad_tensors")
    given = {**dict(zip(names, args[:2])), **kwargs}
    tensors, gradients = _apart(given.pop("tensors"), given.pop(names[1], None))
    rest = dict(zip(("retain_graph", "create_graph"), args[2:]))
    return torch.autograd.backward(tensors, gradients, **rest, **given)


def _apart(outputs: Any, gradients: Any) -> tuple[list[Tensor], list[Any] | None]:
    """Nested outputs and their gradients as the tensors of their samples."""
    outputs = list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
    if gradients is None or isinstance(gradients, Tensor):
        gradients = [gradients]
    tensors: list[Tensor] = []
    own: list[Any] = []
    for output, gradient in zip(outputs, gradients):
        if not isinstance(output, StridedNestedTensor):
            tensors.append(output)
            own.append(gradient)
        elif gradient is None:
            raise RuntimeError("grad can be implicitly created only for scalar outputs")
        elif not output.is_same_size(gradient):
            raise RuntimeError("Mismatch in shape: grad_output and output are nested tensors of other sizes.")
        else:
            tensors.extend(samples_of(output))
            own.extend(samples_of(gradient))
    return tensors, own


@answers("grad_of")
def grad_of(func: Any, outputs: Any, inputs: Any, grad_outputs: Any = None, *args: Any, **kwargs: Any) -> Any:
    """`autograd.grad`, with nested gradients of nested inputs."""
    tensors, gradients = _apart(outputs, grad_outputs)
    inputs = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
    with DisableTorchFunctionSubclass():
        made = func(tensors, inputs, gradients, *args, **kwargs)
    return tuple(
        like(one, own) if isinstance(own, StridedNestedTensor) and one is not None else one
        for one, own in zip(made, inputs)
    )


@answers("register_hook")
def _register_hook(func: Any, input: Nested, hook: Any) -> Any:
    def inside(gradient: Tensor) -> Any:
        made = hook(like(gradient, input))
        return buffer_of(made) if isinstance(made, StridedNestedTensor) else made

    with DisableTorchFunctionSubclass():
        return func(input, inside)
