"""Tensors of a device that other libraries share, through DLPack and the array interface, each program in a process of its own."""

import pytest
from card import needs_card, run
from soft_card import RAISES

pytestmark = needs_card

#: A library that works on the default stream, and notes the stream that a consumer asks for.
LIBRARY = """
class Foreign:
    def __init__(self, own):
        self.own, self.streams = own, []
    def __dlpack_device__(self):
        return self.own.__dlpack_device__()
    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        self.streams.append(stream)
        with torch.cuda.stream(torch.cuda.default_stream()):
            return self.own.__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)
"""


@pytest.mark.parametrize("seed", [0, 2])
def test_both_sides_see_the_same_elements(seed):
    run(
        RAISES
        + LIBRARY
        + """
import gc
x = torch.arange(12.0, device="cuda").reshape(3, 4)
assert x.__dlpack_device__() == (2, 0)
pinned = torch.arange(3.0).pin_memory()
assert pinned.__dlpack_device__() == (3, 0) and torch.arange(3.0).__dlpack_device__() == (1, 0)
shared = torch.from_dlpack(pinned)
assert shared.data_ptr() == pinned.data_ptr() and shared.device.type == "cpu"
for source in (x, x.t(), x[1:, ::2], x[2], x[:0], x.int()):
    for old in (False, True):
        y = torch.from_dlpack(source.__dlpack__() if old else source)
        assert y.device == source.device and y.dtype == source.dtype and y.shape == source.shape and torch.equal(y, source)
y = torch.from_dlpack(x.t())
assert y.stride() == (1, 4) and y.data_ptr() == x.data_ptr()
y += 100
assert x[0].tolist() == [100, 101, 102, 103]
# The memory stays as long as either side has it, and keeps its size.
allocated = torch.cuda.memory_allocated()
raises(RuntimeError, "", lambda: x.resize_(1000))
del x, source
gc.collect()
assert torch.cuda.memory_allocated() >= 512 and y[0].tolist() == [100, 104, 108]
del y
gc.collect()
assert torch.cuda.memory_allocated() < allocated
# Work of another stream is waited for, and the producer hears of the consumer's stream.
side = torch.cuda.Stream()
for step in range(20):
    x = torch.full((2000,), float(step), device="cuda") * 2
    with torch.cuda.stream(side):
        one = Foreign(x)
        z = torch.from_dlpack(one) + 1
        del x, one.own
        torch.full((2000,), -1.0, device="cuda")
        assert one.streams == [side.cuda_stream] and z.sum().item() == 2000 * (2 * step + 1)
one = Foreign(torch.ones(2, device="cuda"))
torch.from_dlpack(one)
assert one.streams == [1]
# To the host and back, and what is refused.
x = torch.ones(3, device="cuda")
host = torch.from_dlpack(x, device="cpu")
assert host.device.type == "cpu" and host.tolist() == [1] * 3
assert torch.from_dlpack(x, copy=True).data_ptr() != x.data_ptr()
raises(ValueError, "cannot move (i.e. copy=False) tensor from cuda:0 to cpu without copying.", lambda: torch.from_dlpack(x, device="cpu", copy=False))
raises(AssertionError, "unsupported stream on CUDA: 0.", lambda: x.__dlpack__(stream=0))
raises(BufferError, "per-thread default stream is not supported.", lambda: x.__dlpack__(stream=2))
raises(TypeError, "stream must be ``int`` or ``none``", lambda: x.__dlpack__(stream="1"))
raises(BufferError, "Can't export tensors that require gradient", lambda: torch.ones(2, device="cuda", requires_grad=True).__dlpack__())
x.__dlpack__(stream=-1), x.__dlpack__(stream=side.cuda_stream)
""",
        SOFTCUDA_SEED=seed,
    )


def test_the_array_interface():
    run(
        RAISES
        + """
x = torch.arange(6, dtype=torch.int16, device="cuda").reshape(2, 3)
assert x.__cuda_array_interface__ == {"typestr": "<i2", "shape": (2, 3), "strides": None, "data": (x.data_ptr(), False), "version": 2}
view = x.t()[1:]
shown = view.__cuda_array_interface__
assert shown["strides"] == (2, 6) and shown["shape"] == (2, 2) and shown["data"][0] == x.data_ptr() + 2
assert torch.ones(0, device="cuda").__cuda_array_interface__["data"] == (0, False)
kinds = {torch.bool: "|b1", torch.uint8: "|u1", torch.float16: "<f2", torch.bfloat16: "<V2", torch.complex64: "<c8", torch.float64: "<f8"}
assert {dtype: torch.ones(1, dtype=dtype, device="cuda").__cuda_array_interface__["typestr"] for dtype in kinds} == kinds
raises(RuntimeError, "Can't get __cuda_array_interface__ on Variable that requires grad.", lambda: torch.ones(1, device="cuda", requires_grad=True).__cuda_array_interface__)
told = "Can't get __cuda_array_interface__ on non-CUDA tensor type: 'torch.FloatTensor'"
raises(AttributeError, told, lambda: torch.ones(1).__cuda_array_interface__)
assert not hasattr(torch.ones(1), "__cuda_array_interface__")
"""
    )


def test_a_type_of_gpus_is_the_default():
    run(
        RAISES
        + """
import warnings
warnings.simplefilter("ignore")
for kind in ("torch.cuda.DoubleTensor", torch.cuda.DoubleTensor):
    torch.set_default_tensor_type(kind)
    x = torch.ones(2)
    assert x.device == torch.device("cuda", 0) and x.dtype == torch.float64 and torch.tensor([1]).is_cuda
    torch.set_default_tensor_type(torch.FloatTensor)
    assert torch.ones(2).device.type == "cpu" and torch.ones(2).dtype == torch.float32
raises(TypeError, "", lambda: torch.set_default_tensor_type(torch.cuda.LongTensor))
torch.set_default_device("meta")
torch.set_default_tensor_type(torch.FloatTensor)
assert torch.ones(1).device.type == "meta"
"""
    )
