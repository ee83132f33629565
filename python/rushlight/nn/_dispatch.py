"""Names of `torch.nn.functional` for functions that programs write like its own."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = [
    "GRID_SAMPLE_INTERPOLATION_MODES",
    "GRID_SAMPLE_PADDING_MODES",
    "BroadcastingList1",
    "BroadcastingList2",
    "BroadcastingList3",
    "assert_int_or_pair",
    "boolean_dispatch",
]

#: The numbers by which `torch.grid_sampler` knows the modes of `grid_sample`.
GRID_SAMPLE_INTERPOLATION_MODES = {"bilinear": 0, "nearest": 1, "bicubic": 2}
GRID_SAMPLE_PADDING_MODES = {"zeros": 0, "border": 1, "reflection": 2}


class _BroadcastingList:
    """Annotates a list of numbers that may be given as one number: ``BroadcastingList2[int]``."""

    def __getitem__(self, types: Any) -> None: ...


BroadcastingList1, BroadcastingList2, BroadcastingList3 = (_BroadcastingList() for _ in range(3))


def assert_int_or_pair(vals: Any, arg_name: str, message: str) -> None:
    """Checks that an argument is an integer or has two elements.

    Raises:
        AssertionError: it has another number of elements; the text is ``message.format(arg_name)``.

    >>> torch.nn.functional.assert_int_or_pair([1, 2], "size", "{} must be one or two numbers")
    """
    if not isinstance(vals, int) and len(vals) != 2:
        raise AssertionError(message.format(arg_name))


def boolean_dispatch(
    arg_name: str,
    arg_index: int,
    default: bool,
    if_true: Callable[..., Any],
    if_false: Callable[..., Any],
    module_name: str,
    func_name: str,
) -> Callable[..., Any]:
    """A function that calls one of two, by an argument that is given by name, by place, or has a default.

    >>> def first(values, last=False): return values[0]
    >>> def final(values, last=False): return values[-1]
    >>> end = torch.nn.functional.boolean_dispatch("last", 1, False, final, first, "example", "end")
    >>> end([1, 2]), end([1, 2], True), end([1, 2], last=True)
    (1, 2, 2)
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        chosen = kwargs.get(arg_name, args[arg_index] if arg_index < len(args) else default)
        return (if_true if chosen else if_false)(*args, **kwargs)

    call.__module__, call.__name__ = module_name, func_name
    call.__doc__ = if_true.__doc__ if if_false.__doc__ is None else if_false.__doc__
    return call


def __dir__() -> list[str]:
    return __all__
