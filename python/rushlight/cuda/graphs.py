"""`torch.cuda.graphs`: what `torch.cuda` has about graphs, under the name of its module in torch."""

from rushlight import cuda as _home

_NAMES = "is_current_stream_capturing graph_pool_handle CUDAGraph graph make_graphed_callables".split()
__all__ = [*_NAMES]

globals().update({name: getattr(_home, name) for name in __all__})


def __dir__() -> list[str]:
    return __all__
