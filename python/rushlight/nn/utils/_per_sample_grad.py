"""Gradients of the parameters for each sample of a batch."""

from __future__ import annotations

from functools import wraps

import rushlight as torch
from rushlight.utils import _pytree as pytree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rushlight import Tensor

__all__ = ["call_for_per_sample_grads"]


def call_for_per_sample_grads(
    module: torch.nn.Module,
    *,
    batch_size: int | None = None,
    loss_reduction: str = "sum",
    batch_first: bool = True,
) -> Callable[..., Any]:
    """A function that calls a module, and after whose ``backward`` each parameter has ``grad_sample``: the gradient for
    each sample, stacked. ``grad`` stays as it is.

    Each sample goes through the module by itself, as under `torch.vmap`, with its own copy of the parameters.

    Args:
        module: the module. Its samples must not depend on each other.
        batch_size: the number of samples. Without it the size of the tensors among the arguments.
        loss_reduction: whether the loss is the ``"sum"`` or the ``"mean"`` over the samples.
        batch_first: whether samples are the first dimension of arguments and results, or else the second.

    Raises:
        RuntimeError: an argument is wrong, or a parameter still has the ``grad_sample`` of an earlier call.

    >>> from rushlight.nn.utils._per_sample_grad import call_for_per_sample_grads
    >>> module = torch.nn.Linear(2, 1)
    >>> call_for_per_sample_grads(module)(torch.tensor([[1.0, 2.0], [3.0, 4.0]])).sum().backward()
    >>> module.weight.grad_sample
    tensor([[[1., 2.]],
    <BLANKLINE>
            [[3., 4.]]])
    """
    if loss_reduction not in ("sum", "mean"):
        raise RuntimeError(f"Expected loss_reduction argument to be sum or mean, got {loss_reduction}")
    if not isinstance(module, torch.nn.Module):
        raise RuntimeError(f"Module passed must be nn.Module, got {type(module).__name__}")
    if batch_size is not None and not isinstance(batch_size, int):
        raise RuntimeError(f"Batch size passed must be None or an integer, got {type(batch_size).__name__}")
    if batch_size is not None and batch_size < 1:
        raise RuntimeError(f"Batch size must be positive, got {batch_size}")
    for parameter in module.parameters():
        if getattr(parameter, "grad_sample", None) is not None:
            raise RuntimeError(
                "Current Expanded Weights accumulates the gradients, which will be incorrect for multiple calls without "
                f"clearing gradients. Please clear out the grad_sample parameter of {parameter} or post an issue to "
                "pytorch/pytorch to prioritize correct behavior"
            )
    dim = 0 if batch_first else 1

    @wraps(module.forward)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        leaves, spec = pytree.tree_flatten((args, kwargs))
        size = _batch_size(leaves, dim) if batch_size is None else batch_size
        factor = size if loss_reduction == "mean" else 1
        copies = {
            name: _copies(parameter, size, factor)
            for name, parameter in module.named_parameters()
            if parameter.requires_grad
        }

        def one(copies: dict[str, Tensor], *samples: Any) -> Any:
            # The module sees a batch of one sample.
            whole = [x.unsqueeze(dim) if at is not None else x for x, at in zip(samples, places)]
            args, kwargs = pytree.tree_unflatten(whole, spec)
            result = torch.func.functional_call(module, copies, args, kwargs)
            return pytree.tree_map_only(torch.Tensor, lambda x: x.squeeze(dim), result)

        places = [dim if isinstance(x, torch.Tensor) and x.dim() > dim else None for x in leaves]
        return torch.vmap(one, in_dims=(0, *places), out_dims=dim, randomness="different")(copies, *leaves)

    return wrapper


def _copies(parameter: Tensor, size: int, factor: int) -> Tensor:
    """The parameter for each sample. Its gradient becomes the parameter's ``grad_sample``."""
    expanded = parameter.detach().expand(size, *parameter.shape).requires_grad_()

    def keep(grad: Tensor) -> None:
        found = grad * factor if factor != 1 else grad
        before = getattr(parameter, "grad_sample", None)
        parameter.grad_sample = found if before is None else before + found  # type: ignore[attr-defined]

    expanded.register_hook(keep)
    return expanded


def _batch_size(leaves: list[Any], dim: int) -> int:
    found: int | None = None
    for leaf in leaves:
        if not isinstance(leaf, torch.Tensor):
            continue
        size = leaf.shape[dim]
        if found is not None and size != found:
            raise RuntimeError(
                f"When computing batch size, found at least one input with batch size {found} and one with batch size "
                f"{size}. Please specify it explicitly using the batch size kwarg in call_for_per_sample_grads"
            )
        found = size
    if found is None:
        raise RuntimeError(
            "Unable to find a tensor in the passed args and kwargs. They may not be pytree-able and so ExpandedWeights "
            "cannot compute the batch size from the inputs. Please specify it explicitly"
        )
    return found


def __dir__() -> list[str]:
    return __all__
