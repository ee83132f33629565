"""Functions of neural networks.

Most of them are operators and are imported unchanged. The functions in this file need Python code besides the operator:
deprecated arguments, warnings, a choice between two operators.
"""

from __future__ import annotations

from operator import index

import rushlight as torch
from rushlight._functions import nn_functional as _nn
from rushlight._functions.nn_functional import *  # noqa: F403
from rushlight._missing_names import missing_from
from rushlight._overridable import call_override as _call_override
from rushlight._overridable import mark_overridable as _mark_overridable
from rushlight._overridable import overridable
from rushlight._overridable import overridden as _overridden
from rushlight._set_module import set_public_module
from rushlight._warnings import warn

from . import _reduction as _Reduction  # noqa: F401 # programs with losses of their own ask it for `get_enum`
from ._attention import _canonical_mask as _canonical_mask
from ._attention import multi_head_attention_forward as multi_head_attention_forward
from ._ctc import ctc_loss as ctc_loss
from ._dispatch import GRID_SAMPLE_INTERPOLATION_MODES as GRID_SAMPLE_INTERPOLATION_MODES
from ._dispatch import GRID_SAMPLE_PADDING_MODES as GRID_SAMPLE_PADDING_MODES
from ._dispatch import BroadcastingList1 as BroadcastingList1
from ._dispatch import BroadcastingList2 as BroadcastingList2
from ._dispatch import BroadcastingList3 as BroadcastingList3
from ._dispatch import assert_int_or_pair as assert_int_or_pair
from ._dispatch import boolean_dispatch as boolean_dispatch
from ._dropout import alpha_dropout as alpha_dropout
from ._dropout import dropout as dropout
from ._dropout import dropout1d as dropout1d
from ._dropout import dropout2d as dropout2d
from ._dropout import dropout3d as dropout3d
from ._dropout import feature_alpha_dropout as feature_alpha_dropout
from ._embedding_bag import _shorten_rows
from ._embedding_bag import embedding_bag as embedding_bag
from ._grid import affine_grid as affine_grid
from ._grouped_mm import ScalingType as ScalingType
from ._grouped_mm import SwizzleType as SwizzleType
from ._grouped_mm import grouped_mm as grouped_mm
from ._grouped_mm import scaled_grouped_mm as scaled_grouped_mm
from ._grouped_mm import scaled_mm as scaled_mm
from ._interpolate import interpolate as interpolate
from ._interpolate import upsample as upsample
from ._interpolate import upsample_bilinear as upsample_bilinear
from ._interpolate import upsample_nearest as upsample_nearest
from ._linear_cross_entropy import linear_cross_entropy as linear_cross_entropy
from ._pooling import adaptive_avg_pool2d as adaptive_avg_pool2d
from ._pooling import adaptive_avg_pool3d as adaptive_avg_pool3d
from ._pooling import adaptive_max_pool1d as adaptive_max_pool1d
from ._pooling import adaptive_max_pool2d as adaptive_max_pool2d
from ._pooling import adaptive_max_pool3d as adaptive_max_pool3d
from ._pooling import fractional_max_pool2d as fractional_max_pool2d
from ._pooling import fractional_max_pool2d_with_indices as fractional_max_pool2d_with_indices
from ._pooling import fractional_max_pool3d as fractional_max_pool3d
from ._pooling import fractional_max_pool3d_with_indices as fractional_max_pool3d_with_indices
from ._pooling import lp_pool1d as lp_pool1d
from ._pooling import lp_pool2d as lp_pool2d
from ._pooling import lp_pool3d as lp_pool3d
from ._pooling import max_unpool1d as max_unpool1d
from ._pooling import max_unpool2d as max_unpool2d
from ._pooling import max_unpool3d as max_unpool3d

#: The functions in this file.
_NOT_FOR_USERS = (
    "TYPE_CHECKING",
    "annotations",
    "grad",
    "index",
    "missing_from",
    "overridable",
    "set_public_module",
    "torch",
    "warn",
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from rushlight import Tensor


@overridable
def rrelu(
    input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False, inplace: bool = False
) -> Tensor:
    """Leaky ReLU with a random slope for each negative element in training, and with the mean of the bounds otherwise.

    Raises:
        RuntimeError: the lower bound is greater than the upper bound.

    >>> torch.nn.functional.rrelu(torch.tensor([-4.0, 2.0]), 0.25, 0.25)
    tensor([-1.,  2.])
    """
    return (torch.rrelu_ if inplace else torch.rrelu)(input, lower, upper, training)


rrelu_ = torch.rrelu_


def _get_softmax_dim(name: str, dimensions: int, stacklevel: int) -> int:
    index(stacklevel)  # the warning finds its line without it; anything but an integer is an error
    warn(f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an argument.")
    return 0 if dimensions in (0, 1, 3) else 1


@_mark_overridable
def softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: torch.dtype | None = None) -> Tensor:
    """``exp(input)`` divided by its sum along ``dim``, computed in ``dtype`` if it is given.

    Raises:
        IndexError: the input has no such dimension.

    >>> torch.nn.functional.softmax(torch.tensor([0.0, 0.0]), dim=0)
    tensor([0.5000, 0.5000])
    """
    if _overridden((input,)):
        return _call_override(softmax, (input,), {"dim": dim, "_stacklevel": _stacklevel, "dtype": dtype})
    if dim is None:
        dim = _get_softmax_dim("softmax", input.dim(), _stacklevel)
    return torch.softmax(input, dim) if dtype is None else torch.softmax(input, dim, dtype=dtype)


@_mark_overridable
def log_softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: torch.dtype | None = None
) -> Tensor:
    """The logarithm of `softmax`, computed without underflow.

    Raises:
        IndexError: the input has no such dimension.

    >>> torch.nn.functional.log_softmax(torch.tensor([0.0, 0.0]), dim=0)
    tensor([-0.6931, -0.6931])
    """
    if _overridden((input,)):
        return _call_override(log_softmax, (input,), {"dim": dim, "_stacklevel": _stacklevel, "dtype": dtype})
    if dim is None:
        dim = _get_softmax_dim("log_softmax", input.dim(), _stacklevel)
    return torch.log_softmax(input, dim) if dtype is None else torch.log_softmax(input, dim, dtype=dtype)


@_mark_overridable
def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """The rows of ``weight`` at the indices in ``input``. Row ``padding_idx`` gets no gradient.

    With ``max_norm``, rows with a larger norm are first rescaled in place.

    Raises:
        AssertionError: ``padding_idx`` is out of range.
        IndexError: an index is out of range.

    >>> table = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> torch.nn.functional.embedding(torch.tensor([1, 0]), table)
    tensor([[3., 4.],
            [1., 2.]])
    """
    if _overridden((input, weight)):
        options = {"max_norm": max_norm, "norm_type": norm_type, "scale_grad_by_freq": scale_grad_by_freq}
        return _call_override(embedding, (input, weight), {"padding_idx": padding_idx, **options, "sparse": sparse})
    if padding_idx is not None:
        if (padding_idx > 0 and padding_idx >= weight.size(0)) or (padding_idx < 0 and padding_idx < -weight.size(0)):
            raise AssertionError("Padding_idx must be within num_embeddings")
        padding_idx += weight.size(0) if padding_idx < 0 else 0
    if max_norm is not None:
        input = input.contiguous()
        _shorten_rows(weight, input, max_norm, norm_type)
    return torch.embedding(weight, input, -1 if padding_idx is None else padding_idx, scale_grad_by_freq, sparse)


@overridable
def softmin(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: torch.dtype | None = None) -> Tensor:
    """The `softmax` of ``-input``.

    Raises:
        IndexError: the input has no such dimension.

    >>> torch.nn.functional.softmin(torch.tensor([2.0, 2.0]), dim=0)
    tensor([0.5000, 0.5000])
    """
    if dim is None:
        dim = _get_softmax_dim("softmin", input.dim(), _stacklevel)
    return (-input).softmax(dim, dtype=dtype)


@overridable
def gumbel_softmax(logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Tensor:
    """Differentiable samples of a categorical distribution, as probabilities (Jang et al. 2016).

    ``tau`` is the temperature. With ``hard`` the samples are one-hot, with the gradients of the soft samples.

    Raises:
        IndexError: the input has no such dimension.

    >>> torch.nn.functional.gumbel_softmax(torch.tensor([[0.0, 1000.0]]), hard=True)
    tensor([[0., 1.]])
    """
    if eps != 1e-10:
        warn("`eps` parameter is deprecated and has no effect.")
    noise = torch.empty_like(logits, memory_format=torch.contiguous_format).exponential_().log()
    soft = ((logits - noise) / tau).softmax(dim)
    if not hard:
        return soft
    one_hot = torch.zeros_like(soft).scatter_(dim, soft.max(dim, keepdim=True).indices, 1.0)
    return one_hot - soft.detach() + soft


@overridable
def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """Triplet loss with any distance: margin plus distance to the positive minus that to the negative, at least 0.

    Raises:
        ValueError: the reduction is unknown, or the margin is not positive.
        RuntimeError: the inputs have different numbers of dimensions.

    >>> torch.nn.functional.triplet_margin_with_distance_loss(*torch.zeros(3, 1, 2))
    tensor(1.)
    """
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    if not anchor.dim() == positive.dim() == negative.dim():
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: "
            f"anchor {anchor.dim()}D, positive {positive.dim()}D, and negative {negative.dim()}D inputs"
        )
    distance = _nn.pairwise_distance if distance_function is None else distance_function
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = torch.minimum(far, distance(positive, negative))
    losses = (margin + near - far).clamp(min=0)
    if reduction == "none":
        return losses
    return losses.mean() if reduction == "mean" else losses.sum()


#: Names of `torch.overrides`, which loads when they are first used.
_OVERRIDES = ("handle_torch_function", "has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")

if TYPE_CHECKING:
    from rushlight.overrides import handle_torch_function as handle_torch_function
    from rushlight.overrides import has_torch_function as has_torch_function
    from rushlight.overrides import has_torch_function_unary as has_torch_function_unary
    from rushlight.overrides import has_torch_function_variadic as has_torch_function_variadic


def __getattr__(name: str) -> object:
    if name in _OVERRIDES:
        return getattr(torch.overrides, name)
    if name == "Tensor":
        return torch.Tensor
    raise missing_from("torch.nn.functional", name, __dir__)


def __dir__() -> list[str]:
    own = [name for name in globals() if not name.startswith("_") and name not in _NOT_FOR_USERS]
    return [*dict.fromkeys([*own, *_OVERRIDES])]


# Here, because they import this module. torch has them under both names.
from rushlight._native import conv_tbc as conv_tbc  # noqa: E402
from rushlight._native import native_channel_shuffle as native_channel_shuffle  # noqa: E402

from . import grad as grad  # noqa: E402

set_public_module(globals())
