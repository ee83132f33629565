"""Optimizers with sparse gradients: torch's steps, its restrictions, and loading of states."""

import pytest
from sparse_cases import CASES, ENDS, ROUNDS, arrive, table

import rushlight as torch
import rushlight.nn.functional as F
from rushlight import optim


@pytest.mark.parametrize(("case", "end"), zip(CASES, ENDS), ids=lambda value: str(value)[:60])
def test_steps_with_sparse_gradients(case, end):
    assert arrive(torch, *case) == pytest.approx(end, abs=1e-9)


def gradient(weight, rows):
    weight.grad = None
    F.embedding(torch.tensor(rows), weight, sparse=True).sum().backward()


def test_a_state_goes_on():
    def run(interrupted):
        weight = table(torch)
        optimizer = optim.SparseAdam([weight], lr=0.1)
        for number, rows in enumerate(ROUNDS):
            if interrupted and number == 3:
                state, optimizer = optimizer.state_dict(), optim.SparseAdam([weight], lr=0.5)
                optimizer.load_state_dict(state)
            if rows:
                gradient(weight, rows)
                optimizer.step()
        return weight.tolist()

    assert run(True) == run(False)


def test_only_looked_up_rows_move():
    weight = table(torch)
    before = weight.detach().clone()
    optimizer = optim.SparseAdam([weight], lr=0.1)
    gradient(weight, [1, 3])
    optimizer.step()
    moved = (weight.detach() != before).any(1)
    assert moved.tolist() == [False, True, False, True, False]
    assert optimizer.state[weight]["step"] == 1
    assert optimizer.state[weight]["exp_avg"][0].tolist() == [0.0, 0.0]


REFUSED = [
    ("SGD", {"weight_decay": 0.1}, "add(sparse, dense) is not supported"),
    ("SGD", {"fused": True}, "does not support sparse gradients"),
    ("Adagrad", {"weight_decay": 0.1}, "weight_decay option is not compatible with sparse gradients"),
    ("Adagrad", {"fused": True}, "`fused` does not support sparse grad or complex param"),
    ("Adam", {}, "Adam does not support sparse gradients, please consider SparseAdam instead"),
]


@pytest.mark.parametrize(("name", "options", "sentence"), REFUSED, ids=lambda value: str(value)[:40])
def test_what_is_refused(name, options, sentence):
    weight = table(torch)
    optimizer = getattr(optim, name)([weight], lr=0.1, **options)
    gradient(weight, [1])
    with pytest.raises(RuntimeError) as error:
        optimizer.step()
    assert sentence in str(error.value)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"lr": 0.0}, "Invalid learning rate: 0.0"),
        ({"eps": 0.0}, "Invalid epsilon value: 0.0"),
        ({"betas": (1.0, 0.5)}, "Invalid beta parameter at index 0: 1.0"),
        ({"betas": (0.1, 1.5)}, "Invalid beta parameter at index 1: 1.5"),
    ],
)
def test_sparse_adam_checks_its_options(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        optim.SparseAdam([table(torch)], **options)


def test_sparse_adam_wants_dense_parameters_and_sparse_gradients():
    sparse = torch.eye(2).to_sparse().requires_grad_()
    with pytest.raises(ValueError, match=r"Sparse params at indices \[\[0, 1\]\]"):
        optim.SparseAdam([{"params": [table(torch), sparse]}])
    with pytest.raises(ValueError, match=r"Complex params at indices \[\[0, 0\]\]"):
        optim.SparseAdam([torch.ones(1, dtype=torch.complex64, requires_grad=True)])
    weight = table(torch)
    weight.sum().backward()
    with pytest.raises(RuntimeError, match="SparseAdam does not support dense gradients"):
        optim.SparseAdam([weight]).step()
    first, second = torch.ones(2, 1, requires_grad=True), torch.ones(2, 1, requires_grad=True)
    first.grad, second.grad = torch.eye(2)[:, :1].to_sparse(), torch.ones(2, 1)
    with pytest.raises(RuntimeError, match="SparseAdam does not support dense gradients"):
        optim.SparseAdam([first, second]).step()
    assert first.tolist() == [[1], [1]]


def test_zeroed_and_unscaled():
    weight = table(torch)
    optimizer = optim.SGD([weight], lr=0.1)
    gradient(weight, [1, 1])
    kept = weight.grad
    optimizer.zero_grad(set_to_none=False)
    assert weight.grad is kept and kept._nnz() == 0
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    scaler.scale(F.embedding(torch.tensor([1, 1]), weight, sparse=True).sum()).backward()
    scaler.unscale_(optimizer)
    assert weight.grad.to_dense()[1].tolist() == [2.0, 2.0]


def test_lbfgs_takes_sparse_gradients_as_dense_ones():
    def end(sparse):
        weight = table(torch)
        optimizer = torch.optim.LBFGS([weight], lr=0.5, max_iter=3)

        def loss():
            optimizer.zero_grad()
            looked_up = torch.nn.functional.embedding(torch.tensor([0, 2, 2, 4]), weight, sparse=sparse)
            loss = (looked_up**2).sum()
            loss.backward()
            return loss

        optimizer.step(loss)
        return weight.detach()

    assert torch.equal(end(True), end(False)) and not torch.equal(end(True), table(torch))
