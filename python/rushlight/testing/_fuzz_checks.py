"""What must hold for a function that is fuzzed, and the lines of a program that show it does not."""

from __future__ import annotations

import math
import random
from typing import NamedTuple

import rushlight as torch
from rushlight.autograd._tangents import differentiable
from rushlight.autograd.gradcheck import GradcheckError

from . import _drawing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from rushlight import Tensor, dtype

    from ._drawing import Layout
    from ._fuzz import Subject

__all__ = ["Case", "Failure", "Refused", "Settings", "called", "examine"]

#: Tensors of more elements are moved along some random directions only, and results looked at along some.
_MANY = 64
_DIRECTIONS = 4

#: How far results may be from those in double precision, relative to the largest.
_COARSE = {torch.float32: 1e-3, torch.complex64: 1e-3, torch.float16: 5e-2, torch.bfloat16: 2e-1}
_FINE = 1e-9


class Settings(NamedTuple):
    second_order: bool
    dtypes: tuple[dtype, ...]
    reference: Callable[..., Any] | None
    refusals: tuple[type[Exception], ...]
    eps: float
    atol: float
    rtol: float
    max_rank: int
    max_side: int


class Refused(Exception):
    """The function does not take these arguments, or answers them with infinities."""


class Failure(Exception):
    """Something does not hold: `kind` says what, and `code` are lines that show it."""

    def __init__(self, kind: str, text: str, code: str) -> None:
        super().__init__(text)
        self.kind = kind
        self.code = code


class Case:
    """Arguments that were drawn: the memory of each operand (in double precision, unless exact) and its layout."""

    def __init__(
        self,
        subject: Subject,
        settings: Settings,
        dtype: dtype,
        layouts: list[Layout],
        memories: list[Tensor],
        seed: int,
    ) -> None:
        self.subject = subject
        self.settings = settings
        self.dtype = dtype
        self.layouts = layouts
        self.memories = memories
        self.seed = seed
        self.values: list[Tensor] = []  # what the function gives, known once it was called

    def leaves(self, kind: dtype = torch.float64) -> tuple[list[Tensor], list[Tensor]]:
        """The memories of operands, and the parameters, anew and in a dtype."""
        memories = [_cast(m, kind).requires_grad_(m.requires_grad) for m in self.memories]
        return memories, [_cast(p, kind).requires_grad_() for p in self.subject.parameters.values()]

    def results(
        self,
        memories: Sequence[Tensor],
        parameters: Sequence[Tensor],
        *,
        contiguous: bool = False,
        function: Callable[..., Any] | None = None,
    ) -> list[Tensor]:
        """The tensors that the function gives or writes to."""
        writes = self.subject.writes
        memories = [memory.clone() if at < writes else memory for at, memory in enumerate(memories)]
        views = [layout.view(memory) for layout, memory in zip(self.layouts, memories)]
        views = [view.contiguous() if contiguous and at >= writes else view for at, view in enumerate(views)]
        torch.manual_seed(self.seed)
        arguments = self.subject.with_operands(views)
        found = function(*arguments) if function else self.subject(arguments, parameters)
        return [*_tensors(found), *memories[:writes]]

    def outputs(self, memories: Sequence[Tensor], parameters: Sequence[Tensor]) -> list[Tensor]:
        """The results that may have a gradient."""
        return [_few(one) for one in self.results(memories, parameters) if differentiable(one)]

    def program(self, lines: str, kind: dtype = torch.float64) -> str:
        """The given lines behind those that make the operands."""
        made = ["import rushlight as torch", "from rushlight.testing import assert_close", ""]
        if self.subject.module is not None:
            made.append(f"module = module.to({kind})")
        for name, memory in zip(self.subject.operand_names(), self.memories):
            values = _cast(memory, kind)
            numbers = f"tensor({values.tolist()}" if values.numel() else f"zeros({tuple(values.shape)}"
            grad = ", requires_grad=True" if memory.requires_grad else ""
            made.append(f"{name} = torch.{numbers}, dtype={values.dtype}{grad})")
        return "\n".join([*made, lines])

    def call(self, suffix: str = "") -> str:
        """The call as it is written, with something behind each operand."""
        return f"{self.subject.shown}({self._arguments(suffix, '.clone()')})"

    def _arguments(self, suffix: str = "", written: str = "") -> str:
        views = [
            name + (written if at < self.subject.writes else "") + str(layout) + suffix
            for at, (name, layout) in enumerate(zip(self.subject.operand_names(), self.layouts))
        ]
        return ", ".join(self.subject.with_operands(views, repr))

    def definitions(self) -> str:
        """Lines that define `call`, a function of all that has a gradient, and `leaves`, these tensors."""
        names = [name for name, memory in zip(self.subject.operand_names(), self.memories) if memory.requires_grad]
        lines, call = [], f"{self.subject.shown}({self._arguments()})"
        if self.subject.parameters:
            names.append("*parameters")
            lines.append("names, parameters = zip(*module.named_parameters())")
            call = f"torch.func.functional_call(module, dict(zip(names, parameters)), ({self._arguments()},))"
        lines.append(f"def call({', '.join(names)}):")
        written = self.subject.operand_names()[: self.subject.writes]
        lines += [f"    {name} = {name}.clone()" for name in written]
        return "\n".join([*lines, f"    return {', '.join([call, *written])}", f"leaves = {_tuple(names)}", ""])


def _cast(tensor: Tensor, kind: dtype) -> Tensor:
    """A copy in a dtype of the same precision as `kind`; exact dtypes stay."""
    if not differentiable(tensor):
        return tensor.detach().clone()
    if tensor.is_complex():
        kind = kind if kind.is_complex else kind.to_complex()
    elif kind.is_complex:
        kind = kind.to_real()
    return tensor.detach().to(kind, copy=True)


def _tensors(found: Any) -> Iterator[Tensor]:
    if isinstance(found, torch.Tensor):
        yield found
    elif isinstance(found, dict):
        for value in found.values():
            yield from _tensors(value)
    elif isinstance(found, (tuple, list)):
        for value in found:
            yield from _tensors(value)


def _random(seed: int, shape: tuple[int, ...], kind: dtype = torch.float64) -> Tensor:
    draw = random.Random(seed)
    parts = 2 if kind.is_complex else 1
    values = torch.tensor([draw.uniform(-1, 1) for _ in range(math.prod(shape) * parts)], dtype=torch.float64)
    return (torch.view_as_complex(values.reshape(*shape, 2)) if kind.is_complex else values.reshape(shape)).to(kind)


def _few(output: Tensor) -> Tensor:
    """The output, or if it is large some sums of it with random weights."""
    if output.numel() <= _MANY:
        return output
    return _random(output.numel(), (_DIRECTIONS, output.numel()), output.dtype) @ output.reshape(-1)


def _difference(found: Sequence[Tensor], wanted: Sequence[Tensor], tolerance: float) -> str | None:
    """In which result two lists differ by more than a part of its largest element."""
    if len(found) != len(wanted):
        return f"{len(found)} results instead of {len(wanted)}"
    for at, (a, b) in enumerate(zip(found, wanted)):
        if a.shape != b.shape:
            return f"result {at} has shape {tuple(a.shape)} instead of {tuple(b.shape)}"
        x, y = ((t.detach() if differentiable(t) else t.double()).to(torch.complex128) for t in (a, b))
        if y.numel() and not (x - y).abs().max().item() <= tolerance * (1 + y.abs().max().item()):
            return f"result {at} is\n{a.detach()}\ninstead of\n{b.detach()}"
    return None


def _weights(outputs: Sequence[Tensor]) -> list[Tensor]:
    return [_random(at, tuple(one.shape), one.dtype) for at, one in enumerate(outputs)]


def _gradients(outputs: Sequence[Tensor], leaves: Sequence[Tensor], weights: Sequence[Tensor]) -> list[Tensor]:
    """The gradient of each leaf, zeros where nothing follows it."""
    live = [(o, w) for o, w in zip(outputs, weights) if o.requires_grad]
    wanted = [leaf for leaf in leaves if leaf.requires_grad]
    if not live or not wanted:
        return [torch.zeros_like(leaf) for leaf in wanted]
    found = torch.autograd.grad(
        [o for o, _ in live], wanted, [w for _, w in live], retain_graph=True, allow_unused=True
    )
    return [torch.zeros_like(leaf) if grad is None else grad for leaf, grad in zip(wanted, found)]


def called(case: Case) -> list[Tensor]:
    """What the function gives; raises Refused for arguments that it does not take."""
    try:
        with torch.no_grad():
            values = case.results(*case.leaves(), contiguous=True)
    except case.settings.refusals as error:
        raise Refused(f"{type(error).__name__}: {error}") from error
    except Exception as error:
        raise _raised("the call", error, case.program(case.call())) from error
    if any(differentiable(one) and not bool(one.isfinite().all()) for one in values):
        raise Refused("the result is not finite")
    return values


def examine(case: Case) -> None:
    """Raises Refused for arguments that the function does not take, and Failure for the first thing that does not hold."""
    values = case.values = called(case)
    has_gradients = any(map(differentiable, values)) and (
        case.subject.parameters or any(memory.requires_grad for memory in case.memories)
    )
    for check in (*_OF_VALUES, *(_OF_GRADIENTS if has_gradients else ())):
        try:
            text = check.holds(case, values)
        except GradcheckError as error:
            text = str(error).strip()
        except Exception as error:
            raise _raised(check.subject, error, check.code(case)) from error
        if text is not None:
            raise Failure(check.sentence, text, check.code(case))


def _raised(what: str, error: Exception, code: str) -> Failure:
    return Failure(f"{what} raises {type(error).__name__}", str(error), code)


class Check(NamedTuple):
    """`holds` gives None or what is wrong, `code` a program; exceptions are put down to `subject`."""

    sentence: str
    subject: str
    holds: Callable[[Case, list[Tensor]], str | None]
    code: Callable[[Case], str]


def _reference(case: Case, values: list[Tensor]) -> str | None:
    if case.settings.reference is None:
        return None
    with torch.no_grad():
        return _difference(values, case.results(*case.leaves(), function=case.settings.reference), _FINE)


def _layouts(case: Case, values: list[Tensor]) -> str | None:
    with torch.no_grad():
        return _difference(case.results(*case.leaves()), values, _FINE)


def _unchanged(case: Case, values: list[Tensor]) -> str | None:
    memories, parameters = case.leaves()
    before = [tensor.detach().clone() for tensor in (*memories, *parameters)]
    with torch.no_grad():
        case.results(memories, parameters)
    return _difference([*memories, *parameters], before, 0)


def _given_unchanged(case: Case, values: list[Tensor]) -> str | None:
    function, leaves = _split(case)
    before = [leaf.detach().clone() for leaf in leaves]
    outputs = function(*leaves)
    weights = _weights(outputs)
    given = [weight.clone() for weight in weights]
    _gradients(outputs, leaves, given)
    return _difference(given, weights, 0) or _difference(leaves, before, 0)


def _dtypes(case: Case, values: list[Tensor]) -> str | None:
    if case.dtype in (torch.float64, torch.complex128):
        return None
    single = case.leaves(case.dtype)
    double = [[_cast(one, torch.float64).requires_grad_(one.requires_grad) for one in part] for part in single]
    outputs, wanted = case.outputs(*single), case.outputs(*double)
    tolerance = _COARSE[case.dtype]
    text = _difference(outputs, wanted, tolerance)
    if text is not None:
        return text
    weights = _weights(wanted)
    rounded = [_cast(weight, output.dtype) for weight, output in zip(weights, outputs)]
    found = _gradients(outputs, [*single[0], *single[1]], rounded)
    return _difference(found, _gradients(wanted, [*double[0], *double[1]], weights), tolerance)


def _split(case: Case) -> tuple[Callable[..., tuple[Tensor, ...]], list[Tensor]]:
    """The outputs as a function of the leaves that need a gradient, and those leaves."""
    memories, parameters = case.leaves()
    places = [at for at, memory in enumerate(memories) if memory.requires_grad]

    def function(*leaves: Tensor) -> tuple[Tensor, ...]:
        own = list(memories)
        for place, leaf in zip(places, leaves):
            own[place] = leaf
        return tuple(case.outputs(own, leaves[len(places) :]))

    return function, [*(memories[place] for place in places), *parameters]


def _along_few(
    function: Callable[..., tuple[Tensor, ...]], leaves: list[Tensor]
) -> tuple[Callable[..., tuple[Tensor, ...]], list[Tensor]]:
    """The same with large leaves replaced by how far they are moved in some directions."""
    starts = [leaf.detach() for leaf in leaves]
    directions = [
        _random(at, (_DIRECTIONS, leaf.numel()), leaf.dtype) if leaf.numel() > _MANY else None
        for at, leaf in enumerate(leaves)
    ]
    moves = [
        leaf if along is None else torch.zeros(_DIRECTIONS, dtype=leaf.dtype).requires_grad_()
        for leaf, along in zip(leaves, directions)
    ]

    def moved(*given: Tensor) -> tuple[Tensor, ...]:
        return function(
            *(
                one if along is None else start + (one @ along).reshape(start.shape)
                for one, along, start in zip(given, directions, starts)
            )
        )

    return moved, moves


def _first_order(case: Case, values: list[Tensor]) -> str | None:
    function, leaves = _along_few(*_split(case))
    settings = case.settings
    torch.autograd.gradcheck(function, leaves, eps=settings.eps, atol=settings.atol, rtol=settings.rtol)
    return None


def _second_order(case: Case, values: list[Tensor]) -> str | None:
    function, leaves = _along_few(*_split(case))
    settings = case.settings
    if settings.second_order and any(output.requires_grad for output in function(*leaves)):
        weights = [weight.requires_grad_() for weight in _weights([o for o in function(*leaves) if o.requires_grad])]
        torch.autograd.gradgradcheck(
            function, leaves, weights, eps=settings.eps, atol=settings.atol, rtol=settings.rtol
        )
    return None


def _given_layout(at: int, output: Tensor, kind: str) -> Layout:
    return _drawing.layout(_drawing.Choices(at), tuple(output.shape), kind)


def _code_of_given(case: Case) -> str:
    """The layouts of gradients for the first result."""
    output = next(one for one in case.values if differentiable(one))
    layouts = [_given_layout(0, output, kind) for kind in _drawing.LAYOUTS[1:]]
    return ", ".join(f"torch.rand({layout.base}, dtype=out.dtype){layout}" for layout in layouts)


def _given_layouts(case: Case, values: list[Tensor]) -> str | None:
    """Gradients come transposed from products, expanded from sums, in pieces of larger ones from concatenations."""
    function, leaves = _split(case)
    outputs = function(*leaves)
    for kind in _drawing.LAYOUTS[1:]:
        layouts = [_given_layout(at, output, kind) for at, output in enumerate(outputs)]
        weights = [
            layout.view(_random(at, layout.base, output.dtype))
            for at, (layout, output) in enumerate(zip(layouts, outputs))
        ]
        wanted = _gradients(outputs, leaves, [weight.contiguous() for weight in weights])
        text = _difference(_gradients(outputs, leaves, weights), wanted, _FINE)
        if text is not None:
            return f"of a gradient that is {kind}: {text}"
    return None


def _patterns(case: Case, values: list[Tensor]) -> str | None:
    function, leaves = _split(case)
    outputs = function(*leaves)
    weights = _weights(outputs)
    wanted = _gradients(outputs, leaves, weights)
    for place in range(len(leaves) if len(leaves) > 1 else 0):
        alone = [leaf.detach().requires_grad_(at == place) for at, leaf in enumerate(leaves)]
        text = _difference(_gradients(function(*alone), alone, weights), wanted[place : place + 1], _FINE)
        if text is not None:
            return f"with a gradient for argument {place} alone: {text}"
    return None


def _later(case: Case, values: list[Tensor]) -> str | None:
    function, leaves = _split(case)
    wanted = None
    for changes_results in (False, True):
        copies = [leaf.clone() for leaf in leaves]
        outputs = function(*copies)
        weights = _weights(outputs)
        wanted = wanted or _gradients(function(*leaves), leaves, weights)
        try:
            with torch.no_grad():
                for tensor in outputs if changes_results else copies:
                    tensor.mul_(2).add_(1)
            found = _gradients(outputs, leaves, weights)
        except RuntimeError:
            continue
        text = _difference(found, wanted, _FINE)
        if text is not None:
            return f"with {'results' if changes_results else 'arguments'} changed: {text}"
    return None


def _lines(lines: str, kind: Callable[[Case], dtype] = lambda case: torch.float64) -> Callable[[Case], str]:
    """A program that ends in some lines.

    In them stand `VALUES` for the call as it is written and `OPERANDS` for its operands, `CALL` for the call of the leaves, `TOTAL`
    for the sum of its results, `FIRST` for the first of these.
    """

    def code(case: Case) -> str:
        total = "sum(one.sum() for one in CALL)" if len(case.values) > 1 else "CALL.sum()"
        words = {
            "TOTAL": total + (".abs()" if any(one.is_complex() for one in case.values) else ""),
            "FIRST": "CALL[0]" if len(case.values) > 1 else "CALL",
            "CALL": "call(*leaves)",
            "CONTIGUOUS": case.call(".contiguous()"),
            "VALUES": case.call(),
            "OPERANDS": _tuple(case.subject.operand_names()),
            "GRADS": _code_of_given(case) if "GRADS" in lines else "",
            "RTOL": str(case.settings.rtol),
        }
        written = lines.strip()
        definitions = case.definitions() if "leaves" in written or "CALL" in written else ""
        for word, meaning in words.items():
            written = written.replace(word, meaning)
        return case.program(definitions + written, kind(case))

    return code


def _tuple(names: Sequence[str]) -> str:
    return f"({', '.join(names)}{',' if len(names) == 1 else ''})"


_OF_VALUES = (
    Check(
        "the values are not those of the reference",
        "the reference",
        _reference,
        _lines("assert_close(VALUES, reference(*OPERANDS))"),
    ),
    Check(
        "the values depend on the layout in memory",
        "the call in this layout",
        _layouts,
        _lines("assert_close(VALUES, CONTIGUOUS)"),
    ),
    Check(
        "an argument was changed",
        "the call",
        _unchanged,
        _lines("""
before = [one.clone() for one in OPERANDS]
with torch.no_grad():
    VALUES
assert all(map(torch.equal, OPERANDS, before))
"""),
    ),
)
_OF_GRADIENTS = (
    Check(
        "the gradient is not the derivative",
        "the gradient",
        _first_order,
        _lines("torch.autograd.gradcheck(call, leaves, rtol=RTOL)"),
    ),
    Check(
        "the gradient that backward is given was changed",
        "the gradient",
        _given_unchanged,
        _lines("""
out = FIRST
grad = torch.ones_like(out)
torch.autograd.grad(out, leaves, grad)
assert torch.equal(grad, torch.ones_like(out))
"""),
    ),
    Check(
        "values or gradient depend on the dtype",
        "the call in this dtype",
        _dtypes,
        _lines(
            """
single, found = CALL, torch.autograd.grad(TOTAL, leaves)
leaves = [leaf.detach().to(torch.promote_types(leaf.dtype, torch.float64)).requires_grad_() for leaf in leaves]
assert_close(single, CALL, check_dtype=False, rtol=1e-3, atol=1e-3)
assert_close(found, torch.autograd.grad(TOTAL, leaves), check_dtype=False, rtol=1e-3, atol=1e-3)
""",
            lambda case: case.dtype,
        ),
    ),
    Check(
        "the gradient depends on the layout of the one that backward is given",
        "the gradient",
        _given_layouts,
        _lines("""
out = FIRST
for grad in (GRADS):
    found = torch.autograd.grad(out, leaves, grad, retain_graph=True)
    assert_close(found, torch.autograd.grad(out, leaves, grad.contiguous(), retain_graph=True))
"""),
    ),
    Check(
        "the gradient depends on what else needs one",
        "the gradient",
        _patterns,
        _lines("""
wanted = torch.autograd.grad(TOTAL, leaves)
for place in range(len(wanted)):
    leaves = [leaf.detach().requires_grad_(at == place) for at, leaf in enumerate(leaves)]
    assert_close(torch.autograd.grad(TOTAL, leaves[place])[0], wanted[place])
"""),
    ),
    Check(
        "the gradient uses what was changed after the call",
        "the gradient",
        _later,
        _lines("""
sources, wanted = leaves, torch.autograd.grad(TOTAL, leaves)
for result_too in (False, True):
    leaves = [leaf.clone() for leaf in sources]
    out = FIRST
    total = out.sum()
    with torch.no_grad():
        for one in [out] if result_too else leaves:
            one.mul_(2).add_(1)
    try:
        found = torch.autograd.grad(total, sources)
    except RuntimeError:
        continue  # as it should be
    assert_close(found, wanted)
"""),
    ),
    Check(
        "the second derivative is wrong",
        "the second derivative",
        _second_order,
        _lines("torch.autograd.gradgradcheck(call, leaves, rtol=RTOL)"),
    ),
)
