"""Creates modules without initialising their weights."""

from __future__ import annotations

import inspect

from ..modules.module import Module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar

    M = TypeVar("M", bound=Module)

__all__ = ["skip_init"]


def skip_init(module_cls: type[M], *args: Any, **kwargs: Any) -> M:
    """Creates a module with uninitialised parameters. The class must accept ``device``.

    Raises:
        RuntimeError: the class is not a subclass of `Module`, or does not accept ``device``.

    >>> torch.nn.utils.skip_init(torch.nn.Linear, 2, 3).weight.shape
    torch.Size([3, 2])
    """
    if not issubclass(module_cls, Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    device = kwargs.pop("device", "cpu")
    return module_cls(*args, device="meta", **kwargs).to_empty(device=device)
