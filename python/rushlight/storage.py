"""`torch.storage`: a tensor's bytes, and the same counted in elements of one dtype."""

from __future__ import annotations

import os

import rushlight as torch
from rushlight._C import UntypedStorage as UntypedStorage
from rushlight._utils import view_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Self

    from rushlight import Tensor, device, dtype

__all__ = ["TypedStorage", "UntypedStorage"]


class TypedStorage:
    """All elements of a storage, whatever tensors see of it; what ``Tensor.storage`` gives.

    >>> x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> len(x[0].storage()), x[0].storage()[3]
    (4, 4.0)
    """

    def __init__(self, storage: UntypedStorage, dtype: dtype) -> None:
        self.dtype = dtype
        self._storage = storage

    def untyped(self) -> UntypedStorage:
        """The bytes."""
        return self._storage

    def _elements(self) -> Tensor:
        return torch.empty(0, dtype=self.dtype, device=self.device).set_(self._storage)

    @property
    def device(self) -> device:
        """Where the bytes are."""
        return self._storage.device

    def __len__(self) -> int:
        return self.nbytes() // self.element_size()

    def size(self) -> int:
        """How many elements there are."""
        return len(self)

    def element_size(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self._storage.nbytes()

    def data_ptr(self) -> int:
        """The address of the first byte."""
        return self._storage.data_ptr()

    def _place(self, index: Any) -> int:
        if not isinstance(index, int):
            raise RuntimeError(f"can't index a {type(self)} with {type(index)}")
        if not -len(self) <= index < len(self):
            raise IndexError(f"index {index} out of range for storage of size {len(self)}")
        return index

    def __getitem__(self, index: int) -> Any:
        if isinstance(index, slice):
            raise RuntimeError("slices are only supported in UntypedStorage.__getitem__")
        return self._elements()[self._place(index)].item()

    def __setitem__(self, index: int | slice, value: Any) -> None:
        self._elements()[index if isinstance(index, slice) else self._place(index)] = value

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def tolist(self) -> list[Any]:
        """The elements as Python's numbers."""
        return self._elements().tolist()

    def fill_(self, value: Any) -> Self:
        """Writes one number everywhere."""
        self._elements().fill_(value)
        return self

    def copy_(self, source: TypedStorage, non_blocking: bool = False) -> Self:
        """Takes over the elements of a storage of the same size, cast to this one's dtype."""
        self._elements().copy_(source._elements(), non_blocking=non_blocking)
        return self

    def clone(self) -> TypedStorage:
        """A copy."""
        return TypedStorage(self._storage.clone(), self.dtype)

    def cpu(self) -> TypedStorage:
        """The elements on the host, where they are."""
        return TypedStorage(self._storage.cpu(), self.dtype)

    def pin_memory(self, device: Any = None) -> TypedStorage:
        """The elements, with a warning: pinned memory is for cards, and there is none."""
        return TypedStorage(self._storage.pin_memory(device), self.dtype)

    def is_pinned(self, device: Any = None) -> bool:
        """Whether the bytes are pinned for a card: never."""
        return False

    @property
    def is_cuda(self) -> bool:
        """Whether the bytes are on a card."""
        return self._storage.is_cuda

    def type(self) -> str:
        """The old name of a storage of this dtype: ``"torch.FloatStorage"``."""
        return torch.empty(0, dtype=self.dtype).type().replace("Tensor", "Storage")

    def is_shared(self) -> bool:
        """Whether other processes can have the bytes too."""
        return self._storage.is_shared()

    def share_memory_(self) -> Self:
        """Moves the bytes into shared memory."""
        self._storage.share_memory_()
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TypedStorage) and (self._storage, self.dtype) == (other._storage, other.dtype)

    def __hash__(self) -> int:
        return hash((self._storage, self.dtype))

    def __repr__(self) -> str:
        elements = "".join(f" {element}\n" for element in self)
        return f"{elements}[torch.storage.TypedStorage(dtype={self.dtype}, device={self.device}) of size {len(self)}]"


def from_file(
    filename: str | os.PathLike[str],
    shared: bool | None = None,
    size: int = 0,
    *,
    dtype: dtype | None = None,
    layout: torch.layout | None = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """The first ``size`` numbers of a file as a tensor over the mapped file.

    Args:
        filename: the path.
        shared: whether what is written to the tensor goes to the file, which is made, or made longer, if it is too short;
            else it stays in this process.
        size: how many numbers.
        dtype: what the bytes are taken for.
        layout: `torch.strided`, the only one.
        device: the CPU, the only one.
        pin_memory: accepted and without effect.
        requires_grad: whether the result collects gradients.

    Raises:
        RuntimeError: a file that is not there, or is too short. The same where somebody shortens it later and the tensor is
            read.

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "numbers")
    ...     x = torch.from_file(path, shared=True, size=3, dtype=torch.uint8).fill_(65)
    ...     open(path, "rb").read()
    b'AAA'
    """
    dtype = torch.get_default_dtype() if dtype is None else dtype
    if device is not None and torch.device(device).type != "cpu":
        raise RuntimeError("from_file: files are mapped into the memory of the CPU")
    storage = UntypedStorage.from_file(os.fspath(filename), bool(shared), size * dtype.itemsize)
    return view_of(storage, dtype, 0, (size,), (1,)).requires_grad_(requires_grad)


def __dir__() -> list[str]:
    return __all__
