"""Checkpoints in Hugging Face's format (`torch.distributed.checkpoint.hf_storage`), which rushlight does not have."""

from rushlight.distributed.checkpoint import HuggingFaceStorageReader, HuggingFaceStorageWriter

__all__ = ["HuggingFaceStorageReader", "HuggingFaceStorageWriter"]


def __dir__() -> list[str]:
    return __all__
