"""Extreme sizes, strides and counts raise errors, with torch's messages where it has some."""

import pytest

import rushlight as torch

HUGE = 2**62
X = torch.ones(2, 3)
V = torch.ones(3)
ROW = torch.ones(1, 1, 3)


@pytest.mark.parametrize(
    "text, sentence",
    [
        ("torch.ones(HUGE)", "Storage size calculation overflowed with sizes=[4611686018427387904]"),
        ("torch.arange(HUGE)", "Storage size calculation overflowed"),
        ("torch.eye(2**32)", "numel: integer multiplication overflow"),
        ("torch.ones(1, 0, 3).repeat_interleave(2**63 - 1, dim=-1)", "Stride calculation overflowed"),
        ("torch.diag_embed(torch.ones(1, 0, 2), -(2**40))", "Stride calculation overflowed"),
        ("torch.cat([torch.zeros(0, HUGE)] * 2, 1)", "torch.cat(): sizes along dimension 1 add up"),
        ("torch.block_diag(torch.zeros(0, HUGE), torch.zeros(0, HUGE))", "torch.block_diag: widths add up"),
        ("torch.empty(1).expand(HUGE, HUGE)", "numel: integer multiplication overflow"),
        ("torch.diag_embed(X, HUGE)", "Storage size calculation overflowed"),
        ("torch.diagflat(V, 2**40)", "Storage size calculation overflowed"),
        ("X.split([HUGE, HUGE])", "split_with_sizes expects split_sizes to sum exactly to 2"),
        ("V.repeat(HUGE)", "Trying to create tensor with negative dimension -4611686018427387904"),
        ("V.repeat_interleave(torch.tensor([HUGE] * 3))", "Trying to create tensor with negative dimension"),
        ("torch.tril_indices(2**40, 2**40)", "Storage size calculation overflowed"),
        ("torch.max_pool2d(X[None], 1, 1, 0, HUGE)", "value cannot be converted to type int without overflow"),
        ("V.resize_(HUGE)", "Storage size calculation overflowed with sizes=[4611686018427387904]"),
        (
            "torch.ones(1).copy_(torch.ones(3, 2, 2))",
            "output with shape [1] doesn't match the broadcast shape [3, 2, 2]",
        ),
        ("torch.addmm(torch.ones(1, 2, 2), X, X.t())", "expand(torch.FloatTensor{[1, 2, 2]}, size=[2, 2])"),
        ("torch._softmax_backward_data(X, V, 0, torch.float32)", "a gradient and its output differ in shape"),
        ("torch._linear_recurrence(X, V, 0)", "a recurrence needs a factor for each element"),
        ("torch._conv(torch.ones(1, 1, 3), torch.ones(2, 1, 1), V, (1,), (0, 0), (1,), 1)", "do not fit each other"),
        (
            "torch._pad_borders_back(torch.ones(3, 3), torch.ones(2, 3, 4), (1, 2, 2, 0), 'replicate')",
            "expected a gradient",
        ),
        ("torch.nn.functional.pad(V[None], (2**63 - 1, 1))", "resulted in a negative output size"),
        ("torch.nn.functional.pad(V[None], (2**62, 2**62), mode='replicate')", "is too small. Calculated output"),
        ("torch.nn.functional.pad(V[None], (2**60, 0), mode='replicate')", "can't allocate memory"),
        ("torch.conv_transpose1d(V[None], torch.ones(1, 1, 2), stride=HUGE)", "stride should be greater than zero"),
        ("torch.conv1d(V[None], torch.ones(1, 1, 2), padding=HUGE)", f"Given padding={HUGE} at dimension 0 , expected"),
        ("torch._conv_weight(ROW, ROW, (1, 1, 2), (1,), (0, 0), (2**40,), 1)", "do not fit each other"),
        ("torch._conv_weight(ROW, ROW, (1, 1, 2), (1,), (0, 0), (2**63 - 1,), 1)", "do not fit each other"),
        ("torch._conv_input(ROW, ROW, (1, 1, 2**20), (1,), (0, 0), (1,), 1)", "do not fit each other"),
        ("torch._conv_input(torch.ones(()), ROW, (1, 1, 5), (1,), (0, 0), (1,), 1)", "do not fit each other"),
        ("torch._fft_r2c(X, (1, 1), 0, True)", "FFT dims must be unique"),
        ("torch._fft_c2r(X + 0j, (-1, 0, 1), 2, 5)", "FFT dims must be unique"),
        ("torch.mvlgamma(V, HUGE)", "Storage size calculation overflowed"),
        ("torch.multinomial(torch.ones(0), 5, True)", "invalid multinomial distribution (sum of probabilities <= 0)"),
    ],
)
def test_refused(text, sentence):
    with pytest.raises(RuntimeError) as caught:
        eval(text, {**globals(), "torch": Names()})
    assert sentence in str(caught.value)


class Names:
    """`torch`, and internal operators."""

    def __getattr__(self, name):
        return getattr(torch._C if name.startswith("_") else torch, name)


@pytest.mark.parametrize(
    "view",
    [
        X.as_strided((0, HUGE), (HUGE, HUGE)),
        X.as_strided((HUGE, 0), (0, HUGE)),
        X.as_strided((1,), (HUGE,)),
        X[:0].expand(HUGE // 2, 0, 3),
    ],
)
def test_views_of_nothing_may_be_of_any_size_that_fits(view):
    """Also with one element: strides are not used."""
    for same in (view[::4], view[..., ::3], view[:1], view.flip(0), view.unsqueeze(0), view.transpose(0, -1), view + 1):
        assert same.numel() <= 1
    assert view.sum().item() in (0, 1)


FAR = 2**63 - 1


@pytest.mark.parametrize("sizes, strides", [((1, 1), (FAR, FAR)), ((2, 1), (1, FAR)), ((0, HUGE // 2), (HUGE, HUGE))])
@pytest.mark.parametrize("dtype", [torch.complex64, torch.float32, torch.int8])
def test_strides_that_lead_nowhere(sizes, strides, dtype):
    """Without a second element the stride may be anything, also when it is converted to other units."""
    view = torch.ones(8, dtype=dtype).as_strided(sizes, strides)
    zero = torch.zeros(1, dtype=torch.int64)
    assert view.__array_interface__["shape"] == torch.from_dlpack(view).shape == sizes
    for same in (view.diagonal(), view.unfold(0, sizes[0], FAR), view.t(), view[..., zero], view.cumprod(0)):
        assert same.sum() == same.numel()
    if dtype.is_complex:
        assert torch.view_as_real(view).sum() == view.real.sum() == view.numel()
        assert view.var(1, correction=0).sum() == 0 or view.numel() == 0
    if sizes[0]:
        assert view.numpy().shape == sizes
        assert torch.nn.functional.embedding(zero, view).tolist() == [[1]]
        assert view.gather(0, zero[:, None]).tolist() == view.clone().index_put((zero,), view[:1])[:1].tolist() == [[1]]
        assert view.view(torch.uint8).shape == (sizes[0], dtype.itemsize)


def test_more_dimensions_than_a_mask_has_bits():
    deep = torch.ones((1,) * 64, requires_grad=True)
    deeper = deep.unsqueeze(0)
    deeper.backward(torch.ones_like(deeper))
    assert deeper.squeeze().shape == () and deeper.squeeze(64).dim() == 64 and deep.grad.sum() == 1
    with pytest.raises(RuntimeError, match="only tensors with up to 64 dims are supported"):
        deeper.squeeze((0, 1))
    assert deeper.sum() == deeper.mean() == deeper.amax() == deeper.prod() == 1 and deeper.var(correction=0) == 0
    with pytest.raises(RecursionError):
        torch.ones((1,) * 100_000).tolist()


@pytest.mark.parametrize("shift", [-(2**63), 2**63 - 1])
def test_rolls_of_any_length(shift):
    line = torch.arange(5.0, requires_grad=True)
    weights = torch.arange(5.0)
    for dims, times in (((), 1), ((0,), 1), ((0, 0), 2)):
        rolled = line.roll((shift,) * times, dims)
        assert rolled.tolist() == line.roll(times * shift % 5).tolist()
        (grad,) = torch.autograd.grad(rolled, line, weights)
        assert grad.tolist() == weights.roll(-times * shift % 5).tolist()


def test_lists_of_nothing():
    """For an empty tensor even the number of bytes between elements may overflow."""
    assert torch.ones(4, 1, 1).repeat(0, HUGE // 2, 3).tolist() == []
    assert torch.ones(2, 1, 1).repeat(1, 0, HUGE // 2).tolist() == [[], []]


def test_small_answers_to_huge_questions():
    """Unused dimensions are not iterated over."""
    assert torch.diagonal(X, 2**63 - 1).shape == torch.diagonal(X, -(2**63)).shape == (0,)
    assert torch.tril_indices(2, 2**63 - 1, 1).tolist() == [[0, 0, 1, 1, 1], [0, 1, 0, 1, 2]]
    assert torch.triu_indices(2**62, 3).tolist() == [[0, 0, 0, 1, 1, 2], [0, 1, 2, 1, 2, 2]]
    assert torch.triu_indices(2**40, 2, -1).tolist() == [[0, 0, 1, 1, 2], [0, 1, 0, 1, 1]]
    assert torch.polygamma(2**40, V).shape == (3,)
    assert torch.special.zeta(torch.tensor(3.0), torch.tensor(-1e15 - 0.5, dtype=torch.float64)).isfinite()
    pairs = torch.empty(2**50, device="meta").as_strided((2**49, 2), (1, 1))
    assert pairs.square_() is pairs and pairs.logical_not_() is pairs
    assert torch.empty(2**40, dtype=torch.bool, device="meta").diff(2**39).shape == (2**39,)
    windows = torch.nn.functional.adaptive_avg_pool1d(torch.empty(0, 0, HUGE), 3)
    assert windows.shape == (0, 0, 3)
    assert torch._C._embed(torch.empty(0, 0, 2), [], [3, 3, -(2**63)], 3).item() == 0


@pytest.mark.parametrize("far", [{"dilation": 2**41}, {"dilation": 2**50, "padding": 2**49}, {"stride": 2**40}])
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_windows_that_see_nothing_cost_nothing(dims, far):
    """With any distance between the taps, the first and last taps of a window read zeros, and so do their gradients."""
    padding = far.get("padding", 2**40)
    image = torch.ones((1, 1) + (3,) * dims, requires_grad=True)
    weight = torch.ones((1, 1) + (2 if "dilation" in far else 1,) * dims, requires_grad=True)
    convolution = (torch.conv1d, torch.conv2d, torch.conv3d)[dims - 1]
    result = convolution(image, weight, padding=padding, **{key: far[key] for key in far if key != "padding"})
    assert result.numel() == 3**dims
    # With a stride, the middle window reads the first element.
    seen = 0 if "dilation" in far else 1
    assert result.sum().item() == seen
    result.sum().backward()
    assert image.grad.sum().item() == weight.grad.sum().item() == seen
    assert image.grad.flatten()[0].item() == seen


@pytest.mark.parametrize("dtype, value", [(torch.uint8, 300), (torch.int64, float("nan")), (torch.int32, 2**31)])
def test_assignment_does_not_wrap(dtype, value):
    with pytest.raises(RuntimeError, match="value cannot be converted to type .* without overflow"):
        torch.zeros(3, dtype=dtype)[0] = value


def nested(depth):
    data = []
    for _ in range(depth):
        data = [data]
    return data


class Endless:
    """An endlessly nested sequence."""

    def __len__(self):
        return 3

    def __getitem__(self, place):
        return Endless()


@pytest.mark.parametrize("data", [nested(100_000), [0, nested(100_000)], Endless(), [1, Endless()]])
def test_bottomless_data(data):
    with pytest.raises(ValueError, match="too many dimensions"):
        torch.tensor(data)


def test_a_huge_size_beside_one_of_zero():
    assert torch.ones(0, 3).expand(HUGE, 0, 3).shape == (HUGE, 0, 3)
