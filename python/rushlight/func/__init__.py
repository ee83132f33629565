"""Function transforms: derivatives and `vmap`, which can be combined with each other and with `backward`."""

from __future__ import annotations

import functools

import rushlight as torch
from rushlight._set_module import set_public_module

from ._rearrange import rearrange
from ._transforms import grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, vjp
from ._vmap import vmap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from rushlight import Tensor
    from rushlight.nn import Module

__all__ = [
    "debug_unwrap",
    "functional_call",
    "functionalize",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "rearrange",
    "replace_all_batch_norm_modules_",
    "stack_module_state",
    "vjp",
    "vmap",
]


def debug_unwrap(tensor: Tensor, *, recurse: bool = True) -> Tensor:
    """The tensor with the samples of `vmap` as dimensions, to look at it in a debugger.

    Args:
        tensor: a tensor; one without samples is returned as it is.
        recurse: whether the samples of all transforms are shown, or only those of the innermost one.

    >>> def show(x):
    ...     print(torch.func.debug_unwrap(x))
    ...     return x
    >>> _ = torch.vmap(show)(torch.tensor([1.0, 2.0]))
    tensor([1., 2.])
    """
    from rushlight._built_in._functorch import get_unwrapped, is_batchedtensor

    while is_batchedtensor(tensor):
        tensor = get_unwrapped(tensor)
        if not recurse:
            break
    return tensor


def functional_call(
    module: Module,
    parameter_and_buffer_dicts: dict[str, Tensor] | Sequence[dict[str, Tensor]],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Calls a module with parameters and buffers that replace its own.

    Args:
        module: the module to call.
        parameter_and_buffer_dicts: tensors by their names in the state dictionary, or several such dictionaries. The
            module's own tensors are used for other names.
        args, kwargs: the arguments of the module; ``args`` that is not a tuple is the only argument.
        tie_weights: whether a tied parameter is replaced under all of its names.
        strict: whether exactly the names of the module must be given.

    Raises:
        RuntimeError: ``strict`` is set and the names differ.
        ValueError: a tied parameter is given different tensors, or a name is in two dictionaries.

    >>> layer = torch.nn.Linear(2, 1, bias=False)
    >>> torch.func.functional_call(layer, {"weight": torch.ones(1, 2)}, torch.tensor([1.0, 2.0]))
    tensor([3.])
    """
    from rushlight.nn.utils.stateless import _functional_call

    given = parameter_and_buffer_dicts
    if not isinstance(given, dict):
        if not isinstance(given, (list, tuple)):
            raise ValueError(
                f"Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got {type(given)}"
            )
        if not all(isinstance(part, dict) for part in given):
            raise ValueError("Expected all elements of parameter_and_buffer_dicts to be dictionaries")
        names = [name for part in given for name in part]
        repeated = list(dict.fromkeys(name for name in names if names.count(name) > 1))
        if repeated:
            raise ValueError(f"{repeated} appeared in multiple dictionaries; behavior of functional call is ambiguous")
        given = {name: tensor for part in given for name, tensor in part.items()}
    return _functional_call(module, given, args, kwargs, tie_weights=tie_weights, strict=strict)


def functionalize(func: Callable[..., Any], *, remove: str = "mutations") -> Callable[..., Any]:
    """Returns the function. In torch it removes in-place operations for tracers. There are no tracers here, so that the
    function runs unchanged.

    Raises:
        RuntimeError: ``remove`` is neither ``"mutations"`` nor ``"mutations_and_views"``.

    >>> torch.func.functionalize(lambda x: x.clone().add_(1))(torch.zeros(2))
    tensor([1., 1.])
    """
    if remove not in ("mutations", "mutations_and_views"):
        raise RuntimeError(
            f"functionalize(f, remove='mutations'): received invalid argument for remove={remove}. Valid options are:\n"
            "     remove='mutations': all inplace and out= operators will be removed from the program, and replaced "
            "with their out-of-place equivalents.\n"
            "     remove='mutations_and_views': In addition to the above, all aliasing operators {view} will be replaced "
            "with their non-aliasing counterparts, {view}_copy."
        )

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return func(*args, **kwargs)

    return wrapped


def stack_module_state(models: Sequence[Module]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Stacks the parameters and buffers of several modules of one class along a new first dimension, for `vmap`.

    >>> parameters, buffers = torch.func.stack_module_state([torch.nn.Linear(3, 2) for _ in range(5)])
    >>> parameters["weight"].shape
    torch.Size([5, 2, 3])
    """
    models = list(models)
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if not (all(model.training for model in models) or not any(model.training for model in models)):
        raise RuntimeError("stack_module_state: Expected all models to have the same training/eval mode.")
    if len({type(model) for model in models}) > 1:
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")

    def stacked(tensors: list[Any]) -> Tensor:
        whole = torch.stack([tensor.detach() for tensor in tensors])
        return whole.requires_grad_(tensors[0].requires_grad)

    parameters = [dict(model.named_parameters()) for model in models]
    buffers = [dict(model.named_buffers()) for model in models]
    return (
        {name: stacked([own[name] for own in parameters]) for name in parameters[0]},
        {name: stacked([own[name] for own in buffers]) for name in buffers[0]},
    )


def replace_all_batch_norm_modules_(root: Module) -> Module:
    """Removes the running statistics of all batch normalisations in a module, so that calls do not change state.
    Returns the module.

    >>> model = torch.nn.Sequential(torch.nn.BatchNorm1d(2))
    >>> torch.func.replace_all_batch_norm_modules_(model)[0].running_mean is None
    True
    """
    from rushlight.nn.modules.batchnorm import _BatchNorm

    for module in root.modules():
        if isinstance(module, _BatchNorm):
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root


def __dir__() -> list[str]:
    return __all__


set_public_module(globals())
