"""`torch.optim._multi_tensor`: the optimizers with ``foreach=True``."""

from __future__ import annotations

from functools import partialmethod
from typing import Any

from rushlight import optim

__all__ = ["ASGD", "Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "NAdam", "RAdam", "RMSprop", "Rprop", "SGD"]


def _over_lists(kind: type[optim.Optimizer]) -> Any:
    members = {"__init__": partialmethod(kind.__init__, foreach=True), "__doc__": kind.__doc__}
    return type(kind.__name__, (kind,), members)


ASGD = _over_lists(optim.ASGD)
Adadelta = _over_lists(optim.Adadelta)
Adagrad = _over_lists(optim.Adagrad)
Adam = _over_lists(optim.Adam)
AdamW = _over_lists(optim.AdamW)
Adamax = _over_lists(optim.Adamax)
NAdam = _over_lists(optim.NAdam)
RAdam = _over_lists(optim.RAdam)
RMSprop = _over_lists(optim.RMSprop)
Rprop = _over_lists(optim.Rprop)
SGD = _over_lists(optim.SGD)
