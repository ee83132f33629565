"""Averages of models, for training that averages no gradients."""

from . import averagers, utils

__all__ = ["averagers", "utils"]


def __dir__() -> list[str]:
    return __all__
