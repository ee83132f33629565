"""The devices of a checkpoint's storages: the original device, or that of `map_location`."""

from __future__ import annotations

import rushlight as torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


_registry: list = []


def register_package(
    priority: int, tagger: Callable[[Any], str | None], deserializer: Callable[[Any, str], Any]
) -> None:
    """Registers functions that name the device of a storage when it is saved, and restore it when it is loaded.

    They are tried in the order of priorities. torch's own priorities are 10 for the CPU, and 20 and more for others.

    Args:
        priority: smaller priorities are tried first.
        tagger: a function from a storage to the name of its device, or None for other devices.
        deserializer: a function from a storage and a name to the storage on that device, or None.

    >>> torch.serialization.register_package(99, lambda storage: None, lambda storage, location: None)
    """
    _registry.append((priority, tagger, deserializer))
    _registry.sort(key=lambda entry: entry[0])


def location_tag(storage: Any) -> str:
    """The name of a storage's device in checkpoints.

    Raises:
        RuntimeError: the device is unknown.

    >>> torch.serialization.location_tag(torch.zeros(1).untyped_storage())
    'cpu'
    """
    for _, tagger, _ in _registry:
        location = tagger(storage)
        if location:
            return location
    raise RuntimeError(f"don't know how to determine data location of {torch.typename(storage)}")


def default_restore_location(storage: Any, location: str) -> Any:
    """Moves a storage to the device with this name.

    Raises:
        RuntimeError: the device is unknown.

    >>> storage = torch.zeros(1).untyped_storage()
    >>> torch.serialization.default_restore_location(storage, "cpu") is storage
    True
    """
    for _, _, deserializer in _registry:
        result = deserializer(storage, location)
        if result is not None:
            return result
    raise RuntimeError(
        f"don't know how to restore data location of torch.storage.UntypedStorage (tagged with {location})"
    )


def _tag_cpu(storage):
    return "cpu" if storage.device.type == "cpu" else None


def _restore_cpu(storage, location):
    return storage if location == "cpu" else None


def _tag_cuda(storage):
    return str(storage.device) if storage.device.type == "cuda" else None


def validate_cuda_device(location):
    """The number of the GPU that a file names.

    Raises:
        RuntimeError: there is no GPU, or not this one.

    >>> try:
    ...     torch.serialization.validate_cuda_device("cuda:0")
    ... except RuntimeError as error:
    ...     print(str(error)[:49])
    Attempting to deserialize object on a CUDA device
    """
    if not torch.cuda.is_available():
        raise RuntimeError(
            "Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False. If you are "
            "running on a CPU-only machine, please use torch.load with map_location=torch.device('cpu') to map "
            "your storages to the CPU."
        )
    index, count = torch.device(location).index or 0, torch.cuda.device_count()
    if index >= count:
        raise RuntimeError(
            f"Attempting to deserialize object on CUDA device {index} but torch.cuda.device_count() is {count}. Please use "
            "torch.load with map_location to map your storages to an existing device."
        )
    return index


def _restore_cuda(storage, location):
    if location.partition(":")[0] != "cuda":
        return None
    validate_cuda_device(location)
    return storage.to(device=torch.device(location))


def _tag_meta(storage):
    return "meta" if storage.device.type == "meta" else None


def _restore_meta(storage, location):
    return torch.UntypedStorage(storage.nbytes(), device="meta") if location == "meta" else None


def _tag_nothing(storage):
    """No storage is on a device that rushlight does not support."""
    return None


def _restore_absent(storage, location):
    kind = location.partition(":")[0]
    instead = (
        "If you are running on a CPU-only machine, please use torch.load with map_location=torch.device('cpu') to map your "
        "storages to the CPU."
    )
    if kind == "mps":
        return torch.UntypedStorage(storage.nbytes(), device=location)
    if kind == "xpu":
        raise RuntimeError(
            f"Attempting to deserialize object on a XPU device but torch.xpu.is_available() is False. {instead}"
        )
    if kind == "mtia":
        return torch.mtia.current_device()
    if kind in ("hpu", "privateuseone"):
        raise RuntimeError(f"The {kind.upper()} device module is not registered. {instead}")
    return None


register_package(10, _tag_cpu, _restore_cpu)
register_package(20, _tag_cuda, _restore_cuda)
register_package(22, _tag_meta, _restore_meta)
register_package(23, _tag_nothing, _restore_absent)


def restorer(map_location):
    """Converts any form of `map_location` to a function of storage and location."""
    if map_location is None:
        return default_restore_location
    if isinstance(map_location, dict):
        return lambda storage, location: default_restore_location(storage, map_location.get(location, location))
    if isinstance(map_location, (str, bytes)):
        name = map_location.decode("ascii") if isinstance(map_location, bytes) else map_location
        return lambda storage, _: default_restore_location(storage, name)
    if isinstance(map_location, torch.device):
        return lambda storage, _: default_restore_location(storage, str(map_location))

    def restore(storage, location):
        result = map_location(storage, location)
        return default_restore_location(storage, location) if result is None else result

    return restore
