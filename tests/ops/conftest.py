"""Table tests that are known to fail: listed in `known_failures.txt`, which may only shrink."""

from pathlib import Path

import pytest


def pytest_collection_modifyitems(items):
    lines = (Path(__file__).parent / "known_failures.txt").read_text().splitlines()
    known = {line for line in lines if line and not line.startswith("#")}
    for item in items:
        if item.path.name.startswith("test_table_") and item.name in known:
            item.add_marker(pytest.mark.xfail(reason="listed in known_failures.txt", strict=True))
