"""`torch.utils._foreach_utils`: groups of tensors of one device and dtype, and which devices have fused functions in torch."""

from __future__ import annotations

import rushlight as torch
from rushlight._engine_names import _get_privateuse1_backend_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rushlight import Tensor

    _Lists = list[list[Tensor | None]]


def _get_foreach_kernels_supported_devices() -> list[str]:
    """The types of devices for which torch's optimizers prefer one call for all parameters."""
    return ["cuda", "xpu", "mtia", _get_privateuse1_backend_name()]


def _get_fused_kernels_supported_devices() -> list[str]:
    """The types of devices for which torch's optimizers have fused steps."""
    return ["mps", "cuda", "xpu", "hpu", "cpu", "mtia", _get_privateuse1_backend_name()]


def _device_has_foreach_support(device: torch.device) -> bool:
    """Whether `torch._foreach_add` and similar functions have a fast form for a device in torch."""
    return device.type in (*_get_foreach_kernels_supported_devices(), "cpu")


def _has_foreach_support(tensors: Iterable[Tensor | None], device: torch.device) -> bool:
    """Whether this holds for the device, and the tensors are plain ones: parameters are not."""
    return _device_has_foreach_support(device) and all(
        tensor is None or type(tensor) is torch.Tensor for tensor in tensors
    )


def _group_tensors_by_device_and_dtype(
    tensorlistlist: Sequence[Sequence[Tensor | None]], with_indices: bool = False
) -> dict[tuple[torch.device, torch.dtype], tuple[_Lists, list[int]]]:
    """Splits parallel lists of tensors by the device and the dtype of the tensors in the first list.

    Args:
        tensorlistlist: lists of one length, or empty ones. All but the first one may have None.
        with_indices: whether to tell the places of each group in the lists.

    Returns:
        for each device and dtype the lists of its tensors, and their places.

    Raises:
        RuntimeError: there is no list, the lists differ in length, or the first one has a None.

    >>> from rushlight.utils._foreach_utils import _group_tensors_by_device_and_dtype
    >>> groups = _group_tensors_by_device_and_dtype([[torch.ones(1), torch.ones(1).double()]], with_indices=True)
    >>> [(str(dtype), places) for (_, dtype), (_, places) in groups.items()]
    [('torch.float32', [0]), ('torch.float64', [1])]
    """
    unmet = None
    if not tensorlistlist:
        unmet = "!nested_tensorlist.empty()"
    elif not tensorlistlist[0]:
        unmet = "!nested_tensorlist[0].empty()"
    elif any(len(tensors) not in (0, len(tensorlistlist[0])) for tensors in tensorlistlist):
        unmet = (
            "std::all_of( nested_tensorlist.cbegin(), nested_tensorlist.cend(), [&](const auto& tensorlist) -> bool { "
            "return tensorlist.size() == num_tensors || tensorlist.size() == 0; })"
        )
    if unmet is not None:
        raise RuntimeError(
            f"Expected {unmet} to be true, but got false.  (Could this error message be improved?  If so, please report "
            "an enhancement request to PyTorch.)"
        )
    groups: dict[tuple[torch.device, torch.dtype], tuple[_Lists, list[int]]] = {}
    for place, first in enumerate(tensorlistlist[0]):
        if first is None:
            raise RuntimeError(
                "Tensors of the first list of nested Tensor lists are supposed to be defined but the "
                f"{place}-th Tensor is not."
            )
        lists, places = groups.setdefault((first.device, first.dtype), ([[] for _ in tensorlistlist], []))
        for into, tensors in zip(lists, tensorlistlist, strict=True):
            if tensors:
                into.append(tensors[place])
        if with_indices:
            places.append(place)
    return groups
