"""Warnings for programs older than broadcasting: where their results would be others today.

>>> torch.utils.backcompat.broadcast_warning.enabled
False
"""

from rushlight import _C

__all__ = ["broadcast_warning", "keepdim_warning"]


class _Warning:
    """A warning that is off until its ``enabled`` is set."""

    _enabled = False

    @property
    def enabled(self) -> bool:
        return self._enabled

    @enabled.setter
    def enabled(self, value: bool) -> None:
        self._enabled = bool(value)
        _C._set_backcompat_warnings(broadcast_warning.enabled, keepdim_warning.enabled)


# Tensors of different shapes and as many elements meet by broadcasting; once, they met element by element.
broadcast_warning = _Warning()
# A dimension is reduced and `keepdim` is not given; once, the dimension was kept.
keepdim_warning = _Warning()
