"""How the processes of a mesh dimension divide a tensor (`torch.distributed.tensor.placement_types`).

These are descriptions: nothing here distributes a tensor.
"""

from __future__ import annotations

from typing import Any

__all__ = ["Partial", "Placement", "Replicate", "Shard"]


class Placement:
    """The base class of placements."""

    def is_shard(self, dim: int | None = None) -> bool:
        """Whether each process has a part of the tensor, along ``dim`` if that is given."""
        return isinstance(self, Shard) and dim in (None, self.dim)

    def is_replicate(self) -> bool:
        """Whether each process has the whole tensor."""
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Whether the tensor is the reduction of those of all processes, by ``reduce_op`` if that is given."""
        return isinstance(self, Partial) and reduce_op in (None, self.reduce_op)

    def _key(self) -> tuple[Any, ...]:
        return ()

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash((type(self), self._key()))


class Shard(Placement):
    """Each process has a chunk of the tensor, as `torch.chunk` cuts it along a dimension.

    >>> from rushlight.distributed.tensor import Shard
    >>> Shard(1), Shard(1).is_shard(0), Shard.local_shard_size_and_offset(7, 3, 2)
    (Shard(dim=1), False, (1, 6))
    """

    def __init__(self, dim: int) -> None:
        self.dim = dim

    @staticmethod
    def local_shard_size_and_offset(curr_local_size: int, num_chunks: int, rank: int) -> tuple[int, int]:
        """The size of a rank's chunk, and where it begins.

        Args:
            curr_local_size: the size of the dimension.
            num_chunks: the number of chunks.
            rank: the number of the chunk.
        """
        whole = -(-curr_local_size // num_chunks)
        start = min(whole * rank, curr_local_size)
        return min(whole, curr_local_size - start), start

    def _key(self) -> tuple[Any, ...]:
        return (self.dim,)

    def __repr__(self) -> str:
        return f"Shard(dim={self.dim})"

    def __str__(self) -> str:
        return f"S({self.dim})"


class _StridedShard(Placement):
    """Each process has one chunk of each of ``split_factor`` parts of the tensor along a dimension."""

    def __init__(self, dim: int, *, split_factor: int = 1, sf: int | None = None) -> None:
        self.dim, self.split_factor = dim, split_factor if sf is None else sf

    def _key(self) -> tuple[Any, ...]:
        return self.dim, self.split_factor

    def __repr__(self) -> str:
        return f"_StridedShard(dim={self.dim}, sf={self.split_factor})"

    def __str__(self) -> str:
        return f"_S({self.dim}, {self.split_factor})"


class Replicate(Placement):
    """Each process has the whole tensor.

    >>> torch.distributed.tensor.Replicate() == torch.distributed.tensor.Replicate()
    True
    """

    def __repr__(self) -> str:
        return "R"


class Partial(Placement):
    """The tensor is the reduction, a sum by default, of those of all processes.

    >>> torch.distributed.tensor.Partial("avg")
    Partial(avg)
    """

    def __init__(self, reduce_op: str = "sum") -> None:
        self.reduce_op = reduce_op

    def _key(self) -> tuple[Any, ...]:
        return (self.reduce_op,)

    def __repr__(self) -> str:
        return f"Partial({self.reduce_op})"

    def __str__(self) -> str:
        return f"P({self.reduce_op})"


def __dir__() -> list[str]:
    return __all__
