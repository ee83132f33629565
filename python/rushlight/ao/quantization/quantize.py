"""Quantisation of the modules of a model, by their classes and without a look at its code.

Dynamic quantisation replaces layers at once (`quantize_dynamic`). Static quantisation first adds observers (`prepare`),
runs the model on data, and then replaces the layers (`convert`).
"""

from __future__ import annotations

import copy
from typing import Any

import rushlight as torch
from rushlight import nn
from rushlight.ao.nn.quantized import FloatFunctional

from .fake_quantize import FakeQuantizeBase
from .observer import ObserverBase
from .qconfig import default_dynamic_qconfig, float16_dynamic_qconfig, float_qparams_weight_only_qconfig
from .quantization_mappings import (
    get_default_dynamic_quant_module_mappings,
    get_default_qat_module_mappings,
    get_default_qconfig_propagation_list,
    get_default_static_quant_module_mappings,
)
from .stubs import DeQuantStub, QuantWrapper

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


__all__ = [
    "add_quant_dequant",
    "convert",
    "default_eval_fn",
    "prepare",
    "prepare_qat",
    "propagate_qconfig_",
    "quantize",
    "quantize_dynamic",
    "quantize_qat",
    "swap_module",
]


def _add_config(module: Any, configs: dict[Any, Any], name: str, inherited: Any) -> None:
    """Gives a module and those in it the configuration for its name or its class, or else that of its parent."""
    config = configs.get(type(module), inherited)
    config = configs.get(name, config)
    config = getattr(module, "qconfig", config)
    module.qconfig = config
    for own, child in module.named_children():
        _add_config(child, configs, f"{name}.{own}" if name else own, config)


def propagate_qconfig_(module: nn.Module, qconfig_dict: Any = None, prepare_custom_config_dict: Any = None) -> None:
    """Gives all modules a configuration: that for their name or class, or that of the module around them.

    >>> model = torch.nn.Sequential(torch.nn.Linear(1, 1))
    >>> model.qconfig = torch.ao.quantization.default_qconfig
    >>> torch.ao.quantization.propagate_qconfig_(model)
    >>> model[0].qconfig is model.qconfig
    True
    """
    _add_config(module, qconfig_dict or {}, "", None)


def swap_module(
    mod: Any, mapping: dict[Any, Any], custom_module_class_mapping: Any = None, use_precomputed_fake_quant: bool = False
) -> Any:
    """The quantised module for a module with a configuration, or the module itself if there is none.

    Args:
        mod: the module.
        mapping: the classes and those that replace them, by their ``from_float``.
        custom_module_class_mapping: the same for classes with ``from_observed``. It comes first.
        use_precomputed_fake_quant: has no effect.

    >>> torch.ao.quantization.swap_module(torch.nn.ReLU(), {})
    ReLU()
    """
    custom = (custom_module_class_mapping or {}).get(type(mod))
    if getattr(mod, "qconfig", None) is not None and custom is not None:
        return _with_hooks(mod, custom.from_observed(mod))
    kind = mapping.get(type(mod))
    if getattr(mod, "qconfig", None) is None or kind is None:
        return mod
    return _with_hooks(mod, kind.from_float(mod))


def _with_hooks(mod: Any, made: Any) -> Any:
    """The quantised module with the hooks of the module, except that of the observer."""
    for hook in mod._forward_pre_hooks.values():
        made.register_forward_pre_hook(hook)
    for hook in mod._forward_hooks.values():
        if hook is not _observe:
            made.register_forward_hook(hook)
    return made


def _replace(module: Any, mapping: dict[Any, Any]) -> None:
    for name, child in list(module.named_children()):
        if type(child) not in mapping:
            _replace(child, mapping)
        module._modules[name] = swap_module(child, mapping)


def _remove_qconfig(module: Any) -> None:
    """Removes the configurations and the observers."""
    for child in module.modules():
        child.__dict__.pop("qconfig", None)
        child._modules.pop("activation_post_process", None) if _has_observer(child) else None
        for hooks in (child._forward_pre_hooks, child._forward_hooks):
            for key, hook in list(hooks.items()):
                if hook in (_observe, _observe_input):
                    del hooks[key]


def _has_observer(module: Any) -> bool:
    return isinstance(module._modules.get("activation_post_process"), (ObserverBase, FakeQuantizeBase))


def convert(
    module: Any,
    mapping: dict[Any, Any] | None = None,
    inplace: bool = False,
    remove_qconfig: bool = True,
    is_reference: bool = False,
    convert_custom_config_dict: Any = None,
    use_precomputed_fake_quant: bool = False,
) -> Any:
    """Replaces the modules that have a configuration by quantised ones, with the ranges that their observers saw.

    Args:
        mapping: the classes and those that replace them.
        inplace: changes the model itself, and not a copy.
        remove_qconfig: removes the configurations from the modules.
        is_reference: must be False.
        convert_custom_config_dict, use_precomputed_fake_quant: have no effect.

    Raises:
        NotImplementedError: `is_reference` is true.

    >>> model = torch.ao.quantization.QuantWrapper(torch.nn.Linear(2, 3)).eval()
    >>> model.qconfig = torch.ao.quantization.default_qconfig
    >>> prepared = torch.ao.quantization.prepare(model)
    >>> _ = prepared(torch.randn(8, 2))
    >>> converted = torch.ao.quantization.convert(prepared)
    >>> type(converted.module).__name__, converted(torch.ones(1, 2)).shape
    ('Linear', torch.Size([1, 3]))
    """
    if is_reference:
        raise NotImplementedError("torch.ao.quantization.convert has no reference modules: is_reference must be False")
    if not inplace:
        module = copy.deepcopy(module)
    mapping = get_default_static_quant_module_mappings() if mapping is None else mapping
    _replace(module, mapping)
    module = swap_module(module, mapping) if not module._modules and type(module) in mapping else module
    if remove_qconfig:
        _remove_qconfig(module)
    return module


def _specification(spec: Any, dtype: Any) -> dict[Any, Any]:
    """The configurations of `quantize_dynamic` by class or name."""
    kinds: tuple[Any, ...] = nn.Linear, nn.LSTM, nn.GRU, nn.LSTMCell, nn.RNNCell, nn.GRUCell
    if dtype is torch.qint8:
        config = default_dynamic_qconfig
    elif dtype is torch.float16:
        config = float16_dynamic_qconfig
    elif dtype is torch.quint8:
        config, kinds = float_qparams_weight_only_qconfig, (nn.EmbeddingBag, nn.Embedding)
    else:
        raise ValueError(f"Don't know how to quantize with default settings for {dtype}. Provide full qconfig please")
    return dict.fromkeys(kinds if spec is None else spec, config)


def quantize_dynamic(
    model: Any, qconfig_spec: Any = None, dtype: Any = torch.qint8, mapping: Any = None, inplace: bool = False
) -> Any:
    """The model with quantised weights in its linear and recurrent layers, which quantise their inputs in each call.

    Args:
        qconfig_spec: the classes or the names of the modules, or a dictionary from them to configurations.
        dtype: that of the weights: ``torch.qint8`` or ``torch.float16``, or ``torch.quint8`` for embeddings.
        mapping: the classes and those that replace them.
        inplace: changes the model itself, and not a copy.

    Raises:
        ValueError: `dtype` is another one, and `qconfig_spec` is no dictionary.

    >>> model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU())
    >>> torch.ao.quantization.quantize_dynamic(model, {torch.nn.Linear}, dtype=torch.qint8)
    Sequential(
      (0): DynamicQuantizedLinear(in_features=3, out_features=4, dtype=torch.qint8, qscheme=torch.per_tensor_affine)
      (1): ReLU()
    )
    """
    configs = qconfig_spec if isinstance(qconfig_spec, dict) else _specification(qconfig_spec, dtype)
    if not inplace:
        model = copy.deepcopy(model)
    model.eval()
    propagate_qconfig_(model, configs)
    return convert(model, get_default_dynamic_quant_module_mappings() if mapping is None else mapping, inplace=True)


def _observe(module: Any, args: Any, output: Any) -> Any:
    """The hook through which a module's observer sees its result."""
    return module.activation_post_process(output)


def _observe_input(module: Any, args: Any) -> Any:
    """The hook through which a module's observer without a memory sees its argument, as dynamic quantisation does."""
    return module.activation_post_process(args[0])


def _add_observers(module: Any, allowed: set[Any], leaves: set[Any]) -> None:
    for child in module.children():
        if isinstance(child, nn.Dropout):
            continue
        config = getattr(child, "qconfig", None)
        if isinstance(child, FloatFunctional):
            if config is not None:
                child.activation_post_process = config.activation()
        elif isinstance(child, DeQuantStub):
            continue
        elif config is not None and (type(child) in allowed or type(child) in leaves):
            if not hasattr(child, "activation_post_process"):
                child.add_module("activation_post_process", config.activation())
                observer = child.activation_post_process
                seen = getattr(observer, "activation_post_process", observer)
                if getattr(seen, "averaging_constant", None) == 1:
                    child.register_forward_pre_hook(_observe_input, prepend=True)
                else:
                    child.register_forward_hook(_observe, prepend=True)
        else:
            _add_observers(child, allowed, leaves)


def prepare(
    model: Any,
    inplace: bool = False,
    allow_list: Any = None,
    observer_non_leaf_module_list: Any = None,
    prepare_custom_config_dict: Any = None,
) -> Any:
    """Adds observers to the modules that have a configuration (``qconfig``), for their results.

    >>> model = torch.ao.quantization.QuantWrapper(torch.nn.Linear(2, 3)).eval()
    >>> model.qconfig = torch.ao.quantization.default_qconfig
    >>> type(torch.ao.quantization.prepare(model).module.activation_post_process).__name__
    'MinMaxObserver'
    """
    if not inplace:
        model = copy.deepcopy(model)
    propagate_qconfig_(model)
    if not any(getattr(module, "qconfig", None) for module in model.modules()):
        from rushlight._warnings import warn

        warn(
            "None of the submodule got qconfig applied. Make sure you passed correct configuration through `qconfig_dict` or by assigning the `.qconfig` attribute directly on submodules"
        )
    allowed = get_default_qconfig_propagation_list() if allow_list is None else set(allow_list)
    _add_observers(model, allowed, set(observer_non_leaf_module_list or ()))
    return model


def prepare_qat(model: Any, mapping: dict[Any, Any] | None = None, inplace: bool = False) -> Any:
    """Replaces the layers that have a configuration by those that train with rounded weights, and adds observers.

    Args:
        model: a model in training mode.
        mapping: the classes and those that replace them.
        inplace: changes the model itself, and not a copy.

    Raises:
        AssertionError: the model is not in training mode.

    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 3))
    >>> model.qconfig = torch.ao.quantization.get_default_qat_qconfig("x86")
    >>> prepared = torch.ao.quantization.prepare_qat(model)
    >>> prepared(torch.randn(4, 2)).sum().backward()
    >>> type(torch.ao.quantization.convert(prepared.eval())[0])
    <class 'rushlight.ao.nn.quantized.modules.linear.Linear'>
    """
    if not model.training:
        raise AssertionError("prepare_qat only works on models in training mode")
    mapping = get_default_qat_module_mappings() if mapping is None else mapping
    if not inplace:
        model = copy.deepcopy(model)
    propagate_qconfig_(model)
    convert(model, mapping, inplace=True, remove_qconfig=False)
    return prepare(model, inplace=True, observer_non_leaf_module_list=set(mapping.values()))


def quantize_qat(model: Any, run_fn: Callable[..., Any], run_args: Any, inplace: bool = False) -> Any:
    """`prepare_qat`, training (``run_fn(model, *run_args)``), and `convert`.

    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 3))
    >>> model.qconfig = torch.ao.quantization.get_default_qat_qconfig("x86")
    >>> made = torch.ao.quantization.quantize_qat(model, lambda model, x: model(x), [torch.randn(4, 2)])
    >>> type(made[0]).__name__
    'Linear'
    """
    if not inplace:
        model = copy.deepcopy(model)
    model.train()
    prepare_qat(model, inplace=True)
    run_fn(model, *run_args)
    return convert(model, inplace=True)


def add_quant_dequant(module: Any) -> Any:
    """Wraps each module that has a configuration and no modules in it in a `QuantWrapper`.

    >>> model = torch.nn.Sequential(torch.nn.Linear(1, 1))
    >>> model[0].qconfig = torch.ao.quantization.default_qconfig
    >>> type(torch.ao.quantization.add_quant_dequant(model)[0]).__name__
    'QuantWrapper'
    """
    if not module._modules and getattr(module, "qconfig", None):
        return QuantWrapper(module)
    for name, child in module.named_children():
        module._modules[name] = add_quant_dequant(child)
    return module


def quantize(model: Any, run_fn: Callable[..., Any], run_args: Any, mapping: Any = None, inplace: bool = False) -> Any:
    """`prepare`, a run on data (``run_fn(model, *run_args)``), and `convert`.

    >>> model = torch.ao.quantization.QuantWrapper(torch.nn.Linear(2, 3))
    >>> model.qconfig = torch.ao.quantization.default_qconfig
    >>> made = torch.ao.quantization.quantize(model, lambda model, x: model(x), [torch.randn(4, 2)])
    >>> type(made.module).__name__
    'Linear'
    """
    if not inplace:
        model = copy.deepcopy(model)
    model.eval()
    prepare(model, inplace=True)
    run_fn(model, *run_args)
    return convert(model, mapping, inplace=True)


def default_eval_fn(model: Any, calib_data: Any) -> None:
    """Runs a model on pairs of an input and a target, for `quantize`."""
    for data, _ in calib_data:
        model(data)


def __dir__() -> list[str]:
    return __all__
