"""The base class of distributions: shapes, validation, and methods that follow from `rsample` and `entropy`."""

from __future__ import annotations

import rushlight as torch
from rushlight._text import with_shapes
from rushlight._warnings import warn

from . import constraints
from .utils import lazy_property

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

__all__ = ["Distribution"]


class Distribution:
    """A batch of independent distributions of one class, with events of the same shape.

    The base class of all distributions. A subclass defines ``arg_constraints``, ``support``, ``rsample`` or ``sample``,
    and ``log_prob``.

    Args:
        batch_shape: the shape of the parameters.
        event_shape: the shape of one sample of one distribution.
        validate_args: whether to check parameters and values; the default is set with `set_default_validate_args`.

    Raises:
        ValueError: a parameter violates its constraint.
        NotImplementedError: the distribution does not have this method.

    >>> normal = torch.distributions.MultivariateNormal(torch.zeros(5, 2), torch.eye(2))
    >>> normal.batch_shape, normal.event_shape, normal.sample((3,)).shape
    (torch.Size([5]), torch.Size([2]), torch.Size([3, 5, 2]))
    """

    has_rsample: bool = False
    has_enumerate_support: bool = False
    _validate_args = __debug__

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Sets whether distributions check their arguments by default."""
        if value not in (True, False):
            raise ValueError(f"validate_args must be True or False, not {value!r}")
        Distribution._validate_args = value

    def __init__(
        self, batch_shape: Any = torch.Size(), event_shape: Any = torch.Size(), validate_args: bool | None = None
    ) -> None:
        self._batch_shape, self._event_shape = torch.Size(batch_shape), torch.Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_parameters()
        super().__init__()

    def _check_parameters(self) -> None:
        try:
            known = self.arg_constraints
        except NotImplementedError:
            known = {}
            warn(
                f"{self.__class__} does not define `arg_constraints`. Please set `arg_constraints = {{}}` or initialize "
                "the distribution with `validate_args=False` to turn off validation.",
            )
        for name, constraint in known.items():
            if constraints.is_dependent(constraint):
                continue
            if name not in self.__dict__ and isinstance(getattr(type(self), name), lazy_property):
                continue  # derived from other parameters, which are checked instead
            value = getattr(self, name)
            if not constraint.check(value).all():
                raise ValueError(
                    f"Expected parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) of distribution "
                    f"{self!r} to satisfy the constraint {constraint!r}, but found invalid values:\n{value}"
                )

    def expand(self, batch_shape: Any, _instance: Any = None) -> Self:
        """The same distribution with its parameters expanded to a new batch shape."""
        raise NotImplementedError

    @property
    def batch_shape(self) -> torch.Size:
        """The shape of the parameters."""
        return self._batch_shape

    @property
    def event_shape(self) -> torch.Size:
        """The shape of one sample."""
        return self._event_shape

    @property
    def arg_constraints(self) -> dict[str, constraints.Constraint]:
        """The constraints on the parameters, by name."""
        raise NotImplementedError

    @property
    def support(self) -> Any:
        """The constraint on samples."""
        raise NotImplementedError

    @property
    def mean(self) -> torch.Tensor:
        """The mean."""
        raise NotImplementedError

    @property
    def mode(self) -> torch.Tensor:
        """The mode."""
        raise NotImplementedError(f"{self.__class__} does not implement mode")

    @property
    def variance(self) -> torch.Tensor:
        """The variance."""
        raise NotImplementedError

    @property
    def stddev(self) -> torch.Tensor:
        """The standard deviation."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Any = torch.Size()) -> torch.Tensor:
        """Draws ``sample_shape`` samples from each distribution of the batch."""
        with torch.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Any = torch.Size()) -> torch.Tensor:
        """Draws samples that are differentiable with respect to the parameters."""
        raise NotImplementedError

    def sample_n(self, n: int) -> torch.Tensor:
        """Deprecated form of ``sample((n,))``."""
        warn("`sample_n(n)` will be deprecated. Use `sample((n,))` instead.", FutureWarning)
        return self.sample(torch.Size((n,)))

    def log_prob(self, value: torch.Tensor) -> torch.Tensor:
        """The log density or log probability of a value."""
        raise NotImplementedError

    def cdf(self, value: torch.Tensor) -> torch.Tensor:
        """The cumulative distribution function at a value."""
        raise NotImplementedError

    def icdf(self, value: torch.Tensor) -> torch.Tensor:
        """The inverse of `cdf`."""
        raise NotImplementedError

    def enumerate_support(self, expand: bool = True) -> torch.Tensor:
        """All values in the support of a discrete distribution, along dimension 0."""
        raise NotImplementedError

    def entropy(self) -> torch.Tensor:
        """The entropy."""
        raise NotImplementedError

    def perplexity(self) -> torch.Tensor:
        """The perplexity: the exponential of the entropy."""
        return torch.exp(self.entropy())

    def _extended_shape(self, sample_shape: Any = torch.Size()) -> torch.Size:
        return torch.Size(sample_shape) + self._batch_shape + self._event_shape

    def _validate_sample(self, value: Any) -> None:
        """Raises an error unless a value has a valid shape and is in the support."""
        if not isinstance(value, torch.Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        begin = value.dim() - len(self._event_shape)
        if value.size()[begin:] != self._event_shape:
            raise ValueError(
                f"The right-most size of value must match event_shape: {value.size()} vs {self._event_shape}."
            )
        expected = torch.Size((*self._batch_shape, *self._event_shape))
        for given, wanted in zip(reversed(value.size()), reversed(expected)):
            if given not in (1, wanted) and wanted != 1:
                sentence = f"Value is not broadcastable with batch_shape+event_shape: {value.size()} vs {expected}."
                raise ValueError(with_shapes(sentence, type(self).__name__, value.shape, expected))
        try:
            support = self.support
        except NotImplementedError:
            warn(
                f"{self.__class__} does not define `support` to enable sample validation. "
                "Please initialize the distribution with `validate_args=False` to turn off validation.",
            )
            return
        if not support.check(value).all():
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) to be within the support "
                f"({support!r}) of the distribution {self!r}, but found invalid values:\n{value}"
            )

    def _get_checked_instance(self, cls, _instance=None):
        if _instance is None and type(self).__init__ != cls.__init__:
            raise NotImplementedError(
                f"Subclass {self.__class__.__name__} of {cls.__name__} that defines a custom __init__ method "
                "must also define a custom .expand() method."
            )
        return self.__new__(type(self)) if _instance is None else _instance

    def _expand_into(self, cls, instance, batch_shape, event_shape=torch.Size(), **parameters):
        """Implements `expand`: a new instance (or ``instance``) with these parameters, which are already expanded."""
        new = self._get_checked_instance(cls, instance)
        for name, value in parameters.items():
            setattr(new, name, value)
        Distribution.__init__(new, batch_shape, event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def _expand_each(self, cls, instance, batch_shape, *names):
        """`_expand_into` for distributions with only these parameters, each with the batch shape."""
        batch_shape = torch.Size(batch_shape)
        parameters = {name: getattr(self, name).expand(batch_shape) for name in names}
        return self._expand_into(cls, instance, batch_shape, **parameters)

    def __repr__(self) -> str:
        names = [name for name in self.arg_constraints if name in self.__dict__]
        values = {name: self.__dict__[name] for name in names}
        shown = [f"{name}: {value if value.numel() == 1 else value.size()}" for name, value in values.items()]
        return f"{self.__class__.__name__}({', '.join(shown)})"
