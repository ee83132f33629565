"""HOR: higher-order derivatives."""

import pytest

import rushlight as torch
import rushlight.nn.functional as F
from rushlight import autograd, nn, optim
from rushlight.autograd import gradgradcheck


def draw(*shape):
    """Distinct numbers away from the kinks of the layers at 0, 1, 3 and 6."""
    count = torch.Size(shape).numel()
    order = torch.randperm(count, generator=torch.Generator().manual_seed(count))
    return ((order.double() * 7 + 3.5) / (7 * count) * 1.8 - 0.9).reshape(shape).requires_grad_()


@pytest.mark.parametrize(
    "function",
    [
        torch.sin,
        lambda x: x**3,
        lambda x: x @ x.mT,
        lambda x: torch.logsumexp(x, 1),
        lambda x: torch.linalg.det(x @ x.mT + torch.eye(3, dtype=x.dtype)),
        lambda x: torch.cumprod(x + 2, 1),
    ],
    ids=["sin", "pow", "matmul", "logsumexp", "det", "cumprod"],
)
def test_hor_1_functions(function):
    """Finite differences confirm the second derivatives of functions."""
    assert gradgradcheck(function, (draw(3, 4),))


# Recorded from torch.
NORM = 3.662634375316061
NORMS = [
    2.3534315862694446, 0.7045107353359519, 0.01298612098666306, 0.03618088530465887, 0.03199221776049635,
    0.061335639692315924, 0.18736192525842132, 0.7054918881203166, 18.910080068392872, 2.2486037464042052,
]  # fmt: skip
PENALTY = 0.8486399386859899
INPUT_GRAD = [
    -0.030868070066265758, -0.009189401456933073, 0.0053738667233636595, 0.005972401892088528,
    -0.018350438248446076, -0.017135555314592606, -0.019596039794422638, -0.02457468739094154,
    -0.020960409760173722, 0.005554563060075985, 0.021752620499560796, 0.020015563042861822,
]  # fmt: skip


class Block(nn.Module):
    """A residual block of two convolutions."""

    def __init__(self, width):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)

    def forward(self, x):
        return torch.relu(self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x))))) + x)


def deterministic(model):
    """Deterministic weights, computed by a formula."""
    with torch.no_grad():
        for number, p in enumerate(model.parameters()):
            p.copy_((torch.arange(p.numel(), dtype=p.dtype) * 0.7 + number).sin().reshape(p.shape) * 0.3 + 0.1)


def test_hor_2_the_norm_of_the_gradient_as_a_penalty():
    """The norm of the gradient of all weights of a residual network is minimised."""
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2), nn.MaxPool2d(2), Block(8), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4)
    ).double()
    deterministic(model)
    x = torch.linspace(-1, 1, 2 * 3 * 12 * 12, dtype=torch.float64).reshape(2, 3, 12, 12).mul(40).sin()
    loss = F.cross_entropy(model(x), torch.tensor([1, 3]))
    grads = autograd.grad(loss, list(model.parameters()), create_graph=True)
    norm = sum(g.square().sum() for g in grads).sqrt()
    norm.backward()
    assert norm.item() == pytest.approx(NORM, rel=1e-4)
    measured = [p.grad.norm().item() for p in model.parameters()]
    assert measured == pytest.approx(NORMS, rel=1e-4, abs=1e-9)


def test_hor_3_gradients_are_tensors_like_others():
    """With `create_graph` a gradient can be used in computations and differentiated. Without it, it has no history."""
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    (grad,) = autograd.grad((x**3).sum(), x, create_graph=True)
    assert grad.requires_grad and grad.tolist() == [3.0, 12.0, 27.0]
    (grad * x).sum().backward()
    assert x.grad.tolist() == [9.0, 36.0, 81.0]
    assert autograd.grad((x**3).sum(), x)[0].requires_grad is False


def test_hor_4_hessian_times_vector():
    """The gradient of a gradient times a vector is the Hessian times the vector, and the Hessian is symmetric."""

    def function(x):
        return (x.prod() + (x**4).sum() + x[0].exp() * x[1]).sin()

    x = torch.tensor([0.5, -0.25, 0.75], dtype=torch.float64, requires_grad=True)
    v = torch.tensor([1.0, 2.0, -3.0], dtype=torch.float64)
    (grad,) = autograd.grad(function(x), x, create_graph=True)
    (by_hand,) = autograd.grad(grad @ v, x)
    _, product = autograd.functional.hvp(function, x, v)
    hessian = autograd.functional.hessian(function, x)
    torch.testing.assert_close(by_hand, product)
    torch.testing.assert_close(by_hand, hessian @ v)
    torch.testing.assert_close(hessian, hessian.mT)


def test_hor_5_gradient_penalty():
    """A gradient penalty is added to the loss: the squared distance of the norm of the input's gradient from one."""
    model = nn.Linear(4, 3).double()
    deterministic(model)
    x = torch.arange(12, dtype=torch.float64).reshape(3, 4).mul(0.1).requires_grad_()
    target = torch.ones(3, 3, dtype=torch.float64)
    loss = F.mse_loss(model(x), target)
    (grad,) = autograd.grad(loss, x, create_graph=True)
    penalty = ((grad.norm(2, dim=1) - 1) ** 2).mean()
    (loss + penalty).backward()
    assert penalty.item() == pytest.approx(PENALTY, rel=1e-9)
    assert x.grad.flatten().tolist() == pytest.approx(INPUT_GRAD, rel=1e-9)


def test_hor_5_two_levels():
    """The generator learns through three unrolled steps of the discriminator, which are part of the graph."""
    torch.manual_seed(0)
    theta = torch.tensor([2.0], requires_grad=True)
    optimizer = optim.SGD([theta], lr=0.2)
    outer = []
    for _ in range(30):
        inner = torch.zeros(1, requires_grad=True)
        unrolled = inner
        for _ in range(3):
            (slope,) = autograd.grad((unrolled - theta).square().sum(), unrolled, create_graph=True)
            unrolled = unrolled - 0.3 * slope
        loss = (unrolled - 1).square().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        outer.append(loss.item())
    assert outer[-1] < 1e-4 < outer[0]
    assert theta.item() == pytest.approx(1 / (1 - 0.4**3), abs=0.01)


TWICE_DIFFERENTIABLE = {
    "AvgPool1d": (nn.AvgPool1d(2), (1, 2, 6)),
    "AvgPool2d": (nn.AvgPool2d(2), (1, 2, 4, 4)),
    "AvgPool3d": (nn.AvgPool3d(2), (1, 1, 2, 4, 2)),
    "BatchNorm1d": (nn.BatchNorm1d(3), (4, 3)),
    "BatchNorm2d": (nn.BatchNorm2d(2), (2, 2, 2, 2)),
    "BatchNorm3d": (nn.BatchNorm3d(2), (2, 2, 1, 2, 2)),
    "Conv1d": (nn.Conv1d(2, 2, 3), (1, 2, 5)),
    "Conv2d": (nn.Conv2d(2, 2, 2), (1, 2, 3, 3)),
    "Conv3d": (nn.Conv3d(1, 2, 2), (1, 1, 2, 3, 2)),
    "MaxPool1d": (nn.MaxPool1d(2), (1, 2, 6)),
    "MaxPool2d": (nn.MaxPool2d(2), (1, 2, 4, 4)),
    "Linear": (nn.Linear(3, 2), (2, 3)),
    "Bilinear": (nn.Bilinear(3, 2, 2), (2, 3), (2, 2)),
    "pad": (lambda x: F.pad(x, (1, 2, -1, 1)), (2, 3)),
    "ConstantPad2d": (nn.ConstantPad2d(1, 3.5), (1, 2, 2)),
    "ZeroPad2d": (nn.ZeroPad2d(-1), (1, 4, 4)),
    "LPPool2d": (lambda x: F.lp_pool2d(x + 2, 3, 2), (1, 1, 4, 4)),
    "PixelShuffle": (nn.PixelShuffle(2), (1, 4, 2, 2)),
    "ReLU6": (nn.ReLU6(), (3, 4)),
    "LeakyReLU": (nn.LeakyReLU(0.1), (3, 4)),
    "PReLU": (nn.PReLU(), (3, 4)),
    "Tanh": (nn.Tanh(), (3, 4)),
    "Tanhshrink": (nn.Tanhshrink(), (3, 4)),
    "Threshold": (nn.Threshold(0.01, 2.0), (3, 4)),
    "Sigmoid": (nn.Sigmoid(), (3, 4)),
    "Hardtanh": (nn.Hardtanh(-0.5, 0.5), (3, 4)),
    "ELU": (nn.ELU(1.3), (3, 4)),
    "Softsign": (nn.Softsign(), (3, 4)),
    "SELU": (nn.SELU(), (3, 4)),
    "L1Loss": (lambda x: nn.L1Loss()(x, torch.full_like(x, 0.011)), (3, 4)),
    "NLLLoss": (lambda x: nn.NLLLoss()(x.square(), torch.tensor([0, 3, 1])), (3, 4)),
    "PoissonNLLLoss": (lambda x: nn.PoissonNLLLoss()(x, torch.full_like(x, 2)), (3, 4)),
    "LogSoftmax": (nn.LogSoftmax(1), (3, 4)),
    "Softmax2d": (nn.Softmax2d(), (1, 3, 2, 2)),
}


def check_twice(function, *shapes):
    """Second derivatives with respect to the inputs and, for a module, its parameters."""
    names, leaves = [], []
    if isinstance(function, nn.Module):
        function.double()
        names = [name for name, _ in function.named_parameters()]
        leaves = [draw(*p.shape) for p in function.parameters()]

    def call(*tensors):
        inputs, weights = tensors[: len(shapes)], tensors[len(shapes) :]
        if not names:
            return function(*inputs)
        return torch.func.functional_call(function, dict(zip(names, weights)), inputs)

    assert gradgradcheck(call, (*(draw(*shape) for shape in shapes), *leaves))


@pytest.mark.parametrize("name", TWICE_DIFFERENTIABLE)
def test_hor_6_layers(name):
    """The layers of the first list of second derivatives."""
    function, *shapes = TWICE_DIFFERENTIABLE[name]
    check_twice(function, *shapes)


def sequence(kind, **options):
    """A recurrent layer as a function of its input only."""
    torch.manual_seed(0)
    layer = kind(2, 2, **options).double()
    return lambda x: layer(x)[0]


@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (sequence(nn.RNN), (3, 1, 2)),
        (sequence(nn.LSTM, bidirectional=True), (3, 1, 2)),
        (sequence(nn.GRU, num_layers=2), (3, 1, 2)),
        (lambda w: F.embedding_bag(torch.tensor([0, 2, 1, 2]), w, torch.tensor([0, 3]), mode="sum").square(), (3, 2)),
        (lambda w: F.embedding(torch.tensor([0, 2, 2]), w).square(), (3, 2)),
        (nn.GroupNorm(2, 4).double(), (2, 4, 3)),
        (nn.LayerNorm(3).double(), (2, 3)),
        (nn.ConvTranspose2d(2, 1, 2).double(), (1, 2, 2, 2)),
        (lambda x: F.cross_entropy(x, torch.tensor([0, 3, 1])), (3, 4)),
        (lambda x: F.binary_cross_entropy_with_logits(x, torch.full_like(x, 0.3)), (3, 4)),
        (lambda x: F.smooth_l1_loss(x, torch.zeros_like(x), beta=0.5), (3, 4)),
        (lambda x: F.kl_div(x.log_softmax(1), torch.full_like(x, 0.25), reduction="batchmean"), (3, 4)),
        (lambda x: F.scaled_dot_product_attention(x, x * 2, x + 1), (1, 3, 2)),
        (lambda x: F.interpolate(x.square(), scale_factor=2, mode="bilinear"), (1, 1, 2, 2)),
    ],
    ids=[
        "RNN", "LSTM", "GRU", "EmbeddingBag", "Embedding", "GroupNorm", "LayerNorm", "ConvTranspose2d",
        "cross_entropy", "bce_with_logits", "smooth_l1", "kl_div", "attention", "interpolate",
    ],
)  # fmt: skip
def test_hor_7_the_rest(function, shape):
    """The layers of the second list: recurrence, embedding bags, normalisation, losses, attention."""
    assert gradgradcheck(function, (draw(*shape),))
