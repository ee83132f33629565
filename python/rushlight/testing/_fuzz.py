"""Fuzzing of derivatives: generates cases for a function or module, and shows the simplest case that fails."""

from __future__ import annotations

import copy
import inspect
import re
from typing import NamedTuple

import rushlight as torch
from rushlight import nn

from . import _drawing
from ._fitting import fitting
from ._fuzz_case import Case, Failure, Refused, Settings
from ._fuzz_checks import examine
from ._operands import Operand, draw_operands, operand

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from rushlight import Tensor, dtype

__all__ = ["FuzzError", "Fuzzed", "Subject", "fuzz"]

_REFUSALS = (RuntimeError, ValueError, IndexError, TypeError, NotImplementedError)


class FuzzError(AssertionError):
    """A function or a derivative is wrong.

    ``fuzz(..., seed=seed, tries=1)`` with the attribute `seed` repeats the case, `kind` describes the failure, and
    `code` is a program that shows it with the simplest case. `__cause__` is the exception, if one was raised.

    >>> class Wrong(torch.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return x * 2
    ...     @staticmethod
    ...     def backward(ctx, grad):
    ...         return grad
    >>> def twice(x):
    ...     return Wrong.apply(x)
    >>> try:
    ...     found = torch.testing.fuzz(twice, tries=10)
    ... except torch.testing.FuzzError as error:
    ...     print(error.kind)
    the gradient is not the derivative
    """

    def __init__(self, message: str, kind: str, seed: int, code: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.seed = seed
        self.code = code


class Fuzzed(NamedTuple):
    """The number of cases that passed, and of those that the function rejected or answered with infinities."""

    passed: int
    refused: int


def fuzz(
    function: Any,
    *arguments: Any,
    tries: int = 100,
    seed: int | None = 0,
    second_order: bool = False,
    dtypes: Sequence[dtype] = (torch.float64, torch.float32),
    writes: int | None = None,
    reference: Callable[..., Any] | None = None,
    refusals: tuple[type[Exception], ...] = _REFUSALS,
    max_rank: int = 3,
    max_side: int = 3,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-4,
) -> Fuzzed:
    """Searches for arguments for which a function, its derivative, or a module is wrong.

    Each case has random shapes (without dimensions, without elements, with sizes that broadcast), memory layouts
    (transposed, sliced, reversed, expanded, offset), a dtype and values. It checks that values are the same in every
    layout and close in every dtype, that arguments do not change, that gradients equal finite differences, also for
    gradients in other layouts and of some arguments only, and that changing an argument after the call is detected. The
    first case that fails is simplified; the error shows it as a program.

    Args:
        function: a function, a subclass of `autograd.Function` (or its ``apply``), or a module, whose parameters are
            checked too.
        arguments: the arguments: an `operand` for a tensor to generate; other values are passed unchanged. By default,
            one operand for each argument without a default value. If most shapes are rejected, `fuzz` finds out which
            are accepted.
        tries: the number of cases.
        seed: the seed of the first case; the others use the following numbers. None chooses a random one.
        second_order: whether to check second derivatives.
        dtypes: the dtypes of cases; results are compared with those in double precision.
        writes: the number of the first operands that the function changes in place: by default one if its name ends in
            ``_``.
        reference: a function that returns the correct values.
        refusals: the exceptions with which the function may reject a case; ``()`` if it must accept every case.
        max_rank, max_side: the bounds of shapes.
        eps, atol, rtol: as in `autograd.gradcheck`.

    Raises:
        FuzzError: a case failed.
        ValueError: every case was rejected, or there is nothing to generate.

    >>> torch.testing.fuzz(torch.sin, tries=10)
    Fuzzed(passed=10, refused=0)
    """
    subject = Subject(function, arguments, writes)
    settings = Settings(second_order, tuple(dtypes), reference, refusals, eps, atol, rtol, max_rank, max_side)
    first = _fresh_seed() if seed is None else seed
    state = torch.get_rng_state()
    passed = refused = 0
    reason = None
    try:
        if not arguments and refusals:
            subject.forms = fitting(subject, settings)
        for number in range(tries):
            choices = _drawing.Choices(first + number)
            case = subject.draw(choices, settings)
            try:
                examine(case)
            except Refused as refusal:
                reason = refusal
                refused += 1
            except Failure as failure:
                failure, steps = _simplest(subject, settings, choices.made, failure)
                raise _error(subject, failure, first + number, steps) from failure.__cause__
            else:
                passed += 1
    finally:
        torch.set_rng_state(state)
    if tries and not passed:
        raise ValueError(
            f"{subject.name} rejected all of {tries} cases (the last one: {reason}); give operands with valid shapes and bounds"
        )
    return Fuzzed(passed, refused)


def _fresh_seed() -> int:
    import secrets

    return secrets.randbelow(2**32)


def _simplest(
    subject: Subject,
    settings: Settings,
    made: list[int],
    failure: Failure,
) -> tuple[Failure, int]:
    """The simplest case that fails in the same way."""

    def fails(candidate: list[int]) -> list[int] | None:
        nonlocal failure
        choices = _drawing.Choices(candidate)
        simpler = subject.draw(choices, settings)
        size = len(choices.made), choices.made
        try:
            examine(simpler)
        except Refused:
            return None
        except Failure as found:
            if found.kind != failure.kind or size >= best[0]:
                return None
            failure, best[0] = found, size
            return choices.made
        return None

    best = [(len(made), made)]
    _, steps = _drawing.minimise(made, fails, 400)
    return failure, steps


def _error(subject: Subject, failure: Failure, seed: int, steps: int) -> FuzzError:
    again = f"fuzz({subject.shown}, ..., seed={seed}, tries=1)"
    text = f"{subject.name}: {failure.kind}\n{failure}\n\n{failure.code}\n\nThe simplest case of {steps} that were tried; again with {again}"
    return FuzzError(text, failure.kind, seed, failure.code)


class Subject:
    """The subject of fuzzing: how it is called, its name, and its arguments."""

    def __init__(self, function: Any, arguments: tuple[Any, ...], writes: int | None) -> None:
        function = _function_of(function)
        self.parameters: dict[str, Tensor] = {}
        self.buffers: dict[str, Tensor] = {}
        self.module: nn.Module | None = None
        if isinstance(function, nn.Module):
            self.module = copy.deepcopy(function).double()
            self.name, self.shown = type(function).__name__, "module"
            signature: Any = function.forward
            # The zeros and ones of the initialisation would hide factors.
            for at, (name, value) in enumerate(self.module.named_parameters()):
                shift = torch.tensor(_drawing.numbers(at, value.numel(), 0, 0.1), dtype=torch.float64)
                self.parameters[name] = value.detach() + shift.reshape(value.shape)
            self.buffers = dict(self.module.named_buffers())
        elif isinstance(function, type) and issubclass(function, torch.autograd.Function):
            self.call: Callable[..., Any] = function.apply
            self.name = self.shown = f"{function.__name__}.apply"
            signature = function.forward
        else:
            self.call = signature = function
            self.name = self.shown = getattr(function, "__name__", type(function).__name__)
            if not self.name.isidentifier():
                self.name = self.shown = "function"
        names = _required(signature)
        if self.shown.endswith(".apply") and function.setup_context is torch.autograd.Function.setup_context:
            names = names[1:]  # without `ctx`
        self.arguments = arguments or tuple(operand() for _ in names)
        self.operands = [argument for argument in self.arguments if isinstance(argument, Operand)]
        self.forms = [tuple(self.operands)]  # one of them is chosen for each case
        if not self.operands and not self.parameters:
            raise ValueError(f"{self.name} has no argument to generate; give operands")
        known = len(names) >= len(self.arguments) and not {"input", "self"} & set(names)
        self.names = names[: len(self.arguments)] if known else [f"x{at}" for at in range(len(self.arguments))]
        in_place = self.name.endswith("_") and not self.name.endswith("__")
        self.writes = int(in_place) if writes is None else writes

    def __call__(self, arguments: Sequence[Any], parameters: Sequence[Tensor]) -> Any:
        if self.module is None:
            return self.call(*arguments)
        inexact = [
            one for one in (*parameters, *arguments) if isinstance(one, torch.Tensor) and one.is_floating_point()
        ]
        kind = inexact[0].dtype if inexact else torch.float64
        buffers = {
            name: one.to(kind, copy=True) if one.is_floating_point() else one.clone()
            for name, one in self.buffers.items()
        }
        state = {**dict(zip(self.parameters, parameters)), **buffers}
        return torch.func.functional_call(self.module, state, tuple(arguments))

    def with_operands(self, operands: Sequence[Any], other: Callable[[Any], Any] = lambda one: one) -> list[Any]:
        """The arguments, with replacements for each operand and for all other values."""
        left = iter(operands)
        return [next(left) if isinstance(one, Operand) else other(one) for one in self.arguments]

    def operand_names(self) -> list[str]:
        return [name for name, one in zip(self.names, self.arguments) if isinstance(one, Operand)]

    def draw(self, choose: _drawing.Choices, settings: Settings, form: tuple[Operand, ...] | None = None) -> Case:
        dtype = settings.dtypes[choose(len(settings.dtypes))]
        if form is None:
            form = self.forms[choose(len(self.forms)) if len(self.forms) > 1 else 0]
        drawn = draw_operands(choose, form, dtype, settings.max_rank, settings.max_side, self.writes)
        return Case(self, settings, dtype, *drawn)


def _function_of(function: Any) -> Any:
    """The class of a `Function` if its ``apply`` is given; other values unchanged."""
    owner = getattr(function, "__self__", None)
    is_apply = isinstance(owner, type) and issubclass(owner, torch.autograd.Function) and function == owner.apply
    return owner if is_apply else function


def _required_first(doc: str) -> list[str]:
    """The same from the text of a function with several signatures, which begins with the first."""
    first = re.match(r"\w+\((.*?)\) ->", doc)
    positional = first[1].split("*")[0] if first else ""
    return [one.split()[-1] for one in positional.split(", ") if " " in one and "=" not in one]


def _required(function: Any) -> list[str]:
    """The names of the required positional arguments."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return _required_first(getattr(function, "__doc__", None) or "")
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [one.name for one in parameters if one.kind in positional and one.default is inspect.Parameter.empty]
