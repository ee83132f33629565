"""Which module replaces which when a model is quantised."""

from __future__ import annotations

from typing import Any

from rushlight import nn
from rushlight.ao.nn import quantized
from rushlight.ao.nn.quantized import dynamic

from .stubs import DeQuantStub, QuantStub

__all__ = [
    "get_default_dynamic_quant_module_mappings",
    "get_default_qconfig_propagation_list",
    "get_default_static_quant_module_mappings",
    "get_dynamic_quant_module_class",
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
        nn.Linear: quantized.Linear,
        nn.modules.linear.NonDynamicallyQuantizableLinear: quantized.Linear,
        quantized.FloatFunctional: quantized.QFunctional,
    }


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
