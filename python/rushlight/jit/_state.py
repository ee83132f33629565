"""The state of TorchScript, which never compiles here. Libraries ask whether it is enabled."""

from typing import Any


class EnabledProxy:
    """`enabled` says whether TorchScript compiles: never."""

    enabled = False

    def __bool__(self) -> bool:
        return self.enabled


_enabled = EnabledProxy()
_script_classes: dict[type, Any] = {}
