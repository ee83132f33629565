"""Pruning: a mask sets entries or channels of a parameter to zero.

The parameter ``name`` becomes ``name_orig``, the mask is the buffer ``name_mask``, and ``name`` is their product, which
is computed before each call. Pruning again selects among the entries that earlier masks have kept.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from numbers import Integral, Real

import rushlight as torch
from rushlight._constructors import name_constructor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from rushlight import Tensor
    from rushlight.nn import Module

__all__ = [
    "BasePruningMethod",
    "CustomFromMask",
    "Identity",
    "L1Unstructured",
    "LnStructured",
    "PruningContainer",
    "RandomStructured",
    "RandomUnstructured",
    "custom_from_mask",
    "global_unstructured",
    "identity",
    "is_pruned",
    "l1_unstructured",
    "ln_structured",
    "random_structured",
    "random_unstructured",
    "remove",
]


class BasePruningMethod(ABC):
    """Selects the entries to prune. Subclasses define ``compute_mask`` and ``PRUNING_TYPE``.

    ``"unstructured"`` gets the remaining entries as a vector, ``"structured"`` the remaining channels along
    ``self.dim``, and ``"global"`` everything.

    Raises:
        AssertionError: in ``apply``, the importance scores do not have the shape of the parameter.

    >>> class Negative(torch.nn.utils.prune.BasePruningMethod):
    ...     PRUNING_TYPE = "unstructured"
    ...     def compute_mask(self, t, default_mask):
    ...         return default_mask * (t >= 0)
    >>> Negative().prune(torch.tensor([-1.0, 2.0])).abs()
    tensor([0., 2.])
    """

    PRUNING_TYPE: str
    _tensor_name: str

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask for a tensor of importance scores, combined with the previous mask."""

    def apply_mask(self, module: Module) -> Tensor:
        """The product of the parameter and its mask."""
        if self._tensor_name is None:
            raise AssertionError(f"Module {module} has to be pruned")
        original = getattr(module, self._tensor_name + "_orig")
        return getattr(module, self._tensor_name + "_mask").to(dtype=original.dtype) * original

    @classmethod
    def apply(
        cls, module: Module, name: str, *args: Any, importance_scores: Tensor | None = None, **kwargs: Any
    ) -> BasePruningMethod:
        """Prunes the parameter ``name`` of ``module``, also if it is pruned already. Returns the method in use."""
        earlier = _hooks(module, name)
        if len(earlier) > 1:
            raise AssertionError(
                f"Avoid adding multiple pruning hooks to the same tensor {name} of module {module}. Use a PruningContainer."
            )
        method: BasePruningMethod = cls(*args, **kwargs)
        method._tensor_name = name
        for key, before in earlier.items():
            del module._forward_pre_hooks[key]
            container = before if isinstance(before, PruningContainer) else PruningContainer(before)
            container.add_pruning_method(method)
            method = container

        original = getattr(module, name)
        scores = original if importance_scores is None else importance_scores
        if scores.shape != original.shape:
            raise AssertionError(
                f"importance_scores should have the same shape as parameter {name} of {module}, got {scores.shape} vs "
                f"{original.shape}"
            )
        first = not isinstance(method, PruningContainer)
        if first:
            module.register_parameter(name + "_orig", original)
            del module._parameters[name]
            mask = torch.ones_like(original)
        else:
            mask = getattr(module, name + "_mask").detach().clone(memory_format=torch.contiguous_format)
        try:
            module.register_buffer(name + "_mask", method.compute_mask(scores, default_mask=mask))
            setattr(module, name, method.apply_mask(module))
            module.register_forward_pre_hook(method)
        except Exception:
            if first:
                module.register_parameter(name, getattr(module, name + "_orig"))
                del module._parameters[name + "_orig"]
            raise
        return method

    def prune(self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Tensor | None = None) -> Tensor:
        """A pruned copy of a tensor, which need not belong to a module."""
        scores = t if importance_scores is None else importance_scores
        if scores.shape != t.shape:
            raise AssertionError(
                f"importance_scores should have the same shape as tensor t, got {scores.shape} vs {t.shape}"
            )
        before = torch.ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(scores, default_mask=before)

    def remove(self, module: Module) -> None:
        """Makes the pruned values permanent. The removed values are lost."""
        name = self._tensor_name
        if name is None:
            raise AssertionError(f"Module {module} has to be pruned before pruning can be removed")
        pruned = self.apply_mask(module)
        if hasattr(module, name):
            delattr(module, name)
        original = module._parameters[name + "_orig"]
        assert original is not None
        original.data = pruned.data
        del module._parameters[name + "_orig"], module._buffers[name + "_mask"]
        setattr(module, name, original)


class PruningContainer(BasePruningMethod):
    """Several pruning methods for one parameter, applied in order. Pruning twice creates one.

    >>> prune = torch.nn.utils.prune
    >>> linear = prune.l1_unstructured(torch.nn.Linear(4, 1), "weight", 1)
    >>> linear = prune.random_unstructured(linear, "weight", 2)
    >>> int(linear.weight_mask.sum()), len(next(iter(linear._forward_pre_hooks.values())))
    (1, 2)
    """

    def __init__(self, *args: BasePruningMethod) -> None:
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        # One argument, or none, is a method; several are a sequence of methods.
        if len(args) == 1:
            self._tensor_name = args[0]._tensor_name
        for method in args:
            if not self._pruning_methods and isinstance(method, BasePruningMethod):
                self._tensor_name = method._tensor_name
            self.add_pruning_method(method)

    def add_pruning_method(self, method: BasePruningMethod) -> None:
        """Adds a pruning method for the same parameter."""
        if not isinstance(method, BasePruningMethod):
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if method._tensor_name != self._tensor_name:
            raise ValueError(
                f"Can only add pruning methods acting on the parameter named '{self._tensor_name}' to PruningContainer "
                f"{self}. Found '{method._tensor_name}'"
            )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[BasePruningMethod]:
        return iter(self._pruning_methods)

    def __getitem__(self, idx: Any) -> Any:
        return self._pruning_methods[idx]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask of the last method, which selects among the entries that the earlier methods kept."""
        method = self._pruning_methods[-1]
        left = _candidates(method, t, default_mask)
        mask = default_mask.to(dtype=t.dtype, copy=True)
        mask[left] = method.compute_mask(t[left], default_mask=default_mask[left]).to(dtype=mask.dtype)
        return mask


def _candidates(method: Any, t: Tensor, mask: Tensor) -> Any:
    """The index of the part of a tensor from which a method selects."""
    if method.PRUNING_TYPE == "unstructured":
        return mask == 1
    whole: list[Any] = [slice(None)] * t.dim()
    if method.PRUNING_TYPE == "global":
        return tuple(whole)
    if method.PRUNING_TYPE != "structured":
        raise ValueError(f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}")
    if not hasattr(method, "dim"):
        raise AttributeError('Pruning methods of PRUNING_TYPE "structured" need to have the attribute `dim` defined.')
    dim = method.dim + t.dim() if method.dim < 0 else method.dim
    if dim < 0:
        raise IndexError(f"Index is out of bounds for tensor with dimensions {t.dim()}")
    whole[dim] = mask.sum(dim=[d for d in range(t.dim()) if d != dim]) != 0
    return tuple(whole)


class Identity(BasePruningMethod):
    """Prunes nothing, but creates the mask.

    >>> torch.nn.utils.prune.Identity().prune(torch.tensor([1.0, 2.0]))
    tensor([1., 2.])
    """

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return default_mask


class _Unstructured(BasePruningMethod):
    PRUNING_TYPE = "unstructured"
    # Whether to prune the entries with the largest or with the smallest scores.
    _largest = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        name_constructor(cls)

    def __init__(self, amount: float) -> None:
        _validate_pruning_amount_init(amount)
        self.amount = amount

    def _scores(self, t: Tensor) -> Tensor:
        raise NotImplementedError

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        count = _compute_nparams_toprune(self.amount, t.nelement())
        _validate_pruning_amount(count, t.nelement())
        mask = default_mask.clone(memory_format=torch.contiguous_format)
        if count != 0:
            mask.view(-1)[self._scores(t).view(-1).topk(k=count, largest=self._largest).indices] = 0
        return mask


class RandomUnstructured(_Unstructured):
    """Prunes random entries. ``amount`` is a fraction or a number of entries.

    >>> torch.nn.utils.prune.RandomUnstructured(2).prune(torch.ones(5)).sum()
    tensor(3.)
    """

    _largest = True

    def _scores(self, t: Tensor) -> Tensor:
        return torch.rand_like(t)


class L1Unstructured(_Unstructured):
    """Prunes the entries with the smallest absolute values. ``amount`` is a fraction or a number of entries.

    >>> torch.nn.utils.prune.L1Unstructured(0.5).prune(torch.tensor([1.0, -3.0, 2.0, -4.0])).abs()
    tensor([0., 3., 0., 4.])
    """

    def _scores(self, t: Tensor) -> Tensor:
        return t.abs()


class _Structured(BasePruningMethod):
    PRUNING_TYPE = "structured"
    amount: float
    dim: int

    def _kept_channels(self, t: Tensor, channels: int, count: int) -> Tensor:
        """The remaining channels, as an index into the dimension."""
        raise NotImplementedError

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        _validate_structured_pruning(t)
        _validate_pruning_dim(t, self.dim)
        channels = t.shape[self.dim]
        count = _compute_nparams_toprune(self.amount, channels)
        _validate_pruning_amount(count, channels)
        if count == 0:
            return default_mask
        place: list[Any] = [slice(None)] * t.dim()
        place[self.dim] = self._kept_channels(t, channels, count)
        mask = torch.zeros_like(t)
        mask[tuple(place)] = 1
        return mask.mul_(default_mask.to(dtype=mask.dtype))


class RandomStructured(_Structured):
    """Prunes random channels along ``dim``. ``amount`` is a fraction or a number of channels.

    >>> torch.nn.utils.prune.RandomStructured(1, dim=0).prune(torch.ones(3, 2)).sum()
    tensor(4.)
    """

    def __init__(self, amount: float, dim: int = -1) -> None:
        _validate_pruning_amount_init(amount)
        self.amount = amount
        self.dim = dim

    def _kept_channels(self, t: Tensor, channels: int, count: int) -> Tensor:
        drawn = torch.rand(channels)
        return drawn > drawn.kthvalue(k=count).values


class LnStructured(_Structured):
    """Prunes the channels along ``dim`` with the smallest norms of order ``n``. ``amount`` is a fraction or a number of
    channels.

    >>> torch.nn.utils.prune.LnStructured(1, n=2, dim=0).prune(torch.tensor([[1.0, 1.0], [2.0, 2.0]]))
    tensor([[0., 0.],
            [2., 2.]])
    """

    def __init__(self, amount: float, n: Any, dim: int = -1) -> None:
        _validate_pruning_amount_init(amount)
        self.amount = amount
        self.n = n
        self.dim = dim

    def _kept_channels(self, t: Tensor, channels: int, count: int) -> Tensor:
        return _compute_norm(t, self.n, self.dim).topk(k=channels - count).indices


class CustomFromMask(BasePruningMethod):
    """Prunes the entries that are zero in a given mask.

    >>> torch.nn.utils.prune.CustomFromMask(torch.tensor([1, 0])).prune(torch.tensor([3.0, 4.0]))
    tensor([3., 0.])
    """

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        if default_mask.shape != self.mask.shape:
            raise AssertionError(
                f"default_mask shape {default_mask.shape} must match self.mask shape {self.mask.shape}"
            )
        return default_mask * self.mask.to(dtype=default_mask.dtype)


def identity(module: Module, name: str) -> Module:
    """Gives a parameter a mask without pruning anything. Returns the module.

    >>> linear = torch.nn.utils.prune.identity(torch.nn.Linear(2, 1), "weight")
    >>> sorted(name for name, _ in linear.named_parameters())
    ['bias', 'weight_orig']
    """
    Identity.apply(module, name)
    return module


def random_unstructured(module: Module, name: str, amount: float) -> Module:
    """Prunes random entries of a parameter. Returns the module.

    Args:
        module, name: the module and the name of the parameter.
        amount: a fraction between 0 and 1, or a number of entries.

    Raises:
        ValueError: the amount is out of range.

    >>> linear = torch.nn.utils.prune.random_unstructured(torch.nn.Linear(4, 1), "weight", 0.5)
    >>> linear.weight_mask.sum()
    tensor(2.)
    """
    RandomUnstructured.apply(module, name, amount=amount)
    return module


def l1_unstructured(module: Module, name: str, amount: float, importance_scores: Tensor | None = None) -> Module:
    """Prunes the entries of a parameter with the smallest absolute values.

    >>> layer = torch.nn.utils.prune.l1_unstructured(torch.nn.Linear(3, 2), "weight", amount=4)
    >>> int((layer.weight == 0).sum()), sorted(layer.state_dict())
    (4, ['bias', 'weight_mask', 'weight_orig'])
    """
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module: Module, name: str, amount: float, dim: int) -> Module:
    """Prunes random channels of a parameter along a dimension. Returns the module.

    Args:
        module, name: the module and the name of the parameter.
        amount: a fraction between 0 and 1, or a number of channels.
        dim: the dimension of the channels.

    Raises:
        ValueError: the amount is out of range.

    >>> linear = torch.nn.utils.prune.random_structured(torch.nn.Linear(4, 3), "weight", 1, dim=0)
    >>> linear.weight_mask.sum()
    tensor(8.)
    """
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: Module, name: str, amount: float, n: Any, dim: int, importance_scores: Tensor | None = None
) -> Module:
    """Prunes the channels of a parameter along a dimension with the smallest norms. Returns the module.

    Args:
        module, name: the module and the name of the parameter.
        amount: a fraction between 0 and 1, or a number of channels.
        n: the order of the norm, as in `torch.norm`.
        dim: the dimension of the channels.
        importance_scores: a tensor whose norms are used instead of those of the parameter.

    Raises:
        ValueError: the amount is out of range.

    >>> linear = torch.nn.utils.prune.ln_structured(torch.nn.Linear(4, 3), "weight", 1, n=2, dim=0)
    >>> linear.weight_mask.sum()
    tensor(8.)
    """
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def global_unstructured(
    parameters: Any, pruning_method: Any, importance_scores: dict[Any, Tensor] | None = None, **kwargs: Any
) -> None:
    """Prunes several parameters (pairs ``(module, name)``) as if they were one vector.

    Args:
        parameters: the pairs.
        pruning_method: a class with the pruning type ``"unstructured"``.
        importance_scores: a dictionary from pairs to tensors that are used instead of the parameters.
        kwargs: arguments for the class, such as ``amount``.

    Raises:
        TypeError: ``parameters`` are not pairs, or the pruning type is wrong.

    >>> a, b = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
    >>> prune = torch.nn.utils.prune
    >>> prune.global_unstructured([(a, "weight"), (b, "weight")], prune.L1Unstructured, amount=3)
    >>> int(a.weight_mask.sum() + b.weight_mask.sum())
    5
    """
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    scores = {} if importance_scores is None else importance_scores
    if not isinstance(scores, dict):
        raise TypeError("global_unstructured(): importance_scores must be of type dict")
    method = pruning_method(**kwargs)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            f'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found method {pruning_method} of type '
            f"{method.PRUNING_TYPE}"
        )
    method._tensor_name = "temp"
    owned = [(module, name, getattr(module, name)) for module, name in parameters]
    importance = torch.cat([scores.get((module, name), own).reshape(-1) for module, name, own in owned])
    before = [getattr(module, name + "_mask", torch.ones_like(own)).reshape(-1) for module, name, own in owned]
    chosen = PruningContainer(method).compute_mask(importance, torch.cat(before))
    for (module, name, own), mask in zip(owned, chosen.split([own.numel() for _, _, own in owned])):
        custom_from_mask(module, name, mask=mask.view_as(own))


def custom_from_mask(module: Module, name: str, mask: Tensor) -> Module:
    """Prunes a parameter with a given mask of the same shape. Returns the module.

    >>> linear = torch.nn.utils.prune.custom_from_mask(torch.nn.Linear(2, 1), "weight", torch.tensor([[1, 0]]))
    >>> linear.weight[0, 1].abs().item()
    0.0
    """
    CustomFromMask.apply(module, name, mask)
    return module


def remove(module: Module, name: str) -> Module:
    """Makes the pruned values permanent and removes the mask. Returns the module.

    Raises:
        ValueError: the parameter is not pruned.

    >>> linear = torch.nn.utils.prune.l1_unstructured(torch.nn.Linear(2, 1), "weight", 1)
    >>> torch.nn.utils.prune.remove(linear, "weight").weight.count_nonzero()
    tensor(1)
    """
    for key, hook in _hooks(module, name).items():
        hook.remove(module)
        del module._forward_pre_hooks[key]
        return module
    raise ValueError(f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed")


def is_pruned(module: Module) -> bool:
    """Whether a parameter of the module or of a submodule is pruned.

    >>> torch.nn.utils.prune.is_pruned(torch.nn.Linear(2, 1))
    False
    """
    return any(
        isinstance(hook, BasePruningMethod)
        for _, part in module.named_modules()
        for hook in part._forward_pre_hooks.values()
    )


def _hooks(module: Module, name: str) -> dict[int, BasePruningMethod]:
    """The pruning hooks of a parameter, by their keys among the hooks of the module."""
    hooks = module._forward_pre_hooks.items()
    return {key: hook for key, hook in hooks if isinstance(hook, BasePruningMethod) and hook._tensor_name == name}


def _validate_pruning_amount_init(amount: Any) -> None:
    if not isinstance(amount, Real):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    if float(amount) < 0 or (not isinstance(amount, Integral) and float(amount) > 1.0):
        raise ValueError(f"amount={amount} should either be a float in the range [0, 1] or a non-negative integer")


def _validate_pruning_amount(amount: Any, tensor_size: int) -> None:
    """Refuses a number of entries that is larger than that of the tensor."""
    if isinstance(amount, Integral) and int(amount) > tensor_size:
        raise ValueError(f"amount={amount} should be smaller than the number of parameters to prune={tensor_size}")


def _compute_nparams_toprune(amount: Any, tensor_size: int) -> Any:
    """The number of entries to prune, out of ``tensor_size``, for a number or a fraction."""
    return amount if isinstance(amount, Integral) else round(amount * tensor_size)


def _validate_structured_pruning(t: Tensor) -> None:
    """Refuses a tensor without channels."""
    if t.dim() <= 1:
        raise ValueError(
            "Structured pruning can only be applied to multidimensional tensors. Found tensor of shape "
            f"{t.shape} with {t.dim()} dims"
        )


def _validate_pruning_dim(t: Tensor, dim: int) -> None:
    """Refuses a dimension that the tensor does not have."""
    if dim >= t.dim():
        raise IndexError(f"Invalid index {dim} for tensor of size {t.shape}")


def _compute_norm(t: Tensor, n: Any, dim: int) -> Tensor:
    """The norm of order ``n`` of each channel along a dimension."""
    return torch.norm(t, p=n, dim=[other for other in range(t.dim()) if other != dim % t.dim()])


def __dir__() -> list[str]:
    return __all__
