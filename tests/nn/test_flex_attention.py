"""Attention with causal masks of any size, and with scores and masks that functions compute."""

import warnings

import pytest

import rushlight as torch
from rushlight import _warnings
from rushlight.nn.attention import bias, flex_attention
from rushlight.nn.attention.flex_attention import BlockMask, create_block_mask, create_mask
from rushlight.nn.attention.flex_attention import flex_attention as flex
from rushlight.nn.functional import scaled_dot_product_attention as sdpa


@pytest.fixture
def tensors():
    torch.manual_seed(0)
    return torch.randn(2, 2, 5, 4), torch.randn(2, 2, 7, 4), torch.randn(2, 2, 7, 6)


def causal(b, h, q, k):
    return q >= k


def test_causal_masks():
    lower, upper = bias.causal_lower_right(2, 3), bias.causal_upper_left(3, 2)
    assert lower.tolist() == [[True, True, False], [True, True, True]]
    assert upper.tolist() == [[True, False], [True, True], [True, True]]
    assert type(lower) is bias.CausalBias and lower.variant is bias.CausalVariant.LOWER_RIGHT
    assert (lower.seq_len_q, lower.seq_len_kv) == (2, 3) and repr(upper).startswith("tensor(")
    query, key = torch.ones(1, 1, 2, 4), torch.randn(1, 1, 3, 4)
    assert torch.equal(sdpa(query, key, key, lower), sdpa(query, key, key, lower._materialize()))
    with pytest.raises(ValueError, match="CausalBias should not be used with causal=True"):
        sdpa(query, key, key, lower, is_causal=True)
    with pytest.raises(AssertionError, match="variant must be a CausalVariant"):
        bias.CausalBias(2, 2, 3)
    with pytest.warns(UserWarning, match="Lower right causal bias will produce NaNs"):
        bias.causal_lower_right(3, 2)


def test_without_functions_it_is_plain_attention(tensors):
    query, key, value = tensors
    torch.testing.assert_close(flex(query, key, value), sdpa(query, key, value))
    torch.testing.assert_close(flex(query, key, value, scale=0.5), sdpa(query, key, value, scale=0.5))
    _, (sums, _) = flex(query, key, value, return_aux=flex_attention.AuxRequest(lse=True))
    torch.testing.assert_close(sums, (query @ key.mT / 2).logsumexp(-1))
    assert flex(query, key, value, return_aux=flex_attention.AuxRequest(lse=True))[1].max_scores is None
    torch.testing.assert_close(
        flex(query.half(), key.half(), value.half()).float(), sdpa(query, key, value), atol=2e-3, rtol=1e-2
    )


def test_functions_of_scores(tensors):
    query, key, value = tensors

    def sloped(score, b, h, q, k):
        return score + (q - k) * 0.1 * (h + 1) + b

    shift = (torch.arange(5)[:, None] - torch.arange(7)) * 0.1 * torch.tensor([1, 2])[:, None, None]
    expected = sdpa(query, key, value, shift + torch.tensor([0, 1])[:, None, None, None])
    torch.testing.assert_close(flex(query, key, value, score_mod=sloped), expected)
    table = torch.randn(2, 7)
    looked_up = flex(query, key, value, score_mod=lambda score, b, h, q, k: score * table[h, k])
    weights = (query @ key.mT / 2 * table[:, None]).softmax(-1)
    torch.testing.assert_close(looked_up, weights @ value)


def test_masks(tensors):
    query, key, value = tensors
    mask = create_block_mask(causal, None, None, 5, 7)
    expected = sdpa(query, key, value, torch.ones(5, 7, dtype=torch.bool).tril())
    torch.testing.assert_close(flex(query, key, value, block_mask=mask), expected)
    nothing = create_block_mask(lambda b, h, q, k: k > q + 100, None, None, 5, 7)
    assert flex(query, key, value, block_mask=nothing).abs().max() == 0
    by_head = create_block_mask(lambda b, h, q, k: (h > 0) | (q >= k), 1, 2, 5, 7)
    torch.testing.assert_close(flex(query, key, value, block_mask=by_head)[:, 1], sdpa(query, key, value)[:, 1])
    torch.testing.assert_close(flex(query, key, value, block_mask=by_head)[:, 0], expected[:, 0])


def test_gradients(tensors):
    query, key, value = (tensor.double().requires_grad_() for tensor in tensors)
    mask = create_block_mask(causal, None, None, 5, 7)
    score = lambda score, b, h, q, k: score * (1 + 0.1 * k)
    assert torch.autograd.gradcheck(lambda *args: flex(*args, score, mask), (query[:1, :1], key[:1, :1], value[:1, :1]))


def test_heads_that_share_keys():
    query, key = torch.randn(1, 4, 5, 4), torch.randn(1, 2, 7, 4)
    torch.testing.assert_close(flex(query, key, key, enable_gqa=True), sdpa(query, key, key, enable_gqa=True))


def test_blocks():
    mask = create_block_mask(causal, 1, 1, 300, 300)
    assert mask.shape == (1, 1, 300, 300) and mask.numel() == 90000 and mask.BLOCK_SIZE == (128, 128)
    assert mask.kv_num_blocks.tolist() == [[[1, 1, 3]]] and mask.full_kv_num_blocks.tolist() == [[[0, 1, 0]]]
    assert mask.kv_indices.tolist() == [[[[0, 1, 2], [1, 0, 2], [0, 1, 2]]]]
    assert mask.q_num_blocks.tolist() == [[[2, 2, 1]]]
    assert mask.q_indices.tolist() == [[[[0, 2, 1], [1, 2, 0], [2, 0, 1]]]]
    assert mask.to_dense().tolist() == [[[[1, 0, 0], [1, 1, 0], [1, 1, 1]]]]
    assert round(mask.sparsity(), 2) == -9.23 and "sparsity=-9.23%" in repr(mask) and mask.to("cpu").shape == mask.shape
    again = BlockMask.from_kv_blocks(mask.kv_num_blocks, mask.kv_indices)
    assert again.shape == (1, 1, 384, 384) and again.full_q_indices is None
    whole = create_block_mask(causal, 1, 1, 300, 300, BLOCK_SIZE=(100, 50), separate_full_blocks=False)
    assert whole.full_kv_num_blocks is None and whole.kv_num_blocks.tolist() == [[[2, 4, 6]]]


def test_pictures_and_parts():
    mask = create_block_mask(causal, 2, 3, 64, 64, BLOCK_SIZE=16)
    picture = "██      \n████    \n██████  \n████████"
    assert str(mask[0, 0]) == f"BlockMask(shape=(1, 1, 64, 64), sparsity=37.50%, \n(0, 0)\n{picture}\n)"
    assert mask[0, 0].to_string(2) == "(0, 0)\n░░  \n██░░\n"
    assert mask.to_string(-1, limit=1).startswith(f"(0, 0)\n{picture}\n\n...\nTo print out more, ")
    for index, shape, counts in (
        (0, (1, 3, 64, 64), (1, 3, 4)),
        (-1, (1, 3, 64, 64), (1, 3, 4)),
        ((0, 1, 2), (1, 1, 64, 64), (1, 1, 1)),
        ((slice(None), slice(None), slice(1, 3)), (2, 3, 64, 64), (2, 3, 2)),
    ):
        assert (mask[index].shape, mask[index].kv_num_blocks.shape) == (shape, counts)


def test_combined_masks():
    both = flex_attention.and_masks(causal, lambda b, h, q, k: k > 0)
    either = flex_attention.or_masks(causal, lambda b, h, q, k: k > 1)
    assert create_mask(both, 1, 1, 3, 3)[0, 0].tolist() == [[False] * 3, [False, True, False], [False, True, True]]
    assert create_mask(either, 1, 1, 3, 3)[0, 0].tolist() == [[True, False, True], [True] * 3, [True] * 3]
    assert create_mask(flex_attention.noop_mask, 2, 2, 2, 3).all() and create_mask(causal, None, 3, 2, 2).shape[1] == 3
    with pytest.raises(RuntimeError, match="All inputs should be callable mask_mods"):
        flex_attention.and_masks(causal, 3)


def test_refusals(tensors):
    query, key, value = tensors
    for arguments, error, sentence in (
        ((query[0], key[0], value[0]), NotImplementedError, "NYI: query, key, and value must be 4D tensors"),
        ((query, key[..., :3], value), ValueError, "same embedding dimension but got E=4 and E=3."),
        ((query, key[:, :1], value[:, :1]), ValueError, "but got Hq=2 and Hkv=1. Try setting enable_gqa=True for GQA."),
        (
            (query, key, value, None, create_block_mask(causal, 1, 1, 300, 300)),
            ValueError,
            "block_mask was created for block_mask.shape=(1, 1, 300, 300) but got q_len=5 and kv_len=7.",
        ),
    ):
        with pytest.raises(error) as caught:
            flex(*arguments)
        assert sentence in str(caught.value)


def test_block_masks_are_made_of_truth_values():
    with pytest.raises(AssertionError, match="^mask.dtype must be torch.bool, got torch.int64$"):
        create_block_mask(lambda b, h, q, k: q - k, 1, 1, 8, 8)


@pytest.mark.parametrize(
    "batches, masks, error, sentence",
    [
        ((2, 1), None, ValueError, "or non-none block_mask, but got block_mask=None, Bq=2, and Bkv=1"),
        ((1, 2), None, ValueError, "or non-none block_mask, but got block_mask=None, Bq=1, and Bkv=2"),
        (
            (2, 1),
            1,
            ValueError,
            "or block_mask and query to have the same batch size, but got Bq=2, Bkv=1, B_block_mask=1",
        ),
        (
            (2, 1),
            3,
            ValueError,
            "or block_mask and query to have the same batch size, but got Bq=2, Bkv=1, B_block_mask=3",
        ),
        ((1, 2), 1, RuntimeError, "Bq and Bkv must broadcast. Got Bq=1 and Bkv=2"),
    ],
)
def test_batches_are_not_stretched(batches, masks, error, sentence):
    query, key = (torch.ones(batch, 1, 4, 2) for batch in batches)
    mask = masks and create_block_mask(causal, masks, None, 4, 4)
    with pytest.raises(error, match=sentence):
        flex(query, key, key, block_mask=mask)


def test_keys_of_one_batch_serve_the_batches_of_a_mask():
    query, key = torch.randn(2, 1, 4, 2), torch.randn(1, 1, 4, 2)
    found = flex(query, key, key, block_mask=create_block_mask(causal, 2, None, 4, 4))
    torch.testing.assert_close(found, sdpa(query, key, key, is_causal=True))


def test_masks_as_tuples_and_of_other_lengths():
    mask = create_block_mask(causal, 1, 2, 256, 200)
    flat, nested = mask.as_tuple(), mask.as_tuple(flatten=False)
    assert flat[:2] == nested[0] == (256, 200) and flat[-3:-1] == nested[-2] == (128, 128) and flat[-1] is causal
    assert flat[2] is nested[1] is mask.kv_num_blocks and len(flat) == 17 and flat[10:14] == (None,) * 4
    smaller = mask._adjust(128, 100)
    assert smaller.shape == (1, 2, 128, 100) and smaller.kv_num_blocks.tolist() == [[[1], [1]]]
    query = torch.randn(1, 2, 100, 4)
    with pytest.raises(ValueError, match=r"created for a larger length than you're using it for, you can either 1\."):
        flex(query, query, query, block_mask=mask)
    expected = sdpa(query, query, query, is_causal=True)
    torch.testing.assert_close(flex(query, query, query, block_mask=mask._adjust(100, 100)), expected)
    with pytest.raises(ValueError, match="created for a smaller length than you're using it for, you likely need"):
        flex(torch.randn(1, 2, 300, 4), query, query, block_mask=mask)


def test_functions_of_scores_as_masks():
    lower = torch.ones(3, 3).tril().bool()
    found = create_mask(lambda score, b, h, q, k: torch.where(q >= k, score, -torch.inf), 1, 1, 3, 3)
    assert torch.equal(found[0, 0], lower) and create_mask(causal, 0, None, 2, 2).shape == (0, 1, 2, 2)
    for count, function in ((3, lambda b, h, q: q), (0, lambda *args: args[0])):
        with pytest.raises(AssertionError, match=f"Expected 4 or 5 positional args, got {count}"):
            create_mask(function, 1, 1, 2, 2)
    with pytest.raises(AssertionError, match="create-block_mask requires a mask_mod function"):
        create_block_mask(lambda score, b, h, q, k: score, 1, 1, 2, 2)


def test_the_old_way_to_ask_for_logarithms_of_sums_warns_once(tensors, monkeypatch):
    monkeypatch.setattr(_warnings, "_told", set())
    query, key, value = tensors
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            _, sums = flex(query, key, value, return_lse=True)
    assert [one.category for one in caught] == [FutureWarning]
    _, other = flex(query, key, value, return_aux=flex_attention.AuxRequest(lse=True))
    assert torch.equal(sums, other.lse) and other.max_scores is None
    with pytest.raises(ValueError, match="Cannot specify both return_lse and return_aux. return_lse is deprecated"):
        flex(query, key, value, return_lse=True, return_aux=flex_attention.AuxRequest())


def test_options_and_operands_that_are_refused(tensors):
    query, key, value = tensors
    assert torch.equal(flex(query, key, value, kernel_options={"BLOCK_M": 16}), flex(query, key, value))
    for options, error in ((3, TypeError), ("ab", ValueError), ({"OUTPUT_LOGSUMEXP": True}, AssertionError)):
        with pytest.raises(error):
            flex(query, key, value, kernel_options=options)
    with pytest.raises(NotImplementedError, match="\"bmm\" not implemented for 'Bool'"):
        flex(query.bool(), key.bool(), value.bool())
    with pytest.raises(
        ValueError, match="to have the same device type, but got query.device: cpu, key.device: cpu, and"
    ):
        flex(query, key, value.to("meta"))


def test_parts_of_masks_that_do_not_belong_together():
    counts, columns = torch.tensor([[[1, 2]]]), torch.tensor([[[[0, 1], [0, 1]]]])
    for full in ({"full_kv_num_blocks": counts}, {"full_kv_indices": columns}):
        with pytest.raises(AssertionError, match="full_kv_num_blocks and full_kv_indices must be both provided"):
            BlockMask.from_kv_blocks(counts, columns, **full, BLOCK_SIZE=4)
    with pytest.raises(AssertionError, match="full_q_num_blocks and full_q_indices must be both provided or omitted"):
        BlockMask((8, 8), counts, columns, None, None, None, None, counts, None)
    with pytest.raises(RuntimeError, match="BlockMask must have at least 2 dimensions"):
        BlockMask.from_kv_blocks(counts, columns[0, 0, 0])
