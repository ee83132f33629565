"""Anomaly detection: finds the operator whose gradient is NaN."""

from __future__ import annotations

from rushlight import _C
from rushlight._compiled import compiled
from rushlight._set_module import set_module
from rushlight._warnings import warn

__all__ = ["detect_anomaly", "set_detect_anomaly"]


@compiled(overridable=False)
def set_anomaly_enabled(enabled: bool, check_nan: bool = True) -> None:
    """`torch.autograd.set_detect_anomaly`, as a function.

    >>> torch.set_anomaly_enabled(False)
    """
    _C._set_anomaly_enabled(enabled, check_nan)


set_module("rushlight", set_anomaly_enabled)


class set_detect_anomaly:
    """Enables or disables anomaly detection, immediately or for a ``with`` block.

    >>> with torch.autograd.set_detect_anomaly(True):
    ...     torch.is_anomaly_enabled()
    True
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self._before = (_C.is_anomaly_enabled(), _C.is_anomaly_check_nan_enabled())
        set_anomaly_enabled(mode, check_nan)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        _C._set_anomaly_enabled(*self._before)


class detect_anomaly(set_detect_anomaly):
    """Raises an error in backward if a gradient becomes NaN, and shows the line of the forward pass. A warning with
    each error in backward shows the stack of that line.

    Args:
        check_nan: False only records the lines.

    Raises:
        RuntimeError: in backward, the gradient of an operator is NaN.

    >>> x = torch.tensor(-1.0, requires_grad=True)
    >>> with torch.autograd.detect_anomaly():
    ...     y = torch.sqrt(x)
    ...     try:
    ...         y.backward()
    ...     except RuntimeError as error:
    ...         print(str(error).splitlines()[0])
    Function 'SqrtBackward0' returned nan values in its 0th output.
    """

    def __init__(self, check_nan: bool = True) -> None:

        self._before = (_C.is_anomaly_enabled(), _C.is_anomaly_check_nan_enabled())
        self._check_nan = check_nan
        warn(
            "Anomaly Detection has been enabled. This mode will increase the runtime and should only be enabled for "
            "debugging.",
        )

    def __enter__(self) -> None:
        set_anomaly_enabled(True, self._check_nan)


def __dir__() -> list[str]:
    return __all__
