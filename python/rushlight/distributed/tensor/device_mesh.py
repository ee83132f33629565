"""Meshes, under the older name of their module."""

from rushlight.distributed.device_mesh import DeviceMesh, init_device_mesh

__all__ = ["DeviceMesh", "init_device_mesh"]


def __dir__() -> list[str]:
    return __all__
