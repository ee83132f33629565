"""The report about versions and the machine."""

import subprocess
import sys

import rushlight as torch
from rushlight.utils import collect_env


def test_the_report_as_a_program():
    done = subprocess.run(
        [sys.executable, "-m", "rushlight", "-m", "torch.utils.collect_env"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    lines = done.stdout.splitlines()
    assert done.stderr == "" and lines[0] == "Collecting environment information..."
    assert lines[1].endswith(f"rushlight{torch.__version__} (rushlight)") and "Is CUDA available: False" in lines
    assert any(line.startswith(f"Python version: {sys.version.split()[0]}") for line in lines)
    assert any(line.startswith("[pip3] numpy==") for line in lines)


def test_commands():
    run = collect_env.run
    assert run("echo a; echo b 1>&2; exit 3") == (3, "a", "b") and run([sys.executable, "-c", "print(1)"]) == (
        0,
        "1",
        "",
    )
    assert run(["no-such-program"]) == (127, "", "Command not found")
    assert collect_env.run_and_read_all(run, "echo hi") == "hi" and collect_env.run_and_read_all(run, "false") is None
    assert collect_env.run_and_parse_first_match(run, "echo gcc 12.2", r"gcc (.*)") == "12.2"
    assert collect_env.run_and_parse_first_match(run, "echo gcc", r"clang (.*)") is None
    assert collect_env.run_and_return_first_line(run, "printf 'a\\nb'") == "a"


def test_programs_that_are_asked():
    """Each function asks with the function that it is given."""
    answers = {
        "gcc --version": "gcc (Debian) 12.2.0",
        "clang --version": "Debian clang version 14.0.6",
        "cmake --version": "cmake 3.25.1",
        "nvcc --version": "Cuda compilation tools, release 13.0, V13.0.88",
        "lscpu": "Architecture: x86_64",
    }

    def answer(command):
        return (0, answers[command], "") if isinstance(command, str) and command in answers else (1, "", "no")

    assert collect_env.get_gcc_version(answer) == "(Debian) 12.2.0"
    assert collect_env.get_clang_version(answer) == "14.0.6" and collect_env.get_cmake_version(answer) == "3.25.1"
    assert collect_env.get_running_cuda_version(answer) == "13.0.88"
    assert collect_env.get_conda_packages(answer) is None and collect_env.get_gpu_info(answer) is None
    if sys.platform == "linux":
        assert collect_env.get_cpu_info(answer) == "Architecture: x86_64"


def test_packages():
    name, listed = collect_env.get_pip_packages(collect_env.run, patterns=["numpy"])
    assert name == "pip3" and listed.startswith("numpy==")
    environment = collect_env.get_env_info()._replace(pip_packages="a==1\nb==2", conda_packages=None)
    text = collect_env.pretty_str(environment)
    assert text.endswith("[pip3] a==1\n[pip3] b==2\n[conda] Could not collect")
    assert "GPU models and configuration: No CUDA" in text
