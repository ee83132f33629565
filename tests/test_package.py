"""`torch.package`: importers, which find modules by name and objects in them, and packages, written here or by torch."""

import inspect
import io
import json
import math
import os
import pickle
import sys
import types
import zipfile
from pathlib import Path

import pytest

import rushlight as torch
from rushlight.package import (
    GlobGroup,
    Importer,
    ObjMismatchError,
    ObjNotFoundError,
    OrderedImporter,
    PackageExporter,
    PackageImporter,
    sys_importer,
)


class Outer:
    class Inner:
        pass


@pytest.mark.parametrize(
    "value, names",
    [
        (math.sin, ("math", "sin")),
        (dict, ("builtins", "dict")),
        (torch.nn.Linear, ("rushlight.nn.modules.linear", "Linear")),
        (torch.float32, ("rushlight", "float32")),
        (Outer.Inner, (__name__, "Outer.Inner")),
    ],
)
def test_names_lead_back_to_the_object(value, names):
    for importer in (sys_importer, OrderedImporter(sys_importer)):
        assert importer.get_name(value) == names
    found = sys_importer.import_module(names[0])
    for part in names[1].split("."):
        found = getattr(found, part)
    assert found is value


def test_other_objects_and_names_are_refused():
    class Local:
        pass

    with pytest.raises(ObjNotFoundError):
        sys_importer.get_name(Local)
    with pytest.raises(ObjMismatchError):
        sys_importer.get_name(math.cos, "sin")
    with pytest.raises(ModuleNotFoundError):
        sys_importer.import_module("no.such.module")


def test_the_first_importer_that_has_a_module_is_used():
    class Own(Importer):
        def import_module(self, module_name):
            if module_name != "own":
                raise ModuleNotFoundError(module_name)
            return torch.nn

    importer = OrderedImporter(Own(), sys_importer)
    assert importer.import_module("own") is torch.nn and importer.import_module("math") is math
    with pytest.raises(ModuleNotFoundError):
        importer.import_module("no.such.module")
    with pytest.raises(ModuleNotFoundError):
        OrderedImporter().import_module("math")
    with pytest.raises(TypeError, match="3 is not a Importer"):
        OrderedImporter(3).import_module("math")
    with pytest.raises(TypeError):
        Importer()


WRITTEN_BY_TORCH = Path(__file__).parent / "data" / "package.pt"


def package(files, external=""):
    """An archive with these files, as bytes."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, text in {".data/extern_modules": external, ".data/version": "6\n", **files}.items():
            archive.writestr(f"archive/{name}", text)
    return io.BytesIO(made.getvalue())


def importer(files, external=""):
    return PackageImporter(package(files, external))


def test_a_package_of_torch_is_read():
    found = PackageImporter(WRITTEN_BY_TORCH)
    net = found.load_pickle("objects", "net.pkl")
    assert type(net).__module__ == f"{found.id()}.shapes.net" and torch.package.is_from_package(net)
    assert net(torch.ones(1, 3)).tolist() == [[4.0, 1.0]] and isinstance(net, torch.nn.Module)
    values = found.load_pickle("objects", "values.pkl")
    assert values["part"].tolist() == [2, 3, 4, 5] and values["half"].dtype == torch.float16
    assert values["part"].untyped_storage().data_ptr() == values["whole"].untyped_storage().data_ptr()
    areas = found.import_module("shapes.areas")
    assert type(values["circle"]) is areas.Circle and values["circle"].grown().radius == 5
    assert values["dtype"] is torch.int32 and found.import_module("torch") is torch
    assert areas.circle(2) == math.pi * 4 and found.import_module("shapes").areas is areas
    assert found.load_text("texts", "one.txt") == "één" and found.load_binary("texts", "two.bin") == b"\0\1"
    assert found.python_version().startswith("3.") and "math" in found.extern_modules


def test_modules_of_a_package_are_its_own():
    files = {
        "pack/__init__.py": "from . import one\nfrom .one import *",
        "pack/one.py": "import pack.two, math\n__all__ = ['x']\nx = pack.two.y + 1\ndef where(): return __name__, __file__, __package__",
        "pack/two.py": "import torch_package_importer\ny = 1",
        "pack/deep/end.py": "from ..two import y as z\nfrom ... import out",
    }
    found = importer(files, "math")
    pack = found.import_module("pack")
    assert pack.x == 2 and pack.__path__ == [] and "pack" not in sys.modules
    assert pack.one.where() == (f"{found.id()}.pack.one", f"{found.id()}.pack/one.py", "pack")
    assert pack.two.torch_package_importer is found and pack.two.__loader__ is found
    assert inspect.getsource(pack.one.where).startswith("def where()")
    with pytest.raises(ImportError, match="beyond top-level package"):
        found.import_module("pack.deep.end")
    again = importer(files, "math")
    assert again.import_module("pack") is not pack and again.id() != found.id()
    assert found.get_name(pack.one.where) == ("pack.one", "where")
    assert found.get_source("pack.two").endswith("y = 1")


def test_a_module_that_fails_is_not_kept():
    found = importer({"bad.py": "raise ValueError('inside')", "half.py": "import missing"})
    for _ in range(2):
        with pytest.raises(ValueError, match="inside"):
            found.import_module("bad")
    with pytest.raises(ModuleNotFoundError, match='No module named "missing" in self-contained archive "<binary>"'):
        found.import_module("half")
    assert set(found.modules) == {"torch_package_importer"}
    with pytest.raises(ValueError, match="Empty module name"):
        found.import_module("")


def test_external_modules_are_those_that_the_package_names():
    found = importer({"own.py": "import os.path, math\njoin = os.path.join"}, "math\nos.path\n")
    assert found.import_module("own").join is os.path.join
    with pytest.raises(ModuleNotFoundError, match="not in the list of allowed external modules: .'math', 'os.path'."):
        found.import_module("json")
    with pytest.raises(ImportError, match="needs the external module 'math' but that module has been disallowed"):
        PackageImporter(package({}, "math"), lambda name: name != "math")


def test_pickles_find_classes_in_the_package_alone():
    text = b"cjson\nloads\n."
    with pytest.raises(ModuleNotFoundError, match='No module named "json"'):
        importer({"objects/one.pkl": text}).load_pickle("objects", "one.pkl")
    found = importer({"objects/one.pkl": text}, "json").load_pickle("objects", "one.pkl")
    assert found is json.loads


def test_files_are_listed():
    found = importer({"pack/a.txt": "", "pack/b/c.txt": "", "d.py": ""})
    tree = found.file_structure(exclude=".data/*")
    assert str(tree) == (
        "─── <binary>\n    ├── pack\n    │   ├── b\n    │   │   └── c.txt\n    │   └── a.txt\n    └── d.py\n"
    )
    assert tree.has_file("pack/b/c.txt") and not tree.has_file("pack/b") and not tree.has_file("e")
    reader = found.get_resource_reader("pack")
    assert reader.contents() == ["a.txt", "b"] and reader.is_resource("a.txt") and not reader.is_resource("c.txt")
    assert reader.open_resource("a.txt").read() == b"" and found.get_resource_reader("d") is None
    assert not GlobGroup(["a.*", "b.**"], exclude="b.c").matches("a.b.c") and GlobGroup("b.**").matches("b")
    with pytest.raises(ValueError, match="can only appear as an entire path segment"):
        GlobGroup("a**")


def test_a_folder_is_a_package(tmp_path):
    with zipfile.ZipFile(WRITTEN_BY_TORCH) as archive:
        archive.extractall(tmp_path)
    (tmp_path / "secret.txt").write_text("out of reach")
    found = PackageImporter(next(path for path in tmp_path.iterdir() if path.is_dir()))
    assert found.load_pickle("objects", "net.pkl").layer.bias.tolist() == [1.0, -100.0]
    with pytest.raises(RuntimeError, match="failed locating file"):
        found.zip_reader.read("../secret.txt")
    with pytest.raises(ValueError, match="must be only a file name"):
        found.load_text("texts", "../one.txt")
    with pytest.raises(TypeError, match="is not a package"):
        found.load_text("shapes.areas", "one.txt")


def test_damaged_archives_are_refused():
    whole = WRITTEN_BY_TORCH.read_bytes()
    for damaged in (b"", b"PK\3\4", whole[: len(whole) // 2], whole[:40] + b"\xff" * 40 + whole[80:]):
        with pytest.raises(RuntimeError, match="PytorchStreamReader failed"):
            found = PackageImporter(io.BytesIO(damaged))
            for name in found.zip_reader.names():
                found.zip_reader.read(name)
    with pytest.raises(RuntimeError, match="No such file or directory, file path: nowhere.pt"):
        PackageImporter("nowhere.pt")
    short = b"\x80\x02(X\x07\0\0\0storagectorch\nFloatStorage\nX\1\0\0\x000X\3\0\0\0cpuM\xff\x7ftQ."
    with pytest.raises(RuntimeError, match="has 4 bytes, not 32767 elements"):
        importer({"objects/one.pkl": short, ".data/0.storage": "four"}).load_pickle("objects", "one.pkl")
    with pytest.raises(pickle.UnpicklingError, match="Unknown typename for persistent_load"):
        importer({"objects/one.pkl": b"\x80\x02X\1\0\0\0a\x85Q."}).load_pickle("objects", "one.pkl")


def test_objects_may_be_made_by_the_importer():
    made = "def make(importer, *given):\n    return importer, given"
    text = b"\x80\x02(X\x0e\0\0\0reduce_packageK\1cown\nmake\nK\2K\3\x86tQ."
    found = importer({"objects/one.pkl": text, "own.py": made})
    assert found.load_pickle("objects", "one.pkl") == (found, (2, 3))


SOURCES = {
    "wrapped/__init__.py": "from . import net",
    "wrapped/net.py": (
        "import torch, math\nfrom .tools import scales\nfrom helpers import Plot, draw\n\nclass Net(torch.nn.Module):\n"
        "    class Inner:\n        kept = 3\n    def __init__(self):\n        super().__init__()\n"
        "        self.weight = torch.nn.Parameter(torch.ones(2, 3))\n        self.row = self.weight.data[1]\n"
        "    def forward(self, x):\n        return x @ self.weight * scales.twice(math.pi)\n    def plot(self):\n        return draw(self)\n"
    ),
    "wrapped/tools/__init__.py": "",
    "wrapped/tools/scales.py": "import torch.nn.functional as F\n__import__('json')\ndef twice(x):\n    return 2 * x\n",
    "helpers.py": "class Plot:\n    pass\ndef draw(net):\n    return 1\n",
}


@pytest.fixture
def sources(tmp_path, monkeypatch):
    """A program of several modules, in which torch is rushlight."""
    for name, text in SOURCES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    for name in [name for name in sys.modules if name == "torch" or name.startswith("torch.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", torch)
    for name in ("nn", "nn.functional"):
        monkeypatch.setitem(sys.modules, f"torch.{name}", sys.modules[f"rushlight.{name}"])
    yield tmp_path
    for name in [name for name in sys.modules if name.partition(".")[0] in ("wrapped", "helpers")]:
        del sys.modules[name]


def write(*steps, **options):
    """The package that these steps make, and its exporter."""
    file = io.BytesIO()
    with PackageExporter(file, **options) as exporter:
        for step in steps:
            step(exporter)
    return io.BytesIO(file.getvalue()), exporter


def made(exporter):
    return exporter.importer.import_module("wrapped.net").Net()


def whole(exporter):
    exporter.mock("helpers")
    exporter.intern("wrapped.**")
    exporter.save_pickle("objects", "net.pkl", made(exporter))


def test_a_package_is_written_and_read(sources):
    def more(exporter):
        net = made(exporter)
        exporter.save_pickle("objects", "pair.pkl", (net.weight, net.weight.detach()[0], net.Inner, torch.int8))
        exporter.save_text("texts", "one.txt", "één")
        exporter.save_binary("texts", "two.bin", b"\0\1")

    file, exporter = write(whole, more)
    assert exporter.interned_modules() == ["wrapped.net", "wrapped.tools.scales"]
    assert exporter.mocked_modules() == ["helpers"] and exporter.denied_modules() == []
    assert (
        exporter.externed_modules() == "builtins collections json math torch torch._utils torch.nn.functional".split()
    )
    assert exporter.get_rdeps("wrapped.net") == ["<objects.net.pkl>", "<objects.pair.pkl>"]
    assert '"wrapped.net" -> "wrapped.tools.scales";\n' in exporter.dependency_graph_string()
    path = exporter.all_paths("<objects.net.pkl>", "json")
    assert '"wrapped.tools.scales" -> "json";' in path and "helpers" not in path
    found = PackageImporter(file)
    net = found.load_pickle("objects", "net.pkl")
    assert type(net).__module__ == f"{found.id()}.wrapped.net"
    assert torch.equal(net(torch.ones(1, 2)), torch.full((1, 3), 4 * math.pi))
    assert net.row.untyped_storage().data_ptr() == net.weight.untyped_storage().data_ptr()
    weight, row, inner, dtype = found.load_pickle("objects", "pair.pkl")
    assert row.untyped_storage().data_ptr() == weight.untyped_storage().data_ptr() and dtype is torch.int8
    assert inner is type(net).Inner and found.load_text("texts", "one.txt") == "één"
    assert found.load_binary("texts", "two.bin") == b"\0\1" and found.python_version().startswith("3.")
    with pytest.raises(
        NotImplementedError, match="helpers.draw' was mocked out during packaging but it is being used in __call__"
    ):
        net.plot()
    mocked = found.import_module("helpers").Plot
    assert repr(mocked) == f"MockedObject({found.id()}.helpers.Plot)"
    for use in (
        lambda: mocked.x,
        lambda: mocked + 1,
        lambda: bool(mocked),
        lambda: types.new_class("Own", (mocked,)),
        lambda: len(mocked),
    ):
        with pytest.raises(NotImplementedError, match="was mocked out during packaging"):
            use()


def test_what_was_packaged_is_packaged_again(sources):
    first = PackageImporter(write(whole)[0])
    net = first.load_pickle("objects", "net.pkl")

    def again(exporter):
        exporter.mock("helpers")
        exporter.intern("wrapped.**")
        exporter.save_pickle("objects", "net.pkl", net)

    second = PackageImporter(write(again, importer=(first, sys_importer))[0])
    copied = second.load_pickle("objects", "net.pkl")
    assert type(copied).__module__ == f"{second.id()}.wrapped.net" and torch.equal(copied.weight, net.weight)
    with pytest.raises(pickle.PicklingError):
        write(again)
    with pytest.raises(AssertionError, match="Directly saving torch.package'd modules is not allowed"):
        write(lambda exporter: exporter.save_source_string("<torch_package_0>.own", ""))


def test_modules_that_cannot_be_in_a_package_are_named_with_the_reason(sources):
    def refused(*steps, **options):
        with pytest.raises(torch.package.PackagingError) as caught:
            write(*steps, **options)
        return str(caught.value)

    debug = "\n\nSet debug=True when invoking PackageExporter for a visualization of where broken modules are coming from!\n"
    save = lambda exporter: exporter.save_module("wrapped.net")
    no_action = "\n* Module did not match against any action pattern. Extern, mock, or intern it.\n    "
    assert refused(save) == f"{no_action}wrapped.tools.scales\n    helpers{debug}"
    sentence = refused(lambda exporter: exporter.intern("wrapped.**"), save, debug=True)
    assert sentence == f"{no_action}helpers\n      A path to helpers: wrapped.net -> helpers\n"
    assert refused(lambda exporter: (exporter.deny("helpers"), exporter.intern("**"), save(exporter))) == (
        f"\n* Module was denied by a pattern.\n    helpers{debug}"
    )
    sentence = refused(lambda exporter: (exporter.mock("**"), exporter.save_pickle("a", "b", made(exporter))))
    assert sentence == (
        "\n* Module was mocked out, but is still being used in the package. Please intern or extern the mocked modules if "
        "objects are supposed to be in the package.\n    wrapped.net\n      Context: Object(s) '['Net']' from module "
        f"`wrapped.net` was mocked out during packaging but is being used in resource - `b` in package `a`. {debug}"
    )
    sentence = refused(lambda exporter: exporter.save_source_string("own", "def ("))
    assert sentence.startswith("\n* Dependency resolution failed.\n    own\n      Context: invalid syntax")
    sentence = refused(
        lambda exporter: (exporter.intern("**"), exporter.save_source_string("own", "import sys, rushlight._C"))
    )
    assert sentence.startswith(
        "\n* Module had no __file__ defined.\n    sys\n      Note: While we usually use modules in the python"
    )
    sentence = refused(lambda exporter: exporter.save_module("rushlight._C"))
    assert (
        sentence
        == f"\n* Module is a C extension module. torch.package supports Python modules only.\n    rushlight._C{debug}"
    )


def test_patterns_that_must_match_and_hooks(sources):
    with pytest.raises(torch.package.EmptyMatchError) as caught:
        write(
            lambda exporter: (
                exporter.intern("wrapped.**", allow_empty=False),
                exporter.extern(["a", "b"], exclude="a"),
            )
        )
    assert str(caught.value) == (
        "Exporter did not match any modules to GlobGroup(include=wrapped.**, exclude=()), which was marked as allow_empty=False"
    )
    seen = []

    def hooked(exporter):
        exporter.register_intern_hook(lambda exporter, name: seen.append(("intern", name)))
        exporter.register_mock_hook(lambda exporter, name: seen.append(("mock", name)))
        exporter.register_extern_hook(lambda exporter, name: seen.append(("extern", name)))
        exporter.register_extern_hook(lambda exporter, name: pytest.fail("was removed")).remove()
        exporter.intern("wrapped.**", allow_empty=False)

    write(hooked, whole)
    assert seen[:2] == [("intern", "<objects.net.pkl>"), ("intern", "wrapped.net")]
    assert ("mock", "helpers") in seen and ("extern", "json") in seen


def test_sources_are_saved_by_file_folder_and_text(sources):
    def steps(exporter):
        exporter.mock("helpers")
        exporter.intern("wrapped.**")
        exporter.save_source_file("copied", str(sources / "wrapped"))
        exporter.save_source_file("other", sources / "helpers.py", dependencies=False)
        exporter.save_source_string(
            "pack", "from . import part, value\nimport nowhere\n__import__(value)\nvalue = 1", is_package=True
        )
        exporter.save_source_string("pack.part", "x = 2")

    file, exporter = write(steps)
    assert "wrapped.tools.scales" not in exporter.interned_modules()
    names = set(PackageImporter(file).zip_reader.names())
    assert {
        "copied/__init__.py",
        "copied/net.py",
        "copied/tools/__init__.py",
        "copied/tools/scales.py",
        "other.py",
    } <= names
    assert exporter.get_rdeps("nowhere") == []
    with pytest.raises(FileNotFoundError):
        write(lambda exporter: exporter.save_source_file("none", "nowhere.py"))


def test_an_exporter_refuses_what_it_cannot_write(sources, tmp_path):
    with pytest.raises(TypeError, match=r"save_module\(\) expects a string input"):
        write(lambda exporter: exporter.save_module(math))
    with pytest.raises(ValueError, match="'../x' must be only a file name"):
        write(lambda exporter: exporter.save_pickle("a", "../x", 1))
    for protocol in (None, 0, 2, 5, "x"):
        with pytest.raises(AssertionError, match="^torch.package only supports pickle protocols 3 and 4, got "):
            write(lambda exporter, protocol=protocol: exporter.save_pickle("a", "b", 1, pickle_protocol=protocol))
    with pytest.raises(RuntimeError, match="^PytorchStreamWriter failed writing file"):
        write(lambda exporter: exporter.save_text("a", "", "c"))
    with pytest.raises(AssertionError, match="Tried to write file 'a/b', but it already exists in this archive"):
        write(lambda exporter: (exporter.save_text("a", "b", "c"), exporter.save_text("a", "b", "c")))
    with pytest.raises(pickle.PicklingError, match="Can't pickle <function"):
        write(lambda exporter: exporter.save_pickle("a", "b", lambda: 1))
    _, closed = write()
    with pytest.raises(AssertionError):
        closed.close()
    with pytest.raises(AttributeError, match="no attribute 'zip_file'"):
        closed.save_text("a", "b", "c")
    path = tmp_path / "kept.pt"
    with PackageExporter(path) as exporter:
        exporter.save_text("a", "b", "old")
    with zipfile.ZipFile(path) as archive:
        assert archive.namelist()[0] == "kept/a/b"
    for fails in (lambda exporter: 1 / 0, lambda exporter: exporter.extern("none", allow_empty=False)):
        with pytest.raises((ZeroDivisionError, torch.package.EmptyMatchError)), PackageExporter(path) as exporter:
            exporter.save_text("a", "b", "new")
            fails(exporter)
        assert PackageImporter(path).load_text("a", "b") == "old"
    assert sorted(tmp_path.glob("*kept*")) == [path]


class Made:
    def __reduce_package__(self, exporter):
        name = f"made{exporter.get_unique_id()}"
        exporter.save_source_string(name, "value = 7")
        return found_in, (name,)


def found_in(importer, name):
    return importer.import_module(name).value


def test_objects_say_how_the_importer_makes_them():
    one = Made()
    steps = lambda exporter: (exporter.extern(__name__), exporter.save_pickle("a", "b", [one, one], pickle_protocol=4))
    assert PackageImporter(write(steps)[0]).load_pickle("a", "b") == [7, 7]
