"""Functions and methods that torch has removed or deprecates."""

import pytest

import rushlight as torch

MATRIX = torch.eye(2)


@pytest.mark.parametrize(
    "name, arguments, advice",
    [
        (
            "eig",
            (),
            " `torch.linalg.eig` returns complex tensors of dtype `cfloat` or `cdouble` rather than real tensors",
        ),
        (
            "symeig",
            (),
            " The default behavior has changed from using the upper triangular portion of the matrix by default",
        ),
        ("lstsq", (MATRIX,), " `torch.lstsq` is deprecated in favor of `torch.linalg.lstsq`."),
        ("solve", (MATRIX,), " `torch.solve` is deprecated in favor of `torch.linalg.solve`."),
        ("matrix_rank", (), "\nUse torch.linalg.matrix_rank"),
    ],
)
def test_removed_functions(name, arguments, advice):
    with pytest.raises(RuntimeError) as caught:
        getattr(torch, name)(MATRIX, *arguments)
    assert str(caught.value).startswith(f"This function was deprecated since version 1.9 and is now removed.{advice}")
    if name != "matrix_rank":
        with pytest.raises(RuntimeError, match="is now removed") as of_method:
            getattr(MATRIX, name)(*arguments)
        assert str(of_method.value) == str(caught.value)


@pytest.mark.filterwarnings("ignore:torch.range is deprecated")
def test_range():
    assert torch.range(0, 4).tolist() == [0, 1, 2, 3, 4] and torch.range(0, 4).dtype is torch.float32
    assert torch.range(0, -3, -1).tolist() == [0, -1, -2, -3] and torch.range(0.0, 2.5).tolist() == [0, 1, 2]
    steps = torch.zeros(2, 4)
    assert torch.range(0, 3, out=steps[:, ::2]).shape == (2, 2) and steps.tolist() == [[0, 0, 1, 0], [2, 0, 3, 0]]
    assert torch.range(0, 3, out=torch.empty(4), requires_grad=True).requires_grad
    with pytest.raises(RuntimeError, match="dtype Double does not match dtype of out parameter"):
        torch.range(0, 3, dtype=torch.float64, out=torch.empty(4))
    whole = torch.range(0, 3, dtype=torch.int64)
    assert whole.tolist() == [0, 1, 2, 3] and whole.dtype is torch.int64
    assert torch.range(start=0, end=3, step=2, requires_grad=True).requires_grad
    out = torch.empty(0)
    assert torch.range(0, 3, out=out) is out and out.tolist() == [0, 1, 2, 3]
    with pytest.raises(RuntimeError, match="step must be nonzero"):
        torch.range(0, 1, 0)
    with pytest.raises(RuntimeError, match="upper bound and lower bound inconsistent with step sign"):
        torch.range(1, 0)


def test_range_is_deprecated():
    with pytest.warns(
        UserWarning, match="torch.range is deprecated and will be removed in a future release because its"
    ):
        torch.range(0, 1)


def test_names_of_other_modules():
    assert torch.GradScaler is torch.amp.GradScaler and torch.nn.functional.grad is torch.nn.grad


def test_old_methods():
    x = torch.arange(6.0).reshape(2, 3)
    with pytest.warns(UserWarning, match="non-inplace resize is deprecated"):
        assert x.t().resize(6).tolist() == [0, 3, 1, 4, 2, 5]
    with pytest.warns(UserWarning, match="non-inplace resize_as is deprecated"):
        assert x.resize_as(torch.ones(3, 2)).tolist() == [[0, 1], [2, 3], [4, 5]]
    with pytest.warns(UserWarning), pytest.raises(RuntimeError, match="requested resize to 2x-1 .-2 elements in total"):
        x.resize(2, -1)
    assert torch.ones(2, 3).map2_(torch.tensor([1.0]), x, lambda a, b, c: a + b + c).tolist() == [[2, 3, 4], [5, 6, 7]]
    with pytest.raises(TypeError, match="map2_: expected torch.DoubleTensor for argument 'x' .got torch.FloatTensor"):
        torch.ones(2).double().map2_(torch.ones(2), torch.ones(2), max)
    with pytest.raises(RuntimeError, match=r"Can't call map2_\(\) on Variable that requires grad"):
        torch.ones(2, requires_grad=True).map2_(x, x, max)
    assert x.storage_type() is torch.FloatStorage and x.const_data_ptr() == x.data_ptr()


def test_devices_and_forms_that_tensors_never_have():
    x = torch.ones(2)
    assert not any((x.is_ipu, x.is_maia, x.is_mtia, x.is_vulkan, x.is_xla, x.is_distributed()))
    assert x.double().dequantize().dtype is torch.dequantize(x.half()).dtype is torch.float32
    for name in ("qscheme", "int_repr", "q_scale", "q_per_channel_axis"):
        with pytest.raises(
            NotImplementedError, match=f"Could not run 'aten::{name}' with arguments from the 'CPU' backend"
        ):
            getattr(x, name)()
    with pytest.raises(NotImplementedError, match=r"Could not run 'aten::record_stream' with arguments from the 'CPU'"):
        x.record_stream(None)
    with pytest.raises(RuntimeError, match="not linked with support for ipu"):
        x.ipu()
    for name in ("xpu", "mtia"):
        with pytest.raises(AssertionError, match=f"Torch not compiled with {name.upper()} enabled"):
            getattr(x, name)()
