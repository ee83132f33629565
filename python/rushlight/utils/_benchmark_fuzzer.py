"""Random sizes, layouts and tensors for benchmarks (`torch.utils.benchmark.Fuzzer`). They need NumPy."""

from __future__ import annotations

import math
from typing import Any

import rushlight as torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    _Size = Sequence[int | str]

__all__ = ["FuzzedParameter", "FuzzedSparseTensor", "FuzzedTensor", "Fuzzer", "ParameterAlias"]

#: How often unsuitable parameters are drawn again.
_TRIES = 1000


class ParameterAlias:
    """A value of a parameter that is that of another parameter.

    >>> alias = torch.utils.benchmark.ParameterAlias("rows")
    >>> torch.utils.benchmark.FuzzedParameter("columns", distribution={1: 0.25, alias: 0.75}).name
    'columns'
    """

    def __init__(self, alias_to: str) -> None:
        self.alias_to = alias_to

    def __repr__(self) -> str:
        return f"ParameterAlias[alias_to: {self.alias_to}]"


class FuzzedParameter:
    """A random parameter.

    Args:
        name: the name, for tensors and constraints.
        minval, maxval: the limits, both included. The values are integers if both of them are.
        distribution: ``"uniform"``, ``"loguniform"``, or a dictionary from the values to their probabilities, which
            excludes limits.
        strict: keeps the value while other parameters are drawn again.

    Raises:
        AssertionError: the arguments do not fit each other, or the probabilities do not sum to one.

    >>> torch.utils.benchmark.FuzzedParameter("rows", 1, 64, distribution="loguniform").name
    'rows'
    """

    def __init__(
        self,
        name: str,
        minval: float | None = None,
        maxval: float | None = None,
        distribution: str | dict[Any, float] | None = None,
        strict: bool = False,
    ) -> None:
        self._name, self._minval, self._maxval, self.strict = name, minval, maxval, strict
        self._distribution = distribution
        if isinstance(distribution, dict):
            if minval is not None or maxval is not None:
                raise AssertionError("minval and maxval must be None when a custom distribution is given")
            if abs(sum(distribution.values()) - 1) > 1e-6:
                raise AssertionError("Distribution is not normalized")
        elif distribution not in ("uniform", "loguniform"):
            raise AssertionError(f"Unknown distribution: {distribution}")
        elif minval is None or maxval is None:
            raise AssertionError("minval and maxval must be given")

    @property
    def name(self) -> str:
        return self._name

    def sample(self, state: Any) -> Any:
        """A value, drawn with a `numpy.random.RandomState`."""
        if isinstance(self._distribution, dict):
            values = list(self._distribution)
            # NumPy's choice would convert the values to one type.
            return values[state.choice(len(values), p=list(self._distribution.values()))]
        low, high = self._minval, self._maxval
        assert low is not None and high is not None
        integers = isinstance(low, int) and isinstance(high, int)
        if self._distribution == "loguniform":
            drawn = math.exp(state.uniform(math.log(low), math.log(high)))
            return min(max(round(drawn), low), high) if integers else drawn
        return int(state.randint(low, high + 1)) if integers else float(state.uniform(low, high))


class _FuzzedTensor:
    """What dense and sparse tensors share: a size that parameters determine, and limits for it."""

    def __init__(
        self,
        name: str,
        size: _Size,
        least: int | None,
        most: int | None,
        dim_parameter: str | None,
        dtype: Any,
        cuda: bool,
    ) -> None:
        self._name, self._size, self._least, self._most = name, size, least, most
        self._dim_parameter, self._dtype, self._device = dim_parameter, dtype, "cuda" if cuda else "cpu"

    @property
    def name(self) -> str:
        return self._name

    def _concrete(self, given: _Size, params: dict[str, Any]) -> tuple[int, ...]:
        dim = len(given) if self._dim_parameter is None else params[self._dim_parameter]
        return tuple(params[size] if isinstance(size, str) else size for size in given[:dim])

    def satisfies_constraints(self, params: dict[str, Any]) -> bool:
        """Whether the number of elements is within the limits."""
        count = math.prod(self._concrete(self._size, params))
        return (self._least is None or count >= self._least) and (self._most is None or count <= self._most)


class FuzzedTensor(_FuzzedTensor):
    """A random tensor.

    Args:
        name: the name.
        size: the size; strings are names of parameters.
        steps: allocates a larger tensor and takes one of so many elements in each dimension.
        probability_contiguous: how often the elements lie in the order of the dimensions.
        min_elements, max_elements, max_allocation_bytes: limits, which the parameters must keep to.
        dim_parameter: the name of the parameter with the number of dimensions.
        roll_parameter: the name of the parameter with a number of places by which the dimensions are rotated in memory.
        dtype: the dtype.
        cuda: whether it is on a GPU.
        tensor_constructor: makes the elements: ``(size, dtype, **params)``.

    >>> tensor = torch.utils.benchmark.FuzzedTensor("x", size=("rows", 4), max_elements=100)
    >>> tensor.satisfies_constraints({"rows": 30})
    False
    """

    def __init__(
        self,
        name: str,
        size: _Size,
        steps: _Size | None = None,
        probability_contiguous: float = 0.5,
        min_elements: int | None = None,
        max_elements: int | None = None,
        max_allocation_bytes: int | None = None,
        dim_parameter: str | None = None,
        roll_parameter: str | None = None,
        dtype: Any = None,
        cuda: bool = False,
        tensor_constructor: Callable[..., torch.Tensor] | None = None,
    ) -> None:
        dtype = torch.float32 if dtype is None else dtype
        super().__init__(name, size, min_elements, max_elements, dim_parameter, dtype, cuda)
        self._steps, self._probability_contiguous = steps, probability_contiguous
        self._max_allocation_bytes, self._roll_parameter = max_allocation_bytes, roll_parameter
        self._make = tensor_constructor or self.default_tensor_constructor

    @staticmethod
    def default_tensor_constructor(size: Sequence[int], dtype: torch.dtype, **kwargs: Any) -> torch.Tensor:
        """Normal numbers, or integers below 127."""
        if dtype.is_floating_point or dtype.is_complex:
            return torch.rand(size=tuple(size), dtype=dtype)
        return torch.randint(1, 127, size=tuple(size), dtype=dtype)

    def _taken(self, params: dict[str, Any]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        size = self._concrete(self._size, params)
        return size, self._concrete(self._steps or (1,) * len(self._size), params)

    def satisfies_constraints(self, params: dict[str, Any]) -> bool:
        """Whether the number of elements and of bytes is within the limits."""
        size, steps = self._taken(params)
        count = math.prod(extent * step for extent, step in zip(size, steps))
        fits = self._max_allocation_bytes is None or count * self._dtype.itemsize <= self._max_allocation_bytes
        return fits and super().satisfies_constraints(params)

    def _make_tensor(self, params: dict[str, Any], state: Any) -> tuple[torch.Tensor, dict[str, Any]]:
        import numpy as np

        size, steps = self._taken(params)
        whole = [extent * step for extent, step in zip(size, steps)]
        order = np.arange(len(size))
        if self._roll_parameter is not None:
            order = np.roll(order, params[self._roll_parameter])
        elif state.rand() > self._probability_contiguous:
            order = state.permutation(len(size))
        tensor = self._make([whole[place] for place in order], dtype=self._dtype, **params).to(self._device)
        tensor = tensor.permute(*np.argsort(order).tolist()) if len(size) else tensor
        tensor = tensor[tuple(slice(0, None, step) for step in steps)] if len(size) else tensor
        properties = {
            "numel": tensor.numel(),
            "order": order,
            "steps": steps,
            "is_contiguous": tensor.is_contiguous(),
            "dtype": str(self._dtype),
        }
        return tensor, properties


class FuzzedSparseTensor(_FuzzedTensor):
    """A random sparse tensor.

    Args:
        name: the name.
        size: the size; strings are names of parameters.
        min_elements, max_elements: limits for the size, which the parameters must keep to.
        dim_parameter: the name of the parameter with the number of dimensions.
        sparse_dim, nnz, density, coalesced: the names of the parameters with the number of sparse dimensions, the
            number of elements or their share, and whether their indices are unique and sorted.
        dtype: the dtype.
        cuda: whether it is on a GPU.

    >>> torch.utils.benchmark.FuzzedSparseTensor("x", size=("rows", 4), density="density").name
    'x'
    """

    def __init__(
        self,
        name: str,
        size: _Size,
        min_elements: int | None = None,
        max_elements: int | None = None,
        dim_parameter: str | None = None,
        sparse_dim: str | None = None,
        nnz: str | None = None,
        density: str | None = None,
        coalesced: str | None = None,
        dtype: Any = None,
        cuda: bool = False,
    ) -> None:
        dtype = torch.float32 if dtype is None else dtype
        super().__init__(name, size, min_elements, max_elements, dim_parameter, dtype, cuda)
        self._sparse_dim, self._nnz, self._density, self._coalesced = sparse_dim, nnz, density, coalesced

    @staticmethod
    def sparse_tensor_constructor(
        size: Sequence[int], dtype: torch.dtype, sparse_dim: int, nnz: int, is_coalesced: bool
    ) -> torch.Tensor:
        """A sparse tensor. Each of its elements is there twice, with half the value, if it is not coalesced."""
        values = FuzzedTensor.default_tensor_constructor([nnz, *size[sparse_dim:]], dtype)
        extents = torch.tensor(size[:sparse_dim], dtype=torch.int64)
        indices = (torch.rand(sparse_dim, nnz) * extents.unsqueeze(1)).to(torch.int64)
        tensor = torch.sparse_coo_tensor(indices, values, tuple(size))
        if is_coalesced:
            return tensor.coalesce()
        halves = values / 2 if dtype.is_floating_point or dtype.is_complex else values
        return torch.sparse_coo_tensor(torch.cat([indices, indices], 1), torch.cat([halves, halves]), tuple(size))

    def _make_tensor(self, params: dict[str, Any], state: Any) -> tuple[torch.Tensor, dict[str, Any]]:
        size = self._concrete(self._size, params)
        sparse_dim = len(size) if self._sparse_dim is None else min(params[self._sparse_dim], len(size))
        places = math.prod(size[:sparse_dim])
        nnz = params[self._nnz] if self._nnz is not None else math.ceil(places * params[self._density or "density"])
        coalesced = True if self._coalesced is None else bool(params[self._coalesced])
        tensor = self.sparse_tensor_constructor(size, self._dtype, sparse_dim, nnz, coalesced).to(self._device)
        properties = {
            "numel": tensor.numel(),
            "shape": tensor.size(),
            "is_coalesced": tensor.is_coalesced(),
            "density": nnz / places if places else 0.0,
            "sparsity": 1 - nnz / places if places else 1.0,
            "sparse_dim": tensor.sparse_dim(),
            "dense_dim": tensor.dense_dim(),
            "is_hybrid": tensor.dense_dim() > 0,
            "dtype": str(self._dtype),
        }
        return tensor, properties


def _flat(given: Iterable[Any]) -> Iterator[Any]:
    for item in given:
        yield from item if isinstance(item, (list, tuple)) else (item,)


class Fuzzer:
    """Draws parameters and tensors for benchmarks.

    Args:
        parameters: `FuzzedParameter` objects, or lists of them.
        tensors: `FuzzedTensor` objects, or lists of them.
        constraints: functions of the parameters; each must return True.
        seed: the seed, of torch's generator too.

    Raises:
        ValueError: a name occurs twice, or parameters and tensors have a common one.
        RuntimeError: no suitable parameters were found in a thousand tries.

    >>> fuzzer = Fuzzer([FuzzedParameter("n", 1, 8, "uniform")], [FuzzedTensor("x", size=("n", 2))], seed=0)
    >>> for tensors, properties, parameters in fuzzer.take(1):
    ...     print(tensors["x"].shape[1], properties["x"]["dtype"], list(parameters))
    2 torch.float32 ['n']
    """

    def __init__(
        self,
        parameters: Sequence[Any],
        tensors: Sequence[Any],
        constraints: Sequence[Callable[..., bool]] | None = None,
        seed: int | None = None,
    ) -> None:
        import numpy as np

        self._seed = np.random.RandomState().randint(0, 2**32 - 1, dtype=np.int64) if seed is None else seed
        self._parameters, self._tensors = list(_flat(parameters)), list(_flat(tensors))
        self._constraints = constraints or ()
        names = [part.name for part in self._parameters]
        others = [part.name for part in self._tensors]
        common = set(names) & set(others)
        if common:
            raise ValueError(f"Duplicate names in parameters and tensors: {common}")
        for kind in (names, others):
            twice = {name for name in kind if kind.count(name) > 1}
            if twice:
                raise ValueError(f"Duplicate names: {twice}")
        self._rejections = self._drawn = 0

    def take(self, n: int) -> Iterator[tuple[dict[str, torch.Tensor], dict[str, Any], dict[str, Any]]]:
        """Yields ``n`` times the tensors, their properties and the parameters, each by name."""
        import numpy as np

        state = np.random.RandomState(self._seed)
        torch.manual_seed(int(state.randint(low=0, high=2**63, dtype=np.int64)))
        for _ in range(n):
            params = self._suitable(state)
            made = {tensor.name: tensor._make_tensor(params, state) for tensor in self._tensors}
            yield (
                {name: tensor for name, (tensor, _) in made.items()},
                {name: properties for name, (_, properties) in made.items()},
                params,
            )

    @property
    def rejection_rate(self) -> float:
        """The share of parameters that did not suit."""
        return self._rejections / self._drawn if self._drawn else 0.0

    def _suitable(self, state: Any) -> dict[str, Any]:
        strict: dict[str, Any] = {}
        for _ in range(_TRIES):
            drawn: dict[str, Any] = dict(strict)
            for parameter in self._parameters:
                if parameter.name not in drawn:
                    drawn[parameter.name] = parameter.sample(state)
                    if parameter.strict:
                        strict[parameter.name] = drawn[parameter.name]
            params = {name: self._resolved(drawn, name) for name in drawn}
            self._drawn += 1
            if all(constraint(**params) for constraint in self._constraints) and all(
                tensor.satisfies_constraints(params) for tensor in self._tensors
            ):
                return params
            self._rejections += 1
        raise RuntimeError("Failed to generate a set of valid parameters.")

    @staticmethod
    def _resolved(drawn: dict[str, Any], name: str) -> Any:
        """The value of a parameter, or of that which its alias names, and so on."""
        seen = {name}
        while isinstance(value := drawn[name], ParameterAlias):
            name = value.alias_to
            if name in seen:
                raise RuntimeError(f"Cycle in alias resolution: {name}")
            seen.add(name)
        return value
