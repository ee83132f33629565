"""`torch._dynamo`: the capture of programs for a compiler, which rushlight does not have. Marks for it are accepted."""

from __future__ import annotations

from rushlight._unsupported import declare
from rushlight.compiler import disable

from . import config

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    *declare(
        globals(),
        "programs run eagerly, and nothing is captured",
        """
        is_compiling() = False
        list_backends(exclude_tags=()) = []
        reset() = None
        reset_code_caches() = None
        graph_break(msg='') = None
        mark_dynamic(t, index, *args, **kwargs) = None
        mark_static(t, index=None) = None
        mark_static_address(t, guard=True) = None
        maybe_mark_dynamic(t, index) = None
        allow_in_graph(fn) = fn
        disallow_in_graph(fn) = fn
        assume_constant_result(fn) = fn
        explain export lookup_backend optimize optimize_assert register_backend replay run substitute_in_graph
        class OptimizedModule
        """,
    ),
    "config",
    "disable",
]

# After the names that it imports from here.
from . import eval_frame as eval_frame  # noqa: E402

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


def __dir__() -> list[str]:
    return __all__
