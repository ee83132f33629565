"""`torch.cuda.gds`: files that GPUs read and write themselves. There is no support for GPUDirect Storage, so that every call is refused."""

from __future__ import annotations

from rushlight._unsupported import declare

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def _refuse(name: str) -> Exception:
    return RuntimeError(
        f"torch._C._{name} is not supported on this platform\n"
        "  There is no support for GPUDirect Storage: read the file with torch.from_file or torch.load, and copy the tensor."
    )


__all__ = [
    *declare(
        globals(),
        "there is no support for GPUDirect Storage",
        """
        gds_register_buffer(s)
        gds_deregister_buffer(s)
        class GdsFile(filename, flags) : gds_register_handle
        """,
    ),
]

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


def __dir__() -> list[str]:
    return __all__
