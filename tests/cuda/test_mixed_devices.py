"""Calls of CUDA tensors with tensors on the host, where torch allows them, and storages of the device that change their size."""

from soft_card import needs_soft_card, run

pytestmark = needs_soft_card


def test_packed_sequences():
    """The numbers of sequences of a packed sequence lie on the host."""
    run(
        """
from rushlight.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

torch.backends.cudnn.allow_tf32 = False
def results(kind, device):
    torch.manual_seed(0)
    net = getattr(torch.nn, kind)(3, 4, 2, bidirectional=True).to(device)
    x = torch.randn(4, 6, 3).to(device).requires_grad_()
    packed = pack_padded_sequence(x, [6, 2, 5, 1], batch_first=True, enforce_sorted=False)
    assert packed.batch_sizes.device.type == "cpu" and packed.sorted_indices.device == x.device
    y, lengths = pad_packed_sequence(net(packed)[0])
    assert lengths.tolist() == [6, 2, 5, 1]
    return [y, *torch.autograd.grad(y.square().sum(), [x, *net.parameters()])]
for kind in ("RNN", "GRU", "LSTM"):
    for one, other in zip(results(kind, "cpu"), results(kind, "cuda"), strict=True):
        assert other.is_cuda and torch.allclose(one, other.cpu(), atol=1e-5), kind
"""
    )


def test_assignments():
    """A number on the host is assigned to elements of a tensor on the device; a row is not."""
    run(
        """
i, mask = torch.tensor([1, 0]), torch.tensor([True, False, False])
for index in (i, mask, i.cuda(), mask.cuda(), (i, i), 0, slice(1)):
    x, y = torch.zeros(3, 2), torch.zeros(3, 2, device="cuda")
    x[index.cpu() if isinstance(index, torch.Tensor) else index] = 2.0
    y[index] = torch.tensor(2.0)
    assert torch.equal(x, y.cpu()) and x.count_nonzero() > 0
try:
    y[i] = torch.ones(2)
except RuntimeError as error:
    assert str(error).startswith("expected device cuda:0 but got device cpu for value tensor"), error
else:
    raise AssertionError("no error")
"""
    )


def test_numbers_on_the_host():
    """Operators that choose elements take one; those that read by indices refuse it."""
    run(
        """
far, here = torch.arange(3.0, device="cuda"), torch.tensor(True)
for made in (torch.where(here, far, 9.0), far.where(here, torch.tensor(9.0)), torch.where(here, far, -far)):
    assert made.is_cuda and made.tolist() == [0, 1, 2]
assert torch.complex(torch.tensor(1.0), far).tolist() == [1, 1 + 1j, 1 + 2j]
index, one = torch.tensor(0), torch.ones(1, device="cuda")
calls = [
    lambda: far.index_select(0, index),
    lambda: far.gather(0, index),
    lambda: torch.gather(torch.tensor(1.0), 0, index.cuda()),
    lambda: far.scatter_add(0, index, one),
    lambda: far.index_copy(0, index, one),
    lambda: far.take(index),
    lambda: torch.isin(far, torch.tensor(1.0)),
    lambda: torch.embedding(torch.ones(4, 3, device="cuda"), index),
]
for number, call in enumerate(calls):
    try:
        call()
    except RuntimeError as error:
        assert str(error).startswith("Expected all tensors to be on the same device"), (number, error)
    else:
        raise AssertionError(f"no error in call {number}")
"""
    )


def test_dtypes_that_are_refused_on_the_host():
    """They are refused on the device too, under its name for the kernel."""
    run(
        """
calls = [
    *(lambda d, dtype=dtype: torch.ones(3, device=d).to(dtype).cumsum_(0) for dtype in (torch.bool, torch.uint16, torch.uint64)),
    lambda d: torch.ones(3, device=d).cumprod(0, dtype=torch.bool),
    lambda d: torch.zeros(3, dtype=torch.int64, device=d).masked_fill_(torch.ones(3, device=d) > 0, torch.tensor(1j, device=d)),
    lambda d: torch.zeros(3, dtype=torch.uint8, device=d).masked_fill_(torch.ones(3, device=d) > 0, torch.tensor(300, device=d)),
]
for number, call in enumerate(calls):
    refusals = []
    for device in ("cpu", "cuda"):
        try:
            call(device)
        except Exception as error:
            refusals.append((type(error), str(error).splitlines()[0].replace(f"_{device}\\"", "\\"")))
    assert len(refusals) == 2 and refusals[0] == refusals[1], (number, refusals)
whole = torch.tensor(True, device="cuda").cumsum_(0)
assert whole.item() is True and whole.dtype == torch.bool
"""
    )


def test_storages_change_their_size():
    """The bytes that fit stay, `out=` of another size grows, and freed memory is given back and refused."""
    run(
        """
x = torch.arange(4.0, device="cuda")
view = x[1:]
assert x.resize_(6).shape == (6,) and x[:4].tolist() == [0, 1, 2, 3]
x[1] = 9
assert view.tolist() == [9, 2, 3]
values, places = torch.empty(0, device="cuda"), torch.empty(0, dtype=torch.int64, device="cuda")
torch.sort(view, out=(values, places))
assert values.tolist() == [2, 3, 9] and places.tolist() == [1, 2, 0]
torch.add(view, 1, out=values.resize_(0))
assert values.tolist() == [10, 3, 4]

big = torch.ones(1 << 18, device="cuda")
storage, before = big.untyped_storage(), torch.cuda.memory_allocated()
assert storage.resizable() and storage.resize_(0).nbytes() == 0 and storage.device.type == "cuda"
assert before - torch.cuda.memory_allocated() == 1 << 20
try:
    big + 1
except RuntimeError as error:
    assert str(error).startswith("the tensor's storage was resized to zero bytes"), error
else:
    raise AssertionError("freed memory was read")
storage.resize_(4 << 18)
assert big.fill_(3).sum().item() == 3 << 18
storage.resize_(4)
assert storage.nbytes() == 4 and big[0].item() == 3

def on_other_stream():
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        y = torch.arange(1000.0, device="cuda") * 2
        y.resize_(2000)
        y[1000:] = 1
        return y.sum()
total = on_other_stream()
torch.cuda.synchronize()
assert total.item() == 999 * 1000 + 1000
""",
        SOFTCUDA_SEED=1,
    )


def test_functions_make_tensors_where_their_operands_are():
    """Functions that are written in Python make offsets, masks, weights and directions of their own."""
    run(
        """
F = torch.nn.functional
words, table = torch.tensor([[0, 2], [1, 1]]), torch.arange(6.0).reshape(3, 2)
assert torch.equal(F.embedding_bag(words.cuda(), table.cuda()).cpu(), F.embedding_bag(words, table))
assert F.embedding_bag(words[:, :0].cuda(), table.cuda()).tolist() == [[0, 0], [0, 0]]
heads, mask = torch.rand(1, 2, 4, 8), torch.nn.attention.bias.causal_lower_right(4, 4)
attended = F.scaled_dot_product_attention(heads.cuda(), heads.cuda(), heads.cuda(), mask)
torch.testing.assert_close(attended.cpu(), F.scaled_dot_product_attention(heads, heads, heads, attn_mask=mask))
image, grad = torch.rand(2, 4, 6, 6), torch.rand(2, 3, 4, 4)
weight = torch.nn.grad.conv2d_weight(image.cuda(), (3, 4, 3, 3), grad.cuda())
expected = torch.nn.grad.conv2d_weight(image, (3, 4, 3, 3), grad)
torch.testing.assert_close(weight.cpu(), expected, rtol=1e-3, atol=1e-2)
assert torch.nn.grad.conv2d_input((2, 4, 6, 6), weight, grad.cuda()).is_cuda
x = torch.ones(3, dtype=torch.float64).cuda().requires_grad_()
assert torch.autograd.gradgradcheck(torch.sin, (x,), gen_non_contig_grad_outputs=True)
every = {"check_batched_grad": True, "check_forward_ad": True, "check_batched_forward_grad": True}
assert torch.autograd.gradcheck(torch.sin, (x,), **every)
"""
    )
