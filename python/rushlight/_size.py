"""`torch.Size`: the sizes of a tensor, a tuple that prints its name."""

import operator


class Size(tuple):
    """The sizes of a tensor's dimensions.

    >>> torch.zeros(2, 3).shape
    torch.Size([2, 3])
    """

    __slots__ = ()

    def __repr__(self):
        return f"torch.Size([{', '.join(map(str, self))}])"

    def numel(self):
        """The number of elements that a tensor of these sizes has."""
        count = 1
        for size in self:
            count *= size
        return count

    def __getitem__(self, index):
        item = tuple.__getitem__(self, index)
        return Size(item) if isinstance(index, slice) else item

    def __add__(self, other):
        return Size(tuple.__add__(self, other)) if isinstance(other, tuple) else NotImplemented

    def __radd__(self, other):
        return Size(tuple.__add__(other, self)) if isinstance(other, tuple) else NotImplemented

    def __mul__(self, count):
        return Size(tuple.__mul__(self, operator.index(count)))

    __rmul__ = __mul__

    def __reduce__(self):
        return Size, (tuple(self),)
