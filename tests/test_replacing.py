"""Files are replaced at once, whenever a process is killed."""

import os
import stat
import subprocess
import sys
import time

import pytest

import rushlight as torch
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
        assert {file.name for file in tmp_path.iterdir()} <= {"file.pt", ".file.pt.rushlight"}
    (tmp_path / ".file.pt.rushlight").touch()  # as a kill in the last moment leaves it
    save(1, path)
    assert load(path) == 1 and os.listdir(tmp_path) == ["file.pt"]


def test_processes_that_save_at_one_place_do_not_meet(tmp_path):
    path = tmp_path / "file.pt"
    program = _SAVING.replace("while True", "for _ in range(20)").replace("2_000_000", "1_000")
    writers = [subprocess.Popen([sys.executable, "-c", program, path, kind]) for kind in ("named", "nameless") * 2]
    assert [writer.wait() for writer in writers] == [0] * 4
    assert load(path).shape == (1000,) and os.listdir(tmp_path) == ["file.pt"]
