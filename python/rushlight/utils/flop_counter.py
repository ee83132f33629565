"""`torch.utils.flop_counter`: counts of operations, which rushlight does not keep. `torch.profiler` measures times."""

from __future__ import annotations

from rushlight._absent import declare

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

__all__ = [*declare(globals(), "operations are not counted", "register_flop_formula"), "FlopCounterMode"]


class FlopCounterMode:
    """A counter that has counted nothing. Libraries create one and ask it; entering it is refused.

    Args:
        mods, depth, display, custom_mapping: accepted.

    >>> torch.utils.flop_counter.FlopCounterMode(display=False).get_total_flops()
    0
    """

    __absent__ = True

    def __init__(self, mods: Any = None, depth: int = 2, display: bool = True, custom_mapping: Any = None) -> None:
        self.depth, self.display = depth, display

    def get_total_flops(self) -> int:
        return 0

    def get_flop_counts(self) -> dict[str, dict[Any, int]]:
        return {}

    def __enter__(self) -> NoReturn:
        raise NotImplementedError(
            "torch.utils.flop_counter.FlopCounterMode is not available: operations are not counted."
        )

    def __exit__(self, *error: object) -> None:
        """Never called, because the counter cannot be entered."""


if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


def __dir__() -> list[str]:
    return __all__
