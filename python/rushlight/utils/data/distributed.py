"""`DistributedSampler`: the share of a dataset for each process of a group."""

import math
from collections.abc import Iterator
from typing import Any

import rushlight as torch

from .sampler import Sampler


class DistributedSampler(Sampler):
    """Every ``num_replicas``-th index, beginning with ``rank``, of an order that is the same in all processes.

    The order depends on ``seed + epoch``: call `set_epoch` before each pass. If the length is not divisible, the
    dataset is padded with its first samples, or truncated with ``drop_last``.

    Args:
        dataset: a dataset with a length.
        num_replicas, rank: the number of processes and the rank of this one; by default those of the default group.
        shuffle: whether the order is random.
        seed: the same number in every process.
        drop_last: whether to omit the remainder.

    Raises:
        ValueError: the rank is not less than the number of processes.

    >>> for rank in range(2):
    ...     print(list(torch.utils.data.DistributedSampler(range(5), 2, rank, shuffle=False)))
    [0, 2, 4]
    [1, 3, 0]
    """

    def __init__(
        self,
        dataset: Any,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        if num_replicas is None or rank is None:
            from rushlight.distributed import get_rank, get_world_size

            num_replicas = get_world_size() if num_replicas is None else num_replicas
            rank = get_rank() if rank is None else rank
        if not 0 <= rank < num_replicas:
            raise ValueError(f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]")
        self.dataset = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.epoch = 0
        self.drop_last = drop_last
        length = len(dataset)
        self.num_samples = length // num_replicas if drop_last else math.ceil(length / num_replicas)
        self.total_size = self.num_samples * num_replicas
        self.shuffle = shuffle
        self.seed = seed

    def __iter__(self) -> Iterator:
        length = len(self.dataset)
        if self.shuffle:
            generator = torch.Generator()
            generator.manual_seed(self.seed + self.epoch)
            order = torch.randperm(length, generator=generator).tolist()
        else:
            order = list(range(length))
        if order:
            copies = math.ceil(self.total_size / length)
            order = (order * copies)[: self.total_size]
        return iter(order[self.rank :: self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Selects the order of the next pass. Without it, every pass has the same order."""
        self.epoch = epoch
