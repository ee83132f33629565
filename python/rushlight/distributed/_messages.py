"""Messages from one rank to another."""

import contextlib
import time
from datetime import timedelta

from rushlight._set_module import set_module
from rushlight.distributed._collectives import (
    Outputs,
    _packed,
    check_tensor,
    group_rank,
    kind_of_device,
    warn_not_in_group,
)
from rushlight.distributed._groups import get_global_rank, is_member, resolve
from rushlight.distributed._titles import recorded
from rushlight.distributed._work import Work

#: Tags of programs lie below; above are those of `monitored_barrier` and of objects.
LIMIT = 1 << 31
MONITORED, OBJECTS = LIMIT, LIMIT + 1


def _check_tag(tag):
    if not 0 <= tag < LIMIT:
        raise ValueError(
            f"Tag can not be used for this message: {tag}\n  Tags are whole numbers from 0 to {LIMIT - 1}."
        )


def _not_self(group, rank, kind):
    if group._rank == rank:
        raise ValueError(f"Invalid {kind} rank: {kind} rank should not be the same as the rank of the current process.")


def begin_send(tensor, to, group, tag, background, timeout=None):
    """Begins to send; `to` is a rank of the group."""
    seconds = group._seconds if timeout is None else timeout.total_seconds()
    kind, on_host = kind_of_device(group, [tensor])
    with recorded(group, kind, "send"):
        part = group._backend_of(kind).send(_packed(tensor, on_host), to, tag, seconds, background)
    return Work([part], result=[tensor])


def begin_receive(tensor, source, group, tag, background, timeout=None):
    """Begins to receive; `source` is a rank of the group, or None for any."""
    seconds = group._seconds if timeout is None else timeout.total_seconds()
    kind, on_host = kind_of_device(group, [tensor])
    outputs = Outputs([tensor], on_host)
    with recorded(group, kind, "recv"):
        part = group._backend_of(kind).receive(outputs.packed[0], source, tag, seconds, background)
    return Work([part], outputs.finish, lambda rank: get_global_rank(group, rank), [tensor])


def isend(tensor, dst=None, group=None, tag=0, group_dst=None):
    """Begins to send a tensor to rank `dst`. Returns a `Work`; the tensor must not change until it is done.

    Args:
        dst: the rank in the default group, or `group_dst` the one in the group.
        tag: a number that the receiver names too.
    """
    check_tensor(tensor, "tensor")
    if not is_member(group):
        return warn_not_in_group("isend")
    group = resolve(group)
    to = group_rank(group, dst, group_dst)
    _not_self(group, to, "destination")
    _check_tag(tag)
    return begin_send(tensor, to, group, tag, True)


def irecv(tensor, src=None, group=None, tag=0, group_src=None):
    """Begins to receive a tensor from rank `src`, or from any. Returns a `Work`."""
    check_tensor(tensor, "tensor")
    if not is_member(group):
        return warn_not_in_group("irecv")
    group = resolve(group)
    source = None if src is None and group_src is None else group_rank(group, src, group_src)
    if source is not None:
        _not_self(group, source, "source")
    _check_tag(tag)
    return begin_receive(tensor, source, group, tag, True)


def send(tensor, dst=None, group=None, tag=0, group_dst=None):
    """Sends a tensor to rank `dst`. Returns once the tensor may change."""
    check_tensor(tensor, "tensor")
    if not is_member(group):
        return warn_not_in_group("send")
    group = resolve(group)
    to = group_rank(group, dst, group_dst)
    _not_self(group, to, "destination")
    _check_tag(tag)
    begin_send(tensor, to, group, tag, False).wait()


def recv(tensor, src=None, group=None, tag=0, group_src=None):
    """Receives a tensor from rank `src`, or from any. Returns the rank of the sender in the default group.

    Raises:
        RuntimeError: the sender has died or left, sends another size, or sends nothing in time.
    """
    check_tensor(tensor, "tensor")
    if not is_member(group):
        warn_not_in_group("recv")
        return -1
    group = resolve(group)
    source = None if src is None and group_src is None else group_rank(group, src, group_src)
    if source is not None:
        _not_self(group, source, "source")
    _check_tag(tag)
    work = begin_receive(tensor, source, group, tag, False)
    work.wait()
    return work.source_rank()


class P2POp:
    """A send or receive for `batch_isend_irecv`.

    Args:
        op: `isend` or `irecv`.
        tensor: what is sent, or written.
        peer: the other rank in the default group, or `group_peer` the one in the group.
        group: the ranks that take part, by default all.
        tag: a number that both ranks name.
    """

    def __init__(self, op, tensor, peer=None, group=None, tag=0, group_peer=None):
        if op not in (isend, irecv):
            raise ValueError(
                "Invalid ``op``. Expected ``op`` to be of type ``torch.distributed.isend`` or ``torch.distributed.irecv``."
            )
        check_tensor(tensor, "tensor")
        self.op, self.tensor, self.tag = op, tensor, tag
        self.group = resolve(group)
        self.group_peer = group_rank(self.group, peer, group_peer)
        self.peer = get_global_rank(self.group, self.group_peer)
        _not_self(self.group, self.group_peer, "peer")

    def __repr__(self):
        where = f"peer={self.peer}, group_peer={self.group_peer}, tag={self.tag}"
        return f"P2POp({self.op.__name__} {where}, {tuple(self.tensor.shape)}, {self.tensor.dtype})"


def batch_isend_irecv(p2p_op_list):
    """Begins several sends and receives. Returns a list of `Work`."""
    if not isinstance(p2p_op_list, list) or not all(isinstance(op, P2POp) for op in p2p_op_list):
        raise ValueError("Invalid ``p2p_op_list``. Each op is expected to to be of type ``torch.distributed.P2POp``.")
    if len({id(op.group) for op in p2p_op_list}) > 1:
        raise ValueError("All ops need to use the same group.")
    if p2p_op_list and all(not op.group._exchanges_on_host(op.tensor.device.type) for op in p2p_op_list):
        return [_begin_together(p2p_op_list[0].group, p2p_op_list)]
    return [
        op.op(op.tensor, group=op.group, tag=op.tag, **{"group_dst" if op.op is isend else "group_src": op.group_peer})
        for op in p2p_op_list
    ]


def _begin_together(group, ops):
    """Begins sends and receives of NCCL as one call, which all ranks of the group may make for the first time."""
    outputs = Outputs([op.tensor for op in ops if op.op is irecv])
    written = iter(outputs.packed)
    calls = [
        ("receive", next(written), op.group_peer) if op.op is irecv else ("send", _packed(op.tensor), op.group_peer)
        for op in ops
    ]
    part = group._backend_of("cuda").together(calls, group._seconds)
    return Work([part], outputs.finish, result=[op.tensor for op in ops if op.op is irecv])


def monitored_barrier(group=None, timeout=None, wait_all_ranks=False):
    """Waits until every rank has come here. Rank 0 names those that have not.

    Args:
        timeout: how long rank 0 waits for the others, a timedelta, by default that of the group. The others wait for rank 0 as
            long as the group lets them.
        wait_all_ranks: name all ranks that are missing, not only the first.

    Raises:
        RuntimeError: a rank did not come in time. All that did come raise it, as soon as rank 0 does.
    """
    if not is_member(group):
        return warn_not_in_group("monitored_barrier")
    import rushlight as torch

    group = resolve(group)
    if "cpu" not in group._backends:
        raise ValueError("monitored_barrier is only implemented for GLOO backend.")
    timeout = group._timeout if timeout is None else timeout
    if group._rank != 0:
        return _report(group, torch.zeros(1, dtype=torch.uint8), timeout)
    mark = torch.zeros(1, dtype=torch.uint8)
    deadline = time.monotonic() + timeout.total_seconds()
    missing, cause = [], None
    for rank in range(1, group.size()):
        left = timedelta(seconds=max(1e-3, deadline - time.monotonic()))
        try:
            begin_receive(mark, rank, group, MONITORED, False, left).wait()
        except RuntimeError as error:
            missing.append(rank)
            cause = error
            if not wait_all_ranks:
                break
    # A rank that is late reads the answer when it comes.
    mark.fill_(bool(missing))
    for rank in range(1, group.size()):
        with contextlib.suppress(RuntimeError) if missing else contextlib.nullcontext():
            begin_send(mark, rank, group, MONITORED, False, timeout).wait()
    if missing:
        ranks = f"Ranks {', '.join(map(str, missing))}" if wait_all_ranks else f"Rank {missing[0]}"
        milliseconds = round(timeout.total_seconds() * 1000)
        raise RuntimeError(f"[Rank 0]: {ranks} failed to pass monitoredBarrier in {milliseconds} ms") from cause
    return None


def _report(group, mark, timeout):
    """Tells rank 0 that this rank has come, and hears whether all others have."""
    cause: RuntimeError | None = None
    try:
        begin_send(mark, 0, group, MONITORED, False, timeout).wait()
        begin_receive(mark, 0, group, MONITORED, False, max(timeout, group._timeout)).wait()
    except RuntimeError as error:
        cause = error
    if cause is not None or mark.item():
        why = "rank 0 has given up" if cause is None else str(cause)
        raise RuntimeError(
            f"Rank {group._rank} successfully reached monitoredBarrier, but received errors while waiting for send/recv "
            f"from rank 0. Please check rank 0 logs for faulty rank.\n Original exception: \n{why}"
        ) from cause


set_module("rushlight.distributed", P2POp)
