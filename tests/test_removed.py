"""Functions that torch has removed or deprecates."""

import pytest

import rushlight as torch

MATRIX = torch.eye(2)


@pytest.mark.parametrize(
    "name, arguments, told",
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
def test_removed_functions(name, arguments, told):
    with pytest.raises(RuntimeError) as caught:
        getattr(torch, name)(MATRIX, *arguments)
    assert str(caught.value).startswith(f"This function was deprecated since version 1.9 and is now removed.{told}")


@pytest.mark.filterwarnings("ignore:torch.range is deprecated")
def test_range():
    assert torch.range(0, 4).tolist() == [0, 1, 2, 3, 4] and torch.range(0, 4).dtype is torch.float32
    assert torch.range(0, -3, -1).tolist() == [0, -1, -2, -3] and torch.range(0.0, 2.5).tolist() == [0, 1, 2]
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
