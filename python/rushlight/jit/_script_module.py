"""`torch.jit.ScriptModule`, in a file of its own because it needs `torch.nn`."""

from rushlight.nn import Module


class ScriptModule(Module):
    """A module whose methods a compiler would compile. It runs eagerly, like every module.

    >>> isinstance(torch.nn.Linear(1, 1), torch.jit.ScriptModule)
    False
    """


ScriptModule.__module__ = "rushlight.jit"
