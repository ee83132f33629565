"""The functions that `DTensor` takes part in."""

import functools
import inspect

import rushlight as torch
from rushlight import _C, Tensor
from rushlight._answers import (
    OF_THE_ELEMENTS,
    answered_by,
    elements,
    name_of,
    own_node,
    registering,
    write_attribute,
)
from rushlight._C import DisableTorchFunctionSubclass
from rushlight._value_checks import _dtype_names

from ._api import DTensor, wrapped
from ._layout import Spec, cut, everywhere, is_cut, order, whole_strides
from ._loss import is_parallel
from ._rules import elementwise
from ._sharded import SHARDED
from .placement_types import Partial, Replicate

#: Functions of each element alone. Their results lie like their arguments. The table has those that are loops of the engine.
ELEMENTWISE = frozenset(
    name.rpartition(".")[2]
    for entry in _C._table()
    if entry["implementation"] == "pointwise"
    for name in (entry["python_name"], *entry["aliases"])
) | frozenset(
    """bernoulli bfloat16 bool byte celu char clamp clip double elu empty_like fill fix float float_power full_like gelu half int
    isclose ldexp long masked_fill multiply nan_to_num negative ones_like relu6 rsub selu short softsign square subtract to
    true_divide type type_as where zero zeros_like __add__ __radd__ __sub__ __rsub__ __mul__ __rmul__ __truediv__ __rtruediv__
    __div__ __rdiv__ __pow__ __rpow__ __neg__ __abs__ __lt__ __le__ __gt__ __ge__ __and__ __or__ __xor__ __invert__ __floordiv__
    __mod__""".split()
)
#: Functions that keep a part as it is, whatever it means.
OF_THE_PART = frozenset("detach clone alias contiguous cpu cuda data pin_memory".split())
#: Methods that concern the part's memory or history.
HISTORY = frozenset(
    """backward register_hook register_post_accumulate_grad_hook data_ptr _backward_hooks requires_grad_
    detach_""".split()
)
#: Methods that give a tensor another shape in place.
RESHAPES = frozenset(
    "as_strided_ resize_ resize_as_ set_ squeeze_ swapaxes_ swapdims_ t_ transpose_ unsqueeze_".split()
)

#: Python's operators that change their first operand, and what is left in its place by those of each element.
CHANGING = {
    "__setitem__": "__setitem__",
    "__ipow__": "pow_",
    "__ifloordiv__": "floor_divide_",
    "__imod__": "remainder_",
    "__iand__": "bitwise_and_",
    "__ior__": "bitwise_or_",
    "__ixor__": "bitwise_xor_",
    "__ilshift__": "bitwise_left_shift_",
    "__irshift__": "bitwise_right_shift_",
}

#: Other names of arguments, and those that the sharding rules have for them.
ALIASES = {
    "axis": "dim",
    "axis0": "dim0",
    "axis1": "dim1",
    "keepdims": "keepdim",
    "mat2": "other",
    "x": "input",
    "x1": "input",
    "x2": "other",
}

ANSWERS: dict = {}
answers = registering(ANSWERS)


def mapped(value, function):
    """A value of lists, tuples and dictionaries with each `DTensor` replaced."""
    if isinstance(value, DTensor):
        return function(value)
    if isinstance(value, (list, tuple)):
        made = [mapped(one, function) for one in value]
        return getattr(type(value), "_make", type(value))(made)
    if isinstance(value, dict):
        return {key: mapped(one, function) for key, one in value.items()}
    return value


def tensors_in(value, kind):
    """The tensors of a class in a value of lists, tuples and dictionaries."""
    if isinstance(value, kind):
        return [value]
    if isinstance(value, (list, tuple)):
        return [tensor for one in value for tensor in tensors_in(one, kind)]
    if isinstance(value, dict):
        return [tensor for one in value.values() for tensor in tensors_in(one, kind)]
    return []


def answer(cls, func, args, kwargs):
    """Calls a function with tensors of which some are on a mesh."""
    name, written = name_of(func)
    if written:
        return write_data(func, *args) if name == "data" else write_attribute(func, *args)
    if name in OF_THE_ELEMENTS or name in HISTORY:
        with DisableTorchFunctionSubclass():
            return func(*args, **kwargs)
    if name == "type" and len(args) + len(kwargs) == 1:
        return func(elements(args[0]))
    if name in ANSWERS:
        return ANSWERS[name](func, *args, **kwargs)
    if name in OF_THE_PART:
        spec = args[0]._spec
        result = func(elements(args[0]), *args[1:], **kwargs)
        return wrapped(result, spec)
    if name in RESHAPES:
        raise NotImplementedError(f"{name}: a DTensor keeps its shape\n  {name[:-1]} returns another tensor.")
    if name.startswith(("_fused_", "_foreach_")) and name != "_foreach_norm":
        return of_lists(func, args, kwargs)
    given = tensors_in((args, kwargs), DTensor)
    specs = [tensor._spec for tensor in given]
    if len({spec.mesh for spec in specs}) > 1:
        raise RuntimeError(
            f"{name}: the tensors are on different meshes: {sorted({repr(spec.mesh) for spec in specs})}"
        )
    # The targets of a parallel loss are whole on every rank.
    plain = [] if name == "cross_entropy" and is_parallel() else tensors_in((args, kwargs), Tensor)
    for one in plain:
        if not isinstance(one, DTensor) and one.dim() > 0:
            raise RuntimeError(
                f"{name}: got mixed torch.Tensor and DTensor, need to convert all torch.Tensor to DTensor before calling "
                "distributed operators!"
            )
    mesh = given[0]._spec.mesh
    name = CHANGING.get(name, name)
    if kwargs.get("out") is not None:
        return into(func, name, args, kwargs)
    changes = changes_first(name, kwargs)
    if all(spec.replicated for spec in specs):
        return whole(func, name, args, kwargs, mesh)
    result = NotImplemented
    if changes:
        if args and name.removesuffix("_") in ELEMENTWISE:
            result = in_place(func, args, kwargs)
    elif name in SHARDED:
        result = by_rule(func, name, args, kwargs)
    elif name in ELEMENTWISE:
        result = elementwise(func, name, args, kwargs, given, put)
    return whole(func, name, args, kwargs, mesh) if result is NotImplemented else result


def by_rule(func, name, args, kwargs):
    """A call by a sharding rule, or NotImplemented if the rule does not know the call's arguments."""
    named = {ALIASES.get(key, key): value for key, value in kwargs.items()}
    try:
        _signature(name).bind(func, *args, **named)
    except TypeError:
        return NotImplemented
    return SHARDED[name](func, *args, **named)


@functools.cache
def _signature(name):
    return inspect.signature(SHARDED[name])


def put(value, parts):
    """A value with each `DTensor` replaced by the next of some parts."""
    left = iter(parts)
    return mapped(value, lambda _: next(left))


def in_place(func, args, kwargs):
    """A function of each element that changes its first argument, which keeps its layout."""
    target = args[0]
    if not isinstance(target, DTensor) or target._spec.partial:
        return NotImplemented
    spec = target._spec
    for tensor in tensors_in((args, kwargs), DTensor):
        if tensor._spec.shape != spec.shape and len(tensor._spec.shape) > 0:
            return NotImplemented
    part = lambda tensor: (
        tensor.full_tensor()
        if len(tensor._spec.shape) == 0
        else elements(tensor if tensor._spec.placements == spec.placements else tensor._moved(spec.placements))
    )
    func(*mapped(args, part), **mapped(kwargs, part))
    return target


def whole(func, name, args, kwargs, mesh):
    """Calls a function with whole tensors, on every rank. The results are on every rank."""
    changes = changes_first(name, kwargs) and bool(args) and isinstance(args[0], DTensor)
    if changes and not args[0]._spec.replicated:
        target, result = args[0], args[0].full_tensor().clone()
        func(result, *mapped(args[1:], DTensor.full_tensor), **mapped(kwargs, DTensor.full_tensor))
        for dim in order(target._spec.placements):
            placement = target._spec.placements[dim]
            if is_cut(placement):
                result = cut(result, target._spec, dim)
            elif isinstance(placement, Partial) and mesh.get_coordinate()[dim] != 0:
                result = torch.zeros_like(result)
        # The functions of `nn.init` change parameters without a history.
        with torch.set_grad_enabled(
            torch.is_grad_enabled() and getattr(func, "__module__", None) != "rushlight.nn.init"
        ):
            elements(target).copy_(result)
        return target
    replicated = lambda tensor: elements(tensor) if tensor._spec.replicated else tensor.full_tensor()
    result = func(*mapped(args, replicated), **mapped(kwargs, replicated))
    return args[0] if changes else on_every_rank(result, mesh)


def changes_first(name, kwargs):
    """Whether a function changes its first argument."""
    return name == "__setitem__" or (name.endswith("_") and not name.endswith("__")) or kwargs.get("inplace") is True


def into(func, name, args, kwargs):
    """A function whose results are written into given tensors.

    Raises:
        RuntimeError: an argument requires gradients, or a tensor is not one on the mesh or of a fitting dtype.
        NotImplementedError: a tensor has another shape than the result.
    """
    if torch.is_grad_enabled() and any(one.requires_grad for one in tensors_in((args, kwargs), Tensor)):
        raise RuntimeError(
            f"{name}(): functions with out=... arguments don't support automatic differentiation, but one of the arguments "
            "requires grad."
        )
    out = kwargs["out"]
    results = func(*args, **{key: value for key, value in kwargs.items() if key != "out"})
    targets = out if isinstance(out, (list, tuple)) else (out,)
    results = results if isinstance(results, (list, tuple)) else (results,)
    for target, result in zip(targets, results, strict=True):
        if not isinstance(target, DTensor):
            raise RuntimeError(f"{name}: the arguments are DTensors, but out is a torch.Tensor")
        if target.shape != result.shape:
            raise NotImplementedError(
                f"{name}: a DTensor keeps its shape, {tuple(target.shape)}, but the result has {tuple(result.shape)}"
            )
        if not torch.can_cast(result.dtype, target.dtype):
            made, wanted = (_dtype_names(one.dtype)[0] for one in (result, target))
            raise RuntimeError(f"result type {made} can't be cast to the desired output type {wanted}")
    for target, result in zip(targets, results):
        target.copy_(result if isinstance(result, DTensor) else on_every_rank(result, target._spec.mesh))
    return out


def on_every_rank(value, mesh):
    """The tensors in a result, as tensors on a mesh."""
    if isinstance(value, Tensor):
        return wrapped(value, Spec(mesh, everywhere(mesh), value.shape))
    if isinstance(value, (list, tuple)):
        made = [on_every_rank(one, mesh) for one in value]
        return getattr(type(value), "_make", type(value))(made)
    return value


def of_lists(func, args, kwargs):
    """A function of lists whose members at one place lie alike: the steps of optimizers, and `_foreach` functions."""
    leading = next((one for one in args if isinstance(one, (list, tuple)) and tensors_in(one, DTensor)), ())
    lists = [one for one in args if isinstance(one, (list, tuple)) and len(one) == len(leading)]
    for members in zip(*lists):
        specs = {tensor._spec.placed(tensor._spec.placements) for tensor in members if isinstance(tensor, DTensor)}
        if len(specs) > 1:
            raise RuntimeError(f"{name_of(func)[0]}: tensors at one place of the lists lie differently: {specs}")
    result = func(*mapped(args, elements), **mapped(kwargs, elements))
    if not isinstance(result, (list, tuple)):
        return result
    specs = [one._spec if isinstance(one, DTensor) else None for one in leading]
    return type(result)(wrapped(one, spec) if spec else one for one, spec in zip(result, specs))


@answers("rand_like", "randn_like", "randint_like")
def _drawn_like(func, input, *args, **kwargs):
    # Every rank draws the whole tensor, so that the numbers do not depend on how it is cut.
    spec = input._spec
    drawn = func(elements(input).new_empty(spec.shape), *args, **kwargs)
    placements = [placement if is_cut(placement) else Replicate() for placement in spec.placements]
    return on_every_rank(drawn, spec.mesh).redistribute(placements=placements)


@answers("_fused_step")
def _fused_step(func, tensors, *args):
    specs = {tensor._spec for tensor in tensors if isinstance(tensor, DTensor)}
    if len(specs) > 1:
        raise RuntimeError(f"the parameter, its gradient and its state lie differently: {specs}")
    return func([elements(tensor) if isinstance(tensor, DTensor) else tensor for tensor in tensors], *args)


@answers("shape")
def _shape(func, tensor):
    return tensor._spec.shape


@answers("size")
def _size(func, tensor, dim=None):
    return tensor._spec.shape if dim is None else tensor._spec.shape[dim]


@answers("dim", "ndim", "ndimension")
def _dim(func, tensor):
    return len(tensor._spec.shape)


@answers("numel", "nelement")
def _numel(func, tensor):
    return tensor._spec.shape.numel()


@answers("stride")
def _stride(func, tensor, dim=None):
    strides = whole_strides(elements(tensor), tensor._spec)
    return strides if dim is None else strides[dim]


@answers("is_contiguous")
def _is_contiguous(func, tensor, *args, **kwargs):
    return func(elements(tensor), *args, **kwargs)


@answers("__len__")
def _len(func, tensor):
    if not tensor._spec.shape:
        raise TypeError("len() of a 0-d tensor")
    return tensor._spec.shape[0]


@answers("layout")
def _layout(func, tensor):
    return torch.strided


@answers("grad_fn")
def _grad_fn(func, tensor):
    with DisableTorchFunctionSubclass():
        return own_node(func(tensor))


@answers("grad")
def _grad(func, tensor):
    with DisableTorchFunctionSubclass():
        grad = func(tensor)
    return None if grad is None else _gradient(elements(grad), tensor)


@answers("grad_of")
def _grad_of(func, outputs, inputs, grad_outputs=None, *args, **options):
    """`torch.autograd.grad`: the gradients of the parts, which lie like the inputs. That of a sum is that of each of its parts."""
    outputs = [outputs] if isinstance(outputs, Tensor) else list(outputs)
    inputs = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    if grad_outputs is not None:
        weights = [grad_outputs] if isinstance(grad_outputs, Tensor) else list(grad_outputs)
        grad_outputs = [_laid_like(weight, output) for weight, output in zip(weights, outputs, strict=True)]
    with DisableTorchFunctionSubclass():
        grads = func(outputs, inputs, grad_outputs, *args, **options)
    return tuple(
        _gradient(elements(grad), one) if isinstance(one, DTensor) and grad is not None else grad
        for one, grad in zip(inputs, grads)
    )


def _gradient(part, tensor):
    """The gradient of a tensor's part, as a tensor on the mesh."""
    return wrapped(part, tensor._spec.placed(_of_gradients(tensor._spec.placements)))


def _of_gradients(placements):
    """How the gradient of a tensor lies: that of a sum is the same for each of its parts."""
    return tuple(Replicate() if placement.is_partial() else placement for placement in placements)


def _laid_like(weight, output):
    """The part of a weight of an output that belongs to the output's part."""
    if not isinstance(weight, DTensor) or not isinstance(output, DTensor):
        return weight
    return elements(weight._moved(_of_gradients(output._spec.placements)))


def write_data(func, tensor, value=None):
    """Replaces the elements. The tensor lies like another on a mesh then; a plain tensor is this rank's part."""
    if not isinstance(tensor, DTensor) or not isinstance(value, Tensor):
        return write_attribute(func, tensor, value)
    if isinstance(value, DTensor):
        spec = value._spec
    elif value.shape == elements(tensor).shape:
        spec = tensor._spec
    else:
        raise RuntimeError(
            f"data: this rank's part has the shape {tuple(elements(tensor).shape)}, but got {tuple(value.shape)}; "
            "give a DTensor to change the shape"
        )
    write_attribute(func, tensor, value)
    tensor._spec = spec


@answers("copy_")
def _copy(func, target, source, non_blocking=False):
    if not isinstance(target, DTensor):
        return func(target, source.full_tensor(), non_blocking)
    if not isinstance(source, DTensor):
        if source.dim() > 0:
            raise RuntimeError(
                "copy_: got mixed torch.Tensor and DTensor, need to convert all torch.Tensor to DTensor before calling "
                "distributed operators!"
            )
        func(elements(target), source, non_blocking)
        return target
    if source._spec.shape != target._spec.shape:
        return whole(func, "copy_", (target, source, non_blocking), {}, target._spec.mesh)
    func(elements(target), elements(source._moved(target._spec.placements)), non_blocking)
    return target


@answers("new_zeros", "new_ones", "new_empty", "new_full", "new_tensor")
def _new(func, tensor, *args, **kwargs):
    return on_every_rank(func(elements(tensor), *args, **kwargs), tensor._spec.mesh)


@answers("_foreach_norm")
def _foreach_norm(func, tensors, *args, **kwargs):
    return tuple(torch.linalg.vector_norm(tensor, *args, **kwargs) for tensor in tensors)


answered_by(DTensor, answer)
