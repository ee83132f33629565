"""Programs that compare convolutions on the card made of software with those of the host, for `test_convolutions.py` and
`test_own_convolutions.py`."""

#: `library()` counts the calls of the stand-in for cuDNN, `loose()` those whose bits may differ from call to call, and `launches()` the
#: kernels.
COUNTERS = """
import ctypes
F = torch.nn.functional
cudnn = torch.backends.cudnn
card = ctypes.CDLL("libcuda.so.1")
def counter(name):
    function = getattr(card, "softcuda_" + name)
    function.restype = ctypes.c_uint64
    def read():
        torch.cuda.synchronize()
        return function()
    return read
library, loose, measurements = counter("convolutions"), counter("loose_convolutions"), counter("measurements")
launches = counter("launches")
"""

FORMS = """
TOLERANCE = {torch.float16: 2e-2, torch.bfloat16: 1e-1, torch.float32: 1e-4, torch.complex64: 1e-4}
# Sizes of the input and of the weight, and settings, for one, two and three dimensions.
FORMS = [
    ((2, 4, 9), (6, 4, 3), {"stride": 2, "padding": 1}),
    ((2, 4, 9), (6, 2, 3), {"dilation": 2, "groups": 2}),
    ((3, 9), (2, 3, 4), {"padding": "same"}),
    ((2, 3, 7, 8), (5, 3, 3, 2), {}),
    ((2, 4, 7, 8), (6, 2, 3, 3), {"stride": (2, 1), "padding": (1, 2), "dilation": (1, 2), "groups": 2}),
    ((2, 4, 7, 8), (4, 1, 3, 3), {"padding": 1, "groups": 4}),
    ((2, 3, 6, 5), (4, 3, 2, 4), {"padding": "same"}),
    ((1, 3, 6, 6), (4, 3, 1, 1), {"stride": 2}),
    ((2, 2, 4, 5, 4), (3, 2, 2, 3, 2), {"stride": (1, 2, 1), "padding": 1}),
    ((2, 2, 4, 5, 4), (3, 2, 2, 3, 2), {"padding": "same"}),
]
TRANSPOSED = [
    ((2, 4, 5), (4, 3, 3), {"stride": 3, "padding": 1, "output_padding": 2}),
    ((2, 4, 4, 5), (4, 3, 3, 2), {"stride": 2, "padding": 1, "output_padding": 1, "groups": 2}),
    # Windows that end before the additional elements do.
    ((2, 2, 4, 4), (2, 3, 2, 2), {"dilation": 3, "output_padding": 2}),
    ((2, 2, 3, 4, 3), (2, 3, 2, 2, 2), {"stride": 2}),
]
def convolution(x, weight, bias, settings, transposed):
    dims = weight.ndim - 2
    return getattr(F, f"conv{'_transpose' * transposed}{dims}d")(x, weight, bias, **settings)
def results(x, weight, bias, seed, settings, transposed, again):
    # A result, its gradients, and the gradients of those.
    operands = [x.requires_grad_(), weight.requires_grad_(), bias.requires_grad_()]
    y = convolution(*operands, settings, transposed)
    loss = ((y**2 if again else y) * seed.to(y).reshape(-1)[: y.numel()].reshape(y.shape)).sum()
    grads = torch.autograd.grad(loss.real if loss.is_complex() else loss, operands, create_graph=again)
    if not again:
        return [y, *grads]
    return [y, *grads, *torch.autograd.grad(sum((grad**2).sum() for grad in grads), operands[:2])]
def same(x, weight, bias, seed, settings, transposed, calls, again=False):
    # The operands lie on the device as on the host.
    moved = [tensor.detach().cuda() for tensor in (x, weight, bias)]
    assert [tensor.stride() for tensor in moved] == [tensor.stride() for tensor in (x, weight, bias)]
    host = results(x.detach(), weight.detach(), bias.detach(), seed, settings, transposed, again)
    before = library()
    card = results(*moved, seed, settings, transposed, again)
    for one, other in zip(host, card, strict=True):
        assert one.dtype == other.dtype and one.stride() == other.stride(), (settings, one.stride(), other.stride())
        far = (other.detach().cpu() - one.detach()).abs().max().item() / max(1, one.detach().abs().max().item())
        assert far <= TOLERANCE.get(x.dtype, 1e-10), (x.shape, x.dtype, settings, far)
    assert library() - before == calls, (x.shape, x.dtype, settings, library() - before)
def operands(sizes, own, transposed, settings, dtype=torch.float64):
    features = own[1] * settings.get("groups", 1) if transposed else own[0]
    return [torch.randn(*shape, dtype=torch.float64).to(dtype) for shape in (sizes, own, (features,), (10000,))]
ALL = [*[(*form, False) for form in FORMS], *[(*form, True) for form in TRANSPOSED]]
"""
