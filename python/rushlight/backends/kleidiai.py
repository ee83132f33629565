"""Settings of Arm's KleidiAI, which is not used."""

from __future__ import annotations

__all__ = ["is_available"]


def is_available() -> bool:
    """Whether KleidiAI is available: always False.

    >>> torch.backends.kleidiai.is_available()
    False
    """
    return False


def __dir__() -> list[str]:
    return __all__
