"""`torch.cuda.random`: the functions of `torch.cuda` about random numbers, under the name of their module in torch."""

from rushlight import cuda as _home

_NAMES = (
    "get_rng_state get_rng_state_all set_rng_state set_rng_state_all manual_seed manual_seed_all seed seed_all "
    "initial_seed"
).split()
__all__ = [*_NAMES]

globals().update({name: getattr(_home, name) for name in __all__})


def __dir__() -> list[str]:
    return __all__
