"""`vmap`. The numbers and the error messages are torch's."""

import copy
import io
import threading

import pytest

import rushlight as torch
from rushlight import func

A = torch.arange(12.0, dtype=torch.float64).reshape(4, 3).cos()
B = torch.arange(12.0, dtype=torch.float64).reshape(4, 3).sin()


def stacked(function, *batches):
    return torch.stack([function(*samples) for samples in zip(*batches)])


def test_dimensions():
    assert torch.allclose(torch.vmap(torch.dot)(A, B), (A * B).sum(1))
    assert torch.allclose(torch.vmap(torch.dot, in_dims=(1, None))(A, B[:, 0]), A.T @ B[:, 0])
    first, total = torch.vmap(lambda x: (x, x.sum()), out_dims=(-1, 0))(A)
    assert torch.equal(first, A.T) and torch.allclose(total, A.sum(1))
    assert torch.equal(torch.vmap(torch.vmap(torch.mul))(A, B), A * B)
    found = torch.vmap(lambda d, k: {"s": d["a"] * k}, in_dims=({"a": 1}, None))({"a": A}, 2)
    assert torch.equal(found["s"], A.T * 2)
    assert torch.vmap(lambda x: (x, 3), out_dims=(0, None))(A)[1] == 3
    assert torch.equal(torch.vmap(torch.sin, chunk_size=3)(A), A.sin())
    assert torch.equal(torch.vmap(lambda x, *, k: x * k)(A, k=B[0]), A * B[0])
    empty = torch.vmap(lambda x: torch.outer(x, x))(A[:0])
    assert empty.shape == (0, 3, 3) and empty.dtype == torch.float64
    assert torch.equal(torch.vmap(lambda x: torch.ones(2))(A), torch.ones(4, 2))
    assert torch.equal(torch.vmap(lambda x: torch.ones(2), out_dims=None)(A), torch.ones(2))


def test_results_with_names():
    found = torch.vmap(lambda x: x.max(0))(A)
    assert torch.equal(found.values, A.amax(1)) and torch.equal(found.indices, A.argmax(1))


def test_the_function_runs_once():
    calls = []
    torch.vmap(lambda x: calls.append(x.shape) or x * 2)(A)
    assert calls == [(3,)]


def test_a_sample_is_what_it_looks_like():
    def look(x):
        assert (x.shape, x.dim(), x.numel(), len(x), x.stride()) == ((3,), 1, 3, 3, (1,))
        return x[1:].flip(0).unsqueeze(0).expand(2, 2)

    assert torch.equal(torch.vmap(look)(A), A[:, 1:].flip(1)[:, None].expand(4, 2, 2))


def test_numbers_among_samples_keep_their_rank_of_dtype():
    numbers = torch.ones(4, dtype=torch.float64)
    assert torch.vmap(torch.add)(numbers, A.float()).dtype == torch.float32
    assert torch.vmap(torch.add, (0, None))(numbers, torch.ones((), dtype=torch.float32)).dtype == torch.float64
    assert torch.vmap(torch.add, (0, None))(torch.ones(4), torch.ones((), dtype=torch.float64)).dtype == torch.float64
    assert torch.vmap(lambda k, x: torch.where(x > 0, k, x))(numbers, A.float()).dtype == torch.float32


def test_with_other_transforms():
    def loss(w, x, y):
        return ((w @ x) - y) ** 2

    w = B[0]
    samples = func.vmap(func.grad(loss), in_dims=(None, 0, 0))(w, A, B[:, 0])
    assert torch.allclose(samples, 2 * (A @ w - B[:, 0])[:, None] * A)
    whole = func.grad(lambda w: func.vmap(loss, (None, 0, 0))(w, A, B[:, 0]).sum())(w)
    assert torch.allclose(whole, samples.sum(0))
    assert torch.allclose(func.vmap(func.jacrev(lambda x: x**2))(A), torch.diag_embed(2 * A))
    assert torch.allclose(func.vmap(func.jacfwd(lambda x: x**2))(A), torch.diag_embed(2 * A))
    assert torch.allclose(func.vmap(func.hessian(lambda x: (x**3).sum()))(A), torch.diag_embed(6 * A))
    _, back = func.vjp(torch.sin, A[0])
    assert torch.allclose(func.vmap(lambda v: back(v)[0])(torch.eye(3).double()), torch.diag(A[0].cos()))
    _, along = func.vmap(lambda x, t: func.jvp(torch.sin, (x,), (t,)))(A, B)
    assert torch.allclose(along, A.cos() * B)
    _, along = func.jvp(func.vmap(torch.sin), (A,), (B,))
    assert torch.allclose(along, A.cos() * B)


def test_gradients_pass_through_maps():
    leaf, weight = A.clone().requires_grad_(), B[0].clone().requires_grad_()
    out = func.vmap(lambda x: (x**2 * weight).sum())(leaf)
    out.sum().backward()  # long after vmap has ended
    assert torch.allclose(leaf.grad, 2 * A * weight) and torch.allclose(weight.grad, (A**2).sum(0))
    (first,) = torch.autograd.grad(func.vmap(torch.exp)(leaf).sum(), leaf, create_graph=True)
    assert torch.allclose(torch.autograd.grad(first.sum(), leaf)[0], A.exp())
    outer = func.vmap(lambda y: func.vmap(lambda x: (x * y * weight).sum())(leaf))(B)
    (found,) = torch.autograd.grad(outer.sum(), weight)
    assert torch.allclose(found, A.sum(0) * B.sum(0))


def test_jacobians_are_one_walk():
    walks = []

    class Watched(torch.autograd.Function):
        @staticmethod
        def forward(x):
            return x**2

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, grad):
            walks.append(grad.shape)
            return grad * 2 * ctx.saved_tensors[0]

    x = A[0].clone().requires_grad_()
    wanted = torch.diag(2 * A[0])
    assert torch.allclose(func.jacrev(Watched.apply)(A[0]), wanted) and walks == [(3,)]
    (found,) = torch.autograd.grad(Watched.apply(x), x, torch.eye(3).double(), is_grads_batched=True)
    assert torch.allclose(found, wanted) and len(walks) == 2
    found = torch.autograd.functional.jacobian(Watched.apply, x, vectorize=True)
    assert torch.allclose(found, wanted) and len(walks) == 3
    chunks = func.jacrev(Watched.apply, chunk_size=2)(A[0])
    assert torch.allclose(chunks, wanted) and len(walks) == 5


def test_ensembles():
    models = [torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.ReLU(), torch.nn.Linear(5, 2)) for _ in range(4)]
    parameters, buffers = func.stack_module_state(models)

    def call(parameters, buffers, x):
        return func.functional_call(models[0], (parameters, buffers), (x,))

    x = A.float()
    found = func.vmap(call, in_dims=(0, 0, None))(parameters, buffers, x)
    assert torch.allclose(found, torch.stack([model(x) for model in models]), atol=1e-6)
    found = func.vmap(call)(parameters, buffers, x)
    assert torch.allclose(found, stacked(lambda model, x: model(x), models, x), atol=1e-6)


def model_of(kind):
    torch.manual_seed(0)
    if kind == "convolution":
        layers = torch.nn.Conv2d(2, 4, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Flatten(0)
        return torch.nn.Sequential(*layers, torch.nn.Linear(36, 2)), torch.randn(3, 2, 6, 6), 1e-5
    if kind == "text":
        norm = torch.nn.LayerNorm(4)
        return (
            torch.nn.Sequential(torch.nn.Embedding(7, 4), norm, torch.nn.Linear(4, 2)),
            torch.arange(6).view(3, 2),
            1e-5,
        )
    if kind == "attention":
        return torch.nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True), torch.randn(3, 1, 5, 4), 1e-4
    return torch.nn.GRU(4, 3), torch.randn(3, 5, 4), 1e-5


@pytest.mark.parametrize("kind", ["convolution", "text", "attention", "recurrence"])
def test_gradients_of_each_sample(kind):
    model, x, close = model_of(kind)
    weights = {name: weight.detach() for name, weight in model.named_parameters()}

    def loss(weights, x):
        out = func.functional_call(model, weights, (x,))
        return ((out[0] if isinstance(out, tuple) else out) ** 2).sum()

    found = func.vmap(func.grad(loss), in_dims=(None, 0))(weights, x)
    for place, sample in enumerate(x):
        for name, wanted in func.grad(loss)(weights, sample).items():
            assert torch.allclose(found[name][place], wanted, atol=close), name
    many = {name: torch.stack([weight, weight + 0.1]) for name, weight in weights.items()}
    found = func.vmap(func.grad(loss), in_dims=(0, None))(many, x[0])
    for name, wanted in func.grad(loss)({name: weight[1] for name, weight in many.items()}, x[0]).items():
        assert torch.allclose(found[name][1], wanted, atol=close), name


def test_in_place():
    batch = A.clone()
    torch.vmap(lambda x: x.add_(1))(batch)
    assert torch.equal(batch, A + 1)

    def change(x, y):
        room = torch.zeros_like(x)
        room[1:] += y[:2]
        room.mul_(2)
        x[0] = y[2]
        return room

    batch = A.clone()
    room = torch.vmap(change)(batch, B)
    assert torch.equal(room[:, 1:], 2 * B[:, :2]) and torch.equal(batch[:, 0], B[:, 2])
    leaf = A.clone().requires_grad_()
    torch.vmap(lambda x: (x * 1).mul_(3)[1:].mul_(2).sum())(leaf).sum().backward()
    assert torch.equal(leaf.grad, torch.tensor([0.0, 6.0, 6.0]).double().expand(4, 3))


def test_indices_of_each_sample():
    places = torch.tensor([2, 0, 1, 2])
    assert torch.equal(torch.vmap(lambda x, i: x[i])(A, places), A[torch.arange(4), places])
    assert torch.equal(torch.vmap(lambda x, i: x[i], in_dims=(None, 0))(A, places), A[places])
    table = torch.arange(24.0).reshape(2, 3, 4)
    i, j = torch.tensor([[0, 1], [1, 1]]), torch.tensor([[3, 0], [2, 1]])
    found = torch.vmap(lambda i, j: table[i, :, j])(i, j)
    assert torch.equal(found, torch.stack([table[a, :, b] for a, b in zip(i, j)]))
    many = torch.stack([table, -table])
    found = torch.vmap(lambda x, i, j: x[i, :, j])(many, i, j)
    assert torch.equal(found, torch.stack([x[a, :, b] for x, a, b in zip(many, i, j)]))
    found = torch.vmap(lambda x: x[i, :, j])(many)
    assert torch.equal(found, torch.stack([x[i, :, j] for x in many]))


# torch 2.13's results with `torch.manual_seed(0)` for four samples of three zeros.
RANDOM = {
    "different": {
        "rand": [[0.4963, 0.7682], [0.0885, 0.1320], [0.3074, 0.6341], [0.4901, 0.8964]],
        "dropout": [[0.0, 0.0, 2.0], [0.0, 0.0, 0.0], [2.0, 2.0, 0.0], [2.0, 2.0, 2.0]],
        "uniform_": [
            [0.4963, 0.7682, 0.0885],
            [0.1320, 0.3074, 0.6341],
            [0.4901, 0.8964, 0.4556],
            [0.6323, 0.3489, 0.4017],
        ],
        "randperm": [[0, 1, 3, 2], [0, 2, 3, 1], [3, 2, 0, 1], [3, 0, 2, 1]],
        "bernoulli": [[1.0, 0.0, 1.0], [1.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 1.0]],
        "randint": [[4, 9], [3, 0], [3, 9], [7, 3]],
    },
    "same": {
        "rand": [[0.4963, 0.7682]] * 4,
        "dropout": [[0.0, 0.0, 2.0]] * 4,
        "uniform_": [[0.4963, 0.7682, 0.0885]] * 4,
        "randperm": [[0, 1, 3, 2]] * 4,
        "randint": [[4, 9]] * 4,
    },
}
DRAWS = {
    "rand": lambda x: torch.rand(2),
    "dropout": lambda x: torch.nn.functional.dropout(x + 1, 0.5),
    "uniform_": lambda x: (x * 1).uniform_(),
    "randperm": lambda x: torch.randperm(4),
    "bernoulli": lambda x: torch.bernoulli(x + 0.5),
    "randint": lambda x: torch.randint(0, 10, (2,)),
}


@pytest.mark.parametrize("way", RANDOM)
def test_random_numbers_are_torchs(way):
    for name, wanted in RANDOM[way].items():
        torch.manual_seed(0)
        found = torch.vmap(DRAWS[name], randomness=way)(torch.zeros(4, 3))
        assert torch.allclose(found.double(), torch.tensor(wanted).double(), atol=1e-4), name


def test_random_numbers_of_nested_maps():
    def draw(outer, inner):
        torch.manual_seed(0)
        return torch.vmap(torch.vmap(lambda x: torch.rand(()), randomness=inner), randomness=outer)(torch.zeros(2, 3))

    torch.manual_seed(0)
    six = torch.rand(6)
    assert torch.equal(draw("different", "different"), six.view(2, 3))
    assert torch.equal(draw("different", "same"), six[:2, None].expand(2, 3))
    assert torch.equal(draw("same", "different"), six[:3].expand(2, 3))
    for ways in ("error", "different"), ("different", "error"):
        with pytest.raises(RuntimeError, match="called random operation while in randomness error mode"):
            draw(*ways)


class Double(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x, factor):
        return x * factor

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        x, factor = ctx.saved_tensors
        return grad * factor, (grad * x).sum()


class Summed(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x.sum(-1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.size = inputs[0].shape[-1]

    @staticmethod
    def backward(ctx, grad):
        return grad[..., None].expand(*grad.shape, ctx.size)

    @staticmethod
    def vmap(info, in_dims, x):
        assert (info.batch_size, info.randomness) == (4, "error")
        return Summed.apply(x.movedim(in_dims[0], 0)), 0


def test_a_function_is_mapped_in_one_way():
    class Both(Summed):
        generate_vmap_rule = True

    with pytest.raises(
        RuntimeError, match="has both generate_vmap_rule=True and an overridden vmap staticmethod. Please"
    ):
        torch.vmap(Both.apply)(torch.ones(4, 2))


def test_functions_with_gradients_of_their_own():
    factor = torch.tensor(3.0, dtype=torch.float64, requires_grad=True)
    out = torch.vmap(lambda x: Double.apply(x, factor))(A)
    assert torch.allclose(out, 3 * A)
    assert torch.allclose(torch.autograd.grad(out.sum(), factor)[0], A.sum())
    leaf = A.clone().requires_grad_()
    out = torch.vmap(Summed.apply)(leaf)
    out.sum().backward()
    assert torch.allclose(out, A.sum(1)) and torch.equal(leaf.grad, torch.ones_like(A))
    assert torch.equal(torch.vmap(func.grad(lambda x: Summed.apply(x)))(A), torch.ones_like(A))


def test_exceptions_and_threads_leave_no_map_behind():
    with pytest.raises(ZeroDivisionError):
        torch.vmap(torch.vmap(lambda x: 1 / 0))(A)
    assert torch.rand(2).shape == (2,) and torch._C._vmap_levels() == []
    shapes = []

    def other():
        shapes.append(torch.rand(2).shape)

    def start(x):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        return x

    torch.vmap(start)(A)
    assert shapes == [(2,)]


def test_text():
    texts = []
    torch.vmap(torch.vmap(lambda x: texts.append(repr(x)) or x))(torch.tensor([[1.0, 2.0]]))
    assert texts == [
        "BatchedTensor(lvl=2, bdim=0, value=\n    BatchedTensor(lvl=1, bdim=0, value=\n        tensor([[1., 2.]])\n    )\n)"
    ]


ITEM = "vmap: It looks like you're calling .item() on a Tensor. We don't support vmap over calling .item() on a Tensor"
CHOICE = "vmap: It looks like you're attempting to use a Tensor in some data-dependent control flow."
POINTER = "Cannot access data pointer of Tensor that doesn't have storage"
STORAGE = "Cannot access storage of BatchedTensorImpl"
SHAPE = "vmap: We do not support batching operators that can output dynamic shape. Attempted to vmap over aten::"
TARGET = (
    "vmap: inplace arithmetic(self, *extra_args) is not possible because there exists a Tensor `other` in extra_args"
)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: x.sum().item(), ITEM),
        (lambda x: float(x.sum()), ITEM),
        (lambda x: int(x.sum()), ITEM),
        (lambda x: [1, 2, 3][x.long()[0]], ITEM),
        (lambda x: x if x.sum() > 0 else -x, CHOICE),
        (lambda x: x.sum().is_nonzero(), CHOICE),
        (lambda x: x.tolist(), POINTER),
        (lambda x: x.numpy(), POINTER),
        (lambda x: x.data_ptr(), POINTER),
        (lambda x: x.__dlpack__(), POINTER),
        (lambda x: x.untyped_storage(), STORAGE),
        (lambda x: torch.save(x, io.BytesIO()), STORAGE),
        (copy.deepcopy, STORAGE),
        (lambda x: x.nonzero(), f"{SHAPE}nonzero"),
        (lambda x: x.unique(), f"{SHAPE}_unique2"),
        (lambda x: x.masked_select(x > 0), "vmap: Attempted to vmap over `mask` in torch.masked_select(self, mask)"),
        (lambda x: x[x > 0], "vmap: We do not support batching operators that can support dynamic shape."),
        (lambda x: torch.zeros(3).double().copy_(x), TARGET),
        (lambda x: torch.zeros(3).double().__setitem__(0, x[0]), TARGET),
        (lambda x: torch.add(x, x, out=torch.empty(3)), "Batching rule not implemented for aten::add.out;"),
        (lambda x: torch.randn(3), "vmap: called random operation while in randomness error mode."),
        (lambda x: (x.sum()).backward(), "backward() called inside a functorch transform."),
    ],
)
def test_what_no_sample_may_decide(function, message):
    with pytest.raises((RuntimeError, NotImplementedError)) as raised:
        torch.vmap(function)(A.clone().requires_grad_() if "backward" in message else A)
    assert str(raised.value).startswith(message)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: torch.vmap(lambda x: x)(3), "Got in_dim=0 for an input but the input is of type <class 'int'>"),
        (lambda: torch.vmap(torch.add)(A, A[:2]), "Expected all tensors to have the same size in the mapped dimension"),
        (lambda: torch.vmap(torch.sin, in_dims=2)(A), "so expected in_dim to satisfy -2 <= in_dim < 2"),
        (lambda: torch.vmap(lambda: A)(), "got no inputs"),
        (lambda: torch.vmap(torch.sin, in_dims=None)(A), "expected `in_dims` to be int or a"),
        (lambda: torch.vmap(torch.sin, in_dims=(0, 0))(A), "in_dims is not compatible with the structure of `inputs`"),
        (lambda: torch.vmap(lambda x: 3)(A), "must only return Tensors, got type <class 'int'>"),
        (lambda: torch.vmap(lambda x: x, out_dims=None)(A), "can not return a BatchedTensor when out_dim is None"),
        (lambda: torch.vmap(torch.sin, out_dims=(0, 0))(A), "out_dims is not compatible with the structure"),
        (lambda: torch.vmap(torch.sin, chunk_size=0), "chunk_size should be None or greater than 0"),
    ],
)
def test_messages(call, message):
    with pytest.raises(ValueError) as raised:
        call()
    assert message in str(raised.value)


# The channels that torch 2.13 keeps with `torch.manual_seed(0)`, for three samples in order.
@pytest.mark.parametrize(
    ("name", "sizes", "kept"),
    [
        ("dropout1d", (4, 2), "0010 0011 0111"),
        ("dropout2d", (2, 4, 2), "00100011 01111011 11001010"),
        ("dropout3d", (2, 4, 1, 1, 2), "00100011 01111011 11001010"),
        ("feature_alpha_dropout", (2, 2, 2), "0010 0011 0111"),
    ],
)
def test_channels_are_dropped_in_each_sample(name, sizes, kept):
    dropout = getattr(torch.nn.functional, name)
    for way, wanted in (("different", kept.split()), ("same", kept.split()[:1] * 3)):
        torch.manual_seed(0)
        found = torch.vmap(lambda x: dropout(x, 0.5, training=True), randomness=way)(torch.ones(3, *sizes))
        channels = found.flatten(1, -2)
        assert ["".join("01"[int(one[0] > 0)] for one in sample) for sample in channels] == wanted
        assert torch.equal(found, found[..., :1].expand_as(found))


def test_slices_by_indices_of_each_sample():
    x, index, source = torch.rand(3, 4, 5), torch.tensor([[0, 2], [3, 3], [1, 0]]), torch.rand(3, 4, 2)
    before, _ = torch._C._vmap_fallbacks()
    for call in (
        lambda x, i, s: x.index_add(1, i, s, alpha=2),
        lambda x, i, s: (x + 0 * s[0, 0]).index_copy_(1, i % 2 + torch.tensor([0, 2]), s),
        lambda x, i, s: x.index_fill(0, i, 7),
        lambda x, i, s: x.index_select(1, i[0]) * s[:, :1],
        lambda x, i, s: x.masked_fill(x > 0.5, s[0, 0]),
        lambda x, i, s: (x + 0 * s[0, 0]).masked_fill_((x > 0.5)[0], s[0, 0]),
        lambda x, i, s: torch.nn.functional.one_hot(i, 4),
        func.grad(lambda x, i, s: (x.index_select(1, i) * s).sum()),
    ):
        expected = torch.stack([call(*sample) for sample in zip(x, index, source)])
        assert torch.allclose(func.vmap(call)(x, index, source), expected)
        shared = torch.stack([call(x[0], i, s) for i, s in zip(index, source)])
        assert torch.allclose(func.vmap(call, (None, 0, 0))(x[0], index, source), shared)
    assert torch._C._vmap_fallbacks()[0] == before
    with pytest.raises(RuntimeError, match="index 5 is out of bounds for dimension 1 with size 5"):
        func.vmap(lambda x, i, s: x.index_add(1, i + 2, s))(x, index, source)


def test_one_mask_for_all_samples_selects():
    x, mask = torch.arange(6.0).reshape(2, 3), torch.tensor([True, False, True])
    select = torch.func.vmap(lambda x, mask: x.masked_select(mask), in_dims=(0, None))
    assert select(x, mask).tolist() == [[0, 2], [3, 5]]
    assert select(x, torch.tensor([[True, False, False], [True, True, False]])).tolist() == [[0, 0, 1], [3, 3, 4]]
    assert select(x[:, 0], torch.tensor([True, False, True])).tolist() == [[0, 0], [3, 3]]
    x.requires_grad_()
    select(x, mask).sum().backward()
    assert x.grad.tolist() == [[1, 0, 1], [1, 0, 1]]


def test_a_tensor_that_outlives_its_vmap_is_refused():
    escaped = []
    torch.vmap(lambda x: (escaped.append(x), x * 2)[1])(A)
    (x,) = escaped
    assert x.shape == (3,) and x.dim() == 1 and not x.requires_grad and "tensor" in repr(x)
    with pytest.raises(RuntimeError, match="Cannot access data pointer of Tensor"):
        x.tolist()
    uses = [
        lambda: x + 1,
        x.sin,
        x.clone,
        lambda: x.view(3, 1),
        lambda: torch.ones(3).double() + x,
        lambda: x.mul_(2),
        lambda: torch.vmap(lambda y: y + x)(A),
    ]
    for use in uses:
        with pytest.raises(
            RuntimeError, match="^Either your tensor may have escaped from inside a function being vmapped"
        ):
            use()
    # Derivatives after the end of a vmap use what was saved inside.
    leaf = A.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(torch.vmap(lambda x: (x.sin() * x).sum())(leaf).sum(), leaf, create_graph=True)
    gradient.sum().backward()
    assert torch.allclose(leaf.grad, 2 * A.cos() - A * A.sin())


def test_samples_are_shown():
    seen = []

    def look(x):
        def inner(y):
            seen.extend([torch.func.debug_unwrap(y).shape, torch.func.debug_unwrap(y, recurse=False).shape])
            return y

        return torch.vmap(inner)(x)

    torch.vmap(look)(torch.ones(2, 3))
    assert seen == [(2, 3), (3,)]


def test_collections_that_hide_a_dimension_themselves_are_leaves():
    """Classes such as TensorDict are registered as containers, but their sizes change with a hidden dimension."""
    from rushlight.utils._pytree import register_pytree_node

    class Batch:
        def __init__(self, tensor, size):
            self.tensor, self.shape = tensor, torch.Size(size)

        def _add_batch_dim(self, *, in_dim, vmap_level):
            size = (*self.shape[:in_dim], *self.shape[in_dim + 1 :])
            return Batch(torch._C._functorch._add_batch_dim(self.tensor, in_dim, vmap_level), size)

        def _maybe_remove_batch_dim(self, funcname, *, vmap_level, batch_size, out_dim):
            tensor = torch._C._functorch._remove_batch_dim(self.tensor, vmap_level, batch_size, out_dim)
            return Batch(tensor, (*self.shape[:out_dim], batch_size, *self.shape[out_dim:]))

    register_pytree_node(Batch, lambda one: ([one.tensor], one.shape), lambda parts, size: Batch(parts[0], size))
    seen = []

    def function(batch, weight):
        seen.append((batch.shape, batch.tensor.shape))
        return Batch(batch.tensor * weight, batch.shape), batch.tensor.sum()

    doubled, total = torch.vmap(function, in_dims=(1, None))(Batch(torch.ones(3, 2, 4), (3, 2)), torch.tensor(2.0))
    assert seen == [((3,), (3, 4))] and doubled.shape == (2, 3)
    assert doubled.tensor.shape == (2, 3, 4) and total.tolist() == [12, 12]
    assert torch.vmap(lambda batch: batch.tensor)(Batch(torch.ones(2, 4), (2,))).shape == (2, 4)
    with pytest.raises(ValueError, match="Got in_dim=2 for some input, but that input is a Tensor of dimensionality 1"):
        torch.vmap(lambda batch: batch.tensor, in_dims=2)(Batch(torch.ones(2, 4), (2,)))
