"""The modules behind the names of the package can each be the first one that a program uses."""

import subprocess
import sys

PROGRAM = """
import os, warnings
import rushlight

warnings.simplefilter("ignore")
homes = sorted({*rushlight._ELSEWHERE.values()})
failed = []
for home in homes:
    child = os.fork()
    if child == 0:
        try:
            __import__(f"rushlight.{home}")
            os._exit(0)
        except BaseException as error:
            print(home, type(error).__name__, error, flush=True)
            os._exit(1)
    if os.waitpid(child, 0)[1]:
        failed.append(home)
print(len(homes) > 20, failed)
"""


def test_every_home_of_names_can_be_imported_first():
    """A cycle of imports may depend on which module begins it."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=300)
    assert done.stdout == "True []\n", (done.stdout, done.stderr[-500:])
