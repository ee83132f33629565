"""`torch.quasirandom`: Sobol' sequences, whose points fill a cube more evenly than random points do.

The sequence has a bit matrix for each dimension (the direction numbers). The point with number i is the exclusive or of
those columns that the Gray code of i selects. Scrambling multiplies the matrices by random triangular ones and adds a
random shift, which keeps the points evenly distributed.

`directions.bin` has the polynomials and the first numbers of each dimension: the table "new-joe-kuo-6.21201" of S. Joe
and F. Y. Kuo, "Constructing Sobol sequences with better two-dimensional projections", SIAM J. Sci. Comput. 30 (2008).
"""

from __future__ import annotations

from pathlib import Path

import rushlight as torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self

    from rushlight import Tensor

__all__ = ["SobolEngine"]

_BITS = 30
#: How many dimensions there are with a polynomial of degree 1, 2, ..., after the first dimension.
_PER_DEGREE = (1, 1, 2, 2, 6, 6, 18, 16, 48, 60, 176, 144, 630, 756, 1800, 2048, 7710, 7776)


def _columns(dimension: int) -> Tensor:
    """The direction numbers: a row for each dimension, a column for each bit, the highest bit first."""
    data = (Path(__file__).parent / "directions.bin").read_bytes()
    columns = [torch.ones(1, _BITS, dtype=torch.int64)]  # the first dimension: numbers to the base of two
    at, left = 0, dimension - 1
    for degree, count in enumerate(_PER_DEGREE, 1):
        used = min(count, left)
        if used == 0:
            break
        # Each dimension has the inner coefficients of the polynomial, and its first numbers without the lowest bit.
        width = (degree - 1 + degree * (degree - 1) // 2 + 7) // 8
        records = [int.from_bytes(data[at + i * width : at + (i + 1) * width], "little") for i in range(used)]
        polynomials = torch.tensor([record & (1 << degree - 1) - 1 for record in records])
        numbers = []
        offset = degree - 1
        for bit in range(degree):
            numbers.append(torch.tensor([2 * (record >> offset & (1 << bit) - 1) + 1 for record in records]))
            offset += bit
        for bit in range(degree, _BITS):
            number = numbers[bit - degree] ^ (numbers[bit - degree] << degree)
            for k in range(1, degree):
                number = number ^ (numbers[bit - k] << k) * (polynomials >> (degree - 1 - k) & 1)
            numbers.append(number)
        columns.append(torch.stack(numbers, 1))
        at, left = at + count * width, left - used
    return torch.cat(columns) << torch.arange(_BITS - 1, -1, -1)


def _scrambled(columns: Tensor, rows: Tensor) -> Tensor:
    """The product of the bit matrices with triangular ones (dimension, bit, bit), modulo two."""
    weights = 1 << torch.arange(_BITS - 1, -1, -1)
    masks = (rows.tril(-1) + torch.eye(_BITS, dtype=torch.int64)).mul_(weights).sum(-1)
    product = torch.zeros_like(columns)
    for bit in range(_BITS):
        odd = masks[:, bit, None] & columns
        for step in (16, 8, 4, 2, 1):
            odd = odd ^ (odd >> step)
        product |= (odd & 1) << (_BITS - 1 - bit)
    return product


def _gray(number: int) -> int:
    return number ^ (number >> 1)


class SobolEngine:
    """Draws the points of a Sobol' sequence in the unit cube.

    Args:
        dimension: the number of coordinates of a point, from 1 to 21201.
        scramble: whether to scramble the sequence. Scrambled points are random, and still evenly distributed.
        seed: the seed for scrambling; by default, random numbers come from the default generator.

    Raises:
        ValueError: the dimension is out of range.

    >>> torch.quasirandom.SobolEngine(2).draw(4)
    tensor([[0.0000, 0.0000],
            [0.5000, 0.5000],
            [0.7500, 0.2500],
            [0.2500, 0.7500]])
    """

    MAXBIT = _BITS
    MAXDIM = 21201

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if not 1 <= dimension <= self.MAXDIM:
            raise ValueError(f"Supported range of dimensionality for SobolEngine is [1, {self.MAXDIM}]")
        self.seed = seed
        self.scramble = scramble
        self.dimension = dimension
        self.sobolstate = _columns(dimension)
        self.shift = torch.zeros(dimension, dtype=torch.int64)
        if scramble:
            self._scramble()
        self.quasi = self.shift.clone()
        self._first_point = (self.quasi / 2**_BITS).reshape(1, -1)
        self.num_generated = 0

    def _scramble(self) -> None:
        generator = None if self.seed is None else torch.Generator().manual_seed(self.seed)
        bits = torch.randint(2, (self.dimension, _BITS), generator=generator)
        self.shift = (bits << torch.arange(_BITS)).sum(1)
        rows = torch.randint(2, (self.dimension, _BITS, _BITS), generator=generator)
        self.sobolstate = _scrambled(self.sobolstate, rows)

    def draw(self, n: int = 1, out: Tensor | None = None, dtype: torch.dtype | None = None) -> Tensor:
        """The next ``n`` points, as a tensor of shape (n, dimension).

        Args:
            n: the number of points.
            out: a tensor that gets the points.
            dtype: float32 or float64; by default, the default dtype.

        Raises:
            RuntimeError: the number of points is negative, or zero at the beginning.
            NotImplementedError: there is no such sequence of this dtype.
        """
        dtype = torch.get_default_dtype() if dtype is None else dtype
        if self.num_generated == 0:
            first = self._first_point.to(dtype)
            points = first if n == 1 else torch.cat([first, self._advance(n - 1, 0, dtype)])
        else:
            points = self._advance(n, self.num_generated - 1, dtype)
        self.num_generated += n
        return points if out is None else out.resize_as_(points).copy_(points)

    def _advance(self, count: int, start: int, dtype: torch.dtype) -> Tensor:
        """The points after that with number ``start``, which is the current one."""
        if count < 0:
            raise RuntimeError(f"Trying to create tensor with negative dimension {count}: [{count}, {self.dimension}]")
        if dtype not in (torch.float32, torch.float64):
            name = torch.empty(0, dtype=dtype).type().removeprefix("torch.").removesuffix("Tensor")
            raise NotImplementedError(f'"_sobol_engine_draw" not implemented for {name!r}')
        numbers = torch.arange(start + 1, start + 1 + count)
        codes = (numbers ^ (numbers >> 1) ^ _gray(start)).unsqueeze(1)
        points = self.quasi.expand(count, self.dimension).clone()
        # Higher bits of the codes are zero.
        for bit in range((start ^ (start + count)).bit_length()):
            points ^= (codes >> bit & 1) * self._column(bit)
        if count:
            self.quasi = points[-1].clone()
        return points.to(dtype) * 2.0**-_BITS

    def _column(self, bit: int) -> Tensor:
        if bit >= _BITS:
            raise RuntimeError(f"SobolEngine has {2**_BITS} points, and they are all drawn")
        return self.sobolstate[:, bit]

    def draw_base2(self, m: int, out: Tensor | None = None, dtype: torch.dtype | None = None) -> Tensor:
        """The next ``2**m`` points. The points so far are balanced if their number is a power of two.

        Args:
            m: the logarithm of the number of points.
            out: a tensor that gets the points.
            dtype: float32 or float64; by default, the default dtype.

        Raises:
            ValueError: the number of all points drawn would not be a power of two.
        """
        n = 2**m
        total = self.num_generated + n
        if total & (total - 1):
            raise ValueError(
                "The balance properties of Sobol' points require n to be a power of 2. "
                f"{self.num_generated} points have been previously generated, then: n={self.num_generated}+2**{m}={total}. "
                "If you still want to do this, please use 'SobolEngine.draw()' instead."
            )
        return self.draw(n=n, out=out, dtype=dtype)

    def reset(self) -> Self:
        """Goes back to the first point."""
        self.quasi.copy_(self.shift)
        self.num_generated = 0
        return self

    def fast_forward(self, n: int) -> Self:
        """Leaves out the next ``n`` points."""
        start = max(self.num_generated - 1, 0)
        end = self.num_generated + n - 1
        change = _gray(start) ^ _gray(max(end, 0))
        for bit in range(change.bit_length()):
            if change >> bit & 1:
                self.quasi ^= self._column(bit)
        self.num_generated += n
        return self

    def __repr__(self) -> str:
        options = [f"dimension={self.dimension}"]
        if self.scramble:
            options.append("scramble=True")
        if self.seed is not None:
            options.append(f"seed={self.seed}")
        return f"{type(self).__name__}({', '.join(options)})"


def __dir__() -> list[str]:
    return __all__
