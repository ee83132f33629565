"""Comparing gradients with finite differences."""

import rushlight as torch
from rushlight._warnings import warn

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]


class GradcheckError(RuntimeError):
    """The analytical gradient is not the numerical one.

    >>> def lost(x):
    ...     return x * x.detach()
    >>> x = torch.ones(1, dtype=torch.float64, requires_grad=True)
    >>> try:
    ...     torch.autograd.gradcheck(lost, x)
    ... except torch.autograd.gradcheck.GradcheckError:
    ...     print("wrong")
    wrong
    """


def _tensors(value):
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def _differentiable(outputs):
    return tuple(
        o for o in _tensors(outputs) if isinstance(o, torch.Tensor) and (o.is_floating_point() or o.is_complex())
    )


def _places(tensor):
    """Every index of a tensor, in row-major order."""
    shape = tuple(tensor.shape)
    index = [0] * len(shape)
    for _ in range(tensor.numel()):
        yield tuple(index)
        for dim in range(len(shape) - 1, -1, -1):
            index[dim] += 1
            if index[dim] < shape[dim]:
                break
            index[dim] = 0


def _flat(tensor):
    return tensor.detach().reshape(-1).tolist()


def _numerical(function, inputs, place, eps):
    """For each output a list of columns: how it changes with each element of `inputs[place]` (and its imaginary part)."""
    # `.data` counts no version: what backward saved is the same again after each step.
    source = inputs[place].data
    columns = None
    for index in _places(source):
        before = source[index].item()
        for direction in (eps, eps * 1j) if source.is_complex() else (eps,):
            with torch.no_grad():
                source[index] = before + direction
                above = [_flat(o) for o in _differentiable(function(*inputs))]
                source[index] = before - direction
                below = [_flat(o) for o in _differentiable(function(*inputs))]
                source[index] = before
            change = [[(a - b) / (2 * eps) for a, b in zip(x, y)] for x, y in zip(above, below)]
            if columns is None:
                columns = [[] for _ in change]
            for output, column in zip(columns, change):
                output.append(column)
    return columns


def _analytical(output, inputs, wanted):
    """For each wanted input a list of rows: the gradient of each element of `output` (and of its imaginary part)."""
    rows = [[] for _ in wanted]
    for index in _places(output):
        for direction in (1, 1j) if output.is_complex() else (1,):
            seed = torch.zeros_like(output)
            seed[index] = direction
            found = torch.autograd.grad(output, [inputs[w] for w in wanted], seed, retain_graph=True, allow_unused=True)
            for place, (w, grad) in enumerate(zip(wanted, found)):
                if grad is not None and grad.shape != inputs[w].shape:
                    raise GradcheckError(f"grad is incorrect size: {grad.shape} for an input of {inputs[w].shape}")
                zero = 0j if inputs[w].is_complex() else 0.0
                rows[place].append([zero] * inputs[w].numel() if grad is None else _flat(grad))
    return rows


def _expected_rows(columns, output, source):
    """The numerical derivatives in the form of `_analytical`: torch's convention for complex numbers is the conjugate."""
    count = output.numel()
    rows = []
    for element in range(count):
        for imaginary in (False, True) if output.is_complex() else (False,):
            part = (lambda z: complex(z).imag) if imaginary else (lambda z: complex(z).real)
            if source.is_complex():
                pairs = [
                    complex(part(columns[2 * k][element]), part(columns[2 * k + 1][element]))
                    for k in range(source.numel())
                ]
            else:
                pairs = [part(columns[k][element]) for k in range(source.numel())]
            rows.append(pairs)
    return rows


def _close(a, b, rtol, atol):
    if a == b:
        return True
    return abs(a - b) <= atol + rtol * abs(b)


def _show(rows):
    return "[" + ",\n ".join(str(row) for row in rows) + "]"


def gradcheck(
    func,
    inputs,
    *,
    eps=1e-6,
    atol=1e-5,
    rtol=1e-3,
    raise_exception=True,
    nondet_tol=0.0,
    check_undefined_grad=True,
    check_grad_dtypes=False,
    check_batched_grad=False,
    check_batched_forward_grad=False,
    check_forward_ad=False,
    check_backward_ad=True,
    fast_mode=False,
    masked=None,
):
    """True if the gradients of `func(*inputs)` agree with central differences of step `eps`; raises GradcheckError else.

    Only inputs of floating or complex dtype that require gradients are checked; use float64, since in float32 rounding
    hides the answer. `raise_exception=False` returns False instead.

    >>> x = torch.tensor([0.5, 2.], dtype=torch.float64, requires_grad=True)
    >>> torch.autograd.gradcheck(torch.exp, (x,))
    True
    """
    try:
        _check(func, _tensors(inputs), eps, atol, rtol, nondet_tol, check_undefined_grad, check_grad_dtypes)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _check(func, inputs, eps, atol, rtol, nondet_tol, check_undefined_grad, check_grad_dtypes):
    wanted = [k for k, x in enumerate(inputs) if isinstance(x, torch.Tensor) and x.requires_grad]
    if not wanted:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of them have requires_grad=True."
        )
    for k in wanted:
        x = inputs[k]
        if x.dtype not in (torch.float64, torch.complex128):
            warn(
                f"Input #{k} requires gradient and is not a double precision floating point or complex. This check will likely fail if all the inputs are not of double precision floating point or complex. ",
            )
        if x.numel() and 0 in x.stride() and any(s == 0 and n > 1 for s, n in zip(x.stride(), x.shape)):
            raise RuntimeError(
                f"The {k}th input has a dimension with stride 0. gradcheck only supports inputs that are non-overlapping to be able to compute the numerical gradients correctly. You should call .contiguous on the input before passing it to gradcheck."
            )
    outputs = _differentiable(func(*inputs))
    if not outputs or not any(o.requires_grad for o in outputs):
        _check_constant(func, inputs, wanted, eps, atol)
        return
    numerical = {k: _numerical(func, inputs, k, eps) for k in wanted}
    for number, output in enumerate(outputs):
        if not output.requires_grad:
            continue
        analytical = _analytical(output, inputs, wanted)
        again = _analytical(output, inputs, wanted)
        for place, k in enumerate(wanted):
            columns = numerical[k][number] if numerical[k] else []
            expected = _expected_rows(columns, output, inputs[k])
            found = analytical[place]
            agrees = all(_close(a, e, rtol, atol) for row, want in zip(found, expected) for a, e in zip(row, want))
            if not agrees:
                raise GradcheckError(
                    f"Jacobian mismatch for output {number} with respect to input {k},\nnumerical:{_show(expected)}\nanalytical:{_show(found)}\n"
                )
            same = all(_close(a, b, 0.0, nondet_tol) for x, y in zip(found, again[place]) for a, b in zip(x, y))
            if not same:
                raise GradcheckError(
                    "Backward is not reentrant, i.e., running backward with same input and grad_output multiple times gives different values, although analytical gradient matches numerical gradient."
                )
    if check_undefined_grad:
        _check_undefined(func, inputs, wanted)


def _check_constant(func, inputs, wanted, eps, atol):
    """An output without gradient must not depend on the inputs."""
    for k in wanted:
        for number, columns in enumerate(_numerical(func, inputs, k, eps) or ()):
            if any(abs(x) > atol for column in columns for x in column):
                raise GradcheckError(
                    f"Numerical gradient for function expected to be zero: output {number} does not require grad but depends on input {k}"
                )


def _check_undefined(func, inputs, wanted):
    """Backward must accept results that nobody used."""
    outputs = _differentiable(func(*inputs))
    live = [o for o in outputs if o.requires_grad]
    if len(live) < 2:
        return
    for output in live:
        torch.autograd.grad(
            output, [inputs[k] for k in wanted], torch.zeros_like(output), retain_graph=True, allow_unused=True
        )


def gradgradcheck(
    func,
    inputs,
    grad_outputs=None,
    *,
    eps=1e-6,
    atol=1e-5,
    rtol=1e-3,
    gen_non_contig_grad_outputs=False,
    raise_exception=True,
    nondet_tol=0.0,
    check_undefined_grad=True,
    check_grad_dtypes=False,
    check_batched_grad=False,
    check_fwd_over_rev=False,
    check_rev_over_rev=True,
    fast_mode=False,
    masked=False,
):
    """True if the gradients of the gradients of `func(*inputs)` agree with central differences.

    They are taken along `grad_outputs`, random ones by default, and with respect to inputs and `grad_outputs`.

    >>> x = torch.tensor([0.5, 2.], dtype=torch.float64, requires_grad=True)
    >>> torch.autograd.gradgradcheck(torch.exp, (x,))
    True
    """
    inputs = _tensors(inputs)
    if grad_outputs is None:
        outputs = [o for o in _differentiable(func(*inputs)) if o.requires_grad]
        grad_outputs = []
        for output in outputs:
            grad = torch.randn(tuple(output.shape), dtype=output.dtype)
            if gen_non_contig_grad_outputs and grad.dim() > 1:
                grad = grad.transpose(0, -1).contiguous().transpose(0, -1)
            grad_outputs.append(grad.detach().requires_grad_())
    grad_outputs = _tensors(grad_outputs)
    count = len(grad_outputs)

    def first_order(*arguments):
        own, weights = arguments[:-count] if count else arguments, arguments[-count:] if count else ()
        own = tuple(
            x.detach().requires_grad_()
            if isinstance(x, torch.Tensor) and x.is_leaf and x.requires_grad and not torch.is_grad_enabled()
            else x
            for x in own
        )
        with torch.enable_grad():
            outputs = [o for o in _differentiable(func(*own)) if o.requires_grad]
            sources = [x for x in own if isinstance(x, torch.Tensor) and x.requires_grad]
            found = torch.autograd.grad(outputs, sources, weights, create_graph=True, allow_unused=True)
        return tuple(g for g in found if g is not None)

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
    )


# The 0.x spelling `gradcheck.gradcheck(...)` after `from torch.autograd import gradcheck`.
vars(gradcheck).update(gradcheck=gradcheck, gradgradcheck=gradgradcheck, GradcheckError=GradcheckError)


def __dir__() -> list[str]:
    return __all__
