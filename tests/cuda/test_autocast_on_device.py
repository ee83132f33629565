"""Mixed precision on the card made of software: torch's lists for CUDA devices, of dtypes that operators have under
``torch.autocast("cuda")``."""

from soft_card import needs_soft_card, run

pytestmark = needs_soft_card

HEAD = """
import rushlight.nn as nn
from rushlight.nn import functional as F
half, single = torch.float16, torch.float32
def t(*sizes, dtype=half):
    return (torch.rand(sizes) * 0.5 + 0.25).to("cuda", dtype)
def f(*sizes):
    return t(*sizes, dtype=single)
def integers(*values):
    return torch.tensor(values, device="cuda")
def check(wanted, calls):
    for call in calls:
        with torch.autocast("cuda"):
            found = call()
        found = found[0] if isinstance(found, tuple) else found
        assert found.dtype == wanted, (call.__code__.co_names, found.dtype)
"""


def test_products_run_in_half_precision():
    run(
        HEAD
        + """
check(half, [
    lambda: torch.addbmm(f(2, 2), f(3, 2, 2), f(3, 2, 2)),
    lambda: torch.addmm(f(2, 2), f(2, 2), f(2, 2)),
    lambda: torch.addmv(f(2), f(2, 2), f(2)),
    lambda: torch.addr(f(2, 2), f(2), f(2)),
    lambda: torch.baddbmm(f(3, 2, 2), f(3, 2, 2), f(3, 2, 2)),
    lambda: torch.bmm(f(3, 2, 2), f(3, 2, 2)),
    lambda: torch.chain_matmul(f(2, 2), f(2, 2), f(2, 2)),
    lambda: torch.linalg.multi_dot([f(2, 2), f(2, 2), f(2, 2)]),
    lambda: torch.linalg.vecdot(f(2, 2), f(2, 2)),
    lambda: torch.matmul(f(2, 2), f(2, 2)),
    lambda: f(2, 2) @ f(2, 2),
    lambda: torch.mm(f(2, 2), f(2, 2)),
    lambda: torch.mv(f(2, 2), f(2)),
    lambda: torch.einsum("ij,jk", f(2, 2), f(2, 2)),
    lambda: F.linear(f(2, 3), f(2, 3)),
    lambda: F.prelu(f(2, 2), f(1)),
    lambda: F.conv1d(f(1, 2, 5), f(2, 2, 3)),
    lambda: F.conv2d(f(1, 2, 5, 5), f(2, 2, 3, 3)),
    lambda: F.conv3d(f(1, 2, 3, 3, 3), f(2, 2, 3, 3, 3)),
    lambda: F.conv_transpose1d(f(1, 2, 5), f(2, 2, 3)),
    lambda: F.conv_transpose2d(f(1, 2, 3, 3), f(2, 2, 3, 3)),
    lambda: F.conv_transpose3d(f(1, 2, 3, 3, 3), f(2, 2, 3, 3, 3)),
    lambda: torch.conv_tbc(f(5, 1, 2), f(3, 2, 2), f(2)),
    lambda: F.scaled_dot_product_attention(f(1, 2, 4, 8), f(1, 2, 4, 8), f(1, 2, 4, 8)),
    lambda: torch.gru_cell(f(2, 3), f(2, 2), f(6, 3), f(6, 2)),
    lambda: torch.lstm_cell(f(2, 3), (f(2, 2), f(2, 2)), f(8, 3), f(8, 2)),
    lambda: torch.rnn_tanh_cell(f(2, 3), f(2, 2), f(2, 3), f(2, 2)),
    lambda: torch.rnn_relu_cell(f(2, 3), f(2, 2), f(2, 3), f(2, 2)),
])
for kind in (nn.LSTM, nn.GRU, nn.RNN):
    network = kind(3, 2).cuda()
    # The input may have the dtype that an operator before it gave.
    check(half, [lambda: network(f(2, 2, 3)), lambda: network(t(2, 2, 3))])
    packed = nn.utils.rnn.pack_padded_sequence(f(3, 2, 3), [3, 2])
    check(half, [lambda: network(packed)[0].data])
"""
    )


def test_operators_that_need_the_range_run_in_single_precision():
    run(
        HEAD
        + """
check(single, [
    lambda: t(2) ** 1.5, lambda: 1 / t(2), lambda: 2.0 ** t(2), lambda: torch.pow(t(2), t(2)),
    lambda: torch.acos(t(2)), lambda: torch.asin(t(2)), lambda: torch.cosh(t(2)), lambda: torch.sinh(t(2)), lambda: torch.tan(t(2)),
    lambda: torch.erfinv(t(2)), lambda: torch.exp(t(2)), lambda: torch.expm1(t(2)),
    lambda: torch.log(t(2)), lambda: torch.log10(t(2)), lambda: torch.log1p(t(2)), lambda: torch.log2(t(2)),
    lambda: torch.reciprocal(t(2)), lambda: torch.rsqrt(t(2)), lambda: F.softplus(t(2)),
    lambda: torch.cumprod(t(2, 3), 0), lambda: torch.cumsum(t(2, 3), 0), lambda: torch.prod(t(2, 3)), lambda: torch.prod(t(2, 3), 1),
    lambda: torch.sum(t(2, 3)), lambda: torch.sum(t(2, 3), 1), lambda: torch.logsumexp(t(2, 3), 1),
    lambda: F.softmax(t(2, 3), 1), lambda: F.log_softmax(t(2, 3), 1), lambda: F.softmin(t(2, 3), 1),
    lambda: torch.norm(t(2, 3)), lambda: torch.norm(t(2, 3), 3, 1), lambda: torch.norm(t(2, 3), "nuc"),
    lambda: torch.linalg.vector_norm(t(2, 3)), lambda: torch.linalg.matrix_norm(t(2, 3)), lambda: torch.linalg.matrix_norm(t(2, 3), 2),
    lambda: F.normalize(t(2, 3)), lambda: torch.renorm(t(2, 3), 2, 0, 1.0),
    lambda: torch.dist(t(2, 3), t(2, 3)), lambda: torch.cdist(t(2, 3), t(2, 3)), lambda: F.pdist(t(2, 3)),
    lambda: F.cosine_similarity(t(2, 3), t(2, 3)),
    lambda: F.layer_norm(t(2, 3), (3,)), lambda: F.rms_norm(t(2, 3), (3,)), lambda: F.group_norm(t(2, 4), 2),
    lambda: F.binary_cross_entropy_with_logits(t(2), t(2)),
    lambda: F.cosine_embedding_loss(t(2, 3), t(2, 3), f(2)),
    lambda: F.cross_entropy(t(2, 3), integers(0, 1)), lambda: F.nll_loss(t(2, 3), integers(0, 1)),
    lambda: F.hinge_embedding_loss(t(2), f(2)), lambda: F.huber_loss(t(2), t(2)), lambda: F.kl_div(t(2), t(2)),
    lambda: F.l1_loss(t(2), t(2)), lambda: F.smooth_l1_loss(t(2), t(2)), lambda: F.mse_loss(t(2), t(2)),
    lambda: F.margin_ranking_loss(t(2), t(2), f(2)), lambda: F.soft_margin_loss(t(2), t(2)),
    lambda: F.multi_margin_loss(t(2, 3), integers(0, 1)), lambda: F.multilabel_margin_loss(t(3), integers(0, -1, 0)),
    lambda: F.poisson_nll_loss(t(2), t(2)), lambda: F.triplet_margin_loss(t(2, 3), t(2, 3), t(2, 3)),
    lambda: F.interpolate(t(1, 1, 2), scale_factor=2), lambda: F.interpolate(t(1, 1, 2), scale_factor=2, mode="linear"),
    lambda: F.interpolate(t(1, 1, 2, 2), scale_factor=2, mode="bicubic"),
    lambda: F.interpolate(t(1, 1, 4, 4), size=(2, 2), mode="bilinear", antialias=True),
])
# A dtype that is asked for is given, and another function than those has the dtype of its operands.
check(half, [lambda: torch.sum(f(2, 3), 1, dtype=half), lambda: torch.softmax(f(2, 3), 1, dtype=half)])
check(half, [
    lambda: torch.atan(t(2)), lambda: torch.tanh(t(2)), lambda: torch.sqrt(t(2)), lambda: torch.mean(t(2, 3)), lambda: t(2) + t(2),
    lambda: F.avg_pool3d(t(1, 1, 2, 2, 2), 2), lambda: t(2).exp_(), lambda: F.batch_norm(t(2, 3), None, None, training=True),
])
with torch.autocast("cuda"):
    try:
        F.binary_cross_entropy(t(2), t(2))
    except RuntimeError as error:
        assert "unsafe to autocast" in str(error)
    else:
        raise AssertionError
"""
    )


def test_operators_of_several_tensors_take_the_widest():
    run(
        HEAD
        + """
for first, other, wanted in ((f, t, single), (t, t, half)):
    check(wanted, [
        lambda: torch.addcdiv(first(2), other(2), other(2)),
        lambda: torch.addcmul(first(2), other(2), other(2)),
        lambda: torch.atan2(first(2), other(2)),
        lambda: F.bilinear(first(2, 3), other(2, 3), other(2, 3, 3)),
        lambda: torch.cross(first(2, 3), other(2, 3), dim=1),
        lambda: torch.dot(first(2), other(2)),
        lambda: torch.vdot(first(2), other(2)),
        lambda: F.grid_sample(first(1, 1, 2, 2), other(1, 2, 2, 2)),
        lambda: first(2).index_put((integers(0),), other(1)),
        lambda: first(2).scatter_add(0, integers(0), other(1)),
        lambda: torch.tensordot(first(2, 2), other(2, 2), 1),
        lambda: torch.cat([first(2), other(2)]),
        lambda: torch.stack([first(2), other(2)]),
    ])
"""
    )
