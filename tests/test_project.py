"""Facts about the project that the documentation states."""

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


#: Blocking primitives other than `ForkMutex`, each with the reason why no fork can find it locked.
CLOSED_TO_FORKS = {
    "autograd/src/saved.rs:PARAMETER_NAMES": "set when the engine starts",
    "autograd/src/source_location.rs:SOURCE_LOCATOR": "set when the engine starts",
    "autograd/src/tensor.rs:LEFT_ALONE": "set when the engine starts",
    "core/src/counted.rs:LEFT": "of tests",
    "core/src/fork.rs:CHILD_HOOKS": "taken by the registry itself",
    "core/src/fork.rs:ENTRIES": "taken by the registry itself",
    "core/src/fork.rs:INSTALLED": "done when the engine starts",
    "core/src/fork.rs:mutex": "the registry's own",
    "core/src/storage.rs:LEFT_ALONE": "set when the engine starts",
    "cuda/src/graph.rs:state": "a child that inherits a graph is refused before it looks",
    "cuda/src/green.rs:context": "a child that inherits a context is refused before it looks",
    "cuda/src/nccl/communicator.rs:handle": "a child that inherits a communicator is refused before it looks",
    "cuda/src/pinned.rs:uses": "of a block, which a child that inherits it leaves alone",
    "cuda/src/storage.rs:others": "of a block, which a child that inherits it leaves alone",
    "dispatch/src/handled.rs:HANDLER": "set when the engine starts",
    "dist/src/client.rs:requester": "a child that inherits a client is refused before it looks",
    "dist/src/client.rs:stream": "a child that inherits a client is refused before it looks",
    "dist/src/group/mod.rs:changed": "a child that inherits a group is refused before it looks",
    "dist/src/group/mod.rs:mailbox": "a child that inherits a group is refused before it looks",
    "dist/src/group/mod.rs:mutex": "the parameter of a function",
    "dist/src/group/mod.rs:queue": "a child that inherits a group is refused before it looks",
    "dist/src/group/work.rs:changed": "a child that inherits a group is refused before it looks",
    "dist/src/group/work.rs:outcome": "a child that inherits a group is refused before it looks",
    "dist/src/server.rs:peers": "a child that inherits a server leaves it alone",
    "dist/src/table.rs:changed": "a child that inherits a table is refused before it looks",
    "dist/src/table.rs:content": "a child that inherits a table is refused before it looks",
    "io/src/zip/read.rs:pieces": "lives as long as the call that reads, on threads that the child does not have",
    "tasks/src/future.rs:value": "a child runs what its parent had begun anew",
    "par/src/job.rs:panic": "a job lives as long as the call that waits for it, on a thread that the child does not have",
    "py/src/autograd/function.rs:node": "used with the GIL held, so that nobody else can fork",
    "py/src/autograd/function.rs:noted": "used with the GIL held, so that nobody else can fork",
    "py/src/autograd/function.rs:saved": "used with the GIL held, so that nobody else can fork",
    "py/src/device_share.rs:streams": "of a block, which a child that inherits it leaves alone",
    "py/src/autograd/source_location.rs:BACK": "set with the GIL held, so that nobody else can fork",
    "py/src/autograd/source_location.rs:PACKAGE_DIR": "set with the GIL held, so that nobody else can fork",
    "py/src/autograd/source_location.rs:LASTI": "set with the GIL held, so that nobody else can fork",
    "py/src/entry.rs:CALLABLES": "set when the engine starts",
    "py/src/entry.rs:signatures": "set with the GIL held, so that nobody else can fork",
    "simd/src/testing.rs:TURN": "of tests",
    "softcuda/src/cufft.rs:PLANS": "of tests",
    "softcuda/src/machine.rs:MACHINE": "of tests",
    "softcuda/src/nccl.rs:ENTRIES": "of tests",
    "softcuda/src/nccl.rs:STARTED": "of tests",
    "stable/src/dispatcher.rs:DISPATCH": "set when the engine starts",
}


def test_no_fork_finds_a_lock_closed():
    blocking = re.compile(r"\b(\w+): (?!:)[^=\n;(]*?\b(?:Mutex|RwLock|Condvar|LazyLock|OnceLock|Once)\b")
    found = {
        f"{path.relative_to(ROOT / 'rust')}:{name}"
        for path in (ROOT / "rust").rglob("*.rs")
        if "tests" not in path.name and not {"tests", "proofs"} & set(path.parts)
        for name in blocking.findall(path.read_text())
    }
    assert found == set(CLOSED_TO_FORKS)


def test_installing_pulls_in_nothing():
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"] == []


def test_files_of_tests_have_names_of_their_own():
    """Messages and ids print the name without the folder."""
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert sorted(names) == sorted(set(names))
