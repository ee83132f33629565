"""`torch.utils.flop_counter`: the number of floating point operations of matrix products and convolutions, by module.

The products are found in the events of the profiler, in the forward and the backward pass, so that those inside of layers and
other functions are found too. Convolutions are found by a mode for functions, because their events do not tell all sizes.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from math import prod

import rushlight as torch
from rushlight import _C
from rushlight._warnings import warn
from rushlight.autograd import _flops
from rushlight.overrides import TorchFunctionMode

from .module_tracker import ModuleTracker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType
    from typing import Any, Self

    _Formula = Callable[..., int]

__all__ = ["FlopCounterMode", "register_flop_formula"]


# --- formulas ----------------------------------------------------------------------------------------------------------


def _attention(query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    heads = prod(query[:-2])
    return 2 * heads * query[-2] * key[-2] * (query[-1] + value[-1])


def _attention_backward(_: Any, __: Any, query: Any, key: Any, value: Any, *rest: Any, **more: Any) -> int:
    heads = prod(query[:-2])
    return 2 * heads * query[-2] * key[-2] * (3 * query[-1] + 2 * value[-1])


def _lstm(gates: Any, hidden: Any, *_: Any, **__: Any) -> int:
    return 2 * prod(gates) * hidden[-1]


def _lstm_backward(*sizes: Any, **_: Any) -> int:
    gates = max((size for size in sizes if size), key=prod)
    hidden = gates[-1] // 4
    return 2 * prod(gates) * hidden


#: The formula for each operation, by torch's name. It gets the sizes of the arguments.
flop_registry: dict[str, _Formula] = {
    "aten.mm": _flops.mm,
    "aten.addmm": _flops.addmm,
    "aten.bmm": _flops.bmm,
    "aten.baddbmm": _flops.baddbmm,
    "aten._scaled_dot_product_flash_attention": _attention,
    "aten._scaled_dot_product_flash_attention_backward": _attention_backward,
}
#: The engine's names of operations that torch calls otherwise.
_NAMES = {
    "aten::_matmul": "aten.bmm",
    "aten::_attention": "aten._scaled_dot_product_flash_attention",
    "aten::_attention_backward": "aten._scaled_dot_product_flash_attention_backward",
}
#: The engine's operations that are products in torch: their names there, and the formula.
_PRODUCTS = {
    "aten::_lstm_sequence": ("aten.addmm", _lstm),
    "aten::_lstm_sequence_backward": ("aten.mm", _lstm_backward),
}
_CONVOLUTIONS = {f"conv{kind}{size}d": bool(kind) for kind in ("", "_transpose") for size in (1, 2, 3)}


def _name_of(operation: Any) -> str:
    """torch's name of an operation that is given as a function, as a name of the profiler or as torch's name."""
    name = operation if isinstance(operation, str) else getattr(operation, "__name__", str(operation))
    return "aten." + name.removeprefix("aten::").removeprefix("aten.")


def register_flop_formula(targets: Any, get_raw: bool = False) -> Callable[[_Formula], _Formula]:
    """Decorates the formula for an operation.

    Args:
        targets: the operation, or a list of them: a function such as `torch.dot`, or its name in a profile.
        get_raw: accepted; the formula gets sizes in any case.

    The formula is called with the size of each argument, which is empty for those that are not tensors, and returns the number
    of operations.

    >>> @torch.utils.flop_counter.register_flop_formula(torch.vdot)
    ... def dot_flop(a_shape, b_shape, **kwargs):
    ...     return 2 * a_shape[0]
    >>> with torch.utils.flop_counter.FlopCounterMode(display=False) as counter:
    ...     _ = torch.vdot(torch.ones(3), torch.ones(3))
    >>> counter.get_total_flops()
    6
    """

    def register(formula: _Formula) -> _Formula:
        for target in targets if isinstance(targets, (list, tuple)) else [targets]:
            flop_registry[_name_of(target)] = formula
        return formula

    return register


# --- the counter -------------------------------------------------------------------------------------------------------


class _Tracker(ModuleTracker):
    """Tells a counter before the modules change, so that it counts for those that ran until then."""

    def __init__(self, counter: FlopCounterMode) -> None:
        super().__init__()
        self._counter = counter

    def _before_change(self) -> None:
        self._counter._take()


class _Convolutions(TorchFunctionMode):
    """Counts convolutions, and their backward passes before these run."""

    def __init__(self, counter: FlopCounterMode) -> None:
        self._counter = counter

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        transposed = _CONVOLUTIONS.get(getattr(func, "__name__", ""))
        if transposed is not None and isinstance(result, torch.Tensor):
            given = dict(zip(("input", "weight"), args)) | (kwargs or {})
            self._count(given["input"], given["weight"], result, transposed)
        return result

    def _count(self, input: torch.Tensor, weight: torch.Tensor, result: torch.Tensor, transposed: bool) -> None:
        x, w, y = list(input.shape), list(weight.shape), list(result.shape)
        x, y = ([1, *one] if len(one) < len(w) else one for one in (x, y))
        # The elements of the weight act at each place of the smaller side.
        small, large = (x, y) if transposed else (y, x)
        forward = 2 * small[0] * prod(small[2:]) * prod(w)
        self._counter._add("aten.convolution", forward)
        if not result.requires_grad:
            return
        of_weight = 2 * large[1] * prod(w[2:]) * prod(small)
        backward = forward * input.requires_grad + of_weight * weight.requires_grad
        node = result.grad_fn
        for _ in range(3):  # a result without a batch is a view of another one
            if node is not None and node.name().startswith("Convolution"):
                node.register_prehook(lambda _: self._counter._add("aten.convolution_backward", backward))
                return
            node = node.next_functions[0][0] if node is not None and node.next_functions else None


class FlopCounterMode:
    """A context manager that counts the floating point operations of matrix products, convolutions and attention.

    The numbers are torch's for these operations, forward and backward. Unlike torch on the CPU, it also counts those inside of
    LSTM, Bilinear and scaled dot product attention, which torch runs there as single kernels without a formula.

    Args:
        mods: accepted with a warning; modules are found as they run.
        depth: the levels of modules in the table.
        display: whether to print the table at the end.
        custom_mapping: formulas for further operations, as for `register_flop_formula`.

    >>> model = torch.nn.Sequential(torch.nn.Linear(4, 5))
    >>> with torch.utils.flop_counter.FlopCounterMode(depth=1) as counter:
    ...     _ = model(torch.ones(3, 4))
    Module          FLOP    % Total
    ------------  ------  ---------
    Sequential       120    100.00%
    - aten.addmm     120    100.00%
    >>> counter.get_total_flops()
    120
    """

    def __init__(
        self,
        mods: Any = None,
        depth: int = 2,
        display: bool = True,
        custom_mapping: Mapping[Any, _Formula] | None = None,
    ) -> None:
        if mods is not None:
            warn("mods argument is not needed anymore, you can stop passing it")
        self.depth, self.display = depth, display
        self.flop_counts: dict[str, dict[str, int]] = {}
        more = {_name_of(name): formula for name, formula in (custom_mapping or {}).items()}
        self.flop_registry = {**flop_registry, **more}
        self._own = set(more)
        self._active = False

    def __enter__(self) -> Self:
        self.flop_counts = defaultdict(lambda: defaultdict(int))
        self.flop_counts["Global"]  # is there without an operation, too
        self.flop_registry = {**flop_registry, **{name: self.flop_registry[name] for name in self._own}}
        _, self._thread = _C._profile_moment()
        self._tracker, self._convolutions = _Tracker(self), _Convolutions(self)
        self._since = _C._profile_start(True, False, False)
        self._active = True
        self._tracker.__enter__()
        self._convolutions.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._convolutions.__exit__(kind, value, traceback)
        self._tracker.__exit__(kind, value, traceback)
        self._take()
        self._active = False
        _C._profile_stop(self._since)
        if self.display:
            print(self.get_table(self.depth))

    def _take(self) -> None:
        """Counts the operations since the last call, for the modules that run now."""
        if not self._active:
            return
        events, dropped = _C._profile_stop(self._since)
        self._since = _C._profile_start(True, False, False)
        if dropped:
            warn(f"{dropped} events exceed the limit of the profiler and were not counted")
        own = [event for event, _ in events if event[1] == self._thread]
        own.sort(key=lambda event: (event[2], -event[3]))
        counted_until = -1
        for place, (name, _, _, end, sizes, *_) in enumerate(own):
            # An operation inside of one that has a formula is counted already.
            if end <= counted_until:
                continue
            if name == "aten::linear":
                inside = itertools.takewhile(lambda event: event[3] <= end, itertools.islice(own, place + 1, None))  # noqa: B023 # used here
                if any(event[0] in ("aten::addmm", "aten::mm", "aten::_matmul") for event in inside):
                    continue
                # Without gradients it is one kernel.
                sizes = [sizes[2], [prod(sizes[0][:-1]), sizes[0][-1]], [sizes[0][-1], prod(sizes[1][:-1])]]
                name, sizes = ("aten::addmm", sizes) if sizes[0] else ("aten::mm", sizes[1:])
            name, formula = _PRODUCTS.get(name) or self._formula(_NAMES.get(name) or _name_of(name))
            if formula is not None:
                counted_until = end
                self._add(name, formula(*sizes, out_shape=None))

    def _formula(self, name: str) -> tuple[str, _Formula | None]:
        return name, self.flop_registry.get(name)

    def _add(self, name: str, count: int) -> None:
        if self._active:
            for parent in self._tracker.parents:
                self.flop_counts[parent][name] += count

    def get_total_flops(self) -> int:
        """The number of all operations."""
        return sum(self.flop_counts.get("Global", {}).values())

    def get_flop_counts(self) -> dict[str, dict[str, int]]:
        """The number of operations by module and by the name of the operation; ``"Global"`` is the whole program."""
        return {module: dict(counts) for module, counts in self.flop_counts.items()}

    def get_table(self, depth: int | None = None) -> str:
        """A table of modules, to a number of levels, and of their operations."""
        depth = self.depth if depth is None else depth
        total = self.get_total_flops()
        power = max(0, min(len(_SUFFIXES) - 1, (len(str(total)) - 2) // 3))

        def row(name: str, count: int) -> tuple[str, str, str]:
            number = str(count) if power == 0 else f"{count / 1000**power:.3f}{_SUFFIXES[power]}"
            return name, number, f"{count / total:.2%}" if total else "0%"

        def rows(module: str) -> list[tuple[str, str, str]]:
            counts = self.flop_counts[module]
            return [
                row(module, sum(counts.values())),
                *(row(f"- {name}", count) for name, count in counts.items()),
            ]

        modules = [name for name in sorted(self.flop_counts) if name != "Global" and name.count(".") + 1 <= depth]
        whole = any(sum(self.flop_counts[name].values()) >= total for name in modules)
        lines = [line for name in modules for line in rows(name)]
        if "Global" in self.flop_counts and not whole:
            lines = rows("Global") + lines
        return _table([("Module", "FLOP", "% Total"), *lines])


_SUFFIXES = ("", "K", "M", "B", "T")


def _table(lines: list[tuple[str, str, str]]) -> str:
    # A column is at least two characters wider than its heading.
    widths = [max(len(lines[0][place]) + 2, *(len(line[place]) for line in lines)) for place in range(3)]
    lines = [lines[0], ("-" * widths[0], "-" * widths[1], "-" * widths[2]), *lines[1:]]
    return "\n".join(f"{name:<{widths[0]}}  {count:>{widths[1]}}  {part:>{widths[2]}}" for name, count, part in lines)


def __dir__() -> list[str]:
    return __all__
