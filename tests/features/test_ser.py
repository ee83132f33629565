"""SER: saving and loading."""

import collections
import io
import pickle
import zipfile
from pathlib import Path

import pytest

import rushlight as torch
from rushlight import nn

DATA = Path(__file__).resolve().parent.parent / "data"


def saved(value, **options):
    file = io.BytesIO()
    torch.save(value, file, **options)
    file.seek(0)
    return file


def test_ser_1_torchs_file():
    """A file of torch is read, and a written file has the same entries and the same pickle."""
    state = torch.load(DATA / "linear.pt")
    assert {name: tuple(value.shape) for name, value in state.items()} == {"weight": (2, 3), "bias": (2,)}
    with zipfile.ZipFile(saved(state)) as ours, zipfile.ZipFile(DATA / "linear.pt") as theirs:
        names = [name.split("/", 1)[1] for name in theirs.namelist()]
        assert [name.split("/", 1)[1] for name in ours.namelist()] == names
        assert ours.read("archive/data.pkl") == theirs.read("linear/data.pkl")
        assert ours.read("archive/data/0") == theirs.read("linear/data/0")


def test_ser_1_the_format_before_1_6():
    """The legacy format without an archive is read too."""
    with pytest.raises(zipfile.BadZipFile):
        zipfile.ZipFile(DATA / "legacy.pt")
    assert torch.load(DATA / "legacy.pt")


def test_ser_1_structures_and_options(tmp_path):
    """Nested containers, file objects, another device, and a mapped file."""
    value = collections.OrderedDict(a=[torch.arange(3), (1, "x")], b={"c": torch.ones(2, 2).half()})
    found = torch.load(saved(value))
    assert type(found) is collections.OrderedDict and list(found) == ["a", "b"]
    assert found["a"][0].tolist() == [0, 1, 2] and found["a"][1] == (1, "x")
    assert found["b"]["c"].dtype == torch.float16
    path = tmp_path / "file.pt"
    torch.save(value, path)
    assert torch.equal(torch.load(path, mmap=True)["a"][0], value["a"][0])
    assert torch.load(path, map_location="meta")["a"][0].device.type == "meta"
    assert torch.equal(torch.load(str(path), map_location=torch.device("cpu"))["a"][0], value["a"][0])


def test_ser_2_states_of_models():
    """The recommended way: the state of one model is loaded into another, bit for bit."""
    first, second = (nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)) for _ in range(2))
    first(torch.randn(5, 3))
    report = second.load_state_dict(torch.load(saved(first.state_dict())))
    assert repr(report) == "<All keys matched successfully>"
    for name, value in first.state_dict().items():
        assert torch.equal(value, second.state_dict()[name]), name
    x = torch.randn(5, 3)
    assert torch.equal(first.eval()(x), second.eval()(x))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2, 1)

    def forward(self, x):
        return self.fc(x)


def test_ser_3_whole_models():
    """A whole model is a pickle that refers to its class. It is loaded only if this is explicitly allowed."""
    net = Net()
    file = saved(net)
    with pytest.raises(pickle.UnpicklingError, match="Net"):
        torch.load(file)
    file.seek(0)
    found = torch.load(file, weights_only=False)
    assert type(found) is Net
    assert torch.equal(found(torch.ones(1, 2)), net(torch.ones(1, 2)))
    file.seek(0)
    assert Net.__module__.encode() in zipfile.ZipFile(file).read("archive/data.pkl")


def test_ser_4_views_stay_views():
    """Tensors that share a storage share it in the file and after loading."""
    numbers = torch.arange(1, 10)
    evens = numbers[1::2]
    file = saved([numbers, evens])
    with zipfile.ZipFile(file) as archive:
        assert [name for name in archive.namelist() if "/data/" in name] == ["archive/data/0"]
    file.seek(0)
    numbers, evens = torch.load(file)
    evens *= 2
    assert numbers.tolist() == [1, 4, 3, 8, 5, 12, 7, 16, 9]


def test_ser_5_small_views_of_large_storages():
    """Saving a view saves its whole storage; a clone or `compact=True` saves only its elements."""
    small = torch.zeros(1000)[:5]
    assert len(saved(small).getvalue()) > 4000
    for file in (saved(small.clone()), saved(small, compact=True)):
        assert len(file.getvalue()) < 4000
        assert torch.load(file).tolist() == [0.0] * 5
    assert torch.load(saved(small)).untyped_storage().nbytes() == 4000


class Evil:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def test_ser_6_loading_executes_nothing(tmp_path):
    """A file that would run a function is rejected with the name of the function, which has not run."""
    trace = tmp_path / "trace"
    with pytest.raises(pickle.UnpicklingError, match="weights_only"):
        torch.load(saved({"weights": torch.ones(1), "more": Evil(trace)}))
    assert not trace.exists()
    torch.load(saved(Evil(trace)), weights_only=False)
    assert trace.exists(), "the file was a danger indeed"
