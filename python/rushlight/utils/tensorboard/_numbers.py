"""Tensors and numbers as NumPy arrays."""

from typing import Any

import numpy as np

import rushlight as torch


def make_np(value: Any) -> np.ndarray:
    """An array of a tensor, an array or a number."""
    if isinstance(value, np.ndarray):
        return value
    if np.isscalar(value):
        return np.array([value])
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu()
        return (value.float() if value.dtype == torch.bfloat16 else value).numpy()
    raise NotImplementedError(f"Got {type(value)}, but numpy array or torch tensor are expected.")


def make_number(value: Any) -> float:
    """The only element of a tensor or an array, or a number."""
    array = make_np(value).squeeze()
    if array.ndim:
        raise AssertionError(
            "Tensor should contain one element (0 dimensions). "
            f"Was given size: {array.size} and {array.ndim} dimensions."
        )
    return float(array)
