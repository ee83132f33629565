"""The position of a loader: the pass, the number of samples, and the seeds that reproduce the order."""

import itertools
from typing import Any, NamedTuple

import rushlight as torch

from ..dataset import _DatasetKind
from ..sampler import BatchSampler, RandomSampler, draw_seed
from .randomness import OwnRandomState, Randomness

_VERSION = 1
_FIELDS = ("version", "seed", "epoch", "batches", "samples", "shuffle")


class Position:
    """The position in one pass of a loader. `seed` is the seed of a reproducible loader, None for others."""

    def __init__(self, seed=None, epoch: int = 0, batches: int = 0, samples: int = 0, order_seed=None) -> None:
        self.seed = seed
        self.epoch = epoch
        self.batches, self.samples = batches, samples
        self.order_seed = order_seed  # that of the order of the pass, if there is one
        self.started = False

    def begin(self, loader) -> "Position":
        """The next pass, or the one set with `load_state_dict`."""
        if loader.reproducible and self.seed is None:
            self.seed = draw_seed(loader.generator)
        position = Position(self.seed, self.epoch + 1) if self.started else self
        position.started = True
        return position

    def advance(self, count: int) -> None:
        self.batches += 1
        self.samples += count

    def finish(self) -> None:
        self.epoch += 1
        self.batches = self.samples = 0
        self.order_seed = None
        self.started = False

    @property
    def randomness(self) -> Randomness | None:
        return None if self.seed is None else Randomness(self.seed, self.epoch)

    # --- the order of the pass -------------------------------------------------------------------------------------

    def tasks(self, loader):
        """The rest of the pass: the indices of one batch after the other."""
        source = self._rest(loader)
        if self.randomness is None:
            if (shuffler := _shuffler(loader)) is not None:
                shuffler.resume(self.order_seed)
            return iter(source)
        order = self.randomness.order()
        for sampler in _samplers(loader):
            generator = getattr(sampler, "generator", None)
            if isinstance(generator, torch.Generator):
                generator.manual_seed(order)
        return OwnRandomState(lambda: source, order)

    def _rest(self, loader):
        if loader._dataset_kind == _DatasetKind.Iterable or not self.batches:
            return loader._index_sampler
        if type(loader.batch_sampler) is BatchSampler and loader.batch_size is not None:
            left = _SkipFirst(loader.sampler, self.samples)
            return BatchSampler(left, loader.batch_size, loader.drop_last)
        return _SkipFirst(loader._index_sampler, self.batches)

    # --- as a value ------------------------------------------------------------------------------------------------

    def state(self, loader) -> dict[str, Any]:
        if loader.reproducible and self.seed is None:
            self.seed = draw_seed(loader.generator)
        if self.started and self.order_seed is None and (shuffler := _shuffler(loader)) is not None:
            self.order_seed = shuffler.known_seed()
        return dict(zip(_FIELDS, (_VERSION, self.seed, self.epoch, self.batches, self.samples, self.order_seed)))

    @classmethod
    def restored(cls, state: dict[str, Any], loader) -> "Position":
        if set(state) != set(_FIELDS) or type(state["version"]) is not int or state["version"] != _VERSION:
            raise ValueError("this is not the state of a DataLoader of this version")
        values = {name: state[name] for name in _FIELDS[1:]}
        for name, value in values.items():
            may_be_none = name in ("seed", "shuffle")
            bound = 1 << (64 if may_be_none else 63)
            if not ((type(value) is int and 0 <= value < bound) or (value is None and may_be_none)):
                raise ValueError(f"the state of a DataLoader has a count as {name!r}, not {value!r}")
        if loader.reproducible != (values["seed"] is not None):
            raise ValueError(
                "the state is that of a DataLoader with another value of reproducible: "
                f"this one has reproducible={loader.reproducible}"
            )
        shuffles = _shuffler(loader) is not None
        was_drawn = values["shuffle"] is not None
        if was_drawn != shuffles and (was_drawn or (values["batches"] and not loader.reproducible)):
            raise ValueError(f"the state is that of a DataLoader {'with' if was_drawn else 'without'} shuffle=True")
        return cls(*values.values())


class _SkipFirst:
    """An iterable without its first items."""

    def __init__(self, source, count: int) -> None:
        self._source, self._count = source, count

    def __iter__(self):
        return itertools.islice(self._source, self._count, None)


class _Unknown(NamedTuple):
    condition: bool
    reason: str


class UnknownOrder(RuntimeError, AttributeError):
    """The order cannot be resumed. As an AttributeError it is False for `hasattr(loader, "state_dict")`, which libraries ask."""


def check_that_order_is_known(loader) -> None:
    streams = loader._dataset_kind == _DatasetKind.Iterable
    reasons = [
        _Unknown(not loader.in_order, "with in_order=False the next sample is unknown"),
        _Unknown(
            streams and loader.num_workers > 1 and loader.shard is None,
            "the workers split the stream themselves; use shard='auto'",
        ),
        _Unknown(
            not loader.reproducible and any(map(_draws_from_program, _samplers(loader))),
            "the order of the samples depends on the program's random state; use reproducible=True",
        ),
    ]
    for unknown in reasons:
        if unknown.condition:
            raise UnknownOrder(f"DataLoader.state_dict(): {unknown.reason}")


def _draws_from_program(sampler) -> bool:
    if isinstance(sampler, RandomSampler):
        return sampler.generator is not None
    return hasattr(sampler, "generator")


def _samplers(loader):
    found = loader.sampler, loader.batch_sampler, getattr(loader.batch_sampler, "sampler", None)
    return [sampler for sampler in found if sampler is not None]


def _shuffler(loader) -> RandomSampler | None:
    return next((sampler for sampler in _samplers(loader) if isinstance(sampler, RandomSampler)), None)
