"""Training of six networks, for either library. Run as a program, it compares rushlight's losses with torch's.

`python tests/nn/trajectory_cases.py` needs both libraries and trains each network for 100 steps from the initial
weights of one seed. It prints the difference between rushlight's and torch's losses: in float64, where it must be below
1e-12, and in float32, where rounding errors grow. The reference for float32 is the difference between torch and torch
without oneDNN or in float64. `--seeds 5` trains with five seeds and prints the largest differences. `--record` writes
torch's losses to `tests/data/trajectories.json`, which `test_trajectories.py` reads.
"""

import argparse
import itertools
import json
import math
from pathlib import Path

RECORDED = Path(__file__).resolve().parent.parent / "data" / "trajectories.json"
STEPS = 100

SPEECH = """\
Speak the speech, I pray you, as I pronounced it to you, trippingly on the tongue: but if you mouth it, as many of your
players do, I had as lief the town-crier spoke my lines. Nor do not saw the air too much with your hand, thus, but use all
gently; for in the very torrent, tempest, and, as I may say, the whirlwind of passion, you must acquire and beget a
temperance that may give it smoothness.
"""


def mlp(torch, dtype):
    nn = torch.nn
    model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 3)).to(dtype)
    x, y = torch.randn(16, 8).to(dtype), torch.randint(0, 3, (16,))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    return model, optimizer, lambda: nn.functional.cross_entropy(model(x), y)


def lenet(torch, dtype):
    nn = torch.nn
    model = nn.Sequential(
        *(nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10)),
    ).to(dtype)
    x, y = torch.randn(8, 1, 28, 28).to(dtype), torch.randint(0, 10, (8,))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    return model, optimizer, lambda: nn.functional.cross_entropy(model(x), y)


def resnet18(torch, dtype):
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self, before, after, stride):
            super().__init__()
            self.conv1 = nn.Conv2d(before, after, 3, stride, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(after)
            self.conv2 = nn.Conv2d(after, after, 3, 1, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(after)
            self.short = nn.Sequential()
            if before != after:
                self.short = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

        def forward(self, x):
            h = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
            return torch.relu(h + self.short(x))

    widths = [16, 16, 32, 64, 128]
    blocks = []
    for before, after in itertools.pairwise(widths):
        blocks += [Block(before, after, 1 if before == after else 2), Block(after, after, 1)]
    stem = [nn.Conv2d(3, 16, 7, 2, 3, bias=False), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    model = nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10)).to(dtype)
    x, y = torch.randn(8, 3, 32, 32, dtype=torch.float64).to(dtype), torch.randint(0, 10, (8,))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.002, momentum=0.9, weight_decay=5e-4, nesterov=True)
    return model, optimizer, lambda: nn.functional.cross_entropy(model(x), y)


def lstm(torch, dtype):
    nn = torch.nn
    letters = sorted(set(SPEECH))
    count = len(letters)
    parts = [
        nn.Embedding(count, 16),
        nn.LSTM(16, 24, num_layers=2, batch_first=True, dropout=0.1),
        nn.Linear(24, count),
    ]
    model = nn.ModuleList(parts).to(dtype)
    speech = torch.tensor([letters.index(letter) for letter in SPEECH])
    windows = itertools.cycle(range(0, len(SPEECH) - 4 * 16, 4 * 16))
    optimizer = torch.optim.RMSprop(model.parameters(), lr=3e-3)

    def loss():
        at = next(windows)
        text, following = (speech[start : start + 4 * 16].view(4, 16) for start in (at, at + 1))
        states, _ = model[1](model[0](text))
        return nn.functional.cross_entropy(model[2](states).flatten(0, 1), following.flatten())

    return model, optimizer, loss


def gpt(torch, dtype):
    nn = torch.nn
    width, heads, length, words = 32, 4, 12, 20

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.mlp = nn.Sequential(
                nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(0.1)
            )

        def forward(self, x):
            batch = x.shape[0]
            q, k, v = (
                t.view(batch, -1, heads, width // heads).transpose(1, 2) for t in self.qkv(self.ln1(x)).chunk(3, -1)
            )
            seen = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(seen.transpose(1, 2).reshape(batch, -1, width))
            return x + self.mlp(self.ln2(x))

    parts = [
        nn.Embedding(words, width),
        nn.Embedding(length, width),
        nn.Sequential(Block(), Block()),
        nn.LayerNorm(width),
    ]
    model = nn.ModuleList(parts).to(dtype)
    text = torch.randint(0, words, (4, length + 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95))

    def loss():
        x = model[0](text[:, :-1]) + model[1](torch.arange(length))
        logits = model[3](model[2](x)) @ model[0].weight.T
        return nn.functional.cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten())

    return model, optimizer, loss


def vae(torch, dtype):
    nn = torch.nn
    encoder = nn.Sequential(nn.Linear(24, 32), nn.Softplus(), nn.Linear(32, 8))
    decoder = nn.Sequential(nn.Linear(4, 32), nn.SiLU(), nn.Linear(32, 24))
    model = nn.ModuleList([encoder, decoder]).to(dtype)
    x = torch.rand(8, 24).to(dtype)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, amsgrad=True)

    def loss():
        mean, log_variance = encoder(x).chunk(2, 1)
        drawn = mean + (0.5 * log_variance).exp() * torch.randn(mean.shape, dtype=torch.float64).to(dtype)
        rebuilt = nn.functional.binary_cross_entropy_with_logits(decoder(drawn), x, reduction="sum")
        return (rebuilt - 0.5 * (1 + log_variance - mean**2 - log_variance.exp()).sum()) / len(x)

    return model, optimizer, loss


NETWORKS = {make.__name__: make for make in (mlp, lenet, resnet18, lstm, gpt, vae)}


def initial_weights(torch, name, seed=0):
    """The bits of the weights before the first step."""
    torch.manual_seed(seed)
    model, _, _ = NETWORKS[name](torch, torch.float32)
    return [parameter.detach().numpy().tobytes() for parameter in model.parameters()]


def losses(torch, name, dtype, steps, seed=0):
    """The losses of the first steps, from the library's own initial weights."""
    torch.manual_seed(seed)
    model, optimizer, loss = NETWORKS[name](torch, dtype)
    found = []
    for _ in range(steps):
        value = loss()
        optimizer.zero_grad()
        value.backward()
        if name == "lstm":
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        found.append(value.item())
    return found


def distance(own, torchs):
    """The largest difference between two trajectories, relative to torch's."""
    assert len(own) == len(torchs)
    return max(abs(a - b) / abs(b) if math.isfinite(a) else math.inf for a, b in zip(own, torchs))


def record(torch):
    """torch's losses: exact in float64, and with nine digits, which identify a float32 number."""
    recorded = {}
    for name in NETWORKS:
        single, double, *others = torchs(torch, name, STEPS, 0)
        apart = max(distance(other, single) for other in (double, *others))
        recorded[name] = {"float64": double, "float32": [float(f"{x:.9g}") for x in single], "apart": apart}
    lines = [f"{json.dumps(name)}: {json.dumps(values)}" for name, values in recorded.items()]
    RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def torchs(torch, name, steps, seed):
    """torch's trajectories in float32, in float64, and in float32 without oneDNN."""
    single, double = (losses(torch, name, dtype, steps, seed) for dtype in (torch.float32, torch.float64))
    with torch.backends.mkldnn.flags(enabled=False):
        return single, double, losses(torch, name, torch.float32, steps, seed)


def compare(rushlight, torch, name, steps, seed):
    """The differences for one network: float64, the first step in float32, float32, and torch with itself."""
    same = initial_weights(rushlight, name, seed) == initial_weights(torch, name, seed)
    assert same, f"{name}: the initial weights differ"
    single, double, plain = torchs(torch, name, steps, seed)
    own = losses(rushlight, name, rushlight.float32, steps, seed)
    return [
        distance(losses(rushlight, name, rushlight.float64, steps, seed), double),
        distance(own[:1], single[:1]),
        distance(own, single),
        distance(plain, single),
        distance(double, single),
    ]


if __name__ == "__main__":
    import torch

    arguments = argparse.ArgumentParser()
    arguments.add_argument("--record", action="store_true")
    arguments.add_argument("--steps", type=int, default=STEPS)
    arguments.add_argument("--seeds", type=int, default=1)
    chosen = arguments.parse_args()
    if chosen.record:
        record(torch)
    else:
        import rushlight

        print(f"{'':10s} {'rushlight from torch':>29s} {'torch from itself':>19s}   the worst of {chosen.steps} steps")
        print(f"{'network':10s} {'float64':>9s} {'first':>9s} {'float32':>9s} {'oneDNN':>9s} {'float64':>9s}")
        for name in NETWORKS:
            found = [compare(rushlight, torch, name, chosen.steps, seed) for seed in range(chosen.seeds)]
            print(f"{name:10s} " + " ".join(f"{max(column):9.1e}" for column in zip(*found)), flush=True)
