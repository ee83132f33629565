"""`torch.hub`: models of folders, and downloads."""

import hashlib
import io
import os
import sys
from urllib.error import URLError

import pytest

import rushlight as torch

HUBCONF = """
dependencies = ["os"]
from helper_of_the_folder import thing

def net(n=1, **options):
    "Makes a net."
    return thing(n), options

def _private():
    pass

value = 3
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "hubconf.py").write_text(HUBCONF)
    (tmp_path / "helper_of_the_folder.py").write_text("def thing(n): return 'thing', n\n")
    yield tmp_path
    sys.modules.pop("helper_of_the_folder", None)


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setattr(torch.hub, "_folder", None)
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def state(tmp_path):
    path = tmp_path / "state.pt"
    torch.save({"weight": torch.ones(2)}, path)
    return path


def test_folders(folder):
    assert torch.hub.load(folder, "net", 3, x=1, source="local") == (("thing", 3), {"x": 1})
    assert torch.hub.list(folder) == ["thing", "net"] and torch.hub.help(str(folder), "net") == "Makes a net."
    assert str(folder) not in sys.path and "hubconf" not in sys.modules


def test_folders_that_do_not_fit(folder, tmp_path):
    for name in ("nothing", "value"):
        with pytest.raises(RuntimeError, match=f"Cannot find callable {name} in hubconf"):
            torch.hub.load(folder, name, source="local")
    with pytest.raises(ValueError, match="Invalid input: model should be a string of function name"):
        torch.hub.load(folder, 3, source="local")
    with pytest.raises(ValueError, match='Unknown source: "web". Allowed values: "github" | "local".'):
        torch.hub.load(folder, "net", source="web")
    (folder / "hubconf.py").write_text("dependencies = ['no_such_a', 'os', 'no_such_b']\ndef net(): pass\n")
    with pytest.raises(RuntimeError, match="Missing dependencies: no_such_a, no_such_b"):
        torch.hub.load(folder, "net", source="local")
    (folder / "hubconf.py").unlink()
    with pytest.raises(FileNotFoundError, match="hubconf.py"):
        torch.hub.load(folder, "net", source="local")
    assert str(folder) not in sys.path


def test_repositories_are_not_downloaded():
    for call in (
        lambda: torch.hub.load("owner/name", "net"),
        lambda: torch.hub.list("owner/name"),
        lambda: torch.hub.help("owner/name", "net"),
    ):
        with pytest.raises(NotImplementedError, match="torch.hub does not download repositories here"):
            call()


def test_the_folder_for_downloads(home, monkeypatch):
    assert torch.hub.get_dir() == str(home / "hub")
    monkeypatch.delenv("TORCH_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert torch.hub.get_dir() == "/cache/torch/hub"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert torch.hub.get_dir() == os.path.expanduser("~/.cache/torch/hub")
    torch.hub.set_dir("~/models")
    assert torch.hub.get_dir() == os.path.expanduser("~/models")


def test_downloads(state, tmp_path, capsys):
    content = state.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    target = tmp_path / "copy.pt"
    torch.hub.download_url_to_file(state.as_uri(), str(target), hash_prefix=digest[:8])
    assert target.read_bytes() == content and "100%" in capsys.readouterr().err
    plain = tmp_path / "plain"
    plain.touch()
    assert target.stat().st_mode == plain.stat().st_mode
    before = sorted(tmp_path.iterdir())
    with pytest.raises(RuntimeError) as caught:
        torch.hub.download_url_to_file(
            state.as_uri(), str(tmp_path / "other.pt"), hash_prefix="00000000", progress=False
        )
    assert str(caught.value) == f'invalid hash value (expected "00000000", got "{digest}")'
    with pytest.raises(URLError):
        torch.hub.download_url_to_file((tmp_path / "absent").as_uri(), str(tmp_path / "other.pt"), progress=False)
    assert sorted(tmp_path.iterdir()) == before and capsys.readouterr().err == ""


def test_parameters_are_downloaded_once(state, home, capsys):
    loaded = torch.hub.load_state_dict_from_url(state.as_uri(), progress=False)
    saved = home / "hub" / "checkpoints" / "state.pt"
    assert loaded["weight"].tolist() == [1, 1]
    assert capsys.readouterr().err == f'Downloading: "{state.as_uri()}" to {saved}\n'
    torch.save({"weight": torch.zeros(1)}, saved)
    again = torch.utils.model_zoo.load_url(state.as_uri(), progress=False, weights_only=True, map_location="cpu")
    assert again["weight"].tolist() == [0] and capsys.readouterr().err == ""


def test_hashes_in_names(home, tmp_path):
    buffer = io.BytesIO()
    torch.save([1], buffer)
    for prefix, fits in ((hashlib.sha256(buffer.getvalue()).hexdigest()[:8], True), ("0" * 8, False)):
        path = tmp_path / f"net-{prefix}.pth"
        path.write_bytes(buffer.getvalue())
        if fits:
            assert torch.hub.load_state_dict_from_url(path.as_uri(), progress=False, check_hash=True) == [1]
        else:
            with pytest.raises(RuntimeError, match="invalid hash value"):
                torch.hub.load_state_dict_from_url(path.as_uri(), progress=False, check_hash=True)
            other = torch.hub.load_state_dict_from_url(
                path.as_uri(), str(tmp_path / "own"), progress=False, file_name="n.pt"
            )
            assert other == [1] and (tmp_path / "own" / "n.pt").exists()
