"""Reads damaged files, in child processes that may crash, and reports the inputs that crashed one.

    python tests/hostile/fuzz_files.py --calls 1000000                       # all readers in turn
    python tests/hostile/fuzz_files.py --reader zip --seed 7 --first 12 --calls 1    # repeat one input

Each input is a valid file in which a few bytes are changed, removed, repeated or moved, sometimes with a corrected
checksum. A documented exception of the reader is correct, and so is a value, all of whose tensors are then read.
Findings are: a signal, another exception, a call that does not end, and running out of memory without large sizes. The
tests run a small part of the inputs (`test_files.py`).
"""

import argparse
import io
import os
import pickle
import random
import resource
import signal
import struct
import subprocess
import sys
import time
import warnings
import zipfile
import zlib
from pathlib import Path

#: The memory limit of a process: far more than any valid input needs.
MEMORY = 4 << 30
#: The limit of computing time, because the machine may be busy.
SECONDS = 10
MOST_READ = 1 << 16
BLOCK = 20_000
INTERESTING = [0, 1, 0x7F, 0x80, 0xFF]
WIDE = [0, 1, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF, 1 << 40, (1 << 63) - 1, 1 << 63, (1 << 64) - 1]


def readers():
    """A reader: its name, valid files, the function that reads one, and its documented exceptions."""
    import rushlight as torch
    from rushlight import npz, safetensors
    from rushlight._checkpoint.inspect import _faults, inspect

    tensors = {"a": torch.arange(6.0).reshape(2, 3), "b": torch.ones(2, dtype=torch.bool), "c": torch.zeros(0, 3)}
    nested = {**tensors, "list": [tensors["a"], {"k": (1, 2.5, "text", None, b"bytes")}], "view": tensors["a"][1]}
    file = io.BytesIO()
    torch.save(nested, file)
    data = Path(__file__).parents[1] / "data"
    broken = (RuntimeError, pickle.UnpicklingError, EOFError, MemoryError, TypeError, ValueError, KeyError)
    broken += (NotImplementedError, AttributeError, IndexError, OverflowError)
    zips, legacy = [file.getvalue(), (data / "linear.pt").read_bytes()], (data / "legacy.pt").read_bytes()
    pickles, table = _pickles(file.getvalue()), safetensors.save(tensors, {"format": "pt"})
    arrays = [npz.save(tensors), npz.save(tensors, compress=True)]
    as_file = _file()

    def load(content):
        return torch.load(io.BytesIO(content))

    return {
        "zip": (zips, load, broken),
        "mapped": (zips, lambda content: torch.load(as_file(content), mmap=True), broken),
        "legacy": ([legacy], load, broken),
        "pickle": (pickles, lambda content: load(_archive(content)), broken),
        "safetensors": ([table], safetensors.load, (safetensors.SafetensorError, MemoryError, RuntimeError)),
        "npz": (arrays, npz.load, (npz.NpzError, MemoryError)),
        "inspect": (
            [*zips, legacy, *pickles, table, *arrays],
            lambda content: inspect(as_file(content)),
            _faults(),
        ),
        "idx": _images(as_file),
    }


def _file():
    """A function that writes contents to a file in memory, always the same one, and returns its path."""
    descriptor = os.memfd_create("input")

    def as_file(content):
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, content, 0)
        return f"/proc/self/fd/{descriptor}"

    return as_file


def _images(as_file):
    """The file reader of the example."""
    sys.path.append(str(Path(__file__).parents[2] / "examples"))
    from digits import read_idx

    images = struct.pack(">IIII", 0x803, 3, 4, 4) + bytes(48)
    labels = struct.pack(">II", 0x801, 5) + bytes(5)
    return [images, labels], lambda content: read_idx(Path(as_file(content))), (ValueError,)


def touch(value):
    """Reads every element of every tensor in a value, so that access outside of a storage is detected."""
    import rushlight as torch

    if isinstance(value, torch.Tensor):
        if value.numel() <= MOST_READ:  # zero strides can give more elements than a valid input has
            value.detach().clone(memory_format=torch.contiguous_format)
    elif isinstance(value, dict):
        touch(list(value.values()))
    elif isinstance(value, (list, tuple)):
        for part in value:
            touch(part)


def _pickles(archive):
    """The pickle inside the file, which a checksum would otherwise protect."""
    with zipfile.ZipFile(io.BytesIO(archive)) as found:
        return [found.read(name) for name in found.namelist() if name.endswith("data.pkl")]


def _archive(content):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", content)
        archive.writestr("archive/version", "3\n")
        for key in range(4):
            archive.writestr(f"archive/data/{key}", bytes(24))
    return file.getvalue()


def damaged(content, draw):
    """The content with one to four changes."""
    content = bytearray(content)
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        if not content:
            break
        at = draw.randrange(len(content))
        kind = draw.randrange(8)
        if kind == 0:
            content[at] ^= 1 << draw.randrange(8)
        elif kind == 1:
            content[at] = draw.choice(INTERESTING)
        elif kind == 2:
            width = draw.choice((2, 4, 8))
            number = draw.choice(WIDE) & ((1 << 8 * width) - 1)
            content[at : at + width] = number.to_bytes(width, draw.choice(("little", "big")))
        elif kind == 3:
            del content[at:]
        elif kind == 4:
            del content[at : at + draw.randrange(1, 32)]
        elif kind == 5:
            content[at:at] = content[at : at + draw.randrange(1, 64)]
        elif kind == 6:
            other = draw.randrange(len(content))
            size = draw.randrange(1, 32)
            content[at : at + size] = content[other : other + size]
        else:
            content[at] = draw.randrange(256)
    return bytes(content)


def with_checksums(content):
    """Corrects the checksums in an archive's directory, so that damaged records are read."""
    content = bytearray(content)
    at = content.find(b"PK\x01\x02")
    while 0 <= at and at + 46 <= len(content):
        size, local = struct.unpack_from("<I", content, at + 20)[0], struct.unpack_from("<I", content, at + 42)[0]
        if local + 30 <= len(content):
            name, extra = struct.unpack_from("<HH", content, local + 26)
            start = local + 30 + name + extra
            struct.pack_into("<I", content, at + 16, zlib.crc32(content[start : start + size]))
        at = content.find(b"PK\x01\x02", at + 4)
    return bytes(content)


def case(reader, files, seed, number):
    draw = random.Random(f"{reader} {seed} {number}")
    content = damaged(draw.choice(files), draw)
    return with_checksums(content) if reader in ("zip", "mapped") and draw.random() < 0.7 else content


def attack(reader, seed, first, last):
    """The child process: prints each finding. The last line on standard error is the current input."""
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    files, read, promised = readers()[reader]
    progress = memoryview(bytearray(8))
    with open(sys.argv[-1], "r+b", buffering=0) as current:
        for number in range(first, last):
            progress[:] = struct.pack("<q", number)
            current.seek(0)
            current.write(progress)
            signal.setitimer(signal.ITIMER_PROF, SECONDS)
            try:
                touch(read(case(reader, files, seed, number)))
            except promised:
                pass
            except Exception as error:
                print(f"{reader} seed {seed} input {number}: {type(error).__name__}: {error}", flush=True)


def findings(reader, seed, first, last, folder):
    """Tests a range of inputs. After a crash a new process continues with the next input."""
    current = Path(folder, "current")
    while first < last:
        current.write_bytes(struct.pack("<q", first))
        end = min(first + BLOCK, last)
        command = [sys.executable, __file__, "--attack", reader, str(seed), str(first), str(end), str(current)]
        done = subprocess.run(command, capture_output=True, text=True)
        yield from done.stdout.splitlines()
        if done.returncode == 0:
            first = end
            continue
        (at,) = struct.unpack("<q", current.read_bytes())
        yield f"{reader} seed {seed} input {at}: ended with {done.returncode}\n{done.stderr[-2000:]}"
        first = at + 1


def main():
    import tempfile

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reader", help="one of them; all by default")
    parser.add_argument("--calls", type=int, default=10_000, help="for each reader")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the first input")
    options = parser.parse_args()
    total = 0
    with tempfile.TemporaryDirectory() as folder:
        for reader in [options.reader] if options.reader else readers():
            started, found = time.monotonic(), 0
            for finding in findings(reader, options.seed, options.first, options.first + options.calls, folder):
                found += 1
                print(finding, flush=True)
            print(
                f"{reader}: {options.calls} inputs in {time.monotonic() - started:.0f} s, {found} findings", flush=True
            )
            total += found
    return min(total, 1)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--attack"]:
        attack(sys.argv[2], *map(int, sys.argv[3:6]))
    else:
        sys.exit(main())
