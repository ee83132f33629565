"""Where the storages of a checkpoint go: the device they were on, or what `map_location` says."""

import rushlight as torch


def location_tag(storage) -> str:
    """The name of a storage's device, as checkpoints write it.

    >>> torch.serialization.location_tag(torch.zeros(1).untyped_storage())
    'cpu'
    """
    device = storage.device
    return device.type if device.type == "cpu" else str(device)


def default_restore_location(storage, location: str):
    """A storage on the device whose name a checkpoint gives.

    Raises:
        RuntimeError: a device that nobody knows.

    >>> storage = torch.zeros(1).untyped_storage()
    >>> torch.serialization.default_restore_location(storage, "cpu") is storage
    True
    """
    if location == "cpu":
        return storage
    if location == "meta":
        return torch.UntypedStorage(storage.nbytes(), device="meta")
    if location.partition(":")[0] == "cuda":
        if not torch.cuda.is_available():
            raise RuntimeError(
                "Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False. If you are "
                "running on a CPU-only machine, please use torch.load with map_location=torch.device('cpu') to map "
                "your storages to the CPU."
            )
        return storage.to(device=torch.device(location))
    raise RuntimeError(
        f"don't know how to restore data location of torch.storage.UntypedStorage (tagged with {location})"
    )


def restorer(map_location):
    """`map_location` in any of its forms, as a function of storage and location."""
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
