"""Functions of cut tensors: changes in place, results in given memory, names of arguments, and gradients."""

import copy
import io

import pytest

import rushlight as torch
from rushlight import distributed as dist
from rushlight.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from rushlight.nn import functional as F


def _whole():
    return torch.arange(1.0, 21.0).reshape(4, 5)


def _lying(mesh):
    """The same tensor in several layouts."""
    x = _whole()
    return [
        distribute_tensor(x, mesh, [Shard(0)]),
        distribute_tensor(x, mesh, [Shard(1)]),
        distribute_tensor(x, mesh, [Replicate()]),
        DTensor.from_local(x / 2, mesh, [Partial()]),
    ]


def _gradients(rank):
    mesh = dist.init_device_mesh("cpu", (2,))
    x = _whole().requires_grad_()
    for given in _lying(mesh):
        part = given.detach().requires_grad_()
        wanted = (Replicate(),) if part.placements[0].is_partial() else part.placements
        (grad,) = torch.autograd.grad((part**3).sum(), part, create_graph=True)
        assert grad.placements == wanted
        torch.testing.assert_close(grad.full_tensor(), (3 * x**2).detach())
        if not part.placements[0].is_partial():
            (second,) = torch.autograd.grad(grad.sum(), [part])
            torch.testing.assert_close(second.full_tensor(), (6 * x).detach())
        weight = distribute_tensor(_whole(), mesh, [Shard(1)])
        (grad,) = torch.autograd.grad(part * part, part, weight)
        torch.testing.assert_close(grad.full_tensor(), (2 * x * x).detach())
        other = torch.ones(2, requires_grad=True)
        assert torch.autograd.grad((part * part).sum(), (part, other), allow_unused=True)[1] is None
        with pytest.raises(RuntimeError, match="appears to not have been used in the graph"):
            torch.autograd.grad(other.sum(), part)


def test_gradients(ranks):
    ranks(_gradients, 2)


def _set_row(x):
    x[0] = 100.0


def _set_rows(x):
    x[1:3] = x[0:2] * 2


def _set_column(x):
    x[:, 1] = torch.tensor(7.0)


def _set_some(x):
    x[x > 5] = 0.0


def _power(x):
    x **= 2


def _quotient(x):
    x //= 2


def _rest(x):
    x %= 3


def _or(x):
    x |= 9


def _and(x):
    x &= 6


def _xor(x):
    x ^= 5


def _left(x):
    x <<= 2


def _right(x):
    x >>= 1


def _relu(x):
    F.relu(x.sub_(7), inplace=True)


def _dropout(x):
    F.dropout(x, 1.0, inplace=True)


def _changes(rank):
    mesh = dist.init_device_mesh("cpu", (2,))
    for change, dtype in (
        *((one, torch.float32) for one in (_set_row, _set_rows, _set_column, _set_some, _power, _quotient, _rest)),
        *((one, torch.float32) for one in (_relu, _dropout)),
        *((one, torch.int64) for one in (_set_row, _or, _and, _xor, _left, _right)),
    ):
        expected = _whole().to(dtype)
        change(expected)
        for given in _lying(mesh):
            part = (
                given.to(dtype) if dtype.is_floating_point else distribute_tensor(_whole().to(dtype), mesh, [Shard(1)])
            )
            part = part.clone()
            memory, lies = part.to_local().data_ptr(), part.placements
            change(part)
            assert part.placements == lies and part.to_local().data_ptr() == memory
            torch.testing.assert_close(
                part.full_tensor(), expected, msg=lambda text, change=change: f"{change}: {text}"
            )
    leaf = distribute_tensor(_whole(), mesh, [Shard(0)]).requires_grad_()
    part = leaf.clone()
    part[1] = 0.0
    part **= 2
    part.sum().backward()
    wanted = 2 * _whole()
    wanted[1] = 0.0
    torch.testing.assert_close(leaf.grad.full_tensor(), wanted)


def test_changes_in_place(ranks):
    ranks(_changes, 2)


def _given_memory(rank):
    mesh = dist.init_device_mesh("cpu", (2,))
    x = _whole()
    for given in _lying(mesh):
        for out in _lying(mesh):
            assert torch.add(given, given, out=out) is out
            torch.testing.assert_close(out.full_tensor(), x + x)
    rows, columns = _lying(mesh)[:2]
    out = distribute_tensor(torch.zeros(4, 4), mesh, [Shard(1)])
    torch.testing.assert_close(torch.mm(rows, columns.t(), out=out).full_tensor(), x @ x.t())
    places = distribute_tensor(torch.zeros(4, dtype=torch.int64), mesh, [Shard(0)])
    values = distribute_tensor(torch.zeros(4), mesh, [Replicate()])
    torch.max(rows, 1, out=(values, places))
    assert values.full_tensor().tolist() == [5.0, 10.0, 15.0, 20.0] and places.full_tensor().tolist() == [4] * 4
    with pytest.raises(NotImplementedError, match="a DTensor keeps its shape"):
        torch.add(rows, rows, out=out)
    with pytest.raises(RuntimeError, match="result type Float can't be cast to the desired output type Long"):
        torch.add(rows, rows, out=distribute_tensor(torch.zeros(4, 5, dtype=torch.int64), mesh, [Shard(0)]))
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        torch.add(rows.requires_grad_(), 1, out=columns)
    with pytest.raises(RuntimeError, match="got mixed torch.Tensor and DTensor"):
        torch.add(columns, columns, out=torch.zeros(4, 5))


def test_results_in_given_memory(ranks):
    ranks(_given_memory, 2)


#: Calls of which the names of arguments, or dimensions, are written otherwise than usual.
CALLS = [
    lambda a: torch.sum(a, axis=0),
    lambda a: a.sum(axis=1, keepdims=True),
    lambda a: a.sum(dim=[]),
    lambda a: torch.sum(a, [], True),
    lambda a: torch.amax(a, dim=()),
    lambda a: torch.any(a > 3, dim=[]),
    lambda a: a.mean(axis=1),
    lambda a: torch.argmax(a, axis=1),
    lambda a: torch.max(a, axis=0).indices,
    lambda a: torch.max(a, other=-a),
    lambda a: torch.mul(input=a, other=a),
    lambda a: torch.cumsum(a, axis=0),
    lambda a: torch.permute(a, dims=(1, 0)),
    lambda a: a.permute(dims=(1, 0)),
    lambda a: a.permute([1, 0]),
    lambda a: torch.swapaxes(a, axis0=0, axis1=1),
    lambda a: torch.cat(tensors=[a, a], axis=0),
    lambda a: torch.stack([a, a], axis=1),
    lambda a: torch.mm(input=a, mat2=a.t()),
    lambda a: torch.matmul(a, other=a.t()),
    lambda a: a.view(torch.int32),
    lambda a: a.view(dtype=torch.uint8),
    lambda a: torch.where(a > 3)[1],
    lambda a: F.linear(torch.ones_like(a), a, a[:1, 0]),
    lambda a: F.scaled_dot_product_attention(*[a.reshape(1, 2, 2, 5)] * 3, None, 0.0, True),
]


def _calls(rank):
    mesh = dist.init_device_mesh("cpu", (2,))
    for number, call in enumerate(CALLS):
        expected = call(_whole())
        for part in _lying(mesh):
            found = call(part)
            assert found.shape == expected.shape, (number, part.placements)
            torch.testing.assert_close(
                found.full_tensor(), expected, msg=lambda text, where=(number, part.placements): f"{where}: {text}"
            )
    rows = _lying(mesh)[0]
    assert rows.sum(axis=0).placements == (Partial(),) and rows.view(torch.int32).placements == (Shard(0),)
    assert rows.type() == "torch.FloatTensor" and rows.type(torch.int64).placements == (Shard(0),)
    for number in (4, -5):
        with pytest.raises(AssertionError, match="Padding_idx must be within num_embeddings"):
            F.embedding(distribute_tensor(torch.arange(4), mesh, [Replicate()]), rows, number)


def test_names_of_arguments(ranks):
    ranks(_calls, 2)


def _objects(rank):
    mesh = dist.init_device_mesh("cpu", (2,))
    for part in _lying(mesh):
        copied = copy.copy(part)
        assert copied.placements == part.placements
        assert copied.to_local().data_ptr() == part.to_local().data_ptr()
        part.data = distribute_tensor(torch.ones(6, 3), mesh, [Shard(1)])
        assert part.shape == (6, 3) and torch.equal(part.full_tensor(), torch.ones(6, 3))
        with pytest.raises(RuntimeError, match="this rank's part has the shape"):
            part.data = torch.ones(7)
        with pytest.raises(TypeError, match=r"len\(\) of a 0-d tensor"):
            len(part.sum())
    for part in _lying(mesh):
        file = io.BytesIO()
        torch.save({"part": part}, file)
        file.seek(0)
        found = torch.load(file, weights_only=True)["part"]
        assert found.placements == part.placements and found.device_mesh == mesh
        assert torch.equal(found.full_tensor(), part.full_tensor())
    assert isinstance(copy.copy(torch.nn.Parameter(_lying(mesh)[0])), torch.nn.Parameter)
    for arguments, error, text in (
        ((), RuntimeError, "No device mesh is currently active!"),
        (
            (mesh, [0]),
            RuntimeError,
            "Trying to distribute tensor with unsupported placements 0 on device mesh dimension 0!",
        ),
        ((mesh, [Shard(2)]), AssertionError, "Sharding dim 2 greater than tensor ndim 2"),
    ):
        with pytest.raises(error, match=text):
            distribute_tensor(_whole(), *arguments)
    with pytest.raises(TypeError, match="expected a placement, but got 0"):
        DTensor.from_local(_whole(), mesh, [0])


def test_objects(ranks):
    ranks(_objects, 2)
