"""Kernels of training steps on the card made of software: batch normalisation and the steps of optimizers, each in few launches."""

from soft_card import needs_soft_card, run

pytestmark = needs_soft_card

#: `launches()` counts kernels.
COUNTER = """
import ctypes
card = ctypes.CDLL("libcuda.so.1")
card.softcuda_launches.restype = ctypes.c_uint64
def launches():
    torch.cuda.synchronize()
    return card.softcuda_launches()
"""


def test_batch_normalisation_is_that_of_the_host():
    """With and without parameters, for sequences, images and rows, of one piece and of several, in all dtypes."""
    run(
        COUNTER
        + """
torch.manual_seed(0)
F = torch.nn.functional
TOLERANCE = {torch.float16: 4e-3, torch.bfloat16: 3e-2, torch.float32: 2e-5}
def results(x, parameters, seed):
    operands = [x.requires_grad_(), *(tensor.requires_grad_() for tensor in parameters)]
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    mean, variance = (torch.full((x.shape[1],), start, dtype=wide).to(x.device) for start in (0, 1))
    y = F.batch_norm(x, mean, variance, *parameters, training=True, eps=1e-3)
    return [y, mean, variance, *torch.autograd.grad(y, operands, seed)]
SHAPES = [(4, 3), (300, 40), (2, 5, 7), (2, 3, 4, 5, 6), (2, 2, 50, 90)]
for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
    for shape in SHAPES:
        for count in (0, 1, 2):
            for last in (False, True):
                x, seed = torch.randn(shape), torch.randn(shape)
                if last and len(shape) != 4:
                    continue
                x, seed = (3 + 2 * x).to(dtype), seed.to(dtype)
                if last:
                    x, seed = x.contiguous(memory_format=torch.channels_last), seed.contiguous(memory_format=torch.channels_last)
                wide = torch.float64 if dtype == torch.float64 else torch.float32
                parameters = [torch.randn(shape[1], dtype=wide) for _ in range(count)]
                host = results(x.detach(), parameters, seed)
                there = results(x.detach().cuda(), [tensor.detach().cuda() for tensor in parameters], seed.cuda())
                for one, other in zip(host, there, strict=True):
                    assert one.dtype == other.dtype and one.stride() == other.stride()
                    far = (one - other.cpu()).abs().max().item() / max(1, one.abs().max().item())
                    assert far <= TOLERANCE.get(dtype, 1e-12), (dtype, shape, count, last, far)
before = launches()
F.batch_norm(torch.ones(2, 3, 4, 4, device="cuda"), None, None, training=True)
assert launches() - before == 2, launches() - before
""",
        SOFTCUDA_SEED=3,
    )


def test_a_mean_far_from_zero_loses_no_precision():
    run(
        """
x = torch.randn(8, 2, 60, 60) + 1000
got = torch.nn.functional.batch_norm(x.cuda(), None, None, training=True).cpu()
wanted = torch.nn.functional.batch_norm(x.double(), None, None, training=True)
assert (got - wanted).abs().max() < 1e-3
"""
    )


def test_a_step_of_an_optimizer_is_one_kernel_for_each_parameter():
    """The host's numbers, also for parameters in channels-last order; what lies otherwise is computed by other operators."""
    run(
        COUNTER
        + """
torch.manual_seed(0)
OPTIMIZERS = [
    (torch.optim.SGD, {"lr": 0.1}),
    (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "dampening": 0.2, "weight_decay": 0.01, "maximize": True}),
    (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01, "nesterov": True}),
    (torch.optim.Adam, {"lr": 0.1, "weight_decay": 0.01, "amsgrad": True}),
    (torch.optim.Adam, {"lr": 0.1, "betas": (0.3, 0.9), "maximize": True}),
    (torch.optim.AdamW, {"lr": 0.1, "weight_decay": 0.01}),
]
def last(shape):
    return torch.randn(shape).contiguous(memory_format=torch.channels_last)
PARAMETERS = [torch.randn(5, 7), last((2, 3, 4, 4)), torch.randn(6, 5).T, torch.randn(0, 3), torch.randn(())]
def train(make, settings, dtype, device):
    parameters = [tensor.to(device, dtype, copy=True).requires_grad_() for tensor in PARAMETERS]
    optimizer = make(parameters, **settings)
    counts = []
    for step in range(3):
        for parameter in parameters:
            parameter.grad = (parameter.detach() * (step + 1)).cos()
        before = launches()
        optimizer.step()
        counts.append(launches() - before)
    return parameters, counts
for make, settings in OPTIMIZERS:
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        host, _ = train(make, settings, dtype, "cpu")
        there, counts = train(make, settings, dtype, "cuda")
        # One parameter is empty.
        assert counts[1:] == [4, 4], (make, settings, counts)
        for one, other in zip(host, there, strict=True):
            assert one.stride() == other.stride()
            assert torch.allclose(one, other.cpu(), rtol=2e-2 if dtype.itemsize == 2 else 1e-5, atol=1e-6), (make, settings, dtype)
        versions = [parameter._version for parameter in there]
        assert versions == [parameter._version for parameter in host], versions
x = torch.ones(4, 6, device="cuda", requires_grad=True)
x.grad = torch.ones(6, 4, device="cuda").T
before = launches()
torch.optim.SGD([x], lr=0.5).step()
assert launches() - before > 1 and x.unique().tolist() == [0.5]
""",
        SOFTCUDA_SEED=5,
    )


def test_recurrent_layers_take_few_kernels_for_each_step():
    """The steps of a sequence without cuDNN: the products with the input and those for the gradients of weights are one for all,
    products with the state are not counted.
    """
    run(
        COUNTER
        + """
def counted(kind, packed, steps):
    layer, x = getattr(torch.nn, kind)(16, 24).cuda(), torch.randn(steps, 5, 16, device="cuda", requires_grad=True)
    def run():
        made = torch.nn.utils.rnn.pack_padded_sequence(x, [steps] * 5) if packed else x
        made = layer(made)[0]
        return made.data if packed else made
    run().sum().backward()
    first = launches()
    made = run()
    second = launches()
    made.sum().backward()
    return second - first, launches() - second
torch.backends.cudnn.enabled = False
MOST = {
    ("LSTM", False): (1, 1), ("LSTM", True): (1, 2), ("GRU", False): (1, 2), ("GRU", True): (1, 2),
    ("RNN", False): (1, 1), ("RNN", True): (1, 1),
}
for (kind, packed), most in MOST.items():
    short, long = counted(kind, packed, 5), counted(kind, packed, 11)
    each = [(after - before) / 6 for before, after in zip(short, long)]
    assert all(own <= limit for own, limit in zip(each, most)), (kind, packed, each)
"""
    )
