"""`python -m rushlight`: what a program and its libraries see under the name of torch."""

import pickle
import subprocess
import sys

import pytest

from rushlight.torch_version import TorchVersion

VERSION = TorchVersion("2.13.0+cu130")


def run(tmp_path, text):
    program = tmp_path / "program.py"
    program.write_text(text)
    done = subprocess.run([sys.executable, "-m", "rushlight", program], capture_output=True, text=True, timeout=60)
    assert not done.returncode, done.stderr
    return done


def test_the_version_is_one_of_torch(tmp_path):
    """In child processes too, and for `importlib.metadata`, from which libraries learn whether torch is installed."""
    question = (
        "import torch; from importlib.metadata import version; print(version('torch'), torch.__version__ > '2.9')"
    )
    done = run(
        tmp_path,
        "import subprocess, sys, torch\n"
        "from importlib.metadata import version\n"
        "assert torch.__version__ == torch.version.__version__ and torch.__version__ >= (2, 13)\n"
        "assert torch.__version__.split('+')[0] == version('torch') == '2.13.0'\n"
        f"print(subprocess.run([sys.executable, '-c', {question!r}], capture_output=True, text=True).stdout)\n",
    )
    assert done.stdout.split() == ["2.13.0", "True"]


def test_the_package_has_the_name_of_torch(tmp_path):
    assert run(tmp_path, "import torch, torch.nn.functional; print(torch.__name__)").stdout == "torch\n"


def test_the_class_of_tensors_has_the_name_of_torch(tmp_path):
    """Libraries choose by it. Pickles of tensors do not name the class, and so are those of any program."""
    done = run(
        tmp_path,
        "import pickle, torch\n"
        "print(type(torch.ones(1)).__module__, torch.Tensor)\n"
        f"open({str(tmp_path / 'pickled')!r}, 'wb').write(pickle.dumps(torch.arange(3)))\n",
    )
    assert done.stdout == "torch <class 'torch.Tensor'>\n"
    assert pickle.loads((tmp_path / "pickled").read_bytes()).tolist() == [0, 1, 2]


def test_compile_runs_eagerly(tmp_path):
    """A program that cannot be changed cannot leave the call out."""
    done = run(
        tmp_path,
        "import torch\n"
        "@torch.compile(fullgraph=True)\n"
        "def f(x):\n    return x * 2\n"
        "linear = torch.nn.Linear(1, 1)\n"
        "assert torch.compile(linear, disable=True) is linear\n"
        "print(f(2))\n",
    )
    assert done.stdout == "4\n" and done.stderr.count("nothing is compiled") == 1


@pytest.mark.parametrize(
    "other, order",
    [
        ("2.9", 1),
        ("2.13", 1),
        ("2.13.0+cu130", 0),
        ("2.13.0+cu129", 1),
        ("2.13.0+a", 1),
        ("2.13.0.dev20260101", 1),
        ("2.13.0rc1", 1),
        ("2.13.0.post1", -1),
        ("2.14.0.dev1", -1),
        ("parrot", -1),  # compared as text
        ((2, 9), 1),
        ((2, 13, 0), 1),
        ((2, 13, "0+cu130"), 0),
        ((3,), -1),
    ],
)
def test_versions_compare_as_versions(other, order):
    assert [VERSION > other, VERSION == other, VERSION < other] == [order > 0, order == 0, order < 0]
    assert [VERSION >= other, VERSION <= other] == [order >= 0, order <= 0]


def test_versions_are_texts():
    assert VERSION.startswith("2.13") and {VERSION: 1}["2.13.0+cu130"] == 1
    assert TorchVersion("1.2.0") == "1.2" and not VERSION == 2.13
    with pytest.raises(TypeError):
        VERSION < 3  # noqa: B015


def test_a_text_runs_as_python_runs_it(tmp_path):
    (tmp_path / "beside.py").write_text("import torch; value = torch.ones(2).sum().item()")
    text = "import sys, beside, torch; print(torch.__name__, beside.value, sys.argv, __name__, '__file__' in globals())"
    command = [sys.executable, "-m", "rushlight", "-c", text, "a", "-b"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert done.stdout == "torch 2.0 ['-c', 'a', '-b'] __main__ False\n", done.stderr
    command = [sys.executable, "-m", "rushlight", "-", "a", "-b"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert done.stdout == "torch 2.0 ['-', 'a', '-b'] __main__ True\n", done.stderr
    for arguments, sentence in (
        (["-c", "x ="], "SyntaxError"),
        (["-c"], "usage:"),
        (["-c", "raise SystemExit(3)"], ""),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "rushlight", *arguments], capture_output=True, text=True, timeout=60
        )
        assert done.returncode == (1 if sentence else 3) and sentence in done.stderr


def test_a_closed_standard_input_is_an_empty_program():
    command = ["sh", "-c", f"exec '{sys.executable}' -m rushlight - <&-"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
