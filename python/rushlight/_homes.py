"""Where classes say that they live.

Pickles name a class by its module, so a class lives where torch has it, also where a file of its own holds its text.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def at_home(module: str, *classes: Any) -> None:
    """Lets classes bear the name of the module that programs import and unpickle them from."""
    for cls in classes:
        cls.__module__ = module
