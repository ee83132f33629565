"""Parts of `torch.cuda` that need no GPU: private names, and what there is no support for."""

import inspect
import re

import pytest

import rushlight as torch
from rushlight.cuda import _utils


def test_what_there_is_no_support_for_is_refused():
    with pytest.raises(RuntimeError, match="torch._C._gds_register_buffer is not supported on this platform"):
        torch.cuda.gds.gds_register_buffer(torch.ones(1).untyped_storage())
    with pytest.raises(RuntimeError, match="torch._C._gds_register_handle is not supported on this platform"):
        torch.cuda.gds.GdsFile("some", 0)
    with pytest.raises(TypeError, match="^GreenContext: No constructor defined!\n"):
        torch.cuda.GreenContext(3)
    with pytest.raises(NotImplementedError, match="use torch.sparse_coo_tensor with device='cuda'"):
        torch.cuda.sparse.FloatTensor(2, 2)


def test_private_names_about_devices():
    index = _utils._get_device_index
    assert index("cuda:2") == index(torch.device("cuda:2")) == index(2) == 2 and index("cpu", allow_cpu=True) == -1
    with pytest.raises(ValueError, match="^Expected a cuda device, but got: cpu$"):
        index("cpu")
    with pytest.raises(
        ValueError, match="^Expected a torch.device with a specified index or an integer, but got:cuda$"
    ):
        index("cuda")
    assert torch.cuda._get_device_index is index and torch.cuda._is_compiled() and not torch.cuda._is_in_bad_fork()
    assert torch.cuda._exchange_device(-1) == torch.cuda._maybe_exchange_device(-1) == -1
    with torch.cuda._DeviceGuard(-1) as nothing:
        assert nothing is None


def test_errors_of_the_runtime_have_sentences():
    for code, sentence in [(2, "out of memory"), (35, "CUDA driver version is insufficient for CUDA runtime version")]:
        assert str(torch.cuda.CudaError(code)) == f"{sentence} ({code})"
        with pytest.raises(torch.cuda.CudaError, match=re.escape(f"{sentence} ({code})")):
            torch.cuda.check_error(code)
    assert str(torch.cuda.CudaError(12345)) == "unrecognized error code (12345)"


def test_parameters_have_the_names_of_torch():
    """Of classes and functions whose parameters are not those of an operator."""
    for make, parameters in [
        (torch.cuda.Stream, ["device", "priority", "kwargs"]),
        (torch.cuda.amp.autocast, ["enabled", "dtype", "cache_enabled"]),
        (torch.cuda.device(None).__exit__, ["type", "value", "traceback"]),
        (torch.cuda.StreamContext(None).__exit__, ["type", "value", "traceback"]),
        (torch.autocast("cpu").__exit__, ["exc_type", "exc_val", "exc_tb"]),
    ]:
        assert list(inspect.signature(make).parameters) == parameters, make
    assert inspect.signature(torch.cuda.amp.autocast).parameters["dtype"].default is torch.float16
    assert inspect.signature(torch.cpu.amp.autocast).parameters["dtype"].default is torch.bfloat16
    assert torch.cuda.has_half and not torch.cuda.has_magma


def test_kernels_of_attention_are_selected_in_a_block():
    cuda = torch.backends.cuda
    with pytest.warns(FutureWarning, match="`torch.backends.cuda.sdp_kernel.*` is deprecated"):
        with cuda.sdp_kernel(enable_flash=False, enable_cudnn=False):
            assert not cuda.flash_sdp_enabled() and not cuda.cudnn_sdp_enabled()
            assert cuda.math_sdp_enabled() and cuda.mem_efficient_sdp_enabled()
    assert cuda.flash_sdp_enabled() and cuda.cudnn_sdp_enabled()


def test_sums_take_tensors_of_gpus_alone():
    with pytest.raises(AssertionError, match="expects all inputs to be on GPUs, but input 0 is on CPU"):
        torch.cuda.comm.reduce_add([torch.ones(1)], 0)
