"""Collective calls of one process on tensors of several GPUs, through NVIDIA's library NCCL."""

from __future__ import annotations

from collections.abc import Container, Sequence
from concurrent.futures import ThreadPoolExecutor

import rushlight as torch
from rushlight import _C
from rushlight._warnings import warn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from rushlight import Tensor

__all__ = ["all_reduce", "all_gather", "broadcast", "reduce", "reduce_scatter"]

SUM = 0

#: torch's numbers of NCCL's reductions: sum, product, max, min, average.
_REDUCTIONS = (0, 2, 4, 3, 1)
#: How long a call may take, in seconds.
_TIMEOUT = 600.0
#: The communicators of each list of devices.
_communicators: dict[tuple[int, ...], list[_C._NcclCommunicator]] = {}


def is_available(tensors: Iterable[Tensor]) -> bool:
    """Whether NCCL is installed, and the tensors are contiguous and on different GPUs.

    >>> torch.cuda.nccl.is_available([torch.ones(2)])
    False
    """
    devices = set()
    for tensor in tensors:
        if tensor.is_sparse or not tensor.is_contiguous() or not tensor.is_cuda or tensor.device in devices:
            return False
        devices.add(tensor.device)
    return _C._nccl_is_available()


def version() -> tuple[int, int, int]:
    """The version of NCCL.

    Raises:
        RuntimeError: it is not installed.
    """
    _C._nccl_check()
    found = _C._nccl_version() or 0
    return found // 10000, found % 10000 // 100, found % 100


def unique_id() -> bytes:
    """A new id, for `init_rank`."""
    return _C._nccl_unique_id()


def init_rank(num_ranks: int, uid: bytes, rank: int) -> _C._NcclCommunicator:
    """One rank's communicator, on the current GPU. It waits for the other ranks."""
    return _C._NcclCommunicator(uid, rank, num_ranks, torch.cuda.current_device(), _TIMEOUT)


def _check(inputs: Any) -> None:
    if not isinstance(inputs, Container) or isinstance(inputs, torch.Tensor):
        raise TypeError("Inputs should be a collection of tensors")


def _join(devices: tuple[int, ...]) -> list[_C._NcclCommunicator]:
    found = _communicators.get(devices)
    if found is None:
        identity, count = unique_id(), len(devices)
        with ThreadPoolExecutor(count) as threads:
            ranks = [
                threads.submit(_C._NcclCommunicator, identity, rank, count, device, _TIMEOUT)
                for rank, device in enumerate(devices)
            ]
            found = _communicators[devices] = [rank.result() for rank in ranks]
    return found


def _call(
    name: str,
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor | None],
    streams: Sequence[Any] | None,
    comms: Any,
    root: int = 0,
    op: int | None = None,
) -> None:
    """Makes the calls of all devices, each in a thread: a call may wait for those of the others."""
    devices = tuple(tensor.get_device() for tensor in inputs)
    if not all(tensor.is_cuda for tensor in inputs):
        raise TypeError("input is not on GPU")
    if len(set(devices)) != len(devices):
        raise RuntimeError("inputs must be on unique devices")
    communicators = _join(devices) if comms is None else comms
    chosen = [torch.cuda.current_stream(device) for device in devices]
    if streams is not None:
        chosen = [given if given is not None else own for given, own in zip(streams, chosen)]
    reduction = None if op is None else _REDUCTIONS[op]

    def call(rank: int) -> None:
        own, into = inputs[rank], outputs[rank]
        with torch.cuda.stream(chosen[rank]):
            # What an error says of a call without a group.
            sizes = (own.numel(), 0 if into is None else into.numel())
            what = ("torch.cuda.nccl", rank, 0, name.replace("_", "").upper(), sizes, None)
            work = communicators[rank].call([(name, own, into, root, reduction)], what, _TIMEOUT)
            work.wait()

    with ThreadPoolExecutor(len(devices)) as threads:
        for done in [threads.submit(call, rank) for rank in range(len(devices))]:
            done.result()


def all_reduce(
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor] | None = None,
    op: int = SUM,
    streams: Sequence[Any] | None = None,
    comms: Any = None,
) -> None:
    """Reduces tensors of several GPUs; each of `outputs` gets the result. By default these are the inputs.

    Args:
        op: NCCL's number of the reduction: 0 for the sum, 1 for the product, 2 for the greatest, 3 for the least.
        streams: by default the current ones.
        comms: communicators of `init_rank`; by default those that this process has made for the devices.
    """
    _check(inputs)
    outputs = inputs if outputs is None else outputs
    _check(outputs)
    _call("all_reduce", inputs, outputs, streams, comms, op=op)


def reduce(
    inputs: Sequence[Tensor],
    output: Tensor | Sequence[Tensor] | None = None,
    root: int = 0,
    op: int = SUM,
    streams: Sequence[Any] | None = None,
    comms: Any = None,
    *,
    outputs: Sequence[Tensor] | None = None,
) -> None:
    """Reduces tensors of several GPUs; `output`, on the GPU of the input `root`, gets the result."""
    _check(inputs)
    if outputs is not None and output is not None:
        raise ValueError(
            "'output' and 'outputs' can not be both specified. 'outputs' is deprecated in favor of 'output', taking in a "
            "single output tensor. The signature of reduce is: "
            "reduce(inputs, output=None, root=0, op=SUM, streams=None, comms=None)."
        )
    if outputs is not None:
        warn(
            "`nccl.reduce` with an output tensor list is deprecated. Please specify a single output tensor with argument "
            "'output' instead.",
            FutureWarning,
        )
        output = outputs[root]
    elif not isinstance(output, torch.Tensor) and isinstance(output, Sequence):
        warn(
            "nccl.reduce with an output tensor list is deprecated. Please specify a single output tensor.",
            FutureWarning,
        )
        output = output[root]
    target = inputs[root] if output is None else output
    own = [target if rank == root else tensor for rank, tensor in enumerate(inputs)]
    _call("reduce", inputs, own, streams, comms, root, op)


def broadcast(inputs: Sequence[Tensor], root: int = 0, streams: Sequence[Any] | None = None, comms: Any = None) -> None:
    """Copies the tensor at place `root` to the others, which are on other GPUs."""
    _check(inputs)
    _call("broadcast", inputs, inputs, streams, comms, root)


def all_gather(
    inputs: Sequence[Tensor], outputs: Sequence[Tensor], streams: Sequence[Any] | None = None, comms: Any = None
) -> None:
    """Collects the inputs in each output, which has as many elements as all inputs together."""
    _check(inputs)
    _check(outputs)
    _call("all_gather", inputs, outputs, streams, comms)


def reduce_scatter(
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
    op: int = SUM,
    streams: Sequence[Any] | None = None,
    comms: Any = None,
) -> None:
    """Reduces the inputs; each output gets the part at its place."""
    _check(inputs)
    _check(outputs)
    _call("reduce_scatter", inputs, outputs, streams, comms, op=op)


def __dir__() -> list[str]:
    return [*__all__, "SUM", "init_rank", "is_available", "unique_id", "version"]
