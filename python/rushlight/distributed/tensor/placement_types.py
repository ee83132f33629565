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


@dataclass(frozen=True)
class Replicate(Placement):
    """Every rank has the whole tensor.

    >>> torch.distributed.tensor.Replicate()
    Replicate()
    """


@dataclass(frozen=True)
class Partial(Placement):
    """The tensor is the sum (or another reduction) of what the ranks have.

    >>> torch.distributed.tensor.Partial()
    Partial(sum)
    """

    reduce_op: str = "sum"

    def __repr__(self):
        return f"Partial({self.reduce_op})"
