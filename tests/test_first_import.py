"""Every module can be the first one that a program imports."""

import subprocess
import sys

PROGRAM = """
import os, pathlib, warnings
import rushlight

warnings.simplefilter("ignore")
# They run a program, or explain that the module is gone.
skipped = ("rushlight.__main__", "rushlight.legacy", "rushlight.utils.ffi")
root = pathlib.Path(rushlight.__file__).parent.parent
files = sorted(root.joinpath("rushlight").rglob("*.py"))
modules = [".".join(file.relative_to(root).with_suffix("").parts).removesuffix(".__init__") for file in files]
failed = []
for name in modules:
    if name in skipped:
        continue
    child = os.fork()
    if child == 0:
        try:
            __import__(name)
            os._exit(0)
        except BaseException as error:
            print(name, type(error).__name__, error, flush=True)
            os._exit(1)
    if os.waitpid(child, 0)[1]:
        failed.append(name)
print(len(modules) > 150, failed)
"""


def test_every_module_can_be_imported_first():
    """A cycle of imports may depend on which module begins it."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=300)
    assert done.stdout == "True []\n", (done.stdout, done.stderr[-500:])
