"""`BlockMask`: which blocks of queries and keys a mask function allows, wholly or in part."""

from __future__ import annotations

import inspect
import itertools
from copy import copy

import rushlight as torch
from rushlight import Tensor
from rushlight._set_module import set_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, Self

    _MaskMod = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]

_DEFAULT_SPARSE_BLOCK_SIZE = 128


def over_indices(function: Callable[..., Tensor], shape: Sequence[int], device: Any, *first: Tensor) -> Tensor:
    """``function(batch, head, query, key)`` for all indices below a shape, given as tensors without dimensions.

    A first tensor of this shape is given to the function element by element, before the indices.
    """
    for place in reversed(range(4)):
        chosen = [None] * 4
        chosen[place] = 0  # type: ignore[call-overload]
        function = torch.func.vmap(function, (*(0 for _ in first), *chosen))
    result = function(*first, *(torch.arange(size, device=device) for size in shape))
    return result.expand(*shape)


def noop_mask(batch: Tensor, head: Tensor, token_q: Tensor, token_kv: Tensor) -> Tensor:
    """The mask function that allows everything.

    >>> index = torch.tensor(0)
    >>> torch.nn.attention.flex_attention.noop_mask(index, index, index, index)
    tensor(True)
    """
    return batch.new_ones((), dtype=torch.bool)


def create_mask(
    mod_fn: Callable[..., Tensor], B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = None
) -> Tensor:
    """The tensor of bools of a mask function, of shape (batch, heads, queries, keys).

    Args:
        mod_fn: ``mod_fn(batch, head, query, key)`` returns whether a query may attend to a key. A score function, which takes the
            score before these, allows what it does not make minus infinity.
        B: the number of batches, or None for one.
        H: the number of heads, or None for one.
        Q_LEN: the number of queries.
        KV_LEN: the number of keys.
        device: the device of the result.

    Raises:
        AssertionError: the function takes another number of arguments.

    >>> torch.nn.attention.flex_attention.create_mask(lambda b, h, q, k: q >= k, 1, 1, 2, 3)[0, 0]
    tensor([[ True, False, False],
            [ True,  True, False]])
    """
    shape = (1 if B is None else B, 1 if H is None else H, Q_LEN, KV_LEN)
    if _takes_scores(mod_fn):
        return ~over_indices(mod_fn, shape, device, torch.zeros(shape, device=device)).isneginf()
    return over_indices(mod_fn, shape, device)


def _takes_scores(function: Callable[..., Tensor]) -> bool:
    """Whether a function is one of scores, with an argument in front of those of a mask function.

    Raises:
        AssertionError: it is neither.
    """
    places = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    count = sum(
        one.kind in places and one.default is inspect.Parameter.empty
        for one in inspect.signature(function).parameters.values()
    )
    if count not in (4, 5):
        raise AssertionError(f"Expected 4 or 5 positional args, got {count}")
    return count == 5


def create_block_mask(
    mask_mod: _MaskMod,
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: Any = None,
    BLOCK_SIZE: int | tuple[int, int] = _DEFAULT_SPARSE_BLOCK_SIZE,
    _compile: bool = False,
    separate_full_blocks: bool = True,
    compute_dq_write_order: bool = False,
    dq_kv_order: bool = True,
) -> BlockMask:
    """The blocks that a mask function allows, wholly or in part.

    Args:
        mask_mod: ``mask_mod(batch, head, query, key)`` returns whether a query may attend to a key.
        B: the number of batches, or None if the mask is the same for all.
        H: the number of heads, or None if the mask is the same for all.
        Q_LEN: the number of queries.
        KV_LEN: the number of keys.
        device: the device of the blocks.
        BLOCK_SIZE: the number of queries and of keys in a block.
        separate_full_blocks: whether blocks that are allowed wholly are listed apart.
        compute_dq_write_order: accepted; it has no effect.
        dq_kv_order: accepted; it has no effect.

    >>> flex = torch.nn.attention.flex_attention
    >>> flex.create_block_mask(lambda b, h, q, k: q >= k, None, None, 256, 256).to_dense()[0, 0]
    tensor([[1, 0],
            [1, 1]], dtype=torch.int32)
    """
    if _takes_scores(mask_mod):
        raise AssertionError(f"create-block_mask requires a mask_mod function! Got {mask_mod}")
    size = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
    mask = create_mask(mask_mod, B, H, Q_LEN, KV_LEN, device)
    if mask.dtype != torch.bool:
        raise AssertionError(f"mask.dtype must be torch.bool, got {mask.dtype}")
    mask = torch.nn.functional.pad(mask, (0, -KV_LEN % size[1], 0, -Q_LEN % size[0]))
    rows, columns = mask.size(2) // size[0], mask.size(3) // size[1]
    counts = mask.view(*mask.shape[:2], rows, size[0], columns, size[1]).sum((3, 5))
    full = counts == size[0] * size[1] if separate_full_blocks else torch.zeros_like(counts, dtype=torch.bool)
    counted, columns_first = _listed((counts > 0) & ~full)
    wholly: tuple[Tensor | None, Tensor | None] = _listed(full) if separate_full_blocks else (None, None)
    return BlockMask.from_kv_blocks(counted, columns_first, wholly[0], wholly[1], size, mask_mod, (Q_LEN, KV_LEN))


def _listed(dense: Tensor) -> tuple[Tensor, Tensor]:
    """For each row, the number of blocks and their columns, followed by the other columns."""
    order = dense.to(torch.int32).argsort(dim=-1, descending=True, stable=True)
    return dense.sum(-1).to(torch.int32), order.to(torch.int32)


def _dense(counts: Tensor, indices: Tensor, columns: int) -> Tensor:
    listed = torch.arange(indices.size(-1), device=indices.device) < counts.unsqueeze(-1)
    dense = torch.zeros(*indices.shape[:-1], columns, dtype=torch.int32, device=indices.device)
    return dense.scatter_add_(-1, indices.long(), listed.to(torch.int32))


def _drawn(part: Tensor) -> str:
    """The character for some blocks: all of them, none, or some."""
    share = float(part.float().mean())
    return "█" if share == 1 else "░" if share else " "


def _check_parts(kv_indices: Tensor, **full: tuple[Tensor | None, Tensor | None]) -> None:
    """Checks that there are rows and columns, and that whole blocks are given with counts and indices or not at all."""
    if kv_indices.dim() < 2:
        raise RuntimeError("BlockMask must have at least 2 dimensions")
    for order, (counts, indices) in full.items():
        if (counts is None) != (indices is None):
            raise AssertionError(f"full_{order}_num_blocks and full_{order}_indices must be both provided or omitted")


_MORE = """...
To print out more, set BlockMask.to_string(limit=N)
You can also index (BlockMask[batch, head]) to choose a specific batch or head"""


class BlockMask:
    """The blocks of queries and keys that a mask function allows.

    ``kv_num_blocks`` (batch, heads, rows) counts the blocks that are allowed in part, by row, and ``kv_indices`` (batch,
    heads, rows, columns) begins with their columns. ``full_kv_*`` are those that are allowed wholly, and ``q_*`` have
    rows and columns exchanged. `create_block_mask` makes one.

    >>> flex = torch.nn.attention.flex_attention
    >>> mask = flex.create_block_mask(lambda b, h, q, k: q >= k, 1, 1, 256, 256)
    >>> mask.shape, mask.kv_num_blocks, mask.full_kv_num_blocks, mask.sparsity()
    ((1, 1, 256, 256), tensor([[[1, 1]]], dtype=torch.int32), tensor([[[0, 1]]], dtype=torch.int32), 25.0)
    """

    def __init__(
        self,
        seq_lengths: tuple[int, int],
        kv_num_blocks: Tensor,
        kv_indices: Tensor,
        full_kv_num_blocks: Tensor | None,
        full_kv_indices: Tensor | None,
        q_num_blocks: Tensor | None,
        q_indices: Tensor | None,
        full_q_num_blocks: Tensor | None,
        full_q_indices: Tensor | None,
        BLOCK_SIZE: tuple[int, int] = (_DEFAULT_SPARSE_BLOCK_SIZE, _DEFAULT_SPARSE_BLOCK_SIZE),
        mask_mod: _MaskMod = noop_mask,
    ) -> None:
        _check_parts(kv_indices, kv=(full_kv_num_blocks, full_kv_indices), q=(full_q_num_blocks, full_q_indices))
        self.seq_lengths = seq_lengths
        self.kv_num_blocks, self.kv_indices = kv_num_blocks, kv_indices
        self.full_kv_num_blocks, self.full_kv_indices = full_kv_num_blocks, full_kv_indices
        self.q_num_blocks, self.q_indices = q_num_blocks, q_indices
        self.full_q_num_blocks, self.full_q_indices = full_q_num_blocks, full_q_indices
        self.BLOCK_SIZE = BLOCK_SIZE
        self.mask_mod = mask_mod

    @classmethod
    def from_kv_blocks(
        cls,
        kv_num_blocks: Tensor,
        kv_indices: Tensor,
        full_kv_num_blocks: Tensor | None = None,
        full_kv_indices: Tensor | None = None,
        BLOCK_SIZE: int | tuple[int, int] = _DEFAULT_SPARSE_BLOCK_SIZE,
        mask_mod: _MaskMod | None = None,
        seq_lengths: tuple[int, int] | None = None,
        compute_q_blocks: bool = True,
    ) -> Self:
        """The mask of the blocks by row. The blocks by column follow from them.

        Raises:
            RuntimeError: ``kv_indices`` has fewer than two dimensions.
            AssertionError: only one of the parts ``full_kv_*`` is given.

        >>> counts, columns = torch.tensor([[[1, 2]]]), torch.tensor([[[[0, 1], [0, 1]]]])
        >>> torch.nn.attention.flex_attention.BlockMask.from_kv_blocks(counts, columns).q_num_blocks
        tensor([[[2, 1]]], dtype=torch.int32)
        """
        _check_parts(kv_indices, kv=(full_kv_num_blocks, full_kv_indices))
        size = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
        columns = kv_indices.size(-1)
        by_column: list[tuple[Tensor | None, Tensor | None]] = []
        for counts, indices in ((kv_num_blocks, kv_indices), (full_kv_num_blocks, full_kv_indices)):
            if counts is None or indices is None or not compute_q_blocks:
                by_column.append((None, None))
            else:
                by_column.append(_listed(_dense(counts, indices, columns).transpose(-2, -1)))
        lengths = (kv_indices.size(-2) * size[0], columns * size[1]) if seq_lengths is None else seq_lengths
        mask = cls(lengths, kv_num_blocks, kv_indices, full_kv_num_blocks, full_kv_indices, None, None, None, None)
        (mask.q_num_blocks, mask.q_indices), (mask.full_q_num_blocks, mask.full_q_indices) = by_column
        mask.BLOCK_SIZE = size
        mask.mask_mod = noop_mask if mask_mod is None else mask_mod
        return mask

    def __getitem__(self, index: Any) -> BlockMask:
        """The mask of some batches, heads and rows of blocks. A number keeps its dimension.

        >>> flex = torch.nn.attention.flex_attention
        >>> flex.create_block_mask(lambda b, h, q, k: q >= k, 2, 3, 256, 256)[0, 1].shape
        (1, 1, 256, 256)
        """
        index = index if isinstance(index, tuple) else (index,)
        chosen = tuple(slice(one, one + 1 or None) if isinstance(one, int) else one for one in index[:3])
        rows: dict[str, Any] = {
            name: None if blocks is None else blocks[chosen]
            for name, blocks in self._blocks().items()
            if name.startswith(("kv_", "full_kv_"))
        }
        return BlockMask.from_kv_blocks(
            **rows, BLOCK_SIZE=self.BLOCK_SIZE, mask_mod=self.mask_mod, seq_lengths=self.seq_lengths
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """The numbers of batches, heads, queries and keys."""
        return (*self.kv_indices.shape[:-2], *self.seq_lengths)

    def numel(self) -> int:
        """The number of entries of the whole mask."""
        total = 1
        for size in self.shape:
            total *= size
        return total

    def to_dense(self) -> Tensor:
        """Which blocks are allowed, wholly or in part, as a tensor of zeros and ones (batch, heads, rows, columns)."""
        columns = self.kv_indices.size(-1)
        dense = _dense(self.kv_num_blocks, self.kv_indices, columns)
        if self.full_kv_num_blocks is not None and self.full_kv_indices is not None:
            dense = dense | _dense(self.full_kv_num_blocks, self.full_kv_indices, columns)
        return dense

    def sparsity(self) -> float:
        """The share of the mask that is left out, in per cent. Blocks that reach over its end count whole."""
        kept = int(self.kv_num_blocks.sum())
        if self.full_kv_num_blocks is not None:
            kept += int(self.full_kv_num_blocks.sum())
        return 100 * (1 - kept * self.BLOCK_SIZE[0] * self.BLOCK_SIZE[1] / self.numel())

    def to(self, device: Any) -> BlockMask:
        """The same mask on a device."""
        moved = copy(self)
        for name, blocks in self._blocks().items():
            setattr(moved, name, None if blocks is None else blocks.to(device))
        return moved

    def as_tuple(self, flatten: bool = True) -> tuple[Any, ...]:
        """The parts of the mask, and None for each order of writes of torch's kernels. ``flatten``: pairs of numbers as two.

        >>> flex = torch.nn.attention.flex_attention
        >>> flex.create_block_mask(lambda b, h, q, k: q >= k, 1, 1, 256, 200).as_tuple()[:2]
        (256, 200)
        """
        lengths, size = (self.seq_lengths, self.BLOCK_SIZE) if flatten else ((self.seq_lengths,), (self.BLOCK_SIZE,))
        return (*lengths, *self._blocks().values(), None, None, None, None, *size, self.mask_mod)

    def _adjust(self, new_q_len: int, new_kv_len: int) -> BlockMask:
        """The upper left corner of the blocks, for other numbers of queries and keys. No blocks are added.

        >>> flex = torch.nn.attention.flex_attention
        >>> flex.create_block_mask(lambda b, h, q, k: q >= k, 1, 1, 256, 256)._adjust(128, 200).kv_num_blocks
        tensor([[[1]]], dtype=torch.int32)
        """
        rows, columns = -(-new_q_len // self.BLOCK_SIZE[0]), -(-new_kv_len // self.BLOCK_SIZE[1])

        def corner(counts: Tensor | None, indices: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
            if counts is None or indices is None:
                return None, None
            return _listed(_dense(counts, indices, indices.size(-1))[..., :rows, :columns])

        counted, columns_first = corner(self.kv_num_blocks, self.kv_indices)
        assert counted is not None and columns_first is not None
        wholly = corner(self.full_kv_num_blocks, self.full_kv_indices)
        lengths = (new_q_len, new_kv_len)
        return BlockMask.from_kv_blocks(counted, columns_first, *wholly, self.BLOCK_SIZE, self.mask_mod, lengths)

    def _blocks(self) -> dict[str, Tensor | None]:
        return {name: value for name, value in vars(self).items() if name.endswith(("_num_blocks", "_indices"))}

    def to_string(self, grid_size: int | tuple[int, int] = (20, 20), limit: int = 4) -> str:
        """A picture of the blocks of each batch and head: allowed, in part (where it sums up several blocks), or not.

        Args:
            grid_size: the largest numbers of rows and columns; -1 for all.
            limit: the number of pictures.

        >>> flex = torch.nn.attention.flex_attention
        >>> mask = flex.create_block_mask(lambda b, h, q, k: q >= k, 1, 1, 256, 256)
        >>> mask.to_string().splitlines()
        ['(0, 0)', '██  ', '████']
        """
        dense = self.to_dense()
        rows, columns = (grid_size, grid_size) if isinstance(grid_size, int) else grid_size
        height, width = (max(1, -(-size // most)) for size, most in zip(dense.shape[-2:], (rows, columns)))
        pictures = []
        for place, index in enumerate(itertools.product(*map(range, dense.shape[:-2]))):
            if place == limit:
                pictures.append(_MORE)
                break
            lines = ["".join(_drawn(part) * 2 for part in row.split(width, 1)) for row in dense[index].split(height, 0)]
            pictures.append("\n".join([str(index), *lines, ""]))
        return "\n".join(pictures)

    def __str__(self) -> str:
        return f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%, \n{self.to_string().strip()}\n)"

    def __repr__(self) -> str:
        lines = [f"{name}={None if value is None else value.shape}" for name, value in self._blocks().items()]
        lines += [f"BLOCK_SIZE={self.BLOCK_SIZE}", f"shape={self.shape}", f"sparsity={self.sparsity():.2f}%"]
        lines.append(f"mask_mod={getattr(self.mask_mod, '__name__', self.mask_mod)}")
        return "BlockMask(\n    " + ",\n    ".join(lines) + "\n)"


set_module("rushlight.nn.attention.flex_attention", BlockMask, create_block_mask, create_mask, noop_mask)
