"""``python -m rushlight.utils.collect_env``: the versions and the machine, as bug reports need them.

Programs run as torch's call it with ``python -m rushlight -m torch.utils.collect_env``. Each function that asks a program gets
the function that runs it, as in torch; `run` is that function.
"""

from __future__ import annotations

import importlib.metadata
import locale
import os
import platform
import re
import subprocess
import sys
from typing import Any, NamedTuple

import rushlight as torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeAlias

    _Run: TypeAlias = Callable[[Any], tuple[int, str, str]]

TORCH_AVAILABLE = True

#: The parts of names of packages that are listed.
COMMON_PATTERNS = ["torch", "numpy", "triton", "optree", "rushlight"]
NVIDIA_PATTERNS = (
    "cuda-cudart cuda-cupti cuda-libraries cuda-opencl cuda-nvrtc cuda-runtime cublas cudnn cufft curand cusolver cusparse "
    "nccl nvjitlink nvtx"
).split()
ONEAPI_PATTERNS = (
    "dpcpp-cpp-rt intel-cmplr-lib-rt intel-cmplr-lib-ur intel-cmplr-lic-rt intel-opencl-rt intel-sycl-rt mkl "
    "onemkl-sycl-blas onemkl-sycl-dft onemkl-sycl-lapack onemkl-sycl-rng onemkl-sycl-sparse intel-openmp tbb impi-rt "
    "impi-devel oneccl oneccl-devel intel-pti umf tcmlib"
).split()
CONDA_PATTERNS = ["cudatoolkit", "soumith", "mkl", "magma"]
PIP_PATTERNS = ["mypy", "flake8", "onnx"]


class SystemEnv(NamedTuple):
    """What `get_env_info` has found, as text.

    >>> torch.utils.collect_env.SystemEnv._fields[0]
    'torch_version'
    """

    torch_version: Any
    is_debug_build: Any
    cuda_compiled_version: Any
    gcc_version: Any
    clang_version: Any
    cmake_version: Any
    os: Any
    libc_version: Any
    python_version: Any
    python_platform: Any
    is_cuda_available: Any
    cuda_runtime_version: Any
    cuda_module_loading: Any
    nvidia_driver_version: Any
    nvidia_gpu_models: Any
    cudnn_version: Any
    is_xpu_available: Any
    pip_version: Any
    pip_packages: Any
    conda_packages: Any
    hip_compiled_version: Any
    hip_runtime_version: Any
    miopen_runtime_version: Any
    caching_allocator_config: Any
    is_xnnpack_available: Any
    cpu_info: Any


# --- running programs --------------------------------------------------------------------------------------------------


def run(command: str | Sequence[str]) -> tuple[int, str, str]:
    """Runs a command: its exit status, its output and its errors. A text runs in a shell.

    >>> torch.utils.collect_env.run("echo 1; exit 3")
    (3, '1', '')
    """
    try:
        done = subprocess.run(
            command, shell=isinstance(command, str), stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
    except OSError:
        return 127, "", "Command not found"
    encoding = locale.getpreferredencoding(False)
    output, errors = (text.decode(encoding, "replace").strip() for text in (done.stdout, done.stderr))
    return done.returncode, output, errors


def run_and_read_all(run_lambda: _Run, command: str | Sequence[str]) -> str | None:
    """The output of a command, or None if it fails.

    >>> torch.utils.collect_env.run_and_read_all(torch.utils.collect_env.run, "echo 1")
    '1'
    """
    status, output, _ = run_lambda(command)
    return output if status == 0 else None


def run_and_parse_first_match(run_lambda: _Run, command: str | Sequence[str], regex: str) -> str | None:
    """The first group of a regular expression in the output of a command, or None.

    >>> torch.utils.collect_env.run_and_parse_first_match(torch.utils.collect_env.run, "echo v 12", "v (.*)")
    '12'
    """
    found = re.search(regex, run_and_read_all(run_lambda, command) or "")
    return None if found is None else found.group(1)


def run_and_return_first_line(run_lambda: _Run, command: str | Sequence[str]) -> str | None:
    """The first line of the output of a command, or None if it fails.

    >>> torch.utils.collect_env.run_and_return_first_line(torch.utils.collect_env.run, "echo 1; echo 2")
    '1'
    """
    output = run_and_read_all(run_lambda, command)
    return None if output is None else output.split("\n")[0]


# --- programs and packages ---------------------------------------------------------------------------------------------


def get_gcc_version(run_lambda: _Run) -> str | None:
    """The version of gcc, or None."""
    return run_and_parse_first_match(run_lambda, "gcc --version", r"gcc (.*)")


def get_clang_version(run_lambda: _Run) -> str | None:
    """The version of clang, or None."""
    return run_and_parse_first_match(run_lambda, "clang --version", r"clang version (.*)")


def get_cmake_version(run_lambda: _Run) -> str | None:
    """The version of cmake, or None."""
    return run_and_parse_first_match(run_lambda, "cmake --version", r"cmake (.*)")


def get_linux_pkg_version(run_lambda: _Run, pkg_name: str) -> str:
    """The version of a package of the Linux distribution, or ``"N/A"``."""
    for command in (f"dpkg-query -W -f='${{Version}}' {pkg_name}", f"rpm -q --qf '%{{VERSION}}' {pkg_name}"):
        version = run_and_read_all(run_lambda, f"{command} 2>/dev/null")
        if version:
            return version
    return "N/A"


def get_conda_packages(run_lambda: _Run, patterns: Sequence[str] | None = None) -> str | None:
    """The packages of conda whose names contain one of the patterns, one per line, or None without conda."""
    if patterns is None:
        patterns = CONDA_PATTERNS + COMMON_PATTERNS + NVIDIA_PATTERNS + ONEAPI_PATTERNS
    listed = run_and_read_all(run_lambda, [os.environ.get("CONDA_EXE", "conda"), "list"])
    if listed is None:
        return None
    lines = (line for line in listed.splitlines() if not line.startswith("#"))
    return "\n".join(line for line in lines if any(pattern in line for pattern in patterns))


def get_pip_packages(run_lambda: _Run, patterns: Sequence[str] | None = None) -> tuple[str, str]:
    """The name of pip, and the packages of Python whose names contain one of the patterns, one per line."""
    if patterns is None:
        patterns = PIP_PATTERNS + COMMON_PATTERNS + NVIDIA_PATTERNS + ONEAPI_PATTERNS
    found: dict[str, str] = {}
    for one in importlib.metadata.distributions():
        name = one.metadata["Name"] or ""
        if any(pattern in name for pattern in patterns):
            found.setdefault(name, one.version)
    lines = (f"{name}=={version}" for name, version in sorted(found.items(), key=lambda item: item[0].lower()))
    return f"pip{sys.version_info.major}", "\n".join(lines)


# --- devices -----------------------------------------------------------------------------------------------------------


def get_nvidia_smi() -> str:
    """The path of nvidia-smi, or its name."""
    return "nvidia-smi"


def get_nvidia_driver_version(run_lambda: _Run) -> str | None:
    """The version of NVIDIA's driver, or None."""
    return run_and_parse_first_match(run_lambda, get_nvidia_smi(), r"Driver Version: (.*?) ")


def get_gpu_info(run_lambda: _Run) -> str | None:
    """The GPUs of the machine that nvidia-smi lists, one per line, or None."""
    listed = run_and_read_all(run_lambda, [get_nvidia_smi(), "-L"])
    return None if listed is None else re.sub(r" \(UUID: .+?\)", "", listed)


def get_running_cuda_version(run_lambda: _Run) -> str | None:
    """The version of the CUDA compiler, or None."""
    return run_and_parse_first_match(run_lambda, "nvcc --version", r"release .+ V(.*)")


def get_cudnn_version(run_lambda: _Run) -> str | None:
    """The files of cuDNN among the libraries of the system, one per line, or None."""
    listed = run_and_read_all(run_lambda, 'ldconfig -p | grep libcudnn | rev | cut -d" " -f1 | rev')
    files = sorted({os.path.realpath(name) for name in (listed or "").splitlines() if os.path.exists(name)})
    if len(files) < 2:
        return files[0] if files else None
    return "Probably one of the following:\n" + "\n".join(files)


def get_intel_gpu_onboard(run_lambda: _Run) -> str:
    """The Intel GPUs that lspci lists, one per line, or ``"N/A"``."""
    listed = run_and_read_all(run_lambda, "lspci -nn 2>/dev/null | grep -E 'VGA|Display|3D'")
    lines = [line for line in (listed or "").splitlines() if "Intel" in line]
    return "\n".join(lines) if lines else "N/A"


def get_intel_gpu_driver_version(run_lambda: _Run) -> str:
    """The versions of Intel's packages for GPUs, one per line, or ``"N/A"``."""
    names = ["intel-opencl-icd", "libze1", "level-zero"]
    versions = [(name, get_linux_pkg_version(run_lambda, name)) for name in names]
    return "\n".join(f"* {name}:\t{version}" for name, version in versions if version != "N/A") or "N/A"


def get_intel_gpu_detected(run_lambda: _Run) -> str:
    """The Intel GPUs that can compute: always ``"N/A"``, because none is supported."""
    return "N/A"


def get_cuda_module_loading_config() -> str:
    """How CUDA loads modules: ``"N/A"`` without CUDA."""
    return os.environ.get("CUDA_MODULE_LOADING", "") if torch.cuda.is_available() else "N/A"


def get_cachingallocator_config() -> dict[str, str]:
    """The environment variables that configure the allocator of GPU memory."""
    names = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
    return {name: os.environ[name] for name in names if os.environ.get(name)}


def is_xnnpack_available() -> str:
    """Whether XNNPACK is used: always ``"False"``."""
    return str(torch.backends.xnnpack.enabled)


# --- the system --------------------------------------------------------------------------------------------------------


def get_platform() -> str:
    """The kind of system: ``"linux"``, ``"darwin"``, ``"win32"``.

    >>> torch.utils.collect_env.get_platform() in ("linux", "darwin", "win32")
    True
    """
    return next(
        (name for name in ("linux", "win32", "cygwin", "darwin") if sys.platform.startswith(name)), sys.platform
    )


def get_mac_version(run_lambda: _Run) -> str | None:
    """The version of macOS, or None."""
    return run_and_parse_first_match(run_lambda, "sw_vers -productVersion", r"(.*)")


def get_windows_version(run_lambda: _Run) -> str | None:
    """The version of Windows, or None."""
    return f"{platform.system()} {platform.version()}" if get_platform() == "win32" else None


def get_lsb_version(run_lambda: _Run) -> str | None:
    """The description of the Linux distribution by lsb_release, or None."""
    return run_and_parse_first_match(run_lambda, "lsb_release -a", r"Description:\t(.*)")


def check_release_file(run_lambda: _Run) -> str | None:
    """The description of the Linux distribution by its release file, or None."""
    return run_and_parse_first_match(run_lambda, "cat /etc/*-release", r'PRETTY_NAME="(.*)"')


def get_os(run_lambda: _Run) -> str | None:
    """The name of the system and the kind of machine."""
    kind, machine = get_platform(), platform.machine()
    if kind in ("win32", "cygwin"):
        return get_windows_version(run_lambda)
    if kind == "darwin":
        version = get_mac_version(run_lambda)
        return None if version is None else f"macOS {version} ({machine})"
    described = get_lsb_version(run_lambda) or check_release_file(run_lambda)
    return f"{described or kind} ({machine})"


def get_python_platform() -> str:
    """Python's description of the system.

    >>> torch.utils.collect_env.get_python_platform() == platform.platform()
    True
    """
    return platform.platform()


def get_libc_version() -> str:
    """The C library and its version, ``"N/A"`` except on Linux."""
    return "-".join(platform.libc_ver()) if get_platform() == "linux" else "N/A"


def get_cpu_info(run_lambda: _Run) -> str:
    """The description of the processor by the system."""
    command = {"linux": "lscpu", "darwin": "sysctl -n machdep.cpu.brand_string"}.get(get_platform())
    status, output, error = run_lambda(command) if command else (0, platform.processor(), "")
    return output if status == 0 else error


# --- the report --------------------------------------------------------------------------------------------------------


def get_env_info() -> SystemEnv:
    """Collects everything.

    >>> torch.utils.collect_env.get_env_info().is_debug_build
    'False'
    """
    cuda = torch.cuda.is_available()
    pip_version, pip_packages = get_pip_packages(run)
    bits = 64 if sys.maxsize > 2**32 else 32
    return SystemEnv(
        torch_version=f"{torch.__version__} (rushlight)",
        is_debug_build=str(torch.version.debug),
        cuda_compiled_version=torch.version.cuda or "N/A",
        gcc_version=get_gcc_version(run),
        clang_version=get_clang_version(run),
        cmake_version=get_cmake_version(run),
        os=get_os(run),
        libc_version=get_libc_version(),
        python_version=f"{sys.version} ({bits}-bit runtime)".replace("\n", " "),
        python_platform=get_python_platform(),
        is_cuda_available=str(cuda),
        cuda_runtime_version=get_running_cuda_version(run) if cuda else None,
        cuda_module_loading=get_cuda_module_loading_config(),
        nvidia_driver_version=get_nvidia_driver_version(run) if cuda else None,
        nvidia_gpu_models=get_gpu_info(run) if cuda else None,
        cudnn_version=get_cudnn_version(run) if cuda else None,
        is_xpu_available=str(torch.xpu.is_available()),
        pip_version=pip_version,
        pip_packages=pip_packages,
        conda_packages=get_conda_packages(run),
        hip_compiled_version="N/A",
        hip_runtime_version="N/A",
        miopen_runtime_version="N/A",
        caching_allocator_config=get_cachingallocator_config(),
        is_xnnpack_available=is_xnnpack_available(),
        cpu_info=get_cpu_info(run),
    )


env_info_fmt = """
PyTorch version: {torch_version}
Is debug build: {is_debug_build}
CUDA used to build PyTorch: {cuda_compiled_version}
ROCM used to build PyTorch: {hip_compiled_version}

OS: {os}
GCC version: {gcc_version}
Clang version: {clang_version}
CMake version: {cmake_version}
Libc version: {libc_version}

Python version: {python_version}
Python platform: {python_platform}
Is CUDA available: {is_cuda_available}
CUDA runtime version: {cuda_runtime_version}
CUDA_MODULE_LOADING set to: {cuda_module_loading}
GPU models and configuration: {nvidia_gpu_models}
Nvidia driver version: {nvidia_driver_version}
cuDNN version: {cudnn_version}
Is XPU available: {is_xpu_available}
HIP runtime version: {hip_runtime_version}
MIOpen runtime version: {miopen_runtime_version}
Is XNNPACK available: {is_xnnpack_available}
Caching allocator config: {caching_allocator_config}

CPU:
{cpu_info}

Versions of relevant libraries:
{pip_packages}
{conda_packages}
""".strip()


def pretty_str(envinfo: SystemEnv) -> str:
    """The report as text.

    >>> environment = torch.utils.collect_env.get_env_info()
    >>> torch.utils.collect_env.pretty_str(environment).splitlines()[1]
    'Is debug build: False'
    """
    values = envinfo._asdict()
    if envinfo.is_cuda_available != "True":
        for name in ("cuda_runtime_version", "nvidia_driver_version", "nvidia_gpu_models", "cudnn_version"):
            values[name] = values[name] or "No CUDA"
    for name, tag in (("pip_packages", f"[{envinfo.pip_version}] "), ("conda_packages", "[conda] ")):
        lines = (values[name] or ("No relevant packages" if values[name] == "" else "Could not collect")).splitlines()
        values[name] = "\n".join(tag + line for line in lines)
    values["caching_allocator_config"] = values["caching_allocator_config"] or "N/A"
    return env_info_fmt.format(**{name: "Could not collect" if one is None else one for name, one in values.items()})


def get_pretty_env_info() -> str:
    """Collects everything, as text.

    >>> torch.utils.collect_env.get_pretty_env_info().startswith("PyTorch version: ")
    True
    """
    return pretty_str(get_env_info())


def main() -> None:
    """Prints the report."""
    print("Collecting environment information...")
    print(get_pretty_env_info())


def __dir__() -> list[str]:
    own = {name for name, value in globals().items() if getattr(value, "__module__", None) == __name__}
    values = {name for name, value in globals().items() if isinstance(value, (bool, list, str))}
    return sorted(name for name in own | values if not name.startswith("_") and name != "TYPE_CHECKING")


if __name__ == "__main__":
    main()
