"""Cases of fused layers, of training with rounded weights and of the layers that follow from it, and torch's results.

Run in an environment with torch, this file writes `../data/trained.json`.
"""

import json
import pathlib
import re
import sys
import warnings

from quantized_cases import filled, numbers, plain

RECORD = pathlib.Path(__file__).parent.parent / "data" / "trained.json"


def _model(torch, dims):
    nn = torch.nn
    conv, norm = getattr(nn, f"Conv{dims}d"), getattr(nn, f"BatchNorm{dims}d")
    layers = [conv(2, 4, 3, padding=1), norm(4), nn.ReLU(), conv(4, 4, 1, groups=2), norm(4), conv(4, 3, 1), nn.ReLU()]
    return filled(torch, nn.Sequential(*layers))


FUSED = [["0", "1", "2"], ["3", "4"], ["5", "6"]]


def _told(layers):
    return [type(layer).__name__ for layer in layers]


def _text(model):
    """The text of a model with scales of four digits."""
    return re.sub(r"scale=([0-9.e-]+)", lambda found: f"scale={float(found[1]):.4g}", repr(model))


def _shape(dims):
    return (2, 2, *[5] * dims)


def fused(torch, dims):
    """Fused layers compute what the single ones do."""
    model = _model(torch, dims).eval()
    x = numbers(torch, *_shape(dims))
    made = torch.ao.quantization.fuse_modules(model, FUSED)
    return [_told(made), plain(made(x)), plain(model(x)), list(made.state_dict())]


def trained(torch, dims):
    """Steps of training with rounded weights, and the quantised layers."""
    own = torch.ao.quantization
    stubbed = own.QuantWrapper(_model(torch, dims).train())
    stubbed.qconfig = own.get_default_qat_qconfig("fbgemm", 0)
    names = [[f"module.{name}" for name in several] for several in FUSED]
    prepared = own.prepare_qat(own.fuse_modules_qat(stubbed, names))
    optimizer = torch.optim.SGD(prepared.parameters(), lr=0.01)
    losses = []
    for step in range(3):
        loss = prepared(numbers(torch, *_shape(dims), start=step * 1000)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    prepared.apply(torch.ao.nn.intrinsic.qat.freeze_bn_stats)
    weights = [plain(parameter) for parameter in prepared.parameters()]
    converted = own.convert(prepared.eval())
    result = converted(numbers(torch, *_shape(dims)))
    return [
        losses,
        weights,
        _told(prepared.module),
        list(prepared.state_dict()),
        _told(converted.module),
        plain(result),
    ]


def linear(torch, name):
    """Linear layers alone, with a ReLU, and with a normalisation."""
    own, nn = torch.ao.quantization, torch.nn
    layers = {"alone": [], "relu": [nn.ReLU()], "norm": [nn.BatchNorm1d(5)]}[name]
    model = own.QuantWrapper(filled(torch, nn.Sequential(nn.Linear(3, 5), *layers)).train())
    model.qconfig = own.get_default_qat_qconfig("fbgemm", 0)
    if layers:
        own.fuse_modules_qat(model, ["module.0", "module.1"], inplace=True)
    prepared = own.prepare_qat(model)
    loss = prepared(numbers(torch, 6, 3)).square().sum()
    loss.backward()
    gradients = [plain(parameter.grad) for parameter in prepared.parameters()]
    converted = own.convert(prepared.eval())
    return [loss.item(), gradients, repr(type(converted.module[0]).__name__), plain(converted(numbers(torch, 4, 3)))]


def static(torch, dims):
    """Quantisation of fused layers after a run."""
    own = torch.ao.quantization
    model = own.QuantWrapper(_model(torch, dims).eval())
    own.fuse_modules(model, [[f"module.{name}" for name in several] for several in FUSED], inplace=True)
    model.qconfig = own.QConfig(own.default_observer, own.default_per_channel_weight_observer)
    prepared = own.prepare(model)
    prepared(numbers(torch, *_shape(dims)))
    converted = own.convert(prepared)
    return [_text(converted), plain(converted(numbers(torch, *_shape(dims), start=77)))]


def transposed(torch, dims):
    """Transposed convolutions."""
    own = torch.ao.quantization
    layer = getattr(torch.nn, f"ConvTranspose{dims}d")(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2)
    model = own.QuantWrapper(filled(torch, torch.nn.Sequential(layer))).eval()
    model.qconfig = own.default_qconfig
    prepared = own.prepare(model)
    prepared(numbers(torch, 2, 4, *[4] * dims))
    converted = own.convert(prepared)
    return [_text(converted.module[0]), plain(converted(numbers(torch, 2, 4, *[4] * dims, start=50)))]


def normalised(torch, dims):
    """Normalisations alone and with a ReLU."""
    own, results = torch.ao.quantization, []
    for layers in ([], [torch.nn.ReLU()]):
        norm = getattr(torch.nn, f"BatchNorm{dims}d")(3)
        norm.running_mean.copy_(numbers(torch, 3))
        norm.running_var.copy_(numbers(torch, 3).abs() + 0.5)
        model = own.QuantWrapper(filled(torch, torch.nn.Sequential(norm, *layers))).eval()
        if layers:
            own.fuse_modules(model, ["module.0", "module.1"], inplace=True)
        model.qconfig = own.default_qconfig
        prepared = own.prepare(model)
        prepared(numbers(torch, 2, 3, *[4] * dims))
        converted = own.convert(prepared)
        results += [type(converted.module[0]).__name__, list(converted.state_dict())]
        results.append(plain(converted(numbers(torch, 2, 3, *[4] * dims, start=31))))
    return results


def tables(torch, name):
    """Tables of rows, quantised at once and after training."""
    own = torch.ao.quantization
    options = {"mode": "sum"} if name == "EmbeddingBag" else {}
    arguments = [torch.tensor([3, 0, 0, 6])] + ([torch.tensor([0, 3])] if options else [])
    layer = filled(torch, getattr(torch.nn, name)(7, 5, **options))
    at_once = own.quantize_dynamic(torch.nn.Sequential(layer), dtype=torch.quint8)
    trained = getattr(torch.ao.nn.qat, name)
    layer.qconfig = own.qconfig.default_embedding_qat_qconfig
    prepared = trained.from_float(layer.train())
    result = prepared(*arguments)
    result.square().sum().backward()
    gradient = prepared.weight.grad
    converted = getattr(torch.ao.nn.quantized, name).from_float(prepared)
    return [
        repr(at_once[0]),
        list(at_once.state_dict()),
        *[
            plain(part)
            for part in (at_once[0].weight(), at_once[0](*arguments), result, gradient, converted(*arguments))
        ],
    ]


CASES = {
    **{f"fused {dims}": (fused, dims) for dims in (1, 2, 3)},
    # torch trains no pair of a convolution of sequences and a ReLU.
    **{f"trained {dims}": (trained, dims) for dims in (2, 3)},
    **{f"linear {name}": (linear, name) for name in ("alone", "relu", "norm")},
    **{f"static {dims}": (static, dims) for dims in (1, 2, 3)},
    **{f"transposed {dims}": (transposed, dims) for dims in (1, 2, 3)},
    **{f"normalised {dims}": (normalised, dims) for dims in (2, 3)},
    **{f"tables {name}": (tables, name) for name in ("Embedding", "EmbeddingBag")},
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
