"""The tensors in arguments and results, and those of floating-point numbers in another dtype."""

from __future__ import annotations

import dataclasses

from rushlight._C import Tensor

from ._pytree import tree_leaves

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any


def tensors_in(value: Any) -> list[Tensor]:
    """The tensors in a value: in what `_pytree` takes apart, in subclasses of containers, in sets and in dataclasses.

    >>> from rushlight.utils._tensors import tensors_in
    >>> tensors_in([torch.tensor(1), {"a": (2, torch.tensor(3))}])
    [tensor(1), tensor(3)]
    """
    found: list[Tensor] = []
    for leaf in tree_leaves(value):
        if isinstance(leaf, Tensor):
            found.append(leaf)
        else:
            for part in _parts(leaf):
                found += tensors_in(part)
    return found


def cast(value: Any, dtype: Any) -> Any:
    """A tensor of floating-point numbers in a dtype, or any other value as it is.

    >>> from rushlight.utils._tensors import cast
    >>> cast(torch.ones(1), torch.float16), cast(torch.tensor(1), torch.float16)
    (tensor([1.], dtype=torch.float16), tensor(1))
    """
    floating = isinstance(value, Tensor) and value.is_floating_point()
    return value.to(dtype) if floating else value


def _parts(leaf: Any) -> Iterable[Any]:
    if isinstance(leaf, dict):
        return leaf.values()
    if isinstance(leaf, (list, tuple, set, frozenset)):
        return leaf
    if dataclasses.is_dataclass(leaf) and not isinstance(leaf, type):
        return [getattr(leaf, field.name) for field in dataclasses.fields(leaf)]
    return ()
