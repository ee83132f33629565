"""Datasets and helpers for the tests of the loader."""

import multiprocessing

import rushlight as torch
from rushlight.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info


class Numbers(Dataset):
    """A dataset of numbers. `action` is called at one index."""

    def __init__(self, count=6, action=None, at=3):
        self.count, self.action, self.at = count, action, at

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        if self.action is not None and index == self.at:
            self.action()
        return index


class Stream(IterableDataset):
    """A stream with a list of numbers for each worker."""

    def __init__(self, lengths):
        self.lengths = lengths

    def __iter__(self):
        info = get_worker_info()
        worker = 0 if info is None else info.id
        return iter(range(100 * worker, 100 * worker + self.lengths[worker]))


def plain(batch):
    return batch.tolist() if isinstance(batch, torch.Tensor) else batch


def batches(dataset, **options):
    return [plain(batch) for batch in DataLoader(dataset, **options)]


def children():
    return [child for child in multiprocessing.active_children() if child.daemon]
