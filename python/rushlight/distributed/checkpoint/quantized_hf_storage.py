"""Checkpoints in files of the safetensors format whose weights are quantized in blocks."""

import rushlight as torch
from rushlight import safetensors

from .hf_storage import HuggingFaceStorageReader
from .metadata import ChunkStorageMetadata, MetadataIndex

__all__ = ["QuantizedHuggingFaceStorageReader"]

#: The numbers of four bits: a sign, two bits of exponent, one of mantissa.
_FP4 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0)


def __dir__() -> list[str]:
    return __all__


def _is_weight(name):
    return name.rpartition(".")[2] == "weight"


class QuantizedHuggingFaceStorageReader(HuggingFaceStorageReader):
    """Reads weights that are quantized in blocks, as numbers. Other tensors are read as they are.

    A matrix `weight` beside a `weight_scale_inv` is multiplied by it, with one factor for each square block. A tensor whose name ends
    with `_blocks` beside one with `_scales` has pairs of numbers of four bits (MXFP4) in its last two dimensions, which become one. A
    quantized tensor lies in one file.

    Args:
        path: the folder.
        thread_count: accepted.
        target_dtype: the dtype of the numbers.
        block_size: the rows and columns of a square block.

    >>> import tempfile
    >>> dcp = torch.distributed.checkpoint
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tensors = {"weight": torch.ones(2, 2).to(torch.float8_e4m3fn), "weight_scale_inv": torch.tensor([[3.0]])}
    ...     torch.safetensors.save_file(tensors, folder + "/model.safetensors")
    ...     state = {"weight": torch.zeros(2, 2)}
    ...     dcp.load(state, storage_reader=dcp.QuantizedHuggingFaceStorageReader(folder))
    >>> state
    {'weight': tensor([[3., 3.],
            [3., 3.]])}
    """

    def __init__(self, path, thread_count=1, target_dtype=torch.float32, block_size=128):
        super().__init__(path, thread_count)
        self.target_dtype, self.block_size = target_dtype, block_size

    def read_metadata(self, *args, **kwargs):
        """The metadata. Tensors of four bits have the size of their numbers."""
        metadata = super().read_metadata(*args, **kwargs)
        entries = metadata.state_dict_metadata
        #: The names of scales by that of their weight.
        self._scales = {}
        for name in entries:
            scales = f"{name.removesuffix('_blocks')}_scales" if name.endswith("_blocks") else f"{name}_scale_inv"
            if scales not in entries or not (name.endswith("_blocks") or _is_weight(name)):
                continue
            if len(entries[name].chunks) > 1 or len(entries[name].size) < 2:
                raise ValueError(f"{name} is quantized, and not a tensor of two or more dimensions in one file")
            self._scales[name] = scales
            if name.endswith("_blocks"):
                *outer, groups, width = entries[name].size
                size = torch.Size([*outer, groups * width * 2])
                entries[name].size, begin = size, torch.Size([0] * len(size))
                entries[name].chunks = [ChunkStorageMetadata(begin, size)]
                stored = next(index for index in self.storage_data if index.fqn == name)
                self.storage_data[MetadataIndex(name, begin)] = self.storage_data.pop(stored)
        return metadata

    def _stored(self, file, item):
        name = item.storage_index.fqn
        if name not in self._scales:
            return super()._stored(file, item)
        scales = self._whole(self._scales[name])
        box = [slice(begin, begin + size) for begin, size in zip(item.storage_offsets, item.lengths)]
        if name.endswith("_blocks"):
            outer = tuple(box[:-1])
            return self._numbers(file.get_slice(name)[outer], scales[outer])[..., box[-1]]
        found = file.get_slice(name)
        blocks = [-(-size // self.block_size) for size in found.get_shape()]
        if scales.dim() != 2 or len(blocks) != 2 or any(has < needs for has, needs in zip(scales.shape, blocks)):
            raise ValueError(
                f"{self._scales[name]} has shape {tuple(scales.shape)}, and {name} has {tuple(blocks)} blocks of "
                f"{self.block_size} rows and columns\n  Give the block_size with which it was quantized."
            )
        rows, columns = (torch.arange(one.start, one.stop) // self.block_size for one in box)
        return (found[tuple(box)].float() * scales.float()[rows][:, columns]).to(self.target_dtype)

    def _whole(self, name):
        info = next(info for index, info in self.storage_data.items() if index.fqn == name)
        with safetensors.safe_open(self.path / info.relative_path) as file:
            return file.get_tensor(name)

    def _numbers(self, blocks, scales):
        """The numbers of bytes, the one of the lower bits first. A scale is an exponent for a line of bytes."""
        pairs = torch.stack([blocks & 15, blocks >> 4], -1).flatten(-2)
        numbers = torch.tensor(_FP4)[pairs.long()]
        return torch.ldexp(numbers, scales.to(torch.int32)[..., None] - 127).flatten(-2).to(self.target_dtype)
