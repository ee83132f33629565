"""Tensors over objects with Numba's array interface."""

import pytest
from card import needs_card, run
from soft_card import RAISES

import rushlight as torch

OBJECT = """
import gc, weakref
class Array:
    # What another library has: here it is a tensor's.
    def __init__(self, tensor, **more):
        self.tensor = tensor
        self.__cuda_array_interface__ = {**tensor.__cuda_array_interface__, "version": 3, **more}
"""


@needs_card
def test_memory_is_shared_and_kept():
    run(
        RAISES
        + OBJECT
        + """
x = torch.arange(12.0, device="cuda").reshape(3, 4)
array = Array(x)
gone = weakref.ref(array)
y = torch.as_tensor(array, device="cuda")
assert y.data_ptr() == x.data_ptr() and torch.equal(y, x) and y.dtype == torch.float32 and y.shape == (3, 4)
y[0, 0] = 50
assert x[0, 0].item() == 50
del array
gc.collect()
assert gone() is not None
view = y[1:]
del y
gc.collect()
assert gone() is not None and view.sum().item() == 60
del view
torch.cuda.synchronize()
gc.collect()
torch.ones(1)
assert gone() is None
copied = torch.tensor(Array(x), device="cuda")
assert torch.equal(copied, x) and copied.data_ptr() != x.data_ptr()
assert torch.asarray(Array(x), device="cuda").data_ptr() == x.data_ptr()
assert torch.as_tensor(Array(x), device="cuda", dtype=torch.int64).tolist() == x.long().tolist()
assert torch.equal(torch.as_tensor(Array(x), device="cpu"), x.cpu())
for part in (x.t(), x[:, 1::2], x[1], x[1, 2], x[:0]):
    made = torch.as_tensor(Array(part), device="cuda")
    assert torch.equal(made, part) and made.shape == part.shape
flipped = Array(x[0], data=(x[0].data_ptr() + 12, False), strides=(-4,))
assert torch.as_tensor(flipped, device="cuda").tolist() == x[0].tolist()[::-1]
for dtype in (torch.bool, torch.uint8, torch.int16, torch.uint32, torch.float16, torch.float64, torch.complex64):
    one = torch.ones(3, dtype=dtype, device="cuda")
    assert torch.equal(torch.as_tensor(Array(one), device="cuda"), one)
"""
    )


@needs_card
def test_the_named_stream_is_waited_for():
    run(
        OBJECT
        + """
x = torch.zeros(1000, device="cuda")
side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(5):
        x += 1
array = Array(x, stream=side.cuda_stream)
# The current stream waits for the other one: its work has run when the sum is there.
assert torch.as_tensor(array, device="cuda").sum().item() == 5000
"""
    )


@needs_card
def test_what_cannot_be_read_is_refused():
    run(
        RAISES
        + OBJECT
        + """
x = torch.ones(4, device="cuda")
read = lambda **more: lambda: torch.as_tensor(Array(x, **more), device="cuda")
raises(TypeError, "the read only flag is not supported, should always be False", read(data=(x.data_ptr(), True)))
raises(ValueError, "given numpy array has byte order different", read(typestr=">f4"))
raises(ValueError, "given array strides not a multiple of the element byte size", read(strides=(6,)))
raises(TypeError, "strides must be a sequence of the same length as shape", read(strides=(4, 4)))
raises(TypeError, "there is no dtype for elements of type '|V3'", read(typestr="|V3"))
raises(TypeError, "attribute `shape` must exist", read(shape=None))
raises(ValueError, "__cuda_array_interface__: the stream 0 is ambiguous", read(stream=0))
raises(ValueError, "there are elements, but no memory", read(data=(0, False)))
raises(ValueError, "the address of the elements is no multiple of their size, 4 bytes", read(data=(x.data_ptr() + 2, False)))
raises(TypeError, "`data` must be a 2-tuple of (int, bool)", read(data=x.data_ptr()))
"""
    )


def test_entries_are_checked_before_the_driver():
    class Array:
        __cuda_array_interface__ = 3

    with pytest.raises(TypeError, match="`__cuda_array_interface__` must be a dict"):
        torch.as_tensor(Array())
    Array.__cuda_array_interface__ = {"shape": (1,), "typestr": "<f4"}
    with pytest.raises(TypeError, match="attribute `shape` data exist"):
        torch.tensor(Array())
    if not torch.cuda.is_available():
        Array.__cuda_array_interface__ = {"shape": (1,), "typestr": "<f4", "data": (16, False), "version": 3}
        with pytest.raises(RuntimeError, match="Found no NVIDIA driver on your system"):
            torch.as_tensor(Array())
