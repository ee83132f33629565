"""Reductions, softmax and normalisation of rows that are long, many, far apart or unaligned: threads share them in several ways."""

import pytest
from card import needs_card, needs_device, run

import rushlight as torch

PROGRAM = """
import warnings
warnings.simplefilter("ignore")
torch.manual_seed(0)
F = torch.nn.functional
def far(a, b):
    if a.dtype.is_floating_point or a.dtype.is_complex:
        scale = b.abs().nan_to_num(0, 0, 0).max().item() if b.numel() else 0
        bound = {2: 3e-2, 4: 2e-4, 8: 2e-4 if a.dtype.is_complex else 1e-10}.get(a.dtype.itemsize, 1e-10)
        return not torch.allclose(a, b, rtol=bound, atol=bound * scale, equal_nan=True)
    return not torch.equal(a, b)
def same(what, function, *operands):
    host = function(*operands)
    card = function(*[x.cuda() for x in operands])
    host, card = ([x] if isinstance(x, torch.Tensor) else list(x) for x in (host, card))
    for a, b in zip(card, host, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape and a.stride() == b.stride(), (what, a.stride(), b.stride())
        assert not far(a.cpu(), b), (what, (a.cpu() - b).abs().max() if a.dtype != torch.bool else "")
"""


@needs_card
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64", "uint8", "bool", "complex64"])
def test_reductions(dtype):
    run(
        PROGRAM
        + f"""
dtype = torch.{dtype}
"""
        + """
def made(*sizes):
    x = torch.randn(*sizes, dtype=torch.float64) * 3
    return (x > 2) if dtype == torch.bool else x.abs().to(dtype) if dtype == torch.uint8 else x.to(dtype)
FORMS = [
    (made(3, 1000), 1), (made(3, 1000), 0), (made(40, 333), 0), (made(2100, 3), 0), (made(9000, 8), 0), (made(5, 9001), 1),
    (made(70001), 0), (made(2, 33, 301), (0, 2)), (made(2, 32, 304), (0, 2)), (made(4, 9001)[:, 1:], 1), (made(4, 9004)[:, 4:], 1),
    (made(4, 2000).t(), 0), (made(300, 40)[:, ::2], 0), (made(6, 50, 70).transpose(0, 2), 1), (made(7, 40).expand(3, 7, 40), (0, 1)),
    (made(33, 1024), 1), (made(33, 1028)[:, 2:1026], 1),
]
for n, (x, dim) in enumerate(FORMS):
    for name in ("sum", "any", "all", "amax", "amin", "mean", "var", "norm", "logsumexp"):
        if name in ("mean", "var", "norm", "logsumexp") and not (dtype.is_floating_point or dtype.is_complex and name == "mean"):
            continue
        if name in ("amax", "amin") and dtype.is_complex:
            continue
        same((n, name), lambda x: getattr(torch, name)(x, dim=dim), x)
"""
    )


@needs_card
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_softmax(dtype):
    run(
        PROGRAM
        + f"""
dtype = torch.{dtype}
"""
        + """
inf, nan = float("inf"), float("nan")
rows = torch.randn(6, 1500, dtype=dtype)
rows[0, 3], rows[1, 4], rows[2], rows[3, :700] = nan, inf, -inf, -inf
FORMS = [
    (rows, 1), (rows[4:, :40], 1), (rows[4:], 0), (torch.randn(3, 5, 70, dtype=dtype), 1), (torch.randn(50, 6, dtype=dtype).t(), 1),
    (torch.randn(9, 1024, dtype=dtype), -1), (torch.randn(2, 5000, dtype=dtype)[:, 1:], 1), (torch.randn(17, 1, dtype=dtype), 1),
]
for n, (x, dim) in enumerate(FORMS):
    for function in (F.softmax, F.log_softmax):
        same((n, function), lambda x: function(x, dim), x)
        finite = x[4:] if n == 0 else x
        grad = torch.randn(finite.shape, dtype=dtype)
        def back(x, grad):
            x = x.detach().requires_grad_()
            function(x, dim).backward(grad)
            return x.grad
        same((n, function, "gradient"), back, finite, grad)
assert torch.softmax(torch.ones(2, 3, device="cuda").half(), 1, dtype=torch.float32).dtype == torch.float32
"""
    )


@needs_card
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_normalisation(dtype):
    run(
        PROGRAM
        + f"""
dtype = torch.{dtype}
"""
        + """
def check(title, function, x, *parameters):
    grad = torch.randn(x.shape, dtype=dtype)
    def both(x, grad, *parameters):
        own = [tensor.detach().requires_grad_() for tensor in (x, *parameters)]
        y = function(*own)
        y.backward(grad)
        return [y.detach(), *[tensor.grad for tensor in own]]
    same(title, both, x, grad, *parameters)
def parameters(n):
    return torch.randn(n, dtype=dtype), torch.randn(n, dtype=dtype)
for rows, n in ((3, 5), (70, 300), (5, 2000), (2, 20000), (1000, 7)):
    x = torch.randn(rows, n, dtype=dtype) * 3 + 1
    check(("layer", rows, n), lambda x, *p: F.layer_norm(x, (n,), *p), x, *parameters(n))
    check(("layer without", rows, n), lambda x: F.layer_norm(x, (n,)), x)
    check(("rms", rows, n), lambda x, w: F.rms_norm(x, (n,), w), x, parameters(n)[0])
    check(("batch of rows", rows, n), lambda x, *p: F.batch_norm(x, None, None, *p, training=True), x, *parameters(n))
for sizes in ((3, 4, 5, 6), (2, 6, 33, 40), (20, 8, 16, 16)):
    x = torch.randn(*sizes, dtype=dtype) * 2 - 1
    c = sizes[1]
    check(("batch", sizes), lambda x, *p: F.batch_norm(x, None, None, *p, training=True), x, *parameters(c))
    check(("batch without", sizes), lambda x: F.batch_norm(x, None, None, training=True), x)
    check(("group", sizes), lambda x, *p: F.group_norm(x, 2, *p), x, *parameters(c))
    check(("instance", sizes), lambda x, *p: F.instance_norm(x, None, None, *p), x, *parameters(c))
    last = x.contiguous(memory_format=torch.channels_last)
    check(("channels last", sizes), lambda x, *p: F.batch_norm(x, None, None, *p, training=True), last, *parameters(c))
"""
    )


@needs_device
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.complex64], ids=str)
def test_sums_have_the_same_bits_at_any_address(dtype):
    """Packs of unaligned operands are those of aligned ones."""
    for shape, dims in [
        ((70002,), 0),
        ((9, 3002), 1),
        ((40, 501), 1),
        ((9001, 10), 0),
        ((600, 42), 0),
        ((30, 7, 130), (0, 1)),
    ]:
        x = torch.randn(shape, dtype=dtype).cuda()[..., 1:]
        assert torch.equal(x.sum(dims), x.clone().sum(dims)) and torch.equal(x.sum(dims), x.sum(dims))


@needs_device
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.int64, torch.bool], ids=str)
def test_sums_around_the_edges_of_packs(dtype):
    for count in (33, 63, 64, 65, 1023, 1025, 4095, 4097, 16385):
        x = torch.randint(0, 9, (5, count)).to(dtype)
        y = x.cuda()
        for form, own in ((y, x), (y[:, 1:], x[:, 1:]), (y[:, ::2], x[:, ::2]), (y.t().contiguous().t(), x)):
            assert torch.equal(form.sum(1).cpu(), own.sum(1)) and torch.equal(form.sum(0).cpu(), own.sum(0))
    for columns in (8, 9, 31, 33, 127, 128, 130, 260):
        x = torch.randint(0, 9, (300, columns)).to(dtype)
        y = x.cuda()
        assert torch.equal(y.sum(0).cpu(), x.sum(0)) and torch.equal(y[:, 1:].sum(0).cpu(), x[:, 1:].sum(0))
        blocks = torch.randint(0, 9, (3, 50, columns)).to(dtype)
        assert torch.equal(blocks.cuda().sum(1).cpu(), blocks.sum(1)) and torch.equal(
            blocks.cuda().sum((0, 1)).cpu(), blocks.sum((0, 1))
        )
