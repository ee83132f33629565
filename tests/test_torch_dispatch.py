"""Classes and modes that handle the operators of torch's registry (`__torch_dispatch__`)."""

import pytest

import rushlight as torch
from rushlight.utils import _pytree as pytree
from rushlight.utils._python_dispatch import TorchDispatchMode

seen = []


class Wrapper(torch.Tensor):
    """Holds another tensor, handles every operator with the result for that tensor, and notes it."""

    @staticmethod
    def __new__(cls, data):
        made = torch.Tensor._make_wrapper_subclass(
            cls, size=data.size(), strides=data.stride(), dtype=data.dtype, device=data.device, requires_grad=False
        )
        made.data_inside = data
        return made

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        seen.append(str(func).removeprefix("aten."))
        args, kwargs = pytree.tree_map_only(Wrapper, lambda one: one.data_inside, (args, kwargs or {}))
        return func(*args, **kwargs)


D = torch.arange(6).reshape(2, 3)
FIRST = torch.tensor([1])
MASK = D > 2
E = torch.arange(6.0).reshape(2, 3) + 1
F = torch.nn.functional
CASES = {
    "add.Tensor": [lambda x: x + 1, lambda x: 1 + x, lambda x: x + x, lambda x: torch.add(D, x)],
    "mul.Tensor": [lambda x: x * 2.5, lambda x: 2 * x],
    "rsub.Scalar": [lambda x: 1 - x],
    "sum.default": [lambda x: x.sum()],
    "sum.dim_IntList": [lambda x: x.sum(0), lambda x: torch.sum(x, (0, 1))],
    "max.dim": [lambda x: x.max(1).values, lambda x: torch.max(x, dim=1).indices],
    "flip.default": [lambda x: x.flip(0), lambda x: torch.flip(x, [0, 1])],
    "permute.default": [lambda x: x.permute(1, 0), lambda x: x.T],
    "view.default": [lambda x: x.view(3, 2), lambda x: x.reshape(-1)],
    "cat.default": [lambda x: torch.cat([x, D], dim=1), lambda x: torch.cat((D, x))],
    "select.int": [lambda x: x[0], lambda x: x[:, 1], lambda x: x[..., 0], lambda x: x[0, 1]],
    "slice.Tensor": [lambda x: x[0:1], lambda x: x[:, ::2], lambda x: x[:], lambda x: x.narrow(0, 0, 1)],
    "index.Tensor": [lambda x: x[FIRST], lambda x: x[:, FIRST], lambda x: x[[1, 0]], lambda x: x[D > 2]],
    "unsqueeze.default": [lambda x: x[None], lambda x: x.unsqueeze(0)],
    "clone.default": [lambda x: x.clone()],
    "_to_copy.default": [lambda x: x.float(), lambda x: x.to(torch.float64), lambda x: x.int()],
    "sort.default": [lambda x: x.sort(dim=0, descending=True).values],
    "eq.Tensor": [lambda x: x == D],
    "unbind.int": [lambda x: x.unbind(0)[1], lambda x: list(x)[1]],
    "split.Tensor": [lambda x: torch.split(x, 1)[0], lambda x: x.chunk(2)[1]],
    "index_select.default": [lambda x: torch.index_select(x, 0, FIRST)],
    "mm.default": [lambda x: x @ D.t(), lambda x: torch.matmul(x, D.t())],
    "neg.default": [lambda x: -x, lambda x: torch.ops.aten.neg.default(x), lambda x: torch.ops.aten.neg(x)],
    "where.self": [lambda x: torch.where(MASK, x, D), lambda x: x.where(MASK, D)],
    "transpose.int": [lambda x: x.mT, lambda x: x.H, lambda x: x.swapaxes(0, 1)],
    "alias.default": [lambda x: x[...]],
    "pow.Scalar": [lambda x: 2**x],
    "detach.default": [lambda x: x.data],
}
#: Calls that are several operators, in their order.
SEVERAL = {
    "reciprocal.default mul.Tensor": lambda x: 2 / x,
    "permute.default clone.default _unsafe_view.default": lambda x: x.T.reshape(-1),
    "linalg_vector_norm.default clamp_min.default expand.default div.Tensor": lambda x: F.normalize(x),
    "empty_like.default bernoulli_.float div_.Scalar mul.Tensor": lambda x: F.dropout(x),
    "_to_copy.default _softmax.default": lambda x: F.softmax(x, 0, dtype=torch.float64),
    "relu.default": lambda x: F.relu(x),
    "relu_.default": lambda x: F.relu(x, inplace=True),
    "constant_pad_nd.default": lambda x: F.pad(x, (1, 1)),
    "pad.default": lambda x: F.pad(x, (1, 1), mode="reflect"),
    "_log_softmax.default": lambda x: F.log_softmax(x, -1),
    "_softmax.default": lambda x: x.softmax(1),
    "einsum.default": lambda x: torch.einsum("ij,kj->ik", x, E),
    "embedding.default": lambda x: F.embedding(FIRST, x),
    "native_batch_norm.default": lambda x: F.batch_norm(x, None, None, training=True),
    "layer_norm.default": lambda x: F.layer_norm(x, (3,)),
    "unsqueeze.default convolution.default squeeze.dim": lambda x: F.conv1d(
        x, E.unsqueeze(1)[:, :, :2].contiguous().expand(2, 2, 2)
    ),
    "linalg_vector_norm.default": lambda x: torch.norm(x, 3),
    "linalg_norm.default": lambda x: torch.linalg.norm(x, 2),
    "unsqueeze.default _scaled_dot_product_flash_attention_for_cpu.default": lambda x: F.scaled_dot_product_attention(
        y := x[None], y, y
    ),
    "index.Tensor select.int": lambda x: x[torch.ones(2, 3, dtype=torch.bool)][0],
    "unsqueeze.default select.int": lambda x: x[:, None, 0],
    "type_as": lambda x: x.type_as(x),
    "cpu float to": lambda x: x.cpu().float().to("cpu").contiguous(),
    "eq.Tensor any.default _local_scalar_dense.default": lambda x: torch.tensor(x.__contains__(torch.tensor(2.0))),
}
#: They are the tensor itself.
NOTHING = ("type_as", "cpu float to")


class Noted(TorchDispatchMode):
    """Notes every operator, and runs it."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        seen.append(str(func).removeprefix("aten."))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", CASES)
def test_operators_have_torchs_names(name):
    for call in CASES[name]:
        seen.clear()
        result = call(Wrapper(D))
        assert type(result) is torch.Tensor and torch.equal(result, call(D))
        assert set(seen) == {name}


@pytest.mark.parametrize("name", CASES)
def test_a_mode_sees_the_operators_that_a_class_sees(name):
    for call in CASES[name]:
        seen.clear()
        with Noted():
            result = call(D)
        assert torch.equal(result, call(D))
        # A list as an index becomes a tensor, which only a mode sees.
        assert {one for one in seen if one not in ("lift_fresh.default", "t.default", "gt.Scalar")} == {name}


@pytest.mark.parametrize("names", SEVERAL)
def test_functions_are_decomposed_as_in_torch(names):
    expected = [] if names in NOTHING else names.split()
    call = SEVERAL[names]
    torch.manual_seed(0)
    plain = call(E.clone())
    torch.manual_seed(0)
    x = Wrapper(E.clone())
    seen.clear()
    result = call(x)
    assert result is x or result is x.data_inside or torch.equal(result, plain)
    # The results of this wrapper are plain tensors, so that only the first operator is sure to be seen.
    assert seen[:1] == expected[:1]
    torch.manual_seed(0)
    x = E.clone()
    ignored = ("lift_fresh.default", "ones.default", "slice.Tensor", "clone.default") if "unsafe" not in names else ()
    seen.clear()
    with Noted():
        result = call(x)
    assert torch.equal(result, plain)
    if "convolution" not in names:
        assert [one for one in seen if one not in ignored] == expected


def test_modes_see_numbers_and_assignments():
    x = torch.arange(6.0).reshape(2, 3)
    seen.clear()
    with Noted():
        assert (int(x[1, 2]), bool(x[0, 0]), x[0, 1].item()) == (5, False, 1.0)
        with pytest.raises(RuntimeError, match="Boolean value of Tensor with more than one value is ambiguous"):
            bool(x)
    assert seen == ["select.int", "select.int", "_local_scalar_dense.default"] * 3
    seen.clear()
    with Noted():
        x[0] = 7
        x[:, 1] = x[:, 2]
        x[x > 6] = 0
    assert x.tolist() == [[0, 0, 0], [3, 5, 5]]
    assert (
        seen
        == (
            "lift_fresh.default select.int fill_.Tensor select.int select.int copy_.default "
            "gt.Scalar lift_fresh.default index_put_.default"
        ).split()
    )


def test_modes_refuse_and_nest():
    class Refuses(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(types)
            return NotImplemented

    seen.clear()
    with Noted(), Refuses():
        assert torch.equal(E + 1, torch.arange(6.0).reshape(2, 3) + 2)
        assert torch.equal(Wrapper(E) + E, E + E)
    assert seen[:2] == [(), "add.Tensor"] and (Wrapper,) in seen
    with pytest.raises(TypeError, match="Multiple dispatch failed for 'torch._ops.aten.neg.default'"), Refuses():
        torch.neg(E)
    with pytest.raises(IndexError, match="pop from an empty deque"):
        Refuses().__exit__(None, None, None)


def test_function_modes_come_before_dispatch_modes():
    class Named(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func.__name__)
            return func(*args, **(kwargs or {}))

    for modes in ((Noted, Named), (Named, Noted)):
        seen.clear()
        with modes[0](), modes[1]():
            torch.neg(E)
            assert torch.overrides.has_torch_function(())
        assert seen == ["neg", "neg.default"]
    with Noted():
        assert not torch.overrides.has_torch_function((E,))


def test_a_wrapper_tells_its_form():
    x = Wrapper(D)
    seen.clear()
    assert (x.shape, x.dtype, x.stride(), x.dim(), x.numel(), len(x)) == (D.shape, D.dtype, (3, 1), 2, 6, 2)
    assert (x.device, x.is_cpu, x.is_meta, x.requires_grad) == (torch.device("cpu"), True, False, False)
    assert x.contiguous() is x and x.to(torch.int64) is x and isinstance(x, Wrapper)
    assert seen == []


def test_values_are_asked_for():
    one = Wrapper(torch.tensor(3))
    assert (one.item(), int(one), float(one), bool(one)) == (3, 3, 3.0, True)
    with pytest.raises(RuntimeError, match=r"^\.numpy\(\) is not supported for tensor subclasses\.$"):
        one.numpy()  # its own elements do not exist
    with pytest.raises(RuntimeError, match=r"^\.tolist\(\) is not supported for tensor subclasses, got Wrapper$"):
        one.tolist()


def test_changes_in_place_return_the_wrapper():
    x = Wrapper(D.clone())
    seen.clear()
    assert x.add_(1) is x and torch.equal(x.data_inside, D + 1)
    y = x
    y += 1
    assert y is x and seen == ["add_.Tensor", "add_.Tensor"]


def test_functions_in_python_are_decomposed():
    seen.clear()
    assert torch.unique(Wrapper(D)).tolist() == list(range(6)) and seen

    def halved(x):
        return torch.overrides.handle_torch_function(halved, (x,), x)

    with pytest.raises(NotImplementedError, match="halved is not decomposed into operators"):
        halved(Wrapper(D))


def test_several_classes_are_asked_in_order():
    class Refuses(Wrapper):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            seen.append(types)
            return NotImplemented

    x, y = Wrapper(D), Refuses(D)
    seen.clear()
    assert torch.equal(x + y, D + D), "`Wrapper` answers, and takes what is in both"
    assert seen == [(Refuses, Wrapper), "add.Tensor"]
    with pytest.raises(TypeError, match="all __torch_dispatch__ handlers returned NotImplemented"):
        torch.add(y, 1)


def test_tensors_with_elements_handle_operators_too():
    class Quiet(torch.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return super().__torch_dispatch__(func, types, args, kwargs)

    x = torch.ones(2).as_subclass(Quiet)
    seen.clear()
    assert type(x + 1) is torch.Tensor and (x.exp() > 2).tolist() == [True, True]
    assert seen == ["aten.add.Tensor", "aten.exp.default"]


def test_modes_see_every_operator():
    x = torch.ones(2)
    seen.clear()
    with Noted():
        y = (x + 1) * x
        torch.nn.Linear(2, 2).requires_grad_(False)(x)
        assert y.shape == (2,)
    assert seen[:2] == ["add.Tensor", "mul.Tensor"] and seen[-4:] == [
        "view.default",
        "t.default",
        "addmm.default",
        "view.default",
    ]
    seen.clear()
    assert (x + 1).tolist() == [2, 2] and seen == []


@pytest.mark.parametrize("reduce", ["sum", "mean", "amax", "amin"])
def test_products_of_sparse_rows_are_reduced(reduce):
    dense = torch.tensor([[0, 1.0, 2], [0, 0, 0], [3, 0, -4]])
    other = torch.arange(6.0).view(3, 2) - 2
    x, y = dense.to_sparse_csr().requires_grad_(), other.clone().requires_grad_()
    result = torch.sparse.mm(x, y, reduce)
    kind = {"sum": torch.sum, "mean": torch.mean, "amax": torch.amax, "amin": torch.amin}[reduce]
    for row in range(3):
        places = dense[row].nonzero().flatten()
        products = dense[row][places].unsqueeze(1) * other[places]
        expected = kind(products, 0) if len(places) else torch.zeros(2)
        assert torch.allclose(result[row], expected)
    result.sum().backward()
    assert x.grad.layout is torch.sparse_csr and y.grad.shape == y.shape
    with pytest.raises(NotImplementedError, match="'aten::_sparse_mm_reduce_impl' with arguments from the 'SparseCPU'"):
        torch.sparse.mm(dense.to_sparse(), other, reduce)
    with pytest.raises(RuntimeError, match="reduce type of prod has not been enabled"):
        torch.sparse.mm(x, y, "prod")


def test_indices_are_compressed_and_back():
    rows = torch.tensor([0, 1, 1, 3])
    crow = torch._convert_indices_from_coo_to_csr(rows, 4)
    assert crow.tolist() == [0, 1, 3, 3, 4]
    assert torch._convert_indices_from_coo_to_csr(rows, 4, out_int32=True).dtype is torch.int32
    columns = torch.tensor([2, 0, 1, 2])
    pair = torch._convert_indices_from_csr_to_coo(crow, columns)
    assert pair.tolist() == [rows.tolist(), columns.tolist()]
    turned = torch._convert_indices_from_csr_to_coo(crow, columns, transpose=True, out_int32=True)
    assert torch.equal(turned, pair.flip(0).int()) and turned.dtype is torch.int32


def test_facts_are_added_to_a_text():
    add = torch._tensor_str._add_suffixes
    assert add("tensor([1]", ["a=1", "b=2"], 7, False) == "tensor([1], a=1, b=2)"
    assert add("t([1\n1]", ["a=1"], 2, True) == "t([1\n1],\n  a=1)" and add("t", [], 2, True) == "t)"
    assert add("x" * 75, ["ab"], 7, False) == "x" * 75 + ",\n       ab)"
    assert add("x" * 74, ["ab"], 7, False) == "x" * 74 + ", ab)"


def test_a_mode_needs_a_method():
    class Mode(torch.utils._python_dispatch.TorchDispatchMode):
        pass

    with pytest.raises(NotImplementedError, match="Mode has no __torch_dispatch__"), Mode():
        torch.ones(2) + 1


#: What a backward pass calls, behind the gradient of the sum.
BACKWARD = {
    "t.default mm.default": lambda x: D.float() @ x.t(),
    "threshold_backward.default": lambda x: F.relu(x),
    "mul.Tensor mul.Tensor add_.Tensor": lambda x: x * x,
    "convolution_backward.default": lambda x: F.conv1d(E[None], x[None]),
    "transpose.int bmm.default": lambda x: torch.bmm(E[None], x.t()[None]),
    "gelu_backward.default": lambda x: F.gelu(x),
    "silu_backward.default": lambda x: F.silu(x),
    "slice.Tensor slice.Tensor add.Tensor": lambda x: torch.cat([x, x]),
    "tanh_backward.default": lambda x: x.tanh(),
    "nll_loss_backward.default": lambda x: F.nll_loss(x, torch.tensor([0, 1]), reduction="sum") * torch.ones(1),
}


@pytest.mark.parametrize("names", BACKWARD)
def test_modes_see_what_backward_runs(names):
    x = E.clone().requires_grad_()
    BACKWARD[names](x).sum().backward()
    expected, x.grad = x.grad, None
    loss = BACKWARD[names](x).sum()
    seen.clear()
    with Noted():
        loss.backward()
    assert torch.equal(x.grad, expected)
    assert seen[0] == "ones_like.default" and names in " ".join(seen), seen
    loss = BACKWARD[names](x).sum()
    seen.clear()
    with Noted():
        (grad,) = torch.autograd.grad(loss, x)
    assert torch.equal(grad, expected) and names in " ".join(seen)


@pytest.mark.parametrize("transposed", [False, True])
def test_gradients_of_convolutions_are_one_operator(transposed):
    function = F.conv_transpose2d if transposed else F.conv2d
    weight = torch.arange(48.0).reshape((4, 3, 2, 2) if transposed else (3, 4, 2, 2)).requires_grad_()
    x, bias = torch.arange(64.0).reshape(1, 4, 4, 4).requires_grad_(), torch.zeros(3, requires_grad=True)
    operands = (x, weight, bias)
    options = {"stride": 2, "padding": 1, "dilation": 1} | ({"output_padding": 1} if transposed else {})

    def gradients(*wanted):
        return torch.autograd.grad(function(*operands, **options).square().sum(), wanted)

    for wanted in (operands, (x,), (weight, bias)):
        plain = gradients(*wanted)
        seen.clear()
        with Noted():
            noted = gradients(*wanted)
        assert seen.count("convolution_backward.default") == 1
        assert all(map(torch.equal, plain, noted))


def test_modes_see_the_second_backward_pass():
    x = torch.tensor([2.0], requires_grad=True)
    with Noted():
        (first,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
        seen.clear()
        (second,) = torch.autograd.grad(first.sum(), x)
    assert second.item() == 12 and "mul.Tensor" in seen


def test_a_mode_replaces_what_backward_computes():
    class Doubled(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            result = func(*args, **(kwargs or {}))
            return result * 2 if func is torch.ops.aten.tanh_backward.default else result

    x = torch.zeros(2, requires_grad=True)
    y = x.tanh().sum()
    with Doubled():
        y.backward()
    assert x.grad.tolist() == [2, 2]
    x.grad = None
    x.tanh().sum().backward()
    assert x.grad.tolist() == [1, 1]


def test_errors_of_modes_end_a_backward_pass():
    class Refusing(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            raise KeyError(str(func))

    x = torch.ones(2, requires_grad=True)
    y = x.exp().sum()
    with pytest.raises(KeyError), Refusing():
        y.backward(torch.tensor(1.0))
    y = x.exp().sum()
    y.backward()
    assert x.grad.shape == (2,)


VIEWS = {
    "select_backward.default": lambda x: x[1],
    "slice_backward.default": lambda x: x[:, 1:3:2],
    "index_put.default": lambda x: x[:, torch.tensor([0, 2, 0])],
    "col2im.default": lambda x: F.unfold(x[None, None], (2, 2)),
    "im2col.default": lambda x: F.fold(x.reshape(1, 4, 3), (2, 6), 2, stride=2),
}


@pytest.mark.parametrize("name", VIEWS)
def test_gradients_of_views_have_torchs_names(name):
    call, x = VIEWS[name], (torch.arange(12.0).reshape(3, 4) + 1).requires_grad_()
    (call(x) ** 2).sum().backward()
    expected, x.grad = x.grad, None
    y = (call(x) ** 2).sum()
    seen.clear()
    with Noted():
        (grad,) = torch.autograd.grad(y, x, create_graph=True)
    assert name in seen and torch.equal(grad, expected)
    grad.sum().backward()
    assert torch.equal(x.grad, expected / x.detach())


def test_a_handler_of_functions_leaves_operators_to_the_class():
    """Libraries write both handlers, and call the function inside of DisableTorchFunctionSubclass."""

    class Wrapper(torch.Tensor):
        def __new__(cls, inner):
            return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=torch.float32)

        def __init__(self, inner):
            self.inner = inner

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **(kwargs or {}))

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            if func is torch.ops.aten.detach.default:
                return Wrapper(args[0].inner)
            return func(*(arg.inner.float() if isinstance(arg, Wrapper) else arg for arg in args), **(kwargs or {}))

    weight = torch.nn.Parameter(Wrapper(torch.ones(2, 3, dtype=torch.int8)), requires_grad=False)
    assert type(weight) is Wrapper and isinstance(weight, torch.nn.Parameter)
    assert torch.nn.functional.linear(torch.ones(1, 3), weight).tolist() == [[3, 3]]


def test_the_default_handler_runs_the_operator():
    class Counted(torch.Tensor):
        seen = 0

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            cls.seen += 1
            return super().__torch_dispatch__(func, types, args, kwargs or {})

    x = torch.ones(2).as_subclass(Counted)
    assert (x + 1).tolist() == [2, 2] and Counted.seen >= 1
