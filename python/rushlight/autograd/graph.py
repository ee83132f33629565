"""The autograd graph: its nodes, hooks for saved tensors, and edges."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import local
from typing import NamedTuple
from weakref import WeakSet, ref

from rushlight import _C
from rushlight._C import Node
from rushlight._modes import enable_grad
from rushlight.utils.hooks import RemovableHandle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from rushlight import Tensor

__all__ = [
    "GradientEdge",
    "Node",
    "allow_mutation_on_saved_tensors",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "region_activation_memory_budget",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
    "set_override_stale_capture_stream",
    "set_warn_on_accumulate_grad_stream_mismatch",
]


class _HooksDisabled(local):
    """The reason why this thread must not use hooks for saved tensors, or None."""

    reason: str | None = None


_hooks_disabled = _HooksDisabled()


class saved_tensors_hooks:
    """Inside the block, tensors that are saved for backward are stored as `pack(tensor)`. `unpack` restores them.

    >>> x = torch.ones(2, requires_grad=True)
    >>> with torch.autograd.graph.saved_tensors_hooks(lambda t: t.numpy(), torch.from_numpy):
    ...     y = (x * x.detach()).sum()
    >>> y.backward()
    >>> x.grad
    tensor([1., 1.])
    """

    def __init__(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]) -> None:
        self._hooks = (pack_hook, unpack_hook)

    def __enter__(self) -> None:
        if _hooks_disabled.reason is not None:
            raise RuntimeError(_hooks_disabled.reason)
        _C._push_saved_tensors_hooks(*self._hooks)

    def __exit__(self, *_: object) -> None:
        _C._pop_saved_tensors_hooks()


class save_on_cpu(saved_tensors_hooks):
    """Keeps saved tensors in CPU memory until backward needs them. The arguments are accepted.

    >>> x = torch.ones(1, requires_grad=True)
    >>> with torch.autograd.graph.save_on_cpu():
    ...     y = x * x
    >>> y.backward()
    >>> x.grad
    tensor([2.])
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        def pack(tensor: Tensor) -> Any:
            kept = tensor.cpu()
            return tensor.device, kept.pin_memory() if pin_memory and tensor.is_cuda else kept

        def unpack(packed: Any) -> Tensor:
            device, tensor = packed
            return tensor.to(device, non_blocking=pin_memory)

        super().__init__(pack, unpack)


@contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """Inside the block, using `saved_tensors_hooks` raises an error with this message.

    >>> with torch.autograd.graph.disable_saved_tensors_hooks("not here"):
    ...     try:
    ...         with torch.autograd.graph.save_on_cpu():
    ...             pass
    ...     except RuntimeError as error:
    ...         print(error)
    not here
    """
    before, _hooks_disabled.reason = _hooks_disabled.reason, error_message
    try:
        yield
    finally:
        _hooks_disabled.reason = before


class _SavedHandle:
    """A tensor that is saved for backward, and is copied before it is changed in place."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor: Tensor | None = tensor


class _Originals(local):
    """The tensors that this thread has saved inside `allow_mutation_on_saved_tensors`, by storage."""

    kept: dict[int, WeakSet[_SavedHandle]] | None = None


_originals = _Originals()


@contextmanager
def allow_mutation_on_saved_tensors() -> Iterator[None]:
    """Inside the block, tensors that are saved for backward can be changed in place: they are copied first. Backward
    has to run inside the block too.

    >>> x = torch.tensor([2.0], requires_grad=True)
    >>> with torch.autograd.graph.allow_mutation_on_saved_tensors():
    ...     y = x.clone()
    ...     z = y**2
    ...     y.zero_()
    ...     z.backward()
    tensor([0.], grad_fn=<ZeroBackward0>)
    >>> x.grad
    tensor([4.])
    """
    if _originals.kept is not None:
        raise RuntimeError("allow_mutation_on_saved_tensors contexts cannot be nested")
    originals = _originals.kept = {}
    every: WeakSet[_SavedHandle] = WeakSet()

    def pack(tensor: Tensor) -> _SavedHandle:
        kept = _SavedHandle(tensor)
        originals.setdefault(tensor.untyped_storage().data_ptr(), WeakSet()).add(kept)
        every.add(kept)
        return kept

    def unpack(kept: _SavedHandle) -> Tensor:
        if kept.tensor is None:
            raise AssertionError(
                "Trying to backward outside of the 'allow_mutation_on_saved_tensors' contextin which the graph was "
                "originally recorded."
            )
        return kept.tensor

    def copy_before(changed: Tensor) -> None:
        for kept in originals.pop(changed.untyped_storage().data_ptr(), ()):
            if kept.tensor is not None:
                kept.tensor = kept.tensor.detach().clone()

    _C._push_saved_tensors_hooks(pack, unpack)
    _C._set_mutation_hook(copy_before)
    try:
        yield
    finally:
        _C._set_mutation_hook(None)
        _C._pop_saved_tensors_hooks()
        _originals.kept = None
        for kept in every:
            kept.tensor = None


def increment_version(tensor: Tensor | Iterable[Tensor]) -> None:
    """Increments the version of a tensor, or of several, after a change in place that autograd did not see.

    Raises:
        RuntimeError: the argument is not a tensor or an iterable of tensors.

    >>> x = torch.ones(1)
    >>> torch.autograd.graph.increment_version(x)
    >>> x._version
    1
    """
    if isinstance(tensor, _C.Tensor):
        tensor = (tensor,)
    elif not isinstance(tensor, Iterable):
        raise RuntimeError("increment_version expect a Iterable[Tensor] as input")
    for one in tensor:
        _C._increment_version(one)


class GradientEdge(NamedTuple):
    """An edge of the graph: a node, and the index of one of its results. `get_gradient_edge` returns it.

    >>> x = torch.ones(1, requires_grad=True)
    >>> torch.autograd.graph.get_gradient_edge(x * 2).output_nr
    0
    """

    node: Node
    output_nr: int
    ownership_token: Node | None = None


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """The edge of the graph for the gradient of a tensor.

    >>> x = torch.ones(1, requires_grad=True)
    >>> torch.autograd.graph.get_gradient_edge(x * 2).node.name()
    'MulBackward0'
    """
    if not tensor.requires_grad:
        raise RuntimeError("It is not possible to get the gradient edge for a Tensor that does not require gradients")
    node = tensor.grad_fn
    if node is None:
        # A leaf has no node, but every use of it has an edge to its accumulation node.
        with enable_grad():
            use: Any = tensor.view_as(tensor).grad_fn
        node = use.next_functions[0][0]
    return GradientEdge(node, tensor.output_nr)


class _Pass:
    """The gradients that one backward pass has computed so far."""

    def __init__(self, fn: Callable[[Any], None] | None, count: int) -> None:
        self.fn, self.count = fn, count
        self.found: dict[int, Tensor | None] = {}

    def finish(self) -> None:
        found, self.found = self.found, {}
        if self.fn is not None and found:
            self.fn([found.get(place) for place in range(self.count)])


class _Passes(local):
    """The backward pass of each thread. Only the engine owns it, as a callback for the end of the pass, so that nothing
    is left of a pass that ended with an error."""

    _current: Callable[[], _Pass | None] | None = None

    def current(self) -> _Pass | None:
        return None if self._current is None else self._current()

    def begin(self, fn: Callable[[Any], None] | None, count: int) -> _Pass:
        began = _Pass(fn, count)
        _C._queue_callback(began.finish)
        self._current = ref(began)
        return began


def register_multi_grad_hook(
    tensors: Sequence[Tensor], fn: Callable[[Any], None], *, mode: str = "all"
) -> RemovableHandle:
    """Calls ``fn`` in each backward pass that computes gradients of given tensors.

    Args:
        tensors: tensors that require gradients; with ``mode="any"`` others are ignored.
        fn: for ``mode="all"`` it is called at the end of the pass with the list of gradients, None for those that were
            not computed; for ``mode="any"`` it is called with the first gradient that is computed.
        mode: ``"all"`` or ``"any"``.

    >>> a, b = torch.ones(1, requires_grad=True), torch.ones(1, requires_grad=True)
    >>> handle = torch.autograd.graph.register_multi_grad_hook([a, b], print)
    >>> (a + b * 2).sum().backward()
    [tensor([1.]), tensor([2.])]
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    if mode == "any":
        tensors = [tensor for tensor in tensors if tensor.requires_grad]
    else:
        tensors = tuple(tensors)
    count = len(tensors)
    passes = _Passes()

    def hook_of(place: int) -> Callable[[Tensor | None], None]:
        def hook(grad: Tensor | None) -> None:
            if grad is None:
                return
            current = passes.current()
            if current is None:
                current = passes.begin(fn if mode == "all" else None, count)
                if mode == "any":
                    fn(grad)
            current.found[place] = grad

        return hook

    handles = [tensor.register_hook(hook_of(place)) for place, tensor in enumerate(tensors)]

    class Handle(RemovableHandle):
        def __init__(self) -> None:
            super().__init__(OrderedDict())

        def remove(self) -> None:
            for handle in handles:
                handle.remove()

    return Handle()


def region_activation_memory_budget(budget: float) -> AbstractContextManager[None]:
    """Says how much a compiler may save for backward in the block. It has no effect, because nothing is compiled.

    Raises:
        ValueError: the budget is not between 0 and 1.

    >>> with torch.autograd.graph.region_activation_memory_budget(0.5):
    ...     torch.ones(1)
    tensor([1.])
    """
    if not 0 <= budget <= 1:
        raise ValueError(f"torch.autograd.graph.region_activation_memory_budget: must be in [0, 1], got {budget}")
    return nullcontext()


def set_override_stale_capture_stream(enabled: bool) -> None:
    """Accepted. It has no effect.

    >>> torch.autograd.graph.set_override_stale_capture_stream(True)
    """
    _check_switch(enabled)


def set_warn_on_accumulate_grad_stream_mismatch(enabled: bool) -> None:
    """Accepted. It has no effect: there is no such warning.

    >>> torch.autograd.graph.set_warn_on_accumulate_grad_stream_mismatch(False)
    """
    _check_switch(enabled)


def _check_switch(enabled: bool) -> None:
    if not isinstance(enabled, bool):
        raise RuntimeError(f"enabled must be a bool, but got {type(enabled).__name__}")


def __dir__() -> list[str]:
    return __all__
