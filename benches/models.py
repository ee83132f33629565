"""Training steps for `timing.py`: each function takes the engine and returns a step, a function without arguments.

The data are the digits of the example and the text of the licence, which every checkout has.
"""

import gzip
import itertools
import random
from pathlib import Path

HERE = Path(__file__).resolve().parent


def digits(torch, size):
    """Enlarged images with one channel, and their labels."""
    with gzip.open(HERE.parent / "examples" / "digits.csv.gz", "rt") as lines:
        rows = [[float(field) for field in line.split(",")] for line in lines]
    table = torch.tensor(rows)
    images = table[:, :64].reshape(-1, 1, 8, 8) / 16
    return torch.nn.functional.interpolate(images, size=(size, size)), table[:, 64].to(torch.int64)


def text(torch):
    """A text as character codes, and the number of different characters."""
    characters = (HERE.parent / "LICENSE-APACHE").read_text()
    known = {character: number for number, character in enumerate(sorted(set(characters)))}
    return torch.tensor([known[character] for character in characters]), len(known)


def passages(torch, batch, length):
    """Batches of passages, and the next character for each character in them."""
    numbers, count = text(torch)
    draw = random.Random(0)
    found = []
    for _ in range(8):
        starts = [draw.randrange(len(numbers) - length - 1) for _ in range(batch)]
        rows = torch.stack([numbers[start : start + length + 1] for start in starts])
        found.append((rows[:, :-1].contiguous(), rows[:, 1:].reshape(-1)))
    return found, count


def batches(images, labels, size):
    return [(images[at : at + size], labels[at : at + size]) for at in range(0, 8 * size, size)]


def trainer(torch, model, optimizer, data, clip=None):
    """A training step. Each call uses the next batch. The ranks of a process group average their gradients."""
    if torch.distributed.is_initialized():
        model = torch.nn.parallel.DistributedDataParallel(model)
    done = 0

    def step():
        nonlocal done
        inputs, targets = data[done % len(data)]
        done += 1
        optimizer.zero_grad()
        out = model(inputs)
        torch.nn.functional.cross_entropy(out.reshape(-1, out.shape[-1]), targets).backward()
        if clip is not None:
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()

    return step


def mlp(torch, widths, batch):
    torch.manual_seed(0)
    layers = []
    for before, after in itertools.pairwise(widths):
        layers += [torch.nn.Linear(before, after), torch.nn.ReLU()]
    model = torch.nn.Sequential(torch.nn.Flatten(), *layers[:-1])
    images, labels = digits(torch, round(widths[0] ** 0.5))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    return trainer(torch, model, optimizer, batches(images, labels, batch))


def lenet(torch, batch):
    torch.manual_seed(0)
    nn = torch.nn
    model = nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
    )  # fmt: skip
    images, labels = digits(torch, 28)
    return trainer(torch, model, torch.optim.Adam(model.parameters()), batches(images, labels, batch))


def lstm(torch, width, batch, length):
    """A language model over characters with two LSTM layers."""
    torch.manual_seed(0)
    data, count = passages(torch, batch, length)

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = torch.nn.Embedding(count, width)
            self.lstm = torch.nn.LSTM(width, width, num_layers=2, batch_first=True)
            self.out = torch.nn.Linear(width, count)

        def forward(self, characters):
            return self.out(self.lstm(self.embedding(characters))[0])

    model = Model()
    return trainer(torch, model, torch.optim.Adam(model.parameters(), lr=0.002), data, clip=0.25)


def gpt(torch, width, heads, depth, batch, length):
    """A small transformer over characters."""
    torch.manual_seed(0)
    nn = torch.nn
    data, count = passages(torch, batch, length)

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
            self.inputs, self.output = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

        def attend(self, x):
            parts = (part.view(*x.shape[:2], heads, -1).transpose(1, 2) for part in self.inputs(x).split(width, 2))
            mixed = nn.functional.scaled_dot_product_attention(*parts, is_causal=True)
            return self.output(mixed.transpose(1, 2).reshape(x.shape))

        def forward(self, x):
            x = x + self.attend(self.first(x))
            return x + self.mlp(self.second(x))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.places = nn.Embedding(count, width), nn.Embedding(length, width)
            self.layers = nn.Sequential(*(Layer() for _ in range(depth)), nn.LayerNorm(width))
            self.head = nn.Linear(width, count, bias=False)

        def forward(self, characters):
            x = self.tokens(characters) + self.places(torch.arange(characters.shape[1]))
            return self.head(self.layers(x))

    model = Model()
    return trainer(torch, model, torch.optim.AdamW(model.parameters()), data, clip=1.0)


def resnet(torch, batch, size):
    """ResNet-18: a stem, four stages of two blocks, a classifier."""
    torch.manual_seed(0)
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self, before, after):
            super().__init__()
            stride = 1 if before == after else 2
            self.main = nn.Sequential(
                nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after), nn.ReLU(),
                nn.Conv2d(after, after, 3, 1, 1, bias=False), nn.BatchNorm2d(after),
            )  # fmt: skip
            shortcut = [nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after)]
            self.shortcut = nn.Sequential(*(shortcut if stride == 2 else []))

        def forward(self, x):
            return torch.relu(self.main(x) + self.shortcut(x))

    widths = [64, 64, 64, 128, 128, 256, 256, 512, 512]
    model = nn.Sequential(
        nn.Conv2d(1, 64, 3, padding=1, bias=False), nn.BatchNorm2d(64), nn.ReLU(),
        *(Block(*pair) for pair in itertools.pairwise(widths)),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10),
    )  # fmt: skip
    images, labels = digits(torch, size)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    return trainer(torch, model, optimizer, batches(images, labels, batch))


def optimizer(torch, name, **options):
    """An optimizer step alone, for ten million parameters in 73 tensors."""
    torch.manual_seed(0)
    parameters = []
    for shape in [(512, 512)] * 36 + [(512,)] * 36 + [(1000, 512)]:
        parameters.append(torch.nn.Parameter(torch.randn(*shape)))
        parameters[-1].grad = torch.randn(*shape)
    return getattr(torch.optim, name)(parameters, **options).step
