"""Storages as checkpoints know them: bytes, with a class that says which dtype they are counted in."""

from typing import NamedTuple

from rushlight._C import dtype

# The classes that stand for a dtype in a checkpoint. Other dtypes travel as bytes with their name beside them.
STORAGE_DTYPES = {
    "ByteStorage": "uint8",
    "CharStorage": "int8",
    "ShortStorage": "int16",
    "IntStorage": "int32",
    "LongStorage": "int64",
    "HalfStorage": "float16",
    "FloatStorage": "float32",
    "DoubleStorage": "float64",
    "BFloat16Storage": "bfloat16",
    "BoolStorage": "bool",
    "ComplexFloatStorage": "complex64",
    "ComplexDoubleStorage": "complex128",
}
STORAGE_NAMES = {dtype: name for name, dtype in STORAGE_DTYPES.items()}


class StorageClass(NamedTuple):
    """What `torch.FloatStorage` and its like are to a checkpoint."""

    dtype: dtype
