"""Settings of `torch._dynamo`. Programs may set any; none has an effect, because nothing is captured."""

from __future__ import annotations

cache_size_limit: int = 8
capture_scalar_outputs: bool = False
optimize_ddp: bool = True
recompile_limit: int = 8
suppress_errors: bool = False
verbose: bool = False
