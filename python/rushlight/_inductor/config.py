"""Settings of `torch._inductor`. Programs may set any; none has an effect, because nothing is compiled."""

from __future__ import annotations

from types import SimpleNamespace

coordinate_descent_check_all_directions: bool = False
coordinate_descent_tuning: bool = False
epilogue_fusion: bool = True
force_fuse_int_mm_with_mul: bool = False
fx_graph_cache: bool = True
max_autotune: bool = False
max_autotune_gemm_search_space: str = "DEFAULT"
use_mixed_mm: bool = False

#: The settings of parts of the compiler.
cpp = SimpleNamespace(enable_kernel_profile=False, threads=-1)
triton = SimpleNamespace(cudagraphs=False, unique_kernel_names=True)
