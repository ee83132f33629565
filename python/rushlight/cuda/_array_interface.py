"""Tensors over the memory of objects with Numba's array interface (``__cuda_array_interface__``)."""

from __future__ import annotations

from rushlight import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight import Tensor

_DTYPES = {
    "b1": "bool",
    "u1": "uint8",
    "u2": "uint16",
    "u4": "uint32",
    "u8": "uint64",
    "i1": "int8",
    "i2": "int16",
    "i4": "int32",
    "i8": "int64",
    "f2": "float16",
    "f4": "float32",
    "f8": "float64",
    "c8": "complex64",
    "c16": "complex128",
}


def tensor_over(owner: Any, interface: Any) -> Tensor:
    """A tensor over an object's memory on a GPU, which the object keeps.

    Args:
        owner: the object.
        interface: what it tells of itself. If it names a stream, the current stream waits for that stream's work.

    Raises:
        TypeError: an entry is missing or of another kind, or the memory is read-only.
        ValueError: the elements are in the other byte order, the address or the strides are not multiples of their size, or there
            is no memory.
        RuntimeError: there is no driver.
    """
    import rushlight as torch

    if not isinstance(interface, dict):
        raise TypeError("`__cuda_array_interface__` must be a dict")
    for entry in ("shape", "typestr"):
        if interface.get(entry) is None:
            raise TypeError(f"attribute `{entry}` must exist")
    if interface.get("data") is None:
        raise TypeError("attribute `shape` data exist")
    shape, code = tuple(interface["shape"]), str(interface["typestr"])
    if not isinstance(interface["data"], tuple) or len(interface["data"]) != 2:
        raise TypeError("`data` must be a 2-tuple of (int, bool)")
    address, read_only = interface["data"]
    if read_only:
        raise TypeError("the read only flag is not supported, should always be False")
    if interface.get("mask") is not None:
        raise TypeError("an array with a mask is not supported")
    if code[1:] not in _DTYPES:
        raise TypeError(f"there is no dtype for elements of type {code!r}")
    dtype = getattr(torch, _DTYPES[code[1:]])
    width = dtype.itemsize
    if code[0] == ">" and width > 1:
        raise ValueError(
            "given numpy array has byte order different from the native byte order. Conversion between byte orders is "
            "currently not supported."
        )
    steps = interface.get("strides")
    if steps is None:
        strides, step = [], 1
        for size in reversed(shape):
            strides.append(step)
            step *= max(size, 1)
        strides.reverse()
    else:
        if len(steps) != len(shape):
            raise TypeError("strides must be a sequence of the same length as shape")
        if any(step % width for step in steps):
            raise ValueError(
                "given array strides not a multiple of the element byte size. Copy the array to reallocate the memory."
            )
        strides = [step // width for step in steps]
    _C._cuda_init()
    if 0 in shape:
        return torch.empty(shape, dtype=dtype, device="cuda")
    if not address:
        raise ValueError("there are elements, but no memory")
    if address % (width // 2 if dtype.is_complex else width):
        # Kernels that read such memory would stop the GPU.
        raise ValueError(
            f"the address of the elements is no multiple of their size, {width} bytes. Copy the array to reallocate the memory."
        )
    device = _C._cuda_device_of(address)
    # The memory begins at the lowest element, which is not the first one if strides are negative.
    reach = [(size - 1) * step for size, step in zip(shape, strides, strict=True)]
    low, high = sum(min(step, 0) for step in reach), sum(max(step, 0) for step in reach)
    stream = interface.get("stream")
    if stream == 0:
        raise ValueError("__cuda_array_interface__: the stream 0 is ambiguous; 1 is the default stream")
    if stream is not None:
        # The numbers 1 and 2 are the default stream and the one of the thread, which rushlight's streams are ordered with by the former.
        _C._cuda_wait_for(device, 0 if stream in (1, 2) else stream)
    storage = _C._cuda_borrow(owner, address + low * width, (high - low + 1) * width, device)
    empty = torch.empty(0, dtype=dtype, device=f"cuda:{device}")
    return empty.set_(storage, -low, shape, strides)
