"""Optimizers and schedules of their learning rates."""

from . import lr_scheduler, swa_utils
from ._adafactor import Adafactor
from ._muon import Muon
from .adadelta import Adadelta
from .adagrad import Adagrad
from .adam import Adam
from .adamax import Adamax
from .adamw import AdamW
from .asgd import ASGD
from .lbfgs import LBFGS
from .nadam import NAdam
from .optimizer import Optimizer
from .radam import RAdam
from .rmsprop import RMSprop
from .rprop import Rprop
from .sgd import SGD

__all__ = [
    "ASGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "LBFGS",
    "Muon",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "SGD",
    "lr_scheduler",
    "swa_utils",
]

# A module is not the class of nearly its name: `optim.adam(...)` says that there is no such thing. Importing them works.
for _module in "adadelta adagrad adam adamax adamw asgd lbfgs nadam optimizer radam rmsprop rprop sgd".split():
    del globals()[_module]
del _module


def __getattr__(name: str) -> object:
    from ..nn._text import missing

    raise missing(f"module 'torch.optim' has no attribute {name!r}", name, lambda: __all__)
