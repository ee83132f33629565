"""The arguments of modules for device and dtype, as keywords for the constructors of tensors."""

from __future__ import annotations

from rushlight._set_module import set_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def factory_kwargs(kwargs: dict[str, Any] | None) -> dict[str, Any]:
    """The keywords ``device``, ``dtype`` and ``memory_format``, given as such or in the keyword ``factory_kwargs``.

    Raises:
        TypeError: there are other keywords, or one is given twice.

    >>> torch.nn.factory_kwargs({"device": "cpu", "factory_kwargs": {"dtype": torch.float64}})
    {'dtype': torch.float64, 'device': 'cpu'}
    """
    if kwargs is None:
        return {}
    known = {"device", "dtype", "memory_format"}
    unknown = kwargs.keys() - known - {"factory_kwargs"}
    if unknown:
        raise TypeError(f"unexpected kwargs {unknown}")
    found = dict(kwargs.get("factory_kwargs", {}))
    for name in known & kwargs.keys():
        if name in found:
            raise TypeError(f"{name} specified twice, in **kwargs and in factory_kwargs")
    found.update((name, kwargs[name]) for name in ("dtype", "device", "memory_format") if name in kwargs)
    return found


set_module("rushlight.nn", factory_kwargs)
