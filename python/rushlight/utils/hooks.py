"""`RemovableHandle`: the result of registering a hook."""

from __future__ import annotations

import warnings
import weakref
from collections import OrderedDict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    from rushlight.nn.modules._backward_hooks import BackwardHook

    F = TypeVar("F", bound=Callable[..., Any])

__all__ = ["BackwardHook", "RemovableHandle", "unserializable_hook", "warn_if_has_hooks"]


def unserializable_hook(f: F) -> F:
    """Marks a hook that should not be saved, and returns it. Hooks of tensors are never saved, so it has no effect.

    >>> unserializable_hook(lambda grad: grad).__torch_unserializable__
    True
    """
    f.__torch_unserializable__ = True  # type: ignore[attr-defined] # torch's mark
    return f


def warn_if_has_hooks(tensor: Any) -> None:
    """Warns about each hook of a tensor that is not marked with `unserializable_hook`, because it will not be saved.

    >>> warn_if_has_hooks(torch.ones(1))
    """
    for hook in (tensor._backward_hooks or {}).values():
        if not hasattr(hook, "__torch_unserializable__"):
            warnings.warn(
                f"backward hook {hook!r} on tensor will not be serialized.  If this is expected, you can decorate the "
                "function with @torch.utils.hooks.unserializable_hook to suppress this warning",
                stacklevel=2,
            )


class RemovableHandle:
    """The result of registering a hook. ``remove()`` removes the hook. It is also a context manager.

    >>> hooks = __import__("collections").OrderedDict()
    >>> handle = RemovableHandle(hooks)
    >>> hooks[handle.id] = print
    >>> handle.remove()
    >>> len(hooks)
    0
    """

    id: int
    next_id: int = 0

    def __init__(self, hooks_dict: Any, *, extra_dict: Any = None) -> None:
        self.hooks_dict_ref = weakref.ref(hooks_dict)
        self.id = RemovableHandle.next_id
        RemovableHandle.next_id += 1
        extras = extra_dict if isinstance(extra_dict, (list, tuple)) else [extra_dict]
        self.extra_dict_ref = tuple(weakref.ref(extra) for extra in extras if extra is not None)

    def remove(self) -> None:
        for reference in (self.hooks_dict_ref, *self.extra_dict_ref):
            hooks = reference()
            if hooks is not None:
                hooks.pop(self.id, None)

    def __getstate__(self) -> tuple[Any, ...]:
        return self.hooks_dict_ref(), self.id, tuple(reference() for reference in self.extra_dict_ref)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        hooks, self.id, extras = state
        self.hooks_dict_ref = weakref.ref(OrderedDict() if hooks is None else hooks)
        self.extra_dict_ref = tuple(weakref.ref(OrderedDict() if extra is None else extra) for extra in extras)
        RemovableHandle.next_id = max(RemovableHandle.next_id, self.id + 1)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()


def __getattr__(name: str) -> Any:
    # Modules import this file.
    if name == "BackwardHook":
        from rushlight.nn.modules._backward_hooks import BackwardHook

        BackwardHook.__module__ = __name__
        globals()[name] = BackwardHook
        return BackwardHook
    from rushlight._missing_names import missing_from

    raise missing_from("torch.utils.hooks", name, __dir__)


def __dir__() -> list[str]:
    return __all__
