"""`torch.cuda.comm`: copies and sums of tensors among the GPUs of one process. Gradients do not flow through them."""

from __future__ import annotations

import rushlight as torch

from ._devices import index_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from rushlight import Tensor

__all__ = ["broadcast", "broadcast_coalesced", "gather", "reduce_add", "reduce_add_coalesced", "scatter"]


def _card(device: Any) -> torch.device:
    return torch.device("cuda", index_of(device))


def broadcast(
    tensor: Tensor, devices: Iterable[Any] | None = None, *, out: Sequence[Tensor] | None = None
) -> tuple[Tensor, ...]:
    """Copies of a tensor on GPUs.

    Args:
        tensor: the tensor, on any device.
        devices: the GPUs. On its own GPU the tensor is not copied.
        out: tensors on GPUs to copy into, in place of `devices`.

    Returns:
        the tensors, in the order of the GPUs.

    Raises:
        RuntimeError: both or neither of `devices` and `out` are given.
    """
    if (devices is None) == (out is None):
        raise RuntimeError(
            f"Exactly one of 'devices' and 'out' must be specified, but got devices={devices} and out={out}"
        )
    with torch.no_grad():
        if out is None:
            return tuple(tensor.detach().to(_card(device), non_blocking=True) for device in devices or ())
        for target in out:
            target.copy_(tensor, non_blocking=True)
    return tuple(out)


def broadcast_coalesced(
    tensors: Sequence[Tensor], devices: Iterable[Any], buffer_size: int = 10485760
) -> list[tuple[Tensor, ...]]:
    """Copies of several tensors on GPUs: a tuple for each GPU. `buffer_size` has no effect.

    Raises:
        RuntimeError: a tensor is not on the first GPU.
    """
    devices = [_card(device) for device in devices]
    if any(tensor.device != devices[0] for tensor in tensors if devices):
        raise RuntimeError(f"All tensors must be on devices[0]: {devices[0].index}")
    return [tuple(broadcast(tensor, [device])[0] for tensor in tensors) for device in devices]


def reduce_add(inputs: Sequence[Tensor], destination: Any = None) -> Tensor:
    """The sum of tensors of the same shape on different GPUs, added in their order.

    Args:
        inputs: the tensors.
        destination: the GPU of the sum, by default the current one.

    Raises:
        RuntimeError: there are no tensors, or none of them is on the destination.
        AssertionError: a tensor is not on a GPU.
        ValueError: their shapes differ.
    """
    target = _card(destination)
    if not inputs:
        raise RuntimeError("reduce_add expects at least one input")
    for place, tensor in enumerate(inputs):
        if not tensor.is_cuda:
            raise AssertionError(f"reduce_add expects all inputs to be on GPUs, but input {place} is on CPU")
        if tensor.shape != inputs[0].shape:
            got = "x".join(map(str, tensor.shape))
            expected = "x".join(map(str, inputs[0].shape))
            raise ValueError(f"input {place} has invalid size: got {got}, but expected {expected}")
    if all(tensor.device != target for tensor in inputs):
        raise RuntimeError("reduce_add expects destination to be on the same GPU with one of the tensors")
    with torch.no_grad():
        total = inputs[0].to(target)
        for tensor in inputs[1:]:
            total = total + tensor.to(target)
    return total


def reduce_add_coalesced(
    inputs: Sequence[Sequence[Tensor]], destination: Any = None, buffer_size: int = 10485760
) -> tuple[Tensor, ...]:
    """The sums of several tensors: `inputs` has a sequence of them for each GPU. `buffer_size` has no effect."""
    return tuple(reduce_add(list(group), destination) for group in zip(*inputs, strict=True))


def scatter(
    tensor: Tensor,
    devices: Sequence[Any] | None = None,
    chunk_sizes: Sequence[int] | None = None,
    dim: int = 0,
    streams: Sequence[Any] | None = None,
    *,
    out: Sequence[Tensor] | None = None,
) -> tuple[Tensor, ...]:
    """Splits a tensor along a dimension, and copies each part to a GPU.

    Args:
        tensor: the tensor, on any device.
        devices: the GPUs.
        chunk_sizes: the sizes of the parts; by default they are as equal as `torch.chunk` makes them.
        dim: the dimension.
        streams: a stream of each GPU for its copy, or None for the current one.
        out: tensors on GPUs to copy the parts into, in place of `devices`.

    Raises:
        RuntimeError: both `devices` and `out` are given, or the sizes do not fit.
    """
    if out is not None:
        if devices is not None:
            raise RuntimeError(f"'devices' must not be specified when 'out' is specified, but got devices={devices}")
        if chunk_sizes is not None:
            raise RuntimeError(
                f"'chunk_sizes' must not be specified when 'out' is specified, but got chunk_sizes={chunk_sizes}"
            )
        sizes: Any = [target.shape[dim] for target in out]
        with torch.no_grad():
            for target, part in zip(out, tensor.detach().split(sizes, dim), strict=True):
                target.copy_(part)
        return tuple(out)
    cards = [_card(device) for device in devices or ()]
    if not cards:
        raise RuntimeError("Expected at least one device to scatter to")
    own = tensor.detach()
    if chunk_sizes is None:
        parts = own.chunk(len(cards), dim)
    else:
        if len(chunk_sizes) != len(cards):
            raise RuntimeError(
                "Expected devices and chunk_sizes to be of same length, but got len(devices) = "
                f"{len(cards)} and len(chunk_sizes) = {len(chunk_sizes)}"
            )
        parts = own.split(list(chunk_sizes), dim)
    results = []
    for place, (part, card) in enumerate(zip(parts, cards)):
        stream = None if streams is None else streams[place]
        with torch.cuda.stream(stream):
            results.append(part.to(card, non_blocking=True))
    return tuple(results)


def gather(tensors: Sequence[Tensor], dim: int = 0, destination: Any = None, *, out: Tensor | None = None) -> Tensor:
    """Joins tensors of several GPUs along a dimension.

    Args:
        tensors: the tensors.
        dim: the dimension.
        destination: the device of the result, by default the current GPU.
        out: a tensor to write into, in place of `destination`.

    Raises:
        RuntimeError: both `destination` and `out` are given, or a tensor is on the CPU.
    """
    if any(tensor.device.type == "cpu" for tensor in tensors):
        raise RuntimeError("Gather expects all inputs to be on GPUs")
    if out is not None:
        if destination is not None:
            raise RuntimeError(
                f"'destination' must not be specified when 'out' is specified, but got destination={destination}"
            )
        target = out.device
    elif isinstance(destination, (str, torch.device)) and torch.device(destination).type == "cpu":
        target = torch.device("cpu")
    else:
        target = _card(destination)
    with torch.no_grad():
        whole = torch.cat([tensor.detach().to(target) for tensor in tensors], dim)
        return whole if out is None else out.copy_(whole)


def __dir__() -> list[str]:
    return __all__
