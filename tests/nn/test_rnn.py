"""Sequences of different lengths: packed and padded sequences give the results of single sequences."""

import pytest

import rushlight as torch
from rushlight import nn
from rushlight.nn.utils import rnn
from rushlight.utils._python_dispatch import TorchDispatchMode

LENGTHS = [2, 5, 1, 4]


def sequences(dtype=torch.float64):
    torch.manual_seed(0)
    return [torch.randn(length, 3, dtype=dtype) for length in LENGTHS]


def test_packing_and_padding():
    given = sequences()
    packed = rnn.pack_sequence(given, enforce_sorted=False)
    assert packed.batch_sizes.tolist() == [4, 3, 2, 2, 1]
    assert packed.sorted_indices.tolist() == [1, 3, 0, 2] and packed.unsorted_indices.tolist() == [2, 0, 3, 1]
    assert torch.equal(packed.data[:4], torch.stack([given[place][0] for place in (1, 3, 0, 2)]))
    padded, lengths = rnn.pad_packed_sequence(packed, batch_first=True, padding_value=-1.0, total_length=7)
    assert padded.shape == (4, 7, 3) and lengths.tolist() == LENGTHS
    assert padded[2, 1:].eq(-1).all() and torch.equal(padded[1, :5], given[1])
    for back, sequence in zip(rnn.unpack_sequence(packed), given):
        assert torch.equal(back, sequence)
    left = rnn.pad_sequence(given, batch_first=True, padding_side="left")
    assert torch.equal(left[0, -2:], given[0]) and left[0, :-2].eq(0).all()
    assert packed.float().data.dtype == torch.float32 and packed.double() is packed


@pytest.mark.parametrize("options", [{}, {"num_layers": 2, "bidirectional": True}, {"bias": False}])
@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_packed_sequences_are_alone(kind, options):
    layer = getattr(nn, kind)(3, 4, dtype=torch.float64, **options)
    given = [sequence.requires_grad_() for sequence in sequences()]
    output, state = layer(rnn.pack_sequence(given, enforce_sorted=False))
    parts = rnn.unpack_sequence(output)
    state = state if kind == "LSTM" else (state,)
    for place, sequence in enumerate(given):
        alone, last = layer(sequence)
        assert torch.allclose(parts[place], alone)
        for part, own in zip(state, last if kind == "LSTM" else (last,)):
            assert torch.allclose(part[:, place], own)
    sum(part.pow(2).sum() for part in parts).backward()
    packed_grads = [sequence.grad.clone() for sequence in given]
    for sequence, packed_grad in zip(given, packed_grads):
        sequence.grad = None
        layer(sequence)[0].pow(2).sum().backward()
        assert torch.allclose(packed_grad, sequence.grad)


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_a_state_goes_on(kind):
    layer = getattr(nn, kind)(3, 4, dtype=torch.float64)
    x = sequences()[1]
    whole, last = layer(x)
    first, state = layer(x[:2])
    second, end = layer(x[2:], state)
    assert torch.allclose(torch.cat([first, second]), whole)
    last, end = (last, end) if kind == "LSTM" else ((last,), (end,))
    assert all(torch.allclose(a, b) for a, b in zip(last, end))


@pytest.mark.parametrize("kind, last", [("RNNCell", "ih"), ("LSTMCell", "ih"), ("GRUCell", "hh")])
def test_gradients_of_a_cell_arrive_in_torchs_order(kind, last):
    cell, seen = getattr(nn, kind)(3, 2), []
    for name, parameter in cell.named_parameters():
        parameter.register_post_accumulate_grad_hook(lambda _, name=name: seen.append(name))
    out = cell(torch.ones(1, 3))
    (out[0] if kind == "LSTMCell" else out).sum().backward()
    first = "hh" if last == "ih" else "ih"
    assert seen == [f"bias_{last}", f"weight_{last}", f"bias_{first}", f"weight_{first}"]


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_cells_are_steps(kind):
    layer = getattr(nn, kind)(3, 4, dtype=torch.float64)
    cell = getattr(nn, kind + "Cell")(3, 4, dtype=torch.float64)
    cell.load_state_dict({name.removesuffix("_l0"): value for name, value in layer.state_dict().items()})
    x = sequences()[1]
    state, outputs = None, []
    for step in x:
        state = cell(step, state)
        outputs.append(state[0] if kind == "LSTM" else state)
    assert torch.allclose(torch.stack(outputs), layer(x)[0])


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_gradients(kind):
    layer = getattr(nn, kind)(2, 2, dtype=torch.float64)
    x = torch.randn(3, 2, 2, dtype=torch.float64, requires_grad=True)
    weights = list(layer.parameters())
    assert torch.autograd.gradcheck(lambda x, *_: layer(x)[0], (x, *weights))


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: nn.LSTM(3, 4)(torch.ones(2, 2, 5)), RuntimeError, "input.size\\(-1\\) must be equal to input_size"),
        (lambda: nn.LSTM(3, 4)(torch.ones(2)), ValueError, "LSTM: Expected input to be 2D or 3D, got 1D instead"),
        (
            lambda: nn.GRU(3, 4)(torch.ones(2, 2, 3).double()),
            ValueError,
            "RNN input dtype .* does not match weight dtype",
        ),
        (
            lambda: nn.GRU(3, 4)(torch.ones(2, 2, 3), torch.ones(1, 3, 4)),
            RuntimeError,
            "Expected hidden size \\(1, 2, 4\\)",
        ),
        (lambda: nn.GRU(3, 4, proj_size=2), ValueError, "proj_size argument is only supported for LSTM"),
        (lambda: nn.RNN(3, 4, nonlinearity="x"), ValueError, "Unknown nonlinearity 'x'. Select from 'tanh' or 'relu'"),
        (lambda: nn.LSTM(3, 0), ValueError, "hidden_size must be greater than zero"),
        (lambda: nn.LSTM(3, 4, 2, dropout="a"), ValueError, "could not convert string to float: 'a'"),
        (lambda: nn.LSTM(3, 4, 2, dropout=None), TypeError, "float\\(\\) argument must be a string or a real number"),
        (
            lambda: nn.GRUCell(3, 4)(torch.ones(2, 5)),
            RuntimeError,
            "input has inconsistent input_size: got 5 expected 3",
        ),
        (lambda: rnn.pack_padded_sequence(torch.ones(3, 2), [2, 3]), RuntimeError, "`lengths` array must be sorted"),
        (lambda: rnn.pack_padded_sequence(torch.ones(3, 2), [3, 0]), RuntimeError, "Length of all samples has to be"),
        (
            lambda: rnn.pack_padded_sequence(torch.ones(3, 2), [9, 1]),
            RuntimeError,
            "Expected the lengths to be at most 3",
        ),
        (lambda: rnn.pad_sequence([]), RuntimeError, "received an empty list of sequences"),
    ],
)
def test_bad_calls(call, kind, message):
    with pytest.raises(kind, match=message):
        call()


@pytest.mark.parametrize("kind", [nn.RNN, nn.GRU, nn.LSTM])
def test_a_deleted_weight_is_missed_by_its_name(kind):
    module = kind(3, 4)
    del module.weight_hh_l0
    with pytest.raises(AttributeError, match=f"^'{kind.__name__}' object has no attribute 'weight_hh_l0'"):
        module(torch.ones(2, 1, 3))


@pytest.mark.parametrize("kind", [nn.RNN, nn.GRU, nn.LSTM])
def test_subclasses_see_the_states_pass(kind):
    class Watched(kind):
        def permute_hidden(self, hx, permutation):
            seen.append(permutation if permutation is None else permutation.tolist())
            return super().permute_hidden(hx, permutation)

    module, x = Watched(3, 4), torch.ones(2, 1, 3)
    for given, expected in ((False, [None]), (True, [None, None])):
        seen = []
        state = module(x)[1]
        seen.clear()
        module(x, *[state] * given)
        assert seen == expected
    seen.clear()
    module(rnn.pack_sequence(sequences(torch.float32), enforce_sorted=False))
    assert seen == [[2, 0, 3, 1]]


def test_a_cell_takes_a_pair_of_states():
    sentence = r"lstm_cell\(\): argument 'hx' \(position 2\) must be tuple of Tensors, not Tensor"
    with pytest.raises(TypeError, match=sentence):
        nn.LSTMCell(3, 4)(torch.rand(2, 3), torch.rand(2, 4))
    # The rows of one tensor are the pair where torch takes them apart first.
    cell, x, rows = nn.LSTMCell(3, 4), torch.rand(3), torch.rand(2, 4)
    assert torch.equal(cell(x, rows)[0], cell(x, (rows[0], rows[1]))[0])
    with pytest.raises(ValueError, match=r"^LSTMCell: Expected hx\[0\] to be 1D or 2D, got 0D instead"):
        cell(torch.rand(2, 3), torch.rand(4))


@pytest.mark.parametrize("exception", [ValueError, KeyboardInterrupt])
def test_exceptions_of_handlers_pass(exception):
    calls, last = 0, None

    class Raises(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            nonlocal calls
            calls += 1
            if calls == last:
                raise exception("stop")
            return func(*args, **(kwargs or {}))

    lstm, x = nn.LSTM(2, 3), torch.ones(4, 1, 2)
    with Raises():
        lstm(x)
    for last in range(1, calls + 1):
        calls = 0
        with Raises(), pytest.raises(exception, match="stop"):
            lstm(x)
        assert calls == last
