"""Arguments of methods and functions of the engine that torch refuses by their kind or value."""

import pytest

import rushlight as torch


def test_a_device_by_its_name_is_no_dtype():
    x = torch.ones(2)
    for given in (torch.float64, torch.ones(1, dtype=torch.float64), 2.5):
        with pytest.raises(TypeError, match=r"to\(\) received an invalid combination of arguments - got \(device="):
            x.to(device=given)
    with pytest.raises(TypeError, match=r"got \(torch.dtype, device=str\)"):
        x.to(torch.float64, device="cpu")
    with pytest.raises(TypeError, match=r"got \(NoneType, device=str\)"):
        x.to(None, device="cpu")
    assert x.to(device="cpu", dtype=torch.float64).dtype == torch.float64
    assert x.to(device=None) is x
    assert x.to(tensor=torch.ones(1, dtype=torch.float16)).dtype == torch.float16


def test_devices_of_bytes_and_of_too_many_bits():
    assert torch.zeros(1, device=b"cpu").device.type == "cpu"
    with pytest.raises(RuntimeError, match="Expected one of cpu, cuda"):
        torch.zeros(1, device=b"x")
    for number in (2**70, -(2**70)):
        with pytest.raises(ValueError, match="Overflow when unpacking long long"):
            torch.zeros(1, device=number)


def test_the_name_of_a_meta_tensor():
    assert torch.typename(torch.ones(1, device="meta")) == "torch.meta.FloatTensor"


def test_seeds_of_a_generator_are_integers():
    for seed in (2.5, "x", None, True, torch.tensor(3), [1]):
        with pytest.raises(RuntimeError, match="manual_seed expected a long, but got "):
            torch.Generator().manual_seed(seed)
    assert torch.Generator().manual_seed(3).initial_seed() == 3
    assert torch.manual_seed(2.5).initial_seed() == 2


def test_imaginary_parts_are_not_dropped():
    x = torch.ones(2, 3)
    with pytest.raises(RuntimeError, match="value cannot be converted to type double without overflow"):
        torch.nn.functional.rrelu(x, 1j, 0.3)
    with pytest.raises(RuntimeError, match="value cannot be converted to type float without overflow"):
        torch.nn.functional.multi_margin_loss(x, torch.tensor([0, 1]), margin=1j)
    with pytest.raises(TypeError):
        torch.histogram(x, 3, range=(0, 1j))
    with pytest.raises(TypeError, match="must be tuple of floats, but found element of type complex at pos 2"):
        torch._C._fused_step([x, x], "adadelta", [0.0, 1j])
    with pytest.raises(RuntimeError, match="eps must be non-negative, got: nan"):
        torch.nn.functional.cosine_similarity(x, x, 1, float("nan"))


def test_own_sentences_on_meta():
    """torch on the CPU gives these for tensors on `meta`."""
    here, there = torch.ones(3, 3), torch.ones(3, 3, device="meta")
    for call, sentence in (
        (
            lambda: torch.linalg.multi_dot([here, here, there]),
            "multi_dot(): all tensors must be on the same device but tensor 0 is on cpu and tensor 2 on meta",
        ),
        (
            lambda: torch.block_diag(here, there),
            "Input tensors must all be on the same device. Input 0 is on device cpu and input 1 is on device meta.",
        ),
        (lambda: torch.meshgrid(here[0], there[0]), "meshgrid expects all tensors to have the same device"),
        (lambda: here.quantile(there[0]), "quantile() q tensor must be on the same device as the input tensor"),
        (
            lambda: there.take_along_dim(torch.zeros(3, 3, dtype=torch.long), 0),
            "Expected tensor to have meta Device, but got tensor with cpu Device (while checking arguments for torch.take_along_dim():)",
        ),
        (
            lambda: torch.nn.functional.scaled_dot_product_attention(there, here, there),
            "Expected query, key, and value to have the same device type, but got query.device: meta key.device: cpu and value.device: meta instead.",
        ),
        (lambda: torch.nn.functional.linear(there, here), "Tensor on device cpu is not on the expected device meta!"),
    ):
        with pytest.raises(RuntimeError) as caught:
            call()
        assert str(caught.value).startswith(sentence + "\n")
