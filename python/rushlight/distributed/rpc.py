"""Calls of other processes (`torch.distributed.rpc`), which rushlight does not have."""

from __future__ import annotations

from rushlight._unsupported import declare

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    *declare(
        globals(),
        "there are no remote calls",
        """
        is_available() = False
        get_worker_info init_rpc method_factory new_method remote rpc_async rpc_sync shutdown
        class AllGatherStates BackendType RRef TensorPipeRpcBackendOptions
        """,
    ),
]

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


def __dir__() -> list[str]:
    return __all__
