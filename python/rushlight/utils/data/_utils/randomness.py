"""Random states for `DataLoader(..., reproducible=True)`: each sample has its own.

The state depends only on the loader's seed, the pass and the position of the sample in the pass. It does not depend on
the worker or on the samples loaded before. The program's own random streams are saved and restored.
"""

import contextlib
import hashlib
import random
import struct
import sys
from typing import NamedTuple

import rushlight as torch

_KEY = struct.Struct("=QQcq")
_ORDER, _SAMPLE, _BATCH, _DATASET = b"o", b"s", b"b", b"i"


class Randomness(NamedTuple):
    """The random streams of one pass: torch's default generator, `random`, and NumPy's if it is installed."""

    seed: int
    epoch: int

    def order(self) -> int:
        """The seed of the samplers."""
        return self._derive(_ORDER, 0)

    def sample(self, place: int) -> None:
        """Sets the state for the sample at position `place` of the pass."""
        _seed_all(self._derive(_SAMPLE, place))

    def batch(self, place: int) -> None:
        """Sets the state for collating (or loading) the batch whose first sample is at position `place`."""
        _seed_all(self._derive(_BATCH, place))

    def dataset(self) -> None:
        """Sets the state for opening an iterable dataset."""
        _seed_all(self._derive(_DATASET, 0))

    def _derive(self, purpose: bytes, place: int) -> int:
        key = _KEY.pack(self.seed % 2**64, self.epoch, purpose, place)
        return int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), "little")


def _numpy():
    # Imported even if the program has not: the dataset may import it, and would get a random seed.
    with contextlib.suppress(ImportError):
        import numpy

        return numpy
    return None


def load_early(randomness: Randomness | None) -> None:
    """Imports in the parent what each worker would import, so that forked workers share it."""
    numpy = sys.modules.get("numpy") if randomness is None else _numpy()
    if numpy is not None:
        numpy.random  # noqa: B018 # which NumPy loads when it is first asked for


def _seed_all(seed: int) -> None:
    torch.default_generator.manual_seed(seed)
    random.seed(seed)
    numpy = _numpy()
    if numpy is not None:
        numpy.random.seed(seed & 0xFFFFFFFF)


class RandomState(NamedTuple):
    """The states of the random generators."""

    torch: object
    python: object
    numpy: object

    @classmethod
    def now(cls) -> "RandomState":
        numpy = _numpy()
        return cls(torch.get_rng_state(), random.getstate(), None if numpy is None else numpy.random.get_state())

    def restore(self) -> None:
        torch.set_rng_state(self.torch)  # type: ignore[arg-type] # a tensor at this point
        random.setstate(self.python)  # type: ignore[arg-type]
        numpy = _numpy()
        if numpy is not None and self.numpy is not None:
            numpy.random.set_state(self.numpy)


@contextlib.contextmanager
def put_aside():
    """Restores the random states at the end of the block."""
    before = RandomState.now()
    try:
        yield
    finally:
        before.restore()


class OwnRandomState:
    """An iterator with its own random states, which the program does not affect between its steps."""

    def __init__(self, make, seed: int) -> None:
        with put_aside():
            _seed_all(seed)
            self._iterator = iter(make())
            self._state = RandomState.now()

    def __iter__(self):
        return self

    def __next__(self):
        with put_aside():
            self._state.restore()
            try:
                return next(self._iterator)
            finally:
                self._state = RandomState.now()
