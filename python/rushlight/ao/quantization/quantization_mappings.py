"""Which module replaces which when a model is quantised."""

from __future__ import annotations

from typing import Any

from rushlight import nn
from rushlight.ao.nn import intrinsic, qat, quantized
from rushlight.ao.nn.intrinsic import qat as intrinsic_qat
from rushlight.ao.nn.intrinsic import quantized as intrinsic_quantized
from rushlight.ao.nn.quantized import dynamic

from .stubs import DeQuantStub, QuantStub

__all__ = [
    "get_default_dynamic_quant_module_mappings",
    "get_default_qat_module_mappings",
    "get_default_qconfig_propagation_list",
    "get_default_static_quant_module_mappings",
    "get_dynamic_quant_module_class",
    "get_embedding_qat_module_mappings",
    "get_embedding_static_quant_module_mappings",
    "get_static_quant_module_class",
    "no_observer_set",
]


def get_default_dynamic_quant_module_mappings() -> dict[Any, Any]:
    """The replacements of dynamic quantisation.

    >>> torch.ao.quantization.get_default_dynamic_quant_module_mappings()[torch.nn.LSTM].__name__
    'LSTM'
    """
    return {
        nn.GRUCell: dynamic.GRUCell,
        nn.Linear: dynamic.Linear,
        nn.modules.linear.NonDynamicallyQuantizableLinear: dynamic.Linear,
        nn.LSTM: dynamic.LSTM,
        nn.GRU: dynamic.GRU,
        nn.LSTMCell: dynamic.LSTMCell,
        nn.RNNCell: dynamic.RNNCell,
        nn.EmbeddingBag: quantized.EmbeddingBag,
        nn.Embedding: quantized.Embedding,
    }


def get_default_static_quant_module_mappings() -> dict[Any, Any]:
    """The replacements of static quantisation.

    >>> torch.ao.quantization.get_default_static_quant_module_mappings()[torch.nn.Conv2d].__name__
    'Conv2d'
    """
    return {
        QuantStub: quantized.Quantize,
        DeQuantStub: quantized.DeQuantize,
        nn.Conv1d: quantized.Conv1d,
        nn.Conv2d: quantized.Conv2d,
        nn.Conv3d: quantized.Conv3d,
        nn.ConvTranspose1d: quantized.ConvTranspose1d,
        nn.ConvTranspose2d: quantized.ConvTranspose2d,
        nn.ConvTranspose3d: quantized.ConvTranspose3d,
        nn.BatchNorm2d: quantized.BatchNorm2d,
        nn.BatchNorm3d: quantized.BatchNorm3d,
        nn.Embedding: quantized.Embedding,
        nn.EmbeddingBag: quantized.EmbeddingBag,
        nn.Linear: quantized.Linear,
        nn.modules.linear.NonDynamicallyQuantizableLinear: quantized.Linear,
        quantized.FloatFunctional: quantized.QFunctional,
        **{getattr(intrinsic, name): getattr(intrinsic_quantized, name) for name in intrinsic_quantized.__all__},
        **{
            getattr(intrinsic_qat, f"ConvBnReLU{dims}d"): getattr(intrinsic_quantized, f"ConvReLU{dims}d")
            for dims in (1, 2, 3)
        },
        **{getattr(intrinsic_qat, f"ConvBn{dims}d"): getattr(quantized, f"Conv{dims}d") for dims in (1, 2, 3)},
        **{
            getattr(intrinsic_qat, f"ConvReLU{dims}d"): getattr(intrinsic_quantized, f"ConvReLU{dims}d")
            for dims in (1, 2, 3)
        },
        intrinsic_qat.LinearReLU: intrinsic_quantized.LinearReLU,
        intrinsic_qat.LinearBn1d: quantized.Linear,
        qat.Linear: quantized.Linear,
        qat.Conv1d: quantized.Conv1d,
        qat.Conv2d: quantized.Conv2d,
        qat.Conv3d: quantized.Conv3d,
    }


def get_default_qat_module_mappings() -> dict[Any, Any]:
    """The replacements for training with rounded weights.

    >>> torch.ao.quantization.get_default_qat_module_mappings()[torch.nn.Conv2d].__module__.rpartition(".")[2]
    'qat'
    """
    names = (
        "ConvBn1d ConvBn2d ConvBn3d ConvBnReLU1d ConvBnReLU2d ConvBnReLU3d ConvReLU2d ConvReLU3d LinearReLU LinearBn1d"
    )
    return {
        nn.Conv2d: qat.Conv2d,
        nn.Conv3d: qat.Conv3d,
        nn.Linear: qat.Linear,
        nn.modules.linear.NonDynamicallyQuantizableLinear: qat.Linear,
        **{getattr(intrinsic, name): getattr(intrinsic_qat, name) for name in names.split()},
    }


def get_embedding_qat_module_mappings() -> dict[Any, Any]:
    """Those of `get_default_qat_module_mappings`, and those of tables of rows."""
    tables = {nn.EmbeddingBag: qat.EmbeddingBag, nn.Embedding: qat.Embedding}
    return {**get_default_qat_module_mappings(), **tables}


def get_embedding_static_quant_module_mappings() -> dict[Any, Any]:
    """Those of `get_default_static_quant_module_mappings`, and those of tables of rows after training."""
    tables = {qat.EmbeddingBag: quantized.EmbeddingBag, qat.Embedding: quantized.Embedding}
    return {**get_default_static_quant_module_mappings(), **tables}


def _class_for(kind: Any, mappings: dict[Any, Any], additional: dict[Any, Any] | None, name: str) -> Any:
    found = {**mappings, **(additional or {})}.get(kind)
    if found is None:
        raise AssertionError(f"Floating point module class {kind} does not have a corresponding {name} module class")
    return found


def get_dynamic_quant_module_class(float_module_class: Any, additional_dynamic_quant_mapping: Any = None) -> Any:
    """The class that replaces another one in dynamic quantisation.

    Raises:
        AssertionError: there is none.

    >>> torch.ao.quantization.get_dynamic_quant_module_class(torch.nn.GRU).__name__
    'GRU'
    """
    mappings = get_default_dynamic_quant_module_mappings()
    return _class_for(float_module_class, mappings, additional_dynamic_quant_mapping, "quantized")


def get_static_quant_module_class(
    float_module_class: Any, additional_static_quant_mapping: Any = None, is_reference: bool = False
) -> Any:
    """The class that replaces another one in static quantisation.

    Raises:
        AssertionError: there is none.

    >>> torch.ao.quantization.get_static_quant_module_class(torch.nn.Linear).__name__
    'Linear'
    """
    mappings = get_default_static_quant_module_mappings()
    return _class_for(float_module_class, mappings, additional_static_quant_mapping, "quantized")


def get_default_qconfig_propagation_list() -> set[Any]:
    """The classes of modules that get a configuration.

    >>> torch.nn.Linear in torch.ao.quantization.get_default_qconfig_propagation_list()
    True
    """
    return {
        *get_default_static_quant_module_mappings(),
        *get_default_dynamic_quant_module_mappings(),
    }


def no_observer_set() -> set[Any]:
    """The classes of modules that need no observer of their own.

    >>> torch.nn.Dropout in torch.ao.quantization.quantization_mappings.no_observer_set()
    False
    """
    return {quantized.Quantize, quantized.DeQuantize}


def __dir__() -> list[str]:
    return __all__
