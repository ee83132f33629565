"""CUD: GPUs, on the card made of software. Rates are measured on a card (`benches/cuda.py`)."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "cuda"))
from soft_card import needs_soft_card, run


@needs_soft_card
def test_cud_1_the_current_device():
    """Tensors are made on the current device, which a thread remembers."""
    run(
        """
        import threading
        assert torch.cuda.FloatTensor(1).get_device() == 0 == torch.cuda.current_device()
        torch.cuda.set_device(2)
        assert torch.cuda.FloatTensor(1).get_device() == 2 and torch.ones(1, device="cuda").device.index == 2
        assert torch.ones(1).cuda().get_device() == 2
        seen = []
        thread = threading.Thread(target=lambda: seen.append(torch.cuda.current_device()))
        thread.start()
        thread.join()
        assert seen == [0] and torch.cuda.current_device() == 2
        """,
        SOFTCUDA_DEVICES=3,
    )


@needs_soft_card
def test_cud_2_the_context_of_a_device():
    """The example table: results stay where their operands are, new tensors go to the device of the block."""
    run(
        """
        x = torch.cuda.FloatTensor(1)
        y = torch.FloatTensor(1).cuda()
        with torch.cuda.device(1):
            a = torch.cuda.FloatTensor(1)
            b = torch.FloatTensor(1).cuda()
            c, z = a + b, x + y
            d = torch.randn(2).cuda(2)
            try:
                with torch.cuda.device(2):
                    assert torch.cuda.current_device() == 2
                    raise KeyError
            except KeyError:
                assert torch.cuda.current_device() == 1
        assert torch.cuda.current_device() == 0
        assert [one.get_device() for one in (x, y, a, b, c, z, d)] == [0, 0, 1, 1, 1, 0, 2]
        with torch.cuda.device_of(d):
            assert torch.cuda.current_device() == 2
        """,
        SOFTCUDA_DEVICES=3,
    )


@needs_soft_card
def test_cud_3_the_number_of_a_tensors_device():
    run(
        """
        x = torch.ones(2)
        y = x.cuda(1)
        assert (x.get_device(), y.get_device(), torch.get_device(y)) == (-1, 1, 1)
        assert (x.is_cuda, y.is_cuda, x.is_cpu, y.is_cpu) == (False, True, True, False)
        assert y.device == torch.device("cuda", 1) and y.device.type == "cuda" and y.device.index == 1
        """,
        SOFTCUDA_DEVICES=2,
    )


@needs_soft_card
def test_cud_4_no_operation_over_two_devices():
    """The error names both; copies and numbers without dimensions are exceptions."""
    run(
        """
        a, b = torch.ones(3, device="cuda:0"), torch.ones(3, device="cuda:1")
        for call in (lambda: a + b, lambda: torch.dot(a, b), lambda: a.add_(b), lambda: torch.cat([a, b]), lambda: a @ b):
            try:
                call()
            except RuntimeError as error:
                assert "on the same device" in str(error) and "cuda:0" in str(error) and "cuda:1" in str(error), error
            else:
                raise AssertionError("computed")
        assert (a + torch.tensor(2.0)).tolist() == [3.0] * 3
        assert a.copy_(b * 5).tolist() == b.to("cuda:0").mul(5).tolist() == [5.0] * 3
        """,
        SOFTCUDA_DEVICES=2,
    )


@needs_soft_card
def test_cud_5_page_locked_memory():
    """Of tensors and of storages."""
    run(
        """
        x = torch.arange(6.0)
        pinned = x.pin_memory()
        assert pinned.is_pinned() and not x.is_pinned() and torch.equal(pinned, x)
        storage = x.untyped_storage().pin_memory()
        assert storage.is_pinned() and not x.untyped_storage().is_pinned() and bytes(storage) == bytes(x.untyped_storage())
        assert torch.equal(pinned.cuda().cpu(), x)
        """
    )


@needs_soft_card
@pytest.mark.parametrize("seed", [0, 1])
def test_cud_6_copies_that_do_not_wait(seed, thorough):
    """The page-locked source is kept until its copy has run, and a trace shows copies beside other work.

    A thorough run makes 100,000 copies.
    """
    run(
        f"""
        from rushlight.profiler import DeviceType, profile
        for _ in range({500 if thorough else 1}):
            results = []
            for n in range(200):
                source = torch.full((64,), float(n)).pin_memory()
                results.append(source.to("cuda", non_blocking=True))
                del source
                torch.full((64,), -1.0).pin_memory()
            assert torch.stack(results)[:, 0].tolist() == [float(n) for n in range(200)]
        back = results[7].to("cpu", non_blocking=True)
        assert back.tolist() == [7.0] * 64

        side, x = torch.cuda.Stream(), torch.ones(64, 64, device="cuda")
        pinned = torch.ones(64, 64).pin_memory()
        with profile() as profiled:
            with torch.cuda.stream(side):
                y = pinned.to("cuda", non_blocking=True)
            z = x.exp()
        work = {{one.name: one for one in profiled.events() if one.device_type == DeviceType.CUDA}}
        assert work["Memcpy HtoD"].device_resource_id == side.cuda_stream != work["exp"].device_resource_id
        """,
        SOFTCUDA_SEED=seed,
    )


def test_cud_7_without_a_driver(fresh):
    """No exception."""
    program = "import rushlight as torch; print(torch.cuda.is_available(), torch.cuda.device_count())"
    assert fresh(program, LD_LIBRARY_PATH="", CUDA_VISIBLE_DEVICES="") == "False 0"


@needs_soft_card
def test_cud_8_the_example_of_a_device():
    assert (
        run(
            """
            x = torch.zeros(1) + 0.5
            device = torch.device("cuda")
            y = torch.ones_like(x, device=device)
            x = x.to(device)
            z = x + y
            print(z)
            print(z.to("cpu", torch.double))
            """
        )
        == "tensor([1.5000], device='cuda:0')\ntensor([1.5000], dtype=torch.float64)\n"
    )


@needs_soft_card
def test_cud_9_a_training_loop():
    run(
        """
        from rushlight import nn
        torch.manual_seed(0)
        device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
        net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 3)).to(device)
        data = torch.utils.data.TensorDataset(torch.randn(24, 1, 8, 8), torch.arange(24) % 3)
        loader = torch.utils.data.DataLoader(data, batch_size=8, shuffle=True, pin_memory=True)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        means = []
        for epoch in range(12):
            losses = []
            for inputs, labels in loader:
                assert inputs.is_pinned()
                inputs, labels = inputs.to(device), labels.to(device)
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(net(inputs), labels)
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
            means.append(sum(losses) / len(losses))
        assert means[-1] < 0.5 * means[0], means
        """
    )


@needs_soft_card
def test_cud_10_one_seed_for_all_devices():
    """Before and after the first use."""
    run(
        """
        torch.manual_seed(5)
        first = [torch.rand(4, device=f"cuda:{n}").cpu() for n in range(3)]
        torch.manual_seed(5)
        again = [torch.rand(4, device=f"cuda:{n}").cpu() for n in range(3)]
        torch.cuda.manual_seed_all(5)
        third = [torch.rand(4, device=f"cuda:{n}").cpu() for n in range(3)]
        assert all(torch.equal(one, first[0]) for one in (*first, *again, *third))
        states = torch.cuda.get_rng_state_all()
        kept = torch.rand(4, device="cuda:1").cpu()
        torch.cuda.set_rng_state_all(states)
        assert torch.equal(torch.rand(4, device="cuda:1").cpu(), kept) and not torch.equal(kept, first[0])
        """,
        SOFTCUDA_DEVICES=3,
    )


@needs_soft_card
def test_cud_11_memory_is_kept_and_counted():
    """A thousand steps ask the driver for nothing."""
    run(
        """
        x = torch.ones(1000, device="cuda")
        def step():
            y = x * 2 + x.exp()
            return y.sum()
        for _ in range(3):
            step()
        torch.cuda.synchronize()
        before = torch.cuda.memory_stats()
        for _ in range(1000):
            step()
        after = torch.cuda.memory_stats()
        for name in ("segment.all.allocated", "segment.all.freed", "num_alloc_retries"):
            assert after[name] == before[name], name
        assert after["allocation.all.allocated"] > before["allocation.all.allocated"] + 3000
        assert torch.cuda.memory_allocated() == 4096 and torch.cuda.max_memory_allocated() > 4096
        y = torch.ones(5 << 20, dtype=torch.uint8, device="cuda")
        reserved = torch.cuda.memory_reserved()
        del y
        assert torch.cuda.memory_reserved() == reserved
        torch.cuda.empty_cache()
        assert torch.cuda.memory_reserved() < reserved
        """
    )


@needs_soft_card
def test_cud_12_libraries_are_found_when_they_are_needed():
    """A driver that is too old, and a compiler that is absent, are told with what to do."""
    run(
        """
        assert not torch.cuda.is_available()
        try:
            torch.ones(1, device="cuda")
        except RuntimeError as error:
            assert "too old" in str(error) and "11" in str(error), error
        else:
            raise AssertionError("an old driver was used")
        """,
        SOFTCUDA_VERSION=11080,
    )
    run("assert torch.cuda.is_available() and torch.backends.cudnn.is_available()")


@needs_soft_card
def test_cud_13_the_memory_of_recurrent_layers():
    """A layer keeps four gates, a state and a result for each step and unit; a few such lists are in use at once."""
    run(
        """
        for enabled, layers in ((True, 1), (True, 2), (False, 1), (False, 2)):
            with torch.backends.cudnn.flags(enabled=enabled):
                net, x = torch.nn.LSTM(64, 64, layers).cuda(), torch.randn(32, 8, 64).cuda()
                net(x)[0].sum().backward()
                before, unit = torch.cuda.memory_allocated(), 4 * x.numel()
                torch.cuda.reset_peak_memory_stats()
                result, _ = net(x)
                kept = torch.cuda.memory_allocated() - before
                result.sum().backward()
                most = torch.cuda.max_memory_allocated() - before
                assert kept <= 6.5 * layers * unit and most <= (6.5 * layers + 9) * unit, (layers, kept / unit, most / unit)
        """
    )


@needs_soft_card
@pytest.mark.parametrize("operation", ["scatter", "gather", "embedding", "index"])
def test_cud_14_a_bad_index_is_an_error_after_which_the_device_works(operation):
    run(
        f"""
        x, bad = torch.ones(4, 3, device="cuda"), torch.tensor([[9, 0, 0]], device="cuda")
        calls = dict(
            scatter=lambda: torch.zeros(3, 3, device="cuda").scatter_add_(0, bad, x[:1]),
            gather=lambda: x.gather(0, bad),
            embedding=lambda: torch.nn.functional.embedding(bad, x),
            index=lambda: x[bad[0]],
        )
        for _ in range(1000):
            try:
                calls[{operation!r}]()
                torch.cuda.synchronize()
            except (IndexError, RuntimeError) as error:
                assert "9" in str(error) and "out of" in str(error), error
            else:
                raise AssertionError("accepted")
        assert (x + 1).sum().item() == 24
        """
    )


@needs_soft_card
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_cud_15_a_large_product_is_one_call_of_the_library(dtype):
    """NVIDIA's library computes it, as in torch, so that the rate is that of torch: 51.2 against 51.1 TFLOP/s on an H200 (`docs/cuda.md`).

    Nothing is copied or converted before or after, without and with gradients.
    """
    run(
        f"""
        import ctypes
        card = ctypes.CDLL("libcuda.so.1")
        card.softcuda_products.restype = card.softcuda_launches.restype = ctypes.c_uint64
        def counted(call):
            torch.cuda.synchronize()
            before = card.softcuda_products(), card.softcuda_launches(), torch.cuda.memory_stats()["num_device_alloc"]
            result = call()
            torch.cuda.synchronize()
            after = card.softcuda_products(), card.softcuda_launches(), torch.cuda.memory_stats()["num_device_alloc"]
            return result, tuple(b - a for a, b in zip(before, after))
        a, b = (torch.ones(192, 192, dtype=torch.{dtype}, device="cuda", requires_grad=True) for _ in range(2))
        grad = torch.ones_like(a)
        for _ in range(2):
            made, forward = counted(lambda: a @ b)
            _, backward = counted(lambda: torch.autograd.grad(made, [a, b], grad))
        assert forward == (1, 0, 0) and backward == (2, 0, 0), (forward, backward)
        assert made[5, 7].item() == 192
        """
    )
