"""What the papers say about the project is what the project is."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def test_every_dependency_has_a_reason():
    workspace = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["dependencies"]
    named = {name for name in workspace if not name.startswith("rushlight")}
    section = (ROOT / "CONTRIBUTING.md").read_text().split("## Dependencies")[1].split("\n## ")[0]
    assert named == set(re.findall(r"^\| `([\w-]+)` \| \S", section, re.MULTILINE))


def test_a_crate_states_its_version_nowhere_but_in_the_workspace():
    for manifest in (ROOT / "rust").glob("*/Cargo.toml"):
        crate = tomllib.loads(manifest.read_text())
        for table in ("dependencies", "dev-dependencies", "build-dependencies"):
            for name, entry in crate.get(table, {}).items():
                assert isinstance(entry, dict) and entry.get("workspace"), f"{manifest}: {name}"


def test_only_the_pool_names_rayon():
    users = [path.parent.name for path in (ROOT / "rust").glob("*/Cargo.toml") if "rayon" in path.read_text()]
    assert users == ["par"]


def test_installing_pulls_in_nothing():
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"] == []
