"""Files are replaced atomically, even if a process is killed."""

import contextlib
import errno
import io
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

import rushlight as torch
from rushlight import npz, safetensors
from rushlight.serialization import load, save


def test_a_file_is_replaced_at_once(tmp_path):
    path = tmp_path / "model.pt"
    save({"a": 1}, path)
    path.chmod(0o640)

    class Unpicklable:
        def __reduce__(self):
            raise ValueError("no")

    with pytest.raises(ValueError, match=r"no"):
        save({"a": Unpicklable()}, path)
    assert load(path) == {"a": 1}
    save({"a": 2}, path)
    assert load(path) == {"a": 2} and stat.S_IMODE(path.stat().st_mode) == 0o640
    assert os.listdir(tmp_path) == ["model.pt"]
    before = os.umask(0o027)
    save(1, tmp_path / "new.pt")
    os.umask(before)
    assert stat.S_IMODE((tmp_path / "new.pt").stat().st_mode) == 0o640
    link = tmp_path / "latest.pt"
    link.symlink_to(path)
    save({"a": 3}, link)
    assert link.is_symlink() and load(path) == {"a": 3}


_SAVING = """
import os, sys
import rushlight as torch

if sys.argv[2] == "named":
    os.O_TMPFILE = 0  # as on file systems where every file has a name
value = torch.ones(2_000_000)
print(flush=True)
while True:
    torch.save(value, sys.argv[1])
"""


def savers():
    """By name: a function that writes a tensor to a path, and one that reads its bytes."""
    return {
        "zip": (save, lambda content: load(io.BytesIO(content))),
        "safetensors": (
            lambda x, path: safetensors.save_file({"x": x}, path),
            lambda content: safetensors.load(content)["x"],
        ),
        "npz": (lambda x, path: npz.save_file({"x": x}, path), lambda content: npz.load(content)["x"]),
    }


@pytest.mark.parametrize("kind", savers())
def test_what_a_process_holds_open_is_written_to(tmp_path, kind):
    """Files of any kind: in memory, removed, a pipe, a device."""
    write, read = savers()[kind]
    value = torch.arange(3.0)
    with open(os.memfd_create("held"), "rb") as held:
        write(value, f"/proc/self/fd/{held.fileno()}")
        assert torch.equal(read(held.read()), value)
    with open(tmp_path / "gone", "w+b") as gone:
        (tmp_path / "gone").unlink()
        write(value, f"/dev/fd/{gone.fileno()}")
        assert torch.equal(read(gone.read()), value)
    ours, theirs = os.pipe()
    with open(ours, "rb") as pipe:
        write(value, f"/dev/fd/{theirs}")
        os.close(theirs)
        assert torch.equal(read(pipe.read()), value)
    write(value, os.devnull)
    assert os.listdir(tmp_path) == []


_AS_NOBODY = """
import io, os, sys
import rushlight as torch
folder = sys.argv[1]
file = io.BytesIO()
torch.save(torch.ones(2), file)
torch.load(io.BytesIO(file.getvalue()))  # all of the package, while it can be read
if os.geteuid() == 0:
    os.setgid(65534), os.setuid(65534)
for name in sys.argv[2:]:
    try:
        torch.save(torch.ones(2), f"{folder}/{name}")
        print(torch.load(f"{folder}/{name}").tolist())
    except PermissionError as error:
        print(error.filename == f"{folder}/{name}")
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has files of others")
def test_rights_are_those_of_files():
    """A writable file can be saved to, in any folder. A read-only file cannot."""
    with tempfile.TemporaryDirectory() as folder:
        check_rights(Path(folder))


def check_rights(tmp_path):
    for folder, mode in (("closed", 0o555), ("sticky", 0o1777), ("blind", 0o333)):
        (tmp_path / folder).mkdir()
        for name, rights in (("open", 0o666), ("shut", 0o444)):
            torch.save(1, tmp_path / folder / name)
            (tmp_path / folder / name).chmod(rights)
        (tmp_path / folder).chmod(mode)
    tmp_path.chmod(0o755)
    paths = [f"{folder}/{name}" for folder in ("closed", "sticky", "blind") for name in ("open", "shut")]
    done = subprocess.run(
        [sys.executable, "-c", _AS_NOBODY, tmp_path, *paths, "closed/new", "blind/new"], capture_output=True, text=True
    )
    written, refused = "[1.0, 1.0]", "True"
    assert done.stdout.split("\n")[:-1] == [written, refused] * 3 + [refused, written], done.stderr
    assert sorted(path.name for path in (tmp_path / "sticky").iterdir()) == ["open", "shut"]


def test_what_is_replaced_keeps_its_owner_and_attributes(tmp_path):
    path = tmp_path / "file.pt"
    save(1, path)
    if os.geteuid() == 0:
        os.chown(path, 1000, 1001)
    before = path.stat()
    with contextlib.suppress(OSError):  # not supported by every file system
        os.setxattr(path, "user.note", b"kept")
    marks = os.listxattr(path)
    save(2, path)
    assert (path.stat().st_uid, path.stat().st_gid) == (before.st_uid, before.st_gid) and os.listxattr(path) == marks


def test_a_path_is_that_of_the_call(tmp_path, monkeypatch):
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path)

    class Moves:
        def __reduce__(self):
            os.chdir("below")
            return int, ()

    save(Moves(), "file.pt")
    assert load(tmp_path / "file.pt", weights_only=False) == 0
    with pytest.raises(RuntimeError, match="invalid file name"):
        save(1, "new/")


@pytest.mark.parametrize("kind", ["nameless", "named"])
def test_a_kill_while_saving_leaves_a_whole_file(tmp_path, kind):
    path = tmp_path / "file.pt"
    save(torch.zeros(2), path)
    for pause in (0, 0.01, 0.05):
        with subprocess.Popen([sys.executable, "-c", _SAVING, path, kind], stdout=subprocess.PIPE) as writer:
            writer.stdout.readline()
            time.sleep(pause)
            writer.kill()
        assert load(path).shape in ((2,), (2_000_000,))
        assert len({file.name for file in tmp_path.iterdir()} - {"file.pt"}) <= 1
    save(1, path)
    assert load(path) == 1 and os.listdir(tmp_path) == ["file.pt"]


_KILLED_LAST = """
import os, sys
import rushlight as torch

os.replace = lambda *_, **__: os.kill(os.getpid(), 9)
torch.save(2, sys.argv[1])
"""


def test_only_what_a_kill_left_is_removed(tmp_path):
    path, own = tmp_path / "file.pt", tmp_path / ".file.pt.rushlight"
    own.write_text("mine")
    for _ in range(2):  # the second finds the leftovers of the first
        subprocess.run([sys.executable, "-c", _KILLED_LAST, path])
        assert own.exists() and len(os.listdir(tmp_path)) == 2
    save(1, path)
    assert load(path) == 1 and own.read_text() == "mine" and len(os.listdir(tmp_path)) == 2


@pytest.mark.parametrize("name", ["x" * 256, "/proc/new.pt"])
def test_errors_name_the_path_of_the_call(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OSError) as error:
        save(1, name)
    assert os.path.basename(error.value.filename) == os.path.basename(name)


def test_processes_that_save_at_one_place_do_not_meet(tmp_path):
    path = tmp_path / "file.pt"
    program = _SAVING.replace("while True", "for _ in range(20)").replace("2_000_000", "1_000")
    writers = [subprocess.Popen([sys.executable, "-c", program, path, kind]) for kind in ("named", "nameless") * 2]
    assert [writer.wait() for writer in writers] == [0] * 4
    assert load(path).shape == (1000,) and os.listdir(tmp_path) == ["file.pt"]


@pytest.mark.parametrize("code", [errno.EBUSY, errno.EXDEV, errno.EACCES])
@pytest.mark.parametrize("named", [False, True])
def test_a_file_that_cannot_be_replaced_is_overwritten(tmp_path, monkeypatch, code, named):
    """As a file that is itself a mount."""
    path = tmp_path / "x.pt"
    save(torch.zeros(100_000), path)
    place = path.stat().st_ino

    def refused(*_, **__):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "replace", refused)
    if named:
        monkeypatch.setattr(os, "O_TMPFILE", 0)
    save(torch.ones(10), path)  # shorter
    assert torch.equal(load(path), torch.ones(10)) and path.stat().st_ino == place
    save(torch.ones(200_000), path)  # longer
    assert torch.equal(load(path), torch.ones(200_000)) and os.listdir(tmp_path) == ["x.pt"]


def test_an_overwritten_file_survives_a_full_disk_and_its_new_contents_an_interruption(tmp_path, monkeypatch):
    path = tmp_path / "x.pt"
    save({"a": 1}, path)
    before = path.read_bytes()

    def busy(*_, **__):
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", busy)
    with monkeypatch.context() as patch:
        patch.setattr(os, "posix_fallocate", full)
        with pytest.raises(OSError, match="No space left"):
            save({"a": 2}, path)
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["x.pt"]
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "copyfileobj", interrupted)
        with pytest.raises(KeyboardInterrupt):
            save({"a": 3}, path)
    (kept,) = [name for name in os.listdir(tmp_path) if name != "x.pt"]
    assert load(tmp_path / kept) == {"a": 3}
    save({"a": 4}, path)
    assert load(path) == {"a": 4} and os.listdir(tmp_path) == ["x.pt"]
