"""`torch.jit.annotations`: types for annotations, which programs import from here."""

from typing import Any, Dict, List, Optional, Tuple, Union  # noqa: UP035 # the names that torch has

__all__ = ["Any", "Dict", "List", "Optional", "Tuple", "Union"]


def __dir__() -> list[str]:
    return __all__
