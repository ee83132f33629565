"""What programs take from torchrun (`torch.distributed.elastic`)."""

from . import multiprocessing

__all__ = ["multiprocessing"]


def __dir__() -> list[str]:
    return __all__
