"""Values, dtypes, devices and layouts of calls that torch answers, and that were once refused or answered differently."""

import rushlight as torch


def test_numbers_beyond_half_precision():
    """They are infinite where torch computes in float32, or casts a number that it chooses."""
    half, mask = torch.ones(2, 2, dtype=torch.float16), torch.tensor([True, False])
    assert torch.where(mask, half, -1e9).tolist() == [[1, -torch.inf]] * 2
    assert torch.where(mask, half, 2**17).dtype == torch.float16
    for made in (
        torch.addcmul(half, half, half, value=2.0**17),
        torch.addcdiv(half, half, half, value=2.0**17),
        torch.addmm(half, half, half, alpha=2.0**17),
        torch.nn.functional.leaky_relu(-half, -(2.0**17)),
    ):
        assert made.tolist() == [[torch.inf] * 2] * 2 and made.dtype == torch.float16
    assert torch.nn.functional.threshold(half, 2.0**17, 3).tolist() == [[3, 3], [3, 3]]


def test_results_that_are_copies_may_have_any_dtype():
    for dtype in (torch.bool, torch.uint16, torch.uint64):
        assert torch.tensor(1, dtype=dtype).cumsum_(0).item() == 1
        assert torch.ones(0, 3).cumprod(1, dtype=dtype).dtype == dtype


def test_a_number_on_the_host_chooses_among_tensors_without_data():
    far, here = torch.ones(3, device="meta"), torch.tensor(True)
    for made in (
        far.where(here, 1),
        torch.where(here, far, torch.tensor(2.0)),
        torch.where(here, 1, far),
        torch.complex(torch.tensor(1.0), far),
    ):
        assert made.shape == (3,) and made.device.type == "meta"


def test_imaginary_parts_on_the_diagonal_do_not_count():
    matrix = torch.tensor([[4 + 1j, 2], [2j, 5 - 3j]])
    assert torch.linalg.cholesky(matrix).tolist() == [[2, 0], [1j, 2]]


def test_losses_of_integers():
    whole = torch.tensor([[1, 5]])
    weighted = torch.nn.functional.mse_loss(whole, whole - 2, weight=whole, reduction="sum")
    assert weighted.item() == 24 and weighted.dtype == torch.int64
    assert torch.nn.functional.smooth_l1_loss(whole, whole - 2, beta=0.0, reduction="none").tolist() == [[2, 2]]
    pooled, places = torch.nn.functional.max_pool1d(whole, 2, return_indices=True)
    assert (pooled.item(), places.item(), pooled.dtype) == (5, 1, torch.int64)


def test_means_over_no_batch_and_negative_smoothing():
    functional = torch.nn.functional
    assert functional.kl_div(torch.ones(0, 3), torch.ones(0, 3), reduction="batchmean").isnan()
    scores, target = torch.tensor([[1.0, 2.0, 3.0]]), torch.tensor([2])
    assert functional.cross_entropy(scores, target, label_smoothing=-1) == functional.cross_entropy(scores, target)


def test_the_operand_of_most_digits_decides_those_of_an_outer_product():
    third = torch.tensor([1.0]) / 3
    sum = torch.addr(torch.zeros(1, 1, dtype=torch.float64), third, third)
    assert sum.item() == third.item() ** 2


def test_products_of_reflections_are_stored_by_columns_with_gradients_too():
    vectors, factors = torch.rand(3, 2), torch.rand(2)
    for needs in (False, True):
        made = torch.linalg.householder_product(vectors.requires_grad_(needs), factors)
        assert made.stride() == (1, 3)
