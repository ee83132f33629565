"""Jacobians for `gradcheck`: by central differences, by walks backward, and forward.

A Jacobian is a matrix with a row for each direction of an input and a column for each weighing of an output's elements. All
directions and weighings make the whole matrix; a random one of each, one number that a wrong entry hardly leaves as it is.
Complex numbers are pairs of real ones: an input is moved along both parts, and of an output each part is differentiated.
"""

from __future__ import annotations

from typing import NamedTuple

import rushlight as torch

from ._tangents import basis

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from rushlight import Tensor


class Slopes(NamedTuple):
    """How an output changes as an input moves: along real steps, and along imaginary ones if the input has them."""

    real: Tensor
    imaginary: Tensor | None


class Subject(NamedTuple):
    """A function at a point: what of its inputs and outputs has derivatives, and along what they are compared."""

    function: Callable[..., Any]
    inputs: tuple[Any, ...]
    #: Which of the inputs want gradients.
    wanted: list[int]
    #: Which of the outputs have them.
    chosen: list[int]
    #: For each wanted input its directions, one behind the other.
    directions: list[Tensor]
    #: For each chosen output the weighings of its elements.
    weights: list[Tensor]

    def outputs(self, inputs: Sequence[Any]) -> list[Tensor]:
        found = tupled(self.function(*inputs))
        return [found[place] for place in self.chosen]

    def sources(self) -> list[Tensor]:
        return [self.inputs[place] for place in self.wanted]


def tupled(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def units(like: Tensor) -> Tensor:
    """For each element of a tensor the real direction that moves it alone."""
    return basis(like, like.dtype.to_real())


def random_unit(like: Tensor) -> Tensor:
    """One direction of length one in which every element moves."""
    drawn = torch.rand(tuple(like.shape), dtype=like.dtype.to_real(), device=like.device)
    return (drawn / drawn.norm().clamp(min=1e-300)).unsqueeze(0)


def numerical(subject: Subject, number: int, eps: float) -> list[Slopes]:
    """The slopes of every chosen output as the wanted input ``number`` moves, by differences."""
    place, directions = subject.wanted[number], subject.directions[number]
    source = subject.inputs[place].data  # It counts no version: what the graph saved is the same again after each step.
    before = source.clone()

    def along(turn: complex) -> list[Tensor]:
        rows = []
        for direction in directions:
            step = direction * (turn * eps)
            source.copy_(before + step)
            above = [out.detach().clone() for out in subject.outputs(subject.inputs)]
            source.copy_(before - step)
            below = [out.detach().clone() for out in subject.outputs(subject.inputs)]
            for a, b in zip(above, below):
                _check_alike("shape", a.shape, b.shape, eps)
                _check_alike("dtype", a.dtype, b.dtype, eps)
            rows.append([((a - b) / (2 * eps)).flatten() for a, b in zip(above, below)])
        if not rows:
            return [out.detach().flatten().unsqueeze(0)[:0] for out in subject.outputs(subject.inputs)]
        return [torch.stack(column) for column in zip(*rows)]

    try:
        real = along(1)
        imaginary = along(1j) if source.is_complex() else [None] * len(real)
    finally:
        source.copy_(before)
    return [Slopes(*pair) for pair in zip(real, imaginary)]


def _check_alike(what: str, first: Any, second: Any, eps: float) -> None:
    if first != second:
        raise AssertionError(
            f"Expected `func` to return outputs with the same {what} when inputs are perturbed by {eps}, but got: "
            f"{what}s {first} and {second}."
        )


def expected_backward(slopes: Slopes, weights: Tensor, imaginary: bool) -> Tensor:
    """What `backward` has to find for a part of an output: for complex inputs torch's convention is the conjugate."""
    columns = weights.reshape(len(weights), slopes.real.shape[1]).t()

    def part(slope: Tensor) -> Tensor:
        chosen = (slope.imag if imaginary else slope.real) if slope.is_complex() else slope
        return chosen @ columns.to(chosen.dtype)

    if slopes.imaginary is None:
        return part(slopes.real)
    return torch.complex(part(slopes.real), part(slopes.imaginary))


def backward(subject: Subject, output: Tensor, number: int, imaginary: bool) -> tuple[list[Tensor], bool]:
    """The Jacobians of a part of the chosen output ``number`` by walks backward, and whether all have their input's dtype."""
    sources = subject.sources()
    columns: list[list[Tensor]] = [[] for _ in sources]
    same_dtypes = True
    for weight in subject.weights[number]:
        start = (weight * 1j if imaginary else weight).to(output.dtype)
        found = torch.autograd.grad(output, sources, start, retain_graph=True, allow_unused=True)
        for column, source, directions, grad in zip(columns, sources, subject.directions, found):
            if grad is None:
                grad = torch.zeros_like(source.detach())
            same_dtypes &= grad.dtype == source.dtype
            rows = directions.reshape(len(directions), grad.numel()).to(grad.dtype)
            column.append(rows @ grad.detach().flatten())
    empty = [torch.zeros(len(directions), 0, dtype=s.dtype) for s, directions in zip(sources, subject.directions)]
    return [torch.stack(column, 1) if column else none for column, none in zip(columns, empty)], same_dtypes


def forward(subject: Subject, number: int, turn: complex) -> tuple[list[Tensor], bool]:
    """The Jacobians of all chosen outputs by forward mode as the wanted input ``number`` moves, and whether those of
    real outputs are real."""
    rows: list[list[Tensor]] = [[] for _ in subject.chosen]
    same_kinds = True
    shapes = [(out.numel(), out.dtype) for out in subject.outputs(subject.inputs)]
    for direction in subject.directions[number]:
        tangents: list[Tensor | None] = [torch.zeros_like(source.detach()) for source in subject.sources()]
        tangents[number] = (direction * turn).to(subject.sources()[number].dtype)
        for row, (value, tangent) in zip(rows, along(subject, tangents)):
            if tangent is not None:
                same_kinds &= tangent.is_complex() == value.is_complex()
            row.append((torch.zeros_like(value) if tangent is None else tangent).detach().flatten())
    none = [torch.zeros(0, count, dtype=dtype) for count, dtype in shapes]
    return [torch.stack(row) if row else empty for row, empty in zip(rows, none)], same_kinds


def along(subject: Subject, tangents: Sequence[Tensor | None]) -> list[tuple[Tensor, Tensor | None]]:
    """The chosen outputs and their tangents, where the wanted inputs have these; None for an input that is not dual."""
    forward_ad = torch.autograd.forward_ad
    with forward_ad.dual_level():
        inputs = list(subject.inputs)
        for place, tangent in zip(subject.wanted, tangents):
            plain = inputs[place].detach()
            inputs[place] = plain if tangent is None else forward_ad.make_dual(plain, tangent)
        unpacked = map(forward_ad.unpack_dual, subject.outputs(inputs))
        return [(one.primal, one.tangent) for one in unpacked]
