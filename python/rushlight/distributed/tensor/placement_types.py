"""How a tensor lies on the ranks of a dimension of a mesh."""

from dataclasses import dataclass

__all__ = ["Placement", "Shard", "Replicate", "Partial"]


def __dir__() -> list[str]:
    return __all__


class Placement:
    """The base of placements.

    >>> torch.distributed.tensor.Shard(0).is_shard(), torch.distributed.tensor.Shard(0).is_replicate()
    (True, False)
    """

    def __setstate__(self, state):
        # Fields cannot be assigned.
        self.__dict__.update(state)

    def is_shard(self, dim=None):
        """Whether ranks have parts, along a dimension if one is given."""
        return isinstance(self, Shard) and dim in (None, self.dim)

    def is_replicate(self):
        """Whether every rank has the whole tensor."""
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op=None):
        """Whether the tensor is the reduction of what the ranks have."""
        return isinstance(self, Partial) and reduce_op in (None, self.reduce_op)


@dataclass(frozen=True)
class Shard(Placement):
    """Every rank has a part along a dimension, cut as by `torch.chunk`; the last ranks may have less, or nothing.

    >>> torch.distributed.tensor.Shard(0)
    Shard(dim=0)
    """

    dim: int

    @staticmethod
    def local_shard_size_and_offset(curr_local_size, num_chunks, rank):
        """The size of a rank's part of a dimension, and where it begins.

        >>> torch.distributed.tensor.Shard.local_shard_size_and_offset(7, 3, 2)
        (1, 6)
        """
        whole = -(-curr_local_size // num_chunks)
        start = min(whole * rank, curr_local_size)
        return min(whole, curr_local_size - start), start

    def _local_shard_size_and_offset(self, curr_local_size, num_chunks, rank):
        return self.local_shard_size_and_offset(curr_local_size, num_chunks, rank)

    def __str__(self):
        return f"S({self.dim})"


@dataclass(frozen=True, init=False, repr=False)
class _StridedShard(Placement):
    """A part of each of `split_factor` parts along a dimension, as of a part that is cut again."""

    dim: int
    split_factor: int

    def __init__(self, dim, *, split_factor=1, sf=None):
        object.__setattr__(self, "dim", dim)
        object.__setattr__(self, "split_factor", split_factor if sf is None else sf)

    def __repr__(self):
        return f"_S({self.dim}, {self.split_factor})"


@dataclass(frozen=True)
class Replicate(Placement):
    """Every rank has the whole tensor.

    >>> torch.distributed.tensor.Replicate()
    Replicate()
    """

    def __str__(self):
        return "R"


@dataclass(frozen=True)
class Partial(Placement):
    """The tensor is the sum (or another reduction) of what the ranks have.

    >>> torch.distributed.tensor.Partial()
    Partial(sum)
    """

    reduce_op: str = "sum"

    def __repr__(self):
        return f"Partial({self.reduce_op})"

    def __str__(self):
        return f"P({self.reduce_op})"


@dataclass(frozen=True, repr=False)
class _NormPartial(Partial):
    """The tensor is the norm of what the ranks have: the root of the sum of powers."""

    norm_type: float = 2.0

    def __repr__(self):
        return f"_NormPartial({self.norm_type})"

    def __str__(self):
        return f"_NormP({self.norm_type})"
