"""Random numbers for `DataLoader(..., reproducible=True)`: a state of its own for every sample.

The state follows from the loader's seed, the pass and the sample's place in it, and from nothing else: neither the worker
that loads the sample nor what was loaded before it. The streams of the program itself are put aside meanwhile.
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
    """The streams of one pass: torch's default generator, `random`, and NumPy's where it is installed."""

    seed: int
    epoch: int

    def order(self) -> int:
        """The seed of what the samplers draw."""
        return self._derive(_ORDER, 0)

    def sample(self, place: int) -> None:
        """The sample that is `place`-th in the pass is about to be loaded."""
        _sow(self._derive(_SAMPLE, place))

    def batch(self, place: int) -> None:
        """The batch whose first sample is the `place`-th is about to be collated (or loaded, as a whole)."""
        _sow(self._derive(_BATCH, place))

    def dataset(self) -> None:
        """An iterable dataset is about to be opened."""
        _sow(self._derive(_DATASET, 0))

    def _derive(self, purpose: bytes, place: int) -> int:
        key = _KEY.pack(self.seed % 2**64, self.epoch, purpose, place)
        return int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), "little")


def _numpy():
    # Imported even if the program has not done so yet: the dataset may, and would find it seeded by the clock.
    with contextlib.suppress(ImportError):
        import numpy

        return numpy
    return None


def load_early(randomness: Randomness | None) -> None:
    """Loads in the parent what each worker would load for itself, so that forked ones find it there and share it."""
    numpy = sys.modules.get("numpy") if randomness is None else _numpy()
    if numpy is not None:
        numpy.random  # noqa: B018 # which NumPy loads when it is first asked for


def _sow(seed: int) -> None:
    torch.default_generator.manual_seed(seed)
    random.seed(seed)
    numpy = _numpy()
    if numpy is not None:
        numpy.random.seed(seed & 0xFFFFFFFF)


class RandomState(NamedTuple):
    """Where the random streams stand."""

    torch: object
    python: object
    numpy: object

    @classmethod
    def now(cls) -> "RandomState":
        numpy = _numpy()
        return cls(torch.get_rng_state(), random.getstate(), None if numpy is None else numpy.random.get_state())

    def restore(self) -> None:
        torch.set_rng_state(self.torch)  # type: ignore[arg-type] # as it was read
        random.setstate(self.python)  # type: ignore[arg-type]
        numpy = _numpy()
        if numpy is not None and self.numpy is not None:
            numpy.random.set_state(self.numpy)


@contextlib.contextmanager
def put_aside():
    """Inside, anything may be drawn without the rest of the program noticing."""
    before = RandomState.now()
    try:
        yield
    finally:
        before.restore()


class OwnRandomState:
    """An iterator whose steps draw from streams of their own, whatever the program draws in between."""

    def __init__(self, make, seed: int) -> None:
        with put_aside():
            _sow(seed)
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
