"""`MaskedTensor`: a tensor, and a mask that is true where its elements are valid.

A masked tensor is the tensor of its data, with the mask beside it. So the engine records its history and its gradient
like those of any tensor. The functions that it takes part in are in `functions`.
"""

from __future__ import annotations

from copy import deepcopy

import rushlight as torch
from rushlight import Tensor
from rushlight._answers import answered_by
from rushlight._answers import elements as data_of
from rushlight._C import _disabled_torch_function_impl, _expect_overrides
from rushlight._warnings import warn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from typing_extensions import TypeIs

__all__ = ["MaskedTensor", "is_masked_tensor"]

_LAYOUTS = {torch.strided, torch.sparse_coo, torch.sparse_csr}
_DTYPES = {
    torch.float16,
    torch.float32,
    torch.float64,
    torch.bool,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
}


class MaskedTensor(Tensor):
    """A tensor with a mask of its valid elements. Functions leave out the others, and keep the mask.

    Args:
        data: the elements, of a real dtype or bool.
        mask: a bool tensor of the same shape, true where an element is valid.
        requires_grad: whether gradients are computed with respect to it.

    Raises:
        TypeError: an argument is not a tensor, or has a dtype that is not supported.
        ValueError: the shapes differ.

    >>> torch.masked.MaskedTensor(torch.tensor([1.0, 2.0]), torch.tensor([True, False])) + 1
    MaskedTensor(
      [  2.0000,       --]
    )
    """

    _masked_mask: Tensor

    def __new__(cls, data: Tensor, mask: Tensor, requires_grad: bool = False) -> MaskedTensor:
        made = copied(data, mask)
        leaf: MaskedTensor = Tensor._make_subclass(cls, data_of(made), bool(requires_grad))
        leaf._masked_mask = made._masked_mask
        return leaf

    __torch_function__ = _disabled_torch_function_impl  # type: ignore[assignment] # until the class is complete

    @property
    def _masked_data(self) -> Tensor:
        return data_of(self)

    def get_data(self) -> Tensor:
        """The elements, also those that are not valid."""
        return data_of(self)

    def get_mask(self) -> Tensor:
        """The mask, which is true where an element is valid."""
        return self._masked_mask

    def to_tensor(self, value: float) -> Tensor:
        """A plain tensor with ``value`` in place of the elements that are not valid."""
        return data_of(self).masked_fill(~self._masked_mask, value)

    def is_sparse_coo(self) -> bool:
        """Whether the layout is `torch.sparse_coo`."""
        return self.layout is torch.sparse_coo

    def is_sparse_csr(self) -> bool:  # type: ignore[override] # a method in torch too
        """Whether the layout is `torch.sparse_csr`."""
        return self.layout is torch.sparse_csr

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        data, mask = data_of(self).detach(), self._masked_mask
        if data.layout is not torch.strided:
            data, mask = data.to_dense(), mask.to_dense()
        text = _text(data, mask)
        if data.dim() == 0:
            return f"MaskedTensor({text}, {mask.item()})"
        inside = "\n".join(f"  {line}" for line in text.splitlines())
        return f"MaskedTensor(\n{inside}\n)"

    def __format__(self, form: str) -> str:
        return format(repr(self), form)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) in memo:
            return memo[id(self)]
        if not self.is_leaf:
            return Tensor.__deepcopy__(data_of(self), memo)  # raises torch's error
        made = wrap(data_of(self).detach().clone(), self._masked_mask.clone()).requires_grad_(self.requires_grad)
        memo[id(self)] = made
        if self.grad is not None:
            made.grad = deepcopy(self.grad, memo)
        return made

    def __copy__(self) -> MaskedTensor:
        return wrap(data_of(self).detach(), self._masked_mask).requires_grad_(self.requires_grad)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return _rebuild, (data_of(self).detach(), self._masked_mask, self.requires_grad)


def _answer(cls: type, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    from .functions import answer

    return answer(cls, func, args, kwargs)


answered_by(MaskedTensor, _answer)


def _rebuild(data: Tensor, mask: Tensor, requires_grad: bool) -> MaskedTensor:
    """The tensor of a pickle."""
    return wrap(data, mask).requires_grad_(requires_grad)


def is_masked_tensor(obj: Any, /) -> TypeIs[MaskedTensor]:
    """Whether an object is a masked tensor.

    >>> torch.masked.is_masked_tensor(torch.ones(1))
    False
    """
    return isinstance(obj, MaskedTensor)


def copied(data: Tensor, mask: Tensor) -> MaskedTensor:
    """The masked tensor of a copy of data, with their history, and with torch's warnings."""
    _check_tensors(data, mask)
    warn(
        "The PyTorch API of MaskedTensors is in prototype stage and will change in the near future. Please open a Github "
        "issue for features requests and see our documentation on the torch.masked module for further information about "
        "the project."
    )
    if data.requires_grad:
        warn(
            "It is not recommended to create a MaskedTensor with a tensor that requires_grad. To avoid this, you can use "
            "data.detach().clone()"
        )
    return wrap(data.clone(), mask.clone())


def wrap(data: Tensor, mask: Tensor) -> MaskedTensor:
    """The masked tensor of data, with their history.

    Raises:
        TypeError: an argument is not a tensor, or has a dtype that is not supported.
        ValueError: the shapes differ.
    """
    _check_tensors(data, mask)
    if data.layout is not mask.layout:
        raise TypeError(f"data and mask must have the same layout. Got {data.layout} and {mask.layout}")
    if data.layout not in _LAYOUTS:
        raise TypeError(f"data layout of {data.layout} is not supported.")
    if mask.dtype != torch.bool:
        raise TypeError("mask must have dtype bool.")
    if data.dtype not in _DTYPES:
        raise TypeError(f"{data.dtype} is not supported in MaskedTensor.")
    if data.dim() != mask.dim():
        raise ValueError("data.dim() must equal mask.dim()")
    if data.shape != mask.shape:
        raise ValueError("data.size() must equal mask.size()")
    _expect_overrides()
    made: MaskedTensor = data.as_subclass(MaskedTensor)
    made._masked_mask = mask.detach()
    return made


def _check_tensors(data: Any, mask: Any) -> None:
    for name, one in (("data", data), ("mask", mask)):
        if isinstance(one, MaskedTensor) or not isinstance(one, Tensor):
            raise TypeError(f"{name} must be a Tensor")


def _text(data: Tensor, mask: Tensor) -> str:
    """The elements, with dashes in place of those that are not valid."""
    if data.dim() > 1:
        rows = ",\n".join(_text(*pair) for pair in zip(data, mask))
        inside = "\n".join(f"  {line}" for line in rows.splitlines())
        return f"[\n{inside}\n]"
    words = [f"{one:8.4f}" if isinstance(one, float) else str(one) for one in data.reshape(-1).tolist()]
    valid = mask.reshape(-1).tolist()
    if data.dim() == 0:
        return words[0] if valid[0] else "--"
    width = max((len(word) if shown else 8 for word, shown in zip(words, valid)), default=0)
    return f"[{', '.join(word if shown else '--'.rjust(width) for word, shown in zip(words, valid))}]"
