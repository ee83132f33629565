"""Factories: values, dtypes, keyword arguments and errors, as in torch 2.13."""

import re
import threading

import pytest

import rushlight as torch


@pytest.mark.parametrize(
    ("expression", "values", "dtype"),
    [
        ("torch.arange(5)", [0, 1, 2, 3, 4], "int64"),
        ("torch.arange(1, 5, 2)", [1, 3], "int64"),
        ("torch.arange(5, 0, -2)", [5, 3, 1], "int64"),
        ("torch.arange(2.5)", [0.0, 1.0, 2.0], "float32"),
        ("torch.arange(start=1, end=3)", [1, 2], "int64"),
        ("torch.arange(1.0, 5.000001, 2.0, dtype=torch.int64)", [1, 3], "int64"),
        ("torch.arange(2**62, 2**62 + 2)", [2**62, 2**62 + 1], "int64"),
        ("torch.arange(3, dtype=torch.bfloat16)", [0.0, 1.0, 2.0], "bfloat16"),
        ("torch.linspace(0, 1, 5)", [0.0, 0.25, 0.5, 0.75, 1.0], "float32"),
        ("torch.linspace(0, 10, steps=4, dtype=torch.int64)", [0, 3, 6, 10], "int64"),
        ("torch.linspace(4.3, 1, 4, dtype=torch.int64)", [4, 3, 2, 1], "int64"),
        ("torch.linspace(3, 7, 1)", [3.0], "float32"),
        ("torch.linspace(3, 1e300, 1, dtype=torch.float16)", [3.0], "float16"),
        ("torch.linspace(3, 1e300, 1, dtype=torch.int8)", [3], "int8"),
        ("torch.linspace(0, 1e300, 0, dtype=torch.uint8)", [], "uint8"),
        ("torch.logspace(1.5, 300, 1, dtype=torch.int64)", [31], "int64"),
        ("torch.logspace(-1e300, 1e300, 1, dtype=torch.int8)", [0], "int8"),
        ("torch.linspace(torch.tensor(0.0), 1, 3)", [0.0, 0.5, 1.0], "float32"),
        ("torch.linspace(0, 1j, 3)", [0j, 0.5j, 1j], "complex64"),
        ("torch.logspace(0, 2, 3)", [1.0, 10.0, 100.0], "float32"),
        ("torch.logspace(0, 3, 4, base=2)", [1.0, 2.0, 4.0, 8.0], "float32"),
        ("torch.eye(2, 3)", [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], "float32"),
        ("torch.eye(2, dtype=torch.bool)", [[True, False], [False, True]], "bool"),
        ("torch.full((2,), 3)", [3, 3], "int64"),
        ("torch.full((2,), 3.0)", [3.0, 3.0], "float32"),
        ("torch.full((2,), True)", [True, True], "bool"),
        ("torch.full((), 1j)", 1j, "complex64"),
        ("torch.full((2,), 2.5, dtype=torch.int32)", [2, 2], "int32"),
        ("torch.full((2,), -1, dtype=torch.uint8)", [255, 255], "uint8"),
        ("torch.zeros(2, 2)", [[0.0, 0.0], [0.0, 0.0]], "float32"),
        ("torch.zeros([])", 0.0, "float32"),
        ("torch.zeros(size=(1,), dtype=int)", [0], "int64"),
        ("torch.ones(2, dtype=torch.complex128)", [1 + 0j, 1 + 0j], "complex128"),
        ("torch.zeros_like(torch.tensor([1, 2]))", [0, 0], "int64"),
        ("torch.ones_like(torch.zeros(2), dtype=torch.int8)", [1, 1], "int8"),
        ("torch.full_like(torch.zeros(2, dtype=torch.int32), 2.5)", [2, 2], "int32"),
        ("torch.ones(1, dtype=torch.int32).new_zeros(2)", [0, 0], "int32"),
        ("torch.ones(1).new_ones((2,), dtype=torch.int64)", [1, 1], "int64"),
        ("torch.ones(1).new_full((2,), 1.5)", [1.5, 1.5], "float32"),
        ("torch.ones(1, dtype=torch.float64).new_tensor([1, 2])", [1.0, 2.0], "float64"),
        ("torch.scalar_tensor(3)", 3.0, "float32"),
        ("torch.full((1,), 2**64 - 1, dtype=torch.uint64)", [2**64 - 1], "uint64"),
        ("torch.full_like(torch.ones(1, dtype=torch.uint64), 2**64 - 1)", [2**64 - 1], "uint64"),
        ("torch.ones(1, dtype=torch.uint64).fill_(2**64 - 1)", [2**64 - 1], "uint64"),
        ("torch.scalar_tensor(2**64 - 1, dtype=torch.uint64)", 2**64 - 1, "uint64"),
        ("torch.ones(1, dtype=torch.uint64).new_full((1,), 2**63)", [2**63], "uint64"),
        ("torch.full((1,), 70000, dtype=torch.complex32)", [complex(float("inf"))], "complex32"),
        ("torch.full((1,), 2**63, dtype=torch.float32)", [2.0**63], "float32"),
        ("torch.full((1,), 254.5, dtype=torch.uint8)", [254], "uint8"),
        ("torch.arange(0, 1, 0.5, dtype=torch.int32)", [0, 0], "int32"),
        ("torch.tril_indices(2, 3)", [[0, 1, 1], [0, 0, 1]], "int64"),
        ("torch.triu_indices(2, 3, 1)", [[0, 0, 1], [1, 2, 2]], "int64"),
        ("torch.complex(torch.tensor([1.0]), torch.tensor([2.0]))", [1 + 2j], "complex64"),
        ("torch.empty(2).fill_(3)", [3.0, 3.0], "float32"),
        ("torch.empty(2).fill_(torch.tensor(3))", [3.0, 3.0], "float32"),
        ("torch.ones(2).zero_()", [0.0, 0.0], "float32"),
        ("torch.fill(torch.zeros(2), 3)", [3.0, 3.0], "float32"),
        ("torch.zeros(2, dtype=torch.int64).copy_(torch.tensor([1.7, -1.7]))", [1, -1], "int64"),
    ],
)
def test_values(expression, values, dtype):
    tensor = eval(expression)
    assert tensor.tolist() == values
    assert tensor.dtype == getattr(torch, dtype)


@pytest.mark.parametrize(
    ("expression", "error", "sentence"),
    [
        ("torch.arange(5, 0)", RuntimeError, "upper bound and lower bound inconsistent with step sign"),
        ("torch.arange(0, 5, 0)", RuntimeError, "step must be nonzero"),
        ("torch.arange(0, float('inf'))", RuntimeError, "unsupported range: 0 -> inf"),
        ("torch.arange(2, dtype=torch.bool)", NotImplementedError, "\"arange_cpu\" not implemented for 'Bool'"),
        ("torch.linspace(0, 1, -1)", RuntimeError, "number of steps must be non-negative"),
        ("torch.eye(-1)", RuntimeError, "n must be greater or equal to 0, got -1"),
        ("torch.zeros(2, -1)", RuntimeError, "zeros: Dimension size must be non-negative."),
        ("torch.ones(2, -1)", RuntimeError, "Trying to create tensor with negative dimension -1: [2, -1]"),
        ("torch.zeros(2.5)", TypeError, "zeros(): argument 'size' (position 1) must be tuple of ints, not float"),
        ("torch.tensor()", TypeError, 'tensor() missing 1 required positional arguments: "data"'),
        (
            "torch.as_tensor(dtype=torch.int64)",
            TypeError,
            'as_tensor() missing 1 required positional arguments: "data"',
        ),
        ("torch.asarray()", TypeError, 'asarray() missing 1 required positional arguments: "obj"'),
        ("torch.zeros()", TypeError, 'zeros() missing 1 required positional arguments: "size"'),
        ("torch.full((2,), 300, dtype=torch.uint8)", RuntimeError, "value cannot be converted to type uint8_t without"),
        ("torch.full((1,), 2**63)", RuntimeError, "value cannot be converted to type int64_t without overflow"),
        ("torch.ones(1, dtype=torch.int64).fill_(2**63)", RuntimeError, "value cannot be converted to type int64_t"),
        ("torch.full((1,), 255.5, dtype=torch.uint8)", RuntimeError, "value cannot be converted to type uint8_t"),
        ("torch.full((1,), -0.5, dtype=torch.uint64)", RuntimeError, "value cannot be converted to type uint64_t"),
        ("torch.full((1,), -128.5, dtype=torch.int8)", RuntimeError, "value cannot be converted to type int8_t"),
        ("torch.arange(2**63, 2**63 + 3)", RuntimeError, "value cannot be converted to type int64_t without overflow"),
        ("torch.arange(0, 1, 0.5, dtype=torch.int64)", ValueError, "step must be nonzero"),
        ("torch.full((2,), 1j, dtype=torch.float32)", RuntimeError, "value cannot be converted to type float without"),
        ("torch.zeros(1, dtype=torch.int32, requires_grad=True)", RuntimeError, "Only Tensors of floating point and"),
        (
            "torch.zeros(1, out=torch.ones(1), dtype=torch.int64)",
            RuntimeError,
            "dtype Long does not match dtype of out",
        ),
        ("torch.empty_strided((2, 3), (1,))", RuntimeError, "dimensionality of sizes (2) must match dimensionality of"),
        ("torch.ones(2).fill_(torch.ones(1))", RuntimeError, "fill_ only supports 0-dimension value tensor but got"),
        ("torch.ones(1, device='cuda')", RuntimeError, "Found no NVIDIA driver on your system."),
        ("torch.ones(1, device='nowhere')", RuntimeError, "Expected one of cpu, cuda,"),
        ("torch.complex(torch.ones(1), torch.ones(1).double())", RuntimeError, "Expected object of scalar type Float"),
    ],
)
def test_refusals(expression, error, sentence):
    with pytest.raises(error) as caught:
        eval(expression)
    assert str(caught.value).startswith(sentence)


def test_order_in_memory():
    turned = torch.ones(2, 3).t()
    assert torch.zeros_like(turned).stride() == (1, 3)
    assert torch.zeros_like(turned, memory_format=torch.contiguous_format).stride() == (2, 1)
    assert torch.zeros_like(torch.ones(2, 3)[:, ::2]).stride() == (2, 1)
    assert torch.zeros_like(torch.ones(3, 8)[:, ::2].t()).stride() == (1, 4)
    assert torch.zeros_like(torch.ones(2, 4, 4, 3)[:, :, ::2].permute(0, 3, 1, 2)).stride() == (24, 1, 6, 3)
    assert torch.ones(2, 3, 4).permute(2, 0, 1)[::2].clone().stride() == (1, 6, 2)
    assert torch.zeros_like(torch.ones(3).expand(4, 3).t()).stride() == (4, 1)
    assert torch.zeros_like(torch.ones(4, 1, 5).transpose(0, 2)[::2].expand(3, 6, 4)).stride() == (1, 3, 18)
    assert torch.empty(1, 2, 3, 4, memory_format=torch.channels_last).stride() == (24, 1, 8, 2)
    assert torch.empty_strided((2, 3), (1, 2)).stride() == (1, 2)
    assert torch.ones(1, 2, 3, 4).to(memory_format=torch.channels_last).is_contiguous(memory_format=torch.channels_last)


def test_requires_grad():
    x = torch.zeros(2, requires_grad=True)
    assert x.requires_grad and x.is_leaf
    assert torch.rand(2, requires_grad=True).is_leaf


def test_default_dtype():
    try:
        torch.set_default_dtype(torch.float64)
        assert torch.zeros(1).dtype == torch.tensor(1.0).dtype == torch.arange(1.0).dtype == torch.float64
        assert torch.tensor(1j).dtype == torch.complex128
    finally:
        torch.set_default_dtype(torch.float32)
    with pytest.raises(TypeError, match="only floating-point types are supported as the default type"):
        torch.set_default_dtype(torch.int64)


def test_out():
    out = torch.ones(2, dtype=torch.int64)
    assert torch.zeros(2, out=out) is out
    assert out.tolist() == [0, 0]


def test_meta():
    assert torch.arange(5, device="meta").shape == (5,)
    assert torch.rand(2, 3, device="meta").is_meta
    assert torch.zeros_like(torch.ones(2, device="meta")).is_meta


def test_resize():
    x = torch.arange(6)
    assert x.resize_(2, 2) is x
    assert x.tolist() == [[0, 1], [2, 3]]
    assert x.resize_(3, 2).shape == (3, 2)
    with pytest.raises(RuntimeError, match="cannot resize variables that require grad"):
        torch.ones(2, requires_grad=True).resize_(3)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: torch.zeros([2, "a"]), "zeros(): argument 'size' failed to unpack the object at pos 2 with error "),
        (lambda: torch.zeros(2, 2.5), "zeros(): argument 'size' failed to unpack the object at pos 2 with error "),
        (lambda: torch.zeros([2.5]), "zeros(): argument 'size' (position 1) must be tuple of ints, but found element"),
        (
            lambda: torch.ones(2).repeat(2.5),
            "repeat(): argument 'repeats' (position 1) must be tuple of ints, not float",
        ),
        (lambda: torch.cat([torch.ones(1), 1]), "expected Tensor as element 1 in argument 0, but got int"),
        (lambda: torch.zeros(True), "zeros(): argument 'size' (position 1) must be tuple of ints, not bool"),
        (lambda: torch.zeros([True]), "must be tuple of ints, but found element of type bool at pos 0"),
        (lambda: torch.ones(2).cumsum(True), "cumsum(): argument 'dim' (position 1) must be int, not bool"),
        (lambda: torch.full(2, 3), "full(): argument 'size' (position 1) must be tuple of ints, not int"),
        (lambda: torch.reshape(torch.ones(2), 2), "argument 'shape' (position 2) must be tuple of ints, not int"),
        (lambda: torch.hstack(torch.ones(2), torch.ones(2)), "hstack() takes 1 positional argument but 2 were given"),
        (lambda: torch.hstack(torch.ones(2)), "hstack(): argument 'tensors' (position 1) must be tuple of Tensors"),
    ],
)
def test_lists_with_something_else_in_them(call, sentence):
    with pytest.raises(TypeError, match=re.escape(sentence)):
        call()


@pytest.mark.parametrize(
    ("call", "kind", "sentence"),
    [
        (lambda: torch.triu_indices(-1, 2**100), ValueError, "Overflow when unpacking long long"),
        (lambda: torch.ones(3).sum(-(2**64)), ValueError, "Overflow when unpacking long long"),
        (
            lambda: torch.ones(3).sum([0, 2**64]),
            TypeError,
            "sum(): argument 'dim' failed to unpack the object at pos 2 with error \"Overflow when unpacking long long",
        ),
        (lambda: torch.ones(3) + 2**70, OverflowError, "int too big to convert"),
    ],
)
def test_numbers_of_more_than_64_bits(call, kind, sentence):
    with pytest.raises(kind, match=re.escape(sentence)):
        call()


def test_only_the_first_number_of_a_list_tells_what_it_is():
    assert torch.zeros(2, True).shape == (2, 1)
    assert torch.zeros((2, True)).shape == (2, 1)
    assert torch.ones(2, 3).sum(1).shape == (2,)
    assert [x.shape for x in torch.atleast_2d(torch.ones(2), torch.ones(3))] == [(1, 2), (1, 3)]


class TestDefaultDevice:
    def test_a_block_makes_tensors_on_its_device(self):
        with torch.device("meta") as device:
            assert torch.get_default_device() == device
            made = (
                torch.zeros(2),
                torch.arange(3),
                torch.randn(2, 2),
                torch.tensor([1.0]),
                torch.as_tensor([1]),
                torch.nn.Linear(3, 2).weight,
            )
            with torch.device("cpu"):
                assert torch.ones(1).device.type == "cpu"
            assert torch.ones(1, device="cpu").device.type == "cpu"
            assert torch.ones(1).device.type == "meta"
        assert {tensor.device.type for tensor in made} == {"meta"}
        assert torch.zeros(1).device.type == "cpu"

    def test_a_block_ends_with_an_exception(self):
        with pytest.raises(ZeroDivisionError), torch.device("meta"):
            1 / 0
        assert torch.get_default_device().type == "cpu"

    def test_it_holds_for_the_thread_that_set_it(self):
        seen = []
        torch.set_default_device("meta")
        try:
            other = threading.Thread(target=lambda: seen.append(torch.zeros(1).device.type))
            other.start()
            other.join()
            seen.append(torch.zeros(1).device.type)
        finally:
            torch.set_default_device(None)
        assert seen == ["cpu", "meta"]

    def test_what_exists_stays_where_it_is(self):
        own = torch.ones(2)
        with torch.device("meta"):
            assert (own + 1).device.type == torch.zeros_like(own).device.type == own.clone().device.type == "cpu"


@pytest.mark.parametrize("make", [torch.arange, lambda n, out: torch.linspace(0, n - 1, n, out=out)])
def test_ranges_fill_what_has_as_many_elements(make):
    whole = torch.full((3, 6), -1.0)
    out = whole[:, ::2]
    assert make(9, out=out) is out
    assert out.tolist() == [[0, 1, 2], [3, 4, 5], [6, 7, 8]] and (whole[:, 1::2] == -1).all()


@pytest.mark.parametrize("name", ["normal_", "uniform_", "exponential_", "random_"])
def test_random_numbers_overwrite_no_element_twice(name):
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor refers to a single memory"):
        getattr(torch.ones(1).expand(4), name)()


def test_strides_beyond_the_last_integer():
    with pytest.raises(RuntimeError, match="^Storage size calculation overflowed"):
        torch.empty_strided((2, 3), (-(2**63), 2))


def test_asarray_keeps_the_history_unless_told():
    leaf = torch.ones(1, requires_grad=True)
    assert torch.asarray(leaf).requires_grad and torch.asarray(leaf, copy=True).grad_fn.name() == "CloneBackward0"
    assert not torch.asarray(leaf, requires_grad=False).requires_grad and leaf.requires_grad
    assert torch.asarray(torch.ones(1), requires_grad=True).is_leaf
    with pytest.warns(UserWarning, match="unspecified requires_grad now defaults to obj.requires_grad"):
        torch.set_warn_always(True)
        try:
            torch.asarray(leaf * 2)
        finally:
            torch.set_warn_always(False)


@pytest.mark.parametrize("name", ["tril_indices", "triu_indices"])
def test_indices_are_int32_or_int64(name):
    assert getattr(torch, name)(2, 2, dtype=torch.int32).dtype is torch.int32
    with pytest.raises(NotImplementedError, match=f"\"{name}\" not implemented for 'Float'"):
        getattr(torch, name)(2, 2, dtype=torch.float32)


def test_a_single_evenly_spaced_number_is_the_start():
    for dtype in (torch.float16, torch.float32, torch.float64):
        assert torch.linspace(2, 1e300, 1, dtype=dtype).tolist() == [2.0]
        assert torch.linspace(torch.inf, 5, 1, dtype=dtype).tolist() == [torch.inf]


def test_normal_draws_numbers_of_the_size_to_which_means_and_out_broadcast():
    torch.manual_seed(0)
    out = torch.empty(2, 3)
    assert torch.normal(torch.tensor([10.0, 20.0, 30.0]), 0.0, out=out) is out
    assert out.tolist() == [[10.0, 20.0, 30.0]] * 2
    column = torch.normal(torch.tensor([[1.0], [2.0]]), 0.0, out=torch.empty(3))
    assert column.tolist() == [[1.0] * 3, [2.0] * 3]
    with pytest.raises(RuntimeError, match="The size of tensor a .2. must match the size of tensor b .3."):
        torch.normal(torch.ones(2), 1.0, out=torch.empty(3))


FACTORIES = {
    "empty": lambda **more: torch.empty(2, **more),
    "zeros": lambda **more: torch.zeros(2, **more),
    "full": lambda **more: torch.full((2,), 3.0, **more),
    "arange": lambda **more: torch.arange(2, **more),
    "eye": lambda **more: torch.eye(2, **more),
    "rand": lambda **more: torch.rand(2, **more),
    "randint": lambda **more: torch.randint(3, (2,), **more),
    "linspace": lambda **more: torch.linspace(0, 1, 2, **more),
}


@pytest.mark.parametrize("name", FACTORIES)
def test_the_keywords_of_a_factory_agree_with_out(name):
    out = torch.ones(2)
    made = FACTORIES[name](out=out, requires_grad=True)
    assert made is out and out.requires_grad
    with pytest.raises(RuntimeError, match=r"^device type meta does not match device type of out parameter \(cpu\)"):
        FACTORIES[name](out=torch.ones(2), device="meta")
    with pytest.raises(RuntimeError, match=r"^layout Sparse does not match layout of out parameter \(Strided\)"):
        FACTORIES[name](out=torch.ones(2), layout=torch.sparse_coo)


def test_empty_only_resizes_out():
    out = torch.arange(4.0)
    assert torch.empty(2, out=out).tolist() == [0, 1]
    with pytest.raises(RuntimeError, match="^'memory_format' argument is incompatible with 'out' tensor argument"):
        torch.empty(2, out=out, memory_format=torch.contiguous_format)


WITHOUT_DERIVATIVE = {
    "zeros": lambda **options: torch.zeros(2, **options),
    "ones": lambda **options: torch.ones(2, **options),
    "full": lambda **options: torch.full((2,), 1.0, **options),
    "arange": lambda **options: torch.arange(2, **options),
    "linspace": lambda **options: torch.linspace(0, 1, 2, **options),
    "rand": lambda **options: torch.rand(2, **options),
    "randint": lambda **options: torch.randint(3, (2,), **options),
    "randperm": lambda **options: torch.randperm(2, **options),
    "fft_fftfreq": lambda **options: torch.fft.fftfreq(2, **options),
}


@pytest.mark.parametrize("name", WITHOUT_DERIVATIVE)
def test_a_factory_has_no_derivative_for_out(name):
    make, leaf = WITHOUT_DERIVATIVE[name], torch.ones(2, requires_grad=True)
    sentence = rf"^aten::{name}\(\): functions with out=... arguments don't support automatic differentiation"
    for out in (leaf, torch.ones(4, requires_grad=True)[:2]):
        with pytest.raises(RuntimeError, match=sentence):
            make(out=out)
    assert leaf.tolist() == [1, 1] and leaf.requires_grad
    # The history of what is no leaf ends at the call.
    made = make(out=leaf * 2)
    assert made.grad_fn.name() == "torch::autograd::NotImplemented"
    with pytest.raises(RuntimeError, match=f"^derivative for aten::{name} is not implemented"):
        made.sum().backward()
    with torch.no_grad():
        assert make(out=leaf) is leaf and not leaf.requires_grad
        assert make(out=leaf, requires_grad=True).requires_grad


@pytest.mark.parametrize("make", [torch.empty, torch.randn])
def test_factories_that_resize_first_refuse_what_has_a_history(make):
    leaf = torch.ones(2, requires_grad=True)
    for out in (leaf, leaf * 2):
        with pytest.raises(RuntimeError, match="^cannot resize variables that require grad"):
            make(2, out=out)
    with torch.no_grad(), pytest.raises(RuntimeError, match="^cannot resize variables that require grad"):
        make(2, out=leaf)


@pytest.mark.parametrize(
    ("call", "kind", "sentence"),
    [
        ("torch.full((2,), 1, {})", RuntimeError, "full(...) is not implemented for sparse layout"),
        ("torch.ones(2, {})", RuntimeError, "full(...) is not implemented for sparse layout"),
        (
            "torch.arange(3, {})",
            NotImplementedError,
            "Could not run 'aten::arange.start_out' with arguments from the 'Sp",
        ),
        ("torch.linspace(0, 1, 3, {})", NotImplementedError, "Could not run 'aten::linspace.out' with arguments from"),
        (
            "torch.eye(3, 3, {})",
            NotImplementedError,
            "Could not run 'aten::eye.m_out' with arguments from the 'SparseCPU'",
        ),
        ("torch.randperm(3, {})", NotImplementedError, "Could not run 'aten::randperm.generator_out' with arguments"),
        ("torch.fft.fftfreq(3, {})", NotImplementedError, "Could not run 'aten::arange.start_out' with arguments from"),
    ],
)
def test_most_factories_make_nothing_sparse(call, kind, sentence):
    for options in ("layout=torch.sparse_coo", "out=torch.eye(3).to_sparse()"):
        with pytest.raises(kind, match="^" + re.escape(sentence)):
            eval(call.format(options))


def test_factories_of_a_sparse_layout_are_refused_in_torchs_words():
    for make, sentence in [
        (torch.rand, "Could not run 'aten::uniform_'"),
        (torch.randn, "Could not run 'aten::normal_'"),
        (lambda size, **layout: torch.randint(3, size, **layout), "Could not run 'aten::random_.from'"),
    ]:
        for layout, backend in ((torch.sparse_coo, "SparseCPU"), (torch.sparse_csr, "SparseCsrCPU")):
            if (make, layout) == (torch.randn, torch.sparse_csr):
                continue
            with pytest.raises(
                NotImplementedError, match=f"^{re.escape(sentence)} with arguments from the '{backend}'"
            ):
                make((3, 3), layout=layout)
    with pytest.raises(RuntimeError, match=r"^torch.empty: Only batched sparse compressed .* but got size \[3\]"):
        torch.rand(3, layout=torch.sparse_csr)
    for name in ("hann", "kaiser", "bartlett"):
        dtype = "float (default)" if name == "hann" else "float"
        sentence = re.escape(
            f"{name}_window is not implemented for sparse types, got: TensorOptions(dtype={dtype}, device="
        )
        with pytest.raises(RuntimeError, match=f"^{sentence}cpu, layout=Sparse, requires_grad=false"):
            getattr(torch, f"{name}_window")(3, layout=torch.sparse_coo)


def test_zeros_and_empty_give_a_sparse_out_the_size_and_take_its_elements():
    for make in (torch.zeros, torch.empty):
        for sizes in ((3, 3), (2,), (2, 2, 2)):
            out = torch.sparse_coo_tensor(torch.tensor([[0, 1]]), torch.ones(2, 3), (2, 3))
            version = out._version
            assert make(sizes, out=out) is out and out._version == version + 1
            assert (out.shape, out._nnz(), out.sparse_dim(), out.dense_dim()) == (sizes, 0, len(sizes), 0)
    rows = torch.eye(3).to_sparse_csr()
    assert torch.empty(3, 3, out=rows)._nnz() == 3 and torch.zeros(4, 4, out=rows)._nnz() == 0
    assert rows.shape == (4, 4) and rows.crow_indices().tolist() == [0] * 5


@pytest.mark.parametrize("layout", ["csr", "csc", "bsr"])
def test_factories_overwrite_the_stored_values_of_a_compressed_out(layout):
    def rows():
        whole = torch.eye(2)
        return whole.to_sparse_bsr((1, 1)) if layout == "bsr" else getattr(whole, f"to_sparse_{layout}")()

    out = rows()
    version = out._version
    assert torch.full((2, 2), 3.0, out=out) is out and out._version > version
    assert out.to_dense().tolist() == [[3, 0], [0, 3]]
    assert torch.ones(3, 3, out=out).to_dense().tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 0]]
    torch.manual_seed(0)
    drawn = torch.randn(2, 2, out=rows())
    torch.manual_seed(0)
    assert drawn.values().flatten().equal(torch.randn(2)) and torch.normal(5.0, 0.0, (3, 3), out=out).values()[0] == 5
    assert rows().fill_(4).to_dense().tolist() == [[4, 0], [0, 4]]
    with pytest.raises(RuntimeError, match=r"^torch.resize_: Only batched sparse CSR matrices are .* got size \[3\]"):
        torch.ones(3, out=out)
    with pytest.raises(RuntimeError, match=r"^dtype Double does not match dtype of out parameter \(Float\)"):
        torch.ones(2, 2, dtype=torch.float64, out=out)
    with pytest.raises(
        NotImplementedError, match="^Could not run 'aten::uniform_' with arguments from the 'SparseCsrCPU'"
    ):
        torch.rand(2, 2, out=out)


def test_sizes_of_compressed_tensors():
    rows = torch.tensor([[0.0, 1.0], [2.0, 0.0], [0.0, 3.0]]).to_sparse_csr()
    assert rows.resize_(2, 3) is rows and rows.to_dense().tolist() == [[0, 1, 0], [2, 0, 0]]
    assert rows.resize_(4, 3).crow_indices().tolist() == [0, 1, 2, 2, 2]
    columns = rows.to_sparse_csc().resize_(4, 2)
    assert columns.ccol_indices().tolist() == [0, 1, 2] and columns.shape == (4, 2)
    with pytest.raises(
        RuntimeError,
        match="^torch.resize_: Resizing columns of sparse CSR tensors to a smaller value is not supported. The original "
        "number of columns is 3 while the requested new number of columns is 2.",
    ):
        rows.resize_(4, 2)
    with pytest.raises(RuntimeError, match="^torch.resize_: only a matrix can be resized, to whole blocks"):
        torch.eye(4).to_sparse_bsr((2, 2)).resize_(5, 4)
    with pytest.raises(NotImplementedError, match="^Could not run 'aten::resize_' with arguments from the 'SparseCPU'"):
        torch.eye(2).to_sparse().resize_(3, 3)


def test_equal_elements_are_written_to_an_expanded_out():
    for make, wanted in ((torch.zeros, 0), (torch.ones, 1), (lambda size, out: torch.full(size, 2.0, out=out), 2)):
        out = torch.full((1,), 7.0).expand(3)
        assert make((3,), out=out).tolist() == [wanted] * 3
    assert torch.empty(3, out=torch.ones(1).expand(3)).shape == (3,)
    overlaps = "^unsupported operation: more than one element of the written-to tensor refers to a single memory"
    for call in (
        lambda out: torch.rand(3, out=out),
        lambda out: torch.add(torch.ones(()), 1, out=out),
        lambda out: torch.maximum(torch.ones(1), torch.ones(1), out=out),
    ):
        with pytest.raises(RuntimeError, match=overlaps):
            call(torch.ones(1).expand(3))


@pytest.mark.parametrize(("dtype", "named"), [("float16", "float"), ("bfloat16", "float"), ("int32", "int64_t")])
def test_a_range_is_computed_in_a_wider_dtype_which_has_its_numbers(dtype, named):
    with pytest.raises(RuntimeError, match=f"^value cannot be converted to type {named} without overflow"):
        torch.arange(0, 2, 1e39, dtype=getattr(torch, dtype))
