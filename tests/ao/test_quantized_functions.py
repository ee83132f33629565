"""The functions of torch's engine for quantised tensors, and the search for a range. Expected numbers are torch's."""

import pytest

import rushlight as torch


@pytest.fixture
def images():
    return torch.quantize_per_tensor(torch.arange(16.0).reshape(1, 1, 4, 4) / 4, 0.1, 3, torch.quint8)


@pytest.mark.parametrize(
    ("numel", "bins", "ratio", "bits", "ends"),
    [
        (50, 200, 0.16, 8, (2.0154, -3.3312)),
        (50, 200, 0.16, 4, (1.8817, -3.2510)),
        (50, 200, 0.16, 2, (2.0154, -3.3312)),
        (20, 10, 0.5, 8, (1.6871, -1.6095)),
        (20, 10, 0.5, 2, (1.3575, -1.6095)),
        (10, 200, 0.16, 4, (0.2750, -1.6095)),
        (10, 0, 0.16, 4, (0.3037, -1.6095)),
        (10, 200, 0.16, 0, (0.3037, -1.6095)),
        (0, 200, 0.16, 4, (-1.5256, -1.5256)),
    ],
)
def test_the_range_that_bits_represent_best(numel, bins, ratio, bits, ends):
    numbers = torch.randn(50, generator=torch.Generator().manual_seed(1))
    found = torch.choose_qparams_optimized(numbers, numel, bins, ratio, bits)
    assert [end.shape for end in found] == [(1,), (1,)]
    assert [end.item() for end in found] == pytest.approx(ends, abs=5e-5)


def test_ranges_that_are_refused():
    numbers = torch.ones(4)
    assert torch.choose_qparams_optimized(numbers, 4, 200, 0.16, 4) == (torch.ones(1), torch.ones(1))
    for arguments, sentence in (
        ((numbers, 5, 200, 0.16, 4), "numel is out of the bound of input tensor"),
        ((numbers, -1, 200, 0.16, 4), "numel is out of the bound of input tensor"),
        ((numbers.double(), 4, 200, 0.16, 4), "expected scalar type Float but found Double"),
        ((numbers, 4, -5, 0.16, 4), "n_bins must not be negative"),
    ):
        with pytest.raises(RuntimeError, match=sentence):
            torch.choose_qparams_optimized(*arguments)


def test_new_memory_like_that_of_another(images):
    made = torch.empty_quantized((2, 3), images, dtype=torch.qint8)
    assert (made.shape, made.dtype, made.q_scale(), made.q_zero_point()) == ((2, 3), torch.qint8, 0.1, 3)
    scales, zeros = torch.tensor([0.1, 0.2]), torch.tensor([0, 1])
    channels = torch.quantize_per_channel(torch.ones(2, 2), scales, zeros, 0, torch.qint8)
    made = torch.empty_quantized((2, 5), channels)
    assert made.q_per_channel_zero_points().tolist() == [0, 1] and made.q_per_channel_axis() == 0


def test_largest_of_windows(images):
    rows = torch.quantized_max_pool1d(images[0], 2)
    assert rows.shape == (1, 4, 2) and rows.q_scale() == 0.1
    assert rows.int_repr().flatten().tolist() == [6, 10, 16, 20, 26, 30, 36, 40]
    tall = torch.quantized_max_pool2d(images, (2, 1), (1, 1), (1, 0), (1, 2), True)
    assert tall.shape == (1, 1, 5, 4) and tall.int_repr()[0, 0, 4].tolist() == [33, 36, 38, 40]
    cube = images.repeat(1, 2, 1, 1)[None]
    assert torch.quantized_max_pool3d(cube, 2).int_repr().flatten().tolist() == [16, 20, 36, 40]


def test_normalised_images(images):
    one, zero = torch.ones(1), torch.zeros(1)
    done = torch.quantized_batch_norm(images, one, zero, zero, one, 1e-5, 0.2, 1)
    assert done.int_repr()[0, 0, 0].tolist() == [1, 2, 3, 4] and (done.q_scale(), done.q_zero_point()) == (0.2, 1)
    with pytest.raises(RuntimeError, match="Weight must be provided"):
        torch.quantized_batch_norm(images, None, None, zero, one, 1e-5, 0.2, 1)


@pytest.mark.parametrize(
    "name", ["empty_quantized", "quantized_max_pool1d", "quantized_max_pool2d", "quantized_batch_norm"]
)
def test_ordinary_tensors_are_refused(name):
    x = torch.ones(1, 1, 4, 4)
    calls = {
        "empty_quantized": ((2,), x),
        "quantized_batch_norm": (x, x, x, x, x, 0.1, 0.1, 0),
    }
    with pytest.raises(
        NotImplementedError, match=f"Could not run 'aten::{name}' with arguments from the 'CPU' backend"
    ):
        getattr(torch, name)(*calls.get(name, (x, 2)))


@pytest.mark.parametrize("ratio", [float("nan"), -float("inf"), -1.0])
def test_a_range_is_not_searched_without_a_ratio(ratio):
    found = torch.choose_qparams_optimized(torch.tensor([1.0, 2.0, 9.5]), 3, 20, ratio, 2)
    assert [end.tolist() for end in found] == [[9.5], [1.0]]


def test_a_search_for_a_range_ends_or_is_refused():
    with pytest.raises(ValueError, match="^input tensor is empty and has no data$"):
        torch.choose_qparams_optimized(torch.tensor([]), 0, 200, 0.16, 8)
    for ratio in (float("inf"), 1e30):
        with pytest.raises(RuntimeError, match="^ratio is too large for 20 bins"):
            torch.choose_qparams_optimized(torch.tensor([1.0, 2.0]), 2, 20, ratio, 8)
