"""The examples as a user runs them: training, interruptions, killed workers, a killed parent and invalid data."""

import gzip
import os
import re
import signal
import struct
import subprocess
import sys
import time
import zlib
from pathlib import Path

import pytest
from leftovers import members

import rushlight as torch

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
PROGRAM = EXAMPLES / "hogwild_digits.py"


@pytest.fixture
def start(tmp_path):
    """Starts the program in a new process group. Remaining processes of the group are ended afterwards."""
    started = []

    def start(*arguments, program=(PROGRAM,)):
        command = [sys.executable, "-u", *program, "--out", tmp_path / "out", *map(str, arguments)]
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, cwd=tmp_path, start_new_session=True)
        started.append(process)
        return process

    yield start
    for process in started:
        if members(process.pid):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def wait_for(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.02)


def wait_for_training(process):
    """Waits for the first line of progress, so that both workers are running."""
    for line in process.stdout:
        if line.startswith("epoch"):
            return
    raise AssertionError(process.stderr.read())


def workers(process):
    return [pid for pid in members(process.pid) if pid != process.pid]


def check_picture(path):
    """Checks a PNG: the checksums of its parts, and the number of pixels."""
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    at, data = 8, b""
    while at < len(content):
        (length,) = struct.unpack_from(">I", content, at)
        kind, body = content[at + 4 : at + 8], content[at + 8 : at + 8 + length]
        assert struct.unpack_from(">I", content, at + 8 + length)[0] == zlib.crc32(kind + body)
        if kind == b"IHDR":
            width, height = struct.unpack_from(">2I", body)
        if kind == b"IDAT":
            data += body
        at += 12 + length
    pixels = zlib.decompress(data)
    assert len(pixels) == height * (1 + 3 * width)
    assert len(set(pixels)) > 10, "an empty picture"


def check_model(path):
    weights = torch.load(path)
    assert sum(tensor.numel() for tensor in weights.values()) > 10_000
    assert all(torch.isfinite(tensor).all() for tensor in weights.values())


@pytest.mark.parametrize(
    ("processes", "method"), [(1, "fork"), (2, "fork"), (3, "fork"), (2, "spawn"), (2, "forkserver")]
)
def test_it_learns(start, tmp_path, processes, method):
    process = start("--processes", processes, "--epochs", 30, "--start", method)
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    assert errors == ""
    assert float(output.split("held-out accuracy ")[1].split()[0]) > 93
    check_model(tmp_path / "out" / "model.pt")
    check_picture(tmp_path / "out" / "curve.png")


def test_ctrl_c_keeps_the_model_and_leaves_nobody(start, tmp_path):
    process = start("--epochs", 100_000)
    wait_for_training(process)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert "interrupted" in output
    assert members(process.pid) == []
    check_model(tmp_path / "out" / "model.pt")


def test_a_killed_worker_is_reported_and_the_other_goes_on(start, tmp_path):
    process = start("--epochs", 300)
    wait_for_training(process)
    os.kill(workers(process)[0], signal.SIGKILL)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0
    assert "was killed by SIGKILL" in errors
    check_model(tmp_path / "out" / "model.pt")


def test_all_workers_killed_is_an_error_that_says_so(start, tmp_path):
    process = start("--epochs", 100_000)
    wait_for_training(process)
    for pid in workers(process):
        os.kill(pid, signal.SIGKILL)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "all workers failed" in errors
    check_model(tmp_path / "out" / "model.pt")


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_end_with_their_parent(start, method):
    process = start("--epochs", 100_000, "--start", method)
    wait_for_training(process)
    assert len(workers(process)) >= 2
    os.kill(process.pid, signal.SIGKILL)
    wait_for(lambda: members(process.pid) == [])


def idx(values, *sizes):
    return struct.pack(f">HBB{len(sizes)}I", 0, 8, len(sizes), *sizes) + bytes(values)


def test_idx_files_plain_and_compressed(start, tmp_path):
    count = 40
    for part, pack in ("t10k", gzip.compress), ("train", bytes):
        suffix = ".gz" if part == "t10k" else ""
        images = idx([i % 251 for i in range(count * 64)], count, 8, 8)
        (tmp_path / f"{part}-images-idx3-ubyte{suffix}").write_bytes(pack(images))
        (tmp_path / f"{part}-labels-idx1-ubyte{suffix}").write_bytes(pack(idx([i % 10 for i in range(count)], count)))
    process = start("--data", tmp_path, "--model", "cnn", "--epochs", 1)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert "64 images to train on, 16 held out" in output


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "no file named"),
        (b"", "not an IDX file"),
        (b"\0\0\x0d\x03" + bytes(12), "not an IDX file"),
        (b"\0\0\x08\x03\0\0", "truncated inside the header"),
        (idx(range(100), 3, 8, 8), "100 bytes of data but its header says 192"),
        (struct.pack(">HBB3I", 0, 8, 3, *[2**32 - 1] * 3), "0 bytes of data but its header says"),
        (idx((), 0, 8, 8), "contains no data"),
        (idx((0, 1, 2), 3), "are not those of square images"),
        (idx(range(96), 3, 4, 8), "are not those of square images"),
        (idx(range(192), 3, 8, 8), "are not one digit for each of 3 images"),
        (idx(bytes(256), 4, 8, 8), "are not one digit for each of 4 images"),
    ],
)
def test_bad_data_is_named_in_one_line(start, tmp_path, content, sentence):
    if content is not None:
        (tmp_path / "t10k-images-idx3-ubyte").write_bytes(content)
        (tmp_path / "t10k-labels-idx1-ubyte").write_bytes(idx((1, 2, 10), 3))
    check_refusal(start("--data", tmp_path), 1, sentence)


@pytest.mark.parametrize(
    "damage", [lambda packed: packed[:-20], lambda packed: packed[:30] + b"\xff" * 9 + packed[39:]]
)
def test_a_broken_archive_is_named_in_one_line(start, tmp_path, damage):
    packed = gzip.compress(bytes(i * i % 251 for i in range(4000)))
    (tmp_path / "t10k-images-idx3-ubyte.gz").write_bytes(damage(packed))
    check_refusal(start("--data", tmp_path), 1, "t10k-images-idx3-ubyte.gz: broken")


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["--lr", "nan"], 2, "--lr must be a number above 0"),
        (["--seed", 2**70], 2, "--seed must lie between"),
        (["--processes", 0], 2, "must be at least 1"),
        (["--processes", 2000], 1, "2000 processes for 1438 training images"),
        (["--out", __file__], 1, "File exists"),
        (["--out", "/proc/nobody/writes"], 1, "No such file"),
    ],
)
def test_a_slip_is_named_before_the_training(start, arguments, code, sentence):
    check_refusal(start(*arguments), code, sentence)


def check_refusal(process, code, sentence):
    output, errors = process.communicate(timeout=60)
    assert process.returncode == code
    assert sentence in errors.splitlines()[-1]
    assert "Traceback" not in errors and "train" not in output


@pytest.mark.parametrize("options", [[], ["--atomic", "--threads"]])
def test_the_sparse_model_learns(options):
    program = [sys.executable, PROGRAM.with_name("hogwild_sparse.py"), "--samples", "2000", "--epochs", "2", *options]
    done = subprocess.run(program, capture_output=True, text=True)
    shares = [float(share) for share in re.findall(r"right on ([\d.]+)% of unseen samples$", done.stdout, re.MULTILINE)]
    assert len(shares) == 2 and min(shares) > 60, done


PARALLEL = EXAMPLES / "ddp_digits.py"


def check_parallel(process, tmp_path):
    """The losses of the epochs."""
    output, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    check_model(tmp_path / "out" / "model.pt")
    check_picture(tmp_path / "out" / "curve.png")
    return [float(loss) for loss in re.findall(r"loss +([\d.]+)", output)]


def test_processes_that_average_gradients_learn_as_one(start, tmp_path):
    one = check_parallel(start("--processes", 1, "--epochs", 8, program=[PARALLEL]), tmp_path)
    two = check_parallel(start("--processes", 2, "--epochs", 8, program=[PARALLEL]), tmp_path)
    launcher = ["-m", "rushlight.distributed.run", "--nproc-per-node", "2", PARALLEL]
    assert check_parallel(start("--epochs", 8, program=launcher), tmp_path) == two
    assert len(one) == 8 and two == pytest.approx(one, abs=0.02) and one[-1] < one[0] / 3


def test_a_killed_process_is_named(start):
    process = start("--epochs", 100_000, "--processes", 2, program=[PARALLEL])
    wait_for_training(process)
    trainers = [pid for pid in workers(process) if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    os.kill(trainers[0], signal.SIGKILL)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "Traceback" not in errors.splitlines()[0] and ("SIGKILL" in errors or "has ended" in errors), errors
    wait_for(lambda: not members(process.pid))
