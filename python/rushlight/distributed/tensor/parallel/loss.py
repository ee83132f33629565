"""The loss of logits whose classes are on several ranks."""

from rushlight.distributed.tensor._loss import loss_parallel

__all__ = ["loss_parallel"]


def __dir__() -> list[str]:
    return __all__
