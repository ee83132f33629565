"""Implementations of flash attention that libraries register by name. One may be active; attention computes the same."""

from __future__ import annotations

from importlib import import_module
from logging import getLogger

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol

    class Handle(Protocol):
        """What an implementation returns when it is activated."""

        def remove(self) -> None: ...


def _of_package(package: str) -> Callable[..., Any]:
    """The implementation of a package for GPUs, which must be installed."""

    def register(*args: Any, **kwargs: Any) -> Any:
        import_module(package)
        raise NotImplementedError(f"the kernels of {package} are for CUDA devices, and there is no such device")

    return register


_implementations: dict[str, Callable[..., Any]] = {
    "FA3": _of_package("flash_attn_interface"),
    "FA4": _of_package("flash_attn"),
}
#: The active implementation, with the handle that ends it.
_active: list[tuple[str, Handle]] = []


def register_flash_attention_impl(impl: str, *, register_fn: Callable[..., Handle | None]) -> None:
    """Gives a function a name by which `activate_flash_attention_impl` calls it.

    >>> torch.nn.attention.register_flash_attention_impl("mine", register_fn=lambda: None)
    >>> torch.nn.attention.list_flash_attention_impls()
    ['FA3', 'FA4', 'mine']
    """
    _implementations[impl] = register_fn


def activate_flash_attention_impl(impl: str) -> None:
    """Calls the function that was registered under a name, after removing what was active before.

    Raises:
        ValueError: there is no such name.

    >>> try:
    ...     torch.nn.attention.activate_flash_attention_impl("other")
    ... except ValueError as error:
    ...     print(str(error).split(". ")[0])
    Unknown flash attention impl 'other'
    """
    register = _implementations.get(impl)
    if register is None:
        raise ValueError(
            f"Unknown flash attention impl '{impl}'. Available implementations: {list_flash_attention_impls()}"
        )
    restore_flash_attention_impl(False)
    handle = register()
    if handle is not None:
        _active.append((impl, handle))


def current_flash_attention_impl() -> str | None:
    """The name of the active implementation.

    >>> torch.nn.attention.current_flash_attention_impl()
    """
    return _active[-1][0] if _active else None


def list_flash_attention_impls() -> list[str]:
    """The registered names.

    >>> "FA3" in torch.nn.attention.list_flash_attention_impls()
    True
    """
    return sorted(_implementations)


def restore_flash_attention_impl(_raise_warn: bool = True) -> None:
    """Removes the active implementation. If there is none, a warning is logged.

    >>> torch.nn.attention.restore_flash_attention_impl(False)
    """
    if _active:
        _active.pop()[1].remove()
    elif _raise_warn:
        getLogger(__name__).warning("Trying to restore default FA2 impl when no custom impl was activated")
