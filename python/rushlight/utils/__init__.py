"""`torch.utils`: tools around tensors. Every submodule loads on first use."""

from rushlight._loading import load as _load

_SUBMODULES = ("backcompat", "checkpoint", "data", "dlpack", "hooks", "serialization")


TYPE_CHECKING = False
if TYPE_CHECKING:
    from rushlight.utils import backcompat as backcompat
    from rushlight.utils import checkpoint as checkpoint
    from rushlight.utils import data as data
    from rushlight.utils import dlpack as dlpack
    from rushlight.utils import hooks as hooks
    from rushlight.utils import serialization as serialization
else:

    def __getattr__(name):
        if name in _SUBMODULES:
            return _load(f"{__name__}.{name}")
        if name == "weight_norm":  # the release notes of 0.2 print it so
            raise AttributeError(
                "module 'torch.utils' has no attribute 'weight_norm'\nDid you mean 'torch.nn.utils.weight_norm'?"
            )
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(_SUBMODULES)
