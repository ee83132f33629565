"""torch's module of `infer_schema`, from which libraries import it."""

from .schema import infer_schema

__all__ = ["infer_schema"]


def __dir__() -> list[str]:
    return __all__
