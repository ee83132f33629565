"""How a unit talks to other ranks, unless the program gives it other objects with these methods."""

import rushlight as torch
from rushlight.distributed import _collectives


class _Comm:
    def allocate(self, size, *, dtype, device):
        """The memory of an input or output."""
        return torch.empty(size, dtype=dtype, device=device)


class AllGather(_Comm):
    def __call__(self, output_tensor, input_tensor, group, async_op=False):
        return _collectives.all_gather_single(output_tensor, input_tensor, group, async_op)


class ReduceScatter(_Comm):
    def __call__(self, output_tensor, input_tensor, group, op, async_op=False):
        return _collectives.reduce_scatter_single(output_tensor, input_tensor, op, group, async_op)
