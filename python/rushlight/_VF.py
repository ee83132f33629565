"""`torch._VF`: torch's compiled functions, under the name by which recurrent layers of programs call them (``_VF.lstm``)."""

from __future__ import annotations

from rushlight import _functions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def __getattr__(name: str) -> Any:
    # The functions of Python's protocols are not asked of torch.
    if name.startswith("__") or not hasattr(_functions, name):
        raise AttributeError(f"module 'torch._VF' has no attribute '{name}'")
    return getattr(_functions, name)
