"""Fourier transforms: compared with NumPy for many lengths and dimensions, inverses, gradients, threads and forks."""

import os

import numpy as np
import pytest

import rushlight as torch


def signal(*sizes, complex=False):
    random = np.random.default_rng(sum(sizes))
    values = random.standard_normal(sizes)
    return values + 1j * random.standard_normal(sizes) if complex else values


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 13, 16, 17, 100, 127, 360, 1009])
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_every_length_along_every_dimension(n, dim):
    sizes = [2, 3, 4]
    sizes[dim] = n
    x = signal(*sizes, complex=True)
    assert np.allclose(torch.fft.fft(torch.tensor(x), dim=dim).numpy(), np.fft.fft(x, axis=dim))
    assert np.allclose(torch.fft.ifft(torch.tensor(x), dim=dim).numpy(), np.fft.ifft(x, axis=dim))
    real = torch.fft.rfft(torch.tensor(x.real), dim=dim)
    assert np.allclose(real.numpy(), np.fft.rfft(x.real, axis=dim))
    assert np.allclose(torch.fft.irfft(real, n, dim).numpy(), x.real)


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
def test_pairs_are_inverses(norm):
    x = torch.tensor(signal(3, 6, 5))
    for there, back in (("fftn", "ifftn"), ("fft2", "ifft2"), ("ifftn", "fftn")):
        found = getattr(torch.fft, back)(getattr(torch.fft, there)(x, norm=norm), norm=norm)
        assert torch.allclose(found.real, x)
    for there, back in (("rfftn", "irfftn"), ("ihfftn", "hfftn"), ("rfft2", "irfft2"), ("ihfft2", "hfft2")):
        sizes = x.shape if there.endswith("n") else x.shape[-2:]
        found = getattr(torch.fft, back)(getattr(torch.fft, there)(x, norm=norm), s=sizes, norm=norm)
        assert torch.allclose(found, x)


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft", "fftn", "rfftn", "irfftn", "hfftn"])
def test_gradients(name):
    function = getattr(torch.fft, name)
    complex = name in ("fft", "ifft", "irfft", "hfft", "fftn", "irfftn", "hfftn")
    x = torch.tensor(signal(3, 5, complex=complex), requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: function(x, norm="ortho"), (x,))
    assert torch.autograd.gradgradcheck(lambda x: function(x, norm="ortho"), (x,))


def test_halves_are_refused_as_in_torch():
    with pytest.raises(RuntimeError, match="Unsupported dtype Half"):
        torch.fft.fft(torch.ones(4, dtype=torch.float16))
    with pytest.raises(RuntimeError, match="rfft expects a real input tensor, but got ComplexFloat"):
        torch.fft.rfft(torch.ones(4, dtype=torch.complex64))


def test_windows_are_undone():
    x = torch.tensor(signal(2, 64))
    window = torch.tensor(np.hanning(17)[:-1])
    for arguments in ({}, {"onesided": False}, {"normalized": True}):
        spectrum = torch.stft(x, 16, 4, window=window, return_complex=True, **arguments)
        assert torch.allclose(torch.istft(spectrum, 16, 4, window=window, length=64, **arguments), x)


def test_a_window_that_leaves_gaps_cannot_be_undone():
    spectrum = torch.stft(torch.ones(16), 4, return_complex=True)
    with pytest.raises(RuntimeError, match="window overlap add min"):
        torch.istft(spectrum, 4, window=torch.zeros(4))


def test_bits_do_not_depend_on_the_number_of_threads():
    x = torch.tensor(signal(50, 300, complex=True))
    before = torch.get_num_threads()
    try:
        results = set()
        for threads in (1, 2, 5):
            torch.set_num_threads(threads)
            results.add(torch.fft.fftn(x).numpy().tobytes())
        assert len(results) == 1
    finally:
        torch.set_num_threads(before)


def test_a_forked_child_transforms():
    torch.fft.fft(torch.ones(30))
    child = os.fork()
    if child == 0:
        fine = (
            float(torch.fft.fft(torch.ones(30)).real[0]) == 30 and float(torch.fft.rfft(torch.ones(31)).real[0]) == 31
        )
        os._exit(0 if fine else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_one_number_stands_for_a_list_of_one():
    x = torch.randn(3, 4)
    assert torch.equal(torch.fft.fftn(x, 5, 1), torch.fft.fft(x, 5, 1))
    assert torch.equal(torch.fft.rfft2(x, dim=0), torch.fft.rfft(x, dim=0))


def test_frames_that_begin_with_their_window():
    x, window = torch.arange(1.0, 10.0), torch.tensor([1.0, 2.0])
    arguments = {
        "n_fft": 6,
        "hop_length": 2,
        "win_length": 2,
        "window": window,
        "center": False,
        "return_complex": True,
    }
    aligned = torch.stft(x, align_to_window=True, **arguments)
    middle = torch.nn.functional.pad(window, (2, 2))
    frames = torch.nn.functional.pad(x, (2, 2)).unfold(0, 6, 2)[:4]
    assert torch.allclose(aligned, torch.fft.rfft(frames * middle).T, atol=1e-5)
    for apart in (False, None):
        frames = x.unfold(0, 6, 2)
        assert torch.allclose(
            torch.stft(x, align_to_window=apart, **arguments), torch.fft.rfft(frames * middle).T, atol=1e-5
        )
    with pytest.raises(RuntimeError, match="align_to_window should only be set when center = false"):
        torch.stft(x, 4, window=torch.ones(4), align_to_window=True, return_complex=True)
    with pytest.raises(RuntimeError, match="expected 0 < n_fft < 3, but got n_fft=2"):
        torch.stft(x[:3], 5, 1, 2, window, center=False, align_to_window=True, return_complex=True)
    with pytest.raises(RuntimeError, match="setStorage"):
        torch.stft(x, 5, 1, 2, window, center=False, align_to_window=True, return_complex=True)
