"""Hooks that send gradients as bytes, with a scale for each tensor or each piece of it."""

import rushlight as torch
from rushlight.distributed import _collectives
from rushlight.distributed._groups import resolve

__all__ = ["quantization_pertensor_hook", "quantization_perchannel_hook"]


def __dir__() -> list[str]:
    return __all__


def _exchange(group, rows):
    """The average over all ranks of rows of numbers, each of which travels as bytes with its own scale."""
    low, high = rows.amin(1, keepdim=True), rows.amax(1, keepdim=True)
    scale = ((high - low) / 255).clamp(min=torch.finfo(rows.dtype).tiny)
    bytes = ((rows - low) / scale).round().clamp(0, 255).to(torch.uint8)
    parts = [[torch.empty_like(one) for _ in range(group.size())] for one in (bytes, scale, low)]
    for got, given in zip(parts, (bytes, scale, low)):
        _collectives.all_gather(got, given, group)
    return sum(b.to(rows.dtype) * s + l for b, s, l in zip(*parts)) / group.size()


def _done(value):
    future = torch.futures.Future()
    future.set_result(value)
    return future


def quantization_pertensor_hook(process_group, bucket):
    """Averages gradients that travel as bytes with one scale. The state is a group or None."""
    buffer = bucket.buffer()
    buffer.copy_(_exchange(resolve(process_group), buffer.view(1, -1)).view(-1))
    return _done(buffer)


def quantization_perchannel_hook(process_group, bucket, bucket_size=512):
    """Averages gradients that travel as bytes with a scale for each `bucket_size` of them. The state is a group or None."""
    buffer = bucket.buffer()
    rows = torch.nn.functional.pad(buffer, (0, -buffer.numel() % bucket_size)).view(-1, bucket_size)
    buffer.copy_(_exchange(resolve(process_group), rows).view(-1)[: buffer.numel()])
    return _done(buffer)
