"""What calls take beside tensors of one device: numbers, `out=`, and what they say to others."""

import re

import pytest

import rushlight as torch


def test_copy_of_a_number():
    x = torch.zeros(2)
    assert x.copy_(2.5) is x and x.tolist() == [2.5, 2.5]
    assert torch.zeros(2, dtype=torch.int32).copy_(2.5).tolist() == [2, 2]
    with pytest.raises(TypeError, match=r"^copy_\(\): argument 'src' \(position 1\) must be Tensor, not str"):
        x.copy_("a")


@pytest.mark.parametrize(
    "call",
    [
        lambda out: torch.add(torch.ones(3), 1, out=out),
        lambda out: torch.sum(torch.ones(3, 2), 1, out=out),
        lambda out: torch.cat([torch.ones(3)], out=out),
    ],
)
def test_out_on_another_device(call):
    sentence = "Attempting to copy from device cpu to device meta, but cross-device copies are not allowed!"
    with pytest.raises(RuntimeError, match=sentence):
        call(torch.empty(3, device="meta"))


def test_out_of_another_kind():
    x = torch.ones(3)
    with pytest.raises(TypeError, match=r"^add\(\): argument 'out' must be Tensor, not tuple"):
        torch.add(x, 1, out=(x,))
    with pytest.raises(TypeError, match="^expected tuple of 2 elements but got 1"):
        torch.sort(x, out=(x,))


def test_errors_of_arguments_name_the_family():
    with pytest.raises(TypeError, match=r"^linalg_cholesky\(\) missing 1 required positional arguments"):
        torch.linalg.cholesky()


def test_an_unknown_keyword_is_answered_with_the_known_ones():
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'dtyp'\nIts arguments are: size, dtype, "):
        torch.zeros(2, dtyp=torch.int32)


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda: torch.device(""), RuntimeError, "Device string must not be empty"),
        (lambda: torch.device(1.5), TypeError, "device(): argument 'type' (position 1) must be str, not float"),
        (lambda: torch.manual_seed("a"), ValueError, "invalid literal for int() with base 10: 'a'"),
        (lambda: torch.from_dlpack(5), RuntimeError, "from_dlpack received an invalid capsule."),
        (lambda: torch.ones(2, device="meta").__dlpack__(), BufferError, "Cannot pack tensors on meta"),
    ],
)
def test_refusals_begin_with_torchs_sentence(call, error, sentence):
    with pytest.raises(error, match=f"^{re.escape(sentence)}"):
        call()


@pytest.mark.parametrize(
    "name",
    "is_floating_point is_complex is_conj is_neg is_signed is_inference is_nonzero numel get_device detach".split(),
)
def test_questions_about_what_is_no_tensor(name):
    sentence = rf"{name}\(\): argument 'input' \(position 1\) must be Tensor, not "
    for wrong in (1.0, [1, 2], None):
        with pytest.raises(TypeError, match=sentence + type(wrong).__name__):
            getattr(torch, name)(wrong)


def test_other_arguments_that_are_no_tensors():
    x = torch.ones(2)
    for call, sentence in [
        (
            lambda: torch.is_same_size(x, 1),
            r"is_same_size\(\): argument 'other' \(position 2\) must be Tensor, not int",
        ),
        (lambda: torch.gradient("cpu"), r"gradient\(\): argument 'input' \(position 1\) must be Tensor, not str"),
        (lambda: x.map_(3, max), r"map_\(\): argument 'other' \(position 1\) must be Tensor, not int"),
        (lambda: x.pin_memory(range(2)), r"argument 'device' \(position 1\) must be torch.device, not range"),
    ]:
        with pytest.raises(TypeError, match=sentence):
            call()


@pytest.mark.filterwarnings("ignore:torch.set_default_tensor_type")
def test_default_types_are_types():
    with pytest.raises(
        TypeError, match="invalid type object: only floating-point types are supported as the default type"
    ):
        torch.set_default_tensor_type(3)
