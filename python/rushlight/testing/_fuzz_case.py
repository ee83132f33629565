"""One case of fuzzing: the function with generated arguments, its results, and a program that reproduces it."""

from __future__ import annotations

import math
import random
from typing import NamedTuple

import rushlight as torch
from rushlight.autograd._tangents import differentiable
from rushlight.utils._tensors import tensors_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from rushlight import Tensor, dtype

    from ._drawing import Layout
    from ._fuzz import Subject

#: For tensors with more elements, derivatives are checked only along some random directions.
MANY = 64
DIRECTIONS = 4


class Settings(NamedTuple):
    second_order: bool
    dtypes: tuple[dtype, ...]
    reference: Callable[..., Any] | None
    refusals: tuple[type[Exception], ...]
    eps: float
    atol: float
    rtol: float
    max_rank: int
    max_side: int


class Refused(Exception):
    """The function raised an error for these arguments, or returned infinities."""


class Failure(Exception):
    """A check failed: `kind` describes it, and `code` are lines of code that show it."""

    def __init__(self, kind: str, text: str, code: str) -> None:
        super().__init__(text)
        self.kind = kind
        self.code = code


class Case:
    """Generated arguments: the memory of each operand (in double precision, unless its dtype is exact) and its layout."""

    def __init__(
        self,
        subject: Subject,
        settings: Settings,
        dtype: dtype,
        layouts: list[Layout],
        memories: list[Tensor],
        seed: int,
    ) -> None:
        self.subject = subject
        self.settings = settings
        self.dtype = dtype
        self.layouts = layouts
        self.memories = memories
        self.seed = seed
        self.values: list[Tensor] = []  # the results, after the first call

    def leaves(self, kind: dtype = torch.float64) -> tuple[list[Tensor], list[Tensor]]:
        """New copies of the operands' memories and of the parameters, in a dtype."""
        memories = [cast(m, kind).requires_grad_(m.requires_grad) for m in self.memories]
        return memories, [cast(p, kind).requires_grad_() for p in self.subject.parameters.values()]

    def results(
        self,
        memories: Sequence[Tensor],
        parameters: Sequence[Tensor],
        *,
        contiguous: bool = False,
        function: Callable[..., Any] | None = None,
    ) -> list[Tensor]:
        """The tensors that the function returns or changes."""
        writes = self.subject.writes
        memories = [memory.clone() if at < writes else memory for at, memory in enumerate(memories)]
        views = [layout.view(memory) for layout, memory in zip(self.layouts, memories)]
        views = [view.contiguous() if contiguous and at >= writes else view for at, view in enumerate(views)]
        torch.manual_seed(self.seed)
        arguments = self.subject.with_operands(views)
        found = function(*arguments) if function else self.subject(arguments, parameters)
        return [*tensors_in(found), *memories[:writes]]

    def outputs(self, memories: Sequence[Tensor], parameters: Sequence[Tensor]) -> list[Tensor]:
        """The results that may have gradients."""
        return [_few(one) for one in self.results(memories, parameters) if differentiable(one)]

    def program(self, lines: str, kind: dtype = torch.float64) -> str:
        """A program that creates the operands, followed by the given lines."""
        made = ["import rushlight as torch", "from rushlight.testing import assert_close", ""]
        if self.subject.module is not None:
            made.append(f"module = module.to({kind})")
        for name, memory in zip(self.subject.operand_names(), self.memories):
            values = cast(memory, kind)
            numbers = f"tensor({values.tolist()}" if values.numel() else f"zeros({tuple(values.shape)}"
            grad = ", requires_grad=True" if memory.requires_grad else ""
            made.append(f"{name} = torch.{numbers}, dtype={values.dtype}{grad})")
        return "\n".join([*made, lines])

    def call(self, suffix: str = "") -> str:
        """The code of the call, with a suffix for each operand."""
        return f"{self.subject.shown}({self._arguments(suffix, '.clone()')})"

    def _arguments(self, suffix: str = "", written: str = "") -> str:
        views = [
            name + (written if at < self.subject.writes else "") + str(layout) + suffix
            for at, (name, layout) in enumerate(zip(self.subject.operand_names(), self.layouts))
        ]
        return ", ".join(self.subject.with_operands(views, repr))

    def definitions(self) -> str:
        """Code that defines `call`, a function of all differentiable tensors, and `leaves`, these tensors."""
        names = [name for name, memory in zip(self.subject.operand_names(), self.memories) if memory.requires_grad]
        lines, call = [], f"{self.subject.shown}({self._arguments()})"
        if self.subject.parameters:
            names.append("*parameters")
            lines.append("names, parameters = zip(*module.named_parameters())")
            call = f"torch.func.functional_call(module, dict(zip(names, parameters)), ({self._arguments()},))"
        lines.append(f"def call({', '.join(names)}):")
        written = self.subject.operand_names()[: self.subject.writes]
        lines += [f"    {name} = {name}.clone()" for name in written]
        return "\n".join([*lines, f"    return {', '.join([call, *written])}", f"leaves = {tuple_of(names)}", ""])


def called(case: Case) -> list[Tensor]:
    """The result of the function. Raises Refused for arguments that it does not accept."""
    try:
        with torch.no_grad():
            values = case.results(*case.leaves(), contiguous=True)
    except case.settings.refusals as error:
        raise Refused(f"{type(error).__name__}: {error}") from error
    except Exception as error:
        raise raised("the call", error, case.program(case.call())) from error
    if any(differentiable(one) and not bool(one.isfinite().all()) for one in values):
        raise Refused("the result is not finite")
    return values


def raised(what: str, error: Exception, code: str) -> Failure:
    return Failure(f"{what} raises {type(error).__name__}", str(error), code)


def cast(tensor: Tensor, kind: dtype) -> Tensor:
    """A copy with the same precision as `kind`. Exact dtypes do not change."""
    if not differentiable(tensor):
        return tensor.detach().clone()
    if tensor.is_complex():
        kind = kind if kind.is_complex else kind.to_complex()
    elif kind.is_complex:
        kind = kind.to_real()
    return tensor.detach().to(kind, copy=True)


def random_tensor(seed: int, shape: tuple[int, ...], kind: dtype = torch.float64) -> Tensor:
    draw = random.Random(seed)
    parts = 2 if kind.is_complex else 1
    values = torch.tensor([draw.uniform(-1, 1) for _ in range(math.prod(shape) * parts)], dtype=torch.float64)
    return (torch.view_as_complex(values.reshape(*shape, 2)) if kind.is_complex else values.reshape(shape)).to(kind)


def _few(output: Tensor) -> Tensor:
    """The output, or random weighted sums of it if it is large."""
    if output.numel() <= MANY:
        return output
    return random_tensor(output.numel(), (DIRECTIONS, output.numel()), output.dtype) @ output.reshape(-1)


def tuple_of(names: Sequence[str]) -> str:
    return f"({', '.join(names)}{',' if len(names) == 1 else ''})"
