"""Groups that exchange tensors on GPUs through NVIDIA's library NCCL.

A group has a communicator for each device of this process, which its first call makes. Calls are enqueued on the
communicator's stream, and results are there once the current stream has waited for it: `Work.wait` does this without
stopping the host.
"""

import atexit
import os
import weakref
from datetime import timedelta

import rushlight as torch
from rushlight import _C
from rushlight.distributed._host_group import DistBackendError
from rushlight.distributed.store import DistError

#: What errors call the calls.
_OPERATIONS = {
    "all_reduce": "ALLREDUCE",
    "broadcast": "BROADCAST",
    "reduce": "REDUCE",
    "all_gather": "ALLGATHER",
    "gather": "GATHER",
    "scatter": "SCATTER",
    "reduce_scatter": "REDUCE_SCATTER",
    "all_to_all": "ALLTOALL",
    "barrier": "ALLREDUCE",
    "send": "SEND",
    "receive": "RECV",
    "coalesced": "COALESCED",
}

_living: weakref.WeakSet = weakref.WeakSet()


@atexit.register
def _abort_all():
    """Calls that nobody completes must not hold up the end of the process."""
    for group in list(_living):
        group.abort()


def _blocks():
    """Whether waits stop the host, too."""
    return os.environ.get("TORCH_NCCL_BLOCKING_WAIT", "0") not in ("", "0")


class NcclGroup:
    """This process's part of a group, with its communicators."""

    #: How errors call it, and their class if an argument is wrong.
    process_group, argument_error = "ProcessGroupNCCL", ValueError

    def __init__(self, store, rank, size, global_rank, name, options=None):
        _C._nccl_check()
        self._settings = None if options is None else options._settings()
        self._store, self._rank, self._size = store, rank, size
        self._global_rank, self._name = global_rank, name
        self._all: dict[int, object] = {}
        self._pairs: dict[tuple[int, int], object] = {}
        self._made, self._sequence = 0, 0
        self._last = None
        _living.add(self)

    def device(self, bound=None):
        """The device of calls without tensors: the one of the group, that of the last call, or the current one."""
        if bound is not None:
            return bound.index
        return torch.cuda.current_device() if self._last is None else self._last

    def _join(self, key, rank, size, device, seconds):
        """A new communicator. The first rank makes its id, which the others find in the store."""
        if rank == 0:
            identity = _C._nccl_unique_id()
            self._store.set(f"nccl/{key}", identity)
        else:
            try:
                self._store.wait([f"nccl/{key}"], timedelta(seconds=seconds))
            except DistError as error:
                raise DistBackendError(
                    f"[{rank}] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d key-value "
                    f"store by key '{key}', but store->get('{key}') got error: {error}"
                ) from None
            identity = self._store.get(f"nccl/{key}")
        return _C._NcclCommunicator(identity, rank, size, device, seconds, self._settings)

    def connect(self, device, seconds):
        """The communicator of all ranks for a device of this process."""
        found = self._all.get(device)
        if found is None:
            number, self._made = self._made, self._made + 1
            found = self._all[device] = self._join(str(number), self._rank, self._size, device, seconds)
        self._last = device
        return found

    def _connect_pair(self, peer, device, seconds):
        """The communicator with one other rank: other ranks need not call anything."""
        found = self._pairs.get((peer, device))
        if found is None:
            low, high = sorted((self._rank, peer))
            key = f"{low}:{high}/{sum(other == peer for other, _ in self._pairs)}"
            found = self._join(key, int(self._rank == high), 2, device, seconds)
            self._pairs[peer, device] = found
        return found

    def _enqueue(self, communicator, name, calls, seconds, sizes, message=None, sender=None):
        self._sequence += 1
        what = (self._name, self._global_rank, self._sequence, _OPERATIONS[name], sizes, message)
        return _Part(communicator.call(calls, what, seconds), name == "barrier" or _blocks(), seconds, sender)

    def barrier(self, bound, seconds, asynchronous):
        """Enqueues a call that is over once all ranks have made it. Waits for it stop the host."""
        mark = torch.zeros(1, device=torch.device("cuda", self.device(bound)))
        return self.call("barrier", [], [mark], 0, 0, seconds, asynchronous)

    def call(self, name, given, got, root, reduction, seconds, asynchronous):
        """Enqueues a collective call. Its tensors are contiguous and on one device.

        Returns its part of a work, or None once the current stream waits for it.
        """
        tensors = [*given, *got]
        device = tensors[0].device
        for tensor in tensors:
            if tensor.device != device:
                raise RuntimeError(
                    f"Expected list of tensors on the same device: {tensor.device} is not {device}\n"
                    "  The tensors of a call of NCCL are on one GPU."
                )
        communicator = self.connect(device.index, seconds)
        calls = [call for call in self._calls(name, given, got, root, reduction) if _has_elements(call)]
        sizes = sum(tensor.numel() for tensor in given or got), sum(tensor.numel() for tensor in got)
        part = self._enqueue(communicator, name, calls, seconds, sizes)
        if asynchronous:
            return part
        part.wait(None)
        return None

    def _calls(self, name, given, got, root, reduction):
        """The calls of NCCL that make up a collective call."""
        own = self._rank
        if name in ("all_reduce", "barrier"):
            return [("all_reduce", got[0], got[0], 0, reduction)]
        if name == "reduce":
            return [("reduce", got[0], got[0], root, reduction)]
        if name == "broadcast":
            return [("broadcast", None, got[0], root, None)]
        if name == "all_gather":
            flat = _joined(got)
            if flat is not None:
                return [("all_gather", given[0], flat, 0, None)]
            _copy(got[own], given[0])
            return [("broadcast", None, tensor, rank, None) for rank, tensor in enumerate(got)]
        if name == "reduce_scatter":
            flat = _joined(given)
            flat = torch.cat([tensor.reshape(-1) for tensor in given]) if flat is None else flat
            return [("reduce_scatter", flat, got[0], 0, reduction)]
        if name == "gather":
            if own != root:
                return [("send", given[0], None, root, None)]
            _copy(got[own], given[0])
            return [("receive", None, tensor, rank, None) for rank, tensor in enumerate(got) if rank != own]
        if name == "scatter":
            if own != root:
                return [("receive", None, got[0], root, None)]
            _copy(got[0], given[own])
            return [("send", tensor, None, rank, None) for rank, tensor in enumerate(given) if rank != own]
        if name != "all_to_all":
            raise NotImplementedError(f"{name} has no form for NCCL")
        _copy(got[own], given[own])
        sent = [("send", tensor, None, rank, None) for rank, tensor in enumerate(given) if rank != own]
        return sent + [("receive", None, tensor, rank, None) for rank, tensor in enumerate(got) if rank != own]

    def together(self, calls, seconds):
        """Enqueues calls as one: tuples of ``send`` or ``receive``, a tensor, and a rank."""
        communicator = self.connect(calls[0][1].device.index, seconds)
        own = [
            (name, tensor if name == "send" else None, tensor if name == "receive" else None, peer, None)
            for name, tensor, peer in calls
        ]
        count = sum(tensor.numel() for _, tensor, _ in calls)
        return self._enqueue(communicator, "coalesced", own, seconds, (count, count))

    def send(self, tensor, to, tag, seconds, background):
        """Enqueues the send of a tensor."""
        communicator = self._connect_pair(to, tensor.device.index, seconds)
        calls = [("send", tensor, None, int(self._rank < to), None)] if tensor.numel() else []
        return self._enqueue(communicator, "send", calls, seconds, (tensor.numel(),) * 2, (to, tag))

    def receive(self, tensor, source, tag, seconds, background):
        """Enqueues the receipt of a tensor."""
        if source is None:
            raise RuntimeError("Backend nccl does not support recvAnysource")
        communicator = self._connect_pair(source, tensor.device.index, seconds)
        calls = [("receive", None, tensor, int(self._rank < source), None)] if tensor.numel() else []
        return self._enqueue(communicator, "receive", calls, seconds, (tensor.numel(),) * 2, (source, tag), source)

    def _end(self, end):
        communicators = [*self._all.values(), *self._pairs.values()]
        self._all.clear()
        self._pairs.clear()
        for communicator in communicators:
            end(communicator)

    def leave(self, seconds=60.0):
        """Ends the communicators once their calls have run."""
        self._end(lambda communicator: communicator.end(seconds))

    def abort(self):
        """Ends the communicators at once."""
        self._end(lambda communicator: communicator.abort())


class _Part:
    """A call that was enqueued, as the part of a work."""

    def __init__(self, work, blocks, seconds, sender):
        self._work, self._blocks, self._seconds, self._sender = work, blocks, seconds, sender
        self.is_completed, self.is_success, self.exception = work.is_completed, work.is_success, work.exception

    def wait(self, seconds):
        """Makes the current stream wait; the host, too, if there is a limit or the call is for it. Returns the sender."""
        self._work.wait(self._seconds if seconds is None and self._blocks else seconds)
        return self._sender


def _has_elements(call):
    return any(tensor is not None and tensor.numel() for tensor in call[1:3])


def _copy(to, source):
    with torch.no_grad():
        to.detach().copy_(source.view(to.shape))


def _joined(tensors):
    """One flat tensor of several that follow each other in memory, or None."""
    first = tensors[0]
    size = first.numel()
    bytes_of_one = size * first.element_size()
    for index, tensor in enumerate(tensors):
        if tensor.numel() != size or tensor.data_ptr() != first.data_ptr() + index * bytes_of_one:
            return None
    if first.untyped_storage().data_ptr() != tensors[-1].untyped_storage().data_ptr():
        return None
    return first.detach().as_strided((size * len(tensors),), (1,))
