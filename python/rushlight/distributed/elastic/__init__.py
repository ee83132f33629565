"""What programs take from torchrun (`torch.distributed.elastic`)."""

from rushlight._loading import load as _load
from rushlight._missing_names import missing_from

__all__ = ["agent", "events", "metrics", "multiprocessing", "rendezvous", "timer"]


def __getattr__(name):
    # Not at once, because most programs need one of them alone.
    if name in __all__:
        return _load(f"{__name__}.{name}")
    raise missing_from("torch.distributed.elastic", name, __dir__)


def __dir__() -> list[str]:
    return __all__
