"""Attention, recurrent layers, `ctc_loss` and embedding bags: properties that samples of single calls do not show."""

import math

import numpy as np
import pytest

import rushlight as torch
import rushlight.nn.functional as F
from rushlight.autograd import gradcheck, gradgradcheck

rng = np.random.default_rng(0)


def real(*shape, requires_grad=False):
    return torch.from_numpy(np.asarray(rng.standard_normal(shape))).requires_grad_(requires_grad)


def attended(q, k, v, mask):
    scores = np.matmul(q, np.swapaxes(k, -1, -2)) / math.sqrt(q.shape[-1]) + mask
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return np.matmul(weights / weights.sum(-1, keepdims=True), v)


@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (63, 257), (130, 600), (5, 1024)])
def test_attention_over_blocks(queries, keys):
    q, k, v = real(2, 3, queries, 8), real(2, 3, keys, 8), real(2, 3, keys, 4)
    mask = real(queries, keys) * 3
    got = F.scaled_dot_product_attention(q, k, v, mask)
    assert np.allclose(got.numpy(), attended(q.numpy(), k.numpy(), v.numpy(), mask.numpy()), atol=1e-12)
    got = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    hidden = np.where(np.tri(queries, keys) > 0, 0, -np.inf)
    assert np.allclose(got.numpy(), attended(q.numpy(), k.numpy(), v.numpy(), hidden), atol=1e-12)


def test_attention_is_the_same_for_any_number_of_threads():
    q, k, v = (real(4, 300, 16).float() for _ in range(3))
    before = torch.get_num_threads()
    try:
        results = []
        for threads in (1, 3):
            torch.set_num_threads(threads)
            results.append(F.scaled_dot_product_attention(q, k, v, is_causal=True).numpy())
    finally:
        torch.set_num_threads(before)
    assert np.array_equal(*results)


def test_a_query_without_keys_gets_zeros():
    q, k, v = (real(1, 2, 2, requires_grad=True) for _ in range(3))
    mask = torch.tensor([[False, False], [True, False]])
    out = F.scaled_dot_product_attention(q, k, v, mask)
    assert out[0, 0].tolist() == [0.0, 0.0] and out[0, 1].tolist() == v[0, 0].tolist()
    out.sum().backward()
    assert all(torch.isfinite(x.grad).all() for x in (q, k, v)) and q.grad[0, 0].tolist() == [0.0, 0.0]
    assert F.scaled_dot_product_attention(q, real(1, 0, 2), real(1, 0, 2)).tolist() == [[[0.0, 0.0], [0.0, 0.0]]]


def test_heads_in_groups_share_keys():
    q, k, v = real(2, 6, 3, 4), real(2, 2, 5, 4), real(2, 3, 5, 4)
    with pytest.raises(RuntimeError, match="Number of heads in key and value must divide"):
        F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
    v = real(2, 6, 5, 4)
    got = F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
    wanted = F.scaled_dot_product_attention(q, k.repeat_interleave(3, 1), v)
    assert torch.allclose(got, wanted)


def weights(gates, inputs, hidden, layers=1, directions=1):
    made = []
    for layer in range(layers):
        for _ in range(directions):
            own = inputs if layer == 0 else hidden * directions
            made += [
                real(gates * hidden, own),
                real(gates * hidden, hidden),
                real(gates * hidden),
                real(gates * hidden),
            ]
    return made


@pytest.mark.parametrize(("name", "gates"), [("rnn_tanh", 1), ("rnn_relu", 1), ("gru", 3), ("lstm", 4)])
def test_layers_take_the_steps_of_cells(name, gates):
    x, params = real(4, 2, 3), weights(gates, 3, 5)
    hidden, cell = real(1, 2, 5), real(1, 2, 5)
    first = [hidden, cell] if name == "lstm" else hidden
    outputs, *last = getattr(torch, name)(x, first, params, True, 1, 0.0, False, False, False)
    state = (hidden[0], cell[0]) if name == "lstm" else hidden[0]
    for step in range(4):
        state = getattr(torch, f"{name}_cell")(x[step], state, *params)
        output = state[0] if name == "lstm" else state
        assert torch.allclose(outputs[step], output)
    assert torch.allclose(last[0][0], output)


@pytest.mark.parametrize(("name", "gates"), [("gru", 3), ("lstm", 4)])
def test_packed_sequences_are_each_on_their_own(name, gates):
    lengths, params = (4, 2, 1), weights(gates, 3, 5, 2, 2)
    sequences = [real(length, 3) for length in lengths]
    counts = [sum(length > step for length in lengths) for step in range(4)]
    data = torch.cat([torch.stack([s[step] for s in sequences if len(s) > step]) for step in range(4)])
    hidden, cell = real(4, 3, 5), real(4, 3, 5)
    first = [hidden, cell] if name == "lstm" else hidden
    packed, *last = getattr(torch, name)(data, torch.tensor(counts), first, params, True, 2, 0.0, False, True)
    for at, sequence in enumerate(sequences):
        own = [x[:, at : at + 1] for x in (hidden, cell)]
        own = own if name == "lstm" else own[0]
        alone, *end = getattr(torch, name)(sequence[:, None], own, params, True, 2, 0.0, False, True, False)
        rows = [sum(counts[:step]) + at for step in range(len(sequence))]
        assert torch.allclose(packed[rows], alone[:, 0])
        assert all(torch.allclose(a[:, at], b[:, 0]) for a, b in zip(last, end))


def test_sizes_of_steps_must_add_up():
    refused = {
        (2, 3): r"The size of tensor a \(4\) must match the size of tensor b \(2\)",
        (4, 1): r"start \(4\) \+ length \(1\) exceeds dimension size \(4\)",
        (-1, 5): "length must be non-negative",
    }
    for counts, sentence in refused.items():
        with pytest.raises(RuntimeError, match=sentence):
            torch.gru(real(4, 3), torch.tensor(counts), real(1, 4, 5), weights(3, 3, 5), True, 1, 0.0, False, False)


def paths(targets, blank, length):
    """Enumerates all alignments of the labels."""
    for path in np.ndindex(*[3] * length):
        merged = [label for at, label in enumerate(path) if at == 0 or label != path[at - 1]]
        if [label for label in merged if label != blank] == targets:
            yield path


@pytest.mark.parametrize("targets", [[1], [1, 2], [2, 2], []])
def test_ctc_counts_every_path(targets):
    logs = real(4, 3).log_softmax(-1)
    wanted = sum(math.exp(sum(float(logs[t, label]) for t, label in enumerate(path))) for path in paths(targets, 0, 4))
    labels = torch.tensor([targets], dtype=torch.long)
    got = F.ctc_loss(logs[:, None], labels, (4,), (len(targets),), reduction="sum")
    assert float(got) == pytest.approx(-math.log(wanted))


def test_gradients_of_ctc_through_log_softmax():
    scores = real(5, 3, 4, requires_grad=True)
    targets = torch.tensor([[1, 2, 2], [3, 1, 0], [1, 1, 2]])

    def loss(x):
        return F.ctc_loss(x.log_softmax(-1), targets, (5, 4, 2), (3, 2, 3), zero_infinity=True)

    assert gradcheck(loss, (scores,))


def test_bags_of_every_mode():
    table, numbers = real(6, 3, requires_grad=True), torch.tensor([1, 4, 4, 0, 5])
    offsets = torch.tensor([0, 2, 2])
    bags = [numbers[0:2], numbers[2:2], numbers[2:5]]
    for mode, combine in (("sum", lambda x: x.sum(0)), ("mean", lambda x: x.mean(0)), ("max", lambda x: x.max(0)[0])):
        got = F.embedding_bag(numbers, table, offsets, mode=mode)
        wanted = [combine(table[own]) if len(own) else torch.zeros(3).double() for own in bags]
        assert torch.allclose(got, torch.stack(wanted)), mode
        assert gradcheck(lambda w, mode=mode: F.embedding_bag(numbers, w, offsets, mode=mode), (table,))
    assert F.embedding_bag(numbers, table, offsets, mode="sum", padding_idx=4)[0].tolist() == table[1].tolist()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("weighted", [False, True])
def test_sums_of_bags_are_the_same_with_and_without_a_graph(dtype, weighted):
    """Without a graph they are one kernel. Half types are summed in single precision and rounded once."""
    table = torch.linspace(-3, 2, 40 * 70).reshape(40, 70).to(dtype)
    numbers, offsets = torch.arange(90) * 7 % 40, torch.tensor([0, 0, 3, 50])
    weights = torch.linspace(0.1, 1, 90).to(dtype) if weighted else None
    plain = F.embedding_bag(numbers, table, offsets, mode="sum", per_sample_weights=weights)
    recorded = table.clone().requires_grad_()
    assert torch.equal(plain, F.embedding_bag(numbers, recorded, offsets, mode="sum", per_sample_weights=weights))
    across = table.t().contiguous().t()
    assert torch.equal(plain, F.embedding_bag(numbers, across, offsets, mode="sum", per_sample_weights=weights))
    rows = table[numbers].double() * (1 if weights is None else weights.double()[:, None])
    ends = [(0, 0), (0, 3), (3, 50), (50, 90)]
    exact = torch.stack([rows[start:end].sum(0) for start, end in ends])
    precision = torch.finfo(torch.float32 if dtype != torch.float64 else dtype).eps
    rounded = torch.finfo(dtype).eps / 2 * exact.abs()
    assert ((plain.double() - exact).abs() <= rounded + 90 * 3 * precision).all()
    assert plain[0].tolist() == [0] * 70


@pytest.mark.parametrize("width", [1, 31, 32, 33, 64, 70])
@pytest.mark.parametrize("padding", [None, 3])
def test_sums_of_bags_count_the_rows_of_their_own(width, padding):
    """The weights are those of the indices that count, and indices after the last offset belong to no bag."""
    table, numbers = real(9, width), torch.arange(40) * 5 % 9
    offsets, weights = torch.tensor([0, 4, 4, 30]), real(40)
    arguments = {"mode": "sum", "per_sample_weights": weights, "include_last_offset": True, "padding_idx": padding}
    got = F.embedding_bag(numbers, table, offsets, **arguments)
    counts = torch.ones(40) if padding is None else (numbers != padding).double()
    rows = table[numbers] * (weights * counts)[:, None]
    exact = torch.stack([rows[start:end].sum(0) for start, end in ((0, 4), (4, 4), (4, 30))])
    assert torch.allclose(got, exact)
    recorded = F.embedding_bag(numbers, table.clone().requires_grad_(), offsets, **arguments)
    assert torch.allclose(recorded, exact)


def test_offsets_of_bags_may_not_fall():
    with pytest.raises(RuntimeError, match="offsets must not decrease"):
        F.embedding_bag(torch.tensor([0, 1, 2]), real(3, 2), torch.tensor([0, 2, 1]))


def test_slopes_below_zero_are_torchs():
    torch.manual_seed(0)
    drawn = torch.rrelu(torch.tensor([-1.0, 2.0, -1.0]), 0.1, 0.5, True)
    assert drawn.tolist() == pytest.approx([-0.48802119493484497, 2.0, -0.38312795758247375], rel=1e-6)


def test_second_gradients_of_grids():
    image, grid = real(1, 2, 3, 4, requires_grad=True), torch.from_numpy(rng.uniform(-1.3, 1.3, (1, 2, 2, 2)))
    grid.requires_grad_()
    for mode in ("bilinear", "bicubic"):
        for padding in ("zeros", "border", "reflection"):

            def sampled(x, g, mode=mode, padding=padding):
                return F.grid_sample(x, g, mode, padding, align_corners=False)

            assert gradcheck(sampled, (image, grid)) and gradgradcheck(sampled, (image, grid))


@pytest.mark.parametrize("width", [1, 3, 7, 20, 100])
@pytest.mark.parametrize("padding", [None, 2])
@pytest.mark.parametrize("weighted", [False, True])
def test_sums_of_bags_of_any_width(width, padding, weighted):
    table = torch.randn(9, width, dtype=torch.float64)
    indices = torch.arange(40) * 7 % 9
    offsets = torch.tensor([0, 0, 5, 17, 30])
    weights = torch.randn(40, dtype=torch.float64) if weighted else None
    found = F.embedding_bag(
        indices, table, offsets, mode="sum", per_sample_weights=weights, include_last_offset=True, padding_idx=padding
    )
    for bag, (start, end) in enumerate(zip([0, 0, 5, 17], [0, 5, 17, 30])):
        counted = [at for at in range(start, end) if indices[at] != padding]
        rows = [table[indices[at]] * (1 if weights is None else weights[at]) for at in counted]
        assert torch.allclose(found[bag], sum(rows, torch.zeros(width, dtype=torch.float64)))
    with pytest.raises(RuntimeError, match="offsets must not decrease"):
        F.embedding_bag(indices, table, torch.tensor([0, 90, 3]), mode="sum")


def test_bags_of_sums_have_no_counts():
    """torch computes them only where the gradient needs them."""
    table, indices, offsets = torch.ones(4, 3), torch.tensor([0, 1, 2, 3, 0]), torch.tensor([0, 2, 2])
    for weight, mode, of, counts in (
        (table, 0, [], [0, 0, 0]),
        (table.double(), 0, [0, 0, 2, 2, 2], [0, 0, 0]),
        (table, 1, [0, 0, 2, 2, 2], [2, 0, 3]),
    ):
        results = torch.embedding_bag(weight, indices, offsets, False, mode)
        assert [result.tolist() for result in results[1:]] == [of, counts, counts]
    # The indices and the offsets have one dtype in the end.
    assert torch.embedding_bag(table, indices.short(), offsets)[0].tolist() == [[2.0] * 3, [0.0] * 3, [3.0] * 3]
