"""`torch._C.DispatchKey` and `DispatchKeySet`: torch's names for the steps of a call, which libraries put into sets."""

from __future__ import annotations

from enum import Enum

import rushlight as torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_BACKENDS = "CPU CUDA HIP XLA MPS IPU XPU HPU VE Lazy MTIA MAIA PrivateUse1 PrivateUse2 PrivateUse3 Meta".split()
#: The keys that stand for one key of each backend, with what these begin with.
_PER_BACKEND = {
    "Dense": "",
    "Quantized": "Quantized",
    "Sparse": "Sparse",
    "SparseCsr": "SparseCsr",
    "NestedTensor": "NestedTensor",
    "AutogradFunctionality": "Autograd",
}
#: The keys without a bit in a set.
_ALIASES = """Autograd CompositeImplicitAutograd FuncTorchBatchedDecomposition CompositeImplicitAutogradNestedTensor
    CompositeExplicitAutograd CompositeExplicitAutogradNonFunctional""".split()
#: The other keys, and the number of each.
_SINGLE = {
    "Undefined": 0, "Dense": 1, "Quantized": 5, "Sparse": 8, "SparseCsr": 9, "NestedTensor": 10, "BackendSelect": 11,
    "Python": 13, "FuncTorchDynamicLayerBackMode": 14, "Functionalize": 15, "Conjugate": 16, "Negative": 17,
    "ZeroTensor": 18, "ADInplaceOrView": 19, "AutogradOther": 20, "AutogradFunctionality": 21,
    "AutogradNestedTensor": 22, "AutocastCPU": 24, "AutocastXPU": 27, "AutocastIPU": 28, "AutocastHPU": 29,
    "AutocastMPS": 31, "AutocastCUDA": 32, "AutocastPrivateUse1": 33, "FuncTorchBatched": 34, "FuncTorchVmapMode": 36,
    "FuncTorchGradWrapper": 39, "PythonTLSSnapshot": 41, "FuncTorchDynamicLayerFrontMode": 42, "PreDispatch": 45,
    "PythonDispatcher": 46,
}  # fmt: skip


def _numbered() -> dict[str, int]:
    """The keys with torch's numbers: after the single ones those of each backend, then the aliases."""
    numbers, following = dict(_SINGLE), 47
    for prefix in _PER_BACKEND.values():
        # The number before the first backend is torch's mark of the beginning.
        numbers |= {prefix + backend: following + 2 + at for at, backend in enumerate(_BACKENDS)}
        following += 1 + len(_BACKENDS)
    return numbers | {alias: following + 1 + at for at, alias in enumerate(_ALIASES)}


class _Numbered(Enum):
    def __int__(self) -> int:
        return self.value


if TYPE_CHECKING:

    class DispatchKey(_Numbered):
        """The keys are made at run time."""

else:
    DispatchKey = _Numbered("DispatchKey", _numbered(), module="rushlight._C")


def _parts(key: DispatchKey) -> tuple[str | None, str | None]:
    """The functionality and the backend of a key."""
    if key.name in _ALIASES or key.name == "Undefined":
        return None, None
    for functionality, prefix in _PER_BACKEND.items():
        backend = key.name.removeprefix(prefix)
        if backend in _BACKENDS and key.name.startswith(prefix):
            return functionality, backend
    return key.name, None


class DispatchKeySet:
    """A set of dispatch keys. As in torch, it has a bit for each functionality and one for each backend, so that the union
    of a key of one backend and a key of another has four keys.

    >>> key = torch._C.DispatchKey
    >>> torch._C.DispatchKeySet(key.CPU) | torch._C.DispatchKeySet(key.AutogradCUDA)
    DispatchKeySet(CPU, CUDA, AutogradCPU, AutogradCUDA)
    """

    __slots__ = ("_backends", "_functionalities")
    _functionalities: frozenset[str]
    _backends: frozenset[str]

    def __init__(self, key: DispatchKey) -> None:
        if not isinstance(key, DispatchKey):
            raise TypeError(
                "__init__(): incompatible constructor arguments. The following argument types are supported:\n"
                "    1. torch._C.DispatchKeySet(arg0: torch._C.DispatchKey)"
            )
        functionality, backend = _parts(key)
        self._functionalities = frozenset(() if functionality is None else (functionality,))
        self._backends = frozenset(() if backend is None else (backend,))

    def _with(self, functionalities: Iterable[str], backends: Iterable[str]) -> DispatchKeySet:
        made = object.__new__(DispatchKeySet)
        made._functionalities, made._backends = frozenset(functionalities), frozenset(backends)
        return made

    def __or__(self, other: DispatchKeySet) -> DispatchKeySet:
        return self._with(self._functionalities | other._functionalities, self._backends | other._backends)

    def __and__(self, other: DispatchKeySet) -> DispatchKeySet:
        return self._with(self._functionalities & other._functionalities, self._backends & other._backends)

    def __sub__(self, other: DispatchKeySet) -> DispatchKeySet:
        return self._with(self._functionalities - other._functionalities, self._backends)

    def has(self, key: DispatchKey) -> bool:
        """Whether the set has the bits of a key."""
        functionality, backend = _parts(key)
        return (functionality is None or functionality in self._functionalities) and (
            backend is None or backend in self._backends
        )

    def add(self, key: DispatchKey) -> DispatchKeySet:
        """The set with another key."""
        return self | DispatchKeySet(key)

    def remove(self, key: DispatchKey) -> DispatchKeySet:
        """The set without the functionality of a key."""
        return self - DispatchKeySet(key)

    def _keys(self) -> list[str]:
        names: list[str] = []
        for functionality in sorted(self._functionalities, key=_SINGLE.__getitem__):
            if functionality in _PER_BACKEND:
                names += [_PER_BACKEND[functionality] + name for name in _BACKENDS if name in self._backends]
            else:
                names.append(functionality)
        return names

    def highestPriorityTypeId(self) -> DispatchKey:
        """The last key of the set, whose function a call runs first."""
        return DispatchKey[(self._keys() or ["Undefined"])[-1]]

    def __repr__(self) -> str:
        return f"DispatchKeySet({', '.join(self._keys())})"


class _ExcludeDispatchKeyGuard:
    """A block in which calls skip the steps of some keys. Only those of mixed precision can be skipped.

    Raises:
        NotImplementedError: the set has other keys.

    >>> keys = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)
    >>> with torch.autocast("cpu"), torch._C._ExcludeDispatchKeyGuard(keys):
    ...     torch.is_autocast_enabled("cpu")
    False
    """

    def __init__(self, keys: DispatchKeySet) -> None:
        if other := [key for key in keys._keys() if not key.startswith("Autocast")]:
            raise NotImplementedError(f"rushlight's calls cannot skip the steps of {', '.join(other)}.")
        self._devices = [device for device in ("cpu", "cuda") if f"Autocast{device.upper()}" in keys._keys()]
        self._before: list[bool] = []

    def __enter__(self) -> None:
        self._before = [torch.is_autocast_enabled(device) for device in self._devices]
        for device in self._devices:
            torch.set_autocast_enabled(device, False)

    def __exit__(self, *_: object) -> None:
        for device, enabled in zip(self._devices, self._before):
            torch.set_autocast_enabled(device, enabled)
