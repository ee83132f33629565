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


INTERRUPTED = """
import os, sys, warnings
import rushlight

class Interrupt(BaseException):
    pass

def calls_until(limit):
    calls = 0
    def count(frame, event, argument):
        nonlocal calls
        calls += event == "call" and "rushlight" in frame.f_code.co_filename
        if calls == limit:
            sys.setprofile(None)
            raise Interrupt
    sys.setprofile(count)
    try:
        getattr(rushlight, name)
    finally:
        sys.setprofile(None)
    return calls

def in_child(limit):
    reading, writing = os.pipe()
    if os.fork() == 0:
        warnings.simplefilter("ignore")
        try:
            answer = calls_until(limit)
        except Interrupt:
            answer = 0
        try:
            package = getattr(rushlight, name)
            for public in package.__all__:
                getattr(package, public)
        except BaseException as error:
            print(name, limit, repr(error), flush=True)
        os.write(writing, str(answer).encode())
        os._exit(0)
    os.wait()
    os.close(writing)
    answer = int(os.read(reading, 20))
    os.close(reading)
    return answer

for name in sys.argv[1:]:
    total = in_child(-1)
    for limit in {*range(1, total, max(1, total // 12)), *range(max(1, total - 100), total, 8)}:
        in_child(limit)
    print(name, total > 0)
"""


def test_an_interrupted_import_of_a_package_can_be_repeated():
    """The handler of a signal may raise at any call. What was loaded until then stays loaded, without a name in the package."""
    names = ["optim", "distributions", "fx", "quantization"]
    done = subprocess.run([sys.executable, "-c", INTERRUPTED, *names], capture_output=True, text=True, timeout=300)
    assert done.stdout == "".join(f"{name} True\n" for name in names), (done.stdout, done.stderr[-500:])
