"""Sparse tensors whose shape meets another one, or changes, and results that are given by `out=`."""

import pytest

import rushlight as torch


@pytest.mark.parametrize("sparse_dims", [1, 2])
@pytest.mark.parametrize("sizes", [(3,), (3, 1), (2, 3, 3), (2, 1, 1), (0, 3, 3), (1, 3, 3)])
def test_products_with_dense_tensors_broadcast(sparse_dims, sizes):
    own = torch.tensor([[1.0, 0.0, 2.0], [0.0, 0.0, 0.0], [0.0, 3.0, 0.0]])
    other = torch.arange(1.0, 1 + torch.Size(sizes).numel()).reshape(sizes)
    for found in (own.to_sparse(sparse_dims) * other, other * own.to_sparse(sparse_dims)):
        assert found.layout == torch.sparse_coo and torch.equal(found.to_dense(), own * other)
        if len(sizes) == 3:
            assert found.is_coalesced() and found.sparse_dim() == sparse_dims + 1


@pytest.mark.parametrize("part", [lambda x: x[:1], lambda x: x[:, :1], lambda x: x[0]])
def test_dimensions_of_one_element_are_repeated_in_products(part):
    own, other = part(torch.tensor([[2.0, 0.0, 1.0]] * 3)), torch.arange(9.0).reshape(3, 3)
    assert torch.equal((own.to_sparse() * other).to_dense(), own * other)


def test_products_of_sparse_tensors_broadcast_dense_dimensions():
    own, other = torch.ones(3, 2).to_sparse(1), torch.tensor([[1.0], [0.0], [3.0]]).to_sparse(1)
    assert (own * other).to_dense().tolist() == [[1, 1], [0, 0], [3, 3]]
    for wrong in (torch.ones(1, 2).to_sparse(1), torch.ones(2).to_sparse(1), torch.ones(3, 2).to_sparse(2)):
        with pytest.raises(
            RuntimeError, match=r"sparse_binary_op_intersection_cpu\(\): expects sparse inputs with equal"
        ):
            own * wrong


def test_compressed_tensors_do_not_broadcast():
    own = torch.eye(3).to_sparse_csr()
    with pytest.raises(
        RuntimeError, match=r"sparse_mask\(\): operands have incompatible sizes; self has size \[3\] but mask"
    ):
        own * torch.ones(3)


@pytest.mark.parametrize(
    ("call", "kind", "sentence"),
    [
        ("torch.norm(s, out=torch.empty(()))", NotImplementedError, "Could not run 'aten::norm.out'"),
        ("torch.norm(s, dtype=torch.float64)", ValueError, "dtype argument is not supported in frobenius norm"),
        (
            "torch.norm(s, 2, dtype=torch.float64)",
            RuntimeError,
            "norm_sparse currently does not support 'dtype' argument",
        ),
        ("s.norm(dtype=torch.float64)", ValueError, "dtype argument is not supported in frobenius norm"),
        (
            "torch.any(s, out=torch.empty((), dtype=torch.bool))",
            NotImplementedError,
            "Could not run 'aten::any.all_out'",
        ),
        ("torch.mv(s, torch.ones(3), out=torch.empty(3))", NotImplementedError, "Could not run 'aten::addmv.out'"),
        ("torch.sum(s, 0, out=torch.empty(3))", NotImplementedError, "Could not run 'aten::sum.IntList_out'"),
        ("torch.stack([s, s], out=torch.empty(2, 3, 3))", NotImplementedError, "Could not run 'aten::cat.out'"),
        (
            "torch.sin(s, out=torch.empty(3, 3))",
            RuntimeError,
            "Expected self.is_sparse() && result.is_sparse() to be true",
        ),
        ("torch.sin(torch.eye(3), out=s)", RuntimeError, "Expected self.is_sparse() && result.is_sparse() to be true"),
        (
            "torch.atan2(x, x, out=c)",
            NotImplementedError,
            "Could not run 'aten::atan2.out' with arguments from the 'SparseCsr",
        ),
        ("torch.norm(x, out=s)", NotImplementedError, "Could not run 'aten::linalg_vector_norm.out'"),
        ("torch.linalg.norm(c)", RuntimeError, "torch.empty: Only batched sparse compressed (non-block) tensors"),
        (
            "torch.linalg.norm(c, dim=0)",
            RuntimeError,
            "torch.empty: Only batched sparse compressed (non-block) tensors",
        ),
        (
            "torch.linalg.norm(c.long())",
            RuntimeError,
            "linalg.vector_norm: Expected a floating point or complex tensor",
        ),
        (
            "torch.linalg.vector_norm(c, dim=0, keepdim=True)",
            NotImplementedError,
            "Could not run 'aten::linalg_vector_norm.out'",
        ),
        ("torch.norm(c, 'nuc')", NotImplementedError, "Could not run 'aten::as_strided'"),
        ("torch.linalg.svdvals(c)", NotImplementedError, "Could not run 'aten::empty_strided'"),
        ("torch.eye(3, out=s)", NotImplementedError, "Could not run 'aten::eye.out'"),
        (
            "torch.eye(3, 3, out=c)",
            NotImplementedError,
            "Could not run 'aten::eye.m_out' with arguments from the 'SparseCsr",
        ),
        ("torch.rand(3, 3, out=s)", NotImplementedError, "Could not run 'aten::resize_'"),
        (
            "torch.rand(3, 3, out=c)",
            NotImplementedError,
            "Could not run 'aten::uniform_' with arguments from the 'SparseCsr",
        ),
        ("torch.range(0, 3, out=s)", RuntimeError, "layout Strided does not match layout of out parameter (Sparse)"),
        ("torch.range(0, 3, out=c)", RuntimeError, "layout Strided does not match layout of out parameter (SparseCsr)"),
        ("torch.arange(3, out=c)", NotImplementedError, "Could not run 'aten::arange.start_out'"),
        ("torch.randperm(3, out=c)", NotImplementedError, "Could not run 'aten::randperm.generator_out'"),
        ("torch.normal(x, 1.0, out=s)", NotImplementedError, "Could not run 'aten::normal.Tensor_float_out'"),
    ],
)
def test_refused_results(call, kind, sentence):
    made = {"torch": torch, "x": torch.eye(3), "s": torch.eye(3).to_sparse(), "c": torch.eye(3).to_sparse_csr()}
    with pytest.raises(kind) as found:
        eval(call, made)
    assert str(found.value).startswith(sentence)


@pytest.mark.parametrize("call", ["t_()", "transpose_(0, 1)", "swapaxes_(-1, 0)"])
def test_matrices_are_transposed_in_place(call):
    own = torch.tensor([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]])
    leaf = own.to_sparse().requires_grad_()
    made = leaf * 2
    assert eval(f"made.{call}", {"made": made}) is made
    assert made.shape == (3, 2) and torch.equal(made.to_dense(), own.t() * 2)
    torch.sparse.sum(made * torch.tensor([5.0, 7.0])).backward()
    assert leaf.grad.to_dense().tolist() == [[10, 0, 10], [0, 14, 0]]
    with pytest.raises(NotImplementedError, match="Could not run 'aten::as_strided_'"):
        own.to_sparse().unsqueeze_(0)
    with pytest.raises(
        RuntimeError, match="torch.transpose_: in-place transposition is not supported for SparseCsr layout"
    ):
        own.to_sparse_csr().t_()
