"""What sparsifiers share: the weights, their masks, and the steps from a dense model to a sparse one."""

from __future__ import annotations

import abc
import copy
from collections import defaultdict
from typing import Any

import rushlight as torch
from rushlight import nn
from rushlight.nn.utils import parametrize
from rushlight.nn.utils.parametrize import type_before_parametrizations

from .utils import FakeSparsity, get_arg_info_from_tensor_fqn, module_contains_param, module_to_fqn, swap_module

__all__ = ["BaseSparsifier"]

SUPPORTED_MODULES: set[type[nn.Module]] = {nn.Linear}

KEYS_NOT_IN_STATE_DICT = ["module", "module_fqn", "tensor_name"]


class BaseSparsifier(abc.ABC):
    """Keeps masks over weights of a model. Subclasses define ``update_mask(module, tensor_name, **options)``.

    `prepare` gives each weight a mask of ones, `step` computes the masks again, and `squash_mask` multiplies the weights by
    them for good.

    Args:
        defaults: the options of weights whose configuration does not say otherwise.

    >>> class Corner(torch.ao.pruning.BaseSparsifier):
    ...     def update_mask(self, module, tensor_name, **options):
    ...         getattr(module.parametrizations, tensor_name)[0].mask[0, 0] = 0
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 1))
    >>> sparsifier = Corner()
    >>> sparsifier.prepare(model, [{"tensor_fqn": "0.weight"}])
    >>> sparsifier.step()
    >>> sparsifier.squash_mask()
    >>> model[0].weight[0, 0].item() == 0
    True
    """

    def __init__(self, defaults: dict[str, Any] | None = None) -> None:
        super().__init__()
        self.defaults = defaults or {}
        self.state: dict[str, dict[str, Any]] = defaultdict(dict)
        self.groups: list[dict[str, Any]] = []
        self.enable_mask_update = True

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "groups": self.groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def __repr__(self) -> str:
        parts = []
        for number, group in enumerate(self.groups):
            shown = {"module": group["module"], **{key: group[key] for key in sorted(group)}}
            lines = "".join(f"\t    {key}: {value}\n" for key, value in shown.items())
            parts.append(f"\n\tGroup {number}\n{lines}")
        return f"{type(self).__name__} ({''.join(parts)})"

    def state_dict(self) -> dict[str, Any]:
        """The masks by the names of the weights, and the options of each weight."""
        shown = [{key: value for key, value in one.items() if key not in KEYS_NOT_IN_STATE_DICT} for one in self.groups]
        return {"state": self.state, "groups": shown}

    def load_state_dict(self, state_dict: dict[str, Any], strict: bool = True) -> None:
        """Takes the masks and options of a state. The model must be prepared.

        Raises:
            RuntimeError: the model lacks a module of the state, and `strict` is true.
        """
        groups, states = copy.deepcopy(state_dict["groups"]), state_dict["state"]
        for name, state in states.items():
            where = get_arg_info_from_tensor_fqn(self.model, name)
            module, tensor_name = where["module"], where["tensor_name"]
            if module is None:
                if strict:
                    raise RuntimeError(f"Error loading {name} into the model")
                continue
            chain = module.parametrizations[tensor_name] if parametrize.is_parametrized(module, tensor_name) else ()
            found = next((one for one in chain if isinstance(one, FakeSparsity)), None)
            if found is None:
                found = FakeSparsity(torch.ones(getattr(module, tensor_name).shape))
                parametrize.register_parametrization(module, tensor_name, found)
            if state.get("mask") is not None:
                found.mask = state.pop("mask")
            for group in groups:
                if group["tensor_fqn"] == name:
                    group.update(where)
        self.__setstate__({"state": states, "groups": groups})

    def make_config_from_model(
        self, model: nn.Module, SUPPORTED_MODULES: set[type[nn.Module]] = SUPPORTED_MODULES
    ) -> None:
        """Makes the configuration of a model: the weights of all its modules of some classes."""
        self.config = []
        waiting = [model]
        while waiting:
            for child in waiting.pop().children():
                if type(child) in SUPPORTED_MODULES:
                    self.config.append({"tensor_fqn": f"{module_to_fqn(model, child)}.weight"})
                else:
                    waiting.append(child)

    def prepare(self, model: nn.Module, config: list[dict[str, Any]] | None) -> None:
        """Gives weights of a model a mask, in place.

        Args:
            model: the model.
            config: for each weight a dictionary with its name, ``tensor_fqn``, and options; None for the weights of all
                linear layers.

        Raises:
            AssertionError: an element is no dictionary, has no ``tensor_fqn``, or contradicts it.
        """
        self.model = model
        if config is None:
            self.make_config_from_model(model)
        else:
            self.config = config
        for given in self.config:
            if not isinstance(given, dict):
                raise AssertionError(
                    "config elements should be dicts not modules i.e.:[{`tensor_fqn`: `foo.bar.weight`}, {`tensor_fqn`: ... }, ...]"
                )
            group = {**copy.deepcopy(self.defaults), **given}
            name = group.get("tensor_fqn")
            if name is None:
                raise AssertionError(
                    "tensor_fqn is a required argument in the sparsity config which replaces previous `module` and "
                    "[module]`fqn` arguments"
                )
            for key, value in get_arg_info_from_tensor_fqn(model, name).items():
                if key in group and group[key] != value:
                    raise AssertionError(
                        f"Given both `{key}` and `tensor_fqn` in the config, it is expected them to agree!"
                    )
                group[key] = value
            self.groups.append(group)
        self._prepare()

    def _prepare(self, *args: Any, **kwargs: Any) -> None:
        for group in self.groups:
            module, name = group["module"], group["tensor_name"]
            mask = group["mask"] if "mask" in group else torch.ones_like(getattr(module, name))
            self.state[group["tensor_fqn"]]["mask"] = mask
            made = group.get("parametrization", FakeSparsity)(mask)
            parametrize.register_parametrization(module, name, made)

    def squash_mask(
        self,
        params_to_keep: tuple[str, ...] | None = None,
        params_to_keep_per_layer: dict[str, tuple[str, ...]] | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        """Multiplies the weights by their masks and removes the masks.

        Args:
            params_to_keep: names of options that modules keep, in ``module.sparse_params``.
            params_to_keep_per_layer: further ones, by the names of modules.
        """
        for group in self.groups:
            parametrize.remove_parametrizations(group["module"], group["tensor_name"], leave_parametrized=True)
            kept = [*(params_to_keep or ()), *((params_to_keep_per_layer or {}).get(group["module_fqn"]) or ())]
            if kept:
                group["module"].sparse_params = {key: group[key] for key in kept}

    def convert(
        self,
        module: nn.Module,
        mapping: dict[type[nn.Module], type[nn.Module]] | None = None,
        inplace: bool = False,
        parameterization: type[nn.Module] = FakeSparsity,
    ) -> nn.Module:
        """Replaces the modules with a mask below a module by what ``from_dense`` of another class makes of them.

        Args:
            module: the module.
            mapping: the other class for each class.
            inplace: whether to change the module, and not a copy.
            parameterization: the class of the masks.

        Raises:
            NotImplementedError: there is no mapping.
        """
        if mapping is None:
            raise NotImplementedError("Need to auto generate mapping ")
        target = module if inplace else copy.deepcopy(module)
        for name, child in list(target.named_children()):
            if module_contains_param(child, parameterization) and type_before_parametrizations(child) in mapping:
                target._modules[name] = swap_module(child, mapping)
            else:
                self.convert(child, mapping, True, parameterization)
        return target

    def step(self, use_path: bool = True) -> None:
        """Computes all masks again, unless ``enable_mask_update`` is false. The argument has no effect."""
        if self.enable_mask_update:
            with torch.no_grad():
                for group in self.groups:
                    self.update_mask(**group)

    @abc.abstractmethod
    def update_mask(self, module: nn.Module, tensor_name: str, **kwargs: Any) -> None:
        """Computes the mask of one weight, from the options of its configuration."""
