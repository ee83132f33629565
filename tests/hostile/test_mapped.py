"""Truncated file mappings: rushlight raises an exception where torch ends with SIGBUS. Other SIGBUS are not hidden."""

import signal
import subprocess
import sys
import textwrap

import pytest

MEGABYTE = 1 << 20

_BEGIN = """
import mmap, os, sys, threading
import rushlight as torch

os.chdir(sys.argv[1])

def refused(call):
    try:
        result = call()
    except RuntimeError as error:
        return str(error).splitlines()[0]
    raise AssertionError(f"nothing was raised, but {result!r:.100} returned")

def saved():
    torch.save({"a": torch.ones(1 << 20), "b": torch.ones(1 << 20)}, "state.pt")
    return torch.load("state.pt", mmap=True)
"""


def run(program, folder):
    script = _BEGIN + textwrap.dedent(program)
    command = [sys.executable, "-c", script, str(folder)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def printed(program, folder):
    done = run(program, folder)
    assert done.returncode == 0, (done.returncode, done.stderr)
    return done.stdout.splitlines()


def test_a_checkpoint_that_is_shortened(tmp_path):
    """The next call raises an error, for every storage of the file. Calls that read no bytes work, and copies are safe."""
    program = """
        state = saved()
        copy = state["a"].clone()
        os.truncate("state.pt", 1000)
        a = state["a"]
        for call in (a.sum, lambda: a + 1, lambda: a[5].item(), a.tolist, a.clone, a.numpy, lambda: torch.save(a, "b.pt"),
                     a.untyped_storage().tobytes, lambda: a.add_(1), state["b"].sum, lambda: copy.copy_(a)):
            print(refused(call))
        print(a.shape, a.view(2, -1).shape, copy.sum().item(), os.path.exists("b.pt"))
    """
    *lines, last = printed(program, tmp_path)
    assert len(lines) == 11
    assert all(
        line.startswith("the file state.pt was changed while it was mapped: it has 1000 bytes now") for line in lines
    )
    assert last == "torch.Size([1048576]) torch.Size([2, 524288]) 1048576.0 False"


def test_one_that_is_shortened_while_it_is_read(tmp_path):
    """If the file is truncated while a kernel reads it, that call raises an error."""
    program = """
        words = set()
        for _ in range(30):
            a = saved()["a"]
            thread = threading.Thread(target=os.truncate, args=("state.pt", 5000))
            thread.start()
            try:
                while True:
                    if a.sum().item() != 1 << 20:
                        raise AssertionError("a sum of what was gone")
            except RuntimeError as error:
                words.add(str(error).splitlines()[0])
            thread.join()
        print(*words)
    """
    assert len(printed(program, tmp_path)) == 1


@pytest.mark.parametrize("through", [False, True])
def test_others_who_look_at_the_same_bytes(through, tmp_path):
    """An array over the tensor reads zeros, a write has no effect, and the process continues."""
    program = f"""
        import numpy
        torch.serialization.set_default_mmap_options(mmap.MAP_SHARED if {through} else mmap.MAP_PRIVATE)
        a = saved()["a"]
        array, view = a.numpy(), memoryview(a.untyped_storage())
        os.truncate("state.pt", 0)
        array[1000:] += 1
        print(array[0], array[-1], view[12345], refused(a.sum)[:24], refused(lambda: a.fill_(1))[:24])
    """
    assert printed(program, tmp_path) == ["0.0 1.0 0 the file state.pt was ch the file state.pt was ch"]


@pytest.mark.parametrize("shared", [False, True])
def test_from_file(shared, tmp_path):
    program = f"""
        x = torch.from_file("numbers", shared=True, size=1 << 20, dtype=torch.int16).fill_(3)
        x = torch.from_file("numbers", shared={shared}, size=1 << 20, dtype=torch.int16)
        print(x.sum().item())
        os.truncate("numbers", 1 << 21 >> 1)
        print(refused(x.sum), refused(x.zero_)[:18])
    """
    first, last = printed(program, tmp_path)
    assert first == "3145728"
    assert (
        last
        == "the file numbers was changed while it was mapped: it has 1048576 bytes now, 2097152 were mapped the file numbers w"
    )


@pytest.mark.parametrize(
    "source",
    [
        "torch.from_numpy(numpy.memmap('ones', mode='c'))",
        "torch.from_numpy(numpy.memmap('ones', mode='r+')[5:-5:2])",
        "torch.frombuffer(mmap.mmap(os.open('ones', os.O_RDWR), 0), dtype=torch.uint8)",
        "torch.asarray(memoryview(mmap.mmap(os.open('ones', os.O_RDWR), 0))[10:], dtype=torch.uint8)",
    ],
)
def test_what_others_mapped(source, tmp_path):
    (tmp_path / "ones").write_bytes(bytes([1]) * MEGABYTE)
    program = f"""
        import numpy
        x = {source}
        assert x.sum().item() == x.numel()
        os.truncate("ones", 4096)
        print(refused(lambda: x.sum().item()), refused(x.clone)[:6])
    """
    assert printed(program, tmp_path) == ["a file was changed while it was mapped: some of it could not be read a file"]


def test_in_a_forked_child_and_in_threads(tmp_path):
    program = """
        state = saved()
        child = os.fork()
        os.truncate("state.pt", 0)
        errors = []
        def read():
            errors.append(refused(state["a"].sum)[:14])
        threads = [threading.Thread(target=read) for _ in range(4)]
        [thread.start() for thread in threads], [thread.join() for thread in threads]
        if child == 0:
            os._exit(7 if len(errors) == 4 else 1)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), *set(errors))
    """
    assert printed(program, tmp_path) == ["7 the file state"]


_ELSEWHERE = """
    import ctypes
    state = saved()
    file = open("mine", "w+b")
    file.truncate(4096)
    mine = mmap.mmap(file.fileno(), 4096)
    file.truncate(0)
    {action}
"""


@pytest.mark.parametrize("action", ["print(mine[0])", "os.kill(os.getpid(), 7)"])
def test_other_faults_are_others_business(action, tmp_path):
    assert run(_ELSEWHERE.format(action=action), tmp_path).returncode == -signal.SIGBUS


def test_a_handler_that_was_there_before_is_called(tmp_path):
    program = "import faulthandler; faulthandler.enable()\n" + textwrap.dedent(
        _ELSEWHERE.format(action="print(mine[0])")
    )
    done = run(program, tmp_path)
    assert done.returncode == -signal.SIGBUS and "Fatal Python error: Bus error" in done.stderr
    program = "import signal; signal.signal(7, lambda *_: print('felt'))\n" + textwrap.dedent(
        _ELSEWHERE.format(action="os.kill(os.getpid(), 7)")
    )
    assert printed(program, tmp_path) == ["felt"]


def test_a_handler_that_came_later_is_not_asked_first(tmp_path):
    program = """
        import faulthandler
        state = saved()
        faulthandler.enable()
        a = state["a"]
        print(a.sum().item())
        view = memoryview(a.untyped_storage())
        os.truncate("state.pt", 0)
        print(view[0], refused(a.sum)[:14])
    """
    assert printed(program, tmp_path) == ["1048576.0", "0 the file state"]
    last = "    faulthandler.enable(); a = state['a'] + 1\n    print(mine[0])"
    done = run("import faulthandler\n" + textwrap.dedent(_ELSEWHERE.format(action=last.strip())), tmp_path)
    assert done.returncode == -signal.SIGBUS and done.stderr.count("Fatal Python error: Bus error") == 1


def test_mappings_go_with_their_tensors(tmp_path):
    program = """
        def open_files():
            return len(os.listdir("/proc/self/fd")), open("/proc/self/maps").read().count("state.pt")
        state = saved()
        before = open_files()
        for _ in range(200):
            torch.load("state.pt", mmap=True)
        print(before == open_files())
        del state
        print(open_files()[1])
    """
    assert printed(program, tmp_path) == ["True", "0"]
