"""Global settings: the default device, the deterministic mode, and switches of torch that have no effect."""

from __future__ import annotations

import warnings

import rushlight as torch
from rushlight import _C
from rushlight._compiled import compiled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight import device

__all__ = [
    "manual_seed",
    "seed",
    "are_deterministic_algorithms_enabled",
    "get_default_device",
    "get_deterministic_debug_mode",
    "get_float32_matmul_precision",
    "get_num_interop_threads",
    "init_num_threads",
    "is_deterministic_algorithms_warn_only_enabled",
    "set_default_device",
    "set_deterministic_debug_mode",
    "set_float32_matmul_precision",
    "set_num_interop_threads",
    "use_deterministic_algorithms",
]


def get_default_device() -> device:
    """The device on which this thread creates new tensors.

    >>> with torch.device("meta"):
    ...     torch.zeros(2, 3).device
    device(type='meta')
    """
    return _C._default_device() or torch.device("cpu")


def set_default_device(device: device | str | int | None) -> None:
    """Sets the device on which this thread creates new tensors (``None`` resets it). See also ``with torch.device(...)``.

    Raises:
        RuntimeError: there is no such device.

    >>> torch.set_default_device("meta")
    >>> torch.zeros(2).device
    device(type='meta')
    >>> torch.set_default_device(None)
    """
    _C._set_default_device(None if device is None else torch.device(device))


def get_num_interop_threads() -> int:
    """The number of operators that run in parallel on behalf of one call: always 1.

    >>> torch.get_num_interop_threads()
    1
    """
    return 1


def set_num_interop_threads(num: int) -> None:
    """Accepted; it has no effect, because one operator runs at a time.

    Raises:
        RuntimeError: the number is not positive.

    >>> torch.set_num_interop_threads(2)
    """
    if not isinstance(num, int) or isinstance(num, bool):
        raise RuntimeError(f"set_num_interop_threads expects an int, but got {type(num).__name__}")
    if num <= 0:
        raise RuntimeError("set_num_interop_threads expects a positive integer")


_strict: dict[str, Any] = {"deterministic": False, "warn_only": False, "fill": True, "matmul": "highest"}


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Fills new memory whose contents are not specified (see `torch.utils.deterministic`) and refuses calls that torch
    calls nondeterministic, or warns of them with ``warn_only``. Results are the same bits for any number of threads with
    and without it.

    >>> torch.use_deterministic_algorithms(True, warn_only=True)
    >>> torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    (True, True)
    >>> torch.use_deterministic_algorithms(False)
    """
    _set_deterministic_algorithms(mode, warn_only=warn_only)


@compiled(overridable=False)
def _set_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    _strict.update(deterministic=mode, warn_only=warn_only)
    _apply()


def _set_fill(fill: bool) -> None:
    """Sets `torch.utils.deterministic.fill_uninitialized_memory`."""
    _strict["fill"] = fill
    _apply()


def _apply() -> None:
    _C._set_deterministic(_strict["deterministic"], _strict["warn_only"], _strict["fill"])


def are_deterministic_algorithms_enabled() -> bool:
    """Whether `use_deterministic_algorithms` is switched on.

    >>> torch.are_deterministic_algorithms_enabled()
    False
    """
    return _strict["deterministic"]


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Whether `use_deterministic_algorithms` was called with ``warn_only=True``.

    >>> torch.is_deterministic_algorithms_warn_only_enabled()
    False
    """
    return _strict["warn_only"]


_DEBUG_MODES = ("default", "warn", "error")


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """`use_deterministic_algorithms` by a name or a number: ``"default"`` or 0 is off, ``"warn"`` or 1 is
    ``warn_only=True``, ``"error"`` or 2 is on.

    Raises:
        RuntimeError: the mode is unknown.
        TypeError: the mode is neither a name nor a number.

    >>> torch.set_deterministic_debug_mode("warn")
    >>> torch.get_deterministic_debug_mode(), torch.is_deterministic_algorithms_warn_only_enabled()
    (1, True)
    >>> torch.set_deterministic_debug_mode(0)
    """
    if not isinstance(debug_mode, (int, str)):
        raise TypeError(f"debug_mode must be str or int, but got {type(debug_mode)}")
    if isinstance(debug_mode, str):
        if debug_mode not in _DEBUG_MODES:
            raise RuntimeError(
                f"invalid value of debug_mode, expected one of `default`, `warn`, `error`, but got {debug_mode}"
            )
        debug_mode = _DEBUG_MODES.index(debug_mode)
    if not 0 <= debug_mode < len(_DEBUG_MODES):
        raise RuntimeError(f"invalid value of debug_mode, expected 0, 1, or 2, but got {debug_mode}")
    use_deterministic_algorithms(debug_mode > 0, warn_only=debug_mode == 1)


def get_deterministic_debug_mode() -> int:
    """The mode as the number of `set_deterministic_debug_mode`.

    >>> torch.get_deterministic_debug_mode()
    0
    """
    if not _strict["deterministic"]:
        return 0
    return 1 if _strict["warn_only"] else 2


def get_float32_matmul_precision() -> str:
    """The precision that was set with `set_float32_matmul_precision`.

    >>> torch.get_float32_matmul_precision()
    'highest'
    """
    return _strict["matmul"]


def set_float32_matmul_precision(precision: str) -> None:
    """Sets whether products of float32 on a GPU may round their operands to TF32: with ``"high"`` and ``"medium"``.

    On the CPU, and without cuBLASLt, they always have full precision. Another word is ignored with a warning, as in torch.

    Args:
        precision: ``"highest"``, ``"high"`` or ``"medium"``.

    Raises:
        RuntimeError: the precision is not a string.

    >>> torch.set_float32_matmul_precision("high")
    >>> torch.get_float32_matmul_precision()
    'high'
    >>> torch.set_float32_matmul_precision("highest")
    """
    if not isinstance(precision, str):
        raise RuntimeError(f"set_float32_matmul_precision expects a str, but got {type(precision).__name__}")
    if precision not in ("highest", "high", "medium"):
        warnings.warn(
            f"{precision} is not one of 'highest', 'high', or 'medium'; the current"
            "setFloat32MatmulPrecision call has no effect.",
            stacklevel=2,
        )
        return
    _strict["matmul"] = precision
    _C._cuda_allow_tf32(precision != "highest")


def manual_seed(seed: int) -> _C.Generator:
    """Restarts the default generators of the CPU and of all GPUs from ``seed``, any integer of 64 bits.

    Returns the generator of the CPU.

    Raises:
        ValueError: the seed needs more than 64 bits.

    >>> torch.manual_seed(0).initial_seed()
    0
    """
    generator = _C.default_generator.manual_seed(int(seed))
    _C._cuda_seed_devices(generator.initial_seed())
    return generator


def seed() -> int:
    """Seeds the default generators of the CPU and of all GPUs from the system's randomness and returns the seed.

    >>> torch.seed() != torch.seed()
    True
    """
    number = _C.default_generator.seed()
    _C._cuda_seed_devices(number)
    return number


def init_num_threads() -> None:
    """Sets the number of threads to the default. It has no effect, because the pool keeps its own number in each process.

    >>> torch.init_num_threads()
    """
