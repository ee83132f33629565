"""Names that libraries import: sets of dispatch keys, checks of values, forms of optimizers, what torchvision needs, gradients of views."""

import importlib

import pytest

import rushlight as torch
from rushlight import _custom_ops, ops
from rushlight._dynamo import utils as dynamo_utils
from rushlight._subclasses.fake_tensor import FakeTensor, is_fake
from rushlight.onnx import symbolic_opset11
from rushlight.onnx.symbolic_helper import parse_args
from rushlight.optim import optimizer
from rushlight.utils import _foreach_utils

Key, KeySet = torch._C.DispatchKey, torch._C.DispatchKeySet


def test_dispatch_keys_have_torchs_numbers():
    numbers = {"Undefined": 0, "AutocastCUDA": 32, "CPU": 49, "Meta": 64, "QuantizedCPU": 66, "SparseCUDA": 84}
    numbers |= {"SparseCsrMeta": 115, "NestedTensorXPU": 123, "AutogradPrivateUse1": 146, "Autograd": 150}
    numbers |= {"CompositeExplicitAutogradNonFunctional": 155, "PythonDispatcher": 46}
    assert {name: int(Key[name]) for name in numbers} == numbers
    assert str(Key.CPU) == "DispatchKey.CPU" and repr(Key.CPU) == "<DispatchKey.CPU: 49>"


def test_sets_of_dispatch_keys():
    both = KeySet(Key.CPU) | KeySet(Key.AutogradCUDA)
    assert repr(both) == "DispatchKeySet(CPU, CUDA, AutogradCPU, AutogradCUDA)"
    assert both.highestPriorityTypeId() is Key.AutogradCUDA and both.has(Key.Dense) and both.has(Key.AutogradCPU)
    assert not both.has(Key.SparseCPU) and not both.has(Key.Meta)
    for left, text in (
        (both - KeySet(Key.CPU), "AutogradCPU, AutogradCUDA"),
        (both.remove(Key.AutogradCPU), "CPU, CUDA"),
        (both & KeySet(Key.AutogradCUDA), "AutogradCUDA"),
        (both.add(Key.SparseCPU), "CPU, CUDA, SparseCPU, SparseCUDA, AutogradCPU, AutogradCUDA"),
        (KeySet(Key.BackendSelect), "BackendSelect"),
        (KeySet(Key.Autograd), ""),
        (KeySet(Key.Undefined), ""),
    ):
        assert repr(left) == f"DispatchKeySet({text})"
    assert KeySet(Key.Autograd).highestPriorityTypeId() is Key.Undefined
    with pytest.raises(TypeError, match="incompatible constructor arguments"):
        KeySet(3)


def test_assert_async():
    for value in (torch.tensor(True), torch.tensor([2.0]), torch.tensor(1j), torch.zeros(1, device="meta")):
        assert torch._assert_async(value) is None and torch.ops.aten._assert_async.msg(value, "told") is None
    for value in (torch.tensor(False), torch.tensor([0.0])):
        with pytest.raises(RuntimeError, match="^Expected Tensor with single nonzero value, but got zero$"):
            torch._assert_async(value)
        with pytest.raises(RuntimeError, match="^told$"):
            torch.ops.aten._assert_async.msg(value, "told")
    for value, message in ((torch.ones(2), "more than one value"), (torch.ones(0), "no values")):
        with pytest.raises(RuntimeError, match=f"^Boolean value of Tensor with {message} is ambiguous"):
            torch._assert_async(value)
    with pytest.raises(TypeError, match=r"^_assert_async\(\): argument 'input' \(position 1\) must be Tensor, not int"):
        torch._assert_async(3)


def test_assert_scalar():
    assert torch.ops.aten._assert_scalar.default(1, "zero") is None
    for value in (0, 0.0, False):
        with pytest.raises(RuntimeError, match="^zero$"):
            torch.ops.aten._assert_scalar(value, "zero")
    with pytest.raises(TypeError, match="must be Number, not Tensor"):
        torch._assert_scalar(torch.tensor(True), "zero")


@pytest.mark.parametrize(
    "facts, message",
    [
        ({"dtype": torch.int64}, "dtype mismatch! Expected: Long, Got: float"),
        ({"dtype": torch.float8_e5m2}, "dtype mismatch! Expected: Float8_e5m2, Got: float"),
        ({"size": [3, 2]}, r"sizes mismatch! Expected: \[3, 2\], Got: \[2, 3\]"),
        ({"size": [2]}, r"sizes mismatch! Expected: \[2\], Got: \[2, 3\]"),
        ({"stride": [1, 1]}, r"strides mismatch! Expected: \[1, 1\], Got: \[3, 1\]"),
        ({"device": "meta"}, "device mismatch! Expected: meta, Got: cpu"),
        ({"layout": torch.sparse_coo}, "layout mismatch! Expected: Sparse, Got: Strided"),
        ({"layout": torch.sparse_csr}, "layout mismatch! Expected: SparseCsr, Got: Strided"),
    ],
)
def test_assert_tensor_metadata(facts, message):
    x = torch.ones(2, 3)
    held = {"size": [2, 3], "stride": [3, 1], "dtype": torch.float32, "device": "cpu", "layout": torch.strided}
    assert torch._assert_tensor_metadata(x, **held) is None and torch.ops.aten._assert_tensor_metadata(x) is None
    with pytest.raises(RuntimeError, match=f"^Tensor {message}$"):
        torch.ops.aten._assert_tensor_metadata.default(x, **facts)


def test_tensors_of_bools():
    mixed, empty = torch.tensor([True, False]), torch.ones(0, dtype=torch.bool)
    assert [bool(torch._is_all_true(x)) for x in (mixed, ~mixed | mixed, empty)] == [False, True, True]
    assert [bool(torch._is_any_true(x)) for x in (mixed, ~mixed & mixed, empty)] == [True, False, False]
    assert torch.ops.aten._is_all_true.default(mixed).shape == ()
    for function in (torch._is_all_true, torch._is_any_true):
        with pytest.raises(RuntimeError, match="expected a tensor of bools"):
            function(torch.ones(1))


def test_numbers_of_devices():
    index = torch._utils._get_device_index
    assert index(torch.device("cuda:1")) == 1 and index("cuda:2") == 2 and index(3) == 3
    assert index("cpu", allow_cpu=True) == -1
    with pytest.raises(ValueError, match="^Expected a non cpu device, but got: cpu$"):
        index("cpu")
    for device in ("cuda", None, 1.5):
        with pytest.raises(ValueError, match=f"specified index or an integer, but got:{device}$"):
            index(device)


def test_forms_of_optimizers():
    parameters = [torch.nn.Parameter(torch.ones(2)), None]
    choose = optimizer._default_to_fused_or_foreach
    assert choose(parameters, False, True) == (True, False) and choose(parameters, False, False) == (False, False)
    assert choose(parameters, True, True) == (False, False) and choose([torch.ones(2).int()], False, True)[0] is False
    assert optimizer._get_capturable_supported_devices() == ["cuda", "xpu", "hpu", "privateuseone", "xla"]
    assert optimizer._get_capturable_supported_devices(False)[-1] == "privateuseone"

    class Asks(torch.optim.Optimizer):
        @optimizer._use_grad_for_differentiable
        def step(self):
            return torch.is_grad_enabled()

    for differentiable in (False, True):
        asks = Asks([torch.nn.Parameter(torch.ones(1))], {"differentiable": differentiable})
        assert asks.step() is differentiable and torch.is_grad_enabled()


def test_groups_of_tensors():
    one, two, double = torch.ones(1), torch.ones(2), torch.ones(2, dtype=torch.float64)
    group = _foreach_utils._group_tensors_by_device_and_dtype
    cpu = torch.device("cpu")
    for with_indices in (False, True):
        groups = group([[one, double, two], [two, None, one], []], with_indices)
        assert list(groups) == [(cpu, torch.float32), (cpu, torch.float64)]
        (first, second, third), places = groups[cpu, torch.float32]
        assert first[0] is one and first[1] is two and second[0] is two and second[1] is one and third == []
        assert places == [0, 2] * with_indices and groups[cpu, torch.float64][0][1] == [None]
    for lists, message in (
        ([], r"Expected !nested_tensorlist.empty\(\) to be true"),
        ([[]], r"Expected !nested_tensorlist\[0\].empty\(\) to be true"),
        ([[one], [one, two]], "tensorlist.size"),
        ([[None]], "but the 0-th Tensor is not"),
    ):
        with pytest.raises(RuntimeError, match=message):
            group(lists)
    assert _foreach_utils._has_foreach_support([one, None], cpu)
    assert not _foreach_utils._has_foreach_support([torch.nn.Parameter(one)], cpu)
    assert not _foreach_utils._device_has_foreach_support(torch.device("meta"))


def test_convolution_by_its_private_name():
    x, weight, bias = torch.randn(1, 2, 5, 5), torch.randn(3, 2, 3, 3), torch.randn(3)
    expected = torch.nn.functional.conv2d(x, weight, bias, padding=1)
    rest = [1, 1], [1, 1], [1, 1], False, [0, 0], 1, False, False, True
    assert torch.equal(torch.ops.aten._convolution(x, weight, bias, *rest, True), expected)
    assert torch.equal(torch.ops.aten._convolution.deprecated(x, weight, bias, *rest), expected)


def test_parts_of_an_operator():
    add = torch.ops.aten.add.Tensor
    assert add._overloadpacket is torch.ops.aten.add and (add._opname, add._overloadname) == ("add", "Tensor")


def test_properties_that_cannot_be_read_yet_may_be_registered():
    class Ball(torch.nn.Module):
        @property
        def k(self):
            return -self.c

        @property
        def broken(self):
            raise RuntimeError("no")

    ball, one = Ball(), torch.ones(1)
    ball.k = torch.nn.Parameter(one)
    ball._parameters.pop("k")
    ball.c = torch.nn.Parameter(one)
    assert ball.k == -1 and list(ball._parameters) == ["c"]
    with pytest.raises(KeyError, match="attribute 'k' already exists"):
        ball.register_buffer("k", one)
    with pytest.raises(RuntimeError, match="^no$"):
        ball.register_parameter("broken", torch.nn.Parameter(one))


def test_names_for_a_compiler():
    assert not is_fake(torch.ones(1)) and not isinstance(torch.ones(1), FakeTensor)
    assert dynamo_utils.is_compile_supported("cpu") is False
    with pytest.warns(UserWarning, match="^once$") as caught:
        for _ in range(2):
            dynamo_utils.warn_once("once")
    assert len(caught) == 1
    assert parse_args("v", "f")(is_fake) is is_fake
    assert torch.onnx.register_custom_op_symbolic("tests::op", is_fake, 11) is None
    with pytest.raises(NotImplementedError, match="no graphs to export"):
        symbolic_opset11.squeeze(None, 1)
    assert torch.backends.cpu.get_cpu_capability() in ("AVX512", "AVX2", "DEFAULT")
    assert torch.jit._script_if_tracing(is_fake) is is_fake
    profiler = importlib.import_module("rushlight.profiler.profiler")
    assert profiler._default_schedule_fn(3) is torch.profiler.ProfilerAction.RECORD


def test_functions_for_a_library_that_was_refused(monkeypatch):
    monkeypatch.setattr(ops, "_refused_libraries", set())
    with pytest.raises(RuntimeError, match="operator tests_refused::nms does not exist"):
        torch.library.register_fake("tests_refused::nms", torch.empty_like)
    with pytest.raises(OSError, match="Could not load this library"):
        torch.ops.load_library("tests_refused.so")
    assert torch.library.register_fake("tests_refused::nms", torch.empty_like) is torch.empty_like
    with pytest.raises(AttributeError, match="no attribute 'nms'"):
        torch.ops.tests_refused.nms
    # A namespace with operators has a library, so that a wrong name is a mistake.
    library = torch.library.Library("tests_loaded", "DEF")
    library.define("twice(Tensor x) -> Tensor")
    with pytest.raises(RuntimeError, match="operator tests_loaded::thrice does not exist"):
        torch.library.register_fake("tests_loaded::thrice", torch.empty_like)
    library._destroy()


def test_older_functions_for_operators():
    @_custom_ops.custom_op("tests_older::twice")
    def twice(x: torch.Tensor) -> torch.Tensor: ...

    @_custom_ops.impl("tests_older::twice")
    def run(x):
        return x * 2

    @_custom_ops.impl_abstract("tests_older::twice")
    def shape(x):
        return torch.empty_like(x)

    assert torch.ops.tests_older.twice(torch.ones(1)).item() == 2
    assert torch.ops.tests_older.twice(torch.ones(3, device="meta")).shape == (3,)
    assert _custom_ops.custom_op("tests_older::other", "(Tensor x) -> Tensor") is None


def test_functions_for_classes_may_come_before_the_operator():
    class Named(torch.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return NotImplemented

    torch.library.register_torch_dispatch("tests_later::twice", Named, lambda *_: torch.zeros(1))
    library = torch.library.Library("tests_later", "DEF")
    library.define("twice(Tensor x) -> Tensor")
    assert torch.ops.tests_later.twice(torch.ones(1).as_subclass(Named)).tolist() == [0]
    library._destroy()
    for register in (
        lambda name: torch.library.register_torch_dispatch(name, Named, None),
        lambda name: torch.library.register_fake(name, torch.empty_like),
        lambda name: torch.library.register_kernel(name, "cpu", torch.sin),
        lambda name: torch.library.register_vmap(name, None),
        lambda name: torch.library.register_autograd(name, None),
    ):
        with pytest.raises(ValueError, match='^Expected `qualname` to be of the form "namespace::name", but got twice'):
            register("twice")


@pytest.mark.parametrize(
    ("grad", "place", "sentence"),
    [
        ((2,), (0, 1), "The size of tensor a (3) must match the size of tensor b (2) at non-singleton dimension 0"),
        ((1, 3), (0, 1), "output with shape [3] doesn't match the broadcast shape [1, 3]"),
        ((3,), (0, 7), "select(): index 7 out of range for tensor of size [3, 3] at dimension 0"),
        ((3,), (5, 0), "Dimension out of range (expected to be in range of [-2, 1], but got 5)"),
        ((2, 3), (0, 0, 1, 1), "output with shape [1, 3] doesn't match the broadcast shape [2, 3]"),
        (
            (2,),
            (0, 0, 1, 1),
            "The size of tensor a (3) must match the size of tensor b (2) at non-singleton dimension 1",
        ),
        (
            (2, 3),
            (0, 5, 9, 1),
            "The size of tensor a (0) must match the size of tensor b (2) at non-singleton dimension 0",
        ),
        ((3,), (0, 0, 2, 0), "slice step must be positive"),
    ],
)
def test_gradients_of_views_fit_their_place(grad, place, sentence):
    call = torch.ops.aten.select_backward if len(place) == 2 else torch.ops.aten.slice_backward
    with pytest.raises((RuntimeError, IndexError)) as raised:
        call(torch.ones(grad), [3, 3], *place)
    assert str(raised.value).startswith(sentence)


def test_gradients_of_views_fill_their_place():
    aten, one = torch.ops.aten, torch.ones(1, requires_grad=True)
    assert aten.select_backward(one, [2, 3], -2, -1).tolist() == [[0, 0, 0], [1, 1, 1]]
    assert aten.select_backward(torch.tensor(2.0), [2, 2], 1, 0).tolist() == [[2, 0], [2, 0]]
    whole = aten.slice_backward(one, [4, 2], 0, -3, 9, 2)
    assert whole.tolist() == [[0, 0], [1, 1], [0, 0], [1, 1]]
    whole.sum().backward()
    assert one.grad.tolist() == [4]
