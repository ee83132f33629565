"""The former place of `torch.distributed.fsdp.fully_shard`."""

from rushlight.distributed.fsdp._fully_shard import *  # noqa: F403
from rushlight.distributed.fsdp._fully_shard import __all__ as __all__


def __dir__() -> list[str]:
    return __all__
