"""The checks of fuzzing, and the code that shows a failure of each."""

from __future__ import annotations

from typing import NamedTuple

import rushlight as torch
from rushlight.autograd._tangents import differentiable
from rushlight.autograd.gradcheck import GradcheckError

from . import _drawing
from ._fuzz_case import DIRECTIONS, MANY, Case, Failure, called, cast, raised, random_tensor, tuple_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rushlight import Tensor, dtype

    from ._drawing import Layout

__all__ = ["examine"]

#: The allowed error relative to results in double precision, as a fraction of the largest element.
_COARSE = {torch.float32: 1e-3, torch.complex64: 1e-3, torch.float16: 5e-2, torch.bfloat16: 2e-1}
_FINE = 1e-9


def _difference(found: Sequence[Tensor], wanted: Sequence[Tensor], tolerance: float) -> str | None:
    """The first result in which two lists differ by more than a fraction of its largest element."""
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
    return [random_tensor(at, tuple(one.shape), one.dtype) for at, one in enumerate(outputs)]


def _gradients(outputs: Sequence[Tensor], leaves: Sequence[Tensor], weights: Sequence[Tensor]) -> list[Tensor]:
    """The gradient of each leaf; zeros for unused leaves."""
    live = [(o, w) for o, w in zip(outputs, weights) if o.requires_grad]
    wanted = [leaf for leaf in leaves if leaf.requires_grad]
    if not live or not wanted:
        return [torch.zeros_like(leaf) for leaf in wanted]
    found = torch.autograd.grad(
        [o for o, _ in live], wanted, [w for _, w in live], retain_graph=True, allow_unused=True
    )
    return [torch.zeros_like(leaf) if grad is None else grad for leaf, grad in zip(wanted, found)]


def examine(case: Case) -> None:
    """Runs all checks. Raises Refused if the function does not accept the arguments, and Failure for the first failure."""
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
            raise raised(check.subject, error, check.code(case)) from error
        if text is not None:
            raise Failure(check.sentence, text, check.code(case))


class Check(NamedTuple):
    """`holds` returns None or a description of the failure, `code` is a program; exceptions are attributed to `subject`."""

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
    double = [[cast(one, torch.float64).requires_grad_(one.requires_grad) for one in part] for part in single]
    outputs, wanted = case.outputs(*single), case.outputs(*double)
    tolerance = _COARSE[case.dtype]
    text = _difference(outputs, wanted, tolerance)
    if text is not None:
        return text
    weights = _weights(wanted)
    rounded = [cast(weight, output.dtype) for weight, output in zip(weights, outputs)]
    found = _gradients(outputs, [*single[0], *single[1]], rounded)
    return _difference(found, _gradients(wanted, [*double[0], *double[1]], weights), tolerance)


def _split(case: Case) -> tuple[Callable[..., tuple[Tensor, ...]], list[Tensor]]:
    """The outputs as a function of the leaves that require gradients, and these leaves."""
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
    """The same with large leaves replaced by their coordinates along some directions."""
    starts = [leaf.detach() for leaf in leaves]
    directions = [
        random_tensor(at, (DIRECTIONS, leaf.numel()), leaf.dtype) if leaf.numel() > MANY else None
        for at, leaf in enumerate(leaves)
    ]
    moves = [
        leaf if along is None else torch.zeros(DIRECTIONS, dtype=leaf.dtype).requires_grad_()
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
    """Gradients are transposed after matrix products, expanded after sums, and slices after concatenations."""
    function, leaves = _split(case)
    outputs = function(*leaves)
    for kind in _drawing.LAYOUTS[1:]:
        layouts = [_given_layout(at, output, kind) for at, output in enumerate(outputs)]
        weights = [
            layout.view(random_tensor(at, layout.base, output.dtype))
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
    """A program that ends with the given lines.

    They contain placeholders: `VALUES` for the call, `OPERANDS` for its operands, `CALL` for the call with the leaves,
    `TOTAL` for the sum of its results, and `FIRST` for the first result.
    """

    def code(case: Case) -> str:
        total = "sum(one.sum() for one in CALL)" if len(case.values) > 1 else "CALL.sum()"
        words = {
            "TOTAL": total + (".abs()" if any(one.is_complex() for one in case.values) else ""),
            "FIRST": "CALL[0]" if len(case.values) > 1 else "CALL",
            "CALL": "call(*leaves)",
            "CONTIGUOUS": case.call(".contiguous()"),
            "VALUES": case.call(),
            "OPERANDS": tuple_of(case.subject.operand_names()),
            "GRADS": _code_of_given(case) if "GRADS" in lines else "",
            "RTOL": str(case.settings.rtol),
        }
        written = lines.strip()
        definitions = case.definitions() if "leaves" in written or "CALL" in written else ""
        for word, meaning in words.items():
            written = written.replace(word, meaning)
        return case.program(definitions + written, kind(case))

    return code


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
        "backward changed the gradient that it received",
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
        "the gradient depends on the layout of the gradient that backward receives",
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
        "the gradient depends on which other arguments require one",
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
        "the gradient uses a tensor that was changed after the call",
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
