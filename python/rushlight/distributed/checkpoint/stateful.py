"""Objects that save and restore their own state."""

from typing import Any, Protocol, TypeVar, runtime_checkable

__all__ = ["Stateful", "StatefulT"]


def __dir__() -> list[str]:
    return __all__


@runtime_checkable
class Stateful(Protocol):
    """Anything with `state_dict` and `load_state_dict`, such as modules and optimizers."""

    def state_dict(self) -> dict[str, Any]:
        """The state."""
        ...

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restores a state."""
        ...


StatefulT = TypeVar("StatefulT", bound=Stateful)
