"""Neural network functions: values compared with NumPy, gradients to second order, torch's error messages."""

from __future__ import annotations

import re

import numpy as np
import pytest

import rushlight as torch
import rushlight.nn.functional as F
from rushlight.autograd import gradcheck, gradgradcheck

rng = np.random.default_rng(0)


def real(*shape, requires_grad=False):
    return torch.from_numpy(np.asarray(rng.standard_normal(shape))).requires_grad_(requires_grad)


def convolved(x, w, stride, padding, dilation, groups):
    """The definition, one window at a time."""
    (n, _, *space), (features, channels, *kernel) = x.shape, w.shape
    x = np.pad(x, [(0, 0), (0, 0), *((side, side) for side in padding)])
    reach = [d * (k - 1) + 1 for d, k in zip(dilation, kernel)]
    sizes = [(s + 2 * p - r) // step + 1 for s, p, r, step in zip(space, padding, reach, stride)]
    out = np.zeros((n, features, *sizes), dtype=np.result_type(x, w))
    for place in np.ndindex(*sizes):
        at = [slice(i * step, i * step + r, d) for i, step, r, d in zip(place, stride, reach, dilation)]
        window = x[(slice(None), slice(None), *at)]
        for group in range(groups):
            own = slice(group * features // groups, (group + 1) * features // groups)
            seen = window[:, group * channels : (group + 1) * channels]
            out[(slice(None), own, *place)] = np.tensordot(seen, w[own], axes=(range(1, seen.ndim), range(1, w.ndim)))
    return out


CONVOLUTIONS = [
    ((2, 4, 8, 8), (3, 4, 3, 3), {}),
    ((2, 4, 8, 9), (6, 2, 3, 2), {"stride": (2, 1), "padding": (1, 2), "dilation": (1, 2), "groups": 2}),
    ((2, 4, 6, 6), (4, 1, 3, 3), {"groups": 4, "padding": (1, 1)}),
    ((2, 4, 5, 5), (5, 4, 1, 1), {}),
    ((2, 4, 5, 5), (6, 2, 1, 1), {"groups": 2}),
    ((2, 4, 5, 5), (5, 4, 1, 1), {"stride": (2, 2)}),
    ((2, 3, 5, 5), (3, 3, 2, 2), {"stride": (4, 4)}),
    ((2, 3, 9), (4, 3, 3), {"stride": (2,), "padding": (2,), "dilation": (2,)}),
    ((1, 2, 4, 5, 4), (3, 2, 2, 3, 2), {"padding": (1, 0, 1)}),
]


@pytest.mark.parametrize(("x", "w", "options"), CONVOLUTIONS)
def test_convolutions_follow_the_definition(x, w, options):
    dims = len(x) - 2
    conv = getattr(torch, f"conv{dims}d")
    x, w, b = real(*x, requires_grad=True), real(*w, requires_grad=True), real(w[0], requires_grad=True)
    full = {"stride": (1,) * dims, "padding": (0,) * dims, "dilation": (1,) * dims, "groups": 1, **options}
    expected = convolved(x.detach().numpy(), w.detach().numpy(), **full)
    expected += b.detach().numpy().reshape(-1, *(1,) * dims)
    np.testing.assert_allclose(conv(x, w, b, **options).detach().numpy(), expected, atol=1e-12)
    assert gradcheck(lambda *args: conv(*args, **options), (x, w, b), fast_mode=True)
    assert gradgradcheck(lambda *args: conv(*args, **options), (x, w, b), fast_mode=True)


def test_convolution_of_one_image_and_of_words_for_padding():
    x, w = real(2, 5, 6), real(3, 2, 4, 3)
    assert torch.conv2d(x, w).shape == (3, 2, 4)
    same = torch.conv2d(x, w, padding="same")
    padded = np.pad(x.numpy(), [(0, 0), (1, 2), (1, 1)])
    np.testing.assert_allclose(
        same.numpy(), convolved(padded[None], w.numpy(), (1, 1), (0, 0), (1, 1), 1)[0], atol=1e-12
    )


@pytest.mark.parametrize(
    "options", [{}, {"stride": 2, "padding": 1, "output_padding": 1}, {"dilation": 2, "groups": 2}]
)
def test_a_transposed_convolution_is_the_gradient_of_a_convolution(options):
    x = real(2, 4, 5, 6, requires_grad=True)
    w = real(4, 6 // options.get("groups", 1), 3, 2, requires_grad=True)
    result = torch.conv_transpose2d(x, w, **options)
    forward = {name: value for name, value in options.items() if name != "output_padding"}
    image = real(*result.shape, requires_grad=True)
    torch.conv2d(image, w, **forward).backward(x.detach())
    np.testing.assert_allclose(result.detach().numpy(), image.grad.numpy(), atol=1e-12)
    assert gradcheck(lambda *args: torch.conv_transpose2d(*args, **options), (x, w), fast_mode=True)
    assert gradgradcheck(lambda *args: torch.conv_transpose2d(*args, **options), (x, w), fast_mode=True)


@pytest.mark.parametrize("stride, dilation, groups", [((1, 1), (1, 1), 1), ((2, 3), (1, 2), 2), ((3, 1), (5, 1), 1)])
def test_windows_much_wider_than_the_image(stride, dilation, groups):
    """Most of the window is in the padding."""
    x, w = real(2, 4, 2, 3), real(4, 2, 9, 70)
    found = torch.conv_transpose2d(x, w, stride=stride, dilation=dilation, groups=groups)
    wanted = np.zeros(tuple(found.shape))
    for image, source in np.ndindex(2, 4):
        group = source // (4 // groups)
        for place in np.ndindex(2, 3):
            top, left = (at * step for at, step in zip(place, stride))
            rows, columns = (slice(at, at + d * (k - 1) + 1, d) for at, d, k in zip((top, left), dilation, (9, 70)))
            added = x[(image, source, *place)].item() * w[source].numpy()
            wanted[image, 2 * group : 2 * group + 2, rows, columns] += added
    np.testing.assert_allclose(found.numpy(), wanted, atol=1e-12)
    padding = tuple(d * (k - 1) for d, k in zip(dilation, (9, 70)))
    full = {"stride": (1, 1), "padding": padding, "dilation": dilation, "groups": 1}
    seen = torch.conv2d(x, w.transpose(0, 1), **full)
    np.testing.assert_allclose(seen.numpy(), convolved(x.numpy(), w.transpose(0, 1).numpy(), **full), atol=1e-12)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"stride": 0}, "non-positive stride is not supported"),
        ({"padding": -1}, "negative padding is not supported"),
        ({"groups": 0}, "non-positive groups is not supported"),
        ({"padding": "foo"}, "Invalid padding string: 'foo'"),
        ({"padding": "same", "stride": 2}, "padding='same' is not supported for strided convolutions"),
        (
            {"stride": (1, 2, 3)},
            "expected stride to be a single integer value or a list of 2 values to match the convolution dimensions, but got "
            "stride=[1, 2, 3]",
        ),
        (
            {"groups": 2},
            "Given groups=2, expected weight to be divisible by 2 at dimension 0, but got weight of size [[3, 4, 3, 3]] instead",
        ),
    ],
)
def test_errors_of_convolutions_are_torchs(options, sentence):
    with pytest.raises(RuntimeError) as caught:
        torch.conv2d(real(2, 4, 8, 8), real(3, 4, 3, 3), **options)
    assert str(caught.value).split("\n")[0] == sentence


def test_convolutions_have_the_same_bits_for_any_number_of_threads():
    x = real(8, 3, 20, 20).float().requires_grad_()
    w = real(5, 3, 3, 3).float().requires_grad_()
    threads = torch.get_num_threads()
    found = []
    try:
        for count in (1, 4):
            torch.set_num_threads(count)
            result = torch.conv2d(x, w)
            found.append([result, *torch.autograd.grad(result.sum(), (x, w))])
    finally:
        torch.set_num_threads(threads)
    for alone, together in zip(*found):
        np.testing.assert_array_equal(alone.detach().numpy(), together.detach().numpy())


def test_max_pooling_finds_places_and_lets_nan_win():
    x = torch.tensor([[[1.0, 3.0, 2.0], [5.0, float("nan"), 0.0]]])
    values, places = F.max_pool2d(x, (2, 1), return_indices=True)
    np.testing.assert_array_equal(values.numpy(), [[[5.0, np.nan, 2.0]]])
    np.testing.assert_array_equal(places.numpy(), [[[3, 4, 2]]])


@pytest.mark.parametrize(
    "options", [{}, {"stride": 1}, {"padding": 1, "stride": 2}, {"dilation": 2}, {"ceil_mode": True}]
)
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_gradients_of_max_pooling(dims, options):
    x = torch.from_numpy(rng.permutation(2 * 7**dims).reshape(2, *(7,) * dims).astype("f8")).requires_grad_()
    assert gradcheck(lambda x: getattr(F, f"max_pool{dims}d")(x, 3, **options), (x,), fast_mode=True)


@pytest.mark.parametrize(
    "options", [{}, {"padding": 1, "stride": 2}, {"padding": 1, "count_include_pad": False}, {"ceil_mode": True}]
)
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_means_over_windows(dims, options):
    x = real(2, *(7,) * dims, requires_grad=True)
    pool = getattr(F, f"avg_pool{dims}d")
    assert gradcheck(lambda x: pool(x, 3, **options), (x,), fast_mode=True)
    whole = getattr(F, f"adaptive_avg_pool{dims}d")(x, 1)
    np.testing.assert_allclose(whole.detach().numpy().ravel(), x.detach().numpy().reshape(2, -1).mean(1))


def test_pooling_refuses_what_torch_refuses():
    x = real(2, 4, 8, 8)
    for call, sentence in [
        (
            lambda: F.max_pool2d(x, 9),
            "Given input size: (4x8x8). Calculated output size: (4x0x0). Output size is too small",
        ),
        (
            lambda: F.max_pool2d(x, 2, padding=2),
            "pad should be at most half of effective kernel size, but got pad=2, kernel_size=2 and dilation=1",
        ),
        (lambda: F.max_pool2d(x, 2, stride=0), "stride should not be zero"),
        (lambda: F.avg_pool2d(x, 2, divisor_override=0), "divisor must be not zero"),
    ]:
        with pytest.raises(RuntimeError) as caught:
            call()
        assert str(caught.value).split("\n")[0] == sentence


def test_dropout_draws_torchs_stream():
    torch.manual_seed(0)
    kept = F.dropout(torch.ones(8), 0.5)
    np.testing.assert_array_equal(kept.numpy() != 0, np.isin(kept.numpy(), [2.0]))
    state = torch.get_rng_state()
    x = torch.ones(4)
    assert F.dropout(x, 0.0).equal(x)
    assert F.dropout(x, 1.0).tolist() == [0.0] * 4
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("options", [{}, {"padding_idx": 1}, {"scale_grad_by_freq": True}])
def test_gradients_of_embeddings(options):
    table = real(4, 3, requires_grad=True)
    numbers = torch.tensor([[0, 1, 1], [3, 1, 0]])
    looked_up = F.embedding(numbers, table, **options)
    np.testing.assert_array_equal(looked_up.detach().numpy(), table.detach().numpy()[numbers.numpy()])
    looked_up.backward(torch.ones(2, 3, 3, dtype=torch.float64))
    counts = np.array([2.0, 3.0, 0.0, 1.0])
    if "padding_idx" in options:
        counts[1] = 0
    if "scale_grad_by_freq" in options:
        counts = np.minimum(counts, 1)
    np.testing.assert_allclose(table.grad.numpy(), np.repeat(counts[:, None], 3, 1))
    with pytest.raises(IndexError, match=r"index out of range in self"):
        F.embedding(torch.tensor([4]), table)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("scores", "targets"), [((3, 4), (3,)), ((2, 4, 3), (2, 3)), ((2, 4, 3, 2), (2, 3, 2)), ((4,), ())]
)
def test_likelihood_and_cross_entropy(scores, targets, weighted, reduction):
    x = real(*scores, requires_grad=True)
    y = torch.from_numpy(np.asarray(rng.integers(0, 4, targets)))
    weight = torch.from_numpy(rng.random(4)) if weighted else None
    for smoothing in (0.0, 0.2):

        def loss(x, smoothing=smoothing):
            return F.cross_entropy(x, y, weight, reduction=reduction, label_smoothing=smoothing)

        assert gradcheck(loss, (x,), fast_mode=True)
    logs = F.log_softmax(x, 0 if len(scores) == 1 else 1)
    plain = F.cross_entropy(x, y, weight, reduction=reduction)
    np.testing.assert_allclose(
        plain.detach().numpy(), F.nll_loss(logs, y, weight, reduction=reduction).detach().numpy()
    )
    assert gradgradcheck(lambda x: F.nll_loss(x, y, weight, reduction=reduction), (x,), fast_mode=True)


def test_losses_and_layers_refuse_what_torch_refuses():
    whole, x = torch.ones(2, dtype=torch.int64), torch.ones(2)
    image = torch.ones(1, 3, 5, 5, dtype=torch.float64)
    for call, error, sentence in [
        (
            lambda: F.huber_loss(whole, x),
            RuntimeError,
            "result type Float can't be cast to the desired output type Long",
        ),
        (lambda: F.soft_margin_loss(whole, x), RuntimeError, "result type Float can't be cast to the desired output"),
        (lambda: F.kl_div(x, whole), RuntimeError, "kl_div: Integral inputs not supported."),
        (
            lambda: torch.nn.Conv2d(3, 4, 3)(image),
            RuntimeError,
            r"Input type \(double\) and bias type \(float\) should be",
        ),
        (lambda: F.conv2d(image, torch.ones(4, 3, 3, 3)), RuntimeError, "expected scalar type Double but found Float"),
        (
            lambda: F.avg_pool2d(torch.ones(2, 3), 2),
            IndexError,
            r"Dimension out of range \(expected to be in range of \[-2, 1",
        ),
        (lambda: torch.baddbmm(x, torch.ones(2, 2, 2), torch.ones(2, 2)), IndexError, "Dimension out of range"),
        (
            lambda: torch.signbit(torch.tensor(1j)),
            NotImplementedError,
            "signbit is not implemented for complex tensors.",
        ),
    ]:
        with pytest.raises(error, match=f"^{sentence}"):
            call()
    both = F.adaptive_max_pool1d_with_indices(torch.ones(1, 2, 4), 2, True)
    assert [part.shape for part in both] == [(1, 2, 2)] * 2


def test_targets_out_of_bounds_and_ignored():
    x = real(3, 4)
    with pytest.raises(IndexError, match=r"Target 5 is out of bounds."):
        F.cross_entropy(x, torch.tensor([0, 1, 5]))
    with pytest.raises(ValueError, match=r"foo is not a valid value for reduction"):
        F.nll_loss(x, torch.tensor([0, 1, 2]), reduction="foo")
    part = F.cross_entropy(x, torch.tensor([0, -100, 2]))
    np.testing.assert_allclose(part.item(), F.cross_entropy(x[::2], torch.tensor([0, 2])).item())
    assert np.isnan(F.cross_entropy(x, torch.tensor([-100, -100, -100])).item())


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("mse_loss", {}),
        ("smooth_l1_loss", {"beta": 0.5}),
        ("huber_loss", {"delta": 0.5}),
        ("binary_cross_entropy_with_logits", {}),
        ("binary_cross_entropy", {}),
        ("kl_div", {"log_target": True}),
    ],
)
def test_gradients_of_losses(name, options, reduction):
    x, y = real(3, 4), real(3, 4)
    if "binary" in name:
        y = y.sigmoid()
    if name == "binary_cross_entropy":
        x = x.sigmoid()
    x, y = x.detach().requires_grad_(), y.detach().requires_grad_()
    assert gradcheck(lambda x, y: getattr(F, name)(x, y, reduction=reduction, **options), (x, y))
    assert gradgradcheck(lambda x, y: getattr(F, name)(x, y, reduction=reduction, **options), (x, y))


def test_nodes_have_torchs_names():
    x, w, b = real(2, 3), real(4, 3, requires_grad=True), real(4, requires_grad=True)
    layer = F.linear(x, w, b)
    loss = F.mse_loss(layer, real(2, 4))
    assert loss.grad_fn.name() == "MseLossBackward0"
    assert layer.grad_fn.name() == "AddmmBackward0"
    assert loss.grad_fn.next_functions[0][0].next_functions[0][0].name() == "torch::autograd::AccumulateGrad"


def test_the_mean_square_of_complex_numbers_is_complex():
    """As in torch: a square instead of a squared magnitude."""
    x = torch.tensor([3 + 4j, 1j], dtype=torch.complex128)
    wanted = x.numpy() / np.sqrt(np.mean(x.numpy() ** 2))
    assert np.allclose(F.rms_norm(x, (2,), eps=0.0).numpy(), wanted)


def test_statistics_of_halves_are_as_wide_as_the_parameters():
    x, weight = torch.ones(2, 3, dtype=torch.float16), torch.ones(3)
    for parameter, dtype in ((None, torch.float16), (weight.half(), torch.float16), (weight, torch.float32)):
        output, mean, rstd = torch.native_layer_norm(x, (3,), parameter, None, 0.1)
        assert (output.dtype, mean.dtype, rstd.dtype) == (torch.float16, dtype, dtype)


def test_random_slopes_have_a_second_gradient_of_zero():
    x = torch.tensor([-1.0, 2.0], requires_grad=True)
    (first,) = torch.autograd.grad(torch.rrelu(x, 0.25, 0.25, True).sum(), x, create_graph=True)
    assert first.tolist() == [0.25, 1.0]
    assert torch.autograd.grad(first.sum(), x)[0].tolist() == [0.0, 0.0]
    changed = torch.tensor([-4.0, 2.0])
    assert torch.rrelu_(changed, 0.25, 0.25) is changed and changed.tolist() == [-1.0, 2.0]


def test_linear_cross_entropy_in_chunks():
    torch.manual_seed(0)
    x, table, bias = torch.randn(7, 3), torch.randn(5, 3), torch.randn(5)
    target, weight = torch.tensor([0, 4, 2, 2, -100, 1, 3]), torch.rand(5)
    options = torch.nn.LinearCrossEntropyOptions(batch_chunk_size=2)
    for reduction in ("mean", "sum", "none"):
        found = []
        for chunks in (None, options):
            own, rows = x.clone().requires_grad_(), table.clone().requires_grad_()
            loss = torch.nn.functional.linear_cross_entropy(
                own, rows, target, linear_bias=bias, weight=weight, reduction=reduction, options=chunks
            )
            found.append([loss, *torch.autograd.grad(loss.sum(), (own, rows))])
        logits = torch.nn.functional.linear(x, table, bias)
        whole = torch.nn.functional.cross_entropy(logits, target, weight, reduction=reduction)
        for first, second in zip(*found):
            assert torch.allclose(first, second, atol=1e-6)
        assert torch.allclose(found[0][0], whole)


def test_linear_cross_entropy_in_chunks_has_the_gradients_of_its_forward_pass_alone():
    x, table = torch.randn(4, 3, requires_grad=True), torch.randn(5, 3, requires_grad=True)
    target = torch.tensor([0, 4, 2, 2])

    def loss(**options):
        options = torch.nn.LinearCrossEntropyOptions(batch_chunk_size=2, **options)
        return F.linear_cross_entropy(x, table, target, options=options)

    once = loss()
    once.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="linear_cross_entropy chunked backward called twice"):
        once.backward()
    direction = torch.tensor(2.0, requires_grad=True)
    (first,) = torch.autograd.grad(loss(allow_retain_graph=True), x, direction, create_graph=True)
    second = torch.autograd.grad(first.sum(), (x, table, direction), allow_unused=True)
    assert second[:2] == (None, None) and torch.allclose(second[2], first.sum() / 2)
    with torch.no_grad():
        assert not loss().requires_grad
    assert torch.allclose(loss(), F.linear_cross_entropy(x, table, target))


def test_linear_cross_entropy_refuses():
    loss = torch.nn.functional.linear_cross_entropy
    with pytest.raises(RuntimeError, match="expected input with dimensionality 1 or 2, got 3"):
        loss(torch.ones(1, 2, 3), torch.ones(4, 3), torch.zeros(2).long())
    with pytest.raises(RuntimeError, match="ignore_index cannot be specified when target contains probabilities"):
        loss(torch.ones(2, 3), torch.ones(4, 3), torch.ones(2, 4), ignore_index=1)
    with pytest.raises(RuntimeError, match=r"expected linear_bias shape \(4,\), got \(3,\)"):
        loss(torch.ones(2, 3), torch.ones(4, 3), torch.zeros(2).long(), linear_bias=torch.ones(3))
    with pytest.raises(ValueError, match="invalid chunking_method: 'half'"):
        torch.nn.LinearCrossEntropyOptions(chunking_method="half")


FUSED = {
    "layer_norm": lambda x, w: F.layer_norm(x, (4, 5), w[:4, None] * w[:5], w[:4, None] + w[:5]),
    "rms_norm": lambda x, w: F.rms_norm(x, (5,), w[:5]),
    "group_norm": lambda x, w: F.group_norm(x, 3, w, w + 1),
    "group_norm of points": lambda x, w: F.group_norm(x[..., 0, 0], 3, w, w + 1),
    "instance_norm": lambda x, w: F.instance_norm(x, weight=w, bias=w + 1),
    "batch_norm": lambda x, w: F.batch_norm(x, None, None, w, w + 1, training=True),
    "batch_norm of points": lambda x, w: F.batch_norm(x[..., 0, 0], None, None, w, w + 1, training=True),
    "attention": lambda x, w: F.scaled_dot_product_attention(x, x.sin(), x.cos() * w[:5], is_causal=True),
    "attention behind a mask": lambda x, w: F.scaled_dot_product_attention(x, x.sin(), x.cos(), w[:4, None] * w[:4]),
    "lstm": lambda x, w: torch.lstm(
        x[0], [w[:4].expand(2, 4, 4)] * 2, [w.repeat(16).reshape(16, -1)[:, :size] for size in (5, 4) * 2], False, 1,
        0.0, True, True, False,
    )[0],
}  # fmt: skip


@pytest.mark.parametrize("name", FUSED)
def test_a_fused_gradient_is_the_composed_one(name):
    """If the gradient is recorded, it is computed with operators."""
    x, w = real(2, 6, 4, 5, requires_grad=True), real(6, requires_grad=True)
    out = FUSED[name](x, w)
    cotangent = real(*out.shape)
    fused = torch.autograd.grad(out, (x, w), cotangent, retain_graph=True)
    composed = torch.autograd.grad(out, (x, w), cotangent, create_graph=True)
    for one, other in zip(fused, composed):
        assert other.grad_fn is not None and one.grad_fn is None
        assert torch.allclose(one, other, rtol=1e-10, atol=1e-12)
    assert gradgradcheck(FUSED[name], (x, w))


def test_normalisation_has_torchs_nodes():
    x = real(2, 4, 3, requires_grad=True)
    nodes = {
        "NativeLayerNormBackward0": F.layer_norm(x, (3,)),
        "NativeGroupNormBackward0": F.group_norm(x, 2),
        "NativeBatchNormBackward0": F.batch_norm(x, None, None, training=True),
    }
    assert {out.grad_fn.name() for out in nodes.values()} == set(nodes)


def test_normalised_channels_that_come_last_stay_there():
    x = real(2, 3, 4, 5)
    last = x.to(memory_format=torch.channels_last)
    running = [torch.zeros(3, dtype=x.dtype), torch.ones(3, dtype=x.dtype)]
    again = [tensor.clone() for tensor in running]
    out = F.batch_norm(last, *running, training=True)
    assert out.stride() == last.stride()
    assert torch.allclose(out, F.batch_norm(x, *again, training=True))
    assert all(torch.allclose(one, other) for one, other in zip(running, again))


def test_a_coordinate_that_is_no_number_shows():
    image = torch.ones(1, 1, 3, 3)
    grid = torch.tensor([[[[0.0, 0.0], [torch.nan, 0.0], [0.0, torch.nan]]]])
    found = F.grid_sample(image, grid, padding_mode="zeros", align_corners=False).flatten()
    assert found.isnan().tolist() == [False, True, True]


@pytest.mark.parametrize("taps", [1, 3, 4, 8, 16])
def test_mixtures_of_any_number_of_taps(taps):
    rng = np.random.default_rng(taps)
    own, weights, given = (rng.integers(-9, 9, size).astype(float) for size in ((2, 3, 50), (2, 40, taps), (2, 3, 40)))
    places = rng.integers(-5, 55, (2, 40, taps))
    inside = (places >= 0) & (places < 50)
    seen = np.stack([own[n][:, places[n].clip(0, 49)] for n in range(2)]) * inside[:, None]
    spread = np.zeros_like(own)
    for n, channel in np.ndindex(2, 3):
        parts = given[n, channel][:, None] * weights[n]
        np.add.at(spread[n, channel], places[n][inside[n]], parts[inside[n]])
    x, w = (torch.tensor(each, requires_grad=True) for each in (own, weights))
    out = torch._mix(x, torch.tensor(places), w)
    out.backward(torch.tensor(given))
    assert out.tolist() == (seen * weights[:, None]).sum(-1).tolist()
    assert x.grad.tolist() == spread.tolist()
    assert w.grad.tolist() == (seen * given[..., None]).sum(1).tolist()


def test_norms_whose_variance_overflows_are_zeros():
    x = torch.tensor([[1e20, 2e20, 3e20] * 12], requires_grad=True)
    for y in (
        F.layer_norm(x, (36,)),
        F.rms_norm(x, (36,)),
        F.group_norm(x[..., None], 1),
        F.instance_norm(x[None]),
        F.batch_norm(x.T, None, None, training=True),
    ):
        x.grad = None
        y.sum().backward()
        assert not y.any() and not x.grad.any()


@pytest.mark.parametrize("norm", ["layer_norm", "group_norm", "instance_norm", "batch_norm"])
@pytest.mark.parametrize("values", [(1e20, 2e20, 3e20), (2.0, 2.0, 2.0), (1.0, 2.0, 4.0)])
def test_a_recorded_gradient_of_a_norm_is_that_of_an_unrecorded_one(norm, values):
    x = torch.tensor([[values, (1.0, 3.0, 4.0)]], requires_grad=True)
    run = {
        "layer_norm": lambda: F.layer_norm(x, (3,)),
        "group_norm": lambda: F.group_norm(x, 2),
        "instance_norm": lambda: F.instance_norm(x),
        "batch_norm": lambda: F.batch_norm(x, None, None, training=True),
    }[norm]
    weights = torch.tensor([1.0, -2.0, 4.0])
    plain, recorded = (
        torch.autograd.grad((run() * weights).sum(), x, create_graph=create_graph)[0] for create_graph in (False, True)
    )
    assert torch.allclose(plain, recorded, equal_nan=True) and recorded.requires_grad
    assert plain.isfinite().all() and plain[0, 0].any() != (values[0] == 1e20)


NORMS = {
    "layer_norm": lambda x, w, b: F.layer_norm(x, (2,), w, b),
    "group_norm": lambda x, w, b: F.group_norm(x, 1, w, b),
    "batch_norm": lambda x, w, b: F.batch_norm(x, torch.zeros(2, dtype=x.dtype), torch.ones(2, dtype=x.dtype), w, b),
}


@pytest.mark.parametrize("norm", NORMS.values(), ids=NORMS)
def test_parameters_of_another_dtype(norm):
    x, ones = torch.tensor([[1.0, 2.0], [3.0, 5.0]]), torch.ones(2)
    assert norm(x, ones, ones).dtype == torch.float32
    assert norm(x.half(), ones.half(), ones.half()).dtype == torch.float16
    for own, weight, bias, sentence in (
        (x, ones.half(), ones.half(), "mixed dtype (CPU): expect parameter to have scalar type of Float"),
        (x, ones.double(), None, "mixed dtype (CPU): expect parameter to have scalar type of Float"),
        (x, ones, ones.half(), "expected scalar type Float but found Half"),
        (x.half(), ones.half(), ones, "expected scalar type Half but found Float"),
        (x.half(), ones, ones.half(), "mixed dtype (CPU): expect parameter to have scalar type of Float"),
    ):
        with pytest.raises(RuntimeError, match=re.escape(sentence)):
            norm(own, weight, bias)


def test_norms_of_halves_with_single_parameters():
    x, ones = torch.tensor([[1.0, 2.0], [3.0, 5.0]]), torch.ones(2)
    assert F.layer_norm(x.bfloat16(), (2,), ones, ones).dtype == torch.bfloat16
    assert F.batch_norm(x.half(), ones, ones, ones, ones).dtype == torch.float16
    with pytest.raises(RuntimeError, match="all inputs must share same datatype"):
        F.layer_norm(x.double(), (2,), ones)
    with pytest.raises(RuntimeError, match="expected scalar type Float but found Half"):
        F.batch_norm(x, ones, ones.half())
    with pytest.warns(UserWarning, match=r"input dtype = c10::Half, weight dtype = float, Cannot dispatch to fused"):
        assert F.rms_norm(x.half(), (2,), ones).dtype == torch.float16


def test_fractional_pooling_with_places():
    x, at = torch.arange(16.0).reshape(1, 1, 4, 4), torch.full((1, 1, 2), 0.5)
    maxima, places = F.fractional_max_pool2d_with_indices(x, 2, output_size=2, _random_samples=at)
    assert maxima.tolist() == [[[[5, 7], [13, 15]]]] and places.tolist() == [[[[5, 7], [13, 15]]]]
    volume, at = torch.arange(64.0).reshape(1, 1, 4, 4, 4), torch.full((1, 1, 3), 0.5)
    maxima, places = F.fractional_max_pool3d_with_indices(volume, 2, output_size=2, _random_samples=at)
    assert torch.equal(maxima.long(), places) and places[0, 0, 0].tolist() == [[21, 23], [29, 31]]


def test_a_factor_whose_square_is_no_size():
    with pytest.raises(ValueError, match=r"\(upscale_factor\)\^2 overflowed: upscale_factor=4294967296"):
        F.pixel_shuffle(torch.ones(1, 4, 2, 2), 2**32)


@pytest.mark.parametrize("loss", [F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss, F.binary_cross_entropy])
def test_losses_of_what_is_no_tensor(loss):
    x = torch.ones(2)
    with pytest.raises(AttributeError, match="'int' object has no attribute 'size'"):
        loss(x, 2)
    with pytest.raises(ValueError, match="None is not a valid value for reduction"):
        loss(x, x, reduction=None)


@pytest.mark.parametrize("norm", [F.batch_norm, F.instance_norm])
def test_running_statistics_are_checked(norm, tmp_path):
    training = "training" if norm is F.batch_norm else "use_input_stats"
    x = torch.randn(4, 3, 5)

    def called(mean, variance, on=True):
        return norm(x, mean, variance, **{training: on})

    np.save(tmp_path / "zeros.npy", np.zeros(3, np.float32))
    fixed = torch.from_numpy(np.load(tmp_path / "zeros.npy", mmap_mode="r"))
    with pytest.raises(ValueError, match="output array is read-only"):
        called(fixed, torch.ones(3))
    frozen = torch.frombuffer(b"\0" * 12, dtype=torch.float32)
    with pytest.raises(ValueError, match="output array is read-only"):
        called(torch.zeros(3), frozen)
    assert frozen.tolist() == [0, 0, 0]
    assert called(fixed, torch.ones(3), False).shape == x.shape

    wanted = torch.zeros(3, requires_grad=True)
    for on in (True, False):
        with pytest.raises(RuntimeError, match="is not differentiable with respect to argument 'running_mean'"):
            called(wanted, torch.ones(3), on)
        with pytest.raises(RuntimeError, match="is not differentiable with respect to argument 'running_var'"):
            called(torch.zeros(3), torch.ones(3, requires_grad=True), on)
        with torch.no_grad():
            assert called(wanted, torch.ones(3), on).shape == x.shape
    for pair in ((None, torch.ones(3)), (torch.zeros(3), None)):
        with pytest.raises(
            ValueError, match="running_mean and running_var must either both be None or neither be None"
        ):
            called(*pair)
