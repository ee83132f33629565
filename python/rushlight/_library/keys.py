"""torch's dispatch keys, by which functions of operators are registered."""

from __future__ import annotations

import rushlight as torch
from rushlight._dispatch_keys import DispatchKey

__all__ = ["backend_key", "check_key", "check_runs", "key_of", "runs"]

#: The keys whose functions run.
_RUNNING = frozenset(
    """CPU CUDA HIP XLA MPS IPU XPU HPU VE MTIA MAIA Lazy Meta PrivateUse1 Autograd AutogradCPU AutogradCUDA AutogradHIP
    AutogradXLA AutogradMPS AutogradIPU AutogradXPU AutogradHPU AutogradVE AutogradMTIA AutogradMAIA AutogradLazy AutogradMeta
    CompositeImplicitAutograd CompositeExplicitAutograd AutocastCPU AutocastCUDA AutocastXPU AutocastMPS AutocastHPU
    AutocastIPU AutocastPrivateUse1 AutocastMAIA AutocastMTIA AutocastXLA""".split()
)
#: The keys that torch reads and that are no members of `DispatchKey`.
_UNLISTED = frozenset(
    "AutocastMAIA AutocastMTIA AutocastXLA Batched FPGA Metal MkldnnCPU Named Tracer VmapMode Vulkan".split()
)


def _is_key(key: str) -> bool:
    return key in DispatchKey.__members__ or key in _UNLISTED


def check_key(key: str) -> None:
    """Raises a RuntimeError if there is no such key."""
    if not _is_key(key):
        raise RuntimeError(f"could not parse dispatch key: {key}")


def runs(key: str) -> bool:
    """Whether the function of a key ever runs."""
    return key in _RUNNING


def check_runs(key: str) -> None:
    """Raises a NotImplementedError if the function of a key would never run."""
    if not runs(key):
        raise NotImplementedError(
            f"A function for the dispatch key {key} would never run: rushlight's calls pass no such key."
        )


def backend_key(device_type: str) -> str:
    """The dispatch key of a type of devices: ``CPU``.

    Raises:
        RuntimeError: there is no such type.
    """
    kind = torch.device(device_type).type
    return {"meta": "Meta", "privateuseone": "PrivateUse1"}.get(kind, kind.upper())


def key_of(kind: str) -> str:
    """The dispatch key that a program calls by its name, by a type of devices, or by ``"default"``.

    Raises:
        RuntimeError: there is no such key and no such type.
        NotImplementedError: the function of the key would never run.
    """
    if kind == "default":
        return "CompositeExplicitAutograd"
    if _is_key(kind):
        check_runs(kind)
        return kind
    return backend_key(kind)
