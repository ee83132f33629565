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
    assert backends.cudnn.version() is None and not backends.cuda.is_built() and not backends.mps.is_built()
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
