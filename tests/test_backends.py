"""Settings of unused libraries are accepted, and functions report that the libraries are not available."""

import pytest

import rushlight as torch


def test_settings_hold_and_change_nothing():
    cudnn = torch.backends.cudnn
    assert (cudnn.enabled, cudnn.benchmark, cudnn.deterministic) == (True, False, False)
    cudnn.benchmark = True
    try:
        with cudnn.flags(enabled=False, deterministic=True):
            assert (cudnn.enabled, cudnn.benchmark, cudnn.deterministic) == (False, False, True)
        assert (cudnn.enabled, cudnn.benchmark, cudnn.deterministic) == (True, True, False)
    finally:
        cudnn.benchmark = False
    torch.backends.cuda.matmul.allow_tf32 = True
    assert torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cuda.enable_flash_sdp(False)
    assert not torch.backends.cuda.flash_sdp_enabled()
    torch.backends.cuda.enable_flash_sdp(True)


def test_nothing_is_there():
    backends = torch.backends
    for library in (backends.cudnn, backends.mkl, backends.mkldnn, backends.mps, backends.openmp, backends.opt_einsum):
        assert library.is_available() is False
    assert backends.cudnn.version() is None and backends.cuda.is_built() and not backends.mps.is_built()
    assert not torch.accelerator.is_available() and torch.accelerator.current_accelerator() is None
    assert torch.accelerator.device_count() == 0
    with pytest.raises(RuntimeError, match="Cannot access accelerator device when none is available"):
        torch.accelerator.synchronize()
    assert torch.cpu.is_available() and torch.cpu.device_count() == 1
    torch.cpu.synchronize()


def test_modes_of_determinism_have_names_and_numbers():
    try:
        for number, name in enumerate(("default", "warn", "error")):
            for mode in (name, number):
                torch.set_deterministic_debug_mode(mode)
                assert torch.get_deterministic_debug_mode() == number
                assert torch.are_deterministic_algorithms_enabled() is (number > 0)
                assert torch.is_deterministic_algorithms_warn_only_enabled() is (number == 1)
    finally:
        torch.use_deterministic_algorithms(False)
    for mode, error in (("x", RuntimeError), (7, RuntimeError), (1.0, TypeError)):
        with pytest.raises(error, match="debug_mode"):
            torch.set_deterministic_debug_mode(mode)


def test_the_mode_of_determinism_fills_new_memory():
    settings = torch.utils.deterministic
    assert settings.fill_uninitialized_memory is True
    torch.use_deterministic_algorithms(True)
    try:
        x = torch.ones(2)
        made = [
            torch.empty(3),
            torch.empty_like(x),
            x.new_empty(2),
            torch.Tensor(2),
            torch.empty_permuted((2, 3), (1, 0)),
        ]
        made += [torch.empty_strided((2, 2), (1, 2)), torch.empty(2, dtype=torch.complex64).real]
        assert all(tensor.isnan().all() for tensor in made)
        assert torch.empty(2, dtype=torch.uint16).tolist() == [65535] * 2
        assert (
            torch.empty(2, dtype=torch.int8).tolist() == [127] * 2 and torch.empty(1, dtype=torch.bool).item() is True
        )
        assert x.resize_(4)[:2].tolist() == [1, 1] and x[2:].isnan().all()
        settings.fill_uninitialized_memory = False
        assert settings.fill_uninitialized_memory is False
        torch.zeros(100)
        assert x.resize_(1).resize_(4)[0] == 1
    finally:
        settings.fill_uninitialized_memory = True
        torch.use_deterministic_algorithms(False)
    with pytest.raises(RuntimeError, match="expected a bool"):
        settings.fill_uninitialized_memory = 3


def test_calls_that_the_mode_of_determinism_refuses():
    F = torch.nn.functional
    x, places = torch.ones(3), torch.tensor([0, 1])
    calls = [(lambda: torch.put(x, places, torch.ones(2)), "put_")]
    for dims, name in ((1, "max_unpooling2d"), (2, "max_unpooling2d"), (3, "max_unpooling3d")):
        best = getattr(F, f"max_pool{dims}d")(torch.rand((1, 1) + (4,) * dims), 2, return_indices=True)
        calls.append((lambda dims=dims, best=best: getattr(F, f"max_unpool{dims}d")(*best, 2), f"{name}_forward_out"))
    try:
        for call, name in calls:
            call()
            torch.use_deterministic_algorithms(True)
            with pytest.raises(
                RuntimeError, match=f"^{name} does not have a deterministic implementation, but you set"
            ):
                call()
            torch.use_deterministic_algorithms(True, warn_only=True)
            with pytest.warns(UserWarning, match=f"^{name} does not have a deterministic implementation, but you set"):
                call()
            torch.use_deterministic_algorithms(False)
        torch.use_deterministic_algorithms(True)
        assert torch.put(x, places, torch.ones(2), accumulate=True).tolist() == [2, 2, 1]
    finally:
        torch.use_deterministic_algorithms(False)


def test_the_processor_is_described():
    capabilities = torch.cpu.get_capabilities()
    assert capabilities["architecture"] and capabilities["num_logical_cores"] >= capabilities["num_sockets"] >= 1
    with pytest.raises(TypeError):
        capabilities["sse"] = True
