"""Which modules of a model become units of their own (`torch.distributed.fsdp.wrap`)."""

import contextlib
import functools
import warnings
from abc import ABC, abstractmethod

from rushlight.nn import ModuleDict, ModuleList, MultiheadAttention

__all__ = [
    "always_wrap_policy",
    "lambda_auto_wrap_policy",
    "transformer_auto_wrap_policy",
    "size_based_auto_wrap_policy",
    "enable_wrap",
    "wrap",
    "CustomPolicy",
    "ModuleWrapPolicy",
]


def __dir__() -> list[str]:
    return __all__


def always_wrap_policy(*args, **kwargs):
    """A policy that wraps every module.

    >>> torch.distributed.fsdp.wrap.always_wrap_policy()
    True
    """
    return True


def _or_policy(module, recurse, nonwrapped_numel, policies):
    """Whether one of several policies wraps a module."""
    return any(policy(module=module, recurse=recurse, nonwrapped_numel=nonwrapped_numel) for policy in policies)


class _Policy(ABC):
    """A policy that sees the whole model at once."""

    @abstractmethod
    def _run_policy(self, root_module, ignored_modules, root_kwargs):
        """The modules to wrap, and the options of each."""


class ModuleWrapPolicy(_Policy):
    """Wraps the modules of some classes.

    Args:
        module_classes: the classes.

    >>> policy = torch.distributed.fsdp.wrap.ModuleWrapPolicy({torch.nn.Linear})
    >>> policy(torch.nn.Linear(2, 2), recurse=False), policy(torch.nn.ReLU(), recurse=False)
    (True, False)
    """

    def __init__(self, module_classes):
        self._module_classes = set(module_classes)

    def _run_policy(self, root_module, ignored_modules, root_kwargs):
        kinds = tuple(self._module_classes)
        return {
            module: dict(root_kwargs)
            for module in root_module.modules()
            if module not in ignored_modules and isinstance(module, kinds)
        }

    def __call__(self, module, recurse, *args, **kwargs):
        return recurse or isinstance(module, tuple(self._module_classes))

    def __repr__(self):
        return super().__repr__() + f"({self._module_classes})"


class CustomPolicy(_Policy):
    """Wraps the modules that a function chooses.

    Args:
        lambda_fn: returns False, True, or a dictionary of options that replace those of the whole model.

    >>> policy = torch.distributed.fsdp.wrap.CustomPolicy(lambda module: isinstance(module, torch.nn.Linear))
    >>> len(policy._run_policy(torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU()), set(), {}))
    1
    """

    def __init__(self, lambda_fn):
        self._lambda_fn = lambda_fn

    def _run_policy(self, root_module, ignored_modules, root_kwargs):
        found = {}
        for module in root_module.modules():
            if module in ignored_modules:
                continue
            answer = self._lambda_fn(module)
            if not isinstance(answer, (dict, bool)):
                raise ValueError(
                    f"The lambda_fn passed to CustomPolicy should return False/True or a kwarg dict, but it returned {answer}"
                )
            if answer:
                found[module] = {**root_kwargs, **(answer if isinstance(answer, dict) else {})}
        return found


def lambda_auto_wrap_policy(module, recurse, nonwrapped_numel, lambda_fn):
    """A policy that wraps the modules for which a function returns True.

    >>> torch.distributed.fsdp.wrap.lambda_auto_wrap_policy(torch.nn.ReLU(), False, 0, lambda module: False)
    False
    """
    return recurse or lambda_fn(module)


def transformer_auto_wrap_policy(module, recurse, nonwrapped_numel, transformer_layer_cls):
    """A policy that wraps the modules of some classes, for example the layers of a transformer.

    >>> torch.distributed.fsdp.wrap.transformer_auto_wrap_policy(torch.nn.ReLU(), False, 0, {torch.nn.ReLU})
    True
    """
    return recurse or isinstance(module, tuple(transformer_layer_cls))


def size_based_auto_wrap_policy(
    module,
    recurse,
    nonwrapped_numel,
    min_num_params=int(1e8),
    force_leaf_modules=None,
    exclude_wrap_modules=None,
):
    """A policy that wraps modules with many parameters that are not wrapped yet.

    Args:
        module: the module.
        recurse: whether the question is to look at its children, or to wrap it.
        nonwrapped_numel: the elements of its parameters that are not wrapped.
        min_num_params: the least number of elements.
        force_leaf_modules: classes whose children are not looked at; by default `MultiheadAttention`.
        exclude_wrap_modules: classes that are not wrapped; by default `ModuleList` and `ModuleDict`.

    >>> torch.distributed.fsdp.wrap.size_based_auto_wrap_policy(torch.nn.Linear(9, 9), False, 90, min_num_params=50)
    True
    """
    policy = size_based_auto_wrap_policy
    leaves = policy.FORCE_LEAF_MODULES if force_leaf_modules is None else force_leaf_modules
    excluded = policy.EXCLUDE_WRAP_MODULES if exclude_wrap_modules is None else exclude_wrap_modules
    return nonwrapped_numel >= min_num_params and not isinstance(module, tuple(leaves if recurse else excluded))


size_based_auto_wrap_policy.EXCLUDE_WRAP_MODULES = {ModuleList, ModuleDict}  # type: ignore[attr-defined]
size_based_auto_wrap_policy.FORCE_LEAF_MODULES = {MultiheadAttention}  # type: ignore[attr-defined]

#: The class and the options of the innermost `enable_wrap`, or None.
_enabled = None


@contextlib.contextmanager
def enable_wrap(*, wrapper_cls, **wrapper_kwargs):
    """A context in which `wrap` wraps modules.

    Args:
        wrapper_cls: the class.
        wrapper_kwargs: its options.

    Raises:
        NotImplementedError: it is inside of another one.

    >>> from rushlight.distributed.fsdp.wrap import enable_wrap, wrap
    >>> with enable_wrap(wrapper_cls=torch.nn.Sequential):
    ...     print(type(wrap(torch.nn.ReLU())).__name__)
    Sequential
    """
    global _enabled
    if _enabled is not None:
        raise NotImplementedError(
            "You are already within an autowrap context and we currently do not supported nested autowrap."
        )
    _enabled = wrapper_cls, wrapper_kwargs
    try:
        yield
    finally:
        _enabled = None


def wrap(module, **wrap_overrides):
    """Wraps a module if `enable_wrap` is around.

    Args:
        module: the module.
        wrap_overrides: options in place of those of `enable_wrap`.

    >>> torch.distributed.fsdp.wrap.wrap(torch.nn.ReLU())
    ReLU()
    """
    if _enabled is None:
        return module
    wrapper, options = _enabled
    return wrapper(module, **{**options, **wrap_overrides})


def wrap_children(root, policy, wrapper, ignored_modules, ignored, options):
    """Wraps the modules below a model that a policy chooses.

    Args:
        root: the model, which is not wrapped itself.
        policy: an instance of `ModuleWrapPolicy` or `CustomPolicy`, or a function.
        wrapper: the class that wraps, whose instances the model must not have yet; or a function.
        ignored_modules, ignored: modules and parameters to leave alone.
        options: those of the wrapper.
    """
    for name, module in root.named_modules():
        if isinstance(wrapper, type) and isinstance(module, wrapper):
            raise ValueError(
                f"FSDP auto wrapping requires modules to not already have FSDP applied but found {name} in\n{root}"
            )
    precision = options.get("mixed_precision")
    kept = tuple(precision._module_classes_to_ignore) if precision is not None else ()
    exact = {module for module in root.modules() if module not in ignored_modules and isinstance(module, kept)}
    if exact:
        warnings.warn(
            "Both mixed precision and an auto_wrap_policy were specified to FSDP, where the wrapped module has submodules of "
            f"type:\n{ {type(module) for module in exact} }\nThese modules will be wrapped as separate FSDP instacnes with "
            "mixed precision disabled.",
            stacklevel=3,
        )
    if isinstance(policy, _Policy):
        chosen = policy._run_policy(root, ignored_modules, options)
        for module in exact:
            chosen[module] = {**chosen.get(module, options), "mixed_precision": None}
        wrapped = {module: functools.partial(wrapper, **own) for module, own in chosen.items() if module is not root}
        _replace(root, wrapped, set())
        return

    def wrapped_with_count(module, is_root):
        """The module or its wrapper, and how many elements are wrapped."""
        count = sum(parameter.numel() for parameter in module.parameters() if parameter not in ignored)
        below = 0
        if precision is None and not policy(module=module, recurse=True, nonwrapped_numel=count):
            return module, 0
        for name, child in module.named_children():
            if child not in ignored_modules:
                made, number = wrapped_with_count(child, False)
                setattr(module, name, made)
                below += number
        if is_root or not (policy(module=module, recurse=False, nonwrapped_numel=count - below) or module in exact):
            return module, below
        return wrapper(module, **(options if module not in exact else {**options, "mixed_precision": None})), count

    wrapped_with_count(root, True)


def _replace(module, wrapped, seen):
    """Replaces the modules below one, the innermost first."""
    for name, child in list(module.named_children()):
        if child not in seen:
            seen.add(child)
            _replace(child, wrapped, seen)
            if child in wrapped:
                setattr(module, name, wrapped[child](child))
