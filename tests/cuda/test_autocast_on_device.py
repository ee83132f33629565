"""Mixed precision on a device: torch's lists for CUDA devices, of dtypes that operators have under ``torch.autocast("cuda")``, and
``torch.amp.GradScaler``."""

from card import needs_card, run
from soft_card import RAISES

pytestmark = needs_card

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


def test_mixed_precision():
    run(
        """
        import warnings
        warnings.simplefilter("error")
        a = torch.ones(4, 4, device="cuda")
        with torch.autocast("cuda"):
            assert torch.is_autocast_enabled() and not torch.is_autocast_enabled("cpu")
            y = a @ a
            assert y.dtype == torch.float16 and y.exp().dtype == torch.float32 and (y + y).dtype == torch.float16
            assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.float32
            assert y.sum().dtype == torch.float32 and torch.cat([y, a]).dtype == torch.float32
            with torch.autocast("cuda", enabled=False):
                assert (a @ a).dtype == torch.float32
        with torch.autocast("cuda", dtype=torch.bfloat16):
            assert (a @ a).dtype == torch.bfloat16
        with torch.autocast("cpu"):
            assert (a @ a).dtype == torch.float32
        model = torch.nn.Linear(4, 1).cuda()
        optimizer, scaler = torch.optim.SGD(model.parameters(), lr=0.01), torch.amp.GradScaler("cuda", init_scale=1024.0)
        assert scaler.is_enabled()
        losses = []
        for step in range(4):
            optimizer.zero_grad()
            with torch.autocast("cuda"):
                loss = (model(a) - 1).square().mean()
            scaler.scale(loss).backward()
            if step == 2:
                model.weight.grad[0, 0] = float("inf")
            before = model.weight.detach().clone()
            scaler.step(optimizer)
            assert torch.equal(before, model.weight) == (step == 2)
            scaler.update()
            losses.append(loss.item())
        assert losses[-1] < losses[0] and scaler.get_scale() == 512.0
        """
    )


def test_mixed_precision_of_each_kind_of_operator():
    """GPUs have other lists than the CPU: what is cast to float32 there or here alone, and what is refused."""
    run(
        RAISES
        + """
F = torch.nn.functional
x, half = torch.full((4, 4), 0.5, device="cuda"), torch.full((4, 4), 0.5, device="cuda", dtype=torch.float16)
lower = [
    lambda x: x @ x, lambda x: F.linear(x, x), lambda x: torch.addr(x, x[0], x[0]), lambda x: F.prelu(x, x[0, :1]),
    lambda x: F.conv1d(x[None], x[None]),
]
wide = [
    torch.exp, torch.log, torch.acos, torch.tan, torch.rsqrt, torch.sum, lambda x: x.sum(0), torch.prod, lambda x: x.cumsum(0), lambda x: x.pow(2),
    torch.norm, lambda x: F.softmax(x, 0), lambda x: F.layer_norm(x, (4,)), lambda x: F.mse_loss(x, x), lambda x: F.softplus(x),
    lambda x: F.cosine_similarity(x, x), lambda x: F.soft_margin_loss(x, x), lambda x: F.binary_cross_entropy_with_logits(x, x),
]
widest = [lambda x, y: torch.atan2(x, y), lambda x, y: torch.addcmul(x, x, y), lambda x, y: torch.dot(x[0], y[0]), lambda x, y: torch.cat([x, y])]
unchanged = [torch.cos, torch.relu, torch.mean, torch.sigmoid, lambda x: x + x]
with torch.autocast("cuda"):
    for call in lower:
        assert call(x).dtype == call(half).dtype == torch.float16
    for n, call in enumerate(wide):
        assert call(x).dtype == call(half).dtype == torch.float32, n
    for call in widest:
        assert call(half, half).dtype == torch.float16 and call(half, x).dtype == call(x, half).dtype == torch.float32
    for call in unchanged:
        assert call(half).dtype == torch.float16 and call(x).dtype == torch.float32
    sentence = "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast."
    error = raises(RuntimeError, sentence, lambda: F.binary_cross_entropy(x, x))
    assert "BCEWithLogitsLoss" in str(error)
assert F.binary_cross_entropy(x, x).dtype == torch.float32
"""
    )
