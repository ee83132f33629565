"""`torch.ao.quantization`: observers, fake quantisation, and the quantisation of a model's modules.

Modules are replaced by their classes. Quantisation that rewrites a model's code (``prepare_fx``) or a script does not exist.
"""

from __future__ import annotations

from rushlight._unsupported import declare

from . import (
    fake_quantize,
    fuser_method_mappings,
    observer,
    qconfig,
    qconfig_mapping,
    quantization_mappings,
    quantize_fx,
    stubs,
)
from .fake_quantize import *  # noqa: F403
from .fuse_modules import fuse_modules, fuse_modules_qat
from .fuser_method_mappings import *  # noqa: F403
from .observer import *  # noqa: F403
from .qconfig import *  # noqa: F403
from .qconfig_mapping import *  # noqa: F403
from .quantization_mappings import *  # noqa: F403
from .quantize import (
    add_quant_dequant,
    convert,
    default_eval_fn,
    prepare,
    prepare_qat,
    propagate_qconfig_,
    quantize,
    quantize_dynamic,
    quantize_qat,
    swap_module,
)
from .stubs import *  # noqa: F403

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: A factory of observers or of modules of fake quantisation.
ObserverOrFakeQuantize = observer.ObserverBase | fake_quantize.FakeQuantizeBase
#: A configuration, or None.
QConfigAny = qconfig.QConfig | None

__all__ = [
    "ObserverOrFakeQuantize",
    "QConfigAny",
    "quantize_fx",
    *fake_quantize.__all__,
    "fuse_modules",
    "fuse_modules_qat",
    *fuser_method_mappings.__all__,
    *observer.__all__,
    *qconfig.__all__,
    *qconfig_mapping.__all__,
    *quantization_mappings.__all__,
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
    *stubs.__all__,
    *declare(
        globals(),
        "models are quantised by the classes of their modules alone, with quantize_dynamic, prepare, prepare_qat and convert",
        """
        convert_dynamic_jit convert_jit fuse_conv_bn_jit get_block_size get_default_compare_output_module_list
        get_default_custom_config_dict get_default_dynamic_sparse_quant_module_mappings
        get_default_float_to_quantized_operator_mappings
        get_default_qat_qconfig_dict get_default_qconfig_dict get_default_static_quant_reference_module_mappings
        get_default_static_sparse_quant_module_mappings get_fuser_method_new get_quantized_operator
        prepare_dynamic_jit prepare_jit quantize_dynamic_jit quantize_jit script_qconfig
        script_qconfig_dict
        class AffineQuantizedObserverBase Granularity MappingType PerAxis PerBlock PerGroup PerRow PerTensor
        class PerToken QuantType TorchAODType ZeroPointDomain
        """,
    ),
]

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


def __dir__() -> list[str]:
    return __all__
