"""Collective calls: values for every dtype, reduction, stride and size, and what happens when ranks disagree or die."""

import os
import signal
import time

import numpy as np
import pytest
from ranks import PATIENCE

import rushlight as torch
from rushlight import distributed as dist

ReduceOp = dist.ReduceOp
INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16, torch.uint32, torch.uint64]
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
COMPLEX = [torch.complex64, torch.complex128]
#: Elements: none, one, a chunk of the small path, and several chunks of the large one with a rest.
SIZES = [0, 1, 1000, 300_001]


def _values(rank, count, dtype):
    numbers = (torch.arange(count) * 7 + rank * 3) % 5 + 1
    if dtype.is_complex:
        return torch.complex(numbers.double(), (numbers.double() - rank)).to(dtype)
    return numbers.to(dtype)


def _folded(op, parts, dtype):
    wide = [part.to(torch.complex128 if dtype.is_complex else torch.float64).numpy() for part in parts]
    if op in (ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR):
        wide = [part.long().numpy() for part in parts]
    fold = {
        ReduceOp.SUM: np.add, ReduceOp.AVG: np.add, ReduceOp.PRODUCT: np.multiply, ReduceOp.MIN: np.minimum,
        ReduceOp.MAX: np.maximum, ReduceOp.BAND: np.bitwise_and, ReduceOp.BOR: np.bitwise_or,
        ReduceOp.BXOR: np.bitwise_xor,
    }[op]  # fmt: skip
    total = wide[0]
    for part in wide[1:]:
        total = fold(total, part)
    if op == ReduceOp.AVG:
        if dtype.is_complex:
            total = (total.view(np.float64) / len(parts)).view(np.complex128)
        else:
            total = total / len(parts) if dtype.is_floating_point else total // len(parts)
    return torch.from_numpy(np.asarray(total)).to(dtype)


def _reduces(rank, size):
    for dtype in [*INTEGERS, *FLOATS, *COMPLEX]:
        for op in ReduceOp.RedOpType:
            bits = op in (ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR)
            order = op in (ReduceOp.MIN, ReduceOp.MAX)
            inexact = dtype.is_floating_point or dtype.is_complex
            if op > ReduceOp.BXOR or (bits and inexact) or (order and dtype.is_complex):
                continue
            for count in SIZES if dtype in (torch.float32, torch.bfloat16, torch.int64) else SIZES[:3]:
                parts = [_values(other, count, dtype) for other in range(size)]
                tensor = parts[rank].clone()
                dist.all_reduce(tensor, op)
                assert torch.equal(tensor, _folded(op, parts, dtype)), (dtype, op, count)
                tensor = parts[rank].clone()
                dist.reduce(tensor, 1, op)
                expected = _folded(op, parts, dtype) if rank == 1 else parts[rank]
                assert torch.equal(tensor, expected), (dtype, op, count)


@pytest.mark.parametrize("size", [2, 3])
def test_reductions(ranks, size):
    ranks(_reduces, size, size)


def _truths(rank):
    for op, expected in [(ReduceOp.SUM, True), (ReduceOp.PRODUCT, False), (ReduceOp.MAX, True), (ReduceOp.MIN, False)]:
        tensor = torch.tensor([rank == 0])
        dist.all_reduce(tensor, op)
        assert tensor.item() is expected


def test_truths_are_combined_logically(ranks):
    ranks(_truths, 2)


def _nan(rank):
    for op in (ReduceOp.MIN, ReduceOp.MAX):
        for place in (0, 1):
            tensor = torch.tensor([float("nan") if rank == place else 1.0])
            dist.all_reduce(tensor, op)
            assert tensor.isnan().item()


def test_nan_stays_in_minima_and_maxima(ranks):
    ranks(_nan, 2)


def _half_sums(rank):
    # In half precision, 2048 + 1 is 2048; in single precision 2048 + 1 + 1 is 2050.
    tensor = torch.tensor([2048.0 if rank == 0 else 1.0], dtype=torch.float16)
    dist.all_reduce(tensor)
    assert tensor.item() == 2050


def test_half_types_are_rounded_once(ranks):
    ranks(_half_sums, 3)


def _moves(rank, size):
    for dtype in (torch.float32, torch.bool, torch.complex64, torch.float8_e4m3fn, torch.uint64):
        for count in SIZES:
            part = _values(rank, count, torch.int64).to(dtype)
            every = [_values(other, count, torch.int64).to(dtype) for other in range(size)]
            bits = lambda tensor: tensor.view(torch.uint8) if tensor.numel() else tensor.bool()

            tensor = part.clone()
            dist.broadcast(tensor, 1)
            assert torch.equal(bits(tensor), bits(every[1]))

            outputs = [torch.empty_like(part) for _ in range(size)]
            dist.all_gather(outputs, part)
            assert all(torch.equal(bits(a), bits(b)) for a, b in zip(outputs, every))

            outputs = [torch.empty_like(part) for _ in range(size)] if rank == 1 else None
            dist.gather(part, outputs, 1)
            assert outputs is None or all(torch.equal(bits(a), bits(b)) for a, b in zip(outputs, every))

            tensor = torch.empty_like(part)
            dist.scatter(tensor, every if rank == 0 else None, 0)
            assert torch.equal(bits(tensor), bits(part))

            flat = torch.empty(size * count, dtype=dtype)
            dist.all_gather_into_tensor(flat, part)
            assert torch.equal(bits(flat), bits(torch.cat(every)))

            outputs = [torch.empty_like(part) for _ in range(size)]
            dist.all_to_all(outputs, every)
            assert all(torch.equal(bits(a), bits(part)) for a in outputs)


@pytest.mark.parametrize("size", [2, 3])
def test_moves(ranks, size):
    ranks(_moves, size, size)


def _uneven(rank, size):
    counts = [30_000 * (other + 1) for other in range(size)]
    inputs = [torch.full((count,), rank * 10 + other) for other, count in enumerate(counts)]
    outputs = [torch.zeros(counts[rank], dtype=torch.int64) for _ in range(size)]
    dist.all_to_all(outputs, inputs)
    assert all((output == other * 10 + rank).all() for other, output in enumerate(outputs))

    gathered = [torch.zeros(count) for count in counts]
    dist.all_gather(gathered, torch.full((counts[rank],), float(rank)))
    assert all((part == other).all() for other, part in enumerate(gathered))

    into = torch.zeros(sum([2] * size), 3, dtype=torch.int64)
    dist.all_to_all_single(into, torch.arange(2 * size * 3).view(-1, 3) + 100 * rank)
    assert torch.equal(
        into.view(size, 2, 3), torch.stack([torch.arange(6).view(2, 3) + 6 * rank + 100 * k for k in range(size)])
    )

    output = torch.zeros(2)
    dist.reduce_scatter(output, [torch.full((2,), float(other)) for other in range(size)])
    assert output.tolist() == [rank * size] * 2
    dist.reduce_scatter_tensor(output, torch.arange(2.0 * size))
    assert output.tolist() == [2 * rank * size, (2 * rank + 1) * size]


def test_uneven_parts(ranks):
    ranks(_uneven, 3, 3)


def _strides(rank):
    base = torch.arange(24.0).view(4, 6)
    for view in (lambda t: t.t(), lambda t: t[:, ::2], lambda t: t[::-1], lambda t: t[1:, 1:3], lambda t: t[0, 0]):
        for asynchronous in (False, True):
            own, expected = base.clone(), base.clone()
            view(expected).mul_(2)
            version = own._version
            work = dist.all_reduce(view(own), async_op=asynchronous)
            if asynchronous:
                assert work.wait() is True and work.is_completed() and work.is_success()
            assert torch.equal(own, expected)
            assert own._version > version
    other = torch.zeros(6, 4)
    dist.all_gather_into_tensor(torch.zeros(2, 3, 2).permute(0, 2, 1), torch.ones(2, 3))
    if rank == 0:
        dist.send(base.t(), 1)
    else:
        received = torch.zeros(4, 6)
        dist.recv(received.t(), 0)
        assert torch.equal(received, base)
    conjugate = torch.tensor([1 + 2j]).conj()
    dist.broadcast(conjugate, 0)
    assert conjugate.item() == 1 - 2j
    assert other.sum() == 0


def test_strided_tensors(ranks):
    ranks(_strides, 2)


def _order(rank, size):
    torch.manual_seed(rank)
    tensor = torch.randn(200_000)
    results = []
    for _ in range(3):
        again = tensor.clone()
        dist.all_reduce(again)
        results.append(again)
    parts = [torch.empty_like(tensor) for _ in range(size)]
    dist.all_gather(parts, tensor)
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return all(torch.equal(total, result) for result in results)


def test_sums_add_in_the_order_of_ranks(ranks):
    assert ranks(_order, 3, 3) == [True] * 3


def _many(rank):
    tensors = [torch.full((2000 * (k % 3) + 1,), float(k)) for k in range(50)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    between = torch.ones(1)
    dist.all_reduce(between)  # after those that were begun before
    assert between.item() == 2
    for k, (tensor, work) in enumerate(zip(tensors, works)):
        work.wait()
        assert (tensor == 2 * k).all()
    assert works[0].get_future().value()[0] is tensors[0]


def test_asynchronous_calls_keep_their_order(ranks):
    ranks(_many, 2)


def _coalesced(rank):
    """Calls that are held back until the context ends."""
    size = dist.get_world_size()
    tensors = [torch.full((3,), float(rank + number)) for number in range(3)]
    with dist._coalescing_manager():
        for tensor in tensors:
            first = tensor[0].item()
            work = dist.all_reduce(tensor, async_op=True)
            assert tensor[0] == first
            with pytest.raises(RuntimeError, match="Illegal to call wait on IllegalWork object"):
                work.wait()
    sums = [sum(range(size)) + size * number for number in range(3)]
    assert [tensor.tolist() for tensor in tensors] == [[float(total)] * 3 for total in sums]
    gathered, scattered = [torch.zeros(size) for _ in range(2)], [torch.zeros(1) for _ in range(2)]
    with dist._coalescing_manager(async_ops=True) as manager:
        for output in gathered:
            dist.all_gather_into_tensor(output, torch.ones(1) * rank)
    manager.wait()
    with dist._coalescing_manager():
        for output in scattered:
            dist.reduce_scatter_tensor(output, torch.arange(float(size)))
    assert all(output.tolist() == list(range(size)) for output in gathered)
    assert all(output.item() == rank * size for output in scattered)
    with pytest.raises(RuntimeError, match="requires all collectives to be the same type, but got mixed types"):
        with dist._coalescing_manager():
            dist.all_reduce(tensors[0])
            dist.all_gather_into_tensor(gathered[0], torch.ones(1))
    with pytest.raises(ValueError, match="non-empty op list"), dist._coalescing_manager():
        with dist._coalescing_manager():
            pass
    with pytest.raises(ZeroDivisionError), dist._coalescing_manager():
        dist.all_reduce(tensors[0])
        1 / 0
    with pytest.warns(FutureWarning, match="all_gather_single"):
        dist._all_gather_base(gathered[0], torch.ones(1))
    with pytest.warns(FutureWarning, match="reduce_scatter_single"):
        dist._reduce_scatter_base(scattered[0], torch.ones(size))
    assert scattered[0].item() == size and gathered[0].tolist() == [1.0] * size


def _anywhere(rank):
    """Tensors that begin at any byte, short and long."""
    for count in (10, 300_000):
        for dtype in (torch.float32, torch.float16, torch.complex64, torch.int64):
            buffer = bytearray(1 + count * dtype.itemsize)
            tensor = torch.frombuffer(buffer, dtype=dtype, offset=1).fill_(rank + 1)
            for op, result in ((dist.ReduceOp.SUM, 3), (dist.ReduceOp.PRODUCT, 9)):
                dist.all_reduce(tensor, op)
                assert torch.equal(tensor, torch.full((count,), result, dtype=dtype)), (dtype, op)
            part = torch.frombuffer(bytearray(1 + count * dtype.itemsize), dtype=dtype, offset=1)[: count // 2]
            dist.reduce_scatter_tensor(part, tensor)
            assert torch.equal(part, torch.full((count // 2,), 18, dtype=dtype)), dtype


def test_tensors_that_are_not_aligned(ranks):
    ranks(_anywhere, 2)


def test_calls_that_are_made_together(ranks):
    ranks(_coalesced, 2)


def _sparse(rank, size):
    tensor = torch.sparse_coo_tensor([[rank, 3]], [1.0, 2.0], (4,))
    dist.all_reduce(tensor)
    assert tensor.to_dense().tolist() == [1.0, 1.0, 0.0, 4.0]


def test_sparse_sums(ranks):
    ranks(_sparse, 2, 2)


def _objects(rank, size):
    everyone = [None] * size
    dist.all_gather_object(everyone, {"rank": rank, "tensor": torch.ones(rank)})
    assert [one["rank"] for one in everyone] == list(range(size))
    assert everyone[2]["tensor"].tolist() == [1, 1]
    listed = [f"a{rank}", rank, None]
    dist.broadcast_object_list(listed, src=1)
    assert listed == ["a1", 1, None]
    out = [None]
    dist.scatter_object_list(out, [f"x{k}" * k for k in range(size)] if rank == 0 else None, src=0)
    assert out == [f"x{rank}" * rank]
    gathered = [None] * size if rank == 1 else None
    dist.gather_object(rank * 2, gathered, dst=1)
    assert gathered is None or gathered == [0, 2, 4]
    if rank == 0:
        dist.send_object_list(["hello", 3], dst=1)
    elif rank == 1:
        received = [None, None]
        assert dist.recv_object_list(received, src=0) == 0
        assert received == ["hello", 3]


def test_objects(ranks):
    ranks(_objects, 3, 3)


def _mismatch(rank, calls):
    answer = ""
    try:
        calls[rank]()
    except RuntimeError as error:
        answer = str(error).splitlines()[0]
    # A rank that had all its bytes before another one noticed learns of it in the next call.
    with pytest.raises(RuntimeError, match="cannot be used after an error|gave up"):
        dist.barrier()
    return answer


@pytest.mark.parametrize(
    ("calls", "sentence"),
    [
        (
            (lambda: dist.all_reduce(torch.ones(3)), lambda: dist.broadcast(torch.ones(4), 0)),
            "rank 0 calls all_reduce (SUM) of float32 with 12 bytes, rank 1 calls broadcast with 16 bytes, root 0",
        ),
        (
            (lambda: dist.all_reduce(torch.ones(3)), lambda: dist.all_reduce(torch.ones(3).int())),
            "rank 0 calls all_reduce (SUM) of float32 with 12 bytes, rank 1 calls all_reduce (SUM) of int32 with 12 bytes",
        ),
        ((lambda: dist.reduce(torch.ones(3), 0), lambda: dist.reduce(torch.ones(3), 1)), "root 0, rank 1 calls reduce"),
        (
            (
                lambda: dist.all_to_all([torch.ones(1), torch.ones(2)], [torch.ones(1), torch.ones(3)]),
                lambda: dist.all_to_all([torch.ones(2), torch.ones(1)], [torch.ones(2), torch.ones(1)]),
            ),
            "rank 0 sends 12 bytes to rank 1, which expects 8",
        ),
    ],
)
def test_ranks_that_disagree_raise(ranks, calls, sentence):
    answers = ranks(_mismatch, 2, calls, timeout=10 * PATIENCE)  # who waited for it would be taken for a hang
    assert any(sentence in one for one in answers), answers


def _dies(rank, size, when):
    dist.barrier()
    if rank == size - 1:
        if when == "left":
            dist.destroy_process_group()
            return None
        os.kill(os.getpid(), signal.SIGKILL)
    with pytest.raises(RuntimeError) as error:
        for _ in range(2000):
            dist.all_reduce(torch.ones(100_000))
    return str(error.value).splitlines()[0]


@pytest.mark.parametrize("when", ["killed", "left"])
def test_a_rank_that_is_gone_is_named(ranks, when):
    answers = ranks(_dies, 3, 3, when, timeout=10 * PATIENCE)
    assert answers[2] is None
    for one in answers[:2]:
        assert "rank 2" in one
        assert ("has left the group" if when == "left" else "has died") in one


def _late(rank):
    if rank == 1:
        time.sleep(1.5)
        with pytest.raises(RuntimeError, match="rank 0 gave up: Timed out"):
            dist.all_reduce(torch.ones(1))
        return None
    with pytest.raises(RuntimeError) as error:
        dist.all_reduce(torch.ones(1))
    return str(error.value).splitlines()[0]


def test_a_late_rank_is_named(ranks):
    answer = ranks(_late, 2, timeout=0.5)[0]
    expected = "Timed out waiting 500ms for all_reduce operation to complete: rank 1 did not call it"
    assert answer == expected + (", or cannot be reached" if ranks.machines > 1 else "")


def _interrupted(rank):
    if rank == 0:
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(KeyboardInterrupt):
            dist.barrier()
    else:
        time.sleep(0.5)
        with pytest.raises(RuntimeError, match="rank 0 gave up: it was interrupted in barrier"):
            dist.barrier()


def test_an_interrupt_ends_the_wait(ranks):
    ranks(_interrupted, 2)


def _refusals(rank):
    with pytest.raises(TypeError, match="Expected parameter `tensor` of type torch.Tensor"):
        dist.all_reduce([1])
    with pytest.raises(RuntimeError, match="Cannot use ReduceOp.BAND with non-integral dtype"):
        dist.all_reduce(torch.ones(1), ReduceOp.BAND)
    with pytest.raises(ValueError, match="all_reduce does not support"):
        dist.all_reduce(torch.ones(1, dtype=torch.complex64), ReduceOp.MAX)
    with pytest.raises(RuntimeError, match="^reduce does not support"):
        dist.reduce(torch.ones(1, dtype=torch.complex64), 0, ReduceOp.MAX)
    with pytest.raises(ValueError, match="Must specify global_rank or group_rank"):
        dist.broadcast(torch.ones(1))
    for name, refused in {
        "broadcast": lambda root: dist.broadcast(torch.ones(1), root),
        "reduce": lambda root: dist.reduce(torch.ones(1), group_dst=root),
        "gather": lambda root: dist.gather(torch.ones(1), None, root),
        "scatter": lambda root: dist.scatter(torch.ones(1), None, root),
    }.items():
        for root in (7, -1):
            with pytest.raises(RuntimeError, match=f"^ProcessGroupGloo::{name}: invalid root rank: {root}$"):
                refused(root)
    with pytest.raises(RuntimeError, match="^ProcessGroupGloo::gather: invalid root rank: 7$"):
        dist.gather_object(1, None, 7)
    for refused in (dist.broadcast_object_list, lambda own, root: dist.scatter_object_list([None], own, root)):
        with pytest.raises(RuntimeError, match="^ProcessGroupGloo::broadcast: invalid root rank: 7$"):
            refused([1], 7)
    with pytest.raises(ValueError, match="Global rank 7 is not part of group"):
        dist.send(torch.ones(1), 7)
    with pytest.raises(ValueError, match="must be specified on (destination|source) rank"):
        dist.gather(torch.ones(1), None, rank)
    with pytest.raises(ValueError, match="Invalid usage of tensors with different dtypes"):
        dist.all_gather([torch.ones(1), torch.ones(1).int()], torch.ones(1))
    with pytest.raises(RuntimeError, match=r"invalid output tensor list at index 0 \(expected length 2, got 1\)"):
        dist.all_gather([torch.ones(1)], torch.ones(1))
    # Sizes that do not fit on this rank alone leave the group as it was.
    large, small = [torch.ones(3), torch.ones(3)], [torch.ones(2), torch.ones(2)]
    sentence = rf"::{{}}: invalid tensor size at index {rank} \(expected \(2\), got \(3\)\)"
    with pytest.raises(RuntimeError, match=sentence.format("allgather")):
        dist.all_gather(large, small[0])
    with pytest.raises(RuntimeError, match=sentence.format("reduce_scatter")):
        dist.reduce_scatter(small[0], large)
    with pytest.raises(RuntimeError, match=sentence.format("gather")):
        dist.gather(small[0], large, rank)
    with pytest.raises(RuntimeError, match=sentence.format("scatter")):
        dist.scatter(small[0], large, rank)
    with pytest.raises(RuntimeError, match="alltoall: input and output tensors must have the same size"):
        dist.all_to_all(large, small)
    assert (dist.all_gather(large, torch.zeros(3)), large[rank].tolist()) == (None, [0, 0, 0])
    with pytest.raises(ValueError, match="output tensor size must be equal to world_size times input tensor size"):
        dist.all_gather_into_tensor(torch.ones(3), torch.ones(1))
    with pytest.raises(RuntimeError, match="does not divide equally across group size"):
        dist.all_to_all_single(torch.ones(3), torch.ones(3))
    with pytest.raises(RuntimeError, match="read-only"):
        array = np.ones(3)
        array.flags.writeable = False
        dist.all_reduce(torch.from_numpy(array))
    with pytest.raises(ValueError, match="trying to initialize the default process group twice!"):
        dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    for options in ({"timeout": 5}, {"timeout": "a"}, {"device_ids": ["a"]}):
        with pytest.raises(TypeError, match=r"^\(\): incompatible function arguments\."):
            dist.barrier(**options)
    dist.barrier()  # and the group still works


def test_refusals_leave_the_group_usable(ranks):
    ranks(_refusals, 2)


def _huge(rank):
    """More bytes than 32 bits count."""
    tensor = torch.full((3_200_000_000,), rank + 1, dtype=torch.uint8)
    tensor[2**31], tensor[-1] = 9 + rank, 7
    dist.all_reduce(tensor)
    assert [tensor[place].item() for place in (0, 2**31, 2**31 + 1, -2, -1)] == [3, 19, 3, 3, 14]
    if rank == 0:
        tensor[-2] = 77
        dist.send(tensor, 1)
    else:
        tensor.zero_()
        dist.recv(tensor, 0)
    assert [tensor[place].item() for place in (0, 2**31, -2, -1)] == [3, 19, 77, 14]
    if rank == 1:
        tensor.zero_()
    dist.broadcast(tensor, 0)
    assert [tensor[place].item() for place in (0, 2**31, -2, -1)] == [3, 19, 77, 14]


@pytest.mark.parametrize("ranks", [1], indirect=True, ids=["one_machine"])
def test_tensors_of_three_gigabytes(ranks, thorough):
    if not thorough:
        pytest.skip("takes seven gigabytes of memory: --thorough")
    ranks(_huge, 2)
