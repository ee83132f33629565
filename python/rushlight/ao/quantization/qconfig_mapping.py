"""Configurations by the classes and the names of modules."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Self

from .qconfig import default_reuse_input_qconfig, get_default_qat_qconfig, get_default_qconfig

__all__ = ["QConfigMapping", "get_default_qat_qconfig_mapping", "get_default_qconfig_mapping"]


class QConfigMapping:
    """Configurations for all modules, for those of a class, and for those of a name. The most specific one applies.

    >>> own = torch.ao.quantization
    >>> mapping = own.QConfigMapping().set_global(own.default_qconfig).set_module_name("last", None)
    >>> mapping.global_qconfig is own.default_qconfig
    True
    """

    def __init__(self) -> None:
        self.global_qconfig: Any = None
        self.object_type_qconfigs: OrderedDict[Any, Any] = OrderedDict()
        self.module_name_regex_qconfigs: OrderedDict[str, Any] = OrderedDict()
        self.module_name_qconfigs: OrderedDict[str, Any] = OrderedDict()
        self.module_name_object_type_order_qconfigs: OrderedDict[Any, Any] = OrderedDict()

    def set_global(self, global_qconfig: Any) -> Self:
        """Sets the configuration of all modules."""
        self.global_qconfig = global_qconfig
        return self

    def set_object_type(self, object_type: Any, qconfig: Any) -> Self:
        """Sets the configuration of a class or a function."""
        self.object_type_qconfigs[object_type] = qconfig
        return self

    def set_module_name_regex(self, module_name_regex: str, qconfig: Any) -> Self:
        """Sets the configuration of modules whose name matches."""
        self.module_name_regex_qconfigs[module_name_regex] = qconfig
        return self

    def set_module_name(self, module_name: str, qconfig: Any) -> Self:
        """Sets the configuration of the module of that name."""
        self.module_name_qconfigs[module_name] = qconfig
        return self

    def set_module_name_object_type_order(self, module_name: str, object_type: Any, index: int, qconfig: Any) -> Self:
        """Sets the configuration of the call of that number in a module."""
        self.module_name_object_type_order_qconfigs[module_name, object_type, index] = qconfig
        return self

    def to_dict(self) -> dict[str, Any]:
        """The mapping as a dictionary."""
        order = self.module_name_object_type_order_qconfigs
        return {
            "": self.global_qconfig,
            "object_type": list(self.object_type_qconfigs.items()),
            "module_name_regex": list(self.module_name_regex_qconfigs.items()),
            "module_name": list(self.module_name_qconfigs.items()),
            "module_name_object_type_order": [(*key, value) for key, value in order.items()],
        }

    @classmethod
    def from_dict(cls, qconfig_dict: dict[str, Any]) -> QConfigMapping:
        """The mapping that `to_dict` describes."""
        made = cls().set_global(qconfig_dict.get(""))
        for kind, config in qconfig_dict.get("object_type", ()):
            made.set_object_type(kind, config)
        for name, config in qconfig_dict.get("module_name_regex", ()):
            made.set_module_name_regex(name, config)
        for name, config in qconfig_dict.get("module_name", ()):
            made.set_module_name(name, config)
        for name, kind, index, config in qconfig_dict.get("module_name_object_type_order", ()):
            made.set_module_name_object_type_order(name, kind, index, config)
        return made


def get_default_qconfig_mapping(backend: str = "x86", version: int = 0) -> QConfigMapping:
    """The configurations that suit a library.

    >>> torch.ao.quantization.get_default_qconfig_mapping("fbgemm").global_qconfig.weight().qscheme
    torch.per_channel_symmetric
    """
    made = QConfigMapping().set_global(get_default_qconfig(backend, version))
    return made.set_object_type("reshape", default_reuse_input_qconfig)


def get_default_qat_qconfig_mapping(backend: str = "x86", version: int = 1) -> QConfigMapping:
    """The configurations that suit a library, for training with fake quantisation.

    >>> torch.ao.quantization.get_default_qat_qconfig_mapping("fbgemm").global_qconfig.activation().dtype
    torch.quint8
    """
    made = QConfigMapping().set_global(get_default_qat_qconfig(backend, version))
    return made.set_object_type("reshape", default_reuse_input_qconfig)


def __dir__() -> list[str]:
    return __all__
