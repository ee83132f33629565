"""The fork server loads the modules that its children would load themselves."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import rushlight

PROGRAM = """
import sys
if len(sys.argv) > 1:
    sys.path.insert(0, sys.argv[1])
import rushlight
from rushlight import multiprocessing

def tell(queue):
    queue.put((rushlight.__file__, "rushlight.utils.data" in sys.modules))

if __name__ == "__main__":
    context = multiprocessing.get_context("forkserver")
    queue = context.SimpleQueue()
    process = context.Process(target=tell, args=(queue,))
    process.start()
    file, loaded = queue.get()
    assert file == rushlight.__file__, (file, rushlight.__file__)
    print(loaded)
    process.join()
"""


def output(tmp_path, *arguments, **environment):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command = [sys.executable, str(program), *arguments]
    return subprocess.check_output(command, text=True, cwd=tmp_path, env={**os.environ, **environment}, timeout=120)


def test_the_package_is_loaded_once(tmp_path):
    home = str(Path(rushlight.__file__).parents[1])
    assert output(tmp_path, PYTHONPATH=home) == "True\n"


@pytest.mark.parametrize("where", ["a path that the program adds", "the folder that it runs in"])
def test_another_copy_of_the_package_is_not(where, tmp_path):
    folder = tmp_path / "elsewhere" if where.startswith("a path") else tmp_path
    folder.mkdir(exist_ok=True)
    (folder / "rushlight").symlink_to(Path(rushlight.__file__).parent)
    if folder == tmp_path:
        # A server without its own main file would find the module there; this program has a file.
        home = str(Path(rushlight.__file__).parents[1])
        assert output(tmp_path, home) == "False\n"
    else:
        assert output(tmp_path, str(folder)) == "False\n"
