"""Cases of quantisation, and the program that records torch's results.

Run in an environment with torch, this file writes `../data/quantized.json`. The cases compute with `torch`, which is
rushlight in the tests and torch in the program, and return numbers, texts, and lists and dictionaries of them.
"""

import json
import pathlib
import sys
import warnings

RECORD = pathlib.Path(__file__).parent.parent / "data" / "quantized.json"

SCHEMES = {"quint8": (0.037, 13), "qint8": (0.05, -7), "qint32": (0.001, 3)}


def numbers(torch, *shape, scale=1.0, start=0):
    """Numbers that look random, the same in both libraries."""
    count = 1
    for size in shape:
        count *= size
    places = torch.arange(start, start + count, dtype=torch.int64)
    mixed = (places * 7919 + 12345) * (places + 104729) % 100003
    return ((mixed.double() / 50001.5 - 1.0) * scale).float().reshape(shape)


def plain(value):
    """A result as numbers, lists and texts."""
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    if hasattr(value, "is_quantized"):
        if value.is_quantized:
            return [str(value.dtype), plain(value.int_repr()), str(value.qscheme()), list(value.stride())]
        return value.tolist()
    return value if isinstance(value, (int, float, str, bool, type(None))) else str(value)


def rounding(torch, name):
    """Ties, infinities and NaN, with one scale and with channels."""
    dtype = getattr(torch, name)
    scale, zero = SCHEMES[name]
    ties = (torch.arange(-300, 300).float() + 0.5) * scale
    special = torch.tensor([float("nan"), float("inf"), float("-inf"), 1e20, -1e20, 0.0, -0.0])
    x = torch.cat([ties, special, numbers(torch, 200, scale=30.0)])
    whole = torch.quantize_per_tensor(x, scale, zero, dtype)
    rows = numbers(torch, 3, 4, 5, scale=20.0)
    scales, zeros = torch.tensor([0.1, 0.03, 1.7]), torch.tensor([0, 5, 2])
    channels = torch.quantize_per_channel(rows, scales, zeros, 0, dtype)
    inner = torch.quantize_per_channel(rows, torch.tensor([0.1, 0.2, 0.3, 0.07]), torch.tensor([1, 2, 3, 4]), 1, dtype)
    # Ties and what has no integer, in channels.
    edges = torch.stack([torch.cat([ties * (step / scale), special]) for step in (0.013, 0.37, 0.0071)])
    steps, points = torch.tensor([0.013, 0.37, 0.0071]), torch.tensor([3, 101, 0])
    tied = torch.quantize_per_channel(edges, steps, points, 0, dtype)
    parts = whole, whole.dequantize(), channels, channels.dequantize(), inner.dequantize(), tied
    return [plain(part) for part in parts]


def float_points(torch):
    """Zero points that are floats."""
    x = numbers(torch, 3, 8, scale=5.0)
    points = torch.tensor([10.3, 0.5, 100.7])
    q = torch.quantize_per_channel(x, torch.tensor([0.1, 0.03, 0.02]), points, 0, torch.quint8)
    return [plain(q), plain(q.dequantize()), repr(q)]


def dynamic(torch):
    """The choice of a scale and a zero point by range."""
    found = []
    for power in range(-7, 6):
        for shift in (0.0, 0.8, -2.0):
            x = numbers(torch, 9, start=power + 20) * 10.0**power + shift
            for dtype in (torch.quint8, torch.qint8):
                for reduce_range in (False, True):
                    q = torch.quantize_per_tensor_dynamic(x, dtype, reduce_range)
                    found.append([q.q_scale(), q.q_zero_point(), plain(q.int_repr())])
    return found


def texts(torch):
    """How quantised tensors print."""
    x = numbers(torch, 2, 3, scale=3.0)
    q = torch.quantize_per_tensor(x, 0.1, 10, torch.quint8)
    p = torch.quantize_per_channel(x, torch.tensor([0.1, 0.2]), torch.tensor([0, 3]), 0, torch.qint8)
    empty = torch.quantize_per_tensor(torch.empty(0), 0.1, 0, torch.qint32)
    names = (torch.quint8, torch.qint8, torch.qint32, torch.per_tensor_affine, q.type(), p.type())
    return [repr(q), repr(p), repr(q[0, 1]), repr(empty), repr(q.view(3, 2)), *map(str, names)]


OPERATIONS = {
    "relu": lambda torch, q: torch.relu(q),
    "relu6": lambda torch, q: torch.nn.functional.relu6(q),
    "hardtanh": lambda torch, q: torch.nn.functional.hardtanh(q),
    "clamp": lambda torch, q: torch.clamp(q, -1, 1),
    "clamp_min": lambda torch, q: torch.clamp(q, min=-0.5),
    "sigmoid": lambda torch, q: torch.sigmoid(q),
    "tanh": lambda torch, q: torch.tanh(q),
    "leaky_relu": lambda torch, q: torch.nn.functional.leaky_relu(q, 0.1),
    "max_pool2d": lambda torch, q: torch.nn.functional.max_pool2d(q, 2),
    "avg_pool2d": lambda torch, q: torch.nn.functional.avg_pool2d(q, 2),
    "adaptive_avg_pool2d": lambda torch, q: torch.nn.functional.adaptive_avg_pool2d(q, 1),
    "pad": lambda torch, q: torch.nn.functional.pad(q, (1, 2)),
    "mean": lambda torch, q: q.mean(),
    "mean_dims": lambda torch, q: q.mean((2, 3)),
    "max": lambda torch, q: q.max(),
    "max_dim": lambda torch, q: list(q.max(3)),
    "min": lambda torch, q: q.min(),
    "sort": lambda torch, q: list(q.sort(3)),
    "topk": lambda torch, q: q.topk(2).values,
    "cat": lambda torch, q: torch.cat([q, torch.quantize_per_tensor(q.dequantize(), 0.3, 2, q.dtype)], 1),
    "stack": lambda torch, q: torch.stack([q, q]),
    "flip": lambda torch, q: torch.flip(q, (2,)),
    "repeat": lambda torch, q: q.repeat(1, 2, 1, 1),
    "index": lambda torch, q: q[:, torch.tensor([1, 0])],
    "mask": lambda torch, q: q[q > 0.4],
    "index_select": lambda torch, q: q.index_select(2, torch.tensor([3, 0])),
    "masked_fill": lambda torch, q: q.masked_fill(q > 0.4, -1.0),
    "fill_": lambda torch, q: q.clone().fill_(0.7),
    "copy_": lambda torch, q: q.clone().copy_(torch.ones(2, 3, 4, 6)),
    "permute": lambda torch, q: q.permute(0, 2, 3, 1),
    "reshape": lambda torch, q: q.permute(0, 2, 3, 1).reshape(8, -1),
    "narrow": lambda torch, q: q.narrow(3, 1, 2),
    "unbind": lambda torch, q: list(q.unbind(1)),
    "channels_last": lambda torch, q: q.contiguous(memory_format=torch.channels_last),
    "compare": lambda torch, q: [q > 0.5, q == q, q <= q.flip((3,))],
}


def operation(torch, name):
    """One operator over tensors of two dtypes."""
    found = []
    for dtype in ("quint8", "qint8"):
        scale, zero = SCHEMES[dtype]
        x = torch.quantize_per_tensor(numbers(torch, 2, 3, 4, 6, scale=2.0), scale, zero, getattr(torch, dtype))
        result = OPERATIONS[name](torch, x)
        found.append([plain(part) for part in (result if isinstance(result, list) else [result])])
    return found


def fake(torch):
    """Fake quantisation and its gradients."""
    found = []
    x = numbers(torch, 3, 20, scale=4.0).requires_grad_()
    weights = numbers(torch, 3, 20, start=99)
    scales, zeros = torch.tensor([0.1, 0.03, 0.02]), torch.tensor([3, 0, 7], dtype=torch.int32)
    for y in (
        torch.fake_quantize_per_tensor_affine(x, 0.037, 5, 0, 127),
        torch.fake_quantize_per_tensor_affine(x, torch.tensor([0.037]), torch.tensor([5]), -128, 127),
        torch.fake_quantize_per_channel_affine(x, scales, zeros, 0, -30, 30),
    ):
        (grad,) = torch.autograd.grad(y, x, weights)
        found += [plain(y.detach()), plain(grad)]
    for own, points, more in ((torch.tensor([0.05]), torch.tensor([2.3]), ()), (scales, zeros.float() + 0.4, (0,))):
        scale, zero = own.clone().requires_grad_(), points.clone().requires_grad_()
        kind = "channel" if more else "tensor"
        call = getattr(torch, f"_fake_quantize_learnable_per_{kind}_affine")
        y = call(x, scale, zero, *more, -20, 20, 0.5)
        found += [plain(part) for part in (y.detach(), *torch.autograd.grad(y, (x, scale, zero), weights))]
    return found


OBSERVERS = (
    ("MinMaxObserver", "per_tensor_affine", "per_tensor_symmetric"),
    ("MovingAverageMinMaxObserver", "per_tensor_affine", "per_tensor_symmetric"),
    ("PerChannelMinMaxObserver", "per_channel_affine", "per_channel_symmetric", "per_channel_affine_float_qparams"),
    ("MovingAveragePerChannelMinMaxObserver", "per_channel_affine", "per_channel_symmetric"),
    ("HistogramObserver", "per_tensor_affine", "per_tensor_symmetric"),
)


def observed(torch, name):
    """The parameters that an observer chooses after several tensors."""
    kind = getattr(torch.ao.quantization, name)
    schemes = next(row[1:] for row in OBSERVERS if row[0] == name)
    found = []
    for scheme in schemes:
        for dtype in (torch.quint8, torch.qint8, torch.qint32, torch.int8):
            for options in ({}, {"quant_min": 0, "quant_max": 100}):
                observer = kind(dtype=dtype, qscheme=getattr(torch, scheme), **options)
                for step in range(3):
                    observer(numbers(torch, 4, 50, scale=1.0 + step, start=step) + 0.3)
                    found.append([plain(part) for part in observer.calculate_qparams()])
    return found


FAKES = (
    "default_fake_quant default_weight_fake_quant default_per_channel_weight_fake_quant default_fused_act_fake_quant "
    "default_fused_wt_fake_quant default_fused_per_channel_wt_fake_quant default_fixed_qparams_range_0to1_fake_quant "
    "default_histogram_fake_quant fused_wt_fake_quant_range_neg_127_to_127"
).split()


def fake_module(torch, name):
    """A module of fake quantisation over several tensors, its text and the names of its state."""
    module = getattr(torch.ao.quantization, name)()
    found = [list(module.state_dict())]
    for step in range(3):
        result = module(numbers(torch, 4, 6, scale=1.0 + step, start=step))
        found.append([plain(result), plain(module.scale), plain(module.zero_point)])
    return [*found, repr(module)]


def products(torch):
    """Layers with weights of 8 bits, dynamic and static."""
    found = []
    for rows, outputs, inputs in ((1, 16, 8), (3, 33, 70), (5, 4, 1)):
        x, weight, bias = (
            numbers(torch, rows, inputs, scale=3.0),
            numbers(torch, outputs, inputs, start=7),
            numbers(torch, outputs, start=3),
        )
        scales = weight.abs().amax(1) / 127
        whole = torch.quantize_per_tensor(weight, 0.009, 5, torch.qint8)
        channels = torch.quantize_per_channel(weight, scales, torch.zeros(outputs, dtype=torch.int64), 0, torch.qint8)
        q = torch.quantize_per_tensor(x, 0.03, 100, torch.quint8)
        ops = torch.ops.quantized
        for own in (whole, channels):
            for added in (bias, None):
                packed = ops.linear_prepack(own, added)
                found += [plain(ops.linear_dynamic(x, packed, reduce_range)) for reduce_range in (False, True)]
                found += [plain(layer(q, packed, 0.2, 60)) for layer in (ops.linear, ops.linear_relu)]
    return found


def convolutions(torch):
    """Convolutions of quantised images."""
    ops = torch.ops.quantized
    q = torch.quantize_per_tensor(numbers(torch, 2, 4, 7, 6, scale=3.0), 0.03, 100, torch.quint8)
    found = []
    for stride, padding, dilation, groups in (([1, 1], [0, 0], [1, 1], 1), ([2, 1], [1, 2], [1, 2], 2)):
        weight, bias = numbers(torch, 6, 4 // groups, 3, 3, start=5), numbers(torch, 6)
        scales = weight.abs().amax((1, 2, 3)) / 127
        own = torch.quantize_per_channel(weight, scales, torch.zeros(6, dtype=torch.int64), 0, torch.qint8)
        packed = ops.conv2d_prepack(own, bias, stride, padding, dilation, groups)
        found += [plain(layer(q, packed, 0.1, 60).int_repr()) for layer in (ops.conv2d, ops.conv2d_relu)]
    return found


def arithmetic(torch):
    """Sums and products of quantised tensors."""
    ops = torch.ops.quantized
    a = torch.quantize_per_tensor(numbers(torch, 3, 4), 0.04, 10, torch.quint8)
    b = torch.quantize_per_tensor(numbers(torch, 3, 4, start=50), 0.04, 10, torch.quint8)
    found = [plain(call(a, b, 0.07, 20)) for call in (ops.add, ops.add_relu, ops.mul, ops.mul_relu)]
    for number in (0.5, -1.3, 3.0, -20.0, 20.0):
        for call in (ops.add_scalar, ops.mul_scalar):
            result = call(a, number)
            found.append([plain(result.int_repr()), round(result.q_scale(), 12), result.q_zero_point()])
    return found


def filled(torch, module):
    """The module with weights that look random, the same in both libraries."""
    for place, parameter in enumerate(module.parameters()):
        parameter.data.copy_(numbers(torch, *parameter.shape, scale=0.5, start=place))
    return module


def models(torch):
    """The texts of quantised models, and the names of their states."""
    sequence = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.GRU(4, 2, 2, bidirectional=True))
    made = torch.ao.quantization.quantize_dynamic(sequence)
    half = torch.ao.quantization.quantize_dynamic(sequence, {"0"}, dtype=torch.float16)
    wrapped = torch.ao.quantization.QuantWrapper(filled(torch, torch.nn.Linear(3, 4))).eval()
    wrapped.qconfig = torch.ao.quantization.default_qconfig
    prepared = torch.ao.quantization.prepare(wrapped)
    prepared(numbers(torch, 8, 3))
    converted = torch.ao.quantization.convert(prepared)
    found = [repr(model) for model in (made, half, prepared, converted)]
    found += [list(model.state_dict()) for model in (made[0], prepared, converted)]
    return [*found, plain(converted(numbers(torch, 2, 3)))]


RECURRENT = ("LSTM", "GRU", "LSTMCell", "GRUCell", "RNNCell")


def recurrent(torch, name):
    """The results of recurrent layers with weights of 8 bits."""
    x = numbers(torch, 5, 3, 4) if name in ("LSTM", "GRU") else numbers(torch, 3, 4)
    options = {"num_layers": 2, "bidirectional": True} if name in ("LSTM", "GRU") else {}
    layer = filled(torch, getattr(torch.nn, name)(4, 6, **options))
    made = torch.ao.quantization.quantize_dynamic(torch.nn.Sequential(layer))[0]
    result = made(x)
    flat = []
    for part in result if isinstance(result, tuple) else (result,):
        flat += part if isinstance(part, tuple) else (part,)
    return [plain(part) for part in flat]


CASES = {
    **{f"rounding {name}": (rounding, name) for name in SCHEMES},
    "float zero points": (float_points,),
    "dynamic": (dynamic,),
    "texts": (texts,),
    **{f"operator {name}": (operation, name) for name in OPERATIONS},
    "fake": (fake,),
    **{f"observer {row[0]}": (observed, row[0]) for row in OBSERVERS},
    **{f"module {name}": (fake_module, name) for name in FAKES},
    "products": (products,),
    "convolutions": (convolutions,),
    "arithmetic": (arithmetic,),
    "models": (models,),
    **{f"recurrent {name}": (recurrent, name) for name in RECURRENT},
}


def run(torch, name):
    """The result of a case as JSON has it."""
    case, *arguments = CASES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return json.loads(json.dumps(case(torch, *arguments)))


if __name__ == "__main__":
    import torch

    torch.backends.quantized.engine = "fbgemm"
    torch.set_num_threads(1)
    record = {name: run(torch, name) for name in CASES}
    RECORD.write_text(json.dumps(record, separators=(",", ":")) + "\n")
    sys.stdout.write(f"{len(record)} cases\n")
