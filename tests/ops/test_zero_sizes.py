"""Dimensions of size zero, and sizes near the 64-bit limit: torch's results, exception classes and messages."""

import pytest

import rushlight as torch

F = torch.nn.functional

CONVOLUTIONS = [
    # Without input channels there are no output channels, and only the windows matter.
    ("conv1d", (1, 0, 5), (3, 0, 3), {}, (1, 0, 3)),
    ("conv1d", (0, 5), (3, 0, 1), {}, (0, 5)),
    ("conv1d", (0, 0, 5), (3, 0, 0), {}, (0, 0, 6)),
    ("conv2d", (1, 0, 3, 3), (3, 0, 2, 1), {"padding": (2, 0), "stride": 2}, (1, 0, 3, 2)),
    ("conv2d", (0, 3, 3), (3, 0, 3, 1), {"padding": "same"}, (0, 3, 3)),
    ("conv3d", (0, 2, 4, 4, 4), (3, 2, 3, 3, 3), {}, (0, 3, 2, 2, 2)),
    ("conv_transpose2d", (0, 1, 3, 3), (1, 1, 2, 2), {"padding": 2}, (0, 1, 0, 0)),
]


@pytest.mark.parametrize(("name", "shape", "weight", "options", "expected"), CONVOLUTIONS)
def test_convolutions_of_nothing(name, shape, weight, options, expected):
    x, w = torch.ones(shape, requires_grad=True), torch.ones(weight, requires_grad=True)
    result = getattr(F, name)(x, w, **options)
    assert result.shape == expected and result.is_contiguous()
    result.sum().backward()
    assert x.grad.shape == x.shape and w.grad.tolist() == torch.zeros(weight).tolist()


ONLY = "Only zero batch or zero channel inputs are supported, but got input shape: "
KERNEL = "kernel size should be greater than zero, but got kernel_height: "
REFUSED = [
    ("conv1d", (1, 2, 0), (3, 2, 1), {"padding": 1}, RuntimeError, ONLY + "[1, 2, 1, 0]"),
    ("conv3d", (1, 2, 0, 3, 3), (3, 2, 1, 1, 1), {"padding": 1}, RuntimeError, ONLY + "[1, 2, 0, 3, 3]"),
    ("conv_transpose2d", (2, 0, 6), (2, 3, 3, 3), {}, RuntimeError, ONLY + "[1, 2, 0, 6]"),
    ("conv2d", (1, 2, 3, 3), (3, 2, 0, 1), {"padding": 1}, RuntimeError, KERNEL + "0 kernel_width: 1"),
    (
        "conv2d",
        (0, 2, 3, 3),
        (3, 2, 0, 1),
        {},
        IndexError,
        "select(): index 0 out of range for tensor of size [0] at dimension 0",
    ),
    (
        "conv1d",
        (0, 0, 5),
        (0, 0, 0),
        {},
        RuntimeError,
        "Given groups=1, expected weight to be at least 1 at dimension 0, but got weight of size [0, 0, 0] instead",
    ),
    (
        "conv_transpose1d",
        (1, 2, 5),
        (2, 0, 3),
        {},
        RuntimeError,
        "non-empty 2D or 4D weight tensor expected, but got: [2, 0, 1, 3]",
    ),
    (
        "conv2d",
        (1, 1, 3, 3),
        (1, 1, 2, 2),
        {"padding": (1, 2**62)},
        RuntimeError,
        "Given padding=4611686018427387904 at dimension 1 , expected padding to be at most 4611686018427387903",
    ),
]


@pytest.mark.parametrize(("name", "shape", "weight", "options", "kind", "sentence"), REFUSED)
def test_convolutions_refuse_other_sizes_of_zero(name, shape, weight, options, kind, sentence):
    with pytest.raises(kind) as caught:
        getattr(F, name)(torch.ones(shape), torch.ones(weight), **options)
    assert str(caught.value).split("\n")[0] == sentence


@pytest.mark.parametrize("stride", [2**31, 2**62, 2**63 - 1])
def test_one_window_makes_no_step(stride):
    x = torch.ones(1, 1, 3, requires_grad=True)
    result = F.conv1d(x, torch.ones(1, 1, 2), stride=stride)
    result.sum().backward()
    assert result.tolist() == [[[2.0]]] and x.grad.tolist() == [[[1.0, 1.0, 0.0]]]


EMPTY = (RuntimeError, "index_select(): self indexing axis dim should be positive")
SELF = (IndexError, "index out of range in self")


def bound(index, size):
    return RuntimeError, f"INDICES element is out of DATA bounds, id={index} axis_dim={size}"


@pytest.mark.parametrize(
    ("shape", "dim", "index", "expected"),
    [
        ((0, 3), 0, 0, EMPTY),
        ((0, 3), 1, 5, bound(5, 3)),
        ((3, 0), 0, -1, bound(-1, 3)),
        ((3, 0, 0), 2, 0, EMPTY),
        ((3, 2), 1, 5, bound(5, 2)),
        ((3, 2, 2), -2, -1, bound(-1, 2)),
        ((3, 2), 0, 5, SELF),
        ((3, 2, 2), 2, 5, SELF),
        ((0,), 0, 0, SELF),
        ((3,), 0, -1, SELF),
    ],
)
def test_slices_that_are_not_there(shape, dim, index, expected):
    kind, sentence = expected
    with pytest.raises(kind) as caught:
        torch.index_select(torch.ones(shape), dim, torch.tensor([index]))
    assert str(caught.value).split("\n")[0] == sentence


@pytest.mark.parametrize(
    ("shape", "index", "expected"),
    [((0, 3), [0], EMPTY), ((0, 2), 0, EMPTY), ((3, 0), [5], bound(5, 3)), ((3, 2), [[5]], SELF)],
)
def test_rows_that_a_table_has_not(shape, index, expected):
    kind, sentence = expected
    with pytest.raises(kind) as caught:
        F.embedding(torch.tensor(index), torch.ones(shape))
    assert str(caught.value).split("\n")[0] == sentence


def test_a_table_without_rows_has_a_first_row_for_padding_only():
    assert F.embedding(torch.tensor([], dtype=torch.long), torch.ones(0, 3), padding_idx=0).shape == (0, 3)
    with pytest.raises(AssertionError, match="Padding_idx must be within num_embeddings"):
        F.embedding(torch.tensor([], dtype=torch.long), torch.ones(0, 3), padding_idx=-1)


@pytest.mark.parametrize(
    ("weight", "index", "sentence"),
    [
        (torch.ones(0, 3), [[0]], "Index 0 of input takes value 0 which is not in the valid range [0, 0)"),
        (torch.ones(3, 3), [[0, -1]], "Index 1 of input takes value -1 which is not in the valid range [0, 3)"),
        (torch.ones(3, 3).half(), [[5]], "Index 0 of input takes value 5 which is not in the valid range [0, 3)"),
        (
            torch.ones(3, 3).double(),
            [[5]],
            "embedding_bag: Expected idx >= 0 && idx < num_embeddings but found idx to be 5",
        ),
        (torch.ones(3, 3).t(), [[5]], "embedding_bag: Expected idx >= 0 && idx < num_embeddings but found idx to be 5"),
    ],
)
def test_rows_that_a_table_of_bags_has_not(weight, index, sentence):
    with pytest.raises(RuntimeError) as caught:
        F.embedding_bag(torch.tensor(index), weight, mode="sum")
    assert str(caught.value).split("\n")[0] == sentence


def test_sums_into_slices_that_are_not_there():
    assert torch.index_add(torch.ones(0, 3), 0, torch.tensor([5]), torch.ones(1, 3)).shape == (0, 3)
    with pytest.raises(RuntimeError, match="^index 5 is out of bounds for dimension 1 with size 2"):
        torch.index_add(torch.ones(3, 2), 1, torch.tensor([5]), torch.ones(3, 1))
    with pytest.raises(IndexError, match="^index out of range in self"):
        torch.index_add(torch.ones(3), 0, torch.tensor([5]), torch.ones(1))
    # The outermost and the innermost dimension have other messages than those between, and int32 indices too.
    for dim, dtype, error in (
        (0, torch.int64, RuntimeError),
        (1, torch.int64, IndexError),
        (0, torch.int32, IndexError),
    ):
        sizes = [3, 2, 2]
        sizes[dim] = 1
        with pytest.raises(error):
            torch.zeros(3, 2, 2).index_add_(dim, torch.tensor([-1], dtype=dtype), torch.ones(sizes))


@pytest.mark.parametrize("needs", ["x", "w", "b"])
def test_gradients_of_convolutions_without_input_channels(needs):
    operands = {"x": torch.ones(1, 0, 4), "w": torch.ones(2, 0, 3), "b": torch.ones(2)}
    operands[needs].requires_grad_()
    F.conv1d(*operands.values()).sum().backward()
    assert torch.equal(operands[needs].grad, torch.zeros_like(operands[needs]))


ADAPTIVE = [
    ("avg", 2, (1, 2, 4, 4), 0, "[1, 2, 0, 0] with dimension 2"),
    ("avg", 2, (2, 4, 4), (2, 0), "[2, 2, 0] with dimension 2"),
    ("avg", 1, (1, 2, 4), 0, "[1, 2, 1, 0] with dimension 3"),
    ("avg", 3, (1, 2, 4, 4, 4), 0, "[1, 2, 0, 0, 0] with dimension 2"),
    ("max", 1, (2, 4), 0, "[2, 1, 0] with dimension 2"),
    ("max", 2, (1, 2, 4, 4), 0, "[1, 2, 0, 0] with dimension 2"),
    ("max", 3, (2, 4, 4, 4), (2, 0, 2), "[2, 2, 0, 2] with dimension 2"),
]


@pytest.mark.parametrize("kind, dims, shape, size, sizes", ADAPTIVE)
def test_gradients_of_pooling_to_nothing(kind, dims, shape, size, sizes):
    x = torch.ones(shape, requires_grad=True)
    result = getattr(F, f"adaptive_{kind}_pool{dims}d")(x, size)
    with pytest.raises(RuntimeError) as caught:
        result.sum().backward()
    assert str(caught.value).startswith(
        f"adaptive_{kind}_pool{max(dims, 2)}d_backward(): Expected grad_output to have non-zero size for non-batch "
        f"dimensions, but grad_output has sizes {sizes} being empty"
    )


@pytest.mark.parametrize("mode", ["reflect", "replicate"])
@pytest.mark.parametrize(
    "shape, widths, expected",
    [
        ((3, 0, 10), 1, "2D or 3D"),
        ((0, 10), 1, "2D or 3D"),
        ((0, 3, 10), 2, "3D or 4D"),
        ((2, 3, 0, 10), 2, "3D or 4D"),
    ],
)
def test_padding_of_empty_channels(shape, widths, expected, mode):
    with pytest.raises(RuntimeError) as caught:
        F.pad(torch.ones(shape), (1, 1) * widths, mode=mode)
    assert str(caught.value).startswith(
        f"Expected {expected} (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for input, but got: "
        f"{list(shape)}"
    )
    assert F.pad(torch.ones(0, *[3] * (widths + 1)), (1, 1) * widths, mode=mode).shape[0] == 0


def test_an_empty_batch_of_another_dtype_is_normalised():
    empty = torch.ones(0, 3, dtype=torch.float64)
    assert torch.nn.functional.batch_norm(empty, torch.zeros(3), torch.ones(3), torch.ones(3), training=True).shape == (
        0,
        3,
    )
    assert torch.nn.functional.batch_norm(empty, torch.zeros(3), torch.ones(3)).dtype == torch.float64


def test_rows_that_cannot_be_counted():
    x = torch.empty(2**31, 0, 2**32).transpose(1, 2)
    with pytest.raises(RuntimeError, match="numel: integer multiplication overflow"):
        torch.nn.functional.linear(x, torch.ones(3, 0))
