"""Functions of `nn.functional` that are written in Python: resizing of images, and dropout."""

import math
import re

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
    "arguments, error, sentence",
    [
        (
            {"scale_factor": float("nan"), "recompute_scale_factor": True},
            ValueError,
            "cannot convert float NaN to integer",
        ),
        ({"scale_factor": float("nan")}, RuntimeError, "value cannot be converted to type int64_t without overflow"),
        ({"scale_factor": float("inf"), "mode": "area"}, OverflowError, "cannot convert float infinity to integer"),
        (
            {"scale_factor": 1e30, "mode": "area"},
            TypeError,
            "adaptive_avg_pool2d(): argument 'output_size' failed to unpack the object at pos 1 with error \"Overflow when "
            "unpacking long long",
        ),
        (
            {"size": 2**63},
            TypeError,
            "upsample_nearest2d(): argument 'output_size' failed to unpack the object at pos 1",
        ),
        (
            {"size": 2**31},
            RuntimeError,
            "Storage size calculation overflowed with sizes=[1, 1, 2147483648, 2147483648]",
        ),
        (
            {"size": 2.5, "mode": "nearest-exact"},
            TypeError,
            "_upsample_nearest_exact2d() received an invalid combination",
        ),
        ({"size": 2.5, "mode": "bilinear"}, TypeError, "got (Tensor, list, bool, NoneType), but expected one of"),
        ({"size": 2.5, "mode": "area"}, TypeError, "must be tuple of ints, but found element of type float at pos 0"),
        ({"size": (True, 2)}, TypeError, "got (Tensor, tuple, NoneType), but expected one of"),
    ],
)
def test_sizes_that_no_image_has(arguments, error, sentence):
    with pytest.raises(error, match=re.escape(sentence)):
        F.interpolate(torch.ones(1, 1, 4, 4), **arguments)


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


#: torch 2.13's results for ``arange(42) ** 2 % 37`` as a 6x7 image: resized to (2, 3), the same for bytes that are six
#: times as large, by the factors (0.4, 0.5); and the gradient of the first element along the first column.
SHRUNK = {
    "bilinear": (
        [11.9286, 18.9853, 25.4286, 12.2143, 18.7941, 17.1429],
        [72, 114, 153, 73, 113, 103],
        [10.8247, 16.267, 23.1591, 13.9714, 19.175, 21.22],
        [0.0893, 0.1339, 0.0893, 0.0446, 0.0, 0.0],
    ),
    "bicubic": (
        [11.4598, 19.2638, 26.5324, 11.9542, 18.6034, 16.9374],
        [69, 116, 159, 72, 111, 102],
        [9.874, 15.8618, 23.8698, 13.867, 20.2832, 21.7014],
        [0.1058, 0.1361, 0.1058, 0.0454, 0.0, -0.0101],
    ),
    "lanczos": (
        [11.4703, 19.6096, 27.1522, 11.8884, 18.753, 17.1571],
        [69, 118, 163, 71, 112, 103],
        [9.7773, 15.4902, 24.7797, 13.407, 20.6287, 21.951],
        [0.1115, 0.1377, 0.1115, 0.0524, 0.0, -0.0201],
    ),
}


@pytest.mark.parametrize("mode", SHRUNK)
def test_a_small_image_is_made_of_all_of_a_large_one(mode):
    by_size, of_bytes, by_factors, column = SHRUNK[mode]
    x = (torch.arange(42.0) ** 2 % 37).reshape(1, 1, 6, 7).requires_grad_()
    small = F.interpolate(x, size=(2, 3), mode=mode, antialias=True)
    assert small.flatten().tolist() == pytest.approx(by_size, abs=1e-4)
    small[0, 0, 0, 0].backward()
    assert x.grad[0, 0, :, 0].tolist() == pytest.approx(column, abs=1e-4)
    scaled = F.interpolate(x, scale_factor=(0.4, 0.5), mode=mode, antialias=True)
    assert scaled.flatten().tolist() == pytest.approx(by_factors, abs=1e-4)
    assert F.interpolate((x * 6).byte(), size=(2, 3), mode=mode, antialias=True).flatten().tolist() == of_bytes
    last = F.interpolate(torch.ones(2, 3, 5, 5).to(memory_format=torch.channels_last), 4, mode=mode, antialias=True)
    assert last.stride() == (48, 1, 12, 3)
    double = x.detach().double().requires_grad_()
    assert torch.autograd.gradgradcheck(
        lambda x: F.interpolate(x * x, size=(3, 4), mode=mode, antialias=True), double, fast_mode=True
    )


@pytest.mark.parametrize(
    ("rank", "arguments", "error", "sentence"),
    [
        (
            3,
            {"mode": "bilinear", "antialias": True},
            ValueError,
            "Anti-alias option is restricted to bilinear, bicubic, and",
        ),
        (4, {"mode": "lanczos"}, ValueError, "Lanczos mode requires antialias=True"),
        (4, {"mode": "lanczos", "align_corners": True}, ValueError, "Lanczos mode does not support align_corners=True"),
        (
            3,
            {"mode": "bicubic"},
            NotImplementedError,
            r"Input Error: .* \| trilinear \| lanczos \| area \| nearest-exact",
        ),
        (4, {"mode": "foo", "align_corners": True}, NotImplementedError, r"Input Error: .* \(got foo\)"),
        (4, {"mode": "trilinear"}, NotImplementedError, "Got 4D input, but trilinear mode needs 5D input"),
    ],
)
def test_modes_that_make_no_sense(rank, arguments, error, sentence):
    with pytest.raises(error, match=sentence):
        F.interpolate(torch.ones([2] * rank), size=2, **arguments)


def test_antialiasing_of_whole_numbers_is_refused():
    with pytest.raises(NotImplementedError, match="\"compute_index_ranges_weights\" not implemented for 'Int'"):
        F.interpolate(torch.ones(1, 1, 4, 4, dtype=torch.int32), size=2, mode="bicubic", antialias=True)


@pytest.mark.parametrize("drop", [F.dropout, F.alpha_dropout, F.feature_alpha_dropout])
def test_chances_that_are_none(drop):
    for chance, error in ((float("nan"), RuntimeError), (-1, ValueError), (2, ValueError)):
        with pytest.raises(error, match=f"dropout probability has to be between 0 and 1, but got {chance}"):
            drop(torch.ones(2, 2), chance, True)


@pytest.mark.parametrize(
    "name, sizes",
    [
        ("dropout", (2, 3)),
        ("dropout1d", (2, 3, 4)),
        ("dropout2d", (2, 3, 4, 4)),
        ("dropout3d", (2, 3, 2, 2, 2)),
        ("alpha_dropout", (2, 3)),
        ("feature_alpha_dropout", (2, 3, 2)),
    ],
)
def test_the_probability_of_dropout_is_a_number(name, sizes):
    """A tensor would be drawn from in another way."""
    function, x = getattr(F, name), torch.ones(sizes)
    drawn = []
    for p in (0.5, torch.tensor(0.5), torch.tensor(0.5, dtype=torch.float64)):
        torch.manual_seed(0)
        drawn.append((function(x, p, True), torch.rand(1)))
    assert all(torch.equal(one, drawn[0][0]) and torch.equal(after, drawn[0][1]) for one, after in drawn)
    for p in (torch.tensor([0.5]), torch.tensor(0.5, requires_grad=True)):
        with pytest.raises(TypeError, match="argument 'p' .position 2. must be float, not Tensor"):
            function(x, p, True)


def test_dropout_of_a_number_is_refused():
    with pytest.raises(TypeError, match=r"alpha_dropout\(\): argument 'input' \(position 1\) must be Tensor, not int"):
        F.alpha_dropout(-1)


@pytest.mark.filterwarnings("ignore:Implicit dimension choice")
@pytest.mark.parametrize("function", [F.softmax, F.log_softmax, F.softmin])
def test_softmax_takes_a_depth_where_a_slip_may_lie(function):
    assert function(torch.zeros(2, 3), None, 5).shape == (2, 3)
    with pytest.raises(TypeError, match="'list' object cannot be interpreted as an integer"):
        function(torch.zeros(2, 3), None, [1])


@pytest.mark.parametrize("name", ["dropout", "alpha_dropout", "feature_dropout", "feature_alpha_dropout"])
def test_dropout_under_the_names_of_operators(name):
    x = torch.ones(4, 5, 2)
    torch.manual_seed(0)
    apart = getattr(torch, name)(x, 0.5, True)
    torch.manual_seed(0)
    own = x.clone()
    assert getattr(torch, name + "_")(own, 0.5, True) is own and torch.equal(own, apart)
    assert not torch.equal(own, x) and torch.equal(getattr(torch, name)(x, 0.5, False), x)
    for suffix in ("", "_"):
        with pytest.raises(RuntimeError, match="dropout probability has to be between 0 and 1, but got 1.5"):
            getattr(torch, name + suffix)(x, 1.5, True)


@pytest.mark.parametrize(("function", "size"), [(F.adaptive_avg_pool2d, (2, 3)), (F.adaptive_max_pool3d, [1, None, 2])])
def test_adaptive_pools_have_a_dimension_for_each_size(function, size):
    for shape in ((), (1,), (1,) * len(size)):
        with pytest.raises(ValueError, match=f"^Input dimension should be at least {len(size) + 1}$"):
            function(torch.ones(shape), size)
    assert function(torch.ones((2,) * (len(size) + 1)), size).shape[0] == 2


def _fractional(space, shape=(2, 3), **options):
    pool = getattr(F, f"fractional_max_pool{space}d")
    return pool(torch.ones(*shape, *[4] * space), **{"kernel_size": 2, "output_size": 2, **options})


@pytest.mark.parametrize("space", [2, 3])
def test_fractional_pooling_refuses_what_does_not_fit(space):
    ints = {2: "Ints", 3: "three Ints"}[space]
    for options, sentence in (
        ({"kernel_size": (2,)}, f"kernel_size must either be a single Int or tuple of {ints}"),
        ({"output_size": (2,)}, f"output_size must either be a single Int or tuple of {ints}"),
        ({"_random_samples": torch.rand(1, 3, space)}, r"_random_samples.size\(0\) no less then input batch size"),
        ({"_random_samples": torch.rand(2, 2, space)}, r"_random_samples.size\(1\) equals to input channel size"),
        ({"_random_samples": torch.rand(2, 3, 4)}, rf"_random_samples.size\(2\) equals to {space}; got 4"),
        ({"_random_samples": torch.rand(2, 3)}, "_random_samples to have 3 dimensions, got 2"),
        ({"_random_samples": torch.rand(2, 3, space).double()}, "_random_samples to have the same dtype as input"),
        ({"shape": (2, 0)}, "Expected input to have non-zero size for non-batch dimensions"),
    ):
        with pytest.raises(RuntimeError, match=sentence):
            _fractional(space, **options)
    with pytest.raises(ValueError, match="requires output_ratio to either be a single Int or tuple of Ints"):
        _fractional(space, output_size=None, output_ratio=(0.5,) * 4)
    assert _fractional(space, _random_samples=torch.rand(5, 3, space)).shape[:2] == (2, 3)
    assert _fractional(space, (0, 3)).shape[:2] == (0, 3) and _fractional(space, (3,)).shape[0] == 3


def test_unpooling_refuses_a_kernel_of_too_few_sizes():
    for space, text in ((2, r"two elements \(height, width\)"), (3, r"three elements \(depth, height, width\)")):
        x = torch.ones(1, 1, *[2] * space)
        with pytest.raises(RuntimeError, match=f"There should be exactly {text} in output_size, but got 1 elements"):
            getattr(F, f"max_unpool{space}d")(x, torch.zeros_like(x, dtype=torch.int64), [1])


@pytest.mark.parametrize("space", [1, 2, 3])
def test_unpooling_refuses_a_kernel_of_too_many_sizes(space):
    x, many = torch.ones(1, 1, *[1] * space), (1,) * (space + 1)
    unpool, places = getattr(F, f"max_unpool{space}d"), torch.zeros_like(x, dtype=torch.int64)
    with pytest.raises(IndexError, match="^tuple index out of range"):
        unpool(x, places, many)
    if space < 3:
        with pytest.raises(RuntimeError, match="There should be exactly two elements .* in output_size, but got 3"):
            unpool(x, places, many, many, (0,) * (space + 1))


def test_ratios_of_volumes_are_three():
    with pytest.raises(IndexError, match="^tuple index out of range"):
        torch.nn.FractionalMaxPool3d(2, output_ratio=(0.5, 0.5))


@pytest.mark.parametrize("space", [1, 2, 3])
def test_unpooling_refuses_what_is_no_tensor(space):
    unpool, x = getattr(F, f"max_unpool{space}d"), torch.ones(1, 1, *[2] * space)
    with pytest.raises(AttributeError, match="^'int' object has no attribute 'size'"):
        unpool(5, x, 2)
    with pytest.raises(
        TypeError, match=rf"^max_unpool{max(space, 2)}d\(\): argument 'indices' \(position 2\) must be Tensor"
    ):
        unpool(x, 5, 2)


def test_a_grid_of_one_point_is_warned_of():
    with pytest.warns(UserWarning, match="affine_grid behavior has changed for unit-size grids"):
        F.affine_grid(torch.eye(2, 3)[None], (1, 1, 1, 3), align_corners=True)


@pytest.mark.parametrize("place", [math.nan, math.inf, -math.inf])
def test_grids_of_no_place(place):
    image = torch.arange(9.0).view(1, 1, 3, 3) + 1
    grid = torch.tensor([[[[place, 0.0]]]], requires_grad=True)

    def sampled(mode, padding):
        return F.grid_sample(image, grid, mode=mode, padding_mode=padding, align_corners=False).item()

    assert sampled("nearest", "zeros") == 0
    end = 6 if place == math.inf else 4
    assert sampled("nearest", "border") == sampled("bilinear", "border") == end
    assert sampled("nearest", "reflection") == sampled("bilinear", "reflection") == 4


INTEGERS = [
    ((1, 1, 4), "nearest", torch.int8, "\"compute_indices_weights_nearest\" not implemented for 'Char'"),
    ((1, 1, 4), "linear", torch.uint8, "\"compute_indices_weights_linear\" not implemented for 'Byte'"),
    ((1, 1, 4, 4), "nearest-exact", torch.bool, "\"upsample_nearest2d_channels_last\" not implemented for 'Bool'"),
    ((1, 1, 4, 4), "bilinear", torch.int64, "\"upsample_bilinear2d_channels_last\" not implemented for 'Long'"),
    ((1, 1, 4, 4), "bicubic", torch.int16, "\"compute_indices_weights_cubic\" not implemented for 'Short'"),
    ((1, 5, 4, 4, 4), "trilinear", torch.int32, "\"compute_indices_weights_linear\" not implemented for 'Int'"),
    ((1, 1, 4), "nearest", torch.complex64, "\"compute_indices_weights_nearest\" not implemented for 'ComplexFloat'"),
]


@pytest.mark.parametrize("shape, mode, dtype, sentence", INTEGERS)
def test_images_of_whole_numbers_keep_their_size(shape, mode, dtype, sentence):
    with pytest.raises(NotImplementedError, match=f"^{sentence}"):
        F.interpolate(torch.zeros(shape, dtype=dtype), size=2, mode=mode)


def test_sizes_of_images_are_whole():
    assert F.interpolate(torch.ones(1, 1, 2), size=(torch.tensor(4),)).shape == (1, 1, 4)
    with pytest.raises(TypeError, match="but got size with types"):
        F.interpolate(torch.ones(1, 1, 2), size=(torch.tensor(4.0),))


@pytest.mark.parametrize(
    "padding, values", [("zeros", [0] * 5), ("border", [15, 15, 13, 27, 23]), ("reflection", [15, 15, 15, 27, 23])]
)
@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
def test_points_of_volumes_that_are_no_numbers(mode, padding, values):
    inf, nan = math.inf, math.nan
    points = [[nan, 0, 0], [inf, 0, 0], [-inf, 0, 0], [nan, nan, nan], [0, 0, nan]]
    volume, grid = torch.arange(1.0, 28).reshape(1, 1, 3, 3, 3), torch.tensor(points).reshape(1, 1, 1, 5, 3)
    for corners in (False, True):
        sampled = F.grid_sample(volume, grid, mode=mode, padding_mode=padding, align_corners=corners)
        assert sampled.flatten().tolist() == values


@pytest.mark.parametrize("dims, place", [(1, 1), (2, 2), (3, 3)])
def test_windows_in_the_padding_alone(dims, place):
    pool = getattr(F, f"max_pool{dims}d")
    best, places = pool(torch.ones((2, 3) + (1,) * dims), 2, 1, 1, 2, return_indices=True)
    assert (best == -math.inf).all() and (places == place).all() and best.shape[2:] == (1,) * dims
    x = torch.arange(3.0).reshape(1, 1, 3)
    assert F.max_pool1d(x, 2, 1, 1, 4).tolist() == [[[-math.inf]]] or dims != 1
    if dims == 2:
        whole = torch.ones(1, 1, 1, 1, dtype=torch.int64)
        assert F.max_pool2d(whole, 2, 1, 1, 2).item() == torch.iinfo(torch.int64).min


@pytest.mark.parametrize(
    "call, error, sentence",
    [
        (
            lambda x: F.interpolate(x, scale_factor="a"),
            TypeError,
            "upsample_nearest1d() received an invalid combination",
        ),
        (
            lambda x: F.interpolate(x, scale_factor=torch.tensor(2.0)),
            TypeError,
            "upsample_nearest1d() received an invalid",
        ),
        (
            lambda x: F.interpolate(x, size=4.0),
            TypeError,
            "upsample_nearest1d() received an invalid combination of arguments",
        ),
        (
            lambda x: F.interpolate(x[..., :0], size=2),
            RuntimeError,
            "Input and output sizes should be greater than 0, but got",
        ),
        (
            lambda x: F.fractional_max_pool2d(x[None, :, :0], 2, output_size=1),
            RuntimeError,
            "fractional_max_pool2d(): Expected input to have non-zero size for non-batch dimensions, but got[1, 2, 0, 4]",
        ),
        (
            lambda x: F.fractional_max_pool3d(x, 2, output_size=1),
            RuntimeError,
            "fractional_max_pool3d_out(): Expected 4D or 5D tensor, but got: [2, 3, 4]",
        ),
    ],
)
def test_sentences_of_resizing(call, error, sentence):
    with pytest.raises(error) as caught:
        call(torch.ones(2, 3, 4))
    assert str(caught.value).startswith(sentence)


def test_functional_helpers():
    assert F.has_torch_function((torch.ones(1),)) is False and F.Tensor is torch.Tensor
    with pytest.raises(AssertionError, match="size must"):
        F.assert_int_or_pair([1, 2, 3], "size", "{} must")
    assert F.GRID_SAMPLE_PADDING_MODES["border"] == 1


def test_a_bias_of_another_dtype_is_converted_if_the_padding_is_a_word():
    x, weight, bias = torch.ones(1, 1, 3), torch.ones(1, 1, 1), torch.ones(1)
    assert torch.conv1d(x.double(), weight.double(), bias, padding="same").tolist() == [[[2.0] * 3]]
    with pytest.raises(RuntimeError, match=r"Input type \(double\) and bias type \(float\) should be the same"):
        torch.conv1d(x.double(), weight.double(), bias)


def test_a_bias_of_linear_spreads_over_the_rows_of_all_sequences():
    x, weight, bias = torch.ones(2, 2, 3), torch.ones(2, 3), torch.arange(4.0).reshape(4, 1)
    assert F.linear(x, weight, bias)[..., 0].tolist() == [[3, 4], [5, 6]]
    with pytest.raises(
        RuntimeError, match=r"^The expanded size of the tensor \(4\) must match the existing size \(2\)"
    ):
        F.linear(x, weight, torch.ones(2, 1))


def test_long_steps_of_max_pool1d():
    x = torch.arange(4.0).reshape(1, 1, 4)
    assert torch.equal(F.max_pool1d(x, 1, dilation=2**62), x)
    assert F.max_pool1d(x, 1, stride=2**62).tolist() == [[[0]]]
    with pytest.raises(RuntimeError, match="^value cannot be converted to type int without overflow"):
        F.max_pool1d(x.clone().requires_grad_(), 1, dilation=2**62)


def test_affine_grid_shows_the_size_as_it_was_given():
    theta = torch.ones(1, 2, 3)
    with pytest.raises(ValueError, match=r"^Expected non-zero, positive output size. Got \[1, 1, 0, 2\]"):
        F.affine_grid(theta, [1, 1, 0, 2], False)
    with pytest.raises(
        TypeError, match=r"^affine_grid_generator\(\): argument 'size' \(position 2\) must be tuple of ints"
    ):
        F.affine_grid(theta, torch.tensor([1, 1, 2, 2]), False)
    with pytest.raises(TypeError, match="^object of type 'int' has no len"):
        F.affine_grid(theta, 4, False)


def test_kernels_of_groups_that_do_not_fit_in_memory():
    """The lists of their positions are as long as the kernel of one group."""
    weight = torch.ones(1).expand(4096, 64, 1 << 14, 1 << 14)
    image = torch.ones(1).expand(1, 4096, 1 << 14, 1 << 14)
    with pytest.raises(RuntimeError, match="memory"):
        F.conv2d(image, weight, groups=64)
