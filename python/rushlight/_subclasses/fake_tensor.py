"""Names of `torch._subclasses.fake_tensor` by which libraries recognise a compiler's tensors. There are none."""

from __future__ import annotations

from contextlib import contextmanager

from rushlight._unsupported import declare

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import Any

__all__ = [
    "unset_fake_temporarily",
    *declare(
        globals(),
        "programs run eagerly; the device meta has tensors without data",
        """
        is_fake(x) = False
        class FakeTensor FakeTensorMode
        """,
    ),
]


@contextmanager
def unset_fake_temporarily() -> Generator[None]:
    """A block without the mode that makes fake tensors. It gives None, the mode that was active.

    >>> with torch._subclasses.fake_tensor.unset_fake_temporarily() as mode:
    ...     print(mode)
    None
    """
    yield None


if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


def __dir__() -> list[str]:
    return __all__
