"""The kinds of rendezvous that exist without a program's own."""

from . import _machines
from .api import rendezvous_handler_registry

__all__ = ["get_rendezvous_handler"]


def __dir__() -> list[str]:
    return __all__


for _name in ("c10d", "static"):
    rendezvous_handler_registry.register(_name, _machines.Machines)


def get_rendezvous_handler(params):
    """The `RendezvousHandler` for `RendezvousParameters`.

    Raises:
        ValueError: nobody has registered this kind.

    >>> rendezvous = torch.distributed.elastic.rendezvous
    >>> parameters = rendezvous.RendezvousParameters("c10d", "localhost:0", "job", min_nodes=1, max_nodes=1)
    >>> handler = rendezvous.registry.get_rendezvous_handler(parameters)
    >>> handler.next_rendezvous().world_size
    1
    """
    return rendezvous_handler_registry.create_handler(params)
