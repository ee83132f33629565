"""The data, the models and the command lines of the programs that classify digits."""

import argparse
import gzip
import math
import struct
import zlib
from pathlib import Path

import rushlight as torch
from rushlight import nn

HERE = Path(__file__).resolve().parent


def load_digits():
    """The UCI digits: 8x8 grey images (0 to 16) and their labels."""
    with gzip.open(HERE / "digits.csv.gz", "rt") as file:
        rows = torch.tensor([[int(field) for field in line.split(",")] for line in file])
    return rows[:, :64].reshape(-1, 1, 8, 8).float() / 16, rows[:, 64]


def read_idx(path):
    """The tensor of bytes in an IDX file, the format of MNIST: a magic number, the sizes, then the bytes."""
    with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as file:
        try:
            content = bytearray(file.read())
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise ValueError(f"{path}: broken: {error}") from None
    if len(content) < 4 or content[:3] != b"\0\0\x08":
        raise ValueError(f"{path}: not an IDX file of bytes")
    header = 4 + 4 * content[3]
    if len(content) < header:
        raise ValueError(f"{path}: truncated inside the header")
    sizes = struct.unpack_from(f">{content[3]}I", content, 4)
    if len(content) - header != math.prod(sizes):
        raise ValueError(f"{path}: {len(content) - header} bytes of data but its header says {math.prod(sizes)}")
    if 0 in sizes:
        raise ValueError(f"{path}: contains no data")
    return torch.frombuffer(content, dtype=torch.uint8, offset=header).reshape(sizes)


def load_mnist(folder):
    """Loads every pair of image and label files in the folder. Images are scaled to 0..1."""
    images, labels = [], []
    for path in sorted(Path(folder).glob("*-images-idx3-ubyte*")):
        images.append(read_idx(path))
        labels.append(read_idx(path.with_name(path.name.replace("images-idx3", "labels-idx1"))))
        pictures, classes = images[-1].shape, labels[-1].shape
        if len(pictures) != 3 or pictures[1:] != images[0].shape[1:] or pictures[1] != pictures[2] or pictures[1] < 8:
            raise ValueError(
                f"{path}: sizes {tuple(pictures)}, are not those of square images of equal size, at least 8x8"
            )
        if tuple(classes) != (pictures[0],) or labels[-1].max() > 9:
            raise ValueError(
                f"{path}: labels of sizes {tuple(classes)} are not one digit for each of {pictures[0]} images"
            )
    if not images:
        raise FileNotFoundError(f"{folder}: no file named *-images-idx3-ubyte or *-images-idx3-ubyte.gz")
    return torch.cat(images).unsqueeze(1).float() / 255, torch.cat(labels).long()


def split(images, labels):
    """(training, held-out): every fifth image is held out for every seed, so that runs can be compared."""
    held_out = torch.arange(len(images)) % 5 == 4
    return (border(images[~held_out]), labels[~held_out]), (images[held_out], labels[held_out])


def border(images):
    """Images with a border of black pixels, so that a crop can be shifted by up to one pixel."""
    count, channels, height, width = images.shape
    framed = torch.zeros(count, channels, height + 2, width + 2)
    framed[:, :, 1:-1, 1:-1] = images
    return framed


def build(kind, side):
    """A classifier of side x side grey images."""
    if kind == "mlp":
        return nn.Sequential(
            nn.Flatten(),
            nn.Linear(side * side, 256),
            nn.ReLU(),
            nn.Linear(256, 128),
            nn.ReLU(),
            nn.Linear(128, 10),
        )
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * (side // 4) ** 2, 10),
    )


def accuracy(model, images, labels):
    """The share of images that are classified correctly."""
    model.eval()
    with torch.no_grad():
        right = sum(
            (model(images[at : at + 500]).argmax(1) == labels[at : at + 500]).sum().item()
            for at in range(0, len(images), 500)
        )
    return right / len(images)


def argument_parser(description):
    """A parser with the arguments that the programs share."""
    made = argparse.ArgumentParser(description=description)
    made.add_argument("--data", metavar="FOLDER", help="MNIST IDX files, plain or .gz (default: the UCI digits)")
    made.add_argument("--model", choices=["mlp", "cnn"], default="mlp", help="default %(default)s")
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--out", metavar="FOLDER", type=Path, default=Path("runs/digits"), help="default %(default)s")
    return made


def check_arguments(parser, options):
    """Ends the program with a sentence if an argument is outside its range."""
    if min(options.processes, options.epochs, options.batch_size) < 1:
        parser.error("--processes, --epochs and --batch-size must be at least 1")
    if not 0 < options.lr < math.inf:
        parser.error("--lr must be a number above 0")
    if not 0 <= options.seed < 2**32:
        parser.error("--seed must lie between 0 and 2**32 - 1")
