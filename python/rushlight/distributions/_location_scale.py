"""The base of distributions that are a shifted and scaled standard distribution."""

from __future__ import annotations

from typing import Any, ClassVar

from rushlight import Tensor
from rushlight._constructors import name_constructor

from . import constraints
from .distribution import Distribution
from .utils import broadcast_all


class _LocationScale(Distribution):
    """``loc + scale * x``, where the distribution of x is symmetric around zero and has its peak there."""

    arg_constraints: ClassVar[Any] = {"loc": constraints.real, "scale": constraints.positive}
    support: ClassVar[Any] = constraints.real
    has_rsample = True

    loc: Tensor
    scale: Tensor

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        name_constructor(cls)

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.size(), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """``loc``."""
        return self.loc

    @property
    def mode(self) -> Tensor:
        """``loc``."""
        return self.loc
