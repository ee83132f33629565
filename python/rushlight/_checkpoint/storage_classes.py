"""The storage classes in checkpoints, which say the dtype of a storage's bytes."""

from typing import NamedTuple

from rushlight._C import _CHECKPOINT_STORAGES, dtype

#: The dtypes with a storage class in checkpoints. Other dtypes are saved as bytes with the name of the dtype.
STORAGE_DTYPES = _CHECKPOINT_STORAGES
STORAGE_NAMES = {dtype: name for name, dtype in STORAGE_DTYPES.items()}


class StorageClass(NamedTuple):
    """A class such as `torch.FloatStorage` in a checkpoint."""

    dtype: dtype
