"""`torch.cuda.tunable`: products are measured by several algorithms of cuBLASLt, and the fastest is recorded in a file.

While TunableOp is in use, the first product of each geometry measures the algorithms that cuBLASLt recommends, unless a result is known
or tuning is off. Results are appended to the file at once, and read again by the next process.
"""

from __future__ import annotations

import glob
import os
import warnings

import rushlight as torch
from rushlight import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight import Tensor

__all__ = [
    "enable",
    "is_enabled",
    "tuning_enable",
    "tuning_is_enabled",
    "record_untuned_enable",
    "record_untuned_is_enabled",
    "set_max_tuning_duration",
    "get_max_tuning_duration",
    "set_max_tuning_iterations",
    "get_max_tuning_iterations",
    "set_filename",
    "get_filename",
    "get_results",
    "get_validators",
    "read_file",
    "tune_gemm_in_file",
    "mgpu_tune_gemm_in_file",
    "set_rotating_buffer_size",
    "get_rotating_buffer_size",
    "set_numerical_check_tolerances",
]

_ARTICLES = {bool: "a bool", int: "an int", str: "a string", float: "a float"}


def _check(function: str, kind: type, value: Any) -> None:
    if type(value) is not kind and not (kind is str and isinstance(value, str)):
        raise RuntimeError(f"cuda_tunableop_{function} expects {_ARTICLES[kind]}, but got {type(value).__name__}")


def _set(name: str, kind: type, value: Any) -> None:
    _check(name if kind is bool else f"set_{name}", kind, value)
    if kind is int and not -(2**31) <= value < 2**31:
        raise RuntimeError(f"Overflow when unpacking long\n  {name} is {value}, and has 32 bits")
    _C._tunable_set(name, int(value))


def enable(val: bool = True) -> None:
    """Sets whether TunableOp is in use.

    Raises:
        RuntimeError: the value is not a bool.

    >>> torch.cuda.tunable.enable(False)
    """
    _set("enable", bool, val)


def is_enabled() -> bool:
    """Whether TunableOp is in use.

    >>> torch.cuda.tunable.is_enabled()
    False
    """
    return _C._tunable_get("enable") == 1


def tuning_enable(val: bool = True) -> None:
    """Sets whether products without a result are measured while TunableOp is in use.

    >>> torch.cuda.tunable.tuning_enable(True)
    """
    _set("tuning_enable", bool, val)


def tuning_is_enabled() -> bool:
    """What `tuning_enable` has set.

    >>> torch.cuda.tunable.tuning_is_enabled()
    True
    """
    return _C._tunable_get("tuning_enable") == 1


def record_untuned_enable(val: bool = True) -> None:
    """Sets whether products without a result are written down while tuning is off, for `tune_gemm_in_file`.

    >>> torch.cuda.tunable.record_untuned_enable(False)
    """
    _set("record_untuned_enable", bool, val)


def record_untuned_is_enabled() -> bool:
    """What `record_untuned_enable` has set.

    >>> torch.cuda.tunable.record_untuned_is_enabled()
    False
    """
    return _C._tunable_get("record_untuned_enable") == 1


def set_max_tuning_duration(duration: int) -> None:
    """Sets the most milliseconds for the measurement of an algorithm; 0 is no limit. Negative values become 0.

    >>> torch.cuda.tunable.set_max_tuning_duration(30)
    """
    _set("max_tuning_duration", int, duration)


def get_max_tuning_duration() -> int:
    """What `set_max_tuning_duration` has set.

    >>> torch.cuda.tunable.get_max_tuning_duration()
    30
    """
    return _C._tunable_get("max_tuning_duration")


def set_max_tuning_iterations(iterations: int) -> None:
    """Sets the most runs for the measurement of an algorithm; 0 is no limit. Negative values become 0.

    >>> torch.cuda.tunable.set_max_tuning_iterations(100)
    """
    _set("max_tuning_iterations", int, iterations)


def get_max_tuning_iterations() -> int:
    """What `set_max_tuning_iterations` has set.

    >>> torch.cuda.tunable.get_max_tuning_iterations()
    100
    """
    return _C._tunable_get("max_tuning_iterations")


def set_filename(filename: str, insert_device_ordinal: bool = False) -> None:
    """Sets the file of results.

    Args:
        filename: its name.
        insert_device_ordinal: whether the number of the current GPU is put into the name: in place of ``%d``, or before its end.
    """
    _check("set_filename", str, filename)
    _check("set_filename", bool, insert_device_ordinal)
    _C._tunable_set_file(filename, insert_device_ordinal)


def get_filename() -> str:
    """The file of results; empty before the first product that looks for it."""
    return _C._tunable_file()


def get_results() -> tuple[tuple[str, str, str, float], ...]:
    """The results: operator, parameters, algorithm, milliseconds. The file of results is read first, if it has not been.

    >>> torch.cuda.tunable.get_results()
    ()
    """
    return tuple(_C._tunable_results())


def get_validators() -> tuple[tuple[str, str], ...]:
    """What must be the same where results are read and where they were measured: this version, cuBLASLt's and the GPU's.

    >>> torch.cuda.tunable.get_validators()[0][0]
    'PT_VERSION'
    """
    return tuple(_C._tunable_validators())


def read_file(filename: str | None = None) -> bool:
    """Reads a file of results. Those that are known already remain.

    Args:
        filename: the file, by default that of `set_filename`.

    Returns:
        whether it exists, and has results of this version, cuBLASLt and GPU.

    Raises:
        RuntimeError: the name is not a string.
    """
    if filename is not None:
        _check("read_file", str, filename)
    return _C._tunable_read(filename)


def set_rotating_buffer_size(buffer_size: int) -> None:
    """Sets the megabytes of operands that measured runs read in turns, so that none finds them in a cache.

    Args:
        buffer_size: 0 has all runs read the same operands; a negative number stands for the size of the second-level cache.

    >>> torch.cuda.tunable.set_rotating_buffer_size(-1)
    """
    _set("rotating_buffer_size", int, buffer_size)


def get_rotating_buffer_size() -> int:
    """The bytes of operands that measured runs read in turns.

    Raises:
        RuntimeError: there is no GPU.
    """
    return _C._tunable_rotating_bytes()


def set_numerical_check_tolerances(enable: bool, atol: float = 1e-5, rtol: float = 1e-5) -> None:
    """Sets whether an algorithm may be chosen only if its result is near enough to that of the recommended one.

    Raises:
        RuntimeError: a tolerance is not positive.

    >>> torch.cuda.tunable.set_numerical_check_tolerances(False)
    """
    _C._tunable_set_check(enable, atol, rtol)


def tune_gemm_in_file(filename: str) -> None:
    """Measures the products that `record_untuned_enable` has written to a file.

    Raises:
        AssertionError: TunableOp or tuning is not enabled.
    """
    if not is_enabled():
        raise AssertionError("TunableOp is not enabled")
    if not tuning_is_enabled():
        raise AssertionError("Tuning is not enabled")
    device = torch.cuda.current_device()
    for line in _products([filename]):
        _tune(line, device)


def _products(files: list[str]) -> list[str]:
    """The lines of files that are products, each once."""
    lines: dict[str, None] = {}
    for name in files:
        with open(name, encoding="utf-8") as file:
            lines.update(dict.fromkeys(line.strip() for line in file if line.startswith(("Gemm", "ScaledGemm"))))
    return list(lines)


def _dtypes() -> dict[str, torch.dtype]:
    return {
        "float": torch.float32,
        "tf32": torch.float32,
        "double": torch.float64,
        "BFloat16": torch.bfloat16,
        "Half": torch.float16,
        "c10::complex<float>": torch.complex64,
        "c10::complex<double>": torch.complex128,
    }


def _matrix(rows: int, columns: int, leading: int, batch: int | None, turned: bool, dtype: Any, device: str) -> Tensor:
    """A factor whose rows, or columns if it is turned, are `leading` elements apart. A batch's matrices follow each other."""
    shape = (columns, leading) if turned else (rows, leading)
    whole = torch.rand(*(() if batch is None else (batch,)), *shape, dtype=dtype, device=device)
    return whole[..., :rows].mT if turned else whole[..., :columns]


def _tune(line: str, gpu: int) -> None:
    """Runs a product like that of a line, which measures it."""
    operator, sizes = line.split(",")[:2]
    name, dtype_name, orders = (operator.split("_") + ["", ""])[:3]
    words = sizes.split("_")
    place = 6 if name == "GemmStridedBatchedTunableOp" else 4
    if name == "ScaledGemmTunableOp" or dtype_name not in _dtypes() or name not in _OPERATORS:
        warnings.warn(f"error: unknown op {name}, skipped: {line}", stacklevel=3)
        return
    if words[place] != "ld":
        raise AssertionError(f"expected 'ld' at index {place}, got {words[place]!r}")
    # The library's factors are the transposed ones of a row-major product, in the other order.
    n, m, k = (int(word) for word in words[1:4])
    far_b, far_a, far_out = (int(word) for word in words[place + 1 : place + 4])
    batch = int(words[5]) if place == 6 else None
    dtype, device = _dtypes()[dtype_name], f"cuda:{gpu}"
    a = _matrix(m, k, far_a, batch, orders[1] == "T", dtype, device)
    b = _matrix(k, n, far_b, batch, orders[0] == "T", dtype, device)
    matmul = torch.backends.cuda.matmul
    before = matmul.allow_tf32
    matmul.allow_tf32 = dtype_name == "tf32"
    try:
        if name == "GemmAndBiasTunableOp":
            torch.addmm(torch.rand(n, dtype=dtype, device=device), a, b)
        else:
            shape = (m, far_out) if batch is None else (batch, m, far_out)
            out = torch.empty(*shape, dtype=dtype, device=device)[..., :n]
            (torch.mm if batch is None else torch.bmm)(a, b, out=out)
    finally:
        matmul.allow_tf32 = before


_OPERATORS = ("GemmTunableOp", "GemmStridedBatchedTunableOp", "GemmAndBiasTunableOp")


def _begin_worker() -> None:
    """Enables TunableOp in a process that measures."""
    if not is_enabled():
        warnings.warn("TunableOp was disabled. Trying to enable now.", stacklevel=2)
        enable(True)
    if not tuning_is_enabled():
        raise AssertionError("tuning_is_enabled() must be True")
    if record_untuned_is_enabled():
        raise AssertionError("record_untuned_is_enabled() must be False")


def _tune_on(line: str, gpu: int, filename: str) -> None:
    """The same as `_tune` in a process that measures for one GPU, and writes to a file of its own."""
    with torch.cuda.device(gpu):
        if get_filename() != filename:
            set_filename(filename)
        _tune(line, gpu)
        torch.cuda.synchronize()


def mgpu_tune_gemm_in_file(filename_pattern: str, num_gpus: int) -> None:
    """Measures the products of several files, in a process for each of several GPUs, and joins the results in one file.

    The file's name has ``_full0`` in place of the number of a GPU; there is a copy of it for each file of results.

    Args:
        filename_pattern: the files, with a ``?`` or ``*`` in place of the numbers of GPUs.
        num_gpus: how many GPUs measure.

    Raises:
        AssertionError: there are not as many GPUs.
    """
    import concurrent.futures
    import multiprocessing

    lines = _products(sorted(glob.glob(filename_pattern)))
    total = torch.cuda.device_count()
    if not 1 <= num_gpus <= total:
        raise AssertionError(f"num_gpus must be between 1 and {total}, got {num_gpus}")
    context = multiprocessing.get_context("spawn")
    pattern = _results_pattern()
    # One process for each GPU, so that none writes to the file of another.
    pools = [
        concurrent.futures.ProcessPoolExecutor(max_workers=1, mp_context=context, initializer=_begin_worker)
        for _ in range(num_gpus)
    ]
    try:
        futures = []
        for n, line in enumerate(lines):
            gpu = n % num_gpus
            futures.append(pools[gpu].submit(_tune_on, line, gpu, pattern.replace("?", str(gpu))))
        for future in concurrent.futures.as_completed(futures):
            future.result()
    finally:
        for pool in pools:
            pool.shutdown()
    _join_results(pattern)


def _results_pattern() -> str:
    """The files of results, with a ``?`` in place of the number of a GPU."""
    name = get_filename()
    if name:
        # The program has set it, and the number of its GPU stands before the end.
        stem, dot, end = name.rpartition(".")
        return f"{stem[:-1]}?{dot}{end}" if len(stem) > 1 else f"{name}?"
    name = os.environ.get("PYTORCH_TUNABLEOP_FILENAME") or "tunableop_results.csv"
    return name.replace("%d", "?") if "%d" in name else "?.".join(name.rsplit(".", 1))


def _join_results(pattern: str) -> None:
    """Joins the files of results of all GPUs in one, and copies it for each."""
    if "?" not in pattern:
        raise AssertionError(f"filename_pattern must contain '?', got {pattern!r}")
    files = sorted(glob.glob(pattern))
    here = get_validators()
    results: dict[str, None] = {}
    for file_name in files:
        given: set[tuple[str, str]] = set()
        was_validator = False
        with open(file_name, encoding="utf-8") as file:
            for line in file:
                is_validator = line.startswith("Validator,")
                if is_validator:
                    _, name, value = line.strip().split(",")[:3]
                    given = {*(given if was_validator else ()), (name, value)}
                elif given == set(here):
                    results[line.strip()] = None
                was_validator = is_validator
    lines = [*(f"Validator,{name},{value}" for name, value in here), *results]
    for n in range(len(files)):
        with open(pattern.replace("?", f"_full{n}"), "w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)


def __dir__() -> list[str]:
    return __all__
