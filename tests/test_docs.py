"""Tests of the README and the docs: every Python block runs and prints the text block after it, and every link, anchor and path
on a page exists."""

import contextlib
import io
import re
import sys
from pathlib import Path

import pytest

import rushlight as torch

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = [ROOT / name for name in ("benches", "docs", "examples", "python", "rust", "tests")]
FILES = [
    *(path for path in ROOT.iterdir() if path.is_file()),
    *(path for folder in FOLDERS for path in folder.rglob("*")),
]
PAGES = sorted(path for path in FILES if path.suffix == ".md")
#: All paths. A page may name a file by the end of its path.
PLACES = {f"/{path.relative_to(ROOT)}" for path in [*FILES, *FOLDERS]}
#: Paths that programs write. They are not in the repository.
EXAMPLES = {"runs/digits"}
BLOCK = re.compile(r"^```python\n(?P<code>.*?)^```\n(?:\n```text\n(?P<printed>.*?)^```$)?", re.DOTALL | re.MULTILINE)


def blocks():
    for page in PAGES:
        text = page.read_text()
        for match in BLOCK.finditer(text):
            line = text.count("\n", 0, match.start()) + 2
            yield pytest.param(page, line, match["code"], match["printed"], id=f"{page.name}:{line}")


@pytest.mark.parametrize(("page", "line", "code", "printed"), list(blocks()))
def test_block(page, line, code, printed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "examples").symlink_to(ROOT / "examples")  # programs run in a checkout
    program = compile("\n" * (line - 1) + code, str(page), "exec")  # tracebacks name the page's line
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(program, {"__name__": "__main__"})
    if printed is not None:
        assert output.getvalue() == printed


def anchors(page):
    """The anchors of a page: its headings, as GitHub writes them in addresses."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


@every_page
def test_links_lead_somewhere(page):
    for target, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", page.read_text()):
        goal = page.parent / target if target else page
        assert goal.exists(), f"{page.name} links to {target}"
        assert not anchor or anchor in anchors(goal), f"{page.name} links to #{anchor} of {target}"


@every_page
def test_paths_exist(page):
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    named = re.findall(r"`((?:[\w-]+/)+[\w.-]*|[\w-]+\.(?:rs|py|md|toml))`", text)
    ends = {path: f"/{path.rstrip('/')}" for path in named if path not in EXAMPLES}
    lost = [path for path, end in ends.items() if not any(place.endswith(end) for place in PLACES)]
    assert not lost, "no such file"


UNSUPPORTED = (ROOT / "docs/conformance.md").read_text().split("## Unsupported arguments")[1].split("\n## ")[0]


@pytest.mark.parametrize(
    ("call", "alternative"), re.findall(r"^\| `(.*?)` \|(?: `(.*)`)? \|$", UNSUPPORTED, re.MULTILINE)
)
def test_unsupported_arguments_raise(call, alternative):
    x = torch.arange(16.0).reshape(4, 4) + 16 * torch.eye(4)
    names = {"torch": torch, "x": x, "s": x.to_sparse()}
    with pytest.raises((NotImplementedError, RuntimeError, TypeError)):
        eval(call, names)
    if alternative:
        eval(alternative, names)


def resolves(name):
    """Whether a dotted name that begins with ``torch`` exists, and is not a name that only refuses calls."""
    found = torch
    for part in name.split(".")[1:]:
        try:
            found = getattr(found, part)
        except AttributeError:
            return False
    return not getattr(found, "__unsupported__", False)


def test_the_table_of_what_works_is_honest():
    table = (ROOT / "README.md").read_text().split("## What works today")[1].split("\n\n")[1]
    for row in table.splitlines()[2:]:
        _, works, lacks = row.strip("| ").split(" | ")
        for name in re.findall(r"`(torch\.[\w.]+)`", works):
            assert resolves(name), f"{name} does not work"
        for name in re.findall(r"`(torch\.[\w.]+)`", lacks):
            assert not resolves(name), f"{name} works"


def test_what_is_listed_as_missing_is_what_is_missing():
    page = (ROOT / "docs/coverage.md").read_text()
    tiers: list[list[str]] = []
    for line in (ROOT / "rust/dev/tiers.txt").read_text().splitlines():
        if line.startswith("= "):
            tiers.append([])
        elif line and not line.startswith("#"):
            tiers[-1] += ["torch." + re.sub(r"^F\.", "nn.functional.", name) for name in line.split()]
    missing = {name for tier in tiers for name in tier if not resolves(name)}
    assert sum(map(len, tiers)) > 1000
    assert set(re.findall(r"`(torch\.[\w.]+)`", page)) == missing, "run `cargo dev coverage`"
    counts = [(len(tier), len(tier) - len(missing & set(tier))) for tier in tiers]
    assert [(int(a), int(b)) for a, b in re.findall(r"\| Tier \d \| (\d+) \| (\d+) \|", page)] == counts
