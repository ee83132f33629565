"""DIS: process groups, and one model in several processes."""

import os
import socket
from datetime import timedelta

import numpy as np
import pytest
from soft_card import needs_soft_card, run

import rushlight as torch
import rushlight.nn.functional as F
from rushlight import distributed as dist
from rushlight import nn
from rushlight.nn.parallel import DistributedDataParallel
from rushlight.utils.data import DataLoader, DistributedSampler, TensorDataset


def free_port():
    with socket.socket() as end:
        end.bind(("127.0.0.1", 0))
        return end.getsockname()[1]


def collected(tensor):
    """The tensor of every rank."""
    parts = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, tensor)
    return parts


def begin_and_add(rank, size, backend, method, environment):
    for name, value in environment.items():
        os.environ[name] = value
    given = {} if environment else {"rank": rank, "world_size": size}
    if environment:
        os.environ["RANK"] = str(rank)
    dist.init_process_group(backend, init_method=method, timeout=timedelta(seconds=20), **given)
    total = torch.tensor([1.0])
    dist.all_reduce(total)
    seen = (dist.get_rank(), dist.get_world_size(), dist.get_backend(), total.item())
    dist.destroy_process_group()
    return seen


@pytest.mark.parametrize("backend", ["gloo", "mpi"])
def test_dis_1_a_group_of_processes(ranks, tmp_path, backend):
    """Some processes form a group, exchange values and end it."""
    seen = ranks(begin_and_add, 3, 3, backend, f"file://{tmp_path}/store", {}, init=False)
    assert seen == [(rank, 3, backend, 3.0) for rank in range(3)]


def test_dis_2_a_shared_file(ranks, tmp_path):
    """Processes find each other through a file, which is removed with the group."""
    ranks(begin_and_add, 2, 2, "gloo", f"file://{tmp_path}/store", {}, init=False)
    assert not (tmp_path / "store").exists()


def test_dis_3_environment_variables(ranks):
    """MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE are enough."""
    environment = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2"}
    seen = ranks(begin_and_add, 2, 2, "gloo", None, environment, init=False)
    assert [one[:2] for one in seen] == [(0, 2), (1, 2)]


def test_dis_4_an_address(ranks):
    """`tcp://HOST:PORT` with a rank works. Multicast addresses are refused with the alternative."""
    ranks(begin_and_add, 2, 2, "gloo", f"tcp://127.0.0.1:{free_port()}", {}, init=False)
    with pytest.raises(
        ValueError, match="multicast addresses are not supported\n  Use the address of the machine of rank 0"
    ):
        dist.init_process_group(
            "gloo", init_method="tcp://[ff15:1e18:5d4c:4cf0:d02d:b659:53ba:b0a7]:23456", rank=0, world_size=1
        )


def test_dis_5_ranks(ranks):
    """Ranks are unique and count from 0."""
    greetings = ranks(lambda _: f"Hello from process {dist.get_rank()} (out of {dist.get_world_size()})!", 4)
    assert greetings == [f"Hello from process {rank} (out of 4)!" for rank in range(4)]


def test_dis_6_messages(ranks):
    """A tensor arrives in one that was made before."""

    def exchange(rank):
        torch.manual_seed(0)
        tensor = torch.zeros(3, 4)
        if rank == 0:
            dist.send(tensor.normal_(), dst=1)
        else:
            assert dist.recv(tensor, src=0) == 0
        return tensor.tolist()

    sent, received = ranks(exchange, 2)
    assert sent == received and sent[0][0] != 0


def test_dis_7_messages_in_the_background(ranks):
    """`isend` and `irecv` return something to wait for."""

    def exchange(rank):
        tensor = torch.full((5,), 7.0 if rank == 0 else 0.0)
        work = dist.isend(tensor, dst=1) if rank == 0 else dist.irecv(tensor, src=0)
        assert isinstance(work, dist.Work) and work.wait() and work.is_completed()
        return tensor.tolist()

    assert ranks(exchange, 2) == [[7.0] * 5] * 2


def test_dis_8_all_reduce(ranks):
    """Every rank gets the sum, in place. Values are added in the order of the ranks, so that the bits are always the same."""

    def add(rank):
        tensor = torch.Tensor([rank])
        assert dist.all_reduce(tensor) is None
        # The large numbers cancel in one order of additions, and not in others.
        rounded = torch.tensor([[1e8, 1.0, -1e8, 1.0][rank]] * 100_000)
        dist.all_reduce(rounded)
        return tensor.item(), rounded.unique().tolist()

    in_order = float(np.float32(np.float32(np.float32(1e8) + np.float32(1)) - np.float32(1e8)) + np.float32(1))
    assert ranks(add, 4) == [(6.0, [in_order])] * 4


def test_dis_9_calls_of_the_whole_group(ranks):
    """broadcast, reduce, gather, scatter, all_gather, barrier."""

    def call(rank):
        own, everyone = torch.tensor([rank, 10 * rank]), [torch.tensor([r, 10 * r]) for r in range(4)]
        tensor = own.clone()
        dist.broadcast(tensor, src=2)
        assert torch.equal(tensor, everyone[2])
        tensor = own.clone()
        dist.reduce(tensor, dst=1, op=dist.ReduceOp.MAX)
        assert torch.equal(tensor, everyone[3] if rank == 1 else own)
        parts = [torch.empty_like(own) for _ in range(4)] if rank == 3 else None
        dist.gather(own, parts, dst=3)
        assert parts is None or all(map(torch.equal, parts, everyone))
        dist.scatter(tensor, [one + 1 for one in everyone] if rank == 0 else None, src=0)
        assert torch.equal(tensor, own + 1)
        assert all(map(torch.equal, collected(own), everyone))
        assert dist.barrier() is None

    ranks(call, 4)


def test_dis_10_a_shared_secret(ranks):
    """Between machines, processes find each other through a store that may ask for a token."""
    server = dist.TCPStore("127.0.0.1", 0, is_master=True, token="secret")
    method = f"tcp://127.0.0.1:{server.port}"

    def join(rank, token):
        os.environ["TORCHELASTIC_USE_AGENT_STORE"] = "True"  # the store is that of the parent
        try:
            dist.init_process_group("gloo", method, timedelta(seconds=5), rank=rank, world_size=2, token=token)
        except dist.DistError as error:
            return str(error)
        return sum(collected(torch.tensor([rank + 1]))).item()

    assert ranks(join, 2, "secret", init=False) == [3, 3]
    refused = ranks(join, 2, "guess", init=False)
    assert all("token" in text for text in refused), refused


def net():
    return nn.Sequential(nn.Linear(20, 40), nn.Tanh(), nn.Linear(40, 5))


def samples(count):
    torch.manual_seed(1)
    inputs = torch.randn(count, 20)
    return inputs, (inputs @ torch.randn(20, 5)).argmax(1)


def gradients(module, inputs, targets):
    F.cross_entropy(module(inputs), targets).backward()
    return [parameter.grad for parameter in module.parameters()]


@pytest.mark.parametrize("size", [2, 4])
def test_dis_11_distributed_data_parallel(ranks, size):
    """A module wrapped on the CPU has the gradients that one process has for the whole batch, within 1e-6."""

    def step(rank):
        inputs, targets = samples(32)
        torch.manual_seed(0)
        alone = net()
        torch.manual_seed(rank)  # rank 0 gives its parameters to the others
        together = DistributedDataParallel(net())
        part = slice(rank * 32 // size, (rank + 1) * 32 // size)
        found, expected = gradients(together, inputs[part], targets[part]), gradients(alone, inputs, targets)
        for one, other in zip(found, expected):
            torch.testing.assert_close(one, other, rtol=0, atol=1e-6)

    ranks(step, size)


def test_dis_12_a_sampler_for_each_process(ranks):
    """The ranks see all samples between them, every epoch in another order."""

    def draw(rank):
        sampler = DistributedSampler(list(range(10)), shuffle=True, seed=3)
        orders = []
        for epoch in range(2):
            sampler.set_epoch(epoch)
            orders.append(list(sampler))
        return orders

    found = ranks(draw, 2)
    for epoch in range(2):
        assert sorted(found[0][epoch] + found[1][epoch]) == list(range(10))
    assert found[0][0] != found[0][1]


def recipe(rank, size, batch, epochs=6, warm_up=8):
    """Trains in `size` processes with a rate that is proportional to the whole batch, and grows to it over some steps."""
    inputs, targets = samples(512)
    torch.manual_seed(0)
    model = net() if size == 1 else DistributedDataParallel(net())
    base, large = 0.05, 0.05 * size
    optimizer = torch.optim.SGD(model.parameters(), lr=large, momentum=0.9)
    rise = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=base / large, total_iters=warm_up)
    data = TensorDataset(inputs, targets)
    sampler = DistributedSampler(data, num_replicas=size, rank=rank, seed=5)
    rates = []
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for x, y in DataLoader(data, batch_size=batch, sampler=sampler):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
            rates.append(optimizer.param_groups[0]["lr"])
            rise.step()
    with torch.no_grad():
        return F.cross_entropy(model(inputs), targets).item(), rates


def test_dis_13_large_batches(ranks):
    """Four processes with four times the rate and a warm-up learn as well in as many epochs as one process."""
    loss, rates = recipe(0, 1, 16)
    assert set(rates) == {0.05}
    found = ranks(lambda rank: recipe(rank, 4, 16), 4)
    assert all(one == found[0] for one in found)
    together, rates = found[0]
    assert rates[0] == pytest.approx(0.05) and rates[8:] == pytest.approx([0.2] * len(rates[8:]))
    assert rates == sorted(rates)
    assert together < loss * 1.3 < 1.0


def test_dis_14_data_parallel():
    """Without GPUs the module itself runs; `tests/cuda/test_runtime.py` cuts batches for three."""
    model, batch = nn.Linear(5, 2), torch.randn(30, 5)
    wrapped = nn.DataParallel(model).to("cpu")
    assert torch.equal(wrapped(batch), model(batch)) and wrapped.module is model


def test_dis_15_several_devices_are_announced(monkeypatch, capsys):
    """The program of the tutorial prints how many GPUs there are, and trains with or without them."""
    for count, printed in ((0, ""), (8, "Let's use 8 GPUs!\n")):
        monkeypatch.setattr(torch.cuda, "device_count", lambda count=count: count)
        model, batch = nn.Linear(5, 2), torch.randn(30, 5)
        if torch.cuda.device_count() > 1:
            print("Let's use", torch.cuda.device_count(), "GPUs!")
            model = nn.DataParallel(model)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        losses = []
        for _ in range(5):
            optimizer.zero_grad()
            loss = model(batch).pow(2).mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        assert losses == sorted(losses, reverse=True)
        assert capsys.readouterr().out == printed


def test_dis_16_inputs_in_dictionaries():
    """Modules take dictionaries, lists and other values as they are."""
    inputs = {"a": torch.arange(4), "b": [torch.arange(8).view(4, 2), "text"]}

    class Sum(nn.Module):
        def forward(self, inputs, *, scale):
            return {"out": (inputs["a"] + inputs["b"][0].sum(1)) * scale}

    assert nn.DataParallel(Sum())(inputs, scale=2)["out"].tolist() == [2, 12, 22, 32]


@needs_soft_card
def test_dis_16_dictionaries_are_cut():
    """Tensors in dictionaries and lists are cut, other values are repeated."""
    run(
        """
        inputs = {"a": torch.arange(4), "b": [torch.arange(8).view(4, 2), "text"]}
        for place, part in enumerate(torch.nn.parallel.scatter(inputs, [0, 1])):
            assert part["a"].tolist() == [2 * place, 2 * place + 1] and part["a"].device.index == place
            assert part["b"][0].shape == (2, 2) and part["b"][1] == "text"
        """,
        SOFTCUDA_DEVICES=2,
    )


def test_dis_17_parallel_apply():
    """Modules run in threads with inputs of any kind."""

    def describe(*arguments, **options):
        return arguments, options

    found = nn.parallel.parallel_apply([describe, describe], [(1, "a"), {"b": 2}], [{"c": 3}, {}])
    assert found == [((1, "a"), {"c": 3}), (({"b": 2},), {})]


@needs_soft_card
def test_dis_18_many_devices():
    """The number of devices has no limit."""
    run(
        """
        places = list(range(24))
        parts = torch.nn.parallel.scatter(torch.arange(48.0).reshape(48, 1), places)
        copies = torch.nn.parallel.replicate(torch.nn.Linear(1, 2).cuda(), places)
        assert [copy.weight.device.index for copy in copies] == places
        outputs = torch.nn.parallel.parallel_apply(copies, parts)
        assert [(output.shape, output.device.index) for output in outputs] == [((2, 2), place) for place in places]
        """,
        SOFTCUDA_DEVICES=24,
    )
