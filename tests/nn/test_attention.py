"""Attention: all kinds of masks, unbatched sequences, and messages. (`test_recorded` has its numbers.)"""

import math
import warnings

import pytest

import rushlight as torch
from rushlight import nn
from rushlight.nn import functional as F


def attention(**options):
    torch.manual_seed(0)
    return nn.MultiheadAttention(8, 2, **options)


def inputs(dtype=torch.float32):
    torch.manual_seed(1)
    return torch.randn(5, 2, 8, dtype=dtype), torch.randn(7, 2, 8, dtype=dtype)


def test_masks_say_the_same():
    query, key = inputs()
    module = attention()
    hidden = torch.ones(5, 7, dtype=torch.bool).triu(3)
    output, weights = module(query, key, key, attn_mask=hidden)
    assert weights[:, hidden].eq(0).all() and torch.allclose(weights.sum(-1), torch.ones(2, 5))
    added = torch.zeros(5, 7).masked_fill(hidden, -math.inf)
    for mask in (added, hidden.expand(4, 5, 7), added.expand(4, 5, 7)):
        assert torch.allclose(module(query, key, key, attn_mask=mask)[0], output)
    without, nothing = module(query, key, key, attn_mask=hidden, need_weights=False)
    assert nothing is None and torch.allclose(without, output, atol=1e-6)


def test_without_weights_their_matrix_is_never_made():
    """A query attends to keys up to its own position, with a mask or with the hint that it is causal, in blocks."""
    query = torch.randn(5, 2, 8, requires_grad=True)
    module, hidden = attention(), torch.ones(5, 5, dtype=torch.bool).triu(1)
    with_weights, _ = module(query, query, query, attn_mask=hidden)
    for hint in (False, True):
        output, _ = module(query, query, query, attn_mask=hidden, need_weights=False, is_causal=hint)
        assert torch.allclose(output, with_weights, atol=1e-6)
        nodes, seen = [output.grad_fn], set()
        while nodes:
            node = nodes.pop()
            seen.add(node.name())
            nodes += [parent for parent, _ in node.next_functions if parent is not None]
        assert "ScaledDotProductFlashAttentionForCpuBackward0" in seen and "SoftmaxBackward0" not in seen


def test_padding_is_as_if_it_were_not_there():
    query, key = inputs()
    for options in ({}, {"add_bias_kv": True}, {"add_zero_attn": True}):
        module = attention(**options)
        padding = torch.tensor([[False] * 4 + [True] * 3] * 2)
        padded, weights = module(query, key, key, key_padding_mask=padding, average_attn_weights=False)
        assert torch.allclose(padded, module(query, key[:4], key[:4])[0], atol=1e-6)
        assert weights.shape[:3] == (2, 2, 5) and weights[..., 4:7].eq(0).all()


def test_without_a_batch():
    query, key = inputs()
    module = attention()
    output, weights = module(query[:, 0], key[:, 0], key[:, 0])
    whole, all_weights = module(query, key, key)
    assert torch.allclose(output, whole[:, 0], atol=1e-6) and torch.allclose(weights, all_weights[0], atol=1e-6)


def test_what_comes_later_does_not_matter():
    torch.manual_seed(0)
    model = nn.Transformer(8, 2, 1, 1, 16, dropout=0.0)
    source, target = torch.randn(7, 2, 8), torch.randn(5, 2, 8)
    mask = nn.Transformer.generate_square_subsequent_mask(5)
    before = model(source, target, tgt_mask=mask)
    target[3:] += 1
    after = model(source, target, tgt_mask=mask)
    assert torch.allclose(before[:3], after[:3], atol=1e-6) and not torch.allclose(before[3:], after[3:])


def test_gradients():
    module = attention(dtype=torch.float64)
    query, key = (x.requires_grad_() for x in inputs(torch.float64))
    assert torch.autograd.gradcheck(lambda q, k: module(q, k, k)[0], (query, key))


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda q, k: nn.MultiheadAttention(0, 1), ValueError, "embed_dim and num_heads must be greater than 0"),
        (lambda q, k: nn.MultiheadAttention(8, 3), AssertionError, "embed_dim must be divisible by num_heads"),
        (
            lambda q, k: attention()(q, k[0], k),
            AssertionError,
            "For batched \\(3-D\\) `query`, expected `key` and `value`",
        ),
        (
            lambda q, k: attention()(q[..., :4], k, k),
            AssertionError,
            "was expecting embedding dimension of 8, but got 4",
        ),
        (lambda q, k: attention()(q, k, k[:3]), AssertionError, "key shape .* does not match value shape"),
        (
            lambda q, k: attention()(q, k, k, attn_mask=torch.ones(5, 5)),
            RuntimeError,
            "The shape of the 2D attn_mask is",
        ),
        (
            lambda q, k: attention()(q, k, k, attn_mask=torch.ones(5, 7).long()),
            AssertionError,
            "only bool and floating",
        ),
        (lambda q, k: attention()(q, k, k, is_causal=True), RuntimeError, "Need attn_mask if specifying the is_causal"),
        (lambda q, k: nn.TransformerEncoderLayer(8, 2, activation="x"), RuntimeError, "activation should be relu/gelu"),
        (lambda q, k: nn.Transformer(8, 2, 1, 1)(q, k[:, :1]), RuntimeError, "the batch number of src and tgt must be"),
    ],
)
def test_bad_calls(call, kind, message):
    with pytest.raises(kind, match=message):
        call(*inputs())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_heads_may_have_a_mask_and_be_causal(dtype):
    attend, tol = F.scaled_dot_product_attention, 1e-5 if dtype == torch.float32 else 2e-2
    query, key = (torch.randn(2, 3, 5, 4, dtype=dtype, requires_grad=True) for _ in range(2))
    mask = torch.randn(5, 5).to(dtype)
    hidden = mask.masked_fill(torch.ones(5, 5, dtype=torch.bool).triu(1), -torch.inf)
    for given, whole in ((mask, hidden), (mask > 0, (mask > 0).tril())):
        found = attend(query, key, key, given, is_causal=True)
        expected = attend(query, key, key, whole)
        torch.testing.assert_close(found, expected, atol=tol, rtol=tol)
        gradients = [torch.autograd.grad(result.sum(), (query, key)) for result in (found, expected)]
        torch.testing.assert_close(*gradients, atol=tol, rtol=tol)
    # The composed form, which torch takes for these, refuses both.
    for call in (
        lambda x: attend(x[0], x[0], x[0], mask, is_causal=True),
        lambda x: attend(x, x, x, mask, 0.5, is_causal=True),
        lambda x: attend(x, x, x[..., :2], mask, is_causal=True),
    ):
        with pytest.raises(
            RuntimeError, match="^_scaled_dot_product_attention: Explicit attn_mask should not be set when"
        ):
            call(query)


def test_nobody_reads_the_mask_where_the_hint_is_enough():
    attention = nn.MultiheadAttention(4, 2)
    x = torch.rand(3, 1, 4)
    future = torch.ones(3, 3, dtype=torch.bool).triu(1)
    hinted, _ = attention(x, x, x, attn_mask=torch.ones(5, 5), is_causal=True, need_weights=False)
    assert torch.allclose(hinted, attention(x, x, x, attn_mask=future)[0], atol=1e-6)
    with pytest.raises(RuntimeError, match="The shape of the 2D attn_mask"):
        attention(x, x, x, attn_mask=torch.ones(5, 5), is_causal=True)


def test_kernels_may_be_chosen():
    from rushlight.nn.attention import SDPBackend, sdpa_kernel

    assert torch.backends.cuda.SDPBackend is SDPBackend

    def settings():
        cuda = torch.backends.cuda
        return [cuda.math_sdp_enabled(), cuda.flash_sdp_enabled(), cuda.mem_efficient_sdp_enabled()]

    q = torch.randn(1, 1, 3, 4)
    wanted = nn.functional.scaled_dot_product_attention(q, q, q)
    with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION]):
        assert settings() == [False, True, True]
        assert torch.equal(nn.functional.scaled_dot_product_attention(q, q, q), wanted)
    assert settings() == [True, True, True] and sdpa_kernel(SDPBackend.MATH)(settings)() == [True, False, False]
    with pytest.raises(AssertionError, match="got int"):
        sdpa_kernel(0).__enter__()


@pytest.mark.parametrize("scale", [None, -0.3])
@pytest.mark.parametrize(("queries", "keys"), [(150, 150), (70, 300), (300, 70)])
def test_a_causal_mask_hides_what_such_a_mask_hides(queries, keys, scale):
    operands = [torch.randn(2, length, 5, dtype=torch.float64) for length in (queries, keys, keys)]
    seen = torch.ones(queries, keys, dtype=torch.bool).tril()
    found = []
    for options in {"is_causal": True}, {"attn_mask": seen}, {"attn_mask": torch.where(seen, 0.0, -torch.inf).double()}:
        leaves = [operand.clone().requires_grad_() for operand in operands]
        out = torch.nn.functional.scaled_dot_product_attention(*leaves, scale=scale, **options)
        out.pow(2).sum().backward()
        found.append([out, *(leaf.grad for leaf in leaves)])
    for others in found[1:]:
        for own, other in zip(found[0], others, strict=True):
            assert torch.allclose(own, other, rtol=1e-12, atol=1e-12)


def test_keys_that_a_query_does_not_see_may_be_anything():
    query, key, value = (torch.randn(1, 100, 4) for _ in "qkv")
    key[:, 60:] = float("nan")
    out = torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
    assert out[:, :60].isfinite().all() and out[:, 60:].isnan().all()


def test_padding_of_another_length_is_refused():
    attention, x = nn.MultiheadAttention(4, 1, batch_first=True), torch.ones(2, 5, 4)
    for shape, dim, wanted in (((2, 4), 1, 5), ((3, 5), 0, 2)):
        sentence = rf"Expected key_padded_mask.shape\[{dim}\] to be {wanted}, but got {shape[dim]}"
        with pytest.raises(AssertionError, match=sentence):
            attention(x, x, x, key_padding_mask=torch.zeros(shape, dtype=torch.bool))


def test_stacks_of_no_layers_are_refused():
    encoder, decoder = nn.TransformerEncoderLayer(4, 1, 8), nn.TransformerDecoderLayer(4, 1, 8)
    x = torch.ones(2, 1, 4)
    for call in (lambda: nn.TransformerEncoder(encoder, 0)(x), lambda: nn.TransformerDecoder(decoder, -1)(x, x)):
        with pytest.raises(IndexError, match="index 0 is out of range"):
            call()


def test_blocks_of_layers_can_be_put_in_their_place():
    class Other(nn.TransformerDecoderLayer):
        def _sa_block(self, x, attn_mask, key_padding_mask, is_causal=False):
            return x * 0

        def _mha_block(self, x, mem, attn_mask, key_padding_mask, is_causal=False):
            return mem.sum(0) + 0 * x

        def _ff_block(self, x):
            return super()._ff_block(x) * 0

    layer = Other(4, 2, norm_first=True)
    x, memory = torch.rand(3, 2, 4), torch.rand(5, 2, 4)
    assert torch.allclose(layer(x, memory), x + memory.sum(0))


def test_masks_are_no_inputs_to_backward_hooks():
    layer, seen = nn.TransformerEncoderLayer(4, 2), []
    layer.self_attn.register_full_backward_hook(
        lambda module, inputs, outputs: seen.extend([len(inputs), len(outputs)])
    )
    layer(torch.rand(3, 2, 4, requires_grad=True), torch.zeros(3, 3)).sum().backward()
    assert seen == [3, 2]


def test_a_causal_hint_says_more_than_a_mask_where_keys_are_added():
    # As in torch: the hint also masks the appended positions, a mask does not.
    layer, x = attention(add_bias_kv=True), torch.randn(3, 1, 8)
    mask = nn.Transformer.generate_square_subsequent_mask(3)
    hinted, masked = (layer(x, x, x, need_weights=False, attn_mask=mask, is_causal=hint)[0] for hint in (True, False))
    plain = nn.functional.multi_head_attention_forward(
        x, x, x, 8, 2, layer.in_proj_weight, layer.in_proj_bias, None, None, False, 0.0, layer.out_proj.weight,
        layer.out_proj.bias, False, None, False, mask,
    )[0]  # fmt: skip
    assert torch.allclose(hinted, plain, atol=1e-6) and not torch.allclose(masked, plain)


@pytest.mark.parametrize(
    ("layer", "reason"),
    [
        (lambda: nn.Linear(4, 4), "encoder_layer was not TransformerEncoderLayer"),
        (lambda: nn.TransformerEncoderLayer(4, 2, norm_first=True), "encoder_layer.norm_first was True"),
        (
            lambda: nn.TransformerEncoderLayer(4, 2),
            "encoder_layer.self_attn.batch_first was not True(use batch_first for better inference performance)",
        ),
        (
            lambda: nn.TransformerEncoderLayer(4, 2, batch_first=True, bias=False),
            "encoder_layer.self_attn was passed bias=False",
        ),
        (
            lambda: nn.TransformerEncoderLayer(4, 2, batch_first=True, activation=torch.tanh),
            "encoder_layer.activation_relu_or_gelu was not True",
        ),
        (lambda: nn.TransformerEncoderLayer(3, 3, batch_first=True), "encoder_layer.self_attn.num_heads is odd"),
        (lambda: nn.TransformerEncoderLayer(4, 2, batch_first=True), None),
    ],
)
def test_why_sequences_would_not_be_nested(layer, reason):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        encoder = nn.TransformerEncoder(layer(), 1)
        quiet = nn.TransformerEncoder(layer(), 1, enable_nested_tensor=False)
    sentence = f"enable_nested_tensor is True, but self.use_nested_tensor is False because {reason}"
    assert [str(warning.message) for warning in caught] == ([] if reason is None else [sentence])
    assert all(warning.filename == __file__ for warning in caught)
    assert (encoder.use_nested_tensor, quiet.use_nested_tensor) == (reason is None, False)
