"""Weak references by identity, and dictionaries with such keys: for tensors, whose ``==`` compares elements."""

from __future__ import annotations

from collections.abc import MutableMapping
from weakref import ref

import rushlight as torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

__all__ = [
    "TensorWeakRef",
    "WeakIdKeyDictionary",
    "WeakIdRef",
    "WeakRef",
    "WeakTensorKeyDictionary",
]

WeakRef = ref


class WeakIdRef(ref):
    """A weak reference that equals the references to the same object, and keeps its hash when the object is gone.

    >>> x = torch.ones(2)
    >>> torch.utils.weak.WeakIdRef(x) == torch.utils.weak.WeakIdRef(x)
    True
    """

    __slots__ = ["_id"]

    def __init__(self, key: Any, callback: Callable[[Any], Any] | None = None) -> None:
        super().__init__(key, callback)  # type: ignore[call-arg]
        self._id = id(key)

    def __hash__(self) -> int:
        return self._id

    def __eq__(self, other: object) -> bool:
        if self is other or not isinstance(other, WeakIdRef):
            return self is other
        left, right = self(), other()
        return left is not None and left is right

    def __ne__(self, other: object) -> bool:
        return not self == other


class WeakIdKeyDictionary(MutableMapping):
    """A dictionary whose keys are compared by identity, and which forgets an entry when its key is gone.

    Args:
        dict: the first entries.
        ref_type: the class of the references.

    >>> x = torch.ones(2)
    >>> names = torch.utils.weak.WeakIdKeyDictionary({x: "x"})
    >>> names[x]
    'x'
    >>> del x
    >>> len(names)
    0
    """

    def __init__(self, dict: Any = None, ref_type: type = WeakIdRef) -> None:
        self.data: Any = {}
        self.ref_type = ref_type
        own = ref(self)

        def forget(key: Any) -> None:
            mapping = own()
            if mapping is not None:
                mapping.data.pop(key, None)

        self._remove = forget
        if dict is not None:
            self.update(dict)

    def __getitem__(self, key: Any) -> Any:
        return self.data[self.ref_type(key)]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.data[self.ref_type(key, self._remove)] = value

    def __delitem__(self, key: Any) -> None:
        del self.data[self.ref_type(key)]

    def __contains__(self, key: object) -> bool:
        try:
            return self.ref_type(key) in self.data
        except TypeError:  # an object without weak references
            return False

    def __len__(self) -> int:
        return len(self.data)

    def __iter__(self) -> Iterator[Any]:
        for reference in list(self.data):
            key = reference()
            if key is not None:
                yield key

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {id(self):#x}>"

    def keyrefs(self) -> list[Any]:
        """The references to the keys.

        >>> torch.utils.weak.WeakIdKeyDictionary().keyrefs()
        []
        """
        return list(self.data)

    def copy(self) -> WeakIdKeyDictionary:
        """A dictionary with the same keys and values.

        >>> len(torch.utils.weak.WeakIdKeyDictionary().copy())
        0
        """
        return type(self)(self)

    __copy__ = copy


WeakTensorKeyDictionary = WeakIdKeyDictionary


class TensorWeakRef:
    """A weak reference to a tensor.

    >>> x = torch.ones(2)
    >>> reference = torch.utils.weak.TensorWeakRef(x)
    >>> reference() is x
    True
    >>> del x
    >>> reference() is None
    True
    """

    def __init__(self, tensor: torch.Tensor) -> None:
        if not isinstance(tensor, torch.Tensor):
            raise AssertionError(f"expected torch.Tensor, got {type(tensor)}")
        self.ref = WeakRef(tensor)

    def __call__(self) -> torch.Tensor | None:
        return self.ref()


def __dir__() -> list[str]:
    return __all__
