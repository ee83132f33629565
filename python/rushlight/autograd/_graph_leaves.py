"""The leaves of a graph: the tensors at which its gradients are accumulated."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rushlight import Tensor


def leaves_of(tensors: Iterable[Tensor]) -> Iterator[Tensor]:
    """The leaves that a backward pass from these tensors reaches. A tensor without a node is a leaf itself."""
    waiting = []
    for tensor in tensors:
        if tensor.grad_fn is None:
            yield tensor
        else:
            waiting.append(tensor.grad_fn)
    seen = set()
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        leaf = getattr(node, "variable", None)
        if leaf is not None:
            yield leaf
        waiting += [following for following, _ in node.next_functions if following is not None]


def __dir__() -> list[str]:
    return []
