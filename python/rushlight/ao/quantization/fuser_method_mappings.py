"""How neighbouring layers become one: the functions by the classes of the layers."""

from __future__ import annotations

from typing import Any

from rushlight import nn
from rushlight.ao.nn import intrinsic
from rushlight.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["fuse_conv_bn", "fuse_conv_bn_relu", "fuse_convtranspose_bn", "fuse_linear_bn", "get_fuser_method"]

_WITH_BN = {
    nn.Conv1d: (intrinsic.ConvBn1d, intrinsic.ConvBnReLU1d, intrinsic.ConvReLU1d),
    nn.Conv2d: (intrinsic.ConvBn2d, intrinsic.ConvBnReLU2d, intrinsic.ConvReLU2d),
    nn.Conv3d: (intrinsic.ConvBn3d, intrinsic.ConvBnReLU3d, intrinsic.ConvReLU3d),
}


def _check_modes(layer: Any, bn: Any, name: str) -> None:
    if layer.training != bn.training:
        raise AssertionError(f"{name} and BN both must be in the same mode (train or eval).")


def _check_trainable(bn: Any, same: bool, sentence: str) -> None:
    name = type(bn).__name__
    if not same:
        raise AssertionError(sentence.format(name))
    if not bn.affine:
        raise AssertionError(f"Only support fusing {name} with affine set to True")
    if not bn.track_running_stats:
        raise AssertionError(f"Only support fusing {name} with tracking_running_stats set to True")


def _check_channels(conv: Any, bn: Any) -> None:
    name = type(conv).__name__
    _check_trainable(
        bn, bn.num_features == conv.out_channels, f"Output channel of {name} must match num_features of {{}}."
    )


def fuse_conv_bn(is_qat: bool, conv: Any, bn: Any) -> Any:
    """A convolution and the normalisation behind it as one: for training a pair, and otherwise one convolution.

    Raises:
        AssertionError: they have different modes, or in training other numbers of channels.

    >>> own = torch.ao.quantization
    >>> type(own.fuse_conv_bn(False, torch.nn.Conv2d(1, 2, 3).eval(), torch.nn.BatchNorm2d(2).eval())).__name__
    'Conv2d'
    """
    _check_modes(conv, bn, "Conv")
    if not is_qat:
        return fuse_conv_bn_eval(conv, bn)
    _check_channels(conv, bn)
    return _WITH_BN[type(conv)][0](conv, bn)


def fuse_conv_bn_relu(is_qat: bool, conv: Any, bn: Any, relu: Any) -> Any:
    """`fuse_conv_bn`, and a ReLU behind it.

    Raises:
        AssertionError: they have different modes, or in training other numbers of channels.

    >>> layers = torch.nn.Conv2d(1, 2, 3).eval(), torch.nn.BatchNorm2d(2).eval(), torch.nn.ReLU().eval()
    >>> fused = torch.ao.quantization.fuse_conv_bn_relu(False, *layers)
    >>> type(fused).__name__, fused(torch.ones(1, 1, 4, 4)).shape
    ('ConvReLU2d', torch.Size([1, 2, 2, 2]))
    """
    if not conv.training == bn.training == relu.training:
        raise AssertionError("Conv and BN both must be in the same mode (train or eval).")
    if not is_qat:
        return _WITH_BN[type(conv)][2](fuse_conv_bn_eval(conv, bn), relu)
    _check_channels(conv, bn)
    return _WITH_BN[type(conv)][1](conv, bn, relu)


def fuse_linear_bn(is_qat: bool, linear: Any, bn: Any) -> Any:
    """A linear layer and the normalisation behind it as one: for training a pair, and otherwise one linear layer.

    Raises:
        AssertionError: they have different modes, or in training other numbers of features.

    >>> fused = torch.ao.quantization.fuse_linear_bn(False, torch.nn.Linear(3, 2).eval(), torch.nn.BatchNorm1d(2).eval())
    >>> fused
    Linear(in_features=3, out_features=2, bias=True)
    """
    _check_modes(linear, bn, "Linear")
    if not is_qat:
        return fuse_linear_bn_eval(linear, bn)
    sentence = "Output features of Linear must match num_features of {}"
    _check_trainable(bn, bn.num_features == linear.out_features, sentence)
    return intrinsic.LinearBn1d(linear, bn)


def fuse_convtranspose_bn(is_qat: bool, convt: Any, bn: Any) -> Any:
    """A transposed convolution and the normalisation behind it as one convolution.

    Raises:
        AssertionError: they have different modes.
        Exception: it is for training.

    >>> layers = torch.nn.ConvTranspose1d(1, 2, 3).eval(), torch.nn.BatchNorm1d(2).eval()
    >>> fused = torch.ao.quantization.fuse_convtranspose_bn(False, *layers)
    >>> fused(torch.ones(1, 1, 4)).shape
    torch.Size([1, 2, 6])
    """
    _check_modes(convt, bn, "ConvTranspose")
    if is_qat:
        raise Exception("Fusing ConvTranspose+BatchNorm not yet supported in QAT.")
    return fuse_conv_bn_eval(convt, bn, transpose=True)


def _sequence(kind: Any) -> Callable[..., Any]:
    return lambda is_qat, *layers: kind(*layers)


_METHODS: dict[tuple[Any, ...], Callable[..., Any]] = {
    (nn.Linear, nn.BatchNorm1d): fuse_linear_bn,
    (nn.Linear, nn.ReLU): _sequence(intrinsic.LinearReLU),
    (nn.BatchNorm2d, nn.ReLU): _sequence(intrinsic.BNReLU2d),
    (nn.BatchNorm3d, nn.ReLU): _sequence(intrinsic.BNReLU3d),
    (nn.ConvTranspose1d, nn.BatchNorm1d): fuse_convtranspose_bn,
    (nn.ConvTranspose2d, nn.BatchNorm2d): fuse_convtranspose_bn,
    (nn.ConvTranspose3d, nn.BatchNorm3d): fuse_convtranspose_bn,
}
for _conv, _bn in ((nn.Conv1d, nn.BatchNorm1d), (nn.Conv2d, nn.BatchNorm2d), (nn.Conv3d, nn.BatchNorm3d)):
    _METHODS[_conv, _bn] = fuse_conv_bn
    _METHODS[_conv, _bn, nn.ReLU] = fuse_conv_bn_relu
    _METHODS[_conv, nn.ReLU] = _sequence(_WITH_BN[_conv][2])


def get_fuser_method(op_list: Any, additional_fuser_method_mapping: Any = None) -> Callable[..., Any]:
    """The function that fuses layers of these classes.

    Raises:
        AssertionError: there is none.

    >>> torch.ao.quantization.get_fuser_method((torch.nn.Conv2d, torch.nn.BatchNorm2d)).__name__
    'fuse_conv_bn'
    """
    found = {**_METHODS, **(additional_fuser_method_mapping or {})}.get(tuple(op_list))
    if found is None:
        raise AssertionError(f"did not find fuser method for: {op_list} ")
    return found


def __dir__() -> list[str]:
    return __all__
