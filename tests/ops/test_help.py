"""`help()` of the operators' functions and methods: what the definitions state."""

import doctest
import warnings

import pytest
from table_cases import OPERATORS

import rushlight as torch

FUNCTIONS = {
    f"{space}.{name}" if space else name: function
    for space, functions in torch._C._functions.items()
    for name, function in functions.items()
}
METHODS = {name: method for name, method in vars(torch.Tensor).items() if type(method) is type(torch.Tensor.add)}
#: The names of the in-place forms, of which the definition is that of the other forms.
IN_PLACE = sorted(
    {
        f"{name.rpartition('.')[2]}_"
        for op in OPERATORS
        if "inplace" in op.variants
        for name in (op.python_name, *op.aliases)
    }
    & METHODS.keys()
)


def texts(op):
    """The texts under all names of an operator."""
    names = [".".join(filter(None, (op.namespace, op.python_name))), *op.aliases]
    functions = [FUNCTIONS[name].__doc__ for name in names if "function" in op.variants and name in FUNCTIONS]
    forms = [names[0] + ending for variant, ending in (("method", ""), ("inplace", "_")) if variant in op.variants]
    return functions + [METHODS[name].__doc__ for name in forms if name in METHODS]


def unbroken(text):
    """A text whose errors have one line each."""
    return text.replace("\n            ", " ")


def run(text, name):
    examples = doctest.DocTestParser().get_doctest(text, {"torch": torch}, name, None, None)
    said = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        doctest.DocTestRunner(verbose=False).run(examples, out=said.append)
    assert not said, "".join(said)
    return [example.source for example in examples.examples]


@pytest.mark.parametrize("op", OPERATORS, ids=lambda op: op.name)
def test_dtypes_and_errors_are_told(op):
    for text in texts(op):
        assert "\nElement types: " in text and "\nDerivative: " in text
        whole = unbroken(text)
        for _, kind, sentence in op.errors:
            assert f"\n        {kind}: {sentence.splitlines()[0]}" in whole
        # A word may be longer than a line.
        sentences = [line.strip() for line in text.splitlines() if line.startswith("        ")]
        assert all(len(line) <= 112 or " " not in line[:112] for line in sentences), text


def test_what_help_shows_of_a_function():
    shown = torch.add.__doc__.split("\n\n")
    assert shown[0] == "Adds `other`, scaled by `alpha`, to `input`."
    assert shown[-2].splitlines()[:3] == [
        "Broadcast together: `input`, `other`.",
        "Element types: uint8, int8, int16, int32, int64, float16, float32, float64, complex32, complex64, complex128, bool,",
        "    bfloat16.",
    ]
    assert shown[-1].splitlines()[-2:] == [
        "    add(t(5, 2, 4), t(3, 1))",
        "        RuntimeError: The size of tensor a (2) must match the size of tensor b (3) at non-singleton dimension 1",
    ]
    assert "\n    t(5, 2, 4).add(t(3, 1))\n" in torch.Tensor.add.__doc__


@pytest.mark.parametrize("name", IN_PLACE)
def test_methods_in_place_say_so_and_show_it(name):
    text = METHODS[name].__doc__
    assert "In place: the tensor becomes the result of `" in text
    calls = run(text, name)
    assert name.startswith("_") or any(f".{name}(" in call for call in calls), text


@pytest.mark.parametrize(
    "name", sorted(name for name, function in FUNCTIONS.items() if "In place: " in (function.__doc__ or ""))
)
def test_functions_in_place_show_it(name):
    calls = run(FUNCTIONS[name].__doc__, name)
    assert any(f"{name}(" in call or f".{name.rpartition('.')[2]}(" in call for call in calls)


def test_what_overloads_share_is_told_once():
    text = torch.conv2d.__doc__
    assert text.count("The convolution (cross-correlation)") == text.count(">>> ") == text.count("Element types") == 1
    assert text.splitlines()[0].startswith("conv2d(Tensor input, ") and text.splitlines()[1].startswith("conv2d(Tensor")
    assert "Invalid padding string: 'some'" in text and "to have 3 channels, but got 2" in unbroken(text)
    both = torch.clamp_min.__doc__
    assert both.count(">>> ") == 2 and "Tensor min" in both and "Scalar min" in both
