"""Messages between two ranks: order, tags, sizes, peers that are gone."""

import os
import signal
import time

import pytest
from ranks import PATIENCE

import rushlight as torch
from rushlight import distributed as dist


def _ring(rank, size):
    big = torch.full((3_000_000,), float(rank))
    received = torch.zeros(3_000_000)
    works = [dist.isend(big, (rank + 1) % size), dist.irecv(received, (rank - 1) % size)]
    for work in works:
        assert work.wait()
    assert (received == (rank - 1) % size).all()
    assert works[1].source_rank() == (rank - 1) % size


@pytest.mark.parametrize("size", [2, 3])
def test_messages_longer_than_a_ring_pass_in_both_directions(ranks, size):
    ranks(_ring, size, size)


def _tags(rank):
    if rank == 0:
        works = [dist.isend(torch.full((1000,), float(tag)), 1, tag=tag) for tag in range(20)]
        for work in works:
            work.wait()
    else:
        tensor = torch.zeros(1000)
        for tag in [7, 3, 19, *range(3), *range(4, 7), *range(8, 19)]:
            assert dist.recv(tensor, 0 if tag % 2 else None, tag=tag) == 0
            assert (tensor == tag).all()


def test_tags_are_received_in_any_order(ranks):
    ranks(_tags, 2)


def _any(rank, size):
    if rank:
        dist.send(torch.tensor([rank]), 0)
        return None
    tensor = torch.zeros(1, dtype=torch.int64)
    senders = []
    for _ in range(size - 1):
        sender = dist.recv(tensor)
        assert tensor.item() == sender
        senders.append(sender)
    return sorted(senders)


def test_any_rank_may_send(ranks):
    assert ranks(_any, 3, 3)[0] == [1, 2]


def _batch(rank):
    sent, received = torch.full((100,), float(rank)), torch.zeros(100)
    ops = [dist.P2POp(dist.isend, sent, 1 - rank), dist.P2POp(dist.irecv, received, 1 - rank)]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    assert (received == 1 - rank).all()
    with pytest.raises(ValueError, match="Invalid ``op``"):
        dist.P2POp(dist.broadcast, sent, 1 - rank)
    with pytest.raises(ValueError, match="should not be the same as the rank of the current process"):
        dist.send(sent, rank)


def test_batches(ranks):
    ranks(_batch, 2)


def _background(rank):
    # Nobody waits for the message while it is under way.
    if rank == 0:
        work = dist.isend(torch.ones(2_000_000), 1)
        while not work.is_completed():
            time.sleep(0.001)
    else:
        tensor = torch.zeros(2_000_000)
        work = dist.irecv(tensor, 0)
        while not work.is_completed():
            time.sleep(0.001)
        assert (tensor == 1).all()


def test_messages_move_in_the_background(ranks):
    ranks(_background, 2)


def _sizes(rank):
    if rank == 0:
        dist.send(torch.ones(5), 1, tag=3)
        dist.send(torch.ones(2), 1, tag=4)
    else:
        with pytest.raises(RuntimeError, match="rank 0 sends 20 bytes with tag 3"):
            dist.recv(torch.ones(4), 0, tag=3)
        dist.recv(torch.ones(2), 0, tag=4)  # the next message is whole


def test_a_message_of_another_size_is_an_error(ranks):
    ranks(_sizes, 2)


def _gone(rank):
    dist.barrier()
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    with pytest.raises(RuntimeError, match=r"Connection closed by peer: rank 1 \(process \d+\) has died"):
        dist.recv(torch.zeros(3), 1)
    with pytest.raises(RuntimeError, match=r"rank 1 \(process \d+\) has died"):
        dist.send(torch.zeros(1_000_000), 1)


def test_a_dead_peer_is_named(ranks):
    # A rank that waited for this timeout would be taken for a hang.
    assert ranks(_gone, 2, timeout=10 * PATIENCE)[1] is None


def _slow(rank):
    if rank == 0:
        with pytest.raises(RuntimeError, match="Timed out waiting 300ms for recv from rank 1 with tag 0"):
            dist.recv(torch.zeros(1), 1)
    else:
        time.sleep(0.6)


def test_a_receive_ends_at_its_timeout(ranks):
    ranks(_slow, 2, timeout=0.3)


_REACHED = "Rank {} successfully reached monitoredBarrier, but received errors while waiting for send/recv from rank 0. Please check"


def _monitored(rank, absent, wait_all_ranks):
    from datetime import timedelta

    dist.monitored_barrier()
    if rank in absent:
        time.sleep(0.8)
    with pytest.raises(RuntimeError) as error:
        dist.monitored_barrier(timeout=timedelta(seconds=0.4), wait_all_ranks=wait_all_ranks)
    dist.barrier()  # rank 0 is there until all have heard of it
    return str(error.value)


@pytest.mark.parametrize(
    ("absent", "wait_all_ranks", "sentence"),
    [((2,), False, "Rank 2"), ((1, 2), False, "Rank 1"), ((1, 2), True, "Ranks 1, 2")],
)
def test_a_monitored_barrier_names_the_missing_ranks(ranks, absent, wait_all_ranks, sentence):
    """Rank 0 does. Ranks that came, and those that come too late, hear that it has given up."""
    answers = ranks(_monitored, 4, absent, wait_all_ranks)
    assert answers[0] == f"[Rank 0]: {sentence} failed to pass monitoredBarrier in 400 ms"
    for rank in (1, 2, 3):
        first, *_, last = answers[rank].splitlines()
        assert first.startswith(_REACHED.format(rank)) and last == "rank 0 has given up"


def _without_rank_0(rank):
    if rank == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    with pytest.raises(RuntimeError, match=_REACHED.format(rank)):
        dist.monitored_barrier()


def test_a_monitored_barrier_without_rank_0(ranks):
    ranks(_without_rank_0, 3)
