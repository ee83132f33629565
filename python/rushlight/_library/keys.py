"""torch's dispatch keys, by which functions of operators are registered."""

from __future__ import annotations

import rushlight as torch

__all__ = ["backend_key", "check_key", "check_runs", "key_of"]

#: The keys whose functions run.
_KEYS = frozenset(
    """CPU CUDA HIP XLA MPS IPU XPU HPU VE MTIA MAIA Lazy Meta PrivateUse1 Autograd AutogradCPU AutogradCUDA AutogradHIP
    AutogradXLA AutogradMPS AutogradIPU AutogradXPU AutogradHPU AutogradVE AutogradMTIA AutogradMAIA AutogradLazy AutogradMeta
    CompositeImplicitAutograd CompositeExplicitAutograd""".split()
)
#: Those of torch that rushlight's calls do not pass.
_UNUSED_KEYS = frozenset(
    """Undefined BackendSelect Python PythonDispatcher PythonTLSSnapshot Functionalize FuncTorchBatched FuncTorchVmapMode
    FuncTorchGradWrapper FuncTorchDynamicLayerFrontMode FuncTorchDynamicLayerBackMode ADInplaceOrView AutogradOther
    AutogradFunctionality AutogradNestedTensor AutogradPrivateUse1 AutogradPrivateUse2 AutogradPrivateUse3 AutocastCPU AutocastCUDA
    AutocastXLA AutocastMPS AutocastXPU AutocastHPU AutocastMTIA AutocastMAIA AutocastPrivateUse1 Batched VmapMode Conjugate
    Negative ZeroTensor Named Tracer Dense Sparse SparseCPU SparseCUDA SparseCsrCPU SparseCsrCUDA SparseMeta Quantized
    QuantizedCPU QuantizedCUDA QuantizedMeta NestedTensor NestedTensorCPU NestedTensorCUDA MkldnnCPU FPGA Vulkan Metal
    PrivateUse2 PrivateUse3 CompositeExplicitAutogradNonFunctional CompositeImplicitAutogradNestedTensor""".split()
)


def check_key(key: str) -> None:
    """Raises a RuntimeError if there is no such key."""
    if key not in _KEYS and key not in _UNUSED_KEYS:
        raise RuntimeError(f"could not parse dispatch key: {key}")


def check_runs(key: str) -> None:
    """Raises a NotImplementedError if the function of a key would never run."""
    if key in _UNUSED_KEYS:
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
    if kind in _KEYS or kind in _UNUSED_KEYS:
        check_runs(kind)
        return kind
    return backend_key(kind)
