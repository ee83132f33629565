"""Tensors of which two of four elements are zero. torch has them for CUDA devices alone. rushlight refuses all of them."""

from __future__ import annotations

from rushlight import Tensor
from rushlight._C import _disabled_torch_function_impl
from rushlight._set_module import set_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


class SparseSemiStructuredTensor(Tensor):
    """A tensor of which two of four elements in each row are zero. No function makes one: there are no kernels for them."""

    __torch_function__ = _disabled_torch_function_impl  # type: ignore[assignment] # never bound

    # What programs ask of the class: the kernels' settings.
    BACKEND = ""
    _DEFAULT_ALG_ID = 0
    _FORCE_CUTLASS = _FUSE_TRANSPOSE = _PROTOTYPE_WARNING_SHOWN = False

    @classmethod
    def from_dense(cls, original_tensor: Tensor) -> NoReturn:
        """Raises an error: a subclass defines it."""
        raise NotImplementedError


class SparseSemiStructuredTensorCUTLASS(SparseSemiStructuredTensor):
    """`SparseSemiStructuredTensor` for the kernels of CUTLASS."""

    @classmethod
    def from_dense(cls, original_tensor: Tensor) -> NoReturn:
        """Raises an error: there are no such tensors."""
        raise refusal(original_tensor)


class SparseSemiStructuredTensorCUSPARSELT(SparseSemiStructuredTensor):
    """`SparseSemiStructuredTensor` for the kernels of cuSPARSELt."""

    @classmethod
    def from_dense(cls, original_tensor: Tensor) -> NoReturn:
        """Raises an error: there are no such tensors."""
        raise refusal(original_tensor)


def refusal(tensor: Tensor) -> RuntimeError:
    """torch's error for a tensor that is not on a CUDA device, and an error of its own for others."""
    if tensor.is_cuda:
        return NotImplementedError(
            "There are no kernels for semi-structured sparse tensors. Multiply the dense tensor."
        )
    return RuntimeError(
        f"Error original_tensor.device= {tensor.device} is not supported! Only CUDA tensors are currently supported."
    )


set_module(
    "rushlight.sparse",
    SparseSemiStructuredTensor,
    SparseSemiStructuredTensorCUTLASS,
    SparseSemiStructuredTensorCUSPARSELT,
)
