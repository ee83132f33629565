"""`rushlight._compiled`: functions written in Python refuse arguments as torch's compiled functions do."""

import compiled_cases
import pytest

import rushlight as torch
from rushlight import _C
from rushlight._compiled import compiled

RECORD = [line.split(" | ") for line in compiled_cases.RECORD.read_text().splitlines()]


def test_every_name_is_recorded():
    assert len(RECORD) == len(compiled_cases.NAMES) * len(compiled_cases.CALLS)


@pytest.mark.parametrize("name", compiled_cases.NAMES)
def test_arguments_are_refused_with_the_sentences_of_torch(name):
    for call, expected in RECORD:
        if call.startswith(f"{name}("):
            assert compiled_cases.answer(torch, name, call[len(name) + 1 : -1]) == expected, call


def test_a_method_counts_its_positions_without_its_object():
    with pytest.raises(TypeError, match=r"^smm\(\): argument 'mat2' \(position 1\) must be Tensor, not int"):
        torch.eye(2).to_sparse().smm(1)


def test_a_class_that_overrides_functions_sees_the_call_first():
    class Seen:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func.__name__

    assert torch.detach_copy(Seen()) == "detach_copy"


def test_a_signature_follows_from_annotations():
    @compiled()
    def scaled(input: "Tensor", by: "complex" = 2, *, flag: "bool | None" = None) -> "Tensor":  # noqa: F821
        return input * by

    assert scaled(torch.ones(1), 3).item() == 3
    with pytest.raises(TypeError, match=r"scaled\(\): argument 'by' \(position 2\) must be Number, not str"):
        scaled(torch.ones(1), "a")
    with pytest.raises(TypeError, match=r"scaled\(\): argument 'flag' must be bool, not int"):
        scaled(torch.ones(1), flag=1)


def test_names_of_all_signatures_are_taken():
    x = torch.ones(2)
    assert torch.result_type(scalar=1.5, tensor=x.int()) is torch.result_type(scalar1=1, scalar2=1.5) is torch.float32
    (stored,) = torch.quantize_per_tensor(
        [x], scales=torch.tensor([0.5]), zero_points=torch.tensor([0]), dtype=torch.quint8
    )
    assert torch.dequantize(tensors=[stored])[0].tolist() == [1.0, 1.0]


def test_a_text_that_is_no_signature_is_refused():
    with pytest.raises(ValueError, match="not signatures of f: Thing x"):
        _C._Signatures("f", ["Thing x"], False)
