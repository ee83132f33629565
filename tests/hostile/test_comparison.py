"""The comparison with torch finds what differs. Here rushlight is on both sides, once with a fault, so torch is not needed."""

import pytest

pytest.importorskip("numpy")

from calls import ROWS, Call, fuzzed, sweep
from compare_operators import group, known, pattern, summary
from compared import Verdict, verdict

import rushlight as torch

pytestmark = pytest.mark.filterwarnings("ignore")


class Faulty:
    """The module with another `add`."""

    def __init__(self, add):
        self.add = add

    def __getattr__(self, name):
        return getattr(torch, name)


ADD = Call("add", "t(2, 3), t(3)", "float32")


def test_a_module_agrees_with_itself():
    found = [verdict(torch, fuzzed(0, number)) for number in range(0, 40_000, 97)]
    assert {one.differs for one in found if one} == {""} and {one.ending for one in found if one} == {
        "answered",
        "refused",
    }


def refuse(said):
    def function(x, y):
        raise said

    return function


def answer(change):
    return lambda x, y: change(torch.add(x, y))


@pytest.mark.parametrize(
    ("differs", "add"),
    [
        ("value", answer(lambda made: made + 1)),
        ("dtype", answer(lambda made: made.double())),
        ("shape", answer(lambda made: made[:1])),
        ("kind", answer(lambda made: [made, made])),
        ("strides", answer(lambda made: made.t().contiguous().t())),
        ("requires_grad", answer(lambda made: made.requires_grad_())),
        ("value", lambda x, y: torch.add(x, y.zero_()) * 0 + torch.add(x, y)),
        ("answered", refuse(ValueError("no"))),
    ],
)
def test_what_differs_between_answers(differs, add):
    assert verdict(Faulty(add), ADD).differs == differs


def test_what_differs_between_refusals():
    wrong = ADD._replace(arguments="t(2), t(3)")
    assert verdict(torch, wrong).differs == ""
    assert verdict(Faulty(refuse(TypeError("no"))), wrong).differs == "class"
    assert verdict(Faulty(refuse(RuntimeError("The size of tensor a"))), wrong).differs == "sentence"
    assert verdict(Faulty(answer(lambda made: made)), ADD._replace(arguments="t(2), 'a'")).differs == ""
    assert verdict(Faulty(lambda x, y: x), wrong).differs == "refused"


def test_a_call_without_counterpart_is_not_compared():
    assert verdict(torch, Call("nothing", "t(2)", "float32")) is None
    assert verdict(torch, Call("add", "t(2).reshape(3), 1", "float32")) is None
    assert verdict(torch, Call("Tensor.add", "1, 2", "float32")) is None


def test_a_result_of_any_number_of_elements_is_compared():
    assert verdict(torch, Call("Tensor.expand", "t(2, 1), (2, 2 ** 53)", "float32")).differs == ""
    assert verdict(torch, Call("Tensor.expand", "t().conj(), (2 ** 31, 2)", "complex64")).differs == ""


def test_calls_repeat():
    assert [fuzzed(3, number) for number in range(200)] == [fuzzed(3, number) for number in range(200)]
    assert len({fuzzed(3, number) for number in range(200)}) > 150


def test_the_sweep_reaches_every_argument():
    of_add = {call.arguments for call in sweep([row for row in ROWS if row.op.name == "add"])}
    assert {
        "t(2, 3), None, alpha=2",
        "None, t(), alpha=2",
        "t(2, 3), alpha=2",
        "t(2, 3), t().to('meta'), alpha=2",
    } <= of_add


def test_findings_of_one_cause_are_one_group():
    def found(name, said):
        return Verdict("sentence", "refused", [name, "", "float32"], f"TypeError: {name}(): no", f"TypeError: {said}")

    one = found("add", "add(): argument 'other' (position 2) must be Tensor, not list")
    other = found("mul", "mul(): argument 'input' (position 1) must be Tensor, not list")
    assert group(one) == group(other)
    assert (
        pattern("size [2, 3] of torch.float32") == pattern("size [4] of torch.int64") != pattern("size of torch.int64")
    )
    counts = {
        "both answered": 0,
        "both refused": 4,
        "one refused": 0,
        "crash": 0,
        "left out": 0,
        "class": 1,
        "sentence": 2,
    }
    text = "\n".join(summary(counts, {group(one): [one, other]}, 5))
    assert "agree in class 75.00%, also in the first line 25.00%" in text and "2 sentence, 2 names" in text


def test_what_torch_does_wrong_is_left_out():
    def found(differs, ours, theirs):
        return Verdict(differs, "answered", ["add", "t(2), t(2).to('meta')", "float32"], ours, theirs)

    apart = "RuntimeError: Tensor on device meta is not on the expected device cpu!"
    on_cpu, on_meta = (f"[[Tensor(dtype='float32', device='{device}'" for device in ("cpu", "meta"))
    assert "memory" in known(found("refused", apart, on_cpu))
    assert "shape functions" in known(found("refused", apart, on_meta))
    assert not known(found("refused", "RuntimeError: no", "[...]"))
    assert known(found("crash", "", "ended with -11"))
    assert not known(found("crash", "ended with -11", ""))
    assert known(found("answered", "[...]", "NotImplementedError: \"add\" not implemented for 'Half'"))
    assert not known(found("", apart, apart))
