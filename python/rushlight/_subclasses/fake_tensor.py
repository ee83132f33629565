"""Names of `torch._subclasses.fake_tensor` by which libraries recognise a compiler's tensors. There are none."""

from __future__ import annotations

from rushlight._absent import declare

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    *declare(
        globals(),
        "programs run eagerly; the device meta has tensors without data",
        """
        is_fake(x) = False
        class FakeTensor FakeTensorMode
        """,
    ),
]

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


def __dir__() -> list[str]:
    return __all__
