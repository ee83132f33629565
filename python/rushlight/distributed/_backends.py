"""The names of backends. One group serves all of them on the CPU, and NCCL serves GPUs."""

from typing import ClassVar

import rushlight as torch
from rushlight import _C
from rushlight._set_module import set_module


class Backend(str):
    """The name of a backend, in lower case: ``mpi``, ``gloo`` or ``nccl``.

    ``mpi`` and ``gloo`` are the same code, for tensors on the CPU. ``nccl`` is for tensors on GPUs.

    >>> torch.distributed.Backend("GLOO")
    'gloo'
    """

    UNDEFINED = "undefined"
    GLOO = "gloo"
    NCCL = "nccl"
    UCC = "ucc"
    MPI = "mpi"
    XCCL = "xccl"
    FAKE = "fake"

    backend_list: ClassVar[list[str]] = [UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI, FAKE]
    default_device_backend_map: ClassVar[dict[str, str]] = {"cpu": GLOO, "cuda": NCCL, "xpu": XCCL, "mps": GLOO}

    def __new__(cls, name):
        """Makes a backend from its name, in any case."""
        if not isinstance(name, str):
            raise ValueError("Backend constructor parameter must be string-ish")
        return super().__new__(cls, name.lower())


class BackendConfig:
    """The backend of each type of device.

    >>> str(torch.distributed.BackendConfig(torch.distributed.Backend("gloo")))
    'cpu:gloo,cuda:gloo'
    """

    def __init__(self, backend):
        self.device_backend_map = {}
        name = str(backend).lower()
        if name == Backend.UNDEFINED:
            self.device_backend_map["cpu"] = Backend(Backend.GLOO)
            if _C._cuda_device_count() and is_nccl_available():
                self.device_backend_map["cuda"] = Backend(Backend.NCCL)
        elif ":" in name:
            for pair in name.split(","):
                device, colon, wanted = pair.partition(":")
                if not colon or not wanted or ":" in wanted:
                    raise ValueError(
                        f"Invalid device:backend pairing: {pair}. The custom backend string argument is invalid: "
                        f"{backend}.\n  Write pairs of a device and a backend: cpu:gloo,cuda:nccl."
                    )
                if device in self.device_backend_map:
                    raise ValueError(f"Duplicate device type {device} in backend string: {backend}.")
                self.device_backend_map[device] = Backend(wanted)
        elif name == Backend.NCCL:
            self.device_backend_map["cuda"] = Backend(name)
        else:
            self.device_backend_map.update({"cpu": Backend(name), "cuda": Backend(name)})

    def get_device_backend_map(self):
        """The backend of each type of device."""
        return self.device_backend_map

    def __repr__(self):
        return ",".join(f"{device}:{backend}" for device, backend in self.device_backend_map.items())


def check(config, backend):
    """Raises the error of the first backend that does not exist. `backend` is the text from which the config was made."""
    for name in config.get_device_backend_map().values():
        if name == Backend.NCCL:
            _C._nccl_check()
            if _C._cuda_device_count() == 0:
                raise ValueError("ProcessGroupNCCL is only supported with GPUs, no GPUs found!")
        elif name in (Backend.XCCL, Backend.UCC):
            raise RuntimeError(f"Distributed package doesn't have {name.upper()} built in")
        elif name not in (Backend.GLOO, Backend.MPI):
            is_one = name == str(backend).lower() and "," not in name
            what = f"Unknown backend type {name}" if is_one else f"Unknown c10d backend type {name.upper()}"
            raise AssertionError(f"{what}\n  The backends are gloo, mpi and nccl.")


def is_gloo_available():
    """Whether the backend `gloo` exists: always True. It is the same as `mpi`.

    >>> torch.distributed.is_gloo_available()
    True
    """
    return True


def is_mpi_available():
    """Whether the backend `mpi` exists: always True. Between machines it needs the package `mpich`.

    >>> torch.distributed.is_mpi_available()
    True
    """
    return True


def is_nccl_available():
    """Whether the backend `nccl` exists: whether NVIDIA's library NCCL is installed (``nvidia-nccl-cu13``).

    >>> isinstance(torch.distributed.is_nccl_available(), bool)
    True
    """
    return _C._nccl_is_available()


def is_ucc_available():
    """Whether the backend `ucc` exists: always False.

    >>> torch.distributed.is_ucc_available()
    False
    """
    return False


def is_xccl_available():
    """Whether the backend `xccl` exists: always False.

    >>> torch.distributed.is_xccl_available()
    False
    """
    return False


def is_backend_available(backend):
    """Whether a backend exists, also in the form ``cpu:gloo``.

    >>> torch.distributed.is_backend_available("cpu:gloo,cuda:ucc")
    False
    """
    names = [pair.rpartition(":")[2] for pair in backend.lower().split(",")]
    return all(name in (Backend.GLOO, Backend.MPI) or (name == Backend.NCCL and is_nccl_available()) for name in names)


def check_device(device):
    """The GPU that the caller names for this process."""
    if isinstance(device, int):
        device = torch.device("cuda", device)
    if device is None:
        return None
    if device.type == "cuda" and torch.cuda.device_count() == 0:
        raise ValueError(
            f"device_id {device} does not match the current compilation's accelerator support: None. "
            "Please use a different compiled version that supports your accelerator."
        )
    if device.type == "cuda" and device.index is None:
        raise ValueError("Please use a device_id with index.")
    if device.type == "cuda" and device.index >= torch.cuda.device_count():
        raise ValueError(
            f"device_id {device} is out of range. Please use a device index less than "
            f"the number of accelerators available: {torch.cuda.device_count()}."
        )
    if device.type != "cuda":
        raise ValueError("init_process_group device_id parameter must be an accelerator with an index")
    return device


set_module("rushlight.distributed", Backend, BackendConfig)
