"""Lower precision for the modules of `DistributedDataParallel`, in forward and backward passes alone."""

from __future__ import annotations

from dataclasses import dataclass

import rushlight as torch
from rushlight.autograd import _queue_callback
from rushlight.utils._pytree import tree_map
from rushlight.utils._tensors import cast, tensors_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Generator
    from typing import Any

    #: A registry of parameters and a name there, the parameter, and what is shown in its place.
    Converted = list[tuple[dict[str, Any], str, torch.Tensor, torch.Tensor]]


@dataclass
class _MixedPrecision:
    """The dtypes in which a module of `DistributedDataParallel` computes. Only floating-point tensors are converted.

    Args:
        param_dtype: that of inputs and of parameters in forward and backward. Otherwise parameters, and so checkpoints, and their
            gradients have their own dtype.
        reduce_dtype: that in which gradients are reduced, by default `param_dtype`.
        buffer_dtype: that of buffers.

    >>> from rushlight.nn.parallel.distributed import _MixedPrecision
    >>> _MixedPrecision(param_dtype=torch.bfloat16).reduce_dtype is None
    True
    """

    param_dtype: torch.dtype | None = None
    reduce_dtype: torch.dtype | None = None
    buffer_dtype: torch.dtype | None = None


class LowerPrecision:
    """Lets a module have its parameters in another dtype while it computes.

    The converted tensors are differentiable, so that gradients reach the parameters in full precision, and add up there. Backward
    shows them again, for checkpoints that repeat a forward.
    """

    def __init__(self, module: torch.nn.Module, dtype: torch.dtype, ignored: Collection[str]) -> None:
        self._dtype = dtype
        self._places = []
        for prefix, owner in module.named_modules():
            for name in owner._parameters:
                if (f"{prefix}.{name}" if prefix else name) not in ignored:
                    self._places.append((owner, name))

    def call(self, module: torch.nn.Module, args: Any, kwargs: Any) -> Any:
        """Calls the module."""
        args, kwargs = tree_map(lambda value: cast(value, self._dtype), (args, kwargs))
        converted = self._convert()
        shown = _show(converted)
        next(shown)
        try:
            output = module(*args, **kwargs)
        finally:
            shown.close()

        def before_backward(_: torch.Tensor) -> None:
            shown = _show(converted)
            next(shown)
            # If an error ends the pass, the callback is dropped, which closes it as well.
            _queue_callback(shown.close)

        for tensor in tensors_in(output):
            if tensor.requires_grad:
                tensor.register_hook(before_backward)
        return output

    def _convert(self) -> Converted:
        """The converted parameters. One that lies in several places is converted once."""
        found: dict[int, torch.Tensor] = {}
        converted = []
        for owner, name in self._places:
            registry: dict[str, Any] = owner._parameters
            parameter = registry[name]
            if parameter is not None:
                if id(parameter) not in found:
                    found[id(parameter)] = cast(parameter, self._dtype)
                converted.append((registry, name, parameter, found[id(parameter)]))
        return converted


def _show(converted: Converted) -> Generator[None, None, None]:
    """Shows the converted parameters from its first step until it is closed."""
    for registry, name, _, tensor in converted:
        registry[name] = tensor
    try:
        yield
    finally:
        for registry, name, parameter, tensor in converted:
            # Several passes may have one backward. Then each hides its own.
            if registry[name] is tensor:
                registry[name] = parameter
