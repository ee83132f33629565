"""Compares every message of the table's invalid calls with `tests/data/messages.txt`.

A changed message, shape or hint changes a line of that file. Read the changes before you commit them:

    python tests/ops/test_messages.py    # writes the file again
"""

import re
from pathlib import Path

import pytest
from table_cases import OPERATORS, call, draw

import rushlight as torch

SNAPSHOT = Path(__file__).parent.parent / "data" / "messages.txt"


def messages(op):
    """The operator's invalid calls, each with the class and the lines of its exception."""
    dtype = next((d for d in ("float32", "int64", "bool", "complex64") if d in op.dtypes), "float32")
    for sample, *_ in op.errors:
        try:
            args, kwargs = draw(op, sample, dtype)
            call(op.function(), args, kwargs)
        except Exception as error:
            lines = str(error).split("\n")
            yield f"{op.full_name()}({sample})\n    {type(error).__name__}: " + "\n    ".join(lines)


def snapshot():
    return "\n".join(sorted(message for op in OPERATORS for message in messages(op))) + "\n"


def test_messages_are_those_that_were_read():
    assert snapshot() == SNAPSHOT.read_text()


# torch's messages contain these words if they say what is expected.
WANTED = re.compile(
    r"\b(must|should|expect\w*|need\w*|range|supports?|supported|only|requires?|required|at least|or fewer|ha[sv]e? to|greater|less"
    r"|larger|non-empty|may not be|to be|to have|between|unique|same|match|Specify|received an invalid combination|not implemented for)\b",
    re.IGNORECASE,
)


def test_every_message_shows_a_way_out():
    """What is expected is in torch's message, or on a separate line after the shapes."""
    lost = []
    for message in re.split(r"\n(?=\S)", SNAPSHOT.read_text().rstrip()):
        call, sentence, *rest = message.split("\n")
        way_out = any(re.match(r" {6}(?! |in )", line) for line in rest)
        if not call.startswith("_") and not way_out and not WANTED.search(sentence):
            lost.append(message)
    assert not lost, "\n".join(lost)


@pytest.mark.parametrize("name", ["nan_to_num", "nn.functional.gelu"])
def test_out_is_refused_by_the_name_that_was_called(name):
    """Also if another operator does the work."""
    *path, own = name.split(".")
    function = torch._C._functions[".".join(path)][own]
    with pytest.raises(RuntimeError, match=rf"^{own}\(\): functions with out=... arguments don't support automatic"):
        function(torch.ones(2, requires_grad=True), out=torch.ones(2))


if __name__ == "__main__":
    SNAPSHOT.write_text(snapshot())
