"""`torch.cuda.tunable`: the settings of TunableOp, which would measure several algorithms for a product.

Each product has one algorithm, which cuBLASLt recommends, as in torch on NVIDIA's GPUs, where TunableOp knows only ``Default``. The
settings and files of results are kept and read, so that programs run; nothing is measured.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

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

_settings: dict[str, Any] = {
    "enable": False,
    "tuning_enable": True,
    "record_untuned_enable": False,
    "set_max_tuning_duration": 30,
    "set_max_tuning_iterations": 100,
    "set_rotating_buffer_size": 0,
    "filename": "",
}
_results: list[tuple[str, str, str, float]] = []


def _set(name: str, kind: type, value: Any) -> None:
    given = type(value)
    if given is not kind:
        article = "an" if kind is int else "a"
        raise RuntimeError(f"cuda_tunableop_{name} expects {article} {kind.__name__}, but got {given.__name__}")
    _settings[name] = value if kind is bool else max(value, 0)


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
    return _settings["enable"]


def tuning_enable(val: bool = True) -> None:
    """Sets whether products would be measured. There is one algorithm for each, so that this has no effect.

    >>> torch.cuda.tunable.tuning_enable(True)
    """
    _set("tuning_enable", bool, val)


def tuning_is_enabled() -> bool:
    """What `tuning_enable` has set.

    >>> torch.cuda.tunable.tuning_is_enabled()
    True
    """
    return _settings["tuning_enable"]


def record_untuned_enable(val: bool = True) -> None:
    """Sets whether products would be written down to be measured later. No product has more than one algorithm: none is.

    >>> torch.cuda.tunable.record_untuned_enable(False)
    """
    _set("record_untuned_enable", bool, val)


def record_untuned_is_enabled() -> bool:
    """What `record_untuned_enable` has set.

    >>> torch.cuda.tunable.record_untuned_is_enabled()
    False
    """
    return _settings["record_untuned_enable"]


def set_max_tuning_duration(duration: int) -> None:
    """Sets the most milliseconds for a measurement. Negative values become 0.

    >>> torch.cuda.tunable.set_max_tuning_duration(30)
    """
    _set("set_max_tuning_duration", int, duration)


def get_max_tuning_duration() -> int:
    """What `set_max_tuning_duration` has set.

    >>> torch.cuda.tunable.get_max_tuning_duration()
    30
    """
    return _settings["set_max_tuning_duration"]


def set_max_tuning_iterations(iterations: int) -> None:
    """Sets the most runs for a measurement. Negative values become 0.

    >>> torch.cuda.tunable.set_max_tuning_iterations(100)
    """
    _set("set_max_tuning_iterations", int, iterations)


def get_max_tuning_iterations() -> int:
    """What `set_max_tuning_iterations` has set.

    >>> torch.cuda.tunable.get_max_tuning_iterations()
    100
    """
    return _settings["set_max_tuning_iterations"]


def set_filename(filename: str, insert_device_ordinal: bool = False) -> None:
    """Sets the file of results.

    Args:
        filename: its name.
        insert_device_ordinal: whether the number of the current GPU is put before the name's end.
    """
    if insert_device_ordinal:
        from . import current_device

        base, dot, end = filename.rpartition(".")
        filename = f"{base}{current_device()}.{end}" if dot else f"{filename}{current_device()}"
    _settings["filename"] = filename


def get_filename() -> str:
    """The file of results."""
    return _settings["filename"]


def get_results() -> tuple[tuple[str, str, str, float], ...]:
    """The results that `read_file` has read: operator, parameters, algorithm, milliseconds.

    >>> torch.cuda.tunable.get_results()
    ()
    """
    return tuple(_results)


def get_validators() -> tuple[tuple[str, str], ...]:
    """What must be the same where results are read and where they were measured: the version.

    >>> torch.cuda.tunable.get_validators()[0][0]
    'PT_VERSION'
    """
    from rushlight import __version__

    return (("PT_VERSION", __version__),)


def read_file(filename: str | None = None) -> bool:
    """Reads a file of results.

    Args:
        filename: the file, by default that of `set_filename`.

    Returns:
        whether it exists, and was measured with this version.
    """
    try:
        with open(get_filename() if filename is None else filename, encoding="utf-8") as file:
            rows = [line.strip().split(",") for line in file if line.strip()]
    except OSError:
        return False
    validators = dict(get_validators())
    if any(row[0] == "Validator" and validators.get(row[1]) != row[2] for row in rows):
        return False
    _results[:] = [(row[0], row[1], row[2], float(row[3])) for row in rows if row[0] != "Validator"]
    return True


def _refuse() -> NoReturn:
    raise NotImplementedError(
        "torch.cuda.tunable measures nothing: cuBLASLt recommends the one algorithm of each product, and there is nothing to "
        "choose from. The file needs no tuning."
    )


def tune_gemm_in_file(filename: str) -> None:
    """Would measure the products in a file, and is refused: there is one algorithm for each.

    Raises:
        AssertionError: TunableOp or tuning is not enabled.
        NotImplementedError: otherwise.
    """
    if not is_enabled():
        raise AssertionError("TunableOp is not enabled")
    if not tuning_is_enabled():
        raise AssertionError("Tuning is not enabled")
    _refuse()


def mgpu_tune_gemm_in_file(filename_pattern: str, num_gpus: int) -> None:
    """Would measure the products in files on several GPUs, and is refused; see `tune_gemm_in_file`."""
    tune_gemm_in_file(filename_pattern)


def set_rotating_buffer_size(buffer_size: int) -> None:
    """Sets the megabytes that a measurement would read in turns. Negative values become 0.

    >>> torch.cuda.tunable.set_rotating_buffer_size(0)
    """
    _set("set_rotating_buffer_size", int, buffer_size)


def get_rotating_buffer_size() -> int:
    """What `set_rotating_buffer_size` has set.

    >>> torch.cuda.tunable.get_rotating_buffer_size()
    0
    """
    return _settings["set_rotating_buffer_size"]


def set_numerical_check_tolerances(enable: bool, atol: float = 1e-5, rtol: float = 1e-5) -> None:
    """Sets how far results of algorithms may be apart. There is one for each product, so that this has no effect.

    >>> torch.cuda.tunable.set_numerical_check_tolerances(True)
    """


def __dir__() -> list[str]:
    return __all__
