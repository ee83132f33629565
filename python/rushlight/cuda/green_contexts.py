"""`torch.cuda.green_contexts`: parts of a GPU's multiprocessors as contexts of their own, which are not supported."""

from __future__ import annotations

from typing import NoReturn

from rushlight._set_module import set_module

__all__ = ["GreenContext"]

SUPPORTED = False


def _refuse() -> NoReturn:
    raise RuntimeError(
        "PyTorch was not built with Green Context support!\n"
        "  Streams of another priority share a GPU: torch.cuda.Stream(priority=-1)."
    )


class GreenContext:
    """A part of a GPU, which `create` makes. There is no support for them, so that all of it is refused.

    Raises:
        TypeError: the class is called.
    """

    def __init__(self, *args: object, **kwargs: object) -> None:
        raise TypeError(
            "GreenContext: No constructor defined!\n"
            "  Streams of another priority share a GPU: torch.cuda.Stream(priority=-1)."
        )

    @staticmethod
    def create(
        *,
        num_sms: int | None = None,
        workqueue_scope: str | None = None,
        workqueue_concurrency_limit: int | None = None,
        device_id: int | None = None,
    ) -> NoReturn:
        """Is refused.

        Raises:
            RuntimeError: always.
        """
        _refuse()

    @staticmethod
    def max_workqueue_concurrency(device_id: int | None = None) -> NoReturn:
        """Is refused; see `create`."""
        _refuse()

    def set_context(self) -> NoReturn:
        """Is refused; see `create`."""
        _refuse()

    def pop_context(self) -> NoReturn:
        """Is refused; see `create`."""
        _refuse()

    def Stream(self) -> NoReturn:
        """Is refused; see `create`."""
        _refuse()


set_module("rushlight.cuda.green_contexts", GreenContext)


def __dir__() -> list[str]:
    return __all__
