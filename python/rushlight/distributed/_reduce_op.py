"""The reductions of collective calls."""

import enum

from rushlight._set_module import set_module


class RedOpType(enum.IntEnum):
    """The kinds of reductions, in torch's order, which is also the engine's."""

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7
    PREMUL_SUM = 8
    UNUSED = 9

    def __repr__(self):
        return f"<RedOpType.{self.name}: {self.value}>"

    __str__ = enum.Enum.__str__


class ReduceOp:
    """A reduction: `ReduceOp.SUM`, `AVG`, `PRODUCT`, `MIN`, `MAX`, `BAND`, `BOR`, `BXOR`.

    The bitwise ones take integers and truth values, `MIN` and `MAX` no complex numbers. Sums of truth values are true
    if one of them is.

    >>> torch.distributed.ReduceOp.SUM
    <RedOpType.SUM: 0>
    >>> torch.distributed.ReduceOp(torch.distributed.ReduceOp.MAX) == torch.distributed.ReduceOp.MAX
    True
    """

    RedOpType = RedOpType
    SUM, AVG, PRODUCT = RedOpType.SUM, RedOpType.AVG, RedOpType.PRODUCT
    MIN, MAX = RedOpType.MIN, RedOpType.MAX
    BAND, BOR, BXOR = RedOpType.BAND, RedOpType.BOR, RedOpType.BXOR
    PREMUL_SUM, UNUSED = RedOpType.PREMUL_SUM, RedOpType.UNUSED

    def __init__(self, op=RedOpType.SUM, factor=None):
        self.op, self.factor = RedOpType(op), factor

    def __eq__(self, other):
        return self.op == (other.op if isinstance(other, ReduceOp) else other)

    def __hash__(self):
        return hash(self.op)

    def __reduce__(self):
        return ReduceOp, (self.op, self.factor)


def premul_sum(factor):
    """A sum of tensors that are multiplied by `factor` (a number or a tensor) first."""
    return ReduceOp(RedOpType.PREMUL_SUM, factor)


def kind_of(op):
    """The kind of a reduction, for the engine, and the factor of a multiplied sum."""
    if isinstance(op, ReduceOp):
        return op.op, op.factor
    if isinstance(op, RedOpType):
        return op, None
    raise TypeError(f"Invalid reduction: {op!r}\n  Use one of torch.distributed.ReduceOp, for example ReduceOp.SUM.")


def supports_complex(reduceOp):
    """Whether complex numbers can be reduced so.

    >>> torch.distributed.distributed_c10d.supports_complex(torch.distributed.ReduceOp.MAX)
    False
    """
    return kind_of(reduceOp)[0] in (
        RedOpType.SUM,
        RedOpType.AVG,
        RedOpType.PRODUCT,
        RedOpType.PREMUL_SUM,
        RedOpType.UNUSED,
    )


class _ReduceOpMembers(type):
    def __getattr__(cls, name):
        import warnings

        if name.startswith("__") or name not in RedOpType.__members__:
            raise AttributeError(name)
        warnings.warn(
            "`torch.distributed.reduce_op` is deprecated, please use `torch.distributed.ReduceOp` instead",
            FutureWarning,
            stacklevel=2,
        )
        return RedOpType[name]


class reduce_op(metaclass=_ReduceOpMembers):
    """The old name of `ReduceOp`, with a warning."""


set_module("rushlight.distributed", ReduceOp, reduce_op)
