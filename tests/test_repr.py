"""`repr(tensor)` prints the same characters as torch 2.13, as recorded."""

import pytest

import rushlight as torch

CASES = {
    "torch.tensor(3)": "tensor(3)",
    "torch.tensor(-2.5)": "tensor(-2.5000)",
    "torch.tensor(2.0)": "tensor(2.)",
    "torch.tensor(True)": "tensor(True)",
    "torch.tensor(1 + 2j)": "tensor(1.+2.j)",
    'torch.tensor(float("nan"))': "tensor(nan)",
    'torch.tensor(float("-inf"))': "tensor(-inf)",
    "torch.tensor([])": "tensor([])",
    "torch.zeros(0, 3)": "tensor([], size=(0, 3))",
    "torch.zeros(2, 0, dtype=torch.int64)": "tensor([], size=(2, 0), dtype=torch.int64)",
    "torch.tensor([1, -20, 300])": "tensor([  1, -20, 300])",
    "torch.tensor([True, False])": "tensor([ True, False])",
    "torch.tensor([1.0, 2.0, 3.0])": "tensor([1., 2., 3.])",
    "torch.tensor([1.5, 2.25, -3.0])": "tensor([ 1.5000,  2.2500, -3.0000])",
    "torch.tensor([0.00001, 1.0])": "tensor([1.0000e-05, 1.0000e+00])",
    "torch.tensor([1e-4, 0.5])": "tensor([1.0000e-04, 5.0000e-01])",
    "torch.tensor([1e5, 1.5])": "tensor([1.0000e+05, 1.5000e+00])",
    "torch.tensor([1e9, 1.0])": "tensor([1.0000e+09, 1.0000e+00])",
    "torch.tensor([123456789.0])": "tensor([1.2346e+08])",
    'torch.tensor([float("nan"), float("inf"), 1.0])': "tensor([nan, inf, 1.])",
    'torch.tensor([float("nan"), float("inf"), 1.5])': "tensor([   nan,    inf, 1.5000])",
    "torch.tensor([-0.0, 0.0])": "tensor([-0., 0.])",
    "torch.tensor([0.125, 0.00005])": "tensor([1.2500e-01, 5.0000e-05])",
    "torch.tensor([1, 2], dtype=torch.int8)": "tensor([1, 2], dtype=torch.int8)",
    "torch.tensor([1.5], dtype=torch.float64)": "tensor([1.5000], dtype=torch.float64)",
    "torch.tensor([1.5], dtype=torch.float16)": "tensor([1.5000], dtype=torch.float16)",
    "torch.tensor([1.5], dtype=torch.bfloat16)": "tensor([1.5000], dtype=torch.bfloat16)",
    "torch.tensor([2**63], dtype=torch.uint64)": "tensor([9223372036854775808], dtype=torch.uint64)",
    "torch.tensor([1 + 2j, -3.5 - 0.25j])": "tensor([ 1.0000+2.0000j, -3.5000-0.2500j])",
    "torch.tensor([1e-6 + 1j, 100 - 1e6j])": "tensor([1.0000e-06+1.0000e+00j, 1.0000e+02-1.0000e+06j])",
    "torch.tensor([[1, 2], [3, 40]])": ("tensor([[ 1,  2],\n        [ 3, 40]])"),
    "torch.tensor([[1.0], [-2.5]])": ("tensor([[ 1.0000],\n        [-2.5000]])"),
    "torch.arange(24).reshape(2, 3, 4)": (
        "tensor([[[ 0,  1,  2,  3],\n"
        "         [ 4,  5,  6,  7],\n"
        "         [ 8,  9, 10, 11]],\n"
        "\n"
        "        [[12, 13, 14, 15],\n"
        "         [16, 17, 18, 19],\n"
        "         [20, 21, 22, 23]]])"
    ),
    "torch.arange(4.0).reshape(1, 1, 2, 2)": ("tensor([[[[0., 1.],\n          [2., 3.]]]])"),
    "torch.arange(40)": (
        "tensor([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16, 17,\n"
        "        18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35,\n"
        "        36, 37, 38, 39])"
    ),
    "torch.arange(30) / 7": (
        "tensor([0.0000, 0.1429, 0.2857, 0.4286, 0.5714, 0.7143, 0.8571, 1.0000, 1.1429,\n"
        "        1.2857, 1.4286, 1.5714, 1.7143, 1.8571, 2.0000, 2.1429, 2.2857, 2.4286,\n"
        "        2.5714, 2.7143, 2.8571, 3.0000, 3.1429, 3.2857, 3.4286, 3.5714, 3.7143,\n"
        "        3.8571, 4.0000, 4.1429])"
    ),
    "torch.arange(1001)": "tensor([   0,    1,    2,  ...,  998,  999, 1000])",
    "torch.arange(2000.0).reshape(50, 40)": (
        "tensor([[0.0000e+00, 1.0000e+00, 2.0000e+00,  ..., 3.7000e+01, 3.8000e+01,\n"
        "         3.9000e+01],\n"
        "        [4.0000e+01, 4.1000e+01, 4.2000e+01,  ..., 7.7000e+01, 7.8000e+01,\n"
        "         7.9000e+01],\n"
        "        [8.0000e+01, 8.1000e+01, 8.2000e+01,  ..., 1.1700e+02, 1.1800e+02,\n"
        "         1.1900e+02],\n"
        "        ...,\n"
        "        [1.8800e+03, 1.8810e+03, 1.8820e+03,  ..., 1.9170e+03, 1.9180e+03,\n"
        "         1.9190e+03],\n"
        "        [1.9200e+03, 1.9210e+03, 1.9220e+03,  ..., 1.9570e+03, 1.9580e+03,\n"
        "         1.9590e+03],\n"
        "        [1.9600e+03, 1.9610e+03, 1.9620e+03,  ..., 1.9970e+03, 1.9980e+03,\n"
        "         1.9990e+03]])"
    ),
    "torch.arange(4200).reshape(10, 20, 21)": (
        "tensor([[[   0,    1,    2,  ...,   18,   19,   20],\n"
        "         [  21,   22,   23,  ...,   39,   40,   41],\n"
        "         [  42,   43,   44,  ...,   60,   61,   62],\n"
        "         ...,\n"
        "         [ 357,  358,  359,  ...,  375,  376,  377],\n"
        "         [ 378,  379,  380,  ...,  396,  397,  398],\n"
        "         [ 399,  400,  401,  ...,  417,  418,  419]],\n"
        "\n"
        "        [[ 420,  421,  422,  ...,  438,  439,  440],\n"
        "         [ 441,  442,  443,  ...,  459,  460,  461],\n"
        "         [ 462,  463,  464,  ...,  480,  481,  482],\n"
        "         ...,\n"
        "         [ 777,  778,  779,  ...,  795,  796,  797],\n"
        "         [ 798,  799,  800,  ...,  816,  817,  818],\n"
        "         [ 819,  820,  821,  ...,  837,  838,  839]],\n"
        "\n"
        "        [[ 840,  841,  842,  ...,  858,  859,  860],\n"
        "         [ 861,  862,  863,  ...,  879,  880,  881],\n"
        "         [ 882,  883,  884,  ...,  900,  901,  902],\n"
        "         ...,\n"
        "         [1197, 1198, 1199,  ..., 1215, 1216, 1217],\n"
        "         [1218, 1219, 1220,  ..., 1236, 1237, 1238],\n"
        "         [1239, 1240, 1241,  ..., 1257, 1258, 1259]],\n"
        "\n"
        "        ...,\n"
        "\n"
        "        [[2940, 2941, 2942,  ..., 2958, 2959, 2960],\n"
        "         [2961, 2962, 2963,  ..., 2979, 2980, 2981],\n"
        "         [2982, 2983, 2984,  ..., 3000, 3001, 3002],\n"
        "         ...,\n"
        "         [3297, 3298, 3299,  ..., 3315, 3316, 3317],\n"
        "         [3318, 3319, 3320,  ..., 3336, 3337, 3338],\n"
        "         [3339, 3340, 3341,  ..., 3357, 3358, 3359]],\n"
        "\n"
        "        [[3360, 3361, 3362,  ..., 3378, 3379, 3380],\n"
        "         [3381, 3382, 3383,  ..., 3399, 3400, 3401],\n"
        "         [3402, 3403, 3404,  ..., 3420, 3421, 3422],\n"
        "         ...,\n"
        "         [3717, 3718, 3719,  ..., 3735, 3736, 3737],\n"
        "         [3738, 3739, 3740,  ..., 3756, 3757, 3758],\n"
        "         [3759, 3760, 3761,  ..., 3777, 3778, 3779]],\n"
        "\n"
        "        [[3780, 3781, 3782,  ..., 3798, 3799, 3800],\n"
        "         [3801, 3802, 3803,  ..., 3819, 3820, 3821],\n"
        "         [3822, 3823, 3824,  ..., 3840, 3841, 3842],\n"
        "         ...,\n"
        "         [4137, 4138, 4139,  ..., 4155, 4156, 4157],\n"
        "         [4158, 4159, 4160,  ..., 4176, 4177, 4178],\n"
        "         [4179, 4180, 4181,  ..., 4197, 4198, 4199]]])"
    ),
    "torch.arange(1500).reshape(3, 500)": (
        "tensor([[   0,    1,    2,  ...,  497,  498,  499],\n"
        "        [ 500,  501,  502,  ...,  997,  998,  999],\n"
        "        [1000, 1001, 1002,  ..., 1497, 1498, 1499]])"
    ),
    "torch.ones(2, requires_grad=True)": "tensor([1., 1.], requires_grad=True)",
    "torch.ones(2, requires_grad=True) * 2": "tensor([2., 2.], grad_fn=<MulBackward0>)",
    "torch.ones(25, dtype=torch.float64, requires_grad=True)": (
        "tensor([1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1., 1.,\n"
        "        1., 1., 1., 1., 1., 1., 1.], dtype=torch.float64, requires_grad=True)"
    ),
    "torch.full((17,), 1.5, dtype=torch.float64)": (
        "tensor([1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000,\n"
        "        1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000],\n"
        "       dtype=torch.float64)"
    ),
    "torch.full((18,), 1.5, dtype=torch.float64)": (
        "tensor([1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000,\n"
        "        1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000, 1.5000],\n"
        "       dtype=torch.float64)"
    ),
    'torch.ones(2, 3, device="meta")': "tensor(..., device='meta', size=(2, 3))",
    'torch.ones(2, device="meta", dtype=torch.int32)': "tensor(..., device='meta', size=(2,), dtype=torch.int32)",
    "torch.arange(6).reshape(2, 3).t()": ("tensor([[0, 3],\n        [1, 4],\n        [2, 5]])"),
}

OPTIONS = [
    ({"precision": 2}, "torch.tensor([1.23456, 2.0])", "tensor([1.23, 2.00])"),
    ({"threshold": 5}, "torch.arange(10)", "tensor([0, 1, 2,  ..., 7, 8, 9])"),
    (
        {"threshold": 5, "edgeitems": 1},
        "torch.arange(12).reshape(3, 4)",
        "tensor([[ 0,  ...,  3],\n        ...,\n        [ 8,  ..., 11]])",
    ),
    (
        {"linewidth": 30},
        "torch.arange(20)",
        "tensor([ 0,  1,  2,  3,  4,\n         5,  6,  7,  8,  9,\n        10, 11, 12, 13, 14,\n        15, 16, 17, 18, 19])",
    ),
    ({"sci_mode": True}, "torch.tensor([1.5, 20.0])", "tensor([1.5000e+00, 2.0000e+01])"),
    ({"sci_mode": False}, "torch.tensor([1e-6, 20.0])", "tensor([ 0.0000, 20.0000])"),
    ({"profile": "short"}, "torch.tensor([1.23456])", "tensor([1.23])"),
    ({"profile": "full"}, "torch.ones(3, 400)[:, :2]", "tensor([[1., 1.],\n        [1., 1.],\n        [1., 1.]])"),
    ({"precision": 0}, "torch.tensor([1.5, 2.5])", "tensor([2, 2])"),
]


@pytest.mark.parametrize("expression", CASES)
def test_text(expression):
    tensor = eval(expression)
    assert repr(tensor) == CASES[expression]
    assert str(tensor) == CASES[expression]
    assert f"{tensor}" == (str(tensor.item()) if tensor.dim() == 0 and not tensor.is_meta else CASES[expression])


@pytest.mark.parametrize(("options", "expression", "text"), OPTIONS)
def test_options(options, expression, text):
    try:
        torch.set_printoptions(**options)
        assert repr(eval(expression)) == text
    finally:
        torch.set_printoptions(profile="default")


def test_unknown_option():
    with pytest.raises(TypeError):
        torch.set_printoptions(digits=3)


@pytest.mark.parametrize(
    ("error", "options"),
    [
        (ValueError, {"precision": -1}),
        (ValueError, {"edgeitems": -1}),
        (TypeError, {"precision": 2.5}),
        (TypeError, {"edgeitems": "a"}),
        (TypeError, {"linewidth": "a"}),
        (TypeError, {"threshold": "a"}),
    ],
)
def test_bad_options_change_nothing(error, options):
    before = torch.get_printoptions()
    with pytest.raises(error):
        torch.set_printoptions(**{"precision": 2, "sci_mode": True, **options})
    assert torch.get_printoptions() == before
    assert repr(torch.tensor(0.5)) == "tensor(0.5000)"


@pytest.mark.parametrize(
    ("options", "elements", "lines"),
    [
        ({"threshold": float("nan")}, 1100, 92),
        ({"threshold": float("inf")}, 1100, 92),
        ({"threshold": -1}, 7, 1),
        ({"linewidth": -1}, 3, 3),
        ({"linewidth": 2**70, "threshold": 2**70, "edgeitems": 2**70}, 1100, 1),
    ],
)
def test_extreme_options(options, elements, lines):
    try:
        torch.set_printoptions(**options)
        assert repr(torch.arange(elements)).count("\n") + 1 == lines
        assert ("..." in repr(torch.arange(elements))) == (options == {"threshold": -1})
    finally:
        torch.set_printoptions(profile="default")


def test_the_default_dtype_is_not_named():
    try:
        torch.set_default_dtype(torch.float64)
        assert repr(torch.ones(1)) == "tensor([1.])"
        assert repr(torch.ones(1, dtype=torch.float32)) == "tensor([1.], dtype=torch.float32)"
    finally:
        torch.set_default_dtype(torch.float32)


def test_a_subclass_shows_its_name():
    class Marked(torch.Tensor):
        pass

    assert repr(torch.ones(2).as_subclass(Marked)) == "Marked([1., 1.])"


def test_format():
    assert f"{torch.tensor(1.5):.3f}" == "1.500"
    assert f"{torch.tensor(7):04d}" == "0007"
    with pytest.raises(TypeError, match="unsupported format string passed to Tensor.__format__"):
        f"{torch.ones(2):.3f}"
    parameter = torch.nn.Parameter(torch.tensor(1.5))
    assert f"{parameter}" == str(parameter)
    with pytest.raises(TypeError, match="unsupported format string passed to Parameter.__format__"):
        f"{parameter:.2f}"


def test_size_dtype_device():
    assert repr(torch.Size([2, 3])) == "torch.Size([2, 3])"
    assert repr(torch.float32) == "torch.float32"
    assert repr(torch.device("cpu")) == "device(type='cpu')"
    assert repr(torch.strided) == "torch.strided"
    assert repr(torch.contiguous_format) == "torch.contiguous_format"
    assert repr(torch.finfo(torch.float32)) == (
        "finfo(resolution=1e-06, min=-3.40282e+38, max=3.40282e+38, eps=1.19209e-07, smallest_normal=1.17549e-38, "
        "tiny=1.17549e-38, dtype=float32)"
    )
    assert repr(torch.iinfo(torch.int8)) == "iinfo(min=-128, max=127, dtype=int8)"


def test_notebooks_show_the_text():
    html = torch.tensor([1.0, 2.0], dtype=torch.float64)._repr_html_()
    assert html == '<pre title="shape (2,), torch.float64, cpu">tensor([1., 2.], dtype=torch.float64)</pre>'
    assert "&lt;MulBackward0&gt;" in (torch.ones(1, requires_grad=True) * 2)._repr_html_()
