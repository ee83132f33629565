"""`UntypedStorage`: bytes as a list, contents, files and buffers, compared with torch 2.13."""

import copy
import gc
import pickle
import sys
import threading
import weakref

import numpy as np
import pytest

import rushlight as torch

U = torch.UntypedStorage


def test_bytes_are_read_and_written():
    x = torch.ones(1)
    storage = x.untyped_storage()
    assert storage.tolist() == [0, 0, 128, 63] and storage.element_size() == 1
    assert repr(storage) == " 0\n 0\n 128\n 63\n[torch.storage.UntypedStorage(device=cpu) of size 4]"
    storage[0], storage[1:3] = 300, 2
    assert storage.tolist() == [44, 2, 2, 63] and x.view(torch.uint8).tolist() == [44, 2, 2, 63]
    storage[1:3].fill_(-1)
    assert storage.tolist() == [44, 255, 255, 63]
    storage.copy_(torch.zeros(1).untyped_storage())
    assert x.item() == 0
    assert storage.cpu() is storage.untyped() is storage and storage.new().size() == 0 and not storage.is_pinned()
    assert storage.fill_(3).float().tolist() == [3.0] * 4 and storage.long().dtype == torch.int64
    assert repr(torch.empty(3, device="meta").untyped_storage()) == (
        "...\n[torch.storage.UntypedStorage(device=meta) of size 12]"
    )


@pytest.mark.parametrize(
    "call, error, sentence",
    [
        (lambda s: s.fill_(1.5), RuntimeError, "fill_ expects int, but got float"),
        (lambda s: s.__setitem__(0, 1.5), RuntimeError, "can only set storage content with a int types, but got float"),
        (lambda s: s.__setitem__("a", 1), RuntimeError, "can't index a torch.UntypedStorage with str"),
        (lambda s: s.__setitem__(9, 1), RuntimeError, "out of bounds"),
        (lambda s: s.__setitem__(-1, 1), RuntimeError, "out of bounds"),
        (lambda s: s.__setitem__(True, 1), RuntimeError, "can't index a torch.UntypedStorage with bool"),
        (lambda s: s.__setitem__(slice(None, None, 2), 1), RuntimeError, "Trying to slice with a step of 2"),
        (lambda s: s.__setitem__(2**63, 1), ValueError, "Overflow when unpacking long long"),
        (lambda s: s[2**64], ValueError, "Overflow when unpacking long long"),
        (lambda s: s.copy_(torch.ones(3).untyped_storage()), RuntimeError, "self was 4 bytes but src was 12 bytes"),
        (lambda s: s.copy_(torch.ones(1)), TypeError, "argument 'src' .position 1. must be torch.Storage, not Tensor"),
        (lambda s: s[::2], RuntimeError, "Trying to slice with a step of 2, but only a step of 1 is supported"),
    ],
)
def test_slips(call, error, sentence):
    with pytest.raises(error, match=sentence):
        call(torch.ones(1).untyped_storage())


def test_what_cannot_be_written_leaves_the_bytes():
    storage = torch.zeros(4, dtype=torch.uint8).untyped_storage()
    for index in (-1, -4, 4, True, slice(None, None, -1)):
        with pytest.raises(RuntimeError):
            storage[index] = 500
    assert storage[-1] == 0 and storage.tolist() == [0] * 4
    storage[-2:] = 500
    assert storage.tolist() == [0, 0, 244, 244]


def test_numbers_of_a_buffer():
    turned = [3, 2, 1, 0, 7, 6, 5, 4]
    assert U.from_buffer(bytes(range(8)), "big", dtype=torch.float32).tolist() == turned
    assert U.from_buffer(bytes(range(8)), "big", dtype=torch.complex64).tolist() == turned
    assert U.from_buffer(np.arange(2, dtype="<i2"), "little", 1, 2, dtype=torch.int16).tolist() == [1, 0]
    assert U.from_buffer(bytes(range(3)), dtype=torch.bool).tolist() == [0, 1, 1]
    for arguments, error, sentence in [
        ({}, RuntimeError, "argument 'dtype' cannot be None"),
        ({"dtype": torch.int16}, RuntimeError, r"missing required argument 'byte_order' \(pos 2\)"),
        ({"dtype": torch.int16, "byte_order": "x"}, ValueError, "invalid byte_order 'x'"),
        ({"dtype": torch.int16, "byte_order": "native"}, ValueError, r"size \(3\) must be a multiple of element size"),
        ({"dtype": torch.int8, "count": 4}, ValueError, "only 3 elements after offset 0, but specified a size of 4"),
        ({"dtype": torch.int8, "offset": 4}, ValueError, "offset must be non-negative"),
    ]:
        with pytest.raises(error, match=sentence):
            U.from_buffer(b"abc", **arguments)


def test_bytes_of_a_file(tmp_path):
    path = str(tmp_path / "bytes")
    with pytest.raises(
        RuntimeError, match=r"unable to open file <.*> in read-only mode: No such file or directory \(2\)"
    ):
        U.from_file(path, False, 4)
    U.from_file(path, True, 4).fill_(7)
    private = U.from_file(path, False, 2).fill_(1)
    assert private.tolist() == [1, 1] and open(path, "rb").read() == b"\7\7\7\7"
    with pytest.raises(RuntimeError, match="size <4> is smaller than the required mapping size <8>"):
        U.from_file(path, False, 8)


@pytest.mark.filterwarnings("ignore:TypedStorage")
def test_typed_storages_say_what_they_are():
    storage = torch.ones(2).storage()
    assert storage.type() == "torch.FloatStorage" and storage.cpu().tolist() == [1, 1]
    assert not storage.is_cuda and not storage.is_pinned()


def test_a_storage_gives_its_memory_back_and_takes_it_again():
    x = torch.ones(2)
    y, storage = x[1:], x.untyped_storage()
    assert storage.resizable() and storage.resize_(16) is storage and len(storage) == 16
    assert x.tolist() == [1.0, 1.0] and x.resize_(4).tolist()[:2] == [1.0, 1.0]
    x.resize_(2)
    assert storage.resize_(0).nbytes() == 0 and x.shape == (2,)
    for use in (lambda: x + 1, lambda: y.item(), lambda: x.fill_(0), lambda: x.sum(), x.tolist, x.numpy):
        with pytest.raises(RuntimeError, match="^the tensor's storage was resized to zero bytes"):
            use()
    storage.resize_(8)
    assert x.fill_(3).tolist() == [3.0, 3.0] and y.tolist() == [3.0]
    with pytest.raises(RuntimeError, match="^resize_ expects an int, but got str"):
        storage.resize_("a")
    shown = torch.from_numpy(np.ones(2)).untyped_storage()
    assert not shown.resizable()
    with pytest.raises(RuntimeError, match="^Trying to resize storage that is not resizable"):
        shown.resize_(0)


@pytest.mark.parametrize("through", [0, 4])
def test_tensors_of_a_shrunken_storage_stay_in_its_memory(through):
    x = torch.ones(100_000)
    storage = x.untyped_storage()
    storage.resize_(through)
    storage.resize_(40)
    assert storage.nbytes() == 40
    x.fill_(2)
    assert (x + 1).sum() == 300_000
    storage.resize_(4)
    assert x[0] == 2 and x.fill_(3).sum() == 300_000
    x.share_memory_()
    # What was discarded is not moved.
    assert storage.nbytes() == 4 and x.sum() == 3 and x.fill_(4).sum() == 400_000


def test_set_keeps_the_device():
    x, y = torch.zeros(5), torch.zeros(5, device="meta")
    for target, source in ((x, y.untyped_storage()), (y, x.untyped_storage()), (x, y)):
        with pytest.raises(RuntimeError, match="^Attempted to set the storage of a tensor on device"):
            target.set_(source)
    assert x.device.type == "cpu" and x.tolist() == [0] * 5


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_typed_storages_share_their_memory_with_tensors():
    x = torch.arange(4.0)
    for made in (x.new(x.storage()), torch.FloatTensor(x.storage()), x.new(storage=x.storage())):
        made[0] = made[0] + 1
    assert x[0] == 3
    with pytest.raises(RuntimeError, match="Expected a Storage of type Long or an UntypedStorage, but got type Float"):
        torch.LongTensor(x.storage())
    y = torch.zeros(1)
    assert y.set_(x.storage()).data_ptr() == x.data_ptr() and y.shape == (4,)
    assert torch.zeros(1).set_(x.storage(), 1, (2,), (1,)).tolist() == [1.0, 2.0]
    assert torch.zeros(1).set_(source=x.storage(), storage_offset=3, size=(1,)).tolist() == [3.0]
    with pytest.raises(
        RuntimeError, match="Expected a Storage of type int or an UntypedStorage, but got type Float for"
    ):
        torch.zeros(1, dtype=torch.int32).set_(x.storage())


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (2, 1, 0)])
def test_copies_of_a_tensor_and_its_storages_share_memory(order):
    x = torch.arange(4.0)
    objects = [x, x.storage(), x.untyped_storage()]
    copied = copy.deepcopy([objects[place] for place in order])
    tensor, typed, untyped = (copied[order.index(place)] for place in range(3))
    tensor[0] = 7
    assert typed[0] == 7 and untyped.data_ptr() == tensor.data_ptr() and x[0] == 0


def test_legacy_classes_of_storages():
    made = torch.FloatStorage([1, 2, 3])
    assert type(made) is torch.TypedStorage and made.tolist() == [1.0, 2.0, 3.0]
    assert isinstance(made, torch.FloatStorage) and not isinstance(made, torch.LongStorage)
    assert torch.IntStorage(2).dtype == torch.int32 and torch.ComplexFloatStorage().size() == 0
    assert torch.FloatStorage.from_buffer(b"\0\0\x80?", "little").tolist() == [1.0]
    assert torch.Storage is torch.FloatStorage and repr(torch.FloatStorage) == "<class 'rushlight.FloatStorage'>"
    torch.set_default_dtype(torch.float64)
    try:
        assert torch.Storage is torch.DoubleStorage
    finally:
        torch.set_default_dtype(torch.float32)
    for call, error, sentence in (
        (lambda: torch.FloatStorage(2, 3), RuntimeError, "Too many positional arguments"),
        (lambda: torch.FloatStorage(dtype=torch.int32), RuntimeError, "Keyword argument 'dtype' cannot be specified"),
        (lambda: torch.FloatStorage(made), TypeError, "Argument type not recognized"),
        (lambda: torch.FloatStorage("a"), TypeError, r"new\(\): invalid data type 'str'"),
        (lambda: torch.TypedStorage(2, 3, dtype=torch.int32), RuntimeError, "Too many positional arguments"),
        (lambda: torch.TypedStorage(wrap_storage=3, dtype=torch.int32), TypeError, "must be UntypedStorage"),
        (lambda: torch.TypedStorage(wrap_storage=made.untyped()), RuntimeError, "'dtype' must be specified"),
    ):
        with pytest.raises(error, match=sentence):
            call()
    assert not isinstance(made, torch.cuda.FloatStorage)


def test_legacy_classes_of_quantised_storages():
    for name, dtype, plain in (
        ("QInt8Storage", torch.qint8, torch.int8),
        ("QUInt8Storage", torch.quint8, torch.uint8),
        ("QInt32Storage", torch.qint32, torch.int32),
    ):
        kind = getattr(torch, name)
        made = kind([1, 2])
        assert kind.dtype is made.dtype is dtype and len(kind(3)) == 3 and made.tolist() == [1, 2]
        assert made.type() == f"torch.{name}" and made.pickle_storage_type() == name and isinstance(made, kind)
        assert made.nbytes() == 2 * plain.itemsize and not isinstance(torch.FloatStorage(1), kind)
        own = torch.quantize_per_tensor(torch.tensor([1.0, 2.0]), 0.5, 1, dtype).storage()
        assert isinstance(own, kind) and own.tolist() == [3, 5] and own.type() == f"torch.{name}"
    assert not hasattr(torch.cuda, "QInt8Storage")


def test_methods_of_typed_storages():
    storage = torch.TypedStorage([1.0, 0.0, 3.0], dtype=torch.float32)
    assert storage.int().tolist() == [1, 0, 3] and storage.bool().tolist() == [True, False, True]
    assert storage.float() is storage and storage.complex_float().dtype == torch.complex64
    assert storage.type() == "torch.FloatStorage" and storage.pickle_storage_type() == "FloatStorage"
    assert storage.type("torch.IntStorage").tolist() == storage.type(torch.IntStorage).tolist() == [1, 0, 3]
    assert storage._untyped_storage.nbytes() == 12 and storage.__sizeof__() > 12 and storage.resizable()
    assert storage.get_device() is None and not storage.is_sparse
    assert copy.copy(storage).tolist() == storage.tolist() and copy.copy(storage).data_ptr() != storage.data_ptr()
    storage.resize_(5)
    assert storage.size() == 5 and storage.tolist()[:3] == [1.0, 0.0, 3.0]
    numbers = torch.tensor([1, 2], dtype=torch.int16).untyped_storage()
    numbers.byteswap(torch.int16)
    assert numbers.tolist() == [0, 1, 0, 2]


def test_an_untyped_storage_as_a_tensor():
    storage = torch.tensor([1.0, 2.0]).untyped_storage()
    assert torch.tensor(storage, dtype=torch.float32).tolist() == [1, 2]
    assert torch.tensor(storage, dtype=torch.int16).tolist() == [0, 16256, 0, 16384]
    assert torch.tensor(storage).dtype == torch.int64 and torch.tensor(storage).shape == (1,)
    shared = torch.as_tensor(storage, dtype=torch.float32)
    shared[0] = 5
    assert torch.as_tensor(storage, dtype=torch.float32).tolist() == [5, 2]
    assert torch.tensor(storage, dtype=torch.float32).data_ptr() != storage.data_ptr() == shared.data_ptr()


class TestObjects:
    def test_a_storage_has_one_object(self):
        x = torch.ones(2)
        storage = x.untyped_storage()
        assert storage is x.untyped_storage() is x[1:].untyped_storage() is x.detach().untyped_storage()
        assert torch.empty(0).set_(storage).untyped_storage() is storage and torch.ones(2).untyped_storage() != storage
        own = U(8)
        y = torch.empty(0).set_(own)
        assert y.untyped_storage() is own

    def test_attributes_live_as_long_as_the_storage(self):
        x = torch.ones(2)
        x.untyped_storage().note = [1]
        gc.collect()
        assert x.untyped_storage().note == [1]
        view = x[1:]
        del x
        assert view.untyped_storage().note == [1]
        seen = weakref.ref(view.untyped_storage())
        del view
        gc.collect()
        assert seen() is None

    def test_an_object_outlives_its_tensors(self):
        x = torch.ones(2)
        storage = x.untyped_storage()
        storage.note = 1
        del x
        gc.collect()
        assert storage.tolist() == [0, 0, 128, 63] * 2
        again = torch.empty(0).set_(storage)
        del storage
        assert again.untyped_storage().note == 1 and again.tolist() == [1, 1]

    def test_memory_is_given_back(self):
        for _ in range(200):
            x = torch.empty(10_000_000)
            x.untyped_storage().note = 1
        assert x.untyped_storage().note == 1

    def test_subclasses(self):
        class Own(U):
            def __new__(cls, *args):
                return super().__new__(cls, 8)

        own = Own("anything")
        own.note = 1
        x = torch.empty(0).set_(own)
        del own
        assert type(x.untyped_storage()) is Own and x.untyped_storage().note == 1
        assert isinstance(x.untyped_storage(), U) and x.untyped_storage().nbytes() == 8

    def test_threads_drop_the_last_tensor(self):
        seen = []
        for _ in range(50):
            x = torch.ones(100)
            seen.append(weakref.ref(x.untyped_storage()))
            threads = [threading.Thread(target=lambda y: (y + 1).sum(), args=(x[at:],)) for at in range(4)]
            [thread.start() for thread in threads]
            del x
            [thread.join() for thread in threads]
            del threads
        gc.collect()
        assert [storage() for storage in seen] == [None] * 50


def test_a_typed_storage_as_a_tensor():
    """As in torch, its dtype must be the asked one, and without one the default dtype."""
    floats, ints = torch.FloatStorage([1.5, 2.5]), torch.IntStorage([1, 2])
    for make in (torch.tensor, torch.as_tensor, torch.asarray, torch.zeros(1).new_tensor):
        assert torch.equal(make(floats), torch.tensor([1.5, 2.5]))
        assert torch.equal(make(ints, dtype=torch.int32), torch.tensor([1, 2], dtype=torch.int32))
        for storage, dtype, sentence in (
            (ints, None, "Float or an UntypedStorage, but got Int"),
            (floats, torch.int64, "Long or an UntypedStorage, but got Float"),
            (ints, torch.int64, "Long or an UntypedStorage, but got Int"),
            (torch.BoolStorage([True]), torch.uint8, "Byte or an UntypedStorage, but got Bool"),
            (
                torch.ComplexFloatStorage([1j]),
                torch.complex128,
                "ComplexDouble or an UntypedStorage, but got ComplexFloat",
            ),
            (torch.QInt8Storage([1]), torch.int8, "Char or an UntypedStorage, but got QInt8"),
        ):
            with pytest.raises(RuntimeError, match=f"^Expected a Storage of type {sentence}$"):
                make(storage, dtype=dtype)
    assert torch.as_tensor(floats).data_ptr() == torch.asarray(floats).data_ptr() == floats.data_ptr()


def test_a_storage_of_numbers():
    for data in ([1, 2, 255], (1, 2, 255), b"\1\2\xff", [257, 2, -1], U([1, 2, 255])):
        assert U(data).tolist() == [1, 2, 255]
    assert U([]).nbytes() == U().nbytes() == U(range(0)).nbytes() == 0 and U([True]).tolist() == [1]
    assert U(size=3).nbytes() == 3 and U([1, 2], device="meta").nbytes() == 2 and U(2, device="cpu").nbytes() == 2


@pytest.mark.parametrize(
    "call, error, sentence",
    [
        (lambda: U(1.5), RuntimeError, "torch.UntypedStorage(): Expected a sequence type, but got float"),
        (lambda: U(None), RuntimeError, "torch.UntypedStorage(): Expected a sequence type, but got NoneType"),
        (lambda: U(True), RuntimeError, "torch.UntypedStorage(): Expected a sequence type, but got bool"),
        (lambda: U(torch.ones(2)), RuntimeError, "torch.UntypedStorage(): Expected a sequence type, but got Tensor"),
        (
            lambda: U([1, 1.5]),
            RuntimeError,
            "torch.UntypedStorage(): tried to construct a storage from a sequence (list), but one of the items was of type "
            "float instead of int",
        ),
        (
            lambda: U("a"),
            RuntimeError,
            "torch.UntypedStorage(): tried to construct a storage from a sequence (str), but one of the items was of type "
            "str instead of int",
        ),
        (
            lambda: U(2, 3),
            TypeError,
            "torch.UntypedStorage() received an invalid combination of arguments - got (int, int), but expected one of:",
        ),
        (
            lambda: U(foo=1),
            TypeError,
            "torch.UntypedStorage() received an invalid combination of arguments - got (foo=int, ), but expected one of:",
        ),
        (lambda: U(-1), RuntimeError, "a storage cannot have -1 bytes"),
        (lambda: U(2**63), ValueError, "Overflow when unpacking long long"),
        (
            lambda: torch.ones(2).storage()[True],
            TypeError,
            "can't index a <class 'rushlight.storage.TypedStorage'> with <class 'bool'>",
        ),
        (lambda: U(2)["a"], TypeError, "can't index a torch.UntypedStorage with str"),
        (lambda: U(2)[True], TypeError, "can't index a torch.UntypedStorage with bool"),
        (lambda: U.from_file(5, True, 4), TypeError, "argument 1 must be str, not int"),
        (lambda: U.from_file("x", "y", 4), TypeError, "'str' object cannot be interpreted as an integer"),
        (lambda: U.from_file("x", False, None), TypeError, "'NoneType' object cannot be interpreted as an integer"),
        (
            lambda: U.from_file("/", False, -4),
            RuntimeError,
            "unable to mmap -4 bytes from file </>: Cannot allocate memory (12)",
        ),
        (lambda: U.from_file("/", False, 4), RuntimeError, "unable to mmap 4 bytes from file </>: No such device (19)"),
    ],
)
def test_what_is_no_storage(call, error, sentence):
    with pytest.raises(error) as caught:
        call()
    assert type(caught.value) is error and str(caught.value).split("\n")[0] == sentence


def test_an_emptied_storage_allows_what_needs_no_bytes():
    x = torch.ones(4)
    storage = x.untyped_storage()
    storage.resize_(0)
    assert storage.data_ptr() == x.data_ptr() == 0
    assert storage.tolist() == [] and storage.clone().nbytes() == copy.deepcopy(storage).nbytes() == 0
    assert repr(storage) == " \n[torch.storage.UntypedStorage(device=cpu) of size 0]"
    assert pickle.loads(pickle.dumps(storage)).nbytes() == 0 and bytes(storage.tobytes()) == b""
    assert repr(x) == "tensor(...)" and repr(x[:0]) == "tensor([])"
    assert x[:0].clone().shape == (x[:0] + 1).shape == (0,) and x.view(2, 2).shape == (2, 2)
    assert torch.zeros_like(x).tolist() == [0] * 4 and x.share_memory_() is x and x.set_().shape == (0,)


def test_storages_have_torchs_attributes():
    storage = torch.arange(3.0).storage()
    assert storage.filename is None and not storage.is_hpu and storage._cdata == storage._untyped_storage._cdata
    assert (storage._size(), storage._element_size(), storage._nbytes()) == (3, 4, 12) and storage._getitem(1) == 1
    assert storage._pickle_storage_type() == "FloatStorage" and not storage._is_shared()
    storage._setitem(0, 5)
    storage._resize_(4)
    assert (
        storage[0] == 5
        and storage.size() == 4
        and torch.is_storage(storage)
        and torch.is_storage(torch.FloatStorage(2))
    )
    assert storage.to(device="cpu").data_ptr() == storage.data_ptr() and torch.FloatStorage._new_shared(2).is_shared()
    plain = storage.untyped()
    assert not (plain.is_sparse or plain.is_sparse_csr or plain.is_hpu) and plain.get_device() is None
    assert plain.to(device="cpu") is plain and sys.getsizeof(torch.UntypedStorage(1000)) >= 1000
    assert repr(torch.FloatStorage()) == " \n[torch.storage.TypedStorage(dtype=torch.float32, device=cpu) of size 0]"
    assert repr(torch.empty(2, device="meta").storage()).startswith(
        "...\n[torch.storage.TypedStorage(dtype=torch.float32"
    )


def test_a_copy_of_a_storage_has_its_class():
    class Own(torch.UntypedStorage):
        pass

    own = Own([1, 2])
    assert type(own.clone()) is Own and own.clone().tolist() == [1, 2] and own.clone().data_ptr() != own.data_ptr()


def test_typed_storages_copy_bytes():
    target, source = torch.zeros(2).storage(), torch.tensor([1, 2], dtype=torch.int32).storage()
    assert target.copy_(source)._elements().view(torch.int32).tolist() == [1, 2]
    with pytest.raises(RuntimeError, match="size does not match, self was 8 bytes but src was 16 bytes"):
        target.copy_(torch.tensor([1, 2]).storage())


def test_only_files_that_are_written_through_have_a_name(tmp_path):
    path = tmp_path / "bytes"
    path.write_bytes(bytes(8))
    assert torch.from_file(str(path), size=2).untyped_storage().filename is None
    assert torch.from_file(str(path), shared=True, size=2).untyped_storage().filename == str(path)


@pytest.mark.parametrize(
    "call, error, sentence",
    [
        (lambda: torch.arange(3.0).storage()[3], IndexError, "index 3 out of range for storage of size 3"),
        (
            lambda: torch.arange(3.0).storage().__setitem__(3, 1),
            IndexError,
            "index 3 is out of bounds for dimension 0 with size 3",
        ),
        (lambda: torch.TypedStorage(2, dtype="x"), RuntimeError, "expected torch.dtype, but got <class 'str'>"),
        (
            lambda: torch.TypedStorage(wrap_storage=torch.UntypedStorage(4), dtype=3),
            TypeError,
            "TypedStorage.__init__ received an invalid combination of arguments. Expected one of:",
        ),
        (
            lambda: torch.FloatStorage(1.5),
            TypeError,
            "<class 'rushlight.FloatStorage'>.__new__ received an invalid combination of arguments. Expected one of:",
        ),
        (
            lambda: torch.UntypedStorage(7).byteswap(torch.float32),
            RuntimeError,
            "the length of data is not a multiple of 4",
        ),
        (lambda: torch.UntypedStorage(8).byteswap("x"), RuntimeError, "expected torch.dtype, but got <class 'str'>"),
        (
            lambda: torch.UntypedStorage.from_buffer(3, dtype=torch.int8),
            TypeError,
            "a bytes-like object is required, not 'int'",
        ),
        (lambda: torch.UntypedStorage(2).to(device="meta"), AssertionError, "META device module is not loaded"),
        (lambda: torch.UntypedStorage(2).hpu(), AssertionError, "HPU device module is not loaded"),
        (
            lambda: torch.UntypedStorage(2).mps(),
            RuntimeError,
            "torch.UntypedStorage(): Storage device not recognized: mps",
        ),
        (lambda: torch.UntypedStorage(2).cuda(), RuntimeError, ""),
        (lambda: torch.ones(2).storage().cuda(), RuntimeError, ""),
        (
            lambda: torch.UntypedStorage(2, device="meta").tolist(),
            NotImplementedError,
            "Not available for 'meta' device type",
        ),
        (
            lambda: torch.UntypedStorage(2, device="meta")[0],
            NotImplementedError,
            "Not available for 'meta' device type",
        ),
    ],
)
def test_storages_refuse_in_torchs_words(call, error, sentence):
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value).startswith(sentence)
