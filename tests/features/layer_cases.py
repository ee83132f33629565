"""The layers and losses of the requirements, with one number each for their results and gradients.

`python tests/features/layer_cases.py` needs torch and writes `tests/data/layers.json`.
"""

import json
from pathlib import Path

RECORDED = Path(__file__).resolve().parent.parent / "data" / "layers.json"
LINE, IMAGE, VOLUME = (2, 4, 9), (2, 4, 7, 6), (1, 4, 5, 4, 6)
SPACES = {1: LINE, 2: IMAGE, 3: VOLUME}


def each(row, names, *args, shape=None, **options):
    """A case for every name. The default shape has the number of dimensions in the name."""
    return [(row, name, args, options, [shape or SPACES[int(name[-2])]]) for name in names.split()]


CONVOLUTIONS = "Conv1d Conv2d Conv3d"
TRANSPOSED = "ConvTranspose1d ConvTranspose2d ConvTranspose3d"
AFFINE = "BatchNorm1d BatchNorm2d BatchNorm3d"
INSTANCE = "InstanceNorm1d InstanceNorm2d InstanceNorm3d"

LAYERS = [
    *each("lay_1", f"{CONVOLUTIONS} {TRANSPOSED}", 4, 6, 3),
    *each("lay_1", f"{CONVOLUTIONS} {TRANSPOSED}", 4, 6, 2, stride=2, padding=1, dilation=2, groups=2, bias=False),
    *each("lay_1", TRANSPOSED, 4, 2, 3, stride=2, output_padding=1),
    *each("lay_1", CONVOLUTIONS, 4, 2, 3, padding="same"),
    *each("lay_1", CONVOLUTIONS, 4, 2, 3, padding="valid"),
    *each("lay_1", CONVOLUTIONS, 4, 2, 3, padding=1, padding_mode="circular"),
    *each("lay_1", "Conv2d", 4, 2, (3, 1), stride=(2, 1), padding=(1, 0), padding_mode="reflect"),
    *each("lay_3", "MaxPool1d MaxPool2d MaxPool3d", 3, 2, 1, 1, ceil_mode=True),
    *each("lay_3", "MaxPool1d MaxPool2d MaxPool3d", 2, dilation=2),
    *each("lay_3", "AvgPool1d AvgPool2d AvgPool3d", 3, 2, 1, ceil_mode=True, count_include_pad=False),
    *each("lay_3", "AvgPool1d AvgPool2d AvgPool3d", 3, 2, 1),
    *each("lay_3", "AdaptiveMaxPool1d AdaptiveMaxPool2d AdaptiveMaxPool3d", 3),
    *each("lay_3", "AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d", 3),
    *each("lay_3", "LPPool1d LPPool2d LPPool3d", 2, 3),
    *each("lay_5", "ReflectionPad1d ReflectionPad2d ReflectionPad3d", 2),
    *each("lay_5", "ReplicationPad1d ReplicationPad2d ReplicationPad3d", 2),
    *each("lay_5", "CircularPad1d CircularPad2d CircularPad3d", 2),
    *each("lay_5", "ZeroPad1d ZeroPad2d ZeroPad3d", 1),
    *each("lay_5", "ConstantPad1d ConstantPad2d ConstantPad3d", -1, 2.5),
    *each(
        "lay_6",
        "ReLU ReLU6 ELU SELU CELU PReLU LeakyReLU Hardtanh Sigmoid Tanh LogSigmoid Softplus Hardshrink Softshrink "
        "Softsign Tanhshrink GLU GELU SiLU Mish Hardswish Hardsigmoid Softmax2d",
        shape=IMAGE,
    ),
    *each("lay_6", "Softmin Softmax LogSoftmax", 1, shape=(3, 5)),
    *each("lay_6", "Threshold", 0.1, 2.0, shape=(3, 5)),
    *each("lay_10", AFFINE, 4),
    *each("lay_10", AFFINE, 4, momentum=None, affine=False),
    *each("lay_10", AFFINE, 4, track_running_stats=False),
    *each("lay_10", INSTANCE, 4),
    *each("lay_10", INSTANCE, 4, affine=True, track_running_stats=True),
    *each("lay_10", "LayerNorm", [7, 6], shape=IMAGE),
    *each("lay_10", "RMSNorm", [6], shape=IMAGE),
    *each("lay_10", "GroupNorm", 2, 4, shape=IMAGE),
    *each("lay_10", "LocalResponseNorm", 2, shape=IMAGE),
    *each("lay_12", "RNN LSTM GRU", 4, 3, shape=(5, 2, 4)),
    *each("lay_12", "RNN LSTM GRU", 4, 3, num_layers=2, bidirectional=True, batch_first=True, shape=(2, 5, 4)),
    *each("lay_12", "LSTM", 4, 3, proj_size=2, shape=(5, 2, 4)),
    *each("lay_12", "RNNCell LSTMCell GRUCell", 4, 3, shape=(2, 4)),
    *each("lay_14", "Linear", 4, 3, shape=(2, 4)),
    ("lay_14", "Bilinear", (4, 3, 2), {}, [(2, 4), (2, 3)]),
    ("lay_17", "CosineSimilarity", (), {}, [(3, 4), (3, 4)]),
    ("lay_17", "PairwiseDistance", (3,), {}, [(3, 4), (3, 4)]),
    *each("lay_18", "PixelShuffle", 2, shape=IMAGE),
    *each("lay_18", "PixelUnshuffle", 2, shape=(1, 2, 4, 6)),
    *each("lay_18", "ChannelShuffle", 2, shape=IMAGE),
    *each("lay_18", "Upsample", scale_factor=2, shape=IMAGE),
    *each("lay_18", "Upsample", scale_factor=2, mode="bilinear", shape=IMAGE),
    *each("lay_18", "Upsample", (9, 11), mode="bilinear", align_corners=True, shape=IMAGE),
    *each("lay_18", "Upsample", scale_factor=2, mode="trilinear", shape=VOLUME),
    *each("lay_18", "UpsamplingNearest2d UpsamplingBilinear2d", scale_factor=2, shape=IMAGE),
]

ROWS = (4, 5)
SIGNS = ("sign", (4, 5))
SHARES = ("share", ROWS)
CLASSES = ("class", (4,))
LOSSES = [
    ("L1Loss", {}, [ROWS, ROWS]),
    ("MSELoss", {}, [ROWS, ROWS]),
    ("CrossEntropyLoss", {}, [ROWS, CLASSES]),
    ("CrossEntropyLoss", {"weight": 5, "label_smoothing": 0.1}, [ROWS, CLASSES]),
    ("NLLLoss", {}, [ROWS, CLASSES]),
    ("NLLLoss", {"weight": 5}, [ROWS, CLASSES]),
    ("PoissonNLLLoss", {"full": True}, [ROWS, SHARES]),
    ("KLDivLoss", {}, [ROWS, SHARES]),
    ("BCELoss", {"weight": 5}, [SHARES, SHARES]),
    ("BCEWithLogitsLoss", {"pos_weight": 5}, [ROWS, SHARES]),
    ("MarginRankingLoss", {"margin": 0.5}, [ROWS, ROWS, SIGNS]),
    ("HingeEmbeddingLoss", {}, [ROWS, SIGNS]),
    ("MultiLabelMarginLoss", {}, [ROWS, ("labels", ROWS)]),
    ("SmoothL1Loss", {"beta": 0.3}, [ROWS, ROWS]),
    ("SoftMarginLoss", {}, [ROWS, SIGNS]),
    ("MultiLabelSoftMarginLoss", {"weight": 5}, [ROWS, SHARES]),
    ("CosineEmbeddingLoss", {"margin": 0.1}, [ROWS, ROWS, ("sign", (4,))]),
    ("MultiMarginLoss", {"p": 2}, [ROWS, CLASSES]),
    ("TripletMarginLoss", {}, [ROWS, ROWS, ROWS]),
    ("TripletMarginWithDistanceLoss", {}, [ROWS, ROWS, ROWS]),
    ("HuberLoss", {"delta": 0.4}, [ROWS, ROWS]),
    ("GaussianNLLLoss", {}, [ROWS, ROWS, SHARES]),
]


def identity(case):
    row, name, args, options, _ = case
    words = [*map(str, args), *(f"{key}={value}" for key, value in options.items())]
    return f"{row}-{name}({','.join(words)})".replace(" ", "")


def wave(torch, shape, start):
    """Distinct numbers between -1 and 1, away from kinks."""
    count = torch.Size(shape).numel()
    return (torch.arange(count, dtype=torch.float64) * 2.3 + 0.77 * start + 0.1).sin().reshape(shape)


def argument(torch, kind, place):
    if isinstance(kind[0], int):
        return wave(torch, kind, place).requires_grad_()
    name, shape = kind
    if name == "share":
        return (wave(torch, shape, place) * 0.4 + 0.5).requires_grad_(place == 0)
    if name == "sign":
        return wave(torch, shape, place).sign()
    if name == "labels":
        return torch.tensor([[1, 3, -1, 0, 2], [4, -1, 0, 0, 0], [0, 1, 2, 3, 4], [2, 0, -1, 1, 1]])
    return torch.tensor([1, 4, 0, 2])


def tensors(value):
    return [value] if hasattr(value, "dtype") else [tensor for item in value for tensor in tensors(item)]


def measure(torch, module, kinds):
    """A weighted sum of the results, and one of the gradients of the parameters and inputs."""
    module = module.double()
    with torch.no_grad():
        for place, parameter in enumerate(module.parameters()):
            parameter.copy_(wave(torch, parameter.shape, place + 5) * 0.5)
    inputs = [argument(torch, kind, place) for place, kind in enumerate(kinds)]
    results = tensors(module(*inputs))
    value = sum((result * wave(torch, result.shape, 3)).sum() for result in results)
    value.backward()
    leaves = [leaf for leaf in (*inputs, *module.parameters()) if leaf.grad is not None]
    return [value.item(), sum((leaf.grad * wave(torch, leaf.shape, 4)).sum().item() for leaf in leaves)]


def layer(torch, case):
    _, name, args, options, kinds = case
    return measure(torch, getattr(torch.nn, name)(*args, **options), kinds)


def loss(torch, case, reduction):
    name, options, kinds = case
    weights = {
        key: wave(torch, (value,), 1) * 0.4 + 1 if key.endswith("weight") else value for key, value in options.items()
    }
    return measure(torch, getattr(torch.nn, name)(**weights, reduction=reduction), kinds)


def loss_identity(case, reduction):
    name, options, _ = case
    return f"los_1-{name}({','.join([*options, reduction])})"


if __name__ == "__main__":
    import torch

    found = {identity(case): layer(torch, case) for case in LAYERS}
    for case in LOSSES:
        for reduction in ("none", "mean", "sum"):
            found[loss_identity(case, reduction)] = loss(torch, case, reduction)
    RECORDED.write_text(json.dumps(found, indent=0) + "\n")
