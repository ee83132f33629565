"""Attention by the kernels of the engine: results and gradients are the CPU's, and need no matrix of scores."""

import pytest
from both_devices import close, floats
from card import needs_device

import rushlight as torch
from rushlight.nn import functional as F

pytestmark = needs_device

#: Queries and keys, and the widths of keys and values: whole tiles, parts of them, more keys than queries and the reverse.
SHAPES = [(64, 64, 16, 16), (70, 130, 20, 8), (130, 65, 64, 40), (3, 5, 128, 1), (1, 200, 33, 128)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("mask", ["none", "causal", "bool", "added", "row"])
def test_attention(shape, mask):
    queries, keys, width, depth = shape
    torch.manual_seed(1)
    masks = {
        "bool": torch.rand(queries, keys) > 0.4,
        "added": torch.randn(2, 1, queries, keys),
        "row": torch.arange(keys) < keys // 2,
    }
    close(
        lambda q, k, v: F.scaled_dot_product_attention(
            q, k, v, masks[mask].to(q.device) if mask in masks else None, is_causal=mask == "causal"
        ),
        floats(2, 3, queries, width),
        floats(2, 3, keys, width),
        floats(2, 3, keys, depth),
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("shape", [(70, 90, 64, 64), (200, 65, 32, 48), (130, 200, 20, 128)], ids=str)
@pytest.mark.parametrize("mask", ["none", "causal", "bool", "added", "row"])
def test_attention_in_half_precision(shape, mask, dtype):
    """Whole tiles and parts of them, in copies of 16 bytes and, with 20 columns, of single elements."""
    queries, keys, width, depth = shape
    torch.manual_seed(2)
    masks = {
        "bool": torch.rand(queries, keys) > 0.4,
        "added": torch.randn(2, 1, queries, keys).to(dtype),
        "row": torch.arange(keys) < keys // 2,
    }
    close(
        lambda q, k, v: F.scaled_dot_product_attention(
            q, k, v, masks[mask].to(q.device) if mask in masks else None, is_causal=mask == "causal"
        ),
        floats(2, 2, queries, width, dtype=dtype),
        floats(2, 1, keys, width, dtype=dtype).expand(2, 2, keys, width),
        floats(2, 2, keys, depth, dtype=dtype),
        tolerance=1e-2 if dtype == torch.float16 else 5e-2,
    )


def in_half_precision(operands, grad, dtype, **options):
    """The results and gradients of attention on the device, and those of the same numbers in `float32` on the CPU."""
    outcomes = []
    for device, wide in (("cuda", dtype), ("cpu", torch.float32)):
        own = [x.to(dtype).to(device, wide).requires_grad_() for x in operands]
        result = F.scaled_dot_product_attention(*own, **options)
        grads = torch.autograd.grad(result, own, grad.to(dtype).to(device, wide))
        outcomes.append([x.detach().cpu().float() for x in (result, *grads)])
    return outcomes


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("width", range(16, 129, 16))
def test_attention_in_half_precision_of_each_width(width, dtype):
    """Each width has kernels of its own. Results and gradients differ from those in `float32` by the rounding of weights, of what
    they are multiplied with, and of the results."""
    torch.manual_seed(3)
    *operands, grad = (torch.randn(1, 150, width) for _ in range(4))
    tolerance = 2 ** (-9 if dtype == torch.float16 else -6)
    for found, wanted in zip(*in_half_precision(operands, grad, dtype, is_causal=True), strict=True):
        assert (found - wanted).abs().max() <= tolerance * wanted.abs().max()


@pytest.mark.parametrize("scale", [-0.4, 0.0, 2.0])
def test_attention_in_half_precision_with_any_scale(scale):
    """A negative factor turns the order of scores, and zero makes all weights equal; hidden keys stay hidden."""
    torch.manual_seed(4)
    *operands, grad = (torch.randn(1, 40, 24) for _ in range(4))
    found, wanted = in_half_precision(operands, grad, torch.float16, is_causal=True, scale=scale)
    for one, other in zip(found, wanted, strict=True):
        assert (one - other).abs().max() <= 2e-3 * max(1, float(other.abs().max()))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("step", [0.01, 0.1, 3.0])
def test_attention_in_half_precision_of_rising_scores(step, dtype):
    """Weights stay relative to a former greatest score as long as it is not far below the present one. In the gradients of queries,
    such keys cancel each other."""
    torch.manual_seed(5)
    query, key, value, grad = (torch.randn(1, 200, 16) for _ in range(4))
    query[..., 0], key[..., 0] = 4.0, torch.arange(200) * step
    (result, *_, to_value), (wanted, *_, wanted_to_value) = in_half_precision((query, key, value), grad, dtype)
    for one, other in ((result, wanted), (to_value, wanted_to_value)):
        assert (one - other).abs().max() <= 2 ** (-9 if dtype == torch.float16 else -6) * other.abs().max()


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("first", [0, 1, 8])
def test_attention_in_half_precision_of_heads_in_rows(first, causal):
    """Heads as a dimension of rows, which begin at any element: copies of 16 bytes need whole packs. Several blocks have several
    tiles each, and the last ones are not whole."""
    torch.manual_seed(6)
    whole = [torch.randn(2, rows, 2, 48) for rows in (270, 150 + 120 * causal, 150 + 120 * causal)]
    outcomes = []
    for device, wide in (("cuda", torch.float16), ("cpu", torch.float32)):
        own = [x.half().to(device, wide).requires_grad_() for x in whole]
        heads = [x[..., first : first + 32].transpose(1, 2) for x in own]
        result = F.scaled_dot_product_attention(*heads, is_causal=causal)
        grads = torch.autograd.grad(result.square().sum(), own)
        outcomes.append([x.detach().cpu().float() for x in (result, *grads)])
    for found, wanted in zip(*outcomes, strict=True):
        assert (found - wanted).abs().max() <= 4e-3 * wanted.abs().max()


def test_attention_of_strided_and_repeated_operands():
    """Heads as a dimension of rows, one key for several heads, and a query that sees nothing."""
    mask = torch.ones(10, 12, dtype=torch.bool)
    mask[3] = False
    close(
        lambda q, k, v: F.scaled_dot_product_attention(
            q.reshape(2, 10, 3, 8).transpose(1, 2), k.expand(2, 3, 12, 8), v.transpose(-1, -2), mask.to(q.device)
        ),
        floats(2, 10, 24),
        floats(2, 1, 12, 8),
        floats(2, 3, 5, 12),
    )


def test_attention_without_a_kernel():
    """Wide heads and double precision are composed."""
    close(F.scaled_dot_product_attention, floats(2, 5, 130), floats(2, 7, 130), floats(2, 7, 3))
    close(F.scaled_dot_product_attention, *(floats(2, 5, 8, dtype=torch.float64) for _ in range(3)))


def test_attention_needs_no_matrix_of_scores():
    """The memory that a call takes grows with the length, not with its square."""
    needed = []
    for length in (256, 512):
        operands = [torch.randn(1, length, 8, device="cuda") for _ in range(3)]
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        F.scaled_dot_product_attention(*operands)
        needed.append(torch.cuda.max_memory_allocated() - before)
    assert needed[1] <= 2 * needed[0]
