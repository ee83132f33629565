"""Settings of cuSPARSELt, which is not used."""

from __future__ import annotations

__all__ = ["get_max_alg_id", "is_available", "version"]


def is_available() -> bool:
    """Whether cuSPARSELt is available: always False.

    >>> torch.backends.cusparselt.is_available()
    False
    """
    return False


def version() -> int | None:
    """The version of cuSPARSELt: None without it.

    >>> torch.backends.cusparselt.version() is None
    True
    """
    return None


def get_max_alg_id() -> int | None:
    """The number of algorithms of cuSPARSELt: None without it.

    >>> torch.backends.cusparselt.get_max_alg_id() is None
    True
    """
    return None


def __dir__() -> list[str]:
    return __all__
