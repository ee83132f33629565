"""Calls of nested and masked tensors. `test_nested_recorded.py` compares their results with torch 2.13.

`python tests/nested/nested_cases.py` needs torch and writes `tests/data/nested.json`.
"""

import json
import re
import warnings
from pathlib import Path

RECORDED = Path(__file__).resolve().parents[1] / "data" / "nested.json"

#: What a call may name. The tensors are made anew for each call.
SETUP = """
F, nested = torch.nn.functional, torch.nested
a, b = torch.arange(6.0).view(2, 3), torch.arange(3.0).view(1, 3) + 10
v, o = torch.arange(15.0).view(5, 3), torch.tensor([0, 2, 5])
n = nested.nested_tensor_from_jagged(v, o)
h = nested.nested_tensor_from_jagged(v, o, torch.tensor([1, 2]))
n4 = nested.nested_tensor_from_jagged(torch.arange(30.0).view(5, 3, 2), o)
q = n4.transpose(1, 2)
e = nested.nested_tensor([torch.ones(0, 3), torch.ones(2, 3)], layout=torch.jagged)
ni = nested.nested_tensor([[1, 2], [3]], layout=torch.jagged)
x = nested.nested_tensor([a, b], requires_grad=True, layout=torch.jagged)
s = nested.nested_tensor([a, b])
s4 = nested.nested_tensor([torch.arange(12.0).view(2, 3, 2), torch.arange(6.0).view(1, 3, 2) + 10])
si = nested.nested_tensor([[1, 2], [3]])
y = nested.nested_tensor([a, b], requires_grad=True)
w = torch.linspace(-1, 1, 64).view(8, 8)
st = nested.nested_tensor([w[:2].sin(), w[2:5].cos()])
k = torch.tensor([[True, False, True], [False, True, False]])
m = torch.masked.masked_tensor(a, k)
u = torch.masked.masked_tensor(a + 1, ~k)
g = torch.masked.masked_tensor(a, k, requires_grad=True)
i = torch.masked.masked_tensor(torch.arange(6).view(2, 3), k)
z = torch.masked.masked_tensor(a, torch.zeros(2, 3, dtype=torch.bool))

def gradient(leaf, result, *weights):
    result.backward(*weights)
    return leaf.grad

def quietly(function):
    with torch.no_grad():
        return function()
"""
#: What calls of modules may name as well.
MODULES = """
def filled(layer):
    for place, one in enumerate(layer.parameters()):
        with torch.no_grad():
            one.copy_((torch.arange(one.numel()) % 7 - 3 + place % 3).view(one.shape) / 9)
    return layer.eval()

mha = filled(torch.nn.MultiheadAttention(8, 2, batch_first=True))
layer = filled(torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True))
stack = filled(torch.nn.TransformerEncoder(layer, 2))
rows, pad = w.view(2, 4, 8), torch.tensor([[False, False, True, True], [False, False, False, True]])
"""

#: Calls for both layouts: `T` is `n`, `n4` or `x`, and `s`, `s4` or `y`.
BOTH = """
T | T.size(0) | T.size(1) | T.size(-1) | T.size(5) | T.dim() | T.ndim | T.numel() | T.layout | T.is_nested | T.dtype
T.device | T.is_contiguous() | T.is_leaf | T.requires_grad | T.values() | T.unbind() | T.unbind(1) | T[0] | T[1, 0] | T[-1]
T[5] | T[..., 0] | T[..., 1:] | T[None] | T[:] | T[torch.tensor([0])] | T + 1 | T * T | T + torch.ones(3)
T * torch.tensor(2.0) | T / 2 | 2 * T | 1 - T | T**2 | T.exp() | T.to(torch.float64) | T.double() | T.half() | T.int()
T.to(torch.float32) is T | T.detach() | T.clone() | T.contiguous() is T | T.transpose(1, 2) | T.transpose(0, 1) | T.mT
T.transpose(1, 9) | T.chunk(3, -1) | T.chunk(2, 1) | T.split(2, -1) | T.split([1, 2], -1) | torch.cat([T, T], 0)
torch.stack([T, T]) | T.unsqueeze(0) | T.unsqueeze(1) | T.unsqueeze(-1) | T.unsqueeze(9) | T.squeeze() | T.squeeze(0)
T.unsqueeze(2).squeeze(2) | T.reshape(2, -1, 3, 1) | T.view(2, -1, 3, 1) | T.view(2, -1, 1, 3) | T.reshape(3, 3)
torch.softmax(T, -1) | T.softmax(0) | T.softmax(1) | T.softmax(9) | torch.relu(T) | F.gelu(T) | F.silu(T) | F.leaky_relu(T)
F.dropout(T, 0.5, False) | F.linear(T, torch.ones(2, 3), torch.ones(2)) | F.linear(T, torch.ones(2, 5))
F.layer_norm(T, (3,), torch.ones(3), torch.ones(3)) | T.sum(-1, keepdim=True) | T.sum(-1) | T.sum(1) | T.sum(0) | T == 1
T > 1 | T >= 1 | T.gt(1) | T.to_padded_tensor(0) | T.to_padded_tensor(0, (2, 4, 3)) | nested.to_padded_tensor(T, -1.0)
torch.zeros_like(T) | torch.ones_like(T) | torch.empty_like(T).is_nested | T.abs() | T.neg() | -T | T.sqrt() | T.sin()
T.cos() | T.isnan() | T.isinf() | T.tanh() | T.sgn() | T.logical_not() | T.item() | bool(T) | T.narrow(1, 0, 1)
T.select(0, 1) | T.select(2, 1) | T.select(1, 0) | T.permute(0, 2, 1) | T.T | T.is_same_size(T) | torch.allclose(T, T)
T.var() | T.cumsum(1) | T.topk(1) | T.median() | T.numel() | T.element_size() | T.nbytes | T.storage_offset() | T.cpu()
"""
CHANGING = "T.zero_() | T.fill_(2.0) | T.copy_(T) | T.add_(1) | T.mul_(2) | T.relu_() | T.neg_() | T.requires_grad_()"

JAGGED = """
h | h.lengths() | h.offsets() | h.is_contiguous() | h.contiguous() | h.unbind() | h + 1 | h.sum() | h.sum(1) | h.numel()
h.to_padded_tensor(0) | n.shape | n.size() | n.stride() | n.offsets() | n.lengths() | len(n) | [*n] | n.tolist() | n.numpy()
n._min_seqlen | n._max_seqlen | n._ragged_idx | n._offsets is o | nested.nested_tensor_from_jagged(v, o).shape == n.shape
nested.nested_tensor_from_jagged(v, o.clone()).shape == n.shape | nested.nested_tensor_from_jagged(v, o) + n
n + nested.nested_tensor_from_jagged(v, o.clone()) | n + torch.ones(5, 3) | n + torch.ones(2, 1, 3) | torch.ones(2, 1, 3) * n
n * torch.ones(1, 3) | n * torch.ones(1, 1, 3) | nested.nested_tensor_from_jagged(v, o, jagged_dim=2)
nested.nested_tensor_from_jagged(v.T, o, jagged_dim=2) | nested.nested_tensor_from_jagged(v.T, o, jagged_dim=0)
nested.nested_tensor_from_jagged(v) | nested.nested_tensor_from_jagged(v, lengths=torch.tensor([2, 3]))
nested.nested_tensor_from_jagged(v, o, min_seqlen=2, max_seqlen=3) | nested.nested_tensor_from_jagged([1], o)
nested.nested_tensor_from_jagged(v, [0, 2, 5]) | nested.nested_tensor_from_jagged(v, o.view(1, 3))
nested.nested_tensor([], layout=torch.jagged) | nested.nested_tensor([[1, 2], [3]], layout=torch.jagged)
nested.nested_tensor([a, torch.ones(3)], layout=torch.jagged) | nested.nested_tensor([a, torch.ones(2, 4)], layout=torch.jagged)
nested.nested_tensor([a, torch.ones(3, 4)], layout=torch.jagged) | nested.nested_tensor([a, b], layout=torch.sparse_coo)
nested.nested_tensor([a, b.double()], layout=torch.jagged) | nested.nested_tensor(torch.ones(2, 3, 2), layout=torch.jagged)
nested.nested_tensor([torch.tensor(1.0)], layout=torch.jagged) | nested.as_nested_tensor([a, b], layout=torch.jagged)
nested.as_nested_tensor(torch.ones(2, 3, 2), layout=torch.jagged) | nested.as_nested_tensor(n)
nested.as_nested_tensor(n, layout=torch.jagged) | nested.as_nested_tensor([a, b], torch.float64, layout=torch.jagged)
nested.narrow(rows, 1, torch.tensor([0, 1]), torch.tensor([2, 3]), layout=torch.jagged).unbind()
nested.narrow(rows, 1, 1, torch.tensor([2, 3]), layout=torch.jagged) | nested.narrow(rows, 1, 0, 3, layout=torch.jagged)
nested.narrow(rows, 0, 0, 3, layout=torch.jagged) | nested.masked_select(a, k) | nested.masked_select(a, k[0])
nested.masked_select(a, a) | nested.masked_select(rows, pad.unsqueeze(-1)) | n.sum() | n.sum((0, 1)) | n.sum((1, 2))
n.sum((0, 1), keepdim=True) | n.sum((0, 1, 2)) | n.sum(1, keepdim=True) | n.sum((0, 2)) | n.sum(3) | n4.sum((2, 3)) | n4.sum(1)
q.sum(1) | q.sum(2) | n.mean((0, 1)) | n.mean() | n.mean(1) | n.mean(-1) | n.mean(0) | n.prod() | n.prod(1) | n.prod(-1)
n.amax(0) | n.amax((0, 1)) | n.amax() | n.amax(1) | n.amin(-1) | n.amin(1) | n.argmax() | n.argmax(1) | n.argmax(-1) | n.max()
n.max(1) | n.max(-1) | n.max(0) | n.min(1) | n.any() | n.all() | n.any(1) | n.all(1) | n.any(-1) | n.all(0) | n.any((0, 1))
e | e.sum(1) | e.mean(1) | e.amax(1) | e.to_padded_tensor(1.0) | torch.log_softmax(n, -1) | torch.log_softmax(n, 1)
q.softmax(2) | n.to_padded_tensor(0, (2, 2, 3)) | torch.ones(2).to_padded_tensor(0) | n @ torch.ones(3, 4)
n @ torch.ones(2, 3, 4) | torch.ones(2, 4, 3) @ n.transpose(1, 2) | n4 @ n4.transpose(2, 3) | q @ q.transpose(2, 3)
n @ torch.ones(3) | n.transpose(1, 2) @ n | torch.bmm(n.transpose(1, 2), n) | torch.bmm(n, torch.ones(2, 3, 4)) | torch.mm(n, n)
F.linear(n.transpose(1, 2), torch.ones(4, 2)) | F.layer_norm(n, (3,)) | F.rms_norm(n, (3,)) | F.layer_norm(ni.float(), (3,))
torch.cat([n, n], -1) | torch.cat([n, n], 1) | torch.cat([n, v], -1) | torch.stack([n, n], -1) | torch.stack([n, n], 2)
torch.stack([n, n], 1) | n.squeeze(1) | n.squeeze(2) | n.split(1, 0) | n.split(1, 1) | n.split([1, 2], 0) | n.chunk(2, 0)
n.chunk(5, 0) | n4.transpose(2, 3) | n.permute(1, 0, 2) | n.permute(0, 1) | n4.permute(0, 3, 1, 2) | n.expand(2, n.size(1), 3)
n.unsqueeze(2).expand(-1, -1, 4, -1) | n.expand(3, -1, 3) | n.flatten() | n4.flatten(2) | n4.flatten(1, 2) | n4.flatten(-2)
n4.view(2, -1, 6) | n4.view(2, n4.size(1), 6) | n4.reshape(-1, n4.size(1), 6) | n.view(2, 3, 3) | n.view(2, -1, -1)
n.reshape(n.shape) | n.unflatten(-1, (3, 1)) | n.unflatten(1, (1, 3)) | n[0, 0, 0] | n[:1, 0] | n.where(n > 3, 0.0)
torch.where(n > 3, n, torch.tensor(0.0)) | torch.where(n > 3, n, 0) | torch.where(n > 3, 0, n) | torch.where(k, n, n)
n.masked_fill(n > 3, 0) | n.masked_fill(torch.ones(2, 1, 1) > 0, 1.0) | n.clamp(1, 2) | n.addcmul(n, n) | torch.lerp(n, n, 0.5)
n.pow(n) | torch.maximum(n, n) | torch.atan2(n, torch.tensor(1.0)) | n.type(torch.float64) | n.type() | n.type_as(n) | ~n.bool()
n & n | n.bool() & n.bool() | n.float_power(2) | F.softplus(n) | F.elu(n) | F.hardtanh(n) | F.logsigmoid(n) | F.glu(n)
F.normalize(n, dim=-1) | F.mse_loss(n, n) | F.threshold(n, 1, 2) | F.embedding(ni, torch.arange(8.0).view(4, 2)) | n.new_zeros(())
n.new_zeros(2) | n.new_tensor([1.0]) | n.mH | n.H | n.data | torch.full_like(n, 3.0) | torch.zeros_like(n, dtype=torch.int64)
F.scaled_dot_product_attention(q, q, q) | F.scaled_dot_product_attention(q, q, q).transpose(1, 2).is_contiguous()
F.scaled_dot_product_attention(q, q, q, scale=2.0) | F.scaled_dot_product_attention(q, q, q, attn_mask=torch.ones(1))
n.size(1) == n.size(1) | n.size(1) == 3 | n.size(1) >= 2 | n.size(1) > 2 | n.size(1) < 2 | n.size(1) * 2 | isinstance(n.size(1), int)
gradient(x, x.sum()) | gradient(x, (x * x).sum()) | gradient(x, x.values().sum()) | gradient(x, x.unbind()[0].sum())
gradient(x, x * 2, torch.ones_like(x)) | gradient(x, x * 2) | gradient(x, x * 2, torch.ones(2, 3, 3))
gradient(x, (x * x).to_padded_tensor(0).sum()) | gradient(x, (x @ torch.ones(3, 4)).sum()) | gradient(x, x.mean())
gradient(x, F.layer_norm(x, (3,)).sum()) | gradient(x, x[1, 0].sum()) | gradient(x, x.transpose(1, 2).exp().sum())
gradient(x, F.linear(x, a, torch.ones(2)).sum()) | gradient(x, torch.cat([x, x], -1).sum()) | gradient(x, x.amax(1).sum())
torch.autograd.grad((x * x).sum(), x) | torch.autograd.grad(x * x, x, torch.ones_like(x)) | (x + 1).requires_grad | x.exp_()
gradient(v.requires_grad_(), nested.nested_tensor_from_jagged(v, o).exp().sum()) | x.detach().requires_grad
gradient(a.requires_grad_(), nested.as_nested_tensor([a, b], layout=torch.jagged).square().sum())
"""

STRIDED = """
s.shape | s.size() | s.stride() | len(s) | [*s] | s.tolist() | s.numpy() | s.offsets | s._nested_tensor_size()
s._nested_tensor_strides() | s._nested_tensor_storage_offsets() | s.transpose(1, 2)._nested_tensor_strides()
s.chunk(3, -1)[1]._nested_tensor_storage_offsets() | nested.nested_tensor([]) | nested.nested_tensor(1) | nested.nested_tensor([1, 2])
nested.nested_tensor([[1, 2], [3]]) | nested.nested_tensor([[[1.0], [2.0]], [[3.0]]]) | nested.nested_tensor([a, torch.ones(3)])
nested.nested_tensor([a, torch.ones(2, 4)]) | nested.nested_tensor([a, b], dtype=torch.float64) | nested.nested_tensor([a, b.double()])
nested.nested_tensor([torch.tensor(1.0), torch.tensor(2.0)]) | nested.nested_tensor(torch.ones(2, 3, 2)) | nested.nested_tensor([s])
nested.nested_tensor([[1, 2], [3]], requires_grad=True) | nested.nested_tensor(((1, 2), (3,))) | nested.nested_tensor([["a"]])
nested.as_nested_tensor([a, b]) | nested.as_nested_tensor((a, b)) | nested.as_nested_tensor(torch.ones(2, 3, 2))
nested.as_nested_tensor(s) | nested.as_nested_tensor(s, layout=torch.strided) | nested.as_nested_tensor(s, layout=torch.jagged)
nested.as_nested_tensor(torch.ones(2)) | nested.as_nested_tensor(1) | nested.as_nested_tensor([1]) | s.narrow(0, 0, 1)
nested.narrow(rows, 1, torch.tensor([0, 1]), 2) | s + s4 | s * s4 | s + si | s - s | s - 1 | s / s | s / torch.tensor(2.0)
torch.tensor(2.0) + s | s * torch.ones(2, 1, 3) | 1 / s | s // 2 | s > s | s < 1 | s != 1 | s == s | s == torch.tensor(1.0)
s == torch.ones(8) | s > torch.tensor(1.0) | s.add(s, alpha=2) | s.sub(s, alpha=2) | s.masked_fill(s > 1, 5.0)
s.masked_fill(s > 1, torch.tensor(1.0)) | s.masked_fill(torch.ones(1) > 0, 0.0) | torch.where(s > 1, s, s)
torch.where(s > 1, torch.zeros(3), s) | torch.where(torch.ones(1) > 0, torch.ones(1), s) | s @ s | s4.transpose(2, 3) @ s4
s @ s.transpose(1, 2) | torch.bmm(s, s.transpose(1, 2)) | torch.bmm(s4, s4) | torch.bmm(s, torch.ones(2, 3, 2))
s @ torch.ones(2, 3, 2) | torch.ones(2, 2, 2) @ s | torch.cat([s, s], -1) | torch.cat([s, torch.ones(2, 3)]) | s.chunk(2, -1)
s.split([1, 1], -1) | s.split([1, 2], 1) | s.transpose(1, 2).contiguous().values() | s.transpose(1, 2).values()
s.transpose(1, 2).is_contiguous() | s.transpose(1, 2) * 2 | s.transpose(1, 2).relu_() | s.transpose(1, 2).sum(-1, keepdim=True)
F.linear(s.transpose(1, 2), torch.ones(2, 2)) | s.chunk(3, -1)[1] * 2 | s.reshape(2, -1, 3) | s.reshape(2, -1) | s.view(2, 3, -1)
s4.view(2, -1, 6) | s4.transpose(1, 2).view(2, -1, 6) | s4.transpose(1, 2).reshape(2, 3, -1) | s.reshape_as(s) | s.view(2, 2, 3)
st.reshape(2, -1, 2, 4).transpose(1, 2) | s.unbind(-3) | s.uniform_() | s.exp_() | s.sin_() | s.sigmoid() | s.clamp(0, 1)
F.relu(s, inplace=True) | F.layer_norm(s, (3,)) | F.layer_norm(s, (2,), torch.ones(2), torch.ones(2)) | F.linear(s4, torch.ones(4, 2))
F.layer_norm(s4, (3, 2), torch.ones(3, 2), torch.ones(3, 2)) | F.embedding(si, torch.arange(8.0).view(4, 2)) | F.mse_loss(s, s)
F.gelu(s, approximate="tanh") | F.scaled_dot_product_attention(s, s, s) | F.scaled_dot_product_attention(s4, s4, s4)
F.scaled_dot_product_attention(s4, s4, s4, is_causal=True) | F.scaled_dot_product_attention(s, s, s, attn_mask=torch.ones(1))
F.scaled_dot_product_attention(*[s4.transpose(1, 2)] * 3) | s.is_same_size(s4) | s.copy_(s4) | s.copy_(torch.ones(2)) | y.zero_()
s.sum((1, 2)) | s.sum() | s.sum(-1, keepdim=True, dtype=torch.float64) | s.all(-1, keepdim=True) | s.bool().all(-1)
s.bool().all(-1, keepdim=True) | s.bool().all(0) | s.norm() | s.mean(1) | s.max() | s.max(1) | s.argmax(1) | s.sort()
s.expand(2, -1, 3) | s.to_padded_tensor(0, (2, 1, 3)) | s.to_padded_tensor(0, (2, 2)) | s4.to_padded_tensor(0) | si.to_padded_tensor(7)
nested.to_padded_tensor(nested.nested_tensor([]), 0) | s.data | s.type() | torch.equal(s, s) | torch.full_like(s, 2.0)
nested.nested_tensor([[1.0]]).item() | gradient(y, (y * y).values().sum()) | gradient(y, (y * y).to_padded_tensor(0).sum())
gradient(y, y.unbind()[0].sum()) | gradient(y, y * 2, torch.ones_like(y)) | gradient(y, y * 2) | gradient(y, y * 2, torch.ones(9))
gradient(y, F.linear(y, a, torch.ones(2)).to_padded_tensor(0).square().sum()) | torch.autograd.grad((y * y).values().sum(), y)
gradient(y, torch.softmax(y, -1).values().square().sum()) | gradient(y, (y @ y.transpose(1, 2)).to_padded_tensor(0).sum())
gradient(y, F.layer_norm(y, (3,), torch.ones(3), torch.ones(3)).values().square().sum()) | y.grad
gradient(a.requires_grad_(), nested.as_nested_tensor([a, b]).to_padded_tensor(0).square().sum())
torch._nested_tensor_from_mask(rows, ~pad) | torch._nested_tensor_from_mask_left_aligned(rows, ~pad)
torch._nested_tensor_from_mask(rows, pad) | torch._nested_from_padded(rows, torch.tensor([[2, 2], [1, 2]]))
torch._nested_tensor_from_tensor_list([a, b])
torch._nested_view_from_buffer(v.view(-1), torch.tensor([[2, 3], [1, 3]]), torch.tensor([[3, 1], [3, 1]]), torch.tensor([0, 6]))
quietly(lambda: mha(st, st, st)) | quietly(lambda: mha(st, st, st, need_weights=False)) | mha(st, st, st)
quietly(lambda: mha(st, st, st, average_attn_weights=False)) | quietly(lambda: mha.train()(st, st, st))
quietly(lambda: mha(st, st + 1, st)) | quietly(lambda: mha(st, st, st, key_padding_mask=pad)) | quietly(lambda: layer(st))
quietly(lambda: stack(rows, src_key_padding_mask=pad)) | stack(rows, src_key_padding_mask=pad)
quietly(lambda: stack(rows, src_key_padding_mask=pad[:, [2, 0, 1, 3]])) | quietly(lambda: stack(st))
quietly(lambda: stack(rows, src_key_padding_mask=torch.where(pad, -torch.inf, 0.0)))
quietly(lambda: stack(rows, src_key_padding_mask=pad | True))
quietly(lambda: stack(rows, mask=torch.zeros(4, 4), src_key_padding_mask=pad))
"""

MASKED = """
m | torch.masked.masked_tensor(torch.arange(24.0).view(2, 3, 4), torch.arange(24).view(2, 3, 4) % 2 == 0)
torch.masked.masked_tensor(torch.tensor(3.0), torch.tensor(True)) | torch.masked.masked_tensor(torch.tensor(3.0), torch.tensor(False))
i | torch.masked.masked_tensor(k, k) | torch.masked.masked_tensor(torch.tensor([1 + 1j]), torch.tensor([True]))
torch.masked.masked_tensor(torch.tensor([1e10, 2]), torch.tensor([True, False])) | torch.masked.masked_tensor(a.half(), k)
torch.masked.masked_tensor(a, k.float()) | torch.masked.masked_tensor(a, k[0]) | torch.masked.masked_tensor(1, k)
torch.masked.masked_tensor(a, 1) | torch.masked.masked_tensor(m, k) | torch.masked.masked_tensor(a, k.view(3, 2))
torch.masked.MaskedTensor(a.bfloat16(), k) | torch.masked.as_masked_tensor(a, k) | torch.masked.is_masked_tensor(m)
torch.masked.is_masked_tensor(a) | m.get_data() | m.get_mask() | m.to_tensor(9.0) | m.to_dense() | m.is_sparse_coo() | m.is_sparse
m.to_sparse() | m.to_sparse_csr() | m.to_sparse().to_dense() | m.to_sparse() + m.to_sparse() | m.to_sparse().sum()
torch.masked.masked_tensor(a.to_sparse(), k.to_sparse()) | m.shape | m.size() | m.stride() | m.dim() | m.numel() | m.layout | m.dtype
m + m | m + u | m + a | a + m | 1 + m | 1 - m | m * 2 | 2 / m | m / m | m**2 | 2**m | m == m | m == 1 | m > 1 | m & m | i & i | ~i
torch.add(m, m) | torch.add(m, m, alpha=2) | torch.div(m, m, rounding_mode="floor") | m.exp_() | m.add_(1) | m.sqrt() | -m | abs(m)
m.float() | m.double() | m.int() | m.to(torch.int64) | m.sum() | m.sum(0) | m.sum(dim=1) | m.sum(1, keepdim=True) | torch.sum(m, 1)
m.mean() | m.mean(0) | m.amax() | m.amax(1) | m.amin(1) | m.argmax() | m.argmax(1) | m.argmin(1) | m.prod() | m.prod(1) | m.all()
m.all(1) | m.any() | m.norm() | m.var() | m.std() | m.var(1) | m.std(1) | m.var(1, unbiased=False) | m.max() | m.median()
m.cumsum(0) | m.softmax(1) | torch.softmax(m, 1) | F.softmax(m, 1) | m.log_softmax(1) | F.relu(m) | torch.sigmoid(m) | F.gelu(m)
z.sum() | z.mean() | z.amax() | z.sum(1) | i.sum() | i.mean() | i.amax(1) | m.sum((0, 1)) | m.sum([0]) | m.mean((0, 1), True)
m.sum(dtype=torch.float64) | m[0] | m[:, 1] | m[0, 0] | m[k] | m[None] | m[..., 1:] | m[torch.tensor([0])] | len(m) | [*m]
m.tolist() | m.item() | m[0, 0].item() | m[0, 1].item() | bool(m[0, 0]) | m.view(3, 2) | m.reshape(-1) | m.flatten() | m.t() | m.T
m.transpose(0, 1) | m.permute(1, 0) | m.unsqueeze(0) | m.squeeze() | m.expand(2, 2, 3) | m.t().contiguous() | m.clone() | m.detach()
m.split(1) | m.chunk(2) | m.unbind() | torch.cat([m, m]) | torch.cat([m, a]) | torch.stack([m, m]) | m.unfold(1, 2, 1) | m.select(0, 1)
m.narrow(1, 0, 1) | m.repeat(2, 1) | m.flip(0) | torch.mm(m, m) | m @ a.t() | torch.where(k, m, u) | torch.where(k, m, a)
torch.zeros_like(m) | torch.ones_like(m) | torch.empty_like(m) | m.copy_(u) | m.zero_() | m.fill_(1) | m.masked_fill(k, 1.0)
torch.isnan(m) | m.isinf() | torch.clamp(m, 0, 1) | torch.clamp(m, min=1) | m.round() | m.round(decimals=1) | m.logit() | m.pow(m)
torch.maximum(m, m) | torch.atan2(m, m) | torch.equal(m, m) | m.numpy() | m.cpu() | m.is_contiguous() | m.is_leaf | g.is_leaf
F.layer_norm(m, (3,)) | m.polygamma(1) | torch.lerp(m, m, 0.5) | torch.xlogy(m, m) | m.sort() | m.nan_to_num() | m // 2 | m % 2
gradient(g, g.sum()) | gradient(g, (g * g).sum()) | gradient(g, g.mean()) | gradient(g, g.amax()) | gradient(g, g.prod())
gradient(g, g.var()) | gradient(g, g.exp(), torch.ones_like(g)) | gradient(g, g.sum(1), torch.masked.masked_tensor(v[0, :2], k[0, :2] | True))
gradient(g, (1 / g).sum()) | torch.autograd.grad(g.sum(), g) | g.grad | torch.masked.sum(m, 1) | m.add(torch.ones(3)) | m + torch.ones(2, 2, 3)
"""


def calls():
    """All calls, as text."""
    made = []
    for group, names in ((BOTH, "n4 n x q s4 s y"), (CHANGING, "n s y")):
        for call in split(group):
            made += [re.sub(r"\bT\b", name, call) if name != "T" else call for name in names.split()]
    for group in (JAGGED, STRIDED, MASKED):
        made += split(group)
    return [call for call in dict.fromkeys(made) if call not in WRONG]


#: torch pads these to the size of another dimension.
WRONG = {"q.to_padded_tensor(0)", "nested.to_padded_tensor(q, -1.0)"}


def split(group):
    return [call.strip() for line in group.strip().splitlines() for call in re.split(r" \| (?!i\b|k\b|True)", line)]


def outcome(torch, call):
    """The result of a call, or its error, in a form that JSON holds."""
    names = {"torch": torch}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(SETUP, names)
            if re.search(r"\b(mha|layer|stack|rows)\b", call):
                exec(MODULES, names)
            return {"result": described(torch, eval(call, names))}
    except Exception as error:
        return {"error": [type(error).__name__, first_sentence(str(error))]}


def first_sentence(text):
    return re.sub(r"j\d+", "j", re.split(r"\.(?=\s|$)", text.split("\n")[0], maxsplit=1)[0].strip())


def described(torch, value):
    if isinstance(value, torch.Size):
        return re.sub(r"j\d+", "j", str(value))
    if isinstance(value, (tuple, list)):
        return [described(torch, one) for one in value]
    if not isinstance(value, torch.Tensor):
        return re.sub(r"j\d+", "j", repr(value))
    if torch.masked.is_masked_tensor(value):
        mask = value.get_mask()
        return {"mask": described(torch, mask), "text": repr(value), "requires_grad": value.requires_grad}
    if value.is_nested and value.layout == torch.strided:
        samples = [described(torch, one.detach()) for one in value.unbind()]
        return {"samples": samples, "requires_grad": value.requires_grad, "contiguous": value.is_contiguous()}
    if value.is_nested:
        return {
            "size": re.sub(r"j\d+", "j", str(value.shape)),
            "samples": [described(torch, one.detach()) for one in value.unbind()],
            "requires_grad": value.requires_grad,
            "contiguous": value.is_contiguous(),
        }
    kind = str(value.dtype).removeprefix("torch.").removeprefix("rushlight.")
    if value.layout is not torch.strided:
        value = value.to_dense()
    return {"shape": list(value.shape), "dtype": kind, "values": value.detach().reshape(-1).tolist()}


def main():
    import torch

    recorded = {call: outcome(torch, call) for call in calls()}
    lines = ",\n".join(f"{json.dumps(call)}: {json.dumps(found)}" for call, found in recorded.items())
    RECORDED.write_text(f"{{\n{lines}\n}}\n")


if __name__ == "__main__":
    main()
