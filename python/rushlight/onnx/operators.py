"""Functions that an export to ONNX records as one operator, and that run as they are."""

from __future__ import annotations

from rushlight._shapes import _shape_as_tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rushlight import Tensor

__all__ = ["reshape_from_tensor_shape", "shape_as_tensor"]


def shape_as_tensor(x: Tensor) -> Tensor:
    """The shape of a tensor, as a tensor of int64.

    >>> torch.onnx.operators.shape_as_tensor(torch.ones(2, 3))
    tensor([2, 3])
    """
    return _shape_as_tensor(x)


def reshape_from_tensor_shape(x: Tensor, shape: Tensor) -> Tensor:
    """A tensor with the shape that another tensor has as its elements.

    >>> torch.onnx.operators.reshape_from_tensor_shape(torch.ones(4), torch.tensor([2, 2])).shape
    torch.Size([2, 2])
    """
    return x.reshape(shape.tolist())


def __dir__() -> list[str]:
    return __all__
