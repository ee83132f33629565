"""Table tests that are known to fail: marked by `known_failures.txt`, which may only shrink."""

from pathlib import Path

import pytest


def pytest_collection_modifyitems(items):
    lines = (Path(__file__).parent / "known_failures.txt").read_text().splitlines()
    known = dict((*line.split(), "")[:2] for line in lines if line and not line.startswith("#"))
    for item in items:
        if item.path.name == "test_table.py" and item.name.startswith("test_meta["):
            # Some rows still read memory that a tensor on `meta` does not have, which ends the process.
            item.add_marker(pytest.mark.xfail(reason="meta is not safe for every row yet", run=False))
        elif item.path.name == "test_table.py" and item.name in known:
            crashes = known[item.name] == "crash"
            reason = "listed in known_failures.txt"
            item.add_marker(pytest.mark.xfail(reason=reason, run=not crashes, strict=False))
