"""`torch.utils.cpp_extension`: extensions in C++, which rushlight does not build."""

from __future__ import annotations

from rushlight._unsupported import declare

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    *declare(
        globals(),
        "extensions are written against torch's C++ headers, which rushlight does not have",
        """
        is_ninja_available() = False
        CUDAExtension CppExtension SyclExtension check_compiler_is_gcc check_compiler_ok_for_platform
        get_compiler_abi_compatibility_and_version get_cxx_compiler get_default_build_root include_paths
        library_paths load load_inline remove_extension_h_precompiler_headers verify_ninja_availability
        class BuildExtension
        """,
    ),
]

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


def __dir__() -> list[str]:
    return __all__
