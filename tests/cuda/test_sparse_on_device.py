"""Sparse tensors on the card made of software: results, layouts and gradients are those of the host, and lie on the card."""

from soft_card import needs_soft_card, run

pytestmark = needs_soft_card

#: `both(call)` runs a call with tensors of either device, and compares all that it returns.
BOTH = """
import copy, io, pickle
import rushlight.nn as nn
from rushlight.nn import functional as F
def flat(value):
    return [one for part in value for one in flat(part)] if isinstance(value, (list, tuple)) else [value]
def parts(x):
    if x.layout is torch.sparse_coo:
        return [x._indices(), x._values()] if x.is_coalesced() else [x.to_dense()]
    if x.layout in (torch.sparse_csr, torch.sparse_bsr):
        return [x.crow_indices(), x.col_indices(), x.values()]
    if x.layout in (torch.sparse_csc, torch.sparse_bsc):
        return [x.ccol_indices(), x.row_indices(), x.values()]
    return [x]
def both(call):
    for one, other in zip(flat(call("cpu")), flat(call("cuda")), strict=True):
        if not isinstance(one, torch.Tensor):
            assert one == other, (one, other)
            continue
        assert other.device.type == "cuda" and one.layout == other.layout and one.shape == other.shape
        for part, there in zip(parts(one), parts(other), strict=True):
            assert there.device.type == "cuda"
            torch.testing.assert_close(part, there.cpu())
def coo(device, dtype=torch.float32):
    return torch.sparse_coo_tensor([[0, 1, 1, 0], [2, 0, 2, 2]], [3.0, 4.0, 5.0, 7.0], (2, 3), device=device, dtype=dtype)
def csr(device):
    return torch.sparse_csr_tensor([0, 1, 3], [2, 0, 2], [3.0, 4.0, 5.0], (2, 3), device=device)
def dense(device, *sizes):
    return torch.arange(6.0, device=device).reshape(sizes or (3, 2))
"""


def test_they_are_made_moved_and_converted():
    run(
        BOTH
        + """
both(lambda d: [coo(d), coo("cpu").to(d), csr(d), csr("cpu").to(d), coo(d).double(), csr(d).half()])
both(lambda d: torch.sparse_coo_tensor(torch.tensor([[0, 4]], device=d), torch.ones(2, 3, device=d)))
both(lambda d: torch.sparse_csr_tensor([0, 1, 3], [2, 0, 2], [3.0, 4.0, 5.0], device=d))
both(lambda d: torch.sparse_coo_tensor((2, 3), device=d))
both(lambda d: [coo(d).coalesce(), coo(d).coalesce().values(), coo(d).to_dense(), csr(d).to_dense()])
both(lambda d: [coo(d).is_coalesced(), coo(d).coalesce().is_coalesced(), csr(d).to_sparse().is_coalesced(), coo(d)._nnz()])
both(lambda d: [coo(d).to_sparse_csr(), coo(d).to_sparse_csc(), csr(d).to_sparse(), csr(d).to_sparse_csc().to_sparse_csr()])
both(lambda d: [dense(d).to_sparse(), dense(d).to_sparse(1), dense(d).to_sparse_csr(), dense(d).to_sparse_csc()])
both(lambda d: [dense(d, 2, 3).repeat(1, 2).to_sparse_bsr((2, 3)), torch.eye(4, device=d).to_sparse_bsc((2, 2))])
both(lambda d: torch.eye(4, device=d).expand(2, 4, 4).to_sparse_csr())
for x in (coo("cuda"), csr("cuda")):
    home = x.cpu()
    assert home.device.type == "cpu" and torch.equal(home.to_dense(), x.to_dense().cpu())
    for other in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x)):
        assert other.device == x.device and torch.equal(other.to_dense(), x.to_dense())
    file = io.BytesIO()
    torch.save(x, file)
    for where in ("cuda", "cpu"):
        file.seek(0)
        loaded = torch.load(file, map_location=where)
        assert loaded.device.type == where and loaded.layout == x.layout
assert torch.ones(1, 1, device="cuda").to_sparse().item() == 1.0
# Rows that a program has overwritten.
for place, value in ((0, -1), (0, 1), (1, 100), (2, 0), (-1, 2), (-1, 9)):
    x = csr("cuda")
    x.crow_indices()[place] = value
    try:
        x @ dense("cuda")
        raise AssertionError((place, value))
    except RuntimeError as error:
        assert "no longer describe a sparse tensor" in str(error)
# What was coalesced already shares no memory with what is made of it.
x = coo("cuda").coalesce()
x.to_sparse_csr().values().zero_()
assert x.values().count_nonzero() == 3
"""
    )


def test_they_are_multiplied_and_their_gradients_are_sparse():
    run(
        BOTH
        + """
def product(make, multiply):
    def call(d):
        matrix, other = make(d).requires_grad_(), dense(d).requires_grad_()
        result = multiply(matrix, other)
        result.square().sum().backward()
        return [result, matrix.grad, other.grad]
    return call
for make in (coo, csr):
    both(product(make, torch.sparse.mm))
    both(product(make, torch.matmul))
    both(lambda d: [make(d) @ dense(d)[:, 0], dense(d) @ make(d), make(d).t() @ dense(d, 2, 3)])
    both(lambda d: torch.addmm(torch.ones(2, 2, device=d), make(d), dense(d), beta=0.5, alpha=2))
both(lambda d: coo(d) @ dense(d).to_sparse())
both(lambda d: csr(d) @ dense(d).to_sparse_csr())
both(lambda d: torch.bmm(coo(d).to_dense().expand(2, 2, 3).to_sparse(), dense(d).expand(2, 3, 2)))
both(lambda d: torch.sparse.sampled_addmm(csr(d), torch.ones(2, 4, device=d), torch.ones(4, 3, device=d)))
both(lambda d: [torch.sparse.mm(csr(d), dense(d), reduce) for reduce in ("sum", "mean", "amax", "amin")])
both(lambda d: torch.hspmm(coo(d), dense(d)))
def chains(d):
    weights = torch.tensor([1.0, 2.0, 3.0, 4.0], device=d, requires_grad=True)
    made = torch.sparse_coo_tensor(torch.tensor([[0, 1, 1, 0], [2, 0, 2, 2]], device=d), weights, (2, 3))
    (made.to_dense() * dense(d, 2, 3)).sum().backward()
    host = coo("cpu").requires_grad_()
    host.to(d).to_dense().sum().backward()
    assert host.grad.device.type == "cpu"
    x = dense(d).requires_grad_()
    (x.to_sparse() * 2).sum().backward()
    return weights.grad, x.grad
both(chains)
"""
    )


def test_other_operators():
    run(
        BOTH
        + """
for make in (coo, csr):
    both(lambda d: [make(d) * 2, make(d) / 2, -make(d), make(d).abs(), make(d).sqrt(), make(d).sum(), make(d).clone()])
    # As in torch, a GPU adds entries with equal indices when it coalesces a sum.
    both(lambda d: [(make(d) + make(d)).to_dense(), (make(d) - make(d)).to_dense()])
    both(lambda d: [make(d) * make(d), make(d) * dense(d, 2, 3)])
    both(lambda d: [dense(d, 2, 3) + make(d), dense(d, 2, 3).add_(make(d)), torch.zeros_like(make(d))])
    both(lambda d: [make(d).t(), make(d)[0], make(d)[1], make(d).mul_(2), make(d).copy_(make("cpu")), make(d).zero_()])
    both(lambda d: dense(d, 2, 3).sparse_mask(make(d).coalesce() if make is coo else make(d)))
both(lambda d: [torch.sparse.sum(coo(d)), torch.sparse.sum(coo(d), 0), torch.sparse.sum(coo(d), 1), coo(d).sum(0), coo(d).norm()])
both(lambda d: [torch.sparse.softmax(coo(d), 1), torch.sparse.log_softmax(coo(d), 0)])
both(lambda d: [coo(d).narrow(1, 0, 2), coo(d).index_select(1, torch.tensor([2, 0], device=d)), coo(d).unsqueeze(0)])
both(lambda d: [torch.cat([coo(d), coo(d)]), torch.stack([coo(d), coo(d)]), coo(d).permute(1, 0)])
both(lambda d: coo(d).coalesce().sparse_mask(dense(d, 2, 3).to_sparse()))
both(lambda d: torch.sparse.spdiags(torch.ones(2, 3, device=d), torch.tensor([0, 1], device=d), (3, 3)))
"""
    )


def test_embeddings_and_graph_networks_learn():
    run(
        BOTH
        + """
def words(make_optimizer):
    def call(d):
        torch.manual_seed(0)
        table = nn.Embedding(10, 3, sparse=True).to(d)
        bag = nn.EmbeddingBag(10, 3, mode="sum", sparse=True).to(d)
        optimizer = make_optimizer([table.weight, bag.weight])
        for first in range(3):
            optimizer.zero_grad()
            words = torch.tensor([[1, 2, 1], [first, 4, 9]], device=d)
            # Two uses of one table, whose sparse gradients are added.
            (table(words).sum(1) * bag(words) + table(words[:, 0])).square().sum().backward()
            assert table.weight.grad.is_sparse and table.weight.grad.device.type == d
            optimizer.step()
        return table.weight.detach(), bag.weight.detach(), table.weight.grad.coalesce()
    return call
both(words(torch.optim.SparseAdam))
both(words(lambda weights: torch.optim.SGD(weights, 0.01)))
both(words(lambda weights: torch.optim.SGD(weights, 0.01, momentum=0.9)))
both(words(lambda weights: torch.optim.Adagrad(weights, 0.01)))
def graph(layout):
    def call(d):
        torch.manual_seed(1)
        first, second = nn.Linear(3, 4).to(d), nn.Linear(4, 2).to(d)
        optimizer = torch.optim.Adam([*first.parameters(), *second.parameters()], 0.05)
        edges = (torch.rand(6, 6) < 0.4).float().to_sparse(layout=layout).to(d)
        x, labels = torch.randn(6, 3).to(d), torch.tensor([0, 1, 0, 1, 0, 1], device=d)
        for _ in range(3):
            optimizer.zero_grad()
            F.cross_entropy(second(edges @ torch.relu(edges @ first(x))), labels).backward()
            optimizer.step()
        return list(first.state_dict().values()) + list(second.state_dict().values())
    return call
both(graph(torch.sparse_coo))
both(graph(torch.sparse_csr))
"""
    )


def test_text_and_errors():
    shown = run(
        BOTH
        + """
print(coo("cuda"))
print(csr("cuda"))
print(coo("cuda").type())
for call in (
    lambda: torch.sparse_coo_tensor([[5]], [1.0], (3,), device="cuda"),
    lambda: torch.sparse_coo_tensor([[-1]], [1.0], (3,), device="cuda"),
    lambda: torch.sparse_csr_tensor([0, 2, 1], [0], [1.0], (2, 2), device="cuda"),
    lambda: coo("cuda") @ dense("cpu"),
    lambda: coo("cuda") + coo("cpu"),
    lambda: coo("cuda").exp(),
    lambda: torch.sparse.spsolve(csr("cuda"), dense("cuda")[:, 0]),
):
    try:
        call()
    except Exception as error:
        print(f"{type(error).__name__}: {str(error).splitlines()[0]}".partition(" This could")[0])
# Indices that a program overwrites are found when they are read.
x = coo("cuda").coalesce()
x.indices()[1, 0] = 7
for call in (x.to_dense, lambda: x @ dense("cuda")):
    try:
        call()
        print("not found")
    except Exception as error:
        pass
"""
    )
    assert shown.splitlines() == [
        "tensor(indices=tensor([[0, 1, 1, 0],",
        "                       [2, 0, 2, 2]]),",
        "       values=tensor([3., 4., 5., 7.]),",
        "       device='cuda:0', size=(2, 3), nnz=4, layout=torch.sparse_coo)",
        "tensor(crow_indices=tensor([0, 1, 3]),",
        "       col_indices=tensor([2, 0, 2]),",
        "       values=tensor([3., 4., 5.]), device='cuda:0', size=(2, 3), nnz=3,",
        "       layout=torch.sparse_csr)",
        "torch.cuda.sparse.FloatTensor",
        "RuntimeError: size is inconsistent with indices: for dim 0, size is 3 but found index 5",
        "RuntimeError: found negative index -1 for dim 0",
        "RuntimeError: `0 <= crow_indices[..., 1:] - crow_indices[..., :-1] <= ncols` is not satisfied.",
        "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!",
        "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!",
        "NotImplementedError: Could not run 'aten::exp' with arguments from the 'SparseCUDA' backend.",
        "NotImplementedError: Could not run 'aten::_spsolve' with arguments from the 'SparseCsrCUDA' backend.",
    ]
