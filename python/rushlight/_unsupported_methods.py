"""Methods of `Tensor` about devices and forms that rushlight does not support."""

from rushlight._C import Tensor
from rushlight._tensor import _method


@_method
def is_distributed(self):
    """Whether the elements are on several machines: always False.

    >>> torch.ones(1).is_distributed()
    False
    """
    return False


def _flag(name, device):
    def flag(self):
        return False

    flag.__doc__ = f"Whether the tensor is on a device of type {device!r}: always False."
    setattr(Tensor, name, property(flag))


for _device in ("ipu", "maia", "mtia", "vulkan", "xla"):
    _flag(f"is_{_device}", _device)


def _without_device(name, error):
    def move(self, device=None, non_blocking=False, memory_format=None):
        raise error

    move.__name__ = name
    move.__doc__ = f"Refuses every call, because there is no device of type {name!r}."
    _method(move)


_without_device("ipu", RuntimeError("PyTorch is not linked with support for ipu devices"))
_without_device("xpu", AssertionError("Torch not compiled with XPU enabled"))
_without_device("mtia", AssertionError("Torch not compiled with MTIA enabled."))


def _unavailable(name, because):
    def method(self, *args, **kwargs):
        backend = "Meta" if self.is_meta else "CPU"
        raise NotImplementedError(
            f"Could not run 'aten::{name}' with arguments from the '{backend}' backend.\n  {because}"
        )

    method.__name__ = name
    method.__doc__ = f"Refuses every call: {because[0].lower()}{because[1:]}"
    _method(method)


_unavailable("to_mkldnn", "Rushlight has no tensors in oneDNN's layout; its operators choose their layout themselves.")
