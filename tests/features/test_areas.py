"""Every row of the areas of this folder has a test that bears its id, or stands here with the reason why not."""

import re
from pathlib import Path

import pytest

#: How many rows each area has, and the file that shows them.
AREAS = {
    "BRO": (19, "test_broadcasting.py"),
    "IDX": (18, "test_indexing.py"),
    "OPS": (23, "test_operators.py"),
    "TEN": (17, "test_tensors.py"),
}

#: Rows that no test here shows. This list may only shrink.
WITHOUT_TEST = {}


@pytest.mark.parametrize("area", AREAS)
def test_every_row_is_shown(area):
    count, file = AREAS[area]
    text = (Path(__file__).parent / file).read_text()
    shown = [(name.upper(), int(number)) for name, number in re.findall(r"^def test_([a-z]{3})_(\d+)_", text, re.M)]
    rows = [(area, number) for number in range(1, count + 1)]
    absent = [row for row in rows if "{}-{}".format(*row) in WITHOUT_TEST]
    assert sorted({*shown, *absent}) == rows
    assert not set(shown) & set(absent), "shown, and yet called absent"
    assert shown == sorted(shown), "in the order of the table"
