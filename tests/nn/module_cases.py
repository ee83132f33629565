"""Modules with their arguments and inputs, and their measurements. Run as a program, it records torch's numbers.

`python tests/nn/module_cases.py` needs torch and writes `tests/data/modules.json`, which `test_recorded.py` reads.
"""

import hashlib
import json
import math
from pathlib import Path

RECORDED = Path(__file__).resolve().parent.parent / "data" / "modules.json"


def signs(*shape):
    return ("signs", shape)


def shares(*shape):
    return ("shares", shape)


def classes(count, *shape):
    return (count, shape)


IMAGE, VOLUME, LINE = (2, 3, 7, 6), (2, 3, 5, 4, 4), (2, 3, 9)
SPACES = {1: LINE, 2: IMAGE, 3: VOLUME}

CASES = [
    *[
        (name, (), {}, (2, 4, 6))
        for name in (
            "ReLU SELU SiLU Mish Hardsigmoid Hardswish ReLU6 ELU CELU LeakyReLU GELU GLU Hardshrink Softshrink Softplus "
            "Sigmoid LogSigmoid Tanh Tanhshrink Softsign Hardtanh Softmax2d"
        ).split()
    ],
    ("Threshold", (0.2, -3.0), {}, (5,)),
    ("ELU", (0.5, True), {}, shares(5)),
    ("Hardtanh", (-0.5, 0.25), {}, (5,)),
    ("Softmax", (1,), {}, (2, 4, 5)),
    ("Softmin", (1,), {}, (2, 4, 5)),
    ("LogSoftmax", (1,), {}, (2, 4, 5)),
    ("Dropout", (), {}, (4, 5)),
    ("Dropout1d", (), {}, (4, 8, 2)),
    ("Dropout2d", (), {}, (4, 8, 2, 1)),
    ("Dropout3d", (), {}, (4, 8, 1, 2, 1)),
    ("Dropout3d", (), {}, (8, 1, 2, 1)),
    ("AlphaDropout", (0.2,), {}, (4, 5)),
    ("FeatureAlphaDropout", (), {}, (4, 8, 2)),
    *[
        (f"{kind}Pad{d}d", (1,), {}, SPACES[d])
        for kind in ("Reflection", "Replication", "Circular", "Zero")
        for d in SPACES
    ],
    *[(f"ConstantPad{d}d", ((-1, 2) * d, 2.5), {}, SPACES[d]) for d in SPACES],
    *[(f"MaxPool{d}d", (3, 2, 1), {"return_indices": True}, SPACES[d]) for d in SPACES],
    *[(f"AvgPool{d}d", (3, 2, 1, True, False), {}, SPACES[d]) for d in SPACES],
    *[(f"AvgPool{d}d", (2,), {"divisor_override": 3}, SPACES[d]) for d in (2, 3)],
    *[(f"LPPool{d}d", (2, 2), {}, SPACES[d]) for d in SPACES],
    ("LPPool1d", (math.inf, 2), {}, LINE),
    *[(f"AdaptiveAvgPool{d}d", (2,), {}, SPACES[d]) for d in SPACES],
    *[
        (f"BatchNorm{d}d", (3,), options, SPACES[d])
        for d in SPACES
        for options in ({}, {"momentum": None, "affine": False})
    ],
    ("BatchNorm1d", (3,), {"track_running_stats": False, "bias": False}, (4, 3)),
    *[(f"InstanceNorm{d}d", (3,), {"affine": True, "track_running_stats": True}, SPACES[d]) for d in SPACES],
    ("InstanceNorm2d", (3,), {}, IMAGE[1:]),
    ("GroupNorm", (2, 6), {}, (2, 6, 4)),
    ("LayerNorm", ([4, 5],), {}, (2, 4, 5)),
    ("LayerNorm", (5,), {"bias": False, "eps": 0.1}, (2, 4, 5)),
    ("RMSNorm", (5,), {}, (2, 4, 5)),
    ("LocalResponseNorm", (3,), {"alpha": 1.0}, (2, 7, 3)),
    *[
        (f"Conv{d}d", (3, 4, 3), options, SPACES[d])
        for d in SPACES
        for options in ({}, {"padding": "same", "bias": False})
    ],
    ("Conv2d", (3, 6, 3), {"groups": 3, "stride": 2, "padding": 1, "padding_mode": "circular"}, IMAGE),
    *[(f"ConvTranspose{d}d", (3, 4, 3, 2, 1, 1), {}, SPACES[d]) for d in SPACES],
    ("ConvTranspose2d", (3, 6, 3), {"groups": 3, "dilation": 2, "bias": False}, IMAGE),
    ("Bilinear", (3, 4, 5), {}, (2, 3), (2, 4)),
    *[(f"{kind}Loss", (), {}, (4, 3), (4, 3)) for kind in "L1 MSE SmoothL1 Huber PoissonNLL".split()],
    ("HuberLoss", ("sum", 0.5), {}, (4, 3), (4, 3)),
    ("PoissonNLLLoss", (False, True), {}, shares(4, 3), shares(4, 3)),
    ("KLDivLoss", (), {"reduction": "sum"}, (4, 3), shares(4, 3)),
    ("KLDivLoss", (), {"reduction": "batchmean", "log_target": True}, (4, 3), (4, 3)),
    ("BCELoss", (), {"reduction": "none"}, shares(4, 3), shares(4, 3)),
    ("BCEWithLogitsLoss", (), {}, (4, 3), shares(4, 3)),
    ("GaussianNLLLoss", (), {"full": True}, (4, 3), (4, 3), shares(4, 1)),
    ("HingeEmbeddingLoss", (0.3,), {}, (4, 3), signs(4, 3)),
    ("CosineEmbeddingLoss", (0.1,), {"reduction": "none"}, (4, 3), (4, 3), signs(4)),
    ("MarginRankingLoss", (0.1,), {}, (4,), (4,), signs(4)),
    ("SoftMarginLoss", (), {}, (4, 3), signs(4, 3)),
    ("MultiLabelSoftMarginLoss", (), {}, (4, 3), shares(4, 3)),
    ("MultiMarginLoss", (2, 0.5), {}, (4, 3), classes(3, 4)),
    ("TripletMarginLoss", (2.0, 1.0, 1e-3, True), {}, (4, 3), (4, 3), (4, 3)),
    ("TripletMarginWithDistanceLoss", (), {"swap": True, "margin": 3.0}, (4, 3), (4, 3), (4, 3)),
    ("PairwiseDistance", (3.0,), {"keepdim": True}, (4, 3), (4, 3)),
    ("CosineSimilarity", (), {}, (4, 3), (4, 3)),
    ("PixelShuffle", (2,), {}, (2, 8, 3, 3)),
    ("PixelUnshuffle", (2,), {}, (2, 2, 4, 6)),
    ("ChannelShuffle", (2,), {}, (2, 6, 3)),
    ("Upsample", (), {"scale_factor": (1.5, 2), "mode": "bilinear"}, IMAGE),
    ("UpsamplingNearest2d", (), {"scale_factor": 2}, IMAGE),
    ("UpsamplingBilinear2d", (), {"size": (3, 9)}, IMAGE),
    *[(name, (3, 4), {}, (5, 2, 3)) for name in ("RNN", "LSTM", "GRU")],
    *[
        (name, (3, 4, 2), {"bidirectional": True, "batch_first": True, "dropout": 0.5}, (5, 2, 3))
        for name in ("RNN", "LSTM", "GRU")
    ],
    ("RNN", (3, 4, 1, "relu", False), {}, (5, 3)),
    ("LSTM", (3, 4, 2), {"proj_size": 2, "bidirectional": True}, (5, 2, 3)),
    *[(name, (3, 4), {}, (2, 3)) for name in ("RNNCell", "LSTMCell", "GRUCell")],
    *[
        ("MultiheadAttention", (8, 2), options, (5, 2, 8), (7, 2, 8), (7, 2, 8))
        for options in ({}, {"add_bias_kv": True, "add_zero_attn": True}, {"bias": False, "dropout": 0.3})
    ],
    ("MultiheadAttention", (8, 2), {"kdim": 6, "vdim": 4}, (5, 2, 8), (7, 2, 6), (7, 2, 4)),
    ("MultiheadAttention", (8, 2), {"batch_first": True}, (2, 5, 8), (2, 7, 8), (2, 7, 8)),
    ("TransformerEncoderLayer", (8, 2, 16), {"activation": "gelu"}, (5, 2, 8)),
    ("TransformerEncoderLayer", (8, 2, 16), {"norm_first": True, "bias": False}, (5, 2, 8)),
    ("TransformerDecoderLayer", (8, 2, 16), {}, (5, 2, 8), (7, 2, 8)),
    ("Transformer", (8, 2, 2, 2, 16), {}, (7, 2, 8), (5, 2, 8)),
    ("Transformer", (8, 2, 1, 1, 16, 0.0), {"batch_first": True}, (2, 7, 8), (2, 5, 8)),
]


def identity(case):
    name, args, options, *inputs = case
    return f"{name}{args}{options}{inputs}"


def values(given, place):
    """Deterministic numbers for an input: waves for a shape, or numbers of a special kind."""
    kind, shape = given if len(given) == 2 and isinstance(given[1], tuple) else ("wave", given)
    waves = [math.sin(1.7 * i + 2.3 * place + 0.4) for i in range(math.prod(shape))]
    if kind == "signs":
        return [1.0 if wave > 0 else -1.0 for wave in waves], shape
    if kind == "shares":
        return [0.5 + 0.45 * wave for wave in waves], shape
    if kind == "wave":
        return [1.5 * wave for wave in waves], shape
    return [i * 5 % kind for i in range(len(waves))], shape


def flattened(result):
    if isinstance(result, (tuple, list)):
        return [tensor for part in result for tensor in flattened(part)]
    return [result]


def summary(tensor):
    """A tensor's shape, its first numbers, and their sums with two kinds of weights."""
    numbers = [float(number) for number in tensor.detach().flatten().tolist()]
    weighted = sum(number * math.cos(0.3 * i) for i, number in enumerate(numbers))
    first, sums = ([float(f"{x:.8g}") for x in part] for part in (numbers[:4], [sum(numbers), weighted]))
    return {"shape": list(tensor.shape), "first": first, "sums": sums}


def measure(torch, case):
    """The text of a module, the names of its state, a digest of its initial weights, its results and gradients."""
    name, args, options, *inputs = case
    torch.manual_seed(7)
    module = getattr(torch.nn, name)(*args, **options)
    state = module.state_dict()
    digest = hashlib.sha256(b"".join(tensor.numpy().tobytes() for tensor in state.values())).hexdigest()[:16]
    measured = {"repr": repr(module), "state": list(state), "weights": digest}
    tensors = []
    for place, given in enumerate(inputs):
        numbers, shape = values(given, place)
        tensors.append(torch.tensor(numbers).reshape(shape))
    tensors[0].requires_grad_()
    torch.manual_seed(8)
    results = flattened(module(*[tensor.clone() for tensor in tensors]))
    measured["results"] = [summary(result) for result in results]
    loss = sum((result * result).sum() for result in results if result.requires_grad)
    loss.backward()
    grads = [tensors[0].grad, *[parameter.grad for parameter in module.parameters()]]
    measured["grads"] = [summary(grad) for grad in grads]
    measured["buffers"] = [summary(buffer) for buffer in module.buffers()]
    module.eval()
    measured["evaluated"] = [summary(result) for result in flattened(module(*[tensor.clone() for tensor in tensors]))]
    return measured


if __name__ == "__main__":
    import torch

    lines = [f"{json.dumps(identity(case))}: {json.dumps(measure(torch, case))}" for case in CASES]
    RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n")
