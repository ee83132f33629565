"""Recurrent networks by cuDNN, on the stand-in of the card made of software, which checks every call, and without it."""

import pytest
from soft_card import needs_soft_card, run

pytestmark = needs_soft_card

#: `networks()` counts the passes of the stand-in for cuDNN, of which a backward one is two; `launches()` and `products()` the rest.
COUNTERS = """
import copy, ctypes
cudnn = torch.backends.cudnn
cudnn.allow_tf32 = False
card = ctypes.CDLL("libcuda.so.1")
def counter(name):
    function = getattr(card, "softcuda_" + name)
    function.restype = ctypes.c_uint64
    def read():
        torch.cuda.synchronize()
        return function()
    return read
networks, launches, products = counter("networks"), counter("launches"), counter("products")
rnn = torch.nn.utils.rnn
KINDS = ("LSTM", "GRU", "RNN")
"""

SAME = """
TOLERANCE = {torch.float16: 2e-2, torch.bfloat16: 1e-1, torch.float32: 1e-4}
def results(layer, x, state, lengths):
    own = x
    if lengths:
        x = rnn.pack_padded_sequence(x, lengths, batch_first=layer.batch_first, enforce_sorted=False)
    output, last = layer(x, state)
    output = output.data if lengths else output
    last = last if isinstance(last, tuple) else (last,)
    loss = sum((part * torch.arange(part.numel()).reshape(part.shape).to(part).cos()).sum() for part in (output, *last))
    operands = [own, *(state if isinstance(state, tuple) else [state]), *layer.parameters()]
    return [output, *last, *torch.autograd.grad(loss, operands)]
def same(layer, lengths=None, calls=3):
    # The results and gradients of the host, in as many passes of cuDNN.
    torch.manual_seed(1)
    dtype = layer.weight_ih_l0.dtype
    rows = layer.num_layers * layer._directions
    x = torch.randn(3, 4, 5) if layer.batch_first else torch.randn(4, 3, 5)
    state = torch.randn(rows, 3, layer.proj_size or 6)
    if layer.mode == "LSTM":
        state = (state, torch.randn(rows, 3, 6))
    def moved(tensor, device):
        return tensor.detach().to(device, dtype).requires_grad_()
    def on(device):
        own = tuple(moved(part, device) for part in state) if isinstance(state, tuple) else moved(state, device)
        return results(copy.deepcopy(layer).to(device), moved(x, device), own, lengths)
    host = on("cpu")
    before = networks()
    for one, other in zip(host, on("cuda"), strict=True):
        assert one.dtype == other.dtype and one.shape == other.shape
        far = (other.detach().cpu() - one.detach()).abs().max().item() / max(1, one.detach().abs().max().item())
        assert far <= TOLERANCE.get(dtype, 1e-10), (layer, lengths, far)
    assert networks() - before == calls, (layer, lengths, networks() - before)
"""

FORMS = """
FORMS = [
    {}, {"bias": False}, {"num_layers": 2}, {"bidirectional": True}, {"num_layers": 2, "bidirectional": True},
    {"batch_first": True},
]
def layers(dtype=None):
    for kind in KINDS:
        for settings in FORMS:
            yield getattr(torch.nn, kind)(5, 6, dtype=dtype, **settings)
    yield torch.nn.RNN(5, 6, nonlinearity="relu", dtype=dtype)
    for settings in ({}, {"num_layers": 2, "bidirectional": True}):
        yield torch.nn.LSTM(5, 6, proj_size=2, dtype=dtype, **settings)
"""


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_every_network_is_that_of_the_host(dtype):
    """Of one length and packed, with all settings: each a pass forward and two backward."""
    run(
        COUNTERS
        + SAME
        + FORMS
        + f"""
torch.manual_seed(0)
for layer in layers(torch.{dtype}):
    same(layer)
    same(layer, [4, 2, 3])
""",
        SOFTCUDA_SEED=5,
    )


def test_dropout_is_between_calls_of_one_layer():
    run(
        COUNTERS
        + """
layer = torch.nn.LSTM(5, 6, num_layers=3, dropout=0.5).cuda()
x = torch.randn(4, 3, 5, device="cuda")
before = networks()
torch.manual_seed(3)
first = layer(x)[0]
torch.manual_seed(3)
assert torch.equal(layer(x)[0], first) and not torch.equal(layer(x)[0], first)
assert networks() - before == 9
first.sum().backward()
assert networks() - before == 15 and all(weight.grad.count_nonzero() > 0 for weight in layer.parameters())
# Without dropout there are as many calls, of the same weights, which are not copied.
layer.eval()
before = networks()
assert torch.equal(layer(x)[0], layer(x)[0]) and networks() - before == 6
def work():
    before = launches()
    with torch.no_grad():
        layer(x)
    return launches() - before
flat = work()
for weight in layer.parameters():
    weight.data = weight.data.clone()
assert work() >= flat + 12
"""
    )


@pytest.mark.parametrize("refused", ["networks", "calls"])
def test_what_it_refuses_is_computed_without_it(refused):
    run(
        COUNTERS
        + SAME
        + """
for kind in KINDS:
    for lengths in (None, [4, 2, 3]):
        same(getattr(torch.nn, kind)(5, 6, bidirectional=True), lengths, calls=0)
""",
        SOFTCUDA_DNN_REFUSES=refused,
    )


def test_settings_choose():
    """Without cuDNN, and where equal bits are asked for, the steps run. TF32 rounds what is multiplied."""
    run(
        COUNTERS
        + SAME
        + """
layer = torch.nn.GRU(5, 6)
with cudnn.flags(enabled=False):
    same(layer, calls=0)
with cudnn.flags(enabled=True, allow_tf32=False, deterministic=True):
    same(layer, calls=0)
torch.use_deterministic_algorithms(True)
same(layer, calls=0)
torch.use_deterministic_algorithms(False)
same(layer)
layer = torch.nn.RNN(1, 1, nonlinearity="relu", bias=False).cuda()
torch.nn.init.ones_(layer.weight_ih_l0)
x = torch.full((1, 1, 1), 1 + 2.0**-12, device="cuda")
with torch.no_grad():
    assert layer(x)[0].item() == 1 + 2.0**-12
    cudnn.allow_tf32 = True
    assert layer(x)[0].item() == 1.0
"""
    )


def test_gradients_of_gradients_and_kept_graphs():
    """The first are those of steps. A pass backward leaves what another one needs, if the graph is kept."""
    run(
        COUNTERS
        + """
for kind in KINDS:
    found = []
    for device in ("cpu", "cuda"):
        torch.manual_seed(0)
        layer = getattr(torch.nn, kind)(3, 4, dtype=torch.float64).to(device)
        x = torch.randn(3, 2, 3, dtype=torch.float64).to(device).requires_grad_()
        output, _ = layer(x)
        loss = (output**2).sum()
        (grad,) = torch.autograd.grad(loss, x, create_graph=True)
        second = torch.autograd.grad((grad**2).sum(), [x, *layer.parameters()], retain_graph=True)
        first, again, last = [torch.autograd.grad(loss, x, retain_graph=keeps)[0] for keeps in (True, True, False)]
        assert torch.equal(first, again) and torch.equal(first, last) and torch.allclose(first, grad)
        found.append([first, grad.detach(), *second])
    assert all(torch.allclose(one, other.cpu()) for one, other in zip(*found, strict=True))
"""
    )


def test_transforms():
    run(
        COUNTERS
        + """
layer = torch.nn.GRU(3, 4)
x, v = torch.randn(5, 2, 3), torch.randn(5, 2, 3)
samples = torch.randn(3, 5, 2, 3)
def found(device):
    own = copy.deepcopy(layer).to(device)
    call = lambda x: own(x)[0]
    yield torch.func.jvp(call, (x.to(device),), (v.to(device),))[1]
    yield torch.func.vmap(call)(samples.to(device))
    yield torch.func.jacrev(lambda x: call(x).sum(0))(x.to(device))
for one, other in zip(found("cpu"), found("cuda"), strict=True):
    assert torch.allclose(one, other.cpu(), atol=1e-4)
"""
    )


def test_weights_lie_in_one_buffer():
    """After moves, copies and conversions; their values, and what else holds them, stay right. Nothing is copied in a call."""
    run(
        COUNTERS
        + SAME
        + """
def is_flat(layer):
    return len({weight.untyped_storage().data_ptr() for weight in layer.parameters()}) == 1
torch.manual_seed(0)
host = torch.nn.LSTM(5, 6, num_layers=2, bidirectional=True)
layer = copy.deepcopy(host).cuda()
assert is_flat(layer) and not is_flat(host)
for other in (layer, copy.deepcopy(layer), layer.half().float(), torch.nn.LSTM(5, 6, device="cuda")):
    assert is_flat(other)
layer = copy.deepcopy(host).cuda()
twin = copy.deepcopy(layer)
with torch.no_grad():
    layer.weight_hh_l1.add_(1)
assert torch.equal(twin.weight_hh_l1.cpu(), host.weight_hh_l1) and not torch.equal(layer.weight_hh_l1, twin.weight_hh_l1)
layer.load_state_dict(host.state_dict())
assert is_flat(layer) and all(torch.equal(one.cpu(), other) for one, other in zip(layer.parameters(), host.parameters()))
state = {name: value.cpu() for name, value in layer.state_dict().items()}
assert all(torch.equal(state[name], value) for name, value in host.state_dict().items())
x = torch.randn(4, 3, 5, device="cuda")
with torch.no_grad():
    expected = layer(x)[0]
    before = launches()
    layer(x)
    flat = launches() - before
    # Weights elsewhere are copied by the call.
    for weight in layer.parameters():
        weight.data = weight.data.clone()
    before = launches()
    assert torch.equal(layer(x)[0], expected)
    assert launches() - before >= flat + 16 and not is_flat(layer)
layer.flatten_parameters()
assert is_flat(layer) and torch.equal(layer(x)[0], expected)
# A weight that two layers share stays one.
tied = torch.nn.GRU(6, 6, num_layers=2).cuda()
tied.weight_hh_l1 = tied.weight_hh_l0
tied.flatten_parameters()
assert tied.weight_hh_l1 is tied.weight_hh_l0
tied(torch.randn(4, 3, 6, device="cuda"))[0].sum().backward()
"""
    )


def test_a_graph_repeats_passes():
    run(
        COUNTERS
        + """
for kind in KINDS:
    layer = getattr(torch.nn, kind)(5, 6).cuda()
    x = torch.randn(4, 3, 5, device="cuda", requires_grad=True)
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    with torch.cuda.graph(graph, stream=stream):
        output, _ = layer(x)
        (grad,) = torch.autograd.grad(output.sum(), x)
    for _ in range(2):
        with torch.no_grad():
            x.copy_(torch.randn(4, 3, 5))
        before = networks()
        graph.replay()
        assert networks() == before + 3
        own = x.detach().cpu().requires_grad_()
        expected = copy.deepcopy(layer).cpu()(own)[0]
        assert torch.allclose(output.detach().cpu(), expected.detach(), atol=1e-5)
        assert torch.allclose(grad.cpu(), torch.autograd.grad(expected.sum(), own)[0], atol=1e-5)
""",
        SOFTCUDA_SEED=3,
    )


def test_work_of_a_step():
    """By cuDNN it does not grow with the length. Without it, weights have one product for all steps."""
    run(
        COUNTERS
        + """
def step(kind, steps, packed):
    torch.manual_seed(0)
    layer = getattr(torch.nn, kind)(5, 6).cuda()
    x = torch.randn(steps, 3, 5, device="cuda")
    if packed:
        x = rnn.pack_padded_sequence(x, [steps, steps - 2, steps // 2])
    before = launches(), products(), networks()
    layer(x)[0][0 if packed else slice(None)].sum().backward()
    return [after - one for one, after in zip(before, (launches(), products(), networks()))]
for packed in (False, True):
    for kind in KINDS:
        short, long = step(kind, 8, packed), step(kind, 16, packed)
        assert short == long and short[1:] == [0, 3], (kind, packed, short, long)
        with cudnn.flags(enabled=False):
            short, long = step(kind, 8, packed), step(kind, 16, packed)
            # Each step multiplies once forward and once backward.
            assert long[1] - short[1] == 16 and long[2] == 0, (kind, packed, short, long)
"""
    )


def test_a_reserve_of_another_size_is_not_used():
    """The steps run instead."""
    run(
        COUNTERS
        + """
layer = torch.nn.GRU(5, 6).cuda()
x = torch.randn(4, 3, 5, device="cuda")
params, state = list(layer.parameters()), torch.zeros(1, 3, 6, device="cuda")
rest = ([], "GRU", True, 1, False)
output, last, _, reserve = torch._recurrent_layers(x, [state], params, *rest, True)
def backward(reserve):
    torch._recurrent_layers_backward(x, [state], params, *rest, output, reserve, output, None, None)
    torch.cuda.synchronize()
with torch.no_grad():
    before = networks()
    backward(reserve.clone())
    backward(reserve)
    assert networks() == before + 4
    backward(reserve[8:])
    assert networks() == before + 4
"""
    )
