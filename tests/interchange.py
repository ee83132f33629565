"""Exchanges state dicts between rushlight and torch in both directions, and compares them bit for bit.

    python tests/interchange.py --count 50      # in an interpreter that has torch and rushlight

The dicts vary in dtypes, strides, offsets, shared storages, nesting, parameters and modules. Both libraries create them
from the same random numbers. Files are exchanged in torch's zip format, and from torch to rushlight also in the format
before 1.6.
"""

import argparse
import collections
import io
import random
import sys

DTYPES = "uint8 int8 int16 int32 int64 uint16 uint32 uint64 float16 bfloat16 float32 float64 complex64 complex128 bool".split()


def tensor(engine, draw):
    """A tensor of random bits, often a view of a larger one."""
    dtype = getattr(engine, draw.choice(DTYPES))
    shape = [draw.randrange(4) for _ in range(draw.randrange(4))]
    count = 1
    for length in shape:
        count *= length
    margin = draw.randrange(3)
    bits = bytearray(draw.randbytes((count + margin) * dtype.itemsize))
    if dtype is engine.bool:
        bits = bytearray(byte & 1 for byte in bits)
    if not bits:
        return engine.zeros(shape, dtype=dtype)
    base = engine.frombuffer(bits, dtype=engine.uint8).clone().view(dtype)
    view = base[margin:].reshape(shape)
    if len(shape) > 1 and draw.random() < 0.5:
        view = view.transpose(0, 1)
    return view


def value(engine, draw, made, depth=0):
    kind = draw.randrange(12 if depth < 3 else 8)
    if kind < 4 or (kind == 4 and not made):
        made.append(tensor(engine, draw))
        return made[-1]
    if kind == 4:
        known = draw.choice(made)
        return known[0] if known.dim() and known.shape[0] else known
    if kind == 5:
        return draw.choice((None, True, -(2**70), 17, 2.5, "text", b"bytes", 1 - 2j, (), {3}))
    if kind == 6:
        made.append(engine.nn.Parameter(engine.full((draw.randrange(1, 4),), draw.random())))
        return made[-1]
    if kind == 7:
        return draw.choice((engine.float16, engine.Size([2, 3]), engine.device("cpu"), collections.Counter("aab")))
    if kind == 8:
        return [value(engine, draw, made, depth + 1) for _ in range(draw.randrange(4))]
    if kind == 9:
        return tuple(value(engine, draw, made, depth + 1) for _ in range(draw.randrange(3)))
    if kind == 10:
        layers = engine.nn.Sequential(engine.nn.Linear(3, 2), engine.nn.BatchNorm1d(2))
        for parameter in layers.parameters():
            engine.nn.init.constant_(parameter, draw.random())
        return layers.state_dict()
    return {f"key{number}": value(engine, draw, made, depth + 1) for number in range(draw.randrange(4))}


def state(engine, seed):
    draw, made = random.Random(seed), []
    names = [f"entry{number}" for number in range(draw.randrange(3, 9))]
    return collections.OrderedDict((name, value(engine, draw, made)) for name in names)


def described(engine, obj, storages):
    """The object as plain data: for tensors everything that a file stores, storages in the order of their occurrence."""
    if isinstance(obj, engine.Tensor):
        storage = obj.untyped_storage()
        place = storages.setdefault(storage.data_ptr(), len(storages)) if storage.nbytes() else -1
        facts = str(obj.dtype), tuple(obj.shape), tuple(obj.stride()), obj.storage_offset(), obj.requires_grad
        return type(obj).__name__, *facts, place, bytes(storage)
    if isinstance(obj, dict):
        items = [(key, described(engine, part, storages)) for key, part in obj.items()]
        return type(obj).__name__, items, getattr(obj, "_metadata", None)
    if isinstance(obj, (list, tuple)):
        return type(obj).__name__, [described(engine, part, storages) for part in obj]
    return type(obj).__name__, str(obj) if isinstance(obj, (engine.dtype, engine.device)) else obj


def carried(source, target, obj, **options):
    file = io.BytesIO()
    source.save(obj, file, **options)
    file.seek(0)
    return target.load(file, weights_only=False if options else None)


def compare(ours, theirs, seed):
    """The exchanges in which something changed."""
    expected = described(ours, state(ours, seed), {})
    for name, sender, receiver, options in (
        ("rushlight to torch", ours, theirs, {}),
        ("torch to rushlight", theirs, ours, {}),
        ("torch to rushlight, old format", theirs, ours, {"_use_new_zipfile_serialization": False}),
    ):
        arrived = carried(sender, receiver, state(sender, seed), **options)
        if described(receiver, arrived, {}) != expected:
            yield name
        if not options and described(sender, carried(receiver, sender, arrived), {}) != expected:
            yield f"{name} and back"


def main():
    import torch

    import rushlight

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    changed = 0
    for seed in range(options.seed, options.seed + options.count):
        for way in compare(rushlight, torch, seed):
            print(f"state {seed}: changed from {way}")
            changed += 1
    print(f"{options.count} states, each five ways: {changed} changed")
    return min(changed, 1)


if __name__ == "__main__":
    sys.exit(main())
