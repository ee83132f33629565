"""Optimizers and schedules of their learning rates."""

from . import lr_scheduler
from .adam import Adam
from .adamw import AdamW
from .optimizer import Optimizer
from .sgd import SGD

__all__ = ["SGD", "Adam", "AdamW", "Optimizer", "lr_scheduler"]


def __getattr__(name: str) -> object:
    from ..nn._text import missing

    raise missing(f"module 'torch.optim' has no attribute {name!r}", name, lambda: __all__)
