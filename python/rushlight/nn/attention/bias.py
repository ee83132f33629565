"""Causal masks for `scaled_dot_product_attention` with different numbers of queries and keys."""

from __future__ import annotations

from enum import IntEnum

import rushlight as torch
from rushlight import Tensor
from rushlight._warnings import warn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["CausalBias", "CausalVariant", "causal_lower_right", "causal_upper_left"]


class CausalVariant(IntEnum):
    """Which corner the diagonal of a causal mask meets.

    >>> torch.nn.attention.bias.CausalVariant.LOWER_RIGHT.value
    2
    """

    UPPER_LEFT = 1
    LOWER_RIGHT = 2


class CausalBias(Tensor):
    """A causal mask as a tensor of bools: True where a query may attend to a key.

    Args:
        variant: which corner the diagonal meets.
        seq_len_q: the number of queries, the rows.
        seq_len_kv: the number of keys, the columns.

    Raises:
        ValueError: `scaled_dot_product_attention` gets the mask together with ``is_causal``.

    >>> torch.nn.attention.bias.CausalBias(torch.nn.attention.bias.CausalVariant.LOWER_RIGHT, 2, 3)
    tensor([[ True,  True, False],
            [ True,  True,  True]])
    """

    variant: CausalVariant
    seq_len_q: int
    seq_len_kv: int

    def __new__(cls, variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> CausalBias:
        offset = seq_len_kv - seq_len_q if variant is CausalVariant.LOWER_RIGHT else 0
        return Tensor._make_subclass(cls, torch.ones(seq_len_q, seq_len_kv, dtype=torch.bool).tril(offset))

    def __init__(self, variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> None:
        if not isinstance(variant, CausalVariant):
            raise AssertionError("variant must be a CausalVariant")
        self.variant, self.seq_len_q, self.seq_len_kv = variant, seq_len_q, seq_len_kv
        if seq_len_q > seq_len_kv and variant is CausalVariant.LOWER_RIGHT:
            warn("Lower right causal bias will produce NaNs in the output when seq_len_q > seq_len_kv!")

    def _materialize(self, device: Any = None) -> Tensor:
        """The mask as a plain tensor."""
        return self.as_subclass(Tensor).to(device) if device is not None else self.as_subclass(Tensor)

    def __repr__(self) -> str:
        return repr(self._materialize())

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        options = dict(kwargs or {})
        if func is torch.nn.functional.scaled_dot_product_attention:
            if options.get("is_causal") or (len(args) > 5 and args[5]):
                raise ValueError("CausalBias should not be used with causal=True")
            # The mask is made on the CPU, whatever the device of the queries.
            device = (args[0] if args else options["query"]).device
            place = lambda one: one._materialize(device) if isinstance(one, cls) else one
            args, options = [place(one) for one in args], {name: place(one) for name, one in options.items()}
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **options)


def causal_upper_left(*size: int) -> CausalBias:
    """A causal mask whose diagonal begins in the upper left corner.

    Args:
        size: the numbers of queries and keys.

    Raises:
        RuntimeError: there are not two numbers.

    >>> torch.nn.attention.bias.causal_upper_left(2, 3)
    tensor([[ True, False, False],
            [ True,  True, False]])
    """
    return _causal(CausalVariant.UPPER_LEFT, size)


def causal_lower_right(*size: int) -> CausalBias:
    """A causal mask whose diagonal ends in the lower right corner.

    Args:
        size: the numbers of queries and keys.

    Raises:
        RuntimeError: there are not two numbers.

    >>> torch.nn.attention.bias.causal_lower_right(2, 3)
    tensor([[ True,  True, False],
            [ True,  True,  True]])
    """
    return _causal(CausalVariant.LOWER_RIGHT, size)


def _causal(variant: CausalVariant, size: tuple[int, ...]) -> CausalBias:
    if len(size) != 2:
        raise RuntimeError(f"causal_{variant.name.lower()} only supports 2D tensors")
    return CausalBias(variant, *size)


def __dir__() -> list[str]:
    return __all__
