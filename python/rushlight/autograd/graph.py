"""The graph behind a result: its nodes, and how saved tensors are stored."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from contextlib import contextmanager
from threading import local
from typing import NamedTuple
from weakref import WeakSet

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
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
]


class _Forbidden(local):
    """Why this thread may not use hooks of saved tensors, if it may not."""

    reason: str | None = None


_forbidden = _Forbidden()


class saved_tensors_hooks:
    """Stores what the functions called inside keep for backward as `pack(tensor)`; `unpack` gives it back.

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
        if _forbidden.reason is not None:
            raise RuntimeError(_forbidden.reason)
        _C._push_saved_tensors_hooks(*self._hooks)

    def __exit__(self, *_: object) -> None:
        _C._pop_saved_tensors_hooks()


class save_on_cpu(saved_tensors_hooks):
    """Keeps saved tensors in host memory until backward asks for them. The arguments are accepted.

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
    """Inside, `saved_tensors_hooks` is an error with this message.

    >>> with torch.autograd.graph.disable_saved_tensors_hooks("not here"):
    ...     try:
    ...         with torch.autograd.graph.save_on_cpu():
    ...             pass
    ...     except RuntimeError as error:
    ...         print(error)
    not here
    """
    before, _forbidden.reason = _forbidden.reason, error_message
    try:
        yield
    finally:
        _forbidden.reason = before


class _Kept:
    """A tensor that a function keeps for backward, and which is copied before anything changes it."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor: Tensor | None = tensor


class _Originals(local):
    """What this thread's functions keep inside of `allow_mutation_on_saved_tensors`, by the storage that it lies in."""

    kept: dict[int, WeakSet[_Kept]] | None = None


_originals = _Originals()


@contextmanager
def allow_mutation_on_saved_tensors() -> Iterator[None]:
    """Inside, tensors that functions keep for backward may be changed in place: they are copied before. Backward has to run
    inside too.

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
    every: WeakSet[_Kept] = WeakSet()

    def pack(tensor: Tensor) -> _Kept:
        kept = _Kept(tensor)
        originals.setdefault(tensor.untyped_storage().data_ptr(), WeakSet()).add(kept)
        every.add(kept)
        return kept

    def unpack(kept: _Kept) -> Tensor:
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
    _C._watch_changes(copy_before)
    try:
        yield
    finally:
        _C._watch_changes(None)
        _C._pop_saved_tensors_hooks()
        _originals.kept = None
        for kept in every:
            kept.tensor = None


def increment_version(tensor: Tensor | Iterable[Tensor]) -> None:
    """Counts a change in place of a tensor, or of each of several, that happened behind autograd's back.

    Raises:
        RuntimeError: anything else.

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
    """Where a tensor's gradient arrives: the node, and which of its results the tensor is; `get_gradient_edge` finds it.

    >>> x = torch.ones(1, requires_grad=True)
    >>> torch.autograd.graph.get_gradient_edge(x * 2).output_nr
    0
    """

    node: Node
    output_nr: int
    ownership_token: Node | None = None


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """The edge of the graph on which a tensor's gradient arrives.

    >>> x = torch.ones(1, requires_grad=True)
    >>> torch.autograd.graph.get_gradient_edge(x * 2).node.name()
    'MulBackward0'
    """
    if not tensor.requires_grad:
        raise RuntimeError("It is not possible to get the gradient edge for a Tensor that does not require gradients")
    node = tensor.grad_fn
    if node is None:
        # The node that adds to a leaf's gradient stands behind any use of it.
        with enable_grad():
            use: Any = tensor.view_as(tensor).grad_fn
        node = use.next_functions[0][0]
    return GradientEdge(node, tensor.output_nr)


def register_multi_grad_hook(
    tensors: Sequence[Tensor], fn: Callable[[Any], None], *, mode: str = "all"
) -> RemovableHandle:
    """Calls ``fn`` in each backward pass that computes gradients of some tensors.

    Args:
        tensors: that require gradients; with ``mode="any"`` those that do not are left out.
        fn: gets for ``mode="all"`` the list of all gradients, None for those that the pass did not compute, at the pass's
            end; for ``mode="any"`` the first gradient that is computed.
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
    found: dict[int, Tensor] = {}

    def finish() -> None:
        if mode == "all":
            fn([found.get(place) for place in range(len(tensors))])
        found.clear()

    def hook_of(place: int) -> Callable[[Tensor], None]:
        def hook(grad: Tensor) -> None:
            if not found:
                _C._queue_callback(finish)
                if mode == "any":
                    fn(grad)
            found[place] = grad

        return hook

    handles = [tensor.register_hook(hook_of(place)) for place, tensor in enumerate(tensors)]

    class Handle(RemovableHandle):
        def __init__(self) -> None:
            super().__init__(OrderedDict())

        def remove(self) -> None:
            for handle in handles:
                handle.remove()

    return Handle()


def __dir__() -> list[str]:
    return __all__
