"""Arguments besides tensors of one device: numbers, `out=`, other types, and their errors."""

import pickle
import re

import numpy as np
import pytest

import rushlight as torch


def test_copy_of_a_number():
    x = torch.zeros(2)
    assert x.copy_(2.5) is x and x.tolist() == [2.5, 2.5]
    assert torch.zeros(2, dtype=torch.int32).copy_(2.5).tolist() == [2, 2]
    with pytest.raises(TypeError, match=r"^copy_\(\): argument 'other' \(position 1\) must be Tensor, not str"):
        x.copy_("a")


@pytest.mark.parametrize(
    "call",
    [
        lambda out: torch.add(torch.ones(3), 1, out=out),
        lambda out: torch.sum(torch.ones(3, 2), 1, out=out),
        lambda out: torch.cat([torch.ones(3)], out=out),
    ],
)
def test_out_on_another_device(call):
    sentence = "Attempting to copy from device cpu to device meta, but cross-device copies are not allowed!"
    with pytest.raises(RuntimeError, match=sentence):
        call(torch.empty(3, device="meta"))


def test_out_of_another_kind():
    x = torch.ones(3)
    with pytest.raises(TypeError, match=r"^add\(\): argument 'out' must be Tensor, not tuple"):
        torch.add(x, 1, out=(x,))
    with pytest.raises(TypeError, match="^expected tuple of 2 elements but got 1"):
        torch.sort(x, out=(x,))


def test_errors_of_arguments_name_the_family():
    with pytest.raises(TypeError, match=r"^linalg_cholesky\(\) missing 1 required positional arguments"):
        torch.linalg.cholesky()


def test_an_unknown_keyword_is_answered_with_the_known_ones():
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'dtyp'\nIts arguments are: size, out, dtype, "):
        torch.zeros(2, dtyp=torch.int32)


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda: torch.device(""), RuntimeError, "Device string must not be empty"),
        (lambda: torch.device(1.5), TypeError, "device() received an invalid combination of arguments - got (float)"),
        (lambda: torch.device(True), TypeError, "device() received an invalid combination of arguments - got (bool)"),
        (lambda: torch.device(5, 5), TypeError, "device(): argument 'type' (position 1) must be str, not int"),
        (lambda: torch.device("cpu", "a"), TypeError, "device(): argument 'index' (position 2) must be int, not str"),
        (lambda: torch.device(-1), RuntimeError, "Device index must not be negative"),
        (
            lambda: torch.device(None),
            TypeError,
            "device() received an invalid combination of arguments - got (NoneType)",
        ),
        (
            lambda: torch.device("cpu", 1, 2),
            TypeError,
            "device() received an invalid combination of arguments - got (str, int, int)",
        ),
        (
            lambda: torch.device(index=0),
            TypeError,
            "device() received an invalid combination of arguments - got (index=int, )",
        ),
        (
            lambda: torch.device(type=1),
            TypeError,
            "device() received an invalid combination of arguments - got (type=int, )",
        ),
        (lambda: torch.device(2**70), ValueError, "Overflow when unpacking long long"),
        (lambda: torch.device("cuda", 2**70), ValueError, "Overflow when unpacking long long"),
        (
            lambda: torch.device(f"cuda:{2**70}"),
            RuntimeError,
            f"Could not parse device index '{2**70}' in device string",
        ),
        (lambda: torch.set_num_threads("a"), RuntimeError, "set_num_threads expects an int, but got str"),
        (lambda: torch.set_num_threads(True), RuntimeError, "set_num_threads expects an int, but got bool"),
        (lambda: torch.set_num_interop_threads(1.5), RuntimeError, "set_num_interop_threads expects an int, but got "),
        (lambda: torch.promote_types(torch.int8, 2), TypeError, "promote_types(): argument 'type2' (position 2) must"),
        (
            lambda: torch.can_cast(1, torch.int8),
            TypeError,
            "can_cast(): argument 'from_' (position 1) must be torch.dtype",
        ),
        (lambda: torch.result_type("a", 2), TypeError, "result_type() received an invalid combination of arguments - "),
        (
            lambda: float(torch.tensor(1 + 2j)),
            RuntimeError,
            "value cannot be converted to type double without overflow",
        ),
        (lambda: int(torch.tensor(1 + 2j)), RuntimeError, "value cannot be converted to type int64_t without overflow"),
        (lambda: torch.ones(2).type("FloatTensor"), ValueError, "invalid type: 'FloatTensor'"),
        (
            lambda: torch.eq(torch.ones(2), "a"),
            TypeError,
            "eq() received an invalid combination of arguments - got (Tensor, str)",
        ),
        (lambda: torch.sum(1), TypeError, "sum(): argument 'input' (position 1) must be Tensor, not int"),
        (lambda: torch.round("a"), TypeError, "round(): argument 'input' (position 1) must be Tensor, not str"),
        (
            lambda: torch.div(torch.ones(2), "a"),
            TypeError,
            "div(): argument 'other' (position 2) must be Tensor, not str",
        ),
        (lambda: torch.full(), TypeError, 'full() missing 2 required positional argument: "size", "fill_value"'),
        (lambda: torch.ones(2).relu(True), TypeError, "TensorBase.relu() takes no arguments (1 given)"),
        (lambda: torch.relu(torch.ones(2), True), TypeError, "relu() takes 1 positional argument but 2 were given"),
        (
            lambda: torch.celu(torch.ones(2), 1, 2),
            TypeError,
            "celu() takes from 1 to 2 positional arguments but 3 were given",
        ),
        (
            lambda: torch.ones(2, 2).tril(1, 2),
            TypeError,
            "tril() takes from 0 to 1 positional arguments but 2 were given",
        ),
        (
            lambda: torch.ones(2).type(1, 2, 3),
            TypeError,
            "type() takes from 0 to 2 positional arguments but 3 were given",
        ),
        (
            lambda: torch.special.xlog1py(1.0, 2.0),
            TypeError,
            "special_xlog1py() received an invalid combination of arguments",
        ),
        (lambda: torch.ones(2).clone(1), TypeError, "clone() takes 0 positional arguments but 1 was given"),
        (lambda: torch.ones(2).dim(1), TypeError, "TensorBase.dim() takes no arguments (1 given)"),
        (
            lambda: torch.mode(torch.ones(2), out=torch.ones(2)),
            TypeError,
            "mode(): argument 'out' must be tuple of Tensors",
        ),
        (
            lambda: torch.diag(torch.ones(3), torch.tensor(True)),
            TypeError,
            "diag(): argument 'diagonal' (position 2) must",
        ),
        (
            lambda: torch.amin(torch.ones(2), 2**63, 1.0),
            TypeError,
            "amin(): argument 'keepdim' (position 3) must be bool",
        ),
        (lambda: torch.manual_seed("a"), ValueError, "invalid literal for int() with base 10: 'a'"),
        (lambda: torch.from_dlpack(5), RuntimeError, "from_dlpack received an invalid capsule."),
        (lambda: torch.ones(2, device="meta").__dlpack__(), BufferError, "Cannot pack tensors on meta"),
    ],
)
def test_refusals_begin_with_torchs_sentence(call, error, sentence):
    with pytest.raises(error, match=f"^{re.escape(sentence)}"):
        call()


@pytest.mark.parametrize(
    "name",
    "is_floating_point is_complex is_conj is_neg is_signed is_inference is_nonzero numel get_device detach".split(),
)
def test_questions_about_what_is_no_tensor(name):
    sentence = rf"{name}\(\): argument 'input' \(position 1\) must be Tensor, not "
    for wrong in (1.0, [1, 2], None):
        with pytest.raises(TypeError, match=sentence + type(wrong).__name__):
            getattr(torch, name)(wrong)


def test_other_arguments_that_are_no_tensors():
    x = torch.ones(2)
    for call, sentence in [
        (
            lambda: torch.is_same_size(x, 1),
            r"is_same_size\(\): argument 'other' \(position 2\) must be Tensor, not int",
        ),
        (lambda: torch.gradient("cpu"), r"gradient\(\): argument 'input' \(position 1\) must be Tensor, not str"),
        (lambda: x.map_(3, max), r"map_\(\): argument 'other' \(position 1\) must be Tensor, not int"),
        (lambda: x.pin_memory(range(2)), r"argument 'device' \(position 1\) must be torch.device, not range"),
    ]:
        with pytest.raises(TypeError, match=sentence):
            call()


@pytest.mark.filterwarnings("ignore:torch.set_default_tensor_type")
def test_default_types_are_types():
    with pytest.raises(
        TypeError, match="invalid type object: only floating-point types are supported as the default type"
    ):
        torch.set_default_tensor_type(3)


def test_the_names_that_numpy_gives_to_arguments():
    x = torch.arange(6.0).reshape(2, 3)
    for name in ("input", "x", "a", "x1"):
        assert torch.sum(**{name: x}, axis=1, keepdims=True).tolist() == [[3.0], [12.0]]
        assert torch.add(**{name: x}, x2=1).tolist() == (x + 1).tolist()
    with pytest.raises(TypeError, match=r'^add\(\) missing 2 required positional argument: "input", "other"'):
        torch.add(b=x, other=1)


def test_flags_that_are_only_looked_at():
    functional, x, y = torch.nn.functional, torch.tensor([-1.0, 2.0]), torch.zeros(2)
    assert torch.equal(functional.relu(x.clone(), 0), x.clamp(min=0))
    for yes in (1, "yes", [0]):
        own = x.clone()
        assert functional.relu(own, yes) is own or own.tolist() == [0.0, 2.0]
        assert functional.leaky_relu(x.clone(), 0.5, yes).tolist() == [-0.5, 2.0]
    assert torch.nn.ReLU(1)(x.clone()).tolist() == [0.0, 2.0]
    with pytest.warns(UserWarning, match="size_average and reduce args will be deprecated"):
        assert functional.l1_loss(x, y, 0).item() == 3.0
        assert functional.l1_loss(x, y, None, 0).tolist() == [1.0, 2.0]
        assert functional.mse_loss(x, y, 1, 1).item() == 2.5
    with pytest.raises(TypeError, match=r"^sum\(\) received an invalid combination|must be bool, not int"):
        x.sum(dim=0, keepdim=1)


def test_no_tensors_at_all():
    assert torch.atleast_1d() == torch.atleast_2d() == torch.atleast_3d() == torch.broadcast_tensors() == ()
    assert torch.block_diag().shape == (1, 0)
    for name in ("meshgrid", "cartesian_prod"):
        with pytest.raises(RuntimeError, match="^meshgrid expects a non-empty TensorList"):
            getattr(torch, name)()


@pytest.mark.parametrize(
    "arguments",
    [
        (torch.float32, "cpu"),
        (torch.int64, [1]),
        (torch.int64, True, True, True),
        ("cpu", True),
        (torch.ones(1), 1),
    ],
)
def test_conversions_take_no_more_than_they_know(arguments):
    with pytest.raises(TypeError, match=r"^to\(\) received an invalid combination of arguments - got \("):
        torch.ones(2).to(*arguments)


def test_conversions_in_every_order():
    x = torch.ones(2)
    assert x.to(torch.int64, True, True).dtype == x.to("cpu", torch.int64, True, True).dtype == torch.int64
    assert x.to(x, False, True) is not x and x.to(x, True) is x and x.to(None) is x
    assert x.to(torch.float32, copy=True) is not x and x.to(torch.float32, non_blocking=True) is x
    assert x.to(device=None, dtype=torch.float64).dtype == torch.float64


def test_another_tensors_memory_cut_anew():
    x, y = torch.arange(3.0), torch.arange(6.0)
    assert x.set_(y, 2, (2,)).tolist() == [2.0, 3.0]
    assert x.set_(y, 1, (2, 2), (2, 1)).tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert float(torch.tensor(1 + 0j)) == 1.0 and int(torch.tensor(2 + 0j)) == 2
    for wrong in ((y, 1), (y, 1, "", y), (1,)):
        with pytest.raises(TypeError, match=r"^set_\(\) received an invalid combination of arguments"):
            x.set_(*wrong)
    with pytest.raises(RuntimeError, match=r"^unequal size length \(2\) and stride length \(1\)"):
        x.set_(y, 0, (3, 2), (1,))
    # Views may step back, and are rebuilt by `set_` in other processes.
    assert x.set_(y, 3, (2,), (-1,)).tolist() == [3.0, 2.0]
    with pytest.raises(RuntimeError, match="^setStorage|^Storage size"):
        x.set_(y, 3, (2, 5), (1, -1))
    assert x.set_(y, 3, (1,), (-1,)).stride() == (1,) and x.set_(y, 0, (0, 2), (-1, 1)).stride() == (2, 1)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda x: torch.abs(self=x), 'abs() missing 1 required positional arguments: "input"'),
        (lambda x: torch.add(x, foo=1), 'add() missing 1 required positional arguments: "other"'),
        (lambda x: torch.softmax(x, "a", foo=1), "softmax(): argument 'dim' (position 2) must be int, not str"),
        (lambda x: torch.abs(x, foo=1), "abs() got an unexpected keyword argument 'foo'"),
        (lambda x: torch.abs(x, input=x), "abs() got multiple values for argument 'input'"),
        (lambda x: x.sum(0, True, keepdims=True), "sum() got an unexpected keyword argument 'keepdims'"),
        (lambda x: x.sum(dim=0, axis=0), "sum() got an unexpected keyword argument 'axis'"),
        (lambda x: torch.zeros(2**63), "zeros(): argument 'size' failed to unpack the object at pos 1 with error"),
        (lambda x: torch.zeros(2, 2**63), "zeros(): argument 'size' failed to unpack the object at pos 2 with error"),
        (lambda x: torch.nn.Parameter(x, 1), "_make_subclass(): argument 'require_grad' (position 3) must be bool, not int"),
        (lambda x: torch.nn.Linear(1, 1).to(dtype="float"), "to() received an invalid combination of arguments - got (dtype=str, )"),
        (lambda x: torch.nn.functional.cross_entropy(x, [0]), "cross_entropy_loss(): argument 'target' (position 2) must"),
    ],
)  # fmt: skip
def test_what_is_wrong_first(call, sentence):
    with pytest.raises(TypeError) as caught:
        call(torch.ones(2))
    assert str(caught.value).startswith(sentence)


class Index:
    """An integer with `__index__` only. torch accepts it for sizes and indices."""

    def __index__(self):
        return 2


class Items:
    """A sequence whose items and length are set by the test."""

    def __init__(self, length, item=1.0):
        self.length, self.item = length, item

    def __len__(self):
        return self.length

    def __getitem__(self, place):
        if isinstance(self.item, Exception):
            raise self.item
        return self.item


@pytest.mark.parametrize("kind", ["cpu", "meta"])
def test_a_device_keeps_the_number_that_no_tensor_has(kind):
    device = torch.device(f"{kind}:1")
    assert device == torch.device(kind, 1) == pickle.loads(pickle.dumps(device)) == torch.device(device)
    assert device != torch.device(kind, 0) != torch.device(kind) and device.index == 1
    assert str(device) == f"{kind}:1" and repr(device) == f"device(type='{kind}', index=1)"
    made = [torch.zeros(2, device=device), torch.tensor([1.0], device=device), torch.ones(1).to(device)]
    assert [x.device for x in made] == [torch.device(kind)] * 3
    with device:
        assert torch.get_default_device() == device and torch.zeros(1).device == torch.device(kind)
    x = made[0]
    # The tensor is on another device, so that it is copied.
    assert x.to(device) is not x and x.to(kind) is x and torch.as_tensor(x, device=device) is not x
    assert x.requires_grad_().to(device).grad_fn is not None


def test_an_array_sent_to_a_numbered_device_is_copied():
    array = np.ones(2)
    for make in (torch.as_tensor, torch.asarray):
        make(array, device="cpu:0")[0] = 5
    assert array.tolist() == [1.0, 1.0]
    with pytest.raises(ValueError, match=r"^can't alias tensor from device 'cpu' to 'cpu:0'"):
        torch.asarray(array, device="cpu:0", copy=False)


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda: torch.zeros(2, device=Index()), TypeError, "zeros(): argument 'device' must be torch.device, not Index"),
        (lambda: torch.zeros(2, device=True), TypeError, "zeros(): argument 'device' must be torch.device, not bool"),
        (lambda: torch.zeros(2, device=-1), RuntimeError, "Device index must not be negative"),
        (lambda: torch.device("cpu", Index()), TypeError, "device(): argument 'index' (position 2) must be int, not Index"),
        (lambda: torch.device(Index()), TypeError, "device() received an invalid combination of arguments - got (Index)"),
        (lambda: torch.Generator(device=Index()), TypeError, "Generator(): argument 'device' must be torch.device, not Index"),
        (lambda: torch.UntypedStorage(2, device=Index()), TypeError, "UntypedStorage(): argument 'device' must be"),
        (lambda: torch.ones(1).to(Index()), TypeError, "to() received an invalid combination of arguments - got (Index)"),
        (lambda: torch.ones(1).__setitem__(0, Index()), TypeError, "can't assign a Index to a torch.FloatTensor"),
        (lambda: torch.ones(1).cuda("cpu"), RuntimeError, "Invalid device, must be cuda device"),
        (lambda: torch.tensor(Items(-1)), ValueError, "__len__() should return >= 0"),
        (lambda: torch.tensor([Items(-1)]), ValueError, "__len__() should return >= 0"),
        (lambda: torch.tensor(Items("a")), TypeError, "'str' object cannot be interpreted as an integer"),
        (lambda: torch.tensor(Items(2, KeyError())), ValueError, "could not determine the shape of object type 'Items'"),
        (lambda: torch.ones(1).new_tensor(Items(-1)), ValueError, "__len__() should return >= 0"),
        (lambda: torch.tensor([""]), TypeError, "new(): invalid data type 'str'"),
        (lambda: torch.tensor(np.str_("a")), TypeError, "new(): invalid data type 'numpy.str_'"),
        (lambda: torch.Tensor(2, device="meta"), RuntimeError, "legacy constructor expects device type: cpu but device type: meta was passed"),
        (lambda: torch.LongTensor(device="cuda"), RuntimeError, "legacy constructor expects device type: cpu but device type: cuda"),
        (lambda: torch.ones(2).new([1], device="meta"), RuntimeError, "legacy constructor expects device type: cpu but"),
        (lambda: torch.Tensor(True), TypeError, "new(): data must be a sequence (got bool)"),
        (lambda: torch.Tensor({}), TypeError, "new(): data must be a sequence (got dict)"),
        (lambda: torch.Tensor(np.float32(1)), TypeError, "new(): data must be a sequence (got numpy.float32)"),
        (lambda: torch.Tensor(1, 2.0), TypeError, "new(): argument 'size' failed to unpack the object at pos 2"),
        (lambda: torch.Tensor(True, 1), TypeError, "new() received an invalid combination of arguments - got (bool, int), but"),
        (lambda: torch.Tensor(2, dtype=torch.int32), TypeError, "new() received an invalid combination of arguments - got (int, dtype=torch.dtype), but"),
        (lambda: torch.LongTensor(foo=1), TypeError, "new() received an invalid combination of arguments - got (foo=int, ), but"),
        (lambda: torch.nn.functional.interpolate(torch.ones(1, 1, 2), 2.5), TypeError, "upsample_nearest1d() received an invalid combination"),
        (lambda: torch.nn.functional.interpolate(torch.ones(1, 1, 2), (Index(),)), TypeError, "expected size to be one of int or Tuple[int]"),
    ],
)  # fmt: skip
def test_objects_that_are_almost_numbers_or_sequences(call, error, sentence):
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value).startswith(sentence)


def test_the_constructors_of_old_take_their_arguments_by_name_and_device():
    assert torch.Tensor(size=(2,)).shape == torch.LongTensor(2, device="cpu:0").shape == (2,)
    assert torch.Tensor(torch.tensor(3), 2).dtype == torch.float32 and torch.Tensor(other=torch.ones(1)).tolist() == [1]
    made = torch.ones(2, device="meta").new(2), torch.ones(2, device="meta").new([2.0])
    assert [x.device.type for x in made] == ["meta", "meta"]
    assert torch.nn.functional.interpolate(torch.ones(1, 1, 4), Index()).shape == (1, 1, 2)


def test_results_at_out_have_a_class_of_their_own():
    x, places = torch.tensor([2.0, 1.0]), torch.empty(2, dtype=torch.int64)
    found = torch.sort(x, out=(torch.empty(2), places))
    assert type(found) is torch.return_types.sort_out and found.values.tolist() == [1, 2] and found.indices is places
    assert repr(found).startswith("torch.return_types.sort_out(") and not isinstance(found, torch.return_types.sort)
    assert type(torch.aminmax(x, out=(torch.empty(()), torch.empty(())))).__name__ == "aminmax_out"
    assert type(torch.linalg.qr(torch.eye(2), out=(torch.empty(2, 2), torch.empty(2, 2)))).__name__ == "linalg_qr_out"
    assert type(pickle.loads(pickle.dumps(found))) is type(found)


def test_parts_are_copied_to_out():
    parts = [torch.zeros(2), torch.zeros(2)]
    assert torch.split_copy(torch.arange(4.0), 2, out=parts) is None
    assert [part.tolist() for part in parts] == [[0, 1], [2, 3]]


def test_results_of_functions_of_elements_must_be_numbers():
    for call in (lambda x: x.apply_(lambda value: "a"), lambda x: x.map_(x, lambda value, other: [1])):
        with pytest.raises(TypeError, match="must be real number, not "):
            call(torch.ones(2))


@pytest.mark.parametrize(
    "shape, sentence",
    [
        ((2, 2.0), "expected 'shape' sequence to only contain ints, but got <class 'float'>"),
        (torch.tensor([2, 2]), "expected 'shape' to be int or sequence of ints, but got <class 'rushlight.Tensor'>"),
        (4.0, "expected 'shape' to be int or sequence of ints, but got <class 'float'>"),
        ("a", "expected 'shape' sequence to only contain ints, but got <class 'str'>"),
    ],
)
def test_shapes_of_coordinates_are_integers(shape, sentence):
    with pytest.raises(TypeError, match=sentence):
        torch.unravel_index(torch.tensor(3), shape)


def test_coordinates_are_those_of_a_tensor_in_a_shape_with_elements():
    with pytest.raises(AttributeError, match="^'int' object has no attribute 'is_complex'"):
        torch.unravel_index(5, 2)
    with pytest.raises(RuntimeError, match="^ZeroDivisionError"):
        torch.unravel_index(torch.tensor(0), (2, 0))
    assert torch.unravel_index(torch.empty(0, dtype=torch.int64), (2, 0))[1].tolist() == []
    assert [x.stride() for x in torch.unravel_index(torch.tensor([1, 3]), (2, 2))] == [(2,), (2,)]


@pytest.mark.parametrize("kind", [int, float, bool, complex, str, object, torch.nn.Module, torch.FloatStorage])
def test_types_of_tensors_are_no_other_classes(kind):
    with pytest.raises(ValueError, match=f"^invalid type: '.*{kind.__name__}'"):
        torch.ones(2).type(kind)


@pytest.mark.parametrize("name", ["xyz.FloatTensor", ".FloatTensor", "torch.meta.FloatTensor", "torch.NoTensor"])
def test_types_of_tensors_are_in_known_places(name):
    with pytest.raises(ValueError, match=f"^invalid type: '{name}'"):
        torch.ones(2).type(name)


def test_a_type_names_a_device_too():
    assert torch.ones(2).type("torch.sparse.DoubleTensor").dtype == torch.float64
    for kind in ("torch.cuda.FloatTensor", torch.cuda.FloatTensor):
        if torch.cuda.is_available():
            moved = torch.ones(2).type(kind)
            assert moved.is_cuda and not moved.type("torch.FloatTensor").is_cuda
        else:
            with pytest.raises(RuntimeError, match="^Found no NVIDIA driver on your system"):
                torch.ones(2).type(kind)


def test_only_some_dtypes_can_require_gradients():
    numbers = torch.ones(2, dtype=torch.int64)
    with pytest.raises(RuntimeError, match="^only Tensors of floating point and complex dtype can require gradients"):
        numbers.requires_grad = True
    with pytest.raises(RuntimeError, match="^only Tensors of floating point dtype can require gradients"):
        numbers.requires_grad_()


def test_legacy_types_are_no_base_classes():
    for kind in (torch.FloatTensor, torch.cuda.FloatTensor, torch.sparse.FloatTensor):
        with pytest.raises(TypeError, match="FloatTensor' is not an acceptable base type"):
            type("Derived", (kind,), {})


def test_dtypes_without_a_complex_one():
    assert torch.float32.to_complex() == torch.complex64
    for dtype, name in ((torch.int64, "Long"), (torch.bool, "Bool")):
        with pytest.raises(RuntimeError, match=f"Unknown Complex ScalarType for {name}"):
            dtype.to_complex()


def test_forms_of_a_device():
    for device in (
        torch.device(device="cpu"),
        torch.device(b"cpu"),
        torch.device(type="cpu"),
        torch.device("cpu", None),
    ):
        assert device == torch.device("cpu")
    assert torch.device(device=1) == torch.device(1) == torch.device(type="cuda", index=1) == torch.device("cuda:1")
