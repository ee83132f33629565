"""``python -m rushlight doctor``: what was found for GPUs, what is missing, and what to type."""

from __future__ import annotations

import platform

import rushlight as torch
from rushlight import _C


def report() -> list[tuple[bool, str, str]]:
    """What was looked for: whether it was found, a sentence about it, and what to type if it is missing."""
    lines = [
        (True, f"rushlight {torch.__version__}, Python {platform.python_version()}, {platform.machine()}", ""),
        (True, f"CPU: {torch.get_num_threads()} threads", ""),
    ]
    usable, driver = _C._cuda_describe()
    lines.append((usable, f"driver: {driver}", "" if usable else _about_driver(driver)))
    libraries = _C._cuda_libraries()
    nvrtc = libraries["nvrtc"]
    if nvrtc is None:
        lines.append((False, "NVRTC, which compiles the kernels: not installed", "pip install 'rushlight[cuda13]'"))
    else:
        lines.append((True, f"NVRTC, which compiles the kernels: {nvrtc}", ""))
    slower = "a slower kernel multiplies"
    lines.append(_about("cuBLASLt, which multiplies matrices", libraries["cublaslt"], slower))
    slower = "slower kernels compute them"
    lines.append(_about("cuDNN, which computes convolutions and recurrent networks", libraries["cudnn"], slower))
    for title, name in (
        ("cuFFT, which computes transforms", "cufft"),
        ("cuSOLVER, which factorises matrices", "cusolver"),
    ):
        version = libraries[name]
        lines.append(_about(title, version and (version, True), "the CPU does it"))
    without = "processes exchange tensors through the host"
    lines.append(_about("NCCL, which exchanges tensors between GPUs", libraries["nccl"], without))
    cache = libraries["kernel cache"]
    lines.append((True, f"compiled kernels: {cache or 'not kept, because no folder was found'}", ""))
    for index in range(torch.cuda.device_count()):
        known = torch.cuda.get_device_properties(index)
        size = f"{known.total_memory / 2**30:.1f} GiB"
        lines.append((True, f"cuda:{index}: {known.name}, capability {known.major}.{known.minor}, {size}", ""))
    if usable and nvrtc is not None:
        lines.append(_trial())
    return lines


def _about(library: str, found: tuple[str, bool] | None, without: str) -> tuple[bool, str, str]:
    """A library that rushlight uses where it is installed, and what happens without it."""
    version, usable = found or ("not installed", False)
    remedy = "" if usable else f"pip install 'rushlight[cuda13]'; until then {without}"
    return usable, f"{library}: {version}", remedy


def _about_driver(driver: str) -> str:
    if "older" in driver:
        return "install a newer driver: https://www.nvidia.com/drivers"
    if "no GPU" in driver:
        return "unset CUDA_VISIBLE_DEVICES, if it hides the GPU"
    if "no driver" in driver:
        return "install NVIDIA's driver, if the machine has a GPU: https://www.nvidia.com/drivers"
    return "nvidia-smi shows whether the driver works"


def _trial() -> tuple[bool, str, str]:
    """Compiles a kernel and runs it."""
    try:
        total = (torch.arange(5.0, device="cuda") * 2).sum().item()
    except RuntimeError as error:
        return False, f"a kernel: {str(error).splitlines()[0]}", "CUDA_LAUNCH_BLOCKING=1 python -m rushlight doctor"
    return total == 20.0, "a kernel: compiled and run" if total == 20.0 else f"a kernel: wrong result {total}", ""


def main() -> int:
    """Prints the report; 1 if something is missing."""
    lines = report()
    for found, sentence, remedy in lines:
        print(f"{'ok     ' if found else 'missing'} {sentence}")
        if remedy:
            print(f"        {remedy}")
    return 0 if all(found for found, _, _ in lines) else 1
