"""The device functions compile for cards. NVRTC, the compiler, needs neither a card nor a driver: it is in the extra `dev`."""

import ctypes
import importlib.metadata
import re
from pathlib import Path

import pytest

KERNELS = Path(__file__).parents[2] / "rust/cuda/src/kernels"
ARCHITECTURES = (80, 90, 100)
#: Functions that stay functions, so that each is in the result, and the least that the compiler can do to them.
OPTIONS = (
    "--std=c++17",
    "--fmad=false",
    "--relocatable-device-code=true",
    "--define-macro=DEVICE=__device__",
    "--Ofast-compile=max",
    f"--include-path={KERNELS}",
)


@pytest.fixture(scope="module")
def nvrtc():
    try:
        files = importlib.metadata.files("nvidia-cuda-nvrtc") or []
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("nvidia-cuda-nvrtc is not installed")
    [library] = [file for file in files if re.fullmatch(r"libnvrtc\.so\.\d+", file.name)]
    return ctypes.CDLL(str(library.locate()))


def text_of(nvrtc, program, what):
    """The log or the machine code of a program."""
    size = ctypes.c_size_t()
    getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    getattr(nvrtc, f"nvrtcGet{what}")(program, text)
    return text.raw


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_device_functions_compile(nvrtc, architecture):
    """Every function of the generated header is in the machine code for a card."""
    program = ctypes.c_void_p()
    source = b'#include "expressions.cuh"\n'
    assert nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, b"all.cu", 0, None, None) == 0
    options = [option.encode() for option in (*OPTIONS, f"--gpu-architecture=sm_{architecture}")]
    try:
        status = nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
        assert status == 0, text_of(nvrtc, program, "ProgramLog").decode()
        code = text_of(nvrtc, program, "CUBIN")
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    names = re.findall(r"^DEVICE \w+ (\w+)\(", (KERNELS / "expressions.cuh").read_text(), re.MULTILINE)
    assert names
    # A name stands in the code behind its length, as C++ writes names for the linker.
    absent = [name for name in names if f"{len(name)}{name}".encode() not in code]
    assert not absent
