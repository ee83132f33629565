"""Compares gradients with finite differences."""

from __future__ import annotations

import rushlight as torch
from rushlight._warnings import warn

from . import _jacobians
from ._jacobians import Subject, tupled
from ._tangents import differentiable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rushlight import Tensor

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]


class GradcheckError(RuntimeError):
    """The analytical gradient differs from the numerical gradient.

    >>> def lost(x):
    ...     return x * x.detach()
    >>> x = torch.ones(1, dtype=torch.float64, requires_grad=True)
    >>> try:
    ...     torch.autograd.gradcheck(lost, x)
    ... except torch.autograd.gradcheck.GradcheckError:
    ...     print("wrong")
    wrong
    """


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Compares the gradients of `func(*inputs)` with central differences of step `eps`. Returns True or raises an error.

    Only inputs of floating-point or complex dtype that require gradients are checked. Use float64, because rounding
    errors of float32 are too large.

    Args:
        func: a function of the inputs that returns one or more tensors.
        inputs: a tensor, or several arguments of `func`.
        eps, atol, rtol: the step, and the tolerances of the comparison.
        raise_exception: whether to raise an error or return False.
        nondet_tol: the tolerance between two backward passes.
        check_undefined_grad: whether to check that backward supports unused results, and forward mode inputs without
            tangents.
        check_grad_dtypes: whether gradients must have the dtypes of their inputs.
        check_batched_grad, check_batched_forward_grad: whether to check that batched gradients equal single ones.
        check_forward_ad, check_backward_ad: which modes to check.
        fast_mode: whether to compare one random combination of all derivatives instead of each derivative.
        masked: whether the gradient for a zero gradient of the outputs need only be close to zero.

    >>> x = torch.tensor([0.5, 2.], dtype=torch.float64, requires_grad=True)
    >>> torch.autograd.gradcheck(torch.exp, (x,))
    True
    """
    if not (check_forward_ad or check_backward_ad):
        raise AssertionError("Expected at least one of check_forward_ad or check_backward_ad to be True")
    if check_batched_grad and not check_backward_ad:
        raise AssertionError("Setting check_batched_grad=True requires check_backward_ad to be True")
    if check_batched_forward_grad and not check_forward_ad:
        raise AssertionError("Setting check_batched_forward_grad=True requires check_forward_ad to be True")
    inputs = tupled(inputs)
    wanted = _check_inputs(inputs)
    results = tupled(func(*inputs))
    chosen = [place for place, out in enumerate(results) if out.requires_grad]
    try:
        if not chosen:
            _check_constant(func, inputs, wanted, results, eps)
            return True
        outputs = [results[place] for place in chosen]
        directions = _jacobians.random_unit if fast_mode else _jacobians.units
        subject = Subject(
            *(func, inputs, wanted, chosen),
            [directions(inputs[place].detach()) for place in wanted],
            [directions(out.detach()) for out in outputs],
        )
        slopes = [_jacobians.numerical(subject, number, eps) for number in range(len(wanted))]
        compare = _Comparison(subject, eps, atol, rtol, fast_mode)
        if check_backward_ad:
            _check_backward(subject, outputs, slopes, compare, nondet_tol, check_grad_dtypes)
        if check_forward_ad:
            _check_forward(subject, slopes, compare, check_grad_dtypes)
            if check_undefined_grad:
                _check_undefined_forward(subject)
        if check_batched_forward_grad:
            _check_batched_forward(subject)
        if check_backward_ad:
            if check_batched_grad:
                _check_batched(subject, outputs)
            _check_zero(subject, outputs, bool(masked))
            if check_undefined_grad:
                _check_undefined(subject)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _check_inputs(inputs: tuple[Any, ...]) -> list[int]:
    """The positions of the inputs that require gradients."""
    wanted = [place for place, x in enumerate(inputs) if isinstance(x, torch.Tensor) and x.requires_grad]
    for place in wanted:
        x = inputs[place]
        if x.dtype not in (torch.float64, torch.complex128):
            warn(
                f"Input #{place} requires gradient and is not a double precision floating point or complex. This check will likely fail if all the inputs are not of double precision floating point or complex. ",
            )
        if x.numel() and any(stride == 0 and size > 1 for stride, size in zip(x.stride(), x.shape)):
            raise RuntimeError(
                f"The {place}th input has a dimension with stride 0. gradcheck only supports inputs that are non-overlapping to be able to compute the numerical gradients correctly. You should call .contiguous on the input before passing it to gradcheck."
            )
    if not wanted:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of them have requires_grad=True."
        )
    return wanted


def _check_constant(
    func: Callable[..., Any], inputs: tuple[Any, ...], wanted: list[int], results: tuple[Any, ...], eps: float
) -> None:
    """Checks that outputs without a gradient do not depend on the inputs."""
    chosen = [place for place, out in enumerate(results) if differentiable(out)]
    subject = Subject(func, inputs, wanted, chosen, [_jacobians.units(inputs[place].detach()) for place in wanted], [])
    for number in range(len(wanted)):
        for place, slopes in enumerate(_jacobians.numerical(subject, number, eps)):
            if any(slope is not None and bool((slope != 0).any()) for slope in slopes):
                raise GradcheckError(
                    "Numerical gradient for function expected to be zero\n"
                    f"Output {place} does not require grad but depends on input {number}."
                )


class _Comparison:
    """Compares Jacobians and describes differences."""

    def __init__(self, subject: Subject, eps: float, atol: float, rtol: float, fast: bool) -> None:
        self.subject, self.eps, self.atol, self.rtol, self.fast = subject, eps, atol, rtol, fast

    def __call__(self, found: Tensor, expected: Tensor, output: int, number: int, mode: str, part: str) -> None:
        """``part`` is the part of a complex output (in forward mode, of a complex input) that is differentiated."""
        atol = self.atol
        if self.fast:
            # The error of the combination is the sum of the errors of the entries.
            atol *= float(self.subject.directions[number].sum())
            if not mode:
                atol *= float(self.subject.weights[output].sum())
        kind = torch.promote_types(found.dtype, expected.dtype)
        if torch.allclose(found.to(kind), expected.to(kind), self.rtol, atol):
            return
        text = f"{part}Jacobian {mode}mismatch for output {output} with respect to input {number},\nnumerical:{expected}\nanalytical:{found}\n"
        if self.fast:
            text += "These are the derivatives along one random direction; fast_mode=False compares each of them.\n"
        raise GradcheckError(text)


def _check_forward(
    subject: Subject, slopes: list[list[_jacobians.Slopes]], compare: _Comparison, check_grad_dtypes: bool
) -> None:
    for number, source in enumerate(subject.sources()):
        for name in ("imaginary", "real") if source.is_complex() else ("real",):
            found, same_kinds = _jacobians.forward(subject, number, 1j if name == "imaginary" else 1)
            if check_grad_dtypes and not same_kinds:
                raise GradcheckError("Forward AD gradient has dtype mismatch.")
            part = f"While considering the {name} part of complex inputs only, " if source.is_complex() else ""
            for output, tangents in enumerate(found):
                expected = getattr(slopes[number][output], name)
                compare(tangents, expected, output, number, "computed with forward mode ", part)


def _check_undefined_forward(subject: Subject) -> None:
    """Checks that zero tangents and missing tangents give the same results."""
    zeros = [torch.zeros_like(source.detach()) for source in subject.sources()]
    for without in (None, *range(len(zeros))):
        tangents = [None if number == without else zero for number, zero in enumerate(zeros)]
        for _, tangent in _jacobians.along(subject, tangents):
            if tangent is not None and bool((tangent != 0).any()):
                raise GradcheckError("Expected all output tangents to be undefined or zero when all input tangents are")


def _check_backward(
    subject: Subject,
    outputs: list[Tensor],
    slopes: list[list[_jacobians.Slopes]],
    compare: _Comparison,
    nondet_tol: float,
    check_grad_dtypes: bool,
) -> None:
    for imaginary in (True, False):
        for output, value in enumerate(outputs):
            if imaginary and not value.is_complex():
                continue
            found, same_dtypes = _jacobians.backward(subject, value, output, imaginary)
            again, _ = _jacobians.backward(subject, value, output, imaginary)
            if check_grad_dtypes and not same_dtypes:
                raise GradcheckError("Gradient has dtype mismatch")
            for one, other in zip(found, again):
                if one.numel() and bool(((one - other).abs() > nondet_tol).any()):
                    raise GradcheckError(
                        f"Backward is not reentrant, i.e., running backward with same input and grad_output multiple times gives different values, although analytical gradient matches numerical gradient.The tolerance for nondeterminism was {nondet_tol}."
                    )
            name = "imaginary" if imaginary else "real"
            part = f"While considering the {name} part of complex outputs only, " if value.is_complex() else ""
            for number, gradients in enumerate(found):
                expected = _jacobians.expected_backward(slopes[number][output], subject.weights[output], imaginary)
                compare(gradients, expected, output, number, "", part)


def _check_batched(subject: Subject, outputs: list[Tensor]) -> None:
    """Checks that batched gradients equal single ones."""
    for output, value in enumerate(outputs):
        starts = torch.randn(2, *value.shape, dtype=value.dtype, device=value.device)
        grad = lambda start, batched, value=value: torch.autograd.grad(
            value, subject.sources(), start, retain_graph=True, allow_unused=True, is_grads_batched=batched
        )
        try:
            together = grad(starts, True)
        except RuntimeError as error:
            raise GradcheckError(f"While computing batched gradients, got: {error}") from error
        for number, (found, column) in enumerate(zip(together, zip(*(grad(start, False) for start in starts)))):
            _compare_batched(found, None if found is None else torch.stack(column), output, number)


def _check_batched_forward(subject: Subject) -> None:
    for number, source in enumerate(subject.sources()):
        tangents = torch.randn(2, *source.shape, dtype=source.dtype, device=source.device)

        def along(tangent: Tensor, number: int = number) -> tuple[Tensor, ...]:
            chosen: list[Tensor | None] = [None] * len(subject.wanted)
            chosen[number] = tangent
            found = _jacobians.along(subject, chosen)
            return tuple(torch.zeros_like(value) if one is None else one for value, one in found)

        try:
            together = torch.func.vmap(along)(tangents)
        except RuntimeError as error:
            raise GradcheckError(f"While computing batched gradients, got: {error}") from error
        for output, (found, column) in enumerate(zip(together, zip(*(along(tangent) for tangent in tangents)))):
            _compare_batched(found, torch.stack(column), output, number)


def _compare_batched(found: Tensor | None, expected: Tensor | None, output: int, number: int) -> None:
    if found is not None and expected is not None and not torch.allclose(found, expected):
        raise GradcheckError(
            f"For output {output} and input {number}:\n\nBatched gradients differ from single gradients.\n\n"
            f"Got:\n{found}\n\nExpected:\n{expected}"
        )


def _check_zero(subject: Subject, outputs: list[Tensor], masked: bool) -> None:
    """Checks that a zero gradient of the outputs gives zero gradients."""
    starts = [torch.zeros_like(out) for out in outputs]
    found = torch.autograd.grad(outputs, subject.sources(), starts, retain_graph=True, allow_unused=True)
    for source, grad in zip(subject.sources(), found):
        if grad is None:
            continue
        if not (torch.allclose(grad, torch.zeros_like(grad)) if masked else bool((grad == 0).all())):
            raise GradcheckError("backward not multiplied by grad_output")
        if grad.dtype != source.dtype:
            raise GradcheckError("grad is incorrect type")
        if grad.shape != source.shape:
            raise GradcheckError("grad is incorrect size")


class _Unused(torch.autograd.Function):
    """The identity without a gradient: for the nodes before it, the result looks unused."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor) -> Tensor:
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> None:
        return None


def _warn_of_check() -> None:
    warn(
        "Backwards compatibility: New undefined gradient support checking feature is enabled by default, but it may break "
        "existing callers of this function. If this is true for you, you can call this function with "
        '"check_undefined_grad=False" to disable the feature'
    )


def _check_undefined(subject: Subject) -> None:
    """Checks that backward supports unused results: all of them, and each of them."""
    count = len(subject.chosen)
    for unused in (None, *range(count if count > 1 else 0)):
        outputs = subject.outputs(subject.inputs)
        outputs = [_Unused.apply(out) if unused in (None, number) else out for number, out in enumerate(outputs)]
        try:
            found = torch.autograd.grad(
                outputs, subject.sources(), [torch.zeros_like(out) for out in outputs], allow_unused=True
            )
        except RuntimeError as error:
            _warn_of_check()
            raise GradcheckError(
                'Expected backward function to handle undefined output grads. Please look at "Notes about undefined output gradients" in "tools/autograd/derivatives.yaml"'
            ) from error
        if any(grad is not None and bool((grad != 0).any()) for grad in found):
            _warn_of_check()
            raise GradcheckError(
                'Expected all input grads to be undefined or zero when all output grads are undefined or zero. Please look at "Notes about undefined output gradients" in "tools/autograd/derivatives.yaml"'
            )


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """Returns True if the second derivatives of `func(*inputs)` equal central differences.

    The gradients of the outputs are `grad_outputs`, random by default. Derivatives are with respect to inputs and
    `grad_outputs`. `check_rev_over_rev` differentiates the gradient with backward passes, `check_fwd_over_rev` in
    forward mode. With `gen_non_contig_grad_outputs` the random gradients are not contiguous. The other arguments are
    those of `gradcheck`.

    >>> x = torch.tensor([0.5, 2.], dtype=torch.float64, requires_grad=True)
    >>> torch.autograd.gradgradcheck(torch.exp, (x,))
    True
    """
    if not (check_fwd_over_rev or check_rev_over_rev):
        raise AssertionError("Expected at least one of check_fwd_over_rev or check_rev_over_rev to be True")
    if check_undefined_grad and not check_rev_over_rev:
        raise AssertionError("Setting check_undefined_grad=True requires check_rev_over_rev to be True")
    if check_batched_grad and not check_rev_over_rev:
        raise AssertionError("Setting check_batched_grad=True requires check_rev_over_rev to be True")
    inputs = tupled(inputs)
    if grad_outputs is None:
        outputs = [out for out in tupled(func(*inputs)) if out.requires_grad]
        grad_outputs = tuple(_random_weight(out, gen_non_contig_grad_outputs) for out in outputs)
    grad_outputs = tupled(grad_outputs)
    count = len(inputs)
    wants_gradient = [isinstance(x, torch.Tensor) and x.requires_grad for x in (*inputs, *grad_outputs)]

    def first_order(*arguments: Any) -> tuple[Tensor, ...]:
        # Tensors from forward mode do not have `requires_grad` set.
        both = [x.requires_grad_() if wants else x for wants, x in zip(wants_gradient, arguments)]
        outputs = [out for out in tupled(func(*both[:count])) if out.requires_grad]
        sources = [x for wants, x in zip(wants_gradient, both[:count]) if wants]
        found = torch.autograd.grad(outputs, sources, both[count:], create_graph=True, allow_unused=True)
        return tuple(grad for grad in found if grad is not None)

    return gradcheck(
        first_order,
        inputs + grad_outputs,
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
        check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad,
        check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev,
        fast_mode=fast_mode,
        masked=masked,
    )


def _random_weight(output: Tensor, spread: bool) -> Tensor:
    """A random gradient for an output. Non-contiguous gradients use every second element of their memory."""
    sizes = tuple(output.shape)
    if spread and sizes:
        return torch.randn(*sizes, 2, dtype=output.dtype, device=output.device)[..., 0].requires_grad_()
    return torch.randn(sizes, dtype=output.dtype, device=output.device).requires_grad_()


# torch 0.x had `gradcheck.gradcheck(...)` after `from torch.autograd import gradcheck`.
vars(gradcheck).update(gradcheck=gradcheck, gradgradcheck=gradgradcheck, GradcheckError=GradcheckError)


def __dir__() -> list[str]:
    return __all__
