"""Results and gradients of functions on the CPU and on a device, and how they are compared."""

import rushlight as torch


def both(function, *operands):
    """The results and the gradients of the operands that are floats, on the CPU and on the device."""
    outcomes = []
    for device in ("cpu", "cuda"):
        own = [
            x.detach().to(device).requires_grad_(x.is_floating_point() and x.requires_grad)
            if isinstance(x, torch.Tensor)
            else x
            for x in operands
        ]
        results = function(*own)
        results = results if isinstance(results, tuple) else (results,)
        floats = [x for x in results if x.requires_grad]
        weights = [torch.cos(torch.arange(x.numel(), device=device).reshape(x.shape)).to(x.dtype) for x in floats]
        wanted = [x for x in own if isinstance(x, torch.Tensor) and x.requires_grad]
        grads = torch.autograd.grad(floats, wanted, weights) if floats else ()
        outcomes.append([x.detach().cpu() for x in (*results, *grads)])
    return zip(*outcomes, strict=True)


def exact(function, *operands):
    for wanted, found in both(function, *operands):
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
        assert torch.equal(torch.nan_to_num(found, nan=12345.0), torch.nan_to_num(wanted, nan=12345.0))


def close(function, *operands, tolerance=2e-5):
    for wanted, found in both(function, *operands):
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
        assert torch.allclose(found.double(), wanted.double(), rtol=tolerance, atol=tolerance, equal_nan=True)


def floats(*shape, dtype=torch.float32):
    return torch.randn(*shape).to(dtype).requires_grad_()


def equal(got, wanted, tolerance=0.0):
    """Whether a result on a device is that of the CPU."""
    if wanted.is_complex():
        return torch.equal(got.cpu(), wanted)
    got, wanted = got.cpu().double(), wanted.double()
    return torch.allclose(got, wanted, rtol=tolerance, atol=tolerance, equal_nan=True)
