"""NumPy, the buffer protocol and DLPack: shared memory in both directions."""

import ctypes
import gc
import threading
import warnings
import weakref

import pytest

import rushlight as torch

np = pytest.importorskip("numpy")

SHARED = "bool uint8 int8 int16 int32 int64 uint16 uint32 uint64 float16 float32 float64 complex64 complex128".split()


@pytest.mark.parametrize("name", SHARED)
def test_dtypes_both_ways(name):
    array = np.array([[0, 1, 2], [3, 4, 5]]).astype(name)
    tensor = torch.from_numpy(array)
    assert tensor.dtype == getattr(torch, name)
    assert tensor.tolist() == array.tolist()
    back = tensor.numpy()
    assert back.dtype == array.dtype and (back == array).all()
    assert back.__array_interface__["data"] == array.__array_interface__["data"]


def test_writes_are_seen_on_both_sides():
    array = np.zeros(3)
    tensor = torch.from_numpy(array)
    tensor[0] = 1
    array[1] = 2
    assert array.tolist() == tensor.tolist() == [1, 2, 0]
    tensor.numpy()[2] = 3
    assert array.tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    "view", ["[::-1]", "[:, ::-2]", "[::-1, 1:]", ".T", "[1:2, :0]", "[None]", "[0, 0]", "[::2].T[::-1]"]
)
def test_strides(view):
    part = eval(f"array{view}", {"array": np.arange(20.0).reshape(4, 5)})
    tensor = torch.from_numpy(np.asarray(part))
    assert tensor.tolist() == part.tolist()
    assert tensor.numpy().tolist() == part.tolist()
    assert tensor.stride() == tuple(step // 8 for step in np.asarray(part).strides)
    # The stride of a dimension with one element is never used, so that each side may have any value there.
    walked = [axis for axis, size in enumerate(np.shape(part)) if size > 1]
    assert [np.asarray(tensor).strides[axis] for axis in walked] == [np.asarray(part).strides[axis] for axis in walked]


def test_read_only_memory_stays_so():
    array = np.arange(3.0)
    array.flags.writeable = False
    tensor = torch.from_numpy(array)
    assert not tensor.numpy().flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        tensor.add_(1)
    assert (tensor + 1).tolist() == [1, 2, 3]
    assert torch.frombuffer(b"abc", dtype=torch.uint8).tolist() == [97, 98, 99]


@pytest.mark.parametrize(
    ("make", "error", "sentence"),
    [
        (
            lambda: np.array(["a"]),
            TypeError,
            "can't convert np.ndarray of type numpy.str_. The only supported types are",
        ),
        (lambda: np.array([object()]), TypeError, "can't convert np.ndarray of type numpy.object_."),
        (lambda: np.ones(2, ">f4"), ValueError, "given numpy array has byte order different from the native"),
        (lambda: np.ones(4, [("a", "i1"), ("b", "f4")])["b"], ValueError, "given numpy array strides not a multiple"),
        (
            lambda: np.lib.stride_tricks.as_strided(np.zeros(8, "f4"), (1, 2), (3, 4)),
            ValueError,
            "given numpy array strides not a multiple",
        ),
        (lambda: [1], TypeError, "expected np.ndarray (got list)"),
    ],
)
def test_arrays_that_are_refused(make, error, sentence):
    with pytest.raises(error) as caught:
        torch.from_numpy(make())
    assert str(caught.value).startswith(sentence)


def test_tensors_that_are_refused():
    with pytest.raises(RuntimeError, match=r"Can't call numpy\(\) on Tensor that requires grad. Use tensor.detach"):
        torch.ones(2, requires_grad=True).numpy()
    with pytest.raises(RuntimeError, match="requires grad"):
        np.asarray(torch.ones(2, requires_grad=True))
    with pytest.raises(TypeError, match="can't convert meta device type tensor to numpy"):
        torch.ones(2, device="meta").numpy()
    assert torch.ones(2, requires_grad=True).numpy(force=True).tolist() == [1, 1]


def test_bfloat16():
    tensor = torch.tensor([1.5, 2.0], dtype=torch.bfloat16)
    try:
        import ml_dtypes
    except ImportError:
        with pytest.raises(TypeError, match="Got unsupported ScalarType BFloat16"):
            tensor.numpy()
    else:
        array = tensor.numpy()
        assert array.dtype == ml_dtypes.bfloat16
        assert torch.from_numpy(array).tolist() == [1.5, 2.0]


def test_the_array_lives_as_long_as_the_tensor():
    array = np.ones(1000)
    alive = weakref.ref(array)
    tensor = torch.from_numpy(array)
    del array
    gc.collect()
    assert alive() is not None and tensor.sum().item() == 1000
    del tensor
    gc.collect()
    assert alive() is None


def test_the_tensor_lives_as_long_as_the_array():
    array = torch.arange(5).numpy()
    gc.collect()
    assert array.tolist() == [0, 1, 2, 3, 4]


def test_memory_may_be_let_go_by_any_thread():
    for _ in range(20):
        tensors = [torch.from_numpy(np.ones(10)) for _ in range(20)]
        thread = threading.Thread(target=tensors.clear)
        thread.start()
        thread.join()
    array = np.ones(3)
    alive = weakref.ref(array)
    boxes = [torch.from_numpy(array)]
    del array
    thread = threading.Thread(target=boxes.clear)
    thread.start()
    thread.join()
    gc.collect()
    for _ in range(100):
        if alive() is None:
            break
    assert alive() is None


def test_numbers_of_numpy():
    assert torch.tensor(np.float64(1.5)).dtype == torch.float64
    assert torch.tensor([np.float32(1.5)]).dtype == torch.float32
    assert torch.tensor([np.int16(1), 2.5]).tolist() == [1.0, 2.5]
    assert torch.tensor([np.bool_(True)]).dtype == torch.bool
    assert torch.tensor(np.array(1.5), dtype=torch.int32).item() == 1
    assert (torch.ones(2) * np.float32(2)).tolist() == [2, 2]


def test_as_tensor_shares_and_tensor_copies():
    array = np.zeros(2, np.float32)
    torch.as_tensor(array)[0] = 1
    assert array[0] == 1
    torch.tensor(array)[1] = 1
    assert array[1] == 0
    assert torch.as_tensor(array, dtype=torch.float64).dtype == torch.float64
    x = torch.ones(2)
    assert torch.as_tensor(x) is x


def test_asarray():
    array = np.zeros(2)
    torch.asarray(array)[0] = 1
    assert array[0] == 1
    torch.asarray(array, copy=True)[1] = 1
    assert array[1] == 0
    assert torch.asarray(3).item() == 3
    assert torch.asarray(bytearray(8), dtype=torch.float32).tolist() == [0, 0]
    with pytest.raises(ValueError, match="can't alias tensor with dtype 'Double' into dtype 'Int'."):
        torch.asarray(array, dtype=torch.int32, copy=False)
    with pytest.raises(ValueError, match="can't alias arbitrary sequence into a tensor."):
        torch.asarray([1], copy=False)


def test_buffers():
    tensor = torch.arange(6, dtype=torch.int16).reshape(2, 3)
    view = memoryview(tensor)
    assert (view.format, view.shape, view.strides, view.readonly) == ("h", (2, 3), (6, 2), False)
    assert view.tolist() == tensor.tolist()
    view[1, 2] = 9
    assert tensor[1, 2].item() == 9
    assert memoryview(tensor.t()).tolist() == tensor.t().tolist()
    with pytest.raises(TypeError, match="C-contiguous"):
        memoryview(tensor.t()).cast("B")
    with pytest.raises(BufferError):
        memoryview(torch.ones(1, dtype=torch.bfloat16))


def test_frombuffer():
    raw = bytearray(range(8))
    tensor = torch.frombuffer(raw, dtype=torch.int16, count=2, offset=2)
    tensor[0] = -1
    assert raw[2:4] == b"\xff\xff"
    for keywords, sentence in [
        ({"count": 5}, "requested buffer length (5 * 2 bytes) after offset (0 bytes) must not be greater than actual"),
        ({"offset": 9}, "offset (9 bytes) must be non-negative and no greater than buffer length (8 bytes) minus 1"),
        ({"offset": 1}, "buffer length (7 bytes) after offset (1 bytes) must be a multiple of element size (2)"),
    ]:
        with pytest.raises(ValueError) as caught:
            torch.frombuffer(raw, dtype=torch.int16, **keywords)
        assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize("name", SHARED)
@pytest.mark.parametrize("view", ["[::-1]", "[:, ::-2]", ".T", "[1]", "[1, 2, ...]", "[:0]", "[::2, 1:2]"])
def test_buffers_of_views(name, view):
    array = np.arange(20).reshape(4, 5).astype(name)
    tensor, array = (eval(f"whole{view}", {"whole": whole}) for whole in (torch.from_numpy(array), array))
    seen = np.asarray(memoryview(tensor))
    assert seen.dtype is array.dtype and seen.shape == array.shape and (seen == array).all()
    assert np.shares_memory(seen, array) or not array.size


def test_buffers_of_memory_that_is_read_only():
    array = np.arange(3)
    array.flags.writeable = False
    view = memoryview(torch.from_numpy(array))
    assert view.readonly and view.tolist() == [0, 1, 2]
    with pytest.raises(TypeError, match="cannot modify read-only memory"):
        view[0] = 1
    with pytest.raises(BufferError):
        memoryview(torch.ones(1, requires_grad=True))


def test_array_protocols():
    tensor = torch.arange(4.0)
    assert np.sqrt(tensor).tolist() == [0, 1, np.sqrt(np.float32(2)), np.sqrt(np.float32(3))]
    assert tensor.__array__(np.float64).dtype == np.float64
    assert torch.Tensor.__array_priority__ == 1000
    # NumPy has two 64-bit integer types. The result is the one that it calls int64.
    assert np.asarray(torch.arange(2)).dtype is np.dtype(np.int64)
    assert np.asarray(tensor).__array_interface__["data"][0] == tensor.data_ptr()


def test_arrays_copy_where_they_must_or_are_told():
    tensor = torch.arange(4.0)

    def shares(**keywords):
        return np.shares_memory(tensor.__array__(**keywords), tensor.numpy())

    assert shares() and shares(copy=False) and shares(dtype="float32") and shares(dtype="float32", copy=False)
    assert not shares(copy=True) and not shares(dtype="float32", copy=True) and not shares(dtype="float64")
    for convert in (tensor.__array__, lambda **keywords: np.array(tensor, **keywords)):
        with pytest.raises(ValueError, match="Unable to avoid copy while creating an array as requested."):
            convert(dtype="float64", copy=False)


def test_arguments_of_numpy():
    with pytest.raises(TypeError, match=r"numpy\(\): argument 'force' must be bool, not int"):
        torch.ones(1).numpy(force=3)
    with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor; no data!"):
        torch.ones(1, device="meta").numpy(force=True)
    with pytest.raises(RuntimeError, match="can't alias NumPy scalars"):
        torch.asarray(np.float32(1), copy=False)


@pytest.mark.parametrize("name", [*SHARED, "bfloat16"])
def test_dlpack_round_trip(name):
    tensor = torch.zeros(2, 3, dtype=getattr(torch, name))
    back = torch.from_dlpack(tensor)
    assert back.dtype == tensor.dtype and back.data_ptr() == tensor.data_ptr()


def test_dlpack_with_numpy():
    tensor = torch.arange(6.0).reshape(2, 3).t()
    array = np.from_dlpack(tensor)
    assert array.tolist() == tensor.tolist() and array.strides == (4, 12)
    own = np.arange(3.0)
    torch.from_dlpack(own)[0] = 5
    assert own[0] == 5
    assert tensor.__dlpack_device__() == (1, 0)


@pytest.mark.parametrize(("version", "is_new"), [((2**70, 0), True), ((1,), True), ([1, 0], True), ((-1, 0), False)])
def test_versions_of_dlpack_are_any_numbers(version, is_new):
    name = "dltensor_versioned" if is_new else "dltensor"
    assert f'"{name}"' in repr(torch.ones(2).__dlpack__(max_version=version))


def test_versions_of_dlpack_are_compared():
    with pytest.raises(TypeError, match="'int' object is not subscriptable"):
        torch.ones(2).__dlpack__(max_version=5)
    with pytest.raises(TypeError, match="'<' not supported between instances of 'str' and 'int'"):
        torch.ones(2).__dlpack__(max_version=("a", 0))


@pytest.mark.parametrize("device", ["x", (1,), (99, 0), (1, "a"), (1.5, 0), (2**70, 0)])
def test_only_devices_with_streams_are_read(device):
    class Producer:
        def __dlpack__(self, **keywords):
            return torch.ones(2).__dlpack__(**keywords)

        def __dlpack_device__(self):
            return device

    assert torch.from_dlpack(Producer()).tolist() == torch.asarray(Producer()).tolist() == [1, 1]


def test_buffers_with_gaps_are_refused():
    for call in (torch.asarray, torch.frombuffer):
        with pytest.raises(RuntimeError, match="^could not retrieve buffer from object"):
            call(memoryview(b"abcd")[::2], dtype=torch.uint8)


def test_dlpack_refusals():
    with pytest.raises(BufferError, match="Can't export tensors that require gradient, use tensor.detach()"):
        torch.ones(1, requires_grad=True).__dlpack__()
    for keywords in ({}, {"copy": False, "max_version": (1, 0)}):
        with pytest.raises(BufferError, match="negative strides can only be exported as a copy"):
            torch.from_numpy(np.arange(3.0)[::-1]).__dlpack__(**keywords)
    with pytest.raises(AssertionError, match="stream should be None on cpu."):
        torch.ones(1).__dlpack__(stream=1)
    with pytest.raises(TypeError, match="stream must be ``int`` or ``none``"):
        torch.ones(1).__dlpack__(stream="1")
    with pytest.raises(TypeError, match="argument 'dl_device' must be tuple of ints, not int"):
        torch.ones(1).__dlpack__(dl_device=1)
    with pytest.raises(BufferError, match="cannot move a tensor on cpu to device type 2"):
        torch.ones(1).__dlpack__(dl_device=(2, 0))
    with pytest.raises(ValueError, match="cannot move .* tensor from cpu to meta without copying"):
        torch.from_dlpack(np.ones(1), device="meta", copy=False)
    capsule = torch.ones(1).__dlpack__()
    torch.from_dlpack(capsule)
    with pytest.raises(RuntimeError, match="can be consumed only once"):
        torch.from_dlpack(capsule)
    torch.ones(1).__dlpack__(max_version=(1, 0))  # unused: the capsule releases its memory


@pytest.mark.parametrize("offset", [2**63, 2**64 - 8, 2**63 - 1])
def test_dlpack_refuses_offsets_past_the_address_space(offset):
    capsule = torch.ones(4).__dlpack__()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    described = pointer(capsule, b"dltensor")
    # The byte offset is the last field: behind the data, the device, the rank, the dtype, the shape and the strides.
    ctypes.c_uint64.from_address(described + 40).value = offset
    with pytest.raises(BufferError, match="do not fit in memory"):
        torch.from_dlpack(capsule)
    ctypes.c_uint64.from_address(described + 40).value = 4
    assert torch.from_dlpack(capsule)[:3].tolist() == [1, 1, 1]


def test_dlpack_keeps_read_only():
    array = np.arange(3.0)
    array.flags.writeable = False
    tensor = torch.from_dlpack(array)
    with pytest.raises(ValueError, match="read-only"):
        tensor.zero_()
    with pytest.raises(BufferError):
        tensor.__dlpack__()
    assert not np.from_dlpack(tensor).flags.writeable


@pytest.mark.parametrize("view", ["[::-1]", "[:, ::-2]", "[::-1, 3]", "[2, ::-1]", "[::-1, :0]", "[1:0:-1, ::-1].T"])
def test_dlpack_brings_negative_strides(view):
    array = np.arange(20.0).reshape(4, 5)
    part = eval(f"array{view}", {"array": array})
    tensor = torch.from_dlpack(part)
    assert tensor.tolist() == part.tolist() and list(tensor.shape) == list(part.shape)
    tensor.fill_(-1)
    assert (part == -1).all() and (array == -1).sum() == part.size


def test_dlpack_takes_negative_strides_along_as_a_copy():
    """Some consumers crash with such values."""
    tensor = torch.arange(6).reshape(2, 3).flip(0)[::-1, ::-1]
    array = np.from_dlpack(tensor)
    assert array.tolist() == tensor.tolist() and not np.shares_memory(array, tensor.numpy())
    with pytest.raises(BufferError):
        np.from_dlpack(tensor, copy=False)
    one = torch.arange(3)[1::-2]
    assert np.shares_memory(np.from_dlpack(one), one.numpy())


@pytest.mark.parametrize("versioned", [True, False])
def test_dlpack_asks_the_producer(versioned):
    """The producer gets the request. If it does not support versions, the copy is made here."""

    class Producer:
        def __init__(self):
            self.array, self.asked = np.ones(2), None

        def __dlpack_device__(self):
            return (1, 0)

        def __dlpack__(self, **keywords):
            if not versioned and keywords:
                raise TypeError("unexpected keyword argument")
            self.asked = keywords
            return self.array.__dlpack__(**keywords)

    for keywords, asked in [
        ({}, {}),
        ({"copy": True}, {"copy": True}),
        ({"copy": False}, {"copy": False}),
        ({"device": "cpu"}, {"dl_device": (1, 0)}),
    ]:
        producer = Producer()
        torch.from_dlpack(producer, **keywords)[0] = 5
        assert producer.array[0] == (1 if keywords.get("copy") else 5)
        assert producer.asked == ({"max_version": (1, 1), **asked} if versioned else {})


def test_dlpack_objects_are_data():
    class Producer:
        def __init__(self, array):
            self.array = array

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

        def __dlpack__(self, **keywords):
            return self.array.__dlpack__(**keywords)

    array = np.arange(3.0)
    for make, shares in ((torch.tensor, False), (torch.as_tensor, True), (torch.asarray, True)):
        tensor = make(Producer(array))
        assert tensor.tolist() == array.tolist() and tensor.dtype is torch.float64
        assert np.shares_memory(tensor.numpy(), array) == shares
    assert torch.tensor(Producer(array), dtype=torch.int8).dtype is torch.int8


def test_dlpack_names():
    from rushlight.utils.dlpack import DLDeviceType, from_dlpack, to_dlpack

    assert DLDeviceType.kDLCPU == torch.ones(1).__dlpack_device__()[0]
    assert from_dlpack(to_dlpack(torch.arange(2))).tolist() == [0, 1]
    with pytest.raises(TypeError, match=r"^_to_dlpack\(\): argument 'data' \(position 1\) must be Tensor, not int"):
        to_dlpack(5)
    assert not from_dlpack(to_dlpack(torch.ones(2, requires_grad=True))).requires_grad


def test_dlpack_exports_strided_memory():
    for tensor in (torch.eye(2).to_sparse(), torch.eye(2).to_sparse_csr()):
        for export in (tensor.__dlpack__, lambda tensor=tensor: torch.from_dlpack(tensor)):
            with pytest.raises(BufferError, match="^Can't export tensors with layout other than torch.strided"):
                export()
        with pytest.raises(RuntimeError, match="^Cannot access data pointer of Tensor that doesn't have storage"):
            torch.utils.dlpack.to_dlpack(tensor)


def test_dlpack_keeps_memory():
    back = torch.from_dlpack(torch.arange(5))
    gc.collect()
    assert back.tolist() == [0, 1, 2, 3, 4]


def test_lists_of_arrays_warn_once():
    with pytest.warns(UserWarning, match="Creating a tensor from a list of numpy.ndarrays is extremely slow."):
        assert torch.tensor([np.ones(2), np.zeros(2)]).tolist() == [[1, 1], [0, 0]]


def test_an_array_equals_element_by_element():
    """NumPy lets the tensor compare, on either side. Otherwise the objects themselves would be compared."""
    tensor, array = torch.tensor([1, 2]), np.array([1, 3])
    assert (tensor == array).tolist() == [True, False]
    assert (array == tensor).tolist() == [True, False]
    assert (tensor != array).tolist() == [False, True]
    with pytest.raises(RuntimeError, match="The size of tensor a"):
        assert tensor == np.zeros(3)


@pytest.mark.parametrize(
    "show",
    [
        lambda x: x.numpy(),
        lambda x: np.asarray(x),
        lambda x: np.from_dlpack(x),
        lambda x: torch.from_dlpack(x),
        lambda x: memoryview(x),
        lambda x: memoryview(x.untyped_storage()),
        lambda x: x.__dlpack__(),
    ],
)
def test_what_others_look_at_keeps_its_size(show):
    """torch raises an error for NumPy arrays but leaves DLPack with freed memory. rushlight raises an error for both."""
    x = torch.arange(4.0)
    seen = show(x)
    for grow in (lambda: x.resize_(100_000), lambda: torch.add(torch.ones(1000), 1, out=x)):
        with (
            pytest.raises(RuntimeError, match="Trying to resize storage that is not resizable"),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")
            grow()
    assert x.tolist() == [0, 1, 2, 3] and x.resize_(2).tolist() == [0, 1]
    x.resize_(4)
    x.share_memory_().fill_(7)  # moves the tensor; existing views keep the old memory
    del seen
    assert torch.arange(4.0).resize_(1000).numel() == 1000


def test_an_address_that_was_given_away_stays():
    x = torch.arange(4.0)
    address = x.__array_interface__["data"][0]
    x.__array_interface__  # can be read repeatedly
    with pytest.raises(RuntimeError, match="not resizable"):
        x.resize_(1000)
    x.share_memory_()
    assert x.data_ptr() != address and (ctypes.c_float * 4).from_address(address)[:] == [0, 1, 2, 3]


def test_arrays_without_dimensions_keep_their_dtype():
    """They are arrays, not numbers: NumPy computes as with arrays that have dimensions."""
    two = np.array(2.0)
    assert (torch.ones(2) * two).dtype == torch.float64
    assert (torch.ones(2, dtype=torch.int32) + np.array(2)).dtype == torch.int64
    assert (torch.ones(2) - np.array(1j)).dtype == torch.complex128
    x = torch.ones(2)
    x *= two
    assert x.tolist() == [2, 2] and x.dtype == torch.float64
    for refused in (lambda: torch.mul(x, two), lambda: x > two, lambda: two * x, lambda: x.copy_(two)):
        with pytest.raises(TypeError):
            refused()
    assert (torch.ones(2) * np.float64(2)).dtype == torch.float32
