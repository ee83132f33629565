"""`torch.utils.module_tracker`: which modules run now, forward or backward."""

from __future__ import annotations

import weakref
from functools import partial

import rushlight as torch
from rushlight.autograd import _queue_callback
from rushlight.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from ._pytree import tree_leaves

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any, Self

__all__ = ["ModuleTracker"]


class ModuleTracker:
    """A context manager that lists the modules that run now, in the forward or the backward pass.

    Attributes:
        parents: the names of these modules, from the class of the outermost one: ``{"Global", "Model", "Model.linear"}``.
            ``"Global"`` is always one of them.
        is_bw: whether the backward pass of a module runs.

    >>> seen = []
    >>> model = torch.nn.Sequential(torch.nn.Identity())
    >>> with torch.utils.module_tracker.ModuleTracker() as tracker:
    ...     _ = model[0].register_forward_pre_hook(lambda *_: seen.append(sorted(tracker.parents)))
    ...     _ = model(torch.ones(1))
    >>> seen
    [['Global', 'Sequential', 'Sequential.0']]
    """

    parents: set[str]

    def __init__(self) -> None:
        self.parents = {"Global"}
        self.is_bw = False
        self._restored_later = False
        self._names: weakref.WeakKeyDictionary[torch.nn.Module, str] = weakref.WeakKeyDictionary()
        self._handles: list[Any] = []

    def _before_change(self) -> None:
        """Is called before `parents` changes."""

    def __enter__(self) -> Self:
        self._handles = [
            register_module_forward_pre_hook(self._enter_module),
            register_module_forward_hook(self._leave_module, always_call=True),
        ]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def _name_of(self, module: torch.nn.Module) -> str:
        if module not in self._names:
            self._know(module, type(module).__name__)
        return self._names[module]

    def _know(self, module: torch.nn.Module, name: str) -> None:
        if module in self._names:
            return
        self._names[module] = name
        for part, child in module.named_children():
            self._know(child, f"{name}.{part}")

    def _change(self, name: str, add: bool, backward: bool) -> None:
        self._before_change()
        if backward and not self._restored_later:
            # The gradients of a model's inputs, which would end its backward pass, may be unknown.
            before = set(self.parents)
            self._restored_later = True
            _queue_callback(lambda: self._restore(before))
        self.is_bw = backward
        (self.parents.add if add else self.parents.discard)(name)

    def _restore(self, before: set[str]) -> None:
        self._before_change()
        self.parents, self.is_bw, self._restored_later = before, False, False

    def _on_gradients(self, tensors: Any, name: str, add: bool) -> None:
        """Adds a name with the first gradient of these tensors, or removes it with the last one."""
        tracked = [one for one in tree_leaves(tensors) if isinstance(one, torch.Tensor) and one.requires_grad]
        left = set(range(len(tracked)))

        def hook(place: int, _: torch.Tensor) -> None:
            if add:
                self._change(name, True, True)
                return
            left.discard(place)
            if not left:
                left.update(range(len(tracked)))
                self._change(name, False, True)

        for place, tensor in enumerate(tracked):
            self._handles.append(tensor.register_hook(partial(hook, place)))

    def _enter_module(self, module: torch.nn.Module, args: Any) -> None:
        name = self._name_of(module)
        self._change(name, True, False)
        self._on_gradients(args, name, False)

    def _leave_module(self, module: torch.nn.Module, args: Any, output: Any) -> None:
        name = self._name_of(module)
        self._change(name, False, False)
        self._on_gradients(output, name, True)


def __dir__() -> list[str]:
    return __all__
