"""What the ranks of `test_nccl.py` do, each in a process with a card made of software; `nccl_ranks.py` starts them."""

import gc
import os
import signal
import time
from copy import deepcopy
from datetime import timedelta

import rushlight as torch
from rushlight import distributed as dist
from rushlight.distributed import _reduce_op
from rushlight.distributed.fsdp import fully_shard
from rushlight.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
from rushlight.distributed.pipelining import PipelineStage, schedules
from rushlight.nn.parallel import DistributedDataParallel

BOTH = "cpu:gloo,cuda:nccl"
DTYPES = [
    torch.int8,
    torch.uint8,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.complex64,
    torch.complex128,
    torch.bool,
]


def begin(backend, place, rank, size, seconds=20.0, **options):
    torch.cuda.set_device(rank)
    store = dist.FileStore(place, size)
    dist.init_process_group(
        backend, store=store, rank=rank, world_size=size, timeout=timedelta(seconds=seconds), **options
    )


def given(rank, dtype, count=6):
    """A tensor of a rank, with small values that all dtypes have."""
    values = torch.tensor([(index * 3 + rank * 2) % 5 - (0 if dtype == torch.uint8 else 1) for index in range(count)])
    return values.abs().to(dtype) if dtype == torch.uint8 else (values > 0 if dtype == torch.bool else values.to(dtype))


def error_of(call):
    """The class and the first line of the message of a call's error."""
    try:
        call()
    except Exception as error:
        return [type(error).__name__, str(error).splitlines()[0]]
    raise AssertionError("no error")


def on_both(call, tensors):
    """Makes a call with tensors on the CPU and with their copies on the card; the results must be the same."""
    copies = [tensor.clone().cuda() for tensor in tensors]
    call(*tensors)
    call(*copies)
    for tensor, copy in zip(tensors, copies):
        assert copy.device.type == "cuda" and copy.dtype == tensor.dtype
        torch.testing.assert_close(copy.cpu(), tensor, rtol=0, atol=0)


def _reduce_all(rank, size, dtype, op):
    on_both(lambda tensor: dist.all_reduce(tensor, op), [given(rank, dtype)])
    parts = given(rank, dtype, 3 * size)
    out = torch.zeros(3, dtype=dtype)
    on_both(lambda tensor, result: dist.reduce_scatter_tensor(result, tensor, op), [parts, out])
    on_both(lambda result, *list: dist.reduce_scatter(result, [*list], op), [out, *parts.clone().split(3)])


def _reduce_to_last(rank, size, dtype, op):
    def reduce(tensor):
        dist.reduce(tensor, size - 1, op)
        # What the others have is undefined.
        if rank != size - 1:
            tensor.zero_()

    on_both(reduce, [given(rank, dtype)])


def reductions(rank, size, place):
    begin(BOTH, place, rank, size)
    Op = dist.ReduceOp
    for dtype in DTYPES:
        ops = [Op.SUM, Op.PRODUCT, Op.MIN, Op.MAX, Op.AVG]
        if dtype.is_complex:
            ops = [Op.SUM, Op.AVG]
        if not (dtype.is_floating_point or dtype.is_complex):
            ops.remove(Op.AVG)
        for op in ops:
            _reduce_all(rank, size, dtype, op)
        _reduce_to_last(rank, size, dtype, ops[0])
    strided = torch.arange(12.0).view(3, 4).t() + rank
    on_both(dist.all_reduce, [strided])
    on_both(lambda *tensors: dist.all_reduce_coalesced([*tensors]), [torch.ones(2), torch.ones(3) * rank])
    on_both(lambda tensor: dist.all_reduce(tensor, _reduce_op.premul_sum(2.0)), [torch.ones(2)])
    on_both(dist.all_reduce, [torch.zeros(0)])


def collectives(rank, size, place):
    begin(BOTH, place, rank, size)
    root = size - 1
    for dtype in [*DTYPES, torch.float8_e4m3fn, torch.float8_e5m2]:
        own = given(rank, torch.float32).to(dtype)
        on_both(lambda tensor: dist.broadcast(tensor, root), [own.clone()])
        empty = [torch.zeros(6, dtype=dtype) for _ in range(size)]
        on_both(lambda tensor, *list: dist.all_gather([*list], tensor), [own, *[one.clone() for one in empty]])
        whole = torch.zeros(6 * size, dtype=dtype)
        on_both(lambda tensor, out: dist.all_gather_into_tensor(out, tensor), [own, whole.clone()])
        on_both(
            lambda tensor, *list: dist.gather(tensor, [*list] if rank == root else None, root),
            [own, *[one.clone() for one in empty]],
        )
        parts = [given(rank + place, torch.float32).to(dtype) for place in range(size)]
        on_both(
            lambda out, *list: dist.scatter(out, [*list] if rank == root else None, root),
            [torch.zeros(6, dtype=dtype), *parts],
        )
        on_both(
            lambda *list: dist.all_to_all([*list[:size]], [*list[size:]]),
            [*[one.clone() for one in empty], *parts],
        )
        on_both(lambda out, tensor: dist.all_to_all_single(out, tensor), [whole, torch.cat([*parts])])
    sizes = [rank + other for other in range(size)]
    on_both(
        lambda out, tensor: dist.all_to_all_single(out, tensor, sizes, sizes),
        [torch.zeros(sum(sizes)), torch.arange(float(sum(sizes))) + 10 * rank],
    )
    uneven = [torch.zeros(other + 1) for other in range(size)]
    on_both(lambda tensor, *list: dist.all_gather([*list], tensor), [torch.full((rank + 1,), float(rank)), *uneven])
    dist.barrier()
    dist.barrier(device_ids=[rank])


def messages(rank, size, place):
    begin(BOTH, place, rank, size)
    card = torch.device("cuda", rank)
    if rank == 0:
        dist.send(torch.arange(5.0, device=card), 1)
        dist.isend(torch.full((3,), 2, device=card), 1, tag=7).wait()
        dist.recv(answer := torch.zeros(2, device=card), 1)
        assert answer.tolist() == [8.0, 9.0]
    elif rank == 1:
        got, numbers = torch.zeros(5, device=card), torch.zeros(3, dtype=torch.int64, device=card)
        assert dist.recv(got, 0) == 0
        work = dist.irecv(numbers, 0, tag=7)
        work.wait()
        assert work.source_rank() == 0
        assert (got.tolist(), numbers.tolist()) == ([0.0, 1.0, 2.0, 3.0, 4.0], [2, 2, 2])
        dist.send(torch.tensor([8.0, 9.0], device=card), 0)
    # A ring of messages, which are one call.
    to, source = (rank + 1) % size, (rank - 1) % size
    got = torch.zeros(2, 2, device=card).t()
    ops = [
        dist.P2POp(dist.isend, torch.full((2, 2), float(rank), device=card), to),
        dist.P2POp(dist.irecv, got, source),
    ]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    assert got.tolist() == [[float(source)] * 2] * 2


def objects(rank, size, place):
    begin("nccl", place, rank, size, device_id=torch.device("cuda", rank))
    assert dist.get_backend() == "nccl" and dist.get_backend_config() == "cuda:nccl"
    everyone = [None] * size
    dist.all_gather_object(everyone, {"rank": rank, "text": "x" * rank})
    assert everyone == [{"rank": other, "text": "x" * other} for other in range(size)]
    objects = [rank, "root"] if rank == 1 else [None, None]
    dist.broadcast_object_list(objects, 1)
    assert objects == [1, "root"]
    got = [None]
    dist.scatter_object_list(got, [[n] * n for n in range(size)] if rank == 0 else None, 0)
    assert got == [[rank] * rank]
    gathered = [None] * size if rank == 0 else None
    dist.gather_object(rank * "y", gathered, 0)
    assert rank != 0 or gathered == [n * "y" for n in range(size)]
    if rank == 0:
        dist.send_object_list([1, "two"], 1)
    elif rank == 1:
        dist.recv_object_list(received := [None, None], 0)
        assert received == [1, "two"]
    dist.barrier()


def groups(rank, size, place):
    begin(BOTH, place, rank, size)
    even = dist.new_group(list(range(0, size, 2)))
    if rank % 2 == 0:
        tensor = torch.ones(1, device="cuda")
        dist.all_reduce(tensor, group=even)
        assert tensor.item() == len(range(0, size, 2))
    own = dist.new_group(backend="nccl")
    gathered = [torch.zeros(1, device="cuda") for _ in range(size)]
    dist.all_gather(gathered, torch.full((1,), float(rank), device="cuda"), own)
    assert [one.item() for one in gathered] == [float(other) for other in range(size)]
    mesh = dist.init_device_mesh("cuda", (2, size // 2), mesh_dim_names=("outer", "inner"))
    tensor = torch.full((1,), float(rank), device="cuda")
    dist.all_reduce(tensor, group=mesh.get_group("outer"))
    assert tensor.item() == sum(other for other in range(size) if other % (size // 2) == rank % (size // 2))
    dist.destroy_process_group(own)
    whole, _ = dist.new_subgroups()
    assert whole.size() == torch.cuda.device_count() == size


def chosen(rank, size, place):
    dist.init_process_group(BOTH, store=dist.FileStore(place, size), rank=rank, world_size=size)
    if rank > 0:
        os.environ["LOCAL_RANK"] = str(rank)
    mesh = dist.init_device_mesh("cuda", (size,))
    assert torch.cuda.current_device() == rank
    tensor = torch.ones(1, device=mesh.device_type)
    dist.all_reduce(tensor, group=mesh.get_group())
    assert tensor.item() == size


def bound(rank, size, place):
    """The mesh of a group with a device takes that device, unless the program has chosen another one."""
    device = torch.device("cuda", rank)
    dist.init_process_group("nccl", store=dist.FileStore(place, size), rank=rank, world_size=size, device_id=device)
    assert torch.cuda.current_device() == 0
    model = fully_shard(torch.nn.Linear(4, 4))
    assert torch.cuda.current_device() == rank and model.weight.device == device
    model(torch.ones(2, 4, device=device)).sum().backward()
    torch.cuda.set_device(size - 1 - rank)
    dist.init_device_mesh("cuda", (size,))
    assert torch.cuda.current_device() == size - 1 - rank


def streams(rank, size, place):
    begin("nccl", place, rank, size)
    big = 1 << 16
    for step in range(5):
        # The memory of both tensors is given back while the calls may still run.
        works = []
        kept = torch.zeros(big, device="cuda")
        for part in range(4):
            tensor = torch.full((big,), float(rank + step + part), device="cuda")
            work = dist.all_reduce(tensor, async_op=True)
            kept.add_(tensor.mul(0))
            works.append((work, part, tensor if part % 2 else None))
            del tensor
            torch.full((big,), -1.0, device="cuda")
        for work, part, tensor in works:
            work.wait()
            expected = sum(range(size)) + size * (step + part)
            assert tensor is None or tensor.unique().tolist() == [expected]
        assert kept.sum().item() == 0
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        tensor = torch.full((big,), float(rank), device="cuda")
        work = dist.all_reduce(tensor, async_op=True)
        work.wait()
        total = tensor.sum()
    side.synchronize()
    assert total.item() == big * sum(range(size))
    work = dist.all_reduce(torch.ones(1, device="cuda"), async_op=True)
    assert work.wait(timedelta(seconds=10)) and work.is_completed() and work.is_success() and work.exception() is None
    future = dist.all_reduce(torch.ones(2, device="cuda"), async_op=True).get_future()
    assert future.wait()[0].tolist() == [size, size]


def captured(rank, size, place):
    begin("nccl", place, rank, size)
    tensor = torch.ones(4, device="cuda")
    dist.all_reduce(tensor)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        dist.all_reduce(tensor)
        tensor.mul_(0.5)
    tensor.fill_(1.0)
    for _ in range(3):
        graph.replay()
    assert tensor.tolist() == [(size / 2) ** 3] * 4
    del graph
    gc.collect()


def options(rank, size, place):
    chosen = dist.ProcessGroupNCCL.Options(is_high_priority_stream=True)
    chosen.config.min_ctas, chosen.config.max_ctas, chosen.config.cga_cluster_size = 2, 4, 1
    begin("nccl", place, rank, size, pg_options=chosen)
    card = torch.ones(2, device="cuda")
    dist.all_reduce(card)
    assert card.tolist() == [size, size]
    made = dist.group.WORLD._backends["cuda"]._all[rank]
    assert made.priority() == torch.cuda.Stream(priority=-1).priority < torch.cuda.Stream().priority
    own = dist.new_group(pg_options=dist.ProcessGroupNCCL.Options())
    dist.all_reduce(card, group=own)
    assert own._backends["cuda"]._all[rank].priority() == torch.cuda.Stream().priority
    refused = error_of(lambda: dist.new_group(pg_options={"a": 1}))
    # The library gets the settings, and refuses these.
    chosen.config.min_ctas = -3
    other = dist.new_group(pg_options=chosen)
    return [refused, error_of(lambda: dist.all_reduce(card, group=other))]


def pipelines(rank, size, place):
    """Messages have no tags here, so that both ranks must have one order of them."""
    begin("nccl", place, rank, size)
    device = torch.device("cuda", rank)
    x, target = (torch.randn(8, 4, generator=torch.Generator().manual_seed(n)) for n in (1, 2))
    for name, per_rank in (("GPipe", 1), ("1F1B", 1), ("Interleaved1F1B", 2), ("LoopedBFS", 2)):
        torch.manual_seed(0)
        layers = [torch.nn.Linear(4, 4) for _ in range(size * per_rank)]
        mine = range(rank, len(layers), size)
        alone = deepcopy(torch.nn.Sequential(*layers))
        torch.nn.functional.mse_loss(alone(x), target).backward()
        stages = [PipelineStage(layers[n].to(device), n, len(layers), device) for n in mine]
        kind = schedules.get_schedule_class(name)
        schedule = kind(stages if per_rank > 1 else stages[0], 4, loss_fn=torch.nn.functional.mse_loss)
        for _ in range(2):
            found = schedule.step(*((x.to(device),) if rank == 0 else ()), target=target.to(device))
            assert (found is None) == (rank < size - 1)
            for n in mine:
                for one, other in zip(layers[n].parameters(), alone[n].parameters()):
                    torch.testing.assert_close(one.grad.cpu(), other.grad, rtol=1e-4, atol=1e-5)
                    one.grad = None


def refusals(rank, size, place):
    begin("nccl", place, rank, size)
    card = torch.ones(2, device="cuda")
    errors = [
        error_of(lambda: dist.all_reduce(torch.ones(2))),
        error_of(lambda: dist.send(torch.ones(2), (rank + 1) % size)),
        error_of(lambda: dist.all_reduce(card.to(torch.int16))),
        error_of(lambda: dist.broadcast(card.to(torch.int16), 0)),
        error_of(lambda: dist.all_reduce(card.to(torch.uint8).view(torch.float8_e5m2))),
        error_of(lambda: dist.all_reduce(card > 0, dist.ReduceOp.AVG)),
        error_of(lambda: dist.all_reduce(card.int(), dist.ReduceOp.BAND)),
        error_of(lambda: dist.all_reduce(card.to(torch.complex64), dist.ReduceOp.PRODUCT)),
        error_of(lambda: dist.recv(card)),
        error_of(lambda: dist.monitored_barrier()),
        error_of(lambda: dist.broadcast(card, 7)),
        error_of(lambda: dist.scatter(card, None, 7)),
        error_of(lambda: dist.all_gather([card] * 3, card)),
        error_of(lambda: dist.all_to_all([card] * 3, [card] * 3)),
    ]
    # None of these has harmed the group.
    dist.all_reduce(card)
    assert card.tolist() == [size, size]
    return errors


def killed(rank, size, place):
    begin("nccl", place, rank, size, seconds=2.0)
    tensor = torch.ones(3, device="cuda")
    dist.all_reduce(tensor)
    if rank == size - 1:
        torch.cuda.synchronize()
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.3)
    work = dist.all_reduce(tensor, async_op=True)
    errors = [error_of(lambda: (work.wait(), tensor.tolist())), error_of(lambda: dist.barrier())]
    assert work.is_completed() and not work.is_success() and isinstance(work.exception(), dist.DistBackendError)
    errors.append(error_of(torch.cuda.synchronize))
    dist.destroy_process_group()
    # The device goes on, and another group can be made.
    assert (torch.ones(2, device="cuda") * 3).tolist() == [3.0, 3.0]
    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
    alone = torch.ones(1, device="cuda")
    dist.all_reduce(alone)
    assert alone.item() == 1
    return errors


def absent(rank, size, place):
    begin("nccl", place, rank, size, seconds=1.5)
    if rank == size - 1:
        time.sleep(3.5)
        return None
    return error_of(lambda: dist.all_reduce(torch.ones(1, device="cuda")))


def crowded(rank, size, place):
    begin("nccl", place, rank, size, seconds=2.0)
    return error_of(lambda: dist.all_reduce(torch.ones(1, device="cuda")))


def different(rank, size, place):
    begin("nccl", place, rank, size, seconds=5.0)
    tensor = torch.ones(4, device="cuda")
    dist.all_reduce(tensor)
    work = dist.broadcast(tensor, 0, async_op=True) if rank == 0 else dist.all_reduce(tensor, async_op=True)
    return error_of(lambda: (work.wait(), tensor.tolist()))


def aborted(rank, size, place):
    begin("nccl", place, rank, size)
    tensor = torch.ones(4, device="cuda")
    dist.all_reduce(tensor)
    if rank == 0:
        dist.all_reduce(tensor, async_op=True)
    dist.group.WORLD.abort()


def through_host(rank, size, place):
    begin("gloo", place, rank, size)
    tensor = torch.full((2, 3), float(rank), device="cuda").t()
    dist.all_reduce(tensor)
    assert tensor.device.type == "cuda" and tensor.tolist() == [[float(sum(range(size)))] * 2] * 3
    parts = [torch.zeros(1, device="cuda") for _ in range(size)]
    work = dist.all_gather(parts, torch.full((1,), float(rank), device="cuda"), async_op=True)
    work.wait()
    assert [part.item() for part in parts] == [float(other) for other in range(size)]


def _model():
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(6, 16), torch.nn.BatchNorm1d(16), torch.nn.ReLU(), torch.nn.Linear(16, 3), torch.nn.Dropout(0.0)
    )


def _batch(step, rank, size):
    generator = torch.Generator().manual_seed(step)
    inputs, labels = torch.randn(8, 6, generator=generator), torch.randint(0, 3, (8,), generator=generator)
    own = slice(rank * 8 // size, (rank + 1) * 8 // size)
    return inputs[own], labels[own]


def _train(model, rank, size, **options):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step in range(4):
        inputs, labels = _batch(step, rank, size)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(inputs.cuda()), labels.cuda()).backward()
        optimizer.step()
    return model


def data_parallel(rank, size, place):
    begin("nccl", place, rank, size, device_id=torch.device("cuda", rank))
    # A norm over the batch would differ between a part and the whole batch.
    plain = torch.nn.Sequential(*[layer for layer in _model() if not isinstance(layer, torch.nn.BatchNorm1d)])
    expected = _train(plain.cuda(), 0, 1)
    for options in ({}, {"gradient_as_bucket_view": True}, {"static_graph": True}, {"find_unused_parameters": True}):
        own = torch.nn.Sequential(*[layer for layer in _model() if not isinstance(layer, torch.nn.BatchNorm1d)]).cuda()
        if rank > 0:
            torch.nn.init.zeros_(own[0].weight)
        model = DistributedDataParallel(own, device_ids=[rank], output_device=rank, bucket_cap_mb=0.0001, **options)
        assert (model.device_ids, model.output_device, model.device) == ([rank], rank, torch.device("cuda", rank))
        _train(model, rank, size)
        for one, other in zip(model.module.parameters(), expected.parameters()):
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


def unchosen(rank, size, place):
    """The program has not made the GPU of its parameters the current one."""
    begin("nccl", place, rank, size)
    torch.cuda.set_device(0)
    device = torch.device("cuda", rank)
    model = DistributedDataParallel(torch.nn.Linear(3, 2).to(device), device_ids=[rank])
    model(torch.full((1, 3), rank + 1.0)).sum().backward()
    assert model.module.weight.grad.tolist() == [[(size + 1) / 2] * 3] * 2


def hooks(rank, size, place):
    begin("nccl", place, rank, size)
    from rushlight.distributed.algorithms.ddp_comm_hooks import default_hooks

    model = DistributedDataParallel(_model().cuda(), device_ids=[rank])
    # Buffers are those of rank 0.
    model(torch.full((4, 6), float(rank), device="cuda")).sum().backward()
    model(torch.zeros(4, 6))
    buffers = [None] * size
    dist.all_gather_object(buffers, [buffer.tolist() for buffer in model.buffers()])
    assert buffers[0] and all(one == buffers[0] for one in buffers)
    model.zero_grad()
    torch.manual_seed(rank)
    with model.no_sync():
        model(torch.randn(4, 6)).pow(2).sum().backward()
    weight = model.module[0].weight
    alone = [torch.zeros_like(weight) for _ in range(size)]
    dist.all_gather(alone, weight.grad)
    assert not torch.equal(alone[0], alone[1])
    model(torch.randn(4, 6)).pow(2).sum().backward()
    gathered = [torch.zeros_like(weight) for _ in range(size)]
    dist.all_gather(gathered, weight.grad)
    assert all(torch.equal(one, gathered[0]) for one in gathered)
    compressed = DistributedDataParallel(torch.nn.Linear(3, 2).cuda())
    compressed.register_comm_hook(None, default_hooks.fp16_compress_hook)
    compressed(torch.full((1, 3), float(rank), device="cuda")).sum().backward()
    mean = sum(range(size)) / size
    assert compressed.module.weight.grad.tolist() == [[mean] * 3] * 2


def scaler(rank, size, place):
    begin("nccl", place, rank, size)
    weight = torch.ones(2, device="cuda", requires_grad=True)
    optimizer, scaler = torch.optim.SGD([weight], lr=0.5), ShardedGradScaler(init_scale=4.0)
    factor = float("inf") if rank == 0 else 1.0
    scaler.scale((weight * factor).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    # Every rank skips the step, because the gradients of one are infinite.
    assert weight.tolist() == [1.0, 1.0] and scaler.get_scale() == 2.0
