"""FUN: functional forms of layers."""

import math
import warnings

import pytest

import rushlight as torch
import rushlight.nn.functional as F
from rushlight import nn

CATEGORIES = {
    "convolution": "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d unfold fold",
    "pooling": "avg_pool1d avg_pool2d avg_pool3d max_pool1d max_pool2d max_pool3d max_unpool1d max_unpool2d max_unpool3d "
    "lp_pool1d lp_pool2d lp_pool3d adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d adaptive_avg_pool1d "
    "adaptive_avg_pool2d adaptive_avg_pool3d fractional_max_pool2d fractional_max_pool3d",
    "activation": "threshold threshold_ relu relu_ hardtanh hardtanh_ hardswish relu6 elu elu_ selu celu leaky_relu "
    "leaky_relu_ prelu rrelu rrelu_ glu gelu logsigmoid hardshrink tanhshrink softsign softplus softmin softmax "
    "softshrink gumbel_softmax log_softmax tanh sigmoid hardsigmoid silu mish scaled_dot_product_attention",
    "normalisation": "batch_norm group_norm instance_norm layer_norm local_response_norm rms_norm normalize",
    "linear": "linear bilinear",
    "dropout": "dropout alpha_dropout feature_alpha_dropout dropout1d dropout2d dropout3d",
    "sparse": "embedding embedding_bag one_hot",
    "distance": "pairwise_distance cosine_similarity pdist",
    "loss": "binary_cross_entropy binary_cross_entropy_with_logits poisson_nll_loss cosine_embedding_loss cross_entropy "
    "ctc_loss gaussian_nll_loss hinge_embedding_loss kl_div l1_loss mse_loss margin_ranking_loss multilabel_margin_loss "
    "multilabel_soft_margin_loss multi_margin_loss nll_loss huber_loss smooth_l1_loss soft_margin_loss "
    "triplet_margin_loss triplet_margin_with_distance_loss",
    "vision": "pixel_shuffle pixel_unshuffle pad interpolate upsample upsample_nearest upsample_bilinear grid_sample "
    "affine_grid channel_shuffle",
}


@pytest.mark.parametrize("category", CATEGORIES)
def test_fun_1_categories(category):
    """Every function of the category exists, is callable and is documented."""
    for name in CATEGORIES[category].split():
        function = getattr(F, name)
        assert callable(function) and function.__doc__, name


def test_fun_1_data_parallel():
    """The eleventh category: a module whose inputs are split over devices, of which there are none."""
    net, x = nn.Linear(2, 3), torch.randn(4, 2)
    assert torch.equal(nn.parallel.data_parallel(net, x, []), net(x))


def test_fun_2_the_usual_ones():
    """Known values of common functions."""
    x = torch.tensor([[-1.0, 0.0, 2.0]])
    assert F.relu(x).tolist() == [[0.0, 0.0, 2.0]]
    weights = [math.exp(v) for v in (-1, 0, 2)]
    assert F.softmax(x, dim=1)[0].tolist() == pytest.approx([w / sum(weights) for w in weights])
    assert F.log_softmax(x, dim=1)[0].tolist() == pytest.approx([math.log(w / sum(weights)) for w in weights])
    assert F.mse_loss(x, torch.zeros(1, 3)).item() == pytest.approx(5 / 3)
    assert F.nll_loss(x, torch.tensor([2])).item() == -2
    assert F.max_pool2d(torch.arange(16.0).reshape(1, 4, 4), 2).tolist() == [[[5.0, 7.0], [13.0, 15.0]]]
    torch.manual_seed(0)
    dropped = F.dropout(torch.ones(1000), 0.25)
    assert dropped.unique().tolist() == [0.0, pytest.approx(4 / 3)] and 200 < (dropped == 0).sum() < 300
    assert torch.equal(F.dropout(x, 0.25, training=False), x)


def test_fun_3_normalize():
    """Each row is divided by its norm, for any norm and dimension. A row of zeros stays zero."""
    x = torch.tensor([[3.0, 4.0], [0.0, 0.0]])
    assert F.normalize(x)[0].tolist() == pytest.approx([0.6, 0.8])
    assert F.normalize(x)[1].tolist() == [0.0, 0.0]
    assert F.normalize(x, p=1)[0].tolist() == pytest.approx([3 / 7, 4 / 7])
    assert F.normalize(x, dim=0)[0].tolist() == [1.0, 1.0]
    assert F.normalize(x, eps=10.0)[0].tolist() == pytest.approx([0.3, 0.4])


def test_fun_4_cosine_similarity():
    """The cosine along one dimension, with broadcasting of the others."""
    x, y = torch.tensor([[1.0, 0.0], [0.0, 2.0]]), torch.tensor([[1.0, 1.0]])
    assert F.cosine_similarity(x, y).tolist() == pytest.approx([math.sqrt(0.5)] * 2)
    assert F.cosine_similarity(x, torch.tensor([[1.0, 2.0], [0.0, 0.0]]), dim=0).tolist() == pytest.approx([1.0, 0.0])


def test_fun_5_upsample():
    """The deprecated name works with a warning that contains the new one."""
    x = torch.arange(4.0).reshape(1, 1, 2, 2)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        y = F.upsample(x, scale_factor=2, mode="bilinear")
    assert [str(w.message) for w in caught if "upsample" in str(w.message)] == [
        "`nn.functional.upsample` is deprecated. Use `nn.functional.interpolate` instead."
    ]
    assert torch.equal(y, F.interpolate(x, scale_factor=2, mode="bilinear"))


def test_fun_6_pad():
    """Every padding mode, and negative widths, which crop."""
    row = torch.tensor([[[1.0, 2.0, 3.0]]])
    for mode, expected in {
        "constant": [0, 0, 1, 2, 3, 0],
        "reflect": [3, 2, 1, 2, 3, 2],
        "replicate": [1, 1, 1, 2, 3, 3],
        "circular": [2, 3, 1, 2, 3, 1],
    }.items():
        assert F.pad(row, (2, 1), mode).flatten().tolist() == expected
    assert F.pad(row, (1, -2), value=9).flatten().tolist() == [9, 1]
    with pytest.raises(RuntimeError, match="Padding size should be less than the corresponding input dimension"):
        F.pad(row, (3, 0), "reflect")


def test_fun_7_clipping():
    """Gradients are scaled to a total norm. The original norm is returned."""
    a, b = torch.zeros(2, requires_grad=True), torch.zeros(1, requires_grad=True)
    a.grad, b.grad = torch.tensor([3.0, 0.0]), torch.tensor([4.0])
    assert nn.utils.clip_grad_norm_([a, b], 1.0).item() == 5
    assert a.grad.tolist() == pytest.approx([0.6, 0.0], abs=1e-6) and b.grad.tolist() == pytest.approx([0.8], abs=1e-6)
    assert nn.utils.clip_grad_norm_([a, b], 10.0).item() == pytest.approx(1)
    assert a.grad.tolist() == pytest.approx([0.6, 0.0], abs=1e-6)


def test_fun_7_packing():
    """Sequences of different lengths are padded, packed by time step, and unpacked."""
    rnn = nn.utils.rnn
    sequences = [torch.tensor([1.0, 2.0, 3.0]), torch.tensor([4.0])]
    padded = rnn.pad_sequence(sequences)
    assert padded.tolist() == [[1.0, 4.0], [2.0, 0.0], [3.0, 0.0]]
    packed = rnn.pack_padded_sequence(padded, [3, 1])
    assert packed.data.tolist() == [1.0, 4.0, 2.0, 3.0] and packed.batch_sizes.tolist() == [2, 1, 1]
    back, lengths = rnn.pad_packed_sequence(packed)
    assert torch.equal(back, padded) and lengths.tolist() == [3, 1]


def test_fun_7_weight_norm():
    """The deprecated function gives a warning and the new one does not. Both leave the weight unchanged."""
    for wrap, names in (
        (nn.utils.weight_norm, ["bias", "weight_g", "weight_v"]),
        (nn.utils.parametrizations.weight_norm, None),
    ):
        layer = nn.Linear(3, 2)
        weight = layer.weight.detach().clone()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            wrap(layer)
        assert [w.category for w in caught] == ([FutureWarning] if names else [])
        assert names is None or [name for name, _ in layer.named_parameters()] == names
        torch.testing.assert_close(layer.weight, weight)
