"""`torch.cuda`: whether there are cards, and what programs ask of them when there are none.

The driver is looked for when somebody asks; without one nothing here fails that works on a machine without a card in
torch too.
"""

from __future__ import annotations

from rushlight import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "AcceleratorError",
    "OutOfMemoryError",
    "amp",
    "current_device",
    "device_count",
    "empty_cache",
    "get_device_name",
    "get_device_properties",
    "init",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "memory_allocated",
    "memory_reserved",
    "reset_peak_memory_stats",
    "set_device",
    "synchronize",
]


def device_count() -> int:
    """The number of cards that the driver shows.

    >>> torch.cuda.device_count() >= 0
    True
    """
    return _C._cuda_device_count()


def is_available() -> bool:
    """Whether tensors can live on a card: not yet, whatever the driver shows.

    >>> torch.cuda.is_available()
    False
    """
    return False


def is_initialized() -> bool:
    """Whether a card is in use.

    >>> torch.cuda.is_initialized()
    False
    """
    return False


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether a card computes in bfloat16.

    >>> torch.cuda.is_bf16_supported()
    False
    """
    return False


def init() -> None:
    """Starts the driver."""
    _C._refuse_cuda()


def manual_seed(seed: int) -> None:
    """Seeds the current card's generator; without a card there is nothing to seed.

    >>> torch.cuda.manual_seed(0)
    """


def manual_seed_all(seed: int) -> None:
    """Seeds every card's generator; without a card there is nothing to seed.

    >>> torch.cuda.manual_seed_all(0)
    """


def empty_cache() -> None:
    """Gives cached memory back; without a card there is none.

    >>> torch.cuda.empty_cache()
    """


def synchronize(device: Any = None) -> None:
    """Waits for a card."""
    _C._refuse_cuda()


def current_device() -> int:
    """The number of the card in use."""
    _C._refuse_cuda()


def set_device(device: Any) -> None:
    """Chooses the card in use."""
    _C._refuse_cuda()


def get_device_name(device: Any = None) -> str:
    """The card's name."""
    _C._refuse_cuda()


def get_device_properties(device: Any = None) -> Any:
    """What the card can do."""
    _C._refuse_cuda()


def memory_allocated(device: Any = None) -> int:
    """Bytes in use on a card.

    >>> torch.cuda.memory_allocated()
    0
    """
    return 0


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes that were in use on a card.

    >>> torch.cuda.max_memory_allocated()
    0
    """
    return 0


def memory_reserved(device: Any = None) -> int:
    """Bytes taken from a card.

    >>> torch.cuda.memory_reserved()
    0
    """
    return 0


def reset_peak_memory_stats(device: Any = None) -> None:
    """Starts counting the most bytes anew.

    >>> torch.cuda.reset_peak_memory_stats()
    """


def __getattr__(name: str) -> Any:
    if name == "amp":
        from rushlight._loading import load

        return load("rushlight.cuda.amp")
    if name in ("AcceleratorError", "OutOfMemoryError"):
        from rushlight import _errors

        return getattr(_errors, name)
    from rushlight._legacy import TYPES, cuda_type

    if name in TYPES:
        globals()[name] = made = cuda_type(name)
        return made
    from rushlight._names import missing_from

    raise missing_from("torch.cuda", name, lambda: __all__)


def __dir__() -> list[str]:
    return __all__
