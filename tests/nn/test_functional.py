"""Functions of `nn.functional` that stand in Python: images in other sizes, and kinds of dropout."""

import pytest

import rushlight as torch
from rushlight.nn import functional as F


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "linear", "area"])
def test_the_same_size_is_the_same_image(mode):
    x = torch.randn(2, 3, 5)
    torch.testing.assert_close(F.interpolate(x, size=5, mode=mode), x)


@pytest.mark.parametrize("mode", ["linear", "bilinear", "trilinear"])
@pytest.mark.parametrize("align", [False, True])
def test_a_ramp_stays_a_ramp_inside(mode, align):
    rank = {"linear": 3, "trilinear": 5}.get(mode, 4)
    x = torch.arange(8.0, dtype=torch.float64).expand([1, 1] + [8] * (rank - 2))
    steps = F.interpolate(x, scale_factor=2, mode=mode, align_corners=align)[(0,) * (rank - 1)].diff()[4:-4]
    torch.testing.assert_close(steps, torch.full_like(steps, 7 / 15 if align else 0.5))


@pytest.mark.parametrize("align", [False, True])
def test_the_weights_of_cubic_neighbours_are_one_together(align):
    x = torch.full((1, 2, 3, 4), 5.0)
    torch.testing.assert_close(
        F.interpolate(x, (7, 2), mode="bicubic", align_corners=align), torch.full((1, 2, 7, 2), 5.0)
    )


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_a_gradient_counts_how_often_an_element_is_used(mode):
    x = torch.randn(1, 1, 4, requires_grad=True)
    F.interpolate(x, scale_factor=3, mode=mode).sum().backward()
    assert x.grad.sum().item() == pytest.approx(12)


@pytest.mark.parametrize(
    ("arguments", "error", "sentence"),
    [
        ({}, ValueError, "either size or scale_factor should be defined"),
        ({"size": 2, "scale_factor": 2}, ValueError, "only one of size or scale_factor should be defined"),
        ({"size": (2, 2)}, ValueError, "Input and output must have the same number of spatial dimensions"),
        ({"size": 2, "align_corners": True}, ValueError, "align_corners option can only be set"),
        ({"size": 2, "mode": "bilinear"}, NotImplementedError, "Got 3D input, but bilinear mode needs 4D input"),
        (
            {"size": 0},
            RuntimeError,
            "Input and output sizes should be greater than 0, but got input (W: 4) and output (W: 0)",
        ),
    ],
)
def test_sizes_that_make_no_sense(arguments, error, sentence):
    with pytest.raises(error) as caught:
        F.interpolate(torch.ones(1, 1, 4), **arguments)
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize(
    "drop, shape", [(F.dropout1d, (4, 5, 6)), (F.dropout2d, (4, 5, 6, 2)), (F.dropout3d, (4, 5, 2, 3, 2))]
)
def test_whole_channels_are_dropped(drop, shape):
    torch.manual_seed(0)
    x = drop(torch.ones(shape), 0.5)
    kinds = x.flatten(2)
    assert (kinds == kinds[..., :1]).all() and set(x.unique().tolist()) == {0.0, 2.0}
    assert drop(torch.ones(shape), 0.5, training=False).eq(1).all()


@pytest.mark.parametrize("drop", [F.alpha_dropout, F.feature_alpha_dropout])
def test_mean_and_variance_survive(drop):
    torch.manual_seed(0)
    x = drop(torch.randn(400, 500), 0.2, training=True)
    assert abs(x.mean().item()) < 0.02 and abs(x.std().item() - 1) < 0.02
    with pytest.raises(ValueError, match="dropout probability has to be between 0 and 1, but got 2"):
        drop(x, 2)


def test_bytes_are_resized_as_torch_rounds_them():
    image = torch.tensor([[[[10, 120], [250, 255]]]], dtype=torch.uint8)
    linear = F.interpolate(image, size=(3, 3), mode="bilinear")
    assert linear.tolist() == [[[[10, 65, 120], [130, 159, 188], [250, 253, 255]]]]
    cubic = F.interpolate(image, size=(3, 3), mode="bicubic")
    assert cubic.tolist() == [[[[0, 49, 119], [125, 159, 193], [255, 255, 255]]]]


def test_cosine_similarity_of_endless_lengths():
    x = torch.tensor([1e20, 1e20], requires_grad=True)
    similar = F.cosine_similarity(x, torch.tensor([1e20, 1e20]), 0)
    similar.backward()
    assert similar.item() == 0 and x.grad.tolist() == [0, 0]


@pytest.mark.parametrize("factor", [1e30, float("inf"), float("nan")])
def test_sizes_beyond_integers_are_refused(factor):
    with pytest.raises(RuntimeError, match="value cannot be converted to type int64_t without overflow"):
        F.interpolate(torch.ones(1, 1, 3), scale_factor=factor)
