"""Writes a checkpoint: the pickle, the bytes of the storages, and the records with the format version."""

import hashlib
import io
import mmap
import sys

from rushlight import _C
from rushlight.utils.serialization import config

from .errors import translated
from .options import skipping_data
from .pickler import Pickler


def write(target, folder: str, obj: object, protocol: int, compact: bool, byteorder: bool) -> None:
    data = io.BytesIO()
    pickler = Pickler(data, protocol, compact)
    pickler.dump(obj)
    alignment = config.save.storage_alignment
    checksums = config.save.compute_crc32
    writer = translated(lambda: _C._CheckpointWriter(target, folder, alignment, checksums))
    writer.record("data.pkl", data.getvalue())
    writer.record(".format_version", b"1")
    writer.record(".storage_alignment", str(alignment).encode())
    if byteorder:
        writer.record("byteorder", sys.byteorder.encode())
    for number, storage in enumerate(pickler.storages):
        writer.record(f"data/{number}", bytes_of(storage))
    writer.record("version", b"3\n")
    writer.record(".data/serialization_id", serialization_id(writer).encode())
    writer.finish()
    if hasattr(target, "flush"):
        target.flush()


def serialization_id(writer) -> str:
    """A number that follows from the contents so far, with 40 digits."""
    content = hashlib.blake2b(repr(writer.checksums()).encode(), digest_size=16).digest()
    return f"{int.from_bytes(content, 'little'):040d}"[:40]


def bytes_of(storage):
    """The bytes of a storage, or as many zeros, which need no memory."""
    if skipping_data() and storage.nbytes():
        return memoryview(mmap.mmap(-1, storage.nbytes(), mmap.MAP_PRIVATE))
    return memoryview(storage if storage.device.type == "cpu" else storage.cpu())
