"""The functions of torch's engine that take the arguments of `nn.functional` by position, and reductions as numbers."""

import pytest

import rushlight as torch
from rushlight.nn import functional as F

X = torch.arange(12.0).reshape(2, 3, 2) / 7
ROWS, OTHER = X[:, :, 0], X[:, :, 1]
SIGNS = torch.tensor([1.0, -1.0])


def test_copies_of_the_parts_of_sparse_tensors():
    rows, columns = torch.eye(3)[:2].to_sparse_csr(), torch.eye(3)[:2].to_sparse_csc()
    for name, of in (("crow", rows), ("col", rows), ("ccol", columns), ("row", columns)):
        part, copied = getattr(of, f"{name}_indices")(), getattr(torch, f"{name}_indices_copy")(of)
        assert torch.equal(part, copied) and part.data_ptr() != copied.data_ptr()
    with pytest.raises(
        RuntimeError, match="crow_indices expected sparse row compressed tensor layout but got SparseCsc"
    ):
        torch.crow_indices_copy(columns)


@pytest.mark.parametrize(
    "name, arguments",
    [
        ("binary_cross_entropy_with_logits", (ROWS, OTHER)),
        ("kl_div", (ROWS, OTHER)),
        ("cosine_embedding_loss", (ROWS, OTHER, SIGNS)),
        ("hinge_embedding_loss", (ROWS, OTHER)),
        ("margin_ranking_loss", (ROWS[:, 0], OTHER[:, 0], SIGNS)),
        ("triplet_margin_loss", (ROWS, OTHER, ROWS + 1)),
    ],
)
def test_losses_take_the_reduction_as_a_number(name, arguments):
    native, public = getattr(torch, name), getattr(F, name)
    losses = public(*arguments, reduction="none")
    assert native(*arguments).allclose(losses.mean()) and native(*arguments, reduction=2).allclose(losses.sum())
    assert native(*arguments, reduction=0).equal(losses) and native(*arguments, reduction=7).equal(losses)
    with pytest.raises(TypeError, match="argument 'reduction' must be int, not str"):
        native(*arguments, reduction="mean")


def test_losses_with_further_arguments():
    assert torch.poisson_nll_loss(ROWS, OTHER, True, True, 1e-8, 1).equal(F.poisson_nll_loss(ROWS, OTHER, full=True))
    assert torch.kl_div(ROWS, OTHER, 2, log_target=True).allclose(
        F.kl_div(ROWS, OTHER, reduction="sum", log_target=True)
    )
    weight = torch.tensor([1.0, 2.0, 3.0])
    expected = F.binary_cross_entropy_with_logits(ROWS, OTHER, weight, pos_weight=weight)
    assert torch.binary_cross_entropy_with_logits(ROWS, OTHER, weight, weight).allclose(expected)


def test_normalisation():
    weight, mean, variance = torch.tensor([1.0, 2.0, 3.0]), torch.zeros(3), torch.ones(3)
    rest = (True, 0.1, 1e-5, False)
    assert torch.batch_norm(X, weight, weight, None, None, *rest).equal(
        F.batch_norm(X, None, None, weight, weight, True)
    )
    expected = F.instance_norm(X, None, None, weight, weight)
    assert torch.instance_norm(X, weight, weight, None, None, *rest).equal(expected)
    by_update, by_norm = (mean.clone(), variance.clone()), (mean.clone(), variance.clone())
    found = torch.batch_norm_update_stats(X, *by_update, 0.1)
    F.batch_norm(X, *by_norm, training=True)
    assert all(one.allclose(other) for one, other in zip(by_update, by_norm))
    assert found[0].allclose(X.mean((0, 2))) and found[1].allclose(X.var((0, 2), correction=0))
    assert torch.norm_except_dim(X, 2, -2).equal(torch.linalg.vector_norm(X, 2, (0, 2), keepdim=True))
    assert torch.norm_except_dim(X, 2, -1).shape == ()
    with pytest.raises(IndexError, match=r"expected to be in range of \[-3, 2\], but got 3"):
        torch.norm_except_dim(X, 2, 3)


def test_convolutions():
    weight = torch.arange(12.0).reshape(2, 3, 2)
    assert torch.convolution(X, weight, None, [1], [1], [1], False, [0], 1).equal(F.conv1d(X, weight, padding=1))
    expected = F.conv_transpose1d(X, weight[:, :, :1].permute(1, 0, 2), stride=2, output_padding=1)
    assert torch.convolution(X, weight[:, :, :1].permute(1, 0, 2), None, [2], [0], [1], True, [1], 1).equal(expected)
    bias = torch.tensor([1.0, 2.0])
    result = torch.conv_tbc(X.permute(2, 0, 1), weight.permute(2, 1, 0), bias, 1)
    assert result.equal(F.conv1d(X, weight, bias, padding=1).permute(2, 0, 1))
    for arguments, message in (
        ((X[0], X, bias), "Input must have 3 dims: time, batch, in_channel"),
        ((X, X[0], bias), "Weight tensor must have 3 dims: kernel_width, in_channels, out_channels."),
        ((X, X, X), "Bias must be 1-D"),
        ((X, X, bias), "is not == dim 1 in the weight tensor"),
    ):
        with pytest.raises(RuntimeError, match=message):
            torch.conv_tbc(*arguments)


def test_dropout_tells_what_it_keeps():
    result, kept = torch.native_dropout(torch.ones(1000), 0.25, True)
    assert kept.dtype is torch.bool and result.equal(kept / 0.75) and 650 < kept.sum() < 850
    result, kept = torch.native_dropout(torch.ones(2), 0.25, False)
    assert result.tolist() == [1, 1] and kept.tolist() == [True, True]
    assert torch.native_dropout(torch.ones(2), 1.0, True)[0].tolist() == [0, 0]
    assert torch.native_channel_shuffle(X[:, :2], 2).equal(torch.channel_shuffle(X[:, :2], 2))


def test_copies_of_views():
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    for copied in (torch.detach_copy(x), torch.slice_copy(x, 1, 1), torch.view_as_complex_copy(x)):
        assert copied.untyped_storage().data_ptr() != x.untyped_storage().data_ptr() and copied.requires_grad
    assert torch.slice_copy(x, 1, 1).tolist() == [[2], [4]] and torch.slice_copy(x).equal(x)
    assert torch.view_as_real_copy(torch.view_as_complex(x)).equal(x)
    sparse = torch.eye(2).to_sparse()
    assert torch.indices_copy(sparse).equal(sparse.indices()) and torch.values_copy(sparse).equal(sparse.values())
    with pytest.raises(RuntimeError, match="slice step must be positive"):
        torch.slice_copy(x, 0, 0, 2, -1)


def test_numbers_and_settings():
    assert torch.sym_max(1, 2.0) == torch.sym_max(2.0, 1) == 2.0 and torch.sym_min(1, 2.5) == 1.0
    assert torch.sym_int(-2.7) == -2 and torch.sym_sum([1, 2]) == 3 and torch.sym_sqrt(4) == 2.0
    with pytest.raises(AssertionError, match="expected SymBool or bool, got <class 'int'>"):
        torch.sym_ite(1, 1, 2)
    assert torch.get_device_module() is torch.cpu and torch.get_device_module("cuda:0") is torch.cuda
    with pytest.raises(
        RuntimeError, match="Device 'meta' does not have a corresponding module registered as 'torch.meta'"
    ):
        torch.get_device_module("meta")
    torch.set_anomaly_enabled(True)
    assert torch.is_anomaly_enabled()
    torch.set_anomaly_enabled(False)
    assert not torch.is_anomaly_enabled()
    assert torch.wait(torch.fork(max, 1, 2)) == 2 and torch.Future is torch.jit.Future


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_the_parts_of_synchronised_normalisation_are_refused_as_in_torch(device):
    x, c = torch.ones(2, 3, device=device), torch.ones(3, device=device)
    calls = {
        "batch_norm_stats": (x, 1e-5),
        "batch_norm_elemt": (x, c, c, c, c, 1e-5),
        "batch_norm_gather_stats": (x, c, c, None, None, 0.1, 1e-5, 3),
        "batch_norm_gather_stats_with_counts": (x, c, c, None, None, 0.1, 1e-5, c),
        "batch_norm_backward_reduce": (x, x, c, c, c, True, True, True),
        "batch_norm_backward_elemt": (x, x, c, c, c, c, c, c),
    }
    for name, args in calls.items():
        backend = "Meta" if device == "meta" else "CPU"
        sentence = f"^Could not run 'aten::{name}' with arguments from the '{backend}' backend"
        with pytest.raises(NotImplementedError, match=sentence):
            getattr(torch, name)(*args)
    with pytest.raises(TypeError, match=r"batch_norm_stats\(\) missing 2 required positional argument"):
        torch.batch_norm_stats()


def test_slice_inverse_is_the_whole_tensor():
    whole = torch.arange(6.0, requires_grad=True)
    part = whole[1:5:2]
    again = part.slice_inverse(whole, 0, 1, 5, 2)
    assert torch.equal(again, whole)
    assert again.data_ptr() == whole.data_ptr()
    with pytest.raises(RuntimeError, match="out of bounds for storage of size 8"):
        torch.slice_inverse(torch.ones(2), torch.zeros(6))


def test_to_mkldnn_is_refused_in_words():
    with pytest.raises(NotImplementedError, match="oneDNN"):
        torch.ones(2).to_mkldnn()


def test_the_mask_of_a_gradient_of_a_convolution_has_three_parts():
    grad, image, weight = torch.ones(1, 1, 2), torch.ones(1, 1, 3), torch.ones(1, 1, 2)
    with pytest.raises(RuntimeError, match="^Tried to convert a List with 2 elements to a fixed-size array of size 3"):
        torch.ops.aten.convolution_backward(grad, image, weight, None, [1], [0], [1], False, [0], 1, [True, True])
