"""Jacobians for `gradcheck`: by central differences, by backward passes, and in forward mode.

A Jacobian has a row for each direction of an input and a column for each vector (gradient of an output). With all unit
vectors it is the complete matrix. With one random direction and one random vector it is a single number, which almost
any wrong entry changes. Complex numbers are treated as pairs of real ones, in inputs and in outputs.
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
    """The derivative of an output along an input's real directions, and along imaginary ones if the input is complex."""

    real: Tensor
    imaginary: Tensor | None


class Subject(NamedTuple):
    """A function at a point: the inputs and outputs that are checked, and the directions along which they are compared."""

    function: Callable[..., Any]
    inputs: tuple[Any, ...]
    #: The positions of the inputs that require gradients.
    wanted: list[int]
    #: The positions of the outputs that have gradients.
    chosen: list[int]
    #: The directions for each of these inputs, stacked.
    directions: list[Tensor]
    #: The vectors for each of these outputs, stacked.
    weights: list[Tensor]

    def outputs(self, inputs: Sequence[Any]) -> list[Tensor]:
        found = tupled(self.function(*inputs))
        return [found[place] for place in self.chosen]

    def sources(self) -> list[Tensor]:
        return [self.inputs[place] for place in self.wanted]


def tupled(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def units(like: Tensor) -> Tensor:
    """The unit vectors of a tensor."""
    return basis(like, like.dtype.to_real())


def random_unit(like: Tensor) -> Tensor:
    """A random direction of length one with nonzero elements."""
    drawn = torch.rand(tuple(like.shape), dtype=like.dtype.to_real(), device=like.device)
    return (drawn / drawn.norm().clamp(min=1e-300)).unsqueeze(0)


def numerical(subject: Subject, number: int, eps: float) -> list[Slopes]:
    """The derivatives of every chosen output with respect to the chosen input ``number``, by central differences."""
    place, directions = subject.wanted[number], subject.directions[number]
    source = subject.inputs[place].data  # `data` does not change the version: the value is restored after each step
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
    """The gradient that `backward` should return for a part of an output. torch conjugates it for complex inputs."""
    columns = weights.reshape(len(weights), slopes.real.shape[1]).t()

    def part(slope: Tensor) -> Tensor:
        chosen = (slope.imag if imaginary else slope.real) if slope.is_complex() else slope
        return chosen @ columns.to(chosen.dtype)

    if slopes.imaginary is None:
        return part(slopes.real)
    return torch.complex(part(slopes.real), part(slopes.imaginary))


def backward(subject: Subject, output: Tensor, number: int, imaginary: bool) -> tuple[list[Tensor], bool]:
    """The Jacobians of a part of output ``number`` by backward passes, and whether all have the dtypes of their inputs."""
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
    """The Jacobians of all chosen outputs with respect to input ``number`` in forward mode, and whether those of real
    outputs are real."""
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
    """The chosen outputs and their tangents, for given tangents of the inputs (None for an input without a tangent)."""
    forward_ad = torch.autograd.forward_ad
    with forward_ad.dual_level():
        inputs = list(subject.inputs)
        for place, tangent in zip(subject.wanted, tangents):
            plain = inputs[place].detach()
            inputs[place] = plain if tangent is None else forward_ad.make_dual(plain, tangent)
        unpacked = map(forward_ad.unpack_dual, subject.outputs(inputs))
        return [(one.primal, one.tangent) for one in unpacked]
