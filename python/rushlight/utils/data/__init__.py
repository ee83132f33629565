"""`torch.utils.data`: datasets, samplers and the loader that turns them into batches.

- `dataset.py`: what has samples; `sampler.py`, `distributed.py`: in which order they are taken;
- `dataloader.py`: the loader;
- `_utils/`: a pass over its batches, in this process or over worker processes, collation, fetching, the worker's side and the parent's side of multi-process loading.
"""

from rushlight._homes import adopt

from ._utils.collate import default_collate, default_convert
from ._utils.info import get_worker_info
from .dataloader import DataLoader
from .dataset import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    _DatasetKind,
    random_split,
)
from .distributed import DistributedSampler
from .sampler import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

__all__ = [
    "BatchSampler",
    "ChainDataset",
    "ConcatDataset",
    "DataLoader",
    "Dataset",
    "DistributedSampler",
    "IterableDataset",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "StackDataset",
    "Subset",
    "SubsetRandomSampler",
    "TensorDataset",
    "WeightedRandomSampler",
    "_DatasetKind",
    "default_collate",
    "default_convert",
    "get_worker_info",
    "random_split",
]


def __dir__() -> list[str]:
    return __all__


adopt(globals())
