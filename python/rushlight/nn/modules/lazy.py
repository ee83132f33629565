"""The base of lazy modules, whose parameters have no sizes until the first input."""

from __future__ import annotations

from typing import Any, ClassVar

import rushlight as torch

from ..parameter import is_lazy
from .module import Module

TYPE_CHECKING = False
if TYPE_CHECKING:
    # The class that it is mixed into.
    _Base = Module
else:
    _Base = object

__all__ = ["LazyModuleMixin"]


class LazyModuleMixin(_Base):
    """Makes the parameters of a module take their sizes from the first input.

    The module creates `UninitializedParameter` and `UninitializedBuffer`. Its method ``initialize_parameters`` has the
    arguments of ``forward`` and calls `materialize`. After the first call the class of the module is ``cls_to_become``.

    >>> layer = torch.nn.LazyLinear(2)
    >>> layer.has_uninitialized_params()
    True
    >>> layer(torch.zeros(4, 3)).shape, layer
    (torch.Size([4, 2]), Linear(in_features=3, out_features=2, bias=True))
    """

    cls_to_become: ClassVar[type[Any] | None] = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._load_hook = self._register_load_state_dict_pre_hook(self._lazy_load_hook)
        self._initialize_hook = self.register_forward_pre_hook(self._infer_parameters, with_kwargs=True)

    def _lazy_load_hook(self, state_dict: Any, prefix: str, *_: Any) -> None:
        """Loads a state. Uninitialised parameters take their sizes from it."""
        for name, own in [*self._parameters.items(), *self._buffers.items()]:
            given = state_dict.get(prefix + name)
            if given is not None and is_lazy(own) and not is_lazy(given):
                with torch.no_grad():
                    own.materialize(given.shape)  # type: ignore[union-attr]

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Sets sizes and values of the parameters. It is called with the first input."""
        raise NotImplementedError(f"initialize_parameters is not implemented for {type(self).__name__}")

    def has_uninitialized_params(self) -> bool:
        """Whether a parameter or buffer of this module has no sizes yet."""
        return any(is_lazy(own) for own in [*self._parameters.values(), *self._buffers.values()])

    def _infer_parameters(self, module: Module, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> None:
        self.initialize_parameters(*args, **(kwargs or {}))
        if self.has_uninitialized_params():
            raise RuntimeError(f"module {self._get_name()} has not been fully initialized")
        self._initialize_hook.remove()
        self._load_hook.remove()
        del self._initialize_hook, self._load_hook
        if self.cls_to_become is not None:
            self.__class__ = self.cls_to_become
