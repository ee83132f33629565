"""EXA: the example programs, in small versions on local data."""

import gzip
import itertools
import math
import subprocess
import sys
from pathlib import Path

import pytest

import rushlight as torch
import rushlight.nn.functional as F
from rushlight import nn, optim
from rushlight.utils.data import DataLoader, DistributedSampler, TensorDataset

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples"


def digits():
    """8x8 images with values between 0 and 1, and their labels."""
    with gzip.open(EXAMPLES / "digits.csv.gz", "rt") as file:
        rows = torch.tensor([[float(value) for value in line.split(",")] for line in file])
    return rows[:, :-1].reshape(-1, 1, 8, 8) / 16, rows[:, -1].long()


def descend(parameters, loss, steps, lr=0.01):
    """The losses of some steps of Adam."""
    optimizer = optim.Adam(parameters, lr)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        value = loss()
        value.backward()
        optimizer.step()
        losses.append(value.item())
    return losses


def test_exa_1_digits():
    """A network with convolutions, pooling and dropout learns to classify unseen digits."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1, self.conv2 = nn.Conv2d(1, 16, 3, padding=1), nn.Conv2d(16, 32, 3, padding=1)
            self.dropout, self.fc = nn.Dropout(0.25), nn.Linear(32 * 16, 10)

        def forward(self, x):
            x = F.max_pool2d(F.relu(self.conv2(F.relu(self.conv1(x)))), 2)
            return F.log_softmax(self.fc(self.dropout(torch.flatten(x, 1))), dim=1)

    torch.manual_seed(0)
    images, labels = digits()
    net = Net()
    optimizer = optim.Adadelta(net.parameters(), lr=1.0)
    for _ in range(10):
        for x, y in DataLoader(TensorDataset(images[:1400], labels[:1400]), batch_size=64, shuffle=True):
            optimizer.zero_grad()
            F.nll_loss(net(x), y).backward()
            optimizer.step()
    net.eval()
    with torch.no_grad():
        assert (net(images[1400:]).argmax(1) == labels[1400:]).double().mean() > 0.9


def test_exa_2_word_language_model():
    """An LSTM language model with gradient clipping: the perplexity falls far below the number of words."""
    torch.manual_seed(0)
    words = "the cat sat on the mat and the dog sat on the log while the cat saw the dog".split() * 4
    vocabulary = sorted(set(words))
    text = torch.tensor([vocabulary.index(word) for word in words])
    embedding, rnn, decoder = nn.Embedding(len(vocabulary), 16), nn.LSTM(16, 32), nn.Linear(32, len(vocabulary))
    parameters = [*embedding.parameters(), *rnn.parameters(), *decoder.parameters()]
    optimizer = optim.AdamW(parameters, lr=0.02)
    state, perplexities = None, []
    for _ in range(15):
        for start in range(0, len(text) - 19, 18):
            optimizer.zero_grad()
            output, state = rnn(embedding(text[start : start + 18]).unsqueeze(1), state)
            loss = F.cross_entropy(decoder(output.squeeze(1)), text[start + 1 : start + 19])
            loss.backward()
            nn.utils.clip_grad_norm_(parameters, 0.25)
            optimizer.step()
            state = tuple(part.detach() for part in state)
        perplexities.append(math.exp(loss.item()))
    assert perplexities[0] > 5 > 2 > perplexities[-1]


def test_exa_2_transformer():
    """The variant with a causal mask: results at early positions do not depend on later ones."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0), 2, enable_nested_tensor=False)
    mask = torch.log(torch.tril(torch.ones(5, 5)))
    x = torch.randn(5, 1, 8)
    changed = torch.cat([x[:4], torch.randn(1, 1, 8)])
    torch.testing.assert_close(layer(x, mask=mask)[:4], layer(changed, mask=mask)[:4])


class BasicBlock(nn.Module):
    """A residual block of two convolutions."""

    def __init__(self, inside, outside, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False), nn.BatchNorm2d(outside)
        self.conv2, self.bn2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False), nn.BatchNorm2d(outside)
        self.shortcut = nn.Sequential()
        if stride != 1 or inside != outside:
            self.shortcut = nn.Sequential(nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside))

    def forward(self, x):
        return F.relu(self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x))))) + self.shortcut(x))


class ResNet18(nn.Module):
    """Eight blocks in four stages; `width` is 64 in the original."""

    def __init__(self, classes, width=8):
        super().__init__()
        widths = [width, width, 2 * width, 4 * width, 8 * width]
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
        )
        self.stages = nn.Sequential(
            *(
                nn.Sequential(BasicBlock(a, b, 1 + (number > 0)), BasicBlock(b, b, 1))
                for number, (a, b) in enumerate(itertools.pairwise(widths))
            )
        )
        self.fc = nn.Linear(8 * width, classes)

    def forward(self, x):
        return self.fc(F.adaptive_avg_pool2d(self.stages(self.stem(x)), 1).flatten(1))


def test_exa_3_residual_network():
    """ResNet-18 in the original width has 11 689 512 parameters. A narrow one is trained as one of two processes would."""
    assert sum(p.numel() for p in ResNet18(1000, 64).parameters()) == 11_689_512
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(16, 3, 32, 32), torch.randint(0, 4, (16,)))
    sampler = DistributedSampler(data, num_replicas=2, rank=0)
    model = ResNet18(4)
    optimizer = optim.SGD(model.parameters(), 0.02, momentum=0.9, weight_decay=1e-4)
    scheduler = optim.lr_scheduler.StepLR(optimizer, step_size=6, gamma=0.1)
    losses = []
    for epoch in range(8):
        sampler.set_epoch(epoch)
        for x, y in DataLoader(data, batch_size=8, sampler=sampler):
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        scheduler.step()
    assert losses[-1] < losses[0] / 2
    assert scheduler.get_last_lr() == [pytest.approx(0.002)]


def train_in_parts(rank, size, images, targets):
    """Trains a residual network on a part of the images, and returns the losses of all parts together."""
    torch.manual_seed(0)
    # The layers of batch normalisation use the statistics of the whole batch.
    model = nn.parallel.DistributedDataParallel(nn.SyncBatchNorm.convert_sync_batchnorm(ResNet18(4).double()))
    optimizer = optim.SGD(model.parameters(), 0.02, momentum=0.9, weight_decay=1e-4)
    part = slice(rank * len(images) // size, (rank + 1) * len(images) // size)
    losses = []
    for _ in range(4):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images[part]), targets[part])
        loss.backward()
        optimizer.step()
        torch.distributed.all_reduce(loss.detach_(), torch.distributed.ReduceOp.AVG)
        losses.append(loss.item())
    return losses


def test_exa_3_distributed(ranks):
    """Two processes train the same network as one, each on half of the images."""
    torch.manual_seed(0)
    images, targets = torch.randn(8, 3, 32, 32, dtype=torch.float64), torch.arange(8) % 4
    torch.manual_seed(0)
    model = ResNet18(4).double()
    optimizer = optim.SGD(model.parameters(), 0.02, momentum=0.9, weight_decay=1e-4)
    expected = []
    for _ in range(4):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), targets)
        loss.backward()
        optimizer.step()
        expected.append(loss.item())
    assert expected[-1] < expected[0]
    first, second = ranks(train_in_parts, 2, 2, images, targets)
    assert first == second == pytest.approx(expected, rel=1e-9)


def test_exa_4_dcgan():
    """A generator with transposed convolutions and a critic with strided ones are trained against each other."""
    torch.manual_seed(0)
    generator = nn.Sequential(
        nn.ConvTranspose2d(8, 16, 4, 1, 0, bias=False), nn.BatchNorm2d(16), nn.ReLU(True),
        nn.ConvTranspose2d(16, 1, 4, 2, 1, bias=False), nn.Tanh(),
    )  # fmt: skip
    critic = nn.Sequential(
        nn.Conv2d(1, 16, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, inplace=True),
        nn.Conv2d(16, 1, 4, 1, 0, bias=False), nn.Sigmoid(), nn.Flatten(0),
    )  # fmt: skip
    for module in (*generator, *critic):
        if "Conv" in type(module).__name__:
            nn.init.normal_(module.weight, 0.0, 0.02)
    optimizers = [optim.Adam(net.parameters(), lr=2e-3, betas=(0.5, 0.999)) for net in (generator, critic)]
    criterion, real = nn.BCELoss(), digits()[0][:64] * 2 - 1
    ones, zeros, noise = torch.ones(64), torch.zeros(64), torch.randn(64, 8, 1, 1)
    assert generator(noise).shape == real.shape

    def criticise():
        return criterion(critic(real), ones) + criterion(critic(generator(noise).detach()), zeros)

    start = criticise().item()
    assert start == pytest.approx(2 * math.log(2), abs=0.1)
    for _ in range(40):
        optimizers[1].zero_grad()
        criticise().backward()
        optimizers[1].step()
    assert criticise().item() < start / 2
    fooled = criterion(critic(generator(noise)), ones).item()
    for _ in range(40):
        optimizers[0].zero_grad()
        criterion(critic(generator(noise)), ones).backward()
        optimizers[0].step()
    assert criterion(critic(generator(noise)), ones).item() < fooled / 2


def test_exa_5_variational_autoencoder():
    """A variational autoencoder: codes are sampled with gradients, and the bound of the likelihood improves."""

    class VAE(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc1, self.mean, self.logvar = nn.Linear(64, 32), nn.Linear(32, 4), nn.Linear(32, 4)
            self.fc3, self.fc4 = nn.Linear(4, 32), nn.Linear(32, 64)

        def forward(self, x):
            h = F.relu(self.fc1(x))
            mean, logvar = self.mean(h), self.logvar(h)
            std = torch.exp(0.5 * logvar)
            z = mean + torch.randn_like(std) * std
            return torch.sigmoid(self.fc4(F.relu(self.fc3(z)))), mean, logvar

    torch.manual_seed(0)
    net, x = VAE(), digits()[0][:128].flatten(1)

    def loss():
        found, mean, logvar = net(x)
        divergence = -0.5 * torch.sum(1 + logvar - mean.pow(2) - logvar.exp())
        return (F.binary_cross_entropy(found, x, reduction="sum") + divergence) / len(x)

    losses = descend(net.parameters(), loss, 150)
    assert losses[0] > 40 and losses[-1] < 30


class SuperResolution(nn.Module):
    """A super-resolution network, whose last layer is a pixel shuffle."""

    def __init__(self, factor):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 16, 3, 1, 1), nn.Conv2d(16, factor**2, 3, 1, 1)
        self.relu, self.shuffle = nn.ReLU(), nn.PixelShuffle(factor)
        nn.init.orthogonal_(self.conv1.weight, nn.init.calculate_gain("relu"))
        nn.init.orthogonal_(self.conv2.weight)

    def forward(self, x):
        return self.shuffle(self.conv2(self.relu(self.conv1(x))))


def test_exa_6_super_resolution(tmp_path):
    """Downsampled images are restored. The whole model is saved, and loaded with its classes on the list of safe globals."""
    torch.manual_seed(0)
    large = digits()[0][:64]
    small = F.avg_pool2d(large, 2)
    net = SuperResolution(2)
    flat = net.conv1.weight.detach().reshape(16, 9)
    torch.testing.assert_close(flat.mT @ flat, 2 * torch.eye(9), atol=1e-5, rtol=0)
    losses = descend(net.parameters(), lambda: F.mse_loss(net(small), large), 60)
    assert losses[-1] < losses[0] / 4 and net(small).shape == large.shape
    torch.save(net, tmp_path / "model.pth")
    classes = [SuperResolution, nn.Conv2d, nn.ReLU, nn.PixelShuffle]
    with torch.serialization.safe_globals(classes):
        found = torch.load(tmp_path / "model.pth")
    assert torch.equal(found(small), net(small))


def test_exa_7_neural_style():
    """A network with reflection padding and instance normalisation learns an image's style, measured by a fixed network."""

    def gram(features):
        n, c, h, w = features.shape
        flat = features.reshape(n, c, h * w)
        return flat @ flat.mT / (c * h * w)

    torch.manual_seed(0)
    net = nn.Sequential(
        nn.ReflectionPad2d(1), nn.Conv2d(3, 8, 3, 2), nn.InstanceNorm2d(8, affine=True), nn.ReLU(),
        nn.Upsample(scale_factor=2), nn.ReflectionPad2d(1), nn.Conv2d(8, 3, 3),
    )  # fmt: skip
    vgg = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3), nn.ReLU()).requires_grad_(
        False
    )
    content = F.interpolate(torch.rand(1, 3, 8, 8), scale_factor=2, mode="bilinear")
    style = gram(vgg(torch.rand(1, 3, 16, 16)))
    assert net(content).shape == content.shape
    wanted = vgg(content)

    def loss():
        features = vgg(net(content))
        return F.mse_loss(features, wanted) + 1e3 * F.mse_loss(gram(features), style)

    losses = descend(net.parameters(), loss, 60)
    assert losses[-1] < losses[0] / 4


class CartPole:
    """A pole on a cart that is pushed to the left or right, until it falls."""

    def reset(self):
        self.state = (torch.rand(4) * 0.1 - 0.05).tolist()
        return torch.tensor(self.state)

    def step(self, action):
        x, v, angle, turn = self.state
        push = (10.0 if action else -10.0) + 0.05 * turn**2 * math.sin(angle)
        cos, sin = math.cos(angle), math.sin(angle)
        bend = (9.8 * sin - cos * push / 1.1) / (0.5 * (4 / 3 - 0.1 * cos**2 / 1.1))
        speed = push / 1.1 - 0.05 * bend * cos / 1.1
        self.state = [x + 0.02 * v, v + 0.02 * speed, angle + 0.02 * turn, turn + 0.02 * bend]
        return torch.tensor(self.state), abs(self.state[0]) > 2.4 or abs(self.state[2]) > 0.2095


def test_exa_8_actor_and_critic():
    """Policy gradients: the pole stands longer after training."""
    torch.manual_seed(0)
    body, actor, critic = nn.Linear(4, 64), nn.Linear(64, 2), nn.Linear(64, 1)
    optimizer = optim.Adam([*body.parameters(), *actor.parameters(), *critic.parameters()], lr=0.02)
    world, lengths = CartPole(), []
    for _ in range(70):
        state, fallen, steps = world.reset(), False, []
        while not fallen and len(steps) < 150:
            h = F.relu(body(state))
            choice = torch.distributions.Categorical(F.softmax(actor(h), dim=-1))
            action = choice.sample()
            state, fallen = world.step(action.item())
            steps.append((choice.log_prob(action), critic(h)))
        returns, total = [], 0.0
        for _ in steps:
            total = 1 + 0.99 * total
            returns.insert(0, total)
        returns = torch.tensor(returns)
        returns = (returns - returns.mean()) / (returns.std() + 1e-6)
        losses = [
            -log * (wanted - value.item()) + F.smooth_l1_loss(value, wanted.reshape(1))
            for (log, value), wanted in zip(steps, returns)
        ]
        optimizer.zero_grad()
        torch.stack(losses).sum().backward()
        optimizer.step()
        lengths.append(len(steps))
    assert sum(lengths[-15:]) > 1.5 * sum(lengths[:15])


def test_exa_9_entailment():
    """Two sentences through one LSTM, in packed batches of words with fixed vectors: classifies whether they contradict."""
    torch.manual_seed(0)
    nouns, verbs = ["dog", "cat", "man", "girl"], ["sleeps", "runs", "sings"]
    pairs = [((a, v), ("the", b, w), int((a, v) == (b, w))) for a in nouns for v in verbs for b in nouns for w in verbs]
    vocabulary = ["<pad>", "the", *nouns, *verbs]
    vectors = nn.Embedding.from_pretrained(torch.randn(len(vocabulary), 16), freeze=True, padding_idx=0)
    rnn, out = nn.LSTM(16, 24, batch_first=True), nn.Linear(48, 2)

    def encode(sentences):
        rows = [torch.tensor([vocabulary.index(word) for word in sentence]) for sentence in sentences]
        padded = nn.utils.rnn.pad_sequence(rows, batch_first=True)
        packed = nn.utils.rnn.pack_padded_sequence(vectors(padded), [len(row) for row in rows], True, False)
        return rnn(packed)[1][0][-1]

    labels = torch.tensor([label for _, _, label in pairs])

    def scores():
        left, right = encode([pair[0] for pair in pairs]), encode([pair[1] for pair in pairs])
        return out(torch.cat([left * right, (left - right).abs()], 1))

    weight = torch.tensor([1.0, 11.0])
    descend([*rnn.parameters(), *out.parameters()], lambda: F.cross_entropy(scores(), labels, weight), 60, 0.02)
    assert (scores().argmax(1) == labels).double().mean() > 0.95


def test_exa_10_sine_waves():
    """LSTM cells in float64 learn to continue waves, with an optimizer that evaluates its closure several times."""

    class Sequence(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm1, self.lstm2, self.linear = nn.LSTMCell(1, 8), nn.LSTMCell(8, 8), nn.Linear(8, 1)

        def forward(self, x, future=0):
            states, outputs = [None, None], []
            steps = [*x.split(1, dim=1), *[None] * future]
            for step in steps:
                states[0] = self.lstm1(outputs[-1] if step is None else step, states[0])
                states[1] = self.lstm2(states[0][0], states[1])
                outputs.append(self.linear(states[1][0]))
            return torch.cat(outputs, dim=1)

    torch.manual_seed(0)
    net = Sequence().double()
    waves = torch.sin(torch.arange(30, dtype=torch.float64) / 3 + torch.arange(6).unsqueeze(1))
    optimizer = optim.LBFGS(net.parameters(), lr=0.8, max_iter=10)

    def closure():
        optimizer.zero_grad()
        loss = F.mse_loss(net(waves[:, :-1]), waves[:, 1:])
        loss.backward()
        return loss

    losses = [optimizer.step(closure).item() for _ in range(6)]
    assert losses[-1] < losses[0] / 10
    with torch.no_grad():
        assert net(waves[:, :10], future=5).shape == (6, 15)


def test_exa_11_hogwild(tmp_path):
    """The example program: two processes train one classifier without locks."""
    command = [sys.executable, EXAMPLES / "hogwild_digits.py", "--processes", "2", "--epochs", "30", "--out", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout.split("held-out accuracy ")[1].split()[0]) > 90
    assert torch.load(tmp_path / "model.pt")


def test_exa_12_fine_tuning():
    """Only a new last layer of a trained network is trained. Everything else stays unchanged."""
    torch.manual_seed(0)
    model = ResNet18(10).eval()
    for parameter in model.parameters():
        parameter.requires_grad = False
    model.fc = nn.Linear(64, 4)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    x, y = torch.randn(8, 3, 32, 32), torch.arange(8) % 4
    losses = descend(model.fc.parameters(), lambda: F.cross_entropy(model(x), y), 150, 0.05)
    assert losses[-1] < losses[0] / 2
    changed = {name for name, value in model.state_dict().items() if not torch.equal(value, before[name])}
    assert changed == {"fc.weight", "fc.bias"}
