"""Settings of libraries that are not used are accepted; questions whether they are there are answered honestly."""

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
